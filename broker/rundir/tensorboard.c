#include "broker/rundir/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/rundir/tfevent.pb-c.h"
#include "common/base/error.h"
#include "common/base/json_print.h"

enum {
    SCALARS_MAX = 32,
    TAG_BYTES = 48,
    FRAME_BYTES = 16, // around the bytes of a record: length and checksums
    SETTINGS_MAX = 256,
    KEY_BYTES = 96,
    NAMES_TRIED = 100,
};

// --- records -------------------------------------------------------------------------------------

// One byte of the reflected polynomial 0x82f63b78. A record has a kilobyte, and there is one an
// epoch: a table of bytes is quick enough.
static void make_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
        table[i] = crc;
    }
}

uint32_t sl_crc32c(const void *bytes, size_t n)
{
    uint32_t table[256];
    const uint8_t *at = bytes;
    uint32_t crc = UINT32_MAX;
    make_table(table);
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ at[i]) & 255];
    return ~crc;
}

// TFRecord rotates and shifts checksums, so that a checksum of bytes with checksums in them is no
// special case.
uint32_t sl_crc32c_masked(const void *bytes, size_t n)
{
    uint32_t crc = sl_crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void put_u32(uint8_t *to, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(x >> 8 * i);
}

static void add_record(struct sl_tensorboard *t, const Sl__Tfevent__Event *event)
{
    size_t n = sl__tfevent__event__get_packed_size(event);
    uint8_t *record = malloc(FRAME_BYTES + n);
    if (!record)
        return; // one that is missing is an epoch's
    put_u32(record, (uint32_t)n);
    put_u32(record + 4, 0);
    put_u32(record + 8, sl_crc32c_masked(record, 8));
    sl__tfevent__event__pack(event, record + 12);
    put_u32(record + 12 + n, sl_crc32c_masked(record + 12, n));
    sl_writer_add(t->file, record, n + FRAME_BYTES);
    free(record);
}

static double unix_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void add_event(struct sl_tensorboard *t, uint64_t step, Sl__Tfevent__Event *event)
{
    event->wall_time = unix_seconds();
    event->step = (int64_t)step;
    add_record(t, event);
}

// --- scalars -------------------------------------------------------------------------------------

struct scalars {
    Sl__Tfevent__Value values[SCALARS_MAX];
    Sl__Tfevent__Value *list[SCALARS_MAX];
    char tags[SCALARS_MAX][TAG_BYTES];
    size_t n;
};

__attribute__((format(printf, 3, 4))) static void add(struct scalars *s, double value,
                                                      const char *tag, ...)
{
    va_list args;
    if (!isfinite(value) || s->n == SCALARS_MAX)
        return;
    Sl__Tfevent__Value *v = &s->values[s->n];
    sl__tfevent__value__init(v);
    va_start(args, tag);
    vsnprintf(s->tags[s->n], TAG_BYTES, tag, args);
    va_end(args);
    v->tag = s->tags[s->n];
    v->value_case = SL__TFEVENT__VALUE__VALUE_SIMPLE_VALUE;
    v->simple_value = (float)value;
    s->list[s->n++] = v;
}

static void add_evaluation(struct scalars *s, const char *name, const struct sl_evaluation *found)
{
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++)
        if (found->applies[m])
            add(s, found->value[m], "%s/%s", sl_measure_key(m), name);
}

// What the report says of an epoch, and what follows from it.
static void add_figures(struct scalars *s, const struct sl_epoch *f)
{
    for (size_t i = 0; i < sl_report_epoch_fields.n; i++) {
        const struct sl_field *field = &sl_report_epoch_fields.fields[i];
        if (field->tag && sl_field_is_given(field, &f->entry))
            add(s, sl_field_number(field, &f->entry), "%s", field->tag);
    }
    if (f->evaluated)
        add_evaluation(s, "val", &f->on_val);
    if (f->tested)
        add_evaluation(s, "test", &f->on_test);
    if (f->evaluated || f->tested)
        add(s, f->evaluate_seconds, "time/evaluate_seconds");
    if (f->cache.ranked)
        add(s, sl_epoch_hit_rate(f), "cache/hit_rate");
    if (f->seconds > 0) {
        add(s, f->batches / f->seconds, "rate/batches_per_second");
        add(s, f->sampled_edges / f->seconds, "rate/edges_per_second");
        if (f->links) {
            add(s, f->positives / f->seconds, "rate/positives_per_second");
            add(s, f->negatives / f->seconds, "rate/negatives_per_second");
        }
    }
}

// --- the file ------------------------------------------------------------------------------------

// events.out.tfevents.SECONDS.HOST.PID: TensorBoard reads a run's files in the order of their
// names. In a container each broker may be the same process of the same host.
static int create_file(struct sl_tensorboard *t, struct sl_writer *w, const char *directory)
{
    char path[4400], host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "localhost");
    int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%.0f.%s.%d", directory,
                     floor(unix_seconds()), host, (int)getpid());
    int rc = SL_EEXIST;
    for (int i = 0; rc == SL_EEXIST && i < NAMES_TRIED; i++) {
        if (i > 0)
            snprintf(path + n, sizeof path - (size_t)n, ".%d", i);
        rc = sl_writer_open(w, path, O_EXCL, SL_WRITER_RECORDS, "tensorboard/", &t->file);
    }
    return rc;
}

int sl_tensorboard_open(struct sl_tensorboard *t, struct sl_writer *w, const char *run_directory)
{
    char directory[4120];
    *t = (struct sl_tensorboard){0};
    snprintf(directory, sizeof directory, "%s/tensorboard", run_directory);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return sl_fail_errno(errno == EACCES || errno == EROFS ? SL_EACCESS : SL_EIO, errno,
                             "output: creating directory '%s'", directory);
    SL_TRY(create_file(t, w, directory));
    Sl__Tfevent__Event event = SL__TFEVENT__EVENT__INIT;
    char version[] = "brain.Event:2";
    event.what_case = SL__TFEVENT__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    add_event(t, 0, &event);
    return SL_OK;
}

// Before the first epoch: what earlier files have of this step on does not count.
static void begin_session(struct sl_tensorboard *t, uint64_t step)
{
    Sl__Tfevent__SessionLog log = SL__TFEVENT__SESSION_LOG__INIT;
    Sl__Tfevent__Event event = SL__TFEVENT__EVENT__INIT;
    log.status = SL__TFEVENT__SESSION_LOG__STATUS__START;
    event.what_case = SL__TFEVENT__EVENT__WHAT_SESSION_LOG;
    event.session_log = &log;
    add_event(t, step, &event);
    t->begun = true;
}

static void add_summary(struct sl_tensorboard *t, uint64_t step, size_t n,
                        Sl__Tfevent__Value **values)
{
    Sl__Tfevent__Summary summary = SL__TFEVENT__SUMMARY__INIT;
    Sl__Tfevent__Event event = SL__TFEVENT__EVENT__INIT;
    summary.value = values;
    summary.n_value = n;
    event.what_case = SL__TFEVENT__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    add_event(t, step, &event);
}

void sl_tensorboard_add_epoch(struct sl_tensorboard *t, const struct sl_epoch *figures,
                              uint64_t updates)
{
    if (!t->file)
        return;
    if (!t->begun)
        begin_session(t, updates);
    struct scalars scalars = {.n = 0};
    add_figures(&scalars, figures);
    add_summary(t, updates, scalars.n, scalars.list);
}

// --- hyperparameters -----------------------------------------------------------------------------

// A value without a number, whose tag and content the page of hyperparameters knows.
static void add_hparams(struct sl_tensorboard *t, const char *tag, const Sl__Tfevent__HParams *data)
{
    Sl__Tfevent__Value value = SL__TFEVENT__VALUE__INIT, *list[] = {&value};
    Sl__Tfevent__Metadata metadata = SL__TFEVENT__METADATA__INIT;
    Sl__Tfevent__PluginData plugin = SL__TFEVENT__PLUGIN_DATA__INIT;
    char name[] = "hparams";
    plugin.plugin_name = name;
    plugin.content.len = sl__tfevent__hparams__get_packed_size(data);
    plugin.content.data = malloc(plugin.content.len + 1);
    if (!plugin.content.data)
        return;
    sl__tfevent__hparams__pack(data, plugin.content.data);
    metadata.plugin_data = &plugin;
    value.tag = (char *)tag; // only read
    value.metadata = &metadata;
    add_summary(t, 0, 1, list);
    free(plugin.content.data);
}

struct settings {
    Sl__Tfevent__NamedSetting named[SETTINGS_MAX], *list[SETTINGS_MAX];
    Sl__Tfevent__Setting values[SETTINGS_MAX];
    char keys[SETTINGS_MAX][KEY_BYTES];
    char *texts[SETTINGS_MAX]; // of lists (owned)
    size_t n;
};

// NULL where there is no room: then it is left out.
static Sl__Tfevent__Setting *add_setting(struct settings *s, const char *path, const char *name)
{
    if (s->n == SETTINGS_MAX)
        return NULL;
    Sl__Tfevent__Setting *value = &s->values[s->n];
    sl__tfevent__setting__init(value);
    sl__tfevent__named_setting__init(&s->named[s->n]);
    snprintf(s->keys[s->n], KEY_BYTES, "%s%s%s", path, *path ? "." : "", name);
    s->named[s->n].key = s->keys[s->n];
    s->named[s->n].value = value;
    s->list[s->n] = &s->named[s->n];
    s->n++;
    return value;
}

static void add_number(struct settings *s, const char *path, const char *name, double number)
{
    Sl__Tfevent__Setting *value = add_setting(s, path, name);
    if (!value)
        return;
    value->kind_case = SL__TFEVENT__SETTING__KIND_NUMBER_VALUE;
    value->number_value = number;
}

static void add_word(struct settings *s, const char *path, const char *name, char *text)
{
    Sl__Tfevent__Setting *value = text ? add_setting(s, path, name) : NULL;
    if (!value)
        return;
    value->kind_case = SL__TFEVENT__SETTING__KIND_STRING_VALUE;
    value->string_value = text;
}

// Objects hold one another no deeper than the job file's do, which has one level.
static void add_settings(struct settings *s, const char *path, const cJSON *object)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (cJSON_IsObject(item) && !*path) {
            add_settings(s, item->string, item);
        } else if (cJSON_IsNumber(item)) {
            add_number(s, path, item->string, item->valuedouble);
        } else if (cJSON_IsString(item)) {
            add_word(s, path, item->string, item->valuestring);
        } else if (cJSON_IsBool(item)) {
            Sl__Tfevent__Setting *value = add_setting(s, path, item->string);
            if (!value)
                return;
            value->kind_case = SL__TFEVENT__SETTING__KIND_BOOL_VALUE;
            value->bool_value = cJSON_IsTrue(item);
        } else if (cJSON_IsArray(item) && s->n < SETTINGS_MAX) {
            const size_t at = s->n;
            s->texts[at] = sl_json_line(item);
            add_word(s, path, item->string, s->texts[at]);
        }
    }
}

void sl_tensorboard_begin_run(struct sl_tensorboard *t, const cJSON *config, uint64_t num_params)
{
    Sl__Tfevent__HParams data = SL__TFEVENT__HPARAMS__INIT;
    Sl__Tfevent__RunStart start = SL__TFEVENT__RUN_START__INIT;
    struct settings *s = calloc(1, sizeof *s);
    if (s && t->file) {
        add_settings(s, "", config);
        add_number(s, "", "num_params", (double)num_params);
        start.hparams = s->list;
        start.n_hparams = s->n;
        start.start_time_secs = unix_seconds();
        data.data_case = SL__TFEVENT__HPARAMS__DATA_SESSION_START_INFO;
        data.session_start_info = &start;
        add_hparams(t, "_hparams_/session_start_info", &data);
    }
    for (size_t i = 0; s && i < s->n; i++)
        free(s->texts[i]);
    free(s);
}

void sl_tensorboard_end_run(struct sl_tensorboard *t, bool done, const struct sl_evaluation *test,
                            uint64_t updates)
{
    Sl__Tfevent__HParams data = SL__TFEVENT__HPARAMS__INIT;
    Sl__Tfevent__RunEnd end = SL__TFEVENT__RUN_END__INIT;
    struct scalars scalars = {.n = 0};
    if (!t->file)
        return;
    if (test)
        add_evaluation(&scalars, "test_final", test);
    if (scalars.n)
        add_summary(t, updates, scalars.n, scalars.list);
    end.status =
        done ? SL__TFEVENT__RUN_END__STATUS__SUCCESS : SL__TFEVENT__RUN_END__STATUS__FAILURE;
    end.end_time_secs = unix_seconds();
    data.data_case = SL__TFEVENT__HPARAMS__DATA_SESSION_END_INFO;
    data.session_end_info = &end;
    add_hparams(t, "_hparams_/session_end_info", &data);
}
