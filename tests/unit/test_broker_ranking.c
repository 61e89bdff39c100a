// The hotness order of a graph with types: of a cache of rows with slots of several widths, and of
// trainers' caches, which are so many bytes.
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

#include "broker/epochs/ranking.h"
#include "common/arena/visit_counts.h"
#include "common/data/features_kind.h"
#include "common/data/hotness.h"

enum { N = 900, SEED = 5 };

static struct sl_vertex_type type[] = {
    {.n = 300, .feat_dim = 10, .feat_dtype = SL_DTYPE_F32, .feat = type},
    {.first = 300, .n = 100}, // no features
    {.first = 400, .n = 200, .feat_dim = 3, .feat_dtype = SL_DTYPE_F32, .feat = type},
    {.first = 600, .n = 300, .feat_dim = 20, .feat_dtype = SL_DTYPE_F16, .feat = type},
};
static const uint32_t width_of[] = {0, 2, 1, 0}; // the cache's: 40 bytes, 12 bytes, none
static struct sl_dataset ds = {.n_nodes = N, .typed = {.n_types = 4, .type = type}};

static uint32_t type_of(uint32_t v)
{
    return v < 300 ? 0 : v < 400 ? 1 : v < 600 ? 2 : 3;
}

static uint64_t all_bytes(void)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < 4; k++)
        bytes += sl_type_feature_bytes(&type[k]);
    return bytes;
}

static void on_done(void *ctx)
{
    ++*(int *)ctx;
}

// Vertices [0, n) of the order are in rising order: a tier.
static void rank(const struct sl_config *config, const uint64_t *sizes, uint32_t n)
{
    static struct sl_ranking ranking;
    int done = 0;
    sl_visit_counts_set_tiers(&arena, sizes, n);
    ranking = (struct sl_ranking){0};
    sl_ranking_start(&ranking, &(struct sl_ranking_setup){.arena = &arena,
                                                          .config = config,
                                                          .dataset = &ds,
                                                          .n_nodes = N,
                                                          .on_done = on_done,
                                                          .ctx = &done});
    ck_assert_int_eq(done, 1);
    ck_assert_msg(ranking.rc == SL_OK, "%s", ranking.message);
}

LOOP_TEST(the_hottest_of_each_width_lead, 0, 3)
{
    static const uint64_t quota[][2] = {{150, 30}, {0, 150}, {450, 0}}; // three quarters of slots
    static uint32_t hotness[N], order[N];
    const struct sl_config config = {.seed = SEED, .cache.policy = SL_CACHE_RANDOM};
    const uint64_t n_hot = quota[_i][0] + quota[_i][1];
    bool hot[N] = {false}, seen[N] = {false};
    const struct sl_row_cache_shape rows = {
        .n_rows = N,
        .n_slots = n_hot / 3 * 4,
        .n_hot = n_hot,
        .n_widths = 2,
        .width = {{40, quota[_i][0] / 3 * 4}, {12, quota[_i][1] / 3 * 4}}};
    create_arena(&(struct sl_arena_spec){.n_devices = 1,
                                         .n_cells = 8,
                                         .n_train = 1,
                                         .n_params = 1,
                                         .n_state = 1,
                                         .batches_per_update = 1,
                                         .hot_rows = N,
                                         .n_types = 4,
                                         .payload_bytes = 1 << 20,
                                         .rows = rows});
    // Caches of trainers are smaller, or larger, by bytes.
    const uint64_t mean = sl_features_row_bytes(&ds), kept = sl_row_cache_hot_size(&rows, mean);
    const uint64_t sizes[] = {kept / 3, kept, kept + 100};
    rank(&config, sizes, 3);
    ck_assert_int_eq(sl_hotness_random(SEED, N, NULL, hotness), SL_OK);
    ck_assert_int_eq(sl_hotness_order(hotness, N, NULL, order, NULL), SL_OK);
    uint64_t left[] = {quota[_i][0], quota[_i][1], 0};
    for (uint32_t i = 0; i < N; i++) {
        uint64_t *of_width = &left[width_of[type_of(order[i])]];
        hot[order[i]] = *of_width > 0;
        *of_width -= *of_width > 0;
    }
    const uint32_t *found = sl_visit_counts_order(&arena);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_uint_lt(found[i], N);
        ck_assert(!seen[found[i]]);
        seen[found[i]] = true;
        ck_assert_int_eq(hot[found[i]], i < n_hot);
    }
    for (uint32_t t = 0; t < 3; t++) {
        uint64_t bytes = 0, n = 0;
        for (uint32_t k = 0; k < 4; k++) {
            const uint64_t held = sl_visit_counts_rows(&arena, k, sizes[t]);
            bytes += held * sl_type_row_bytes(&type[k]);
            n += held;
        }
        ck_assert_uint_le(bytes, sizes[t] * mean);
        ck_assert_uint_gt(bytes + 40, t == 1 ? 0 : SL_MIN(sizes[t] * mean, all_bytes()));
        if (t == 1)
            ck_assert_uint_eq(n, n_hot);
    }
    destroy_arena();
}

// What a row saves a byte, as ranking.h says it.
static double worth(uint32_t v, const uint32_t *hotness)
{
    const double bytes = (double)sl_type_row_bytes(&type[type_of(v)]);
    return bytes > 0 ? (double)hotness[v] * (bytes + 256) / bytes : 0;
}

static uint64_t bytes_of(uint32_t v)
{
    return sl_type_row_bytes(&type[type_of(v)]);
}

/*
 * Two sizes: those that save most a byte come first, as many as there are bytes for, and the table
 * says how many of each type; sizes in between have a share of the last tier.
 */
TEST(caches_are_of_the_rows_that_save_most_a_byte)
{
    static uint32_t hotness[N];
    const struct sl_config config = {.seed = SEED, .cache.policy = SL_CACHE_RANDOM};
    const uint64_t sizes[] = {150, 500}, unit = (300 * 40 + 200 * 12 + 300 * 40 + N - 1) / N;
    uint64_t at = 0, taken = 0;
    double least = 1e30;
    create_arena(&(struct sl_arena_spec){.n_devices = 1,
                                         .n_cells = 8,
                                         .n_train = 1,
                                         .n_params = 1,
                                         .n_state = 1,
                                         .batches_per_update = 1,
                                         .hot_rows = N,
                                         .n_types = 4,
                                         .payload_bytes = 1 << 20});
    rank(&config, sizes, 2);
    ck_assert_int_eq(sl_hotness_random(SEED, N, NULL, hotness), SL_OK);
    const uint32_t *order = sl_visit_counts_order(&arena);
    uint64_t had[4] = {0};
    for (uint32_t tier = 0; tier < 2; tier++) {
        const uint64_t *held = sl_visit_counts_held(&arena, tier);
        double most = 0, last = 1e30;
        uint64_t n = 0;
        for (uint32_t t = 0; t < 4; t++) {
            const struct sl_visit_counts_run run = sl_visit_counts_run(&arena, tier, t);
            ck_assert_uint_eq(run.place, at);
            ck_assert_uint_eq(run.rank, had[t]);
            ck_assert_uint_eq(run.n, held[t] - had[t]);
            for (uint64_t i = 0; i < run.n; i++) {
                const uint32_t v = order[run.place + i];
                ck_assert_uint_eq(type_of(v), t);
                ck_assert(i == 0 || order[run.place + i - 1] < v);
                most = SL_MAX(most, worth(v, hotness));
                last = SL_MIN(last, worth(v, hotness));
                taken += bytes_of(v);
            }
            ck_assert_uint_eq(sl_visit_counts_rows(&arena, t, sizes[tier]), held[t]);
            had[t] = held[t];
            at += run.n;
            n += run.n;
        }
        ck_assert_uint_gt(n, 0);
        ck_assert(most <= least * 1.0001);
        least = last;
        ck_assert_uint_le(taken, sizes[tier] * unit);
        ck_assert_uint_gt(taken + 40, sizes[tier] * unit);
    }
    ck_assert_uint_eq(had[1], 0); // no features
    for (uint32_t t = 0; t < 4; t += 2) {
        const uint64_t low = sl_visit_counts_held(&arena, 0)[t];
        const uint64_t middle = sl_visit_counts_rows(&arena, t, (150 + 500) / 2);
        ck_assert_uint_eq(middle, low + (had[t] - low) / 2);
        ck_assert_uint_eq(sl_visit_counts_rows(&arena, t, N), had[t]);
        ck_assert_uint_eq(sl_visit_counts_rows(&arena, t, 0), 0);
    }
    destroy_arena();
}

RUN_TESTS()
