/*
 * Class weights. "balanced" is scikit-learn's, of the training vertices; of a multi-label task the
 * weight is that of a label's positives, the usual pos_weight of BCEWithLogitsLoss
 * (class_counts.h). A class that does not occur has no rows to weigh; it gets 0, and the log says
 * so. A list is taken as it is.
 */
#include "trainer/model/objective.h"

#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/data/class_counts.h"
#include "common/data/prediction.h"

// ---- class weights ------------------------------------------------------------------------------

static int take_list(struct sl_objective *o, const struct sl_config *config)
{
    if (config->loss.n_class_weights != o->n_outputs)
        return sl_fail(SL_EINVAL,
                       "loss.class_weights: found %u numbers, wanted one for each of the data "
                       "set's %u %s: give as many, or \"balanced\" or \"none\"",
                       config->loss.n_class_weights, o->n_outputs,
                       o->task == SL_TASK_MULTILABEL ? "labels" : "classes");
    for (uint32_t c = 0; c < o->n_outputs; c++)
        o->class_weight[c] = (float)config->loss.class_weight[c];
    return SL_OK;
}

static void tell_missing(const struct sl_objective *o, const struct sl_class_counts *counts)
{
    uint32_t missing = 0, first_missing = 0;
    for (uint32_t c = 0; c < o->n_outputs; c++)
        if (counts->positive[c] == 0 && missing++ == 0)
            first_missing = c;
    if (missing)
        sl_log_warn("loss.class_weights \"balanced\": %u of %u %s do not occur in the training "
                    "set (the first is %u): their weight is 0",
                    missing, o->n_outputs, o->task == SL_TASK_MULTILABEL ? "labels" : "classes",
                    first_missing);
}

static int balance(struct sl_objective *o, const struct sl_dataset *ds)
{
    struct sl_class_counts counts;
    if (sl_class_counts_take(&counts, ds, &ds->split[SL_SPLIT_TRAIN]) < 0)
        return sl_fail_prefix(SL_ENOMEM, "loss.class_weights");
    sl_class_counts_balance(&counts, o->class_weight);
    tell_missing(o, &counts);
    sl_class_counts_fini(&counts);
    return SL_OK;
}

_Static_assert((int)SL_PAIR_LOSS_BCE == (int)SL_LOSS_PAIR_BCE &&
                   (int)SL_PAIR_LOSS_MARGIN == (int)SL_LOSS_PAIR_MARGIN &&
                   (int)SL_PAIR_LOSS_BPR == (int)SL_LOSS_PAIR_BPR &&
                   (int)SL_PAIR_LOSS_SOFTMAX == (int)SL_LOSS_PAIR_SOFTMAX,
               "config.h and kernels.h disagree");

int sl_objective_init(struct sl_objective *o, const struct sl_config *config,
                      const struct sl_dataset *dataset)
{
    if (sl_config_is_links(config)) {
        *o = (struct sl_objective){.task = SL_TASK_LINK,
                                   .n_outputs = config->task.dim,
                                   .pair_loss = (enum sl_pair_loss)config->task.loss,
                                   .margin = (float)config->task.margin,
                                   .per_positive = config->task.per_positive};
        return SL_OK;
    }
    // A data set that names no task and has no labels can be predicted for: then it is classes.
    *o = (struct sl_objective){.task = dataset->task ? dataset->task : SL_TASK_MULTICLASS,
                               .n_outputs = dataset->n_classes};
    if (config->loss.class_weights == SL_CLASS_WEIGHTS_NONE)
        return SL_OK;
    if (o->task == SL_TASK_REGRESSION)
        return sl_fail(SL_EINVAL, "loss.class_weights: the data set's task is regression, which "
                                  "has no classes: remove the key");
    if (config->loss.class_weights == SL_CLASS_WEIGHTS_BALANCED && !dataset->label &&
        !dataset->target)
        return sl_fail(SL_EINVAL, "loss.class_weights: \"balanced\" needs labels, and the data "
                                  "set has none");
    o->class_weight = malloc(o->n_outputs * sizeof *o->class_weight);
    if (!o->class_weight)
        return sl_fail(SL_ENOMEM, "loss.class_weights: no memory for %u classes", o->n_outputs);
    int rc = config->loss.class_weights == SL_CLASS_WEIGHTS_LIST ? take_list(o, config)
                                                                 : balance(o, dataset);
    if (rc < 0)
        sl_objective_fini(o);
    return rc;
}

void sl_objective_fini(struct sl_objective *o)
{
    free(o->class_weight);
    o->class_weight = NULL;
}

int sl_objective_place(const struct sl_objective *o, const struct sl_device *device,
                       struct sl_objective *out)
{
    *out = *o;
    if (!o->class_weight || device->is_host)
        return SL_OK;
    const size_t bytes = o->n_outputs * sizeof *o->class_weight;
    out->class_weight = device->memory.alloc(bytes);
    if (!out->class_weight)
        return sl_fail_prefix(SL_ENOMEM, "loss.class_weights: %u of them on the device",
                              o->n_outputs);
    SL_TRY(device->copy(out->class_weight, o->class_weight, bytes));
    return device->sync();
}

void sl_objective_unplace(struct sl_objective *o, const struct sl_device *device)
{
    if (o->class_weight && device && !device->is_host)
        device->memory.free(o->class_weight, o->n_outputs * sizeof *o->class_weight);
    o->class_weight = NULL;
}

// ---- losses -------------------------------------------------------------------------------------

int sl_objective_loss(const struct sl_objective *o, const struct sl_kernels *kernels,
                      const void *targets, uint64_t rows, const float *outputs, float *gradient,
                      struct sl_loss_result *out)
{
    switch (o->task) {
    case SL_TASK_MULTILABEL:
        return kernels->sigmoid_bce(outputs, targets, rows, o->n_outputs, o->class_weight, gradient,
                                    out);
    case SL_TASK_REGRESSION:
        return kernels->squared_error(outputs, targets, rows, o->n_outputs, gradient, out);
    default:
        return kernels->softmax_xent(outputs, targets, rows, o->n_outputs, o->class_weight,
                                     gradient, out);
    }
}

int sl_objective_pair_loss(const struct sl_objective *o, const struct sl_kernels *kernels,
                           const struct sl_pairs *pairs, const float *scores, float *gradient,
                           struct sl_loss_result *out)
{
    const struct sl_pair_loss_args args = {.loss = o->pair_loss,
                                           .n = pairs->n,
                                           .n_positive = pairs->n_positive,
                                           .per_positive = pairs->per_positive,
                                           .margin = o->margin,
                                           .score = scores,
                                           .weight = pairs->weight,
                                           .shift = pairs->shift,
                                           .dscore = gradient};
    return kernels->pair_loss(&args, out);
}

int sl_objective_loss_of(const struct sl_objective *o, const struct sl_layer_env *env,
                         const struct sl_dataset *dataset, const uint32_t *ids, uint64_t rows,
                         const float *outputs, struct sl_loss_result *out)
{
    const uint64_t words = rows * (o->task == SL_TASK_MULTICLASS ? 1 : o->n_outputs);
    void *targets = sl_layer_note(env, words * sizeof(float));
    if (!targets)
        return SL_ENOMEM;
    if (o->task == SL_TASK_MULTICLASS) {
        int32_t *labels = targets;
        for (uint64_t i = 0; i < rows; i++)
            labels[i] = dataset->label[ids[i]];
    } else {
        float *values = targets;
        for (uint64_t i = 0; i < rows; i++)
            sl_dataset_targets(dataset, ids[i], values + i * o->n_outputs);
    }
    const uint32_t *placed;
    SL_TRY(sl_layer_upload_words(env, targets, words, &placed));
    return sl_objective_loss(o, env->kernels, placed, rows, outputs, NULL, out);
}

// ---- predictions --------------------------------------------------------------------------------

void sl_objective_predict(const struct sl_objective *o, const float *outputs, uint64_t rows,
                          uint32_t *words)
{
    const uint32_t n_words = o->task == SL_TASK_MULTICLASS ? 1 : o->n_outputs;
    for (uint64_t i = 0; i < rows; i++)
        sl_prediction_write(o->task, outputs + i * o->n_outputs, o->n_outputs, words + i * n_words);
}
