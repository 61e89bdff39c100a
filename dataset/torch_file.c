/*
 *   NAME/data.pkl    the pickle; tensors refer to storages     zip file, the members stored
 *   NAME/data/KEY    elements of a storage
 *   NAME/byteorder   "little" or "big", of PyTorch 2
 *
 *   magic number, version, system: three pickles               the earlier form
 *   the pickle
 *   keys of the storages: a pickle
 *   number of elements (int64) and elements of each
 */
#include "dataset/torch_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/open_file.h"
#include "dataset/pickle.h"

// Of a dictionary, and of all storages, so many are looked at.
enum { NAME_BYTES = 4608, PREFIX_BYTES = 256, ITEMS_MAX = 256 };

// Of the earlier form: where elements begin.
struct place {
    char key[SL_PICKLE_TEXT_BYTES];
    uint64_t at, n;
};

struct sl_torch_file {
    char path[NAME_BYTES];
    struct sl_zip *zip; // NULL: the earlier form
    char prefix[PREFIX_BYTES];
    size_t member; // of the pickle
    int fd;
    uint64_t size;
    struct sl_pickle *pickle;
    struct place *places; // (n_places)
    uint32_t n_places;
};

// ---- the zip file -------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static int find_pickle(struct sl_torch_file *t)
{
    static const char name[] = "/data.pkl";
    for (size_t i = 0; i < sl_zip_count(t->zip); i++) {
        const char *found = sl_zip_name(t->zip, i);
        const size_t n = strlen(found);
        if (!ends_with(found, name) || n >= PREFIX_BYTES)
            continue;
        t->member = i;
        snprintf(t->prefix, sizeof t->prefix, "%.*s", (int)(n - sizeof name + 1), found);
        return SL_OK;
    }
    return sl_fail(SL_EFORMAT, "%s: has no member data.pkl: wanted a file of torch.save()",
                   t->path);
}

static int check_order(const struct sl_torch_file *t)
{
    struct sl_zip_stream *s;
    char name[PREFIX_BYTES + 16], order[4] = "";
    snprintf(name, sizeof name, "%s/byteorder", t->prefix);
    const size_t member = sl_zip_find(t->zip, name);
    if (member == sl_zip_count(t->zip))
        return SL_OK;
    SL_TRY(sl_zip_stream_open(t->zip, member, &s));
    int rc = SL_OK;
    if (sl_zip_stream_left(s) >= 3)
        rc = sl_zip_stream_read(s, order, 3);
    sl_zip_stream_close(s);
    if (rc == SL_OK && strcmp(order, "big") == 0)
        rc = sl_fail(SL_EUNSUPPORTED,
                     "%s: was saved on a big-endian machine: wanted a little-endian one's: load "
                     "and save it here",
                     t->path);
    return rc;
}

static int open_zip(struct sl_torch_file *t, struct sl_pickle_source *src)
{
    SL_TRY(sl_zip_open(t->path, &t->zip));
    SL_TRY(find_pickle(t));
    SL_TRY(check_order(t));
    SL_TRY(sl_zip_stream_open(t->zip, t->member, &src->stream));
    src->size = sl_zip_stream_left(src->stream);
    int rc = sl_pickle_read(src, &t->pickle);
    sl_zip_stream_close(src->stream);
    return rc;
}

// ---- the earlier form ---------------------------------------------------------------------------

static int take_place(struct sl_torch_file *t, const struct sl_pickle_value *key, uint64_t *at)
{
    int64_t n;
    struct place *place = &t->places[t->n_places];
    if (t->size - *at < sizeof n || pread(t->fd, &n, sizeof n, (off_t)*at) != sizeof n || n < 0)
        return sl_fail(SL_EFORMAT, "%s: ends within its tensors: get the file again", t->path);
    memcpy(place->key, key->text, sizeof place->key);
    place->at = *at + sizeof n;
    place->n = (uint64_t)n;
    t->n_places++;
    return SL_OK;
}

// The width of a storage's elements is known to the tensors in it alone.
static uint64_t width_of(const struct sl_pickle *p, const struct sl_pickle_value *v,
                         const char *key, int depth)
{
    uint64_t found = 0;
    if (v->kind == SL_PICKLE_ARRAY && v->content) {
        const struct sl_pickle_value *storage = sl_pickle_value(p, v->content);
        if (storage->kind == SL_PICKLE_STORAGE && strcmp(storage->text, key) == 0)
            found = sl_dtype_bytes(storage->head.dtype);
    }
    const uint32_t n = v->kind == SL_PICKLE_DICT && depth > 0 ? SL_MIN(v->n, ITEMS_MAX) : 0;
    for (uint32_t i = 0; i < n && !found; i++)
        found = width_of(p, sl_pickle_item(p, v, i), key, depth - 1);
    return found;
}

static int find_places(struct sl_torch_file *t, struct sl_pickle_source *src)
{
    struct sl_pickle *keys;
    SL_TRY(sl_pickle_read(src, &keys));
    const struct sl_pickle_value *list = sl_pickle_root(keys);
    const uint32_t n = SL_MIN(list->n, ITEMS_MAX);
    int rc = SL_OK;
    t->places = calloc(n + 1, sizeof *t->places);
    if (!t->places)
        rc = sl_fail(SL_ENOMEM, "%s: no memory", t->path);
    for (uint32_t i = 0; rc == SL_OK && i < n; i++) {
        const struct sl_pickle_value *key = sl_pickle_item(keys, list, i);
        const uint64_t width =
            key ? width_of(t->pickle, sl_pickle_root(t->pickle), key->text, 2) : 0;
        // Behind what is in no array that is looked for nothing can be found.
        if (width == 0)
            break;
        rc = take_place(t, key, &src->at);
        uint64_t bytes = 0;
        if (rc == SL_OK && (__builtin_mul_overflow(t->places[i].n, width, &bytes) ||
                            bytes > t->size - t->places[i].at))
            rc = sl_fail(SL_EFORMAT, "%s: ends within its tensors: get the file again", t->path);
        if (rc == SL_OK)
            src->at = t->places[i].at + bytes;
    }
    sl_pickle_close(keys);
    return rc;
}

static int open_pickles(struct sl_torch_file *t, struct sl_pickle_source *src)
{
    src->fd = t->fd;
    src->size = t->size;
    for (int i = 0; i < 3; i++) { // magic number, version, system
        struct sl_pickle *p;
        SL_TRY(sl_pickle_read(src, &p));
        sl_pickle_close(p);
    }
    SL_TRY(sl_pickle_read(src, &t->pickle));
    return find_places(t, src);
}

// ---- the whole ----------------------------------------------------------------------------------

static int open_file(struct sl_torch_file *t)
{
    struct stat st;
    char begin[2] = "";
    struct sl_pickle_source *src = calloc(1, sizeof *src);
    if (!src)
        return sl_fail(SL_ENOMEM, "%s: no memory", t->path);
    src->name = t->path;
    int rc = t->fd = sl_open_regular_file(t->path, &st);
    if (rc >= 0) {
        t->size = (uint64_t)st.st_size;
        const bool zip = pread(t->fd, begin, 2, 0) == 2 && memcmp(begin, "PK", 2) == 0;
        rc = zip ? open_zip(t, src) : open_pickles(t, src);
    }
    free(src);
    return rc;
}

int sl_torch_open(const char *path, struct sl_torch_file **out)
{
    struct sl_torch_file *t = *out = calloc(1, sizeof *t);
    if (!t)
        return sl_fail(SL_ENOMEM, "%s: no memory", path);
    snprintf(t->path, sizeof t->path, "%s", path);
    t->fd = -1;
    int rc = open_file(t);
    if (rc == SL_OK && sl_pickle_root(t->pickle)->kind != SL_PICKLE_DICT)
        rc = sl_fail(SL_EFORMAT, "%s: holds no dictionary: wanted one of arrays", t->path);
    if (rc == SL_OK)
        return rc;
    sl_torch_close(t);
    *out = NULL;
    return rc;
}

void sl_torch_close(struct sl_torch_file *t)
{
    if (!t)
        return;
    sl_pickle_close(t->pickle);
    sl_zip_close(t->zip);
    if (t->fd >= 0)
        close(t->fd);
    free(t->places);
    free(t);
}

static const struct sl_pickle_value *find(const struct sl_torch_file *t, const char *group,
                                          const char *key)
{
    const struct sl_pickle_value *v = sl_pickle_root(t->pickle);
    if (group)
        v = sl_pickle_get(t->pickle, v, group);
    return v && key ? sl_pickle_get(t->pickle, v, key) : v;
}

enum sl_torch_what sl_torch_what(const struct sl_torch_file *t, const char *group, const char *key)
{
    const struct sl_pickle_value *v = find(t, group, key);
    return !v                           ? SL_TORCH_NOTHING
           : v->kind == SL_PICKLE_DICT  ? SL_TORCH_DICT
           : v->kind == SL_PICKLE_ARRAY ? SL_TORCH_ARRAY
                                        : SL_TORCH_OTHER;
}

// ---- arrays -------------------------------------------------------------------------------------

static int fail_array(const char *name, int rc, const char *what)
{
    return sl_fail(rc, "%s: %s", name, what);
}

// Where an array's elements begin, into *part; false: nowhere.
static bool locate(const struct sl_torch_file *t, const struct sl_pickle_value *v,
                   struct sl_array_part *part)
{
    const struct sl_pickle_value *in = sl_pickle_value(t->pickle, v->content);
    char name[PREFIX_BYTES + SL_PICKLE_TEXT_BYTES + 8];
    if (in->kind == SL_PICKLE_BYTES) {
        part->member = t->member;
        part->at = in->at;
        part->n_bytes = in->n_bytes;
        part->utf8 = in->utf8;
        return true;
    }
    part->n_bytes = v->head.data_bytes;
    part->at = v->offset * sl_dtype_bytes(v->head.dtype);
    if (t->zip) {
        snprintf(name, sizeof name, "%s/data/%s", t->prefix, in->text);
        part->member = sl_zip_find(t->zip, name);
        return part->member < sl_zip_count(t->zip);
    }
    for (uint32_t i = 0; i < t->n_places; i++)
        if (strcmp(t->places[i].key, in->text) == 0) {
            part->at += t->places[i].at;
            return t->places[i].n == (uint64_t)in->number;
        }
    return false;
}

int sl_torch_open_array(const struct sl_torch_file *t, const char *group, const char *key,
                        struct sl_array_reader **out)
{
    char name[NAME_BYTES];
    const struct sl_pickle_value *v = find(t, group, key);
    *out = NULL;
    snprintf(name, sizeof name, "%.4000s: %s%s%s", t->path, group ? group : "", group ? "/" : "",
             key);
    if (!v)
        return fail_array(name, SL_ENOENT, "is not there");
    if (v->kind != SL_PICKLE_ARRAY)
        return fail_array(name, SL_EUNSUPPORTED,
                          "is no array: wanted one of NumPy or PyTorch (numpy.array)");
    if (!v->content)
        return fail_array(name, SL_EUNSUPPORTED,
                          "is an array that is not read: wanted whole or real numbers, which lie "
                          "in the order of rows (x.contiguous())");
    struct sl_array_part part = {
        .name = name, .head = &v->head, .zip = t->zip, .fd = t->fd, .size = t->size};
    if (v->head.data_bytes > 0 && !locate(t, v, &part))
        return fail_array(name, SL_EFORMAT, "its elements are not there: get the file again");
    return sl_array_open_part(&part, out);
}

char *sl_torch_keys(const struct sl_torch_file *t, const char *group, const char *const *used,
                    char *buf, size_t n_buf)
{
    const struct sl_pickle_value *v = find(t, group, NULL);
    size_t n = 0;
    buf[0] = '\0';
    const uint32_t end = v && v->kind == SL_PICKLE_DICT ? SL_MIN(v->n, ITEMS_MAX) : 0;
    for (uint32_t i = 0; i < end; i += 2) {
        const struct sl_pickle_value *key = sl_pickle_item(t->pickle, v, i);
        bool is_used = key->kind != SL_PICKLE_TEXT;
        for (size_t k = 0; used && used[k]; k++)
            is_used |= strcmp(used[k], key->text) == 0;
        if (!is_used && n + strlen(key->text) + 3 < n_buf)
            n += (size_t)snprintf(buf + n, n_buf - n, "%s%s", n ? ", " : "", key->text);
    }
    return buf;
}
