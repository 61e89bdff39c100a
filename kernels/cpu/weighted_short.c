/*
 * weighted_short.c - see weighted_short.h.
 *
 * A row has 8, 16, 32 or 64 sums, those behind its last edge infinite, and rows of one size follow
 * each other: no branch depends on a row. The draws of AT_ONCE rows, with AVX2 of two or four, take
 * turns, their sums in registers; what waits for a draw of one row would leave the processor no
 * room to begin with the next one. With AVX2 four rows of 16 sums are too many for its registers.
 *
 * Intrinsics, since GCC 12 makes no bits of a comparison of vectors; plain C for the rest.
 */
#include "kernels/cpu/weighted_short.h"

#include <math.h>

#include "common/base/isa.h"
#include "common/base/simd.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/weighted_internal.h"

#define INLINE static inline __attribute__((always_inline))

_Static_assert((int)SL_WEIGHTED_ROWS == (int)SL_CPU_PHILOX_LANES, "blocks are made for a group");

// ---- points -------------------------------------------------------------------------------------

typedef uint64_t four_words __attribute__((vector_size(32), aligned(8), may_alias));
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

// AVX2 cannot convert 64-bit integers, and GCC 12 takes them one by one. But behind the exponent of
// 2^52 the low words are such numbers already, and behind that of 2^84 the high ones, 2^32 times.
SL_SIMD_VOID(convert, (const uint64_t *words, double *points), (words, points))
{
    for (uint32_t j = 0; j < 2 * SL_WEIGHTED_ROWS; j += 4) { // the high word comes first
        const four_words pair = *(const four_words *)(words + j);
        const four_words high = (pair & 0xffffffffu) >> 11 | UINT64_C(0x4530000000000000);
        const four_words low = pair >> 32 | UINT64_C(0x4330000000000000);
        const four bits = ((four)high - (0x1p84 + 0x1p52)) + (four)low;
        *(four *)(points + j) = bits * SL_WEIGHTED_LEAST;
    }
}

void sl_weighted_points_make(struct sl_weighted_points *points, const struct sl_khop_args *args,
                             uint32_t first, uint32_t k)
{
    union {
        uint32_t word[4 * SL_WEIGHTED_ROWS];
        uint64_t pair[2 * SL_WEIGHTED_ROWS];
    } of;
    for (uint32_t slot = 0; slot < k; slot += 2) {
        sl_cpu_philox_words(args->seed, args->stream, sl_weighted_tag(args->hop, slot), args->batch,
                            args->epoch, (uint64_t)(slot / 2) << 32 | first, SL_WEIGHTED_ROWS,
                            of.word);
        convert(of.pair, points->of[slot / 2]);
    }
}

// ---- draws --------------------------------------------------------------------------------------

// Where the row's next point lies.
INLINE double point_of(const struct sl_weighted_points *points, uint32_t slot, uint32_t r,
                       double left)
{
    return sl_weighted_point_of(points, slot, r) * left;
}

INLINE void row_plain(struct sl_weighted_shorts *s, uint32_t r, uint32_t k,
                      const struct sl_weighted_points *points, const uint32_t n)
{
    struct sl_weighted_drawn *drawn = &s->drawn[r];
    const double *prefix = s->prefix[r];
    const uint32_t degree = s->degree[r];
    double sums[SL_WEIGHTED_SHORT], left = prefix[degree - 1];
    uint32_t slot = 0;
    for (uint32_t j = 0; j < n; j++)
        sums[j] = j < degree ? prefix[j] : INFINITY;
    for (; slot < k && left > 0; slot++) {
        const double x = point_of(points, slot, r, left);
        uint32_t edge = 0;
        for (uint32_t j = 0; j < n; j++)
            edge += sums[j] <= x;
        const double weight = prefix[edge] - (edge > 0 ? prefix[edge - 1] : 0.0);
        for (uint32_t j = edge; j < n; j++)
            sums[j] -= weight;
        drawn->at[slot] = edge;
        left -= weight;
    }
    drawn->n = slot;
    drawn->left = left;
}

// Each size with its number of sums as a constant.
static void draw_plain(struct sl_weighted_shorts *s, uint32_t k,
                       const struct sl_weighted_points *points)
{
    for (uint32_t i = 0; i < s->n[0]; i++)
        row_plain(s, s->of_size[0][i], k, points, 8);
    for (uint32_t i = 0; i < s->n[1]; i++)
        row_plain(s, s->of_size[1][i], k, points, 16);
    for (uint32_t i = 0; i < s->n[2]; i++)
        row_plain(s, s->of_size[2][i], k, points, 32);
    for (uint32_t i = 0; i < s->n[3]; i++)
        row_plain(s, s->of_size[3][i], k, points, 64);
}

#if defined(__x86_64__) && !defined(SL_SANITIZED)

#include <immintrin.h>

#define AVX512 __attribute__((target("arch=x86-64-v4")))

enum { AT_ONCE = 4 }; // rows whose draws take turns
_Static_assert(SL_WEIGHTED_ROWS % AT_ONCE == 0, "a list of rows has room for one several times");

// So that the last rows can be drawn AT_ONCE, with one of them several times.
static void repeat_last(struct sl_weighted_shorts *s)
{
    for (uint32_t c = 0; c < SL_WEIGHTED_SHORT_SIZES; c++)
        for (uint32_t i = s->n[c]; i % AT_ONCE != 0; i++)
            s->of_size[c][i] = s->of_size[c][i - 1];
}

// The rows of r[0 .. AT_ONCE), which may be one several times. A row without weight goes on
// with weights of 0.
AVX512 INLINE void rows_avx512(struct sl_weighted_shorts *s, const uint32_t *r, uint32_t k,
                               const struct sl_weighted_points *points, const uint32_t n)
{
    _Alignas(64) double weights[AT_ONCE][SL_WEIGHTED_SHORT + 8];
    __m512d sums[AT_ONCE][SL_WEIGHTED_SHORT / 8];
    const double *u[AT_ONCE];
    double left[AT_ONCE];
    uint32_t n_drawn[AT_ONCE] = {0}, *drawn[AT_ONCE];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        const double *prefix = s->prefix[r[i]];
        const uint64_t there = UINT64_MAX >> (64 - s->degree[r[i]]);
        __m512i before = _mm512_setzero_si512();
        left[i] = prefix[s->degree[r[i]] - 1];
        u[i] = &points->of[0][2 * r[i]];
        drawn[i] = s->drawn[r[i]].at;
        weights[i][n] = 0; // where a row without weight looks
#pragma GCC unroll 8
        for (uint32_t v = 0; v < n / 8; v++) {
            const __mmask8 is = (__mmask8)(there >> 8 * v);
            sums[i][v] = _mm512_mask_loadu_pd(_mm512_set1_pd(INFINITY), is, prefix + 8 * v);
            const __m512i these = _mm512_castpd_si512(sums[i][v]);
            const __m512d last = _mm512_castsi512_pd(_mm512_alignr_epi64(these, before, 7));
            _mm512_store_pd(weights[i] + 8 * v, _mm512_maskz_sub_pd(is, sums[i][v], last));
            before = these;
        }
    }
    for (uint32_t slot = 0; slot < k; slot++) {
        const uint32_t at = slot / 2 * (2 * SL_WEIGHTED_ROWS) + slot % 2;
#pragma GCC unroll 4
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const __m512d x = _mm512_set1_pd(u[i][at] * left[i]);
            uint64_t behind = n < 64 ? UINT64_C(1) << (n & 63) : 0; // edges not before x
            __mmask8 is[SL_WEIGHTED_SHORT / 8];
#pragma GCC unroll 8
            for (uint32_t v = 0; v < n / 8; v++) {
                is[v] = _mm512_cmp_pd_mask(sums[i][v], x, _CMP_GT_OQ);
                behind |= (uint64_t)is[v] << 8 * v;
            }
            const uint32_t edge = (uint32_t)_tzcnt_u64(behind);
            const __m512d weight = _mm512_set1_pd(weights[i][edge]);
#pragma GCC unroll 8
            for (uint32_t v = 0; v < n / 8; v++)
                sums[i][v] = _mm512_mask_sub_pd(sums[i][v], is[v], sums[i][v], weight);
            drawn[i][slot] = edge;
            n_drawn[i] += left[i] > 0;
            left[i] -= weights[i][edge];
        }
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        s->drawn[r[i]].n = n_drawn[i];
        s->drawn[r[i]].left = left[i];
    }
}

#define SIZE(which, sums)                                                                          \
    for (uint32_t i = 0; i < s->n[which]; i += AT_ONCE)                                            \
        rows_avx512(s, s->of_size[which] + i, k, points, sums);

AVX512 static void draw_avx512(struct sl_weighted_shorts *s, uint32_t k,
                               const struct sl_weighted_points *points)
{
    repeat_last(s);
    SIZE(0, 8) SIZE(1, 16) SIZE(2, 32) SIZE(3, 64)
}

#define AVX2 __attribute__((target("arch=x86-64-v3")))

// As rows_avx512(), of r[0 .. rows).
AVX2 INLINE void rows_avx2(struct sl_weighted_shorts *s, const uint32_t *r, uint32_t k,
                           const struct sl_weighted_points *points, const uint32_t rows,
                           const uint32_t n)
{
    const __m256i step = _mm256_setr_epi64x(0, 1, 2, 3);
    double weights[AT_ONCE][SL_WEIGHTED_SHORT + 4];
    __m256d sums[AT_ONCE][SL_WEIGHTED_SHORT / 4];
    const double *u[AT_ONCE];
    double left[AT_ONCE];
    uint32_t n_drawn[AT_ONCE] = {0}, *drawn[AT_ONCE];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < rows; i++) {
        const double *prefix = s->prefix[r[i]];
        const __m256i degree = _mm256_set1_epi64x(s->degree[r[i]]);
        __m256d before = _mm256_setzero_pd(); // its last one is the sum before
        left[i] = prefix[s->degree[r[i]] - 1];
        u[i] = &points->of[0][2 * r[i]];
        drawn[i] = s->drawn[r[i]].at;
        weights[i][n] = 0; // where a row without weight looks
#pragma GCC unroll 16
        for (uint32_t v = 0; v < n / 4; v++) {
            const __m256i number = _mm256_add_epi64(step, _mm256_set1_epi64x(4 * v));
            const __m256i is = _mm256_cmpgt_epi64(degree, number);
            const __m256d these = _mm256_maskload_pd(prefix + 4 * v, is);
            const __m256d turned = _mm256_permute4x64_pd(these, _MM_SHUFFLE(2, 1, 0, 3));
            const __m256d there = _mm256_castsi256_pd(is);
            const __m256d weight = _mm256_sub_pd(these, _mm256_blend_pd(turned, before, 1));
            _mm256_storeu_pd(weights[i] + 4 * v, _mm256_and_pd(weight, there));
            before = turned;
            sums[i][v] = _mm256_blendv_pd(_mm256_set1_pd(INFINITY), these, there);
        }
    }
    for (uint32_t slot = 0; slot < k; slot++) {
        const uint32_t at = slot / 2 * (2 * SL_WEIGHTED_ROWS) + slot % 2;
#pragma GCC unroll 4
        for (uint32_t i = 0; i < rows; i++) {
            const __m256d x = _mm256_set1_pd(u[i][at] * left[i]);
            uint64_t behind = n < 64 ? UINT64_C(1) << (n & 63) : 0; // edges not before x
#pragma GCC unroll 16
            for (uint32_t v = 0; v < n / 4; v++) {
                const __m256d is = _mm256_cmp_pd(sums[i][v], x, _CMP_GT_OQ);
                behind |= (uint64_t)(uint32_t)_mm256_movemask_pd(is) << 4 * v;
            }
            const uint32_t edge = (uint32_t)_tzcnt_u64(behind);
            const __m256d weight = _mm256_set1_pd(weights[i][edge]);
#pragma GCC unroll 16
            for (uint32_t v = 0; v < n / 4; v++) {
                const __m256d is = _mm256_cmp_pd(sums[i][v], x, _CMP_GT_OQ);
                sums[i][v] = _mm256_sub_pd(sums[i][v], _mm256_and_pd(is, weight));
            }
            drawn[i][slot] = edge;
            n_drawn[i] += left[i] > 0;
            left[i] -= weights[i][edge];
        }
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < rows; i++) {
        s->drawn[r[i]].n = n_drawn[i];
        s->drawn[r[i]].left = left[i];
    }
}

#define SIZE_AVX2(which, rows, sums)                                                               \
    for (uint32_t i = 0; i < s->n[which]; i += (rows))                                             \
        rows_avx2(s, s->of_size[which] + i, k, points, rows, sums);

AVX2 static void draw_avx2(struct sl_weighted_shorts *s, uint32_t k,
                           const struct sl_weighted_points *points)
{
    repeat_last(s);
    SIZE_AVX2(0, 4, 8) SIZE_AVX2(1, 2, 16) SIZE_AVX2(2, 2, 32) SIZE_AVX2(3, 2, 64)
}

void sl_weighted_shorts_draw(struct sl_weighted_shorts *s, uint32_t k,
                             const struct sl_weighted_points *points)
{
    const enum sl_isa isa = sl_isa();
    if (isa >= SL_ISA_AVX512)
        draw_avx512(s, k, points);
    else if (isa >= SL_ISA_AVX2)
        draw_avx2(s, k, points);
    else
        draw_plain(s, k, points);
}

#else

void sl_weighted_shorts_draw(struct sl_weighted_shorts *s, uint32_t k,
                             const struct sl_weighted_points *points)
{
    draw_plain(s, k, points);
}

#endif
