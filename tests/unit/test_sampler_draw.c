// Blocks: the format's invariants, equal bytes wherever they are drawn, memory that is too small,
// ranks behind the sample.
#include <sys/mman.h>
#include <xxhash.h>

#include "common/base/error.h"
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

enum { N = 4000 };

static struct fixture fx;
static struct sl_drawer drawer;

static void setup(void)
{
    fx = fixture_graph(N);
    ck_assert_int_eq(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
}

static void teardown(void)
{
    sl_drawer_fini(&drawer);
    fixture_free(&fx);
}

static uint32_t degree_of(uint32_t v)
{
    return (uint32_t)(fx.indptr[v + 1] - fx.indptr[v]);
}

// Where the arrays are: one behind the other, aligned, with zeros between them and no more of
// those than the alignment needs.
static void expect_compact(const struct sl_block *b)
{
    struct array {
        uint64_t offset, bytes;
    } arrays[4 + 3 * SL_MAX_HOPS];
    uint32_t n = 0;
    uint64_t row = SL_MAX(b->n_targets, 1u) * 4ull;
    arrays[n++] = (struct array){b->label_offset, b->n_seeds * row};
    const bool shared = b->n_hops > 1 && b->hop[0].indptr_offset == b->hop[1].indptr_offset;
    for (uint32_t h = shared ? b->n_hops - 1 : 0; h < b->n_hops; h++) {
        arrays[n++] = (struct array){b->hop[h].indptr_offset, (b->hop[h].n_dst + 1) * 4ull};
        arrays[n++] = (struct array){b->hop[h].indices_offset, b->hop[h].n_edges * 4ull};
        if (b->flags & SL_BLOCK_HAS_WEIGHTS)
            arrays[n++] = (struct array){b->hop[h].weights_offset, b->hop[h].n_edges * 4ull};
        if (b->flags & SL_BLOCK_HAS_EDGE_IDS)
            arrays[n++] = (struct array){b->hop[h].edge_ids_offset, b->hop[h].n_edges * 8ull};
    }
    arrays[n++] = (struct array){b->nodes_offset, b->n_input * 4ull};
    if (b->flags & SL_BLOCK_HAS_DEGREES)
        arrays[n++] = (struct array){b->degree_offset, b->n_input * 4ull};
    if (b->flags & SL_BLOCK_HAS_RANKS)
        arrays[n++] = (struct array){b->rank_offset, b->n_input * 4ull};
    uint64_t end = sizeof *b;
    for (uint32_t i = 0; i < n; i++) {
        EXPECT(arrays[i].offset == sl_align_up(end, 64), "array %u: at %llu behind %llu", i,
               (unsigned long long)arrays[i].offset, (unsigned long long)end);
        for (; end < arrays[i].offset; end++)
            EXPECT(((const char *)b)[end] == 0, "array %u: padding is not zero", i);
        end = arrays[i].offset + arrays[i].bytes;
    }
    ck_assert_uint_eq(b->bytes, end);
}

// The fanout of row i of hop h: of the hop that drew it.
static int64_t fanout_of(const struct sl_block *b, const struct sl_draw_plan *plan, uint32_t h,
                         uint32_t i)
{
    while (plan->expand_new && h > 0 && i < b->n_nodes[h - 1])
        h--;
    return plan->fanout[h];
}

// reach[w] = stamp for all that `steps` steps from v can meet. O(edges) a step.
static void mark_reachable(uint32_t v, uint32_t steps, uint32_t stamp, uint32_t *reach)
{
    static uint32_t queue[N + 1];
    uint32_t n = 0, q = 0;
    queue[n++] = v;
    for (uint32_t s = 0; s < steps; s++)
        for (uint32_t level_end = n; q < level_end; q++)
            for (uint64_t e = fx.indptr[queue[q]]; e < fx.indptr[queue[q] + 1]; e++)
                if (reach[fx.indices[e]] != stamp) {
                    reach[fx.indices[e]] = stamp;
                    queue[n++] = (uint32_t)fx.indices[e];
                }
}

static void expect_walk_row(const struct sl_block *b, const struct sl_draw_plan *plan, uint32_t h,
                            uint32_t i)
{
    static uint32_t reach[N], row[N], stamp;
    const uint32_t *nodes = sl_block_nodes(b), *indptr = sl_view_indptr(sl_block_here(b), h);
    const uint32_t *indices = sl_view_indices(sl_block_here(b), h);
    const float *visits = sl_view_weights(sl_block_here(b), h);
    uint32_t n = indptr[i + 1] - indptr[i];
    stamp++;
    if (i < 100)
        mark_reachable(nodes[i], plan->length, stamp, reach);
    const int64_t fanout = fanout_of(b, plan, h, i);
    EXPECT(n <= plan->paths * plan->length && (fanout < 0 || n <= fanout),
           "hop %u row %u: %u edges", h, i, n);
    EXPECT(n > 0 || i == 0 || plan->restart > 0 || degree_of(nodes[i]) == 0 || plan->length < 2,
           "hop %u row %u: none met", h, i);
    float sum = 0;
    for (uint32_t e = indptr[i]; e < indptr[i + 1]; e++) {
        uint32_t v = nodes[indices[e]];
        EXPECT(indices[e] != i && row[v] != stamp, "hop %u row %u: itself, or twice", h, i);
        EXPECT(i >= 100 || reach[v] == stamp, "hop %u row %u: %u is too far", h, i, v);
        EXPECT(visits[e] >= 1 && visits[e] == (float)(uint32_t)visits[e] &&
                   (e == indptr[i] || visits[e] <= visits[e - 1]),
               "hop %u row %u: visits", h, i);
        row[v] = stamp;
        sum += visits[e];
    }
    EXPECT(sum <= (float)(plan->paths * plan->length), "hop %u row %u: %g visits", h, i,
           (double)sum);
}

// Each number names an edge of the row's vertex, from the neighbour; no edge is there twice
// without replacement.
static void expect_edge_ids(const struct sl_block *b, const struct sl_draw_plan *plan, uint32_t h)
{
    static uint32_t row_of[N * 32], stamp;
    const struct sl_block_view view = sl_block_here(b);
    const uint32_t *nodes = sl_block_nodes(b), *indptr = sl_view_indptr(view, h);
    const uint64_t *ids = sl_view_edge_ids(view, h);
    for (uint32_t i = 0; ids && i < b->hop[h].n_dst; i++) {
        stamp++;
        for (uint32_t e = indptr[i]; e < indptr[i + 1]; e++) {
            EXPECT(ids[e] >= fx.indptr[nodes[i]] && ids[e] < fx.indptr[nodes[i] + 1],
                   "hop %u edge %u: not of its row", h, e);
            EXPECT((uint32_t)fx.indices[ids[e]] == nodes[sl_view_indices(view, h)[e]],
                   "hop %u edge %u: another source", h, e);
            EXPECT(plan->replace || row_of[ids[e]] != stamp, "hop %u edge %u: twice", h, e);
            row_of[ids[e]] = stamp;
        }
    }
}

static void expect_hop(const struct sl_block *b, const struct sl_draw_plan *plan, uint32_t h)
{
    const uint32_t *indptr = sl_view_indptr(sl_block_here(b), h),
                   *indices = sl_view_indices(sl_block_here(b), h);
    uint32_t seen = b->n_nodes[h]; // new vertices are numbered as they come
    EXPECT(b->hop[h].n_dst == b->n_nodes[h] && indptr[0] == 0, "hop %u: rows", h);
    for (uint32_t i = 0; i < b->hop[h].n_dst; i++) {
        for (uint32_t e = indptr[i]; e < indptr[i + 1]; e++) {
            EXPECT(indices[e] < b->n_nodes[h + 1] && indices[e] <= seen, "hop %u edge %u: id %u", h,
                   e, indices[e]);
            seen += indices[e] == seen;
        }
        if (plan->kind == SL_SAMPLER_WALK) // others: golden_blocks, test_sampler_expand.c
            expect_walk_row(b, plan, h, i);
    }
    EXPECT(indptr[b->hop[h].n_dst] == b->hop[h].n_edges, "hop %u: edges", h);
    expect_edge_ids(b, plan, h);
    EXPECT(seen == b->n_nodes[h + 1], "hop %u: vertices that nobody names", h);
}

enum { TARGETS = 3 };

// Vertex v's label k as the file has it; -1 = unlabelled.
static int8_t target_of(uint32_t v, uint32_t k)
{
    return (int8_t)(fixture_word(v, k) % 3) - 1;
}

// Seed i is vertex v.
static void expect_label(const struct sl_block *b, uint32_t i, uint32_t v)
{
    const float *targets = b->n_targets ? sl_view_targets(sl_block_here(b)) : NULL;
    if (!targets)
        EXPECT(((const int32_t *)sl_view_targets(sl_block_here(b)))[i] == fx.label[v],
               "label of %u", v);
    for (uint32_t k = 0; targets && k < TARGETS; k++) {
        float found = targets[(uint64_t)i * TARGETS + k];
        int8_t wanted = target_of(v, k);
        EXPECT(wanted < 0 ? found != found : found == (float)wanted, "label %u of %u", k, v);
    }
}

static void expect_block(const struct sl_block *b, const struct sl_draw_plan *plan, uint32_t epoch,
                         uint32_t batch, const uint32_t *seeds, uint32_t n_seeds)
{
    static bool there[N];
    ck_assert_uint_eq(b->magic, SL_BLOCK_MAGIC);
    ck_assert_uint_eq(b->flags & ~(uint32_t)SL_BLOCK_HAS_RANKS,
                      (plan->degrees ? SL_BLOCK_HAS_DEGREES : 0) |
                          (plan->edge_ids ? SL_BLOCK_HAS_EDGE_IDS : 0) |
                          (plan->kind == SL_SAMPLER_WALK ? SL_BLOCK_HAS_WEIGHTS : 0));
    ck_assert_uint_eq(b->batch, batch);
    ck_assert_uint_eq(b->epoch, epoch);
    ck_assert_uint_eq(b->n_hops, plan->n_hops);
    ck_assert_uint_eq(b->n_seeds, n_seeds);
    ck_assert_uint_eq(b->n_nodes[0], n_seeds);
    ck_assert_uint_eq(b->n_input, b->n_nodes[plan->n_hops]);
    expect_compact(b);
    const uint32_t *nodes = sl_block_nodes(b), *degrees = sl_view_degrees(sl_block_here(b));
    ck_assert_mem_eq(nodes, seeds, n_seeds * sizeof *seeds);
    memset(there, 0, sizeof there);
    for (uint32_t i = 0; i < b->n_input; i++) {
        EXPECT(nodes[i] < N && !there[nodes[i]], "vertex %u is there twice", nodes[i]);
        there[nodes[i]] = true;
        EXPECT(!degrees || degrees[i] == degree_of(nodes[i]), "degree of %u", nodes[i]);
    }
    ck_assert_uint_eq(b->n_targets, fx.topology.dataset.target ? TARGETS : 0);
    for (uint32_t i = 0; i < n_seeds; i++)
        expect_label(b, i, seeds[i]);
    uint64_t n_edges = 0;
    for (uint32_t h = 0; h < plan->n_hops; h++) {
        expect_hop(b, plan, h);
        n_edges += b->hop[h].n_edges;
    }
    ck_assert_uint_eq(b->n_edges, n_edges);
}

LOOP_TEST(a_block_keeps_what_the_format_promises, 0, SL_COUNT_OF(fixture_plans))
{
    static const uint32_t counts[] = {1, 2, 15, 16, 17, 100, 1000};
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *train = fx.split[SL_SPLIT_TRAIN];
    for (size_t c = 0; c < SL_COUNT_OF(counts); c++) {
        uint32_t batch = (uint32_t)c, n = counts[c];
        struct sl_block *b = fixture_draw(&drawer, plan, 9, batch, train + c, n);
        expect_block(b, plan, 9, batch, train + c, n);
        free(b);
    }
    // Vertex 0 has an edge from everybody, vertex 5 none.
    const uint32_t odd[] = {5, 0, 11};
    struct sl_block *b = fixture_draw(&drawer, plan, 0, 0, odd, 3);
    expect_block(b, plan, 0, 0, odd, 3);
    free(b);
}

// What a GCN that drops a graph's own self-loops asks for; what is drawn stays the same.
TEST(degrees_are_without_self_loops_that_were_looked_for)
{
    const struct sl_draw_plan *plan = &fixture_plans[1];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    for (uint32_t v = 0; v < N; v++)
        for (uint64_t e = fx.indptr[v]; e < fx.indptr[v + 1] && e < fx.indptr[v] + v % 3; e++)
            fx.indices[e] = (int32_t)v;
    ck_assert(plan->degrees);
    struct sl_block *with = fixture_draw(&drawer, plan, 2, 1, seeds, 50);
    expect_block(with, plan, 2, 1, seeds, 50);
    ck_assert_int_eq(sl_topology_find_self_loops(&fx.topology, 2), SL_OK);
    struct sl_block *without = fixture_draw(&drawer, plan, 2, 1, seeds, 50);
    ck_assert_uint_eq(with->bytes, without->bytes);
    ck_assert_mem_eq(with, without, with->degree_offset);
    uint32_t different = 0;
    for (uint32_t i = 0; i < without->n_input; i++) {
        uint32_t v = sl_block_nodes(without)[i], loops = 0;
        for (uint64_t e = fx.indptr[v]; e < fx.indptr[v + 1]; e++)
            loops += (uint32_t)fx.indices[e] == v;
        EXPECT(sl_view_degrees(sl_block_here(without))[i] == degree_of(v) - loops, "degree of %u",
               v);
        different += loops > 0;
    }
    ck_assert_uint_gt(different, 10);
    sl_self_loops_free(&fx.topology.self_loops);
    free(with);
    free(without);
}

// Those of the graph that a job by weight has: edges of weight 0 are none, self-loops or not.
TEST(degrees_are_without_edges_of_weight_zero)
{
    const struct sl_draw_plan plan = {.kind = SL_SAMPLER_WEIGHTED,
                                      .n_hops = 2,
                                      .fanout = {-1, 4},
                                      .stream = SL_RNG_SAMPLE,
                                      .edge_ids = true,
                                      .degrees = true};
    for (uint32_t v = 0; v < N; v += 3)
        for (uint64_t e = fx.indptr[v]; e < fx.indptr[v + 1] && e < fx.indptr[v] + v % 4; e++)
            fx.indices[e] = (int32_t)v;
    fixture_drop_weightless(&fx);
    for (int without_loops = 0; without_loops < 2; without_loops++) {
        if (without_loops)
            ck_assert_int_eq(sl_topology_find_self_loops(&fx.topology, 2), SL_OK);
        struct sl_block *b = fixture_draw(&drawer, &plan, 2, 1, fx.split[SL_SPLIT_TRAIN], 50);
        uint32_t different = 0;
        for (uint32_t i = 0; i < b->n_input; i++) {
            uint32_t v = sl_block_nodes(b)[i], wanted = 0;
            for (uint64_t e = fx.indptr[v]; e < fx.indptr[v + 1]; e++)
                wanted += fx.edge_weight[e] > 0 && !(without_loops && (uint32_t)fx.indices[e] == v);
            EXPECT(sl_view_degrees(sl_block_here(b))[i] == wanted, "degree of %u", v);
            different += wanted != degree_of(v);
        }
        ck_assert_uint_gt(different, 10);
        for (uint32_t h = 0; h < plan.n_hops; h++)
            expect_edge_ids(b, &plan, h);
        free(b);
    }
    sl_self_loops_free(&fx.topology.self_loops);
}

// In the place of class numbers, and of no influence on what is drawn.
LOOP_TEST(several_labels_a_seed_are_a_row_of_floats, 0, SL_COUNT_OF(fixture_plans))
{
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN] + 3;
    struct sl_dataset *ds = &fx.topology.dataset;
    struct sl_block *plain = fixture_draw(&drawer, plan, 2, 1, seeds, 50);
    int8_t *flags = fixture_alloc((size_t)N * TARGETS);
    for (uint32_t v = 0; v < N; v++)
        for (uint32_t k = 0; k < TARGETS; k++)
            flags[v * TARGETS + k] = target_of(v, k);
    ds->task = SL_TASK_MULTILABEL;
    ds->n_classes = TARGETS;
    ds->target = flags;
    ds->target_dtype = SL_DTYPE_I8;
    ds->label = NULL;
    struct sl_block *b = fixture_draw(&drawer, plan, 2, 1, seeds, 50);
    expect_block(b, plan, 2, 1, seeds, 50);
    ck_assert_uint_eq(b->n_input, plain->n_input);
    ck_assert_mem_eq(sl_block_nodes(b), sl_block_nodes(plain), b->n_input * sizeof(uint32_t));
    free(plain);
    free(b);
    free(flags);
}

LOOP_TEST(equal_batches_are_equal_bytes, 0, SL_COUNT_OF(fixture_plans))
{
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN] + 77;
    struct sl_block *want = fixture_draw(&drawer, plan, 3, 4, seeds, 200);
    uint64_t bytes = want->bytes;
    char *memory = fixture_alloc(bytes + 8192);
    for (uint32_t where = 0; where <= 4096; where = where * 8 + 64) {
        struct sl_block *b = (struct sl_block *)(memory + where);
        uint64_t wanted;
        memset(memory, 0xa5 + (int)where, bytes + 8192);
        // Something else in between: the drawer remembers nothing of it.
        free(fixture_draw(&drawer, &fixture_plans[0], where, 1, seeds + 5, 300));
        ck_assert_int_eq(fixture_draw_into(&drawer, plan, 3, 4, seeds, 200, b, bytes, &wanted),
                         SL_OK);
        ck_assert_uint_eq(b->bytes, bytes);
        ck_assert_int_eq(memcmp(b, want, bytes), 0);
        for (uint32_t i = 0; i < 64; i++)
            EXPECT(memory[where + bytes + i] == (char)(0xa5 + where), "written behind the end");
    }
    // Another drawer, the other back end, 64-bit ids.
    uint64_t n_edges = fx.topology.dataset.n_edges;
    int64_t *wide = fixture_alloc(n_edges * sizeof *wide);
    for (uint64_t e = 0; e < n_edges; e++)
        wide[e] = fx.indices[e];
    fx.topology.view.indices = wide;
    fx.topology.view.indices_dtype = SL_DTYPE_I64;
    struct sl_drawer other;
    ck_assert_int_eq(sl_drawer_init(&other, &fx.topology, sl_kernels_ref()), SL_OK);
    struct sl_block *b = fixture_draw(&other, plan, 3, 4, seeds, 200);
    ck_assert_uint_eq(b->bytes, bytes);
    ck_assert_int_eq(memcmp(b, want, bytes), 0);
    sl_drawer_fini(&other);
    free(b);
    free(wide);
    free(memory);
    free(want);
}

// Of few edges and of many: the two arrays of a hop's edges share what is left to the last line.
TEST(edge_numbers_fit_a_block_of_the_exact_size)
{
    struct sl_draw_plan plan = {.n_hops = 1, .edge_ids = true, .stream = SL_RNG_SAMPLE};
    char *memory = fixture_alloc(1 << 20);
    for (plan.fanout[0] = 1; plan.fanout[0] < 70; plan.fanout[0]++) {
        const uint32_t hub[] = {0};
        struct sl_block *want = fixture_draw(&drawer, &plan, 0, 0, hub, 1);
        uint64_t wanted;
        ck_assert_int_eq(
            fixture_draw_into(&drawer, &plan, 0, 0, hub, 1, (void *)memory, want->bytes, &wanted),
            SL_OK);
        ck_assert_uint_eq(want->n_edges, (uint64_t)plan.fanout[0]);
        ck_assert_int_eq(memcmp(memory, want, want->bytes), 0);
        free(want);
    }
    free(memory);
}

TEST(edge_numbers_that_lie_outside_a_block_are_found)
{
    const struct sl_draw_plan plan = {
        .n_hops = 2, .edge_ids = true, .fanout = {5, 5}, .stream = SL_RNG_SAMPLE};
    struct sl_block *b = fixture_draw(&drawer, &plan, 0, 0, fx.split[SL_SPLIT_TRAIN], 10);
    const uint64_t good = b->hop[1].edge_ids_offset, end = b->bytes - b->hop[1].n_edges * 8ull;
    const uint64_t bad[] = {0, sizeof *b - 8, good + 4, end / 8 * 8 + 8, UINT64_MAX - 7};
    ck_assert_int_eq(sl_block_check(b, b->bytes), SL_OK);
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        b->hop[1].edge_ids_offset = bad[i];
        EXPECT(sl_block_check(b, b->bytes) == SL_EPROTO, "offset %zu", i);
        ck_assert_ptr_nonnull(strstr(sl_error_message(), "edge numbers"));
    }
    b->hop[1].edge_ids_offset = good;
    b->flags |= SL_BLOCK_HAS_WEIGHTS; // one array cannot be both
    ck_assert_int_eq(sl_block_check(b, b->bytes), SL_EPROTO);
    free(b);
}

// Most computed before there was replacement or another way to expand: a change is one of every
// run's samples_digest.
TEST(golden_blocks)
{
    static const uint64_t golden[] = {
        UINT64_C(0x5c42604bc968ad93), UINT64_C(0x004ea94d7017e3ca), UINT64_C(0x03c16ba1d4bef99a),
        UINT64_C(0x26a44efb88d8277d), UINT64_C(0x53dbf72a7c46c523), UINT64_C(0x87121bf86b322a5e),
        UINT64_C(0x7f87af4c1a089465), UINT64_C(0x5d902ad519c91c00), UINT64_C(0x0873f70de2af45bc),
        UINT64_C(0xf2d85e2b813b4d53), UINT64_C(0xef692c9e3ea1b122), UINT64_C(0x2d8b42e974aa6cfb),
        UINT64_C(0x97ca0a770e6feb4b), UINT64_C(0xdda5ce98ec4c35d5), UINT64_C(0x6fbce03491beb4d6),
        UINT64_C(0x0c850cf543ab4f52), UINT64_C(0xf0fecbe83ab7cbb9), UINT64_C(0x7d2888f1f61084b2),
        UINT64_C(0x321ff6e74ae0d47a), UINT64_C(0xc500054ac6b6cad8), UINT64_C(0x3f156bcfccd65d3a),
        UINT64_C(0x1c1623e25f23cfef), UINT64_C(0xb1c38e85d1cc10f2), UINT64_C(0x3732288c0e117a33),
        UINT64_C(0x5586b6c41fcdd48b),
    };
    ck_assert_uint_eq(SL_COUNT_OF(golden), SL_COUNT_OF(fixture_plans));
    for (size_t p = 0; p < SL_COUNT_OF(golden); p++) {
        struct sl_block *b =
            fixture_draw(&drawer, &fixture_plans[p], 3, 4, fx.split[SL_SPLIT_TRAIN], 100);
        EXPECT(XXH3_64bits(b, b->bytes) == golden[p], "the block of plan %zu", p);
        free(b);
    }
}

TEST(other_batches_are_other_blocks)
{
    const struct sl_draw_plan *plan = &fixture_plans[0];
    struct sl_draw_plan seed = *plan, stream = *plan;
    seed.seed++;
    stream.stream = SL_RNG_EVAL_SAMPLE;
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *base = fixture_draw(&drawer, plan, 1, 1, seeds, 100);
    struct sl_block *others[] = {
        fixture_draw(&drawer, plan, 2, 1, seeds, 100),
        fixture_draw(&drawer, plan, 1, 2, seeds, 100),
        fixture_draw(&drawer, &seed, 1, 1, seeds, 100),
        fixture_draw(&drawer, &stream, 1, 1, seeds, 100),
    };
    for (size_t i = 0; i < SL_COUNT_OF(others); i++) {
        ck_assert(others[i]->n_input != base->n_input ||
                  memcmp(sl_block_nodes(others[i]), sl_block_nodes(base), base->n_input * 4ull));
        free(others[i]);
    }
    free(base);
}

TEST(hops_draw_on_their_own)
{
    // The same rows with the same fanout in both hops: the seeds' draws must differ.
    struct sl_draw_plan plan = {.n_hops = 2, .fanout = {5, 5}, .stream = SL_RNG_SAMPLE};
    const uint32_t hub[] = {0};
    struct sl_block *b = fixture_draw(&drawer, &plan, 0, 0, hub, 1);
    ck_assert_int_ne(
        memcmp(sl_view_indices(sl_block_here(b), 0), sl_view_indices(sl_block_here(b), 1), 5 * 4),
        0);
    free(b);
}

LOOP_TEST(memory_that_is_too_small, 0, SL_COUNT_OF(fixture_plans))
{
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *want = fixture_draw(&drawer, plan, 3, 4, seeds, 150);
    uint64_t bytes = want->bytes, wanted;
    char *memory = fixture_alloc(4 * bytes);
    // Every size below the right one, coarsely, and the last few exactly.
    for (uint64_t capacity = 0; capacity < bytes;
         capacity += capacity + 8 < bytes ? SL_MIN(bytes / 97, bytes - 8 - capacity) : 1) {
        memset(memory + capacity, 0x77, 256);
        int rc = fixture_draw_into(&drawer, plan, 3, 4, seeds, 150, (struct sl_block *)memory,
                                   capacity, &wanted);
        EXPECT(rc == SL_ERANGE, "%llu of %llu bytes: %d", (unsigned long long)capacity,
               (unsigned long long)bytes, rc);
        EXPECT(wanted > capacity, "the guess does not grow");
        for (uint32_t i = 0; i < 256; i++)
            EXPECT(memory[capacity + i] == 0x77, "%llu bytes: written behind the end",
                   (unsigned long long)capacity);
    }
    // Following the guess gets there, in a few steps.
    uint64_t capacity = 0;
    int steps = 0;
    while (fixture_draw_into(&drawer, plan, 3, 4, seeds, 150, (struct sl_block *)memory, capacity,
                             &wanted) == SL_ERANGE) {
        capacity = wanted;
        ck_assert_int_lt(++steps, 40);
        ck_assert_uint_le(capacity, 4 * bytes);
    }
    ck_assert_int_eq(memcmp(memory, want, bytes), 0);
    free(memory);
    free(want);
}

// The sample's digest, from a block with or without ranks: the bytes before them, under a header
// that does not know of them.
static uint64_t digest_of(const struct sl_block *b)
{
    uint64_t bytes = b->bytes;
    if (b->flags & SL_BLOCK_HAS_RANKS) {
        uint64_t nodes_end = b->nodes_offset + b->n_input * 4ull;
        uint64_t degrees_end = b->degree_offset + b->n_input * 4ull;
        bytes = b->flags & SL_BLOCK_HAS_DEGREES ? degrees_end : nodes_end;
    }
    struct sl_block *plain = fixture_alloc(bytes);
    memcpy(plain, b, bytes);
    plain->flags &= ~(uint32_t)SL_BLOCK_HAS_RANKS;
    plain->bytes = bytes;
    plain->rank_offset = 0;
    plain->rank_generation = 0;
    uint64_t digest = XXH3_64bits(plain, bytes);
    free(plain);
    return digest;
}

LOOP_TEST(ranks_stand_behind_the_sample_and_leave_it_alone, 0, SL_COUNT_OF(fixture_plans))
{
    const struct sl_draw_plan *plan = &fixture_plans[_i];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    static uint64_t words[N / 32 + 1];
    const struct sl_rank_index index = fixture_hot_thirds(words, N);
    for (uint32_t n = 1; n < 20; n++) { // so that the end falls on all sorts of places
        struct sl_block *plain = fixture_draw(&drawer, plan, 2, n, seeds + n, n);
        uint64_t bytes = sl_drawer_marked_bytes(plain), before = plain->bytes;
        char *memory = fixture_alloc(bytes + 64);
        struct sl_block *b = (struct sl_block *)memory;
        memset(memory, 0x5a, bytes + 64);
        memcpy(memory, plain, before);
        // A byte too few: as it was.
        ck_assert_int_eq(fixture_mark(&drawer, &index, 3, b, bytes - 1), SL_ERANGE);
        ck_assert_int_eq(fixture_mark(&drawer, &index, 3, b, before), SL_ERANGE);
        ck_assert_int_eq(memcmp(b, plain, before), 0);
        for (uint64_t i = before; i < bytes + 64; i++)
            EXPECT(memory[i] == 0x5a, "written behind the end");
        ck_assert_int_eq(fixture_mark(&drawer, &index, 3, b, bytes), SL_OK);
        ck_assert_uint_eq(b->bytes, bytes);
        ck_assert_uint_eq(b->rank_generation, 3);
        for (uint32_t i = 0; i < 64; i++)
            EXPECT(memory[bytes + i] == 0x5a, "written behind the end");
        for (uint32_t i = 0; i < b->n_input; i++) {
            const uint32_t v = sl_block_nodes(b)[i];
            EXPECT(sl_block_ranks(b)[i] == (v % 3 ? SL_RANK_NONE : v / 3), "rank of row %u", i);
        }
        expect_block(b, plan, 2, n, seeds + n, n);
        ck_assert_uint_eq(digest_of(b), XXH3_64bits(plain, before));
        ck_assert_uint_eq(digest_of(plain), XXH3_64bits(plain, before));
        free(memory);
        free(plain);
    }
}

TEST(weights_decide_what_is_drawn)
{
    // The hub's first in-neighbour has nearly all of its row's weight, the second one none.
    for (uint64_t e = fx.indptr[0]; e < fx.indptr[1]; e++)
        fx.edge_weight[e] = e == 0 ? 1e6f : e == 1 ? 0 : 1e-3f;
    ck_assert_int_eq(
        sl_kernels_cpu()->weight_prefix(&fx.topology.view, fx.edge_weight, fx.weight_prefix),
        SL_OK);
    const struct sl_draw_plan plan = {
        .kind = SL_SAMPLER_WEIGHTED, .n_hops = 1, .fanout = {4}, .stream = SL_RNG_SAMPLE};
    const uint32_t hub[] = {0};
    uint32_t first = 0;
    for (uint32_t batch = 0; batch < 50; batch++) {
        struct sl_block *b = fixture_draw(&drawer, &plan, 0, batch, hub, 1);
        ck_assert_uint_eq(b->n_edges, 4);
        for (uint32_t e = 0; e < 4; e++) {
            uint32_t v = sl_block_nodes(b)[sl_view_indices(sl_block_here(b), 0)[e]];
            first += v == (uint32_t)fx.indices[0];
            ck_assert_uint_ne(v, (uint32_t)fx.indices[1]);
        }
        free(b);
    }
    ck_assert_uint_eq(first, 50);
}

TEST(weighted_sampling_needs_weights)
{
    fx.topology.view.weight_prefix = NULL;
    const struct sl_draw_plan plan = {
        .kind = SL_SAMPLER_WEIGHTED, .n_hops = 1, .fanout = {4}, .stream = SL_RNG_SAMPLE};
    struct sl_block *b = fixture_alloc(4096);
    uint64_t wanted;
    ck_assert_int_eq(fixture_draw_into(&drawer, &plan, 0, 0, fx.split[0], 1, b, 4096, &wanted),
                     SL_EINVAL);
    free(b);
}

TEST(copying_the_vertices_is_timed)
{
    enum { BYTES = 1 << 20 };
    struct sl_draw_job job = {.plan = &fixture_plans[0],
                              .seeds = fx.split[SL_SPLIT_TRAIN],
                              .n_seeds = 100,
                              .block = fixture_alloc(BYTES),
                              .capacity = BYTES};
    uint64_t wanted;
    ck_assert_int_eq(sl_drawer_draw(&drawer, &job, &wanted), SL_OK);
    ck_assert_uint_gt(job.copy_ns, 0);
    free(job.block);
}

TEST(scratch_memory_is_that_of_the_largest_batch)
{
    uint64_t before = sl_drawer_bytes(&drawer);
    struct sl_block *b =
        fixture_draw(&drawer, &fixture_plans[0], 0, 0, fx.split[SL_SPLIT_TRAIN], 1000);
    ck_assert_uint_gt(sl_drawer_bytes(&drawer), before + b->n_input * 4ull);
    free(b);
    struct sl_drawer none = {0};
    ck_assert_uint_eq(sl_drawer_bytes(&none), 0);
}

TEST(nothing_is_allocated_once_the_largest_batch_was_seen)
{
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    free(fixture_draw(&drawer, &fixture_plans[0], 0, 0, seeds, 1000));
    const void *nodes = drawer.scratch[SL_SCRATCH_NODES].p;
    size_t map_bytes = sl_idmap_bytes(drawer.map);
    for (uint32_t batch = 1; batch < 30; batch++)
        free(fixture_draw(&drawer, &fixture_plans[0], 0, batch, seeds + batch, 900));
    ck_assert_ptr_eq(drawer.scratch[SL_SCRATCH_NODES].p, nodes);
    ck_assert_uint_eq(sl_idmap_bytes(drawer.map), map_bytes);
}

TEST(seeds_that_can_not_be)
{
    uint64_t wanted, capacity = 1 << 20;
    struct sl_block *b = fixture_alloc(capacity);
    const uint32_t twice[] = {1, 2, 1}, outside[] = {1, N}, far[] = {UINT32_MAX};
    ck_assert_int_eq(
        fixture_draw_into(&drawer, &fixture_plans[0], 0, 0, twice, 3, b, capacity, &wanted),
        SL_EPROTO);
    ck_assert_int_eq(
        fixture_draw_into(&drawer, &fixture_plans[0], 0, 0, outside, 2, b, capacity, &wanted),
        SL_EPROTO);
    ck_assert_int_eq(
        fixture_draw_into(&drawer, &fixture_plans[0], 0, 0, far, 1, b, capacity, &wanted),
        SL_EPROTO);
    free(b);
}

// What has been asked for, by the vertex whose list or place it is.
static uint8_t asked_list[N], asked_row[N];

static void note_ahead(const void *at, uint64_t bytes, int advice)
{
    const uint64_t row = (uint64_t)((const char *)at - (const char *)fx.indptr) / 8;
    EXPECT(advice == MADV_WILLNEED, "advice %d", advice);
    if ((const uint64_t *)at >= fx.indptr && (const uint64_t *)at < fx.indptr + N) {
        asked_row[row]++;
        return;
    }
    const uint64_t first = (uint64_t)((const int32_t *)at - fx.indices);
    for (uint32_t v = 0; v < N; v++)
        if (fx.indptr[v] == first && fx.indptr[v + 1] - first == bytes / 4)
            asked_list[v]++;
}

// Those of all vertices that a hop reads and of no others; the sample is the same.
TEST(lists_that_are_not_in_memory_are_asked_for_before_they_are_read)
{
    const struct sl_draw_plan *plan = &fixture_plans[0];
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *before = fixture_draw(&drawer, plan, 0, 1, seeds, 20);
    memset(asked_list, 0, sizeof asked_list);
    memset(asked_row, 0, sizeof asked_row);
    fx.topology.ahead = note_ahead;
    struct sl_block *b = fixture_draw(&drawer, plan, 0, 1, seeds, 20);
    fx.topology.ahead = NULL;
    ck_assert_uint_eq(b->bytes, before->bytes);
    ck_assert_mem_eq(b, before, b->bytes);
    const uint32_t n_read = b->n_nodes[b->n_hops - 1];
    uint32_t n_lists = 0;
    for (uint32_t i = 0; i < b->n_input; i++) {
        const uint32_t v = sl_block_nodes(b)[i];
        const uint64_t bytes = (fx.indptr[v + 1] - fx.indptr[v]) * 4;
        EXPECT((asked_row[v] > 0) == (i < n_read), "the place of vertex %u, %u of %u", v, i,
               n_read);
        if (bytes > 0 && bytes <= SL_TOPOLOGY_AHEAD_BYTES)
            EXPECT((asked_list[v] > 0) == (i < n_read), "the list of vertex %u", v);
        n_lists += asked_list[v];
    }
    ck_assert_uint_gt(n_lists, 20);
    free(before);
    free(b);
}

TEST(a_graph_without_edges)
{
    memset(fx.indptr, 0, (N + 1) * sizeof *fx.indptr);
    const uint32_t seeds[] = {3, 1, 2};
    struct sl_block *b = fixture_draw(&drawer, &fixture_plans[1], 0, 0, seeds, 3);
    expect_block(b, &fixture_plans[1], 0, 0, seeds, 3);
    ck_assert_uint_eq(b->n_input, 3);
    ck_assert_uint_eq(b->n_edges, 0);
    free(b);
}

TEST(a_zeroed_drawer_can_be_released)
{
    struct sl_drawer none = {0};
    sl_drawer_fini(&none);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 60)
