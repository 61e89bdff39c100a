// Batches that do not see their target edges: whole blocks, byte for byte those of the smaller
// graph.
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

enum { N = 300, SEEDS = 120, PAIRS = 90, EPOCH = 3, BATCH = 4 };

static uint32_t seeds[SEEDS], pairs[2 * PAIRS];

// Different vertices, the hub 0 among them, and pairs of them: most are edges.
static void choose_pairs(const struct fixture *f)
{
    uint32_t row_of[N] = {0};
    for (uint32_t i = 0; i < SEEDS; i++) {
        seeds[i] = i * 7 % N;
        row_of[seeds[i]] = i + 1;
    }
    for (uint32_t i = 0; i < PAIRS; i++) {
        const uint32_t r = fixture_word(i, 77);
        uint32_t v = r % SEEDS, u = (r >> 8) % SEEDS;
        const uint64_t first = f->indptr[seeds[v]];
        for (uint64_t e = first; i % 8 && e < f->indptr[seeds[v] + 1]; e++)
            if (row_of[f->indices[e]] && fixture_word((uint32_t)e, r) % 2)
                u = row_of[f->indices[e]] - 1;
        pairs[2 * i] = u;
        pairs[2 * i + 1] = v;
    }
}

static bool is_target(uint32_t u, uint32_t v, bool reverse)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        const uint32_t a = seeds[pairs[2 * i]], b = seeds[pairs[2 * i + 1]];
        if ((a == u && b == v) || (reverse && a == v && b == u))
            return true;
    }
    return false;
}

// The graph without the target edges; edge_of: the number that each edge has in the whole one.
static struct fixture smaller(const struct fixture *f, bool reverse, uint64_t *edge_of)
{
    struct fixture s = fixture_graph(N);
    uint64_t to = 0;
    for (uint32_t v = 0; v < N; v++) {
        s.indptr[v] = to;
        for (uint64_t e = f->indptr[v]; e < f->indptr[v + 1]; e++) {
            if (is_target((uint32_t)f->indices[e], v, reverse))
                continue;
            s.indices[to] = f->indices[e];
            s.edge_weight[to] = f->edge_weight[e];
            edge_of[to++] = e;
        }
    }
    s.indptr[N] = s.topology.dataset.n_edges = to;
    EXPECT(sl_kernels_ref()->weight_prefix(&s.topology.view, s.edge_weight, s.weight_prefix) ==
               SL_OK,
           "weights");
    return s;
}

static struct sl_block *draw(struct sl_drawer *d, const struct sl_draw_plan *plan,
                             const struct sl_target_edges *targets)
{
    for (uint64_t capacity = 4096;; capacity *= 2) {
        struct sl_block *b = fixture_alloc(capacity);
        struct sl_draw_job job = {.plan = plan,
                                  .epoch = EPOCH,
                                  .batch = BATCH,
                                  .seeds = seeds,
                                  .n_seeds = SEEDS,
                                  .targets = targets,
                                  .block = b,
                                  .capacity = capacity};
        uint64_t wanted;
        int rc = sl_drawer_draw(d, &job, &wanted);
        if (rc == SL_OK)
            return b;
        EXPECT(rc == SL_ERANGE, "drawing failed: %d: %s", rc, sl_error_message());
        free(b);
    }
}

// Gives the edges of a block of the smaller graph the numbers of the whole one.
static void number(const struct sl_block *b, const uint64_t *edge_of)
{
    for (uint32_t h = 0; h < b->n_hops; h++) {
        uint64_t *ids = (uint64_t *)(uintptr_t)sl_view_edge_ids(sl_block_here(b), h);
        for (uint32_t e = 0; e < b->hop[h].n_edges; e++)
            // Hops of one list have the same numbers, of which those there are turned.
            if (h == 0 || b->hop[h].edge_ids_offset != b->hop[h - 1].edge_ids_offset ||
                e >= b->hop[h - 1].n_edges)
                ids[e] = edge_of[ids[e]];
    }
}

static void prepare(struct fixture *f, struct sl_dataset_files *files, bool by_weight)
{
    if (by_weight) { // edges of weight 0 are none
        f->topology.dataset.files = files;
        sl_weightless_count(&f->topology.dataset, 2);
        ck_assert_int_eq(sl_topology_drop_weightless(&f->topology, 2), SL_OK);
    }
    ck_assert_int_eq(sl_topology_find_self_loops(&f->topology, 2), SL_OK);
}

// Each plan, as it is and with the edges between its vertices; of the degrees some are without
// self-loops and edges of weight 0.
LOOP_TEST(blocks_are_those_of_the_smaller_graph, 0, 3 * 2)
{
    const enum sl_subgraph subgraph = (enum sl_subgraph)(_i % 3);
    const bool reverse = _i / 3;
    static struct sl_dataset_files files[2];
    static uint64_t edge_of[N * 64];
    const struct sl_target_edges targets = {.pairs = pairs, .n = PAIRS, .reverse = reverse};
    for (size_t p = 0; p < SL_COUNT_OF(fixture_plans); p++) {
        struct sl_draw_plan plan = fixture_plans[p];
        if (subgraph != SL_SUBGRAPH_DIRECTIONAL &&
            (!plan.expand_new || sl_draw_plan_has_visits(&plan)))
            continue;
        plan.subgraph = subgraph;
        plan.degrees |= subgraph != SL_SUBGRAPH_DIRECTIONAL;
        struct fixture f = fixture_graph(N);
        fixture_tangle(&f);
        choose_pairs(&f);
        struct fixture less = smaller(&f, reverse, edge_of);
        ck_assert_uint_lt(less.topology.dataset.n_edges + 50, f.topology.dataset.n_edges);
        if (p % 2 || plan.kind == SL_SAMPLER_WEIGHTED) {
            prepare(&f, &files[0], plan.kind == SL_SAMPLER_WEIGHTED);
            prepare(&less, &files[1], plan.kind == SL_SAMPLER_WEIGHTED);
        }
        struct sl_drawer whole_drawer, less_drawer;
        ck_assert_int_eq(sl_drawer_init(&whole_drawer, &f.topology, sl_kernels_cpu()), SL_OK);
        ck_assert_int_eq(sl_drawer_init(&less_drawer, &less.topology, sl_kernels_cpu()), SL_OK);
        struct sl_block *got = draw(&whole_drawer, &plan, &targets);
        struct sl_block *want = draw(&less_drawer, &plan, NULL);
        if (plan.edge_ids)
            number(want, edge_of);
        EXPECT(got->bytes == want->bytes && memcmp(got, want, want->bytes) == 0, "plan %zu", p);
        free(got);
        // Afterwards nothing is left out that is no target.
        got = draw(&whole_drawer, &plan, NULL);
        EXPECT(got->bytes != want->bytes || memcmp(got, want, want->bytes) != 0, "plan %zu", p);
        free(got);
        free(want);
        sl_drawer_fini(&whole_drawer);
        sl_drawer_fini(&less_drawer);
        sl_self_loops_free(&f.topology.self_loops);
        sl_self_loops_free(&less.topology.self_loops);
        fixture_free(&f);
        fixture_free(&less);
        memset(files, 0, sizeof files);
    }
}

TEST(disjoint_trees_refuse_targets)
{
    struct fixture f = fixture_graph(N);
    choose_pairs(&f);
    struct sl_drawer drawer;
    const struct sl_draw_plan plan = {.n_hops = 1, .fanout = {2}, .disjoint = true};
    const struct sl_target_edges targets = {.pairs = pairs, .n = PAIRS};
    struct sl_draw_job job = {.plan = &plan, .seeds = seeds, .n_seeds = SEEDS, .targets = &targets};
    uint64_t wanted;
    ck_assert_int_eq(sl_drawer_init(&drawer, &f.topology, sl_kernels_cpu()), SL_OK);
    ck_assert_int_eq(sl_drawer_draw(&drawer, &job, &wanted), SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "disjoint"));
    sl_drawer_fini(&drawer);
    fixture_free(&f);
}

RUN_TESTS(.timeout_s = 60)
