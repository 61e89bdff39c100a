/*
 * keys.c - every key of the job file, in one table.
 *
 * Adding a key is one row here and one field in config.h. From the row come: reading and
 * validating it, its default, "did you mean", --set, whether a run may go on with another value
 * (FIXED, FREE or ONWARD), the resolved config.json and the schema (config/job.schema.json, which a
 * test compares with this table). What no row can say, because it concerns two keys or this
 * machine, is in resolve.c.
 *
 * The order is that of config.json. An object's row comes first, then the rows in it.
 */
#include "config/keys_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/data/cache_kind.h"
#include "common/data/measure_kind.h"
#include "common/data/order_kind.h"
#include "common/data/features_kind.h"
#include "common/device/cores.h"
#include "common/device/plugin.h"
#include "common/text/synonyms.h"
#include "config/config.h"
#include "config/text_internal.h"

_Static_assert(SL_EPOCHS_UPDATES == 500 && SL_EPOCHS_LEAST == 10 && SL_EPOCHS_MOST == 200,
               "the doc of epochs says so");
_Static_assert((int)SL_CONFIG_CORES_MAX == (int)SL_CORES_MAX, "config.h and cores.h agree");

#define FIELD(struct_, field)                                                                      \
    .offset = offsetof(struct struct_, field), .bytes = sizeof(((struct struct_ *)0)->field)
#define AT(field)      FIELD(sl_config, field)
#define BESIDE(field)  .companion = offsetof(struct sl_config, field)
#define FLAG(field)    .word_flag = offsetof(struct sl_config, field)
#define ENTRY(struct_) .entry_bytes = sizeof(struct struct_)
#define FIXED          .change = SL_CHANGE_REFUSED
#define FREE           .change = SL_CHANGE_FREE
#define ONWARD         .change = SL_CHANGE_ONWARD
#define MACHINE        .of_machine = true

#define WORD(upper, lower) [SL_MODEL_##upper] = #lower,
static const char *const model_kinds[] = {SL_MODEL_KINDS(WORD) NULL};
static const char *const aggregators[] = {
    [SL_AGGREGATOR_MEAN] = "mean", [SL_AGGREGATOR_MAX] = "max", [SL_AGGREGATOR_GCN] = "gcn", NULL};
static const char *const activations[] = {[SL_CONFIG_RELU] = "relu",
                                          [SL_CONFIG_ELU] = "elu",
                                          [SL_CONFIG_LEAKY_RELU] = "leaky_relu",
                                          NULL};
static const char *const norms[] = {
    [SL_NORM_NONE] = "none", [SL_NORM_BATCH] = "batch", [SL_NORM_LAYER] = "layer", NULL};
static const char *const jumpings[] = {[SL_JUMPING_NONE] = "none",
                                       [SL_JUMPING_LAST] = "last",
                                       [SL_JUMPING_CAT] = "cat",
                                       [SL_JUMPING_MAX] = "max",
                                       NULL};
static const char *const degree_kinds[] = {
    [SL_DEGREES_GRAPH] = "graph", [SL_DEGREES_BLOCK] = "block", NULL};
static const char *const decay_ons[] = {
    [SL_DECAY_ALL] = "all", [SL_DECAY_FIRST_LAYER] = "first_layer", NULL};
static const char *const lr_schedules[] = {
    [SL_LR_CONSTANT] = "constant", [SL_LR_STEP] = "step", [SL_LR_COSINE] = "cosine", NULL};
static const char *const tests[] = {
    [SL_TEST_FINAL] = "final", [SL_TEST_EACH] = "each", [SL_TEST_NEVER] = "never", NULL};
static const char *const activation_places[] = {[SL_ACTIVATIONS_AUTO] = "auto",
                                                [SL_ACTIVATIONS_MEMORY] = "memory",
                                                [SL_ACTIVATIONS_FILE] = "file",
                                                NULL};
static const char *const class_weights[] = {
    [SL_CLASS_WEIGHTS_NONE] = "none", [SL_CLASS_WEIGHTS_BALANCED] = "balanced", NULL};
static const char *const optimizer_kinds[] = {
    [SL_OPTIMIZER_SGD] = "sgd", [SL_OPTIMIZER_ADAM] = "adam", [SL_OPTIMIZER_ADAMW] = "adamw", NULL};
static const char *const update_modes[] = {
    [SL_UPDATE_ORDERED] = "ordered", [SL_UPDATE_ASYNC] = "async", NULL};
static const char *const exchange_kinds[] = {
    [SL_EXCHANGE_BOARD] = "board", [SL_EXCHANGE_NCCL] = "nccl", NULL};
const double sl_config_graph_shares[] = {
    [SL_PREFER_AUTO] = 0.6, [SL_PREFER_GRAPH] = 0.8, [SL_PREFER_FEATURES] = 0.3};

const char *const sl_store_preference_words[] = {[SL_PREFER_AUTO] = "auto",
                                                 [SL_PREFER_GRAPH] = "graph",
                                                 [SL_PREFER_FEATURES] = "features",
                                                 NULL};
const char *const sl_store_placement_words[] = {
    [SL_STORE_AUTO] = "auto",       [SL_STORE_ALONE] = "alone",       [SL_STORE_SOLVER] = "solver",
    [SL_STORE_CLIQUES] = "cliques", [SL_STORE_ONE_COPY] = "one_copy", NULL};
static const char *const resume_policies[] = {
    [SL_RESUME_NEVER] = "never", [SL_RESUME_AUTO] = "auto", NULL};
const char *const sl_precision_words[] = {[SL_CONFIG_FP32] = "fp32",
                                          [SL_CONFIG_BF16] = "bf16",
                                          [SL_CONFIG_TF32] = "tf32",
                                          [SL_CONFIG_PRECISION_AUTO] = "auto",
                                          NULL};
static const char *const core_policies[] = {
    [SL_CORES_FIXED] = "fixed", [SL_CORES_POOL] = "pool", NULL};
static const char *const device_kinds[] = {
    [SL_DEVICE_CPU] = "cpu", [SL_DEVICE_CUDA] = "cuda", NULL};

// Which keys go with which cache policies.
static bool presamples(unsigned policy)
{
    return sl_cache_kinds[policy].counts == SL_VISITS_FIRST;
}

static bool keeps(unsigned policy)
{
    return sl_cache_keeps(policy);
}

// Which keys go with which orders.
static bool walks(unsigned order)
{
    return sl_order_kinds[order].walks;
}

// A size has to hold something, and 1 PiB is beyond every machine while its bytes are exact.
#define SIZE_MIN_BYTES 4096.0
#define SIZE_MAX_BYTES 1125899906842624.0

// clang-format off
const struct sl_key sl_keys[] = {
    {.path = "$schema", .type = SL_KEY_NOTE,
     .doc = "Where an editor finds the description of this file. sluice does not read it."},
    {.path = "name", .type = SL_KEY_STRING, AT(name), FREE,
     .fallback_note = "the name of the job file without .json",
     .doc = "What the job is called in reports and listings."},
    {.path = "dataset", .type = SL_KEY_STRING, .required = true, AT(dataset), FREE,
     .doc = "Directory of the data set, relative to the working directory. It must stay as it is "
            "while the job runs; which lists of vertices it may have: common/data/README.md."},

    {.path = "model", .type = SL_KEY_OBJECT, .required = true,
     .doc = "The network that is trained."},
    {.path = "model.kind", .type = SL_KEY_WORD, .required = true, AT(model.kind), FIXED,
     .words = model_kinds,
     .doc = "Kind of layer: those of PyTorch Geometric's models of these names, or PinSAGE's."},
    {.path = "model.layers", .type = SL_KEY_INTEGER, AT(model.layers), FIXED,
     .min = 1, .max = SL_CONFIG_MAX_LAYERS, .fallback = "3",
     .doc = "Number of layers, which is the number of hops that are sampled."},
    {.path = "model.hidden", .type = SL_KEY_INTEGER, AT(model.hidden), FIXED,
     .min = 1, .max = 65536, .fallback = "256",
     .doc = "Width of the hidden layers."},
    {.path = "model.dropout", .type = SL_KEY_NUMBER, AT(model.dropout), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.5",
     .doc = "Share of the hidden activations that is dropped after each hidden layer."},
    {.path = "model.input_dropout", .type = SL_KEY_NUMBER, AT(model.input_dropout), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0",
     .doc = "Share of the input features that is dropped."},
    {.path = "model.activation", .type = SL_KEY_WORD, AT(model.activation), FIXED,
     .words = activations, .fallback = "\"relu\"",
     .doc = "What follows each hidden layer (and its norm)."},
    {.path = "model.norm", .type = SL_KEY_WORD, AT(model.norm), FIXED,
     .words = norms, .fallback = "\"none\"",
     .beside_key = "model.kind", .beside_word = "gin", .beside_fallback = "\"batch\"",
     .doc = "Normalisation between a hidden layer and its activation: batch keeps running "
            "statistics for evaluation, layer normalises each vertex by itself."},
    {.path = "model.jumping", .type = SL_KEY_WORD, AT(model.jumping), FIXED,
     .words = jumpings, .fallback = "\"none\"",
     .doc = "Jumping knowledge: a final linear layer on the last hidden layer, on all of them side "
            "by side (cat), or on their element-wise maximum (max)."},
    {.path = "model.aggregator", .type = SL_KEY_WORD, AT(model.aggregator), FIXED,
     .words = aggregators, .fallback = "\"mean\"",
     .only_key = "model.kind", .only_word = "graphsage",
     .doc = "How GraphSAGE sums up neighbours: their mean, their element-wise maximum, or the mean "
            "of neighbours and vertex under one weight matrix (gcn). Only with graphsage."},
    {.path = "model.heads", .type = SL_KEY_INTEGER, AT(model.heads), FIXED,
     .min = 1, .max = 256, .fallback = "8",
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_HEADS,
     .doc = "Attention heads; hidden layers put them side by side, so model.hidden is a multiple, "
            "and the last layer takes their mean. Only with " SL_MODEL_WITH_HEADS "."},
    {.path = "model.attention_dropout", .type = SL_KEY_NUMBER, AT(model.attention_dropout), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback_note = "model.dropout",
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_HEADS,
     .doc = "Share of the attention coefficients that is dropped. "
            "Only with " SL_MODEL_WITH_HEADS "."},
    {.path = "model.residual", .type = SL_KEY_BOOL, AT(model.residual), .fallback = "false", FIXED,
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_HEADS,
     .doc = "Whether each layer adds a linear map of its input to its output. "
            "Only with " SL_MODEL_WITH_HEADS "."},
    {.path = "model.eps", .type = SL_KEY_NUMBER, AT(model.eps), FIXED,
     .min = -1000, .max = 1000, .fallback = "0",
     .only_key = "model.kind", .only_word = "gin",
     .doc = "GIN counts the vertex itself 1 + eps times among its neighbours. Only with gin."},
    {.path = "model.train_eps", .type = SL_KEY_BOOL, AT(model.train_eps), .fallback = "false",
     FIXED,
     .only_key = "model.kind", .only_word = "gin",
     .doc = "Whether eps is learned, from model.eps on. Only with gin."},
    {.path = "model.self_loops", .type = SL_KEY_BOOL, AT(model.self_loops), .fallback = "true",
     FIXED,
     .only_key = "model.kind", .only_word = "gcn",
     .doc = "Whether every vertex is its own neighbour once, whether or not the graph says so. "
            "Only with gcn."},
    {.path = "model.degrees", .type = SL_KEY_WORD, AT(model.degrees), FIXED,
     .words = degree_kinds, .fallback = "\"graph\"",
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_DEGREES,
     .doc = "Which degrees scale the sums over neighbours: graph those of the whole graph, so that "
            "sampled sums are unbiased and full ones exact, block those of the sampled block. Only "
            "with " SL_MODEL_WITH_DEGREES "."},
    {.path = "model.weights", .type = SL_KEY_STRING, AT(model.weights), ONWARD, MACHINE,
     .fallback_note = "random values that depend on seed",
     .doc = "A .safetensors file with the parameters to begin with, named and shaped as this "
            "model's."},

    {.path = "loss", .type = SL_KEY_OBJECT,
     .doc = "What training makes small: cross-entropy (multiclass), sigmoid cross-entropy "
            "(multilabel) or the squared error (regression), as the data set's task says."},
    {.path = "loss.class_weights", .type = SL_KEY_NUMBERS, AT(loss.class_weight), FIXED,
     BESIDE(loss.n_class_weights), .min = 0, .max = 1000000,
     .choices = class_weights, .choice = offsetof(struct sl_config, loss.class_weights),
     .fallback = "\"none\"",
     .doc = "How much each class counts in the loss (of a multi-label task: each label's "
            "positives): a list with one number for each, balanced for the inverse of how often "
            "it occurs in the training set, or none."},

    {.path = "sampler", .type = SL_KEY_OBJECT,
     .doc = "How mini-batches are drawn."},
    {.path = "sampler.kind", .type = SL_KEY_WORD, AT(sampler.kind), FIXED,
     .words = sl_sampler_words, .fallback = "\"khop\"",
     .doc = "How neighbours are drawn, hop by hop: khop uniformly and without replacement, "
            "weighted by edge_weight.npy and without replacement (an edge of weight 0 is none, for "
            "evaluation and predictions too), walk by short random walks "
            "(PinSAGE), labor as khop but so that the vertices of a hop share neighbours where "
            "they can: fewer distinct ones a batch (LABOR); an edge that the graph has several "
            "times is as likely to be taken as one that it has once."},
    {.path = "sampler.fanout", .type = SL_KEY_FANOUT, AT(sampler.fanout), BESIDE(sampler.n_fanout),
     FIXED,
     .min = 1, .max = 65535,
     .fallback_note = "[15, 10, 5] with 3 layers; it must be given with any other number",
     .doc = "Neighbours drawn for each vertex, one number for each layer, the hop next to the "
            "seeds first; -1 takes all. With walk: how many of the vertices met most often are "
            "kept; -1 keeps all that were met."},
    {.path = "sampler.batch_size", .type = SL_KEY_INTEGER, AT(sampler.batch_size), FIXED,
     .min = 1, .max = 2147483648.0, .fallback = "1024",
     .doc = "Training vertices in a mini-batch; the last one of an epoch may be smaller."},
    {.path = "sampler.paths", .type = SL_KEY_INTEGER, AT(sampler.paths), FIXED,
     .min = 1, .max = 1024, .fallback = "10",
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Random walks from each vertex. Only with walk."},
    {.path = "sampler.length", .type = SL_KEY_INTEGER, AT(sampler.length), FIXED,
     .min = 1, .max = 64, .fallback = "3",
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Steps of a random walk. Only with walk."},
    {.path = "sampler.restart", .type = SL_KEY_NUMBER, AT(sampler.restart), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.5",
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Probability that a random walk goes back to its start before a step. Only with walk."},

    {.path = "optimizer", .type = SL_KEY_OBJECT,
     .doc = "How gradients change the parameters."},
    {.path = "optimizer.kind", .type = SL_KEY_WORD, AT(optimizer.kind), FIXED,
     .words = optimizer_kinds, .fallback = "\"adam\"",
     .doc = "Adam, AdamW, or stochastic gradient descent; as PyTorch's."},
    {.path = "optimizer.lr", .type = SL_KEY_NUMBER, AT(optimizer.lr), FIXED,
     .min = 0, .above_min = true, .max = 1000, .fallback = "0.003",
     .doc = "Learning rate."},
    {.path = "optimizer.weight_decay", .type = SL_KEY_NUMBER, AT(optimizer.weight_decay), FIXED,
     .min = 0, .max = 1000, .fallback = "0",
     .doc = "L2 penalty, added to the gradient; adamw shrinks the parameters themselves."},
    {.path = "optimizer.decay_on", .type = SL_KEY_WORD, AT(optimizer.decay_on), FIXED,
     .words = decay_ons, .fallback = "\"all\"",
     .doc = "Which parameters weight_decay is for: all, or only those of the first layer, as the "
            "GCN paper has it."},
    {.path = "optimizer.clip_norm", .type = SL_KEY_NUMBER, AT(optimizer.clip_norm), FIXED,
     .min = 0, .max = 1e9, .fallback = "0",
     .doc = "An update's gradient whose norm is larger is scaled down to it; 0 leaves it."},
    {.path = "optimizer.momentum", .type = SL_KEY_NUMBER, AT(optimizer.momentum), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0",
     .only_key = "optimizer.kind", .only_word = "sgd",
     .doc = "Share of the last step that is kept in the next one. Only with sgd."},
    {.path = "optimizer.beta1", .type = SL_KEY_NUMBER, AT(optimizer.beta1), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.9",
     .only_key = "optimizer.kind", .only_word = "sgd", .only_not = true,
     .doc = "Decay of the running mean of gradients. Not with sgd."},
    {.path = "optimizer.beta2", .type = SL_KEY_NUMBER, AT(optimizer.beta2), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.999",
     .only_key = "optimizer.kind", .only_word = "sgd", .only_not = true,
     .doc = "Decay of the running mean of squared gradients. Not with sgd."},
    {.path = "optimizer.eps", .type = SL_KEY_NUMBER, AT(optimizer.eps), FIXED,
     .min = 0, .above_min = true, .max = 1, .fallback = "1e-08",
     .only_key = "optimizer.kind", .only_word = "sgd", .only_not = true,
     .doc = "Keeps the division in a step finite. Not with sgd."},
    {.path = "optimizer.schedule", .type = SL_KEY_WORD, AT(optimizer.schedule), FIXED,
     .words = lr_schedules, .fallback = "\"constant\"",
     .doc = "How the learning rate changes: not at all, by optimizer.gamma every "
            "optimizer.step_epochs, or along half a cosine down to optimizer.min_lr."},
    {.path = "optimizer.warmup_epochs", .type = SL_KEY_NUMBER, AT(optimizer.warmup_epochs), FIXED,
     .min = 0, .max = 1000000, .fallback = "0",
     .doc = "Epochs, or a part of one, in which the learning rate rises evenly from nearly 0."},
    {.path = "optimizer.step_epochs", .type = SL_KEY_INTEGER, AT(optimizer.step_epochs), FIXED,
     .min = 1, .max = 1000000, .fallback = "10",
     .only_key = "optimizer.schedule", .only_word = "step",
     .doc = "Epochs between two steps of the learning rate. Only with step."},
    {.path = "optimizer.gamma", .type = SL_KEY_NUMBER, AT(optimizer.gamma), FIXED,
     .min = 0, .above_min = true, .max = 1, .fallback = "0.1",
     .only_key = "optimizer.schedule", .only_word = "step",
     .doc = "Factor of each step of the learning rate. Only with step."},
    {.path = "optimizer.min_lr", .type = SL_KEY_NUMBER, AT(optimizer.min_lr), FIXED,
     .min = 0, .max = 1000, .fallback = "0",
     .only_key = "optimizer.schedule", .only_word = "cosine",
     .doc = "Learning rate that the cosine ends at. Only with cosine."},

    {.path = "updates", .type = SL_KEY_OBJECT,
     .doc = "When parameters change."},
    {.path = "updates.mode", .type = SL_KEY_WORD, AT(updates.mode), FIXED,
     .words = update_modes, .fallback = "\"ordered\"",
     .doc = "ordered reduces gradients in batch order: the result does not depend on the number "
            "of trainers. async applies each gradient as it comes, within updates.staleness."},
    {.path = "updates.batches_per_update", .type = SL_KEY_INTEGER, AT(updates.batches_per_update),
     FIXED,
     .min = 1, .max = 1024, .fallback = "1",
     .only_key = "updates.mode", .only_word = "ordered",
     .doc = "Consecutive mini-batches whose gradients make one update; as many trainers can work "
            "at the same time. Only with ordered: with async it is 1."},
    {.path = "updates.staleness", .type = SL_KEY_INTEGER, AT(updates.staleness), FIXED,
     .min = 0, .max = 1024, .fallback = "4",
     .only_key = "updates.mode", .only_word = "async",
     .doc = "Updates by which the parameters that a gradient was computed on may be older than "
            "those it is applied to. Only with async."},
    {.path = "updates.exchange", .type = SL_KEY_WORD, AT(updates.exchange), ONWARD, MACHINE,
     .words = exchange_kinds, .fallback = "\"board\"",
     .only_key = "updates.mode", .only_word = "ordered",
     .doc = "How trainers sum the gradients of an update: board in the machine's memory, nccl from "
            "GPU to GPU by NCCL. nccl takes a GPU of its own for each trainer and no standby "
            "trainers; the last bits of the parameters then depend on the number of trainers. Only "
            "with ordered."},

    {.path = "order", .type = SL_KEY_OBJECT,
     .doc = "Which training vertices make a mini-batch."},
    {.path = "order.kind", .type = SL_KEY_WORD, AT(order.kind), FIXED,
     .words = sl_order_words, .fallback = "\"shuffled\"", .doc = sl_order_doc},
    {.path = "order.sequences", .type = SL_KEY_INTEGER, AT(order.sequences), FIXED,
     .min = 1, .max = 1000000,
     .word = "auto", FLAG(order.sequences_auto), .fallback = "\"auto\"",
     .only_key = "order.kind", .only_of = walks,
     .doc = "Breadth-first sequences of training vertices that take turns in a mini-batch. Fewer "
            "share more; auto takes the fewest that order.excess_error allows. Only with "
            "proximity."},
    {.path = "order.excess_error", .type = SL_KEY_NUMBER, AT(order.excess_error), FIXED,
     .min = 0, .max = 1, .fallback = "0.02",
     .only_key = "order.kind", .only_of = walks,
     .doc = "By how much the mini-batches' shares of labels may differ more from the training "
            "set's than those of a uniform shuffle do (mean total variation distance). Only with "
            "proximity."},

    {.path = "store", .type = SL_KEY_OBJECT,
     .doc = "What of the data set is where."},
    {.path = "store.features", .type = SL_KEY_WORD, AT(store.features), FREE,
     .words = sl_features_words, .fallback = "\"auto\"", .doc = sl_features_doc},
    {.path = "store.cache", .type = SL_KEY_SIZE, AT(store.cache_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .word = "auto", .fallback = "\"auto\"",
     .doc = "Bytes of memory for rows that were read from the drive, one cache for all trainers of "
            "the machine. auto takes a share of the memory that is free. Not where features are in "
            "memory."},
    {.path = "store.window", .type = SL_KEY_INTEGER, AT(store.window), FREE,
     .min = 0, .max = SL_CONFIG_MAX_WINDOW, .fallback = "16",
     .doc = "Mini-batches drawn ahead whose rows that cache keeps until they have been trained. 0 "
            "looks at none."},
    {.path = "store.placement", .type = SL_KEY_WORD, AT(store.placement), FREE, MACHINE,
     .words = sl_store_placement_words, .fallback = "\"auto\"",
     .doc = "How GPUs that train hold features together, each a part, and read one another's, and "
            "GPUs that sample the graph: "
            "solver with as few copies as the links between them allow (XGNN), cliques in groups "
            "of GPUs that all reach one another, one_copy each row on one GPU only, alone not at "
            "all. auto is solver where that caches more than each alone. Only of GPUs."},
    {.path = "store.feature_ratio", .type = SL_KEY_NUMBER, AT(store.feature_ratio), FREE, MACHINE,
     .min = 0, .above_min = true, .max = 1,
     .word = "auto", FLAG(store.feature_ratio_auto), .fallback = "\"auto\"",
     .only_key = "cache.policy", .only_of = keeps,
     .doc = "Share of the vertices whose features lie on GPUs, all of them together, at most; "
            "cache.ratio is that of each trainer. auto is what they have room for. Only of GPUs, "
            "and not with none."},
    {.path = "store.graph_ratio", .type = SL_KEY_NUMBER, AT(store.graph_ratio), FREE, MACHINE,
     .min = 0, .max = 1,
     .word = "auto", FLAG(store.graph_ratio_auto), .fallback = "\"auto\"",
     .doc = "Share of the edges that lie on GPUs that sample, all of them together, at most: the "
            "first ones of the file. auto is what they have room for. Only of GPUs."},
    {.path = "store.prefer", .type = SL_KEY_WORD, AT(store.prefer), FREE, MACHINE,
     .words = sl_store_preference_words, .fallback = "\"auto\"",
     .doc = "What gets the memory of a GPU that samples and trains where it has not enough for "
            "both: graph leaves features a fifth of it, features leaves the graph three tenths. "
            "auto is what leaves their links and buses less to do, by expected reads. Only of "
            "GPUs."},

    {.path = "cache", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "Which features a trainer keeps in its device's memory."},
    {.path = "cache.policy", .type = SL_KEY_WORD, AT(cache.policy), FREE,
     .words = sl_cache_words, .fallback = "\"auto\"", .doc = sl_cache_doc},
    {.path = "cache.presample_epochs", .type = SL_KEY_INTEGER, AT(cache.presample_epochs), FREE,
     .min = 1, .max = 1000000, .fallback = "1",
     .only_key = "cache.policy", .only_of = presamples,
     .doc = "Epochs whose samples are counted; the cache serves the ones after them. Only with "
            "presc."},
    {.path = "cache.ratio", .type = SL_KEY_NUMBER, AT(cache.ratio), FREE,
     .min = 0, .above_min = true, .max = 1,
     .word = "auto", FLAG(cache.ratio_auto), .fallback = "\"auto\"",
     .only_key = "cache.policy", .only_of = keeps,
     .doc = "Share of the vertices whose features a trainer keeps. auto takes what a measured "
            "training step leaves of its device's memory. Not with none."},
    {.path = "cache.report_optimal", .type = SL_KEY_BOOL, AT(cache.report_optimal), FREE,
     .fallback = "false",
     .only_key = "cache.policy", .only_of = keeps,
     .doc = "Whether the report has the best hit rate that a cache of this size could have had; "
            "samplers then count every epoch. Not with none."},

    {.path = "devices", .type = SL_KEY_LIST, AT(devices), BESIDE(n_devices), ONWARD, MACHINE,
     .min = 1, .max = SL_CONFIG_MAX_DEVICES, ENTRY(sl_device_config), .entries = "devices",
     .entry_eg = "{\"kind\": \"cpu\", \"cores\": \"0\"}",
     .word = "auto", FLAG(devices_auto), .fallback = "\"auto\"",
     .also_word = "cpu", .also_flag = offsetof(struct sl_config, devices_cpu),
     .doc = "What samplers and trainers run on. auto is every GPU that there is, used again where "
            "the split asks for more, or without any the same as cpu: all physical cores that the "
            "process may use (allocation.cores). Samplers take a list's first devices, trainers "
            "its last ones: CPU devices stand before GPUs."},
    {.path = "devices[].kind", .type = SL_KEY_WORD, .required = true, ONWARD,
     FIELD(sl_device_config, kind), .words = device_kinds,
     .doc = "Kind of device: a set of CPU cores, or a GPU (cuda)."},
    {.path = "devices[].index", .type = SL_KEY_INTEGER, FIELD(sl_device_config, index), FREE,
     .min = 0, .max = SL_PLUGIN_DEVICES_MAX - 1,
     .only_key = "devices[].kind", .only_word = "cuda",
     .needed_key = "devices[].kind", .needed_word = "cuda",
     .doc = "Which GPU, as CUDA numbers those that CUDA_VISIBLE_DEVICES leaves; 'sluice doctor' "
            "lists them. Several devices may share a GPU, on which they take turns unless MPS "
            "runs. Only with cuda, which needs it."},
    {.path = "devices[].cores", .type = SL_KEY_CORES, FREE,
     FIELD(sl_device_config, cores), .companion = offsetof(struct sl_device_config, n_cores),
     .needed_key = "devices[].kind", .needed_word = "cpu",
     .fallback_note = "with cuda the cores near the GPU; with cpu it must be given",
     .doc = "Numbers of the cores of this device; of a GPU's device, those that its workers run on "
            "beside the GPU. Devices may share cores."},
    {.path = "devices[].memory", .type = SL_KEY_SIZE, FIELD(sl_device_config, memory_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .fallback_note = "with cpu not limited; with cuda what the GPU has free at the start, in "
                      "equal parts where several devices share it",
     .doc = "Memory budget of this device: of the GPU's memory, for which a CPU device's stands."},

    {.path = "allocation", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "How devices are split between the roles."},
    {.path = "allocation.samplers", .type = SL_KEY_INTEGER, AT(allocation.samplers), FREE,
     .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .word = "auto", FLAG(allocation.samplers_auto), .fallback = "\"auto\"",
     .doc = "Devices that sample; they are the first ones. auto lets measured times decide; of CPU "
            "devices and GPUs together the CPU devices sample and the GPUs train."},
    {.path = "allocation.trainers", .type = SL_KEY_INTEGER, AT(allocation.trainers), FREE,
     .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .word = "auto", FLAG(allocation.trainers_auto), .fallback = "\"auto\"",
     .doc = "Devices that train; they are the last ones. auto lets measured times decide, and is "
            "none where one device samples and trains in turn."},
    {.path = "allocation.switching", .type = SL_KEY_BOOL, AT(allocation.switching), FREE,
     .fallback = "true", .only_key = "allocation.cores", .only_word = "fixed",
     .doc = "Whether a standby trainer on each sampler's device trains while that helps and "
            "nothing is left to sample. A device of another kind than those that train has none. "
            "With updates.exchange nccl it is false. Only with fixed cores."},

    {.path = "allocation.cores", .type = SL_KEY_WORD, AT(allocation.cores), FREE,
     .words = core_policies,
     .fallback_note = "pool where devices are auto or cpu, there is no GPU and nothing is said of "
                      "switching; else fixed",
     .doc = "pool: the cores of all devices are one pool; how many of them each worker gets, and "
            "how many workers there are, follows from measured times, and no trainer stands by. "
            "fixed: a worker runs on the cores of its device; of auto and cpu each is one core."},

    {.path = "schedule", .type = SL_KEY_LIST, AT(schedule), BESIDE(n_schedule), FREE, MACHINE,
     .min = 0, .max = SL_CONFIG_MAX_SCHEDULE, ENTRY(sl_schedule_config), .entries = "entries",
     .entry_eg = "{\"epoch\": 3, \"samplers\": 1, \"trainers\": 3}",
     .fallback = "[]",
     .doc = "Changes of the split while the job runs, in ascending order."},
    {.path = "schedule[].epoch", .type = SL_KEY_INTEGER, .required = true, FREE,
     FIELD(sl_schedule_config, epoch), .min = 0, .max = SL_CONFIG_MAX_EPOCHS - 1,
     .doc = "Epoch, counted from 0, in which the split changes."},
    {.path = "schedule[].batch", .type = SL_KEY_INTEGER, FIELD(sl_schedule_config, batch), FREE,
     .min = 0, .max = 4294967295.0, .fallback = "0",
     .doc = "Mini-batches of that epoch that are trained before the change."},
    {.path = "schedule[].samplers", .type = SL_KEY_INTEGER, .required = true, FREE,
     FIELD(sl_schedule_config, samplers), .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .doc = "Devices that sample from then on."},
    {.path = "schedule[].trainers", .type = SL_KEY_INTEGER, .required = true, FREE,
     FIELD(sl_schedule_config, trainers), .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .doc = "Devices that train from then on."},

    {.path = "throttle", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "Stages made slow by sleeping, for tests of scheduling."},
    {.path = "throttle.sample", .type = SL_KEY_NUMBER, AT(throttle.sample), FREE,
     .min = 0, .max = 10, .fallback = "0",
     .doc = "Seconds that sampling a mini-batch takes at least; for tests of scheduling."},
    {.path = "throttle.train", .type = SL_KEY_NUMBER, AT(throttle.train), FREE,
     .min = 0, .max = 10, .fallback = "0",
     .doc = "Seconds that a trainer takes for a mini-batch at least; for tests of scheduling."},
    {.path = "throttle.standby", .type = SL_KEY_NUMBER, AT(throttle.standby), FREE,
     .min = 0, .max = 10, .fallback = "0",
     .doc = "Seconds that a standby trainer takes for a mini-batch at least; for tests of "
            "scheduling."},

    {.path = "arena", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "The shared memory that holds mini-batches on their way."},
    {.path = "arena.memory", .type = SL_KEY_SIZE, AT(arena_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .word = "auto", .fallback = "\"auto\"",
     .doc = "Bytes for mini-batches. auto takes a share of the memory that is free."},
    {.path = "arena.activations", .type = SL_KEY_WORD, AT(activations), FREE,
     .words = activation_places, .fallback = "\"auto\"",
     .doc = "Where an evaluation over all neighbours keeps hidden activations: memory, a file "
            "without a name on the disk of output, or auto, which is the file where memory does "
            "not suffice."},

    {.path = "epochs", .type = SL_KEY_INTEGER, AT(epochs), ONWARD,
     .min = 1, .max = SL_CONFIG_MAX_EPOCHS,
     .word = "auto", FLAG(epochs_auto), .fallback = "\"auto\"",
     .doc = "Passes over the training vertices. auto is as many as have 500 updates, but 10 to "
            "200, or what other keys ask for; the run says how many, and why."},
    {.path = "seed", .type = SL_KEY_INTEGER, AT(seed), FIXED,
     .min = 0, .max = 9007199254740991.0, .fallback = "0", // 2^53 - 1: exact in every JSON reader
     .doc = "Key of every random number: equal jobs with equal seeds give equal results."},
    {.path = "precision", .type = SL_KEY_WORD, AT(precision), FIXED,
     .words = sl_precision_words, .fallback = "\"auto\"",
     .doc = "Type of the factors in matrix products; sums and parameters are fp32 either way. tf32 "
            "is of GPUs: a CPU device computes it as fp32. auto is tf32 where GPUs alone train, "
            "else fp32."},
    {.path = "stall_seconds", .type = SL_KEY_INTEGER, AT(stall_seconds), FREE,
     .min = 0, .max = 1000000, .fallback = "1800",
     .doc = "A worker that has not moved for so long (a GPU that never answers, a file server that "
            "is gone) is killed and replaced; 12 s at the least, since trainers may sleep for 10. "
            "0 waits for ever."},
    {.path = "memory", .type = SL_KEY_SIZE, AT(memory_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .fallback_note = "what the machine has",
     .doc = "Most that all processes of the job hold in memory together, of this machine; pages of "
            "files, which the system can take back, do not count. Buffers and caches that are auto "
            "become as large as it allows; a job that needs more is refused before it trains."},
    {.path = "digest", .type = SL_KEY_BOOL, AT(digest), FIXED,
     .fallback = "false",
     .doc = "Whether the report has samples_digest, a hash of every block; it costs a few "
            "percent."},

    {.path = "evaluate", .type = SL_KEY_OBJECT,
     .doc = "Accuracy on the validation and test vertices."},
    {.path = "evaluate.every", .type = SL_KEY_INTEGER, AT(evaluate.every), ONWARD,
     .min = 0, .max = 1000000, .fallback = "1",
     .doc = "Evaluate after every so many epochs; 0 only at the end."},
    {.path = "evaluate.fanout", .type = SL_KEY_FANOUT, AT(evaluate.fanout), FIXED,
     BESIDE(evaluate.n_fanout), .min = 1, .max = 65535,
     .word = "full", FLAG(evaluate.full), .fallback = "\"full\"",
     .doc = "full computes layer by layer over all neighbours; a list samples like "
            "sampler.fanout."},
    {.path = "evaluate.batch_size", .type = SL_KEY_INTEGER, AT(evaluate.batch_size), FIXED,
     .min = 1, .max = 2147483648.0,
     .fallback_note = "sampler.batch_size",
     .doc = "Vertices in a mini-batch of a sampled evaluation."},
    {.path = "evaluate.metric", .type = SL_KEY_WORD, AT(evaluate.metric), FIXED,
     .words = sl_metric_words, .fallback = "\"auto\"",
     .doc = "What the best epoch is the best in. auto is accuracy, roc_auc where one of two "
            "classes has less than a third of the training vertices, micro_f1 where a vertex has "
            "several labels, loss for numbers."},
    {.path = "evaluate.test", .type = SL_KEY_WORD, AT(evaluate.test), FREE,
     .words = tests, .fallback = "\"final\"",
     .doc = "When the test set is evaluated: final is once, of the best epoch; each is beside "
            "every validation as well, which still decides alone what is the best; never leaves "
            "it out."},
    {.path = "evaluate.overlap", .type = SL_KEY_BOOL, AT(evaluate.overlap), FREE,
     .fallback = "true",
     .doc = "Whether an epoch may be evaluated while the next one is trained, by trainers that "
            "wait for others: with fanout full, where there may be more trainers than can work at "
            "the same time, on CPU devices of fixed cores, and without early stopping."},

    {.path = "early_stopping", .type = SL_KEY_OBJECT,
     .doc = "When training ends before its last epoch."},
    {.path = "early_stopping.patience", .type = SL_KEY_INTEGER, AT(early_stopping.patience), ONWARD,
     .min = 0, .max = 1000000,
     .word = "auto", FLAG(early_stopping.patience_auto), .fallback = "\"auto\"",
     .doc = "Training ends after so many evaluations without a better evaluate.metric; 0 trains "
            "all epochs. auto is 0 where epochs is given; else as many as half of the epochs have, "
            "and 0 where epochs came to the least."},
    {.path = "early_stopping.min_delta", .type = SL_KEY_NUMBER, AT(early_stopping.min_delta),
     ONWARD,
     .min = 0, .max = 1000000, .fallback = "0",
     .doc = "By how much a metric must be better to count as better."},

    {.path = "checkpoint", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "What a job leaves on the way, to go on from after a stop or a crash. With both "
            "intervals 0 there are none."},
    {.path = "checkpoint.every_updates", .type = SL_KEY_INTEGER, AT(checkpoint.every_updates), FREE,
     .min = 0, .max = 9007199254740991.0, .fallback = "0",
     .doc = "Updates between two checkpoints; 0 leaves it to checkpoint.every_seconds."},
    {.path = "checkpoint.every_seconds", .type = SL_KEY_NUMBER, AT(checkpoint.every_seconds), FREE,
     .min = 0, .max = 1e9, .fallback = "300",
     .doc = "Seconds between two checkpoints; 0 leaves it to checkpoint.every_updates."},
    {.path = "checkpoint.keep", .type = SL_KEY_INTEGER, AT(checkpoint.keep), FREE,
     .min = 1, .max = 1000, .fallback = "2",
     .doc = "How many of the newest checkpoints are kept."},

    {.path = "resume", .type = SL_KEY_WORD, AT(resume), FREE,
     .words = resume_policies, .fallback = "\"never\"",
     .doc = "What a daemon does with the job when it finds it interrupted after it was killed "
            "itself: auto goes on from the newest checkpoint, never waits for 'sluice resume'."},
    {.path = "output", .type = SL_KEY_STRING, AT(output), FREE,
     .fallback_note = "runs/ and the name of the job",
     .doc = "Run directory, relative to the working directory. An earlier run is never "
            "overwritten."},
};
// clang-format on
const size_t sl_n_keys = SL_COUNT_OF(sl_keys);

const char *sl_model_kind_name(enum sl_model_kind kind)
{
    return (size_t)kind < SL_COUNT_OF(model_kinds) - 1 ? model_kinds[kind] : "unknown";
}

const char *sl_exchange_kind_name(enum sl_exchange_kind kind)
{
    return (size_t)kind < SL_COUNT_OF(exchange_kinds) - 1 ? exchange_kinds[kind] : "unknown";
}

const char *sl_device_kind_name(enum sl_device_kind kind)
{
    return (size_t)kind < SL_COUNT_OF(device_kinds) - 1 ? device_kinds[kind] : "unknown";
}

const char *sl_key_change_word(const struct sl_key *key)
{
    static const char *const words[] = {[SL_CHANGE_UNSAID] = NULL,
                                        [SL_CHANGE_REFUSED] = "no",
                                        [SL_CHANGE_FREE] = "free",
                                        [SL_CHANGE_ONWARD] = "onward"};
    return words[key->change];
}

const struct sl_key *sl_key_find(const char *path)
{
    for (size_t i = 0; i < sl_n_keys; i++)
        if (strcmp(sl_keys[i].path, path) == 0)
            return &sl_keys[i];
    return NULL;
}

const char *sl_key_leaf(const struct sl_key *key)
{
    const char *dot = strrchr(key->path, '.');
    return dot ? dot + 1 : key->path;
}

void sl_key_parent(const struct sl_key *key, char out[SL_KEY_PATH_BYTES])
{
    const char *dot = strrchr(key->path, '.');
    snprintf(out, SL_KEY_PATH_BYTES, "%.*s", dot ? (int)(dot - key->path) : 0, key->path);
}

bool sl_key_is_in(const struct sl_key *key, const char *parent)
{
    char mine[SL_KEY_PATH_BYTES];
    sl_key_parent(key, mine);
    return strcmp(mine, parent) == 0;
}

static unsigned index_of(const struct sl_key *key, const void *base)
{
    unsigned index;
    memcpy(&index, (const char *)base + key->offset, sizeof index);
    return index;
}

// Whether it is one of "a or b or c".
static bool is_among(const char *word, const char *words)
{
    static const char between[] = " or ";
    size_t n = strlen(word);
    for (const char *end; (end = strstr(words, between)); words = end + sizeof between - 1)
        if ((size_t)(end - words) == n && memcmp(words, word, n) == 0)
            return true;
    return strcmp(words, word) == 0;
}

bool sl_key_goes_with(const struct sl_key *key, unsigned word)
{
    if (key->only_of)
        return key->only_of(word);
    return is_among(sl_key_find(key->only_key)->words[word], key->only_word) != key->only_not;
}

bool sl_key_applies(const struct sl_key *key, const void *base)
{
    if (!key->only_key)
        return true;
    return sl_key_goes_with(key, index_of(sl_key_find(key->only_key), base));
}

bool sl_key_is_needed(const struct sl_key *key, const void *base)
{
    return key->required ||
           (key->needed_key &&
            strcmp(sl_key_word(sl_key_find(key->needed_key), base), key->needed_word) == 0);
}

const char *sl_key_fallback(const struct sl_key *key, const void *base)
{
    const struct sl_key *other = key->beside_key ? sl_key_find(key->beside_key) : NULL;
    return other && strcmp(sl_key_word(other, base), key->beside_word) == 0 ? key->beside_fallback
                                                                            : key->fallback;
}

char *sl_key_default(const struct sl_key *key, char out[SL_KEY_DEFAULT_BYTES])
{
    if (key->beside_key)
        snprintf(out, SL_KEY_DEFAULT_BYTES, "%s; with %s \"%s\" %s", key->fallback, key->beside_key,
                 key->beside_word, key->beside_fallback);
    else
        snprintf(out, SL_KEY_DEFAULT_BYTES, "%s",
                 key->fallback        ? key->fallback
                 : key->fallback_note ? key->fallback_note
                                      : "");
    return out;
}

const char *sl_key_word(const struct sl_key *key, const void *base)
{
    return key->words[index_of(key, base)];
}

// What another tool calls so, as the key of this object where it has one of that name.
static bool suggest_synonym(const char *parent, const char *name, char *out, size_t bytes)
{
    char path[SL_KEY_PATH_BYTES], means[SL_SYNONYM_BYTES];
    snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "." : "", name);
    const struct sl_synonym *found = sl_synonym_find(SL_SYNONYM_KEY, NULL, path, means);
    if (!found && !strstr(parent, "[]")) // in an entry of a list few mean a key outside of it
        found = sl_synonym_find(SL_SYNONYM_KEY, NULL, name, means);
    if (!found)
        return false;
    if (!found->means) {
        snprintf(out, bytes, "%s", found->why);
        return true;
    }
    snprintf(path, sizeof path, "%s.%s", parent, sl_key_leaf(sl_key_find(means)));
    snprintf(out, bytes, "did you mean %s?", sl_key_find(path) ? path : means);
    return true;
}

bool sl_config_find_key(const char *word, char path[SL_CONFIG_KEY_BYTES])
{
    char name[SL_KEY_PATH_BYTES], means[SL_SYNONYM_BYTES];
    snprintf(name, sizeof name, "%s", word);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    sl_synonym_find(SL_SYNONYM_KEY, NULL, name, means);
    const struct sl_key *found = sl_key_find(means[0] ? means : name);
    bool by_path = found != NULL;
    size_t n_leaves = 0;
    for (size_t i = 0; !by_path && i < sl_n_keys; i++) {
        if (strcmp(sl_key_leaf(&sl_keys[i]), name) != 0 || strstr(sl_keys[i].path, "[]"))
            continue;
        found = n_leaves++ == 0 ? &sl_keys[i] : NULL;
    }
    if (!found || found->type == SL_KEY_OBJECT || found->type == SL_KEY_NOTE)
        return false;
    snprintf(path, SL_CONFIG_KEY_BYTES, "%s", found->path);
    return true;
}

void sl_key_suggest(const char *parent, const char *name, char *out, size_t bytes)
{
    // "model.layers" as one name is a mistake of its own kind.
    const struct sl_key *whole = parent[0] == '\0' && strchr(name, '.') ? sl_key_find(name) : NULL;
    if (whole) {
        char outer[SL_KEY_PATH_BYTES];
        sl_key_parent(whole, outer);
        snprintf(out, bytes, "write it as \"%s\" inside \"%s\": {...}", sl_key_leaf(whole), outer);
        return;
    }

    if (suggest_synonym(parent, name, out, bytes))
        return;

    // A key of the same object wins over one elsewhere, which must be nearer to be worth naming,
    // and much nearer where a list's entry is on either side: few mean that.
    bool in_entry = strstr(parent, "[]") != NULL;
    const struct sl_key *best = NULL;
    unsigned best_cost = SL_TEXT_FAR;
    for (size_t i = 0; i < sl_n_keys; i++) {
        bool here = sl_key_is_in(&sl_keys[i], parent);
        unsigned near = sl_text_nearness(name, sl_key_leaf(&sl_keys[i]));
        bool far = in_entry || strstr(sl_keys[i].path, "[]");
        unsigned cost = 2 * near + (here ? 0 : far ? 5 : 1);
        if ((here ? near < SL_TEXT_FAR : near <= 1) && cost < best_cost) {
            best = &sl_keys[i];
            best_cost = cost;
        }
    }
    if (best) {
        snprintf(out, bytes, "did you mean %s?", best->path);
        return;
    }
    size_t n = (size_t)snprintf(out, bytes, "the keys %s%s are", *parent ? "of " : "here", parent);
    const char *between = " ";
    for (size_t i = 0; i < sl_n_keys && n < bytes; i++) {
        if (!sl_key_is_in(&sl_keys[i], parent) || sl_keys[i].type == SL_KEY_NOTE)
            continue;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", between, sl_key_leaf(&sl_keys[i]));
        between = ", ";
    }
}
