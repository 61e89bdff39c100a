/*
 * import_vertices.h - the end of an import's vertices: --split and the summary.
 */
#ifndef SL_DATASET_IMPORT_VERTICES_H
#define SL_DATASET_IMPORT_VERTICES_H

#include <stdint.h>

#include "dataset/import.h"

// Draws --split, and refuses options that apply to nothing. Features and labels are in the staging
// directory by then, metadata.json is not.
int sl_import_finish_vertices(struct sl_import *im, uint64_t n_nodes);

// Rows of the summary: features, classes, split.
void sl_import_summarise_vertices(const struct sl_import_vertices *f, struct sl_table *t);

#endif
