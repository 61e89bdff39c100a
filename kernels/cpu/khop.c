/*
 * khop.c - one hop of k-hop uniform sampling with its cache misses in flight together.
 *
 * PROBLEM. A sampled edge costs two dependent misses (the neighbour's id in `indices`, its slot in
 * the renumbering map), a row costs one more (its offsets in `indptr`). Taken one after the other
 * they leave the memory idle most of the time, and so does any stretch of computing that has no
 * miss in flight.
 *
 * DESIGN. Edges flow through a pipeline. A group of rows is planned: their offsets, asked for
 * OFFSETS_AHEAD rows earlier, are read and the positions of their edges are drawn, sixteen rows at
 * once (khop_lanes.h). Then the pipeline of khop_pipe.h moves on by as many edges as the group has.
 * Fanouts above SL_KHOP_LANE_FANOUT_MAX test membership with a hash set instead of lanes; with
 * replacement nothing is tested.
 *
 * FIGURES. Edges a second against half the random 4-byte reads of the same memory
 * (build/bin/tests/bench/kernels khop_uniform). On a Cascade Lake, one thread: 1.3, where groups of
 * 32 rows whose stages follow each other without overlap reach 0.95 and ref 0.17. Lags of 16 to 32
 * edges are equally good, longer ones slowly get worse.
 *
 * INVARIANTS. Edges keep the order of the definition in kernels/khop_internal.h, so the result
 * equals ref's integer for integer. A group has at most GROUP_EDGES edges; a row that is longer
 * (all neighbours of a hub, a large fanout) is handed out over several groups.
 *
 * FAILURE. On SL_ERANGE nothing beyond the capacities has been written; nodes, map and outputs hold
 * a part of the hop and the caller starts the batch again with more room.
 */
#include <stdbool.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "kernels/cpu/khop_lanes.h"
#include "kernels/cpu/khop_pipe.h"
#include "kernels/excluded_internal.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/khop_internal.h"

enum {
    GROUP_EDGES = SL_KHOP_PIPE_GROUP,
    OFFSETS_AHEAD = 32,
    FEW_EXCLUDED = 32, // of a row, that are looked at in lanes
};
_Static_assert(GROUP_EDGES >= (int)SL_KHOP_LANE_FANOUT_MAX, "a row of lanes fits a group");

// Rows that wait for their draws.
struct drawn_rows {
    uint32_t n;
    uint64_t first[SL_KHOP_LANES];             // the row's first position in indices
    uint64_t *edge[SL_KHOP_LANES];             // where its edges stand in the pipe
    struct sl_excluded_row out[SL_KHOP_LANES]; // where there are excluded edges at all
    struct sl_khop_lanes lanes;
};

struct hop {
    const struct sl_khop_args *args;
    uint32_t k;              // fanout, unless it is -1
    uint32_t row;            // the next one to hand out
    uint64_t offset;         // edges of it that have been handed out already
    uint64_t n_edges;        // of the rows before it
    struct sl_distinct *set; // for large fanouts
    struct drawn_rows drawn;
    struct sl_khop_pipe pipe;
};

// ---- plan: which edges --------------------------------------------------------------------------

// One row with a large fanout: the set's drawn[0 .. k) in their order.
static void draw_many(const struct sl_khop_args *args, uint32_t k, uint32_t row, uint32_t degree,
                      struct sl_distinct *set)
{
    sl_distinct_reset(set);
    struct sl_rng_block block;
    for (uint32_t slot = 0; slot < k; slot++) {
        uint32_t n = sl_khop_range(degree, k, slot, args->replace), x;
        if ((slot & 3) == 0)
            block = sl_philox(args->seed, sl_khop_word0(args->stream, args->hop, slot, 0), row,
                              args->batch, args->epoch);
        if (!sl_rng_below(block.w[slot & 3], n, &x))
            x = sl_khop_draw(args->seed, args->stream, args->epoch, args->batch, args->hop, row,
                             slot, 1, n);
        if (!args->replace && !sl_distinct_add(set, x)) {
            x = n - 1;
            sl_distinct_add(set, x);
        }
        set->drawn[slot] = x;
    }
}

// Edges that were drawn from those that are left of a row, to their places in the whole row.
static void place_edges(struct sl_excluded_row out, uint64_t first, uint64_t *edge, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++)
        edge[j] = first + sl_excluded_place(out, (uint32_t)(edge[j] - first));
}

// The same for rows that wait, but for those with many excluded edges, which are left as they are.
SL_INLINE void place_lanes(struct drawn_rows *drawn, uint32_t k)
{
    uint32_t lanes = 0; // with an excluded edge number j, as bits
    for (uint32_t l = 0; l < drawn->n; l++)
        lanes |= (uint32_t)(drawn->out[l].n - 1 < FEW_EXCLUDED) << l;
    for (uint32_t j = 0; lanes != 0; j++) {
        _Alignas(64) uint32_t at[SL_KHOP_LANES];
        for (uint32_t l = 0; l < SL_KHOP_LANES; l++)
            at[l] = UINT32_MAX;
        for (uint32_t left = lanes; left != 0; left &= left - 1) {
            const uint32_t l = (uint32_t)__builtin_ctz(left);
            at[l] = drawn->out[l].at[j];
            lanes ^= (uint32_t)(drawn->out[l].n == j + 1) << l;
        }
        for (uint32_t slot = 0; slot < k; slot++)
            for (uint32_t l = 0; l < SL_KHOP_LANES; l++)
                drawn->lanes.x[slot][l] += drawn->lanes.x[slot][l] >= at[l];
    }
}

// Draws for the rows that wait and puts their positions where they belong.
SL_INLINE void draw_rows(struct hop *hop, const bool excludes)
{
    struct drawn_rows *drawn = &hop->drawn;
    for (uint32_t l = drawn->n; l < SL_KHOP_LANES; l++) {
        drawn->lanes.row[l] = 0;
        drawn->lanes.degree[l] = hop->k + 1;
    }
    sl_khop_lanes_draw(hop->args, hop->k, &drawn->lanes);
    if (excludes)
        place_lanes(drawn, hop->k);
    for (uint32_t l = 0; l < drawn->n; l++) {
        for (uint32_t slot = 0; slot < hop->k; slot++)
            drawn->edge[l][slot] = drawn->first[l] + drawn->lanes.x[slot][l];
        if (excludes && __builtin_expect(drawn->out[l].n > FEW_EXCLUDED, 0))
            place_edges(drawn->out[l], drawn->first[l], drawn->edge[l], hop->k);
    }
    drawn->n = 0;
}

// Hands out edges of the current row, which takes `take` of them, as far as the group has room.
// Returns whether it is finished.
SL_INLINE bool hand_out(struct hop *hop, uint64_t first, uint64_t degree, bool draws, uint64_t take,
                        struct sl_excluded_row out, uint32_t room, uint64_t *edge, uint32_t *n)
{
    uint32_t some = (uint32_t)SL_MIN(take - hop->offset, (uint64_t)room);
    if (!draws) {
        for (uint32_t j = 0; j < some; j++)
            edge[j] = first + hop->offset + j;
    } else {
        if (hop->offset == 0)
            draw_many(hop->args, hop->k, hop->row, (uint32_t)degree, hop->set);
        for (uint32_t j = 0; j < some; j++)
            edge[j] = first + hop->set->drawn[hop->offset + j];
    }
    if (__builtin_expect(out.n > 0, 0))
        place_edges(out, first, edge, some);
    *n += some;
    hop->offset += some;
    if (hop->offset < take)
        return false;
    hop->offset = 0;
    return true;
}

// Puts the next group's edges behind those in the pipe, writes indptr for the rows it completes.
// `excludes` is a constant: whether some of the group's rows may have excluded edges.
SL_INLINE int plan(struct hop *hop, const bool excludes)
{
    const struct sl_khop_args *args = hop->args;
    const uint64_t room = SL_MIN(args->indices_capacity, (uint64_t)UINT32_MAX);
    uint64_t *edge = hop->pipe.edge + hop->pipe.n;
    uint32_t n = 0;
    while (hop->row < args->n_dst && hop->drawn.n < SL_KHOP_LANES) {
        const uint64_t *indptr = &args->topology->indptr[args->rows[hop->row]];
        uint64_t first = indptr[0], degree = indptr[1] - first;
        if (__builtin_expect(degree >= UINT32_MAX, 0))
            return sl_khop_fail_degree(args, hop->row, degree);
        const struct sl_excluded_row out =
            sl_excluded_row(excludes ? args->excluded : NULL, hop->row);
        degree -= out.n;
        const bool draws = sl_khop_draws(degree, args->fanout, args->replace);
        uint64_t take = draws ? hop->k : degree;
        if (__builtin_expect(hop->n_edges + take > room, 0))
            return sl_khop_fail_indices(args, hop->n_edges + take);
        if (draws && hop->k <= SL_KHOP_LANE_FANOUT_MAX) {
            if (GROUP_EDGES - n < take)
                break;
            uint32_t l = hop->drawn.n++;
            hop->drawn.lanes.row[l] = hop->row;
            hop->drawn.lanes.degree[l] = (uint32_t)degree;
            hop->drawn.first[l] = first;
            hop->drawn.edge[l] = edge + n;
            if (excludes)
                hop->drawn.out[l] = out;
            n += (uint32_t)take;
        } else if (!hand_out(hop, first, degree, draws, take, out, GROUP_EDGES - n, edge + n, &n)) {
            break;
        }
        sl_khop_fetch_row(args, (uint64_t)hop->row + OFFSETS_AHEAD);
        hop->n_edges += take;
        args->indptr[++hop->row] = (uint32_t)hop->n_edges;
    }
    hop->pipe.n_fresh = n;
    if (hop->drawn.n)
        draw_rows(hop, excludes);
    return SL_OK;
}

SL_SIMD(int, khop, (const struct sl_khop_args *args), (args))
{
    const uint32_t n_cut = args->excluded ? args->excluded->n_rows : 0; // rows that may lack edges
    struct hop hop;
    hop.args = args;
    hop.k = args->fanout < 0 ? 0 : (uint32_t)args->fanout;
    hop.row = args->first_row;
    hop.offset = 0;
    hop.n_edges = hop.pipe.n_done = sl_khop_first_edge(args);
    hop.drawn.n = hop.pipe.n = hop.pipe.read = hop.pipe.n_fresh = 0;
    if (hop.k > SL_KHOP_LANE_FANOUT_MAX)
        SL_TRY(sl_idmap_distinct(args->map, hop.k, &hop.set));
    for (uint32_t row = 0; row < OFFSETS_AHEAD; row++)
        sl_khop_fetch_row(args, (uint64_t)hop.row + row);
    for (bool last = hop.row == args->n_dst; !last;) {
        SL_TRY(hop.row < n_cut ? plan(&hop, true) : plan(&hop, false));
        last = hop.row == args->n_dst;
        SL_TRY(sl_khop_pipe_run(args, &hop.pipe, last));
    }
    *args->n_edges = (uint32_t)hop.n_edges;
    return SL_OK;
}

int sl_cpu_khop_uniform(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_khop_uniform(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    return khop(&own);
}
