// rank.c - a batch's places in the hotness order, and its split between cache and store.
#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/spread_internal.h"

static uint32_t rank_of(const struct sl_rank_index *index, uint32_t node)
{
    for (uint32_t t = 0; t < index->n_tiers; t++) {
        uint64_t word = index->words[(uint64_t)(node / 32) * index->n_tiers + t];
        uint32_t members = (uint32_t)word, rank = (uint32_t)(word >> 32);
        if (!(members >> node % 32 & 1))
            continue;
        for (uint32_t before = 0; before < node % 32; before++)
            rank += members >> before & 1;
        return rank;
    }
    return SL_RANK_NONE;
}

int sl_ref_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                      uint32_t *ranks)
{
    SL_TRY(sl_check_mark_ranks(index, nodes, n, ranks));
    SL_TRY(sl_check_node_range(nodes, n, index->n_nodes));
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = rank_of(index, nodes[i]);
    return SL_OK;
}

int sl_ref_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                      const struct sl_spread *held, struct sl_row_split *out)
{
    SL_TRY(sl_check_split_rows(nodes, ranks, n, held, out));
    out->n_hits = out->n_misses = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at;
        if (sl_spread_find(held, ranks[i], &at) != SL_SPREAD_NOWHERE) {
            out->hit_row[out->n_hits] = ranks[i];
            out->hit_to[out->n_hits++] = i;
        } else {
            out->miss_row[out->n_misses] = nodes[i];
            out->miss_to[out->n_misses++] = i;
        }
    }
    return SL_OK;
}
