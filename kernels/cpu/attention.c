/*
 * The softmax of attention: scores of edges, normalised over each row's edges, for several heads.
 *
 * Problem. A row has a handful of edges and an edge a handful of heads: loops over either are too
 * short for vectors, and GCC unrolls them into scalars with a branch for every comparison, which
 * the sign of a score mispredicts half the time. The scores of the sources are read from anywhere.
 *
 * Design. Rows are taken in groups of about GROUP scores, which stay in the first-level cache. The
 * sums of the two terms are written to where the result will be; what needs no row, the leaky relu
 * and exp(), runs over the whole group as over one flat array; maximum, sum and scaling of a row go
 * edge by edge in strips of 8, 4 or 1 heads, a vector each. 1, 2, 4 and 8 heads are functions of
 * their own, made by inlining with a constant.
 *
 * Backward needs the slope at each score alone: the scores are added up again, a flat piece at a
 * time, instead of being kept. The gradients of the sources' scores are sums over the transposed
 * adjacency. Scores that are the edges' own are where the result will be from the start.
 *
 * Invariant. All sums run in edge order within a row, which one thread owns.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/vector.h"

enum {
    GROUP = 2048, // floats
    PREFETCH_EDGES = 16,
};

// ---- strips of heads ----------------------------------------------------------------------------

// N heads of an edge, anywhere in memory.
typedef float strip_1;
typedef float strip_4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float strip_8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mask_4 __attribute__((vector_size(16)));
typedef int32_t mask_8 __attribute__((vector_size(32)));

SL_INLINE void larger_1(float *top, const float *x)
{
    *top = *x > *top ? *x : *top; // a NaN is left out: it shows in the sum
}

SL_INLINE void larger_4(strip_4 *top, const strip_4 *x)
{
    mask_4 more = *x > *top;
    *top = (strip_4)((more & (mask_4)*x) | (~more & (mask_4)*top));
}

SL_INLINE void larger_8(strip_8 *top, const strip_8 *x)
{
    mask_8 more = *x > *top;
    *top = (strip_8)((more & (mask_8)*x) | (~more & (mask_8)*top));
}

// The loops over n edges of one row, for strips of N heads; `heads` floats from edge to edge.
#define STRIP_LOOPS(N)                                                                             \
    /* score[e] = src[indices[e]] + dst */                                                         \
    SL_INLINE void add_scores_##N(const uint32_t *indices, uint32_t n, uint32_t n_ahead,           \
                                  uint64_t heads, const float *src, const float *dst,              \
                                  float *score)                                                    \
    {                                                                                              \
        strip_##N own = *(const strip_##N *)dst;                                                   \
        for (uint32_t e = 0; e < n; e++) {                                                         \
            __builtin_prefetch(src + indices[SL_MIN(e + PREFETCH_EDGES, n_ahead - 1)] * heads);    \
            *(strip_##N *)(score + e * heads) =                                                    \
                *(const strip_##N *)(src + indices[e] * heads) + own;                              \
        }                                                                                          \
    }                                                                                              \
    SL_INLINE void subtract_top_##N(uint32_t n, uint64_t heads, float *score)                      \
    {                                                                                              \
        if (n == 0)                                                                                \
            return;                                                                                \
        strip_##N top = *(const strip_##N *)score;                                                 \
        for (uint32_t e = 1; e < n; e++)                                                           \
            larger_##N(&top, (const strip_##N *)(score + e * heads));                              \
        for (uint32_t e = 0; e < n; e++)                                                           \
            *(strip_##N *)(score + e * heads) -= top;                                              \
    }                                                                                              \
    SL_INLINE void divide_by_sum_##N(uint32_t n, uint64_t heads, float *alpha)                     \
    {                                                                                              \
        strip_##N sum = (strip_##N){0};                                                            \
        for (uint32_t e = 0; e < n; e++)                                                           \
            sum += *(const strip_##N *)(alpha + e * heads);                                        \
        sum = 1.0f / sum;                                                                          \
        for (uint32_t e = 0; e < n; e++)                                                           \
            *(strip_##N *)(alpha + e * heads) *= sum;                                              \
    }                                                                                              \
    /* dalpha = alpha * (dalpha - <alpha, dalpha>) */                                              \
    SL_INLINE void grad_shares_##N(uint32_t n, uint64_t heads, const float *alpha, float *dalpha)  \
    {                                                                                              \
        strip_##N dot = (strip_##N){0};                                                            \
        for (uint32_t e = 0; e < n; e++)                                                           \
            dot += *(const strip_##N *)(alpha + e * heads) *                                       \
                   *(const strip_##N *)(dalpha + e * heads);                                       \
        for (uint32_t e = 0; e < n; e++)                                                           \
            *(strip_##N *)(dalpha + e * heads) = *(const strip_##N *)(alpha + e * heads) *         \
                                                 (*(const strip_##N *)(dalpha + e * heads) - dot); \
    }                                                                                              \
    /* sum = x[edge[0]] + x[edge[1]] + ..., or of x[0], x[1], ... */                               \
    SL_INLINE void add_up_##N(const uint32_t *edge, uint32_t n, uint32_t n_ahead, uint64_t heads,  \
                              const float *x, float *out)                                          \
    {                                                                                              \
        strip_##N sum = (strip_##N){0};                                                            \
        for (uint32_t e = 0; e < n; e++) {                                                         \
            if (edge)                                                                              \
                __builtin_prefetch(x + edge[SL_MIN(e + PREFETCH_EDGES, n_ahead - 1)] * heads);     \
            sum += *(const strip_##N *)(x + (edge ? edge[e] : e) * heads);                         \
        }                                                                                          \
        *(strip_##N *)out = sum;                                                                   \
    }
STRIP_LOOPS(1)
STRIP_LOOPS(4)
STRIP_LOOPS(8)

// Calls loop_N(...) for strips that cover all heads; the arguments may say `h`, the first of them.
#define FOR_STRIPS(heads, loop, ...)                                                               \
    do {                                                                                           \
        uint64_t h = 0;                                                                            \
        for (; h + 8 <= (heads); h += 8)                                                           \
            loop##_8(__VA_ARGS__);                                                                 \
        for (; h + 4 <= (heads); h += 4)                                                           \
            loop##_4(__VA_ARGS__);                                                                 \
        for (; h < (heads); h++)                                                                   \
            loop##_1(__VA_ARGS__);                                                                 \
    } while (0)

// ---- forward ------------------------------------------------------------------------------------

SL_INLINE void exp_in_place(float *x, uint64_t n)
{
    sl_v16 v;
    uint64_t i = 0;
    for (; i + SL_LANES <= n; i += SL_LANES) {
        v = *(const sl_v16_at *)(x + i);
        sl_v16_exp_negative(&v, &v);
        *(sl_v16_at *)(x + i) = v;
    }
    if (i == n)
        return;
    v = (sl_v16){0};
    memcpy(&v, x + i, (n - i) * sizeof *x);
    sl_v16_exp_negative(&v, &v);
    memcpy(x + i, &v, (n - i) * sizeof *x);
}

// The first row behind a group that begins with `row`: at least one, however many edges it has.
SL_INLINE uint32_t group_end(const struct sl_csr_view *csr, uint32_t row, uint32_t end,
                             uint64_t heads)
{
    uint32_t next = row + 1;
    while (next < end && (csr->indptr[next + 1] - csr->indptr[row]) * heads <= GROUP)
        next++;
    return next;
}

SL_INLINE void softmax_rows(const struct sl_edge_softmax_args *args, uint32_t begin, uint32_t end,
                            uint64_t heads)
{
    const uint32_t *indptr = args->csr.indptr, *indices = args->csr.indices;
    uint32_t all = indptr[args->csr.n_dst];
    float slope = args->negative_slope;
    for (uint32_t row = begin, next; row < end; row = next) {
        next = group_end(&args->csr, row, end, heads);
        float *group = args->alpha + indptr[row] * heads;
        uint64_t n = (indptr[next] - indptr[row]) * heads;
        for (uint32_t i = row; args->score_src && i < next; i++)
            FOR_STRIPS(heads, add_scores, indices + indptr[i], indptr[i + 1] - indptr[i],
                       all - indptr[i], heads, args->score_src + h, args->score_dst + i * heads + h,
                       args->alpha + indptr[i] * heads + h);
        for (uint64_t k = 0; args->score_src && k < n; k++)
            group[k] = group[k] > 0.0f ? group[k] : group[k] * slope;
        for (uint32_t i = row; i < next; i++)
            FOR_STRIPS(heads, subtract_top, indptr[i + 1] - indptr[i], heads,
                       args->alpha + indptr[i] * heads + h);
        exp_in_place(group, n);
        for (uint32_t i = row; i < next; i++)
            FOR_STRIPS(heads, divide_by_sum, indptr[i + 1] - indptr[i], heads,
                       args->alpha + indptr[i] * heads + h);
    }
}

// ---- backward -----------------------------------------------------------------------------------

// Multiplies the gradients of rows row .. next, or of a piece of one row, with the slopes at their
// scores: `n` edges from edge `first` on, whose scores fit into `score` (GROUP).
SL_INLINE void multiply_slopes(const struct sl_edge_softmax_grad_args *args, uint32_t row,
                               uint32_t next, uint32_t first, uint32_t n, uint64_t heads,
                               float *score)
{
    const uint32_t *indptr = args->csr.indptr, *indices = args->csr.indices;
    float *dalpha = args->dalpha + first * heads, slope = args->negative_slope;
    uint32_t all = indptr[args->csr.n_dst];
    for (uint32_t i = row; i < next; i++) {
        uint32_t from = SL_MAX(indptr[i], first), to = SL_MIN(indptr[i + 1], first + n);
        FOR_STRIPS(heads, add_scores, indices + from, to - from, all - from, heads,
                   args->score_src + h, args->score_dst + i * heads + h,
                   score + (from - first) * heads + h);
    }
    for (uint64_t k = 0; k < n * heads; k++)
        dalpha[k] *= score[k] > 0.0f ? 1.0f : slope;
}

// dalpha of each row's edges becomes the gradient of their scores; dscore_dst their sum.
SL_INLINE void grad_rows(const struct sl_edge_softmax_grad_args *args, uint32_t begin, uint32_t end,
                         uint64_t heads)
{
    const uint32_t *indptr = args->csr.indptr;
    uint32_t piece = (uint32_t)(GROUP / heads);
    float score[GROUP];
    for (uint32_t row = begin, next; row < end; row = next) {
        next = group_end(&args->csr, row, end, heads);
        for (uint32_t i = row; i < next; i++)
            FOR_STRIPS(heads, grad_shares, indptr[i + 1] - indptr[i], heads,
                       args->alpha + indptr[i] * heads + h, args->dalpha + indptr[i] * heads + h);
        if (!args->score_src)
            continue;
        for (uint32_t e = indptr[row]; e < indptr[next]; e += SL_MIN(piece, indptr[next] - e))
            multiply_slopes(args, row, next, e, SL_MIN(piece, indptr[next] - e), heads, score);
        for (uint32_t i = row; i < next; i++)
            FOR_STRIPS(heads, add_up, NULL, indptr[i + 1] - indptr[i], 0, heads,
                       args->dalpha + indptr[i] * heads + h, args->dscore_dst + i * heads + h);
    }
}

// dscore_src of the sources begin .. end, from the gradients of the scores.
SL_INLINE void grad_sources(const struct sl_edge_softmax_grad_args *args, uint32_t begin,
                            uint32_t end, uint64_t heads)
{
    const uint32_t *t_indptr = args->transposed.indptr;
    uint32_t all = t_indptr[args->transposed.n_dst];
    for (uint32_t j = begin; j < end; j++)
        FOR_STRIPS(heads, add_up, args->t_edge + t_indptr[j], t_indptr[j + 1] - t_indptr[j],
                   all - t_indptr[j], heads, args->dalpha + h, args->dscore_src + j * heads + h);
}

// ---- variants and entries -----------------------------------------------------------------------

// One of the three loops above, for constant and for other numbers of heads.
#define VARIANT(loop, name, heads)                                                                 \
    SL_CPU_ROWS(loop##_##name)                                                                     \
    {                                                                                              \
        loop(context, begin, end, heads);                                                          \
    }
#define VARIANTS(loop, type)                                                                       \
    VARIANT(loop, 1, 1)                                                                            \
    VARIANT(loop, 2, 2)                                                                            \
    VARIANT(loop, 4, 4)                                                                            \
    VARIANT(loop, 8, 8)                                                                            \
    VARIANT(loop, any, ((const type *)context)->heads)                                             \
    static sl_cpu_rows_fn *loop##_of(uint32_t heads)                                               \
    {                                                                                              \
        switch (heads) {                                                                           \
        case 1: return loop##_1;                                                                   \
        case 2: return loop##_2;                                                                   \
        case 4: return loop##_4;                                                                   \
        case 8: return loop##_8;                                                                   \
        default: return loop##_any;                                                                \
        }                                                                                          \
    }
VARIANTS(softmax_rows, struct sl_edge_softmax_args)
VARIANTS(grad_rows, struct sl_edge_softmax_grad_args)
VARIANTS(grad_sources, struct sl_edge_softmax_grad_args)

int sl_cpu_edge_softmax(const struct sl_edge_softmax_args *args)
{
    SL_TRY(sl_check_edge_softmax(args));
    sl_cpu_parallel_rows(&args->csr, args->heads * (uint64_t)16, softmax_rows_of(args->heads),
                         args);
    return SL_OK;
}

int sl_cpu_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args)
{
    SL_TRY(sl_check_edge_softmax_backward(args));
    sl_cpu_parallel_rows(&args->csr, args->heads * (uint64_t)16, grad_rows_of(args->heads), args);
    if (args->score_src)
        sl_cpu_parallel_rows(&args->transposed, args->heads * (uint64_t)8,
                             grad_sources_of(args->heads), args);
    return SL_OK;
}
