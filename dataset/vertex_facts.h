/*
 * vertex_facts.h - the end of an import's vertices: --split, metadata.json, the summary.
 */
#ifndef SL_DATASET_VERTEX_FACTS_H
#define SL_DATASET_VERTEX_FACTS_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "dataset/import.h"
#include "dataset/vertex_intake.h"

// What is left when features and labels are in the staging directory: --split; and refuses options
// that found nothing to apply to. Before the metadata.
int sl_vertex_facts_finish(struct sl_import *im, uint64_t n_nodes, struct sl_vertex_facts *f);

/*
 * metadata.json's root with what all importers write (owned): the data set's keys, and "source"
 * {format, edges_read, symmetrised, dedup}, to which a format adds its own. NULL without memory.
 */
cJSON *sl_vertex_facts_metadata(const struct sl_vertex_facts *f, const struct sl_import *im,
                                const char *format);

// Rows of the summary: features, classes, split.
void sl_vertex_facts_summarise(const struct sl_vertex_facts *f, struct sl_table *t);

#endif
