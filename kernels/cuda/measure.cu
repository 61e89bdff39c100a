// measure.cu - the second symbol of the plug-in, for measurements alone (measure.h).
#include "kernels/cuda/measure.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/aggregate.cuh"
#include "kernels/cuda/gemm_lt.h"
#include "kernels/cuda/runtime.cuh"

// All that sl_cuda_sum_rows() has code for.
static const char *const TILES[] = {"4x1", "8x1", "16x1", "16x2", "32x1", "32x2", NULL};

static int aggregate_way(const char *way)
{
    struct sl_cuda_choice choice = {SL_WAY_TABLE, {0, 0}};
    if (!way) {
        sl_cuda_aggregate_choose(NULL);
        return SL_OK;
    }
    bool known = strcmp(way, "naive") == 0;
    choice.way = known ? SL_WAY_NAIVE : SL_WAY_TILE;
    for (size_t i = 0; TILES[i] && !known; i++)
        known = strcmp(way, TILES[i]) == 0;
    if (!known || (choice.way == SL_WAY_TILE &&
                   sscanf(way, "%ux%u", &choice.tile.lanes, &choice.tile.chunks) != 2))
        return sl_fail(SL_EINVAL, "aggregate: there is no way '%s': wanted naive or a tile as 16x2",
                       way);
    sl_cuda_aggregate_choose(&choice);
    return SL_OK;
}

// Memory of the libraries: one piece, which grows, and is the process's until it ends.
static void *scratch(uint64_t n)
{
    static void *kept;
    static uint64_t kept_bytes;
    if (n > kept_bytes) {
        if (kept)
            sl_cuda_free(kept, kept_bytes);
        kept = sl_cuda_alloc(n);
        kept_bytes = kept ? n : 0;
    }
    return kept;
}

static int gemm(const struct sl_cuda_product *product)
{
    return sl_cuda_compare_gemm(product, sl_cuda_stream());
}

static int spmm(const struct sl_aggregate_args *args)
{
    return sl_cuda_compare_spmm(args, sl_cuda_stream(), scratch);
}

static const struct sl_cuda_measure MEASURE = {
    .bytes = sizeof(struct sl_cuda_measure),
    .tiles = TILES,
    .aggregate_way = aggregate_way,
    .gemm_own = sl_lt_leave_out,
    .gemm = gemm,
    .spmm = spmm,
};

extern "C" __attribute__((visibility("default"))) const struct sl_cuda_measure *sluice_cuda_measure(
    void)
{
    return &MEASURE;
}
