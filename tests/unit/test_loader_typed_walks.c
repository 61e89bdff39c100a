// Walks along metapaths: equal to a naive walker that knows no rows, no tables and no blocks; on
// GPUs; as trees; and what plain walks are beside them.
#include "kernels/walk_internal.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/sampler_types.h"
#include "tests/unit/suite.h"

/*
 * Metapaths of the fixture's graph, against its edges. One user in five has no edges, so paths end
 * in their middle; "hub" goes through a vertex alone, which has 400 in-edges; "far", "end" and
 * "one" end at another type than they begin with, "end" always before its end.
 */
enum { PATHS = 7, MET_MAX = 64 };
static const struct sl_metapath METAPATH[PATHS] = {
    {"near", 2, {0, 2}},    {"self", 1, {1}},      {"hub", 2, {3, 5}}, {"far", 2, {0, 4}},
    {"back", 3, {2, 1, 0}}, {"end", 3, {0, 4, 6}}, {"one", 1, {5}},
};

static void start(void)
{
    struct sl_typed *typed = &fx.topology.dataset.typed;
    setup();
    typed->relation = memcpy(malloc(sizeof relations), relations, sizeof relations);
    must(sl_typed_set_paths(typed, METAPATH, PATHS));
    sl_drawer_fini(&drawer);
    sl_drawer_fini(&slow);
    must(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()));
    must(sl_drawer_init(&slow, &fx.topology, sl_kernels_ref()));
}

static void end(void)
{
    struct sl_relation *made = fx.topology.dataset.typed.relation;
    teardown();
    free(made);
}

static const int64_t BY_PATH[3 * PATHS] = {
    3, 0, 5, 1, 4, -1, 2, /* hop 1 */ 0, 4, 2, 1, -1, 1, 1, /* hop 2 */ 2, 2, 0, 2, 2, 1, -1,
};

#define WALK .kind = SL_SAMPLER_WALK, .stream = SL_RNG_SAMPLE
static const struct sl_draw_plan WALKS[] = {
    {WALK, .n_hops = 2, .fanout = {3, 4}, .seed = 7, .paths = 4, .length = 3, .restart = 0.4f},
    {WALK, .n_hops = 1, .fanout = {-1}, .seed = 1, .paths = 9, .length = 5},
    {WALK, .n_hops = 3, .fanout = {2, 3, 1}, .expand_new = true, .seed = 9, .paths = 3, .length = 2,
     .restart = 0.5f},
    {WALK, .n_hops = 3, .by_relation = BY_PATH, .seed = 3, .paths = 5, .length = 4, .restart = 1},
    {WALK, .n_hops = 3, .by_relation = BY_PATH, .expand_new = true, .seed = 5, .paths = 17,
     .length = 1},
};

// ---- the naive walker ---------------------------------------------------------------------------

struct walker {
    const struct sl_draw_plan *plan;
    uint32_t epoch, batch, hop, path; // path: the metapath
};

static struct sl_rng_block words_of(const struct walker *w, uint32_t tag, uint32_t group,
                                    uint32_t row)
{
    return sl_philox(sl_rng_relation_seed(w->plan->seed, w->path),
                     sl_rng_word0(w->plan->stream, w->hop | tag, group), row, w->batch, w->epoch);
}

static uint32_t choose(const struct walker *w, uint32_t group, uint32_t step, uint32_t row,
                       uint32_t n)
{
    uint32_t x = 0, attempt = 0;
    while (!sl_rng_below(words_of(w, attempt << 3, group, row).w[step % 4], n, &x) && attempt < 15)
        attempt++;
    return x;
}

struct met {
    uint32_t n, vertex[MET_MAX * 4], count[MET_MAX * 4];
};

static void meet(struct met *met, uint32_t v)
{
    uint32_t i = 0;
    while (i < met->n && met->vertex[i] != v)
        i++;
    if (i == met->n)
        met->vertex[met->n++] = v;
    met->count[i]++;
}

enum { DEGREE_MAX = 400 };

// How many edges of v's row are left, and in `place` where they stand; of others all, in order.
static uint32_t list_left(uint32_t relation, uint32_t v, uint32_t *place)
{
    uint32_t n = 0;
    const bool asks = relation == gone.linked || relation == gone.reverse;
    for (uint32_t j = 0; j < degree_of(relation, v); j++)
        if (!asks || !is_gone(relation, source_of(relation, v, j), v))
            place[n++] = j;
    return n;
}

// All walks of row i, which is v, in the order in which they meet vertices.
static void walk(const struct walker *w, uint32_t i, uint32_t v, struct met *met)
{
    const struct sl_metapath *path = &METAPATH[w->path];
    const uint32_t steps = path->n_steps * w->plan->length;
    const bool round =
        RELATION[path->step[path->n_steps - 1]].source == RELATION[path->step[0]].target;
    memset(met, 0, sizeof *met);
    for (uint32_t p = 0; p < w->plan->paths; p++) {
        uint32_t at = v;
        for (uint32_t time = 0, s = 0; time < w->plan->length; time++) {
            for (uint32_t k = 0; k < path->n_steps; k++, s++) {
                const uint32_t group = p * ((steps + 3) / 4) + s / 4, r = path->step[k];
                const float unit = sl_rng_unit(words_of(w, 128, group, i).w[s % 4]);
                if (k == 0 && time > 0 && (!round || unit < w->plan->restart))
                    at = v;
                uint32_t left[DEGREE_MAX];
                const uint32_t n = list_left(r, at, left);
                if (n == 0)
                    goto ended;
                at = source_of(r, at, left[choose(w, group, s, i, n)]);
            }
            if (at != v)
                meet(met, at);
        }
    ended:;
    }
}

// ---- a block beside it --------------------------------------------------------------------------

struct list {
    uint32_t n, after[SL_MAX_HOPS + 1], id[N];
};
static struct list known[TYPES];

static uint32_t number_of(struct list *l, uint32_t v)
{
    uint32_t i = 0;
    while (i < l->n && l->id[i] != v)
        i++;
    if (i == l->n)
        l->id[l->n++] = v;
    return i;
}

static void expect_row(const struct walker *w, const struct sl_block *b, uint32_t row,
                       uint32_t target, uint32_t source)
{
    const struct sl_block_run *run = sl_block_find_run(b, w->hop, w->path);
    const struct sl_block_view view = sl_block_here(b);
    const int64_t fanout = w->plan->by_relation ? w->plan->by_relation[w->hop * PATHS + w->path]
                                                : w->plan->fanout[w->hop];
    const uint32_t first = run ? sl_run_indptr(view, run)[row] : 0;
    const uint32_t n = run ? sl_run_indptr(view, run)[row + 1] - first : 0;
    struct met met = {0};
    if (fanout != 0)
        walk(w, row, known[target].id[row], &met);
    EXPECT(n == (fanout < 0 ? met.n : SL_MIN(met.n, (uint32_t)fanout)),
           "hop %u, %s, row %u: %u edges of %u met", w->hop, METAPATH[w->path].name, row, n, met.n);
    for (uint32_t e = first; e < first + n; e++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < met.n; i++)
            best = met.count[i] > met.count[best] ? i : best;
        EXPECT(sl_run_indices(view, run)[e] == number_of(&known[source], met.vertex[best]) &&
                   sl_run_weights(view, run)[e] == (float)met.count[best],
               "hop %u, %s, row %u: edge %u, %g visits", w->hop, METAPATH[w->path].name, row, e,
               (double)sl_run_weights(view, run)[e]);
        met.count[best] = 0;
    }
}

static void expect_block(const struct sl_draw_plan *plan, const struct sl_block *b,
                         const uint32_t *seeds)
{
    const struct sl_block_shape shape = {.n_hops = plan->n_hops, .n_types = TYPES};
    const struct sl_typed *typed = &fx.topology.dataset.typed;
    must(sl_block_check_shape(b, b->bytes, shape));
    must(sl_typed_block_check(b, typed));
    memset(known, 0, sizeof known);
    for (uint32_t i = 0; i < b->n_seeds; i++)
        number_of(&known[sl_typed_type_of(typed, seeds[i])], seeds[i]);
    for (uint32_t t = 0; t < TYPES; t++)
        known[t].after[0] = known[t].n;
    for (uint32_t h = 0; h < plan->n_hops; h++) {
        for (uint32_t r = 0; r < PATHS; r++) {
            const struct walker w = {plan, b->epoch, (uint32_t)b->batch, h, r};
            const uint32_t target = RELATION[METAPATH[r].step[0]].target;
            const uint32_t source = RELATION[METAPATH[r].step[METAPATH[r].n_steps - 1]].source;
            const bool keeps = plan->expand_new && h > 0;
            for (uint32_t row = keeps ? known[target].after[h - 1] : 0;
                 row < known[target].after[h]; row++)
                expect_row(&w, b, row, target, source);
        }
        for (uint32_t t = 0; t < TYPES; t++)
            known[t].after[h + 1] = known[t].n;
    }
    for (uint32_t t = 0; t < TYPES; t++) {
        const struct sl_block_type *part = &sl_block_types(b)[t];
        ck_assert_mem_eq(part->n, known[t].after, (plan->n_hops + 1) * sizeof *part->n);
        for (uint32_t i = 0; i < known[t].n; i++)
            ck_assert_uint_eq(sl_block_nodes(b)[part->first + i], known[t].id[i]);
    }
}

CASE(.name = "cores", .setup = start, .teardown = end, .timeout_s = 120)

// Of all types, the lonely vertex and users without edges among them.
static const uint32_t FROM[] = {7, 0, 4, 499, 250, 9, 500, 501, 799, 800, 955, 801, 1000};

LOOP_TEST(blocks_are_those_of_a_naive_walker, 0, SL_COUNT_OF(WALKS))
{
    uint64_t edges = 0;
    for (uint32_t batch = 0; batch < 5; batch++) {
        const uint32_t *seeds = FROM + batch, n = batch == 4 ? 1 : SL_COUNT_OF(FROM) - batch;
        struct sl_block *b = fixture_draw(&drawer, &WALKS[_i], batch, batch, seeds, n);
        expect_block(&WALKS[_i], b, seeds);
        edges += b->n_edges;
        struct sl_block *same = fixture_draw(&slow, &WALKS[_i], batch, batch, seeds, n);
        ck_assert_uint_eq(same->bytes, b->bytes);
        ck_assert_mem_eq(same, b, b->bytes);
        free(same);
        free(b);
    }
    ck_assert_uint_gt(edges, 0);
}

// More rows than walk side by side, so that groups of them follow each other.
TEST(many_rows)
{
    static uint32_t users[500];
    for (uint32_t v = 0; v < SL_COUNT_OF(users); v++)
        users[v] = v;
    struct sl_block *b = fixture_draw(&drawer, &WALKS[0], 3, 1, users, SL_COUNT_OF(users));
    expect_block(&WALKS[0], b, users);
    free(b);
}

LOOP_TEST(memory_of_the_exact_size_is_enough, 0, SL_COUNT_OF(WALKS))
{
    fixture_expect_exact_size(&drawer, &WALKS[_i], 1, 2, FROM, 9);
}

// ---- links --------------------------------------------------------------------------------------

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Edges of a relation as pairs, and their ends, ascending; in `pairs` the numbers of these.
static uint32_t choose_gone(uint32_t batch, uint32_t *ends, uint32_t pairs[GONE_MOST][2])
{
    const uint32_t t = RELATION[gone.linked].target;
    uint32_t n = 0, all[2 * GONE_MOST];
    for (gone.n = 0; gone.n < GONE_MOST;) {
        const uint32_t v = PARTS[t].first + fixture_word(n++, batch) % PARTS[t].n;
        const uint32_t degree = degree_of(gone.linked, v);
        if (degree == 0)
            continue;
        gone.pair[gone.n][0] = source_of(gone.linked, v, fixture_word(n, 2) % degree);
        gone.pair[gone.n++][1] = v;
    }
    memcpy(all, gone.pair, sizeof all);
    qsort(all, 2 * GONE_MOST, sizeof *all, ascending);
    n = 0;
    for (uint32_t i = 0; i < 2 * GONE_MOST; i++)
        if (n == 0 || ends[n - 1] != all[i])
            ends[n++] = all[i];
    for (uint32_t i = 0; i < 2 * GONE_MOST; i++)
        for (uint32_t k = 0; k < n; k++)
            if (ends[k] == gone.pair[i / 2][i % 2])
                pairs[i / 2][i % 2] = k;
    return n;
}

static struct sl_block *draw_pairs(struct sl_drawer *d, const struct sl_draw_plan *plan,
                                   uint32_t batch, const uint32_t *seeds, uint32_t n,
                                   const struct sl_target_edges *targets)
{
    struct sl_draw_job job = {.plan = plan,
                              .epoch = batch,
                              .batch = batch,
                              .seeds = seeds,
                              .n_seeds = n,
                              .targets = targets,
                              .block = fixture_alloc(1 << 22),
                              .capacity = 1 << 22};
    uint64_t wanted;
    must(sl_drawer_draw(d, &job, &wanted));
    return job.block;
}

// No step of a walk goes over an edge of the batch's pairs, nor over its reverse: of a relation
// between two types, and of one within a type, which has the reverses itself.
LOOP_TEST(walks_do_not_see_the_pairs, 0, 3 * SL_COUNT_OF(WALKS))
{
    static const uint32_t linked[] = {2, 0, 1}, back[] = {0, 2, 1};
    const struct sl_draw_plan *plan = &WALKS[_i / 3];
    struct sl_typed *typed = &fx.topology.dataset.typed;
    gone.linked = linked[_i % 3];
    gone.reverse = back[_i % 3];
    typed->linked = PATHS + gone.linked;
    bool differs = false;
    for (uint32_t batch = 0; batch < 2; batch++) {
        uint32_t ends[2 * GONE_MOST], pairs[GONE_MOST][2];
        const uint32_t n = choose_gone(batch, ends, pairs);
        const struct sl_target_edges targets = {
            .pairs = &pairs[0][0], .n = gone.n, .reverse = true};
        struct sl_block *b = draw_pairs(&drawer, plan, batch, ends, n, &targets),
                        *same = draw_pairs(&slow, plan, batch, ends, n, &targets),
                        *all = draw_pairs(&drawer, plan, batch, ends, n, NULL);
        expect_block(plan, b, ends);
        ck_assert_uint_eq(same->bytes, b->bytes);
        ck_assert_mem_eq(same, b, b->bytes);
        differs |= all->bytes != b->bytes || memcmp(all, b, b->bytes) != 0;
        free(all);
        free(same);
        free(b);
    }
    ck_assert(differs || plan->by_relation); // which has no walks along some of them
    gone.n = 0;
    typed->linked = SL_NO_RELATION;
}

LOOP_TEST(a_graph_of_one_relation_draws_what_a_plain_walk_does, 0, 3)
{
    const struct sl_metapath path = {"path", 1, {0}};
    expect_as_plain(&WALKS[_i], &path);
}

TEST(kinds_and_relations_go_together)
{
    struct sl_typed *typed = &fx.topology.dataset.typed;
    struct sl_block *b = fixture_alloc(1 << 16);
    uint64_t wanted;
    ck_assert_int_eq(fixture_draw_into(&drawer, &PLANS[0], 0, 0, FROM, 3, b, 1 << 16, &wanted),
                     SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "edges of metapaths"));
    typed->n_walked = 0;
    ck_assert_int_eq(fixture_draw_into(&drawer, &WALKS[0], 0, 0, FROM, 3, b, 1 << 16, &wanted),
                     SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "walks along no metapath"));
    typed->n_walked = RELATIONS;
    free(b);
}

TEST(damaged_blocks_are_found)
{
    struct sl_block *b = fixture_draw(&drawer, &WALKS[0], 0, 0, FROM, 9);
    struct sl_block_run *run =
        (struct sl_block_run *)(void *)((char *)b + sl_block_typed(b)->runs_offset);
    const uint64_t offset = run->weights_offset;
    must(sl_block_check(b, b->bytes));
    run->weights_offset = b->bytes - 4 * (uint64_t)run->n_edges + 4;
    ck_assert_int_eq(sl_block_check(b, b->bytes), SL_EPROTO);
    run->weights_offset = offset;
    b->flags |= SL_BLOCK_HAS_EDGE_IDS;
    ck_assert_int_eq(sl_block_check(b, b->bytes), SL_EPROTO);
    free(b);
}

// A tree's edges, and their visits, are those of a batch of its seed alone.
LOOP_TEST(trees_are_batches_of_one_seed, 0, SL_COUNT_OF(WALKS))
{
    static const uint32_t seeds[] = {7, 4, 7, 499};
    struct sl_draw_plan disjoint = WALKS[_i];
    uint64_t n_edges = 0;
    double visits[2] = {0};
    disjoint.disjoint = true;
    struct sl_block *b = fixture_draw(&drawer, &disjoint, 1, 2, seeds, 4);
    for (uint32_t s = 0; s < 4; s++) {
        struct sl_block *tree = fixture_draw(&drawer, &WALKS[_i], 1, 2 * 4 + s, &seeds[s], 1);
        n_edges += tree->n_edges;
        for (uint32_t i = 0; i < sl_block_typed(tree)->n_runs; i++)
            for (uint32_t e = 0; e < sl_block_runs(tree)[i].n_edges; e++)
                visits[0] += sl_run_weights(sl_block_here(tree), &sl_block_runs(tree)[i])[e];
        free(tree);
    }
    for (uint32_t i = 0; i < sl_block_typed(b)->n_runs; i++)
        for (uint32_t e = 0; e < sl_block_runs(b)[i].n_edges; e++)
            visits[1] += sl_run_weights(sl_block_here(b), &sl_block_runs(b)[i])[e];
    ck_assert_uint_eq(b->n_edges, n_edges);
    ck_assert_double_eq(visits[0], visits[1]);
    free(b);
}

// ---- on a GPU -----------------------------------------------------------------------------------

static struct sl_graph_placement residence;
static struct sl_drawer on_gpu;

static void start_gpu(void)
{
    start();
    const struct sl_plugin *gpu = gpu_open(0);
    const struct sl_graph_placement_spec spec = {
        .topology = &fx.topology, .share = 0.6, .files = {-1, -1, -1}, .threads = 1};
    must(sl_graph_placement_open(&residence, &spec, gpu->device, gpu->kernels));
    must(sl_drawer_init_on(&on_gpu, &fx.topology, &residence));
}

static void end_gpu(void)
{
    sl_drawer_fini(&on_gpu);
    sl_graph_placement_close(&residence);
    end();
}

CASE(.name = "gpu", .setup = start_gpu, .teardown = end_gpu, .timeout_s = 120, ON_A_GPU)

// By a state that has drawn other plans before.
LOOP_TEST(blocks_are_those_of_the_processor, 0, SL_COUNT_OF(WALKS))
{
    for (uint32_t batch = 0; batch < 4; batch++) {
        const struct sl_draw_plan *plan = &WALKS[((uint32_t)_i + batch / 2) % SL_COUNT_OF(WALKS)];
        const uint32_t n = batch == 2 ? 1 : 9;
        struct sl_block *b = fixture_draw(&drawer, plan, batch, batch, SEEDS + batch, n);
        struct sl_block *same = fixture_draw(&on_gpu, plan, batch, batch, SEEDS + batch, n);
        ck_assert_uint_eq(same->bytes, b->bytes);
        ck_assert_mem_eq(same, b, b->bytes);
        free(same);
        free(b);
    }
}

RUN_TESTS(.timeout_s = 60)
