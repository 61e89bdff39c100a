/*
 * aggregate_hubs.cuh - rows with very many edges, and the scratch memory of slots without a pool.
 *
 * PROBLEM. A row is summed by a few lanes, one edge after the other. Graphs have rows with a
 * million edges, which would keep one warp busy while all others are done. The processor cannot
 * look which rows these are, since the arrays are the device's, and a sum must have the same bits
 * every time.
 *
 * DESIGN. A row of more than SL_ROW_EDGES edges is a hub. The kernel that walks the rows leaves it
 * out and puts it into a list; a second kernel, a grid of blocks that stay, works the list off:
 *
 *      row      edge edge edge ...                                              up to 2^32
 *      chunk    SL_CHUNK_EDGES edges each: an item of the list, a block's work
 *      run      SL_RUN_EDGES edges each, summed in the order of the edges by one group of lanes
 *
 * A chunk's sum is that of its runs in their order, and where there are several chunks their sums
 * are parts, which a third kernel adds in their order. So what a sum comes to depends on the row's
 * edges alone: not on the tile, the GPU, the neighbouring rows, or on where in the list a hub
 * stands, which is a matter of time. Lists are sized by the number of edges; where that does not
 * allow a hub none of this is launched, nor is it when no long row is possible.
 *
 * COST. One memset and one or two launches that mostly find an empty list, some 2 us each.
 */
#ifndef SL_KERNELS_CUDA_AGGREGATE_HUBS_CUH
#define SL_KERNELS_CUDA_AGGREGATE_HUBS_CUH

#include "kernels/cuda/cuda.cuh"

enum {
    SL_ROW_EDGES = 256,    // of a row that is no hub, at most
    SL_CHUNK_EDGES = 1024, // a block's share of a hub
    SL_RUN_EDGES = 64,     // a group's share of a chunk
};

// Edges [chunk * SL_CHUNK_EDGES, ...) of a row; part: where their sum goes if there are others.
struct sl_hub_item {
    uint32_t row, chunk, part;
};

// A row of several chunks: its sums are parts part .. part + chunks - 1.
struct sl_hub_long {
    uint32_t row, part, chunks;
};

struct sl_hub_counts {
    uint32_t items, parts, longs;
};

// All in device memory; counts NULL: no row can be a hub.
struct sl_hubs {
    struct sl_hub_counts *counts;
    struct sl_hub_item *items;
    struct sl_hub_long *longs;
    void *parts;
    uint32_t max_items, max_longs; // the processor's bounds: grids need not be larger
};

// Device memory of the calling thread, at least `bytes`, aligned to 256: valid until its next
// operation, grows to the largest and is freed when the thread ends. SL_ENOMEM.
int sl_cuda_room(size_t bytes, void **out);

// Empty lists for rows of csr, with `part_bytes` for each part, in the thread's room.
int sl_cuda_hubs(const struct sl_csr_view *csr, size_t part_bytes, struct sl_hubs *out);

// Puts a row of n_edges > SL_ROW_EDGES edges into the lists; `chunked`: cut into chunks, else as
// one item. One lane calls it.
static __device__ inline void sl_hubs_add(const struct sl_hubs &hubs, uint32_t row,
                                          uint32_t n_edges, bool chunked)
{
    uint32_t chunks = chunked ? (n_edges - 1) / SL_CHUNK_EDGES + 1 : 1, part = 0;
    uint32_t item = atomicAdd(&hubs.counts->items, chunks);
    if (chunks > 1) {
        part = atomicAdd(&hubs.counts->parts, chunks);
        hubs.longs[atomicAdd(&hubs.counts->longs, 1u)] = {row, part, chunks};
    }
    for (uint32_t k = 0; k < chunks; k++)
        hubs.items[item + k] = {row, k, part + k};
}

// Blocks of a grid that stays until the list is worked off.
static inline uint32_t sl_cuda_hub_blocks(const struct sl_hubs *hubs)
{
    return SL_MIN(hubs->max_items, 8 * sl_cuda_processors());
}

#endif
