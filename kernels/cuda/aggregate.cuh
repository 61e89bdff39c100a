// aggregate.cuh - which kernel sums the neighbours.
#ifndef SL_KERNELS_CUDA_AGGREGATE_CUH
#define SL_KERNELS_CUDA_AGGREGATE_CUH

#include "kernels/cuda/aggregate_rows.cuh"

enum sl_cuda_way {
    SL_WAY_TABLE, // the tile that the table names
    SL_WAY_TILE,  // a given tile
    SL_WAY_NAIVE, // a thread an element, all from global memory: what FastGL 4.2 compares with
};

struct sl_cuda_choice {
    enum sl_cuda_way way;
    struct sl_cuda_tile tile;
};

// aggregate by a chosen kernel, for comparison; the slot takes SL_WAY_TABLE. The sums of a tile do
// not depend on the tile, those of the naive kernel are in the order of the edges whatever the row.
int sl_cuda_aggregate_by(const struct sl_aggregate_args *args, const struct sl_cuda_choice *choice);
/*
 * What the slot takes from now on, in the whole process, for measuring through the table: NULL is
 * the table of tiles. At the start it is SLUICE_CUDA_AGGREGATE of the environment: "naive", or a
 * tile as "16x2" (lanes x packs a lane).
 */
void sl_cuda_aggregate_choose(const struct sl_cuda_choice *choice);

#endif
