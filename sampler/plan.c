#include "sampler/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { PROBES = 4, FIRST_BYTES = 1 << 20 };

struct sl_draw_plan sl_plan_of(const struct sl_config *config, enum sl_phase_kind kind)
{
    bool eval = kind == SL_PHASE_EVAL;
    struct sl_draw_plan plan = {
        .n_hops = eval ? config->evaluate.n_fanout : config->sampler.n_fanout,
        .stream = eval ? SL_RNG_EVAL_SAMPLE : SL_RNG_SAMPLE,
        .seed = config->seed,
        .degrees = config->model.kind == SL_MODEL_GCN,
    };
    memcpy(plan.fanout, eval ? config->evaluate.fanout : config->sampler.fanout,
           plan.n_hops * sizeof plan.fanout[0]);
    return plan;
}

struct probe {
    struct sl_drawer *drawer;
    uint32_t *seeds;
    struct sl_block *block;
    uint64_t capacity;
    uint64_t largest, sum;
    uint32_t n;
};

static int draw_probe(struct probe *p, const struct sl_draw_plan *plan, uint32_t n_seeds)
{
    for (;;) {
        uint64_t wanted;
        // The last epoch number of all: no epoch of a job draws these.
        int rc = p->block ? sl_drawer_draw(p->drawer, plan, UINT32_MAX, p->n, p->seeds, n_seeds,
                                           p->block, p->capacity, &wanted)
                          : SL_ERANGE;
        if (rc != SL_ERANGE)
            return rc;
        sl_pages_free(p->block, p->capacity);
        p->capacity = p->block ? 2 * wanted : FIRST_BYTES;
        p->block = sl_pages_alloc(p->capacity);
        if (!p->block)
            return sl_fail(SL_ENOMEM,
                           "sampling: no memory for a batch of %" PRIu64
                           " bytes: set sampler.batch_size or sampler.fanout lower",
                           p->capacity);
    }
}

// Probe i takes every (n / batch)-th vertex of the list, from the i-th on.
static int measure_list(struct probe *p, const struct sl_draw_plan *plan,
                        const struct sl_vertex_list *list, uint64_t batch_size)
{
    uint32_t batch = (uint32_t)SL_MIN(batch_size, list->n);
    uint64_t stride = batch ? list->n / batch : 0;
    for (uint32_t i = 0; i < PROBES && i < stride; i++) {
        for (uint32_t s = 0; s < batch; s++)
            p->seeds[s] = list->ids[s * stride + i * stride / PROBES];
        SL_TRY(draw_probe(p, plan, batch));
        p->largest = SL_MAX(p->largest, p->block->bytes);
        p->sum += p->block->bytes;
        p->n++;
    }
    return SL_OK;
}

int sl_plan_measure(const struct sl_config *config, struct sl_drawer *drawer,
                    struct sl_block_estimate *out)
{
    const struct sl_dataset *ds = &drawer->topology->dataset;
    uint64_t batch = SL_MAX(SL_MIN(config->sampler.batch_size, ds->split[SL_SPLIT_TRAIN].n),
                            SL_MIN(config->evaluate.batch_size, ds->split[SL_SPLIT_VAL].n));
    struct probe p = {.drawer = drawer, .seeds = malloc(SL_MAX(batch, 1u) * sizeof *p.seeds)};
    if (!p.seeds)
        return sl_fail(SL_ENOMEM, "sampling: no memory for %" PRIu64 " seeds", batch);
    int rc;
    struct sl_draw_plan plan = sl_plan_of(config, SL_PHASE_TRAIN);
    SL_TRY_OUT(measure_list(&p, &plan, &ds->split[SL_SPLIT_TRAIN], config->sampler.batch_size));
    if (!config->evaluate.full) {
        plan = sl_plan_of(config, SL_PHASE_EVAL);
        SL_TRY_OUT(measure_list(&p, &plan, &ds->split[SL_SPLIT_VAL], config->evaluate.batch_size));
    }
    out->max_bytes = p.largest + p.largest / 4;
    out->mean_bytes = p.n ? p.sum / p.n : 0;
out:
    sl_pages_free(p.block, p.capacity);
    free(p.seeds);
    return rc;
}
