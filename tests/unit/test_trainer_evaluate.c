// Layer-wise inference over all neighbours: against blocks of full fanout, in pieces, with hubs.
#include <check.h>

#include "common/base/error.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/evaluate.h"

enum { FEATURES = 6, CLASSES = 4, HIDDEN = 5, LAYERS = 3 };

static const int64_t ALL[] = {-1, -1, -1};

struct banks {
    float *act[2];
    uint64_t bytes;
};

static struct banks banks_make(const struct sl_dataset *ds)
{
    struct banks b = {.bytes = ds->n_nodes * HIDDEN * sizeof(float)};
    for (int i = 0; i < 2; i++)
        b.act[i] = fixture_alloc(b.bytes);
    return b;
}

static void banks_free(struct banks *b)
{
    free(b->act[0]);
    free(b->act[1]);
}

// Hidden layers over all vertices in cells of `step`; the last one counts over `list`.
static struct sl_model_result infer(struct sl_model *m, const struct sl_dataset *ds,
                                    const float *params, struct banks *banks, uint32_t step,
                                    const struct sl_vertex_list *list)
{
    struct sl_model_result result = {0};
    for (uint32_t l = 0; l < m->n_layers; l++) {
        bool last = l + 1 == m->n_layers;
        uint64_t n = last ? list->n : ds->n_nodes;
        struct sl_infer_io io = {.x_dtype = l ? SL_DTYPE_F32 : ds->feat_dtype,
                                 .x = l ? (const void *)banks->act[(l - 1) & 1] : ds->feat,
                                 .y = last ? NULL : banks->act[l & 1],
                                 .result = last ? &result : NULL};
        for (uint64_t first = 0; first < n; first += step) {
            struct sl_infer_range range = {.first = first,
                                           .ids = last ? list->ids + first : NULL,
                                           .n = (uint32_t)SL_MIN((uint64_t)step, n - first)};
            ck_assert_int_eq(sl_evaluate_layer(m, ds, params, l, &range, &io), SL_OK);
        }
    }
    return result;
}

static void compare_with_blocks(struct fixture_graph *g, enum sl_model_kind kind, uint32_t layers,
                                const struct sl_kernels *kernels, uint32_t step)
{
    struct sl_config c = fixture_config(kind, layers, HIDDEN);
    c.model.dropout = c.model.input_dropout = 0.5; // not in evaluation
    struct sl_model m;
    ck_assert_int_eq(sl_model_init(&m, &c, FEATURES, CLASSES, kernels), SL_OK);
    float *params = fixture_params(&m, 3);
    struct banks banks = banks_make(&g->ds);
    const struct sl_vertex_list *test = &g->ds.split[SL_SPLIT_TEST];
    struct sl_model_result found = infer(&m, &g->ds, params, &banks, step, test);

    struct sl_block *b = fixture_block(&g->ds, test->ids, (uint32_t)test->n, layers, ALL, 0, 0);
    float *x = fixture_input(&g->ds, b);
    struct sl_model_result wanted;
    ck_assert_int_eq(sl_model_evaluate(&m, params, b, x, &wanted), SL_OK);
    ck_assert_uint_eq(found.counted, wanted.counted);
    ck_assert_uint_gt(found.counted, 0);
    ck_assert_uint_eq(found.correct, wanted.correct);
    ck_assert_double_eq_tol(found.loss, wanted.loss, 1e-4 * fabs(wanted.loss));
    free(x);
    free(b);
    banks_free(&banks);
    free(params);
    sl_model_fini(&m);
}

START_TEST(inference_equals_blocks_of_full_fanout)
{
    struct fixture_graph g = fixture_graph(60, FEATURES, CLASSES, 9);
    const struct sl_kernels *kernels = _i ? sl_kernels_cpu() : sl_kernels_ref();
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++)
        for (uint32_t layers = 1; layers <= LAYERS; layers++) {
            compare_with_blocks(&g, (enum sl_model_kind)kind, layers, kernels, 60);
            compare_with_blocks(&g, (enum sl_model_kind)kind, layers, kernels, 7);
            compare_with_blocks(&g, (enum sl_model_kind)kind, layers, kernels, 1);
        }
    fixture_graph_free(&g);
}
END_TEST

START_TEST(sixty_four_bit_neighbours_and_half_features)
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
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 2, HIDDEN);
        struct sl_model m;
        ck_assert_int_eq(sl_model_init(&m, &c, FEATURES, CLASSES, sl_kernels_cpu()), SL_OK);
        float *params = fixture_params(&m, 3);
        struct banks a = banks_make(&g.ds), b = banks_make(&g.ds);
        const struct sl_vertex_list *val = &g.ds.split[SL_SPLIT_VAL];
        struct sl_model_result ra = infer(&m, &g.ds, params, &a, 16, val);
        struct sl_model_result rb = infer(&m, &other, params, &b, 16, val);
        ck_assert_int_eq(memcmp(a.act[0], b.act[0], a.bytes), 0);
        ck_assert_uint_eq(ra.correct, rb.correct);
        banks_free(&a);
        banks_free(&b);
        free(params);
        sl_model_fini(&m);
    }
    free(wide);
    free(half);
    fixture_graph_free(&g);
}
END_TEST

// A hub with more in-edges than a piece holds, after and before ordinary rows, and more rows than
// a piece holds: the same sums as one vertex at a time.
START_TEST(pieces_are_bounded_and_hubs_fit)
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
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 2, 3);
        struct sl_model m;
        ck_assert_int_eq(sl_model_init(&m, &c, 2, 2, sl_kernels_cpu()), SL_OK);
        float *params = fixture_params(&m, 8);
        float *whole = fixture_alloc((uint64_t)N * 3 * sizeof *whole);
        float *single = fixture_alloc((uint64_t)N * 3 * sizeof *single);
        struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = feat, .y = whole};
        struct sl_infer_range all = {.n = N};
        ck_assert_int_eq(sl_evaluate_layer(&m, &ds, params, 0, &all, &io), SL_OK);
        // The pool held one piece at a time: the hub's, not the hub's and its neighbours'.
        ck_assert_uint_lt(m.pool.peak_bytes, 2 * (hub_degree * 8 + 4096));
        static const uint32_t some[] = {0, HUB - 1, HUB, HUB + 1, SL_INFER_PIECE_ROWS, N - 1};
        io.y = single;
        struct sl_infer_range list = {.ids = some, .n = SL_COUNT_OF(some)};
        ck_assert_int_eq(sl_evaluate_layer(&m, &ds, params, 0, &list, &io), SL_OK);
        for (size_t i = 0; i < SL_COUNT_OF(some); i++)
            for (uint32_t k = 0; k < 3; k++)
                ck_assert_float_eq_tol(whole[some[i] * 3ull + k], single[some[i] * 3ull + k],
                                       1e-4f * (1 + fabsf(whole[some[i] * 3ull + k])));
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
END_TEST

START_TEST(empty_range_is_nothing)
{
    struct fixture_graph g = fixture_graph(10, FEATURES, CLASSES, 2);
    struct sl_config c = fixture_config(SL_MODEL_GCN, 1, HIDDEN);
    struct sl_model m;
    ck_assert_int_eq(sl_model_init(&m, &c, FEATURES, CLASSES, sl_kernels_ref()), SL_OK);
    float *params = fixture_params(&m, 3);
    struct sl_model_result result = {0};
    struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = g.feat, .result = &result};
    struct sl_infer_range none = {0};
    ck_assert_int_eq(sl_evaluate_layer(&m, &g.ds, params, 0, &none, &io), SL_OK);
    ck_assert_uint_eq(result.counted, 0);
    free(params);
    sl_model_fini(&m);
    fixture_graph_free(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer evaluate");
    TCase *tc = tcase_create("evaluate");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, inference_equals_blocks_of_full_fanout, 0, 2);
    tcase_add_test(tc, sixty_four_bit_neighbours_and_half_features);
    tcase_add_test(tc, pieces_are_bounded_and_hubs_fit);
    tcase_add_test(tc, empty_range_is_nothing);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
