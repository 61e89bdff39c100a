/*
 * The header of a .npy file: the magic "\x93NUMPY", a version, a length, and the text of a Python
 * dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
 *
 * NumPy reads that text with Python's own parser; here a cursor walks over it once and accepts just
 * what a header can be: the three keys, each exactly once, in any order. Every read is bounded by
 * the end of the text, every product is checked for overflow, and nothing of the file is believed
 * before the size of the file confirms it.
 */
#include "common/data/npy.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy_internal.h"

// NumPy's own limit is 10,000; a real header of a plain array has 118 bytes.
enum { MAX_HEADER_BYTES = 65536, DESCR_BYTES = 32 };

// What a caller can do with the data.
enum reading { MAPPED, CONVERTED, TEXT };

struct cursor {
    const char *p, *end;
    enum reading reading;
    uint64_t text_bytes; // of an element of text, else 0
};

static const struct {
    const char *code; // without the byte-order mark
    const char *name;
    enum sl_dtype dtype;
} types[] = {
    {"f4", "float32", SL_DTYPE_F32}, {"f2", "float16", SL_DTYPE_F16},
    {"f8", "float64", SL_DTYPE_F64}, {"i1", "int8", SL_DTYPE_I8},
    {"u1", "uint8", SL_DTYPE_U8},    {"i2", "int16", SL_DTYPE_I16},
    {"u2", "uint16", SL_DTYPE_U16},  {"i4", "int32", SL_DTYPE_I32},
    {"i8", "int64", SL_DTYPE_I64},   {"u4", "uint32", SL_DTYPE_U32},
    {"u8", "uint64", SL_DTYPE_U64},  {"b1", "bool", SL_DTYPE_U8},
};

// What NumPy writes and nobody here can read, by the letter of its type.
static const struct {
    char code;
    const char *what, *advice;
} others[] = {
    {'S', "text",
     "save a.astype(numpy.int64), or numpy.unique(a, return_inverse=True)[1] of words"},
    {'U', "text",
     "save a.astype(numpy.int64), or numpy.unique(a, return_inverse=True)[1] of words"},
    {'O', "Python objects (pickled)", "save a.astype(numpy.float32) or another number type"},
    {'V', "bytes without a type",
     "save the numbers that they are, bfloat16 as a.astype(numpy.float32)"},
    {'c', "complex numbers", "save a.real, a.imag or numpy.abs(a)"},
    {'M', "dates", "save a.astype(numpy.int64)"},
    {'m', "time differences", "save a.astype(numpy.int64)"},
    {'f', "floats of this machine's own", "save a.astype(numpy.float64)"},
};

const char *sl_npy_dtype_name(enum sl_dtype dtype)
{
    for (size_t i = 0; i < SL_COUNT_OF(types); i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return "?";
}

const char *sl_npy_descr(enum sl_dtype dtype)
{
    for (size_t i = 0; i < SL_COUNT_OF(types); i++)
        if (types[i].dtype == dtype)
            return types[i].code;
    return NULL;
}

char *sl_npy_shape_text(const struct sl_npy_header *head, char *buf, size_t n_buf)
{
    size_t n = 0;
    for (int i = 0; i < head->ndim && n < n_buf; i++) {
        int k = snprintf(buf + n, n_buf - n, "%s%" PRIu64, i ? ", " : "(", head->shape[i]);
        n += (size_t)k;
    }
    if (n < n_buf)
        snprintf(buf + n, n_buf - n, head->ndim == 0 ? "()" : head->ndim == 1 ? ",)" : ")");
    return buf;
}

static void skip_space(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

// Takes one given character, after spaces.
static bool take(struct cursor *c, char want)
{
    skip_space(c);
    if (c->p == c->end || *c->p != want)
        return false;
    c->p++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    skip_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

// A quoted string without escapes, printable ASCII only, shorter than n_out.
static bool take_string(struct cursor *c, char *out, size_t n_out)
{
    skip_space(c);
    if (c->p == c->end || (*c->p != '\'' && *c->p != '"'))
        return false;
    char quote = *c->p++;
    size_t n = 0;
    while (c->p < c->end && *c->p != quote) {
        if (*c->p < ' ' || *c->p > '~' || *c->p == '\\' || n + 1 >= n_out)
            return false;
        out[n++] = *c->p++;
    }
    if (c->p == c->end)
        return false;
    c->p++;
    out[n] = '\0';
    return true;
}

static bool take_number(struct cursor *c, uint64_t *out)
{
    skip_space(c);
    uint64_t x = 0;
    const char *start = c->p;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (__builtin_mul_overflow(x, (uint64_t)10, &x) ||
            __builtin_add_overflow(x, (uint64_t)(*c->p - '0'), &x))
            return false;
    if (c->p == start)
        return false;
    if (c->p < c->end && *c->p == 'L') // written by Python 2
        c->p++;
    *out = x;
    return true;
}

// 'S3' and 'U3': the bytes of an element.
static bool parse_text_type(struct cursor *c, const char *code, struct sl_npy_header *out)
{
    enum { MAX_TEXT = 1 << 20 };
    uint64_t n = 0;
    if ((*code != 'S' && *code != 'U') || !code[1])
        return false;
    for (const char *p = code + 1; *p; p++) {
        if (*p < '0' || *p > '9' || n > MAX_TEXT)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    out->dtype = SL_DTYPE_U8;
    c->text_bytes = *code == 'U' ? 4 * n : n;
    return n > 0 && n <= MAX_TEXT;
}

static int fail_type(const char *name, const char *descr, const char *code)
{
    for (size_t i = 0; i < SL_COUNT_OF(others); i++)
        if (code[0] == others[i].code)
            return sl_fail(SL_EUNSUPPORTED,
                           "%s: found type '%s', %s: wanted numbers (integers, bool, float16, "
                           "float32 or float64): %s",
                           name, descr, others[i].what, others[i].advice);
    return sl_fail(SL_EUNSUPPORTED,
                   "%s: found type '%s', which is not known: wanted numbers (integers, bool, "
                   "float16, float32 or float64): save a.astype() of one of these",
                   name, descr);
}

static int parse_descr(struct cursor *c, const char *name, struct sl_npy_header *out)
{
    char descr[DESCR_BYTES];
    skip_space(c);
    if (c->p < c->end && (*c->p == '[' || *c->p == '('))
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: holds a structured array (records), wanted plain numbers: save each "
                       "field as an array of its own",
                       name);
    if (!take_string(c, descr, sizeof descr))
        return sl_fail(SL_EFORMAT, "%s: malformed npy header: 'descr' is not a type name", name);
    char order = descr[0];
    bool marked = order == '<' || order == '>' || order == '|' || order == '=';
    const char *code = descr + marked;
    if (c->reading == TEXT)
        return parse_text_type(c, code, out)
                   ? SL_OK
                   : sl_fail(SL_EUNSUPPORTED, "%s: found type '%s', wanted text", name, descr);
    for (size_t i = 0; i < SL_COUNT_OF(types); i++) {
        if (strcmp(code, types[i].code) != 0)
            continue;
        bool one_byte = sl_dtype_bytes(types[i].dtype) == 1;
        out->big_endian = order == '>' && !one_byte;
        if (out->big_endian && c->reading == MAPPED)
            return sl_fail(SL_EUNSUPPORTED,
                           "%s: big-endian ('%s'), wanted little-endian: save "
                           "a.astype(a.dtype.newbyteorder('<'))",
                           name, descr);
        if (!one_byte && order != '<' && order != '>')
            return sl_fail(SL_EFORMAT, "%s: malformed npy header: type '%s' has no byte order",
                           name, descr);
        out->dtype = types[i].dtype;
        out->boolean = code[0] == 'b';
        return SL_OK;
    }
    return fail_type(name, descr, code);
}

static int parse_shape(struct cursor *c, const char *name, struct sl_npy_header *out)
{
    if (!take(c, '('))
        return sl_fail(SL_EFORMAT, "%s: malformed npy header: 'shape' is not a tuple", name);
    out->ndim = 0;
    bool comma = false;
    while (!take(c, ')')) {
        uint64_t n;
        if ((out->ndim > 0 && !comma) || !take_number(c, &n))
            return sl_fail(SL_EFORMAT,
                           "%s: malformed npy header: 'shape' is not a tuple of sizes below 2^64",
                           name);
        if (out->ndim == SL_NPY_MAX_DIMS)
            return sl_fail(SL_EUNSUPPORTED, "%s: has more than %d dimensions", name,
                           SL_NPY_MAX_DIMS);
        out->shape[out->ndim++] = n;
        comma = take(c, ',');
    }
    // "(3)" is the number 3 in Python and not a tuple.
    if (out->ndim == 1 && !comma)
        return sl_fail(SL_EFORMAT, "%s: malformed npy header: 'shape' is not a tuple", name);
    return SL_OK;
}

static int parse_dict(struct cursor *c, const char *name, struct sl_npy_header *out)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    unsigned seen = 0;
    bool fortran = false, comma = true;
    if (!take(c, '{'))
        return sl_fail(SL_EFORMAT, "%s: malformed npy header: no dictionary", name);
    while (!take(c, '}')) {
        char key[DESCR_BYTES];
        if (!comma || !take_string(c, key, sizeof key) || !take(c, ':'))
            return sl_fail(SL_EFORMAT, "%s: malformed npy header: not a dictionary", name);
        unsigned bit = strcmp(key, "descr") == 0           ? DESCR
                       : strcmp(key, "fortran_order") == 0 ? ORDER
                       : strcmp(key, "shape") == 0         ? SHAPE
                                                           : 0;
        if (bit == 0 || (seen & bit))
            return sl_fail(SL_EFORMAT, "%s: malformed npy header: %s key '%s'", name,
                           bit ? "repeated" : "unknown", key);
        seen |= bit;
        if (bit == DESCR)
            SL_TRY(parse_descr(c, name, out));
        else if (bit == SHAPE)
            SL_TRY(parse_shape(c, name, out));
        else if (take_word(c, "True"))
            fortran = true;
        else if (!take_word(c, "False"))
            return sl_fail(SL_EFORMAT,
                           "%s: malformed npy header: 'fortran_order' is neither True nor False",
                           name);
        comma = take(c, ',');
    }
    if (seen != (DESCR | ORDER | SHAPE))
        return sl_fail(SL_EFORMAT,
                       "%s: malformed npy header: wanted the keys 'descr', 'fortran_order' and "
                       "'shape'",
                       name);
    skip_space(c);
    if (c->p != c->end)
        return sl_fail(SL_EFORMAT, "%s: malformed npy header: text after the dictionary", name);
    if (c->text_bytes && out->ndim == SL_NPY_MAX_DIMS)
        return sl_fail(SL_EUNSUPPORTED, "%s: has more than %d dimensions", name, SL_NPY_MAX_DIMS);
    if (c->text_bytes)
        out->shape[out->ndim++] = c->text_bytes;
    // With one dimension the two orders are the same.
    out->fortran = fortran && out->ndim > 1;
    if (out->fortran && c->reading == MAPPED)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: is in Fortran (column) order, wanted C order: save "
                       "numpy.ascontiguousarray(a)",
                       name);
    return SL_OK;
}

// Bounds the data by the file: exactly as many bytes as the header says, aligned for its type.
static int check_extent(const char *name, uint64_t file_bytes, bool mapped, struct sl_npy_header *h)
{
    uint64_t elem = sl_dtype_bytes(h->dtype), bytes = elem, want;
    bool overflow = false, empty = false;
    for (int i = 0; i < h->ndim; i++) {
        empty |= h->shape[i] == 0;
        overflow |= __builtin_mul_overflow(bytes, h->shape[i], &bytes);
    }
    if (empty) {
        bytes = 0;
        overflow = false;
    }
    overflow |= __builtin_add_overflow(bytes, h->data_offset, &want);
    char shape[128];
    sl_npy_shape_text(h, shape, sizeof shape);
    if (overflow || want > INT64_MAX)
        return sl_fail(SL_EFORMAT, "%s: its header says %s %s, more than a file can hold", name,
                       sl_npy_dtype_name(h->dtype), shape);
    if (file_bytes < want)
        return sl_fail(SL_EFORMAT,
                       "%s: truncated: has %" PRIu64 " bytes, its header (%s %s) needs %" PRIu64
                       ": copy or generate it again",
                       name, file_bytes, sl_npy_dtype_name(h->dtype), shape, want);
    if (file_bytes > want)
        return sl_fail(SL_EFORMAT,
                       "%s: has %" PRIu64 " bytes after the data that its header (%s %s) "
                       "describes: save it again",
                       name, file_bytes - want, sl_npy_dtype_name(h->dtype), shape);
    if (mapped && h->data_offset % elem != 0)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: its data starts at byte %" PRIu64 ", which is not aligned for %s: save "
                       "it again with numpy.save",
                       name, h->data_offset, sl_npy_dtype_name(h->dtype));
    h->data_bytes = bytes;
    return SL_OK;
}

static int parse_header(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                        enum reading reading, struct sl_npy_header *out)
{
    *out = (struct sl_npy_header){0};
    const unsigned char *b = bytes;
    if (n_bytes < 10 || memcmp(b, "\x93NUMPY", 6) != 0)
        return sl_fail(SL_EFORMAT, "%s: is not a NumPy .npy file%s", name,
                       file_bytes == 0 ? " (it is empty)" : ": numpy.save writes one");
    unsigned major = b[6], minor = b[7];
    if (major < 1 || major > 3 || minor != 0)
        return sl_fail(SL_EUNSUPPORTED, "%s: npy format version %u.%u, wanted 1.0, 2.0 or 3.0",
                       name, major, minor);
    // Version 1 has a 16-bit length, 2 and 3 a 32-bit one; 3 only allows UTF-8 in field names.
    uint64_t prefix = major == 1 ? 10 : 12;
    uint64_t len = (uint64_t)b[8] | (uint64_t)b[9] << 8;
    if (major > 1 && n_bytes >= prefix)
        len |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
    if (len > MAX_HEADER_BYTES)
        return sl_fail(SL_EFORMAT,
                       "%s: malformed npy header: it says that it has %" PRIu64 " bytes", name,
                       len);
    if (n_bytes < prefix || n_bytes - prefix < len)
        return sl_fail(SL_EFORMAT, "%s: truncated inside its npy header: has %" PRIu64 " bytes",
                       name, file_bytes);
    struct cursor c = {(const char *)b + prefix, (const char *)b + prefix + len, reading, 0};
    SL_TRY(parse_dict(&c, name, out));
    out->data_offset = prefix + len;
    return check_extent(name, file_bytes, reading == MAPPED, out);
}

int sl_npy_parse_header(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                        struct sl_npy_header *out)
{
    return parse_header(bytes, n_bytes, file_bytes, name, MAPPED, out);
}

int sl_npy_parse_foreign(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                         struct sl_npy_header *out)
{
    return parse_header(bytes, n_bytes, file_bytes, name, CONVERTED, out);
}

int sl_npy_parse_text(const void *bytes, size_t n_bytes, uint64_t file_bytes, const char *name,
                      struct sl_npy_header *out)
{
    return parse_header(bytes, n_bytes, file_bytes, name, TEXT, out);
}
