// One hop of k-hop sampling: what it draws, that it is fair, its limits.
#include "common/base/isa.h"
#include "kernels/cpu/khop_lanes.h"
#include "kernels/khop_internal.h"
#include "tests/unit/kernels_fixture.h"
#include "tests/unit/suite.h"

// Empty rows, short ones, hubs, self loops and edges that are there twice.
static struct graph random_graph(uint32_t n, uint32_t salt)
{
    struct graph g = graph_of_random_degrees(n, salt, 40);
    for (uint32_t v = 0; v < n; v++)
        for (uint64_t e = g.indptr[v]; e < g.indptr[v + 1]; e++) {
            uint32_t r = random_word((uint32_t)e, salt + 1);
            uint32_t u = r % 11 == 0 ? v : (r >> 4) % n;
            set_neighbour(&g, e, r % 13 == 0 && e > g.indptr[v] ? g.narrow[e - 1] : u);
        }
    return g;
}

static struct ask ask_of(int i, const struct graph *g, uint32_t n_dst, int64_t fanout)
{
    return ask_for(SL_SAMPLER_KHOP, i, g, n_dst, fanout);
}

// ---- the definition -----------------------------------------------------------------------------

static const uint32_t fanouts[] = {1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 17, 31, 63, 64, 65, 100, 1000};

LOOP_TEST(rows_follow_the_definition, 0, 4)
{
    const uint32_t degree = 1009, n = 1100;
    struct graph g = graph_of_equals(n, degree);
    for (size_t f = 0; f < SL_COUNT_OF(fanouts); f++) {
        uint32_t k = fanouts[f], position[1009];
        struct ask ask = ask_of(_i % 2, &g, n, k);
        ask.wide = _i / 2;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_OK);
        // The definition of a long row takes k * k steps: of these some rows.
        const uint32_t step = k > 100 ? 37 : 1;
        for (uint32_t i = 0; i < n; i += step) {
            row_uniformly(&key_of_tests, i, degree, k, false, position);
            EXPECT(h.indptr[i + 1] == (i + 1) * k, "row %u", i);
            // Rows are 0 .. n - 1, so a neighbour's local id is its position.
            for (uint32_t slot = 0; slot < k; slot++)
                EXPECT(h.indices[i * k + slot] == position[slot],
                       "fanout %u row %u slot %u: %u, wanted %u", k, i, slot,
                       h.indices[i * k + slot], position[slot]);
        }
        hop_free(&h);
    }
    graph_free(&g);
}

// Computed by another program: a change of these numbers is a change of every run's result.
LOOP_TEST(golden_rows, 0, 2)
{
    static const uint32_t row0[] = {70, 3, 43, 28, 69}, row1[] = {16, 61, 62, 26, 58};
    struct graph g = graph_of_equals(100, 100);
    struct hop h = draw(ask_of(_i, &g, 2, 5));
    // Vertices 0 and 1 are known, the others are numbered as they come.
    for (uint32_t slot = 0; slot < 5; slot++) {
        ck_assert_uint_eq(h.nodes[h.indices[slot]], row0[slot]);
        ck_assert_uint_eq(h.nodes[h.indices[5 + slot]], row1[slot]);
    }
    hop_free(&h);
    graph_free(&g);

    static const struct {
        uint32_t row, degree, k, want[7];
    } cases[] = {
        {2, 6, 5, {0, 2, 1, 4, 5}},
        {3, 1000003, 7, {604023, 556421, 405269, 187530, 151287, 304286, 60875}},
        {4, 3000000000u, 6, {896542086, 1831071171, 360691154, 1664267385, 1238320272, 1729309248}},
        {5, 7, 6, {1, 0, 3, 4, 5, 6}},
    };
    for (size_t c = 0; c < SL_COUNT_OF(cases); c++) {
        struct sl_khop_args args = {
            .seed = SEED, .stream = SL_RNG_SAMPLE, .epoch = 3, .batch = 5, .hop = 2};
        struct sl_khop_lanes lanes;
        for (uint32_t l = 0; l < SL_KHOP_LANES; l++) {
            lanes.row[l] = cases[c].row;
            lanes.degree[l] = cases[c].degree;
        }
        for (enum sl_isa isa = SL_ISA_BASELINE; isa <= SL_ISA_AVX512; isa++) {
            sl_isa_limit(isa);
            sl_khop_lanes_draw(&args, cases[c].k, &lanes);
            for (uint32_t slot = 0; slot < cases[c].k; slot++)
                for (uint32_t l = 0; l < SL_KHOP_LANES; l++)
                    ck_assert_uint_eq(lanes.x[slot][l], cases[c].want[slot]);
        }
    }
}

// Degrees at which words are rejected often, which no graph of a test could have. With each
// instruction set.
LOOP_TEST(lanes_of_any_degree_follow_the_definition, SL_ISA_BASELINE, SL_ISA_AVX512 + 1)
{
    static const uint32_t degrees[] = {
        65,
        66,
        100,
        1u << 16,
        1u << 31,
        (1u << 31) + 1,
        (1u << 31) + 12345,
        3u << 30,
        0xfffffffe,
        0xfffffffd,
        0xaaaaaaab,
        0x80000003,
        1000003,
        67,
        0xf0000000,
        0xc0000001,
    };
    const struct key *key = &key_of_tests;
    struct sl_khop_args args = {.seed = key->seed,
                                .stream = key->stream,
                                .epoch = key->epoch,
                                .batch = key->batch,
                                .hop = key->hop};
    struct sl_khop_lanes lanes;
    sl_isa_limit((enum sl_isa)_i);
    for (uint32_t round = 0; round < 50; round++)
        for (uint32_t k = 1; k <= SL_KHOP_LANE_FANOUT_MAX; k++) {
            for (uint32_t l = 0; l < SL_KHOP_LANES; l++) {
                lanes.row[l] = round * 1000003 + 31 * l;
                lanes.degree[l] = degrees[(l + round) % SL_KHOP_LANES];
            }
            sl_khop_lanes_draw(&args, k, &lanes);
            for (uint32_t l = 0; l < SL_KHOP_LANES; l++) {
                uint32_t want[SL_KHOP_LANE_FANOUT_MAX];
                row_uniformly(key, lanes.row[l], lanes.degree[l], k, false, want);
                for (uint32_t slot = 0; slot < k; slot++)
                    EXPECT(lanes.x[slot][l] == want[slot],
                           "degree %u fanout %u slot %u: %u, not %u", lanes.degree[l], k, slot,
                           lanes.x[slot][l], want[slot]);
            }
        }
}

// ---- fairness -----------------------------------------------------------------------------------

static void expect_chi_square(const char *what, uint32_t degree, uint32_t k, double x, double dof)
{
    double z = chi_square_deviations(x, dof);
    ck_assert_msg(fabs(z) < 4.5,
                  "%s, degree %u fanout %u: chi-square %.1f with %.0f degrees of "
                  "freedom is %.1f deviations off",
                  what, degree, k, x, dof, z);
}

struct fair_case {
    uint32_t degree, k;
};

static const struct fair_case fair_cases[] = {
    {2, 1},   {3, 2},   {5, 2},   {6, 5},   {7, 3},    {8, 4},     {9, 8},
    {11, 10}, {13, 5},  {16, 15}, {17, 16}, {31, 10},  {61, 25},   {64, 63},
    {65, 64}, {97, 64}, {66, 65}, {97, 65}, {101, 96}, {128, 100}, {127, 5},
};

struct tally {
    uint32_t degree, k, rows;
    uint32_t *one;    // (degree) how often each neighbour was drawn
    uint32_t *pair;   // (degree, degree) how often each pair was two random slots of a row
    uint32_t *subset; // (2^degree) for small degrees, else NULL
};

static void count_rows(struct tally *t, const struct hop *h, uint32_t n, uint32_t batch)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *row = h->indices + h->indptr[i];
        uint32_t mask = 0;
        for (uint32_t slot = 0; slot < t->k; slot++) {
            t->one[row[slot]]++;
            mask |= 1u << (row[slot] & 31);
        }
        if (t->subset)
            t->subset[mask]++;
        if (t->k > 1) {
            // Two different slots, chosen without looking at them.
            uint32_t a = random_word(i, 2 * batch) % t->k;
            uint32_t b = random_word(i, 2 * batch + 1) % (t->k - 1);
            b += b >= a;
            t->pair[SL_MIN(row[a], row[b]) * t->degree + SL_MAX(row[a], row[b])]++;
        }
        t->rows++;
    }
}

static void judge_tally(const struct tally *t)
{
    // Draws of one row exclude each other: variance rows p (1 - p), correlation -1 / (degree - 1).
    double p = (double)t->k / t->degree, x = 0, want = t->rows * p;
    for (uint32_t v = 0; v < t->degree; v++)
        x += (t->one[v] - want) * (t->one[v] - want);
    x *= (t->degree - 1.0) / t->degree / (want * (1 - p));
    expect_chi_square("neighbours", t->degree, t->k, x, t->degree - 1.0);

    if (t->k > 1) {
        double pairs = t->degree * (t->degree - 1) / 2.0;
        want = t->rows / pairs;
        x = 0;
        for (uint32_t a = 0; a < t->degree; a++)
            for (uint32_t b = a + 1; b < t->degree; b++) {
                double d = t->pair[a * t->degree + b] - want;
                x += d * d / want;
            }
        expect_chi_square("pairs", t->degree, t->k, x, pairs - 1);
    }
    if (t->subset) {
        double subsets = 0;
        for (uint32_t s = 0; s < 1u << t->degree; s++)
            subsets += __builtin_popcount(s) == (int)t->k;
        want = t->rows / subsets;
        x = 0;
        for (uint32_t s = 0; s < 1u << t->degree; s++) {
            if (__builtin_popcount(s) == (int)t->k)
                x += (t->subset[s] - want) * (t->subset[s] - want) / want;
            else
                EXPECT(t->subset[s] == 0, "a row with a neighbour twice");
        }
        expect_chi_square("subsets", t->degree, t->k, x, subsets - 1);
    }
}

// A sanitizer sees no more in many batches than in some.
#ifdef SL_SANITIZED
enum { FAIR_BATCHES = 15 };
#else
enum { FAIR_BATCHES = 60 };
#endif

LOOP_TEST(every_neighbour_pair_and_subset_is_equally_likely, 0, SL_COUNT_OF(fair_cases))
{
    struct fair_case c = fair_cases[_i];
    const uint32_t n = 1000, batches = FAIR_BATCHES;
    struct tally t = {.degree = c.degree, .k = c.k};
    t.one = calloc(c.degree, sizeof *t.one);
    t.pair = calloc(c.degree * c.degree, sizeof *t.pair);
    t.subset = c.degree <= 9 ? calloc(1u << c.degree, sizeof *t.subset) : NULL;
    struct graph g = graph_of_equals(n, c.degree);
    for (uint32_t batch = 0; batch < batches; batch++) {
        struct ask ask = ask_of(1, &g, n, c.k);
        ask.key = (struct key){SEED, SL_RNG_SAMPLE, 1, batch, 0};
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_OK);
        count_rows(&t, &h, n, batch);
        hop_free(&h);
    }
    judge_tally(&t);
    graph_free(&g);
    free(t.one);
    free(t.pair);
    free(t.subset);
}

// ---- limits -------------------------------------------------------------------------------------

LOOP_TEST(capacities_are_kept, 0, 12)
{
    static const int64_t some[] = {1, 5, 40, 64, 200, -1};
    struct graph g = random_graph(3000, 4);
    struct ask ask = ask_of(_i % 2, &g, 200, some[_i / 2]);
    ask.wide = true;
    expect_capacities_are_kept(ask);
    graph_free(&g);
}

LOOP_TEST(what_can_not_be_is_refused, 0, 2)
{
    struct graph g = graph_of_equals(20, 3);
    static const int64_t bad[] = {0, -2, INT64_MIN, SL_KHOP_FANOUT_MAX + 1, INT64_MAX};
    for (size_t f = 0; f < SL_COUNT_OF(bad); f++) {
        struct hop h = draw(ask_of(_i, &g, 5, bad[f]));
        ck_assert_int_eq(h.rc, SL_EINVAL);
        ck_assert_ptr_nonnull(strstr(sl_error_message(), "fanout"));
        hop_free(&h);
    }
    struct hop h = draw(ask_of(_i, &g, 5, SL_KHOP_FANOUT_MAX));
    ck_assert_int_eq(h.rc, SL_OK);
    hop_free(&h);
    struct ask ask = ask_of(_i, &g, 5, 2);
    ask.key.hop = SL_KHOP_HOPS;
    h = draw(ask);
    ck_assert_int_eq(h.rc, SL_EINVAL);
    hop_free(&h);
    // A row too long for 32-bit positions: nothing of it is read.
    uint64_t indptr[2] = {0, UINT32_MAX};
    struct graph endless = {.n = 1, .indptr = indptr, .narrow = g.narrow, .wide = g.wide};
    for (int64_t fanout = -1; fanout <= 199; fanout += 100) {
        ask = ask_of(_i, &endless, 1, fanout);
        ask.nodes_capacity = 10;
        ask.indices_capacity = 1000;
        h = draw(ask);
        ck_assert_int_eq(h.rc, SL_EUNSUPPORTED);
        hop_free(&h);
    }
    graph_free(&g);
}

RUN_TESTS(.timeout_s = 60)
