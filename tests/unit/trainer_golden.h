// trainer_golden.h - models beside those of PyTorch Geometric: reading what tests/golden has of
// them, and comparing.
#ifndef SL_TESTS_UNIT_TRAINER_GOLDEN_H
#define SL_TESTS_UNIT_TRAINER_GOLDEN_H

#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/data/safetensors.h"
#include "tests/unit/trainer_fixture.h"

// A float32 sum of a few hundred terms of size 1, against the same in double precision.
#define TOLERANCE 1e-5

static struct sl_safetensors_file golden_file;

static inline void golden_file_open(const char *path)
{
    ck_assert_msg(sl_safetensors_open(path, &golden_file) == SL_OK,
                  "%s: run this in the project's root", sl_error_message());
}

// The JSON of note NAMEWHAT, to be deleted.
static inline cJSON *golden_note(const char *name, const char *what)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", name, what);
    const char *text = sl_safetensors_note(&golden_file, key);
    ck_assert_msg(text != NULL, "no note %s", key);
    return cJSON_Parse(text);
}

// Array NAMEWHAT as *n floats, to be freed; NULL where there is none.
static inline float *golden_find(const char *name, const char *what, uint64_t *n)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", name, what);
    const struct sl_safetensor *tensor = sl_safetensors_find(&golden_file, key);
    if (!tensor)
        return NULL;
    *n = sl_safetensor_count(tensor);
    float *out = fixture_alloc((*n + 1) * sizeof *out);
    ck_assert_int_eq(sl_safetensor_floats(tensor, out), SL_OK);
    return out;
}

// An array that has to be there, of n floats unless n is 0.
static inline float *golden_array(const char *name, const char *what, uint64_t n)
{
    uint64_t found = 0;
    float *out = golden_find(name, what, &found);
    ck_assert_msg(out != NULL, "no tensor %s%s", name, what);
    if (n)
        ck_assert_uint_eq(found, n);
    return out;
}

// The same as whole numbers, how many of them in *n.
static inline uint32_t *golden_numbers(const char *name, const char *what, uint64_t *n)
{
    float *from = golden_find(name, what, n);
    ck_assert_msg(from != NULL, "no tensor %s%s", name, what);
    uint32_t *out = fixture_alloc((*n + 1) * sizeof *out);
    for (uint64_t i = 0; i < *n; i++)
        out[i] = (uint32_t)from[i];
    free(from);
    return out;
}

// ---- a case's model -----------------------------------------------------------------------------

static inline int golden_word(const cJSON *model, const char *key, const char *const *words, int n)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, key);
    for (int i = 0; item && i < n; i++)
        if (strcmp(item->valuestring, words[i]) == 0)
            return i;
    ck_assert_msg(item == NULL, "unknown %s", key);
    return 0;
}

static inline double golden_number(const cJSON *model, const char *key, double without)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(model, key);
    return item ? (cJSON_IsBool(item) ? cJSON_IsTrue(item) : item->valuedouble) : without;
}

#define GOLDEN_KIND(upper, lower) #lower,
// Words are in the order of the enumerations of config.h.
static inline struct sl_config golden_config(const char *name)
{
    static const char *const kinds[] = {SL_MODEL_KINDS(GOLDEN_KIND)
                                            SL_MODEL_TYPED_KINDS(GOLDEN_KIND)};
    static const char *const aggregators[] = {"mean", "max", "gcn"};
    static const char *const activations[] = {"relu", "elu", "leaky_relu"};
    static const char *const norms[] = {"none", "batch", "layer"};
    static const char *const jumpings[] = {"none", "last", "cat", "max"};
    static const char *const sums[] = {"sum", "mean"};
    cJSON *model = golden_note(name, "");
    struct sl_config c = fixture_config(
        (enum sl_model_kind)golden_word(model, "kind", kinds, SL_COUNT_OF(kinds)),
        (uint32_t)golden_number(model, "layers", 0), (uint32_t)golden_number(model, "hidden", 0));
    c.model.aggregator = (enum sl_aggregator)golden_word(model, "aggregator", aggregators, 3);
    c.model.activation = (enum sl_activation_kind)golden_word(model, "activation", activations, 3);
    c.model.norm = (enum sl_norm_kind)golden_word(model, "norm", norms, 3);
    c.model.jumping = (enum sl_jumping_kind)golden_word(model, "jumping", jumpings, 4);
    c.model.relations = (enum sl_relations_kind)golden_word(model, "relations", sums, 2);
    c.model.heads = (uint32_t)golden_number(model, "heads", 1);
    c.model.bases = (uint32_t)golden_number(model, "bases", 0);
    c.model.blocks = (uint32_t)golden_number(model, "blocks", 0);
    c.model.residual = golden_number(model, "residual", 0) > 0;
    c.model.edge_features = golden_number(model, "edge_features", 0) > 0;
    c.model.eps = golden_number(model, "eps", 0);
    c.model.train_eps = golden_number(model, "train_eps", 0) > 0;
    c.model.self_loops = golden_number(model, "self_loops", 1) > 0;
    cJSON_Delete(model);
    return c;
}

// ---- comparing ----------------------------------------------------------------------------------

// The model's tensors are those of the state_dict, in its order.
static inline void golden_check_tensors(const char *name, const struct sl_model *m)
{
    cJSON *tensors = golden_note(name, ".tensors");
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

static inline void golden_compare(const char *name, const char *what, const float *found,
                                  const float *wanted, uint64_t n)
{
    double largest = 1;
    for (uint64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)found[i] - (double)wanted[i]) <= TOLERANCE * largest,
                      "%s: %s[%llu]: found %.9g, wanted %.9g", name, what, (unsigned long long)i,
                      (double)found[i], (double)wanted[i]);
}

// Gradients of learned tensors, and what is there of the others where the file has it.
static inline void golden_compare_gradient(const char *name, const struct sl_model *m,
                                           const float *found, const float *wanted, bool has_fixed)
{
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct sl_tensor *tensor = &m->tensor[i];
        if (has_fixed || tensor->role != SL_TENSOR_FIXED)
            golden_compare(name, tensor->name, found + tensor->offset, wanted + tensor->offset,
                           sl_tensor_count(tensor));
    }
}

// check() of each of the file's cases, of which there are more than that many.
static inline void golden_for_all(const char *list, int more_than, int i,
                                  void (*check)(const char *name, const struct sl_kernels *kernels))
{
    cJSON *cases = golden_note(list, "");
    ck_assert_int_gt(cJSON_GetArraySize(cases), more_than);
    const cJSON *one;
    cJSON_ArrayForEach(one, cases)
    {
        check(one->valuestring, i ? sl_kernels_cpu() : sl_kernels_ref());
    }
    cJSON_Delete(cases);
}

#endif
