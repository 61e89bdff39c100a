// Metrics of predictions against scikit-learn's values, their edges, and which evaluation is best.
// The larger cases draw from the generator of take(); the expected values are scikit-learn's
// (f1_score with zero_division=0, roc_auc_score, r2_score) on the same numbers.
#include "broker/epochs/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/epochs/early_stopping.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/prediction.h"
#include "tests/unit/suite.h"

enum { ROWS_MAX = 70000 };

static uint32_t ids[ROWS_MAX];
static struct sl_evaluation found;
static struct sl_evaluation_links links;

static uint64_t state;
static uint32_t take(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 40);
}

static void setup(void)
{
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        ids[i] = i;
}

static void judge(const struct sl_dataset *ds, uint64_t n, const void *predictions)
{
    const struct sl_vertex_list list = {n, ids};
    const struct sl_judged judged = {ds, &list, predictions, links, {.loss = 3, .weight = 4}};
    ck_assert_int_eq(sl_metrics_compute(&judged, &found), 0);
    if (found.not_finite > 0)
        ck_assert_double_nan(found.value[SL_MEASURE_LOSS]);
    else
        ck_assert_double_eq_tol(found.value[SL_MEASURE_LOSS], 0.75, 1e-15);
    for (int m = 0; m < SL_MEASURE_COUNT; m++)
        ck_assert_msg(found.applies[m] == sl_measure_applies(m, ds), "%s", sl_measure_key(m));
}

static void expect(enum sl_measure measure, double value)
{
    ck_assert_msg(found.applies[measure], "%s does not apply", sl_measure_key(measure));
    ck_assert_msg(
        fabs(found.value[measure] - value) < 1e-12 || (isnan(value) && isnan(found.value[measure])),
        "%s: found %.17g, wanted %.17g", sl_measure_key(measure), found.value[measure], value);
}

// --- multi-class ---

TEST(classes_are_as_in_scikit_learn)
{
    static int32_t label[1000];
    static uint32_t predicted[1000];
    state = 1;
    for (int i = 0; i < 1000; i++) {
        label[i] = (int32_t)(take() % 7) - 1;
        label[i] = label[i] == 5 ? 0 : label[i];
    }
    for (int i = 0; i < 1000; i++)
        predicted[i] = take() % 5;
    for (int i = 0; i < 1000; i++)
        if (take() % 2 == 1 && label[i] >= 0)
            predicted[i] = (uint32_t)label[i];
    // Class 5 occurs nowhere and is no part of the mean.
    const struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 6, .label = label};
    judge(&ds, 1000, predicted);
    expect(SL_MEASURE_MICRO_F1, 0.5988235294117648);
    expect(SL_MEASURE_MACRO_F1, 0.5849855747611746);
    expect(SL_MEASURE_ACCURACY, 0.5988235294117647);
    ck_assert(!found.applies[SL_MEASURE_ROC_AUC]);
    ck_assert(!found.applies[SL_MEASURE_MAE]);
    ck_assert_uint_eq(found.n_labelled, 850);
    ck_assert_uint_eq(found.not_finite, 0);
    // Of no class is right for none, as scikit-learn has class -1; 9 of these are not labelled.
    for (int i = 0; i < 1000; i += 10)
        predicted[i] = (uint32_t)SL_NO_CLASS;
    judge(&ds, 1000, predicted);
    ck_assert_uint_eq(found.not_finite, 91);
    expect(SL_MEASURE_ACCURACY, 0.5388235294117647);
    expect(SL_MEASURE_MICRO_F1, 0.5388235294117647);
    expect(SL_MEASURE_MACRO_F1, 0.5589301892310837);
}

TEST(two_classes_have_an_auc_with_ties)
{
    static int32_t label[2000];
    static float score[2000];
    state = 2;
    for (int i = 0; i < 2000; i++)
        label[i] = take() % 10 == 0;
    for (int i = 0; i < 2000; i++)
        score[i] = (float)(((double)(take() % 33) - 16) / 16.0 + (double)label[i] * 0.5 - 0.25);
    const struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 2, .label = label};
    judge(&ds, 2000, score);
    expect(SL_MEASURE_MICRO_F1, 0.638);
    expect(SL_MEASURE_MACRO_F1, 0.510744695229085);
    expect(SL_MEASURE_ROC_AUC, 0.7218019081182592);
    // The worst rank there is: one positive is below, 39 negatives are above all others.
    for (int i = 0; i < 2000; i += 50)
        score[i] = NAN;
    judge(&ds, 2000, score);
    ck_assert_uint_eq(found.not_finite, 40);
    expect(SL_MEASURE_ACCURACY, 0.624);
    expect(SL_MEASURE_MACRO_F1, 0.5058746174717913);
    expect(SL_MEASURE_ROC_AUC, 0.701089314052771);
}

TEST(auc_of_few_by_hand)
{
    static const int32_t label[] = {0, 1, 1, 0, -1, 1};
    const struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 2, .label = label};
    static const float all_right[] = {-2, 1, 3, -INFINITY, 100, INFINITY};
    judge(&ds, 6, all_right);
    expect(SL_MEASURE_ROC_AUC, 1);
    expect(SL_MEASURE_MACRO_F1, 1);
    static const float all_wrong[] = {2, -1, -3, 9, 0, -1e-40f};
    judge(&ds, 6, all_wrong);
    expect(SL_MEASURE_ROC_AUC, 0);
    static const float tied[] = {0.0f, -0.0f, 0, -0.0f, 7, 0}; // -0 is 0
    judge(&ds, 6, tied);
    expect(SL_MEASURE_ROC_AUC, 0.5);
    static const float one_tie[] = {1, 1, 2, 0, 0, 3}; // 5 pairs right, one a tie, of 6
    judge(&ds, 6, one_tie);
    expect(SL_MEASURE_ROC_AUC, 5.5 / 6);
}

TEST(what_is_not_defined_is_not_a_number)
{
    static const int32_t ones[] = {1, 1, -1}, none[] = {-1, -1, -1};
    static const float score[] = {1, -1, 2};
    struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 2, .label = ones};
    judge(&ds, 3, score);
    expect(SL_MEASURE_ROC_AUC, NAN);      // no negatives
    expect(SL_MEASURE_MACRO_F1, 1.0 / 3); // of 2/3 and 0
    ds.label = none;
    judge(&ds, 3, score);
    expect(SL_MEASURE_MICRO_F1, NAN);
    expect(SL_MEASURE_MACRO_F1, NAN);
    judge(&ds, 0, score); // no vertices
    expect(SL_MEASURE_MICRO_F1, NAN);
}

TEST(a_list_picks_its_vertices)
{
    static const int32_t label[] = {0, 1, 2, 0, 1};
    static const uint32_t some[] = {4, 2}, predicted[] = {1, 2};
    const struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 3, .label = label};
    const struct sl_vertex_list list = {2, some};
    const struct sl_judged judged = {&ds, &list, predicted, links, {0, 0}};
    ck_assert_int_eq(sl_metrics_compute(&judged, &found), 0);
    expect(SL_MEASURE_MACRO_F1, 1);
    expect(SL_MEASURE_LOSS, NAN);
    expect(SL_MEASURE_ACCURACY, 1);
}

// --- multi-label ---

enum { L_ROWS = 300, L_LABELS = 19 };

TEST(labels_are_as_in_scikit_learn)
{
    static float target[L_ROWS][L_LABELS], logit[L_ROWS][L_LABELS];
    float *y = &target[0][0], *z = &logit[0][0];
    const int n = L_ROWS * L_LABELS;
    state = 3;
    for (int i = 0; i < n; i++)
        y[i] = take() % 4 == 0;
    for (int i = 0; i < n; i++)
        z[i] = (float)(((double)(take() % 65) - 32) / 32.0 + 0.5 * (double)y[i] - 0.25);
    for (int i = 0; i < L_ROWS; i++) {
        target[i][3] = 0;
        target[i][4] = 1;
    }
    for (int i = 0; i < n; i++)
        y[i] = take() % 11 == 0 ? NAN : y[i];
    for (int i = 0; i < L_ROWS; i++)
        target[i][7] = NAN; // a label that nobody knows is no part of any mean
    const struct sl_dataset ds = {.task = SL_TASK_MULTILABEL,
                                  .n_classes = L_LABELS,
                                  .target_dtype = SL_DTYPE_F32,
                                  .target = target};
    judge(&ds, L_ROWS, logit);
    expect(SL_MEASURE_MICRO_F1, 0.4551409854742239);
    expect(SL_MEASURE_MACRO_F1, 0.43366476775297835);
    expect(SL_MEASURE_ROC_AUC, 0.7195775429367381);
    expect(SL_MEASURE_ACCURACY, 0.6102281988590057);
    // One output that is not finite makes all of its row wrong, and the worst of each rank.
    logit[17][5] = -INFINITY;
    target[17][5] = 1;
    judge(&ds, L_ROWS, logit);
    ck_assert_uint_eq(found.not_finite, 1);
    ck_assert_uint_eq(found.n_labelled, L_ROWS);
    expect(SL_MEASURE_ACCURACY, 0.6090057049714751);
    expect(SL_MEASURE_MICRO_F1, 0.4534320706351467);
    expect(SL_MEASURE_MACRO_F1, 0.4321535495545942);
    expect(SL_MEASURE_ROC_AUC, 0.7150681726340941);
}

TEST(integer_labels_have_a_sign_for_unlabelled)
{
    static const int8_t target[] = {1, -1, 0, 1, 1, -1}; // (3, 2)
    static const float logit[] = {1, 1, -1, 2, -3, -9};
    const struct sl_dataset ds = {
        .task = SL_TASK_MULTILABEL, .n_classes = 2, .target_dtype = SL_DTYPE_I8, .target = target};
    judge(&ds, 3, logit);
    expect(SL_MEASURE_MICRO_F1, 2 * 2.0 / (2 * 2 + 1));
    expect(SL_MEASURE_MACRO_F1, (2.0 / 3 + 1) / 2);
    expect(SL_MEASURE_ROC_AUC, 0.5); // label 0: one of two pairs; label 1 has no negatives
}

// --- regression ---

TEST(numbers_are_as_in_scikit_learn)
{
    static float target[500][3], output[500][3];
    float *y = &target[0][0], *o = &output[0][0];
    const double unit = 1.0 / (1 << 24);
    state = 4;
    for (int i = 0; i < 1500; i++)
        y[i] = (float)((double)take() * unit + (i % 3 == 1 ? 1000 : 0));
    for (int i = 0; i < 1500; i++)
        o[i] = y[i] + (float)(((double)take() * unit - 0.5) * 0.5);
    for (int i = 0; i < 1500; i++)
        y[i] = take() % 13 == 0 ? NAN : y[i];
    struct sl_dataset ds = {
        .task = SL_TASK_REGRESSION, .n_classes = 3, .target_dtype = SL_DTYPE_F32, .target = target};
    judge(&ds, 500, output);
    expect(SL_MEASURE_MAE, 0.1235876994810516);
    ck_assert_double_eq_tol(found.value[SL_MEASURE_R2], 0.7590995994490792, 1e-9);
    ck_assert(!found.applies[SL_MEASURE_ACCURACY]);
    // Of one target there is no R2.
    ds.n_classes = 1;
    ds.target = (const float[]){2};
    judge(&ds, 1, output);
    expect(SL_MEASURE_R2, NAN);
}

// Column 1 does not vary and is missed, column 2 does not vary and is met: 0 and 1 of R2's mean.
TEST(columns_that_do_not_vary_are_as_in_scikit_learn)
{
    static float target[40][4], output[40][4];
    const double unit = 1.0 / (1 << 24);
    state = 5;
    for (int i = 0; i < 160; i++) {
        double u = (double)take() * unit;
        target[i / 4][i % 4] = (float)((const double[]){u, 0.1f, 7, 1000 + u})[i % 4];
    }
    for (int i = 0; i < 160; i++) {
        float error = (float)(((double)take() * unit - 0.5) * 0.5);
        output[i / 4][i % 4] = target[i / 4][i % 4] + (i % 4 == 2 ? 0 : error);
    }
    const struct sl_dataset ds = {
        .task = SL_TASK_REGRESSION, .n_classes = 4, .target_dtype = SL_DTYPE_F32, .target = target};
    judge(&ds, 40, output);
    ck_assert_double_eq_tol(found.value[SL_MEASURE_R2], 0.6074197168508523, 1e-9);
    expect(SL_MEASURE_MAE, 0.09755517477169634);
    // What is not finite is no error that can be summed up.
    output[11][2] = INFINITY;
    judge(&ds, 40, output);
    ck_assert_uint_eq(found.not_finite, 1);
    expect(SL_MEASURE_MAE, NAN);
    expect(SL_MEASURE_R2, NAN);
}

// --- links ---

// The first two are positives.
TEST(pairs_are_judged_by_their_scores)
{
    static const float score[] = {2, 0, 3, 0, -1, 1};
    const struct sl_dataset ds = {.task = SL_TASK_LINK, .n_classes = 7};
    links = (struct sl_evaluation_links){.n_positives = 2, .k = 2};
    judge(&ds, 6, score);
    expect(SL_MEASURE_HITS, 0.5); // above the second best, 1, is one
    expect(SL_MEASURE_MRR, (1 / 2.0 + 1 / 3.5) / 2);
    expect(SL_MEASURE_ROC_AUC, (3 + 1.5) / 8);
    expect(SL_MEASURE_AVERAGE_PRECISION, (1 / 2.0 + 2 / 5.0) / 2);
    ck_assert(!found.applies[SL_MEASURE_ACCURACY]);
    ck_assert_uint_eq(found.n_labelled, 6);
    links.own = true; // 2 amid 3 and 0, 0 amid -1 and 1
    links.k = 1;
    judge(&ds, 6, score);
    expect(SL_MEASURE_HITS, 0);
    expect(SL_MEASURE_MRR, 0.5);
    expect(SL_MEASURE_ROC_AUC, (3 + 1.5) / 8);
}

TEST(pairs_that_cannot_be_ranked_are_an_error)
{
    static const float score[] = {2, 0, NAN};
    const struct sl_dataset ds = {.task = SL_TASK_LINK};
    const struct sl_vertex_list list = {3, NULL};
    struct sl_judged judged = {&ds, &list, score, {.n_positives = 2, .k = 1}, {0, 0}};
    ck_assert_int_eq(sl_metrics_compute(&judged, &found), SL_ENOTFINITE);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "negative pair 0 (of 1, from 0) is NaN"));
    judged.links.n_positives = 3;
    ck_assert_int_eq(sl_metrics_compute(&judged, &found), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "3 positive and 0 negative pairs"));
}

// --- on the loop ---

static int calls;

static void count_call(void *ctx)
{
    calls++;
}

TEST(many_are_judged_on_the_thread_pool)
{
    static int32_t label[ROWS_MAX];
    static uint32_t predicted[ROWS_MAX];
    uv_loop_t loop;
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        predicted[i] = (uint32_t)(label[i] = (int32_t)(i % 3));
    const struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 3, .label = label};
    struct sl_vertex_list list = {ROWS_MAX, ids};
    struct sl_metrics m = {.judged = {&ds, &list, predicted, links, {.weight = 1}},
                           .on_done = count_call};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert(!sl_metrics_start(&m, &loop));
    ck_assert(m.busy);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(calls, 1);
    ck_assert(!m.busy);
    ck_assert_int_eq(m.rc, 0);
    ck_assert_double_eq(m.found.value[SL_MEASURE_MACRO_F1], 1);
    list.n = 1000;
    ck_assert(sl_metrics_start(&m, &loop)); // few at once
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST(the_usual_measure_is_the_tasks)
{
    ck_assert_int_eq(sl_measure_of(SL_METRIC_AUTO, SL_TASK_MULTICLASS), SL_MEASURE_ACCURACY);
    ck_assert_int_eq(sl_measure_of(SL_METRIC_AUTO, SL_TASK_MULTILABEL), SL_MEASURE_MICRO_F1);
    ck_assert_int_eq(sl_measure_of(SL_METRIC_AUTO, SL_TASK_REGRESSION), SL_MEASURE_LOSS);
    ck_assert_int_eq(sl_measure_of(SL_METRIC_ROC_AUC, SL_TASK_MULTICLASS), SL_MEASURE_ROC_AUC);
    ck_assert_int_eq(sl_measure_of(SL_METRIC_AUTO, SL_TASK_LINK), SL_MEASURE_HITS);
    ck_assert_int_eq(sl_measure_of_own(SL_METRIC_AUTO, SL_TASK_LINK), SL_MEASURE_MRR);
    ck_assert_int_eq(sl_measure_of_own(SL_METRIC_HITS, SL_TASK_LINK), SL_MEASURE_HITS);
    ck_assert_int_eq(sl_measure_of_own(SL_METRIC_AUTO, SL_TASK_MULTICLASS), SL_MEASURE_ACCURACY);
    ck_assert_str_eq(sl_measure_key(SL_MEASURE_MACRO_F1), "macro_f1");
}

TEST(a_title_has_its_k)
{
    char title[SL_MEASURE_TITLE];
    ck_assert_str_eq(sl_measure_title(SL_MEASURE_HITS, 50, title), "Hits@50");
    ck_assert_str_eq(sl_measure_title(SL_MEASURE_HITS, NAN, title), "Hits@K");
    ck_assert_str_eq(sl_measure_title(SL_MEASURE_ROC_AUC, 50, title), "ROC-AUC");
}

// Two classes of which one has less than a third of the labelled training vertices.
TEST(accuracy_gives_way_where_a_class_is_rare)
{
    static int32_t label[9] = {0, 0, 1, 0, -1, 0, 1, 1, 1};
    char why[96];
    struct sl_dataset ds = {.task = SL_TASK_MULTICLASS, .n_classes = 2, .label = label};
    ds.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){6, ids}; // 1 of 5
    struct sl_measure_choice c = sl_measure_choose(SL_METRIC_AUTO, &ds);
    ck_assert_int_eq(c.measure, SL_MEASURE_ROC_AUC);
    ck_assert_str_eq(sl_measure_reason(&c, why, sizeof why),
                     "20.0 % of the training vertices are of class 1");
    c = sl_measure_choose(SL_METRIC_ACCURACY, &ds); // as the job says
    ck_assert_int_eq(c.measure, SL_MEASURE_ACCURACY);
    ck_assert_str_eq(sl_measure_reason(&c, why, sizeof why), "");
    ds.split[SL_SPLIT_TRAIN].n = 7; // 2 of 6 are no less than a third
    ck_assert_int_eq(sl_measure_choose(SL_METRIC_AUTO, &ds).measure, SL_MEASURE_ACCURACY);
    ds.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){5, ids + 4}; // 1 of 4, the other class
    c = sl_measure_choose(SL_METRIC_AUTO, &ds);
    ck_assert_int_eq(c.measure, SL_MEASURE_ROC_AUC);
    ck_assert_uint_eq(c.class_index, 0);
    ds.split[SL_SPLIT_TRAIN].n = 1; // none is labelled
    ck_assert_int_eq(sl_measure_choose(SL_METRIC_AUTO, &ds).measure, SL_MEASURE_ACCURACY);
    ds.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){6, ids};
    ds.n_classes = 3;
    ck_assert_int_eq(sl_measure_choose(SL_METRIC_AUTO, &ds).measure, SL_MEASURE_ACCURACY);
}

TEST(a_job_says_the_words_of_the_table)
{
    ck_assert_str_eq(sl_metric_words[SL_METRIC_AUTO], "auto");
    for (int metric = SL_METRIC_AUTO + 1; metric < SL_METRIC_COUNT; metric++)
        ck_assert_str_eq(sl_metric_words[metric],
                         sl_measure_key(sl_measure_of(metric, SL_TASK_MULTICLASS)));
    ck_assert_ptr_null(sl_metric_words[SL_METRIC_COUNT]);
    for (int m = 0; m < SL_MEASURE_COUNT; m++)
        for (int other = 0; other < m; other++)
            ck_assert_str_ne(sl_measure_key(other), sl_measure_key(m));
}

// --- the best one ---

static struct sl_early_stopping best;

static bool feed(enum sl_measure measure, double min_delta, uint32_t epoch, double value)
{
    return sl_early_stopping_on_value(&best, measure, min_delta, epoch, value);
}

TEST(of_equals_the_first_is_the_best)
{
    memset(&best, 0, sizeof best);
    ck_assert(feed(SL_MEASURE_ACCURACY, 0, 0, 0.5));
    ck_assert(!feed(SL_MEASURE_ACCURACY, 0, 1, 0.5));
    ck_assert_uint_eq(best.waited, 1);
    ck_assert(feed(SL_MEASURE_ACCURACY, 0, 2, 0.6));
    ck_assert_uint_eq(best.epoch, 2);
    ck_assert_uint_eq(best.waited, 0);
    ck_assert(!feed(SL_MEASURE_ACCURACY, 0, 3, 0.55));
}

TEST(less_loss_is_better)
{
    memset(&best, 0, sizeof best);
    ck_assert(feed(SL_MEASURE_LOSS, 0, 0, INFINITY));
    ck_assert(!feed(SL_MEASURE_LOSS, 0, 1, INFINITY));
    ck_assert(feed(SL_MEASURE_LOSS, 0, 2, 2));
    ck_assert(!feed(SL_MEASURE_LOSS, 0, 3, 3));
    ck_assert(feed(SL_MEASURE_LOSS, 0, 4, 1));
}

TEST(small_steps_are_progress_once_they_add_up)
{
    memset(&best, 0, sizeof best);
    feed(SL_MEASURE_ACCURACY, 0.1, 0, 0.5);
    ck_assert(feed(SL_MEASURE_ACCURACY, 0.1, 1, 0.5625)); // the best, and no progress
    ck_assert_uint_eq(best.waited, 1);
    ck_assert(!sl_early_stopping_is_stale(&best, 2));
    ck_assert(!sl_early_stopping_is_stale(&best, 0));
    ck_assert(sl_early_stopping_is_stale(&best, 1));
    ck_assert(feed(SL_MEASURE_ACCURACY, 0.1, 2, 0.625));
    ck_assert_uint_eq(best.waited, 0);
    feed(SL_MEASURE_ACCURACY, 0.1, 3, 0.6875);
    ck_assert_uint_eq(best.waited, 1);
    ck_assert_uint_eq(best.epoch, 3);
}

TEST(a_target_is_reached_from_the_metrics_worse_side)
{
    memset(&best, 0, sizeof best);
    ck_assert(!sl_early_stopping_has_reached(&best, 0.5)); // nothing yet
    feed(SL_MEASURE_ACCURACY, 0, 0, 0.5);
    ck_assert(sl_early_stopping_has_reached(&best, 0.5));
    ck_assert(!sl_early_stopping_has_reached(&best, 0.51));
    ck_assert(!sl_early_stopping_has_reached(&best, 0)); // there is none
    memset(&best, 0, sizeof best);
    feed(SL_MEASURE_LOSS, 0, 0, 2);
    ck_assert(sl_early_stopping_has_reached(&best, 2.5) &&
              !sl_early_stopping_has_reached(&best, 1));
}

TEST(what_is_no_number_is_no_evaluation)
{
    memset(&best, 0, sizeof best);
    for (uint32_t epoch = 0; epoch < 9; epoch++)
        ck_assert(!feed(SL_MEASURE_ROC_AUC, 0, epoch, NAN));
    ck_assert(!best.has && !sl_early_stopping_is_stale(&best, 1));
    ck_assert(feed(SL_MEASURE_LOSS, 0, 9, 5));
    ck_assert(!feed(SL_MEASURE_LOSS, 0, 10, NAN));
    ck_assert_uint_eq(best.waited, 0);
    ck_assert_uint_eq(best.epoch, 9);
}

TEST(what_is_unknown_is_said_so)
{
    char text[SL_MEASURE_TEXT];
    ck_assert_str_eq(sl_measure_text(0.89554, text), "0.8955");
    ck_assert_str_eq(sl_measure_text(1.5e25, text), "1.5e+25");
    ck_assert_str_eq(sl_measure_text(NAN, text), "unknown");
}

RUN_TESTS(.setup = setup)
