#include "dataset/csv_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "common/base/error.h"
#include "common/base/narrow.h"
#include "dataset/line_scan.h"
#include "dataset/vertex_sink.h"

struct rows {
    struct sl_csv csv;
    uint64_t n_nodes;
    enum sl_task task;
    struct sl_feature_sink features;
    struct sl_label_sink labels;
    struct sl_list_sink list;
};

static void begin(struct rows *r, struct sl_import *im, const char *path, uint64_t n_nodes)
{
    *r = (struct rows){.csv = {.im = im, .context = r}, .n_nodes = n_nodes};
    snprintf(r->csv.path, sizeof r->csv.path, "%s", path);
}

static int check_rows(const struct sl_csv *c, uint64_t n_rows)
{
    const struct rows *r = c->context;
    if (n_rows == r->n_nodes)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: found %" PRIu64 " rows: wanted one for each of the %" PRIu64
                   " %s: get the data set again",
                   c->path, n_rows, r->n_nodes, sl_import_feature_rows(c->im));
}

// A whole line of n numbers into one of the two; with nan, "nan" in any letters is one too.
static int scan_row(struct sl_csv *c, const char **p, uint64_t n, bool nan, const char *what,
                    float *floats, double *doubles)
{
    char wanted[128];
    for (uint64_t d = 0; d < n; d++) {
        double x = NAN;
        const char *q = sl_line_skip_gap(*p), *end;
        if (nan && strncasecmp(q, "nan", 3) == 0)
            end = q + 3;
        else
            end = sl_line_scan_real(q, &x);
        if (!end || !(sl_line_is_gap(*end) || *end == '\n') ||
            !(isfinite((float)x) || (nan && isnan(x)))) {
            if (n > 1)
                snprintf(wanted, sizeof wanted, "%s in column %" PRIu64 " of %" PRIu64, what, d + 1,
                         n);
            return sl_csv_fail(c, q, n > 1 ? wanted : what);
        }
        if (floats)
            floats[d] = (float)x;
        else
            doubles[d] = x;
        *p = end;
    }
    return sl_csv_end_line(c, p, n > 1 ? "as many columns as in the first row" : "one column");
}

static int parse_features(struct sl_csv *c, const char **p)
{
    struct rows *r = c->context;
    struct sl_feature_sink *in = &r->features;
    if (c->line > r->n_nodes)
        return check_rows(c, c->line);
    if (!in->w)
        SL_TRY(
            sl_feature_sink_open(in, c->im, r->n_nodes, sl_csv_count_columns(*p), false, c->path));
    SL_TRY(scan_row(c, p, in->dim, false, "a finite number up to " SL_FLOAT32_LARGEST " (float32)",
                    in->values, NULL));
    return sl_feature_sink_put(in, in->values, c->path);
}

int sl_csv_put_features(struct sl_import *im, const char *path, uint64_t n_nodes)
{
    struct rows r;
    begin(&r, im, path, n_nodes);
    int rc = sl_csv_read(&r.csv, "features", parse_features);
    if (rc == SL_OK)
        rc = check_rows(&r.csv, r.csv.line);
    return sl_feature_sink_close(&r.features, rc, r.csv.path);
}

static int parse_label(struct sl_csv *c, const char **p)
{
    struct rows *r = c->context;
    struct sl_label_sink *in = &r->labels;
    if (c->line > r->n_nodes)
        return check_rows(c, c->line);
    if (!in->w)
        SL_TRY(
            sl_label_sink_open(in, c->im, r->n_nodes, sl_csv_count_columns(*p), r->task, c->path));
    const char *wanted = in->task == SL_TASK_MULTICLASS
                             ? "a class from 0, or nan for a vertex without one"
                             : "a number, or nan for unknown";
    const char *begin = *p;
    SL_TRY(scan_row(c, p, in->n_columns, true, wanted, NULL, in->values));
    double x = in->values[0];
    if (in->task == SL_TASK_MULTICLASS && !isnan(x) && (x != floor(x) || x >= SL_SINK_MAX_CLASSES))
        return sl_csv_fail(c, begin, wanted);
    return sl_label_sink_put(in, c->line - 1, in->values, c->path);
}

int sl_csv_put_labels(struct sl_import *im, const char *path, uint64_t n_nodes, enum sl_task task)
{
    struct rows r;
    begin(&r, im, path, n_nodes);
    r.task = task;
    int rc = sl_csv_read(&r.csv, "labels", parse_label);
    if (rc == SL_OK)
        rc = check_rows(&r.csv, r.csv.line);
    return sl_label_sink_close(&r.labels, rc, r.csv.path);
}

static int parse_vertex(struct sl_csv *c, const char **p)
{
    struct rows *r = c->context;
    uint64_t v;
    SL_TRY(sl_csv_scan_below(c, p, r->n_nodes, "a vertex", &v));
    SL_TRY(sl_csv_end_line(c, p, "one vertex"));
    return sl_list_sink_put(&r->list, (int64_t)v, c->path);
}

int sl_csv_put_list(struct sl_import *im, const char *path, enum sl_split split, uint64_t n_nodes)
{
    struct rows r;
    begin(&r, im, path, n_nodes);
    SL_TRY(sl_list_sink_open(&r.list, im, split, n_nodes));
    return sl_list_sink_close(&r.list, sl_csv_read(&r.csv, "split", parse_vertex), split);
}
