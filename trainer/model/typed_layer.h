/*
 * typed_layer.h - a layer over a graph of several types (common/data/typed.h): convolutions of its
 * relations, and what is added up of them for each type of vertices.
 *
 * For every type t the layer maps the rows of its vertices x[t] (n_src[t], d_in[t]) to rows
 * y[t] (n_dst[t], d_out) of the first n_dst[t] of them, through the runs of its hop
 * (common/arena/block.h). A type of which nothing is needed has no rows, and costs nothing. One
 * kind is one file (typed_*.c) that fills a struct sl_typed_kind.
 *
 * TENSORS are those of torch_geometric's class. Of a HeteroConv each relation has its own; a sum
 * over the relations that lead to a type then often is one product with the sum of their weights,
 * whose gradient is each one's. With model.relations "mean" all that a relation adds is divided by
 * the number of those that lead to its type, with edges or without.
 */
#ifndef SL_TRAINER_MODEL_TYPED_LAYER_H
#define SL_TRAINER_MODEL_TYPED_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/typed.h"
#include "trainer/model/layer.h"

// The relations that lead to type t: relation[first[t]] to relation[first[t + 1] - 1], ascending.
struct sl_incoming {
    uint32_t *first;    // (n_types + 1), owned
    uint32_t *relation; // (n_relations), owned
};

struct sl_typed_layer {
    const struct sl_typed_kind *kind;
    uint32_t index; // within the model
    const struct sl_typed *typed;
    const struct sl_incoming *incoming;
    const uint32_t *d_in; // (n_types)
    uint32_t d_out;
    const struct sl_layer_options *options;
    const struct sl_tensor *tensor; // in the order of describe()
    // (n_relations, per_relation) where each tensor of a relation is in it, n_placed of them all
    const uint32_t *place;
    uint32_t n_placed;
};

// A relation's edges in the layer's hop, and what forward leaves of it for backward.
struct sl_typed_run {
    uint32_t relation;
    struct sl_csr_view csr;
    const float *edges;   // (n_edges, feat_dim of the relation) features; NULL: it has none
    const float *weights; // (n_edges) how much each neighbour counts, or NULL: all the same
    float *row_scale;     // (n_dst) of the mean over a row's neighbours
    float *aggregated;    // (n_dst, d_in of the source type) the means
};

// All but `dropout` is an array by type. Valid until the pools are reset.
struct sl_typed_tape {
    uint32_t n_runs;
    struct sl_typed_run *run; // by relation
    uint32_t *n_dst, *n_src;
    float **x; // NULL without rows, as y
    // Of kinds that say reads_table, or NULL: where the sources of a type lie; x has the first
    // n_dst rows then. With rows NULL x has all.
    const struct sl_layer_table *table;
    float **y;                           // out, without the bias or with what `after` offered
    struct sl_layer_epilogue *after;     // offers, where there are rows
    struct sl_bias_act_gradient *before; // of backward, likewise
    struct sl_dropout dropout;           // keys of a layer's own masks, of relation 0
    bool training;                       // backward follows
    void *own;                           // what the kind alone knows, in the notes
};

struct sl_typed_kind {
    const char *name;
    // Tensors of each relation, one relation after the other; 0: they are the layer's.
    uint32_t per_relation;
    // Whether a relation has its tensor k; NULL: each has all.
    bool (*has)(const struct sl_typed_layer *layer, uint32_t relation, uint32_t k);
    // Which of a relation's is the bias (d_out) that is added last; a layer's is its last one.
    // SL_LAYER_NO_BIAS: none.
    uint32_t bias;
    bool one_width;   // a linear layer for each type makes rows of d_out numbers of features first
    bool updates_all; // a type that no relation leads to gets a row, too
    bool own_activation; // none follows the layers, only what makes their rows
    bool reads_table; // forward reads sources in tape->table, and backward no more than n_dst of x
    const struct sl_typed_attention *attention; // of kinds of attention (typed_attention.h)

    int (*check)(const struct sl_typed_layer *layer); // NULL: all can be
    // Tensors of a layer; NULL: those of its relations.
    uint32_t (*count)(const struct sl_typed_layer *layer);
    void (*describe)(const struct sl_typed_layer *layer, struct sl_tensor *tensors);

    int (*forward)(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const float *params, struct sl_typed_tape *tape);
    // dy[t] (n_dst[t], d_out) becomes the gradient of y[t] by `before`, and is overwritten;
    // gradient: the tensors' places in it are the layer's alone, and 0. dx[t] (n_src[t], d_in[t])
    // is assigned unless dx or dx[t] is NULL.
    int (*backward)(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *params, const struct sl_typed_tape *tape, float **dy,
                    float *gradient, float **dx);
};

#define SL_TYPED_KIND(upper, lower) extern const struct sl_typed_kind sl_typed_##lower;
SL_MODEL_TYPED_KINDS(SL_TYPED_KIND)
#undef SL_TYPED_KIND

// A learned tensor of a layer, convs.INDEX.NAME, or of a relation of it; rows are shape[0].
struct sl_tensor sl_typed_tensor(const struct sl_typed_layer *layer, const char *name,
                                 uint32_t rank, const uint64_t *shape, float init_bound);
struct sl_tensor sl_relation_tensor(const struct sl_typed_layer *layer, uint32_t relation,
                                    const char *name, uint32_t rank, const uint64_t *shape,
                                    float init_bound);

// Which of the layer's tensors is tensor k of a relation, which has it.
static inline uint32_t sl_relation_place(const struct sl_typed_layer *layer, uint32_t relation,
                                         uint32_t k)
{
    return layer->place[(uint64_t)relation * layer->kind->per_relation + k];
}

// Where it begins in the flat vector.
static inline uint64_t sl_relation_offset(const struct sl_typed_layer *layer, uint32_t relation,
                                          uint32_t k)
{
    return layer->tensor[sl_relation_place(layer, relation, k)].offset;
}

// The bias, as the functions below want it; they give NULL for SL_LAYER_NO_BIAS.
static inline uint32_t sl_typed_bias(const struct sl_typed_layer *layer)
{
    if (layer->kind->bias == SL_LAYER_NO_BIAS)
        return SL_LAYER_NO_BIAS;
    return layer->kind->per_relation ? layer->kind->bias : layer->kind->count(layer) - 1;
}

// That model.heads divides the width: SL_EINVAL.
int sl_typed_check_heads(const struct sl_typed_layer *layer);

// What each relation that leads to type t counts: 1, or of a mean 1 / their number.
float sl_typed_scale(const struct sl_typed_layer *layer, uint32_t t);

// *out: the sum of the tensors k of the relations that lead to type t, times that scale; the tensor
// itself where it is alone. NULL where there is none.
int sl_typed_combine(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                     const float *params, uint32_t t, uint32_t k, const float **out);
// *out: where to add the gradient of that sum, and sl_typed_spread() then gives each its part.
int sl_typed_gradient_room(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                           float *gradient, uint32_t t, uint32_t k, float **out);
int sl_typed_spread(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *room, uint32_t t, uint32_t k, float *gradient);

// run->aggregated: the means over neighbours, under their weights, times `scale`.
int sl_typed_means(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const struct sl_typed_tape *tape, float scale, struct sl_typed_run *run);

/*
 * dx, a sum over runs and own rows. Runs come first: what the means' gradient dmeans (n_dst,
 * d_in of the source type) of a run gives is assigned to the first run's source rows and added for
 * the others. Then sl_typed_fill_rest() for the types that had none, and all else is +=.
 */
struct sl_typed_sum {
    float **dx;
    bool *there; // (n_types) in the notes
    float *zero; // the device's
    float *room; // (n_room) of one run after the other
    uint64_t n_room;
};
int sl_typed_sum_begin(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                       float **dx, struct sl_typed_sum *sum);
int sl_typed_means_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                            const struct sl_typed_run *run, const float *dmeans,
                            struct sl_typed_sum *sum);
int sl_typed_fill_rest(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                       const struct sl_typed_tape *tape, struct sl_typed_sum *sum);

#endif
