/*
 * types.c - which jobs there are on a graph of several types.
 *
 * A typed graph has models of its own, and some of what plain graphs have is not there yet: a table
 * says what, and what to use.
 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset.h"
#include "config/keys_internal.h"

// Keys that may have these words alone, "a or b"; a bool has "true" and "false".
static const struct rule {
    const char *key, *words, *advice;
} rules[] = {
    {"features.kind", "file or both",
     "take \"both\": types that have no features then have learned rows"},
    {"sampler.subgraph", "directional", "take it out"},
    {"order.kind", "shuffled or listed or parts", "take \"shuffled\""},
    {"updates.exchange", "board", "take it out: models by type add gradients up on the board"},
};

bool sl_model_is_typed(enum sl_model_kind kind)
{
    return sl_word_is_among(sl_model_kind_name(kind), SL_MODEL_OF_TYPES);
}

static const char *word_at(const struct sl_key *key, const struct sl_config *c)
{
    if (key->type == SL_KEY_BOOL)
        return *(const bool *)((const char *)c + key->offset) ? "true" : "false";
    return sl_key_word(key, c);
}

static int check_rule(const struct rule *rule, const struct sl_config *c,
                      const struct sl_dataset *ds)
{
    const struct sl_key *key = sl_key_find(rule->key);
    const char *found = word_at(key, c);
    if (sl_word_is_among(found, rule->words))
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "%s: found \"%s\" with data set '%s', whose graph has several types, wanted %s: "
                   "%s",
                   rule->key, found, ds->path, rule->words, rule->advice);
}

// "rsage", "rgat" or "external"
static const char *list_kinds(bool typed, char *out, size_t bytes)
{
    const char *last = "external";
    size_t n = 0;
    out[0] = '\0';
    for (unsigned k = 0; k < SL_MODEL_EXTERNAL && n < bytes; k++)
        if (sl_model_is_typed((enum sl_model_kind)k) == typed)
            n += (size_t)snprintf(out + n, bytes - n, "%s\"%s\"", n ? ", " : "",
                                  sl_model_kind_name((enum sl_model_kind)k));
    if (n < bytes)
        snprintf(out + n, bytes - n, "%s\"%s\"", n ? " or " : "", last);
    return out;
}

static int check_model(const struct sl_config *c, const struct sl_dataset *ds)
{
    const bool typed = ds->typed.n_types > 0;
    char kinds[160];
    if (sl_config_is_external(c) || sl_model_is_typed(c->model.kind) == typed)
        return SL_OK;
    return sl_fail(
        SL_EINVAL,
        "model.kind: found \"%s\" with data set '%s', whose graph has %s, wanted %s: set "
        "it to one of them",
        sl_model_kind_name(c->model.kind), ds->path,
        typed ? "several types of vertices" : "one type of vertices",
        list_kinds(typed, kinds, sizeof kinds));
}

static int check_learned(const struct sl_config *c, const struct sl_dataset *ds)
{
    if (sl_config_learned_dim(c) == 0 || sl_dataset_learned_rows(ds) > 0)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "features.kind: found \"both\" with data set '%s', each of whose types has "
                   "features, wanted one without, whose rows are learned: take \"file\"",
                   ds->path);
}

// Walks go along metapaths, which lead from vertices of the seeds' type on.
static int check_walks(const struct sl_config *c, const struct sl_dataset *ds)
{
    if (!(sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_VISITS))
        return SL_OK;
    if (c->sampler.metapaths.n == 0)
        return sl_fail(SL_EINVAL,
                       "sampler.metapaths: found none with sampler.kind \"%s\" and data set '%s', "
                       "whose graph has several types, wanted the relations that walks go along, "
                       "such as {\"near\": [\"user -likes-> item\", \"item -liked_by-> user\"]}: "
                       "add it, or take another sampler.kind",
                       sl_sampler_words[c->sampler.kind], ds->path);
    return SL_OK;
}

static int check_plain(const struct sl_config *c, const struct sl_dataset *ds)
{
    if (c->task.relation[0])
        return sl_fail(
            SL_EINVAL,
            "task.relation: found \"%s\" with data set '%s', whose graph has one type of "
            "vertices and edges: take it out",
            c->task.relation, ds->path);
    if (c->sampler.metapaths.n > 0)
        return sl_fail(SL_EINVAL,
                       "sampler.metapaths: found \"%s\" with data set '%s', whose graph has one "
                       "type of vertices and edges, which walks go along without: take it out",
                       c->sampler.metapaths.path[0].name, ds->path);
    const bool trains = sl_fanout_is_named(&c->sampler.fanout_names);
    if (!trains && !sl_fanout_is_named(&c->evaluate.fanout_names))
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s.fanout: found lists by relation with data set '%s', whose graph has one "
                   "type of vertices, wanted one list, such as [15, 10]: give one",
                   trains ? "sampler" : "evaluate", ds->path);
}

// As far as they are known.
static int check_devices(const struct sl_config *c, const struct sl_dataset *ds)
{
    const bool others = sl_config_is_external(c) && ds->typed.listed != 0;
    for (uint32_t d = 0; others && d < c->n_devices; d++)
        if (c->devices[d].kind == SL_DEVICE_CUDA)
            return sl_fail(SL_EUNSUPPORTED,
                           "devices: found a GPU for devices[%u] with data set '%s', whose graph "
                           "has several types, and whose lists are not of the first of them, "
                           "wanted \"cpu\": set it to that",
                           d, ds->path);
    return SL_OK;
}

int sl_config_check_types(const struct sl_config *c, const struct sl_dataset *ds)
{
    const bool typed = ds->typed.n_types > 0;
    for (size_t i = 0; typed && i < SL_COUNT_OF(rules); i++)
        SL_TRY(check_rule(&rules[i], c, ds));
    if (typed)
        SL_TRY(check_walks(c, ds));
    SL_TRY(check_model(c, ds));
    if (!typed)
        return check_plain(c, ds);
    SL_TRY(check_learned(c, ds));
    return check_devices(c, ds);
}

bool sl_config_evaluates_all(const struct sl_config *c)
{
    bool all = !sl_config_is_external(c) && !c->evaluate.full &&
               !sl_fanout_is_named(&c->evaluate.fanout_names);
    for (uint32_t h = 0; h < c->evaluate.n_fanout; h++)
        all &= c->evaluate.fanout[h] < 0;
    return all;
}
