// Edges between a batch's vertices (sampler.subgraph): whole blocks beside an oracle that looks at
// each edge of the graph.
#include "tests/unit/sampler_tangle.h"
#include "tests/unit/suite.h"

enum { N = 400, EPOCH = 3, BATCH = 4 };

static void setup(void)
{
    tangle(N);
}

// ---- the oracle ---------------------------------------------------------------------------------

// The subgraph's edges, by row.
struct edges {
    uint32_t n, indptr[N + 1], *source;
    uint64_t *id;
};

static void add(struct edges *o, uint32_t source, uint64_t id)
{
    o->source[o->n] = source;
    o->id[o->n++] = id;
}

static bool weighs(const struct sl_draw_plan *plan, uint64_t e)
{
    return plan->kind != SL_SAMPLER_WEIGHTED || fx.edge_weight[e] > 0;
}

static void induce(struct edges *o, const struct sl_draw_plan *plan, const struct sl_block *b)
{
    const uint32_t *nodes = sl_block_nodes(b);
    uint32_t row_of[N]; // of a vertex, plus one; 0: it has none
    memset(row_of, 0, sizeof row_of);
    for (uint32_t i = 0; i < b->n_input; i++)
        row_of[nodes[i]] = i + 1;
    for (uint32_t row = 0; row < b->n_input; row++) {
        for (uint64_t e = fx.indptr[nodes[row]]; e < fx.indptr[nodes[row] + 1]; e++)
            if (row_of[fx.indices[e]] && weighs(plan, e))
                add(o, row_of[fx.indices[e]] - 1, e);
        o->indptr[row + 1] = o->n;
    }
}

static bool has(const struct sl_block *b, uint32_t row, uint32_t source, uint32_t *edge)
{
    const struct sl_block_view view = sl_block_here(b);
    const uint32_t last = b->n_hops - 1, *indptr = sl_view_indptr(view, last);
    if (row >= b->hop[last].n_dst)
        return false;
    for (uint32_t e = indptr[row]; e < indptr[row + 1]; e++)
        if (sl_view_indices(view, last)[e] == source) {
            *edge = e;
            return true;
        }
    return false;
}

static bool has_number(const struct sl_draw_plan *plan, uint32_t vertex, uint32_t source,
                       uint64_t *id)
{
    for (uint64_t e = fx.indptr[vertex]; e < fx.indptr[vertex + 1]; e++)
        if ((uint32_t)fx.indices[e] == source && weighs(plan, e)) {
            *id = e;
            return true;
        }
    return false;
}

static void go_back(struct edges *o, const struct sl_draw_plan *plan, const struct sl_block *b)
{
    const struct sl_block_view view = sl_block_here(b);
    const uint32_t *nodes = sl_block_nodes(b), last = b->n_hops - 1, n_dst = b->hop[last].n_dst;
    for (uint32_t row = 0; row < b->n_input; row++) {
        const uint32_t *indptr = sl_view_indptr(view, last) + row;
        for (uint32_t e = row < n_dst ? indptr[0] : 0; row < n_dst && e < indptr[1]; e++)
            add(o, sl_view_indices(view, last)[e], sl_view_edge_ids(view, last)[e]);
        for (uint32_t i = 0; i < n_dst; i++) {
            uint32_t e, other;
            uint64_t id;
            if (i == row || !has(b, i, row, &e) || has(b, row, i, &other))
                continue;
            if (!has_number(plan, nodes[row], nodes[i], &id))
                id = sl_view_edge_ids(view, last)[e];
            add(o, i, id);
        }
        o->indptr[row + 1] = o->n;
    }
}

// Of a block without a subgraph.
static struct edges *ask_oracle(const struct sl_draw_plan *plan, const struct sl_block *b)
{
    const uint64_t most = fx.topology.dataset.n_edges + 2 * b->n_edges;
    struct edges *o = calloc(1, sizeof *o);
    o->source = malloc(most * sizeof *o->source);
    o->id = malloc(most * sizeof *o->id);
    (plan->subgraph == SL_SUBGRAPH_INDUCED ? induce : go_back)(o, plan, b);
    return o;
}

static void free_edges(struct edges *o)
{
    free(o->source);
    free(o->id);
    free(o);
}

// ---- blocks -------------------------------------------------------------------------------------

// What was drawn is as without the subgraph, which is one hop more.
static void expect_drawn(const struct sl_block *b, const struct sl_block *drawn)
{
    const struct sl_block_view have = sl_block_here(b), want = sl_block_here(drawn);
    ck_assert_uint_eq(b->n_hops, drawn->n_hops + 1);
    ck_assert_mem_eq(b->n_nodes, drawn->n_nodes, (drawn->n_hops + 1) * sizeof *b->n_nodes);
    ck_assert_uint_eq(b->n_nodes[b->n_hops], b->n_input);
    ck_assert_mem_eq(sl_block_nodes(b), sl_block_nodes(drawn), 4ull * drawn->n_input);
    for (uint32_t h = 0; h < drawn->n_hops; h++) {
        ck_assert_uint_eq(b->hop[h].n_edges, drawn->hop[h].n_edges);
        ck_assert_mem_eq(sl_view_indptr(have, h), sl_view_indptr(want, h),
                         4ull * (drawn->hop[h].n_dst + 1));
        ck_assert_mem_eq(sl_view_indices(have, h), sl_view_indices(want, h),
                         4ull * drawn->hop[h].n_edges);
    }
}

static void expect_edges(const struct sl_block *b, const struct edges *o, bool ids)
{
    const uint32_t last = b->n_hops - 1;
    const struct sl_block_view view = sl_block_here(b);
    ck_assert_uint_eq(b->hop[last].n_dst, b->n_input);
    ck_assert_uint_eq(b->hop[last].n_edges, o->n);
    ck_assert_mem_eq(sl_view_indptr(view, last), o->indptr, 4ull * (b->n_input + 1));
    ck_assert_mem_eq(sl_view_indices(view, last), o->source, 4ull * o->n);
    if (ids)
        ck_assert_mem_eq(sl_view_edge_ids(view, last), o->id, 8ull * o->n);
}

// Returns the subgraph's edges.
static uint32_t compare(const struct sl_draw_plan *plan, const uint32_t *seeds, uint32_t n_seeds)
{
    struct sl_draw_plan alone = *plan;
    alone.subgraph = SL_SUBGRAPH_DIRECTIONAL;
    alone.edge_ids = true;
    struct sl_block *b = fixture_draw(&drawer, plan, EPOCH, BATCH, seeds, n_seeds),
                    *drawn = fixture_draw(&drawer, &alone, EPOCH, BATCH, seeds, n_seeds);
    const struct sl_block_shape shape = {.n_hops = plan->n_hops + 1};
    ck_assert_msg(sl_block_check_shape(b, b->bytes, shape) == SL_OK, "%s", sl_error_message());
    struct edges *o = ask_oracle(plan, drawn);
    const uint32_t n = o->n;
    expect_drawn(b, drawn);
    expect_edges(b, o, plan->edge_ids);
    free_edges(o);
    free(b);
    free(drawn);
    return n;
}

static const struct sl_draw_plan plans[] = {
    {.n_hops = 3, .fanout = {4, 3, 2}},
    {.n_hops = 2, .fanout = {5, -1}, .edge_ids = true},
    {.n_hops = 1, .fanout = {2}, .edge_ids = true},
    {.n_hops = 7, .fanout = {1, 1, 1, 1, 1, 1, 1}, .edge_ids = true},
    {.n_hops = 2, .fanout = {6, 3}, .edge_ids = true, .replace = true},
    {.kind = SL_SAMPLER_WEIGHTED, .n_hops = 2, .fanout = {4, -1}, .edge_ids = true},
    {.kind = SL_SAMPLER_LABOR, .n_hops = 2, .fanout = {5, 5}, .edge_ids = true},
};

static const enum sl_subgraph subgraphs[] = {SL_SUBGRAPH_INDUCED, SL_SUBGRAPH_BIDIRECTIONAL};

static struct sl_draw_plan plan_of(const struct sl_draw_plan *base, enum sl_subgraph subgraph)
{
    struct sl_draw_plan plan = *base;
    plan.subgraph = subgraph;
    plan.expand_new = true;
    plan.stream = SL_RNG_SAMPLE;
    plan.seed = 7;
    return plan;
}

LOOP_TEST(edges_are_those_of_the_oracle, 0, SL_COUNT_OF(subgraphs))
{
    static const uint32_t counts[] = {1, 2, 20, 150};
    const uint32_t odd[] = {5, 0, 11}; // a row without edges, the hub
    for (size_t p = 0; p < SL_COUNT_OF(plans); p++) {
        const struct sl_draw_plan plan = plan_of(&plans[p], subgraphs[_i]);
        uint32_t n = compare(&plan, odd, 3);
        for (size_t c = 0; c < SL_COUNT_OF(counts); c++)
            n += compare(&plan, fx.split[SL_SPLIT_TRAIN] + c, counts[c]);
        ck_assert_uint_gt(n, 0);
    }
}

LOOP_TEST(one_vertex_alone_or_with_loops, 0, SL_COUNT_OF(subgraphs))
{
    const uint32_t alone[] = {0};
    const struct sl_draw_plan plan = plan_of(&plans[2], subgraphs[_i]);
    fx.topology.view.n_nodes = 1;
    for (uint64_t loops = 0; loops < 4; loops++) {
        fx.indptr[1] = loops;
        memset(fx.indices, 0, loops * sizeof *fx.indices);
        compare(&plan, alone, 1);
    }
}

LOOP_TEST(memory_of_the_exact_size_is_enough, 0, SL_COUNT_OF(subgraphs))
{
    const struct sl_draw_plan plan = plan_of(&plans[1], subgraphs[_i]);
    fixture_expect_exact_size(&drawer, &plan, EPOCH, BATCH, fx.split[SL_SPLIT_TRAIN], 9);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 60)
