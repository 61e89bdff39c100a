// Models of graphs of several types, layer by layer over the graph: outputs, loss and predictions
// against the naive model, whatever the cells; and which rows a layer needs.

#include "common/data/prediction.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_typed_naive.h"
#include "trainer/infer/evaluate.h"
#include "trainer/infer/typed_pieces.h"

enum { CLASSES = 4, HIDDEN = 6, N_NODES = 23 + 17 + 1 + 9 + 3, ALL = 512 };

static const struct variant {
    enum sl_model_kind kind;
    uint32_t layers;
    enum sl_norm_kind norm;
    enum sl_relations_kind relations;
    uint32_t bases;
} VARIANTS[] = {
    {SL_MODEL_RSAGE, 1, SL_NORM_NONE, SL_RELATIONS_SUM, 0},
    {SL_MODEL_RSAGE, 3, SL_NORM_LAYER, SL_RELATIONS_MEAN, 0},
    {SL_MODEL_RGAT, 2, SL_NORM_NONE, SL_RELATIONS_SUM, 0},
    {SL_MODEL_RGAT, 3, SL_NORM_BATCH, SL_RELATIONS_MEAN, 0},
    {SL_MODEL_RGCN, 2, SL_NORM_NONE, SL_RELATIONS_SUM, 3},
    {SL_MODEL_RGATV2, 3, SL_NORM_NONE, SL_RELATIONS_MEAN, 0},
    {SL_MODEL_RGAT, 3, SL_NORM_NONE, SL_RELATIONS_SUM, 0}, // of edges
    {SL_MODEL_RGATV2, 2, SL_NORM_LAYER, SL_RELATIONS_SUM, 0},
};
enum { OF_EDGES = 6 };

static const uint32_t SEEDS[] = {22, 0, 3, 7, 12, 5, 9, 21};
enum { N_SEEDS = SL_COUNT_OF(SEEDS) };

// The graph as a data set.
struct scene {
    struct typed_graph g;
    struct sl_dataset ds;
    struct sl_config config;
    struct sl_model model;
    struct sl_typed_pieces pieces;
    float *params, *bank[2];
    int32_t label[N_NODES];
};

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static void make_dataset(struct scene *s)
{
    struct typed_graph *g = &s->g;
    uint64_t *indptr = fixture_alloc((g->typed.n_rows + 1) * sizeof *indptr), e = 0;
    uint32_t *indices = fixture_alloc(4096 * sizeof *indices);
    struct fixture_rng r = {.seed = 21};
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
        for (uint32_t i = 0; i < g->type[g->relation[k].target].n; i++) {
            indptr[g->relation[k].first_row + i] = e;
            for (uint32_t at = g->indptr[k][i]; at < g->indptr[k][i + 1]; at++)
                indices[e++] = (uint32_t)g->type[g->relation[k].source].first + g->indices[k][at];
        }
    indptr[g->typed.n_rows] = e;
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        const uint64_t n = g->type[t].n * g->type[t].feat_dim;
        float *x = fixture_alloc((n + 1) * sizeof *x);
        for (uint64_t i = 0; i < n; i++)
            x[i] = fixture_float(&r, 1);
        g->type[t].feat = n ? x : NULL;
        if (!n)
            free(x);
    }
    for (uint32_t i = 0; i < N_SEEDS; i++) // as typed_block() has them
        s->label[SEEDS[i]] = i % 3 == 2 ? -1 : (int32_t)((SEEDS[i] * 7u) % CLASSES);
    s->ds = (struct sl_dataset){.task = SL_TASK_MULTICLASS,
                                .n_nodes = N_NODES,
                                .n_edges = e,
                                .typed = g->typed,
                                .indptr = indptr,
                                .indices = indices,
                                .indices_dtype = SL_DTYPE_U32,
                                .n_classes = CLASSES,
                                .label = s->label};
    s->ds.split[SL_SPLIT_VAL] = (struct sl_vertex_list){.n = N_SEEDS, .ids = SEEDS};
    s->ds.split[SL_SPLIT_TEST] = (struct sl_vertex_list){.n = 2, .ids = SEEDS + 3};
}

static void scene_init(struct scene *s, const struct variant *v)
{
    *s = (struct scene){.config = fixture_config(v->kind, v->layers, HIDDEN)};
    sl_kernels_set_threads(1);
    s->config.model.norm = v->norm;
    s->config.model.relations = v->relations;
    s->config.model.bases = v->bases;
    s->config.model.dropout = s->config.model.attention_dropout = 0.4; // not in evaluation
    s->config.model.edge_features = v >= &VARIANTS[OF_EDGES];
    typed_graph_init(&s->g, 5);
    if (s->config.model.edge_features)
        typed_edge_features(&s->g, 17);
    make_dataset(s);
    assert_ok(sl_model_init(&s->model, &s->config, 0, &s->g.typed, fixture_objective(CLASSES),
                            sl_device_host(), sl_kernels_cpu()));
    assert_ok(sl_typed_pieces_init(&s->pieces, &s->model, &s->ds));
    s->model.pieces = &s->pieces;
    s->params = fixture_params(&s->model, 31);
    for (int b = 0; b < 2; b++)
        s->bank[b] = fixture_alloc(N_NODES * HIDDEN * sizeof(float));
}

static void scene_fini(struct scene *s)
{
    sl_typed_pieces_fini(&s->pieces);
    sl_model_fini(&s->model);
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        free((void *)(uintptr_t)s->g.type[t].feat);
    free((void *)(uintptr_t)s->ds.indptr);
    free((void *)(uintptr_t)s->ds.indices);
    free(s->params);
    free(s->bank[0]);
    free(s->bank[1]);
    typed_graph_fini(&s->g);
}

struct found {
    float outputs[N_SEEDS * CLASSES];
    uint32_t predictions[N_SEEDS];
    struct sl_loss_result result;
};

// Hidden layers in cells of `step` of all vertices, or of those that are needed, which nobody has
// written before; each twice.
static struct found evaluate(struct scene *s, uint32_t step, const struct sl_needed_rows *needed)
{
    struct found found = {0};
    for (uint32_t l = 0; l < s->model.n_layers; l++) {
        const bool last = l + 1 == s->model.n_layers;
        const uint32_t n = last ? N_SEEDS : N_NODES;
        struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32,
                                 .x = l ? s->bank[(l - 1) & 1] : NULL,
                                 .y = last ? NULL : s->bank[l & 1]};
        if (!last)
            memset(s->bank[l & 1], 0xff, N_NODES * HIDDEN * sizeof(float));
        for (uint32_t at = 0; at < n; at += step) {
            uint32_t ids[N_NODES];
            struct sl_infer_range range = {.first = at, .n = SL_MIN(step, n - at)};
            if (last)
                range = (struct sl_infer_range){.ids = SEEDS + at, .n = SL_MIN(step, n - at)};
            else if (needed && needed->layer[l].bits)
                range = (struct sl_infer_range){
                    .ids = ids, .n = sl_marks_list(&needed->layer[l], at, range.n, ids)};
            if (last) {
                io.rows = found.outputs + at * CLASSES;
                io.predictions = found.predictions + at;
                io.result = &found.result;
            }
            for (int again = 0; again < (last ? 1 : 2); again++)
                assert_ok(sl_evaluate_layer(&s->model, &s->ds, s->params, l, &range, &io));
        }
    }
    return found;
}

static void check_near(double got, double wanted)
{
    ck_assert_msg(fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted)), "%.9g, wanted %.9g", got,
                  wanted);
}

// Features of the block's vertices from the data set.
static float *gather(const struct scene *s, const struct sl_block *block)
{
    float *x = typed_input(&s->g, block, 1); // of edges; those of vertices follow
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        const struct sl_vertex_type *type = &s->g.type[t];
        const uint32_t *ids = sl_block_nodes(block) + sl_block_types(block)[t].first;
        float *to = x + sl_typed_rows_at(block, &s->g.typed, t, SL_TYPED_F32) / sizeof *x;
        for (uint32_t i = 0; type->feat && i < sl_typed_block_rows(block, t); i++)
            memcpy(to + (uint64_t)i * type->feat_dim,
                   (const float *)type->feat + (ids[i] - type->first) * type->feat_dim,
                   type->feat_dim * sizeof *x);
    }
    return x;
}

static void check_against_naive(struct scene *s, const struct found *found)
{
    double wanted[N_SEEDS * CLASSES],
        *exact = fixture_alloc((s->model.n_params + 1) * sizeof *exact);
    struct sl_block *block =
        typed_block(&s->g, SEEDS, N_SEEDS, s->model.n_layers, ALL, CLASSES, 11);
    float *x = gather(s, block);
    for (uint64_t i = 0; i < s->model.n_params; i++)
        exact[i] = (double)s->params[i];
    struct typed_naive naive = {.g = &s->g,
                                .config = &s->config,
                                .model = &s->model,
                                .block = block,
                                .x = x,
                                .params = exact,
                                .classes = CLASSES};
    typed_naive_forward(&naive, wanted);
    for (uint32_t i = 0; i < N_SEEDS * CLASSES; i++)
        check_near((double)found->outputs[i], wanted[i]);
    for (uint32_t i = 0; i < N_SEEDS; i++)
        for (uint32_t c = 0; c < CLASSES; c++)
            ck_assert(found->outputs[i * CLASSES + c] <=
                      found->outputs[i * CLASSES + found->predictions[i]]);
    check_near(found->result.loss, typed_naive_loss(&naive));
    free(block);
    free(x);
    free(exact);
}

CASE(.timeout_s = 120)

LOOP_TEST(a_list_has_the_outputs_of_the_naive_model, 0, SL_COUNT_OF(VARIANTS))
{
    struct scene s;
    scene_init(&s, &VARIANTS[_i]);
    for (uint32_t step = 1; step <= N_NODES; step += 13) {
        const struct found found = evaluate(&s, step, NULL);
        check_against_naive(&s, &found);
    }
    scene_fini(&s);
}

// Rows so wide that a piece has the edges of few vertices.
LOOP_TEST(pieces_are_cut_by_their_edges, 0, SL_COUNT_OF(VARIANTS))
{
    struct scene s;
    scene_init(&s, &VARIANTS[_i]);
    s.pieces.most_floats = 20 * HIDDEN;
    struct sl_infer_range range = {.ids = SEEDS, .n = N_SEEDS};
    const float *rows;
    assert_ok(sl_typed_pieces_next(&s.pieces, s.params, 0, 0, s.model.n_layers == 1, NULL, &range,
                                   &rows));
    ck_assert_uint_lt(range.n, N_SEEDS);
    const struct found found = evaluate(&s, N_NODES, NULL);
    check_against_naive(&s, &found);
    scene_fini(&s);
}

// A vertex that is asked for twice has its row twice.
TEST(rows_are_in_the_order_of_the_range)
{
    static const uint32_t twice[] = {4, 9, 4, 2, 9};
    struct scene s;
    scene_init(&s, &VARIANTS[0]);
    float rows[SL_COUNT_OF(twice) * CLASSES];
    const struct sl_infer_range range = {.ids = twice, .n = SL_COUNT_OF(twice)};
    const struct sl_infer_io io = {.rows = rows};
    assert_ok(sl_evaluate_layer(&s.model, &s.ds, s.params, 0, &range, &io));
    for (uint32_t i = 0; i < SL_COUNT_OF(twice); i++) {
        float alone[CLASSES];
        const struct sl_infer_range one = {.ids = twice + i, .n = 1};
        const struct sl_infer_io there = {.rows = alone};
        assert_ok(sl_evaluate_layer(&s.model, &s.ds, s.params, 0, &one, &there));
        for (uint32_t c = 0; c < CLASSES; c++)
            check_near((double)rows[i * CLASSES + c], (double)alone[c]);
    }
    scene_fini(&s);
}

// ---- needed rows --------------------------------------------------------------------------------

// Layer l's rows that the vertices of `above` need, by the definition.
static void add_sources(const struct scene *s, const bool *above, bool *below)
{
    for (uint32_t v = 0; v < N_NODES; v++)
        below[v] |= above[v];
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        const struct sl_relation *r = &s->g.relation[k];
        for (uint32_t i = 0; i < s->g.type[r->target].n; i++)
            for (uint32_t e = s->g.indptr[k][i];
                 above[s->g.type[r->target].first + i] && e < s->g.indptr[k][i + 1]; e++)
                below[s->g.type[r->source].first + s->g.indices[k][e]] = true;
    }
}

LOOP_TEST(needed_rows_are_those_of_all_relations, 0, 2)
{
    struct scene s;
    bool wanted[3][N_NODES] = {{false}};
    struct sl_needed_rows needed;
    scene_init(&s, &VARIANTS[1]);
    const enum sl_split split = _i ? SL_SPLIT_TEST : SL_SPLIT_VAL;
    if (split == SL_SPLIT_VAL)
        s.ds.split[split].n = 1;
    for (uint64_t i = 0; i < s.ds.split[split].n; i++)
        wanted[2][s.ds.split[split].ids[i]] = true;
    assert_ok(sl_needed_rows_find(&needed, &s.ds, 1u << split, 3));
    for (uint32_t l = 2; l-- > 0;) {
        add_sources(&s, wanted[l + 1], wanted[l]);
        uint32_t ids[N_NODES], n = 0;
        ck_assert_ptr_nonnull(needed.layer[l].bits);
        const uint32_t listed = sl_marks_list(&needed.layer[l], 0, N_NODES, ids);
        for (uint32_t v = 0; v < N_NODES; v++)
            if (wanted[l][v])
                ck_assert(n < listed && ids[n++] == v);
        ck_assert_uint_eq(n, listed);
        ck_assert_uint_lt(n, N_NODES);
    }
    sl_needed_rows_free(&needed);
    scene_fini(&s);
}

LOOP_TEST(needed_rows_are_enough, 0, SL_COUNT_OF(VARIANTS))
{
    struct scene s;
    struct sl_needed_rows needed;
    scene_init(&s, &VARIANTS[_i]);
    assert_ok(sl_needed_rows_find(&needed, &s.ds, 1u << SL_SPLIT_VAL, s.model.n_layers));
    const struct found found = evaluate(&s, 10, &needed);
    check_against_naive(&s, &found);
    sl_needed_rows_free(&needed);
    scene_fini(&s);
}

RUN_TESTS()
