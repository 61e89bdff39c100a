/*
 * expected_visits.h - how often sampling is expected to meet a vertex, without drawing anything.
 *
 * Of an epoch of uniform sampling, in which every hop draws for all vertices that its batch knows:
 * p_0 is 1 for training vertices, p_(l+1)(u) is p_l(u) and the sum over the edges u -> v of
 * p_l(v) * min(1, fanout[l] / in-degree(v)); a vertex's expected visits are those after the last
 * hop. A closed form: a vertex that several neighbours in one batch lead to counts as often as
 * there are of them, where a batch gathers it once.
 */
#ifndef SL_DATA_EXPECTED_VISITS_H
#define SL_DATA_EXPECTED_VISITS_H

#include <stdint.h>

#include "common/data/dataset.h"

struct sl_visits_watch {
    // Called before so many more vertices of a hop are processed, by one thread at a time; what is
    // not SL_OK ends it.
    int (*on_vertices)(void *ctx, uint64_t n);
    void *ctx;
    // May be NULL. Before a hop of this fanout: visits (n_nodes) so far, which it draws for.
    void (*on_hop)(void *ctx, int64_t fanout, const double *visits);
};

/*
 * hotness (n_nodes): as a hotness (hotness.h), the bits of a float; those of floats that are not
 * negative are ordered as their values. fanout (n_hops) from the seeds outwards, -1 = all. On all
 * cores of this process, the same bits on any number of them; O(n_hops E), 16 bytes a vertex beside
 * hotness. SL_ENOMEM, or what the watch says.
 */
int sl_visits_expect(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                     const struct sl_visits_watch *watch, uint32_t *hotness);

/*
 * What batches are like in an epoch of n_batches with these visits, if each visit may be in any of
 * them: *inputs, the different input nodes of a batch, and *hit_rate, the share of these that are
 * among the `capacity` vertices of most visits. SL_ENOMEM.
 */
int sl_visits_forecast(const uint32_t *hotness, uint64_t n_nodes, uint64_t n_batches,
                       uint64_t capacity, double *inputs, double *hit_rate);

#endif
