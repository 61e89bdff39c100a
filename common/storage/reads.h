// reads.h - what the two ways to read runs (row_reader.h) have in common.
#ifndef SL_STORAGE_READS_H
#define SL_STORAGE_READS_H

#include <stdatomic.h>

#include "common/storage/row_file.h"

enum {
    SL_ROW_ATTEMPTS = 3,
    SL_ROW_LOOK_MS = 100, // between two looks at stopping()
};

// Consecutive blocks that are read at once.
struct sl_row_run {
    uint32_t part;     // of the reader's
    uint64_t at;       // bytes from the file's beginning
    uint32_t bytes;    // asked for: whole blocks, which may reach beyond the file's end
    uint32_t need;     // of them up to the end of the last row
    uint32_t first, n; // the rows, among those that are sorted
    bool done;         // delivered
};

// Rows of one size among all that a reader has.
struct sl_row_set {
    struct sl_row_file file;
    uint64_t first;      // number of its first row
    uint32_t first_part; // of the reader's, which file.part are
};

struct sl_row_reader {
    struct sl_row_set *set;   // (n_sets) the rows of one behind those of the one before
    struct sl_row_part *part; // (n_parts) of all of them
    char **path;              // (n_parts, owned)
    uint32_t n_sets, n_parts;
    struct sl_row_options options;
    struct sl_row_profile facts;
    const struct sl_row_reads *reads;
    void *state;         // of `reads`
    int owner;           // the process that opened it
    _Atomic bool direct; // reads go past the page cache
    bool broken;         // the drive fell silent: nothing is read any more
    uint64_t slot_bytes; // of a run's buffer: no run is longer
    char *buffers;       // (SL_ROW_DEPTH_MAX, slot_bytes), aligned to blocks

    // Of the call that is under way.
    const struct sl_row_set *now;    // whose rows are read
    struct sl_row_run *runs, *dealt; // dealt: room to put them in turns
    uint64_t *sorted;                // row of the set << 32 | its place in `out`
    uint32_t n_runs;
    uint64_t runs_max, dealt_max, sorted_max;
    char *out; // NULL: what is read goes nowhere
    _Atomic uint64_t bytes;
};

// SL_EUNSUPPORTED of open or go: the kernel refuses to read this way. Nothing is under way then,
// and runs that are not done are for another way.
struct sl_row_reads {
    const char *name;
    int (*open)(struct sl_row_reader *r);
    int (*go)(struct sl_row_reader *r); // all runs, facts.depth at once
    void (*close)(struct sl_row_reader *r);
};

extern const struct sl_row_reads sl_row_reads_uring, sl_row_reads_threads;

static inline char *sl_row_slot(const struct sl_row_reader *r, uint32_t slot)
{
    return r->buffers + slot * r->slot_bytes;
}

// Which part a row lies in, and at which of its bytes.
static inline uint64_t sl_row_place(const struct sl_row_file *f, uint64_t row, uint32_t *part)
{
    uint64_t at = f->offset + row * f->row_bytes;
    *part = 0;
    if (f->n > 1)
        sl_stripes_place(f->unit_bytes, f->n, row * f->row_bytes, part, &at);
    return at;
}

static inline bool sl_row_stopping(const struct sl_row_reader *r)
{
    return r->options.stopping && r->options.stopping(r->options.ctx);
}

// Copies the rows of a run whose bytes have come to their places; the run is done.
void sl_row_deliver(struct sl_row_reader *r, struct sl_row_run *run, const char *bytes);

// The outcome of a read of a run's missing rest: `got` bytes were there before, `result` is the
// kernel's answer: bytes, or -errno.
enum sl_row_step { SL_ROW_DONE, SL_ROW_AGAIN, SL_ROW_FAILED };
struct sl_row_progress {
    uint32_t got;
    int attempts; // that failed
    bool direct;  // the reader was when this was asked for last
};
// What is to be done next. SL_ROW_FAILED: *rc is the error. Where the file system refuses a direct
// read, the reader is not direct from then on.
enum sl_row_step sl_row_take(struct sl_row_reader *r, const struct sl_row_run *run,
                             struct sl_row_progress *progress, int64_t result, int *rc);

// All parts past the page cache, or through it. False: one of them cannot.
bool sl_row_set_direct(struct sl_row_reader *r, bool direct);

// SL_ETIMEDOUT when the drive has not answered since `last_ns` for SL_ROW_PATIENCE_S; the reader is
// broken then.
int sl_row_check_patience(struct sl_row_reader *r, uint64_t last_ns);

#endif
