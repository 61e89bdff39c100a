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
 * Rows lie anywhere, and reading them is what takes long: those behind are on their way while a
 * row is computed, as many of them as are about all lines that a core can wait for at once. A row
 * of whole vectors is computed where it lies. Others are copied side by side first, a few at a
 * time.
 */

enum {
    BLOCK = 256,       // numbers of each array that are computed at a time
    AHEAD_ROWS = 32,   // that are asked for, at most
    AHEAD_LINES = 384, // likewise
};

SL_INLINE void ask_for(const float *row, uint32_t dim)
{
    for (uint64_t b = 0; b < dim * sizeof *row; b += SL_CACHE_LINE)
        __builtin_prefetch((const char *)row + b, 0, 2);
}

SL_INLINE const float *part_of(const struct sl_row_optimizer_args *args, uint64_t part)
{
    const uint32_t at = args->parts[part].at;
    const uint64_t row = at & (SL_GRADIENT_PAGE - 1);
    return args->pages[at >> SL_GRADIENT_PAGE_BITS] + row * args->dim;
}

SL_INLINE void ask_for_gradient(const struct sl_row_optimizer_args *args, uint64_t i)
{
    for (uint64_t p = args->first[i]; p < args->first[i + 1]; p++)
        ask_for(part_of(args, p), args->dim);
}

SL_INLINE void ask_for_row(const struct sl_row_optimizer *o, uint64_t i)
{
    const struct sl_row_optimizer_args *args = &o->args;
    if (i >= args->n)
        return;
    for (uint32_t t = 0; t < o->n_tables; t++)
        ask_for(o->table[t] + (uint64_t)args->ids[i] * args->dim, args->dim);
    ask_for_gradient(args, i);
}

// Numbers [from, from + n) of row i's gradient, not scaled: in `room`, or where its only part lies.
SL_INLINE const float *gradient_of(const struct sl_row_optimizer_args *args, uint64_t i,
                                   uint64_t from, uint64_t n, float *restrict room)
{
    uint64_t p = args->first[i], end = args->first[i + 1];
    const float *first = part_of(args, p) + from;
    if (p + 1 == end)
        return first;
    const float *second = part_of(args, p + 1) + from;
    for (uint64_t k = 0; k < n; k++)
        room[k] = first[k] + second[k];
    for (p += 2; p < end; p++) {
        const float *more = part_of(args, p) + from;
        for (uint64_t k = 0; k < n; k++)
            room[k] += more[k];
    }
    return room;
}

struct row_range {
    const struct sl_row_optimizer *o;
    uint64_t begin, end;
    float *const *out;
};

// Numbers [from, from + n) of `rows` rows from row i on: all of them, or a part of one.
SL_INLINE uint32_t step_block(const struct row_range *r, uint64_t i, uint64_t rows, uint64_t from,
                              uint64_t n)
{
    const struct sl_row_optimizer *o = r->o;
    const struct sl_row_optimizer_args *args = &o->args;
    const uint64_t dim = args->dim, at = (i - r->begin) * dim + from;
    _Alignas(SL_CACHE_LINE) float g[BLOCK], sum[BLOCK], copies[1 + SL_ROW_OPTIMIZER_STATES][BLOCK];
    const float *x[1 + SL_ROW_OPTIMIZER_STATES];
    for (uint64_t k = 0; k < rows; k++) {
        if (from == 0)
            ask_for_row(o, i + k + o->ahead);
        const float *gradient = gradient_of(args, i + k, from, n, sum);
        for (uint64_t c = 0; c < n; c++)
            g[k * n + c] = args->scale * gradient[c];
        for (uint32_t t = 0; t < o->n_tables; t++) {
            const float *row = o->table[t] + args->ids[i + k] * dim + from;
            if (rows > 1)
                memcpy(copies[t] + k * n, row, n * sizeof *row);
            x[t] = rows > 1 ? copies[t] : row;
        }
    }
    __asm__("" : : "r"(g) : "memory"); // rounded, as reduce leaves it
    n *= rows;
    if (o->is_sgd)
        return sgd_span(o->sgd.lr, o->sgd.momentum, o->sgd.weight_decay, n, g, x[0], x[1],
                        r->out[0] + at, r->out[1] + at);
    return adam_span(o->adam, n, g, x[0], x[1], x[2], r->out[0] + at, r->out[1] + at,
                     r->out[2] + at);
}

SL_SIMD(uint32_t, step_range, (const struct row_range *r), (r))
{
    const uint64_t dim = r->o->args.dim;
    const uint64_t most = dim % SL_LANES ? SL_MAX(BLOCK / dim, (uint64_t)1) : 1;
    uint32_t carries = 0;
    for (uint64_t i = r->begin; i < r->end; i += most) {
        const uint64_t rows = SL_MIN(most, r->end - i);
        for (uint64_t from = 0; from < dim; from += BLOCK)
            carries |= step_block(r, i, rows, from, SL_MIN(dim - from, (uint64_t)BLOCK));
    }
    return carries;
}

bool sl_row_optimizer_step(const struct sl_row_optimizer *o, uint64_t begin, uint64_t end,
                           float *const out[1 + SL_ROW_OPTIMIZER_STATES])
{
    const struct row_range r = {o, begin, end, out};
    return step_range(&r) >> 31 == 0;
}

SL_SIMD_VOID(write_rows,
             (const float *rows, const uint32_t *ids, uint64_t n, uint32_t dim, float *table),
             (rows, ids, n, dim, table))
{
    for (uint64_t i = 0; i < n; i++, rows += dim) {
        float *row = table + (uint64_t)ids[i] * dim;
        uint64_t c = 0;
        for (; c + SL_LANES <= dim; c += SL_LANES)
            *(sl_v16_at *)(row + c) = *(const sl_v16_at *)(rows + c);
        for (; c < dim; c++)
            row[c] = rows[c];
    }
}

void sl_row_optimizer_write(const float *rows, const uint32_t *ids, uint64_t n, uint32_t dim,
                            float *table)
{
    write_rows(rows, ids, n, dim, table);
}

SL_SIMD_VOID(sum_range,
             (const struct sl_row_optimizer_args *args, uint64_t begin, uint64_t end, float *out),
             (args, begin, end, out))
{
    enum { AHEAD = 8 };
    for (uint64_t i = begin; i < end; i++, out += args->dim) {
        if (i + AHEAD < args->n)
            ask_for_gradient(args, i + AHEAD);
        const float *only = gradient_of(args, i, 0, args->dim, out);
        if (only != out)
            memcpy(out, only, args->dim * sizeof *out);
    }
}

void sl_row_optimizer_sum(const struct sl_row_optimizer_args *args, uint64_t begin, uint64_t end,
                          float *out)
{
    sum_range(args, begin, end, out);
}

static struct sl_row_optimizer optimizer_of(const struct sl_row_optimizer_args *args,
                                            uint32_t n_tables)
{
    const uint64_t lines = sl_div_up(args->dim * sizeof(float), (uint64_t)SL_CACHE_LINE);
    const uint64_t ahead = SL_MAX(AHEAD_LINES / (lines * (n_tables + 1)), (uint64_t)1);
    return (struct sl_row_optimizer){.args = *args,
                                     .table = {args->values, args->state[0], args->state[1]},
                                     .n_tables = n_tables,
                                     .ahead = (uint32_t)SL_MIN(ahead, (uint64_t)AHEAD_ROWS)};
}

int sl_adam_rows(const struct sl_adam_step *step, const struct sl_row_optimizer_args *args,
                 struct sl_row_optimizer *out)
{
    SL_TRY(sl_check_adam(step, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    *out = optimizer_of(args, 3);
    out->adam = sl_adam_constants(step);
    return SL_OK;
}

int sl_sgd_rows(const struct sl_sgd_step *step, const struct sl_row_optimizer_args *args,
                struct sl_row_optimizer *out)
{
    SL_TRY(sl_check_sgd(step, 0, NULL, NULL, NULL, NULL, NULL, NULL));
    *out = optimizer_of(args, 2);
    out->is_sgd = true;
    out->sgd = *step;
    return SL_OK;
}
