// join.c - several adjacencies with the same rows as one.
#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_join_rows(const struct sl_join_rows_args *args)
{
    SL_TRY(sl_check_join_rows(args));
    uint32_t at = args->first_edge, *indptr = args->indptr;
    for (uint32_t i = 0; i < args->n_dst; i++) {
        args->rows[i] = at;
        for (uint32_t p = 0; p < args->n_parts; p++) {
            const struct sl_csr_view *csr = &args->part[p];
            *indptr++ = at;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
                args->indices[at++] = csr->indices[e] + args->first_source[p];
        }
    }
    *indptr = args->rows[args->n_dst] = at;
    return SL_OK;
}
