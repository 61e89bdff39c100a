/*
 * whole_graph.h - a model over a whole graph, outside of any job.
 *
 * PROBLEM. Predictions of all vertices need the hidden activations of all vertices, which may be
 * many times the machine's memory. Predictions of ten vertices need those of a few thousand.
 *
 * DESIGN. One layer after the other (evaluate.h), a chunk of vertices at a time. Hidden activations
 * lie in memory where there is plenty of it, else in files that have no name, so that nothing is
 * left however this process ends; layers take turns in two of them, and jumping knowledge has a
 * third. Files are mapped and shared: the kernel writes them back and forgets them as it needs
 * memory. Disk space is reserved before a chunk is computed: a full disk is an error and not
 * SIGBUS.
 *
 * Rows that are asked for are handed over in their order and stored nowhere here. Where the rows
 * that a layer needs, found backwards from those, are at most a tenth of the graph, it computes
 * only these; the layers below the first one for which that is not so compute all.
 *
 * MEMORY. memory_bytes bounds what is resident of features, edges and activations in this process:
 * before a piece may bring it over the bound all pages are given back to the kernel, which still
 * has them in its cache for as long as it likes. A piece (piece.h) keeps what it touches itself,
 * even if that is more: a page for each of its edges at worst. Not in the bound: 8 bytes a vertex
 * of indptr, a bit a vertex of the needed rows, the rows of one chunk, and the pool of one piece.
 *
 * ON A GPU the files stay the machine's, and resident.h brings rows to the device: all of a matrix
 * where that fits, part by part so that the bound holds, or what each piece needs. A layer of which
 * only some rows were computed is always gathered. With a bound nothing is pinned but what copies
 * go through (16 MiB).
 */
#ifndef SL_TRAINER_INFER_WHOLE_GRAPH_H
#define SL_TRAINER_INFER_WHOLE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "trainer/model/model.h"

struct sl_whole_graph {
    struct sl_model *model;
    const struct sl_dataset *dataset;
    const float *params;   // (n_params), where the model's device reads them
    const char *scratch;   // directory of the activations
    uint64_t memory_bytes; // 0 = no bound
    uint32_t chunk_rows;   // at least 1; a chunk ends with the piece that reaches it
    const uint32_t *ids;   // (n) whose rows are wanted, in this order; NULL: all, and n = n_nodes
    uint64_t n;
    uint32_t type;  // of a graph of several types: that of all these vertices, which NULL means
    uint32_t layer; // whose rows; the model's outputs are those of the last one
    bool hidden;    // the layer's own output, also of the last one (jumping knowledge)
    // Each returns SL_OK, or an error that ends the run.
    int (*on_rows)(void *ctx, uint64_t first, uint32_t n, const float *rows);
    int (*on_progress)(void *ctx, uint32_t layer, uint64_t done, uint64_t total);
    void *ctx;
    uint64_t computed; // out: rows, of all layers
};

// Floats of a row that is handed over.
uint32_t sl_whole_graph_width(const struct sl_whole_graph *g);

// SL_ENOMEM, SL_EIO (no disk space), or what the call backs return.
int sl_whole_graph_run(struct sl_whole_graph *g);

#endif
