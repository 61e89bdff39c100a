/*
 * evaluate.h - layer-wise inference over all neighbours, a range of vertices at a time.
 *
 * One layer after the other over all vertices costs one pass over the edges a layer, where the
 * neighbourhoods of a batch would cost them many times over. Activations of all vertices lie in the
 * arena's two banks: layer l reads the features (l = 0) or bank (l - 1) & 1 and writes its rows of
 * bank l & 1; the last layer runs over the vertices of a split and only counts.
 *
 * MEMORY. A cell is worked through in pieces of at most SL_INFER_PIECE_ROWS vertices and
 * SL_INFER_PIECE_EDGES edges, so what a piece needs does not grow with the graph. A single vertex
 * with more in-edges than that is a piece of its own, and needs 4 to 8 bytes for each of them.
 */
#ifndef SL_TRAINER_EVALUATE_H
#define SL_TRAINER_EVALUATE_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/ipc/ledger.h"
#include "trainer/model.h"

enum { SL_INFER_PIECE_ROWS = 8192, SL_INFER_PIECE_EDGES = 1 << 20 };

// The vertices of one cell: ids[0 .. n), or first .. first + n - 1 where ids is NULL.
struct sl_infer_range {
    const uint32_t *ids;
    uint64_t first;
    uint32_t n;
};

// Where the rows of a layer come from and go to.
struct sl_infer_io {
    enum sl_dtype x_dtype;
    const void *x;                  // (n_nodes, d_in)
    float *y;                       // (n_nodes, d_out), or NULL for the last layer
    struct sl_model_result *result; // counts of the last layer, added up; or NULL
};

// Computes one layer for the vertices of `range`. SL_EABORTED when the job stops half way.
int sl_evaluate_layer(struct sl_model *model, const struct sl_dataset *ds, const float *params,
                      uint32_t layer, const struct sl_infer_range *range,
                      const struct sl_infer_io *io);

// One INFER cell, as its phase's specification says; *edges counts what it went through.
int sl_evaluate_infer(struct sl_model *model, const struct sl_dataset *ds, struct sl_arena *a,
                      const struct sl_lease *lease, struct sl_model_result *result,
                      uint64_t *edges);

// The parameters that a phase of evaluation uses. (n_params)
const float *sl_evaluate_params(const struct sl_arena *a, const struct sl_phase_spec *spec);

#endif
