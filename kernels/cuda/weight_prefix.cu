/*
 * weight_prefix.cu - the running sums that weighted sampling searches, on their grid, bit for bit
 * as kernels/weighted_internal.h defines them. Once, when a graph is loaded.
 *
 * A row's unit follows from the exponent of its sum as it is rounded in the order of the file; all
 * that comes after is sums of whole numbers of units, which are the same in any order. A warp has a
 * row and adds up in an order of its own. Both sums are off the true one by less than n 2^-52 of it
 * (n numbers, none negative), so where that cannot reach a power of two both have the same
 * exponent; where it can, which is once in millions of rows, the warp adds the row up again, one
 * after the other. Then it goes through the row, 32 edges at a time, with a running sum of units.
 */
#include <float.h>
#include <string.h>

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/weighted_internal.h"

enum { THREADS = 256, ROWS = THREADS / SL_WARP };

// The first bad edge; then what it is.
struct bad_edge {
    unsigned long long edge; // ~0: none
    uint64_t vertex;
    float weight;
};

// --- numbers -------------------------------------------------------------------------------------

static __device__ __forceinline__ double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// e of 2^(e-1) <= x < 2^e, for a normal number; some small one for 0.
static __device__ __forceinline__ int exponent_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x > 0 ? (int)(bits >> 52) - 1022 : 0;
}

static __device__ __forceinline__ bool is_weight(float w)
{
    return w >= 0.0f && w <= FLT_MAX;
}

// --- a row ---------------------------------------------------------------------------------------

// The sum in the order of the file, in all lanes.
static __device__ double sum_in_order(const float *weight, uint64_t n)
{
    double sum = 0;
    for (uint64_t base = 0; base < n; base += SL_WARP) {
        uint64_t j = base + threadIdx.x % SL_WARP;
        float mine = j < n ? weight[j] : 0.0f; // adds nothing
        for (int lane = 0; lane < SL_WARP; lane++)
            sum += (double)__shfl_sync(SL_FULL_MASK, mine, lane);
    }
    return sum;
}

// The exponent of that sum; the first weight that is none goes to `bad`.
static __device__ __forceinline__ int exponent_of_row(const float *weight, uint64_t n,
                                                      uint64_t first, struct bad_edge *bad)
{
    double sum = 0;
    for (uint64_t j = threadIdx.x % SL_WARP; j < n; j += SL_WARP) {
        float w = weight[j];
        if (!is_weight(w)) {
            atomicMin(&bad->edge, (unsigned long long)(first + j));
            w = 0;
        }
        sum += (double)w;
    }
    for (int step = SL_WARP / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(SL_FULL_MASK, sum, step);
    double off = sum * ((double)n * 0x1p-51);
    int low = exponent_of(sum - off), high = exponent_of(sum + off);
    // Of the whole warp: a sum taken in a butterfly is the same in all lanes.
    return low == high ? low : exponent_of(sum_in_order(weight, n));
}

static __device__ __forceinline__ void prefix_row(const float *weight, uint64_t n, int exponent,
                                                  double *prefix)
{
    const double unit = power_of_two(exponent - 52), per_unit = power_of_two(52 - exponent);
    uint64_t units = 0;
    for (uint64_t base = 0; base < n; base += SL_WARP) {
        uint64_t j = base + threadIdx.x % SL_WARP, share = 0;
        if (j < n) {
            // Scaling by a power of two is exact, and so is adding a half where there is a
            // fraction.
            float w = is_weight(weight[j]) ? weight[j] : 0.0f;
            share = (uint64_t)((double)w * per_unit + 0.5);
            share += share == 0 && w > 0.0f;
        }
        uint64_t running = units + sl_warp_running64(share);
        if (j < n)
            prefix[j] = (double)running * unit;
        units = __shfl_sync(SL_FULL_MASK, (unsigned long long)running, SL_WARP - 1);
    }
}

static __global__ void __launch_bounds__(THREADS)
    prefix_rows(const uint64_t *indptr, uint64_t n_nodes, const float *weight, double *prefix,
                struct bad_edge *bad)
{
    uint64_t v = (uint64_t)blockIdx.x * ROWS + threadIdx.x / SL_WARP;
    for (; v < n_nodes; v += (uint64_t)gridDim.x * ROWS) {
        uint64_t first = indptr[v], n = indptr[v + 1] - first;
        if (n == 0)
            continue;
        int exponent = exponent_of_row(weight + first, n, first, bad);
        prefix_row(weight + first, n, exponent, prefix + first);
    }
}

static __global__ void no_bad_edge(struct bad_edge *bad)
{
    bad->edge = ~0ull;
}

// The vertex of the bad edge, and its weight: of the rows that begin at or before it the last.
static __global__ void find_bad_edge(const uint64_t *indptr, uint64_t n_nodes, const float *weight,
                                     struct bad_edge *bad)
{
    if (bad->edge == ~0ull)
        return;
    uint64_t low = 0, high = n_nodes;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (indptr[middle] <= bad->edge)
            low = middle;
        else
            high = middle;
    }
    bad->vertex = low;
    bad->weight = weight[bad->edge];
}

// --- entry ---------------------------------------------------------------------------------------

static int read_back(void *to, const void *from, size_t n)
{
    SL_CUDA_TRY(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, sl_cuda_stream()));
    return sl_cuda_heard();
}

static int compute(const struct sl_topology_view *topology, const float *weight, double *prefix)
{
    void *scratch;
    struct bad_edge found;
    SL_TRY(sl_cuda_scratch(&scratch));
    struct bad_edge *bad = (struct bad_edge *)scratch;
    uint64_t blocks = (topology->n_nodes + ROWS - 1) / ROWS;
    uint32_t grid = (uint32_t)SL_MIN(blocks, 8ull * sl_cuda_processors());
    SL_LAUNCH(no_bad_edge, 1, 1, 0, bad);
    SL_LAUNCH(prefix_rows, grid, THREADS, 0, topology->indptr, topology->n_nodes, weight, prefix,
              bad);
    SL_LAUNCH(find_bad_edge, 1, 1, 0, topology->indptr, topology->n_nodes, weight, bad);
    SL_TRY(read_back(&found, bad, sizeof found));
    if (found.edge == ~0ull)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "weight_prefix: edge %llu, an in-edge of vertex %llu, has weight %g: wanted a "
                   "finite number that is not negative",
                   found.edge, (unsigned long long)found.vertex, (double)found.weight);
}

int sl_cuda_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                          double *prefix)
{
    uint64_t n_edges;
    if (!topology || !topology->indptr)
        return sl_fail(SL_EINVAL, "weight_prefix: the topology has no indptr");
    SL_TRY(read_back(&n_edges, topology->indptr + topology->n_nodes, sizeof n_edges));
    if (n_edges == 0)
        return SL_OK;
    if (!weight || !prefix)
        return sl_fail(SL_EINVAL, "weight_prefix: weight or prefix is NULL");
    return compute(topology, weight, prefix);
}
