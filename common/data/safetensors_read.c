/*
 * Reading .safetensors files that anybody may have written.
 *
 * Such files travel: they come from other machines, other programs, and the format exists because
 * the one before it (pickle) ran whatever it was given. So nothing is believed that the file can be
 * wrong about. In this order:
 *
 *   1. the file has the 8 bytes of the header's length, and that length fits into the file and into
 *      MAX_HEADER_BYTES, before anything is allocated for it;
 *   2. the header is one JSON object, without bytes behind it but white space;
 *   3. every tensor has a name of its own, exactly the keys dtype, shape and data_offsets, a type
 *      that is known, and whole numbers where numbers are meant;
 *   4. its bytes are as many as its shape says (every product is checked for overflow) and lie
 *      inside the data;
 *   5. sorted by where they begin, the tensors follow one another without hole or overlap from the
 *      first byte of the data to the last: a tail that no tensor owns is a hole too, a file that
 *      ends early is a tensor out of range.
 *
 * Data that is not aligned for its type (the format allows it) is copied, so that a caller may use
 * the pointer as what it is. The mapping is private to the process and read-only.
 */
#include "common/data/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/half.h"
#include "common/base/narrow.h"
#include "common/base/open_file.h"

// 100,000 tensors need about 10 MiB; the format's own library stops at 100 MB.
enum { PREFIX_BYTES = 8, MAX_HEADER_BYTES = 16 << 20 };

struct sl_safetensors_mapping {
    void *map; // whole file, or NULL
    uint64_t file_bytes;
    const unsigned char *data; // behind the header
    uint64_t data_bytes;
    cJSON *json;     // owns names and notes
    size_t n_copies; // of unaligned tensors
    void **copies;
};

static const struct {
    const char *name;
    enum sl_dtype dtype;
} types[] = {
    {"F32", SL_DTYPE_F32}, {"F16", SL_DTYPE_F16}, {"BF16", SL_DTYPE_BF16},
    {"F64", SL_DTYPE_F64}, {"I64", SL_DTYPE_I64}, {"I32", SL_DTYPE_I32},
};

static const char *type_name(enum sl_dtype dtype)
{
    for (size_t i = 0; i < SL_COUNT_OF(types); i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return "?";
}

static int map_file(const char *path, struct sl_safetensors_mapping *m)
{
    struct stat st;
    int rc = SL_OK, fd = sl_open_regular_file(path, &st);
    if (fd < 0)
        return fd;
    if (st.st_size < PREFIX_BYTES) {
        rc = sl_fail(SL_EFORMAT,
                     "%s: has %" PRIu64 " bytes: a .safetensors file begins with 8 bytes of its "
                     "header's length: copy or save it again",
                     path, (uint64_t)st.st_size);
    } else {
        m->file_bytes = (uint64_t)st.st_size;
        m->map = mmap(NULL, m->file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m->map == MAP_FAILED) {
            m->map = NULL;
            rc = sl_fail_errno(errno == ENOMEM ? SL_ENOMEM : SL_EIO, errno, "%s: cannot be mapped",
                               path);
        }
    }
    close(fd);
    return rc;
}

// Steps 1 and 2.
static int parse_header(const char *path, struct sl_safetensors_mapping *m)
{
    const unsigned char *b = m->map;
    const char *text = (const char *)b + PREFIX_BYTES;
    uint64_t n = 0, rest = m->file_bytes - PREFIX_BYTES;
    for (int i = PREFIX_BYTES - 1; i >= 0; i--)
        n = n << 8 | b[i];
    if (n > rest)
        return sl_fail(SL_EFORMAT,
                       "%s: says that its header has %" PRIu64 " bytes, the file has %" PRIu64
                       " after the length: it is truncated or not a .safetensors file",
                       path, n, rest);
    if (n > MAX_HEADER_BYTES)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: its header has %" PRIu64 " bytes, more than the %d supported", path, n,
                       (int)MAX_HEADER_BYTES);
    if (n < 2 || text[0] != '{')
        return sl_fail(SL_EFORMAT, "%s: its header is not a JSON object: not a .safetensors file",
                       path);
    const char *end = text;
    m->json = cJSON_ParseWithLengthOpts(text, n, &end, 0);
    bool whole = m->json != NULL;
    while (whole && end < text + n)
        whole = *end && strchr(" \t\r\n", *end++);
    if (!whole || !cJSON_IsObject(m->json))
        return sl_fail(SL_EFORMAT, "%s: its header is not valid JSON near byte %td of it", path,
                       end < text || end > text + n ? 0 : end - text);
    m->data = b + PREFIX_BYTES + n;
    m->data_bytes = rest - n;
    return SL_OK;
}

// A whole number that a double holds exactly.
static bool get_whole(const cJSON *item, uint64_t *out)
{
    double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(x >= 0 && x <= 9007199254740992.0) || x != (double)(uint64_t)x)
        return false;
    *out = (uint64_t)x;
    return true;
}

static int get_type(const char *path, const cJSON *item, struct sl_safetensor *t)
{
    const char *name = cJSON_GetStringValue(item);
    if (!name)
        return sl_fail(SL_EFORMAT, "%s: tensor %.200s: \"dtype\" is not a string", path, t->name);
    for (size_t i = 0; i < SL_COUNT_OF(types); i++)
        if (strcmp(name, types[i].name) == 0)
            t->dtype = types[i].dtype;
    if (t->dtype == SL_DTYPE_NONE)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: tensor %.200s: has type %.40s, wanted F32, F16, BF16, F64, I64 or I32: "
                       "convert it, as in tensor.float(), and save it again",
                       path, t->name, name);
    return SL_OK;
}

// Shape and the bytes that it needs.
static int get_shape(const char *path, const cJSON *list, struct sl_safetensor *t, uint64_t *bytes)
{
    if (!cJSON_IsArray(list))
        return sl_fail(SL_EFORMAT, "%s: tensor %.200s: \"shape\" is not a list", path, t->name);
    bool overflow = false, empty = false;
    *bytes = sl_dtype_bytes(t->dtype);
    for (const cJSON *item = list->child; item; item = item->next) {
        if (t->ndim == SL_SAFETENSORS_MAX_DIMS)
            return sl_fail(SL_EUNSUPPORTED,
                           "%s: tensor %.200s: has %d dimensions, at most %d are supported", path,
                           t->name, cJSON_GetArraySize(list), SL_SAFETENSORS_MAX_DIMS);
        uint64_t *n = &t->shape[t->ndim++];
        if (!get_whole(item, n))
            return sl_fail(SL_EFORMAT,
                           "%s: tensor %.200s: \"shape\" holds something else than whole numbers "
                           "from 0 to 2^53",
                           path, t->name);
        empty |= *n == 0;
        overflow |= __builtin_mul_overflow(*bytes, *n, bytes);
    }
    if (empty)
        *bytes = 0;
    else if (overflow)
        return sl_fail(SL_EFORMAT, "%s: tensor %.200s: its shape is more than memory can hold",
                       path, t->name);
    return SL_OK;
}

// Step 4: the tensor's bytes within the data.
static int get_extent(const char *path, const struct sl_safetensors_mapping *m, const cJSON *list,
                      uint64_t bytes, struct sl_safetensor *t)
{
    uint64_t begin, end;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 2 || !get_whole(list->child, &begin) ||
        !get_whole(list->child->next, &end))
        return sl_fail(SL_EFORMAT,
                       "%s: tensor %.200s: \"data_offsets\" is not a list of two whole numbers",
                       path, t->name);
    if (begin > end || end > m->data_bytes)
        return sl_fail(SL_EFORMAT,
                       "%s: tensor %.200s: its bytes are %" PRIu64 " to %" PRIu64
                       " of the data, which has %" PRIu64 ": the file is truncated or damaged",
                       path, t->name, begin, end, m->data_bytes);
    if (end - begin != bytes)
        return sl_fail(SL_EFORMAT,
                       "%s: tensor %.200s: has %" PRIu64 " bytes (%" PRIu64 " to %" PRIu64
                       "), its type %s and shape need %" PRIu64,
                       path, t->name, end - begin, begin, end, type_name(t->dtype), bytes);
    t->data = m->data + begin;
    return SL_OK;
}

static int read_tensor(const char *path, const struct sl_safetensors_mapping *m, const cJSON *item,
                       struct sl_safetensor *t)
{
    const cJSON *type = NULL, *shape = NULL, *offsets = NULL;
    uint64_t bytes = 0;
    t->name = item->string;
    if (!t->name || !t->name[0])
        return sl_fail(SL_EFORMAT, "%s: its header has a tensor without a name", path);
    if (!cJSON_IsObject(item))
        return sl_fail(SL_EFORMAT, "%s: tensor %.200s: its entry is not a JSON object", path,
                       t->name);
    for (const cJSON *field = item->child; field; field = field->next) {
        const cJSON **slot = strcmp(field->string, "dtype") == 0          ? &type
                             : strcmp(field->string, "shape") == 0        ? &shape
                             : strcmp(field->string, "data_offsets") == 0 ? &offsets
                                                                          : NULL;
        if (!slot || *slot)
            return sl_fail(SL_EFORMAT, "%s: tensor %.200s: %s key \"%.40s\"", path, t->name,
                           slot ? "repeated" : "unknown", field->string);
        *slot = field;
    }
    if (!type || !shape || !offsets)
        return sl_fail(SL_EFORMAT,
                       "%s: tensor %.200s: wanted \"dtype\", \"shape\" and "
                       "\"data_offsets\", has no \"%s\"",
                       path, t->name,
                       !type    ? "dtype"
                       : !shape ? "shape"
                                : "data_offsets");
    SL_TRY(get_type(path, type, t));
    SL_TRY(get_shape(path, shape, t, &bytes));
    return get_extent(path, m, offsets, bytes, t);
}

static int read_notes(const cJSON *meta, struct sl_safetensors_file *f)
{
    if (!cJSON_IsObject(meta))
        return sl_fail(SL_EFORMAT, "%s: \"__metadata__\" is not a JSON object", f->path);
    size_t n = (size_t)cJSON_GetArraySize(meta);
    f->notes = calloc(n + 1, sizeof *f->notes);
    if (!f->notes)
        return sl_fail(SL_ENOMEM, "%s: out of memory", f->path);
    for (const cJSON *item = meta->child; item; item = item->next) {
        const char *value = cJSON_GetStringValue(item);
        if (!value)
            return sl_fail(SL_EFORMAT, "%s: \"__metadata__\": \"%.200s\" is not a string", f->path,
                           item->string);
        f->notes[f->n_notes++] = (struct sl_safetensors_note){item->string, value};
    }
    return SL_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sl_safetensor *)a)->name, ((const struct sl_safetensor *)b)->name);
}

static uint64_t size_of(const struct sl_safetensor *t)
{
    return sl_safetensor_count(t) * sl_dtype_bytes(t->dtype);
}

// By place; an empty tensor stands before the one that begins at the same byte.
static int by_place(const void *a, const void *b)
{
    const struct sl_safetensor *x = a, *y = b;
    const char *p = x->data, *q = y->data;
    if (p != q)
        return p < q ? -1 : 1;
    uint64_t m = size_of(x), n = size_of(y);
    return m != n ? (m < n ? -1 : 1) : strcmp(x->name, y->name);
}

// Step 5, and that no name is there twice. Leaves the tensors in the order of their data.
static int check_cover(const struct sl_safetensors_file *f)
{
    const struct sl_safetensors_mapping *m = f->mapping;
    if (f->n_tensors)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_name);
    for (size_t i = 1; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return sl_fail(SL_EFORMAT, "%s: tensor %.200s: two tensors of this name", f->path,
                           f->tensors[i].name);
    if (f->n_tensors)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    const unsigned char *at = m->data;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct sl_safetensor *t = &f->tensors[i];
        const unsigned char *begin = t->data;
        if (begin < at)
            return sl_fail(SL_EFORMAT,
                           "%s: tensors %.200s and %.200s overlap at byte %td of the data", f->path,
                           f->tensors[i - 1].name, t->name, begin - m->data);
        if (begin > at)
            return sl_fail(SL_EFORMAT,
                           "%s: tensor %.200s begins at byte %td of the data, wanted %td: a hole "
                           "that belongs to no tensor",
                           f->path, t->name, begin - m->data, at - m->data);
        at = begin + size_of(t);
    }
    if (at != m->data + m->data_bytes)
        return sl_fail(SL_EFORMAT,
                       "%s: has %" PRIu64
                       " bytes of data, its tensors end at %td: the rest belongs "
                       "to no tensor",
                       f->path, m->data_bytes, at - m->data);
    return SL_OK;
}

static int align_tensors(struct sl_safetensors_file *f)
{
    struct sl_safetensors_mapping *m = f->mapping;
    for (size_t i = 0; i < f->n_tensors; i++) {
        struct sl_safetensor *t = &f->tensors[i];
        if ((uintptr_t)t->data % sl_dtype_bytes(t->dtype) == 0)
            continue;
        void *copy = malloc(size_of(t) + 1);
        if (!m->copies)
            m->copies = calloc(f->n_tensors, sizeof *m->copies);
        if (!copy || !m->copies) {
            free(copy);
            return sl_fail(SL_ENOMEM, "%s: tensor %.200s: out of memory for %" PRIu64 " bytes",
                           f->path, t->name, size_of(t));
        }
        memcpy(copy, t->data, size_of(t));
        m->copies[m->n_copies++] = copy;
        t->data = copy;
    }
    return SL_OK;
}

static int read_all(struct sl_safetensors_file *f)
{
    struct sl_safetensors_mapping *m = f->mapping;
    SL_TRY(map_file(f->path, m));
    SL_TRY(parse_header(f->path, m));
    f->tensors = calloc((size_t)cJSON_GetArraySize(m->json) + 1, sizeof *f->tensors);
    if (!f->tensors)
        return sl_fail(SL_ENOMEM, "%s: out of memory", f->path);
    for (const cJSON *item = m->json->child; item; item = item->next) {
        if (strcmp(item->string, "__metadata__") != 0) {
            SL_TRY(read_tensor(f->path, m, item, &f->tensors[f->n_tensors]));
            f->n_tensors++;
        } else if (f->notes) {
            return sl_fail(SL_EFORMAT, "%s: has \"__metadata__\" twice", f->path);
        } else {
            SL_TRY(read_notes(item, f));
        }
    }
    SL_TRY(check_cover(f));
    return align_tensors(f);
}

int sl_safetensors_open(const char *path, struct sl_safetensors_file *out)
{
    *out = (struct sl_safetensors_file){0};
    if (strlen(path) >= sizeof out->path)
        return sl_fail(SL_EINVAL, "%s: the path is too long", path);
    strcpy(out->path, path);
    out->mapping = calloc(1, sizeof *out->mapping);
    int rc = out->mapping ? read_all(out) : sl_fail(SL_ENOMEM, "%s: out of memory", path);
    if (rc < 0)
        sl_safetensors_close(out);
    return rc;
}

void sl_safetensors_close(struct sl_safetensors_file *f)
{
    struct sl_safetensors_mapping *m = f->mapping;
    if (m) {
        for (size_t i = 0; i < m->n_copies; i++)
            free(m->copies[i]);
        free(m->copies);
        cJSON_Delete(m->json);
        if (m->map)
            munmap(m->map, m->file_bytes);
        free(m);
    }
    free(f->tensors);
    free(f->notes);
    *f = (struct sl_safetensors_file){0};
}

const struct sl_safetensor *sl_safetensors_find(const struct sl_safetensors_file *f,
                                                const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

const char *sl_safetensors_note(const struct sl_safetensors_file *f, const char *key)
{
    for (size_t i = 0; i < f->n_notes; i++)
        if (strcmp(f->notes[i].key, key) == 0)
            return f->notes[i].value;
    return NULL;
}

uint64_t sl_safetensor_count(const struct sl_safetensor *t)
{
    // An empty tensor's other dimensions may be anything: their product must not overflow.
    uint64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return 0;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

char *sl_safetensor_place(const struct sl_safetensor *t, uint64_t element, char text[96])
{
    uint64_t index[SL_SAFETENSORS_MAX_DIMS] = {0};
    size_t n = 0;
    for (int i = t->ndim - 1; i >= 0; i--) {
        index[i] = element % t->shape[i];
        element /= t->shape[i];
    }
    for (int i = 0; i < t->ndim; i++)
        n += (size_t)snprintf(text + n, 96 - n, "%s%" PRIu64, i ? ", " : "[", index[i]);
    snprintf(text + n, 96 - n, t->ndim ? "]" : "[]");
    return text;
}

static int narrow(const struct sl_safetensor *t, uint64_t n, float *out)
{
    char place[96];
    const double *x = t->data;
    for (uint64_t i = 0; i < n; i++)
        if (!sl_narrow(x[i], &out[i]))
            return sl_fail(SL_EFORMAT,
                           "tensor %.200s: %s: found %g: float32 holds at most " SL_FLOAT32_LARGEST,
                           t->name, sl_safetensor_place(t, i, place), x[i]);
    return SL_OK;
}

int sl_safetensor_floats(const struct sl_safetensor *t, float *out)
{
    uint64_t n = sl_safetensor_count(t);
    switch (t->dtype) {
    case SL_DTYPE_F32:
        if (n)
            memcpy(out, t->data, n * sizeof *out);
        return SL_OK;
    case SL_DTYPE_F64: return narrow(t, n, out);
    case SL_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++)
            out[i] = sl_half_to_float(((const uint16_t *)t->data)[i]);
        return SL_OK;
    case SL_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++)
            out[i] = sl_float_of_bits((uint32_t)((const uint16_t *)t->data)[i] << 16);
        return SL_OK;
    default:
        return sl_fail(SL_EUNSUPPORTED, "tensor %.200s: holds integers (%s), wanted floats",
                       t->name, type_name(t->dtype));
    }
}
