// Features of the edges of a typed block: where their rows lie, and copies of them from files.
#include "common/base/error.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_typed_naive.h"
#include "trainer/feed/gather.h"

enum { HOPS = 2, CLASSES = 4, BEFORE = 128 }; // bytes of other rows before those of edges

static const uint32_t SEEDS[] = {0, 22, 3, 7, 12};

static struct typed_graph graph;
static struct sl_dataset ds;
static struct sl_block *block;

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static void setup(void)
{
    typed_graph_init(&graph, 5);
    typed_edge_features(&graph, 17);
    const struct sl_vertex_type *last = &graph.type[TYPED_TYPES - 1];
    ds = (struct sl_dataset){.typed = graph.typed, .n_nodes = last->first + last->n};
    block = typed_block(&graph, SEEDS, SL_COUNT_OF(SEEDS), HOPS, 3, CLASSES, 1);
}

static void teardown(void)
{
    free(block);
    typed_graph_fini(&graph);
}

static struct sl_block_run *run_at(uint32_t i)
{
    return (struct sl_block_run *)(uintptr_t)&sl_block_runs(block)[i];
}

// The rows as they are copied, and where each run's are.
static float *copy(struct sl_row_source *s, uint64_t *at)
{
    const uint64_t bytes = sl_typed_edge_rows(block, &graph.typed, BEFORE, at);
    float *out = fixture_alloc(bytes + 64);
    memset(out, 0xff, bytes + 64);
    assert_ok(sl_rows_copy_edges(s, sl_kernels_cpu(), block, BEFORE, out));
    for (uint64_t i = 0; i < BEFORE / sizeof *out; i++)
        ck_assert(isnan(out[i]));
    ck_assert(isnan(out[bytes / sizeof *out]));
    return out;
}

// value: of a file's number, as f32.
static void check_rows(const float *out, const uint64_t *at, float (*value)(float))
{
    uint32_t n_checked = 0;
    for (uint32_t i = 0; i < sl_block_typed(block)->n_runs; i++) {
        const struct sl_block_run *run = run_at(i);
        const uint32_t dim = graph.relation[run->relation].feat_dim;
        ck_assert_int_eq(at[i] == SL_NO_EDGE_ROWS, dim == 0);
        for (uint32_t e = 0; dim > 0 && e < run->n_edges; e++)
            for (uint32_t c = 0; c < dim; c++, n_checked++) {
                const uint64_t id = sl_run_edge_ids(sl_block_here(block), run)[e] -
                                    graph.relation[run->relation].first_edge;
                const float wanted = value(graph.edge_feat[run->relation][id * dim + c]);
                const float found = out[at[i] / sizeof *out + e * dim + c];
                ck_assert_msg(found == wanted, "run %u, edge %u: %.9g, wanted %.9g", i, e,
                              (double)found, (double)wanted);
            }
    }
    ck_assert_uint_gt(n_checked, 100);
}

static float itself(float x)
{
    return x;
}

CASE(.setup = setup, .teardown = teardown)

// Whatever the kernels count at a time: all edges, or one, or some.
LOOP_TEST(rows_are_those_of_the_files, 0, 3)
{
    static const uint64_t windows[] = {0, 1, 7};
    struct sl_row_source s = {.dataset = &ds, .edge_window = windows[_i]};
    uint64_t at[TYPED_RELATIONS * HOPS];
    float *out = copy(&s, at);
    check_rows(out, at, itself);
    free(out);
    sl_row_source_fini(&s);
}

static float half(float x)
{
    return x < 0 ? -0.5f : 0.5f;
}

TEST(halves_become_floats)
{
    struct sl_row_source s = {.dataset = &ds};
    uint64_t at[TYPED_RELATIONS * HOPS];
    uint16_t *halves[TYPED_RELATIONS] = {NULL};
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        const uint64_t n = graph.relation[k].n_edges * graph.relation[k].feat_dim;
        if (n == 0)
            continue;
        halves[k] = fixture_alloc(n * sizeof *halves[k]);
        for (uint64_t i = 0; i < n; i++)
            halves[k][i] = graph.edge_feat[k][i] < 0 ? 0xb800 : 0x3800;
        graph.relation[k].feat = halves[k];
        graph.relation[k].feat_dtype = SL_DTYPE_F16;
    }
    float *out = copy(&s, at);
    check_rows(out, at, half);
    free(out);
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
        free(halves[k]);
    sl_row_source_fini(&s);
}

// As samplers write them where a vertex is drawn once: rows are there once, too.
TEST(hops_that_share_arrays_share_rows)
{
    struct sl_row_source s = {.dataset = &ds};
    uint64_t at[TYPED_RELATIONS * HOPS];
    const uint64_t apart = sl_typed_edge_rows(block, &graph.typed, 0, NULL);
    uint32_t n_shared = 0;
    for (uint32_t i = 0; i < sl_block_typed(block)->n_runs && run_at(i)->hop == 0; i++) {
        const struct sl_block_run *next = sl_block_find_run(block, 1, run_at(i)->relation);
        ck_assert_ptr_nonnull(next);
        run_at(i)->indices_offset = next->indices_offset;
        run_at(i)->edge_ids_offset = next->edge_ids_offset;
        n_shared += graph.relation[next->relation].feat_dim > 0;
    }
    ck_assert_uint_gt(n_shared, 0);
    ck_assert_uint_lt(sl_typed_edge_rows(block, &graph.typed, 0, at), apart);
    float *out = copy(&s, at);
    check_rows(out, at, itself);
    free(out);
    sl_row_source_fini(&s);
}

TEST(edges_of_another_relation_are_refused)
{
    struct sl_row_source s = {.dataset = &ds};
    const struct sl_block_run *run = sl_block_find_run(block, 1, 0);
    uint64_t *ids = (uint64_t *)(uintptr_t)sl_run_edge_ids(sl_block_here(block), run);
    float *out = fixture_alloc(sl_typed_edge_rows(block, &graph.typed, 0, NULL) + 64);
    ids[run->n_edges - 1] = graph.relation[1].first_edge;
    ck_assert_int_eq(sl_rows_copy_edges(&s, sl_kernels_cpu(), block, 0, out), SL_ERANGE);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "relation author -writes-> paper"));
    block->flags &= ~(uint32_t)SL_BLOCK_HAS_EDGE_IDS;
    ck_assert_int_eq(sl_rows_copy_edges(&s, sl_kernels_cpu(), block, 0, out), SL_EPROTO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "no numbers of edges"));
    free(out);
    sl_row_source_fini(&s);
}

// ---- whole batches, on a GPU --------------------------------------------------------------------

CASE(.name = "gpu", .setup = setup, .teardown = teardown, .timeout_s = 60, ON_A_GPU)

// Of a batch that was gathered: rows of vertices behind one another, then those of edges.
static void check_batch(const struct sl_batch_buffer *b, const struct sl_device *device)
{
    uint64_t at[TYPED_RELATIONS * HOPS];
    const uint64_t bytes = sl_typed_block_bytes(block, &graph.typed, SL_TYPED_F32);
    float *x = fixture_alloc(bytes + 64);
    assert_ok(device->copy(x, b->x, bytes));
    assert_ok(device->sync());
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        const struct sl_vertex_type *type = &graph.type[t];
        const uint32_t *ids = sl_block_nodes(block) + sl_block_types(block)[t].first;
        const float *rows = x + sl_typed_rows_at(block, &graph.typed, t, SL_TYPED_F32) / sizeof *x;
        for (uint32_t i = 0; type->feat && i < sl_typed_block_rows(block, t); i++)
            ck_assert_mem_eq(rows + (uint64_t)i * type->feat_dim,
                             (const float *)type->feat + (ids[i] - type->first) * type->feat_dim,
                             type->feat_dim * sizeof *x);
    }
    sl_typed_edge_rows(block, &graph.typed,
                       sl_typed_rows_at(block, &graph.typed, TYPED_TYPES, SL_TYPED_F32), at);
    check_rows(x, at, itself);
    free(x);
}

LOOP_TEST(batches_have_rows_of_vertices_and_edges, 0, 2)
{
    const enum sl_gather_way way = _i ? SL_GATHER_MAPPED : SL_GATHER_STAGED;
    const struct sl_plugin *gpu = gpu_open(0);
    const struct sl_compute on[] = {{sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()},
                                    {gpu->device, gpu->kernels, sl_kernels_cpu()}};
    float *feat[TYPED_TYPES];
    struct fixture_rng r = {.seed = 3};
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        const uint64_t n = graph.type[t].n * graph.type[t].feat_dim;
        feat[t] = fixture_alloc((n + 1) * sizeof *feat[t]);
        for (uint64_t i = 0; i < n; i++)
            feat[t][i] = fixture_float(&r, 1);
        graph.type[t].feat = n ? feat[t] : NULL;
    }
    for (size_t d = 0; d < SL_COUNT_OF(on); d++) {
        struct sl_gather g;
        struct sl_batch_buffer to = {0};
        struct sl_gathered told;
        sl_gather_init(&g, &on[d], &ds, way);
        for (int again = 0; again < 2; again++) { // the first one finds the way
            const int rc = sl_gather_block(&g, NULL, block, NULL, &to, &told);
            ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
            check_batch(&to, on[d].device);
        }
        ck_assert_int_eq(g.way, way);
        ck_assert_uint_gt(told.miss_bytes, 0);
        sl_batch_buffer_fini(&to);
        sl_gather_fini(&g);
    }
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        free(feat[t]);
}

RUN_TESTS()
