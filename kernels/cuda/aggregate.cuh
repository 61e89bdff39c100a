// aggregate.cuh - the slots of the aggregation family, and which kernel sums the neighbours.
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

int sl_cuda_aggregate(const struct sl_aggregate_args *args);

// heads.cu
int sl_cuda_aggregate_heads(const struct sl_aggregate_heads_args *args);
int sl_cuda_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                     const float *b, float *out);
// attention.cu
int sl_cuda_edge_softmax(const struct sl_edge_softmax_args *args);
int sl_cuda_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args);
// edge_scores.cu
int sl_cuda_edge_scores(const struct sl_edge_scores_args *args);
int sl_cuda_edge_scores_backward(const struct sl_edge_scores_grad_args *args);
// max.cu
int sl_cuda_aggregate_max(const struct sl_aggregate_max_args *args);
int sl_cuda_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args);
// normalize.cu
int sl_cuda_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse);
int sl_cuda_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                    uint64_t rows, uint32_t dim, float *dx);

#endif
