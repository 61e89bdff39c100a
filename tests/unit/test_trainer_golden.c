// Models against PyTorch Geometric's: tests/golden/pyg.safetensors, which make_pyg.py wrote.
#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/data/safetensors.h"
#include "common/data/self_loops.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/infer/evaluate.h"

static const char FILE_NAME[] = "tests/golden/pyg.safetensors"; // tests run in the project's root

// A float32 sum of a few hundred terms of size 1, against the same in double precision.
static const double TOLERANCE = 1e-5;

struct golden {
    struct sl_safetensors_file file;
    struct fixture_graph g;
    struct sl_self_loops loops;
    uint32_t *everybody; // vertices in an order that is not theirs
    uint32_t *seeds, n_seeds;
    cJSON *cases; // names
};

// ---- reading the file ---------------------------------------------------------------------------

static const char *note(const struct golden *t, const char *name, const char *what)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", name, what);
    const char *text = sl_safetensors_note(&t->file, key);
    ck_assert_msg(text != NULL, "%s has no note %s", FILE_NAME, key);
    return text;
}

// An array of the file as floats, of n elements unless n is 0; to be freed.
static float *array_of(const struct golden *t, const char *name, const char *what, uint64_t n,
                       uint64_t *count)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", name, what);
    const struct sl_safetensor *tensor = sl_safetensors_find(&t->file, key);
    ck_assert_msg(tensor != NULL, "%s has no tensor %s", FILE_NAME, key);
    uint64_t found = sl_safetensor_count(tensor);
    if (n)
        ck_assert_uint_eq(found, n);
    float *out = fixture_alloc(found * sizeof *out);
    ck_assert_int_eq(sl_safetensor_floats(tensor, out), SL_OK);
    if (count)
        *count = found;
    return out;
}

static void load_graph(struct golden *t)
{
    uint64_t n, n_edges, n_x;
    float *indptr = array_of(t, "", "indptr", 0, &n);
    float *indices = array_of(t, "", "indices", 0, &n_edges);
    float *x = array_of(t, "", "x", 0, &n_x);
    n--;
    float *labels = array_of(t, "", "labels", n, NULL);
    uint64_t n_edge_x;
    float *edge_x = array_of(t, "", "edge_x", 0, &n_edge_x);
    t->g = fixture_graph((uint32_t)n, (uint32_t)(n_x / n), 3, 1);
    for (uint64_t v = 0; v <= n; v++)
        t->g.indptr[v] = (uint64_t)indptr[v];
    t->g.ds.n_edges = n_edges;
    for (uint64_t e = 0; e < n_edges; e++)
        t->g.indices[e] = (uint32_t)indices[e];
    memcpy(t->g.feat, x, n_x * sizeof *x);
    fixture_add_edge_features(&t->g, (uint32_t)(n_edge_x / n_edges), 1);
    memcpy(t->g.edge_feat, edge_x, n_edge_x * sizeof *edge_x);
    t->everybody = fixture_alloc(n * sizeof *t->everybody);
    for (uint64_t v = 0; v < n; v++) {
        t->g.label[v] = (int32_t)labels[v];
        t->everybody[v] = (uint32_t)((v * 5 + 3) % n);
    }
    free(indptr);
    free(indices);
    free(x);
    free(labels);
    free(edge_x);
}

static void golden_open(struct golden *t)
{
    memset(t, 0, sizeof *t);
    ck_assert_msg(sl_safetensors_open(FILE_NAME, &t->file) == SL_OK,
                  "%s: run this in the project's root", sl_error_message());
    load_graph(t);
    uint64_t n;
    float *seeds = array_of(t, "", "seeds", 0, &n);
    t->n_seeds = (uint32_t)n;
    t->seeds = fixture_alloc(n * sizeof *t->seeds);
    for (uint64_t i = 0; i < n; i++)
        t->seeds[i] = (uint32_t)seeds[i];
    free(seeds);
    ck_assert_int_eq(sl_self_loops_find(&t->g.ds, 1, &t->loops), SL_OK);
    ck_assert_uint_eq(t->loops.n_vertices, 4); // the graph has some
    t->cases = cJSON_Parse(note(t, "", "cases"));
    ck_assert_int_gt(cJSON_GetArraySize(t->cases), 100);
}

static void golden_close(struct golden *t)
{
    cJSON_Delete(t->cases);
    sl_self_loops_free(&t->loops);
    free(t->everybody);
    free(t->seeds);
    fixture_graph_free(&t->g);
    sl_safetensors_close(&t->file);
}

// ---- a case's model -----------------------------------------------------------------------------

static int word_of(const cJSON *model, const char *key, const char *const *words, int n)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, key);
    for (int i = 0; item && i < n; i++)
        if (strcmp(item->valuestring, words[i]) == 0)
            return i;
    ck_assert_msg(item == NULL, "%s: unknown %s", FILE_NAME, key);
    return 0;
}

static double number_of(const cJSON *model, const char *key, double without)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, key);
    return item ? (cJSON_IsBool(item) ? cJSON_IsTrue(item) : item->valuedouble) : without;
}

#define KIND(upper, lower) #lower,
static struct sl_config config_of(const cJSON *model)
{
    // In the order of the enumerations of config.h.
    static const char *const kinds[] = {SL_MODEL_KINDS(KIND)};
    static const char *const aggregators[] = {"mean", "max", "gcn"};
    static const char *const activations[] = {"relu", "elu", "leaky_relu"};
    static const char *const norms[] = {"none", "batch", "layer"};
    static const char *const jumpings[] = {"none", "last", "cat", "max"};
    struct sl_config c = fixture_config(
        (enum sl_model_kind)word_of(model, "kind", kinds, SL_COUNT_OF(kinds)),
        (uint32_t)number_of(model, "layers", 0), (uint32_t)number_of(model, "hidden", 0));
    c.model.aggregator = (enum sl_aggregator)word_of(model, "aggregator", aggregators, 3);
    c.model.activation = (enum sl_activation_kind)word_of(model, "activation", activations, 3);
    c.model.norm = (enum sl_norm_kind)word_of(model, "norm", norms, 3);
    c.model.jumping = (enum sl_jumping_kind)word_of(model, "jumping", jumpings, 4);
    c.model.heads = (uint32_t)number_of(model, "heads", 1);
    c.model.residual = number_of(model, "residual", 0) > 0;
    c.model.edge_features = number_of(model, "edge_features", 0) > 0;
    c.model.eps = number_of(model, "eps", 0);
    c.model.train_eps = number_of(model, "train_eps", 0) > 0;
    c.model.self_loops = number_of(model, "self_loops", 1) > 0;
    return c;
}

struct scene {
    const char *name;
    struct sl_model m;
    float *params;
};

// The model's tensors are those of the state_dict, in its order.
static void check_tensors(const struct golden *t, const struct scene *s)
{
    cJSON *tensors = cJSON_Parse(note(t, s->name, ".tensors"));
    ck_assert_int_eq(cJSON_GetArraySize(tensors), (int)s->m.n_tensors);
    for (uint32_t i = 0; i < s->m.n_tensors; i++) {
        const cJSON *wanted = cJSON_GetArrayItem(tensors, (int)i);
        const cJSON *shape = cJSON_GetArrayItem(wanted, 1);
        const struct sl_tensor *found = &s->m.tensor[i];
        ck_assert_str_eq(found->name, cJSON_GetArrayItem(wanted, 0)->valuestring);
        ck_assert_uint_eq(found->rank, (uint32_t)cJSON_GetArraySize(shape));
        for (uint32_t d = 0; d < found->rank; d++)
            ck_assert_uint_eq(found->shape[d],
                              (uint64_t)cJSON_GetArrayItem(shape, (int)d)->valuedouble);
    }
    cJSON_Delete(tensors);
}

static void scene_open(const struct golden *t, const char *name, const struct sl_kernels *kernels,
                       struct scene *s)
{
    cJSON *model = cJSON_Parse(note(t, name, ""));
    const struct sl_config c = config_of(model);
    cJSON_Delete(model);
    memset(s, 0, sizeof *s);
    s->name = name;
    ck_assert_msg(fixture_model_of(&s->m, &c, &t->g.ds, kernels) == SL_OK, "%s: %s", name,
                  sl_error_message());
    s->m.self_loops = &t->loops;
    check_tensors(t, s);
    s->params = array_of(t, name, "/params", s->m.n_params, NULL);
}

static void scene_close(struct scene *s)
{
    free(s->params);
    sl_model_fini(&s->m);
}

// A block over all neighbours, with in-degrees as a sampler writes them: without self-loops where
// the model adds its own.
static struct sl_block *block_of(const struct golden *t, const struct scene *s,
                                 const uint32_t *seeds, uint32_t n_seeds)
{
    static const int64_t all[] = {-1, -1, -1};
    struct sl_block *b = fixture_block(&t->g.ds, seeds, n_seeds, s->m.n_layers, all, 0, 0);
    uint32_t *degrees = (uint32_t *)(void *)((char *)b + b->degree_offset);
    for (uint32_t i = 0; i < b->n_input; i++)
        degrees[i] = (uint32_t)(s->m.layer[0].kind->needs_degrees && s->m.options.self_loops
                                    ? sl_self_loops_degree(&t->loops, sl_block_nodes(b)[i])
                                    : sl_dataset_degree(&t->g.ds, sl_block_nodes(b)[i]));
    return b;
}

static void compare(const char *name, const char *what, const float *found, const float *wanted,
                    uint64_t n)
{
    double largest = 1;
    for (uint64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)found[i] - (double)wanted[i]) <= TOLERANCE * largest,
                      "%s: %s[%llu]: found %.9g, wanted %.9g", name, what, (unsigned long long)i,
                      (double)found[i], (double)wanted[i]);
}

// ---- the comparisons ----------------------------------------------------------------------------

// The whole graph as one batch: loss, gradients and the batch's statistics.
static void check_train(const struct golden *t, const char *name, const struct sl_kernels *kernels)
{
    struct scene s;
    scene_open(t, name, kernels, &s);
    struct sl_block *b = block_of(t, &s, t->everybody, (uint32_t)t->g.ds.n_nodes);
    float *x = fixture_input(&t->g.ds, b);
    float *found = fixture_alloc(s.m.n_params * sizeof *found);
    struct sl_loss_result result;
    ck_assert_msg(sl_model_train(&s.m, s.params, sl_block_here(b), x, found, &result) == SL_OK,
                  "%s: %s", name, sl_error_message());
    float *loss = array_of(t, name, "/loss", 1, NULL);
    ck_assert_double_eq_tol(result.loss, (double)*loss, TOLERANCE * (double)*loss);
    ck_assert_uint_eq(result.counted, 10);
    float *wanted = array_of(t, name, "/gradient", s.m.n_params, NULL);
    for (uint32_t i = 0; i < s.m.n_tensors; i++) {
        const struct sl_tensor *tensor = &s.m.tensor[i];
        if (tensor->role != SL_TENSOR_FIXED)
            compare(name, tensor->name, found + tensor->offset, wanted + tensor->offset,
                    sl_tensor_count(tensor));
    }
    free(loss);
    free(wanted);
    free(found);
    free(x);
    free(b);
    scene_close(&s);
}

// A block of some seeds and all their neighbours, outside training.
static void check_forward(const struct golden *t, const char *name,
                          const struct sl_kernels *kernels)
{
    struct scene s;
    scene_open(t, name, kernels, &s);
    struct sl_block *b = block_of(t, &s, t->seeds, t->n_seeds);
    float *x = fixture_input(&t->g.ds, b), *logits;
    ck_assert_msg(sl_model_forward(&s.m, s.params, sl_block_here(b), x, false, &logits) == SL_OK,
                  "%s: %s", name, sl_error_message());
    const uint32_t classes = t->g.ds.n_classes;
    float *wanted = array_of(t, name, "/logits", t->g.ds.n_nodes * classes, NULL);
    for (uint32_t i = 0; i < t->n_seeds; i++)
        compare(name, "logits", logits + i * classes, wanted + t->seeds[i] * classes, classes);
    free(wanted);
    free(x);
    free(b);
    scene_close(&s);
}

// Layer-wise over all vertices, in cells of a few.
static void check_infer(const struct golden *t, const char *name, const struct sl_kernels *kernels)
{
    struct scene s;
    scene_open(t, name, kernels, &s);
    const struct sl_dataset *ds = &t->g.ds;
    const uint64_t n = ds->n_nodes, width = sl_jumping_width(&s.m.jumping);
    float *act[2];
    for (int i = 0; i < 2; i++)
        act[i] = fixture_alloc(n * 16 * sizeof(float));
    float *jumping = fixture_alloc(n * SL_MAX(width, (uint64_t)1) * sizeof(float));
    for (uint32_t l = 0; l < s.m.n_layers; l++) {
        const struct sl_infer_io io = {
            .x_dtype = SL_DTYPE_F32,
            .x = l ? act[(l - 1) & 1] : ds->feat,
            .y = act[l & 1],
            .jumping = width ? jumping : NULL,
        };
        for (uint64_t first = 0; first < n; first += 5) {
            const struct sl_infer_range range = {.first = first,
                                                 .n = (uint32_t)SL_MIN(n - first, (uint64_t)5)};
            for (int again = 0; again < 2; again++) // as when a trainer died in it
                ck_assert_msg(sl_evaluate_layer(&s.m, ds, s.params, l, &range, &io) == SL_OK,
                              "%s: %s", name, sl_error_message());
        }
    }
    float *wanted = array_of(t, name, "/logits", n * ds->n_classes, NULL);
    compare(name, "logits", act[(s.m.n_layers - 1) & 1], wanted, n * ds->n_classes);
    free(wanted);
    free(jumping);
    free(act[0]);
    free(act[1]);
    scene_close(&s);
}

static void for_all_cases(int i, void (*check)(const struct golden *t, const char *name,
                                               const struct sl_kernels *kernels))
{
    static struct golden t;
    golden_open(&t);
    const cJSON *one;
    cJSON_ArrayForEach(one, t.cases)
        check(&t, one->valuestring, i ? sl_kernels_cpu() : sl_kernels_ref());
    golden_close(&t);
}

LOOP_TEST(training_matches_pyg, 0, 2)
{
    for_all_cases(_i, check_train);
}

LOOP_TEST(blocks_outside_training_match_pyg, 0, 2)
{
    for_all_cases(_i, check_forward);
}

LOOP_TEST(inference_matches_pyg, 0, 2)
{
    for_all_cases(_i, check_infer);
}

RUN_TESTS(.timeout_s = 60)
