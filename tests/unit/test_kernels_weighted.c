// Sampling by weight: what it draws, its probabilities, its limits.
#include "kernels/cpu/weighted_lane.h"
#include "kernels/khop_internal.h"
#include "kernels/weighted_internal.h"
#include "tests/unit/kernels_fixture.h"
#include "tests/unit/suite.h"

static struct ask ask_of(int i, const struct graph *g, uint32_t n_dst, int64_t fanout)
{
    return ask_for(SL_SAMPLER_WEIGHTED, i, g, n_dst, fanout);
}

// ---- the running sums ---------------------------------------------------------------------------

static float weight_over_all_scales(uint32_t i)
{
    uint32_t r = random_word(i, 77);
    return r % 5 == 0 ? 0.0f : ldexpf(1.0f + (float)(r >> 9) / 8388608.0f, (int)(r % 250) - 140);
}

TEST(sums_are_those_of_the_weights)
{
    // Ordinary weights: each sum is the exact one.
    static const float weight[] = {3, 0.25f, 0, 7, 1e-3f, 0, 100, 2.5e-6f};
    double prefix[8], sum = 0;
    ck_assert_uint_eq(sl_weighted_prefix_row(weight, 8, prefix), 8);
    for (int j = 0; j < 8; j++) {
        sum += (double)weight[j];
        ck_assert(prefix[j] == sum);
    }
}

TEST(differences_of_sums_are_exact)
{
    enum { N = 3000 };
    static float weight[N];
    static double prefix[N];
    for (uint32_t round = 0; round < 20; round++) {
        double sum = 0;
        for (uint32_t j = 0; j < N; j++) {
            weight[j] = weight_over_all_scales(j + round * N);
            sum += (double)weight[j];
        }
        EXPECT(sl_weighted_prefix_row(weight, N, prefix) == N, "refused");
        double unit = ldexp(1, ilogb(sum) + 1 - 52), before = 0;
        for (uint32_t j = 0; j < N; j++) {
            double units = prefix[j] / unit, w = prefix[j] - before;
            EXPECT(units == floor(units) && units < 0x1p53, "sum %u is not on the grid", j);
            EXPECT((w > 0) == (weight[j] > 0), "edge %u: %g for a weight of %g", j, w,
                   (double)weight[j]);
            EXPECT(fabs(w - (double)weight[j]) <= unit, "edge %u: %g for a weight of %g", j, w,
                   (double)weight[j]);
            if ((double)weight[j] > sum * 0x1p-28)
                EXPECT(w == (double)weight[j], "edge %u is rounded", j);
            before = prefix[j];
        }
    }
}

TEST(the_smallest_and_the_largest_weights_have_sums)
{
    const float weight[] = {1e-45f, 0, 1e-45f, 3.4028235e38f, 3.4028235e38f, 1e-45f, -0.0f};
    double prefix[7];
    ck_assert_uint_eq(sl_weighted_prefix_row(weight, 7, prefix), 7);
    for (int j = 1; j < 7; j++)
        ck_assert(weight[j] > 0 ? prefix[j] > prefix[j - 1] : prefix[j] == prefix[j - 1]);
    ck_assert(isfinite(prefix[6]));
    ck_assert_uint_eq(sl_weighted_prefix_row(weight, 3, prefix), 3);
    ck_assert(prefix[0] == (double)weight[0] && prefix[2] == 2 * (double)weight[0]);
    const float none[] = {0, 0};
    ck_assert_uint_eq(sl_weighted_prefix_row(none, 2, prefix), 2);
    ck_assert(prefix[0] == 0 && prefix[1] == 0);
}

// ---- the definition -----------------------------------------------------------------------------

static const uint32_t fanouts[] = {1, 2, 3, 7, 10, 15, 16, 17, 63, 64, 65, 100, 511, 512, 513, 900};

LOOP_TEST(rows_follow_the_definition, 0, 4)
{
    enum { DEGREE = 1009, N = 1100, ROWS = 70 };
    static float weight[DEGREE];
    static double exact[DEGREE]; // whole numbers, so that sums are
    static uint32_t edge[DEGREE];
    for (uint32_t e = 0; e < DEGREE; e++) {
        uint32_t r = random_word(e, 5);
        exact[e] = weight[e] = r % 3 == 0 ? 0.0f : (float)(r >> 8 >> (r % 24));
    }
    struct graph g = graph_of_weights(N, DEGREE, weight);
    for (size_t f = 0; f < SL_COUNT_OF(fanouts); f++) {
        struct ask ask = ask_of(_i % 2, &g, ROWS, fanouts[f]);
        ask.wide = _i / 2;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_OK);
        for (uint32_t i = 0; i < ROWS; i++) {
            uint32_t n = row_by_weight(&key_of_tests, i, exact, DEGREE, fanouts[f], false, edge);
            EXPECT(h.indptr[i + 1] - h.indptr[i] == n, "fanout %u row %u: %u edges, wanted %u",
                   fanouts[f], i, h.indptr[i + 1] - h.indptr[i], n);
            for (uint32_t slot = 0; slot < n; slot++)
                EXPECT(neighbour_of(&h, i, slot) == edge[slot],
                       "fanout %u row %u slot %u: %u, wanted %u", fanouts[f], i, slot,
                       neighbour_of(&h, i, slot), edge[slot]);
        }
        hop_free(&h);
    }
    graph_free(&g);
}

// Computed by another program, in fractions: a change of these numbers is a change of every run.
LOOP_TEST(golden_rows, 0, 2)
{
    static const uint32_t many[2][5] = {{85, 65, 82, 17, 38}, {41, 79, 75, 97, 72}};
    static const uint32_t all[] = {40, 70, 90}, two[2][2] = {{90, 70}, {40, 90}};
    float weight[100];
    for (uint32_t e = 0; e < 100; e++)
        weight[e] = e % 7 == 0 ? 0.0f : (float)(e + 1);
    struct graph g = graph_of_weights(100, 100, weight);
    struct hop h = draw(ask_of(_i, &g, 2, 5));
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t slot = 0; slot < 5; slot++)
            ck_assert_uint_eq(neighbour_of(&h, i, slot), many[i][slot]);
    hop_free(&h);
    graph_free(&g);
    for (uint32_t e = 0; e < 100; e++)
        weight[e] = e == 40 || e == 70 || e == 90 ? (float)e : 0.0f;
    g = graph_of_weights(100, 100, weight);
    h = draw(ask_of(_i, &g, 1, 5));
    ck_assert_uint_eq(h.n_edges, 3);
    for (uint32_t slot = 0; slot < 3; slot++)
        ck_assert_uint_eq(neighbour_of(&h, 0, slot), all[slot]);
    hop_free(&h);
    h = draw(ask_of(_i, &g, 2, 2));
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t slot = 0; slot < 2; slot++)
            ck_assert_uint_eq(neighbour_of(&h, i, slot), two[i][slot]);
    hop_free(&h);
    graph_free(&g);
}

// ---- probabilities ------------------------------------------------------------------------------

struct fair_case {
    uint32_t degree, k;
    float weight[8];
};

static const struct fair_case fair_cases[] = {
    {2, 1, {1, 1}},
    {2, 1, {1, 99}},
    {3, 1, {0.5f, 0, 0.25f}},
    {3, 2, {1, 1, 1}},
    {3, 2, {1, 2, 3}},
    {4, 2, {1000, 1, 1, 2}},
    {4, 3, {5, 0.1f, 0.2f, 0.7f}},
    {4, 2, {1, 1e-30f, 3, 1e-30f}},
    {5, 2, {0, 3, 0, 1, 2}},
    {5, 4, {1, 2, 4, 8, 16}},
    {6, 2, {0, 0, 7, 5, 3, 0}},
    {6, 3, {1e-20f, 2e-20f, 4e-20f, 1e-20f, 0, 9e-20f}},
    {8, 2, {1, 1, 1, 1, 1, 1, 1, 100}},
    {8, 3, {8, 7, 6, 5, 4, 3, 2, 1}},
};

// All ordered draws of a row and their probabilities, by the law itself.
static void enumerate(struct cells *c, const struct fair_case *f, uint32_t slot, uint32_t taken,
                      uint64_t outcome, double p)
{
    double left = 0;
    for (uint32_t e = 0; e < f->degree; e++)
        left += taken >> e & 1 ? 0 : (double)f->weight[e];
    if (slot == f->k) {
        add_probability(c, outcome, p);
        return;
    }
    for (uint32_t e = 0; e < f->degree; e++)
        if (!(taken >> e & 1) && f->weight[e] > 0)
            enumerate(c, f, slot + 1, taken | 1u << e, outcome << 4 | (e + 1),
                      p * (double)f->weight[e] / left);
}

static uint64_t outcome_of(const struct hop *h, uint32_t row)
{
    uint64_t outcome = 0;
    for (uint32_t slot = 0; slot < h->indptr[row + 1] - h->indptr[row]; slot++)
        outcome = outcome << 4 | (neighbour_of(h, row, slot) + 1);
    return outcome;
}

LOOP_TEST(every_order_of_draws_has_its_probability, 0, SL_COUNT_OF(fair_cases))
{
    enum { N = 1000, BATCHES = 60 };
    const struct fair_case *f = &fair_cases[_i];
    struct cells c = {0};
    uint32_t positive = 0;
    for (uint32_t e = 0; e < f->degree; e++)
        positive += f->weight[e] > 0;
    ck_assert_uint_gt(positive, f->k); // else the order is the file's
    enumerate(&c, f, 0, 0, 0, 1);
    struct graph g = graph_of_weights(N, f->degree, f->weight);
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        struct ask ask = ask_of(1, &g, N, f->k);
        ask.key.batch = batch;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_OK);
        for (uint32_t i = 0; i < N; i++)
            count_outcome(&c, outcome_of(&h, i));
        hop_free(&h);
    }
    judge(&c, "orders");
    cells_free(&c);
    graph_free(&g);
}

// Weights over thirty orders of magnitude in rows of many edges: how often each edge is the first
// one, and the second one, whose probability is a sum over all first ones.
LOOP_TEST(wide_rows_have_their_probabilities, 0, 10)
{
    enum { N = 1000, BATCHES = 40 };
    static const uint32_t degrees[] = {40, 64, 65, 200, 1000};
    static float weight[N];
    static double p[N];
    const uint32_t degree = degrees[_i / 2];
    struct cells first = {0}, second = {0};
    double sum = 0;
    for (uint32_t e = 0; e < degree; e++) {
        weight[e] = (float)pow(10, 30.0 * random_word(e, 6) * 0x1p-32 - 15);
        sum += (double)weight[e];
    }
    for (uint32_t e = 0; e < degree; e++) {
        add_probability(&first, e, (double)weight[e] / sum);
        p[e] = 0;
        for (uint32_t j = 0; j < degree; j++)
            p[e] += j == e
                        ? 0
                        : (double)weight[j] / sum * (double)weight[e] / (sum - (double)weight[j]);
    }
    for (uint32_t e = 0; e < degree; e++)
        add_probability(&second, e, p[e]);
    struct graph g = graph_of_weights(N, degree, weight);
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        struct ask ask = ask_of(_i % 2, &g, N, 2);
        ask.key.batch = batch;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_OK);
        for (uint32_t i = 0; i < N; i++) {
            count_outcome(&first, neighbour_of(&h, i, 0));
            count_outcome(&second, neighbour_of(&h, i, 1));
        }
        hop_free(&h);
    }
    judge(&first, "first draws");
    judge(&second, "second draws");
    cells_free(&first);
    cells_free(&second);
    graph_free(&g);
}

// ---- rows as a whole ----------------------------------------------------------------------------

TEST(the_largest_fanout_takes_every_edge_once)
{
    const uint32_t degree = SL_KHOP_FANOUT_MAX + 5000;
    struct graph g = graph_of_degrees(1, &degree);
    for (uint32_t e = 0; e < degree; e++) {
        set_neighbour(&g, e, e);
        g.weight[e] = (float)(1 + random_word(e, 4) % 1000);
    }
    sum_weights(&g);
    struct ask ask = ask_of(1, &g, 1, SL_KHOP_FANOUT_MAX);
    ask.nodes_capacity = degree + 1;
    struct hop h = draw(ask);
    ck_assert_int_eq(h.rc, SL_OK);
    ck_assert_uint_eq(h.n_edges, SL_KHOP_FANOUT_MAX);
    uint8_t *seen = calloc(degree, 1);
    for (uint32_t slot = 0; slot < h.n_edges; slot++)
        EXPECT(!seen[neighbour_of(&h, 0, slot)]++, "slot %u: an edge twice", slot);
    free(seen);
    hop_free(&h);
    graph_free(&g);
}

// One edge with all but 2^-50 of the weight: what is left is still drawn by its own shares.
LOOP_TEST(a_row_that_is_nearly_one_edge, 0, 2)
{
    enum { N = 4000 };
    static const float weight[] = {0x1p-50f, 1, 0x1p-49f, 0, 0x1p-50f};
    struct graph g = graph_of_weights(N, 5, weight);
    struct hop h = draw(ask_of(_i, &g, N, 2));
    struct cells c = {0};
    add_probability(&c, 0, 0.25);
    add_probability(&c, 2, 0.5);
    add_probability(&c, 4, 0.25);
    for (uint32_t i = 0; i < N; i++) {
        EXPECT(neighbour_of(&h, i, 0) == 1, "row %u begins with %u", i, neighbour_of(&h, i, 0));
        count_outcome(&c, neighbour_of(&h, i, 1));
    }
    judge(&c, "what is left");
    cells_free(&c);
    hop_free(&h);
    graph_free(&g);
}

// ---- what it depends on, and limits -------------------------------------------------------------

LOOP_TEST(what_can_not_be_is_refused, 0, 2)
{
    static const float weight[] = {1, 2, 3};
    static const int64_t bad[] = {0, -2, INT64_MIN, SL_KHOP_FANOUT_MAX + 1, INT64_MAX};
    struct graph g = graph_of_weights(20, 3, weight);
    for (size_t f = 0; f < SL_COUNT_OF(bad); f++) {
        struct hop h = draw(ask_of(_i, &g, 5, bad[f]));
        ck_assert_int_eq(h.rc, SL_EINVAL);
        ck_assert_ptr_nonnull(strstr(sl_error_message(), "fanout"));
        hop_free(&h);
    }
    double *prefix = g.prefix;
    g.prefix = NULL;
    struct hop h = draw(ask_of(_i, &g, 5, 2));
    ck_assert_int_eq(h.rc, SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "weight"));
    hop_free(&h);
    g.prefix = prefix;
    // A row too long for 32-bit positions: nothing of it is read.
    uint64_t indptr[2] = {0, UINT32_MAX}, *short_one = g.indptr;
    g.indptr = indptr;
    g.n = 1;
    for (int64_t fanout = -1; fanout <= 199; fanout += 100) {
        struct ask ask = ask_of(_i, &g, 1, fanout);
        ask.nodes_capacity = 10;
        ask.indices_capacity = 1000;
        h = draw(ask);
        ck_assert_int_eq(h.rc, SL_EUNSUPPORTED);
        hop_free(&h);
    }
    g.indptr = short_one;
    graph_free(&g);
}

RUN_TESTS(.timeout_s = 120)
