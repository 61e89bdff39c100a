#include "broker/cli/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text/table.h"
#include "common/text/units.h"
#include "broker/metrics.h"
#include "common/base/bits.h"

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

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

struct stage_sum {
    const char *name;
    const char *what;
    double seconds, count, p50, p99; // the percentiles are of the last epoch that has any
};

static void add_epoch(struct stage_sum *sum, const cJSON *epoch)
{
    const cJSON *stages = member(epoch, "stages");
    const cJSON *stage = member(stages, sum->name);
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
        {.name = "mark", .what = "samplers look up ranks"},
        {.name = "copy", .what = "samplers copy vertex lists"},
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
        if (sums[i].count == 0 || sums[i].seconds == 0)
            continue;
        sl_table_row(&t, "%s|%.2f|%.0f %%|%s|%s|%s", sums[i].name, sums[i].seconds,
                     wall > 0 ? 100 * sums[i].seconds / wall : 0,
                     sl_units_seconds(p50, sums[i].p50), sl_units_seconds(p99, sums[i].p99),
                     sums[i].what);
    }
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static double sum_of(const cJSON *epochs, const char *object, const char *key)
{
    double sum = 0;
    const cJSON *epoch;
    cJSON_ArrayForEach(epoch, epochs)
    {
        double value = number(member(epoch, object), key);
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}

static void print_cache(const cJSON *report)
{
    const cJSON *cache = member(report, "cache"), *epochs = member(report, "epochs");
    const cJSON *first = cJSON_GetArrayItem(member(cache, "trainers"), 0);
    char kept[SL_UNITS_BYTES], hit[SL_UNITS_BYTES], miss[SL_UNITS_BYTES];
    printf("features    %s from the store",
           sl_units_bytes(miss, (uint64_t)sum_of(epochs, "cache", "miss_bytes")));
    if (isnan(number(cache, "hit_rate"))) {
        printf("\n");
        return;
    }
    printf(", %s from caches\n",
           sl_units_bytes(hit, (uint64_t)sum_of(epochs, "cache", "hit_bytes")));
    printf("cache       %s: %.1f %% hits", text(cache, "policy"), 100 * number(cache, "hit_rate"));
    if (!isnan(number(cache, "optimal_hit_rate")))
        printf(" (optimal %.1f %%)", 100 * number(cache, "optimal_hit_rate"));
    if (first)
        printf(", %.3g %% of the vertices, %s", 100 * number(first, "ratio"),
               sl_units_bytes(kept, (uint64_t)SL_MAX(number(first, "bytes"), 0)));
    if (!isnan(number(cache, "presample_cost_epochs")))
        printf("; it cost %.2g epochs", SL_MAX(number(cache, "presample_cost_epochs"), 0));
    printf("\n");
}

static void print_switching(const cJSON *report)
{
    const cJSON *switching = member(report, "switching");
    char time[SL_UNITS_BYTES];
    if (!(number(switching, "batches") > 0))
        return;
    double turns = number(switching, "switches");
    printf("switching   %.0f batches by standby trainers in %.0f turn%s",
           number(switching, "batches"), turns, turns == 1 ? "" : "s");
    if (!isnan(number(switching, "seconds_saved")))
        printf(", about %s saved", sl_units_seconds(time, number(switching, "seconds_saved")));
    printf("\n");
}

static void print_allocation(const cJSON *a)
{
    char t_sample[SL_UNITS_BYTES], t_train[SL_UNITS_BYTES];
    double samplers = number(a, "samplers"), trainers = number(a, "trainers");
    printf("allocation  from epoch %.0f: %.0f sampler%s, %.0f trainer%s", number(a, "epoch") + 1,
           samplers, samplers == 1 ? "" : "s", trainers, trainers == 1 ? "" : "s");
    if (!isnan(number(a, "t_sample")) && !isnan(number(a, "t_train")))
        printf("; T_s %s, T_t %s, K %.2g", sl_units_seconds(t_sample, number(a, "t_sample")),
               sl_units_seconds(t_train, number(a, "t_train")), number(a, "k"));
    printf("\n");
}

static void print_scale(const cJSON *scale)
{
    const cJSON *from = member(scale, "from"), *to = member(scale, "to");
    const char *by = text(scale, "by");
    char took[SL_UNITS_BYTES];
    printf("scale       in epoch %.0f, by the %s: ", number(scale, "epoch") + 1, by);
    if (cJSON_IsTrue(member(scale, "ok")))
        printf("%.0f+%.0f -> %.0f+%.0f in %s\n", number(from, "samplers"), number(from, "trainers"),
               number(to, "samplers"), number(to, "trainers"),
               sl_units_seconds(took, number(scale, "took_seconds")));
    else
        printf("refused, %s\n", text(scale, "message"));
}

// The first decision on the split and those that changed it; changes that were asked for. The
// reasons are in the report.
static void print_decisions(const cJSON *report)
{
    const cJSON *e;
    bool first = true;
    cJSON_ArrayForEach(e, member(report, "allocations"))
    {
        if (first || cJSON_IsTrue(member(e, "moved")))
            print_allocation(e);
        first = false;
    }
    cJSON_ArrayForEach(e, member(report, "scales"))
    {
        // A move by the profile that worked has been told above.
        if (strcmp(text(e, "by"), "profile") != 0 || !cJSON_IsTrue(member(e, "ok")))
            print_scale(e);
    }
}

static void print_restarts(const cJSON *report)
{
    const cJSON *restarts = member(report, "restarts");
    const cJSON *batches = member(report, "batches");
    double left_out = number(report, "restarts_left_out");
    double n = cJSON_GetArraySize(restarts) + (left_out > 0 ? left_out : 0);
    if (n > 0)
        printf("workers     %.0f died and were replaced; %.0f batches drawn again, %.0f trained "
               "again\n",
               n, number(batches, "resampled"), number(batches, "retrained"));
}

// "accuracy 0.8140, micro-F1 0.8140, macro-F1 0.8011, loss 0.6203"
static void print_evaluation(const cJSON *found)
{
    const char *separator = "";
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++) {
        if (isnan(number(found, sl_measure_key(m))))
            continue;
        printf("%s%s %.4f", separator, sl_measure_name(m), number(found, sl_measure_key(m)));
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

static void print_results(const cJSON *report)
{
    const cJSON *best = member(report, "best_metric"), *stop = member(report, "stopped_early");
    const cJSON *epoch;
    if (cJSON_IsObject(stop))
        printf("stopped     early, after epoch %.0f: %s\n", number(stop, "epoch") + 1,
               text(stop, "reason"));
    cJSON_ArrayForEach(epoch, member(report, "epochs"))
    {
        if (!cJSON_IsObject(best) || number(epoch, "epoch") != number(best, "epoch"))
            continue;
        printf("validation  ");
        print_evaluation(member(epoch, "val"));
        printf(" (epoch %.0f, the best by %s)\n", number(best, "epoch") + 1,
               metric_name(text(best, "name")));
    }
    if (cJSON_IsObject(member(report, "test"))) {
        printf("test        ");
        print_evaluation(member(report, "test"));
        printf("\n");
    } else if (strcmp(text(member(member(report, "config"), "evaluate"), "test"), "never") == 0) {
        printf("test        left out, as evaluate.test says\n");
    }
}

void sl_summary_print(const cJSON *report, const char *run_directory)
{
    const cJSON *epochs = member(report, "epochs");
    const cJSON *last = cJSON_GetArrayItem(epochs, cJSON_GetArraySize(epochs) - 1);
    const cJSON *batches = member(report, "batches");
    char wall[SL_UNITS_BYTES], start[SL_UNITS_BYTES], n[SL_UNITS_BYTES], memory[SL_UNITS_BYTES];
    double wall_seconds = SL_MAX(number(report, "wall_seconds"), 0);
    double total = number(report, "total_seconds"); // of all runs that the epochs are of
    int n_resumes = cJSON_GetArraySize(member(report, "resumes"));

    if (isnan(total)) // of an older version
        total = wall_seconds;
    printf("%s: %s in %s", text(report, "job"), text(report, "status"),
           sl_units_seconds(start, total));
    if (n_resumes > 0)
        printf(" (%s since it went on)", sl_units_seconds(wall, wall_seconds));
    printf(", %d epoch%s, %s batches\n\n", cJSON_GetArraySize(epochs),
           cJSON_GetArraySize(epochs) == 1 ? "" : "s",
           sl_units_grouped(n, (uint64_t)number(batches, "trained")));
    if (last) {
        print_stages(epochs, total);
        printf("\n");
        printf("loss        %.4f after the last epoch\n", number(last, "loss"));
    }
    print_results(report);
    if (last)
        printf("limit       %s\n", text(last, "bottleneck"));
    print_cache(report);
    print_switching(report);
    print_decisions(report);
    print_restarts(report);
    if (!isnan(number(report, "start_seconds")))
        printf("started in  %s\n", sl_units_seconds(start, number(report, "start_seconds")));
    if (!isnan(number(report, "peak_memory")))
        printf("memory      %s at most\n",
               sl_units_bytes(memory, (uint64_t)SL_MAX(number(report, "peak_memory"), 0)));
    if (*text(report, "params_sha256"))
        printf("parameters  sha256 %s\n", text(report, "params_sha256"));
    if (*text(report, "samples_digest"))
        printf("samples     digest %s\n", text(report, "samples_digest"));
    if (*run_directory)
        printf("directory   %s\n", run_directory);
}
