// rank.cu - a batch's places in the hotness order, and its split between cache and store.
#include "kernels/check.h"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/rank.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/spread_internal.h"

enum { THREADS = 256 };

// --- mark_ranks ----------------------------------------------------------------------------------

static __global__ void __launch_bounds__(THREADS)
    mark(struct sl_rank_index index, const uint32_t *nodes, uint32_t n, uint32_t *ranks,
         struct sl_cuda_complaints *complaints)
{
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += stride) {
        uint32_t node = nodes[i], rank = SL_RANK_NONE;
        if (node < index.n_nodes)
            rank = sl_rank_of(index, node);
        else
            sl_complain(complaints, SL_COMPLAINT_NODE, i, node, index.n_nodes);
        ranks[i] = rank;
    }
}

int sl_cuda_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                       uint32_t *ranks)
{
    SL_TRY(sl_check_mark_ranks(index, nodes, n, ranks));
    if (n == 0)
        return SL_OK;
    uint32_t blocks = (uint32_t)(((uint64_t)n + THREADS - 1) / THREADS);
    SL_LAUNCH(mark, SL_MIN(blocks, 8u * sl_cuda_processors()), THREADS, 0, *index, nodes, n, ranks,
              sl_cuda_complaints());
    return SL_OK;
}

// --- split_rows: a scan of the hits --------------------------------------------------------------

struct is_hit {
    const uint32_t *ranks;
    struct sl_spread held;

    __device__ __forceinline__ uint32_t operator()(uint64_t i) const
    {
        uint64_t at;
        return sl_spread_find(&held, ranks[i], &at) != SL_SPREAD_NOWHERE;
    }
};

struct write_split {
    const uint32_t *nodes, *ranks;
    uint32_t *hit_row, *hit_to, *miss_row, *miss_to;
    uint32_t *counts; // of hits and of misses

    __device__ __forceinline__ void operator()(uint64_t i, uint32_t hit, uint64_t hits) const
    {
        if (hit) {
            hit_row[hits] = ranks[i];
            hit_to[hits] = (uint32_t)i;
        } else {
            miss_row[i - hits] = nodes[i];
            miss_to[i - hits] = (uint32_t)i;
        }
    }

    __device__ __forceinline__ void end(uint64_t n, uint64_t hits) const
    {
        counts[0] = (uint32_t)hits;
        counts[1] = (uint32_t)(n - hits);
    }
};

int sl_cuda_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                       const struct sl_spread *held, struct sl_row_split *out)
{
    SL_TRY(sl_check_split_rows(nodes, ranks, n, held, out));
    out->n_hits = out->n_misses = 0;
    if (n == 0)
        return SL_OK;
    void *scratch;
    SL_TRY(sl_cuda_scratch(&scratch));
    uint64_t *sums = (uint64_t *)scratch;
    uint32_t *counts = (uint32_t *)(sums + SL_SCAN_BLOCKS_MAX);
    struct is_hit read = {ranks, *held};
    struct write_split write = {nodes,         ranks,        out->hit_row, out->hit_to,
                                out->miss_row, out->miss_to, counts};
    SL_TRY(sl_scan_launch(read, read, write, sl_scan_all(n), sums));
    static_assert(offsetof(sl_row_split, n_misses) == offsetof(sl_row_split, n_hits) + 4,
                  "both counts are one copy");
    SL_CUDA_TRY(cudaMemcpyAsync(&out->n_hits, counts, 2 * sizeof *counts, cudaMemcpyDeviceToHost,
                                sl_cuda_stream()));
    return SL_OK;
}
