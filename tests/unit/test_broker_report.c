// What report.json and metrics.jsonl say.
#include "tests/unit/json_at.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <math.h>

#include <cjson/cJSON.h>

#include "broker/rundir/report.h"

static struct sl_report r;
static struct sl_config config;
static struct sl_report_outcome outcome;
static cJSON *report; // owned; after finish()

static void setup(void)
{
    dir_begin();
    memset(&config, 0, sizeof config);
    config.n_devices = 2;
    config.epochs = 4;
    snprintf(config.name, sizeof config.name, "job");
    outcome = (struct sl_report_outcome){.totals.status = "done", .config_json = "{}"};
    must(sl_report_init(&r));
}

static void teardown(void)
{
    cJSON_Delete(report);
    sl_report_fini(&r);
}

static void finish(void)
{
    char *text = sl_report_finish(&r, &config, &outcome);
    ck_assert_ptr_nonnull(text);
    report = cJSON_Parse(text);
    ck_assert_msg(report != NULL, "%s", text);
    free(text);
}

#define EXPECT(path, value)      ck_assert_double_eq_tol(number(report, path), value, 1e-9)
#define EXPECT_NULL(path)        ck_assert(cJSON_IsNull(at(report, path)))
#define EXPECT_TEXT(path, value) ck_assert_str_eq(at(report, path)->valuestring, value)

static const double worker_seconds[SL_ROLE_COUNT] = {6, 3};

// Adds an epoch and parses its line.
static cJSON *add_epoch(const struct sl_epoch *f)
{
    char *line = sl_report_add_epoch(&r, f, worker_seconds);
    cJSON *json = cJSON_Parse(line);
    ck_assert_ptr_nonnull(json);
    free(line);
    return json;
}

static long n_alive; // of cJSON's memory

static void *alloc_counted(size_t bytes)
{
    n_alive++;
    return malloc(bytes);
}

static void free_counted(void *p)
{
    n_alive -= p != NULL;
    free(p);
}

// Lists of what GPUs hold are made for the report, and go with it.
TEST(lists_of_a_report_are_freed)
{
    static const struct sl_arena none;
    static const struct sl_shard_plan plan = {.reason = "r", .elements = {5, 7}};
    cJSON_Hooks hooks = {alloc_counted, free_counted};
    long left[2];
    config.devices[0].kind = SL_DEVICE_CUDA;
    outcome.arena = &none;
    cJSON_InitHooks(&hooks);
    for (int i = 0; i < 2; i++) {
        outcome.plan[SL_PEER_MEMORY_FEATURES] = outcome.plan[SL_PEER_MEMORY_GRAPH] =
            i ? &plan : NULL;
        n_alive = 0;
        char *text = sl_report_finish(&r, &config, &outcome);
        left[i] = n_alive;
        ck_assert((strstr(text, "\"graph_held\"") != NULL) == i);
        free(text);
    }
    cJSON_InitHooks(NULL);
    ck_assert_int_eq(left[1], left[0]);
}

TEST(a_report_replaces_a_file_and_not_a_link_or_a_device)
{
    char target[1100], link[1100], text[64];
    snprintf(target, sizeof target, "%s", in_dir("target.json"));
    snprintf(link, sizeof link, "%s", in_dir("link.json"));
    must(sl_report_write(target, "{\"old\": 1}"));
    ck_assert_int_eq(symlink("target.json", link), 0);
    must(sl_report_write(link, "{\"new\": 2}"));
    struct stat st;
    ck_assert_int_eq(lstat(link, &st), 0);
    ck_assert_msg(S_ISLNK(st.st_mode), "the link was replaced");
    FILE *f = fopen(target, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    fclose(f);
    ck_assert_str_eq(text, "{\"new\": 2}\n");
    must(sl_report_write("/dev/null", "{}"));
    ck_assert_int_eq(stat("/dev/null", &st), 0);
    ck_assert_msg(S_ISCHR(st.st_mode), "/dev/null was replaced");
    ck_assert_int_eq(count_entries(), 2);
}

TEST(a_report_without_results_has_all_its_keys)
{
    outcome.totals.status = "stopped";
    outcome.totals.message = "why";
    outcome.totals.first_update_seconds = NAN;
    finish();
    static const char *const keys[] = {
        "schema",       "job",           "status",      "message",       "config",
        "devices",      "allocations",   "scales",      "epochs",        "batches",
        "cache",        "switching",     "restarts",    "test_accuracy", "params_sha256",
        "wall_seconds", "start_seconds", "peak_memory", "best_epoch"};
    for (size_t i = 0; i < SL_COUNT_OF(keys); i++)
        ck_assert_msg(cJSON_HasObjectItem(report, keys[i]), "no '%s'", keys[i]);
    ck_assert(!cJSON_HasObjectItem(report, "samples_digest"));
    ck_assert(!cJSON_HasObjectItem(report, "nodes")); // there is one
    EXPECT_NULL("test_accuracy");
    EXPECT_NULL("first_update_seconds");
    EXPECT_NULL("test");
    EXPECT_NULL("best_metric");
    EXPECT_NULL("stopped_early");
    EXPECT_TEXT("cache.policy", "none");
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "allocations")), 0);
    EXPECT("switching.seconds_saved", 0);
}

static struct sl_evaluation evaluation(double accuracy, double macro_f1, double loss)
{
    return (struct sl_evaluation){
        .applies =
            {[SL_MEASURE_ACCURACY] = true, [SL_MEASURE_MACRO_F1] = true, [SL_MEASURE_LOSS] = true},
        .value = {[SL_MEASURE_ACCURACY] = accuracy,
                  [SL_MEASURE_MACRO_F1] = macro_f1,
                  [SL_MEASURE_LOSS] = loss}};
}

TEST(evaluations_have_their_tasks_metrics)
{
    struct sl_epoch f = {.epoch = 0};
    const struct sl_early_stopping best = {.has = true, .epoch = 1, .value = 0.6};
    const struct sl_evaluation test = evaluation(0.75, 0.5, NAN);
    const struct sl_measure_choice judged = {
        .measure = SL_MEASURE_MACRO_F1, .share = 0.218, .class_index = 1};
    cJSON_Delete(add_epoch(&f));
    f = (struct sl_epoch){.epoch = 1, .evaluated = true, .on_val = evaluation(0.8, 0.6, 2)};
    f.tested = true;
    f.on_test = evaluation(0.7, 0.9, 3);
    cJSON_Delete(add_epoch(&f));
    outcome.best = &best;
    outcome.judged = &judged;
    outcome.test = &test;
    outcome.totals.stopped_early.epoch = 1;
    outcome.totals.stopped_early.reason = "enough";
    finish();
    const cJSON *epochs = at(report, "epochs");
    const cJSON *first = cJSON_GetArrayItem(epochs, 0), *second = cJSON_GetArrayItem(epochs, 1);
    ck_assert(cJSON_IsNull(at(first, "val")) && cJSON_IsNull(at(first, "val_accuracy")));
    ck_assert_double_eq(at(second, "val_accuracy")->valuedouble, 0.8);
    ck_assert_double_eq(at(second, "val.macro_f1")->valuedouble, 0.6);
    ck_assert(!cJSON_HasObjectItem(at(second, "val"), "mae"));
    ck_assert(cJSON_IsNull(at(first, "test")));
    ck_assert_double_eq(at(second, "test.macro_f1")->valuedouble, 0.9);
    EXPECT("test.accuracy", 0.75);
    EXPECT("test_accuracy", 0.75);
    EXPECT_NULL("test.loss");
    EXPECT_TEXT("best_metric.name", "macro_f1");
    EXPECT("best_metric.value", 0.6);
    EXPECT("best_metric.epoch", 1);
    EXPECT_TEXT("best_metric.why", "21.8 % of the training vertices are of class 1");
    EXPECT("best_val_accuracy", 0.8); // of the best epoch, whatever made it the best
    EXPECT("stopped_early.epoch", 1);
    EXPECT_TEXT("stopped_early.reason", "enough");
}

TEST(a_loss_that_is_no_number_is_null)
{
    const struct sl_epoch f = {.loss = NAN};
    char *line = sl_report_add_epoch(&r, &f, worker_seconds);
    ck_assert_msg(strstr(line, "\"loss\":null") != NULL, "%s", line);
    ck_assert_msg(strchr(line, '\n') == NULL, "more than one line");
    free(line);
}

TEST(an_epoch_says_what_the_cache_and_the_standby_trainers_did)
{
    const struct sl_epoch f = {
        .cache.ranked = true,
        .cache.rows = 100,
        .cache.hits = 30,
        .cache.misses = 10,
        .cache.hit_bytes = 300,
        .cache.miss_bytes = 200,
        .cache.matched = 5,
        .cache.matched_bytes = 50,
        .stages.mark = {.seconds = 0.5, .count = 4},
        .stages.copy = {.seconds = 0.25, .count = 4},
        .samplers = 1,
        .trainers = 3,
        .profile.t_sample = 0.011,
        .profile.t_train = 0.06,
        .switches = 2,
        .switching.batches = 7,
        .switching.seconds_saved = 0.14,
    };
    report = add_epoch(&f);
    EXPECT("stages.mark.seconds", 0.5);
    EXPECT("stages.copy.seconds", 0.25);
    EXPECT("cache.rows", 100);
    EXPECT("cache.hits", 30);
    EXPECT("cache.misses", 10);
    EXPECT("cache.hit_rate", 0.75);
    EXPECT("cache.hit_bytes", 300);
    EXPECT("cache.miss_bytes", 200);
    EXPECT("cache.matched", 5);
    EXPECT("cache.matched_bytes", 50);
    ck_assert(!cJSON_HasObjectItem(at(report, "cache"), "optimal_hit_rate"));
    EXPECT("samplers", 1);
    EXPECT("trainers", 3);
    EXPECT("profile.t_sample", 0.011);
    EXPECT("profile.t_train", 0.06);
    EXPECT_NULL("profile.t_standby");
    EXPECT("switches", 2);
    EXPECT("switching.batches", 7);
    EXPECT("switching.seconds_saved", 0.14);
    ck_assert(!cJSON_HasObjectItem(report, "updates"));
}

TEST(an_epoch_of_async_updates_has_its_staleness)
{
    report = add_epoch(&(struct sl_epoch){
        .async = true, .updates.staleness_mean = 1.5, .updates.staleness_max = 4});
    EXPECT("updates.staleness_mean", 1.5);
    EXPECT("updates.staleness_max", 4);
}

TEST(decisions_are_listed)
{
    const struct sl_report_allocation first = {.epoch = 0,
                                               .samplers = 2,
                                               .trainers = 6,
                                               .t_sample = 0.01,
                                               .t_train = 0.03,
                                               .k = 3,
                                               .formula_samplers = 2,
                                               .reason = "because"};
    const struct sl_report_allocation second = {.epoch = 3,
                                                .samplers = 3,
                                                .trainers = 5,
                                                .t_standby = 0.05,
                                                .k = INFINITY,
                                                .moved = true,
                                                .gain_seconds = 12,
                                                .cost_seconds = 2,
                                                .reason = "since"};
    sl_report_add_allocation(&r, &first);
    sl_report_add_allocation(&r, &second);
    finish();
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "allocations")), 2);
    EXPECT("allocations.0.samplers", 2);
    EXPECT("allocations.0.trainers", 6);
    EXPECT("allocations.0.t_sample", 0.01);
    EXPECT("allocations.0.t_train", 0.03);
    EXPECT_NULL("allocations.0.t_standby");
    EXPECT("allocations.0.k", 3);
    EXPECT("allocations.0.formula_samplers", 2);
    ck_assert(cJSON_IsFalse(at(report, "allocations.0.moved")));
    EXPECT_TEXT("allocations.0.reason", "because");
    EXPECT("allocations.1.epoch", 3);
    EXPECT("allocations.1.t_standby", 0.05);
    EXPECT_NULL("allocations.1.k");
    EXPECT_NULL("allocations.1.formula_samplers");
    ck_assert(cJSON_IsTrue(at(report, "allocations.1.moved")));
    EXPECT("allocations.1.gain_seconds", 12);
    EXPECT("allocations.1.cost_seconds", 2);
}

TEST(changes_of_the_split_are_listed)
{
    const struct sl_report_scale s = {.seconds = 3.5,
                                      .epoch = 2,
                                      .by = "user",
                                      .from = {1, 3},
                                      .to = {2, 2},
                                      .took_seconds = 0.25,
                                      .ok = false,
                                      .message = "why not"};
    sl_report_add_scale(&r, &s);
    finish();
    EXPECT("scales.0.seconds", 3.5);
    EXPECT("scales.0.epoch", 2);
    EXPECT_TEXT("scales.0.by", "user");
    EXPECT("scales.0.from.samplers", 1);
    EXPECT("scales.0.from.trainers", 3);
    EXPECT("scales.0.to.samplers", 2);
    EXPECT("scales.0.to.trainers", 2);
    EXPECT("scales.0.took_seconds", 0.25);
    ck_assert(cJSON_IsFalse(at(report, "scales.0.ok")));
    EXPECT_TEXT("scales.0.message", "why not");
}

// --- cache ---

static const struct sl_report_seat seats[] = {
    {.device = 0, .name = "sampler 0", .role = "sampler"},
    {.device = 1,
     .name = "trainer 0",
     .role = "trainer",
     .has_cache = true,
     .cache_rows = 250,
     .load_seconds = 0.5},
    {.device = 0,
     .name = "standby trainer 0",
     .role = "standby",
     .has_cache = true,
     .cache_rows = 100,
     .load_seconds = 0.2},
};

static void with_cache(enum sl_cache_policy policy)
{
    config.cache.policy = policy;
    config.cache.presample_epochs = 1;
    outcome.seats = seats;
    outcome.n_seats = SL_COUNT_OF(seats);
    outcome.n_nodes = 1000;
    outcome.totals.cache.row_bytes = 64;
    outcome.totals.cache.rank_seconds = 0.3;
}

TEST(deaths_and_changes_are_kept_up_to_a_number)
{
    enum { N = SL_REPORT_NEWEST + 50 };
    for (uint32_t i = 0; i < N; i++) {
        sl_report_add_restart(
            &r, &(struct sl_report_restart){
                    .worker = "trainer 0", .cause = "killed", .seconds = i, .retrained = 1});
        sl_report_add_allocation(&r, &(struct sl_report_allocation){.epoch = i, .reason = ""});
        sl_report_add_scale(&r,
                            &(struct sl_report_scale){.by = "user", .message = "", .seconds = i});
    }
    finish();
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "restarts")), SL_REPORT_NEWEST);
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "scales")), SL_REPORT_NEWEST);
    EXPECT("restarts.0.seconds", 50);
    EXPECT("scales.0.seconds", 50);
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "allocations")), SL_REPORT_NEWEST);
    EXPECT("allocations.0.epoch", 0);
    EXPECT("allocations.1.epoch", 51);
    EXPECT("allocations_left_out", 50);
    EXPECT("restarts_left_out", 50);
    EXPECT("scales_left_out", 50);
    EXPECT("batches.retrained", N);
}

TEST(a_job_for_external_trainers_keeps_its_newest_epochs)
{
    struct sl_epoch f = {.bottleneck = "trainers", .lent = true, .loss = NAN, .left = 2};
    config.model.kind = SL_MODEL_EXTERNAL;
    for (int i = 0; i < SL_CONFIG_EPOCHS_KEPT + 3; i++) {
        f.epoch = i;
        cJSON_Delete(add_epoch(&f));
    }
    finish();
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "epochs")), SL_CONFIG_EPOCHS_KEPT);
    EXPECT("epochs_left_out", 3);
    EXPECT("epochs.0.epoch", 3);
    EXPECT("epochs.0.left", 2);
    EXPECT_NULL("epochs.0.loss");
    EXPECT_NULL("precision.used");
}

TEST(a_job_of_its_own_training_keeps_all_and_says_nothing_of_the_others)
{
    const struct sl_epoch f = {.bottleneck = "trainers"};
    for (int i = 0; i < SL_CONFIG_EPOCHS_KEPT + 3; i++)
        cJSON_Delete(add_epoch(&f));
    finish();
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "epochs")), SL_CONFIG_EPOCHS_KEPT + 3);
    ck_assert(!cJSON_HasObjectItem(report, "epochs_left_out"));
    ck_assert(!cJSON_HasObjectItem(at(report, "epochs.0"), "left"));
}

TEST(devices_name_who_sits_there)
{
    with_cache(SL_CACHE_NONE);
    finish();
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "devices.0.workers")), 2);
    EXPECT_TEXT("devices.0.workers.0", "sampler 0");
    EXPECT_TEXT("devices.0.workers.1", "standby trainer 0");
    EXPECT_TEXT("devices.0.roles.1", "standby");
    EXPECT_TEXT("devices.1.workers.0", "trainer 0");
    EXPECT_TEXT("devices.1.roles.0", "trainer");
    EXPECT_TEXT("devices.1.name", "cpu 1");
    ck_assert(!cJSON_HasObjectItem(at(report, "cache"), "trainers"));
}

TEST(a_pool_is_one_device)
{
    static const struct sl_report_seat at_one[] = {
        {.device = 0, .name = "sampler 0", .role = "sampler"},
        {.device = 0, .name = "trainer 0", .role = "trainer"},
    };
    with_cache(SL_CACHE_NONE);
    config.allocation.cores = SL_CORES_POOL;
    config.devices[0] = (struct sl_device_config){.n_cores = 1, .cores = {4}};
    config.devices[1] = (struct sl_device_config){.n_cores = 2, .cores = {1, 4}};
    outcome.seats = at_one;
    outcome.n_seats = 2;
    finish();
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "devices")), 1);
    EXPECT_TEXT("devices.0.name", "pool");
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "devices.0.cores")), 2);
    EXPECT("devices.0.cores.0", 1);
    EXPECT("devices.0.cores.1", 4);
    EXPECT_TEXT("devices.0.workers.1", "trainer 0");
}

// One epoch of 3 s without ranks and three of 1 s with them.
static void add_epochs(bool optimal)
{
    static const double found[] = {NAN, 0.8, 0.85, 0.9};
    for (uint32_t e = 0; e < 4; e++)
        cJSON_Delete(add_epoch(&(struct sl_epoch){
            .epoch = e,
            .seconds = e == 0 ? 3 : 1,
            .cache.ranked = e > 0,
            .cache.hits = e > 0 ? 60 + 10 * e : 0,
            .cache.misses = e > 0 ? 40 - 10 * e : 100,
            .has_optimal = optimal && e > 0,
            .cache.optimal_hit_rate = found[e],
            .switches = e,
            .switching.batches = e > 1 ? 5 : 0,
            .switching.seconds_saved = e == 2   ? 0.5
                                       : e == 3 ? NAN
                                                : 0,
        }));
}

TEST(the_cache_is_summed_up_over_ranked_epochs)
{
    with_cache(SL_CACHE_PRESC);
    add_epochs(false);
    finish();
    EXPECT_TEXT("cache.policy", "presc");
    EXPECT("cache.presample_epochs", 1);
    EXPECT("cache.row_bytes", 64);
    EXPECT("cache.rank_seconds", 0.3);
    EXPECT("cache.load_seconds", 0.5); // caches are filled side by side
    EXPECT("cache.hit_rate", 0.8);
    EXPECT("cache.presample_cost_epochs", 3 + 0.3 + 0.5 - 1);
    ck_assert(!cJSON_HasObjectItem(at(report, "cache"), "optimal_hit_rate"));
    EXPECT_TEXT("cache.trainers.0.worker", "trainer 0");
    EXPECT_TEXT("cache.trainers.0.role", "trainer");
    EXPECT("cache.trainers.0.device", 1);
    EXPECT("cache.trainers.0.ratio", 0.25);
    EXPECT("cache.trainers.0.rows", 250);
    EXPECT("cache.trainers.0.bytes", 16000);
    EXPECT("cache.trainers.1.load_seconds", 0.2);
    ck_assert_int_eq(cJSON_GetArraySize(at(report, "cache.trainers")), 2);
}

// What "auto" came to, and why.
TEST(choices_of_the_job_have_no_reason)
{
    with_cache(SL_CACHE_EXPECTED);
    finish();
    ck_assert(!cJSON_HasObjectItem(at(report, "cache"), "why"));
    EXPECT_TEXT("precision.asked", "fp32");
    EXPECT_TEXT("precision.used", "fp32");
}

TEST(choices_of_its_own_are_told)
{
    with_cache(SL_CACHE_EXPECTED);
    config.cache.why = "of what was found";
    config.precision = SL_CONFIG_PRECISION_AUTO;
    config.n_devices = 2;
    config.devices[1].kind = SL_DEVICE_CUDA;
    finish();
    EXPECT_TEXT("cache.policy", "expected");
    EXPECT_TEXT("cache.why", "of what was found");
    EXPECT_TEXT("precision.asked", "auto");
    EXPECT_TEXT("precision.used", "tf32");
}

TEST(the_optimum_of_all_ranked_epochs_is_that_of_each)
{
    with_cache(SL_CACHE_PRESC);
    config.cache.report_optimal = true;
    add_epochs(true);
    finish();
    ck_assert(!cJSON_HasObjectItem(at(report, "epochs.0.cache"), "optimal_hit_rate"));
    EXPECT("epochs.1.cache.optimal_hit_rate", 0.9);
    EXPECT("epochs.2.cache.optimal_hit_rate", 0.9);
    EXPECT("epochs.3.cache.optimal_hit_rate", 0.9);
    EXPECT("cache.optimal_hit_rate", 0.9);
}

TEST(an_optimum_that_was_not_found_out_is_not_passed_on)
{
    with_cache(SL_CACHE_RANDOM);
    cJSON_Delete(add_epoch(&(struct sl_epoch){
        .cache.ranked = true, .has_optimal = true, .cache.optimal_hit_rate = 0.7}));
    report = add_epoch(&(struct sl_epoch){
        .epoch = 1, .cache.ranked = true, .has_optimal = true, .cache.optimal_hit_rate = NAN});
    EXPECT_NULL("cache.optimal_hit_rate");
    cJSON_Delete(report);
    finish();
    EXPECT("epochs.1.cache.optimal_hit_rate", 0.7);
    EXPECT("cache.optimal_hit_rate", 0.7);
    EXPECT("cache.presample_epochs", 0);
    EXPECT_NULL("cache.presample_cost_epochs"); // epochs of no length
}

TEST(the_oracle_costs_its_pre_sampling)
{
    with_cache(SL_CACHE_OPTIMAL);
    outcome.totals.cache.presample_seconds = 5;
    cJSON_Delete(add_epoch(&(struct sl_epoch){.cache.ranked = true, .seconds = 2}));
    finish();
    EXPECT("cache.presample_epochs", 4);
    EXPECT("cache.presample_seconds", 5);
    EXPECT("cache.presample_cost_epochs", (5 + 0.3 + 0.5) / 2);
}

TEST(a_job_stopped_before_its_cache_was_of_use_has_no_hit_rate)
{
    with_cache(SL_CACHE_PRESC);
    cJSON_Delete(add_epoch(&(struct sl_epoch){.seconds = 2, .cache.misses = 10}));
    finish();
    EXPECT_NULL("cache.hit_rate");
    EXPECT_NULL("cache.presample_cost_epochs");
}

TEST(switching_is_summed_up)
{
    add_epochs(false);
    finish();
    EXPECT("switching.switches", 6);
    EXPECT("switching.batches", 10);
    EXPECT("switching.seconds_saved", 0.5); // of the epochs of which it is known
    EXPECT_NULL("epochs.3.switching.seconds_saved");
}

TEST(what_a_single_device_saves_is_not_known)
{
    cJSON_Delete(
        add_epoch(&(struct sl_epoch){.switching.batches = 4, .switching.seconds_saved = NAN}));
    finish();
    EXPECT_NULL("switching.seconds_saved");
}

RUN_TESTS(.setup = setup, .teardown = teardown, .begin = scratch_begin, .end = scratch_end,
          .timeout_s = 10)
