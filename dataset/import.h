/*
 * import.h - data sets from files of other programs.
 *
 * A format is an entry of sl_import_formats[]: what it is called, its options, and how it is read.
 * Everything else is common to all: options, the directory under construction, the way from the
 * edges that were read to the topology files, the summary.
 */
#ifndef SL_DATASET_IMPORT_H
#define SL_DATASET_IMPORT_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/data/dataset.h"
#include "common/data/overlap.h"
#include "dataset/csc_writer.h"
#include "dataset/edge_sort.h"
#include "dataset/line_fields.h"
#include "dataset/metadata.h"
#include "dataset/dataset_builder.h"
#include "dataset/edge_split.h"
#include "dataset/text_reader.h"

// Ids 0 to 2^32 - 3; 2^32 - 1 stays free and num_nodes is below it.
#define SL_IMPORT_MAX_ID UINT32_C(4294967293)

// The choices of --task, in the order of enum sl_task: "auto", "multiclass", ...
extern const char *const sl_label_tasks[];
extern const char sl_label_tasks_help[];

// The choices of --duplicates: enum sl_duplicates from SL_DUPLICATES_FIRST on.
extern const char *const sl_duplicate_rules[];

// What an import found out about its vertices: for metadata.json and the summary.
struct sl_import_vertices {
    uint32_t feat_dim;
    bool half; // features are float16
    bool normalised;
    uint64_t n_flushed; // features that were too small for float16 and became 0
    enum sl_task task;
    uint32_t n_classes;
    uint64_t n_unlabelled;
    bool one_hot; // of MULTILABEL: every labelled vertex has exactly one
    bool has_split;
    uint64_t n_split[SL_SPLIT_COUNT];
    struct sl_overlaps overlaps; // of the source's own split
};

struct sl_import;
struct sl_import_typed {
    void (*describe)(const struct sl_import *im, cJSON *root); // keys of metadata.json
    void (*summarise)(const struct sl_import *im, struct sl_table *t);
    void (*close)(struct sl_import *im);
};

struct sl_import {
    // Options.
    struct sl_dataset_builder making;
    const char *source;
    bool symmetrise, dedup, remove_self_loops, add_self_loops, duplicates_given;
    bool reverse;   // of a graph of several types: relations the other way
    int duplicates; // of sl_duplicate_rules, where edges are kept once
    uint64_t memory_bytes;
    const char *split; // NULL = the source's own
    double split_share[3];
    const char *holdout; // VAL,TEST; NULL = no edges are held out
    struct sl_edge_split held;
    uint64_t seed; // of the split, and of what is held out
    bool normalise_features, half_features;
    bool weights, weights_given; // values of the source are weights of edges
    bool timed;                  // ... or times, in the place of weights
    bool keep_times;             // edge_time.npy is written

    // While it runs.
    const struct sl_import_format *format;
    void *context;                 // the format's own
    const char *feature_file;      // NULL: node_feat.npy
    const char *feature_rows;      // what has a row of it; NULL: vertices
    const char *edge_features;     // of a plain graph: where they are from; NULL: none are read
    struct sl_typed_import *typed; // of a graph of several types, else NULL (typed_import.h),
    const struct sl_import_typed *of_typed; // and what is done with it
    uint64_t memory_held; // of memory_bytes, by the format, while edges are sorted
    struct sl_edge_sink edge_sink;
    struct sl_import_vertices vertices;
    struct sl_csc_summary csc;
    uint64_t first_side; // as in metadata.h
    uint64_t line;       // of a text, being read, from 1
    char left_out[512];  // names of what the import does not use
    char direction[160]; // why edges are stored both ways, or as they are; "" = nothing says so
    bool unit_weights;   // the source's weights, which are all 1 and not stored
};

static inline const char *sl_import_feature_rows(const struct sl_import *im)
{
    return im->feature_rows ? im->feature_rows : "vertices";
}

struct sl_import_format {
    const char *name, *help;       // as the list of formats has them
    const char *source;            // what it is read from: "SRC.npz"
    const char *about, *example;   // for --help
    const struct sl_option *split; // --split of a struct sl_import, where it takes more
    bool has_features;             // options about features apply
    bool has_weights;              // the option about weights applies

    // The format's own options and what it finds out, zero at first.
    size_t context_bytes;
    const struct sl_option *options;                   // of the context
    int (*check)(struct sl_import *im, void *context); // options against each other; NULL: none
    int (*read)(struct sl_import *im, void *context);
    // Adds the format's own keys to "source" of metadata.json; NULL: there are none.
    void (*describe)(const struct sl_import *im, const void *context, cJSON *source);
    void (*summarise)(const struct sl_import *im, const void *context, struct sl_table *t);
    void (*close)(void *context); // NULL: there is nothing to close
};

extern const struct sl_import_format sl_import_dgl_csv, sl_import_edgelist, sl_import_graphbolt,
    sl_import_igb, sl_import_mtx, sl_import_npz, sl_import_ogb, sl_import_pyg, sl_import_typed;
extern const struct sl_import_format *const sl_import_formats[];
extern const size_t sl_import_n_formats;

// im (zeroed) with the defaults of its options; SL_ENOMEM. Large, so not for the stack.
int sl_import_init(struct sl_import *im, const struct sl_import_format *format);
void sl_import_fini(struct sl_import *im); // safe on a zeroed struct

// Checks the options and makes the data set.
int sl_import_run(struct sl_import *im);

// Whether each edge is kept once.
static inline bool sl_import_keeps_once(const struct sl_import *im)
{
    return im->dedup || im->symmetrise;
}

// How many vertices an edge's ends may be: of a relation between two types its own number each.
struct sl_edge_ends {
    uint64_t n_sources, n_targets;
};
static inline struct sl_edge_ends sl_edge_ends_of(uint64_t n_nodes)
{
    return (struct sl_edge_ends){n_nodes, n_nodes};
}

// ---- for formats --------------------------------------------------------------------------------

// Starts the sort behind im->edge_sink (whose `weighted` and so on are set), in the memory that
// im->memory_held leaves.
int sl_import_start_edges(struct sl_import *im);

// Sorts and writes the topology.
int sl_import_finish_edges(struct sl_import *im, uint64_t n_nodes);

// Removes edge_weight.npy where all weights are 1 and nobody asked for it.
int sl_import_drop_units(struct sl_import *im);

// Appends to im->left_out what fits.
void sl_import_leave_out(struct sl_import *im, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Says why im->edge_sink.both_ways is as it is, for the summary.
void sl_import_explain_direction(struct sl_import *im, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// A stage of the progress display that follows a reader.
void sl_import_begin_stage(struct sl_import *im, const char *what, const struct sl_text_reader *r);

// ---- for formats that are text ------------------------------------------------------------------

// Reads the source, with its progress, in blocks of whole lines: `take` gets each, counts its lines
// in im->line, and may fail.
typedef int sl_import_block_fn(struct sl_import *im, void *context, const char *p, const char *end);
int sl_import_read_blocks(struct sl_import *im, sl_import_block_fn *take, void *context);

// SL_EFORMAT: line im->line has something else at `found` than what is wanted.
int sl_import_fail_at(const struct sl_import *im, const char *found, const char *wanted);

// Behind what was wanted in a first line, which may be a heading.
#define SL_IMPORT_HEADING                                                                          \
    "; of a heading row, --columns takes the names, or --skip-lines 1 leaves it out"

int sl_import_fail_field(const struct sl_import *im, const struct sl_line_field *found,
                         const char *wanted);

// Weights are numbers from 0 that float32 holds.
static inline bool sl_import_is_weight(double x)
{
    return x >= 0 && (float)x <= FLT_MAX;
}

// An edge's weight by its field; SL_EFORMAT.
int sl_import_scan_weight(const struct sl_import *im, const struct sl_line_field *f,
                          double *weight);

static inline const char *sl_import_next_line(const char *p)
{
    return (const char *)rawmemchr(p, '\n') + 1; // every block ends in one
}

#endif
