// What moves data between the arena, the store and a GPU: extraction, the cache, parameters.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_scene.h"

#include "common/base/bits.h"
#include "trainer/feed/arena_access.h"
#include "trainer/feed/gather.h"
#include "trainer/model/parameters.h"
#include "trainer/probe.h"
#include "trainer/feed/rows.h"

static void assert_loaded(const struct scene *s, uint64_t rows)
{
    const struct sl_dataset *ds = &s->g.ds;
    uint64_t bytes = sl_rows_bytes(ds);
    const uint32_t *order = sl_visit_counts_order(&s->f.arena);
    ck_assert_uint_eq(s->cache.near[0].n_rows, rows);
    ck_assert_uint_eq(atomic_load(&s->seat->cache_loaded), rows);
    char *there = rows ? gpu_get(s->gpu.device, s->cache.near[0].rows, rows * bytes) : NULL;
    for (uint64_t r = 0; r < rows; r++)
        ck_assert_msg(memcmp(there + r * bytes, (const char *)ds->feat + order[r] * bytes, bytes) ==
                          0,
                      "row %llu is not that of vertex %u", (unsigned long long)r, order[r]);
    free(there);
}

// A gathering of the scene's first batch.
struct gathering {
    struct scene s;
    struct sl_gather g;
    struct sl_batch_buffer buffer[2];
    struct sl_gathered result;
    struct sl_block *b;
};

static void gathering_init(struct gathering *t, uint32_t columns, uint32_t half_dim,
                           uint64_t budget_bytes, enum sl_gather_way way)
{
    *t = (struct gathering){0};
    scene_init(&t->s, NODES, columns, half_dim, budget_bytes);
    farm_publish_order(&t->s.f, 1);
    t->b = block_of(&t->s, 0);
    sl_gather_init(&t->g, &t->s.gpu, &t->s.g.ds, way);
}

static void gathering_fini(struct gathering *t)
{
    free(t->b);
    for (int i = 0; i < 2; i++)
        sl_batch_buffer_fini(&t->buffer[i]);
    sl_gather_fini(&t->g);
    scene_fini(&t->s);
}

// Into buffer `to`, behind what the other one has where `again` says so.
static int gather(struct gathering *t, struct sl_cache *cache, bool again, int to)
{
    return sl_gather_block(&t->g, cache, t->b, again ? &t->buffer[1 - to] : NULL, &t->buffer[to],
                           &t->result);
}

// --- extraction ---

// The block's extent on the GPU is the block, but its header is read here.
static void assert_block(const struct scene *s, const struct sl_block *b, struct sl_block_view view)
{
    ck_assert_ptr_eq(view.header, b);
    char *there = gpu_get(s->gpu.device, view.base, b->bytes);
    ck_assert_int_eq(memcmp(there, b, b->bytes), 0);
    free(there);
    ck_assert_uint_eq((uint64_t)((const char *)sl_view_ranks(view) - view.base), b->rank_offset);
}

CASE(.name = "gpu", .timeout_s = 60, ON_A_GPU)

LOOP_TEST(features_are_those_of_the_processor, 0, 3)
{
    static const enum sl_gather_way ways[] = {SL_GATHER_STAGED, SL_GATHER_MAPPED, SL_GATHER_FASTER};
    static const uint64_t capacity[] = {0, 1, 13, NODES / 2, NODES - 1, NODES};
    static const uint32_t half_dim[] = {0, 4, 3, 4};
    for (size_t h = 0; h < SL_COUNT_OF(half_dim); h++) {
        const bool half = h == 3; // stays what it is
        struct scene s;
        scene_init(&s, NODES, FEATURES, half_dim[h], 0);
        farm_publish_order(&s.f, 1);
        struct sl_block *b = block_of(&s, 0);
        const struct sl_dataset *ds = &s.g.ds;
        const uint64_t bytes = (uint64_t)b->n_input * ds->feat_dim * sizeof(float);
        struct sl_gather here, there;
        struct sl_batch_buffer wanted = {0}, found = {0};
        struct sl_gathered one, other;
        sl_gather_init(&here, &s.host, ds, SL_GATHER_FASTER);
        ck_assert_int_eq(sl_gather_block(&here, NULL, b, NULL, &wanted, &one), SL_OK);
        sl_gather_init(&there, &s.gpu, ds, ways[_i]);
        there.half = half;
        for (size_t i = 0; i < SL_COUNT_OF(capacity); i++) {
            ask(&s, capacity[i]);
            uint64_t hits = 0;
            for (uint32_t k = 0; k < b->n_input; k++)
                hits += sl_block_ranks(b)[k] < capacity[i];
            ck_assert_msg(sl_gather_block(&there, &s.cache, b, NULL, &found, &other) == SL_OK, "%s",
                          sl_error_message());
            assert_rows(&s, b, found.x, wanted.x, half);
            ck_assert(half == (found.features.bytes < bytes));
            ck_assert_uint_eq(other.hits, hits);
            ck_assert_uint_eq(other.hit_bytes, hits * sl_rows_bytes(ds));
            ck_assert_uint_eq(other.miss_bytes, (b->n_input - hits) * sl_rows_bytes(ds));
            assert_block(&s, b, found.block);
        }
        ck_assert(there.way != SL_GATHER_FASTER);
        ck_assert_int_eq(there.store.there != NULL, there.way == SL_GATHER_MAPPED);
        sl_batch_buffer_fini(&wanted);
        sl_batch_buffer_fini(&found);
        sl_gather_fini(&here);
        sl_gather_fini(&there);
        free(b);
        scene_fini(&s);
    }
}

// Vertices of the block that the cache has not and `before`, which may be NULL, has.
static uint32_t common_vertices(const struct sl_block *before, const struct sl_block *b,
                                uint32_t capacity)
{
    uint32_t n = 0;
    for (uint32_t i = 0; before && i < b->n_input; i++)
        for (uint32_t k = 0; k < before->n_input; k++)
            n += sl_block_nodes(b)[i] == sl_block_nodes(before)[k] &&
                 sl_block_ranks(b)[i] >= capacity;
    return n;
}

// What the batch before had is counted, and is not the store's any more.
LOOP_TEST(rows_of_the_batch_before_are_reused, 0, 9)
{
    static const uint32_t capacity[] = {0, 30, NODES / 2}, half_dim[] = {0, 2 * COLUMNS};
    struct gathering t;
    const uint32_t rows = capacity[_i % 3];
    gathering_init(&t, COLUMNS, half_dim[SL_MIN(_i / 3, 1)], 0, SL_GATHER_STAGED);
    ask(&t.s, rows);
    const uint64_t row_bytes = sl_rows_bytes(&t.s.g.ds);
    t.g.half = _i / 3 == 2;
    uint64_t all = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct sl_block *before = i > 0 ? t.b : NULL;
        t.b = i > 0 ? block_of(&t.s, i) : t.b;
        ck_assert_msg(gather(&t, &t.s.cache, true, i % 2) == SL_OK, "%s", sl_error_message());
        const uint32_t wanted = common_vertices(before, t.b, rows);
        ck_assert_uint_eq(t.result.matched, wanted);
        ck_assert_uint_eq(t.result.matched_bytes, wanted * row_bytes);
        ck_assert_uint_eq(t.result.miss_bytes, (t.b->n_input - t.result.hits - wanted) * row_bytes);
        assert_features(&t.s, t.b, &t.g, t.buffer[i % 2].x);
        all += wanted;
        free(before);
    }
    ck_assert_uint_gt(all, 0);
    gathering_fini(&t);
}

// ... which shows when the store has something else by now.
TEST(matched_rows_do_not_come_from_the_store)
{
    struct gathering t;
    gathering_init(&t, COLUMNS, 0, 0, SL_GATHER_STAGED);
    float *first = fixture_input(&t.s.g.ds, t.b);
    const uint64_t bytes = (uint64_t)t.b->n_input * COLUMNS * sizeof *first;
    ck_assert_int_eq(gather(&t, NULL, true, 0), SL_OK);
    memset((void *)(uintptr_t)t.s.g.ds.feat, 0, NODES * sl_rows_bytes(&t.s.g.ds));
    ck_assert_int_eq(gather(&t, NULL, true, 1), SL_OK);
    ck_assert_uint_eq(t.result.matched, t.b->n_input);
    ck_assert_uint_eq(t.result.miss_bytes, 0);
    float *x = gpu_get(t.s.gpu.device, t.buffer[1].x, bytes);
    ck_assert_mem_eq(x, first, bytes);
    free(x);
    // Whoever changes what was gathered asks for everything anew.
    ck_assert_int_eq(gather(&t, NULL, false, 0), SL_OK);
    ck_assert_uint_eq(t.result.matched, 0);
    x = gpu_get(t.s.gpu.device, t.buffer[0].x, bytes);
    ck_assert(x[0] == 0);
    free(x);
    free(first);
    gathering_fini(&t);
}

// Its gathering stopped half way: nothing of it is taken for features.
TEST(a_batch_that_failed_is_none_to_match)
{
    struct gathering t;
    gathering_init(&t, COLUMNS, 0, 0, SL_GATHER_STAGED);
    uint32_t *last = (uint32_t *)(void *)((char *)t.b + t.b->nodes_offset) + t.b->n_input - 1,
             was = *last;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(gather(&t, NULL, true, i), SL_OK);
    *last = NODES;
    ck_assert_int_eq(gather(&t, NULL, true, 0), SL_ERANGE);
    *last = was;
    ck_assert_int_eq(gather(&t, NULL, true, 1), SL_OK);
    ck_assert_uint_eq(t.result.matched, 0);
    assert_features(&t.s, t.b, &t.g, t.buffer[1].x);
    gathering_fini(&t);
}

// Rows as short as what looking for them takes, and rows that the GPU reads in place.
LOOP_TEST(what_is_near_or_short_is_not_looked_for, 0, 2)
{
    struct gathering t;
    gathering_init(&t, _i ? COLUMNS : 32, 0, 0, _i ? SL_GATHER_MAPPED : SL_GATHER_STAGED);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(gather(&t, NULL, true, i), SL_OK);
        ck_assert_uint_eq(t.result.matched, 0);
        assert_features(&t.s, t.b, &t.g, t.buffer[i].x);
    }
    ck_assert_ptr_null(t.g.match.place);
    gathering_fini(&t);
}

// Where both ways are tried, whatever is found: with a batch before it is found for good.
TEST(the_ways_are_compared_with_a_batch_before)
{
    struct gathering t;
    gathering_init(&t, COLUMNS, 0, 0, SL_GATHER_FASTER);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(gather(&t, NULL, true, i % 2), SL_OK);
        assert_features(&t.s, t.b, &t.g, t.buffer[i % 2].x);
        ck_assert_int_eq(t.g.unmatched, i == 0 && t.g.way == SL_GATHER_MAPPED);
        ck_assert_int_eq(t.g.store.there != NULL, t.g.way == SL_GATHER_MAPPED);
        ck_assert_uint_eq(t.result.matched,
                          i > 0 && t.g.way == SL_GATHER_STAGED ? t.b->n_input : 0);
        ck_assert(t.g.staged.p || (t.g.way == SL_GATHER_MAPPED && i > 0));
    }
    gathering_fini(&t);
}

LOOP_TEST(nothing_grows_the_second_time, 0, 2)
{
    struct gathering t;
    gathering_init(&t, FEATURES, 0, 0, _i ? SL_GATHER_MAPPED : SL_GATHER_STAGED);
    ask(&t.s, NODES / 2);
    ck_assert_int_eq(gather(&t, &t.s.cache, false, 0), SL_OK);
    const struct sl_gather before = t.g;
    const struct sl_batch_buffer first = t.buffer[0];
    uint64_t held = t.s.gpu.device->held();
    ck_assert_int_eq(gather(&t, &t.s.cache, false, 0), SL_OK);
    ck_assert_int_eq(memcmp(&t.g, &before, sizeof t.g), 0);
    ck_assert_int_eq(memcmp(&t.buffer[0], &first, sizeof first), 0);
    ck_assert_uint_eq(t.s.gpu.device->held(), held);
    gathering_fini(&t);
}

LOOP_TEST(store_that_can_not_be_mapped_is_copied, 0, 2)
{
    setenv("SLUICE_SIMT_FAIL", "noregister", 1);
    struct gathering t;
    gathering_init(&t, FEATURES, 0, 0, _i ? SL_GATHER_MAPPED : SL_GATHER_FASTER);
    struct sl_arena_access access;
    sl_arena_access_open(&access, t.s.gpu.device, &t.s.f.arena);
    for (int i = 0; i < SL_ARENA_ACCESS_PARTS; i++)
        ck_assert_ptr_null(access.part[i]);
    ck_assert_int_eq(gather(&t, NULL, false, 0), SL_OK);
    ck_assert_int_eq(t.g.way, SL_GATHER_STAGED);
    assert_features(&t.s, t.b, &t.g, t.buffer[0].x);
    sl_arena_access_close(&access);
    gathering_fini(&t);
}

TEST(arena_is_pinned_but_for_the_activations)
{
    struct scene s;
    scene_init(&s, NODES, FEATURES, 0, 0);
    struct sl_arena_access access;
    sl_arena_access_open(&access, s.gpu.device, &s.f.arena);
    ck_assert_ptr_eq(access.part[0], sl_arena_region(&s.f.arena, SL_REGION_PARAMS));
    ck_assert_ptr_eq(access.part[1], sl_arena_region(&s.f.arena, SL_REGION_PROBE));
    sl_arena_access_close(&access);
    sl_arena_access_close(&access);
    scene_fini(&s);
}

LOOP_TEST(vertex_that_the_store_has_not_is_an_error, 0, 3)
{
    static const enum sl_gather_way ways[] = {SL_GATHER_STAGED, SL_GATHER_MAPPED};
    static const uint32_t half_dim[] = {0, 0, 3};
    struct gathering t;
    gathering_init(&t, FEATURES, half_dim[_i], 0, ways[_i & 1]);
    ask(&t.s, 1);
    uint32_t at = 0;
    while (sl_block_ranks(t.b)[at] < 1)
        at++;
    uint32_t *node = (uint32_t *)(void *)((char *)t.b + t.b->nodes_offset) + at, was = *node;
    *node = NODES;
    ck_assert_int_eq(gather(&t, &t.s.cache, false, 0), SL_ERANGE);
    // The device is none the worse.
    *node = was;
    ck_assert_int_eq(gather(&t, &t.s.cache, false, 0), SL_OK);
    gathering_fini(&t);
}

TEST(batch_without_room_on_the_device_says_what_to_do)
{
    struct gathering t;
    gathering_init(&t, FEATURES, 0, 4096, SL_GATHER_STAGED);
    ck_assert_int_eq(gather(&t, NULL, false, 0), SL_ENOMEM);
    ck_assert_msg(strstr(sl_error_message(), "sampler.batch_size"), "%s", sl_error_message());
    gathering_fini(&t);
}

// --- the cache ---

LOOP_TEST(cache_grows_and_shrinks, 0, 2)
{
    static const uint32_t half_dim[] = {0, 3};
    static const uint64_t steps[] = {120, 121, 70, 10, 10, NODES, 0, 1, 150, 51, 60, 0, NODES + 9};
    struct scene s;
    scene_init(&s, NODES, FEATURES, half_dim[_i], 0);
    farm_publish_order(&s.f, 1);
    for (size_t i = 0; i < SL_COUNT_OF(steps); i++) {
        const bool shrinks = i > 0 && steps[i] < steps[i - 1];
        uint64_t load_ns = s.cache.load_ns;
        ask(&s, steps[i]);
        assert_loaded(&s, SL_MIN(steps[i], (uint64_t)NODES));
        ck_assert_uint_eq(s.cache.near[0].bytes, s.cache.near[0].n_rows * sl_rows_bytes(&s.g.ds));
        ck_assert(!shrinks || s.cache.load_ns == load_ns); // what is there is not loaded again
    }
    farm_publish_order(&s.f, 2);
    ask(&s, 77);
    assert_loaded(&s, 77);
    ck_assert_uint_eq(s.cache.generation, 2);
    scene_fini(&s);
}

TEST(want_of_device_memory_makes_a_smaller_cache)
{
    enum { ROWS = 2000, WIDE = 128, BUDGET = 512 << 10 }; // of 1 MiB
    struct scene s;
    scene_init(&s, ROWS, WIDE, 0, BUDGET);
    farm_publish_order(&s.f, 1);
    ask(&s, ROWS);
    ck_assert_uint_gt(s.cache.near[0].n_rows, BUDGET / 2 / (WIDE * 4));
    ck_assert_uint_lt(s.cache.near[0].n_rows, BUDGET / (WIDE * 4));
    assert_loaded(&s, s.cache.near[0].n_rows);
    // There is no room for the old and the new one beside each other: filled again.
    uint64_t load_ns = s.cache.load_ns;
    uint32_t fewer = s.cache.near[0].n_rows - 10;
    ask(&s, fewer);
    assert_loaded(&s, fewer);
    ck_assert_uint_gt(s.cache.load_ns, load_ns);
    ck_assert_uint_le(s.gpu.device->held(), BUDGET);
    scene_fini(&s);
}

// --- parameters ---

TEST(parameters_are_copied_once_a_version)
{
    enum { N = 1000 };
    static float board[N], slot[N];
    for (int i = 0; i < N; i++)
        board[i] = (float)i;
    const struct sl_device *device = gpu_open(0)->device;
    struct sl_parameters p;
    const float *at;
    ck_assert_int_eq(sl_parameters_init(&p, device, N, NULL, false), SL_OK);
    ck_assert_uint_eq(sl_parameters_bytes(&p), 2 * sizeof board);
    ck_assert_int_eq(sl_parameters_take(&p, SL_PARAMETERS_VERSION, 0, board, &at), SL_OK);
    float *found = gpu_get(device, at, sizeof board);
    ck_assert_int_eq(memcmp(found, board, sizeof board), 0);
    free(found);
    board[7] = -1; // a version never changes: that it is not seen shows that nothing was copied
    ck_assert_int_eq(sl_parameters_take(&p, SL_PARAMETERS_VERSION, 0, board, &at), SL_OK);
    found = gpu_get(device, at, sizeof board);
    ck_assert(found[7] == 7);
    free(found);
    static const struct {
        enum sl_parameters_name name;
        uint64_t stamp;
    } others[] = {{SL_PARAMETERS_VERSION, 1}, {SL_PARAMETERS_PHASE, 1}, {SL_PARAMETERS_PHASE, 2}};
    for (size_t i = 0; i < SL_COUNT_OF(others); i++) {
        board[7] = -2 - (float)i;
        ck_assert_int_eq(sl_parameters_take(&p, others[i].name, others[i].stamp, board, &at),
                         SL_OK);
        found = gpu_get(device, at, sizeof board);
        ck_assert(found[7] == board[7]);
        free(found);
    }
    float *gradient = sl_parameters_gradient(&p, slot);
    ck_assert_ptr_ne(gradient, slot);
    ck_assert_int_eq(device->copy(gradient, board, sizeof board), SL_OK);
    ck_assert_int_eq(sl_parameters_deliver(&p, slot), SL_OK);
    ck_assert_int_eq(memcmp(slot, board, sizeof board), 0);
    sl_parameters_fini(&p);
    sl_parameters_fini(&p);
}

CASE(.name = "gpu", .timeout_s = 60)

TEST(processor_computes_on_the_board_itself)
{
    float board[4] = {1, 2, 3, 4}, slot[4];
    struct sl_parameters p;
    const float *at;
    ck_assert_int_eq(sl_parameters_init(&p, sl_device_host(), 4, NULL, false), SL_OK);
    ck_assert_uint_eq(sl_parameters_bytes(&p), 0);
    ck_assert_int_eq(sl_parameters_take(&p, SL_PARAMETERS_VERSION, 0, board, &at), SL_OK);
    ck_assert_ptr_eq(at, board);
    ck_assert_ptr_eq(sl_parameters_gradient(&p, slot), slot);
    ck_assert_int_eq(sl_parameters_deliver(&p, slot), SL_OK);
    sl_parameters_fini(&p);
}

// --- the probe ---

// Of a trainer of this block, with a model and a gathering of its own.
static struct sl_trainer_probe probe(struct scene *s, struct sl_block *b, enum sl_gather_way way,
                                     struct sl_model *model, struct sl_gather *gather)
{
    struct sl_trainer_probe out;
    ck_assert_int_eq(sl_model_init(model, &s->f.config, FEATURES, NULL, fixture_objective(CLASSES),
                                   s->gpu.device, s->gpu.kernels),
                     SL_OK);
    sl_gather_init(gather, &s->gpu, &s->g.ds, way);
    sl_probe_offer(&s->f.arena, FARM_SAMPLER, b);
    const struct sl_trainer_spec spec = {.arena = &s->f.arena,
                                         .device = DEVICE,
                                         .config = &s->f.config,
                                         .dataset = &s->g.ds,
                                         .model = model,
                                         .gather = gather};
    ck_assert_msg(sl_trainer_probe(&spec, &out) == SL_OK, "%s", sl_error_message());
    return out;
}

CASE(.timeout_s = 60, ON_A_GPU)

TEST(probe_counts_what_the_process_holds_of_the_device)
{
    struct scene s;
    struct sl_model model;
    struct sl_gather gather;
    scene_init(&s, NODES, FEATURES, 0, 0);
    farm_publish_order(&s.f, 1);
    struct sl_block *b = block_of(&s, 0);
    const uint64_t most = s.f.arena.h->spec.n_params * sizeof(float);
    float *before = fixture_alloc(most);
    memcpy(before, sl_param_store_params(&s.f.arena, 0), most);
    const struct sl_trainer_probe out = probe(&s, b, SL_GATHER_FASTER, &model, &gather);
    const uint64_t params = model.n_params * sizeof(float);
    ck_assert_uint_eq(params, most);
    ck_assert_uint_gt(out.train_ns, 0);
    // Two buffers, two vectors of parameters, and the pool: slabs of 2 MiB.
    const uint64_t buffer = b->bytes + b->n_input * FEATURES * sizeof(float);
    ck_assert_uint_ge(out.step_bytes, 2 * buffer + 2 * params + model.pool.peak_bytes);
    ck_assert_uint_le(out.step_bytes, s.gpu.device->held() + 3 * buffer + 3 * params + (1 << 20));
    ck_assert_int_eq(memcmp(sl_param_store_params(&s.f.arena, 0), before, params), 0);
    const float *slot = sl_param_store_gradient(&s.f.arena, 0);
    for (uint64_t i = 0; i < model.n_params; i++)
        ck_assert(slot[i] == 0);
    free(before);
    free(b);
    sl_gather_fini(&gather);
    sl_model_fini(&model);
    scene_fini(&s);
}

// Rows as short as these are sent at once to their places, as long as there is no cache beside.
TEST(probe_counts_what_the_misses_beside_a_cache_take)
{
    struct scene s;
    uint64_t step_bytes[2];
    scene_init(&s, NODES, FEATURES, 0, 0);
    farm_publish_order(&s.f, 1);
    struct sl_block *b = block_of(&s, 0);
    for (int cached = 0; cached < 2; cached++) {
        struct sl_model model;
        struct sl_gather gather;
        s.f.config.cache.policy = cached ? SL_CACHE_DEGREE : SL_CACHE_NONE;
        step_bytes[cached] = probe(&s, b, SL_GATHER_STAGED, &model, &gather).step_bytes;
        ck_assert_ptr_null(gather.staged.p);
        sl_gather_fini(&gather);
        sl_model_fini(&model);
    }
    const uint64_t row = FEATURES * sizeof(float) + SL_GATHER_LISTS * sizeof(uint32_t);
    ck_assert_uint_eq(step_bytes[1] - step_bytes[0], b->n_input * row);
    free(b);
    scene_fini(&s);
}

// --- pinning the store ---

static const char *registered(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/sluice-registered-%d", (int)getpid());
    setenv("SLUICE_SIMT_REGISTERED", path, 1);
    return path;
}

// How often the pages of the store's first row were registered.
static uint32_t times_pinned(const struct sl_dataset *ds)
{
    int pid;
    void *at;
    size_t bytes;
    uint32_t n = 0;
    FILE *file = fopen(registered(), "r");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%d %p %zu", &pid, &at, &bytes) == 3)
        n += (const char *)ds->feat >= (const char *)at &&
             (const char *)ds->feat < (const char *)at + bytes;
    fclose(file);
    return n;
}

// Pages of its own, as a file's mapping has: nothing else is pinned with them.
static void give_store_pages(struct sl_dataset *ds)
{
    const uint64_t bytes = ds->n_nodes * sl_rows_bytes(ds);
    void *pages = sl_pages_alloc(bytes);
    ck_assert_ptr_nonnull(pages);
    memcpy(pages, ds->feat, bytes);
    ds->feat = pages;
}

LOOP_TEST(store_is_pinned_once_in_a_trainers_life, 0, 2)
{
    static const enum sl_gather_way ways[] = {SL_GATHER_MAPPED, SL_GATHER_FASTER};
    unlink(registered());
    struct scene s;
    struct farm_trainer t = {.farm = &s.f, .worker = 1, .device = DEVICE};
    scene_init(&s, NODES, FEATURES, 0, 0);
    const void *feat = s.g.ds.feat;
    give_store_pages(&s.g.ds);
    farm_publish_order(&s.f, 1);
    ck_assert_int_eq(sl_model_init(&t.model, &s.f.config, FEATURES, NULL,
                                   fixture_objective(CLASSES), s.gpu.device, s.gpu.kernels),
                     SL_OK);
    sl_gather_init(&t.gather, &s.gpu, &s.g.ds, ways[_i]);
    struct sl_block *b = block_of(&s, 0);
    sl_probe_offer(&s.f.arena, FARM_SAMPLER, b);
    const struct sl_trainer_spec spec = farm_trainer_spec(&t);
    struct sl_trainer_probe out;
    ck_assert_msg(sl_trainer_probe(&spec, &out) == SL_OK, "%s", sl_error_message());
    ck_assert_uint_eq(times_pinned(&s.g.ds), 1);
    const enum sl_gather_way found = t.gather.way;
    ck_assert_int_ne(found, SL_GATHER_FASTER);
    // Batches, and inference that reads the features in place too where they are pinned.
    t.model.resident.way = found == SL_GATHER_MAPPED ? SL_RESIDENT_MAPPED : SL_RESIDENT_AUTO;
    farm_set_duty(&s.f, DEVICE, SL_DUTY_WORK);
    farm_start_sampler(&s.f);
    ck_assert_int_eq(pthread_create(&t.thread, NULL, farm_train, &t), 0);
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        farm_wait(&s.f, farm_open_train(&s.f, epoch));
        farm_infer(&s.f, SL_SET_VAL, SL_PARAMS_CURRENT, 64);
    }
    atomic_store(&t.stop, true);
    pthread_join(t.thread, NULL);
    ck_assert_int_eq(t.rc, SL_OK);
    ck_assert_uint_eq(times_pinned(&s.g.ds), 1);
    ck_assert_int_eq(t.gather.way, found);
    farm_release(&t);
    free(b);
    sl_pages_free((void *)(uintptr_t)s.g.ds.feat, s.g.ds.n_nodes * sl_rows_bytes(&s.g.ds));
    s.g.ds.feat = feat;
    unlink(registered());
    scene_fini(&s);
}

// What the probe has mapped is of no use to a cache of all rows; once missed it stays.
TEST(a_cache_of_all_rows_pins_nothing)
{
    unlink(registered());
    struct gathering t;
    static const struct {
        uint64_t rows;
        bool cached, pinned;
        uint32_t times;
    } steps[] = {
        {0, false, true, 1}, // the probe
        {NODES, true, false, 1}, {NODES, true, false, 1}, {NODES - 1, true, true, 2},
        {NODES, true, true, 2},  {3, true, true, 2},
    };
    gathering_init(&t, FEATURES, 0, 0, SL_GATHER_MAPPED);
    for (size_t i = 0; i < SL_COUNT_OF(steps); i++) {
        ask(&t.s, steps[i].rows);
        ck_assert_msg(gather(&t, steps[i].cached ? &t.s.cache : NULL, false, 0) == SL_OK, "%s",
                      sl_error_message());
        ck_assert_int_eq(t.g.store.there != NULL, steps[i].pinned);
        ck_assert_int_eq(t.g.way, SL_GATHER_MAPPED);
        ck_assert_uint_eq(times_pinned(&t.s.g.ds), steps[i].times);
        assert_features(&t.s, t.b, &t.g, t.buffer[0].x);
    }
    unlink(registered());
    gathering_fini(&t);
}

RUN_TESTS(.quiet = true)
