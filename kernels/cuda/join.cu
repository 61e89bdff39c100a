/*
 * Several adjacencies with the same rows as one. Where row i begins is the sum of the parts' own
 * indptr there, so nothing is counted first: a launch takes up to 32 parts, whose addresses travel
 * as its arguments; one adds up where rows begin, one goes through the parts of each row, and eight
 * lanes copy the edges of a row of a part. More parts take more launches, which begin where the
 * parts before them end. Floor: 4 bytes in and 4 out an edge.
 */
#include "kernels/cuda/layer.cuh"

#include "kernels/check.h"

enum { BLOCK = 256, LANES = 8, PARTS_A_LAUNCH = 32 };

struct part_list {
    const uint32_t *indptr[PARTS_A_LAUNCH], *indices[PARTS_A_LAUNCH];
    uint32_t first_source[PARTS_A_LAUNCH];
    uint32_t n, first; // parts, and which one the first of them is
    uint32_t n_dst, n_parts;
    uint32_t *out_indptr, *rows, *out_indices;
};

// rows[i] = or += what the parts have before row i.
static __global__ void __launch_bounds__(BLOCK) begin_rows(struct part_list list, uint32_t first)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i > list.n_dst)
        return;
    uint32_t at = list.first == 0 ? first : list.rows[i];
    for (uint32_t p = 0; p < list.n; p++)
        at += list.indptr[p][i];
    list.rows[i] = at;
}

// Where the parts of row i begin, and where those of the next launch do: in the place of the next
// part, or of the next row, where that value belongs.
static __global__ void __launch_bounds__(BLOCK) begin_parts(struct part_list list)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i > list.n_dst)
        return;
    uint64_t to = i * list.n_parts + list.first;
    if (i == list.n_dst) {
        if (list.first == 0)
            list.out_indptr[to] = list.rows[i];
        return;
    }
    uint32_t at = list.first == 0 ? list.rows[i] : list.out_indptr[to];
    for (uint32_t p = 0; p < list.n; p++) {
        list.out_indptr[to + p] = at;
        at += list.indptr[p][i + 1] - list.indptr[p][i];
    }
    if (list.first + list.n < list.n_parts)
        list.out_indptr[to + list.n] = at;
}

static __global__ void __launch_bounds__(BLOCK) copy_parts(struct part_list list)
{
    uint64_t at = ((uint64_t)blockIdx.x * BLOCK + threadIdx.x) / LANES;
    if (at >= (uint64_t)list.n_dst * list.n)
        return;
    uint64_t i = at / list.n;
    uint32_t p = (uint32_t)(at % list.n), lane = threadIdx.x % LANES;
    const uint32_t *indices = list.indices[p];
    uint32_t begin = list.indptr[p][i], end = list.indptr[p][i + 1];
    uint32_t *to = list.out_indices + list.out_indptr[i * list.n_parts + list.first + p];
    for (uint32_t e = begin + lane; e < end; e += LANES)
        to[e - begin] = indices[e] + list.first_source[p];
}

static struct part_list list_parts(const struct sl_join_rows_args *args, uint32_t first)
{
    struct part_list list = {};
    list.n = SL_MIN(args->n_parts - first, (uint32_t)PARTS_A_LAUNCH);
    list.first = first;
    list.n_dst = args->n_dst;
    list.n_parts = args->n_parts;
    list.out_indptr = args->indptr;
    list.rows = args->rows;
    list.out_indices = args->indices;
    for (uint32_t p = 0; p < list.n; p++) {
        list.indptr[p] = args->part[first + p].indptr;
        list.indices[p] = args->part[first + p].indices;
        list.first_source[p] = args->first_source[first + p];
    }
    return list;
}

int sl_cuda_join_rows(const struct sl_join_rows_args *args)
{
    SL_TRY(sl_check_join_rows(args));
    unsigned blocks = (unsigned)sl_div_up((uint64_t)args->n_dst + 1, BLOCK);
    for (uint32_t p = 0; p < args->n_parts; p += PARTS_A_LAUNCH)
        SL_LAUNCH(begin_rows, blocks, BLOCK, 0, list_parts(args, p), args->first_edge);
    for (uint32_t p = 0; p < args->n_parts; p += PARTS_A_LAUNCH) {
        struct part_list list = list_parts(args, p);
        uint64_t lanes = (uint64_t)list.n_dst * list.n * LANES;
        SL_LAUNCH(begin_parts, blocks, BLOCK, 0, list);
        if (lanes > 0)
            SL_LAUNCH(copy_parts, (unsigned)sl_div_up(lanes, BLOCK), BLOCK, 0, list);
    }
    return SL_OK;
}
