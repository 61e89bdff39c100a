/*
 * Transposition of an adjacency: a counting sort by source.
 *
 * The edges are cut into one contiguous range of destination rows a thread. Each thread counts its
 * edges by source; a prefix sum over (source, thread) gives every thread its own cursors; each
 * thread then places its edges. Destinations ascend within a source because ranges ascend and a
 * thread walks its rows in order, so the result is the same for every number of threads.
 *
 * The cursors take threads * n_src words of the caller's pool.
 */
#include "kernels/kernels_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { PART_MIN_EDGES = 1 << 14 };

struct job {
    const struct sl_csr_view *csr;
    uint32_t *cursors; // (n_parts, n_src)
    uint32_t *t_indices;
    uint32_t *t_edge;
    uint32_t n_parts;
};

static void count_part(void *context, uint32_t part)
{
    const struct job *job = context;
    const struct sl_csr_view *csr = job->csr;
    uint32_t *counts = job->cursors + (uint64_t)part * csr->n_src;
    uint32_t begin = csr->indptr[sl_cpu_row_split(csr, part, job->n_parts)];
    uint32_t end = csr->indptr[sl_cpu_row_split(csr, part + 1, job->n_parts)];
    memset(counts, 0, (uint64_t)csr->n_src * sizeof *counts);
    for (uint32_t e = begin; e < end; e++)
        counts[csr->indices[e]]++;
}

static void place_part(void *context, uint32_t part)
{
    const struct job *job = context;
    const struct sl_csr_view *csr = job->csr;
    uint32_t *cursors = job->cursors + (uint64_t)part * csr->n_src;
    uint32_t first = sl_cpu_row_split(csr, part, job->n_parts);
    uint32_t last = sl_cpu_row_split(csr, part + 1, job->n_parts);
    for (uint32_t row = first; row < last; row++)
        for (uint32_t e = csr->indptr[row]; e < csr->indptr[row + 1]; e++) {
            uint32_t at = cursors[csr->indices[e]]++;
            job->t_indices[at] = row;
            if (job->t_edge)
                job->t_edge[at] = e;
        }
}

int sl_cpu_transpose(const struct sl_csr_view *csr, uint32_t *t_indptr, uint32_t *t_indices,
                     uint32_t *t_edge, struct sl_mempool *ws)
{
    SL_TRY(sl_check_transpose(csr, t_indptr, t_indices, t_edge, ws));
    uint64_t n_src = csr->n_src;
    uint32_t n_edges = csr->indptr[csr->n_dst] - csr->indptr[0];
    if (n_edges == 0) {
        memset(t_indptr, 0, (n_src + 1) * sizeof *t_indptr);
        return SL_OK;
    }

    const struct sl_mempool_mark before = sl_mempool_mark(ws);
    // A thread's counts cost a pass over the sources: it must have edges enough to be worth it.
    uint64_t worth = n_edges / SL_MAX((uint64_t)PART_MIN_EDGES, n_src / 4);
    struct job job = {.csr = csr, .t_indices = t_indices, .t_edge = t_edge};
    job.n_parts = (uint32_t)SL_MAX(SL_MIN((uint64_t)sl_cpu_threads(), worth), 1);
    job.cursors = sl_mempool_alloc(ws, job.n_parts * n_src * sizeof *job.cursors);
    if (!job.cursors)
        return sl_fail(SL_ENOMEM, "transpose: no memory for %llu bytes of cursors",
                       (unsigned long long)(job.n_parts * n_src * sizeof *job.cursors));

    sl_cpu_parallel_parts(job.n_parts, count_part, &job);
    uint32_t at = 0;
    for (uint64_t s = 0; s < n_src; s++) {
        t_indptr[s] = at;
        for (uint32_t part = 0; part < job.n_parts; part++) {
            uint32_t *cursor = &job.cursors[part * n_src + s];
            uint32_t count = *cursor;
            *cursor = at;
            at += count;
        }
    }
    t_indptr[n_src] = at;
    sl_cpu_parallel_parts(job.n_parts, place_part, &job);
    sl_mempool_release(ws, before);
    return SL_OK;
}
