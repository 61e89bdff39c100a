#include "kernels/kernels.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "kernels/kernels_internal.h"

#define TABLE(backend)                                                                             \
    {                                                                                              \
        .name = #backend, .gather_rows = sl_##backend##_gather_rows,                               \
        .edge_softmax = sl_##backend##_edge_softmax,                                               \
        .edge_softmax_backward = sl_##backend##_edge_softmax_backward,                             \
        .aggregate_heads = sl_##backend##_aggregate_heads, .edge_dot = sl_##backend##_edge_dot,    \
        .aggregate_max = sl_##backend##_aggregate_max,                                             \
        .aggregate_max_backward = sl_##backend##_aggregate_max_backward,                           \
        .normalize_rows = sl_##backend##_normalize_rows,                                           \
        .normalize_rows_backward = sl_##backend##_normalize_rows_backward,                         \
        .aggregate = sl_##backend##_aggregate, .transpose = sl_##backend##_transpose,              \
        .gemm = sl_##backend##_gemm, .bias_act = sl_##backend##_bias_act,                          \
        .bias_act_backward = sl_##backend##_bias_act_backward, .dropout = sl_##backend##_dropout,  \
        .softmax_xent = sl_##backend##_softmax_xent, .sigmoid_bce = sl_##backend##_sigmoid_bce,    \
        .squared_error = sl_##backend##_squared_error, .batch_norm = sl_##backend##_batch_norm,    \
        .batch_norm_backward = sl_##backend##_batch_norm_backward,                                 \
        .layer_norm = sl_##backend##_layer_norm,                                                   \
        .layer_norm_backward = sl_##backend##_layer_norm_backward,                                 \
        .scale_columns = sl_##backend##_scale_columns, .sum_squares = sl_##backend##_sum_squares,  \
        .reduce = sl_##backend##_reduce, .adam = sl_##backend##_adam, .sgd = sl_##backend##_sgd,   \
        .khop_uniform = sl_##backend##_khop_uniform,                                               \
        .khop_weighted = sl_##backend##_khop_weighted, .random_walk = sl_##backend##_random_walk,  \
        .weight_prefix = sl_##backend##_weight_prefix, .mark_ranks = sl_##backend##_mark_ranks,    \
        .split_rows = sl_##backend##_split_rows, .gather_rows_to = sl_##backend##_gather_rows_to,  \
    }

static const struct sl_kernels table_ref = TABLE(ref);
static const struct sl_kernels table_cpu = TABLE(cpu);

static const struct sl_kernels *const tables[] = {&table_ref, &table_cpu};

static _Atomic int n_threads = 1;

const struct sl_kernels *sl_kernels_ref(void)
{
    return &table_ref;
}

const struct sl_kernels *sl_kernels_cpu(void)
{
    return &table_cpu;
}

const struct sl_kernels *sl_kernels_find(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(tables); i++)
        if (name && strcmp(tables[i]->name, name) == 0)
            return tables[i];
    return NULL;
}

void sl_kernels_set_threads(int n)
{
#ifdef __SANITIZE_THREAD__
    // The OpenMP run-time is not instrumented: its barriers are invisible to ThreadSanitizer, which
    // would report every parallel loop as a race.
    n = 1;
#endif
    atomic_store_explicit(&n_threads, SL_MAX(n, 1), memory_order_relaxed);
}

int sl_cpu_threads(void)
{
    return atomic_load_explicit(&n_threads, memory_order_relaxed);
}
