// edge_scores and its backward.
#include "tests/kernels/harness.h"

#include <math.h>

#include "common/base/bits.h"
#include "common/base/error.h"

struct shape {
    uint32_t n_dst, n_src, degree, hub;
};

static const struct shape shapes[] = {
    {0, 0, 0, 0},    {0, 7, 0, 0},     {1, 1, 1, 0},        {5, 3, 0, 0},
    {40, 90, 4, 30}, {300, 500, 6, 0}, {700, 300, 5, 2500}, {1, 50, 0, 900},
};

// Below, at and above a vector and a chunk of the processor's and a pack of a GPU's.
static const struct {
    uint32_t heads, dim;
} widths[] = {
    {1, 1},  {1, 7},  {1, 8},  {1, 9},  {1, 16},  {1, 33},  {1, 100}, {1, 256}, {2, 3},
    {3, 8},  {8, 8},  {20, 1}, {5, 6},  {8, 13},  {2, 17},  {3, 24},  {8, 40},  {4, 47},
    {2, 32}, {8, 32}, {4, 64}, {2, 15}, {7, 100}, {1, 257}, {33, 4},  {2, 31},  {1, 63},
};

static void compare_scores(struct suite *t, const struct shape *s, uint32_t heads, uint32_t dim)
{
    if (!t_affords(t, (double)(s->n_dst * s->degree + s->hub) * heads * (dim + 32)))
        return;
    t_begin(t, "edge_scores n_dst=%u n_src=%u degree=%u hub=%u heads=%u dim=%u", s->n_dst, s->n_src,
            s->degree, s->hub, heads, dim);
    struct sl_edge_scores_args args = {.csr =
                                           t_random_csr(t, s->n_dst, s->n_src, s->degree, s->hub),
                                       .heads = heads,
                                       .dim = dim,
                                       .negative_slope = 0.2f};
    size_t width = (size_t)heads * dim, n = (size_t)args.csr.indptr[s->n_dst] * heads;
    args.src = t_copy(t, t_random_floats(t, s->n_src * width), s->n_src * width * sizeof(float),
                      t_random_below(t, 4) * 4);
    args.dst = t_random_floats(t, s->n_dst * width);
    args.att = t_random_floats(t, width);
    float *want = args.score = t_alloc(t, n * sizeof(float), 0), *first = NULL;
    t_expect_ok(t, t->ref->edge_scores(&args), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        args.score = t_alloc(t, n * sizeof(float), t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->edge_scores(&args), "dev");
        t_close(t, "score", args.score, want, n, 1e-5, 4e-7 * (1 + dim));
        T_REPEATS(t, "score", args.score, first, n * sizeof(float));
    }
    t_end(t);
}

struct gradients {
    float *down, *datt;
};

// Both of them, on memory of the given skew; down starts from `given`.
static struct gradients gradients_of(struct suite *t, const struct sl_kernels *kernels,
                                     struct sl_edge_scores_grad_args args, const float *given,
                                     bool with_att, size_t skew)
{
    size_t bytes = (size_t)args.csr.n_dst * args.heads * args.dim * sizeof(float);
    args.down = args.beta != 0 ? t_copy(t, given, bytes, skew) : t_alloc(t, bytes, skew);
    args.datt = with_att ? t_alloc(t, bytes, skew) : NULL;
    t_expect_ok(t, kernels->edge_scores_backward(&args), kernels == t->ref ? "ref" : "dev");
    return (struct gradients){args.down, args.datt};
}

// Over the adjacency with the vectors' part, over its transpose without: as a layer uses it.
static void compare_backward(struct suite *t, const struct shape *s, uint32_t heads, uint32_t dim,
                             bool transposed, float beta)
{
    if (!t_affords(t, (double)(s->n_dst * s->degree + s->hub) * heads * dim * 2))
        return;
    t_begin(t, "edge_scores_backward n_dst=%u n_src=%u degree=%u hub=%u heads=%u dim=%u %s beta=%g",
            s->n_dst, s->n_src, s->degree, s->hub, heads, dim, transposed ? "transposed" : "",
            (double)beta);
    struct sl_edge_scores_grad_args args = {
        .csr = t_random_csr(t, s->n_dst, s->n_src, s->degree, s->hub),
        .heads = heads,
        .dim = dim,
        .negative_slope = 0.2f,
        .beta = beta};
    if (transposed) {
        uint32_t *edge;
        args.csr = t_transpose(t, &args.csr, &edge);
        args.edge = edge;
    }
    size_t width = (size_t)heads * dim, n = args.csr.n_dst * width, bytes = n * sizeof(float);
    args.own = t_random_floats(t, n);
    args.other = t_random_floats(t, args.csr.n_src * width);
    args.att = t_random_floats(t, width);
    args.dscore = t_random_floats(t, (size_t)args.csr.indptr[args.csr.n_dst] * heads);
    const float *given = t_random_floats(t, n);
    const bool with_att = !transposed;
    const struct gradients want = gradients_of(t, t->ref, args, given, with_att, 0);
    struct gradients first = {0};
    double terms = 1 + t_longest_row(&args.csr);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        struct gradients got =
            gradients_of(t, t->dev, args, given, with_att, t_random_below(t, 4) * 4);
        t_close(t, "down", got.down, want.down, n, 1e-5, 2e-7 * terms);
        if (with_att)
            t_close(t, "datt", got.datt, want.datt, n, 1e-5, 4e-7 * terms);
        T_REPEATS(t, "down", got.down, first.down, bytes);
        if (with_att)
            T_REPEATS(t, "datt", got.datt, first.datt, bytes);
    }
    t_end(t);
}

static void check_all(struct suite *t)
{
    for (size_t w = 0; w < SL_COUNT_OF(widths); w++)
        for (size_t s = 0; s < SL_COUNT_OF(shapes); s++) {
            compare_scores(t, &shapes[s], widths[w].heads, widths[w].dim);
            compare_backward(t, &shapes[s], widths[w].heads, widths[w].dim, (w + s) & 1,
                             (float)((w + s) >> 1 & 1));
        }
}

static void bad_scores(struct suite *t)
{
    t_begin(t, "edge_scores refuses bad arguments, keeps a NaN to its head");
    uint32_t indptr[] = {0, 1}, index = 0;
    float *src = t_random_floats(t, 40), *dst = t_random_floats(t, 40), score[2];
    src[19] = NAN; // the last of the first head, in a vector that the next one would share
    const struct sl_edge_scores_args good = {.csr = {1, 1, 1, indptr, &index},
                                             .heads = 2,
                                             .dim = 20,
                                             .src = src,
                                             .dst = dst,
                                             .att = t_random_floats(t, 40),
                                             .score = score};
    struct sl_edge_scores_args args = good;
    t_expect_ok(t, t->dev->edge_scores(&args), "good arguments");
    t_expect(t, isnan(score[0]) && !isnan(score[1]), "scores are %g %g", (double)score[0],
             (double)score[1]);
    args.heads = 0;
    t_expect_code(t, t->dev->edge_scores(&args), SL_EINVAL, "no heads");
    args = good;
    args.att = NULL;
    t_expect_code(t, t->dev->edge_scores(&args), SL_EINVAL, "att of NULL");
    t_end(t);
}

static void bad_backward(struct suite *t)
{
    t_begin(t, "edge_scores_backward refuses bad arguments");
    uint32_t indptr[] = {0, 1}, index = 0;
    float x[4] = {1, 2, -3, 4}, down[4];
    const struct sl_edge_scores_grad_args good = {.csr = {1, 1, 1, indptr, &index},
                                                  .heads = 1,
                                                  .dim = 4,
                                                  .own = x,
                                                  .other = x,
                                                  .att = x,
                                                  .dscore = x,
                                                  .down = down};
    struct sl_edge_scores_grad_args args = good;
    t_expect_ok(t, t->dev->edge_scores_backward(&args), "good arguments");
    args.beta = 0.5f;
    t_expect_code(t, t->dev->edge_scores_backward(&args), SL_EINVAL, "half of what was there");
    args = good;
    args.down = NULL;
    t_expect_code(t, t->dev->edge_scores_backward(&args), SL_EINVAL, "down of NULL");
    args = good;
    args.dscore = NULL;
    t_expect_code(t, t->dev->edge_scores_backward(&args), SL_EINVAL, "dscore of NULL");
    t_end(t);
}

void test_edge_scores(struct suite *t)
{
    t_each_isa(t, check_all);
    bad_scores(t);
    bad_backward(t);
}
