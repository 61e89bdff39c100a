/*
 * model.h - a stack of layers with its parameter layout, forward, backward and the memory of a
 * mini-batch.
 *
 * A model is PyTorch Geometric's BasicGNN: layers (layer.h), what surrounds each of them
 * (layer_tail.h), and where the job asks for it jumping knowledge and a linear layer behind it
 * (jumping.h). Without jumping knowledge the last layer maps to the outputs and nothing but its
 * bias follows; with it every layer maps to the hidden width and is surrounded alike. Tensors lie
 * in the order of the state_dict: those of all layers, of all norms, of the linear layer. In a job
 * of links the outputs are embeddings, and a decoder with tensors behind all others makes scores of
 * pairs of them (decoder.h).
 *
 * A model owns no parameters: they are the flat vector of a version in the parameter store, and the
 * gradient is a slot there. On a CPU device both are read and written where they lie, on a GPU they
 * are copies (parameters.h). What it owns is a pool of the device's memory that holds the
 * activations of one mini-batch, and one of the process's own for its notes; both grow to the
 * largest batch. All pointers to arrays that its functions take or give are the device's, and its
 * operations may still be running when they return.
 *
 * On a GPU that multiplies in bf16 the outputs of hidden layers are bf16 in the memory of a batch,
 * rounded when they are written, in rows of whole 16 bytes. Products would have rounded them
 * anyway; sums over neighbours, their maximum and the activation's derivative see the rounded
 * values then. Kinds that need f32 (reads_f32), and jumping knowledge's maximum, find it beside the
 * rounded rows. Layer-wise inference keeps f32.
 *
 * Dropout keys: the input's dropout is layer 0 of the Philox stream, the one after hidden layer l
 * is layer l + 1, a layer's own (attention) is layer SL_LAYER_OWN_DROPOUT + l; epoch and batch come
 * from the block. A mask thus depends on what it is for and never on which trainer computes it.
 */
#ifndef SL_TRAINER_MODEL_MODEL_H
#define SL_TRAINER_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/heartbeat.h"
#include "common/arena/block.h"
#include "common/data/link_items.h"
#include "config/config.h"
#include "trainer/model/decoder.h"
#include "trainer/model/jumping.h"
#include "trainer/model/source_row_cache.h"
#include "trainer/model/layer.h"
#include "trainer/model/learned_rows.h"
#include "trainer/model/needed_rows.h"
#include "trainer/model/neighbours.h"
#include "trainer/model/objective.h"
#include "trainer/model/resident.h"
#include "trainer/model/rounded_weights.h"
#include "trainer/model/layer_tail.h"
#include "trainer/model/typed_model.h"

// Another graph of the data set's vertices than the model's own, for inference.
struct sl_infer_graph {
    const struct sl_dataset *dataset;
    const struct sl_self_loops *self_loops; // of it; NULL: it has none
    struct sl_neighbours *neighbours;       // by random walks on it; NULL: all neighbours
};

struct sl_model {
    uint32_t n_layers;
    struct sl_layer layer[SL_CONFIG_MAX_LAYERS];
    struct sl_layer_tail around[SL_CONFIG_MAX_LAYERS];
    struct sl_typed_model
        *typed;                // of a graph of several types, owned; `layer`, `around` are unused
    struct sl_jumping jumping; // of types: LAST, without the activation before it
    struct sl_decoder decoder; // of links
    uint32_t n_outputs;
    uint32_t n_tensors;
    struct sl_tensor *tensor; // (n_tensors) order of the file; owned
    uint64_t n_params;

    float dropout, input_dropout;
    bool half;                   // features of batches are f16 (_take_half), or bf16 (_take_table)
    struct sl_layer_table table; // of sl_model_take_table(), or rows NULL
    struct sl_learned_rows learned;
    uint64_t seed;
    struct sl_layer_options options;
    struct sl_layer_env env;
    struct sl_rounded_weights rounded; // of the version that sl_parameters_take() has brought last
    struct sl_objective placed;        // the objective, its class weights on the device
    const struct sl_objective *objective; // == &placed
    // For inference; set by the caller.
    const struct sl_self_loops *self_loops; // of the graph; NULL: it has none
    struct sl_neighbours *neighbours;       // by random walks (neighbours.h); NULL: all neighbours
    const struct sl_infer_graph *wider;     // with the validation edges; NULL: no phase asks for it
    const struct sl_heartbeat *pulse;       // asked between layers whether to leave; NULL for none
    const struct sl_link_sets *links;       // the pairs of a job of links
    struct sl_row_source edges;             // of features of a plain graph's edges, for inference
    struct sl_row_source *features; // where they come from; NULL: from where they are mapped
    struct sl_typed_pieces *pieces; // of types: how its layers are applied (typed_pieces.h)

    struct sl_mempool pool;                     // device memory
    struct sl_mempool scratch;                  // likewise, emptied by layers (layer.h)
    struct sl_mempool notes;                    // the process's own; reset together
    struct sl_mempool scoring;                  // device memory of sl_model_score()
    struct sl_resident resident;                // of inference
    struct sl_source_row_cache kept, kept_sums; // likewise
    // Of a job's evaluations: those of its epochs and the final test want other rows. Each is found
    // when it is first needed.
    struct sl_needed_rows needed[2];
    uint32_t *cell_ids; // room for the needed rows of one cell
    uint32_t cell_rows;
    // Of the last forward.
    struct sl_dropout input_mask;        // training with input_dropout
    const float *edge_rows[SL_MAX_HOPS]; // features of each hop's edges
    struct sl_layer_tape tape[SL_CONFIG_MAX_LAYERS];
    struct sl_layer_tail_tape around_tape[SL_CONFIG_MAX_LAYERS];
    struct sl_jumping_tape jumping_tape;
};

// Layers and tensors for this job, with the objective's outputs; feat_dim is the file's, to which
// learned columns are added where the job has them. `typed` is the graph's: types, each with its
// own width, or features of its edges; NULL: it has neither. SL_EUNSUPPORTED for a kind that is not
// in the table, SL_EINVAL. The configuration is not kept, the objective and, with types, `typed`
// are. The struct must not move afterwards. sl_model_fini() is due whatever is returned.
int sl_model_init(struct sl_model *model, const struct sl_config *config, uint32_t feat_dim,
                  const struct sl_typed *typed, const struct sl_objective *objective,
                  const struct sl_device *device, const struct sl_kernels *kernels);
void sl_model_fini(struct sl_model *model); // safe on a zeroed struct

// The most memory of the device that a batch has taken for its activations.
uint64_t sl_model_peak_bytes(const struct sl_model *model);

// Floats that layer-wise inference keeps of each vertex for what comes behind a layer: of the last
// one the outputs.
uint32_t sl_model_kept_width(const struct sl_model *model, uint32_t layer);
// The most of them, of the last layer only of links; 0 where it keeps none.
uint32_t sl_model_infer_width(const struct sl_model *model);

// Of a plain graph, floats of an edge with features that the layer has at most: these, or a row of
// all heads; 0 where none are read.
uint32_t sl_model_edge_floats(const struct sl_model *model, uint32_t layer);

// True when degrees are counted without the graph's own self-loops: inference then needs
// model->self_loops; with its out-degrees too where the second is true.
bool sl_model_needs_self_loops(const struct sl_model *model);
bool sl_model_needs_out_degrees(const struct sl_model *model);

// Looks up what layer-wise inference of this model needs of the graph beside its edges, in a pass
// over them: the caller's `loops` and `neighbours` (zeroed, and released by the caller whatever is
// returned) are filled as needed, and the model points to them. The data set must outlive it; of a
// job that samples by weight it has no edges of weight 0 from then on. Nothing is done of types.
int sl_model_prepare_inference(struct sl_model *model, const struct sl_config *config,
                               struct sl_dataset *ds, int threads, struct sl_self_loops *loops,
                               struct sl_neighbours *neighbours);
// The same of another graph, to which *out points then; the model's own stays.
int sl_model_prepare_graph(const struct sl_model *model, const struct sl_config *config,
                           const struct sl_dataset *ds, int threads, struct sl_self_loops *loops,
                           struct sl_neighbours *neighbours, struct sl_infer_graph *out);

// Whether layers leave out a hop's edges from a row to itself: they wait for nothing then where the
// block's loops have been counted (struct sl_block_view).
bool sl_model_drops_loops(const struct sl_model *model);

// Whether the input is features of the file and learned rows beside one another.
static inline bool sl_model_joins(const struct sl_model *model)
{
    return model->learned.dim > 0 && model->learned.from > 0;
}

// Whether training leaves the features of a batch as they are.
bool sl_model_keeps_features(const struct sl_model *model);

// Whether features of batches stay f16 as the data set has them, from then on: on a GPU, where the
// first layer reads them so. Bits are those of rows that were widened first.
bool sl_model_take_half(struct sl_model *model, const struct sl_dataset *ds);

// Whether the first layer reads the rows of its sources in the data set's files, which must stay
// mapped from then on: on cores, where sums alone read them. Batches then bring the rows of its
// destinations. Bits are the same.
bool sl_model_take_table(struct sl_model *model, const struct sl_dataset *ds);

// The shape that all blocks of the job have.
struct sl_block_shape sl_model_block_shape(const struct sl_model *model);

/*
 * Outputs (n_seeds, n_outputs) of a block, in the pool, valid until the next call that resets it.
 * x (n_input, feat_dim) are the features of its input nodes, f32 or with model->half f16; with
 * model->table those of the first layer's destinations (n_nodes[n_hops - 1]), but of types with
 * sl_model_train() and sl_model_evaluate() alone. Training masks them in place, applies dropout and
 * takes the batch's own statistics in batch norms. Learned rows are read at model->learned.
 * SL_EABORTED when the pulse says to leave half way.
 */
int sl_model_forward(struct sl_model *model, const float *params, struct sl_block_view block,
                     void *x, bool training, float **outputs);

// Of a model of several types: the rows (hidden) that it gives to vertices of a type, outside
// training, from layer block.n_hops - 1 and what follows it. x and the pool likewise.
int sl_model_hidden(struct sl_model *model, const float *params, struct sl_block_view block,
                    void *x, uint32_t type, const float **rows);
// The same of one layer and a block of one hop, with x as of sl_typed_model_layer(); with `outputs`
// (n_seeds, n_outputs) what the last layer's rows give.
int sl_model_layer(struct sl_model *model, const float *params, struct sl_block_view block,
                   uint32_t layer, float *x, uint32_t type, bool outputs, const float **rows);

// The learned rows that a batch's gradient is of, in its order: ids (n_input); how many there are.
uint32_t sl_model_learned_ids(const struct sl_model *model, struct sl_block_view block,
                              uint32_t *ids);

// Forward, loss (of a block with pairs that of their scores) and backward: gradient (n_params,
// assigned; of learned rows likewise) of the summed loss. In the places of running statistics it
// has the batch's own (norm.h). On a GPU both are there after the next sync() (device.h): a *result
// in pinned memory is not waited for.
int sl_model_train(struct sl_model *model, const float *params, struct sl_block_view block, void *x,
                   float *gradient, struct sl_loss_result *result);

// Forward outside training, and loss. *outputs (n_seeds, n_outputs) as of sl_model_forward(); NULL
// where they are not wanted. Of a block with pairs they are the scores (n_pairs).
int sl_model_evaluate(struct sl_model *model, const float *params, struct sl_block_view block,
                      void *x, struct sl_loss_result *result, const float **outputs);

/*
 * Of a job of links: scores (n) of pairs (n, 2) of rows of embeddings (rows, n_outputs), all in the
 * device's memory. *result (NULL: not wanted): the sigmoid cross-entropy of the first n_positive of
 * them against the others, whatever the job's loss is. The pool of a batch stays as it is; memory
 * is bounded by rows, not by n.
 */
int sl_model_score(struct sl_model *model, const float *params, const float *embeddings,
                   uint64_t rows, const uint32_t *pairs, uint64_t n, float *scores,
                   struct sl_loss_result *result, uint64_t n_positive);

#endif
