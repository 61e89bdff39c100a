/*
 * store_kind.h - where the features of all vertices are while a job trains.
 *
 * One kind is one row of SL_STORE_KINDS. From the row follow the word in the job file, its
 * description, and whether trainers open a reader of rows (common/storage/row_reader.h). No other
 * file names a kind, tests apart (scripts/lint tables). Whatever the kind, a batch gets the same
 * bytes.
 */
#ifndef SL_COMMON_DATA_STORE_KIND_H
#define SL_COMMON_DATA_STORE_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

// X(name, word, what it is, further fields of the row)
// clang-format off
#define SL_STORE_KINDS(X)                                                                          \
    X(MEMORY,  "memory",  "the file is mapped, and stays in memory as far as there is room")       \
    X(STORAGE, "storage", "rows are read from the drive, hundreds at a time and past the page "    \
      "cache, a mini-batch ahead of training", .reads = true)
// clang-format on

#define SL_STORE_NAME(name, ...) SL_STORE_##name,
enum sl_store { SL_STORE_AUTO, SL_STORE_KINDS(SL_STORE_NAME) SL_STORE_COUNT };
#undef SL_STORE_NAME

struct sl_store_kind {
    const char *word;
    bool reads; // rows from the drive
};

extern const struct sl_store_kind sl_store_kinds[SL_STORE_COUNT]; // by enum sl_store
extern const char *const sl_store_words[SL_STORE_COUNT + 1];      // the same, then NULL
extern const char sl_store_doc[];                                 // what each is

// Bytes of the features, and of what else of the data set a job has in memory.
uint64_t sl_store_feature_bytes(const struct sl_dataset *ds);
uint64_t sl_store_topology_bytes(const struct sl_dataset *ds);

// What AUTO becomes on a machine that has so much memory left: storage where features and topology
// would take more than three quarters of it, since workers and arena need some too.
enum sl_store sl_store_choose(const struct sl_dataset *ds, uint64_t available_bytes);

#endif
