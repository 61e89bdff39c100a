/*
 * features_kind.h - where the features of all vertices are while a job trains.
 *
 * One kind is one row of SL_FEATURES_KINDS. From the row follow the word in the job file, its
 * description, and whether trainers open readers of rows (trainer/feed/reading.h). No other file
 * names a kind, tests apart (scripts/lint tables). Whatever the kind, a batch gets the same bytes.
 */
#ifndef SL_DATA_FEATURES_KIND_H
#define SL_DATA_FEATURES_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

// X(name, word, what it is, further fields of the row)
// clang-format off
#define SL_FEATURES_KINDS(X)                                                                       \
    X(MEMORY,  "memory",  "the file is mapped")                                                    \
    X(STORAGE, "storage", "rows are read from the drive, past the page cache and a mini-batch "    \
      "ahead", .reads = true, .drive = true)                                                       \
    X(NODES,   "nodes",   "of a shard; its rows are mapped, those of other nodes are asked for a " \
      "mini-batch ahead", .reads = true)
// clang-format on

#define SL_FEATURES_NAME(name, ...) SL_FEATURES_##name,
enum sl_features { SL_FEATURES_AUTO, SL_FEATURES_KINDS(SL_FEATURES_NAME) SL_FEATURES_COUNT };
#undef SL_FEATURES_NAME

struct sl_features_kind {
    const char *word;
    bool reads; // rows that are not in memory, a mini-batch ahead
    bool drive; // ... of those that are this node's, from the drive
};

extern const struct sl_features_kind sl_features_kinds[SL_FEATURES_COUNT]; // by enum sl_features
extern const char *const sl_features_words[SL_FEATURES_COUNT + 1];         // the same, then NULL
extern const char sl_features_doc[];                                       // what each is

// Bytes of the features that are here, and of what else of the data set a job has in memory.
uint64_t sl_features_bytes(const struct sl_dataset *ds);
uint64_t sl_topology_bytes(const struct sl_dataset *ds);
// Of one vertex's features; of a graph with types the mean of all vertices, rounded up: what sizes
// of caches are counted in.
uint64_t sl_features_row_bytes(const struct sl_dataset *ds);
// That mean, of types which have n vertices together.
uint64_t sl_features_mean_bytes(const struct sl_typed *typed, uint64_t n);

// What a kind is for this data set: of a shard rows of other nodes must be read, of a whole data
// set there are none.
enum sl_features sl_features_settle(enum sl_features features, const struct sl_dataset *ds);

// What AUTO becomes on a machine that has so much memory left: storage where features and topology
// would take more than three quarters of it, since workers and arena need some too.
enum sl_features sl_features_choose(const struct sl_dataset *ds, uint64_t available_bytes);

#endif
