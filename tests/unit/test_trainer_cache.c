// The feature cache, and extraction through it.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

#include <sys/resource.h>

#include "trainer/feed/gather.h"

enum { NODES = 200, FEATURES = 6, CLASSES = 4, DEVICE = 2 };

struct scene {
    struct fixture_graph g;
    struct farm f;
    struct sl_compute compute;
    struct sl_heartbeat pulse;
    struct sl_cache cache;
    struct sl_seat *seat;
    void *half; // features of two bytes, or NULL
};

// half_dim 0: f32 features of FEATURES.
static void scene_init(struct scene *s, uint32_t nodes, uint32_t features, uint32_t half_dim,
                       const struct sl_kernels *kernels)
{
    *s = (struct scene){.g = fixture_graph(nodes, features, CLASSES, 31)};
    s->half = half_dim ? fixture_halve(&s->g, half_dim) : NULL;
    struct sl_config c = farm_job(2);
    farm_init(&s->f, &c, &s->g, kernels);
    s->seat = farm_seat(&s->f, DEVICE);
    s->compute = (struct sl_compute){sl_device_host(), kernels, kernels};
    s->pulse = (struct sl_heartbeat){.arena = &s->f.arena};
    sl_cache_init(&s->cache, &s->f.arena, sl_seat_trainer(&s->f.arena, DEVICE), &s->g.ds,
                  &s->compute, &s->pulse);
}

static void scene_fini(struct scene *s)
{
    sl_cache_fini(&s->cache);
    farm_fini(&s->f);
    fixture_graph_free(&s->g);
    free(s->half);
}

static void ask(struct scene *s, uint64_t rows)
{
    atomic_store(&s->seat->cache_rows, rows);
    sl_cache_refresh(&s->cache);
}

static void assert_loaded(const struct scene *s, uint64_t rows)
{
    const struct sl_dataset *ds = &s->g.ds;
    uint64_t bytes = ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
    const uint32_t *order = sl_visit_counts_order(&s->f.arena);
    ck_assert_uint_eq(s->cache.near[0].n_rows, rows);
    ck_assert_uint_eq(atomic_load(&s->seat->cache_loaded), rows);
    ck_assert_uint_eq(atomic_load(&s->seat->cache_generation), s->cache.generation);
    for (uint64_t r = 0; r < rows; r++)
        ck_assert_msg(memcmp(s->cache.near[0].rows + r * bytes,
                             (const char *)ds->feat + order[r] * bytes, bytes) == 0,
                      "row %llu is not that of vertex %u", (unsigned long long)r, order[r]);
}

static const struct sl_kernels *back_end(int i)
{
    return i ? sl_kernels_cpu() : sl_kernels_ref();
}

LOOP_TEST(every_capacity_holds_the_hottest_rows, 0, 2)
{
    static const uint64_t capacity[] = {0, 1, 2, NODES / 2, NODES - 1, NODES, NODES + 1000};
    // f32; f16 in whole words; f16 in odd halves.
    static const uint32_t half_dim[] = {0, 4, 3};
    for (size_t h = 0; h < SL_COUNT_OF(half_dim); h++)
        for (size_t i = 0; i < SL_COUNT_OF(capacity); i++) {
            struct scene s;
            scene_init(&s, NODES, FEATURES, half_dim[h], back_end(_i));
            farm_publish_order(&s.f, 1);
            ask(&s, capacity[i]);
            assert_loaded(&s, SL_MIN(capacity[i], (uint64_t)NODES));
            ck_assert_uint_eq(s.cache.generation, 1);
            ck_assert((atomic_load(&s.seat->cache_load_ns) > 0) == (capacity[i] > 0));
            scene_fini(&s);
        }
}

TEST(nothing_is_loaded_before_there_is_an_order)
{
    struct scene s;
    scene_init(&s, NODES, FEATURES, 0, sl_kernels_ref());
    ask(&s, 50);
    assert_loaded(&s, 0);
    ck_assert_ptr_null(s.cache.near[0].rows);
    farm_publish_order(&s.f, 1);
    sl_cache_refresh(&s.cache);
    assert_loaded(&s, 50);
    scene_fini(&s);
}

TEST(grows_and_shrinks)
{
    // 4 KiB a row: sizes differ by whole huge pages.
    enum { ROWS = 3000, WIDE = 1024 };
    struct scene s;
    scene_init(&s, ROWS, WIDE, 0, sl_kernels_cpu());
    farm_publish_order(&s.f, 1);
    static const uint64_t steps[] = {2000, 2001, 700, 100, 100, 3000, 0, 1, 1500, 512, 600, 0};
    for (size_t i = 0; i < SL_COUNT_OF(steps); i++) {
        ask(&s, steps[i]);
        assert_loaded(&s, steps[i]);
        // What was given up is not kept.
        ck_assert_uint_le(s.cache.near[0].bytes, sl_align_up(steps[i] * WIDE * 4, 2 << 20));
        ck_assert((s.cache.near[0].rows == NULL) == (steps[i] == 0));
    }
    scene_fini(&s);
}

TEST(shrinking_takes_no_time_and_no_other_rows)
{
    struct scene s;
    scene_init(&s, NODES, FEATURES, 0, sl_kernels_ref());
    farm_publish_order(&s.f, 1);
    ask(&s, 150);
    const char *rows = s.cache.near[0].rows;
    uint64_t load_ns = s.cache.load_ns;
    ask(&s, 149);
    ck_assert_ptr_eq(s.cache.near[0].rows, rows);
    ck_assert_uint_eq(s.cache.load_ns, load_ns);
    assert_loaded(&s, 149);
    // Nothing to do: not even the seat is written.
    atomic_store(&s.seat->cache_loaded, 77);
    sl_cache_refresh(&s.cache);
    ck_assert_uint_eq(atomic_load(&s.seat->cache_loaded), 77);
    scene_fini(&s);
}

static struct sl_block *ranked_block(struct scene *s, uint32_t generation)
{
    const struct sl_vertex_list *list = &s->g.ds.split[SL_SPLIT_TRAIN];
    return fixture_rank(farm_block(&s->f, list->ids, 20, 0, 0), s->f.rank_of, generation);
}

static uint64_t held_of(struct scene *s, const struct sl_block *block)
{
    struct sl_spread spread;
    sl_cache_open(&s->cache);
    sl_cache_spread(&s->cache, block, 0, &spread);
    ck_assert_uint_eq(spread.n_parts, 0); // on cores there are none
    return spread.n_near;
}

TEST(ranks_of_another_order_are_misses)
{
    struct scene s;
    scene_init(&s, NODES, FEATURES, 0, sl_kernels_ref());
    farm_publish_order(&s.f, 1);
    ask(&s, NODES);
    struct sl_block *old = ranked_block(&s, 1);
    ck_assert_uint_eq(held_of(&s, old), NODES);
    farm_publish_order(&s.f, 2);
    sl_cache_refresh(&s.cache);
    assert_loaded(&s, NODES);
    ck_assert_uint_eq(held_of(&s, old), 0);
    struct sl_block *now = ranked_block(&s, 2);
    ck_assert_uint_eq(held_of(&s, now), NODES);
    now->flags &= ~(uint32_t)SL_BLOCK_HAS_RANKS;
    ck_assert_uint_eq(held_of(&s, now), 0);
    free(old);
    free(now);
    scene_fini(&s);
}

TEST(filling_stops_with_the_job)
{
    struct scene s;
    _Atomic bool stop = true;
    scene_init(&s, NODES, FEATURES, 0, sl_kernels_ref());
    s.pulse.stop = &stop;
    farm_publish_order(&s.f, 1);
    ask(&s, 100);
    ck_assert_uint_eq(s.cache.near[0].n_rows, 0);
    atomic_store(&stop, false);
    sl_cache_refresh(&s.cache);
    assert_loaded(&s, 100);
    sl_arena_abort(&s.f.arena, SL_ABORT_STOP);
    ask(&s, 150);
    ck_assert_uint_eq(s.cache.near[0].n_rows, 100);
    scene_fini(&s);
}

#ifndef SL_SANITIZED // which take address space of their own
static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%llu", &pages), 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

TEST(want_of_memory_makes_a_smaller_cache)
{
    enum { ROWS = 20000, WIDE = 512 }; // 40 MB
    struct scene s;
    scene_init(&s, ROWS, WIDE, 0, sl_kernels_ref());
    farm_publish_order(&s.f, 1);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = address_space() + (20 << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ask(&s, ROWS);
    ck_assert_uint_gt(s.cache.near[0].n_rows, 0);
    ck_assert_uint_lt(s.cache.near[0].n_rows, ROWS / 2);
    assert_loaded(&s, s.cache.near[0].n_rows);
    // It is not tried again with every batch.
    uint64_t load_ns = s.cache.load_ns;
    sl_cache_refresh(&s.cache);
    ck_assert_uint_eq(s.cache.load_ns, load_ns);
    limit.rlim_cur = address_space() - (1 << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ask(&s, ROWS - 1);
    assert_loaded(&s, s.cache.near[0].n_rows);
    scene_fini(&s);
}
#endif

// --- extraction ---

LOOP_TEST(features_are_the_same_with_any_cache, 0, 2)
{
    static const uint64_t capacity[] = {0, 1, 13, NODES / 2, NODES - 1, NODES};
    static const uint32_t half_dim[] = {0, 4, 3};
    for (size_t h = 0; h < SL_COUNT_OF(half_dim); h++) {
        struct scene s;
        scene_init(&s, NODES, FEATURES, half_dim[h], back_end(_i));
        farm_publish_order(&s.f, 1);
        const struct sl_dataset *ds = &s.g.ds;
        uint64_t row_bytes = ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
        struct sl_block *b = ranked_block(&s, 1);
        struct sl_gather gather;
        sl_gather_init(&gather, &s.compute, ds, SL_GATHER_FASTER);
        struct sl_batch_buffer plain = {0}, cached = {0};
        struct sl_gathered result;
        ck_assert_int_eq(sl_gather_block(&gather, NULL, b, NULL, &plain, &result), SL_OK);
        ck_assert_uint_eq(result.hits, 0);
        ck_assert_uint_eq(result.hit_bytes, 0);
        ck_assert_uint_eq(result.miss_bytes, b->n_input * row_bytes);
        for (size_t i = 0; i < SL_COUNT_OF(capacity); i++) {
            ask(&s, capacity[i]);
            uint64_t hits = 0;
            for (uint32_t k = 0; k < b->n_input; k++)
                hits += sl_block_ranks(b)[k] < capacity[i];
            ck_assert_int_eq(sl_gather_block(&gather, &s.cache, b, NULL, &cached, &result), SL_OK);
            ck_assert_uint_eq(result.hits, hits);
            ck_assert_uint_eq(result.hit_bytes, hits * row_bytes);
            ck_assert_uint_eq(result.miss_bytes, (b->n_input - hits) * row_bytes);
            ck_assert_int_eq(
                memcmp(cached.x, plain.x, (uint64_t)b->n_input * ds->feat_dim * sizeof(float)), 0);
            memset(cached.x, 0x5a, cached.features.bytes);
        }
        sl_batch_buffer_fini(&plain);
        sl_batch_buffer_fini(&cached);
        sl_gather_fini(&gather);
        free(b);
        scene_fini(&s);
    }
}

TEST(hits_come_from_the_cache_and_misses_from_the_store)
{
    struct scene s;
    scene_init(&s, NODES, FEATURES, 0, sl_kernels_cpu());
    farm_publish_order(&s.f, 1);
    ask(&s, NODES / 2);
    // Rows that can be told apart from the store's.
    float *rows = (float *)(void *)s.cache.near[0].rows;
    for (uint32_t i = 0; i < s.cache.near[0].n_rows * FEATURES; i++)
        rows[i] += 1000;
    struct sl_block *b = ranked_block(&s, 1);
    struct sl_gather gather;
    sl_gather_init(&gather, &s.compute, &s.g.ds, SL_GATHER_FASTER);
    struct sl_batch_buffer buffer = {0};
    struct sl_gathered result;
    ck_assert_int_eq(sl_gather_block(&gather, &s.cache, b, NULL, &buffer, &result), SL_OK);
    for (uint32_t i = 0; i < b->n_input; i++)
        ck_assert((((const float *)buffer.x)[i * FEATURES] > 500) ==
                  (sl_block_ranks(b)[i] < NODES / 2));
    // Nothing grows the second time.
    const float *p = buffer.x;
    const void *lists = gather.lists.p;
    ck_assert_int_eq(sl_gather_block(&gather, &s.cache, b, NULL, &buffer, &result), SL_OK);
    ck_assert_ptr_eq(buffer.x, p);
    ck_assert_ptr_eq(gather.lists.p, lists);
    sl_batch_buffer_fini(&buffer);
    sl_gather_fini(&gather);
    free(b);
    scene_fini(&s);
}

TEST(vertex_that_the_store_has_not_is_an_error)
{
    struct scene s;
    scene_init(&s, NODES, FEATURES, 0, sl_kernels_cpu());
    farm_publish_order(&s.f, 1);
    ask(&s, 1);
    struct sl_block *b = ranked_block(&s, 1);
    uint32_t at = 0;
    while (sl_block_ranks(b)[at] < 1)
        at++;
    ((uint32_t *)(void *)((char *)b + b->nodes_offset))[at] = NODES;
    struct sl_gather gather;
    sl_gather_init(&gather, &s.compute, &s.g.ds, SL_GATHER_FASTER);
    struct sl_batch_buffer buffer = {0};
    struct sl_gathered result;
    ck_assert_int_eq(sl_gather_block(&gather, &s.cache, b, NULL, &buffer, &result), SL_ERANGE);
    sl_batch_buffer_fini(&buffer);
    sl_gather_fini(&gather);
    free(b);
    scene_fini(&s);
}

RUN_TESTS(.quiet = true, .timeout_s = 60)
