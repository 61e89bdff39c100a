/*
 * keyed_table.h - reads a text table whose first column is the vertex, and returns its rows in the
 * order of the vertices, in bounded memory.
 *
 * The columns stand between tabs, commas, semicolons or blanks, by the first line (line_fields.h).
 * A vertex is a number or, where an edge list is renumbered, any name. Lines come in any order,
 * each vertex at most once; lines that begin with # or % are comments, and a first line that cannot
 * be a row is a heading.
 */
#ifndef SL_DATASET_KEYED_TABLE_H
#define SL_DATASET_KEYED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/names.h"
#include "dataset/csv_reader.h"
#include "dataset/line_fields.h"
#include "dataset/numbering.h"
#include "dataset/record_sort.h"

struct sl_keyed_table;

// What a table's rows are.
struct sl_keyed_kind {
    const char *what; // stage of the progress: "features"
    // Reads what stands behind the vertex: t->fields.at[1] and the rest of its line, and keeps it
    // by sl_keyed_table_keep().
    int (*parse)(struct sl_keyed_table *t);
    // Whether the first line is a heading: what parse() would refuse in it. NULL: by the vertex.
    bool (*is_heading)(const struct sl_keyed_table *t);
};

struct sl_keyed_table {
    // Set before reading.
    const struct sl_keyed_kind *kind;
    void *context;                  // the kind's own
    bool named;                     // vertices have names, else numbers
    const struct sl_names *names;   // of the vertices, where they are known already, else NULL
    struct sl_numbering *numbering; // gets every name of the table as a vertex, or NULL

    struct sl_csv csv; // .path
    struct sl_line_fields fields;
    struct sl_record_sort *rows;
    uint64_t n_rows, max_id; // of numbers
    char heading[64];        // that was left out, or empty
    char *kept;              // (capacity) line number and what parse() keeps, of a row
    size_t n_kept, capacity;
};

// Opens a zeroed table over a file. SL_ENOMEM; SL_EINVAL: the name is too long.
int sl_keyed_table_open(struct sl_keyed_table *t, struct sl_import *im, const char *path,
                        uint64_t memory_bytes);
void sl_keyed_table_close(struct sl_keyed_table *t); // safe on a zeroed struct

// Reads and sorts all lines. SL_EFORMAT, with the line.
int sl_keyed_table_read(struct sl_keyed_table *t);

// For parse(): appends to the row. SL_ENOMEM.
int sl_keyed_table_keep(struct sl_keyed_table *t, const void *data, size_t n);

/*
 * Calls take() for every row in the order of the vertices. n_nodes vertices, named by `names` (in
 * the order of sl_name_key()) or, NULL, by their numbers. SL_EFORMAT for a vertex that is there
 * twice or does not exist and, with `all`, for one without a row.
 */
typedef int sl_keyed_row_fn(void *context, uint64_t vertex, const char *kept, size_t n);
int sl_keyed_table_walk(struct sl_keyed_table *t, uint64_t n_nodes, const struct sl_names *names,
                        bool all, sl_keyed_row_fn *take, void *context);

#endif
