/*
 * kernels.h - the table of operations: one documented slot for each, one table for each back end.
 *
 *   ref/   plain loops, the oracle that the others are compared with
 *   cpu/   SIMD and threads
 *   cuda/  comes as a plug-in that fills the same table
 *
 * Conventions. Matrices are row-major and dense, f32 unless a slot says otherwise. Shapes stand
 * beside the arguments. Gradient law: parameter gradients accumulate (+=), activation gradients are
 * assigned (=). A slot returns 0 or a negative SL_E* after sl_fail(); pointers to different
 * arguments must not overlap unless the slot says so. Results are deterministic for a given number
 * of threads; reductions never depend on timing. No slot allocates in steady state: `ws` is the
 * caller's memory pool, reset once a mini-batch.
 *
 * Where arrays lie. Pointers to arrays are of the memory of the table's device (common/device/
 * device.h), `ws` is a pool of that memory, and a slot may still be computing when it returns; what
 * a slot returns through a pointer to a single value is the processor's and is there after the next
 * sync(), and on return where that pointer is not to pinned memory.
 * Arguments that only the values of arrays show to be wrong (an id out of range) are refused by ref
 * and cpu at once; a GPU leaves that element out and says so at the next sync().
 */
#ifndef SL_KERNELS_KERNELS_H
#define SL_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/base/mempool.h"
#include "common/base/sampler_kind.h"
#include "kernels/sampling.h"
#include "kernels/pairs.h"

#ifdef __cplusplus
extern "C" {
#endif

// How the products treat their operands, which are f32 unless it says otherwise.
enum sl_precision {
    SL_PRECISION_F32,
    SL_PRECISION_BF16, // operands rounded to bf16, products accumulated in f32
    SL_PRECISION_TF32, // operands rounded to tf32 where the device has it (CUDA); F32 elsewhere
    // Added to BF16: these operands are bf16 in memory, too, and have been rounded by whoever wrote
    // them, so bits are those of operands of f32. A2 and B2 are of the second product of
    // gemm_bias_act and weight_gradients.
    SL_PRECISION_A = 4,
    SL_PRECISION_B = 8,
    SL_PRECISION_A2 = 16,
    SL_PRECISION_B2 = 32,
};

// Without what is said of the operands.
static inline enum sl_precision sl_precision_kind(enum sl_precision p)
{
    return (enum sl_precision)(p & 3);
}

// Of the first and of the second of two products, as of one alone.
static inline enum sl_precision sl_precision_first(enum sl_precision p)
{
    return (enum sl_precision)(p & (3 | SL_PRECISION_A | SL_PRECISION_B));
}

static inline enum sl_precision sl_precision_second(enum sl_precision p)
{
    return (enum sl_precision)((p & 3) | (p >> 2 & (SL_PRECISION_A | SL_PRECISION_B)));
}

enum sl_transpose { SL_NO_TRANS, SL_TRANS };

// A sampled or whole adjacency: for each of n_dst rows the neighbours' row numbers in the source.
struct sl_csr_view {
    uint32_t n_dst;
    uint32_t n_src;
    uint32_t n_edges;        // == indptr[n_dst]: the arrays may be where the processor cannot read
    const uint32_t *indptr;  // (n_dst + 1), starts at 0
    const uint32_t *indices; // (n_edges) each < n_src
};

/*
 * y[i] = row_scale[i] * sum_e edge_weight[e] * col_scale[indices[e]] * x[indices[e]]
 *        + self_scale[i] * x[i]                              over e in indptr[i] .. indptr[i+1]
 * A NULL scale or weight means 1, except self_scale: NULL means no self term. The self term exists
 * for i < n_self only (n_self <= min(n_dst, n_src)).
 */
struct sl_aggregate_args {
    struct sl_csr_view csr;
    uint32_t dim;
    enum sl_dtype x_dtype;    // F32, F16 or BF16
    const void *x;            // (n_src, dim), of BF16 (n_src, x_ld)
    uint64_t x_ld;            // of BF16
    const float *row_scale;   // (n_dst) or NULL
    const float *col_scale;   // (n_src) or NULL
    const float *edge_weight; // (n_edges) or NULL
    const float *self_scale;  // (n_self) or NULL
    uint32_t n_self;
    float *y; // (n_dst, dim), assigned
    // With y NULL: the sums go there, rounded to bf16 (nearest, ties to even); what is
    // behind dim columns stays.
    uint16_t *y_bf16; // (n_dst, y_ld)
    uint64_t y_ld;
};

// The mask of a dropout: element e of (rows, dim) lives iff a Philox draw keyed by
// (seed; epoch, batch, layer, e) is at least `rate`; survivors are scaled by 1 / (1 - rate).
struct sl_dropout {
    float rate; // 0 = off
    uint64_t seed;
    uint32_t epoch, batch, layer;
};

// The values are those of model.activation (config.h), with none before them.
enum sl_activation {
    SL_ACT_NONE,
    SL_ACT_RELU,
    SL_ACT_ELU,        // alpha 1, as torch.nn.ELU
    SL_ACT_LEAKY_RELU, // slope 0.01, as torch.nn.LeakyReLU
};

// One step's constants of the optimizer; t counts from 1.
struct sl_adam_step {
    float lr, beta1, beta2, eps, weight_decay;
    bool decoupled; // false: coupled L2, as torch.optim.Adam; true: as torch.optim.AdamW
    uint64_t t;
};

struct sl_sgd_step {
    float lr, momentum, weight_decay; // as torch.optim.SGD without dampening or Nesterov
};

// What a loss says of a batch: summed, not averaged. What is averaged in the end is loss / weight.
struct sl_loss_result {
    double loss;
    double weight;             // what PyTorch's reduction="mean" divides by
    uint64_t correct, counted; // predictions: rows of softmax_xent, elements of sigmoid_bce
};

static inline void sl_loss_add(struct sl_loss_result *sum, const struct sl_loss_result *part)
{
    sum->loss += part->loss;
    sum->weight += part->weight;
    sum->correct += part->correct;
    sum->counted += part->counted;
}

/*
 * Several weights an edge, one a head: the sums and products that attention is made of (Velickovic
 * et al., ICLR 2018). Rows of features are `heads` runs of `dim` floats; per-edge arrays are
 * (n_edges, heads). The softmax takes at most 1024 heads.
 */
struct sl_edge_softmax_args {
    struct sl_csr_view csr;
    uint32_t heads;
    float negative_slope;   // of the leaky relu on the scores
    const float *score_src; // (n_src, heads); NULL, as score_dst: alpha has the scores themselves
    const float *score_dst; // (n_dst, heads)
    float *alpha;           // out (n_edges, heads)
};

struct sl_edge_softmax_grad_args {
    struct sl_csr_view csr;
    struct sl_csr_view transposed; // of csr, with
    const uint32_t *t_edge;        // (n_edges) each transposed edge's position in csr
    uint32_t heads;
    float negative_slope;
    const float *score_src, *score_dst, *alpha; // as in forward
    float *dalpha;     // (n_edges, heads) in: gradient of alpha; out: that of the scores' sums
    float *dscore_src; // out (n_src, heads)
    float *dscore_dst; // out (n_dst, heads)
    // Where score_src is NULL, transposed, t_edge, dscore_src and dscore_dst are not looked at.
};

// score[e, h] = <att[h], leaky(src[indices[e], h] + dst[i, h])> for the edges e of each row i
// (Brody et al., 2022, eq. 7).
struct sl_edge_scores_args {
    struct sl_csr_view csr;
    uint32_t heads, dim;
    float negative_slope;
    const float *src; // (n_src, heads * dim)
    const float *dst; // (n_dst, heads * dim)
    const float *att; // (heads, dim)
    float *score;     // out (n_edges, heads)
};

// The gradient in the rows of one side: dst's, or src's where csr is the transposed adjacency.
struct sl_edge_scores_grad_args {
    struct sl_csr_view csr;
    const uint32_t *edge; // (n_edges) where an edge's gradients are; NULL: at its own position
    uint32_t heads, dim;
    float negative_slope;
    const float *own;    // (n_dst, heads * dim) this side's rows
    const float *other;  // (n_src, heads * dim)
    const float *att;    // (heads, dim)
    const float *dscore; // (n_edges, heads)
    float beta;          // 0 or 1
    float *down;         // (n_dst, heads * dim) = gradient of own + beta * down
    float *datt;         // out (n_dst, heads * dim) the row's part of that of att, or NULL
};

// y[i, h, :] = sum over e of weight[edge[e], h] * x[indices[e], h, :], assigned.
struct sl_aggregate_heads_args {
    struct sl_csr_view csr;
    uint32_t heads, dim;
    const float *x;       // (n_src, heads * dim)
    const float *weight;  // (n_edges, heads)
    const uint32_t *edge; // (n_edges) where an edge's weights are; NULL: at its own position
    float *y;             // (n_dst, heads * dim)
};

// Element-wise maximum over the neighbours; 0 for a row without any.
struct sl_aggregate_max_args {
    struct sl_csr_view csr;
    uint32_t dim;
    enum sl_dtype x_dtype; // F32, F16 or BF16
    const void *x;         // (n_src, dim), of BF16 (n_src, x_ld)
    uint64_t x_ld;         // of BF16
    float *y;              // out (n_dst, dim)
    uint16_t *y_bf16;      // with y NULL, as of struct sl_aggregate_args
    uint64_t y_ld;
    // out (n_dst, dim) the edge that an element came from, the first of equals; UINT32_MAX for
    // none. NULL where backward is not asked for.
    uint32_t *from;
};

struct sl_aggregate_max_grad_args {
    struct sl_csr_view csr, transposed;
    const uint32_t *t_edge; // (n_edges) each transposed edge's position in csr
    uint32_t dim;
    const uint32_t *from; // (n_dst, dim)
    const float *dy;      // (n_dst, dim)
    float *dx;            // (n_src, dim), assigned
};

// torch.nn.BatchNorm1d in training, and torch.nn.LayerNorm over the last axis (PyG's LayerNorm with
// mode="node"). x, y, dy, dx are (rows, dim); gamma, beta and their gradients (dim); mean and
// inverse (dim) of batch_norm, (rows) of layer_norm.
struct sl_norm_args {
    uint64_t rows;
    uint32_t dim;
    float eps;
    const float *x;
    const float *gamma, *beta;
    float *y;       // may be x
    float *mean;    // out; layer_norm: NULL, as inverse, where backward is not asked for
    float *inverse; // out, 1 / sqrt(biased variance + eps)
    float
        *variance; // out, of batch_norm, for the running average: unbiased (biased where rows is 1)
};

struct sl_norm_grad_args {
    uint64_t rows;
    uint32_t dim;
    const float *x; // as forward got it
    const float *gamma, *mean, *inverse;
    const float *dy;
    float *dx;             // assigned; may be dy
    float *dgamma, *dbeta; // += ; of batch_norm both or none
};

// c (m, n) = dropout(act(a (m, k) b' + a2 (m, k2) b2' + beta c + bias)), b (n, k), b2 (n, k2): a
// product, or the sum of two, with what follows it.
struct sl_gemm_bias_act_args {
    enum sl_precision precision;
    uint64_t m, n, k;
    const void *a, *b; // (m, lda), (n, ldb): f32, or as `precision` says
    uint64_t lda, ldb;
    uint64_t k2;         // 0: there is no second product, and what follows is not looked at
    const void *a2, *b2; // (m, lda2), (n, ldb2)
    uint64_t lda2, ldb2;
    float beta;
    float *c; // (m, ldc), or NULL beside c_bf16 where beta is 0: nobody needs it as f32
    uint64_t ldc;
    const float *bias; // (n) or NULL
    enum sl_activation act;
    struct sl_dropout dropout; // where it is on, ldc is n
    // On cores: what c becomes as bf16, as of bias_act_bf16; or NULL. GPUs refuse it.
    uint16_t *c_bf16; // (m, ldc_bf16)
    uint64_t ldc_bf16;
};

// The backward of bias_act as a part of what reads dy (rows, dim) first. All zero: nothing to do.
struct sl_bias_act_gradient {
    const void *y;      // (rows, dim) the output, where the activation asks for it
    uint64_t y_bf16_ld; // not 0: y is bf16 in memory, (rows, y_bf16_ld); else f32
    enum sl_activation act;
    struct sl_dropout dropout;
    float *dbias; // (dim) += or NULL
};

// of[i].c (m, n) += a' of[i].b: a (k, m) are the gradients of k rows, b (k, n) what was multiplied.
struct sl_weight_gradient {
    uint64_t n;
    const void *b; // (k, ldb): f32, or as `precision` says of B or B2
    uint64_t ldb;
    float *c; // (m, ldc)
    uint64_t ldc;
};

struct sl_weight_gradients_args {
    enum sl_precision precision;
    uint64_t m, k;
    float *a; // (k, lda); overwritten by `before`
    uint64_t lda;
    struct sl_bias_act_gradient before; // of a; where there is something to do, lda is m
    struct sl_weight_gradient of[2];
};

// How the weights of a row's edges are combined (without weights: the number of edges).
enum sl_row_sum {
    SL_ROW_SUM,      // their sum
    SL_ROW_INVERSE,  // 1 / sum, 0 where it is not above 0: turns a sum into a mean
    SL_ROW_SCALE_UP, // in-degree / sum, likewise: turns a sum over sampled neighbours into the
                     // estimate over all of them; without degrees: number of edges / sum
};

// Leaves out the edges from a row to itself (destinations are the first sources).
struct sl_fix_loops_args {
    struct sl_csr_view csr;
    const float *weight; // (n_edges) or NULL
    // Each row's list then ends with the row, which weighs as much as the average of its others (1
    // where it has none).
    bool append_self;
    uint32_t *indptr;  // out (n_dst + 1)
    uint32_t *indices; // out, room for n_edges, and n_dst more with append_self
    float *out_weight; // out likewise; NULL exactly where weight is
    // out, the processor's; NULL where the caller knows it: csr.n_edges less the loops
    // (count_loops), n_dst more with append_self.
    uint32_t *n_edges;
};

/*
 * Several adjacencies with the same rows as one, whose row i * n_parts + p is row i of part p: all
 * edges of a row are neighbours, part after part, and `rows` tells them without regard to parts.
 * Lists may be joined one behind the other: the last element of indptr and of rows is the first of
 * what comes next.
 */
struct sl_join_rows_args {
    uint32_t n_dst, n_parts;
    const struct sl_csr_view *part; // (n_parts), the processor's; each of n_dst rows
    const uint32_t *first_source;   // (n_parts), the processor's; added to the part's indices
    uint32_t first_edge;            // where these edges begin
    uint32_t *indptr;               // out (n_dst * n_parts + 1)
    uint32_t *rows;                 // out (n_dst + 1)
    uint32_t *indices;              // out, the whole list: written from first_edge on
};

// Functions whose slope is told by what goes in.
enum sl_curve_kind {
    SL_CURVE_GELU,    // x Phi(x), as torch.nn.GELU
    SL_CURVE_SIGMOID, // 1 / (1 + e^-x)
};

/*
 * The scales of a graph convolution on a hop (trainer/model/layer_gcn.c has the formula). With r =
 * 1 / sqrt(in-degree of the destination), c = 1 / sqrt(degree of the source), 0 where the degree is
 * 0:
 *
 *   col_scale[j] = c_j,  row_scale[i] = full_i / sampled_i * r_i,  self_scale[i] = r_i c_i
 *
 * sampled_i is the row's sum of weights (or its number of edges); the factor is 0 where that is not
 * above 0. `degrees` given: in-degrees d of the whole graph for both, full_i = d_i. NULL: those of
 * the hop, in-edges of i and out-edges of j, full_i = in-edges. `own_loop`: all degrees are one
 * more (of the hop's sources only those that are destinations).
 */
struct sl_gcn_scales_args {
    struct sl_csr_view csr;
    const uint32_t *degrees; // (n_src) or NULL
    const float *weight;     // (n_edges) or NULL
    bool own_loop;
    float *row_scale;  // out (n_dst)
    float *col_scale;  // out (n_src)
    float *self_scale; // out (n_dst), or NULL
};

// Rows of a batch that were found near, and in each part.
struct sl_hits {
    uint32_t part[SL_PARTS_MAX];
    uint32_t near;
};

// Rows of a batch from the cache or from the store, in one go (Extract stage).
struct sl_gather_ranked_args {
    struct sl_spread cache; // rows by rank; shift 0
    // (n_rows, dim) rows by vertex; device or mapped memory. NULL: there is none, n_rows is 0 and
    // rows that the cache lacks are left unchanged.
    const void *store;
    uint64_t n_rows;
    enum sl_dtype dtype; // of both: F32 or F16
    uint32_t dim;
    const uint32_t *nodes, *ranks; // (n)
    uint32_t n;
    float *out;           // (n, dim): what the cache has at ranks[i], else store[nodes[i]]
    struct sl_hits *hits; // the processor's; NULL: not wanted
};

// The split of a batch's rows between a cache, which has rows by rank, and the store, which holds
// every vertex. Room for n each; written in order.
struct sl_row_split {
    uint32_t n_hits, n_misses;
    uint32_t *hit_row, *hit_to;   // rank; row of the batch
    uint32_t *miss_row, *miss_to; // row of the store (vertex id); row of the batch
};

// Rank of a vertex that no cache of any capacity holds.
#define SL_RANK_NONE UINT32_MAX
enum { SL_RANK_TIERS_MAX = 8 };

/*
 * Which vertices are the hottest, and their ranks, in V/4 bytes a tier. The hottest vertices are
 * cut into tiers (common/arena/visit_counts.h) within which they stand by rising id: a vertex's
 * rank is the first rank of its tier and the number of vertices of the tier before it. Word (w, t)
 * has
 *
 *     low half    bit v % 32: whether vertex v = 32 w + v % 32 is in tier t
 *     high half   the rank of the first of these; anything where there is none
 *
 * All tiers of a vertex are side by side: one cache line a vertex.
 */
struct sl_rank_index {
    uint64_t n_nodes;
    uint32_t n_tiers;      // 0: nothing is hot. At most SL_RANK_TIERS_MAX
    const uint64_t *words; // (ceil(n_nodes / 32), n_tiers)
};

struct sl_kernels {
    const char *name; // "ref", "cpu", "cuda"

    // out[i] = table[rows[i]] as f32; table (n_rows, dim) is F32 or F16 (Extract stage). rows NULL:
    // the first n.
    int (*gather_rows)(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                       const uint32_t *rows, uint64_t n, float *out);

    int (*aggregate)(const struct sl_aggregate_args *args);

    // Transposes csr into t_indptr (n_src + 1), t_indices (n_edges: destination rows, ascending
    // within a source) and, when t_edge is not NULL, t_edge (n_edges: the edge's old position).
    int (*transpose)(const struct sl_csr_view *csr, uint32_t *t_indptr, uint32_t *t_indices,
                     uint32_t *t_edge, struct sl_mempool *ws);

    // c (m, n) = alpha * op(a) op(b) + beta * c; op(a) is (m, k), op(b) is (k, n); leading
    // dimensions are those of the stored matrices. beta is 0 or 1.
    int (*gemm)(enum sl_precision precision, enum sl_transpose ta, enum sl_transpose tb, uint64_t m,
                uint64_t n, uint64_t k, float alpha, const void *a, uint64_t lda, const void *b,
                uint64_t ldb, float beta, float *c, uint64_t ldc, struct sl_mempool *ws);

    // y (rows, dim) += bias (dim, NULL for none); then the activation; then dropout. In place.
    int (*bias_act)(float *y, uint64_t rows, uint32_t dim, const float *bias,
                    enum sl_activation act, const struct sl_dropout *dropout);

    // out (rows, ld) bf16 = what bias_act makes of x (rows, dim), rounded to the nearest, ties to
    // the even one; what is behind dim columns stays. y (rows, dim; may be x) is the same in f32,
    // or NULL. Without bias, activation and dropout it is a
    // conversion.
    int (*bias_act_bf16)(const float *x, uint64_t rows, uint32_t dim, const float *bias,
                         enum sl_activation act, const struct sl_dropout *dropout, float *y,
                         uint16_t *out, uint64_t ld);

    // Backward of bias_act from its output y: dy = dy * mask * act', in place; dbias (dim) +=
    // column sums of the result when dbias is not NULL.
    // y_bf16_ld: not 0 where y is bf16 in memory, (rows, y_bf16_ld).
    int (*bias_act_backward)(float *dy, const void *y, uint64_t y_bf16_ld, uint64_t rows,
                             uint32_t dim, enum sl_activation act, const struct sl_dropout *dropout,
                             float *dbias);

    // x (rows, dim) masked and scaled in place.
    int (*dropout)(float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout);

    // Softmax cross-entropy over labelled rows, each times class_weight[label] (classes; NULL: 1).
    // dlogits (rows, classes) = gradient of the summed loss (0 for label -1), or NULL for
    // evaluation; may be logits. weight: sum of the labelled rows' class weights.
    int (*softmax_xent)(const float *logits, const int32_t *labels, uint64_t rows, uint32_t classes,
                        const float *class_weight, float *dlogits, struct sl_loss_result *out);

    // Sigmoid cross-entropy (torch's BCEWithLogitsLoss) over labelled elements of targets
    // (rows, dim), 0 to 1, NaN = unlabelled; positives count pos_weight[column] times (dim; NULL:
    // 1). dlogits as above. weight: number of labelled elements. correct: (logit > 0) agrees with
    // (target > 0.5).
    int (*sigmoid_bce)(const float *logits, const float *targets, uint64_t rows, uint32_t dim,
                       const float *pos_weight, float *dlogits, struct sl_loss_result *out);

    // (output - target)^2 over labelled elements, NaN = unlabelled; doutputs likewise. weight:
    // number of labelled elements; correct and counted are 0.
    int (*squared_error)(const float *outputs, const float *targets, uint64_t rows, uint32_t dim,
                         float *doutputs, struct sl_loss_result *out);

    int (*edge_softmax)(const struct sl_edge_softmax_args *args);
    int (*edge_softmax_backward)(const struct sl_edge_softmax_grad_args *args);
    int (*edge_scores)(const struct sl_edge_scores_args *args);
    int (*edge_scores_backward)(const struct sl_edge_scores_grad_args *args);
    int (*aggregate_heads)(const struct sl_aggregate_heads_args *args);
    // out[e, h] = <a[i, h, :], b[indices[e], h, :]> for the edges e of each row i; a (n_dst,
    // heads * dim), b (n_src, heads * dim): the gradient of aggregate_heads in its weights.
    int (*edge_dot)(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                    const float *b, float *out);
    int (*aggregate_max)(const struct sl_aggregate_max_args *args);
    int (*aggregate_max_backward)(const struct sl_aggregate_max_grad_args *args);

    int (*batch_norm)(const struct sl_norm_args *args, struct sl_mempool *ws);
    int (*batch_norm_backward)(const struct sl_norm_grad_args *args, struct sl_mempool *ws);
    int (*layer_norm)(const struct sl_norm_args *args);
    int (*layer_norm_backward)(const struct sl_norm_grad_args *args, struct sl_mempool *ws);
    // x (rows, dim) = x * scale (dim) + shift (dim): a batch norm with running statistics.
    int (*scale_columns)(float *x, uint64_t rows, uint32_t dim, const float *scale,
                         const float *shift);

    // y[i] = x[i] * inverse[i], inverse (rows) = 1 / max(|x[i]|, 1e-12): torch.nn.functional's
    // normalize. y may be x.
    int (*normalize_rows)(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse);
    // dx[i] = inverse[i] * (dy[i] - y[i] <y[i], dy[i]>); dx may be dy. Rows that the bound of
    // forward applied to are taken as constant in their norm.
    int (*normalize_rows_backward)(const float *dy, const float *y, const float *inverse,
                                   uint64_t rows, uint32_t dim, float *dx);

    // out[i] = scale * (slot[0][i] + slot[1][i] + ... in this order), n_slots >= 1.
    int (*reduce)(const float *const *slots, uint32_t n_slots, uint64_t n, float scale, float *out);

    // Sum of squares in f64, in an order that depends on n alone.
    int (*sum_squares)(uint64_t n, const float *x, double *out);

    // p_out = step(p, g); optimizer state m, v read and m_out, v_out written; in and out differ.
    // *broken (1 word), or NULL: becomes 1 where a number that was written is not finite (which
    // follows where g is not); else it stays.
    int (*adam)(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                const float *m, const float *v, float *p_out, float *m_out, float *v_out,
                uint32_t *broken);
    int (*sgd)(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
               const float *m, float *p_out, float *m_out, uint32_t *broken);

    /*
     * One hop, by kind (common/base/sampler_kind.h says where each is defined).
     *
     *   khop      `fanout` of a row's neighbours, each subset as likely; all where there are fewer.
     *             With replacement `fanout` draws, each neighbour as likely in each, whatever their
     *             number; none where there is no neighbour
     *   weighted  one after the other, each with probability proportional to its weight among those
     *             that are left (FGNN 7.1, k-hop weighted). An edge of weight 0 is never drawn; a
     *             row with no more than `fanout` edges of positive weight gives all of these, in
     *             the order of the file. With replacement each draw is among all of them, and a row
     *             that has any gives `fanout`. Needs topology->weight_prefix.
     *   walk      PinSAGE (FGNN 7.1; Ying et al., KDD 2018, 3.1): from each destination start
     *             `paths` random walks of `length` steps over in-edges; the neighbours are the
     *             `fanout` vertices met most often, all that were met with -1. The destination
     *             itself is none of its neighbours.
     *   labor     those of a row's neighbours with the smallest random numbers, a vertex having one
     *             number for all rows of the hop (Balin and Catalyurek, NeurIPS 2023)
     */
    int (*sample[SL_SAMPLER_KINDS])(const struct sl_khop_args *args);

    // prefix (n_edges): running sums of weight (n_edges) within each row, in f64, rounded so that
    // their differences are exact (kernels/weighted_internal.h). SL_EINVAL names the first edge
    // whose weight is negative or no finite number.
    int (*weight_prefix)(const struct sl_topology_view *topology, const float *weight,
                         double *prefix);

    // ranks[i] = rank of nodes[i], or SL_RANK_NONE: marks a batch's vertices with their place in
    // the hotness order. SL_ERANGE for what is no vertex; ranks then hold anything.
    int (*mark_ranks)(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                      uint32_t *ranks);

    // Hits and misses of a batch, without a branch a row where nothing lies in parts. nodes and
    // ranks (n); of `held` no memory is read.
    int (*split_rows)(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                      const struct sl_spread *held, struct sl_row_split *out);

    // out[to[i]] = table[rows[i]] as f32, otherwise as gather_rows; out has n_out rows, to[] are
    // different and below n_out.
    int (*gather_rows_to)(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                          const uint32_t *rows, const uint32_t *to, uint64_t n, uint64_t n_out,
                          float *out);

    // Equals split_rows, then gather_rows_to from the cache and (where there is one) from the
    // store.
    int (*gather_ranked)(const struct sl_gather_ranked_args *args);

    // out[to[i]] = x[i] for the n rows of x (n, dim); to[] are different and below n_out.
    int (*scatter_rows)(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                        uint64_t n_out, float *out);

    /*
     * All hops of a batch. Only tables of devices that draw whole batches have it (CUDA); NULL in
     * ref and cpu, as `sample` is in those. *state begins as NULL and is freed by draw_end.
     * `draw` asks for the batch, and draw_wait waits for it as sync() does: in the queue that the
     * thread used for `draw`; it goes round again where the batch found no room. In between the
     * topology and the index must stay, and nothing else be asked of the state. SL_ENOMEM,
     * SL_EUNSUPPORTED for 2^32 edges and more in all hops, SL_ERANGE for a seed that is no vertex.
     */
    int (*draw)(struct sl_draw_state **state, const struct sl_draw_args *args);
    int (*draw_wait)(struct sl_draw_state *state, struct sl_drawn *out);
    void (*draw_end)(struct sl_draw_state *state); // NULL is fine
    uint64_t (*draw_bytes)(const struct sl_draw_state *state);

    // --- what model layers need beside sums and products ---

    int (*gemm_bias_act)(const struct sl_gemm_bias_act_args *args, struct sl_mempool *ws);
    // Two products (n may be 0) that read the same a, with the bits of bias_act_backward and gemm.
    int (*weight_gradients)(const struct sl_weight_gradients_args *args, struct sl_mempool *ws);

    // out (n_dst); weight (n_edges) or NULL; degrees (at least n_dst), of SL_ROW_SCALE_UP, or NULL.
    int (*row_sums)(const struct sl_csr_view *csr, const float *weight, const uint32_t *degrees,
                    enum sl_row_sum what, float *out);
    // *n_loops: edges from a row to itself.
    int (*count_loops)(const struct sl_csr_view *csr, uint32_t *n_loops);
    int (*fix_loops)(const struct sl_fix_loops_args *args, struct sl_mempool *ws);
    int (*gcn_scales)(const struct sl_gcn_scales_args *args, struct sl_mempool *ws);
    int (*join_rows)(const struct sl_join_rows_args *args);

    // Attention as products (trainer/model/layer_gat.c). matrix (heads, heads * width): a (heads,
    // width) on the blocks of its diagonal, 0 elsewhere.
    int (*block_diagonal)(const float *a, uint32_t heads, uint32_t width, float *matrix);
    // a (heads, width) += the diagonal blocks of matrix.
    int (*add_block_diagonal)(const float *matrix, uint32_t heads, uint32_t width, float *a);
    // y (rows, width) = scale * sum over the heads of x (rows, heads * width) + beta * y.
    int (*sum_heads)(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                     float beta, float *y);
    // y (rows, heads * width): each head gets scale * x (rows, width).
    int (*spread_heads)(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                        float *y);

    // y[i] = f(x[i]), y may be x; dy[i] *= f'(x[i]).
    int (*curve)(enum sl_curve_kind f, uint64_t n, const float *x, float *y);
    int (*curve_backward)(enum sl_curve_kind f, uint64_t n, const float *x, float *dy);

    // y[i] = c + *a: a learned number (GIN's eps) and where it is used.
    int (*fill_sum)(uint64_t n, float c, const float *a, float *y);
    // y[i] += (c + *a) * x[i].
    int (*add_scaled)(uint64_t n, float c, const float *a, const float *x, float *y);
    // *sum += <x, y>, added up in f64 in an order that depends on n alone.
    int (*add_dot)(uint64_t n, const float *x, const float *y, float *sum, struct sl_mempool *ws);

    // y[i] = max(y[i], x[i]); of equals y stays.
    int (*maximum)(uint64_t n, const float *x, float *y);
    // Of h[0 .. n_layers), each (n), and their element-wise maximum max: dy[i] += dmax[i] where
    // h[layer][i] is the maximum and no earlier layer's is. n_layers <= SL_MAXIMUM_LAYERS.
    int (*maximum_backward)(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                            const float *dmax, float *dy);

    // A batch norm by its running statistics: scale = gamma / sqrt(variance + eps), shift = beta -
    // mean * scale. All (dim).
    int (*running_scale)(uint32_t dim, float eps, const float *gamma, const float *beta,
                         const float *mean, const float *variance, float *scale, float *shift);
    // Its gradients: dgamma, dbeta += ; dx assigned, may be dy. x, dy, dx (rows, dim).
    int (*running_backward)(uint64_t rows, uint32_t dim, float eps, const float *x,
                            const float *gamma, const float *mean, const float *variance,
                            const float *dy, float *dgamma, float *dbeta, float *dx);
    // r[i] += momentum * (batch[i] - r[i]).
    int (*running_average)(uint64_t n, float momentum, const float *batch, float *r);

    // --- pairs of rows: what decoders of links are made of ---

    int (*pair_dot)(const struct sl_pair_dot_args *args);
    // out[p] (n, dim) = what `combine` makes of x[ids[2p]] and x[ids[2p + 1]].
    int (*pair_rows)(uint64_t n, const uint32_t *ids, uint32_t dim, enum sl_pair_combine combine,
                     const float *x, float *out);
    int (*pair_gradient)(const struct sl_pair_gradient_args *args);
    int (*pair_loss)(const struct sl_pair_loss_args *args, struct sl_loss_result *out);
};

enum { SL_MAXIMUM_LAYERS = 8 }; // of maximum_backward

/*
 * The slots above, as X(extra, slot). `sample` has a list of its own (SL_SAMPLER_LIST), and so have
 * the slots of devices that draw whole batches. A back end's declarations and its table are made
 * from these lists.
 */
#define SL_KERNELS_SLOTS(X, extra)                                                                 \
    X(extra, gather_rows)                                                                          \
    X(extra, aggregate)                                                                            \
    X(extra, transpose)                                                                            \
    X(extra, gemm)                                                                                 \
    X(extra, bias_act)                                                                             \
    X(extra, bias_act_bf16)                                                                        \
    X(extra, bias_act_backward)                                                                    \
    X(extra, dropout)                                                                              \
    X(extra, softmax_xent)                                                                         \
    X(extra, sigmoid_bce)                                                                          \
    X(extra, squared_error)                                                                        \
    X(extra, edge_softmax)                                                                         \
    X(extra, edge_softmax_backward)                                                                \
    X(extra, edge_scores)                                                                          \
    X(extra, edge_scores_backward)                                                                 \
    X(extra, aggregate_heads)                                                                      \
    X(extra, edge_dot)                                                                             \
    X(extra, aggregate_max)                                                                        \
    X(extra, aggregate_max_backward)                                                               \
    X(extra, batch_norm)                                                                           \
    X(extra, batch_norm_backward)                                                                  \
    X(extra, layer_norm)                                                                           \
    X(extra, layer_norm_backward)                                                                  \
    X(extra, scale_columns)                                                                        \
    X(extra, normalize_rows)                                                                       \
    X(extra, normalize_rows_backward)                                                              \
    X(extra, reduce)                                                                               \
    X(extra, sum_squares)                                                                          \
    X(extra, adam)                                                                                 \
    X(extra, sgd)                                                                                  \
    X(extra, weight_prefix)                                                                        \
    X(extra, mark_ranks)                                                                           \
    X(extra, split_rows)                                                                           \
    X(extra, gather_rows_to)                                                                       \
    X(extra, gather_ranked)                                                                        \
    X(extra, scatter_rows)                                                                         \
    X(extra, gemm_bias_act)                                                                        \
    X(extra, weight_gradients)                                                                     \
    X(extra, row_sums)                                                                             \
    X(extra, count_loops)                                                                          \
    X(extra, fix_loops)                                                                            \
    X(extra, gcn_scales)                                                                           \
    X(extra, join_rows)                                                                            \
    X(extra, block_diagonal)                                                                       \
    X(extra, add_block_diagonal)                                                                   \
    X(extra, sum_heads)                                                                            \
    X(extra, spread_heads)                                                                         \
    X(extra, curve)                                                                                \
    X(extra, curve_backward)                                                                       \
    X(extra, fill_sum)                                                                             \
    X(extra, add_scaled)                                                                           \
    X(extra, add_dot)                                                                              \
    X(extra, maximum)                                                                              \
    X(extra, maximum_backward)                                                                     \
    X(extra, running_scale)                                                                        \
    X(extra, running_backward)                                                                     \
    X(extra, running_average)                                                                      \
    X(extra, pair_dot)                                                                             \
    X(extra, pair_rows)                                                                            \
    X(extra, pair_gradient)                                                                        \
    X(extra, pair_loss)
#define SL_KERNELS_DRAW_SLOTS(X, extra)                                                            \
    X(extra, draw) X(extra, draw_wait) X(extra, draw_end) X(extra, draw_bytes)

// Declares sl_<backend>_<slot> with the slot's signature.
#define SL_KERNELS_DECLARE(backend, slot)                                                          \
    __typeof__(*((struct sl_kernels *)0)->slot) sl_##backend##_##slot;

const struct sl_kernels *sl_kernels_ref(void);
const struct sl_kernels *sl_kernels_cpu(void);
// Of the cpu back end gather_rows, split_rows, gather_rows_to, sample and weight_prefix alone
// (kernels/rows.c).
const struct sl_kernels *sl_kernels_rows(void);

struct sl_device; // common/device/device.h

// Makes GPU `index` the device of this process, with the operations on its memory; at most
// budget_bytes of it are taken (0: as much as there is). Closed by the process's end. SL_ENOENT,
// SL_EPROTO or SL_EDEVICE with what is missing and what there is (common/device/plugin.h).
int sl_kernels_open_gpu(uint32_t index, uint64_t budget_bytes, const struct sl_device **device,
                        const struct sl_kernels **kernels);

// By name ("ref", "cpu"); "cuda" once the plug-in's device is open; NULL when there is none.
const struct sl_kernels *sl_kernels_find(const char *name);

// Threads of the cpu back end's operations from now on, for callers that have no cores of their
// own.
void sl_kernels_set_threads(int n);

/*
 * Processor time of the calling thread's operations, measured for one caller at a time: its own,
 * and that of the threads that help it. The sum is what one core would take; its own is the elapsed
 * time where each thread has a core. Neither changes while other programs use the machine.
 */
struct sl_core_time {
    uint64_t own_ns, helpers_ns;
    uint32_t threads; // its operations have now
};
void sl_kernels_measure(bool on); // helpers are only counted while it is on
struct sl_core_time sl_kernels_core_time(void);

// Work that is no operation: body(context, part) for every part below n_parts, in no stated order,
// by the calling thread and those that help it in operations of the cpu back end.
void sl_kernels_run(uint32_t n_parts, void (*body)(void *context, uint32_t part), void *context);

struct sl_cores; // common/device/cores.h

// From now on the calling thread, and the process's threads that help it, have exactly these cores,
// and its operations as many threads. SL_EINVAL when one of them cannot be had.
int sl_kernels_take_cores(const struct sl_cores *cores);

/*
 * The renumbering map: an open-addressing table with a stamp for each entry's batch, so that
 * forgetting a batch costs nothing. It grows with the batch, never with the graph.
 */
int sl_idmap_create(uint32_t expected_nodes, struct sl_idmap **out);
void sl_idmap_destroy(struct sl_idmap *map);
// Forgets everything and makes room for expected_nodes without growth.
int sl_idmap_reset(struct sl_idmap *map, uint32_t expected_nodes);
// Local id of `global`; appends it to nodes[*n_nodes] when new. SL_ERANGE when nodes is full.
int sl_idmap_insert(struct sl_idmap *map, uint32_t global, uint32_t *nodes, uint32_t *n_nodes,
                    uint32_t capacity, uint32_t *local);
// Whether `global` has a local id, and which.
bool sl_idmap_lookup(const struct sl_idmap *map, uint32_t global, uint32_t *local);
size_t sl_idmap_bytes(const struct sl_idmap *map);

#ifdef __cplusplus
}
#endif

#endif
