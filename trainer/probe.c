#include "trainer/probe.h"

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/mempool.h"
#include "common/ipc/board.h"
#include "common/ipc/hot.h"
#include "common/ipc/seat.h"
#include "trainer/extract.h"
#include "trainer/gather.h"

enum {
    PROBE_WAIT_MS = 600 * 1000, // samplers load their graph meanwhile
    STEPS = 2,
};

static int wait_for_block(const struct sl_trainer_spec *spec, const struct sl_block **out)
{
    uint64_t until = sl_now_ns() + PROBE_WAIT_MS * 1000000ull;
    while (sl_now_ns() < until) {
        if (spec->stop && atomic_load_explicit(spec->stop, memory_order_relaxed))
            return SL_EABORTED;
        int rc = sl_probe_wait(spec->arena, SL_ARENA_WAIT_MS, out);
        if (rc != SL_ETIMEDOUT)
            return rc;
    }
    return sl_fail(
        SL_ETIMEDOUT,
        "trainer: waiting for a batch to measure a step with: no sampler left one in %d s",
        PROBE_WAIT_MS / 1000);
}

static uint64_t peak_bytes(const struct sl_trainer_spec *spec, const struct sl_block *block,
                           const struct sl_feature_buffer *buffer)
{
    uint64_t lists = (uint64_t)block->n_input * SL_GATHER_LISTS * sizeof(uint32_t);
    uint64_t copies = (spec->arena->h->spec.async ? 1 : 0) +           // of parameters, and
                      (spec->config->optimizer.clip_norm > 0 ? 1 : 0); // of the gradient
    uint64_t copied = copies * spec->model->n_params * sizeof(float);
    return spec->model->pool.peak_bytes + SL_EXTRACT_BUFFERS * buffer->bytes + lists + copied;
}

// Extraction and training overlap, so a batch takes the longer of the two, and never less than the
// throttle of the duty that this trainer starts with.
static uint64_t with_throttle(const struct sl_trainer_spec *spec, uint64_t extract_ns,
                              uint64_t train_ns)
{
    const struct sl_seat *seat = sl_seat(spec->arena, sl_seat_trainer(spec->arena, spec->device));
    bool standby = atomic_load_explicit(&seat->duty, memory_order_acquire) == SL_DUTY_STANDBY;
    double seconds = standby ? spec->config->throttle.standby : spec->config->throttle.train;
    return SL_MAX(extract_ns, SL_MAX(train_ns, (uint64_t)(seconds * 1e9)));
}

int sl_trainer_probe(const struct sl_trainer_spec *spec, struct sl_trainer_probe *out)
{
    int rc, armed = sl_failpoint_suspend();
    struct sl_model *model = spec->model;
    const struct sl_block *block;
    struct sl_gather gather = {.dataset = spec->dataset, .kernels = model->env.kernels};
    struct sl_feature_buffer buffer = {0};
    uint64_t gradient_bytes = model->n_params * sizeof(float);
    float *gradient = NULL;
    const float *params = sl_board_params(spec->arena, sl_board_version(spec->arena));

    *out = (struct sl_trainer_probe){0};
    if (spec->arena->h->spec.probe_bytes == 0) {
        sl_failpoint_resume(armed);
        return SL_OK;
    }
    SL_TRY_OUT(wait_for_block(spec, &block));
    SL_TRY_OUT(sl_model_check_block(model, block, spec->arena->h->spec.probe_bytes));
    gradient = sl_pages_alloc(gradient_bytes);
    if (!gradient) {
        rc = sl_fail(SL_ENOMEM, "trainer: no memory for %llu MiB of gradient",
                     (unsigned long long)(gradient_bytes >> 20));
        goto out;
    }
    model->arena = spec->arena;
    for (int i = 0; i < STEPS; i++) {
        struct sl_gathered gathered;
        struct sl_loss_result ignored;
        SL_TRY_OUT(sl_gather_block(&gather, NULL, block, &buffer, &gathered));
        uint64_t start = sl_now_ns();
        SL_TRY_OUT(sl_model_train(model, params, block, buffer.p, gradient, &ignored));
        out->train_ns = with_throttle(spec, gathered.ns, sl_now_ns() - start);
    }
    out->step_bytes = peak_bytes(spec, block, &buffer);
out:
    sl_failpoint_resume(armed);
    sl_pages_free(gradient, gradient_bytes);
    sl_feature_buffer_fini(&buffer);
    sl_gather_fini(&gather);
    return rc;
}
