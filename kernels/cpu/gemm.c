/*
 * Matrix products: gemm_blocks.c for f32, and for operands rounded to bf16: as pairs where the
 * processor multiplies such, as f32 numbers elsewhere. With AMX these go to gemm_amx.c.
 *
 * An element's bits depend on its row of a, its column of b and k: not on the number of rows beside
 * it, nor on the number of threads.
 */
#include "kernels/kernels_internal.h"

#include <stdatomic.h>

#include "common/base/error.h"
#include "common/base/isa.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

static _Atomic int forced_path = SL_CPU_BF16_AUTO;

void sl_cpu_gemm_set_bf16_path(enum sl_cpu_bf16_path path)
{
    atomic_store_explicit(&forced_path, (int)path, memory_order_relaxed);
}

enum sl_cpu_bf16_path sl_cpu_gemm_bf16_path(void)
{
    int path = atomic_load_explicit(&forced_path, memory_order_relaxed);
    if (path != SL_CPU_BF16_AUTO)
        return (enum sl_cpu_bf16_path)path;
    if (!sl_isa_has_bf16())
        return SL_CPU_BF16_ROUNDED;
    return sl_isa() >= SL_ISA_AMX ? SL_CPU_BF16_STRIPS : SL_CPU_BF16_PAIRS;
}

SL_SIMD_VOID(clear_rows, (float *c, uint64_t m, uint64_t n, uint64_t ldc), (c, m, n, ldc))
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
    enum sl_cpu_words words = SL_CPU_WORDS_F32;
    if (precision == SL_PRECISION_BF16) {
        const enum sl_cpu_bf16_path path = sl_cpu_gemm_bf16_path();
        if (path == SL_CPU_BF16_STRIPS)
            return sl_cpu_gemm_strips(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ws);
        words = path == SL_CPU_BF16_PAIRS ? SL_CPU_WORDS_PAIRS : SL_CPU_WORDS_ROUNDED;
    }
    return sl_cpu_gemm_blocks(words, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ws);
}

// One more pass over c, so that evaluation has the bits of training's gemm and bias_act.
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
