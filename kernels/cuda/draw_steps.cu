/*
 * draw_steps.cu - what a batch is drawn in, checked and planned; how and why is on top of draw.cu.
 */
#include "kernels/cuda/draw.cuh"

#include <string.h>

#include "common/base/bits.h"

// Room for a hop's edges, and for vertices, below which nothing is saved. Small under emulation, so
// that its tests outgrow them.
#ifdef SL_SIMT
enum { FIRST_EDGES = 1 << 10, FIRST_NODES = 1 << 8 };
#else
enum { FIRST_EDGES = 1 << 22, FIRST_NODES = 1 << 22 };
#endif

enum {
    LEAST_SLOTS = 64,   // of the table
    ALL_ROWS_EDGES = 4, // edges a row to begin with where there is no bound
};

// --- arguments -----------------------------------------------------------------------------------

#define SAMPLER(extra, constant, word, kernel, flags) &sl_draw_##kernel,
static const struct sl_draw_sampler *const samplers[] = {SL_SAMPLER_LIST(SAMPLER, )};
#define FLAGS(extra, constant, word, kernel, flags) flags,
static const unsigned sampler_flags[] = {
    SL_SAMPLER_LIST(FLAGS, )}; // the plug-in has no data of others

const struct sl_draw_sampler *sl_draw_sampler_of(enum sl_sampler_kind kind)
{
    return samplers[kind];
}

bool sl_draw_counts_visits(const struct sl_draw_args *args)
{
    return sampler_flags[args->kind] & SL_SAMPLER_VISITS;
}

// Whatever can be wrong with a hop by itself, in the words of the processor's samplers.
static int check_hop(const struct sl_draw_args *args, uint32_t h, uint32_t r, int64_t fanout)
{
    uint32_t n = args->n_seeds;
    uint64_t id;
    struct sl_khop_args hop;
    memset(&hop, 0, sizeof hop);
    hop.topology = args->topology;
    hop.hop = h;
    hop.fanout = fanout;
    hop.replace = args->replace;
    hop.n_dst = n;
    hop.n_nodes = &n;
    hop.nodes_capacity = n;
    hop.paths = args->paths;
    hop.length = args->length;
    if (args->types && r < args->types->n_relations)
        hop.along = args->types->relation[r].along;
    hop.restart = args->restart;
    hop.edge_ids = args->edge_ids ? &id : NULL;
    return samplers[args->kind]->check(&hop);
}

static int check_hops(const struct sl_draw_args *args)
{
    const uint32_t n = args->types ? SL_MAX(args->types->n_relations, 1u) : 1;
    for (uint32_t h = 0; h < args->n_hops; h++)
        for (uint32_t r = 0; r < n; r++) {
            const int64_t fanout =
                args->by_relation ? args->by_relation[h * n + r] : args->fanout[h];
            if (fanout != 0 || !args->by_relation)
                SL_TRY(check_hop(args, h, r, fanout));
        }
    return SL_OK;
}

static int check_types(const struct sl_draw_args *args)
{
    const struct sl_draw_types *t = args->types;
    if (!t)
        return args->by_relation ? sl_fail(SL_EINVAL, "draw: by_relation of a plain graph") : SL_OK;
    if (t->n_types == 0 || !t->n_of || (t->n_relations > 0 && !t->relation))
        return sl_fail(SL_EINVAL, "draw: types without any, or a list of them is NULL");
    for (uint32_t r = 0; r < t->n_relations; r++)
        if (t->relation[r].source >= t->n_types || t->relation[r].target >= t->n_types)
            return sl_fail(SL_EINVAL, "draw: relation %u is of type %u or %u: wanted below %u", r,
                           t->relation[r].source, t->relation[r].target, t->n_types);
    if (args->degree_of || args->deliver.ranks)
        return sl_fail(SL_EUNSUPPORTED, "draw: degrees or ranks of a graph with types");
    return SL_OK;
}

static int check_delivery(const struct sl_draw_args *args)
{
    const struct sl_draw_delivery *d = &args->deliver;
    if (!d->to)
        return SL_OK;
    if ((uintptr_t)d->to % SL_DRAW_ALIGN || (uintptr_t)d->also % SL_DRAW_ALIGN ||
        d->at % SL_DRAW_ALIGN)
        return sl_fail(SL_EINVAL,
                       "draw: delivery at byte %llu of %p and of %p: wanted multiples of %d",
                       (unsigned long long)d->at, d->to, d->also, (int)SL_DRAW_ALIGN);
    if (d->ranks &&
        (d->ranks->n_nodes < args->topology->n_nodes || d->ranks->n_tiers > SL_RANK_TIERS_MAX ||
         (d->ranks->n_tiers > 0 && !d->ranks->words)))
        return sl_fail(SL_EINVAL,
                       "draw: an index of %u tiers and %llu vertices, of a graph of %llu: wanted "
                       "at most %d, as many, and its words",
                       d->ranks->n_tiers, (unsigned long long)d->ranks->n_nodes,
                       (unsigned long long)args->topology->n_nodes, (int)SL_RANK_TIERS_MAX);
    return SL_OK;
}

int sl_draw_check(const struct sl_draw_args *args)
{
    if (!args || !args->topology)
        return sl_fail(SL_EINVAL, "draw: args or topology is NULL");
    if ((unsigned)args->kind >= SL_SAMPLER_KINDS)
        return sl_fail(SL_EINVAL, "draw: there is no sampler of kind %d", (int)args->kind);
    if (args->n_hops < 1 || args->n_hops > SL_DRAW_HOPS_MAX)
        return sl_fail(SL_EINVAL, "draw: %u hops: wanted 1 to %d", args->n_hops, SL_DRAW_HOPS_MAX);
    if (args->renumbering != SL_RENUMBER_FUSED && args->renumbering != SL_RENUMBER_THREE_PHASE)
        return sl_fail(SL_EINVAL, "draw: %d is no way of renumbering", (int)args->renumbering);
    if (args->n_seeds > 0 && !args->seeds)
        return sl_fail(SL_EINVAL, "draw: seeds is NULL");
    const uint64_t n_nodes = args->topology->n_nodes;
    if (n_nodes > UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "draw: a graph of %llu vertices: at most %u are supported on a GPU",
                       (unsigned long long)n_nodes, UINT32_MAX);
    SL_TRY(check_types(args));
    SL_TRY(check_hops(args));
    const uint64_t seeds = args->types ? args->types->n_of[0] : n_nodes;
    for (uint32_t i = 0; i < args->n_seeds; i++)
        if (args->seeds[i] >= seeds)
            return sl_fail(SL_ERANGE, "draw: seed %u at position %u: the graph has %llu vertices",
                           args->seeds[i], i, (unsigned long long)seeds);
    return check_delivery(args);
}

// --- steps ---------------------------------------------------------------------------------------

// A plain graph: its shift is 0, and its vertices the graph's.
static const struct sl_draw_relation ONE_RELATION = {0, 0, 0, {0, {0}}, false};
static const struct sl_draw_types ONE_TYPE = {1, 1, &ONE_RELATION, NULL};

static uint64_t vertices_of(const struct sl_draw_args *args, uint32_t type)
{
    return args->types ? args->types->n_of[type] : args->topology->n_nodes;
}

static int64_t fanout_of(const struct sl_draw_args *args, uint32_t h, uint32_t relation)
{
    return args->by_relation ? args->by_relation[h * args->types->n_relations + relation]
                             : args->fanout[h];
}

// Whether some hop draws of the relation.
static bool is_drawn(const struct sl_draw_args *args, uint32_t relation)
{
    bool any = false;
    for (uint32_t h = 0; h < args->n_hops; h++)
        any = any || fanout_of(args, h, relation) != 0;
    return any;
}

/*
 * Whether a hop has a step for the relation: types that no hop has found yet have no rows; and what
 * draws nothing has one only to keep rows whole.
 */
static bool has_step(const struct sl_draw_args *args, const struct sl_draw_steps *p, uint32_t h,
                     uint32_t r)
{
    return *sl_draw_at(p, h, p->types->relation[r].target) != SL_DRAW_NOBODY &&
           (fanout_of(args, h, r) != 0 || (args->expand_new && is_drawn(args, r)));
}

// --- room ----------------------------------------------------------------------------------------

static uint64_t edges_room(const struct sl_draw_wanted *w, const struct sl_draw_args *args,
                           const struct sl_draw_steps *p, const struct sl_draw_step *step)
{
    const struct sl_draw_relation *r = &p->types->relation[step->relation];
    const uint64_t rows = *sl_draw_rows(p, step->hop, r->target), most = (uint64_t)UINT32_MAX - 31;
    const uint64_t kept =
        step->earlier == SL_DRAW_NO_STEP ? 0 : p->step[step->earlier].edges; // at most
    const uint64_t wanted = w->edges[(uint64_t)step->hop * p->types->n_relations + step->relation];
    uint64_t room;
    if (step->fanout == 0) {
        room = kept;
    } else if (step->take > 0 || step->fanout > 0) {
        uint64_t each = step->take > 0 ? step->take : (uint64_t)step->fanout;
        room = SL_MIN(kept + rows * each, SL_MAX(wanted, (uint64_t)FIRST_EDGES));
    } else {
        uint64_t first = SL_MIN(kept + rows * ALL_ROWS_EDGES, (uint64_t)FIRST_EDGES);
        room = SL_MAX(wanted, first);
    }
    return SL_MAX(SL_MIN(SL_MAX(room, kept), most), 1ull);
}

static void plan_step(const struct sl_draw_wanted *w, const struct sl_draw_args *args,
                      struct sl_draw_steps *p, uint32_t h, uint32_t r)
{
    const struct sl_draw_sampler *sampler = samplers[args->kind];
    const uint32_t source = p->types->relation[r].source;
    struct sl_draw_step *step = &p->step[p->n_steps];
    step->hop = h;
    step->relation = r;
    step->fanout = fanout_of(args, h, r);
    step->take = sampler->take && step->fanout != 0 ? sampler->take(args, step->fanout) : 0;
    step->earlier = args->expand_new ? p->last[r] : SL_DRAW_NO_STEP;
    step->before = *sl_draw_at(p, h + 1, source);
    step->edges = edges_room(w, args, p, step);
    const uint64_t values = sl_align_up(step->edges, 32);
    if (!sl_draw_shares_values(args, p))
        p->values += step->fanout != 0 ? values : 0;
    else if (h + 1 == args->n_hops)
        p->values += values;
    *sl_draw_rows(p, h + 1, source) +=
        step->edges; // of kept rows with those that are counted already
    if (step->fanout != 0)
        *sl_draw_at(p, h + 1, source) = SL_DRAW_FOUND + p->n_steps;
    p->last[r] = p->n_steps++;
}

/*
 * A hop's steps, and what is known after it: at most `inserted` vertices before it is known what
 * room they have.
 */
static void plan_hop(const struct sl_draw_wanted *w, const struct sl_draw_args *args,
                     struct sl_draw_steps *p, uint32_t h, uint64_t *inserted)
{
    const uint32_t n_types = p->types->n_types;
    for (uint32_t t = 0; t < n_types; t++) {
        *sl_draw_rows(p, h + 1, t) = *sl_draw_rows(p, args->expand_new ? 0 : h, t);
        *sl_draw_at(p, h + 1, t) = *sl_draw_at(p, h, t);
    }
    for (uint32_t r = 0; r < p->types->n_relations; r++)
        if (has_step(args, p, h, r))
            plan_step(w, args, p, h, r);
    uint64_t known = 0;
    for (uint32_t t = 0; t < n_types; t++) {
        uint64_t *rows = sl_draw_rows(p, h + 1, t);
        const uint64_t wanted = w->rows[(uint64_t)(h + 1) * n_types + t];
        known += *rows;
        *rows = SL_MIN(*rows, SL_MAX(wanted, (uint64_t)FIRST_NODES));
        *rows = SL_MAX(SL_MIN(*rows, vertices_of(args, t)), *sl_draw_rows(p, h, t));
    }
    *inserted = SL_MAX(*inserted, known);
}

int sl_draw_make_steps(const struct sl_draw_wanted *w, const struct sl_draw_args *args,
                       struct sl_draw_steps *p)
{
    const uint64_t n_nodes = args->topology->n_nodes;
    uint64_t inserted = 0, all = 0;
    p->types = args->types ? args->types : &ONE_TYPE;
    p->n_hops = args->n_hops;
    p->n_steps = 0;
    p->values = sl_align_up(args->n_seeds, 32);
    for (uint32_t t = 0; t < p->types->n_types; t++) {
        *sl_draw_rows(p, 0, t) = t == 0 ? args->n_seeds : 0;
        *sl_draw_at(p, 0, t) = t == 0 ? SL_DRAW_SEEDS : SL_DRAW_NOBODY;
    }
    for (uint32_t r = 0; r < p->types->n_relations; r++)
        p->last[r] = SL_DRAW_NO_STEP;
    for (uint32_t h = 0; h < p->n_hops; h++)
        plan_hop(w, args, p, h, &inserted);
    if (p->values >= UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "draw: %u seeds and the edges of %u hops come to %llu: fewer than 2^32 are "
                       "supported in a batch; use smaller batches or fanouts",
                       args->n_seeds, args->n_hops, (unsigned long long)p->values);
    for (uint32_t t = 0; t < p->types->n_types; t++)
        all += *sl_draw_rows(p, p->n_hops, t);
    uint64_t expected = w->largest > 0 ? w->largest + w->largest / 4 : (uint64_t)FIRST_NODES;
    expected = SL_MIN(SL_MAX(expected, (uint64_t)args->n_seeds), all);
    uint64_t wanted = SL_MIN(w->slots, sl_pow2_at_least(2 * SL_MIN(inserted, n_nodes)));
    p->slots = SL_MAX(sl_pow2_at_least(2 * expected), wanted);
    p->slots = SL_MIN(SL_MAX(p->slots, (uint64_t)LEAST_SLOTS), 1ull << 31);
    return SL_OK;
}
