#include "sampler/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "common/base/philox.h"

enum {
    PROBES = 4,         // different sets of seeds
    PROBE_SEEDS = 1024, // with a pool, where none is timed, so many say how large a batch becomes
    TIMED = 5,          // draws of training batches that are timed, after one of each set
    FIRST_BYTES = 1 << 20,
};

struct sl_draw_plan sl_plan_of(const struct sl_config *config, enum sl_phase_kind kind)
{
    bool eval = kind == SL_PHASE_EVAL;
    struct sl_draw_plan plan = {
        .kind = config->sampler.kind,
        .n_hops = eval ? config->evaluate.n_fanout : config->sampler.n_fanout,
        .edge_ids = config->sampler.edge_ids || config->model.edge_features,
        .expand_new = config->sampler.expand == SL_EXPAND_NEW,
        .replace = config->sampler.replace,
        .subgraph = config->sampler.subgraph,
        .disjoint = sl_config_is_disjoint(config),
        .time = config->sampler.time,
        .time_strict = config->sampler.time_strict,
        .stream = eval ? SL_RNG_EVAL_SAMPLE : SL_RNG_SAMPLE,
        .seed = config->seed,
        .degrees = sl_config_wants_degrees(config),
        .paths = config->sampler.paths,
        .length = config->sampler.length,
        .restart = (float)config->sampler.restart,
        .pairs = sl_config_is_links(config),
        .by_relation = eval ? config->evaluate.fanout_names.by_relation
                            : config->sampler.fanout_names.by_relation,
    };
    memcpy(plan.fanout, eval ? config->evaluate.fanout : config->sampler.fanout,
           plan.n_hops * sizeof plan.fanout[0]);
    return plan;
}

struct prober {
    struct sl_drawer *drawer;
    bool ranked;                 // the job's blocks will carry ranks
    bool pool;                   // of cores
    struct sl_pair_maker *pairs; // of a job of links
    uint32_t *items;             // of a batch: vertices, or numbers of pairs
    struct sl_block *block;
    uint64_t capacity;
    uint64_t largest, sum, inputs;
    uint32_t n;
    uint64_t draw_ns; // of the last batch
};

static void release_block(struct prober *p)
{
    if (p->block)
        sl_drawer_device(p->drawer)->host_free(p->block, p->capacity);
    p->block = NULL;
}

static int draw_probe(struct prober *p, const struct sl_draw_plan *plan, uint32_t n_items)
{
    for (;;) {
        uint64_t wanted, t0 = sl_now_ns();
        // The last epoch number of all: no epoch of a job draws these.
        struct sl_draw_job job = {.plan = plan,
                                  .epoch = UINT32_MAX,
                                  .batch = p->n,
                                  .seeds = p->items,
                                  .n_seeds = n_items,
                                  .block = p->block,
                                  .capacity = p->capacity};
        if (plan->pairs)
            SL_TRY(sl_pair_maker_find_seeds(p->pairs, &job));
        int rc = p->block ? sl_drawer_draw(p->drawer, &job, &wanted) : SL_ERANGE;
        p->draw_ns = sl_now_ns() - t0;
        if (rc != SL_ERANGE)
            return rc;
        uint64_t bytes = p->block ? 2 * wanted : FIRST_BYTES;
        release_block(p);
        p->capacity = bytes;
        // As the arena is, or copying to it would take longer than it does in the job.
        p->block = sl_drawer_device(p->drawer)->host_alloc(bytes);
        const char *keys = plan->stream == SL_RNG_EVAL_SAMPLE ? "evaluate" : "sampler";
        if (!p->block)
            return sl_fail(SL_ENOMEM,
                           "sampling: no memory for a batch of %" PRIu64
                           " bytes: set %s.batch_size or %s.fanout lower",
                           p->capacity, keys, keys);
    }
}

// Set i of the probes' seeds: every (n / batch)-th vertex of the list, from the i-th on.
static int probe_list(struct prober *p, const struct sl_draw_plan *plan,
                      const struct sl_vertex_list *list, uint32_t batch, uint32_t i)
{
    uint64_t stride = list->n / batch;
    for (uint32_t s = 0; s < batch; s++)
        p->items[s] = sl_vertex_at(list, s * stride + i * stride / PROBES);
    SL_TRY(draw_probe(p, plan, batch));
    uint64_t bytes = p->ranked ? sl_drawer_marked_bytes(p->block) : p->block->bytes;
    p->largest = SL_MAX(p->largest, bytes);
    p->sum += bytes;
    p->inputs += p->block->n_input;
    p->n++;
    return SL_OK;
}

// A list that is a batch or less has one set of seeds, a short one a few. The job's first batch
// waits for them all.
static uint32_t probes_of(const struct prober *p, const struct sl_vertex_list *list, uint32_t batch)
{
    if (batch == 0)
        return 0;
    const uint32_t most =
        p->pool ? SL_MIN((uint32_t)PROBES, sl_div_up(PROBE_SEEDS, batch)) : PROBES;
    return (uint32_t)SL_MIN((uint64_t)most, list->n / batch);
}

static int keep_probe(const struct prober *p, struct sl_block_estimate *out)
{
    if (out->probe && out->probe->bytes >= p->block->bytes)
        return SL_OK;
    sl_block_estimate_fini(out);
    out->probe_page_bytes = p->block->bytes;
    out->probe = sl_pages_alloc(out->probe_page_bytes);
    if (!out->probe)
        return sl_fail(SL_ENOMEM, "sampling: no memory for a batch of %" PRIu64 " bytes",
                       p->block->bytes);
    memcpy(out->probe, p->block, p->block->bytes);
    return SL_OK;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/*
 * The first draw of each set touches fresh memory and, of a graph that nobody has read yet, the
 * disk; the timed ones come after it.
 */
static int measure_training(struct prober *p, const struct sl_config *config,
                            struct sl_block_estimate *out)
{
    const struct sl_vertex_list *list = &p->drawer->topology->dataset.split[SL_SPLIT_TRAIN];
    const struct sl_draw_plan plan = sl_plan_of(config, SL_PHASE_TRAIN);
    uint32_t batch = (uint32_t)SL_MIN(config->sampler.batch_size, list->n);
    uint32_t probes = probes_of(p, list, batch);
    uint64_t ns[TIMED] = {0};
    uint32_t n = probes && !p->pool ? probes + TIMED : probes;
    for (uint32_t i = 0; i < n; i++) {
        SL_TRY(probe_list(p, &plan, list, batch, i % probes));
        SL_TRY(keep_probe(p, out));
        if (i >= probes)
            ns[i - probes] = p->draw_ns;
    }
    qsort(ns, TIMED, sizeof ns[0], compare_ns);
    if (!p->pool)
        out->t_sample_ns = SL_MAX(ns[TIMED / 2], (uint64_t)(config->throttle.sample * 1e9));
    return SL_OK;
}

static int measure_evaluation(struct prober *p, const struct sl_config *config)
{
    const struct sl_vertex_list *list = &p->drawer->topology->dataset.split[SL_SPLIT_VAL];
    const struct sl_draw_plan plan = sl_plan_of(config, SL_PHASE_EVAL);
    uint32_t batch = (uint32_t)SL_MIN(config->evaluate.batch_size, list->n);
    uint32_t probes = probes_of(p, list, batch);
    for (uint32_t i = 0; i < probes; i++)
        SL_TRY(probe_list(p, &plan, list, batch, i));
    return SL_OK;
}

int sl_plan_measure(const struct sl_config *config, struct sl_drawer *drawer,
                    struct sl_pair_maker *pairs, struct sl_block_estimate *out)
{
    memset(out, 0, sizeof *out);
    const struct sl_dataset *ds = &drawer->topology->dataset;
    uint64_t batch = SL_MAX(SL_MIN(config->sampler.batch_size, ds->split[SL_SPLIT_TRAIN].n),
                            SL_MIN(config->evaluate.batch_size, ds->split[SL_SPLIT_VAL].n));
    struct prober p = {.drawer = drawer,
                       .ranked = sl_cache_keeps(config->cache.policy),
                       .pool = config->allocation.cores == SL_CORES_POOL,
                       .pairs = pairs,
                       .items = malloc(SL_MAX(batch, 1u) * sizeof *p.items)};
    if (!p.items)
        return sl_fail(SL_ENOMEM, "sampling: no memory for %" PRIu64 " seeds", batch);
    int rc;
    SL_TRY_OUT(measure_training(&p, config, out));
    out->input_nodes = p.n ? p.inputs / p.n : 0;
    if (!config->evaluate.full)
        SL_TRY_OUT(measure_evaluation(&p, config));
    out->max_bytes = p.largest + p.largest / 4;
    out->mean_bytes = p.n ? p.sum / p.n : 0;
out:
    if (rc < 0)
        sl_block_estimate_fini(out);
    release_block(&p);
    free(p.items);
    return rc;
}

void sl_block_estimate_fini(struct sl_block_estimate *e)
{
    sl_pages_free(e->probe, e->probe_page_bytes);
    e->probe = NULL;
    e->probe_page_bytes = 0;
}
