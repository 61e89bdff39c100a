#include "common/data/measure_kind.h"

#include <stddef.h>

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

bool sl_measure_applies(enum sl_measure measure, const struct sl_dataset *dataset)
{
    const struct sl_measure_kind *kind = &sl_measure_kinds[measure];
    bool classes = dataset->task == SL_TASK_MULTICLASS;
    return kind->tasks & 1u << dataset->task &&
           (!kind->two_classes || !classes || dataset->n_classes == 2);
}
