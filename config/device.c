// device.c - questions about a job's devices, and a worker's first step: it reads the job that the
// broker sent, and takes the cores of its device.
#include "config/parse_internal.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/device/cores.h"

// A GPU's device whose cores nobody has named: those that there are, as many as a device can have.
static int take_any_cores(struct sl_device_config *device)
{
    struct sl_cores allowed;
    SL_TRY(sl_cores_allowed(&allowed));
    device->n_cores = sl_cores_list(&allowed, device->cores, SL_CONFIG_MAX_CORES);
    return SL_OK;
}

int sl_config_take_device(const char *text, size_t length, uint32_t device, const char *who,
                          struct sl_config *out)
{
    SL_TRY(sl_config_parse(text, length, "job from the broker", out));
    if (device >= out->n_devices)
        return sl_fail(SL_EINVAL, "%s: device %u of a job with %u", who, device, out->n_devices);
    if (out->devices[device].n_cores == 0)
        SL_TRY(take_any_cores(&out->devices[device]));
    sl_cores_long_slices();
    return sl_device_pin(out->devices[device].cores, out->devices[device].n_cores);
}

bool sl_config_may_train(const struct sl_config *c, uint32_t device)
{
    const uint32_t n = c->n_devices, most = SL_MAX(sl_parse_most_trainers(c), 1u);
    return device < n &&
           (device >= n - SL_MIN(most, n) ||
            (c->allocation.switching && c->devices[device].kind == c->devices[n - 1].kind));
}

bool sl_config_trains_on(const struct sl_config *c, enum sl_device_kind kind)
{
    for (uint32_t d = 0; d < c->n_devices; d++)
        if (c->devices[d].kind == kind && sl_config_may_train(c, d))
            return true;
    return false;
}

uint64_t sl_config_on_gpu(const struct sl_config *c, uint32_t device)
{
    const struct sl_device_config *gpu = &c->devices[device];
    uint64_t found = 0;
    for (uint32_t d = 0; gpu->kind == SL_DEVICE_CUDA && d < c->n_devices; d++)
        if (c->devices[d].kind == SL_DEVICE_CUDA && c->devices[d].index == gpu->index)
            found |= (uint64_t)1 << d;
    return found;
}

bool sl_config_trains_beside(const struct sl_config *c, uint32_t device)
{
    const uint64_t others = sl_config_on_gpu(c, device) & ~((uint64_t)1 << device);
    return others != 0 || c->allocation.switching || c->n_devices == 1;
}

enum sl_precision_kind sl_config_precision(const struct sl_config *c)
{
    const bool cores = sl_config_trains_on(c, SL_DEVICE_CPU);
    const bool gpus = sl_config_trains_on(c, SL_DEVICE_CUDA);
    switch (c->precision) {
    case SL_CONFIG_FP32:
    case SL_CONFIG_BF16: return c->precision;
    case SL_CONFIG_TF32: return gpus ? SL_CONFIG_TF32 : SL_CONFIG_FP32;
    case SL_CONFIG_PRECISION_AUTO: break;
    }
    return gpus && !cores ? SL_CONFIG_TF32 : SL_CONFIG_FP32;
}
