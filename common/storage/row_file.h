// row_file.h - the files that rows are read from, how they are read, and measurements of the drive.
#ifndef SL_STORAGE_ROW_FILE_H
#define SL_STORAGE_ROW_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/stripes.h"

enum {
    SL_ROW_PATIENCE_S = 30,
    SL_ROW_BLOCK_BYTES = 4096, // offsets, lengths and buffers of a direct read are multiples of it
    SL_ROW_RUN_BYTES = 65536,  // of a run; one of a single row may be longer
    SL_ROW_DEPTH_MAX = 256,    // reads that are under way at once
    SL_ROW_READER_BYTES = SL_ROW_RUN_BYTES * SL_ROW_DEPTH_MAX, // of a reader's buffers
};

// How reads reach the drive.
enum sl_row_way { SL_ROWS_BY_URING, SL_ROWS_BY_THREADS };

enum { SL_ROW_PARTS_MAX = SL_STRIPES_MAX };

// A file of them.
struct sl_row_part {
    const char *path; // for messages
    int fd;           // the reader's once it is open
    uint64_t bytes;   // of which none is missing
};

// Rows of one size, one behind the other, in one file or in units that several take turns with.
struct sl_row_file {
    uint32_t n; // 0: nobody reads these rows, which are in no file
    struct sl_row_part part[SL_ROW_PARTS_MAX];
    uint64_t unit_bytes; // whole rows; of one file not looked at
    uint64_t offset;     // of the first row, in each of several SL_STRIPE_HEAD_BYTES
    uint64_t n_rows;     // at most 2^32
    uint64_t row_bytes;  // at least 1
};

struct sl_row_options {
    enum sl_row_way way; // the first that is tried
    bool cached;         // through the page cache, whatever the file system can do
    uint32_t depth;      // 0: measured
    bool (*stopping)(
        void *ctx); // whether to leave; asked ten times a second at the least. NULL: never
    void *ctx;
};

// What a reader has measured and decided.
struct sl_row_profile {
    enum sl_row_way way;
    bool direct;        // past the page cache
    uint32_t depth;     // most reads that are under way at once
    double latency_s;   // of one block that is read alone; 0: not measured
    double reads_per_s; // of blocks, with as many under way as there may be; 0: not measured
};

#endif
