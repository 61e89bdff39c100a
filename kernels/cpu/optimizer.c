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
#include "kernels/row_optimizer.h"

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

// n numbers of all arrays; their carries.
SL_INLINE uint32_t adam_span(const struct sl_adam_constants k, uint64_t n, const float *restrict g,
                             const float *restrict p, const float *restrict m,
                             const float *restrict v, float *restrict p_out, float *restrict m_out,
                             float *restrict v_out)
{
    uint32_t carries = 0;
    for (uint64_t i = 0; i < n; i++) {
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
    return carries;
}

SL_CPU_RANGE(adam_range)
{
    struct adam *a = context;
    note_broken(adam_span(a->k, end - begin, a->g + begin, a->p + begin, a->m + begin, a->v + begin,
                          a->p_out + begin, a->m_out + begin, a->v_out + begin),
                &a->broken);
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

SL_INLINE uint32_t sgd_span(float lr, float momentum, float decay, uint64_t n,
                            const float *restrict g, const float *restrict p,
                            const float *restrict m, float *restrict p_out, float *restrict m_out)
{
    uint32_t carries = 0;
    for (uint64_t i = 0; i < n; i++) {
        float grad = g[i] + decay * p[i];
        float velocity = momentum * m[i] + grad;
        float moved = p[i] - lr * velocity;
        p_out[i] = moved;
        m_out[i] = velocity;
        carries |= carry_of(moved) | carry_of(velocity);
    }
    return carries;
}

SL_CPU_RANGE(sgd_range)
{
    struct sgd *s = context;
    note_broken(sgd_span(s->lr, s->momentum, s->decay, end - begin, s->g + begin, s->p + begin,
                         s->m + begin, s->p_out + begin, s->m_out + begin),
                &s->broken);
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

/*
 * ---- rows of tables ----------------------------------------------------------------------------
 *
 * Rows lie anywhere, and reading them is what takes long. A few at a time are copied to where
 * nothing misses, and computed while those behind them are on their way: so few that the lines
 * asked for meanwhile are about as many as a core has on their way at once.
 */

enum {
    BLOCK = 256,       // numbers of each array that are computed at a time
    AHEAD_ROWS = 32,   // that are asked for, at most
    AHEAD_LINES = 128, // likewise
};

struct rows {
    const struct sl_row_optimizer_args *args;
    const float *table[1 + SL_ROW_OPTIMIZER_STATES]; // values, arrays
    uint32_t n_tables, ahead;
    struct sl_adam_constants adam;
    const struct sl_sgd_step *sgd; // NULL: adam
    _Atomic uint32_t broken;
};

SL_INLINE void ask_for_rows(const struct rows *r, uint64_t i)
{
    const struct sl_row_optimizer_args *args = r->args;
    if (i >= args->n)
        return;
    for (uint32_t t = 0; t < r->n_tables; t++) {
        const char *row = (const char *)(r->table[t] + (uint64_t)args->ids[i] * args->dim);
        for (uint64_t b = 0; b < args->dim * sizeof(float); b += SL_CACHE_LINE)
            __builtin_prefetch(row + b, 0, 2);
    }
}

// Numbers [from, from + n) of `rows` rows from row i on: all of them, or a part of one.
SL_INLINE uint32_t step_block(const struct rows *r, uint64_t i, uint64_t rows, uint64_t from,
                              uint64_t n)
{
    const struct sl_row_optimizer_args *args = r->args;
    const uint64_t dim = args->dim, at = i * dim + from;
    _Alignas(SL_CACHE_LINE) float g[BLOCK], x[1 + SL_ROW_OPTIMIZER_STATES][BLOCK];
    for (uint64_t k = 0; k < rows; k++) {
        if (from == 0)
            ask_for_rows(r, i + k + r->ahead);
        for (uint32_t t = 0; t < r->n_tables; t++)
            memcpy(x[t] + k * n, r->table[t] + args->ids[i + k] * dim + from, n * sizeof(float));
    }
    n *= rows;
    for (uint64_t k = 0; k < n; k++)
        g[k] = args->scale * args->gradient[at + k];
    __asm__("" : : "r"(g) : "memory"); // rounded, as reduce leaves it
    if (r->sgd)
        return sgd_span(r->sgd->lr, r->sgd->momentum, r->sgd->weight_decay, n, g, x[0], x[1],
                        args->values_out + at, args->state_out[0] + at);
    return adam_span(r->adam, n, g, x[0], x[1], x[2], args->values_out + at,
                     args->state_out[0] + at, args->state_out[1] + at);
}

SL_CPU_RANGE(rows_range)
{
    struct rows *r = context;
    const uint64_t dim = r->args->dim, most = SL_MAX(BLOCK / dim, (uint64_t)1);
    uint32_t carries = 0;
    for (uint64_t i = begin; i < SL_MIN(begin + r->ahead, end); i++)
        ask_for_rows(r, i);
    for (uint64_t i = begin; i < end; i += most) {
        const uint64_t rows = SL_MIN(most, end - i);
        for (uint64_t from = 0; from < dim; from += BLOCK)
            carries |= step_block(r, i, rows, from, SL_MIN(dim - from, (uint64_t)BLOCK));
    }
    note_broken(carries, &r->broken);
}

static void step_rows(struct rows *r, uint32_t *broken)
{
    const struct sl_row_optimizer_args *args = r->args;
    const uint64_t lines = sl_div_up(args->dim * sizeof(float), (uint64_t)SL_CACHE_LINE);
    const uint64_t ahead = SL_MAX(AHEAD_LINES / (lines * r->n_tables), (uint64_t)1);
    r->ahead = (uint32_t)SL_MIN(ahead, (uint64_t)AHEAD_ROWS);
    for (uint32_t t = 0; t < r->n_tables; t++)
        r->table[t] = t == 0 ? args->values : args->state[t - 1];
    sl_cpu_parallel_range(args->n, SL_MAX(GRAIN / args->dim, 1u), 16, rows_range, r);
    *broken |= atomic_load(&r->broken);
}

int sl_adam_rows(const struct sl_adam_step *step, const struct sl_row_optimizer_args *args,
                 uint32_t *broken)
{
    struct rows r = {.args = args, .n_tables = 3, .adam = sl_adam_constants(step)};
    SL_TRY(sl_check_adam(step, args->n, args->gradient, args->values, args->state[0],
                         args->state[1], args->values_out, args->state_out[0], args->state_out[1],
                         broken));
    step_rows(&r, broken);
    return SL_OK;
}

int sl_sgd_rows(const struct sl_sgd_step *step, const struct sl_row_optimizer_args *args,
                uint32_t *broken)
{
    struct rows r = {.args = args, .n_tables = 2, .sgd = step};
    SL_TRY(sl_check_sgd(step, args->n, args->gradient, args->values, args->state[0],
                        args->values_out, args->state_out[0], broken));
    step_rows(&r, broken);
    return SL_OK;
}
