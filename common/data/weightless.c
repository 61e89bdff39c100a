/*
 * Threads take blocks of vertices, so no two write the same degree. Sums are added to shared
 * counters with relaxed atomics: only they matter, and the end of the pass orders them before the
 * reads.
 */
#include "common/data/weightless.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "common/data/dataset_files.h"
#include "common/base/threads.h"

enum { BLOCK_VERTICES = 4096 };

struct pass {
    const struct sl_dataset *ds;
    uint32_t *degree; // (lists) or NULL
    _Atomic uint64_t edges, vertices;
};

SL_SIMD(uint64_t, positive, (const float *weight, uint64_t n), (weight, n))
{
    uint64_t hits = 0;
    for (uint64_t e = 0; e < n; e++)
        hits += weight[e] > 0.0f;
    return hits;
}

static bool visit(void *ctx, uint64_t block)
{
    struct pass *p = ctx;
    const struct sl_dataset *ds = p->ds;
    const uint64_t end = SL_MIN((block + 1) * BLOCK_VERTICES, sl_dataset_lists(ds));
    uint64_t edges = 0, vertices = 0;
    for (uint64_t v = block * BLOCK_VERTICES; v < end; v++) {
        const uint64_t n = sl_dataset_degree(ds, v);
        const uint64_t there = positive(ds->edge_weight + ds->indptr[v], n);
        edges += n - there;
        vertices += there == 0 && n > 0;
        if (p->degree)
            p->degree[v] = (uint32_t)SL_MIN(there, (uint64_t)UINT32_MAX);
    }
    atomic_fetch_add_explicit(&p->edges, edges, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->vertices, vertices, memory_order_relaxed);
    return false;
}

void sl_weightless_count(struct sl_dataset *ds, int threads)
{
    struct pass pass = {.ds = ds};
    if (ds->edge_weight)
        sl_threads_first(sl_div_up(sl_dataset_lists(ds), BLOCK_VERTICES), threads, visit, &pass);
    ds->weightless_edges = atomic_load_explicit(&pass.edges, memory_order_relaxed);
    ds->weightless_vertices = atomic_load_explicit(&pass.vertices, memory_order_relaxed);
}

int sl_weightless_drop(struct sl_dataset *ds, bool degrees, int threads)
{
    if (ds->weightless_edges == 0)
        return SL_OK;
    ds->present = ds->edge_weight;
    if (!degrees)
        return SL_OK;
    struct pass pass = {.ds = ds, .degree = malloc(sl_dataset_lists(ds) * sizeof *pass.degree)};
    if (!pass.degree)
        return sl_fail(SL_ENOMEM, "data set %s: no memory for the degrees of %llu vertices",
                       ds->path, (unsigned long long)sl_dataset_lists(ds));
    sl_threads_first(sl_div_up(sl_dataset_lists(ds), BLOCK_VERTICES), threads, visit, &pass);
    free(ds->files->owned[SL_FILE_EDGE_WEIGHT]);
    ds->files->owned[SL_FILE_EDGE_WEIGHT] = pass.degree;
    ds->present_degree = pass.degree;
    return SL_OK;
}

uint64_t sl_weightless_degree(const struct sl_dataset *ds, uint64_t v)
{
    if (!ds->present)
        return sl_dataset_degree(ds, v);
    return ds->present_degree ? ds->present_degree[v]
                              : positive(ds->present + ds->indptr[v], sl_dataset_degree(ds, v));
}

uint32_t sl_weightless_strip(const struct sl_dataset *ds, uint64_t v, uint32_t *sources)
{
    const uint32_t n = (uint32_t)sl_dataset_degree(ds, v);
    if (!ds->present)
        return n;
    const float *weight = ds->present + ds->indptr[v];
    uint32_t left = 0;
    for (uint32_t e = 0; e < n; e++) {
        sources[left] = sources[e];
        left += weight[e] > 0.0f;
    }
    return left;
}
