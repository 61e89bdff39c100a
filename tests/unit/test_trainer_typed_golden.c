// Models of graphs of several types against torch_geometric's classes:
// tests/golden/pyg_typed.safetensors, which make_pyg_typed.py wrote.
#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/data/safetensors.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_typed_naive.h"

static const char FILE_NAME[] = "tests/golden/pyg_typed.safetensors"; // from the project's root

static const double TOLERANCE = 1e-5;

enum { CLASSES = 4, ALL = 1000 };

struct golden {
    struct sl_safetensors_file file;
    struct typed_graph g;
    float *x[TYPED_TYPES], *labels;
    float *edge_attr[TYPED_RELATIONS]; // NULL: the relation's edges have none
    uint32_t edge_dim[TYPED_RELATIONS];
    uint32_t seeds[TYPED_MOST], n_seeds;
};

// An array of the file, to be freed; NULL where there is none.
static float *array_of(const struct golden *t, const char *name, const char *what, uint64_t *n)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", name, what);
    const struct sl_safetensor *tensor = sl_safetensors_find(&t->file, key);
    if (!tensor)
        return NULL;
    *n = sl_safetensor_count(tensor);
    float *out = fixture_alloc((*n + 1) * sizeof *out);
    ck_assert_int_eq(sl_safetensor_floats(tensor, out), SL_OK);
    return out;
}

static cJSON *note(const struct golden *t, const char *name, const char *what)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", name, what);
    const char *text = sl_safetensors_note(&t->file, key);
    ck_assert_msg(text != NULL, "%s has no note %s", FILE_NAME, key);
    return cJSON_Parse(text);
}

// Numbers of a relation in place of those that the fixture drew.
static uint32_t *numbers(const struct golden *t, const char *what, uint32_t relation, uint64_t *n)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%u", what, relation);
    float *from = array_of(t, name, "", n);
    ck_assert_ptr_nonnull(from);
    uint32_t *out = fixture_alloc((*n + 1) * sizeof *out);
    for (uint64_t i = 0; i < *n; i++)
        out[i] = (uint32_t)from[i];
    free(from);
    return out;
}

static void golden_open(struct golden *t)
{
    uint64_t n;
    memset(t, 0, sizeof *t);
    ck_assert_msg(sl_safetensors_open(FILE_NAME, &t->file) == SL_OK,
                  "%s: run this in the project's root", sl_error_message());
    typed_graph_init(&t->g, 1);
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        free(t->g.indptr[k]);
        free(t->g.indices[k]);
        t->g.indptr[k] = numbers(t, "indptr", k, &n);
        ck_assert_uint_eq(n, t->g.type[t->g.relation[k].target].n + 1);
        t->g.indices[k] = numbers(t, "indices", k, &n);
    }
    for (uint32_t k = 0; k < TYPED_TYPES; k++)
        t->x[k] = array_of(t, "x.", t->g.type[k].name, &n);
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        char name[32];
        snprintf(name, sizeof name, "edge_attr.%u", k);
        t->edge_attr[k] = array_of(t, name, "", &n);
        const uint64_t n_edges = t->g.indptr[k][t->g.type[t->g.relation[k].target].n];
        t->edge_dim[k] = t->edge_attr[k] ? (uint32_t)(n / n_edges) : 0;
    }
    t->labels = array_of(t, "labels", "", &n);
    float *seeds = array_of(t, "seeds", "", &n);
    t->n_seeds = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++)
        t->seeds[i] = (uint32_t)seeds[i];
    free(seeds);
}

static void golden_close(struct golden *t)
{
    for (uint32_t k = 0; k < TYPED_TYPES; k++)
        free(t->x[k]);
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
        free(t->edge_attr[k]);
    free(t->labels);
    typed_graph_fini(&t->g);
    sl_safetensors_close(&t->file);
}

// ---- a case -------------------------------------------------------------------------------------

static int word_of(const cJSON *model, const char *key, const char *const *words, int n)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, key);
    for (int i = 0; item && i < n; i++)
        if (strcmp(item->valuestring, words[i]) == 0)
            return i;
    ck_assert_msg(item == NULL, "%s: unknown %s", FILE_NAME, key);
    return 0;
}

static uint32_t number_of(const cJSON *model, const char *key, uint32_t without)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, key);
    return item ? (uint32_t)item->valuedouble : without;
}

#define KIND(upper, lower) #lower,
static struct sl_config config_of(const cJSON *model)
{
    static const char *const kinds[] = {SL_MODEL_KINDS(KIND) SL_MODEL_TYPED_KINDS(KIND)};
    static const char *const activations[] = {"relu", "elu", "leaky_relu"};
    static const char *const norms[] = {"none", "batch", "layer"};
    static const char *const sums[] = {"sum", "mean"};
    struct sl_config c =
        fixture_config((enum sl_model_kind)word_of(model, "kind", kinds, SL_COUNT_OF(kinds)),
                       number_of(model, "layers", 0), number_of(model, "hidden", 0));
    c.model.activation = (enum sl_activation_kind)word_of(model, "activation", activations, 3);
    c.model.norm = (enum sl_norm_kind)word_of(model, "norm", norms, 3);
    c.model.relations = (enum sl_relations_kind)word_of(model, "relations", sums, 2);
    c.model.heads = number_of(model, "heads", 1);
    c.model.bases = number_of(model, "bases", 0);
    c.model.blocks = number_of(model, "blocks", 0);
    c.model.residual = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(model, "residual"));
    c.model.edge_features = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(model, "edge_features"));
    return c;
}

// The model's tensors are those of the state_dict, in its order.
static void check_tensors(const struct golden *t, const char *name, const struct sl_model *m)
{
    cJSON *tensors = note(t, name, ".tensors");
    ck_assert_int_eq(cJSON_GetArraySize(tensors), (int)m->n_tensors);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const cJSON *wanted = cJSON_GetArrayItem(tensors, (int)i);
        const cJSON *shape = cJSON_GetArrayItem(wanted, 1);
        const struct sl_tensor *found = &m->tensor[i];
        ck_assert_str_eq(found->name, cJSON_GetArrayItem(wanted, 0)->valuestring);
        ck_assert_uint_eq(found->rank, (uint32_t)cJSON_GetArraySize(shape));
        for (uint32_t d = 0; d < found->rank; d++)
            ck_assert_uint_eq(found->shape[d],
                              (uint64_t)cJSON_GetArrayItem(shape, (int)d)->valuedouble);
    }
    cJSON_Delete(tensors);
}

// A batch of the seeds with all their neighbours, and its features.
static struct sl_block *block_of(const struct golden *t, const struct sl_model *m, float **x)
{
    struct sl_block *b = typed_block(&t->g, t->seeds, t->n_seeds, m->n_layers, ALL, CLASSES, 0);
    int32_t *labels = (int32_t *)(void *)((char *)b + b->label_offset);
    for (uint32_t i = 0; i < t->n_seeds; i++)
        labels[i] = (int32_t)t->labels[t->seeds[i]];
    *x = typed_input(&t->g, b, 1);
    for (uint32_t k = 0; k < TYPED_TYPES; k++) {
        const struct sl_vertex_type *type = &t->g.type[k];
        const uint32_t *nodes = (const uint32_t *)(const void *)((char *)b + b->nodes_offset) +
                                sl_block_types(b)[k].first;
        float *to = *x + sl_typed_rows_at(b, &t->g.typed, k, SL_TYPED_F32) / sizeof **x;
        for (uint32_t i = 0; t->x[k] && type->feat_dim && i < sl_typed_block_rows(b, k); i++)
            memcpy(to + (uint64_t)i * type->feat_dim,
                   t->x[k] + (nodes[i] - type->first) * type->feat_dim,
                   type->feat_dim * sizeof *to);
    }
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

// The features of edges are read where the case asks for them, as of a data set.
static void read_edges(struct golden *t, bool reads)
{
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        t->g.relation[k].feat_dim = reads ? t->edge_dim[k] : 0;
        t->g.relation[k].feat_dtype = SL_DTYPE_F32;
        t->g.relation[k].feat = reads ? t->edge_attr[k] : NULL;
        t->g.relation[k].n_edges = t->g.indptr[k][t->g.type[t->g.relation[k].target].n];
    }
}

static void check_case(struct golden *t, const char *name, const struct sl_kernels *kernels)
{
    cJSON *model = note(t, name, "");
    const struct sl_config c = config_of(model);
    cJSON_Delete(model);
    read_edges(t, c.model.edge_features);
    struct sl_model m;
    ck_assert_msg(sl_model_init(&m, &c, 0, &t->g.typed, fixture_objective(CLASSES),
                                sl_device_host(), kernels) == SL_OK,
                  "%s: %s", name, sl_error_message());
    check_tensors(t, name, &m);
    uint64_t n;
    float *x, *params = array_of(t, name, "/params", &n);
    ck_assert_uint_eq(n, m.n_params);
    struct sl_block *b = block_of(t, &m, &x);
    const float *logits;
    struct sl_loss_result loss;
    ck_assert_int_eq(sl_model_evaluate(&m, params, sl_block_here(b), x, &loss, &logits), SL_OK);
    float *wanted = array_of(t, name, "/logits", &n), *sum = array_of(t, name, "/loss", &n);
    for (uint32_t i = 0; i < t->n_seeds; i++)
        compare(name, "logits", logits + i * CLASSES, wanted + t->seeds[i] * CLASSES, CLASSES);
    ck_assert_double_eq_tol(loss.loss, (double)*sum, TOLERANCE * (double)*sum);
    float *slope = array_of(t, name, "/gradient", &n);
    float *found = fixture_alloc((m.n_params + 1) * sizeof *found);
    if (slope)
        ck_assert_int_eq(sl_model_train(&m, params, sl_block_here(b), x, found, &loss), SL_OK);
    for (uint32_t i = 0; slope && i < m.n_tensors; i++)
        compare(name, m.tensor[i].name, found + m.tensor[i].offset, slope + m.tensor[i].offset,
                sl_tensor_count(&m.tensor[i]));
    free(found);
    free(slope);
    free(sum);
    free(wanted);
    free(params);
    free(x);
    free(b);
    sl_model_fini(&m);
}

LOOP_TEST(logits_and_gradients_match_torch_geometric, 0, 2)
{
    static struct golden t;
    golden_open(&t);
    cJSON *cases = note(&t, "cases", "");
    ck_assert_int_gt(cJSON_GetArraySize(cases), 30);
    const cJSON *one;
    cJSON_ArrayForEach(one, cases)
    {
        check_case(&t, one->valuestring, _i ? sl_kernels_cpu() : sl_kernels_ref());
    }
    cJSON_Delete(cases);
    golden_close(&t);
}

RUN_TESTS(.timeout_s = 120)
