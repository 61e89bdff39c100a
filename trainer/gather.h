/*
 * gather.h - the Extract stage: a block's features, from the cache and from the store.
 *
 * The ranks that the sampler marked a block with say which of its input nodes the cache holds. Two
 * lists are made of them without a branch a row (kernels: split_rows), and each is gathered in one
 * go to its places in the batch (gather_rows_to), so neither inner loop asks where a row comes
 * from. Blocks without ranks, or of another hotness order than the cache's, come from the store
 * alone. The result is the same to the bit: a cache holds copies.
 *
 * Buffer and lists grow to the largest batch met; nothing is allocated after that.
 */
#ifndef SL_TRAINER_GATHER_H
#define SL_TRAINER_GATHER_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/cache.h"

enum { SL_GATHER_LISTS = 4 }; // of rows and places, for hits and for misses (sl_row_split)

// Where a batch's features go.
struct sl_feature_buffer {
    float *p; // (n_input, feat_dim)
    size_t bytes;
};

struct sl_gather {
    const struct sl_dataset *dataset;
    const struct sl_kernels *kernels;
    uint32_t *lists; // SL_GATHER_LISTS of them
    size_t lists_bytes;
};

// What the last gathering did.
struct sl_gathered {
    uint64_t ns;
    uint64_t hits;                  // input nodes that the cache had
    uint64_t hit_bytes, miss_bytes; // of the store's type
};

// cache may be NULL. SL_ENOMEM; SL_ERANGE when the block names a vertex that the store has not.
int sl_gather_block(struct sl_gather *g, const struct sl_cache *cache, const struct sl_block *block,
                    struct sl_feature_buffer *to, struct sl_gathered *out);

void sl_feature_buffer_fini(struct sl_feature_buffer *b); // safe on a zeroed struct
void sl_gather_fini(struct sl_gather *g);                 // safe on a zeroed struct

#endif
