/*
 * Writing .npy files.
 *
 * Two ways, one end. The streaming writer collects appended bytes in a buffer and writes it out
 * when full; with SL_NPY_ROWS_LATER the header is written again at commit, in space reserved for
 * the largest possible number. The mapped writer reserves the space of the whole file first and
 * lets the caller fill the mapping. Both fill a temporary file (atomic_file.h), so whatever fails
 * or is killed half way, no reader ever sees a partial file under the final name.
 */
#include "common/data/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/atomic_file.h"
#include "common/data/npy_internal.h"

enum {
    // A file is written in whole buffers from its beginning on: where the file system keeps what
    // is written at once in one page of 2 MiB, who maps the file has such pages, too. Random rows
    // of 512 bytes then take a third less time.
    BUFFER_BYTES = 2 << 20,
    HEADER_ALIGN = 64,
    MAX_HEADER_BYTES = 256,
};

struct sl_npy_writer {
    struct sl_atomic_file file;
    struct sl_npy_header head;
    bool rows_later;
    uint64_t row_bytes;      // of one element of the first dimension
    uint64_t appended_bytes; // in the file and in the buffer
    size_t n_buffered;
    char *buffer; // (BUFFER_BYTES), NULL when mapped
    void *map;    // the whole file, NULL when streaming
};

// Formats the header for the shape in w->head into text[w->head.data_offset].
static void format_header(const struct sl_npy_writer *w, char *text)
{
    char shape[128];
    size_t total = w->head.data_offset;
    memset(text, ' ', total);
    int n =
        snprintf(text + 10, total - 10, "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                 sl_dtype_bytes(w->head.dtype) == 1 ? '|' : '<', sl_npy_descr(w->head.dtype),
                 sl_npy_shape_text(&w->head, shape, sizeof shape));
    text[10 + n] = ' '; // snprintf's terminator
    text[total - 1] = '\n';
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = (char)((total - 10) & 0xff);
    text[9] = (char)((total - 10) >> 8);
}

static int plan(struct sl_npy_writer *w, const char *path, enum sl_dtype dtype, int ndim,
                const uint64_t *shape)
{
    if (!sl_npy_descr(dtype) || ndim < 0 || ndim > SL_NPY_MAX_DIMS)
        return sl_fail(SL_EINVAL, "write %s: a .npy file of type %d with %d dimensions", path,
                       (int)dtype, ndim);
    w->head.dtype = dtype;
    w->head.ndim = ndim;
    w->rows_later = ndim > 0 && shape[0] == SL_NPY_ROWS_LATER;
    uint64_t bytes = sl_dtype_bytes(dtype);
    bool overflow = false;
    for (int i = ndim - 1; i >= 0; i--) {
        w->head.shape[i] = shape[i];
        if (i == 0) {
            w->row_bytes = bytes;
            if (w->rows_later)
                break;
        }
        overflow |= __builtin_mul_overflow(bytes, shape[i], &bytes);
    }
    char text[128];
    if (overflow || bytes > INT64_MAX - MAX_HEADER_BYTES)
        return sl_fail(SL_EINVAL, "write %s: shape %s is more than a file can hold", path,
                       sl_npy_shape_text(&w->head, text, sizeof text));
    w->head.data_bytes = w->rows_later ? 0 : bytes;

    // Room for the longest text this header can become, whatever the rows turn out to be.
    struct sl_npy_header longest = w->head;
    if (w->rows_later)
        longest.shape[0] = UINT64_MAX;
    size_t n = strlen(sl_npy_shape_text(&longest, text, sizeof text));
    n += strlen("{'descr': '<f4', 'fortran_order': False, 'shape': , }");
    w->head.data_offset = sl_align_up(10 + n + 1, HEADER_ALIGN);
    return SL_OK;
}

static int start(const char *path, enum sl_dtype dtype, int ndim, const uint64_t *shape,
                 struct sl_npy_writer **out)
{
    *out = NULL;
    struct sl_npy_writer *w = calloc(1, sizeof *w);
    if (!w)
        return sl_fail(SL_ENOMEM, "write %s: out of memory", path);
    int rc = plan(w, path, dtype, ndim, shape);
    if (rc == SL_OK)
        rc = sl_atomic_file_open(path, &w->file);
    if (rc < 0) {
        free(w);
        return rc;
    }
    *out = w;
    return SL_OK;
}

int sl_npy_writer_open(const char *path, enum sl_dtype dtype, int ndim, const uint64_t *shape,
                       struct sl_npy_writer **out)
{
    struct sl_npy_writer *w;
    SL_TRY(start(path, dtype, ndim, shape, &w));
    w->buffer = malloc(BUFFER_BYTES);
    if (!w->buffer) {
        const int rc = sl_fail(SL_ENOMEM, "write %s: out of memory", path);
        sl_npy_writer_abort(w);
        return rc;
    }
    format_header(w, w->buffer);
    w->n_buffered = w->head.data_offset;
    *out = w;
    return SL_OK;
}

static int flush(struct sl_npy_writer *w)
{
    size_t n = w->n_buffered;
    w->n_buffered = 0;
    return sl_atomic_file_append(&w->file, w->buffer, n);
}

int sl_npy_writer_append(struct sl_npy_writer *w, const void *data, uint64_t n_bytes)
{
    if (n_bytes == 0)
        return SL_OK;
    if (!w->rows_later && n_bytes > w->head.data_bytes - w->appended_bytes)
        return sl_fail(SL_EINVAL,
                       "write %s: %" PRIu64 " bytes appended to %" PRIu64 ", wanted %" PRIu64
                       " in all",
                       w->file.path, n_bytes, w->appended_bytes, w->head.data_bytes);
    w->appended_bytes += n_bytes;
    for (const char *from = data; n_bytes > 0;) {
        const size_t some = SL_MIN(n_bytes, BUFFER_BYTES - w->n_buffered);
        memcpy(w->buffer + w->n_buffered, from, some);
        w->n_buffered += some;
        from += some;
        n_bytes -= some;
        if (w->n_buffered == BUFFER_BYTES)
            SL_TRY(flush(w));
    }
    return SL_OK;
}

int sl_npy_writer_open_ids(const char *path, uint64_t n_ids, struct sl_npy_writer **out)
{
    const uint64_t later = SL_NPY_ROWS_LATER;
    return sl_npy_writer_open(path, n_ids > INT32_MAX ? SL_DTYPE_I64 : SL_DTYPE_I32, 1, &later,
                              out);
}

int sl_npy_writer_append_id(struct sl_npy_writer *w, uint64_t id)
{
    size_t n = w->row_bytes; // little-endian: the bytes of a narrow id come first
    if (!w->rows_later || w->n_buffered + sizeof id > BUFFER_BYTES)
        return sl_npy_writer_append(w, &id, n);
    memcpy(w->buffer + w->n_buffered, &id, sizeof id); // what is too much is written over
    w->n_buffered += n;
    w->appended_bytes += n;
    return SL_OK;
}

int sl_npy_writer_reserve(struct sl_npy_writer *w)
{
    uint64_t bytes = w->head.data_offset + w->head.data_bytes;
    int err;
    do
        err = posix_fallocate(w->file.fd, 0, (off_t)bytes);
    while (err == EINTR);
    if (err)
        return sl_fail_errno(SL_EIO, err, "write %s: reserve %" PRIu64 " bytes", w->file.path,
                             bytes);
    return SL_OK;
}

// Reserves and maps the file of a started writer.
static int map_whole(struct sl_npy_writer *w)
{
    uint64_t bytes = w->head.data_offset + w->head.data_bytes;
    // ftruncate alone would leave a hole: a disk that fills up later would then kill with SIGBUS.
    SL_TRY(sl_npy_writer_reserve(w));
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->file.fd, 0);
    if (map == MAP_FAILED)
        return sl_fail_errno(errno == ENOMEM ? SL_ENOMEM : SL_EIO, errno,
                             "write %s: map %" PRIu64 " bytes", w->file.path, bytes);
    w->map = map;
    format_header(w, map);
    return SL_OK;
}

int sl_npy_create_mapped(const char *path, enum sl_dtype dtype, int ndim, const uint64_t *shape,
                         struct sl_npy_writer **out, void **data)
{
    *out = NULL;
    *data = NULL;
    if (ndim > 0 && shape[0] == SL_NPY_ROWS_LATER)
        return sl_fail(SL_EINVAL, "write %s: a mapped file needs its number of rows", path);
    struct sl_npy_writer *w;
    SL_TRY(start(path, dtype, ndim, shape, &w));
    int rc = map_whole(w);
    if (rc < 0) {
        sl_npy_writer_abort(w);
        return rc;
    }
    *out = w;
    *data = (char *)w->map + w->head.data_offset;
    return SL_OK;
}

// Completes the bytes of a streamed file.
static int finish_stream(struct sl_npy_writer *w)
{
    SL_TRY(flush(w));
    uint64_t rows = w->row_bytes ? w->appended_bytes / w->row_bytes : 0;
    if (!w->rows_later && w->appended_bytes != w->head.data_bytes)
        return sl_fail(SL_EINVAL, "write %s: %" PRIu64 " bytes appended, wanted %" PRIu64,
                       w->file.path, w->appended_bytes, w->head.data_bytes);
    if (!w->rows_later)
        return SL_OK;
    if (rows * w->row_bytes != w->appended_bytes)
        return sl_fail(SL_EINVAL,
                       "write %s: %" PRIu64 " bytes appended, not whole rows of %" PRIu64 " bytes",
                       w->file.path, w->appended_bytes, w->row_bytes);
    char header[MAX_HEADER_BYTES];
    w->head.shape[0] = rows;
    format_header(w, header);
    if (lseek(w->file.fd, 0, SEEK_SET) < 0)
        return sl_fail_errno(SL_EIO, errno, "write %s: seek to its header", w->file.path);
    return sl_atomic_file_append(&w->file, header, w->head.data_offset);
}

static void release(struct sl_npy_writer *w)
{
    if (w->map)
        munmap(w->map, w->head.data_offset + w->head.data_bytes);
    free(w->buffer);
    free(w);
}

int sl_npy_writer_commit(struct sl_npy_writer *w)
{
    int rc = w->map ? SL_OK : finish_stream(w);
    // fsync writes what was stored through the mapping too, mapped or not.
    if (rc == SL_OK)
        rc = sl_atomic_file_commit(&w->file);
    else
        sl_atomic_file_abort(&w->file);
    release(w);
    return rc;
}

void sl_npy_writer_abort(struct sl_npy_writer *w)
{
    if (!w)
        return;
    sl_atomic_file_abort(&w->file);
    release(w);
}

int sl_npy_writer_close(struct sl_npy_writer **w, int rc)
{
    struct sl_npy_writer *writer = *w;
    *w = NULL;
    if (rc == SL_OK && writer)
        return sl_npy_writer_commit(writer);
    sl_npy_writer_abort(writer);
    return rc;
}
