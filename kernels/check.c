#include "kernels/check.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/kernels_internal.h"
#include "kernels/spread_internal.h"

// Every message begins with the operation's name, so a caller's prefix can say which layer it was.
// Functions of this file are named sl_check_<operation>.
#define OPERATION (__func__ + sizeof "sl_check_" - 1)
#define WANT(cond, message, ...)                                                                   \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            return sl_fail(SL_EINVAL, "%s: " message, OPERATION, ##__VA_ARGS__);                   \
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

int sl_check_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                         const uint32_t *rows, uint64_t n, float *out)
{
    WANT(dtype == SL_DTYPE_F32 || dtype == SL_DTYPE_F16, "table of dtype %d: wanted f32 or f16",
         (int)dtype);
    WANT(dim > 0, "rows of dimension 0");
    WANT(n == 0 || (table && out), "table or out is NULL");
    WANT(rows || n <= n_rows, "the first %llu rows: the table has %llu", (unsigned long long)n,
         (unsigned long long)n_rows);
    return SL_OK;
}

// Names the first id that is not below what there is of it.
static int check_range(const char *what, const uint32_t *ids, uint64_t n, const char *of,
                       uint64_t limit, const char *unit)
{
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] >= limit)
            return sl_fail(SL_ERANGE, "%s %u at position %llu: the %s has %llu %s", what, ids[i],
                           (unsigned long long)i, of, (unsigned long long)limit, unit);
    return SL_OK;
}

int sl_check_row_range(const uint32_t *rows, uint64_t n, uint64_t n_rows)
{
    return rows ? check_range("gather_rows: row id", rows, n, "table", n_rows, "rows") : SL_OK;
}

int sl_check_gather_rows_to(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                            const uint32_t *rows, const uint32_t *to, uint64_t n, uint64_t n_out,
                            float *out)
{
    SL_TRY(sl_check_gather_rows(table, dtype, n_rows, dim, rows, n, out));
    WANT(n == 0 || to, "to is NULL");
    return SL_OK;
}

int sl_check_to_range(const uint32_t *to, uint64_t n, uint64_t n_out)
{
    return check_range("gather_rows_to: destination", to, n, "output", n_out, "rows");
}

int sl_check_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                           double *prefix)
{
    WANT(topology && topology->indptr, "the topology has no indptr");
    WANT(topology->indptr[topology->n_nodes] == 0 || (weight && prefix),
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
                        uint32_t *ranks)
{
    WANT(index, "there is no index");
    WANT(index->n_tiers <= SL_RANK_TIERS_MAX, "%u tiers: wanted at most %d", index->n_tiers,
         SL_RANK_TIERS_MAX);
    WANT(n == 0 || (nodes && ranks), "nodes or ranks is NULL");
    WANT(n == 0 || index->n_tiers == 0 || index->words, "the index has no words");
    return SL_OK;
}

int sl_check_node_range(const uint32_t *nodes, uint32_t n, uint64_t n_nodes)
{
    return check_range("mark_ranks: vertex", nodes, n, "hotness order", n_nodes, "vertices");
}

static int check_spread(const char *operation, const struct sl_spread *s)
{
    if (s->n_parts > SL_PARTS_MAX || s->shift >= 32)
        return sl_fail(SL_EINVAL, "%s: %u parts of runs of 2^%u: wanted at most %d of 2^31",
                       operation, s->n_parts, s->shift, SL_PARTS_MAX);
    if (s->n_parts > 0 && s->end < s->first)
        return sl_fail(SL_EINVAL, "%s: parts of elements %llu to %llu", operation,
                       (unsigned long long)s->first, (unsigned long long)s->end);
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (s->part[p].n > 0 && !s->part[p].p)
            return sl_fail(SL_EINVAL, "%s: part %u of %llu elements is NULL", operation, p,
                           (unsigned long long)s->part[p].n);
    return SL_OK;
}

int sl_check_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                        const struct sl_spread *held, struct sl_row_split *out)
{
    WANT(out && held, "out or held is NULL");
    SL_TRY(check_spread(OPERATION, held));
    WANT(n == 0 || (nodes && ranks && out->hit_row && out->hit_to && out->miss_row && out->miss_to),
         "nodes, ranks or an array of out is NULL");
    return SL_OK;
}

// Rows of `dim` columns that are summed up.
static int check_source(const char *op, enum sl_dtype dtype, uint64_t ld, uint32_t dim)
{
    if (dtype != SL_DTYPE_F32 && dtype != SL_DTYPE_F16 && dtype != SL_DTYPE_BF16)
        return sl_fail(SL_EINVAL, "%s: source of dtype %d: wanted f32, f16 or bf16", op,
                       (int)dtype);
    if (dtype == SL_DTYPE_BF16 && ld < dim)
        return sl_fail(SL_EINVAL, "%s: rows of the source are %llu apart: wanted at least %u", op,
                       (unsigned long long)ld, dim);
    return SL_OK;
}

// What they come to: in f32, or as bf16.
static int check_sums(const char *op, uint32_t rows, uint32_t dim, const float *y,
                      const uint16_t *y_bf16, uint64_t ld)
{
    if (rows > 0 && !y == !y_bf16)
        return sl_fail(SL_EINVAL, "%s: y and y_bf16: wanted one of them, the other one NULL", op);
    if (y_bf16 && ld < dim)
        return sl_fail(SL_EINVAL, "%s: rows are %llu apart: wanted at least %u", op,
                       (unsigned long long)ld, dim);
    return SL_OK;
}

int sl_check_aggregate(const struct sl_aggregate_args *args)
{
    SL_TRY(sl_check_csr(OPERATION, &args->csr));
    WANT(args->dim > 0, "rows of dimension 0");
    SL_TRY(check_sums(OPERATION, args->csr.n_dst, args->dim, args->y, args->y_bf16, args->y_ld));
    WANT(args->csr.n_src == 0 || args->x, "x is NULL");
    SL_TRY(check_source(OPERATION, args->x_dtype, args->x_ld, args->dim));
    if (args->self_scale)
        WANT(args->n_self <= SL_MIN(args->csr.n_dst, args->csr.n_src),
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
    SL_TRY(sl_check_csr(OPERATION, &args->csr));
    SL_TRY(check_n_heads(OPERATION, args->heads));
    WANT(!args->score_src == !args->score_dst || !has_edges(&args->csr),
         "one of score_src and score_dst is NULL");
    WANT(!has_edges(&args->csr) || args->alpha, "alpha is NULL");
    return SL_OK;
}

int sl_check_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args)
{
    SL_TRY(check_n_heads(OPERATION, args->heads));
    WANT(!has_edges(&args->csr) || (args->alpha && args->dalpha), "alpha or dalpha is NULL");
    WANT(!args->score_src == !args->score_dst || !has_edges(&args->csr),
         "one of score_src and score_dst is NULL");
    if (!args->score_src)
        return sl_check_csr(OPERATION, &args->csr);
    SL_TRY(check_transposed(OPERATION, &args->csr, &args->transposed, args->t_edge));
    WANT(args->csr.n_src == 0 || args->dscore_src, "dscore_src is NULL");
    WANT(args->csr.n_dst == 0 || args->dscore_dst, "dscore_dst is NULL");
    return SL_OK;
}

int sl_check_edge_scores(const struct sl_edge_scores_args *args)
{
    SL_TRY(sl_check_csr(OPERATION, &args->csr));
    SL_TRY(sl_check_heads(OPERATION, args->heads, args->dim));
    WANT(!has_edges(&args->csr) || (args->src && args->dst && args->att && args->score),
         "src, dst, att or score is NULL");
    return SL_OK;
}

int sl_check_edge_scores_backward(const struct sl_edge_scores_grad_args *args)
{
    SL_TRY(sl_check_csr(OPERATION, &args->csr));
    SL_TRY(sl_check_heads(OPERATION, args->heads, args->dim));
    WANT(args->beta == 0.0f || args->beta == 1.0f, "beta is %g: wanted 0 or 1", (double)args->beta);
    WANT(args->csr.n_dst == 0 || (args->own && args->att && args->down),
         "own, att or down is NULL");
    WANT(!has_edges(&args->csr) || (args->other && args->dscore), "other or dscore is NULL");
    return SL_OK;
}

int sl_check_aggregate_heads(const struct sl_aggregate_heads_args *args)
{
    SL_TRY(sl_check_csr(OPERATION, &args->csr));
    SL_TRY(sl_check_heads(OPERATION, args->heads, args->dim));
    WANT(args->csr.n_dst == 0 || args->y, "y is NULL");
    WANT(!has_edges(&args->csr) || (args->x && args->weight), "x or weight is NULL");
    return SL_OK;
}

int sl_check_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                      const float *b, float *out)
{
    WANT(csr, "there is no adjacency");
    SL_TRY(sl_check_csr(OPERATION, csr));
    SL_TRY(sl_check_heads(OPERATION, heads, dim));
    WANT(!has_edges(csr) || (a && b && out), "a, b or out is NULL");
    return SL_OK;
}

int sl_check_aggregate_max(const struct sl_aggregate_max_args *args)
{
    SL_TRY(sl_check_csr(OPERATION, &args->csr));
    WANT(args->dim > 0, "rows of dimension 0");
    SL_TRY(check_source(OPERATION, args->x_dtype, args->x_ld, args->dim));
    SL_TRY(check_sums(OPERATION, args->csr.n_dst, args->dim, args->y, args->y_bf16, args->y_ld));
    WANT(!has_edges(&args->csr) || args->x, "x is NULL");
    return SL_OK;
}

int sl_check_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args)
{
    SL_TRY(check_transposed(OPERATION, &args->csr, &args->transposed, args->t_edge));
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->csr.n_src == 0 || args->dx, "dx is NULL");
    WANT(!has_edges(&args->csr) || (args->from && args->dy), "from or dy is NULL");
    return SL_OK;
}

int sl_check_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(rows == 0 || (x && y && inverse), "x, y or inverse is NULL");
    return SL_OK;
}

int sl_check_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                     uint64_t rows, uint32_t dim, float *dx)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(rows == 0 || (dy && y && inverse && dx), "dy, y, inverse or dx is NULL");
    return SL_OK;
}

int sl_check_transpose(const struct sl_csr_view *csr, uint32_t *t_indptr, uint32_t *t_indices,
                       uint32_t *t_edge, struct sl_mempool *ws)
{
    SL_TRY(sl_check_csr(OPERATION, csr));
    WANT(t_indptr, "t_indptr is NULL");
    WANT(csr->n_edges == 0 || t_indices, "t_indices is NULL");
    return SL_OK;
}

// `may` have been stored as bf16.
static int check_precision(const char *op, enum sl_precision precision, int may)
{
    int kind = sl_precision_kind(precision), stored = (int)precision - kind;
    if (kind > SL_PRECISION_TF32 || (stored & ~may) || (stored && kind != SL_PRECISION_BF16))
        return sl_fail(SL_EINVAL, "%s: %d is no precision of its operands", op, (int)precision);
    return SL_OK;
}

int sl_check_gemm(enum sl_precision precision, enum sl_transpose ta, enum sl_transpose tb,
                  uint64_t m, uint64_t n, uint64_t k, float alpha, const void *a, uint64_t lda,
                  const void *b, uint64_t ldb, float beta, float *c, uint64_t ldc,
                  struct sl_mempool *ws)
{
    uint64_t a_cols = ta == SL_TRANS ? m : k, b_cols = tb == SL_TRANS ? k : n;
    SL_TRY(check_precision(OPERATION, precision, SL_PRECISION_A | SL_PRECISION_B));
    WANT(beta == 0.0f || beta == 1.0f, "beta is %g: wanted 0 or 1", (double)beta);
    if (m == 0 || n == 0)
        return SL_OK;
    WANT(c, "c is NULL");
    WANT(ldc >= n, "ldc is %llu: wanted at least n = %llu", (unsigned long long)ldc,
         (unsigned long long)n);
    if (k == 0)
        return SL_OK;
    WANT(a && b, "a or b is NULL");
    WANT(lda >= a_cols, "lda is %llu: wanted at least %llu columns", (unsigned long long)lda,
         (unsigned long long)a_cols);
    WANT(ldb >= b_cols, "ldb is %llu: wanted at least %llu columns", (unsigned long long)ldb,
         (unsigned long long)b_cols);
    return SL_OK;
}

static int check_activation(const char *op, enum sl_activation act)
{
    if ((int)act < SL_ACT_NONE || (int)act > SL_ACT_LEAKY_RELU)
        return sl_fail(SL_EINVAL, "%s: %d is no activation", op, (int)act);
    return SL_OK;
}

int sl_check_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias,
                      enum sl_activation act, const struct sl_dropout *dropout)
{
    SL_TRY(check_activation(OPERATION, act));
    WANT(dim > 0, "rows of dimension 0");
    WANT(rows == 0 || y, "y is NULL");
    return check_dropout(OPERATION, dropout);
}

int sl_check_bias_act_bf16(const float *x, uint64_t rows, uint32_t dim, const float *bias,
                           enum sl_activation act, const struct sl_dropout *dropout, float *y,
                           uint16_t *out, uint64_t ld)
{
    SL_TRY(check_activation(OPERATION, act));
    WANT(dim > 0, "rows of dimension 0");
    WANT(rows == 0 || (x && out), "x or out is NULL");
    WANT(ld >= dim, "rows are %llu apart: wanted at least %u", (unsigned long long)ld, dim);
    return check_dropout(OPERATION, dropout);
}

int sl_check_bias_act_backward(float *dy, const void *y, uint64_t y_bf16_ld, uint64_t rows,
                               uint32_t dim, enum sl_activation act,
                               const struct sl_dropout *dropout, float *dbias)
{
    SL_TRY(check_activation(OPERATION, act));
    WANT(dim > 0, "rows of dimension 0");
    WANT(rows == 0 || dy, "dy is NULL");
    WANT(rows == 0 || !act || y, "y is NULL and the activation asks for it");
    WANT(y_bf16_ld == 0 || y_bf16_ld >= dim, "rows of y are %llu apart: wanted at least %u",
         (unsigned long long)y_bf16_ld, dim);
    return check_dropout(OPERATION, dropout);
}

int sl_check_dropout(float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(dropout, "dropout is NULL");
    WANT(rows == 0 || x, "x is NULL");
    return check_dropout(OPERATION, dropout);
}

int sl_check_softmax_xent_args(const float *logits, const int32_t *labels, uint64_t rows,
                               uint32_t classes, const struct sl_loss_result *out)
{
    if (classes == 0 || classes > INT32_MAX)
        return sl_fail(SL_EINVAL, "softmax_xent: %u classes", classes);
    if (!out)
        return sl_fail(SL_EINVAL, "softmax_xent: there is no result");
    if (rows > 0 && (!logits || !labels))
        return sl_fail(SL_EINVAL, "softmax_xent: logits or labels is NULL");
    return SL_OK;
}

int sl_check_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows,
                          uint32_t classes, const float *class_weight, float *dlogits,
                          struct sl_loss_result *out)
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
                         const float *pos_weight, float *dlogits, struct sl_loss_result *out)
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
                           float *doutputs, struct sl_loss_result *out)
{
    return check_elements(OPERATION, outputs, targets, rows, dim, out);
}

int sl_check_batch_norm(const struct sl_norm_args *args, struct sl_mempool *ws)
{
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->rows > 0, "no rows: there is no mean of them");
    WANT(args->eps >= 0.0f, "eps is %g: wanted at least 0", (double)args->eps);
    WANT(args->x && args->gamma && args->beta && args->y, "an array is NULL");
    WANT(args->mean && args->inverse && args->variance, "mean, inverse or variance is NULL");
    return SL_OK;
}

int sl_check_batch_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->rows > 0, "no rows: forward refused them");
    WANT(args->x && args->gamma && args->mean && args->inverse && args->dy && args->dx,
         "an array is NULL");
    WANT(!args->dgamma == !args->dbeta, "dgamma or dbeta alone is NULL: wanted both or none");
    return SL_OK;
}

int sl_check_layer_norm(const struct sl_norm_args *args)
{
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->eps >= 0.0f, "eps is %g: wanted at least 0", (double)args->eps);
    WANT(args->gamma && args->beta, "gamma or beta is NULL");
    WANT(args->rows == 0 || (args->x && args->y), "x or y is NULL");
    WANT(!args->mean == !args->inverse || args->rows == 0,
         "mean or inverse alone is NULL: wanted both or none");
    return SL_OK;
}

int sl_check_layer_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->gamma && args->dgamma && args->dbeta, "gamma, dgamma or dbeta is NULL");
    WANT(args->rows == 0 || (args->x && args->mean && args->inverse && args->dy && args->dx),
         "an array is NULL");
    return SL_OK;
}

int sl_check_scale_columns(float *x, uint64_t rows, uint32_t dim, const float *scale,
                           const float *shift)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(scale && shift, "scale or shift is NULL");
    WANT(rows == 0 || x, "x is NULL");
    return SL_OK;
}

int sl_check_sum_squares(uint64_t n, const float *x, double *out)
{
    WANT(out, "out is NULL");
    WANT(n == 0 || x, "x is NULL");
    return SL_OK;
}

int sl_check_reduce(const float *const *slots, uint32_t n_slots, uint64_t n, float scale,
                    float *out)
{
    WANT(n_slots > 0, "no slot to reduce");
    WANT(n == 0 || (slots && out), "slots or out is NULL");
    for (uint32_t i = 0; n > 0 && i < n_slots; i++)
        WANT(slots[i], "slot %u of %u is NULL", i, n_slots);
    return SL_OK;
}

int sl_check_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                  const float *m, const float *v, float *p_out, float *m_out, float *v_out,
                  uint32_t *broken)
{
    WANT(step, "no step constants");
    WANT(step->t >= 1, "step number 0: steps count from 1");
    WANT(step->beta1 >= 0.0f && step->beta1 < 1.0f, "beta1 is %g: wanted 0 <= beta1 < 1",
         (double)step->beta1);
    WANT(step->beta2 >= 0.0f && step->beta2 < 1.0f, "beta2 is %g: wanted 0 <= beta2 < 1",
         (double)step->beta2);
    WANT(n == 0 || (g && p && m && v && p_out && m_out && v_out), "an array is NULL");
    return SL_OK;
}

int sl_check_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
                 const float *m, float *p_out, float *m_out, uint32_t *broken)
{
    WANT(step, "no step constants");
    WANT(n == 0 || (g && p && m && p_out && m_out), "an array is NULL");
    return SL_OK;
}

// ---- what model layers need beside, and the moves of whole batches ------------------------------

int sl_check_gather_ranked(const struct sl_gather_ranked_args *args)
{
    WANT(args->dtype == SL_DTYPE_F32 || args->dtype == SL_DTYPE_F16,
         "tables of dtype %d: wanted f32 or f16", (int)args->dtype);
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->n == 0 || (args->nodes && args->ranks && args->out), "nodes, ranks or out is NULL");
    const struct sl_spread *cache = &args->cache;
    SL_TRY(check_spread(OPERATION, cache));
    WANT(cache->shift == 0, "runs of 2^%u rows: wanted single ones", cache->shift);
    WANT(args->n == 0 || cache->n_near == 0 || cache->near, "a cache of %llu rows is NULL",
         (unsigned long long)cache->n_near);
    WANT(args->store || args->n_rows == 0, "the store of %llu rows is NULL",
         (unsigned long long)args->n_rows);
    return SL_OK;
}

int sl_check_ranked_range(const struct sl_gather_ranked_args *args)
{
    uint64_t at;
    for (uint32_t i = 0; args->store && i < args->n; i++)
        if (sl_spread_find(&args->cache, args->ranks[i], &at) == SL_SPREAD_NOWHERE &&
            args->nodes[i] >= args->n_rows)
            return sl_fail(SL_ERANGE,
                           "gather_ranked: row id %u at position %u: the store has %llu rows",
                           args->nodes[i], i, (unsigned long long)args->n_rows);
    return SL_OK;
}

int sl_check_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                          uint64_t n_out, float *out)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(n == 0 || (x && to && out), "x, to or out is NULL");
    return SL_OK;
}

int sl_check_scatter_range(const uint32_t *to, uint64_t n, uint64_t n_out)
{
    return check_range("scatter_rows: destination", to, n, "output", n_out, "rows");
}

int sl_check_gemm_bias_act(const struct sl_gemm_bias_act_args *args, struct sl_mempool *ws)
{
    WANT((int)args->act >= SL_ACT_NONE && (int)args->act <= SL_ACT_LEAKY_RELU,
         "%d is no activation", (int)args->act);
    WANT(args->n <= UINT32_MAX, "%llu columns: wanted less than 2^32", (unsigned long long)args->n);
    WANT(args->c || !args->c_bf16 || args->beta == 0.0f, "c is NULL and beta is %g: wanted 0",
         (double)args->beta);
    float *c = args->c ? args->c : (float *)(void *)args->c_bf16; // that there is one
    WANT(!args->c_bf16 || args->ldc_bf16 >= args->n, "rows of bf16 are %llu apart: wanted %llu",
         (unsigned long long)args->ldc_bf16, (unsigned long long)args->n);
    if (args->dropout.rate != 0.0f && args->n > 0) {
        WANT(args->ldc == args->n, "dropout of rows that are not dense");
        SL_TRY(sl_check_dropout(c, args->m, (uint32_t)args->n, &args->dropout));
    }
    if (args->k2 > 0)
        SL_TRY(sl_check_gemm(sl_precision_second(args->precision), SL_NO_TRANS, SL_TRANS, args->m,
                             args->n, args->k2, 1, args->a2, args->lda2, args->b2, args->ldb2,
                             args->beta, c, args->ldc, ws));
    return sl_check_gemm(sl_precision_first(args->precision), SL_NO_TRANS, SL_TRANS, args->m,
                         args->n, args->k, 1, args->a, args->lda, args->b, args->ldb, args->beta, c,
                         args->ldc, ws);
}

int sl_check_weight_gradients(const struct sl_weight_gradients_args *args, struct sl_mempool *ws)
{
    const struct sl_bias_act_gradient *before = &args->before;
    SL_TRY(check_precision(OPERATION, args->precision, SL_PRECISION_B | SL_PRECISION_B2));
    if (sl_gradient_changes(before) && args->m > 0) {
        WANT(args->lda == args->m, "rows that are not dense have a bias_act");
        WANT(args->m <= UINT32_MAX, "%llu columns: wanted less than 2^32",
             (unsigned long long)args->m);
        SL_TRY(sl_check_bias_act_backward(args->a, before->y, before->y_bf16_ld, args->k,
                                          (uint32_t)args->m, before->act, &before->dropout,
                                          before->dbias));
    }
    for (int i = 0; i < 2; i++) {
        const struct sl_weight_gradient *of = &args->of[i];
        SL_TRY(sl_check_gemm(i ? sl_precision_second(args->precision)
                               : sl_precision_first(args->precision),
                             SL_TRANS, SL_NO_TRANS, args->m, of->n, args->k, 1, args->a, args->lda,
                             of->b, of->ldb, 1, of->c, of->ldc, ws));
    }
    return SL_OK;
}

int sl_check_row_sums(const struct sl_csr_view *csr, const float *weight, const uint32_t *degrees,
                      enum sl_row_sum what, float *out)
{
    // Indices are not read: rows are told by indptr alone.
    WANT(csr && csr->indptr, "the adjacency has no indptr");
    WANT((int)what >= SL_ROW_SUM && (int)what <= SL_ROW_SCALE_UP, "%d is no kind of sum",
         (int)what);
    WANT(!degrees || what == SL_ROW_SCALE_UP, "degrees are of no use to kind %d of sum", (int)what);
    WANT(csr->n_dst == 0 || out, "out is NULL");
    return SL_OK;
}

int sl_check_count_loops(const struct sl_csr_view *csr, uint32_t *n_loops)
{
    SL_TRY(sl_check_csr(OPERATION, csr));
    WANT(n_loops, "n_loops is NULL");
    return SL_OK;
}

int sl_check_fix_loops(const struct sl_fix_loops_args *args, struct sl_mempool *ws)
{
    const struct sl_csr_view *csr = &args->csr;
    uint64_t room = (uint64_t)csr->n_edges + (args->append_self ? csr->n_dst : 0);
    SL_TRY(sl_check_csr(OPERATION, csr));
    WANT(args->indptr, "indptr is NULL");
    WANT(room == 0 || args->indices, "indices is NULL");
    WANT(room == 0 || !args->weight == !args->out_weight,
         "weight or out_weight alone is NULL: wanted both or none");
    if (room > UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "fix_loops: %llu edges with the rows themselves: wanted less than 2^32",
                       (unsigned long long)room);
    return SL_OK;
}

int sl_check_gcn_scales(const struct sl_gcn_scales_args *args, struct sl_mempool *ws)
{
    const struct sl_csr_view *csr = &args->csr;
    SL_TRY(sl_check_csr(OPERATION, csr));
    WANT(csr->n_dst <= csr->n_src, "%u rows and %u sources: the rows are the first sources",
         csr->n_dst, csr->n_src);
    WANT(csr->n_dst == 0 || args->row_scale, "row_scale is NULL");
    WANT(csr->n_src == 0 || args->col_scale, "col_scale is NULL");
    return SL_OK;
}

int sl_check_join_rows(const struct sl_join_rows_args *args)
{
    uint64_t edges = args->first_edge;
    WANT((uint64_t)args->n_dst * args->n_parts < UINT32_MAX,
         "%u rows of %u parts: wanted less "
         "than 2^32",
         args->n_dst, args->n_parts);
    WANT(args->n_parts > 0 && args->part && args->first_source, "there is no part");
    for (uint32_t p = 0; p < args->n_parts; p++) {
        SL_TRY(sl_check_csr(OPERATION, &args->part[p]));
        WANT(args->part[p].n_dst == args->n_dst, "part %u has %u rows: wanted %u", p,
             args->part[p].n_dst, args->n_dst);
        edges += args->part[p].n_edges;
    }
    WANT(edges <= UINT32_MAX, "%llu edges: wanted less than 2^32", (unsigned long long)edges);
    WANT(args->indptr && args->rows, "indptr or rows is NULL");
    WANT(edges == 0 || args->indices, "indices is NULL");
    return SL_OK;
}

int sl_check_block_diagonal(const float *a, uint32_t heads, uint32_t width, float *matrix)
{
    SL_TRY(sl_check_heads(OPERATION, heads, width));
    WANT(a && matrix, "a or the matrix is NULL");
    return SL_OK;
}

int sl_check_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width, float *a)
{
    SL_TRY(sl_check_heads(OPERATION, heads, width));
    WANT(a && matrix, "a or the matrix is NULL");
    return SL_OK;
}

int sl_check_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                       float beta, float *y)
{
    SL_TRY(sl_check_heads(OPERATION, heads, width));
    WANT(beta == 0.0f || beta == 1.0f, "beta is %g: wanted 0 or 1", (double)beta);
    WANT(rows == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width,
                          float scale, float *y)
{
    SL_TRY(sl_check_heads(OPERATION, heads, width));
    WANT(rows == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_curve(enum sl_curve_kind f, uint64_t n, const float *x, float *y)
{
    WANT((int)f >= SL_CURVE_GELU && (int)f <= SL_CURVE_SIGMOID, "%d is no curve", (int)f);
    WANT(n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_curve_backward(enum sl_curve_kind f, uint64_t n, const float *x, float *dy)
{
    WANT((int)f >= SL_CURVE_GELU && (int)f <= SL_CURVE_SIGMOID, "%d is no curve", (int)f);
    WANT(n == 0 || (x && dy), "x or dy is NULL");
    return SL_OK;
}

int sl_check_fill_sum(uint64_t n, float c, const float *a, float *y)
{
    WANT(a, "a is NULL");
    WANT(n == 0 || y, "y is NULL");
    return SL_OK;
}

int sl_check_add_scaled(uint64_t n, float c, const float *a, const float *x, float *y)
{
    WANT(a, "a is NULL");
    WANT(n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_add_dot(uint64_t n, const float *x, const float *y, float *sum, struct sl_mempool *ws)
{
    WANT(sum, "sum is NULL");
    WANT(n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_maximum(uint64_t n, const float *x, float *y)
{
    WANT(n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                              const float *dmax, float *dy)
{
    WANT(layer < SL_MAXIMUM_LAYERS, "layer %u: wanted less than %d", layer, SL_MAXIMUM_LAYERS);
    WANT(n == 0 || (h && max && dmax && dy), "an array is NULL");
    for (uint32_t l = 0; n > 0 && l <= layer; l++)
        WANT(h[l], "the output of layer %u is NULL", l);
    return SL_OK;
}

int sl_check_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                           const float *mean, const float *variance, float *scale, float *shift)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(eps >= 0.0f, "eps is %g: wanted at least 0", (double)eps);
    WANT(gamma && beta && mean && variance && scale && shift, "an array is NULL");
    return SL_OK;
}

int sl_check_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                              const float *gamma, const float *mean, const float *variance,
                              const float *dy, float *dgamma, float *dbeta, float *dx)
{
    WANT(dim > 0, "rows of dimension 0");
    WANT(eps >= 0.0f, "eps is %g: wanted at least 0", (double)eps);
    WANT(gamma && mean && variance && dgamma && dbeta, "an array is NULL");
    WANT(rows == 0 || (x && dy && dx), "x, dy or dx is NULL");
    return SL_OK;
}

int sl_check_running_average(uint64_t n, float momentum, const float *batch, float *r)
{
    WANT(n == 0 || (batch && r), "batch or r is NULL");
    return SL_OK;
}

static int check_combine(const char *op, enum sl_pair_combine combine)
{
    if (combine == SL_PAIR_PRODUCT || combine == SL_PAIR_DIFFERENCE)
        return SL_OK;
    return sl_fail(SL_EINVAL, "%s: combination number %d: wanted product or difference", op,
                   (int)combine);
}

int sl_check_pair_dot(const struct sl_pair_dot_args *args)
{
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->n == 0 || (args->ids && args->a && args->b && args->score),
         "ids, a, b or score is NULL");
    return SL_OK;
}

int sl_check_pair_rows(uint64_t n, const uint32_t *ids, uint32_t dim, enum sl_pair_combine combine,
                       const float *x, float *out)
{
    SL_TRY(check_combine(OPERATION, combine));
    WANT(dim > 0, "rows of dimension 0");
    WANT(n == 0 || (ids && x && out), "ids, x or out is NULL");
    return SL_OK;
}

int sl_check_pair_gradient(const struct sl_pair_gradient_args *args)
{
    SL_TRY(check_combine(OPERATION, args->combine));
    WANT(args->dim > 0, "rows of dimension 0");
    WANT(args->n <= INT32_MAX, "%u pairs: wanted less than 2^31", args->n);
    WANT((unsigned)args->side <= SL_PAIR_TARGET, "side number %d", (int)args->side);
    WANT(args->n_rows == 0 || (args->indptr && args->dx), "indptr or dx is NULL");
    WANT(args->n == 0 || (args->ids && args->ends && args->other), "ids, ends or other is NULL");
    WANT(args->n == 0 || !args->dscore != !args->drows,
         "wanted either dscore or drows, and not both");
    WANT(args->n == 0 || args->combine == SL_PAIR_PRODUCT || (args->own && args->drows),
         "own or drows is NULL, which differences ask for");
    return SL_OK;
}

int sl_check_pair_loss(const struct sl_pair_loss_args *args, struct sl_loss_result *out)
{
    WANT((unsigned)args->loss <= SL_LOSS_PAIR_SOFTMAX, "loss number %d", (int)args->loss);
    WANT(out, "there is no result");
    WANT(args->n_positive <= args->n, "%llu positives of %llu pairs",
         (unsigned long long)args->n_positive, (unsigned long long)args->n);
    WANT(args->loss == SL_LOSS_PAIR_BCE ||
             (args->n - args->n_positive) == args->n_positive * args->per_positive,
         "%llu pairs behind %llu positives: wanted %u for each",
         (unsigned long long)(args->n - args->n_positive), (unsigned long long)args->n_positive,
         args->per_positive);
    WANT(args->n == 0 || args->score, "score is NULL");
    return SL_OK;
}
