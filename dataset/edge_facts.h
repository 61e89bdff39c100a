/*
 * edge_facts.h - what an import of several types has of the edges of a relation: times and
 * features, arrays with a row for each edge of the source.
 *
 * Edges are sorted by target and source with their number in the source where a weight is
 * (sl_edge_sink.numbered), so edge_weight.npy holds numbers. Here each row of a relation that has
 * times is put in their order, of equal times in that of sources, and the facts of each edge are
 * looked up by its number. The reverse of an edge has its facts.
 */
#ifndef SL_DATASET_EDGE_FACTS_H
#define SL_DATASET_EDGE_FACTS_H

#include <stdbool.h>

#include "dataset/typed_import.h"

// Whether a relation's own edges (not those of the one whose reverse it is) have some.
static inline bool sl_edge_facts_any(const struct sl_import_relation *r)
{
    return r->times.path || r->feat.path;
}

// What facts do not go with. SL_EINVAL, SL_EFORMAT.
int sl_edge_facts_check(const struct sl_import *im);

// Once all relations are written: edge_time.*.npy and edge_feat.*.npy of each, and indices.npy and
// edge_weight.npy anew. Nothing where no relation has facts. SL_EFORMAT, SL_ENOMEM, SL_EIO.
int sl_edge_facts_write(struct sl_import *im);

// node_time.npy from an array of the first type's times.
int sl_edge_facts_put_seeds(const struct sl_import *im, const char *path);

#endif
