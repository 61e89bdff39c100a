// Sums over the edges of a block on a device: aggregate, attention, maximum.
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
    struct sl_aggregate_args args;
    struct sl_edge_softmax_args softmax;
    struct sl_edge_softmax_grad_args softmax_grad;
    struct sl_aggregate_max_args max;
    struct sl_aggregate_max_grad_args max_grad;
};

static struct sums make_sums(struct perf *p, uint32_t degree, uint32_t heads, uint32_t dim)
{
    struct sums s = {.p = p, .heads = heads, .dim = dim};
    uint32_t n_edges = (uint32_t)perf_size(p, 2000000, 200);
    struct sl_csr_view csr = perf_block_csr(p, n_edges / degree, degree, 0.5);
    size_t width = (size_t)heads * dim;
    s.csr = perf_upload_csr(p, &csr);
    s.transposed = perf_gpu_transposed(p, &s.csr, &s.t_edge);
    s.x = perf_gpu_floats(p, csr.n_src * width);
    s.y = perf_gpu_floats(p, csr.n_dst * width);
    s.weight = perf_gpu_floats(p, (size_t)csr.n_edges * heads);
    return s;
}

static void title_of(char *title, size_t bytes, const struct sums *s, const char *what)
{
    snprintf(title, bytes, "%s: %u x %u edges from %u rows of %u x %u (bytes read + written)", what,
             s->csr.n_dst, s->csr.n_edges / s->csr.n_dst, s->csr.n_src, s->heads, s->dim);
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

static void aggregate_runs(struct perf *p, struct sums *s, const char *title)
{
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_run("aggregate", run_aggregate, s, bytes_of(&s->args), "copy"),
    };
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
}

static void aggregate_case(struct perf *p, uint32_t dim, uint32_t degree, enum sl_dtype dtype)
{
    struct sums s = make_sums(p, degree, 1, dim);
    char title[160];
    // Rows of f16 are any bits: a sum of NaN takes as long as another.
    s.args = (struct sl_aggregate_args){
        .csr = s.csr, .dim = dim, .x_dtype = dtype, .x = s.x, .edge_weight = s.weight, .y = s.y};
    title_of(title, sizeof title, &s, dtype == SL_DTYPE_F16 ? "aggregate f16" : "aggregate");
    aggregate_runs(p, &s, title);
    if (dtype == SL_DTYPE_F32) {
        s.args.csr = s.transposed;
        s.args.x = s.y;
        s.args.y = s.x;
        title_of(title, sizeof title, &s, "aggregate over the transpose");
        aggregate_runs(p, &s, title);
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
    char title[160];
    // An index is read twice and an edge written, with its old position.
    double bytes = 16.0 * s.csr.n_edges + 8.0 * s.csr.n_src;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_run("transpose", run_transpose, &s, bytes, "copy"),
        perf_gpu_count("its edges", run_transpose, &s, s.csr.n_edges, NULL),
    };
    title_of(title, sizeof title, &s, "transpose");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

// ---- attention ----------------------------------------------------------------------------------

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
    double edges = s.csr.n_edges, rows = 4.0 * s.csr.n_dst * (heads + 1);
    double sources = 4.0 * s.csr.n_src * (heads + 1);
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_run("edge_softmax", run_softmax, &s, edges * (4 + 8.0 * heads) + rows, "copy"),
        perf_gpu_run("its backward", run_softmax_grad, &s,
                     edges * (8 + 20.0 * heads) + rows + sources, "copy"),
    };
    char title[160];
    title_of(title, sizeof title, &s, "edge_softmax");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_gpu_attention(struct perf *p)
{
    softmax_case(p, 10, 1);
    softmax_case(p, 10, 8);
}

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

static void run_dot(void *context)
{
    const struct sums *s = context;
    perf_check(s->p, s->p->kernels->edge_dot(&s->csr, s->heads, s->dim, s->y, s->x, s->weight));
}

static void heads_case(struct perf *p, uint32_t degree, uint32_t heads, uint32_t dim)
{
    struct sums s = make_sums(p, degree, heads, dim);
    double edges = s.csr.n_edges, row = 4.0 * heads * dim, weights = 4.0 * heads;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_run("aggregate_heads", run_heads, &s,
                     edges * (row + 4 + weights) + s.csr.n_dst * row, "copy"),
        perf_gpu_run("over the transpose", run_heads_back, &s,
                     edges * (row + 8 + weights) + s.csr.n_src * row, "copy"),
        perf_gpu_run("edge_dot", run_dot, &s, edges * (row + 4 + weights) + s.csr.n_dst * row,
                     "copy"),
    };
    char title[160];
    title_of(title, sizeof title, &s, "aggregate_heads, edge_dot");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_gpu_heads(struct perf *p)
{
    heads_case(p, 10, 8, 32);
    heads_case(p, 10, 4, 64);
    heads_case(p, 10, 8, 5);
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
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_run("aggregate_max", run_max, &s, edges * (row + 4) + 2 * s.csr.n_dst * row,
                     "copy"),
        perf_gpu_run("its backward", run_max_grad, &s, edges * (2 * row + 8) + s.csr.n_src * row,
                     "copy"),
    };
    char title[160];
    title_of(title, sizeof title, &s, "aggregate_max");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_gpu_max(struct perf *p)
{
    max_case(p, 10, 128);
    max_case(p, 10, 256);
}
