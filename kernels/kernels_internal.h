/*
 * kernels_internal.h - what the files of this folder share and nobody else sees.
 *
 * Every operation is a function sl_ref_<op> in ref/<family>.c and a function sl_cpu_<op> in
 * cpu/<family>.c with the signature of its slot in kernels.h; backends.c puts them into the tables.
 * Both call the same sl_check_<op> first: that is the one place where arguments are validated, the
 * loops behind it assume.
 */
#ifndef SL_KERNELS_KERNELS_INTERNAL_H
#define SL_KERNELS_KERNELS_INTERNAL_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Declares one back end's functions; the slots of struct sl_kernels document them.
#define SL_KERNELS_SAMPLE(backend, constant, word, kernel, flags)                                  \
    int sl_##backend##_##kernel(const struct sl_khop_args *args);
#define SL_KERNELS_DECLARE(backend)                                                                \
    int sl_##backend##_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows,        \
                                   uint32_t dim, const uint32_t *rows, uint64_t n, float *out);    \
    int sl_##backend##_aggregate(const struct sl_aggregate_args *args);                            \
    int sl_##backend##_edge_softmax(const struct sl_edge_softmax_args *args);                      \
    int sl_##backend##_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args);        \
    int sl_##backend##_edge_scores(const struct sl_edge_scores_args *args);                        \
    int sl_##backend##_edge_scores_backward(const struct sl_edge_scores_grad_args *args);          \
    int sl_##backend##_aggregate_heads(const struct sl_aggregate_heads_args *args);                \
    int sl_##backend##_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim,       \
                                const float *a, const float *b, float *out);                       \
    int sl_##backend##_aggregate_max(const struct sl_aggregate_max_args *args);                    \
    int sl_##backend##_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args);      \
    int sl_##backend##_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y,       \
                                      float *inverse);                                             \
    int sl_##backend##_normalize_rows_backward(const float *dy, const float *y,                    \
                                               const float *inverse, uint64_t rows, uint32_t dim,  \
                                               float *dx);                                         \
    int sl_##backend##_transpose(const struct sl_csr_view *csr, uint32_t *t_indptr,                \
                                 uint32_t *t_indices, uint32_t *t_edge, struct sl_mempool *ws);    \
    int sl_##backend##_gemm(enum sl_precision precision, enum sl_transpose ta,                     \
                            enum sl_transpose tb, uint64_t m, uint64_t n, uint64_t k, float alpha, \
                            const float *a, uint64_t lda, const float *b, uint64_t ldb,            \
                            float beta, float *c, uint64_t ldc, struct sl_mempool *ws);            \
    int sl_##backend##_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias,          \
                                enum sl_activation act, const struct sl_dropout *dropout);         \
    int sl_##backend##_bias_act_backward(float *dy, const float *y, uint64_t rows, uint32_t dim,   \
                                         enum sl_activation act, const struct sl_dropout *dropout, \
                                         float *dbias);                                            \
    int sl_##backend##_dropout(float *x, uint64_t rows, uint32_t dim,                              \
                               const struct sl_dropout *dropout);                                  \
    int sl_##backend##_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows,     \
                                    uint32_t classes, const float *class_weight, float *dlogits,   \
                                    struct sl_loss_result *out);                                   \
    int sl_##backend##_sigmoid_bce(const float *logits, const float *targets, uint64_t rows,       \
                                   uint32_t dim, const float *pos_weight, float *dlogits,          \
                                   struct sl_loss_result *out);                                    \
    int sl_##backend##_squared_error(const float *outputs, const float *targets, uint64_t rows,    \
                                     uint32_t dim, float *doutputs, struct sl_loss_result *out);   \
    int sl_##backend##_batch_norm(const struct sl_batch_norm_args *args, struct sl_mempool *ws);   \
    int sl_##backend##_batch_norm_backward(const struct sl_batch_norm_grad_args *args,             \
                                           struct sl_mempool *ws);                                 \
    int sl_##backend##_layer_norm(const struct sl_layer_norm_args *args);                          \
    int sl_##backend##_layer_norm_backward(const struct sl_layer_norm_grad_args *args,             \
                                           struct sl_mempool *ws);                                 \
    int sl_##backend##_scale_columns(float *x, uint64_t rows, uint32_t dim, const float *scale,    \
                                     const float *shift);                                          \
    int sl_##backend##_sum_squares(uint64_t n, const float *x, double *out);                       \
    int sl_##backend##_reduce(const float *const *slots, uint32_t n_slots, uint64_t n,             \
                              float scale, float *out);                                            \
    int sl_##backend##_adam(const struct sl_adam_step *step, uint64_t n, const float *g,           \
                            const float *p, const float *m, const float *v, float *p_out,          \
                            float *m_out, float *v_out);                                           \
    int sl_##backend##_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g,             \
                           const float *p, const float *m, float *p_out, float *m_out);            \
    SL_SAMPLER_LIST(SL_KERNELS_SAMPLE, backend)                                                    \
    int sl_##backend##_weight_prefix(const struct sl_topology_view *topology, const float *weight, \
                                     double *prefix);                                              \
    int sl_##backend##_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes,        \
                                  uint32_t n, uint32_t *ranks);                                    \
    int sl_##backend##_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,        \
                                  uint32_t capacity, struct sl_row_split *out);                    \
    int sl_##backend##_gather_rows_to(const void *table, enum sl_dtype dtype, uint64_t n_rows,     \
                                      uint32_t dim, const uint32_t *rows, const uint32_t *to,      \
                                      uint64_t n, uint64_t n_out, float *out);                     \
    int sl_##backend##_gather_ranked(const struct sl_gather_ranked_args *args);                    \
    int sl_##backend##_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,  \
                                    uint64_t n_out, float *out);                                   \
    int sl_##backend##_gemm_bias_act(const struct sl_gemm_bias_act_args *args,                     \
                                     struct sl_mempool *ws);                                       \
    int sl_##backend##_weight_gradients(const struct sl_weight_gradients_args *args,               \
                                        struct sl_mempool *ws);                                    \
    int sl_##backend##_row_sums(const struct sl_csr_view *csr, const float *weight,                \
                                enum sl_row_sum what, float *out);                                 \
    int sl_##backend##_count_loops(const struct sl_csr_view *csr, uint32_t *n_loops);              \
    int sl_##backend##_fix_loops(const struct sl_fix_loops_args *args, struct sl_mempool *ws);     \
    int sl_##backend##_gcn_scales(const struct sl_gcn_scales_args *args, struct sl_mempool *ws);   \
    int sl_##backend##_block_diagonal(const float *a, uint32_t heads, uint32_t width,              \
                                      float *matrix);                                              \
    int sl_##backend##_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width,     \
                                          float *a);                                               \
    int sl_##backend##_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width,    \
                                 float scale, float beta, float *y);                               \
    int sl_##backend##_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, \
                                    float scale, float *y);                                        \
    int sl_##backend##_fill_sum(uint64_t n, float c, const float *a, float *y);                    \
    int sl_##backend##_add_scaled(uint64_t n, float c, const float *a, const float *x, float *y);  \
    int sl_##backend##_add_dot(uint64_t n, const float *x, const float *y, float *sum,             \
                               struct sl_mempool *ws);                                             \
    int sl_##backend##_maximum(uint64_t n, const float *x, float *y);                              \
    int sl_##backend##_maximum_backward(uint64_t n, const float *const *h, uint32_t layer,         \
                                        const float *max, const float *dmax, float *dy);           \
    int sl_##backend##_running_scale(uint32_t dim, float eps, const float *gamma,                  \
                                     const float *beta, const float *mean, const float *variance,  \
                                     float *scale, float *shift);                                  \
    int sl_##backend##_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,    \
                                        const float *gamma, const float *mean,                     \
                                        const float *variance, const float *dy, float *dgamma,     \
                                        float *dbeta, float *dx);                                  \
    int sl_##backend##_running_average(uint64_t n, float momentum, const float *batch, float *r);

SL_KERNELS_DECLARE(ref)
SL_KERNELS_DECLARE(cpu)
#undef SL_KERNELS_DECLARE

// torch.nn.LeakyReLU's.
#define SL_LEAKY_RELU_SLOPE 0.01f

enum { SL_HEADS_MAX = 1024 }; // of edge_softmax

// normalize_rows: the least norm that a row is divided by, and what such a row is multiplied with.
#define SL_NORMALIZE_BOUND       1e-12f
#define SL_NORMALIZE_INVERSE_MAX 1e12f

// Threads of the cpu back end, at least 1; set by sl_kernels_set_threads.
int sl_cpu_threads(void);

#ifdef __cplusplus
}
#endif

#endif
