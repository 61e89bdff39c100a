// Layer-wise inference over all neighbours: in pieces, with hubs. What it comes to:
// test_trainer_golden, and against blocks test_trainer_kinds and test_trainer_sync.
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/data/self_loops.h"
#include "common/data/weightless.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/infer/evaluate.h"

enum { FEATURES = 6, CLASSES = 3, HIDDEN = 6, LAYERS = 3 };

struct banks {
    float *act[2], *jumping;
    uint64_t bytes; // of an activation bank
};

static struct banks banks_make(const struct sl_dataset *ds)
{
    struct banks b = {.bytes = ds->n_nodes * HIDDEN * sizeof(float),
                      .jumping = fixture_alloc(ds->n_nodes * 2 * HIDDEN * sizeof(float))};
    for (int i = 0; i < 2; i++)
        b.act[i] = fixture_alloc(b.bytes);
    return b;
}

static void banks_free(struct banks *b)
{
    free(b->act[0]);
    free(b->act[1]);
    free(b->jumping);
}

// What the last layer leaves of a list.
struct found {
    struct sl_loss_result result;
    float *outputs;        // (n, CLASSES)
    uint32_t *predictions; // (n)
};

static void found_free(struct found *f)
{
    free(f->outputs);
    free(f->predictions);
}

static uint64_t keep_tag; // of the last layer that was computed

// Hidden layers over all vertices in cells of `step`, each of them `times` times; the last layer
// over `list`.
static struct found infer(struct sl_model *m, const struct sl_dataset *ds, const float *params,
                          struct banks *banks, uint32_t step, uint32_t times,
                          const struct sl_vertex_list *list)
{
    struct found found = {.outputs = fixture_alloc(list->n * CLASSES * sizeof(float)),
                          .predictions = fixture_alloc(list->n * sizeof(uint32_t))};
    for (uint32_t l = 0; l < m->n_layers; l++) {
        bool last = l + 1 == m->n_layers;
        uint64_t n = last ? list->n : ds->n_nodes;
        keep_tag++;
        for (uint64_t first = 0; first < n; first += step) {
            const struct sl_infer_io io = {.x_dtype = l ? SL_DTYPE_F32 : ds->feat_dtype,
                                           .x =
                                               l ? (const void *)banks->act[(l - 1) & 1] : ds->feat,
                                           .keep_tag = keep_tag,
                                           .jumping = banks->jumping,
                                           .y = last ? NULL : banks->act[l & 1],
                                           .rows = last ? found.outputs + first * CLASSES : NULL,
                                           .predictions = last ? found.predictions + first : NULL,
                                           .result = last ? &found.result : NULL};
            const struct sl_infer_range range = {.first = first,
                                                 .ids = last ? list->ids + first : NULL,
                                                 .n = (uint32_t)SL_MIN((uint64_t)step, n - first)};
            for (uint32_t k = 0; k < (last ? 1 : times); k++)
                ck_assert_msg(sl_evaluate_layer(m, ds, params, l, &range, &io) == SL_OK, "%s",
                              sl_error_message());
        }
    }
    return found;
}

static struct sl_config config_of(int kind, uint32_t layers)
{
    struct sl_config c = fixture_config((enum sl_model_kind)kind, layers, HIDDEN);
    c.model.dropout = c.model.input_dropout = c.model.attention_dropout = 0.5; // not in evaluation
    c.model.heads = 2;
    c.model.self_loops = true;
    return c;
}

// A list gives what the run of all vertices gives, of hidden layers and before lin() too.
TEST(lists_and_runs_agree)
{
    static const uint32_t list[] = {41, 3, 0, 59, 17};
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++) {
        struct sl_config c = config_of(kind, 2);
        c.model.jumping = SL_JUMPING_CAT;
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
        float *params = fixture_params(&m, 3);
        struct banks all = banks_make(&g.ds), some = banks_make(&g.ds);
        const struct sl_infer_range everybody = {.n = 60},
                                    few = {.ids = list, .n = SL_COUNT_OF(list)};
        float rows[SL_COUNT_OF(list) * HIDDEN];
        for (uint32_t l = 0; l < 2; l++) {
            const struct sl_infer_io whole = {.x_dtype = SL_DTYPE_F32,
                                              .x = l ? all.act[0] : g.feat,
                                              .jumping = all.jumping,
                                              .y = all.act[l],
                                              .hidden = true};
            struct sl_infer_io part = whole;
            part.jumping = some.jumping;
            part.y = some.act[l];
            part.rows = rows;
            ck_assert_int_eq(sl_evaluate_layer(&m, &g.ds, params, l, &everybody, &whole), SL_OK);
            ck_assert_int_eq(sl_evaluate_layer(&m, &g.ds, params, l, &few, &part), SL_OK);
            for (size_t i = 0; i < SL_COUNT_OF(list) * HIDDEN; i++) {
                size_t at = list[i / HIDDEN] * HIDDEN + i % HIDDEN;
                ck_assert_float_eq_tol(rows[i], all.act[l][at], 1e-5f);
                ck_assert(rows[i] == some.act[l][at]);
            }
            for (size_t i = 0; l == 0 && i < SL_COUNT_OF(list) * CLASSES; i++) {
                size_t at = list[i / CLASSES] * CLASSES + i % CLASSES;
                ck_assert_float_eq_tol(some.jumping[at], all.jumping[at], 1e-5f);
            }
            ck_assert(some.act[l][5 * HIDDEN] == 0); // not of the list: not written
        }
        banks_free(&all);
        banks_free(&some);
        free(params);
        sl_model_fini(&m);
    }
    fixture_graph_free(&g);
}

// Where a job samples by random walks a vertex has the same neighbourhood in every piece.
TEST(walks_do_not_depend_on_the_pieces)
{
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    const struct sl_vertex_list *val = &g.ds.split[SL_SPLIT_VAL];
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++) {
        struct sl_config c = config_of(kind, 2);
        c.sampler.kind = SL_SAMPLER_WALK;
        c.sampler.n_fanout = 2;
        c.sampler.fanout[0] = 3;
        c.sampler.fanout[1] = 2;
        c.sampler.paths = 5;
        c.sampler.length = 3;
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_ref()), SL_OK);
        float *params = fixture_params(&m, 3);
        struct banks banks = banks_make(&g.ds);
        struct found all = infer(&m, &g.ds, params, &banks, 60, 1, val);
        struct sl_neighbours neighbours;
        ck_assert_int_eq(sl_neighbours_init(&neighbours, &c, &g.ds, sl_kernels_ref()), SL_OK);
        m.neighbours = &neighbours;
        struct found once = infer(&m, &g.ds, params, &banks, 60, 1, val);
        struct found pieces = infer(&m, &g.ds, params, &banks, 7, 2, val);
        ck_assert_mem_eq(once.outputs, pieces.outputs, val->n * CLASSES * sizeof(float));
        ck_assert_mem_ne(once.outputs, all.outputs, val->n * CLASSES * sizeof(float));
        found_free(&all);
        found_free(&once);
        found_free(&pieces);
        sl_neighbours_fini(&neighbours);
        banks_free(&banks);
        free(params);
        sl_model_fini(&m);
    }
    fixture_graph_free(&g);
}

// The different vertices that a layer over `list` reads, or over all vertices where it is NULL.
static uint64_t vertices_read(const struct sl_dataset *ds, const struct sl_vertex_list *list)
{
    bool *read = fixture_alloc(ds->n_nodes);
    uint64_t n = 0;
    for (uint64_t i = 0; i < (list ? list->n : ds->n_nodes); i++) {
        const uint64_t v = list ? list->ids[i] : i;
        read[v] = true;
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
            read[((const uint32_t *)ds->indices)[e]] = true;
    }
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        n += read[v];
    free(read);
    return n;
}

static void check_kept(struct fixture_graph *g, const struct sl_config *c, uint32_t step)
{
    const struct sl_vertex_list val = {.n = 7, .ids = g->ds.split[SL_SPLIT_VAL].ids};
    struct sl_model m;
    ck_assert_int_eq(fixture_model(&m, c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
    struct banks banks = banks_make(&g->ds);
    for (uint64_t seed = 3; seed < 5; seed++) { // other parameters, and the memory of the first
        float *params = fixture_params(&m, seed);
        m.kept.sharers = 0;
        struct found anew = infer(&m, &g->ds, params, &banks, step, 1, &val);
        ck_assert_uint_eq(m.kept.made, 0);
        m.kept.sharers = 1;
        struct found kept = infer(&m, &g->ds, params, &banks, step, 2, &val);
        ck_assert_mem_eq(anew.outputs, kept.outputs, val.n * CLASSES * sizeof(float));
        ck_assert_uint_eq(m.kept.made, 60 * 2 + vertices_read(&g->ds, &val));
        m.kept.made = 0;
        found_free(&kept);
        if (seed == 4) { // there is no machine with a share of its memory for so many
            sl_source_row_cache_free(&m.kept);
            m.kept.sharers = UINT32_MAX;
            kept = infer(&m, &g->ds, params, &banks, step, 1, &val);
            ck_assert_mem_eq(anew.outputs, kept.outputs, val.n * CLASSES * sizeof(float));
            ck_assert_uint_eq(m.kept.made, 0);
            found_free(&kept);
        }
        found_free(&anew);
        free(params);
    }
    banks_free(&banks);
    sl_model_fini(&m);
}

// Sources are transformed once a layer, whatever the cells, and leave what each piece's own do.
TEST(kept_rows_are_made_once_and_change_no_bit)
{
    static const uint32_t steps[] = {60, 7, 1};
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    for (int kind = SL_MODEL_GAT; kind <= SL_MODEL_PINSAGE; kind++)
        for (size_t i = 0; kind != SL_MODEL_GIN && i < SL_COUNT_OF(steps); i++) {
            struct sl_config c = config_of(kind, 3);
            c.model.residual = i == 1;
            check_kept(&g, &c, steps[i]);
        }
    fixture_graph_free(&g);
}

// What features add up to is found in the first evaluation alone, whatever the parameters.
TEST(sums_of_features_are_made_once_and_change_no_bit)
{
    static const uint32_t steps[] = {60, 7, 1};
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    const struct sl_vertex_list val = g.ds.split[SL_SPLIT_VAL], few = {.n = 10, .ids = val.ids};
    for (uint32_t layers = 1; layers < LAYERS; layers++)
        for (int a = SL_AGGREGATOR_MEAN; a <= SL_AGGREGATOR_GCN + 1; a++) {
            struct sl_config c =
                config_of(a > SL_AGGREGATOR_GCN ? SL_MODEL_GCN : SL_MODEL_GRAPHSAGE, layers);
            c.model.aggregator = (enum sl_aggregator)(a % (SL_AGGREGATOR_GCN + 1));
            struct sl_model m;
            ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
            struct banks banks = banks_make(&g.ds);
            for (uint64_t seed = 3; seed < 6; seed++) {
                // Of a model of one layer: a cell of the second has rows that the first has not.
                const struct sl_vertex_list *list = seed == 3 ? &few : &val;
                float *params = fixture_params(&m, seed);
                m.kept.sharers = 0;
                struct found anew = infer(&m, &g.ds, params, &banks, steps[seed % 3], 1, list);
                m.kept.sharers = 1;
                struct found kept = infer(&m, &g.ds, params, &banks, steps[seed % 3], 1, list);
                ck_assert_mem_eq(anew.outputs, kept.outputs, list->n * CLASSES * sizeof(float));
                const uint64_t again = seed == 3 ? 0 : val.n - 7; // cells of seven
                ck_assert_uint_eq(m.kept_sums.made, layers > 1 ? g.ds.n_nodes : few.n + again);
                found_free(&anew);
                found_free(&kept);
                free(params);
            }
            banks_free(&banks);
            sl_model_fini(&m);
        }
    fixture_graph_free(&g);
}

TEST(sixty_four_bit_neighbours_and_half_features)
{
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    // Features that half precision holds exactly, so both must agree to the last bit.
    _Float16 *half = fixture_alloc(60 * FEATURES * sizeof *half);
    for (uint32_t i = 0; i < 60 * FEATURES; i++) {
        half[i] = (_Float16)g.feat[i];
        g.feat[i] = (float)half[i];
    }
    int64_t *wide = fixture_alloc(g.ds.n_edges * sizeof *wide);
    for (uint64_t e = 0; e < g.ds.n_edges; e++)
        wide[e] = g.indices[e];
    struct sl_dataset other = g.ds;
    other.indices = wide;
    other.indices_dtype = SL_DTYPE_I64;
    other.feat = half;
    other.feat_dtype = SL_DTYPE_F16;
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++) {
        struct sl_config c = config_of(kind, 2);
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
        float *params = fixture_params(&m, 3);
        struct banks a = banks_make(&g.ds), b = banks_make(&g.ds);
        const struct sl_vertex_list *val = &g.ds.split[SL_SPLIT_VAL];
        struct found ra = infer(&m, &g.ds, params, &a, 16, 1, val);
        struct found rb = infer(&m, &other, params, &b, 16, 1, val);
        ck_assert_int_eq(memcmp(a.act[0], b.act[0], a.bytes), 0);
        ck_assert_uint_eq(ra.result.correct, rb.result.correct);
        found_free(&ra);
        found_free(&rb);
        banks_free(&a);
        banks_free(&b);
        free(params);
        sl_model_fini(&m);
    }
    free(wide);
    free(half);
    fixture_graph_free(&g);
}

// A reader of the features, in a file that nobody else can find.
static struct sl_row_reader *reader_of(const struct sl_dataset *ds)
{
    enum { BEHIND = 80 };
    char path[] = "/tmp/sluice-features-XXXXXX";
    const uint64_t row_bytes = sl_rows_bytes(ds), bytes = ds->n_nodes * row_bytes;
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(pwrite(fd, ds->feat, bytes, BEHIND), (ssize_t)bytes);
    const struct sl_row_file file = {.n = 1,
                                     .part[0].path = "features",
                                     .part[0].fd = fd,
                                     .offset = BEHIND,
                                     .n_rows = ds->n_nodes,
                                     .row_bytes = row_bytes,
                                     .part[0].bytes = BEHIND + bytes};
    struct sl_row_reader *r;
    ck_assert_msg(sl_row_reader_open_file(&file, &(struct sl_row_options){.cached = true}, &r) ==
                      SL_OK,
                  "%s", sl_error_message());
    return r;
}

// What is mapped is not touched then; runs and lists, rows that are kept and made anew, and a graph
// whose vertices have no neighbours at all.
LOOP_TEST(features_from_the_drive_change_no_bit, 0, 4)
{
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    uint64_t *alone = fixture_alloc(61 * sizeof *alone);
    _Float16 *half = fixture_alloc(60 * FEATURES * sizeof *half);
    for (uint32_t i = 0; i < 60 * FEATURES; i++)
        half[i] = (_Float16)g.feat[i];
    struct sl_dataset ds = g.ds;
    if (_i & 1) {
        ds.feat = half;
        ds.feat_dtype = SL_DTYPE_F16;
    }
    if (_i & 2) {
        ds.indptr = alone;
        ds.n_edges = 0;
    }
    struct sl_dataset drive = ds;
    drive.feat = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(drive.feat != MAP_FAILED);
    struct sl_reading reading = {.drive = reader_of(&ds)};
    struct sl_row_source source = {.dataset = &drive, .reader = &reading};
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++)
        for (uint32_t layers = 1; layers <= 2; layers++) {
            struct sl_config c = config_of(kind, layers);
            c.model.aggregator = (enum sl_aggregator)(layers % 3);
            struct sl_model m;
            ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
            float *params = fixture_params(&m, 3);
            struct banks banks = banks_make(&ds);
            const struct sl_vertex_list *val = &ds.split[SL_SPLIT_VAL];
            for (uint32_t step = 1; step <= 60; step += 59) {
                m.kept.sharers = 1;
                m.features = NULL;
                struct found memory = infer(&m, &ds, params, &banks, step, 1, val);
                m.features = &source;
                for (uint32_t sharers = 0; sharers < 2; sharers++) {
                    m.kept.sharers = sharers;
                    struct found found = infer(&m, &drive, params, &banks, step, 2, val);
                    ck_assert_mem_eq(memory.outputs, found.outputs,
                                     val->n * CLASSES * sizeof(float));
                    found_free(&found);
                }
                found_free(&memory);
            }
            banks_free(&banks);
            free(params);
            sl_model_fini(&m);
        }
    ck_assert_uint_gt(sl_reading_bytes(&reading), 0);
    sl_reading_close(&reading);
    sl_row_source_fini(&source);
    munmap((void *)(uintptr_t)drive.feat, 4096);
    free(half);
    free(alone);
    fixture_graph_free(&g);
}

// A hub with more in-edges than a piece holds, after and before ordinary rows, and more rows than
// a piece holds: the same sums as one vertex at a time.
TEST(pieces_are_bounded_and_hubs_fit)
{
    enum { N = SL_INFER_PIECE_ROWS + 300, HUB = 100 };
    uint64_t hub_degree = SL_INFER_PIECE_EDGES + 5000;
    uint64_t n_edges = hub_degree + N;
    uint64_t *indptr = fixture_alloc((N + 1) * sizeof *indptr);
    uint32_t *indices = fixture_alloc(n_edges * sizeof *indices);
    uint64_t e = 0;
    for (uint32_t v = 0; v < N; v++) {
        for (uint64_t i = 0; i < (v == HUB ? hub_degree : 1); i++)
            indices[e++] = (uint32_t)((v + 1 + i) % N);
        indptr[v + 1] = e;
    }
    float *feat = fixture_alloc((uint64_t)N * 2 * sizeof *feat);
    for (uint32_t v = 0; v < N; v++) {
        feat[2 * v] = (float)(v % 7);
        feat[2 * v + 1] = 1;
    }
    struct sl_dataset ds = {.n_nodes = N,
                            .n_edges = e,
                            .indptr = indptr,
                            .indices = indices,
                            .indices_dtype = SL_DTYPE_U32,
                            .feat_dim = 2,
                            .feat_dtype = SL_DTYPE_F32,
                            .feat = feat,
                            .n_classes = 2};
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 2, 3);
        c.model.heads = 1;
        c.model.self_loops = true;
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, &c, 2, 2, sl_kernels_cpu()), SL_OK);
        m.layer[1].order = SL_LAYER_AGGREGATE_FIRST; // it reads the rows themselves
        float *params = fixture_params(&m, 8);
        float *whole = fixture_alloc((uint64_t)N * 3 * sizeof *whole);
        float *single = fixture_alloc((uint64_t)N * 3 * sizeof *single);
        struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = feat, .y = whole};
        struct sl_infer_range all = {.n = N};
        ck_assert_int_eq(sl_evaluate_layer(&m, &ds, params, 0, &all, &io), SL_OK);
        // The pool held one piece at a time: the hub's, not the hub's and its neighbours'.
        // Kinds that transform each source first need some more arrays of that size.
        const uint64_t arrays = kind <= SL_MODEL_GCN ? 2 : 6;
        ck_assert_uint_lt(m.pool.peak_bytes, arrays * (hub_degree * 8 + 4096));
        static const uint32_t some[] = {0, HUB - 1, HUB, HUB + 1, SL_INFER_PIECE_ROWS, N - 1};
        io.y = single;
        struct sl_infer_range list = {.ids = some, .n = SL_COUNT_OF(some)};
        ck_assert_int_eq(sl_evaluate_layer(&m, &ds, params, 0, &list, &io), SL_OK);
        for (size_t i = 0; i < SL_COUNT_OF(some); i++)
            for (uint32_t k = 0; k < 3; k++)
                ck_assert_float_eq_tol(whole[some[i] * 3ull + k], single[some[i] * 3ull + k],
                                       1e-4f * (1 + fabsf(whole[some[i] * 3ull + k])));
        // Rows that are not in memory are asked for in smaller pieces.
        io.x_cold = true;
        ck_assert_int_eq(sl_evaluate_layer(&m, &ds, params, 0, &all, &io), SL_OK);
        for (uint64_t i = 0; i < (uint64_t)N * 3; i++)
            ck_assert_float_eq_tol(whole[i], single[i], 1e-4f * (1 + fabsf(whole[i])));
        // The hub's mean is near that of all vertices.
        if (kind == SL_MODEL_GRAPHSAGE) {
            double first = 0;
            for (uint64_t i = 0; i < hub_degree; i++)
                first += feat[2 * ((HUB + 1 + i) % N)];
            for (uint32_t k = 0; k < 3; k++) {
                const float *w = params + m.layer[0].offset[0] + k * 2;
                const float *self = params + m.layer[0].offset[2] + k * 2;
                double y = w[0] * first / (double)hub_degree + w[1] +
                           params[m.layer[0].offset[1] + k] + self[0] * feat[2 * HUB] + self[1];
                ck_assert_double_eq_tol(whole[HUB * 3 + k], y > 0 ? y : 0, 1e-3);
            }
        }
        free(whole);
        free(single);
        free(params);
        sl_model_fini(&m);
    }
    free(indptr);
    free(indices);
    free(feat);
}

// Of both graphs, whose first one has edges of weight 0 more than the second.
static void compare_without(struct fixture_graph *whole, struct fixture_graph *without,
                            const struct sl_config *c, uint32_t step)
{
    struct fixture_graph *g[] = {whole, without};
    struct found found[2];
    const struct sl_vertex_list *list = &whole->ds.split[SL_SPLIT_TEST];
    struct banks banks = banks_make(&whole->ds);
    for (int i = 0; i < 2; i++) {
        struct sl_self_loops loops;
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
        float *params = fixture_params(&m, 3);
        ck_assert_int_eq(sl_self_loops_find(&g[i]->ds, 1, &loops), SL_OK);
        ck_assert_int_eq(sl_self_loops_count_out(&loops, 1), SL_OK);
        m.self_loops = &loops;
        found[i] = infer(&m, &g[i]->ds, params, &banks, step, 1, list);
        sl_self_loops_free(&loops);
        free(params);
        sl_model_fini(&m);
    }
    ck_assert_mem_eq(found[0].outputs, found[1].outputs, list->n * CLASSES * sizeof(float));
    found_free(&found[0]);
    found_free(&found[1]);
    banks_free(&banks);
}

// Every kind, both ways to count degrees: to the bit as of a graph that never had such edges.
TEST(edges_of_weight_zero_are_none)
{
    struct fixture_graph whole = fixture_graph(60, FEATURES, CLASSES, 9), without = whole;
    fixture_add_loops(&whole);
    const uint64_t n_edges = whole.ds.n_edges;
    float *weight = fixture_alloc(n_edges * sizeof *weight);
    uint64_t e = 0, left = 0;
    without.ds.indptr = without.indptr = fixture_alloc(61 * sizeof *without.indptr);
    without.ds.indices = without.indices = fixture_alloc(n_edges * sizeof *without.indices);
    for (uint32_t v = 0; v < 60; v++) {
        for (; e < whole.indptr[v + 1]; e++) {
            weight[e] = v % 7 == 2 || (e * 2654435761u >> 7) % 3 == 0 ? 0 : 0.5f;
            if (weight[e] > 0)
                without.indices[left++] = whole.indices[e];
        }
        without.indptr[v + 1] = left;
    }
    without.ds.n_edges = left;
    ck_assert_uint_lt(left, n_edges - 20);
    whole.ds.edge_weight = weight;
    sl_weightless_count(&whole.ds, 1);
    ck_assert_int_eq(sl_weightless_drop(&whole.ds, false, 1), SL_OK);
    for (int kind = 0; kind <= SL_MODEL_PINSAGE; kind++)
        for (uint32_t step = 60; step > 0; step /= 8) {
            struct sl_config c = config_of(kind, 3);
            c.model.degrees = step == 7 ? SL_DEGREES_BLOCK : SL_DEGREES_GRAPH;
            c.model.self_loops = step > 1;
            compare_without(&whole, &without, &c, step);
        }
    free(weight);
    free(without.indptr);
    free(without.indices);
    fixture_graph_free(&whole);
}

TEST(empty_range_is_nothing)
{
    struct fixture_graph g = fixture_graph(10, FEATURES, CLASSES, 2);
    struct sl_config c = fixture_config(SL_MODEL_GCN, 1, HIDDEN);
    struct sl_model m;
    ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_ref()), SL_OK);
    float *params = fixture_params(&m, 3);
    struct sl_loss_result result = {0};
    struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = g.feat, .result = &result};
    struct sl_infer_range none = {0};
    ck_assert_int_eq(sl_evaluate_layer(&m, &g.ds, params, 0, &none, &io), SL_OK);
    ck_assert_uint_eq(result.counted, 0);
    free(params);
    sl_model_fini(&m);
    fixture_graph_free(&g);
}

RUN_TESTS(.timeout_s = 60)
