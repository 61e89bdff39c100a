/*
 * source_row_cache.h - what GAT and PinSAGE make of a layer's sources, kept from piece to piece;
 * what features add up to, kept from evaluation to evaluation.
 *
 * PROBLEM. Both transform each source before the neighbours are summed up. A vertex is a source of
 * many pieces: made anew for each of them (sources.h) its row is computed as many times as it has
 * out-edges into other pieces.
 *
 * DESIGN. A matrix (or several side by side) of all vertices, in the process's own memory, and a
 * bit for each row that is there. A piece first makes the rows of its sources that are not there
 * yet, some thousand at a time, then reads all of them at their vertices' ids. Pages of rows that
 * nobody reads are never touched. Rows are forgotten when another layer, or the same one with other
 * parameters, is asked for; the memory stays for the next.
 *
 * It is taken where it is no more than this trainer's share of a quarter of what is available;
 * else, and on a GPU, whose products round with the number of rows beside them, pieces make their
 * own. Rows have the same bits either way.
 */
#ifndef SL_TRAINER_MODEL_SOURCE_ROW_CACHE_H
#define SL_TRAINER_MODEL_SOURCE_ROW_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/layer.h"

enum { SL_KEPT_MATRICES = 3 };

struct sl_source_row_cache {
    uint32_t sharers; // trainers that share the machine's memory; 0 = nothing is kept
    uint64_t tag;     // of the rows that are there; another one for other inputs or parameters
    bool refused;     // under this tag: too large
    uint64_t n_nodes;
    uint32_t n, width[SL_KEPT_MATRICES];
    float *matrix[SL_KEPT_MATRICES]; // (n_nodes, width)
    uint64_t *has;                   // a bit a vertex
    float *memory;
    uint64_t bytes;    // of memory
    uint64_t has_rows; // that `has` has room for
    uint64_t made;     // rows, in all: for tests
};

// Makes a kind's rows: out[m] (rows, width[m]) of x (rows, d_in). May use the pool.
typedef int sl_source_row_cache_make(const struct sl_layer_env *env, const struct sl_layer *layer,
                                     const float *params, const float *x, uint32_t rows,
                                     float **out);

// Rows are those of `tag` from here on; rows of another tag are forgotten. 0: nothing is kept.
void sl_source_row_cache_begin(struct sl_source_row_cache *kept, uint64_t tag);

/*
 * Makes sure that the n matrices of these widths have the rows of the piece's sources and of its
 * own vertices. *there is false where nothing is kept: then nothing was done.
 */
int sl_source_row_cache_bring(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *params, const struct sl_infer_piece *piece, uint32_t n,
                              const uint32_t *width, sl_source_row_cache_make *make, bool *there);

/*
 * The other way round: rows that the neighbours of a vertex add up to, where no parameter has a
 * part in it. Those of the features are the same in each evaluation of a job, and
 * piece->kept_sums keeps them by the vertices of the rows.
 *
 * *rows (n_dst, dim), the device's: with *there they are what the piece's rows add up to; else the
 * caller adds up there and hands them to sl_kept_sums_leave(). SL_ENOMEM.
 */
int sl_kept_sums_take(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                      uint32_t dim, float **rows, bool *there);
int sl_kept_sums_leave(const struct sl_infer_piece *piece, uint32_t dim, const float *rows);

void sl_source_row_cache_free(struct sl_source_row_cache *kept); // safe on a zeroed struct

#endif
