// TensorBoard's event files: checksums, framing, what an epoch leaves in them, failures.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>

#include "broker/rundir/tensorboard.h"
#include "broker/rundir/tfevent.pb-c.h"
#include "common/base/bits.h"

static struct sl_writer *writer;
static struct sl_tensorboard board;
static char path[1400]; // of the newest event file
static Sl__Tfevent__Event *events[64];
static size_t n_events;

static void setup(void)
{
    dir_begin();
    must(sl_writer_start(&writer));
    must(sl_tensorboard_open(&board, writer, dir));
}

static void forget_events(void)
{
    while (n_events > 0)
        sl__tfevent__event__free_unpacked(events[--n_events], NULL);
}

static void teardown(void)
{
    forget_events();
    sl_writer_close(writer, 60000);
}

static int count_files(void)
{
    char folder[1100];
    int n = 0;
    snprintf(folder, sizeof folder, "%s/tensorboard", dir);
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    path[0] = '\0';
    for (const struct dirent *e; (e = readdir(d));) {
        char full[1400];
        if (e->d_name[0] == '.')
            continue;
        ck_assert_ptr_nonnull(strstr(e->d_name, "events.out.tfevents."));
        snprintf(full, sizeof full, "%s/%s", folder, e->d_name);
        if (strcmp(full, path) > 0)
            memcpy(path, full, sizeof path);
        n++;
    }
    closedir(d);
    return n;
}

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// Reads every record of the newest file; each must be whole and right.
static void read_events(void)
{
    static uint8_t bytes[1 << 16];
    ck_assert_int_gt(count_files(), 0);
    ck_assert_uint_eq(sl_writer_flush(writer, 60000), 0);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    forget_events();
    for (size_t at = 0; at < n;) {
        ck_assert_uint_ge(n - at, 16);
        uint32_t length = u32_at(bytes + at);
        ck_assert_uint_eq(u32_at(bytes + at + 4), 0);
        ck_assert_uint_eq(u32_at(bytes + at + 8), sl_crc32c_masked(bytes + at, 8));
        ck_assert_uint_ge(n - at, 16 + (size_t)length);
        const uint8_t *body = bytes + at + 12;
        ck_assert_uint_eq(u32_at(body + length), sl_crc32c_masked(body, length));
        events[n_events] = sl__tfevent__event__unpack(NULL, length, body);
        ck_assert_ptr_nonnull(events[n_events++]);
        at += 16 + (size_t)length;
    }
}

// NAN where there is none.
static double scalar(const Sl__Tfevent__Event *e, const char *tag)
{
    ck_assert_int_eq(e->what_case, SL__TFEVENT__EVENT__WHAT_SUMMARY);
    for (size_t i = 0; i < e->summary->n_value; i++) {
        const Sl__Tfevent__Value *v = e->summary->value[i];
        if (strcmp(v->tag, tag) != 0)
            continue;
        ck_assert_int_eq(v->value_case, SL__TFEVENT__VALUE__VALUE_SIMPLE_VALUE);
        return (double)v->simple_value;
    }
    return NAN;
}

static struct sl_epoch an_epoch(void)
{
    struct sl_epoch f = {.seconds = 2,
                         .evaluate_seconds = 0.5,
                         .loss = 1.25,
                         .train_accuracy = 0.5,
                         .evaluated = true,
                         .batches = 10,
                         .sampled_edges = 4000,
                         .queue.depth_mean = 1.5,
                         .samplers = 1,
                         .trainers = 3,
                         .switches = 2,
                         .cache.ranked = true,
                         .cache.hits = 3,
                         .cache.misses = 1,
                         .learning_rate = 0.125};
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++)
        f.on_val.value[m] = NAN;
    f.on_val.applies[SL_MEASURE_ACCURACY] = f.on_val.applies[SL_MEASURE_MICRO_F1] = true;
    f.on_val.applies[SL_MEASURE_LOSS] = f.on_val.applies[SL_MEASURE_ROC_AUC] = true;
    f.on_val.value[SL_MEASURE_ACCURACY] = 0.75;
    f.on_val.value[SL_MEASURE_MICRO_F1] = 0.625;
    f.on_val.value[SL_MEASURE_LOSS] = 1.5;
    return f;
}

TEST(checksums_are_castagnolis)
{
    static const uint8_t zeros[32] = {0};
    uint8_t ones[32];
    memset(ones, 0xff, sizeof ones);
    // RFC 3720, B.4
    ck_assert_uint_eq(sl_crc32c("123456789", 9), 0xe3069283);
    ck_assert_uint_eq(sl_crc32c(zeros, sizeof zeros), 0x8a9136aa);
    ck_assert_uint_eq(sl_crc32c(ones, sizeof ones), 0x62a8ab43);
    ck_assert_uint_eq(sl_crc32c("", 0), 0);
    uint32_t crc = 0xe3069283;
    ck_assert_uint_eq(sl_crc32c_masked("123456789", 9), (crc >> 15 | crc << 17) + 0xa282ead8);
}

TEST(a_file_begins_with_its_version)
{
    read_events();
    ck_assert_uint_eq(n_events, 1);
    ck_assert_int_eq(events[0]->what_case, SL__TFEVENT__EVENT__WHAT_FILE_VERSION);
    ck_assert_str_eq(events[0]->file_version, "brain.Event:2");
    ck_assert(events[0]->wall_time > 1e9);
}

TEST(an_epoch_is_one_event_with_all_that_is_known)
{
    const struct sl_epoch f = an_epoch();
    sl_tensorboard_add_epoch(&board, &f, 5);
    sl_tensorboard_add_epoch(&board, &f, 10);
    read_events();
    ck_assert_uint_eq(n_events, 4);
    ck_assert_int_eq(events[1]->what_case, SL__TFEVENT__EVENT__WHAT_SESSION_LOG);
    ck_assert_int_eq(events[1]->session_log->status, SL__TFEVENT__SESSION_LOG__STATUS__START);
    ck_assert_int_eq(events[1]->step, 5);
    ck_assert_int_eq(events[2]->step, 5);
    ck_assert_int_eq(events[3]->step, 10);
    static const struct {
        const char *tag;
        double value;
    } wanted[] = {
        {"loss/train", 1.25},
        {"loss/val", 1.5},
        {"accuracy/train", 0.5},
        {"accuracy/val", 0.75},
        {"micro_f1/val", 0.625},
        {"time/epoch_seconds", 2},
        {"cache/hit_rate", 0.75},
        {"time/evaluate_seconds", 0.5},
        {"queue/depth_mean", 1.5},
        {"rate/batches_per_second", 5},
        {"split/samplers", 1},
        {"rate/edges_per_second", 2000},
        {"split/trainers", 3},
        {"split/switches", 2},
        {"optimizer/learning_rate", 0.125},
    };
    for (size_t i = 0; i < SL_COUNT_OF(wanted); i++)
        ck_assert_double_eq(scalar(events[3], wanted[i].tag), wanted[i].value);
    ck_assert_uint_eq(events[3]->summary->n_value, SL_COUNT_OF(wanted));
}

TEST(links_have_rates_of_pairs)
{
    struct sl_epoch f = an_epoch();
    sl_tensorboard_add_epoch(&board, &f, 5);
    f.links = true;
    f.positives = 1000;
    f.negatives = 3000;
    sl_tensorboard_add_epoch(&board, &f, 10);
    read_events();
    ck_assert(isnan(scalar(events[2], "rate/positives_per_second")));
    ck_assert_double_eq(scalar(events[3], "rate/positives_per_second"), 500);
    ck_assert_double_eq(scalar(events[3], "rate/negatives_per_second"), 1500);
}

TEST(a_test_of_the_epoch_is_a_curve_of_its_own)
{
    struct sl_epoch f = an_epoch();
    sl_tensorboard_add_epoch(&board, &f, 5);
    f.tested = true;
    f.on_test = f.on_val;
    f.on_test.value[SL_MEASURE_ACCURACY] = 0.125;
    sl_tensorboard_add_epoch(&board, &f, 10);
    read_events();
    ck_assert(isnan(scalar(events[2], "accuracy/test")));
    ck_assert_double_eq(scalar(events[3], "accuracy/test"), 0.125);
    ck_assert_double_eq(scalar(events[3], "accuracy/val"), 0.75);
    ck_assert_double_eq(scalar(events[3], "loss/test"), 1.5);
}

TEST(what_is_not_defined_is_left_out_and_zero_is_not)
{
    struct sl_epoch f = an_epoch();
    f.train_accuracy = NAN;
    f.loss = INFINITY;
    f.cache.ranked = false;
    f.evaluated = false;
    f.switches = 0;
    f.seconds = 0;
    sl_tensorboard_add_epoch(&board, &f, 5);
    read_events();
    const Sl__Tfevent__Event *e = events[2];
    static const char *const absent[] = {
        "accuracy/train", "loss/train",   "cache/hit_rate",        "accuracy/val",
        "loss/val",       "micro_f1/val", "time/evaluate_seconds", "rate/batches_per_second"};
    for (size_t i = 0; i < SL_COUNT_OF(absent); i++)
        ck_assert_msg(isnan(scalar(e, absent[i])), "%s is there", absent[i]);
    ck_assert_double_eq(scalar(e, "split/switches"), 0);
    ck_assert_double_eq(scalar(e, "time/epoch_seconds"), 0);
}

TEST(staleness_is_of_asynchronous_updates)
{
    struct sl_epoch f = an_epoch();
    f.async = true;
    f.updates.staleness_mean = 1.75;
    sl_tensorboard_add_epoch(&board, &f, 5);
    read_events();
    ck_assert_double_eq(scalar(events[2], "updates/staleness_mean"), 1.75);
}

// The content of the event's only value, which is for the page of hyperparameters.
static Sl__Tfevent__HParams *hparams_of(const Sl__Tfevent__Event *e, const char *tag)
{
    ck_assert_int_eq(e->what_case, SL__TFEVENT__EVENT__WHAT_SUMMARY);
    ck_assert_uint_eq(e->summary->n_value, 1);
    const Sl__Tfevent__Value *v = e->summary->value[0];
    ck_assert_str_eq(v->tag, tag);
    ck_assert_str_eq(v->metadata->plugin_data->plugin_name, "hparams");
    const ProtobufCBinaryData content = v->metadata->plugin_data->content;
    Sl__Tfevent__HParams *found = sl__tfevent__hparams__unpack(NULL, content.len, content.data);
    ck_assert_ptr_nonnull(found);
    return found;
}

static const Sl__Tfevent__Setting *setting(const Sl__Tfevent__RunStart *start, const char *key)
{
    for (size_t i = 0; i < start->n_hparams; i++)
        if (strcmp(start->hparams[i]->key, key) == 0)
            return start->hparams[i]->value;
    ck_abort_msg("%s is not there", key);
}

TEST(a_run_begins_with_its_settings_and_ends_with_its_test)
{
    cJSON *config = cJSON_Parse("{\"model\": {\"kind\": \"gat\", \"hidden\": 64}, \"seed\": 7,"
                                " \"sampler\": {\"fanout\": [5, -1]}, \"digest\": true}");
    const struct sl_evaluation test = an_epoch().on_val;
    sl_tensorboard_begin_run(&board, config, 12345);
    cJSON_Delete(config);
    sl_tensorboard_end_run(&board, true, &test, 30);
    sl_tensorboard_end_run(&board, false, NULL, 0);
    read_events();
    ck_assert_uint_eq(n_events, 5);
    Sl__Tfevent__HParams *h = hparams_of(events[1], "_hparams_/session_start_info");
    const Sl__Tfevent__RunStart *start = h->session_start_info;
    ck_assert_uint_eq(start->n_hparams, 6);
    ck_assert_str_eq(setting(start, "model.kind")->string_value, "gat");
    ck_assert_double_eq(setting(start, "model.hidden")->number_value, 64);
    ck_assert_double_eq(setting(start, "seed")->number_value, 7);
    ck_assert_str_eq(setting(start, "sampler.fanout")->string_value, "[5,-1]");
    ck_assert(setting(start, "digest")->bool_value);
    ck_assert_double_eq(setting(start, "num_params")->number_value, 12345);
    sl__tfevent__hparams__free_unpacked(h, NULL);
    ck_assert_int_eq(events[2]->step, 30);
    ck_assert_double_eq(scalar(events[2], "accuracy/test_final"), 0.75);
    for (int i = 3; i < 5; i++) {
        h = hparams_of(events[i], "_hparams_/session_end_info");
        ck_assert_int_eq(h->session_end_info->status, i == 3
                                                          ? SL__TFEVENT__RUN_END__STATUS__SUCCESS
                                                          : SL__TFEVENT__RUN_END__STATUS__FAILURE);
        sl__tfevent__hparams__free_unpacked(h, NULL);
    }
}

TEST(another_file_each_time)
{
    struct sl_tensorboard second;
    must(sl_tensorboard_open(&second, writer, dir));
    ck_assert_int_eq(count_files(), 2);
}

TEST(nothing_happens_when_it_is_not_open)
{
    const struct sl_epoch f = an_epoch();
    struct sl_tensorboard none = {0};
    sl_tensorboard_begin_run(&none, NULL, 0);
    sl_tensorboard_add_epoch(&none, &f, 5);
    sl_tensorboard_end_run(&none, true, NULL, 0);
    read_events();
    ck_assert_uint_eq(n_events, 1);
}

TEST(a_directory_that_can_not_be_made_is_an_error)
{
    struct sl_tensorboard other;
    char there[1200];
    snprintf(there, sizeof there, "%s/nowhere", dir);
    ck_assert_int_eq(sl_tensorboard_open(&other, writer, there), SL_EIO);
    assert_message_has("nowhere/tensorboard");
}

RUN_TESTS(.setup = setup, .teardown = teardown, .begin = scratch_begin, .end = scratch_end,
          .timeout_s = 60)
