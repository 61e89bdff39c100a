#include "cli/run_view.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/command.h"
#include "cli/run_summary.h"
#include "common/text/units.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/text/json.h"

void sl_run_view_init(struct sl_run_view *view, bool quiet, const struct sl_config *config,
                      enum sl_measure measure)
{
    memset(view, 0, sizeof *view);
    sl_progress_init(&view->progress, quiet);
    // How far an epoch is, is for who watches: a file has a line for each that is over.
    if (view->progress.style == SL_PROGRESS_PLAIN)
        view->progress.interval_ns = UINT64_MAX / 2;
    view->epochs = config->epochs;
    view->measure = measure;
    view->links = sl_config_is_links(config);
    sl_measure_title(measure, config->evaluate.k, view->metric);
}

static int digits(uint32_t n)
{
    return snprintf(NULL, 0, "%" PRIu32, n);
}

// How far, how fast, how good, how much longer; the least needed goes first on a narrow terminal.
static void set_fields(struct sl_run_view *view, const Sl__Control__Progress *m)
{
    enum { KEEP_READY, KEEP_PERCENT, KEEP_METRIC, KEEP_RATE, KEEP_LEFT, KEEP_LOSS };
    struct sl_progress *p = &view->progress;
    char text[96], brief[96], units[SL_UNITS_BYTES];
    sl_progress_reset_fields(p);
    snprintf(text, sizeof text, "%3.0f %%", 100 * (double)m->done / (double)m->total);
    sl_progress_add_field(p, KEEP_PERCENT, text, NULL);
    if (m->rate > 0) {
        sl_units_count(units, m->rate);
        snprintf(text, sizeof text, "%s batches/s", units);
        snprintf(brief, sizeof brief, "%s/s", units);
        sl_progress_add_field(p, KEEP_RATE, text, brief);
    }
    if (m->done > 0 && !isnan(m->loss)) { // before the first batch there is none
        snprintf(text, sizeof text, "loss %.4f", m->loss);
        sl_progress_add_field(p, KEEP_LOSS, text, NULL);
    }
    if (m->has_metric) {
        snprintf(text, sizeof text, "%.24s %.4f", m->metric_name, m->metric);
        snprintf(brief, sizeof brief, "val %.4f", m->metric);
        sl_progress_add_field(p, KEEP_METRIC, text, brief);
    }
    snprintf(text, sizeof text, "%llu ready", (unsigned long long)m->queue_batches);
    sl_progress_add_field(p, KEEP_READY, text, NULL);
    if (m->seconds_left >= 0) {
        snprintf(text, sizeof text, "%s left", sl_units_seconds(units, m->seconds_left));
        snprintf(brief, sizeof brief, "%s left",
                 sl_units_rough_seconds(units, m->seconds_left, false));
        sl_progress_add_field(p, KEEP_LEFT, text, brief);
    }
}

static void show_progress(struct sl_run_view *view, const Sl__Control__Progress *m)
{
    char stage[sizeof view->stage];
    bool starts = strcmp(m->phase, "start") == 0;
    if (starts || strcmp(m->phase, "finish") == 0)
        snprintf(stage, sizeof stage, "%s", starts ? "starting workers" : "finishing");
    else if (strcmp(m->phase, "train") == 0)
        snprintf(stage, sizeof stage, m->epochs ? "epoch %*u/%u" : "epoch %*u", digits(m->epochs),
                 m->epoch + 1, m->epochs);
    else if (strcmp(m->phase, "presample") == 0 || strcmp(m->phase, "rank") == 0)
        snprintf(stage, sizeof stage, "%s",
                 *m->phase == 'p' ? "pre-sampling" : "ordering vertices");
    else if (strcmp(m->phase, "evaluate") == 0)
        snprintf(stage, sizeof stage, "evaluate %u/%u", m->epoch + 1, m->epochs);
    else
        snprintf(stage, sizeof stage, "%s", m->phase);
    if (strcmp(stage, view->stage) != 0 || m->total != view->total) {
        snprintf(view->stage, sizeof view->stage, "%s", stage);
        view->total = m->total;
        sl_progress_clear(&view->progress); // its last line would only repeat the epoch's
        bool batches = strcmp(m->phase, "train") == 0 || strcmp(m->phase, "presample") == 0;
        sl_progress_begin(&view->progress, stage, m->total, batches ? "batches" : "steps");
    }
    if (m->total == 0)
        return;
    if (strcmp(m->phase, "train") == 0)
        set_fields(view, m);
    sl_progress_set(&view->progress, m->done);
}

// What caches and standby trainers did, where they did anything.
static void describe_epoch(const cJSON *epoch, char *out, size_t bytes)
{
    const cJSON *cache = sl_json_at(epoch, "cache");
    double helped = sl_json_number(sl_json_at(epoch, "switching"), "batches");
    const double n_passes = sl_json_number(epoch, "passes"); // NaN where epochs are whole ones
    char passes[32] = "", hits[32] = "", standby[32] = "";
    if (isfinite(n_passes))
        snprintf(passes, sizeof passes, "  passes %.4g", n_passes);
    if (cJSON_IsTrue(sl_json_at(cache, "ranked")))
        snprintf(hits, sizeof hits, "  hits %.1f %%", 100 * sl_json_number(cache, "hit_rate"));
    if (helped > 0)
        snprintf(standby, sizeof standby, "  standby %.0f", helped);
    snprintf(out, bytes, "%s%s%s", passes, hits, standby);
}

// "  val 0.8955": the metric that decides; accuracy is what a number without a name is. Empty where
// the epoch has no such evaluation.
static void describe_evaluation(const struct sl_run_view *view, const cJSON *epoch, const char *key,
                                char *out, size_t bytes)
{
    bool named = view->measure != SL_MEASURE_ACCURACY;
    const cJSON *found = sl_json_at(epoch, key);
    char value[SL_MEASURE_TEXT];
    *out = '\0';
    if (cJSON_IsObject(found))
        snprintf(out, bytes, "  %s %s%s%s", key, named ? view->metric : "", named ? " " : "",
                 sl_measure_text(sl_json_number(found, sl_measure_key(view->measure)), value));
}

// " + 42 ms evaluation": what it added to the epoch's time. What it took beside the next epoch is
// in the report: the line is for a terminal.
static void describe_evaluation_time(const cJSON *epoch, char *out, size_t bytes)
{
    double added = sl_json_number(epoch, "evaluate_seconds");
    char time[SL_UNITS_BYTES];
    if (added == 0 && sl_json_number(epoch, "overlapped_seconds") > 0)
        snprintf(out, bytes, ", evaluated beside");
    else
        snprintf(out, bytes, " + %s evaluation", sl_units_seconds(time, added));
}

static void show_epoch(struct sl_run_view *view, const char *json)
{
    cJSON *e = cJSON_Parse(json);
    if (!e)
        return;
    char validation[48], test[48], training[32] = "", evaluation[96] = "", extras[96],
                                   time[SL_UNITS_BYTES];
    describe_evaluation(view, e, "val", validation, sizeof validation);
    describe_evaluation(view, e, "test", test, sizeof test);
    if (*validation || *test)
        describe_evaluation_time(e, evaluation, sizeof evaluation);
    if (!isnan(sl_json_number(e, "train_accuracy")))
        snprintf(training, sizeof training, "  %s %.4f", view->links ? "pairs right" : "train",
                 sl_json_number(e, "train_accuracy"));
    describe_epoch(e, extras, sizeof extras);
    const char *bottleneck = sl_json_string(e, "bottleneck");
    int n_epoch = digits(view->epochs);
    if (isnan(sl_json_number(e, "loss"))) { // of external trainers nothing is known
        sl_progress_line(&view->progress, "epoch %.0f  %.0f batches  %s%s  bottleneck: %.*s",
                         sl_json_number(e, "epoch") + 1, sl_json_number(e, "batches"),
                         sl_units_seconds(time, sl_json_number(e, "seconds")), extras,
                         (int)strcspn(bottleneck, ":"), bottleneck);
        cJSON_Delete(e);
        return;
    }
    sl_progress_line(&view->progress, "epoch %*.0f/%u  loss %.4f%s%s%s  %s%s%s  bottleneck: %.*s",
                     n_epoch, sl_json_number(e, "epoch") + 1, view->epochs,
                     sl_json_number(e, "loss"), training, validation, test,
                     sl_units_seconds(time, sl_json_number(e, "seconds")), evaluation, extras,
                     (int)strcspn(bottleneck, ":"), bottleneck);
    cJSON_Delete(e);
}

static void show_log(struct sl_run_view *view, const Sl__Control__LogLine *line)
{
    const char *what = line->level == SL_LOG_ERROR  ? "sluice: error: "
                       : line->level == SL_LOG_WARN ? "sluice: warning: "
                                                    : ""; // how the job goes, like an epoch's line
    sl_progress_line(&view->progress, "%s%s", what, line->text);
}

static void show_event(struct sl_run_view *view, const char *json)
{
    cJSON *e = cJSON_Parse(json);
    const char *kind = sl_json_string(e, "kind");
    if (strcmp(kind, "pause") == 0 || strcmp(kind, "resume") == 0)
        sl_progress_line(&view->progress, "%s", sl_json_string(e, "text"));
    cJSON_Delete(e);
}

void sl_run_view_end(struct sl_run_view *view)
{
    sl_progress_clear(&view->progress);
    view->stage[0] = '\0';
}

void sl_run_view_message(struct sl_run_view *view, const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_PROGRESS: show_progress(view, m->progress); break;
    case SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE: show_epoch(view, m->epoch_done->json); break;
    case SL__CONTROL__ENVELOPE__BODY_LOG_LINE: show_log(view, m->log_line); break;
    case SL__CONTROL__ENVELOPE__BODY_EVENT: show_event(view, m->event->json); break;
    default: break;
    }
}

// All that a job came to; of one that did not end, what it had reached.
static void print_summary(const Sl__Control__Finished *f, bool ended)
{
    cJSON *report = cJSON_Parse(f->report_json);
    struct sl_read_report r;
    if (report && sl_read_report_init(&r, report) == SL_OK) {
        if (ended)
            sl_run_summary_print(stdout, &r, f->run_directory);
        else
            sl_run_summary_so_far(stdout, &r);
        sl_read_report_fini(&r);
    }
    cJSON_Delete(report);
}

// A disk that is full has no room for the report either.
static const char *what_is_in(const char *where)
{
    char path[PATH_MAX];
    if (!where)
        return "";
    snprintf(path, sizeof path, "%s/report.json", where);
    return access(path, F_OK) == 0 ? ": the report and the logs are in " : ": the logs are in ";
}

int sl_run_view_result(const Sl__Control__Finished *f, const char *job,
                       enum sl_run_view_result what, const char *nothing)
{
    const char *where = *f->run_directory ? f->run_directory : NULL;
    bool has_report = *f->report_json != '\0';
    if (has_report && what == SL_RUN_VIEW_JSON)
        printf("%s\n", f->report_json);
    if (has_report && what == SL_RUN_VIEW_SUMMARY)
        print_summary(f, f->exit_status == SL_EXIT_OK);
    fflush(stdout); // before the error
    switch (f->exit_status) {
    case SL_EXIT_OK: return SL_EXIT_OK;
    case SL_EXIT_USAGE: return sl_fail(SL_EINVAL, "job '%s': %s", job, f->message);
    case SL_EXIT_INTERRUPTED:
        return sl_fail(SL_EABORTED, "job '%s': %s%s%s", job, f->message,
                       where ? ": its results so far are in " : nothing, where ? where : "");
    default:
        return sl_fail(SL_EFAILED, "job '%s': %s%s%s", job, f->message, what_is_in(where),
                       where ? where : "");
    }
}
