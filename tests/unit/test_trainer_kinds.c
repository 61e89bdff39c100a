// Every kind of layer with its options: gradients against finite differences of the naive models,
// and layer-wise inference against whole-graph blocks.

#include "common/base/error.h"
#include "common/data/self_loops.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_naive.h"
#include "trainer/infer/evaluate.h"
#include "trainer/model/sources.h"

enum { NODES = 40, FEATURES = 6, HIDDEN = 8, CLASSES = 3, SEEDS = 9 };

static const int64_t FANOUT[] = {4, 3, 2};
static const int64_t ALL[] = {-1, -1, -1};
// The hub, one whose only in-edge is a self-loop (4), one without any (39), one unlabelled (5)
static const uint32_t SEED_IDS[SEEDS] = {7, 0, 13, 4, 22, 39, 5, 1, 30};

struct variant {
    enum sl_model_kind kind;
    enum sl_aggregator aggregator;
    enum sl_degrees_kind degrees;
    bool no_loops; // model.self_loops false
    uint32_t heads;
    bool residual, train_eps, edges;
    double eps;
    enum sl_activation_kind activation;
    enum sl_layer_order order;
};

static const struct variant VARIANTS[] = {
    {.kind = SL_MODEL_GRAPHSAGE},
    {.kind = SL_MODEL_GRAPHSAGE, .order = SL_LAYER_AGGREGATE_FIRST},
    {.kind = SL_MODEL_GRAPHSAGE, .order = SL_LAYER_TRANSFORM_FIRST},
    {.kind = SL_MODEL_GRAPHSAGE, .activation = SL_CONFIG_ELU},
    {.kind = SL_MODEL_GRAPHSAGE, .aggregator = SL_AGGREGATOR_MAX},
    {.kind = SL_MODEL_GRAPHSAGE, .aggregator = SL_AGGREGATOR_GCN},
    {.kind = SL_MODEL_GCN},
    {.kind = SL_MODEL_GCN, .order = SL_LAYER_AGGREGATE_FIRST},
    {.kind = SL_MODEL_GCN, .order = SL_LAYER_TRANSFORM_FIRST},
    {.kind = SL_MODEL_GCN, .no_loops = true},
    {.kind = SL_MODEL_GCN, .degrees = SL_DEGREES_BLOCK},
    {.kind = SL_MODEL_GCN, .degrees = SL_DEGREES_BLOCK, .no_loops = true},
    {.kind = SL_MODEL_GAT, .heads = 1},
    {.kind = SL_MODEL_GAT, .heads = 2, .activation = SL_CONFIG_ELU},
    {.kind = SL_MODEL_GAT, .heads = 4, .residual = true},
    {.kind = SL_MODEL_GATV2, .heads = 1},
    {.kind = SL_MODEL_GATV2, .heads = 2, .activation = SL_CONFIG_ELU},
    {.kind = SL_MODEL_GATV2, .heads = 4, .residual = true},
    {.kind = SL_MODEL_GAT, .heads = 2, .edges = true, .residual = true},
    {.kind = SL_MODEL_GATV2, .heads = 2, .edges = true, .residual = true},
    {.kind = SL_MODEL_GIN},
    {.kind = SL_MODEL_GIN, .degrees = SL_DEGREES_BLOCK},
    {.kind = SL_MODEL_GIN, .train_eps = true, .eps = 0.25, .activation = SL_CONFIG_LEAKY_RELU},
    {.kind = SL_MODEL_PINSAGE},
};

static struct sl_config config_of(const struct variant *v, uint32_t layers)
{
    struct sl_config c = fixture_config(v->kind, layers, HIDDEN);
    c.model.aggregator = v->aggregator;
    c.model.degrees = v->degrees;
    c.model.self_loops = !v->no_loops;
    c.model.heads = v->heads ? v->heads : 1;
    c.model.residual = v->residual;
    c.model.edge_features = v->edges;
    c.model.train_eps = v->train_eps;
    c.model.eps = v->eps;
    c.model.activation = v->activation;
    return c;
}

struct scene {
    struct fixture_graph g;
    struct sl_config config;
    struct sl_block *block;
    float *x, *kept; // the model masks its input in place
    struct sl_model model;
    float *params, *gradient;
};

static struct fixture_graph graph_with_loops(void)
{
    struct fixture_graph g = fixture_graph(NODES, FEATURES, CLASSES, 5);
    fixture_add_loops(&g);
    return g;
}

// Degrees count own loops unless the model adds its own.
static void fix_degrees(struct sl_block *b, const struct sl_config *c, const struct sl_dataset *ds)
{
    uint32_t *degrees = (uint32_t *)(void *)((char *)b + b->degree_offset);
    for (uint32_t i = 0; !sl_config_drops_self_loops(c) && i < b->n_input; i++)
        degrees[i] = (uint32_t)sl_dataset_degree(ds, sl_block_nodes(b)[i]);
}

// The first of CPU kernels with two threads are the reference's.
static const struct sl_kernels *table(int i)
{
    sl_kernels_set_threads(2);
    return i ? sl_kernels_cpu() : sl_kernels_ref();
}

static void scene_of(struct scene *s, struct fixture_graph g, const struct sl_config *c,
                     const uint32_t *seeds, uint32_t n_seeds, const int64_t *fanout,
                     const struct sl_kernels *kernels)
{
    if (c->model.edge_features)
        fixture_add_edge_features(&g, 3, 23);
    *s = (struct scene){.g = g, .config = *c};
    s->block = fixture_block(&g.ds, seeds, n_seeds, c->model.layers, fanout, 3, 17);
    fix_degrees(s->block, c, &g.ds);
    s->x = fixture_input(&g.ds, s->block);
    s->kept = fixture_input(&g.ds, s->block);
    ck_assert_int_eq(fixture_model_of(&s->model, c, &g.ds, kernels), SL_OK);
    s->params = fixture_params(&s->model, 11);
    s->gradient = fixture_alloc(s->model.n_params * sizeof *s->gradient);
}

static void scene_free(struct scene *s)
{
    sl_model_fini(&s->model);
    free(s->params);
    free(s->gradient);
    free(s->x);
    free(s->kept);
    free(s->block);
    fixture_graph_free(&s->g);
}

static void assert_near(const char *what, uint64_t i, double found, double wanted, double tolerance)
{
    ck_assert_msg(fabs(found - wanted) <= tolerance * fmax(1, fabs(wanted)),
                  "%s[%llu]: found %.9g, wanted %.9g", what, (unsigned long long)i, found, wanted);
}

static const struct sl_tensor *tensor_at(const struct sl_model *m, uint64_t i)
{
    for (uint32_t t = 0; t < m->n_tensors; t++)
        if (i >= m->tensor[t].offset && i - m->tensor[t].offset < sl_tensor_count(&m->tensor[t]))
            return &m->tensor[t];
    ck_abort_msg("parameter %llu is of no tensor", (unsigned long long)i);
}

static void check_against_naive(struct scene *s, enum sl_layer_order order)
{
    for (uint32_t l = 0; l < s->model.n_layers; l++)
        s->model.layer[l].order = order;
    struct naive naive = naive_make(&s->config, &s->g.ds, s->block, s->kept, true);
    struct sl_loss_result result;
    ck_assert_int_eq(
        sl_model_train(&s->model, s->params, sl_block_here(s->block), s->x, s->gradient, &result),
        SL_OK);
    double *p = fixture_alloc(s->model.n_params * sizeof *p);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        p[i] = s->params[i];
    assert_near("loss", 0, result.loss, naive_loss(&naive, p), 1e-5);
    double *wanted = naive_gradient(&naive, s->params, s->model.n_params);
    for (uint64_t i = 0; i < s->model.n_params; i++) {
        const struct sl_tensor *t = tensor_at(&s->model, i);
        assert_near(t->name, i - t->offset, s->gradient[i],
                    t->role == SL_TENSOR_FIXED ? 0 : wanted[i], 2e-4);
    }
    free(wanted);
    free(p);
    naive_free(&naive);
}

LOOP_TEST(gradients_of_sampled_blocks, 0, SL_COUNT_OF(VARIANTS))
{
    for (uint32_t layers = 1; layers <= 3; layers++)
        for (int back = 0; back < 2; back++) {
            struct sl_config c = config_of(&VARIANTS[_i], layers);
            c.model.dropout = 0.4;
            c.model.input_dropout = 0.25;
            c.model.attention_dropout = 0.3;
            struct scene s;
            scene_of(&s, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(back));
            check_against_naive(&s, VARIANTS[_i].order);
            scene_free(&s);
        }
}

LOOP_TEST(gradients_under_visits, 0, SL_COUNT_OF(VARIANTS))
{
    if (VARIANTS[_i].edges) // what walks meet has none
        return;
    for (int back = 0; back < 2; back++) {
        struct sl_config c = config_of(&VARIANTS[_i], 2);
        struct scene s;
        scene_of(&s, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(back));
        s.block = fixture_weigh(s.block, 9, 77);
        check_against_naive(&s, VARIANTS[_i].order);
        scene_free(&s);
    }
}

// --- learned rows ---

// The last `dim` columns of the scene's features as learned rows, those before as the file's.
struct learned {
    struct sl_config config;
    struct sl_model model;
    uint32_t from, dim;
    float *rows, *feat; // (n_nodes, dim), (n_nodes, from)
    float *x;           // (n_input, from) of the block
    float *gradient;    // (n_input, dim) of the rows
};

static void learned_of(struct learned *l, const struct scene *s, uint32_t dim)
{
    const struct sl_dataset *ds = &s->g.ds;
    const uint32_t n_input = s->block->n_input, from = FEATURES - dim;
    *l = (struct learned){.config = s->config, .from = from, .dim = dim};
    l->config.features.kind = from ? SL_INPUT_OF_BOTH : SL_INPUT_LEARNED;
    l->config.features.dim = dim;
    l->rows = fixture_alloc(ds->n_nodes * dim * sizeof *l->rows);
    l->feat = fixture_alloc(ds->n_nodes * from * sizeof *l->feat);
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        memcpy(l->rows + v * dim, s->g.feat + v * FEATURES + from, dim * sizeof *l->rows);
        memcpy(l->feat + v * from, s->g.feat + v * FEATURES, from * sizeof *l->feat);
    }
    struct sl_dataset file = *ds;
    file.feat_dim = from;
    file.feat = l->feat;
    l->x = fixture_input(&file, s->block);
    l->gradient = fixture_alloc((uint64_t)n_input * dim * sizeof *l->gradient);
    ck_assert_int_eq(fixture_model_of(&l->model, &l->config, &file, sl_kernels_cpu()), SL_OK);
    ck_assert_uint_eq(l->model.n_params, s->model.n_params);
    l->model.learned.n_rows = ds->n_nodes;
    l->model.learned.rows = l->rows;
    l->model.learned.gradient = l->gradient;
}

static void learned_free(struct learned *l)
{
    sl_model_fini(&l->model);
    free(l->rows);
    free(l->feat);
    free(l->x);
    free(l->gradient);
}

// By finite differences of the naive model's input.
static void check_row_gradients(struct scene *s, const struct learned *l)
{
    const float step = 1.0f / 4096;
    struct naive naive = naive_make(&s->config, &s->g.ds, s->block, s->kept, true);
    double *p = fixture_alloc(s->model.n_params * sizeof *p);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        p[i] = s->params[i];
    for (uint64_t i = 0; i < (uint64_t)s->block->n_input * l->dim; i++) {
        float *at = s->kept + i / l->dim * FEATURES + l->from + i % l->dim, before = *at;
        const float above = before + step, below = before - step;
        *at = above;
        const double up = naive_loss(&naive, p);
        *at = below;
        const double down = naive_loss(&naive, p);
        *at = before;
        assert_near("row", i, l->gradient[i], (up - down) / ((double)above - below), 5e-4);
    }
    free(p);
    naive_free(&naive);
}

// Alone, and behind features of the file; with masks of the input.
LOOP_TEST(gradients_of_learned_rows, 0, SL_COUNT_OF(VARIANTS))
{
    static const uint32_t dims[] = {FEATURES, 2};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
        struct sl_config c = config_of(&VARIANTS[_i], 2);
        c.model.input_dropout = 0.25;
        c.model.dropout = c.model.attention_dropout = 0.3;
        c.model.activation = SL_CONFIG_ELU; // without a kink that a step could cross
        struct scene s;
        struct learned l;
        struct sl_loss_result result;
        scene_of(&s, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(1));
        learned_of(&l, &s, dims[d]);
        for (uint32_t i = 0; i < l.model.n_layers; i++)
            l.model.layer[i].order = VARIANTS[_i].order;
        ck_assert_int_eq(
            sl_model_train(&l.model, s.params, sl_block_here(s.block), l.x, s.gradient, &result),
            SL_OK);
        check_row_gradients(&s, &l);
        learned_free(&l);
        scene_free(&s);
    }
}

// One seed without in-edges, and a graph of a single vertex with and without a self-loop.
LOOP_TEST(gradients_of_lonely_vertices, 0, SL_COUNT_OF(VARIANTS))
{
    static const uint32_t lonely[] = {39}, only[] = {0};
    struct sl_config c = config_of(&VARIANTS[_i], 2);
    struct scene s;
    scene_of(&s, graph_with_loops(), &c, lonely, 1, ALL, table(1));
    ck_assert_uint_eq(s.block->n_edges, 0);
    check_against_naive(&s, VARIANTS[_i].order);
    scene_free(&s);
    for (int loop = 0; loop < 2; loop++) {
        struct fixture_graph g = fixture_graph(2, FEATURES, CLASSES, 5);
        g.ds.n_nodes = 1;
        g.ds.n_edges = g.indptr[1] = (uint64_t)loop;
        g.indices[0] = 0;
        scene_of(&s, g, &c, only, 1, ALL, table(1));
        check_against_naive(&s, VARIANTS[_i].order);
        scene_free(&s);
    }
}

// Heads of one column, and a hub among the seeds with hundreds of in-edges.
LOOP_TEST(gradients_of_a_hub, 0, SL_COUNT_OF(VARIANTS))
{
    static const uint32_t hub[] = {0, 3};
    struct sl_config c = config_of(&VARIANTS[_i], 1);
    struct fixture_graph g = fixture_graph(400, FEATURES, CLASSES, 9);
    fixture_add_loops(&g);
    struct scene s;
    scene_of(&s, g, &c, hub, 2, ALL, table(1));
    ck_assert_uint_gt(s.block->hop[0].n_edges, 400);
    check_against_naive(&s, VARIANTS[_i].order);
    scene_free(&s);
}

LOOP_TEST(runs_are_equal_to_the_bit, 0, SL_COUNT_OF(VARIANTS))
{
    struct sl_config c = config_of(&VARIANTS[_i], 3);
    c.model.dropout = c.model.attention_dropout = 0.5;
    struct scene a, b;
    scene_of(&a, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(1));
    scene_of(&b, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(1));
    struct sl_loss_result ra, rb;
    for (int again = 0; again < 2; again++) { // the second time in memory that was used
        memcpy(b.x, b.kept, (uint64_t)b.block->n_input * FEATURES * sizeof *b.x);
        ck_assert_int_eq(
            sl_model_train(&b.model, b.params, sl_block_here(b.block), b.x, b.gradient, &rb),
            SL_OK);
    }
    ck_assert_int_eq(
        sl_model_train(&a.model, a.params, sl_block_here(a.block), a.x, a.gradient, &ra), SL_OK);
    ck_assert_double_eq(ra.loss, rb.loss);
    ck_assert_int_eq(memcmp(a.gradient, b.gradient, a.model.n_params * sizeof *a.gradient), 0);
    scene_free(&a);
    scene_free(&b);
}

// Moves the first neighbour of a vertex to the end of its list.
static void rotate(struct fixture_graph *g, uint32_t v)
{
    uint32_t *list = g->indices + g->indptr[v], first = list[0];
    uint64_t n = g->indptr[v + 1] - g->indptr[v];
    memmove(list, list + 1, (n - 1) * sizeof *list);
    list[n - 1] = first;
}

// Where all that follows a sum is linear: a bias that keeps it above the activation's kink.
static void lift(const struct sl_model *m, float *params)
{
    for (uint32_t t = 0; t < m->n_tensors; t++)
        for (uint64_t i = 0; strstr(m->tensor[t].name, "lins.0.bias") && i < HIDDEN; i++)
            params[m->tensor[t].offset + i] = 100;
}

static void hub_output(const struct fixture_graph *g, const struct sl_config *c,
                       const int64_t *fanout, double sum[CLASSES])
{
    static const uint32_t hub[] = {0};
    struct sl_model m;
    struct sl_block *b = fixture_block(&g->ds, hub, 1, 1, fanout, 3, 17);
    float *x = fixture_input(&g->ds, b), *y;
    fix_degrees(b, c, &g->ds);
    ck_assert_int_eq(fixture_model(&m, c, g->ds.feat_dim, CLASSES, sl_kernels_cpu()), SL_OK);
    float *params = fixture_params(&m, 11);
    lift(&m, params);
    ck_assert_int_eq(sl_model_forward(&m, params, sl_block_here(b), x, false, &y), SL_OK);
    for (uint32_t k = 0; k < CLASSES; k++)
        sum[k] += (double)y[k];
    sl_model_fini(&m);
    free(params);
    free(x);
    free(b);
}

// The mean over samples that have each neighbour equally often: what all of them add up to, where
// sums are scaled to the degrees of the graph.
TEST(sampled_sums_are_unbiased)
{
    static const struct variant variants[] = {{.kind = SL_MODEL_GCN},
                                              {.kind = SL_MODEL_GCN, .no_loops = true},
                                              {.kind = SL_MODEL_GIN},
                                              {.kind = SL_MODEL_GIN, .degrees = SL_DEGREES_BLOCK}};
    for (size_t i = 0; i < SL_COUNT_OF(variants); i++) {
        const bool scaled = variants[i].degrees == SL_DEGREES_GRAPH;
        struct sl_config c = config_of(&variants[i], 1);
        struct fixture_graph g = fixture_graph(NODES, FEATURES, CLASSES, 5);
        const uint64_t degree = sl_dataset_degree(&g.ds, 0);
        double wanted[CLASSES] = {0}, found[CLASSES] = {0}, apart = 0;
        ck_assert_uint_gt(degree, 3 * (uint64_t)FANOUT[0]);
        hub_output(&g, &c, ALL, wanted);
        for (uint64_t r = 0; r < degree; r++, rotate(&g, 0))
            hub_output(&g, &c, FANOUT, found);
        for (uint32_t k = 0; k < CLASSES; k++)
            apart = fmax(apart, fabs(found[k] / (double)degree - wanted[k]));
        ck_assert_msg(scaled ? apart < 5e-3 : apart > 0.1, "%s, %s: %.3g apart",
                      sl_model_kind_name(c.model.kind), scaled ? "graph" : "block", apart);
        fixture_graph_free(&g);
    }
}

// Layer-wise inference over all vertices in cells of `cell`; (n_nodes, CLASSES), to be freed.
static float *infer_all(struct sl_model *m, const struct sl_dataset *ds, const float *params,
                        uint32_t cell)
{
    uint64_t bytes = ds->n_nodes * SL_MAX(HIDDEN, CLASSES) * sizeof(float);
    float *bank[] = {fixture_alloc(bytes), fixture_alloc(bytes)};
    for (uint32_t l = 0; l < m->n_layers; l++)
        for (uint64_t at = 0; at < ds->n_nodes; at += cell) {
            const struct sl_infer_range range = {.first = at,
                                                 .n = (uint32_t)SL_MIN(cell, ds->n_nodes - at)};
            enum sl_dtype dtype = SL_DTYPE_F32;
            struct sl_infer_io io = {.x = l ? bank[(l - 1) & 1] : sl_evaluate_input(m, ds, &dtype),
                                     .y = bank[l & 1]};
            io.x_dtype = dtype;
            ck_assert_int_eq(sl_evaluate_layer(m, ds, params, l, &range, &io), SL_OK);
        }
    free(bank[m->n_layers & 1]);
    return bank[(m->n_layers - 1) & 1];
}

// Learned rows are what features of the same numbers are.
LOOP_TEST(inference_reads_learned_rows, 0, SL_COUNT_OF(VARIANTS))
{
    static const uint32_t dims[] = {FEATURES, 2};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
        struct sl_config c = config_of(&VARIANTS[_i], 2);
        struct sl_self_loops loops = {0};
        struct scene s;
        struct learned l;
        scene_of(&s, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(1));
        learned_of(&l, &s, dims[d]);
        if (sl_model_needs_self_loops(&s.model)) {
            ck_assert_int_eq(sl_self_loops_find(&s.g.ds, 1, &loops), SL_OK);
            if (sl_model_needs_out_degrees(&s.model))
                ck_assert_int_eq(sl_self_loops_count_out(&loops, 1), SL_OK);
            s.model.self_loops = l.model.self_loops = &loops;
        }
        float *wanted = infer_all(&s.model, &s.g.ds, s.params, 7);
        struct sl_dataset file = s.g.ds;
        file.feat_dim = l.from;
        file.feat = l.feat;
        float *found = infer_all(&l.model, &file, s.params, 7);
        for (uint64_t i = 0; i < (uint64_t)NODES * CLASSES; i++)
            assert_near("output", i, found[i], wanted[i], 1e-5);
        free(wanted);
        free(found);
        sl_self_loops_free(&loops);
        learned_free(&l);
        scene_free(&s);
    }
}

// With all vertices as seeds even degrees of the block are those of the graph.
LOOP_TEST(inference_is_the_block_of_the_whole_graph, 0, SL_COUNT_OF(VARIANTS))
{
    uint32_t everybody[NODES];
    for (uint32_t v = 0; v < NODES; v++)
        everybody[v] = v;
    for (uint32_t layers = 1; layers <= 3; layers++)
        for (int back = 0; back < 2; back++) {
            struct sl_config c = config_of(&VARIANTS[_i], layers);
            c.model.dropout = c.model.input_dropout = 0.5; // not in evaluation
            c.model.attention_dropout = 0.5;
            struct scene s;
            scene_of(&s, graph_with_loops(), &c, everybody, NODES, ALL, table(back));
            struct sl_self_loops loops;
            ck_assert_int_eq(sl_self_loops_find(&s.g.ds, 1, &loops), SL_OK);
            ck_assert_int_eq(sl_self_loops_count_out(&loops, 1), SL_OK);
            s.model.self_loops = &loops;
            float *wanted;
            float *whole = infer_all(&s.model, &s.g.ds, s.params, NODES);
            float *cells = infer_all(&s.model, &s.g.ds, s.params, 7);
            ck_assert_int_eq(
                sl_model_forward(&s.model, s.params, sl_block_here(s.block), s.x, false, &wanted),
                SL_OK);
            for (uint32_t e = 0; e < NODES * CLASSES; e++) {
                assert_near("output", e, whole[e], wanted[e], 2e-5);
                assert_near("output of cells", e, cells[e], wanted[e], 2e-5);
            }
            sl_self_loops_free(&loops);
            free(whole);
            free(cells);
            scene_free(&s);
        }
}

// The block of everybody, whose lists are what `n` draws for each layer.
static struct sl_block *walk_block(struct sl_block *b, struct sl_neighbours *n)
{
    for (uint32_t h = 0; h < b->n_hops; h++) {
        uint32_t indptr[NODES + 1] = {0}, *ids = fixture_alloc(NODES * NODES * sizeof *ids), e = 0;
        float *visits = fixture_alloc(NODES * NODES * sizeof *visits);
        uint64_t offset;
        for (uint32_t v = 0; v < NODES; v++) {
            uint32_t count;
            ck_assert_int_eq(
                sl_neighbours_draw(n, b->n_hops - 1 - h, 0, v, ids + e, visits + e, &count), SL_OK);
            indptr[v + 1] = e += count;
        }
        ck_assert_uint_gt(e, 0);
        b = fixture_append(b, indptr, sizeof indptr, &offset);
        b->hop[h].indptr_offset = offset;
        b = fixture_append(b, ids, e * sizeof *ids, &offset);
        b->hop[h].indices_offset = offset;
        b = fixture_append(b, visits, e * sizeof *visits, &offset);
        b->hop[h].weights_offset = offset;
        b->hop[h].n_edges = e;
        free(ids);
        free(visits);
    }
    b->flags |= SL_BLOCK_HAS_WEIGHTS;
    return b;
}

LOOP_TEST(inference_by_walks_is_the_block_of_their_neighbourhoods, 0, SL_COUNT_OF(VARIANTS))
{
    if (VARIANTS[_i].edges)
        return;
    uint32_t everybody[NODES];
    for (uint32_t v = 0; v < NODES; v++)
        everybody[v] = v;
    struct sl_config c = config_of(&VARIANTS[_i], 2);
    if (c.model.kind == SL_MODEL_GCN && c.model.degrees == SL_DEGREES_BLOCK)
        return; // in inference degrees are the graph's, which no block of walks has
    c.sampler.kind = SL_SAMPLER_WALK;
    c.sampler.paths = 6;
    c.sampler.length = 3;
    c.sampler.restart = 0.25;
    c.sampler.fanout[0] = 4;
    c.sampler.fanout[1] = -1;
    for (int back = 0; back < 2; back++) {
        struct scene s;
        scene_of(&s, graph_with_loops(), &c, everybody, NODES, ALL, table(back));
        struct sl_self_loops loops;
        struct sl_neighbours n;
        ck_assert_int_eq(sl_self_loops_find(&s.g.ds, 1, &loops), SL_OK);
        ck_assert_int_eq(sl_neighbours_init(&n, &c, &s.g.ds, table(back)), SL_OK);
        s.model.self_loops = &loops;
        s.model.neighbours = &n;
        s.block = walk_block(s.block, &n);
        float *wanted, *found = infer_all(&s.model, &s.g.ds, s.params, 9);
        ck_assert_int_eq(
            sl_model_forward(&s.model, s.params, sl_block_here(s.block), s.x, false, &wanted),
            SL_OK);
        for (uint32_t e = 0; e < NODES * CLASSES; e++)
            assert_near("output", e, found[e], wanted[e], 2e-5);
        free(found);
        sl_neighbours_fini(&n);
        sl_self_loops_free(&loops);
        scene_free(&s);
    }
}

TEST(sources_are_numbered_once_and_in_order)
{
    enum { N_DST = 5, N_EDGES = 9 };
    static const uint32_t indptr[N_DST + 1] = {0, 0, 4, 6, 9, 9};
    static const uint32_t wide[N_EDGES] = {70000, 3, 4096, 3, 4294967293, 2048, 70000, 5, 4096};
    static const uint32_t ids[] = {3, 5, 2048, 4096, 70000, 4294967293};
    struct sl_mempool pool;
    sl_mempool_init(&pool);
    const struct sl_layer_env env = {
        .kernels = sl_kernels_ref(), .device = sl_device_host(), .pool = &pool, .notes = &pool};
    struct sl_infer_piece piece = {.lists = {.n_dst = N_DST,
                                             .n_src = 4294967294,
                                             .n_edges = N_EDGES,
                                             .indptr = indptr,
                                             .indices = wide}};
    piece.csr = piece.lists;
    struct sl_sources sources;
    ck_assert_int_eq(sl_sources_find(&env, &piece, &sources), SL_OK);
    ck_assert_uint_eq(sources.n, SL_COUNT_OF(ids));
    ck_assert_mem_eq(sources.rows, ids, sizeof ids);
    for (uint32_t e = 0; e < N_EDGES; e++) {
        ck_assert_uint_eq(sources.rows[sources.csr.indices[e]], wide[e]);
        ck_assert_uint_eq(sources.lists.indices[e], sources.csr.indices[e]);
    }
    // An x of some vertices alone, which has more than these.
    static const uint32_t has[] = {0, 3, 4, 5, 2048, 4000, 4096, 70000, 80000, 4294967293};
    piece.x_ids = has;
    ck_assert_int_eq(sl_sources_find(&env, &piece, &sources), SL_OK);
    ck_assert_uint_eq(sources.n, SL_COUNT_OF(ids));
    for (uint32_t i = 0; i < sources.n; i++)
        ck_assert_uint_eq(has[sources.rows[i]], ids[i]);
    piece.x_ids = NULL;
    piece.lists.n_dst = 1;
    piece.lists.n_edges = 0;
    ck_assert_int_eq(sl_sources_find(&env, &piece, &sources), SL_OK);
    ck_assert_uint_eq(sources.n, 0);
    ck_assert_uint_eq(sl_sources_columns(&sources, 8, 32), 32);
    sl_mempool_fini(&pool);
}

// A piece with so many sources that their columns are computed in groups, against small pieces.
LOOP_TEST(inference_in_groups_of_columns, 0, 2)
{
    enum { N = 100000, ROWS = 4096, EDGES = 16, WIDTH = 640, CELL = 128 };
    static const enum sl_model_kind kinds[] = {SL_MODEL_GAT, SL_MODEL_GATV2, SL_MODEL_PINSAGE};
    struct fixture_graph g = {.indptr = fixture_alloc((N + 1) * sizeof *g.indptr),
                              .indices = fixture_alloc(ROWS * EDGES * sizeof *g.indices),
                              .feat = fixture_alloc(N * 2 * sizeof *g.feat)};
    struct fixture_rng r = {.seed = 3};
    for (uint32_t v = 0; v <= N; v++)
        g.indptr[v] = SL_MIN(v, (uint32_t)ROWS) * EDGES;
    for (uint32_t e = 0; e < ROWS * EDGES; e++)
        g.indices[e] = fixture_word(&r) % N;
    for (uint32_t k = 0; k < N * 2; k++)
        g.feat[k] = fixture_float(&r, 1);
    g.ds = (struct sl_dataset){.n_nodes = N,
                               .n_edges = ROWS * EDGES,
                               .indptr = g.indptr,
                               .indices = g.indices,
                               .indices_dtype = SL_DTYPE_U32,
                               .feat_dim = 2,
                               .feat = g.feat,
                               .feat_dtype = SL_DTYPE_F32};
    struct sl_config c = fixture_config(kinds[_i], 2, WIDTH);
    c.model.heads = 8;
    struct sl_model m;
    ck_assert_int_eq(fixture_model(&m, &c, 2, CLASSES, table(1)), SL_OK);
    float *params = fixture_params(&m, 4);
    float *whole = fixture_alloc(ROWS * WIDTH * 4ull), *cell = fixture_alloc(CELL * WIDTH * 4ull);
    const struct sl_infer_range all = {.n = ROWS};
    struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = g.feat, .rows = whole};
    ck_assert_int_eq(sl_evaluate_layer(&m, &g.ds, params, 0, &all, &io), SL_OK);
    for (uint32_t at = 0; at < ROWS; at += CELL) {
        const struct sl_infer_range part = {.first = at, .n = CELL};
        io.rows = cell;
        ck_assert_int_eq(sl_evaluate_layer(&m, &g.ds, params, 0, &part, &io), SL_OK);
        for (uint64_t e = 0; e < CELL * WIDTH; e++)
            if (fabsf(cell[e] - whole[(uint64_t)at * WIDTH + e]) > 1e-5f)
                ck_abort_msg("row %u: %g and %g", at + (uint32_t)(e / WIDTH), (double)cell[e],
                             (double)whole[(uint64_t)at * WIDTH + e]);
    }
    sl_model_fini(&m);
    free(params);
    free(whole);
    free(cell);
    fixture_graph_free(&g);
}

// Bounds of the first draws in a layer of 10 inputs and 3 outputs; golden files have all the rest.
TEST(tensors_start_as_those_of_pyg)
{
    static const struct {
        enum sl_model_kind kind;
        double squares[6]; // of the bounds
        uint32_t n;
    } starts[] = {
        {SL_MODEL_GRAPHSAGE, {0.1, 0.1, 0.1}, 3},
        {SL_MODEL_GCN, {0, 6.0 / 13}, 2},
        {SL_MODEL_GAT, {6.0 / 7, 6.0 / 7, 0, 6.0 / 22}, 4},
        {SL_MODEL_GATV2, {6.0 / 7, 0, 6.0 / 22, 0.1, 6.0 / 22, 0.1}, 6},
    };
    struct sl_model m;
    struct sl_config c;
    for (size_t i = 0; i < SL_COUNT_OF(starts); i++) {
        c = fixture_config(starts[i].kind, 1, 8);
        c.model.heads = 4;
        ck_assert_int_eq(fixture_model(&m, &c, 10, 3, sl_kernels_ref()), SL_OK);
        ck_assert_uint_eq(m.n_tensors, starts[i].n);
        for (uint32_t t = 0; t < m.n_tensors; t++) {
            const float bound = m.tensor[t].init_bound;
            ck_assert_double_eq_tol(bound * bound, starts[i].squares[t], 1e-6);
            ck_assert(m.tensor[t].init_constant == 0);
        }
        sl_model_fini(&m);
    }
    c = fixture_config(SL_MODEL_GAT, 2, 8);
    c.model.heads = 3; // does not divide 8
    ck_assert_int_eq(fixture_model(&m, &c, 10, 3, sl_kernels_ref()), SL_EINVAL);
    ck_assert(strstr(sl_error_message(), "model.heads"));
    sl_model_fini(&m);
}

TEST(bf16_products_stay_close)
{
    struct sl_config c = fixture_config(SL_MODEL_GRAPHSAGE, 2, 8);
    struct scene a;
    scene_of(&a, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(1));
    c.precision = SL_CONFIG_BF16;
    struct scene b;
    scene_of(&b, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(1));
    ck_assert_int_eq(b.model.env.precision, SL_PRECISION_BF16);
    struct sl_loss_result ra, rb;
    ck_assert_int_eq(
        sl_model_train(&a.model, a.params, sl_block_here(a.block), a.x, a.gradient, &ra), SL_OK);
    ck_assert_int_eq(
        sl_model_train(&b.model, b.params, sl_block_here(b.block), b.x, b.gradient, &rb), SL_OK);
    assert_near("loss", 0, rb.loss, ra.loss, 0.02);
    uint64_t different = 0;
    for (uint64_t i = 0; i < a.model.n_params; i++) {
        assert_near("gradient", i, b.gradient[i], a.gradient[i], 0.15);
        different += b.gradient[i] != a.gradient[i];
    }
    ck_assert_uint_gt(different, a.model.n_params / 2); // it is bf16 indeed
    scene_free(&a);
    scene_free(&b);
}

TEST(order_of_operations_depends_on_the_shape)
{
    uint32_t indptr[101] = {0}, indices[800] = {0};
    for (uint32_t i = 0; i <= 100; i++)
        indptr[i] = i * 8;
    // A whole graph: as many sources as destinations, so fewer columns are worth a product first.
    struct sl_csr_view whole = {
        .n_dst = 100, .n_src = 100, .n_edges = 800, .indptr = indptr, .indices = indices};
    // A sampled hop: most sources are met once, the product would be done eight times over.
    struct sl_csr_view hop = {
        .n_dst = 100, .n_src = 900, .n_edges = 800, .indptr = indptr, .indices = indices};
    struct sl_layer narrow = {.d_in = 512, .d_out = 16}, wide = {.d_in = 16, .d_out = 512};
    ck_assert(sl_layer_transform_first(&narrow, &whole, true));
    ck_assert(!sl_layer_transform_first(&wide, &whole, true));
    struct sl_layer half = {.d_in = 256, .d_out = 200};
    ck_assert(!sl_layer_transform_first(&half, &hop, false));
    half.order = SL_LAYER_TRANSFORM_FIRST;
    ck_assert(sl_layer_transform_first(&half, &hop, false));
}

TEST(blocks_of_another_shape_are_refused)
{
    struct sl_config c = fixture_config(SL_MODEL_GCN, 2, 4);
    struct scene s;
    scene_of(&s, graph_with_loops(), &c, SEED_IDS, SEEDS, FANOUT, table(0));
    uint64_t bytes = s.block->bytes;
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes, sl_model_block_shape(&s.model)), SL_OK);
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes - 1, sl_model_block_shape(&s.model)),
                     SL_EPROTO);
    ck_assert_int_eq(sl_block_check_shape(s.block, 0, sl_model_block_shape(&s.model)), SL_EPROTO);
    s.block->n_hops = 3;
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes, sl_model_block_shape(&s.model)),
                     SL_EPROTO);
    s.block->n_hops = 2;
    s.block->hop[1].n_dst++;
    ck_assert_int_eq(sl_block_check_shape(s.block, bytes, sl_model_block_shape(&s.model)),
                     SL_EPROTO);
    s.block->hop[1].n_dst--;
    // A GCN needs the degrees.
    s.block->flags = 0;
    float *logits;
    ck_assert_int_eq(
        sl_model_forward(&s.model, s.params, sl_block_here(s.block), s.x, false, &logits),
        SL_EPROTO);
    scene_free(&s);
}

TEST(models_that_can_not_be_are_refused)
{
    struct sl_model m;
    struct sl_config c = fixture_config(SL_MODEL_GCN, 2, 4);
    ck_assert_int_eq(fixture_model(&m, &c, 0, 3, sl_kernels_ref()), SL_EINVAL);
    ck_assert_int_eq(fixture_model(&m, &c, 3, 0, sl_kernels_ref()), SL_EINVAL);
    c.model.layers = SL_CONFIG_MAX_LAYERS + 1;
    ck_assert_int_eq(fixture_model(&m, &c, 3, 3, sl_kernels_ref()), SL_EINVAL);
    c.model.layers = 1;
    c.model.kind = (enum sl_model_kind)77;
    ck_assert_int_eq(fixture_model(&m, &c, 3, 3, sl_kernels_ref()), SL_EUNSUPPORTED);
}

TEST(eps_starts_as_told_and_is_fixed_unless_trained)
{
    for (int train = 0; train < 2; train++) {
        struct sl_config c = fixture_config(SL_MODEL_GIN, 1, 4);
        c.model.eps = 0.5;
        c.model.train_eps = train;
        struct sl_model m;
        ck_assert_int_eq(fixture_model(&m, &c, 5, 3, sl_kernels_ref()), SL_OK);
        ck_assert(m.tensor[0].init_constant == 0.5f && m.tensor[0].init_bound == 0);
        ck_assert_int_eq(m.tensor[0].role, train ? SL_TENSOR_LEARNED : SL_TENSOR_FIXED);
        sl_model_fini(&m);
    }
}

// Inference needs the graph's out-degrees for degrees of the block.
TEST(block_degrees_without_out_degrees_are_refused)
{
    const struct variant v = {.kind = SL_MODEL_GCN, .degrees = SL_DEGREES_BLOCK};
    struct sl_config c = config_of(&v, 1);
    struct scene s;
    scene_of(&s, graph_with_loops(), &c, SEED_IDS, SEEDS, ALL, table(0));
    float y[CLASSES];
    const struct sl_infer_range range = {.n = 1};
    const struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = s.g.feat, .y = y};
    ck_assert_int_eq(sl_evaluate_layer(&s.model, &s.g.ds, s.params, 0, &range, &io), SL_EINVAL);
    scene_free(&s);
}

RUN_TESTS(.timeout_s = 60)
