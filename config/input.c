// input.c - what a job needs of its data set, and which vertices or pairs it walks through.
#include "common/base/error.h"
#include "common/base/sampler_kind.h"
#include "common/data/dataset.h"
#include "common/data/link_items.h"
#include "common/data/order_kind.h"
#include "config/config.h"
#include "config/keys_internal.h"

unsigned sl_config_needs(const struct sl_config *c)
{
    unsigned need = SL_NEED_TRAINING;
    if (sl_config_is_links(c))
        need = SL_NEED_TOPOLOGY | SL_NEED_FEATURES;
    if (sl_config_is_external(c)) {
        need = SL_NEED_TOPOLOGY;
        if (c->input.split == SL_INPUT_TRAIN && !sl_config_is_links(c))
            need |= SL_NEED_TRAIN;
        if (sl_order_kinds[c->order.kind].walks) // by shares of labels
            need |= SL_NEED_LABELS;
    }
    need |= sl_config_needs_to_draw(c) | (sl_config_needs_to_predict(c) & SL_NEED_EDGE_FEATURES);
    return sl_config_needs_to_predict(c) & SL_NEED_FEATURES ? need
                                                            : need & ~(unsigned)SL_NEED_FEATURES;
}

unsigned sl_config_needs_to_draw(const struct sl_config *c)
{
    const bool by_weight = sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_BY_WEIGHT;
    return SL_NEED_TOPOLOGY | (by_weight ? SL_NEED_WEIGHTS : 0) |
           (c->sampler.time ? SL_NEED_TIMES : 0);
}

unsigned sl_config_needs_to_predict(const struct sl_config *c)
{
    return SL_NEED_TOPOLOGY | (c->features.kind == SL_INPUT_LEARNED ? 0 : SL_NEED_FEATURES) |
           (c->model.edge_features ? SL_NEED_EDGE_FEATURES : 0);
}

void sl_config_choose_features(const struct sl_config *c, struct sl_dataset *dataset)
{
    if (c->features.kind != SL_INPUT_LEARNED)
        return;
    dataset->feat_dim = 0;
    dataset->feat = NULL;
}

int sl_config_check_learned(const struct sl_config *c)
{
    const char *kind = sl_key_word(sl_key_find("features.kind"), c);
    if (c->features.kind == SL_INPUT_OF_FILE)
        return SL_OK;
    if (c->updates.mode == SL_UPDATE_ASYNC)
        return sl_fail(SL_EINVAL,
                       "features.kind: found \"%s\" with updates.mode \"async\", wanted "
                       "\"ordered\": learned rows are changed where they lie, between updates",
                       kind);
    for (uint32_t d = 0; d < c->n_devices; d++)
        if (c->devices[d].kind == SL_DEVICE_CUDA)
            return sl_fail(SL_EINVAL,
                           "features.kind: found \"%s\" with devices[%u] a GPU, wanted cores "
                           "alone, which train learned rows: set devices to \"cpu\"",
                           kind, d);
    if (c->nodes > 1)
        return sl_fail(SL_EINVAL,
                       "nodes: found %u with features.kind \"%s\", wanted 1, whose memory learned "
                       "rows are in: set nodes to 1",
                       c->nodes, kind);
    if (c->features.kind == SL_INPUT_LEARNED && sl_features_kinds[c->store.features].reads)
        return sl_fail(SL_EINVAL,
                       "store.features: found \"%s\" with features.kind \"learned\", which reads "
                       "no file of features: take it out, or set features.kind to \"both\"",
                       sl_features_kinds[c->store.features].word);
    if (c->features.kind == SL_INPUT_LEARNED && sl_cache_keeps(c->cache.policy))
        return sl_fail(SL_EINVAL,
                       "cache.policy: found \"%s\" with features.kind \"learned\", wanted "
                       "\"none\": there is no file of features to keep rows of; take it out",
                       sl_cache_words[c->cache.policy]);
    return SL_OK;
}

struct sl_visits_sampling sl_config_sampling(const struct sl_config *c)
{
    const bool drawn = sl_config_is_links(c) && c->task.negatives != SL_NEGATIVES_BATCH;
    return (struct sl_visits_sampling){.fanout = c->sampler.fanout,
                                       .by_relation = c->sampler.fanout_names.by_relation,
                                       .n_hops = c->sampler.n_fanout,
                                       .expands_new = c->sampler.expand == SL_EXPAND_NEW,
                                       .replaces = c->sampler.replace,
                                       .batch_size = (double)c->sampler.batch_size,
                                       .negatives = drawn ? c->task.per_positive : 0,
                                       .negatives_by_degree =
                                           c->task.negatives == SL_NEGATIVES_DEGREE};
}

struct sl_link_negatives sl_config_negatives(const struct sl_config *c)
{
    return (struct sl_link_negatives){.seed = c->seed,
                                      .n = c->evaluate.negatives,
                                      .not_graph = c->task.strict != SL_STRICT_NONE,
                                      .not_listed = c->task.strict == SL_STRICT_ALL};
}

bool sl_config_widens(const struct sl_config *c, const struct sl_dataset *dataset)
{
    return c->evaluate.val_edges_as_input && c->evaluate.test != SL_TEST_NEVER &&
           dataset->edges[SL_SPLIT_VAL].n > 0 && dataset->edges[SL_SPLIT_TEST].n > 0;
}

// Negatives to train with that the data set has.
static int check_given(const struct sl_config *c, const struct sl_dataset *ds)
{
    const struct sl_negatives *given = &ds->negatives[SL_SPLIT_TRAIN];
    if (c->task.negatives != SL_NEGATIVES_GIVEN)
        return SL_OK;
    if (!given->ids || given->n == 0)
        return sl_fail(SL_EINVAL,
                       "task.negatives: found \"given\" with data set '%s', which has no negatives "
                       "to train with, wanted pairs in train_neg.npy, or targets for each of "
                       "train_edges.npy in train_neg_target.npy: make one, or take \"uniform\"",
                       ds->path);
    if (given->per_positive > 0 && c->task.per_positive > given->per_positive)
        return sl_fail(SL_EINVAL,
                       "task.per_positive: found %u, and train_neg_target.npy of data set '%s' has "
                       "%u targets for each edge: set it to at most %u",
                       c->task.per_positive, ds->path, given->per_positive, given->per_positive);
    if (given->per_positive == 0 && given->n >= UINT32_MAX)
        return sl_fail(
            SL_EUNSUPPORTED,
            "task.negatives: found \"given\" with data set '%s', whose train_neg.npy has "
            "%llu pairs, wanted less than 2^32 - 1: leave some out",
            ds->path, (unsigned long long)given->n);
    return SL_OK;
}

static bool has_lists(const struct sl_dataset *ds)
{
    bool has = ds->negatives[SL_SPLIT_TRAIN].ids != NULL;
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        has |= ds->edges[s].ids != NULL;
    return has;
}

int sl_config_choose_relation(const struct sl_config *c, struct sl_dataset *ds)
{
    struct sl_typed *t = &ds->typed;
    uint32_t asked = t->linked;
    if (t->n_types == 0)
        return SL_OK;
    if (c->task.relation[0]) {
        struct sl_typed own = *t; // beside metapaths
        own.relation += t->n_walked ? t->n_relations : 0;
        own.n_relations = t->n_walked ? t->n_walked : t->n_relations;
        SL_TRY(sl_config_relation("task.relation", &own, c->task.relation, &asked));
        asked += t->n_walked ? t->n_relations : 0;
    }
    if (asked == SL_NO_RELATION)
        return sl_fail(SL_EINVAL,
                       "task.relation: found nothing with data set '%s', whose graph has several "
                       "types, wanted the relation that is learned, such as \"%s\": name it",
                       ds->path, sl_relation_text(t, t->n_walked ? t->n_relations : 0).text);
    if (asked != t->linked && has_lists(ds))
        return sl_fail(
            SL_EINVAL,
            "task.relation: found \"%s\" with data set '%s', whose lists of pairs are of "
            "\"%s\": take it out, or move train_edges.npy and so on away",
            sl_relation_text(t, asked).text, ds->path, sl_relation_text(t, t->linked).text);
    t->linked = asked;
    if (c->task.hard.kind != SL_HARD_NONE && sl_typed_reverse(t, asked) == SL_NO_RELATION)
        return sl_fail(SL_EINVAL,
                       "task.hard.kind: found \"walks\" with data set '%s', where nothing says "
                       "which relation has the reverse of \"%s\", by which walks come back: say so "
                       "by \"reverse_of\" in metadata.json, or take it out",
                       ds->path, sl_relation_text(t, asked).text);
    if (c->task.exclude == SL_EXCLUDE_REVERSE && sl_typed_reverse(t, asked) == SL_NO_RELATION)
        return sl_fail(SL_EINVAL,
                       "task.exclude: found \"reverse\" with data set '%s', where nothing says "
                       "which relation has the reverse of \"%s\": say so by \"reverse_of\" in "
                       "metadata.json, or where none has set it to \"self\"",
                       ds->path, sl_relation_text(t, asked).text);
    return SL_OK;
}

// Pairs in the place of vertices: their numbers.
static int choose_pairs(const struct sl_config *c, struct sl_dataset *ds)
{
    SL_TRY(sl_config_choose_relation(c, ds));
    SL_TRY(check_given(c, ds));
    ds->task = SL_TASK_LINK;
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        const struct sl_link_items items =
            sl_link_items_of(ds, (enum sl_split)s, c->evaluate.negatives);
        ds->split[s] = (struct sl_vertex_list){.n = items.n_positive + items.n_negative};
        if (ds->split[s].n < UINT32_MAX)
            continue;
        return sl_fail(SL_EUNSUPPORTED,
                       "task.kind: found \"link\" with data set '%s', which has %llu pairs to "
                       "%s, wanted less than 2^32 - 1: %s",
                       ds->path, (unsigned long long)ds->split[s].n,
                       s == SL_SPLIT_TRAIN ? "train with" : "evaluate",
                       s == SL_SPLIT_TRAIN ? "put some of its edges into train_edges.npy"
                                           : "set evaluate.negatives lower");
    }
    if (ds->split[SL_SPLIT_TRAIN].n > 0)
        return SL_OK;
    if (ds->edges[SL_SPLIT_TRAIN].ids && ds->n_edges > 0)
        return sl_fail(SL_EINVAL,
                       "task.kind: found \"link\" with data set '%s', whose train_edges.npy is "
                       "empty: put pairs into it, or remove it to learn all edges of the graph",
                       ds->path);
    struct sl_relation_text to;
    const char *linked = sl_typed_linked_text(&ds->typed, &to);
    return sl_fail(SL_EINVAL,
                   "task.kind: found \"link\" with data set '%s', which has no edge to learn "
                   "from, wanted edges in its %s%s or in train_edges.npy",
                   ds->path, linked ? "relation " : "graph", linked ? linked : "");
}

static const enum sl_split splits[] = {[SL_INPUT_TRAIN] = SL_SPLIT_TRAIN,
                                       [SL_INPUT_VAL] = SL_SPLIT_VAL,
                                       [SL_INPUT_TEST] = SL_SPLIT_TEST};

// The pairs of external trainers: those of the split that they ask for become the training pairs,
// and these that split's, so that there still is what task.strict "all" looks in.
static int choose_lent_pairs(const struct sl_config *c, struct sl_dataset *ds)
{
    const enum sl_split split = splits[c->input.split];
    const struct sl_pair_list chosen = ds->edges[split];
    if (split != SL_SPLIT_TRAIN && chosen.n == 0)
        return sl_fail(SL_EINVAL,
                       "input.split: found \"%s\", and data set '%s' has no such pairs, wanted "
                       "%s_edges.npy there: make it, or take \"train\"",
                       sl_key_word(sl_key_find("input.split"), c), ds->path,
                       sl_key_word(sl_key_find("input.split"), c));
    ds->edges[split] = ds->edges[SL_SPLIT_TRAIN];
    ds->edges[SL_SPLIT_TRAIN] = chosen;
    SL_TRY(choose_pairs(c, ds));
    ds->split[SL_SPLIT_VAL] = ds->split[SL_SPLIT_TEST] = (struct sl_vertex_list){0};
    return SL_OK;
}

// Walks from seeds: of a type that some metapath begins with. Those of links are of both ends'.
static int check_beginnings(const struct sl_config *c, const struct sl_dataset *ds)
{
    const struct sl_typed *t = &ds->typed;
    const struct sl_relation *linked = sl_config_is_links(c) ? sl_dataset_linked(ds) : NULL;
    const uint32_t seeds = linked ? linked->target : sl_config_is_external(c) ? t->listed : 0;
    bool some = t->n_walked == 0;
    for (uint32_t i = 0; i < t->n_relations && !some; i++)
        some =
            t->relation[i].target == seeds || (linked && t->relation[i].target == linked->source);
    if (some)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "sampler.metapaths: found none that begins at type %s of data set '%s', which "
                   "the seeds are of, wanted one whose first relation leads there: add it",
                   t->type[seeds].name, ds->path);
}

int sl_config_choose_items(const struct sl_config *c, struct sl_dataset *dataset)
{
    SL_TRY(sl_config_check_types(c, dataset));
    SL_TRY(sl_config_choose_paths(c, dataset));
    if (sl_config_is_links(c) && dataset->typed.n_types > 0)
        SL_TRY(sl_config_choose_relation(c, dataset));
    SL_TRY(check_beginnings(c, dataset));
    if (sl_config_is_links(c))
        return sl_config_is_external(c) ? choose_lent_pairs(c, dataset) : choose_pairs(c, dataset);
    if (!sl_config_is_external(c))
        return SL_OK;
    struct sl_vertex_list chosen = {.n = sl_dataset_labelled(dataset)};
    if (dataset->typed.n_types && dataset->typed.listed != 0 && c->input.split == SL_INPUT_ALL)
        return sl_fail(SL_EINVAL,
                       "input.split: found \"all\" with data set '%s', whose lists are of vertices "
                       "of type %s, wanted one of them: take \"train\"",
                       dataset->path, dataset->typed.type[dataset->typed.listed].name);
    if (dataset->typed.n_types && dataset->typed.listed != 0 && c->sampler.time != SL_TIME_NONE)
        return sl_fail(SL_EINVAL,
                       "sampler.time: found \"%s\" with data set '%s', whose lists are of vertices "
                       "of type %s, wanted those of %s, which have times: take it out",
                       c->sampler.time == SL_TIME_LATEST ? "latest" : "uniform", dataset->path,
                       dataset->typed.type[dataset->typed.listed].name,
                       dataset->typed.type[0].name);
    if (c->input.split != SL_INPUT_ALL)
        chosen = dataset->split[splits[c->input.split]];
    if (chosen.n == 0)
        return sl_fail(
            SL_EINVAL,
            "input.split: found \"%s\", and data set '%s' has no such vertices, wanted a "
            "list that it has: take \"train\" or \"all\"",
            sl_key_word(sl_key_find("input.split"), c), dataset->path);
    dataset->split[SL_SPLIT_TRAIN] = chosen;
    dataset->split[SL_SPLIT_VAL] = dataset->split[SL_SPLIT_TEST] = (struct sl_vertex_list){0};
    return SL_OK;
}
