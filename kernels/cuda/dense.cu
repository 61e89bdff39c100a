#include "kernels/cuda/dense.cuh"

void sl_cuda_fill_dense(struct sl_kernels *table)
{
    table->gemm = sl_cuda_gemm;
    table->gemm_bias_act = sl_cuda_gemm_bias_act;
    table->weight_gradients = sl_cuda_weight_gradients;
    table->bias_act = sl_cuda_bias_act;
    table->bias_act_backward = sl_cuda_bias_act_backward;
    table->dropout = sl_cuda_dropout;
    table->softmax_xent = sl_cuda_softmax_xent;
    table->sigmoid_bce = sl_cuda_sigmoid_bce;
    table->squared_error = sl_cuda_squared_error;
    table->batch_norm = sl_cuda_batch_norm;
    table->batch_norm_backward = sl_cuda_batch_norm_backward;
    table->layer_norm = sl_cuda_layer_norm;
    table->layer_norm_backward = sl_cuda_layer_norm_backward;
    table->scale_columns = sl_cuda_scale_columns;
    table->reduce = sl_cuda_reduce;
    table->sum_squares = sl_cuda_sum_squares;
    table->adam = sl_cuda_adam;
    table->sgd = sl_cuda_sgd;
}
