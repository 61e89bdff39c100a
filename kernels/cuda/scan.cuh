/*
 * scan.cuh - running sums over the whole GPU, of what a functor reads, to where another one writes.
 *
 * PROBLEM. Counts become offsets, and flags become numbers, in every step of sampling and of
 * transposing. The array may be long, how long only the GPU knows, and the sums must be the same on
 * every run.
 *
 * DESIGN. Two launches. The array is cut into as many runs of whole tiles as there are blocks (at
 * most SL_SCAN_BLOCKS_MAX):
 *
 *     sl_scan_sums    each block adds its run up                           n items read
 *     sl_scan_write   each block adds up the sums before its own, goes     n read, n written
 *                     through its run again, tile by tile, and writes
 *
 * One launch, the second, where one block is enough. The method with one pass over the items
 * (decoupled look-back: Merrill and Garland, "Single-pass parallel prefix scan", NVIDIA 2016) saves
 * a read of the items and a launch, and makes blocks wait for others: it rests on their being
 * scheduled in order, which emulation cannot show and a debugger breaks. What is scanned here is
 * rows and 1/32 of the edges, so a read of it again comes out of the second-level cache.
 *
 * A tile is SL_SCAN_ROWS loads of 32 neighbouring items by each of 8 warps: loads are coalesced for
 * any alignment, and a warp has eight of them under way. Sums are of 64 bits throughout.
 *
 * A reader is `uint32_t operator()(uint64_t i) const` (device), and may have effects that can be
 * repeated; the first launch has READ_FIRST, the second READ, so that what the first one computes
 * can be kept. A writer is `void operator()(uint64_t i, uint32_t item, uint64_t before) const`, for
 * each item with the sum of those before it, and `void end(uint64_t n, uint64_t total) const`,
 * once. A tile is read before any of it is written: a reader's array may be the writer's.
 */
#ifndef SL_KERNELS_CUDA_SCAN_CUH
#define SL_KERNELS_CUDA_SCAN_CUH

#include "kernels/cuda/cuda.cuh"

enum {
    SL_SCAN_THREADS = 256,
    SL_SCAN_WARPS = SL_SCAN_THREADS / SL_WARP,
    SL_SCAN_ROWS = 8,
    SL_SCAN_WARP_ITEMS = SL_SCAN_ROWS * SL_WARP,
    SL_SCAN_TILE = SL_SCAN_WARPS * SL_SCAN_WARP_ITEMS,
    SL_SCAN_BLOCKS_MAX = 1024,
    SL_SCAN_BYTES = SL_SCAN_BLOCKS_MAX * 8, // of a launch's scratch
};

// A number that the processor knows, or has a bound for: then it is in device memory.
struct sl_scan_length {
    uint64_t bound;
    const uint32_t *at;   // NULL: the bound is the number
    uint32_t per;         // one item for so many: there are ceil(*at / per)
    const uint32_t *less; // NULL: none; so many of *at have no item
};

static inline struct sl_scan_length sl_scan_all(uint64_t n)
{
    struct sl_scan_length length = {n, NULL, 1, NULL};
    return length;
}

static __device__ __forceinline__ uint64_t sl_scan_n(struct sl_scan_length length)
{
    if (!length.at)
        return length.bound;
    uint64_t n = *length.at, less = length.less ? *length.less : 0;
    uint64_t items = (SL_MAX(n, less) - less + length.per - 1) / length.per;
    return SL_MIN(items, length.bound);
}

static __device__ __forceinline__ uint64_t sl_warp_sum64(uint64_t x)
{
    for (int step = SL_WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(SL_FULL_MASK, (unsigned long long)x, step);
    return x;
}

// The sum of the lanes up to this one.
static __device__ __forceinline__ uint64_t sl_warp_running64(uint64_t x)
{
    const uint32_t lane = threadIdx.x % SL_WARP;
    for (uint32_t step = 1; step < SL_WARP; step *= 2) {
        uint64_t before = __shfl_up_sync(SL_FULL_MASK, (unsigned long long)x, step);
        x += lane >= step ? before : 0;
    }
    return x;
}

// The sum over a block of SL_SCAN_THREADS, in all threads. `parts` is of shared memory.
static __device__ __forceinline__ uint64_t sl_scan_block_sum(uint64_t x, uint64_t *parts)
{
    x = sl_warp_sum64(x);
    __syncthreads(); // parts may be read still
    if (threadIdx.x % SL_WARP == 0)
        parts[threadIdx.x / SL_WARP] = x;
    __syncthreads();
    uint64_t sum = 0;
    for (int w = 0; w < SL_SCAN_WARPS; w++)
        sum += parts[w];
    return sum;
}

// Where this block's run begins and ends.
static __device__ __forceinline__ void sl_scan_run(uint64_t n, uint64_t *first, uint64_t *last)
{
    uint64_t tiles = (n + SL_SCAN_TILE - 1) / SL_SCAN_TILE;
    uint64_t run = (tiles + gridDim.x - 1) / gridDim.x * SL_SCAN_TILE;
    *first = SL_MIN(n, run * blockIdx.x);
    *last = SL_MIN(n, *first + run);
}

// This lane's items of the tile at `at`: item r is at *first + r * SL_WARP.
template <class READ>
static __device__ __forceinline__ void sl_scan_load(READ read, uint64_t at, uint64_t last,
                                                    uint64_t *first, uint32_t (&item)[SL_SCAN_ROWS])
{
    *first = at + threadIdx.x / SL_WARP * SL_SCAN_WARP_ITEMS + threadIdx.x % SL_WARP;
#pragma unroll
    for (int r = 0; r < SL_SCAN_ROWS; r++) {
        uint64_t i = *first + r * SL_WARP;
        item[r] = i < last ? read(i) : 0;
    }
}

template <class READ>
static __global__ void __launch_bounds__(SL_SCAN_THREADS)
    sl_scan_sums(READ read, struct sl_scan_length length, uint64_t *sums)
{
    __shared__ uint64_t parts[SL_SCAN_WARPS];
    uint64_t first, last, mine = 0;
    sl_scan_run(sl_scan_n(length), &first, &last);
    for (uint64_t at = first; at < last; at += SL_SCAN_TILE) {
        uint32_t item[SL_SCAN_ROWS];
        uint64_t i;
        sl_scan_load(read, at, last, &i, item);
#pragma unroll
        for (int r = 0; r < SL_SCAN_ROWS; r++)
            mine += item[r];
    }
    mine = sl_scan_block_sum(mine, parts);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = mine;
}

// One tile; returns the sum up to its end.
template <class READ, class WRITE>
static __device__ __forceinline__ uint64_t sl_scan_tile(READ read, WRITE write, uint64_t at,
                                                        uint64_t last, uint64_t before,
                                                        uint64_t *parts)
{
    const uint32_t lane = threadIdx.x % SL_WARP, warp = threadIdx.x / SL_WARP;
    uint32_t item[SL_SCAN_ROWS];
    uint64_t running[SL_SCAN_ROWS], i, mine = 0;
    sl_scan_load(read, at, last, &i, item);
#pragma unroll
    for (int r = 0; r < SL_SCAN_ROWS; r++) {
        running[r] = mine + sl_warp_running64(item[r]);
        mine = __shfl_sync(SL_FULL_MASK, (unsigned long long)running[r], SL_WARP - 1);
    }
    __syncthreads(); // parts may be read still
    if (lane == 0)
        parts[warp] = mine;
    __syncthreads();
    uint64_t tile = 0;
    for (uint32_t w = 0; w < SL_SCAN_WARPS; w++) {
        before += w < warp ? parts[w] : 0;
        tile += w < warp ? 0 : parts[w];
    }
#pragma unroll
    for (int r = 0; r < SL_SCAN_ROWS; r++)
        if (i + r * SL_WARP < last)
            write(i + r * SL_WARP, item[r], before + running[r] - item[r]);
    return before + tile;
}

template <class READ, class WRITE>
static __global__ void __launch_bounds__(SL_SCAN_THREADS)
    sl_scan_write(READ read, WRITE write, struct sl_scan_length length, const uint64_t *sums)
{
    __shared__ uint64_t parts[SL_SCAN_WARPS];
    const uint64_t n = sl_scan_n(length);
    uint64_t first, last, before = 0;
    sl_scan_run(n, &first, &last);
    for (uint32_t b = threadIdx.x; b < blockIdx.x; b += SL_SCAN_THREADS)
        before += sums[b];
    before = sl_scan_block_sum(before, parts);
    for (uint64_t at = first; at < last; at += SL_SCAN_TILE)
        before = sl_scan_tile(read, write, at, last, before, parts);
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0)
        write.end(n, before);
}

/*
 * Launches a scan. `sums`: SL_SCAN_BYTES of device memory, in use until the queue has come so far.
 * READ_FIRST reads in the first launch (or in the only one), READ in the second.
 */
template <class READ_FIRST, class READ, class WRITE>
static int sl_scan_launch(READ_FIRST read_first, READ read, WRITE write,
                          struct sl_scan_length length, uint64_t *sums)
{
    uint64_t tiles = (length.bound + SL_SCAN_TILE - 1) / SL_SCAN_TILE;
    uint64_t most = SL_MIN((uint64_t)SL_SCAN_BLOCKS_MAX, 4ull * sl_cuda_processors());
    uint32_t blocks = (uint32_t)SL_MAX(SL_MIN(tiles, most), 1ull);
    if (blocks == 1) {
        SL_LAUNCH((sl_scan_write<READ_FIRST, WRITE>), 1, SL_SCAN_THREADS, 0, read_first, write,
                  length, sums);
        return SL_OK;
    }
    SL_LAUNCH((sl_scan_sums<READ_FIRST>), blocks, SL_SCAN_THREADS, 0, read_first, length, sums);
    SL_LAUNCH((sl_scan_write<READ, WRITE>), blocks, SL_SCAN_THREADS, 0, read, write, length, sums);
    return SL_OK;
}

// The plain ones: an array of numbers, and its running sums with the total behind them.
struct sl_scan_read {
    const uint32_t *in;

    __device__ __forceinline__ uint32_t operator()(uint64_t i) const
    {
        return in[i];
    }
};

struct sl_scan_offsets {
    uint32_t *out;
    uint64_t *total; // or NULL

    __device__ __forceinline__ void operator()(uint64_t i, uint32_t item, uint64_t before) const
    {
        (void)item;
        out[i] = (uint32_t)before;
    }

    __device__ __forceinline__ void end(uint64_t n, uint64_t sum) const
    {
        out[n] = (uint32_t)sum;
        if (total)
            *total = sum;
    }
};

#endif
