#include "common/data/class_counts.h"

#include <stdlib.h>

#include "common/base/error.h"

static void count_classes(struct sl_class_counts *c, const struct sl_dataset *ds,
                          const struct sl_vertex_list *list)
{
    uint64_t labelled = 0;
    for (uint64_t i = 0; i < list->n; i++) {
        int32_t label = ds->label[list->ids[i]];
        if (label < 0)
            continue;
        c->positive[label]++;
        labelled++;
    }
    for (uint32_t k = 0; k < c->n; k++)
        c->labelled[k] = labelled;
}

static int count_labels(struct sl_class_counts *c, const struct sl_dataset *ds,
                        const struct sl_vertex_list *list)
{
    float *target = malloc(c->n * sizeof *target);
    if (!target)
        return SL_ENOMEM;
    for (uint64_t i = 0; i < list->n; i++) {
        sl_dataset_targets(ds, list->ids[i], target);
        for (uint32_t k = 0; k < c->n; k++) {
            c->positive[k] += target[k] > 0.5f;
            c->labelled[k] += target[k] == target[k];
        }
    }
    free(target);
    return SL_OK;
}

int sl_class_counts_take(struct sl_class_counts *c, const struct sl_dataset *dataset,
                         const struct sl_vertex_list *list)
{
    *c = (struct sl_class_counts){.n = dataset->n_classes, .task = dataset->task};
    c->positive = calloc(c->n, sizeof *c->positive);
    c->labelled = calloc(c->n, sizeof *c->labelled);
    int rc = c->positive && c->labelled ? SL_OK : SL_ENOMEM;
    if (rc == SL_OK && c->task == SL_TASK_MULTILABEL)
        rc = count_labels(c, dataset, list);
    else if (rc == SL_OK)
        count_classes(c, dataset, list);
    if (rc == SL_OK)
        return SL_OK;
    sl_class_counts_fini(c);
    return sl_fail(rc, "no memory to count %u classes", dataset->n_classes);
}

void sl_class_counts_fini(struct sl_class_counts *c)
{
    free(c->positive);
    free(c->labelled);
    *c = (struct sl_class_counts){0};
}

void sl_class_counts_balance(const struct sl_class_counts *c, float *weight)
{
    uint32_t occur = 0;
    for (uint32_t k = 0; k < c->n; k++)
        occur += c->positive[k] > 0;
    for (uint32_t k = 0; k < c->n; k++) {
        double positive = (double)c->positive[k], labelled = (double)c->labelled[k], w = 0;
        if (positive > 0)
            w = c->task == SL_TASK_MULTILABEL ? (labelled - positive) / positive
                                              : labelled / (occur * positive);
        weight[k] = (float)w;
    }
}
