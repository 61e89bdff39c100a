// Blocks of typed graphs: equal to a slow reference that knows no shifted rows and no runs; what
// the format promises; memory that is too small.
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/sampler_types.h"
#include "tests/unit/suite.h"

// ---- the reference ------------------------------------------------------------------------------

enum { GONE_MAX = 16 };

// A relation as a plain graph of all vertices, of which others than its targets have no edges, and
// nobody those that are gone.
struct plain {
    uint64_t *indptr, first_edge;
    int32_t *indices;
    struct sl_topology_view view;
};

static struct plain plain_of(uint32_t r)
{
    struct plain p = {.indptr = fixture_alloc((N + 1) * sizeof(uint64_t)),
                      .first_edge = relations[r].first_edge};
    const struct sl_vertex_type *t = &types[relations[r].target];
    p.indices = gone.n ? fixture_alloc((relations[r].n_edges + 1) * sizeof *p.indices) : NULL;
    p.indptr[0] = 0;
    for (uint32_t v = 0; v < N; v++) {
        const bool is_row = v >= t->first && v < t->first + t->n;
        const uint64_t row = is_row ? relations[r].first_row + v - t->first : 0;
        p.indptr[v + 1] = p.indptr[v];
        if (is_row && gone.n == 0)
            p.indptr[v + 1] += fx.indptr[row + 1] - fx.indptr[row];
        for (uint64_t e = fx.indptr[row]; is_row && gone.n && e < fx.indptr[row + 1]; e++)
            if (!is_gone(r, (uint32_t)fx.indices[e], v))
                p.indices[p.indptr[v + 1]++] = fx.indices[e];
    }
    p.view = (struct sl_topology_view){.n_nodes = N,
                                       .indptr = p.indptr,
                                       .indices = gone.n ? p.indices : fx.indices + p.first_edge,
                                       .indices_dtype = SL_DTYPE_I32,
                                       .weight_prefix = fx.weight_prefix + p.first_edge};
    return p;
}

static uint32_t type_of(uint32_t v)
{
    return sl_typed_type_of(&fx.topology.dataset.typed, v);
}

struct list {
    uint32_t n, after[SL_MAX_HOPS + 1], id[N];
};
static struct list known[TYPES];

static uint32_t number_of(struct list *l, uint32_t v)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->id[i] == v)
            return i;
    l->id[l->n] = v;
    return l->n++;
}

// One relation in one hop by the plain reference kernel, in a numbering of its own; then by that of
// the batch, against what the block has of these rows.
static void expect_rows(const struct sl_draw_plan *plan, const struct sl_block *b, uint32_t h,
                        uint32_t r, uint32_t first)
{
    static uint32_t nodes[N], indptr[N + 1], indices[N * 64];
    static uint64_t ids[N * 64];
    const struct list *target = &known[relations[r].target];
    const uint32_t n_dst = target->after[h];
    const int64_t fanout =
        plan->by_relation ? plan->by_relation[h * RELATIONS + r] : plan->fanout[h];
    const struct sl_block_run *run = sl_block_find_run(b, h, r);
    struct plain p = plain_of(r);
    struct sl_idmap *map;
    uint32_t n_nodes = 0, n_edges = 0, local;
    must(sl_idmap_create(n_dst + 1, &map));
    for (uint32_t i = 0; i < n_dst; i++)
        must(sl_idmap_insert(map, target->id[i], nodes, &n_nodes, N, &local));
    memset(indptr, 0, sizeof indptr);
    struct sl_khop_args args = {
        .topology = &p.view,
        .seed = sl_rng_relation_seed(plan->seed, r),
        .stream = plan->stream,
        .epoch = b->epoch,
        .batch = (uint32_t)b->batch,
        .hop = h,
        .fanout = fanout,
        .replace = plan->replace,
        .n_dst = n_dst,
        .first_row = first,
        .nodes = nodes,
        .n_nodes = &n_nodes,
        .nodes_capacity = N,
        .map = map,
        .indptr = indptr,
        .indices = indices,
        .indices_capacity = SL_COUNT_OF(indices),
        .n_edges = &n_edges,
        .edge_ids = ids,
    };
    if (fanout != 0 && n_dst > first)
        must(sl_kernels_ref()->sample[plan->kind](&args));
    EXPECT(n_edges == 0 || run, "hop %u, relation %u: no run", h, r);
    for (uint32_t i = first; i < n_dst && run; i++) {
        const uint32_t *at = sl_run_indptr(sl_block_here(b), run);
        ck_assert_uint_eq(at[i + 1] - at[i], n_edges ? indptr[i + 1] - indptr[i] : 0);
        for (uint32_t k = 0; n_edges && k < indptr[i + 1] - indptr[i]; k++) {
            const uint32_t v = nodes[indices[indptr[i] + k]], e = at[i] + k;
            ck_assert_uint_eq(sl_run_indices(sl_block_here(b), run)[e],
                              number_of(&known[relations[r].source], v));
            if (plan->edge_ids)
                ck_assert_uint_eq(sl_run_edge_ids(sl_block_here(b), run)[e],
                                  p.first_edge + ids[indptr[i] + k]);
        }
    }
    sl_idmap_destroy(map);
    free(p.indptr);
    free(p.indices);
}

static void expect_parts(const struct sl_block *b)
{
    const struct sl_block_type *type = sl_block_types(b);
    uint32_t at = 0;
    for (uint32_t t = 0; t < TYPES; t++) {
        ck_assert_uint_eq(type[t].first, at);
        for (uint32_t h = 0; h <= b->n_hops; h++)
            ck_assert_uint_eq(type[t].n[h], known[t].after[h]);
        for (uint32_t i = 0; i < known[t].n; i++)
            ck_assert_uint_eq(sl_block_nodes(b)[at + i], known[t].id[i]);
        at += known[t].n;
    }
    ck_assert_uint_eq(b->n_input, at);
}

static void expect_block(const struct sl_draw_plan *plan, const struct sl_block *b,
                         const uint32_t *seeds)
{
    const struct sl_block_shape shape = {.n_hops = plan->n_hops, .n_types = TYPES};
    must(sl_block_check_shape(b, b->bytes, shape));
    must(sl_typed_block_check(b, &fx.topology.dataset.typed));
    memset(known, 0, sizeof known);
    for (uint32_t i = 0; i < b->n_seeds; i++)
        number_of(&known[type_of(seeds[i])], seeds[i]);
    for (uint32_t t = 0; t < TYPES; t++)
        known[t].after[0] = known[t].n;
    uint64_t n_edges = 0;
    for (uint32_t h = 0; h < plan->n_hops; h++) {
        for (uint32_t r = 0; r < RELATIONS; r++) {
            const struct list *target = &known[relations[r].target];
            const bool keeps = plan->expand_new && h > 0;
            expect_rows(plan, b, h, r, keeps ? target->after[h - 1] : 0);
        }
        for (uint32_t t = 0; t < TYPES; t++)
            known[t].after[h + 1] = known[t].n;
    }
    for (uint32_t i = 0; i < sl_block_typed(b)->n_runs; i++) {
        ck_assert_uint_gt(sl_block_runs(b)[i].n_edges, 0);
        n_edges += sl_block_runs(b)[i].n_edges;
    }
    ck_assert_uint_eq(b->n_edges, n_edges);
    expect_parts(b);
}

// ---- tests --------------------------------------------------------------------------------------

CASE(.name = "cores", .setup = setup, .teardown = teardown)

LOOP_TEST(blocks_are_those_of_plain_relations, 0, SL_COUNT_OF(PLANS))
{
    for (uint32_t batch = 0; batch < 6; batch++) {
        const uint32_t *seeds = SEEDS + batch, n = batch == 5 ? 1 : 9;
        struct sl_block *b = fixture_draw(&drawer, &PLANS[_i], batch, batch, seeds, n);
        expect_block(&PLANS[_i], b, seeds);
        struct sl_block *same = fixture_draw(&slow, &PLANS[_i], batch, batch, seeds, n);
        ck_assert_uint_eq(same->bytes, b->bytes);
        ck_assert_mem_eq(same, b, b->bytes);
        free(same);
        free(b);
    }
}

// Of several types, type after type; labels are those of the first.
static const uint32_t MIXED[] = {7, 0, 499, 250, 700, 500, 501, 799, 800, 955, 801, 1000};

LOOP_TEST(seeds_may_be_of_any_type, 0, SL_COUNT_OF(PLANS))
{
    static const struct {
        uint32_t first, n;
    } of[] = {{0, 12}, {3, 4}, {4, 4}, {8, 1}, {11, 1}};
    for (uint32_t i = 0; i < SL_COUNT_OF(of); i++) {
        const uint32_t *seeds = MIXED + of[i].first;
        struct sl_block *b = fixture_draw(&drawer, &PLANS[_i], 1, i, seeds, of[i].n);
        const int32_t *labels = sl_view_targets(sl_block_here(b));
        expect_block(&PLANS[_i], b, seeds);
        for (uint32_t s = 0; s < of[i].n; s++)
            ck_assert_int_eq(labels[s], seeds[s] < PARTS[0].n ? (int32_t)(seeds[s] % 7) : -1);
        free(b);
    }
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Pairs of a relation, all edges but the last; their ends, ascending, and in `pairs` their numbers.
static uint32_t choose_gone(uint32_t linked, uint32_t reverse, uint32_t batch, uint32_t *ends,
                            uint32_t pairs[GONE_MAX][2])
{
    uint32_t n = 0;
    gone.n = batch == 0 ? 2 : GONE_MAX;
    gone.linked = linked;
    gone.reverse = reverse;
    for (uint32_t i = 0; i < gone.n; i++) { // some twice; each other one by its reverse
        const bool back = i / 2 % 2 && reverse != SL_NO_RELATION;
        const struct sl_relation *r = &relations[back ? reverse : linked];
        const uint64_t e = r->first_edge + fixture_word(i / 2, batch) % r->n_edges;
        const uint64_t row =
            sl_row_of_edge(&fx.topology.dataset, r->first_row, types[r->target].n, e);
        gone.pair[i][back] = (uint32_t)fx.indices[e];
        gone.pair[i][!back] = (uint32_t)(types[r->target].first + row - r->first_row);
    }
    gone.pair[gone.n - 1][0] = (uint32_t)types[relations[linked].source].first + 3;
    uint32_t all[2 * GONE_MAX];
    memcpy(all, gone.pair, sizeof all);
    qsort(all, 2 * gone.n, sizeof *all, ascending);
    for (uint32_t i = 0; i < 2 * gone.n; i++)
        if (n == 0 || ends[n - 1] != all[i])
            ends[n++] = all[i];
    for (uint32_t i = 0; i < 2 * gone.n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (ends[k] == gone.pair[i / 2][i % 2])
                pairs[i / 2][i % 2] = k;
    return n;
}

static struct sl_block *draw_without(const struct sl_draw_plan *plan, uint32_t batch,
                                     const uint32_t *seeds, uint32_t n,
                                     const struct sl_target_edges *targets)
{
    const uint64_t capacity = 1 << 22;
    struct sl_draw_job job = {.plan = plan,
                              .epoch = 1,
                              .batch = batch,
                              .seeds = seeds,
                              .n_seeds = n,
                              .targets = targets,
                              .block = fixture_alloc(capacity),
                              .capacity = capacity};
    uint64_t wanted;
    must(sl_drawer_draw(&drawer, &job, &wanted));
    return job.block;
}

// Of a relation between two types, whose reverse another one has, and of one within a type.
LOOP_TEST(target_edges_leave_with_their_reverses, 0, 8)
{
    static const struct sl_draw_plan plans[] = {
        {.n_hops = 2, .fanout = {-1, -1}, .stream = SL_RNG_SAMPLE},
        {.n_hops = 3, .fanout = {5, 4, 3}, .stream = SL_RNG_SAMPLE, .expand_new = true},
        {.kind = SL_SAMPLER_LABOR, .n_hops = 2, .fanout = {5, 4}, .stream = SL_RNG_SAMPLE},
    };
    const bool within = _i % 2, reverse = _i / 2 % 2;
    struct sl_typed *typed = &fx.topology.dataset.typed;
    fx.topology.view.lists_rise = fx.topology.dataset.lists_rise = false;
    typed->linked = within ? 1 : 2;
    for (uint32_t batch = 0; batch < 4; batch++) {
        uint32_t ends[2 * GONE_MAX], pairs[GONE_MAX][2];
        const uint32_t back = !reverse ? SL_NO_RELATION : within ? 1 : 0;
        const uint32_t n = choose_gone(typed->linked, back, batch, ends, pairs);
        const struct sl_target_edges targets = {
            .pairs = &pairs[0][0], .n = gone.n, .reverse = reverse};
        for (uint32_t i = 0; i < SL_COUNT_OF(plans); i++) {
            struct sl_block *all = draw_without(&plans[i], batch, ends, n, NULL),
                            *b = draw_without(&plans[i], batch, ends, n, &targets);
            expect_block(&plans[i], b, ends);
            EXPECT(i > 0 || b->n_edges < all->n_edges, "nothing is gone");
            free(all);
            free(b);
        }
    }
    gone.n = 0;
}

LOOP_TEST(memory_of_the_exact_size_is_enough, 0, SL_COUNT_OF(PLANS))
{
    fixture_expect_exact_size(&drawer, &PLANS[_i], 1, 2, SEEDS, 9);
}

// Types and a relation that say nothing change no integer.
TEST(a_graph_of_one_relation_draws_what_a_plain_one_does)
{
    expect_as_plain(&PLANS[0], NULL);
    expect_as_plain(&PLANS[3], NULL);
}

// A draw depends on nothing that other relations have drawn.
TEST(a_relation_that_is_left_out_changes_no_other_in_its_hop)
{
    int64_t fanout[RELATIONS] = {5, 5, 5, 5, 5, 5, 5};
    const struct sl_draw_plan plan = {
        .n_hops = 1, .by_relation = fanout, .stream = SL_RNG_SAMPLE, .edge_ids = true};
    struct sl_block *all = fixture_draw(&drawer, &plan, 0, 0, SEEDS, 9);
    fanout[0] = 0;
    struct sl_block *b = fixture_draw(&drawer, &plan, 0, 0, SEEDS, 9);
    ck_assert_ptr_null(sl_block_find_run(b, 0, 0));
    const struct sl_block_run *run = sl_block_find_run(b, 0, 1),
                              *was = sl_block_find_run(all, 0, 1);
    ck_assert_uint_eq(run->n_edges, was->n_edges);
    ck_assert_mem_eq(sl_run_edge_ids(sl_block_here(b), run),
                     sl_run_edge_ids(sl_block_here(all), was), run->n_edges * 8ull);
    free(all);
    free(b);
}

TEST(nothing_is_allocated_once_the_largest_batch_was_seen)
{
    free(fixture_draw(&drawer, &PLANS[2], 0, 0, SEEDS, 14));
    const uint64_t bytes = sl_drawer_bytes(&drawer);
    ck_assert_uint_gt(bytes, 0);
    for (uint32_t batch = 1; batch < 20; batch++)
        free(fixture_draw(&drawer, &PLANS[2], 0, batch, SEEDS + batch % 5, 5));
    ck_assert_uint_eq(sl_drawer_bytes(&drawer), bytes);
}

static int draw(const struct sl_draw_plan *plan, const uint32_t *seeds, uint32_t n)
{
    struct sl_block *b = fixture_alloc(1 << 20);
    uint64_t wanted;
    const int rc = fixture_draw_into(&drawer, plan, 0, 0, seeds, n, b, 1 << 20, &wanted);
    free(b);
    return rc;
}

TEST(what_can_not_be_drawn)
{
    const uint32_t other[] = {N}, twice[] = {1, 2, 1}, mixed[] = {1, 500, 2};
    struct sl_draw_plan plan = PLANS[0];
    ck_assert_int_eq(draw(&plan, other, 1), SL_EPROTO);
    ck_assert_int_eq(draw(&plan, mixed, 3), SL_EPROTO); // not type after type
    ck_assert_int_eq(draw(&plan, twice, 3), SL_EPROTO);
    plan.degrees = true;
    ck_assert_int_eq(draw(&plan, SEEDS, 3), SL_EUNSUPPORTED);
    plan = PLANS[0];
    plan.disjoint = true;
    plan.time = SL_TIME_UNIFORM; // of a graph without
    ck_assert_int_eq(draw(&plan, SEEDS, 3), SL_EPROTO);
    plan = PLANS[0];
    plan.kind = SL_SAMPLER_WALK;
    ck_assert_int_eq(draw(&plan, SEEDS, 3), SL_EUNSUPPORTED);
}

// Each number of the tables that can lead out of the block.
TEST(damaged_blocks_are_found)
{
    struct sl_block *b = fixture_draw(&drawer, &PLANS[1], 0, 0, SEEDS, 9);
    const struct sl_block_shape shape = {.n_hops = 2, .n_types = TYPES};
    const struct sl_typed *typed = &fx.topology.dataset.typed;
    struct sl_block_typed *table = (struct sl_block_typed *)(void *)((char *)b + b->typed_offset);
    struct sl_block_type *type = (struct sl_block_type *)(void *)(table + 1);
    struct sl_block_run *run = (struct sl_block_run *)(void *)((char *)b + table->runs_offset);
    must(sl_block_check_shape(b, b->bytes, shape));
    must(sl_typed_block_check(b, typed));
#define BROKEN(field, value, check)                                                                \
    do {                                                                                           \
        const __typeof__(field) kept = field;                                                      \
        (field) = (__typeof__(field))(value);                                                      \
        EXPECT((check) == SL_EPROTO, "%s is %s", #field, #value);                                  \
        (field) = kept;                                                                            \
    } while (0)
    BROKEN(table->n_types, TYPES + 1, sl_block_check_shape(b, b->bytes, shape));
    BROKEN(b->typed_offset, b->bytes - 8, sl_block_check(b, b->bytes));
    BROKEN(b->typed_offset, b->typed_offset + 4, sl_block_check(b, b->bytes));
    BROKEN(table->runs_offset, b->bytes, sl_block_check(b, b->bytes));
    BROKEN(table->n_runs, UINT32_MAX, sl_block_check(b, b->bytes));
    BROKEN(b->flags, b->flags | SL_BLOCK_HAS_DEGREES, sl_block_check(b, b->bytes));
    BROKEN(b->n_nodes[1], b->n_nodes[1] - 1, sl_block_check(b, b->bytes));
    BROKEN(type[1].first, type[1].first + 1, sl_block_check(b, b->bytes));
    BROKEN(type[0].n[0], type[0].n[0] + 1, sl_block_check(b, b->bytes));
    BROKEN(run[0].hop, 2, sl_block_check(b, b->bytes));
    BROKEN(run[0].n_dst, UINT32_MAX, sl_block_check(b, b->bytes));
    BROKEN(run[1].indptr_offset, b->bytes, sl_block_check(b, b->bytes));
    BROKEN(run[1].indices_offset, 8, sl_block_check(b, b->bytes));
    BROKEN(run[1].edge_ids_offset, b->bytes - 4, sl_block_check(b, b->bytes));
    BROKEN(run[0].relation, RELATIONS, sl_typed_block_check(b, typed));
    BROKEN(run[0].relation, run[1].relation, sl_typed_block_check(b, typed));
    BROKEN(run[0].n_dst, run[0].n_dst - 1, sl_typed_block_check(b, typed));
    free(b);
}

// ---- on a GPU -----------------------------------------------------------------------------------

static const struct sl_plugin *gpu;
static struct sl_graph_placement residence;
static struct sl_drawer on_gpu;

static void setup_gpu(void)
{
    setup();
    gpu = gpu_open(0);
}

static void bring(double most)
{
    const struct sl_graph_placement_spec spec = {
        .topology = &fx.topology, .share = 0.6, .most = most, .files = {-1, -1, -1}, .threads = 1};
    must(sl_graph_placement_open(&residence, &spec, gpu->device, gpu->kernels));
    must(sl_drawer_init_on(&on_gpu, &fx.topology, &residence));
}

static void teardown_gpu(void)
{
    sl_drawer_fini(&on_gpu);
    sl_graph_placement_close(&residence);
    teardown();
}

static void compare(const struct sl_draw_plan *plan, uint32_t batch, const uint32_t *seeds,
                    uint32_t n)
{
    struct sl_block *b = fixture_draw(&drawer, plan, batch, batch, seeds, n);
    struct sl_block *same = fixture_draw(&on_gpu, plan, batch, batch, seeds, n);
    ck_assert_uint_eq(same->bytes, b->bytes);
    ck_assert_mem_eq(same, b, b->bytes);
    free(same);
    free(b);
}

CASE(.name = "gpu", .setup = setup_gpu, .teardown = teardown_gpu, .timeout_s = 120, ON_A_GPU)

// By a state that has drawn other plans before.
LOOP_TEST(blocks_are_those_of_the_processor, 0, SL_COUNT_OF(PLANS))
{
    bring(0);
    for (uint32_t batch = 0; batch < 3; batch++)
        compare(&PLANS[_i], batch, SEEDS + batch, batch == 2 ? 1 : 9);
    compare(&PLANS[(_i + 3) % (int)SL_COUNT_OF(PLANS)], 4, SEEDS, 5);
    compare(&PLANS[_i], 5, SEEDS, 14);
}

// Half of the edges on the device, the others read where they lie.
TEST(a_graph_that_fits_in_part)
{
    bring(0.5);
    ck_assert_uint_gt(residence.n_resident, fx.topology.dataset.n_edges / 3);
    ck_assert_uint_lt(residence.n_resident, fx.topology.dataset.n_edges);
    compare(&PLANS[4], 1, SEEDS, 9);
    compare(&PLANS[8], 1, SEEDS, 9);
}

LOOP_TEST(memory_of_the_exact_size_is_enough_for_a_gpu, 0, 3)
{
    const uint32_t plans[] = {1, 3, 7};
    bring(0);
    fixture_expect_exact_size(&on_gpu, &PLANS[plans[_i]], 1, 2, SEEDS, 9);
}

// Two batches of different plans under way at once, each in memory of its own.
TEST(batches_beside_each_other)
{
    struct sl_draw_job job[2];
    bring(0);
    ck_assert_uint_eq(sl_drawer_depth(&on_gpu), 2);
    for (uint32_t i = 0; i < 2; i++) {
        job[i] = (struct sl_draw_job){.plan = &PLANS[2 + 3 * i],
                                      .batch = i,
                                      .seeds = SEEDS + i,
                                      .n_seeds = 9,
                                      .block = fixture_alloc(1 << 20),
                                      .capacity = 1 << 20};
        must(sl_drawer_begin(&on_gpu, &job[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t wanted;
        must(sl_drawer_finish(&on_gpu, &job[i], &wanted));
        struct sl_block *b = fixture_draw(&drawer, job[i].plan, 0, i, SEEDS + i, 9);
        ck_assert_uint_eq(job[i].block->bytes, b->bytes);
        ck_assert_mem_eq(job[i].block, b, b->bytes);
        free(job[i].block);
        free(b);
    }
}

RUN_TESTS(.timeout_s = 60)
