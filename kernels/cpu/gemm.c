/*
 * Matrix products: oneDNN's sgemm for f32; gemm_bf16.c for operands rounded to bf16.
 *
 * oneDNN splits the reduction over threads when the result is small and the reduction long (weight
 * gradients), so bits depend on the number of threads, but not on anything else.
 */
#include "kernels/kernels_internal.h"

#include <dnnl.h>
#include <omp.h>

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

// oneDNN takes as many threads as OpenMP would give this thread's next parallel region.
static void adopt_threads(void)
{
    int threads = sl_cpu_threads();
    if (omp_get_max_threads() != threads)
        omp_set_num_threads(threads);
}

int sl_cpu_gemm_f32(enum sl_transpose ta, enum sl_transpose tb, uint64_t m, uint64_t n, uint64_t k,
                    float alpha, const float *a, uint64_t lda, const float *b, uint64_t ldb,
                    float beta, float *c, uint64_t ldc)
{
    dnnl_status_t status = dnnl_sgemm(
        ta == SL_TRANS ? 'T' : 'N', tb == SL_TRANS ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n,
        (dnnl_dim_t)k, alpha, a, (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, beta, c, (dnnl_dim_t)ldc);
    if (status != dnnl_success)
        return sl_fail(status == dnnl_out_of_memory ? SL_ENOMEM : SL_EFAILED,
                       "gemm: oneDNN sgemm of %llu x %llu x %llu: status %d", (unsigned long long)m,
                       (unsigned long long)n, (unsigned long long)k, (int)status);
    return SL_OK;
}

SL_SIMD static void clear_rows(float *c, uint64_t m, uint64_t n, uint64_t ldc)
{
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++)
            c[i * ldc + j] = 0.0f;
}

int sl_cpu_gemm(enum sl_precision precision, enum sl_transpose ta, enum sl_transpose tb, uint64_t m,
                uint64_t n, uint64_t k, float alpha, const float *a, uint64_t lda, const float *b,
                uint64_t ldb, float beta, float *c, uint64_t ldc, struct sl_mempool *ws)
{
    SL_TRY(sl_check_gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc));
    if (m == 0 || n == 0)
        return SL_OK;
    if (k == 0 || alpha == 0.0f) {
        if (beta == 0.0f)
            clear_rows(c, m, n, ldc);
        return SL_OK;
    }
    adopt_threads();
    if (precision == SL_PRECISION_BF16)
        return sl_cpu_gemm_bf16(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ws);
    return sl_cpu_gemm_f32(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// One more pass over c: oneDNN's matmul with post-operations gives other bits than its sgemm, and
// training goes the way of gemm and bias_act.
int sl_cpu_gemm_bias_act(const struct sl_gemm_bias_act_args *args, struct sl_mempool *ws)
{
    static const struct sl_dropout NONE;
    SL_TRY(sl_check_gemm_bias_act(args));
    SL_TRY(sl_cpu_gemm(args->precision, SL_NO_TRANS, SL_TRANS, args->m, args->n, args->k, 1,
                       args->a, args->lda, args->b, args->ldb, args->beta, args->c, args->ldc, ws));
    if (args->m == 0 || args->n == 0 || (!args->bias && args->act == SL_ACT_NONE))
        return SL_OK;
    if (args->ldc == args->n)
        return sl_cpu_bias_act(args->c, args->m, (uint32_t)args->n, args->bias, args->act, &NONE);
    for (uint64_t i = 0; i < args->m; i++)
        SL_TRY(sl_cpu_bias_act(args->c + i * args->ldc, 1, (uint32_t)args->n, args->bias, args->act,
                               &NONE));
    return SL_OK;
}
