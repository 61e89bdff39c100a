// gemm, and the passes over activations and parameters.
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
    struct gemm bf16 = f32, rounded = f32, strips = f32;
    bf16.precision = rounded.precision = strips.precision = SL_PRECISION_BF16;
    rounded.path = SL_CPU_BF16_ROUNDED;
    strips.path = SL_CPU_BF16_STRIPS;
    double flops = 2.0 * (double)m * (double)n * (double)k;
    struct perf_run runs[] = {
        {"dnnl_sgemm", run_sgemm, &f32, flops, "GFLOP/s", 1e9, NULL, 0},
        {"gemm f32", run_gemm, &f32, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
        {"gemm bf16", run_gemm, &bf16, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
        {"gemm bf16, operands rounded", run_gemm, &rounded, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
        {"gemm bf16, oneDNN in strips", run_gemm, &strips, flops, "GFLOP/s", 1e9, "dnnl_sgemm", 0},
    };
    char title[128];
    snprintf(title, sizeof title, "gemm: %s, %llu x %llu x %llu %c%c", what, (unsigned long long)m,
             (unsigned long long)n, (unsigned long long)k, ta ? 'T' : 'N', tb ? 'T' : 'N');
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
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

// ---- passes over memory -------------------------------------------------------------------------

struct pass {
    struct perf *p;
    float *y, *x;
    const float *bias;
    float *dbias;
    uint64_t rows;
    uint32_t dim;
    enum sl_activation act;
    const struct sl_dropout *dropout;
    const int32_t *labels;
};

static void run_bias_act(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->bias_act(c->y, c->rows, c->dim, c->bias, c->act, c->dropout));
}

static void run_bias_act_backward(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->bias_act_backward(c->x, c->y, 0, c->rows, c->dim, c->act,
                                                      c->dropout, c->dbias));
}

static void run_dropout(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->dropout(c->y, c->rows, c->dim, c->dropout));
}

static void run_dropout_avx2(void *context)
{
    sl_cpu_philox_set_path(SL_CPU_PHILOX_AVX2);
    run_dropout(context);
    sl_cpu_philox_set_path(SL_CPU_PHILOX_AUTO);
}

static void run_dropout_plain(void *context)
{
    sl_cpu_philox_set_path(SL_CPU_PHILOX_PLAIN);
    run_dropout(context);
    sl_cpu_philox_set_path(SL_CPU_PHILOX_AUTO);
}

static const struct sl_dropout half_dropped = {.rate = 0.5f, .seed = 7};

static struct pass make_pass(struct perf *p, uint64_t rows, uint32_t dim)
{
    struct pass c = {.p = p, .rows = rows, .dim = dim};
    c.y = perf_alloc(p, rows * dim * sizeof(float));
    c.x = perf_alloc(p, rows * dim * sizeof(float));
    c.bias = perf_floats(p, dim);
    c.dbias = perf_floats(p, dim);
    return c;
}

void perf_bias_act(struct perf *p)
{
    struct pass plain = make_pass(p, 100000, 256), relu = plain, masked = plain, linear = plain,
                elu = plain;
    elu.act = SL_ACT_ELU;
    relu.act = masked.act = SL_ACT_RELU;
    masked.dropout = linear.dropout = &half_dropped;
    double bytes = 8.0 * (double)plain.rows * plain.dim;
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        {"bias", run_bias_act, &plain, bytes, "GB/s", 1e9, "copy", 0},
        {"bias, relu", run_bias_act, &relu, bytes, "GB/s", 1e9, "copy", 0},
        {"bias, elu", run_bias_act, &elu, bytes, "GB/s", 1e9, "copy", 0},
        {"bias, relu, dropout", run_bias_act, &masked, bytes, "GB/s", 1e9, "copy", 0},
        {"backward, relu, dropout", run_bias_act_backward, &masked, 1.5 * bytes, "GB/s", 1e9,
         "copy", 0},
        {"backward, dropout, no relu", run_bias_act_backward, &linear, bytes, "GB/s", 1e9, "copy",
         0},
    };
    perf_measure(p, "bias_act: 100000 x 256 in place (bytes read + written)", runs,
                 SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_dropout(struct perf *p)
{
    struct pass c = make_pass(p, 100000, 256);
    c.dropout = &half_dropped;
    double bytes = 8.0 * (double)c.rows * c.dim;
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        {"dropout", run_dropout, &c, bytes, "GB/s", 1e9, "copy", 0},
        {"dropout, Philox in AVX2", run_dropout_avx2, &c, bytes, "GB/s", 1e9, "copy", 0},
        {"dropout, Philox in plain C", run_dropout_plain, &c, bytes, "GB/s", 1e9, "copy", 0},
    };
    perf_measure(p, "dropout: 100000 x 256 in place (bytes read + written)", runs,
                 SL_COUNT_OF(runs));
    perf_release(p);
}

static void run_xent(void *context)
{
    const struct pass *c = context;
    struct sl_loss_result result;
    perf_check(c->p,
               c->p->kernels->softmax_xent(c->y, c->labels, c->rows, c->dim, NULL, c->x, &result));
}

void perf_softmax_xent(struct perf *p)
{
    static const uint32_t classes[] = {7, 47, 172};
    for (size_t i = 0; i < SL_COUNT_OF(classes); i++) {
        uint64_t rows = 4000000 / classes[i];
        struct pass c = make_pass(p, rows, classes[i]);
        c.labels = (const int32_t *)perf_ids(p, rows, classes[i]);
        struct perf_run runs[] = {
            perf_copy_ceiling(p),
            {"softmax_xent", run_xent, &c, 8.0 * (double)rows * classes[i], "GB/s", 1e9, "copy", 0},
        };
        char title[96];
        snprintf(title, sizeof title, "softmax_xent: %llu x %u (bytes read + written)",
                 (unsigned long long)rows, classes[i]);
        perf_measure(p, title, runs, SL_COUNT_OF(runs));
        perf_release(p);
    }
}

// ---- updates ------------------------------------------------------------------------------------

enum { N_PARAMETERS = 8 << 20, N_SLOTS = 4 };

struct update {
    struct perf *p;
    const float *slots[N_SLOTS];
    float *in[3], *out[3];
};

static void run_reduce(void *context)
{
    const struct update *u = context;
    perf_check(u->p, u->p->kernels->reduce(u->slots, N_SLOTS, N_PARAMETERS, 0.5f, u->out[0]));
}

static void run_adam(void *context)
{
    const struct update *u = context;
    struct sl_adam_step step = {.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .t = 3};
    uint32_t broken = 0;
    perf_check(u->p, u->p->kernels->adam(&step, N_PARAMETERS, u->slots[0], u->in[0], u->in[1],
                                         u->in[2], u->out[0], u->out[1], u->out[2], &broken));
}

static void run_sgd(void *context)
{
    const struct update *u = context;
    struct sl_sgd_step step = {.lr = 0.01f, .momentum = 0.9f};
    uint32_t broken = 0;
    perf_check(u->p, u->p->kernels->sgd(&step, N_PARAMETERS, u->slots[0], u->in[0], u->in[1],
                                        u->out[0], u->out[1], &broken));
}

static void update_case(struct perf *p, const char *name, void (*run)(void *), int n_arrays)
{
    // One array behind the other as on a parameter board, not each on a page boundary of its own:
    // seven streams at the same offset in their pages would evict each other.
    enum { SKEW = 1088, STRIDE = N_PARAMETERS + SKEW };
    struct update u = {.p = p};
    float *slots = perf_floats(p, (size_t)N_SLOTS * STRIDE);
    float *state = perf_alloc(p, (size_t)6 * STRIDE * sizeof(float)); // zeros: v is not negative
    for (int i = 0; i < N_SLOTS; i++)
        u.slots[i] = slots + (size_t)i * STRIDE;
    for (int i = 0; i < 3; i++) {
        u.in[i] = state + (size_t)i * STRIDE;
        u.out[i] = state + (size_t)(i + 3) * STRIDE;
    }
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        {name, run, &u, 4.0 * n_arrays * N_PARAMETERS, "GB/s", 1e9, "copy", 0},
    };
    char title[96];
    snprintf(title, sizeof title, "%s: %d parameters, %d arrays (bytes read + written)", name,
             N_PARAMETERS, n_arrays);
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_reduce(struct perf *p)
{
    update_case(p, "reduce", run_reduce, N_SLOTS + 1);
}

void perf_adam(struct perf *p)
{
    update_case(p, "adam", run_adam, 7);
}

void perf_sgd(struct perf *p)
{
    update_case(p, "sgd", run_sgd, 5);
}
