/*
 * vertex_names.h - `--relabel`: edges between names become edges between numbers, and the names are
 * stored with the data set.
 *
 *   vertex_names.npy, vertex_name_offsets.npy    common/data/names.h
 *   node_id.npy    int64, when every name is a whole number that this holds: the file's ids
 */
#ifndef SL_DATASET_VERTEX_NAMES_H
#define SL_DATASET_VERTEX_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/names.h"
#include "dataset/import.h"
#include "dataset/numbering.h"

struct sl_vertex_names {
    struct sl_numbering *numbering; // while names are put
    struct sl_names names;          // mapped, when all are there
    uint64_t n_alone;               // that stand in no edge
    uint64_t n_padded;              // digits with zeros in front
    bool ids;                       // node_id.npy was written
};

// Gives every name its number and writes them; *n_nodes is how many there are. SL_EFORMAT.
int sl_vertex_names_finish(struct sl_vertex_names *v, struct sl_import *im, uint64_t *n_nodes);

// Hands the edges to im->edge_sink, whose sort has started.
int sl_vertex_names_put_edges(struct sl_vertex_names *v, struct sl_import *im);

void sl_vertex_names_summarise(const struct sl_vertex_names *v, struct sl_table *t);
void sl_vertex_names_fini(struct sl_vertex_names *v); // safe on a zeroed struct

#endif
