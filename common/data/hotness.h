/*
 * hotness.h - orders of vertices for caches, and the hit rates that they give.
 *
 * The general caching scheme of FGNN (6.1): a metric gives every vertex a hotness h_v; the order of
 * vertices by falling hotness is the *hotness order*; a cache of ratio alpha holds its first
 * alpha |V| vertices. A vertex's place in the order is its rank: rank < capacity is a hit at row
 * rank of the cache, whatever the capacity, so one array of ranks serves every trainer.
 *
 * Ties are broken by vertex id, so an order is a function of its metric alone.
 *
 * Costs: O(V) time for an order (a counting sort: one pass where hotness is below 2^16, which visit
 * counts are, else two and 4 bytes of scratch memory a vertex), O(E) reads for degrees. Meant for a
 * background thread, once a job.
 */
#ifndef SL_DATA_HOTNESS_H
#define SL_DATA_HOTNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/dtype.h"

/*
 * order (n) = vertices by falling hotness[v], then by rising v; rank (n) = its inverse; either may
 * be NULL. SL_ENOMEM; SL_EABORTED once *cancel (may be NULL) is set.
 */
int sl_hotness_order(const uint32_t *hotness, uint64_t n, const atomic_bool *cancel,
                     uint32_t *order, uint32_t *rank);

// hotness[v] = out-degree of v, saturating: how often it is the source of an edge (PaGraph's
// metric).
int sl_hotness_degree(const void *indices, enum sl_dtype dtype, uint64_t n_edges, uint64_t n_nodes,
                      const atomic_bool *cancel, uint32_t *hotness);

// hotness[v] = a Philox draw keyed by (seed, v): a random order.
int sl_hotness_random(uint64_t seed, uint64_t n_nodes, const atomic_bool *cancel,
                      uint32_t *hotness);

// Sum of visits[order[0 .. capacity)] over the sum of all visits: the hit rate of a cache of that
// capacity in the epochs that were counted. 0 without visits.
double sl_hotness_hit_rate(const uint32_t *visits, const uint32_t *order, uint64_t n,
                           uint64_t capacity);

// The best hit rate that any static cache of that capacity could have had (FGNN 6.3, Optimal):
// that of the capacity most visited vertices. SL_ENOMEM.
int sl_hotness_optimal_hit_rate(const uint32_t *visits, uint64_t n, uint64_t capacity, double *out);

/*
 * FGNN 6.2: the footprints' similarity of epoch i to epoch j over the `top` share (0.1) most
 * visited vertices T: sum over T_i and T_j of min(f_i, f_j), over the sum over T_j of f_j.
 * SL_EINVAL where `top` is no share; SL_ENOMEM.
 */
int sl_hotness_similarity(const uint32_t *visits_i, const uint32_t *visits_j, uint64_t n,
                          double top, double *out);

#endif
