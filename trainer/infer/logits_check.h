// logits_check.h - compares the outputs of a model with those of its original in another program.
#ifndef SL_TRAINER_INFER_LOGITS_CHECK_H
#define SL_TRAINER_INFER_LOGITS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/npy.h"

struct sl_logits_check {
    const char *path; // borrowed
    struct sl_npy original;
    uint64_t columns;
    // The largest difference: divided by the largest magnitude of the original's row where that is
    // above 1, so it is absolute for small outputs and relative for large ones.
    double largest;
    uint64_t row, column; // where it is,
    double found, wanted; // and what stands there
    // All of the original's rows are logarithms of probabilities: what log_softmax gives.
    bool log_probabilities;
};

/*
 * `path` has float32 or float64 (rows, columns), or (rows) of one column. A zeroed struct is a
 * closed one. SL_EFORMAT for other shapes and types, and as sl_npy_open().
 */
int sl_logits_check_open(struct sl_logits_check *c, const char *path, uint64_t rows,
                         uint64_t columns);
void sl_logits_check_close(struct sl_logits_check *c);

// The model's rows (n, columns) from row `first` on. An output that is not finite is infinitely
// far; SL_EFORMAT for an original that is not finite.
int sl_logits_check_put(struct sl_logits_check *c, uint64_t first, uint64_t n, const float *rows);

#endif
