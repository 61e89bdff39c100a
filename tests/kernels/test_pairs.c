// pair_dot, pair_rows, pair_gradient.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// Pairs; rows that they are of. One row: all pairs are of it with itself. `hub`: row 0 is the
// source of every pair.
static const struct {
    uint32_t n, rows;
    bool hub;
} shapes[] = {{0, 0, 0},  {0, 5, 0},    {1, 1, 0},   {1, 7, 0},     {9, 1, 0},
              {40, 7, 0}, {300, 90, 0}, {70, 20, 1}, {1500, 40, 1}, {700, 2000, 0}};

// Below, at and above a vector and a chunk of the processor's and a pack of a GPU's.
static const uint32_t dims[] = {1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 100, 128, 257};

static uint32_t *random_pairs(struct suite *t, size_t s)
{
    uint32_t *ids = t_random_ids(t, 2 * (size_t)shapes[s].n, SL_MAX(shapes[s].rows, 1));
    for (uint32_t p = 0; p < shapes[s].n; p++) {
        if (shapes[s].hub)
            ids[2 * p] = 0;
        if (p % 7 == 3)
            ids[2 * p + 1] = ids[2 * p]; // a row with itself
        if (p % 5 == 4)
            memcpy(&ids[2 * p], &ids[2 * p - 2], 2 * sizeof *ids); // a pair twice
    }
    return ids;
}

// Each row's ends, by the reference.
static void ends_of(struct suite *t, const uint32_t *ids, uint32_t n, uint32_t rows,
                    const uint32_t **indptr, const uint32_t **ends)
{
    uint32_t *two = t_alloc(t, (n + 1) * sizeof *two, 0), *edge;
    for (uint32_t p = 0; p <= n; p++)
        two[p] = 2 * p;
    const struct sl_csr_view pairs = {n, rows, 2 * n, two, ids};
    *indptr = t_transpose(t, &pairs, &edge).indptr;
    *ends = edge;
}

// Rows of which some columns are equal in all, so that differences are 0 there.
static float *random_rows(struct suite *t, uint32_t rows, uint32_t dim)
{
    float *x = t_random_floats(t, (size_t)rows * dim);
    for (size_t i = 0; i < (size_t)rows * dim; i++)
        if (i % dim % 6 == 5)
            x[i] = 0.25f;
    return t_copy(t, x, (size_t)rows * dim * sizeof *x, t_random_below(t, 4) * 4);
}

// ---- pair_dot -----------------------------------------------------------------------------------

static void compare_dot(struct suite *t, size_t s, uint32_t dim, bool scaled)
{
    const uint32_t n = shapes[s].n, rows = shapes[s].rows;
    if (!t_affords(t, (double)n * (dim + 32)))
        return;
    t_begin(t, "pair_dot n=%u rows=%u dim=%u scaled=%d", n, rows, dim, scaled);
    struct sl_pair_dot_args args = {.n = n, .ids = random_pairs(t, s), .dim = dim};
    args.a = random_rows(t, rows, dim);
    args.b = random_rows(t, rows, dim);
    args.scale = scaled ? t_random_floats(t, dim) : NULL;
    float *want = args.score = t_alloc(t, n * sizeof(float), 0), *first = NULL;
    t_expect_ok(t, t->ref->pair_dot(&args), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        args.score = t_alloc(t, n * sizeof(float), t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->pair_dot(&args), "dev");
        t_close(t, "score", args.score, want, n, 1e-6, 1e-7 * (1 + dim));
        T_REPEATS(t, "score", args.score, first, n * sizeof(float));
    }
    t_end(t);
}

// The same score wherever the pair stands, and where its rows are aligned to anything else.
static void scores_by_themselves(struct suite *t)
{
    enum { N = 33, ROWS = 12, DIM = 52 };
    t_begin(t, "pair_dot of one pair and of many");
    uint32_t *ids = t_random_ids(t, 2 * N, ROWS);
    float *x = t_random_floats(t, ROWS * DIM), *together = t_alloc(t, N * sizeof(float), 0);
    struct sl_pair_dot_args args = {
        .n = N, .ids = ids, .dim = DIM, .a = x, .b = x, .score = together};
    t_expect_ok(t, t->dev->pair_dot(&args), "many");
    const float *skewed = t_copy(t, x, ROWS * DIM * sizeof *x, 4);
    for (uint32_t p = 0; p < N; p++) {
        args.n = 1;
        args.ids = ids + 2 * p;
        args.a = args.b = skewed;
        args.score = t_alloc(t, sizeof(float), 4);
        t_expect_ok(t, t->dev->pair_dot(&args), "one");
        t_same_bits(t, "score", args.score, &together[p], sizeof(float));
    }
    t_end(t);
}

static void all_dots(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
            compare_dot(t, s, dims[d], (s + d) & 1);
    scores_by_themselves(t);
}

void test_pair_dot(struct suite *t)
{
    t_each_isa(t, all_dots);
    t_begin(t, "pair_dot refuses bad arguments");
    uint32_t ids[2] = {0, 0};
    float x = 2, score;
    const struct sl_pair_dot_args good = {
        .n = 1, .ids = ids, .dim = 1, .a = &x, .b = &x, .score = &score};
    t_expect_ok(t, t->dev->pair_dot(&good), "good arguments");
    t_expect(t, score == 4, "score %g", (double)score);
    struct sl_pair_dot_args args = good;
    args.dim = 0;
    t_expect_code(t, t->dev->pair_dot(&args), SL_EINVAL, "dimension 0");
    args = good;
    args.b = NULL;
    t_expect_code(t, t->dev->pair_dot(&args), SL_EINVAL, "no rows");
    t_end(t);
}

// ---- pair_rows ----------------------------------------------------------------------------------

static void compare_rows(struct suite *t, size_t s, uint32_t dim, enum sl_pair_combine combine)
{
    const uint32_t n = shapes[s].n, rows = shapes[s].rows;
    const size_t bytes = (size_t)n * dim * sizeof(float);
    if (!t_affords(t, (double)n * (dim + 32)))
        return;
    t_begin(t, "pair_rows n=%u rows=%u dim=%u combine=%d", n, rows, dim, (int)combine);
    const uint32_t *ids = random_pairs(t, s);
    const float *x = random_rows(t, rows, dim);
    float *want = t_alloc(t, bytes, 0);
    t_expect_ok(t, t->ref->pair_rows(n, ids, dim, combine, x, want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_alloc(t, bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->pair_rows(n, ids, dim, combine, x, got), "dev");
        t_same_bits(t, "rows", got, want, bytes);
    }
    t_end(t);
}

static void all_rows(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
            compare_rows(t, s, dims[d], (s + d) & 1 ? SL_PAIR_PRODUCT : SL_PAIR_DIFFERENCE);
}

void test_pair_rows(struct suite *t)
{
    t_each_isa(t, all_rows);
    t_begin(t, "pair_rows refuses bad arguments");
    uint32_t ids[2] = {0, 0};
    float x[2] = {1, 2}, out[2];
    t_expect_ok(t, t->dev->pair_rows(1, ids, 2, SL_PAIR_PRODUCT, x, out), "good arguments");
    t_expect_code(t, t->dev->pair_rows(1, ids, 2, (enum sl_pair_combine)7, x, out), SL_EINVAL,
                  "no such combination");
    t_expect_code(t, t->dev->pair_rows(1, NULL, 2, SL_PAIR_PRODUCT, x, out), SL_EINVAL, "no ids");
    t_expect_code(t, t->dev->pair_rows(1, ids, 0, SL_PAIR_PRODUCT, x, out), SL_EINVAL,
                  "dimension 0");
    t_end(t);
}

// ---- pair_gradient ------------------------------------------------------------------------------

enum { BY_SCORE, BY_ROWS, BY_DIFFERENCE, WAYS };

static void compare_gradient(struct suite *t, size_t s, uint32_t dim, int way,
                             enum sl_pair_side side, bool scaled)
{
    const uint32_t n = shapes[s].n, rows = shapes[s].rows;
    const size_t count = (size_t)rows * dim, bytes = count * sizeof(float);
    if (!t_affords(t, 2.0 * (n + rows) * (dim + 32)))
        return;
    t_begin(t, "pair_gradient n=%u rows=%u dim=%u way=%d side=%d scaled=%d", n, rows, dim, way,
            (int)side, scaled);
    struct sl_pair_gradient_args args = {
        .n_rows = rows,
        .n = n,
        .ids = random_pairs(t, s),
        .side = side,
        .combine = way == BY_DIFFERENCE ? SL_PAIR_DIFFERENCE : SL_PAIR_PRODUCT,
        .dim = dim,
        .own = way == BY_DIFFERENCE ? random_rows(t, rows, dim) : NULL,
        .scale = scaled ? t_random_floats(t, dim) : NULL};
    ends_of(t, args.ids, n, rows, &args.indptr, &args.ends);
    args.other = way == BY_DIFFERENCE ? args.own : random_rows(t, rows, dim);
    if (way == BY_SCORE)
        args.dscore = t_random_floats(t, n);
    else
        args.drows = random_rows(t, n, dim);
    float *want = args.dx = t_alloc(t, bytes, 0), *first = NULL;
    t_expect_ok(t, t->ref->pair_gradient(&args), "ref");
    const struct sl_csr_view ends = {rows, 2 * n, 2 * n, args.indptr, args.ends};
    const double terms = 1 + t_longest_row(&ends);
    for (const int *threads = t_threads; *threads; threads++) {
        args.dx = t_alloc(t, bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->pair_gradient(&args), "dev");
        t_close(t, "dx", args.dx, want, count, 1e-6, 1.5e-7 * terms);
        T_REPEATS(t, "dx", args.dx, first, bytes);
    }
    t_end(t);
}

static void all_gradients(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
            const int way = (int)((s + d) % WAYS);
            compare_gradient(t, s, dims[d], way, SL_PAIR_BOTH, (s + d) & 1);
            compare_gradient(t, s, dims[d], (way + 1) % WAYS,
                             d & 1 ? SL_PAIR_SOURCE : SL_PAIR_TARGET, false);
        }
}

// That the ends of the other side are not even looked at, and bad arguments.
static void gradient_sides(struct suite *t)
{
    t_begin(t, "pair_gradient of one side, bad arguments");
    uint32_t ids[4] = {0, 1, 1, 0}, indptr[3], ends[4];
    const uint32_t *at, *list;
    ends_of(t, ids, 2, 2, &at, &list);
    memcpy(indptr, at, sizeof indptr);
    memcpy(ends, list, sizeof ends);
    float x[2] = {3, NAN}, dscore[2] = {1, NAN}, dx[2];
    const struct sl_pair_gradient_args good = {.n_rows = 2,
                                               .n = 1,
                                               .ids = ids,
                                               .indptr = indptr,
                                               .ends = ends,
                                               .side = SL_PAIR_TARGET,
                                               .dim = 1,
                                               .other = x,
                                               .dscore = dscore,
                                               .dx = dx};
    struct sl_pair_gradient_args args = good;
    args.n = 2;
    t_expect_ok(t, t->dev->pair_gradient(&args), "good arguments");
    // Row 1 is the target of pair 0, whose source is row 0; row 0 that of pair 1, which is broken.
    t_expect(t, dx[1] == 3 && isnan(dx[0]), "dx is %g %g", (double)dx[0], (double)dx[1]);
    args = good;
    args.dscore = NULL;
    t_expect_code(t, t->dev->pair_gradient(&args), SL_EINVAL, "no gradient");
    args.drows = args.dscore = dscore;
    t_expect_code(t, t->dev->pair_gradient(&args), SL_EINVAL, "two gradients");
    args = good;
    args.combine = SL_PAIR_DIFFERENCE;
    t_expect_code(t, t->dev->pair_gradient(&args), SL_EINVAL, "a difference from nothing");
    args = good;
    args.n = 1u << 31;
    t_expect_code(t, t->dev->pair_gradient(&args), SL_EINVAL, "too many pairs");
    args = good;
    args.side = (enum sl_pair_side)3;
    t_expect_code(t, t->dev->pair_gradient(&args), SL_EINVAL, "no such side");
    t_end(t);
}

void test_pair_gradient(struct suite *t)
{
    t_each_isa(t, all_gradients);
    gradient_sides(t);
}
