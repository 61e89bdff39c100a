// Models of graphs of several types: logits, losses and gradients against a naive model in double
// precision, names and shapes of tensors, bits of any number of threads, what is refused.

#include "common/base/error.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_typed_naive.h"

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
    {"rgat, layer norm, residual", SL_MODEL_RGAT, 2, SL_NORM_LAYER, SL_CONFIG_LEAKY_RELU,
     SL_RELATIONS_SUM, 0, 0, 0.2},
    {"rgatv2", SL_MODEL_RGATV2, 2, SL_NORM_NONE, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rgatv2, means, deep, residual", SL_MODEL_RGATV2, 3, SL_NORM_LAYER, SL_CONFIG_ELU,
     SL_RELATIONS_MEAN, 0, 0, 0.3},
    {"rgcn", SL_MODEL_RGCN, 2, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rgcn of bases", SL_MODEL_RGCN, 2, SL_NORM_BATCH, SL_CONFIG_ELU, SL_RELATIONS_SUM, 3, 0, 0.3},
    {"rgcn of blocks", SL_MODEL_RGCN, 3, SL_NORM_LAYER, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0,
     2, 0.2},
    {"hgt", SL_MODEL_HGT, 2, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"hgt of one layer", SL_MODEL_HGT, 1, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"hgt, deep", SL_MODEL_HGT, 3, SL_NORM_LAYER, SL_CONFIG_ELU, SL_RELATIONS_SUM, 0, 0, 0.3},
    {"rgat of one weight", SL_MODEL_RGAT, 2, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_MEAN, 0, 0,
     0.2},
    {"rgatv2 of one weight", SL_MODEL_RGATV2, 2, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_SUM, 0,
     0, 0.2},
    {"rgat of edges", SL_MODEL_RGAT, 2, SL_NORM_NONE, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0, 0,
     0},
    {"rgat of edges, means, deep, residual", SL_MODEL_RGAT, 3, SL_NORM_LAYER, SL_CONFIG_ELU,
     SL_RELATIONS_MEAN, 0, 0, 0.3},
    {"rgatv2 of edges", SL_MODEL_RGATV2, 2, SL_NORM_NONE, SL_CONFIG_LEAKY_RELU, SL_RELATIONS_SUM, 0,
     0, 0},
    {"rgatv2 of edges, means, deep, residual", SL_MODEL_RGATV2, 3, SL_NORM_LAYER, SL_CONFIG_ELU,
     SL_RELATIONS_MEAN, 0, 0, 0.3},
    {"rsage of visits", SL_MODEL_RSAGE, 2, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_MEAN, 0, 0,
     0.2},
    {"rgcn of visits", SL_MODEL_RGCN, 2, SL_NORM_NONE, SL_CONFIG_RELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rgat of visits", SL_MODEL_RGAT, 2, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_SUM, 0, 0, 0},
    {"rgatv2 of visits", SL_MODEL_RGATV2, 2, SL_NORM_NONE, SL_CONFIG_ELU, SL_RELATIONS_SUM, 0, 0,
     0},
};

// From ONE_WEIGHT on, ends have one weight, and all features one width; from OF_EDGES on edges have
// features instead, from FIRST_VISITS on visits.
enum {
    PLAIN_RGAT = 4,
    PLAIN_RGATV2 = 7,
    PLAIN_RGCN = 9,
    OF_BASES,
    OF_BLOCKS,
    PLAIN_HGT,
    ONE_WEIGHT = 15,
    OF_EDGES = 17,
    FIRST_VISITS = 21
};

static struct typed_graph graph;
static uint32_t learned_dim; // of types without features, of which authors are one then; 0: none is

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static void setup(void)
{
    typed_graph_init(&graph, 5);
    learned_dim = 0;
    sl_kernels_set_threads(1);
}

static void teardown(void)
{
    typed_graph_fini(&graph);
}

static bool is_of_edges(const struct variant *v)
{
    return v >= &VARIANTS[OF_EDGES] && v < &VARIANTS[FIRST_VISITS];
}

static bool is_shared(const struct variant *v)
{
    return v >= &VARIANTS[ONE_WEIGHT] && v < &VARIANTS[OF_EDGES];
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
    c.model.share_weights = is_shared(v);
    c.model.edge_features = is_of_edges(v);
    c.model.residual =
        (v->kind == SL_MODEL_RGAT || v->kind == SL_MODEL_RGATV2) && v->norm == SL_NORM_LAYER;
    c.features.kind = learned_dim ? SL_INPUT_OF_BOTH : SL_INPUT_OF_FILE;
    c.features.dim = learned_dim;
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
    float *x, *params, *gradient, *rows, *row_gradient;
    double *exact, *exact_rows; // the parameters and learned rows
    struct typed_naive naive;
};

// Learned rows, as a table has them, and where their gradient goes.
static void make_rows(struct scene *s)
{
    struct sl_learned_rows *learned = &s->model.learned;
    struct fixture_rng r = {.seed = 41};
    learned->n_rows = sl_typed_bare_before(&graph.typed, TYPED_TYPES);
    const uint64_t n = learned->n_rows * learned->dim;
    s->rows = fixture_alloc((n + 1) * sizeof *s->rows);
    s->exact_rows = fixture_alloc((n + 1) * sizeof *s->exact_rows);
    s->row_gradient =
        fixture_alloc(((uint64_t)s->block->n_input * learned->dim + 1) * sizeof *s->row_gradient);
    for (uint64_t i = 0; i < n; i++)
        s->exact_rows[i] = (double)(s->rows[i] = fixture_float(&r, 1));
    learned->rows = s->rows;
    learned->gradient = s->row_gradient;
}

static void scene_init(struct scene *s, const struct variant *v, const struct sl_kernels *kernels,
                       const uint32_t *seeds, uint32_t n_seeds)
{
    if (is_of_edges(v) && !graph.edge_feat[0])
        typed_edge_features(&graph, 17);
    *s = (struct scene){.config = config_of(v)};
    for (uint32_t t = 0; t < TYPED_TYPES && is_shared(v); t++)
        graph.type[t].feat_dim = 5;
    if (learned_dim)
        graph.type[1].feat_dim = 0;
    graph.visits = v >= &VARIANTS[FIRST_VISITS] && v < VARIANTS + SL_COUNT_OF(VARIANTS);
    ck_assert_msg(init(&s->model, &s->config, kernels) == SL_OK, "%s", sl_error_message());
    s->block = typed_block(&graph, seeds, n_seeds, v->layers, 3, CLASSES, 11);
    assert_ok(sl_typed_block_check(s->block, &graph.typed));
    assert_ok(sl_block_check_shape(s->block, s->block->bytes, sl_model_block_shape(&s->model)));
    s->x = typed_input(&graph, s->block, 21);
    s->params = fixture_params(&s->model, 31);
    s->gradient = fixture_alloc((s->model.n_params + 1) * sizeof *s->gradient);
    s->exact = fixture_alloc((s->model.n_params + 1) * sizeof *s->exact);
    make_rows(s);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        s->exact[i] = (double)s->params[i];
    s->naive = (struct typed_naive){.g = &graph,
                                    .config = &s->config,
                                    .model = &s->model,
                                    .block = s->block,
                                    .x = s->x,
                                    .rows = s->exact_rows,
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
    free(s->rows);
    free(s->row_gradient);
    free(s->exact_rows);
}

static const uint32_t SEED_IDS[SEEDS] = {0, 22, 3, 7, 12, 5, 9};

// Features that training may mask.
static float *copy_input(const struct scene *s)
{
    const uint64_t bytes = sl_typed_block_bytes(s->block, &graph.typed, SL_TYPED_F32);
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

CASE(.name = "cores", .setup = setup, .teardown = teardown, .timeout_s = 120)

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
    uint32_t *const whole = graph.indptr[3];
    struct scene s;
    graph.indptr[3] = fixture_alloc((graph.type[0].n + 1) * sizeof(uint32_t)); // no venues
    scene_init(&s, &VARIANTS[_i], sl_kernels_cpu(), lonely, 1);
    ck_assert_uint_eq(s.block->n_input, 1);
    check_logits(&s, VARIANTS[_i].name);
    scene_fini(&s);
    free(graph.indptr[3]);
    graph.indptr[3] = whole;
}

// Two scenes, of the reference and of the cores: what is exact is computed once for both.
enum { BACKENDS = 2 };

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
            for (int of = 0; of < BACKENDS; of++) {
                const double got = (double)s[of].gradient[at];
                ck_assert_msg(fabs(got - slope) <= 2e-4 * (1 + fabs(slope)),
                              "%s, %d: gradient of %s at %llu is %.9g, wanted %.9g", name, of,
                              tensor->name, (unsigned long long)(at - tensor->offset), got, slope);
            }
        }
    }
}

// Some numbers of the gradient of learned rows.
static void check_row_gradient(struct scene *s, const char *name)
{
    const uint32_t dim = s->model.learned.dim;
    uint32_t *ids = fixture_alloc((s->block->n_input + 1) * sizeof *ids);
    const uint32_t n = sl_model_learned_ids(&s->model, sl_block_here(s->block), ids);
    ck_assert_uint_gt(n, s->config.model.layers); // authors, and in most blocks the venue behind
    ck_assert_uint_lt(ids[0], graph.type[1].n);
    for (uint32_t i = 0; i < n * dim; i += 7) {
        double *at = &s->exact_rows[ids[i / dim] * dim + i % dim];
        const double kept = *at, step = 1e-5;
        *at = kept + step;
        double slope = typed_naive_loss(&s->naive);
        *at = kept - step;
        slope = (slope - typed_naive_loss(&s->naive)) / (2 * step);
        *at = kept;
        for (int of = 0; of < BACKENDS; of++)
            check_near(name, (double)s[of].row_gradient[i], slope, 2e-4);
    }
    free(ids);
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

// After a step of each; their logits before are checked where `with_logits`.
static void scenes_init(struct scene *s, const struct variant *v, bool with_logits)
{
    for (int of = 0; of < BACKENDS; of++) {
        struct sl_loss_result loss;
        scene_init(&s[of], v, of ? sl_kernels_cpu() : sl_kernels_ref(), SEED_IDS, SEEDS);
        if (with_logits)
            check_logits(&s[of], v->name);
        s[of].naive.training = true;
        train(&s[of], &loss);
        check_near(v->name, loss.loss, typed_naive_loss(&s[of].naive), 1e-5);
    }
}

LOOP_TEST(gradients_are_finite_differences_of_the_naive_model, 0, SL_COUNT_OF(VARIANTS))
{
    const struct variant *v = &VARIANTS[_i];
    struct scene s[BACKENDS];
    scenes_init(s, v, false);
    check_gradient(s, v->name);
    for (int of = 0; of < BACKENDS; of++) {
        check_running(&s[of]);
        scene_fini(&s[of]);
    }
}

// Seeds of two types, and of one that is not the first.
LOOP_TEST(gradients_of_links_are_finite_differences, 0, 4 * 2)
{
    static const enum sl_model_kind kinds[] = {SL_MODEL_RSAGE, SL_MODEL_RGAT, SL_MODEL_RGATV2,
                                               SL_MODEL_RGCN};
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

LOOP_TEST(learned_rows_of_types_without_features_have_their_gradient, 0, SL_COUNT_OF(VARIANTS))
{
    const struct variant *v = &VARIANTS[_i];
    struct scene s[BACKENDS];
    learned_dim = 5; // as wide as features where there is one weight for both ends
    scenes_init(s, v, true);
    check_gradient(s, v->name);
    check_row_gradient(s, v->name);
    for (int of = 0; of < BACKENDS; of++)
        scene_fini(&s[of]);
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

// Whether a relation's sources are kept for backward or made again; less is kept then. Of kinds of
// attention, without and with features of edges.
enum { N_ATTENTION = PLAIN_RGCN - PLAIN_RGAT, N_OF_EDGES = FIRST_VISITS - OF_EDGES };
LOOP_TEST(what_is_made_again_has_the_same_bits, 0, N_ATTENTION + N_OF_EDGES)
{
    const struct variant *v =
        _i < N_ATTENTION ? &VARIANTS[PLAIN_RGAT + _i] : &VARIANTS[OF_EDGES + _i - N_ATTENTION];
    struct sl_loss_result loss[2];
    float *gradient[2];
    uint64_t peak[2];
    for (int k = 0; k < 2; k++) {
        struct scene s;
        scene_init(&s, v, sl_kernels_cpu(), SEED_IDS, SEEDS);
        s.model.options.kept_bytes *= k == 0;
        for (int again = 0; again < 2; again++) { // the second finds the first one's memory
            memset(s.gradient, 0xff, s.model.n_params * sizeof *s.gradient);
            train(&s, &loss[k]);
        }
        peak[k] = s.model.pool.peak_bytes;
        ck_assert_uint_eq(sl_model_peak_bytes(&s.model), peak[k] + s.model.scratch.peak_bytes);
        gradient[k] = s.gradient;
        s.gradient = NULL;
        if (k == 1)
            ck_assert_mem_eq(gradient[1], gradient[0], s.model.n_params * sizeof **gradient);
        scene_fini(&s);
    }
    ck_assert(loss[0].loss == loss[1].loss);
    ck_assert_uint_lt(peak[1], peak[0]);
    free(gradient[0]);
    free(gradient[1]);
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
    c = config_of(&VARIANTS[PLAIN_RGAT]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.att_src", "1,2,3");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_src.weight", "6,5");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_dst.weight", "6,1");
    sl_model_fini(&m);
    c = config_of(&VARIANTS[PLAIN_RGATV2]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.att", "1,2,3");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_l.weight", "6,5");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_l.bias", "6");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_r.weight", "6,1");
    check_tensor(&m, "convs.0.convs.<paper___in___venue>.lin_edge.weight", "none");
    sl_model_fini(&m);
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        graph.type[t].feat_dim = 5;
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    const uint64_t apart = m.n_params;
    sl_model_fini(&m);
    c.model.share_weights = true;
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.0.convs.<author___writes___paper>.lin_l.weight", "6,5");
    check_tensor(&m, "convs.0.convs.<author___writes___paper>.lin_r.weight", "6,5");
    check_tensor(&m, "convs.0.convs.<author___writes___paper>.lin_r.bias", "6");
    ck_assert_uint_eq(m.n_params, apart - TYPED_RELATIONS * (6 * 5 + 6 + 6 * 6 + 6));
    sl_model_fini(&m);
    typed_graph_fini(&graph);
    typed_graph_init(&graph, 5);
    c = config_of(&VARIANTS[OF_BASES]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.1.weight", "3,6,6");
    check_tensor(&m, "convs.1.comp", "7,3");
    check_tensor(&m, "lin_dict.author.weight", "6,3");
    check_tensor(&m, "lin_dict.tag.weight", "6,1");
    sl_model_fini(&m);
    c = config_of(&VARIANTS[OF_BLOCKS]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.2.weight", "7,2,3,3");
    sl_model_fini(&m);
    c = config_of(&VARIANTS[PLAIN_HGT]);
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    check_tensor(&m, "convs.0.kqv_lin.lins.author.weight", "18,6");
    check_tensor(&m, "convs.1.out_lin.lins.tag.bias", "6");
    check_tensor(&m, "convs.1.k_rel.weight", "14,3,3");
    check_tensor(&m, "convs.0.skip.venue", "1");
    check_tensor(&m, "convs.1.p_rel.author__writes__paper", "1,2");
    check_tensor(&m, "lin_dict.author.weight", "6,3");
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

TEST(what_a_model_cannot_be_is_refused_by_name)
{
    struct sl_config c = config_of(&VARIANTS[0]);
    graph.relation[4].target = 0; // "in" no longer leads to the venue
    check_refused(&c, "'venue', whose rows layer 1 of 2 must make", "rgcn");
    c.model.layers = 1;
    struct sl_model m;
    ck_assert_int_eq(init(&m, &c, sl_kernels_cpu()), SL_OK);
    sl_model_fini(&m);
    c = config_of(&VARIANTS[PLAIN_RGAT]);
    c.model.heads = 4;
    check_refused(&c, "model.hidden: found 6 with 4 heads", "model.heads");
    c = config_of(&VARIANTS[PLAIN_RGATV2]);
    c.model.heads = 4;
    check_refused(&c, "model.hidden: found 6 with 4 heads", "model.heads");
    c = config_of(&VARIANTS[PLAIN_HGT]);
    c.model.heads = 4;
    check_refused(&c, "model.hidden: found 6 with 4 heads", "model.heads");
    c.model.heads = 2;
    snprintf(graph.type[2].name, sizeof graph.type[2].name, "author__x");
    snprintf(graph.relation[3].name, sizeof graph.relation[3].name, "writes");
    snprintf(graph.relation[0].name, sizeof graph.relation[0].name, "x__writes");
    graph.relation[4].target = 2; // as it was
    check_refused(&c, "relations 0 and 3", "without \"__\"");
    c = config_of(&VARIANTS[ONE_WEIGHT]);
    check_refused(&c, "'x__writes' from 'author', of width 3, to 'paper', of 5", "share_weights");
    c = config_of(&VARIANTS[ONE_WEIGHT + 1]);
    check_refused(&c, "'x__writes' from 'author', of width 3, to 'paper', of 5", "share_weights");
    c = config_of(&VARIANTS[OF_BLOCKS]);
    c.model.blocks = 4;
    check_refused(&c, "model.hidden: found 6 with 4 blocks", "model.blocks");
    c = config_of(&VARIANTS[0]);
    c.model.kind = SL_MODEL_GCN;
    check_refused(&c, "\"gcn\"", "rsage");
    graph.typed.n_types = 0;
    c.model.kind = SL_MODEL_RGAT;
    check_refused(&c, "\"rgat\"", "graphsage");
}

// ---- on a GPU -----------------------------------------------------------------------------------

static const struct sl_plugin *gpu;

static void setup_gpu(void)
{
    setup();
    gpu = gpu_open(0);
}

// Logits (n_seeds, CLASSES) of an evaluation and the gradient (n_params) of a step, one behind the
// other; computed on this device with what the scene has.
static float *step_on(const struct scene *s, const struct sl_device *device,
                      const struct sl_kernels *kernels)
{
    const uint64_t x_bytes = sl_typed_block_bytes(s->block, &graph.typed, SL_TYPED_F32);
    const uint64_t n = s->model.n_params, n_logits = (uint64_t)s->block->n_seeds * CLASSES;
    struct sl_model model;
    struct sl_loss_result loss;
    const float *logits;
    float *all = fixture_alloc((n_logits + n) * sizeof *all);
    assert_ok(sl_model_init(&model, &s->config, 0, &graph.typed, fixture_objective(CLASSES), device,
                            kernels));
    char *base = gpu_put(device, s->block, s->block->bytes);
    const struct sl_block_view block = {.header = s->block, .base = base};
    float *params = gpu_put(device, s->params, n * sizeof *params);
    float *gradient = gpu_put(device, s->gradient, n * sizeof *gradient);
    float *x = gpu_put(device, s->x, x_bytes + 1);
    assert_ok(sl_model_evaluate(&model, params, block, x, &loss, &logits));
    assert_ok(device->copy(all, logits, n_logits * sizeof *all));
    assert_ok(sl_model_train(&model, params, block, x, gradient, &loss));
    assert_ok(device->copy(all + n_logits, gradient, n * sizeof *all));
    assert_ok(device->sync());
    gpu_free(device, x, x_bytes + 1);
    gpu_free(device, gradient, n * sizeof *gradient);
    gpu_free(device, params, n * sizeof *params);
    gpu_free(device, base, s->block->bytes);
    sl_model_fini(&model);
    return all;
}

CASE(.name = "gpu", .setup = setup_gpu, .teardown = teardown, .timeout_s = 120, ON_A_GPU)

// Near those of cores, and each time with the same bits.
LOOP_TEST(a_gpu_computes_what_cores_do, 0, SL_COUNT_OF(VARIANTS))
{
    struct scene s;
    scene_init(&s, &VARIANTS[_i], sl_kernels_cpu(), SEED_IDS, SEEDS);
    const uint64_t n = SEEDS * CLASSES + s.model.n_params;
    float *wanted = step_on(&s, sl_device_host(), sl_kernels_cpu());
    float *found = step_on(&s, gpu->device, gpu->kernels);
    float *again = step_on(&s, gpu->device, gpu->kernels);
    for (uint64_t i = 0; i < n; i++)
        check_near(VARIANTS[_i].name, (double)found[i], (double)wanted[i], 2e-5);
    ck_assert_mem_eq(again, found, n * sizeof *found);
    free(wanted);
    free(found);
    free(again);
    scene_fini(&s);
}

RUN_TESTS()
