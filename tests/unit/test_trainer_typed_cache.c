// A trainer's cache of rows of several widths: what it holds, and that batches get the same rows
// with it, on cores and on a GPU, in place and staged.
#include "tests/unit/gpu_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"
#include "tests/unit/typed_blocks.h"

#include <math.h>

#include "common/arena/type_counts.h"
#include "common/arena/visit_counts.h"
#include "common/base/half.h"
#include "common/data/features_kind.h"
#include "trainer/feed/gather.h"
#include "trainer/feed/typed_block.h"

enum { SIZES = 2, BLOCKS = 12, WIDE = 36 }; // WIDE: worth looking for in the batch before

// On pages of their own: the GPU may have pinned the graph's.
_Alignas(4096) static struct tb_graph g;
_Alignas(4096) static struct tb_block b;
static uint32_t rank_of[TB_TYPES * TB_VERTICES];
static uint64_t sizes[SIZES];

// Two tiers of any vertices, by type and id within each.
static void make_order(void)
{
    uint32_t tier_of[TB_TYPES * TB_VERTICES], *order = sl_visit_counts_order(&arena);
    uint64_t at = 0, bytes = 0, held[TB_TYPES] = {0};
    for (uint64_t v = 0; v < g.ds.n_nodes; v++)
        tier_of[v] = tb_below(SIZES + 1);
    for (uint32_t tier = 0; tier < SIZES; tier++) {
        for (uint64_t v = 0; v < g.ds.n_nodes; v++) {
            const uint32_t t = sl_typed_type_of(&g.ds.typed, v);
            if (tier_of[v] != tier)
                continue;
            rank_of[v] = (uint32_t)held[t]++;
            bytes += sl_type_row_bytes(&g.type[t]);
            order[at++] = (uint32_t)v;
        }
        sizes[tier] = sl_div_up(bytes, sl_features_row_bytes(&g.ds));
        memcpy(sl_visit_counts_held(&arena, tier), held, sizeof held);
    }
    for (uint64_t v = 0; v < g.ds.n_nodes; v++)
        if (tier_of[v] == SIZES)
            rank_of[v] = SL_RANK_NONE;
    sl_visit_counts_set_tiers(&arena, sizes, SIZES);
    ck_assert_uint_eq(sl_visit_counts_tiers(&arena)->n, SIZES);
    sl_visit_counts_publish(&arena, 1);
}

static void mark_block(void)
{
    struct sl_block *h = tb_header(&b);
    uint32_t *ranks = tb_array(&b, &h->rank_offset, sizeof *ranks * h->n_input);
    for (uint32_t i = 0; i < h->n_input; i++)
        ranks[i] = rank_of[sl_block_nodes(h)[i]];
    h->flags |= SL_BLOCK_HAS_RANKS;
    h->rank_generation = 1;
    h->bytes = b.used;
}

static void setup(void)
{
    srand48(77);
    do
        tb_graph_make(&g);
    while (g.type[0].n < 20 || g.type[2].n < 20 || g.type[4].n < 20);
    g.type[0].feat_dim = WIDE;
    create_arena(&(struct sl_arena_spec){.n_devices = 1,
                                         .n_cells = 1,
                                         .n_params = 1,
                                         .batches_per_update = 1,
                                         .hot_rows = g.ds.n_nodes,
                                         .n_types = TB_TYPES,
                                         .n_relations = TB_RELATIONS,
                                         .payload_bytes = SL_ARENA_CHUNK_BYTES});
    make_order();
}

static void teardown(void)
{
    destroy_arena();
}

// --- what is expected ----------------------------------------------------------------------------

static void expect_row(const struct sl_vertex_type *type, uint32_t v, bool as_stored,
                       const char *found)
{
    const uint64_t i = (v - type->first) * type->feat_dim;
    const uint16_t *halves = type->feat;
    if (type->feat_dtype == SL_DTYPE_F32 || as_stored) {
        const uint64_t each = sl_dtype_bytes(type->feat_dtype);
        ck_assert_int_eq(memcmp(found, (const char *)type->feat + i * each, type->feat_dim * each),
                         0);
        return;
    }
    for (uint32_t d = 0; d < type->feat_dim; d++)
        ck_assert(((const float *)(const void *)found)[d] == sl_half_to_float(halves[i + d]));
}

static void expect_rows(const char *x, bool as_stored)
{
    const struct sl_block *h = tb_header(&b);
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const struct sl_vertex_type *type = &g.type[t];
        const uint64_t each =
            type->feat_dim * (as_stored ? sl_dtype_bytes(type->feat_dtype) : sizeof(float));
        for (uint32_t i = 0; type->feat && i < sl_typed_block_rows(h, t); i++)
            expect_row(type, sl_block_nodes(h)[sl_block_types(h)[t].first + i], as_stored,
                       x +
                           sl_typed_rows_at(h, &g.ds.typed, t,
                                            as_stored ? SL_TYPED_AS_STORED : SL_TYPED_F32) +
                           i * each);
    }
}

// Rows of type 0 that the batch before has brought, of those that this one has to.
static uint32_t find_matches(const struct sl_cache *cache, bool looks)
{
    static bool brought[TB_VERTICES];
    const struct sl_block *h = tb_header(&b);
    bool now[TB_VERTICES] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; looks && i < sl_typed_block_rows(h, 0); i++) {
        const uint32_t v = sl_block_nodes(h)[sl_block_types(h)[0].first + i];
        now[v] = rank_of[v] >= cache->near[0].n_rows;
        n += now[v] && brought[v];
    }
    memcpy(brought, now, sizeof brought);
    return n;
}

// Those of the block that the cache has, by what it is to hold of each type.
static void expect_hits(const struct sl_gather *gather, const struct sl_cache *cache,
                        const struct sl_gathered *found, bool none, uint32_t matched)
{
    const struct sl_block *h = tb_header(&b);
    const uint64_t matched_bytes = matched * sl_type_row_bytes(&g.type[0]);
    uint64_t hits = 0, bare = 0, hit_bytes = 0, bytes = 0;
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const uint64_t each = sl_type_row_bytes(&g.type[t]);
        const uint32_t n = sl_typed_block_rows(h, t);
        uint32_t of_type = 0;
        for (uint32_t i = 0; i < n && each && !none; i++)
            of_type +=
                rank_of[sl_block_nodes(h)[sl_block_types(h)[t].first + i]] < cache->near[t].n_rows;
        ck_assert_uint_eq(sl_gather_type_hits(gather)[t], of_type);
        hits += of_type;
        hit_bytes += of_type * each;
        bytes += n * each;
        bare += each ? 0 : n;
    }
    ck_assert_uint_eq(found->hits, hits);
    ck_assert_uint_eq(found->bare, bare);
    ck_assert_uint_eq(found->hit_bytes, hit_bytes);
    ck_assert_uint_eq(found->matched, matched);
    ck_assert_uint_eq(found->matched_bytes, matched_bytes);
    ck_assert_uint_eq(found->miss_bytes, bytes - hit_bytes - matched_bytes);
}

// What it holds are copies, of as many rows as the size comes to.
static void expect_held(const struct sl_cache *c, uint64_t size)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const uint64_t each = sl_type_row_bytes(&g.type[t]);
        const uint64_t rows = each ? sl_visit_counts_rows(&arena, t, size) : 0;
        ck_assert_uint_eq(c->near[t].n_rows, rows);
        ck_assert_uint_ge(c->near[t].bytes, rows * each);
        ck_assert_uint_eq(sl_type_counts_held(&arena, sl_seat_trainer(&arena, 0), t), rows);
        bytes += rows * each;
    }
    ck_assert_uint_le(bytes, size * sl_features_row_bytes(&g.ds));
    ck_assert_uint_eq(atomic_load(&c->seat->cache_loaded),
                      sl_div_up(bytes, sl_features_row_bytes(&g.ds)));
}

// --- gathering -----------------------------------------------------------------------------------

static void gather_all(const struct sl_compute *compute, enum sl_gather_way way, bool half,
                       bool looks)
{
    const struct sl_device *device = compute->device;
    struct sl_heartbeat pulse = {.arena = &arena};
    struct sl_gather gather;
    struct sl_batch_buffer buffers[2] = {0};
    struct sl_gathered found;
    static struct sl_cache cache;
    const uint64_t all[] = {sizes[0], sizes[1], (sizes[0] + sizes[1]) / 2, sizes[0] / 2, 0};
    uint64_t hits = 0, matched = 0;
    sl_gather_init(&gather, compute, &g.ds, way);
    gather.half = half;
    sl_cache_init(&cache, &arena, sl_seat_trainer(&arena, 0), &g.ds, compute, &pulse);
    for (uint32_t i = 0; i < BLOCKS * SL_COUNT_OF(all); i++) {
        const uint64_t size = all[i % SL_COUNT_OF(all)];
        struct sl_batch_buffer *to = &buffers[i % 2], *before = &buffers[1 - i % 2];
        tb_block_make(&b, &g, false, 3);
        mark_block();
        atomic_store(&cache.seat->cache_rows, size);
        sl_cache_refresh(&cache);
        expect_held(&cache, size);
        ck_assert_msg(sl_gather_block(&gather, &cache, tb_header(&b), looks ? before : NULL, to,
                                      &found) == SL_OK,
                      "%s", sl_error_message());
        const uint64_t bytes = sl_typed_rows_at(tb_header(&b), &g.ds.typed, TB_TYPES,
                                                half ? SL_TYPED_AS_STORED : SL_TYPED_F32);
        char *x = device->is_host ? to->x : gpu_get(device, to->x, bytes);
        const uint32_t matches = find_matches(&cache, looks);
        expect_rows(x, half);
        expect_hits(&gather, &cache, &found, half && !device->is_host, matches); // odd rows of f16
        hits += found.hits;
        matched += matches;
        if (!device->is_host)
            free(x);
    }
    ck_assert((hits > 0) == !(half && !device->is_host));
    ck_assert((matched > 0) == looks);
    sl_batch_buffer_fini(&buffers[0]);
    sl_batch_buffer_fini(&buffers[1]);
    sl_cache_fini(&cache);
    sl_gather_fini(&gather);
}

LOOP_TEST(rows_on_cores, 0, 2)
{
    const struct sl_compute host = {sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    gather_all(&host, SL_GATHER_STAGED, _i, false);
}

static uint64_t room; // of each type

static void *alloc_little(size_t bytes)
{
    return bytes <= room ? sl_device_host()->memory.alloc(bytes) : NULL;
}

// Where one type's rows are fewer than the size comes to, others may count on the smaller size.
TEST(of_types_that_lack_rows_no_more_is_told_than_is_there)
{
    struct sl_device scarce = *sl_device_host();
    const struct sl_compute host = {&scarce, sl_kernels_cpu(), sl_kernels_cpu()};
    struct sl_heartbeat pulse = {.arena = &arena};
    static struct sl_cache c;
    scarce.memory.alloc = alloc_little;
    room = sl_visit_counts_rows(&arena, 0, sizes[1]) * sl_type_row_bytes(&g.type[0]) / 2;
    sl_cache_init(&c, &arena, sl_seat_trainer(&arena, 0), &g.ds, &host, &pulse);
    atomic_store(&c.seat->cache_rows, sizes[1]);
    sl_cache_refresh(&c);
    const uint64_t told = atomic_load(&c.seat->cache_loaded);
    bool is_most = false;
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        if (sl_type_row_bytes(&g.type[t]) == 0)
            continue;
        ck_assert_uint_ge(c.near[t].n_rows, sl_visit_counts_rows(&arena, t, told));
        is_most |= c.near[t].n_rows < sl_visit_counts_rows(&arena, t, told + 1);
    }
    ck_assert_uint_gt(told, 0);
    ck_assert_uint_lt(told, sizes[1]);
    ck_assert(is_most);
    sl_cache_fini(&c);
}

// Ranks of another order say nothing of what is held.
TEST(ranks_of_another_order_are_misses)
{
    const struct sl_compute host = {sl_device_host(), sl_kernels_cpu(), sl_kernels_cpu()};
    struct sl_heartbeat pulse = {.arena = &arena};
    struct sl_gather gather;
    struct sl_batch_buffer to = {0};
    struct sl_gathered found;
    static struct sl_cache cache;
    sl_gather_init(&gather, &host, &g.ds, SL_GATHER_STAGED);
    sl_cache_init(&cache, &arena, sl_seat_trainer(&arena, 0), &g.ds, &host, &pulse);
    atomic_store(&cache.seat->cache_rows, sizes[1]);
    sl_cache_refresh(&cache);
    tb_block_make(&b, &g, false, 3);
    mark_block();
    tb_header(&b)->rank_generation = 2;
    ck_assert_int_eq(sl_gather_block(&gather, &cache, tb_header(&b), NULL, &to, &found), SL_OK);
    ck_assert_uint_eq(found.hits, 0);
    expect_rows(to.x, false);
    sl_batch_buffer_fini(&to);
    sl_cache_fini(&cache);
    sl_gather_fini(&gather);
}

CASE(.setup = setup, .teardown = teardown, ON_A_GPU)

// In place, staged, with rows as they are stored, and with a look at the batch before.
LOOP_TEST(rows_on_a_gpu, 0, 4)
{
    const struct sl_plugin *plugin = gpu_open(0);
    const struct sl_compute gpu = {plugin->device, plugin->kernels, sl_kernels_cpu()};
    gather_all(&gpu, _i == 0 ? SL_GATHER_MAPPED : SL_GATHER_STAGED, _i == 2, _i == 3);
}

// Of three parts this device holds the first and the last, and nobody the second.
static void publish_parts(uint64_t first, uint64_t elements)
{
    static uint64_t generation;
    generation++;
    struct sl_peer_memory_plan plan = {.generation = generation,
                                       .n_parts = 3,
                                       .first = first,
                                       .part_elements = elements,
                                       .held = {5}};
    memset(plan.from, SL_PEER_MEMORY_NOBODY, sizeof plan.from);
    plan.from[0][0] = plan.from[0][2] = 0;
    sl_peer_memory_publish(&arena, SL_PEER_MEMORY_FEATURES, &plan,
                           (uint64_t[]){first + 2 * elements});
}

// Input nodes that may be read at home: near, or in a part that is held.
static uint64_t most_hits(uint64_t first, uint64_t elements, uint64_t *near)
{
    const struct sl_block *h = tb_header(&b);
    uint64_t most = 0;
    *near = 0;
    for (uint32_t t = 0; t < TB_TYPES; t++)
        for (uint32_t i = 0; g.type[t].feat && i < sl_typed_block_rows(h, t); i++) {
            const uint32_t rank = rank_of[sl_block_nodes(h)[sl_block_types(h)[t].first + i]];
            const uint64_t from = sl_visit_counts_rows(&arena, t, first);
            const uint64_t end = sl_visit_counts_rows(&arena, t, first + 3 * elements);
            *near += rank < from;
            most += rank < from || (rank < end && (rank - from) % 3 != 1);
        }
    return most;
}

// What is told of each type is what lies there: near, and in the parts that this device holds.
static void expect_held_in_parts(struct sl_cache *c)
{
    struct sl_spread s;
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        sl_cache_spread(c, tb_header(&b), t, &s);
        ck_assert_uint_eq(sl_type_counts_held(&arena, sl_seat_trainer(&arena, 0), t),
                          s.n_near + s.part[0].n + s.part[2].n);
    }
}

LOOP_TEST(rows_in_parts, 0, 2)
{
    const struct sl_plugin *plugin = gpu_open(0);
    const struct sl_compute gpu = {plugin->device, plugin->kernels, sl_kernels_cpu()};
    struct sl_heartbeat pulse = {.arena = &arena};
    struct sl_gather gather;
    struct sl_batch_buffer to = {0};
    struct sl_gathered found;
    static struct sl_cache cache;
    uint64_t hits = 0, most = 0, all_near = 0, near;
    sl_gather_init(&gather, &gpu, &g.ds, _i ? SL_GATHER_MAPPED : SL_GATHER_STAGED);
    sl_cache_init(&cache, &arena, sl_seat_trainer(&arena, 0), &g.ds, &gpu, &pulse);
    for (uint32_t i = 0; i < 4 * BLOCKS; i++) {
        const uint64_t first = i % 3 ? sizes[0] / 2 : 0,
                       elements = (sizes[1] - first) / (3 + i % 2);
        if (i % 4 == 0)
            publish_parts(first, elements);
        const struct sl_peer_memory_plan *plan = &cache.plan;
        tb_block_make(&b, &g, false, 3);
        mark_block();
        sl_cache_refresh(&cache);
        ck_assert_uint_eq(cache.parts.at.n_held, 2);
        ck_assert_msg(sl_gather_block(&gather, &cache, tb_header(&b), NULL, &to, &found) == SL_OK,
                      "%s", sl_error_message());
        char *x = gpu_get(gpu.device, to.x,
                          sl_typed_rows_at(tb_header(&b), &g.ds.typed, TB_TYPES, SL_TYPED_F32));
        expect_rows(x, false);
        expect_held_in_parts(&cache);
        const uint64_t possible = most_hits(plan->first, plan->part_elements, &near);
        ck_assert_uint_le(found.hits, possible);
        ck_assert_uint_ge(found.hits, near);
        hits += found.hits;
        most += possible;
        all_near += near;
        free(x);
    }
    // Not all of them: parts are of whole rows of each type, which lie apart.
    ck_assert_uint_gt(hits - all_near, (most - all_near) / 2);
    sl_batch_buffer_fini(&to);
    sl_cache_fini(&cache);
    sl_gather_fini(&gather);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
