#include "cli/report_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/run_summary.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "broker/epochs/metrics.h"
#include "common/base/bits.h"
#include "common/text/json.h"

enum { CELL_BYTES = 64, ROW_BYTES = 1024 };

// Where a list begins of which only the newest are shown; says how many are not.
static int first_shown(FILE *out, const cJSON *list, bool all, const char *what)
{
    int n = cJSON_GetArraySize(list), first = all ? 0 : SL_MAX(n - SL_REPORT_VIEW_NEWEST, 0);
    if (first > 0)
        fprintf(out, "(%d earlier %s: --all shows them)\n", first, what);
    return first;
}

// --- the table of epochs -------------------------------------------------------------------------

// What a cell is written from.
struct epochs {
    const struct sl_read_report *r;
    const char *metric; // that evaluations are judged by
};

static void fixed(char *out, double value, int digits)
{
    if (isnan(value))
        *out = '\0';
    else
        snprintf(out, CELL_BYTES, "%.*f", digits, value);
}

static void duration(char *out, double seconds)
{
    char time[SL_UNITS_BYTES];
    if (isfinite(seconds))
        snprintf(out, CELL_BYTES, "%s", sl_units_seconds(time, seconds));
}

// What it added to the epoch's time, and what it took beside the next epoch.
static void evaluation(char *out, const struct sl_report_epoch *e)
{
    char beside[SL_UNITS_BYTES];
    duration(out, e->val || e->test ? e->evaluate_seconds : NAN);
    if (*out && e->overlapped_seconds > 0)
        snprintf(out + strlen(out), CELL_BYTES - strlen(out), ", beside %s",
                 sl_units_seconds(beside, e->overlapped_seconds));
}

// X(column, heading, alignment)
#define COLUMNS(X)                                                                                 \
    X(EPOCH, "epoch", 'r')                                                                         \
    X(LOSS, "loss", 'r')                                                                           \
    X(TRAIN, "train", 'r')                                                                         \
    X(VAL, "val", 'l')                                                                             \
    X(TEST, "test", 'r')                                                                           \
    X(SECONDS, "seconds", 'r')                                                                     \
    X(EVALUATION, "evaluation", 'r')                                                               \
    X(HITS, "hits", 'r')                                                                           \
    X(SPLIT, "split", 'r')                                                                         \
    X(STANDBY, "standby batches", 'r')                                                             \
    X(BOTTLENECK, "bottleneck", 'l')
#define NAME(column, ...)             column,
#define ROW(column, heading_, align_) {heading_, align_},
enum column { COLUMNS(NAME) N_COLUMNS };
static const struct {
    const char *heading;
    char align;
} columns[N_COLUMNS] = {COLUMNS(ROW)};

static void write_value(enum column column, const struct epochs *of,
                        const struct sl_report_epoch *e, char *out)
{
    switch (column) {
    case EPOCH: fixed(out, e->epoch + 1, 0); break;
    case LOSS: fixed(out, e->loss, 4); break;
    case TRAIN: fixed(out, e->train_accuracy, 4); break;
    case VAL:
        fixed(out, sl_json_number(e->val, of->metric), 4);
        if (*out && of->r->of.best_metric.epoch == e->epoch)
            strncat(out, " *", CELL_BYTES - 1 - strlen(out));
        break;
    case TEST: fixed(out, sl_json_number(e->test, of->metric), 4); break;
    case SECONDS: duration(out, e->seconds); break;
    case EVALUATION: evaluation(out, e); break;
    case HITS:
        if (e->cache.ranked)
            snprintf(out, CELL_BYTES, "%.1f %%", 100 * e->cache.hit_rate);
        break;
    case SPLIT:
        if (!isnan(e->samplers))
            snprintf(out, CELL_BYTES, "%.0f+%.0f", e->samplers, e->trainers);
        break;
    case STANDBY: fixed(out, e->switching.batches > 0 ? e->switching.batches : NAN, 0); break;
    case BOTTLENECK:
        snprintf(out, CELL_BYTES, "%.*s", (int)strcspn(e->bottleneck, ":"), e->bottleneck);
        break;
    case N_COLUMNS: break;
    }
}

// A cell of which nothing is known stays empty; a '|' would be a new one.
static void write_cell(enum column column, const struct epochs *of, size_t epoch, char *out)
{
    *out = '\0';
    write_value(column, of, &of->r->epochs[epoch], out);
    for (char *p = out; (p = strchr(p, '|'));)
        *p = '/';
}

static void print_table(FILE *out, const struct epochs *of, size_t first)
{
    char align[2 * N_COLUMNS + 1] = "", cell[CELL_BYTES], title[SL_MEASURE_TITLE];
    const char *headings[N_COLUMNS], *heading = of->metric;
    if (strcmp(heading, sl_measure_key(SL_MEASURE_HITS)) == 0) // "hits" alone are the caches'
        heading = sl_measure_title(SL_MEASURE_HITS, sl_json_number(of->r->of.config, "evaluate.k"),
                                   title);
    const bool links = strcmp(sl_json_string(of->r->of.config, "task.kind"), "link") == 0;
    bool shown[N_COLUMNS] = {false};
    size_t n = 0;
    for (enum column c = 0; c < N_COLUMNS; c++) {
        for (size_t i = first; i < of->r->n_epochs && !shown[c]; i++) {
            write_cell(c, of, i, cell);
            shown[c] = *cell != '\0';
        }
        if (!shown[c])
            continue;
        align[n] = columns[c].align;
        headings[n++] = c == VAL              ? heading
                        : c == TRAIN && links ? "pairs right"
                                              : columns[c].heading;
    }
    struct sl_table t;
    sl_table_init(&t, align, headings);
    for (size_t i = first; i < of->r->n_epochs; i++) {
        char row[ROW_BYTES] = "";
        size_t used = 0;
        for (enum column c = 0; c < N_COLUMNS; c++) {
            if (!shown[c])
                continue;
            write_cell(c, of, i, cell);
            used += (size_t)snprintf(row + used, sizeof row - used, "%s%s", used ? "|" : "", cell);
        }
        sl_table_row(&t, "%s", row);
    }
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

// The key that `val` of epochs is read by: what the best is judged by, else the first there is.
// Borrowed from the report.
static const char *metric_of(const struct sl_read_report *r)
{
    if (*r->of.best_metric.name)
        return r->of.best_metric.name;
    for (size_t i = 0; i < r->n_epochs; i++)
        if (r->epochs[i].val && r->epochs[i].val->child)
            return r->epochs[i].val->child->string;
    return "accuracy";
}

static void print_epochs(FILE *out, const struct sl_read_report *r, bool all)
{
    const struct epochs of = {r, metric_of(r)};
    if (r->n_epochs == 0)
        return;
    fprintf(out, "\nEpochs\n");
    print_table(out, &of, (size_t)first_shown(out, r->of.epochs, all, "epochs"));
}

// --- what limited them ---------------------------------------------------------------------------

static bool same_limit(const struct sl_report_epoch *a, const struct sl_report_epoch *b)
{
    size_t n = strcspn(a->bottleneck, ":");
    return n == strcspn(b->bottleneck, ":") && strncmp(a->bottleneck, b->bottleneck, n) == 0;
}

// A line for each run of epochs with the same limit, with the evidence of the last of them.
static void print_limits(FILE *out, const struct sl_read_report *r)
{
    if (r->n_epochs > 0)
        fprintf(out, "\nBottlenecks\n");
    for (const struct sl_report_epoch *begin = r->epochs, *last; begin < r->epochs + r->n_epochs;
         begin = last + 1) {
        for (last = begin; last < r->last && same_limit(begin, last + 1);)
            last++;
        if (begin == last)
            fprintf(out, "  epoch %.0f: %s\n", begin->epoch + 1, last->bottleneck);
        else
            fprintf(out, "  epochs %.0f to %.0f: %s (epoch %.0f)\n", begin->epoch + 1,
                    last->epoch + 1, last->bottleneck, last->epoch + 1);
    }
}

// --- decisions, deaths, events -------------------------------------------------------------------

// A list of the report, under its heading unless it is empty.
static const cJSON *begin_list(FILE *out, const cJSON *list, const char *heading)
{
    if (cJSON_GetArraySize(list) > 0)
        fprintf(out, "\n%s\n", heading);
    return list;
}

static void print_allocations(FILE *out, const struct sl_report_totals *r)
{
    struct sl_report_allocation a;
    const cJSON *list = begin_list(out, r->allocations, "Decisions on the split");
    SL_FOR_EACH_ENTRY(a, sl_report_allocation_fields, list)
    {
        fprintf(out, "  epoch %.0f: %.0f+%.0f%s%s\n", a.epoch + 1, a.samplers, a.trainers,
                *a.reason ? ": " : "", a.reason);
    }
}

static void print_scales(FILE *out, const struct sl_report_totals *r)
{
    struct sl_report_scale s;
    const cJSON *list = begin_list(out, r->scales, "Changes while it ran");
    char at[SL_UNITS_BYTES], took[SL_UNITS_BYTES];
    SL_FOR_EACH_ENTRY(s, sl_report_scale_fields, list)
    {
        fprintf(out, "  %s, epoch %.0f, by the %s: %.0f+%.0f -> %.0f+%.0f",
                sl_units_seconds(at, s.seconds), s.epoch + 1, s.by, s.from.samplers,
                s.from.trainers, s.to.samplers, s.to.trainers);
        if (s.ok)
            fprintf(out, " in %s: %s\n", sl_units_seconds(took, s.took_seconds), s.message);
        else
            fprintf(out, " refused: %s\n", s.message);
    }
}

static void print_restarts(FILE *out, const struct sl_report_totals *r)
{
    struct sl_report_restart d;
    const cJSON *list = begin_list(out, r->restarts, "Workers that died");
    char at[SL_UNITS_BYTES];
    if (r->restarts_left_out > 0)
        fprintf(out, "  (%.0f before these)\n", r->restarts_left_out);
    SL_FOR_EACH_ENTRY(d, sl_report_restart_fields, list)
    {
        fprintf(out, "  %s, %s (process %.0f): %s%s%s\n", sl_units_seconds(at, d.seconds), d.worker,
                d.pid, d.cause, *d.held ? "; it held " : "", d.held);
    }
}

static void print_resumes(FILE *out, const struct sl_report_totals *r)
{
    struct sl_report_resume e;
    const cJSON *list = begin_list(out, r->resumes, "Gone on from a checkpoint");
    char before[SL_UNITS_BYTES];
    SL_FOR_EACH_ENTRY(e, sl_report_resume_fields, list)
    {
        fprintf(out, "  after update %.0f, in epoch %.0f, %s from the start\n", e.update,
                e.epoch + 1, sl_units_seconds(before, e.seconds_before));
    }
}

// Ends of epochs stand in the table above.
static void print_events(FILE *out, const cJSON *run, bool all)
{
    const cJSON *e;
    char at[SL_UNITS_BYTES];
    cJSON *list = cJSON_CreateArray();
    cJSON_ArrayForEach(e, sl_json_at(run, "events"))
    {
        if (strcmp(sl_json_string(e, "kind"), "epoch") != 0)
            cJSON_AddItemReferenceToArray(list, (cJSON *)e); // only read
    }
    if (cJSON_GetArraySize(list) > 0) {
        fprintf(out, "\nEvents\n");
        int i = 0, first = first_shown(out, list, all, "events");
        cJSON_ArrayForEach(e, list)
        {
            if (i++ < first)
                continue;
            fprintf(out, "  %9s  %-10s  %s\n", sl_units_seconds(at, sl_json_number(e, "seconds")),
                    sl_json_string(e, "kind"), sl_json_string(e, "text"));
        }
    }
    cJSON_Delete(list);
}

void sl_report_view_print(FILE *out, const cJSON *run, const struct sl_read_report *r, bool all)
{
    sl_run_summary_print(out, r, sl_json_string(run, "output"));
    if (*r->of.message)
        fprintf(out, "message     %s\n", r->of.message);
    print_epochs(out, r, all);
    print_limits(out, r);
    print_allocations(out, &r->of);
    print_scales(out, &r->of);
    print_restarts(out, &r->of);
    print_resumes(out, &r->of);
    print_events(out, run, all);
}
