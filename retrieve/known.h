// known.h - targets of a data set's edges from some vertices, for those who look each one up.
#ifndef SL_RETRIEVE_KNOWN_H
#define SL_RETRIEVE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

// A zeroed one is empty.
struct sl_known {
    uint64_t n;        // edges
    uint64_t *edges;   // (n) source << 32 | target, ascending
    uint64_t capacity; //
};

// Edges from these vertices (n), in ids from before a reordering of the data set. Of a graph of
// several types those of its linked relation, in numbers within source and target type. O(E).
// SL_ENOMEM, SL_EABORTED.
int sl_known_find(struct sl_known *k, const struct sl_dataset *ds, const uint32_t *vertices,
                  uint64_t n);
bool sl_known_has(const struct sl_known *k, uint32_t source, uint32_t target);
void sl_known_fini(struct sl_known *k);

#endif
