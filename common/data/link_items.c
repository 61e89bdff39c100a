#include "common/data/link_items.h"

#include "common/base/error.h"
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
    if (items.n_positive)
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
    if (i >= items->n_positive) {
        draw_negative(items, i - items->n_positive, pair);
    } else if (items->edges.ids) {
        pair[0] = items->edges.ids[2 * i];
        pair[1] = items->edges.ids[2 * i + 1];
    } else {
        pair[0] = sl_dataset_source(items->ds, i);
        pair[1] = sl_link_items_target(items->ds, i);
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
