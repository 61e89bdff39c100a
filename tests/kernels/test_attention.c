// edge_softmax and its backward, aggregate_heads, edge_dot.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

struct shape {
    uint32_t n_dst, n_src, degree, hub;
};

static const struct shape shapes[] = {
    {0, 0, 0, 0},    {0, 7, 0, 0},     {1, 1, 1, 0},        {5, 3, 0, 0},
    {40, 90, 4, 30}, {300, 500, 6, 0}, {700, 300, 5, 2500}, {1, 50, 0, 900},
};

static const uint32_t head_counts[] = {1, 2, 3, 4, 8, 12, 16, 17, 35};

// ---- edge_softmax -------------------------------------------------------------------------------

static struct sl_edge_softmax_grad_args softmax_grad_args(struct suite *t,
                                                          const struct sl_edge_softmax_args *args)
{
    uint32_t *t_edge;
    struct sl_csr_view transposed = t_transpose(t, &args->csr, &t_edge);
    return (struct sl_edge_softmax_grad_args){.csr = args->csr,
                                              .transposed = transposed,
                                              .t_edge = t_edge,
                                              .heads = args->heads,
                                              .negative_slope = args->negative_slope,
                                              .score_src = args->score_src,
                                              .score_dst = args->score_dst,
                                              .alpha = args->alpha};
}

static void compare_softmax(struct suite *t, const struct shape *s, uint32_t heads, float scale)
{
    if (!t_affords(t, (double)(s->n_dst * s->degree + s->hub) * heads * 4))
        return;
    t_begin(t, "edge_softmax n_dst=%u n_src=%u degree=%u hub=%u heads=%u scale=%g", s->n_dst,
            s->n_src, s->degree, s->hub, heads, (double)scale);
    struct sl_csr_view csr = t_random_csr(t, s->n_dst, s->n_src, s->degree, s->hub);
    size_t n = (size_t)csr.indptr[csr.n_dst] * heads, bytes = n * sizeof(float);
    size_t n_src = (size_t)s->n_src * heads, n_dst = (size_t)s->n_dst * heads;
    float *score_src = t_random_floats(t, n_src), *score_dst = t_random_floats(t, n_dst);
    for (size_t i = 0; i < n_src; i++)
        score_src[i] *= scale;
    struct sl_edge_softmax_args args = {.csr = csr,
                                        .heads = heads,
                                        .negative_slope = 0.2f,
                                        .score_src = score_src,
                                        .score_dst = score_dst,
                                        .alpha = t_alloc(t, bytes, 0)};
    t_expect_ok(t, t->ref->edge_softmax(&args), "ref");
    float *want = args.alpha;
    struct sl_edge_softmax_grad_args grad = softmax_grad_args(t, &args);
    float *given = t_random_floats(t, n), *want_dalpha = t_copy(t, given, bytes, 0);
    float *want_src = t_alloc(t, n_src * sizeof(float), 0), *first[4] = {0};
    float *want_dst = t_alloc(t, n_dst * sizeof(float), 0);
    grad.dalpha = want_dalpha, grad.dscore_src = want_src, grad.dscore_dst = want_dst;
    t_expect_ok(t, t->ref->edge_softmax_backward(&grad), "ref backward");
    double terms = 1 + t_longest_row(&csr), t_terms = 1 + t_longest_row(&grad.transposed);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        args.alpha = t_alloc(t, bytes, t_random_below(t, 4) * 4);
        t_expect_ok(t, t->dev->edge_softmax(&args), "dev");
        // A score of magnitude s is rounded to s * 6e-8, and its share to that relative error.
        t_close(t, "alpha", args.alpha, want, n, 1e-6 + 2e-7 * (double)scale + 1e-7 * terms, 1e-30);
        grad.alpha = want; // so that errors do not add up
        grad.dalpha = t_copy(t, given, bytes, t_random_below(t, 4) * 4);
        grad.dscore_src = t_alloc(t, n_src * sizeof(float), 4);
        grad.dscore_dst = t_alloc(t, n_dst * sizeof(float), 4);
        t_expect_ok(t, t->dev->edge_softmax_backward(&grad), "dev backward");
        // dalpha and the sums of alpha are at most 1.
        t_close(t, "dalpha", grad.dalpha, want_dalpha, n, 1e-6, 2e-7 * terms);
        t_close(t, "dscore_dst", grad.dscore_dst, want_dst, n_dst, 1e-6, 4e-7 * terms);
        t_close(t, "dscore_src", grad.dscore_src, want_src, n_src, 1e-6, 4e-7 * t_terms);
        float *got[4] = {args.alpha, grad.dalpha, grad.dscore_src, grad.dscore_dst};
        size_t counts[4] = {n, n, n_src, n_dst};
        for (int i = 0; i < 4; i++)
            T_REPEATS(t, "a result", got[i], first[i], counts[i] * sizeof(float));
    }
    t_end(t);
}

// Scores of the edges themselves: what sources that are one edge's each give without a kink.
static void compare_own(struct suite *t, const struct shape *s, uint32_t heads)
{
    if (!t_affords(t, (double)(s->n_dst * s->degree + s->hub) * heads * 4))
        return;
    t_begin(t, "edge_softmax of own scores n_dst=%u degree=%u hub=%u heads=%u", s->n_dst, s->degree,
            s->hub, heads);
    struct sl_csr_view csr = t_random_csr(t, s->n_dst, s->n_src, s->degree, s->hub);
    uint32_t n_edges = csr.indptr[csr.n_dst], *each = t_alloc(t, n_edges * sizeof *each, 0);
    size_t n = (size_t)n_edges * heads, bytes = n * sizeof(float), skew = t_random_below(t, 4) * 4;
    for (uint32_t e = 0; e < n_edges; e++)
        each[e] = e;
    float *scores = t_random_floats(t, n), *zero = t_alloc(t, s->n_dst * heads * sizeof *zero, 0);
    for (size_t i = 0; i < (size_t)s->n_dst * heads; i++)
        zero[i] = 0;
    struct sl_edge_softmax_args args = {.csr = {s->n_dst, n_edges, n_edges, csr.indptr, each},
                                        .heads = heads,
                                        .negative_slope = 1,
                                        .score_src = scores,
                                        .score_dst = zero,
                                        .alpha = t_alloc(t, bytes, 0)};
    struct sl_edge_softmax_args own = {.csr = csr, .heads = heads};
    struct sl_edge_softmax_grad_args grad = softmax_grad_args(t, &args), own_grad = {.csr = csr};
    float *given = t_random_floats(t, n);
    grad.dalpha = t_copy(t, given, bytes, 0);
    grad.dscore_src = t_alloc(t, bytes, 0);
    grad.dscore_dst = t_alloc(t, s->n_dst * heads * sizeof(float), 0);
    own_grad.heads = heads;
    for (const struct sl_kernels *k = t->ref; k; k = k == t->ref ? t->dev : NULL) {
        own.alpha = t_copy(t, scores, bytes, skew);
        own_grad.dalpha = t_copy(t, given, bytes, skew);
        t_expect_ok(t, k->edge_softmax(&args), "sources");
        t_expect_ok(t, k->edge_softmax(&own), "own");
        t_same_bits(t, "alpha", own.alpha, args.alpha, bytes);
        grad.alpha = own_grad.alpha = own.alpha;
        memcpy(grad.dalpha, given, bytes);
        t_expect_ok(t, k->edge_softmax_backward(&grad), "backward of sources");
        t_expect_ok(t, k->edge_softmax_backward(&own_grad), "backward of own");
        t_same_bits(t, "dalpha", own_grad.dalpha, grad.dalpha, bytes);
    }
    t_end(t);
}

// Scores far apart, infinities and NaN, in rows of three edges.
static void extreme_scores(struct suite *t)
{
    t_begin(t, "edge_softmax of extreme scores");
    const struct {
        float score[3];
        float alpha[3];
    } rows[] = {
        {{1e30f, 0, -1e30f}, {1, 0, 0}},
        {{-3e38f, -3e38f, -3e38f}, {1 / 3.0f, 1 / 3.0f, 1 / 3.0f}},
        {{-INFINITY, 2, 2}, {0, 0.5f, 0.5f}},
        {{0, NAN, 0}, {NAN, NAN, NAN}},
        {{INFINITY, 0, 0}, {NAN, NAN, NAN}},
        {{NAN, NAN, NAN}, {NAN, NAN, NAN}},
    };
    for (size_t r = 0; r < SL_COUNT_OF(rows); r++) {
        uint32_t indptr[] = {0, 3}, indices[] = {0, 1, 2};
        float zero = 0, alpha[3];
        struct sl_edge_softmax_args args = {.csr = {1, 3, indptr[1], indptr, indices},
                                            .heads = 1,
                                            .negative_slope = 0.2f,
                                            .score_src = rows[r].score,
                                            .score_dst = &zero,
                                            .alpha = alpha};
        t_expect_ok(t, t->dev->edge_softmax(&args), "dev");
        t_close(t, "alpha", alpha, rows[r].alpha, 3, 1e-6, 0);
        t_expect_ok(t, t->ref->edge_softmax(&args), "ref");
        t_close(t, "alpha of ref", alpha, rows[r].alpha, 3, 1e-6, 0);
    }
    t_end(t);
}

static void bad_softmax(struct suite *t)
{
    t_begin(t, "edge_softmax refuses bad arguments");
    uint32_t indptr[] = {0, 1}, index = 0;
    float x[1] = {1}, alpha[1], dsrc[1], ddst[1];
    struct sl_edge_softmax_args args = {.csr = {1, 1, 1, indptr, &index},
                                        .heads = 1,
                                        .score_src = x,
                                        .score_dst = x,
                                        .alpha = alpha};
    t_expect_ok(t, t->dev->edge_softmax(&args), "good arguments");
    t_expect(t, alpha[0] == 1.0f, "alpha of an only edge is %g", (double)alpha[0]);
    args.heads = 0;
    t_expect_code(t, t->dev->edge_softmax(&args), SL_EINVAL, "no heads");
    args.heads = 1;
    args.score_dst = NULL;
    t_expect_code(t, t->dev->edge_softmax(&args), SL_EINVAL, "score_dst of NULL");
    args.score_dst = x;
    struct sl_edge_softmax_grad_args good = softmax_grad_args(t, &args), grad;
    good.dalpha = t_random_floats(t, 1), good.dscore_src = dsrc, good.dscore_dst = ddst;
    t_expect_ok(t, t->dev->edge_softmax_backward(&good), "good arguments of backward");
    grad = good;
    grad.t_edge = NULL;
    t_expect_code(t, t->dev->edge_softmax_backward(&grad), SL_EINVAL, "t_edge of NULL");
    grad = good;
    grad.transposed.n_dst = 0;
    t_expect_code(t, t->dev->edge_softmax_backward(&grad), SL_EINVAL, "another's transpose");
    grad = good;
    grad.dscore_src = NULL;
    t_expect_code(t, t->dev->edge_softmax_backward(&grad), SL_EINVAL, "dscore_src of NULL");
    t_end(t);
}

void test_edge_softmax(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (size_t h = 0; h < SL_COUNT_OF(head_counts); h++)
            compare_softmax(t, &shapes[s], head_counts[h], h & 1 ? 1.0f : 40.0f);
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (size_t h = 0; h < SL_COUNT_OF(head_counts); h++)
            compare_own(t, &shapes[s], head_counts[h]);
    extreme_scores(t);
    bad_softmax(t);
}

// ---- aggregate_heads ----------------------------------------------------------------------------

static const struct {
    uint32_t heads, dim;
} widths[] = {
    {1, 1},  {1, 7},  {1, 16}, {1, 40}, {1, 64}, {1, 100}, {1, 256}, {2, 3},  {2, 8},   {3, 8},
    {8, 8},  {9, 8},  {8, 1},  {16, 1}, {20, 1}, {5, 6},   {8, 13},  {2, 17}, {3, 24},  {8, 40},
    {4, 47}, {8, 16}, {2, 32}, {8, 32}, {4, 64}, {3, 128}, {1, 257}, {2, 15}, {7, 100}, {33, 4},
};

static void compare_heads(struct suite *t, const struct shape *s, uint32_t heads, uint32_t dim,
                          int indirect)
{
    if (!t_affords(t, (double)(s->n_dst * s->degree + s->hub) * heads * dim))
        return;
    t_begin(t, "aggregate_heads n_dst=%u n_src=%u degree=%u hub=%u heads=%u dim=%u indirect=%d",
            s->n_dst, s->n_src, s->degree, s->hub, heads, dim, indirect);
    struct sl_csr_view csr = t_random_csr(t, s->n_dst, s->n_src, s->degree, s->hub);
    uint32_t n_edges = csr.indptr[csr.n_dst];
    size_t width = (size_t)heads * dim, n = s->n_dst * width, bytes = n * sizeof(float);
    struct sl_aggregate_heads_args args = {.csr = csr, .heads = heads, .dim = dim};
    args.x = t_random_floats(t, s->n_src * width);
    args.weight = t_random_floats(t, (size_t)n_edges * heads);
    // The weights of an edge are at its own position, or where a permutation says.
    args.edge = indirect ? t_random_places(t, n_edges, n_edges) : NULL;
    float *want = args.y = t_alloc(t, bytes, 0), *first = NULL;
    t_expect_ok(t, t->ref->aggregate_heads(&args), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        args.y = t_alloc(t, bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->aggregate_heads(&args), "dev");
        t_close(t, "y", args.y, want, n, 1e-5, 2e-7 * (1 + t_longest_row(&csr)));
        T_REPEATS(t, "y", args.y, first, bytes);
    }
    t_end(t);
}

static void bad_heads(struct suite *t)
{
    t_begin(t, "aggregate_heads refuses bad arguments, passes NaN on");
    uint32_t indptr[] = {0, 1}, index = 0;
    float x[4] = {1, NAN, 2, 3}, weight[2] = {2, 1}, y[4];
    struct sl_aggregate_heads_args good = {
        .csr = {1, 1, 1, indptr, &index}, .heads = 2, .dim = 2, .x = x, .weight = weight, .y = y};
    struct sl_aggregate_heads_args args = good;
    t_expect_ok(t, t->dev->aggregate_heads(&args), "good arguments");
    t_expect(t, y[0] == 2 && isnan(y[1]) && y[2] == 2 && y[3] == 3, "y is %g %g %g %g",
             (double)y[0], (double)y[1], (double)y[2], (double)y[3]);
    args.heads = 0;
    t_expect_code(t, t->dev->aggregate_heads(&args), SL_EINVAL, "no heads");
    args = good;
    args.heads = args.dim = 1u << 16;
    t_expect_code(t, t->dev->aggregate_heads(&args), SL_EINVAL, "2^32 columns");
    args = good;
    args.weight = NULL;
    t_expect_code(t, t->dev->aggregate_heads(&args), SL_EINVAL, "weight of NULL");
    t_end(t);
}

static void check_heads(struct suite *t)
{
    for (size_t w = 0; w < SL_COUNT_OF(widths); w++)
        for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
            compare_heads(t, &shapes[s], widths[w].heads, widths[w].dim, (int)(w + s) & 1);
    for (int indirect = 0; indirect < 2; indirect++) {
        compare_heads(t, &shapes[5], 8, 32, indirect);
        compare_heads(t, &shapes[5], 8, 8, indirect);
        compare_heads(t, &shapes[5], 8, 5, indirect);
    }
}

void test_aggregate_heads(struct suite *t)
{
    t_each_isa(t, check_heads);
    bad_heads(t);
}

// ---- edge_dot -----------------------------------------------------------------------------------

static void compare_dot(struct suite *t, const struct shape *s, uint32_t heads, uint32_t dim)
{
    if (!t_affords(t, (double)(s->n_dst * s->degree + s->hub) * heads * (dim + 32)))
        return;
    t_begin(t, "edge_dot n_dst=%u n_src=%u degree=%u hub=%u heads=%u dim=%u", s->n_dst, s->n_src,
            s->degree, s->hub, heads, dim);
    struct sl_csr_view csr = t_random_csr(t, s->n_dst, s->n_src, s->degree, s->hub);
    size_t width = (size_t)heads * dim, n = (size_t)csr.indptr[csr.n_dst] * heads;
    float *a = t_random_floats(t, s->n_dst * width), *b = t_random_floats(t, s->n_src * width);
    float *want = t_alloc(t, n * sizeof *want, 0), *first = NULL;
    t_expect_ok(t, t->ref->edge_dot(&csr, heads, dim, a, b, want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_alloc(t, n * sizeof *got, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->edge_dot(&csr, heads, dim, a, b, got), "dev");
        t_close(t, "out", got, want, n, 1e-5, 2e-7 * (1 + dim));
        T_REPEATS(t, "out", got, first, n * sizeof *got);
    }
    t_end(t);
}

static void check_dot(struct suite *t)
{
    for (size_t w = 0; w < SL_COUNT_OF(widths); w++)
        for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
            compare_dot(t, &shapes[s], widths[w].heads, widths[w].dim);
}

void test_edge_dot(struct suite *t)
{
    t_each_isa(t, check_dot);
    t_begin(t, "edge_dot refuses bad arguments, keeps a NaN to its head");
    uint32_t indptr[] = {0, 1}, index = 0;
    struct sl_csr_view csr = {1, 1, 1, indptr, &index};
    float *a = t_random_floats(t, 40), *b = t_random_floats(t, 40), out[2];
    b[19] = NAN; // the last of the first head, in a vector that the next one would share
    t_expect_ok(t, t->dev->edge_dot(&csr, 2, 20, a, b, out), "dev");
    t_expect(t, isnan(out[0]) && !isnan(out[1]), "out is %g %g", (double)out[0], (double)out[1]);
    t_expect_code(t, t->dev->edge_dot(&csr, 0, 20, a, b, out), SL_EINVAL, "no heads");
    t_expect_code(t, t->dev->edge_dot(&csr, 2, 20, a, NULL, out), SL_EINVAL, "b of NULL");
    t_expect_code(t, t->dev->edge_dot(NULL, 2, 20, a, b, out), SL_EINVAL, "no adjacency");
    t_end(t);
}
