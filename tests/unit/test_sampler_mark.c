// The index that ranks are looked up in: made from the arena's order, compared with it.
#include "sampler/mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/error.h"
#include "common/arena/visit_counts.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { N_MAX = 4099 };

static struct sl_marker marker;

static void open_order_of(uint32_t n, uint32_t n_types)
{
    const struct sl_arena_spec spec = {.n_devices = 1,
                                       .n_cells = 1,
                                       .n_params = 1,
                                       .batches_per_update = 1,
                                       .hot_rows = n,
                                       .n_types = n_types,
                                       .payload_bytes = SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
    memset(&marker, 0, sizeof marker);
}

static void open_order(uint32_t n)
{
    open_order_of(n, 0);
}

static void teardown(void)
{
    sl_marker_fini(&marker);
    destroy_arena();
}

static void must(int rc)
{
    ck_assert_msg(rc == SL_OK, "%d: %s", rc, sl_error_message());
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// Any order of n vertices, by id within its tiers.
static void publish(uint32_t n, const uint64_t *end, uint32_t n_tiers, uint32_t generation)
{
    uint32_t *order = sl_visit_counts_order(&arena);
    srandom(generation);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        uint32_t j = (uint32_t)random() % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    sl_visit_counts_set_tiers(&arena, end, n_tiers);
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(&arena);
    uint64_t first = 0;
    for (uint32_t t = 0; t < tiers->n; t++) {
        qsort(order + first, tiers->end[t] - first, sizeof *order, compare_ids);
        first = tiers->end[t];
    }
    sl_visit_counts_publish(&arena, generation);
}

// Looks every vertex up.
static void expect_ranks(uint32_t n, uint64_t limit)
{
    static uint32_t nodes[N_MAX], ranks[N_MAX], wanted[N_MAX];
    memset(wanted, 0xff, sizeof wanted);
    for (uint32_t r = 0; r < limit; r++)
        wanted[sl_visit_counts_order(&arena)[r]] = r;
    for (uint32_t v = 0; v < n; v++)
        nodes[v] = v;
    const struct sl_kernels *both[] = {sl_kernels_ref(), sl_kernels_cpu()};
    for (size_t k = 0; k < 2; k++) {
        must(both[k]->mark_ranks(&marker.index, nodes, n, ranks));
        ck_assert_int_eq(memcmp(ranks, wanted, n * sizeof *ranks), 0);
    }
}

static const uint32_t sizes[] = {1, 31, 32, 33, 64, 1000, N_MAX};

LOOP_TEST(one_tier_of_any_size, 0, SL_COUNT_OF(sizes))
{
    uint32_t n = sizes[_i];
    const uint64_t limits[] = {0, 1, 31, 32, 33, n / 2, n - 1, n};
    open_order(n);
    for (uint32_t i = 0; i < SL_COUNT_OF(limits); i++) {
        uint64_t limit = SL_MIN(limits[i], (uint64_t)n);
        publish(n, &limit, 1, i + 1);
        must(sl_marker_refresh(&marker, &arena, n));
        ck_assert_uint_eq(marker.generation, i + 1);
        ck_assert_uint_eq(marker.bytes, limit ? sl_marker_bytes(n, 0, 1) : 0);
        expect_ranks(n, limit);
    }
}

LOOP_TEST(tiers_side_by_side, 0, SL_COUNT_OF(sizes))
{
    uint32_t n = sizes[_i];
    open_order(n);
    uint64_t ends[SL_VISIT_COUNTS_TIERS_MAX];
    for (uint32_t n_tiers = 1; n_tiers <= SL_VISIT_COUNTS_TIERS_MAX; n_tiers++) {
        for (uint32_t t = 0; t < n_tiers; t++) // the same ones twice where the graph is small
            ends[t] = 1 + (uint64_t)(n - 1) * (t + 1) / (n_tiers + 1);
        publish(n, ends, n_tiers, n_tiers);
        must(sl_marker_refresh(&marker, &arena, n));
        expect_ranks(n, ends[n_tiers - 1]);
    }
}

TEST(it_is_made_once_a_generation)
{
    uint64_t limit = 100;
    open_order(1000);
    must(sl_marker_refresh(&marker, &arena, 1000)); // nothing is published
    ck_assert_ptr_null(marker.words);
    publish(1000, &limit, 1, 1);
    must(sl_marker_refresh(&marker, &arena, 1000));
    const uint64_t *words = marker.words;
    ck_assert_ptr_nonnull(words);
    memset(sl_visit_counts_order(&arena), 0xff, 1000 * sizeof(uint32_t)); // nobody looks
    must(sl_marker_refresh(&marker, &arena, 1000));
    ck_assert_ptr_eq(marker.words, words);
    publish(1000, &limit, 1, 2);
    must(sl_marker_refresh(&marker, &arena, 1000));
    expect_ranks(1000, limit);
}

LOOP_TEST(what_is_no_order_is_refused, 0, 6)
{
    uint64_t ends[] = {50, 100};
    open_order(1000);
    publish(1000, ends, 2, 1);
    uint32_t *order = sl_visit_counts_order(&arena);
    switch (_i) {
    case 0: order[99] = 1000; break;             // no vertex
    case 1: order[60] = order[59]; break;        // twice
    case 2: order[0] = UINT32_MAX; break;        // no vertex, and the next one is smaller
    case 3: arena.h->spec.hot_rows = 999; break; // of another graph
    case 4: sl_visit_counts_of(&arena)->tiers.end[1] = 1001; break;
    default: sl_visit_counts_of(&arena)->tiers.n = SL_VISIT_COUNTS_TIERS_MAX + 1; break;
    }
    ck_assert_int_eq(sl_marker_refresh(&marker, &arena, 1000), SL_EPROTO);
    ck_assert_uint_eq(marker.generation, 0);
    ck_assert_ptr_null(marker.words);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "hotness order"));
}

// Types that begin and end within a word, one without vertices; ranks are counted within each.
enum { TYPES = 5, TYPED = 20 + 13 + 1 + 900 };
static struct sl_vertex_type types[TYPES] = {{.n = 20},
                                             {.first = 20, .n = 13},
                                             {.first = 33},
                                             {.first = 33, .n = 1},
                                             {.first = 34, .n = 900}};
static const struct sl_typed typed = {.n_types = TYPES, .type = types};

// By tier, and type and id within each. wanted: of each vertex.
static void publish_types(uint32_t n_tiers, uint32_t *wanted)
{
    uint32_t *order = sl_visit_counts_order(&arena);
    uint64_t ends[SL_VISIT_COUNTS_TIERS_MAX], held[TYPES] = {0}, at = 0;
    uint32_t tier_of[TYPED];
    memset(wanted, 0xff, TYPED * sizeof *wanted);
    for (uint32_t v = 0; v < TYPED; v++)
        tier_of[v] = (uint32_t)random() % (n_tiers + 1);
    for (uint32_t tier = 0; tier < n_tiers; tier++) {
        for (uint32_t t = 0; t < TYPES; t++)
            for (uint64_t v = types[t].first; v < types[t].first + types[t].n; v++)
                if (tier_of[v] == tier) {
                    order[at++] = (uint32_t)v;
                    wanted[v] = (uint32_t)held[t]++;
                }
        memcpy(sl_visit_counts_held(&arena, tier), held, sizeof held);
        ends[tier] = at / 2 + tier; // in rows of the mean width
    }
    sl_visit_counts_set_tiers(&arena, ends, n_tiers);
    ck_assert_uint_eq(sl_visit_counts_tiers(&arena)->n, n_tiers);
    sl_visit_counts_publish(&arena, n_tiers);
}

LOOP_TEST(types_have_words_of_their_own, 1, SL_VISIT_COUNTS_TIERS_MAX + 1)
{
    static uint32_t nodes[TYPED], ranks[TYPED], wanted[TYPED];
    open_order_of(TYPED, TYPES);
    publish_types((uint32_t)_i, wanted);
    marker.typed = NULL;
    ck_assert_int_eq(sl_marker_refresh(&marker, &arena, TYPED), SL_EPROTO); // it is no plain graph
    marker.typed = &typed;
    must(sl_marker_refresh(&marker, &arena, TYPED));
    const struct sl_kernels *both[] = {sl_kernels_ref(), sl_kernels_cpu()};
    for (uint32_t v = 0; v < TYPED; v++)
        nodes[v] = v;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t t = 0; t < TYPES; t++) {
            const struct sl_rank_index index = sl_marker_index(&marker.index, &typed, t);
            const uint64_t first = types[t].first;
            must(both[k]->mark_ranks(&index, nodes + first, (uint32_t)types[t].n, ranks + first));
            ck_assert_int_eq(memcmp(ranks + first, wanted + first, types[t].n * sizeof *ranks), 0);
        }
}

// A graph of more vertices than there is memory for: only its tier's end is real. Sanitizers need
// more address space than the test leaves.
TEST(without_memory_it_says_what_it_wanted)
{
#ifdef SL_SANITIZED
    printf("SKIP: a sanitizer needs more address space than this leaves\n");
    return;
#endif
    uint64_t n = 4000000000, limit = 10;
    open_order(1000);
    publish(1000, &limit, 1, 1);
    arena.h->spec.hot_rows = n;
    ck_assert_int_eq(
        setrlimit(RLIMIT_AS, &(struct rlimit){.rlim_cur = 1 << 28, .rlim_max = 1 << 28}), 0);
    ck_assert_int_eq(sl_marker_refresh(&marker, &arena, n), SL_ENOMEM);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "1000000000 bytes"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "cache.policy"));
    ck_assert_uint_eq(marker.generation, 0);
}

RUN_TESTS(.quiet = true, .teardown = teardown, .timeout_s = 60)
