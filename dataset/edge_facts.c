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
    bool of_sources;           // times are those of vertices, by their id less first_source
    uint64_t first_source;
    bool numbered;
    uint64_t feat_bytes; // of an edge
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

static int fail_shape(const char *path, const struct sl_npy *npy, const char *wanted, uint64_t n,
                      const char *what)
{
    char shape[128];
    return sl_fail(SL_EFORMAT, "import %s: is %s %s, wanted %s for each of %" PRIu64 " %s", path,
                   sl_npy_dtype_name(npy->head.dtype),
                   sl_npy_shape_text(&npy->head, shape, sizeof shape), wanted, n, what);
}

static bool is_whole(enum sl_dtype dtype)
{
    return dtype != SL_DTYPE_F16 && dtype != SL_DTYPE_F32 && dtype != SL_DTYPE_F64;
}

static char *file_of(const struct pass *p, const char *what, const struct sl_edge_facts *r,
                     char *path)
{
    char name[sizeof r->key + 32];
    snprintf(name, sizeof name, "%s%s%s.npy", what, r->key[0] ? "." : "", r->key);
    return sl_staging_file(p->st, name, path);
}

static int open_times(const char *path, uint64_t n, const char *what, struct sl_npy *out)
{
    SL_TRY(sl_npy_open(path, out));
    if (is_whole(out->head.dtype) && out->head.ndim == 1 && out->n_elems == n)
        return SL_OK;
    return fail_shape(path, out, "a whole number", n, what);
}

static int open_facts(struct pass *p, const struct sl_edge_facts *r)
{
    struct facts *f = &p->facts;
    char path[SL_STAGING_PATH_BYTES];
    f->numbered = sl_edge_facts_numbered(r);
    f->of_sources = !r->times && r->source_times;
    f->first_source = r->first_source;
    if (r->times || r->source_times) {
        SL_TRY(open_times(f->of_sources ? r->source_times : r->times,
                          f->of_sources ? r->n_sources : r->n_read,
                          f->of_sources ? "vertices" : "edges", &f->times));
        SL_TRY(sl_npy_writer_open(file_of(p, "edge_time", r, path), SL_DTYPE_I64, 1, &r->n_edges,
                                  &f->to_times));
    }
    if (!r->feat)
        return SL_OK;
    SL_TRY(sl_npy_open(r->feat, &f->feat));
    const struct sl_npy_header *h = &f->feat.head;
    uint64_t shape[SL_NPY_MAX_DIMS];
    if (h->ndim < 1 || h->shape[0] != r->n_read)
        return fail_shape(r->feat, &f->feat, "a row", r->n_read, "edges");
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

static uint64_t source_at(const struct pass *p, uint64_t edge)
{
    return sl_scan_load(p->indices.data, p->indices.head.dtype, edge);
}

static int write_edge(struct pass *p, uint64_t first, const struct edge *e)
{
    const struct facts *f = &p->facts;
    float weight = 1;
    if (p->weight.map && !f->numbered)
        weight = ((const float *)p->weight.data)[first + e->place];
    p->has_weights |= weight != 1;
    SL_TRY(sl_npy_writer_append_id(p->to_indices, source_at(p, first + e->place)));
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
    const struct facts *f = &p->facts;
    const uint32_t *number = f->numbered ? (const uint32_t *)p->weight.data + first : NULL;
    for (uint64_t i = 0; i < n; i++) {
        struct edge *e = &p->edge[i];
        *e = (struct edge){.place = (uint32_t)i, .number = number ? number[i] : 0};
        if (f->to_times)
            e->time = (int64_t)sl_scan_load(
                f->times.data, f->times.head.dtype,
                f->of_sources ? source_at(p, first + i) - f->first_source : e->number);
    }
    if (f->to_times)
        qsort(p->edge, n, sizeof *p->edge, by_time);
    for (uint64_t i = 0; i < n; i++)
        SL_TRY(write_edge(p, first, &p->edge[i]));
    return SL_OK;
}

// Edges of a relation without facts, as they are.
static int copy_edges(struct pass *p, uint64_t first, uint64_t n)
{
    const float *weight = p->weight.map ? (const float *)p->weight.data + first : NULL;
    const uint64_t each = sl_dtype_bytes(p->indices.head.dtype);
    SL_TRY(sl_npy_writer_append(p->to_indices, (const char *)p->indices.data + first * each,
                                n * each));
    for (uint64_t i = 0; weight && i < n; i++)
        p->has_weights |= weight[i] != 1;
    return p->to_weight ? sl_npy_writer_append(p->to_weight, weight, n * sizeof *weight) : SL_OK;
}

// The relation's rows begin at *row, and at the end the next one's.
static int write_relation(struct pass *p, const struct sl_edge_facts *r, uint64_t *row)
{
    const int64_t *indptr = p->indptr.data;
    const uint64_t end = *row + r->n_rows;
    if (!sl_edge_facts_numbered(r) && !r->source_times) {
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

static int open_pass(struct pass *p, const struct sl_edge_facts_spec *spec)
{
    char path[SL_STAGING_PATH_BYTES];
    p->edge = malloc((spec->max_degree + 1) * sizeof *p->edge);
    if (!p->edge)
        return sl_fail(SL_ENOMEM, "import: no memory for the %" PRIu64 " edges of a vertex",
                       spec->max_degree);
    SL_TRY(sl_npy_open(sl_staging_file(p->st, "indptr.npy", path), &p->indptr));
    sl_staging_file(p->st, "edge_weight.npy", path);
    if (spec->numbered || spec->weighted)
        SL_TRY(sl_npy_open(path, &p->weight));
    if (spec->weighted)
        SL_TRY(sl_npy_writer_open(path, SL_DTYPE_F32, 1, &p->weight.n_elems, &p->to_weight));
    SL_TRY(sl_npy_open(sl_staging_file(p->st, "indices.npy", path), &p->indices));
    return sl_npy_writer_open(path, p->indices.head.dtype, 1, &p->indices.n_elems, &p->to_indices);
}

int sl_edge_facts_write(const struct sl_staging *st, const struct sl_edge_facts_spec *spec,
                        bool *has_weights, struct sl_progress *progress)
{
    struct pass p = {.st = st, .progress = progress};
    char path[SL_STAGING_PATH_BYTES];
    uint64_t row = 0;
    int rc = open_pass(&p, spec);
    if (rc == SL_OK)
        sl_progress_begin(progress, "facts of edges", p.indices.n_elems, "edges");
    for (uint32_t i = 0; i < spec->n && rc == SL_OK; i++)
        rc = write_relation(&p, &spec->relations[i], &row);
    rc = sl_npy_writer_close(&p.to_indices, rc);
    rc = sl_npy_writer_close(&p.to_weight, rc);
    sl_npy_close(&p.indptr);
    sl_npy_close(&p.indices);
    sl_npy_close(&p.weight);
    free(p.edge);
    *has_weights = p.has_weights;
    if (rc == SL_OK && spec->numbered && !spec->weighted &&
        unlink(sl_staging_file(st, "edge_weight.npy", path)) != 0)
        rc = sl_fail_errno(SL_EIO, errno, "remove %s", path);
    return rc;
}

// ---- seeds --------------------------------------------------------------------------------------

int sl_edge_facts_put_seeds(const struct sl_staging *st, const char *from, uint64_t n)
{
    char path[SL_STAGING_PATH_BYTES];
    struct sl_npy times = {0};
    struct sl_npy_writer *to = NULL;
    int rc = open_times(from, n, "vertices of the type with labels", &times);
    if (rc == SL_OK)
        rc = sl_npy_writer_open(sl_staging_file(st, "node_time.npy", path), SL_DTYPE_I64, 1, &n,
                                &to);
    for (uint64_t i = 0; i < n && rc == SL_OK; i++)
        rc = sl_npy_writer_append_id(to, sl_scan_load(times.data, times.head.dtype, i));
    rc = sl_npy_writer_close(&to, rc);
    sl_npy_close(&times);
    return rc;
}
