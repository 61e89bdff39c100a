#include "common/data/measure_kind.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ROW(name_, key_, shown, ...)                                                               \
    [SL_MEASURE_##name_] = {.key = key_, .name = shown, __VA_ARGS__},
#define WORD(name_, key_, ...) [SL_METRIC_##name_] = key_,

const struct sl_measure_kind sl_measure_kinds[] = {SL_MEASURES(ROW)};
const char *const sl_metric_words[] = {"auto", SL_MEASURES_TO_JUDGE_BY(WORD) NULL};

enum sl_measure sl_measure_of(enum sl_metric metric, enum sl_task task)
{
    if (metric != SL_METRIC_AUTO)
        return (enum sl_measure)(metric - 1);
    enum sl_measure m = SL_MEASURE_COUNT;
    while (m > 0 && !(sl_measure_kinds[--m].usual_of & 1u << task))
        continue;
    return m;
}

enum sl_measure sl_measure_of_own(enum sl_metric metric, enum sl_task task)
{
    enum sl_measure m = metric == SL_METRIC_AUTO ? SL_MEASURE_COUNT : 0;
    while (m > 0 && !(sl_measure_kinds[--m].own_of & 1u << task))
        continue;
    return m > 0 ? m : sl_measure_of(metric, task);
}

// The smaller class's share of the labelled training vertices.
static double rare_share(const struct sl_dataset *ds, uint32_t *class_index)
{
    const struct sl_vertex_list *train = &ds->split[SL_SPLIT_TRAIN];
    uint64_t n[2] = {0, 0};
    for (uint64_t i = 0; i < train->n; i++) {
        int32_t label = ds->label[sl_vertex_at(train, i)];
        n[0] += label == 0;
        n[1] += label == 1;
    }
    *class_index = n[1] <= n[0];
    return n[0] + n[1] ? (double)n[*class_index] / (double)(n[0] + n[1]) : NAN;
}

static bool can_have_rare(const struct sl_dataset *ds)
{
    return ds->task == SL_TASK_MULTICLASS && ds->n_classes == 2 && ds->label;
}

// Of validation; where it has no pairs, of the test.
static bool has_own_negatives(const struct sl_dataset *ds)
{
    const enum sl_split split = ds->edges[SL_SPLIT_VAL].n > 0 ? SL_SPLIT_VAL : SL_SPLIT_TEST;
    return ds->task == SL_TASK_LINK && ds->negatives[split].per_positive > 0;
}

struct sl_measure_choice sl_measure_choose(enum sl_metric metric, const struct sl_dataset *dataset)
{
    const struct sl_measure_choice usual = {.measure = sl_measure_of(metric, dataset->task),
                                            .share = NAN};
    struct sl_measure_choice rare = usual;
    if (metric == SL_METRIC_AUTO && has_own_negatives(dataset))
        return (struct sl_measure_choice){
            .measure = sl_measure_of_own(metric, dataset->task), .share = NAN, .own = true};
    if (metric != SL_METRIC_AUTO || !can_have_rare(dataset))
        return usual;
    rare.share = rare_share(dataset, &rare.class_index);
    rare.measure = SL_MEASURE_COUNT;
    while (rare.measure > 0 && !(sl_measure_kinds[--rare.measure].rare_of & 1u << dataset->task))
        continue;
    return rare.share < SL_MEASURE_RARE ? rare : usual;
}

char *sl_measure_reason(const struct sl_measure_choice *choice, char *buf, size_t bytes)
{
    *buf = '\0';
    if (choice->own)
        snprintf(buf, bytes, "each edge has negatives of its own");
    else if (!isnan(choice->share))
        snprintf(buf, bytes, "%.1f %% of the training vertices are of class %u",
                 100 * choice->share, choice->class_index);
    return buf;
}

char *sl_measure_title(enum sl_measure measure, double k, char buf[SL_MEASURE_TITLE])
{
    const char *name = sl_measure_kinds[measure].name, *at = strstr(name, "@K");
    if (at && k > 0)
        snprintf(buf, SL_MEASURE_TITLE, "%.*s@%.0f", (int)(at - name), name, k);
    else
        snprintf(buf, SL_MEASURE_TITLE, "%s", name);
    return buf;
}

char *sl_measure_text(double value, char buf[SL_MEASURE_TEXT])
{
    if (isnan(value))
        snprintf(buf, SL_MEASURE_TEXT, "unknown");
    else
        snprintf(buf, SL_MEASURE_TEXT, fabs(value) < 1e9 ? "%.4f" : "%.4g", value);
    return buf;
}

bool sl_measure_applies(enum sl_measure measure, const struct sl_dataset *dataset)
{
    const struct sl_measure_kind *kind = &sl_measure_kinds[measure];
    bool classes = dataset->task == SL_TASK_MULTICLASS;
    return kind->tasks & 1u << dataset->task &&
           (!kind->two_classes || !classes || dataset->n_classes == 2);
}
