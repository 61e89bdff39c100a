/*
 * weightless.h - edges of weight 0, and the graph without them.
 *
 * Who samples by weight never draws such an edge, so for a job that does it is no edge: its
 * evaluations and predictions leave it out of lists and degrees too. What the files hold stays as
 * it is; a data set without weights, or with positive ones alone, costs nothing.
 */
#ifndef SL_DATA_WEIGHTLESS_H
#define SL_DATA_WEIGHTLESS_H

#include <stdbool.h>

#include "common/data/dataset.h"

// Sets ds->weightless_edges and ds->weightless_vertices: one pass over the weights.
void sl_weightless_count(struct sl_dataset *ds, int threads);

// From now on edges of weight 0 are none of this process's (ds->present). With `degrees` the others
// are counted for each vertex, 4 bytes: for who asks for the degrees of sources. SL_ENOMEM.
int sl_weightless_drop(struct sl_dataset *ds, bool degrees, int threads);

// In-edges of v that are there.
uint64_t sl_weightless_degree(const struct sl_dataset *ds, uint64_t v);

// Takes the sources of v's edges that are not there out of the list of all of them, in place.
// Returns how many are left.
uint32_t sl_weightless_strip(const struct sl_dataset *ds, uint64_t v, uint32_t *sources);

#endif
