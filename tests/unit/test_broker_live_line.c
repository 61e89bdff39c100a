// The line of statistics that looks at a job lead to, and its description.
#include "broker/telemetry/description.h"
#include "common/arena/peer_memory.h"
#include "common/arena/type_counts.h"
#include "tests/unit/broker_live_fixture.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <time.h>

TEST(the_first_line_is_whole)
{
    cJSON *json = line();
    ck_assert_str_eq(at(json, "schema")->valuestring, "sluice.stats/1");
    ck_assert_str_eq(at(json, "state")->valuestring, "running");
    ck_assert(cJSON_IsNull(at(json, "id")));
    ck_assert(cJSON_IsNull(at(json, "loss")));
    ck_assert(cJSON_IsNull(at(json, "metric")));
    ck_assert(cJSON_IsNull(at(json, "stages.sample.p50")));
    ck_assert(cJSON_IsNull(at(json, "cache.hit_rate")));
    ck_assert_double_eq(number(json, "rates.batches"), 0);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "workers")), 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "devices")), 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "histograms.le")), SL_METER_BUCKETS - 1);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "histograms.train.counts")), SL_METER_BUCKETS);
    cJSON_Delete(json);
}

TEST(what_was_read_over_which_way_is_counted)
{
    cJSON *json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "links")), 0);
    cJSON_Delete(json);
    sl_peer_memory_count(&job.arena, SL_PEER_MEMORY_FEATURES, 1, 1, 10);
    sl_peer_memory_count(&job.arena, SL_PEER_MEMORY_FEATURES, 1, 0, 200);
    sl_peer_memory_count(&job.arena, SL_PEER_MEMORY_FEATURES, 1, 2, 3000); // the machine's memory
    sl_peer_memory_count(&job.arena, SL_PEER_MEMORY_GRAPH, 0, 1, 40000);
    json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "links")), 4);
    ck_assert_str_eq(at(json, "links.0.from")->valuestring, "0");
    ck_assert_double_eq(number(json, "links.0.bytes"), 200);
    ck_assert_str_eq(at(json, "links.1.from")->valuestring, "1");
    ck_assert_str_eq(at(json, "links.2.from")->valuestring, "memory");
    ck_assert_double_eq(number(json, "links.2.bytes"), 3000);
    ck_assert_str_eq(at(json, "links.3.kind")->valuestring, "graph");
    ck_assert_double_eq(number(json, "links.3.reader"), 0);
    ck_assert_double_eq(number(json, "totals.peer_bytes"), 40200);
    cJSON_Delete(json);
}

// A block whose runs have 3 edges of relation 1 next to the seeds, and 5 more behind them.
static void count_block(uint32_t seat)
{
    struct parts {
        struct sl_block block;
        struct sl_block_typed typed;
        struct sl_block_run run[2];
    } b = {.run = {{.relation = 1, .n_edges = 3}, {.hop = 1, .relation = 1, .n_edges = 5}}};
    b.block.flags = SL_BLOCK_TYPED;
    b.block.typed_offset = offsetof(struct parts, typed);
    b.typed.n_runs = 2;
    b.typed.runs_offset = offsetof(struct parts, run);
    sl_type_counts_add_edges(&job.arena, seat, &b.block);
}

TEST(rows_by_type_and_edges_by_relation_are_sums_over_seats)
{
    const struct sl_type_count some = {.rows = 10, .hits = 4, .hit_bytes = 64, .miss_bytes = 96};
    teardown();
    setup_typed();
    count_block(0);
    count_block(1);
    sl_type_counts_add_rows(&job.arena, 2, 1, &some);
    sl_type_counts_add_rows(&job.arena, 3, 1, &some);
    cJSON *json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "types")), 2);
    ck_assert_str_eq(at(json, "types.0.name")->valuestring, "paper");
    ck_assert_double_eq(number(json, "types.0.input_nodes"), 0);
    ck_assert_double_eq(number(json, "types.1.input_nodes"), 20);
    ck_assert_double_eq(number(json, "types.1.hits"), 8);
    ck_assert_double_eq(number(json, "types.1.hit_bytes"), 128);
    ck_assert_double_eq(number(json, "types.1.miss_bytes"), 192);
    ck_assert_double_eq(number(json, "relations.0.sampled_edges"), 0);
    ck_assert_str_eq(at(json, "relations.1.source")->valuestring, "author");
    ck_assert_str_eq(at(json, "relations.1.target")->valuestring, "paper");
    ck_assert_double_eq(number(json, "relations.1.sampled_edges"), 16);
    cJSON_Delete(json);
}

TEST(what_a_trainers_cache_holds_is_told_while_it_lives)
{
    teardown();
    setup_typed();
    sl_type_counts_hold(&job.arena, 3, 1, 9);
    sl_type_counts_hold(&job.arena, 3, 1, 5); // not added
    sl_type_counts_hold(&job.arena, 2, 1, 7); // nobody sits there
    cJSON *json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "held")), 1);
    ck_assert_str_eq(at(json, "held.0.worker")->valuestring, "trainer 1");
    ck_assert_double_eq(number(json, "held.0.device"), 1);
    ck_assert_str_eq(at(json, "held.0.type")->valuestring, "author");
    ck_assert_double_eq(number(json, "held.0.rows"), 5);
    ck_assert_double_eq(number(json, "held.0.bytes"), 5 * 3 * sizeof(float));
    cJSON_Delete(json);
    workers[3].alive = false;
    json = line();
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "held")), 0);
    cJSON_Delete(json);
}

TEST(a_line_is_never_of_another_state)
{
    ck_assert(strstr(sl_live_line(&job.live), "\"state\":\"running\"") != NULL);
    sl_pauses_begin(&job.pauses, sl_now_ns());
    ck_assert(strstr(sl_live_line(&job.live), "\"state\":\"paused\"") != NULL);
    job.state = SL_JOB_FINISHING;
    ck_assert(strstr(sl_live_line(&job.live), "\"state\":\"finishing\"") != NULL);
}

TEST(rates_are_of_the_window)
{
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    look();
    for (int i = 0; i < 8; i++)
        sample();
    train(4);
    sl_clock_advance(20 * SECOND);
    const struct sl_meter *l = look();
    const struct sl_meter_reading *from, *to;
    ck_assert(sl_meter_window(l, &from, &to));
    double seconds = (double)(to->ns - from->ns) * 1e-9;
    cJSON *json = line();
    ck_assert_double_eq_tol(number(json, "rates.batches"), 4 / seconds, 0.01 / seconds);
    ck_assert_double_eq_tol(number(json, "rates.updates"), 1 / seconds, 0.01 / seconds);
    ck_assert_double_eq_tol(number(json, "bytes.features_cache"), 6000 / seconds, 1 / seconds);
    ck_assert_double_eq_tol(number(json, "bytes.blocks_near"), 1200 / seconds, 1 / seconds);
    ck_assert_double_eq(number(json, "cache.hit_rate"), 0.75);
    ck_assert_double_eq(number(json, "totals.blocks_near_bytes"), 1200);
    ck_assert_double_eq(number(json, "totals.batches"), 4);
    ck_assert_double_eq(number(json, "totals.updates"), 1);
    ck_assert_double_eq(number(json, "queue.batches"), 4);
    ck_assert_double_eq(number(json, "loss"), 1);
    ck_assert_double_eq_tol(number(json, "stages.train.p50"), 7e-3, 1e-9);
    // What was done before the window counts no more.
    for (int i = 0; i < SL_METER_READINGS; i++)
        look();
    cJSON_Delete(json);
    json = line();
    ck_assert_double_eq(number(json, "rates.batches"), 0);
    ck_assert(cJSON_IsNull(at(json, "cache.hit_rate")));
    ck_assert_double_eq(number(json, "cache.hit_rate_total"), 0.75);
    cJSON_Delete(json);
}

TEST(links_have_pairs_a_second_and_their_metric_has_its_k)
{
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    cJSON *json = line();
    ck_assert(cJSON_IsNull(at(json, "rates.positives")));
    cJSON_Delete(json);
    job.config.task.kind = SL_JOB_LINKS;
    job.config.task.per_positive = 3;
    job.config.evaluate.k = 20;
    job.phases.measure = SL_MEASURE_HITS;
    job.phases.setup.plan.split[SL_SPLIT_TRAIN].n = 75; // of 8 batches of 10 the last has 5
    look();
    for (int i = 0; i < 8; i++)
        sample();
    train(4);
    sl_clock_advance(20 * SECOND);
    look();
    job.meter.has_metric = true;
    job.meter.metric = 0.25;
    json = line();
    const double batches = number(json, "rates.batches");
    ck_assert_double_gt(batches, 0);
    ck_assert_double_eq_tol(number(json, "rates.positives"), batches * 75 / 8, 1e-6 * batches);
    ck_assert_double_eq_tol(number(json, "rates.negatives"), batches * 225 / 8, 1e-6 * batches);
    ck_assert_str_eq(at(json, "metric.name")->valuestring, "hits");
    ck_assert_str_eq(at(json, "metric.title")->valuestring, "Hits@20");
    cJSON_Delete(json);
}

static void publish_trainer(uint32_t slot, uint32_t worker, uint64_t batches, uint64_t train_ns,
                            uint64_t wait_ns)
{
    publish_figures(slot, worker,
                    (struct sl_worker_totals){.batches = batches,
                                              .stage_ns[SL_STAGE_TRAIN] = train_ns,
                                              .stage_ns[SL_STAGE_WAIT] = wait_ns});
}

TEST(shares_are_of_the_time_of_those_who_are_there)
{
    publish(0, 5, 0, 0);
    publish(3, 6, 0, 0);
    look();
    for (int i = 0; i < 10; i++) {
        sl_clock_advance(100 * SECOND);
        if (i == 8)
            publish(0, 5, 1, 450 * SECOND);
        look();
    }
    cJSON *json = line(); // 450 of a little more than 1000 seconds
    double busy = number(json, "stages.sample.busy");
    ck_assert_double_eq_tol(busy, 0.45, 0.05);
    ck_assert_double_eq_tol(number(json, "workers.0.busy"), busy, 0.01);
    ck_assert_double_eq(number(json, "stages.wait.busy"), 1); // the trainer had nothing
    ck_assert_double_eq(number(json, "stages.train.busy"), 0);
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "waiting");
    cJSON_Delete(json);
}

// What ended in the window may have begun before it, and waits are seen at each look alone.
TEST(what_a_worker_does_in_turn_is_no_more_than_its_time)
{
    publish(0, 5, 0, 0);
    publish_trainer(3, 6, 0, 0, 0);
    atomic_store(&sl_seat(&job.arena, 0)->activity, SL_ACTIVITY_BLOCKED);
    look();
    for (int i = 0; i < 10; i++) {
        sl_clock_advance(100 * SECOND);
        if (i == 8) {
            publish(0, 5, 3, 200 * SECOND);
            publish_figures(3, 6,
                            (struct sl_worker_totals){.batches = 9,
                                                      .stage_ns[SL_STAGE_EXTRACT] = 500 * SECOND,
                                                      .stage_ns[SL_STAGE_TRAIN] = 900 * SECOND,
                                                      .stage_ns[SL_STAGE_EVALUATE] = 900 * SECOND,
                                                      .stage_ns[SL_STAGE_WAIT] = 300 * SECOND});
        }
        look();
    }
    cJSON *json = line();
    double draws = number(json, "stages.sample.busy");
    ck_assert_double_eq_tol(draws, 0.2, 0.03);
    ck_assert_double_eq_tol(draws + number(json, "stages.backpressure.busy"), 1, 1e-9);
    double trains = number(json, "stages.train.busy");
    ck_assert_double_eq_tol(trains, 0.5, 1e-9);
    ck_assert_double_eq_tol(number(json, "stages.evaluate.busy"), trains, 1e-9);
    ck_assert_double_eq(number(json, "stages.wait.busy"), 0);
    // Features are gathered a batch ahead, beside all that.
    ck_assert_double_eq_tol(number(json, "stages.extract.busy"), 0.5, 0.06);
    cJSON_Delete(json);
}

// A standby trainer that waits for what is left over says nothing of who is waited for.
TEST(standby_trainers_waits_are_their_own)
{
    job.config.allocation.switching = true;
    workers[2].wanted = workers[2].alive = workers[2].ready = true;
    publish_trainer(2, 7, 0, 0, 0);
    publish_trainer(3, 6, 0, 0, 0);
    look();
    for (int i = 0; i < 10; i++) {
        sl_clock_advance(100 * SECOND);
        if (i == 9) {
            publish_trainer(2, 7, 1, 10 * SECOND, 990 * SECOND);
            publish_trainer(3, 6, 1, 950 * SECOND, 10 * SECOND);
        }
        look();
    }
    cJSON *json = line();
    ck_assert_double_gt(number(json, "stages.train.busy"), 0.8);
    ck_assert_double_lt(number(json, "stages.wait.busy"), 0.1);
    ck_assert_double_gt(number(json, "standby.wait"), 0.8);
    ck_assert_double_lt(number(json, "standby.busy"), 0.1);
    ck_assert_str_eq(at(json, "bottleneck_role")->valuestring, "trainers");
    cJSON_Delete(json);
    // Without normal trainers the standby trainers are who trains.
    job.split.roles.trainers = 0;
    workers[3].wanted = workers[3].alive = false;
    json = line();
    ck_assert_double_gt(number(json, "stages.wait.busy"), 0.8);
    cJSON_Delete(json);
}

TEST(the_pace_is_of_training_alone)
{
    open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    for (int i = 0; i < 8; i++)
        sample();
    for (int i = 0; i < 12; i++) {
        if (i == 6)
            train(8);
        sl_clock_advance(SECOND);
        look();
    }
    const struct sl_meter_reading *from, *to;
    ck_assert(sl_meter_window(&job.meter, &from, &to));
    double seconds = (double)(to->ns - from->ns) * 1e-9;
    ck_assert_double_eq_tol(sl_meter_pace(&job.meter, 0), 8 / seconds, 1e-6 / seconds);
    // The split has changed since.
    ck_assert_double_eq(sl_meter_pace(&job.meter, from->ns + 1), 0);
    // An evaluation is part of it.
    close_phase();
    open_phase(SL_PHASE_INFER, 4, 0, NULL, 0);
    struct sl_lease l = claim();
    complete(&l);
    look();
    ck_assert_double_eq(sl_meter_pace(&job.meter, 0), 0);
}

// --- switches ------------------------------------------------------------------------------------

static const cJSON *told_of(cJSON **list)
{
    struct sl_json_writer w = {0};
    sl_timeline_write(&job.timeline, &w, NULL, SIZE_MAX);
    *list = cJSON_Parse(sl_json_text(&w));
    sl_json_fini(&w);
    return *list;
}

static void expect_told(int n, const char *last)
{
    cJSON *list;
    ck_assert_int_eq(cJSON_GetArraySize(told_of(&list)), n);
    if (n > 0)
        ck_assert_str_eq(at(cJSON_GetArrayItem(list, n - 1), "text")->valuestring, last);
    cJSON_Delete(list);
}

static void pass_seconds(uint64_t seconds)
{
    struct sl_switches *t = &job.switches;
    t->told_at_ns -= SL_MIN(t->told_at_ns, seconds * 1000 * MS);
    t->since_ns -= SL_MIN(t->since_ns, seconds * 1000 * MS);
}

TEST(switches_are_told_together)
{
    uint64_t batches = 0;
    _Atomic uint64_t *switches = &sl_seat(&job.arena, 2)->switches;
    must(sl_timeline_init(&job.timeline));
    sl_switches_watch(&job.switches, job.phases.trained, batches);
    expect_told(0, NULL);
    atomic_store(switches, 3);
    sl_switches_watch(&job.switches, job.phases.trained, batches);
    expect_told(0, NULL); // the epoch is not over, nor are ten seconds
    batches = 12;
    atomic_store(switches, 5);
    sl_switches_end_epoch(&job.switches, 0, batches);
    expect_told(1, "standby trainers were switched on 5 times in epoch 1 (12 batches)");
    // Epochs that are short of ten seconds have a line together.
    job.phases.trained = 1;
    atomic_store(switches, 6);
    sl_switches_end_epoch(&job.switches, 1, batches);
    expect_told(1, "standby trainers were switched on 5 times in epoch 1 (12 batches)");
    pass_seconds(9);
    atomic_store(switches, 1); // another worker, which counts anew
    batches = 13;
    sl_switches_end_epoch(&job.switches, 2, batches);
    pass_seconds(1);
    sl_switches_end_epoch(&job.switches, 2, batches);
    expect_told(2, "standby trainers were switched on 2 times in epochs 2 to 3 (1 batch)");
    // An epoch that takes longer is not waited for.
    atomic_store(switches, 2);
    job.phases.trained = 2;
    sl_switches_watch(&job.switches, job.phases.trained, batches);
    pass_seconds(10);
    sl_switches_watch(&job.switches, job.phases.trained, batches);
    expect_told(3, "standby trainers were switched on 1 time in epoch 3 (0 batches)");
    // Nor is the end of the job.
    atomic_store(switches, 3);
    sl_switches_end(&job.switches, job.phases.trained, batches);
    expect_told(4, "standby trainers were switched on 1 time in epoch 3 (0 batches)");
    sl_switches_end(&job.switches, job.phases.trained, batches);
    expect_told(4, "standby trainers were switched on 1 time in epoch 3 (0 batches)");
    sl_timeline_fini(&job.timeline);
}

// --- requests ------------------------------------------------------------------------------------

TEST(a_job_that_is_finishing_refuses_what_is_so_already)
{
    const struct sl_bus_peer nobody = {.n = 0};
    Sl__Control__Scale scale = SL__CONTROL__SCALE__INIT;
    scale.has_samplers = true;
    scale.samplers = job.split.roles.samplers;
    must(sl_timeline_init(&job.timeline));
    job.phases.trained = job.config.epochs; // only the test is left
    sl_split_on_request(&job.split, &nobody, &scale);
    expect_told(1, "refused: the job is finishing: all of its epochs are trained");
    sl_split_end(&job.split);
    sl_split_on_request(&job.split, &nobody, &scale);
    expect_told(2, "refused: the job is finishing: its split can be changed only while it trains");
    ck_assert(!job.split.pinned);
    sl_timeline_fini(&job.timeline);
}

TEST(a_worker_with_one_batch_for_the_whole_window_is_busy)
{
    struct sl_open_phase *o = open_phase(SL_PHASE_TRAIN, 8, 0, NULL, 0);
    publish_figures(3, 6, (struct sl_worker_totals){.current_tag = o->seq << 40 | 5u << 16});
    for (int i = 0; i < 10; i++) {
        sl_clock_advance(SECOND);
        look();
    }
    cJSON *json = line();
    ck_assert_double_ge(number(json, "workers.1.busy"), 0.99);
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "working");
    ck_assert_str_eq(at(json, "workers.1.batch")->valuestring, "batch 5 of epoch 1");
    ck_assert_double_ge(number(json, "stages.train.busy"), 0.99);
    cJSON_Delete(json);
}

TEST(states_are_told)
{
    sl_seat_set_activity(&job.arena, 0, SL_ACTIVITY_BLOCKED);
    workers[3].alive = false;
    cJSON *json = line();
    ck_assert_str_eq(at(json, "workers.0.state")->valuestring, "blocked");
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "gone");
    ck_assert(cJSON_IsNull(at(json, "workers.1.pid")));
    cJSON_Delete(json);
    sl_pauses_begin(&job.pauses, sl_now_ns());
    workers[3].alive = true;
    workers[3].ready = false;
    json = line();
    ck_assert_str_eq(at(json, "state")->valuestring, "paused");
    ck_assert_str_eq(at(json, "workers.0.state")->valuestring, "paused");
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "starting");
    ck_assert_str_eq(at(json, "bottleneck")->valuestring, "the job is paused");
    cJSON_Delete(json);
}

// A batch claimed in the instant of the pause is not told of yet, and what was done since the last
// look has not been seen.
TEST(at_rest_is_who_has_nothing_in_hand_now)
{
    workers[0].worker = 1;
    workers[3].worker = 2;
    open_phase(SL_PHASE_EVAL, 3, 0, NULL, 0);
    sample();
    struct sl_lease trained = claim(), drawn;
    look();
    must(sl_ledger_claim_sample(&job.arena, 1, SL_AHEAD_ALL, 1, &drawn));
    sl_pauses_begin(&job.pauses, sl_now_ns());
    cJSON *json = line();
    ck_assert_str_eq(at(json, "workers.0.state")->valuestring, "working");
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "working");
    cJSON_Delete(json);
    must(sl_ledger_publish(&job.arena, &drawn));
    complete(&trained);
    publish_figures(3, 2, (struct sl_worker_totals){.current_tag = trained.tag});
    json = line();
    ck_assert_str_eq(at(json, "workers.0.state")->valuestring, "paused");
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "working");
    cJSON_Delete(json);
    publish_figures(3, 2, (struct sl_worker_totals){.batches = 1});
    json = line();
    ck_assert_str_eq(at(json, "workers.1.state")->valuestring, "paused");
    ck_assert_double_eq(at(json, "totals.edges")->valuedouble, 100);
    cJSON_Delete(json);
}

// Two cores of a pool are no devices, whatever places for workers there are.
TEST(a_pool_is_told_as_one)
{
    job.config.allocation.cores = SL_CORES_POOL;
    job.config.devices[1].cores[0] = 2;
    job.memory.worker_bytes[0] = 100;
    job.memory.worker_bytes[3] = 20;
    cJSON *json = line();
    ck_assert_str_eq(at(json, "cores")->valuestring, "pool");
    ck_assert_double_eq(number(json, "places"), 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "devices")), 1);
    ck_assert_str_eq(at(json, "devices.0.name")->valuestring, "pool");
    ck_assert_str_eq(at(json, "devices.0.cores")->valuestring, "0,2");
    ck_assert_double_eq(number(json, "devices.0.memory_used"), 120);
    ck_assert_str_eq(at(json, "devices.0.roles.0")->valuestring, "sampler");
    ck_assert_str_eq(at(json, "devices.0.roles.1")->valuestring, "trainer");
    ck_assert_double_eq(number(json, "workers.1.device"), 0);
    ck_assert_str_eq(at(json, "workers.1.cores")->valuestring, "2");
    cJSON_Delete(json);
    job.config.allocation.cores = SL_CORES_FIXED;
    json = line();
    ck_assert_str_eq(at(json, "cores")->valuestring, "fixed");
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "devices")), 2);
    ck_assert_double_eq(number(json, "workers.1.device"), 1);
    cJSON_Delete(json);
}

// A trainer's batches are those that it trained: the job's rate is their sum.
TEST(evaluated_batches_are_not_trained_ones)
{
    publish_figures(3, 6, (struct sl_worker_totals){0});
    look();
    publish_figures(3, 6, (struct sl_worker_totals){.batches = 9, .training = 2});
    sl_clock_advance(20 * SECOND);
    look();
    cJSON *json = line();
    ck_assert_double_eq(number(json, "workers.1.batches"), 2);
    ck_assert_double_eq_tol(number(json, "workers.1.batches_per_second"), 0.1, 0.001);
    cJSON_Delete(json);
}

TEST(a_gpu_and_what_is_held_on_it)
{
    cJSON *json = line();
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu")));
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu_memory_used")));
    cJSON_Delete(json);
    job.config.devices[0].kind = SL_DEVICE_CUDA;
    job.config.devices[0].index = 3;
    job.config.devices[0].memory_bytes = 4000;
    job.memory.worker_bytes[0] = 12345; // which is of the host
    job.meter.seat[0].last.device_held_bytes = 1000;
    job.meter.seat[0].last.device_used_bytes = 2500;
    job.meter.seat[0].last.device_total_bytes = 8000;
    json = line();
    ck_assert_str_eq(at(json, "devices.0.kind")->valuestring, "cuda");
    ck_assert_double_eq(number(json, "devices.0.gpu"), 3);
    ck_assert_double_eq(number(json, "devices.0.memory_used"), 1000);
    ck_assert_double_eq(number(json, "devices.0.memory_budget"), 4000);
    ck_assert_double_eq(number(json, "devices.0.gpu_memory_used"), 2500);
    ck_assert_double_eq(number(json, "devices.0.gpu_memory_total"), 8000);
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu_load"))); // nobody has said it
    cJSON_Delete(json);
    workers[0].alive = false; // its memory is free again
    json = line();
    ck_assert_double_eq(number(json, "devices.0.memory_used"), 0);
    cJSON_Delete(json);
}

TEST(a_gpu_s_load_is_what_was_said_last)
{
    const uint64_t now = sl_now_ns();
    struct sl_worker_totals *first = &job.meter.seat[workers[0].slot].last;
    struct sl_worker_totals *other = &job.meter.seat[workers[1].slot].last;
    job.config.devices[0].kind = SL_DEVICE_CUDA;
    workers[1].device = workers[0].device;
    workers[1].wanted = workers[1].alive = workers[1].ready = true;
    first->device_busy = 0.25f;
    first->device_memory_busy = 0.125f;
    first->device_load_at_ns = now - SECOND;
    other->device_busy = 1;
    other->device_memory_busy = 0.75f;
    other->device_load_at_ns = now - 2 * SECOND;
    cJSON *json = line();
    ck_assert_double_eq(number(json, "devices.0.gpu_load"), 0.25);
    ck_assert_double_eq(number(json, "devices.0.gpu_memory_load"), 0.125);
    cJSON_Delete(json);
    first->device_busy = 0; // idle is not unknown
    workers[1].alive = false;
    json = line();
    ck_assert(cJSON_IsNumber(at(json, "devices.0.gpu_load")));
    ck_assert_double_eq(number(json, "devices.0.gpu_load"), 0);
    cJSON_Delete(json);
    first->device_load_at_ns = now - 6 * SECOND; // its worker has not come round since
    json = line();
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu_load")));
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu_memory_load")));
    cJSON_Delete(json);
    workers[0].alive = false;
    first->device_load_at_ns = now;
    json = line();
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu_load")));
    cJSON_Delete(json);
}

TEST(the_process_is_looked_at)
{
    struct sl_meter *l = &job.meter;
    job.memory.worker_bytes[0] = 12345;
    sl_meter_read_processes(&job.meter);
    const uint64_t at_ns = l->processes_at_ns, cpu_ns = l->broker.cpu_ns;
    // Works until the kernel has counted a tenth of a second of it, however long that takes.
    for (clock_t until = clock() + CLOCKS_PER_SEC / 10; clock() < until;)
        ;
    sl_meter_read_processes(&job.meter);
    const double seconds = (double)(l->processes_at_ns - at_ns) * 1e-9;
    const double worked = (double)(l->broker.cpu_ns - cpu_ns) * 1e-9;
    cJSON *json = line();
    ck_assert_double_ge(worked, 0.05); // counted in ticks
    ck_assert_double_eq_tol(l->broker.load, worked / seconds, 1e-9);
    ck_assert_double_gt(l->process[0].load * seconds, 0.05);
    ck_assert_double_eq_tol(number(json, "devices.0.cpu_load"), l->process[0].load, 1e-6);
    ck_assert_double_eq_tol(number(json, "cpu_load"),
                            l->broker.load + l->process[0].load + l->process[3].load, 1e-6);
    ck_assert_double_eq(number(json, "devices.0.memory_used"), 12345);
    ck_assert_double_eq(number(json, "workers.0.memory"), 12345);
    ck_assert(cJSON_IsNull(at(json, "devices.0.gpu_load")));
    cJSON_Delete(json);
    workers[0].alive = workers[3].alive = false; // nobody is asked of again
    sl_meter_read_processes(&job.meter);
    json = line();
    ck_assert_double_eq(number(json, "devices.0.cpu_load"), 0);
    cJSON_Delete(json);
}

// --- the description -----------------------------------------------------------------------------

TEST(a_long_jobs_description_has_the_newest_epochs)
{
    enum { EPOCHS = 6000, BYTES = 2000 };
    static char words[BYTES + 1];
    struct sl_json_writer w = {0};
    memset(words, 'x', BYTES);
    must(sl_report_init(&job.report));
    must(sl_timeline_init(&job.timeline));
    for (int i = 0; i < EPOCHS; i++) {
        cJSON *e = cJSON_CreateObject();
        cJSON_AddNumberToObject(e, "epoch", i);
        cJSON_AddStringToObject(e, "words", words);
        cJSON_AddItemToArray(job.report.epochs, e);
    }
    sl_description_write(&job.view, &job.live, &w);
    ck_assert_uint_lt(strlen(sl_json_text(&w)), SL_BUS_MESSAGE_MAX / 2);
    cJSON *json = cJSON_Parse(sl_json_text(&w));
    const cJSON *epochs = at(json, "epochs");
    int n = cJSON_GetArraySize(epochs);
    ck_assert_int_gt(n, 1000);
    ck_assert_double_eq(number(json, "epochs_left_out"), EPOCHS - n);
    ck_assert_double_eq(number(cJSON_GetArrayItem(epochs, 0), "epoch"), EPOCHS - n);
    ck_assert_double_eq(number(cJSON_GetArrayItem(epochs, n - 1), "epoch"), EPOCHS - 1);
    cJSON_Delete(json);
    sl_json_fini(&w);
    sl_report_fini(&job.report);
    sl_timeline_fini(&job.timeline);
}

TEST(a_job_that_starts_describes_itself)
{
    struct sl_json_writer w = {0};
    must(sl_timeline_init(&job.timeline));
    job.state = SL_JOB_STARTING;
    sl_description_write(&job.view, &job.live, &w); // without a report
    cJSON *json = cJSON_Parse(sl_json_text(&w));
    ck_assert_str_eq(at(json, "state")->valuestring, "starting");
    ck_assert_int_eq(cJSON_GetArraySize(at(json, "epochs")), 0);
    ck_assert(cJSON_IsNull(at(json, "config")));
    cJSON_Delete(json);
    sl_json_fini(&w);
    sl_timeline_fini(&job.timeline);
}

RUN_TESTS(.setup = setup_ordered, .teardown = teardown, .timeout_s = 60)
