// Validation of what model layers need beside sums and products, and of the moves of whole batches.
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

int sl_check_gather_ranked(const struct sl_gather_ranked_args *args)
{
    WANT("gather_ranked", args->dtype == SL_DTYPE_F32 || args->dtype == SL_DTYPE_F16,
         "tables of dtype %d: wanted f32 or f16", (int)args->dtype);
    WANT("gather_ranked", args->dim > 0, "rows of dimension 0");
    WANT("gather_ranked", args->n == 0 || (args->nodes && args->ranks && args->out),
         "nodes, ranks or out is NULL");
    WANT("gather_ranked", args->n == 0 || args->capacity == 0 || args->cache,
         "a cache of %u rows is NULL", args->capacity);
    WANT("gather_ranked", args->n == 0 || args->n_rows == 0 || args->store, "the store is NULL");
    return SL_OK;
}

int sl_check_ranked_range(const struct sl_gather_ranked_args *args)
{
    for (uint32_t i = 0; i < args->n; i++)
        if (args->ranks[i] >= args->capacity && args->nodes[i] >= args->n_rows)
            return sl_fail(SL_ERANGE,
                           "gather_ranked: row id %u at position %u: the store has %llu rows",
                           args->nodes[i], i, (unsigned long long)args->n_rows);
    return SL_OK;
}

int sl_check_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                          const float *out)
{
    WANT("scatter_rows", dim > 0, "rows of dimension 0");
    WANT("scatter_rows", n == 0 || (x && to && out), "x, to or out is NULL");
    return SL_OK;
}

int sl_check_scatter_range(const uint32_t *to, uint64_t n, uint64_t n_out)
{
    for (uint64_t i = 0; i < n; i++)
        if (to[i] >= n_out)
            return sl_fail(SL_ERANGE,
                           "scatter_rows: destination %u at position %llu: the output has %llu "
                           "rows",
                           to[i], (unsigned long long)i, (unsigned long long)n_out);
    return SL_OK;
}

int sl_check_gemm_bias_act(const struct sl_gemm_bias_act_args *args)
{
    WANT("gemm_bias_act", (int)args->act >= SL_ACT_NONE && (int)args->act <= SL_ACT_LEAKY_RELU,
         "%d is no activation", (int)args->act);
    WANT("gemm_bias_act", args->n <= UINT32_MAX, "%llu columns: wanted less than 2^32",
         (unsigned long long)args->n);
    if (args->dropout.rate != 0.0f && args->n > 0) {
        WANT("gemm_bias_act", args->ldc == args->n, "dropout of rows that are not dense");
        SL_TRY(sl_check_dropout(args->c, args->m, (uint32_t)args->n, &args->dropout));
    }
    if (args->k2 > 0)
        SL_TRY(sl_check_gemm(SL_NO_TRANS, SL_TRANS, args->m, args->n, args->k2, args->a2,
                             args->lda2, args->b2, args->ldb2, args->beta, args->c, args->ldc));
    return sl_check_gemm(SL_NO_TRANS, SL_TRANS, args->m, args->n, args->k, args->a, args->lda,
                         args->b, args->ldb, args->beta, args->c, args->ldc);
}

int sl_check_weight_gradients(const struct sl_weight_gradients_args *args)
{
    for (int i = 0; i < 2; i++) {
        const struct sl_weight_gradient *of = &args->of[i];
        SL_TRY(sl_check_gemm(SL_TRANS, SL_NO_TRANS, args->m, of->n, args->k, args->a, args->lda,
                             of->b, of->ldb, 1, of->c, of->ldc));
    }
    return SL_OK;
}

int sl_check_row_sums(const struct sl_csr_view *csr, enum sl_row_sum what, const float *out)
{
    // Indices are not read: rows are told by indptr alone.
    WANT("row_sums", csr && csr->indptr, "the adjacency has no indptr");
    WANT("row_sums", (int)what >= SL_ROW_SUM && (int)what <= SL_ROW_MEAN_WEIGHT,
         "%d is no kind of sum", (int)what);
    WANT("row_sums", csr->n_dst == 0 || out, "out is NULL");
    return SL_OK;
}

int sl_check_count_loops(const struct sl_csr_view *csr, const uint32_t *n_loops)
{
    SL_TRY(sl_check_csr("count_loops", csr));
    WANT("count_loops", n_loops, "n_loops is NULL");
    return SL_OK;
}

int sl_check_fix_loops(const struct sl_fix_loops_args *args)
{
    const struct sl_csr_view *csr = &args->csr;
    uint64_t room = (uint64_t)csr->n_edges + (args->append_self ? csr->n_dst : 0);
    SL_TRY(sl_check_csr("fix_loops", csr));
    WANT("fix_loops", args->indptr && args->n_edges, "indptr or n_edges is NULL");
    WANT("fix_loops", room == 0 || args->indices, "indices is NULL");
    WANT("fix_loops", room == 0 || !args->weight == !args->out_weight,
         "weight or out_weight alone is NULL: wanted both or none");
    if (room > UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "fix_loops: %llu edges with the rows themselves: wanted less than 2^32",
                       (unsigned long long)room);
    return SL_OK;
}

int sl_check_gcn_scales(const struct sl_gcn_scales_args *args)
{
    const struct sl_csr_view *csr = &args->csr;
    SL_TRY(sl_check_csr("gcn_scales", csr));
    WANT("gcn_scales", csr->n_dst <= csr->n_src,
         "%u rows and %u sources: the rows are the first sources", csr->n_dst, csr->n_src);
    WANT("gcn_scales", csr->n_dst == 0 || args->row_scale, "row_scale is NULL");
    WANT("gcn_scales", csr->n_src == 0 || args->col_scale, "col_scale is NULL");
    return SL_OK;
}

int sl_check_block_diagonal(const float *a, uint32_t heads, uint32_t width, const float *matrix)
{
    SL_TRY(sl_check_heads("block_diagonal", heads, width));
    WANT("block_diagonal", a && matrix, "a or the matrix is NULL");
    return SL_OK;
}

int sl_check_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width, const float *a)
{
    SL_TRY(sl_check_heads("add_block_diagonal", heads, width));
    WANT("add_block_diagonal", a && matrix, "a or the matrix is NULL");
    return SL_OK;
}

int sl_check_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float beta,
                       const float *y)
{
    SL_TRY(sl_check_heads("sum_heads", heads, width));
    WANT("sum_heads", beta == 0.0f || beta == 1.0f, "beta is %g: wanted 0 or 1", (double)beta);
    WANT("sum_heads", rows == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width,
                          const float *y)
{
    SL_TRY(sl_check_heads("spread_heads", heads, width));
    WANT("spread_heads", rows == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_fill_sum(uint64_t n, const float *a, const float *y)
{
    WANT("fill_sum", a, "a is NULL");
    WANT("fill_sum", n == 0 || y, "y is NULL");
    return SL_OK;
}

int sl_check_add_scaled(uint64_t n, const float *a, const float *x, const float *y)
{
    WANT("add_scaled", a, "a is NULL");
    WANT("add_scaled", n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_add_dot(uint64_t n, const float *x, const float *y, const float *sum)
{
    WANT("add_dot", sum, "sum is NULL");
    WANT("add_dot", n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_maximum(uint64_t n, const float *x, const float *y)
{
    WANT("maximum", n == 0 || (x && y), "x or y is NULL");
    return SL_OK;
}

int sl_check_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                              const float *dmax, const float *dy)
{
    WANT("maximum_backward", layer < SL_MAXIMUM_LAYERS, "layer %u: wanted less than %d", layer,
         SL_MAXIMUM_LAYERS);
    WANT("maximum_backward", n == 0 || (h && max && dmax && dy), "an array is NULL");
    for (uint32_t l = 0; n > 0 && l <= layer; l++)
        WANT("maximum_backward", h[l], "the output of layer %u is NULL", l);
    return SL_OK;
}

int sl_check_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                           const float *mean, const float *variance, const float *scale,
                           const float *shift)
{
    WANT("running_scale", dim > 0, "rows of dimension 0");
    WANT("running_scale", eps >= 0.0f, "eps is %g: wanted at least 0", (double)eps);
    WANT("running_scale", gamma && beta && mean && variance && scale && shift, "an array is NULL");
    return SL_OK;
}

int sl_check_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                              const float *gamma, const float *mean, const float *variance,
                              const float *dy, const float *dgamma, const float *dbeta,
                              const float *dx)
{
    WANT("running_backward", dim > 0, "rows of dimension 0");
    WANT("running_backward", eps >= 0.0f, "eps is %g: wanted at least 0", (double)eps);
    WANT("running_backward", gamma && mean && variance && dgamma && dbeta, "an array is NULL");
    WANT("running_backward", rows == 0 || (x && dy && dx), "x, dy or dx is NULL");
    return SL_OK;
}

int sl_check_running_average(uint64_t n, const float *batch, const float *r)
{
    WANT("running_average", n == 0 || (batch && r), "batch or r is NULL");
    return SL_OK;
}
