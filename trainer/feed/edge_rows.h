/*
 * edge_rows.h - features of the edges of a plain graph, as layers read them in which each vertex is
 * its own neighbour once (heads.h): list after list a row for each edge but those from the vertex
 * to itself, and then one for the vertex itself, which is the mean of these, 0 where there are
 * none (torch_geometric's fill_value "mean"). Rows are f32. The processor makes them, from files
 * that are mapped.
 *
 * Of a block they lie behind the rows of its vertices, from a multiple of 64 bytes on; the last hop
 * has the first place. A hop that is the first part of the next one, where hops share arrays, has
 * the first of that one's rows.
 */
#ifndef SL_TRAINER_FEED_EDGE_ROWS_H
#define SL_TRAINER_FEED_EDGE_ROWS_H

#include <stdint.h>

#include "common/arena/block.h"
#include "trainer/feed/rows.h"

// Lists whose rows are made.
struct sl_edge_lists {
    uint32_t n_lists, n_rows;
    const uint32_t *indptr; // (n_lists + 1)
    const uint64_t *ids;    // (n_rows) places in indices.npy, or SL_EDGE_OF_ITSELF
};

// out (n_rows, width of the features). SL_ERANGE for what is no edge; SL_ENOMEM.
int sl_edge_rows_copy(struct sl_row_source *s, const struct sl_kernels *kernels,
                      const struct sl_edge_lists *lists, float *out);

// Byte where the rows of a block's edges end, which begin behind `vertices` bytes; `dim` 0: there.
// at (n_hops), or NULL: where each hop's begin.
uint64_t sl_edge_rows_end(const struct sl_block *block, uint32_t dim, uint64_t vertices,
                          uint64_t *at);

// Those of a plain block, where `out` is what is behind `vertices` bytes. Nothing is done where no
// features are read. Errors of the first; SL_EPROTO for a block without edges' numbers.
int sl_edge_rows_copy_block(struct sl_row_source *s, const struct sl_kernels *kernels,
                            const struct sl_block *block, uint64_t vertices, void *out);

#endif
