/*
 * trainer_cuda_scene.h - the same model on a GPU and on CPU cores, for tests that compare them: a
 * small graph, a configuration of each kind in several variants, a step on the GPU.
 */
#ifndef SL_TESTS_UNIT_TRAINER_CUDA_SCENE_H
#define SL_TESTS_UNIT_TRAINER_CUDA_SCENE_H

#include "common/data/self_loops.h"
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/model/model.h"

enum { NODES = 60, FEATURES = 6, CLASSES = 3, HIDDEN = 6, SEEDS = 9 };

static const int64_t FANOUT[] = {3, 4, 2};

static const struct sl_device *gpu;
static const struct sl_kernels *on_gpu;

static inline void open_gpu(void)
{
    const struct sl_plugin *plugin = gpu_open(0);
    gpu = plugin->device;
    on_gpu = plugin->kernels;
}

static inline void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

struct scene {
    struct fixture_graph g;
    struct sl_self_loops loops;
    struct sl_objective objective;
    struct sl_neighbours walks[2]; // of each model
    struct sl_model cpu, far;
    float *params, *far_params; // (n_params)
};

static inline void scene_init(struct scene *s, const struct sl_config *c, bool class_weights)
{
    *s = (struct scene){.g = fixture_graph(NODES, FEATURES, CLASSES, 17)};
    fixture_add_loops(&s->g);
    if (c->model.edge_features)
        fixture_add_edge_features(&s->g, 3, 23);
    s->objective = (struct sl_objective){.task = SL_TASK_MULTICLASS, .n_outputs = CLASSES};
    if (sl_config_is_links(c))
        assert_ok(sl_objective_init(&s->objective, c, &s->g.ds));
    if (class_weights) {
        s->objective.class_weight = fixture_alloc(CLASSES * sizeof(float));
        for (uint32_t k = 0; k < CLASSES; k++)
            s->objective.class_weight[k] = 0.5f + (float)k;
    }
    const struct sl_typed *typed = &s->g.ds.typed;
    assert_ok(sl_model_init(&s->cpu, c, FEATURES, typed, &s->objective, sl_device_host(),
                            sl_kernels_cpu()));
    assert_ok(sl_model_init(&s->far, c, FEATURES, typed, &s->objective, gpu, on_gpu));
    if (sl_model_needs_self_loops(&s->cpu)) {
        assert_ok(sl_self_loops_find(&s->g.ds, 1, &s->loops));
        if (sl_model_needs_out_degrees(&s->cpu))
            assert_ok(sl_self_loops_count_out(&s->loops, 1));
        s->cpu.self_loops = s->far.self_loops = &s->loops;
    }
    for (int k = 0; sl_neighbours_walks(c) && k < 2; k++) {
        assert_ok(sl_neighbours_init(&s->walks[k], c, &s->g.ds, sl_kernels_cpu()));
        *(k ? &s->far.neighbours : &s->cpu.neighbours) = &s->walks[k];
    }
    s->params = fixture_params(&s->cpu, 5);
    s->far_params = gpu_put(gpu, s->params, s->cpu.n_params * sizeof(float));
}

static inline void scene_fini(struct scene *s)
{
    gpu_free(gpu, s->far_params, s->cpu.n_params * sizeof(float));
    free(s->params);
    sl_neighbours_fini(&s->walks[0]);
    sl_neighbours_fini(&s->walks[1]);
    sl_model_fini(&s->cpu);
    sl_model_fini(&s->far);
    free(s->objective.class_weight);
    sl_self_loops_free(&s->loops);
    fixture_graph_free(&s->g);
}

// Every kind has its own options; norms, jumping knowledge, activations and dropout go around.
static inline struct sl_config config_of(int kind, int variant)
{
    struct sl_config c =
        fixture_config((enum sl_model_kind)kind, 1 + (uint32_t)variant % 3, HIDDEN);
    c.model.norm = (enum sl_norm_kind)(variant % 3);
    c.model.jumping = (enum sl_jumping_kind)(variant / 2 % 4);
    c.model.activation = (enum sl_activation_kind)(variant / 3 % 3);
    c.model.aggregator = (enum sl_aggregator)(variant / 2 % 3);
    c.model.self_loops = variant % 4 != 1;
    c.model.degrees = variant % 4 == 2 ? SL_DEGREES_BLOCK : SL_DEGREES_GRAPH;
    c.model.heads = variant % 2 ? 3 : 2;
    c.model.residual = variant % 3 == 1;
    c.model.eps = 0.3;
    c.model.train_eps = variant % 2 == 0;
    if (variant % 2) {
        c.model.dropout = 0.4;
        c.model.attention_dropout = 0.3;
        c.model.input_dropout = 0.2;
    }
    return c;
}

enum { VARIANTS = 8 };

static inline struct sl_block *some_block(struct scene *s, uint32_t layers, uint32_t n_seeds)
{
    uint32_t seeds[SEEDS];
    for (uint32_t i = 0; i < n_seeds; i++)
        seeds[i] = (i * 13 + 4) % NODES;
    return fixture_block(&s->g.ds, seeds, n_seeds, layers, FANOUT, 2, n_seeds);
}

// A step and an evaluation on the GPU: gradient (n_params), then outputs (n_seeds, CLASSES), or the
// scores of pairs.
static inline float *step_on(struct scene *s, struct sl_block *b, const void *x, size_t x_bytes)
{
    const bool pairs = b->flags & SL_BLOCK_HAS_PAIRS;
    const size_t n_params = s->far.n_params, n_outputs = pairs ? b->n_pairs : b->n_seeds * CLASSES;
    float *all = fixture_alloc((n_params + n_outputs) * sizeof *all);
    char *base = gpu_put(gpu, b, b->bytes);
    const struct sl_block_view there = {.header = b, .base = base};
    void *far_x = gpu_put(gpu, x, x_bytes);
    float *gradient = gpu_put(gpu, all, n_params * sizeof *all);
    const float *outputs;
    struct sl_loss_result ignored;
    assert_ok(sl_model_train(&s->far, s->far_params, there, far_x, gradient, &ignored));
    assert_ok(gpu->copy(all, gradient, n_params * sizeof *all));
    assert_ok(sl_model_evaluate(&s->far, s->far_params, there, far_x, &ignored, &outputs));
    assert_ok(gpu->copy(all + n_params, outputs, n_outputs * sizeof *all));
    assert_ok(gpu->sync());
    gpu_free(gpu, far_x, x_bytes);
    gpu_free(gpu, gradient, n_params * sizeof *all);
    gpu_free(gpu, base, b->bytes);
    return all;
}

#endif
