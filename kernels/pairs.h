// pairs.h - arguments of the operations on pairs of rows (kernels.h, whose conventions hold).
#ifndef SL_KERNELS_PAIRS_H
#define SL_KERNELS_PAIRS_H

#include <stdint.h>

/*
 * Pairs of rows, as decoders of links have them: pair p is rows ids[2p], its source, and
 * ids[2p + 1], its target. Ids are not looked at, as those of edges are not. The rows' side of it
 * is a list of ends, 2p for a source and 2p + 1 for a target, ascending in each row: the t_edge of
 * the transpose of an adjacency whose row p has these two.
 */

// score[p] = sum over the columns of scale * a[source] * b[target].
struct sl_pair_dot_args {
    uint64_t n;
    const uint32_t *ids; // (n, 2)
    uint32_t dim;
    const float *a, *b; // (any, dim)
    const float *scale; // (dim) or NULL: 1
    float *score;       // out (n)
};

// What a pair's rows become, column by column.
enum sl_pair_combine {
    SL_PAIR_PRODUCT,    // their product
    SL_PAIR_DIFFERENCE, // the absolute value of their difference, whose derivative is 0 where it is
};

enum sl_pair_side { SL_PAIR_BOTH, SL_PAIR_SOURCE, SL_PAIR_TARGET };

// The gradient of pair_dot or pair_rows in the rows: dx[i] = scale * sum over the ends of row i, in
// their order, of the pair's gradient times the derivative, that of a product: the other row.
struct sl_pair_gradient_args {
    uint32_t n_rows, n;     // rows; pairs, below 2^31
    const uint32_t *ids;    // (n, 2)
    const uint32_t *indptr; // (n_rows + 1) of ends
    const uint32_t *ends;   // (2n)
    enum sl_pair_side side; // whose ends count
    enum sl_pair_combine combine;
    uint32_t dim;
    const float *own;    // (n_rows, dim), where it is DIFFERENCE
    const float *other;  // (any, dim)
    const float *scale;  // (dim) or NULL: 1
    const float *dscore; // (n) of pair_dot; or NULL, and
    const float *drows;  // (n, dim) of pair_rows
    float *dx;           // (n_rows, dim), assigned
};

// The values are those of task.loss (config.h).
enum sl_pair_loss {
    SL_LOSS_PAIR_BCE,     // of each pair: positives are 1, the others 0
    SL_LOSS_PAIR_MARGIN,  // of a positive and a negative of it: max(0, margin - p + n)
    SL_LOSS_PAIR_BPR,     // likewise: -log sigmoid(p - n)
    SL_LOSS_PAIR_SOFTMAX, // of a positive: -log(e^p / (e^p + sum of e^n over its negatives))
};

/*
 * Losses of scores. Negative j of positive i is pair n_positive + i * per_positive + j; BCE looks
 * at n alone. A pair of weight 0 is not there, and neither is a positive without negatives where
 * they are compared. A positive's weight multiplies its terms; a negative's counts in BCE alone.
 * Scores lose their shift first. result: weight is the sum of the weights of the terms, those of
 * positives with SOFTMAX; counted are pairs, and correct those whose score (without its shift) is
 * above 0 as it should be, of the others comparisons and positives above their negative.
 */
struct sl_pair_loss_args {
    enum sl_pair_loss loss;
    uint64_t n, n_positive;
    uint32_t per_positive;
    float margin;
    const float *score;  // (n)
    const float *weight; // (n) or NULL: 1
    const float *shift;  // (n) or NULL: 0
    float *dscore;       // (n), assigned, the gradient of the summed loss; NULL: not wanted
};

#endif
