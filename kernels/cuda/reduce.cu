/*
 * The ordered sum of gradient slots, and the sum of squares.
 *
 * `reduce` makes the same additions in the same order as ref/, so the same bits; a launch takes up
 * to 16 slots, whose addresses travel as its arguments. More slots take more launches, which read
 * the sum so far back in. Its floor, up to 16: every slot read once, `out` written once. Slots may
 * be mapped host memory (the parameter board): neighbouring threads read neighbouring 16 bytes.
 *
 * `sum_squares` is added up in f64 in a tree that depends on n alone; reads x once.
 */
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"
#include "kernels/cuda/total.cuh"

enum { SLOTS_A_LAUNCH = 16 };

struct slot_list {
    const float *slot[SLOTS_A_LAUNCH];
    uint32_t n;
    bool begins; // out is not yet the sum of slots before these
    bool ends;   // then comes the scale
};

template <bool ALIGNED>
static __global__ void add_slots(struct slot_list list, uint64_t n, float scale, float *out)
{
    uint64_t step = sl_group_step();
    for (uint64_t group = sl_first_group(); 4 * group < n; group += step) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, n);
        float sum[4], v[4];
        sl_load4<ALIGNED>((list.begins ? list.slot[0] : out) + at, width, sum);
#pragma unroll 4
        for (uint32_t s = list.begins; s < list.n; s++) {
            sl_load4<ALIGNED>(list.slot[s] + at, width, v);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                sum[j] += v[j];
        }
        if (list.ends)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                sum[j] *= scale;
        sl_store4<ALIGNED>(out + at, width, sum);
    }
}

int sl_cuda_reduce(const float *const *slots, uint32_t n_slots, uint64_t n, float scale, float *out)
{
    SL_TRY(sl_check_reduce(slots, n_slots, n, scale, out));
    for (uint32_t first = 0; n > 0 && first < n_slots; first += SLOTS_A_LAUNCH) {
        struct slot_list list = {};
        list.n = SL_MIN(n_slots - first, (uint32_t)SLOTS_A_LAUNCH);
        list.begins = first == 0;
        list.ends = first + list.n == n_slots;
        bool aligned = sl_aligned16(out);
        for (uint32_t s = 0; s < list.n; s++) {
            list.slot[s] = slots[first + s];
            aligned = aligned && sl_aligned16(list.slot[s]);
        }
        SL_LAUNCH_ALIGNED(aligned, add_slots, sl_element_blocks(n), SL_BLOCK, 0, list, n, scale,
                          out);
    }
    return SL_OK;
}

template <bool ALIGNED>
static __global__ void add_squares(const float *x, uint64_t n, struct sl_loss_result *partial)
{
    uint64_t step = sl_group_step();
    struct sl_loss_result tally = {};
#pragma unroll 2
    for (uint64_t group = sl_first_group(); 4 * group < n; group += step) {
        float v[4];
        sl_load4<ALIGNED>(x + 4 * group, sl_group_width(4 * group, n), v);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            tally.loss += (double)v[j] * (double)v[j];
    }
    sl_block_tally(&tally, partial);
}

int sl_cuda_sum_squares(uint64_t n, const float *x, double *out)
{
    SL_TRY(sl_check_sum_squares(n, x, out));
    struct sl_loss_result total = {};
    struct sl_loss_result *partial;
    uint32_t blocks = sl_tally_blocks(n);
    if (n > 0) {
        SL_TRY(sl_cuda_tallies(&partial));
        SL_LAUNCH_ALIGNED(sl_aligned16(x), add_squares, blocks, SL_BLOCK, 0, x, n, partial);
        SL_TRY(sl_cuda_total(partial, blocks, &total));
        SL_TRY(sl_cuda_heard()); // a total of this function's own
    }
    *out = total.loss;
    return SL_OK;
}
