// rank.c - a batch's places in the hotness order, and its split between cache and store.
#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_mark_ranks(const uint32_t *rank_of, uint64_t n_nodes, const uint32_t *nodes, uint32_t n,
                      uint32_t *ranks)
{
    SL_TRY(sl_check_mark_ranks(rank_of, nodes, n, ranks));
    SL_TRY(sl_check_node_range(nodes, n, n_nodes));
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = rank_of[nodes[i]];
    return SL_OK;
}

int sl_ref_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n, uint32_t capacity,
                      struct sl_row_split *out)
{
    SL_TRY(sl_check_split_rows(nodes, ranks, n, out));
    out->n_hits = out->n_misses = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] < capacity) {
            out->hit_row[out->n_hits] = ranks[i];
            out->hit_to[out->n_hits++] = i;
        } else {
            out->miss_row[out->n_misses] = nodes[i];
            out->miss_to[out->n_misses++] = i;
        }
    }
    return SL_OK;
}
