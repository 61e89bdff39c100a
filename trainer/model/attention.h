/*
 * attention.h - the scores of GAT (layer_gat.c has the formulas) and the shares that they make, of
 * edges between the rows of two sides: sources and destinations, which may be the same rows.
 *
 * SCORES are products: with the att vectors as the blocks of a block-diagonal matrix (H, H*C) they
 * are z times its transpose. That is H times the arithmetic of a loop, still far less than that of
 * lin, and takes the products' threads and SIMD. Scores are always computed in f32: the
 * exponential multiplies what is rounded there.
 *
 * TRAINING takes the scores from x instead: z matrix' = x (matrix lin)', where matrix lin is (H,
 * d_in). Then z, the widest matrix of a layer, is not read for them, and backward adds nothing to
 * dz: with G = dscore' x, (H, d_in), the scores' part of the gradient of lin is matrix' G, that of
 * att the diagonal blocks of G lin', and that of x is dscore (matrix lin).
 *
 * EDGES may have a term of their own in the scores, <att_edge_h, lin_edge(e_ij)_h> of features e_ij
 * of the edge (GATConv's edge_dim): one side more, whose rows are the edges. Each edge then is a
 * source of its own as far as scores go: its score is its source's and its own.
 */
#ifndef SL_TRAINER_MODEL_ATTENTION_H
#define SL_TRAINER_MODEL_ATTENTION_H

#include <stdint.h>

#include "trainer/model/layer.h"

struct sl_attention {
    uint32_t heads, width; // H, C
};

struct sl_attention_side {
    const float *x; // (rows, d_in)
    uint64_t rows;
    uint32_t d_in;
    const float *lin; // (H*C, d_in)
    const float *att; // (H, C)
};

// Where gradients of a side are added.
struct sl_attention_gradient {
    float *lin, *att;
    float *dx; // (rows, d_in), or NULL
};

// What a forward knows of the edges and its backward needs.
struct sl_attention_edges {
    struct sl_csr_view csr;
    // The same edges as scores have them: csr; or each is a source of its own, where it has a term
    // that score_src[e] has beside its source's.
    struct sl_csr_view scored;
    const float *z;                     // (n_src, H*C)
    const float *score_src, *score_dst; // (n_src of scored, H), (n_dst, H); of pairs instead
    const float *rows, *own;            // (n_src of scored, H*C), (n_dst, H*C): pair_attention.h
    const float *alpha;                 // (n_edges, H) the shares
    const float *kept;                  // (n_edges, H) what the rows of z were multiplied by:
    struct sl_dropout dropout;          // alpha after it, where its rate is not 0,
    float scale;                        // times this
};

// *score (rows, H, in the pool).
int sl_attention_scores(const struct sl_layer_env *env, const struct sl_attention *a,
                        const struct sl_attention_side *side, float **score);
// What dscore (rows, H) of a side gives.
int sl_attention_scores_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                                 const struct sl_attention_side *side, const float *dscore,
                                 const struct sl_attention_gradient *gradient);
// score (rows, H) of z (rows, H*C), under att (H, C).
int sl_attention_scores_of_z(const struct sl_layer_env *env, const struct sl_attention *a,
                             const float *z, uint64_t rows, const float *att, float *score);

// *out: the edges of csr, each of which is a source of its own.
int sl_attention_own_sources(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                             struct sl_csr_view *out);
// *out (n_src, dim, in the pool): for each source the sum of rows (n_edges, dim) of its edges.
int sl_attention_sum_edges(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                           uint32_t dim, const float *rows, float **out);
// Scores of sources *score (n_src, H) become those of edges (n_edges, H), with the edges' term.
int sl_attention_add_term(const struct sl_layer_env *env, const struct sl_attention *a,
                          const struct sl_attention_side *edges, const struct sl_csr_view *csr,
                          float **score);
// What the gradient *dscore (n_edges, H) of the edges' scores gives their term; it becomes that of
// the sources' scores (n_src, H). csr NULL: the sources are the edges.
int sl_attention_term_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                               const struct sl_attention_side *edges, const struct sl_csr_view *csr,
                               const struct sl_attention_gradient *gradient, float **dscore);

// alpha (n_edges, heads)
int sl_attention_shares(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                        uint32_t heads, const float *score_src, const float *score_dst,
                        float *alpha);

// *dalpha (n_edges, H, in the pool): the shares' gradient for dheads (n_dst, H*C), that of all
// heads.
int sl_attention_shares_gradient(const struct sl_layer_env *env, const struct sl_attention *a,
                                 const struct sl_attention_edges *edges, const float *dheads,
                                 float **dalpha);

// For the gradient dheads (n_dst, H*C) of all heads: dz (n_src, H*C, assigned) but for what comes
// by way of the scores, and the gradients of these, of the shapes that scores have, in the pool.
int sl_attention_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                          const struct sl_attention_edges *edges, const float *dheads, float *dz,
                          float **dscore_src, float **dscore_dst);

#endif
