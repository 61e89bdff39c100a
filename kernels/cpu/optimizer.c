/*
 * Optimizer steps: one pass over the arrays, each step's constants made once in f64.
 *
 * Elements are independent, so the bits do not depend on the number of threads.
 *
 * Whether all that is written is finite is asked beside, of the integers: one more in the exponent
 * carries into the sign's place exactly where the exponent is all ones.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"
#include "kernels/optimizer_internal.h"

enum { GRAIN = 1 << 14 };

// The highest bit is set where the number is not finite; the others mean nothing.
SL_INLINE uint32_t carry_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7fffffffu) + 0x00800000u;
}

// What a range has found, of all its numbers' carries.
static void note_broken(uint32_t carries, _Atomic uint32_t *broken)
{
    if (carries >> 31)
        atomic_store_explicit(broken, 1, memory_order_relaxed);
}

struct adam {
    const float *g, *p, *m, *v;
    float *p_out, *m_out, *v_out;
    struct sl_adam_constants k;
    _Atomic uint32_t broken;
};

SL_CPU_RANGE(adam_range)
{
    struct adam *a = context;
    const float *restrict g = a->g, *restrict p = a->p, *restrict m = a->m, *restrict v = a->v;
    float *restrict p_out = a->p_out, *restrict m_out = a->m_out, *restrict v_out = a->v_out;
    const struct sl_adam_constants k = a->k;
    uint32_t carries = 0;
    for (uint64_t i = begin; i < end; i++) {
        float grad = g[i] + k.decay * p[i];
        float mean = k.beta1 * m[i] + k.rest1 * grad;
        float square = k.beta2 * v[i] + k.rest2 * (grad * grad);
        float denominator = sqrtf(square) * k.square_scale + k.eps;
        float moved = k.kept * p[i] - k.rate * (mean / denominator);
        p_out[i] = moved;
        m_out[i] = mean;
        v_out[i] = square;
        carries |= carry_of(moved) | carry_of(mean) | carry_of(square);
    }
    note_broken(carries, &a->broken);
}

int sl_cpu_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                const float *m, const float *v, float *p_out, float *m_out, float *v_out,
                uint32_t *broken)
{
    SL_TRY(sl_check_adam(step, n, g, p, m, v, p_out, m_out, v_out, broken));
    struct adam a = {g, p, m, v, p_out, m_out, v_out, sl_adam_constants(step), 0};
    sl_cpu_parallel_range(n, GRAIN, 16, adam_range, &a);
    if (broken)
        *broken |= atomic_load(&a.broken);
    return SL_OK;
}

struct sgd {
    const float *g, *p, *m;
    float *p_out, *m_out;
    float lr, momentum, decay;
    _Atomic uint32_t broken;
};

SL_CPU_RANGE(sgd_range)
{
    struct sgd *s = context;
    const float *restrict g = s->g, *restrict p = s->p, *restrict m = s->m;
    float *restrict p_out = s->p_out, *restrict m_out = s->m_out;
    const float lr = s->lr, momentum = s->momentum, decay = s->decay;
    uint32_t carries = 0;
    for (uint64_t i = begin; i < end; i++) {
        float grad = g[i] + decay * p[i];
        float velocity = momentum * m[i] + grad;
        float moved = p[i] - lr * velocity;
        p_out[i] = moved;
        m_out[i] = velocity;
        carries |= carry_of(moved) | carry_of(velocity);
    }
    note_broken(carries, &s->broken);
}

int sl_cpu_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
               const float *m, float *p_out, float *m_out, uint32_t *broken)
{
    SL_TRY(sl_check_sgd(step, n, g, p, m, p_out, m_out, broken));
    struct sgd s = {.g = g,
                    .p = p,
                    .m = m,
                    .p_out = p_out,
                    .m_out = m_out,
                    .lr = step->lr,
                    .momentum = step->momentum,
                    .decay = step->weight_decay};
    sl_cpu_parallel_range(n, GRAIN, 16, sgd_range, &s);
    if (broken)
        *broken |= atomic_load(&s.broken);
    return SL_OK;
}
