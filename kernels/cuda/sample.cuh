// sample.cuh - the slots of the sampling family, which sample.cu puts into the table.
#ifndef SL_KERNELS_CUDA_SAMPLE_CUH
#define SL_KERNELS_CUDA_SAMPLE_CUH

#include "kernels/kernels.h"

// draw.cu
int sl_cuda_draw(struct sl_draw_state **state, const struct sl_draw_args *args,
                 struct sl_drawn *out);
void sl_cuda_draw_end(struct sl_draw_state *state);
uint64_t sl_cuda_draw_bytes(const struct sl_draw_state *state);

// weight_prefix.cu
int sl_cuda_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                          double *prefix);

// rank.cu
int sl_cuda_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                       uint32_t *ranks);
int sl_cuda_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n, uint32_t capacity,
                       struct sl_row_split *out);

#endif
