#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_transpose(const struct sl_csr_view *csr, uint32_t *t_indptr, uint32_t *t_indices,
                     uint32_t *t_edge, struct sl_mempool *ws)
{
    (void)ws;
    SL_TRY(sl_check_transpose(csr, t_indptr, t_indices, t_edge, ws));
    uint32_t begin = csr->indptr[0], end = csr->indptr[csr->n_dst];

    for (uint32_t s = 0; s <= csr->n_src; s++)
        t_indptr[s] = 0;
    for (uint32_t e = begin; e < end; e++)
        t_indptr[csr->indices[e] + 1]++;
    for (uint32_t s = 0; s < csr->n_src; s++)
        t_indptr[s + 1] += t_indptr[s];

    // t_indptr[s] serves as the cursor of source s and ends as the begin of s + 1: shifted back.
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
            uint32_t at = t_indptr[csr->indices[e]]++;
            t_indices[at] = i;
            if (t_edge)
                t_edge[at] = e;
        }
    for (uint32_t s = csr->n_src; s > 0; s--)
        t_indptr[s] = t_indptr[s - 1];
    t_indptr[0] = 0;
    return SL_OK;
}
