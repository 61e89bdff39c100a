// Models on a GPU against the same models on CPU cores: training, evaluation, layer-wise inference.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_cuda_scene.h"

#include "common/base/half.h"
#include "common/base/memory.h"
#include "trainer/infer/evaluate.h"

// Sums of some dozens of products, in other orders.
static void assert_close(const char *what, const float *found, const float *wanted, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(found[i] - wanted[i]) <= 2e-4f * (1 + fabsf(wanted[i])),
                      "%s[%llu] of %llu: found %.7g, wanted %.7g", what, (unsigned long long)i,
                      (unsigned long long)n, (double)found[i], (double)wanted[i]);
}

// ---- training -----------------------------------------------------------------------------------

// One step, or with `training` off one evaluation, on both.
static void compare_step(struct scene *s, struct sl_block *b, bool training)
{
    const size_t x_bytes = sl_edge_rows_end(b, s->g.ds.typed.plain.feat_dim,
                                            (uint64_t)b->n_input * FEATURES * sizeof(float), NULL);
    const size_t g_bytes = s->cpu.n_params * sizeof(float);
    float *x = fixture_input(&s->g.ds, b), *wanted = fixture_alloc(g_bytes);
    float *far_x = gpu_put(gpu, x, x_bytes), *far_gradient = gpu_put(gpu, wanted, g_bytes);
    char *base = gpu_put(gpu, b, b->bytes);
    const struct sl_block_view here = sl_block_here(b), there = {.header = b, .base = base};
    struct sl_loss_result want, found;
    if (training) {
        assert_ok(sl_model_train(&s->cpu, s->params, here, x, wanted, &want));
        assert_ok(sl_model_train(&s->far, s->far_params, there, far_x, far_gradient, &found));
        float *gradient = gpu_get(gpu, far_gradient, g_bytes);
        for (uint32_t t = 0; t < s->cpu.n_tensors; t++)
            assert_close(s->cpu.tensor[t].name, gradient + s->cpu.tensor[t].offset,
                         wanted + s->cpu.tensor[t].offset, sl_tensor_count(&s->cpu.tensor[t]));
        free(gradient);
    } else {
        const float *outputs, *far_outputs;
        assert_ok(sl_model_evaluate(&s->cpu, s->params, here, x, &want, &outputs));
        assert_ok(sl_model_evaluate(&s->far, s->far_params, there, far_x, &found, &far_outputs));
        const uint32_t n =
            s->cpu.objective->task == SL_TASK_LINK ? b->n_pairs : b->n_seeds * CLASSES;
        float *rows = gpu_get(gpu, far_outputs, n * sizeof(float));
        assert_close("outputs", rows, outputs, n);
        free(rows);
    }
    ck_assert_uint_eq(found.counted, want.counted);
    ck_assert_double_eq_tol(found.weight, want.weight, 1e-6 * (1 + want.weight));
    ck_assert_double_eq_tol(found.loss, want.loss, 2e-4 * (1 + fabs(want.loss)));
    gpu_free(gpu, far_x, x_bytes);
    gpu_free(gpu, far_gradient, g_bytes);
    gpu_free(gpu, base, b->bytes);
    free(x);
    free(wanted);
}

static void step_of(const struct sl_config *c, uint32_t n_seeds, bool weighted, bool class_weights)
{
    struct scene s;
    scene_init(&s, c, class_weights);
    struct sl_block *b = some_block(&s, c->model.layers, n_seeds);
    if (weighted)
        b = fixture_weigh(b, 5, 8);
    compare_step(&s, b, true);
    compare_step(&s, b, false);
    compare_step(&s, b, true); // pools have their size now
    free(b);
    scene_fini(&s);
}

LOOP_TEST(steps_are_those_of_cpu_cores, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(_i, v);
        step_of(&c, SEEDS, v & 1, v & 2);
    }
    // A single seed, whose batch norm has no statistics of its own.
    struct sl_config c = config_of(_i, 1);
    c.model.norm = SL_NORM_BATCH;
    step_of(&c, 1, false, false);
}

// ---- links --------------------------------------------------------------------------------------

// Scores of more pairs than are scored at a time, on both.
static void compare_scores(struct scene *s)
{
    enum { N = 16500, ROWS = 40 };
    struct fixture_rng r = {.seed = 4};
    float *x = fixture_alloc(ROWS * CLASSES * sizeof *x), *scores = fixture_alloc(N * sizeof *x);
    uint32_t *ids = fixture_alloc(2 * N * sizeof *ids);
    for (uint32_t i = 0; i < ROWS * CLASSES; i++)
        x[i] = fixture_float(&r, 1);
    for (uint32_t i = 0; i < 2 * N; i++)
        ids[i] = fixture_word(&r) % ROWS;
    float *far_x = gpu_put(gpu, x, ROWS * CLASSES * sizeof *x);
    float *far_scores = gpu_put(gpu, scores, N * sizeof *x);
    uint32_t *far_ids = gpu_put(gpu, ids, 2 * N * sizeof *ids);
    struct sl_loss_result want, found;
    assert_ok(sl_model_score(&s->cpu, s->params, x, ROWS, ids, N, scores, &want, N / 3));
    assert_ok(
        sl_model_score(&s->far, s->far_params, far_x, ROWS, far_ids, N, far_scores, &found, N / 3));
    float *rows = gpu_get(gpu, far_scores, N * sizeof *x);
    assert_close("scores", rows, scores, N);
    ck_assert_double_eq_tol(found.loss, want.loss, 1e-5 * want.loss);
    ck_assert_uint_eq(found.counted, N);
    gpu_free(gpu, far_x, ROWS * CLASSES * sizeof *x);
    gpu_free(gpu, far_scores, N * sizeof *x);
    gpu_free(gpu, far_ids, 2 * N * sizeof *ids);
    free(rows);
    free(x);
    free(scores);
    free(ids);
}

LOOP_TEST(links_are_those_of_cpu_cores, SL_DECODER_DOT, SL_DECODER_MLP + 1)
{
    open_gpu();
    for (int v = 0; v < 4; v++) { // each loss, each combination
        struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, v);
        fixture_link(&c, CLASSES, (enum sl_decoder_kind)_i, (enum sl_combine_kind)(v % 3),
                     (enum sl_pair_loss_kind)(v % 4));
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b =
            fixture_pair(some_block(&s, c.model.layers, SEEDS), 7, c.task.per_positive, 3);
        compare_step(&s, b, true);
        compare_step(&s, b, false);
        compare_step(&s, b, true);
        if (v == 0)
            compare_scores(&s);
        free(b);
        scene_fini(&s);
    }
}

// ---- features of f16 ----------------------------------------------------------------------------

// Whatever the first layer does with them, in either order of its operations.
LOOP_TEST(halves_have_the_bits_of_what_was_widened, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    static const enum sl_model_kind reads[] = {SL_MODEL_GRAPHSAGE, SL_MODEL_GCN, SL_MODEL_GIN};
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(_i, v);
        c.model.input_dropout = 0;
        struct scene s;
        scene_init(&s, &c, false);
        struct sl_block *b = some_block(&s, c.model.layers, SEEDS);
        const size_t n = (size_t)b->n_input * FEATURES;
        uint16_t *half = fixture_alloc(n * sizeof *half);
        float *wide = fixture_alloc(n * sizeof *wide);
        for (size_t i = 0; i < n; i++) {
            half[i] = (uint16_t)((i * 40503u & 0x83ff) | (12 + i % 4) << 10); // some 0.1 to 2
            wide[i] = sl_half_to_float(half[i]);
        }
        struct sl_dataset ds = s.g.ds;
        ds.feat_dtype = SL_DTYPE_F16;
        bool can = false;
        for (size_t k = 0; k < SL_COUNT_OF(reads); k++)
            can |= reads[k] == (enum sl_model_kind)_i;
        ck_assert_int_eq(sl_model_take_half(&s.far, &ds), can);
        for (int order = 0; can && order <= SL_LAYER_TRANSFORM_FIRST; order++) {
            s.far.layer[0].order = (enum sl_layer_order)order;
            s.far.half = false;
            float *wanted = step_on(&s, b, wide, n * sizeof *wide);
            s.far.half = true;
            float *found = step_on(&s, b, half, n * sizeof *half);
            ck_assert_mem_eq(found, wanted, (s.far.n_params + SEEDS * CLASSES) * sizeof *wanted);
            free(found);
            free(wanted);
        }
        // Odd widths are no whole words, and a mask is of f32; cores read f32.
        ds.feat_dim--;
        ck_assert(!sl_model_take_half(&s.far, &ds));
        ds.feat_dim++;
        s.far.input_dropout = 0.5f;
        ck_assert(!sl_model_take_half(&s.far, &ds));
        ck_assert(!sl_model_take_half(&s.cpu, &ds));
        free(half);
        free(wide);
        free(b);
        scene_fini(&s);
    }
}

// ---- layer-wise inference -----------------------------------------------------------------------

struct banks {
    float *act[2], *jumping;
};

struct found {
    struct sl_loss_result result;
    float *rows;           // (n, CLASSES)
    uint32_t *predictions; // (n)
};

static struct banks banks_make(void)
{
    return (struct banks){{fixture_alloc_pages(NODES * HIDDEN * sizeof(float)),
                           fixture_alloc_pages(NODES * HIDDEN * sizeof(float))},
                          fixture_alloc_pages(NODES * 2 * HIDDEN * sizeof(float))};
}

static void banks_free(struct banks *b)
{
    free(b->act[0]);
    free(b->act[1]);
    free(b->jumping);
}

static void found_free(struct found *f)
{
    free(f->rows);
    free(f->predictions);
}

// Hidden layers in ranges of `step` vertices, or in lists of them backwards; the last one over the
// test list.
static struct found infer(struct scene *s, struct sl_model *m, const float *params, uint32_t step,
                          bool lists, struct banks *banks)
{
    const struct sl_dataset *ds = &s->g.ds;
    const struct sl_vertex_list *test = &ds->split[SL_SPLIT_TEST];
    struct found f = {.rows = fixture_alloc(test->n * CLASSES * sizeof(float)),
                      .predictions = fixture_alloc(test->n * sizeof(uint32_t))};
    uint32_t back[NODES];
    for (uint32_t v = 0; v < NODES; v++)
        back[v] = NODES - 1 - v;
    for (uint32_t l = 0; l < m->n_layers; l++) {
        const bool last = l + 1 == m->n_layers;
        const uint32_t *ids = last ? test->ids : lists ? back : NULL;
        const uint64_t n = last ? test->n : NODES;
        for (uint64_t first = 0; first < n; first += step) {
            const struct sl_infer_io io = {
                .x_dtype = l ? SL_DTYPE_F32 : ds->feat_dtype,
                .x = l ? (const void *)banks->act[(l - 1) & 1] : ds->feat,
                .x_tag = l,
                .jumping = banks->jumping,
                .y = last ? NULL : banks->act[l & 1],
                .rows = last ? f.rows + first * CLASSES : NULL,
                .predictions = last ? f.predictions + first : NULL,
                .result = last ? &f.result : NULL,
            };
            const struct sl_infer_range range = {.ids = ids ? ids + first : NULL,
                                                 .first = ids ? 0 : first,
                                                 .n = (uint32_t)SL_MIN((uint64_t)step, n - first)};
            assert_ok(sl_evaluate_layer(m, ds, params, l, &range, &io));
        }
    }
    return f;
}

static void compare_found(const struct found *found, const struct found *wanted, uint64_t n)
{
    assert_close("rows", found->rows, wanted->rows, n * CLASSES);
    for (uint64_t i = 0; i < n; i++) { // of those without a near second
        const float *row = wanted->rows + i * CLASSES;
        float best = row[wanted->predictions[i]], gap = INFINITY;
        for (uint32_t k = 0; k < CLASSES; k++)
            if (k != wanted->predictions[i])
                gap = fminf(gap, best - row[k]);
        if (gap > 1e-2f)
            ck_assert_uint_eq(found->predictions[i], wanted->predictions[i]);
    }
    ck_assert_uint_eq(found->result.counted, wanted->result.counted);
    ck_assert_double_eq_tol(found->result.weight, wanted->result.weight, 1e-6);
    ck_assert_double_eq_tol(found->result.loss, wanted->result.loss,
                            2e-4 * (1 + wanted->result.loss));
}

static void compare_inference(const struct sl_config *c, bool lists, uint32_t step)
{
    struct scene s;
    scene_init(&s, c, lists);
    const uint64_t n = s.g.ds.split[SL_SPLIT_TEST].n;
    struct banks near = banks_make();
    struct found wanted = infer(&s, &s.cpu, s.params, step, lists, &near), first = {0};
    for (int way = SL_RESIDENT_AUTO; way <= SL_RESIDENT_GATHER; way++) {
        struct banks banks = banks_make();
        s.far.resident.way = (enum sl_resident_way)way;
        sl_resident_release(&s.far.resident);
        struct found found = infer(&s, &s.far, s.far_params, step, lists, &banks);
        compare_found(&found, &wanted, n);
        for (int k = 0; k < 2; k++)
            assert_close("activations", banks.act[k], near.act[k], NODES * HIDDEN);
        // Where rows come from changes no bit.
        if (first.rows)
            ck_assert_mem_eq(found.rows, first.rows, n * CLASSES * sizeof(float));
        ck_assert(way != SL_RESIDENT_COPY || s.far.resident.copy);
        ck_assert(way != SL_RESIDENT_MAPPED || s.far.resident.mapped);
        ck_assert(way != SL_RESIDENT_GATHER || (!s.far.resident.copy && !s.far.resident.mapped));
        if (first.rows)
            found_free(&found);
        else
            first = found;
        banks_free(&banks);
    }
    found_free(&first);
    found_free(&wanted);
    banks_free(&near);
    scene_fini(&s);
}

LOOP_TEST(inference_is_that_of_cpu_cores, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    static const uint32_t steps[] = {NODES, 7, 25};
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(_i, v);
        compare_inference(&c, v & 2, steps[v % 3]);
    }
}

LOOP_TEST(edges_have_features, 0, 2)
{
    static const enum sl_model_kind kinds[] = {SL_MODEL_GAT, SL_MODEL_GATV2};
    open_gpu();
    for (int v = 0; v < VARIANTS; v++) {
        struct sl_config c = config_of(kinds[_i], v);
        c.model.edge_features = true;
        step_of(&c, SEEDS, false, v & 2);
        compare_inference(&c, v & 2, v & 1 ? 25 : 7);
    }
}

LOOP_TEST(inference_by_random_walks, SL_MODEL_GRAPHSAGE, SL_MODEL_PINSAGE + 1)
{
    open_gpu();
    struct sl_config c = config_of(_i, 4);
    c.model.layers = 2;
    c.model.aggregator = SL_AGGREGATOR_GCN;
    c.sampler.kind = SL_SAMPLER_WALK;
    c.sampler.n_fanout = 2;
    c.sampler.fanout[0] = c.sampler.fanout[1] = 4;
    c.sampler.paths = 6;
    c.sampler.length = 3;
    compare_inference(&c, _i & 1, 25);
}

// A list gathers what it needs until a copy would have been cheaper; training takes the memory
// back.
TEST(a_copy_is_made_when_it_pays_and_given_back)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    c.model.layers = 1;
    c.model.jumping = SL_JUMPING_NONE;
    scene_init(&s, &c, false);
    static const uint32_t list[] = {3, 11, 12, 40};
    const struct sl_infer_range few = {.ids = list, .n = SL_COUNT_OF(list)}, run = {.n = NODES};
    float *rows = fixture_alloc(NODES * CLASSES * sizeof *rows);
    struct sl_infer_io io = {.x_dtype = SL_DTYPE_F32, .x = s.g.feat, .rows = rows};
    struct sl_resident *r = &s.far.resident;
    assert_ok(sl_evaluate_layer(&s.far, &s.g.ds, s.far_params, 0, &few, &io));
    ck_assert_ptr_null(r->copy);
    ck_assert_uint_gt(r->gathered, 0);
    for (int k = 0; k < 100 && !r->copy; k++) {
        ck_assert_uint_lt(r->gathered, 2 * r->bytes);
        assert_ok(sl_evaluate_layer(&s.far, &s.g.ds, s.far_params, 0, &few, &io));
    }
    ck_assert_ptr_nonnull(r->copy);
    io.x_tag = 1; // other rows at the same place: a range of all vertices is copied at once
    assert_ok(sl_evaluate_layer(&s.far, &s.g.ds, s.far_params, 0, &run, &io));
    ck_assert_ptr_nonnull(r->copy);
    ck_assert_uint_eq(r->gathered, 0);
    uint32_t seed = 4;
    struct sl_block *b = fixture_block(&s.g.ds, &seed, 1, 1, FANOUT, 0, 0);
    compare_step(&s, b, true);
    ck_assert_ptr_null(r->copy);
    free(b);
    free(rows);
    scene_fini(&s);
}

// Features of which a copy reads three parts.
enum { WIDE_NODES = 1024, WIDE_DIM = 5000 };

static int count_read(void *ctx, uint64_t bytes)
{
    *(uint64_t *)ctx += bytes;
    return SL_OK;
}

static int refuse_read(void *ctx, uint64_t bytes)
{
    (void)bytes;
    return ++*(int *)ctx < 2 ? SL_OK : sl_fail(SL_EABORTED, "enough");
}

// The rows of vertices 0 and 7 as the device has them.
static int place(struct sl_model *m, const struct sl_resident_matrix *matrix,
                 struct sl_infer_piece *piece)
{
    static const uint32_t ids[] = {0, 7}, indptr[] = {0, 0, 0};
    *piece = (struct sl_infer_piece){
        .lists = {.n_dst = 2, .n_src = WIDE_NODES, .indptr = indptr, .indices = ids}, .ids = ids};
    sl_mempool_reset(&m->pool);
    sl_mempool_reset(&m->notes);
    return sl_resident_place(&m->resident, &m->env, matrix, true, piece);
}

static const struct sl_device *real_device;
static int n_maps, n_unmaps;

static int count_map(void *p, size_t n, bool read_only, void **out)
{
    n_maps++;
    return real_device->map(p, n, read_only, out);
}

static void count_unmap(void *p)
{
    n_unmaps++;
    real_device->unmap(p);
}

// Features are asked for again at every evaluation, activations are other ones each time.
TEST(what_lasts_is_mapped_once)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    scene_init(&s, &c, false);
    real_device = s.far.env.device;
    struct sl_device counting = *real_device;
    counting.map = count_map;
    counting.unmap = count_unmap;
    n_maps = n_unmaps = 0;
    s.far.env.device = &counting;
    struct sl_resident *r = &s.far.resident;
    r->way = SL_RESIDENT_MAPPED;
    struct sl_infer_piece piece;
    struct sl_resident_matrix x = {.dtype = SL_DTYPE_F32, .n_rows = WIDE_NODES, .dim = WIDE_DIM};
    const uint64_t bytes = (uint64_t)WIDE_NODES * WIDE_DIM * sizeof(float);
    float *features = sl_pages_alloc(bytes), *activations = sl_pages_alloc(bytes);
    const void *address = NULL;
    for (int evaluation = 0; evaluation < 3; evaluation++) {
        x.p = features;
        x.lasting = true;
        assert_ok(place(&s.far, &x, &piece));
        ck_assert(piece.x && !piece.x_ids && (!address || piece.x == address));
        address = piece.x;
        x.p = activations;
        x.lasting = false;
        assert_ok(place(&s.far, &x, &piece));
        ck_assert(piece.x && !piece.x_ids && piece.x != address);
        sl_resident_release(r); // as a training step does
        ck_assert_int_eq(n_maps, 2 + evaluation);
        ck_assert_int_eq(n_unmaps, 1 + evaluation);
    }
    sl_resident_fini(r);
    ck_assert_int_eq(n_unmaps, n_maps);
    s.far.env.device = real_device;
    sl_pages_free(features, bytes);
    sl_pages_free(activations, bytes);
    scene_fini(&s);
}

static uint64_t nothing_left(void *ctx)
{
    (void)ctx;
    return 0;
}

// Where memory is short only what is there for good is pinned.
TEST(a_copy_that_stays_is_mapped_whatever_is_left)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    scene_init(&s, &c, false);
    struct sl_resident *r = &s.far.resident;
    r->way = SL_RESIDENT_MAPPED;
    struct sl_infer_piece piece;
    struct sl_resident_matrix x = {.dtype = SL_DTYPE_F32, .n_rows = WIDE_NODES, .dim = WIDE_DIM};
    const uint64_t bytes = (uint64_t)WIDE_NODES * WIDE_DIM * sizeof(float);
    float *features = sl_pages_alloc(bytes);
    x.p = features;
    sl_memory_set_bound(nothing_left, NULL);
    assert_ok(place(&s.far, &x, &piece));
    ck_assert_ptr_null(r->mapped);
    sl_resident_release(r);
    r->stays = features;
    assert_ok(place(&s.far, &x, &piece));
    ck_assert_ptr_nonnull(r->mapped);
    sl_memory_set_bound(NULL, NULL);
    sl_resident_fini(r);
    sl_pages_free(features, bytes);
    scene_fini(&s);
}

TEST(copies_are_watched_and_partial_matrices_gathered)
{
    open_gpu();
    struct scene s;
    struct sl_config c = config_of(SL_MODEL_GRAPHSAGE, 0);
    scene_init(&s, &c, false);
    struct sl_resident *r = &s.far.resident;
    struct sl_infer_piece piece;
    struct sl_resident_matrix x = {.dtype = SL_DTYPE_F32, .n_rows = WIDE_NODES, .dim = WIDE_DIM};
    const uint64_t bytes = (uint64_t)WIDE_NODES * WIDE_DIM * sizeof(float);
    float *rows = fixture_alloc(bytes), *found = fixture_alloc(bytes);
    for (uint64_t i = 0; i < bytes / sizeof *rows; i++)
        rows[i] = (float)i;
    x.p = rows;
    uint64_t told = 0;
    r->watch = (struct sl_resident_watch){.before = count_read, .ctx = &told, .bounded = true};
    assert_ok(place(&s.far, &x, &piece));
    ck_assert_uint_eq(told, bytes);
    ck_assert(sl_resident_has(r, rows, 0) && !sl_resident_has(r, rows, 1));
    assert_ok(s.far.env.device->copy(found, piece.x, bytes));
    assert_ok(s.far.env.device->sync());
    ck_assert_mem_eq(found, rows, bytes);
    // Given up for good, and what is bounded is not pinned instead.
    ck_assert(sl_resident_shrink(r) && !sl_resident_shrink(r));
    assert_ok(place(&s.far, &x, &piece));
    ck_assert(!r->copy && !r->mapped && piece.x_ids);
    // An error of who watches ends it, and leaves nothing that looks like a copy.
    int calls = 0;
    r->watch = (struct sl_resident_watch){.before = refuse_read, .ctx = &calls};
    x.tag = 1;
    ck_assert_int_eq(place(&s.far, &x, &piece), SL_EABORTED);
    ck_assert(!sl_resident_has(r, rows, 1));
    r->watch = (struct sl_resident_watch){0};
    // Neither copied nor mapped, however often: rows that are not there are not read.
    x.tag = 2;
    x.partial = true;
    for (int k = 0; k < 3; k++) {
        assert_ok(place(&s.far, &x, &piece));
        ck_assert(!r->copy && !r->mapped && piece.x_ids);
    }
    assert_ok(s.far.env.device->copy(found, piece.x, 2 * WIDE_DIM * sizeof *found));
    assert_ok(s.far.env.device->sync());
    ck_assert_mem_eq(found, rows, WIDE_DIM * sizeof *found);
    ck_assert_mem_eq(found + WIDE_DIM, rows + 7 * WIDE_DIM, WIDE_DIM * sizeof *found);
    x.tag = 3;
    x.partial = false;
    assert_ok(place(&s.far, &x, &piece));
    ck_assert(sl_resident_has(r, rows, 3));
    free(rows);
    free(found);
    scene_fini(&s);
}

RUN_TESTS(.name = "cuda", .timeout_s = 240, ON_A_GPU)
