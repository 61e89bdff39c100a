// Models of graphs of several types: logits, losses and gradients against a naive model in double
// precision, names and shapes of tensors, bits of any number of threads, what is refused.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_typed_naive.h"
#include "trainer/infer/evaluate.h"

enum { CLASSES = 4, SEEDS = 7, HIDDEN = 6 };

static const struct variant {
    const char *name;
    enum sl_model_kind kind;
    uint32_t layers;
    enum sl_norm_kind norm;
    enum sl_activation_kind activation;
    enum sl_relations_kind relations;
    uint32_t bases, blocks;
    double dropout;
} VARIANTS[] = {
    {"rsage", SL_MODEL_RSAGE, 2, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rsage of one layer", SL_MODEL_RSAGE, 1, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0,
     0},
    {"rsage, means, deep", SL_MODEL_RSAGE, 3, SL_NORM_LAYER, SL_CONFIG_ELU, SL_RELATIONS_MEAN, 0, 0,
     0.3},
    {"rsage, batch norm", SL_MODEL_RSAGE, 2, SL_NORM_BATCH, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM,
     0, 0, 0.2},
    {"rgat", SL_MODEL_RGAT, 2, SL_NORM_NONE, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rgat, means, deep", SL_MODEL_RGAT, 3, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_MEAN, 0, 0,
     0.3},
    {"rgat, layer norm", SL_MODEL_RGAT, 2, SL_NORM_LAYER, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0,
     0, 0.2},
    {"rgcn", SL_MODEL_RGCN, 2, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rgcn of bases", SL_MODEL_RGCN, 2, SL_NORM_BATCH, SL_CONFIG_ELU, SL_RELATIONS_SUM, 3, 0, 0.3},
    {"rgcn of blocks", SL_MODEL_RGCN, 3, SL_NORM_LAYER, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0,
     2, 0.2},
};

static struct typed_graph graph;

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static void setup(void)
{
    typed_graph_init(&graph, 5);
    sl_kernels_set_threads(1);
}

static void teardown(void)
{
    typed_graph_fini(&graph);
}

static struct sl_config config_of(const struct variant *v)
{
    struct sl_config c = fixture_config(v->kind, v->layers, HIDDEN);
    c.model.norm = v->norm;
    c.model.activation = v->activation;
    c.model.relations = v->relations;
    c.model.bases = v->bases;
    c.model.blocks = v->blocks;
    c.model.dropout = v->dropout;
    c.model.input_dropout = v->dropout / 2;
    c.model.attention_dropout = v->dropout;
    return c;
}

static int init(struct sl_model *m, const struct sl_config *c, const struct sl_kernels *kernels)
{
    return sl_model_init(m, c, 0, &graph.typed, fixture_objective(CLASSES), sl_device_host(),
                         kernels);
}

// A model, a batch of it, and the naive one.
struct scene {
    struct sl_config config;
    struct sl_model model;
    struct sl_block *block;
    float *x, *params, *gradient;
    double *exact; // the parameters
    struct typed_naive naive;
};

static void scene_init(struct scene *s, const struct variant *v, const struct sl_kernels *kernels,
                       const uint32_t *seeds, uint32_t n_seeds)
{
    *s = (struct scene){.config = config_of(v)};
    ck_assert_msg(init(&s->model, &s->config, kernels) == SL_OK, "%s", sl_error_message());
    s->block = typed_block(&graph, seeds, n_seeds, v->layers, 3, CLASSES, 11);
    assert_ok(sl_typed_block_check(s->block, &graph.typed));
    assert_ok(sl_block_check_shape(s->block, s->block->bytes, sl_model_block_shape(&s->model)));
    s->x = typed_input(&graph, s->block, 21);
    s->params = fixture_params(&s->model, 31);
    s->gradient = fixture_alloc((s->model.n_params + 1) * sizeof *s->gradient);
    s->exact = fixture_alloc((s->model.n_params + 1) * sizeof *s->exact);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        s->exact[i] = (double)s->params[i];
    s->naive = (struct typed_naive){.g = &graph,
                                    .config = &s->config,
                                    .model = &s->model,
                                    .block = s->block,
                                    .x = s->x,
                                    .params = s->exact,
                                    .classes = CLASSES};
}

static void scene_fini(struct scene *s)
{
    sl_model_fini(&s->model);
    free(s->block);
    free(s->x);
    free(s->params);
    free(s->gradient);
    free(s->exact);
}

static const uint32_t SEED_IDS[SEEDS] = {0, 22, 3, 7, 12, 5, 9};

// Features that training may mask.
static float *copy_input(const struct scene *s)
{
    const uint64_t bytes = sl_typed_rows_at(s->block, &graph.typed, TYPED_TYPES, false);
    float *copy = fixture_alloc(bytes + 64);
    memcpy(copy, s->x, bytes);
    return copy;
}

static void check_near(const char *what, double got, double wanted, double most)
{
    const double error = fabs(got - wanted);
    ck_assert_msg(error <= most * (1 + fabs(wanted)), "%s: %.9g, wanted %.9g", what, got, wanted);
}

static void check_logits(struct scene *s, const char *name)
{
    double wanted[SEEDS * CLASSES];
    const float *logits;
    struct sl_loss_result loss;
    float *x = copy_input(s);
    typed_naive_forward(&s->naive, wanted);
    ck_assert_msg(sl_model_evaluate(&s->model, s->params, sl_block_here(s->block), x, &loss,
                                    &logits) == SL_OK,
                  "%s: %s", name, sl_error_message());
    for (uint32_t i = 0; i < s->block->n_seeds * CLASSES; i++)
        check_near(name, (double)logits[i], wanted[i], 1e-5);
    check_near(name, loss.loss, typed_naive_loss(&s->naive), 1e-5);
    free(x);
}

CASE(.setup = setup, .teardown = teardown, .timeout_s = 120)

LOOP_TEST(logits_are_those_of_the_naive_model, 0, SL_COUNT_OF(VARIANTS) * 2)
{
    struct scene s;
    scene_init(&s, &VARIANTS[_i / 2], _i % 2 ? sl_kernels_cpu() : sl_kernels_ref(), SEED_IDS,
               SEEDS);
    check_logits(&s, VARIANTS[_i / 2].name);
    scene_fini(&s);
}

// A seed that has no neighbours at all: of all types but the seeds' there are no vertices.
LOOP_TEST(a_seed_without_neighbours_has_logits, 0, SL_COUNT_OF(VARIANTS))
{
    static const uint32_t lonely[] = {3};
    struct typed_graph whole = graph;
    struct scene s;
    graph.indptr[3] = fixture_alloc((graph.type[0].n + 1) * sizeof(uint32_t)); // no venues
    scene_init(&s, &VARIANTS[_i], sl_kernels_cpu(), lonely, 1);
    ck_assert_uint_eq(s.block->n_input, 1);
    check_logits(&s, VARIANTS[_i].name);
    scene_fini(&s);
    free(graph.indptr[3]);
    graph = whole;
}

// Parameters whose gradient is compared: some of each tensor.
static void check_gradient(struct scene *s, const char *name)
{
    struct fixture_rng r = {.seed = 3};
    for (uint32_t t = 0; t < s->model.n_tensors; t++) {
        const struct sl_tensor *tensor = &s->model.tensor[t];
        const uint64_t n = sl_tensor_count(tensor);
        for (uint64_t k = 0; k < SL_MIN(n, (uint64_t)2) && tensor->role == SL_TENSOR_LEARNED; k++) {
            const uint64_t at = tensor->offset + fixture_word(&r) % n;
            const double kept = s->exact[at], step = 1e-5;
            s->exact[at] = kept + step;
            double slope = typed_naive_loss(&s->naive);
            s->exact[at] = kept - step;
            slope = (slope - typed_naive_loss(&s->naive)) / (2 * step);
            s->exact[at] = kept;
            const double error = fabs((double)s->gradient[at] - slope);
            ck_assert_msg(error <= 2e-4 * (1 + fabs(slope)),
                          "%s: gradient of %s at %llu is %.9g, wanted %.9g", name, tensor->name,
                          (unsigned long long)(at - tensor->offset), (double)s->gradient[at],
                          slope);
        }
    }
}

static void train(struct scene *s, struct sl_loss_result *loss)
{
    float *x = copy_input(s);
    ck_assert_msg(sl_model_train(&s->model, s->params, sl_block_here(s->block), x, s->gradient,
                                 loss) == SL_OK,
                  "%s", sl_error_message());
    free(x);
}

// Places of running statistics have the batch's, or the running ones of a type without rows.
static void check_running(struct scene *s)
{
    double *running = fixture_alloc((s->model.n_params + 1) * sizeof *running);
    s->naive.running = running;
    typed_naive_loss(&s->naive);
    s->naive.running = NULL;
    for (uint32_t t = 0; t < s->model.n_tensors; t++) {
        const struct sl_tensor *tensor = &s->model.tensor[t];
        for (uint64_t i = 0; tensor->role == SL_TENSOR_RUNNING && i < tensor->shape[0]; i++)
            check_near(tensor->name, (double)s->gradient[tensor->offset + i],
                       running[tensor->offset + i], 1e-4);
    }
    free(running);
}

LOOP_TEST(gradients_are_finite_differences_of_the_naive_model, 0, SL_COUNT_OF(VARIANTS) * 2)
{
    const struct variant *v = &VARIANTS[_i / 2];
    struct scene s;
    struct sl_loss_result loss;
    scene_init(&s, v, _i % 2 ? sl_kernels_cpu() : sl_kernels_ref(), SEED_IDS, SEEDS);
    s.naive.training = true;
    train(&s, &loss);
    check_near(v->name, loss.loss, typed_naive_loss(&s.naive), 1e-5);
    check_gradient(&s, v->name);
    check_running(&s);
    scene_fini(&s);
}

// Seeds of two types, and of one that is not the first.
LOOP_TEST(gradients_of_links_are_finite_differences, 0, 3 * 2)
{
    static const enum sl_model_kind kinds[] = {SL_MODEL_RSAGE, SL_MODEL_RGAT, SL_MODEL_RGCN};
    const uint32_t n_papers = _i % 2 ? 0 : SEEDS, n_authors = 6, dim = 4;
    const struct variant v = {
        "links", kinds[_i / 2], 2, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_SUM, 0, 0, 0};
    struct scene s = {.config = config_of(&v)};
    struct sl_objective objective;
    struct sl_loss_result loss;
    struct fixture_rng r = {.seed = 9};
    graph.typed.linked = _i % 2 ? 6 : 0; // topic -likes-> author, author -writes-> paper
    fixture_link(&s.config, dim, SL_DECODER_DISTMULT, SL_COMBINE_PRODUCT, SL_PAIR_LOSS_BCE);
    assert_ok(sl_objective_init(&objective, &s.config, NULL));
    assert_ok(sl_model_init(&s.model, &s.config, 0, &graph.typed, &objective, sl_device_host(),
                            sl_kernels_cpu()));
    s.block = typed_block_with(&graph, SEED_IDS, n_papers, n_authors, 2, 3, CLASSES, 11);
    s.block = fixture_pair(s.block, 6, 2, 3);
    assert_ok(sl_typed_block_check(s.block, &graph.typed));
    assert_ok(sl_block_check_shape(s.block, s.block->bytes, sl_model_block_shape(&s.model)));
    s.x = typed_input(&graph, s.block, 21);
    s.params = fixture_params(&s.model, 31);
    s.gradient = fixture_alloc((s.model.n_params + 1) * sizeof *s.gradient);
    train(&s, &loss);
    float *wanted = s.gradient;
    s.gradient = fixture_alloc((s.model.n_params + 1) * sizeof *s.gradient);
    for (uint32_t t = 0; t < s.model.n_tensors; t++)
        for (uint32_t k = 0; k < 3; k++) {
            const struct sl_tensor *tensor = &s.model.tensor[t];
            const uint64_t at = tensor->offset + fixture_word(&r) % sl_tensor_count(tensor);
            const float kept = s.params[at], step = 4e-3f;
            double slope = 0;
            for (int side = 1; side >= -1; side -= 2) {
                s.params[at] = kept + (float)side * step;
                train(&s, &loss);
                slope += side * loss.loss / (2 * (double)step);
            }
            s.params[at] = kept;
            check_near(tensor->name, (double)wanted[at], slope, 1e-2);
        }
    free(wanted);
    sl_objective_fini(&objective);
    scene_fini(&s);
}

// The second batch of the same model leaves nothing of the first.
LOOP_TEST(bits_are_those_of_any_number_of_threads, 0, SL_COUNT_OF(VARIANTS))
{
    struct scene s;
    struct sl_loss_result loss[3];
    float *gradient[3];
    scene_init(&s, &VARIANTS[_i], sl_kernels_cpu(), SEED_IDS, SEEDS);
    free(s.gradient);
    for (int k = 0; k < 3; k++) {
        sl_kernels_set_threads(k == 1 ? 2 : 1);
        gradient[k] = s.gradient = fixture_alloc((s.model.n_params + 1) * sizeof *s.gradient);
        for (uint64_t i = 0; i < s.model.n_params; i++)
            s.gradient[i] = NAN;
        train(&s, &loss[k]);
    }
    s.gradient = NULL;
    for (int k = 1; k < 3; k++) {
        ck_assert_mem_eq(gradient[k], gradient[0], s.model.n_params * sizeof **gradient);
        ck_assert_mem_eq(&loss[k].loss, &loss[0].loss, sizeof loss[0].loss);
    }
    for (int k = 0; k < 3; k++)
        free(gradient[k]);
    scene_fini(&s);
}

// Products of operands that were rounded to bf16: near those that were not, and others.
LOOP_TEST(products_in_bf16_are_near, 0, SL_COUNT_OF(VARIANTS))
{
    struct scene s;
    double exact[SEEDS * CLASSES], off = 0, largest = 0;
    float *logits;
    scene_init(&s, &VARIANTS[_i], sl_kernels_cpu(), SEED_IDS, SEEDS);
    typed_naive_forward(&s.naive, exact);
    s.model.env.precision = SL_PRECISION_BF16;
    assert_ok(sl_model_forward(&s.model, s.params, sl_block_here(s.block), s.x, false, &logits));
    for (uint32_t i = 0; i < SEEDS * CLASSES; i++) {
        off = fmax(off, fabs((double)logits[i] - exact[i]));
        largest = fmax(largest, fabs(exact[i]));
    }
    ck_assert_msg(off > 1e-5 * largest && off < 0.05 * largest, "%s: off by %g, the largest is %g",
                  VARIANTS[_i].name, off, largest);
    scene_fini(&s);
}

static void check_tensor(const struct sl_model *m, const char *name, const char *shape)
{
    char found[80] = "none";
    for (uint32_t t = 0; t < m->n_tensors; t++)
        for (uint32_t d = 0; strcmp(m->tensor[t].name, name) == 0 && d < m->tensor[t].rank; d++)
            snprintf(found + (d ? strlen(found) : 0), 24, "%s%llu", d ? "," : "",
                     (unsigned long long)m->tensor[t].shape[d]);
    ck_assert_msg(strcmp(found, shape) == 0, "%s: shape %s, wanted %s", name, found, shape);
}

TEST(tensors_have_the_names_of_torch_geometric)
{
    struct sl_model m;
    struct sl_config c = config_of(&VARIANTS[3]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.0.convs.<author___writes___paper>.lin_l.weight", "6,3");
    check_tensor(&m, "convs.0.convs.<author___writes___paper>.lin_r.weight", "6,5");
    check_tensor(&m, "convs.0.convs.<topic___likes___author>.lin_l.bias", "6");
    check_tensor(&m, "convs.1.convs.<author___writes___paper>.lin_l.weight", "6,6");
    check_tensor(&m, "norms.0.venue.module.running_var", "6");
    check_tensor(&m, "norms.0.tag.module.weight", "none");
    check_tensor(&m, "norms.1.paper.module.weight", "none");
    check_tensor(&m, "lin.weight", "4,6");
    sl_model_fini(&m);
    c = config_of(&VARIANTS[4]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.att_src", "1,2,3");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_src.weight", "6,5");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_dst.weight", "6,1");
    sl_model_fini(&m);
    c = config_of(&VARIANTS[8]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.1.weight", "3,6,6");
    check_tensor(&m, "convs.1.comp", "7,3");
    check_tensor(&m, "lin_dict.author.weight", "6,3");
    check_tensor(&m, "lin_dict.tag.weight", "6,1");
    sl_model_fini(&m);
    c = config_of(&VARIANTS[9]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.2.weight", "7,2,3,3");
    sl_model_fini(&m);
}

static void check_refused(const struct sl_config *c, const char *a, const char *b)
{
    struct sl_model m;
    ck_assert_int_lt(init(&m, c, sl_kernels_cpu()), 0);
    ck_assert_msg(strstr(sl_error_message(), a) && strstr(sl_error_message(), b),
                  "'%s', wanted %s and %s", sl_error_message(), a, b);
    sl_model_fini(&m);
}

TEST(layers_over_the_whole_graph_are_refused)
{
    struct sl_model m;
    const struct sl_config c = config_of(&VARIANTS[0]);
    const struct sl_infer_range range = {.n = 1};
    const struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32};
    struct sl_dataset ds = {.n_nodes = 1};
    assert_ok(init(&m, &c, sl_kernels_cpu()));
    ck_assert_int_eq(sl_evaluate_layer(&m, &ds, NULL, 0, &range, &io), SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "evaluate.fanout of -1"));
    sl_model_fini(&m);
}

TEST(what_a_model_cannot_be_is_refused_by_name)
{
    struct sl_config c = config_of(&VARIANTS[0]);
    graph.relation[4].target = 0; // "in" no longer leads to the venue
    check_refused(&c, "'venue', whose rows layer 1 of 2 must make", "rgcn");
    c.model.layers = 1;
    struct sl_model m;
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    sl_model_fini(&m);
    c = config_of(&VARIANTS[4]);
    c.model.heads = 4;
    check_refused(&c, "model.hidden: found 6 with 4 heads", "model.heads");
    c = config_of(&VARIANTS[9]);
    c.model.blocks = 4;
    check_refused(&c, "model.hidden: found 6 with 4 blocks", "model.blocks");
    c = config_of(&VARIANTS[0]);
    c.features.kind = SL_INPUT_LEARNED;
    c.features.dim = 4;
    check_refused(&c, "learned rows", "features.kind");
    c = config_of(&VARIANTS[0]);
    c.model.kind = SL_MODEL_GCN;
    check_refused(&c, "\"gcn\"", "rsage");
    graph.typed.n_types = 0;
    c.model.kind = SL_MODEL_RGAT;
    check_refused(&c, "\"rgat\"", "graphsage");
}

RUN_TESTS()
