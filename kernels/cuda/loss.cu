/*
 * The losses: softmax cross-entropy, sigmoid cross-entropy, the squared error.
 *
 * SOFTMAX takes a warp a row. The first reading finds the largest logit and which it is (of equals
 * the first), the second adds up exp(x - largest), and with a gradient leaves the terms where the
 * gradient will be, the third scales them. A row of a few hundred classes stays in the first-level
 * cache, so device memory sees one reading and one writing, which is the floor. A lane writes only
 * what it alone reads: dlogits may be the logits.
 *
 * THE OTHER TWO go over the array in groups of four elements whatever the row length, reading
 * outputs and targets and writing the gradient once (12 bytes an element). Their terms are written
 * so that nothing cancels and nothing overflows: cpu/element_loss.c says how.
 *
 * Sums are in f64 and in a fixed tree (total.cuh). What is out of range (a label, a target) is left
 * out of the sums, has a gradient of 0, is complained of, and makes the next sync() fail.
 */
#include "kernels/cuda/dense.cuh"

#include <float.h>
#include <math.h>

#include "kernels/check.h"
#include "kernels/cuda/total.cuh"

enum { ROWS_A_BLOCK = SL_BLOCK / SL_WARP };

// ---- softmax_xent -------------------------------------------------------------------------------

struct xent {
    const float *logits; // (rows, classes)
    const int32_t *labels;
    const float *class_weight; // (classes) or NULL
    float *dlogits;            // NULL for evaluation
    uint64_t rows;
    uint32_t classes;
};

// A logit and its column as one number: of larger logits, then of earlier columns it is larger.
// Never 0. -0 counts as 0.
static __device__ __forceinline__ unsigned long long rank_of(float x, uint32_t column)
{
    uint32_t bits = __float_as_uint(x + 0.0f);
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    return (unsigned long long)bits << 32 | (0xffffffffu - column);
}

// The row's largest logit and the first column that has it, for all lanes. A NaN is never the
// largest; a row of nothing else has a largest of NaN.
static __device__ __forceinline__ float largest(const float *x, uint32_t classes, uint32_t *column)
{
    unsigned long long best = 0;
    for (uint32_t c = threadIdx.x % SL_WARP; c < classes; c += SL_WARP) {
        float v = x[c];
        unsigned long long rank = rank_of(v, c);
        if (v == v && rank > best)
            best = rank;
    }
    for (uint32_t distance = SL_WARP / 2; distance > 0; distance /= 2) {
        unsigned long long other = __shfl_xor_sync(SL_FULL_MASK, best, distance);
        best = other > best ? other : best;
    }
    uint32_t bits = (uint32_t)(best >> 32);
    *column = 0xffffffffu - (uint32_t)best;
    return __uint_as_float(bits ^ (bits >> 31 ? 0x80000000u : 0xffffffffu));
}

// One labelled row, by one warp.
static __device__ __forceinline__ void xent_row(const struct xent &k, const float *x, float *dx,
                                                uint32_t label, struct sl_loss_result *tally)
{
    uint32_t lane = threadIdx.x % SL_WARP, best;
    float top = largest(x, k.classes, &best), sum = 0.0f, own = 0.0f;
    float weight = k.class_weight ? k.class_weight[label] : 1.0f;
    for (uint32_t c = lane; c < k.classes; c += SL_WARP) {
        float v = x[c], term = expf(v - top);
        sum += term;
        if (c == label)
            own = v;
        if (dx)
            dx[c] = term;
    }
    sum = sl_lanes_sum<SL_WARP>(sum);
    if (lane == label % SL_WARP) { // the lane that has read the label's logit
        tally->loss += (double)weight * (log((double)sum) - ((double)own - (double)top));
        tally->weight += (double)weight;
        tally->correct += best == label;
        tally->counted += 1;
    }
    float scale = weight / sum;
    for (uint32_t c = lane; dx && c < k.classes; c += SL_WARP)
        dx[c] = dx[c] * scale - (c == label ? weight : 0.0f);
}

static __global__ void xent_kernel(struct xent k, struct sl_loss_result *partial,
                                   struct sl_cuda_complaints *complaints)
{
    struct sl_loss_result tally = {};
    uint32_t lane = threadIdx.x % SL_WARP;
    uint64_t row = (uint64_t)blockIdx.x * ROWS_A_BLOCK + threadIdx.x / SL_WARP;
    for (; row < k.rows; row += (uint64_t)gridDim.x * ROWS_A_BLOCK) {
        const float *x = k.logits + row * k.classes;
        float *dx = k.dlogits ? k.dlogits + row * k.classes : nullptr;
        int32_t label = k.labels[row];
        if (label >= 0 && (uint32_t)label < k.classes) {
            xent_row(k, x, dx, (uint32_t)label, &tally);
            continue;
        }
        if (label != -1 && lane == 0)
            sl_complain(complaints, SL_COMPLAINT_LABEL, row, (uint64_t)(int64_t)label, k.classes);
        for (uint32_t c = lane; dx && c < k.classes; c += SL_WARP)
            dx[c] = 0.0f;
    }
    sl_block_tally(&tally, partial);
}

int sl_cuda_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows,
                         uint32_t classes, const float *class_weight, float *dlogits,
                         struct sl_loss_result *out)
{
    SL_TRY(sl_check_softmax_xent_args(logits, labels, rows, classes, out));
    *out = {};
    if (rows == 0)
        return SL_OK;
    struct xent k = {logits, labels, class_weight, dlogits, rows, classes};
    struct sl_loss_result *partial;
    uint64_t wanted = (rows + ROWS_A_BLOCK - 1) / ROWS_A_BLOCK;
    uint32_t blocks = (uint32_t)SL_MIN(wanted, (uint64_t)SL_TALLY_BLOCKS);
    SL_TRY(sl_cuda_tallies(&partial));
    SL_LAUNCH(xent_kernel, blocks, SL_BLOCK, 0, k, partial, sl_cuda_complaints());
    return sl_cuda_total(partial, blocks, out);
}

// ---- sigmoid_bce, squared_error -----------------------------------------------------------------

struct elements {
    const float *x, *targets;
    const float *pos_weight; // (dim) or NULL
    float *dx;               // NULL for evaluation
    uint64_t n;
    uint32_t dim;
};

// The loss of an element and its slope.
static __device__ __forceinline__ float bce(float x, float target, float weight, float *slope)
{
    float e = expf(-fabsf(x)), log1p_e = log1pf(e);
    float positive = weight * target, negative = 1.0f - target;
    float large = 1.0f / (e + 1.0f), small = e * large; // sigmoid of |x| and of -|x|
    bool above = x > 0.0f;
    *slope = negative * (above ? large : small) - positive * (above ? small : large);
    // Of a NaN both hinges are NaN, since neither comparison holds.
    float hinge = x <= 0.0f ? 0.0f : x, hinge_minus = x >= 0.0f ? 0.0f : -x;
    return negative * (hinge + log1p_e) + positive * (hinge_minus + log1p_e);
}

template <bool ALIGNED>
static __global__ void bce_kernel(struct elements k, struct sl_loss_result *partial,
                                  struct sl_cuda_complaints *complaints)
{
    struct sl_loss_result tally = {};
    struct sl_column_walk walk = sl_walk_columns(k.dim);
    uint64_t step = sl_group_step();
    for (uint64_t group = sl_first_group(); 4 * group < k.n; group += step, sl_walk_on(&walk)) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, k.n), columns[4];
        float x[4], target[4], slope[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        sl_load4<ALIGNED>(k.x + at, width, x);
        sl_load4<ALIGNED>(k.targets + at, width, target);
        sl_four_columns(walk.column, k.dim, columns);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if (j >= width || target[j] != target[j])
                continue;
            if (target[j] < 0.0f || target[j] > 1.0f) {
                sl_complain(complaints, SL_COMPLAINT_TARGET, at + j, __float_as_uint(target[j]),
                            k.dim);
                continue;
            }
            float weight = k.pos_weight ? k.pos_weight[columns[j]] : 1.0f;
            tally.loss += (double)bce(x[j], target[j], weight, &slope[j]);
            tally.counted += 1;
            tally.correct += (x[j] > 0.0f) == (target[j] > 0.5f);
        }
        if (k.dx)
            sl_store4<ALIGNED>(k.dx + at, width, slope);
    }
    tally.weight = (double)tally.counted;
    sl_block_tally(&tally, partial);
}

template <bool ALIGNED>
static __global__ void square_kernel(struct elements k, struct sl_loss_result *partial)
{
    struct sl_loss_result tally = {};
    uint64_t step = sl_group_step();
    for (uint64_t group = sl_first_group(); 4 * group < k.n; group += step) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, k.n);
        float x[4], target[4], slope[4];
        sl_load4<ALIGNED>(k.x + at, width, x);
        sl_load4<ALIGNED>(k.targets + at, width, target);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            bool labelled = j < width && target[j] == target[j];
            float difference = labelled ? x[j] - target[j] : 0.0f;
            tally.loss += (double)difference * (double)difference;
            tally.weight += labelled ? 1.0 : 0.0;
            slope[j] = 2.0f * difference;
        }
        if (k.dx)
            sl_store4<ALIGNED>(k.dx + at, width, slope);
    }
    sl_block_tally(&tally, partial);
}

int sl_cuda_sigmoid_bce(const float *logits, const float *targets, uint64_t rows, uint32_t dim,
                        const float *pos_weight, float *dlogits, struct sl_loss_result *out)
{
    SL_TRY(sl_check_sigmoid_bce_args(logits, targets, rows, dim, out));
    struct elements k = {logits, targets, pos_weight, dlogits, rows * dim, dim};
    struct sl_loss_result *partial;
    uint32_t blocks = sl_tally_blocks(k.n);
    *out = {};
    if (k.n == 0)
        return SL_OK;
    SL_TRY(sl_cuda_tallies(&partial));
    SL_LAUNCH_ALIGNED(sl_aligned16(logits, targets, dlogits), bce_kernel, blocks, SL_BLOCK, 0, k,
                      partial, sl_cuda_complaints());
    return sl_cuda_total(partial, blocks, out);
}

int sl_cuda_squared_error(const float *outputs, const float *targets, uint64_t rows, uint32_t dim,
                          float *doutputs, struct sl_loss_result *out)
{
    SL_TRY(sl_check_squared_error(outputs, targets, rows, dim, doutputs, out));
    struct elements k = {outputs, targets, nullptr, doutputs, rows * dim, dim};
    struct sl_loss_result *partial;
    uint32_t blocks = sl_tally_blocks(k.n);
    *out = {};
    if (k.n == 0)
        return SL_OK;
    SL_TRY(sl_cuda_tallies(&partial));
    SL_LAUNCH_ALIGNED(sl_aligned16(outputs, targets, doutputs), square_kernel, blocks, SL_BLOCK, 0,
                      k, partial);
    return sl_cuda_total(partial, blocks, out);
}
