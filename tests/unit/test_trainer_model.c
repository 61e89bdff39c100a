// Whole models with everything around their layers: the order of tensors, masks and statistics.
// Their gradients: test_trainer_golden and test_trainer_kinds.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/feed/gather.h"
#include "trainer/model/jumping.h"

enum { NODES = 40, FEATURES = 6, CLASSES = 4, HIDDEN = 6, SEEDS = 9 };

static const uint32_t SEED_IDS[SEEDS] = {7, 0, 13, 4, 22, 39, 5, 1, 30};

struct scene {
    struct fixture_graph g;
    struct sl_block *block;
    struct sl_model m;
    float *params, *gradient;
};

static struct sl_config config_of(int kind, uint32_t layers)
{
    struct sl_config c = fixture_config((enum sl_model_kind)kind, layers, HIDDEN);
    c.model.heads = 2;
    c.model.self_loops = true;
    return c;
}

static void scene_init(struct scene *s, const struct sl_config *c, uint32_t n_seeds,
                       const struct sl_kernels *kernels)
{
    static const int64_t fanout[] = {4, 3, 2};
    *s = (struct scene){.g = fixture_graph(NODES, FEATURES, CLASSES, 5)};
    s->block = fixture_block(&s->g.ds, SEED_IDS, n_seeds, c->model.layers, fanout, 3, 17);
    ck_assert_msg(fixture_model(&s->m, c, FEATURES, CLASSES, kernels) == SL_OK, "%s",
                  sl_error_message());
    s->params = fixture_params(&s->m, 11);
    s->gradient = fixture_alloc(s->m.n_params * sizeof *s->gradient);
}

static void scene_free(struct scene *s)
{
    sl_model_fini(&s->m);
    free(s->params);
    free(s->gradient);
    free(s->block);
    fixture_graph_free(&s->g);
}

static void train(struct scene *s, float *gradient, struct sl_loss_result *result)
{
    float *x = fixture_input(&s->g.ds, s->block);
    ck_assert_msg(sl_model_train(&s->m, s->params, sl_block_here(s->block), x, gradient, result) ==
                      SL_OK,
                  "%s", sl_error_message());
    free(x);
}

// Where a running statistic belongs the gradient holds the batch's own, however often it is asked.
TEST(statistics_do_not_add_up)
{
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++) {
        struct sl_config c = config_of(kind, 2);
        c.model.norm = SL_NORM_BATCH;
        struct scene s;
        struct sl_loss_result result;
        scene_init(&s, &c, SEEDS, sl_kernels_ref());
        train(&s, s.gradient, &result);
        float *again = fixture_alloc(s.m.n_params * sizeof *again);
        for (uint64_t i = 0; i < s.m.n_params; i++)
            again[i] = 1e6f; // what the batch before left
        train(&s, again, &result);
        ck_assert_mem_eq(again, s.gradient, s.m.n_params * sizeof *again);
        for (uint32_t t = 0; t < s.m.n_tensors; t++)
            for (uint64_t i = 0;
                 strstr(s.m.tensor[t].name, "running_var") && i < s.m.tensor[t].shape[0]; i++)
                ck_assert_float_ge(s.gradient[s.m.tensor[t].offset + i], 0);
        free(again);
        scene_free(&s);
    }
}

// A last batch of one seed must train: the layer next to it has one row.
TEST(one_seed_trains_under_every_norm)
{
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++)
        for (int norm = SL_NORM_NONE; norm <= SL_NORM_LAYER; norm++) {
            struct sl_config c = config_of(kind, 2);
            c.model.norm = (enum sl_norm_kind)norm;
            c.model.jumping = SL_JUMPING_CAT;
            struct scene s;
            struct sl_loss_result result;
            scene_init(&s, &c, 1, sl_kernels_cpu());
            train(&s, s.gradient, &result);
            ck_assert_uint_eq(result.counted, 1);
            for (uint64_t i = 0; i < s.m.n_params; i++)
                ck_assert(isfinite(s.gradient[i]));
            scene_free(&s);
        }
}

// What golden files do not say of tensors: whose layer they are, and how wide the last one is.
TEST(tensors_know_their_layer)
{
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 2);
    c.model.norm = SL_NORM_BATCH;
    c.model.jumping = SL_JUMPING_CAT;
    struct sl_model m;
    ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_ref()), SL_OK);
    for (uint32_t t = 0; t < m.n_tensors; t++) {
        const char *dot = strchr(m.tensor[t].name, '.'); // convs.0.lin_l.weight, lin.weight
        const bool has = dot[1] == '0' || dot[1] == '1';
        ck_assert_uint_eq(m.tensor[t].layer, has ? (uint32_t)(dot[1] - '0') : SL_TENSOR_NO_LAYER);
    }
    ck_assert_uint_eq(sl_model_infer_width(&m), HIDDEN);
    sl_model_fini(&m);
    // Without jumping knowledge the last layer has no norm and is as wide as the outputs.
    c.model.jumping = SL_JUMPING_NONE;
    ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_ref()), SL_OK);
    ck_assert_uint_eq(m.n_tensors, 11);
    ck_assert_uint_eq(m.layer[1].d_out, CLASSES);
    ck_assert(m.layer[1].last && !m.layer[0].last);
    sl_model_fini(&m);
}

TEST(jumping_widths_and_tensors)
{
    struct sl_jumping j = {.kind = SL_JUMPING_CAT, .n_layers = 3, .hidden = 16, .n_outputs = 5};
    struct sl_tensor t[SL_JUMPING_TENSORS];
    ck_assert_uint_eq(sl_jumping_describe(&j, t), 2);
    ck_assert_str_eq(t[0].name, "lin.weight");
    ck_assert_uint_eq(t[0].shape[0], 5);
    ck_assert_uint_eq(t[0].shape[1], 48);
    ck_assert_float_eq_tol(t[0].init_bound, 1 / sqrtf(48), 1e-7f);
    ck_assert_str_eq(t[1].name, "lin.bias");
    ck_assert_uint_eq(t[1].rank, 1);
    ck_assert_uint_eq(t[1].shape[0], 5);
    ck_assert_float_eq_tol(t[1].init_bound, 1 / sqrtf(48), 1e-7f);
    ck_assert_uint_eq(sl_jumping_width(&j), 10);
    j.n_layers = 2;
    ck_assert_uint_eq(sl_jumping_width(&j), 5);
    j.n_layers = 1;
    ck_assert_uint_eq(sl_jumping_width(&j), 0);
    j.n_layers = 3;
    j.kind = SL_JUMPING_MAX;
    ck_assert_uint_eq(sl_jumping_width(&j), 16);
    j.kind = SL_JUMPING_LAST;
    ck_assert_uint_eq(sl_jumping_width(&j), 0);
    ck_assert_uint_eq(sl_jumping_describe(&j, t), 2);
    ck_assert_uint_eq(t[0].shape[1], 16);
    j.kind = SL_JUMPING_NONE;
    ck_assert_uint_eq(sl_jumping_width(&j), 0);
    ck_assert_uint_eq(sl_jumping_describe(&j, t), 0);
}

// The largest model of every kind has room for its tensors.
TEST(deepest_models_fit)
{
    for (int kind = SL_MODEL_GRAPHSAGE; kind <= SL_MODEL_PINSAGE; kind++) {
        struct sl_config c = config_of(kind, SL_CONFIG_MAX_LAYERS);
        c.model.norm = SL_NORM_BATCH;
        c.model.jumping = SL_JUMPING_CAT;
        c.model.residual = true;
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, &c, FEATURES, CLASSES, sl_kernels_ref()), SL_OK);
        ck_assert_uint_le(m.n_tensors, SL_CONFIG_MAX_LAYERS * (SL_LAYER_TENSORS + SL_NORM_TENSORS) +
                                           SL_JUMPING_TENSORS + SL_DECODER_TENSORS);
        for (uint32_t t = 0; t < m.n_tensors; t++)
            for (uint32_t u = 0; u < t; u++)
                ck_assert_str_ne(m.tensor[t].name, m.tensor[u].name);
        sl_model_fini(&m);
    }
}

TEST(blocks_of_another_task_are_refused)
{
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 2);
    struct scene s;
    scene_init(&s, &c, SEEDS, sl_kernels_ref());
    ck_assert_int_eq(sl_block_check_shape(s.block, s.block->bytes, sl_model_block_shape(&s.m)),
                     SL_OK);
    s.block->n_targets = CLASSES;
    ck_assert_int_eq(sl_block_check_shape(s.block, s.block->bytes, sl_model_block_shape(&s.m)),
                     SL_EPROTO);
    scene_free(&s);
}

// The block's rows as a trainer on cores brings them, and the gradient that they give.
static float *gathered_step(struct scene *s, const struct sl_kernels *kernels, bool near)
{
    const struct sl_compute compute = {sl_device_host(), kernels, kernels};
    struct sl_gather gather;
    struct sl_batch_buffer buffer = {0};
    struct sl_gathered gathered;
    struct sl_loss_result result;
    float *gradient = fixture_alloc(s->m.n_params * sizeof *gradient);
    sl_gather_init(&gather, &compute, &s->g.ds, SL_GATHER_FASTER);
    gather.near_rows = near;
    gather.half = near && s->m.half;
    ck_assert_int_eq(sl_gather_block(&gather, NULL, s->block, NULL, &buffer, &gathered), SL_OK);
    const uint64_t rows = near ? s->block->n_nodes[s->block->n_hops - 1] : s->block->n_input;
    ck_assert_uint_eq(gathered.x_bytes, gather.half ? rows * sl_layer_pitch(FEATURES) * 2
                                                    : rows * FEATURES * sizeof(float));
    ck_assert_uint_eq(gathered.miss_bytes,
                      s->block->n_input * s->g.ds.feat_dim * sl_dtype_bytes(s->g.ds.feat_dtype));
    ck_assert_msg(sl_model_train(&s->m, s->params, sl_block_here(s->block), buffer.x, gradient,
                                 &result) == SL_OK,
                  "%s", sl_error_message());
    sl_batch_buffer_fini(&buffer);
    sl_gather_fini(&gather);
    return gradient;
}

// Rows that sums alone read are read where they lie, to the same bits; the others are copied, as
// bf16 where products would round them.
LOOP_TEST(a_first_layer_reads_the_table, 0, 8)
{
    const struct sl_kernels *kernels = _i % 2 ? sl_kernels_cpu() : sl_kernels_ref();
    for (int aggregator = SL_AGGREGATOR_MEAN; aggregator <= SL_AGGREGATOR_GCN; aggregator++) {
        struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 3);
        struct scene s;
        c.model.aggregator = (enum sl_aggregator)aggregator;
        c.precision = _i / 4 ? SL_CONFIG_BF16 : SL_CONFIG_FP32;
        scene_init(&s, &c, SEEDS, kernels);
        void *half = _i / 2 % 2 ? fixture_halve(&s.g, FEATURES) : NULL;
        ck_assert_uint_lt(s.block->n_nodes[2], s.block->n_input);
        float *wanted = gathered_step(&s, kernels, false);
        ck_assert(sl_model_take_table(&s.m, &s.g.ds));
        ck_assert_int_eq(s.m.half, _i / 4);
        float *found = gathered_step(&s, kernels, true);
        ck_assert_mem_eq(found, wanted, s.m.n_params * sizeof *found);
        free(found);
        free(wanted);
        // A vertex that the table has not.
        s.m.table.n_rows = s.block->n_input / 2;
        float *x = fixture_alloc(s.block->n_input * FEATURES * sizeof *x);
        struct sl_loss_result result;
        ck_assert_int_eq(
            sl_model_train(&s.m, s.params, sl_block_here(s.block), x, s.gradient, &result),
            SL_ERANGE);
        free(x);
        free(half);
        scene_free(&s);
    }
}

// Where something else reads the rows of sources, or changes them, they are copied.
TEST(who_reads_the_table)
{
    static const struct {
        enum sl_model_kind kind;
        uint32_t hidden;
        double input_dropout;
        bool reads;
    } cases[] = {
        {SL_MODEL_GRAPHSAGE, FEATURES, 0, true},    {SL_MODEL_GRAPHSAGE, FEATURES - 2, 0, false},
        {SL_MODEL_GRAPHSAGE, FEATURES, 0.1, false}, {SL_MODEL_GCN, FEATURES, 0, false},
        {SL_MODEL_GAT, FEATURES, 0, false},         {SL_MODEL_PINSAGE, FEATURES, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sl_config c = config_of(cases[i].kind, 2);
        struct scene s;
        c.model.hidden = cases[i].hidden;
        c.model.input_dropout = cases[i].input_dropout;
        scene_init(&s, &c, SEEDS, sl_kernels_ref());
        ck_assert_msg(sl_model_take_table(&s.m, &s.g.ds) == cases[i].reads, "case %zu", i);
        scene_free(&s);
    }
}

RUN_TESTS(.timeout_s = 60)
