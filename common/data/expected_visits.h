/*
 * expected_visits.h - how often sampling is expected to meet a vertex, without drawing anything.
 *
 * Of an epoch of uniform sampling. f_0 is 1 for training vertices; where training is of pairs it is
 * in how many batches the vertex is an end of one, or of a negative, if each pair may be in any of
 * them. Hop l finds u as often as the sum, over the edges u -> v, of f_l(v) * the chance that an
 * edge of v is drawn. That chance is min(1, fanout[l] / in-degree(v)); with replacement
 * 1 - (1 - 1 / in-degree(v))^fanout[l]. Where every hop draws for all vertices that its batch
 * knows, f_(l+1) is f_l and what hop l finds; where it draws for the new ones, what hop l finds
 * alone. Of a graph with types the same holds of each relation, with its fanout and its in-degrees.
 * A vertex's expected visits are how often it is a seed or found. A closed form: a vertex that
 * several neighbours in one batch lead to counts as often as there are of them, where a batch
 * gathers it once.
 */
#ifndef SL_DATA_EXPECTED_VISITS_H
#define SL_DATA_EXPECTED_VISITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_visits_sampling {
    const int64_t *fanout;      // (n_hops) from the seeds outwards; -1 = all
    const int64_t *by_relation; // (n_hops, relations) of a graph with types; NULL: fanout is of all
    uint32_t n_hops;
    bool expands_new; // a hop draws for the vertices that are new in the one before, not for all
    bool replaces;    // draws with replacement
    // Of pairs (SL_TASK_LINK): how many are in a batch, and vertices that are drawn for each as the
    // ends of its negatives, from all or by degree; 0 where they are those of its batch.
    double batch_size, negatives;
    bool negatives_by_degree;
};

struct sl_visits_watch {
    // Called before so many more vertices of a hop are processed, by one thread at a time; what is
    // not SL_OK ends it.
    int (*on_vertices)(void *ctx, uint64_t n);
    void *ctx;
    // May be NULL. Before a hop of this fanout: how often it draws for each vertex (n_nodes).
    void (*on_hop)(void *ctx, int64_t fanout, const double *drawn_for);
};

/*
 * hotness (n_nodes): as a hotness (hotness.h), the bits of a float; those of floats that are not
 * negative are ordered as their values. On all cores of this process, the same bits on any number
 * of them; O(n_hops E), 16 bytes a vertex beside hotness. SL_ENOMEM, or what the watch says.
 */
int sl_visits_expect(const struct sl_dataset *ds, const struct sl_visits_sampling *sampling,
                     const struct sl_visits_watch *watch, uint32_t *hotness);

/*
 * What batches are like in an epoch of n_batches with these visits, if each visit may be in any of
 * them: *inputs, the different input nodes of a batch, and *hit_rate, the share of these that are
 * among the `capacity` vertices of most visits. SL_ENOMEM.
 */
int sl_visits_forecast(const uint32_t *hotness, uint64_t n_nodes, uint64_t n_batches,
                       uint64_t capacity, double *inputs, double *hit_rate);

#endif
