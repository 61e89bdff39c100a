#include "broker/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/tfevent.pb-c.h"
#include "common/base/error.h"

enum {
    SCALARS_MAX = 32,
    TAG_BYTES = 48,
    EVENT_BYTES = SCALARS_MAX * (TAG_BYTES + 16) + 64,
    FRAME_BYTES = 16, // around the bytes of a record: length and checksums
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
    uint8_t record[FRAME_BYTES + EVENT_BYTES];
    size_t n = sl__tfevent__event__get_packed_size(event);
    if (n > EVENT_BYTES)
        return; // which SCALARS_MAX and TAG_BYTES rule out
    put_u32(record, (uint32_t)n);
    put_u32(record + 4, 0);
    put_u32(record + 8, sl_crc32c_masked(record, 8));
    sl__tfevent__event__pack(event, record + 12);
    put_u32(record + 12 + n, sl_crc32c_masked(record + 12, n));
    sl_writer_add(t->file, record, n + FRAME_BYTES);
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

void sl_tensorboard_add_epoch(struct sl_tensorboard *t, const struct sl_epoch *figures,
                              uint64_t updates)
{
    if (!t->file)
        return;
    if (!t->begun)
        begin_session(t, updates);
    struct scalars scalars = {.n = 0};
    Sl__Tfevent__Summary summary = SL__TFEVENT__SUMMARY__INIT;
    Sl__Tfevent__Event event = SL__TFEVENT__EVENT__INIT;
    add_figures(&scalars, figures);
    summary.value = scalars.list;
    summary.n_value = scalars.n;
    event.what_case = SL__TFEVENT__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    add_event(t, updates, &event);
}
