/*
 * layer.h - what a model layer is: its tensors, and forward and backward over one hop of a block.
 *
 * A layer maps the rows of its source vertices x (n_src, d_in) to rows of its destination vertices
 * y (n_dst, d_out); the destinations are the first n_dst sources. One kind of layer is one file
 * (layer_graphsage.c, layer_gcn.c) that fills a struct sl_layer_kind, and one line in the table of
 * model.c. Layers own no memory: parameters lie in the flat vector of the board, everything else
 * in the pool of the mini-batch.
 *
 * ORDER OF OPERATIONS. Both kinds aggregate linearly, out = (A x) W', so the product may come
 * first or last. sl_layer_transform_first() picks the cheaper one from the shapes of the hop alone:
 * equal blocks take equal ways, and so give equal bits, wherever they are computed.
 */
#ifndef SL_TRAINER_LAYER_H
#define SL_TRAINER_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mempool.h"
#include "kernels/kernels.h"

enum { SL_LAYER_TENSORS = 4, SL_TENSOR_NAME_BYTES = 48 };

// One parameter tensor, row-major. It starts at values[offset] of the flat parameter vector.
struct sl_tensor {
    char name[SL_TENSOR_NAME_BYTES]; // PyTorch Geometric's
    uint32_t rank;                   // 1 or 2
    uint64_t shape[2];
    uint64_t offset; // floats; set by the model
    // Initial value: init_constant + uniform(-init_bound, init_bound).
    float init_constant, init_bound;
};

static inline uint64_t sl_tensor_count(const struct sl_tensor *t)
{
    return t->shape[0] * (t->rank > 1 ? t->shape[1] : 1);
}

// Which way a layer goes; AUTO is what jobs use, the others are for tests.
enum sl_layer_order { SL_LAYER_AUTO, SL_LAYER_AGGREGATE_FIRST, SL_LAYER_TRANSFORM_FIRST };

struct sl_layer {
    const struct sl_layer_kind *kind;
    uint32_t index; // within the model
    uint32_t d_in, d_out;
    bool relu; // hidden layers
    enum sl_layer_order order;
    uint64_t offset[SL_LAYER_TENSORS]; // of its tensors, in the order of describe()
};

// One hop of a block as a layer reads it.
struct sl_hop {
    struct sl_csr_view csr;
    const uint32_t *degrees; // (n_src) in-degrees in the whole graph, or NULL
    const float *weights;    // (n_edges) how much each neighbour counts, or NULL: all the same
};

// Where a layer computes.
struct sl_layer_env {
    const struct sl_kernels *kernels;
    enum sl_precision precision;
    struct sl_mempool *pool; // of the mini-batch
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_layer_tape {
    struct sl_hop hop;
    const float *x;            // (n_src, d_in)
    float *y;                  // (n_dst, d_out), after the activation
    float *aggregated;         // (n_dst, d_in), NULL when the product came first
    float *row_scale;          // (n_dst)
    float *col_scale;          // (n_src) or NULL
    float *self_scale;         // (n_dst) or NULL
    struct sl_dropout dropout; // after the activation; rate 0 = none
};

/*
 * Rows of layer-wise inference: all neighbours of some vertices, straight from the topology.
 * The list of a row ends with the vertex itself where the kind says self_edge.
 */
struct sl_infer_piece {
    struct sl_csr_view csr; // source = all vertices
    const uint32_t *ids;    // (n_dst) the rows' vertices
    const uint64_t *indptr; // whole graph: in-degrees
    enum sl_dtype x_dtype;  // F32 or F16
    const void *x;          // (n_src, d_in)
    float *y;               // (n_dst, d_out)
};

struct sl_layer_kind {
    const char *name;
    bool needs_degrees; // blocks carry the in-degrees of their input nodes
    bool self_edge;     // inference lists name the vertex itself

    // Fills the tensors of a layer in the order of its state_dict; returns how many.
    uint32_t (*describe)(uint32_t index, uint32_t d_in, uint32_t d_out,
                         struct sl_tensor tensors[SL_LAYER_TENSORS]);

    // tape: hop, x and dropout are given; the rest is filled. input_gradient says whether
    // backward will be asked for dx.
    int (*forward)(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape);

    // dy (n_dst, d_out) is overwritten; gradient (flat, like params) += ; dx (n_src, d_in) is
    // assigned unless NULL.
    int (*backward)(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx);

    int (*infer)(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece);
};

extern const struct sl_layer_kind sl_layer_graphsage;
extern const struct sl_layer_kind sl_layer_gcn;

// Pool memory for n floats (n elements of 4 bytes), or NULL after sl_fail().
float *sl_layer_floats(const struct sl_layer_env *env, uint64_t n);
uint32_t *sl_layer_words(const struct sl_layer_env *env, uint64_t n);

// True when y = A (x W') is expected to be cheaper than (A x) W'.
bool sl_layer_transform_first(const struct sl_layer *layer, const struct sl_csr_view *csr,
                              bool input_gradient);

// (n_dst, in the pool) for each row the sum of its edges' weights, or how many edges it has where
// weights is NULL. NULL without memory.
float *sl_layer_edge_sums(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                          const float *weights);

/*
 * The product with the neighbours, shared by the kinds: tape->y (assigned) = A x W', where A is
 * the hop under its edges' weights and the tape's scales, and weight is (d_out, d_in). Allocates
 * tape->y and, when the aggregation came first, tape->aggregated.
 */
int sl_layer_propagate(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *weight, bool input_gradient, struct sl_layer_tape *tape);

// dweight += ; dx = A' dy W unless NULL.
int sl_layer_propagate_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                                const float *weight, const struct sl_layer_tape *tape,
                                const float *dy, float *dweight, float *dx);

// y (rows, d_out) = x (rows, d_in) weight' + beta * y; weight is (d_out, d_in).
int sl_layer_product(const struct sl_layer_env *env, const struct sl_layer *layer, const float *x,
                     uint64_t rows, const float *weight, float beta, float *y);
// dx (rows, d_in) = dy (rows, d_out) weight + beta * dx.
int sl_layer_product_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, uint64_t rows, const float *weight, float beta,
                              float *dx);
// dweight (d_out, d_in) += dy' x over `rows` rows.
int sl_layer_product_gradient(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, const float *x, uint64_t rows, float *dweight);

#endif
