// Layer-neighbour sampling: what it draws, that it is fair and shared.
#include "kernels/labor_internal.h"
#include "tests/unit/kernels_fixture.h"
#include "tests/unit/suite.h"

static struct ask ask_of(int i, const struct graph *g, uint32_t n_dst, int64_t fanout)
{
    return ask_for(SL_SAMPLER_LABOR, i, g, n_dst, fanout);
}

// Computed by another program: a change of these numbers is a change of every run.
LOOP_TEST(golden_rows, 0, 4)
{
    static const uint32_t want[3][4] = {{18, 23, 28, 43}, {20, 25, 45, 50}, {22, 27, 42, 47}};
    uint32_t degrees[100];
    for (uint32_t v = 0; v < 100; v++)
        degrees[v] = 10;
    struct graph g = graph_of_degrees(100, degrees);
    for (uint32_t v = 0; v < 100; v++)
        for (uint32_t j = 0; j < 10; j++)
            set_neighbour(&g, g.indptr[v] + j, (7 * v + 3 + 5 * j) % 100);
    struct ask ask = ask_of(_i % 2, &g, 3, 4);
    ask.wide = _i / 2;
    struct hop h = draw(ask);
    ck_assert_int_eq(h.rc, SL_OK);
    ck_assert_uint_eq(h.n_edges, 12);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t slot = 0; slot < 4; slot++)
            ck_assert_uint_eq(neighbour_of(&h, i, slot), want[i][slot]);
    hop_free(&h);
    graph_free(&g);
}

struct fair_case {
    uint32_t degree, k;
};

static const struct fair_case fair_cases[] = {{2, 1},   {5, 2},    {9, 8},     {31, 10}, {64, 15},
                                              {97, 64}, {127, 63}, {300, 250}, {1000, 5}};

// Each neighbour of a row is as likely as any other: numbers of many batches.
LOOP_TEST(every_neighbour_is_as_likely, 0, SL_COUNT_OF(fair_cases))
{
    enum { BATCHES = 4000 };
    const struct fair_case *c = &fair_cases[_i];
    struct graph g = graph_of_equals(c->degree, c->degree);
    uint32_t *count = calloc(c->degree, sizeof *count);
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        struct ask ask = ask_of(1, &g, 1, c->k);
        ask.key.batch = batch;
        struct hop h = draw(ask);
        EXPECT(h.n_edges == c->k, "%u edges", h.n_edges);
        for (uint32_t slot = 0; slot < c->k; slot++)
            count[neighbour_of(&h, 0, slot)]++;
        hop_free(&h);
    }
    // Draws without replacement: the variance of a count is that of a share times (d - k) / (d -
    // 1).
    double want = (double)BATCHES * c->k / c->degree, x = 0;
    for (uint32_t j = 0; j < c->degree; j++)
        x += (count[j] - want) * (count[j] - want) / want;
    x *= (c->degree - 1.0) / (c->degree - c->k);
    double z = chi_square_deviations(x, c->degree - 1.0);
    ck_assert_msg(fabs(z) < 4.5 || (c->degree < 5 && z < 4.5), "degree %u fanout %u: %.1f off",
                  c->degree, c->k, z);
    free(count);
    graph_free(&g);
}

LOOP_TEST(capacities_are_kept, 0, 2)
{
    struct graph g = graph_of_random_degrees(400, 3, 12);
    for (uint64_t e = 0; e < g.n_edges; e++)
        set_neighbour(&g, e, random_word((uint32_t)e, 5) % 400);
    expect_capacities_are_kept(ask_of(_i, &g, 30, 4));
    graph_free(&g);
}

RUN_TESTS(.timeout_s = 120)
