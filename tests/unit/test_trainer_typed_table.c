// The first layer of a model of several types reads its sources where the data set has them.
#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_typed_naive.h"
#include "trainer/feed/gather.h"

enum { CLASSES = 4, SEEDS = 7, HIDDEN = 6, LAYERS = 2 };

static const uint32_t SEED_IDS[SEEDS] = {0, 22, 3, 7, 12, 5, 9};

// A graph, a model of it and a batch.
struct scene {
    struct typed_graph g;
    struct sl_dataset ds;
    void *feat[TYPED_TYPES];
    struct sl_config config;
    struct sl_model model;
    struct sl_block *block;
    float *params, *rows, *row_gradient;
    uint64_t n_row_gradient;
};

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

// Papers have halves, the others f32.
static void make_features(struct scene *s)
{
    struct fixture_rng r = {.seed = 9};
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        struct sl_vertex_type *type = &s->g.type[t];
        const uint64_t n = type->n * type->feat_dim;
        s->feat[t] = fixture_alloc((n + 1) * sizeof(float));
        for (uint64_t i = 0; i < n; i++)
            if (t == 0)
                ((uint16_t *)s->feat[t])[i] = (uint16_t)(i * 40503u & 0x3bff); // below 1
            else
                ((float *)s->feat[t])[i] = fixture_float(&r, 1);
        type->feat_dtype = t == 0 ? SL_DTYPE_F16 : SL_DTYPE_F32;
        type->feat = n > 0 ? s->feat[t] : NULL;
    }
}

static void scene_init(struct scene *s, enum sl_model_kind kind, const struct sl_kernels *kernels,
                       uint32_t learned_dim)
{
    struct fixture_rng r = {.seed = 41};
    *s = (struct scene){.config = fixture_config(kind, LAYERS, HIDDEN)};
    typed_graph_init(&s->g, 5);
    make_features(s);
    s->ds = (struct sl_dataset){.n_nodes = 53, .typed = s->g.typed};
    s->config.model.dropout = 0.3;
    s->config.features.kind = learned_dim ? SL_INPUT_OF_BOTH : SL_INPUT_OF_FILE;
    s->config.features.dim = learned_dim;
    assert_ok(sl_model_init(&s->model, &s->config, 0, &s->ds.typed, fixture_objective(CLASSES),
                            sl_device_host(), kernels));
    s->block = typed_block(&s->g, SEED_IDS, SEEDS, LAYERS, 3, CLASSES, 11);
    s->params = fixture_params(&s->model, 31);
    struct sl_learned_rows *learned = &s->model.learned;
    learned->n_rows = sl_typed_bare_before(&s->ds.typed, TYPED_TYPES);
    s->rows = fixture_alloc((learned->n_rows * learned_dim + 1) * sizeof *s->rows);
    for (uint64_t i = 0; i < learned->n_rows * learned_dim; i++)
        s->rows[i] = fixture_float(&r, 1);
    s->n_row_gradient = (uint64_t)s->block->n_input * learned_dim + 1;
    s->row_gradient = fixture_alloc(s->n_row_gradient * sizeof *s->row_gradient);
    learned->rows = s->rows;
    learned->gradient = s->row_gradient;
}

static void scene_fini(struct scene *s)
{
    sl_model_fini(&s->model);
    typed_graph_fini(&s->g);
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        free(s->feat[t]);
    free(s->block);
    free(s->params);
    free(s->rows);
    free(s->row_gradient);
}

// What a trainer on cores makes of the batch.
struct found {
    float *gradient, *row_gradient, logits[SEEDS * CLASSES];
    struct sl_loss_result loss;
    struct sl_gathered gathered;
};

static void found_free(struct found *f)
{
    free(f->gradient);
    free(f->row_gradient);
}

static int step(struct scene *s, const struct sl_kernels *kernels, bool near, struct found *f)
{
    const struct sl_compute compute = {sl_device_host(), kernels, kernels};
    struct sl_gather gather;
    struct sl_batch_buffer buffer = {0};
    const float *logits;
    const size_t row_bytes = s->n_row_gradient * sizeof(float);
    *f = (struct found){.gradient = fixture_alloc(s->model.n_params * sizeof(float)),
                        .row_gradient = fixture_alloc(row_bytes)};
    sl_gather_init(&gather, &compute, &s->ds, SL_GATHER_FASTER);
    gather.near_rows = near;
    assert_ok(sl_gather_block(&gather, NULL, s->block, NULL, &buffer, &f->gathered));
    int rc = sl_model_evaluate(&s->model, s->params, sl_block_here(s->block), buffer.x, &f->loss,
                               &logits);
    if (rc == SL_OK) {
        memcpy(f->logits, logits, sizeof f->logits);
        rc = sl_model_train(&s->model, s->params, sl_block_here(s->block), buffer.x, f->gradient,
                            &f->loss);
    }
    memcpy(f->row_gradient, s->row_gradient, row_bytes);
    sl_batch_buffer_fini(&buffer);
    sl_gather_fini(&gather);
    return rc;
}

// All rows in f32, as inference brings them.
static float *all_rows(const struct scene *s)
{
    struct sl_row_source source = {.dataset = &s->ds};
    float *x = fixture_alloc(sl_typed_block_bytes(s->block, &s->ds.typed, SL_TYPED_F32) + 64);
    assert_ok(sl_rows_copy_typed(&source, sl_kernels_ref(), s->block, false, x));
    sl_row_source_fini(&source);
    return x;
}

// Rows that sums alone read are read where they lie, to the same bits, those of types without
// features being learned or one number. Inference brings all rows, before and after.
LOOP_TEST(a_first_layer_reads_the_tables, 0, 4)
{
    const struct sl_kernels *kernels = _i % 2 ? sl_kernels_cpu() : sl_kernels_ref();
    struct scene s;
    struct found wanted, found;
    float *logits;
    scene_init(&s, SL_MODEL_RSAGE, kernels, _i / 2 ? 5 : 0);
    for (uint32_t t = 0; t < 2; t++) // some are no destinations of the first layer
        ck_assert_uint_lt(sl_typed_layout_rows(s.block, t, SL_TYPED_NEAR),
                          sl_typed_layout_rows(s.block, t, SL_TYPED_F32));
    assert_ok(step(&s, kernels, false, &wanted));
    ck_assert(sl_model_take_table(&s.model, &s.ds));
    assert_ok(step(&s, kernels, true, &found));
    ck_assert_mem_eq(found.gradient, wanted.gradient, s.model.n_params * sizeof(float));
    ck_assert_mem_eq(found.row_gradient, wanted.row_gradient, s.n_row_gradient * sizeof(float));
    ck_assert_mem_eq(found.logits, wanted.logits, sizeof found.logits);
    ck_assert_uint_eq(found.gathered.x_bytes,
                      sl_typed_block_bytes(s.block, &s.ds.typed, SL_TYPED_NEAR));
    ck_assert_uint_lt(found.gathered.x_bytes, wanted.gathered.x_bytes);
    ck_assert_uint_eq(found.gathered.miss_bytes, wanted.gathered.miss_bytes);
    float *x = all_rows(&s);
    assert_ok(sl_model_forward(&s.model, s.params, sl_block_here(s.block), x, false, &logits));
    ck_assert_mem_eq(logits, wanted.logits, sizeof wanted.logits);
    free(x);
    found_free(&wanted);
    found_free(&found);
    scene_fini(&s);
}

// A vertex behind those of its type, or before them.
LOOP_TEST(a_vertex_of_another_type_is_refused, 0, 2)
{
    struct scene s;
    struct found found;
    scene_init(&s, SL_MODEL_RSAGE, sl_kernels_cpu(), 0);
    ck_assert(sl_model_take_table(&s.model, &s.ds));
    const struct sl_block_type *authors = &sl_block_types(s.block)[1];
    ck_assert_uint_gt(authors->n[LAYERS], authors->n[LAYERS - 1]);
    uint32_t *last = (uint32_t *)sl_block_nodes(s.block) + authors->first + authors->n[LAYERS] - 1;
    const struct sl_vertex_type *type = &s.g.type[1];
    *last = (uint32_t)(_i ? type->first - 1 : type->first + type->n);
    ck_assert_int_eq(step(&s, sl_kernels_cpu(), true, &found), SL_ERANGE);
    ck_assert_msg(strstr(sl_error_message(), _i ? "vertex 22" : "vertex 40"), "%s",
                  sl_error_message());
    found_free(&found);
    scene_fini(&s);
}

// Where something else reads the rows of sources, or changes them, they are copied.
TEST(who_reads_the_tables)
{
    static const struct {
        enum sl_model_kind kind;
        double input_dropout;
        bool mapped, reads;
    } cases[] = {{SL_MODEL_RSAGE, 0, true, true},   {SL_MODEL_RSAGE, 0.1, true, false},
                 {SL_MODEL_RSAGE, 0, false, false}, {SL_MODEL_RGCN, 0, true, false},
                 {SL_MODEL_RGAT, 0, true, false},   {SL_MODEL_HGT, 0, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene s;
        scene_init(&s, cases[i].kind, sl_kernels_ref(), 0);
        s.model.input_dropout = s.model.typed->input_dropout = (float)cases[i].input_dropout;
        if (!cases[i].mapped)
            s.g.type[3].feat = NULL;
        ck_assert_msg(sl_model_take_table(&s.model, &s.ds) == cases[i].reads, "case %zu", i);
        scene_fini(&s);
    }
}

RUN_TESTS(.timeout_s = 60)
