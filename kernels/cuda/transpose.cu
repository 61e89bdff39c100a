/*
 * transpose.cu - the transposed adjacency: for each source its destinations, and the edges' places.
 *
 * PROBLEM. What the reference makes is stable: within a source, edges stand in the order in which
 * they stood. Counting with atomics is fast and gives counts that are right, but the places that it
 * hands out are in the order of time; sorting each source's list afterwards is cheap for short
 * lists and not for a hub's, which is what graphs have.
 *
 * DESIGN. A radix sort of the edges by source, least significant digit first, which is stable by
 * construction, has no atomics on global memory and does not care how the sources are distributed.
 * Of a key of ceil(log2(n_src)) bits a pass sorts up to 8, evenly distributed over the passes: two
 * for 65536 sources, three for 16 M. A pass:
 *
 *   count_digits   a block has a tile of 4096 edges and counts their digits: counts[digit][tile]
 *   sl_cuda_scan   over all of counts: where the first edge of each digit of each tile goes
 *   place_edges    the same tile again: an edge goes to its tile's place, plus the edges of the
 *                  same digit before it in the tile, which are counted warp by warp: within a warp
 *                  32 neighbours at a time find those of their digit by ballots
 *
 * The first pass reads the indices themselves as keys and the positions as values, the last one
 * leaves the values in t_edge. Then sources find the beginning of their lists in the sorted keys (a
 * binary search each), and t_indices is the row of each edge, written down once before.
 *
 * FLOOR. The result: 12 bytes an edge read and written. A pass moves 4 bytes an edge to count, and
 * 8 in and 8 out to place (the first pass reads 4), so that three passes move 56 bytes an edge and
 * the end 20 more. What is scattered is within reach of the second-level cache for a batch (16 MB
 * at 2 M edges). Some 20 launches, and 16 bytes of ws an edge.
 *
 * The number of edges is the device's (indptr of a slice of rows need not begin at 0): grids are
 * sized by csr->n_edges, which is at least that.
 */
#include "kernels/cuda/move.cuh"

#include "kernels/check.h"

namespace {

enum {
    BLOCK = 256,
    WARPS = BLOCK / SL_WARP,
    ROUNDS = 16, // of 32 edges, a warp
    TILE = BLOCK * ROUNDS,
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
};

// Edges [*begin, *end) of the view, by position from 0.
struct extent {
    const uint32_t *indptr;
    uint32_t n_dst;

    __device__ uint32_t begin() const
    {
        return indptr[0];
    }
    __device__ uint32_t count() const
    {
        return indptr[n_dst] - indptr[0];
    }
};

struct pass {
    extent edges;
    const uint32_t *keys, *values; // values NULL: the first pass, whose keys are indices
    uint32_t *keys_out, *values_out;
    uint32_t *counts; // (digits, tiles)
    uint32_t tiles, shift, bits;

    __device__ uint32_t digit(uint32_t key) const
    {
        return key >> shift & ((1u << bits) - 1);
    }
    // Of the edge at position i.
    __device__ uint32_t key(uint32_t i) const
    {
        return values ? keys[i] : keys[edges.begin() + i];
    }
    __device__ uint32_t value(uint32_t i) const
    {
        return values ? values[i] : edges.begin() + i;
    }
};

} // namespace

static __global__ void __launch_bounds__(BLOCK) count_digits(pass p)
{
    __shared__ uint32_t counts[DIGITS];
    counts[threadIdx.x] = 0;
    __syncthreads();
    uint32_t n = p.edges.count();
    uint64_t first = (uint64_t)blockIdx.x * TILE;
#pragma unroll 4
    for (uint64_t i = first + threadIdx.x; i < SL_MIN(first + TILE, (uint64_t)n); i += BLOCK)
        atomicAdd(&counts[p.digit(p.key((uint32_t)i))], 1u);
    __syncthreads();
    if (threadIdx.x < 1u << p.bits)
        p.counts[(uint64_t)threadIdx.x * p.tiles + blockIdx.x] = counts[threadIdx.x];
}

// The lanes whose digit is this lane's, of those that have one.
static __device__ __forceinline__ uint32_t lanes_alike(uint32_t digit, uint32_t bits, bool has)
{
    uint32_t alike = __ballot_sync(SL_FULL_MASK, has);
    for (uint32_t b = 0; b < bits; b++) {
        uint32_t set = __ballot_sync(SL_FULL_MASK, digit >> b & 1u);
        alike &= digit >> b & 1u ? set : ~set;
    }
    return alike;
}

// Per warp and digit, in the order of the warps: where its first edge goes. A thread a digit.
static __device__ void tile_places(const pass &p, uint32_t (*seen)[DIGITS])
{
    uint32_t digit = threadIdx.x;
    if (digit >= 1u << p.bits)
        return;
    uint32_t at = p.counts[(uint64_t)digit * p.tiles + blockIdx.x];
    for (uint32_t w = 0; w < WARPS; w++) {
        uint32_t n = seen[w][digit];
        seen[w][digit] = at;
        at += n;
    }
}

static __global__ void __launch_bounds__(BLOCK, 2) place_edges(pass p)
{
    __shared__ uint32_t seen[WARPS][DIGITS]; // edges of a digit in the warp's rounds so far
    uint32_t warp = threadIdx.x / SL_WARP, lane = threadIdx.x % SL_WARP;
    for (uint32_t w = 0; w < WARPS; w++)
        seen[w][threadIdx.x] = 0;
    __syncthreads();
    uint64_t n = p.edges.count();
    uint64_t first = (uint64_t)blockIdx.x * TILE + warp * (SL_WARP * ROUNDS) + lane;
    uint32_t key[ROUNDS], value[ROUNDS], rank[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t i = first + (uint64_t)r * SL_WARP;
        key[r] = i < n ? p.key((uint32_t)i) : 0;
        value[r] = i < n ? p.value((uint32_t)i) : 0;
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        bool has = first + (uint64_t)r * SL_WARP < n;
        uint32_t digit = p.digit(key[r]), alike = lanes_alike(digit, p.bits, has);
        uint32_t before = __popc(alike & ((1u << lane) - 1));
        rank[r] = seen[warp][digit] + before;
        __syncwarp();
        if (has && before == 0) // the first of them counts for all
            seen[warp][digit] += __popc(alike);
        __syncwarp();
    }
    __syncthreads();
    tile_places(p, seen);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        if (first + (uint64_t)r * SL_WARP < n) {
            uint32_t to = seen[warp][p.digit(key[r])] + rank[r];
            p.keys_out[to] = key[r];
            p.values_out[to] = value[r];
        }
}

// t_indptr[s] = sorted keys below s, for s = 0 .. n_src.
static __global__ void __launch_bounds__(BLOCK)
    find_lists(extent edges, const uint32_t *keys, uint32_t n_src, uint32_t *t_indptr)
{
    uint64_t s = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (s > n_src)
        return;
    uint32_t low = 0, high = edges.count();
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (keys[middle] < s)
            low = middle + 1;
        else
            high = middle;
    }
    t_indptr[s] = low;
}

static __global__ void __launch_bounds__(BLOCK)
    look_up_rows(extent edges, const uint32_t *t_edge, const uint32_t *row, uint32_t *t_indices)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < edges.count())
        t_indices[i] = row[t_edge[i] - edges.begin()];
}

// A warp a row: stores that nothing waits for, so a hub's take no longer than their issue.
static __global__ void __launch_bounds__(BLOCK) write_rows(extent edges, uint32_t *row_of)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SL_WARP;
    if (row >= edges.n_dst)
        return;
    uint32_t origin = edges.begin();
    uint32_t begin = edges.indptr[row] - origin, n = edges.indptr[row + 1] - origin - begin;
    for (uint32_t k = threadIdx.x % SL_WARP; k < n; k += SL_WARP)
        row_of[begin + k] = (uint32_t)row;
}

int sl_cuda_rows_of_edges(const struct sl_csr_view *csr, uint32_t *row)
{
    if (csr->n_dst == 0 || csr->n_edges == 0)
        return SL_OK;
    extent edges = {csr->indptr, csr->n_dst};
    SL_LAUNCH(write_rows, (unsigned)sl_div_up(csr->n_dst, WARPS), BLOCK, 0, edges, row);
    return SL_OK;
}

// One array of the scratch memory.
static int words(struct sl_mempool *ws, uint64_t n, uint32_t **out)
{
    void *memory = NULL;
    SL_TRY(sl_cuda_take(ws, "transpose", n * sizeof(uint32_t), &memory));
    *out = static_cast<uint32_t *>(memory);
    return SL_OK;
}

static int run_pass(const pass &p, struct sl_mempool *ws)
{
    SL_LAUNCH(count_digits, p.tiles, BLOCK, 0, p);
    SL_TRY(sl_cuda_scan(p.counts, p.tiles << p.bits, NULL, p.counts, NULL, ws));
    SL_LAUNCH(place_edges, p.tiles, BLOCK, 0, p);
    return SL_OK;
}

// Sorts the edges by source: the values end in t_edge, the keys in *sorted.
static int sort_edges(const struct sl_csr_view *csr, uint32_t *t_edge, const uint32_t **sorted,
                      struct sl_mempool *ws)
{
    uint32_t key_bits = csr->n_src > 1 ? 32 - (uint32_t)__builtin_clz(csr->n_src - 1) : 1;
    uint32_t passes = (key_bits + DIGIT_BITS - 1) / DIGIT_BITS;
    uint32_t bits = (key_bits + passes - 1) / passes, *keys[2], *spare, *counts;
    pass p = {};
    p.edges = {csr->indptr, csr->n_dst};
    p.tiles = (uint32_t)sl_div_up(csr->n_edges, TILE);
    SL_TRY(words(ws, csr->n_edges, &keys[0]));
    SL_TRY(words(ws, csr->n_edges, &keys[1]));
    SL_TRY(words(ws, csr->n_edges, &spare));
    SL_TRY(words(ws, ((uint64_t)p.tiles << bits) + 1, &counts));
    p.keys = csr->indices;
    p.counts = counts;
    p.bits = bits;
    for (uint32_t i = 0; i < passes; i++) {
        p.shift = i * bits;
        p.keys_out = keys[i & 1];
        p.values_out = (passes - 1 - i) & 1 ? spare : t_edge;
        SL_TRY(run_pass(p, ws));
        p.keys = p.keys_out;
        p.values = p.values_out;
    }
    *sorted = p.keys;
    return SL_OK;
}

int sl_cuda_transpose(const struct sl_csr_view *csr, uint32_t *t_indptr, uint32_t *t_indices,
                      uint32_t *t_edge, struct sl_mempool *ws)
{
    SL_TRY(sl_check_transpose(csr, t_indptr, t_indices, t_edge, ws));
    if (csr->n_edges == 0 || csr->n_dst == 0) {
        SL_CUDA_TRY(cudaMemsetAsync(t_indptr, 0, ((size_t)csr->n_src + 1) * sizeof *t_indptr,
                                    sl_cuda_stream()));
        return SL_OK;
    }
    extent edges = {csr->indptr, csr->n_dst};
    const uint32_t *sorted;
    uint32_t *row;
    if (!t_edge)
        SL_TRY(words(ws, csr->n_edges, &t_edge));
    SL_TRY(words(ws, csr->n_edges, &row));
    SL_TRY(sort_edges(csr, t_edge, &sorted, ws));
    SL_TRY(sl_cuda_rows_of_edges(csr, row));
    unsigned blocks = (unsigned)sl_div_up((uint64_t)csr->n_src + 1, BLOCK);
    SL_LAUNCH(find_lists, blocks, BLOCK, 0, edges, sorted, csr->n_src, t_indptr);
    SL_LAUNCH(look_up_rows, (unsigned)sl_div_up(csr->n_edges, BLOCK), BLOCK, 0, edges, t_edge, row,
              t_indices);
    return SL_OK;
}
