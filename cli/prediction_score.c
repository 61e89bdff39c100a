#include "cli/prediction_score.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/data/npy.h"
#include "common/data/prediction.h"

// One list of vertices.
struct judge {
    const struct sl_dataset *ds;
    const struct sl_npy *file;
    enum sl_prediction_kind kind;
    bool all; // rows are by vertex, not by place in the list
    struct sl_evaluation_sums sums;
    bool labelled; // one of the vertices is
};

// Outputs of a row as scores: above 0 means yes, the largest is the class. NaN where it says
// nothing.
static void read_row(const struct judge *j, uint64_t row, float *out)
{
    const uint32_t n = j->ds->n_classes;
    if (j->kind == SL_PREDICTION_CLASSES && j->ds->task == SL_TASK_MULTICLASS) {
        int32_t class = ((const int32_t *)j->file->data)[row];
        for (uint32_t c = 0; c < n; c++)
            out[c] = class == SL_NO_CLASS ? NAN : (int32_t)c == class;
        return;
    }
    for (uint32_t c = 0; c < n; c++) {
        uint64_t at = row * n + c;
        int8_t answer = j->kind == SL_PREDICTION_CLASSES ? ((const int8_t *)j->file->data)[at] : 0;
        if (j->kind == SL_PREDICTION_CLASSES)
            out[c] = answer == SL_NO_CLASS ? NAN : (float)answer - 0.5f;
        else
            out[c] = ((const float *)j->file->data)[at];
        if (j->kind == SL_PREDICTION_PROBABILITIES && j->ds->task == SL_TASK_MULTILABEL)
            out[c] -= 0.5f;
    }
}

static void add_class_loss(struct judge *j, uint64_t v, const float *row)
{
    const uint32_t n = j->ds->n_classes;
    const int32_t label = j->ds->label[v], best = sl_outputs_class(row, n);
    if (label < 0)
        return;
    j->labelled = true;
    if (best == SL_NO_CLASS)
        return;
    double sum = 1; // the largest one's
    for (uint32_t c = 0; c < n; c++)
        if (c != (uint32_t)best)
            sum += exp((double)row[c] - row[best]);
    j->sums.loss += log(sum) + row[best] - row[label];
    j->sums.weight++;
}

static void add_losses(struct judge *j, const float *target, const float *row)
{
    for (uint32_t c = 0; c < j->ds->n_classes; c++) {
        if (isnan(target[c]))
            continue;
        j->labelled = true;
        j->sums.weight++;
        double d = (double)row[c] - target[c];
        if (j->ds->task == SL_TASK_REGRESSION)
            j->sums.loss += d * d;
        else
            j->sums.loss +=
                fmax(row[c], 0) - (double)row[c] * target[c] + log1p(exp(-fabs(row[c])));
    }
}

// Where a file of all vertices has v: rows are in the order before a reordering.
static uint64_t row_of(const struct sl_dataset *ds, uint32_t v)
{
    return ds->vertex_map ? ds->vertex_map[v] : v;
}

static int judge_list(struct judge *j, const struct sl_vertex_list *list, bool *has,
                      struct sl_evaluation *out)
{
    const uint32_t width = j->ds->n_classes, n_words = sl_dataset_predict_words(j->ds);
    float *row = malloc(2 * width * sizeof *row), *target = row ? row + width : NULL;
    uint32_t *words = malloc(list->n * n_words * sizeof *words);
    int rc = SL_OK;
    if (!row || !words)
        rc = sl_fail(SL_ENOMEM, "judging the predictions: no memory for %llu vertices",
                     (unsigned long long)list->n);
    for (uint64_t i = 0; rc == SL_OK && i < list->n; i++) {
        read_row(j, j->all ? row_of(j->ds, list->ids[i]) : i, row);
        sl_prediction_write(j->ds->task, row, width, words + i * n_words);
        if (j->ds->task == SL_TASK_MULTICLASS) {
            add_class_loss(j, list->ids[i], row);
        } else {
            sl_dataset_targets(j->ds, list->ids[i], target);
            add_losses(j, target, row);
        }
    }
    *has = j->labelled;
    if (rc == SL_OK && *has)
        rc = sl_metrics_compute(&(struct sl_judged){j->ds, list, words, .sums = j->sums}, out);
    if (j->kind != SL_PREDICTION_LOGITS && j->ds->task != SL_TASK_REGRESSION)
        out->applies[SL_MEASURE_LOSS] = false;
    if (j->kind == SL_PREDICTION_CLASSES)
        out->applies[SL_MEASURE_ROC_AUC] = false;
    free(words);
    free(row);
    return rc;
}

int sl_prediction_score(struct sl_prediction_score *score, const struct sl_dataset *dataset,
                        const char *path, enum sl_prediction_kind kind, enum sl_split only)
{
    struct sl_npy file;
    memset(score, 0, sizeof *score);
    if (dataset->task == SL_TASK_NONE || (!dataset->label && !dataset->target))
        return SL_OK;
    SL_TRY(sl_npy_open(path, &file));
    int rc = SL_OK;
    const bool all = only == SL_SPLIT_COUNT;
    for (int s = 0; rc == SL_OK && s < SL_SPLIT_COUNT; s++) {
        const struct sl_vertex_list *list = &dataset->split[s];
        if ((!all && s != (int)only) || list->n == 0)
            continue;
        struct judge j = {.ds = dataset, .file = &file, .kind = kind, .all = all};
        if (file.head.ndim < 1 ||
            file.head.shape[0] != (all ? sl_dataset_labelled(dataset) : list->n))
            rc = sl_fail(SL_EFORMAT, "%s: found other rows than one for each vertex", path);
        else
            rc = judge_list(&j, list, &score->has[s], &score->split[s]);
    }
    sl_npy_close(&file);
    return rc;
}
