// bf16 on a GPU: what is rounded when it is written, against what products round when they read it.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_cuda_scene.h"

#include "trainer/model/parameters.h"

static struct sl_config config_of_bf16(int kind, int variant)
{
    struct sl_config c = config_of(kind, variant);
    c.model.input_dropout = 0;
    c.precision = SL_CONFIG_BF16;
    return c;
}

static float *random_input(const struct sl_block *b)
{
    const size_t n = (size_t)b->n_input * FEATURES;
    float *x = fixture_alloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i * 40503u % 1000) / 500 - 1;
    return x;
}

// What is rounded once a version is what each product would have rounded.
LOOP_TEST(rounded_weights_change_no_bit, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of_bf16(_i, v);
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b = some_block(&s, c.model.layers, SEEDS);
        const size_t n = (size_t)b->n_input * FEATURES, all = s.far.n_params + SEEDS * CLASSES;
        float *x = random_input(b);
        float *wanted = step_on(&s, b, x, n * sizeof *x);
        assert_ok(sl_rounded_weights_take(&s.far.rounded, s.far_params));
        ck_assert_ptr_eq(s.far.rounded.params, s.far_params);
        float *found = step_on(&s, b, x, n * sizeof *x);
        ck_assert_mem_eq(found, wanted, all * sizeof *wanted);
        // They are what is read: without them nothing is learned of the weights.
        if (v == 0) {
            assert_ok(gpu->fill(s.far.rounded.copy, 0, s.far.rounded.n_words * sizeof(uint16_t)));
            float *zeros = step_on(&s, b, x, n * sizeof *x);
            ck_assert_mem_ne(zeros, wanted, all * sizeof *wanted);
            free(zeros);
        }
        free(found);
        free(wanted);
        free(x);
        free(b);
        scene_fini(&s);
    }
}

// A job whose hidden rows are rounded: whole 16 bytes, or not even whole groups of four; every kind
// with its options, and each jumping knowledge.
static struct sl_config config_of_rounded(int kind, int variant)
{
    static const uint32_t widths[] = {8, 10, 12};
    struct sl_config c = config_of_bf16(kind, variant);
    c.model.hidden = widths[variant % 3];
    c.model.layers = 3;
    c.model.heads = 2;
    return c;
}

// Cores round what does not stay in f32 beside.
static bool may_round(const struct sl_model *model)
{
    const bool both = model->around[0].keeps || model->options.norm != SL_NORM_NONE;
    return !(both && model->env.device->is_host);
}

static void round_hidden(struct sl_model *model, bool rounds)
{
    for (uint32_t l = 0; l < model->n_layers; l++)
        model->around[l].rounds = rounds && !model->layer[l].last && may_round(model);
}

// Whether rounded rows are added up, or compared, before a product reads them.
static bool sums_rounded(int kind, const struct sl_config *c, int order)
{
    const bool linear = kind == SL_MODEL_GRAPHSAGE || kind == SL_MODEL_GCN || kind == SL_MODEL_GIN;
    if (kind == SL_MODEL_GRAPHSAGE && c->model.aggregator == SL_AGGREGATOR_MAX)
        return true;
    return linear && order != SL_LAYER_TRANSFORM_FIRST;
}

// Steps with hidden rows of f32 and with rounded ones; how many numbers are different.
static uint32_t compare_steps(struct scene *s, const struct sl_config *c, struct sl_block *b,
                              const float *x, int order)
{
    const size_t x_bytes = (size_t)b->n_input * FEATURES * sizeof(float);
    const size_t all = s->far.n_params + SEEDS * CLASSES;
    uint32_t different = 0;
    for (uint32_t l = 0; l < s->far.n_layers; l++)
        s->far.layer[l].order = (enum sl_layer_order)order;
    round_hidden(&s->far, false);
    float *wanted = step_on(s, b, x, x_bytes);
    round_hidden(&s->far, true);
    float *found = step_on(s, b, x, x_bytes);
    if (order == SL_LAYER_AUTO) {
        float *again = step_on(s, b, x, x_bytes);
        ck_assert_mem_eq(again, found, all * sizeof *found);
        free(again);
    }
    for (size_t i = 0; i < all; i++)
        different += found[i] != wanted[i];
    free(found);
    free(wanted);
    return different;
}

// Where products alone read a hidden row it does not matter when it is rounded, and whoever else
// reads f32 finds it; where rounded rows are added up first it does.
LOOP_TEST(rounded_activations_are_those_that_products_see, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    open_gpu();
    uint32_t different = 0, same = 0;
    bool sums = false;
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of_rounded(_i, v);
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b = some_block(&s, c.model.layers, SEEDS);
        float *x = random_input(b);
        for (uint32_t l = 0; l < s.far.n_layers; l++) {
            ck_assert_int_eq(s.far.around[l].rounds, !s.far.layer[l].last);
            ck_assert_int_eq(s.cpu.around[l].rounds, s.far.around[l].rounds && may_round(&s.cpu));
        }
        for (int order = SL_LAYER_AUTO; order <= SL_LAYER_TRANSFORM_FIRST; order++) {
            const uint32_t n = compare_steps(&s, &c, b, x, order);
            sums |= sums_rounded(_i, &c, order);
            // The slope of elu is taken from the output itself.
            if (sums_rounded(_i, &c, order) || c.model.activation == SL_CONFIG_ELU) {
                different += n;
            } else {
                ck_assert_msg(n == 0, "variant %d, order %d: %u numbers", v, order, n);
                same++;
            }
        }
        free(x);
        free(b);
        scene_fini(&s);
    }
    ck_assert_uint_gt(same, 0);
    ck_assert(!sums || different > 0);
}

// How far a gradient is from another one, of its length.
static double distance(const struct scene *s, const float *found, const float *wanted)
{
    double off = 0, length = 0;
    for (uint64_t i = 0; i < s->cpu.n_params; i++) {
        off += pow((double)found[i] - (double)wanted[i], 2);
        length += pow((double)wanted[i], 2);
    }
    return sqrt(off / length);
}

static float *gradient_on_cores(struct scene *s, struct sl_block *b, float *x,
                                enum sl_precision precision, bool rounds)
{
    float *gradient = fixture_alloc(s->cpu.n_params * sizeof *gradient);
    struct sl_loss_result ignored;
    s->cpu.env.precision = precision;
    round_hidden(&s->cpu, rounds);
    assert_ok(sl_model_train(&s->cpu, s->params, sl_block_here(b), x, gradient, &ignored));
    return gradient;
}

// A step in bf16 whose hidden rows are f32 is that of cores, which round in each product. With
// rounded ones its gradient is about as far from that of f32 as theirs is.
static void compare_gradients(const struct sl_config *c)
{
    struct scene s;
    scene_init(&s, c, false);
    assert_ok(sl_rounded_weights_take(&s.far.rounded, s.far_params));
    struct sl_block *b = some_block(&s, c->model.layers, SEEDS);
    if (sl_config_is_links(c))
        b = fixture_pair(b, 7, c->task.per_positive, 3);
    const size_t x_bytes = (size_t)b->n_input * FEATURES * sizeof(float);
    float *x = random_input(b), *rounded = step_on(&s, b, x, x_bytes);
    round_hidden(&s.far, false);
    float *found = step_on(&s, b, x, x_bytes);
    float *wanted = gradient_on_cores(&s, b, x, SL_PRECISION_BF16, false);
    float *exact = gradient_on_cores(&s, b, x, SL_PRECISION_F32, false);
    float *alike = gradient_on_cores(&s, b, x, SL_PRECISION_BF16, true);
    const double far = distance(&s, wanted, exact);
    // Sums in another order, of which a few are rounded to the other neighbour.
    ck_assert_double_le(distance(&s, found, wanted), far / 20);
    ck_assert_double_le(distance(&s, rounded, exact), 0.01 + 2 * far);
    ck_assert_double_le(distance(&s, alike, exact), 0.01 + 2 * far);
    if (may_round(&s.cpu)) // else cores have no rounded ones
        ck_assert_double_le(distance(&s, rounded, alike), far / 5);
    free(alike);
    free(exact);
    free(wanted);
    free(found);
    free(rounded);
    free(x);
    free(b);
    scene_fini(&s);
}

LOOP_TEST(bf16_gradients_are_as_good_as_those_of_cpu_cores, SL_MODEL_GRAPHSAGE,
          SL_MODEL_PINSAGE + 1)
{
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        const struct sl_config c = config_of_rounded(_i, v);
        compare_gradients(&c);
    }
}

LOOP_TEST(bf16_gradients_of_links_are_as_good, SL_DECODER_DOT, SL_DECODER_MLP + 1)
{
    open_gpu();
    struct sl_config c = config_of_rounded(SL_MODEL_GRAPHSAGE, 2);
    fixture_link(&c, CLASSES, (enum sl_decoder_kind)_i, SL_COMBINE_CONCAT, SL_PAIR_LOSS_BCE);
    compare_gradients(&c);
}

// Rows of f32 are left beside the rounded ones for those that read them, and for nobody else; what
// computes in another precision rounds none.
TEST(who_reads_f32_gets_f32)
{
    static const struct {
        enum sl_model_kind kind;
        enum sl_jumping_kind jumping;
        enum sl_aggregator aggregator;
        bool train_eps, keeps;
    } cases[] = {
        {SL_MODEL_GRAPHSAGE, SL_JUMPING_NONE, SL_AGGREGATOR_MEAN, false, false},
        {SL_MODEL_GRAPHSAGE, SL_JUMPING_NONE, SL_AGGREGATOR_MAX, false, false},
        {SL_MODEL_GRAPHSAGE, SL_JUMPING_CAT, SL_AGGREGATOR_MEAN, false, false},
        {SL_MODEL_GRAPHSAGE, SL_JUMPING_MAX, SL_AGGREGATOR_MEAN, false, true},
        {SL_MODEL_GCN, SL_JUMPING_LAST, SL_AGGREGATOR_MEAN, false, false},
        {SL_MODEL_GIN, SL_JUMPING_NONE, SL_AGGREGATOR_MEAN, false, false},
        {SL_MODEL_GIN, SL_JUMPING_NONE, SL_AGGREGATOR_MEAN, true, true},
        {SL_MODEL_GAT, SL_JUMPING_NONE, SL_AGGREGATOR_MEAN, false, true},
        {SL_MODEL_GATV2, SL_JUMPING_NONE, SL_AGGREGATOR_MEAN, false, false},
        {SL_MODEL_PINSAGE, SL_JUMPING_NONE, SL_AGGREGATOR_MEAN, false, false},
    };
    open_gpu();
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        struct sl_config c = config_of_rounded(cases[i].kind, 0);
        c.model.jumping = cases[i].jumping;
        c.model.aggregator = cases[i].aggregator;
        c.model.train_eps = cases[i].train_eps;
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b = some_block(&s, c.model.layers, SEEDS);
        float *x = random_input(b);
        free(step_on(&s, b, x, (size_t)b->n_input * FEATURES * sizeof *x));
        const struct sl_layer_tail_tape *first = &s.far.around_tape[0];
        ck_assert_msg(first->rounded && !first->y == !cases[i].keeps, "case %zu", i);
        free(x);
        free(b);
        scene_fini(&s);
        c.precision = SL_CONFIG_TF32;
        scene_init(&s, &c, false);
        ck_assert(!s.far.around[0].rounds);
        scene_fini(&s);
    }
}

// Those of the device are those of the board's version, each matrix's row padded.
static bool are_rounded(const struct scene *s, const float *board)
{
    const struct sl_rounded_weights *w = &s->far.rounded;
    uint16_t *copy = gpu_get(gpu, w->copy, w->n_words * sizeof *copy);
    bool same = true;
    for (uint32_t t = 0; t < s->far.n_tensors; t++) {
        const struct sl_tensor *of = &s->far.tensor[t];
        const float *begin = s->far_params + of->offset;
        const struct sl_rounded_operand there = sl_rounded_weights_find(w, begin, of->shape[1]);
        ck_assert_int_eq(there.bf16, of->rank == 2);
        if (!there.bf16)
            continue;
        ck_assert_uint_eq(there.ld % 8, 0);
        uint16_t *row = fixture_alloc(of->shape[1] * sizeof *row);
        for (uint64_t r = 0; r < of->shape[0]; r++) {
            const float *from = board + of->offset + r * of->shape[1];
            assert_ok(sl_kernels_ref()->bias_act_bf16(from, 1, (uint32_t)of->shape[1], NULL,
                                                      SL_ACT_NONE, NULL, NULL, row, of->shape[1]));
            const uint16_t *at = copy + ((const uint16_t *)there.p - w->copy) + r * there.ld;
            same &= memcmp(at, row, of->shape[1] * sizeof *row) == 0;
        }
        // A part of it is found, too: a column of the last row.
        const uint64_t last = of->shape[0] - 1;
        const struct sl_rounded_operand part = sl_rounded_weights_find(
            w, begin + last * of->shape[1] + of->shape[1] - 1, of->shape[1]);
        ck_assert_ptr_eq(part.p, (const uint16_t *)there.p + last * there.ld + of->shape[1] - 1);
        free(row);
    }
    free(copy);
    return same;
}

TEST(weights_are_rounded_once_a_version)
{
    open_gpu();
    struct sl_config c = config_of_bf16(SL_MODEL_GRAPHSAGE, 0);
    struct scene s;
    struct sl_parameters p;
    scene_init(&s, &c, false);
    gpu_free(gpu, s.far_params, s.far.n_params * sizeof(float));
    assert_ok(sl_parameters_init(&p, gpu, s.far.n_params, &s.far.rounded, false));
    const float *at;
    assert_ok(sl_parameters_take(&p, SL_PARAMETERS_VERSION, 0, s.params, &at));
    s.far_params = (float *)at;
    ck_assert(are_rounded(&s, s.params));
    const size_t bytes = s.far.rounded.n_words * sizeof(uint16_t);
    assert_ok(gpu->fill(s.far.rounded.copy, 0, bytes));
    assert_ok(sl_parameters_take(&p, SL_PARAMETERS_VERSION, 0, s.params, &at));
    ck_assert(!are_rounded(&s, s.params)); // nothing was done for the version that is there
    s.params[3] += 1;
    assert_ok(sl_parameters_take(&p, SL_PARAMETERS_VERSION, 1, s.params, &at));
    ck_assert(are_rounded(&s, s.params));
    sl_parameters_fini(&p); // and with the parameters their copies are nobody's
    ck_assert_ptr_null(s.far.rounded.params);
    ck_assert(!sl_rounded_weights_find(&s.far.rounded, at, FEATURES).bf16);
    // Cores round while they multiply.
    assert_ok(sl_rounded_weights_take(&s.cpu.rounded, s.params));
    ck_assert_ptr_null(s.cpu.rounded.params);
    s.far_params = gpu_put(gpu, s.params, s.far.n_params * sizeof(float));
    scene_fini(&s);
}

RUN_TESTS(.timeout_s = 240, ON_A_GPU)
