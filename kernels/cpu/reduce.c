/*
 * The ordered sum of gradient slots: the same additions in the same order as ref/, so the same
 * bits. A block of elements stays in the first-level cache while slot after slot is added to it.
 */
#include "kernels/kernels_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { BLOCK = 2048, GRAIN = 1 << 14 };

struct job {
    const float *const *slots;
    float *out;
    uint32_t n_slots;
    float scale;
};

SL_SIMD static void add(float *restrict sum, const float *restrict slot, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += slot[i];
}

SL_SIMD static void add_last(float *restrict out, const float *restrict sum,
                             const float *restrict slot, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = scale * (sum[i] + slot[i]);
}

SL_SIMD static void scale_only(float *restrict out, const float *restrict slot, uint64_t n,
                               float scale)
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
    SL_TRY(sl_check_reduce(slots, n_slots, n, out));
    struct job job = {.slots = slots, .out = out, .n_slots = n_slots, .scale = scale};
    sl_cpu_parallel_range(n, GRAIN, 16, run_range, &job);
    return SL_OK;
}
