#include "dataset/vertex_sink.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/half.h"
#include "common/base/interrupt.h"
#include "common/base/narrow.h"
#include "dataset/split_writer.h"

enum { ROWS_PER_TICK = 4096 };

// ---- features -----------------------------------------------------------------------------------

static const char *file_of(const struct sl_import *im)
{
    return im->feature_file ? im->feature_file : "node_feat.npy";
}

int sl_feature_sink_open(struct sl_feature_sink *in, struct sl_import *im, uint64_t n_rows,
                         uint64_t dim, bool half, const char *from)
{
    char path[SL_STAGING_PATH_BYTES];
    half = half || im->half_features;
    *in = (struct sl_feature_sink){
        .im = im, .n_rows = n_rows, .dim = (uint32_t)dim, .least = INFINITY};
    if (dim == 0 || dim > SL_SINK_MAX_DIM)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found %" PRIu64 " feature columns: wanted 1 to %d", from, dim,
                       SL_SINK_MAX_DIM);
    in->values = malloc(dim * sizeof *in->values);
    in->half = half ? malloc(dim * sizeof *in->half) : NULL;
    if (!in->values || (half && !in->half))
        return sl_fail(SL_ENOMEM, "import %s: no memory for a row", from);
    const uint64_t shape[2] = {n_rows, dim};
    return sl_npy_writer_open(sl_staging_file(&im->making.st, file_of(im), path),
                              half && !im->normalise_features ? SL_DTYPE_F16 : SL_DTYPE_F32, 2,
                              shape, &in->w);
}

static int fail_rows(const struct sl_feature_sink *in, const char *from, uint64_t found)
{
    return sl_fail(SL_EFORMAT,
                   "import %s: found %" PRIu64 " rows: wanted one for each of the %" PRIu64
                   " %s: get the data set again",
                   from, found, in->n_rows, sl_import_feature_rows(in->im));
}

// A finite row in the file's type.
static int append_row(struct sl_feature_sink *in, struct sl_npy_writer *w, uint64_t number,
                      const float *row, const char *from)
{
    if (!in->half)
        return sl_npy_writer_append(w, row, in->dim * sizeof *row);
    for (uint32_t d = 0; d < in->dim; d++) {
        uint16_t magnitude = (in->half[d] = sl_half_from_float(row[d])) & 0x7fffu;
        if (magnitude == 0x7c00u)
            return sl_fail(SL_EFORMAT,
                           "import %s: row %" PRIu64 ", column %" PRIu32
                           ": found %g: float16 holds at most 65504: leave --f16 out, or scale the "
                           "features first",
                           from, number, d, (double)row[d]);
        in->n_flushed += magnitude == 0 && row[d] != 0;
    }
    return sl_npy_writer_append(w, in->half, in->dim * sizeof *in->half);
}

int sl_feature_sink_put(struct sl_feature_sink *in, const float *row, const char *from)
{
    if (in->row == in->n_rows)
        return fail_rows(in, from, in->row + 1);
    for (uint32_t d = 0; d < in->dim; d++)
        if (!isfinite(row[d]))
            return sl_fail(SL_EFORMAT,
                           "import %s: row %" PRIu64 ", column %" PRIu32
                           ": found %g: wanted a finite number: replace it first",
                           from, in->row, d, (double)row[d]);
    if (in->im->normalise_features) {
        for (uint32_t d = 0; d < in->dim; d++)
            in->least = SL_MIN(in->least, row[d]);
        in->row++;
        return sl_npy_writer_append(in->w, row, in->dim * sizeof *row);
    }
    SL_TRY(append_row(in, in->w, in->row, row, from));
    in->row++;
    return SL_OK;
}

// PyTorch Geometric's NormalizeFeatures, from the file that was written to one of the same name.
static int normalise(struct sl_feature_sink *in, const char *from)
{
    char path[SL_STAGING_PATH_BYTES];
    const uint64_t shape[2] = {in->n_rows, in->dim};
    struct sl_npy raw = {0};
    struct sl_npy_writer *w = NULL;
    float *row = in->values;
    int rc = sl_npy_open(sl_staging_file(&in->im->making.st, file_of(in->im), path), &raw);
    if (rc == SL_OK)
        rc = sl_npy_writer_open(path, in->half ? SL_DTYPE_F16 : SL_DTYPE_F32, 2, shape, &w);
    sl_progress_begin(&in->im->making.progress, "normalise", in->n_rows, "rows");
    for (uint64_t r = 0; r < in->n_rows && rc == SL_OK; r++) {
        const float *x = (const float *)raw.data + r * in->dim;
        double sum = 0;
        for (uint32_t d = 0; d < in->dim; d++)
            sum += (double)(row[d] = x[d] - in->least);
        if (!isfinite(sum)) {
            rc =
                sl_fail(SL_EFORMAT,
                        "import %s: row %" PRIu64 ": less the smallest of all features, %g, it has "
                        "more than " SL_FLOAT32_LARGEST ", the most that float32 holds: leave "
                        "--normalize-features out, or scale the features first",
                        from, r, (double)in->least);
            break;
        }
        for (uint32_t d = 0; d < in->dim; d++)
            row[d] /= (float)SL_MAX(sum, 1.0);
        rc = append_row(in, w, r, row, from);
        if (rc == SL_OK && r % ROWS_PER_TICK == 0)
            rc = sl_interrupt_check();
        sl_progress_add(&in->im->making.progress, 1);
    }
    rc = sl_npy_writer_close(&w, rc);
    sl_npy_close(&raw);
    return rc;
}

int sl_feature_sink_close(struct sl_feature_sink *in, int rc, const char *from)
{
    if (rc == SL_OK && in->row != in->n_rows)
        rc = fail_rows(in, from, in->row);
    rc = sl_npy_writer_close(&in->w, rc);
    if (rc == SL_OK && in->im->normalise_features)
        rc = normalise(in, from);
    if (rc == SL_OK) {
        struct sl_import_vertices *facts = &in->im->vertices;
        facts->feat_dim = in->dim;
        facts->half = in->half != NULL;
        facts->normalised = in->im->normalise_features;
        facts->n_flushed = in->n_flushed;
    }
    free(in->values);
    free(in->half);
    in->values = NULL;
    in->half = NULL;
    return rc;
}

// ---- labels -------------------------------------------------------------------------------------

int sl_label_sink_open(struct sl_label_sink *in, struct sl_import *im, uint64_t n_nodes,
                       uint64_t n_columns, enum sl_task task, const char *from)
{
    char path[SL_STAGING_PATH_BYTES];
    void *data;
    if (task == SL_TASK_NONE)
        task = n_columns > 1 ? SL_TASK_MULTILABEL : SL_TASK_MULTICLASS;
    *in = (struct sl_label_sink){.im = im,
                                 .task = task,
                                 .n_nodes = n_nodes,
                                 .n_columns = (uint32_t)n_columns,
                                 .largest = -1};
    if (n_columns == 0 || n_columns > SL_SINK_MAX_DIM)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found %" PRIu64 " label columns: wanted 1 to %d", from,
                       n_columns, SL_SINK_MAX_DIM);
    const uint64_t shape[2] = {n_nodes, n_columns};
    enum sl_dtype dtype = task == SL_TASK_MULTICLASS   ? SL_DTYPE_I32
                          : task == SL_TASK_MULTILABEL ? SL_DTYPE_I8
                                                       : SL_DTYPE_F32;
    SL_TRY(sl_npy_create_mapped(sl_staging_file(&im->making.st, "node_label.npy", path), dtype,
                                task == SL_TASK_MULTICLASS ? 1 : 2, shape, &in->w, &data));
    uint64_t n = task == SL_TASK_MULTICLASS ? n_nodes : n_nodes * n_columns;
    if (task == SL_TASK_REGRESSION) {
        in->numbers = data;
        for (uint64_t i = 0; i < n; i++)
            in->numbers[i] = NAN;
    } else {
        memset(data, 0xff, n * sl_dtype_bytes(dtype)); // -1
        in->classes = task == SL_TASK_MULTICLASS ? data : NULL;
        in->flags = task == SL_TASK_MULTILABEL ? data : NULL;
    }
    in->values = malloc(n_columns * sizeof *in->values);
    return in->values ? SL_OK : sl_fail(SL_ENOMEM, "import %s: no memory for a row", from);
}

static int fail_label(const char *from, uint64_t vertex, double found, const char *wanted)
{
    return sl_fail(SL_EFORMAT, "import %s: vertex %" PRIu64 ": found %g: wanted %s", from, vertex,
                   found, wanted);
}

static int put_class(struct sl_label_sink *in, uint64_t vertex, double x, const char *from)
{
    int32_t *label = &in->classes[vertex];
    if (isnan(x) || (x < 0 && x == floor(x)))
        return SL_OK;
    if (!(x >= 0 && x < SL_SINK_MAX_CLASSES) || x != floor(x))
        return fail_label(from, vertex, x,
                          "a class from 0 to 999999, or nan or -1 for a vertex without one "
                          "(--task regression takes any number)");
    if (*label >= 0 && *label != (int32_t)x)
        return sl_fail(SL_EFORMAT,
                       "import %s: vertex %" PRIu64 ": found class %" PRId32 " after class %" PRId32
                       ": wanted one class a vertex",
                       from, vertex, (int32_t)x, *label);
    in->n_labelled += *label < 0;
    *label = (int32_t)x;
    in->largest = SL_MAX(in->largest, *label);
    return SL_OK;
}

static bool is_unknown(double x)
{
    return isnan(x) || x < 0;
}

// The class of a row of several columns, NaN where none is 1.
static int get_one_hot(const struct sl_label_sink *in, uint64_t vertex, const double *row,
                       const char *from, double *class)
{
    *class = NAN;
    for (uint32_t d = 0; d < in->n_columns; d++) {
        if (row[d] != 0 && row[d] != 1 && !is_unknown(row[d]))
            return fail_label(from, vertex, row[d],
                              "0 or 1 in each column of one-hot classes (--task regression takes "
                              "any number)");
        if (row[d] == 1 && !isnan(*class))
            return sl_fail(SL_EFORMAT,
                           "import %s: vertex %" PRIu64 ": found a 1 in columns %g and %" PRIu32
                           ": wanted one class a vertex (--task multilabel takes several)",
                           from, vertex, *class, d);
        if (row[d] == 1)
            *class = d;
    }
    return SL_OK;
}

int sl_label_sink_put(struct sl_label_sink *in, uint64_t vertex, const double *row,
                      const char *from)
{
    bool labelled = false;
    uint32_t n_ones = 0;
    if (in->classes) {
        double class = row[0];
        if (in->n_columns > 1)
            SL_TRY(get_one_hot(in, vertex, row, from, &class));
        return put_class(in, vertex, class, from);
    }
    uint64_t at = vertex * in->n_columns;
    for (uint32_t d = 0; d < in->n_columns; d++) {
        double x = row[d];
        if (in->numbers) {
            in->numbers[at + d] = (float)x;
            if (isinf((float)x))
                return fail_label(from, vertex, x, "a number that fits float32");
            labelled |= !isnan(x);
        } else if (x == 0 || x == 1) {
            in->flags[at + d] = (int8_t)x;
            n_ones += x == 1;
            labelled = true;
        } else if (!is_unknown(x)) {
            return fail_label(from, vertex, x,
                              "0 or 1 in each label column, or nan or -1 for unknown (--task "
                              "regression takes any number)");
        }
    }
    in->n_labelled += labelled;
    in->n_single += n_ones == 1;
    return SL_OK;
}

int sl_label_sink_close(struct sl_label_sink *in, int rc, const char *from)
{
    if (rc == SL_OK && in->n_labelled == 0)
        rc = sl_fail(SL_EFORMAT, "import %s: no vertex has a label: wanted some", from);
    rc = sl_npy_writer_close(&in->w, rc);
    if (rc == SL_OK) {
        struct sl_import_vertices *facts = &in->im->vertices;
        facts->task = in->task;
        facts->n_classes = in->task == SL_TASK_MULTICLASS && in->n_columns == 1
                               ? (uint32_t)in->largest + 1
                               : in->n_columns;
        facts->one_hot =
            in->task == SL_TASK_MULTILABEL && in->n_columns > 1 && in->n_single == in->n_labelled;
        // A vertex may be labelled twice alike in several lists.
        facts->n_unlabelled = in->n_nodes - SL_MIN(in->n_labelled, in->n_nodes);
    }
    free(in->values);
    in->values = NULL;
    return rc;
}

// ---- lists --------------------------------------------------------------------------------------

int sl_list_sink_open(struct sl_list_sink *in, struct sl_import *im, enum sl_split split,
                      uint64_t n_nodes)
{
    *in = (struct sl_list_sink){
        .im = im, .n_nodes = n_nodes, .seen = calloc(n_nodes / 64 + 1, sizeof *in->seen)};
    if (!in->seen)
        return sl_fail(SL_ENOMEM, "import %s: no memory for a bit for each of %" PRIu64 " vertices",
                       im->source, n_nodes);
    int rc = im->split ? SL_OK : sl_split_writer_open_list(&im->making.st, split, n_nodes, &in->w);
    if (rc < 0) {
        free(in->seen);
        in->seen = NULL;
    }
    return rc;
}

int sl_list_sink_put(struct sl_list_sink *in, int64_t vertex, const char *from)
{
    if (vertex < 0 || (uint64_t)vertex >= in->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "import %s: entry %" PRIu64 ": found %" PRId64
                       ": wanted a vertex from 0 to %" PRIu64,
                       from, in->n, vertex, in->n_nodes - 1);
    uint64_t bit = (uint64_t)1 << (vertex % 64);
    if (in->seen[vertex / 64] & bit)
        return sl_fail(SL_EFORMAT,
                       "import %s: entry %" PRIu64 ": found vertex %" PRId64
                       " a second time: wanted each at most once%s",
                       from, in->n, vertex,
                       vertex > 1 ? "" : ": of a mask numpy.flatnonzero() makes the list");
    in->seen[vertex / 64] |= bit;
    in->n++;
    return in->w ? sl_npy_writer_append_id(in->w, (uint64_t)vertex) : SL_OK;
}

int sl_list_sink_close(struct sl_list_sink *in, int rc, enum sl_split split)
{
    bool written = in->w != NULL;
    free(in->seen);
    in->seen = NULL;
    rc = sl_npy_writer_close(&in->w, rc);
    if (rc == SL_OK && written) {
        in->im->vertices.has_split = true;
        in->im->vertices.n_split[split] = in->n;
    }
    return rc;
}
