// The mathematics of the report: percentiles, queue depth, sums, and who is named the bottleneck.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <math.h>

#include "broker/epochs/epoch.h"
#include "common/arena/nodes.h"

#define MS 1000000ull

static struct sl_epoch_scratch room;
static struct sl_update_entry updates[1000];
static const struct sl_update_rule ordered_by_1 = {.batches_per_update = 1};

static void setup(void)
{
    must(sl_epoch_scratch_init(&room, 1000));
}

static void teardown(void)
{
    sl_epoch_scratch_fini(&room);
}

TEST(percentiles_are_nearest_ranks)
{
    uint64_t v[100];
    for (uint64_t i = 0; i < 100; i++)
        v[i] = i + 1;
    ck_assert_uint_eq(sl_epoch_percentile(v, 100, 50), 50);
    ck_assert_uint_eq(sl_epoch_percentile(v, 100, 99), 99);
    ck_assert_uint_eq(sl_epoch_percentile(v, 100, 99.5), 100);
    ck_assert_uint_eq(sl_epoch_percentile(v, 100, 100), 100);
    ck_assert_uint_eq(sl_epoch_percentile(v, 1, 50), 1);
    ck_assert_uint_eq(sl_epoch_percentile(v, 1, 99), 1);
    ck_assert_uint_eq(sl_epoch_percentile(v, 2, 50), 1);
    ck_assert_uint_eq(sl_epoch_percentile(v, 3, 50), 2);
    ck_assert_uint_eq(sl_epoch_percentile(v, 10, 99), 10);
}

// Batch i: ready at 10 i, claimed at 10 i + 25 ms, trained for i + 1 ms.
static void make_entries(struct sl_batch_entry *e, uint64_t n)
{
    memset(e, 0, n * sizeof *e);
    for (uint64_t i = 0; i < n; i++) {
        e[i].sample_ns = 2 * MS;
        e[i].sample_wait_ns = i == 0 ? 7 * MS : 0;
        e[i].ready_at_ns = (1000 + 10 * i) * MS;
        e[i].claimed_at_ns = (1000 + 10 * i + 25) * MS;
        e[i].train_ns = (i + 1) * MS;
        e[i].extract_ns = 3 * MS;
        e[i].train_wait_ns = MS;
        e[i].n_edges = 100 + i;
        e[i].n_input = 50;
        e[i].payload_bytes = 65536;
        e[i].hits = i < 20 ? 0 : 30;
        e[i].hit_bytes = i < 20 ? 0 : 240;
        e[i].miss_bytes = i < 20 ? 400 : 160;
        e[i].matched = 2;
        e[i].matched_bytes = 16;
        e[i].mark_ns = MS / 10;
        e[i].copy_ns = MS / 5;
        e[i].sampler = 1;
        e[i].trainer = 2;
        e[i].loss = 20.0;
        e[i].correct = 4;
        e[i].counted = 10;
        e[i].weight = 10;
    }
}

TEST(an_epoch_is_summed_up)
{
    struct sl_batch_entry e[100];
    struct sl_epoch f = {.samplers = 1, .trainers = 2};
    make_entries(e, 100);
    sl_epoch_add_training(&f, e, updates, 100, (struct sl_span){1000 * MS, 3000 * MS}, &room);
    ck_assert_uint_eq(f.batches, 100);
    ck_assert_double_eq_tol(f.seconds, 2.0, 1e-9);
    ck_assert_double_eq_tol(f.loss, 2.0, 1e-12);
    ck_assert_double_eq_tol(f.train_accuracy, 0.4, 1e-12);
    ck_assert_uint_eq(f.sampled_edges, 100 * 100 + 99 * 100 / 2);
    ck_assert_uint_eq(f.input_nodes, 5000);
    ck_assert_uint_eq(f.bytes.blocks, 6553600);
    ck_assert_uint_eq(f.bytes.features, 41600);
    ck_assert_uint_eq(f.cache.hits, 2400);
    ck_assert_uint_eq(f.cache.misses, 2600);
    ck_assert_uint_eq(f.cache.hit_bytes, 19200);
    ck_assert_uint_eq(f.cache.miss_bytes, 20800);
    ck_assert_uint_eq(f.cache.matched, 200);
    ck_assert_uint_eq(f.cache.matched_bytes, 1600);
    ck_assert_double_eq_tol(sl_epoch_hit_rate(&f), 0.48, 1e-12);
    ck_assert_double_eq_tol(f.stages.mark.seconds, 0.01, 1e-9);
    ck_assert_double_eq_tol(f.stages.copy.seconds, 0.02, 1e-9);
    ck_assert_double_eq_tol(f.stages.copy.p99, 0.0002, 1e-9);
    ck_assert_double_eq_tol(f.stages.sample.seconds, 0.2, 1e-9);
    ck_assert_double_eq_tol(f.stages.train.seconds, 5.05, 1e-9);
    ck_assert_double_eq_tol(f.stages.train.p50, 0.050, 1e-9);
    ck_assert_double_eq_tol(f.stages.train.p99, 0.099, 1e-9);
    ck_assert_uint_eq(f.stages.train.count, 100);
    ck_assert_double_eq_tol(f.stages.backpressure.seconds, 0.007, 1e-9);
    ck_assert_double_eq_tol(f.stages.backpressure.p50, 0, 1e-9);
    ck_assert_double_eq_tol(f.stages.wait.seconds, 0.1, 1e-9);
}

// Workers of other nodes are counted by the batches that they had; the first nine are node 0's.
TEST(workers_of_other_nodes_count)
{
    struct sl_batch_entry e[100];
    struct sl_arena_header h = {.spec.nodes = {.n = 3}};
    const struct sl_arena a = {.h = &h};
    struct sl_epoch f = {.samplers = 1, .trainers = 2};
    make_entries(e, 100);
    for (uint32_t i = 9; i < 100; i++) {
        e[i].sampler = sl_nodes_worker(&a, 1 + i % 2, 1);
        e[i].trainer = sl_nodes_worker(&a, 1 + i % 2, 2 + i % 4);
        e[i].standby = i % 4 == 3; // of node 2: it has one trainer, and node 1 has two
    }
    sl_epoch_add_others(&f, &a, e, 100, &room);
    ck_assert_uint_eq(f.samplers, 3);
    ck_assert_uint_eq(f.trainers, 5);
    sl_epoch_add_training(&f, e, updates, 100, (struct sl_span){1000 * MS, 3000 * MS}, &room);
    ck_assert_uint_eq(f.batches, 100);
    ck_assert_double_eq_tol(f.loss, 2.0, 1e-12);
}

TEST(pauses_are_no_time_of_an_epoch)
{
    struct sl_batch_entry e[100];
    struct sl_pauses pauses = {.n = 0};
    struct sl_epoch f = {.samplers = 1, .trainers = 2, .pauses = &pauses};
    make_entries(e, 100);
    // Every batch lies for 25 ms; half a second in which nothing moves, in the middle of it all.
    for (int i = 50; i < 100; i++) {
        e[i].ready_at_ns += 500 * MS;
        e[i].claimed_at_ns += 500 * MS;
    }
    uint64_t begin = e[49].ready_at_ns + 5 * MS; // a batch lies ready all the while
    e[49].claimed_at_ns = begin + 420 * MS;
    sl_pauses_begin(&pauses, begin);
    sl_pauses_end(&pauses, begin + 400 * MS);
    uint64_t lain = 0;
    for (int i = 0; i < 100; i++)
        lain += e[i].claimed_at_ns - e[i].ready_at_ns;
    for (int i = 0; i < 49; i++) // others that lay there when it began
        ck_assert_uint_le(e[i].claimed_at_ns, begin + 20 * MS);
    for (int i = 0; i < 49; i++)
        lain -= e[i].claimed_at_ns > begin ? e[i].claimed_at_ns - begin : 0;
    lain -= 400 * MS;
    sl_epoch_add_training(&f, e, updates, 100, (struct sl_span){1000 * MS, 2500 * MS}, &room);
    ck_assert_double_eq_tol(f.seconds, 1.1, 1e-9);
    ck_assert_double_eq_tol(f.paused_seconds, 0.4, 1e-9);
    ck_assert_double_eq_tol(f.queue.depth_mean, (double)lain * 1e-9 / 1.1, 1e-9);
    sl_pauses_begin(&pauses, 2600 * MS); // the evaluation begins at 2.5 s, and is paused still
    sl_epoch_add_evaluation(&f, e, 10, (struct sl_span){2500 * MS, 3000 * MS}, &room);
    ck_assert_double_eq_tol(f.evaluate_seconds, 0.1, 1e-9);
    ck_assert_double_eq_tol(f.paused_seconds, 0.8, 1e-9);
}

TEST(queue_depth_follows_arrivals_and_claims)
{
    struct sl_batch_entry e[100];
    struct sl_epoch f = {0};
    make_entries(e, 100);
    sl_epoch_add_training(&f, e, updates, 100, (struct sl_span){1000 * MS, 2000 * MS}, &room);
    // 100 batches lie 25 ms each within a second; at most three at once (at 20, 10 and 0 ms).
    ck_assert_double_eq_tol(f.queue.depth_mean, 2.5, 1e-9);
    ck_assert_uint_eq(f.queue.depth_max, 3);
}

// The broker learns of an end late, and the job was paused in between: that time is neither the
// epoch's nor taken from it twice.
TEST(an_end_that_is_seen_after_a_pause)
{
    struct sl_batch_entry e[100];
    struct sl_pauses pauses = {.n = 0};
    struct sl_epoch f = {.pauses = &pauses};
    make_entries(e, 100);
    sl_pauses_begin(&pauses, 2100 * MS);
    sl_pauses_end(&pauses, 2900 * MS);
    sl_epoch_add_training(&f, e, updates, 100, (struct sl_span){1000 * MS, 3000 * MS}, &room);
    ck_assert_double_eq_tol(f.seconds, 1.2, 1e-9);
    f.evaluate_seconds = 0.5;
    sl_epoch_end_earlier(&f, true, (struct sl_span){2000 * MS, 3000 * MS});
    ck_assert_double_eq_tol(f.seconds, 1, 1e-9);
    ck_assert_double_eq_tol(f.queue.depth_mean, 2.5, 1e-9);
    ck_assert_double_eq_tol(f.paused_seconds, 0, 1e-9);
    f.paused_seconds = 0.8;
    sl_epoch_end_earlier(&f, false, (struct sl_span){2000 * MS, 3000 * MS});
    ck_assert_double_eq_tol(f.evaluate_seconds, 0.3, 1e-9);
    sl_epoch_end_earlier(&f, true, (struct sl_span){3000 * MS, 2000 * MS});
    ck_assert_double_eq_tol(f.paused_seconds, 0, 1e-9);
    ck_assert_double_eq_tol(f.seconds, 1, 1e-9);
}

TEST(batches_drawn_before_the_epoch_count_from_its_start)
{
    struct sl_batch_entry e[2] = {{.ready_at_ns = 100 * MS, .claimed_at_ns = 1500 * MS},
                                  {.ready_at_ns = 200 * MS, .claimed_at_ns = 1250 * MS}};
    struct sl_epoch f = {0};
    sl_epoch_add_training(&f, e, updates, 2, (struct sl_span){1000 * MS, 2000 * MS}, &room);
    ck_assert_double_eq_tol(f.queue.depth_mean, 0.75, 1e-9);
    ck_assert_uint_eq(f.queue.depth_max, 2);
}

TEST(an_epoch_of_one_batch_has_figures)
{
    struct sl_batch_entry e = {
        .train_ns = 5 * MS, .loss = 3, .weight = 3, .counted = 3, .correct = 3};
    struct sl_epoch f = {.samplers = 1, .trainers = 1};
    sl_epoch_add_training(&f, &e, updates, 1, (struct sl_span){0, 10 * MS}, &room);
    ck_assert_double_eq_tol(f.stages.train.p50, 0.005, 1e-12);
    ck_assert_double_eq_tol(f.stages.train.p99, 0.005, 1e-12);
    ck_assert_double_eq_tol(f.loss, 1, 1e-12);
    ck_assert_double_eq_tol(f.train_accuracy, 1, 1e-12);
}

TEST(the_time_of_an_update_is_that_of_the_batch_that_it_stands_with)
{
    struct sl_batch_entry e[2] = {{.train_ns = 5 * MS}, {.train_ns = 5 * MS}};
    struct sl_epoch f = {.samplers = 1, .trainers = 1};
    updates[1].took_ns = 2 * MS;
    sl_epoch_add_training(&f, e, updates, 2, (struct sl_span){0, 20 * MS}, &room);
    ck_assert_double_eq_tol(f.stages.train.p50, 0.005, 1e-12);
    ck_assert_double_eq_tol(f.stages.train.p99, 0.007, 1e-12);
    ck_assert_double_eq_tol(f.stages.train.seconds, 0.012, 1e-12);
    ck_assert_double_eq_tol(f.normal_train, 0.012, 1e-12);
    ck_assert_double_eq_tol(f.profile.t_train, 0.007, 1e-12); // the first one warmed up
}

// Updates of four batches on two nodes, whose turns are 0 1 0 1.
static void find_latest(struct sl_epoch *f, const struct sl_batch_entry *e, uint64_t n,
                        uint64_t from_ns)
{
    static struct sl_arena_header h = {
        .spec = {.n_devices = 1, .batches_per_update = 4, .nodes = {.n = 2}}};
    const struct sl_span when = {from_ns, UINT64_MAX};
    sl_epoch_find_latest(f, &(struct sl_arena){.h = &h}, e, n, when);
}

TEST(the_node_that_the_others_waited_for_is_named)
{
    const struct sl_batch_entry e[9] = {
        {.done_at_ns = 10 * MS},  {.done_at_ns = 14 * MS}, // 4 ms after the other's last
        {.done_at_ns = 8 * MS},   {.done_at_ns = 12 * MS},
        {.done_at_ns = 21 * MS},  {.done_at_ns = 20 * MS}, // 1 ms
        {.done_at_ns = 19 * MS},  {.done_at_ns = 18 * MS},
        {.done_at_ns = 500 * MS}, // of one node alone: nobody waited
    };
    struct sl_epoch f = {.samplers = 1, .trainers = 1, .seconds = 0.01};
    find_latest(&f, e, 9, 0);
    ck_assert(f.several_nodes);
    ck_assert_double_eq(f.latest.node, 1);
    ck_assert_double_eq_tol(f.latest.seconds, 0.004, 1e-9);
    sl_epoch_name_bottleneck(&f, &ordered_by_1);
    ck_assert_str_eq(f.bottleneck, "nodes: 40 % of the time all others had done their batches of "
                                   "an update and waited for node 1");
    f.seconds = 0.03; // which is a small part of it
    sl_epoch_name_bottleneck(&f, &ordered_by_1);
    ck_assert_ptr_null(strstr(f.bottleneck, "nodes"));
}

// The other's clock is behind by more than the epoch is long, in as many updates as it has.
TEST(a_node_is_late_by_no_more_than_the_epoch)
{
    struct sl_batch_entry e[12] = {0};
    struct sl_pauses pauses = {.n = 0};
    struct sl_epoch f = {.pauses = &pauses};
    for (uint64_t i = 0; i < SL_COUNT_OF(e); i++) // updates end at 104, 108, 112 ms
        e[i].done_at_ns = (101 + i) * MS - (i % 2 ? 0 : 50 * MS);
    find_latest(&f, e, SL_COUNT_OF(e), 100 * MS);
    ck_assert_double_eq(f.latest.node, 1);
    ck_assert_double_eq_tol(f.latest.seconds, 0.012, 1e-12);
    sl_pauses_begin(&pauses, 105 * MS); // in which nobody was waited for
    sl_pauses_end(&pauses, 107 * MS);
    find_latest(&f, e, SL_COUNT_OF(e), 100 * MS);
    ck_assert_double_eq_tol(f.latest.seconds, 0.010, 1e-12);
}

TEST(what_was_trained_before_a_resume_says_nothing_of_nodes)
{
    struct sl_batch_entry e[4] = {{.done_at_ns = 10}, {.done_at_ns = 99}, {.restored = 1}, {0}};
    struct sl_epoch f = {0};
    find_latest(&f, e, 4, 0);
    ck_assert_double_eq(f.latest.seconds, 0);
}

TEST(the_first_update_is_the_one_that_was_over_first)
{
    const struct sl_update_entry seen[] = {
        {.took_ns = 0}, // no update stands with this batch, or it was restored
        {.from_ns = 30, .took_ns = 9},
        {.from_ns = 20, .took_ns = 15},
        {.from_ns = 40, .took_ns = 1},
    };
    ck_assert_uint_eq(sl_epoch_first_update_ns(seen, 0), 0);
    ck_assert_uint_eq(sl_epoch_first_update_ns(seen, 1), 0);
    ck_assert_uint_eq(sl_epoch_first_update_ns(seen, 2), 39);
    ck_assert_uint_eq(sl_epoch_first_update_ns(seen, 4), 35);
}

TEST(nothing_counted_and_no_time_divide_by_nothing)
{
    struct sl_batch_entry e = {0};
    struct sl_epoch f = {.samplers = 1, .trainers = 1};
    sl_epoch_add_training(&f, &e, updates, 1, (struct sl_span){5, 5}, &room);
    sl_epoch_name_bottleneck(&f, &ordered_by_1);
    ck_assert_double_eq(f.loss, 0);
    ck_assert_double_eq(f.train_accuracy, 0);
    ck_assert_double_eq(f.queue.depth_mean, 0);
    ck_assert_msg(!strstr(f.bottleneck, "nan") && f.bottleneck[0], "%s", f.bottleneck);
}

TEST(an_evaluation_keeps_the_percentiles_of_its_heaviest_phase)
{
    struct sl_batch_entry light[2] = {{.train_ns = MS}, {.train_ns = MS}};
    struct sl_batch_entry heavy[2] = {{.train_ns = 100 * MS}, {.extract_ns = 200 * MS}};
    struct sl_epoch f = {0};
    sl_epoch_add_evaluation(&f, light, 2, (struct sl_span){0, 2 * MS}, &room);
    sl_epoch_add_evaluation(&f, heavy, 2, (struct sl_span){2 * MS, 302 * MS}, &room);
    sl_epoch_add_evaluation(&f, light, 2, (struct sl_span){302 * MS, 304 * MS}, &room);
    ck_assert_double_eq_tol(f.evaluate_seconds, 0.304, 1e-9);
    ck_assert_double_eq_tol(f.stages.evaluate.seconds, 0.304, 1e-9);
    ck_assert_uint_eq(f.stages.evaluate.count, 6);
    ck_assert_double_eq_tol(f.stages.evaluate.p50, 0.1, 1e-9);
    ck_assert_double_eq_tol(f.stages.evaluate.p99, 0.2, 1e-9);
}

// The first `restored` of ten batches were trained before the job was resumed.
static struct sl_epoch take_restored(uint64_t restored)
{
    struct sl_batch_entry e[10];
    struct sl_epoch f = {.samplers = 1, .trainers = 1};
    make_entries(e, 10);
    for (uint64_t i = 0; i < restored; i++)
        e[i] = (struct sl_batch_entry){
            .restored = 1, .n_edges = 100, .n_input = 50, .loss = 20, .weight = 10, .counted = 10};
    sl_epoch_add_training(&f, e, updates, 10, (struct sl_span){1000 * MS, 2000 * MS}, &room);
    return f;
}

TEST(restored_batches_have_losses_and_no_times)
{
    struct sl_epoch f = take_restored(6);
    ck_assert_uint_eq(f.batches, 10);
    ck_assert_double_eq_tol(f.loss, 2.0, 1e-12);
    ck_assert_uint_eq(f.sampled_edges, 600 + 106 + 107 + 108 + 109);
    ck_assert_uint_eq(f.stages.sample.count, 4);
    ck_assert_double_eq_tol(f.stages.sample.p50, 0.002, 1e-9);
    ck_assert_double_eq_tol(f.stages.train.p50, 0.008, 1e-9); // of 7, 8, 9 and 10 ms
    ck_assert_double_eq_tol(f.profile.t_sample, 0.0023, 1e-9);
    ck_assert_double_gt(f.profile.t_train, 0.006);
    ck_assert_uint_eq(f.queue.depth_max, 3); // one comes every 10 ms and stays for 25
}

TEST(batches_that_are_left_are_not_consumed)
{
    struct sl_batch_entry e[100];
    struct sl_epoch f = {.samplers = 1, .trainers = 1, .lent = true};
    make_entries(e, 10);
    for (int i = 0; i < 4; i++)
        e[i].left = 1;
    for (int i = 0; i < 10; i++)
        e[i].weight = e[i].loss = e[i].counted = 0;
    sl_epoch_add_training(&f, e, updates, 10, (struct sl_span){1000 * MS, 2000 * MS}, &room);
    ck_assert_uint_eq(f.batches, 6);
    ck_assert_uint_eq(f.left, 4);
    ck_assert_uint_eq(f.sampled_edges, 600 + 4 + 5 + 6 + 7 + 8 + 9);
    ck_assert_uint_eq(f.stages.train.count, 6);
    ck_assert_double_eq_tol(f.stages.train.p50, 0.007, 1e-9); // of 5 to 10 ms
    ck_assert(isnan(f.loss) && isnan(f.train_accuracy));
}

TEST(an_epoch_that_was_restored_as_a_whole_has_no_times)
{
    struct sl_epoch f = take_restored(10);
    ck_assert_uint_eq(f.batches, 10);
    ck_assert_double_eq_tol(f.loss, 2.0, 1e-12);
    ck_assert_uint_eq(f.stages.sample.count + f.stages.train.count + f.queue.depth_max, 0);
    ck_assert_double_eq(f.stages.sample.p50, 0);
    ck_assert_double_eq(f.queue.depth_mean, 0);
    ck_assert_double_eq(f.profile.t_sample + f.profile.t_train + f.profile.t_standby, 0);
}

// --- the profile ---

// Takes an epoch of n entries that are the same but for what `set` does to them.
static struct sl_epoch take(uint64_t n, uint32_t trainers, bool async,
                            void (*set)(struct sl_batch_entry *, uint64_t))
{
    static struct sl_batch_entry e[1000];
    struct sl_epoch f = {.samplers = 1, .trainers = trainers, .async = async};
    memset(e, 0, n * sizeof *e);
    for (uint64_t i = 0; i < n; i++) {
        e[i].sampler = 1;
        e[i].trainer = 2;
        set(&e[i], i);
    }
    sl_epoch_add_training(&f, e, updates, n, (struct sl_span){0, 1000 * MS}, &room);
    return f;
}

static void slow_at_first(struct sl_batch_entry *e, uint64_t i)
{
    e->sample_ns = (i < SL_EPOCH_WARM_UP ? 100 : 2) * MS;
    e->mark_ns = e->copy_ns = MS / 2;
    e->train_ns = (i < SL_EPOCH_WARM_UP ? 500 : 7) * MS;
    e->extract_ns = 5 * MS;
}

TEST(a_worker_warms_up_once_in_its_life)
{
    // Three of five batches are cold: with them the median would be theirs.
    struct sl_epoch f = take(5, 1, false, slow_at_first);
    ck_assert_double_eq_tol(f.profile.t_sample, 0.003, 1e-9);
    ck_assert_double_eq_tol(f.profile.t_train, 0.007, 1e-9);
    ck_assert_double_eq(f.profile.t_standby, 0);
    f = take(5, 1, false, slow_at_first); // the same workers: slow for another reason
    ck_assert_double_eq_tol(f.profile.t_sample, 0.101, 1e-9);
    ck_assert_double_eq_tol(f.profile.t_train, 0.5, 1e-9);
}

TEST(cold_batches_tell_when_there_are_no_others)
{
    struct sl_epoch f = take(2, 1, false, slow_at_first);
    ck_assert_double_eq_tol(f.profile.t_sample, 0.101, 1e-9);
    ck_assert_double_eq_tol(f.profile.t_train, 0.5, 1e-9);
}

static void extraction_bound(struct sl_batch_entry *e, uint64_t i)
{
    e->extract_ns = (i % 2 ? 9 : 30) * MS;
    e->train_ns = (i % 2 ? 20 : 10) * MS;
}

TEST(a_batch_takes_as_long_as_the_longer_of_extraction_and_training)
{
    struct sl_epoch f = take(13, 1, false, extraction_bound); // ten warm ones
    ck_assert_double_eq_tol(f.profile.t_train, 0.020, 1e-9);
}

// Every fourth batch is trained by one of two standby trainers.
static void helped(struct sl_batch_entry *e, uint64_t i)
{
    e->standby = i % 4 == 0;
    e->trainer = e->standby ? 3 + (uint32_t)(i / 4 % 2) : 2;
    e->train_ns = (e->standby ? 30 : 10) * MS;
    e->train_wait_ns = (e->standby ? 4 : 1) * MS;
    e->extract_ns = 2 * MS;
}

TEST(standby_trainers_are_told_apart)
{
    struct sl_epoch f = take(100, 5, false, helped);
    ck_assert_uint_eq(f.switching.batches, 25);
    ck_assert_double_eq_tol(f.profile.t_train, 0.010, 1e-9);
    ck_assert_double_eq_tol(f.profile.t_standby, 0.030, 1e-9);
    ck_assert_double_eq_tol(f.switching.seconds_saved, 25 * 0.010 / 5, 1e-9);
    ck_assert_double_eq_tol(f.normal_train, 0.75, 1e-9);
    ck_assert_double_eq_tol(f.normal_wait, 0.075, 1e-9);
    ck_assert_double_eq_tol(f.normal_extract, 0.15, 1e-9);
    ck_assert_double_eq_tol(f.stages.train.seconds, 1.5, 1e-9);
}

static void all_by_standby(struct sl_batch_entry *e, uint64_t i)
{
    e->standby = 1;
    e->train_ns = 30 * MS;
}

TEST(without_normal_trainers_nothing_is_known_to_be_saved)
{
    struct sl_epoch f = take(10, 0, false, all_by_standby);
    ck_assert_double_eq(f.profile.t_train, 0);
    ck_assert_double_eq_tol(f.profile.t_standby, 0.030, 1e-9);
    ck_assert(isnan(f.switching.seconds_saved));
    f = take(10, 2, false, all_by_standby); // trainers that came to nothing: T_t' has to do
    ck_assert_double_eq_tol(f.switching.seconds_saved, 0.15, 1e-9);
    f = take(10, 0, false, slow_at_first);
    ck_assert_double_eq(f.switching.seconds_saved, 0);
}

TEST(a_full_epoch_of_either_kind_fits_the_scratch)
{
    struct sl_epoch f = take(1000, 1, false, all_by_standby);
    ck_assert_double_eq_tol(f.profile.t_standby, 0.030, 1e-9);
    f = take(1000, 1, false, slow_at_first);
    ck_assert_double_eq_tol(f.profile.t_train, 0.007, 1e-9);
}

static void stale(struct sl_batch_entry *e, uint64_t i)
{
    (void)e;
    updates[i].base_version = i;
    updates[i].applied_version = i + i % 5;
}

TEST(staleness_is_of_async_updates)
{
    struct sl_epoch f = take(100, 2, true, stale);
    ck_assert_double_eq_tol(f.updates.staleness_mean, 2, 1e-12);
    ck_assert_uint_eq(f.updates.staleness_max, 4);
    f = take(100, 2, false, stale);
    ck_assert_double_eq(f.updates.staleness_mean, 0);
    ck_assert_uint_eq(f.updates.staleness_max, 0);
}

// --- the bottleneck ---

static struct sl_epoch one_second(void)
{
    return (struct sl_epoch){.seconds = 1, .samplers = 1, .trainers = 1, .batches = 10};
}

static void expect_rule(struct sl_epoch *f, const struct sl_update_rule *rule, const char *who,
                        const char *evidence)
{
    sl_epoch_name_bottleneck(f, rule);
    ck_assert_msg(strncmp(f->bottleneck, who, strlen(who)) == 0 && strstr(f->bottleneck, evidence),
                  "wanted %s with %s, found: %s", who, evidence, f->bottleneck);
}

static void expect(struct sl_epoch *f, uint32_t batches_per_update, const char *who,
                   const char *evidence)
{
    expect_rule(f, &(struct sl_update_rule){.batches_per_update = batches_per_update}, who,
                evidence);
}

TEST(trainers_that_starve_accuse_the_samplers)
{
    struct sl_epoch f = one_second();
    f.normal_wait = 0.62;
    f.stages.sample.seconds = 0.98;
    f.normal_train = 0.35;
    f.queue.depth_mean = 0.1;
    expect(&f, 4, "samplers:", "trainers waited 62 % of the time");
}

TEST(external_trainers_are_accused_of_their_own_code)
{
    struct sl_epoch f = one_second();
    f.lent = true;
    f.normal_train = 0.81;
    f.normal_extract = 0.2;
    expect(&f, 1, "trainers:", "own code took 81 % of the time, extraction 20 %");
    f.normal_train = 0.1;
    expect(&f, 1, "trainers:", "asked for no batch most of the time");
    f.trainers = 2; // who waits for the other's turn waits for no gradient
    f.normal_wait = 1.2;
    f.queue.depth_mean = 3;
    expect(&f, 1, "samplers:", "trainers waited 60 % of the time");
}

TEST(a_drive_that_is_always_read_is_accused_first)
{
    struct sl_epoch f = one_second();
    f.normal_wait = 0.62;
    f.normal_train = 0.35;
    f.store.seconds = 0.9;
    f.store.cached = 30;
    f.input_nodes = 120;
    expect(&f, 4, "drive:", "read 90 % of the time; 25 % of the rows came from the cache");
    f.trainers = 2; // each of which could have fetched
    expect(&f, 4, "samplers:", "trainers waited 31 %");
    f.trainers = 1;
    f.normal_train = 0.95;
    f.normal_wait = 0;
    expect(&f, 4, "trainers:", "forward and backward took 95 %");
}

TEST(rows_of_other_nodes_are_no_drives)
{
    struct sl_epoch f = one_second();
    f.normal_train = 0.35;
    f.store.seconds = 0.9;
    f.store.read = 40;
    f.store.beside = 19;
    f.store.remote_rows = 30;
    f.input_nodes = 120;
    expect(&f, 4, "network:", "asked for 90 % of the time; 25 % of the rows came from other nodes");
    f.store.remote_rows = 29;
    expect(&f, 4, "drive:", "read 90 % of the time");
}

TEST(rows_of_other_nodes_are_counted_whenever_they_came)
{
    struct sl_batch_entry entries[2] = {
        {.n_input = 50,
         .remote_rows = 7,
         .remote_bytes = 72,
         .remote_beside = 2,
         .remote_beside_bytes = 18,
         .counted = 1},
        {.n_input = 20, .remote_rows = 1, .remote_bytes = 10, .counted = 1},
    };
    const struct sl_update_entry made[2] = {{.took_ns = 1}, {.took_ns = 1}};
    struct sl_epoch f = {.trainers = 1};
    sl_epoch_add_training(&f, entries, made, 2, (struct sl_span){0, 1000000000}, &room);
    ck_assert_double_eq(f.store.remote_rows, 10);
    ck_assert_double_eq(f.store.remote_bytes, 100);
}

TEST(samplers_without_memory_accuse_the_trainers)
{
    struct sl_epoch f = one_second();
    f.stages.backpressure.seconds = 0.4;
    f.normal_train = 0.97;
    f.normal_extract = 0.2;
    f.queue.depth_mean = 12;
    expect(&f, 4, "trainers:", "samplers waited for memory 40 %");
}

TEST(extraction_is_named_when_it_dominates)
{
    struct sl_epoch f = one_second();
    f.normal_train = 0.3;
    f.normal_extract = 0.9;
    expect(&f, 4, "trainers:", "extraction took 90 %");
}

TEST(trainers_that_wait_before_a_full_queue_wait_for_updates)
{
    struct sl_epoch f = one_second();
    f.trainers = 2;
    f.normal_wait = 0.9; // of two trainers: 45 %
    f.normal_train = 1.0;
    f.queue.depth_mean = 6;
    expect(&f, 1, "updates:", "45 %");
    expect(&f, 1, "updates:", "gradients (2 trainers, updates of 1 batch)");
    f.samplers = 3; // whose devices' standby trainers are no trainers of the split
    f.switching.batches = 2;
    expect(&f, 1, "updates:", "gradients (2 trainers and 3 standby, updates of 1 batch)");
}

TEST(a_long_evaluation_is_named)
{
    struct sl_epoch f = one_second();
    f.normal_train = 0.9;
    f.evaluate_seconds = 3;
    expect(&f, 1, "evaluation:", "75 %");
}

TEST(marking_and_copying_count_as_sampling)
{
    struct sl_epoch f = one_second();
    f.normal_wait = 0.62;
    f.stages.sample.seconds = 0.5;
    f.stages.mark.seconds = 0.2;
    f.stages.copy.seconds = 0.1;
    expect(&f, 4, "samplers:", "samplers drew 80 %");
}

TEST(standby_trainers_time_is_not_the_normal_ones)
{
    struct sl_epoch f = one_second();
    f.samplers = 4;
    f.normal_train = 0.9;
    f.stages.train.seconds = 3.5;
    f.stages.wait.seconds = 2; // of standby trainers, in four devices' spare time
    f.switching.batches = 7;
    expect(&f, 1, "trainers:", "forward and backward took 90 %");
    expect(&f, 1, "trainers:", "standby trainers trained 70 % of the batches");
}

TEST(extraction_tells_what_the_cache_did)
{
    struct sl_epoch f = one_second();
    f.normal_train = 0.3;
    f.normal_extract = 0.9;
    f.cache.hits = 41;
    f.cache.misses = 59;
    expect(&f, 4, "trainers:", "41 % of the rows came from a cache");
}

TEST(a_single_device_takes_turns)
{
    struct sl_epoch f = one_second();
    f.trainers = 0;
    f.switching.batches = 10;
    f.stages.sample.seconds = 0.3;
    f.stages.train.seconds = 0.65;
    expect(&f, 1, "trainers:", "65 % of the devices' time, in turn with sampling, 30 %");
    f.stages.sample.seconds = 0.7;
    f.stages.train.seconds = 0.2;
    expect(&f, 1, "samplers:", "70 % of the devices' time");
    f.stages.extract.seconds = 0.71;
    expect(&f, 1, "trainers:", "extraction took 71 % of the devices' time");
}

TEST(async_trainers_that_wait_wait_for_the_bound)
{
    const struct sl_update_rule rule = {.async = true, .batches_per_update = 1, .staleness = 2};
    struct sl_epoch f = one_second();
    f.trainers = 4;
    f.normal_wait = 2;
    f.queue.depth_mean = 3;
    f.updates.staleness_mean = 1.9;
    expect_rule(&f, &rule, "updates:", "bound on staleness (2, gradients were 1.9");
    f.queue.depth_mean = 0.2; // nothing to train: it is not the bound
    expect_rule(&f, &rule, "samplers:", "50 %");
}

// Several batches of an update for each trainer, but nobody takes another one's.
TEST(trainers_with_batches_of_their_own_wait_for_one_another)
{
    struct sl_update_rule rule = {.batches_per_update = 16, .in_turn = true};
    struct sl_epoch f = one_second();
    f.trainers = 4;
    f.normal_wait = 2;
    f.queue.depth_mean = 3;
    expect_rule(&f, &rule, "updates:", "one another's gradients (4 trainers, updates of 16");
    rule.in_turn = false;
    expect_rule(&f, &rule, "samplers:", "50 %");
}

TEST(the_longest_sentence_fits)
{
    struct sl_epoch f = one_second();
    f.normal_train = 0.99;
    f.normal_extract = 1;
    f.cache.hits = 1;
    f.batches = f.switching.batches = 1000000000;
    f.queue.depth_mean = 1e9;
    f.cache.misses = 1;
    expect(&f, 1, "trainers:", "standby trainers trained 100 % of the batches");
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 10)
