// layer.cu - what model layers need beside sums and products: the slots.
#include "kernels/cuda/layer.cuh"

void sl_cuda_fill_layer(struct sl_kernels *table)
{
    table->row_sums = sl_cuda_row_sums;
    table->count_loops = sl_cuda_count_loops;
    table->fix_loops = sl_cuda_fix_loops;
    table->gcn_scales = sl_cuda_gcn_scales;
    table->block_diagonal = sl_cuda_block_diagonal;
    table->add_block_diagonal = sl_cuda_add_block_diagonal;
    table->sum_heads = sl_cuda_sum_heads;
    table->spread_heads = sl_cuda_spread_heads;
    table->fill_sum = sl_cuda_fill_sum;
    table->add_scaled = sl_cuda_add_scaled;
    table->add_dot = sl_cuda_add_dot;
    table->maximum = sl_cuda_maximum;
    table->maximum_backward = sl_cuda_maximum_backward;
    table->running_scale = sl_cuda_running_scale;
    table->running_backward = sl_cuda_running_backward;
    table->running_average = sl_cuda_running_average;
}
