/*
 * layer.h - what a model layer is: its tensors, and forward and backward over one hop of a block.
 *
 * A layer maps the rows of its source vertices x (n_src, d_in) to rows of its destination vertices
 * y (n_dst, d_out); the destinations are the first n_dst sources. One kind of layer is one file
 * (layer_*.c) that fills a struct sl_layer_kind, and one line in the table of model.c. Layers own
 * no memory: parameters lie in the flat vector of the parameter store, everything else in the pools
 * of the mini-batch. What surrounds a layer, its bias among it, is the model's (model.h): a layer
 * is PyTorch Geometric's `conv` without the bias that it adds last.
 *
 * ORDER OF OPERATIONS. GraphSAGE's means, GCN and the first half of GIN's MLP aggregate linearly,
 * out = (A x) W', so the product may come first or last. sl_layer_transform_first() picks the
 * cheaper one from the shapes of the hop alone: equal blocks take equal ways, and so give equal
 * bits, wherever they are computed.
 *
 * WHERE ARRAYS LIE. A layer computes on a device (common/device/device.h), whose memory the
 * processor may not look into. Parameters, gradients, rows and adjacencies are the device's and
 * `pool` is of its memory: layers hand these to kernels and never follow them. What the processor
 * itself reads and writes, a layer's notes and the lists that inference makes, is in `notes`.
 */
#ifndef SL_TRAINER_MODEL_LAYER_H
#define SL_TRAINER_MODEL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mempool.h"
#include "common/device/device.h"
#include "common/arena/block.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "trainer/feed/hop.h"
#include "trainer/model/rounded_weights.h"
#include "trainer/model/tensor.h"

struct sl_self_loops;

enum {
    SL_LAYER_TENSORS = 12,
    SL_LAYER_OWN_DROPOUT = 128, // dropout keys, see model.h
};

// Which way a layer goes; AUTO is what jobs use, the others are for tests.
enum sl_layer_order { SL_LAYER_AUTO, SL_LAYER_AGGREGATE_FIRST, SL_LAYER_TRANSFORM_FIRST };

// What the job says of layers (config.h, "model").
struct sl_layer_options {
    enum sl_aggregator aggregator;
    uint32_t heads;
    float attention_dropout;
    bool residual;
    float eps;
    bool train_eps;
    bool self_loops;
    enum sl_degrees_kind degrees;
    enum sl_activation activation;
    enum sl_norm_kind norm;
    enum sl_relations_kind relations;
    bool share_weights;
    bool edge_features;
    uint32_t edge_dim; // of a plain graph, width of the features of edges that are read; else 0
    uint32_t bases, blocks;
    // Bytes of a batch's activations until which a kind keeps for backward what it can make again.
    uint64_t kept_bytes;
};

struct sl_layer {
    const struct sl_layer_kind *kind;
    uint32_t index; // within the model
    uint32_t d_in, d_out;
    bool last; // its output is the model's: no norm and activation follow
    enum sl_layer_order order;
    const struct sl_layer_options *options; // of the model
    uint64_t offset[SL_LAYER_TENSORS];      // of its tensors, in the order of describe()
};

// One hop of a block as a layer reads it.
struct sl_hop {
    struct sl_csr_view csr;
    const uint32_t *degrees; // (n_src) in-degrees in the whole graph, or NULL
    const float *weights;    // (n_edges) how much each neighbour counts, or NULL: all the same
    const uint32_t *n_loops; // how many edges go from a row to itself; NULL: nobody has counted
    // (edges once each row is its own neighbour, edge_dim) their features (edge_rows.h), or NULL
    const float *edges;
};

// Where a layer computes.
struct sl_layer_env {
    const struct sl_kernels *kernels;
    const struct sl_device *device; // whose memory the kernels' arrays are in
    enum sl_precision precision;
    struct sl_mempool *pool;  // of the mini-batch, device memory: everything that kernels see
    struct sl_mempool *notes; // of the mini-batch, the process's own: what the processor notes down
    struct sl_mempool *scratch; // device memory of one step of a layer, which empties it itself
    const struct sl_rounded_weights *rounded; // copies of weights (rounded_weights.h), or NULL
};

/*
 * The bias, activation and dropout that follow a layer whose last operation is a product, for this
 * product to apply: one pass over the rows less. A kind takes the offer or leaves it.
 */
struct sl_layer_epilogue {
    bool offered;      // a norm between forbids it
    const float *bias; // (d_out) or NULL
    enum sl_activation act;
    struct sl_dropout dropout;
    uint16_t *rounded; // (rows, sl_layer_pitch(d_out)) on cores the result as bf16, too; or NULL
    bool applied;      // out
};

// All rows of features, in the processor's memory, which a first layer's sums read where they lie:
// rows that nothing else reads are not copied. rows NULL: x has those of all sources.
struct sl_layer_table {
    const void *rows; // (n_rows, d_in)
    enum sl_dtype dtype;
    uint32_t n_rows, first; // which vertex row 0 is of
    const uint32_t *nodes;  // (n_src) the hop's sources
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_layer_tape {
    struct sl_hop hop;
    struct sl_layer_table table; // of kinds that say reads_table; x has the first n_dst rows then
    // (n_src, d_in); with `half` of f16 what sl_layer_widen() has made of it, of bf16 there for
    // kinds that say reads_f32.
    const float *x;
    // As they are stored in 2 bytes, or NULL: features of f16 (n_src, d_in), of kinds that read
    // them; with bf16 the rounded output of the layer before, (n_src, sl_layer_pitch(d_in)), or
    // where there is a table the rows that x would have.
    const void *half;
    enum sl_dtype half_dtype;  // F16 or BF16
    bool training;             // batch statistics and dropout
    struct sl_dropout dropout; // keys of this layer's own masks (attention); rate 0 = none
    struct sl_layer_epilogue after;
    // For backward: what is still to be done to dy (layer_tail.h), by the first that reads it.
    struct sl_bias_act_gradient before;
    // (n_dst, d_out), without the bias, or with what `after` offered; NULL where that is kept as
    // bf16 alone. The model adds what follows in place: backward must not read it.
    float *y;
    void *own; // what the kind alone knows, in the notes
    // Of sl_layer_propagate():
    // (n_dst, d_in), NULL when the product came first. What products alone read: where
    // sl_layer_rounds() it is bf16 from the first, in padded rows.
    void *aggregated;
    float *row_scale;  // (n_dst)
    float *col_scale;  // (n_src) or NULL
    float *self_scale; // (n_dst) or NULL
};

enum { SL_INFER_PIECE_FLOATS = 1 << 26 }; // of rows that are brought along with a piece's edges

/*
 * Rows of layer-wise inference: all neighbours of some vertices, straight from the topology.
 * Where the kind says self_edge the row's own self-loops are left out and its list ends with the
 * vertex itself.
 *
 * The lists are made by the processor, which names vertices by their ids (`lists`). Kernels read a
 * copy (`csr`) whose indices are rows of x: ids too where x has all vertices, or else their places
 * among those that the piece needs, x_ids. On a CPU device that has x both are the same arrays.
 */
struct sl_infer_piece {
    // The processor's.
    struct sl_csr_view lists;               // source = all vertices
    const uint32_t *ids;                    // (n_dst) the rows' vertices
    const struct sl_dataset *graph;         // all of it: in-degrees
    const struct sl_self_loops *self_loops; // of the graph (common/data/self_loops.h); NULL: none
    // (n_edges) how much each neighbour counts, or NULL: all the same. What stands there for the
    // vertex itself is not looked at.
    const float *list_weights;
    const uint64_t *list_ids; // (n_edges) the edges' numbers (edge_rows.h), or NULL: not wanted
    const uint32_t *x_ids;    // (csr.n_src) the vertices that x has, ascending; NULL: all
    // The device's.
    struct sl_csr_view csr; // source = rows of x
    const uint32_t *self;   // (n_dst) rows of x that are those of `ids`
    const float *weights;   // (n_edges) list_weights, or NULL
    const float *edges;     // (n_edges, edge_dim) features of the edges, or NULL
    enum sl_dtype x_dtype;  // F32 or F16
    const void *x;          // (csr.n_src, d_in)
    float *y;               // (n_dst, d_out), without the bias, or with what `after` offered
    struct sl_layer_epilogue *after;
    // Of the pieces before (source_row_cache.h), or NULL: rows of sources; sums over features.
    struct sl_source_row_cache *kept, *kept_sums;
    bool is_run; // ids are consecutive
    // Of a layer whose products come first (sl_layer_input()): x has d_out columns, products with
    // the neighbours' weight; own (n_dst, d_out) are those of the vertices themselves, or NULL.
    bool multiplied;
    const float *own;
};

#define SL_LAYER_NO_BIAS UINT32_MAX

struct sl_layer_kind {
    const char *name;
    bool needs_degrees; // the graph's self-loops, without which degrees are counted
    bool reads_half;    // forward takes tape->half of f16 in place of x
    bool reads_table;   // forward takes tape->table beside x, where no gradient of x is wanted
    bool (*reads_f32)(const struct sl_layer *layer); // x beside tape->half of bf16; NULL: no
    bool (*self_edge)(const struct sl_layer *layer); // inference lists name the vertex; NULL: no
    uint32_t bias; // which of the tensors is the bias (d_out) that the model adds to y; or none

    // Where all that the layer does is to add up products of rows and weights (d_out, d_in): which
    // tensors these are, the neighbours' first, then the vertex's own; how many. 0, NULL: not so.
    uint32_t (*linear)(const struct sl_layer *layer, uint32_t weight[2]);

    // SL_EINVAL when a layer of these widths cannot be (heads that do not divide them); NULL:
    // all can.
    int (*check)(const struct sl_layer *layer);

    // Fills the tensors of a layer in the order of its state_dict; returns how many. One without a
    // name is one that this layer has not.
    uint32_t (*describe)(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS]);

    // tape: hop, x, training and dropout are given; the rest is filled. input_gradient says whether
    // backward will be asked for dx.
    int (*forward)(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape);

    // dy (n_dst, d_out) becomes the gradient of y by `before`, and is overwritten; gradient (flat,
    // like params) += ; dx (n_src, d_in) is assigned unless NULL.
    int (*backward)(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx);

    int (*infer)(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece);
};

#define SL_LAYER_KIND(upper, lower) extern const struct sl_layer_kind sl_layer_##lower;
SL_MODEL_KINDS(SL_LAYER_KIND)
#undef SL_LAYER_KIND

// Learned tensors of a layer, named convs.INDEX.NAME, that begin as uniform(-init_bound,
// init_bound).
struct sl_tensor sl_layer_matrix(const struct sl_layer *layer, const char *name, uint64_t rows,
                                 uint64_t columns, float init_bound);
struct sl_tensor sl_layer_vector(const struct sl_layer *layer, const char *name, uint64_t n,
                                 float init_bound);
// Bounds of torch_geometric.nn.dense.Linear's default, which is also that of its bias, and of
// "glorot".
float sl_layer_linear_bound(uint64_t inputs);
float sl_layer_glorot_bound(uint64_t rows, uint64_t columns);

// The layer as one of d_out inputs, for the products with a weight that is (d_out, d_out).
struct sl_layer sl_layer_square(const struct sl_layer *layer);

// *rows (n_dst, d_in): those of the piece's own vertices, where x has them or a copy. SL_ENOMEM.
int sl_layer_own_rows(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const struct sl_infer_piece *piece, const float **rows);

// sums (n_dst, d_in) of the piece's rows: each neighbour by its edge_weight (n_edges; NULL: 1), all
// by row_scale (n_dst; NULL: 1).
int sl_layer_piece_sums(const struct sl_layer_env *env, const struct sl_layer *layer,
                        const struct sl_infer_piece *piece, const float *row_scale,
                        const float *edge_weight, float *sums);

// Pool memory, the device's, for n floats (n elements of 4 bytes), or NULL after sl_fail().
float *sl_layer_floats(const struct sl_layer_env *env, uint64_t n);
uint32_t *sl_layer_words(const struct sl_layer_env *env, uint64_t n);
// Whether rows that products read are bf16 from the first, since they would be rounded each time
// that they are read. Bits are the same.
bool sl_layer_rounds(const struct sl_layer_env *env);
// Elements from one such row to the next: 16 bytes, as tensor cores want them.
uint64_t sl_layer_pitch(uint64_t columns);
// Pool memory for such rows, (rows, sl_layer_pitch(columns)), or NULL after sl_fail().
uint16_t *sl_layer_bf16(const struct sl_layer_env *env, uint64_t rows, uint64_t columns);

// Notes, the processor's (not zeroed); or NULL after sl_fail().
void *sl_layer_note(const struct sl_layer_env *env, size_t bytes);

/*
 * *out: where the device reads n elements at `host`, the processor's: a copy in pool memory, or
 * `host` itself where that is the device's, or NULL. They must stay as they are until the next
 * sync(), as notes do. SL_ENOMEM.
 */
int sl_layer_upload_words(const struct sl_layer_env *env, const uint32_t *host, uint64_t n,
                          const uint32_t **out);
int sl_layer_upload_floats(const struct sl_layer_env *env, const float *host, uint64_t n,
                           const float **out);

// True when y = A (x W') is expected to be cheaper than (A x) W'.
bool sl_layer_transform_first(const struct sl_layer *layer, const struct sl_csr_view *csr,
                              bool input_gradient);
// Whether it may be of some hop.
bool sl_layer_may_transform_first(const struct sl_layer *layer);

/*
 * What layer-wise inference keeps of all vertices for a layer to read: n matrices, one behind the
 * other, (n_nodes, width) each. They are the rows that the layer before gives; or, where these are
 * wider than the layer's products with them all together, these products, which the layer before
 * makes while its rows are in the cache.
 */
struct sl_layer_input {
    bool multiplied;
    uint32_t n, width;
    uint32_t weight[2]; // which tensor each is the product with
};
struct sl_layer_input sl_layer_input(const struct sl_layer *layer);
// y (n_dst, d_out) of a piece that is multiplied: the rows' sums (n_dst, d_out) and their own.
int sl_layer_add_own(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const struct sl_infer_piece *piece, const float *sums);

// *out (n_dst, in the pool): what the weights of each row's edges come to (kernels: row_sums).
// weights NULL: all are 1.
int sl_layer_row_sums(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                      const float *weights, const uint32_t *degrees, enum sl_row_sum what,
                      float **out);

/*
 * Leaves out the hop's edges from a row to itself; with `append_self` each row's list then ends
 * with the row, which counts as much as its average neighbour. Nothing is copied where nothing
 * changes. On a GPU that is waited for unless the loops have been counted.
 */
int sl_layer_fix_loops(const struct sl_layer_env *env, struct sl_hop *hop, bool append_self);

// The hop the other way round, in the pool: for each source its destinations in ascending order,
// and each edge's position in csr. *edge may be asked for or not (NULL).
int sl_layer_transpose(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                       struct sl_csr_view *transposed, uint32_t **edge);

// With tape->half of f16: the first rows of tape->x, those that have to be f32 for forward and
// backward; in the pool. Exact. Products read bf16 as it is.
int sl_layer_widen(const struct sl_layer_env *env, const struct sl_layer *layer, uint32_t rows,
                   struct sl_layer_tape *tape);

// What sums over the tape's sources read, (n_src, d_in): rows of the table where there is one.
struct sl_layer_rows {
    const void *p;
    enum sl_dtype dtype;
};
struct sl_layer_rows sl_layer_far_rows(const struct sl_layer_tape *tape);
// *out: the hop whose sources are the rows of a table, on cores. SL_ENOMEM; SL_ERANGE for a vertex
// that the table has not.
int sl_layer_table_hop(const struct sl_layer_env *env, const struct sl_layer_table *table,
                       const struct sl_csr_view *csr, struct sl_csr_view *out);
// The same for the tape's, if it has one.
int sl_layer_far_hop(const struct sl_layer_env *env, const struct sl_layer_tape *tape,
                     struct sl_csr_view *csr);

// A x for products alone to read, where A is the hop under its edges' weights and the tape's
// scales: *out (n_dst, dim) in the pool, where sl_layer_rounds() bf16 in padded rows.
int sl_layer_aggregate_for_products(const struct sl_layer_env *env,
                                    const struct sl_layer_tape *tape, const void *x,
                                    enum sl_dtype x_dtype, uint32_t dim, void **out);
// dx (n_src, dim) = A' dy.
int sl_layer_aggregate_backward(const struct sl_layer_env *env, const struct sl_layer_tape *tape,
                                const float *dy, uint32_t dim, float *dx);

// tape->y for a product that assigns it, with `after`: NULL where bf16 alone is kept of it.
int sl_layer_output(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const struct sl_layer_epilogue *after, struct sl_layer_tape *tape);

/*
 * The product with the neighbours, shared by the kinds: tape->y (assigned) = A x W' + x W_own',
 * where A is the hop under its edges' weights and the tape's scales, and both weights are (d_out,
 * d_in); own NULL: without the second term. Allocates tape->y and, when the aggregation came first,
 * tape->aggregated. Then, and with a second term, a product is the last operation, and `after` as
 * of sl_layer_last_product().
 */
int sl_layer_propagate(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *weight, const float *own, bool input_gradient,
                       struct sl_layer_epilogue *after, struct sl_layer_tape *tape);

// dweight += , down += ; dx = A' dy W + dy W_own unless NULL. own and down NULL: as in forward.
// `before` is applied to dy first.
int sl_layer_propagate_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                                const float *weight, const float *own,
                                const struct sl_layer_tape *tape,
                                const struct sl_bias_act_gradient *before, float *dy,
                                float *dweight, float *down, float *dx);

// y (rows, d_out) = x (rows, d_in) weight' + beta * y; weight is (d_out, d_in).
int sl_layer_product(const struct sl_layer_env *env, const struct sl_layer *layer, const float *x,
                     uint64_t rows, const float *weight, float beta, float *y);
// The same, and where an epilogue is offered (`after` may be NULL) it is applied to y.
int sl_layer_last_product(const struct sl_layer_env *env, const struct sl_layer *layer,
                          const float *x, uint64_t rows, const float *weight, float beta, float *y,
                          struct sl_layer_epilogue *after);
// x (rows, d_in) and weight (d_out, d_in).
struct sl_layer_term {
    const void *x;
    const float *weight;
    uint32_t d_in;
    bool bf16; // x is, (rows, sl_layer_pitch(d_in)); else f32
};
// The tape's source rows as products read them; weight NULL: a term that is nothing.
struct sl_layer_term sl_layer_source(const struct sl_layer *layer, const struct sl_layer_tape *tape,
                                     const float *weight);
// y (rows, d_out) = both terms' x weight' + beta * y, in one pass over y; the second one's d_in may
// be 0. `after` as above.
int sl_layer_last_products(const struct sl_layer_env *env, const struct sl_layer *layer,
                           const struct sl_layer_term terms[2], uint64_t rows, float beta, float *y,
                           struct sl_layer_epilogue *after);
// dx (rows, d_in) = dy (rows, d_out) weight + beta * dx.
int sl_layer_product_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, uint64_t rows, const float *weight, float beta,
                              float *dx);
// x (rows, d_in) and dweight (d_out, d_in).
struct sl_layer_gradient {
    const void *x;
    float *dweight;
    uint32_t d_in;
    bool bf16; // as above
};
// Of the tape's source rows; dweight NULL: of nothing.
struct sl_layer_gradient sl_layer_source_gradient(const struct sl_layer *layer,
                                                  const struct sl_layer_tape *tape, float *dweight);
// dweight += dy' x over `rows` rows.
int sl_layer_product_gradient(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, const struct sl_layer_gradient *of, uint64_t rows);
// `before` applied to dy, then the same of both (the second one's d_in may be 0), which reads dy
// once.
int sl_layer_product_gradients(const struct sl_layer_env *env, const struct sl_layer *layer,
                               const struct sl_bias_act_gradient *before, float *dy,
                               const struct sl_layer_gradient of[2], uint64_t rows);
// `before` applied to dy (rows, d_out), where no product comes first.
int sl_layer_apply_before(const struct sl_layer_env *env, const struct sl_layer *layer,
                          const struct sl_bias_act_gradient *before, float *dy, uint64_t rows);

#endif
