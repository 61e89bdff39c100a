#include "cli/prediction_csv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/atomic_file.h"
#include "common/data/npy.h"

enum {
    BUFFER_BYTES = 1 << 16,
    VALUE_BYTES = 24,          // ",-1.23456789e-38" and its like
    ROWS_BETWEEN_LOOKS = 4096, // at Ctrl-C and the progress
};

struct writer {
    const struct sl_prediction_csv *csv;
    struct sl_npy rows, nodes;
    struct sl_atomic_file file;
    uint64_t n, width;
    size_t n_buffered;
    char buffer[BUFFER_BYTES];
};

// ---- text ---------------------------------------------------------------------------------------

static int flush(struct writer *w)
{
    size_t n = w->n_buffered;
    w->n_buffered = 0;
    return sl_atomic_file_append(&w->file, w->buffer, n);
}

static int put(struct writer *w, const char *text, size_t n)
{
    if (n > sizeof w->buffer - w->n_buffered)
        SL_TRY(flush(w));
    if (n > sizeof w->buffer)
        return sl_atomic_file_append(&w->file, text, n);
    memcpy(w->buffer + w->n_buffered, text, n);
    w->n_buffered += n;
    return SL_OK;
}

static bool is_plain(const char *text, size_t n)
{
    bool plain = true;
    for (size_t i = 0; i < n; i++)
        plain &= text[i] != ',' && text[i] != '"' && text[i] != '\n' && text[i] != '\r';
    return plain;
}

void sl_prediction_csv_field(const char *text, size_t n, FILE *out)
{
    const bool quoted = !is_plain(text, n);
    if (quoted)
        fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            fputc('"', out);
        fputc(text[i], out);
    }
    if (quoted)
        fputc('"', out);
}

static int put_field(struct writer *w, const char *text, size_t n)
{
    if (is_plain(text, n))
        return put(w, text, n);
    SL_TRY(put(w, "\"", 1));
    for (size_t i = 0; i < n; i++)
        SL_TRY(put(w, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1));
    return put(w, "\"", 1);
}

static int put_class(struct writer *w, int32_t class)
{
    const char *name;
    size_t n;
    SL_TRY(sl_names_get(w->csv->classes, (uint64_t) class, &name, &n));
    SL_TRY(put(w, ",", 1));
    return put_field(w, name, n);
}

static int put_value(struct writer *w, uint64_t at)
{
    char text[VALUE_BYTES];
    int n;
    const struct sl_names *classes = w->csv->classes;
    if (classes && w->rows.head.dtype == SL_DTYPE_I32) {
        int32_t class = ((const int32_t *)w->rows.data)[at];
        if (class >= 0 && (uint64_t) class < classes->n) // -1: none
            return put_class(w, class);
    }
    switch (w->rows.head.dtype) {
    case SL_DTYPE_I32:
        n = snprintf(text, sizeof text, ",%" PRId32, ((const int32_t *)w->rows.data)[at]);
        break;
    case SL_DTYPE_U8:
        n = snprintf(text, sizeof text, ",%u", ((const uint8_t *)w->rows.data)[at]);
        break;
    default:
        n = snprintf(text, sizeof text, ",%.9g", (double)((const float *)w->rows.data)[at]);
        break;
    }
    return put(w, text, (size_t)n);
}

// ---- rows ---------------------------------------------------------------------------------------

// Vertex number `at` of the rows' vertices.
static uint64_t vertex_of(const struct writer *w, uint64_t at)
{
    const struct sl_prediction_csv *c = w->csv;
    if (c->list)
        return c->vertex_map ? c->vertex_map[c->list->ids[at]] : c->list->ids[at];
    if (!c->nodes)
        return at;
    // None is negative: whoever computed the rows has looked.
    return sl_dtype_bytes(w->nodes.head.dtype) == sizeof(uint32_t)
               ? ((const uint32_t *)w->nodes.data)[at]
               : ((const uint64_t *)w->nodes.data)[at];
}

static int put_vertex(struct writer *w, uint64_t vertex)
{
    char number[VALUE_BYTES];
    const char *text = number;
    size_t n;
    if (w->csv->name)
        SL_TRY(w->csv->name(w->csv->name_ctx, vertex, &text, &n));
    else
        n = (size_t)snprintf(number, sizeof number, "%" PRIu64, vertex);
    return put_field(w, text, n);
}

// "output_cat": the column of a class that has a name.
static int put_class_heading(struct writer *w, uint64_t class)
{
    const char *name;
    size_t n;
    SL_TRY(sl_names_get(w->csv->classes, class, &name, &n));
    char *text = malloc(n + 40);
    if (!text)
        return sl_fail(SL_ENOMEM, "the name of class %" PRIu64 ": no memory", class);
    int head = snprintf(text, 40, "%.30s_", w->csv->column);
    memcpy(text + head, name, n);
    int rc = put(w, ",", 1);
    if (rc == SL_OK)
        rc = put_field(w, text, (size_t)head + n);
    free(text);
    return rc;
}

static int put_heading(struct writer *w)
{
    char text[64];
    const struct sl_names *classes = w->csv->classes;
    SL_TRY(put(w, w->csv->pairs ? "source,target" : "vertex", w->csv->pairs ? 13 : 6));
    for (uint64_t i = 0; i < w->width; i++) {
        if (classes && w->width == classes->n && w->rows.head.ndim == 2) {
            SL_TRY(put_class_heading(w, i));
            continue;
        }
        int n = w->rows.head.ndim == 1 || w->width == 1
                    ? snprintf(text, sizeof text, ",%.30s", w->csv->column)
                    : snprintf(text, sizeof text, ",%.30s_%" PRIu64, w->csv->column, i);
        SL_TRY(put(w, text, (size_t)n));
    }
    return put(w, "\n", 1);
}

static int put_rows(struct writer *w)
{
    struct sl_progress *progress = w->csv->progress;
    for (uint64_t row = 0; row < w->n; row++) {
        if (row % ROWS_BETWEEN_LOOKS == 0) {
            SL_TRY(sl_interrupt_check());
            if (progress)
                sl_progress_set(progress, row);
        }
        const uint64_t ends = w->csv->pairs ? 2 : 1;
        for (uint64_t i = 0; i < ends; i++) {
            SL_TRY(put(w, ",", i > 0));
            SL_TRY(put_vertex(w, vertex_of(w, ends * row + i)));
        }
        for (uint64_t i = 0; i < w->width; i++)
            SL_TRY(put_value(w, row * w->width + i));
        SL_TRY(put(w, "\n", 1));
    }
    return flush(w);
}

// ---- the file -----------------------------------------------------------------------------------

static int open_rows(struct writer *w)
{
    const struct sl_prediction_csv *c = w->csv;
    const struct sl_npy_header *head = &w->rows.head;
    SL_TRY(sl_npy_open(c->rows, &w->rows));
    if (head->ndim < 1 || head->ndim > 2 ||
        (head->dtype != SL_DTYPE_F32 && head->dtype != SL_DTYPE_I32 && head->dtype != SL_DTYPE_U8))
        return sl_fail(
            SL_EFORMAT,
            "%s: found %s of %d dimensions, wanted float32, int32 or uint8 of one or two", c->rows,
            sl_npy_dtype_name(head->dtype), head->ndim);
    w->n = head->shape[0];
    w->width = head->ndim == 2 ? head->shape[1] : 1;
    uint64_t n = c->list ? c->list->n : w->n;
    if (c->nodes && !c->list) {
        SL_TRY(sl_npy_open(c->nodes, &w->nodes));
        n = w->nodes.n_elems / (c->pairs ? 2 : 1);
    }
    return n == w->n ? SL_OK
                     : sl_fail(SL_EFORMAT,
                               "%s: found %" PRIu64 " rows, wanted one for each of %" PRIu64 " %s",
                               c->rows, w->n, n, c->pairs ? "pairs" : "vertices");
}

static int write_all(struct writer *w, const char *out)
{
    SL_TRY(open_rows(w));
    if (w->csv->progress)
        sl_progress_begin(w->csv->progress, "text", w->n, w->csv->pairs ? "pairs" : "vertices");
    SL_TRY(sl_atomic_file_open(out, &w->file));
    SL_TRY(put_heading(w));
    SL_TRY(put_rows(w));
    if (w->csv->progress)
        sl_progress_set(w->csv->progress, w->n);
    return sl_atomic_file_commit(&w->file);
}

int sl_prediction_csv_write(const struct sl_prediction_csv *csv, const char *out)
{
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return sl_fail(SL_ENOMEM, "%s: no memory", out);
    w->csv = csv;
    int rc = write_all(w, out);
    sl_atomic_file_abort(&w->file);
    sl_npy_close(&w->rows);
    sl_npy_close(&w->nodes);
    free(w);
    return rc;
}
