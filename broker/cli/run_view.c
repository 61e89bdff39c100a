#include "broker/cli/run_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "broker/cli/table.h"
#include "broker/cli/units.h"
#include "common/base/bits.h"
#include "common/base/log.h"

void sl_run_view_init(struct sl_run_view *view, bool quiet, uint32_t epochs)
{
    memset(view, 0, sizeof *view);
    sl_progress_init(&view->progress, quiet);
    view->epochs = epochs;
}

static int digits(uint32_t n)
{
    int d = 1;
    while (n >= 10) {
        n /= 10;
        d++;
    }
    return d;
}

void sl_run_view_progress(struct sl_run_view *view, const Sl__Control__Progress *m)
{
    char stage[sizeof view->stage];
    bool starts = strcmp(m->phase, "start") == 0;
    if (starts || strcmp(m->phase, "finish") == 0)
        snprintf(stage, sizeof stage, "%s", starts ? "starting workers" : "finishing");
    else if (strcmp(m->phase, "train") == 0)
        snprintf(stage, sizeof stage, "epoch %*u/%u", digits(m->epochs), m->epoch + 1, m->epochs);
    else if (strcmp(m->phase, "evaluate") == 0)
        snprintf(stage, sizeof stage, "evaluate %u/%u", m->epoch + 1, m->epochs);
    else
        snprintf(stage, sizeof stage, "%s", m->phase);
    if (strcmp(stage, view->stage) != 0 || m->total != view->total) {
        snprintf(view->stage, sizeof view->stage, "%s", stage);
        view->total = m->total;
        sl_progress_clear(&view->progress); // its last line would only repeat the epoch's
        sl_progress_begin(&view->progress, stage, m->total,
                          strcmp(m->phase, "train") == 0 ? "batches" : "steps");
    }
    if (m->total == 0)
        return;
    char all[64] = "", time[SL_UNITS_BYTES];
    if (m->seconds_left >= 0)
        snprintf(all, sizeof all, ", all %s", sl_units_seconds(time, m->seconds_left));
    if (strcmp(m->phase, "train") == 0)
        sl_progress_note(&view->progress, "loss %.4f, %llu ready%s", m->loss,
                         (unsigned long long)m->queue_batches, all);
    sl_progress_set(&view->progress, m->done);
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static const char *text(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

void sl_run_view_epoch(struct sl_run_view *view, const char *json)
{
    cJSON *e = cJSON_Parse(json);
    if (!e)
        return;
    char validation[32] = "", evaluation[64] = "", time[SL_UNITS_BYTES];
    if (!isnan(number(e, "val_accuracy"))) {
        snprintf(validation, sizeof validation, "  val %.4f", number(e, "val_accuracy"));
        snprintf(evaluation, sizeof evaluation, " + %s evaluation",
                 sl_units_seconds(time, number(e, "evaluate_seconds")));
    }
    const char *bottleneck = text(e, "bottleneck");
    int n_epoch = digits(view->epochs);
    sl_progress_line(&view->progress, "epoch %*.0f/%u  loss %.4f  train %.4f%s  %s%s  limit: %.*s",
                     n_epoch, number(e, "epoch") + 1, view->epochs, number(e, "loss"),
                     number(e, "train_accuracy"), validation,
                     sl_units_seconds(time, number(e, "seconds")), evaluation,
                     (int)strcspn(bottleneck, ":"), bottleneck);
    cJSON_Delete(e);
}

void sl_run_view_log(struct sl_run_view *view, const Sl__Control__LogLine *line)
{
    sl_progress_line(&view->progress, "sluice: %s: %s",
                     line->level == SL_LOG_ERROR ? "error" : "warning", line->text);
}

void sl_run_view_end(struct sl_run_view *view)
{
    sl_progress_clear(&view->progress);
    view->stage[0] = '\0';
}

// --- the summary ---------------------------------------------------------------------------------

struct stage_sum {
    const char *name;
    const char *what;
    double seconds, count, p50, p99; // the percentiles are of the last epoch that has any
};

static void add_epoch(struct stage_sum *sum, const cJSON *epoch)
{
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(epoch, "stages");
    const cJSON *stage = cJSON_GetObjectItemCaseSensitive(stages, sum->name);
    double count = number(stage, "count");
    if (!(count > 0))
        return;
    sum->seconds += number(stage, "seconds");
    sum->count += count;
    sum->p50 = number(stage, "p50");
    sum->p99 = number(stage, "p99");
}

static void print_stages(const cJSON *epochs, double wall)
{
    struct stage_sum sums[] = {
        {.name = "sample", .what = "samplers draw"},
        {.name = "backpressure", .what = "samplers wait for memory"},
        {.name = "extract", .what = "trainers gather features"},
        {.name = "train", .what = "trainers compute"},
        {.name = "wait", .what = "trainers wait"},
        {.name = "evaluate", .what = "trainers evaluate"},
    };
    const cJSON *epoch;
    cJSON_ArrayForEach(epoch, epochs) for (size_t i = 0; i < SL_COUNT_OF(sums); i++)
        add_epoch(&sums[i], epoch);
    struct sl_table t;
    sl_table_init(&t, "l r r r r l",
                  (const char *[]){"stage", "seconds", "of wall", "p50", "p99", ""});
    for (size_t i = 0; i < SL_COUNT_OF(sums); i++) {
        char p50[SL_UNITS_BYTES], p99[SL_UNITS_BYTES];
        if (sums[i].count == 0)
            continue;
        sl_table_row(&t, "%s|%.2f|%.0f %%|%s|%s|%s", sums[i].name, sums[i].seconds,
                     wall > 0 ? 100 * sums[i].seconds / wall : 0,
                     sl_units_seconds(p50, sums[i].p50), sl_units_seconds(p99, sums[i].p99),
                     sums[i].what);
    }
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static void print_restarts(const cJSON *report)
{
    const cJSON *restarts = cJSON_GetObjectItemCaseSensitive(report, "restarts");
    const cJSON *batches = cJSON_GetObjectItemCaseSensitive(report, "batches");
    int n = cJSON_GetArraySize(restarts);
    if (n > 0)
        printf("workers     %d died and were replaced; %.0f batches drawn again, %.0f trained "
               "again\n",
               n, number(batches, "resampled"), number(batches, "retrained"));
}

void sl_run_view_summary(const char *report_json, const char *run_directory)
{
    cJSON *report = cJSON_Parse(report_json);
    if (!report)
        return;
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(report, "epochs");
    const cJSON *last = cJSON_GetArrayItem(epochs, cJSON_GetArraySize(epochs) - 1);
    const cJSON *batches = cJSON_GetObjectItemCaseSensitive(report, "batches");
    char wall[SL_UNITS_BYTES], start[SL_UNITS_BYTES], n[SL_UNITS_BYTES], memory[SL_UNITS_BYTES];
    double wall_seconds = number(report, "wall_seconds");

    printf("%s: %s in %s, %d epoch%s, %s batches\n\n", text(report, "job"), text(report, "status"),
           sl_units_seconds(wall, wall_seconds), cJSON_GetArraySize(epochs),
           cJSON_GetArraySize(epochs) == 1 ? "" : "s",
           sl_units_grouped(n, (uint64_t)number(batches, "trained")));
    print_stages(epochs, wall_seconds);
    printf("\n");
    if (last)
        printf("loss        %.4f after the last epoch\n", number(last, "loss"));
    if (!isnan(number(report, "best_val_accuracy")))
        printf("validation  %.4f (epoch %.0f, the best)\n", number(report, "best_val_accuracy"),
               number(report, "best_epoch") + 1);
    if (!isnan(number(report, "test_accuracy")))
        printf("test        %.4f\n", number(report, "test_accuracy"));
    if (last)
        printf("limit       %s\n", text(last, "bottleneck"));
    print_restarts(report);
    printf("started in  %s\n", sl_units_seconds(start, number(report, "start_seconds")));
    printf("memory      %s at most\n",
           sl_units_bytes(memory, (uint64_t)SL_MAX(number(report, "peak_memory"), 0)));
    if (*text(report, "params_sha256"))
        printf("parameters  sha256 %s\n", text(report, "params_sha256"));
    if (*text(report, "samples_digest"))
        printf("samples     digest %s\n", text(report, "samples_digest"));
    if (*run_directory)
        printf("directory   %s\n", run_directory);
    cJSON_Delete(report);
}
