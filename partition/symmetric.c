/*
 * symmetric.c - rows are counted, filled with in- and out-neighbours, and freed of duplicates where
 * they stand.
 *
 * Rows keep the order in which they were filled, so nothing is sorted: a word for each vertex says
 * in which row it was met last.
 */
#include "partition/symmetric.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

struct rows {
    const struct sl_parts_task *task;
    uint64_t *ends;       // (n_nodes + 1) of row v at v + 1: how far it is filled
    uint32_t *neighbours; // (entries)
    uint32_t *met;        // (n_nodes) in which row a vertex was met last, plus one
};

uint64_t sl_symmetric_graph_bytes(const struct sl_dataset *ds)
{
    return 2 * ds->n_edges * sizeof(uint32_t) +
           (ds->n_nodes + 1) * (sizeof(uint64_t) + sizeof(uint32_t));
}

static int fail_memory(const struct sl_dataset *ds)
{
    return sl_fail(SL_ENOMEM, "partition %s: no memory for both directions of %" PRIu64 " edges",
                   ds->path, ds->n_edges);
}

static int fail_range(const struct sl_dataset *ds, uint64_t entries)
{
    return sl_fail(SL_ERANGE,
                   "METIS counts in 32 bits: found %" PRIu64 " vertices and %" PRIu64
                   " entries in both directions, wanted at most %" PRId32 " of each",
                   ds->n_nodes, entries, INT32_MAX);
}

// Leaves at v + 1 where row v begins.
static int count(struct rows *r, uint64_t *entries)
{
    const struct sl_dataset *ds = r->task->ds;
    uint64_t *n = r->ends;
    for (uint64_t list = 0; list < sl_dataset_lists(ds); list++) {
        const uint64_t v = sl_dataset_list_vertex(ds, list);
        for (uint64_t e = ds->indptr[list]; e < ds->indptr[list + 1]; e++) {
            const uint32_t u = sl_dataset_source(ds, e);
            if (u != v) {
                n[v]++;
                n[u]++;
            }
        }
        SL_TRY(sl_parts_tick(r->task->progress, list));
    }
    uint64_t begin = 0, of_row = n[0];
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        const uint64_t next = n[v + 1];
        n[v + 1] = begin;
        begin += of_row;
        of_row = next;
    }
    n[0] = 0;
    *entries = begin;
    return SL_OK;
}

static int fill(struct rows *r)
{
    const struct sl_dataset *ds = r->task->ds;
    for (uint64_t list = 0; list < sl_dataset_lists(ds); list++) {
        const uint64_t v = sl_dataset_list_vertex(ds, list);
        for (uint64_t e = ds->indptr[list]; e < ds->indptr[list + 1]; e++) {
            const uint32_t u = sl_dataset_source(ds, e);
            if (u != v) {
                r->neighbours[r->ends[v + 1]++] = u;
                r->neighbours[r->ends[u + 1]++] = (uint32_t)v;
            }
        }
        SL_TRY(sl_parts_tick(r->task->progress, list));
    }
    return SL_OK;
}

static int drop_duplicates(struct rows *r)
{
    const uint64_t n_nodes = r->task->ds->n_nodes;
    uint64_t to = 0, from = 0;
    for (uint64_t v = 0; v < n_nodes; v++) {
        const uint64_t end = r->ends[v + 1];
        for (; from < end; from++) {
            const uint32_t u = r->neighbours[from];
            if (r->met[u] == (uint32_t)v + 1)
                continue;
            r->met[u] = (uint32_t)v + 1;
            r->neighbours[to++] = u;
        }
        r->ends[v + 1] = to;
        SL_TRY(sl_parts_tick(r->task->progress, v));
    }
    return SL_OK;
}

// What is left takes the memory that it needs, offsets half of theirs.
static void shrink(struct rows *r, struct sl_symmetric_graph *out)
{
    const uint64_t n_nodes = r->task->ds->n_nodes;
    int32_t *offsets = (int32_t *)r->ends;
    out->n_nodes = n_nodes;
    out->n_entries = r->ends[n_nodes];
    for (uint64_t v = 0; v <= n_nodes; v++) {
        uint64_t wide;
        memcpy(&wide, (const char *)r->ends + v * sizeof wide, sizeof wide);
        const int32_t narrow = (int32_t)wide;
        memcpy((char *)r->ends + v * sizeof narrow, &narrow, sizeof narrow);
    }
    void *less = realloc(offsets, (n_nodes + 1) * sizeof *offsets);
    out->offsets = less ? less : offsets;
    less = realloc(r->neighbours, (out->n_entries + 1) * sizeof *r->neighbours);
    out->neighbours = less ? less : (void *)r->neighbours;
    r->ends = NULL;
    r->neighbours = NULL;
}

static int make(struct rows *r, struct sl_symmetric_graph *out)
{
    const struct sl_dataset *ds = r->task->ds;
    uint64_t entries;
    r->ends = calloc(ds->n_nodes + 1, sizeof *r->ends);
    if (!r->ends)
        return fail_memory(ds);
    sl_progress_begin(r->task->progress, "count neighbours", sl_dataset_lists(ds), "lists");
    SL_TRY(count(r, &entries));
    r->neighbours = malloc((entries + 1) * sizeof *r->neighbours);
    r->met = calloc(ds->n_nodes + 1, sizeof *r->met);
    if (!r->neighbours || !r->met)
        return fail_memory(ds);
    sl_progress_begin(r->task->progress, "both directions", sl_dataset_lists(ds), "lists");
    SL_TRY(fill(r));
    sl_progress_begin(r->task->progress, "drop duplicates", ds->n_nodes, "vertices");
    SL_TRY(drop_duplicates(r));
    sl_progress_end(r->task->progress);
    if (r->ends[ds->n_nodes] > INT32_MAX)
        return fail_range(ds, r->ends[ds->n_nodes]);
    shrink(r, out);
    return SL_OK;
}

int sl_symmetric_graph_make(const struct sl_parts_task *t, struct sl_symmetric_graph *out)
{
    struct rows r = {.task = t};
    *out = (struct sl_symmetric_graph){0};
    // Of a graph with more edges than that only duplicates and self-loops could be left out.
    if (t->ds->n_nodes >= INT32_MAX || t->ds->n_edges > INT32_MAX)
        return fail_range(t->ds, t->ds->n_edges);
    const int rc = make(&r, out);
    free(r.ends);
    free(r.neighbours);
    free(r.met);
    return rc;
}

void sl_symmetric_graph_free(struct sl_symmetric_graph *g)
{
    free(g->offsets);
    free(g->neighbours);
    *g = (struct sl_symmetric_graph){0};
}
