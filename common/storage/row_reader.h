/*
 * row_reader.h - rows of a file that does not fit in memory, a whole batch of them at a time.
 *
 * PROBLEM. A mapped file whose pages are not in memory costs a page fault a row, one after the
 * other: the drive serves one read at a time, of the hundreds that it could serve at once.
 *
 * DESIGN (GIDS 3.2 and 3.3: enough reads in flight to hide the drive's latency). Rows are sorted by
 * their place in the file. Those whose blocks of 4 KiB are the same or touch become one read, a
 * *run*: a row may lie across two blocks (behind a header it mostly does), and a block may hold
 * many. Up to `depth` runs are under way:
 *
 *      io_uring   one thread asks and takes, with the buffers and the file registered
 *      threads    of which each reads one run after the other, where the kernel refuses io_uring
 *                 (containers do), or has too old a one
 *
 * Where the file system lets it, the page cache is passed by (O_DIRECT), so that features do not
 * push out what is mapped: topology, and what the page cache is good for. Of features that several
 * drives have (stripes.h) a batch's runs are asked for of one after the other, in turns.
 *
 * DEPTH, by Little's law: what the drive serves a second, measured with as many reads under way as
 * there may be, times how long one takes. How long that is depends on the others: the product with
 * the time of one that is alone is where the search begins, which doubles the depth until the drive
 * serves nearly as much. Measured when the reader is opened.
 *
 * FAILURE. A way that the kernel refuses, when it is opened or in the middle of a read, is left for
 * threads, which read what has not come; a file system that refuses direct reads is read through
 * the page cache. Either for as long as the reader lives, with a line in the log. What the drive
 * cannot read is asked for twice more; then it is SL_EIO with file and offset. A file that has
 * become shorter is SL_EFORMAT, another one than was mapped SL_ECHANGED. A drive that says nothing
 * for SL_ROW_PATIENCE_S is SL_ETIMEDOUT, and the reader is of no use then; nor is it after a stop
 * in the middle of a read, whose buffers stay until the process ends. A child that was forked has
 * its parent's ring, and what it asks for would come to its parent's buffers: it is refused.
 */
#ifndef SL_STORAGE_ROW_READER_H
#define SL_STORAGE_ROW_READER_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/storage/row_file.h"

struct sl_row_reader;

// The features of a data set, of a shard its own; rows are vertices, of a shard their places,
// those of a type behind those of the types before it.
// SL_ECHANGED when the file is not the one that was mapped; SL_ENOENT, SL_EACCES, SL_EIO,
// SL_ENOMEM.
int sl_row_reader_open(const struct sl_dataset *ds, const struct sl_row_options *options,
                       struct sl_row_reader **out);
// Any rows. Files are closed where this fails, too.
int sl_row_reader_open_file(const struct sl_row_file *file, const struct sl_row_options *options,
                            struct sl_row_reader **out);
// Rows of several sizes: those of the second file behind those of the first, ...; numbered through.
int sl_row_reader_open_files(const struct sl_row_file *file, uint32_t n,
                             const struct sl_row_options *options, struct sl_row_reader **out);
// NULL is fine. Waits for what is under way, unless the drive has fallen silent.
void sl_row_reader_close(struct sl_row_reader *r);

// Row rows[i] goes to place to[i] of out (places, row_bytes), i of n; to NULL: to place i. All of
// one file; a number may occur twice. One thread at a time. SL_ERANGE for what is no row;
// SL_EABORTED once stopping() says so. After an error some rows may have come.
int sl_row_reader_read(struct sl_row_reader *r, const uint32_t *rows, const uint32_t *to,
                       uint32_t n, void *out);

// The current profile.
struct sl_row_profile sl_row_reader_profile(const struct sl_row_reader *r);
// Bytes that have been read from the file so far: more than the rows, since blocks are whole.
uint64_t sl_row_reader_bytes(const struct sl_row_reader *r);
const char *sl_row_way_name(enum sl_row_way way); // "io_uring", "threads"

// Whether the kernel lets this process read through io_uring: SL_OK, or SL_EUNSUPPORTED and why
// not.
int sl_row_reader_try_uring(void);

#endif
