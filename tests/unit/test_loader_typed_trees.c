// Disjoint batches of typed graphs, also by time: whole blocks beside batches of one seed each, and
// those beside ones of the graph as it was at the seed's time.
#include "tests/unit/sampler_past.h"
#include "tests/unit/sampler_types.h"
#include "tests/unit/suite.h"

enum { EPOCH = 3, BATCH = 4, BACK_ENDS = 2 };

// The first and the third relation have few different times, the others none.
static bool has_times(uint32_t r)
{
    return r == 0 || r == 2;
}

static void start(void)
{
    setup();
    struct sl_dataset *ds = &fx.topology.dataset;
    edge_time = fixture_alloc(ds->n_edges * sizeof *edge_time);
    for (uint64_t row = 0; row < ds->typed.n_rows; row++) {
        const uint64_t first = fx.indptr[row], n = fx.indptr[row + 1] - first;
        for (uint64_t i = 0; i < n; i++)
            edge_time[first + i] = (int64_t)(fixture_word((uint32_t)(first + i), 9) % 20) - 9;
        qsort(edge_time + first, n, sizeof *edge_time, by_time);
    }
    for (uint32_t r = 0; r < RELATIONS; r++)
        relations[r].time = has_times(r) ? edge_time + relations[r].first_edge : NULL;
    for (uint32_t v = 0; v < 500; v++)
        node_time[v] = (int64_t)(fixture_word(v, 10) % 24) - 12;
    ds->node_time = node_time;
}

static void end(void)
{
    free(edge_time);
    teardown();
}

CASE(.setup = start, .teardown = end, .timeout_s = 60)

// ---- trees in a block ---------------------------------------------------------------------------

// A vertex of a type's part: of which tree, and which one there.
struct vertex {
    uint32_t tree, local;
};

struct forest {
    struct sl_block **tree;
    uint32_t n;
    struct vertex *of[TYPES];
};

static void list_vertices(struct forest *f, const struct sl_block *b)
{
    for (uint32_t t = 0; t < TYPES; t++) {
        const struct sl_block_type *part = &sl_block_types(b)[t];
        uint32_t n = 0;
        f->of[t] = fixture_alloc((part->n[b->n_hops] + 1) * sizeof **f->of);
        for (uint32_t level = 0; level <= b->n_hops; level++) {
            for (uint32_t s = 0; s < f->n; s++) {
                const struct sl_block_type *of = &sl_block_types(f->tree[s])[t];
                for (uint32_t i = level ? of->n[level - 1] : 0; i < of->n[level]; i++) {
                    ck_assert_uint_lt(n, part->n[b->n_hops]);
                    ck_assert_uint_eq(sl_block_nodes(b)[part->first + n],
                                      sl_block_nodes(f->tree[s])[of->first + i]);
                    f->of[t][n++] = (struct vertex){s, i};
                }
            }
            ck_assert_uint_eq(part->n[level], n);
        }
    }
}

static void expect_run(const struct forest *f, const struct sl_block *b, uint32_t h, uint32_t r)
{
    const struct sl_block_run *run = sl_block_find_run(b, h, r);
    const struct vertex *targets = f->of[relations[r].target],
                        *sources = f->of[relations[r].source];
    const struct sl_block_view have = sl_block_here(b);
    uint32_t at = 0;
    for (uint32_t row = 0; row < sl_block_types(b)[relations[r].target].n[h]; row++) {
        const struct vertex *v = &targets[row];
        const struct sl_block *tree = f->tree[v->tree];
        const struct sl_block_run *of = sl_block_find_run(tree, h, r);
        const struct sl_block_view want = sl_block_here(tree);
        const uint32_t from = of ? sl_run_indptr(want, of)[v->local] : 0;
        const uint32_t n = of ? sl_run_indptr(want, of)[v->local + 1] - from : 0;
        EXPECT(run ? sl_run_indptr(have, run)[row + 1] == at + n : n == 0,
               "hop %u, relation %u, row %u: other edges", h, r, row);
        for (uint32_t e = 0; e < n; e++) {
            const struct vertex *source = &sources[sl_run_indices(have, run)[at + e]];
            EXPECT(source->tree == v->tree && source->local == sl_run_indices(want, of)[from + e],
                   "hop %u, relation %u, row %u: edge %u", h, r, row, e);
        }
        if (n > 0 && sl_run_edge_ids(have, run))
            ck_assert_mem_eq(sl_run_edge_ids(have, run) + at, sl_run_edge_ids(want, of) + from,
                             8ull * n);
        at += n;
    }
    ck_assert_uint_eq(run ? run->n_edges : 0, at);
}

static void compare(const struct sl_draw_plan *alone, const uint32_t *seeds, uint32_t n)
{
    const struct sl_block_shape shape = {.n_hops = alone->n_hops, .n_types = TYPES};
    struct sl_draw_plan plan = *alone;
    struct forest f = {fixture_alloc(n * sizeof *f.tree), n, {0}};
    uint64_t n_edges = 0;
    plan.disjoint = true;
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, BATCH, seeds, n);
    must(sl_block_check_shape(b, b->bytes, shape));
    must(sl_typed_block_check(b, &fx.topology.dataset.typed));
    for (uint32_t s = 0; s < n; s++) {
        f.tree[s] = fixture_draw(&drawer, alone, EPOCH, BATCH * n + s, &seeds[s], 1);
        n_edges += f.tree[s]->n_edges;
    }
    list_vertices(&f, b);
    for (uint32_t h = 0; h < b->n_hops; h++)
        for (uint32_t r = 0; r < RELATIONS; r++)
            expect_run(&f, b, h, r);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(((const int32_t *)sl_view_targets(sl_block_here(b)))[i],
                         fx.label[seeds[i]]);
    ck_assert_uint_eq(b->n_edges, n_edges);
    ck_assert_uint_eq(b->flags, f.tree[0]->flags | SL_BLOCK_DISJOINT);
    for (uint32_t s = 0; s < n; s++)
        free(f.tree[s]);
    for (uint32_t t = 0; t < TYPES; t++)
        free(f.of[t]);
    free(f.tree);
    free(b);
}

LOOP_TEST(each_seed_has_the_tree_of_a_batch_of_its_own, 0, SL_COUNT_OF(PLANS))
{
    const uint32_t odd[] = {4, 0, 444, 4, 499, 4}; // 4 has few edges, and is there several times
    compare(&PLANS[_i], odd, 6);
    compare(&PLANS[_i], odd, 1);
    compare(&PLANS[_i], SEEDS, SL_COUNT_OF(SEEDS));
}

LOOP_TEST(memory_of_the_exact_size_is_enough, 0, SL_COUNT_OF(PLANS))
{
    struct sl_draw_plan plan = PLANS[_i];
    plan.disjoint = true;
    fixture_expect_exact_size(&drawer, &plan, EPOCH, BATCH, SEEDS, 9);
}

// ---- by time ------------------------------------------------------------------------------------

static bool list_has_times(uint64_t list)
{
    return has_times(sl_typed_relation_of(&fx.topology.dataset.typed, list));
}

static void rename_edges(struct sl_block *b, const struct sl_draw_plan *plan,
                         const uint64_t *edge_of)
{
    for (uint32_t i = 0; i < sl_block_typed(b)->n_runs; i++) {
        const struct sl_block_run *run = &sl_block_runs(b)[i];
        uint64_t *ids = (uint64_t *)((char *)b + run->edge_ids_offset);
        if (plan->expand_new && run->hop + 1 < plan->n_hops)
            continue; // the same arrays as the last hop's
        for (uint32_t e = 0; e < run->n_edges; e++)
            ids[e] = edge_of[ids[e]];
    }
}

static void compare_past(const struct sl_draw_plan *timed, int back_end, uint32_t i)
{
    const uint32_t seed = i * 17;
    struct past past;
    struct sl_relation then[RELATIONS];
    past_make(&past, &fx.topology, timed, seed, list_has_times);
    memcpy(then, relations, sizeof then);
    for (uint32_t r = 0; r < RELATIONS; r++)
        then[r].first_edge = past.indptr[then[r].first_row];
    past.topology.dataset.typed.relation = then;
    past_compare(&past, timed, back_end ? &slow : &drawer, EPOCH, seed, rename_edges);
    past_free(&past);
}

LOOP_TEST(trees_are_those_of_the_graph_as_it_was, 0, SL_COUNT_OF(PLANS) * BACK_ENDS)
{
    struct sl_draw_plan plan = PLANS[_i / BACK_ENDS];
    plan.disjoint = true;
    plan.time = SL_TIME_UNIFORM;
    for (uint32_t i = 0; i < 20; i++) {
        plan.time_strict = i % 2;
        compare_past(&plan, _i % BACK_ENDS, i);
    }
}

// Of relations without times those that the sampler draws anyway.
LOOP_TEST(the_latest_edges_are_the_last_ones, 0, 2 * BACK_ENDS)
{
    compare_latest(_i, 20, compare_past);
}

// The seeds of one batch have times of their own.
LOOP_TEST(no_edge_of_a_batch_is_later_than_its_seed, 0, 2)
{
    const struct sl_draw_plan plan = {.n_hops = 3,
                                      .fanout = {9, 4, -1},
                                      .disjoint = true,
                                      .time = SL_TIME_UNIFORM,
                                      .edge_ids = true,
                                      .expand_new = _i,
                                      .stream = SL_RNG_SAMPLE};
    const uint32_t n = SL_COUNT_OF(SEEDS);
    uint32_t n_late = 0, n_timeless = 0, *tree_of[TYPES];
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, 1, SEEDS, n);
    const struct sl_block_view view = sl_block_here(b);
    for (uint32_t t = 0; t < TYPES; t++)
        tree_of[t] = fixture_alloc((sl_typed_block_rows(b, t) + 1) * sizeof **tree_of);
    for (uint32_t i = 0; i < n; i++)
        tree_of[0][i] = i;
    for (uint32_t i = 0; i < sl_block_typed(b)->n_runs; i++) {
        const struct sl_block_run *run = &sl_block_runs(b)[i];
        const struct sl_relation *r = &relations[run->relation];
        for (uint32_t row = 0, e = 0; row < run->n_dst; row++)
            for (; e < sl_run_indptr(view, run)[row + 1]; e++) {
                const uint32_t tree = tree_of[r->target][row];
                const int64_t time = edge_time[sl_run_edge_ids(view, run)[e]];
                tree_of[r->source][sl_run_indices(view, run)[e]] = tree;
                EXPECT(!r->time || time <= node_time[SEEDS[tree]],
                       "an edge of relation %u is later than seed %u", run->relation, tree);
                n_late += r->time && time > node_time[SEEDS[0]];
                n_timeless += !r->time && time > node_time[SEEDS[tree]];
            }
    }
    ck_assert_uint_gt(n_late, 0);
    ck_assert_uint_gt(n_timeless, 0);
    for (uint32_t t = 0; t < TYPES; t++)
        free(tree_of[t]);
    free(b);
}

TEST(nothing_is_allocated_once_the_largest_batch_was_seen)
{
    struct sl_draw_plan plan = PLANS[3];
    plan.disjoint = true;
    plan.time = SL_TIME_UNIFORM;
    free(fixture_draw(&drawer, &plan, 0, 0, SEEDS, 14));
    const uint64_t bytes = sl_drawer_bytes(&drawer);
    for (uint32_t batch = 0; batch < 5; batch++)
        free(fixture_draw(&drawer, &plan, 0, 0, SEEDS, 9 + batch));
    ck_assert_uint_eq(sl_drawer_bytes(&drawer), bytes);
}

RUN_TESTS()
