// Attention, maximum and row length beside the ceilings of the memory.
#include "tests/bench/kernels/perf.h"

#include <stdio.h>

#include "common/base/bits.h"

// A block and everything that one of the operations asks for; edges as in perf_aggregate.
struct attention {
    struct perf *p;
    struct sl_csr_view csr, transposed;
    uint32_t *t_edge;
    uint32_t heads, dim;
    float *x, *y, *weight;
    float *down, *datt; // of edge_scores_backward
    struct sl_edge_softmax_args softmax;
    struct sl_edge_softmax_grad_args softmax_grad;
    struct sl_aggregate_heads_args back;
    struct sl_aggregate_max_args max;
    struct sl_aggregate_max_grad_args max_grad;
};

static struct attention make_attention(struct perf *p, uint32_t degree, uint32_t heads,
                                       uint32_t dim)
{
    struct attention a = {.p = p, .heads = heads, .dim = dim};
    a.csr = perf_block_csr(p, 600000 / degree, degree, 0.5);
    size_t n_edges = a.csr.indptr[a.csr.n_dst], width = (size_t)heads * dim;
    uint32_t *t_indptr = perf_alloc(p, ((size_t)a.csr.n_src + 1) * 4);
    uint32_t *t_indices = perf_alloc(p, n_edges * 4);
    a.t_edge = perf_alloc(p, n_edges * 4);
    perf_check(p, p->kernels->transpose(&a.csr, t_indptr, t_indices, a.t_edge, &p->ws));
    sl_mempool_reset(&p->ws);
    a.transposed =
        (struct sl_csr_view){a.csr.n_src, a.csr.n_dst, a.csr.n_edges, t_indptr, t_indices};
    a.x = perf_floats(p, a.csr.n_src * width);
    a.y = perf_floats(p, a.csr.n_dst * width);
    a.weight = perf_floats(p, n_edges * heads);
    return a;
}

static void title_of(char *title, size_t bytes, const struct attention *a, const char *what)
{
    snprintf(title, bytes, "%s: %u x %u edges from %u rows of %u x %u f32 (bytes read + written)",
             what, a->csr.n_dst, a->csr.indptr[1], a->csr.n_src, a->heads, a->dim);
}

static struct perf_run a_run(const char *name, void (*run)(void *), struct attention *a,
                             double bytes)
{
    return (struct perf_run){.name = name,
                             .run = run,
                             .context = a,
                             .amount = bytes,
                             .unit = "GB/s",
                             .scale = 1e9,
                             .ceiling = "copy"};
}

// ---- edge_softmax -------------------------------------------------------------------------------

static void run_softmax(void *context)
{
    const struct attention *a = context;
    perf_check(a->p, a->p->kernels->edge_softmax(&a->softmax));
}

static void run_softmax_grad(void *context)
{
    const struct attention *a = context;
    perf_check(a->p, a->p->kernels->edge_softmax_backward(&a->softmax_grad));
}

static void softmax_case(struct perf *p, uint32_t degree, uint32_t heads)
{
    struct attention a = make_attention(p, degree, heads, 1);
    size_t n_edges = a.csr.indptr[a.csr.n_dst];
    a.softmax = (struct sl_edge_softmax_args){.csr = a.csr,
                                              .heads = heads,
                                              .negative_slope = 0.2f,
                                              .score_src = a.x,
                                              .score_dst = a.y,
                                              .alpha = a.weight};
    a.softmax_grad = (struct sl_edge_softmax_grad_args){.csr = a.csr,
                                                        .transposed = a.transposed,
                                                        .t_edge = a.t_edge,
                                                        .heads = heads,
                                                        .negative_slope = 0.2f,
                                                        .score_src = a.x,
                                                        .score_dst = a.y,
                                                        .alpha = a.weight};
    a.softmax_grad.dalpha = perf_floats(p, n_edges * heads);
    a.softmax_grad.dscore_src = perf_floats(p, (size_t)a.csr.n_src * heads);
    a.softmax_grad.dscore_dst = perf_floats(p, (size_t)a.csr.n_dst * heads);
    // A row a source is read by index, scores and shares are in order.
    double edges = (double)n_edges, rows = 4.0 * a.csr.n_dst * (heads + 1);
    double sources = 4.0 * a.csr.n_src * (heads + 1);
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        a_run("edge_softmax", run_softmax, &a, edges * (4 + 8.0 * heads) + rows),
        a_run("its backward", run_softmax_grad, &a, edges * (8 + 20.0 * heads) + rows + sources),
    };
    char title[160];
    title_of(title, sizeof title, &a, "edge_softmax");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_edge_softmax(struct perf *p)
{
    softmax_case(p, 5, 1);
    softmax_case(p, 5, 8);
    softmax_case(p, 10, 8);
}

// ---- aggregate_heads, edge_dot ------------------------------------------------------------------

static void run_heads(void *context)
{
    const struct attention *a = context;
    struct sl_aggregate_heads_args args = {
        .csr = a->csr, .heads = a->heads, .dim = a->dim, .x = a->x, .weight = a->weight, .y = a->y};
    perf_check(a->p, a->p->kernels->aggregate_heads(&args));
}

static void run_heads_back(void *context)
{
    const struct attention *a = context;
    struct sl_aggregate_heads_args args = {.csr = a->transposed,
                                           .heads = a->heads,
                                           .dim = a->dim,
                                           .x = a->y,
                                           .weight = a->weight,
                                           .edge = a->t_edge,
                                           .y = a->x};
    perf_check(a->p, a->p->kernels->aggregate_heads(&args));
}

// The same bytes without weights a head.
static void run_plain(void *context)
{
    const struct attention *a = context;
    struct sl_aggregate_args args = {
        .csr = a->csr, .dim = a->heads * a->dim, .x_dtype = SL_DTYPE_F32, .x = a->x, .y = a->y};
    perf_check(a->p, a->p->kernels->aggregate(&args));
}

static void run_dot(void *context)
{
    const struct attention *a = context;
    perf_check(a->p, a->p->kernels->edge_dot(&a->csr, a->heads, a->dim, a->y, a->x, a->weight));
}

static void heads_case(struct perf *p, uint32_t degree, uint32_t heads, uint32_t dim, int dot)
{
    struct attention a = make_attention(p, degree, heads, dim);
    double edges = a.csr.indptr[a.csr.n_dst], row = 4.0 * heads * dim;
    double forward = edges * (row + 4 + 4.0 * heads) + a.csr.n_dst * row;
    double back = edges * (row + 8 + 4.0 * heads) + a.csr.n_src * row;
    struct perf_run with_heads[] = {
        perf_copy_ceiling(p),
        a_run("aggregate of as many columns", run_plain, &a, edges * (row + 4) + a.csr.n_dst * row),
        a_run("aggregate_heads", run_heads, &a, forward),
        a_run("over the transpose", run_heads_back, &a, back),
    };
    struct perf_run with_dot[] = {
        perf_copy_ceiling(p),
        a_run("aggregate of as many columns", run_plain, &a, edges * (row + 4) + a.csr.n_dst * row),
        a_run("edge_dot", run_dot, &a, forward),
    };
    char title[160];
    title_of(title, sizeof title, &a, dot ? "edge_dot" : "aggregate_heads");
    if (dot)
        perf_measure(p, title, with_dot, SL_COUNT_OF(with_dot));
    else
        perf_measure(p, title, with_heads, SL_COUNT_OF(with_heads));
    perf_release(p);
}

static void heads_cases(struct perf *p, int dot)
{
    heads_case(p, 5, 8, 32, dot);
    heads_case(p, 5, 4, 64, dot);
    heads_case(p, 5, 8, 8, dot);
    heads_case(p, 5, 8, 40, dot);
    heads_case(p, 5, 8, 5, dot);
}

void perf_aggregate_heads(struct perf *p)
{
    heads_cases(p, 0);
}

void perf_edge_dot(struct perf *p)
{
    heads_cases(p, 1);
}

// ---- edge_scores --------------------------------------------------------------------------------

static void run_scores(void *context)
{
    const struct attention *a = context;
    struct sl_edge_scores_args args = {.csr = a->csr,
                                       .heads = a->heads,
                                       .dim = a->dim,
                                       .negative_slope = 0.2f,
                                       .src = a->x,
                                       .dst = a->y,
                                       .att = a->y,
                                       .score = a->weight};
    perf_check(a->p, a->p->kernels->edge_scores(&args));
}

static void run_scores_grad(void *context)
{
    const struct attention *a = context;
    struct sl_edge_scores_grad_args args = {.csr = a->csr,
                                            .heads = a->heads,
                                            .dim = a->dim,
                                            .negative_slope = 0.2f,
                                            .own = a->y,
                                            .other = a->x,
                                            .att = a->y,
                                            .dscore = a->weight,
                                            .down = a->down,
                                            .datt = a->datt};
    perf_check(a->p, a->p->kernels->edge_scores_backward(&args));
}

static void run_scores_grad_back(void *context)
{
    const struct attention *a = context;
    struct sl_edge_scores_grad_args args = {.csr = a->transposed,
                                            .edge = a->t_edge,
                                            .heads = a->heads,
                                            .dim = a->dim,
                                            .negative_slope = 0.2f,
                                            .own = a->x,
                                            .other = a->y,
                                            .att = a->y,
                                            .dscore = a->weight,
                                            .beta = 1,
                                            .down = a->down};
    perf_check(a->p, a->p->kernels->edge_scores_backward(&args));
}

static void scores_case(struct perf *p, uint32_t degree, uint32_t heads, uint32_t dim)
{
    struct attention a = make_attention(p, degree, heads, dim);
    double edges = a.csr.indptr[a.csr.n_dst], row = 4.0 * heads * dim, words = 4.0 * heads;
    a.down = perf_floats(p, (size_t)a.csr.n_src * heads * dim);
    a.datt = perf_floats(p, (size_t)a.csr.n_dst * heads * dim);
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        a_run("edge_dot", run_dot, &a, edges * (row + 4 + words) + a.csr.n_dst * row),
        a_run("edge_scores", run_scores, &a, edges * (row + 4 + words) + a.csr.n_dst * row),
        a_run("its backward", run_scores_grad, &a,
              edges * (row + 4 + words) + 3 * a.csr.n_dst * row),
        a_run("over the transpose", run_scores_grad_back, &a,
              edges * (row + 8 + words) + 3 * a.csr.n_src * row),
    };
    char title[160];
    title_of(title, sizeof title, &a, "edge_scores");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_edge_scores(struct perf *p)
{
    scores_case(p, 5, 8, 32);
    scores_case(p, 5, 4, 64);
    scores_case(p, 5, 8, 8);
    scores_case(p, 5, 8, 40);
    scores_case(p, 5, 8, 5);
}

// ---- aggregate_max ------------------------------------------------------------------------------

static void run_max(void *context)
{
    const struct attention *a = context;
    perf_check(a->p, a->p->kernels->aggregate_max(&a->max));
}

static void run_max_grad(void *context)
{
    const struct attention *a = context;
    perf_check(a->p, a->p->kernels->aggregate_max_backward(&a->max_grad));
}

static void max_case(struct perf *p, uint32_t degree, uint32_t dim)
{
    struct attention a = make_attention(p, degree, 1, dim);
    a.max = (struct sl_aggregate_max_args){
        .csr = a.csr, .dim = dim, .x_dtype = SL_DTYPE_F32, .x = a.x, .y = a.y};
    a.max.from = perf_alloc(p, (size_t)a.csr.n_dst * dim * 4);
    perf_check(p, p->kernels->aggregate_max(&a.max));
    a.max_grad = (struct sl_aggregate_max_grad_args){.csr = a.csr,
                                                     .transposed = a.transposed,
                                                     .t_edge = a.t_edge,
                                                     .dim = dim,
                                                     .from = a.max.from,
                                                     .dy = a.y,
                                                     .dx = a.x};
    double edges = a.csr.indptr[a.csr.n_dst], row = 4.0 * dim;
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        a_run("aggregate of as many columns", run_plain, &a, edges * (row + 4) + a.csr.n_dst * row),
        a_run("aggregate_max", run_max, &a, edges * (row + 4) + 2 * a.csr.n_dst * row),
        a_run("its backward", run_max_grad, &a, edges * (2 * row + 8) + a.csr.n_src * row),
    };
    char title[160];
    title_of(title, sizeof title, &a, "aggregate_max");
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

void perf_aggregate_max(struct perf *p)
{
    max_case(p, 10, 128);
    max_case(p, 5, 256);
}
