// Hops that do not see some edges: equal to hops of the smaller graph; and how edges are found.
#include "common/base/isa.h"
#include "kernels/exclusion.h"
#include "tests/unit/kernels_fixture.h"
#include "tests/unit/suite.h"

enum { N = 420, SEEDS = 300 };

// Empty rows, short ones, rows as long as vectors and chunks, hubs above every boundary; self-loops
// and edges that are there twice. With `rise` in order.
static struct graph make_graph(uint32_t salt, bool rise)
{
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 513, 1025};
    uint32_t degree[N];
    for (uint32_t v = 0; v < N; v++) {
        const uint32_t r = random_word(v, salt);
        degree[v] = r % 9 == 0   ? 0
                    : r % 9 < 4  ? lengths[r / 9 % SL_COUNT_OF(lengths)]
                    : r % 83 < 2 ? 1500 + r % 2000
                                 : r % 40;
    }
    struct graph g = graph_of_degrees(N, degree);
    for (uint32_t v = 0; v < N; v++)
        for (uint64_t e = g.indptr[v]; e < g.indptr[v + 1]; e++) {
            const uint32_t r = random_word((uint32_t)e, salt + 1),
                           place = (uint32_t)e - (uint32_t)g.indptr[v];
            uint32_t u = r % 11 == 0 ? v : (r >> 4) % N;
            if (rise)
                u = (uint32_t)((uint64_t)place * N / degree[v]);
            set_neighbour(&g, e, !rise && r % 13 == 0 && place > 0 ? g.narrow[e - 1] : u);
        }
    return g;
}

// Weights that are whole multiples of any row's unit, or all kinds of them.
static void make_weights(struct graph *g, uint32_t salt, bool exact)
{
    for (uint64_t e = 0; e < g->n_edges; e++) {
        const uint32_t r = random_word((uint32_t)e, salt);
        g->weight[e] = r % 5 == 0 ? 0.0f
                       : exact    ? (float)(r >> 24) / 64
                                  : expf((float)(r >> 16) / 3000);
    }
    sum_weights(g);
}

// Rows 0 .. SEEDS - 1 lose no edge, one, all, all but one, every other one or some.
struct cut {
    bool *gone; // (n_edges)
    struct sl_excluded excluded;
    uint32_t *offsets, *place;
    struct graph rest;
    uint64_t *edge_of; // (rest.n_edges) number in the whole graph
};

static bool is_cut(uint32_t v, uint32_t place, uint32_t degree, uint32_t salt)
{
    const uint32_t r = random_word(v * 4096 + place, salt);
    switch (random_word(v, salt) % 7) {
    case 0: return false;
    case 1: return place == random_word(v, salt + 1) % degree;
    case 2: return true;
    case 3: return place != random_word(v, salt + 1) % degree;
    case 4: return place % 2;
    case 5: return r % 50 == 0;
    default: return r % 3 > 0;
    }
}

static struct cut make_cut(const struct graph *g, uint32_t salt, bool exact)
{
    struct cut c = {.gone = calloc(g->n_edges + 1, 1)};
    uint32_t degree[N] = {0}, n = 0;
    c.offsets = calloc(SEEDS + 1, sizeof *c.offsets);
    c.place = calloc(g->n_edges + 1, sizeof *c.place);
    for (uint32_t v = 0; v < N; v++) {
        const uint32_t d = (uint32_t)(g->indptr[v + 1] - g->indptr[v]);
        degree[v] = d;
        for (uint32_t i = 0; v < SEEDS && i < d; i++)
            if (is_cut(v, i, d, salt)) {
                c.gone[g->indptr[v] + i] = true;
                c.place[n++] = i;
                degree[v]--;
            }
        if (v < SEEDS)
            c.offsets[v + 1] = n;
    }
    c.excluded = (struct sl_excluded){SEEDS, c.offsets, c.place};
    c.rest = graph_of_degrees(N, degree);
    c.edge_of = calloc(g->n_edges + 1, sizeof *c.edge_of);
    uint64_t to = 0;
    for (uint32_t v = 0; v < N; v++) {
        double sum = 0;
        for (uint64_t e = g->indptr[v]; e < g->indptr[v + 1]; e++) {
            if (c.gone[e])
                continue;
            sum += g->prefix[e] - (e > g->indptr[v] ? g->prefix[e - 1] : 0.0);
            set_neighbour(&c.rest, to, g->narrow[e]);
            c.rest.weight[to] = g->weight[e];
            c.rest.prefix[to] = sum;
            c.edge_of[to++] = e;
        }
    }
    ck_assert_uint_eq(to, c.rest.n_edges);
    if (exact) { // the sums of the smaller graph are those that its own weights have
        double *sums = c.rest.prefix;
        c.rest.prefix = calloc(to + 1, sizeof *sums);
        sum_weights(&c.rest);
        ck_assert_mem_eq(sums, c.rest.prefix, to * sizeof *sums);
        free(sums);
    }
    return c;
}

static void cut_free(struct cut *c)
{
    graph_free(&c->rest);
    free(c->gone);
    free(c->offsets);
    free(c->place);
    free(c->edge_of);
}

// What the whole graph gives without the edges is what the smaller graph gives.
static void compare(struct ask ask, const struct graph *g, const struct cut *c)
{
    ask.edge_ids = ask.kind != SL_SAMPLER_WALK;
    ask.graph = g;
    ask.excluded = &c->excluded;
    struct hop got = draw(ask);
    ask.graph = &c->rest;
    ask.excluded = NULL;
    struct hop want = draw(ask);
    ck_assert_int_eq(got.rc, SL_OK);
    ck_assert_int_eq(want.rc, SL_OK);
    for (uint32_t i = 0; i <= ask.n_dst; i++)
        EXPECT(got.indptr[i] == want.indptr[i], "fanout %lld, row %u ends at %u, wanted %u",
               (long long)ask.fanout, i, got.indptr[i], want.indptr[i]);
    for (uint32_t i = 0, e = 0; i < ask.n_dst; i++)
        for (; e < want.indptr[i + 1]; e++)
            EXPECT(got.indices[e] == want.indices[e] &&
                       (!ask.edge_ids || got.edge_ids[e] == c->edge_of[want.edge_ids[e]]) &&
                       (ask.kind != SL_SAMPLER_WALK || got.visits[e] == want.visits[e]),
                   "fanout %lld, row %u: edge %u differs", (long long)ask.fanout, i, e);
    ck_assert_uint_eq(got.n_nodes, want.n_nodes);
    ck_assert_mem_eq(got.nodes, want.nodes, want.n_nodes * sizeof *want.nodes);
    hop_free(&got);
    hop_free(&want);
}

// ref, and cpu with each instruction set.
static struct ask begin(int i, enum sl_sampler_kind kind, const struct graph *g, uint32_t n_dst)
{
    if (i > 0)
        sl_isa_limit((enum sl_isa)(SL_ISA_BASELINE + i - 1));
    struct ask ask = ask_for(kind, i > 0, g, n_dst, 0);
    ask.paths = 6;
    ask.length = 5;
    ask.restart = 0.3f;
    return ask;
}
enum { BACK_ENDS = 1 + SL_ISA_AVX512 - SL_ISA_BASELINE + 1 };

LOOP_TEST(hops_are_those_of_the_smaller_graph, 0, BACK_ENDS *SL_SAMPLER_KINDS)
{
    static const int64_t fanouts[] = {1, 2, 5, 15, 16, 63, 64, 65, 100, 700, 3000, -1};
    const enum sl_sampler_kind kind = (enum sl_sampler_kind)(_i % SL_SAMPLER_KINDS);
    for (uint32_t salt = 0; salt < 3; salt++) {
        struct graph g = make_graph(10 * salt, salt == 1);
        make_weights(&g, salt, salt == 2);
        struct cut c = make_cut(&g, 100 + salt, salt == 2);
        // Rows behind those of the seeds are of a later hop.
        struct ask ask = begin(_i / SL_SAMPLER_KINDS, kind, &g, salt == 0 ? SEEDS : N);
        ask.wide = salt == 1;
        for (size_t f = 0; f < SL_COUNT_OF(fanouts); f++) {
            ask.fanout = fanouts[f];
            ask.replace = false;
            compare(ask, &g, &c);
            ask.replace = sl_sampler_flags[kind] & SL_SAMPLER_REPLACES;
            if (ask.replace && ask.fanout <= 700)
                compare(ask, &g, &c);
        }
        cut_free(&c);
        graph_free(&g);
    }
}

LOOP_TEST(capacities_are_kept, 0, BACK_ENDS *SL_SAMPLER_KINDS)
{
    static const int64_t fanouts[] = {5, 100, -1};
    struct graph g = make_graph(3, false);
    make_weights(&g, 3, false);
    struct cut c = make_cut(&g, 103, false);
    struct ask ask =
        begin(_i / SL_SAMPLER_KINDS, (enum sl_sampler_kind)(_i % SL_SAMPLER_KINDS), &g, 40);
    uint32_t place = 0;
    c.excluded.n_rows = 40;
    for (size_t f = 0; f < SL_COUNT_OF(fanouts); f++) {
        ask.fanout = fanouts[f];
        ask.excluded = &c.excluded;
        expect_capacities_are_kept(ask);
    }
    // More rows than vertices that are known.
    const struct sl_excluded many = {41, c.offsets, &place};
    ask.excluded = &many;
    struct hop h = draw(ask);
    ck_assert_int_eq(h.rc, SL_EINVAL);
    hop_free(&h);
    cut_free(&c);
    graph_free(&g);
}

// ---- finding edges ------------------------------------------------------------------------------

// Pairs that are edges, turned edges, several times the same, loops, and no edges at all; hubs get
// few of them, or very many.
static uint32_t make_pairs(const struct graph *g, uint32_t salt, uint32_t *pairs)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 400; i++) {
        const uint32_t r = random_word(i, salt), v = r % SEEDS;
        uint32_t u = (r >> 9) % SEEDS, d = (uint32_t)(g->indptr[v + 1] - g->indptr[v]);
        if (d > 0 && r % 8 < 6)
            u = g->narrow[g->indptr[v] + (r >> 3) % d];
        if (u >= SEEDS)
            continue;
        pairs[2 * n] = r % 8 == 5 ? v : u;
        pairs[2 * n++ + 1] = r % 8 == 5 ? u : v;
    }
    for (uint32_t v = 0; v < SEEDS; v++) {
        const uint32_t d = (uint32_t)(g->indptr[v + 1] - g->indptr[v]);
        for (uint32_t i = 0; d > 1000 && v % 2 && i < 200; i++) {
            const uint32_t u = g->narrow[g->indptr[v] + random_word(i, v + salt) % d];
            if (u < SEEDS)
                pairs[2 * n] = u, pairs[2 * n++ + 1] = v;
        }
    }
    return n;
}

static void expect_found(const struct graph *g, const struct sl_excluded *found, const bool *gone)
{
    ck_assert_uint_eq(found->n_rows, SEEDS);
    ck_assert_uint_eq(found->offsets[0], 0);
    for (uint32_t v = 0; v < SEEDS; v++) {
        uint32_t at = found->offsets[v];
        for (uint64_t e = g->indptr[v]; e < g->indptr[v + 1]; e++)
            if (gone[e])
                EXPECT(at < found->offsets[v + 1] && found->place[at++] == e - g->indptr[v],
                       "row %u: edge %llu is not excluded", v,
                       (unsigned long long)(e - g->indptr[v]));
        EXPECT(at == found->offsets[v + 1], "row %u has edges that are no pair's", v);
    }
}

LOOP_TEST(pairs_are_found_in_lists, 0, 24)
{
    const bool rise = _i & 1, wide = _i & 2, reverse = _i & 4;
    static uint32_t pairs[2 * 40000], nodes[SEEDS];
    static bool is_pair[SEEDS][SEEDS];
    struct sl_exclusion x = {0};
    for (uint32_t i = 0; i < SEEDS; i++)
        nodes[i] = i;
    for (uint32_t round = 0; round < 3; round++) { // memory is used again
        struct graph g = make_graph((uint32_t)_i / 8 + 7 * round, rise);
        struct sl_topology_view view = view_of(&g, wide);
        view.lists_rise = rise;
        const struct sl_target_edges targets = {
            .pairs = pairs,
            .n = make_pairs(&g, (uint32_t)_i + 50 * round, pairs),
            .reverse = reverse};
        memset(is_pair, 0, sizeof is_pair);
        for (uint64_t i = 0; i < targets.n; i++) {
            is_pair[pairs[2 * i]][pairs[2 * i + 1]] = true;
            is_pair[pairs[2 * i + 1]][pairs[2 * i]] |= reverse;
        }
        bool *gone = calloc(g.n_edges + 1, 1);
        uint32_t n_gone = 0;
        for (uint32_t v = 0; v < SEEDS; v++)
            for (uint64_t e = g.indptr[v]; e < g.indptr[v + 1]; e++)
                n_gone += gone[e] = g.narrow[e] < SEEDS && is_pair[g.narrow[e]][v];
        ck_assert_uint_gt(n_gone, 300);
        ck_assert_int_eq(sl_exclusion_find(&x, &view, nodes, SEEDS, &targets), SL_OK);
        expect_found(&g, &x.found, gone);
        free(gone);
        graph_free(&g);
    }
    sl_exclusion_fini(&x);
}

// Local ids are not the vertices' own; and no pairs, one vertex.
TEST(pairs_are_local_ids)
{
    const uint32_t degree[] = {0, 0, 3, 0, 0, 2}, nodes[] = {5, 2}, pairs[] = {0, 1, 1, 0};
    struct graph g = graph_of_degrees(6, degree);
    const uint32_t neighbours[] = {1, 5, 5, 2, 3};
    for (uint32_t e = 0; e < 5; e++)
        set_neighbour(&g, e, neighbours[e]);
    const struct sl_topology_view view = view_of(&g, false);
    struct sl_exclusion x = {0};
    struct sl_target_edges targets = {.pairs = pairs, .n = 2};
    ck_assert_int_eq(sl_exclusion_find(&x, &view, nodes, 2, &targets), SL_OK);
    const uint32_t offsets[] = {0, 1, 3}, place[] = {0, 1, 2};
    ck_assert_mem_eq(x.found.offsets, offsets, sizeof offsets);
    ck_assert_mem_eq(x.found.place, place, sizeof place);
    ck_assert_int_eq(sl_exclusion_find(&x, &view, nodes, 1, &targets), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "pair 0"));
    targets.n = 0;
    ck_assert_int_eq(sl_exclusion_find(&x, &view, nodes, 1, &targets), SL_OK);
    ck_assert_uint_eq(x.found.n_rows, 1);
    ck_assert_uint_eq(x.found.offsets[1], 0);
    sl_exclusion_fini(&x);
    graph_free(&g);
}

RUN_TESTS(.timeout_s = 60)
