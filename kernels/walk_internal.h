/*
 * walk_internal.h - exactly which integers one hop of PinSAGE's random walks draws.
 *
 * As kernels/khop_internal.h: a definition that every back end (ref, cpu, cuda) follows integer for
 * integer, not a description of one of them.
 *
 * Row i of a hop is the vertex v = nodes[i]. Path p = 0 .. paths - 1 stands on v and goes `length`
 * times through the m steps of a metapath (struct sl_walk_path; m is 1 on a plain graph). Step s of
 * s = 0 .. length * m - 1 is the metapath's step k = s mod m, and is this:
 *
 *   restart   when k = 0 and s > 0: back to v if sl_rng_unit(word) < restart (24 bits).
 *   move      to the source of one of the in-edges that the vertex it stands on has in the lists of
 *             step k, each equally likely: position sl_rng_below(word, degree) of the row. On a
 *             vertex without such in-edges the path ends (after the restart: it may have left such
 *             a vertex), within the metapath as well.
 *   visit     when k = m - 1: the vertex that it moved to is met, unless that is v: a self loop or
 *             a way back is walked but not counted.
 *
 * The vertices met by all paths stand in the falling order of how often they were met; among
 * equals, the one met first (by path, then by step) comes first. The first `fanout` of them are the
 * row's neighbours in this order, or all of them when fanout is -1, and their counts the visits.
 *
 * The word of a step is number (s & 3) of the Philox block with the counter
 *
 *   { sl_rng_word0(stream, tag, p * ceil(length * m / 4) + s / 4), i, batch, epoch }   key: seed
 *
 * with tag = hop | attempt << 3 for a move and tag = hop | 128 for a restart. attempt is 0; a
 * rejected word is drawn again with attempt 1, 2, .. and that of attempt 15 is taken as it comes.
 * Sixteen bits of group bound paths * ceil(length * m / 4) by 2^16. Rows of 2^32 - 1 neighbours or
 * more are refused.
 *
 * Excluded edges (struct sl_excluded; of a metapath those of each step) are no in-edges of any
 * vertex that a path stands on: degree and position are those of the list without them.
 *
 * Local ids follow from first appearance, row by row in the order above.
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_KERNELS_WALK_INTERNAL_H
#define SL_KERNELS_WALK_INTERNAL_H

#include <stdint.h>

#include "common/base/philox.h"
#include "kernels/kernels.h"
#include "kernels/khop_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_WALK_ATTEMPTS = 16,
    SL_WALK_RESTART_TAG = 0x80,
    SL_WALK_GROUPS_MAX = 1 << 16,
};

// Philox blocks of one path of so many steps.
static inline SL_HOST_DEVICE uint32_t sl_walk_path_groups(uint32_t steps)
{
    return (steps >> 2) + ((steps & 3) != 0);
}

// Steps of one path.
static inline SL_HOST_DEVICE uint32_t sl_walk_steps(uint32_t length,
                                                    const struct sl_walk_path *along)
{
    return length * (1 + along->more);
}

// Step k's places of lists, by vertex. Its first vertex may stand behind its first row: numbers
// wrap, as pointers must not.
static inline SL_HOST_DEVICE const uint64_t *sl_walk_lists(const uint64_t *indptr,
                                                           const struct sl_walk_path *along,
                                                           uint32_t k)
{
    return (const uint64_t *)((uintptr_t)indptr + (uintptr_t)along->shift[k] * sizeof *indptr);
}

// The position 0 .. degree - 1 of a move: `word` is attempt 0's, `group` that of its block.
static inline SL_HOST_DEVICE uint32_t sl_walk_move(const struct sl_khop_args *args, uint32_t i,
                                                   uint32_t group, uint32_t step, uint32_t word,
                                                   uint32_t degree)
{
    uint32_t x = 0;
    for (uint32_t attempt = 1; !sl_rng_below(word, degree, &x) && attempt < SL_WALK_ATTEMPTS;
         attempt++) {
        uint32_t tag = args->hop | attempt << SL_KHOP_HOP_BITS;
        word = sl_philox(args->seed, sl_rng_word0(args->stream, tag, group), i, args->batch,
                         args->epoch)
                   .w[step & 3];
    }
    return x;
}

// What both back ends verify before they begin: SL_OK, or SL_EINVAL with a message.
int sl_check_random_walk(const struct sl_khop_args *args);

// SL_EUNSUPPORTED: a walk of this hop stands on a vertex with too many neighbours.
int sl_walk_fail_degree(const struct sl_khop_args *args, uint32_t vertex, uint64_t degree);

#ifdef __cplusplus
}
#endif

#endif
