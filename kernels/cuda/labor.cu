/*
 * labor.cu - layer-neighbour sampling as kernels/labor_internal.h defines it: a warp a row.
 *
 * The k-th smallest number is found digit by digit, the highest eight bits first: the warp counts
 * how many of the numbers that agree with the digits so far have each next digit, and takes the
 * digit at which the count reaches what is still wanted. It stops as soon as all that agree are
 * wanted, which is mostly after one or two digits. Then all numbers below, and of those that agree
 * the first ones, are put in the order of the file. Numbers are drawn anew in each pass: arithmetic
 * is not what these kernels wait for, and a row's vertices stay in the first-level cache unless it
 * is a hub.
 *
 * Rows that take all are copied by their warp. All neighbours (fanout -1) are khop's.
 */
#include "kernels/cuda/draw.cuh"
#include "kernels/labor_internal.h"

enum {
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    EACH = DIGITS / SL_WARP, // digits that a lane sums up
    WARPS = SL_DRAW_SCRATCH_THREADS / SL_WARP,
};

// Which numbers are taken: those with (number & mask) below value, and `ties` of those equal to it.
struct bound {
    uint32_t mask, value, ties;
};

static __device__ __forceinline__ uint32_t number_of(const struct sl_draw_hop &hop, uint32_t vertex)
{
    return sl_labor_number(hop.b.seed, hop.b.stream, hop.hop, hop.b.batch, hop.b.epoch, vertex);
}

// How many of the numbers that agree with the bound have each digit at `shift`.
static __device__ __forceinline__ void count_digits(const struct sl_draw_hop &hop, uint64_t start,
                                                    uint32_t degree, struct bound bound,
                                                    uint32_t shift, uint32_t *count)
{
    const uint32_t lane = threadIdx.x % SL_WARP;
    for (uint32_t digit = lane; digit < DIGITS; digit += SL_WARP)
        count[digit] = 0;
    __syncwarp();
    for (uint32_t j = lane; j < degree; j += SL_WARP) {
        uint32_t number = number_of(hop, sl_neighbour(hop.b, start + j));
        if ((number & bound.mask) == bound.value)
            atomicAdd(&count[number >> shift & (DIGITS - 1)], 1u);
    }
    __syncwarp();
}

// The bound with the digit at which the counts reach its ties; whether all that agree are wanted.
static __device__ __forceinline__ bool next_digit(const uint32_t *count, uint32_t shift,
                                                  struct bound *bound)
{
    const uint32_t lane = threadIdx.x % SL_WARP;
    uint32_t mine = 0;
    for (uint32_t i = 0; i < EACH; i++)
        mine += count[lane * EACH + i];
    const uint32_t through = (uint32_t)sl_warp_running64(mine);
    // The first lane whose digits reach it looks for the one.
    const uint32_t reached = __ballot_sync(SL_FULL_MASK, through >= bound->ties);
    const uint32_t who = (uint32_t)__ffs((int)reached) - 1;
    uint32_t digit = lane * EACH, left = bound->ties - (through - mine);
    if (lane == who)
        for (; count[digit] < left; digit++)
            left -= count[digit];
    digit = __shfl_sync(SL_FULL_MASK, digit, (int)who);
    left = __shfl_sync(SL_FULL_MASK, left, (int)who);
    bound->mask |= (uint32_t)(DIGITS - 1) << shift;
    bound->value |= digit << shift;
    bound->ties = left;
    return count[digit] == left;
}

static __device__ __forceinline__ struct bound find_bound(const struct sl_draw_hop &hop,
                                                          uint64_t start, uint32_t degree,
                                                          uint32_t *count)
{
    struct bound bound = {0, 0, (uint32_t)hop.fanout};
    for (uint32_t shift = 32 - DIGIT_BITS;; shift -= DIGIT_BITS) {
        count_digits(hop, start, degree, bound, shift, count);
        bool enough = next_digit(count, shift, &bound);
        __syncwarp(); // count is written again
        if (enough || shift == 0)
            return bound;
    }
}

static __device__ __forceinline__ void draw_row(const struct sl_draw_hop &hop, uint32_t row,
                                                uint32_t *count)
{
    const uint32_t lane = threadIdx.x % SL_WARP, before = (1u << lane) - 1;
    const uint32_t degree = hop.degree[row];
    const uint64_t start = hop.start[row];
    struct bound bound = {0, 0, degree}; // all agree with it
    if (degree > (uint32_t)hop.fanout)
        bound = find_bound(hop, start, degree, count);
    const uint32_t end = hop.indptr[row + 1];
    uint32_t e = hop.indptr[row], ties = 0;
    for (uint32_t base = 0; base < degree; base += SL_WARP) {
        bool valid = base + lane < degree;
        uint32_t vertex = valid ? sl_neighbour(hop.b, start + base + lane) : 0;
        uint32_t number = number_of(hop, vertex) & bound.mask;
        uint32_t equal = __ballot_sync(SL_FULL_MASK, valid && number == bound.value);
        bool tie = number == bound.value && ties + (uint32_t)__popc(equal & before) < bound.ties;
        bool taken = valid && (number < bound.value || tie);
        uint32_t some = __ballot_sync(SL_FULL_MASK, taken);
        const uint32_t at = e + (uint32_t)__popc(some & before);
        if (taken && at < end)
            sl_draw_identify(hop, at, start + base + lane);
        sl_draw_put(hop, taken && at < end, at, vertex);
        e += (uint32_t)__popc(some);
        ties += (uint32_t)__popc(equal);
    }
    sl_draw_fill(hop, row, e);
}

static __global__ void __launch_bounds__(SL_DRAW_SCRATCH_THREADS) draw_labor(struct sl_draw_hop hop)
{
    __shared__ uint32_t count[WARPS][DIGITS];
    if (hop.edges->n == 0)
        return;
    const uint32_t warp = threadIdx.x / SL_WARP;
    uint64_t row = sl_first(hop.first_row) + (uint64_t)blockIdx.x * WARPS + warp;
    for (; row < hop.rows->n; row += (uint64_t)gridDim.x * WARPS)
        draw_row(hop, (uint32_t)row, count[warp]);
}

static int draw(const struct sl_draw_hop *hop)
{
    if (hop->fanout == SL_DRAW_ALL)
        return sl_draw_khop_uniform.draw(hop);
    SL_TRY(sl_draw_uniform_indptr(hop));
    uint32_t grid = sl_draw_grid((uint64_t)hop->rows_room * SL_WARP, SL_DRAW_SCRATCH_THREADS);
    SL_LAUNCH(draw_labor, grid, SL_DRAW_SCRATCH_THREADS, 0, *hop);
    return SL_OK;
}

const struct sl_draw_sampler sl_draw_labor = {sl_check_labor, NULL, NULL, draw};
