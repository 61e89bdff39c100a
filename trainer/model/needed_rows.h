/*
 * needed_rows.h - the rows of each hidden layer that some rows of the last one need.
 *
 * A vertex's row of a layer needs the rows of itself and of its in-neighbours of the layer below.
 * Going down from the vertices that are asked for, each layer's set is the one above it and its
 * in-neighbours: a function of the graph and the vertices, a bit for each vertex.
 */
#ifndef SL_TRAINER_MODEL_NEEDED_ROWS_H
#define SL_TRAINER_MODEL_NEEDED_ROWS_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "config/config.h"

// A set of vertices.
struct sl_marks {
    uint64_t *bits; // NULL: none is marked, or where the owner says so all are
    uint64_t n_nodes, n;
};

int sl_marks_init(struct sl_marks *m, uint64_t n_nodes); // SL_ENOMEM
void sl_marks_free(struct sl_marks *m);                  // safe on a zeroed struct

// Marks n vertices and their in-neighbours, and stops early when more than `limit` are marked.
void sl_marks_add(struct sl_marks *m, const struct sl_dataset *ds, const uint32_t *ids, uint64_t n,
                  uint64_t limit);

// The marked ones of first .. first + n - 1, ascending; returns how many. ids has room for n.
uint32_t sl_marks_list(const struct sl_marks *m, uint64_t first, uint64_t n, uint32_t *ids);

// For a job's evaluations.
struct sl_needed_rows {
    uint32_t sets;                               // whose rows are wanted; 0: nothing is known yet
    struct sl_marks layer[SL_CONFIG_MAX_LAYERS]; // bits NULL: all
};

/*
 * For the vertices of some splits, bit s of `sets` for split s. A layer of which nearly all rows
 * are needed takes all of them, and so do those below it: lists cost a copy of each row more than
 * runs. SL_ENOMEM, with nothing held.
 */
int sl_needed_rows_find(struct sl_needed_rows *needed, const struct sl_dataset *ds, uint32_t sets,
                        uint32_t n_layers);
void sl_needed_rows_free(struct sl_needed_rows *needed); // safe on a zeroed struct

#endif
