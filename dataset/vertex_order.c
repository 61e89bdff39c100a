#include "dataset/vertex_order.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/expected_visits.h"
#include "common/data/hotness.h"

enum { VERTICES_PER_TICK = 65536 };

static int fail_memory(const struct sl_dataset *ds)
{
    return sl_fail(SL_ENOMEM, "reorder %s: no memory for a few words a vertex", ds->path);
}

int sl_vertex_order_degree(const struct sl_dataset *ds, uint32_t *order)
{
    uint32_t *degree = calloc(ds->n_nodes + 1, sizeof *degree);
    if (!degree)
        return fail_memory(ds);
    int rc =
        sl_hotness_degree(ds->indices, ds->indices_dtype, ds->n_edges, ds->n_nodes, NULL, degree);
    if (rc == SL_OK)
        rc = sl_hotness_order(degree, ds->n_nodes, NULL, order, NULL);
    free(degree);
    return rc;
}

// ---- hotness ------------------------------------------------------------------------------------

static int on_vertices(void *progress, uint64_t n)
{
    SL_TRY(sl_interrupt_check());
    sl_progress_add(progress, n);
    return SL_OK;
}

// hotness[v] *= the share of its list that a hop reads.
static void by_entry(const struct sl_dataset *ds, int64_t fanout, uint32_t *hotness)
{
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        const uint64_t degree = sl_dataset_degree(ds, v);
        float visits;
        memcpy(&visits, &hotness[v], sizeof visits);
        if (fanout >= 0 && degree > (uint64_t)fanout)
            visits *= (float)fanout / (float)degree;
        memcpy(&hotness[v], &visits, sizeof visits);
    }
}

// By visits after n_hops hops; `last` is the fanout of one more, whose reads count, or NULL.
static int by_visits(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                     const int64_t *last, struct sl_progress *progress, uint32_t *order)
{
    if (ds->split[SL_SPLIT_TRAIN].n == 0)
        return sl_fail(SL_EINVAL,
                       "reorder %s: --by %s starts from the training vertices, and the data set "
                       "has none: add train_idx.npy, or take --by degree or bfs",
                       ds->path, last ? "reads" : "hotness");
    uint32_t *hotness = malloc((ds->n_nodes + 1) * sizeof *hotness);
    if (!hotness)
        return fail_memory(ds);
    const struct sl_visits_watch watch = {.on_vertices = on_vertices, .ctx = progress};
    sl_progress_begin(progress, "hotness", ds->n_nodes * n_hops, "vertices");
    const struct sl_visits_sampling sampling = {.fanout = fanout, .n_hops = n_hops};
    int rc = sl_visits_expect(ds, &sampling, &watch, hotness);
    if (rc == SL_OK && last)
        by_entry(ds, *last, hotness);
    if (rc == SL_OK)
        rc = sl_hotness_order(hotness, ds->n_nodes, NULL, order, NULL);
    free(hotness);
    return rc;
}

int sl_vertex_order_hotness(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                            struct sl_progress *progress, uint32_t *order)
{
    return by_visits(ds, fanout, n_hops, NULL, progress, order);
}

int sl_vertex_order_reads(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                          struct sl_progress *progress, uint32_t *order)
{
    return by_visits(ds, fanout, n_hops - 1, &fanout[n_hops - 1], progress, order);
}

// ---- breadth first ------------------------------------------------------------------------------

// In-degrees are below 2^32 (validation).
static int by_in_degree(const struct sl_dataset *ds, uint32_t *degree, uint32_t *starts)
{
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        degree[v] = (uint32_t)sl_dataset_degree(ds, v);
    return sl_hotness_order(degree, ds->n_nodes, NULL, starts, NULL);
}

static int search(const struct sl_dataset *ds, const uint32_t *starts, uint8_t *seen,
                  struct sl_progress *progress, uint32_t *order)
{
    // The order is its own queue: vertices from `head` on are to be expanded.
    uint64_t n = 0, head = 0, next_start = 0;
    while (head < ds->n_nodes) {
        if (head == n) {
            while (seen[starts[next_start]])
                next_start++;
            seen[starts[next_start]] = 1;
            order[n++] = starts[next_start];
        }
        uint32_t v = order[head++];
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++) {
            uint32_t u = sl_dataset_source(ds, e);
            if (!seen[u]) {
                seen[u] = 1;
                order[n++] = u;
            }
        }
        if (head % VERTICES_PER_TICK == 0) {
            SL_TRY(sl_interrupt_check());
            sl_progress_set(progress, head);
        }
    }
    return SL_OK;
}

int sl_vertex_order_bfs(const struct sl_dataset *ds, struct sl_progress *progress, uint32_t *order)
{
    uint32_t *starts = calloc(ds->n_nodes + 1, sizeof *starts);
    uint32_t *degree = calloc(ds->n_nodes + 1, sizeof *degree);
    uint8_t *seen = NULL;
    int rc = starts && degree ? by_in_degree(ds, degree, starts) : fail_memory(ds);
    free(degree);
    if (rc == SL_OK && !(seen = calloc(ds->n_nodes + 1, 1)))
        rc = fail_memory(ds);
    sl_progress_begin(progress, "search", ds->n_nodes, "vertices");
    if (rc == SL_OK)
        rc = search(ds, starts, seen, progress, order);
    free(starts);
    free(seen);
    return rc;
}
