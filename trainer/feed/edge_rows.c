#include "trainer/feed/edge_rows.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { ROWS_ALIGN = 64 };

// ---- lists --------------------------------------------------------------------------------------

// The last row of a list is the mean of those before it.
static void fill_mean(float *rows, uint32_t n, uint64_t dim)
{
    float *mean = rows + (n - 1) * dim;
    const float share = n > 1 ? 1.0f / (float)(n - 1) : 0;
    memset(mean, 0, dim * sizeof *mean);
    for (uint32_t e = 0; e + 1 < n; e++)
        for (uint64_t c = 0; c < dim; c++)
            mean[c] += rows[e * dim + c];
    for (uint64_t c = 0; c < dim; c++)
        mean[c] *= share;
}

int sl_edge_rows_copy(struct sl_row_source *s, const struct sl_kernels *kernels,
                      const struct sl_edge_lists *lists, float *out)
{
    const struct sl_relation *edges = &s->dataset->typed.plain;
    const uint64_t dim = edges->feat_dim;
    SL_TRY(sl_rows_copy_edge_set(s, kernels, edges, lists->ids, lists->n_rows, out));
    for (uint32_t i = 0; i < lists->n_lists; i++) {
        const uint32_t first = lists->indptr[i], end = lists->indptr[i + 1];
        if (end > first && lists->ids[end - 1] == SL_EDGE_OF_ITSELF)
            fill_mean(out + first * dim, end - first, dim);
    }
    return SL_OK;
}

// ---- a block ------------------------------------------------------------------------------------

// The hop whose rows the edges of hop h have.
static uint32_t owner_of(const struct sl_block *block, uint32_t h)
{
    while (h + 1 < block->n_hops && block->hop[h + 1].indptr_offset == block->hop[h].indptr_offset)
        h++;
    return h;
}

uint64_t sl_edge_rows_end(const struct sl_block *block, uint32_t dim, uint64_t vertices,
                          uint64_t *at)
{
    uint64_t end = sl_align_up(vertices, (uint64_t)ROWS_ALIGN);
    if (dim == 0)
        return vertices;
    for (uint32_t h = block->n_hops; h-- > 0;) {
        const struct sl_block_hop *hop = &block->hop[h];
        const uint32_t owner = owner_of(block, h);
        if (at)
            at[h] = owner == h ? end : at[owner];
        // At most: edges from a vertex to itself are left out.
        const uint64_t rows = (uint64_t)hop->n_edges + hop->n_dst;
        if (owner == h)
            end += sl_align_up(rows * dim * sizeof(float), (uint64_t)ROWS_ALIGN);
    }
    return end;
}

// The lists of a hop, in s->edges.
static int list_hop(struct sl_row_source *s, struct sl_block_view block, uint32_t h,
                    struct sl_edge_lists *out)
{
    const struct sl_block_hop *hop = &block.header->hop[h];
    const uint32_t *from = sl_view_indptr(block, h), *sources = sl_view_indices(block, h);
    const uint64_t *numbers = sl_view_edge_ids(block, h);
    const uint64_t most = (uint64_t)hop->n_edges + hop->n_dst;
    SL_TRY(sl_buffer_grow(&s->edges, sl_device_host(), SL_BUFFER_HOST,
                          most * sizeof *numbers + (hop->n_dst + (size_t)1) * sizeof *from,
                          "lists of edges"));
    uint64_t *ids = s->edges.p;
    uint32_t *indptr = (uint32_t *)(void *)(ids + most), n = 0;
    for (uint32_t i = 0; i < hop->n_dst; i++) {
        indptr[i] = n;
        for (uint32_t e = from[i]; e < from[i + 1]; e++)
            if (sources[e] != i)
                ids[n++] = numbers[e];
        ids[n++] = SL_EDGE_OF_ITSELF;
    }
    indptr[hop->n_dst] = n;
    *out = (struct sl_edge_lists){hop->n_dst, n, indptr, ids};
    return SL_OK;
}

int sl_edge_rows_copy_block(struct sl_row_source *s, const struct sl_kernels *kernels,
                            const struct sl_block *block, uint64_t vertices, void *out)
{
    const uint32_t dim = s->dataset->typed.plain.feat_dim;
    uint64_t at[SL_MAX_HOPS];
    if (dim == 0)
        return SL_OK;
    if (!(block->flags & SL_BLOCK_HAS_EDGE_IDS))
        return sl_rows_fail_unnumbered(block);
    sl_edge_rows_end(block, dim, vertices, at);
    for (uint32_t h = 0; h < block->n_hops; h++) {
        struct sl_edge_lists lists;
        if (owner_of(block, h) != h)
            continue;
        SL_TRY(list_hop(s, sl_block_here(block), h, &lists));
        SL_TRY(sl_edge_rows_copy(s, kernels, &lists,
                                 (float *)(void *)((char *)out + (at[h] - vertices))));
    }
    return SL_OK;
}
