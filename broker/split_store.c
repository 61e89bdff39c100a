/*
 * split_store.c - from the split to who holds which features (store_plan.h): planned where caches
 * are given out, and anew whenever a trainer's duty changes. A death changes none: what the dead
 * one held is read in the machine's memory until somebody holds it again.
 */
#include "broker/split_internal.h"

#include <string.h>

#include "broker/gpus.h"
#include "broker/joblog.h"
#include "common/base/bits.h"
#include "common/base/error.h"

_Static_assert((int)SL_CONFIG_MAX_DEVICES == (int)SL_LENT_DEVICES_MAX, "every device may lend");

static bool is_gpu(const struct sl_config *config, uint32_t d)
{
    return config->devices[d].kind == SL_DEVICE_CUDA;
}

bool sl_split_may_share(const struct sl_config *config)
{
    uint32_t gpus = 0;
    for (uint32_t d = 0; d < config->n_devices; d++)
        gpus += is_gpu(config, d);
    return gpus > 1 && sl_cache_keeps(config->cache.policy);
}

void sl_split_take_links(struct sl_job_split *s, const struct sl_gpu_report *gpus)
{
    const struct sl_config *c = s->config;
    for (uint32_t d = 0; d < c->n_devices; d++)
        for (uint32_t e = 0; e < c->n_devices; e++)
            if (is_gpu(c, d) && is_gpu(c, e))
                s->store.rate[d][e] =
                    (float)sl_gpus_link(gpus, c->devices[d].index, c->devices[e].index);
}

// Rows that GPUs may hold, all together.
static uint64_t most_rows(const struct sl_job_split *s)
{
    const double n = (double)s->need.n_nodes;
    return s->config->store.feature_ratio_auto ? s->need.n_nodes
                                               : (uint64_t)(s->config->store.feature_ratio * n);
}

static uint64_t room_of(const struct sl_job_split *s, uint32_t d, enum sl_duty duty)
{
    uint64_t rows = 0;
    // A split whose budgets do not fit is refused before it is wanted; then it is a smaller cache.
    if (duty != SL_DUTY_NONE)
        sl_budget_cache_rows(s->config, d, duty, &s->need, s->available_bytes, &rows);
    return is_gpu(s->config, d) ? SL_MIN(rows, most_rows(s)) : rows;
}

static void make_plan(const struct sl_job_split *s, const enum sl_duty *duty,
                      struct sl_store_plan *out)
{
    const struct sl_config *c = s->config;
    struct sl_plan_question q = {
        .n_devices = c->n_devices,
        .host = SL_GPUS_HOST_GBS,
        .n_rows = s->need.n_nodes,
        .most_rows = most_rows(s),
        .placement = c->store.placement,
        .curve = s->store.curve,
    };
    memcpy(q.rate, s->store.rate, sizeof q.rate);
    for (uint32_t d = 0; d < c->n_devices; d++) {
        q.room[d] = room_of(s, d, duty[d]);
        q.rate[d][d] = q.rate[d][d] > 0 ? q.rate[d][d] : SL_GPUS_OWN_GBS;
        if (is_gpu(c, d) && duty[d] == SL_DUTY_WORK)
            q.trains |= UINT64_C(1) << d;
        if (is_gpu(c, d) && duty[d] == SL_DUTY_STANDBY)
            q.reads |= UINT64_C(1) << d;
    }
    if (sl_store_plan_make(&q, out) < 0) { // without memory to search in
        sl_joblog_write(s->log, SL_LOG_WARN, "store: each GPU holds its own rows: %s",
                        sl_error_message());
        q.placement = SL_STORE_ALONE;
        sl_store_plan_make(&q, out);
    }
    for (uint32_t d = 0; d < c->n_devices; d++)
        if (!is_gpu(c, d))
            out->rows[d] = q.room[d];
}

// Rows first: who is woken by the plan finds them.
static void publish(struct sl_job_split *s, struct sl_store_plan *plan)
{
    struct sl_lent_plan *lent = &plan->lent;
    const uint64_t before = s->store.plan.lent.generation;
    for (uint32_t d = 0; d < s->config->n_devices; d++)
        atomic_store(&sl_seat(s->arena, sl_seat_trainer(s->arena, d))->cache_rows, plan->rows[d]);
    lent->generation = before;
    const bool same = memcmp(lent, &s->store.plan.lent, sizeof *lent) == 0;
    if (same || (before == 0 && lent->n_parts == 0)) {
        s->store.plan = *plan;
        return;
    }
    lent->generation = before + 1;
    s->store.plan = *plan;
    sl_lent_publish(s->arena, SL_LENT_FEATURES, lent);
    sl_joblog_write(s->log, SL_LOG_INFO, "store: %s, %u parts, %llu of %llu rows on GPUs: %s",
                    sl_store_placement_words[plan->placement], lent->n_parts,
                    (unsigned long long)plan->cached, (unsigned long long)s->need.n_nodes,
                    plan->reason);
}

void sl_split_plan_store(struct sl_job_split *s, const enum sl_duty duty[SL_CONFIG_MAX_DEVICES])
{
    struct sl_store_plan plan;
    make_plan(s, duty, &plan);
    memcpy(s->store.duty, duty, sizeof s->store.duty);
    publish(s, &plan);
}

// Adds a size, unless as many different ones are there as there are tiers for.
static void add_size(uint64_t rows[SL_SPLIT_SIZES_MAX], uint32_t *n, uint64_t size)
{
    uint32_t different = 0;
    for (uint32_t i = 0; i < *n; i++) {
        bool seen = rows[i] == 0;
        for (uint32_t k = 0; k < i; k++)
            seen |= rows[k] == rows[i];
        if (rows[i] == size)
            return;
        different += !seen;
    }
    if (different + 1 < SL_HOT_TIERS_MAX)
        rows[(*n)++] = size;
}

static void add_plan(uint64_t rows[SL_SPLIT_SIZES_MAX], uint32_t *n, const struct sl_lent_plan *p)
{
    add_size(rows, n, p->first + p->n_parts * p->part_elements);
    add_size(rows, n, p->first);
}

/*
 * Of the plan that holds, of both duties of each device, of the plans of other splits as far as
 * there are tiers; and what all GPUs have room for together, since no cache is larger.
 */
uint32_t sl_split_cache_sizes(struct sl_job_split *s, uint64_t rows[SL_SPLIT_SIZES_MAX])
{
    const uint32_t n_devices = s->config->n_devices;
    const bool shares = sl_split_may_share(s->config);
    uint64_t all = 0;
    uint32_t n = 0;
    rows[n++] = s->arena->h->spec.rows.n_hot;
    add_plan(rows, &n, &s->store.plan.lent);
    for (uint32_t d = 0; d < n_devices; d++) {
        rows[n++] = room_of(s, d, SL_DUTY_STANDBY); // where it does not fit: what would
        rows[n++] = room_of(s, d, SL_DUTY_WORK);
        all += is_gpu(s->config, d) ? rows[n - 1] : 0;
    }
    for (uint32_t trainers = 1; shares && trainers < n_devices; trainers++) {
        const struct sl_roles split = {n_devices - trainers, trainers};
        enum sl_duty duty[SL_CONFIG_MAX_DEVICES];
        struct sl_store_plan plan;
        for (uint32_t d = 0; d < n_devices; d++)
            duty[d] = sl_placement_duty(split, n_devices, sl_placement_switches(s->config, d),
                                        SL_ROLE_TRAINER, d);
        make_plan(s, duty, &plan);
        add_plan(rows, &n, &plan.lent);
    }
    if (shares)
        rows[n++] = all;
    return n;
}
