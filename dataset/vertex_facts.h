/*
 * vertex_facts.h - the end of an import's vertices: --split and the summary.
 */
#ifndef SL_DATASET_VERTEX_FACTS_H
#define SL_DATASET_VERTEX_FACTS_H

#include <stdint.h>

#include "dataset/import.h"

// What is left when features and labels are in the staging directory: --split; and refuses options
// that found nothing to apply to. Before the metadata.
int sl_vertex_facts_finish(struct sl_import *im, uint64_t n_nodes);

// Rows of the summary: features, classes, split.
void sl_vertex_facts_summarise(const struct sl_vertex_facts *f, struct sl_table *t);

#endif
