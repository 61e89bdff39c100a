// Models of graphs of several types against torch_geometric's classes:
// tests/golden/pyg_typed.safetensors, which make_pyg_typed.py wrote.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_golden.h"
#include "tests/unit/trainer_typed_naive.h"

enum { CLASSES = 4, ALL = 1000 };

static struct golden {
    struct typed_graph g;
    float *x[TYPED_TYPES], *labels;
    float *edge_attr[TYPED_RELATIONS]; // NULL: the relation's edges have none
    uint32_t edge_dim[TYPED_RELATIONS];
    uint32_t *seeds, n_seeds;
} t;

// Arrays of a relation.
static const char *named(const char *what, uint32_t relation)
{
    static char name[32];
    snprintf(name, sizeof name, "%s.%u", what, relation);
    return name;
}

static void setup(void)
{
    uint64_t n;
    golden_file_open("tests/golden/pyg_typed.safetensors");
    typed_graph_init(&t.g, 1);
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) { // in place of those that the fixture drew
        const uint32_t n_rows = t.g.type[t.g.relation[k].target].n;
        free(t.g.indptr[k]);
        free(t.g.indices[k]);
        t.g.indptr[k] = golden_numbers(named("indptr", k), "", &n);
        ck_assert_uint_eq(n, n_rows + 1);
        t.g.indices[k] = golden_numbers(named("indices", k), "", &n);
        t.edge_attr[k] = golden_find(named("edge_attr", k), "", &n);
        t.edge_dim[k] = t.edge_attr[k] ? (uint32_t)(n / t.g.indptr[k][n_rows]) : 0;
    }
    for (uint32_t k = 0; k < TYPED_TYPES; k++)
        t.x[k] = golden_find("x.", t.g.type[k].name, &n);
    t.labels = golden_array("labels", "", 0);
    t.seeds = golden_numbers("seeds", "", &n);
    t.n_seeds = (uint32_t)n;
}

static void teardown(void)
{
    for (uint32_t k = 0; k < TYPED_TYPES; k++)
        free(t.x[k]);
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
        free(t.edge_attr[k]);
    free(t.labels);
    free(t.seeds);
    typed_graph_fini(&t.g);
    sl_safetensors_close(&golden_file);
}

// ---- a case -------------------------------------------------------------------------------------

// A batch of the seeds with all their neighbours, and its features.
static struct sl_block *block_of(const struct sl_model *m, float **x)
{
    struct sl_block *b = typed_block(&t.g, t.seeds, t.n_seeds, m->n_layers, ALL, CLASSES, 0);
    int32_t *labels = (int32_t *)(void *)((char *)b + b->label_offset);
    for (uint32_t i = 0; i < t.n_seeds; i++)
        labels[i] = (int32_t)t.labels[t.seeds[i]];
    *x = typed_input(&t.g, b, 1);
    for (uint32_t k = 0; k < TYPED_TYPES; k++) {
        const struct sl_vertex_type *type = &t.g.type[k];
        const uint32_t *nodes = (const uint32_t *)(const void *)((char *)b + b->nodes_offset) +
                                sl_block_types(b)[k].first;
        float *to = *x + sl_typed_rows_at(b, &t.g.typed, k, SL_TYPED_F32) / sizeof **x;
        for (uint32_t i = 0; t.x[k] && type->feat_dim && i < sl_typed_block_rows(b, k); i++)
            memcpy(to + (uint64_t)i * type->feat_dim,
                   t.x[k] + (nodes[i] - type->first) * type->feat_dim, type->feat_dim * sizeof *to);
    }
    return b;
}

// The features of edges are read where the case asks for them, as of a data set.
static void read_edges(bool reads)
{
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        t.g.relation[k].feat_dim = reads ? t.edge_dim[k] : 0;
        t.g.relation[k].feat_dtype = SL_DTYPE_F32;
        t.g.relation[k].feat = reads ? t.edge_attr[k] : NULL;
        t.g.relation[k].n_edges = t.g.indptr[k][t.g.type[t.g.relation[k].target].n];
    }
}

static void check_case(const char *name, const struct sl_kernels *kernels)
{
    const struct sl_config c = golden_config(name);
    read_edges(c.model.edge_features);
    struct sl_model m;
    ck_assert_msg(sl_model_init(&m, &c, 0, &t.g.typed, fixture_objective(CLASSES), sl_device_host(),
                                kernels) == SL_OK,
                  "%s: %s", name, sl_error_message());
    golden_check_tensors(name, &m);
    uint64_t n;
    float *x, *params = golden_array(name, "/params", m.n_params);
    struct sl_block *b = block_of(&m, &x);
    const float *logits;
    struct sl_loss_result loss;
    ck_assert_int_eq(sl_model_evaluate(&m, params, sl_block_here(b), x, &loss, &logits), SL_OK);
    float *wanted = golden_array(name, "/logits", 0), *sum = golden_array(name, "/loss", 1);
    for (uint32_t i = 0; i < t.n_seeds; i++)
        golden_compare(name, "logits", logits + i * CLASSES, wanted + t.seeds[i] * CLASSES,
                       CLASSES);
    ck_assert_double_eq_tol(loss.loss, (double)*sum, TOLERANCE * (double)*sum);
    float *slope = golden_find(name, "/gradient", &n);
    float *found = fixture_alloc((m.n_params + 1) * sizeof *found);
    if (slope) {
        ck_assert_int_eq(sl_model_train(&m, params, sl_block_here(b), x, found, &loss), SL_OK);
        golden_compare_gradient(name, &m, found, slope, true);
    }
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
    golden_for_all("cases", 30, _i, check_case);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 120)
