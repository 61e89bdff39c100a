/*
 * labor_internal.h - exactly which integers one hop of layer-neighbour sampling draws.
 *
 * LABOR-0 of Balin and Catalyurek, "Layer-Neighbor Sampling - Defusing Neighborhood Explosion in
 * GNNs", NeurIPS 2023, in the form that keeps the fanout exact: of each row's neighbours those with
 * the smallest random numbers are taken, and a vertex has one number for all rows of the hop. Each
 * row by itself is a uniform sample without replacement, as khop's; but rows that share neighbours
 * tend to take the same ones, so that a batch has fewer distinct vertices.
 *
 * As kernels/khop_internal.h: a definition that every back end (ref, cpu, cuda) follows integer for
 * integer. Row i of a hop is the vertex nodes[i], of in-degree d, and asks for k = fanout
 * neighbours:
 *
 *   d <= k, or k = -1   all d neighbours, in the order of the file.
 *   d > k               the k edges with the smallest numbers, in the order of the file; of edges
 *                       with equal numbers the first ones.
 *
 * The number of an edge from vertex t is word 0 of the Philox block with the counter
 *
 *   { sl_rng_word0(stream, hop, 0), t, batch, epoch }                                  key: seed
 *
 * So of a row whose edges are all from different vertices each set of k is as likely as any other.
 * The copies of an edge that the graph has several times have one number: together they are as
 * likely to come first as an edge that stands once. A number for each copy would need to know which
 * copy it is, in rows that need not be sorted, and vertices of other rows would share less.
 *
 * Excluded edges (struct sl_excluded) are no neighbours.
 *
 * Local ids follow from first appearance, as khop's. Rows of 2^32 - 1 neighbours or more are
 * refused.
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_KERNELS_LABOR_INTERNAL_H
#define SL_KERNELS_LABOR_INTERNAL_H

#include "common/base/philox.h"
#include "kernels/kernels.h"
#include "kernels/khop_internal.h"

static inline SL_HOST_DEVICE uint32_t sl_labor_number(uint64_t seed, uint32_t stream, uint32_t hop,
                                                      uint32_t batch, uint32_t epoch,
                                                      uint32_t vertex)
{
    return sl_philox(seed, sl_rng_word0(stream, hop, 0), vertex, batch, epoch).w[0];
}

// What is asked of a hop's arguments is what khop asks, and no replacement.
static inline int sl_check_labor(const struct sl_khop_args *args)
{
    const int rc = sl_khop_check_keeps(args);
    return rc < 0 ? rc : sl_check_khop_uniform(args);
}

#endif
