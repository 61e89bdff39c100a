// rows.h - copies rows of the feature store, in its own type, for batches, caches and devices.
#ifndef SL_TRAINER_FEED_ROWS_H
#define SL_TRAINER_FEED_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/data/dataset.h"
#include "common/arena/row_cache.h"
#include "kernels/kernels.h"
#include "trainer/feed/compute.h"
#include "trainer/feed/reading.h"

/*
 * Where rows come from: from the file where it is mapped; or from the machine's cache
 * (row_cache.h), and from the drive or from other nodes (reading.h) what that does not have. Only
 * the first is borrowed memory; one thread at a time.
 */
struct sl_row_source {
    const struct sl_dataset *dataset;
    struct sl_reading *reader;   // borrowed; NULL: the file is mapped
    struct sl_row_cache shared;  // without slots there is none
    struct sl_row_places places; // of the last copy
    struct sl_buffer raw;        // rows on their way, in a type's own type of numbers
    struct sl_buffer edges;      // lists of a plain graph's edges (edge_rows.h)
    // Edges whose numbers are counted in 32 bits at a time; 0: as many as these count.
    uint64_t edge_window;
};

void sl_row_source_fini(struct sl_row_source *s); // safe on a zeroed struct

/*
 * Vertices that follow one another and whose rows are of one width: all of a plain data set, of a
 * typed one those of a type.
 */
struct sl_row_range {
    uint64_t first, n;
    uint64_t row_bytes; // 0: they have no features
    uint32_t dim;
    enum sl_dtype dtype;
    const void *rows; // (n, dim) where they are mapped; of a shard its own
};

static inline uint32_t sl_row_ranges(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? ds->typed.n_types : 1;
}
struct sl_row_range sl_row_range(const struct sl_dataset *ds, uint32_t range);

static inline uint64_t sl_rows_bytes(const struct sl_dataset *ds)
{
    return ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
}

/*
 * Row vertices[i] to place to[i] of out (n_places rows), i of n, bit for bit in the store's own
 * type; to NULL: to place i. `kernels` are those of this process's memory. SL_ERANGE for what is no
 * vertex; SL_ENOMEM; errors of the reader.
 */
int sl_rows_copy(struct sl_row_source *s, const struct sl_kernels *kernels,
                 const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                 void *out);
// The same of vertices of one range.
int sl_rows_copy_of(struct sl_row_source *s, uint32_t range, const struct sl_kernels *kernels,
                    const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                    void *out);
// ... as f32.
int sl_rows_convert_of(struct sl_row_source *s, uint32_t range, const struct sl_kernels *kernels,
                       const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                       float *out);
// Rows of a table in memory that has this range's rows, in its type; `as_stored`: as they are, else
// as f32.
int sl_rows_take(const struct sl_row_range *range, const void *table, uint64_t n_rows,
                 const struct sl_kernels *kernels, const uint32_t *rows, const uint32_t *to,
                 uint32_t n, uint32_t n_places, bool as_stored, void *out);

/*
 * The rows of a typed block's vertices, where typed_block.h has each type's: as they are stored, or
 * as f32. SL_ERANGE for what is no vertex of its type; SL_ENOMEM; errors of the reader.
 */
int sl_rows_copy_typed(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, bool as_stored, void *out);

/*
 * The features of a typed block's edges as f32, where typed_block.h has them behind the rows of
 * vertices, from byte `first` of out on: from the files, which are mapped. SL_ERANGE for what is no
 * edge of its relation; SL_EPROTO for a block without edges' numbers; SL_ENOMEM.
 */
int sl_rows_copy_edges(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, uint64_t first, void *out);

#define SL_EDGE_OF_ITSELF UINT64_MAX // in a list of edges: the row of the vertex itself

// Of one relation: row i of out for edge ids[i], n of them; that of SL_EDGE_OF_ITSELF stays as it
// is. Errors as above.
int sl_rows_copy_edge_set(struct sl_row_source *s, const struct sl_kernels *kernels,
                          const struct sl_relation *r, const uint64_t *ids, uint32_t n, float *out);
int sl_rows_fail_unnumbered(const struct sl_block *block); // SL_EPROTO

// Of any block the rows of all its vertices, as they are stored; and their bytes in memory.
int sl_rows_copy_block(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, void *out);
uint64_t sl_rows_block_bytes(const struct sl_dataset *ds, const struct sl_block *block);

// Bytes that a block's rows take in the machine's cache, but for those that do not lie there: of a
// plain data set `near` rows, of types those that the reader (NULL: none) has mapped. Disjoint
// seeds have vertices several times: a cache of all rows has room for any block.
uint64_t sl_rows_cached_bytes(const struct sl_dataset *ds, const struct sl_block *block,
                              uint64_t near, const struct sl_reading *reader);

// Whether some vertex has features.
bool sl_rows_any(const struct sl_dataset *ds);

#endif
