/*
 * weightless.h - edges of weight 0, and the graph without them.
 *
 * A job that samples by weight never draws such an edge, so its evaluations and predictions leave
 * it out of lists and degrees too. What the files hold stays as it is; a data set without weights,
 * or with positive ones alone, costs nothing.
 */
#ifndef SL_DATA_WEIGHTLESS_H
#define SL_DATA_WEIGHTLESS_H

#include <stdbool.h>

#include "common/data/dataset.h"

// Sets ds->weightless_edges and ds->weightless_vertices: one pass over the weights.
void sl_weightless_count(struct sl_dataset *ds, int threads);

// Hides edges of weight 0 in this process (ds->present). With `degrees` the others are counted, 4
// bytes a vertex, for callers that ask for degrees of sources. SL_ENOMEM.
int sl_weightless_drop(struct sl_dataset *ds, bool degrees, int threads);

// In-edges of v whose weight is not 0.
uint64_t sl_weightless_degree(const struct sl_dataset *ds, uint64_t v);

// Removes the sources of v's edges of weight 0 from the list of all its sources, in place. Returns
// how many are left.
uint32_t sl_weightless_strip(const struct sl_dataset *ds, uint64_t v, uint32_t *sources);

#endif
