// row_sums, count_loops, fix_loops, gcn_scales: what layers ask of a hop's edges.
#include "tests/kernels/harness.h"

#include <math.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static const struct {
    uint32_t n_dst, n_src, degree, hub;
} shapes[] = {
    {0, 0, 0, 0},     {0, 9, 0, 0},      {9, 9, 0, 0},         {1, 1, 3, 0},
    {1, 40, 2, 500},  {31, 31, 4, 0},    {32, 64, 5, 0},       {33, 100, 3, 1025},
    {120, 200, 6, 0}, {257, 257, 2, 70}, {513, 2000, 9, 4000}, {3000, 5000, 7, 0},
};

// Many self-loops, several of them in a row.
static struct sl_csr_view with_loops(struct suite *t, size_t shape)
{
    struct sl_csr_view csr = t_random_csr(t, shapes[shape].n_dst, shapes[shape].n_src,
                                          shapes[shape].degree, shapes[shape].hub);
    uint32_t *indices = t_copy(t, csr.indices, (size_t)csr.n_edges * sizeof *indices, 0);
    for (uint32_t i = 0; i < csr.n_dst; i++)
        for (uint32_t e = csr.indptr[i]; e < csr.indptr[i + 1]; e++)
            if (t_random_below(t, 4) == 0)
                indices[e] = i;
    csr.indices = indices;
    return csr;
}

// Positive, as visits are; whole rows of zeros among them.
static float *weights_of(struct suite *t, const struct sl_csr_view *csr)
{
    float *w = t_alloc(t, (size_t)csr->n_edges * sizeof *w, 0);
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        bool zero = t_random_below(t, 10) == 0;
        for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
            w[e] = zero ? 0.0f : 0.125f + t_random_float(t) * t_random_float(t);
    }
    for (uint32_t e = 0; e < csr->n_edges; e++)
        w[e] = fabsf(w[e]);
    return w;
}

// Of n_edges positive numbers added up in f32, in any order.
static double sum_error(const struct sl_csr_view *csr)
{
    return 6e-8 * (4 + t_longest_row(csr));
}

// ---- row_sums -----------------------------------------------------------------------------------

static void compare_sums(struct suite *t, size_t shape, enum sl_row_sum what, bool weighted,
                         bool of_graph)
{
    if (!t_affords(t, (double)shapes[shape].n_dst * 8 + shapes[shape].hub))
        return;
    t_begin(t, "row_sums n_dst=%u degree=%u hub=%u what=%d weighted=%d degrees=%d",
            shapes[shape].n_dst, shapes[shape].degree, shapes[shape].hub, (int)what, (int)weighted,
            (int)of_graph);
    struct sl_csr_view csr = with_loops(t, shape);
    size_t bytes = (size_t)csr.n_dst * sizeof(float);
    const float *w = weighted ? weights_of(t, &csr) : NULL;
    const uint32_t *degrees = of_graph ? t_random_ids(t, csr.n_dst, 1000) : NULL;
    float *want = t_alloc(t, bytes, 0), *first = NULL;
    t_expect_ok(t, t->ref->row_sums(&csr, w, degrees, what, want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        float *got = t_alloc(t, bytes, t_random_below(t, 4) * 4);
        t_expect_ok(t, t->dev->row_sums(&csr, w, degrees, what, got), "dev");
        t_close(t, "out", got, want, csr.n_dst, sum_error(&csr), 0);
        T_REPEATS(t, "out", got, first, bytes);
    }
    t_end(t);
}

static void row_sums_by_hand(struct suite *t)
{
    t_begin(t, "row_sums by hand, and what it refuses");
    static const uint32_t rows[] = {0, 2, 2, 5}, from[] = {0, 1, 2, 2, 0};
    static const float weights[] = {1, 3, 0, 0, 0};
    uint32_t *indptr = t_copy(t, rows, sizeof rows, 0), *indices = t_copy(t, from, sizeof from, 0);
    float *w = t_copy(t, weights, sizeof weights, 0), *out = t_alloc(t, 3 * sizeof *out, 0);
    struct sl_csr_view csr = {3, 3, 5, indptr, indices};
    static const float want[2][3][3] = {{{2, 0, 3}, {0.5f, 0, 1.0f / 3}, {1, 0, 1}},
                                        {{4, 0, 0}, {0.25f, 0, 0}, {0.5f, 0, 0}}};
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < 2; k++)
        for (int weighted = 0; weighted < 2; weighted++)
            for (int what = SL_ROW_SUM; what <= SL_ROW_SCALE_UP; what++) {
                int rc =
                    both[k]->row_sums(&csr, weighted ? w : NULL, NULL, (enum sl_row_sum)what, out);
                t_expect_ok(t, rc, both[k]->name);
                t_close(t, both[k]->name, out, want[weighted][what], 3, 1e-7, 0);
            }
    // 2 of 10 neighbours were sampled, none of 4, and 3 of 3.
    static const uint32_t in_graph[] = {10, 4, 3};
    static const float up[2][3] = {{5, 0, 1}, {2.5f, 0, 0}};
    const uint32_t *degrees = t_copy(t, in_graph, sizeof in_graph, 0);
    for (size_t k = 0; k < 2; k++)
        for (int weighted = 0; weighted < 2; weighted++) {
            int rc = both[k]->row_sums(&csr, weighted ? w : NULL, degrees, SL_ROW_SCALE_UP, out);
            t_expect_ok(t, rc, both[k]->name);
            t_close(t, both[k]->name, out, up[weighted], 3, 1e-7, 0);
        }
    t_expect_code(t, t->dev->row_sums(&csr, NULL, degrees, SL_ROW_INVERSE, out), SL_EINVAL,
                  "degrees of no use");
    t_expect_code(t, t->dev->row_sums(&csr, NULL, NULL, (enum sl_row_sum)3, out), SL_EINVAL,
                  "what 3");
    t_expect_code(t, t->dev->row_sums(&csr, NULL, NULL, SL_ROW_SUM, NULL), SL_EINVAL, "no out");
    csr.indptr = NULL;
    t_expect_code(t, t->dev->row_sums(&csr, NULL, NULL, SL_ROW_SUM, out), SL_EINVAL, "no indptr");
    t_end(t);
}

void test_row_sums(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (int weighted = 0; weighted < 2; weighted++) {
            for (int what = SL_ROW_SUM; what <= SL_ROW_SCALE_UP; what++)
                compare_sums(t, s, (enum sl_row_sum)what, weighted, false);
            compare_sums(t, s, SL_ROW_SCALE_UP, weighted, true);
        }
    row_sums_by_hand(t);
}

// ---- fix_loops ----------------------------------------------------------------------------------

static void compare_loops(struct suite *t, size_t shape, bool append, bool weighted)
{
    if (!t_affords(t, (double)shapes[shape].n_dst * 8 + shapes[shape].hub))
        return;
    t_begin(t, "fix_loops n_dst=%u degree=%u hub=%u append=%d weighted=%d", shapes[shape].n_dst,
            shapes[shape].degree, shapes[shape].hub, (int)append, (int)weighted);
    struct sl_csr_view csr = with_loops(t, shape);
    size_t room = (size_t)csr.n_edges + (append ? csr.n_dst : 0);
    struct sl_fix_loops_args args = {.csr = csr, .append_self = append};
    args.weight = weighted ? weights_of(t, &csr) : NULL;
    uint32_t want_loops, want_edges, loops, edges, *want_indptr, *want_indices;
    want_indptr = args.indptr = t_alloc(t, ((size_t)csr.n_dst + 1) * 4, 0);
    want_indices = args.indices = t_alloc(t, room * 4, 0);
    float *want_weight = args.out_weight = weighted ? t_alloc(t, room * 4, 0) : NULL;
    args.n_edges = &want_edges;
    t_expect_ok(t, t->ref->count_loops(&csr, &want_loops), "ref count");
    t_expect_ok(t, t->ref->fix_loops(&args, &t->ws), "ref");
    t_expect(t, want_edges + want_loops == room, "%u edges and %u loops of %zu", want_edges,
             want_loops, room);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        size_t skew = t_random_below(t, 4) * 4;
        args.indptr = t_alloc(t, ((size_t)csr.n_dst + 1) * 4, skew);
        args.indices = t_alloc(t, room * 4, skew);
        args.out_weight = weighted ? t_alloc(t, room * 4, skew) : NULL;
        args.n_edges = &edges;
        loops = edges = UINT32_MAX;
        t_expect_ok(t, t->dev->count_loops(&csr, &loops), "dev count");
        t_expect_ok(t, t->dev->fix_loops(&args, t_ws(t, t->dev)), "dev");
        if (!t_expect(t, loops == want_loops && edges == want_edges,
                      "%u loops, %u edges are left: wanted %u and %u", loops, edges, want_loops,
                      want_edges))
            break;
        t_same_bits(t, "indptr", args.indptr, want_indptr, ((size_t)csr.n_dst + 1) * 4);
        t_same_bits(t, "indices", args.indices, want_indices, (size_t)edges * 4);
        if (weighted)
            t_close(t, "weights", args.out_weight, want_weight, edges, sum_error(&csr), 0);
    }
    t_end(t);
}

static void fix_loops_refuses(struct suite *t)
{
    t_begin(t, "fix_loops and count_loops refuse bad arguments");
    static const uint32_t rows[] = {0, 1};
    uint32_t *indptr = t_copy(t, rows, sizeof rows, 0), *out = t_alloc(t, 4 * sizeof *out, 0), n;
    float *w = t_random_floats(t, 2);
    struct sl_csr_view csr = {1, 1, 1, indptr, indptr};
    struct sl_fix_loops_args good = {
        .csr = csr, .append_self = true, .indptr = out, .indices = out + 2, .n_edges = &n};
    struct sl_fix_loops_args args = good;
    t_expect_ok(t, t->dev->fix_loops(&args, t_ws(t, t->dev)), "good arguments");
    args.weight = w;
    t_expect_code(t, t->dev->fix_loops(&args, t_ws(t, t->dev)), SL_EINVAL, "weights without room");
    args = good;
    args.indices = NULL;
    t_expect_code(t, t->dev->fix_loops(&args, t_ws(t, t->dev)), SL_EINVAL, "no indices");
    args = good;
    args.csr.n_edges = UINT32_MAX;
    t_expect_code(t, t->dev->fix_loops(&args, t_ws(t, t->dev)), SL_EUNSUPPORTED, "2^32 edges");
    t_expect_code(t, t->dev->count_loops(&csr, NULL), SL_EINVAL, "no count");
    t_end(t);
}

void test_fix_loops(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (int k = 0; k < 4; k++)
            compare_loops(t, s, k & 1, k & 2);
    fix_loops_refuses(t);
}

// ---- gcn_scales ---------------------------------------------------------------------------------

static void compare_scales(struct suite *t, size_t shape, bool graph, bool own, bool weighted)
{
    if (!t_affords(t, (double)shapes[shape].n_dst * 8 + shapes[shape].hub))
        return;
    t_begin(t, "gcn_scales n_dst=%u n_src=%u hub=%u degrees=%s own_loop=%d weighted=%d",
            shapes[shape].n_dst, shapes[shape].n_src, shapes[shape].hub, graph ? "graph" : "hop",
            (int)own, (int)weighted);
    struct sl_csr_view csr = with_loops(t, shape);
    size_t rows = (size_t)csr.n_dst * 4, sources = (size_t)csr.n_src * 4;
    uint32_t *degrees = t_random_ids(t, csr.n_src, 100);
    struct sl_gcn_scales_args args = {.csr = csr, .own_loop = own};
    args.degrees = graph ? degrees : NULL;
    args.weight = weighted ? weights_of(t, &csr) : NULL;
    float *want_row = args.row_scale = t_alloc(t, rows, 0);
    float *want_col = args.col_scale = t_alloc(t, sources, 0);
    float *want_self = args.self_scale = own ? t_alloc(t, rows, 0) : NULL;
    t_expect_ok(t, t->ref->gcn_scales(&args, &t->ws), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        size_t skew = t_random_below(t, 4) * 4;
        args.row_scale = t_alloc(t, rows, skew);
        args.col_scale = t_alloc(t, sources, skew);
        args.self_scale = own ? t_alloc(t, rows, skew) : NULL;
        t_expect_ok(t, t->dev->gcn_scales(&args, t_ws(t, t->dev)), "dev");
        t_close(t, "row_scale", args.row_scale, want_row, csr.n_dst, 4e-7 + sum_error(&csr), 0);
        t_close(t, "col_scale", args.col_scale, want_col, csr.n_src, 4e-7, 0);
        if (own)
            t_close(t, "self_scale", args.self_scale, want_self, csr.n_dst, 6e-7, 0);
    }
    t_end(t);
}

// The formula, for two rows and three sources.
static void scales_by_hand(struct suite *t)
{
    t_begin(t, "gcn_scales by hand, and what it refuses");
    static const uint32_t rows[] = {0, 2, 3}, from[] = {1, 2, 2}, whole[] = {8, 3, 0};
    uint32_t *indptr = t_copy(t, rows, sizeof rows, 0), *indices = t_copy(t, from, sizeof from, 0);
    uint32_t *degrees = t_copy(t, whole, sizeof whole, 0);
    float *row = t_alloc(t, 8, 0), *col = t_alloc(t, 12, 0), *self = t_alloc(t, 8, 0);
    struct sl_gcn_scales_args args = {.csr = {2, 3, 3, indptr, indices}, .degrees = degrees};
    args.own_loop = true, args.row_scale = row, args.col_scale = col, args.self_scale = self;
    static const float graph_row[] = {8.0f / 2 / 3, 3.0f / 1 / 2}, graph_col[] = {1.0f / 3, 0.5, 1};
    static const float graph_self[] = {1.0f / 9, 0.25f};
    // Of the hop: in-edges 2 and 1, out-edges 0, 1 and 2; the third source has no self-loop.
    const float r0 = 1 / sqrtf(3), r1 = 1 / sqrtf(2);
    const float hop_row[] = {r0, r1}, hop_col[] = {1, r1, r1}, hop_self[] = {r0, r1 * r1};
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < 2; k++) {
        args.degrees = degrees;
        t_expect_ok(t, both[k]->gcn_scales(&args, t_ws(t, both[k])), both[k]->name);
        t_close(t, "row_scale", row, graph_row, 2, 3e-7, 0);
        t_close(t, "col_scale", col, graph_col, 3, 3e-7, 0);
        t_close(t, "self_scale", self, graph_self, 2, 3e-7, 0);
        args.degrees = NULL;
        t_expect_ok(t, both[k]->gcn_scales(&args, t_ws(t, both[k])), both[k]->name);
        t_close(t, "row_scale of the hop", row, hop_row, 2, 3e-7, 0);
        t_close(t, "col_scale of the hop", col, hop_col, 3, 3e-7, 0);
        t_close(t, "self_scale of the hop", self, hop_self, 2, 3e-7, 0);
    }
    args.row_scale = NULL;
    t_expect_code(t, t->dev->gcn_scales(&args, t_ws(t, t->dev)), SL_EINVAL, "no row_scale");
    args.row_scale = row;
    args.csr.n_src = 1;
    t_expect_code(t, t->dev->gcn_scales(&args, t_ws(t, t->dev)), SL_EINVAL,
                  "more rows than sources");
    t_end(t);
}

void test_gcn_scales(struct suite *t)
{
    for (size_t s = 0; s + 1 < SL_COUNT_OF(shapes); s++) // the reference's degrees are slow
        for (int k = 0; k < 8; k++)
            if (shapes[s].n_src < 2000 || (k & 1))
                compare_scales(t, s, k & 1, k & 2, k & 4);
    scales_by_hand(t);
}

// ---- join_rows ----------------------------------------------------------------------------------

enum { PARTS_MOST = 70 };

// `n` parts with the same rows; every fifth one has no edge.
static void compare_join(struct suite *t, size_t shape, uint32_t n, uint32_t first)
{
    const uint32_t n_dst = shapes[shape].n_dst;
    if (!t_affords(t, ((double)n_dst * 8 + shapes[shape].hub) * n))
        return;
    t_begin(t, "join_rows n_dst=%u degree=%u hub=%u parts=%u first=%u", n_dst, shapes[shape].degree,
            shapes[shape].hub, n, first);
    struct sl_csr_view part[PARTS_MOST];
    uint32_t source[PARTS_MOST], edges = first;
    for (uint32_t p = 0; p < n; p++) {
        part[p] = t_random_csr(t, n_dst, shapes[shape].n_src, p % 5 == 4 ? 0 : shapes[shape].degree,
                               p % 5 == 4 ? 0 : shapes[shape].hub);
        source[p] = t_random_below(t, 1000);
        edges += part[p].n_edges;
    }
    const size_t row_bytes = ((size_t)n_dst + 1) * 4, ptr_bytes = ((size_t)n_dst * n + 1) * 4;
    const size_t bytes = (size_t)edges * 4;
    struct sl_join_rows_args args = {
        .n_dst = n_dst, .n_parts = n, .part = part, .first_source = source, .first_edge = first};
    uint32_t *rows = args.rows = t_alloc(t, row_bytes, 0);
    uint32_t *indptr = args.indptr = t_alloc(t, ptr_bytes, 0);
    uint32_t *indices = args.indices = t_alloc(t, bytes, 0);
    t_expect_ok(t, t->ref->join_rows(&args), "ref");
    t_expect(t, rows[n_dst] == edges && indptr[(size_t)n_dst * n] == edges, "%u edges: wanted %u",
             rows[n_dst], edges);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        size_t skew = t_random_below(t, 4) * 4;
        args.rows = t_alloc(t, row_bytes, skew);
        args.indptr = t_alloc(t, ptr_bytes, skew);
        args.indices = t_alloc(t, bytes, skew);
        t_expect_ok(t, t->dev->join_rows(&args), "dev");
        t_same_bits(t, "rows", args.rows, rows, row_bytes);
        t_same_bits(t, "indptr", args.indptr, indptr, ptr_bytes);
        t_same_bits(t, "indices", args.indices + first, indices + first, bytes - first * 4ul);
    }
    t_end(t);
}

static void join_by_hand(struct suite *t)
{
    t_begin(t, "join_rows by hand, and what it refuses");
    static const uint32_t a[] = {0, 2, 2}, b[] = {0, 1, 3}, from[] = {4, 0, 1};
    const uint32_t *first = t_copy(t, a, sizeof a, 0), *second = t_copy(t, b, sizeof b, 0);
    const uint32_t *indices = t_copy(t, from, sizeof from, 0);
    const struct sl_csr_view part[] = {{2, 5, 2, first, indices}, {2, 2, 3, second, indices}};
    const uint32_t source[] = {10, 20};
    struct sl_join_rows_args args = {
        .n_dst = 2, .n_parts = 2, .part = part, .first_source = source, .first_edge = 1};
    args.indptr = t_alloc(t, 5 * sizeof *args.indptr, 0);
    args.rows = t_alloc(t, 3 * sizeof *args.rows, 0);
    args.indices = t_alloc(t, 6 * sizeof *args.indices, 0);
    static const uint32_t indptr[] = {1, 3, 4, 4, 6}, rows[] = {1, 4, 6},
                          all[] = {14, 10, 24, 20, 21};
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < 2; k++) {
        t_expect_ok(t, both[k]->join_rows(&args), both[k]->name);
        t_same_bits(t, "indptr", args.indptr, indptr, sizeof indptr);
        t_same_bits(t, "rows", args.rows, rows, sizeof rows);
        t_same_bits(t, "indices", args.indices + 1, all, sizeof all);
    }
    args.first_edge = UINT32_MAX - 4;
    t_expect_code(t, t->dev->join_rows(&args), SL_EINVAL, "2^32 edges");
    args.first_edge = 0;
    args.n_dst = 1;
    t_expect_code(t, t->dev->join_rows(&args), SL_EINVAL, "parts of more rows");
    args.n_dst = 2;
    args.n_parts = 0;
    t_expect_code(t, t->dev->join_rows(&args), SL_EINVAL, "no part");
    args.n_parts = 2;
    args.rows = NULL;
    t_expect_code(t, t->dev->join_rows(&args), SL_EINVAL, "no rows");
    t_end(t);
}

void test_join_rows(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++) {
        compare_join(t, s, 1, 0);
        compare_join(t, s, 3, 17);
        compare_join(t, s, s % 2 ? PARTS_MOST : 33, 5);
    }
    join_by_hand(t);
}
