/*
 * edge_facts.h - what an import has of the edges of a relation, or of a plain graph: times and
 * features, arrays with a row for each edge of the source.
 *
 * Edges are sorted by target and source with their number in the source where a weight is
 * (sl_edge_sink.numbered), so edge_weight.npy holds numbers. Here each row of a relation that has
 * times is put in their order, of equal times in that of sources, and the facts of each edge are
 * looked up by its number. The reverse of an edge has its facts. Where the source type has times
 * and the relation has none, an edge has the time of its source: a vertex is met by nobody who is
 * earlier, as torch_geometric has it.
 */
#ifndef SL_DATASET_EDGE_FACTS_H
#define SL_DATASET_EDGE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/typed.h"
#include "common/text/progress.h"
#include "dataset/staging.h"

// A relation that was written, and the arrays of its edges.
struct sl_edge_facts {
    char key[3 * SL_TYPE_NAME_BYTES]; // "author.writes.paper"; "": of a plain graph
    // Paths; NULL: none. Of neither, its edges stay as they are. source_times is of vertices.
    const char *times, *feat, *source_times;
    uint64_t n_read; // edges of the source
    uint64_t first_source, n_sources;
    uint64_t n_rows, n_edges;
};

// Whether its edges were sorted with their numbers.
static inline bool sl_edge_facts_numbered(const struct sl_edge_facts *f)
{
    return f->times || f->feat;
}

// What there is of all relations together.
struct sl_edge_facts_spec {
    const struct sl_edge_facts *relations; // (n), all that there are
    uint32_t n;
    uint64_t max_degree;
    bool numbered; // some were sorted with numbers
    bool weighted; // some have weights: edge_weight.npy stays, with 1 where numbers were
};

// Writes edge_time.KEY.npy and edge_feat.KEY.npy of each of the relations, and indices.npy and
// edge_weight.npy anew. *has_weights: there are others than 1. SL_EFORMAT, SL_ENOMEM, SL_EIO.
int sl_edge_facts_write(const struct sl_staging *st, const struct sl_edge_facts_spec *spec,
                        bool *has_weights, struct sl_progress *progress);

// node_time.npy from an array of times of n vertices.
int sl_edge_facts_put_seeds(const struct sl_staging *st, const char *path, uint64_t n);

#endif
