/*
 * decoder.h - a score for a pair of vertices, from their embeddings: what a job of links has behind
 * its layers.
 *
 *   dot        <u, v>
 *   cosine     <u / |u|, v / |v|>
 *   distmult   sum of w_c u_c v_c        weight (dim), ones at first: dot
 *   bilinear   u' W v                    weight (dim, dim), Glorot: the one that tells u from v
 *   mlp        lin2(relu(lin1(x)))       lin1 (hidden, in) and lin2 (1, hidden) with biases, as
 *                                        torch.nn.Linear begins; x is u * v or |u - v|, in = dim,
 *                                        or u and v side by side, in = 2 dim
 *
 * Tensors are named as those of a torch module `decoder` beside the model and stand behind the
 * model's: decoder.weight; decoder.lin1.weight, .bias, decoder.lin2.weight, .bias.
 *
 * But for mlp no row is made for a pair: a product reads both rows where they lie, so many
 * negatives of few vertices cost little. What an embedding gets back is a sum over the ends of its
 * vertex in pairs, in their order (kernels.h, pair_gradient), so bits do not depend on threads.
 */
#ifndef SL_TRAINER_MODEL_DECODER_H
#define SL_TRAINER_MODEL_DECODER_H

#include <stdint.h>

#include "config/config.h"
#include "trainer/model/layer.h"

enum { SL_DECODER_TENSORS = 4 };

struct sl_decoder {
    enum sl_decoder_kind kind;
    enum sl_combine_kind combine;
    uint32_t dim, hidden;
    uint64_t offset[SL_DECODER_TENSORS]; // of its tensors, in the order of describe()
};

// Embeddings and the pairs of them that are scored.
struct sl_decoder_pairs {
    const float *x; // (rows, dim)
    uint64_t rows;
    const uint32_t *ids; // (n, 2) below `rows`
    uint64_t n;
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_decoder_tape {
    struct sl_decoder_pairs pairs;
    const float *a;      // (rows, dim) rows of the sources; of the targets they are b
    const float *b;      // both of all but mlp
    float *inverse;      // (rows) of cosine: 1 / length
    float *in;           // (n, in) of mlp
    float *hidden;       // (n, hidden) of mlp
    const float *scores; // (n)
};

struct sl_decoder sl_decoder_of(const struct sl_config *config);

// Returns how many tensors there are: 0 for dot and cosine.
uint32_t sl_decoder_describe(const struct sl_decoder *d,
                             struct sl_tensor tensors[SL_DECODER_TENSORS]);

// scores (n); memory of the pool. SL_ENOMEM.
int sl_decoder_forward(const struct sl_layer_env *env, const struct sl_decoder *d,
                       const float *params, const struct sl_decoder_pairs *pairs, float *scores,
                       struct sl_decoder_tape *tape);

// For dscores (n), which are overwritten: gradient (flat, like params) += ; dx (rows, dim) is
// assigned. SL_EUNSUPPORTED for 2^31 pairs and more, SL_ENOMEM.
int sl_decoder_backward(const struct sl_layer_env *env, const struct sl_decoder *d,
                        const float *params, const struct sl_decoder_tape *tape, float *dscores,
                        float *gradient, float *dx);

// The same scores without a way back. The pool, which holds nothing else, is reset; what is taken
// of it is bounded by the rows, whatever n is.
int sl_decoder_score(const struct sl_layer_env *env, const struct sl_decoder *d,
                     const float *params, const struct sl_decoder_pairs *pairs, float *scores);

#endif
