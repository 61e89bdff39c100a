#include "cli/report_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/run_summary.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "broker/metrics.h"
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
    const cJSON *report;
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

enum column {
    EPOCH,
    LOSS,
    TRAIN,
    VAL,
    TEST,
    SECONDS,
    EVALUATION,
    HITS,
    SPLIT,
    STANDBY,
    LIMIT,
    N_COLUMNS
};
static const struct {
    const char *heading;
    char align;
} columns[N_COLUMNS] = {
    [EPOCH] = {"epoch", 'r'},
    [LOSS] = {"loss", 'r'},
    [TRAIN] = {"train", 'r'},
    [VAL] = {"val", 'l'},
    [TEST] = {"test", 'r'},
    [SECONDS] = {"seconds", 'r'},
    [EVALUATION] = {"evaluation", 'r'},
    [HITS] = {"hits", 'r'},
    [SPLIT] = {"split", 'r'},
    [STANDBY] = {"standby batches", 'r'},
    [LIMIT] = {"limit", 'l'},
};

static void write_value(enum column column, const struct epochs *of, const cJSON *e, char *out)
{
    const cJSON *val = sl_json_at(e, "val"), *test = sl_json_at(e, "test");
    const char *limit = sl_json_string(e, "bottleneck");
    double standby = sl_json_number(e, "switching.batches");
    switch (column) {
    case EPOCH: fixed(out, sl_json_number(e, "epoch") + 1, 0); break;
    case LOSS: fixed(out, sl_json_number(e, "loss"), 4); break;
    case TRAIN: fixed(out, sl_json_number(e, "train_accuracy"), 4); break;
    case VAL:
        fixed(out, sl_json_number(val, of->metric), 4);
        if (*out && sl_json_number(of->report, "best_metric.epoch") == sl_json_number(e, "epoch"))
            strncat(out, " *", CELL_BYTES - 1 - strlen(out));
        break;
    case TEST: fixed(out, sl_json_number(test, of->metric), 4); break;
    case SECONDS: duration(out, sl_json_number(e, "seconds")); break;
    case EVALUATION:
        if (cJSON_IsObject(val) || cJSON_IsObject(test))
            duration(out, sl_json_number(e, "evaluate_seconds"));
        break;
    case HITS:
        if (cJSON_IsTrue(sl_json_at(e, "cache.ranked")))
            snprintf(out, CELL_BYTES, "%.1f %%", 100 * sl_json_number(e, "cache.hit_rate"));
        break;
    case SPLIT:
        if (!isnan(sl_json_number(e, "samplers")))
            snprintf(out, CELL_BYTES, "%.0f+%.0f", sl_json_number(e, "samplers"),
                     sl_json_number(e, "trainers"));
        break;
    case STANDBY:
        if (standby > 0)
            snprintf(out, CELL_BYTES, "%.0f", standby);
        break;
    case LIMIT: snprintf(out, CELL_BYTES, "%.*s", (int)strcspn(limit, ":"), limit); break;
    case N_COLUMNS: break;
    }
}

// A cell of which nothing is known stays empty; a '|' would be a new one.
static void write_cell(enum column column, const struct epochs *of, const cJSON *epoch, char *out)
{
    *out = '\0';
    write_value(column, of, epoch, out);
    for (char *p = out; (p = strchr(p, '|'));)
        *p = '/';
}

static void print_table(FILE *out, const struct epochs *of, const cJSON *list, int first)
{
    char align[2 * N_COLUMNS + 1] = "", cell[CELL_BYTES];
    const char *headings[N_COLUMNS];
    bool shown[N_COLUMNS] = {false};
    size_t n = 0;
    const cJSON *begin = cJSON_GetArrayItem(list, first);
    for (enum column c = 0; c < N_COLUMNS; c++) {
        for (const cJSON *e = begin; e && !shown[c]; e = e->next) {
            write_cell(c, of, e, cell);
            shown[c] = *cell != '\0';
        }
        if (!shown[c])
            continue;
        align[n] = columns[c].align;
        headings[n++] = c == VAL ? of->metric : columns[c].heading;
    }
    struct sl_table t;
    sl_table_init(&t, align, headings);
    for (const cJSON *e = begin; e; e = e->next) {
        char row[ROW_BYTES] = "";
        size_t used = 0;
        for (enum column c = 0; c < N_COLUMNS; c++) {
            if (!shown[c])
                continue;
            write_cell(c, of, e, cell);
            used += (size_t)snprintf(row + used, sizeof row - used, "%s%s", used ? "|" : "", cell);
        }
        sl_table_row(&t, "%s", row);
    }
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

const char *sl_report_view_metric(const cJSON *report)
{
    const cJSON *e;
    const char *best = sl_json_string(sl_json_at(report, "best_metric"), "name");
    if (*best)
        return best;
    cJSON_ArrayForEach(e, sl_json_at(report, "epochs"))
    {
        const cJSON *val = sl_json_at(e, "val");
        if (cJSON_IsObject(val) && val->child)
            return val->child->string;
    }
    return "accuracy";
}

static void print_epochs(FILE *out, const cJSON *report, bool all)
{
    const cJSON *list = sl_json_at(report, "epochs");
    const struct epochs of = {report, sl_report_view_metric(report)};
    if (cJSON_GetArraySize(list) == 0)
        return;
    fprintf(out, "\nEpochs\n");
    int first = first_shown(out, list, all, "epochs");
    print_table(out, &of, list, first);
}

// --- what limited them ---------------------------------------------------------------------------

static bool same_limit(const cJSON *a, const cJSON *b)
{
    const char *x = sl_json_string(a, "bottleneck"), *y = sl_json_string(b, "bottleneck");
    size_t n = strcspn(x, ":");
    return n == strcspn(y, ":") && strncmp(x, y, n) == 0;
}

// A line for each run of epochs with the same limit, with the evidence of the last of them.
static void print_limits(FILE *out, const cJSON *report)
{
    const cJSON *begin = cJSON_GetArrayItem(sl_json_at(report, "epochs"), 0);
    if (!begin)
        return;
    fprintf(out, "\nWhat limited them\n");
    for (const cJSON *last; begin; begin = last->next) {
        for (last = begin; last->next && same_limit(begin, last->next);)
            last = last->next;
        double from = sl_json_number(begin, "epoch") + 1, to = sl_json_number(last, "epoch") + 1;
        if (begin == last)
            fprintf(out, "  epoch %.0f: %s\n", from, sl_json_string(last, "bottleneck"));
        else
            fprintf(out, "  epochs %.0f to %.0f: %s (epoch %.0f)\n", from, to,
                    sl_json_string(last, "bottleneck"), to);
    }
}

// --- decisions, deaths, events -------------------------------------------------------------------

// A list of the report, under its heading unless it is empty.
static const cJSON *begin_list(FILE *out, const cJSON *report, const char *key, const char *heading)
{
    const cJSON *list = sl_json_at(report, key);
    if (cJSON_GetArraySize(list) > 0)
        fprintf(out, "\n%s\n", heading);
    return list;
}

static void print_allocations(FILE *out, const cJSON *report)
{
    const cJSON *a, *list = begin_list(out, report, "allocations", "Decisions on the split");
    cJSON_ArrayForEach(a, list)
    {
        fprintf(out, "  epoch %.0f: %.0f+%.0f", sl_json_number(a, "epoch") + 1,
                sl_json_number(a, "samplers"), sl_json_number(a, "trainers"));
        const char *reason = sl_json_string(a, "reason");
        fprintf(out, "%s%s\n", *reason ? ": " : "", reason);
    }
}

static void print_scales(FILE *out, const cJSON *report)
{
    const cJSON *s, *list = begin_list(out, report, "scales", "Changes while it ran");
    char at[SL_UNITS_BYTES], took[SL_UNITS_BYTES];
    cJSON_ArrayForEach(s, list)
    {
        const cJSON *from = sl_json_at(s, "from"), *to = sl_json_at(s, "to");
        fprintf(out, "  %s, epoch %.0f, by the %s: %.0f+%.0f -> %.0f+%.0f",
                sl_units_seconds(at, sl_json_number(s, "seconds")), sl_json_number(s, "epoch") + 1,
                sl_json_string(s, "by"), sl_json_number(from, "samplers"),
                sl_json_number(from, "trainers"), sl_json_number(to, "samplers"),
                sl_json_number(to, "trainers"));
        if (cJSON_IsTrue(sl_json_at(s, "ok")))
            fprintf(out, " in %s: %s\n", sl_units_seconds(took, sl_json_number(s, "took_seconds")),
                    sl_json_string(s, "message"));
        else
            fprintf(out, " refused: %s\n", sl_json_string(s, "message"));
    }
}

static void print_restarts(FILE *out, const cJSON *report)
{
    const cJSON *r, *list = begin_list(out, report, "restarts", "Workers that died");
    char at[SL_UNITS_BYTES];
    if (sl_json_number(report, "restarts_left_out") > 0)
        fprintf(out, "  (%.0f before these)\n", sl_json_number(report, "restarts_left_out"));
    cJSON_ArrayForEach(r, list)
    {
        const char *held = sl_json_string(r, "held");
        fprintf(out, "  %s, %s (process %.0f): %s%s%s\n",
                sl_units_seconds(at, sl_json_number(r, "seconds")), sl_json_string(r, "worker"),
                sl_json_number(r, "pid"), sl_json_string(r, "cause"), *held ? "; it held " : "",
                held);
    }
}

static void print_resumes(FILE *out, const cJSON *report)
{
    const cJSON *r, *list = begin_list(out, report, "resumes", "Gone on from a checkpoint");
    char before[SL_UNITS_BYTES];
    cJSON_ArrayForEach(r, list)
    {
        fprintf(out, "  after update %.0f, in epoch %.0f, %s from the start\n",
                sl_json_number(r, "update"), sl_json_number(r, "epoch") + 1,
                sl_units_seconds(before, sl_json_number(r, "seconds_before")));
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

void sl_report_view_print(FILE *out, const cJSON *run, bool all)
{
    const cJSON *report = sl_json_at(run, "report");
    sl_run_summary_print(out, report, sl_json_string(run, "output"));
    if (*sl_json_string(report, "message"))
        fprintf(out, "message     %s\n", sl_json_string(report, "message"));
    print_epochs(out, report, all);
    print_limits(out, report);
    print_allocations(out, report);
    print_scales(out, report);
    print_restarts(out, report);
    print_resumes(out, report);
    print_events(out, run, all);
}
