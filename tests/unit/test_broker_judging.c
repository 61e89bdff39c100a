// By what a job is judged: metrics that the labels do not define, keys that want other vertices.
#include "broker/epochs/judging.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

enum { TRAIN_N = 4, VAL_N = 3, TEST_N = 2 };

static const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
// Of the training vertices, of the validation's and of the test's.
static const int32_t classes[] = {0, 1, 0, 1, 0, 1, 0, 1, 0};
static struct sl_dataset ds;
static struct sl_config config;
static struct sl_judging found;

static void setup(void)
{
    ds = (struct sl_dataset){.task = SL_TASK_MULTICLASS, .n_classes = 2, .label = classes};
    ds.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){TRAIN_N, ids};
    ds.split[SL_SPLIT_VAL] = (struct sl_vertex_list){VAL_N, ids + TRAIN_N};
    ds.split[SL_SPLIT_TEST] = (struct sl_vertex_list){TEST_N, ids + TRAIN_N + VAL_N};
    memset(&config, 0, sizeof config);
    strcpy(config.dataset, "data/x");
    config.evaluate.every = 1;
    config.evaluate.full = true;
}

static void find(void)
{
    ck_assert_msg(sl_judging_check(&config, &ds) == SL_OK, "%s", sl_error_message());
    ck_assert_int_eq(sl_judging_find(&found, &config, &ds), SL_OK);
}

// The validation is not defined, for that reason; the test is.
static void expect_undefined(const char *metric, const char *why)
{
    char wanted[256];
    find();
    snprintf(wanted, sizeof wanted, "the validation's %s is not defined: %s: no epoch is the best",
             metric, why);
    ck_assert(!found.finds_best);
    ck_assert_msg(strstr(found.warning[SL_SPLIT_VAL], wanted), "no '%s' in: %s", wanted,
                  found.warning[SL_SPLIT_VAL]);
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST], "");
}

static void expect_defined(enum sl_metric metric)
{
    config.evaluate.metric = metric;
    find();
    ck_assert(found.finds_best);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        ck_assert_str_eq(found.warning[s], "");
}

TEST(roc_auc_wants_two_classes)
{
    static const int32_t ones[] = {0, 1, 0, 1, 1, -1, 1, 0, 1};
    expect_defined(SL_METRIC_ROC_AUC);
    ds.label = ones;
    expect_defined(SL_METRIC_ACCURACY);
    config.evaluate.metric = SL_METRIC_ROC_AUC;
    expect_undefined("ROC-AUC", "all of its labelled vertices are of class 1");
    // Of the test it is no reason to have no best.
    ds.split[SL_SPLIT_TEST] = ds.split[SL_SPLIT_VAL];
    ds.split[SL_SPLIT_VAL] = ds.split[SL_SPLIT_TRAIN];
    find();
    ck_assert(found.finds_best);
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST],
                     "the test's ROC-AUC is not defined: all of its labelled vertices are of class "
                     "1: the results do not have it");
    config.evaluate.test = SL_TEST_NEVER;
    find();
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST], "");
}

TEST(every_metric_wants_labels)
{
    static const int32_t none[] = {0, 1, 0, 1, -1, -1, -1, 1, 0};
    ds.label = none;
    expect_undefined("accuracy", "none of its 3 vertices is labelled");
    config.evaluate.metric = SL_METRIC_LOSS;
    expect_undefined("loss", "none of its 3 vertices is labelled");
}

TEST(a_loss_wants_weights)
{
    static const int32_t ones[] = {0, 0, 0, 0, 1, 1, 1, 0, 0};
    ds.label = ones;
    expect_defined(SL_METRIC_LOSS);
    config.loss.class_weights = SL_CLASS_WEIGHTS_BALANCED; // class 1 does not occur in training
    expect_undefined("loss", "loss.class_weights gives the classes of all its vertices weight 0");
    expect_defined(SL_METRIC_ACCURACY);
}

// Label 0 is of all, label 1 of none, of label 2 one vertex knows nothing.
TEST(of_several_labels_one_that_differs_is_enough)
{
    float target[9][3] = {{0}};
    for (int v = TRAIN_N; v < TRAIN_N + VAL_N; v++) {
        target[v][0] = 1;
        target[v][2] = v == TRAIN_N ? NAN : 0;
    }
    target[TRAIN_N + VAL_N][1] = 1; // of the test
    ds = (struct sl_dataset){.task = SL_TASK_MULTILABEL,
                             .n_classes = 3,
                             .target = target,
                             .target_dtype = SL_DTYPE_F32,
                             .split = {ds.split[0], ds.split[1], ds.split[2]}};
    config.evaluate.metric = SL_METRIC_ROC_AUC;
    expect_undefined("ROC-AUC", "no label is one that some of its vertices have and others have "
                                "not");
    target[TRAIN_N + 1][2] = 1;
    expect_defined(SL_METRIC_ROC_AUC);
}

TEST(without_validation_there_is_no_best)
{
    ds.split[SL_SPLIT_VAL].n = 0;
    find();
    ck_assert(!found.finds_best);
    ck_assert_str_eq(found.warning[SL_SPLIT_VAL], "");
}

// A job, the vertices that there are, and the key that is refused; NULL: none.
struct given {
    uint32_t patience, every;
    double min_delta, target;
    enum sl_metric metric;
    int test; // evaluate.test
    bool val, tests;
    const char *key, *lacks;
};

static const struct given cases[] = {
    {5, 3, 0.1, 0, SL_METRIC_LOSS, SL_TEST_FINAL, true, true, NULL, NULL},
    {0, 1, 0, 0, SL_METRIC_AUTO, SL_TEST_FINAL, false, false, NULL, NULL}, // defaults are silent
    {0, 0, 0, 0, SL_METRIC_AUTO, SL_TEST_NEVER, false, false, NULL, NULL}, // and so is what is off
    {5, 1, 0, 0, SL_METRIC_AUTO, SL_TEST_FINAL, false, true, "early_stopping.patience: found 5",
     "val"},
    {0, 1, 0.1, 0, SL_METRIC_AUTO, SL_TEST_FINAL, false, true,
     "early_stopping.min_delta: found 0.1", "val"},
    {0, 1, 0, 0.5, SL_METRIC_AUTO, SL_TEST_FINAL, false, true, "early_stopping.target: found 0.5",
     "val"},
    {0, 1, 0, 0, SL_METRIC_LOSS, SL_TEST_FINAL, false, true, "evaluate.metric: found \"loss\"",
     "val"},
    {0, 3, 0, 0, SL_METRIC_AUTO, SL_TEST_FINAL, false, true, "evaluate.every: found 3", "val"},
    // Tests of each epoch go by both.
    {0, 3, 0, 0, SL_METRIC_LOSS, SL_TEST_EACH, false, true, NULL, NULL},
    {2, 3, 0, 0, SL_METRIC_LOSS, SL_TEST_EACH, false, true, "early_stopping.patience: found 2",
     "val"},
    {0, 1, 0, 0, SL_METRIC_AUTO, SL_TEST_EACH, true, false, "evaluate.test: found \"each\"",
     "test"},
};

TEST(keys_that_cannot_act_are_refused)
{
    char lacks[64];
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        const struct given *c = &cases[i];
        setup();
        config.early_stopping.patience = c->patience;
        config.early_stopping.min_delta = c->min_delta;
        config.early_stopping.target = c->target;
        config.evaluate.every = c->every;
        config.evaluate.metric = c->metric;
        config.evaluate.test = c->test;
        ds.split[SL_SPLIT_VAL].n *= c->val;
        ds.split[SL_SPLIT_TEST].n *= c->tests;
        int rc = sl_judging_check(&config, &ds);
        if (!c->key) {
            ck_assert_msg(rc == SL_OK, "case %zu: %s", i, sl_error_message());
            continue;
        }
        snprintf(lacks, sizeof lacks, "take it out, or add %s_idx.npy", c->lacks);
        ck_assert_int_eq(rc, SL_EINVAL);
        ck_assert_msg(strncmp(sl_error_message(), c->key, strlen(c->key)) == 0, "case %zu: %s", i,
                      sl_error_message());
        ck_assert_msg(strstr(sl_error_message(), "data set 'data/x', which has no ") &&
                          strstr(sl_error_message(), lacks),
                      "case %zu: %s", i, sl_error_message());
    }
}

TEST(a_fraction_has_whole_updates)
{
    setup();
    config.sampler.batch_size = TRAIN_N / 4;
    config.updates.batches_per_update = 2;
    config.evaluate.fraction = 0.5;
    config.order.epochs_per_pass = 2;
    ck_assert_int_eq(sl_judging_check(&config, &ds), SL_OK);
    config.order.epochs_per_pass = 4;
    ck_assert_int_eq(sl_judging_check(&config, &ds), SL_EINVAL);
    ck_assert_msg(strstr(sl_error_message(), "set it to 0.5 or more"), "%s",
                  sl_error_message()); // which is 1/n
    config.updates.mode = SL_UPDATE_ASYNC;
    ck_assert_int_eq(sl_judging_check(&config, &ds), SL_OK);
}

TEST(a_target_that_no_metric_has_is_refused)
{
    setup();
    config.early_stopping.target = 72;
    ck_assert_int_eq(sl_judging_check(&config, &ds), SL_EINVAL);
    ck_assert_str_eq(sl_error_message(), "early_stopping.target: found 72, wanted at most 1, as "
                                         "accuracy has: set it to a share, such as 0.72");
    config.evaluate.metric = SL_METRIC_LOSS;
    ck_assert_int_eq(sl_judging_check(&config, &ds), SL_OK);
}

// Vertices and their labels are there, and say nothing of pairs.
static void be_links(uint64_t n_val, uint64_t n_test)
{
    ds.task = SL_TASK_LINK;
    static const uint64_t indptr[10]; // no edges
    ds.n_nodes = 9;
    ds.indptr = indptr;
    ds.indices = ids;
    ds.indices_dtype = SL_DTYPE_U32;
    ds.edges[SL_SPLIT_VAL] = (struct sl_pair_list){.n = n_val, .ids = ids};
    ds.edges[SL_SPLIT_TEST] = (struct sl_pair_list){.n = n_test, .ids = ids};
    config.evaluate.k = 2;
}

static void expect_refused(const char *part)
{
    ck_assert_int_eq(sl_judging_check(&config, &ds), SL_EINVAL);
    ck_assert_msg(strstr(sl_error_message(), part), "no '%s' in: %s", part, sl_error_message());
}

TEST(links_are_judged_by_ranks)
{
    be_links(3, 2);
    expect_defined(SL_METRIC_AUTO);
    ck_assert_int_eq(found.choice.measure, SL_MEASURE_HITS);
    expect_defined(SL_METRIC_ROC_AUC);
    expect_defined(SL_METRIC_LOSS);
    config.evaluate.metric = SL_METRIC_ACCURACY;
    expect_refused("found \"accuracy\", but the job's task is \"link\", whose pairs have ranks and "
                   "no classes: take \"roc_auc\", \"hits\", \"mrr\", \"average_precision\" or "
                   "\"loss\"");
    ds.task = SL_TASK_MULTICLASS;
    config.evaluate.metric = SL_METRIC_MRR;
    expect_refused("found \"mrr\", which ranks pairs of vertices, but the job's task is not "
                   "\"link\": take \"accuracy\", \"micro_f1\"");
}

TEST(links_with_fewer_negatives_than_k_are_all_hits)
{
    be_links(3, 2);
    config.evaluate.k = 3;
    find();
    ck_assert_str_eq(found.warning[SL_SPLIT_VAL], "");
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST],
                     "the test's Hits@3 is 1 whatever the model says: there are 2 negatives: set "
                     "evaluate.k to 2 or less, or evaluate.negatives to more");
    config.evaluate.negatives = 3;
    find();
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST], "");
}

TEST(links_with_an_empty_file_of_negatives_are_told)
{
    be_links(3, 2);
    ds.negatives[SL_SPLIT_TEST] = (struct sl_negatives){.ids = ids};
    find();
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST],
                     "the test has no negatives, so that it ranks nothing: test_neg.npy is empty: "
                     "put pairs into it, or remove it, and evaluate.negatives are drawn");
}

TEST(links_with_negatives_of_their_own_are_judged_by_mrr)
{
    char why[96];
    be_links(3, 2);
    ds.negatives[SL_SPLIT_VAL] = (struct sl_negatives){.n = 3, .per_positive = 1, .ids = ids};
    find();
    ck_assert_int_eq(found.choice.measure, SL_MEASURE_MRR);
    ck_assert_str_eq(sl_measure_reason(&found.choice, why, sizeof why),
                     "each edge has negatives of its own");
    ck_assert_str_eq(found.warning[SL_SPLIT_VAL],
                     "the validation's Hits@2 is 1 whatever the model says: there is 1 negative "
                     "for each edge: set evaluate.k to 1 or less");
    config.evaluate.metric = SL_METRIC_HITS;
    find();
    ck_assert_int_eq(found.choice.measure, SL_MEASURE_HITS);
    ck_assert_msg(strstr(found.warning[SL_SPLIT_VAL], ", and the first epoch counts as the best"),
                  "%s", found.warning[SL_SPLIT_VAL]);
}

// The pairs are (0, 1), (2, 3) and (4, 5).
TEST(links_to_judge_by_that_are_in_the_graph_are_told)
{
    static const uint64_t indptr[10] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
    static const uint32_t source[] = {2};
    be_links(3, 1);
    ds.indptr = indptr;
    ds.indices = source;
    config.evaluate.k = 1;
    find();
    ck_assert_msg(strstr(found.leak[SL_SPLIT_VAL], "1 of 3 validation edges that were looked at"),
                  "%s", found.leak[SL_SPLIT_VAL]);
    ck_assert_str_eq(found.leak[SL_SPLIT_TEST], "");
    config.evaluate.k = 20;
    config.model.kind = SL_MODEL_EXTERNAL; // which evaluates nothing, and is told nothing
    find();
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        ck_assert_str_eq(found.leak[s], "");
        ck_assert_str_eq(found.warning[s], "");
    }
}

// Validation edges in the test's graph are no leak of the validation, but of test edges among them.
TEST(test_edges_among_validation_edges_that_are_input_are_told)
{
    static const uint32_t val[] = {0, 1, 2, 3, 5, 4}, test[] = {4, 5, 2, 3, 7, 8};
    static const uint64_t indptr[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    static const uint32_t source[] = {0};
    be_links(3, 3);
    ds.edges[SL_SPLIT_VAL].ids = val;
    ds.edges[SL_SPLIT_TEST].ids = test;
    find();
    ck_assert_str_eq(found.leak[SL_SPLIT_TEST], "");
    config.evaluate.val_edges_as_input = true;
    find();
    ck_assert_str_eq(found.leak[SL_SPLIT_VAL], "");
    ck_assert_msg(strstr(found.leak[SL_SPLIT_TEST], "2 of 3 test edges that were looked at are "
                                                    "validation edges"),
                  "%s", found.leak[SL_SPLIT_TEST]);
    ds.indptr = indptr; // an edge without its reverse: (5, 4) brings no (4, 5)
    ds.indices = source;
    find();
    ck_assert_msg(strstr(found.leak[SL_SPLIT_TEST], "1 of 3"), "%s", found.leak[SL_SPLIT_TEST]);
    config.evaluate.test = SL_TEST_NEVER;
    find();
    ck_assert_str_eq(found.leak[SL_SPLIT_TEST], "");
    be_links(0, 3);
    config.evaluate.test = SL_TEST_FINAL;
    expect_refused(
        "evaluate.val_edges_as_input: found true with the data set 'data/x', which has no "
        "validation edges");
}

TEST(evaluations_of_billions_of_pairs_are_told)
{
    be_links(3, 0);
    config.task.dim = 64;
    config.evaluate.negatives = 100000000;
    find();
    ck_assert_str_eq(found.warning[SL_SPLIT_VAL], "");
    config.evaluate.negatives = 4000000000;
    find();
    ck_assert_str_eq(found.warning[SL_SPLIT_VAL],
                     "the validation scores 4,000,000,003 pairs each time: about 16 min 50 s of "
                     "one core, which trainers share, and 14.9 GiB of memory for the scores: if "
                     "that is too much, set evaluate.negatives lower, or evaluate.every higher");
    ck_assert_str_eq(found.warning[SL_SPLIT_TEST], "");
    config.task.decoder = SL_DECODER_MLP;
    config.task.hidden = 4096;
    config.evaluate.negatives = 100000000;
    find();
    ck_assert_msg(strstr(found.warning[SL_SPLIT_VAL], "each time: about 17 min"), "%s",
                  found.warning[SL_SPLIT_VAL]);
}

TEST(drawn_negatives_beside_given_ones_are_refused)
{
    be_links(3, 2);
    config.evaluate.negatives = 5;
    ds.negatives[SL_SPLIT_VAL] = (struct sl_negatives){.n = 3, .ids = ids};
    find(); // the test's are drawn
    ds.negatives[SL_SPLIT_TEST] = ds.negatives[SL_SPLIT_VAL];
    expect_refused("evaluate.negatives: found 5 with the data set 'data/x', which has negatives of "
                   "its own");
    config.evaluate.negatives = 0;
    find();
}

TEST(links_are_evaluated_on_edges)
{
    be_links(0, 2);
    find();
    ck_assert(!found.finds_best);
    config.early_stopping.patience = 5;
    expect_refused("has no validation edges, wanted it only where there are some: take it out, or "
                   "add val_edges.npy");
    be_links(3, 0);
    find();
    config.evaluate.test = SL_TEST_EACH;
    expect_refused("has no test edges");
}

RUN_TESTS(.setup = setup)
