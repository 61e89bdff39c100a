#include "broker/job/learned.h"

#include <math.h>
#include <stdio.h>

#include "broker/job/divergence.h"
#include "common/base/error.h"
#include "common/data/link_items.h"
#include "common/text/json.h"

static void add(cJSON *warnings, const char *text)
{
    cJSON_AddItemToArray(warnings, cJSON_CreateString(text));
}

// Of the last epoch.
static int judge_training(const struct sl_learned *l, cJSON *warnings)
{
    const cJSON *last = cJSON_GetArrayItem(l->epochs, cJSON_GetArraySize(l->epochs) - 1);
    const double loss = sl_json_number(last, "loss");
    struct sl_baseline guess;
    char text[512], advice[160], who[96];
    SL_TRY(sl_baseline_find(&guess, l->config, l->dataset, &l->dataset->split[SL_SPLIT_TRAIN]));
    if (!sl_baseline_is_far_below(&guess, loss))
        return SL_OK;
    snprintf(text, sizeof text,
             "the training loss of the last epoch, %.6g, is far above the %.4g that %s has: steps "
             "are too large: %s",
             loss, guess.value[SL_MEASURE_LOSS],
             sl_baseline_text(&guess, SL_MEASURE_LOSS, who, sizeof who),
             sl_divergence_advice(l->config, advice, sizeof advice));
    add(warnings, text);
    return SL_OK;
}

static void find_of_pairs(const struct sl_learned *l, enum sl_split split, struct sl_baseline *b)
{
    const struct sl_link_items items =
        sl_link_items_of(l->dataset, split, l->config->evaluate.negatives);
    sl_baseline_of_links(b, items.n_positive, items.n_negative);
}

// By the job's metric; `value` tells what an evaluation of the split has found.
static int judge_evaluation(const struct sl_learned *l, const char *what, enum sl_split split,
                            double (*value)(const void *of, enum sl_measure m), const void *of,
                            cJSON *warnings)
{
    struct sl_baseline constant;
    const enum sl_measure m = l->measure;
    char text[512], who[96];
    if (sl_config_is_links(l->config))
        find_of_pairs(l, split, &constant);
    else
        SL_TRY(sl_baseline_find(&constant, l->config, l->dataset, &l->dataset->split[split]));
    if (sl_baseline_is_beaten(&constant, m, value(of, m)))
        return SL_OK;
    snprintf(
        text, sizeof text,
        "the %s's %s, %.4g, is no better than the %.4g that %s has: by this metric nothing was "
        "learned: give it more epochs (now %u) or another optimizer.lr (now %g), or look at "
        "the data with sluice inspect",
        what, sl_measure_name(m), value(of, m), constant.value[m],
        sl_baseline_text(&constant, m, who, sizeof who), l->config->epochs,
        l->config->optimizer.lr);
    add(warnings, text);
    return SL_OK;
}

static double value_in_report(const void *of, enum sl_measure m)
{
    return sl_json_number(of, sl_measure_key(m));
}

static double value_found(const void *of, enum sl_measure m)
{
    const struct sl_evaluation *found = of;
    return found->applies[m] ? found->value[m] : NAN;
}

// What the best epoch's validation has found; NULL: there was none.
static const cJSON *best_validation(const struct sl_learned *l)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, l->epochs)
    {
        if (l->best->has && sl_json_number(e, "epoch") == l->best->epoch)
            return sl_json_at(e, "val");
    }
    return NULL;
}

int sl_learned_judge(const struct sl_learned *l, cJSON *warnings)
{
    const cJSON *val = best_validation(l);
    SL_TRY(judge_training(l, warnings));
    if (val)
        SL_TRY(judge_evaluation(l, "validation", SL_SPLIT_VAL, value_in_report, val, warnings));
    if (l->test)
        SL_TRY(judge_evaluation(l, "test", SL_SPLIT_TEST, value_found, l->test, warnings));
    return SL_OK;
}
