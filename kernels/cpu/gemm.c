/*
 * Matrix products: gemm_blocks.c for f32, and for operands rounded to bf16: as pairs where the
 * processor multiplies such, as f32 numbers elsewhere.
 *
 * An element's bits depend on its row of a, its column of b and k: not on the number of rows beside
 * it, nor on the number of threads.
 */
#include "kernels/kernels_internal.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { ADD_FLOATS = 1 << 14 }; // fewer are not worth a thread

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
    return sl_isa() >= SL_ISA_AMX ? SL_CPU_BF16_AMX : SL_CPU_BF16_PAIRS;
}

SL_SIMD_VOID(add_row, (float *to, const float *from, uint64_t n), (to, from, n))
{
    for (uint64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void add_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct sl_cpu_segments *s = context;
    for (uint64_t i = begin; i < end; i++)
        for (uint64_t segment = 1; segment < s->segments; segment++)
            add_row(s->c + i * s->ldc, s->sums + ((segment - 1) * s->m + i) * s->n, s->n);
}

void sl_cpu_gemm_add_segments(struct sl_cpu_segments *s)
{
    if (s->segments > 1 && s->n > 0)
        sl_cpu_parallel_range(s->m, SL_MAX(ADD_FLOATS / s->n, 1), 1, add_rows, s);
}

SL_SIMD_VOID(clear_rows, (float *c, uint64_t m, uint64_t n, uint64_t ldc), (c, m, n, ldc))
{
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++)
            c[i * ldc + j] = 0.0f;
}

// What is packed is over when the product is.
static int multiply(enum sl_precision precision, struct sl_cpu_gemm *g, struct sl_mempool *ws)
{
    const struct sl_mempool_mark before = sl_mempool_mark(ws);
    if (g->m == 0 || g->n == 0)
        return SL_OK;
    if (g->of[0].k == 0) {
        g->of[0] = g->of[1];
        g->of[1].k = 0;
    }
    enum sl_cpu_words words = SL_CPU_WORDS_F32;
    if (sl_precision_kind(precision) == SL_PRECISION_BF16)
        words = sl_cpu_gemm_bf16_path() == SL_CPU_BF16_ROUNDED ? SL_CPU_WORDS_ROUNDED
                                                               : SL_CPU_WORDS_PAIRS;
    const bool adds = g->of[0].k > 0 && g->alpha != 0.0f;
    const bool lasts = !g->c && !(adds && sl_cpu_gemm_fits_blocks(words, g));
    if (lasts)
        g->c = sl_mempool_alloc(ws, g->m * g->ldc * sizeof *g->c);
    if (lasts && !g->c)
        return sl_fail(SL_ENOMEM, "gemm: no memory for %llu rows of sums",
                       (unsigned long long)g->m);
    int rc = SL_OK;
    if (adds) {
        rc = sl_cpu_gemm_blocks(words, g, ws);
    } else {
        if (g->beta == 0.0f)
            clear_rows(g->c, g->m, g->n, g->ldc);
        if (g->after)
            sl_cpu_epilogue_pass(g->after, g->m, g->c, g->ldc);
    }
    sl_mempool_release(ws, before);
    return rc;
}

// Those of f32 become bf16 while they are packed, which takes no pass of its own.
static struct sl_cpu_operands operands(enum sl_precision precision, uint64_t k, const void *a,
                                       uint64_t lda, const void *b, uint64_t ldb)
{
    return (struct sl_cpu_operands){
        .k = k,
        .a = a,
        .b = b,
        .lda = lda,
        .ldb = ldb,
        .a_bf16 = (precision & SL_PRECISION_A) != 0,
        .b_bf16 = (precision & SL_PRECISION_B) != 0,
    };
}

int sl_cpu_gemm(enum sl_precision precision, enum sl_transpose ta, enum sl_transpose tb, uint64_t m,
                uint64_t n, uint64_t k, float alpha, const void *a, uint64_t lda, const void *b,
                uint64_t ldb, float beta, float *c, uint64_t ldc, struct sl_mempool *ws)
{
    SL_TRY(sl_check_gemm(precision, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ws));
    struct sl_cpu_gemm g = {.ta = ta,
                            .tb = tb,
                            .m = m,
                            .n = n,
                            .of = {operands(precision, k, a, lda, b, ldb)},
                            .alpha = alpha,
                            .beta = beta,
                            .c = c,
                            .ldc = ldc};
    return multiply(precision, &g, ws);
}

int sl_cpu_gemm_bias_act(const struct sl_gemm_bias_act_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_gemm_bias_act(args, ws));
    const struct sl_cpu_epilogue after = {
        .dim = (uint32_t)args->n,
        .bias = args->bias,
        .act = args->act,
        .dropout = sl_cpu_dropout_is_on(&args->dropout) ? &args->dropout : NULL,
        .rounded = args->c_bf16,
        .rounded_ld = args->ldc_bf16};
    struct sl_cpu_gemm g = {
        .ta = SL_NO_TRANS,
        .tb = SL_TRANS,
        .m = args->m,
        .n = args->n,
        .of = {operands(args->precision, args->k, args->a, args->lda, args->b, args->ldb),
               operands(sl_precision_second(args->precision), args->k2, args->a2, args->lda2,
                        args->b2, args->ldb2)},
        .alpha = 1,
        .beta = args->beta,
        .c = args->c,
        .ldc = args->ldc,
        .after = &after};
    return multiply(args->precision, &g, ws);
}

int sl_cpu_weight_gradients(const struct sl_weight_gradients_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_weight_gradients(args, ws));
    const struct sl_weight_gradient *of = args->of;
    const bool apart = of[0].n == 0 || args->m == 0 || args->k == 0;
    struct sl_cpu_prologue before = {
        .dy = args->a, .rows = args->k, .dim = (uint32_t)args->m, .of = args->before};
    const bool changes = sl_gradient_changes(&args->before) && args->m > 0 && args->k > 0;
    if (apart && changes)
        sl_cpu_prologue_pass(&before);
    for (int i = 0; apart && i < 2; i++)
        SL_TRY(sl_cpu_gemm(i ? sl_precision_second(args->precision)
                             : sl_precision_first(args->precision),
                           SL_TRANS, SL_NO_TRANS, args->m, of[i].n, args->k, 1, args->a, args->lda,
                           of[i].b, of[i].ldb, 1, of[i].c, of[i].ldc, ws));
    if (apart)
        return SL_OK;
    struct sl_cpu_gemm g = {
        .ta = SL_TRANS,
        .tb = SL_NO_TRANS,
        .m = args->m,
        .n = of[0].n,
        .of = {operands(args->precision, args->k, args->a, args->lda, of[0].b, of[0].ldb)},
        .alpha = 1,
        .beta = 1,
        .c = of[0].c,
        .ldc = of[0].ldc,
        .before = changes ? &before : NULL,
        .twin = of[1],
        .twin_bf16 = (args->precision & SL_PRECISION_B2) != 0};
    return multiply(args->precision, &g, ws);
}
