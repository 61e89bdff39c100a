/*
 * measure_kind.h - the metrics of an evaluation: what they are called, and of which tasks they are.
 *
 * One metric is one row of SL_MEASURES; broker/epochs/metrics.c computes it and sets its value
 * where the task has it. From the row follow the words of evaluate.metric, whether a data set has
 * the metric, which way is better, and what reports, summaries, TensorBoard and `sluice predict`
 * call it.
 */
#ifndef SL_DATA_MEASURE_KIND_H
#define SL_DATA_MEASURE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/dataset.h"

// Sets of tasks.
enum {
    SL_OF_CLASSES = 1 << SL_TASK_MULTICLASS,
    SL_OF_LABELS = 1 << SL_TASK_MULTILABEL,
    SL_OF_NUMBERS = 1 << SL_TASK_REGRESSION,
    SL_OF_LINKS = 1 << SL_TASK_LINK,
};

struct sl_measure_kind {
    const char *key, *name; // "micro_f1", in files; "micro-F1", for people
    unsigned tasks;         // that have it
    unsigned usual_of;      // tasks that are judged by it where evaluate.metric is "auto"
    unsigned rare_of;       // likewise, of two classes of which one is rare (SL_MEASURE_RARE)
    unsigned own_of;        // likewise, of positives that have negatives of their own
    bool two_classes;       // of classes only where there are two
    bool less_is_better;
    bool is_share; // of something: told in percent where there is room for few digits
    double margin; // by how much a model is to be better than a constant answer to have learned
};

// X(name, key, name for people, further fields of the row). A job may be judged by the first ones.
// clang-format off
#define SL_MEASURES_TO_JUDGE_BY(X)                                                                 \
    X(ACCURACY, "accuracy", "accuracy", .tasks = SL_OF_CLASSES | SL_OF_LABELS,                     \
      .usual_of = SL_OF_CLASSES, .is_share = true, .margin = 0.005)                                \
    X(MICRO_F1, "micro_f1", "micro-F1", .tasks = SL_OF_CLASSES | SL_OF_LABELS,                     \
      .usual_of = SL_OF_LABELS, .is_share = true, .margin = 0.005)                                 \
    X(MACRO_F1, "macro_f1", "macro-F1", .tasks = SL_OF_CLASSES | SL_OF_LABELS,                     \
      .is_share = true, .margin = 0.005)                                                           \
    X(ROC_AUC,  "roc_auc",  "ROC-AUC",  .tasks = SL_OF_CLASSES | SL_OF_LABELS | SL_OF_LINKS,       \
      .rare_of = SL_OF_CLASSES, .two_classes = true, .margin = 0.02)                               \
    X(HITS,     "hits",     "Hits@K",   .tasks = SL_OF_LINKS, .usual_of = SL_OF_LINKS,             \
      .is_share = true)                                                                            \
    X(MRR,      "mrr",      "MRR",      .tasks = SL_OF_LINKS, .own_of = SL_OF_LINKS)               \
    X(AVERAGE_PRECISION, "average_precision", "average precision", .tasks = SL_OF_LINKS,           \
      .margin = 0.02)                                                                              \
    X(LOSS,     "loss",     "loss",                                                                \
      .tasks = SL_OF_CLASSES | SL_OF_LABELS | SL_OF_NUMBERS | SL_OF_LINKS,                         \
      .usual_of = SL_OF_NUMBERS, .less_is_better = true)
#define SL_MEASURES(X)                                                                             \
    SL_MEASURES_TO_JUDGE_BY(X)                                                                     \
    X(MAE,      "mae",      "MAE",      .tasks = SL_OF_NUMBERS, .less_is_better = true)            \
    X(R2,       "r2",       "R2",       .tasks = SL_OF_NUMBERS)
// clang-format on

#define SL_MEASURE_NAME(name, ...) SL_MEASURE_##name,
#define SL_METRIC_NAME(name, ...)  SL_METRIC_##name,
enum sl_measure { SL_MEASURES(SL_MEASURE_NAME) SL_MEASURE_COUNT };
// evaluate.metric: AUTO, or one more than the measure.
enum sl_metric { SL_METRIC_AUTO, SL_MEASURES_TO_JUDGE_BY(SL_METRIC_NAME) SL_METRIC_COUNT };
#undef SL_MEASURE_NAME
#undef SL_METRIC_NAME

extern const struct sl_measure_kind sl_measure_kinds[SL_MEASURE_COUNT]; // by enum sl_measure
extern const char *const sl_metric_words[SL_METRIC_COUNT + 1]; // by enum sl_metric, then NULL

// What a job is judged by: evaluate.metric, or the task's usual one.
enum sl_measure sl_measure_of(enum sl_metric metric, enum sl_task task);

// The same of links whose positives are each ranked among negatives of their own.
enum sl_measure sl_measure_of_own(enum sl_metric metric, enum sl_task task);

struct sl_measure_choice {
    enum sl_measure measure;
    // Why "auto" is not the usual one: a class of two is so small a share, below SL_MEASURE_RARE,
    // of the labelled training vertices. NaN: it is the usual one, or the job says which.
    double share;
    uint32_t class_index;
    bool own; // likewise: of links each of which is ranked among negatives of its own
};

// Of two classes of which one has less, accuracy says little: always naming the other has most of
// it.
#define SL_MEASURE_RARE (1.0 / 3)

// The same by the data set's labels: one pass over the training vertices where there are two
// classes and "auto" is to be decided.
struct sl_measure_choice sl_measure_choose(enum sl_metric metric, const struct sl_dataset *dataset);
// "21.8 % of the training vertices are of class 1"; "" where the choice is the usual one. Returns
// buf.
char *sl_measure_reason(const struct sl_measure_choice *choice, char *buf, size_t bytes);

// Its name for people, with the K of a job of links (evaluate.k) where it has one: "Hits@50". Of a
// K that is not known, NaN, the name alone. Returns buf.
enum { SL_MEASURE_TITLE = 32 };
char *sl_measure_title(enum sl_measure measure, double k, char buf[SL_MEASURE_TITLE]);

// "0.8955" for people; "unknown" of NaN, a value that the labels do not define. Returns buf.
enum { SL_MEASURE_TEXT = 64 };
char *sl_measure_text(double value, char buf[SL_MEASURE_TEXT]);

// Whether evaluations of the data set have it.
bool sl_measure_applies(enum sl_measure measure, const struct sl_dataset *dataset);

#endif
