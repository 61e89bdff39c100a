#include "common/data/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"

enum { PATH_BYTES = 4200 };

static char *path_of(const char *directory, const char *what, const char *part, char *path)
{
    snprintf(path, PATH_BYTES, "%s/%s_%s.npy", directory, what, part);
    return path;
}

static int check_shape(const char *path, const struct sl_npy *npy, enum sl_dtype dtype, uint64_t n,
                       const char *wanted)
{
    char shape[128];
    if (npy->head.ndim == 1 && npy->head.dtype == dtype && (n == 0 || npy->n_elems == n))
        return SL_OK;
    return sl_fail(SL_EFORMAT, "%s: is %s %s: wanted %s", path, sl_npy_dtype_name(npy->head.dtype),
                   sl_npy_shape_text(&npy->head, shape, sizeof shape), wanted);
}

int sl_names_open(const char *directory, const char *what, uint64_t n, struct sl_names *out)
{
    char path[PATH_BYTES], wanted[96];
    *out = (struct sl_names){.n = n};
    snprintf(wanted, sizeof wanted, "int64 (%" PRIu64 ",): one more than there are names", n + 1);
    int rc;
    SL_TRY_OUT(sl_npy_open(path_of(directory, what, "name_offsets", path), &out->offsets));
    SL_TRY_OUT(check_shape(path, &out->offsets, SL_DTYPE_I64, n + 1, wanted));
    rc = sl_npy_open(path_of(directory, what, "names", path), &out->bytes);
    if (rc == SL_ENOENT)
        rc = sl_fail(SL_EFORMAT, "%s: is missing, but its offsets are there: import again", path);
    SL_TRY_OUT(rc);
    rc = check_shape(path, &out->bytes, SL_DTYPE_U8, 0, "one dimension of uint8");
out:
    if (rc < 0)
        sl_names_close(out);
    return rc;
}

void sl_names_close(struct sl_names *names)
{
    sl_npy_close(&names->bytes);
    sl_npy_close(&names->offsets);
    names->n = 0;
}

int sl_names_get(const struct sl_names *names, uint64_t i, const char **text, size_t *n)
{
    const int64_t *at = (const int64_t *)names->offsets.data + i;
    if (at[0] < 0 || at[1] < at[0] || (uint64_t)at[1] > names->bytes.n_elems)
        return sl_fail(SL_EFORMAT,
                       "names: name %" PRIu64 " has the bytes %" PRId64 " to %" PRId64
                       " of %" PRIu64 ": wanted offsets that never fall: import the data set again",
                       i, at[0], at[1], names->bytes.n_elems);
    *text = (const char *)names->bytes.data + at[0];
    *n = (size_t)(at[1] - at[0]);
    return SL_OK;
}

int sl_names_check(const struct sl_names *names)
{
    const char *text;
    size_t n;
    for (uint64_t i = 0; i < names->n; i++)
        SL_TRY(sl_names_get(names, i, &text, &n));
    return SL_OK;
}

// ---- writing ------------------------------------------------------------------------------------

int sl_names_writer_open(struct sl_names_writer *w, const char *directory, const char *what)
{
    char path[PATH_BYTES];
    const uint64_t later = SL_NPY_ROWS_LATER;
    *w = (struct sl_names_writer){0};
    SL_TRY(sl_npy_writer_open(path_of(directory, what, "names", path), SL_DTYPE_U8, 1, &later,
                              &w->bytes));
    SL_TRY(sl_npy_writer_open(path_of(directory, what, "name_offsets", path), SL_DTYPE_I64, 1,
                              &later, &w->offsets));
    return sl_npy_writer_append_id(w->offsets, 0);
}

int sl_names_writer_put(struct sl_names_writer *w, const char *text, size_t n)
{
    w->n_bytes += n;
    w->n++;
    SL_TRY(sl_npy_writer_append(w->bytes, text, n));
    return sl_npy_writer_append_id(w->offsets, w->n_bytes);
}

int sl_names_writer_close(struct sl_names_writer *w, int rc)
{
    rc = sl_npy_writer_close(&w->bytes, rc);
    return sl_npy_writer_close(&w->offsets, rc);
}

int sl_names_copy(const char *from, const char *to, const char *what, uint64_t n)
{
    struct sl_names names;
    struct sl_names_writer w = {0};
    int rc = sl_names_open(from, what, n, &names);
    if (rc == SL_ENOENT)
        return SL_OK;
    SL_TRY(rc);
    rc = sl_names_writer_open(&w, to, what);
    for (uint64_t i = 0; i < n && rc == SL_OK; i++) {
        const char *text = NULL;
        size_t n_text = 0;
        rc = sl_names_get(&names, i, &text, &n_text);
        if (rc == SL_OK)
            rc = sl_names_writer_put(&w, text, n_text);
    }
    rc = sl_names_writer_close(&w, rc);
    sl_names_close(&names);
    return rc;
}
