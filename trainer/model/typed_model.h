/*
 * typed_model.h - a model of a graph of several types: layers over its relations (typed_layer.h)
 * and a linear layer behind them.
 *
 * All layers map to the hidden width. Behind each but the last one every type has norm, activation
 * and dropout as the layers of a plain model have (layer_tail.h), a norm of its own for each type;
 * the last one's rows of the seeds go through the linear layer (`lin`) as they are. So has it the
 * reference of MLPerf's benchmark on IGBH.
 *
 * Layer l of L reads the runs of hop L-1-l, and gives rows to the vertices of a type that are known
 * before that hop: of the last layer these are the seeds. They are of type 0; in a job of links of
 * the source and target types of its relation, and `lin` maps both.
 *
 * A type without features has learned rows where the job has such (learned_rows.h), as an Embedding
 * of that type; else rows of the one number 1, which no dropout masks, as
 * torch_geometric.transforms.Constant gives it.
 *
 * Names: convs.L.convs.<source___name___target>.*, or convs.L.* of a kind whose tensors are the
 * layer's; norms.L.TYPE.*; lin_dict.TYPE.* where types enter by a linear layer each; lin.*.
 *
 * Dropout keys are those of a plain model's layers (model.h) under the seed of the type, for
 * attention of the relation (sl_rng_relation_seed): those of type 0 and relation 0 are the job's.
 */
#ifndef SL_TRAINER_MODEL_TYPED_MODEL_H
#define SL_TRAINER_MODEL_TYPED_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/arena/heartbeat.h"
#include "config/config.h"
#include "trainer/model/layer_tail.h"
#include "trainer/model/learned_rows.h"
#include "trainer/model/typed_layer.h"

struct sl_typed_model {
    const struct sl_typed *typed;
    struct sl_incoming incoming;
    uint32_t *d_feat, *d_hidden; // (n_types) widths of the input's and of hidden rows
    bool links;                  // the data set's linked relation is learned
    // (n_types) relations between a type and the seeds at least; more than n_layers: none of its
    // vertices is ever needed. A layer l gives rows to those with hops < n_layers - l.
    uint32_t *hops;
    uint32_t n_layers, hidden;
    const struct sl_layer_env *env;
    const struct sl_layer_options *options;
    const struct sl_learned_rows *learned; // of types without features, type after type
    uint64_t seed;
    float dropout, input_dropout;
    struct sl_typed_layer layer[SL_CONFIG_MAX_LAYERS];
    uint32_t *place;                // of the layers (typed_layer.h)
    struct sl_layer_tail *tail;     // (n_layers, n_types)
    const struct sl_tensor **input; // (n_types) weight and bias of lin_dict, where it has one
    // (n_types) of sl_typed_model_take_table(), or NULL; rows NULL for a type without features
    struct sl_layer_table *table;
    // Of the last forward:
    struct sl_dropout input_mask; // of type 0
    struct sl_typed_tape tape[SL_CONFIG_MAX_LAYERS];
    struct sl_layer_tail_tape *tail_tape; // (n_layers, n_types)
    float **features;                     // (n_types)
    const struct sl_layer_table *far;     // (n_types) of the first layer's tape
    const float *rows;                    // features as they came, those of edges among them
    const uint64_t *edges_at;             // (n_runs) where they are (typed_block.h), in the notes
    float **last;                         // (n_types) rows that the last layer gave, or NULL
};

// Whether the kind is one of graphs of several types.
bool sl_typed_model_is(enum sl_model_kind kind);

// Whether the model's results are of vertices of this type: those that may be seeds.
bool sl_typed_model_ends_in(const struct sl_typed_model *m, uint32_t type);

// A model of this job. The graph, `options`, `env` and `learned` are borrowed. SL_EINVAL and
// SL_EUNSUPPORTED name the key or the type, SL_ENOMEM; what *out is then is destroyed by the
// caller, too.
int sl_typed_model_create(const struct sl_config *config, const struct sl_typed *typed,
                          const struct sl_layer_options *options, const struct sl_layer_env *env,
                          const struct sl_learned_rows *learned, struct sl_typed_model **out);
void sl_typed_model_destroy(struct sl_typed_model *m); // NULL is fine

// How many tensors it has but for `lin`. Describes them, in the order of the file, from *n_params
// floats of the vector on, to which theirs are added; they must stay there.
uint32_t sl_typed_model_count(const struct sl_typed_model *m);
void sl_typed_model_describe(struct sl_typed_model *m, struct sl_tensor *tensors,
                             uint64_t *n_params);

// Learned rows that the block's vertices have, in the order of their gradient: ids (n_input), and
// how many they are.
uint32_t sl_typed_model_learned_ids(const struct sl_typed_model *m, struct sl_block_view block,
                                    uint32_t *ids);

// As sl_model_take_table().
bool sl_typed_model_take_table(struct sl_typed_model *m);

// Features as of trainer/feed/typed_block.h: SL_TYPED_F32, or `near` with m->table SL_TYPED_NEAR.
struct sl_typed_input {
    float *x;
    bool near;
};

// *h (at least n_seeds, hidden): rows of the seeds, type after type. Features of vertices are
// masked in place. A block of fewer hops than layers goes through as many of the first ones. Rows
// of the last one are at m->last until the pools are reset. SL_EABORTED when the pulse (NULL: none)
// says to leave half way.
int sl_typed_model_forward(struct sl_typed_model *m, const float *params,
                           struct sl_block_view block, struct sl_typed_input in, bool training,
                           const struct sl_heartbeat *pulse, float **h);
// One layer outside training, of a block of one hop; its rows are at m->last. x: as above for layer
// 0, else the rows (n_input, hidden) that the layer before gave to the block's vertices, and behind
// them features of edges, as there.
int sl_typed_model_layer(struct sl_typed_model *m, const float *params, struct sl_block_view block,
                         uint32_t layer, float *x);
// gradient += for dh, that of h, which is overwritten.
int sl_typed_model_backward(struct sl_typed_model *m, const float *params, float *dh,
                            const struct sl_heartbeat *pulse, float *gradient);

#endif
