/*
 * piece.h - cuts a range of vertices into pieces of layer-wise inference.
 *
 * A piece is some rows of the graph with their neighbours, made by copying: at most
 * SL_INFER_PIECE_ROWS vertices and SL_INFER_PIECE_EDGES edges, so what it needs does not grow with
 * the graph. A single vertex with more in-edges than that is a piece of its own, and needs 4 to 8
 * bytes for each of them. Neighbours are all in-neighbours, or what random walks meet in jobs that
 * sample so (neighbours.h).
 *
 * Lists are made by the processor, in the notes; resident.h takes them to a device. There a piece
 * may have to bring the rows of its sources along, so it has fewer edges where rows are wide; so
 * has one on a CPU device of which features are read from the drive. On a GPU that depends on the
 * kind of device alone: there products of other numbers of rows round in other ways.
 */
#ifndef SL_TRAINER_INFER_PIECE_H
#define SL_TRAINER_INFER_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "trainer/model/layer.h"
#include "trainer/model/neighbours.h"

enum {
    SL_INFER_PIECE_ROWS = 8192,
    SL_INFER_PIECE_EDGES = 1 << 20,
    SL_INFER_COLD_EDGES = 1 << 14, // where each may be a page that is read for it: 64 MiB
};

// Some vertices: ids[0 .. n), or first .. first + n - 1 where ids is NULL.
struct sl_infer_range {
    const uint32_t *ids;
    uint64_t first;
    uint32_t n;
};

static inline uint64_t sl_infer_vertex(const struct sl_infer_range *range, uint32_t i)
{
    return range->ids ? range->ids[i] : range->first + i;
}

// The sources of a row's edges, without those of weight 0 where the job samples by weight; `out`
// has room for all of them. Returns how many there are, which are fewer than 2^32.
uint32_t sl_infer_neighbours(const struct sl_dataset *ds, uint64_t row, uint32_t *out);

struct sl_cutter {
    const struct sl_layer_env *env;
    const struct sl_dataset *dataset;
    const struct sl_self_loops *self_loops; // for the pieces; NULL: the graph has none
    struct sl_neighbours *neighbours;       // NULL: all
    const struct sl_infer_range *range;
    uint32_t layer;
    uint32_t d_in;  // floats of a row that the layer reads
    bool gathers;   // rows of sources are brought along on CPU devices, too
    bool cold;      // rows of sources lie in a file that memory has no room for
    bool self_edge; // lists name the vertex itself, last, and it alone
    // Floats of an edge with features at most, of which a piece has SL_INFER_PIECE_FLOATS; 0: edges
    // have none.
    uint32_t edge_floats;
};

// Rows from range's `at` on that make up one piece: at least one; *n_edges is what they have at
// most.
uint32_t sl_cutter_rows(const struct sl_cutter *cutter, uint32_t at, uint64_t *n_edges);

// These rows, in the notes: what of *piece is the processor's, but x_ids. SL_ENOMEM. Of edges with
// features, in lists that name the vertex itself, list_ids are those of edge_rows.h.
int sl_cutter_piece(const struct sl_cutter *cutter, uint32_t at, uint32_t rows, uint32_t n_edges,
                    struct sl_infer_piece *piece);

#endif
