#include "common/data/link_items.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

// The edges that may be learned, and the rows that they stand in.
struct edges {
    uint64_t first, n, first_row, n_rows;
    uint64_t first_target; // the vertex of the first row
};

static struct edges edges_of(const struct sl_dataset *ds)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    if (!r)
        return (struct edges){.n = ds->n_edges, .n_rows = ds->n_nodes};
    const struct sl_vertex_type *target = &ds->typed.type[r->target];
    return (struct edges){r->first_edge, r->n_edges, r->first_row, target->n, target->first};
}

struct sl_link_items sl_link_items_of(const struct sl_dataset *ds, enum sl_split split,
                                      uint64_t negatives)
{
    struct sl_link_items items = {
        .ds = ds, .split = split, .edges = ds->edges[split], .given = ds->negatives[split]};
    if (split == SL_SPLIT_TRAIN) {
        items.n_positive = items.edges.ids ? items.edges.n : edges_of(ds).n;
        return items;
    }
    items.n_positive = items.edges.n;
    items.per_positive = items.given.ids ? items.given.per_positive : 0;
    if (items.n_positive && items.given.ids)
        items.n_negative = items.given.n;
    else if (items.n_positive)
        items.n_negative = negatives ? negatives : items.n_positive;
    return items;
}

uint32_t sl_link_items_target(const struct sl_dataset *ds, uint64_t e)
{
    const struct edges in = edges_of(ds);
    return (uint32_t)(sl_row_of_edge(ds, in.first_row, in.n_rows, e) - in.first_row +
                      in.first_target);
}

static void given_negative(const struct sl_link_items *items, uint64_t i, uint32_t pair[2])
{
    const struct sl_negatives *given = &items->given;
    const bool own = given->per_positive > 0;
    pair[0] = own ? items->edges.ids[i / given->per_positive * 2] : given->ids[2 * i];
    pair[1] = given->ids[own ? i : 2 * i + 1];
}

struct sl_targets sl_link_targets(const struct sl_dataset *ds, uint32_t source)
{
    const uint32_t first = (uint32_t)ds->first_side, all = (uint32_t)ds->n_nodes;
    if (ds->typed.n_types)
        return sl_link_all_targets(ds);
    if (first == 0 || first == all)
        return (struct sl_targets){0, all};
    return source < first ? (struct sl_targets){first, all - first} : (struct sl_targets){0, first};
}

static struct sl_targets vertices_of(const struct sl_vertex_type *type)
{
    return (struct sl_targets){(uint32_t)type->first, (uint32_t)type->n};
}

struct sl_targets sl_link_all_targets(const struct sl_dataset *ds)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    return r ? vertices_of(&ds->typed.type[r->target])
             : (struct sl_targets){0, (uint32_t)ds->n_nodes};
}

static struct sl_targets sources_of(const struct sl_dataset *ds)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    return r ? vertices_of(&ds->typed.type[r->source])
             : (struct sl_targets){0, (uint32_t)ds->n_nodes};
}

static uint32_t any_of(struct sl_targets range, const uint32_t *words)
{
    uint32_t v;
    // The second word where the first one is of the few that would make some vertices likelier.
    if (!sl_rng_below(words[0], range.n, &v))
        sl_rng_below(words[1], range.n, &v);
    return range.first + v;
}

static void draw_negative(const struct sl_link_items *items, uint64_t i, uint32_t pair[2])
{
    for (uint32_t try = 0; try < SL_LINK_TRIES; try++) {
        const uint32_t word0 = sl_rng_word0(SL_RNG_EVAL_NEGATIVE, items->split, try);
        const struct sl_rng_block r =
            sl_philox(items->seed, word0, (uint32_t)i, (uint32_t)(i >> 32), 0);
        pair[0] = any_of(sources_of(items->ds), r.w);
        pair[1] = any_of(sl_link_targets(items->ds, pair[0]), r.w + 2);
        if (pair[0] != pair[1] &&
            !(items->avoid && sl_edge_lookup_has(items->avoid, pair[0], pair[1])))
            return;
    }
}

void sl_link_items_pair(const struct sl_link_items *items, uint64_t i, uint32_t pair[2])
{
    if (i >= items->n_positive && items->given.ids) {
        given_negative(items, i - items->n_positive, pair);
    } else if (i >= items->n_positive) {
        draw_negative(items, i - items->n_positive, pair);
    } else if (items->edges.ids) {
        pair[0] = items->edges.ids[2 * i];
        pair[1] = items->edges.ids[2 * i + 1];
    } else {
        const uint64_t e = edges_of(items->ds).first + i;
        pair[0] = sl_dataset_source(items->ds, e);
        pair[1] = sl_link_items_target(items->ds, e);
    }
}

enum { SIDE_BY_SIDE = 32 }; // searches: their loads do not wait for one another

// n <= SIDE_BY_SIDE of them, each the last vertex whose edges begin at its edge or before.
static void find_targets(const struct sl_dataset *ds, const uint32_t *numbers, uint32_t n,
                         uint32_t *targets)
{
    const struct edges in = edges_of(ds);
    const uint64_t *rows = ds->indptr + in.first_row, *low[SIDE_BY_SIDE];
    for (uint32_t i = 0; i < n; i++)
        low[i] = rows;
    for (uint64_t left = in.n_rows; left > 1; left -= left / 2)
        for (uint32_t i = 0; i < n; i++) // no branch, which would be taken as often as not
            low[i] += left / 2 & -(uint64_t)(low[i][left / 2] <= in.first + numbers[i]);
    for (uint32_t i = 0; i < n; i++)
        targets[i] = (uint32_t)(low[i] - rows + in.first_target);
}

void sl_link_items_targets(const struct sl_link_items *items, const uint32_t *numbers, uint32_t n,
                           uint32_t *targets)
{
    for (uint32_t i = 0; items->edges.ids && i < n; i++)
        targets[i] = items->edges.ids[2 * (uint64_t)numbers[i] + 1];
    for (uint32_t i = 0; !items->edges.ids && i < n; i += SIDE_BY_SIDE)
        find_targets(items->ds, numbers + i, SL_MIN(n - i, (uint32_t)SIDE_BY_SIDE), targets + i);
}

void sl_link_items_pairs(const struct sl_link_items *items, const uint32_t *numbers, uint32_t n,
                         uint32_t *pairs)
{
    const struct sl_dataset *ds = items->ds;
    const bool is_listed = items->edges.ids;
    const uint64_t first = is_listed ? 0 : edges_of(ds).first;
    const char *at = is_listed ? (const char *)items->edges.ids : (const char *)ds->indices;
    const size_t each =
        is_listed ? 2 * sizeof *items->edges.ids : sl_dtype_bytes(ds->indices_dtype);
    uint32_t targets[SIDE_BY_SIDE];
    for (uint32_t i = 0; i < n; i += SIDE_BY_SIDE) {
        const uint32_t some = SL_MIN(n - i, (uint32_t)SIDE_BY_SIDE);
        for (uint32_t k = 0; k < some; k++)
            __builtin_prefetch(at + each * (first + numbers[i + k]));
        sl_link_items_targets(items, numbers + i, some, targets);
        for (uint32_t k = 0; k < some; k++) {
            const uint64_t number = first + numbers[i + k];
            pairs[2 * (i + k)] =
                is_listed ? items->edges.ids[2 * number] : sl_dataset_source(ds, number);
            pairs[2 * (i + k) + 1] = targets[k];
        }
    }
}

int sl_link_sets_init(struct sl_link_sets *s, const struct sl_dataset *ds,
                      const struct sl_link_negatives *negatives)
{
    *s = (struct sl_link_sets){0};
    SL_TRY(sl_edge_lookup_init(&s->avoid, ds, negatives->not_listed));
    for (int i = 0; i < SL_SPLIT_COUNT; i++) {
        s->split[i] = sl_link_items_of(ds, (enum sl_split)i, negatives->n);
        s->split[i].seed = negatives->seed;
        s->split[i].avoid = negatives->not_graph ? &s->avoid : NULL;
    }
    return SL_OK;
}

void sl_link_sets_fini(struct sl_link_sets *s)
{
    sl_edge_lookup_fini(&s->avoid);
    *s = (struct sl_link_sets){0};
}
