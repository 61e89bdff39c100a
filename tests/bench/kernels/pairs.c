// Pairs of rows, on cores and on a device: of a batch, whose rows are in a cache, and of an
// evaluation.
#include "tests/bench/kernels/gpu.h"

#include "common/base/bits.h"

struct pairs {
    struct perf *p;
    struct sl_pair_dot_args dot;
    struct sl_pair_gradient_args gradient;
    struct sl_pair_loss_args loss;
    float *rows; // (n, dim)
};

static void run_dot(void *context)
{
    const struct pairs *s = context;
    perf_check(s->p, s->p->kernels->pair_dot(&s->dot));
}

static void run_rows(void *context)
{
    const struct pairs *s = context;
    perf_check(s->p, s->p->kernels->pair_rows(s->dot.n, s->dot.ids, s->dot.dim, SL_PAIR_PRODUCT,
                                              s->dot.a, s->rows));
}

static void run_gradient(void *context)
{
    const struct pairs *s = context;
    perf_check(s->p, s->p->kernels->pair_gradient(&s->gradient));
}

static void run_loss(void *context)
{
    const struct pairs *s = context;
    struct sl_loss_result result;
    perf_check(s->p, s->p->kernels->pair_loss(&s->loss, &result));
}

static void pairs_case(struct perf *p, uint32_t n, uint32_t n_rows, uint32_t dim)
{
    const uint32_t *ids = perf_ids(p, 2 * (size_t)n, n_rows);
    uint32_t *two = perf_alloc(p, (n + 1) * sizeof *two), *ends;
    for (uint32_t i = 0; i <= n; i++)
        two[i] = 2 * i;
    const struct sl_csr_view host = {n, n_rows, 2 * n, two, ids};
    const struct sl_csr_view csr = perf_upload_csr(p, &host);
    const struct sl_csr_view transposed = perf_gpu_transposed(p, &csr, &ends);
    float *x = perf_gpu_floats(p, (size_t)n_rows * dim);
    struct pairs s = {.p = p, .rows = perf_gpu_alloc(p, (size_t)n * dim * sizeof *s.rows)};
    float *scores = perf_gpu_floats(p, n), *dscores = perf_gpu_floats(p, n);
    s.dot = (struct sl_pair_dot_args){
        .n = n, .ids = csr.indices, .dim = dim, .a = x, .b = x, .score = scores};
    s.gradient = (struct sl_pair_gradient_args){.n_rows = n_rows,
                                                .n = n,
                                                .ids = csr.indices,
                                                .indptr = transposed.indptr,
                                                .ends = ends,
                                                .dim = dim,
                                                .other = x,
                                                .dscore = dscores,
                                                .dx = perf_gpu_alloc(p, (size_t)n_rows * dim * 4)};
    s.loss = (struct sl_pair_loss_args){.n = n,
                                        .n_positive = n / 2,
                                        .per_positive = 1,
                                        .margin = 1,
                                        .score = scores,
                                        .dscore = dscores};
    struct pairs margin = s, softmax = s;
    margin.loss.loss = SL_LOSS_PAIR_MARGIN;
    softmax.loss.loss = SL_LOSS_PAIR_SOFTMAX;
    const double row = 4.0 * dim;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_bytes("pair_dot", run_dot, &s, n * (2 * row + 12), "copy"),
        perf_bytes("pair_rows", run_rows, &s, n * (3 * row + 8), "copy"),
        perf_bytes("pair_gradient", run_gradient, &s, n * (2 * row + 24) + n_rows * row, "copy"),
        perf_count("pair_loss, bce", run_loss, &s, n, NULL),
        perf_count("pair_loss, margin", run_loss, &margin, n, NULL),
        perf_count("pair_loss, softmax", run_loss, &softmax, n, NULL),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs),
                 "pairs: %u of %u rows of %u (bytes read + written; pairs)", n, n_rows, dim);
    perf_release(p);
}

void perf_pairs(struct perf *p)
{
    pairs_case(p, (uint32_t)perf_size(p, 2048, 20), (uint32_t)perf_size(p, 3000, 9), 128);
    pairs_case(p, (uint32_t)perf_size(p, 64000, 20), (uint32_t)perf_size(p, 2048, 9), 128);
    pairs_case(p, (uint32_t)perf_size(p, 1000000, 20), (uint32_t)perf_size(p, 1000000, 9), 128);
}
