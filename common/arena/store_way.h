/*
 * store_way.h - how GPUs read the graph, and features that no cache has, and why in that way.
 *
 * One way is one row of SL_STORE_WAYS. Before the arena is made the broker says which way may be
 * taken of features (in the arena's spec), each worker which one it took (in its seat); reports and
 * `sluice run --dry-run` tell it.
 */
#ifndef SL_ARENA_STORE_WAY_H
#define SL_ARENA_STORE_WAY_H

#include <stdint.h>

// X(name, word, page, why): the word of reports; bytes of a page of the copy that is read, if one
// is.
// clang-format off
#define SL_STORE_WAYS(X)                                                                           \
    X(FILE,       "file",   0,       "the driver pins memory that is only read")                   \
    X(COPY,       "copy",   4096,    "the driver does not pin the files of data sets")             \
    X(COPY_HUGE,  "copy",   2 << 20, "the driver does not pin the files of data sets")             \
    X(DRIVE,      "staged", 0,       "rows are read from the drive or other nodes")                \
    X(TYPES,      "staged", 0,       "rows of several widths are gathered by the processor")       \
    X(CACHED,     "staged", 0,       "the GPUs' caches are expected to have room for every row")   \
    X(LARGE,      "staged", 0,       "a copy would take more than half of the memory that is "     \
                                     "available")                                                  \
    X(BOUND,      "staged", 0,       "a copy would take more than half of what memory leaves to "  \
                                     "the job")                                                    \
    X(UNPINNABLE, "staged", 0,       "the system does not pin memory for the GPU")                 \
    X(FAILED,     "staged", 0,       "the copy could not be made")                                 \
    X(DEVICE,     "device", 0,       "the GPU has room for it")                                    \
    X(FASTER,     "staged", 0,       "it was measured to be faster than reading in place")
// clang-format on

#define SL_STORE_WAY_NAME(name, ...) SL_STORE_WAY_##name,
enum sl_store_way {
    SL_STORE_WAY_NONE, // no GPU trains, or it has not been found
    SL_STORE_WAYS(SL_STORE_WAY_NAME) SL_STORE_WAY_COUNT
};
#undef SL_STORE_WAY_NAME

struct sl_store_way_kind {
    const char *word, *why; // NULL of NONE
    uint32_t page_bytes;
};

// By enum sl_store_way.
extern const struct sl_store_way_kind sl_store_ways[SL_STORE_WAY_COUNT];

#endif
