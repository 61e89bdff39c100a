/*
 * edge_features.h - features of edges as an importer finds them: put away as an array that can be
 * mapped, in the order of the source; and of a plain graph edge_feat.npy, in that of its edges
 * (edge_facts.h).
 *
 * A format that has some says so before it reads edges (sl_edge_features_take), and all the rest is
 * sl_import_finish_edges()'s. The reverse of an edge has its features; of equal edges that are kept
 * once the first one's are kept.
 */
#ifndef SL_DATASET_EDGE_FEATURES_H
#define SL_DATASET_EDGE_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/import.h"

// Whether edges may have times or features: NULL, or the option that does not go with them.
const char *sl_edge_features_forbidden(const struct sl_import *im);

// Around whatever puts features of edges into a struct sl_feature_sink: NAME in the data set under
// construction. end() takes the result so far and returns it; *there: they are (without edges there
// is no file).
struct sl_edge_feature_stage {
    struct sl_import_vertices found; // of the vertices
    bool normalises;
    const char *name;
};
void sl_edge_features_begin(struct sl_import *im, const char *name,
                            struct sl_edge_feature_stage *stage);
int sl_edge_features_end(struct sl_import *im, const struct sl_edge_feature_stage *stage, int rc,
                         bool *there);

/*
 * Of a plain graph, before sl_import_start_edges(), once im->edge_sink.weighted is known: `put`
 * puts them. `from` (borrowed) names them in messages. What does not go with them (an option,
 * weights) is an error where they were `asked` for; else they are left out, and nothing is put.
 */
int sl_edge_features_take(struct sl_import *im, const char *from, bool asked,
                          int (*put)(struct sl_import *im, void *of), void *of);

// Once the topology is there, of edges that were sorted with their numbers: edge_feat.npy.
int sl_edge_features_write(struct sl_import *im);

#endif
