// Models against PyTorch Geometric's, from the vectors in tests/golden/layers.json.
#include <check.h>
#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/evaluate.h"

static const char FILE_NAME[] = "tests/golden/layers.json"; // tests run in the project's root

static cJSON *load(void)
{
    FILE *f = fopen(FILE_NAME, "rb");
    ck_assert_msg(f != NULL, "%s is missing: run this in the project's root", FILE_NAME);
    char *text = fixture_alloc(1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    ck_assert_uint_gt(n, 0);
    cJSON *json = cJSON_Parse(text);
    ck_assert_msg(json != NULL, "%s is not JSON", FILE_NAME);
    free(text);
    return json;
}

static const cJSON *get(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    ck_assert_msg(item != NULL, "%s has no key %s", FILE_NAME, key);
    return item;
}

static uint32_t get_u32(const cJSON *json, const char *key)
{
    return (uint32_t)get(json, key)->valuedouble;
}

// The numbers of an array; to be freed.
static double *get_numbers(const cJSON *json, const char *key, uint64_t *n)
{
    const cJSON *array = get(json, key), *item;
    double *out = fixture_alloc((size_t)cJSON_GetArraySize(array) * sizeof *out);
    *n = 0;
    cJSON_ArrayForEach(item, array) out[(*n)++] = item->valuedouble;
    return out;
}

struct golden {
    cJSON *json;
    struct fixture_graph g;
    uint32_t hidden;
    uint32_t seeds[64], n_seeds;
};

static struct golden golden_load(void)
{
    struct golden t = {.json = load()};
    uint32_t n = get_u32(t.json, "nodes"), features = get_u32(t.json, "features");
    t.g = fixture_graph(n, features, get_u32(t.json, "classes"), 1);
    t.hidden = get_u32(t.json, "hidden");
    uint64_t k;
    double *v = get_numbers(t.json, "indptr", &k);
    ck_assert_uint_eq(k, n + 1);
    for (uint64_t i = 0; i < k; i++)
        t.g.indptr[i] = (uint64_t)v[i];
    free(v);
    v = get_numbers(t.json, "indices", &k);
    ck_assert_uint_eq(k, t.g.indptr[n]);
    t.g.ds.n_edges = k;
    for (uint64_t i = 0; i < k; i++)
        t.g.indices[i] = (uint32_t)v[i];
    free(v);
    v = get_numbers(t.json, "x", &k);
    ck_assert_uint_eq(k, (uint64_t)n * features);
    for (uint64_t i = 0; i < k; i++)
        t.g.feat[i] = (float)v[i];
    free(v);
    v = get_numbers(t.json, "labels", &k);
    for (uint64_t i = 0; i < k; i++)
        t.g.label[i] = (int32_t)v[i];
    free(v);
    v = get_numbers(t.json, "seeds", &k);
    t.n_seeds = (uint32_t)k;
    for (uint64_t i = 0; i < k; i++)
        t.seeds[i] = (uint32_t)v[i];
    free(v);
    return t;
}

static struct sl_config config_of(const struct golden *t, const cJSON *one)
{
    bool gcn = strcmp(get(one, "model")->valuestring, "gcn") == 0;
    return fixture_config(gcn ? SL_MODEL_GCN : SL_MODEL_GRAPHSAGE, get_u32(one, "layers"),
                          t->hidden);
}

// Initialises the model and checks that its tensors are those of the state_dict.
static float *model_of(const struct golden *t, const cJSON *one, const struct sl_kernels *kernels,
                       struct sl_model *m)
{
    struct sl_config c = config_of(t, one);
    ck_assert_int_eq(sl_model_init(m, &c, t->g.ds.feat_dim, t->g.ds.n_classes, kernels), SL_OK);
    const cJSON *tensors = get(one, "tensors"), *tensor;
    ck_assert_int_eq(cJSON_GetArraySize(tensors), (int)m->n_tensors);
    uint32_t i = 0;
    cJSON_ArrayForEach(tensor, tensors)
    {
        ck_assert_str_eq(get(tensor, "name")->valuestring, m->tensor[i].name);
        uint64_t rank;
        double *shape = get_numbers(tensor, "shape", &rank);
        ck_assert_uint_eq(rank, m->tensor[i].rank);
        for (uint64_t d = 0; d < rank; d++)
            ck_assert_uint_eq((uint64_t)shape[d], m->tensor[i].shape[d]);
        free(shape);
        i++;
    }
    uint64_t n;
    double *values = get_numbers(one, "params", &n);
    ck_assert_uint_eq(n, m->n_params);
    float *params = fixture_alloc(n * sizeof *params);
    for (uint64_t p = 0; p < n; p++)
        params[p] = (float)values[p];
    free(values);
    return params;
}

static void check_train(const struct golden *t, const cJSON *one, const struct sl_kernels *kernels)
{
    static const int64_t all[] = {-1, -1, -1};
    struct sl_model m;
    float *params = model_of(t, one, kernels, &m);
    struct sl_block *b = fixture_block(&t->g.ds, t->seeds, t->n_seeds, m.n_layers, all, 0, 0);
    float *x = fixture_input(&t->g.ds, b);
    float *gradient = fixture_alloc(m.n_params * sizeof *gradient);
    struct sl_model_result result;
    ck_assert_int_eq(sl_model_train(&m, params, b, x, gradient, &result), SL_OK);
    ck_assert_double_eq_tol(result.loss, get(one, "loss")->valuedouble, 1e-4);
    uint64_t n;
    double *wanted = get_numbers(one, "gradient", &n);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_double_eq_tol(gradient[i], wanted[i], 1e-4);
    free(wanted);
    wanted = get_numbers(one, "logits", &n);
    float *logits;
    ck_assert_int_eq(sl_model_forward(&m, params, b, x, false, &logits), SL_OK);
    uint32_t classes = t->g.ds.n_classes;
    for (uint32_t i = 0; i < t->n_seeds; i++)
        for (uint32_t c = 0; c < classes; c++)
            ck_assert_double_eq_tol(logits[i * classes + c], wanted[t->seeds[i] * classes + c],
                                    1e-4);
    free(wanted);
    free(gradient);
    free(x);
    free(b);
    free(params);
    sl_model_fini(&m);
}

static void check_infer(const struct golden *t, const cJSON *one, const struct sl_kernels *kernels)
{
    struct sl_model m;
    float *params = model_of(t, one, kernels, &m);
    const struct sl_dataset *ds = &t->g.ds;
    uint64_t width = SL_MAX(t->hidden, ds->n_classes), n;
    float *act[2];
    for (int i = 0; i < 2; i++)
        act[i] = fixture_alloc(ds->n_nodes * width * sizeof(float));
    const struct sl_infer_range all = {.n = (uint32_t)ds->n_nodes};
    for (uint32_t l = 0; l < m.n_layers; l++) {
        const struct sl_infer_io io = {
            .x_dtype = SL_DTYPE_F32, .x = l ? act[(l - 1) & 1] : ds->feat, .y = act[l & 1]};
        ck_assert_int_eq(sl_evaluate_layer(&m, ds, params, l, &all, &io), SL_OK);
    }
    double *wanted = get_numbers(one, "logits", &n);
    ck_assert_uint_eq(n, ds->n_nodes * ds->n_classes);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_double_eq_tol(act[(m.n_layers - 1) & 1][i], wanted[i], 1e-4);
    free(wanted);
    free(act[0]);
    free(act[1]);
    free(params);
    sl_model_fini(&m);
}

static const struct sl_kernels *table(int i)
{
    return i ? sl_kernels_cpu() : sl_kernels_ref();
}

START_TEST(training_matches_pyg)
{
    struct golden t = golden_load();
    const cJSON *one;
    cJSON_ArrayForEach(one, get(t.json, "cases")) check_train(&t, one, table(_i));
    cJSON_Delete(t.json);
    fixture_graph_free(&t.g);
}
END_TEST

START_TEST(inference_matches_pyg)
{
    struct golden t = golden_load();
    const cJSON *one;
    cJSON_ArrayForEach(one, get(t.json, "cases")) check_infer(&t, one, table(_i));
    cJSON_Delete(t.json);
    fixture_graph_free(&t.g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer golden");
    TCase *tc = tcase_create("golden");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, training_matches_pyg, 0, 2);
    tcase_add_loop_test(tc, inference_matches_pyg, 0, 2);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
