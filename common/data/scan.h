/*
 * scan.h - finds the first bad element of a mapped array, at memory speed.
 *
 * An array is cut into blocks of 1 MiB; threads reduce whole blocks with branch-free loops that the
 * vectoriser takes, and only a block known to be bad is searched for the position. The answer is
 * the lowest bad position whatever the number of threads. Private to common/data.
 */
#ifndef SL_DATA_SCAN_H
#define SL_DATA_SCAN_H

#include <stdint.h>

#include "common/data/dataset.h"

#define SL_SCAN_OK UINT64_MAX

// First element outside [0, limit) of n ids of type I32, U32, I64 or U64.
uint64_t sl_scan_ids(const void *ids, enum sl_dtype dtype, uint64_t n, uint64_t limit, int threads);

// First element outside [-1, n_classes) of n labels of any integer type.
uint64_t sl_scan_labels(const void *labels, enum sl_dtype dtype, uint64_t n, uint32_t n_classes,
                        int threads);

// First element of type F32 or F64 that is neither NaN nor a whole number in [-1, n_classes).
uint64_t sl_scan_class_numbers(const void *x, enum sl_dtype dtype, uint64_t n, uint32_t n_classes,
                               int threads);

// First element that is neither 0, 1, negative nor NaN: types F32, F64, I8, U8, I32 and I64.
uint64_t sl_scan_flags(const void *x, enum sl_dtype dtype, uint64_t n, int threads);

// First element that is infinite, or is when it becomes a float32; NaN passes. The same types.
uint64_t sl_scan_numbers(const void *x, enum sl_dtype dtype, uint64_t n, int threads);

// First element of type F32 or F16 that is NaN or infinite, of about so many `bytes` of the array,
// in blocks that are spread evenly over it, the first and the last among them. watch may be NULL.
uint64_t sl_scan_finite(const void *x, enum sl_dtype dtype, uint64_t n, uint64_t bytes, int threads,
                        const struct sl_dataset_watch *watch);

// What a pass over all lists of neighbours finds.
struct sl_scan_lists {
    bool have_loops; // a vertex is its own neighbour
    bool rise;       // each list is in rising order
};

// First edge of rows first_row to first_row + n_rows - 1 whose source is not in [first, first + n);
// without one `found` is set. Their first row is that of vertex `vertex`, the next are those of the
// next ones. Offsets are valid.
struct sl_scan_rows {
    uint64_t first_row, n_rows, vertex;
    uint64_t first, n; // below 2^32
};
// watch may be NULL.
uint64_t sl_scan_neighbours(const struct sl_dataset *ds, const struct sl_scan_rows *rows,
                            int threads, const struct sl_dataset_watch *watch,
                            struct sl_scan_lists *found);

// So many bytes have been looked at, by others than these.
static inline void sl_scan_report(const struct sl_dataset_watch *watch, uint64_t bytes)
{
    if (watch)
        watch->add(watch->ctx, bytes);
}

// First element that is NaN, infinite or negative.
uint64_t sl_scan_weights(const float *w, uint64_t n, int threads);

/*
 * First i >= 1 at which the offsets fall, pass n_edges, or rise by 2^32 or more; *max_degree is the
 * largest rise (meaningless when there is such an i). n_offsets = number of vertices + 1.
 */
uint64_t sl_scan_offsets(const uint64_t *offsets, uint64_t n_offsets, uint64_t n_edges, int threads,
                         uint64_t *max_degree);

// Whether each id, of type I32, U32, I64 or U64, is larger than the one before it.
bool sl_scan_ascend(const void *ids, enum sl_dtype dtype, uint64_t n, int threads);

/*
 * Position of the first id that occurred before, in a list of n ids that are all below n_nodes.
 * Lists in ascending order, the usual case, cost one pass; others a bit for each vertex as well.
 * SL_ENOMEM when there is no memory for that.
 */
int sl_scan_duplicates(const void *ids, enum sl_dtype dtype, uint64_t n, uint64_t n_nodes,
                       int threads, uint64_t *first);

// Element i of an integer array, sign-extended or, for U64, as it is.
uint64_t sl_scan_load(const void *v, enum sl_dtype dtype, uint64_t i);

static inline bool sl_dtype_is_signed(enum sl_dtype dtype)
{
    return dtype == SL_DTYPE_I8 || dtype == SL_DTYPE_I16 || dtype == SL_DTYPE_I32 ||
           dtype == SL_DTYPE_I64;
}

// Integer element `i` as the user wrote it.
const char *sl_scan_int_text(const void *v, enum sl_dtype dtype, uint64_t i, char buf[32]);

#endif
