/*
 * generate.h - synthetic data sets.
 *
 * A kind of generator is an entry of sl_generator_kinds[]: its name, its options, and the pure
 * functions of (seed, edge number) and (seed, vertex) that it prepares. Everything else (threads,
 * memory, sorting, files, splits, metadata) is common, so the same arguments give the same bytes
 * with any number of threads and any memory.
 */
#ifndef SL_DATASET_GENERATE_H
#define SL_DATASET_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/data/dataset.h"
#include "dataset/csc_writer.h"
#include "dataset/dataset_builder.h"
#include "dataset/edge_sort.h"

struct sl_generate;

// A file of features of one type of several.
struct sl_generator_features {
    const char *file;
    uint64_t n;   // vertices
    uint32_t dim; // floats
    void (*row)(const void *context, uint64_t vertex, void *out);
};

// What a kind prepares; its functions get the kind's context.
struct sl_generator {
    uint64_t n_nodes; // 1 to 2^32 - 2
    uint64_t n_edges; // drawn
    bool both_ways;   // each edge is stored in both directions
    bool dedup;
    uint32_t feat_dim;  // 0 = no features
    uint32_t n_classes; // 0 = no labels and no split

    uint64_t first_side; // as in metadata.h

    // Of a graph of several types (typed.h): keys of edges have rows in place of destinations, and
    // describe_types() adds "types" and "relations" to metadata.json. Else all 0.
    uint64_t n_rows, n_labelled; // labels and lists are of the first vertices
    const struct sl_generator_features *by_type;
    uint32_t n_by_type;
    void (*describe_types)(const void *context, cJSON *root);

    // Instead of draw_edges(): adds all edges to the sort by its lanes, and writes what else there
    // is to write. NULL: draw_edges() does.
    int (*draw_all)(struct sl_generate *run, struct sl_edge_sort *sort, int n_lanes);
    // Keys (edge_sort.h) of edges first .. first + n, two for each when both_ways.
    void (*draw_edges)(const void *context, uint64_t first, size_t n, uint64_t *keys);
    // Weight of an edge, a function of its ends; NULL = edges have none.
    float (*weight)(const void *context, uint32_t source, uint32_t destination);
    void (*label)(const void *context, uint64_t vertex, void *out); // an int32_t
    // Which list a vertex is in, SL_SPLIT_COUNT for none; NULL = drawn, by the ratios.
    enum sl_split (*list)(const void *context, uint64_t vertex);
    void (*features)(const void *context, uint64_t vertex, void *out); // (feat_dim) floats
    // The planted truth, node_truth.npy: (truth_dim) floats; 0 = no such file.
    uint32_t truth_dim;
    void (*truth)(const void *context, uint64_t vertex, void *out);
    // Adds lines to the summary; NULL: there are none.
    void (*summarise)(const void *context, struct sl_table *t);
    // Adds the kind's parameters to metadata.json's "generator".
    void (*describe)(const void *context, cJSON *parameters);
};

// Default of `classes`: the kind decides.
#define SL_GENERATE_CLASSES_AUTO UINT64_MAX

// One run.
struct sl_generate {
    // Options that all kinds share.
    struct sl_dataset_builder making;
    uint64_t seed;
    uint64_t memory_bytes;
    uint64_t threads; // 0 = all
    uint64_t nodes;   // 0 = not given
    uint64_t edges;   // 0 = none
    bool edges_given; // else the kind decides their number
    uint64_t feat_dim, classes;
    double train_ratio, val_ratio;

    // While it runs.
    const struct sl_generator_kind *kind;
    void *context; // the kind's own
    struct sl_generator generator;
    struct sl_csc_summary csc;
};

enum { SL_GENERATE_THREADS_MAX = 256 };
// More vertices would not fit 32-bit ids (2^32 - 1 is kept free).
#define SL_GENERATE_NODES_MAX 4294967294.0

struct sl_generator_kind {
    const char *name, *help;     // as the list of kinds has them
    const char *about, *example; // for --help

    // The kind's own options and what it prepares, zero at first.
    size_t context_bytes;
    void (*defaults)(struct sl_generate *run, void *context);
    const struct sl_option *options; // of the context
    bool of_sides; // it says how many vertices there are by options of its own, and has no classes
    // Checks the options and fills *out.
    int (*prepare)(struct sl_generate *run, void *context, struct sl_generator *out);
    void (*close)(void *context); // NULL: there is nothing to close
};

extern const struct sl_generator_kind sl_generate_bipartite, sl_generate_citation,
    sl_generate_planted, sl_generate_rmat, sl_generate_typed;
extern const struct sl_generator_kind *const sl_generator_kinds[];
extern const size_t sl_generator_n_kinds;

// run (zeroed) with the defaults of its options; SL_ENOMEM.
int sl_generate_init(struct sl_generate *run, const struct sl_generator_kind *kind);
void sl_generate_fini(struct sl_generate *run); // safe on a zeroed struct

// Checks the options and makes the data set.
int sl_generate_run(struct sl_generate *run);

// ---- for kinds ----------------------------------------------------------------------------------

// SL_EINVAL when --edges was given and so was the kind's own option that decides their number.
int sl_generate_check_edges(const struct sl_generate *run, const char *option, bool given);
// How many edges to draw: what --edges says, else what the kind wants, one at least.
uint64_t sl_generate_n_edges(const struct sl_generate *run, double wanted);

// Options of the kinds that draw by a power law and whose features tell classes apart, of fields
// `degree`, `degree_given`, `exponent`, `homophily` and `noise`; `help` says whose they are.
#define SL_GENERATE_REAL(struct_, field, name_, placeholder_, min_, max_, help_)                   \
    .name = name_, SL_OPTION_AT(REAL, struct_, field), .placeholder = placeholder_, .min = min_,   \
    .max = max_, .help = help_
#define SL_GENERATE_DEGREE(struct_, name, help)                                                    \
    SL_GENERATE_REAL(struct_, degree, name, "D", 1e-3, 1e6, help),                                 \
        SL_OPTION_GIVEN(struct_, degree_given)
#define SL_GENERATE_EXPONENT(struct_, help)                                                        \
    SL_GENERATE_REAL(struct_, exponent, "exponent", "X", 2.05, 100, help)
#define SL_GENERATE_HOMOPHILY(struct_, help)                                                       \
    SL_GENERATE_REAL(struct_, homophily, "homophily", "P", 0, 1, help)
#define SL_GENERATE_NOISE(struct_, help)                                                           \
    SL_GENERATE_REAL(struct_, noise, "noise", "SD", 0, 1e6, help)

/*
 * Weights by age, as FGNN's experiments have them: every vertex has a year from 0 to YEARS - 1, and
 * the weight of an edge doubles with every four years of its source, so sampling by weight prefers
 * new vertices.
 */
enum { SL_GENERATE_YEARS = 32 };
float sl_generate_year_weight(uint32_t year);

#endif
