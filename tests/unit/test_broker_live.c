// What live statistics are computed with: the JSON writer, the bottleneck and the advice.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <math.h>

#include "broker/epochs/epoch.h"
#include "broker/log/json_writer.h"
#include "broker/telemetry/live_bottleneck.h"

// --- the writer ----------------------------------------------------------------------------------

TEST(members_are_separated_by_commas)
{
    struct sl_json_writer w = {0};
    sl_json_open_object(&w, NULL);
    sl_json_add_whole(&w, "a", 18446744073709551615u);
    sl_json_open_array(&w, "b");
    sl_json_add_real(&w, NULL, 0.5);
    sl_json_open_object(&w, NULL);
    sl_json_close_object(&w);
    sl_json_add_bool(&w, NULL, true);
    sl_json_close_array(&w);
    sl_json_add_time(&w, "c", 1732180000.1204);
    sl_json_add_raw(&w, "d", "[1]");
    sl_json_close_object(&w);
    ck_assert_str_eq(
        sl_json_text(&w),
        "{\"a\":18446744073709551615,\"b\":[0.5,{},true],\"c\":1732180000.120,\"d\":[1]}");
    sl_json_fini(&w);
}

TEST(what_is_not_known_is_null)
{
    struct sl_json_writer w = {0};
    sl_json_open_object(&w, NULL);
    sl_json_add_real(&w, "a", NAN);
    sl_json_add_real(&w, "b", INFINITY);
    sl_json_add_string(&w, "c", NULL);
    sl_json_add_raw(&w, "d", NULL);
    sl_json_close_object(&w);
    ck_assert_str_eq(sl_json_text(&w), "{\"a\":null,\"b\":null,\"c\":null,\"d\":null}");
    sl_json_fini(&w);
}

TEST(text_that_is_not_utf8_still_makes_valid_json)
{
    struct sl_json_writer w = {0};
    sl_json_add_string(&w, NULL, "\xc3\xa9\xf0\x9f\x90\x8c half \xe2\x82");
    ck_assert_str_eq(sl_json_text(&w), "\"\xc3\xa9\xf0\x9f\x90\x8c half ??\"");
    sl_json_fini(&w);
}

TEST(strings_are_escaped)
{
    struct sl_json_writer w = {0};
    sl_json_add_string(&w, NULL, "say \"no\"\\\n\x01 \xc3\xa9");
    ck_assert_str_eq(sl_json_text(&w), "\"say \\\"no\\\"\\\\\\n\\u0001 \xc3\xa9\"");
    sl_json_fini(&w);
}

TEST(a_long_line_grows_and_its_memory_stays)
{
    struct sl_json_writer w = {0};
    sl_json_open_array(&w, NULL);
    for (int i = 0; i < 20000; i++)
        sl_json_add_whole(&w, NULL, (uint64_t)i);
    sl_json_close_array(&w);
    ck_assert_uint_eq(strlen(sl_json_text(&w)), w.text.n);
    ck_assert_uint_gt(w.text.n, 100000);
    const char *text = w.text.s;
    sl_json_reset(&w);
    ck_assert_str_eq(sl_json_text(&w), "");
    sl_json_add_whole(&w, NULL, 7);
    ck_assert_str_eq(sl_json_text(&w), "7");
    ck_assert_ptr_eq(w.text.s, text);
    sl_json_fini(&w);
}

// --- the advice ----------------------------------------------------------------------------------

// 100 batches on four devices, without switching: sampling takes as long as training.
static struct sl_allocation_question question(double t_sample, double t_train, uint32_t samplers)
{
    return (struct sl_allocation_question){
        .profile = {.t_sample = t_sample, .t_train = t_train},
        .n_devices = 4,
        .batches = 100,
        .at_once = 4,
        .now = {samplers, 4 - samplers},
    };
}

TEST(a_better_split_is_found)
{
    struct sl_live_advice a;
    struct sl_allocation_question q = question(0.03, 0.03, 1);
    sl_live_advise(&q, &a);
    ck_assert(a.has);
    ck_assert_uint_eq(a.to.samplers, 2);
    ck_assert_uint_eq(a.to.trainers, 2);
    ck_assert_double_eq_tol(a.seconds_now, 3.0, 1e-9);
    ck_assert_double_eq_tol(a.seconds_then, 1.5, 1e-9);
}

TEST(the_best_split_needs_no_advice)
{
    struct sl_live_advice a;
    struct sl_allocation_question q = question(0.03, 0.03, 2);
    sl_live_advise(&q, &a);
    ck_assert(!a.has);
    ck_assert_uint_eq(a.to.samplers, 2);
    ck_assert_double_eq(a.seconds_now, a.seconds_then);
}

TEST(of_splits_that_are_as_good_the_nearest_is_taken)
{
    // One batch an update: a second trainer is of no use, so 2, 3 samplers are as good as one
    // another for training; sampling wants two.
    struct sl_live_advice a;
    struct sl_allocation_question q = question(0.02, 0.01, 1);
    q.at_once = 1;
    sl_live_advise(&q, &a);
    ck_assert(a.has);
    ck_assert_uint_eq(a.to.samplers, 2);
}

TEST(a_gain_of_five_percent_is_none)
{
    struct sl_live_advice a;
    // 1 and 3: max(S, T/3). 2 and 2: max(S/2, T/2) = T/2.
    struct sl_allocation_question q = question(0.0104, 0.02, 1);
    sl_live_advise(&q, &a);
    ck_assert_msg(!a.has, "%.3g s to %.3g s", a.seconds_now, a.seconds_then);
    q.profile.t_sample = 0.011;
    sl_live_advise(&q, &a);
    ck_assert_msg(a.has, "%.3g s to %.3g s", a.seconds_now, a.seconds_then);
}

TEST(without_times_there_is_no_advice)
{
    struct sl_live_advice a;
    struct sl_allocation_question q = question(0, 0.02, 1);
    sl_live_advise(&q, &a);
    ck_assert(!a.has);
    q = question(0.02, 0, 1);
    sl_live_advise(&q, &a);
    ck_assert(!a.has);
    q = question(0.02, 0.02, 1);
    q.n_devices = 1;
    q.now = (struct sl_roles){1, 0};
    sl_live_advise(&q, &a);
    ck_assert(!a.has);
}

// --- the bottleneck ------------------------------------------------------------------------------

static char text[SL_LIVE_SENTENCE_BYTES];

static const struct sl_live_advice second_sampler = {
    .has = true, .to = {2, 2}, .seconds_now = 3.1, .seconds_then = 2.3};

static void expect(const struct sl_live_shares *s, const struct sl_live_advice *advice,
                   enum sl_live_role role, const char *want)
{
    ck_assert_str_eq(sl_bottleneck_words[sl_live_name_bottleneck(s, advice, text)],
                     sl_bottleneck_words[role]);
    ck_assert_str_eq(text, want);
}

static const struct sl_live_shares starved = {.split = {1, 3},
                                              .sampling = 0.98,
                                              .training = 0.35,
                                              .extracting = 0.1,
                                              .waiting = 0.62,
                                              .queue = 0.1,
                                              .batches_per_update = 4};

TEST(external_trainers_are_named_by_their_own_code)
{
    const struct sl_live_shares own = {.split = {1, 2},
                                       .sampling = 0.2,
                                       .training = 0.9,
                                       .extracting = 0.05,
                                       .queue = 3,
                                       .batches_per_update = 1,
                                       .lent = true};
    struct sl_live_shares turns = own;
    expect(&own, NULL, SL_LIVE_TRAINERS,
           "the external trainers' own code takes 90 % of the time, gathering features 5 %, "
           "samplers draw 20 %, 3.0 batches lie ready");
    turns.training = 0.1;
    turns.waiting = 0.8;
    expect(&turns, NULL, SL_LIVE_SAMPLERS, "trainers wait for samplers 80 % of the time");
}

TEST(trainers_that_wait_before_an_empty_queue_wait_for_samplers)
{
    expect(&starved, NULL, SL_LIVE_SAMPLERS, "trainers wait for samplers 62 % of the time");
    expect(&starved, &second_sampler, SL_LIVE_SAMPLERS,
           "trainers wait for samplers 62 % of the time: a second sampler in place of the third "
           "trainer would shorten the epoch by about 0.8 s");
}

TEST(a_drive_that_is_always_read_is_the_bottleneck)
{
    struct sl_live_shares s = starved;
    s.fetching = 0.97;
    expect(&s, &second_sampler, SL_LIVE_DRIVE, "the drive is read for features 97 % of the time");
    s.training = 0.98; // which is hidden behind that
    s.waiting = 0;
    expect(&s, NULL, SL_LIVE_TRAINERS,
           "trainers compute 98 % of the time, samplers draw 98 %, 0.1 batches lie ready");
}

TEST(a_change_of_more_than_one_is_told_as_a_split)
{
    const struct sl_live_advice third = {
        .has = true, .to = {3, 1}, .seconds_now = 2, .seconds_then = 1};
    expect(&starved, &third, SL_LIVE_SAMPLERS,
           "trainers wait for samplers 62 % of the time: 3 samplers and 1 trainer would shorten "
           "the epoch by about 1 s");
}

TEST(a_vacant_device_takes_nobodys_place)
{
    struct sl_live_shares s = starved;
    s.split = (struct sl_roles){1, 2};
    const struct sl_live_advice second = {
        .has = true, .to = {2, 2}, .seconds_now = 2, .seconds_then = 1.5};
    expect(&s, &second, SL_LIVE_SAMPLERS,
           "trainers wait for samplers 62 % of the time: a second sampler would shorten the epoch "
           "by about 0.5 s");
}

TEST(numbers_from_ten_on_are_figures)
{
    struct sl_live_shares s = starved;
    s.split = (struct sl_roles){10, 22};
    const struct sl_live_advice more = {
        .has = true, .to = {11, 21}, .seconds_now = 2, .seconds_then = 1.5};
    expect(&s, &more, SL_LIVE_SAMPLERS,
           "trainers wait for samplers 62 % of the time: an 11th sampler in place of the 22nd "
           "trainer would shorten the epoch by about 0.5 s");
}

TEST(trainers_that_wait_while_batches_lie_ready_wait_for_one_another)
{
    struct sl_live_shares s = starved;
    s.queue = 5;
    expect(&s, NULL, SL_LIVE_UPDATES,
           "trainers wait for one another's gradients 62 % of the time while 5.0 batches lie "
           "ready (updates of 4 batches)");
    s.async = true;
    s.staleness = 1;
    expect(&s, NULL, SL_LIVE_UPDATES,
           "trainers wait for the bound on staleness (1) 62 % of the time while 5.0 batches lie "
           "ready");
}

// As in the report of an epoch: below a fifth of the time it is no matter.
TEST(a_short_wait_is_the_trainers_own)
{
    struct sl_live_shares s = starved;
    s.waiting = 0.19;
    s.training = 0.6;
    expect(&s, NULL, SL_LIVE_TRAINERS,
           "trainers compute 60 % of the time, samplers draw 98 %, 0.1 batches lie ready");
    s.waiting = 0.2;
    expect(&s, NULL, SL_LIVE_SAMPLERS, "trainers wait for samplers 20 % of the time");
}

TEST(large_updates_are_not_what_is_waited_for)
{
    struct sl_live_shares s = starved;
    s.queue = 5;
    s.batches_per_update = 8;
    s.standby = 1;
    expect(&s, NULL, SL_LIVE_SAMPLERS, "trainers wait for samplers 62 % of the time");
    s.in_turn = true; // unless each trainer has batches of its own
    expect(&s, NULL, SL_LIVE_UPDATES,
           "trainers wait for one another's gradients 62 % of the time while 5.0 batches lie ready "
           "(updates of 8 batches)");
}

TEST(busy_trainers_are_named_with_what_they_do)
{
    struct sl_live_shares s = {
        .split = {2, 2}, .sampling = 0.4, .training = 0.93, .extracting = 0.3, .queue = 7.25};
    const struct sl_live_advice third = {
        .has = true, .to = {1, 3}, .seconds_now = 3, .seconds_then = 2};
    expect(&s, &third, SL_LIVE_TRAINERS,
           "trainers compute 93 % of the time, samplers draw 40 %, 7.2 batches lie ready: a third "
           "trainer in place of the second sampler would shorten the epoch by about 1 s");
    s.extracting = 0.97;
    expect(&s, NULL, SL_LIVE_TRAINERS,
           "trainers gather features 97 % of the time, samplers draw 40 %, 7.2 batches lie ready");
}

TEST(samplers_that_wait_for_memory_are_told)
{
    struct sl_live_shares s = {.split = {1, 1}, .sampling = 0.3, .blocked = 0.6, .training = 0.95};
    expect(&s, NULL, SL_LIVE_TRAINERS,
           "trainers compute 95 % of the time, samplers wait 60 % for memory that batches hold");
    s.waiting = 0.5;
    s.training = 0.5;
    expect(&s, NULL, SL_LIVE_MEMORY,
           "samplers wait 60 % of the time for memory while trainers wait 50 %: a larger "
           "\"arena\" would help");
}

TEST(advice_against_the_evidence_is_not_given)
{
    struct sl_live_shares s = {.split = {1, 3}, .training = 0.95, .sampling = 0.5};
    expect(&s, &second_sampler, SL_LIVE_TRAINERS,
           "trainers compute 95 % of the time, samplers draw 50 %, 0.0 batches lie ready");
}

TEST(evaluation_and_nothing_at_all_are_nobodys_fault)
{
    struct sl_live_shares s = {.split = {1, 1}, .evaluating = 0.8, .training = 0.1};
    expect(&s, NULL, SL_LIVE_NOBODY, "evaluation takes 80 % of the trainers' time");
    const struct sl_live_shares none = {.split = {1, 1}};
    expect(&none, &second_sampler, SL_LIVE_NOBODY, "nothing has been measured yet");
}

TEST(trainers_do_not_wait_before_there_is_training)
{
    struct sl_live_shares s = starved;
    s.preparing = true;
    expect(&s, &second_sampler, SL_LIVE_NOBODY,
           "vertices are ranked before the first epoch: samplers draw 98 % of the time");
}

TEST(a_line_and_an_epochs_report_accuse_the_same)
{
    const double waits[] = {0.05, 0.19, 0.2, 0.62}, queues[] = {0, 0.9, 1, 6};
    const uint32_t updates[] = {1, 3, 4, 16};
    for (int i = 0; i < 4 * 4 * 4; i++) {
        double waiting = waits[i % 4], queue = queues[i / 4 % 4];
        uint32_t batches = updates[i / 16];
        const struct sl_live_shares shares = {.split = {1, 2},
                                              .sampling = 0.5,
                                              .training = 1 - waiting,
                                              .waiting = waiting,
                                              .queue = queue,
                                              .batches_per_update = batches};
        // The same second: two trainers' time.
        struct sl_epoch f = {.seconds = 1,
                             .samplers = 1,
                             .trainers = 2,
                             .batches = 10,
                             .stages.sample.seconds = 0.5,
                             .normal_train = 2 * (1 - waiting),
                             .normal_wait = 2 * waiting,
                             .queue.depth_mean = queue};
        sl_epoch_name_bottleneck(&f, &(struct sl_update_rule){.batches_per_update = batches});
        const char *role = sl_bottleneck_words[sl_live_name_bottleneck(&shares, NULL, text)];
        ck_assert_msg(strncmp(f.bottleneck, role, strlen(role)) == 0, "'%s' (%s), but '%s'", text,
                      role, f.bottleneck);
    }
}

RUN_TESTS()
