// What the best constant answer has, by hand; and what is said of jobs that are no better.
#include "broker/epochs/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/job/learned.h"
#include "tests/unit/suite.h"

static uint32_t ids[16];
static struct sl_config config;
static struct sl_baseline found;

static void setup(void)
{
    for (uint32_t i = 0; i < 16; i++)
        ids[i] = i;
    memset(&config, 0, sizeof config);
    config.epochs = 3;
    config.optimizer.lr = 1000;
}

static void look(const struct sl_dataset *ds, uint64_t n)
{
    const struct sl_vertex_list list = {n, ids};
    ck_assert_int_eq(sl_baseline_find(&found, &config, ds, &list), 0);
}

static void expect(enum sl_measure m, double value)
{
    ck_assert_msg(fabs(found.value[m] - value) < 1e-12 || (isnan(value) && isnan(found.value[m])),
                  "%s: found %.17g, wanted %.17g", sl_measure_kinds[m].key, found.value[m], value);
}

static const int32_t classes[] = {2, 0, 2, -1, 2, 0, 1, 2};

TEST(of_classes_it_is_the_most_frequent_one)
{
    const struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 4, .label = classes};
    char text[96];
    look(&ds, 8); // 4, 2 and 1 of 7; class 3 does not occur
    expect(SL_MEASURE_ACCURACY, 4.0 / 7);
    expect(SL_MEASURE_MICRO_F1, 4.0 / 7);
    expect(SL_MEASURE_MACRO_F1, 8.0 / 11 / 3);
    expect(SL_MEASURE_LOSS, -(4 * log(4.0 / 7) + 2 * log(2.0 / 7) + log(1.0 / 7)) / 7);
    expect(SL_MEASURE_ROC_AUC, NAN);
    expect(SL_MEASURE_R2, NAN);
    ck_assert_str_eq(sl_baseline_text(&found, SL_MEASURE_ACCURACY, text, sizeof text),
                     "always answering class 2");
    look(&ds, 0);
    expect(SL_MEASURE_ACCURACY, NAN);
}

// Class weights are in the loss, of a balanced job those of the training vertices.
TEST(class_weights_are_in_the_loss)
{
    struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 3, .label = classes};
    config.loss.class_weights = SL_CLASS_WEIGHTS_LIST;
    config.loss.n_class_weights = 3;
    config.loss.class_weight[0] = 2;
    config.loss.class_weight[1] = 4;
    config.loss.class_weight[2] = 1;
    look(&ds, 8); // each class weighs 4
    expect(SL_MEASURE_LOSS, log(3));
    expect(SL_MEASURE_ACCURACY, 4.0 / 7);
    config.loss.class_weights = SL_CLASS_WEIGHTS_BALANCED;
    ds.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){8, ids};
    look(&ds, 8);
    ck_assert_double_eq_tol(found.value[SL_MEASURE_LOSS], log(3), 1e-6);
}

TEST(of_labels_it_is_what_most_have)
{
    // Label 0: 3 of 4; label 1: 1 of 3, one is not known; label 2: none of 4.
    static const float target[] = {1, 0, 0, 1, 1, 0, 0, NAN, 0, 1, 0, 0};
    const struct sl_dataset ds = {
        .task = SL_TASK_MULTILABEL, .n_classes = 3, .target = target, .target_dtype = SL_DTYPE_F32};
    look(&ds, 4);
    expect(SL_MEASURE_ACCURACY, (3.0 + 2 + 4) / 11);
    expect(SL_MEASURE_MICRO_F1, 2 * 3.0 / (4 + 4)); // answers label 0 of all four
    expect(SL_MEASURE_MACRO_F1, 2 * 0.75 / 1.75 / 3);
    expect(SL_MEASURE_ROC_AUC, 0.5);
    expect(SL_MEASURE_LOSS, -(3 * log(0.75) + log(0.25) + log(1.0 / 3) + 2 * log(2.0 / 3)) / 11);
}

TEST(of_numbers_it_is_the_mean)
{
    static const float target[] = {1000001, 5, 1000003, NAN, 1000005, 9};
    const struct sl_dataset ds = {
        .task = SL_TASK_REGRESSION, .n_classes = 2, .target = target, .target_dtype = SL_DTYPE_F32};
    look(&ds, 3);
    expect(SL_MEASURE_LOSS, (8.0 + 8) / 5);
    expect(SL_MEASURE_R2, 0);
    expect(SL_MEASURE_ACCURACY, NAN);
}

TEST(of_links_it_is_one_score_for_all)
{
    const struct sl_dataset ds = {.task = SL_TASK_LINK, .n_classes = 4, .label = classes};
    char text[96];
    look(&ds, 8); // labels are none of its business
    expect(SL_MEASURE_ROC_AUC, 0.5);
    expect(SL_MEASURE_AVERAGE_PRECISION, NAN);
    expect(SL_MEASURE_ACCURACY, NAN);
    config.task.per_positive = 3;
    look(&ds, 8);
    expect(SL_MEASURE_LOSS, -log(0.25) / 4 - 3 * log(0.75) / 4);
    config.task.loss = SL_PAIR_LOSS_SOFTMAX;
    look(&ds, 8);
    expect(SL_MEASURE_LOSS, log(4));
    config.task.loss = SL_PAIR_LOSS_BPR;
    look(&ds, 8);
    expect(SL_MEASURE_LOSS, log(2));
    config.task.negatives = SL_NEGATIVES_BATCH;
    look(&ds, 8);
    expect(SL_MEASURE_LOSS, NAN);
    sl_baseline_of_links(&found, 3, 9);
    expect(SL_MEASURE_ROC_AUC, 0.5);
    expect(SL_MEASURE_AVERAGE_PRECISION, 0.25);
    expect(SL_MEASURE_HITS, NAN);
    expect(SL_MEASURE_MRR, NAN);
    expect(SL_MEASURE_LOSS, NAN);
    ck_assert(!sl_baseline_is_beaten(&found, SL_MEASURE_AVERAGE_PRECISION, 0.26));
    ck_assert(sl_baseline_is_beaten(&found, SL_MEASURE_AVERAGE_PRECISION, 0.28));
    ck_assert(sl_baseline_is_beaten(&found, SL_MEASURE_HITS, 0)); // nothing is known
    ck_assert_str_eq(sl_baseline_text(&found, SL_MEASURE_AVERAGE_PRECISION, text, sizeof text),
                     "guessing");
}

TEST(better_is_by_the_margin)
{
    struct sl_baseline b = {.task = SL_TASK_MULTICLASS};
    b.value[SL_MEASURE_ACCURACY] = 0.75;
    b.value[SL_MEASURE_ROC_AUC] = 0.5;
    b.value[SL_MEASURE_LOSS] = 1;
    b.value[SL_MEASURE_MAE] = NAN;
    ck_assert(!sl_baseline_is_beaten(&b, SL_MEASURE_ACCURACY, 0.5));
    ck_assert(!sl_baseline_is_beaten(&b, SL_MEASURE_ACCURACY, 0.75));
    ck_assert(!sl_baseline_is_beaten(&b, SL_MEASURE_ACCURACY, 0.753));
    ck_assert(sl_baseline_is_beaten(&b, SL_MEASURE_ACCURACY, 0.76));
    ck_assert(!sl_baseline_is_beaten(&b, SL_MEASURE_ROC_AUC, 0.51));
    ck_assert(!sl_baseline_is_beaten(&b, SL_MEASURE_ROC_AUC, 0.3));
    ck_assert(sl_baseline_is_beaten(&b, SL_MEASURE_ROC_AUC, 0.53));
    ck_assert(!sl_baseline_is_beaten(&b, SL_MEASURE_LOSS, 1));
    ck_assert(sl_baseline_is_beaten(&b, SL_MEASURE_LOSS, 0.9));
    ck_assert(sl_baseline_is_beaten(&b, SL_MEASURE_MAE, 0.9)); // nothing is known
    ck_assert(sl_baseline_is_beaten(&b, SL_MEASURE_ACCURACY, NAN));
    ck_assert(!sl_baseline_is_far_below(&b, 1.9));
    ck_assert(sl_baseline_is_far_below(&b, 2.1));
    ck_assert(sl_baseline_is_far_below(&b, INFINITY));
    ck_assert(!sl_baseline_is_far_below(&b, NAN));
    b.value[SL_MEASURE_LOSS] = 0; // nothing to compare with
    ck_assert(!sl_baseline_is_far_below(&b, 5));
}

// --- what is said ---

static cJSON *warnings;

static int judge(const char *epochs_json, enum sl_measure measure, double on_test)
{
    struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 3, .label = classes};
    cJSON *epochs = cJSON_Parse(epochs_json);
    const struct sl_early_stopping best = {.has = true, .epoch = 1};
    struct sl_evaluation test = {0};
    test.applies[SL_MEASURE_ACCURACY] = true;
    test.value[SL_MEASURE_ACCURACY] = on_test;
    ds.split[SL_SPLIT_TRAIN] = ds.split[SL_SPLIT_VAL] = (struct sl_vertex_list){8, ids};
    ds.split[SL_SPLIT_TEST] = (struct sl_vertex_list){2, ids}; // half of each of two classes
    const struct sl_learned l = {.config = &config,
                                 .dataset = &ds,
                                 .epochs = epochs,
                                 .best = &best,
                                 .measure = measure,
                                 .test = isnan(on_test) ? NULL : &test};
    cJSON_Delete(warnings);
    warnings = cJSON_CreateArray();
    ck_assert_int_eq(sl_learned_judge(&l, warnings), 0);
    cJSON_Delete(epochs);
    return cJSON_GetArraySize(warnings);
}

static const char *said(int i)
{
    return cJSON_GetArrayItem(warnings, i)->valuestring;
}

TEST(who_has_learned_nothing_says_so)
{
    ck_assert_int_eq(judge("[{\"epoch\": 0, \"loss\": 9}, {\"epoch\": 1, \"loss\": 0.9, \"val\": "
                           "{\"accuracy\": 0.6}}]",
                           SL_MEASURE_ACCURACY, 0.7),
                     0);
    ck_assert_int_eq(judge("[{\"epoch\": 1, \"loss\": 0.9, \"val\": {\"accuracy\": 0.5}}, "
                           "{\"epoch\": 2, \"loss\": 5096886, \"val\": {\"accuracy\": 0.4}}]",
                           SL_MEASURE_ACCURACY, 0.5),
                     3);
    ck_assert_ptr_nonnull(strstr(said(0), "5.09689e+06, is far above the 0.9557 that guessing by "
                                          "how often each class occurs has"));
    ck_assert_ptr_nonnull(strstr(said(0), "lower optimizer.lr (now 1000) or set "
                                          "optimizer.clip_norm"));
    ck_assert_ptr_nonnull(strstr(said(1), "the validation's accuracy, 0.5, is no better than the "
                                          "0.5714 that always answering class 2 has"));
    ck_assert_ptr_nonnull(strstr(said(2), "the test's accuracy, 0.5, is no better than the 0.5 "
                                          "that always answering class 0 has"));
    ck_assert_int_eq(
        judge("[{\"epoch\": 1, \"loss\": 0.9, \"val\": {\"loss\": 0.96}}]", SL_MEASURE_LOSS, NAN),
        1);
    ck_assert_ptr_nonnull(strstr(said(0), "the validation's loss, 0.96, is no better than"));
    ck_assert_int_eq(judge("[]", SL_MEASURE_ACCURACY, NAN), 0); // no epoch, no evaluation
    cJSON_Delete(warnings);
    warnings = NULL;
}

RUN_TESTS(.setup = setup)
