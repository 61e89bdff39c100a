/*
 * shuffling_error.h - how far an order's mini-batches are from fair samples of the training set.
 *
 * BGL 3.2.2 estimates the shuffling error (Meng et al. 2019) by labels: the total variation
 * distance between a mini-batch's shares of labels and the training set's, half the sum of the
 * differences. Here it is the mean over all full batches. Batches of a uniform shuffle have an
 * error too, since they are small; what an order adds to it is its own.
 *
 * Classes count as themselves; of several labels that a vertex has, each; numbers by which
 * sixteenth of the training set their first one falls into.
 */
#ifndef SL_DATA_SHUFFLING_ERROR_H
#define SL_DATA_SHUFFLING_ERROR_H

#include <stdint.h>

#include "common/data/dataset.h"

struct sl_label_shares {
    const struct sl_dataset *dataset;
    uint32_t n_groups;
    double *share;   // (n_groups) of the training set's labels; owned, as the others are
    uint64_t *count; // (n_groups) of one mini-batch
    float *target;   // (n_classes) of one vertex
    float bound[15]; // REGRESSION: where the next sixteenth begins
};

// SL_ENOMEM.
int sl_label_shares_open(struct sl_label_shares *shares, const struct sl_dataset *ds,
                         const struct sl_vertex_list *train);
void sl_label_shares_close(struct sl_label_shares *shares);

// Of an order of n vertices. 0 where there is no full batch.
double sl_shuffling_error(struct sl_label_shares *shares, const uint32_t *order, uint64_t n,
                          uint32_t batch_size);

#endif
