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
    int32_t (*label)(const void *context, uint64_t vertex);
    void (*features)(const void *context, uint64_t vertex, float *row); // (feat_dim)
    // Adds the kind's parameters to metadata.json's "generator".
    void (*describe)(const void *context, cJSON *parameters);
};

// Options that all kinds share.
struct sl_generate_common {
    const char *out;
    const char *name; // NULL = last part of `out`
    bool force, quiet;
    uint64_t seed;
    uint64_t memory_bytes;
    uint64_t threads; // 0 = all
    uint64_t nodes;   // 0 = not given
    uint64_t edges;   // 0 = not given
    uint64_t feat_dim, classes;
    double train_ratio, val_ratio;
};

extern const struct sl_generate_common SL_GENERATE_DEFAULTS;

enum { SL_GENERATE_COMMON_OPTIONS = 13, SL_GENERATE_MAX_OPTIONS = 24 };

// Fills `options` with the common ones; a kind puts its own behind them. Returns how many.
size_t sl_generate_common_options(struct sl_generate_common *c, struct sl_option *options);

// Makes the data set and prints a summary. Returns as a command does.
int sl_generate_dataset(const struct sl_generator *g, const struct sl_generate_common *c);

int sl_generate_rmat(int argc, char **argv);
int sl_generate_planted(int argc, char **argv);

#endif
