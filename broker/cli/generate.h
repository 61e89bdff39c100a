/*
 * generate.h - what a generator provides, and what turns it into a data set.
 *
 * A generator is a set of pure functions of (seed, edge number) and (seed, vertex). Everything
 * else, threads, memory, sorting, files, splits, metadata, is common, so the same arguments give
 * the same bytes whatever the number of threads and the memory.
 */
#ifndef SL_BROKER_CLI_GENERATE_H
#define SL_BROKER_CLI_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/data/dataset.h"
#include "broker/cli/options.h"

struct sl_generator {
    const char *kind;
    uint64_t seed;
    uint64_t n_nodes; // 1 to 2^32 - 2
    uint64_t n_edges; // drawn
    bool both_ways;   // each edge is stored in both directions
    bool dedup;
    uint32_t feat_dim;  // 0 = no features
    uint32_t n_classes; // 0 = no labels and no split
    const void *context;

    // Keys (edge_sort.h) of edges first .. first + n, two for each when both_ways.
    void (*draw_edges)(const void *context, uint64_t first, size_t n, uint64_t *keys);
    // Weight of an edge, a function of its ends; NULL = edges have none.
    float (*weight)(const void *context, uint32_t source, uint32_t destination);
    int32_t (*label)(const void *context, uint64_t vertex);
    // Which list a vertex is in, SL_SPLIT_COUNT for none; NULL = drawn, by the ratios.
    enum sl_split (*list)(const void *context, uint64_t vertex);
    void (*features)(const void *context, uint64_t vertex, float *row); // (feat_dim)
    // Adds the kind's parameters to metadata.json's "generator".
    void (*describe)(const void *context, cJSON *parameters);
};

// A default of `classes`: as many as the kind has of what its labels name.
#define SL_GENERATE_CLASSES_AUTO UINT64_MAX

// Options that all kinds share.
struct sl_generate_common {
    const char *out;
    const char *name; // NULL = last part of `out`
    bool force, quiet;
    int output; // enum sl_output
    uint64_t seed;
    uint64_t memory_bytes;
    uint64_t threads; // 0 = all
    uint64_t nodes;   // 0 = not given
    uint64_t edges;   // 0 = not given
    uint64_t feat_dim, classes;
    double train_ratio, val_ratio;
};

extern const struct sl_generate_common SL_GENERATE_DEFAULTS;

// Reads the command line: the common options, whose defaults are in *c, and behind them the kind's
// own, which are those of `kind` (10 at most). Returns as sl_options_parse().
int sl_generate_parse(struct sl_generate_common *c, const struct sl_command_usage *kind, int argc,
                      char **argv);

// SL_EINVAL when --edges was given and so was the kind's own option that decides their number.
int sl_generate_check_edges(const struct sl_generate_common *c, const char *kind,
                            const char *option, bool given);

// Options of the kinds that draw by a power law and whose features tell classes apart; *value is
// the default, `help` says whose they are.
struct sl_option sl_generate_degree_option(const char *name, double *value, bool *given,
                                           const char *help);
struct sl_option sl_generate_exponent_option(double *value, const char *help);
struct sl_option sl_generate_homophily_option(double *value, const char *help);
struct sl_option sl_generate_noise_option(double *value, const char *help);

// Makes the data set and prints a summary. Returns as a command does.
int sl_generate_dataset(const struct sl_generator *g, const struct sl_generate_common *c);

/*
 * Weights by age, as FGNN's experiments have them: every vertex has a year from 0 to YEARS - 1, and
 * the weight of an edge doubles with every four years of its source, so sampling by weight prefers
 * new vertices.
 */
enum { SL_GENERATE_YEARS = 32 };
float sl_generate_year_weight(uint32_t year);

int sl_generate_citation(int argc, char **argv);
int sl_generate_rmat(int argc, char **argv);
int sl_generate_planted(int argc, char **argv);

#endif
