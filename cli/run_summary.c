#include "cli/run_summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/stats_text.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "broker/metrics.h"
#include "common/base/bits.h"
#include "common/text/json.h"

struct sl_stats_stage sl_run_summary_stage(const cJSON *epochs, const char *name)
{
    struct sl_stats_stage sum = {0}, stage;
    const cJSON *epoch;
    cJSON_ArrayForEach(epoch, epochs)
    {
        sl_fields_read(&sl_stats_stage_fields, sl_json_at(sl_json_at(epoch, "stages"), name),
                       &stage);
        if (!(stage.count > 0))
            continue;
        stage.seconds += sum.seconds;
        stage.count += sum.count;
        sum = stage;
    }
    return sum;
}

static void print_stages(FILE *out, const cJSON *epochs, double wall)
{
    struct sl_table t;
    sl_table_init(&t, "l r r r r l",
                  (const char *[]){"stage", "seconds", "of wall", "p50", "p99", ""});
    for (size_t i = 0; i < SL_LIVE_STAGES; i++) {
        const char *name = sl_stats_stage_names[sl_stage_texts[i].stage];
        struct sl_stats_stage sum = sl_run_summary_stage(epochs, name);
        char p50[SL_UNITS_BYTES], p99[SL_UNITS_BYTES];
        if (sum.count == 0 || sum.seconds == 0)
            continue;
        sl_table_row(&t, "%s|%.2f|%.0f %%|%s|%s|%s", name, sum.seconds,
                     wall > 0 ? 100 * sum.seconds / wall : 0, sl_units_seconds(p50, sum.p50),
                     sl_units_seconds(p99, sum.p99), sl_stage_texts[i].what);
    }
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

double sl_run_summary_sum(const cJSON *epochs, const char *path)
{
    double sum = 0;
    const cJSON *epoch;
    cJSON_ArrayForEach(epoch, epochs)
    {
        double value = sl_json_number(epoch, path);
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}

static void print_cache(FILE *out, const cJSON *report)
{
    const cJSON *cache = sl_json_at(report, "cache"), *epochs = sl_json_at(report, "epochs");
    const cJSON *first = cJSON_GetArrayItem(sl_json_at(cache, "trainers"), 0);
    char kept[SL_UNITS_BYTES], hit[SL_UNITS_BYTES], miss[SL_UNITS_BYTES];
    fprintf(out, "features    %s from the store",
            sl_units_bytes(miss, (uint64_t)sl_run_summary_sum(epochs, "cache.miss_bytes")));
    if (isnan(sl_json_number(cache, "hit_rate"))) {
        fprintf(out, "\n");
        return;
    }
    fprintf(out, ", %s from caches\n",
            sl_units_bytes(hit, (uint64_t)sl_run_summary_sum(epochs, "cache.hit_bytes")));
    fprintf(out, "cache       %s: %.1f %% hits", sl_json_string(cache, "policy"),
            100 * sl_json_number(cache, "hit_rate"));
    if (!isnan(sl_json_number(cache, "optimal_hit_rate")))
        fprintf(out, " (optimal %.1f %%)", 100 * sl_json_number(cache, "optimal_hit_rate"));
    if (first)
        fprintf(out, ", %.3g %% of the vertices, %s", 100 * sl_json_number(first, "ratio"),
                sl_units_bytes(kept, (uint64_t)SL_MAX(sl_json_number(first, "bytes"), 0)));
    if (!isnan(sl_json_number(cache, "presample_cost_epochs")))
        fprintf(out, "; it cost %.2g epochs",
                SL_MAX(sl_json_number(cache, "presample_cost_epochs"), 0));
    fprintf(out, "\n");
}

static void print_switching(FILE *out, const cJSON *report)
{
    const cJSON *switching = sl_json_at(report, "switching");
    char time[SL_UNITS_BYTES];
    if (!(sl_json_number(switching, "batches") > 0))
        return;
    double turns = sl_json_number(switching, "switches");
    fprintf(out, "switching   %.0f batches by standby trainers in %.0f turn%s",
            sl_json_number(switching, "batches"), turns, turns == 1 ? "" : "s");
    if (!isnan(sl_json_number(switching, "seconds_saved")))
        fprintf(out, ", about %s saved",
                sl_units_seconds(time, sl_json_number(switching, "seconds_saved")));
    fprintf(out, "\n");
}

static void print_allocation(FILE *out, const cJSON *a)
{
    char t_sample[SL_UNITS_BYTES], t_train[SL_UNITS_BYTES];
    double samplers = sl_json_number(a, "samplers"), trainers = sl_json_number(a, "trainers");
    fprintf(out, "allocation  from epoch %.0f: %.0f sampler%s, %.0f trainer%s",
            sl_json_number(a, "epoch") + 1, samplers, samplers == 1 ? "" : "s", trainers,
            trainers == 1 ? "" : "s");
    if (!isnan(sl_json_number(a, "t_sample")) && !isnan(sl_json_number(a, "t_train")))
        fprintf(out, "; T_s %s, T_t %s, K %.2g",
                sl_units_seconds(t_sample, sl_json_number(a, "t_sample")),
                sl_units_seconds(t_train, sl_json_number(a, "t_train")), sl_json_number(a, "k"));
    fprintf(out, "\n");
}

static void print_scale(FILE *out, const cJSON *scale)
{
    const cJSON *from = sl_json_at(scale, "from"), *to = sl_json_at(scale, "to");
    const char *by = sl_json_string(scale, "by");
    char took[SL_UNITS_BYTES];
    fprintf(out, "scale       in epoch %.0f, by the %s: ", sl_json_number(scale, "epoch") + 1, by);
    if (cJSON_IsTrue(sl_json_at(scale, "ok")))
        fprintf(out, "%.0f+%.0f -> %.0f+%.0f in %s\n", sl_json_number(from, "samplers"),
                sl_json_number(from, "trainers"), sl_json_number(to, "samplers"),
                sl_json_number(to, "trainers"),
                sl_units_seconds(took, sl_json_number(scale, "took_seconds")));
    else
        fprintf(out, "refused, %s\n", sl_json_string(scale, "message"));
}

// The first decision on the split and those that changed it; changes that were asked for. The
// reasons are in the report.
static void print_decisions(FILE *out, const cJSON *report)
{
    const cJSON *e;
    bool first = true;
    cJSON_ArrayForEach(e, sl_json_at(report, "allocations"))
    {
        if (first || cJSON_IsTrue(sl_json_at(e, "moved")))
            print_allocation(out, e);
        first = false;
    }
    cJSON_ArrayForEach(e, sl_json_at(report, "scales"))
    {
        // A move by the profile that worked has been told above.
        if (strcmp(sl_json_string(e, "by"), "profile") != 0 || !cJSON_IsTrue(sl_json_at(e, "ok")))
            print_scale(out, e);
    }
}

static void print_restarts(FILE *out, const cJSON *report)
{
    const cJSON *restarts = sl_json_at(report, "restarts");
    const cJSON *batches = sl_json_at(report, "batches");
    double left_out = sl_json_number(report, "restarts_left_out");
    double n = cJSON_GetArraySize(restarts) + (left_out > 0 ? left_out : 0);
    if (n > 0)
        fprintf(out,
                "workers     %.0f died and were replaced; %.0f batches drawn again, %.0f trained "
                "again\n",
                n, sl_json_number(batches, "resampled"), sl_json_number(batches, "retrained"));
}

// "accuracy 0.8140, micro-F1 0.8140, macro-F1 0.8011, loss 0.6203"
static void print_evaluation(FILE *out, const cJSON *found)
{
    const char *separator = "";
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++) {
        if (isnan(sl_json_number(found, sl_measure_key(m))))
            continue;
        fprintf(out, "%s%s %.4f", separator, sl_measure_name(m),
                sl_json_number(found, sl_measure_key(m)));
        separator = ", ";
    }
}

// The report names a metric as the job file does.
static const char *metric_name(const char *key)
{
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++)
        if (strcmp(sl_measure_key(m), key) == 0)
            return sl_measure_name(m);
    return key;
}

static void print_results(FILE *out, const cJSON *report)
{
    const cJSON *best = sl_json_at(report, "best_metric"),
                *stop = sl_json_at(report, "stopped_early");
    const cJSON *epoch;
    if (cJSON_IsObject(stop))
        fprintf(out, "stopped     early, after epoch %.0f: %s\n", sl_json_number(stop, "epoch") + 1,
                sl_json_string(stop, "reason"));
    cJSON_ArrayForEach(epoch, sl_json_at(report, "epochs"))
    {
        if (!cJSON_IsObject(best) ||
            sl_json_number(epoch, "epoch") != sl_json_number(best, "epoch"))
            continue;
        fprintf(out, "validation  ");
        print_evaluation(out, sl_json_at(epoch, "val"));
        fprintf(out, " (epoch %.0f, the best by %s)\n", sl_json_number(best, "epoch") + 1,
                metric_name(sl_json_string(best, "name")));
    }
    if (cJSON_IsObject(sl_json_at(report, "test"))) {
        fprintf(out, "test        ");
        print_evaluation(out, sl_json_at(report, "test"));
        fprintf(out, "\n");
    } else if (strcmp(sl_json_string(sl_json_at(sl_json_at(report, "config"), "evaluate"), "test"),
                      "never") == 0) {
        fprintf(out, "test        left out, as evaluate.test says\n");
    }
}

void sl_run_summary_print(FILE *out, const cJSON *report, const char *run_directory)
{
    const cJSON *epochs = sl_json_at(report, "epochs");
    const cJSON *last = cJSON_GetArrayItem(epochs, cJSON_GetArraySize(epochs) - 1);
    const cJSON *batches = sl_json_at(report, "batches");
    char wall[SL_UNITS_BYTES], start[SL_UNITS_BYTES], n[SL_UNITS_BYTES], memory[SL_UNITS_BYTES];
    double wall_seconds = SL_MAX(sl_json_number(report, "wall_seconds"), 0);
    double total = sl_json_number(report, "total_seconds"); // of all runs that the epochs are of
    int n_resumes = cJSON_GetArraySize(sl_json_at(report, "resumes"));

    if (isnan(total)) // of an older version
        total = wall_seconds;
    fprintf(out, "%s: %s in %s", sl_json_string(report, "job"), sl_json_string(report, "status"),
            sl_units_seconds(start, total));
    if (n_resumes > 0)
        fprintf(out, " (%s since it went on)", sl_units_seconds(wall, wall_seconds));
    fprintf(out, ", %d epoch%s, %s batches\n\n", cJSON_GetArraySize(epochs),
            cJSON_GetArraySize(epochs) == 1 ? "" : "s",
            sl_units_grouped(n, (uint64_t)sl_json_number(batches, "trained")));
    if (last) {
        print_stages(out, epochs, total);
        fprintf(out, "\n");
        fprintf(out, "loss        %.4f after the last epoch\n", sl_json_number(last, "loss"));
    }
    print_results(out, report);
    if (last)
        fprintf(out, "limit       %s\n", sl_json_string(last, "bottleneck"));
    print_cache(out, report);
    print_switching(out, report);
    print_decisions(out, report);
    print_restarts(out, report);
    if (!isnan(sl_json_number(report, "start_seconds")))
        fprintf(out, "started in  %s\n",
                sl_units_seconds(start, sl_json_number(report, "start_seconds")));
    if (!isnan(sl_json_number(report, "peak_memory")))
        fprintf(out, "memory      %s at most\n",
                sl_units_bytes(memory, (uint64_t)SL_MAX(sl_json_number(report, "peak_memory"), 0)));
    if (*sl_json_string(report, "params_sha256"))
        fprintf(out, "parameters  sha256 %s\n", sl_json_string(report, "params_sha256"));
    if (*sl_json_string(report, "samples_digest"))
        fprintf(out, "samples     digest %s\n", sl_json_string(report, "samples_digest"));
    if (*run_directory)
        fprintf(out, "directory   %s\n", run_directory);
}
