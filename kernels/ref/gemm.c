#include "kernels/kernels_internal.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/half.h"

// `as`: SL_PRECISION_A or _B, which says how it is stored.
static double element(enum sl_precision precision, int as, enum sl_transpose trans, const void *x,
                      uint64_t ld, uint64_t i, uint64_t j)
{
    const enum sl_dtype stored = precision & as ? SL_DTYPE_BF16 : SL_DTYPE_F32;
    float v = sl_ref_load(x, stored, trans == SL_TRANS ? j * ld + i : i * ld + j);
    return sl_precision_kind(precision) == SL_PRECISION_BF16 ? sl_ref_round_bf16(v) : v;
}

int sl_ref_gemm(enum sl_precision precision, enum sl_transpose ta, enum sl_transpose tb, uint64_t m,
                uint64_t n, uint64_t k, float alpha, const void *a, uint64_t lda, const void *b,
                uint64_t ldb, float beta, float *c, uint64_t ldc, struct sl_mempool *ws)
{
    (void)ws;
    SL_TRY(sl_check_gemm(precision, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ws));
    // The sums of a part are made side by side, each in the order of l.
    enum { ROWS = 16, COLUMNS = 64 };
    for (uint64_t i0 = 0; i0 < m; i0 += ROWS)
        for (uint64_t j0 = 0; j0 < n; j0 += COLUMNS) {
            const uint64_t rows = SL_MIN(m - i0, (uint64_t)ROWS);
            const uint64_t columns = SL_MIN(n - j0, (uint64_t)COLUMNS);
            double sum[ROWS][COLUMNS] = {0}, y[COLUMNS] = {0};
            for (uint64_t l = 0; l < k; l++) {
                for (uint64_t j = 0; j < columns; j++)
                    y[j] = element(precision, SL_PRECISION_B, tb, b, ldb, l, j0 + j);
                for (uint64_t i = 0; i < rows; i++) {
                    const double x = element(precision, SL_PRECISION_A, ta, a, lda, i0 + i, l);
                    for (uint64_t j = 0; j < COLUMNS; j++)
                        sum[i][j] += x * y[j];
                }
            }
            for (uint64_t i = 0; i < rows; i++)
                for (uint64_t j = 0; j < columns; j++) {
                    // What c held is not read when beta is 0: it may be anything.
                    float *at = &c[(i0 + i) * ldc + j0 + j];
                    const double before = beta == 0.0f ? 0.0 : (double)beta * *at;
                    *at = (float)((double)alpha * sum[i][j] + before);
                }
        }
    return SL_OK;
}

int sl_ref_gemm_bias_act(const struct sl_gemm_bias_act_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_gemm_bias_act(args, ws));
    float *c = args->c ? args->c : sl_mempool_alloc(ws, args->m * args->ldc * sizeof *c);
    if (!c && args->m > 0)
        return sl_fail(SL_ENOMEM, "gemm: no memory for %llu rows", (unsigned long long)args->m);
    SL_TRY(sl_ref_gemm(sl_precision_first(args->precision), SL_NO_TRANS, SL_TRANS, args->m, args->n,
                       args->k, 1, args->a, args->lda, args->b, args->ldb, args->beta, c, args->ldc,
                       ws));
    if (args->k2 > 0)
        SL_TRY(sl_ref_gemm(sl_precision_second(args->precision), SL_NO_TRANS, SL_TRANS, args->m,
                           args->n, args->k2, 1, args->a2, args->lda2, args->b2, args->ldb2, 1, c,
                           args->ldc, ws));
    const uint64_t rows = args->ldc == args->n ? args->m : 1;
    for (uint64_t i = 0; args->n > 0 && i < args->m; i += rows)
        SL_TRY(sl_ref_bias_act(c + i * args->ldc, rows, (uint32_t)args->n, args->bias, args->act,
                               &args->dropout));
    for (uint64_t i = 0; args->c_bf16 && args->n > 0 && i < args->m; i++)
        SL_TRY(sl_ref_bias_act_bf16(c + i * args->ldc, 1, (uint32_t)args->n, NULL, SL_ACT_NONE,
                                    NULL, NULL, args->c_bf16 + i * args->ldc_bf16, args->ldc_bf16));
    return SL_OK;
}

int sl_ref_weight_gradients(const struct sl_weight_gradients_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_weight_gradients(args, ws));
    const struct sl_bias_act_gradient *before = &args->before;
    if (sl_gradient_changes(before) && args->m > 0)
        SL_TRY(sl_ref_bias_act_backward(args->a, before->y, before->y_bf16_ld, args->k,
                                        (uint32_t)args->m, before->act, &before->dropout,
                                        before->dbias));
    for (int i = 0; i < 2; i++) {
        const struct sl_weight_gradient *of = &args->of[i];
        SL_TRY(sl_ref_gemm(i ? sl_precision_second(args->precision)
                             : sl_precision_first(args->precision),
                           SL_TRANS, SL_NO_TRANS, args->m, of->n, args->k, 1, args->a, args->lda,
                           of->b, of->ldb, 1, of->c, of->ldc, ws));
    }
    return SL_OK;
}
