#include "broker/cli/stats_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "broker/cli/layout.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/text/json.h"

enum { LINE_BYTES = 1024, WRAP_COLUMNS = 80, BRIEF_COLUMNS = 100 };

// --- reading -------------------------------------------------------------------------------------

static uint64_t whole(double x)
{
    return x > 0 ? (uint64_t)x : 0;
}

static const char *plural(double n)
{
    return n == 1 ? "" : "s";
}

// --- a line --------------------------------------------------------------------------------------

struct line {
    char text[LINE_BYTES];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (l->n < sizeof l->text) {
        int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, fmt, ap);
        l->n = SL_MIN(l->n + (size_t)SL_MAX(n, 0), sizeof l->text - 1);
    }
    va_end(ap);
}

static void add_phase(struct line *l, const cJSON *s)
{
    const char *phase = sl_json_string(s, "phase"), *state = sl_json_string(s, "state");
    double total = sl_json_number(s, "total");
    if (strcmp(state, "running") != 0)
        add(l, "%s", state);
    if (sl_json_number(s, "epochs") > 0)
        add(l, "%sepoch %.0f/%.0f", l->n ? "  " : "",
            SL_MIN(sl_json_number(s, "epoch") + 1, sl_json_number(s, "epochs")),
            sl_json_number(s, "epochs"));
    if (*phase && strcmp(phase, "train") != 0)
        add(l, " %s", phase);
    if (total > 0)
        add(l, " %.0f/%.0f", sl_json_number(s, "done"), total);
}

// In the order in which they stand; what matters most is another order.
enum field { TIME, JOB, PHASE, RATE, LOSS, METRIC, LEFT, SPLIT, QUEUE, HITS, LIMIT, N_FIELDS };

static void add_field(struct line *l, enum field field, bool brief, const cJSON *s)
{
    char units[SL_UNITS_BYTES];
    double seconds = sl_json_number(s, "time");
    time_t when = isfinite(seconds) ? (time_t)seconds : 0;
    struct tm local;
    switch (field) {
    case TIME:
        localtime_r(&when, &local);
        add(l, "%02d:%02d:%02d", local.tm_hour, local.tm_min, local.tm_sec);
        break;
    case JOB: add(l, "%s", sl_json_string(s, "job")); break;
    case PHASE: add_phase(l, s); break;
    case RATE:
        if (isfinite(sl_json_number(s, "rates.batches")))
            add(l, "%s%s/s", sl_units_count(units, sl_json_number(s, "rates.batches")),
                brief ? "" : " batches");
        break;
    case LOSS:
        if (isfinite(sl_json_number(s, "loss")))
            add(l, "loss %.4f", sl_json_number(s, "loss"));
        break;
    case METRIC:
        if (isfinite(sl_json_number(s, "metric.value")))
            add(l, "%s %.4f", sl_json_string(s, "metric.name"), sl_json_number(s, "metric.value"));
        break;
    case LEFT:
        if (sl_json_number(s, "seconds_left") >= 0)
            add(l, "%s left",
                brief ? sl_layout_duration(units, sl_json_number(s, "seconds_left"), false)
                      : sl_units_seconds(units, sl_json_number(s, "seconds_left")));
        break;
    case SPLIT:
        add(l, "%.0fS %.0fT", sl_json_number(s, "samplers"), sl_json_number(s, "trainers"));
        break;
    case QUEUE:
        if (isfinite(sl_json_number(s, "queue.batches")))
            add(l, "queue %.0f", sl_json_number(s, "queue.batches"));
        break;
    case HITS:
        if (isfinite(sl_json_number(s, "cache.hit_rate")))
            add(l, "hits %.0f %%", 100 * sl_json_number(s, "cache.hit_rate"));
        break;
    case LIMIT: add(l, "%s", sl_json_string(s, "bottleneck")); break;
    case N_FIELDS: break;
    }
}

// The fields that are asked for, two blanks apart; how many columns that are.
static size_t join(struct line *l, const bool wanted[N_FIELDS], bool brief, const cJSON *s)
{
    l->n = 0;
    l->text[0] = '\0';
    for (enum field f = 0; f < N_FIELDS; f++) {
        struct line part = {.n = 0};
        if (wanted[f])
            add_field(&part, f, brief, s);
        if (part.n)
            add(l, "%s%s", l->n ? "  " : "", part.text);
    }
    return sl_layout_width(l->text, l->n);
}

bool sl_stats_text_line(const cJSON *s, unsigned columns, FILE *out)
{
    static const enum field by_weight[N_FIELDS] = {PHASE, LOSS,  JOB,  RATE, METRIC, LEFT,
                                                   SPLIT, QUEUE, HITS, TIME, LIMIT};
    bool wanted[N_FIELDS] = {false}, brief = columns && columns < BRIEF_COLUMNS;
    struct line l;
    for (size_t i = 0; i < N_FIELDS; i++) {
        enum field f = by_weight[i];
        if (f == TIME && brief)
            continue; // in its place nothing would stand still
        wanted[f] = true;
        wanted[f] = join(&l, wanted, brief, s) <= columns || !columns || i == 0;
    }
    join(&l, wanted, brief, s);
    fputs(l.text, out);
    return wanted[LIMIT];
}

// --- a page --------------------------------------------------------------------------------------

static void print_head(const cJSON *s, FILE *out)
{
    struct line l = {.n = 0};
    char units[SL_UNITS_BYTES];
    add(&l, "%s", sl_json_string(s, "job"));
    if (*sl_json_string(s, "id"))
        add(&l, " (job %s)", sl_json_string(s, "id"));
    add(&l, ": %s", sl_json_string(s, "state"));
    if (sl_json_number(s, "epochs") > 0)
        add(&l, ", epoch %.0f of %.0f",
            SL_MIN(sl_json_number(s, "epoch") + 1, sl_json_number(s, "epochs")),
            sl_json_number(s, "epochs"));
    if (sl_json_number(s, "total") > 0)
        add(&l, " (%s, %.0f of %.0f)", sl_json_string(s, "phase"), sl_json_number(s, "done"),
            sl_json_number(s, "total"));
    if (sl_json_number(s, "seconds") >= 0)
        add(&l, ", for %s", sl_units_seconds(units, sl_json_number(s, "seconds")));
    if (sl_json_number(s, "seconds_left") >= 0)
        add(&l, ", %s left", sl_units_seconds(units, sl_json_number(s, "seconds_left")));
    fprintf(out, "%s\n\n", l.text);
}

static void print_result(const cJSON *s, FILE *out)
{
    struct line l = {.n = 0};
    if (!isfinite(sl_json_number(s, "loss")))
        return;
    add(&l, "loss       %.4f", sl_json_number(s, "loss"));
    if (isfinite(sl_json_number(s, "metric.value")))
        add(&l, ", %s %.4f after epoch %.0f", sl_json_string(s, "metric.name"),
            sl_json_number(s, "metric.value"), sl_json_number(s, "metric.epoch") + 1);
    if (isfinite(sl_json_number(s, "best.value")))
        add(&l, ", the best %.4f after epoch %.0f", sl_json_number(s, "best.value"),
            sl_json_number(s, "best.epoch") + 1);
    fprintf(out, "%s\n", l.text);
}

static void print_split(const cJSON *s, FILE *out)
{
    double samplers = sl_json_number(s, "samplers"), trainers = sl_json_number(s, "trainers");
    double there = sl_json_number(s, "standby.there");
    fprintf(out, "split      %.0f sampler%s, %.0f trainer%s", samplers, plural(samplers), trainers,
            plural(trainers));
    if (there > 0)
        fprintf(out, ", %.0f standby trainer%s (%.0f awake)", there, plural(there),
                sl_json_number(s, "standby.awake"));
    fputc('\n', out);
}

static void print_rates(const cJSON *s, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    if (!isfinite(sl_json_number(s, "rates.batches")))
        return;
    fprintf(out, "rates      %s batches/s, %s edges/s, %s input vertices/s, %s updates/s\n",
            sl_units_count(a, sl_json_number(s, "rates.batches")),
            sl_units_count(b, sl_json_number(s, "rates.edges")),
            sl_units_count(c, sl_json_number(s, "rates.input_nodes")),
            sl_units_count(d, sl_json_number(s, "rates.updates")));
    fprintf(out, "bytes      blocks %s/s, features %s/s from the store, %s/s from caches\n",
            sl_units_bytes(a, whole(sl_json_number(s, "bytes.blocks"))),
            sl_units_bytes(b, whole(sl_json_number(s, "bytes.features_store"))),
            sl_units_bytes(c, whole(sl_json_number(s, "bytes.features_cache"))));
}

static void print_queue(const cJSON *s, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    if (!isfinite(sl_json_number(s, "queue.batches")))
        return;
    fprintf(out, "queue      %.0f batches ready (%s of %s used), %.0f being drawn, %.0f trained\n",
            sl_json_number(s, "queue.batches"),
            sl_units_bytes(a, whole(sl_json_number(s, "queue.used_bytes"))),
            sl_units_bytes(b, whole(sl_json_number(s, "queue.capacity_bytes"))),
            sl_json_number(s, "queue.sampling"), sl_json_number(s, "queue.training"));
}

static void print_cache(const cJSON *s, FILE *out)
{
    if (isfinite(sl_json_number(s, "cache.hit_rate_total")))
        fprintf(out, "cache      %s: %.1f %% hits now, %.1f %% in all\n",
                sl_json_string(s, "cache.policy"), 100 * sl_json_number(s, "cache.hit_rate"),
                100 * sl_json_number(s, "cache.hit_rate_total"));
    if (isfinite(sl_json_number(s, "updates.staleness_mean")))
        fprintf(out, "updates    %s: version %.0f, %.2g behind on average, %.0f at most\n",
                sl_json_string(s, "updates.mode"), sl_json_number(s, "updates.version"),
                sl_json_number(s, "updates.staleness_mean"),
                sl_json_number(s, "updates.staleness_max"));
}

static void print_memory(const cJSON *s, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    if (!isfinite(sl_json_number(s, "memory.used")))
        return;
    fprintf(out, "machine    %s of memory, %s at most; %.1f cores busy\n",
            sl_units_bytes(a, whole(sl_json_number(s, "memory.used"))),
            sl_units_bytes(b, whole(sl_json_number(s, "memory.peak"))),
            sl_json_number(s, "cpu_load"));
}

static const char *seconds_or_dash(char buf[SL_UNITS_BYTES], double seconds)
{
    return isfinite(seconds) ? sl_units_seconds(buf, seconds) : "-";
}

const struct sl_stage_text sl_stage_texts[SL_STAGE_TEXTS] = {
    {"sample", "samplers draw"},
    {"mark", "samplers look up ranks"},
    {"copy", "samplers copy vertex lists"},
    {"backpressure", "samplers wait for memory"},
    {"extract", "trainers gather features"},
    {"train", "trainers compute"},
    {"wait", "trainers wait"},
    {"evaluate", "trainers evaluate"},
};

static void print_stages(const cJSON *s, FILE *out)
{
    struct sl_table t;
    sl_table_init(&t, "l r r r r l",
                  (const char *[]){"stage", "busy", "a second", "p50", "p99", ""});
    for (size_t i = 0; i < SL_STAGE_TEXTS; i++) {
        const cJSON *stage = sl_json_at(sl_json_at(s, "stages"), sl_stage_texts[i].name);
        char rate[SL_UNITS_BYTES], p50[SL_UNITS_BYTES], p99[SL_UNITS_BYTES];
        if (!(sl_json_number(stage, "count") > 0))
            continue;
        sl_table_row(&t, "%s|%.0f %%|%s|%s|%s|%s", sl_stage_texts[i].name,
                     100 * sl_json_number(stage, "busy"),
                     sl_units_count(rate, SL_MAX(sl_json_number(stage, "per_second"), 0)),
                     seconds_or_dash(p50, sl_json_number(stage, "p50")),
                     seconds_or_dash(p99, sl_json_number(stage, "p99")), sl_stage_texts[i].what);
    }
    fputc('\n', out);
    if (t.n_rows > 1)
        sl_table_print(&t, out);
    sl_table_fini(&t);
}

static void print_workers(const cJSON *s, FILE *out)
{
    const cJSON *w;
    struct sl_table t;
    sl_table_init(&t, "l l r r l", (const char *[]){"worker", "state", "busy", "batches/s", "at"});
    cJSON_ArrayForEach(w, sl_json_at(s, "workers"))
    {
        char rate[SL_UNITS_BYTES];
        double busy = sl_json_number(w, "busy");
        sl_table_row(&t, "%s|%s|%.0f %%|%s|%s", sl_json_string(w, "name"),
                     sl_json_string(w, "state"), isfinite(busy) ? 100 * busy : 0,
                     sl_units_count(rate, SL_MAX(sl_json_number(w, "batches_per_second"), 0)),
                     sl_json_string(w, "batch"));
    }
    if (t.n_rows > 1) {
        fputc('\n', out);
        sl_table_print(&t, out);
    }
    sl_table_fini(&t);
}

// What limits the job: a paragraph behind a word.
static void print_limit(const char *head, const cJSON *s, size_t columns, FILE *out)
{
    enum { INDENT = 11 };
    const char *limit = sl_json_string(s, "bottleneck");
    if (!*limit)
        return;
    fprintf(out, "%-*s", INDENT, head);
    sl_layout_paragraph(limit, INDENT, columns, out);
}

void sl_stats_text_limit(const cJSON *s, unsigned columns, FILE *out)
{
    print_limit("   limit", s, columns ? columns : WRAP_COLUMNS, out);
}

char *sl_stats_text_limit_kind(const cJSON *s, char *buf, size_t bytes)
{
    size_t n = 0;
    for (const char *p = sl_json_string(s, "bottleneck"); *p && n + 1 < bytes; p++)
        if ((*p < '0' || *p > '9') && *p != '.')
            buf[n++] = *p;
    buf[n] = '\0';
    return buf;
}

void sl_stats_text_page(const cJSON *s, FILE *out)
{
    print_head(s, out);
    print_split(s, out);
    print_result(s, out);
    print_rates(s, out);
    print_queue(s, out);
    print_cache(s, out);
    print_memory(s, out);
    print_limit("limit", s, WRAP_COLUMNS, out);
    print_stages(s, out);
    print_workers(s, out);
}

// --- CSV -----------------------------------------------------------------------------------------

static const struct {
    const char *column, *path;
    bool is_text;
} columns[] = {
    {"time", "time", false},
    {"job", "job", true},
    {"id", "id", true},
    {"state", "state", true},
    {"phase", "phase", true},
    {"epoch", "epoch", false},
    {"epochs", "epochs", false},
    {"done", "done", false},
    {"total", "total", false},
    {"seconds", "seconds", false},
    {"seconds_left", "seconds_left", false},
    {"loss", "loss", false},
    {"metric", "metric.name", true},
    {"metric_value", "metric.value", false},
    {"samplers", "samplers", false},
    {"trainers", "trainers", false},
    {"batches_per_s", "rates.batches", false},
    {"edges_per_s", "rates.edges", false},
    {"input_nodes_per_s", "rates.input_nodes", false},
    {"updates_per_s", "rates.updates", false},
    {"sample_busy", "stages.sample.busy", false},
    {"sample_p50", "stages.sample.p50", false},
    {"sample_p99", "stages.sample.p99", false},
    {"extract_busy", "stages.extract.busy", false},
    {"extract_p50", "stages.extract.p50", false},
    {"extract_p99", "stages.extract.p99", false},
    {"train_busy", "stages.train.busy", false},
    {"train_p50", "stages.train.p50", false},
    {"train_p99", "stages.train.p99", false},
    {"wait_busy", "stages.wait.busy", false},
    {"backpressure_busy", "stages.backpressure.busy", false},
    {"queue_batches", "queue.batches", false},
    {"queue_bytes", "queue.bytes", false},
    {"block_bytes_per_s", "bytes.blocks", false},
    {"cache_bytes_per_s", "bytes.features_cache", false},
    {"store_bytes_per_s", "bytes.features_store", false},
    {"hit_rate", "cache.hit_rate", false},
    {"version", "updates.version", false},
    {"staleness_mean", "updates.staleness_mean", false},
    {"memory_bytes", "memory.used", false},
    {"cpu_load", "cpu_load", false},
    {"bottleneck_role", "bottleneck_role", true},
    {"bottleneck", "bottleneck", true},
};

void sl_stats_text_csv_head(FILE *out)
{
    for (size_t i = 0; i < SL_COUNT_OF(columns); i++)
        fprintf(out, "%s%s", i ? "," : "", columns[i].column);
    fputc('\n', out);
}

static void write_quoted(const char *value, FILE *out)
{
    bool plain = !strpbrk(value, ",\"\r\n");
    if (!plain)
        fputc('"', out);
    for (; *value; value++) {
        if (*value == '"')
            fputc('"', out);
        fputc(*value, out);
    }
    if (!plain)
        fputc('"', out);
}

void sl_stats_text_csv(const cJSON *s, FILE *out)
{
    for (size_t i = 0; i < SL_COUNT_OF(columns); i++) {
        double value = sl_json_number(s, columns[i].path);
        if (i)
            fputc(',', out);
        if (columns[i].is_text)
            write_quoted(sl_json_string(s, columns[i].path), out);
        else if (isfinite(value) && value == floor(value) && fabs(value) < 1e15)
            fprintf(out, "%.0f", value);
        else if (isfinite(value))
            fprintf(out, "%.*g", i == 0 ? 14 : 7, value);
    }
    fputc('\n', out);
}
