/*
 * typed_block.h - a typed block beside the types and relations of its graph: whether they agree,
 * and where the rows of features of each type lie.
 *
 * The features of a batch are one piece of memory: the rows of type 0, then those of type 1, ...,
 * each type's with its own width, each from a multiple of 64 bytes on. A type without features has
 * none. Where the first layer reads its sources in the data set's files, the rows are those of its
 * destinations alone (NEAR).
 *
 * Where features of edges are read (struct sl_relation), those of the runs' edges are behind, a row
 * of f32 for each edge in the run's order, likewise from a multiple of 64 bytes on. A run that is
 * the first part of the next hop's, where hops share arrays, has the first of that one's rows.
 */
#ifndef SL_TRAINER_FEED_TYPED_BLOCK_H
#define SL_TRAINER_FEED_TYPED_BLOCK_H

#include <stdint.h>

#include "common/arena/block.h"
#include "common/data/dataset.h"
#include "kernels/kernels.h"

// Whether a block that sl_block_check_shape() has passed is one of this graph, as any is of a plain
// one: SL_EPROTO with what is not.
int sl_typed_block_check(const struct sl_block *block, const struct sl_typed *typed);

// Rows of a type in the batch.
static inline uint32_t sl_typed_block_rows(const struct sl_block *block, uint32_t type)
{
    return sl_block_types(block)[type].n[block->n_hops];
}

// Which rows of vertices a batch brings, and of what numbers.
enum sl_typed_layout {
    SL_TYPED_F32,
    SL_TYPED_AS_STORED, // each type's in its own type of numbers
    SL_TYPED_NEAR,      // f32, of the first layer's destinations alone
};

// How many of a type.
static inline uint32_t sl_typed_layout_rows(const struct sl_block *block, uint32_t type,
                                            enum sl_typed_layout layout)
{
    return sl_block_types(block)[type].n[block->n_hops - (layout == SL_TYPED_NEAR)];
}

// Byte where the rows of a type begin; n_types: the bytes of all.
uint64_t sl_typed_rows_at(const struct sl_block *block, const struct sl_typed *typed, uint32_t type,
                          enum sl_typed_layout layout);

#define SL_NO_EDGE_ROWS UINT64_MAX
// Byte where the rows of all runs' edges end, the first of which begin at `first`. at (n_runs), or
// NULL: where each run's begin, SL_NO_EDGE_ROWS for a relation without features.
uint64_t sl_typed_edge_rows(const struct sl_block *block, const struct sl_typed *typed,
                            uint64_t first, uint64_t *at);
// Bytes of a run's rows, and to where the next one's begin.
uint64_t sl_typed_edge_bytes(const struct sl_typed *typed, const struct sl_block_run *run);
// The run whose rows the edges of a run with features have: itself, or the next hop's.
const struct sl_block_run *sl_typed_edge_owner(const struct sl_block *block,
                                               const struct sl_block_run *run);
// Bytes of all rows, of vertices as sl_typed_rows_at() has them and of edges.
uint64_t sl_typed_block_bytes(const struct sl_block *block, const struct sl_typed *typed,
                              enum sl_typed_layout layout);

// Byte where rows of edges begin behind those (n_input, width) that a layer gave to all vertices.
uint64_t sl_typed_activations_end(const struct sl_block *block, uint32_t width);

// The edges of a run as kernels read them.
struct sl_csr_view sl_run_csr(struct sl_block_view block, const struct sl_typed *typed,
                              const struct sl_block_run *run);

// The run of a relation in a hop, or NULL: it has no edges there.
const struct sl_block_run *sl_block_find_run(const struct sl_block *block, uint32_t hop,
                                             uint32_t relation);

#endif
