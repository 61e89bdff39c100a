/*
 * overlap.h - vertices that two lists of a data set have in common.
 *
 * Lists in ascending order, the usual case, are merged, and take no memory; of others one is marked
 * in a bit for each vertex, of which only the pages that marks fall into become memory.
 */
#ifndef SL_DATA_OVERLAP_H
#define SL_DATA_OVERLAP_H

#include <stdint.h>

#include "common/base/dtype.h"
#include "common/data/dataset.h"

enum { SL_OVERLAP_SHOWN = 5, SL_OVERLAP_TEXT_BYTES = 192, SL_OVERLAPS_TEXT_BYTES = 1024 };

struct sl_overlap_list {
    const void *ids;     // (n) each at most once
    enum sl_dtype dtype; // I32, U32, I64 or U64
    uint64_t n;
};

struct sl_overlap {
    uint64_t n;
    uint32_t n_shown;
    uint64_t shown[SL_OVERLAP_SHOWN]; // the lowest ones, ascending
};

// Ids are below n_nodes. SL_ENOMEM.
int sl_overlap_find(const struct sl_overlap_list *a, const struct sl_overlap_list *b,
                    uint64_t n_nodes, int threads, struct sl_overlap *out);

// Those of the lists of a split that have vertices in common.
struct sl_overlaps {
    uint32_t n;
    struct {
        enum sl_split a, b; // a < b
        struct sl_overlap of;
    } pair[SL_SPLIT_COUNT];
};
int sl_overlaps_find(const struct sl_overlap_list list[SL_SPLIT_COUNT], uint64_t n_nodes,
                     int threads, struct sl_overlaps *out);

// "7 vertices (1, 4, 5, 8, 9, ...)"; returns buf.
char *sl_overlap_text(const struct sl_overlap *o, char buf[SL_OVERLAP_TEXT_BYTES]);
// "train_idx.npy and val_idx.npy share 1 vertex (3), ..."; returns buf.
char *sl_overlaps_text(const struct sl_overlaps *o, char buf[SL_OVERLAPS_TEXT_BYTES]);

#endif
