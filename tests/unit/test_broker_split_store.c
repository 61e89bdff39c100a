// Who holds which rows as the split changes: what is published, and when.
#include "broker/scheduler/role_split_internal.h"
#include "common/arena/peer_memory.h"
#include "tests/unit/broker_live_fixture.h"
#include "tests/unit/suite.h"

enum { ROW = 64, NODES = 1000, ROOM = 100 };

static const enum sl_duty both[] = {SL_DUTY_WORK, SL_DUTY_WORK},
                          one[] = {SL_DUTY_STANDBY, SL_DUTY_WORK},
                          leaves[] = {SL_DUTY_NONE, SL_DUTY_WORK};

// Two GPUs that reach one another, each with room for so many rows.
static void make_gpus(void)
{
    make_job();
    job.config.cache.ratio_auto = job.config.store.feature_ratio_auto = true;
    job.split.need = (struct sl_budget_need){.row_bytes = ROW, .n_nodes = NODES};
    for (uint32_t d = 0; d < 2; d++) {
        job.config.devices[d].kind = SL_DEVICE_CUDA;
        job.config.devices[d].memory_bytes = ROOM * ROW;
        for (uint32_t e = 0; e < 2; e++)
            job.split.store.rates.of[d][e] = d == e ? 900 : 50;
    }
}

static void give_duties(const enum sl_duty *duties)
{
    enum sl_duty all[SL_CONFIG_MAX_DEVICES] = {duties[0], duties[1]};
    sl_split_plan_store(&job.split, all);
}

static uint64_t rows_of(uint32_t d)
{
    return atomic_load(&sl_seat(&job.arena, sl_seat_trainer(&job.arena, d))->cache_rows);
}

static uint64_t generation(void)
{
    return sl_peer_memory_generation(&job.arena, SL_PEER_MEMORY_FEATURES);
}

CASE(.name = "plans", .setup = make_gpus, .teardown = teardown)

TEST(a_plan_is_published_with_the_rows_of_each_seat)
{
    struct sl_peer_memory_plan plan;
    ck_assert_uint_eq(generation(), 0);
    give_duties(both);
    ck_assert_uint_eq(generation(), 1);
    ck_assert(sl_peer_memory_read_plan(&job.arena, SL_PEER_MEMORY_FEATURES, &plan));
    ck_assert_uint_eq(plan.n_parts, SL_PEER_MEMORY_PARTS_MAX);
    for (uint32_t d = 0; d < 2; d++) {
        const uint32_t held = (uint32_t)__builtin_popcount(plan.held[d]);
        ck_assert_uint_eq(held, SL_PEER_MEMORY_PARTS_MAX / 2);
        ck_assert_uint_eq(rows_of(d), plan.first + held * plan.part_elements);
        ck_assert_uint_le(rows_of(d), ROOM);
    }
}

TEST(what_changes_nothing_is_no_new_plan)
{
    give_duties(both);
    give_duties(both);
    ck_assert_uint_eq(generation(), 1);
}

TEST(who_leaves_or_stands_by_lends_nothing)
{
    struct sl_peer_memory_plan plan;
    give_duties(both);
    give_duties(one);
    ck_assert_uint_eq(generation(), 2);
    ck_assert(sl_peer_memory_read_plan(&job.arena, SL_PEER_MEMORY_FEATURES, &plan));
    ck_assert_uint_eq(plan.n_parts, 0);
    ck_assert_uint_eq(rows_of(1), ROOM);
    give_duties(both);
    ck_assert_uint_eq(generation(), 3);
    give_duties(leaves);
    ck_assert_uint_eq(generation(), 4);
    ck_assert_uint_eq(rows_of(0), 0);
}

TEST(who_never_shares_publishes_nothing)
{
    job.config.store.placement = SL_STORE_ALONE;
    give_duties(both);
    give_duties(one);
    ck_assert_uint_eq(generation(), 0);
    ck_assert_uint_eq(rows_of(1), ROOM);
}

TEST(hotness_is_in_order_where_parts_begin_and_end)
{
    uint64_t sizes[SL_SPLIT_SIZES_MAX];
    bool end = false, most = false;
    give_duties(both);
    const struct sl_peer_memory_plan *p = &job.split.store.plan[SL_PEER_MEMORY_FEATURES].lent;
    const uint32_t n = sl_split_cache_sizes(&job.split, sizes);
    ck_assert_uint_le(n, SL_SPLIT_SIZES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        end |= sizes[i] == p->first + p->n_parts * p->part_elements;
        most |= sizes[i] >= 2 * ROOM;
    }
    ck_assert(end && most);
}

// --- the graph -----------------------------------------------------------------------------------

enum { EDGES = 100000, EDGE_ROOM = 40000 };

static void make_samplers(void)
{
    make_gpus();
    job.config.store.graph_ratio_auto = true;
    job.dataset.n_edges = EDGES;
    job.split.roles = (struct sl_roles){2, 0};
    job.split.store.graph_planned = true;
}

static uint64_t graph_generation(void)
{
    return sl_peer_memory_generation(&job.arena, SL_PEER_MEMORY_GRAPH);
}

static void says_hello(uint32_t device, uint64_t edges)
{
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    hello.graph_edges = edges;
    sl_split_on_hello(&job.split, sl_split_worker(&job.split, SL_ROLE_SAMPLER, device), &hello);
}

CASE(.name = "graph", .setup = make_samplers, .teardown = teardown)

TEST(samplers_that_come_share_the_graph)
{
    struct sl_peer_memory_plan plan;
    says_hello(0, EDGE_ROOM);
    ck_assert_uint_eq(graph_generation(), 0); // alone
    says_hello(1, EDGE_ROOM);
    ck_assert_uint_eq(graph_generation(), 1);
    ck_assert(sl_peer_memory_read_plan(&job.arena, SL_PEER_MEMORY_GRAPH, &plan));
    ck_assert_uint_eq(plan.n_parts, 2);
    ck_assert_uint_eq(plan.shift, SL_PEER_MEMORY_EDGE_SHIFT);
    ck_assert_uint_eq(plan.held[0] | plan.held[1], 3);
    ck_assert_uint_eq(generation(), 0); // of the features
}

TEST(before_caches_are_given_out_rooms_are_only_known)
{
    struct sl_peer_memory_plan plan;
    job.split.store.graph_planned = false;
    says_hello(0, EDGE_ROOM);
    says_hello(1, EDGE_ROOM);
    ck_assert_uint_eq(graph_generation(), 0);
    sl_split_assign_caches(&job.split);
    ck_assert_uint_eq(graph_generation(), 1);
    ck_assert(sl_peer_memory_read_plan(&job.arena, SL_PEER_MEMORY_GRAPH, &plan));
    ck_assert_uint_eq(plan.n_parts, 2);
}

// Nor one with less: it holds less of each of its parts.
TEST(a_replacement_with_the_same_room_changes_no_plan)
{
    const struct sl_shard_plan *now = &job.split.store.plan[SL_PEER_MEMORY_GRAPH];
    says_hello(0, EDGE_ROOM);
    says_hello(1, EDGE_ROOM);
    says_hello(1, EDGE_ROOM);
    says_hello(1, EDGE_ROOM + 5000);
    ck_assert_uint_eq(graph_generation(), 1);
    const uint64_t held = now->elements[1];
    says_hello(1, EDGE_ROOM / 2);
    ck_assert_uint_eq(graph_generation(), 1);
    ck_assert_uint_lt(now->elements[1], held);
    ck_assert_uint_gt(now->elements[1], held / 4);
    says_hello(1, 10); // of its parts nothing
    ck_assert_uint_eq(graph_generation(), 1);
    ck_assert_uint_le(now->elements[1], 10);
}

TEST(a_sampler_that_leaves_lends_nothing)
{
    struct sl_peer_memory_plan plan;
    says_hello(0, EDGE_ROOM);
    says_hello(1, EDGE_ROOM);
    job.split.roles = (struct sl_roles){1, 1};
    sl_split_on_room(&job.split, 1, 0);
    ck_assert_uint_eq(graph_generation(), 2);
    ck_assert(sl_peer_memory_read_plan(&job.arena, SL_PEER_MEMORY_GRAPH, &plan));
    ck_assert_uint_eq(plan.n_parts, 0);
    job.split.roles = (struct sl_roles){2, 0};
    says_hello(1, EDGE_ROOM);
    ck_assert_uint_eq(graph_generation(), 3);
}

TEST(cores_and_whole_graphs_are_in_no_plan)
{
    says_hello(0, 0); // a CPU device
    says_hello(1, EDGE_ROOM);
    ck_assert_uint_eq(graph_generation(), 0);
    says_hello(1, EDGES);
    says_hello(0, EDGES);
    ck_assert_uint_eq(graph_generation(), 0);
}

TEST(gpus_hold_no_more_edges_than_the_job_allows)
{
    job.config.store.graph_ratio_auto = false;
    job.config.store.graph_ratio = 0.3;
    says_hello(0, EDGES);
    says_hello(1, EDGES);
    const struct sl_shard_plan *p = &job.split.store.plan[SL_PEER_MEMORY_GRAPH];
    ck_assert_uint_le(p->cached, 3 * EDGES / 10);
    ck_assert_uint_le(p->elements[0], 3 * EDGES / 10);
}

RUN_TESTS()
