// What `sluice run` shows of epochs and of the whole run.
#include "cli/run_view.h"
#include "broker/rundir/report.h"
#include "common/base/clock.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

// --- an epoch's line -----------------------------------------------------------------------------

static char *shown;
static struct sl_config config;

static void show_epoch(const char *json)
{
    struct sl_run_view view;
    size_t n;
    config.epochs = 20;
    sl_run_view_init(&view, false, &config, SL_MEASURE_ACCURACY);
    free(shown);
    view.progress.out = open_memstream(&shown, &n);
    view.progress.style = SL_PROGRESS_PLAIN;
    Sl__Control__EpochDone done = SL__CONTROL__EPOCH_DONE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    done.json = (char *)json;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE;
    e.epoch_done = &done;
    sl_run_view_message(&view, &e);
    fclose(view.progress.out);
}

#define EPOCH                                                                                      \
    "\"epoch\": 6, \"loss\": 0.5, \"train_accuracy\": 0.75, \"seconds\": 1.5, "                    \
    "\"bottleneck\": \"samplers: they are slow\""

TEST(an_epoch_is_one_short_line)
{
    show_epoch("{" EPOCH "}");
    ck_assert_str_eq(shown,
                     "epoch  7/20  loss 0.5000  train 0.7500  1.5 s  bottleneck: samplers\n");
}

TEST(hits_and_standby_batches_are_shown_where_there_are_any)
{
    show_epoch("{" EPOCH ", \"cache\": {\"ranked\": true, \"hit_rate\": 0.9123}, "
               "\"switching\": {\"batches\": 12}}");
    assert_has(shown, "1.5 s  hits 91.2 %  standby 12  bottleneck: samplers\n");
    show_epoch("{" EPOCH ", \"cache\": {\"ranked\": false, \"hit_rate\": 0}, "
               "\"switching\": {\"batches\": 0}}");
    assert_has(shown, "1.5 s  bottleneck: samplers\n");
}

TEST(a_test_of_the_epoch_stands_beside_its_validation)
{
    show_epoch("{" EPOCH ", \"val\": {\"accuracy\": 0.5}, \"evaluate_seconds\": 0.25}");
    assert_has(shown, "train 0.7500  val 0.5000  1.5 s + 250 ms evaluation  bottleneck");
    show_epoch("{" EPOCH ", \"val\": {\"accuracy\": 0.5}, \"test\": {\"accuracy\": 0.625}, "
               "\"evaluate_seconds\": 0.25}");
    assert_has(shown,
               "train 0.7500  val 0.5000  test 0.6250  1.5 s + 250 ms evaluation  bottleneck");
}

TEST(an_evaluation_beside_the_next_epoch_says_so)
{
    show_epoch("{" EPOCH ", \"val\": {\"accuracy\": 0.5}, \"evaluate_seconds\": 0.25, "
               "\"overlapped_seconds\": 2.5}");
    assert_has(shown, "1.5 s + 250 ms evaluation  bottleneck");
    show_epoch("{" EPOCH ", \"val\": {\"accuracy\": 0.5}, \"evaluate_seconds\": 0, "
               "\"overlapped_seconds\": 2.5}");
    assert_has(shown, "1.5 s, evaluated beside  bottleneck");
    ck_assert_uint_lt(strlen(shown), 100);
}

TEST(pre_sampling_and_ranking_are_stages)
{
    struct sl_run_view view;
    size_t n;
    Sl__Control__Progress m = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
    e.progress = &m;
    config.epochs = 3;
    sl_run_view_init(&view, false, &config, SL_MEASURE_ACCURACY);
    free(shown);
    view.progress.out = open_memstream(&shown, &n);
    view.progress.style = SL_PROGRESS_PLAIN;
    view.progress.interval_ns = 0; // as a terminal's
    m.phase = "presample";
    m.total = 12;
    m.done = 6;
    sl_run_view_message(&view, &e);
    ck_assert_str_eq(view.stage, "pre-sampling");
    fflush(view.progress.out);
    assert_has(shown, "pre-sampling:  50 %, 6 of 12 batches");
    m.phase = "rank";
    m.total = m.done = 0;
    sl_run_view_message(&view, &e);
    ck_assert_str_eq(view.stage, "ordering vertices");
    fclose(view.progress.out);
    free(shown);
    shown = NULL;
}

TEST(a_file_has_a_line_an_epoch)
{
    struct sl_run_view view;
    size_t n;
    Sl__Control__Progress m = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    Sl__Control__EpochDone done = SL__CONTROL__EPOCH_DONE__INIT;
    ck_assert_ptr_nonnull(freopen(in_dir("file"), "w", stderr));
    config.epochs = 20;
    sl_run_view_init(&view, false, &config, SL_MEASURE_ACCURACY);
    ck_assert_int_eq(view.progress.style, SL_PROGRESS_PLAIN);
    free(shown);
    view.progress.out = open_memstream(&shown, &n);
    m.phase = "train";
    m.epoch = 6;
    m.epochs = 20;
    m.total = 100;
    for (m.done = 0; m.done <= m.total; m.done += 10) {
        e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
        e.progress = &m;
        sl_run_view_message(&view, &e);
        sl_clock_advance(UINT64_C(3600000000000));
    }
    done.json = "{" EPOCH "}";
    e.body_case = SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE;
    e.epoch_done = &done;
    sl_run_view_message(&view, &e);
    sl_run_view_end(&view);
    fclose(view.progress.out);
    ck_assert_str_eq(shown,
                     "epoch  7/20  loss 0.5000  train 0.7500  1.5 s  bottleneck: samplers\n");
}

// --- the summary ---------------------------------------------------------------------------------

static struct sl_report r;
static struct sl_report_outcome outcome;

static void begin(void)
{
    snprintf(config.name, sizeof config.name, "job");
    config.n_devices = 2;
    config.epochs = 2;
    outcome = (struct sl_report_outcome){.totals = {.status = "done", .batches.trained = 20},
                                         .config_json = "{}"};
    must(sl_report_init(&r));
}

// Workers of an epoch: two samplers and a trainer, of 3 s.
static const double worker_seconds[SL_ROLE_COUNT] = {6, 3};

static void add_epoch(const struct sl_epoch *f)
{
    free(sl_report_add_epoch(&r, f, worker_seconds));
}

static const char *summary(void)
{
    static char text[1 << 16];
    char *json = sl_report_finish(&r, &config, &outcome);
    capture_begin();
    Sl__Control__Finished finished = SL__CONTROL__FINISHED__INIT;
    finished.report_json = json;
    ck_assert_int_eq(sl_run_view_result(&finished, "a", SL_RUN_VIEW_SUMMARY, ""), 0);
    free(json);
    char *all = capture_end();
    snprintf(text, sizeof text, "%s", all);
    free(all);
    return text;
}

TEST(a_job_that_was_stopped_shows_what_it_had_reached)
{
    struct sl_epoch f = {.batches = 10, .loss = 0.5, .evaluated = true};
    const struct sl_early_stopping best = {.has = true, .epoch = 1, .value = 0.75};
    const struct sl_measure_choice judged = {.measure = SL_MEASURE_ACCURACY, .share = NAN};
    begin();
    outcome.totals.status = "stopped";
    outcome.best = &best;
    outcome.judged = &judged;
    f.on_val.applies[SL_MEASURE_ACCURACY] = true;
    for (uint32_t i = 0; i < 3; i++) {
        f.epoch = i;
        f.on_val.value[SL_MEASURE_ACCURACY] = i == 1 ? 0.75 : 0.25;
        add_epoch(&f);
    }
    char *json = sl_report_finish(&r, &config, &outcome);
    Sl__Control__Finished finished = SL__CONTROL__FINISHED__INIT;
    finished.report_json = json;
    finished.exit_status = SL_EXIT_INTERRUPTED;
    finished.message = "stopped by the user";
    finished.run_directory = "runs/x";
    capture_begin();
    ck_assert_int_eq(sl_run_view_result(&finished, "a", SL_RUN_VIEW_SUMMARY, ""), SL_EABORTED);
    assert_message_has("job 'a': stopped by the user: its results so far are in runs/x");
    ck_assert_int_eq(sl_run_view_result(&finished, "a", SL_RUN_VIEW_NOTHING, ""), SL_EABORTED);
    finished.run_directory = "";
    sl_run_view_result(&finished, "a", SL_RUN_VIEW_NOTHING, " and left nothing");
    assert_message_has("job 'a': stopped by the user and left nothing");
    char *text = capture_end();
    ck_assert_str_eq(text, "loss        0.5000 after epoch 3, the last that was completed\n"
                           "validation  accuracy 0.7500 (epoch 2, the best by accuracy)\n");
    free(text);
    free(json);
}

TEST(a_plain_job_says_what_it_read)
{
    begin();
    add_epoch(&(struct sl_epoch){.batches = 10, .cache.miss_bytes = 3 << 20});
    add_epoch(&(struct sl_epoch){.epoch = 1, .batches = 10, .cache.miss_bytes = 1 << 20});
    const char *text = summary();
    assert_has(text, "job: done in ");
    assert_has(text, "features    4.00 MiB from the store\n");
    ck_assert_ptr_null(strstr(text, "cache"));
    ck_assert_ptr_null(strstr(text, "blocks"));
    ck_assert_ptr_null(strstr(text, "switching"));
    ck_assert_ptr_null(strstr(text, "allocation"));
}

// What all samplers waited is no share of one clock: it may be more seconds than the run has.
TEST(shares_of_stages_are_of_a_workers_time)
{
    begin();
    add_epoch(&(struct sl_epoch){.seconds = 3,
                                 .stages.backpressure = {.seconds = 5.4, .count = 10},
                                 .stages.train = {.seconds = 2.4, .count = 10}});
    add_epoch(&(struct sl_epoch){.epoch = 1, .seconds = 3});
    const char *text = summary(); // of 12 s of samplers, 6 s of trainers
    assert_has(text, "stage         seconds  per worker ");
    assert_has(text, "backpressure     5.40        45 % ");
    assert_has(text, "train            2.40        40 % ");
}

TEST(blocks_that_stay_on_a_gpu_are_told_in_a_line)
{
    begin();
    add_epoch(&(struct sl_epoch){.bytes.blocks = 3 << 20});
    add_epoch(&(struct sl_epoch){.epoch = 1, .bytes = {.blocks = 3 << 20, .blocks_near = 2 << 20}});
    assert_has(summary(),
               "\nblocks      6.00 MiB, 2.00 MiB of them near: within a GPU that samples "
               "and trains\n");
}

TEST(a_cache_is_told_in_a_line)
{
    const struct sl_report_seat seat = {.device = 1,
                                        .name = "trainer 0",
                                        .role = "trainer",
                                        .has_cache = true,
                                        .cache_rows = 1 << 14};
    begin();
    config.cache.policy = SL_CACHE_PRESC;
    config.cache.presample_epochs = 1;
    outcome.seats = &seat;
    outcome.n_seats = 1;
    outcome.n_nodes = 1 << 17;
    outcome.totals.cache.row_bytes = 1024;
    add_epoch(&(struct sl_epoch){.seconds = 3, .cache.miss_bytes = 3 << 20});
    add_epoch(&(struct sl_epoch){.epoch = 1,
                                 .seconds = 1,
                                 .cache.ranked = true,
                                 .cache.hits = 9,
                                 .cache.misses = 1,
                                 .cache.hit_bytes = 9 << 20,
                                 .cache.miss_bytes = 1 << 20,
                                 .cache.matched_bytes = 5 << 20,
                                 .has_optimal = true,
                                 .cache.optimal_hit_rate = 0.95,
                                 .stages.mark = {.seconds = 0.25, .count = 1}});
    const char *text = summary();
    assert_has(text, "features    4.00 MiB from the store, 5.00 MiB from the batch before, "
                     "9.00 MiB from caches\n");
    assert_has(text, "cache       presc: 90.0 % hits (optimal 95.0 %), 12.5 % of the vertices, "
                     "16.0 MiB; it cost 2 epochs\n");
    assert_has(text, "samplers look up ranks\n");
    ck_assert_ptr_null(strstr(text, "samplers copy")); // that took no time
}

// Of rows from a drive trainers on cores keep none: the machine's cache does.
LOOP_TEST(the_machines_cache_is_told_in_a_line, 0, 2)
{
    const struct sl_report_seat seat = {.device = 1,
                                        .name = "trainer 0",
                                        .role = "trainer",
                                        .has_cache = true,
                                        .cache_rows = _i ? 1 << 14 : 0};
    begin();
    config.cache.policy = SL_CACHE_EXPECTED;
    outcome.seats = &seat;
    outcome.n_seats = 1;
    outcome.n_nodes = 1 << 17;
    outcome.totals.cache.row_bytes = 1024;
    outcome.totals.reads = true;
    outcome.totals.store.cache_bytes = 3 << 20;
    outcome.totals.store.cache_rows = 3000;
    add_epoch(&(struct sl_epoch){.seconds = 3,
                                 .input_nodes = 40,
                                 .cache.ranked = true,
                                 .cache.misses = 40,
                                 .store.cached = 29});
    const char *text = summary();
    assert_has(text, "\ncache       in the machine's memory: 72.5 % of the input nodes, "
                     "3,000 rows, 3.00 MiB\n");
    ck_assert_int_eq(strstr(text, "expected: 0.0 % hits, 12.5 % of the vertices, 16.0 MiB") != NULL,
                     _i);
    ck_assert_int_eq(strstr(text, " hits") != NULL, _i);
}

TEST(switching_and_decisions_are_told_in_a_line_each)
{
    struct sl_report_allocation a = {.samplers = 2,
                                     .trainers = 6,
                                     .t_sample = 0.01,
                                     .t_train = 0.03,
                                     .k = 3,
                                     .reason = "a very long story"};
    struct sl_report_scale s = {.epoch = 1,
                                .by = "user",
                                .from = {1, 7},
                                .to = {3, 5},
                                .took_seconds = 0.5,
                                .ok = true,
                                .message = "done"};
    begin();
    add_epoch(
        &(struct sl_epoch){.switching.batches = 8, .switches = 2, .switching.seconds_saved = 0.25});
    sl_report_add_allocation(&r, &a);
    a.epoch = 1; // looked at again, and left
    sl_report_add_allocation(&r, &a);
    a = (struct sl_report_allocation){
        .epoch = 2, .samplers = 1, .trainers = 7, .moved = true, .reason = "another story"};
    sl_report_add_allocation(&r, &a);
    sl_report_add_scale(&r, &s);
    s.by = "profile"; // the move above
    sl_report_add_scale(&r, &s);
    s.by = "schedule";
    s.ok = false;
    s.message = "there are 8 devices";
    sl_report_add_scale(&r, &s);
    const char *text = summary();
    assert_has(text, "switching   8 batches by standby trainers in 2 turns, about 250 ms saved\n");
    assert_has(text,
               "allocation  from epoch 1: 2 samplers, 6 trainers; T_s 10.0 ms, T_t 30.0 ms, K 3\n"
               "allocation  from epoch 3: 1 sampler, 7 trainers\n"
               "scale       in epoch 2, by the user: 1+7 -> 3+5 in 500 ms\n"
               "scale       in epoch 2, by the schedule: refused, there are 8 devices\n");
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
