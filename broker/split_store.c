/*
 * split_store.c - from the split to who holds which features (store_plan.h): planned where caches
 * are given out, and anew whenever a trainer's duty changes. A death changes none: what the dead
 * one held is read in the machine's memory until somebody holds it again.
 */
#include "broker/split_internal.h"

#include <math.h>
#include <string.h>

#include "broker/joblog.h"
#include "common/base/bits.h"
#include "common/base/error.h"

static struct sl_store_site site_of(const struct sl_job_split *s)
{
    return (struct sl_store_site){.config = s->config,
                                  .need = &s->need,
                                  .available_bytes = s->available_bytes,
                                  .rates = &s->store.rates,
                                  .curve = s->store.curve};
}

static void make_plan(const struct sl_job_split *s, const enum sl_duty *duty,
                      struct sl_store_plan *out)
{
    const struct sl_store_site site = site_of(s);
    struct sl_plan_question q;
    sl_store_ask(&site, duty, &q);
    if (sl_store_plan_make(&q, out) == SL_OK)
        return;
    // Without memory to search in.
    sl_joblog_write(s->log, SL_LOG_WARN, "store: each GPU holds its own rows: %s",
                    sl_error_message());
    q.placement = SL_STORE_ALONE;
    sl_store_plan_make(&q, out);
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

void sl_split_check_ratio(struct sl_job_split *s)
{
    const double asked = s->config->store.feature_ratio, n = (double)s->need.n_nodes;
    if (s->config->store.feature_ratio_auto || (double)s->store.plan.cached >= floor(asked * n))
        return;
    sl_joblog_announce(s->log,
                       "store.feature_ratio: found %g, and the GPUs that train have room for %.4f "
                       "of the vertices together: the other rows are read in the machine's memory; "
                       "lower it, or give devices more memory",
                       asked, floor(10000 * (double)s->store.plan.cached / n) / 10000);
}

void sl_split_plan_store(struct sl_job_split *s, const enum sl_duty duty[SL_CONFIG_MAX_DEVICES])
{
    struct sl_store_plan plan;
    make_plan(s, duty, &plan);
    memcpy(s->store.duty, duty, sizeof s->store.duty);
    publish(s, &plan);
}

// Whether there are tiers for more different sizes than these, and for the largest.
static bool has_tiers_left(const uint64_t *rows, uint32_t n)
{
    uint32_t different = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool seen = rows[i] == 0;
        for (uint32_t k = 0; k < i; k++)
            seen |= rows[k] == rows[i];
        different += !seen;
    }
    return different + 1 < SL_HOT_TIERS_MAX;
}

// Adds a size that is not there yet, while there are tiers.
static void add_size(uint64_t rows[SL_SPLIT_SIZES_MAX], uint32_t *n, uint64_t size)
{
    for (uint32_t i = 0; i < *n; i++)
        if (rows[i] == size)
            return;
    if (has_tiers_left(rows, *n))
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
    const bool shares = sl_store_may_share(s->config);
    const struct sl_store_site site = site_of(s);
    uint64_t all = 0;
    uint32_t n = 0;
    rows[n++] = s->arena->h->spec.rows.n_hot;
    add_plan(rows, &n, &s->store.plan.lent);
    for (uint32_t d = 0; d < n_devices; d++) {
        rows[n++] = sl_store_room(&site, d, SL_DUTY_STANDBY); // where it does not fit: what would
        rows[n++] = sl_store_room(&site, d, SL_DUTY_WORK);
        all += s->config->devices[d].kind == SL_DEVICE_CUDA ? rows[n - 1] : 0;
    }
    for (uint32_t trainers = 1; trainers < n_devices; trainers++) {
        if (!shares || !has_tiers_left(rows, n))
            break;
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
