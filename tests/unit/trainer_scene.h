// trainer_scene.h - a graph, an arena and a GPU with a cache, and batches that come to it.
#ifndef SL_TESTS_UNIT_TRAINER_SCENE_H
#define SL_TESTS_UNIT_TRAINER_SCENE_H

#include "tests/unit/gpu_fixture.h"
#include "tests/unit/trainer_farm.h"

#include "common/base/half.h"
#include "trainer/feed/gather.h"
#include "trainer/feed/rows.h"

enum { NODES = 200, FEATURES = 6, CLASSES = 4, DEVICE = 2 };
enum { COLUMNS = 40, BATCHES = 6 }; // columns; batches of 20 seeds

struct scene {
    struct fixture_graph g;
    struct farm f;
    struct sl_compute host, gpu;
    struct sl_heartbeat pulse;
    struct sl_cache cache; // on the GPU
    struct sl_seat *seat;
    void *half; // features of two bytes, or NULL
};

// half_dim 0: f32 features.
static inline void scene_init(struct scene *s, uint32_t nodes, uint32_t features, uint32_t half_dim,
                              uint64_t budget_bytes)
{
    *s = (struct scene){.g = fixture_graph(nodes, features, CLASSES, 31)};
    s->half = half_dim ? fixture_halve(&s->g, half_dim) : NULL;
    struct sl_config c = farm_job(2);
    farm_init(&s->f, &c, &s->g, sl_kernels_ref());
    const struct sl_plugin *plugin = gpu_open(budget_bytes);
    s->host = (struct sl_compute){sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    s->gpu = (struct sl_compute){plugin->device, plugin->kernels, sl_kernels_cpu()};
    s->seat = farm_seat(&s->f, DEVICE);
    s->pulse = (struct sl_heartbeat){.arena = &s->f.arena};
    sl_cache_init(&s->cache, &s->f.arena, sl_seat_trainer(&s->f.arena, DEVICE), &s->g.ds, &s->gpu,
                  &s->pulse);
}

static inline void scene_fini(struct scene *s)
{
    sl_cache_fini(&s->cache);
    ck_assert_int_eq(s->gpu.device->sync(), SL_OK);
    farm_fini(&s->f);
    fixture_graph_free(&s->g);
    free(s->half);
}

static inline void ask(struct scene *s, uint64_t rows)
{
    atomic_store(&s->seat->cache_rows, rows);
    sl_cache_refresh(&s->cache);
}

static inline struct sl_block *block_of(struct scene *s, uint32_t batch)
{
    const struct sl_vertex_list *list = &s->g.ds.split[SL_SPLIT_TRAIN];
    const uint32_t *seeds = list->ids + (batch * 7) % (list->n - 20);
    return fixture_rank(farm_block(&s->f, seeds, 20, 0, batch), s->f.rank_of, 1);
}

// The block's features on the GPU: as the processor has widened them, or `half` as they are stored.
static inline void assert_rows(const struct scene *s, const struct sl_block *b, const void *found,
                               const float *wide, bool half)
{
    const struct sl_dataset *ds = &s->g.ds;
    const uint64_t n = (uint64_t)b->n_input * ds->feat_dim;
    const uint64_t bytes = n * (half ? sizeof(uint16_t) : sizeof(float));
    void *x = gpu_get(s->gpu.device, found, bytes);
    const uint16_t *stored = x;
    for (uint64_t i = 0; half && i < n; i++) {
        const float value = sl_half_to_float(stored[i]);
        ck_assert_mem_eq(&value, &wide[i], sizeof value);
    }
    if (!half)
        ck_assert_mem_eq(x, wide, bytes);
    free(x);
}

static inline void assert_features(const struct scene *s, const struct sl_block *b,
                                   const struct sl_gather *g, const void *found)
{
    struct sl_gather gather;
    struct sl_batch_buffer wanted = {0};
    struct sl_gathered ignored;
    sl_gather_init(&gather, &s->host, &s->g.ds, SL_GATHER_FASTER);
    ck_assert_int_eq(sl_gather_block(&gather, NULL, b, NULL, &wanted, &ignored), SL_OK);
    assert_rows(s, b, found, wanted.x, g->half);
    sl_batch_buffer_fini(&wanted);
    sl_gather_fini(&gather);
}

#endif
