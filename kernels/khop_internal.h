/*
 * khop_internal.h - exactly which integers one hop of k-hop uniform sampling draws. (By weight:
 * weighted_internal.h; random walks: walk_internal.h.)
 *
 * Every back end (ref, cpu, cuda) must give the same block integer for integer, so what follows is
 * a definition and not a description of one of them.
 *
 * Row i of a hop is the vertex rows[i] (nodes[i] where there are no rows), of in-degree d, and asks
 * for k = fanout neighbours:
 *
 *   d <= k, or k = -1   all d neighbours, in the order of the file.
 *   d > k               k different positions out of 0 .. d - 1 by Robert Floyd's method (Bentley
 *                       and Floyd, "A sample of brilliance", CACM 1987): for slot = 0 .. k - 1 and
 *                       n = d - k + slot + 1, draw x from 0 .. n - 1; the slot's position is x, or
 *                       n - 1 when an earlier slot of this row has x already. Every subset of
 *                       k positions is equally likely and the cost depends on k alone. The
 *                       neighbours stand in the order of the slots.
 *
 * With replacement (`replace`) a row of d > 0 neighbours that asks for k >= 0 gets k of them, each
 * drawn from all d: n is d for each slot, whose position is x whatever earlier slots have. All
 * else, -1 included, is as above.
 *
 * The draw of a slot is word (slot & 3) of the Philox block with the counter
 *
 *   { sl_rng_word0(stream, hop | attempt << 3, slot / 4), i, batch, epoch }      key: seed
 *
 * taken to 0 .. n - 1 by sl_rng_below(). attempt is 0; a rejected word (probability below n / 2^32)
 * is drawn again with attempt 1, 2, .. from the same slot's own word, which touches no other
 * slot. The word of attempt 31 is taken as it comes: it is reached with probability below 2^-31
 * even for the worst degree, and a bound is what a GPU needs.
 *
 * Sixteen bits of slot / 4 bound the fanout by 2^18 and three bits of hop bound the hops by 8. Rows
 * of 2^32 - 1 neighbours or more are refused.
 *
 * Rows before first_row are there already, in a hop that expands new vertices alone
 * (sampler/draw.h): a row is drawn in the hop that first has its vertex, by that hop's fanout and
 * key. i is the vertex's local id then as well.
 *
 * Excluded edges (struct sl_excluded) are no neighbours: d and positions are those of the list
 * without them.
 *
 * Where rows have times, what is a row here is the range of those of its edges that count
 * (time_ranges.h): d and positions are of that range.
 *
 * Local ids follow from first appearance: edges are taken row by row in the order above, and a
 * vertex that is not known yet becomes nodes[*n_nodes].
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_KERNELS_KHOP_INTERNAL_H
#define SL_KERNELS_KHOP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/philox.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_KHOP_HOP_BITS = 3,
    SL_KHOP_HOPS = 1 << SL_KHOP_HOP_BITS,
    SL_KHOP_ATTEMPTS = 32,
    SL_KHOP_FANOUT_MAX = 1 << 18,
};

// First counter word of a slot's draw.
static inline SL_HOST_DEVICE uint32_t sl_khop_word0(uint32_t stream, uint32_t hop, uint32_t slot,
                                                    uint32_t attempt)
{
    return sl_rng_word0(stream, hop | attempt << SL_KHOP_HOP_BITS, slot >> 2);
}

// The draw from 0 .. n - 1 of one slot of row i, from attempt `attempt` on.
static inline SL_HOST_DEVICE uint32_t sl_khop_draw(uint64_t seed, uint32_t stream, uint32_t epoch,
                                                   uint32_t batch, uint32_t hop, uint32_t i,
                                                   uint32_t slot, uint32_t attempt, uint32_t n)
{
    uint32_t x = 0;
    for (; attempt < SL_KHOP_ATTEMPTS; attempt++) {
        uint32_t word0 = sl_khop_word0(stream, hop, slot, attempt);
        struct sl_rng_block block = sl_philox(seed, word0, i, batch, epoch);
        if (sl_rng_below(block.w[slot & 3], n, &x))
            break;
    }
    return x;
}

// Whether a row of this degree is drawn: otherwise it has all its neighbours, in their order.
static inline SL_HOST_DEVICE bool sl_khop_draws(uint64_t degree, int64_t fanout, bool replace)
{
    return fanout >= 0 && (replace ? degree > 0 : degree > (uint64_t)fanout);
}

// Edges of a row.
static inline SL_HOST_DEVICE uint64_t sl_khop_take(uint64_t degree, int64_t fanout, bool replace)
{
    return sl_khop_draws(degree, fanout, replace) ? (uint64_t)fanout : degree;
}

// n of a slot's draw from 0 .. n - 1.
static inline SL_HOST_DEVICE uint32_t sl_khop_range(uint32_t degree, uint32_t k, uint32_t slot,
                                                    bool replace)
{
    return replace ? degree : degree - k + slot + 1;
}

// Where the edges of the first row to draw begin.
static inline uint64_t sl_khop_first_edge(const struct sl_khop_args *args)
{
    if (args->first_row == 0)
        args->indptr[0] = 0;
    return args->indptr[args->first_row];
}

// The arguments with rows where they are to be read.
static inline struct sl_khop_args sl_khop_with_rows(const struct sl_khop_args *args)
{
    struct sl_khop_args own = *args;
    if (!own.rows)
        own.rows = own.nodes;
    return own;
}

// For kinds that draw without replacement alone: SL_OK, or SL_EINVAL with a message.
int sl_khop_check_keeps(const struct sl_khop_args *args);

// What both back ends verify before they begin: SL_OK, or SL_EINVAL with a message.
int sl_check_khop_uniform(const struct sl_khop_args *args);

// The errors that can come up half way; they record the message and return the code.
int sl_khop_fail_degree(const struct sl_khop_args *args, uint32_t row, uint64_t degree);
int sl_khop_fail_indices(const struct sl_khop_args *args, uint64_t needed);
int sl_khop_fail_nodes(const struct sl_khop_args *args);

#ifdef __cplusplus
}
#endif

#endif
