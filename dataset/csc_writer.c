#include "dataset/csc_writer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"

// An edge, and what others of the same ends have made of its weight.
struct edge {
    uint64_t key;
    double weight;
    uint64_t n;   // edges in it; 0 = there is none
    bool reverse; // all of them were made as the reverse of others
};

// Elements on their way into the files.
struct sl_csc_files {
    struct sl_npy_writer *indptr, *indices, *weight;
    const struct sl_csc_plan *plan; // of what is being written
    uint64_t next_row;              // its rows below it have their start in indptr
    uint64_t row_begin;
    bool has_loop; // that row, so far
    struct edge edge;
    struct sl_csc_summary *summary;
};

static int put_edge(struct sl_csc_files *c, uint32_t source, float weight)
{
    c->summary->n_edges++;
    c->summary->has_weights |= c->weight && weight != 1;
    SL_TRY(sl_npy_writer_append_id(c->indices, c->plan->first_source + source));
    return c->weight ? sl_npy_writer_append(c->weight, &weight, sizeof weight) : SL_OK;
}

static int put_loop(struct sl_csc_files *c)
{
    c->has_loop = true;
    c->summary->n_loops_added++;
    return put_edge(c, (uint32_t)(c->next_row - 1), 1);
}

// No more edges of the row that was opened last.
static int close_row(struct sl_csc_files *c)
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
static int open_rows(struct sl_csc_files *c, uint64_t row)
{
    while (c->next_row <= row) {
        if (c->next_row > 0)
            SL_TRY(close_row(c));
        c->row_begin = c->summary->n_edges;
        c->has_loop = false;
        c->next_row++;
        SL_TRY(sl_npy_writer_append_id(c->indptr, c->row_begin));
    }
    return SL_OK;
}

// The place of the row's self-loop among its sources, which rise, is not passed without one.
static int pass_loop(struct sl_csc_files *c, uint32_t source)
{
    uint64_t row = c->next_row - 1;
    if (c->has_loop || source < row)
        return SL_OK;
    if (source > row)
        SL_TRY(put_loop(c));
    c->has_loop = true;
    return SL_OK;
}

static int open_files(struct sl_csc_files *c, const struct sl_staging *st, uint64_t n_rows,
                      uint64_t n_ids, bool weighted)
{
    char path[SL_STAGING_PATH_BYTES];
    uint64_t n_starts = n_rows + 1, later = SL_NPY_ROWS_LATER;
    SL_TRY(sl_npy_writer_open(sl_staging_file(st, "indptr.npy", path), SL_DTYPE_I64, 1, &n_starts,
                              &c->indptr));
    SL_TRY(sl_npy_writer_open_ids(sl_staging_file(st, "indices.npy", path), n_ids, &c->indices));
    if (weighted)
        SL_TRY(sl_npy_writer_open(sl_staging_file(st, "edge_weight.npy", path), SL_DTYPE_F32, 1,
                                  &later, &c->weight));
    return SL_OK;
}

// ---- equal edges --------------------------------------------------------------------------------

static void begin_edge(struct edge *e, uint64_t key, float weight)
{
    *e = (struct edge){key, fabsf(weight), 1, signbit(weight)};
}

// One more edge of the same ends.
static void join(struct edge *e, float weight, enum sl_duplicates rule)
{
    bool reverse = signbit(weight);
    if (reverse && !e->reverse)
        return;
    if (!reverse && e->reverse) {
        begin_edge(e, e->key, weight);
        return;
    }
    e->n++;
    if (rule == SL_DUPLICATES_MAX)
        e->weight = SL_MAX(e->weight, fabsf(weight));
    else if (rule != SL_DUPLICATES_FIRST)
        e->weight += fabsf(weight);
}

// The edge is complete: no other one has its ends.
static int end_edge(struct sl_csc_files *c)
{
    const struct sl_csc_plan *plan = c->plan;
    const struct edge *e = &c->edge;
    if (e->n == 0)
        return SL_OK;
    uint32_t row = (uint32_t)(e->key >> 32), source = (uint32_t)e->key;
    double weight = e->weight / (plan->duplicates == SL_DUPLICATES_MEAN ? (double)e->n : 1);
    if (!isfinite((float)weight))
        return sl_fail(SL_EFORMAT,
                       "edge %" PRIu32 " -> %" PRIu32 ": its weights are %g together: wanted at "
                       "most float32's %g",
                       source, row, weight, (double)FLT_MAX);
    if (row >= c->next_row)
        SL_TRY(open_rows(c, row));
    if (plan->add_self_loops)
        SL_TRY(pass_loop(c, source));
    return put_edge(c, source,
                    plan->weight ? plan->weight(plan->context, source, row) : (float)weight);
}

static int write_all(struct sl_csc_files *c, struct sl_edge_sort *edges,
                     struct sl_progress *progress)
{
    const struct sl_csc_plan *plan = c->plan;
    const uint64_t *keys;
    const float *weights;
    size_t n;
    for (;;) {
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_edge_sort_next(edges, &keys, &weights, &n));
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++) {
            float weight = weights ? weights[i] : 1;
            if (plan->duplicates && c->edge.n && keys[i] == c->edge.key) {
                c->summary->n_duplicates++;
                join(&c->edge, weight, plan->duplicates);
                continue;
            }
            SL_TRY(end_edge(c));
            begin_edge(&c->edge, keys[i], weight);
        }
        sl_progress_add(progress, n);
    }
    SL_TRY(end_edge(c));
    SL_TRY(plan->n_nodes ? open_rows(c, plan->n_nodes - 1) : SL_OK);
    return plan->n_nodes ? close_row(c) : SL_OK;
}

int sl_csc_open(const struct sl_staging *st, uint64_t n_rows, uint64_t n_ids, bool weighted,
                struct sl_csc_summary *out, struct sl_csc_files **files)
{
    *out = (struct sl_csc_summary){.n_nodes = n_ids};
    struct sl_csc_files *c = *files = calloc(1, sizeof *c);
    if (!c)
        return sl_fail(SL_ENOMEM, "writing the topology: no memory");
    c->summary = out;
    return open_files(c, st, n_rows, n_ids, weighted);
}

int sl_csc_put(struct sl_csc_files *c, struct sl_edge_sort *edges, const struct sl_csc_plan *plan,
               struct sl_progress *progress)
{
    c->plan = plan;
    c->next_row = 0;
    c->edge = (struct edge){0};
    return write_all(c, edges, progress);
}

int sl_csc_close(struct sl_csc_files *c, int rc)
{
    if (!c)
        return rc;
    if (rc == SL_OK)
        rc = sl_npy_writer_append_id(c->indptr, c->summary->n_edges);
    rc = sl_npy_writer_close(&c->indices, rc);
    rc = sl_npy_writer_close(&c->weight, rc);
    rc = sl_npy_writer_close(&c->indptr, rc);
    free(c);
    return rc;
}

int sl_csc_write(const struct sl_staging *st, struct sl_edge_sort *edges,
                 const struct sl_csc_plan *plan, struct sl_progress *progress,
                 struct sl_csc_summary *out)
{
    struct sl_csc_files *files;
    int rc = sl_csc_open(st, plan->n_nodes, plan->n_nodes, plan->weighted, out, &files);
    if (rc == SL_OK)
        rc = sl_csc_put(files, edges, plan, progress);
    return sl_csc_close(files, rc);
}
