/*
 * typed_pieces.h - one layer of a model of a graph of several types over vertices of one type,
 * piece by piece: what predictions (typed_graph.h) and evaluations (evaluate.h) are made of.
 *
 * A piece is a mini-batch of one hop with all neighbours (vicinity.h) of at most
 * SL_INFER_PIECE_ROWS vertices, and of as many edges as piece.h says: memory does not grow with the
 * graph. A vertex with more edges than that is a piece alone. Which pieces a range has depends on
 * the range alone.
 *
 * Vertices, edges and rows are put together by the processor; a GPU has a copy of them for as long
 * as it takes, and its results come back.
 */
#ifndef SL_TRAINER_INFER_TYPED_PIECES_H
#define SL_TRAINER_INFER_TYPED_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/feed/compute.h"
#include "trainer/feed/rows.h"
#include "trainer/infer/infer_io.h"
#include "trainer/infer/vicinity.h"
#include "trainer/model/model.h"

struct sl_typed_pieces {
    struct sl_model *model;
    struct sl_vicinity vicinity;
    struct sl_row_source features;
    struct sl_buffer x;     // rows that the block's vertices have: features, or the layer before's
    struct sl_buffer order; // rows of the result, where vertices are asked for twice
    // On a GPU: the block to be copied, what the device has of block and rows, and the result.
    struct sl_buffer block, there, result;
    uint64_t most_floats; // of a piece's sources: SL_INFER_PIECE_FLOATS
};

// Both are borrowed; the data set's features are mapped. SL_ENOMEM, as of all others.
int sl_typed_pieces_init(struct sl_typed_pieces *p, struct sl_model *model,
                         const struct sl_dataset *ds);
void sl_typed_pieces_fini(struct sl_typed_pieces *p); // safe on a zeroed struct

// From now on over this graph: the data set's own, or one with more edges (wider_graph.h).
void sl_typed_pieces_walk(struct sl_typed_pieces *p, const struct sl_dataset *graph);

// Edges of a piece of layer l at most.
uint64_t sl_typed_pieces_most(const struct sl_typed_pieces *p, uint32_t l);

// Edges that vertex v's row of layer l reads; 0 where nobody needs that row.
uint64_t sl_typed_pieces_edges(const struct sl_typed_pieces *p, uint32_t l, uint64_t v);

// p->x: the features of the block in hand.
int sl_typed_pieces_features(struct sl_typed_pieces *p);

// The block in hand, and what layer l reads of p->x, where the device reads them.
int sl_typed_pieces_bring(struct sl_typed_pieces *p, uint32_t l, struct sl_block_view *block,
                          float **x);

// *rows: those of the block's first vertices, which the device has (n_seeds, width), where the
// processor reads them until the next call. What was brought may then be written over.
int sl_typed_pieces_take_back(struct sl_typed_pieces *p, uint32_t width, const float **rows);

// *ordered: `rows` of the block's first vertices, `width` floats each, in the order of the range
// (n) that the block in hand is of. Valid until the next call, or as long as `rows`.
int sl_typed_pieces_order(struct sl_typed_pieces *p, const float *rows, uint32_t n, uint32_t width,
                          const float **ordered);

/*
 * The first piece of a range of vertices of one type, which is cut to it. *rows (range->n, hidden;
 * with `outputs` n_outputs), in the range's order, are the processor's until the next call.
 * `below`: rows of all vertices (n_nodes, hidden) of the layer before, not used for layer 0.
 * SL_EUNSUPPORTED for a vertex of 2^32 edges; SL_EABORTED when the job stops.
 */
int sl_typed_pieces_next(struct sl_typed_pieces *p, const float *params, uint32_t l, uint32_t type,
                         bool outputs, const float *below, struct sl_infer_range *range,
                         const float **rows);

// sl_evaluate_layer() of such a model: the range may be of vertices of several types, and rows that
// no later layer reads are left out. Of io: x (of layer 0 not used), y, rows, predictions, result.
int sl_typed_pieces_layer(struct sl_typed_pieces *p, const float *params, uint32_t layer,
                          const struct sl_infer_range *range, const struct sl_infer_io *io);

#endif
