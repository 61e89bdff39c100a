#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/half.h"
#include "kernels/spread_internal.h"

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
    struct sl_hits hits = {0};
    for (uint32_t i = 0; i < args->n; i++) {
        const void *table = args->store;
        uint64_t row;
        const uint32_t where = sl_spread_find(&args->cache, args->ranks[i], &row);
        if (where == SL_SPREAD_NOWHERE) {
            row = args->nodes[i];
        } else {
            table = sl_spread_memory(&args->cache, where);
            *(where == SL_SPREAD_NEAR ? &hits.near : &hits.part[where]) += 1;
        }
        for (uint32_t c = 0; table && c < args->dim; c++)
            args->out[(uint64_t)i * args->dim + c] =
                sl_ref_load(table, args->dtype, row * args->dim + c);
    }
    if (args->hits)
        *args->hits = hits;
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
