#include "broker/store_question.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/gpus.h"
#include "broker/phases.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/sampler_kind.h"
#include "common/data/cache_kind.h"
#include "common/data/expected_visits.h"
#include "common/data/hotness.h"

_Static_assert((int)SL_CONFIG_MAX_DEVICES == (int)SL_LENT_DEVICES_MAX, "every device may lend");

#define FORESEEN_EDGES_MOST (UINT64_C(1) << 26)

static bool is_gpu(const struct sl_config *config, uint32_t d)
{
    return config->devices[d].kind == SL_DEVICE_CUDA;
}

bool sl_store_may_share(const struct sl_config *config)
{
    uint32_t gpus = 0;
    for (uint32_t d = 0; d < config->n_devices; d++)
        gpus += is_gpu(config, d);
    return gpus > 1 && sl_cache_keeps(config->cache.policy);
}

void sl_store_find_rates(const struct sl_config *c, const struct sl_gpu_report *gpus,
                         struct sl_store_rates *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t d = 0; d < c->n_devices; d++)
        for (uint32_t e = 0; e < c->n_devices; e++)
            if (is_gpu(c, d) && is_gpu(c, e))
                out->of[d][e] = (float)sl_gpus_link(gpus, c->devices[d].index, c->devices[e].index);
}

// Rows that GPUs may hold, all together.
static uint64_t most_rows(const struct sl_store_site *site)
{
    const double n = (double)site->need->n_nodes;
    return site->config->store.feature_ratio_auto
               ? site->need->n_nodes
               : (uint64_t)(site->config->store.feature_ratio * n);
}

uint64_t sl_store_room(const struct sl_store_site *site, uint32_t device, enum sl_duty duty)
{
    uint64_t rows = 0;
    // A split whose budgets do not fit is refused before it is wanted; then it is a smaller cache.
    if (duty != SL_DUTY_NONE)
        sl_budget_cache_rows(site->config, device, duty, site->need, site->available_bytes, &rows);
    return is_gpu(site->config, device) ? SL_MIN(rows, most_rows(site)) : rows;
}

void sl_store_ask(const struct sl_store_site *site, const enum sl_duty *duty,
                  struct sl_plan_question *out)
{
    const struct sl_config *c = site->config;
    *out = (struct sl_plan_question){
        .n_devices = c->n_devices,
        .host = SL_GPUS_HOST_GBS,
        .n_rows = site->need->n_nodes,
        .most_rows = most_rows(site),
        .placement = c->store.placement,
        .curve = site->curve,
    };
    memcpy(out->rate, site->rates->of, sizeof out->rate);
    for (uint32_t d = 0; d < c->n_devices; d++) {
        out->room[d] = sl_store_room(site, d, duty[d]);
        if (is_gpu(c, d) && duty[d] == SL_DUTY_WORK)
            out->trains |= UINT64_C(1) << d;
        if (is_gpu(c, d) && duty[d] == SL_DUTY_STANDBY)
            out->reads |= UINT64_C(1) << d;
    }
}

// --- how often rows are read ---------------------------------------------------------------------

bool sl_store_foresees(const struct sl_config *config, const struct sl_dataset *ds)
{
    return sl_store_may_share(config) && ds->n_edges <= FORESEEN_EDGES_MOST;
}

// How many mini-batches of an epoch read a row that an epoch is expected to visit so often.
static float batches_of(uint32_t visits, double n_batches)
{
    float x;
    memcpy(&x, &visits, sizeof x);
    return (float)(n_batches * -expm1(-(double)x / n_batches));
}

// Both (n_nodes).
static int foresee(const struct sl_config *c, const struct sl_cache_inputs *facts, float *visits,
                   uint32_t *hotness, double *inputs)
{
    const struct sl_dataset *ds = facts->dataset;
    const struct sl_cache_kind *kind = &sl_cache_kinds[c->cache.policy];
    const struct sl_cache_kind *reads =
        sl_cache_foresees(sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_UNIFORM);
    const double n_batches = (double)sl_phases_batches(c, ds->split[SL_SPLIT_TRAIN].n);
    double sum = 0;
    SL_TRY(reads->hotness(facts, hotness));
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        visits[v] = reads->is_visits ? batches_of(hotness[v], n_batches) : (float)hotness[v];
        sum += (double)visits[v];
    }
    *inputs = reads->is_visits ? sum / n_batches : 0;
    return kind->hotness && kind != reads ? kind->hotness(facts, hotness) : SL_OK;
}

int sl_store_foresee(const struct sl_config *config, const struct sl_dataset *ds,
                     const atomic_bool *cancel, struct sl_store_curve *out, double *inputs)
{
    const struct sl_cache_inputs facts = {
        .dataset = ds,
        .seed = config->seed,
        .n_hops = config->sampler.n_fanout,
        .fanout = config->sampler.fanout,
        .cancel = cancel,
    };
    const uint64_t n = SL_MAX(ds->n_nodes, 1u);
    float *visits = malloc(n * sizeof *visits);
    uint32_t *hotness = malloc(n * sizeof *hotness);
    int rc = visits && hotness
                 ? foresee(config, &facts, visits, hotness, inputs)
                 : sl_fail(SL_ENOMEM, "no memory for the expected visits of %llu vertices",
                           (unsigned long long)ds->n_nodes);
    if (rc == SL_OK)
        rc = sl_store_curve_make(hotness, visits, ds->n_nodes, out);
    free(visits);
    free(hotness);
    return rc;
}
