// What the first node's broker says of a job on several nodes.
#include "tests/unit/broker_live_fixture.h"
#include "tests/unit/suite.h"

#include "broker/telemetry/live_nodes.h"

static uint64_t nodes_ns = 1000000000; // what the nodes' own clocks show

// A second passes, here and there.
static void pass_on(void)
{
    sl_clock_advance(SECOND);
    nodes_ns += SECOND;
}

// What a node is found to do now.
static void tell_of(uint32_t node, struct sl_node_work work, struct sl_node_wire wire)
{
    work.at_ns = wire.at_ns = nodes_ns;
    snprintf(wire.host, sizeof wire.host, "%c", 'a' + node);
    sl_node_figures_put_work(&job.arena, node, &work);
    sl_node_figures_put_wire(&job.arena, node, &wire);
}

static struct sl_node_wire wire_with(uint32_t from, struct sl_node_peer peer)
{
    struct sl_node_wire w = {0};
    w.peer[from] = peer;
    return w;
}

// Both nodes have had nothing to do with each other; then a second passes in which they did this.
static void pass_a_second(struct sl_node_work first, struct sl_node_peer to_first,
                          struct sl_node_work second, struct sl_node_peer to_second)
{
    tell_of(0, (struct sl_node_work){0}, (struct sl_node_wire){0});
    tell_of(1, (struct sl_node_work){0}, (struct sl_node_wire){0});
    must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
    pass_on();
    tell_of(0, first, wire_with(1, to_first));
    tell_of(1, second, wire_with(0, to_second));
    must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
}

CASE(.name = "nodes", .setup = setup_nodes, .teardown = teardown)

TEST(a_line_has_a_row_for_each_node)
{
    cJSON *json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "nodes")), 0); // nothing has been heard yet
    cJSON_Delete(json);
    pass_a_second((struct sl_node_work){.samplers = 1, .trainers = 2, .batches = 10, .queue = 3},
                  (struct sl_node_peer){.out_bytes = 500, .in_bytes = 2000, .late_ns = SECOND / 4},
                  (struct sl_node_work){.batches = 8, .input_nodes = 400, .waiting = 0.5},
                  (struct sl_node_peer){.in_bytes = 500,
                                        .wire_ns = SECOND / 8,
                                        .rows = 100,
                                        .row_bytes = 4000,
                                        .asks = 4,
                                        .ask_ns = SECOND});
    json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "nodes")), 2);
    ck_assert_str_eq(at(json, "nodes.0.host")->valuestring, "a");
    ck_assert_double_eq(number(json, "nodes.0.trainers"), 2);
    ck_assert_double_eq(number(json, "nodes.0.queue"), 3);
    ck_assert_double_eq_tol(number(json, "nodes.0.batches_per_second"), 10, 0.1);
    ck_assert_double_eq_tol(number(json, "nodes.0.received_per_second"), 2000, 20);
    ck_assert_double_eq_tol(number(json, "nodes.0.late"), 0.25, 0.01);
    ck_assert_double_eq(number(json, "nodes.0.late_seconds"), 0.25);
    ck_assert_double_eq(number(json, "nodes.0.remote_rows"), 0);
    ck_assert(cJSON_IsNull(at(json, "nodes.0.remote_share")));
    ck_assert_double_eq(number(json, "nodes.1.waits"), 0.5);
    ck_assert_double_eq(number(json, "nodes.1.remote_share"), 0.25);
    ck_assert_double_eq(number(json, "nodes.1.remote_seconds"), 0.25);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "wires")), 2);
    ck_assert_double_eq(number(json, "wires.0.from"), 1);
    ck_assert_double_eq(number(json, "wires.0.bytes"), 2000);
    ck_assert_double_eq(number(json, "wires.1.node"), 1);
    ck_assert_double_eq(number(json, "wires.1.row_bytes"), 4000);
    cJSON_Delete(json);
}

TEST(the_report_has_what_nodes_did_in_all)
{
    const struct sl_node_work first = {.batches = 10, .queue = 3}, second = {.batches = 8};
    const struct sl_node_peer none = {0}, rows = {.rows = 100, .asks = 1};
    pass_a_second(first, none, second, rows);
    cJSON *nodes = sl_live_nodes_list(&job.live.nodes);
    cJSON *wires = sl_live_nodes_wire_list(&job.live.nodes);
    ck_assert_int_eq(cJSON_GetArraySize(nodes), 2);
    ck_assert_double_eq(number(nodes, "0.batches"), 10);
    ck_assert_double_eq(number(nodes, "1.remote_rows"), 100);
    ck_assert_str_eq(at(nodes, "1.host")->valuestring, "b");
    ck_assert(!cJSON_HasObjectItem(at(nodes, "0"), "queue")); // which is of a moment
    ck_assert_int_eq(cJSON_GetArraySize(wires), 2);
    ck_assert_double_eq(number(wires, "1.rows"), 100);
    cJSON_Delete(nodes);
    cJSON_Delete(wires);
}

TEST(rates_are_by_the_nodes_own_time)
{
    const struct sl_node_work one = {.batches = 1};
    const struct sl_node_peer none = {0};
    pass_a_second(one, none, one, none);
    // The same row again is none, however long it is looked at.
    sl_clock_advance(60 * SECOND);
    must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
    cJSON *json = line();
    ck_assert_double_eq_tol(number(json, "nodes.1.batches_per_second"), 1, 0.01);
    ck_assert_double_eq_tol(number(json, "nodes.1.age"), 60, 0.5);
    cJSON_Delete(json);
}

TEST(rows_are_the_last_once_all_are)
{
    for (uint32_t ended = 0; ended <= 2; ended++) {
        pass_on();
        for (uint32_t i = 0; i < 2; i++)
            tell_of(i, (struct sl_node_work){0}, (struct sl_node_wire){.last = i < ended});
        must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
        ck_assert_int_eq(sl_live_nodes_are_last(&job.live.nodes), ended == 2);
    }
}

TEST(looking_again_changes_no_rate)
{
    for (uint32_t i = 1; i <= SL_LIVE_NODE_ROWS + 1; i++) {
        pass_on();
        tell_of(0, (struct sl_node_work){.batches = 10 * i}, (struct sl_node_wire){0});
        for (int look = 0; look < 3; look++)
            must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
    }
    cJSON *json = line();
    ck_assert_double_eq_tol(number(json, "nodes.0.batches_per_second"), 10, 0.1);
    cJSON_Delete(json);
}

TEST(what_is_older_than_the_window_counts_no_more)
{
    pass_a_second((struct sl_node_work){0}, (struct sl_node_peer){.in_bytes = 1000},
                  (struct sl_node_work){0}, (struct sl_node_peer){0});
    for (int i = 0; i < SL_LIVE_NODE_ROWS; i++) {
        pass_on();
        tell_of(0, (struct sl_node_work){0}, wire_with(1, (struct sl_node_peer){.in_bytes = 1000}));
        must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
    }
    cJSON *json = line();
    ck_assert_double_eq(number(json, "nodes.0.received_per_second"), 0);
    ck_assert_double_eq(number(json, "nodes.0.received_bytes"), 1000);
    cJSON_Delete(json);
}

TEST(the_own_row_is_of_this_nodes_batches)
{
    struct sl_node_work w;
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    for (int i = 0; i < 4; i++) // the others are elsewhere
        sample();
    struct sl_lease first = claim(), second = claim();
    complete(&first);
    complete(&second);
    ck_assert_uint_eq(first.cell, 0);
    ck_assert_uint_eq(second.cell, 2);
    look();
    sl_live_publish_node(&job.live);
    ck_assert(sl_node_figures_work(&job.arena, 0, &w));
    ck_assert_uint_eq(w.samplers, 1);
    ck_assert_uint_eq(w.trainers, 1);
    ck_assert_uint_eq(w.queue, 2);
    ck_assert_uint_eq(w.batches, 0); // its update waits for the other node
    ck_assert(!sl_node_figures_work(&job.arena, 1, &w));
}

CASE(.name = "alone", .setup = setup_ordered, .teardown = teardown)

TEST(one_node_has_no_rows)
{
    sl_live_publish_node(&job.live);
    must(sl_live_nodes_poll(&job.live.nodes, &job.arena));
    ck_assert_ptr_null(job.live.nodes.list);
    ck_assert_ptr_null(sl_live_nodes_list(&job.live.nodes));
    cJSON *json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "nodes")), 0);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "wires")), 0);
    cJSON_Delete(json);
    ck_assert_uint_eq(job.arena.h->region[SL_REGION_NODES].bytes, 0);
}

// --- who waits for whom --------------------------------------------------------------------------

CASE(.name = "waits", .setup = setup_nodes, .teardown = teardown)

static const struct sl_live_shares busy = {
    .split = {1, 2}, .training = 0.9, .sampling = 0.3, .batches_per_update = 8};

static void expect(struct sl_live_shares s, enum sl_live_role role, const char *wanted)
{
    struct sl_live_node_names names;
    struct sl_live_node_waits waits;
    char text[SL_LIVE_SENTENCE_BYTES];
    ck_assert(sl_live_nodes_waits(&job.live.nodes, &names, &waits));
    s.nodes = &waits;
    ck_assert_int_eq(sl_live_name_bottleneck(&s, NULL, text), role);
    ck_assert_str_eq(text, wanted);
}

TEST(the_node_that_is_waited_for_is_named)
{
    pass_a_second((struct sl_node_work){.waiting = 0.4},
                  (struct sl_node_peer){.late_ns = SECOND * 2 / 5},
                  (struct sl_node_work){.training = 0.98}, (struct sl_node_peer){0});
    expect(busy, SL_LIVE_NODES,
           "nodes wait for batches of host b (rank 1) 40 % of the time, whose trainers compute "
           "98 %");
}

TEST(where_it_is_this_node_its_own_limit_is_named)
{
    pass_a_second((struct sl_node_work){.training = 0.9}, (struct sl_node_peer){0},
                  (struct sl_node_work){.waiting = 0.5},
                  (struct sl_node_peer){.late_ns = SECOND / 2});
    expect(
        busy, SL_LIVE_TRAINERS,
        "trainers compute 90 % of the time, samplers draw 30 %, 0.0 batches lie ready; the other "
        "nodes wait for this one 50 % of the time");
}

TEST(what_is_on_its_way_is_the_networks)
{
    pass_a_second((struct sl_node_work){0},
                  (struct sl_node_peer){.wire_ns = SECOND / 4, .in_bytes = 1 << 20},
                  (struct sl_node_work){0},
                  (struct sl_node_peer){.wire_ns = SECOND / 2, .in_bytes = 2 << 20});
    expect(busy, SL_LIVE_NETWORK,
           "nodes wait for gradients and parameters on the wire 38 % of the time, most of it host "
           "b (rank 1) for those of host a (rank 0), at 2.00 MiB/s");
}

TEST(rows_that_take_longest_are_another_nodes)
{
    struct sl_live_shares s = busy;
    s.fetching = 0.95;
    pass_a_second((struct sl_node_work){0},
                  (struct sl_node_peer){.asks = 50, .ask_ns = SECOND, .row_bytes = 3 << 20},
                  (struct sl_node_work){0}, (struct sl_node_peer){0});
    expect(s, SL_LIVE_NETWORK,
           "features of other nodes are fetched 95 % of the time: those of host b (rank 1) come "
           "after 20.0 ms, 3.00 MiB/s");
}

TEST(short_waits_limit_nothing)
{
    pass_a_second((struct sl_node_work){0},
                  (struct sl_node_peer){.late_ns = SECOND / 10, .wire_ns = SECOND / 10},
                  (struct sl_node_work){0}, (struct sl_node_peer){0});
    expect(busy, SL_LIVE_TRAINERS,
           "trainers compute 90 % of the time, samplers draw 30 %, 0.0 batches lie ready");
}

RUN_TESTS(.quiet = true)
