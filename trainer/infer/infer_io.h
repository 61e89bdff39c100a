// infer_io.h - what a layer reads and writes, in layer-wise inference over a range of vertices.
#ifndef SL_TRAINER_INFER_INFER_IO_H
#define SL_TRAINER_INFER_INFER_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/dtype.h"

struct sl_infer_graph;
struct sl_loss_result;

// Where the rows of a layer come from and go to; NULL for what is not wanted. A row of the result
// has the layer's d_out floats, of the last layer the model's n_outputs. x and y are what the layer
// and the next one read (sl_layer_input()).
struct sl_infer_io {
    const struct sl_infer_graph *graph; // whose edges are walked; NULL: the model's own
    enum sl_dtype x_dtype;
    const void *x;
    bool x_partial; // x has only the rows that the range needs (resident.h)
    bool x_most;    // the layer's ranges together read most of x (resident.h), lists too
    bool x_cold;    // x lies in a file that memory has no room for (CPU devices)
    uint64_t x_tag; // another one where the rows of x may have changed (resident.h)
    // Another one where x or the parameters may have changed: what the layer makes of its sources
    // is kept as long as it stays (source_row_cache.h). 0: nothing is kept.
    uint64_t keep_tag;
    float *jumping; // (n_nodes, sl_jumping_width()); NULL only where that is 0
    float *y;       // by the vertices' ids: what the next layer reads, of the last one the result
    float *rows;    // (range->n, ...): rows of the result in the order of the range
    // No layer follows: nothing is gathered for jumping knowledge, and the last layer of a model
    // with it stops before lin(): the result is that layer's own output, of d_out floats.
    bool hidden;
    // Of the last layer.
    uint32_t *predictions;         // (range->n, sl_dataset_predict_words)
    struct sl_loss_result *result; // losses, added up
};

#endif
