/*
 * attention.cu - the softmax over a row's edges, several heads side by side, and its gradient.
 *
 * FLOOR. An edge reads its source (4 bytes) and the source's scores, a random sector of 32 bytes up
 * to eight heads, and writes `heads` shares. Backward it reads shares, gradients and the source's
 * scores, writes the gradients, and reads them once more over the transposed block.
 *
 * HOW. A group of HEADS x SLOTS lanes has a row: `HEADS` neighbouring heads, and SLOTS edges at a
 * time, so that lanes read and write runs of neighbouring words. A lane keeps what it needs of its
 * first KEEP edges in registers: rows of up to KEEP x SLOTS edges (a sampled row has that many)
 * read their scores once and write their shares once. What a longer row has beyond them goes
 * through the output: each lane finds there what it wrote itself. Maximum and sum go over the slots
 * by shuffles. More than 32 heads are taken 32 at a time.
 *
 * HUBS (aggregate_hubs.cuh) are a block's work each, 256 lanes for one row: the same, with shared
 * memory for the shuffles.
 *
 * The gradient in the sources' scores is a sum over the transposed block of rows of `heads`
 * columns, and aggregate does it. Sums are in an order that depends on the row's length and the
 * heads alone.
 *
 * NaN. A maximum leaves NaN out, as the reference's: the exponential of it then makes the whole row
 * NaN through the sum.
 */
#include "kernels/cuda/aggregate_rows.cuh"

#include "kernels/check.h"

namespace {

enum { BLOCK = 256, BLOCKS = 4, KEEP = 4 }; // BLOCKS: a multiprocessor, 64 registers a thread

struct scores {
    const uint32_t *indptr, *indices;
    uint32_t n_dst, heads;
    float slope;
    const float *src, *dst; // or NULL, with a slope of 1:
    const float *own;       // the edges' own scores, where the result will be

    // The sum that the leaky relu gets, of the edge at e and head h.
    __device__ float at(uint32_t e, uint32_t h, float of_row) const
    {
        return src ? src[(uint64_t)indices[e] * heads + h] + of_row : own[(uint64_t)e * heads + h];
    }
    __device__ float of_row(uint32_t row, uint32_t h) const
    {
        return dst ? dst[(uint64_t)row * heads + h] : 0.0f;
    }
    __device__ float leaky(float x) const
    {
        return x > 0.0f ? x : x * slope;
    }
};

struct gradients {
    const float *alpha;
    float *dalpha, *dscore_dst;
};

// Lanes that have a row together: how a value goes from all slots of a head to all of them.
template <int HEADS, int LANES> struct warp_group {
    static constexpr int SLOTS = LANES / HEADS;

    template <class Join> __device__ float over_slots(float x, const Join &join) const
    {
#pragma unroll
        for (int step = LANES / 2; step >= HEADS; step /= 2)
            x = join(x, __shfl_xor_sync(SL_FULL_MASK, x, step));
        return x;
    }
};

template <int HEADS> struct block_group {
    static constexpr int SLOTS = BLOCK / HEADS;
    float *shared; // (BLOCK)

    template <class Join> __device__ float over_slots(float x, const Join &join) const
    {
        uint32_t t = threadIdx.x;
        shared[t] = x;
        __syncthreads();
        for (int step = BLOCK / 2; step >= HEADS; step /= 2) {
            if (t < (uint32_t)step)
                shared[t] = join(shared[t], shared[t + step]);
            __syncthreads();
        }
        x = shared[t % HEADS];
        __syncthreads(); // before the next value takes the place
        return x;
    }
};

struct larger {
    __device__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};

struct sum_of {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

// What a lane has of a row: a head and every SLOTS-th edge.
struct share {
    uint32_t row, begin, n; // edges; 0: nothing to do
    uint32_t head, slot;
    bool writes; // the row's own results, in slot 0
};

} // namespace

// Shares of one head of a row. `s.head` may be beyond the heads: the lane then only takes part.
template <class Group>
static __device__ __forceinline__ void softmax_row(const Group &group, const scores &in,
                                                   const share &s, float *alpha)
{
    constexpr uint32_t SLOTS = Group::SLOTS;
    const bool has = s.head < in.heads && s.n > 0;
    const uint32_t n = has ? s.n : 0;
    float *out = alpha + (uint64_t)s.begin * in.heads + s.head;
    float of_row = has ? in.of_row(s.row, s.head) : 0.0f;
    float keep[KEEP], top = -INFINITY, sum = 0.0f;
#pragma unroll
    for (uint32_t k = 0; k < KEEP; k++) {
        uint32_t e = s.slot + k * SLOTS;
        keep[k] = e < n ? in.leaky(in.at(s.begin + e, s.head, of_row)) : -INFINITY;
        top = fmaxf(top, keep[k]);
    }
    for (uint32_t e = s.slot + KEEP * SLOTS; e < n; e += SLOTS) {
        float score = in.leaky(in.at(s.begin + e, s.head, of_row));
        out[(uint64_t)e * in.heads] = score;
        top = fmaxf(top, score);
    }
    top = group.over_slots(top, larger());
#pragma unroll
    for (uint32_t k = 0; k < KEEP; k++)
        if (s.slot + k * SLOTS < n) {
            keep[k] = expf(keep[k] - top);
            sum += keep[k];
        }
    for (uint32_t e = s.slot + KEEP * SLOTS; e < n; e += SLOTS) {
        float part = expf(out[(uint64_t)e * in.heads] - top);
        out[(uint64_t)e * in.heads] = part;
        sum += part;
    }
    sum = group.over_slots(sum, sum_of());
#pragma unroll
    for (uint32_t k = 0; k < KEEP; k++)
        if (s.slot + k * SLOTS < n)
            out[(uint64_t)(s.slot + k * SLOTS) * in.heads] = keep[k] / sum;
    for (uint32_t e = s.slot + KEEP * SLOTS; e < n; e += SLOTS)
        out[(uint64_t)e * in.heads] /= sum;
}

// Gradients of one head of a row's scores, in place of those of its shares, and their sum.
template <class Group>
static __device__ __forceinline__ void softmax_row_backward(const Group &group, const scores &in,
                                                            const share &s, const gradients &g)
{
    constexpr uint32_t SLOTS = Group::SLOTS;
    const bool has = s.head < in.heads && s.writes;
    const uint32_t n = has ? s.n : 0;
    const float *alpha = g.alpha + (uint64_t)s.begin * in.heads + s.head;
    float *dalpha = g.dalpha + (uint64_t)s.begin * in.heads + s.head;
    float of_row = n > 0 ? in.of_row(s.row, s.head) : 0.0f;
    float part[KEEP], given[KEEP], dot = 0.0f, sum = 0.0f;
#pragma unroll
    for (uint32_t k = 0; k < KEEP; k++) {
        uint64_t e = s.slot + k * SLOTS;
        part[k] = e < n ? alpha[e * in.heads] : 0.0f;
        given[k] = e < n ? dalpha[e * in.heads] : 0.0f;
        dot = fmaf(part[k], given[k], dot);
    }
    for (uint64_t e = s.slot + KEEP * SLOTS; e < n; e += SLOTS)
        dot = fmaf(alpha[e * in.heads], dalpha[e * in.heads], dot);
    dot = group.over_slots(dot, sum_of());
#pragma unroll
    for (uint32_t k = 0; k < KEEP; k++) {
        uint64_t e = s.slot + k * SLOTS;
        if (e >= n)
            continue;
        bool positive = in.at(s.begin + (uint32_t)e, s.head, of_row) > 0.0f;
        float gradient = part[k] * (given[k] - dot) * (positive ? 1.0f : in.slope);
        dalpha[e * in.heads] = gradient;
        sum += gradient;
    }
    for (uint64_t e = s.slot + KEEP * SLOTS; e < n; e += SLOTS) {
        bool positive = in.at(s.begin + (uint32_t)e, s.head, of_row) > 0.0f;
        float gradient =
            alpha[e * in.heads] * (dalpha[e * in.heads] - dot) * (positive ? 1.0f : in.slope);
        dalpha[e * in.heads] = gradient;
        sum += gradient;
    }
    sum = group.over_slots(sum, sum_of());
    if (has && s.slot == 0 && g.dscore_dst)
        g.dscore_dst[(uint64_t)s.row * in.heads + s.head] = sum;
}

namespace {

// The two operations, for the kernels that walk rows and hubs.
struct forward_op {
    float *alpha;

    template <class Group>
    __device__ void operator()(const Group &group, const scores &in, const share &s) const
    {
        softmax_row(group, in, s, alpha);
    }
};

struct backward_op {
    gradients g;

    template <class Group>
    __device__ void operator()(const Group &group, const scores &in, const share &s) const
    {
        softmax_row_backward(group, in, s, g);
    }
};

} // namespace

template <class Op, int HEADS, int LANES>
static __global__ void __launch_bounds__(BLOCK, BLOCKS) softmax_rows(Op op, scores in, sl_hubs hubs)
{
    uint32_t lane = threadIdx.x % LANES;
    uint64_t row = (uint64_t)blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
    share s = {(uint32_t)row, 0, 0, 0, lane / HEADS, row < in.n_dst};
    if (s.writes) {
        s.begin = in.indptr[row];
        s.n = in.indptr[row + 1] - s.begin;
    }
    if (s.n > SL_ROW_EDGES) {
        if (lane == 0)
            sl_hubs_add(hubs, s.row, s.n, false);
        s.n = 0;
        s.writes = false;
    }
    for (uint32_t first = 0; first < in.heads; first += HEADS) {
        s.head = first + lane % HEADS;
        op(warp_group<HEADS, LANES>(), in, s);
    }
}

template <class Op, int HEADS>
static __global__ void __launch_bounds__(BLOCK, 2) softmax_hubs(Op op, scores in, sl_hubs hubs)
{
    __shared__ float shared[BLOCK];
    block_group<HEADS> group = {shared};
    uint32_t n_items = hubs.counts->items;
    for (uint32_t i = blockIdx.x; i < n_items; i += gridDim.x) {
        share s = {hubs.items[i].row, 0, 0, 0, threadIdx.x / HEADS, true};
        s.begin = in.indptr[s.row];
        s.n = in.indptr[s.row + 1] - s.begin;
        for (uint32_t first = 0; first < in.heads; first += HEADS) {
            s.head = first + threadIdx.x % HEADS;
            op(group, in, s);
        }
    }
}

template <class Op, int HEADS, int LANES>
static int launch_softmax(const Op &op, const scores &in, const struct sl_csr_view *csr)
{
    struct sl_hubs hubs;
    SL_TRY(sl_cuda_hubs(csr, 0, &hubs));
    unsigned blocks = (unsigned)sl_div_up(in.n_dst, BLOCK / LANES);
    SL_LAUNCH((softmax_rows<Op, HEADS, LANES>), blocks, BLOCK, 0, op, in, hubs);
    if (!hubs.counts)
        return SL_OK;
    SL_LAUNCH((softmax_hubs<Op, HEADS>), sl_cuda_hub_blocks(&hubs), BLOCK, 0, op, in, hubs);
    return SL_OK;
}

// Few heads leave lanes for more edges at a time: 8 slots of 1 or 2 heads, 4 of 4 or 8, 2 of 16.
template <class Op>
static int run_softmax(const Op &op, const scores &in, const struct sl_csr_view *csr)
{
    if (in.n_dst == 0)
        return SL_OK;
    switch (sl_pow2_at_least(in.heads)) {
    case 1: return launch_softmax<Op, 1, 8>(op, in, csr);
    case 2: return launch_softmax<Op, 2, 16>(op, in, csr);
    case 4: return launch_softmax<Op, 4, 16>(op, in, csr);
    case 8: return launch_softmax<Op, 8, 32>(op, in, csr);
    case 16: return launch_softmax<Op, 16, 32>(op, in, csr);
    default: return launch_softmax<Op, 32, 32>(op, in, csr);
    }
}

static scores scores_of(const struct sl_csr_view *csr, uint32_t heads, float slope,
                        const float *src, const float *dst, const float *own)
{
    return {csr->indptr, csr->indices, csr->n_dst, heads, src ? slope : 1.0f, src, dst, own};
}

int sl_cuda_edge_softmax(const struct sl_edge_softmax_args *args)
{
    SL_TRY(sl_check_edge_softmax(args));
    const struct sl_csr_view *csr = &args->csr;
    if (csr->n_edges == 0)
        return SL_OK;
    scores in = scores_of(csr, args->heads, args->negative_slope, args->score_src, args->score_dst,
                          args->alpha);
    forward_op op = {args->alpha};
    return run_softmax(op, in, csr);
}

int sl_cuda_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args)
{
    SL_TRY(sl_check_edge_softmax_backward(args));
    const struct sl_csr_view *csr = &args->csr;
    scores in = scores_of(csr, args->heads, args->negative_slope, args->score_src, args->score_dst,
                          args->alpha);
    backward_op op = {{args->alpha, args->dalpha, args->score_src ? args->dscore_dst : NULL}};
    SL_TRY(run_softmax(op, in, csr));
    if (!args->score_src)
        return SL_OK;
    // Rows of the sum are sources, its "sources" edges: those of dalpha, `heads` columns each.
    struct sl_aggregate_args sums = {};
    sums.csr = args->transposed;
    sums.csr.n_src = csr->n_edges;
    sums.csr.indices = args->t_edge;
    sums.dim = args->heads;
    sums.x_dtype = SL_DTYPE_F32;
    sums.x = args->dalpha;
    sums.y = args->dscore_src;
    return sl_cuda_aggregate(&sums);
}
