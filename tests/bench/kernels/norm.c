// The losses of elements, normalisation and the sum of squares: passes over memory with sums.
#include "tests/bench/kernels/perf.h"

#include <string.h>

#include "common/base/bits.h"

enum { ROWS = 100000, DIM = 256 };

struct pass {
    struct perf *p;
    float *x, *y, *targets;
    float *gamma, *beta, *dgamma, *dbeta; // (DIM)
    float *mean, *inverse;                // (ROWS)
    const float *pos_weight;
    int evaluates; // no gradient
};

static struct pass make_pass(struct perf *p)
{
    size_t n = (size_t)ROWS * DIM;
    struct pass c = {.p = p};
    c.x = perf_floats(p, n);
    c.y = perf_floats(p, n);
    c.targets = perf_alloc(p, n * sizeof *c.targets);
    for (size_t i = 0; i < n; i++)
        c.targets[i] = (float)(perf_random(p) & 1);
    c.gamma = perf_floats(p, DIM);
    c.beta = perf_floats(p, DIM);
    c.dgamma = perf_floats(p, DIM);
    c.dbeta = perf_floats(p, DIM);
    c.mean = perf_floats(p, ROWS);
    c.inverse = perf_floats(p, ROWS);
    return c;
}

static void run_bce(void *context)
{
    const struct pass *c = context;
    struct sl_loss_result result;
    perf_check(c->p, c->p->kernels->sigmoid_bce(c->x, c->targets, ROWS, DIM, c->pos_weight,
                                                c->evaluates ? NULL : c->y, &result));
}

static void run_square(void *context)
{
    const struct pass *c = context;
    struct sl_loss_result result;
    perf_check(c->p, c->p->kernels->squared_error(c->x, c->targets, ROWS, DIM, c->y, &result));
}

static void run_batch_norm(void *context)
{
    const struct pass *c = context;
    struct sl_norm_args args = {.rows = ROWS,
                                .dim = DIM,
                                .eps = 1e-5f,
                                .x = c->x,
                                .gamma = c->gamma,
                                .beta = c->beta,
                                .y = c->y,
                                .mean = c->mean,
                                .inverse = c->inverse,
                                .variance = c->dgamma};
    sl_mempool_reset(&c->p->ws);
    perf_check(c->p, c->p->kernels->batch_norm(&args, &c->p->ws));
}

static void run_batch_norm_backward(void *context)
{
    const struct pass *c = context;
    struct sl_norm_grad_args args = {.rows = ROWS,
                                     .dim = DIM,
                                     .x = c->x,
                                     .gamma = c->gamma,
                                     .mean = c->mean,
                                     .inverse = c->inverse,
                                     .dy = c->targets,
                                     .dx = c->y,
                                     .dgamma = c->dgamma,
                                     .dbeta = c->dbeta};
    sl_mempool_reset(&c->p->ws);
    perf_check(c->p, c->p->kernels->batch_norm_backward(&args, &c->p->ws));
}

static void run_layer_norm(void *context)
{
    const struct pass *c = context;
    struct sl_norm_args args = {.rows = ROWS,
                                .dim = DIM,
                                .eps = 1e-5f,
                                .x = c->x,
                                .gamma = c->gamma,
                                .beta = c->beta,
                                .y = c->y,
                                .mean = c->mean,
                                .inverse = c->inverse};
    perf_check(c->p, c->p->kernels->layer_norm(&args));
}

static void run_layer_norm_backward(void *context)
{
    const struct pass *c = context;
    struct sl_norm_grad_args args = {.rows = ROWS,
                                     .dim = DIM,
                                     .x = c->x,
                                     .gamma = c->gamma,
                                     .mean = c->mean,
                                     .inverse = c->inverse,
                                     .dy = c->targets,
                                     .dx = c->y,
                                     .dgamma = c->dgamma,
                                     .dbeta = c->dbeta};
    sl_mempool_reset(&c->p->ws);
    perf_check(c->p, c->p->kernels->layer_norm_backward(&args, &c->p->ws));
}

static void run_scale_columns(void *context)
{
    const struct pass *c = context;
    perf_check(c->p, c->p->kernels->scale_columns(c->y, ROWS, DIM, c->mean, c->inverse));
}

static void run_sum_squares(void *context)
{
    const struct pass *c = context;
    double sum;
    perf_check(c->p, c->p->kernels->sum_squares((uint64_t)ROWS * DIM, c->x, &sum));
}

// Bytes of one of the arrays: each run counts the arrays it reads and writes, in as many passes as
// it needs (batch_norm twice over x, which the cache does not hold).
static const double ONE = 4.0 * ROWS * DIM;

void perf_sigmoid_bce(struct perf *p)
{
    struct pass plain = make_pass(p), weighted = plain, evaluation = plain;
    weighted.pos_weight = plain.gamma;
    evaluation.evaluates = 1;
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        {"sigmoid_bce", run_bce, &plain, 3 * ONE, "GB/s", 1e9, "copy", 0},
        {"weights of positives", run_bce, &weighted, 3 * ONE, "GB/s", 1e9, "copy", 0},
        {"evaluation", run_bce, &evaluation, 2 * ONE, "GB/s", 1e9, "copy", 0},
        {"squared_error", run_square, &plain, 3 * ONE, "GB/s", 1e9, "copy", 0},
    };
    perf_measure(p, "sigmoid_bce, squared_error: 100000 x 256 (bytes read + written)", runs,
                 SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_norm(struct perf *p)
{
    struct pass c = make_pass(p);
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        {"batch_norm", run_batch_norm, &c, 3 * ONE, "GB/s", 1e9, "copy", 0},
        {"batch_norm_backward", run_batch_norm_backward, &c, 5 * ONE, "GB/s", 1e9, "copy", 0},
        {"layer_norm", run_layer_norm, &c, 2 * ONE, "GB/s", 1e9, "copy", 0},
        {"layer_norm_backward", run_layer_norm_backward, &c, 3 * ONE, "GB/s", 1e9, "copy", 0},
        {"scale_columns", run_scale_columns, &c, 2 * ONE, "GB/s", 1e9, "copy", 0},
        {"sum_squares", run_sum_squares, &c, ONE, "GB/s", 1e9, "copy", 0},
    };
    perf_measure(p, "normalisation, sum_squares: 100000 x 256 (bytes read + written)", runs,
                 SL_COUNT_OF(runs));
    perf_release(p);
}
