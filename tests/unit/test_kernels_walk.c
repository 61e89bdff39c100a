// Random walks: what they draw, their probabilities, their limits.
#include "kernels/khop_internal.h"
#include "kernels/walk_internal.h"
#include "tests/unit/kernels_fixture.h"
#include "tests/unit/suite.h"

static struct ask ask_of(int i, const struct graph *g, uint32_t n_dst, int64_t fanout,
                         uint32_t paths, uint32_t length, float restart)
{
    struct ask ask = ask_for(SL_SAMPLER_WALK, i, g, n_dst, fanout);
    ask.paths = paths;
    ask.length = length;
    ask.restart = restart;
    return ask;
}

static uint32_t row_length(const struct hop *h, uint32_t row)
{
    return h->indptr[row + 1] - h->indptr[row];
}

static float visits_of(const struct hop *h, uint32_t row, uint32_t slot)
{
    return h->visits[h->indptr[row] + slot];
}

// A graph from lists of neighbours, each ended by -1.
static struct graph graph_of_lists(uint32_t n, int32_t (*list)[5])
{
    uint32_t *degrees = calloc(n, sizeof *degrees);
    for (uint32_t v = 0; v < n; v++)
        while (list[v][degrees[v]] >= 0)
            degrees[v]++;
    struct graph g = graph_of_degrees(n, degrees);
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t j = 0; j < degrees[v]; j++)
            set_neighbour(&g, g.indptr[v] + j, (uint32_t)list[v][j]);
    free(degrees);
    return g;
}

// ---- the definition -----------------------------------------------------------------------------

// Computed by another program: a change of these numbers is a change of every run.
LOOP_TEST(golden_rows, 0, 2)
{
    static const uint32_t vertex[3][5] = {
        {3, 38, 69, 4, 1}, {16, 81, 2, 10, 70}, {3, 27, 17, 4, 38}};
    static const float count[3][5] = {{5, 2, 2, 2, 1}, {4, 3, 3, 2, 1}, {6, 3, 2, 2, 1}};
    static int32_t list[100][5];
    for (int32_t v = 0; v < 100; v++) {
        list[v][0] = v % 10 == 9 ? -1 : (v * 7 + 3) % 100;
        list[v][1] = (v * 11 + 5) % 100;
        list[v][2] = (v + 1) % 100;
        list[v][3] = -1;
    }
    struct graph g = graph_of_lists(100, list);
    struct hop h = draw(ask_of(_i, &g, 3, 5, 4, 5, 0.25f));
    ck_assert_int_eq(h.rc, SL_OK);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(row_length(&h, i), 5);
        for (uint32_t slot = 0; slot < 5; slot++) {
            ck_assert_uint_eq(neighbour_of(&h, i, slot), vertex[i][slot]);
            ck_assert(visits_of(&h, i, slot) == count[i][slot]);
        }
    }
    hop_free(&h);
    graph_free(&g);
}

// A ring leaves no choice: vertex i meets i + 1 .. i + length, each by every path.
LOOP_TEST(a_ring_is_walked_along, 0, 2)
{
    enum { N = 300 };
    static int32_t list[N][5];
    for (int32_t v = 0; v < N; v++) {
        list[v][0] = (v + 1) % N;
        list[v][1] = -1;
    }
    struct graph g = graph_of_lists(N, list);
    static const uint32_t lengths[] = {1, 2, 3, 4, 5, 8, 9, 31};
    static const uint32_t paths[] = {1, 2, 7, 8, 9, 16, 17};
    for (size_t l = 0; l < SL_COUNT_OF(lengths); l++)
        for (size_t p = 0; p < SL_COUNT_OF(paths); p++) {
            struct hop h = draw(ask_of(_i, &g, 70, -1, paths[p], lengths[l], 0));
            for (uint32_t i = 0; i < 70; i++) {
                EXPECT(row_length(&h, i) == lengths[l], "row %u: %u neighbours", i,
                       row_length(&h, i));
                for (uint32_t slot = 0; slot < lengths[l]; slot++)
                    EXPECT(neighbour_of(&h, i, slot) == (i + 1 + slot) % N &&
                               visits_of(&h, i, slot) == (float)paths[p],
                           "row %u slot %u: %u, %g visits", i, slot, neighbour_of(&h, i, slot),
                           (double)visits_of(&h, i, slot));
            }
            hop_free(&h);
        }
    // Restarting always, a path takes the first step again and again.
    struct hop h = draw(ask_of(_i, &g, 70, -1, 3, 6, 1));
    for (uint32_t i = 0; i < 70; i++)
        EXPECT(row_length(&h, i) == 1 && visits_of(&h, i, 0) == 18, "row %u", i);
    hop_free(&h);
    graph_free(&g);
}

LOOP_TEST(the_destination_is_never_its_own_neighbour, 0, 2)
{
    // 0: alone. 1: itself alone. 2 and 3: each other. 4: to 0, where paths end.
    static int32_t list[][5] = {{-1}, {1, 1, -1}, {3, -1}, {2, -1}, {0, -1}};
    struct graph g = graph_of_lists(5, list);
    struct hop h = draw(ask_of(_i, &g, 5, -1, 3, 4, 0));
    ck_assert_uint_eq(row_length(&h, 0), 0);
    ck_assert_uint_eq(row_length(&h, 1), 0);
    for (uint32_t i = 2; i < 4; i++) {
        ck_assert_uint_eq(row_length(&h, i), 1);
        ck_assert_uint_eq(neighbour_of(&h, i, 0), 5 - i);
        ck_assert(visits_of(&h, i, 0) == 6); // the steps back are not counted
    }
    ck_assert_uint_eq(row_length(&h, 4), 1);
    ck_assert(visits_of(&h, 4, 0) == 3); // one step a path
    hop_free(&h);
    // With a restart the paths leave 0 again.
    h = draw(ask_of(_i, &g, 5, -1, 3, 4, 1));
    ck_assert(visits_of(&h, 4, 0) == 12);
    hop_free(&h);
    graph_free(&g);
}

// ---- probabilities ------------------------------------------------------------------------------

struct fair_case {
    uint32_t paths, length;
    float restart;
    int64_t fanout;
};

static const struct fair_case fair_cases[] = {
    {1, 1, 0, -1},    {1, 3, 0, -1},     {1, 3, 0.5f, -1}, {2, 2, 0, -1},    {2, 2, 0.25f, -1},
    {1, 5, 0.25f, 2}, {3, 2, 0.125f, 2}, {2, 3, 0, 1},     {2, 3, 0.75f, 2}, {1, 6, 0.5f, 3},
};

// Vertex 0 and its surroundings: a self loop, an edge twice, a way back, an end.
static int32_t fair_graph[][5] = {
    {1, 2, 2, 0, -1}, {0, 3, -1}, {1, 3, 4, -1}, {-1}, {4, 2, 0, 1, -1},
};
enum { FAIR_N = 5 };

struct state {
    const struct fair_case *f;
    uint32_t n; // met so far, in order
    uint8_t met[16];
};

// The neighbours and visits that the definition makes of what was met.
static uint64_t outcome_of_met(const struct state *s)
{
    uint32_t count[FAIR_N] = {0}, first[FAIR_N];
    uint64_t outcome = 0;
    for (uint32_t i = s->n; i-- > 0;) {
        count[s->met[i]]++;
        first[s->met[i]] = i;
    }
    for (int64_t taken = 0; taken != s->f->fanout; taken++) {
        uint32_t best = FAIR_N;
        for (uint32_t v = 0; v < FAIR_N; v++)
            if (count[v] > 0 && (best == FAIR_N || count[v] > count[best] ||
                                 (count[v] == count[best] && first[v] < first[best])))
                best = v;
        if (best == FAIR_N)
            break;
        outcome = outcome << 8 | (best + 1) << 4 | count[best];
        count[best] = 0;
    }
    return outcome;
}

static void enumerate(struct cells *c, const struct state *s, uint32_t path, uint32_t step,
                      uint32_t at, double p)
{
    const struct fair_case *f = s->f;
    if (path == f->paths) {
        add_probability(c, outcome_of_met(s), p);
        return;
    }
    if (step == f->length) {
        enumerate(c, s, path + 1, 0, 0, p);
        return;
    }
    for (int back = 0; back < 2; back++) {
        double q = step == 0 ? 1.0 - back : back ? (double)f->restart : 1 - (double)f->restart;
        const int32_t *list = fair_graph[back ? 0 : at];
        uint32_t degree = 0;
        if (q == 0)
            continue;
        while (list[degree] >= 0)
            degree++;
        if (degree == 0)
            enumerate(c, s, path + 1, 0, 0, p * q);
        for (uint32_t j = 0; j < degree; j++) {
            struct state next = *s;
            if (list[j] != 0)
                next.met[next.n++] = (uint8_t)list[j];
            enumerate(c, &next, path, step + 1, (uint32_t)list[j], p * q / degree);
        }
    }
}

static uint64_t outcome_of_row(const struct hop *h, uint32_t row, uint32_t base)
{
    uint64_t outcome = 0;
    for (uint32_t slot = 0; slot < row_length(h, row); slot++)
        outcome = outcome << 8 | (neighbour_of(h, row, slot) - base + 1) << 4 |
                  (uint32_t)visits_of(h, row, slot);
    return outcome;
}

LOOP_TEST(every_outcome_has_its_probability, 0, SL_COUNT_OF(fair_cases))
{
    enum { COPIES = 500, BATCHES = 100 };
    struct cells c = {0};
    struct state s = {.f = &fair_cases[_i]};
    enumerate(&c, &s, 0, 0, 0, 1);
    // Many copies of the graph; their vertices 0 come first, so that they are the rows.
    static int32_t list[COPIES * FAIR_N][5];
    for (int32_t copy = 0; copy < COPIES; copy++)
        for (int32_t v = 0; v < FAIR_N; v++)
            for (int32_t j = 0; j < 5; j++) {
                int32_t u = fair_graph[v][j];
                int32_t row = v == 0 ? copy : COPIES + copy * (FAIR_N - 1) + v - 1;
                list[row][j] = u < 0 ? -1 : u == 0 ? copy : COPIES + copy * (FAIR_N - 1) + u - 1;
                if (u < 0)
                    break;
            }
    struct graph g = graph_of_lists(COPIES * FAIR_N, list);
    struct sl_idmap *map;
    ck_assert_int_eq(sl_idmap_create(1, &map), SL_OK);
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        struct ask ask = ask_of(1, &g, COPIES, s.f->fanout, s.f->paths, s.f->length, s.f->restart);
        ask.key.batch = batch;
        ask.map = map;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_OK);
        for (uint32_t i = 0; i < COPIES; i++)
            count_outcome(&c, outcome_of_row(&h, i, COPIES + i * (FAIR_N - 1) - 1));
        hop_free(&h);
    }
    judge(&c, "outcomes");
    sl_idmap_destroy(map);
    cells_free(&c);
    graph_free(&g);
}

// ---- rows as a whole ----------------------------------------------------------------------------

// Words that are rejected: degrees at which that happens in more than a quarter of the draws.
TEST(rejected_words_are_drawn_again)
{
    static const uint32_t degrees[] = {1, 3, 0xc0000001, 0xaaaaaaab, 0x80000001, 0xfffffffe};
    for (size_t d = 0; d < SL_COUNT_OF(degrees); d++) {
        uint32_t n = degrees[d], again = 0;
        struct sl_khop_args args = {.seed = SEED, .stream = 1, .epoch = 3, .batch = 5, .hop = 2};
        for (uint32_t i = 0; i < 3000; i++) {
            uint32_t group = i % 7, step = i % 9, want = 0, first = 0, attempt = 0;
            for (; attempt < 16; attempt++) {
                uint32_t c0 = group | (2 | attempt << 3) << 16 | 1u << 24;
                uint32_t word = sl_philox(SEED, c0, i, 5, 3).w[step % 4];
                if (attempt == 0)
                    first = word;
                want = (uint32_t)((uint64_t)word * n >> 32);
                if ((uint32_t)((uint64_t)word * n) >= (UINT64_C(0x100000000) - n) % n)
                    break;
            }
            again += attempt > 0;
            uint32_t got = sl_walk_move(&args, i, group, step, first, n);
            EXPECT(got == want, "degree %u row %u: %u, wanted %u", n, i, got, want);
        }
        EXPECT(n < 1u << 31 || n == 0xfffffffe || again > 600, "degree %u: %u rejected", n, again);
    }
}

// ---- what it depends on, and limits -------------------------------------------------------------

LOOP_TEST(what_can_not_be_is_refused, 0, 2)
{
    static const struct {
        uint32_t paths, length;
        float restart;
        int64_t fanout;
        const char *word;
    } bad[] = {
        {1, 0, 0, 5, "0 steps"},
        {1, 3, -0.1f, 5, "restart"},
        {1, 3, 1.5f, 5, "restart"},
        {1, 3, NAN, 5, "restart"},
        {1, 3, 0, 0, "fanout"},
        {1, 3, 0, -2, "fanout"},
        {(1 << 16) + 1, 1, 0, 5, "at most"},
        {1, (1 << 18) + 1, 0, 5, "at most"},
        {UINT32_MAX, UINT32_MAX, 0, 5, "at most"},
    };
    static int32_t list[][5] = {{1, -1}, {0, -1}};
    struct graph g = graph_of_lists(2, list);
    for (size_t b = 0; b < SL_COUNT_OF(bad); b++) {
        struct ask ask =
            ask_of(_i, &g, 1, bad[b].fanout, bad[b].paths, bad[b].length, bad[b].restart);
        ask.indices_capacity = 10;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_EINVAL);
        ck_assert_msg(strstr(sl_error_message(), bad[b].word) != NULL, "%s", sl_error_message());
        hop_free(&h);
    }
    // The most there can be.
    struct hop h = draw(ask_of(_i, &g, 1, 5, 1, 1 << 18, 0));
    ck_assert_int_eq(h.rc, SL_OK);
    ck_assert(visits_of(&h, 0, 0) == 1 << 17);
    hop_free(&h);
    // A row too long for 32-bit positions: nothing of it is read.
    uint64_t indptr[3] = {0, 1, UINT32_MAX}, *short_one = g.indptr;
    g.indptr = indptr;
    indptr[2]++;
    h = draw(ask_of(_i, &g, 1, 5, 1, 2, 0));
    ck_assert_int_eq(h.rc, SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "vertex 1 "));
    hop_free(&h);
    g.indptr = short_one;
    graph_free(&g);
}

RUN_TESTS(.timeout_s = 120)
