// Vertices that are drawn once a batch (sampler.expand new): whole blocks beside an oracle that
// knows no hops' copies, and what follows for whoever reads them.
#include "common/base/isa.h"
#include "tests/unit/sampler_tangle.h"
#include "tests/unit/suite.h"

enum { N = 700, EPOCH = 3, BATCH = 4 };

static void setup(void)
{
    tangle(N);
}

// ---- the oracle: one list of rows, of which a hop draws those that the hop before has found -----

// What it draws, with a graph of at most N vertices.
struct oracle {
    const struct sl_draw_plan *plan;
    uint32_t n_nodes[SL_MAX_HOPS + 1]; // before each hop, and at the end
    uint32_t indptr[N + 1], nodes[N], local_of[N];
    bool known[N];
    uint64_t *edge; // positions in the graph's list, of all rows
    uint32_t *local;
    uint32_t n_edges, n;
    // Of the row in hand.
    uint32_t hop, row, vertex, degree, taken[N];
};

// Those with the smallest numbers of their vertices, in the order of the file.
static uint32_t take_together(struct oracle *o, const struct key *key, uint32_t k)
{
    static uint32_t number[N];
    const int32_t *of = fx.indices + fx.indptr[o->vertex];
    uint32_t n = 0;
    for (uint32_t j = 0; j < o->degree; j++)
        number[j] = row_word(key, key->hop, 0, (uint32_t)of[j], 0);
    for (uint32_t j = 0; j < o->degree; j++) {
        uint32_t before = 0;
        for (uint32_t i = 0; i < o->degree; i++)
            before += number[i] < number[j] || (number[i] == number[j] && i < j);
        if (before < k)
            o->taken[n++] = j;
    }
    return n;
}

static uint32_t take_by_weight(struct oracle *o, const struct key *key, int64_t fanout)
{
    static double weight[N];
    const double *sums = fx.weight_prefix + fx.indptr[o->vertex];
    for (uint32_t j = 0; j < o->degree; j++)
        weight[j] = sums[j] - (j > 0 ? sums[j - 1] : 0.0);
    if (fanout < 0)
        return row_of_weight(weight, o->degree, o->taken);
    return row_by_weight(key, o->row, weight, o->degree, (uint32_t)fanout, o->plan->replace,
                         o->taken);
}

static uint32_t take(struct oracle *o)
{
    const int64_t fanout = o->plan->fanout[o->hop];
    const bool all = fanout < 0 || (!o->plan->replace && o->degree <= fanout) || o->degree == 0;
    const struct key key = {o->plan->seed, o->plan->stream, EPOCH, BATCH, o->hop};
    if (o->plan->kind == SL_SAMPLER_WEIGHTED)
        return take_by_weight(o, &key, fanout);
    if (!all && o->plan->kind == SL_SAMPLER_LABOR)
        return take_together(o, &key, (uint32_t)fanout);
    if (!all)
        row_uniformly(&key, o->row, o->degree, (uint32_t)fanout, o->plan->replace, o->taken);
    for (uint32_t j = 0; all && j < o->degree; j++)
        o->taken[j] = j;
    return all ? o->degree : (uint32_t)fanout;
}

static void know(struct oracle *o, uint32_t vertex)
{
    if (o->known[vertex])
        return;
    o->known[vertex] = true;
    o->local_of[vertex] = o->n;
    o->nodes[o->n++] = vertex;
}

static struct oracle *ask_oracle(const struct sl_draw_plan *plan, const uint32_t *seeds,
                                 uint32_t n_seeds)
{
    const uint64_t most = fx.topology.dataset.n_edges + 100 * N; // fanouts are below 100
    struct oracle *o = calloc(1, sizeof *o);
    o->plan = plan;
    o->edge = malloc(most * sizeof *o->edge);
    o->local = malloc(most * sizeof *o->local);
    for (uint32_t i = 0; i < n_seeds; i++)
        know(o, seeds[i]);
    for (o->hop = 0; o->hop < plan->n_hops; o->hop++) {
        o->n_nodes[o->hop] = o->n;
        for (const uint32_t end = o->n; o->row < end; o->row++) {
            o->vertex = o->nodes[o->row];
            o->degree = (uint32_t)(fx.indptr[o->vertex + 1] - fx.indptr[o->vertex]);
            const uint32_t n = take(o);
            for (uint32_t t = 0; t < n; t++) {
                const uint64_t e = fx.indptr[o->vertex] + o->taken[t];
                know(o, (uint32_t)fx.indices[e]);
                o->edge[o->n_edges] = e;
                o->local[o->n_edges++] = o->local_of[fx.indices[e]];
            }
            o->indptr[o->row + 1] = o->n_edges;
        }
    }
    o->n_nodes[plan->n_hops] = o->n;
    return o;
}

static void free_oracle(struct oracle *o)
{
    free(o->edge);
    free(o->local);
    free(o);
}

// Each hop's rows are the first ones of the oracle's list.
static void expect_oracle(const struct sl_block *b, const struct oracle *o)
{
    const struct sl_block_view view = sl_block_here(b);
    ck_assert_mem_eq(b->n_nodes, o->n_nodes, (b->n_hops + 1) * sizeof *b->n_nodes);
    ck_assert_mem_eq(sl_block_nodes(b), o->nodes, b->n_input * sizeof *o->nodes);
    for (uint32_t h = 0; h < b->n_hops; h++) {
        ck_assert_uint_eq(b->hop[h].indices_offset, b->hop[0].indices_offset); // there once
        ck_assert_uint_eq(b->hop[h].n_dst, o->n_nodes[h]);
        ck_assert_uint_eq(b->hop[h].n_edges, o->indptr[o->n_nodes[h]]);
        ck_assert_mem_eq(sl_view_indptr(view, h), o->indptr,
                         (b->hop[h].n_dst + 1) * sizeof *o->indptr);
        ck_assert_mem_eq(sl_view_indices(view, h), o->local, b->hop[h].n_edges * sizeof *o->local);
        ck_assert_mem_eq(sl_view_edge_ids(view, h), o->edge, b->hop[h].n_edges * sizeof *o->edge);
    }
    ck_assert_uint_eq(b->hop[b->n_hops - 1].n_edges, o->n_edges);
}

// Memory of its size is enough, and a byte less is not.
static void expect_exact_room(const struct sl_draw_plan *plan, const uint32_t *seeds,
                              uint32_t n_seeds, const struct sl_block *same)
{
    struct sl_block *b = fixture_alloc(same->bytes);
    uint64_t wanted;
    ck_assert_int_eq(
        fixture_draw_into(&drawer, plan, EPOCH, BATCH, seeds, n_seeds, b, same->bytes - 1, &wanted),
        SL_ERANGE);
    ck_assert_int_eq(
        fixture_draw_into(&drawer, plan, EPOCH, BATCH, seeds, n_seeds, b, same->bytes, &wanted),
        SL_OK);
    ck_assert_mem_eq(b, same, same->bytes);
    free(b);
}

static void compare(const struct sl_draw_plan *plan, const uint32_t *seeds, uint32_t n_seeds)
{
    struct oracle *o = ask_oracle(plan, seeds, n_seeds);
    struct sl_draw_plan with = *plan;
    with.edge_ids = true;
    struct sl_block *b = fixture_draw(&drawer, &with, EPOCH, BATCH, seeds, n_seeds);
    ck_assert_int_eq(sl_block_check(b, b->bytes), SL_OK);
    expect_oracle(b, o);
    expect_exact_room(&with, seeds, n_seeds, b);
    free(b);
    free_oracle(o);
}

static const enum sl_sampler_kind kinds[] = {SL_SAMPLER_KHOP, SL_SAMPLER_WEIGHTED,
                                             SL_SAMPLER_LABOR};

static void compare_all(enum sl_sampler_kind kind, bool replace)
{
    static const int64_t fanout[][4] = {{15, 10, 5, 0}, {-1, 2, 0}, {1, 70, 3, -1}, {2, 2, 2, 2}};
    static const uint32_t n_hops[] = {3, 2, 4, 4};
    // Sizes next to those of groups of rows.
    static const uint32_t counts[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 300};
    for (size_t f = 0; f < SL_COUNT_OF(fanout); f++)
        for (size_t c = 0; c < SL_COUNT_OF(counts); c++) {
            struct sl_draw_plan plan = {.kind = kind,
                                        .n_hops = n_hops[f],
                                        .expand_new = true,
                                        .replace = replace,
                                        .stream = c % 2 ? SL_RNG_SAMPLE : SL_RNG_EVAL_SAMPLE,
                                        .seed = (UINT64_C(1) << 40) + c};
            memcpy(plan.fanout, fanout[f], plan.n_hops * sizeof *plan.fanout);
            compare(&plan, fx.split[SL_SPLIT_TRAIN] + c, counts[c]);
            const uint32_t odd[] = {5, 0, 11}; // a row without edges, the hub
            if (c < 3)
                compare(&plan, odd, (uint32_t)c + 1);
        }
}

static bool replaces(enum sl_sampler_kind kind)
{
    return sl_sampler_flags[kind] & SL_SAMPLER_REPLACES;
}

static void compare_ways(enum sl_sampler_kind kind)
{
    compare_all(kind, false);
    if (replaces(kind))
        compare_all(kind, true);
}

// With each instruction set, and the reference's kernels.
LOOP_TEST(blocks_are_those_of_the_oracle, 0, SL_COUNT_OF(kinds))
{
    for (enum sl_isa isa = SL_ISA_BASELINE; isa <= SL_ISA_AVX512; isa++) {
        sl_isa_limit(isa);
        compare_ways(kinds[_i]);
    }
    drawer.kernels = sl_kernels_ref();
    compare_ways(kinds[_i]);
}

LOOP_TEST(one_vertex_alone_or_with_loops, 0, SL_COUNT_OF(kinds))
{
    const uint32_t alone[] = {0};
    struct sl_draw_plan plan = {.kind = kinds[_i],
                                .n_hops = 3,
                                .expand_new = true,
                                .fanout = {2, 2, 2},
                                .stream = SL_RNG_SAMPLE};
    for (uint64_t loops = 0; loops < 4; loops++) {
        fx.topology.view.n_nodes = 1;
        fx.indptr[1] = loops;
        for (uint64_t e = 0; e < loops; e++) {
            fx.indices[e] = 0;
            fx.edge_weight[e] = 1.0f + (float)e;
            fx.weight_prefix[e] = (e > 0 ? fx.weight_prefix[e - 1] : 0.0) + 1.0 + (double)e;
        }
        for (int way = 0; way <= (int)replaces(plan.kind); way++) {
            plan.replace = way;
            drawer.kernels = sl_kernels_cpu();
            compare(&plan, alone, 1);
            drawer.kernels = sl_kernels_ref();
            compare(&plan, alone, 1);
        }
    }
}

// How often each of a row's edges comes, beside its share: the sum of squares over variances lies
// within six deviations. The keys are fixed, so that it does so always or never.
LOOP_TEST(draws_with_replacement_follow_their_shares, 0, SL_COUNT_OF(kinds))
{
    enum { FANOUT = 64, BATCHES = 400 };
    static uint32_t count[N];
    const struct sl_draw_plan plan = {.kind = kinds[_i],
                                      .n_hops = 1,
                                      .replace = true,
                                      .edge_ids = true,
                                      .fanout = {FANOUT},
                                      .stream = SL_RNG_SAMPLE,
                                      .seed = 7};
    if (!replaces(plan.kind))
        return;
    uint32_t v = 1; // longer than a few edges, shorter than the fanout
    while (fx.indptr[v + 1] - fx.indptr[v] < 20 || v % 7 == 4)
        v++;
    const uint64_t first = fx.indptr[v];
    const uint32_t degree = (uint32_t)(fx.indptr[v + 1] - first);
    const double *sums = fx.weight_prefix + first;
    memset(count, 0, sizeof count);
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, batch, &v, 1);
        ck_assert_uint_eq(b->n_edges, FANOUT);
        for (uint32_t e = 0; e < FANOUT; e++)
            count[sl_view_edge_ids(sl_block_here(b), 0)[e] - first]++;
        free(b);
    }
    double chi2 = 0, free_ones = -1;
    for (uint32_t j = 0; j < degree; j++) {
        double share = 1.0 / degree;
        if (plan.kind == SL_SAMPLER_WEIGHTED)
            share = (sums[j] - (j > 0 ? sums[j - 1] : 0.0)) / sums[degree - 1];
        const double wanted = share * FANOUT * BATCHES, off = count[j] - wanted;
        EXPECT(share > 0 || count[j] == 0, "edge %u of weight 0", j);
        chi2 += share > 0 ? off * off / wanted : 0;
        free_ones += share > 0;
    }
    const double over = chi2 - free_ones;
    EXPECT(over * over < 36 * 2 * free_ones, "chi-square %g of %g", chi2, free_ones);
}

// Walks, and labor, whose vertices have one number in a hop.
TEST(kinds_that_keep_what_they_drew_refuse_replacement)
{
    for (int kind = 0; kind < SL_SAMPLER_KINDS; kind++) {
        const struct sl_draw_plan plan = {.kind = (enum sl_sampler_kind)kind,
                                          .n_hops = 1,
                                          .replace = true,
                                          .fanout = {2},
                                          .paths = 1,
                                          .length = 1};
        const uint32_t seed[] = {1};
        struct sl_block *b = fixture_alloc(1 << 16);
        uint64_t wanted;
        const int rc = fixture_draw_into(&drawer, &plan, 0, 0, seed, 1, b, 1 << 16, &wanted);
        ck_assert_int_eq(rc, replaces(plan.kind) ? SL_OK : SL_EINVAL);
        free(b);
    }
}

// ---- what follows for readers -------------------------------------------------------------------

// The same numbers beside the edges of hop h and of the last hop, as far as hop h goes.
static void expect_prefix(const struct sl_block *b, uint32_t h, const void *of, const void *last,
                          size_t bytes_each)
{
    if (of)
        ck_assert_mem_eq(of, last, b->hop[h].n_edges * bytes_each);
}

// Of all kinds, walks too: rows agree over hops, and the last hop has all edges.
LOOP_TEST(a_row_is_the_same_in_all_hops, 0, SL_COUNT_OF(fixture_plans))
{
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    if (!plan->expand_new)
        return;
    struct sl_block *b = fixture_draw(&drawer, plan, EPOCH, BATCH, fx.split[SL_SPLIT_TRAIN], 20);
    const struct sl_block_view view = sl_block_here(b);
    const uint32_t last = b->n_hops - 1;
    uint32_t longer = 0; // rows than their hop's own fanout
    for (uint32_t h = 0; h < last; h++) {
        ck_assert_mem_eq(sl_view_indptr(view, h), sl_view_indptr(view, last),
                         (b->hop[h].n_dst + 1) * sizeof(uint32_t));
        expect_prefix(b, h, sl_view_indices(view, h), sl_view_indices(view, last), 4);
        expect_prefix(b, h, sl_view_weights(view, h), sl_view_weights(view, last), 4);
        expect_prefix(b, h, sl_view_edge_ids(view, h), sl_view_edge_ids(view, last), 8);
    }
    for (uint32_t i = 0; plan->fanout[last] > 0 && i < b->hop[last].n_dst; i++)
        longer +=
            sl_view_indptr(view, last)[i + 1] - sl_view_indptr(view, last)[i] > plan->fanout[last];
    if (plan->fanout[last] > 0 && plan->fanout[last] < plan->fanout[0])
        ck_assert_uint_gt(longer, 0);
    free(b);
}

// A hop of rows that are all there: nothing is new, and a block of the exact size is enough.
TEST(a_batch_that_has_found_all_it_can)
{
    const struct sl_draw_plan plan = {.n_hops = SL_MAX_HOPS,
                                      .expand_new = true,
                                      .fanout = {-1, -1, -1, -1, -1, -1, -1, -1},
                                      .stream = SL_RNG_SAMPLE};
    const uint32_t hub[] = {0};
    compare(&plan, hub, 1);
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, BATCH, hub, 1);
    ck_assert_uint_eq(b->n_nodes[1], N);
    ck_assert_uint_eq(b->hop[2].n_edges, fx.topology.dataset.n_edges);
    free(b);
    fixture_expect_exact_size(&drawer, &plan, EPOCH, BATCH, hub, 1);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 60)
