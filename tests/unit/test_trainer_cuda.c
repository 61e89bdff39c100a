// Models on a GPU against the same models on CPU cores: training, evaluation, layer-wise inference.
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/trainer_fixture.h"

#include "common/base/half.h"
#include "common/base/memory.h"
#include "common/data/self_loops.h"
#include "trainer/evaluate.h"
#include "trainer/parameters.h"

enum { NODES = 60, FEATURES = 6, CLASSES = 4, HIDDEN = 6, SEEDS = 9 };

static const int64_t FANOUT[] = {3, 4, 2};

static const struct sl_device *gpu;
static const struct sl_kernels *on_gpu;

static void open_gpu(void)
{
    const struct sl_plugin *plugin = gpu_open(0);
    gpu = plugin->device;
    on_gpu = plugin->kernels;
}

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

// Sums of some dozens of products, in other orders.
static void assert_close(const char *what, const float *found, const float *wanted, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(found[i] - wanted[i]) <= 2e-4f * (1 + fabsf(wanted[i])),
                      "%s[%llu] of %llu: found %.7g, wanted %.7g", what, (unsigned long long)i,
                      (unsigned long long)n, (double)found[i], (double)wanted[i]);
}

// ---- a job on both ------------------------------------------------------------------------------

struct scene {
    struct fixture_graph g;
    struct sl_self_loops loops;
    struct sl_objective objective;
    struct sl_neighbours walks[2]; // of each model
    struct sl_model cpu, far;
    float *params, *far_params; // (n_params)
};

static void scene_init(struct scene *s, const struct sl_config *c, bool class_weights)
{
    *s = (struct scene){.g = fixture_graph(NODES, FEATURES, CLASSES, 17)};
    fixture_add_loops(&s->g);
    s->objective = (struct sl_objective){.task = SL_TASK_MULTICLASS, .n_outputs = CLASSES};
    if (class_weights) {
        s->objective.class_weight = fixture_alloc(CLASSES * sizeof(float));
        for (uint32_t k = 0; k < CLASSES; k++)
            s->objective.class_weight[k] = 0.5f + (float)k;
    }
    assert_ok(
        sl_model_init(&s->cpu, c, FEATURES, &s->objective, sl_device_host(), sl_kernels_cpu()));
    assert_ok(sl_model_init(&s->far, c, FEATURES, &s->objective, gpu, on_gpu));
    if (sl_model_needs_self_loops(&s->cpu)) {
        assert_ok(sl_self_loops_find(&s->g.ds, 1, &s->loops));
        if (sl_model_needs_out_degrees(&s->cpu))
            assert_ok(sl_self_loops_count_out(&s->loops, 1));
        s->cpu.self_loops = s->far.self_loops = &s->loops;
    }
    for (int k = 0; sl_neighbours_walks(c) && k < 2; k++) {
        assert_ok(sl_neighbours_init(&s->walks[k], c, &s->g.ds, sl_kernels_cpu()));
        *(k ? &s->far.neighbours : &s->cpu.neighbours) = &s->walks[k];
    }
    s->params = fixture_params(&s->cpu, 5);
    s->far_params = gpu_put(gpu, s->params, s->cpu.n_params * sizeof(float));
}

static void scene_fini(struct scene *s)
{
    gpu_free(gpu, s->far_params, s->cpu.n_params * sizeof(float));
    free(s->params);
    sl_neighbours_fini(&s->walks[0]);
    sl_neighbours_fini(&s->walks[1]);
    sl_model_fini(&s->cpu);
    sl_model_fini(&s->far);
    free(s->objective.class_weight);
    sl_self_loops_free(&s->loops);
    fixture_graph_free(&s->g);
}

// ---- training -----------------------------------------------------------------------------------

// One step, or with `training` off one evaluation, on both.
static void compare_step(struct scene *s, struct sl_block *b, bool training)
{
    const size_t x_bytes = (size_t)b->n_input * FEATURES * sizeof(float);
    const size_t g_bytes = s->cpu.n_params * sizeof(float);
    float *x = fixture_input(&s->g.ds, b), *wanted = fixture_alloc(g_bytes);
    float *far_x = gpu_put(gpu, x, x_bytes), *far_gradient = gpu_put(gpu, wanted, g_bytes);
    char *base = gpu_put(gpu, b, b->bytes);
    const struct sl_block_view here = sl_block_here(b), there = {.header = b, .base = base};
    struct sl_loss_result want, found;
    if (training) {
        assert_ok(sl_model_train(&s->cpu, s->params, here, x, wanted, &want));
        assert_ok(sl_model_train(&s->far, s->far_params, there, far_x, far_gradient, &found));
        float *gradient = gpu_get(gpu, far_gradient, g_bytes);
        for (uint32_t t = 0; t < s->cpu.n_tensors; t++)
            assert_close(s->cpu.tensor[t].name, gradient + s->cpu.tensor[t].offset,
                         wanted + s->cpu.tensor[t].offset, sl_tensor_count(&s->cpu.tensor[t]));
        free(gradient);
    } else {
        const float *outputs, *far_outputs;
        assert_ok(sl_model_evaluate(&s->cpu, s->params, here, x, &want, &outputs));
        assert_ok(sl_model_evaluate(&s->far, s->far_params, there, far_x, &found, &far_outputs));
        float *rows = gpu_get(gpu, far_outputs, b->n_seeds * CLASSES * sizeof(float));
        assert_close("outputs", rows, outputs, b->n_seeds * CLASSES);
        free(rows);
    }
    ck_assert_uint_eq(found.counted, want.counted);
    ck_assert_double_eq_tol(found.weight, want.weight, 1e-6 * (1 + want.weight));
    ck_assert_double_eq_tol(found.loss, want.loss, 2e-4 * (1 + fabs(want.loss)));
    gpu_free(gpu, far_x, x_bytes);
    gpu_free(gpu, far_gradient, g_bytes);
    gpu_free(gpu, base, b->bytes);
    free(x);
    free(wanted);
}

// Every kind has its own options; norms, jumping knowledge, activations and dropout go around.
static struct sl_config config_of(int kind, int variant)
{
    struct sl_config c =
        fixture_config((enum sl_model_kind)kind, 1 + (uint32_t)variant % 3, HIDDEN);
    c.model.norm = (enum sl_norm_kind)(variant % 3);
    c.model.jumping = (enum sl_jumping_kind)(variant / 2 % 4);
    c.model.activation = (enum sl_activation_kind)(variant / 3 % 3);
    c.model.aggregator = (enum sl_aggregator)(variant / 2 % 3);
    c.model.self_loops = variant % 4 != 1;
    c.model.degrees = variant % 4 == 2 ? SL_DEGREES_BLOCK : SL_DEGREES_GRAPH;
    c.model.heads = variant % 2 ? 3 : 2;
    c.model.residual = variant % 3 == 1;
    c.model.eps = 0.3;
    c.model.train_eps = variant % 2 == 0;
    if (variant % 2) {
        c.model.dropout = 0.4;
        c.model.attention_dropout = 0.3;
        c.model.input_dropout = 0.2;
    }
    return c;
}

enum { VARIANTS = 8 };

static void step_of(const struct sl_config *c, uint32_t n_seeds, bool weighted, bool class_weights)
{
    struct scene s;
    uint32_t seeds[SEEDS];
    scene_init(&s, c, class_weights);
    for (uint32_t i = 0; i < n_seeds; i++)
        seeds[i] = (i * 13 + 4) % NODES;
    struct sl_block *b =
        fixture_block(&s.g.ds, seeds, n_seeds, c->model.layers, FANOUT, 2, n_seeds);
    if (weighted)
        b = fixture_weigh(b, 5, 8);
    compare_step(&s, b, true);
    compare_step(&s, b, false);
    compare_step(&s, b, true); // pools have their size now
    free(b);
    scene_fini(&s);
}

START_TEST(steps_are_those_of_cpu_cores)
{
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(_i, v);
        step_of(&c, SEEDS, v & 1, v & 2);
    }
    // A single seed, whose batch norm has no statistics of its own.
    struct sl_config c = config_of(_i, 1);
    c.model.norm = SL_NORM_BATCH;
    step_of(&c, 1, false, false);
}
END_TEST

// ---- features of f16 ----------------------------------------------------------------------------

// A step and an evaluation on the GPU: gradient (n_params), then outputs (n_seeds, CLASSES).
static float *step_on(struct scene *s, struct sl_block *b, const void *x, size_t x_bytes)
{
    const size_t n_params = s->far.n_params, n_outputs = (size_t)b->n_seeds * CLASSES;
    float *all = fixture_alloc((n_params + n_outputs) * sizeof *all);
    char *base = gpu_put(gpu, b, b->bytes);
    const struct sl_block_view there = {.header = b, .base = base};
    void *far_x = gpu_put(gpu, x, x_bytes);
    float *gradient = gpu_put(gpu, all, n_params * sizeof *all);
    const float *outputs;
    struct sl_loss_result ignored;
    assert_ok(sl_model_train(&s->far, s->far_params, there, far_x, gradient, &ignored));
    assert_ok(gpu->copy(all, gradient, n_params * sizeof *all));
    assert_ok(sl_model_evaluate(&s->far, s->far_params, there, far_x, &ignored, &outputs));
    assert_ok(gpu->copy(all + n_params, outputs, n_outputs * sizeof *all));
    assert_ok(gpu->sync());
    gpu_free(gpu, far_x, x_bytes);
    gpu_free(gpu, gradient, n_params * sizeof *all);
    gpu_free(gpu, base, b->bytes);
    return all;
}

// Whatever the first layer does with them, in either order of its operations.
START_TEST(halves_have_the_bits_of_what_was_widened)
{
    static const enum sl_model_kind reads[] = {SL_MODEL_GRAPHSAGE, SL_MODEL_GCN, SL_MODEL_GIN};
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(_i, v);
        c.model.input_dropout = 0;
        struct scene s;
        uint32_t seeds[SEEDS];
        scene_init(&s, &c, false);
        for (uint32_t i = 0; i < SEEDS; i++)
            seeds[i] = (i * 13 + 4) % NODES;
        struct sl_block *b = fixture_block(&s.g.ds, seeds, SEEDS, c.model.layers, FANOUT, 2, 1);
        const size_t n = (size_t)b->n_input * FEATURES;
        uint16_t *half = fixture_alloc(n * sizeof *half);
        float *wide = fixture_alloc(n * sizeof *wide);
        for (size_t i = 0; i < n; i++) {
            half[i] = (uint16_t)((i * 40503u & 0x83ff) | (12 + i % 4) << 10); // some 0.1 to 2
            wide[i] = sl_half_to_float(half[i]);
        }
        struct sl_dataset ds = s.g.ds;
        ds.feat_dtype = SL_DTYPE_F16;
        bool can = false;
        for (size_t k = 0; k < SL_COUNT_OF(reads); k++)
            can |= reads[k] == (enum sl_model_kind)_i;
        ck_assert_int_eq(sl_model_take_half(&s.far, &ds), can);
        for (int order = 0; can && order <= SL_LAYER_TRANSFORM_FIRST; order++) {
            s.far.layer[0].order = (enum sl_layer_order)order;
            s.far.half = false;
            float *wanted = step_on(&s, b, wide, n * sizeof *wide);
            s.far.half = true;
            float *found = step_on(&s, b, half, n * sizeof *half);
            ck_assert_mem_eq(found, wanted, (s.far.n_params + SEEDS * CLASSES) * sizeof *wanted);
            free(found);
            free(wanted);
        }
        // Odd widths are no whole words, and a mask is of f32; cores read f32.
        ds.feat_dim--;
        ck_assert(!sl_model_take_half(&s.far, &ds));
        ds.feat_dim++;
        s.far.input_dropout = 0.5f;
        ck_assert(!sl_model_take_half(&s.far, &ds));
        ck_assert(!sl_model_take_half(&s.cpu, &ds));
        free(half);
        free(wide);
        free(b);
        scene_fini(&s);
    }
}
END_TEST

// ---- bf16 ---------------------------------------------------------------------------------------

static struct sl_config config_of_bf16(int kind, int variant)
{
    struct sl_config c = config_of(kind, variant);
    c.model.input_dropout = 0;
    c.precision = SL_CONFIG_BF16;
    return c;
}

static struct sl_block *some_block(struct scene *s, uint32_t layers)
{
    uint32_t seeds[SEEDS];
    for (uint32_t i = 0; i < SEEDS; i++)
        seeds[i] = (i * 13 + 4) % NODES;
    return fixture_block(&s->g.ds, seeds, SEEDS, layers, FANOUT, 2, 1);
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
START_TEST(rounded_weights_change_no_bit)
{
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of_bf16(_i, v);
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b = some_block(&s, c.model.layers);
        const size_t n = (size_t)b->n_input * FEATURES, all = s.far.n_params + SEEDS * CLASSES;
        float *x = random_input(b);
        float *wanted = step_on(&s, b, x, n * sizeof *x);
        assert_ok(sl_rounded_weights_take(&s.far.rounded, s.far_params));
        ck_assert_ptr_eq(s.far.rounded.params, s.far_params);
        float *found = step_on(&s, b, x, n * sizeof *x);
        ck_assert_mem_eq(found, wanted, all * sizeof *wanted);
        // They are what is read: without them nothing is learned of the weights.
        assert_ok(gpu->fill(s.far.rounded.copy, 0, s.far.rounded.n_words * sizeof(uint16_t)));
        float *zeros = step_on(&s, b, x, n * sizeof *x);
        ck_assert_mem_ne(zeros, wanted, all * sizeof *wanted);
        free(zeros);
        free(found);
        free(wanted);
        free(x);
        free(b);
        scene_fini(&s);
    }
}
END_TEST

enum { WIDE = 8 }; // whole 16 bytes of bf16

// A job whose hidden layers are rounded if the kind reads them so.
static struct sl_config config_of_rounded(int kind, int variant)
{
    struct sl_config c = config_of_bf16(kind, variant);
    c.model.hidden = WIDE;
    c.model.layers = 3;
    c.model.jumping = SL_JUMPING_NONE;
    c.model.aggregator = variant % 2 ? SL_AGGREGATOR_GCN : SL_AGGREGATOR_MEAN;
    c.model.heads = 2;
    c.model.train_eps = false;
    return c;
}

static void round_hidden(struct sl_model *model, bool rounds)
{
    model->rounds = rounds;
    for (uint32_t l = 0; l + 1 < model->n_layers; l++)
        model->around[l].rounds = rounds;
}

static bool reads_rounded(int kind)
{
    return kind == SL_MODEL_GRAPHSAGE || kind == SL_MODEL_GCN || kind == SL_MODEL_GIN;
}

// Where products alone read a hidden row it does not matter when it is rounded; where such rows are
// added up first it does.
START_TEST(rounded_activations_are_those_that_products_see)
{
    open_gpu();
    uint32_t different = 0;
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of_rounded(_i, v);
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b = some_block(&s, c.model.layers);
        const size_t x_bytes = (size_t)b->n_input * FEATURES * sizeof(float);
        const size_t all = s.far.n_params + SEEDS * CLASSES;
        float *x = random_input(b);
        ck_assert_int_eq(s.far.rounds, reads_rounded(_i));
        ck_assert(!s.cpu.rounds);
        for (int order = SL_LAYER_AUTO; s.far.rounds && order <= SL_LAYER_TRANSFORM_FIRST;
             order++) {
            for (uint32_t l = 0; l < s.far.n_layers; l++)
                s.far.layer[l].order = (enum sl_layer_order)order;
            round_hidden(&s.far, false);
            float *wanted = step_on(&s, b, x, x_bytes);
            round_hidden(&s.far, true);
            float *found = step_on(&s, b, x, x_bytes);
            float *again = step_on(&s, b, x, x_bytes);
            ck_assert_mem_eq(again, found, all * sizeof *found);
            // The slope of elu is taken from the output itself.
            if (order == SL_LAYER_TRANSFORM_FIRST && c.model.activation != SL_CONFIG_ELU)
                ck_assert_mem_eq(found, wanted, all * sizeof *wanted);
            for (size_t i = 0; i < all; i++)
                different += found[i] != wanted[i];
            free(again);
            free(found);
            free(wanted);
        }
        free(x);
        free(b);
        scene_fini(&s);
    }
    ck_assert(!reads_rounded(_i) || different > 0);
}
END_TEST

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
                                enum sl_precision precision)
{
    float *gradient = fixture_alloc(s->cpu.n_params * sizeof *gradient);
    struct sl_loss_result ignored;
    s->cpu.env.precision = precision;
    assert_ok(sl_model_train(&s->cpu, s->params, sl_block_here(b), x, gradient, &ignored));
    return gradient;
}

// A step in bf16 whose hidden rows are f32 is that of cores, which round in each product. With
// rounded ones its gradient is about as far from that of f32 as theirs is.
START_TEST(bf16_gradients_are_as_good_as_those_of_cpu_cores)
{
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of_rounded(_i, v);
        struct scene s;
        scene_init(&s, &c, false);
        assert_ok(sl_rounded_weights_take(&s.far.rounded, s.far_params));
        struct sl_block *b = some_block(&s, c.model.layers);
        const size_t x_bytes = (size_t)b->n_input * FEATURES * sizeof(float);
        float *x = random_input(b), *rounded = step_on(&s, b, x, x_bytes);
        round_hidden(&s.far, false);
        float *found = step_on(&s, b, x, x_bytes);
        float *wanted = gradient_on_cores(&s, b, x, SL_PRECISION_BF16);
        float *exact = gradient_on_cores(&s, b, x, SL_PRECISION_F32);
        ck_assert_double_le(distance(&s, found, wanted), 1e-5);
        ck_assert_double_le(distance(&s, rounded, exact), 0.01 + 2 * distance(&s, wanted, exact));
        free(exact);
        free(wanted);
        free(found);
        free(rounded);
        free(x);
        free(b);
        scene_fini(&s);
    }
}
END_TEST

START_TEST(who_reads_f32_gets_f32)
{
    open_gpu();
    for (int why = 0; why < 5; why++) {
        struct sl_config c = config_of_rounded(why == 3 ? SL_MODEL_GIN : SL_MODEL_GRAPHSAGE, 0);
        if (why == 0)
            c.model.hidden = WIDE + 1; // rows that are no whole 16 bytes
        if (why == 1)
            c.model.jumping = SL_JUMPING_CAT;
        if (why == 2)
            c.model.aggregator = SL_AGGREGATOR_MAX;
        if (why == 3)
            c.model.train_eps = true;
        if (why == 4)
            c.precision = SL_CONFIG_TF32;
        struct scene s;
        scene_init(&s, &c, false);
        ck_assert_msg(!s.far.rounds, "reason %d", why);
        scene_fini(&s);
    }
}
END_TEST

// Those of the device are those of the board's version, each matrix's row padded.
static bool are_rounded(const struct scene *s, const float *board)
{
    const struct sl_rounded_weights *w = &s->far.rounded;
    uint16_t *copy = gpu_get(gpu, w->copy, w->n_words * sizeof *copy);
    bool same = true;
    for (uint32_t t = 0; t < s->far.n_tensors; t++) {
        const struct sl_tensor *of = &s->far.tensor[t];
        const float *begin = s->far_params + of->offset;
        const struct sl_operand there = sl_rounded_weights_find(w, begin, of->shape[1]);
        ck_assert_int_eq(there.bf16, of->rank == 2);
        if (!there.bf16)
            continue;
        ck_assert_uint_eq(there.ld % 8, 0);
        uint16_t *row = fixture_alloc(of->shape[1] * sizeof *row);
        for (uint64_t r = 0; r < of->shape[0]; r++) {
            const float *from = board + of->offset + r * of->shape[1];
            assert_ok(sl_kernels_ref()->bias_act_bf16(from, 1, (uint32_t)of->shape[1], NULL,
                                                      SL_ACT_NONE, NULL, row, of->shape[1]));
            const uint16_t *at = copy + ((const uint16_t *)there.p - w->copy) + r * there.ld;
            same &= memcmp(at, row, of->shape[1] * sizeof *row) == 0;
        }
        // A part of it is found, too: a column of the last row.
        const uint64_t last = of->shape[0] - 1;
        const struct sl_operand part = sl_rounded_weights_find(
            w, begin + last * of->shape[1] + of->shape[1] - 1, of->shape[1]);
        ck_assert_ptr_eq(part.p, (const uint16_t *)there.p + last * there.ld + of->shape[1] - 1);
        free(row);
    }
    free(copy);
    return same;
}

START_TEST(weights_are_rounded_once_a_version)
{
    open_gpu();
    struct sl_config c = config_of_bf16(SL_MODEL_GRAPHSAGE, 0);
    struct scene s;
    struct sl_parameters p;
    scene_init(&s, &c, false);
    gpu_free(gpu, s.far_params, s.far.n_params * sizeof(float));
    assert_ok(sl_parameters_init(&p, gpu, s.far.n_params, &s.far.rounded));
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
END_TEST

// ---- layer-wise inference -----------------------------------------------------------------------

struct banks {
    float *act[2], *jumping;
};

struct found {
    struct sl_loss_result result;
    float *rows;           // (n, CLASSES)
    uint32_t *predictions; // (n)
};

static struct banks banks_make(void)
{
    return (struct banks){{fixture_alloc_pages(NODES * HIDDEN * sizeof(float)),
                           fixture_alloc_pages(NODES * HIDDEN * sizeof(float))},
                          fixture_alloc_pages(NODES * 2 * HIDDEN * sizeof(float))};
}

static void banks_free(struct banks *b)
{
    free(b->act[0]);
    free(b->act[1]);
    free(b->jumping);
}

static void found_free(struct found *f)
{
    free(f->rows);
    free(f->predictions);
}

// Hidden layers in ranges of `step` vertices, or in lists of them backwards; the last one over the
// test list.
static struct found infer(struct scene *s, struct sl_model *m, const float *params, uint32_t step,
                          bool lists, struct banks *banks)
{
    const struct sl_dataset *ds = &s->g.ds;
    const struct sl_vertex_list *test = &ds->split[SL_SPLIT_TEST];
    struct found f = {.rows = fixture_alloc(test->n * CLASSES * sizeof(float)),
                      .predictions = fixture_alloc(test->n * sizeof(uint32_t))};
    uint32_t back[NODES];
    for (uint32_t v = 0; v < NODES; v++)
        back[v] = NODES - 1 - v;
    for (uint32_t l = 0; l < m->n_layers; l++) {
        const bool last = l + 1 == m->n_layers;
        const uint32_t *ids = last ? test->ids : lists ? back : NULL;
        const uint64_t n = last ? test->n : NODES;
        for (uint64_t first = 0; first < n; first += step) {
            const struct sl_infer_io io = {
                .x_dtype = l ? SL_DTYPE_F32 : ds->feat_dtype,
                .x = l ? (const void *)banks->act[(l - 1) & 1] : ds->feat,
                .x_tag = l,
                .jumping = banks->jumping,
                .y = last ? NULL : banks->act[l & 1],
                .rows = last ? f.rows + first * CLASSES : NULL,
                .predictions = last ? f.predictions + first : NULL,
                .result = last ? &f.result : NULL,
            };
            const struct sl_infer_range range = {.ids = ids ? ids + first : NULL,
                                                 .first = ids ? 0 : first,
                                                 .n = (uint32_t)SL_MIN((uint64_t)step, n - first)};
            assert_ok(sl_evaluate_layer(m, ds, params, l, &range, &io));
        }
    }
    return f;
}

static void compare_found(const struct found *found, const struct found *wanted, uint64_t n)
{
    assert_close("rows", found->rows, wanted->rows, n * CLASSES);
    for (uint64_t i = 0; i < n; i++) { // of those without a near second
        const float *row = wanted->rows + i * CLASSES;
        float best = row[wanted->predictions[i]], gap = INFINITY;
        for (uint32_t k = 0; k < CLASSES; k++)
            if (k != wanted->predictions[i])
                gap = fminf(gap, best - row[k]);
        if (gap > 1e-2f)
            ck_assert_uint_eq(found->predictions[i], wanted->predictions[i]);
    }
    ck_assert_uint_eq(found->result.counted, wanted->result.counted);
    ck_assert_double_eq_tol(found->result.weight, wanted->result.weight, 1e-6);
    ck_assert_double_eq_tol(found->result.loss, wanted->result.loss,
                            2e-4 * (1 + wanted->result.loss));
}

static void compare_inference(const struct sl_config *c, bool lists, uint32_t step)
{
    struct scene s;
    scene_init(&s, c, lists);
    const uint64_t n = s.g.ds.split[SL_SPLIT_TEST].n;
    struct banks near = banks_make();
    struct found wanted = infer(&s, &s.cpu, s.params, step, lists, &near), first = {0};
    for (int way = SL_RESIDENT_AUTO; way <= SL_RESIDENT_GATHER; way++) {
        struct banks banks = banks_make();
        s.far.resident.way = (enum sl_resident_way)way;
        sl_resident_release(&s.far.resident);
        struct found found = infer(&s, &s.far, s.far_params, step, lists, &banks);
        compare_found(&found, &wanted, n);
        for (int k = 0; k < 2; k++)
            assert_close("activations", banks.act[k], near.act[k], NODES * HIDDEN);
        // Where rows come from changes no bit.
        if (first.rows)
            ck_assert_mem_eq(found.rows, first.rows, n * CLASSES * sizeof(float));
        ck_assert(way != SL_RESIDENT_COPY || s.far.resident.copy);
        ck_assert(way != SL_RESIDENT_MAPPED || s.far.resident.mapped);
        ck_assert(way != SL_RESIDENT_GATHER || (!s.far.resident.copy && !s.far.resident.mapped));
        if (first.rows)
            found_free(&found);
        else
            first = found;
        banks_free(&banks);
    }
    found_free(&first);
    found_free(&wanted);
    banks_free(&near);
    scene_fini(&s);
}

START_TEST(inference_is_that_of_cpu_cores)
{
    static const uint32_t steps[] = {NODES, 7, 25};
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(_i, v);
        compare_inference(&c, v & 2, steps[v % 3]);
    }
}
END_TEST

START_TEST(inference_by_random_walks)
{
    open_gpu();
    struct sl_config c = config_of(_i, 4);
    c.model.layers = 2;
    c.model.aggregator = SL_AGGREGATOR_GCN;
    c.sampler.kind = SL_SAMPLER_WALK;
    c.sampler.n_fanout = 2;
    c.sampler.fanout[0] = c.sampler.fanout[1] = 4;
    c.sampler.paths = 6;
    c.sampler.length = 3;
    compare_inference(&c, _i & 1, 25);
}
END_TEST

// A list gathers what it needs until a copy would have been cheaper; training takes the memory
// back.
START_TEST(a_copy_is_made_when_it_pays_and_given_back)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    c.model.layers = 1;
    c.model.jumping = SL_JUMPING_NONE;
    scene_init(&s, &c, false);
    static const uint32_t list[] = {3, 11, 12, 40};
    const struct sl_infer_range few = {.ids = list, .n = SL_COUNT_OF(list)}, run = {.n = NODES};
    float *rows = fixture_alloc(NODES * CLASSES * sizeof *rows);
    struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = s.g.feat, .rows = rows};
    struct sl_resident *r = &s.far.resident;
    assert_ok(sl_evaluate_layer(&s.far, &s.g.ds, s.far_params, 0, &few, &io));
    ck_assert_ptr_null(r->copy);
    ck_assert_uint_gt(r->gathered, 0);
    for (int k = 0; k < 100 && !r->copy; k++) {
        ck_assert_uint_lt(r->gathered, 2 * r->bytes);
        assert_ok(sl_evaluate_layer(&s.far, &s.g.ds, s.far_params, 0, &few, &io));
    }
    ck_assert_ptr_nonnull(r->copy);
    io.x_tag = 1; // other rows at the same place: a range of all vertices is copied at once
    assert_ok(sl_evaluate_layer(&s.far, &s.g.ds, s.far_params, 0, &run, &io));
    ck_assert_ptr_nonnull(r->copy);
    ck_assert_uint_eq(r->gathered, 0);
    uint32_t seed = 4;
    struct sl_block *b = fixture_block(&s.g.ds, &seed, 1, 1, FANOUT, 0, 0);
    compare_step(&s, b, true);
    ck_assert_ptr_null(r->copy);
    free(b);
    free(rows);
    scene_fini(&s);
}
END_TEST

// Features of which a copy reads three parts.
enum { WIDE_NODES = 1024, WIDE_DIM = 5000 };

static int count_read(void *ctx, uint64_t bytes)
{
    *(uint64_t *)ctx += bytes;
    return SL_OK;
}

static int refuse_read(void *ctx, uint64_t bytes)
{
    (void)bytes;
    return ++*(int *)ctx < 2 ? SL_OK : sl_fail(SL_EABORTED, "enough");
}

// The rows of vertices 0 and 7 as the device has them.
static int place(struct sl_model *m, const struct sl_resident_matrix *matrix,
                 struct sl_infer_piece *piece)
{
    static const uint32_t ids[] = {0, 7}, indptr[] = {0, 0, 0};
    *piece = (struct sl_infer_piece){
        .lists = {.n_dst = 2, .n_src = WIDE_NODES, .indptr = indptr, .indices = ids}, .ids = ids};
    sl_mempool_reset(&m->pool);
    sl_mempool_reset(&m->notes);
    return sl_resident_place(&m->resident, &m->env, matrix, true, piece);
}

static const struct sl_device *real_device;
static int n_maps, n_unmaps;

static int count_map(void *p, size_t n, bool read_only, void **out)
{
    n_maps++;
    return real_device->map(p, n, read_only, out);
}

static void count_unmap(void *p)
{
    n_unmaps++;
    real_device->unmap(p);
}

// Features are asked for again at every evaluation, activations are other ones each time.
START_TEST(what_lasts_is_mapped_once)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    scene_init(&s, &c, false);
    real_device = s.far.env.device;
    struct sl_device counting = *real_device;
    counting.map = count_map;
    counting.unmap = count_unmap;
    n_maps = n_unmaps = 0;
    s.far.env.device = &counting;
    struct sl_resident *r = &s.far.resident;
    r->way = SL_RESIDENT_MAPPED;
    struct sl_infer_piece piece;
    struct sl_resident_matrix x = {.dtype = SL_DTYPE_F32, .n_rows = WIDE_NODES, .dim = WIDE_DIM};
    const uint64_t bytes = (uint64_t)WIDE_NODES * WIDE_DIM * sizeof(float);
    float *features = sl_pages_alloc(bytes), *activations = sl_pages_alloc(bytes);
    const void *address = NULL;
    for (int evaluation = 0; evaluation < 3; evaluation++) {
        x.p = features;
        x.lasting = true;
        assert_ok(place(&s.far, &x, &piece));
        ck_assert(piece.x && !piece.x_ids && (!address || piece.x == address));
        address = piece.x;
        x.p = activations;
        x.lasting = false;
        assert_ok(place(&s.far, &x, &piece));
        ck_assert(piece.x && !piece.x_ids && piece.x != address);
        sl_resident_release(r); // as a training step does
        ck_assert_int_eq(n_maps, 2 + evaluation);
        ck_assert_int_eq(n_unmaps, 1 + evaluation);
    }
    sl_resident_fini(r);
    ck_assert_int_eq(n_unmaps, n_maps);
    s.far.env.device = real_device;
    sl_pages_free(features, bytes);
    sl_pages_free(activations, bytes);
    scene_fini(&s);
}
END_TEST

static uint64_t nothing_left(void *ctx)
{
    (void)ctx;
    return 0;
}

// Where memory is short only what is there for good is pinned.
START_TEST(a_copy_that_stays_is_mapped_whatever_is_left)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    scene_init(&s, &c, false);
    struct sl_resident *r = &s.far.resident;
    r->way = SL_RESIDENT_MAPPED;
    struct sl_infer_piece piece;
    struct sl_resident_matrix x = {.dtype = SL_DTYPE_F32, .n_rows = WIDE_NODES, .dim = WIDE_DIM};
    const uint64_t bytes = (uint64_t)WIDE_NODES * WIDE_DIM * sizeof(float);
    float *features = sl_pages_alloc(bytes);
    x.p = features;
    sl_memory_set_bound(nothing_left, NULL);
    assert_ok(place(&s.far, &x, &piece));
    ck_assert_ptr_null(r->mapped);
    sl_resident_release(r);
    r->stays = features;
    assert_ok(place(&s.far, &x, &piece));
    ck_assert_ptr_nonnull(r->mapped);
    sl_memory_set_bound(NULL, NULL);
    sl_resident_fini(r);
    sl_pages_free(features, bytes);
    scene_fini(&s);
}
END_TEST

START_TEST(copies_are_watched_and_partial_matrices_gathered)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    scene_init(&s, &c, false);
    struct sl_resident *r = &s.far.resident;
    struct sl_infer_piece piece;
    struct sl_resident_matrix x = {.dtype = SL_DTYPE_F32, .n_rows = WIDE_NODES, .dim = WIDE_DIM};
    const uint64_t bytes = (uint64_t)WIDE_NODES * WIDE_DIM * sizeof(float);
    float *rows = fixture_alloc(bytes), *found = fixture_alloc(bytes);
    for (uint64_t i = 0; i < bytes / sizeof *rows; i++)
        rows[i] = (float)i;
    x.p = rows;
    uint64_t told = 0;
    r->watch = (struct sl_resident_watch){.before = count_read, .ctx = &told, .bounded = true};
    assert_ok(place(&s.far, &x, &piece));
    ck_assert_uint_eq(told, bytes);
    ck_assert(sl_resident_has(r, rows, 0) && !sl_resident_has(r, rows, 1));
    assert_ok(s.far.env.device->copy(found, piece.x, bytes));
    assert_ok(s.far.env.device->sync());
    ck_assert_mem_eq(found, rows, bytes);
    // Given up for good, and what is bounded is not pinned instead.
    ck_assert(sl_resident_shrink(r) && !sl_resident_shrink(r));
    assert_ok(place(&s.far, &x, &piece));
    ck_assert(!r->copy && !r->mapped && piece.x_ids);
    // An error of who watches ends it, and leaves nothing that looks like a copy.
    int calls = 0;
    r->watch = (struct sl_resident_watch){.before = refuse_read, .ctx = &calls};
    x.tag = 1;
    ck_assert_int_eq(place(&s.far, &x, &piece), SL_EABORTED);
    ck_assert(!sl_resident_has(r, rows, 1));
    r->watch = (struct sl_resident_watch){0};
    // Neither copied nor mapped, however often: rows that are not there are not read.
    x.tag = 2;
    x.partial = true;
    for (int k = 0; k < 3; k++) {
        assert_ok(place(&s.far, &x, &piece));
        ck_assert(!r->copy && !r->mapped && piece.x_ids);
    }
    assert_ok(s.far.env.device->copy(found, piece.x, 2 * WIDE_DIM * sizeof *found));
    assert_ok(s.far.env.device->sync());
    ck_assert_mem_eq(found, rows, WIDE_DIM * sizeof *found);
    ck_assert_mem_eq(found + WIDE_DIM, rows + 7 * WIDE_DIM, WIDE_DIM * sizeof *found);
    x.tag = 3;
    x.partial = false;
    assert_ok(place(&s.far, &x, &piece));
    ck_assert(sl_resident_has(r, rows, 3));
    free(rows);
    free(found);
    scene_fini(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer cuda");
    TCase *tc = tcase_create("cuda");
    const int end = SL_MODEL_PINSAGE + 1;
    if (gpu_exists()) {
        tcase_set_timeout(tc, 240);
        tcase_add_loop_test(tc, steps_are_those_of_cpu_cores, SL_MODEL_GRAPHSAGE, end);
        tcase_add_loop_test(tc, halves_have_the_bits_of_what_was_widened, SL_MODEL_GRAPHSAGE, end);
        tcase_add_loop_test(tc, rounded_weights_change_no_bit, SL_MODEL_GRAPHSAGE, end);
        tcase_add_test(tc, weights_are_rounded_once_a_version);
        tcase_add_loop_test(tc, rounded_activations_are_those_that_products_see, SL_MODEL_GRAPHSAGE,
                            end);
        tcase_add_loop_test(tc, bf16_gradients_are_as_good_as_those_of_cpu_cores,
                            SL_MODEL_GRAPHSAGE, end);
        tcase_add_test(tc, who_reads_f32_gets_f32);
        tcase_add_loop_test(tc, inference_is_that_of_cpu_cores, SL_MODEL_GRAPHSAGE, end);
        tcase_add_loop_test(tc, inference_by_random_walks, SL_MODEL_GRAPHSAGE, end);
        tcase_add_test(tc, a_copy_is_made_when_it_pays_and_given_back);
        tcase_add_test(tc, what_lasts_is_mapped_once);
        tcase_add_test(tc, a_copy_that_stays_is_mapped_whatever_is_left);
        tcase_add_test(tc, copies_are_watched_and_partial_matrices_gathered);
    } else {
        printf("SKIP: models on a GPU: there is no lib/libsluice_cuda_simt.so here\n");
    }
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
