// predict_pairs.h - `sluice predict --pairs`: scores of pairs that a user names.
#ifndef SL_TRAINER_PREDICT_PAIRS_H
#define SL_TRAINER_PREDICT_PAIRS_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/npy.h"
#include "trainer/model/model.h"

// A zeroed one is empty. What it holds: 8 bytes a pair, and the embeddings of their ends.
struct sl_predict_pairs {
    uint64_t n;
    uint32_t *pairs; // (n, 2) rows of ends
    uint64_t n_ends;
    uint32_t *ends;    // (n_ends) vertices, ascending
    float *embeddings; // (n_ends, width)
};

// Reads the pairs, ids as users know them: `renamed` has those of a reordered data set now (or
// NULL); of a graph of several types numbers in the two types of the linked relation. SL_EINVAL,
// SL_EFORMAT, SL_ENOMEM.
int sl_predict_pairs_open(struct sl_predict_pairs *p, const char *path,
                          const struct sl_dataset *dataset, const uint32_t *renamed,
                          uint32_t width);
// How many of the ends are vertices before that one: they are ascending.
uint64_t sl_predict_pairs_before(const struct sl_predict_pairs *p, uint64_t vertex);
// The embeddings of ends first .. first + n - 1.
void sl_predict_pairs_put(struct sl_predict_pairs *p, uint32_t width, uint64_t first, uint32_t n,
                          const float *rows);
// Once all ends have theirs: a score for each pair, in the file's order; through a sigmoid where
// `sigmoid`. *not_finite, *first_broken: those that are not, and the first of them.
int sl_predict_pairs_write(struct sl_predict_pairs *p, struct sl_model *model, const float *params,
                           bool sigmoid, struct sl_npy_writer *writer, uint64_t *not_finite,
                           uint64_t *first_broken);
void sl_predict_pairs_fini(struct sl_predict_pairs *p);

#endif
