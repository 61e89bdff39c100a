/*
 * node_label.npy, by task: types and shapes, contents, and how it is read.
 *
 *   multiclass   one class number a vertex. Integers are scanned as they are; floats (where NaN
 *                means no label) must be whole numbers. Both become int32 with -1 = unlabelled,
 *                int32 without a copy.
 *   multilabel   a row of 0 and 1 a vertex, negative or NaN = unlabelled. Read where it is mapped.
 *   regression   a number, or a row of them, a vertex, NaN = unlabelled. Read where it is mapped.
 *
 * Targets stay in the type of the file, since a batch reads a few rows of many; what is accepted
 * for them is what sl_dataset_targets() can read, and what a float can hold.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset_internal.h"
#include "common/base/threads.h"
#include "common/data/scan.h"

static const struct sl_npy *labels_of(const struct sl_dataset *ds)
{
    return &ds->files->npy[SL_FILE_LABEL];
}

// What a row of it is for: "num_nodes", or of a typed graph the first type's count.
static const char *rows_of(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? "the count of the first of \"types\"" : "num_nodes";
}

static bool is_float_type(enum sl_dtype t)
{
    return t == SL_DTYPE_F32 || t == SL_DTYPE_F64;
}

// ---- types and shapes ---------------------------------------------------------------------------

static int check_classes(const struct sl_dataset *ds)
{
    const uint64_t n = sl_dataset_labelled(ds);
    const struct sl_npy_header *h = &labels_of(ds)->head;
    struct sl_dataset_found found = sl_dataset_describe(ds, SL_FILE_LABEL);
    if (h->ndim == 2 && h->shape[0] == n && h->shape[1] > 1)
        return sl_fail(SL_EFORMAT,
                       "%s, a matrix, wanted one class number a vertex (%s): where it says "
                       "which of several labels a vertex has, set \"task\" in metadata.json to "
                       "\"multilabel\"; where it holds numbers to be predicted, to \"regression\"",
                       found.text, rows_of(ds));
    if (h->ndim < 1 || h->ndim > 2 || h->shape[0] != n || labels_of(ds)->n_elems != n)
        return sl_fail(SL_EFORMAT, "%s, wanted one label a vertex: %s = %" PRIu64, found.text,
                       rows_of(ds), n);
    if (h->dtype == SL_DTYPE_F16)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted integers, float32 or float64: save y.astype(numpy.float32)",
                       found.text);
    if (ds->n_classes == 0)
        return sl_fail(SL_EFORMAT,
                       "%s/metadata.json: \"num_classes\" is 0 or missing, but there is a "
                       "node_label.npy: set it to the number of classes",
                       ds->path);
    return SL_OK;
}

static bool is_target_type(enum sl_dtype t)
{
    return is_float_type(t) || t == SL_DTYPE_I8 || t == SL_DTYPE_U8 || t == SL_DTYPE_I32 ||
           t == SL_DTYPE_I64;
}

static int check_targets(struct sl_dataset *ds)
{
    const uint64_t n = sl_dataset_labelled(ds);
    const struct sl_npy_header *h = &labels_of(ds)->head;
    struct sl_dataset_found found = sl_dataset_describe(ds, SL_FILE_LABEL);
    bool flags = ds->task == SL_TASK_MULTILABEL;
    if (!is_target_type(h->dtype))
        return sl_fail(
            SL_EFORMAT,
            "%s, wanted float32, float64, int8, uint8, int32 or int64: save y.astype(numpy.%s)",
            found.text, flags ? "int8" : "float32");
    if (h->ndim < 1 || h->ndim > 2 || h->shape[0] != n || (h->ndim == 2 && h->shape[1] == 0))
        return sl_fail(SL_EFORMAT, "%s, wanted a row of %s a vertex: %s = %" PRIu64, found.text,
                       flags ? "labels" : "numbers", rows_of(ds), n);
    uint64_t columns = h->ndim == 2 ? h->shape[1] : 1;
    if (ds->n_classes && columns != ds->n_classes)
        return sl_fail(SL_EFORMAT,
                       "%s, which is %" PRIu64 " %s a vertex: metadata.json says num_classes = "
                       "%" PRIu32,
                       found.text, columns, flags ? "labels" : "numbers", ds->n_classes);
    if (columns > INT32_MAX)
        return sl_fail(SL_EUNSUPPORTED, "%s, wanted fewer than 2^31 columns", found.text);
    ds->n_classes = (uint32_t)columns;
    ds->target_dtype = h->dtype;
    ds->target = labels_of(ds)->data;
    return SL_OK;
}

int sl_dataset_check_labels(struct sl_dataset *ds, const struct sl_dataset_metadata *m)
{
    if (!labels_of(ds)->map)
        return SL_OK;
    if (m->has_task && ds->task == SL_TASK_NONE)
        return sl_fail(SL_EFORMAT,
                       "%s/metadata.json: \"task\" is \"none\", but there is a node_label.npy: set "
                       "\"task\" to \"multiclass\", \"multilabel\" or \"regression\", or move the "
                       "labels away",
                       ds->path);
    if (ds->task == SL_TASK_MULTILABEL || ds->task == SL_TASK_REGRESSION)
        return check_targets(ds);
    SL_TRY(check_classes(ds));
    ds->task = SL_TASK_MULTICLASS;
    return SL_OK;
}

// ---- contents -----------------------------------------------------------------------------------

// Element i as the user wrote it.
static const char *value_text(const struct sl_npy *npy, uint64_t i, char buf[32])
{
    if (npy->head.dtype == SL_DTYPE_F32)
        snprintf(buf, 32, "%.9g", (double)((const float *)npy->data)[i]);
    else if (npy->head.dtype == SL_DTYPE_F64)
        snprintf(buf, 32, "%.17g", ((const double *)npy->data)[i]);
    else
        sl_scan_int_text(npy->data, npy->head.dtype, i, buf);
    return buf;
}

static int validate_classes(const struct sl_dataset *ds, int threads)
{
    const struct sl_npy *npy = labels_of(ds);
    bool real = is_float_type(npy->head.dtype);
    uint64_t bad =
        real ? sl_scan_class_numbers(npy->data, npy->head.dtype, npy->n_elems, ds->n_classes,
                                     threads)
             : sl_scan_labels(npy->data, npy->head.dtype, npy->n_elems, ds->n_classes, threads);
    if (bad == SL_SCAN_OK)
        return SL_OK;
    char found[32];
    return sl_fail(SL_EFORMAT,
                   "%s/node_label.npy: element %" PRIu64 " is %s, wanted %s0 to %" PRIu32
                   " (num_classes - 1), or -1%s for a vertex without a label%s",
                   ds->path, bad, value_text(npy, bad, found), real ? "a whole number from " : "",
                   ds->n_classes - 1, real ? " or NaN" : "",
                   real ? ": where these are numbers to be predicted, set \"task\" in "
                          "metadata.json to \"regression\""
                        : "");
}

static int validate_targets(const struct sl_dataset *ds, int threads)
{
    const struct sl_npy *npy = labels_of(ds);
    bool flags = ds->task == SL_TASK_MULTILABEL;
    uint64_t bad = flags ? sl_scan_flags(npy->data, npy->head.dtype, npy->n_elems, threads)
                         : sl_scan_numbers(npy->data, npy->head.dtype, npy->n_elems, threads);
    if (bad == SL_SCAN_OK)
        return SL_OK;
    char found[32];
    return sl_fail(SL_EFORMAT, "%s/node_label.npy: vertex %" PRIu64 ", %s %" PRIu64 " is %s, %s",
                   ds->path, bad / ds->n_classes, flags ? "label" : "number", bad % ds->n_classes,
                   value_text(npy, bad, found),
                   flags ? "wanted 0 or 1 (negative or NaN where it is not known): of a task with "
                           "one class number a vertex \"task\" in metadata.json is \"multiclass\""
                         : "wanted a finite number that a float32 can hold (NaN where it is not "
                           "known)");
}

int sl_dataset_validate_labels(const struct sl_dataset *ds, int threads)
{
    if (!labels_of(ds)->map)
        return SL_OK;
    return ds->task == SL_TASK_MULTICLASS ? validate_classes(ds, threads)
                                          : validate_targets(ds, threads);
}

// ---- reading ------------------------------------------------------------------------------------

enum { ROUND_ELEMS = 1 << 17 };

struct rounding {
    const struct sl_npy *from;
    int32_t *to;
};

static bool round_block(void *ctx, uint64_t block)
{
    const struct rounding *r = ctx;
    uint64_t end = SL_MIN(r->from->n_elems, (block + 1) * ROUND_ELEMS);
    bool wide = r->from->head.dtype == SL_DTYPE_F64;
    for (uint64_t i = block * ROUND_ELEMS; i < end; i++) {
        double x =
            wide ? ((const double *)r->from->data)[i] : (double)((const float *)r->from->data)[i];
        // Contents that nobody has validated may hold anything: what is no class is no label.
        r->to[i] = x >= 0 && x <= INT32_MAX ? (int32_t)x : -1;
    }
    return false;
}

int sl_dataset_take_labels(struct sl_dataset *ds, int threads)
{
    const struct sl_npy *y = labels_of(ds);
    if (!y->map || ds->task != SL_TASK_MULTICLASS)
        return SL_OK;
    if (y->head.dtype == SL_DTYPE_I32) {
        ds->label = y->data;
        return SL_OK;
    }
    void *to;
    SL_TRY(sl_dataset_own(ds, SL_FILE_LABEL, sizeof(int32_t), &to));
    if (is_float_type(y->head.dtype)) {
        struct rounding r = {.from = y, .to = to};
        sl_threads_first(sl_div_up(y->n_elems, ROUND_ELEMS), threads, round_block, &r);
    } else {
        sl_dataset_convert(ds, SL_FILE_LABEL, sizeof(int32_t), threads);
    }
    ds->label = to;
    return SL_OK;
}

#define READ_ROW(type, unlabelled)                                                                 \
    for (uint32_t c = 0; c < n; c++) {                                                             \
        type x = ((const type *)ds->target)[first + c];                                            \
        out[c] = (unlabelled) ? NAN : (float)x;                                                    \
    }                                                                                              \
    break

void sl_dataset_targets(const struct sl_dataset *ds, uint64_t v, float *out)
{
    uint32_t n = ds->n_classes;
    uint64_t first = v * n;
    bool flags = ds->task == SL_TASK_MULTILABEL; // negative = unlabelled; NaN stays NaN
    switch (ds->target_dtype) {
    case SL_DTYPE_F32: READ_ROW(float, flags &&x < 0);
    case SL_DTYPE_F64: READ_ROW(double, flags &&x < 0);
    case SL_DTYPE_I8: READ_ROW(int8_t, flags && x < 0);
    case SL_DTYPE_U8: READ_ROW(uint8_t, false);
    case SL_DTYPE_I32: READ_ROW(int32_t, flags && x < 0);
    default: READ_ROW(int64_t, flags && x < 0);
    }
}

bool sl_dataset_is_labelled(const struct sl_dataset *ds, uint64_t v)
{
    if (ds->label)
        return ds->label[v] >= 0;
    // One column at a time needs no memory for a row of any width.
    struct sl_dataset column = *ds;
    column.n_classes = 1;
    for (uint32_t c = 0; ds->target && c < ds->n_classes; c++) {
        float x;
        sl_dataset_targets(&column, v * ds->n_classes + c, &x);
        if (!isnan(x))
            return true;
    }
    return false;
}
