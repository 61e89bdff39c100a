// Class weights, losses and predictions by task; gradients of all three losses through a whole
// model against finite differences.

#include "common/base/error.h"
#include "common/data/prediction.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "tests/unit/trainer_naive.h"
#include "trainer/model/objective.h"

enum { N = 90, FEATURES = 5 };

// A graph whose labels are those of `task`; one row, or element, in some is unlabelled.
struct world {
    struct fixture_graph g;
    struct sl_config config;
    void *target;
};

static void world_init(struct world *w, enum sl_task task, uint32_t outputs)
{
    struct fixture_rng r = {.seed = 6};
    *w = (struct world){.g = fixture_graph(N, FEATURES, outputs, 8)};
    w->config = fixture_config(SL_MODEL_GRAPHSAGE, 2, 6);
    w->config.sampler.fanout[0] = w->config.sampler.fanout[1] = 4;
    struct sl_dataset *ds = &w->g.ds;
    ds->task = task;
    if (task == SL_TASK_MULTICLASS)
        return;
    ds->label = NULL;
    if (task == SL_TASK_MULTILABEL) {
        int8_t *flags = w->target = fixture_alloc((size_t)N * outputs);
        for (uint32_t i = 0; i < N * outputs; i++)
            flags[i] = i % 7 == 4 || i / outputs % 11 == 3 ? -1 : fixture_word(&r) % 3 == 0;
        ds->target_dtype = SL_DTYPE_I8;
    } else {
        float *numbers = w->target = fixture_alloc((size_t)N * outputs * sizeof *numbers);
        for (uint32_t i = 0; i < N * outputs; i++)
            numbers[i] = i % 7 == 4 ? NAN : fixture_float(&r, 3);
        ds->target_dtype = SL_DTYPE_F32;
    }
    ds->target = w->target;
}

static void world_fini(struct world *w)
{
    free(w->target);
    fixture_graph_free(&w->g);
}

static void give_weights(struct world *w, enum sl_class_weights kind)
{
    w->config.loss.class_weights = kind;
    w->config.loss.n_class_weights = w->g.ds.n_classes;
    for (uint32_t c = 0; c < w->g.ds.n_classes; c++)
        w->config.loss.class_weight[c] = 0.5 * c;
}

// ---- class weights ------------------------------------------------------------------------------

TEST(no_weights_unless_asked_for)
{
    struct world w;
    struct sl_objective o;
    world_init(&w, SL_TASK_MULTICLASS, 4);
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_OK);
    ck_assert_ptr_null(o.class_weight);
    ck_assert_uint_eq(o.n_outputs, 4);
    sl_objective_fini(&o);
    world_fini(&w);
}

LOOP_TEST(a_list_is_taken_as_it_is, 0, 2)
{
    struct world w;
    struct sl_objective o;
    world_init(&w, _i ? SL_TASK_MULTILABEL : SL_TASK_MULTICLASS, 4);
    give_weights(&w, SL_CLASS_WEIGHTS_LIST);
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_OK);
    for (uint32_t c = 0; c < 4; c++)
        ck_assert_float_eq(o.class_weight[c], 0.5f * (float)c);
    sl_objective_fini(&o);
    w.config.loss.n_class_weights = 3;
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "found 3 numbers"));
    ck_assert_ptr_null(o.class_weight);
    world_fini(&w);
}

// sklearn.utils.class_weight.compute_class_weight("balanced", ...) of [0, 0, 0, 1, 3, 3]:
// 6 / (3 * [3, 1, 2]).
TEST(balanced_is_sklearns)
{
    static const int32_t labels[] = {0, 1, 0, 3, -1, 0, 3};
    struct world w;
    struct sl_objective o;
    world_init(&w, SL_TASK_MULTICLASS, 4);
    give_weights(&w, SL_CLASS_WEIGHTS_BALANCED);
    struct sl_vertex_list *train = &w.g.ds.split[SL_SPLIT_TRAIN];
    for (uint32_t v = 0; v < N; v++)
        w.g.label[v] = 2; // of vertices that nobody trains on
    train->n = SL_COUNT_OF(labels);
    for (uint32_t i = 0; i < train->n; i++)
        w.g.label[train->ids[i]] = labels[i];
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_OK);
    ck_assert_float_eq_tol(o.class_weight[0], 2.0f / 3, 1e-6f);
    ck_assert_float_eq_tol(o.class_weight[1], 2, 1e-6f);
    ck_assert_float_eq(o.class_weight[2], 0);
    ck_assert_float_eq_tol(o.class_weight[3], 1, 1e-6f);
    sl_objective_fini(&o);
    world_fini(&w);
}

TEST(balanced_labels_weigh_their_positives)
{
    static const int8_t flags[][2] = {{1, 0}, {0, 0}, {0, -1}, {-1, 0}, {0, 0}};
    struct world w;
    struct sl_objective o;
    world_init(&w, SL_TASK_MULTILABEL, 2);
    give_weights(&w, SL_CLASS_WEIGHTS_BALANCED);
    struct sl_vertex_list *train = &w.g.ds.split[SL_SPLIT_TRAIN];
    train->n = SL_COUNT_OF(flags);
    for (uint32_t i = 0; i < train->n; i++)
        memcpy((int8_t *)w.target + (size_t)train->ids[i] * 2, flags[i], 2);
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_OK);
    ck_assert_float_eq(o.class_weight[0], 3); // 1 of 4 known ones
    ck_assert_float_eq(o.class_weight[1], 0); // none
    sl_objective_fini(&o);
    world_fini(&w);
}

TEST(numbers_have_no_classes_to_weigh)
{
    struct world w;
    struct sl_objective o;
    world_init(&w, SL_TASK_REGRESSION, 1);
    give_weights(&w, SL_CLASS_WEIGHTS_BALANCED);
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "regression"));
    world_fini(&w);
}

// ---- predictions --------------------------------------------------------------------------------

static float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

TEST(predictions_by_task)
{
    static const float outputs[] = {1, 3, 3, -1, -5, -2, 0, 0, 0, 9, 2, 4};
    uint32_t words[12];
    struct sl_objective o = {.task = SL_TASK_MULTICLASS, .n_outputs = 3};
    sl_objective_predict(&o, outputs, 4, words);
    ck_assert_uint_eq(words[0], 1); // the first of equals
    ck_assert_uint_eq(words[1], 0);
    ck_assert_uint_eq(words[2], 0);
    ck_assert_uint_eq(words[3], 0);
    o.n_outputs = 2;
    sl_objective_predict(&o, outputs, 6, words);
    ck_assert_float_eq(float_of(words[0]), 2);
    ck_assert_float_eq(float_of(words[1]), -4);
    ck_assert_float_eq(float_of(words[3]), 0);
    o.n_outputs = 1;
    sl_objective_predict(&o, outputs, 2, words);
    ck_assert_uint_eq(words[1], 0);
    for (enum sl_task task = SL_TASK_MULTILABEL; task <= SL_TASK_REGRESSION; task++) {
        o = (struct sl_objective){.task = task, .n_outputs = 3};
        sl_objective_predict(&o, outputs, 4, words);
        for (int i = 0; i < 12; i++)
            ck_assert_float_eq(float_of(words[i]), outputs[i]);
    }
}

// Wherever in a row a number is not finite, the row is of no class.
TEST(what_is_not_finite_is_of_no_class)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint32_t word;
    for (uint32_t n = 1; n <= 40; n++)
        for (uint32_t at = 0; at < n; at++)
            for (int i = 0; i < 3; i++) {
                const struct sl_objective o = {.task = SL_TASK_MULTICLASS, .n_outputs = n};
                float row[40] = {5, -3e38f};
                sl_objective_predict(&o, row, 1, &word);
                ck_assert_int_eq(sl_prediction_class(word, n), 0);
                row[at] = bad[i];
                sl_objective_predict(&o, row, 1, &word);
                ck_assert_int_eq(sl_prediction_class(word, n), SL_NO_CLASS);
                ck_assert(!sl_outputs_are_finite(row, n));
            }
    // Two that are finite, however far from one another, have a class.
    const struct sl_objective two = {.task = SL_TASK_MULTICLASS, .n_outputs = 2};
    sl_objective_predict(&two, (const float[]){-3e38f, 3e38f}, 1, &word);
    ck_assert_int_eq(sl_prediction_class(word, 2), 1);
}

// ---- losses -------------------------------------------------------------------------------------

static const struct {
    enum sl_task task;
    uint32_t outputs;
    bool weights;
} cases[] = {
    {SL_TASK_MULTICLASS, 4, false}, {SL_TASK_MULTICLASS, 4, true},  {SL_TASK_MULTICLASS, 2, true},
    {SL_TASK_MULTILABEL, 3, false}, {SL_TASK_MULTILABEL, 3, true},  {SL_TASK_MULTILABEL, 1, false},
    {SL_TASK_REGRESSION, 1, false}, {SL_TASK_REGRESSION, 3, false},
};

// Summed loss and weight of one vertex, naively.
static double loss_of(const struct world *w, uint32_t v, const double *x, double *weight)
{
    const struct sl_dataset *ds = &w->g.ds;
    const double *class_weight = w->config.loss.class_weight;
    bool weighted = w->config.loss.class_weights != SL_CLASS_WEIGHTS_NONE;
    uint32_t n = ds->n_classes;
    double loss = 0;
    if (ds->task == SL_TASK_MULTICLASS) {
        double sum = 0;
        int32_t label = ds->label[v];
        if (label < 0)
            return 0;
        for (uint32_t c = 0; c < n; c++)
            sum += exp(x[c] - x[label]);
        double by = weighted ? class_weight[label] : 1;
        *weight += by;
        return by * log(sum);
    }
    for (uint32_t c = 0; c < n; c++) {
        bool regression = ds->task == SL_TASK_REGRESSION;
        double y = regression ? (double)((const float *)ds->target)[v * n + c]
                              : (double)((const int8_t *)ds->target)[v * n + c];
        if (isnan(y) || (!regression && y < 0))
            continue;
        *weight += 1;
        if (regression)
            loss += (x[c] - y) * (x[c] - y);
        else
            loss += y > 0 ? (weighted ? class_weight[c] : 1) * log1p(exp(-x[c])) : log1p(exp(x[c]));
    }
    return loss;
}

static double loss_of_block(const struct world *w, const struct naive *n, const double *params,
                            double *weight)
{
    double *outputs = naive_forward(n, params), loss = 0;
    *weight = 0;
    for (uint32_t i = 0; i < n->block->n_seeds; i++)
        loss += loss_of(w, sl_block_nodes(n->block)[i], outputs + i * w->g.ds.n_classes, weight);
    free(outputs);
    return loss;
}

LOOP_TEST(gradients_through_a_whole_model, 0, SL_COUNT_OF(cases))
{
    static const uint32_t seeds[] = {5, 3, 0, 40, 13, 77, 4, 21, 60, 8, 9, 33};
    struct world w;
    struct sl_objective o;
    struct sl_model m;
    sl_kernels_set_threads(1);
    world_init(&w, cases[_i].task, cases[_i].outputs);
    if (cases[_i].weights)
        give_weights(&w, SL_CLASS_WEIGHTS_LIST);
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_OK);
    const struct sl_kernels *both[] = {sl_kernels_ref(), sl_kernels_cpu()};
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(
            sl_model_init(&m, &w.config, FEATURES, NULL, &o, sl_device_host(), both[k]), SL_OK);
        struct sl_block *b =
            fixture_block(&w.g.ds, seeds, SL_COUNT_OF(seeds), 2, w.config.sampler.fanout, 0, 0);
        ck_assert_uint_eq(b->n_targets, cases[_i].task == SL_TASK_MULTICLASS ? 0 : o.n_outputs);
        float *x = fixture_input(&w.g.ds, b), *params = fixture_params(&m, 3);
        float *gradient = fixture_alloc(m.n_params * sizeof *gradient);
        struct sl_loss_result result;
        ck_assert_int_eq(sl_model_train(&m, params, sl_block_here(b), x, gradient, &result), SL_OK);
        struct naive n = naive_make(&w.config, &w.g.ds, b, x, false);
        double *p = fixture_alloc(m.n_params * sizeof *p), weight;
        for (uint64_t i = 0; i < m.n_params; i++)
            p[i] = params[i];
        ck_assert_double_eq_tol(result.loss, loss_of_block(&w, &n, p, &weight), 1e-4);
        ck_assert_double_eq_tol(result.weight, weight, 1e-9);
        for (uint64_t i = 0; i < m.n_params; i++) {
            p[i] = params[i] + 1e-5;
            double up = loss_of_block(&w, &n, p, &weight);
            p[i] = params[i] - 1e-5;
            double g = (up - loss_of_block(&w, &n, p, &weight)) / 2e-5;
            p[i] = params[i];
            ck_assert_msg(fabs(g - gradient[i]) < 2e-4 * (1 + fabs(g)),
                          "parameter %llu: found %.7g, wanted %.7g", (unsigned long long)i,
                          (double)gradient[i], g);
        }
        free(p);
        free(gradient);
        free(params);
        free(x);
        free(b);
        sl_model_fini(&m);
    }
    sl_objective_fini(&o);
    world_fini(&w);
}

// By vertex ids, as layer-wise inference asks for it.
LOOP_TEST(losses_of_vertices_are_those_of_their_block, 0, SL_COUNT_OF(cases))
{
    struct world w;
    struct sl_objective o;
    struct sl_mempool pool;
    struct sl_loss_result of_ids, naive = {0};
    world_init(&w, cases[_i].task, cases[_i].outputs);
    if (cases[_i].weights)
        give_weights(&w, SL_CLASS_WEIGHTS_LIST);
    ck_assert_int_eq(sl_objective_init(&o, &w.config, &w.g.ds), SL_OK);
    sl_mempool_init(&pool);
    const struct sl_layer_env env = {
        .kernels = sl_kernels_ref(), .device = sl_device_host(), .pool = &pool, .notes = &pool};
    struct fixture_rng r = {.seed = 9};
    uint32_t ids[N];
    float *outputs = fixture_alloc((size_t)N * o.n_outputs * sizeof *outputs);
    for (uint32_t i = 0; i < N; i++)
        ids[i] = (i * 7 + 3) % N;
    for (uint32_t i = 0; i < N * o.n_outputs; i++)
        outputs[i] = fixture_float(&r, 4);
    ck_assert_int_eq(sl_objective_loss_of(&o, &env, &w.g.ds, ids, N, outputs, &of_ids), SL_OK);
    for (uint32_t i = 0; i < N; i++) {
        double row[4];
        for (uint32_t c = 0; c < o.n_outputs; c++)
            row[c] = outputs[i * o.n_outputs + c];
        naive.loss += loss_of(&w, ids[i], row, &naive.weight);
    }
    ck_assert_double_eq_tol(of_ids.loss, naive.loss, 1e-4 * naive.loss);
    ck_assert_double_eq_tol(of_ids.weight, naive.weight, 1e-9);
    free(outputs);
    sl_mempool_fini(&pool);
    sl_objective_fini(&o);
    world_fini(&w);
}

RUN_TESTS(.timeout_s = 60)
