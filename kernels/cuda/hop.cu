/*
 * hop.cu - what layers ask of a hop's edges: sums of rows, self-loops, the scales of a GCN.
 *
 * SUMS OF WEIGHTS. Eight lanes have a row and take every eighth of its weights, in f64, and add up
 * by shuffles; a hub (aggregate_hubs.cuh) is a block's. The order depends on the row's length
 * alone. What a sum is for stands in a struct that gets it: a scale, a GCN's scales, a loop's
 * weight. Without weights the sum is the number of edges and nothing is read. Floor: 4 bytes an
 * edge.
 *
 * LOOPS. An edge e to source s is a loop if it is one of the edges of row s: whether indptr[s] <= e
 * < indptr[s + 1] needs no search for the edge's own row, so counting is a thread an edge whatever
 * the rows are like. Floor: 4 bytes an edge; the 8 of indptr are from the second-level cache.
 *
 * FIXING LOOPS moves the edges that stay: their rows are written down, those that stay are marked
 * and counted up (sl_cuda_scan), and an edge's new place is the number of edges that stay before
 * it, plus one for each row before where rows end with themselves. So every edge is a thread's
 * work, hubs included. Floor: 8 bytes in and 8 out an edge (16 with weights); moved are 20 more for
 * the rows and places. Nothing is waited for where the caller knows the number of edges.
 *
 * A GCN'S SCALES. Out-degrees are counted by integer atomics, which no order changes.
 */
#include "kernels/cuda/layer.cuh"

#include "kernels/check.h"
#include "kernels/cuda/aggregate_hubs.cuh"
#include "kernels/cuda/move.cuh"

namespace {

enum { BLOCK = 256, LANES = 8, WARPS = BLOCK / SL_WARP };

struct weight_lists {
    const uint32_t *indptr;
    uint32_t n_dst;
    const float *weight; // NULL: every edge weighs 1
    uint32_t left_out;   // edges at the end of each row that do not count
};

// row_sums: what the sum of a row makes.
struct sum_result {
    enum sl_row_sum what;
    const uint32_t *degrees; // of SL_ROW_SCALE_UP, or NULL
    float *out;

    __device__ double above(uint32_t row, uint32_t edges) const
    {
        if (what == SL_ROW_INVERSE)
            return 1.0;
        return degrees ? degrees[row] : edges;
    }
    __device__ void operator()(uint32_t row, uint32_t edges, double sum) const
    {
        if (what == SL_ROW_SUM)
            out[row] = (float)sum;
        else if (!(sum > 0.0))
            out[row] = 0.0f;
        else
            out[row] = (float)(above(row, edges) / sum);
    }
};

static __device__ inline double inverse_root(uint64_t degree)
{
    return degree ? 1.0 / sqrt((double)degree) : 0.0;
}

// gcn_scales: the row's scales, and the sources'.
struct gcn_result {
    const uint32_t *degrees; // of the whole graph, or NULL
    const uint32_t *out;     // (n_src) out-edges in the hop, where degrees is NULL
    uint32_t own_loop, n_dst;
    float *row_scale, *self_scale;

    __device__ uint64_t source_degree(uint32_t j) const
    {
        if (degrees)
            return (uint64_t)degrees[j] + own_loop;
        return (uint64_t)out[j] + (j < n_dst ? own_loop : 0);
    }
    __device__ void operator()(uint32_t row, uint32_t edges, double sampled) const
    {
        uint64_t full = degrees ? degrees[row] : edges;
        double root = inverse_root(full + own_loop);
        row_scale[row] = (float)(sampled > 0.0 ? (double)full / sampled * root : 0.0);
        if (self_scale)
            self_scale[row] = (float)(root * inverse_root(source_degree(row)));
    }
};

// fix_loops: the weight of the row's own edge, the last of its list.
struct loop_result {
    const uint32_t *indptr;
    float *weight;

    __device__ void operator()(uint32_t row, uint32_t others, double sum) const
    {
        weight[indptr[row + 1] - 1] = others ? (float)(sum / others) : 1.0f;
    }
};

} // namespace

// ---- sums of rows -------------------------------------------------------------------------------

static __device__ __forceinline__ double lane_sum(const float *weight, uint32_t n, uint32_t lane,
                                                  uint32_t lanes)
{
    double sum = 0.0;
#pragma unroll 4
    for (uint64_t k = lane; k < n; k += lanes)
        sum += (double)weight[k];
    return sum;
}

template <class Result>
static __global__ void __launch_bounds__(BLOCK)
    sum_weights(weight_lists lists, Result result, sl_hubs hubs)
{
    uint32_t lane = threadIdx.x % LANES, begin = 0, n = 0;
    uint64_t row = (uint64_t)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    bool mine = row < lists.n_dst;
    if (mine) {
        begin = lists.indptr[row];
        n = lists.indptr[row + 1] - begin - lists.left_out;
    }
    double sum = n;
    if (lists.weight) {
        if (n > SL_ROW_EDGES) {
            if (lane == 0)
                sl_hubs_add(hubs, (uint32_t)row, n, false);
            mine = false;
            n = 0;
        }
        sum = sl_lanes_sum<LANES>(lane_sum(lists.weight + begin, n, lane, LANES));
    }
    if (mine && lane == 0)
        result((uint32_t)row, n, sum);
}

template <class Result>
static __global__ void __launch_bounds__(BLOCK)
    sum_hub_weights(weight_lists lists, Result result, sl_hubs hubs)
{
    uint32_t n_items = hubs.counts->items;
    for (uint32_t i = blockIdx.x; i < n_items; i += gridDim.x) {
        uint32_t row = hubs.items[i].row, begin = lists.indptr[row];
        uint32_t n = lists.indptr[row + 1] - begin - lists.left_out;
        double sum = sl_block_sum<BLOCK>(lane_sum(lists.weight + begin, n, threadIdx.x, BLOCK));
        if (threadIdx.x == 0)
            result(row, n, sum);
    }
}

// The result of each row's sum; n_edges: what indptr ends with, at most.
template <class Result>
static int sum_rows(const weight_lists &lists, uint32_t n_edges, const Result &result)
{
    if (lists.n_dst == 0)
        return SL_OK;
    struct sl_csr_view view = {};
    view.n_dst = lists.n_dst;
    view.n_edges = lists.weight ? n_edges : 0;
    struct sl_hubs hubs;
    SL_TRY(sl_cuda_hubs(&view, 0, &hubs));
    unsigned blocks = (unsigned)sl_div_up(lists.n_dst, BLOCK / LANES);
    SL_LAUNCH((sum_weights<Result>), blocks, BLOCK, 0, lists, result, hubs);
    if (!hubs.counts)
        return SL_OK;
    SL_LAUNCH((sum_hub_weights<Result>), sl_cuda_hub_blocks(&hubs), BLOCK, 0, lists, result, hubs);
    return SL_OK;
}

int sl_cuda_row_sums(const struct sl_csr_view *csr, const float *weight, const uint32_t *degrees,
                     enum sl_row_sum what, float *out)
{
    SL_TRY(sl_check_row_sums(csr, weight, degrees, what, out));
    weight_lists lists = {csr->indptr, csr->n_dst, weight, 0};
    sum_result result = {what, degrees, out};
    return sum_rows(lists, csr->n_edges, result);
}

// ---- loops --------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    count_loop_edges(struct sl_csr_view csr, uint32_t *n_loops)
{
    __shared__ uint32_t block_loops;
    if (threadIdx.x == 0)
        block_loops = 0;
    __syncthreads();
    uint32_t begin = csr.indptr[0], end = csr.indptr[csr.n_dst], loops = 0;
    uint64_t stride = (uint64_t)gridDim.x * BLOCK;
    for (uint64_t e = begin + (uint64_t)blockIdx.x * BLOCK + threadIdx.x; e < end; e += stride) {
        uint32_t source = csr.indices[e];
        loops += source < csr.n_dst && csr.indptr[source] <= e && e < csr.indptr[source + 1];
    }
    if (loops)
        atomicAdd(&block_loops, loops);
    __syncthreads();
    if (threadIdx.x == 0 && block_loops)
        atomicAdd(n_loops, block_loops);
}

int sl_cuda_count_loops(const struct sl_csr_view *csr, uint32_t *n_loops)
{
    SL_TRY(sl_check_count_loops(csr, n_loops));
    *n_loops = 0;
    if (csr->n_dst == 0 || csr->n_edges == 0)
        return SL_OK;
    void *count = NULL;
    SL_TRY(sl_cuda_room(sizeof(uint32_t), &count));
    SL_CUDA_TRY(cudaMemsetAsync(count, 0, sizeof(uint32_t), sl_cuda_stream()));
    uint64_t blocks = SL_MIN(sl_div_up(csr->n_edges, BLOCK), (uint64_t)sl_cuda_processors() * 16);
    SL_LAUNCH(count_loop_edges, (unsigned)blocks, BLOCK, 0, *csr, static_cast<uint32_t *>(count));
    return sl_cuda_fetch(n_loops, static_cast<uint32_t *>(count));
}

namespace {

// Edges by position from the first row's first; row[] and before[] are (n_edges).
struct loop_edges {
    struct sl_csr_view csr;
    const uint32_t *row;
    uint32_t *before; // first whether the edge stays, then how many stay before it
    const float *weight;
    uint32_t own; // rows end with themselves: 0 or 1
    uint32_t *indptr, *indices;
    float *out_weight;
};

} // namespace

static __global__ void __launch_bounds__(BLOCK) mark_edges(loop_edges edges)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    uint32_t begin = edges.csr.indptr[0], n = edges.csr.indptr[edges.csr.n_dst] - begin;
    if (i < edges.csr.n_edges)
        edges.before[i] = i < n && edges.csr.indices[begin + i] != edges.row[i];
}

static __global__ void __launch_bounds__(BLOCK) move_edges(loop_edges edges)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    uint32_t begin = edges.csr.indptr[0], n = edges.csr.indptr[edges.csr.n_dst] - begin;
    if (i >= n)
        return;
    uint32_t row = edges.row[i], source = edges.csr.indices[begin + i];
    if (source == row)
        return;
    uint32_t to = edges.before[i] + edges.own * row;
    edges.indices[to] = source;
    if (edges.weight)
        edges.out_weight[to] = edges.weight[begin + i];
}

// Row i's beginning; and what stands before it, the end of row i - 1.
static __global__ void __launch_bounds__(BLOCK) begin_rows(loop_edges edges)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i > edges.csr.n_dst)
        return;
    uint32_t at = edges.before[edges.csr.indptr[i] - edges.csr.indptr[0]] + edges.own * (uint32_t)i;
    edges.indptr[i] = at;
    if (edges.own && i > 0)
        edges.indices[at - 1] = (uint32_t)i - 1;
}

static int move_all(const struct sl_fix_loops_args *args, struct sl_mempool *ws)
{
    const struct sl_csr_view *csr = &args->csr;
    void *row = NULL, *before = NULL;
    SL_TRY(sl_cuda_take(ws, "fix_loops", csr->n_edges * sizeof(uint32_t), &row));
    SL_TRY(sl_cuda_take(ws, "fix_loops", ((size_t)csr->n_edges + 1) * sizeof(uint32_t), &before));
    SL_TRY(sl_cuda_rows_of_edges(csr, static_cast<uint32_t *>(row)));
    loop_edges edges = {*csr,
                        static_cast<uint32_t *>(row),
                        static_cast<uint32_t *>(before),
                        args->weight,
                        args->append_self,
                        args->indptr,
                        args->indices,
                        args->out_weight};
    unsigned blocks = (unsigned)sl_div_up(csr->n_edges, BLOCK);
    if (blocks > 0) {
        SL_LAUNCH(mark_edges, blocks, BLOCK, 0, edges);
    }
    SL_TRY(sl_cuda_scan(edges.before, csr->n_edges, NULL, edges.before, NULL, ws));
    if (blocks > 0) {
        SL_LAUNCH(move_edges, blocks, BLOCK, 0, edges);
    }
    unsigned row_blocks = (unsigned)sl_div_up((uint64_t)csr->n_dst + 1, BLOCK);
    SL_LAUNCH(begin_rows, row_blocks, BLOCK, 0, edges);
    return SL_OK;
}

int sl_cuda_fix_loops(const struct sl_fix_loops_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_fix_loops(args, ws));
    const struct sl_csr_view *csr = &args->csr;
    SL_TRY(move_all(args, ws));
    if (args->append_self && args->weight) {
        weight_lists lists = {args->indptr, csr->n_dst, args->out_weight, 1};
        loop_result result = {args->indptr, args->out_weight};
        SL_TRY(sum_rows(lists, csr->n_edges, result));
    }
    return args->n_edges ? sl_cuda_fetch(args->n_edges, args->indptr + csr->n_dst) : SL_OK;
}

// ---- the scales of a graph convolution ----------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    count_sources(const uint32_t *indices, uint32_t n_edges, uint32_t *out)
{
    uint64_t e = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (e < n_edges)
        atomicAdd(&out[indices[e]], 1u);
}

static __global__ void __launch_bounds__(BLOCK)
    scale_sources(gcn_result result, uint32_t n_src, float *col_scale)
{
    uint64_t j = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (j < n_src)
        col_scale[j] = (float)inverse_root(result.source_degree((uint32_t)j));
}

// out (n_src) = edges of the hop that begin at each source.
static int count_out(const struct sl_csr_view *csr, struct sl_mempool *ws, const uint32_t **out)
{
    void *counts = NULL;
    SL_TRY(sl_cuda_take(ws, "gcn_scales", csr->n_src * sizeof(uint32_t), &counts));
    *out = static_cast<uint32_t *>(counts);
    SL_CUDA_TRY(cudaMemsetAsync(counts, 0, csr->n_src * sizeof(uint32_t), sl_cuda_stream()));
    if (csr->n_edges == 0)
        return SL_OK;
    SL_LAUNCH(count_sources, (unsigned)sl_div_up(csr->n_edges, BLOCK), BLOCK, 0, csr->indices,
              csr->n_edges, static_cast<uint32_t *>(counts));
    return SL_OK;
}

int sl_cuda_gcn_scales(const struct sl_gcn_scales_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_gcn_scales(args, ws));
    const struct sl_csr_view *csr = &args->csr;
    if (csr->n_src == 0)
        return SL_OK;
    gcn_result result = {args->degrees,   NULL, args->own_loop, csr->n_dst, args->row_scale,
                         args->self_scale};
    if (!args->degrees)
        SL_TRY(count_out(csr, ws, &result.out));
    SL_LAUNCH(scale_sources, (unsigned)sl_div_up(csr->n_src, BLOCK), BLOCK, 0, result, csr->n_src,
              args->col_scale);
    weight_lists lists = {csr->indptr, csr->n_dst, args->weight, 0};
    return sum_rows(lists, csr->n_edges, result);
}
