/*
 * check.h - validation of every operation's arguments, once, for all back ends.
 *
 * Each sl_check_<op> returns 0, or SL_EINVAL / SL_ERANGE with a message that begins with the
 * operation's name. The loops behind it assume. Edge indices of an adjacency are not looked at:
 * blocks come from our own samplers and whole graphs were validated when the data set was opened.
 */
#ifndef SL_KERNELS_CHECK_H
#define SL_KERNELS_CHECK_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// What several operations ask, in the words of `op`: that there is an adjacency with its arrays,
// and that rows of `heads` runs of `dim` columns are counted in 32 bits.
int sl_check_csr(const char *op, const struct sl_csr_view *csr);
int sl_check_heads(const char *op, uint32_t heads, uint32_t dim);

int sl_check_gather_rows(const void *table, enum sl_dtype dtype, uint32_t dim, const uint32_t *rows,
                         uint64_t n, const float *out);
// Names the first row id that is not below n_rows.
int sl_check_row_range(const uint32_t *rows, uint64_t n, uint64_t n_rows);
int sl_check_gather_rows_to(const void *table, enum sl_dtype dtype, uint32_t dim,
                            const uint32_t *rows, const uint32_t *to, uint64_t n, const float *out);
// Names the first destination that is not below n_out.
int sl_check_to_range(const uint32_t *to, uint64_t n, uint64_t n_out);
int sl_check_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                           const double *prefix);
// Fails, naming the edge and its row: its weight is negative or no finite number.
int sl_check_fail_weight(const struct sl_topology_view *topology, const float *weight,
                         uint64_t edge);
int sl_check_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                        const uint32_t *ranks);
// Names the first vertex that is not below n_nodes.
int sl_check_node_range(const uint32_t *nodes, uint32_t n, uint64_t n_nodes);
int sl_check_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                        const struct sl_row_split *out);
int sl_check_aggregate(const struct sl_aggregate_args *args);
int sl_check_edge_softmax(const struct sl_edge_softmax_args *args);
int sl_check_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args);
int sl_check_edge_scores(const struct sl_edge_scores_args *args);
int sl_check_edge_scores_backward(const struct sl_edge_scores_grad_args *args);
int sl_check_aggregate_heads(const struct sl_aggregate_heads_args *args);
int sl_check_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                      const float *b, const float *out);
int sl_check_aggregate_max(const struct sl_aggregate_max_args *args);
int sl_check_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args);
int sl_check_normalize_rows(const float *x, uint64_t rows, uint32_t dim, const float *y,
                            const float *inverse);
int sl_check_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                     uint64_t rows, uint32_t dim, const float *dx);
int sl_check_transpose(const struct sl_csr_view *csr, const uint32_t *t_indptr,
                       const uint32_t *t_indices);
int sl_check_gemm(enum sl_transpose ta, enum sl_transpose tb, uint64_t m, uint64_t n, uint64_t k,
                  const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta,
                  const float *c, uint64_t ldc);
int sl_check_bias_act(const float *y, uint64_t rows, uint32_t dim, enum sl_activation act,
                      const struct sl_dropout *dropout);
int sl_check_bias_act_backward(const float *dy, const float *y, uint64_t rows, uint32_t dim,
                               enum sl_activation act, const struct sl_dropout *dropout);
int sl_check_dropout(const float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout);
// The arguments alone, for devices whose arrays the processor can not read.
int sl_check_softmax_xent_args(const float *logits, const int32_t *labels, uint64_t rows,
                               uint32_t classes, const struct sl_loss_result *out);
// Also looks at every label: -1 or below `classes`.
int sl_check_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows,
                          uint32_t classes, const struct sl_loss_result *out);
int sl_check_sigmoid_bce_args(const float *logits, const float *targets, uint64_t rows,
                              uint32_t dim, const struct sl_loss_result *out);
// Also looks at every target: 0 to 1 or NaN.
int sl_check_sigmoid_bce(const float *logits, const float *targets, uint64_t rows, uint32_t dim,
                         const struct sl_loss_result *out);
int sl_check_squared_error(const float *outputs, const float *targets, uint64_t rows, uint32_t dim,
                           const struct sl_loss_result *out);
int sl_check_batch_norm(const struct sl_batch_norm_args *args);
int sl_check_batch_norm_backward(const struct sl_batch_norm_grad_args *args);
int sl_check_layer_norm(const struct sl_layer_norm_args *args);
int sl_check_layer_norm_backward(const struct sl_layer_norm_grad_args *args);
int sl_check_scale_columns(const float *x, uint64_t rows, uint32_t dim, const float *scale,
                           const float *shift);
int sl_check_sum_squares(uint64_t n, const float *x, const double *out);
int sl_check_reduce(const float *const *slots, uint32_t n_slots, uint64_t n, const float *out);
int sl_check_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                  const float *m, const float *v, const float *p_out, const float *m_out,
                  const float *v_out);
int sl_check_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
                 const float *m, const float *p_out, const float *m_out);

int sl_check_gather_ranked(const struct sl_gather_ranked_args *args);
// Names the first vertex that neither the cache nor the store has.
int sl_check_ranked_range(const struct sl_gather_ranked_args *args);
int sl_check_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                          const float *out);
// Names the first destination that is not below n_out.
int sl_check_scatter_range(const uint32_t *to, uint64_t n, uint64_t n_out);
int sl_check_gemm_bias_act(const struct sl_gemm_bias_act_args *args);
int sl_check_weight_gradients(const struct sl_weight_gradients_args *args);
int sl_check_row_sums(const struct sl_csr_view *csr, enum sl_row_sum what, const float *out);
int sl_check_count_loops(const struct sl_csr_view *csr, const uint32_t *n_loops);
// SL_EUNSUPPORTED where the edges may come to 2^32 and more.
int sl_check_fix_loops(const struct sl_fix_loops_args *args);
int sl_check_gcn_scales(const struct sl_gcn_scales_args *args);
int sl_check_block_diagonal(const float *a, uint32_t heads, uint32_t width, const float *matrix);
int sl_check_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width,
                                const float *a);
int sl_check_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float beta,
                       const float *y);
int sl_check_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width,
                          const float *y);
int sl_check_fill_sum(uint64_t n, const float *a, const float *y);
int sl_check_add_scaled(uint64_t n, const float *a, const float *x, const float *y);
int sl_check_add_dot(uint64_t n, const float *x, const float *y, const float *sum);
int sl_check_maximum(uint64_t n, const float *x, const float *y);
int sl_check_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                              const float *dmax, const float *dy);
int sl_check_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                           const float *mean, const float *variance, const float *scale,
                           const float *shift);
int sl_check_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                              const float *gamma, const float *mean, const float *variance,
                              const float *dy, const float *dgamma, const float *dbeta,
                              const float *dx);
int sl_check_running_average(uint64_t n, const float *batch, const float *r);

#ifdef __cplusplus
}
#endif

#endif
