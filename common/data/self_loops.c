/*
 * Threads take blocks of vertices, whole words of the bit map, so no two write the same word. How
 * many loops a block has is added to a shared counter, and out-edges to shared cells, with relaxed
 * atomics: only the sums matter, and the end of the pass (pthread_join) orders them before the
 * reads.
 */
#include "common/data/self_loops.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "common/base/threads.h"
#include "common/data/weightless.h"

enum { BLOCK_VERTICES = 4096 };

_Static_assert(BLOCK_VERTICES % 64 == 0, "blocks are whole words of the bit map");

struct pass {
    const struct sl_dataset *ds;
    uint64_t *has;
    _Atomic uint32_t *out_degree;
    _Atomic uint64_t n_vertices, n_loops;
};

SL_SIMD(uint64_t, count32, (const uint32_t *list, uint64_t n, uint32_t v), (list, n, v))
{
    uint64_t hits = 0;
    for (uint64_t e = 0; e < n; e++)
        hits += list[e] == v;
    return hits;
}

SL_SIMD(uint64_t, count64, (const uint64_t *list, uint64_t n, uint64_t v), (list, n, v))
{
    uint64_t hits = 0;
    for (uint64_t e = 0; e < n; e++)
        hits += list[e] == v;
    return hits;
}

// Self-loops of v, of a graph without its edges of weight 0.
static uint64_t count_present(const struct sl_dataset *ds, uint64_t v)
{
    uint64_t hits = 0;
    for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
        hits += (sl_dataset_source(ds, e) == v) & (ds->present[e] > 0.0f);
    return hits;
}

// Self-loops of v.
static uint64_t count(const struct sl_dataset *ds, uint64_t v)
{
    if (ds->present)
        return count_present(ds, v);
    uint64_t first = ds->indptr[v], n = sl_dataset_degree(ds, v);
    return sl_dtype_bytes(ds->indices_dtype) == sizeof(uint32_t)
               ? count32((const uint32_t *)ds->indices + first, n, (uint32_t)v)
               : count64((const uint64_t *)ds->indices + first, n, v);
}

static uint64_t block_end(const struct sl_dataset *ds, uint64_t block)
{
    return SL_MIN((block + 1) * BLOCK_VERTICES, ds->n_nodes);
}

static bool visit_any(void *ctx, uint64_t block)
{
    const struct pass *p = ctx;
    for (uint64_t v = block * BLOCK_VERTICES; v < block_end(p->ds, block); v++)
        if (count(p->ds, v))
            return true;
    return false;
}

static bool visit_mark(void *ctx, uint64_t block)
{
    struct pass *p = ctx;
    uint64_t n_vertices = 0, n_loops = 0;
    for (uint64_t v = block * BLOCK_VERTICES; v < block_end(p->ds, block); v++) {
        uint64_t n = count(p->ds, v);
        n_loops += n;
        if (!n)
            continue;
        n_vertices++;
        p->has[v / 64] |= (uint64_t)1 << (v & 63);
    }
    atomic_fetch_add_explicit(&p->n_vertices, n_vertices, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->n_loops, n_loops, memory_order_relaxed);
    return false;
}

static bool visit_out(void *ctx, uint64_t block)
{
    struct pass *p = ctx;
    const struct sl_dataset *ds = p->ds;
    bool narrow = sl_dtype_bytes(ds->indices_dtype) == sizeof(uint32_t);
    for (uint64_t v = block * BLOCK_VERTICES; v < block_end(ds, block); v++)
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++) {
            uint64_t u =
                narrow ? ((const uint32_t *)ds->indices)[e] : ((const uint64_t *)ds->indices)[e];
            if (u != v && (!ds->present || ds->present[e] > 0.0f))
                atomic_fetch_add_explicit(&p->out_degree[u], 1, memory_order_relaxed);
        }
    return false;
}

static uint64_t n_blocks(const struct sl_dataset *ds)
{
    return sl_div_up(ds->n_nodes, BLOCK_VERTICES);
}

static bool any(const struct sl_dataset *dataset, int threads)
{
    struct pass pass = {.ds = dataset};
    return sl_threads_first(n_blocks(dataset), threads, visit_any, &pass) != SL_THREADS_NONE;
}

int sl_self_loops_find(const struct sl_dataset *dataset, int threads, struct sl_self_loops *out)
{
    *out = (struct sl_self_loops){.dataset = dataset};
    struct pass pass = {.ds = dataset};
    if (dataset->loop_free || !any(dataset, threads))
        return SL_OK;
    uint64_t bytes = sl_div_up(dataset->n_nodes, 64) * sizeof *pass.has;
    pass.has = calloc(1, bytes);
    if (!pass.has)
        return sl_fail(SL_ENOMEM, "look for self-loops in %s: no memory for %llu bytes",
                       dataset->path, (unsigned long long)bytes);
    sl_threads_first(n_blocks(dataset), threads, visit_mark, &pass);
    out->has = pass.has;
    out->n_vertices = atomic_load_explicit(&pass.n_vertices, memory_order_relaxed);
    out->n_loops = atomic_load_explicit(&pass.n_loops, memory_order_relaxed);
    return SL_OK;
}

void sl_self_loops_free(struct sl_self_loops *loops)
{
    free(loops->has);
    free(loops->out_degree);
    memset(loops, 0, sizeof *loops);
}

uint64_t sl_self_loops_degree(const struct sl_self_loops *loops, uint64_t v)
{
    uint64_t degree = sl_weightless_degree(loops->dataset, v);
    if (!loops->has || !(loops->has[v / 64] >> (v & 63) & 1))
        return degree;
    return degree - (loops->n_loops == loops->n_vertices ? 1 : count(loops->dataset, v));
}

int sl_self_loops_count_out(struct sl_self_loops *loops, int threads)
{
    const struct sl_dataset *ds = loops->dataset;
    struct pass pass = {.ds = ds};
    pass.out_degree = calloc(SL_MAX(ds->n_nodes, (uint64_t)1), sizeof *pass.out_degree);
    if (!pass.out_degree)
        return sl_fail(SL_ENOMEM, "count out-degrees of %s: no memory for %llu bytes", ds->path,
                       (unsigned long long)(ds->n_nodes * sizeof *pass.out_degree));
    sl_threads_first(n_blocks(ds), threads, visit_out, &pass);
    free(loops->out_degree);
    // The cells are plain from here on; both types have the same size and alignment.
    loops->out_degree = (uint32_t *)(void *)pass.out_degree;
    return SL_OK;
}
