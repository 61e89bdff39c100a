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
    const struct sl_staging *st;
    struct sl_progress *progress;
    bool has_weights;
    struct sl_npy indptr, indices, weight;        // weight: numbers of edges, by their bits
    struct sl_npy_writer *to_indices, *to_weight; // to_weight: NULL where no relation has weights
    struct edge {
        int64_t time;
        uint32_t place; // in the row
        uint32_t number;
    } * edge;           // of a row
    struct facts facts; // of the relation in hand
};

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

static char *file_of(const struct pass *p, const char *what, const struct sl_edge_facts *r,
                     char *path)
{
    char name[sizeof r->key + 32];
    snprintf(name, sizeof name, "%s.%s.npy", what, r->key);
    return sl_staging_file(p->st, name, path);
}

static int open_facts(struct pass *p, const struct sl_edge_facts *r)
{
    struct facts *f = &p->facts;
    char path[SL_STAGING_PATH_BYTES];
    if (r->times) {
        SL_TRY(sl_npy_open(r->times, &f->times));
        if (!is_whole(f->times.head.dtype) || f->times.head.ndim != 1 ||
            f->times.n_elems != r->n_read)
            return fail_shape(r->times, &f->times, "a whole number", r->n_read);
        SL_TRY(sl_npy_writer_open(file_of(p, "edge_time", r, path), SL_DTYPE_I64, 1, &r->n_edges,
                                  &f->to_times));
    }
    if (!r->feat)
        return SL_OK;
    SL_TRY(sl_npy_open(r->feat, &f->feat));
    const struct sl_npy_header *h = &f->feat.head;
    uint64_t shape[SL_NPY_MAX_DIMS];
    if (h->ndim < 1 || h->shape[0] != r->n_read)
        return fail_shape(r->feat, &f->feat, "a row", r->n_read);
    memcpy(shape, h->shape, sizeof shape);
    shape[0] = r->n_edges;
    f->feat_bytes = h->shape[0] ? h->data_bytes / h->shape[0] : 0;
    return sl_npy_writer_open(file_of(p, "edge_feat", r, path), h->dtype, h->ndim, shape,
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
    return sl_npy_writer_append(f->to_feat, (const char *)f->feat.data + e->number * f->feat_bytes,
                                f->feat_bytes);
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
        p->has_weights |= weight[i] != 1;
    return p->to_weight ? sl_npy_writer_append(p->to_weight, weight, n * sizeof *weight) : SL_OK;
}

// The relation's rows begin at *row, and at the end the next one's.
static int write_relation(struct pass *p, const struct sl_edge_facts *r, uint64_t *row)
{
    const int64_t *indptr = p->indptr.data;
    const uint64_t end = *row + r->n_rows;
    if (!r->times && !r->feat) {
        const uint64_t first = (uint64_t)indptr[*row];
        *row = end;
        return copy_edges(p, first, r->n_edges);
    }
    int rc = open_facts(p, r);
    for (; *row < end && rc == SL_OK; ++*row) {
        if (*row % ROWS_A_STEP == 0)
            rc = sl_interrupt_check();
        const uint64_t first = (uint64_t)indptr[*row], n = (uint64_t)indptr[*row + 1] - first;
        if (rc == SL_OK)
            rc = write_row(p, first, n);
        sl_progress_add(p->progress, n);
    }
    return close_facts(&p->facts, rc);
}

static int open_pass(struct pass *p, uint64_t max_degree, bool weighted)
{
    char path[SL_STAGING_PATH_BYTES];
    p->edge = malloc((max_degree + 1) * sizeof *p->edge);
    if (!p->edge)
        return sl_fail(SL_ENOMEM, "import: no memory for the %" PRIu64 " edges of a vertex",
                       max_degree);
    SL_TRY(sl_npy_open(sl_staging_file(p->st, "indptr.npy", path), &p->indptr));
    SL_TRY(sl_npy_open(sl_staging_file(p->st, "edge_weight.npy", path), &p->weight));
    const uint64_t *n = &p->weight.n_elems;
    if (weighted)
        SL_TRY(sl_npy_writer_open(path, SL_DTYPE_F32, 1, n, &p->to_weight));
    SL_TRY(sl_npy_open(sl_staging_file(p->st, "indices.npy", path), &p->indices));
    return sl_npy_writer_open(path, p->indices.head.dtype, 1, n, &p->to_indices);
}

int sl_edge_facts_write(const struct sl_staging *st, const struct sl_edge_facts *relations,
                        uint32_t n, uint64_t max_degree, bool weighted, bool *has_weights,
                        struct sl_progress *progress)
{
    struct pass p = {.st = st, .progress = progress};
    char path[SL_STAGING_PATH_BYTES];
    uint64_t row = 0;
    int rc = open_pass(&p, max_degree, weighted);
    if (rc == SL_OK)
        sl_progress_begin(progress, "facts of edges", p.weight.n_elems, "edges");
    for (uint32_t i = 0; i < n && rc == SL_OK; i++)
        rc = write_relation(&p, &relations[i], &row);
    rc = sl_npy_writer_close(&p.to_indices, rc);
    rc = sl_npy_writer_close(&p.to_weight, rc);
    sl_npy_close(&p.indptr);
    sl_npy_close(&p.indices);
    sl_npy_close(&p.weight);
    free(p.edge);
    *has_weights = p.has_weights;
    if (rc == SL_OK && !weighted && unlink(sl_staging_file(st, "edge_weight.npy", path)) != 0)
        rc = sl_fail_errno(SL_EIO, errno, "remove %s", path);
    return rc;
}

// ---- seeds --------------------------------------------------------------------------------------

static int put_times(const struct sl_staging *st, const char *from, const struct sl_npy *times,
                     uint64_t n)
{
    char path[SL_STAGING_PATH_BYTES], shape[128];
    struct sl_npy_writer *to;
    if (!is_whole(times->head.dtype) || times->head.ndim != 1 || times->n_elems != n)
        return sl_fail(SL_EFORMAT,
                       "import %s: is %s %s, wanted a whole number for each of %" PRIu64
                       " vertices of the type with labels",
                       from, sl_npy_dtype_name(times->head.dtype),
                       sl_npy_shape_text(&times->head, shape, sizeof shape), n);
    SL_TRY(
        sl_npy_writer_open(sl_staging_file(st, "node_time.npy", path), SL_DTYPE_I64, 1, &n, &to));
    int rc = SL_OK;
    for (uint64_t i = 0; i < n && rc == SL_OK; i++)
        rc = sl_npy_writer_append_id(to, sl_scan_load(times->data, times->head.dtype, i));
    return sl_npy_writer_close(&to, rc);
}

int sl_edge_facts_put_seeds(const struct sl_staging *st, const char *path, uint64_t n)
{
    struct sl_npy times;
    SL_TRY(sl_npy_open(path, &times));
    int rc = put_times(st, path, &times, n);
    sl_npy_close(&times);
    return rc;
}
