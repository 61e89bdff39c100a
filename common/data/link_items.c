#include "common/data/link_items.h"

#include "common/base/philox.h"

struct sl_link_items sl_link_items_of(const struct sl_dataset *ds, enum sl_split split,
                                      uint64_t negatives)
{
    struct sl_link_items items = {.ds = ds, .split = split, .edges = ds->edges[split]};
    if (split == SL_SPLIT_TRAIN) {
        items.n_positive = items.edges.ids ? items.edges.n : ds->n_edges;
        return items;
    }
    items.n_positive = items.edges.n;
    items.given = ds->negatives[split];
    items.per_positive = items.given.ids ? items.given.per_positive : 0;
    if (items.n_positive && items.given.ids)
        items.n_negative = items.given.n;
    else if (items.n_positive)
        items.n_negative = negatives ? negatives : items.n_positive;
    return items;
}

uint32_t sl_link_items_target(const struct sl_dataset *ds, uint64_t e)
{
    uint64_t low = 0, high = ds->n_nodes; // indptr[low] <= e < indptr[high]
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        *(ds->indptr[middle] <= e ? &low : &high) = middle;
    }
    return (uint32_t)low;
}

static void given_negative(const struct sl_link_items *items, uint64_t i, uint32_t pair[2])
{
    const struct sl_negatives *given = &items->given;
    const bool own = given->per_positive > 0;
    pair[0] = own ? items->edges.ids[i / given->per_positive * 2] : given->ids[2 * i];
    pair[1] = given->ids[own ? i : 2 * i + 1];
}

static uint32_t any_vertex(const struct sl_link_items *items, const uint32_t *words)
{
    uint32_t v;
    // The second word where the first one is of the few that would make some vertices likelier.
    if (!sl_rng_below(words[0], (uint32_t)items->ds->n_nodes, &v))
        sl_rng_below(words[1], (uint32_t)items->ds->n_nodes, &v);
    return v;
}

static void draw_negative(const struct sl_link_items *items, uint64_t i, uint32_t pair[2])
{
    for (uint32_t try = 0; try < SL_LINK_TRIES; try++) {
        const uint32_t word0 = sl_rng_word0(SL_RNG_EVAL_NEGATIVE, items->split, try);
        const struct sl_rng_block r =
            sl_philox(items->seed, word0, (uint32_t)i, (uint32_t)(i >> 32), 0);
        pair[0] = any_vertex(items, r.w);
        pair[1] = any_vertex(items, r.w + 2);
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
        pair[0] = sl_dataset_source(items->ds, i);
        pair[1] = sl_link_items_target(items->ds, i);
    }
}
