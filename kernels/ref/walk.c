/*
 * walk.c - one hop of PinSAGE's random walks as kernels/walk_internal.h defines it, word for word.
 *
 * The oracle: one row after the other, one step after the other, counts by looking at every vertex
 * met before. On SL_ERANGE nothing beyond the capacities has been written, but nodes, map and
 * outputs hold a part of the hop: the caller starts the batch again with more room.
 */
#include <stdbool.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/khop_internal.h"
#include "kernels/walk_internal.h"
#include "kernels/ref/edge.h"

struct met {
    uint32_t n;
    uint32_t *vertex; // (paths * length) in the order of first meeting
    uint32_t *count;  // (paths * length)
};

static void count(struct met *met, uint32_t vertex)
{
    uint32_t m = 0;
    while (m < met->n && met->vertex[m] != vertex)
        m++;
    if (m == met->n) {
        met->vertex[met->n++] = vertex;
        met->count[m] = 0;
    }
    met->count[m]++;
}

static int walk_path(const struct sl_khop_args *args, uint32_t i, uint32_t p, struct met *met)
{
    const uint32_t start = args->rows[i], steps = sl_walk_steps(args->length, &args->along);
    uint32_t at = start;
    for (uint32_t s = 0; s < steps; s++) {
        const uint32_t k = s % (1 + args->along.more);
        const uint64_t *lists = sl_walk_lists(args->topology->indptr, &args->along, k);
        uint32_t group = p * sl_walk_path_groups(steps) + s / 4;
        uint32_t to_start = sl_rng_word0(args->stream, args->hop | SL_WALK_RESTART_TAG, group);
        struct sl_rng_block block = sl_philox(args->seed, to_start, i, args->batch, args->epoch);
        if (s > 0 && k == 0 && sl_rng_unit(block.w[s & 3]) < args->restart)
            at = start;
        uint64_t first = lists[at], degree = lists[at + (uint64_t)1] - first;
        if (degree >= UINT32_MAX)
            return sl_walk_fail_degree(args, at, degree);
        uint32_t row;
        struct sl_excluded_row out = {0};
        const struct sl_walk_excluded excluded = sl_walk_excluded_of(args, k);
        if (excluded.of && sl_idmap_lookup(excluded.map, at, &row)) // of others none are excluded
            out = sl_excluded_row(excluded.of, row);
        degree -= out.n;
        if (degree == 0)
            return SL_OK;
        block = sl_philox(args->seed, sl_rng_word0(args->stream, args->hop, group), i, args->batch,
                          args->epoch);
        const uint32_t x = sl_walk_move(args, i, group, s, block.w[s & 3], (uint32_t)degree);
        at = sl_ref_neighbour(args->topology, first + sl_ref_place(out, x));
        if (k == args->along.more && at != start)
            count(met, at);
    }
    return SL_OK;
}

static int sample_row(const struct sl_khop_args *args, uint32_t i, struct met *met,
                      uint64_t *n_edges)
{
    met->n = 0;
    for (uint32_t p = 0; p < args->paths; p++)
        SL_TRY(walk_path(args, i, p, met));
    uint32_t take = args->fanout < 0 ? met->n : (uint32_t)SL_MIN(args->fanout, (int64_t)met->n);
    for (uint32_t slot = 0; slot < take; slot++) {
        uint32_t best = 0;
        for (uint32_t m = 1; m < met->n; m++)
            if (met->count[m] > met->count[best])
                best = m;
        SL_TRY(sl_ref_add_neighbour(args, met->vertex[best], n_edges));
        args->visits[*n_edges - 1] = (float)met->count[best];
        met->count[best] = 0; // taken
    }
    return SL_OK;
}

int sl_ref_random_walk(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_random_walk(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    args = &own;
    size_t steps = (size_t)args->paths * args->length;
    struct met met = {0};
    void *scratch;
    SL_TRY(sl_idmap_scratch(args->map, steps * 2 * sizeof(uint32_t), &scratch));
    met.vertex = scratch;
    met.count = met.vertex + steps;
    uint64_t n_edges = sl_khop_first_edge(args);
    for (uint32_t i = args->first_row; i < args->n_dst; i++) {
        SL_TRY(sample_row(args, i, &met, &n_edges));
        args->indptr[i + 1] = (uint32_t)n_edges;
    }
    *args->n_edges = (uint32_t)n_edges;
    return SL_OK;
}
