// Operations over the edges of a block, on cores and on a device: attention, maximum, row length;
// on a device aggregate and transpose too, which on cores stand beside plain loops (memory.c).
#include "tests/bench/kernels/gpu.h"

#include <stdio.h>

#include "common/base/bits.h"

// A block as a sampler leaves it (perf_block_csr), its transpose, and what the operations ask for.
struct sums {
    struct perf *p;
    struct sl_csr_view csr, transposed;
    uint32_t *t_edge;
    uint32_t heads, dim;
    float *x, *y, *weight;
    float *down, *datt; // of edge_scores_backward
    struct sl_aggregate_args args;
    struct sl_edge_softmax_args softmax;
    struct sl_edge_softmax_grad_args softmax_grad;
    struct sl_aggregate_max_args max;
    struct sl_aggregate_max_grad_args max_grad;
};

static struct sums make_sums(struct perf *p, uint32_t degree, uint32_t heads, uint32_t dim)
{
    struct sums s = {.p = p, .heads = heads, .dim = dim};
    uint32_t n_edges = (uint32_t)perf_size(p, p->device->is_host ? 600000 : 2000000, 200);
    struct sl_csr_view csr = perf_block_csr(p, n_edges / degree, degree, 0.5);
    size_t width = (size_t)heads * dim;
    s.csr = perf_upload_csr(p, &csr);
    s.transposed = perf_gpu_transposed(p, &s.csr, &s.t_edge);
    s.x = perf_gpu_floats(p, csr.n_src * width);
    s.y = perf_gpu_floats(p, csr.n_dst * width);
    s.weight = perf_gpu_floats(p, (size_t)csr.n_edges * heads);
    return s;
}

// Times the runs under a title that says what block they are of.
static void measure_sums(const struct sums *s, const char *what, struct perf_run *runs, size_t n)
{
    perf_measure(s->p, runs, n, "%s: %u x %u edges from %u rows of %u x %u (bytes read + written)",
                 what, s->csr.n_dst, s->csr.n_edges / s->csr.n_dst, s->csr.n_src, s->heads, s->dim);
}

// ---- aggregate ----------------------------------------------------------------------------------

static void run_aggregate(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->aggregate(&s->args));
}

// Bytes of a sum: an index, a row and maybe a weight an edge; the result.
static double bytes_of(const struct sl_aggregate_args *a)
{
    double row = (double)a->dim * (double)sl_dtype_bytes(a->x_dtype);
    return a->csr.n_edges * (row + 4 + (a->edge_weight ? 4 : 0)) +
           a->csr.n_dst * (4.0 * a->dim + 4);
}

static void aggregate_runs(struct sums *s, const char *what)
{
    struct perf_run runs[] = {
        perf_gpu_copy(s->p),
        perf_bytes("aggregate", run_aggregate, s, bytes_of(&s->args), "copy"),
    };
    measure_sums(s, what, runs, SL_COUNT_OF(runs));
}

static void aggregate_case(struct perf *p, uint32_t dim, uint32_t degree, enum sl_dtype dtype)
{
    struct sums s = make_sums(p, degree, 1, dim);
    // Rows of f16 are any bits: a sum of NaN takes as long as another.
    s.args = (struct sl_aggregate_args){
        .csr = s.csr, .dim = dim, .x_dtype = dtype, .x = s.x, .edge_weight = s.weight, .y = s.y};
    aggregate_runs(&s, dtype == SL_DTYPE_F16 ? "aggregate f16" : "aggregate");
    if (dtype == SL_DTYPE_F32) {
        s.args.csr = s.transposed;
        s.args.x = s.y;
        s.args.y = s.x;
        aggregate_runs(&s, "aggregate over the transpose");
    }
    perf_release(p);
}

void perf_gpu_aggregate(struct perf *p)
{
    aggregate_case(p, 128, 10, SL_DTYPE_F32);
    aggregate_case(p, 128, 10, SL_DTYPE_F16);
    aggregate_case(p, 256, 10, SL_DTYPE_F32);
    aggregate_case(p, 100, 5, SL_DTYPE_F32);
    aggregate_case(p, 256, 25, SL_DTYPE_F32);
    aggregate_case(p, 47, 5, SL_DTYPE_F32);
}

// ---- transpose ----------------------------------------------------------------------------------

static void run_transpose(void *context)
{
    const struct sums *s = context;
    struct perf *p = s->p;
    sl_mempool_reset(&p->ws);
    perf_check(p, p->kernels->transpose(&s->csr, (uint32_t *)s->transposed.indptr,
                                        (uint32_t *)s->transposed.indices, s->t_edge, &p->ws));
}

void perf_gpu_transpose(struct perf *p)
{
    struct sums s = make_sums(p, 10, 1, 1);
    // An index is read twice and an edge written, with its old position.
    double bytes = 16.0 * s.csr.n_edges + 8.0 * s.csr.n_src;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("transpose", run_transpose, &s, bytes, "copy"),
        perf_count("its edges", run_transpose, &s, s.csr.n_edges, NULL),
    };
    measure_sums(&s, "transpose", runs, SL_COUNT_OF(runs));
    perf_release(p);
}

// ---- edge_softmax -------------------------------------------------------------------------------

static void run_softmax(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->edge_softmax(&s->softmax));
}

static void run_softmax_grad(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->edge_softmax_backward(&s->softmax_grad));
}

static void softmax_case(struct perf *p, uint32_t degree, uint32_t heads)
{
    struct sums s = make_sums(p, degree, heads, 1);
    s.softmax = (struct sl_edge_softmax_args){.csr = s.csr,
                                              .heads = heads,
                                              .negative_slope = 0.2f,
                                              .score_src = s.x,
                                              .score_dst = s.y,
                                              .alpha = s.weight};
    s.softmax_grad = (struct sl_edge_softmax_grad_args){.csr = s.csr,
                                                        .transposed = s.transposed,
                                                        .t_edge = s.t_edge,
                                                        .heads = heads,
                                                        .negative_slope = 0.2f,
                                                        .score_src = s.x,
                                                        .score_dst = s.y,
                                                        .alpha = s.weight};
    s.softmax_grad.dalpha = perf_gpu_floats(p, (size_t)s.csr.n_edges * heads);
    s.softmax_grad.dscore_src = perf_gpu_floats(p, (size_t)s.csr.n_src * heads);
    s.softmax_grad.dscore_dst = perf_gpu_floats(p, (size_t)s.csr.n_dst * heads);
    // A row a source is read by index, scores and shares are in order.
    double edges = s.csr.n_edges, rows = 4.0 * s.csr.n_dst * (heads + 1);
    double sources = 4.0 * s.csr.n_src * (heads + 1);
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("edge_softmax", run_softmax, &s, edges * (4 + 8.0 * heads) + rows, "copy"),
        perf_bytes("its backward", run_softmax_grad, &s,
                   edges * (8 + 20.0 * heads) + rows + sources, "copy"),
    };
    measure_sums(&s, "edge_softmax", runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_edge_softmax(struct perf *p)
{
    softmax_case(p, 5, 1);
    softmax_case(p, 5, 8);
    softmax_case(p, 10, 1);
    softmax_case(p, 10, 8);
}

// ---- aggregate_heads, edge_dot, edge_scores -----------------------------------------------------

static void run_heads(void *context)
{
    const struct sums *s = context;
    struct sl_aggregate_heads_args args = {
        .csr = s->csr, .heads = s->heads, .dim = s->dim, .x = s->x, .weight = s->weight, .y = s->y};
    perf_check(s->p, s->p->kernels->aggregate_heads(&args));
}

static void run_heads_back(void *context)
{
    const struct sums *s = context;
    struct sl_aggregate_heads_args args = {.csr = s->transposed,
                                           .heads = s->heads,
                                           .dim = s->dim,
                                           .x = s->y,
                                           .weight = s->weight,
                                           .edge = s->t_edge,
                                           .y = s->x};
    perf_check(s->p, s->p->kernels->aggregate_heads(&args));
}

// The same bytes without weights a head.
static void run_plain(void *context)
{
    const struct sums *s = context;
    struct sl_aggregate_args args = {
        .csr = s->csr, .dim = s->heads * s->dim, .x_dtype = SL_DTYPE_F32, .x = s->x, .y = s->y};
    perf_check(s->p, s->p->kernels->aggregate(&args));
}

static void run_dot(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->edge_dot(&s->csr, s->heads, s->dim, s->y, s->x, s->weight));
}

static void run_scores(void *context)
{
    const struct sums *s = context;
    struct sl_edge_scores_args args = {.csr = s->csr,
                                       .heads = s->heads,
                                       .dim = s->dim,
                                       .negative_slope = 0.2f,
                                       .src = s->x,
                                       .dst = s->y,
                                       .att = s->y,
                                       .score = s->weight};
    perf_check(s->p, s->p->kernels->edge_scores(&args));
}

static void run_scores_grad(void *context)
{
    const struct sums *s = context;
    struct sl_edge_scores_grad_args args = {.csr = s->csr,
                                            .heads = s->heads,
                                            .dim = s->dim,
                                            .negative_slope = 0.2f,
                                            .own = s->y,
                                            .other = s->x,
                                            .att = s->y,
                                            .dscore = s->weight,
                                            .down = s->down,
                                            .datt = s->datt};
    perf_check(s->p, s->p->kernels->edge_scores_backward(&args));
}

static void run_scores_grad_back(void *context)
{
    const struct sums *s = context;
    struct sl_edge_scores_grad_args args = {.csr = s->transposed,
                                            .edge = s->t_edge,
                                            .heads = s->heads,
                                            .dim = s->dim,
                                            .negative_slope = 0.2f,
                                            .own = s->x,
                                            .other = s->y,
                                            .att = s->y,
                                            .dscore = s->weight,
                                            .beta = 1,
                                            .down = s->down};
    perf_check(s->p, s->p->kernels->edge_scores_backward(&args));
}

static void heads_case(struct perf *p, uint32_t heads, uint32_t dim)
{
    struct sums s = make_sums(p, p->device->is_host ? 5 : 10, heads, dim);
    double edges = s.csr.n_edges, row = 4.0 * heads * dim, words = 4.0 * heads;
    double targets = s.csr.n_dst * row, sources = s.csr.n_src * row;
    double forward = edges * (row + 4 + words) + targets;
    s.down = perf_gpu_floats(p, (size_t)s.csr.n_src * heads * dim);
    s.datt = perf_gpu_floats(p, (size_t)s.csr.n_dst * heads * dim);
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("aggregate of as many columns", run_plain, &s, edges * (row + 4) + targets,
                   "copy"),
        perf_bytes("aggregate_heads", run_heads, &s, forward, "copy"),
        perf_bytes("over the transpose", run_heads_back, &s, edges * (row + 8 + words) + sources,
                   "copy"),
        perf_bytes("edge_dot", run_dot, &s, forward, "copy"),
        perf_bytes("edge_scores", run_scores, &s, forward, "copy"),
        perf_bytes("edge_scores, backward", run_scores_grad, &s, forward + 2 * targets, "copy"),
        perf_bytes("and over the transpose", run_scores_grad_back, &s,
                   edges * (row + 8 + words) + 3 * sources, "copy"),
    };
    measure_sums(&s, "aggregate_heads, edge_dot", runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_heads(struct perf *p)
{
    heads_case(p, 8, 32);
    heads_case(p, 4, 64);
    heads_case(p, 8, 8);
    heads_case(p, 8, 40);
    heads_case(p, 8, 5);
}

// ---- aggregate_max ------------------------------------------------------------------------------

static void run_max(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->aggregate_max(&s->max));
}

static void run_max_grad(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->aggregate_max_backward(&s->max_grad));
}

static void max_case(struct perf *p, uint32_t degree, uint32_t dim)
{
    struct sums s = make_sums(p, degree, 1, dim);
    s.max = (struct sl_aggregate_max_args){
        .csr = s.csr, .dim = dim, .x_dtype = SL_DTYPE_F32, .x = s.x, .y = s.y};
    s.max.from = perf_gpu_alloc(p, (size_t)s.csr.n_dst * dim * sizeof *s.max.from);
    s.max_grad = (struct sl_aggregate_max_grad_args){.csr = s.csr,
                                                     .transposed = s.transposed,
                                                     .t_edge = s.t_edge,
                                                     .dim = dim,
                                                     .from = s.max.from,
                                                     .dy = s.y};
    s.max_grad.dx = perf_gpu_floats(p, (size_t)s.csr.n_src * dim);
    double edges = s.csr.n_edges, row = 4.0 * dim;
    double targets = s.csr.n_dst * row, sources = s.csr.n_src * row;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("aggregate of as many columns", run_plain, &s, edges * (row + 4) + targets,
                   "copy"),
        perf_bytes("aggregate_max", run_max, &s, edges * (row + 4) + 2 * targets, "copy"),
        perf_bytes("its backward", run_max_grad, &s, edges * (2 * row + 8) + sources, "copy"),
    };
    measure_sums(&s, "aggregate_max", runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_aggregate_max(struct perf *p)
{
    max_case(p, 10, 128);
    max_case(p, 5, 256);
    max_case(p, 10, 256);
}
