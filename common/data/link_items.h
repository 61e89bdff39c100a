/*
 * link_items.h - the pairs of vertices that a job of links walks through, by number: an epoch's
 * order shuffles the numbers of training pairs; an evaluation goes through its edges, and then
 * through pairs that are none.
 *
 * Training pairs are train_edges.npy, or without it all edges of the graph by their place in
 * indices.npy. Of a typed graph the edges are those of one relation (sl_dataset_linked()), by their
 * place in it, and vertices those of its source and target types; ids are of the one numbering.
 *
 * Negatives are those of the data set. Where it gives none they are drawn: number i is a function
 * of (seed, split, i), so that every process sees the same ones and nobody keeps them. Both ends
 * are uniform (in a graph of two sides one is of each), and neither the same vertex nor, as
 * task.strict says, an edge. After SL_LINK_TRIES pairs that are edges the last one is taken: a
 * graph so dense has hardly anything else.
 */
#ifndef SL_DATA_LINK_ITEMS_H
#define SL_DATA_LINK_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/edge_lookup.h"

enum { SL_LINK_TRIES = 128 };

// Vertices that a negative's target may be: in a graph of two sides those of the other side, of a
// relation those of its target type.
struct sl_targets {
    uint32_t first, n;
};
struct sl_targets sl_link_targets(const struct sl_dataset *ds, uint32_t source);
// Vertices that any source's target may be.
struct sl_targets sl_link_all_targets(const struct sl_dataset *ds);

struct sl_link_items {
    const struct sl_dataset *ds;
    struct sl_pair_list edges;
    struct sl_negatives given;       // ids NULL: they are drawn
    uint64_t n_positive, n_negative; // items: positives, then negatives
    // Negatives of each positive, in its order; 0: all positives have the same ones.
    uint32_t per_positive;
    uint32_t split;
    uint64_t seed;
    const struct sl_edge_lookup *avoid; // what a drawn negative is not; NULL: anything
};

// How many there are: of training its edges, of another split also its negatives, `negatives` of
// them where they are drawn (0: as many as edges).
struct sl_link_items sl_link_items_of(const struct sl_dataset *ds, enum sl_split split,
                                      uint64_t negatives);

// pair: source, target.
void sl_link_items_pair(const struct sl_link_items *items, uint64_t i, uint32_t pair[2]);

// The training pairs of these numbers, (n, 2), or their targets alone, (n). The searches for
// targets of a graph's edges go side by side.
void sl_link_items_pairs(const struct sl_link_items *items, const uint32_t *numbers, uint32_t n,
                         uint32_t *pairs);
void sl_link_items_targets(const struct sl_link_items *items, const uint32_t *numbers, uint32_t n,
                           uint32_t *targets);

// The vertex whose list of in-edges edge e is in.
uint32_t sl_link_items_target(const struct sl_dataset *ds, uint64_t e);

// The pairs of all splits, and what their drawn negatives are not.
struct sl_link_sets {
    struct sl_edge_lookup avoid;
    struct sl_link_items split[SL_SPLIT_COUNT];
};

// How an evaluation's negatives are drawn.
struct sl_link_negatives {
    uint64_t seed, n; // n as of sl_link_items_of()
    bool not_graph;   // they are no edges of the graph
    bool not_listed;  // nor of the data set's lists
};

// The data set must outlive it, and the struct must not move afterwards. SL_ENOMEM.
int sl_link_sets_init(struct sl_link_sets *s, const struct sl_dataset *ds,
                      const struct sl_link_negatives *negatives);
void sl_link_sets_fini(struct sl_link_sets *s); // safe on a zeroed struct

#endif
