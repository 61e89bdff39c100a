/*
 * pairs.h - the pairs of a mini-batch of links: its positives, the negatives that are drawn for
 * them, and the different vertices at their ends, which are the seeds of its block.
 *
 * A batch is a function of (seed; epoch, batch) and its items, whoever draws it, so what follows is
 * a definition. Of n positives number i is the pair of the batch's item i (link_items.h), from u
 * to v. Negative j of it has the number q = i * per_positive + j, and u for its source. Its
 * target is drawn in tries t = 0, 1, ... of which each has the first two words, w0 and w1, of the
 * Philox block with the counter
 *
 *   { sl_rng_word0(SL_RNG_NEGATIVE, 0, t), q, batch, epoch }      key: seed
 *
 *   uniform   vertex w0, taken to 0 .. V - 1 by sl_rng_below(); in a graph of two sides to the
 *             numbers of the vertices of the other side than u's.
 *   degree    the target of training pair w0, taken to the number of these. With d of them that
 *             have it as their target it is kept where w1 / 2^32 * d^(1/4) < 1: so a vertex comes
 *             with a chance proportional to d^(3/4) (Mikolov et al., NeurIPS 2013).
 *   batch     the target of the positive in place p: w0, taken to 0 .. n - 2, and one more from i
 *             on.
 *   given     of train_neg.npy pair w0, taken to its number of pairs, with its own source. Of
 *             train_neg_target.npy's k targets of the positive's item number (w0 + j) mod k, w0
 *             being of q = i * per_positive and taken to 0 .. k - 1. Nothing but a rejected w0
 *             makes a try fail; when SL_PAIR_TRIES have failed it is taken as it is.
 *
 * A try fails where it is not kept, where sl_rng_below() rejects w0, where the target is u or, in a
 * graph of two sides, of u's side, and where task.strict says that (u, target) is not drawn. The
 * first one that does not fail tells the target. When SL_PAIR_TRIES have failed it is the first
 * candidate, from the one behind that of the last try on and around to that one, that is none of
 * these: of the vertices (with degree those that are the target of a training pair), or of the
 * places but i. Where there is none the pair does not count: its weight is 0 and its target u, or
 * where that is of another type than targets are, v.
 *
 * The last negatives of a positive may be hard: hard.h.
 *
 * Of a positive the weight is that of the training pair, of a negative that counts 1. The shift is
 * 0; with batch, for positives as for negatives, the logarithm of the share of training pairs that
 * have the pair's target (Yi et al., RecSys 2019).
 *
 * Seeds are in the order in which the pairs, positives first, name them. In a graph of several
 * types, whose pairs are of one relation (link_items.h), they are type after type, those of a type
 * in that order; "vertex" above is one of the relation's target type, counted from its first one.
 */
#ifndef SL_SAMPLER_PAIRS_H
#define SL_SAMPLER_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/data/edge_lookup.h"
#include "common/data/link_items.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "sampler/draw_job.h"
#include "sampler/hard.h"

enum { SL_PAIR_TRIES = 512 };

// Vertices that a walk from one source went through in vain, so that the next one need not: where
// a source has an edge to nearly everybody.
struct sl_futile_walk {
    uint32_t source, first, n; // n of them, from the first one on and around; 0: none
};
enum { SL_FUTILE_WALKS = 256 };

// One for a thread. What it gives stays until it makes the next batch.
struct sl_pair_maker {
    uint64_t seed;
    enum sl_negatives_kind negatives;
    uint32_t per_positive;
    bool strict;
    enum sl_exclude_kind exclude;
    struct sl_link_items items; // training's
    struct sl_hard hard;
    uint32_t *source_of; // (capacity) where there are hard ones: of a positive, its source's number
    struct sl_edge_lookup edges; // where strict
    // (n_nodes) training pairs that have a vertex as their target, or NULL: its in-degree.
    uint32_t *n_pairs_to;
    struct sl_futile_walk futile[SL_FUTILE_WALKS];
    bool has_warned;         // that a source has no negatives
    bool has_warned_of_hard; // that it has no hard ones
    struct sl_idmap *map;
    uint64_t capacity; // pairs that there is memory for
    uint32_t *ids;     // (capacity, 2)
    // (2 * capacity) where sources and targets are of two types: seeds as they were named, and then
    // their numbers by type.
    uint32_t *renumbered;
    float *weight, *shift;
    // The batch:
    uint32_t *seeds; // (n_seeds), all different
    uint32_t n_seeds;
    struct sl_pairs pairs;
    struct sl_target_edges targets; // that its draws do not see
};

// The data set, which sl_config_choose_items() has been given, must outlive it. SL_ENOMEM.
int sl_pair_maker_init(struct sl_pair_maker *m, const struct sl_config *config,
                       const struct sl_dataset *ds);
void sl_pair_maker_fini(struct sl_pair_maker *m); // safe on a zeroed struct

// The batch of these training items (n_items), into seeds and pairs. SL_ENOMEM.
int sl_pair_maker_make(struct sl_pair_maker *m, uint32_t epoch, uint32_t batch,
                       const uint32_t *items, uint32_t n_items);

// The same for a job whose seeds are items: they become the vertices, with the pairs beside them,
// and the positives' edges are left out of its draws as task.exclude says.
int sl_pair_maker_find_seeds(struct sl_pair_maker *m, struct sl_draw_job *job);

// Hard negatives of the last batch.
static inline uint32_t sl_pair_maker_hard(const struct sl_pair_maker *m)
{
    return m->pairs.n_positive * m->hard.each - m->hard.n_missing;
}

// Memory that it holds.
uint64_t sl_pair_maker_bytes(const struct sl_pair_maker *m);

#endif
