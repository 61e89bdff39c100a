#include "cli/stats_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "common/text/layout.h"
#include "common/text/sentence.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/text/json.h"

enum { LINE_BYTES = 1024, WRAP_COLUMNS = 80, BRIEF_COLUMNS = 100 };

// --- a line --------------------------------------------------------------------------------------

static void add_phase(struct sl_sentence *l, const struct sl_stats *s)
{
    bool runs = strcmp(s->state, "running") == 0;
    if (!runs)
        sl_sentence_say(l, "%s", s->state);
    if (s->epochs > 0)
        sl_sentence_say(l, "%sepoch %.0f/%.0f", runs ? "" : "  ", SL_MIN(s->epoch + 1, s->epochs),
                        s->epochs);
    if (*s->phase && strcmp(s->phase, "train") != 0)
        sl_sentence_say(l, " %s", s->phase);
    if (s->total > 0)
        sl_sentence_say(l, " %.0f/%.0f", s->done, s->total);
}

// In the order in which they stand; what matters most is another order.
enum field { TIME, JOB, PHASE, RATE, LOSS, METRIC, LEFT, SPLIT, QUEUE, HITS, BOTTLENECK, N_FIELDS };

static void add_field(struct sl_sentence *l, enum field field, bool brief, const struct sl_stats *s)
{
    char units[SL_UNITS_BYTES];
    double seconds = s->time;
    time_t when = isfinite(seconds) ? (time_t)seconds : 0;
    struct tm local;
    switch (field) {
    case TIME:
        localtime_r(&when, &local);
        sl_sentence_say(l, "%02d:%02d:%02d", local.tm_hour, local.tm_min, local.tm_sec);
        break;
    case JOB: sl_sentence_say(l, "%s", s->job); break;
    case PHASE: add_phase(l, s); break;
    case RATE:
        if (isfinite(s->rates.batches))
            sl_sentence_say(l, "%s%s/s", sl_units_count(units, s->rates.batches),
                            brief ? "" : " batches");
        break;
    case LOSS:
        if (isfinite(s->loss))
            sl_sentence_say(l, "loss %.4f", s->loss);
        break;
    case METRIC:
        if (isfinite(s->metric.value))
            sl_sentence_say(l, "%s %.4f", s->metric.title, s->metric.value);
        break;
    case LEFT:
        if (s->seconds_left >= 0)
            sl_sentence_say(l, "%s left",
                            brief ? sl_units_rough_seconds(units, s->seconds_left, false)
                                  : sl_units_seconds(units, s->seconds_left));
        break;
    case SPLIT: sl_sentence_say(l, "%.0fS %.0fT", s->samplers, s->trainers); break;
    case QUEUE:
        if (isfinite(s->queue.batches))
            sl_sentence_say(l, "queue %.0f", s->queue.batches);
        break;
    case HITS:
        if (isfinite(s->cache.hit_rate))
            sl_sentence_say(l, "hits %.0f %%", 100 * s->cache.hit_rate);
        break;
    case BOTTLENECK: sl_sentence_say(l, "%s", s->bottleneck); break;
    case N_FIELDS: break;
    }
}

// The fields that are asked for, two blanks apart; how many columns that are.
static size_t join(char text[LINE_BYTES], const bool wanted[N_FIELDS], bool brief,
                   const struct sl_stats *s)
{
    struct sl_sentence l = {text, LINE_BYTES};
    *text = '\0';
    for (enum field f = 0; f < N_FIELDS; f++) {
        char field[LINE_BYTES] = "";
        struct sl_sentence part = {field, sizeof field};
        if (wanted[f])
            add_field(&part, f, brief, s);
        if (*field)
            sl_sentence_say(&l, "%s%s", *text ? "  " : "", field);
    }
    return sl_layout_width(text, strlen(text));
}

bool sl_stats_text_line(const struct sl_stats *s, unsigned columns, FILE *out)
{
    static const enum field by_weight[N_FIELDS] = {PHASE, LOSS,  JOB,  RATE, METRIC,    LEFT,
                                                   SPLIT, QUEUE, HITS, TIME, BOTTLENECK};
    bool wanted[N_FIELDS] = {false}, brief = columns && columns < BRIEF_COLUMNS;
    char text[LINE_BYTES];
    for (size_t i = 0; i < N_FIELDS; i++) {
        enum field f = by_weight[i];
        if (f == TIME && brief)
            continue; // in its place nothing would stand still
        wanted[f] = true;
        wanted[f] = join(text, wanted, brief, s) <= columns || !columns || i == 0;
    }
    join(text, wanted, brief, s);
    fputs(text, out);
    return wanted[BOTTLENECK];
}

// --- a page --------------------------------------------------------------------------------------

static void print_head(const struct sl_stats *s, FILE *out)
{
    char units[SL_UNITS_BYTES];
    fprintf(out, "%s", s->job);
    if (*s->id)
        fprintf(out, " (job %s)", s->id);
    fprintf(out, ": %s", s->state);
    if (s->epochs > 0)
        fprintf(out, ", epoch %.0f of %.0f", SL_MIN(s->epoch + 1, s->epochs), s->epochs);
    else if (isfinite(s->epoch)) // of a job that goes on until it is stopped
        fprintf(out, ", epoch %.0f", s->epoch + 1);
    if (s->total > 0)
        fprintf(out, " (%s, %.0f of %.0f)", s->phase, s->done, s->total);
    if (s->seconds >= 0)
        fprintf(out, ", for %s", sl_units_seconds(units, s->seconds));
    if (s->seconds_left >= 0)
        fprintf(out, ", %s left", sl_units_seconds(units, s->seconds_left));
    fprintf(out, "\n\n");
}

static void print_result(const struct sl_stats *s, FILE *out)
{
    if (!isfinite(s->loss))
        return;
    fprintf(out, "loss       %.4f", s->loss);
    if (isfinite(s->metric.value))
        fprintf(out, ", %s %.4f after epoch %.0f", s->metric.title, s->metric.value,
                s->metric.epoch + 1);
    else if (*s->metric.name)
        fprintf(out, ", %s unknown", s->metric.title);
    if (*s->metric.relation)
        fprintf(out, " of %s", s->metric.relation);
    if (isfinite(s->best.value))
        fprintf(out, ", the best %.4f after epoch %.0f", s->best.value, s->best.epoch + 1);
    fputc('\n', out);
}

static void print_split(const struct sl_stats *s, FILE *out)
{
    fprintf(out, "split      %s, %s", SL_PLURAL(s->samplers, "sampler"),
            SL_PLURAL(s->trainers, "trainer"));
    if (s->standby.there > 0)
        fprintf(out, ", %s (%.0f awake)", SL_PLURAL(s->standby.there, "standby trainer"),
                s->standby.awake);
    fputc('\n', out);
}

static void print_rates(const struct sl_stats *s, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    if (!isfinite(s->rates.batches))
        return;
    fprintf(out, "rates      %s batches/s, %s edges/s, %s input vertices/s, %s updates/s\n",
            sl_units_count(a, s->rates.batches), sl_units_count(b, s->rates.edges),
            sl_units_count(c, s->rates.input_nodes), sl_units_count(d, s->rates.updates));
    if (isfinite(s->rates.positives))
        fprintf(out, "pairs      %s positives/s, %s negatives/s\n",
                sl_units_count(a, s->rates.positives), sl_units_count(b, s->rates.negatives));
    fprintf(out, "bytes      blocks %s/s", sl_units_bytes(a, s->bytes.blocks));
    if (s->totals.blocks_near_bytes > 0)
        fprintf(out, " (%s/s near)", sl_units_bytes(a, s->bytes.blocks_near));
    fprintf(out, ", features %s/s from the store, %s/s from caches\n",
            sl_units_bytes(b, s->bytes.features_store), sl_units_bytes(c, s->bytes.features_cache));
}

static void print_queue(const struct sl_stats *s, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    if (!isfinite(s->queue.batches))
        return;
    fprintf(out, "queue      %.0f batches ready (%s of %s used), %.0f being drawn, %.0f trained\n",
            s->queue.batches, sl_units_bytes(a, s->queue.used_bytes),
            sl_units_bytes(b, s->queue.capacity_bytes), s->queue.sampling, s->queue.training);
}

static void print_cache(const struct sl_stats *s, FILE *out)
{
    if (isfinite(s->cache.hit_rate_total))
        fprintf(out, "cache      %s: %.1f %% hits now, %.1f %% in all\n", s->cache.policy,
                100 * s->cache.hit_rate, 100 * s->cache.hit_rate_total);
    if (isfinite(s->updates.staleness_mean))
        fprintf(out, "updates    %s: version %.0f, %.2g behind on average, %.0f at most\n",
                s->updates.mode, s->updates.version, s->updates.staleness_mean,
                s->updates.staleness_max);
}

static void print_links(const struct sl_stats *s, FILE *out)
{
    char n[SL_UNITS_BYTES];
    for (size_t i = 0; i < s->n_links; i++) {
        const struct sl_stats_link *l = &s->links[i];
        const bool memory = strcmp(l->from, "memory") == 0, peer = sl_stats_link_is_peer(l);
        fprintf(out, "%s device %.0f: %s of %s from %s%s\n", i == 0 ? "links     " : "          ",
                l->reader, sl_units_bytes(n, l->bytes), l->kind,
                memory ? "the machine's memory"
                : peer ? "device "
                       : "its own memory",
                peer ? l->from : "");
    }
}

static void print_memory(const struct sl_stats *s, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    if (!isfinite(s->memory.used))
        return;
    fprintf(out, "machine    %s of memory, %s at most; %.1f cores busy\n",
            sl_units_bytes(a, s->memory.used), sl_units_bytes(b, s->memory.peak), s->cpu_load);
}

const struct sl_stage_text sl_stage_texts[SL_LIVE_STAGES] = {
    {SL_LIVE_SAMPLE, true, "samplers draw"},
    {SL_LIVE_MARK, true, "samplers look up ranks"},
    {SL_LIVE_COPY, true, "samplers copy vertex lists"},
    {SL_LIVE_BACKPRESSURE, true, "samplers wait for memory"},
    {SL_LIVE_EXTRACT, false, "trainers gather features"},
    {SL_LIVE_TRAIN, false, "trainers compute"},
    {SL_LIVE_WAIT, false, "trainers wait"},
    {SL_LIVE_EVALUATE, false, "trainers evaluate"},
};

static void print_stages(const struct sl_stats *s, FILE *out)
{
    struct sl_table t;
    sl_table_init(&t, "l r r r r l",
                  (const char *[]){"stage", "busy", "a second", "p50", "p99", ""});
    for (size_t i = 0; i < SL_LIVE_STAGES; i++) {
        const struct sl_stage_text *text = &sl_stage_texts[i];
        const struct sl_stats_stage *stage = &s->stages[text->stage];
        char rate[SL_UNITS_BYTES], p50[SL_UNITS_BYTES], p99[SL_UNITS_BYTES];
        if (!(stage->count > 0))
            continue;
        sl_table_row(&t, "%s|%.0f %%|%s|%s|%s|%s", sl_stats_stage_names[text->stage],
                     100 * stage->busy, sl_units_count(rate, SL_MAX(stage->per_second, 0)),
                     sl_units_seconds(p50, stage->p50), sl_units_seconds(p99, stage->p99),
                     text->what);
    }
    fputc('\n', out);
    if (t.n_rows > 1)
        sl_table_print(&t, out);
    sl_table_fini(&t);
}

static void print_workers(const struct sl_stats *s, FILE *out)
{
    struct sl_table t;
    sl_table_init(&t, "l r l r r l",
                  (const char *[]){"worker", "process", "state", "busy", "batches/s", "at"});
    for (const struct sl_stats_worker *w = s->workers; w < s->workers + s->n_workers; w++) {
        char rate[SL_UNITS_BYTES], process[SL_UNITS_BYTES] = "-";
        if (isfinite(w->pid))
            snprintf(process, sizeof process, "%.0f", w->pid);
        sl_table_row(&t, "%s|%s|%s|%.0f %%|%s|%s", w->name, process, w->state,
                     isfinite(w->busy) ? 100 * w->busy : 0,
                     sl_units_count(rate, SL_MAX(w->batches_per_second, 0)), w->batch);
    }
    if (t.n_rows > 1) {
        fputc('\n', out);
        sl_table_print(&t, out);
    }
    sl_table_fini(&t);
}

// Of a job on several nodes a line each.
static void print_nodes(const struct sl_stats *s, FILE *out)
{
    struct sl_table t;
    if (s->n_nodes == 0)
        return;
    sl_table_init(&t, "r l l r r r r r r r r r",
                  (const char *[]){"node", "host", "split", "batches/s", "queue", "train", "wait",
                                   "late", "wire", "received/s", "remote", "after"});
    for (const struct sl_stats_node *n = s->nodes; n < s->nodes + s->n_nodes; n++) {
        char split[SL_UNITS_BYTES] = "-";
        if (isfinite(n->samplers))
            snprintf(split, sizeof split, "%.0fS %.0fT", n->samplers, n->trainers);
#define TEXT(format, x) sl_units_##format((char[SL_UNITS_BYTES]){0}, (x))
        sl_table_row(&t, "%.0f|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s", n->rank, n->host, split,
                     TEXT(count, n->batches_per_second), TEXT(whole, n->queue),
                     TEXT(percent, n->trains), TEXT(percent, n->waits), TEXT(percent, n->late),
                     TEXT(percent, n->wire), TEXT(brief_bytes, n->received_per_second),
                     TEXT(percent, n->remote_share), TEXT(brief_seconds, n->remote_seconds));
#undef TEXT
    }
    fputc('\n', out);
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

// What limits the job: a paragraph behind a word.
static void print_bottleneck(const char *head, const struct sl_stats *s, size_t columns, FILE *out)
{
    if (!*s->bottleneck)
        return;
    fputs(head, out);
    sl_layout_paragraph(s->bottleneck, strlen(head), columns, out);
}

void sl_stats_text_bottleneck(const struct sl_stats *s, unsigned columns, FILE *out)
{
    print_bottleneck("   bottleneck ", s, columns ? columns : WRAP_COLUMNS, out);
}

char *sl_stats_text_bottleneck_kind(const struct sl_stats *s, char *buf, size_t bytes)
{
    size_t n = 0;
    for (const char *p = s->bottleneck; *p && n + 1 < bytes; p++)
        if ((*p < '0' || *p > '9') && *p != '.')
            buf[n++] = *p;
    buf[n] = '\0';
    return buf;
}

void sl_stats_text_page(const struct sl_stats *s, FILE *out)
{
    print_head(s, out);
    print_split(s, out);
    print_result(s, out);
    print_rates(s, out);
    print_queue(s, out);
    print_cache(s, out);
    print_links(s, out);
    print_memory(s, out);
    print_bottleneck("bottleneck ", s, WRAP_COLUMNS, out);
    print_stages(s, out);
    print_nodes(s, out);
    print_workers(s, out);
}

// --- CSV -----------------------------------------------------------------------------------------

// A column's name and, where that is another, the path of its key.
// clang-format off
static const char *const columns[] = {
    "time", "job", "id", "state", "phase", "epoch", "epochs", "done", "total", "seconds",
    "seconds_left", "loss", "metric=metric.name", "metric_value=metric.value", "samplers",
    "trainers", "batches_per_s=rates.batches", "edges_per_s=rates.edges",
    "input_nodes_per_s=rates.input_nodes", "updates_per_s=rates.updates",
    "sample_busy=stages.sample.busy", "sample_p50=stages.sample.p50",
    "sample_p99=stages.sample.p99", "extract_busy=stages.extract.busy",
    "extract_p50=stages.extract.p50", "extract_p99=stages.extract.p99",
    "train_busy=stages.train.busy", "train_p50=stages.train.p50", "train_p99=stages.train.p99",
    "wait_busy=stages.wait.busy", "backpressure_busy=stages.backpressure.busy",
    "queue_batches=queue.batches", "queue_bytes=queue.bytes", "block_bytes_per_s=bytes.blocks",
    "cache_bytes_per_s=bytes.features_cache", "store_bytes_per_s=bytes.features_store",
    "hit_rate=cache.hit_rate", "version=updates.version", "staleness_mean=updates.staleness_mean",
    "memory_bytes=memory.used", "cpu_load", "bottleneck_role", "bottleneck",
};
// clang-format on

void sl_stats_text_csv_head(FILE *out)
{
    for (size_t i = 0; i < SL_COUNT_OF(columns); i++)
        fprintf(out, "%s%.*s", i ? "," : "", (int)strcspn(columns[i], "="), columns[i]);
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

void sl_stats_text_csv(const struct sl_stats *s, FILE *out)
{
    for (size_t i = 0; i < SL_COUNT_OF(columns); i++) {
        const char *path = strchr(columns[i], '=');
        const cJSON *item = sl_json_at(s->line, path ? path + 1 : columns[i]);
        double value = cJSON_IsNumber(item) ? item->valuedouble : NAN;
        if (i)
            fputc(',', out);
        if (cJSON_IsString(item))
            write_quoted(item->valuestring, out);
        else if (isfinite(value) && value == floor(value) && fabs(value) < 1e15)
            fprintf(out, "%.0f", value);
        else if (isfinite(value))
            fprintf(out, "%.*g", i == 0 ? 14 : 7, value);
    }
    fputc('\n', out);
}
