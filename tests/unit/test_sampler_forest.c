// Disjoint batches (sampler.disjoint): whole blocks beside batches of one seed each.
#include "tests/unit/sampler_tangle.h"
#include "tests/unit/suite.h"

enum { N = 400, EPOCH = 3, BATCH = 4 };

static void setup(void)
{
    tangle(N);
}

// A vertex of a block: of which tree, and which one there.
struct vertex {
    uint32_t tree, local;
};

// The vertices of hop after hop, tree by tree.
static struct vertex *list_vertices(struct sl_block *const *trees, uint32_t n,
                                    const struct sl_block *b)
{
    struct vertex *list = malloc(b->n_input * sizeof *list), *end = list;
    for (uint32_t level = 0; level <= b->n_hops; level++) {
        for (uint32_t t = 0; t < n; t++)
            for (uint32_t i = level ? trees[t]->n_nodes[level - 1] : 0;
                 i < trees[t]->n_nodes[level]; i++) {
                ck_assert_ptr_ne(end, list + b->n_input);
                *end++ = (struct vertex){t, i};
            }
        ck_assert_uint_eq(b->n_nodes[level], (uint64_t)(end - list));
    }
    ck_assert_ptr_eq(end, list + b->n_input);
    return list;
}

static void expect_row(const struct sl_block *b, uint32_t h, uint32_t row,
                       const struct vertex *list, const struct sl_block *tree)
{
    const struct sl_block_view have = sl_block_here(b), want = sl_block_here(tree);
    const struct vertex *v = &list[row];
    const uint32_t at = sl_view_indptr(have, h)[row], from = sl_view_indptr(want, h)[v->local];
    const uint32_t n = sl_view_indptr(want, h)[v->local + 1] - from;
    EXPECT(sl_view_indptr(have, h)[row + 1] == at + n, "hop %u, row %u: other edges", h, row);
    for (uint32_t e = 0; e < n; e++) {
        const struct vertex *source = &list[sl_view_indices(have, h)[at + e]];
        EXPECT(source->tree == v->tree && source->local == sl_view_indices(want, h)[from + e],
               "hop %u, row %u: edge %u", h, row, e);
    }
    if (sl_view_edge_ids(have, h))
        EXPECT(!memcmp(sl_view_edge_ids(have, h) + at, sl_view_edge_ids(want, h) + from, 8ull * n),
               "hop %u, row %u: edges' numbers", h, row);
    if (sl_view_weights(have, h))
        EXPECT(!memcmp(sl_view_weights(have, h) + at, sl_view_weights(want, h) + from, 4ull * n),
               "hop %u, row %u: visits", h, row);
}

static void compare(const struct sl_draw_plan *base, const uint32_t *seeds, uint32_t n)
{
    struct sl_draw_plan plan = *base, alone = *base;
    struct sl_block **trees = malloc(n * sizeof *trees);
    plan.disjoint = true;
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, BATCH, seeds, n);
    const struct sl_block_shape shape = {.n_hops = sl_draw_plan_hops(base)};
    ck_assert_msg(sl_block_check_shape(b, b->bytes, shape) == SL_OK, "%s", sl_error_message());
    uint64_t n_edges = 0;
    for (uint32_t t = 0; t < n; t++) {
        trees[t] = fixture_draw(&drawer, &alone, EPOCH, BATCH * n + t, &seeds[t], 1);
        n_edges += trees[t]->n_edges;
    }
    struct vertex *list = list_vertices(trees, n, b);
    for (uint32_t i = 0; i < b->n_input; i++) {
        const struct sl_block_view tree = sl_block_here(trees[list[i].tree]);
        EXPECT(sl_block_nodes(b)[i] == sl_view_nodes(tree)[list[i].local], "vertex %u", i);
        if (plan.degrees)
            EXPECT(sl_view_degrees(sl_block_here(b))[i] == sl_view_degrees(tree)[list[i].local],
                   "degree of vertex %u", i);
    }
    for (uint32_t h = 0; h < b->n_hops; h++)
        for (uint32_t row = 0; row < b->hop[h].n_dst; row++)
            expect_row(b, h, row, list, trees[list[row].tree]);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(((const int32_t *)sl_view_targets(sl_block_here(b)))[i],
                         fx.label[seeds[i]]);
    ck_assert_uint_eq(b->n_edges, n_edges);
    ck_assert_uint_eq(b->batch, BATCH);
    ck_assert_uint_eq(b->flags, trees[0]->flags | SL_BLOCK_DISJOINT);
    for (uint32_t t = 0; t < n; t++)
        free(trees[t]);
    free(trees);
    free(list);
    free(b);
}

// All kinds, both ways to expand, with edges' numbers, visits and degrees.
LOOP_TEST(each_seed_has_the_tree_of_a_batch_of_its_own, 0, SL_COUNT_OF(fixture_plans))
{
    const uint32_t odd[] = {5, 0, 11, 0, 11, 11}; // a row without edges, the hub, some twice
    compare(&fixture_plans[_i], odd, 6);
    compare(&fixture_plans[_i], odd, 1);
    compare(&fixture_plans[_i], fx.split[SL_SPLIT_TRAIN], 40);
}

TEST(subgraphs_are_those_of_the_trees)
{
    struct sl_draw_plan plan = {.n_hops = 2,
                                .expand_new = true,
                                .edge_ids = true,
                                .fanout = {5, 4},
                                .subgraph = SL_SUBGRAPH_INDUCED,
                                .stream = SL_RNG_SAMPLE};
    compare(&plan, fx.split[SL_SPLIT_TRAIN], 40);
    plan.subgraph = SL_SUBGRAPH_BIDIRECTIONAL;
    compare(&plan, fx.split[SL_SPLIT_TRAIN], 40);
}

// A vertex that is a seed twice has two trees, which are drawn apart.
TEST(trees_are_drawn_apart)
{
    const struct sl_draw_plan plan = {
        .n_hops = 1, .fanout = {10}, .edge_ids = true, .disjoint = true, .stream = SL_RNG_SAMPLE};
    const uint32_t hub[] = {0, 0};
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, BATCH, hub, 2);
    const uint64_t *ids = sl_view_edge_ids(sl_block_here(b), 0);
    ck_assert_uint_eq(b->hop[0].n_edges, 20);
    ck_assert_int_ne(memcmp(ids, ids + 10, 10 * sizeof *ids), 0);
    free(b);
}

TEST(memory_of_the_exact_size_is_enough)
{
    struct sl_draw_plan plan = fixture_plans[0];
    plan.disjoint = plan.edge_ids = true;
    fixture_expect_exact_size(&drawer, &plan, EPOCH, BATCH, fx.split[SL_SPLIT_TRAIN], 9);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 60)
