#include "kernels/check.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/kernels_internal.h"

// Every message begins with the operation's name, so a caller's prefix can say which layer it was.
#define WANT(op, cond, ...)                                                                        \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            return sl_fail(SL_EINVAL, op ": " __VA_ARGS__);                                        \
    } while (0)

int sl_check_csr(const char *op, const struct sl_csr_view *csr)
{
    if (!csr || !csr->indptr)
        return sl_fail(SL_EINVAL, "%s: the adjacency has no indptr", op);
    if (csr->n_edges > 0 && !csr->indices)
        return sl_fail(SL_EINVAL, "%s: the adjacency has %u edges but no indices", op,
                       csr->n_edges);
    return SL_OK;
}

static int check_dropout(const char *op, const struct sl_dropout *dropout)
{
    if (!dropout)
        return SL_OK;
    if (!(dropout->rate >= 0.0f && dropout->rate < 1.0f))
        return sl_fail(SL_EINVAL, "%s: dropout rate %g: wanted 0 <= rate < 1", op,
                       (double)dropout->rate);
    if (dropout->layer > 0xff)
        return sl_fail(SL_EINVAL, "%s: dropout layer %u: wanted at most 255", op, dropout->layer);
    return SL_OK;
}

int sl_check_gather_rows(const void *table, enum sl_dtype dtype, uint32_t dim, const uint32_t *rows,
                         uint64_t n, const float *out)
{
    WANT("gather_rows", dtype == SL_DTYPE_F32 || dtype == SL_DTYPE_F16,
         "table of dtype %d: wanted f32 or f16", (int)dtype);
    WANT("gather_rows", dim > 0, "rows of dimension 0");
    WANT("gather_rows", n == 0 || (table && rows && out), "table, rows or out is NULL");
    return SL_OK;
}

int sl_check_row_range(const uint32_t *rows, uint64_t n, uint64_t n_rows)
{
    for (uint64_t i = 0; i < n; i++)
        if (rows[i] >= n_rows)
            return sl_fail(SL_ERANGE,
                           "gather_rows: row id %u at position %llu: the table has %llu rows",
                           rows[i], (unsigned long long)i, (unsigned long long)n_rows);
    return SL_OK;
}

int sl_check_gather_rows_to(const void *table, enum sl_dtype dtype, uint32_t dim,
                            const uint32_t *rows, const uint32_t *to, uint64_t n, const float *out)
{
    SL_TRY(sl_check_gather_rows(table, dtype, dim, rows, n, out));
    WANT("gather_rows_to", n == 0 || to, "to is NULL");
    return SL_OK;
}

int sl_check_to_range(const uint32_t *to, uint64_t n, uint64_t n_out)
{
    for (uint64_t i = 0; i < n; i++)
        if (to[i] >= n_out)
            return sl_fail(SL_ERANGE,
                           "gather_rows_to: destination %u at position %llu: the output has %llu "
                           "rows",
                           to[i], (unsigned long long)i, (unsigned long long)n_out);
    return SL_OK;
}

int sl_check_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                           const double *prefix)
{
    WANT("weight_prefix", topology && topology->indptr, "the topology has no indptr");
    WANT("weight_prefix", topology->indptr[topology->n_nodes] == 0 || (weight && prefix),
         "weight or prefix is NULL");
    return SL_OK;
}

int sl_check_fail_weight(const struct sl_topology_view *topology, const float *weight,
                         uint64_t edge)
{
    // The last row that begins at or before the edge: empty ones share their beginning with it.
    uint64_t low = 0, high = topology->n_nodes;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (topology->indptr[middle] <= edge)
            low = middle;
        else
            high = middle;
    }
    return sl_fail(SL_EINVAL,
                   "weight_prefix: edge %llu, an in-edge of vertex %llu, has weight %g: wanted a "
                   "finite number that is not negative",
                   (unsigned long long)edge, (unsigned long long)low, (double)weight[edge]);
}

int sl_check_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                        const uint32_t *ranks)
{
    WANT("mark_ranks", index, "there is no index");
    WANT("mark_ranks", index->n_tiers <= SL_RANK_TIERS_MAX, "%u tiers: wanted at most %d",
         index->n_tiers, SL_RANK_TIERS_MAX);
    WANT("mark_ranks", n == 0 || (nodes && ranks), "nodes or ranks is NULL");
    WANT("mark_ranks", n == 0 || index->n_tiers == 0 || index->words, "the index has no words");
    return SL_OK;
}

int sl_check_node_range(const uint32_t *nodes, uint32_t n, uint64_t n_nodes)
{
    for (uint32_t i = 0; i < n; i++)
        if (nodes[i] >= n_nodes)
            return sl_fail(SL_ERANGE,
                           "mark_ranks: vertex %u at position %u: the hotness order has %llu "
                           "vertices",
                           nodes[i], i, (unsigned long long)n_nodes);
    return SL_OK;
}

int sl_check_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                        const struct sl_row_split *out)
{
    WANT("split_rows", out, "out is NULL");
    WANT("split_rows",
         n == 0 || (nodes && ranks && out->hit_row && out->hit_to && out->miss_row && out->miss_to),
         "nodes, ranks or an array of out is NULL");
    return SL_OK;
}

int sl_check_aggregate(const struct sl_aggregate_args *args)
{
    SL_TRY(sl_check_csr("aggregate", &args->csr));
    WANT("aggregate", args->x_dtype == SL_DTYPE_F32 || args->x_dtype == SL_DTYPE_F16,
         "source of dtype %d: wanted f32 or f16", (int)args->x_dtype);
    WANT("aggregate", args->dim > 0, "rows of dimension 0");
    WANT("aggregate", args->csr.n_dst == 0 || args->y, "y is NULL");
    WANT("aggregate", args->csr.n_src == 0 || args->x, "x is NULL");
    if (args->self_scale)
        WANT("aggregate", args->n_self <= SL_MIN(args->csr.n_dst, args->csr.n_src),
             "n_self is %u: wanted at most the smaller of n_dst %u and n_src %u", args->n_self,
             args->csr.n_dst, args->csr.n_src);
    return SL_OK;
}

// Attention reads several weights an edge: how many edges there are decides what may be NULL.
static bool has_edges(const struct sl_csr_view *csr)
{
    return csr->n_edges > 0;
}

// That a transposed adjacency and the way back to its edges can be those of csr.
static int check_transposed(const char *op, const struct sl_csr_view *csr,
                            const struct sl_csr_view *transposed, const uint32_t *t_edge)
{
    SL_TRY(sl_check_csr(op, csr));
    SL_TRY(sl_check_csr(op, transposed));
    if (transposed->n_dst != csr->n_src || transposed->n_src != csr->n_dst)
        return sl_fail(SL_EINVAL,
                       "%s: the transposed adjacency is %u x %u: wanted %u x %u, since the "
                       "adjacency is %u x %u",
                       op, transposed->n_dst, transposed->n_src, csr->n_src, csr->n_dst, csr->n_dst,
                       csr->n_src);
    if (transposed->n_edges != csr->n_edges)
        return sl_fail(SL_EINVAL, "%s: the transposed adjacency has %u edges: wanted %u", op,
                       transposed->n_edges, csr->n_edges);
    if (csr->n_edges > 0 && !t_edge)
        return sl_fail(SL_EINVAL, "%s: t_edge is NULL", op);
    return SL_OK;
}

// Scratch rows of heads are kept on the stack.
static int check_n_heads(const char *op, uint32_t heads)
{
    if (heads == 0 || heads > SL_HEADS_MAX)
        return sl_fail(SL_EINVAL, "%s: %u heads: wanted 1 to %d", op, heads, SL_HEADS_MAX);
    return SL_OK;
}

int sl_check_heads(const char *op, uint32_t heads, uint32_t dim)
{
    if (heads == 0 || dim == 0 || (uint64_t)heads * dim > UINT32_MAX)
        return sl_fail(SL_EINVAL, "%s: %u heads of %u columns: wanted 1 to %u columns a row", op,
                       heads, dim, UINT32_MAX);
    return SL_OK;
}

int sl_check_edge_softmax(const struct sl_edge_softmax_args *args)
{
    SL_TRY(sl_check_csr("edge_softmax", &args->csr));
    SL_TRY(check_n_heads("edge_softmax", args->heads));
    WANT("edge_softmax", !args->score_src == !args->score_dst || !has_edges(&args->csr),
         "one of score_src and score_dst is NULL");
    WANT("edge_softmax", !has_edges(&args->csr) || args->alpha, "alpha is NULL");
    return SL_OK;
}

int sl_check_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args)
{
    SL_TRY(check_n_heads("edge_softmax_backward", args->heads));
    WANT("edge_softmax_backward", !has_edges(&args->csr) || (args->alpha && args->dalpha),
         "alpha or dalpha is NULL");
    WANT("edge_softmax_backward", !args->score_src == !args->score_dst || !has_edges(&args->csr),
         "one of score_src and score_dst is NULL");
    if (!args->score_src)
        return sl_check_csr("edge_softmax_backward", &args->csr);
    SL_TRY(check_transposed("edge_softmax_backward", &args->csr, &args->transposed, args->t_edge));
    WANT("edge_softmax_backward", args->csr.n_src == 0 || args->dscore_src, "dscore_src is NULL");
    WANT("edge_softmax_backward", args->csr.n_dst == 0 || args->dscore_dst, "dscore_dst is NULL");
    return SL_OK;
}

int sl_check_edge_scores(const struct sl_edge_scores_args *args)
{
    SL_TRY(sl_check_csr("edge_scores", &args->csr));
    SL_TRY(sl_check_heads("edge_scores", args->heads, args->dim));
    WANT("edge_scores",
         !has_edges(&args->csr) || (args->src && args->dst && args->att && args->score),
         "src, dst, att or score is NULL");
    return SL_OK;
}

int sl_check_edge_scores_backward(const struct sl_edge_scores_grad_args *args)
{
    SL_TRY(sl_check_csr("edge_scores_backward", &args->csr));
    SL_TRY(sl_check_heads("edge_scores_backward", args->heads, args->dim));
    WANT("edge_scores_backward", args->beta == 0.0f || args->beta == 1.0f,
         "beta is %g: wanted 0 or 1", (double)args->beta);
    WANT("edge_scores_backward", args->csr.n_dst == 0 || (args->own && args->att && args->down),
         "own, att or down is NULL");
    WANT("edge_scores_backward", !has_edges(&args->csr) || (args->other && args->dscore),
         "other or dscore is NULL");
    return SL_OK;
}

int sl_check_aggregate_heads(const struct sl_aggregate_heads_args *args)
{
    SL_TRY(sl_check_csr("aggregate_heads", &args->csr));
    SL_TRY(sl_check_heads("aggregate_heads", args->heads, args->dim));
    WANT("aggregate_heads", args->csr.n_dst == 0 || args->y, "y is NULL");
    WANT("aggregate_heads", !has_edges(&args->csr) || (args->x && args->weight),
         "x or weight is NULL");
    return SL_OK;
}

int sl_check_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                      const float *b, const float *out)
{
    WANT("edge_dot", csr, "there is no adjacency");
    SL_TRY(sl_check_csr("edge_dot", csr));
    SL_TRY(sl_check_heads("edge_dot", heads, dim));
    WANT("edge_dot", !has_edges(csr) || (a && b && out), "a, b or out is NULL");
    return SL_OK;
}

int sl_check_aggregate_max(const struct sl_aggregate_max_args *args)
{
    SL_TRY(sl_check_csr("aggregate_max", &args->csr));
    WANT("aggregate_max", args->x_dtype == SL_DTYPE_F32 || args->x_dtype == SL_DTYPE_F16,
         "source of dtype %d: wanted f32 or f16", (int)args->x_dtype);
    WANT("aggregate_max", args->dim > 0, "rows of dimension 0");
    WANT("aggregate_max", args->csr.n_dst == 0 || args->y, "y is NULL");
    WANT("aggregate_max", !has_edges(&args->csr) || args->x, "x is NULL");
    return SL_OK;
}

int sl_check_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args)
{
    SL_TRY(check_transposed("aggregate_max_backward", &args->csr, &args->transposed, args->t_edge));
    WANT("aggregate_max_backward", args->dim > 0, "rows of dimension 0");
    WANT("aggregate_max_backward", args->csr.n_src == 0 || args->dx, "dx is NULL");
    WANT("aggregate_max_backward", !has_edges(&args->csr) || (args->from && args->dy),
         "from or dy is NULL");
    return SL_OK;
}

int sl_check_normalize_rows(const float *x, uint64_t rows, uint32_t dim, const float *y,
                            const float *inverse)
{
    WANT("normalize_rows", dim > 0, "rows of dimension 0");
    WANT("normalize_rows", rows == 0 || (x && y && inverse), "x, y or inverse is NULL");
    return SL_OK;
}

int sl_check_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                     uint64_t rows, uint32_t dim, const float *dx)
{
    WANT("normalize_rows_backward", dim > 0, "rows of dimension 0");
    WANT("normalize_rows_backward", rows == 0 || (dy && y && inverse && dx),
         "dy, y, inverse or dx is NULL");
    return SL_OK;
}

int sl_check_transpose(const struct sl_csr_view *csr, const uint32_t *t_indptr,
                       const uint32_t *t_indices)
{
    SL_TRY(sl_check_csr("transpose", csr));
    WANT("transpose", t_indptr, "t_indptr is NULL");
    WANT("transpose", csr->n_edges == 0 || t_indices, "t_indices is NULL");
    return SL_OK;
}

int sl_check_gemm(enum sl_transpose ta, enum sl_transpose tb, uint64_t m, uint64_t n, uint64_t k,
                  const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta,
                  const float *c, uint64_t ldc)
{
    uint64_t a_cols = ta == SL_TRANS ? m : k, b_cols = tb == SL_TRANS ? k : n;
    WANT("gemm", beta == 0.0f || beta == 1.0f, "beta is %g: wanted 0 or 1", (double)beta);
    if (m == 0 || n == 0)
        return SL_OK;
    WANT("gemm", c, "c is NULL");
    WANT("gemm", ldc >= n, "ldc is %llu: wanted at least n = %llu", (unsigned long long)ldc,
         (unsigned long long)n);
    if (k == 0)
        return SL_OK;
    WANT("gemm", a && b, "a or b is NULL");
    WANT("gemm", lda >= a_cols, "lda is %llu: wanted at least %llu columns",
         (unsigned long long)lda, (unsigned long long)a_cols);
    WANT("gemm", ldb >= b_cols, "ldb is %llu: wanted at least %llu columns",
         (unsigned long long)ldb, (unsigned long long)b_cols);
    return SL_OK;
}

static int check_activation(const char *op, enum sl_activation act)
{
    if ((int)act < SL_ACT_NONE || (int)act > SL_ACT_LEAKY_RELU)
        return sl_fail(SL_EINVAL, "%s: %d is no activation", op, (int)act);
    return SL_OK;
}

int sl_check_bias_act(const float *y, uint64_t rows, uint32_t dim, enum sl_activation act,
                      const struct sl_dropout *dropout)
{
    SL_TRY(check_activation("bias_act", act));
    WANT("bias_act", dim > 0, "rows of dimension 0");
    WANT("bias_act", rows == 0 || y, "y is NULL");
    return check_dropout("bias_act", dropout);
}

int sl_check_bias_act_backward(const float *dy, const float *y, uint64_t rows, uint32_t dim,
                               enum sl_activation act, const struct sl_dropout *dropout)
{
    SL_TRY(check_activation("bias_act_backward", act));
    WANT("bias_act_backward", dim > 0, "rows of dimension 0");
    WANT("bias_act_backward", rows == 0 || dy, "dy is NULL");
    WANT("bias_act_backward", rows == 0 || !act || y, "y is NULL and the activation asks for it");
    return check_dropout("bias_act_backward", dropout);
}

int sl_check_dropout(const float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout)
{
    WANT("dropout", dim > 0, "rows of dimension 0");
    WANT("dropout", dropout, "dropout is NULL");
    WANT("dropout", rows == 0 || x, "x is NULL");
    return check_dropout("dropout", dropout);
}

int sl_check_softmax_xent_args(const float *logits, const int32_t *labels, uint64_t rows,
                               uint32_t classes, const struct sl_loss_result *out)
{
    WANT("softmax_xent", classes > 0 && classes <= INT32_MAX, "%u classes", classes);
    WANT("softmax_xent", out, "there is no result");
    WANT("softmax_xent", rows == 0 || (logits && labels), "logits or labels is NULL");
    return SL_OK;
}

int sl_check_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows,
                          uint32_t classes, const struct sl_loss_result *out)
{
    SL_TRY(sl_check_softmax_xent_args(logits, labels, rows, classes, out));
    for (uint64_t i = 0; i < rows; i++)
        if (labels[i] < -1 || labels[i] >= (int32_t)classes)
            return sl_fail(SL_ERANGE,
                           "softmax_xent: label %d of row %llu: wanted 0 to %u, or -1 for none",
                           labels[i], (unsigned long long)i, classes - 1);
    return SL_OK;
}

static int check_elements(const char *op, const float *outputs, const float *targets, uint64_t rows,
                          uint32_t dim, const struct sl_loss_result *out)
{
    if (dim == 0)
        return sl_fail(SL_EINVAL, "%s: rows of dimension 0", op);
    if (!out)
        return sl_fail(SL_EINVAL, "%s: there is no result", op);
    if (rows > 0 && (!outputs || !targets))
        return sl_fail(SL_EINVAL, "%s: the outputs or the targets are NULL", op);
    return SL_OK;
}

int sl_check_sigmoid_bce_args(const float *logits, const float *targets, uint64_t rows,
                              uint32_t dim, const struct sl_loss_result *out)
{
    return check_elements("sigmoid_bce", logits, targets, rows, dim, out);
}

int sl_check_sigmoid_bce(const float *logits, const float *targets, uint64_t rows, uint32_t dim,
                         const struct sl_loss_result *out)
{
    SL_TRY(sl_check_sigmoid_bce_args(logits, targets, rows, dim, out));
    uint32_t bad = 0; // counted without a branch, so that the loop vectorises
    for (uint64_t e = 0; e < rows * dim; e++)
        bad |= (uint32_t)(targets[e] < 0.0f) | (uint32_t)(targets[e] > 1.0f);
    for (uint64_t e = 0; bad && e < rows * dim; e++)
        if (targets[e] < 0.0f || targets[e] > 1.0f)
            return sl_fail(SL_ERANGE,
                           "sigmoid_bce: target %g of row %llu, column %llu: wanted 0 to 1, or NaN "
                           "for none",
                           (double)targets[e], (unsigned long long)(e / dim),
                           (unsigned long long)(e % dim));
    return SL_OK;
}

int sl_check_squared_error(const float *outputs, const float *targets, uint64_t rows, uint32_t dim,
                           const struct sl_loss_result *out)
{
    return check_elements("squared_error", outputs, targets, rows, dim, out);
}

int sl_check_batch_norm(const struct sl_batch_norm_args *args)
{
    WANT("batch_norm", args->dim > 0, "rows of dimension 0");
    WANT("batch_norm", args->rows > 0, "no rows: there is no mean of them");
    WANT("batch_norm", args->eps >= 0.0f, "eps is %g: wanted at least 0", (double)args->eps);
    WANT("batch_norm", args->x && args->gamma && args->beta && args->y, "an array is NULL");
    WANT("batch_norm", args->mean && args->inverse && args->variance,
         "mean, inverse or variance is NULL");
    return SL_OK;
}

int sl_check_batch_norm_backward(const struct sl_batch_norm_grad_args *args)
{
    WANT("batch_norm_backward", args->dim > 0, "rows of dimension 0");
    WANT("batch_norm_backward", args->rows > 0, "no rows: forward refused them");
    WANT("batch_norm_backward",
         args->x && args->gamma && args->mean && args->inverse && args->dy && args->dx,
         "an array is NULL");
    WANT("batch_norm_backward", !args->dgamma == !args->dbeta,
         "dgamma or dbeta alone is NULL: wanted both or none");
    return SL_OK;
}

int sl_check_layer_norm(const struct sl_layer_norm_args *args)
{
    WANT("layer_norm", args->dim > 0, "rows of dimension 0");
    WANT("layer_norm", args->eps >= 0.0f, "eps is %g: wanted at least 0", (double)args->eps);
    WANT("layer_norm", args->gamma && args->beta, "gamma or beta is NULL");
    WANT("layer_norm", args->rows == 0 || (args->x && args->y), "x or y is NULL");
    WANT("layer_norm", !args->mean == !args->inverse || args->rows == 0,
         "mean or inverse alone is NULL: wanted both or none");
    return SL_OK;
}

int sl_check_layer_norm_backward(const struct sl_layer_norm_grad_args *args)
{
    WANT("layer_norm_backward", args->dim > 0, "rows of dimension 0");
    WANT("layer_norm_backward", args->gamma && args->dgamma && args->dbeta,
         "gamma, dgamma or dbeta is NULL");
    WANT("layer_norm_backward",
         args->rows == 0 || (args->x && args->mean && args->inverse && args->dy && args->dx),
         "an array is NULL");
    return SL_OK;
}

int sl_check_scale_columns(const float *x, uint64_t rows, uint32_t dim, const float *scale,
                           const float *shift)
{
    WANT("scale_columns", dim > 0, "rows of dimension 0");
    WANT("scale_columns", scale && shift, "scale or shift is NULL");
    WANT("scale_columns", rows == 0 || x, "x is NULL");
    return SL_OK;
}

int sl_check_sum_squares(uint64_t n, const float *x, const double *out)
{
    WANT("sum_squares", out, "out is NULL");
    WANT("sum_squares", n == 0 || x, "x is NULL");
    return SL_OK;
}

int sl_check_reduce(const float *const *slots, uint32_t n_slots, uint64_t n, const float *out)
{
    WANT("reduce", n_slots > 0, "no slot to reduce");
    WANT("reduce", n == 0 || (slots && out), "slots or out is NULL");
    for (uint32_t i = 0; n > 0 && i < n_slots; i++)
        WANT("reduce", slots[i], "slot %u of %u is NULL", i, n_slots);
    return SL_OK;
}

int sl_check_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                  const float *m, const float *v, const float *p_out, const float *m_out,
                  const float *v_out)
{
    WANT("adam", step, "no step constants");
    WANT("adam", step->t >= 1, "step number 0: steps count from 1");
    WANT("adam", step->beta1 >= 0.0f && step->beta1 < 1.0f, "beta1 is %g: wanted 0 <= beta1 < 1",
         (double)step->beta1);
    WANT("adam", step->beta2 >= 0.0f && step->beta2 < 1.0f, "beta2 is %g: wanted 0 <= beta2 < 1",
         (double)step->beta2);
    WANT("adam", n == 0 || (g && p && m && v && p_out && m_out && v_out), "an array is NULL");
    return SL_OK;
}

int sl_check_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
                 const float *m, const float *p_out, const float *m_out)
{
    WANT("sgd", step, "no step constants");
    WANT("sgd", n == 0 || (g && p && m && p_out && m_out), "an array is NULL");
    return SL_OK;
}
