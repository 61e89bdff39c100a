/*
 * resolve.c - what no row of the table can say: defaults that depend on other keys, and keys that
 * must agree with one another. Devices and who works on them are in split.c, what updates.exchange
 * asks of them in exchange.c.
 */
#include "config/parse_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/order_kind.h"
#include "config/text_internal.h"

// The job is called after its file unless it has a name; its run directory after the job.
static int resolve_names(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    if (!c->name[0]) {
        const char *base = basename(p->origin);
        size_t n = strlen(base);
        if (n > 5 && strcmp(base + n - 5, ".json") == 0)
            n -= 5;
        if (n >= sizeof c->name)
            return sl_parse_fail(p, "name",
                                 "missing, and the file's own name is longer than %zu bytes: add "
                                 "\"name\"",
                                 sizeof c->name - 1);
        memcpy(c->name, n ? base : "job", n ? n : 3);
    }
    // The name becomes part of paths.
    bool plain = strcmp(c->name, ".") != 0 && strcmp(c->name, "..") != 0;
    for (const char *at = c->name; *at; at++)
        plain &= *at != '/' && (unsigned char)*at >= 0x20 && *at != 0x7f;
    if (!plain) {
        char found[SL_TEXT_QUOTE_BYTES];
        sl_text_quote(c->name, found);
        return sl_parse_fail(p, "name",
                             "found string %s, wanted a name without \"/\" and control characters "
                             "that is not \".\" or \"..\": set \"name\"",
                             found);
    }
    if (!c->output[0])
        snprintf(c->output, sizeof c->output, "runs/%s", c->name);
    return SL_OK;
}

// model.hidden is a multiple of `parts`, which `key` says.
static int check_hidden(const struct sl_parse *p, uint32_t parts, const char *what, const char *key)
{
    const struct sl_config *c = p->out;
    const uint32_t rest = c->model.hidden % parts;
    if (rest == 0)
        return SL_OK;
    uint32_t below = c->model.hidden - rest, above = below + parts;
    char nearest[64];
    if (below)
        snprintf(nearest, sizeof nearest, "%u or %u", below, above);
    else
        snprintf(nearest, sizeof nearest, "%u", above);
    return sl_parse_fail(p, "model.hidden",
                         "found %u with %u %s, wanted a multiple of %s: take %s, or change %s",
                         c->model.hidden, parts, what, key, nearest, key);
}

// Attention heads stand side by side in hidden layers, blocks on the diagonal of weights.
static int resolve_model(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    if (c->model.edge_features && sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_VISITS)
        return sl_parse_fail(p, "model.edge_features",
                             "found true with sampler.kind \"%s\", wanted one that draws edges: "
                             "what walks meet has none: take \"khop\"",
                             sl_key_word(sl_key_find("sampler.kind"), c));
    if (c->model.edge_features && c->evaluate.val_edges_as_input)
        return sl_parse_fail(p, "evaluate.val_edges_as_input",
                             "found true with model.edge_features, wanted false: the validation "
                             "edges would have no features: take one of the two keys out");
    if (c->model.blocks > 0 && c->model.bases > 0)
        return sl_parse_fail(p, "model.blocks",
                             "found %u beside model.bases %u, wanted one of the two ways to make "
                             "weights: take one of the keys out",
                             c->model.blocks, c->model.bases);
    if (c->model.blocks > 0)
        return check_hidden(p, c->model.blocks, "blocks", "model.blocks");
    if (!sl_key_applies(sl_key_find("model.heads"), c))
        return SL_OK;
    if (!sl_parse_find(p->root, "model.attention_dropout"))
        c->model.attention_dropout = c->model.dropout;
    return check_hidden(p, c->model.heads, "heads", "model.heads");
}

enum { PAIRS_MOST = 1 << 30 }; // of a mini-batch: their ends are numbered with 32 bits

static int check_own_links(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (!c->evaluate.full)
        return sl_parse_fail(p, "evaluate.fanout",
                             "found a list with task.kind \"link\", wanted \"full\": pairs are "
                             "scored by the embeddings of all vertices: remove the key");
    const struct sl_order_kind *order = &sl_order_kinds[c->order.kind];
    if (order->prepare || order->same)
        return sl_parse_fail(p, "order.kind",
                             "found \"%s\" with task.kind \"link\", wanted \"shuffled\": pairs "
                             "have no neighbours to walk to: remove the key",
                             sl_key_word(sl_key_find("order.kind"), c));
    if (c->task.per_positive == 0)
        return sl_parse_fail(p, "task.per_positive",
                             "found 0, wanted 1 or more: a loss of links needs negatives; only "
                             "jobs with model.kind \"external\" may have none");
    return SL_OK;
}

// Of batches for external trainers, whose loss and scores are their own.
static int check_lent_links(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (c->task.negatives == SL_NEGATIVES_GIVEN)
        return sl_parse_fail(p, "task.negatives",
                             "found \"given\" with model.kind \"external\", whose programs read "
                             "the data set's negatives themselves: remove the key");
    if (sl_order_kinds[c->order.kind].prepare)
        return sl_parse_fail(p, "order.kind",
                             "found \"%s\" with task.kind \"link\", wanted \"shuffled\" or "
                             "\"listed\": pairs have no neighbours to walk to",
                             sl_key_word(sl_key_find("order.kind"), c));
    if (c->input.split == SL_INPUT_ALL)
        return sl_parse_fail(p, "input.split",
                             "found \"all\" with task.kind \"link\", wanted \"train\", \"val\" or "
                             "\"test\": train is all edges where there is no train_edges.npy");
    if (c->sampler.disjoint)
        return sl_parse_fail(p, "sampler.disjoint",
                             "found true with task.kind \"link\", wanted false: a vertex is a "
                             "seed once for all pairs that it is in: remove the key");
    return SL_OK;
}

static int check_hard(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (c->task.hard.kind == SL_HARD_NONE)
        return SL_OK;
    if (c->task.negatives == SL_NEGATIVES_BATCH)
        return sl_parse_fail(p, "task.hard.kind",
                             "found \"walks\" with task.negatives \"batch\", wanted other ones, as "
                             "these have their scores shifted: set task.negatives to \"uniform\"");
    if (c->task.hard.per_positive > c->task.per_positive)
        return sl_parse_fail(p, "task.hard.per_positive",
                             "found %u with task.per_positive %u, wanted at most as many, which "
                             "they are part of: lower it, or raise the other",
                             c->task.hard.per_positive, c->task.per_positive);
    if (c->task.hard.last_rank < c->task.hard.first_rank)
        return sl_parse_fail(
            p, "task.hard.last_rank",
            "found %u with task.hard.first_rank %u, wanted at least as much: raise "
            "it, or lower the other",
            c->task.hard.last_rank, c->task.hard.first_rank);
    if (c->task.hard.first_rank > c->task.hard.paths * c->task.hard.length)
        return sl_parse_fail(p, "task.hard.first_rank",
                             "found %u with %u walks of %u steps, which meet no more vertices than "
                             "they have steps: lower it, or raise task.hard.paths",
                             c->task.hard.first_rank, c->task.hard.paths, c->task.hard.length);
    return SL_OK;
}

// Keys of links that others decide.
static int resolve_links(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    if (!sl_config_is_links(c))
        return SL_OK;
    if (!c->task.dim)
        c->task.dim = c->model.hidden;
    if (!c->task.hidden)
        c->task.hidden = c->task.dim;
    SL_TRY(sl_config_is_external(c) ? check_lent_links(p) : check_own_links(p));
    if (c->loss.class_weights != SL_CLASS_WEIGHTS_NONE)
        return sl_parse_fail(p, "loss.class_weights",
                             "found weights of classes with task.kind \"link\", wanted \"none\": "
                             "links have no classes: remove the key");
    if (c->task.exclude == SL_EXCLUDE_SELF && c->sampler.subgraph == SL_SUBGRAPH_BIDIRECTIONAL)
        return sl_parse_fail(
            p, "task.exclude",
            "found \"self\" with sampler.subgraph \"bidirectional\", wanted "
            "\"reverse\" or \"none\": the reverse of a pair's edge would bring the "
            "edge back: remove the key");
    if (c->sampler.batch_size * (1 + c->task.per_positive) > PAIRS_MOST)
        return sl_parse_fail(p, "task.per_positive",
                             "found %u with sampler.batch_size %" PRIu64
                             ", wanted at most %u positive and negative pairs in a mini-batch: "
                             "lower either",
                             c->task.per_positive, c->sampler.batch_size, (unsigned)PAIRS_MOST);
    SL_TRY(check_hard(p));
    if (c->task.negatives == SL_NEGATIVES_BATCH && c->sampler.batch_size < 2)
        return sl_parse_fail(p, "task.negatives",
                             "found \"batch\" with sampler.batch_size 1, wanted other pairs in "
                             "the mini-batch: raise sampler.batch_size");
    return SL_OK;
}

// Without any weight there is nothing to learn from.
static int check_class_weights(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (c->loss.class_weights != SL_CLASS_WEIGHTS_LIST)
        return SL_OK;
    for (uint32_t i = 0; i < c->loss.n_class_weights; i++)
        if (c->loss.class_weight[i] > 0)
            return SL_OK;
    return sl_parse_fail(p, "loss.class_weights",
                         "found %u numbers that are all 0, wanted at least one above 0: correct "
                         "them, or take \"none\" for equal weights",
                         c->loss.n_class_weights);
}

// Who says how long training is gets that. Else patience is settled with the epochs.
static void resolve_patience(struct sl_config *c)
{
    c->early_stopping.patience_auto &= c->epochs_auto;
}

bool sl_config_sums_differ(const struct sl_config *c)
{
    if (!sl_key_applies(sl_key_find("model.degrees"), c) || c->model.degrees != SL_DEGREES_BLOCK)
        return false;
    for (uint32_t h = 0; h < c->sampler.n_fanout; h++)
        if (c->sampler.fanout[h] != (c->evaluate.full ? -1 : c->evaluate.fanout[h]))
            return true;
    return false;
}

// Keys of training that must agree with one another.
static int check_training(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    SL_TRY(check_class_weights(p));
    if (c->early_stopping.patience > 0 && c->evaluate.every == 0)
        return sl_parse_fail(p, "early_stopping.patience",
                             "found %u with evaluate.every 0, wanted evaluations while it trains: "
                             "set evaluate.every to 1",
                             c->early_stopping.patience);
    if (c->early_stopping.target > 0 && c->evaluate.every == 0)
        return sl_parse_fail(p, "early_stopping.target",
                             "found %g with evaluate.every 0, wanted evaluations while it trains: "
                             "set evaluate.every to 1",
                             c->early_stopping.target);
    if (!c->epochs_auto && c->optimizer.warmup_epochs > c->epochs)
        return sl_parse_fail(p, "optimizer.warmup_epochs",
                             "found %g with %u epoch%s, wanted at most as many: lower it, or raise "
                             "epochs",
                             c->optimizer.warmup_epochs, c->epochs, c->epochs == 1 ? "" : "s");
    if (c->optimizer.schedule == SL_LR_COSINE && c->optimizer.min_lr > c->optimizer.lr)
        return sl_parse_fail(p, "optimizer.min_lr",
                             "found %g with optimizer.lr %g, wanted at most that: lower it",
                             c->optimizer.min_lr, c->optimizer.lr);
    return SL_OK;
}

/*
 * A job for external trainers has no training of its own, so its keys are as if nobody had asked
 * for anything.
 */
static void resolve_external(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    if (!sl_config_is_external(c))
        return;
    c->checkpoint.every_updates = 0;
    c->checkpoint.every_seconds = 0;
    c->evaluate.full = false; // no layer of anything is computed
    c->evaluate.n_fanout = c->sampler.n_fanout;
    memcpy(c->evaluate.fanout, c->sampler.fanout, sizeof c->evaluate.fanout);
    c->evaluate.fanout_names = c->sampler.fanout_names;
    c->evaluate.test = SL_TEST_NEVER;
    c->early_stopping.patience = 0;
    c->early_stopping.target = 0;
    c->early_stopping.patience_auto = false;
    c->allocation.cores = SL_CORES_FIXED;
    c->allocation.switching = false;
    if (c->allocation.trainers_auto)
        c->allocation.trainers = 1;
    c->allocation.trainers_auto = false;
    if (c->epochs_auto)
        c->epochs = SL_CONFIG_MAX_EPOCHS;
}

// One number for each layer.
static int check_fanout(const struct sl_parse *p, const char *path, uint32_t found)
{
    uint32_t layers = p->out->model.layers;
    if (found == layers)
        return SL_OK;
    char advice[64];
    if (found == 0 || found > SL_CONFIG_MAX_LAYERS)
        snprintf(advice, sizeof advice, "give one for each layer");
    else
        snprintf(advice, sizeof advice, "%s, or set model.layers to %u",
                 found < layers ? "add what is missing" : "take out the rest", found);
    return sl_parse_fail(p, path, "found %u entr%s, wanted %u, one for each of model.layers: %s",
                         found, found == 1 ? "y" : "ies", layers, advice);
}

static int resolve_fanouts(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    static const int64_t usual[] = {15, 10, 5};
    if (sl_config_is_external(c) && !sl_parse_find(p->root, "model.layers") &&
        c->sampler.n_fanout > 0)
        c->model.layers = c->sampler.n_fanout;
    if (!sl_parse_find(p->root, "sampler.fanout")) {
        if (c->model.layers != SL_COUNT_OF(usual))
            return sl_parse_fail(p, "sampler.fanout",
                                 "missing, wanted a list with %u entr%s, one for each of "
                                 "model.layers: add it, such as [15, 10] for 2 layers",
                                 c->model.layers, c->model.layers == 1 ? "y" : "ies");
        memcpy(c->sampler.fanout, usual, sizeof usual);
        c->sampler.n_fanout = SL_COUNT_OF(usual);
    }
    SL_TRY(check_fanout(p, "sampler.fanout", c->sampler.n_fanout));
    if (!c->evaluate.full)
        SL_TRY(check_fanout(p, "evaluate.fanout", c->evaluate.n_fanout));
    if (!c->evaluate.batch_size)
        c->evaluate.batch_size = c->sampler.batch_size;
    return SL_OK;
}

// What else a subgraph needs.
static int check_subgraph(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    const char *word = sl_key_word(sl_key_find("sampler.subgraph"), c);
    if (c->sampler.subgraph == SL_SUBGRAPH_DIRECTIONAL)
        return SL_OK;
    if (sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_VISITS)
        return sl_parse_fail(p, "sampler.subgraph",
                             "found \"%s\" with sampler.kind \"%s\", wanted \"directional\": what "
                             "walks meet are no edges of the graph; take it out",
                             word, sl_key_word(sl_key_find("sampler.kind"), c));
    if (c->sampler.expand != SL_EXPAND_NEW)
        return sl_parse_fail(p, "sampler.subgraph",
                             "found \"%s\" with sampler.expand \"all\", whose hops have edges of "
                             "their own: set sampler.expand to \"new\"",
                             word);
    if (c->sampler.n_fanout == SL_CONFIG_MAX_LAYERS)
        return sl_parse_fail(p, "sampler.subgraph",
                             "found \"%s\" with %u hops, wanted at most %d: it is one more; take "
                             "an entry out of sampler.fanout",
                             word, c->sampler.n_fanout, SL_CONFIG_MAX_LAYERS - 1);
    return SL_OK;
}

// A key with a value that does not go with sampler.time.
static int fail_time(const struct sl_parse *p, const char *path, const char *found,
                     const char *wanted)
{
    return sl_parse_fail(p, path, "found %s with sampler.time \"%s\", wanted %s", found,
                         sl_key_word(sl_key_find("sampler.time"), p->out), wanted);
}

// What else sampling by time needs.
static int check_time(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (c->sampler.time == SL_TIME_NONE)
        return SL_OK;
    if (sl_config_is_links(c))
        return fail_time(p, "task.kind", "\"link\"",
                         "\"node\": a vertex is a seed once for all pairs that it is in, whatever "
                         "their times: take sampler.time out");
    if (sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_VISITS)
        return fail_time(p, "sampler.kind", "\"walk\"",
                         "\"khop\", \"weighted\" or \"labor\": walks go by edges of any time");
    if (c->sampler.time == SL_TIME_LATEST &&
        !(sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_UNIFORM))
        return fail_time(p, "sampler.kind", "\"weighted\"",
                         "\"khop\" or \"labor\": of the latest edges nothing is drawn: take the "
                         "key out, or set sampler.time to \"uniform\"");
    if (c->sampler.replace && c->sampler.time == SL_TIME_LATEST)
        return fail_time(p, "sampler.replace", "true",
                         "false: the latest edges are taken once: take the key out");
    if (c->sampler.subgraph != SL_SUBGRAPH_DIRECTIONAL)
        return fail_time(p, "sampler.subgraph", "another one",
                         "\"directional\": others have edges that are not drawn, of any time: take "
                         "the key out");
    if (c->evaluate.full)
        return fail_time(p, "evaluate.fanout", "\"full\"",
                         "a list, such as [-1, -1] for 2 layers: layer by layer there is no seed "
                         "whose time would hold");
    if (sl_config_wants_degrees(c))
        return fail_time(p, "model.degrees", "\"graph\"",
                         "\"block\": degrees of the whole graph count later edges");
    if (c->features.kind != SL_INPUT_OF_FILE)
        return fail_time(p, "features.kind", "learned rows",
                         "\"file\": a vertex is in a batch once for each seed that finds it, and a "
                         "learned row is changed once");
    if (c->nodes_auto || c->nodes > 1)
        return fail_time(p, "nodes", "several nodes",
                         "1: jobs that sample by time run on one node: remove the key");
    return SL_OK;
}

// The cache serves the epochs after pre-sampling: there must be one.
static int check_presampling(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    // "auto" can become what it takes, up to the most.
    uint32_t k = c->cache.presample_epochs, n = c->epochs_auto ? SL_CONFIG_MAX_EPOCHS : c->epochs;
    if (sl_cache_kinds[c->cache.policy].counts != SL_VISITS_FIRST || k < n)
        return SL_OK;
    if (n == 1)
        return sl_parse_fail(p, "cache.presample_epochs",
                             "found %u with 1 epoch, wanted at least 2 epochs: the cache serves "
                             "the epochs after pre-sampling; raise epochs, or choose another "
                             "cache.policy",
                             k);
    return sl_parse_fail(p, "cache.presample_epochs",
                         "found %u with %u epochs, wanted at most %u: the cache serves the epochs "
                         "after pre-sampling; lower it, or raise epochs",
                         k, n, n - 1);
}

static int check_foresight(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    const struct sl_cache_kind *kind = &sl_cache_kinds[c->cache.policy];
    if (kind->counts == SL_VISITS_ALL && sl_config_is_endless(c))
        return sl_parse_fail(p, "cache.policy",
                             "found \"%s\" in a job without an end, wanted one with a number of "
                             "epochs: all of them are drawn before the first; give epochs, or "
                             "choose another cache.policy",
                             kind->word);
    if (!kind->uniform_only || sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_UNIFORM)
        return SL_OK;
    return sl_parse_fail(
        p, "cache.policy",
        "found \"%s\" with sampler.kind \"%s\", wanted it only with \"khop\" or "
        "\"labor\": it foresees neighbours that are sampled uniformly; choose another "
        "cache.policy",
        kind->word, sl_key_word(sl_key_find("sampler.kind"), c));
}

// How much GPUs hold together, and how.
static int check_store(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (!c->store.feature_ratio_auto && !c->cache.ratio_auto)
        return sl_parse_fail(p, "store.feature_ratio",
                             "found %g with cache.ratio %g, wanted one of them: feature_ratio is "
                             "what all GPUs hold together, cache.ratio what each trainer does; "
                             "take one out",
                             c->store.feature_ratio, c->cache.ratio);
    if (!c->store.feature_ratio_auto && !sl_config_asks_for_gpus(c))
        return sl_parse_fail(p, "store.feature_ratio",
                             "found %g with devices that are no GPUs, wanted it only where GPUs "
                             "train: take it out, or list GPUs",
                             c->store.feature_ratio);
    if (!c->store.graph_ratio_auto && !sl_config_asks_for_gpus(c))
        return sl_parse_fail(p, "store.graph_ratio",
                             "found %g with devices that are no GPUs, wanted it only where GPUs "
                             "sample: take it out, or list GPUs",
                             c->store.graph_ratio);
    if (c->store.prefer != SL_PREFER_AUTO && !sl_config_asks_for_gpus(c))
        return sl_parse_fail(p, "store.prefer",
                             "found \"%s\" with devices that are no GPUs, wanted \"auto\": the "
                             "graph and features lie in the machine's memory; take it out, or list "
                             "GPUs",
                             sl_key_word(sl_key_find("store.prefer"), c));
    if (c->store.placement > SL_STORE_ALONE && !sl_config_asks_for_gpus(c))
        return sl_parse_fail(p, "store.placement",
                             "found \"%s\" with devices that are no GPUs, wanted \"auto\" or "
                             "\"alone\": cores read the machine's memory in place; take it out, "
                             "or list GPUs",
                             sl_key_word(sl_key_find("store.placement"), c));
    return SL_OK;
}

int sl_parse_check_learned(const struct sl_parse *p)
{
    char origin[SL_PARSE_ORIGIN_BYTES];
    int rc = sl_config_check_learned(p->out);
    return rc < 0 ? sl_fail_prefix(rc, "%s", sl_parse_origin(p, origin)) : SL_OK;
}

int sl_parse_resolve(const struct sl_parse *p)
{
    SL_TRY(resolve_names(p));
    SL_TRY(resolve_model(p));
    SL_TRY(resolve_links(p));
    SL_TRY(resolve_fanouts(p));
    SL_TRY(sl_parse_resolve_cores(p));
    SL_TRY(sl_parse_only_keys(p, "", "", p->root, p->out));
    resolve_external(p);
    SL_TRY(sl_parse_resolve_fraction(p));
    SL_TRY(check_subgraph(p));
    SL_TRY(check_time(p));
    SL_TRY(check_presampling(p));
    SL_TRY(check_foresight(p));
    SL_TRY(check_store(p));
    resolve_patience(p->out);
    SL_TRY(check_training(p));
    SL_TRY(sl_parse_resolve_exchange(p));
    SL_TRY(sl_parse_resolve_split(p));
    SL_TRY(sl_parse_check_learned(p));
    // Of "auto" the devices are known once there is word of GPUs (gpus.c).
    return sl_config_asks_for_gpus(p->out) && p->out->devices_auto ? SL_OK
                                                                   : sl_parse_check_exchange(p);
}
