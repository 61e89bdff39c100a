#include "dataset/array_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/half.h"
#include "common/base/narrow.h"
#include "common/base/open_file.h"

enum { NAME_BYTES = 4608, HEAD_BYTES = 66 << 10, BATCH_BYTES = 64 << 10 };

struct sl_array_reader {
    char name[NAME_BYTES];
    struct sl_npy_header head;
    uint64_t n, left; // elements
    size_t width;     // bytes of one

    int fd;      // a file, or -1
    uint64_t at; // its position
    struct sl_zip_stream *stream;
    unsigned char *ahead; // of a member: what was read to see the header and is data
    size_t n_ahead;
    bool borrowed; // fd is the caller's
    // Of a part whose bytes are characters of UTF-8.
    bool utf8;
    uint64_t n_coded;    // bytes of the file that are left of them
    unsigned char begun; // the first byte of a character of two; 0: none

    unsigned char head_bytes[HEAD_BYTES];
    unsigned char batch[BATCH_BYTES];
};

// ---- opening ------------------------------------------------------------------------------------

static int read_file(struct sl_array_reader *r, unsigned char *p, size_t n)
{
    while (n > 0) {
        ssize_t got = pread(r->fd, p, n, (off_t)r->at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_fail_errno(SL_EIO, errno, "%s: cannot be read", r->name);
        if (got == 0)
            return sl_fail(SL_EFORMAT, "%s: became shorter while it was read", r->name);
        p += got;
        n -= (size_t)got;
        r->at += (uint64_t)got;
    }
    return SL_OK;
}

// The header from the first n_bytes of a file of `size`.
static int take_header(struct sl_array_reader *r, size_t n_bytes, uint64_t size, bool text)
{
    SL_TRY((text ? sl_npy_parse_text : sl_npy_parse_foreign)(r->head_bytes, n_bytes, size, r->name,
                                                             &r->head));
    r->width = sl_dtype_bytes(r->head.dtype);
    r->n = r->left = r->head.data_bytes / r->width;
    return SL_OK;
}

static int make_reader(const char *path, struct sl_array_reader **out)
{
    struct sl_array_reader *r = *out = calloc(1, sizeof *r);
    if (!r)
        return sl_fail(SL_ENOMEM, "%s: out of memory", path);
    r->fd = -1;
    return SL_OK;
}

// Closes what could not be opened.
static int end_opening(int rc, struct sl_array_reader **out)
{
    if (rc == SL_OK)
        return rc;
    sl_array_close(*out);
    *out = NULL;
    return rc;
}

// What a file without a header is said to hold, against its size.
static int take_raw(struct sl_array_reader *r, const struct sl_npy_header *raw, uint64_t size)
{
    char shape[128];
    r->head = *raw;
    r->width = sl_dtype_bytes(raw->dtype);
    r->n = 1;
    for (int i = 0; i < raw->ndim; i++)
        r->n *= raw->shape[i];
    r->left = r->n;
    r->head.data_offset = 0;
    r->head.data_bytes = r->n * r->width;
    if (r->head.data_bytes == size)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: found %" PRIu64 " bytes: wanted %" PRIu64 ", the size of %s %s without a "
                   "header: is the download complete, and the number of vertices right?",
                   r->name, size, r->head.data_bytes, sl_npy_dtype_name(raw->dtype),
                   sl_npy_shape_text(raw, shape, sizeof shape));
}

// raw: what the file holds when it has no header; else NULL.
static int open_file(struct sl_array_reader *r, const char *path, const struct sl_npy_header *raw)
{
    struct stat st;
    r->fd = sl_open_regular_file(path, &st);
    if (r->fd < 0)
        return r->fd;
    size_t n = (size_t)SL_MIN((uint64_t)st.st_size, (uint64_t)HEAD_BYTES);
    SL_TRY(read_file(r, r->head_bytes, n));
    if (raw && (n < 6 || memcmp(r->head_bytes, "\x93NUMPY", 6) != 0))
        SL_TRY(take_raw(r, raw, (uint64_t)st.st_size));
    else
        SL_TRY(take_header(r, n, (uint64_t)st.st_size, false));
    r->at = r->head.data_offset;
    return SL_OK;
}

int sl_array_open_raw(const char *path, const struct sl_npy_header *head,
                      struct sl_array_reader **out)
{
    SL_TRY(make_reader(path, out));
    struct sl_array_reader *r = *out;
    snprintf(r->name, sizeof r->name, "%s", path);
    return end_opening(open_file(r, path, head), out);
}

int sl_array_open_file(const char *path, struct sl_array_reader **out)
{
    return sl_array_open_raw(path, NULL, out);
}

static size_t find_member(const struct sl_zip *zip, const char *key)
{
    char name[512];
    snprintf(name, sizeof name, "%s.npy", key);
    return sl_zip_find(zip, name);
}

bool sl_array_has_member(const struct sl_zip *zip, const char *key)
{
    return find_member(zip, key) < sl_zip_count(zip);
}

static int open_stream(struct sl_array_reader *r, const struct sl_zip *zip, size_t member,
                       bool text)
{
    SL_TRY(sl_zip_stream_open(zip, member, &r->stream));
    uint64_t size = sl_zip_stream_left(r->stream);
    size_t n = (size_t)SL_MIN(size, (uint64_t)HEAD_BYTES);
    SL_TRY(sl_zip_stream_read(r->stream, r->head_bytes, n));
    SL_TRY(take_header(r, n, size, text));
    r->ahead = r->head_bytes + r->head.data_offset;
    r->n_ahead = n - r->head.data_offset;
    return SL_OK;
}

static int open_member(const struct sl_zip *zip, const char *key, bool text,
                       struct sl_array_reader **out)
{
    size_t member = find_member(zip, key);
    *out = NULL;
    if (member == sl_zip_count(zip))
        return sl_fail(SL_ENOENT, "%s: has no array '%s'", sl_zip_path(zip), key);
    SL_TRY(make_reader(sl_zip_path(zip), out));
    struct sl_array_reader *r = *out;
    snprintf(r->name, sizeof r->name, "%s: %s", sl_zip_path(zip), key);
    return end_opening(open_stream(r, zip, member, text), out);
}

int sl_array_open_member(const struct sl_zip *zip, const char *key, struct sl_array_reader **out)
{
    return open_member(zip, key, false, out);
}

void sl_array_close(struct sl_array_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0 && !r->borrowed)
        close(r->fd);
    sl_zip_stream_close(r->stream);
    free(r);
}

const struct sl_npy_header *sl_array_header(const struct sl_array_reader *r)
{
    return &r->head;
}

const char *sl_array_name(const struct sl_array_reader *r)
{
    return r->name;
}

uint64_t sl_array_count(const struct sl_array_reader *r)
{
    return r->n;
}

uint64_t sl_array_left(const struct sl_array_reader *r)
{
    return r->left;
}

bool sl_array_is_integer(const struct sl_array_reader *r)
{
    enum sl_dtype t = r->head.dtype;
    return t != SL_DTYPE_F16 && t != SL_DTYPE_F32 && t != SL_DTYPE_F64;
}

int sl_array_check_ids(const struct sl_array_reader *r)
{
    if (!r->head.boolean)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: is bool, a mask: wanted numbers of vertices: numpy.argwhere() makes "
                   "them of a mask",
                   r->name);
}

// ---- a part of a file ---------------------------------------------------------------------------

static int skip_content(struct sl_array_reader *r, uint64_t n)
{
    while (n > 0) {
        const uint64_t some = SL_MIN(n, (uint64_t)BATCH_BYTES);
        SL_TRY(sl_zip_stream_read(r->stream, r->batch, some));
        n -= some;
    }
    return SL_OK;
}

static int open_part(struct sl_array_reader *r, const struct sl_array_part *part)
{
    r->head = *part->head;
    r->width = sl_dtype_bytes(r->head.dtype);
    r->n = r->left = r->head.data_bytes / r->width;
    r->utf8 = part->utf8;
    r->n_coded = part->n_bytes;
    r->ahead = r->head_bytes; // of which nothing is
    if (r->n == 0)
        return SL_OK;
    uint64_t size = part->size;
    if (part->zip) {
        SL_TRY(sl_zip_stream_open(part->zip, part->member, &r->stream));
        size = sl_zip_stream_left(r->stream);
    }
    if (part->at > size || part->n_bytes > size - part->at)
        return sl_fail(SL_EFORMAT, "%s: ends early: get the file again", r->name);
    if (part->zip)
        return skip_content(r, part->at);
    r->fd = part->fd;
    r->borrowed = true;
    r->at = part->at;
    return SL_OK;
}

int sl_array_open_part(const struct sl_array_part *part, struct sl_array_reader **out)
{
    SL_TRY(make_reader(part->name, out));
    struct sl_array_reader *r = *out;
    snprintf(r->name, sizeof r->name, "%s", part->name);
    return end_opening(open_part(r, part), out);
}

// ---- reading ------------------------------------------------------------------------------------

static int read_bytes(struct sl_array_reader *r, unsigned char *p, size_t n);

// Characters up to 255 in UTF-8, in place of which p gets bytes: each is one or two of the file's.
static int read_characters(struct sl_array_reader *r, unsigned char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const size_t some = (size_t)SL_MIN((uint64_t)(n - done), r->n_coded);
        if (some == 0)
            return sl_fail(SL_EFORMAT, "%s: ends early: get the file again", r->name);
        r->utf8 = false;
        int rc = read_bytes(r, p + done, some);
        r->utf8 = true;
        SL_TRY(rc);
        r->n_coded -= some;
        for (size_t i = done, end = done + some; i < end; i++) {
            const unsigned char c = p[i], begun = r->begun;
            r->begun = begun || c < 0x80 ? 0 : c;
            if (!r->begun)
                p[done++] = begun ? (unsigned char)(begun << 6 | (c & 0x3f)) : c;
        }
    }
    return SL_OK;
}

static int read_bytes(struct sl_array_reader *r, unsigned char *p, size_t n)
{
    if (r->utf8)
        return read_characters(r, p, n);
    if (!r->stream)
        return read_file(r, p, n);
    size_t from_ahead = SL_MIN(n, r->n_ahead);
    memcpy(p, r->ahead, from_ahead);
    r->ahead += from_ahead;
    r->n_ahead -= from_ahead;
    return n == from_ahead ? SL_OK : sl_zip_stream_read(r->stream, p + from_ahead, n - from_ahead);
}

static int read_raw(struct sl_array_reader *r, uint64_t n_bytes, void *out)
{
    if (n_bytes % r->width != 0 || n_bytes / r->width > r->left)
        return sl_fail(SL_EFORMAT, "%s: ends early", r->name);
    r->left -= n_bytes / r->width;
    return read_bytes(r, out, n_bytes);
}

int sl_array_get_text(const struct sl_zip *zip, const char *key, char *out, size_t n)
{
    struct sl_array_reader *r;
    size_t length = 0;
    SL_TRY(open_member(zip, key, true, &r));
    uint64_t bytes = SL_MIN(r->left, (uint64_t)BATCH_BYTES);
    int rc = read_raw(r, bytes, r->batch);
    for (uint64_t i = 0; rc == SL_OK && i < bytes && length + 1 < n; i++)
        if (r->batch[i])
            out[length++] = (char)r->batch[i];
    out[length] = '\0';
    sl_array_close(r);
    return rc;
}

// The next n elements (that fit the batch) in the machine's byte order.
static int next_batch(struct sl_array_reader *r, uint64_t n)
{
    unsigned char *b = r->batch;
    SL_TRY(read_raw(r, n * r->width, b));
    if (!r->head.big_endian)
        return SL_OK;
    for (uint64_t i = 0; i < n; i++) {
        unsigned char *p = b + i * r->width;
        for (size_t k = 0; k < r->width / 2; k++) {
            unsigned char t = p[k];
            p[k] = p[r->width - 1 - k];
            p[r->width - 1 - k] = t;
        }
    }
    return SL_OK;
}

// Converts n elements of the batch, each X of type T, to Y.
#define CONVERT(T, Y)                                                                              \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        T x;                                                                                       \
        memcpy(&x, r->batch + i * sizeof x, sizeof x);                                             \
        out[i] = Y;                                                                                \
    }                                                                                              \
    break

static void convert_doubles(const struct sl_array_reader *r, uint64_t n, double *out)
{
    switch (r->head.dtype) {
    case SL_DTYPE_F64: CONVERT(double, x);
    case SL_DTYPE_F32: CONVERT(float, (double)x);
    case SL_DTYPE_F16: CONVERT(uint16_t, (double)sl_half_to_float(x));
    case SL_DTYPE_I64: CONVERT(int64_t, (double)x);
    case SL_DTYPE_U64: CONVERT(uint64_t, (double)x);
    case SL_DTYPE_I32: CONVERT(int32_t, x);
    case SL_DTYPE_U32: CONVERT(uint32_t, x);
    case SL_DTYPE_I16: CONVERT(int16_t, x);
    case SL_DTYPE_U16: CONVERT(uint16_t, x);
    case SL_DTYPE_I8: CONVERT(int8_t, x);
    default: CONVERT(uint8_t, x);
    }
}

// U64 beyond int64 becomes INT64_MAX, which no id and no label is.
static void convert_integers(const struct sl_array_reader *r, uint64_t n, int64_t *out)
{
    switch (r->head.dtype) {
    case SL_DTYPE_I64: CONVERT(int64_t, x);
    case SL_DTYPE_U64: CONVERT(uint64_t, x > INT64_MAX ? INT64_MAX : (int64_t)x);
    case SL_DTYPE_I32: CONVERT(int32_t, x);
    case SL_DTYPE_U32: CONVERT(uint32_t, x);
    case SL_DTYPE_I16: CONVERT(int16_t, x);
    case SL_DTYPE_U16: CONVERT(uint16_t, x);
    case SL_DTYPE_I8: CONVERT(int8_t, x);
    default: CONVERT(uint8_t, x);
    }
}

int sl_array_read_doubles(struct sl_array_reader *r, uint64_t n, double *out)
{
    while (n > 0) {
        uint64_t some = SL_MIN(n, BATCH_BYTES / r->width);
        SL_TRY(next_batch(r, some));
        convert_doubles(r, some, out);
        out += some;
        n -= some;
    }
    return SL_OK;
}

// Where an element is, as rows and columns where there are two dimensions.
static const char *place_text(const struct sl_array_reader *r, uint64_t element, char text[64])
{
    const struct sl_npy_header *h = &r->head;
    if (h->ndim == 2 && h->shape[1] > 0 && !h->fortran)
        snprintf(text, 64, "row %" PRIu64 ", column %" PRIu64, element / h->shape[1],
                 element % h->shape[1]);
    else
        snprintf(text, 64, "element %" PRIu64, element);
    return text;
}

// Floats that must be whole: labels and ids that went through pandas. From 2^53 on, of float32 2^24
// and of float16 2^11, each stands for several numbers that were rounded to it.
static int read_whole(struct sl_array_reader *r, uint64_t n, int64_t *out)
{
    const double end = r->head.dtype == SL_DTYPE_F64   ? 9007199254740992.0
                       : r->head.dtype == SL_DTYPE_F32 ? 16777216.0
                                                       : 2048.0;
    char place[64];
    double x[512];
    SL_TRY(sl_array_read_doubles(r, n, x));
    for (uint64_t i = 0; i < n; i++) {
        if (fabs(x[i]) >= end && isfinite(x[i]))
            return sl_fail(SL_EFORMAT,
                           "%s: %s: found %.0f, which may be another number that %s rounded: "
                           "wanted integers: save the original's a.astype(numpy.int64)",
                           r->name, place_text(r, r->n - r->left - n + i, place), x[i],
                           sl_npy_dtype_name(r->head.dtype));
        if (!isfinite(x[i]) || x[i] != floor(x[i]))
            return sl_fail(SL_EFORMAT, "%s: %s: found %g, wanted a whole number", r->name,
                           place_text(r, r->n - r->left - n + i, place), x[i]);
        out[i] = (int64_t)x[i];
    }
    return SL_OK;
}

int sl_array_read_integers(struct sl_array_reader *r, uint64_t n, int64_t *out)
{
    bool integers = sl_array_is_integer(r);
    while (n > 0) {
        uint64_t some = SL_MIN(n, integers ? BATCH_BYTES / r->width : 512);
        if (integers) {
            SL_TRY(next_batch(r, some));
            convert_integers(r, some, out);
        } else {
            SL_TRY(read_whole(r, some, out));
        }
        out += some;
        n -= some;
    }
    return SL_OK;
}

int sl_array_skip(struct sl_array_reader *r, uint64_t n)
{
    if (n > r->left)
        return sl_fail(SL_EFORMAT, "%s: ends early", r->name);
    if (!r->stream) {
        r->at += n * r->width;
        r->left -= n;
        return SL_OK;
    }
    while (n > 0) {
        uint64_t some = SL_MIN(n, BATCH_BYTES / r->width);
        SL_TRY(read_raw(r, some * r->width, r->batch));
        n -= some;
    }
    return SL_OK;
}

int sl_array_read_floats(struct sl_array_reader *r, uint64_t n, float *out)
{
    char place[64];
    double wide[512];
    if (r->head.dtype == SL_DTYPE_F32 && !r->head.big_endian)
        return read_raw(r, n * sizeof *out, out);
    while (n > 0) {
        uint64_t some = SL_MIN(n, SL_COUNT_OF(wide));
        SL_TRY(sl_array_read_doubles(r, some, wide));
        for (uint64_t i = 0; i < some; i++)
            if (!sl_narrow(wide[i], out++))
                return sl_fail(SL_EFORMAT,
                               "%s: %s: found %g: float32 holds at most " SL_FLOAT32_LARGEST
                               ": scale the numbers first",
                               r->name, place_text(r, r->n - r->left - some + i, place), wide[i]);
        n -= some;
    }
    return SL_OK;
}
