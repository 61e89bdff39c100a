/*
 * weighted_internal.h - exactly which integers one hop of k-hop weighted sampling draws.
 *
 * As kernels/khop_internal.h: a definition that every back end (ref, cpu, cuda) follows integer for
 * integer, not a description of one of them.
 *
 * THE GRID. weight_prefix does not store plain sums. Each row has a unit, a power of two: with s
 * the row's sum in f64, taken in the order of the file, and 2^(e-1) <= s < 2^e,
 *
 *     unit = 2^(e - 52),   units[j] = 0                                  when weight[j] = 0
 *                                     max(1, floor(weight[j] / unit + 1/2))          otherwise
 *     prefix[j] = unit * (units[0] + .. + units[j])
 *
 * So all running sums of a row are multiples of its unit, below 2^53 of them (rounding adds less
 * than one a neighbour, and rows of 2^32 - 1 neighbours or more are refused), and every sum and
 * difference that sampling makes of them is exact in f64. That is what the definition below stands
 * on: no rounding at the ends of intervals, no order of summation, nothing that a fused
 * multiply-add could change, and an edge has an empty interval exactly when its weight is zero. It
 * costs no accuracy: a weight above 2^-29 of its row's sum is a multiple of the unit as it is, and
 * the others keep 2^-53 of the row's sum, which is what plain f64 sums would keep. Edges lighter
 * than that in their row are drawn as if they weighed one unit.
 *
 * THE DRAWS. Row i of a hop is the vertex nodes[i] and asks for k = fanout neighbours. The edges
 * of positive weight that are left are laid end to end, in the order of the file, each as long as
 * its weight; R is their length together. For slot = 0 .. k - 1, while R > 0:
 *
 *     x = u R, rounded once to f64 (below R, since u < 1 has 53 bits)
 *
 * and the slot's edge is the one over which x lies, an edge's first point being its own and its end
 * being the next one's. It is then taken away. So each is drawn with its weight's share of what
 * is left. The neighbours stand in the order of the slots - unless the row had no more than
 * k edges of positive weight, which is to say that R is 0 in the end: then it gives all of
 * these in the order of the file, as a fanout of -1 always does.
 *
 * With replacement (`replace`) nothing is taken away: R is the row's sum for each of its k slots,
 * and a row of positive sum has k neighbours in the order of the slots.
 *
 * u of a slot is (high >> 11 << 32 | low) 2^-53 where high and low are the words 2 (slot & 1) and
 * 2 (slot & 1) + 1 of the Philox block with the counter
 *
 *   { sl_rng_word0(stream, hop | (slot / 2 >> 16) << 3, slot / 2), i, batch, epoch }     key: seed
 *
 * Excluded edges (struct sl_excluded) are taken away before the first draw. The others keep their
 * length, so the grid is that of the whole row: where each weight is a multiple of its unit, the
 * draws are those of the graph without the excluded edges.
 *
 * WHY THIS METHOD. Set-up is one pass over the weights and 8 bytes an edge. A draw costs at most a
 * binary search, however skewed the weights are. The alternatives: alias tables (12 bytes an edge)
 * find an edge in one step but with replacement, so edges that were drawn have to be rejected, and
 * one edge with nearly all of a row's weight makes the second draw run for ever. Keys u^(1/w) or
 * exponential ones (Efraimidis and Spirakis 2006) need no set-up and look at all of a hub's edges
 * for each row, and take logarithms, which are not the same on every device.
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_KERNELS_WEIGHTED_INTERNAL_H
#define SL_KERNELS_WEIGHTED_INTERNAL_H

#include <stdint.h>

#include "common/base/philox.h"
#include "kernels/kernels.h"
#include "kernels/khop_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tag of a slot's Philox block; its group is slot / 2.
static inline SL_HOST_DEVICE uint32_t sl_weighted_tag(uint32_t hop, uint32_t slot)
{
    return hop | slot >> 17 << SL_KHOP_HOP_BITS;
}

// The slot's words of its block, high and low, as 53 bits.
static inline SL_HOST_DEVICE uint64_t sl_weighted_bits(uint32_t high, uint32_t low)
{
    return (uint64_t)(high >> 11) << 32 | low;
}

#define SL_WEIGHTED_LEAST (1.0 / 9007199254740992.0) // 2^-53

// The point that these bits mean on a length of `left`. The inner product is exact, so that u left,
// u being bits times 2^-53, is the same.
static inline SL_HOST_DEVICE double sl_weighted_point(uint64_t bits, double left)
{
    return (double)bits * (left * SL_WEIGHTED_LEAST);
}

static inline SL_HOST_DEVICE double sl_weighted_draw(uint64_t seed, uint32_t stream, uint32_t epoch,
                                                     uint32_t batch, uint32_t hop, uint32_t i,
                                                     uint32_t slot, double left)
{
    uint32_t word0 = sl_rng_word0(stream, sl_weighted_tag(hop, slot), slot >> 1);
    struct sl_rng_block block = sl_philox(seed, word0, i, batch, epoch);
    uint32_t w = 2 * (slot & 1);
    return sl_weighted_point(sl_weighted_bits(block.w[w], block.w[w + 1]), left);
}

// What both back ends verify before they begin: SL_OK, or SL_EINVAL with a message.
int sl_check_khop_weighted(const struct sl_khop_args *args);

// One row's running sums on its grid (n weights). Returns n, or the first edge whose weight is
// negative or no finite number; prefix is then unspecified.
uint64_t sl_weighted_prefix_row(const float *weight, uint64_t n, double *prefix);

#ifdef __cplusplus
}
#endif

#endif
