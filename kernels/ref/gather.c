#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/half.h"

int sl_ref_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                       const uint32_t *rows, uint64_t n, float *out)
{
    SL_TRY(sl_check_gather_rows(table, dtype, n_rows, dim, rows, n, out));
    SL_TRY(sl_check_row_range(rows, n, n_rows));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < dim; c++)
            out[i * dim + c] = sl_ref_load(table, dtype, (rows ? rows[i] : i) * dim + c);
    return SL_OK;
}

int sl_ref_gather_rows_to(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                          const uint32_t *rows, const uint32_t *to, uint64_t n, uint64_t n_out,
                          float *out)
{
    SL_TRY(sl_check_gather_rows_to(table, dtype, n_rows, dim, rows, to, n, n_out, out));
    SL_TRY(sl_check_row_range(rows, n, n_rows));
    SL_TRY(sl_check_to_range(to, n, n_out));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < dim; c++)
            out[(uint64_t)to[i] * dim + c] =
                sl_ref_load(table, dtype, (rows ? rows[i] : i) * dim + c);
    return SL_OK;
}

int sl_ref_gather_ranked(const struct sl_gather_ranked_args *args)
{
    SL_TRY(sl_check_gather_ranked(args));
    SL_TRY(sl_check_ranked_range(args));
    uint32_t n_hits = 0;
    for (uint32_t i = 0; i < args->n; i++) {
        bool hit = args->ranks[i] < args->capacity;
        uint64_t row = hit ? args->ranks[i] : args->nodes[i];
        n_hits += hit;
        for (uint32_t c = 0; (hit || args->store) && c < args->dim; c++)
            args->out[(uint64_t)i * args->dim + c] =
                sl_ref_load(hit ? args->cache : args->store, args->dtype, row * args->dim + c);
    }
    if (args->n_hits)
        *args->n_hits = n_hits;
    return SL_OK;
}

int sl_ref_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                        uint64_t n_out, float *out)
{
    SL_TRY(sl_check_scatter_rows(x, dim, to, n, n_out, out));
    SL_TRY(sl_check_scatter_range(to, n, n_out));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < dim; c++)
            out[(uint64_t)to[i] * dim + c] = x[i * dim + c];
    return SL_OK;
}
