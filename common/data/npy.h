/*
 * npy.h - NumPy .npy files: read by mapping, written in one piece or not at all.
 *
 * Reading accepts format versions 1 to 3, little-endian (or one-byte) plain types, C order. The
 * header is parsed strictly and the size of the file must be exactly what the header says, so a
 * truncated copy is an error here and never a SIGBUS later.
 *
 * Writing goes to a temporary file beside the target; sl_npy_writer_commit() makes it durable and
 * renames it, sl_npy_writer_abort() removes it. The data starts at a multiple of 64 bytes.
 */
#ifndef SL_DATA_NPY_H
#define SL_DATA_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/data/file_id.h"

#define SL_NPY_MAX_DIMS 4

struct sl_npy_header {
    enum sl_dtype dtype;
    int ndim; // 0 to SL_NPY_MAX_DIMS
    uint64_t shape[SL_NPY_MAX_DIMS];
    uint64_t data_offset; // bytes from the start of the file
    uint64_t data_bytes;  // product of the shape times the element's size
    bool boolean;         // a bool, which is read as U8
    // What only sl_npy_parse_foreign accepts.
    bool fortran;    // column order, of two dimensions or more
    bool big_endian; // never of one-byte types
};

// A mapped file. A zeroed struct is a closed one.
struct sl_npy {
    struct sl_npy_header head;
    const void *data; // borrowed, valid until sl_npy_close; read-only, shared
    uint64_t n_elems;
    uint64_t file_bytes;  // of the mapping
    struct sl_file_id id; // the file as it was when it was mapped; of several files all zero
    void *map;            // whole file
};

/*
 * Parses the first `n_bytes` of a file of `file_bytes` bytes. n_bytes may be less than the file but
 * must hold the whole header. `name` is only for messages. SL_EFORMAT for what is malformed,
 * SL_EUNSUPPORTED for what NumPy allows and sluice does not (big-endian, Fortran order of a
 * matrix, and whatever is no number: text, dates, objects, records, complex numbers).
 */
int sl_npy_parse_header(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                        struct sl_npy_header *out);

// The same for arrays that are converted while they are read, not mapped: big-endian and Fortran
// order are accepted and noted in *out, and data may be unaligned.
int sl_npy_parse_foreign(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                         struct sl_npy_header *out);

// The same for text alone ('S3', 'U3'): U8 with one more dimension, 3 or 4 * 3 of UTF-32.
int sl_npy_parse_text(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                      struct sl_npy_header *out);

// Maps a file read-only and shared. SL_ENOENT, SL_EACCESS, SL_EIO, or as sl_npy_parse_header.
int sl_npy_open(const char *path, struct sl_npy *out);
// The same of a file that was looked at before; SL_ECHANGED where it is not that one (file_id.h).
int sl_npy_open_same(const char *path, const struct sl_file_id *was, struct sl_npy *out);
void sl_npy_close(struct sl_npy *npy); // safe on a zeroed struct

// NumPy's name of a type ("float32"); "?" for one that .npy files cannot hold.
const char *sl_npy_dtype_name(enum sl_dtype dtype);

// "(3, 4)" into buf; returns buf.
char *sl_npy_shape_text(const struct sl_npy_header *head, char *buf, size_t n_buf);

// ---- writing ------------------------------------------------------------------------------------

// As shape[0] of sl_npy_writer_open: commit fills in the number of rows that were appended.
#define SL_NPY_ROWS_LATER UINT64_MAX

struct sl_npy_writer;

/*
 * Starts a file that is appended to in order. `path` is the final name, e.g. "out/indices.npy"; its
 * directory must exist; a file of that name stays as it is until commit. Types: all of enum
 * sl_dtype but NONE and BF16.
 */
int sl_npy_writer_open(const char *path, enum sl_dtype dtype, int ndim, const uint64_t *shape,
                       struct sl_npy_writer **out);

// Starts a list of ids below n_ids, of as many as are appended: int32 where that holds them.
int sl_npy_writer_open_ids(const char *path, uint64_t n_ids, struct sl_npy_writer **out);

// Takes the space of the whole file, of known shape, so that a full disk is SL_EIO now.
int sl_npy_writer_reserve(struct sl_npy_writer *w);

// Appends raw little-endian elements; buffered (1 MiB), any number of bytes.
int sl_npy_writer_append(struct sl_npy_writer *w, const void *data, uint64_t n_bytes);
// Appends one element to a file of 32-bit or 64-bit integers.
int sl_npy_writer_append_id(struct sl_npy_writer *w, uint64_t id);

/*
 * Starts a file of known shape and maps its data for writing in any order (from any number of
 * threads). The disk space is reserved here, so a full disk is SL_EIO now and not SIGBUS later;
 * the data begins as zeros. *data (borrowed) is valid until commit or abort.
 */
int sl_npy_create_mapped(const char *path, enum sl_dtype dtype, int ndim, const uint64_t *shape,
                         struct sl_npy_writer **out, void **data);

/*
 * Checks that exactly the promised data was appended, then fsync, rename, fsync of the directory.
 * The writer is gone afterwards whatever is returned; on failure the temporary file is removed.
 */
int sl_npy_writer_commit(struct sl_npy_writer *w);

// Removes the temporary file and frees the writer. NULL is fine.
void sl_npy_writer_abort(struct sl_npy_writer *w);

// The end of a step that returned rc: commits where that is SL_OK, else aborts. Returns rc or the
// error of the commit; *w is NULL then, and may have been before.
int sl_npy_writer_close(struct sl_npy_writer **w, int rc);

#endif
