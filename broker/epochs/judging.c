#include "broker/epochs/judging.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/epochs/baseline.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/edge_lookup.h"
#include "common/data/link_items.h"
#include "common/data/wider_graph.h"
#include "common/text/units.h"

// --- keys ----------------------------------------------------------------------------------------

static bool is_of_links(const struct sl_dataset *dataset)
{
    return dataset->task == SL_TASK_LINK;
}

static const char *name_of(enum sl_measure measure)
{
    return sl_measure_kinds[measure].key;
}

// The words of evaluate.metric that the data set has: "\"accuracy\", \"micro_f1\" or \"loss\"".
static char *list_metrics(const struct sl_dataset *dataset, char *out, size_t bytes)
{
    const char *last = NULL;
    size_t n = 0;
    for (int m = 0; m < SL_METRIC_COUNT - 1; m++) {
        if (!sl_measure_applies(m, dataset))
            continue;
        if (last && n < bytes)
            n += (size_t)snprintf(out + n, bytes - n, "%s\"%s\"", n ? ", " : "", last);
        last = name_of(m);
    }
    if (n < bytes)
        snprintf(out + n, bytes - n, "%s\"%s\"", n ? " or " : "", last);
    return out;
}

static int check_metric(const struct sl_config *config, const struct sl_dataset *dataset)
{
    char take[160];
    enum sl_measure measure = sl_measure_of(config->evaluate.metric, dataset->task);
    if (config->evaluate.metric == SL_METRIC_AUTO || sl_measure_applies(measure, dataset))
        return SL_OK;
    if (is_of_links(dataset))
        return sl_fail(SL_EINVAL,
                       "evaluate.metric: found \"%s\", but the job's task is \"link\", whose pairs "
                       "have ranks and no classes: take %s",
                       name_of(measure), list_metrics(dataset, take, sizeof take));
    if (sl_measure_kinds[measure].tasks == SL_OF_LINKS)
        return sl_fail(SL_EINVAL,
                       "evaluate.metric: found \"%s\", which ranks pairs of vertices, but the "
                       "job's task is not \"link\": take %s",
                       name_of(measure), list_metrics(dataset, take, sizeof take));
    if (dataset->task == SL_TASK_REGRESSION)
        return sl_fail(SL_EINVAL,
                       "evaluate.metric: found \"%s\", but the data set '%s' is a regression, "
                       "which has no right or wrong classes: take \"%s\" or \"auto\"",
                       name_of(measure), config->dataset,
                       name_of(sl_measure_of(SL_METRIC_AUTO, dataset->task)));
    return sl_fail(SL_EINVAL,
                   "evaluate.metric: found \"%s\", but the data set '%s' has %u classes, and the "
                   "metric needs two (or several labels a vertex): take %s",
                   name_of(measure), config->dataset, dataset->n_classes,
                   list_metrics(dataset, take, sizeof take));
}

// A key that the job gives, other than its default or "off", and the vertices that it acts on.
// (evaluate.fanout is none of them: a list spares the memory of activations, whatever there is.)
struct given {
    const char *key;
    bool is_given;
    char found[24];
    bool acts;
    enum sl_split on; // what is missing where it does not
};

// Whether something is evaluated on the split's vertices or edges: not by external trainers' jobs.
static bool has(const struct sl_config *config, const struct sl_dataset *dataset,
                enum sl_split split)
{
    return !sl_config_is_external(config) &&
           (is_of_links(dataset) ? dataset->edges[split].n : dataset->split[split].n) > 0 &&
           (split != SL_SPLIT_TEST || config->evaluate.test != SL_TEST_NEVER);
}

static int check_given(const struct sl_config *c, const struct sl_dataset *dataset)
{
    const bool val = has(c, dataset, SL_SPLIT_VAL), test = has(c, dataset, SL_SPLIT_TEST);
    const bool each = c->evaluate.test == SL_TEST_EACH;
    struct given keys[] = {
        {"early_stopping.patience", c->early_stopping.patience > 0, "", val, SL_SPLIT_VAL},
        {"early_stopping.min_delta", c->early_stopping.min_delta > 0, "", val, SL_SPLIT_VAL},
        {"early_stopping.target", c->early_stopping.target > 0, "", val, SL_SPLIT_VAL},
        {"evaluate.test", each, "\"each\"", test, SL_SPLIT_TEST},
        {"evaluate.metric", c->evaluate.metric != SL_METRIC_AUTO, "", val || each, SL_SPLIT_VAL},
        {"evaluate.every", c->evaluate.every > 1, "", val || each, SL_SPLIT_VAL},
        {"evaluate.val_edges_as_input", c->evaluate.val_edges_as_input, "true", val, SL_SPLIT_VAL},
    };
    snprintf(keys[0].found, sizeof keys[0].found, "%u", c->early_stopping.patience);
    snprintf(keys[1].found, sizeof keys[1].found, "%g", c->early_stopping.min_delta);
    snprintf(keys[2].found, sizeof keys[2].found, "%g", c->early_stopping.target);
    snprintf(keys[4].found, sizeof keys[4].found, "\"%s\"", sl_metric_words[c->evaluate.metric]);
    snprintf(keys[5].found, sizeof keys[5].found, "%g", c->evaluate.every);
    for (size_t i = 0; i < SL_COUNT_OF(keys); i++) {
        const bool of_test = keys[i].on == SL_SPLIT_TEST;
        if (!keys[i].is_given || keys[i].acts)
            continue;
        return sl_fail(SL_EINVAL,
                       "%s: found %s with the data set '%s', which has no %s %s, wanted it only "
                       "where there are some: take it out, or add %s_%s.npy",
                       keys[i].key, keys[i].found, c->dataset, of_test ? "test" : "validation",
                       is_of_links(dataset) ? "edges" : "vertices", of_test ? "test" : "val",
                       is_of_links(dataset) ? "edges" : "idx");
    }
    return SL_OK;
}

// Drawn negatives are wanted where a split that is evaluated has none of its own.
static int check_negatives(const struct sl_config *c, const struct sl_dataset *ds)
{
    bool drawn = false, given = false;
    for (enum sl_split s = SL_SPLIT_VAL; s < SL_SPLIT_COUNT; s++) {
        drawn |= has(c, ds, s) && !ds->negatives[s].ids;
        given |= has(c, ds, s) && ds->negatives[s].ids;
    }
    if (!is_of_links(ds) || c->evaluate.negatives == 0 || drawn || !given)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "evaluate.negatives: found %llu with the data set '%s', which has negatives of "
                   "its own for what is evaluated, wanted \"auto\": remove the key",
                   (unsigned long long)c->evaluate.negatives, c->dataset);
}

// A target that no validation can reach: most metrics are at most 1.
static int check_target(const struct sl_config *c, const struct sl_dataset *ds)
{
    const enum sl_measure measure = sl_measure_of(c->evaluate.metric, ds->task);
    const double target = c->early_stopping.target;
    if (target <= 1 || sl_measure_kinds[measure].less_is_better)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "early_stopping.target: found %g, wanted at most 1, as %s has: set it to a "
                   "share, such as 0.72",
                   target, sl_measure_kinds[measure].name);
}

// Epochs that are divided for evaluations have whole updates, as they had before.
static int check_fraction(const struct sl_config *c, uint64_t n_train)
{
    const uint64_t n = sl_config_epoch_items(c, n_train);
    const bool async = c->updates.mode == SL_UPDATE_ASYNC;
    const uint64_t each =
        c->sampler.batch_size * (uint64_t)(async ? 1 : c->updates.batches_per_update);
    if (c->evaluate.fraction == 0 || n_train == 0 || n >= SL_MIN(each, n_train))
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "evaluate.every: found %g, which is %llu of %llu that the data set '%s' trains "
                   "on, wanted at least an update, of %llu: set it to %.4g or more",
                   c->evaluate.fraction, (unsigned long long)n, (unsigned long long)n_train,
                   c->dataset, (unsigned long long)each, 1.0 / (double)SL_MAX(n_train / each, 1u));
}

int sl_judging_check(const struct sl_config *config, const struct sl_dataset *dataset)
{
    SL_TRY(check_metric(config, dataset));
    SL_TRY(check_given(config, dataset));
    SL_TRY(check_target(config, dataset));
    SL_TRY(check_fraction(config, dataset->split[SL_SPLIT_TRAIN].n));
    return check_negatives(config, dataset);
}

// --- labels --------------------------------------------------------------------------------------

// What a split's labels have shown so far.
struct shown {
    bool labelled, both; // both: a class or label that some vertices have and others have not
    int32_t class;
    uint8_t *seen; // (n_classes) bit 0: of a label a negative, bit 1: a positive
    float *target; // (n_classes)
};

static void look_at_class(struct shown *s, int32_t class)
{
    if (class < 0)
        return;
    s->both |= s->labelled && class != s->class;
    s->class = class;
    s->labelled = true;
}

static void look_at_labels(struct shown *s, const struct sl_dataset *ds, uint32_t v)
{
    sl_dataset_targets(ds, v, s->target);
    for (uint32_t c = 0; c < ds->n_classes; c++) {
        if (isnan(s->target[c]))
            continue;
        s->seen[c] |= s->target[c] > 0.5f ? 2 : 1;
        s->labelled = true;
        s->both |= s->seen[c] == 3;
    }
}

static int look(struct shown *s, const struct sl_dataset *ds, enum sl_split split, bool wants_both)
{
    const struct sl_vertex_list *list = &ds->split[split];
    s->seen = calloc(ds->n_classes, sizeof *s->seen);
    s->target = malloc(ds->n_classes * sizeof *s->target);
    if (!s->seen || !s->target)
        return sl_fail(SL_ENOMEM, "no memory for %u labels", ds->n_classes);
    for (uint64_t i = 0; i < list->n && !(wants_both ? s->both : s->labelled); i++) {
        if (ds->task == SL_TASK_MULTICLASS)
            look_at_class(s, ds->label[list->ids[i]]);
        else
            look_at_labels(s, ds, list->ids[i]);
    }
    return SL_OK;
}

// Why the metric is not defined on a split whose vertices are evaluated; "" where it is.
static int find_reason(const struct sl_config *config, const struct sl_dataset *ds,
                       enum sl_measure measure, enum sl_split split, char *why, size_t bytes)
{
    const bool wants_both = measure == SL_MEASURE_ROC_AUC;
    const bool weighs =
        measure == SL_MEASURE_LOSS && config->loss.class_weights != SL_CLASS_WEIGHTS_NONE;
    struct shown s = {0};
    struct sl_baseline b = {0};
    *why = '\0';
    int rc = look(&s, ds, split, wants_both);
    if (rc == SL_OK && weighs)
        rc = sl_baseline_find(&b, config, ds, &ds->split[split]);
    if (rc == SL_OK && !s.labelled)
        snprintf(why, bytes, "none of its %llu vertices is labelled",
                 (unsigned long long)ds->split[split].n);
    else if (rc == SL_OK && wants_both && !s.both && ds->task == SL_TASK_MULTICLASS)
        snprintf(why, bytes, "all of its labelled vertices are of class %d", s.class);
    else if (rc == SL_OK && wants_both && !s.both)
        snprintf(why, bytes, "no label is one that some of its vertices have and others have not");
    else if (rc == SL_OK && weighs && isnan(b.value[measure]))
        snprintf(why, bytes, "loss.class_weights gives the classes of all its vertices weight 0");
    free(s.seen);
    free(s.target);
    return rc;
}

// --- links ---------------------------------------------------------------------------------------

// Of a split's edges, whether they are in the graph. Each may be looked up in a hub's whole list.
enum { LOOKED_PAIRS = 1 << 12 };

static const char *const called[SL_SPLIT_COUNT] = {
    [SL_SPLIT_VAL] = "validation", [SL_SPLIT_TEST] = "test"};

static void look_at_none(struct sl_judging *j, enum sl_split split)
{
    static const char *const files[SL_SPLIT_COUNT] = {
        [SL_SPLIT_VAL] = "val_neg.npy", [SL_SPLIT_TEST] = "test_neg.npy"};
    snprintf(j->warning[split], sizeof j->warning[split],
             "the %s has no negatives, so that it ranks nothing: %s is empty: put pairs into it, "
             "or remove it, and evaluate.negatives are drawn",
             called[split], files[split]);
}

// With fewer negatives than K each edge is a hit.
static void look_at_negatives(struct sl_judging *j, const struct sl_config *c,
                              const struct sl_dataset *ds, enum sl_split split)
{
    const struct sl_link_items items = sl_link_items_of(ds, split, c->evaluate.negatives);
    const uint64_t n = items.per_positive > 0 ? items.per_positive : items.n_negative;
    char negatives[48];
    if (n >= c->evaluate.k)
        return;
    if (n == 0) {
        look_at_none(j, split);
        return;
    }
    snprintf(negatives, sizeof negatives, n == 1 ? "is %llu negative" : "are %llu negatives",
             (unsigned long long)n);
    snprintf(j->warning[split], sizeof j->warning[split],
             "the %s's Hits@%u is 1 whatever the model says%s: there %s%s: set "
             "evaluate.k to %llu or less%s",
             called[split], c->evaluate.k,
             j->choice.measure == SL_MEASURE_HITS && split == SL_SPLIT_VAL
                 ? ", and the first epoch counts as the best"
                 : "",
             negatives, items.per_positive > 0 ? " for each edge" : "", (unsigned long long)n,
             items.given.ids ? "" : ", or evaluate.negatives to more");
}

// Of one core, whatever it has for its sums: rows of both ends, and what the decoder multiplies.
static double seconds_of_pair(const struct sl_config *c)
{
    const double at_all = 0.15e-6, bytes_per_s = 5e9, flops = 5e10, dim = c->task.dim;
    double products = 0;
    if (c->task.decoder == SL_DECODER_BILINEAR)
        products = dim * dim;
    else if (c->task.decoder == SL_DECODER_MLP)
        products = dim * (c->task.combine == SL_COMBINE_CONCAT ? 2 : 1) * c->task.hidden;
    return at_all + 2 * sizeof(float) * dim / bytes_per_s + 2 * products / flops;
}

// An evaluation that takes minutes, or memory that training may want.
static void look_at_size(struct sl_judging *j, const struct sl_config *c,
                         const struct sl_dataset *ds, enum sl_split split)
{
    const double long_seconds = 60, many_bytes = 1 << 30;
    const struct sl_link_items items = sl_link_items_of(ds, split, c->evaluate.negatives);
    const uint64_t n = items.n_positive + items.n_negative, bytes = n * sizeof(float);
    const double seconds = (double)n * seconds_of_pair(c);
    char pairs[SL_UNITS_BYTES], time[SL_UNITS_BYTES], memory[SL_UNITS_BYTES];
    if (*j->warning[split] || (seconds < long_seconds && (double)bytes < many_bytes))
        return;
    snprintf(j->warning[split], sizeof j->warning[split],
             "the %s scores %s pairs each time: about %s of one core, which trainers share, and %s "
             "of memory for the scores%s",
             called[split], sl_units_grouped(pairs, n), sl_units_seconds(time, seconds),
             sl_units_bytes(memory, bytes),
             items.given.ids ? ""
                             : ": if that is too much, set evaluate.negatives lower, or "
                               "evaluate.every higher");
}

struct looked {
    uint64_t n;
    uint32_t pair[LOOKED_PAIRS][2]; // spread over the split's edges
};

static struct looked look_at_some(const struct sl_pair_list *edges)
{
    struct looked some = {.n = SL_MIN(edges->n, (uint64_t)LOOKED_PAIRS)};
    for (uint64_t i = 0; i < some.n; i++)
        memcpy(some.pair[i], edges->ids + 2 * (edges->n / some.n * i), sizeof some.pair[i]);
    return some;
}

static int by_ends(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return a[0] != b[0] ? (a[0] > b[0]) - (a[0] < b[0]) : (a[1] > b[1]) - (a[1] < b[1]);
}

// Which of the test's edges are among the validation's, in their direction or where the graph is
// of both in either.
static int count_in_validation(const struct sl_dataset *ds, struct looked *some, uint64_t *known)
{
    const struct sl_pair_list *val = &ds->edges[SL_SPLIT_VAL];
    bool met[2][LOOKED_PAIRS] = {{false}}, both_ways = false, turned = false;
    qsort(some->pair, some->n, sizeof some->pair[0], by_ends);
    for (uint64_t i = 0; i < val->n; i++)
        for (uint32_t way = 0; way < 2; way++) {
            const uint32_t pair[2] = {val->ids[2 * i + way], val->ids[2 * i + 1 - way]};
            const uint32_t(*at)[2] =
                bsearch(pair, some->pair, some->n, sizeof some->pair[0], by_ends);
            if (!at)
                continue;
            met[way][at - some->pair] = true;
            turned |= way;
        }
    if (turned)
        SL_TRY(sl_graph_is_both_ways(ds, 0, &both_ways));
    for (uint64_t i = 0; i < some->n; i++)
        *known += met[0][i] || (both_ways && met[1][i]);
    return SL_OK;
}

static int look_for_leaks(struct sl_judging *j, const struct sl_config *config,
                          const struct sl_dataset *ds, enum sl_split split)
{
    struct looked some = look_at_some(&ds->edges[split]);
    const uint64_t n = some.n;
    struct sl_edge_lookup graph;
    uint64_t known = 0;
    SL_TRY(sl_edge_lookup_init(&graph, ds, false));
    for (uint64_t i = 0; i < n; i++)
        known += sl_edge_lookup_has(&graph, some.pair[i][0], some.pair[i][1]);
    sl_edge_lookup_fini(&graph);
    if (known > 0)
        snprintf(j->leak[split], sizeof j->leak[split],
                 "%llu of %llu %s edges that were looked at are edges of the graph: the model sees "
                 "what it is judged by: take them out of the graph, or hold out others with "
                 "`sluice split-edges`",
                 (unsigned long long)known, (unsigned long long)n, called[split]);
    if (known > 0 || split != SL_SPLIT_TEST || !sl_config_widens(config, ds))
        return SL_OK;
    SL_TRY(count_in_validation(ds, &some, &known));
    if (known > 0)
        snprintf(j->leak[split], sizeof j->leak[split],
                 "%llu of %llu test edges that were looked at are validation edges, which are in "
                 "the test's graph: the model sees what it is judged by: take them out of one of "
                 "both, or set evaluate.val_edges_as_input to false",
                 (unsigned long long)known, (unsigned long long)n);
    return SL_OK;
}

static int look_at_links(struct sl_judging *j, const struct sl_config *config,
                         const struct sl_dataset *dataset)
{
    for (enum sl_split s = SL_SPLIT_VAL; s < SL_SPLIT_COUNT; s++) {
        if (!has(config, dataset, s))
            continue;
        look_at_negatives(j, config, dataset, s);
        look_at_size(j, config, dataset, s);
        SL_TRY(look_for_leaks(j, config, dataset, s));
    }
    return SL_OK;
}

int sl_judging_find(struct sl_judging *j, const struct sl_config *config,
                    const struct sl_dataset *dataset)
{
    char why[128];
    *j = (struct sl_judging){.choice = sl_measure_choose(config->evaluate.metric, dataset)};
    const char *name = sl_measure_kinds[j->choice.measure].name;
    if (is_of_links(dataset)) { // pairs need no labels
        j->finds_best = has(config, dataset, SL_SPLIT_VAL);
        return look_at_links(j, config, dataset);
    }
    if (dataset->described) { // there is no label to look at
        j->finds_best = has(config, dataset, SL_SPLIT_VAL);
        return SL_OK;
    }
    if (has(config, dataset, SL_SPLIT_VAL)) {
        SL_TRY(find_reason(config, dataset, j->choice.measure, SL_SPLIT_VAL, why, sizeof why));
        j->finds_best = !*why;
        if (*why)
            snprintf(j->warning[SL_SPLIT_VAL], sizeof j->warning[SL_SPLIT_VAL],
                     "the validation's %s is not defined: %s: no epoch is the best one, patience "
                     "counts nothing, and the last parameters are tested and kept: set "
                     "evaluate.metric to another one, or put other vertices into val_idx.npy",
                     name, why);
    }
    if (has(config, dataset, SL_SPLIT_TEST)) {
        SL_TRY(find_reason(config, dataset, j->choice.measure, SL_SPLIT_TEST, why, sizeof why));
        if (*why)
            snprintf(j->warning[SL_SPLIT_TEST], sizeof j->warning[SL_SPLIT_TEST],
                     "the test's %s is not defined: %s: the results do not have it", name, why);
    }
    return SL_OK;
}
