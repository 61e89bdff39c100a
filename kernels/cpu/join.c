/*
 * Several adjacencies with the same rows as one: where a row begins follows from the parts' own
 * indptr, so ranges of rows are threads' work and nothing is counted first.
 */
#include "kernels/kernels_internal.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { GRAIN_EDGES = 1 << 14 };

static void join_range(void *context, uint64_t begin, uint64_t end)
{
    const struct sl_join_rows_args *args = context;
    const uint32_t n = args->n_parts;
    uint32_t at = args->first_edge;
    for (uint32_t p = 0; p < n; p++)
        at += args->part[p].indptr[begin];
    for (uint64_t i = begin; i < end; i++) {
        args->rows[i] = at;
        for (uint32_t p = 0; p < n; p++) {
            const struct sl_csr_view *csr = &args->part[p];
            const uint32_t first = args->first_source[p];
            args->indptr[i * n + p] = at;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
                args->indices[at++] = csr->indices[e] + first;
        }
    }
    if (end == args->n_dst)
        args->indptr[end * n] = args->rows[end] = at;
}

int sl_cpu_join_rows(const struct sl_join_rows_args *args)
{
    SL_TRY(sl_check_join_rows(args));
    struct sl_join_rows_args a = *args;
    uint64_t edges = 0;
    for (uint32_t p = 0; p < a.n_parts; p++)
        edges += a.part[p].n_edges;
    if (a.n_dst == 0)
        join_range(&a, 0, 0);
    sl_cpu_parallel_range(a.n_dst, GRAIN_EDGES / (edges / SL_MAX(a.n_dst, 1u) + 1) + 1, 1,
                          join_range, &a);
    return SL_OK;
}
