// sample.cu - what the GPU's table has of sampling: whole batches (draw.cu), ranks, running sums.
#include "kernels/cuda/sample.cuh"

#include "kernels/cuda/cuda.cuh"

void sl_cuda_fill_sample(struct sl_kernels *table)
{
    table->draw = sl_cuda_draw;
    table->draw_end = sl_cuda_draw_end;
    table->draw_bytes = sl_cuda_draw_bytes;
    table->weight_prefix = sl_cuda_weight_prefix;
    table->mark_ranks = sl_cuda_mark_ranks;
    table->split_rows = sl_cuda_split_rows;
}
