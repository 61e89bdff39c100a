// aggregate_hubs.cu - the lists' memory; what they are for is in aggregate_hubs.cuh.
#include "kernels/cuda/aggregate_hubs.cuh"

#include "kernels/cuda/runtime.cuh"

int sl_cuda_hubs(const struct sl_csr_view *csr, size_t part_bytes, struct sl_hubs *out)
{
    *out = {};
    if (csr->n_edges <= SL_ROW_EDGES || csr->n_dst == 0)
        return SL_OK;
    // A hub has more than SL_ROW_EDGES edges, a long one more than SL_CHUNK_EDGES; a row of c > 1
    // chunks has more than (c - 1) SL_CHUNK_EDGES >= c / 2 SL_CHUNK_EDGES.
    uint64_t longs = csr->n_edges / SL_CHUNK_EDGES, parts = 2 * longs;
    uint64_t items = csr->n_edges / SL_ROW_EDGES + longs;
    uint64_t at_items = 256, at_longs = at_items + sl_align_up(items * sizeof *out->items, 256);
    uint64_t at_parts = at_longs + sl_align_up(longs * sizeof *out->longs, 256);
    void *memory = NULL;
    SL_TRY(sl_cuda_room(at_parts + parts * part_bytes, &memory));
    char *base = static_cast<char *>(memory);
    out->counts = reinterpret_cast<struct sl_hub_counts *>(base);
    out->items = reinterpret_cast<struct sl_hub_item *>(base + at_items);
    out->longs = reinterpret_cast<struct sl_hub_long *>(base + at_longs);
    out->parts = base + at_parts;
    out->max_items = (uint32_t)items;
    out->max_longs = (uint32_t)longs;
    SL_CUDA_TRY(cudaMemsetAsync(out->counts, 0, sizeof *out->counts, sl_cuda_stream()));
    return SL_OK;
}
