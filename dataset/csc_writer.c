#include "dataset/csc_writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"

enum { CHUNK = 16384 };

// Elements on their way into the files, a chunk at a time.
struct csc {
    struct sl_npy_writer *indptr, *indices, *weight;
    bool wide; // indices are int64
    const struct sl_csc_plan *plan;
    uint64_t next_row; // rows below it have their start in indptr
    uint64_t row_begin;
    bool has_loop; // that row, so far
    struct sl_csc_summary *summary;
    union {
        int32_t narrow[CHUNK];
        int64_t wide[CHUNK];
    } ids;
    float weights[CHUNK];
    size_t n;
    int64_t starts[CHUNK];
    size_t n_starts;
};

static int flush_edges(struct csc *c)
{
    size_t bytes = c->wide ? sizeof(int64_t) : sizeof(int32_t);
    SL_TRY(sl_npy_writer_append(c->indices, &c->ids, c->n * bytes));
    if (c->weight)
        SL_TRY(sl_npy_writer_append(c->weight, c->weights, c->n * sizeof(float)));
    c->n = 0;
    return SL_OK;
}

static int flush_starts(struct csc *c)
{
    SL_TRY(sl_npy_writer_append(c->indptr, c->starts, c->n_starts * sizeof(int64_t)));
    c->n_starts = 0;
    return SL_OK;
}

static int put_edge(struct csc *c, uint32_t source, float weight)
{
    if (c->wide)
        c->ids.wide[c->n] = source;
    else
        c->ids.narrow[c->n] = (int32_t)source;
    c->weights[c->n] = weight;
    c->n++;
    c->summary->n_edges++;
    return c->n == CHUNK ? flush_edges(c) : SL_OK;
}

static int put_loop(struct csc *c)
{
    c->has_loop = true;
    c->summary->n_loops_added++;
    return put_edge(c, (uint32_t)(c->next_row - 1), 1);
}

// No more edges of the row that was opened last.
static int close_row(struct csc *c)
{
    struct sl_csc_summary *s = c->summary;
    if (c->plan->add_self_loops && !c->has_loop)
        SL_TRY(put_loop(c));
    uint64_t degree = s->n_edges - c->row_begin;
    s->max_degree = SL_MAX(s->max_degree, degree);
    s->n_isolated += degree == 0;
    return SL_OK;
}

// Every row up to and including `row` begins at the present edge (or is empty before it).
static int open_rows(struct csc *c, uint64_t row)
{
    while (c->next_row <= row) {
        if (c->next_row > 0)
            SL_TRY(close_row(c));
        c->row_begin = c->summary->n_edges;
        c->has_loop = false;
        c->next_row++;
        c->starts[c->n_starts++] = (int64_t)c->row_begin;
        if (c->n_starts == CHUNK)
            SL_TRY(flush_starts(c));
    }
    return SL_OK;
}

// The place of the row's self-loop among its sources, which rise, is not passed without one.
static int pass_loop(struct csc *c, uint32_t source)
{
    uint64_t row = c->next_row - 1;
    if (c->has_loop || source < row)
        return SL_OK;
    if (source > row)
        SL_TRY(put_loop(c));
    c->has_loop = true;
    return SL_OK;
}

static int open_files(struct csc *c, const struct sl_staging *st)
{
    char path[SL_STAGING_PATH_BYTES];
    uint64_t n_starts = c->plan->n_nodes + 1, later = SL_NPY_ROWS_LATER;
    SL_TRY(sl_npy_writer_open(sl_staging_file(st, "indptr.npy", path), SL_DTYPE_I64, 1, &n_starts,
                              &c->indptr));
    SL_TRY(sl_npy_writer_open(sl_staging_file(st, "indices.npy", path),
                              c->wide ? SL_DTYPE_I64 : SL_DTYPE_I32, 1, &later, &c->indices));
    if (c->plan->weighted)
        SL_TRY(sl_npy_writer_open(sl_staging_file(st, "edge_weight.npy", path), SL_DTYPE_F32, 1,
                                  &later, &c->weight));
    return SL_OK;
}

static int commit(struct sl_npy_writer **w)
{
    struct sl_npy_writer *writer = *w;
    *w = NULL;
    return writer ? sl_npy_writer_commit(writer) : SL_OK;
}

static int write_all(struct csc *c, struct sl_edge_sort *edges, struct sl_progress *progress)
{
    const struct sl_csc_plan *plan = c->plan;
    uint64_t last = UINT64_MAX;
    const uint64_t *keys;
    const float *weights;
    size_t n;
    for (;;) {
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_edge_sort_next(edges, &keys, &weights, &n));
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++) {
            uint64_t key = keys[i];
            if (plan->dedup && key == last) {
                c->summary->n_duplicates++;
                continue;
            }
            uint32_t row = (uint32_t)(key >> 32), source = (uint32_t)key;
            if (plan->map) {
                row = sl_id_map_rank(plan->map, row);
                source = sl_id_map_rank(plan->map, source);
            }
            // The first edge of a row opens it; last == UINT64_MAX has no row of its own.
            if (row >= c->next_row)
                SL_TRY(open_rows(c, row));
            if (plan->add_self_loops)
                SL_TRY(pass_loop(c, source));
            last = key;
            float weight = weights ? weights[i] : 0;
            if (plan->weight)
                weight = plan->weight(plan->context, source, row);
            SL_TRY(put_edge(c, source, weight));
        }
        sl_progress_add(progress, n);
    }
    SL_TRY(open_rows(c, plan->n_nodes)); // closes the last row; its start is the end of all
    SL_TRY(flush_edges(c));
    SL_TRY(flush_starts(c));
    SL_TRY(commit(&c->indices));
    SL_TRY(commit(&c->weight));
    return commit(&c->indptr);
}

int sl_csc_write(const struct sl_staging *st, struct sl_edge_sort *edges,
                 const struct sl_csc_plan *plan, struct sl_progress *progress,
                 struct sl_csc_summary *out)
{
    memset(out, 0, sizeof *out);
    out->n_nodes = plan->n_nodes;
    struct csc *c = calloc(1, sizeof *c);
    if (!c)
        return sl_fail(SL_ENOMEM, "write %s: no memory", st->final);
    c->plan = plan;
    c->wide = plan->n_nodes > INT32_MAX;
    c->summary = out;
    int rc = open_files(c, st);
    if (rc == SL_OK)
        rc = write_all(c, edges, progress);
    sl_npy_writer_abort(c->indptr);
    sl_npy_writer_abort(c->indices);
    sl_npy_writer_abort(c->weight);
    free(c);
    return rc;
}
