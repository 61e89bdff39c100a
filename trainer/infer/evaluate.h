/*
 * evaluate.h - layer-wise inference, a range of vertices at a time.
 *
 * One layer after the other over all vertices costs one pass over the edges a layer, where the
 * neighbourhoods of a batch would cost them many times over. Activations of all vertices lie in two
 * banks: layer l reads the features (l = 0) or bank (l - 1) & 1 and writes its rows of bank l & 1
 * (two layers need one bank);
 * the last layer runs over the vertices of a list and leaves losses and predictions. A bank has the
 * rows of a layer, or where these are wider what the next layer makes of them first: its products,
 * which need no more than the row itself (sl_layer_input()). What jumping
 * knowledge takes of the layers on the way is gathered in a third bank (jumping.h). In a job the
 * banks are the arena's; sl_evaluate_layer() takes any memory.
 *
 * Of a graph of several types a range goes through the types that it meets, in pieces of each
 * (typed_pieces.h), and rows that no later layer needs are left out.
 *
 * Of a job of links the last layer, too, writes its rows to a bank, the embeddings; then ranges of
 * pairs leave losses and, as predictions, scores.
 *
 * A range may be computed twice, when its trainer died half way: it only writes what no range of
 * the same layer reads.
 *
 * MEMORY. A cell is worked through in pieces of bounded memory (piece.h).
 *
 * ON A GPU the processor makes a piece's lists, and resident.h finds the rows that they name.
 * Banks, predictions and all that is handed out are the machine's memory, as the arena is: results
 * are copied there, and are there when a call returns. Parameters are the device's.
 */
#ifndef SL_TRAINER_INFER_EVALUATE_H
#define SL_TRAINER_INFER_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/arena/ledger.h"
#include "trainer/model/model.h"
#include "trainer/infer/infer_io.h"
#include "trainer/infer/piece.h"

// Computes one layer for the vertices of `range`, with parameters on the model's device.
// SL_EABORTED when the job stops half way.
int sl_evaluate_layer(struct sl_model *model, const struct sl_dataset *ds, const float *params,
                      uint32_t layer, const struct sl_infer_range *range,
                      const struct sl_infer_io *io);

// What the first layer reads of all vertices: the file's features, or learned rows where these are
// alone.
const void *sl_evaluate_input(const struct sl_model *model, const struct sl_dataset *ds,
                              enum sl_dtype *dtype);

// One INFER cell, as its phase's specification says, with those parameters on the model's device;
// *edges counts what it went through.
int sl_evaluate_infer(struct sl_model *model, const float *params, const struct sl_dataset *ds,
                      struct sl_arena *a, const struct sl_lease *lease,
                      struct sl_loss_result *result, uint64_t *edges);

// The parameters that a phase of evaluation uses, where they lie in the arena. (n_params)
const float *sl_evaluate_params(const struct sl_arena *a, const struct sl_phase_spec *spec);

#endif
