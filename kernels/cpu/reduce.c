/*
 * The ordered sum of gradient slots: the same additions in the same order as ref/, so the same
 * bits. A block of elements stays in the first-level cache while slot after slot is added to it.
 * The sum of squares is taken in SEGMENTS ranges that depend on the number of elements alone, each
 * in f64 in sixteen lanes, and added in order: as many threads as one likes, the same bits.
 */
#include "kernels/kernels_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum { BLOCK = 2048, GRAIN = 1 << 14, SEGMENTS = 64 };

struct job {
    const float *const *slots;
    float *out;
    uint32_t n_slots;
    float scale;
};

SL_SIMD_VOID(add, (float *restrict sum, const float *restrict slot, uint64_t n), (sum, slot, n))
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += slot[i];
}

SL_SIMD_VOID(add_last,
             (float *restrict out, const float *restrict sum, const float *restrict slot,
              uint64_t n, float scale),
             (out, sum, slot, n, scale))
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = scale * (sum[i] + slot[i]);
}

SL_SIMD_VOID(scale_only, (float *restrict out, const float *restrict slot, uint64_t n, float scale),
             (out, slot, n, scale))
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = scale * slot[i];
}

static void run_range(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    _Alignas(64) float sum[BLOCK];
    for (uint64_t at = begin; at < end; at += BLOCK) {
        uint64_t n = SL_MIN((uint64_t)BLOCK, end - at);
        if (job->n_slots == 1) {
            scale_only(job->out + at, job->slots[0] + at, n, job->scale);
            continue;
        }
        memcpy(sum, job->slots[0] + at, n * sizeof *sum);
        for (uint32_t s = 1; s + 1 < job->n_slots; s++)
            add(sum, job->slots[s] + at, n);
        add_last(job->out + at, sum, job->slots[job->n_slots - 1] + at, n, job->scale);
    }
}

int sl_cpu_reduce(const float *const *slots, uint32_t n_slots, uint64_t n, float scale, float *out)
{
    SL_TRY(sl_check_reduce(slots, n_slots, n, scale, out));
    struct job job = {.slots = slots, .out = out, .n_slots = n_slots, .scale = scale};
    sl_cpu_parallel_range(n, GRAIN, 16, run_range, &job);
    return SL_OK;
}

struct squares {
    const float *x;
    uint64_t n;
    uint32_t n_segments;
    double *sums; // (n_segments)
};

SL_SIMD(double, squares_span, (const float *x, uint64_t n), (x, n))
{
    double lanes[SL_LANES] = {0}, sum = 0.0;
    uint64_t i = 0;
    for (; i + SL_LANES <= n; i += SL_LANES)
        for (uint32_t l = 0; l < SL_LANES; l++)
            lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t l = 0; l < SL_LANES; l++)
        sum += lanes[l];
    return sum;
}

static void squares_segment(void *context, uint32_t segment)
{
    const struct squares *s = context;
    uint64_t begin = s->n * segment / s->n_segments, end = s->n * (segment + 1) / s->n_segments;
    s->sums[segment] = squares_span(s->x + begin, end - begin);
}

int sl_cpu_sum_squares(uint64_t n, const float *x, double *out)
{
    SL_TRY(sl_check_sum_squares(n, x, out));
    double sums[SEGMENTS], sum = 0.0;
    struct squares s = {.x = x, .n = n, .sums = sums};
    s.n_segments = (uint32_t)SL_MIN(SL_MAX(n / GRAIN, 1), SEGMENTS);
    sl_cpu_parallel_parts(s.n_segments, squares_segment, &s);
    for (uint32_t i = 0; i < s.n_segments; i++)
        sum += sums[i];
    *out = sum;
    return SL_OK;
}
