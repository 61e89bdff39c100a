/*
 * role_split_store.c - plans which GPU holds which features and edges under the present split
 * (shard_plan.h). Features are planned where caches are given out, and anew whenever a trainer's
 * duty changes; the graph likewise, and anew whenever a sampler has to leave or one comes. A death
 * changes no plan: what the dead worker held is read in the machine's memory until its replacement
 * holds it again.
 *
 * Samplers say in their Hello what they have room for, and are told the arena's size after it. So
 * those of the start find the plan before their first batch, since work is laid out later; one that
 * comes while the job runs finds that in which it has its parts, when it maps the arena.
 */
#include "broker/scheduler/role_split_internal.h"

#include <math.h>
#include <string.h>

#include "broker/log/joblog.h"
#include "common/base/bits.h"
#include "common/base/error.h"

static struct sl_store_site site_of(const struct sl_role_split *s)
{
    return (struct sl_store_site){
        .config = s->config,
        .need = &s->need,
        .available_bytes = s->available_bytes,
        .rates = &s->store.rates,
        .curve = {s->store.curve[SL_PEER_MEMORY_FEATURES], s->store.curve[SL_PEER_MEMORY_GRAPH]},
        .n_edges = s->dataset ? s->dataset->n_edges : 0};
}

static void make_plan(const struct sl_role_split *s, struct sl_plan_question *q,
                      struct sl_shard_plan *out)
{
    if (sl_shard_plan_make(q, out) == SL_OK)
        return;
    // Without memory to search in.
    sl_joblog_write(s->log, SL_LOG_WARN, "store: each GPU holds its own %s: %s",
                    q->kind == SL_PEER_MEMORY_GRAPH ? "edges" : "rows", sl_error_message());
    q->placement = SL_STORE_ALONE;
    sl_shard_plan_make(q, out);
}

// rows: of the caches of trainers, by it; NULL: nothing of theirs.
static void publish(struct sl_role_split *s, const struct sl_plan_question *q,
                    struct sl_shard_plan *plan, const uint64_t *rows)
{
    struct sl_shard_plan *now = &s->store.plan[q->kind];
    struct sl_peer_memory_plan *lent = &plan->lent;
    const uint64_t before = now->lent.generation;
    lent->generation = before;
    const bool same = memcmp(lent, &now->lent, sizeof *lent) == 0;
    if (same || (before == 0 && lent->n_parts == 0)) {
        *now = *plan;
        if (rows)
            sl_peer_memory_give_rows(s->arena, rows);
        return;
    }
    lent->generation = before + 1;
    *now = *plan;
    sl_peer_memory_publish(s->arena, q->kind, lent, rows);
    sl_joblog_write(s->log, SL_LOG_INFO, "%s: %s, %u parts, %llu of %llu %s on GPUs: %s",
                    q->kind == SL_PEER_MEMORY_GRAPH ? "graph" : "store",
                    sl_store_placement_words[plan->placement], lent->n_parts,
                    (unsigned long long)plan->cached, (unsigned long long)q->n_elements,
                    q->kind == SL_PEER_MEMORY_GRAPH ? "edges" : "rows", plan->reason);
}

// Parts are of whole runs, and what they leave is no want of room.
static void check_ratio(struct sl_role_split *s, enum sl_peer_memory_kind kind, bool is_auto,
                        double asked, double n)
{
    const struct sl_shard_plan *plan = &s->store.plan[kind];
    const uint64_t left = plan->lent.shift ? (uint64_t)plan->lent.n_parts << plan->lent.shift : 0;
    const double cached = (double)plan->cached;
    if (is_auto || cached + (double)left >= floor(asked * n))
        return;
    sl_joblog_announce(s->log,
                       "store.%s_ratio: found %g, and the GPUs that %s have room for %.4f of the "
                       "%s together: the other %s are read in the machine's memory; lower it, or "
                       "give devices more memory",
                       kind == SL_PEER_MEMORY_GRAPH ? "graph" : "feature", asked,
                       kind == SL_PEER_MEMORY_GRAPH ? "sample" : "train",
                       floor(10000 * cached / n) / 10000,
                       kind == SL_PEER_MEMORY_GRAPH ? "edges" : "vertices",
                       kind == SL_PEER_MEMORY_GRAPH ? "edges" : "rows");
}

void sl_split_check_ratio(struct sl_role_split *s)
{
    const struct sl_config *c = s->config;
    check_ratio(s, SL_PEER_MEMORY_FEATURES, c->store.feature_ratio_auto, c->store.feature_ratio,
                (double)s->need.n_nodes);
    if (s->store.graph_of)
        check_ratio(s, SL_PEER_MEMORY_GRAPH, c->store.graph_ratio_auto, c->store.graph_ratio,
                    (double)site_of(s).n_edges);
}

// The question of the features.
static void ask(const struct sl_role_split *s, const enum sl_duty *duty,
                struct sl_plan_question *out)
{
    const struct sl_store_site site = site_of(s);
    sl_store_ask(&site, duty, out);
    out->before = &s->store.plan[SL_PEER_MEMORY_FEATURES].lent;
}

void sl_split_plan_store(struct sl_role_split *s, const enum sl_duty duty[SL_CONFIG_MAX_DEVICES])
{
    struct sl_plan_question q;
    struct sl_shard_plan plan;
    ask(s, duty, &q);
    make_plan(s, &q, &plan);
    memcpy(s->store.duty, duty, sizeof s->store.duty);
    publish(s, &q, &plan, plan.elements);
}

// --- the graph -----------------------------------------------------------------------------------

void sl_split_plan_graph(struct sl_role_split *s)
{
    const struct sl_store_site site = site_of(s);
    uint64_t room[SL_CONFIG_MAX_DEVICES] = {0};
    struct sl_plan_question q;
    struct sl_shard_plan plan;
    // All that leave at the same time are left out at once.
    for (uint32_t d = 0; d < s->config->n_devices; d++)
        if (sl_split_duty(s, SL_ROLE_SAMPLER, d) == SL_DUTY_WORK)
            room[d] = s->store.graph_room[d];
    sl_store_ask_graph(&site, room, &q);
    q.before = &s->store.plan[SL_PEER_MEMORY_GRAPH].lent;
    make_plan(s, &q, &plan);
    s->store.graph_of = q.works;
    publish(s, &q, &plan, NULL);
}

void sl_split_on_room(struct sl_role_split *s, uint32_t device, uint64_t edges)
{
    const bool planned = s->store.graph_of >> device & 1;
    const uint64_t held = s->store.plan[SL_PEER_MEMORY_GRAPH].elements[device];
    s->store.graph_room[device] = edges;
    // Before caches are given out nothing is known of links.
    if (s->arena->base && s->store.graph_planned &&
        (edges == 0 ? planned : !planned || edges < held))
        sl_split_plan_graph(s);
}

// --- sizes of caches -----------------------------------------------------------------------------

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
    return different + 1 < SL_VISIT_COUNTS_TIERS_MAX;
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

static void add_plan(uint64_t rows[SL_SPLIT_SIZES_MAX], uint32_t *n,
                     const struct sl_peer_memory_plan *p)
{
    add_size(rows, n, p->first + p->n_parts * p->part_elements);
    add_size(rows, n, p->first);
}

/*
 * Of the plan that holds, of both duties of each device, of the plans of other splits as far as
 * there are tiers; and what all GPUs have room for together, since no cache is larger.
 */
uint32_t sl_split_cache_sizes(struct sl_role_split *s, uint64_t rows[SL_SPLIT_SIZES_MAX])
{
    const uint32_t n_devices = s->config->n_devices;
    const bool shares = sl_store_may_share(s->config, SL_PEER_MEMORY_FEATURES);
    const struct sl_store_site site = site_of(s);
    uint64_t all = 0;
    uint32_t n = 0;
    rows[n++] = sl_row_cache_hot_size(&s->arena->h->spec.rows, s->need.row_bytes);
    add_plan(rows, &n, &s->store.plan[SL_PEER_MEMORY_FEATURES].lent);
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
        struct sl_plan_question q;
        struct sl_shard_plan plan;
        for (uint32_t d = 0; d < n_devices; d++)
            duty[d] = sl_placement_duty(split, n_devices, sl_placement_switches(s->config, d),
                                        SL_ROLE_TRAINER, d);
        ask(s, duty, &q);
        make_plan(s, &q, &plan);
        add_plan(rows, &n, &plan.lent);
    }
    if (shares)
        rows[n++] = all;
    return n;
}
