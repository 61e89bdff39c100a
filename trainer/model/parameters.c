#include "trainer/model/parameters.h"

#include "common/base/error.h"

int sl_parameters_init(struct sl_parameters *p, const struct sl_device *device, uint64_t n_params,
                       struct sl_rounded_weights *rounded, bool apart)
{
    const bool there = !device->is_host;
    *p = (struct sl_parameters){.device = device, .n_params = n_params, .rounded = rounded};
    p->copy = there ? device->memory.alloc(n_params * sizeof *p->copy) : NULL;
    if (there ? p->copy != NULL : apart)
        p->gradient = device->memory.alloc(n_params * sizeof *p->gradient);
    if (p->gradient || (!there && !apart))
        return SL_OK;
    sl_parameters_fini(p);
    return sl_fail_prefix(SL_ENOMEM, "trainer: parameters and gradient on the device");
}

// Of the copy, or of nothing.
static int round_weights(const struct sl_parameters *p, const float *params)
{
    return p->rounded ? sl_rounded_weights_take(p->rounded, params) : SL_OK;
}

void sl_parameters_fini(struct sl_parameters *p)
{
    round_weights(p, NULL);
    if (p->copy)
        p->device->memory.free(p->copy, p->n_params * sizeof *p->copy);
    if (p->gradient)
        p->device->memory.free(p->gradient, p->n_params * sizeof *p->gradient);
    *p = (struct sl_parameters){0};
}

uint64_t sl_parameters_bytes(const struct sl_parameters *p)
{
    return p->copy ? 2 * p->n_params * sizeof *p->copy : 0;
}

int sl_parameters_take(struct sl_parameters *p, enum sl_parameters_name name, uint64_t stamp,
                       const float *board, const float **out)
{
    *out = p->copy;
    if (!p->copy) {
        *out = board;
        return SL_OK;
    }
    if (p->name == name && p->stamp == stamp)
        return SL_OK;
    p->name = SL_PARAMETERS_NONE;
    SL_TRY(round_weights(p, NULL));
    SL_TRY(p->device->copy(p->copy, board, p->n_params * sizeof *p->copy));
    SL_TRY(round_weights(p, p->copy));
    p->name = name;
    p->stamp = stamp;
    return SL_OK;
}

float *sl_parameters_gradient(const struct sl_parameters *p, float *slot)
{
    return p->gradient ? p->gradient : slot;
}

int sl_parameters_deliver(const struct sl_parameters *p, float *slot)
{
    if (p->gradient)
        SL_TRY(p->device->copy(slot, p->gradient, p->n_params * sizeof *slot));
    return p->device->sync();
}
