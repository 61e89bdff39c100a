/*
 * prediction_csv.h - outputs of a model as text: a line for each vertex.
 *
 *   vertex,output_0,output_1          a heading; a column has no number where a row has one value
 *   17,0.25,-1.5                      the vertex, and its values
 *
 *   source,target,score               of pairs: both vertices, and how much of an edge they are
 *
 *   vertex,output_cat,output_dog      the same with names of vertices and of classes
 *   alice,0.25,-1.5
 *
 * Floats have nine digits, with which every float32 comes back as it was. Text that holds a comma,
 * a quote or a line's end stands in quotes, as RFC 4180 has it; a line ends in a newline.
 */
#ifndef SL_CLI_PREDICTION_CSV_H
#define SL_CLI_PREDICTION_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/data/dataset.h"
#include "common/data/names.h"
#include "common/text/progress.h"

// *text, *n: what stands for a vertex; borrowed until the next call. An error ends the writing.
typedef int sl_vertex_name(void *ctx, uint64_t vertex, const char **text, size_t *n);

struct sl_prediction_csv {
    const char *rows;   // .npy of (n) or (n, width): float32, int32 or uint8
    const char *column; // what a value is called: "output", "class", ...
    // Which vertex a row is of: that of a list; that of the file `nodes` (.npy of integers);
    // or, where both are NULL, that of the row's number.
    const struct sl_vertex_list *list;
    const uint32_t *vertex_map; // of the list's data set: ids are those from before a reordering
    const char *nodes;
    bool pairs;           // `nodes` is (n, 2), and a line has both: source,target,score
    sl_vertex_name *name; // NULL: its number
    void *name_ctx;
    const struct sl_names *classes; // of int32 values, and of columns that are as many; or NULL
    struct sl_progress *progress;
};

/*
 * Writes it; appears whole or not at all. SL_EFORMAT when rows and vertices are not as many,
 * SL_EABORTED after Ctrl-C (sl_interrupt_catch()), SL_EIO.
 */
int sl_prediction_csv_write(const struct sl_prediction_csv *csv, const char *out);

// Text as a field of a line, in quotes where it needs them.
void sl_prediction_csv_field(const char *text, size_t n, FILE *out);

#endif
