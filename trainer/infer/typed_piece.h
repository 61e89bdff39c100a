/*
 * typed_piece.h - one layer of a model of a graph of several types, for vertices of one type with
 * all their neighbours: a mini-batch of one hop (vicinity.h), and the rows that it reads.
 *
 * A piece is bounded as those of a plain graph are (piece.h), and depends on its range alone.
 */
#ifndef SL_TRAINER_INFER_TYPED_PIECE_H
#define SL_TRAINER_INFER_TYPED_PIECE_H

#include "common/data/dataset.h"
#include "trainer/feed/rows.h"
#include "trainer/infer/vicinity.h"
#include "trainer/model/model.h"

// What is kept from piece to piece; all of it grows to the largest one. On CPU devices.
struct sl_typed_pieces {
    struct sl_vicinity vicinity;
    struct sl_row_source features;
    struct sl_buffer x; // rows that the block's vertices have: features, or the layer before's
};

// SL_ENOMEM. The data set is borrowed.
int sl_typed_pieces_init(struct sl_typed_pieces *p, const struct sl_dataset *ds);
void sl_typed_pieces_fini(struct sl_typed_pieces *p); // safe on a zeroed struct

// Features of the vertices of p->vicinity's block, to p->x.
int sl_typed_pieces_take_features(struct sl_typed_pieces *p, const struct sl_model *model);

// Most edges of a piece that reads what layer l reads.
uint64_t sl_typed_piece_edges(const struct sl_model *model, uint32_t l);

/*
 * Layer l for vertices of a type: the range is cut to a piece of it. before (n_nodes, hidden): what
 * the layer before gave to all vertices; not of layer 0. *rows (n of the cut range, or fewer where
 * vertices are there twice: place of p->vicinity), until the model's pool is reset; with `outputs`
 * the model's (n_outputs), else (hidden).
 */
int sl_typed_piece_run(struct sl_typed_pieces *p, struct sl_model *model, const float *params,
                       uint32_t l, uint32_t type, const float *before, bool outputs,
                       struct sl_infer_range *range, const float **rows);

#endif
