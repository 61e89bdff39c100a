/*
 * labor.c - one hop of layer-neighbour sampling as kernels/labor_internal.h defines it.
 *
 * The oracle: all of a row's numbers, sorted. On SL_ERANGE nothing beyond the capacities has been
 * written, but nodes, map and outputs hold a part of the hop: the caller starts the batch again
 * with more room.
 */
#include <stdlib.h>

#include "common/base/error.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/labor_internal.h"
#include "kernels/ref/edge.h"

// What an edge is chosen by: its number, then its place in the row.
static uint64_t key_of(const struct sl_khop_args *args, uint64_t first, uint32_t j)
{
    uint32_t vertex = sl_ref_neighbour(args->topology, first + j);
    uint32_t number =
        sl_labor_number(args->seed, args->stream, args->hop, args->batch, args->epoch, vertex);
    return (uint64_t)number << 32 | j;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int sample_row(const struct sl_khop_args *args, uint32_t row, uint64_t *n_edges)
{
    uint64_t first = args->topology->indptr[args->rows[row]];
    uint64_t degree = args->topology->indptr[args->rows[row] + 1] - first;
    if (degree >= UINT32_MAX)
        return sl_khop_fail_degree(args, row, degree);
    const struct sl_excluded_row out = sl_excluded_row(args->excluded, row);
    degree -= out.n;
    uint64_t last = UINT64_MAX; // the largest key that is taken
    if (args->fanout != -1 && degree > (uint64_t)args->fanout) {
        void *scratch;
        SL_TRY(sl_idmap_scratch(args->map, degree * sizeof(uint64_t), &scratch));
        uint64_t *keys = scratch;
        for (uint32_t j = 0; j < degree; j++)
            keys[j] = key_of(args, first, sl_ref_place(out, j));
        qsort(keys, degree, sizeof *keys, compare_keys);
        last = keys[args->fanout - 1];
    }
    for (uint32_t j = 0; j < degree; j++) {
        const uint32_t place = sl_ref_place(out, j);
        if (key_of(args, first, place) <= last)
            SL_TRY(sl_ref_add_edge(args, first + place, n_edges));
    }
    return SL_OK;
}

int sl_ref_labor(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_labor(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    args = &own;
    uint64_t n_edges = sl_khop_first_edge(args);
    for (uint32_t row = args->first_row; row < args->n_dst; row++) {
        SL_TRY(sample_row(args, row, &n_edges));
        args->indptr[row + 1] = (uint32_t)n_edges;
    }
    *args->n_edges = (uint32_t)n_edges;
    return SL_OK;
}
