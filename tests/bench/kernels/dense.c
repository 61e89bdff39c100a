// Products on a device; passes over activations and parameters, on cores too.
#include "tests/bench/kernels/gpu.h"

#include <stdio.h>

#include "common/base/bits.h"

// ---- gemm ---------------------------------------------------------------------------------------

struct gemm {
    struct perf *p;
    enum sl_precision precision;
    uint64_t m, n, k;
    bool ta, tb;
    const float *a, *b;
    float *c;
};

static void run_gemm(void *context)
{
    const struct gemm *g = context;
    sl_mempool_reset(&g->p->ws);
    perf_check(g->p, g->p->kernels->gemm(g->precision, g->ta ? SL_TRANS : SL_NO_TRANS,
                                         g->tb ? SL_TRANS : SL_NO_TRANS, g->m, g->n, g->k, 1.0f,
                                         g->a, g->ta ? g->m : g->k, g->b, g->tb ? g->k : g->n, 0.0f,
                                         g->c, g->n, &g->p->ws));
}

// Each precision: by cuBLASLt, or with SLUICE_CUBLAS=none by the plug-in's own kernel.
static void gemm_case(struct perf *p, const char *what, uint64_t m, uint64_t n, uint64_t k, bool ta,
                      bool tb)
{
    struct gemm f32 = {p, SL_PRECISION_F32, m, n, k, ta, tb, NULL, NULL, NULL};
    f32.a = perf_gpu_floats(p, m * k);
    f32.b = perf_gpu_floats(p, k * n);
    f32.c = perf_gpu_alloc(p, m * n * sizeof(float));
    struct gemm tf32 = f32, bf16 = f32;
    tf32.precision = SL_PRECISION_TF32;
    bf16.precision = SL_PRECISION_BF16;
    double flops = 2.0 * (double)m * (double)n * (double)k;
    struct perf_run runs[] = {
        perf_bytes("gemm f32", run_gemm, &f32, flops, NULL),
        perf_bytes("gemm tf32", run_gemm, &tf32, flops, "gemm f32"),
        perf_bytes("gemm bf16", run_gemm, &bf16, flops, "gemm f32"),
    };
    for (size_t i = 0; i < SL_COUNT_OF(runs); i++)
        runs[i].unit = "GFLOP/s";
    perf_measure(p, runs, SL_COUNT_OF(runs), "gemm: %s, %llu x %llu x %llu %c%c", what,
                 (unsigned long long)m, (unsigned long long)n, (unsigned long long)k,
                 ta ? 'T' : 'N', tb ? 'T' : 'N');
    perf_release(p);
}

void perf_gpu_gemm(struct perf *p)
{
    uint64_t rows = perf_size(p, 50000, 70), dim = perf_size(p, 256, 40);
    gemm_case(p, "forward", rows, dim, dim, false, true);
    gemm_case(p, "gradient of the rows", rows, dim, dim, false, false);
    gemm_case(p, "gradient of the weights", dim, dim, rows, true, false);
    gemm_case(p, "last layer", perf_size(p, 8000, 30), 47, dim, false, true);
}

// ---- passes -------------------------------------------------------------------------------------

struct pass {
    struct perf *p;
    uint64_t rows;
    uint32_t dim;
    float *x, *y, *z;                     // (rows, dim)
    float *gamma, *beta, *dgamma, *dbeta; // (dim)
    float *mean, *inverse;                // (rows)
    const int32_t *labels;                // (rows)
    enum sl_activation act;
    const struct sl_dropout *dropout;
};

static const struct sl_dropout half_dropped = {.rate = 0.5f, .seed = 7};

static struct pass make_pass(struct perf *p, uint64_t rows, uint32_t dim)
{
    struct pass c = {.p = p, .rows = rows, .dim = dim};
    float **big[] = {&c.x, &c.y, &c.z}, **columns[] = {&c.gamma, &c.beta, &c.dgamma, &c.dbeta};
    for (size_t i = 0; i < SL_COUNT_OF(big); i++)
        *big[i] = perf_gpu_floats(p, rows * dim);
    for (size_t i = 0; i < SL_COUNT_OF(columns); i++)
        *columns[i] = perf_gpu_floats(p, dim);
    c.mean = perf_gpu_floats(p, SL_MAX(rows, dim));
    c.inverse = perf_gpu_floats(p, SL_MAX(rows, dim));
    return c;
}

static void run_bias_act(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->bias_act(c->y, c->rows, c->dim, c->gamma, c->act, c->dropout));
}

static void run_bias_act_backward(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->bias_act_backward(c->y, c->x, 0, c->rows, c->dim, c->act,
                                                      c->dropout, c->dbeta));
}

static void run_dropout(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->dropout(c->y, c->rows, c->dim, c->dropout));
}

void perf_bias_act(struct perf *p)
{
    struct pass plain = make_pass(p, perf_size(p, 200000, 20), 256), masked = plain, elu = plain;
    plain.act = masked.act = SL_ACT_RELU;
    elu.act = SL_ACT_ELU;
    masked.dropout = &half_dropped;
    double one = 4.0 * (double)plain.rows * plain.dim;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("bias, relu", run_bias_act, &plain, 2 * one, "copy"),
        perf_bytes("bias, elu", run_bias_act, &elu, 2 * one, "copy"),
        perf_bytes("bias, relu, dropout", run_bias_act, &masked, 2 * one, "copy"),
        perf_bytes("backward, relu", run_bias_act_backward, &plain, 3 * one, "copy"),
        perf_bytes("backward, relu, dropout", run_bias_act_backward, &masked, 3 * one, "copy"),
        perf_bytes("dropout", run_dropout, &masked, 2 * one, "copy"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "bias_act: %llu x %u in place (bytes read + written)",
                 (unsigned long long)plain.rows, plain.dim);
    perf_release(p);
}

// ---- losses -------------------------------------------------------------------------------------

static void run_xent(void *context)
{
    const struct pass *c = context;
    struct sl_loss_result result;
    perf_check(c->p,
               c->p->kernels->softmax_xent(c->x, c->labels, c->rows, c->dim, NULL, c->y, &result));
}

static void run_bce(void *context)
{
    const struct pass *c = context;
    struct sl_loss_result result;
    perf_check(c->p, c->p->kernels->sigmoid_bce(c->x, c->z, c->rows, c->dim, NULL, c->y, &result));
}

static void run_square(void *context)
{
    const struct pass *c = context;
    struct sl_loss_result result;
    perf_check(c->p, c->p->kernels->squared_error(c->x, c->z, c->rows, c->dim, c->y, &result));
}

// A loss is there on return: each of these calls waits for the device.
static void loss_case(struct perf *p, uint64_t rows, uint32_t classes)
{
    struct pass c = make_pass(p, rows, classes);
    c.labels = (const int32_t *)perf_gpu_ids(p, rows, classes);
    perf_check(p, p->device->fill(c.z, 0, rows * classes * sizeof(float))); // targets, 0 to 1
    double one = 4.0 * (double)rows * classes;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("softmax_xent", run_xent, &c, 2 * one, "copy"),
        perf_bytes("sigmoid_bce", run_bce, &c, 3 * one, "copy"),
        perf_bytes("squared_error", run_square, &c, 3 * one, "copy"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "losses: %llu x %u (bytes read + written)",
                 (unsigned long long)rows, classes);
    perf_release(p);
}

void perf_loss(struct perf *p)
{
    loss_case(p, perf_size(p, 8000, 20), 47); // a batch
    loss_case(p, perf_size(p, 400000, 40), 47);
    loss_case(p, perf_size(p, 100000, 20), 172);
}

// ---- normalisation ------------------------------------------------------------------------------

static struct sl_norm_args norm_args(const struct pass *c)
{
    return (struct sl_norm_args){.rows = c->rows,
                                 .dim = c->dim,
                                 .eps = 1e-5f,
                                 .x = c->x,
                                 .gamma = c->gamma,
                                 .beta = c->beta,
                                 .y = c->y,
                                 .mean = c->mean,
                                 .inverse = c->inverse};
}

static struct sl_norm_grad_args norm_grad_args(const struct pass *c)
{
    return (struct sl_norm_grad_args){.rows = c->rows,
                                      .dim = c->dim,
                                      .x = c->x,
                                      .gamma = c->gamma,
                                      .mean = c->mean,
                                      .inverse = c->inverse,
                                      .dy = c->z,
                                      .dx = c->y,
                                      .dgamma = c->dgamma,
                                      .dbeta = c->dbeta};
}

static void run_batch_norm(void *context)
{
    const struct pass *c = context;
    struct sl_norm_args args = norm_args(c);
    args.variance = c->dgamma;
    sl_mempool_reset(&c->p->ws);
    perf_check(c->p, c->p->kernels->batch_norm(&args, &c->p->ws));
}

static void run_batch_norm_backward(void *context)
{
    const struct pass *c = context;
    const struct sl_norm_grad_args args = norm_grad_args(c);
    sl_mempool_reset(&c->p->ws);
    perf_check(c->p, c->p->kernels->batch_norm_backward(&args, &c->p->ws));
}

static void run_layer_norm(void *context)
{
    const struct pass *c = context;
    const struct sl_norm_args args = norm_args(c);
    perf_check(c->p, c->p->kernels->layer_norm(&args));
}

static void run_layer_norm_backward(void *context)
{
    const struct pass *c = context;
    const struct sl_norm_grad_args args = norm_grad_args(c);
    sl_mempool_reset(&c->p->ws);
    perf_check(c->p, c->p->kernels->layer_norm_backward(&args, &c->p->ws));
}

static void run_normalize(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->normalize_rows(c->x, c->rows, c->dim, c->y, c->inverse));
}

static void run_normalize_backward(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->normalize_rows_backward(c->x, c->y, c->inverse, c->rows, c->dim,
                                                            c->z));
}

static void run_scale_columns(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->scale_columns(c->y, c->rows, c->dim, c->mean, c->inverse));
}

static void run_sum_squares(void *context)
{
    const struct pass *c = context;
    double sum;
    perf_check(c->p, c->p->kernels->sum_squares(c->rows * c->dim, c->x, &sum));
}

// Arrays are counted as often as a kernel that keeps nothing reads them: x twice in batch_norm.
void perf_norm(struct perf *p)
{
    struct pass c = make_pass(p, perf_size(p, 200000, 20), 256);
    double one = 4.0 * (double)c.rows * c.dim;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("batch_norm", run_batch_norm, &c, 3 * one, "copy"),
        perf_bytes("batch_norm_backward", run_batch_norm_backward, &c, 5 * one, "copy"),
        perf_bytes("layer_norm", run_layer_norm, &c, 2 * one, "copy"),
        perf_bytes("layer_norm_backward", run_layer_norm_backward, &c, 3 * one, "copy"),
        perf_bytes("normalize_rows", run_normalize, &c, 2 * one, "copy"),
        perf_bytes("normalize_rows_backward", run_normalize_backward, &c, 3 * one, "copy"),
        perf_bytes("scale_columns", run_scale_columns, &c, 2 * one, "copy"),
        perf_bytes("sum_squares", run_sum_squares, &c, one, "copy"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "normalisation: %llu x %u (bytes read + written)",
                 (unsigned long long)c.rows, c.dim);
    perf_release(p);
}

// ---- updates ------------------------------------------------------------------------------------

enum { N_SLOTS = 4 };

struct update {
    struct perf *p;
    uint64_t n;
    const float *slots[N_SLOTS];
    float *in[3], *out[3];
};

static void run_reduce(void *context)
{
    const struct update *u = context;
    perf_check(u->p, u->p->kernels->reduce(u->slots, N_SLOTS, u->n, 0.5f, u->out[0]));
}

static void run_adam(void *context)
{
    const struct update *u = context;
    struct sl_adam_step step = {.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .t = 3};
    perf_check(u->p, u->p->kernels->adam(&step, u->n, u->slots[0], u->in[0], u->in[1], u->in[2],
                                         u->out[0], u->out[1], u->out[2], NULL));
}

static void run_sgd(void *context)
{
    const struct update *u = context;
    struct sl_sgd_step step = {.lr = 0.01f, .momentum = 0.9f};
    perf_check(u->p, u->p->kernels->sgd(&step, u->n, u->slots[0], u->in[0], u->in[1], u->out[0],
                                        u->out[1], NULL));
}

static void update_case(struct perf *p, uint64_t n)
{
    // One array behind the other as on a parameter board, not each on a page boundary of its own:
    // seven streams at the same offset in their pages would evict each other.
    const size_t stride = n + 1088;
    struct update u = {.p = p, .n = n};
    float *slots = perf_gpu_floats(p, N_SLOTS * stride);
    float *state = perf_gpu_alloc(p, 6 * stride * sizeof(float)); // zeros: v is not negative
    for (size_t i = 0; i < N_SLOTS; i++)
        u.slots[i] = slots + i * stride;
    for (size_t i = 0; i < 3; i++) {
        u.in[i] = state + i * stride;
        u.out[i] = state + (i + 3) * stride;
    }
    double one = 4.0 * (double)n;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("reduce of 4", run_reduce, &u, one * (N_SLOTS + 1), "copy"),
        perf_bytes("adam", run_adam, &u, 7 * one, "copy"),
        perf_bytes("sgd", run_sgd, &u, 5 * one, "copy"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "updates: %llu parameters (bytes read + written)",
                 (unsigned long long)n);
    perf_release(p);
}

void perf_update(struct perf *p)
{
    update_case(p, perf_size(p, 200000, 700)); // a model of this size: three layers of 256
    update_case(p, perf_size(p, 16 << 20, 3000));
}
