/*
 * partition.h - which node of a job has which vertex's features: made, measured, written.
 */
#ifndef SL_PARTITION_PARTITION_H
#define SL_PARTITION_PARTITION_H

#include "partition/remote_rows.h"
#include "partition/shards.h"

enum sl_partition_method {
    SL_PARTITION_AUTO, // METIS where it is there and the graph fits it, else a stream
    SL_PARTITION_METIS,
    SL_PARTITION_METIS_KWAY,
    SL_PARTITION_STREAM,
    SL_PARTITION_RANDOM,
    SL_PARTITION_GIVEN, // by a file
};

// Their names, NULL behind the last; what each is, in a line.
extern const char *const sl_partition_methods[], *const sl_partition_method_texts[];

enum { SL_PARTITION_PATH_BYTES = 4200 };

struct sl_partition {
    // Options.
    const char *dataset;
    const char *out;  // a file FILE.npy, or a directory of shards; NULL: node_part.npy of `dataset`
    const char *from; // of GIVEN: a .npy file, an integer a vertex; else NULL
    uint32_t n_parts;
    int method; // enum sl_partition_method
    double slack;
    struct sl_batch_estimate hops; // fanout and batch size
    uint64_t seed;                 // of random parts and of the batches that are drawn
    bool force, quiet;

    // Found.
    char path[SL_PARTITION_PATH_BYTES]; // of the file or directory
    struct sl_shards shards;            // where it is one; its option is one, too
    enum sl_partition_method used;
    char why[1024]; // METIS was not taken; else empty
    struct sl_parts_spread vertices, training;
    uint32_t n_filled; // vertices that were given to parts which the method left empty
    uint64_t n_edges, n_cut;
    uint64_t row_bytes; // of a vertex's features; 0 without any, and of several types
    uint64_t n_rows;    // vertices; of types those with features
    struct sl_remote_rows rows;
    double seconds;      // of the whole command
    double cpu_seconds;  // of the method alone, on a core
    uint64_t peak_bytes; // of memory, METIS's process included
};

// Whether `out` is a directory of shards to make, and no file of parts.
bool sl_partition_spreads(const char *out);

/*
 * Nothing but the file or the shards are left, whatever happens. SL_EINVAL, SL_EEXIST, SL_ENOENT
 * and what reading the data set fails with before anything is made; SL_ENOMEM where memory would
 * not suffice; SL_EFAILED for METIS; SL_EIO for a drive without room; SL_EABORTED.
 */
int sl_partition_make(struct sl_partition *p);

#endif
