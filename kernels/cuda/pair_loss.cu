/*
 * pair_loss.cu - losses of pairs' scores. BCE has a thread a pair; the others a warp a positive,
 * whose lanes go over its negatives. Scores, weights and gradients are a few bytes a pair, next to
 * the rows that they are of: nothing here is worth more. Terms are written so that nothing cancels
 * or overflows: cpu/pair_loss.c says how. Sums are in f64 and in a fixed tree (total.cuh).
 */
#include "kernels/cuda/dense.cuh"

#include <math.h>

#include "kernels/check.h"
#include "kernels/cuda/total.cuh"

namespace {

enum { POSITIVES_A_BLOCK = SL_BLOCK / SL_WARP };

__device__ __forceinline__ float weight_of(const struct sl_pair_loss_args &k, uint64_t p)
{
    return k.weight ? k.weight[p] : 1.0f;
}

__device__ __forceinline__ float shifted(const struct sl_pair_loss_args &k, uint64_t p)
{
    return k.score[p] - (k.shift ? k.shift[p] : 0.0f);
}

__device__ __forceinline__ float softplus(float z, float *slope)
{
    const float e = expf(-fabsf(z)), large = 1.0f / (e + 1.0f);
    *slope = z > 0.0f ? large : e * large;
    return (z > 0.0f ? z : 0.0f) + log1pf(e); // of a NaN the second term is one
}

__global__ void bce_kernel(struct sl_pair_loss_args k, struct sl_loss_result *partial)
{
    struct sl_loss_result tally = {};
    for (uint64_t p = sl_first_group(); p < k.n; p += sl_group_step()) {
        const float weight = weight_of(k, p), sign = p < k.n_positive ? -1.0f : 1.0f;
        float slope = 0.0f;
        if (weight != 0.0f) {
            tally.loss += (double)(weight * softplus(sign * shifted(k, p), &slope));
            tally.weight += (double)weight;
            tally.counted += 1;
            tally.correct += (k.score[p] > 0.0f) == (sign < 0.0f);
        }
        if (k.dscore)
            k.dscore[p] = weight != 0.0f ? weight * sign * slope : 0.0f;
    }
    sl_block_tally(&tally, partial);
}

// What a negative adds where it comes within the margin, or by BPR.
__device__ __forceinline__ float compared(const struct sl_pair_loss_args &k, float difference,
                                          float *slope)
{
    if (k.loss == SL_LOSS_PAIR_BPR)
        return softplus(difference, slope);
    const float term = k.margin + difference, value = term <= 0.0f ? 0.0f : term;
    *slope = term > 0.0f ? 1.0f : value; // a NaN is neither
    return value;
}

__global__ void comparison_kernel(struct sl_pair_loss_args k, struct sl_loss_result *partial)
{
    struct sl_loss_result tally = {};
    const uint32_t lane = threadIdx.x % SL_WARP;
    uint64_t i = (uint64_t)blockIdx.x * POSITIVES_A_BLOCK + threadIdx.x / SL_WARP;
    for (; i < k.n_positive; i += (uint64_t)gridDim.x * POSITIVES_A_BLOCK) {
        const uint64_t first = k.n_positive + i * k.per_positive;
        const float weight = weight_of(k, i), own = shifted(k, i);
        float total = 0.0f;
        for (uint32_t j = lane; j < k.per_positive; j += SL_WARP) {
            const uint64_t p = first + j;
            const bool there = weight != 0.0f && weight_of(k, p) != 0.0f;
            float slope = 0.0f;
            if (there) {
                tally.loss += (double)(weight * compared(k, shifted(k, p) - own, &slope));
                tally.weight += (double)weight;
                tally.counted += 1;
                tally.correct += k.score[i] > k.score[p];
                slope *= weight;
                total += slope;
            }
            if (k.dscore)
                k.dscore[p] = slope;
        }
        total = sl_lanes_sum<SL_WARP>(total);
        if (k.dscore && lane == 0)
            k.dscore[i] = -total;
    }
    sl_block_tally(&tally, partial);
}

// The largest of the warp's; a NaN in all lanes stays.
__device__ __forceinline__ float lanes_max(float top)
{
    for (uint32_t distance = SL_WARP / 2; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(SL_FULL_MASK, top, distance);
        top = other > top ? other : top;
    }
    return top;
}

// One positive that counts, by one warp.
__device__ __forceinline__ void softmax_row(const struct sl_pair_loss_args &k, uint64_t i,
                                            float weight, struct sl_loss_result *tally)
{
    const uint32_t lane = threadIdx.x % SL_WARP;
    const uint64_t first = k.n_positive + i * k.per_positive;
    const float own = shifted(k, i);
    float top = own, others = 0.0f;
    bool any = false;
    for (uint32_t j = lane; j < k.per_positive; j += SL_WARP) {
        if (weight_of(k, first + j) == 0.0f)
            continue;
        const float x = shifted(k, first + j);
        top = x > top ? x : top;
        any = true;
        tally->counted += 1;
        tally->correct += k.score[i] > k.score[first + j];
    }
    top = lanes_max(top);
    any = __any_sync(SL_FULL_MASK, any);
    for (uint32_t j = lane; j < k.per_positive; j += SL_WARP) {
        const uint64_t p = first + j;
        const float term = weight_of(k, p) != 0.0f ? expf(shifted(k, p) - top) : 0.0f;
        others += term;
        if (k.dscore)
            k.dscore[p] = term;
    }
    others = sl_lanes_sum<SL_WARP>(others);
    const float sum = others + expf(own - top), scale = weight / sum;
    for (uint32_t j = lane; k.dscore && j < k.per_positive; j += SL_WARP)
        k.dscore[first + j] *= scale;
    if (lane != 0)
        return;
    if (any) {
        tally->loss += (double)weight * (log((double)sum) - ((double)own - (double)top));
        tally->weight += (double)weight;
    }
    if (k.dscore)
        k.dscore[i] = any ? -others * scale : 0.0f;
}

__global__ void softmax_kernel(struct sl_pair_loss_args k, struct sl_loss_result *partial)
{
    struct sl_loss_result tally = {};
    const uint32_t lane = threadIdx.x % SL_WARP;
    uint64_t i = (uint64_t)blockIdx.x * POSITIVES_A_BLOCK + threadIdx.x / SL_WARP;
    for (; i < k.n_positive; i += (uint64_t)gridDim.x * POSITIVES_A_BLOCK) {
        const float weight = weight_of(k, i);
        if (weight != 0.0f) {
            softmax_row(k, i, weight, &tally);
            continue;
        }
        for (uint32_t j = lane; k.dscore && j < k.per_positive; j += SL_WARP)
            k.dscore[k.n_positive + i * k.per_positive + j] = 0.0f;
        if (k.dscore && lane == 0)
            k.dscore[i] = 0.0f;
    }
    sl_block_tally(&tally, partial);
}

} // namespace

int sl_cuda_pair_loss(const struct sl_pair_loss_args *args, struct sl_loss_result *out)
{
    SL_TRY(sl_check_pair_loss(args, out));
    *out = {};
    if (args->n == 0)
        return SL_OK;
    struct sl_loss_result *partial;
    SL_TRY(sl_cuda_tallies(&partial));
    const bool each = args->loss == SL_LOSS_PAIR_BCE;
    const uint64_t wanted = sl_div_up(args->n_positive, (uint64_t)POSITIVES_A_BLOCK);
    const uint64_t most = SL_TALLY_BLOCKS;
    const uint32_t blocks =
        each ? sl_tally_blocks(args->n) : (uint32_t)SL_MIN(SL_MAX(wanted, (uint64_t)1), most);
    if (each)
        SL_LAUNCH(bce_kernel, blocks, SL_BLOCK, 0, *args, partial);
    else if (args->loss == SL_LOSS_PAIR_SOFTMAX)
        SL_LAUNCH(softmax_kernel, blocks, SL_BLOCK, 0, *args, partial);
    else
        SL_LAUNCH(comparison_kernel, blocks, SL_BLOCK, 0, *args, partial);
    return sl_cuda_total(partial, blocks, out);
}
