#include "dataset/edge_facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"
#include "common/data/scan.h"

enum { ROWS_A_STEP = 4096 };

// The facts of one relation's edges, and where they go.
struct facts {
    struct sl_npy times, feat; // .map is NULL: none
    uint64_t feat_bytes;       // of an edge
    struct sl_npy_writer *to_times, *to_feat;
};

struct pass {
    struct sl_import *im;
    struct sl_npy indptr, indices, weight;      // weight: numbers of edges, by their bits
    struct sl_npy_writer *to_indices, *to_weight; // to_weight: NULL where no relation has weights
    struct edge {
        int64_t time;
        uint32_t place; // in the row
        uint32_t number;
    } * edge; // of a row
    struct facts facts; // of the relation in hand
};

static bool any(const struct sl_import *im)
{
    bool found = false;
    for (uint32_t i = 0; i < im->typed->n_files; i++)
        found |= sl_edge_facts_any(&im->typed->relation[i]);
    return found;
}

int sl_edge_facts_check(const struct sl_import *im)
{
    const struct sl_typed_import *t = im->typed;
    const char *odd = im->add_self_loops      ? "--add-self-loops, whose edges have none"
                      : im->duplicates_given ? "--duplicates, as the first of equal edges is kept"
                                              : NULL;
    for (uint32_t i = 0; i < t->n_files; i++) {
        const struct sl_import_relation *r = &t->relation[i];
        if (!sl_edge_facts_any(r))
            continue;
        if (odd)
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s has times or features of edges, found %s: leave "
                           "it out",
                           im->source, r->name, odd);
        if (r->weighted)
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s has weights beside times or features of edges: "
                           "wanted weights alone, or none: leave one out, or make the weights a "
                           "column of the features",
                           im->source, r->name);
        if (r->times.text || r->feat.text)
            return sl_fail(SL_EINVAL,
                           "import %s: relation %s: found %s, wanted times and features of edges "
                           "as .npy arrays with a row for each edge: numpy.save() makes one",
                           im->source, r->name, r->times.text ? r->times.path : r->feat.path);
    }
    return SL_OK;
}

// ---- files --------------------------------------------------------------------------------------

static int fail_shape(const char *path, const struct sl_npy *npy, const char *wanted, uint64_t n)
{
    char shape[128];
    return sl_fail(SL_EFORMAT, "import %s: is %s %s, wanted %s for each of %" PRIu64 " edges", path,
                   sl_npy_dtype_name(npy->head.dtype),
                   sl_npy_shape_text(&npy->head, shape, sizeof shape), wanted, n);
}

static bool is_whole(enum sl_dtype dtype)
{
    return dtype != SL_DTYPE_F16 && dtype != SL_DTYPE_F32 && dtype != SL_DTYPE_F64;
}

static char *file_of(const struct sl_import *im, const char *what, const struct sl_import_relation *r,
                     char *path)
{
    const struct sl_import_type *type = im->typed->type;
    char name[3 * SL_TYPE_NAME_BYTES + 24];
    snprintf(name, sizeof name, "%s.%s.%s.%s.npy", what, type[r->source].name, r->name,
             type[r->target].name);
    return sl_staging_file(&im->making.st, name, path);
}

// r: the relation that is written; from: whose files these are.
static int open_facts(struct pass *p, const struct sl_import_relation *r,
                      const struct sl_import_relation *from)
{
    struct facts *f = &p->facts;
    char path[SL_STAGING_PATH_BYTES];
    if (from->times.path) {
        SL_TRY(sl_npy_open(from->times.path, &f->times));
        if (!is_whole(f->times.head.dtype) || f->times.head.ndim != 1 ||
            f->times.n_elems != from->n_read)
            return fail_shape(from->times.path, &f->times, "a whole number", from->n_read);
        SL_TRY(sl_npy_writer_open(file_of(p->im, "edge_time", r, path), SL_DTYPE_I64, 1,
                                  &r->n_edges, &f->to_times));
    }
    if (!from->feat.path)
        return SL_OK;
    SL_TRY(sl_npy_open(from->feat.path, &f->feat));
    const struct sl_npy_header *h = &f->feat.head;
    uint64_t shape[SL_NPY_MAX_DIMS];
    if (h->ndim < 1 || h->shape[0] != from->n_read)
        return fail_shape(from->feat.path, &f->feat, "a row", from->n_read);
    memcpy(shape, h->shape, sizeof shape);
    shape[0] = r->n_edges;
    f->feat_bytes = h->shape[0] ? h->data_bytes / h->shape[0] : 0;
    return sl_npy_writer_open(file_of(p->im, "edge_feat", r, path), h->dtype, h->ndim, shape,
                              &f->to_feat);
}

static int close_facts(struct facts *f, int rc)
{
    rc = sl_npy_writer_close(&f->to_times, rc);
    rc = sl_npy_writer_close(&f->to_feat, rc);
    sl_npy_close(&f->times);
    sl_npy_close(&f->feat);
    *f = (struct facts){0};
    return rc;
}

// ---- edges --------------------------------------------------------------------------------------

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
                              : (x->place > y->place) - (x->place < y->place);
}

static int write_edge(struct pass *p, uint64_t first, const struct edge *e)
{
    const struct facts *f = &p->facts;
    const float weight = 1;
    SL_TRY(sl_npy_writer_append_id(
        p->to_indices, sl_scan_load(p->indices.data, p->indices.head.dtype, first + e->place)));
    if (p->to_weight)
        SL_TRY(sl_npy_writer_append(p->to_weight, &weight, sizeof weight));
    if (f->to_times)
        SL_TRY(sl_npy_writer_append(f->to_times, &e->time, sizeof e->time));
    if (!f->to_feat)
        return SL_OK;
    return sl_npy_writer_append(
        f->to_feat, (const char *)f->feat.data + e->number * f->feat_bytes, f->feat_bytes);
}

static int write_row(struct pass *p, uint64_t first, uint64_t n)
{
    const uint32_t *number = (const uint32_t *)p->weight.data + first;
    const struct facts *f = &p->facts;
    for (uint64_t i = 0; i < n; i++)
        p->edge[i] = (struct edge){
            f->to_times ? (int64_t)sl_scan_load(f->times.data, f->times.head.dtype, number[i]) : 0,
            (uint32_t)i, number[i]};
    if (f->to_times)
        qsort(p->edge, n, sizeof *p->edge, by_time);
    for (uint64_t i = 0; i < n; i++)
        SL_TRY(write_edge(p, first, &p->edge[i]));
    return SL_OK;
}

// Edges of a relation without facts, as they are.
static int copy_edges(struct pass *p, uint64_t first, uint64_t n)
{
    const float *weight = (const float *)p->weight.data + first;
    const uint64_t each = sl_dtype_bytes(p->indices.head.dtype);
    SL_TRY(sl_npy_writer_append(p->to_indices, (const char *)p->indices.data + first * each,
                                n * each));
    for (uint64_t i = 0; i < n; i++)
        p->im->csc.has_weights |= weight[i] != 1;
    return p->to_weight ? sl_npy_writer_append(p->to_weight, weight, n * sizeof *weight) : SL_OK;
}

// The relation's rows begin at *row, and at the end the next one's.
static int write_relation(struct pass *p, uint32_t i, uint64_t *row)
{
    const struct sl_typed_import *t = p->im->typed;
    const struct sl_import_relation *r = &t->relation[i],
                                    *from = r->swapped ? &t->relation[r->reverse_of] : r;
    const int64_t *indptr = p->indptr.data;
    const uint64_t end = *row + t->type[r->target].n;
    if (!sl_edge_facts_any(from)) {
        const uint64_t first = (uint64_t)indptr[*row];
        *row = end;
        return copy_edges(p, first, r->n_edges);
    }
    int rc = open_facts(p, r, from);
    for (; *row < end && rc == SL_OK; ++*row) {
        if (*row % ROWS_A_STEP == 0)
            rc = sl_interrupt_check();
        const uint64_t first = (uint64_t)indptr[*row], n = (uint64_t)indptr[*row + 1] - first;
        if (rc == SL_OK)
            rc = write_row(p, first, n);
        sl_progress_add(&p->im->making.progress, n);
    }
    return close_facts(&p->facts, rc);
}

static int write_relations(struct pass *p)
{
    uint64_t row = 0;
    p->im->csc.has_weights = false;
    for (uint32_t i = 0; i < p->im->typed->n_relations; i++)
        SL_TRY(write_relation(p, i, &row));
    return SL_OK;
}

static int open_pass(struct pass *p, bool weighted)
{
    const struct sl_staging *st = &p->im->making.st;
    char path[SL_STAGING_PATH_BYTES];
    p->edge = malloc((p->im->csc.max_degree + 1) * sizeof *p->edge);
    if (!p->edge)
        return sl_fail(SL_ENOMEM, "import: no memory for the %" PRIu64 " edges of a vertex",
                       p->im->csc.max_degree);
    SL_TRY(sl_npy_open(sl_staging_file(st, "indptr.npy", path), &p->indptr));
    SL_TRY(sl_npy_open(sl_staging_file(st, "edge_weight.npy", path), &p->weight));
    const uint64_t *n = &p->weight.n_elems;
    if (weighted)
        SL_TRY(sl_npy_writer_open(path, SL_DTYPE_F32, 1, n, &p->to_weight));
    SL_TRY(sl_npy_open(sl_staging_file(st, "indices.npy", path), &p->indices));
    return sl_npy_writer_open(path, p->indices.head.dtype, 1, n, &p->to_indices);
}

int sl_edge_facts_write(struct sl_import *im)
{
    struct pass p = {.im = im};
    char path[SL_STAGING_PATH_BYTES];
    bool weighted = false;
    if (!any(im))
        return SL_OK;
    for (uint32_t i = 0; i < im->typed->n_files; i++)
        weighted |= im->typed->relation[i].weighted && im->weights;
    int rc = open_pass(&p, weighted);
    if (rc == SL_OK) {
        sl_progress_begin(&im->making.progress, "facts of edges", p.weight.n_elems, "edges");
        rc = write_relations(&p);
    }
    rc = sl_npy_writer_close(&p.to_indices, rc);
    rc = sl_npy_writer_close(&p.to_weight, rc);
    sl_npy_close(&p.indptr);
    sl_npy_close(&p.indices);
    sl_npy_close(&p.weight);
    free(p.edge);
    if (rc == SL_OK && !weighted &&
        unlink(sl_staging_file(&im->making.st, "edge_weight.npy", path)) != 0)
        rc = sl_fail_errno(SL_EIO, errno, "remove %s", path);
    im->edge_sink.weighted = weighted;
    return rc;
}

// ---- seeds --------------------------------------------------------------------------------------

static int put_times(const struct sl_import *im, const char *from, const struct sl_npy *times)
{
    const uint64_t n = im->typed->type[0].n;
    char path[SL_STAGING_PATH_BYTES], shape[128];
    struct sl_npy_writer *to;
    if (!is_whole(times->head.dtype) || times->head.ndim != 1 || times->n_elems != n)
        return sl_fail(SL_EFORMAT,
                       "import %s: is %s %s, wanted a whole number for each of %" PRIu64
                       " vertices of type %s",
                       from, sl_npy_dtype_name(times->head.dtype),
                       sl_npy_shape_text(&times->head, shape, sizeof shape), n,
                       im->typed->type[0].name);
    SL_TRY(sl_npy_writer_open(sl_staging_file(&im->making.st, "node_time.npy", path), SL_DTYPE_I64,
                              1, &n, &to));
    int rc = SL_OK;
    for (uint64_t i = 0; i < n && rc == SL_OK; i++)
        rc = sl_npy_writer_append_id(to, sl_scan_load(times->data, times->head.dtype, i));
    return sl_npy_writer_close(&to, rc);
}

int sl_edge_facts_put_seeds(const struct sl_import *im, const char *path)
{
    struct sl_npy times;
    SL_TRY(sl_npy_open(path, &times));
    int rc = put_times(im, path, &times);
    sl_npy_close(&times);
    return rc;
}
