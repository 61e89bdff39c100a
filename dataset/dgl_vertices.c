#include "dataset/dgl_vertices.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/record_sort.h"
#include "dataset/vertex_sink.h"

enum { NAMES_BYTES = 256, ROWS_PER_TICK = 4096 };

static const char *const mask_names[SL_SPLIT_COUNT] = {"train_mask", "val_mask", "test_mask"};

// ---- columns ------------------------------------------------------------------------------------

static void add_name(char names[NAMES_BYTES], const char *name)
{
    const size_t n = strlen(names);
    snprintf(names + n, NAMES_BYTES - n, "%s%.80s", n ? ", " : "", name);
}

// Whether the column is an id, a label or a mask, or has no name.
static bool is_other(const struct sl_dgl_vertices *v, int c)
{
    bool other = c == v->id || c == v->graph || c == v->label || !v->table.names[c][0];
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        other |= c == v->mask[s];
    return other;
}

int sl_dgl_vertices_choose(struct sl_dgl_vertices *v, const struct sl_dgl_columns *columns)
{
    char names[NAMES_BYTES] = "";
    int n = 0, only = -1;
    v->label = sl_csv_table_find(&v->table, columns->label ? columns->label : "label");
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        v->mask[s] = sl_csv_table_find(&v->table, mask_names[s]);
    if (columns->features)
        return sl_dgl_features_choose(&v->features, &v->table, "features", columns->features);
    sl_dgl_features_add(&v->features, sl_csv_table_find(&v->table, "feat"));
    if (v->features.n)
        return SL_OK;
    for (int c = 0; c < v->table.n_columns; c++) {
        if (is_other(v, c))
            continue;
        only = c;
        add_name(names, v->table.names[c]);
        n++;
    }
    if (n > 1)
        return sl_fail(SL_EINVAL,
                       "import %s: found the columns %s: wanted --features with those that are "
                       "features, as in --features %s (--features '' for none)",
                       v->table.csv.path, names, v->table.names[only]);
    sl_dgl_features_add(&v->features, only);
    return SL_OK;
}

static bool has_labels(const struct sl_dgl_vertices *v)
{
    bool any = v->label >= 0;
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        any |= v->mask[s] >= 0;
    return any;
}

static bool is_used(const struct sl_dgl_vertices *v, int c, bool labels)
{
    if (c == v->id || c == v->graph)
        return true;
    for (int i = 0; i < v->features.n; i++)
        if (v->features.column[i] == c)
            return true;
    return labels && v->table.names[c][0] && is_other(v, c);
}

static void leave_out(const struct sl_dgl_vertices *v, bool labels)
{
    for (int c = 0; c < v->table.n_columns; c++)
        if (!is_used(v, c, labels))
            sl_import_leave_out(v->table.csv.im, "%s of %s",
                                v->table.names[c][0] ? v->table.names[c] : "a column", v->name);
}

static int check_names(const struct sl_dgl_vertices *types, uint32_t n_types,
                       const struct sl_dgl_columns *columns, const char *path)
{
    int n_features = 0, n_labels = 0;
    for (uint32_t i = 0; i < n_types; i++) {
        n_features += types[i].features.n;
        n_labels += types[i].label >= 0;
    }
    if (columns->features && columns->features[0] && n_features == 0)
        return sl_fail(SL_EINVAL, "import %s: --features %s: no file of vertices has such a column",
                       path, columns->features);
    if (columns->label && n_labels == 0)
        return sl_fail(SL_EINVAL, "import %s: --label %s: no file of vertices has that column",
                       path, columns->label);
    return SL_OK;
}

int sl_dgl_vertices_choose_labels(struct sl_dgl_vertices *types, uint32_t n_types,
                                  const struct sl_dgl_columns *columns, const char *path,
                                  uint32_t *first)
{
    const char *wanted = columns->label_type;
    char names[NAMES_BYTES] = "";
    int n = 0;
    *first = n_types;
    SL_TRY(check_names(types, n_types, columns, path));
    for (uint32_t i = 0; i < n_types; i++) {
        if (!has_labels(&types[i]) || (wanted && strcmp(wanted, types[i].name) != 0))
            continue;
        add_name(names, types[i].name);
        *first = i;
        n++;
    }
    if (wanted && n == 0)
        return sl_fail(SL_EINVAL,
                       "import %s: --label-type %s: wanted a type with a column of labels or masks",
                       path, wanted);
    if (n > 1)
        return sl_fail(SL_EINVAL,
                       "import %s: found labels or masks of the types %s: wanted --label-type with "
                       "one of them",
                       path, names);
    for (uint32_t i = 0; i < n_types; i++)
        leave_out(&types[i], i == *first);
    return SL_OK;
}

// ---- rows ---------------------------------------------------------------------------------------

struct reading {
    struct sl_dgl_vertices *v;
    struct sl_import *im;
    enum sl_task task;
    bool labels;
    uint64_t row;
    struct sl_record_sort *sort; // NULL: rows come in the order of the vertices

    double *values; // (SL_SINK_MAX_DIM) of a field, v's
    uint32_t dim, n_labels;
    // A row: (dim), (n_labels), masks; and the same packed.
    float *feat; // v's
    double *label;
    uint8_t mask[SL_SPLIT_COUNT];
    char *packed;

    struct sl_feature_sink features;
    struct sl_label_sink labels_out;
    struct sl_list_sink list[SL_SPLIT_COUNT];
};

static uint32_t packed_bytes(const struct reading *r)
{
    return (uint32_t)(r->dim * sizeof *r->feat + r->n_labels * sizeof *r->label + sizeof r->mask);
}

// Sizes, by the first row.
static int open_row(struct reading *r)
{
    struct sl_dgl_vertices *v = r->v;
    SL_TRY(sl_dgl_features_open(&v->features, &v->table));
    const uint64_t dim = r->dim = v->features.dim;
    r->feat = v->features.row;
    if (r->labels && v->label >= 0) {
        SL_TRY(sl_csv_table_numbers(&v->table, v->label, SL_SINK_MAX_DIM, r->values, &r->n_labels));
        r->n_labels = SL_MAX(r->n_labels, 1u);
    }
    r->label = malloc((r->n_labels + 1) * sizeof *r->label);
    r->packed = malloc(packed_bytes(r));
    if (!r->label || !r->packed)
        return sl_fail(SL_ENOMEM, "import %s: no memory for a row", v->table.csv.path);
    if (dim)
        SL_TRY(sl_feature_sink_open(&r->features, r->im, v->ids.n, dim, false, v->table.csv.path));
    if (r->n_labels)
        SL_TRY(sl_label_sink_open(&r->labels_out, r->im, v->ids.n, r->n_labels, r->task,
                                  v->table.csv.path));
    return SL_OK;
}

static int scan_labels(struct reading *r)
{
    struct sl_csv_table *t = &r->v->table;
    char wanted[96];
    uint32_t n;
    if (!r->n_labels)
        return SL_OK;
    SL_TRY(sl_csv_table_numbers(t, r->v->label, r->n_labels, r->label, &n));
    for (uint32_t d = n; d < r->n_labels && n == 0; d++)
        r->label[d] = NAN; // an empty field
    if (n == 0 || n == r->n_labels)
        return SL_OK;
    snprintf(wanted, sizeof wanted, "%" PRIu32 " labels, as line 2 has,", r->n_labels);
    return sl_csv_table_fail(t, r->v->label, wanted);
}

static int scan_masks(struct reading *r)
{
    struct sl_csv_table *t = &r->v->table;
    double x;
    uint32_t n;
    for (int s = 0; s < SL_SPLIT_COUNT && r->labels; s++) {
        const int column = r->v->mask[s];
        if (column < 0)
            continue;
        SL_TRY(sl_csv_table_numbers(t, column, 1, &x, &n));
        if (n != 1 || (x != 0 && x != 1))
            return sl_csv_table_fail(t, column, "True or False, or 1 or 0,");
        r->mask[s] = x == 1;
    }
    return SL_OK;
}

// The row that was read, as vertex `vertex`'s, which rise.
static int put_row(struct reading *r, uint64_t vertex)
{
    const char *from = r->v->table.csv.path;
    if (r->dim)
        SL_TRY(sl_feature_sink_put(&r->features, r->feat, from));
    if (r->n_labels)
        SL_TRY(sl_label_sink_put(&r->labels_out, vertex, r->label, from));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (r->mask[s])
            SL_TRY(sl_list_sink_put(&r->list[s], (int64_t)vertex, from));
    return SL_OK;
}

static int sort_row(struct reading *r, uint64_t vertex)
{
    const uint32_t key = htobe32((uint32_t)vertex);
    const size_t n_feat = r->dim * sizeof *r->feat, n_label = r->n_labels * sizeof *r->label;
    memcpy(r->packed, r->feat, n_feat);
    memcpy(r->packed + n_feat, r->label, n_label);
    memcpy(r->packed + n_feat + n_label, r->mask, sizeof r->mask);
    return sl_record_sort_add(r->sort,
                              &(struct sl_record){&key, r->packed, sizeof key, packed_bytes(r)});
}

static int take_row(struct sl_csv_table *t)
{
    struct reading *r = t->context;
    if (!r->feat)
        SL_TRY(open_row(r));
    SL_TRY(sl_dgl_features_scan(&r->v->features, t));
    SL_TRY(scan_labels(r));
    SL_TRY(scan_masks(r));
    if (r->row == r->v->ids.n)
        return sl_fail(SL_ECHANGED, "import %s: has more lines than before: do not change it",
                       t->csv.path);
    const uint64_t vertex = sl_id_table_vertex(&r->v->ids, r->row++);
    return r->sort ? sort_row(r, vertex) : put_row(r, vertex);
}

static int put_sorted(struct reading *r)
{
    const size_t n_feat = r->dim * sizeof *r->feat, n_label = r->n_labels * sizeof *r->label;
    SL_TRY(sl_record_sort_finish(r->sort));
    sl_progress_begin(&r->im->making.progress, "rows", r->row, "rows");
    for (uint64_t v = 0;; v++) {
        struct sl_record record;
        bool more;
        SL_TRY(sl_record_sort_next(r->sort, &record, &more));
        if (!more)
            return SL_OK;
        const char *from = record.payload;
        memcpy(r->feat, from, n_feat);
        memcpy(r->label, from + n_feat, n_label);
        memcpy(r->mask, from + n_feat + n_label, sizeof r->mask);
        SL_TRY(put_row(r, v));
        if (v % ROWS_PER_TICK == 0)
            SL_TRY(sl_interrupt_check());
        sl_progress_add(&r->im->making.progress, 1);
    }
}

// ---- a file -------------------------------------------------------------------------------------

static bool rows_rise(const struct sl_id_table *ids)
{
    bool rise = true;
    for (uint64_t row = 0; row < ids->n && rise; row++)
        rise = sl_id_table_vertex(ids, row) == row;
    return rise;
}

static int read_rows(struct reading *r)
{
    struct sl_dgl_vertices *v = r->v;
    SL_TRY(sl_dgl_features_begin(&v->features, &v->table));
    r->values = v->features.values;
    for (int s = 0; s < SL_SPLIT_COUNT && r->labels; s++)
        if (v->mask[s] >= 0)
            SL_TRY(sl_list_sink_open(&r->list[s], r->im, (enum sl_split)s, v->ids.n));
    if (!rows_rise(&v->ids))
        SL_TRY(sl_record_sort_create(r->im->making.st.dir, r->im->memory_bytes / 2, &r->sort));
    SL_TRY(sl_csv_table_read(&v->table, v->name, take_row, r));
    return r->sort ? put_sorted(r) : SL_OK;
}

int sl_dgl_vertices_read(struct sl_dgl_vertices *v, struct sl_import *im, enum sl_task task,
                         bool labels)
{
    struct reading *r = calloc(1, sizeof *r);
    if (!r)
        return sl_fail(SL_ENOMEM, "import %s: no memory", v->table.csv.path);
    r->v = v;
    r->im = im;
    r->task = task;
    r->labels = labels;
    int rc = read_rows(r);
    if (r->features.im)
        rc = sl_feature_sink_close(&r->features, rc, v->table.csv.path);
    if (r->labels_out.im)
        rc = sl_label_sink_close(&r->labels_out, rc, v->table.csv.path);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (r->list[s].im)
            rc = sl_list_sink_close(&r->list[s], rc, (enum sl_split)s);
    sl_record_sort_destroy(r->sort);
    sl_dgl_features_end(&v->features);
    free(r->label);
    free(r->packed);
    free(r);
    return rc;
}

void sl_dgl_vertices_fini(struct sl_dgl_vertices *v)
{
    sl_csv_table_close(&v->table);
    sl_id_table_fini(&v->ids);
}
