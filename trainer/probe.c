#include "trainer/probe.h"

#include <inttypes.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/param_store.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "trainer/model/allreduce.h"
#include "trainer/feed/prefetch.h"
#include "trainer/feed/gather.h"
#include "trainer/feed/typed_block.h"
#include "trainer/model/parameters.h"

enum { STEPS = 2 };

// Samplers load their graph meanwhile; how long that may take is the broker's to say.
static int wait_for_block(const struct sl_trainer_spec *spec, const struct sl_block **out)
{
    int rc = SL_ETIMEDOUT;
    while (rc == SL_ETIMEDOUT) {
        if (spec->stop && atomic_load_explicit(spec->stop, memory_order_relaxed))
            return SL_EABORTED;
        rc = sl_probe_wait(spec->arena, SL_ARENA_WAIT_MS, out);
    }
    return rc;
}

// What steps are computed with, until they have been measured.
struct bench {
    struct sl_compute compute;
    struct sl_batch_buffer buffer, before; // that: none
    struct sl_parameters parameters;
    struct sl_buffer gradient; // in place of the store's slot
    struct sl_buffer rows;     // likewise, of learned rows
};

static uint64_t host_peak(const struct sl_trainer_spec *spec, const struct sl_block *block,
                          const struct bench *b)
{
    uint64_t lists = (uint64_t)block->n_input * SL_GATHER_LISTS * sizeof(uint32_t);
    uint64_t copies = (spec->arena->h->spec.async ? 1 : 0) +           // of parameters, and
                      (spec->config->optimizer.clip_norm > 0 ? 1 : 0); // of the gradient
    uint64_t copied = copies * spec->model->n_params * sizeof(float);
    uint64_t readers =
        spec->fetches && spec->fetches->drive ? SL_TRAINER_READERS * SL_ROW_READER_BYTES : 0;
    return readers + sl_model_peak_bytes(spec->model) +
           SL_PREFETCH_BUFFERS * b->buffer.features.bytes + lists + copied +
           spec->gather->rows.bytes + spec->gather->source.raw.bytes;
}

// The other buffer comes on top of what the process holds now, which has what operations keep for
// themselves in it. The gradient stands for the store's, which is in the machine's memory.
static uint64_t gpu_peak(const struct sl_trainer_spec *spec, const struct sl_block *block,
                         const struct bench *b)
{
    // A job with a cache stages its misses, of which the probe may have sent all at once instead.
    const struct sl_gather *g = spec->gather;
    const uint64_t here = g->staged.bytes + g->device_lists.bytes;
    const bool stages = sl_cache_keeps(spec->config->cache.policy) && g->way == SL_GATHER_STAGED;
    const uint64_t row = sl_rows_bytes(g->source.dataset) + SL_GATHER_LISTS * sizeof(uint32_t);
    const uint64_t misses = stages ? block->n_input * row : 0;
    bool grouped = sl_group_exists(spec->arena);
    uint64_t sums = grouped ? sl_exchange_bytes(spec->model->n_params) : 0;
    uint64_t buffer = b->buffer.arrays.bytes + b->buffer.features.bytes;
    b->compute.device->trim(); // what was outgrown
    return b->compute.device->held() + (SL_PREFETCH_BUFFERS - 1) * buffer + sums +
           SL_MAX(misses, here) - here;
}

// Never less than the throttle of the duty that this trainer starts with.
static uint64_t throttled(const struct sl_trainer_spec *spec, uint64_t ns)
{
    const struct sl_seat *seat = sl_seat(spec->arena, sl_seat_trainer(spec->arena, spec->device));
    bool standby = atomic_load_explicit(&seat->duty, memory_order_acquire) == SL_DUTY_STANDBY;
    double seconds = standby ? spec->config->throttle.standby : spec->config->throttle.train;
    return SL_MAX(ns, (uint64_t)(seconds * 1e9));
}

static int take_memory(const struct sl_trainer_spec *spec, struct bench *b)
{
    const uint64_t n_params = spec->model->n_params;
    b->compute = sl_trainer_compute(spec);
    SL_TRY(sl_parameters_init(&b->parameters, b->compute.device, n_params, &spec->model->rounded,
                              false));
    return sl_buffer_grow(&b->gradient, b->compute.device, SL_BUFFER_HOST, n_params * sizeof(float),
                          "gradient");
}

// Extraction and training overlap, so a batch takes the longer of the two.
static int one_step(const struct sl_trainer_spec *spec, const struct sl_block *block,
                    struct bench *b, struct sl_trainer_probe *out)
{
    struct sl_gathered gathered;
    struct sl_loss_result ignored;
    const float *params;
    const uint64_t version = sl_param_store_version(spec->arena);
    const bool kept = sl_model_keeps_features(spec->model);
    SL_TRY(sl_gather_block(spec->gather, NULL, block, kept ? &b->before : NULL, &b->buffer,
                           &gathered));
    uint64_t start = sl_now_ns();
    if (spec->rows) {
        const size_t bytes = (size_t)block->n_input * spec->rows->shape.dim * sizeof(float);
        SL_TRY(sl_buffer_grow(&b->rows, b->compute.device, SL_BUFFER_HOST, bytes, "learned rows"));
        spec->model->learned.rows = spec->rows->values;
        spec->model->learned.gradient = b->rows.p;
    }
    SL_TRY(sl_parameters_take(&b->parameters, SL_PARAMETERS_VERSION, version,
                              sl_param_store_params(spec->arena, version), &params));
    SL_TRY(sl_model_train(spec->model, params, b->buffer.block, b->buffer.x,
                          sl_parameters_gradient(&b->parameters, b->gradient.p), &ignored));
    SL_TRY(sl_parameters_deliver(&b->parameters, b->gradient.p));
    out->train_ns = throttled(spec, SL_MAX(gathered.ns, sl_now_ns() - start));
    return SL_OK;
}

// Whether a mini-batch's rows find place in the cache of what is read from the drive or from other
// nodes.
static int check_rows(const struct sl_trainer_spec *spec, const struct sl_block *block)
{
    const struct sl_row_cache_shape *rows = &spec->arena->h->spec.rows;
    const uint64_t room = sl_row_cache_room(rows);
    const uint32_t n = block->n_input;
    uint64_t wanted = sl_rows_cached_bytes(spec->dataset, block, 0, NULL);
    if (rows->n_slots == 0 || wanted <= room)
        return SL_OK;
    if (spec->fetches)
        wanted = sl_rows_cached_bytes(spec->dataset, block,
                                      n - sl_reading_count(spec->fetches, sl_block_nodes(block), n),
                                      spec->fetches);
    if (wanted <= room)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "store.cache: %" PRIu64 " bytes of rows fit in it, wanted %" PRIu64
                   " at least, which a mini-batch has: set store.cache to %" PRIu64
                   " or more, or take a smaller sampler.batch_size or sampler.fanout",
                   room, wanted, sl_row_cache_least(rows, wanted));
}

int sl_trainer_probe(const struct sl_trainer_spec *spec, struct sl_trainer_probe *out)
{
    int rc, armed = sl_failpoint_suspend();
    struct sl_model *model = spec->model;
    const struct sl_block *block;
    struct bench bench = {0};
    const struct sl_heartbeat pulse = {.arena = spec->arena, .stop = spec->stop};

    *out = (struct sl_trainer_probe){0};
    if (spec->arena->h->spec.probe_bytes == 0) {
        sl_failpoint_resume(armed);
        return SL_OK;
    }
    SL_TRY_OUT(wait_for_block(spec, &block));
    SL_TRY_OUT(
        sl_block_check_shape(block, spec->arena->h->spec.probe_bytes, sl_model_block_shape(model)));
    SL_TRY_OUT(sl_typed_block_check(block, &spec->gather->source.dataset->typed));
    SL_TRY_OUT(check_rows(spec, block));
    SL_TRY_OUT(take_memory(spec, &bench));
    model->pulse = &pulse;
    for (int i = 0; i < STEPS; i++)
        SL_TRY_OUT(one_step(spec, block, &bench, out));
    out->step_bytes = bench.compute.device->is_host ? host_peak(spec, block, &bench)
                                                    : gpu_peak(spec, block, &bench);
out:
    model->pulse = NULL;
    sl_failpoint_resume(armed);
    sl_buffer_fini(&bench.gradient);
    sl_buffer_fini(&bench.rows);
    sl_parameters_fini(&bench.parameters);
    sl_batch_buffer_fini(&bench.buffer);
    return rc;
}
