/*
 * Arrays are read front to back in batches, several side by side where one element needs several
 * arrays (a (2, E) array is two of them: sources and destinations), so nothing is proportional to
 * edges or features. Only indptr is read in small steps beside indices.
 */
#include "dataset/array_sink.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/narrow.h"

enum { BATCH = 4096 };

int sl_array_open(const struct sl_array_place *place, struct sl_array_reader **out)
{
    return place->path ? sl_array_open_raw(place->path, place->raw, out)
                       : sl_array_open_member(place->zip, place->key, out);
}

static bool is_given(const struct sl_array_place *place)
{
    return place->path || place->zip;
}

static int fail_shape(const struct sl_array_reader *r, const char *wanted)
{
    char shape[128];
    return sl_fail(SL_EFORMAT, "import %s: found shape %s: wanted %s", sl_array_name(r),
                   sl_npy_shape_text(sl_array_header(r), shape, sizeof shape), wanted);
}

// Two integer streams of one length and perhaps weights, which are read side by side.
struct lanes {
    struct sl_array_reader *a, *b, *w;
    int64_t x[BATCH], y[BATCH];
    double weight[BATCH];
};

static void close_lanes(struct lanes *l)
{
    if (!l)
        return;
    sl_array_close(l->a);
    sl_array_close(l->b);
    sl_array_close(l->w);
    free(l);
}

// What fails is left to close_lanes().
static int open_lanes(const struct sl_import *im, const struct sl_array_place *a,
                      const struct sl_array_place *b, struct lanes **out)
{
    struct lanes *l = *out = calloc(1, sizeof *l);
    if (!l)
        return sl_fail(SL_ENOMEM, "import %s: no memory", im->source);
    SL_TRY(sl_array_open(a, &l->a));
    SL_TRY(sl_array_check_ids(l->a));
    if (!b)
        return SL_OK;
    SL_TRY(sl_array_open(b, &l->b));
    return sl_array_check_ids(l->b);
}

// Whether all of the array is 1.
static int find_units(const struct sl_array_place *place, bool *units)
{
    struct sl_array_reader *r;
    double *x = malloc(BATCH * sizeof *x);
    if (!x)
        return sl_fail(SL_ENOMEM, "import: no memory");
    int rc = sl_array_open(place, &r);
    *units = rc == SL_OK;
    while (rc == SL_OK && *units && sl_array_left(r)) {
        uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        rc = sl_array_read_doubles(r, n, x);
        for (uint64_t i = 0; i < n && rc == SL_OK && *units; i++)
            *units = x[i] == 1;
    }
    sl_array_close(r);
    free(x);
    return rc;
}

// Weights that are all 1, as in a matrix of who knows whom, are none, known before the edges are
// sorted; only sums of them would be more.
static int open_weights(struct sl_import *im, const struct sl_array_place *place, uint64_t n,
                        struct sl_array_reader **out)
{
    if (!im->edge_sink.weighted || !is_given(place))
        return SL_OK;
    int rc = sl_array_open(place, out);
    if (rc == SL_EUNSUPPORTED || rc == SL_EFORMAT) {
        char why[512];
        snprintf(why, sizeof why, "%s", sl_error_message());
        return sl_fail(rc, "%s (--no-weights reads none)", why);
    }
    SL_TRY(rc);
    const struct sl_npy_header *h = sl_array_header(*out);
    if ((h->ndim != 1 && (h->ndim != 2 || h->shape[1] != 1)) || h->shape[0] != n) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "(%" PRIu64 ",), a weight for each edge", n);
        return fail_shape(*out, wanted);
    }
    bool units = false;
    if (!im->weights_given && !im->duplicates_given)
        SL_TRY(find_units(place, &units));
    if (units) {
        im->unit_weights = true;
        im->edge_sink.weighted = false;
        sl_array_close(*out);
        *out = NULL;
    }
    return SL_OK;
}

static int fail_vertex(const struct sl_array_reader *r, uint64_t element, int64_t found,
                       uint64_t n_nodes)
{
    if (n_nodes == 0)
        return sl_fail(SL_EFORMAT,
                       "import %s: element %" PRIu64 ": found %" PRId64
                       ": wanted no edge, for its type has no vertices",
                       sl_array_name(r), element, found);
    return sl_fail(SL_EFORMAT,
                   "import %s: element %" PRIu64 ": found %" PRId64
                   ": wanted a vertex from 0 to %" PRIu64,
                   sl_array_name(r), element, found, n_nodes - 1);
}

// The weight of edge i of the batch, which is edge `first` + i of the source; 0 without weights.
static int get_weight(const struct lanes *l, uint64_t i, uint64_t first, double *out)
{
    *out = l->w ? l->weight[i] : 0;
    if (*out >= 0 && isfinite((float)*out))
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: element %" PRIu64
                   ": found %g: wanted a weight from 0 to " SL_FLOAT32_LARGEST
                   " (float32; --no-weights reads none)",
                   sl_array_name(l->w), first + i, l->weight[i]);
}

static int put_edge(struct sl_import *im, const struct lanes *l, uint64_t i, uint64_t first,
                    struct sl_edge_ends ends)
{
    double weight;
    SL_TRY(get_weight(l, i, first, &weight));
    if ((uint64_t)l->x[i] >= ends.n_sources)
        return fail_vertex(l->a, first + i, l->x[i], ends.n_sources);
    if ((uint64_t)l->y[i] >= ends.n_targets)
        return fail_vertex(l->b ? l->b : l->a, first + i, l->y[i], ends.n_targets);
    return sl_edge_sink_put(&im->edge_sink, (uint32_t)l->x[i], (uint32_t)l->y[i], weight);
}

// n edges: from a and b, or pairs from a alone.
static int put_lanes(struct sl_import *im, struct lanes *l, uint64_t n, struct sl_edge_ends ends)
{
    sl_progress_begin(&im->making.progress, "edges", n, "edges");
    for (uint64_t done = 0; done < n;) {
        uint64_t some = SL_MIN(n - done, l->b ? BATCH : BATCH / 2);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_integers(l->a, l->b ? some : 2 * some, l->x));
        if (l->b)
            SL_TRY(sl_array_read_integers(l->b, some, l->y));
        for (uint64_t i = 0; !l->b && i < some; i++) { // pairs: x0 y0 x1 y1 ...
            l->y[i] = l->x[2 * i + 1];
            l->x[i] = l->x[2 * i];
        }
        if (l->w)
            SL_TRY(sl_array_read_doubles(l->w, some, l->weight));
        for (uint64_t i = 0; i < some; i++)
            SL_TRY(put_edge(im, l, i, done, ends));
        done += some;
        sl_progress_set(&im->making.progress, done);
    }
    return SL_OK;
}

int sl_array_put_edges(struct sl_import *im, const struct sl_array_place *place,
                       const struct sl_array_place *weights, enum sl_edge_shape shape,
                       struct sl_edge_ends ends)
{
    struct lanes *l;
    int rc;
    SL_TRY_OUT(open_lanes(im, place, NULL, &l));
    const struct sl_npy_header *h = sl_array_header(l->a);
    static const char *const wanted[] = {
        [SL_EDGES_2_E] = "(2, number of edges)",
        [SL_EDGES_E_2] = "(number of edges, 2)",
        [SL_EDGES_EITHER] = "(2, number of edges) or (number, 2)",
    };
    bool rows = h->ndim == 2 && h->shape[0] == 2 && shape != SL_EDGES_E_2;
    bool pairs = h->ndim == 2 && !rows && h->shape[1] == 2 && shape != SL_EDGES_2_E;
    if (!rows && !pairs) {
        rc = fail_shape(l->a, wanted[shape]);
        goto out;
    }
    uint64_t n = h->shape[rows ? 1 : 0];
    // In column order a (2, E) array lies as one of (E, 2) does in row order, and the reverse.
    if (rows != h->fortran) {
        SL_TRY_OUT(sl_array_open(place, &l->b));
        SL_TRY_OUT(sl_array_skip(l->b, n));
    }
    if (weights)
        SL_TRY_OUT(open_weights(im, weights, n, &l->w));
    SL_TRY_OUT(sl_import_start_edges(im));
    rc = put_lanes(im, l, n, ends);
out:
    close_lanes(l);
    return rc;
}

int sl_array_put_coordinates(struct sl_import *im, const struct sl_coordinate_edges *e,
                             uint64_t n_nodes)
{
    struct lanes *l;
    int rc;
    SL_TRY_OUT(open_lanes(im, &e->sources, &e->destinations, &l));
    uint64_t n = sl_array_count(l->a);
    if (sl_array_header(l->a)->ndim != 1) {
        rc = fail_shape(l->a, "one dimension");
        goto out;
    }
    if (sl_array_header(l->b)->ndim != 1 || sl_array_count(l->b) != n) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "(%" PRIu64 ",), as the other end has", n);
        rc = fail_shape(l->b, wanted);
        goto out;
    }
    SL_TRY_OUT(open_weights(im, &e->weights, n, &l->w));
    SL_TRY_OUT(sl_import_start_edges(im));
    rc = put_lanes(im, l, n, sl_edge_ends_of(n_nodes));
out:
    close_lanes(l);
    return rc;
}

// ---- compressed matrices ------------------------------------------------------------------------

// Walks over the rows of a compressed matrix: l->a is indptr, l->b indices, l->w values.
struct rows {
    struct lanes *l;
    uint64_t n_rows, n, row; // stored entries; the row that begins next
    int64_t begin;           // of that row
    uint64_t at, filled;     // in the batch of entries, whose first is entry `first`
    uint64_t first;
    uint64_t ahead, ahead_at; // offsets in l->x
};

static int open_rows(struct sl_import *im, const struct sl_compressed_edges *e, uint64_t n_rows,
                     struct rows *r)
{
    char wanted[96];
    *r = (struct rows){.n_rows = n_rows};
    SL_TRY(open_lanes(im, &e->indptr, &e->indices, &r->l));
    if (sl_array_header(r->l->b)->ndim != 1)
        return fail_shape(r->l->b, "one dimension");
    r->n = sl_array_count(r->l->b);
    if (sl_array_header(r->l->a)->ndim != 1 || sl_array_count(r->l->a) != n_rows + 1) {
        snprintf(wanted, sizeof wanted, "(%" PRIu64 ",): an offset for each row and one",
                 n_rows + 1);
        return fail_shape(r->l->a, wanted);
    }
    SL_TRY(sl_array_read_integers(r->l->a, 1, &r->begin));
    if (r->begin != 0)
        return sl_fail(SL_EFORMAT, "import %s: element 0: found %" PRId64 ": wanted 0",
                       sl_array_name(r->l->a), r->begin);
    return SL_OK;
}

// The number of entries of the next row.
static int next_row(struct rows *r, uint64_t *n)
{
    struct lanes *l = r->l;
    if (r->ahead_at == r->ahead) {
        r->ahead = SL_MIN(sl_array_left(l->a), (uint64_t)BATCH);
        r->ahead_at = 0;
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_integers(l->a, r->ahead, l->x));
    }
    int64_t end = l->x[r->ahead_at++];
    if (end < r->begin || (uint64_t)end > r->n ||
        (r->row + 1 == r->n_rows && (uint64_t)end != r->n))
        return sl_fail(SL_EFORMAT,
                       "import %s: element %" PRIu64 ": found %" PRId64
                       ": wanted offsets that never fall and end at the %" PRIu64 " entries",
                       sl_array_name(l->a), r->row + 1, end, r->n);
    *n = (uint64_t)(end - r->begin);
    r->begin = end;
    r->row++;
    return SL_OK;
}

// Makes sure that an entry is at r->at of the batch.
static int need_entry(struct rows *r)
{
    struct lanes *l = r->l;
    if (r->at < r->filled)
        return SL_OK;
    r->first += r->filled;
    r->filled = SL_MIN(r->n - r->first, (uint64_t)BATCH);
    r->at = 0;
    SL_TRY(sl_array_read_integers(l->b, r->filled, l->y));
    return l->w ? sl_array_read_doubles(l->w, r->filled, l->weight) : SL_OK;
}

static int put_row(struct sl_import *im, struct rows *r, uint64_t n, bool by_columns,
                   uint64_t n_nodes)
{
    struct lanes *l = r->l;
    uint32_t row = (uint32_t)(r->row - 1);
    for (; n > 0; n--) {
        SL_TRY(need_entry(r));
        uint64_t i = r->at++;
        if ((uint64_t)l->y[i] >= n_nodes)
            return fail_vertex(l->b, r->first + i, l->y[i], n_nodes);
        uint32_t other = (uint32_t)l->y[i];
        double weight;
        SL_TRY(get_weight(l, i, r->first, &weight));
        SL_TRY(sl_edge_sink_put(&im->edge_sink, by_columns ? other : row, by_columns ? row : other,
                                weight));
    }
    return SL_OK;
}

int sl_array_put_compressed(struct sl_import *im, const struct sl_compressed_edges *e,
                            uint64_t n_nodes)
{
    struct rows r;
    int rc;
    SL_TRY_OUT(open_rows(im, e, n_nodes, &r));
    SL_TRY_OUT(open_weights(im, &e->weights, r.n, &r.l->w));
    SL_TRY_OUT(sl_import_start_edges(im));
    sl_progress_begin(&im->making.progress, "edges", r.n, "edges");
    while (r.row < n_nodes) {
        uint64_t n;
        SL_TRY_OUT(next_row(&r, &n));
        SL_TRY_OUT(put_row(im, &r, n, e->by_columns, n_nodes));
        sl_progress_add(&im->making.progress, n);
    }
out:
    close_lanes(r.l);
    return rc;
}

// ---- features and labels ------------------------------------------------------------------------

static void binarise(float *row, uint64_t dim)
{
    for (uint64_t d = 0; d < dim; d++)
        row[d] = row[d] > 0 ? 1 : row[d];
}

static int put_sparse_row(struct rows *r, uint64_t n, uint64_t dim, float *row)
{
    struct lanes *l = r->l;
    memset(row, 0, dim * sizeof *row);
    for (; n > 0; n--) {
        SL_TRY(need_entry(r));
        uint64_t i = r->at++;
        if ((uint64_t)l->y[i] >= dim)
            return sl_fail(SL_EFORMAT,
                           "import %s: element %" PRIu64 ": found %" PRId64
                           ": wanted a column from 0 to %" PRIu64,
                           sl_array_name(l->b), r->first + i, l->y[i], dim - 1);
        float *x = &row[l->y[i]];
        if (!sl_narrow(*x + l->weight[i], x))
            return sl_fail(SL_EFORMAT,
                           "import %s: element %" PRIu64
                           ": found %g: float32 holds at most " SL_FLOAT32_LARGEST
                           ": scale the features first",
                           sl_array_name(l->w), r->first + i, l->weight[i]);
    }
    return SL_OK;
}

int sl_array_put_sparse_features(struct sl_import *im, const struct sl_compressed_edges *rows,
                                 uint64_t n_nodes, uint64_t dim, bool binary)
{
    struct rows r;
    struct sl_feature_sink in = {0};
    int rc;
    SL_TRY_OUT(open_rows(im, rows, n_nodes, &r));
    const char *from = sl_array_name(r.l->a);
    SL_TRY_OUT(sl_array_open(&rows->weights, &r.l->w));
    if (sl_array_header(r.l->w)->ndim != 1 || sl_array_count(r.l->w) != r.n) {
        rc = fail_shape(r.l->w, "as many values as there are indices");
        goto out;
    }
    SL_TRY_OUT(sl_feature_sink_open(&in, im, n_nodes, dim, false, from));
    sl_progress_begin(&im->making.progress, "features", n_nodes, "rows");
    while (r.row < n_nodes) {
        uint64_t n;
        SL_TRY_OUT(next_row(&r, &n));
        SL_TRY_OUT(put_sparse_row(&r, n, dim, in.values));
        if (binary)
            binarise(in.values, dim);
        SL_TRY_OUT(sl_feature_sink_put(&in, in.values, from));
        sl_progress_add(&im->making.progress, 1);
    }
out:
    rc = sl_feature_sink_close(&in, rc, im->source);
    close_lanes(r.l);
    return rc;
}

// A reader of (n_nodes), (n_nodes, D); *dim = D.
// rows: of what, "vertices".
static int open_matrix(const struct sl_array_place *place, uint64_t n_nodes, const char *rows,
                       struct sl_array_reader **out, uint64_t *dim)
{
    char wanted[160];
    SL_TRY(sl_array_open(place, out));
    const struct sl_npy_header *h = sl_array_header(*out);
    if ((h->ndim != 1 && h->ndim != 2) || h->shape[0] != n_nodes) {
        snprintf(wanted, sizeof wanted,
                 "(%" PRIu64 ", columns), a row for each of the %" PRIu64 " %s", n_nodes, n_nodes,
                 rows);
        return fail_shape(*out, wanted);
    }
    *dim = h->ndim == 2 ? h->shape[1] : 1;
    if (h->fortran && *dim > 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: is in Fortran (column) order: wanted rows one after another: "
                       "save numpy.ascontiguousarray(a)",
                       sl_array_name(*out));
    return SL_OK;
}

int sl_array_put_features(struct sl_import *im, const struct sl_array_place *place,
                          uint64_t n_nodes, bool binary)
{
    struct sl_array_reader *r = NULL;
    struct sl_feature_sink in = {0};
    uint64_t dim = 0;
    int rc;
    SL_TRY_OUT(open_matrix(place, n_nodes, sl_import_feature_rows(im), &r, &dim));
    const char *from = sl_array_name(r);
    bool half = sl_array_header(r)->dtype == SL_DTYPE_F16;
    SL_TRY_OUT(sl_feature_sink_open(&in, im, n_nodes, dim, half, from));
    sl_progress_begin(&im->making.progress, "features", n_nodes, "rows");
    for (uint64_t v = 0; v < n_nodes; v++) {
        if (v % BATCH == 0)
            SL_TRY_OUT(sl_interrupt_check());
        SL_TRY_OUT(sl_array_read_floats(r, dim, in.values));
        if (binary)
            binarise(in.values, dim);
        SL_TRY_OUT(sl_feature_sink_put(&in, in.values, from));
        sl_progress_add(&im->making.progress, 1);
    }
out:
    rc = sl_feature_sink_close(&in, rc, im->source);
    sl_array_close(r);
    return rc;
}

int sl_array_put_labels(struct sl_import *im, const struct sl_array_place *place, uint64_t n_nodes,
                        enum sl_task task)
{
    struct sl_array_reader *r = NULL;
    struct sl_label_sink in = {0};
    uint64_t dim = 0;
    int rc;
    SL_TRY_OUT(open_matrix(place, n_nodes, "vertices", &r, &dim));
    const char *from = sl_array_name(r);
    SL_TRY_OUT(sl_label_sink_open(&in, im, n_nodes, dim, task, from));
    sl_progress_begin(&im->making.progress, "labels", n_nodes, "rows");
    for (uint64_t v = 0; v < n_nodes; v++) {
        if (v % BATCH == 0)
            SL_TRY_OUT(sl_interrupt_check());
        SL_TRY_OUT(sl_array_read_doubles(r, dim, in.values));
        SL_TRY_OUT(sl_label_sink_put(&in, v, in.values, from));
        sl_progress_add(&im->making.progress, 1);
    }
out:
    rc = sl_label_sink_close(&in, rc, r ? sl_array_name(r) : im->source);
    sl_array_close(r);
    return rc;
}

static int put_list(struct sl_array_reader *r, struct sl_list_sink *list)
{
    int64_t v[512];
    while (sl_array_left(r) > 0) {
        const uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)SL_COUNT_OF(v));
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_integers(r, n, v));
        for (uint64_t i = 0; i < n; i++)
            SL_TRY(sl_list_sink_put(list, v[i], sl_array_name(r)));
    }
    return SL_OK;
}

int sl_array_put_list(struct sl_import *im, struct sl_array_reader *r, enum sl_split split,
                      uint64_t n_nodes)
{
    struct sl_list_sink list;
    SL_TRY(sl_list_sink_open(&list, im, split, n_nodes));
    return sl_list_sink_close(&list, put_list(r, &list), split);
}

int sl_array_get_numbers(const struct sl_array_place *place, uint64_t most, int64_t *out,
                         uint64_t *n)
{
    struct sl_array_reader *r = NULL;
    int rc;
    SL_TRY_OUT(sl_array_open(place, &r));
    *n = sl_array_count(r);
    if (sl_array_header(r)->ndim > 1 || *n == 0 || *n > most) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "1 to %" PRIu64 " numbers", most);
        rc = fail_shape(r, wanted);
    } else {
        rc = sl_array_read_integers(r, *n, out);
    }
out:
    sl_array_close(r);
    return rc;
}
