/*
 * writer.h - the files that a job adds to while it runs, written by a thread of their own.
 *
 * PROBLEM. The broker's one thread takes back what dead workers held and opens the next phase. A
 * file must not hold it up: a file server may be gone, a disk full, a pipe without a reader.
 *
 * DESIGN. Records go into one queue, in the order in which they were added, and a thread writes
 * them in that order. Adding one copies it and never waits: when the queue has SL_WRITER_BYTES_MAX
 * (the file system hangs), it is dropped and counted. A record is written whole or not at all: of
 * one that does not fit, what was written is cut off again. It is counted as lost, and the next one
 * is tried: a disk that was full may have room again. Where it cannot be cut off nothing more is
 * added to that file. A log has a line in it where others are missing.
 *
 * Losses are reported once a file while the job runs (sl_writer_poll) and summed up at its end.
 *
 * DEATH. The queue dies with the process. A record is handed to the kernel as soon as the thread
 * comes to it, so every file has the first records of all that were added to it.
 *
 * Everything here is for one thread, the broker's.
 */
#ifndef SL_BROKER_LOG_WRITER_H
#define SL_BROKER_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_WRITER_BYTES_MAX = 4 << 20, // in the queue
    SL_WRITER_NAME_BYTES = 64,
};

enum sl_writer_kind {
    SL_WRITER_RECORDS, // a gap is a gap
    SL_WRITER_LOG,     // says where lines are missing
};

struct sl_writer;
struct sl_writer_file;

int sl_writer_start(struct sl_writer **out);

/*
 * Opens `path` for adding to it; it is made where it is not there, and `flags` may be O_EXCL.
 * `name` is what it is called when something is lost. Never waits for a pipe's reader: without one
 * this is an error. SL_EEXIST, SL_EACCESS, SL_EIO. The file is the writer's.
 */
int sl_writer_open(struct sl_writer *w, const char *path, int flags, enum sl_writer_kind kind,
                   const char *name, struct sl_writer_file **out);

// Adds a record, or a line (with its newline). Never waits and never fails. To a NULL: nothing.
void sl_writer_add(struct sl_writer_file *f, const void *bytes, size_t n);
void sl_writer_add_line(struct sl_writer_file *f, const char *line);

struct sl_writer_loss {
    char name[SL_WRITER_NAME_BYTES];
    uint64_t n; // records
    int err;    // errno of the first; 0: the queue was full
};

// A file that has lost something for the first time since the last look. False: there is none.
bool sl_writer_poll(struct sl_writer *w, struct sl_writer_loss *out);
// The i-th file that has lost anything at all.
bool sl_writer_lost(struct sl_writer *w, uint32_t i, struct sl_writer_loss *out);

// Waits until everything is written, at most so long. Records that are not, 0 for all.
uint64_t sl_writer_flush(struct sl_writer *w, uint32_t wait_ms);

// The same, and ends: nothing may be added any more. A thread that hangs in a write ends with it,
// or with the process. Safe on NULL.
void sl_writer_close(struct sl_writer *w, uint32_t wait_ms);

#endif
