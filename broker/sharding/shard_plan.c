#include "broker/sharding/shard_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/features_kind.h"
#include "common/data/hotness.h"
#include "common/store/placement.h"

enum { STEPS_OF_FIRST = 32 };

// More work of the busiest links and buses is no price for parts that stay where they are.
static const double PRICE_OF_STAYING = 1.05;

_Static_assert((int)SL_PLACEMENT_DEVICES == (int)SL_PEER_MEMORY_PARTS_MAX,
               "a part for each that shares");

// --- how often rows are read ---------------------------------------------------------------------

// Of a plain graph all are alike.
static uint64_t bytes_of(const struct sl_typed *typed, uint64_t row)
{
    return typed->n_types ? sl_type_row_bytes(&typed->type[sl_typed_type_of(typed, row)]) : 1;
}

int sl_store_curve_make(const struct sl_typed *typed, const uint32_t *hotness, const float *visits,
                        uint64_t n_rows, struct sl_store_curve *out)
{
    const uint64_t unit = typed->n_types ? sl_features_mean_bytes(typed, n_rows) : 1;
    uint32_t *order = malloc(SL_MAX(n_rows, 1u) * sizeof *order);
    if (!order)
        return sl_fail(SL_ENOMEM, "no memory for the order of %llu vertices",
                       (unsigned long long)n_rows);
    int rc = sl_hotness_order(hotness, n_rows, NULL, order, NULL);
    double sum = 0;
    out->met[0] = 0;
    for (uint64_t i = 0, at = 0, taken = 0; rc == SL_OK && i < SL_STORE_CURVE_POINTS; i++) {
        const uint64_t end =
            unit * (uint64_t)((double)n_rows * (double)(i + 1) / SL_STORE_CURVE_POINTS);
        for (; at < n_rows; at++) {
            const uint64_t bytes = bytes_of(typed, order[at]);
            if (bytes > end - taken)
                break;
            taken += bytes;
            sum += (double)visits[order[at]] * (double)bytes;
        }
        out->met[i + 1] = sum;
    }
    for (uint32_t i = 1; i <= SL_STORE_CURVE_POINTS; i++)
        out->met[i] = sum > 0 ? out->met[i] / sum : (double)i / SL_STORE_CURVE_POINTS;
    free(order);
    return rc;
}

void sl_store_curve_of_edges(const uint64_t *offsets, const float *edge_reads, uint64_t n,
                             struct sl_store_curve *out)
{
    const double n_edges = (double)offsets[n];
    double before = 0; // reads of the lists before v
    uint32_t i = 0;
    for (uint64_t v = 0; v < n; v++) {
        const uint64_t degree = offsets[v + 1] - offsets[v];
        for (; i <= SL_STORE_CURVE_POINTS; i++) {
            const double in_row = n_edges * i / SL_STORE_CURVE_POINTS - (double)offsets[v];
            if (in_row > (double)degree)
                break;
            out->met[i] = before + (degree ? (double)edge_reads[v] * in_row / (double)degree : 0);
        }
        before += (double)edge_reads[v];
    }
    for (; i <= SL_STORE_CURVE_POINTS; i++)
        out->met[i] = before;
    for (i = 0; i <= SL_STORE_CURVE_POINTS; i++)
        out->met[i] = before > 0 ? out->met[i] / before : (double)i / SL_STORE_CURVE_POINTS;
}

// The share of all reads that the first so many elements have.
static double met(const struct sl_plan_question *q, uint64_t elements)
{
    if (elements >= q->n_elements)
        return 1;
    const double part = (double)elements / (double)q->n_elements;
    if (!q->curve)
        return part;
    const double at = part * SL_STORE_CURVE_POINTS;
    const uint32_t i = (uint32_t)at;
    return q->curve->met[i] + (at - i) * (q->curve->met[i + 1] - q->curve->met[i]);
}

// --- what comes from where -----------------------------------------------------------------------

// Where elements end of which somebody holds so many in each part.
static uint64_t end_of(const struct sl_peer_memory_plan *p, uint64_t each)
{
    return p->first + p->n_parts * each;
}

void sl_shard_plan_shares(const struct sl_plan_question *q, const struct sl_shard_plan *plan,
                          uint32_t d, double share[SL_PEER_MEMORY_DEVICES_MAX + 1])
{
    const struct sl_peer_memory_plan *p = &plan->lent;
    memset(share, 0, sizeof(double[SL_PEER_MEMORY_DEVICES_MAX + 1]));
    const uint64_t near = p->held[d] ? p->first : plan->elements[d];
    const uint64_t begin = SL_MAX(near, p->first);
    share[d] = met(q, near);
    double rest = 1 - share[d];
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const uint32_t from = p->from[d][i];
        if (from == SL_PEER_MEMORY_NOBODY)
            continue;
        const uint64_t end = SL_MAX(begin, end_of(p, sl_shard_plan_each(plan, from)));
        const double part = (met(q, end) - met(q, begin)) / p->n_parts;
        share[from] += part;
        rest -= part;
    }
    share[q->n_devices] = fmax(rest, 0);
}

double sl_shard_plan_busiest(const struct sl_plan_question *q, const struct sl_shard_plan *plan,
                             uint32_t d)
{
    double share[SL_PEER_MEMORY_DEVICES_MAX + 1];
    sl_shard_plan_shares(q, plan, d, share);
    double most = share[q->n_devices] / q->host;
    for (uint32_t from = 0; from < q->n_devices; from++)
        if (share[from] > 0 && from != d)
            most = fmax(most, share[from] / q->rate[d][from]);
    return most;
}

// The mean of all that work.
static double busiest(const struct sl_plan_question *q, const struct sl_shard_plan *plan)
{
    double sum = 0;
    for (uint32_t d = 0; d < q->n_devices; d++)
        if (q->works >> d & 1)
            sum += sl_shard_plan_busiest(q, plan, d);
    return sum / SL_MAX(__builtin_popcountll(q->works), 1);
}

// --- plans ---------------------------------------------------------------------------------------

static void alone(const struct sl_plan_question *q, struct sl_shard_plan *out)
{
    memset(out, 0, sizeof *out);
    memset(out->lent.from, SL_PEER_MEMORY_NOBODY, sizeof out->lent.from);
    out->placement = SL_STORE_ALONE;
    for (uint32_t d = 0; d < q->n_devices; d++) {
        out->elements[d] =
            (q->works | q->reads) >> d & 1 ? SL_MIN(q->room[d], q->most) : q->room[d];
        if (q->works >> d & 1)
            out->cached = SL_MAX(out->cached, out->elements[d]);
    }
    out->busiest_seconds = busiest(q, out);
}

// GPUs that share, in the job's order.
struct group {
    uint32_t n, device[SL_PLACEMENT_DEVICES];
};

// Of those that work, who is joined to another; the ones with the most room first.
static uint32_t sort_candidates(const struct sl_plan_question *q,
                                uint32_t out[SL_PEER_MEMORY_DEVICES_MAX])
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < q->n_devices; d++) {
        bool joined = false;
        for (uint32_t e = 0; e < q->n_devices; e++)
            joined |= e != d && q->works >> e & 1 && (q->rate[d][e] > 0 || q->rate[e][d] > 0);
        if (!(q->works >> d & 1) || !joined || q->room[d] == 0)
            continue;
        uint32_t at = n++;
        for (; at > 0 && q->room[out[at - 1]] < q->room[d]; at--)
            out[at] = out[at - 1];
        out[at] = d;
    }
    return n;
}

static void choose_group(const uint32_t *sorted, uint32_t n, struct group *g)
{
    g->n = 0;
    for (uint32_t d = 0; d < SL_PEER_MEMORY_DEVICES_MAX; d++)
        for (uint32_t i = 0; i < n; i++)
            if (sorted[i] == d)
                g->device[g->n++] = d;
}

static int place(const struct sl_plan_question *q, enum sl_store_placement kind,
                 const struct group *g, struct sl_placement *out)
{
    struct sl_links links = {.n = g->n};
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t j = 0; j < g->n; j++)
            links.rate[i][j] = q->rate[g->device[i]][g->device[j]];
    if (kind == SL_STORE_SOLVER)
        return sl_placement_solve(&links, out);
    if (kind == SL_STORE_CLIQUES)
        return sl_placement_cliques(&links, out);
    *out = (struct sl_placement){.n = g->n, .most = 1, .total = g->n};
    for (uint32_t i = 0; i < g->n; i++) {
        out->held[i] = 1u << i;
        for (uint32_t p = 0; p < g->n; p++)
            out->from[i][p] = (uint8_t)p;
    }
    return SL_OK;
}

// Whose copy is read: of those at the fastest link the next one behind the reader, so that readers
// take different ones.
static uint8_t fastest(const struct sl_plan_question *q, const struct sl_peer_memory_plan *p,
                       uint32_t d, uint32_t part)
{
    uint8_t best = SL_PEER_MEMORY_NOBODY;
    for (uint32_t i = 0; i < q->n_devices; i++) {
        const uint32_t e = (d + i) % q->n_devices;
        if (p->held[e] >> part & 1 && q->rate[d][e] > 0 &&
            (best == SL_PEER_MEMORY_NOBODY || q->rate[d][e] > q->rate[d][best]))
            best = (uint8_t)e;
    }
    return best;
}

// Who reads whose copy, once it is known who holds what.
static void assign_copies(const struct sl_plan_question *q, struct sl_peer_memory_plan *p)
{
    for (uint32_t d = 0; d < q->n_devices; d++)
        for (uint32_t part = 0; part < p->n_parts; part++)
            if ((q->works | q->reads) >> d & 1)
                p->from[d][part] = fastest(q, p, d, part);
}

static void assign_parts(const struct sl_plan_question *q, const struct group *g,
                         const struct sl_placement *placement, struct sl_peer_memory_plan *p)
{
    memset(p->from, SL_PEER_MEMORY_NOBODY, sizeof p->from);
    p->n_parts = g->n;
    for (uint32_t i = 0; i < g->n; i++)
        p->held[g->device[i]] = placement->held[i];
    assign_copies(q, p);
    // Among themselves they read as the placement has it, which spreads them over the links.
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t part = 0; part < g->n; part++) {
            const uint32_t from = g->device[placement->from[i][part]];
            if (q->rate[g->device[i]][from] > 0)
                p->from[g->device[i]][part] = (uint8_t)from;
        }
}

/*
 * Deals all parts out to the group: about as many to each GPU, and each part to the GPU that had it
 * before as long as that one may have more. Where they do not come out even, the GPU with most of
 * them may have one more than others.
 */
static void deal(const struct sl_plan_question *q, const struct group *g,
                 struct sl_peer_memory_plan *p)
{
    const uint32_t each = SL_PEER_MEMORY_PARTS_MAX / g->n;
    const bool alike = q->before && q->before->n_parts == SL_PEER_MEMORY_PARTS_MAX;
    uint32_t more = SL_PEER_MEMORY_PARTS_MAX % g->n,
             open = (UINT32_C(1) << SL_PEER_MEMORY_PARTS_MAX) - 1;
    memset(p->from, SL_PEER_MEMORY_NOBODY, sizeof p->from);
    p->n_parts = SL_PEER_MEMORY_PARTS_MAX;
    for (uint32_t i = 0; alike && i < g->n; i++) {
        uint32_t had = q->before->held[g->device[i]] & open, quota = each;
        if (more > 0 && (uint32_t)__builtin_popcount(had) > each)
            quota++, more--;
        for (; had && quota > 0; quota--, had &= had - 1)
            p->held[g->device[i]] |= had & -had;
        open &= ~p->held[g->device[i]];
    }
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t *held = &p->held[g->device[i]], has = (uint32_t)__builtin_popcount(*held);
        const uint32_t quota = has > each ? has : each + (more > 0);
        more -= has <= each && more > 0;
        for (; has < quota; has++, open &= open - 1)
            *held |= open & -open;
    }
    assign_copies(q, p);
}

static uint32_t shift_of(const struct sl_plan_question *q)
{
    return q->kind == SL_PEER_MEMORY_GRAPH ? SL_PEER_MEMORY_EDGE_SHIFT : 0;
}

// Of each part that device d holds it has room for so many elements.
static uint64_t room_of_each(const struct sl_plan_question *q, const struct sl_peer_memory_plan *p,
                             uint32_t d)
{
    const uint64_t n = (uint64_t)__builtin_popcount(p->held[d]);
    const uint64_t room = SL_MIN(q->room[d], q->most);
    return n && room > p->first ? (room - p->first) / n >> p->shift << p->shift : 0;
}

// The elements of each device where `first` of them, or a few more, are held by all that share.
static void size_parts(const struct sl_plan_question *q, const struct group *g, uint64_t first,
                       struct sl_shard_plan *out)
{
    struct sl_peer_memory_plan *p = &out->lent;
    const uint64_t all = SL_MIN(q->most, q->n_elements);
    p->shift = shift_of(q);
    p->first = SL_MIN(first, all);
    const uint64_t most = (all - p->first) / p->n_parts >> p->shift << p->shift;
    const uint64_t rest = all - end_of(p, most);
    bool ends = rest < (uint64_t)p->n_parts << p->shift;
    p->part_elements = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const uint32_t d = g->device[i];
        const uint64_t n = (uint64_t)__builtin_popcount(p->held[d]);
        ends &= p->first + rest + n * most <= q->room[d];
        p->part_elements = SL_MAX(p->part_elements, SL_MIN(most, room_of_each(q, p, d)));
    }
    // Less than a run of each part is left: there is room for it on each, or it lies on none.
    if (ends)
        p->first += rest;
    for (uint32_t d = 0; d < q->n_devices; d++) {
        const uint64_t n = (uint64_t)__builtin_popcount(p->held[d]);
        out->elements[d] = n ? p->first + n * SL_MIN(p->part_elements, room_of_each(q, p, d))
                           : (q->works | q->reads) >> d & 1 ? SL_MIN(q->room[d], q->most)
                                                            : q->room[d];
    }
}

// Different elements on GPUs that work.
static uint64_t count_cached(const struct sl_plan_question *q, const struct sl_shard_plan *plan)
{
    const struct sl_peer_memory_plan *p = &plan->lent;
    uint64_t cached = p->first, alone = 0;
    for (uint32_t part = 0; part < p->n_parts; part++) {
        uint64_t most = 0;
        for (uint32_t d = 0; d < q->n_devices; d++)
            if (p->held[d] >> part & 1)
                most = SL_MAX(most, sl_shard_plan_each(plan, d));
        cached += most;
    }
    for (uint32_t d = 0; d < q->n_devices; d++)
        if (q->works >> d & 1 && !p->held[d])
            alone = SL_MAX(alone, plan->elements[d]);
    return SL_MAX(cached, alone);
}

// --- the best of plans ---------------------------------------------------------------------------

// What is found so far: the best plan, the best of as many parts as there may be, and that in which
// the most stays where it is.
struct found {
    struct sl_shard_plan best, dealt, stays;
};

static void keep_better(struct sl_shard_plan *best, const struct sl_shard_plan *one)
{
    if (!best->lent.n_parts || one->busiest_seconds < best->busiest_seconds)
        *best = *one;
}

static void weigh(const struct sl_plan_question *q, struct sl_shard_plan *one, struct found *found)
{
    const struct sl_peer_memory_plan *p = &one->lent, *before = q->before;
    if (p->part_elements == 0)
        return;
    one->busiest_seconds = busiest(q, one);
    one->cached = count_cached(q, one);
    keep_better(&found->best, one);
    if (p->n_parts == SL_PEER_MEMORY_PARTS_MAX)
        keep_better(&found->dealt, one);
    if (before && p->n_parts == before->n_parts && p->first == before->first)
        keep_better(&found->stays, one);
}

static void size_all(const struct sl_plan_question *q, const struct group *g, uint64_t least,
                     struct sl_shard_plan *one, struct found *found)
{
    for (uint64_t i = 0; i <= STEPS_OF_FIRST; i++) {
        size_parts(q, g, least / STEPS_OF_FIRST * i, one);
        weigh(q, one, found);
    }
    if (q->before && q->before->first <= least) {
        size_parts(q, g, q->before->first, one);
        weigh(q, one, found);
    }
}

// All plans of these.
static int share(const struct sl_plan_question *q, enum sl_store_placement kind,
                 const struct group *g, struct found *found)
{
    struct sl_placement placement;
    struct sl_shard_plan one = {.placement = kind};
    uint64_t least = UINT64_MAX;
    SL_TRY(place(q, kind, g, &placement));
    one.proved = kind != SL_STORE_SOLVER || placement.proved;
    for (uint32_t i = 0; i < g->n; i++)
        least = SL_MIN(least, q->room[g->device[i]]);
    assign_parts(q, g, &placement, &one.lent);
    size_all(q, g, least, &one, found);
    if (placement.total == g->n && g->n < SL_PEER_MEMORY_PARTS_MAX) {
        memset(&one.lent, 0, sizeof one.lent);
        deal(q, g, &one.lent);
        size_all(q, g, least, &one, found);
    }
    return SL_OK;
}

// Of all groups.
static int share_best(const struct sl_plan_question *q, enum sl_store_placement kind,
                      struct sl_shard_plan *out)
{
    uint32_t sorted[SL_PEER_MEMORY_DEVICES_MAX];
    const uint32_t n = sort_candidates(q, sorted);
    const uint32_t most = SL_MIN(n, (uint32_t)SL_PLACEMENT_DEVICES);
    struct group g;
    struct found found = {.best.busiest_seconds = 0};
    for (uint32_t k = most; k >= 2; k--) {
        if (k < most && q->room[sorted[k]] == q->room[sorted[k - 1]])
            continue;
        choose_group(sorted, k, &g);
        SL_TRY(share(q, kind, &g, &found));
    }
    const double price = found.best.busiest_seconds * PRICE_OF_STAYING;
    const struct sl_shard_plan *cheap[] = {&found.stays, &found.dealt};
    *out = found.best;
    for (size_t i = 0; i < SL_COUNT_OF(cheap); i++)
        if (cheap[i]->lent.n_parts && cheap[i]->busiest_seconds <= price) {
            *out = *cheap[i];
            break;
        }
    return SL_OK;
}

int sl_shard_plan_make(const struct sl_plan_question *q, struct sl_shard_plan *out)
{
    const bool open = q->placement == SL_STORE_AUTO;
    struct sl_shard_plan together;
    const char *work = q->kind == SL_PEER_MEMORY_GRAPH ? "sample" : "train";
    char why[SL_STORE_REASON_BYTES] = "the job asks for it";
    alone(q, out);
    if (q->placement != SL_STORE_ALONE) {
        SL_TRY(share_best(q, open ? SL_STORE_SOLVER : q->placement, &together));
        // Of the graph nobody asks for parts where they are of no use.
        const bool whole = (open || q->kind == SL_PEER_MEMORY_GRAPH) && out->busiest_seconds == 0;
        const double ratio = together.busiest_seconds / out->busiest_seconds;
        if (!together.lent.n_parts)
            snprintf(why, sizeof why, "no two GPUs that %s reach one another's memory%s", work,
                     q->kind == SL_PEER_MEMORY_GRAPH ? ", or none has room for a run of edges"
                                                     : "");
        else if (whole)
            snprintf(why, sizeof why, "each GPU that %ss has room for every %s", work,
                     q->kind == SL_PEER_MEMORY_GRAPH ? "edge" : "row");
        else if (open)
            snprintf(why, sizeof why,
                     "with parts the busiest links and buses carry %.0f %% of what they carry "
                     "with each GPU alone",
                     100 * ratio);
        if (together.lent.n_parts && !whole && (!open || ratio < 1))
            *out = together;
    }
    snprintf(out->reason, sizeof out->reason, "%s", why);
    return SL_OK;
}
