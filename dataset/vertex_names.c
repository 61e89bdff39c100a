#include "dataset/vertex_names.h"

#include <string.h>

#include "common/base/error.h"
#include "common/text/units.h"
#include "dataset/line_scan.h"
#include "dataset/name_key.h"

// Names on their way into the files.
struct writing {
    struct sl_vertex_names *v;
    struct sl_import *im;
    struct sl_names_writer names;
    struct sl_npy_writer *ids; // NULL: a name is none
    uint64_t n;
};

static int put_id(struct writing *w, const char *name, size_t n)
{
    char text[32];
    uint64_t id = UINT64_MAX;
    bool fits = false;
    if (!w->ids)
        return SL_OK;
    if (n < sizeof text && sl_name_is_number(name, n)) {
        memcpy(text, name, n);
        text[n] = '\n';
        sl_line_scan_uint(text, &id, &fits);
    }
    if (fits && id <= INT64_MAX)
        return sl_npy_writer_append_id(w->ids, id);
    sl_npy_writer_abort(w->ids);
    w->ids = NULL;
    return SL_OK;
}

static int take_name(void *context, uint64_t number, const char *name, size_t n, bool in_edges)
{
    struct writing *w = context;
    size_t digits = 0;
    while (digits < n && (unsigned char)(name[digits] - '0') <= 9)
        digits++;
    w->v->n_padded += digits == n && n > 1 && name[0] == '0';
    w->v->n_alone += !in_edges;
    w->n = number + 1;
    sl_progress_set(&w->im->making.progress, w->n);
    SL_TRY(put_id(w, name, n));
    return sl_names_writer_put(&w->names, name, n);
}

int sl_vertex_names_finish(struct sl_vertex_names *v, struct sl_import *im, uint64_t *n_nodes)
{
    char path[SL_STAGING_PATH_BYTES];
    const uint64_t later = SL_NPY_ROWS_LATER;
    struct writing w = {.v = v, .im = im};
    sl_progress_begin(&im->making.progress, "names", 0, "names");
    int rc = sl_names_writer_open(&w.names, im->making.st.dir, SL_NAMES_VERTEX);
    if (rc == SL_OK)
        rc = sl_npy_writer_open(sl_staging_file(&im->making.st, "node_id.npy", path), SL_DTYPE_I64,
                                1, &later, &w.ids);
    if (rc == SL_OK)
        rc = sl_numbering_finish(v->numbering, (uint64_t)SL_IMPORT_MAX_ID + 1, take_name, &w);
    if (rc < 0)
        rc = sl_fail_prefix(rc, "import %s", im->source);
    v->ids = w.ids != NULL;
    rc = sl_npy_writer_close(&w.ids, rc);
    rc = sl_names_writer_close(&w.names, rc);
    *n_nodes = w.n;
    return rc == SL_OK ? sl_names_open(im->making.st.dir, SL_NAMES_VERTEX, w.n, &v->names) : rc;
}

static int put_edge(void *context, uint32_t source, uint32_t destination, double weight)
{
    struct sl_import *im = context;
    sl_progress_add(&im->making.progress, 1);
    return sl_edge_sink_put(&im->edge_sink, source, destination, weight);
}

int sl_vertex_names_put_edges(struct sl_vertex_names *v, struct sl_import *im)
{
    sl_progress_begin(&im->making.progress, "numbers", 0, "edges");
    SL_TRY(sl_numbering_edges(v->numbering, put_edge, im));
    sl_numbering_destroy(v->numbering);
    v->numbering = NULL;
    return SL_OK;
}

void sl_vertex_names_summarise(const struct sl_vertex_names *v, struct sl_table *t)
{
    char n[SL_UNITS_BYTES];
    sl_table_row(t,
                 "renumbered|numbers by value, then text by its bytes: the names are in "
                 "vertex_names.npy%s",
                 v->ids ? ", as numbers in node_id.npy" : "");
    if (v->n_padded)
        sl_table_row(t, "zeros in front|%s names of digits begin with 0: 007 is not 7",
                     sl_units_grouped(n, v->n_padded));
    if (v->n_alone)
        sl_table_row(t, "without edges|%s vertices that only --features has",
                     sl_units_grouped(n, v->n_alone));
}

void sl_vertex_names_fini(struct sl_vertex_names *v)
{
    sl_numbering_destroy(v->numbering);
    sl_names_close(&v->names);
    v->numbering = NULL;
}
