// Models against PyTorch Geometric's: tests/golden/pyg.safetensors, which make_pyg.py wrote.
#include "common/data/self_loops.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_golden.h"
#include "trainer/infer/evaluate.h"

static struct golden {
    struct fixture_graph g;
    struct sl_self_loops loops;
    uint32_t *everybody; // vertices in an order that is not theirs
    uint32_t *seeds, n_seeds;
} t;

static void load_graph(void)
{
    uint64_t n, n_edges, n_x, n_edge_x;
    uint32_t *indptr = golden_numbers("", "indptr", &n);
    uint32_t *indices = golden_numbers("", "indices", &n_edges);
    float *x = golden_find("", "x", &n_x), *edge_x = golden_find("", "edge_x", &n_edge_x);
    n--;
    float *labels = golden_array("", "labels", n);
    t.g = fixture_graph((uint32_t)n, (uint32_t)(n_x / n), 3, 1);
    for (uint64_t v = 0; v <= n; v++)
        t.g.indptr[v] = indptr[v];
    t.g.ds.n_edges = n_edges;
    memcpy(t.g.indices, indices, n_edges * sizeof *indices);
    memcpy(t.g.feat, x, n_x * sizeof *x);
    fixture_add_edge_features(&t.g, (uint32_t)(n_edge_x / n_edges), 1);
    memcpy(t.g.edge_feat, edge_x, n_edge_x * sizeof *edge_x);
    t.everybody = fixture_alloc(n * sizeof *t.everybody);
    for (uint64_t v = 0; v < n; v++) {
        t.g.label[v] = (int32_t)labels[v];
        t.everybody[v] = (uint32_t)((v * 5 + 3) % n);
    }
    free(indptr);
    free(indices);
    free(x);
    free(labels);
    free(edge_x);
}

static void setup(void)
{
    uint64_t n;
    golden_file_open("tests/golden/pyg.safetensors");
    load_graph();
    t.seeds = golden_numbers("", "seeds", &n);
    t.n_seeds = (uint32_t)n;
    ck_assert_int_eq(sl_self_loops_find(&t.g.ds, 1, &t.loops), SL_OK);
    ck_assert_uint_eq(t.loops.n_vertices, 4); // the graph has some
}

static void teardown(void)
{
    sl_self_loops_free(&t.loops);
    free(t.everybody);
    free(t.seeds);
    fixture_graph_free(&t.g);
    sl_safetensors_close(&golden_file);
}

// ---- a case's model -----------------------------------------------------------------------------

struct scene {
    const char *name;
    struct sl_model m;
    float *params;
};

static void scene_open(const char *name, const struct sl_kernels *kernels, struct scene *s)
{
    const struct sl_config c = golden_config(name);
    memset(s, 0, sizeof *s);
    s->name = name;
    ck_assert_msg(fixture_model_of(&s->m, &c, &t.g.ds, kernels) == SL_OK, "%s: %s", name,
                  sl_error_message());
    s->m.self_loops = &t.loops;
    golden_check_tensors(name, &s->m);
    s->params = golden_array(name, "/params", s->m.n_params);
}

static void scene_close(struct scene *s)
{
    free(s->params);
    sl_model_fini(&s->m);
}

// A block over all neighbours, with in-degrees as a sampler writes them: without self-loops where
// the model adds its own.
static struct sl_block *block_of(const struct scene *s, const uint32_t *seeds, uint32_t n_seeds)
{
    static const int64_t all[] = {-1, -1, -1};
    struct sl_block *b = fixture_block(&t.g.ds, seeds, n_seeds, s->m.n_layers, all, 0, 0);
    uint32_t *degrees = (uint32_t *)(void *)((char *)b + b->degree_offset);
    for (uint32_t i = 0; i < b->n_input; i++)
        degrees[i] = (uint32_t)(s->m.layer[0].kind->needs_degrees && s->m.options.self_loops
                                    ? sl_self_loops_degree(&t.loops, sl_block_nodes(b)[i])
                                    : sl_dataset_degree(&t.g.ds, sl_block_nodes(b)[i]));
    return b;
}

// ---- the comparisons ----------------------------------------------------------------------------

// The whole graph as one batch: loss, gradients and the batch's statistics.
static void check_train(const char *name, const struct sl_kernels *kernels)
{
    struct scene s;
    scene_open(name, kernels, &s);
    struct sl_block *b = block_of(&s, t.everybody, (uint32_t)t.g.ds.n_nodes);
    float *x = fixture_input(&t.g.ds, b);
    float *found = fixture_alloc(s.m.n_params * sizeof *found);
    struct sl_loss_result result;
    ck_assert_msg(sl_model_train(&s.m, s.params, sl_block_here(b), x, found, &result) == SL_OK,
                  "%s: %s", name, sl_error_message());
    float *loss = golden_array(name, "/loss", 1);
    ck_assert_double_eq_tol(result.loss, (double)*loss, TOLERANCE * (double)*loss);
    ck_assert_uint_eq(result.counted, 10);
    float *wanted = golden_array(name, "/gradient", s.m.n_params);
    golden_compare_gradient(name, &s.m, found, wanted, false);
    free(loss);
    free(wanted);
    free(found);
    free(x);
    free(b);
    scene_close(&s);
}

// A block of some seeds and all their neighbours, outside training.
static void check_forward(const char *name, const struct sl_kernels *kernels)
{
    struct scene s;
    scene_open(name, kernels, &s);
    struct sl_block *b = block_of(&s, t.seeds, t.n_seeds);
    float *x = fixture_input(&t.g.ds, b), *logits;
    ck_assert_msg(sl_model_forward(&s.m, s.params, sl_block_here(b), x, false, &logits) == SL_OK,
                  "%s: %s", name, sl_error_message());
    const uint32_t classes = t.g.ds.n_classes;
    float *wanted = golden_array(name, "/logits", t.g.ds.n_nodes * classes);
    for (uint32_t i = 0; i < t.n_seeds; i++)
        golden_compare(name, "logits", logits + i * classes, wanted + t.seeds[i] * classes,
                       classes);
    free(wanted);
    free(x);
    free(b);
    scene_close(&s);
}

// Layer-wise over all vertices, in cells of a few.
static void check_infer(const char *name, const struct sl_kernels *kernels)
{
    struct scene s;
    scene_open(name, kernels, &s);
    const struct sl_dataset *ds = &t.g.ds;
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
    float *wanted = golden_array(name, "/logits", n * ds->n_classes);
    golden_compare(name, "logits", act[(s.m.n_layers - 1) & 1], wanted, n * ds->n_classes);
    free(wanted);
    free(jumping);
    free(act[0]);
    free(act[1]);
    scene_close(&s);
}

LOOP_TEST(training_matches_pyg, 0, 2)
{
    golden_for_all("cases", 100, _i, check_train);
}

LOOP_TEST(blocks_outside_training_match_pyg, 0, 2)
{
    golden_for_all("cases", 100, _i, check_forward);
}

LOOP_TEST(inference_matches_pyg, 0, 2)
{
    golden_for_all("cases", 100, _i, check_infer);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 60)
