// Layers and models over blocks: forward and backward against the naive model of the fixture.
#include <check.h>

#include "common/base/error.h"
#include "tests/unit/trainer_naive.h"

enum { NODES = 40, FEATURES = 6, CLASSES = 4, SEEDS = 9 };

static const int64_t FANOUT[] = {4, 3, 2};
static const int64_t ALL[] = {-1, -1, -1};
static const uint32_t SEED_IDS[SEEDS] = {7, 0, 13, 4, 22, 39, 5, 1, 30};

// One model over one block of the fixture's graph.
struct scene {
    struct fixture_graph g;
    struct sl_config config;
    struct sl_block *block;
    float *x;
    struct sl_model model;
    float *params, *gradient;
    struct naive naive;
};

static void scene_init(struct scene *s, const struct sl_config *config, const int64_t *fanout,
                       const struct sl_kernels *kernels, enum sl_layer_order order)
{
    *s = (struct scene){.g = fixture_graph(NODES, FEATURES, CLASSES, 5), .config = *config};
    s->block = fixture_block(&s->g.ds, SEED_IDS, SEEDS, config->model.layers, fanout, 3, 17);
    s->x = fixture_input(&s->g.ds, s->block);
    ck_assert_int_eq(fixture_model(&s->model, &s->config, FEATURES, CLASSES, kernels), SL_OK);
    for (uint32_t l = 0; l < s->model.n_layers; l++)
        s->model.layer[l].order = order;
    s->params = fixture_params(&s->model, 11);
    s->gradient = fixture_alloc(s->model.n_params * sizeof *s->gradient);
    float *kept = fixture_input(&s->g.ds, s->block); // the model masks its own in place
    s->naive = naive_make(&s->config, &s->g.ds, s->block, kept, true);
}

// The scene's block gets edge weights from 1 to `most`.
static void scene_weigh(struct scene *s, uint32_t most)
{
    s->block = fixture_weigh(s->block, most, 77);
    s->naive.block = s->block;
}

static void scene_free(struct scene *s)
{
    free((void *)s->naive.x);
    naive_free(&s->naive);
    sl_model_fini(&s->model);
    free(s->params);
    free(s->gradient);
    free(s->x);
    free(s->block);
    fixture_graph_free(&s->g);
}

static void assert_near(const char *what, uint64_t i, double found, double wanted, double tolerance)
{
    ck_assert_msg(fabs(found - wanted) <= tolerance * fmax(1, fabs(wanted)),
                  "%s[%llu]: found %.9g, wanted %.9g", what, (unsigned long long)i, found, wanted);
}

static void check_against_naive(struct scene *s)
{
    struct sl_loss_result result;
    ck_assert_int_eq(
        sl_model_train(&s->model, s->params, sl_block_here(s->block), s->x, s->gradient, &result),
        SL_OK);
    double *p = fixture_alloc(s->model.n_params * sizeof *p);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        p[i] = s->params[i];
    assert_near("loss", 0, result.loss, naive_loss(&s->naive, p), 1e-5);
    uint64_t counted = 0;
    for (uint32_t i = 0; i < SEEDS; i++)
        counted += s->g.label[SEED_IDS[i]] >= 0;
    ck_assert_uint_eq(result.counted, counted);
    ck_assert_uint_lt(counted, SEEDS); // an unlabelled seed is among them
    double *wanted = naive_gradient(&s->naive, s->params, s->model.n_params);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        assert_near("gradient", i, s->gradient[i], wanted[i], 1e-4);
    free(wanted);
    free(p);
}

// Every kind, depth, order and width around the features' (so AUTO meets both cases).
START_TEST(gradient_is_that_of_finite_differences)
{
    static const enum sl_layer_order orders[] = {SL_LAYER_AUTO, SL_LAYER_AGGREGATE_FIRST,
                                                 SL_LAYER_TRANSFORM_FIRST};
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++)
        for (uint32_t layers = 1; layers <= 3; layers++)
            for (size_t o = 0; o < SL_COUNT_OF(orders); o++) {
                struct sl_config c =
                    fixture_config((enum sl_model_kind)kind, layers, layers == 2 ? 3 : 8);
                c.model.dropout = 0.4;
                c.model.input_dropout = 0.25;
                struct scene s;
                scene_init(&s, &c, _i ? ALL : FANOUT, sl_kernels_ref(), orders[o]);
                check_against_naive(&s);
                scene_free(&s);
            }
}
END_TEST

START_TEST(gradient_without_dropout_through_the_cpu_kernels)
{
    sl_kernels_set_threads(2);
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 3, 5);
        struct scene s;
        scene_init(&s, &c, FANOUT, sl_kernels_cpu(), SL_LAYER_AUTO);
        check_against_naive(&s);
        scene_free(&s);
    }
}
END_TEST

// Visit counts of random walks as edge weights, both orders of operations, both back ends.
START_TEST(gradient_under_edge_weights)
{
    static const enum sl_layer_order orders[] = {SL_LAYER_AGGREGATE_FIRST,
                                                 SL_LAYER_TRANSFORM_FIRST};
    sl_kernels_set_threads(2);
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++)
        for (size_t o = 0; o < SL_COUNT_OF(orders); o++) {
            struct sl_config c = fixture_config((enum sl_model_kind)kind, 3, 5);
            c.model.dropout = 0.3;
            struct scene s;
            scene_init(&s, &c, FANOUT, _i ? sl_kernels_cpu() : sl_kernels_ref(), orders[o]);
            scene_weigh(&s, 9);
            check_against_naive(&s);
            scene_free(&s);
        }
}
END_TEST

START_TEST(equal_edge_weights_change_nothing)
{
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 2, 5);
        struct scene s;
        scene_init(&s, &c, FANOUT, sl_kernels_ref(), SL_LAYER_AUTO);
        struct sl_loss_result with, without;
        ck_assert_int_eq(
            sl_model_train(&s.model, s.params, sl_block_here(s.block), s.x, s.gradient, &without),
            SL_OK);
        float *weighed = fixture_alloc(s.model.n_params * sizeof *weighed);
        scene_weigh(&s, 1);
        ck_assert(s.block->flags & SL_BLOCK_HAS_WEIGHTS);
        ck_assert_int_eq(
            sl_model_train(&s.model, s.params, sl_block_here(s.block), s.x, weighed, &with), SL_OK);
        ck_assert_double_eq(with.loss, without.loss);
        ck_assert_int_eq(memcmp(weighed, s.gradient, s.model.n_params * sizeof *weighed), 0);
        free(weighed);
        scene_free(&s);
    }
}
END_TEST

START_TEST(forward_without_training_ignores_dropout)
{
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 2, 8);
        c.model.dropout = c.model.input_dropout = 0.5;
        struct scene s;
        scene_init(&s, &c, FANOUT, sl_kernels_ref(), SL_LAYER_AUTO);
        struct naive plain = naive_make(&c, &s.g.ds, s.block, s.naive.x, false);
        double *p = fixture_alloc(s.model.n_params * sizeof *p);
        for (uint64_t i = 0; i < s.model.n_params; i++)
            p[i] = s.params[i];
        double *wanted = naive_forward(&plain, p);
        float *logits;
        ck_assert_int_eq(
            sl_model_forward(&s.model, s.params, sl_block_here(s.block), s.x, false, &logits),
            SL_OK);
        uint64_t correct = 0;
        for (uint32_t i = 0; i < SEEDS; i++) {
            uint32_t best = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_near("logits", i * CLASSES + k, logits[i * CLASSES + k],
                            wanted[i * CLASSES + k], 1e-5);
                if (wanted[i * CLASSES + k] > wanted[i * CLASSES + best])
                    best = k;
            }
            correct +=
                (int32_t)best == ((const int32_t *)sl_view_targets(sl_block_here(s.block)))[i];
        }
        struct sl_loss_result result;
        ck_assert_int_eq(
            sl_model_evaluate(&s.model, s.params, sl_block_here(s.block), s.x, &result, NULL),
            SL_OK);
        ck_assert_uint_eq(result.correct, correct);
        assert_near("loss", 0, result.loss, naive_loss(&plain, p), 1e-5);
        free(wanted);
        free(p);
        naive_free(&plain);
        scene_free(&s);
    }
}
END_TEST

START_TEST(gradient_slot_is_assigned_not_added_to)
{
    struct sl_config c = fixture_config(SL_MODEL_GRAPHSAGE, 2, 5);
    struct scene s;
    scene_init(&s, &c, FANOUT, sl_kernels_ref(), SL_LAYER_AUTO);
    struct sl_loss_result result;
    ck_assert_int_eq(
        sl_model_train(&s.model, s.params, sl_block_here(s.block), s.x, s.gradient, &result),
        SL_OK);
    float *again = fixture_alloc(s.model.n_params * sizeof *again);
    for (uint64_t i = 0; i < s.model.n_params; i++)
        again[i] = 1e6f; // what the batch before left
    ck_assert_int_eq(
        sl_model_train(&s.model, s.params, sl_block_here(s.block), s.x, again, &result), SL_OK);
    ck_assert_int_eq(memcmp(again, s.gradient, s.model.n_params * sizeof *again), 0);
    free(again);
    scene_free(&s);
}
END_TEST

static void compare_back_ends(const struct sl_config *c, double tolerance)
{
    struct scene a;
    scene_init(&a, c, FANOUT, sl_kernels_ref(), SL_LAYER_AUTO);
    struct scene b;
    scene_init(&b, c, FANOUT, sl_kernels_cpu(), SL_LAYER_AUTO);
    struct sl_loss_result ra, rb;
    ck_assert_int_eq(
        sl_model_train(&a.model, a.params, sl_block_here(a.block), a.x, a.gradient, &ra), SL_OK);
    ck_assert_int_eq(
        sl_model_train(&b.model, b.params, sl_block_here(b.block), b.x, b.gradient, &rb), SL_OK);
    assert_near("loss", 0, rb.loss, ra.loss, tolerance);
    for (uint64_t i = 0; i < a.model.n_params; i++)
        assert_near("gradient", i, b.gradient[i], a.gradient[i], tolerance);
    scene_free(&a);
    scene_free(&b);
}

START_TEST(back_ends_agree)
{
    sl_kernels_set_threads(1 + _i);
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 3, 7);
        c.model.dropout = 0.5;
        c.model.input_dropout = 0.1;
        compare_back_ends(&c, 1e-4);
    }
}
END_TEST

START_TEST(bf16_products_stay_close)
{
    struct sl_config c = fixture_config(SL_MODEL_GRAPHSAGE, 2, 8);
    struct scene a;
    scene_init(&a, &c, FANOUT, sl_kernels_cpu(), SL_LAYER_AUTO);
    c.precision = SL_CONFIG_BF16;
    struct scene b;
    scene_init(&b, &c, FANOUT, sl_kernels_cpu(), SL_LAYER_AUTO);
    ck_assert_int_eq(b.model.env.precision, SL_PRECISION_BF16);
    struct sl_loss_result ra, rb;
    ck_assert_int_eq(
        sl_model_train(&a.model, a.params, sl_block_here(a.block), a.x, a.gradient, &ra), SL_OK);
    ck_assert_int_eq(
        sl_model_train(&b.model, b.params, sl_block_here(b.block), b.x, b.gradient, &rb), SL_OK);
    assert_near("loss", 0, rb.loss, ra.loss, 0.02);
    uint64_t different = 0;
    for (uint64_t i = 0; i < a.model.n_params; i++) {
        assert_near("gradient", i, b.gradient[i], a.gradient[i], 0.15);
        different += b.gradient[i] != a.gradient[i];
    }
    ck_assert_uint_gt(different, a.model.n_params / 2); // it is bf16 indeed
    scene_free(&a);
    scene_free(&b);
}
END_TEST

START_TEST(order_of_operations_depends_on_the_shape)
{
    uint32_t indptr[101] = {0}, indices[800] = {0};
    for (uint32_t i = 0; i <= 100; i++)
        indptr[i] = i * 8;
    // A whole graph: as many sources as destinations, so fewer columns are worth a product first.
    struct sl_csr_view whole = {
        .n_dst = 100, .n_src = 100, .n_edges = 800, .indptr = indptr, .indices = indices};
    // A sampled hop: most sources are met once, the product would be done eight times over.
    struct sl_csr_view hop = {
        .n_dst = 100, .n_src = 900, .n_edges = 800, .indptr = indptr, .indices = indices};
    struct sl_layer narrow = {.d_in = 512, .d_out = 16}, wide = {.d_in = 16, .d_out = 512};
    ck_assert(sl_layer_transform_first(&narrow, &whole, true));
    ck_assert(!sl_layer_transform_first(&wide, &whole, true));
    struct sl_layer half = {.d_in = 256, .d_out = 200};
    ck_assert(!sl_layer_transform_first(&half, &hop, false));
    half.order = SL_LAYER_TRANSFORM_FIRST;
    ck_assert(sl_layer_transform_first(&half, &hop, false));
}
END_TEST

START_TEST(tensors_have_the_names_shapes_and_bounds_of_pyg)
{
    struct sl_config c = fixture_config(SL_MODEL_GRAPHSAGE, 2, 16);
    struct sl_model m;
    ck_assert_int_eq(fixture_model(&m, &c, 100, 7, sl_kernels_ref()), SL_OK);
    ck_assert_uint_eq(m.n_tensors, 6);
    ck_assert_uint_eq(m.n_params, 2 * 16 * 100 + 16 + 2 * 7 * 16 + 7);
    ck_assert_str_eq(m.tensor[0].name, "convs.0.lin_l.weight");
    ck_assert_str_eq(m.tensor[1].name, "convs.0.lin_l.bias");
    ck_assert_str_eq(m.tensor[5].name, "convs.1.lin_r.weight");
    ck_assert_uint_eq(m.tensor[0].shape[0], 16);
    ck_assert_uint_eq(m.tensor[0].shape[1], 100);
    ck_assert_uint_eq(m.tensor[1].rank, 1);
    ck_assert_uint_eq(m.tensor[3].offset, 2 * 16 * 100 + 16);
    ck_assert_float_eq_tol(m.tensor[0].init_bound, 0.1f, 1e-6f);
    ck_assert_float_eq_tol(m.tensor[1].init_bound, 0.1f, 1e-6f);
    ck_assert_float_eq_tol(m.tensor[4].init_bound, 0.25f, 1e-6f);
    ck_assert_uint_eq(sl_model_infer_width(&m), 16);
    sl_model_fini(&m);

    c = fixture_config(SL_MODEL_GCN, 1, 16);
    ck_assert_int_eq(fixture_model(&m, &c, 47, 7, sl_kernels_ref()), SL_OK);
    ck_assert_uint_eq(m.n_tensors, 2);
    ck_assert_str_eq(m.tensor[0].name, "convs.0.bias");
    ck_assert_str_eq(m.tensor[1].name, "convs.0.lin.weight");
    ck_assert(m.tensor[0].init_bound == 0 && m.tensor[0].init_constant == 0);
    ck_assert_float_eq_tol(m.tensor[1].init_bound, sqrtf(6.0f / 54), 1e-6f);
    ck_assert_uint_eq(sl_model_infer_width(&m), 0);
    sl_model_fini(&m);
}
END_TEST

START_TEST(blocks_of_another_shape_are_refused)
{
    struct sl_config c = fixture_config(SL_MODEL_GCN, 2, 4);
    struct scene s;
    scene_init(&s, &c, FANOUT, sl_kernels_ref(), SL_LAYER_AUTO);
    uint64_t bytes = s.block->bytes;
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes, sl_model_block_shape(&s.model)), SL_OK);
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes - 1, sl_model_block_shape(&s.model)),
                     SL_EPROTO);
    ck_assert_int_eq(sl_block_check_shape(s.block, 0, sl_model_block_shape(&s.model)), SL_EPROTO);
    s.block->n_hops = 3;
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes, sl_model_block_shape(&s.model)),
                     SL_EPROTO);
    s.block->n_hops = 2;
    s.block->hop[1].n_dst++;
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes, sl_model_block_shape(&s.model)),
                     SL_EPROTO);
    s.block->hop[1].n_dst--;
    // A GCN needs the degrees.
    s.block->flags = 0;
    float *logits;
    ck_assert_int_eq(
        sl_model_forward(&s.model, s.params, sl_block_here(s.block), s.x, false, &logits),
        SL_EPROTO);
    scene_free(&s);
}
END_TEST

START_TEST(models_that_can_not_be_are_refused)
{
    struct sl_model m;
    struct sl_config c = fixture_config(SL_MODEL_GCN, 2, 4);
    ck_assert_int_eq(fixture_model(&m, &c, 0, 3, sl_kernels_ref()), SL_EINVAL);
    ck_assert_int_eq(fixture_model(&m, &c, 3, 0, sl_kernels_ref()), SL_EINVAL);
    c.model.layers = SL_CONFIG_MAX_LAYERS + 1;
    ck_assert_int_eq(fixture_model(&m, &c, 3, 3, sl_kernels_ref()), SL_EINVAL);
    c.model.layers = 1;
    c.model.kind = (enum sl_model_kind)77;
    ck_assert_int_eq(fixture_model(&m, &c, 3, 3, sl_kernels_ref()), SL_EUNSUPPORTED);
}
END_TEST

START_TEST(block_without_edges_trains)
{
    static const int64_t none[] = {0, 0};
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_GCN; kind++) {
        struct sl_config c = fixture_config((enum sl_model_kind)kind, 2, 4);
        struct scene s;
        scene_init(&s, &c, none, sl_kernels_cpu(), SL_LAYER_AUTO);
        ck_assert_uint_eq(s.block->n_edges, 0);
        check_against_naive(&s);
        scene_free(&s);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer layers");
    TCase *tc = tcase_create("layers");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, gradient_is_that_of_finite_differences, 0, 2);
    tcase_add_test(tc, gradient_without_dropout_through_the_cpu_kernels);
    tcase_add_loop_test(tc, gradient_under_edge_weights, 0, 2);
    tcase_add_test(tc, equal_edge_weights_change_nothing);
    tcase_add_test(tc, forward_without_training_ignores_dropout);
    tcase_add_test(tc, gradient_slot_is_assigned_not_added_to);
    tcase_add_loop_test(tc, back_ends_agree, 0, 3);
    tcase_add_test(tc, bf16_products_stay_close);
    tcase_add_test(tc, order_of_operations_depends_on_the_shape);
    tcase_add_test(tc, tensors_have_the_names_shapes_and_bounds_of_pyg);
    tcase_add_test(tc, blocks_of_another_shape_are_refused);
    tcase_add_test(tc, models_that_can_not_be_are_refused);
    tcase_add_test(tc, block_without_edges_trains);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
