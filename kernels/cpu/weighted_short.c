/*
 * weighted_short.c - see weighted_short.h.
 *
 * A row has 8, 16, 32 or 64 sums, those behind its last edge infinite. Rows of one size follow each
 * other: no branch depends on a row, and the steps of different rows overlap.
 *
 * Intrinsics, since GCC 12 makes no bits of a comparison of vectors; plain C for the rest.
 */
#include "kernels/cpu/weighted_short.h"

#include <math.h>

#include "common/base/isa.h"
#include "kernels/weighted_internal.h"

#define INLINE static inline __attribute__((always_inline))

// What all instruction sets have of a copy; the sums are next.
INLINE void open_row(struct sl_weighted_shorts *s, uint32_t r)
{
    struct sl_weighted_short *row = &s->row[r];
    row->none[7] = 0;
    row->left = s->prefix[r][s->degree[r] - 1];
    row->n_drawn = 0;
}

INLINE double point_of(const struct sl_weighted_short *row, const uint32_t *word)
{
    return sl_weighted_point(sl_weighted_bits(word[0], word[1]), row->left);
}

// The edge leaves; returns its weight.
INLINE double take(struct sl_weighted_short *row, uint32_t edge)
{
    // sums[-1] is none[7]
    double weight = row->sums[edge] - (&row->none[7])[edge];
    row->drawn[row->n_drawn++] = edge;
    row->left -= weight;
    return weight;
}

INLINE void step_plain(struct sl_weighted_short *row, const uint32_t *word, uint32_t n)
{
    double x = point_of(row, word);
    uint32_t edge = 0;
    for (uint32_t j = 0; j < n; j++)
        edge += row->sums[j] <= x;
    double weight = take(row, edge);
    for (uint32_t j = edge; j < n; j++)
        row->sums[j] -= weight;
}

INLINE void copy_plain(struct sl_weighted_shorts *s, uint32_t r, uint32_t n)
{
    const uint32_t degree = s->degree[r];
    open_row(s, r);
    for (uint32_t j = 0; j < n; j++)
        s->row[r].sums[j] = j < degree ? s->prefix[r][j] : INFINITY;
}

// For the rows of all sizes, each with its number of sums as a constant.
#define EACH(action)                                                                               \
    for (uint32_t i = 0; i < s->n[0]; i++)                                                         \
        action(s->of_size[0][i], 8);                                                               \
    for (uint32_t i = 0; i < s->n[1]; i++)                                                         \
        action(s->of_size[1][i], 16);                                                              \
    for (uint32_t i = 0; i < s->n[2]; i++)                                                         \
        action(s->of_size[2][i], 32);                                                              \
    for (uint32_t i = 0; i < s->n[3]; i++)                                                         \
        action(s->of_size[3][i], 64);
#define STEP(of, r, n)                                                                             \
    do {                                                                                           \
        if (s->row[r].left > 0)                                                                    \
            step_##of(&s->row[r], words + 4 * (size_t)(r), n);                                     \
    } while (0)
// The two bodies for an instruction set.
#define BODIES(of, target)                                                                         \
    target static void copy_all_##of(struct sl_weighted_shorts *s){                                \
        EACH(COPY_##of)} target static void draw_##of(struct sl_weighted_shorts *s,                \
                                                      const uint32_t *words)                       \
    {                                                                                              \
        EACH(STEP_##of)                                                                            \
    }
#define COPY_plain(r, n) copy_plain(s, r, n)
#define STEP_plain(r, n) STEP(plain, r, n)
BODIES(plain, )

#if defined(__x86_64__) && !defined(SL_SANITIZED)

#include <immintrin.h>

#define AVX512 __attribute__((target("arch=x86-64-v4")))

AVX512 INLINE void step_avx512(struct sl_weighted_short *row, const uint32_t *word, uint32_t n)
{
    const __m512d x = _mm512_set1_pd(point_of(row, word));
    uint64_t behind = 0; // the edges that do not lie before x
    for (uint32_t j = 0; j < n; j += 8)
        behind |= (uint64_t)_mm512_cmp_pd_mask(_mm512_load_pd(row->sums + j), x, _CMP_GT_OQ) << j;
    const __m512d weight = _mm512_set1_pd(take(row, (uint32_t)__builtin_ctzll(behind)));
    for (uint32_t j = 0; j < n; j += 8) {
        __m512d sums = _mm512_load_pd(row->sums + j);
        _mm512_store_pd(row->sums + j,
                        _mm512_mask_sub_pd(sums, (__mmask8)(behind >> j), sums, weight));
    }
}

AVX512 INLINE void copy_avx512(struct sl_weighted_shorts *s, uint32_t r, uint32_t n)
{
    const __m512d end = _mm512_set1_pd(INFINITY);
    const uint64_t there = UINT64_MAX >> (64 - s->degree[r]);
    open_row(s, r);
    for (uint32_t j = 0; j < n; j += 8)
        _mm512_store_pd(s->row[r].sums + j,
                        _mm512_mask_loadu_pd(end, (__mmask8)(there >> j), s->prefix[r] + j));
}

#define COPY_avx512(r, n) copy_avx512(s, r, n)
#define STEP_avx512(r, n) STEP(avx512, r, n)
BODIES(avx512, AVX512)

#define AVX2 __attribute__((target("arch=x86-64-v3")))

AVX2 INLINE void step_avx2(struct sl_weighted_short *row, const uint32_t *word, uint32_t n)
{
    const __m256d x = _mm256_set1_pd(point_of(row, word));
    uint64_t behind = 0;
    for (uint32_t j = 0; j < n; j += 4) {
        __m256d is = _mm256_cmp_pd(_mm256_load_pd(row->sums + j), x, _CMP_GT_OQ);
        behind |= (uint64_t)_mm256_movemask_pd(is) << j;
    }
    const __m256d weight = _mm256_set1_pd(take(row, (uint32_t)__builtin_ctzll(behind)));
    for (uint32_t j = 0; j < n; j += 4) {
        __m256d sums = _mm256_load_pd(row->sums + j);
        __m256d is = _mm256_cmp_pd(sums, x, _CMP_GT_OQ);
        _mm256_store_pd(row->sums + j, _mm256_sub_pd(sums, _mm256_and_pd(is, weight)));
    }
}

#define COPY_avx2(r, n) copy_plain(s, r, n)
#define STEP_avx2(r, n) STEP(avx2, r, n)
BODIES(avx2, AVX2)

void sl_weighted_shorts_copy(struct sl_weighted_shorts *s)
{
    const enum sl_isa isa = sl_isa();
    if (isa >= SL_ISA_AVX512)
        copy_all_avx512(s);
    else if (isa >= SL_ISA_AVX2)
        copy_all_avx2(s);
    else
        copy_all_plain(s);
}

void sl_weighted_shorts_draw(struct sl_weighted_shorts *s, const uint32_t *words)
{
    const enum sl_isa isa = sl_isa();
    if (isa >= SL_ISA_AVX512)
        draw_avx512(s, words);
    else if (isa >= SL_ISA_AVX2)
        draw_avx2(s, words);
    else
        draw_plain(s, words);
}

#else

void sl_weighted_shorts_copy(struct sl_weighted_shorts *s)
{
    copy_all_plain(s);
}

void sl_weighted_shorts_draw(struct sl_weighted_shorts *s, const uint32_t *words)
{
    draw_plain(s, words);
}

#endif
