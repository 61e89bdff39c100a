// Products on cores, beside oneDNN alone.
#include "tests/bench/kernels/perf.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "kernels/cpu/cpu_internal.h"

// ---- gemm ---------------------------------------------------------------------------------------

struct gemm {
    struct perf *p;
    enum sl_precision precision;
    enum sl_cpu_bf16_path path;
    int ta, tb;
    uint64_t m, n, k, lda, ldb;
    const float *a, *b;
    float *c;
};

static void run_gemm(void *context)
{
    struct gemm *g = context;
    sl_mempool_reset(&g->p->ws);
    sl_cpu_gemm_set_bf16_path(g->path);
    perf_check(g->p, g->p->kernels->gemm(g->precision, g->ta ? SL_TRANS : SL_NO_TRANS,
                                         g->tb ? SL_TRANS : SL_NO_TRANS, g->m, g->n, g->k, 1.0f,
                                         g->a, g->lda, g->b, g->ldb, 0.0f, g->c, g->n, &g->p->ws));
    sl_cpu_gemm_set_bf16_path(SL_CPU_BF16_AUTO);
}

static void run_sgemm(void *context)
{
    const struct gemm *g = context;
    omp_set_num_threads(g->p->threads);
    dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', (dnnl_dim_t)g->m, (dnnl_dim_t)g->n,
               (dnnl_dim_t)g->k, 1.0f, g->a, (dnnl_dim_t)g->lda, g->b, (dnnl_dim_t)g->ldb, 0.0f,
               g->c, (dnnl_dim_t)g->n);
}

static void gemm_case(struct perf *p, const char *what, uint64_t m, uint64_t n, uint64_t k, int ta,
                      int tb)
{
    struct gemm f32 = {.p = p,
                       .precision = SL_PRECISION_F32,
                       .ta = ta,
                       .tb = tb,
                       .m = m,
                       .n = n,
                       .k = k,
                       .lda = ta ? m : k,
                       .ldb = tb ? k : n};
    f32.a = perf_floats(p, m * k);
    f32.b = perf_floats(p, k * n);
    f32.c = perf_alloc(p, m * n * sizeof(float));
    struct gemm bf16 = f32, rounded = f32, pairs = f32;
    bf16.precision = rounded.precision = pairs.precision = SL_PRECISION_BF16;
    rounded.path = SL_CPU_BF16_ROUNDED;
    pairs.path = SL_CPU_BF16_PAIRS;
    double flops = 2.0 * (double)m * (double)n * (double)k;
    struct perf_run runs[] = {
        {"dnnl_sgemm", run_sgemm, &f32, flops, "GFLOP/s", 1e9, NULL, 0},
        {"gemm f32", run_gemm, &f32, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
        {"gemm bf16", run_gemm, &bf16, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
        {"gemm bf16, operands rounded", run_gemm, &rounded, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
        {"gemm bf16, pairs", run_gemm, &pairs, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "gemm: %s, %llu x %llu x %llu %c%c", what,
                 (unsigned long long)m, (unsigned long long)n, (unsigned long long)k,
                 ta ? 'T' : 'N', tb ? 'T' : 'N');
    perf_release(p);
}

// What the first product of a process costs beyond the product: engine, code generation.
static void gemm_start(struct perf *p)
{
    struct gemm g = {.p = p, .tb = 1, .m = 64, .n = 64, .k = 64, .lda = 64, .ldb = 64};
    g.a = perf_floats(p, 64 * 64);
    g.b = perf_floats(p, 64 * 64);
    g.c = perf_alloc(p, 64 * 64 * sizeof(float));
    static const char *const names[] = {"f32", "bf16"};
    printf("\ngemm: the first call of the process (64 x 64 x 64)\n");
    for (int i = 0; i < 2; i++) {
        g.precision = i ? SL_PRECISION_BF16 : SL_PRECISION_F32;
        uint64_t before = sl_now_ns();
        run_gemm(&g);
        printf("  %-34s %9.3f ms\n", names[i], (double)(sl_now_ns() - before) * 1e-6);
    }
    perf_release(p);
}

void perf_gemm(struct perf *p)
{
    gemm_start(p);
    gemm_case(p, "forward, hidden layer", 50000, 256, 256, 0, 1);
    gemm_case(p, "forward, input layer", 50000, 256, 128, 0, 1);
    gemm_case(p, "input gradient", 50000, 256, 256, 0, 0);
    gemm_case(p, "weight gradient", 256, 256, 50000, 1, 0);
    gemm_case(p, "weight gradient, input layer", 256, 128, 50000, 1, 0);
    gemm_case(p, "output layer", 1024, 47, 256, 0, 1);
    gemm_case(p, "output layer of many rows", 50000, 40, 256, 0, 1);
    gemm_case(p, "weight gradient, output layer", 47, 256, 1024, 1, 0);
    gemm_case(p, "weight gradient, output layer of many rows", 47, 256, 50000, 1, 0);
}
