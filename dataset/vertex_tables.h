/*
 * vertex_tables.h - features, labels, splits and times of vertices in files of their own, beside an
 * edge list: text by vertex (keyed_table.h), or .npy with a row for each.
 *
 *   features   vertex,number,number,...    of every vertex; (V, D) floats
 *   labels     vertex,label                a class by number or by name, or a number with --task
 *              vertex,0,1,1                regression; several columns are labels of 0 and 1;
 *                                          (V) or (V, C). Empty, nan and -1: without
 *   splits     vertex,train|val|test       valid and validation too; (V) of 0, 1, 2, or -1: none
 *   times      vertex,number               a whole one, of every vertex; (V)
 */
#ifndef SL_DATASET_VERTEX_TABLES_H
#define SL_DATASET_VERTEX_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/import.h"
#include "dataset/keyed_table.h"

struct sl_vertex_tables {
    // Options.
    const char *features, *labels, *splits, *times; // NULL: none
    int task;                                       // enum sl_task, NONE = by the labels

    // While they are read.
    struct sl_keyed_table *open; // features that are sorted
    uint32_t dim;

    // Found.
    uint64_t n_rows; // vertices that the features are of: as many, or up to so large an id
    char headings[256];
    uint32_t n_class_names;
    char class_names[256]; // "0 = cat, 1 = dog, ..."
};

// The options, before anything is read. SL_EINVAL.
int sl_vertex_tables_check(const struct sl_vertex_tables *v, const struct sl_import *im,
                           bool named);

// Reads the features, which then wait to be written; `numbering` gets their names, or NULL where
// vertices are numbers. A quarter of `memory_bytes` is held until sl_vertex_tables_write().
int sl_vertex_tables_read_features(struct sl_vertex_tables *v, struct sl_import *im,
                                   uint64_t memory_bytes, struct sl_numbering *numbering);

// Writes all there is of n_nodes vertices, named by `names` or, NULL, by their numbers.
int sl_vertex_tables_write(struct sl_vertex_tables *v, struct sl_import *im, uint64_t memory_bytes,
                           uint64_t n_nodes, const struct sl_names *names);

void sl_vertex_tables_describe(const struct sl_vertex_tables *v, cJSON *source);
void sl_vertex_tables_summarise(const struct sl_vertex_tables *v, struct sl_table *t);
void sl_vertex_tables_fini(struct sl_vertex_tables *v); // safe on a zeroed struct

#endif
