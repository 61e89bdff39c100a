// Sampling by time (sampler.time): which edges count, and trees beside those of a graph without the
// later edges.
#include "kernels/time_ranges.h"
#include "tests/unit/sampler_past.h"
#include "tests/unit/sampler_tangle.h"
#include "tests/unit/suite.h"

enum { N = 150, EPOCH = 3, BACK_ENDS = 2 };

static struct sl_drawer plain; // the reference kernels

// Few different times, so that many are equal; some rows have none but late or early edges.
static int64_t time_of(uint32_t v, uint32_t r)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MAX, -3};
    return v % 9 == 4   ? 100 + r % 3
           : v % 9 == 7 ? -100 - (int64_t)(r % 3)
           : r % 29 < 3 ? ends[r % 29]
                        : (int64_t)(r % 13) - 6;
}

static void setup(void)
{
    tangle(N);
    ck_assert_int_eq(sl_drawer_init(&plain, &fx.topology, sl_kernels_ref()), SL_OK);
    struct sl_dataset *ds = &fx.topology.dataset;
    edge_time = fixture_alloc((ds->n_edges + 1) * sizeof *edge_time);
    for (uint32_t v = 0; v < N; v++) {
        node_time[v] = time_of(v, fixture_word(v, 77));
        const uint64_t first = fx.indptr[v], n = fx.indptr[v + 1] - first;
        for (uint64_t i = 0; i < n; i++)
            edge_time[first + i] = time_of(v, fixture_word((uint32_t)(first + i), 78));
        qsort(edge_time + first, n, sizeof *edge_time, by_time);
    }
    ds->edge_time = edge_time;
    ds->node_time = node_time;
}

static void end(void)
{
    sl_drawer_fini(&plain);
    free(edge_time);
    teardown();
}

// ---- ranges -------------------------------------------------------------------------------------

TEST(ranges_are_what_a_look_at_each_edge_gives)
{
    static const int64_t bounds[] = {INT64_MIN, -101, -100, -6, 0, 1, 6, 101, INT64_MAX};
    uint32_t nodes[N];
    struct sl_time_range range[N];
    for (uint32_t v = 0; v < N; v++)
        nodes[v] = N - 1 - v;
    for (size_t b = 0; b < 2 * SL_COUNT_OF(bounds); b++) {
        const int64_t seed = bounds[b / 2];
        const bool strict = b % 2;
        for (uint32_t n = 0; n <= N; n += n < 35 ? 1 : 23) {
            sl_time_ranges(fx.indptr, edge_time, sl_time_bound(seed, strict), nodes, n, range);
            for (uint32_t i = 0; i < n; i++) {
                uint64_t last = fx.indptr[nodes[i]];
                for (uint64_t e = last; e < fx.indptr[nodes[i] + 1]; e++)
                    last += edge_time[e] < seed || (!strict && edge_time[e] == seed);
                EXPECT(range[i].begin == fx.indptr[nodes[i]] && range[i].end == last,
                       "bound %lld, %u rows, row %u ends at %llu, wanted %llu", (long long)seed, n,
                       i, (unsigned long long)range[i].end, (unsigned long long)last);
            }
        }
    }
}

// ---- trees --------------------------------------------------------------------------------------

static bool has_times(uint64_t list)
{
    return true;
}

static void rename_edges(struct sl_block *b, const struct sl_draw_plan *plan,
                         const uint64_t *edge_of)
{
    for (uint32_t h = 0; h < b->n_hops; h++) {
        uint64_t *ids = (uint64_t *)((char *)b + b->hop[h].beside_offset);
        for (uint32_t e = 0; e < b->hop[h].n_edges; e++)
            ids[e] = edge_of[ids[e]];
    }
}

static void compare(const struct sl_draw_plan *timed, int back_end, uint32_t seed)
{
    struct past past;
    past_make(&past, &fx.topology, timed, seed, has_times);
    past_compare(&past, timed, back_end ? &plain : &drawer, EPOCH, seed, rename_edges);
    past_free(&past);
}

static bool goes_with_time(const struct sl_draw_plan *plan)
{
    return !plan->degrees && !sl_draw_plan_has_visits(plan);
}

LOOP_TEST(trees_are_those_of_the_graph_as_it_was, 0, SL_COUNT_OF(fixture_plans) * BACK_ENDS)
{
    struct sl_draw_plan plan = fixture_plans[_i / BACK_ENDS];
    if (!goes_with_time(&plan))
        return;
    plan.disjoint = true;
    plan.time = SL_TIME_UNIFORM;
    for (uint32_t seed = 0; seed < 40; seed++) {
        plan.time_strict = seed % 2;
        compare(&plan, _i % BACK_ENDS, seed);
    }
}

LOOP_TEST(the_latest_edges_are_the_last_ones, 0, 2 * BACK_ENDS)
{
    compare_latest(_i, 40, compare);
}

// A hop takes more of the latest edges than the one before it.
TEST(each_hop_has_its_own_number_of_latest_edges)
{
    const uint32_t hub = 0;
    const struct sl_draw_plan plan = {.n_hops = 2,
                                      .fanout = {3, 7},
                                      .disjoint = true,
                                      .time = SL_TIME_LATEST,
                                      .edge_ids = true,
                                      .stream = SL_RNG_SAMPLE};
    node_time[hub] = INT64_MAX;
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, 0, &hub, 1);
    const struct sl_block_view view = sl_block_here(b);
    const uint64_t last = fx.indptr[1];
    ck_assert_uint_eq(sl_view_indptr(view, 0)[1], 3);
    ck_assert_uint_eq(sl_view_indptr(view, 1)[1], 7);
    for (uint32_t e = 0; e < 7; e++)
        ck_assert_uint_eq(sl_view_edge_ids(view, 1)[e], last - 7 + e);
    for (uint32_t e = 0; e < 3; e++)
        ck_assert_uint_eq(sl_view_edge_ids(view, 0)[e], last - 3 + e);
    free(b);
}

// Where no edge is too late, a batch is that of a job without times, byte for byte.
LOOP_TEST(batches_without_late_edges_are_those_without_times, 0, SL_COUNT_OF(fixture_plans))
{
    struct sl_draw_plan plan = fixture_plans[_i], timed;
    if (!goes_with_time(&plan))
        return;
    for (uint32_t v = 0; v < N; v++)
        node_time[v] = INT64_MAX;
    plan.disjoint = true;
    timed = plan;
    timed.time = SL_TIME_UNIFORM;
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *want = fixture_draw(&drawer, &plan, EPOCH, 2, seeds, 50);
    struct sl_block *got = fixture_draw(&drawer, &timed, EPOCH, 2, seeds, 50);
    ck_assert_uint_eq(got->bytes, want->bytes);
    ck_assert_mem_eq(got, want, got->bytes);
    free(got);
    free(want);
}

// The seeds of one batch have times of their own: each one's tree is that of a batch of it alone.
TEST(each_tree_of_a_batch_has_its_seeds_time)
{
    const struct sl_draw_plan plan = {.n_hops = 2,
                                      .fanout = {9, -1},
                                      .disjoint = true,
                                      .time = SL_TIME_UNIFORM,
                                      .edge_ids = true,
                                      .expand_new = true,
                                      .stream = SL_RNG_SAMPLE};
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN], n = 60;
    uint32_t tree_of[N * N], n_late = 0;
    struct sl_block *b = fixture_draw(&drawer, &plan, EPOCH, 1, seeds, n);
    const struct sl_block_view view = sl_block_here(b);
    ck_assert_uint_le(b->n_input, SL_COUNT_OF(tree_of));
    for (uint32_t i = 0; i < n; i++)
        tree_of[i] = i;
    for (uint32_t row = 0, e = 0; row < b->hop[1].n_dst; row++)
        for (; e < sl_view_indptr(view, 1)[row + 1]; e++) {
            const uint32_t seed = seeds[tree_of[row]];
            tree_of[sl_view_indices(view, 1)[e]] = tree_of[row];
            EXPECT(edge_time[sl_view_edge_ids(view, 1)[e]] <= node_time[seed],
                   "an edge is later than seed %u", seed);
            n_late += edge_time[sl_view_edge_ids(view, 1)[e]] > node_time[seeds[0]];
        }
    ck_assert_uint_gt(n_late, 0);
    free(b);
}

TEST(memory_of_the_exact_size_is_enough)
{
    const struct sl_draw_plan plan = {.n_hops = 2,
                                      .fanout = {-1, 5},
                                      .disjoint = true,
                                      .time = SL_TIME_LATEST,
                                      .stream = SL_RNG_SAMPLE};
    fixture_expect_exact_size(&drawer, &plan, EPOCH, 1, fx.split[SL_SPLIT_TRAIN], 9);
}

TEST(times_are_wanted_of_the_data_set)
{
    struct sl_draw_plan plan = {.n_hops = 1, .fanout = {2}, .time = SL_TIME_UNIFORM};
    const uint32_t seed = 1;
    union {
        struct sl_block block;
        char bytes[4096];
    } room;
    uint64_t wanted;
    for (int disjoint = 0; disjoint < 2; disjoint++) {
        plan.disjoint = disjoint;
        if (disjoint)
            fx.topology.dataset.edge_time = NULL;
        ck_assert_int_eq(fixture_draw_into(&drawer, &plan, EPOCH, 0, &seed, 1, &room.block,
                                           sizeof room, &wanted),
                         SL_EPROTO);
        ck_assert_ptr_nonnull(strstr(sl_error_message(), "by time"));
    }
}

RUN_TESTS(.setup = setup, .teardown = end, .timeout_s = 60)
