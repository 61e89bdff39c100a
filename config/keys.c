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
#define NAMED(field)   .names = offsetof(struct sl_config, field)
#define FLAG(field)    .word_flag = offsetof(struct sl_config, field)
#define ENTRY(struct_) .entry_bytes = sizeof(struct struct_)
#define FIXED          .change = SL_CHANGE_REFUSED
#define FREE           .change = SL_CHANGE_FREE
#define ONWARD         .change = SL_CHANGE_ONWARD
#define MACHINE        .of_machine = true
// Of jobs of links.
#define LINK     .only_key = "task.kind", .only_word = "link"
#define OWN_LINK LINK, .not_external = true // that sluice trains itself
#define HARD     .only_key = "task.hard.kind", .only_word = "walks"
// Of training that sluice does itself, or of external trainers.
#define OWN      .only_key = "model.kind", .only_word = "external", .only_not = true
#define EXTERNAL .only_key = "model.kind", .only_word = "external"

#define WORD(upper, lower) [SL_MODEL_##upper] = #lower,
static const char *const model_kinds[] = {
    SL_MODEL_KINDS(WORD) SL_MODEL_TYPED_KINDS(WORD)[SL_MODEL_EXTERNAL] = "external", NULL};
static const char *const task_kinds[] = {[SL_JOB_NODES] = "node", [SL_JOB_LINKS] = "link", NULL};
static const char *const decoders[] = {
    [SL_DECODER_DOT] = "dot",           [SL_DECODER_COSINE] = "cosine",
    [SL_DECODER_DISTMULT] = "distmult", [SL_DECODER_BILINEAR] = "bilinear",
    [SL_DECODER_MLP] = "mlp",           NULL};
static const char *const combinations[] = {[SL_COMBINE_PRODUCT] = "product",
                                           [SL_COMBINE_CONCAT] = "concat",
                                           [SL_COMBINE_DIFFERENCE] = "difference",
                                           NULL};
static const char *const pair_losses[] = {[SL_PAIR_LOSS_BCE] = "bce",
                                          [SL_PAIR_LOSS_MARGIN] = "margin",
                                          [SL_PAIR_LOSS_BPR] = "bpr",
                                          [SL_PAIR_LOSS_SOFTMAX] = "softmax",
                                          NULL};
static const char *const negative_kinds[] = {[SL_NEGATIVES_UNIFORM] = "uniform",
                                             [SL_NEGATIVES_DEGREE] = "degree",
                                             [SL_NEGATIVES_BATCH] = "batch",
                                             [SL_NEGATIVES_GIVEN] = "given",
                                             NULL};
static const char *const hard_kinds[] = {[SL_HARD_NONE] = "none", [SL_HARD_WALKS] = "walks", NULL};
static const char *const strict_kinds[] = {
    [SL_STRICT_NONE] = "none", [SL_STRICT_GRAPH] = "graph", [SL_STRICT_ALL] = "all", NULL};
static const char *const exclusions[] = {
    [SL_EXCLUDE_NONE] = "none", [SL_EXCLUDE_SELF] = "self", [SL_EXCLUDE_REVERSE] = "reverse", NULL};
static const char *const feature_origins[] = {
    [SL_INPUT_OF_FILE] = "file", [SL_INPUT_LEARNED] = "learned", [SL_INPUT_OF_BOTH] = "both", NULL};
static const char *const rows_places[] = {
    [SL_ROWS_IN_MEMORY] = "memory", [SL_ROWS_IN_FILE] = "file", NULL};
static const char *const input_splits[] = {[SL_INPUT_TRAIN] = "train",
                                           [SL_INPUT_VAL] = "val",
                                           [SL_INPUT_TEST] = "test",
                                           [SL_INPUT_ALL] = "all",
                                           NULL};
static const char *const balances[] = {
    [SL_BALANCE_FIXED] = "fixed", [SL_BALANCE_DYNAMIC] = "dynamic", NULL};
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
static const char *const relation_sums[] = {
    [SL_RELATIONS_SUM] = "sum", [SL_RELATIONS_MEAN] = "mean", NULL};
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
static const char *const time_rules[] = {
    [SL_TIME_NONE] = "none", [SL_TIME_UNIFORM] = "uniform", [SL_TIME_LATEST] = "latest", NULL};
static const char *const subgraphs[] = {[SL_SUBGRAPH_DIRECTIONAL] = "directional",
                                        [SL_SUBGRAPH_INDUCED] = "induced",
                                        [SL_SUBGRAPH_BIDIRECTIONAL] = "bidirectional",
                                        NULL};
static const char *const expands[] = {[SL_EXPAND_ALL] = "all", [SL_EXPAND_NEW] = "new", NULL};
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
     .fallback_note = "the job file's name without .json",
     .doc = "Name of the job in reports and listings."},
    {.path = "dataset", .type = SL_KEY_STRING, .required = true, AT(dataset), FREE,
     .doc = "Directory of the data set, which must not change while the job runs."},

    {.path = "task", .type = SL_KEY_OBJECT,
     .doc = "What is learned: labels of vertices, or which pairs of vertices are linked."},
    {.path = "task.kind", .type = SL_KEY_WORD, AT(task.kind), FIXED,
     .words = task_kinds, .fallback = "\"node\"",
     .doc = "node: the data set's labels. link: its train_edges.npy against drawn pairs; without "
            "that file all edges of the graph."},
    {.path = "task.relation", .type = SL_KEY_STRING, AT(task.relation), FIXED,
     .fallback_note = "the relation of the data set's lists of pairs",
     LINK,
     .doc = "Of a graph of several types the relation that is learned, such as \"author -writes-> "
            "paper\", or \"writes\" where no other has the name. Only with link."},
    {.path = "task.dim", .type = SL_KEY_INTEGER, AT(task.dim), FIXED,
     .min = 1, .max = 65536, .fallback_note = "model.hidden",
     OWN_LINK,
     .doc = "Width of the embeddings that the model makes of vertices. Only with link."},
    {.path = "task.decoder", .type = SL_KEY_WORD, AT(task.decoder), FIXED,
     .words = decoders, .fallback = "\"dot\"",
     OWN_LINK,
     .doc = "How two embeddings become a score: their product (dot), that of rows of length 1 "
            "(cosine), with a learned weight for each column (distmult), with a learned matrix "
            "(bilinear), or two linear layers (mlp). Only with link."},
    {.path = "task.combine", .type = SL_KEY_WORD, AT(task.combine), FIXED,
     .words = combinations, .fallback = "\"product\"",
     .only_key = "task.decoder", .only_word = "mlp",
     .doc = "What mlp reads: the products of the columns, both rows side by side (concat), or "
            "their absolute differences. Only with mlp."},
    {.path = "task.hidden", .type = SL_KEY_INTEGER, AT(task.hidden), FIXED,
     .min = 1, .max = 65536, .fallback_note = "task.dim",
     .only_key = "task.decoder", .only_word = "mlp",
     .doc = "Width between the two layers of mlp. Only with mlp."},
    {.path = "task.loss", .type = SL_KEY_WORD, AT(task.loss), FIXED,
     .words = pair_losses, .fallback = "\"bce\"",
     OWN_LINK,
     .doc = "bce: sigmoid cross-entropy. margin: how far a negative comes within task.margin of "
            "its positive. bpr: the log-sigmoid of their difference. softmax: cross-entropy of a "
            "positive among its negatives. Only with link."},
    {.path = "task.margin", .type = SL_KEY_NUMBER, AT(task.margin), FIXED,
     .min = 0, .max = 1000000, .fallback = "1",
     .only_key = "task.loss", .only_word = "margin",
     .doc = "By how much a positive's score is to be above its negatives'. Only with margin."},
    {.path = "task.negatives", .type = SL_KEY_WORD, AT(task.negatives), FIXED,
     .words = negative_kinds, .fallback = "\"uniform\"",
     LINK,
     .doc = "Where the other end of a negative pair comes from: any vertex (uniform), the ends of "
            "training edges by how many there are to the power of 3/4 (degree), the other pairs "
            "of its mini-batch, their scores less the logarithm of how common they are (batch), "
            "or the data set's train_neg.npy or train_neg_target.npy, as they are (given). Only "
            "with link."},
    {.path = "task.per_positive", .type = SL_KEY_INTEGER, AT(task.per_positive), FIXED,
     .min = 0, .max = 65536, .fallback = "1",
     LINK,
     .doc = "Negative pairs of each positive one, from the same source. 0, none, is for external "
            "trainers. Only with link."},
    {.path = "task.hard", .type = SL_KEY_OBJECT,
     .doc = "Hard negatives by PinSAGE's curriculum: a positive's last negatives become vertices "
            "that walks from its source meet often, but not most often."},
    {.path = "task.hard.kind", .type = SL_KEY_WORD, AT(task.hard.kind), FIXED,
     .words = hard_kinds, .fallback = "\"none\"",
     LINK,
     .doc = "walks: epoch n has n - from_epoch + 1 of them a positive, until there are "
            "per_positive. none: there are none. Only with link."},
    {.path = "task.hard.per_positive", .type = SL_KEY_INTEGER, AT(task.hard.per_positive), FIXED,
     .min = 1, .max = 65536, .fallback = "1",
     HARD,
     .doc = "How many of task.per_positive negatives become hard at most. Only with walks."},
    {.path = "task.hard.from_epoch", .type = SL_KEY_INTEGER, AT(task.hard.from_epoch), FIXED,
     .min = 1, .max = 4294967295.0, .fallback = "2",
     HARD,
     .doc = "The first epoch with a hard negative, counted from 1. Only with walks."},
    {.path = "task.hard.first_rank", .type = SL_KEY_INTEGER, AT(task.hard.first_rank), FIXED,
     .min = 1, .max = 65536, .fallback = "10",
     HARD,
     .doc = "Vertices by how often walks meet them, the most visited is 1, those left out that "
            "task.strict rules out: a hard negative is drawn from this rank on. Only with walks."},
    {.path = "task.hard.last_rank", .type = SL_KEY_INTEGER, AT(task.hard.last_rank), FIXED,
     .min = 1, .max = 65536, .fallback = "50",
     HARD,
     .doc = "To this rank. Only with walks."},
    {.path = "task.hard.paths", .type = SL_KEY_INTEGER, AT(task.hard.paths), FIXED,
     .min = 1, .max = 4096, .fallback = "50",
     HARD,
     .doc = "Walks from each source of a mini-batch. Only with walks."},
    {.path = "task.hard.length", .type = SL_KEY_INTEGER, AT(task.hard.length), FIXED,
     .min = 1, .max = 64, .fallback = "3",
     HARD,
     .doc = "Steps of such a walk. Only with walks."},
    {.path = "task.hard.restart", .type = SL_KEY_NUMBER, AT(task.hard.restart), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0",
     HARD,
     .doc = "Probability of a return to the source before each step. Only with walks."},
    {.path = "task.strict", .type = SL_KEY_WORD, AT(task.strict), FIXED,
     .words = strict_kinds, .fallback = "\"graph\"",
     LINK,
     .doc = "What a negative pair never is: an edge of the graph, of the graph or of any of the "
            "data set's lists of edges (all), or it may be either (none). Only with link."},
    {.path = "task.exclude", .type = SL_KEY_WORD, AT(task.exclude), FIXED,
     .words = exclusions, .fallback = "\"reverse\"",
     LINK,
     .doc = "Edges that a mini-batch is drawn without: those of its positive pairs (self), and "
            "their reverses, or none. Only with link."},

    {.path = "model", .type = SL_KEY_OBJECT, .required = true,
     .doc = "The network that is trained."},
    {.path = "model.kind", .type = SL_KEY_WORD, .required = true, AT(model.kind), FIXED,
     .words = model_kinds,
     .doc = "Kind of layer, as PyTorch Geometric has it; external: none, batches are for programs "
            "that attach."},
    {.path = "model.layers", .type = SL_KEY_INTEGER, AT(model.layers), FIXED,
     .min = 1, .max = SL_CONFIG_MAX_LAYERS, .fallback = "3",
     .doc = "Number of layers, and of sampled hops. With external as many as sampler.fanout has."},
    {.path = "model.hidden", .type = SL_KEY_INTEGER, AT(model.hidden), FIXED,
     .min = 1, .max = 65536, .fallback = "256",
     OWN,
     .doc = "Width of the hidden layers."},
    {.path = "model.dropout", .type = SL_KEY_NUMBER, AT(model.dropout), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.5",
     OWN,
     .doc = "Dropout after each hidden layer."},
    {.path = "model.input_dropout", .type = SL_KEY_NUMBER, AT(model.input_dropout), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0",
     OWN,
     .doc = "Dropout of the input features."},
    {.path = "model.activation", .type = SL_KEY_WORD, AT(model.activation), FIXED,
     .words = activations, .fallback = "\"relu\"",
     OWN,
     .doc = "Activation after each hidden layer (and its norm); with hgt only where features "
            "become rows of the hidden width."},
    {.path = "model.norm", .type = SL_KEY_WORD, AT(model.norm), FIXED,
     .words = norms, .fallback = "\"none\"",
     .beside_key = "model.kind", .beside_word = "gin", .beside_fallback = "\"batch\"",
     OWN,
     .doc = "Normalisation before the activation: batch (running statistics for evaluation) or "
            "layer (each vertex by itself)."},
    {.path = "model.jumping", .type = SL_KEY_WORD, AT(model.jumping), FIXED,
     .words = jumpings, .fallback = "\"none\"",
     .only_key = "model.kind", .only_word = SL_MODEL_OF_TYPES " or external", .only_not = true,
     .doc = "Jumping knowledge: a final linear layer on the last hidden layer, on all side by "
            "side (cat), or on their maximum. Not with " SL_MODEL_OF_TYPES ", which end with a "
            "linear layer."},
    {.path = "model.aggregator", .type = SL_KEY_WORD, AT(model.aggregator), FIXED,
     .words = aggregators, .fallback = "\"mean\"",
     .only_key = "model.kind", .only_word = "graphsage",
     .doc = "How neighbours are combined: mean, maximum, or the mean with the vertex (gcn). Only "
            "with graphsage."},
    {.path = "model.heads", .type = SL_KEY_INTEGER, AT(model.heads), FIXED,
     .min = 1, .max = 256, .fallback = "8",
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_HEADS,
     .doc = "Attention heads: side by side in hidden layers (model.hidden is a multiple), "
            "averaged in the last layer (rgat, rgatv2, hgt: side by side). Only with "
            SL_MODEL_WITH_HEADS "."},
    {.path = "model.attention_dropout", .type = SL_KEY_NUMBER, AT(model.attention_dropout), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback_note = "model.dropout",
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_ATTENTION_DROPOUT,
     .doc = "Dropout of attention coefficients. Only with " SL_MODEL_WITH_ATTENTION_DROPOUT "."},
    {.path = "model.residual", .type = SL_KEY_BOOL, AT(model.residual), .fallback = "false", FIXED,
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_RESIDUAL,
     .doc = "Whether a linear map of a layer's input is added to its output. Only with "
            SL_MODEL_WITH_RESIDUAL "."},
    {.path = "model.eps", .type = SL_KEY_NUMBER, AT(model.eps), FIXED,
     .min = -1000, .max = 1000, .fallback = "0",
     .only_key = "model.kind", .only_word = "gin",
     .doc = "The vertex itself counts 1 + eps times among its neighbours. Only with gin."},
    {.path = "model.train_eps", .type = SL_KEY_BOOL, AT(model.train_eps), .fallback = "false",
     FIXED,
     .only_key = "model.kind", .only_word = "gin",
     .doc = "Whether eps is learned. Only with gin."},
    {.path = "model.self_loops", .type = SL_KEY_BOOL, AT(model.self_loops), .fallback = "true",
     FIXED,
     .only_key = "model.kind", .only_word = "gcn",
     .doc = "Whether every vertex is its own neighbour, exactly once. Only with gcn."},
    {.path = "model.degrees", .type = SL_KEY_WORD, AT(model.degrees), FIXED,
     .words = degree_kinds, .fallback = "\"graph\"",
     .only_key = "model.kind", .only_word = SL_MODEL_WITH_DEGREES,
     .doc = "Degrees that scale sums over neighbours: of the whole graph (sampled sums are "
            "unbiased), or of the sampled block. Only with " SL_MODEL_WITH_DEGREES "."},
    {.path = "model.relations", .type = SL_KEY_WORD, AT(model.relations), FIXED,
     .words = relation_sums, .fallback = "\"sum\"",
     .only_key = "model.kind", .only_word = "rsage or rgat or rgatv2",
     .doc = "What is made of the relations that lead to a type: their sum or their mean. Only "
            "with rsage or rgat or rgatv2."},
    {.path = "model.share_weights", .type = SL_KEY_BOOL, AT(model.share_weights),
     .fallback = "false", FIXED, .only_key = "model.kind", .only_word = "rgat or rgatv2",
     .doc = "Whether a relation has one weight for both ends, which are of one width then, as of "
            "GATConv(in, out), GATv2Conv(share_weights=True). Only with rgat or rgatv2."},
    {.path = "model.edge_features", .type = SL_KEY_BOOL, AT(model.edge_features),
     .fallback = "false", FIXED, .only_key = "model.kind",
     .only_word = SL_MODEL_WITH_EDGE_FEATURES,
     .doc = "Whether edge_feat.npy (of types, edge_feat.SOURCE.NAME.TARGET.npy where there is one) "
            "adds to edges' attention, as edge_dim. Only with " SL_MODEL_WITH_EDGE_FEATURES "."},
    {.path = "model.bases", .type = SL_KEY_INTEGER, AT(model.bases), FIXED,
     .min = 0, .max = 4096, .fallback = "0", .only_key = "model.kind", .only_word = "rgcn",
     .doc = "Matrices of which each relation's weight is a learned mixture (basis decomposition); "
            "0: each relation has a weight of its own. Only with rgcn."},
    {.path = "model.blocks", .type = SL_KEY_INTEGER, AT(model.blocks), FIXED,
     .min = 0, .max = 65536, .fallback = "0", .only_key = "model.kind", .only_word = "rgcn",
     .doc = "Blocks on the diagonal of each relation's weight (block-diagonal decomposition; "
            "model.hidden is a multiple); 0: the whole matrix. Only with rgcn, not beside "
            "model.bases."},
    {.path = "model.weights", .type = SL_KEY_STRING, AT(model.weights), ONWARD, MACHINE,
     .fallback_note = "random, by seed",
     OWN,
     .doc = "A .safetensors file with the initial parameters."},

    {.path = "features", .type = SL_KEY_OBJECT,
     .doc = "What a model reads of a vertex."},
    {.path = "features.kind", .type = SL_KEY_WORD, AT(features.kind), FIXED,
     .words = feature_origins, .fallback = "\"file\"",
     OWN,
     .doc = "file: the data set's features. learned: a row of numbers for each vertex, which "
            "training changes. both: the features, and learned numbers behind them; of a graph of "
            "several types the features of types that have them, and learned rows of the others."},
    {.path = "features.dim", .type = SL_KEY_INTEGER, AT(features.dim), FIXED,
     .min = 1, .max = 65536, .fallback = "64",
     .only_key = "features.kind", .only_word = "learned or both",
     .doc = "Learned numbers of a vertex. They begin as torch's xavier_uniform_; memory a vertex: "
            "4 bytes a number, times 4 (sgd: 3). Only with learned or both."},
    {.path = "features.place", .type = SL_KEY_WORD, AT(features.place), FREE, MACHINE,
     .words = rows_places, .fallback = "\"memory\"",
     .only_key = "features.kind", .only_word = "learned or both",
     .doc = "Where learned rows lie: memory, or an unnamed file beside output, of which memory "
            "holds what is used. Only with learned or both."},

    {.path = "loss", .type = SL_KEY_OBJECT,
     .doc = "What training minimises: cross-entropy (multiclass), sigmoid cross-entropy "
            "(multilabel) or squared error (regression), by the data set's task."},
    {.path = "loss.class_weights", .type = SL_KEY_NUMBERS, AT(loss.class_weight), FIXED,
     BESIDE(loss.n_class_weights), .min = 0, .max = 1000000,
     .choices = class_weights, .choice = offsetof(struct sl_config, loss.class_weights),
     .fallback = "\"none\"",
     OWN,
     .doc = "Weight of each class in the loss (of several labels: of positives): a list, balanced "
            "(inverse of the frequency in the training set), or none."},

    {.path = "input", .type = SL_KEY_OBJECT,
     .doc = "What external trainers walk through."},
    {.path = "input.split", .type = SL_KEY_WORD, AT(input.split), FIXED,
     .words = input_splits, .fallback = "\"train\"", EXTERNAL,
     .doc = "Whose vertices are the seeds of an epoch, or with link whose pairs. Only with "
            "external."},

    {.path = "sampler", .type = SL_KEY_OBJECT,
     .doc = "How mini-batches are drawn."},
    {.path = "sampler.kind", .type = SL_KEY_WORD, AT(sampler.kind), FIXED,
     .words = sl_sampler_words, .fallback = "\"khop\"",
     .doc = "How neighbours are drawn: khop uniformly; weighted by edge_weight.npy "
            "(edges of weight 0 are left out, in evaluation too); walk by random "
            "walks (PinSAGE); labor like khop, but vertices of a hop share neighbours (LABOR), "
            "and a repeated edge counts once."},
    {.path = "sampler.fanout", .type = SL_KEY_FANOUT, AT(sampler.fanout), BESIDE(sampler.n_fanout),
     NAMED(sampler.fanout_names), FIXED,
     .min = 1, .max = 65535,
     .fallback_note = "[15, 10, 5] with 3 layers; needed with any other number",
     .doc = "Neighbours drawn for each vertex, a number for each layer, the hop next to the seeds "
            "first; -1 takes all. With walk: how many of the most visited vertices are kept. Of a "
            "graph of several types also an object: a list for each relation that it names, \"*\" "
            "for all others; 0 takes none."},
    {.path = "sampler.expand", .type = SL_KEY_WORD, AT(sampler.expand), FIXED,
     .words = expands, .fallback = "\"all\"",
     .doc = "all: each hop draws neighbours of every vertex so far anew (as DGL). new: a vertex "
            "is drawn once, in the hop after the one that found it, and keeps its neighbours in "
            "all layers (as PyTorch Geometric)."},
    {.path = "sampler.replace", .type = SL_KEY_BOOL, AT(sampler.replace), .fallback = "false",
     FIXED,
     .only_key = "sampler.kind", .only_word = "khop or weighted",
     .doc = "Whether neighbours are drawn with replacement: a vertex with neighbours gets exactly "
            "fanout edges, maybe one several times; -1 takes each once. Only with khop or "
            "weighted."},
    {.path = "sampler.edge_ids", .type = SL_KEY_BOOL, AT(sampler.edge_ids), .fallback = "false",
     FIXED,
     .only_key = "sampler.kind", .only_word = "walk", .only_not = true,
     .doc = "Whether mini-batches carry each edge's number in indices.npy, 8 bytes an edge. Not "
            "with walk."},
    {.path = "sampler.subgraph", .type = SL_KEY_WORD, AT(sampler.subgraph), FIXED,
     .words = subgraphs, .fallback = "\"directional\"", EXTERNAL,
     .doc = "Which edges a batch has: directional those drawn; induced all of the graph between "
            "its vertices; bidirectional those drawn, and back. The last two need sampler.expand "
            "new and at most 7 hops, not walk, and are made on cores. Only with external."},
    {.path = "sampler.disjoint", .type = SL_KEY_BOOL, AT(sampler.disjoint), .fallback = "false",
     FIXED, EXTERNAL,
     .doc = "Whether each seed has vertices and edges of its own, drawn as if it were a batch "
            "alone, on cores. Only with external."},
    {.path = "sampler.time", .type = SL_KEY_WORD, AT(sampler.time), FIXED,
     .words = time_rules, .fallback = "\"none\"",
     .doc = "Whether a seed's batch has no edge later than the seed, by edge_time.npy and "
            "node_time.npy; of several types in relations that have times. uniform: sampler.kind "
            "draws among the others. latest: the last fanout of them are taken. Seeds are then "
            "disjoint, drawn on cores."},
    {.path = "sampler.time_strict", .type = SL_KEY_BOOL, AT(sampler.time_strict),
     .fallback = "false", FIXED,
     .only_key = "sampler.time", .only_word = "uniform or latest",
     .doc = "Whether an edge at the very time of the seed is too late. Only with uniform or "
            "latest."},
    {.path = "sampler.batch_size", .type = SL_KEY_INTEGER, AT(sampler.batch_size), FIXED,
     .min = 1, .max = 2147483648.0, .fallback = "1024",
     .doc = "Training vertices in a mini-batch."},
    {.path = "sampler.paths", .type = SL_KEY_INTEGER, AT(sampler.paths), FIXED,
     .min = 1, .max = 1024, .fallback = "10",
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Random walks from each vertex. Only with walk."},
    {.path = "sampler.length", .type = SL_KEY_INTEGER, AT(sampler.length), FIXED,
     .min = 1, .max = 64, .fallback = "3",
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Steps of a walk, or how often it goes through its metapath. Only with walk."},
    {.path = "sampler.restart", .type = SL_KEY_NUMBER, AT(sampler.restart), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.5",
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Probability of a return to the start before each step, or before each time but the "
            "first that the walk goes through its metapath. Only with walk."},
    {.path = "sampler.metapaths", .type = SL_KEY_PATHS, AT(sampler.metapaths), FIXED,
     .only_key = "sampler.kind", .only_word = "walk",
     .doc = "Of a graph of several types, by name: the relations that walks go along, against the "
            "edges. Where the last one ends is counted. Only with walk."},

    {.path = "optimizer", .type = SL_KEY_OBJECT,
     .doc = "How gradients change the parameters."},
    {.path = "optimizer.kind", .type = SL_KEY_WORD, AT(optimizer.kind), FIXED,
     .words = optimizer_kinds, .fallback = "\"adam\"",
     OWN,
     .doc = "As in PyTorch."},
    {.path = "optimizer.lr", .type = SL_KEY_NUMBER, AT(optimizer.lr), FIXED,
     .min = 0, .above_min = true, .max = 1000, .fallback = "0.003",
     OWN,
     .doc = "Learning rate."},
    {.path = "optimizer.weight_decay", .type = SL_KEY_NUMBER, AT(optimizer.weight_decay), FIXED,
     .min = 0, .max = 1000, .fallback = "0",
     OWN,
     .doc = "L2 penalty, added to the gradient; adamw shrinks the parameters themselves."},
    {.path = "optimizer.decay_on", .type = SL_KEY_WORD, AT(optimizer.decay_on), FIXED,
     .words = decay_ons, .fallback = "\"all\"",
     OWN,
     .doc = "Which parameters weight_decay is for: all, or the first layer's (as in the GCN "
            "paper)."},
    {.path = "optimizer.clip_norm", .type = SL_KEY_NUMBER, AT(optimizer.clip_norm), FIXED,
     .min = 0, .max = 1e9, .fallback = "0",
     OWN,
     .doc = "Largest norm of an update's gradient; 0: no limit."},
    {.path = "optimizer.momentum", .type = SL_KEY_NUMBER, AT(optimizer.momentum), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0",
     .only_key = "optimizer.kind", .only_word = "sgd",
     .doc = "Share of the last step that is kept. Only with sgd."},
    {.path = "optimizer.beta1", .type = SL_KEY_NUMBER, AT(optimizer.beta1), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.9",
     .only_key = "optimizer.kind", .only_word = "sgd", .only_not = true,
     .doc = "Decay of the mean of gradients. Not with sgd."},
    {.path = "optimizer.beta2", .type = SL_KEY_NUMBER, AT(optimizer.beta2), FIXED,
     .min = 0, .max = 1, .below_max = true, .fallback = "0.999",
     .only_key = "optimizer.kind", .only_word = "sgd", .only_not = true,
     .doc = "Decay of the mean of squared gradients. Not with sgd."},
    {.path = "optimizer.eps", .type = SL_KEY_NUMBER, AT(optimizer.eps), FIXED,
     .min = 0, .above_min = true, .max = 1, .fallback = "1e-08",
     .only_key = "optimizer.kind", .only_word = "sgd", .only_not = true,
     .doc = "Added to the divisor of a step. Not with sgd."},
    {.path = "optimizer.schedule", .type = SL_KEY_WORD, AT(optimizer.schedule), FIXED,
     .words = lr_schedules, .fallback = "\"constant\"",
     OWN,
     .doc = "Learning rate over time: constant, times optimizer.gamma every "
            "optimizer.step_epochs, or half a cosine down to optimizer.min_lr."},
    {.path = "optimizer.warmup_epochs", .type = SL_KEY_NUMBER, AT(optimizer.warmup_epochs), FIXED,
     .min = 0, .max = 1000000, .fallback = "0",
     OWN,
     .doc = "Epochs (or a part of one) in which the learning rate rises from 0."},
    {.path = "optimizer.step_epochs", .type = SL_KEY_INTEGER, AT(optimizer.step_epochs), FIXED,
     .min = 1, .max = 1000000, .fallback = "10",
     .only_key = "optimizer.schedule", .only_word = "step",
     .doc = "Epochs between two steps. Only with step."},
    {.path = "optimizer.gamma", .type = SL_KEY_NUMBER, AT(optimizer.gamma), FIXED,
     .min = 0, .above_min = true, .max = 1, .fallback = "0.1",
     .only_key = "optimizer.schedule", .only_word = "step",
     .doc = "Factor of each step. Only with step."},
    {.path = "optimizer.min_lr", .type = SL_KEY_NUMBER, AT(optimizer.min_lr), FIXED,
     .min = 0, .max = 1000, .fallback = "0",
     .only_key = "optimizer.schedule", .only_word = "cosine",
     .doc = "Learning rate at the end. Only with cosine."},

    {.path = "updates", .type = SL_KEY_OBJECT,
     .doc = "When parameters change."},
    {.path = "updates.mode", .type = SL_KEY_WORD, AT(updates.mode), FIXED,
     .words = update_modes, .fallback = "\"ordered\"",
     OWN,
     .doc = "ordered adds gradients in batch order, so the number of trainers does not change the "
            "result; async applies each as it comes."},
    {.path = "updates.batches_per_update", .type = SL_KEY_INTEGER, AT(updates.batches_per_update),
     FIXED,
     .min = 1, .max = 1024, .fallback = "1",
     .only_key = "updates.mode", .only_word = "ordered",
     .doc = "Consecutive mini-batches of one update; so many trainers can work at once. Only with "
            "ordered: with async it is 1."},
    {.path = "updates.staleness", .type = SL_KEY_INTEGER, AT(updates.staleness), FIXED,
     .min = 0, .max = 1024, .fallback = "4",
     .only_key = "updates.mode", .only_word = "async",
     .doc = "How many updates old the parameters behind a gradient may be. Only with async."},
    {.path = "updates.exchange", .type = SL_KEY_WORD, AT(updates.exchange), ONWARD, MACHINE,
     .words = exchange_kinds, .fallback = "\"board\"",
     .only_key = "updates.mode", .only_word = "ordered",
     .doc = "Where gradients are summed: board in the machine's memory; nccl between GPUs, one "
            "for each trainer, no standby trainers (last bits depend on their number). Only with "
            "ordered."},

    {.path = "order", .type = SL_KEY_OBJECT,
     .doc = "Which training vertices make a mini-batch."},
    {.path = "order.kind", .type = SL_KEY_WORD, AT(order.kind), FIXED,
     .words = sl_order_words, .fallback = "\"shuffled\"", .doc = sl_order_doc},
    {.path = "order.sequences", .type = SL_KEY_INTEGER, AT(order.sequences), FIXED,
     .min = 1, .max = 1000000,
     .word = "auto", FLAG(order.sequences_auto), .fallback = "\"auto\"",
     .only_key = "order.kind", .only_of = walks,
     .doc = "Breadth-first sequences that take turns in a mini-batch; fewer share more. auto: the "
            "fewest that order.excess_error allows. Only with proximity."},
    {.path = "order.excess_error", .type = SL_KEY_NUMBER, AT(order.excess_error), FIXED,
     .min = 0, .max = 1, .fallback = "0.02",
     .only_key = "order.kind", .only_of = walks,
     .doc = "How much more than a shuffle's the label shares of mini-batches may differ from the "
            "training set's. Only with proximity."},
    {.path = "order.epochs_per_pass", .type = SL_KEY_INTEGER, AT(order.epochs_per_pass), FIXED,
     .min = 1, .max = 10000, .fallback = "1",
     .only_key = "order.kind", .only_word = "shuffled",
     .doc = "Epochs in which the training vertices are walked through once: with 20 all that goes "
            "by epochs, such as evaluations, rates and reports, is each twentieth of the way."},

    {.path = "store", .type = SL_KEY_OBJECT,
     .doc = "What of the data set is where."},
    {.path = "store.features", .type = SL_KEY_WORD, AT(store.features), FREE,
     .words = sl_features_words, .fallback = "\"auto\"", .doc = sl_features_doc},
    {.path = "store.cache", .type = SL_KEY_SIZE, AT(store.cache_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .word = "auto", .fallback = "\"auto\"",
     .doc = "Memory for rows that were read from the drive, one cache for the machine. auto: a "
            "share of what is free. Only with features on the drive."},
    {.path = "store.window", .type = SL_KEY_INTEGER, AT(store.window), FREE,
     .min = 0, .max = SL_CONFIG_MAX_WINDOW, .fallback = "16",
     .doc = "Mini-batches drawn ahead whose rows that cache keeps; 0: none."},
    {.path = "store.placement", .type = SL_KEY_WORD, AT(store.placement), FREE, MACHINE,
     .words = sl_store_placement_words, .fallback = "\"auto\"",
     .doc = "How GPUs hold features (samplers: the graph) together: solver with few copies, by "
            "their links (XGNN), cliques in groups that reach one another, one_copy each row "
            "once, alone not. auto: solver where links and buses then have less to do. Only of "
            "GPUs."},
    {.path = "store.feature_ratio", .type = SL_KEY_NUMBER, AT(store.feature_ratio), FREE, MACHINE,
     .min = 0, .above_min = true, .max = 1,
     .word = "auto", FLAG(store.feature_ratio_auto), .fallback = "\"auto\"",
     .only_key = "cache.policy", .only_of = keeps,
     .doc = "Share of the vertices whose features all GPUs together hold, at most, of a graph with "
            "types of the bytes of their features. auto: what fits. Only of GPUs, not with none."},
    {.path = "store.graph_ratio", .type = SL_KEY_NUMBER, AT(store.graph_ratio), FREE, MACHINE,
     .min = 0, .max = 1,
     .word = "auto", FLAG(store.graph_ratio_auto), .fallback = "\"auto\"",
     .doc = "Share of the edges that all sampling GPUs together hold, at most. auto: what fits. "
            "Only of GPUs."},
    {.path = "store.prefer", .type = SL_KEY_WORD, AT(store.prefer), FREE, MACHINE,
     .words = sl_store_preference_words, .fallback = "\"auto\"",
     .doc = "Memory of a GPU that samples and trains: graph leaves features a fifth, features "
            "leaves the graph three tenths. auto: least load of links and buses."},

    {.path = "cache", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "Which features a trainer keeps in its device's memory."},
    {.path = "cache.policy", .type = SL_KEY_WORD, AT(cache.policy), FREE,
     .words = sl_cache_words, .fallback = "\"auto\"", .doc = sl_cache_doc},
    {.path = "cache.presample_epochs", .type = SL_KEY_INTEGER, AT(cache.presample_epochs), FREE,
     .min = 1, .max = 1000000, .fallback = "1",
     .only_key = "cache.policy", .only_of = presamples,
     .doc = "Epochs whose samples are counted. Only with presc."},
    {.path = "cache.ratio", .type = SL_KEY_NUMBER, AT(cache.ratio), FREE,
     .min = 0, .above_min = true, .max = 1,
     .word = "auto", FLAG(cache.ratio_auto), .fallback = "\"auto\"",
     .only_key = "cache.policy", .only_of = keeps,
     .doc = "Share of the vertices whose features a trainer keeps, of a graph with types of the "
            "bytes of their features. auto: what a measured step leaves of the device's memory. "
            "Not with none."},
    {.path = "cache.report_optimal", .type = SL_KEY_BOOL, AT(cache.report_optimal), FREE,
     .fallback = "false",
     .only_key = "cache.policy", .only_of = keeps,
     .doc = "Whether the report has the best possible hit rate at this size; samplers then count "
            "every epoch. Not with none."},

    {.path = "devices", .type = SL_KEY_LIST, AT(devices), BESIDE(n_devices), ONWARD, MACHINE,
     .min = 1, .max = SL_CONFIG_MAX_DEVICES, ENTRY(sl_device_config), .entries = "devices",
     .entry_eg = "{\"kind\": \"cpu\", \"cores\": \"0\"}",
     .word = "auto", FLAG(devices_auto), .fallback = "\"auto\"",
     .also_word = "cpu", .also_flag = offsetof(struct sl_config, devices_cpu),
     .doc = "What samplers (the first devices) and trainers (the last) run on; CPU devices stand "
            "before GPUs. auto: every GPU; without any, as cpu: all physical cores."},
    {.path = "devices[].kind", .type = SL_KEY_WORD, .required = true, ONWARD,
     FIELD(sl_device_config, kind), .words = device_kinds,
     .doc = "Cores, or a GPU (cuda)."},
    {.path = "devices[].index", .type = SL_KEY_INTEGER, FIELD(sl_device_config, index), FREE,
     .min = 0, .max = SL_PLUGIN_DEVICES_MAX - 1,
     .only_key = "devices[].kind", .only_word = "cuda",
     .needed_key = "devices[].kind", .needed_word = "cuda",
     .doc = "Which GPU, within CUDA_VISIBLE_DEVICES ('sluice doctor' lists them). Only with cuda, "
            "which needs it."},
    {.path = "devices[].cores", .type = SL_KEY_CORES, FREE,
     FIELD(sl_device_config, cores), .companion = offsetof(struct sl_device_config, n_cores),
     .needed_key = "devices[].kind", .needed_word = "cpu",
     .fallback_note = "with cuda those near the GPU; with cpu needed",
     .doc = "Cores of the device; of a GPU, the host cores of its workers."},
    {.path = "devices[].memory", .type = SL_KEY_SIZE, FIELD(sl_device_config, memory_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .fallback_note = "with cpu no limit; with cuda an equal part of what is free",
     .doc = "Memory budget; of a GPU, of its own memory."},

    {.path = "allocation", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "How devices are split between the roles."},
    {.path = "allocation.samplers", .type = SL_KEY_INTEGER, AT(allocation.samplers), FREE,
     .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .word = "auto", FLAG(allocation.samplers_auto), .fallback = "\"auto\"",
     .doc = "Devices that sample, the first ones. auto: by measured times; with cores and GPUs in "
            "one list, the cores; with external a quarter of the cores, or all other devices."},
    {.path = "allocation.trainers", .type = SL_KEY_INTEGER, AT(allocation.trainers), FREE,
     .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .word = "auto", FLAG(allocation.trainers_auto), .fallback = "\"auto\"",
     .doc = "Devices that train, the last ones. auto: by measured times; none where one device "
            "does both. With external: seats for trainers, auto 1."},
    {.path = "allocation.switching", .type = SL_KEY_BOOL, AT(allocation.switching), FREE,
     .fallback = "true", .only_key = "allocation.cores", .only_word = "fixed",
     .doc = "Whether standby trainers on samplers' devices train where that helps; not with nccl. "
            "Only with fixed cores."},

    {.path = "allocation.cores", .type = SL_KEY_WORD, AT(allocation.cores), FREE,
     .words = core_policies,
     .fallback_note = "pool with auto or cpu devices, without GPUs and allocation.switching; else "
                      "fixed",
     OWN,
     .doc = "pool: measured times share all cores out, without standby trainers. fixed: a worker "
            "runs on its device's cores (of auto and cpu: one)."},
    {.path = "allocation.balance", .type = SL_KEY_WORD, AT(allocation.balance), FIXED,
     .words = balances, .fallback = "\"fixed\"", EXTERNAL,
     .doc = "Which external trainer gets which mini-batch. fixed: batch k is rank k mod trainers', "
            "whatever dies. dynamic: whoever comes first gets the next. Only with external."},

    {.path = "nodes", .type = SL_KEY_INTEGER, AT(nodes), FREE, MACHINE,
     .min = 1, .max = SL_CONFIG_MAX_NODES,
     .word = "auto", FLAG(nodes_auto), .fallback = "1",
     .doc = "Nodes that run the job together, started by mpirun or srun. auto: as many as those "
            "start; 1 without them. The number changes no bit of the result. With external each "
            "lends its own mini-batches."},

    {.path = "schedule", .type = SL_KEY_LIST, AT(schedule), BESIDE(n_schedule), FREE, MACHINE,
     .min = 0, .max = SL_CONFIG_MAX_SCHEDULE, ENTRY(sl_schedule_config), .entries = "entries",
     .entry_eg = "{\"epoch\": 3, \"samplers\": 1, \"trainers\": 3}",
     .fallback = "[]",
     OWN,
     .doc = "Changes of the role split while the job runs, in ascending order."},
    {.path = "schedule[].epoch", .type = SL_KEY_INTEGER, .required = true, FREE,
     FIELD(sl_schedule_config, epoch), .min = 0, .max = SL_CONFIG_MAX_EPOCHS - 1,
     .doc = "Epoch of the change, from 0."},
    {.path = "schedule[].batch", .type = SL_KEY_INTEGER, FIELD(sl_schedule_config, batch), FREE,
     .min = 0, .max = 4294967295.0, .fallback = "0",
     .doc = "Mini-batches of that epoch before the change."},
    {.path = "schedule[].samplers", .type = SL_KEY_INTEGER, .required = true, FREE,
     FIELD(sl_schedule_config, samplers), .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .doc = "Samplers from then on."},
    {.path = "schedule[].trainers", .type = SL_KEY_INTEGER, .required = true, FREE,
     FIELD(sl_schedule_config, trainers), .min = 1, .max = SL_CONFIG_MAX_WORKERS,
     .doc = "Trainers from then on."},

    {.path = "throttle", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "Stages made slow by sleeping, for tests of scheduling."},
    {.path = "throttle.sample", .type = SL_KEY_NUMBER, AT(throttle.sample), FREE,
     .min = 0, .max = 10, .fallback = "0",
     .doc = "Seconds that sampling a mini-batch takes at least, for tests."},
    {.path = "throttle.train", .type = SL_KEY_NUMBER, AT(throttle.train), FREE,
     .min = 0, .max = 10, .fallback = "0",
     OWN,
     .doc = "The same of a trainer."},
    {.path = "throttle.standby", .type = SL_KEY_NUMBER, AT(throttle.standby), FREE,
     .min = 0, .max = 10, .fallback = "0",
     OWN,
     .doc = "The same of a standby trainer."},

    {.path = "arena", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "The shared memory that holds mini-batches on their way."},
    {.path = "arena.memory", .type = SL_KEY_SIZE, AT(arena_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .word = "auto", .fallback = "\"auto\"",
     .doc = "Shared memory for mini-batches. auto: a share of what is free."},
    {.path = "arena.activations", .type = SL_KEY_WORD, AT(activations), FREE,
     .words = activation_places, .fallback = "\"auto\"",
     OWN,
     .doc = "Where a full evaluation keeps hidden activations: memory, an unnamed file beside "
            "output, or the file where memory is short (auto)."},

    {.path = "epochs", .type = SL_KEY_INTEGER, AT(epochs), ONWARD,
     .min = 1, .max = SL_CONFIG_MAX_EPOCHS,
     .word = "auto", FLAG(epochs_auto), .fallback = "\"auto\"",
     .doc = "Passes over the training vertices. auto: enough for 500 updates, but 10 to 200, or "
            "what other keys need; with external until the job is stopped."},
    {.path = "seed", .type = SL_KEY_INTEGER, AT(seed), FIXED,
     .min = 0, .max = 9007199254740991.0, .fallback = "0", // 2^53 - 1: exact in every JSON reader
     .doc = "Seed of all random numbers."},
    {.path = "precision", .type = SL_KEY_WORD, AT(precision), FIXED,
     .words = sl_precision_words, .fallback = "\"auto\"",
     OWN,
     .doc = "Type of factors in matrix products; sums and parameters are fp32. auto: tf32 where "
            "only GPUs train, else fp32; cores compute tf32 as fp32."},
    {.path = "stall_seconds", .type = SL_KEY_INTEGER, AT(stall_seconds), FREE,
     .min = 0, .max = 1000000, .fallback = "1800",
     .doc = "A worker that stands still for so long is killed and replaced; at least 12 s, 0: "
            "never."},
    {.path = "memory", .type = SL_KEY_SIZE, AT(memory_bytes), FREE,
     .min = SIZE_MIN_BYTES, .max = SIZE_MAX_BYTES,
     .fallback_note = "what the machine has",
     .doc = "Most memory of all processes together, without pages of files. A job that needs more "
            "is refused before it trains."},
    {.path = "digest", .type = SL_KEY_BOOL, AT(digest), FIXED,
     .fallback = "false",
     .doc = "Whether the report has samples_digest, a hash of all blocks; costs a few percent."},

    {.path = "evaluate", .type = SL_KEY_OBJECT,
     .doc = "Accuracy on the validation and test vertices."},
    {.path = "evaluate.every", .type = SL_KEY_NUMBER, AT(evaluate.every), ONWARD,
     .min = 0, .max = 1000000, .fallback = "1",
     OWN,
     .doc = "Epochs between evaluations; 0: only at the end. A fraction 1/n, such as 0.05, divides "
            "each epoch into n: order.epochs_per_pass n, and n times as many epochs."},
    {.path = "evaluate.fanout", .type = SL_KEY_FANOUT, AT(evaluate.fanout), FIXED,
     BESIDE(evaluate.n_fanout), NAMED(evaluate.fanout_names), .min = 1, .max = 65535,
     .word = "full", FLAG(evaluate.full), .fallback = "\"full\"",
     OWN,
     .doc = "full: layer by layer over all neighbours; a list or an object samples as "
            "sampler.fanout."},
    {.path = "evaluate.batch_size", .type = SL_KEY_INTEGER, AT(evaluate.batch_size), FIXED,
     .min = 1, .max = 2147483648.0,
     .fallback_note = "sampler.batch_size",
     OWN,
     .doc = "Vertices in a mini-batch of a sampled evaluation."},
    {.path = "evaluate.metric", .type = SL_KEY_WORD, AT(evaluate.metric), FIXED,
     .words = sl_metric_words, .fallback = "\"auto\"",
     OWN,
     .doc = "Decides which epoch is best. auto: accuracy; roc_auc where one of two classes has "
            "less than a third; micro_f1 with several labels; loss for numbers; hits for links, "
            "mrr where each has its own negatives."},
    {.path = "evaluate.k", .type = SL_KEY_INTEGER, AT(evaluate.k), FIXED,
     .min = 1, .max = 1000000, .fallback = "50",
     OWN_LINK,
     .doc = "K of Hits@K. Only with link."},
    {.path = "evaluate.negatives", .type = SL_KEY_INTEGER, AT(evaluate.negatives), FIXED,
     .min = 1, .max = 4294967295.0,
     .word = "auto", .fallback = "\"auto\"",
     OWN_LINK,
     .doc = "Pairs without an edge, drawn once, that validation and test edges are compared with "
            "where the data set has no negatives of its own. auto: as many as those. Only with "
            "link."},
    {.path = "evaluate.val_edges_as_input", .type = SL_KEY_BOOL, AT(evaluate.val_edges_as_input),
     FIXED, .fallback = "false",
     OWN_LINK,
     .doc = "Whether the validation edges are in the graph that test edges are scored by, and "
            "their reverses, where each edge of the graph has its own. Only with link."},
    {.path = "evaluate.test", .type = SL_KEY_WORD, AT(evaluate.test), FREE,
     .words = tests, .fallback = "\"final\"",
     OWN,
     .doc = "When the test set is evaluated: once, of the best epoch (final), beside each "
            "validation, or never."},
    {.path = "evaluate.overlap", .type = SL_KEY_BOOL, AT(evaluate.overlap), FREE,
     .fallback = "true",
     OWN,
     .doc = "Whether waiting trainers may evaluate an epoch during the next one (full evaluation, "
            "fixed CPU cores, no early stopping)."},

    {.path = "early_stopping", .type = SL_KEY_OBJECT,
     .doc = "When training ends before its last epoch."},
    {.path = "early_stopping.patience", .type = SL_KEY_INTEGER, AT(early_stopping.patience), ONWARD,
     .min = 0, .max = 1000000,
     .word = "auto", FLAG(early_stopping.patience_auto), .fallback = "\"auto\"",
     OWN,
     .doc = "Evaluations without a better metric that end training; 0: never. auto: half of the "
            "epochs, or 0 where epochs is given or the least."},
    {.path = "early_stopping.min_delta", .type = SL_KEY_NUMBER, AT(early_stopping.min_delta),
     ONWARD,
     .min = 0, .max = 1000000, .fallback = "0",
     OWN,
     .doc = "How much better counts as better."},
    {.path = "early_stopping.target", .type = SL_KEY_NUMBER, AT(early_stopping.target), ONWARD,
     .min = 0, .max = 1000000, .fallback = "0",
     OWN,
     .doc = "Value of the metric that ends training once a validation has reached it; 0: none."},

    {.path = "checkpoint", .type = SL_KEY_OBJECT, MACHINE,
     .doc = "What a job saves to go on from after a stop or a crash. With both intervals 0: "
            "nothing."},
    {.path = "checkpoint.every_updates", .type = SL_KEY_INTEGER, AT(checkpoint.every_updates), FREE,
     .min = 0, .max = 9007199254740991.0, .fallback = "0",
     OWN,
     .doc = "Updates between checkpoints; 0: by checkpoint.every_seconds alone."},
    {.path = "checkpoint.every_seconds", .type = SL_KEY_NUMBER, AT(checkpoint.every_seconds), FREE,
     .min = 0, .max = 1e9, .fallback = "300",
     OWN,
     .doc = "Seconds between checkpoints; 0: by checkpoint.every_updates alone. Both 0: none."},
    {.path = "checkpoint.keep", .type = SL_KEY_INTEGER, AT(checkpoint.keep), FREE,
     .min = 1, .max = 1000, .fallback = "2",
     OWN,
     .doc = "How many of the newest checkpoints are kept."},

    {.path = "resume", .type = SL_KEY_WORD, AT(resume), FREE,
     .words = resume_policies, .fallback = "\"never\"",
     OWN,
     .doc = "What a restarted daemon does with an interrupted job: auto goes on from the newest "
            "checkpoint, never waits for 'sluice resume'."},
    {.path = "output", .type = SL_KEY_STRING, AT(output), FREE,
     .fallback_note = "runs/ and the job's name",
     .doc = "Run directory; an earlier run is never overwritten."},
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
