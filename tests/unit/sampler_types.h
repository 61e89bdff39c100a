// sampler_types.h - a graph with types for tests of sampling, with its drawers, and a seed's choice
// of plans.
#ifndef SL_TESTS_UNIT_SAMPLER_TYPES_H
#define SL_TESTS_UNIT_SAMPLER_TYPES_H

#include "tests/unit/sampler_fixture.h"
#include "trainer/feed/typed_block.h"

enum { TYPES = 5, RELATIONS = 7, N = 1001 };

/*
 * The fixture's graph, split into relations: "user" is the type with labels, "one" has one vertex,
 * "none" has no edges at all. Self-loops and repeated edges are within "user", an edge of each
 * vertex comes from "one", and the last relation has no edges.
 */
static const struct {
    uint32_t first, n;
} PARTS[TYPES] = {{0, 500}, {500, 300}, {800, 1}, {801, 190}, {991, 10}};
static const struct {
    uint32_t source, target, degree;
} RELATION[RELATIONS] = {{1, 0, 12}, {0, 0, 9},   {0, 1, 30}, {2, 0, 1},
                         {3, 1, 4},  {0, 2, 400}, {3, 3, 0}};

static struct fixture fx; // arrays by row
static struct sl_drawer drawer, slow;
static struct sl_vertex_type types[TYPES];
static struct sl_relation relations[RELATIONS];

static inline void must(int rc)
{
    EXPECT(rc == SL_OK, "%d: %s", rc, sl_error_message());
}

static inline uint32_t source_of(uint32_t r, uint32_t v, uint32_t j)
{
    const uint32_t t = RELATION[r].source;
    if (r == 1 && j % 4 == 1) // itself, or what was before
        return j % 8 == 1 ? v : source_of(r, v, j - 1);
    return PARTS[t].first + fixture_word(v * 8 + r, j + 1) % PARTS[t].n;
}

static inline uint32_t degree_of(uint32_t r, uint32_t v)
{
    const uint32_t most = RELATION[r].degree;
    return most <= 1 || most > 100 ? most : v % 5 == 4 ? 0 : fixture_word(v, r) % (most + 1);
}

static inline void make_weights(void)
{
    struct sl_dataset *ds = &fx.topology.dataset;
    struct sl_topology_view lists = fx.topology.view;
    lists.n_nodes = ds->typed.n_rows;
    fx.edge_weight = fixture_alloc(ds->n_edges * sizeof *fx.edge_weight);
    fx.weight_prefix = fixture_alloc(ds->n_edges * sizeof *fx.weight_prefix);
    for (uint64_t e = 0; e < ds->n_edges; e++)
        fx.edge_weight[e] = fixture_word((uint32_t)e, 5) % 4 ? (float)(1 + e % 9) : 0.0f;
    must(sl_kernels_ref()->weight_prefix(&lists, fx.edge_weight, fx.weight_prefix));
    fx.topology.view.weight_prefix = fx.weight_prefix;
}

static inline void setup(void)
{
    struct sl_dataset *ds = &fx.topology.dataset;
    uint64_t row = 0, e = 0, most = 0;
    fx = (struct fixture){0};
    for (uint32_t r = 0; r < RELATIONS; r++)
        most += (uint64_t)PARTS[RELATION[r].target].n * RELATION[r].degree;
    fx.indptr = fixture_alloc((RELATIONS * N + 1) * sizeof *fx.indptr);
    fx.indices = fixture_alloc(most * sizeof *fx.indices);
    fx.label = fixture_alloc(PARTS[0].n * sizeof *fx.label);
    for (uint32_t r = 0; r < RELATIONS; r++) {
        const uint32_t t = RELATION[r].target;
        relations[r] = (struct sl_relation){.source = RELATION[r].source,
                                            .target = t,
                                            .first_row = row,
                                            .first_edge = e,
                                            .reverse_of = r == 0 ? 2 : SL_NO_RELATION};
        for (uint32_t v = PARTS[t].first; v < PARTS[t].first + PARTS[t].n; v++) {
            fx.indptr[row++] = e;
            for (uint32_t j = 0; j < degree_of(r, v); j++)
                fx.indices[e++] = (int32_t)source_of(r, v, j);
        }
        relations[r].n_edges = e - relations[r].first_edge;
    }
    fx.indptr[row] = e;
    for (uint32_t t = 0; t < TYPES; t++)
        types[t] = (struct sl_vertex_type){.first = PARTS[t].first, .n = PARTS[t].n};
    for (uint32_t v = 0; v < PARTS[0].n; v++)
        fx.label[v] = (int32_t)(v % 7);
    *ds = (struct sl_dataset){
        .n_nodes = N,
        .n_edges = e,
        .indptr = fx.indptr,
        .indices = fx.indices,
        .indices_dtype = SL_DTYPE_I32,
        .label = fx.label,
        .n_classes = 7,
        .typed = {.n_types = TYPES,
                  .n_relations = RELATIONS,
                  .n_rows = row,
                  .type = types,
                  .relation = relations,
                  .linked = SL_NO_RELATION},
    };
    fx.topology.view = (struct sl_topology_view){
        .n_nodes = N, .indptr = fx.indptr, .indices = fx.indices, .indices_dtype = SL_DTYPE_I32};
    make_weights();
    must(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()));
    must(sl_drawer_init(&slow, &fx.topology, sl_kernels_ref()));
}

static inline void teardown(void)
{
    sl_drawer_fini(&drawer);
    sl_drawer_fini(&slow);
    fixture_free(&fx);
}

static const int64_t BY_RELATION[3 * RELATIONS] = {
    10, 0, 5, 1, 4, -1, 2, /* hop 1 */ 3, 4, 0, 0, -1, 20, 1, /* hop 2 */ 0, 2, 2, 1, 1, 1, 1,
};

static const struct sl_draw_plan PLANS[] = {
    {.n_hops = 3, .fanout = {5, 4, 3}, .stream = SL_RNG_SAMPLE, .seed = 7},
    {.n_hops = 2, .fanout = {-1, -1}, .stream = SL_RNG_EVAL_SAMPLE, .seed = 9, .edge_ids = true},
    {.n_hops = 3, .fanout = {5, 4, 3}, .stream = SL_RNG_SAMPLE, .seed = 7, .expand_new = true},
    {.n_hops = 4,
     .fanout = {3, -1, 1, 2},
     .stream = SL_RNG_SAMPLE,
     .seed = 7,
     .expand_new = true,
     .edge_ids = true},
    {.n_hops = 3, .by_relation = BY_RELATION, .stream = SL_RNG_SAMPLE, .seed = 3, .edge_ids = true},
    {.n_hops = 3,
     .by_relation = BY_RELATION,
     .stream = SL_RNG_SAMPLE,
     .seed = 3,
     .expand_new = true,
     .edge_ids = true},
    {.n_hops = 2, .replace = true, .fanout = {5, 40}, .stream = SL_RNG_SAMPLE, .seed = 5},
    {.kind = SL_SAMPLER_WEIGHTED, .n_hops = 3, .fanout = {5, 4, 3}, .stream = SL_RNG_SAMPLE},
    {.kind = SL_SAMPLER_WEIGHTED,
     .n_hops = 2,
     .fanout = {-1, 20},
     .stream = SL_RNG_SAMPLE,
     .expand_new = true,
     .edge_ids = true},
    {.kind = SL_SAMPLER_LABOR, .n_hops = 3, .fanout = {5, 4, 3}, .stream = SL_RNG_SAMPLE},
    {.kind = SL_SAMPLER_LABOR,
     .n_hops = 3,
     .fanout = {5, 4, 3},
     .stream = SL_RNG_SAMPLE,
     .expand_new = true},
};

// Pairs of a relation whose edges, and their reverses of another, a batch does not see.
enum { GONE_MOST = 40 };
static struct {
    uint32_t n, linked, reverse, pair[GONE_MOST][2];
} gone;

static inline bool is_gone(uint32_t relation, uint32_t source, uint32_t target)
{
    for (uint32_t i = 0; i < gone.n; i++) {
        const uint32_t *p = gone.pair[i];
        if ((relation == gone.linked && p[0] == source && p[1] == target) ||
            (relation == gone.reverse && p[1] == source && p[0] == target))
            return true;
    }
    return false;
}

static const uint32_t SEEDS[] = {7, 0, 499, 250, 4, 9, 33, 100, 101, 102, 103, 104, 3, 444};

// A type and a relation, or a metapath of it, that say nothing change no integer.
static inline void expect_as_plain(const struct sl_draw_plan *plan, const struct sl_metapath *path)
{
    struct fixture graph = fixture_graph(N);
    struct sl_dataset *ds = &graph.topology.dataset;
    const uint32_t last = plan->n_hops - 1;
    struct sl_vertex_type type = {.n = N};
    struct sl_drawer d;
    must(sl_drawer_init(&d, &graph.topology, sl_kernels_cpu()));
    struct sl_block *plain = fixture_draw(&d, plan, 1, 2, SEEDS, 9);
    sl_drawer_fini(&d);
    ds->typed = (struct sl_typed){.n_types = 1, .n_relations = 1, .n_rows = N, .type = &type};
    ds->typed.relation = calloc(1, sizeof *ds->typed.relation);
    ds->typed.relation->n_edges = ds->n_edges;
    if (path)
        must(sl_typed_set_paths(&ds->typed, path, 1));
    must(sl_drawer_init(&d, &graph.topology, sl_kernels_cpu()));
    struct sl_block *b = fixture_draw(&d, plan, 1, 2, SEEDS, 9);
    ck_assert_mem_eq(b->n_nodes, plain->n_nodes, sizeof b->n_nodes);
    ck_assert_mem_eq(sl_block_nodes(b), sl_block_nodes(plain), b->n_input * 4ull);
    const struct sl_block_run *run = sl_block_find_run(b, last, 0);
    const struct sl_block_view one = sl_block_here(b), other = sl_block_here(plain);
    ck_assert_uint_eq(run->n_edges, plain->hop[last].n_edges);
    ck_assert_mem_eq(sl_run_indptr(one, run), sl_view_indptr(other, last), run->n_dst * 4ull + 4);
    ck_assert_mem_eq(sl_run_indices(one, run), sl_view_indices(other, last), run->n_edges * 4ull);
    if (path)
        ck_assert_mem_eq(sl_run_weights(one, run), sl_view_weights(other, last),
                         run->n_edges * 4ull);
    sl_drawer_fini(&d);
    free(ds->typed.relation);
    free(plain);
    free(b);
    fixture_free(&graph);
}

#endif
