/*
 * khop.c - one hop of k-hop uniform sampling as kernels/khop_internal.h defines it, word for word.
 *
 * The oracle: one row after the other, one draw after the other, membership by looking at every
 * earlier slot. On SL_ERANGE nothing beyond the capacities has been written, but nodes, map and
 * outputs hold a part of the hop: the caller starts the batch again with more room.
 */
#include <stdbool.h>

#include "common/base/error.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/khop_internal.h"
#include "kernels/ref/edge.h"

// The position of `slot`; taken[0 .. slot) are those of the slots before.
static uint32_t draw_position(const struct sl_khop_args *args, uint32_t row, uint32_t slot,
                              uint32_t degree, const uint32_t *taken)
{
    uint32_t n = sl_khop_range(degree, (uint32_t)args->fanout, slot, args->replace);
    uint32_t x = sl_khop_draw(args->seed, args->stream, args->epoch, args->batch, args->hop, row,
                              slot, 0, n);
    for (uint32_t earlier = 0; earlier < slot && !args->replace; earlier++)
        if (taken[earlier] == x)
            return n - 1;
    return x;
}

static int sample_row(const struct sl_khop_args *args, uint32_t row, uint32_t *taken,
                      uint64_t *n_edges)
{
    const uint64_t *indptr = args->topology->indptr + args->rows[row];
    uint64_t degree = indptr[1] - indptr[0];
    if (degree >= UINT32_MAX)
        return sl_khop_fail_degree(args, row, degree);
    const struct sl_excluded_row out = sl_excluded_row(args->excluded, row);
    degree -= out.n;
    if (!sl_khop_draws(degree, args->fanout, args->replace)) {
        for (uint32_t j = 0; j < degree; j++)
            SL_TRY(sl_ref_add_edge(args, indptr[0] + sl_ref_place(out, j), n_edges));
        return SL_OK;
    }
    for (uint32_t slot = 0; slot < (uint32_t)args->fanout; slot++) {
        taken[slot] = draw_position(args, row, slot, (uint32_t)degree, taken);
        SL_TRY(sl_ref_add_edge(args, indptr[0] + sl_ref_place(out, taken[slot]), n_edges));
    }
    return SL_OK;
}

int sl_ref_khop_uniform(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_khop_uniform(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    args = &own;
    uint32_t *taken = NULL;
    if (args->fanout > 0) {
        struct sl_distinct *scratch;
        SL_TRY(sl_idmap_distinct(args->map, (uint32_t)args->fanout, &scratch));
        taken = scratch->drawn;
    }
    uint64_t n_edges = sl_khop_first_edge(args);
    for (uint32_t row = args->first_row; row < args->n_dst; row++) {
        SL_TRY(sample_row(args, row, taken, &n_edges));
        args->indptr[row + 1] = (uint32_t)n_edges;
    }
    *args->n_edges = (uint32_t)n_edges;
    return SL_OK;
}
