/*
 * pair_attention.h - the scores of GATv2 (layer_gatv2.c has the formulas) and the shares that they
 * make, of edges between the rows of two sides: `z` of the sources and `own` of the destinations,
 * which two maps make (struct sl_attention_edges).
 *
 * A score needs both rows at once: the kink stands between their sum and the vector att. So it
 * costs a pass over a row an edge (edge_scores), and backward one pass for each side.
 *
 * EDGES with features have lin_edge(e_ij) in that sum. In the scores each edge then is a source of
 * its own (attention.h), of the row z_j + lin_edge(e_ij).
 */
#ifndef SL_TRAINER_MODEL_PAIR_ATTENTION_H
#define SL_TRAINER_MODEL_PAIR_ATTENTION_H

#include "trainer/model/attention.h"

// *out: what scores read of the sources csr: z (n_src, columns); or, where the edges have features
// (term->d_in > 0; its att is not looked at), the rows that z and these make, at `room` (n_edges,
// columns).
int sl_pairs_rows(const struct sl_layer_env *env, const struct sl_attention_side *term,
                  const struct sl_csr_view *csr, const float *z, uint32_t columns, float *room,
                  const float **out);

// alpha (n_edges, heads) of the rows (n_src of scored, heads * width) and own (n_dst, heads *
// width), under att (heads, width).
int sl_pairs_shares(const struct sl_layer_env *env, const struct sl_attention *a,
                    const struct sl_csr_view *scored, const float *rows, const float *own,
                    const float *att, float *alpha);

// For the gradient dheads (n_dst, H*C) of all heads: dz (n_src, H*C) and down (n_dst, H*C), both
// assigned; to->att, and to->lin where there is a term, +=.
int sl_pairs_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                      const struct sl_attention_edges *edges, const float *att,
                      const struct sl_attention_side *term, const float *dheads,
                      const struct sl_attention_gradient *to, float *dz, float *down);

#endif
