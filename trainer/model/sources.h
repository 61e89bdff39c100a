/*
 * sources.h - numbers the different source vertices of a piece of inference; products over them.
 *
 * PROBLEM. GAT and PinSAGE transform each source before the neighbours are summed up. A piece names
 * its sources by their number in the whole graph, once for every edge: transformed edge by edge the
 * same row would be computed many times over, and transformed for the whole graph it would need
 * memory that grows with the graph.
 *
 * DESIGN. The piece's sources are sorted (radix sort, linear in the edges) and numbered, by the
 * processor; a product gathers their rows in ascending order of vertices, a few thousand at a time,
 * so what is held is the result and one such chunk. Kinds that need many columns compute them in
 * groups, each of which fits SL_SOURCES_FLOATS where one column (or head) of all sources does. How
 * rows are grouped depends on the piece alone and not on where its x lies.
 */
#ifndef SL_TRAINER_MODEL_SOURCES_H
#define SL_TRAINER_MODEL_SOURCES_H

#include <stdint.h>

#include "trainer/model/layer.h"

enum { SL_SOURCES_FLOATS = 1 << 24 };

// The different ones of some vertices, in the notes.
struct sl_source_numbering {
    uint32_t n;
    const uint32_t *ids;   // (n) vertices, ascending
    const uint32_t *local; // for each of those that were given its position in ids
};

// Numbers n vertices, of n_vertices that there are. SL_ENOMEM, SL_EUNSUPPORTED for 2^32 and more.
int sl_sources_number(const struct sl_layer_env *env, const uint32_t *vertices, uint64_t n,
                      uint32_t n_vertices, struct sl_source_numbering *out);

struct sl_sources {
    uint32_t n;
    const uint32_t *rows;     // (n) rows of the piece's x, the device's, vertices ascending
    struct sl_csr_view csr;   // the piece's lists, with positions in rows; n_src = n
    struct sl_csr_view lists; // the same, the processor's
};

// In pool memory and notes. SL_ENOMEM.
int sl_sources_find(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                    struct sl_sources *out);

// Columns (a multiple of `unit`, at least one unit, at most n_columns) that one group should have.
uint32_t sl_sources_columns(const struct sl_sources *sources, uint32_t unit, uint32_t n_columns);

// y (n, columns) = x[rows] weight', weight (columns, d_in). Holds pool memory for a chunk of rows:
// `chunk` is NULL before the first call and is used again by the next.
int sl_sources_product(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                       const struct sl_sources *sources, uint32_t d_in, const float *weight,
                       uint32_t columns, float **chunk, float *y);

#endif
