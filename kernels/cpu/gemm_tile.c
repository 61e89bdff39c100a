/*
 * The tiles of gemm_tile.h for each instruction set, from one source.
 *
 * Shapes: the accumulators, one panel row of b and a broadcast element of a fill the registers
 * (32 with AVX-512, 16 below), and there are enough of them to hide a multiply-add's latency. The
 * panel of a (8 KiB or less) stays in the first-level cache while the panels of b stream by from
 * the second.
 */
#include "kernels/cpu/gemm_tile.h"

#include "common/base/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_at __attribute__((vector_size(16), aligned(4), may_alias));

// A word in every lane; sum + x * row.
#define F32_WORDS(attribute, vec)                                                                  \
    attribute INLINE vec spread_##vec(const float *word)                                           \
    {                                                                                              \
        return *word - (vec){0};                                                                   \
    }                                                                                              \
    attribute INLINE vec add_##vec(vec sum, vec x, vec row)                                        \
    {                                                                                              \
        return sum + x * row;                                                                      \
    }

F32_WORDS(, v4)

// The first `count` lanes from memory (the others are not read and 0) and to memory.
INLINE v4 read_v4(const float *from, uint64_t count)
{
    v4 v = {0};
    for (uint64_t i = 0; i < count; i++)
        v[i] = from[i];
    return v;
}

INLINE void write_v4(float *to, v4 v, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = v[i];
}

// A row of sums to c; `last` columns of the last vector.
#define WRITE_ROW(vec, LANES, NV, sum, t, last, c)                                                 \
    UNROLL for (int j = 0; j < NV; j++, c += LANES)                                                \
    {                                                                                              \
        const int whole = j < NV - 1 || last == LANES;                                             \
        vec v = t->alpha * sum[j];                                                                 \
        if (t->accumulate)                                                                         \
            v += whole ? (vec) * (const vec##_at *)c : read_##vec(c, last);                        \
        if (whole)                                                                                 \
            *(vec##_at *)c = v;                                                                    \
        else                                                                                       \
            write_##vec(c, v, last);                                                               \
    }

/*
 * One tile's code. `vec` is a vector of c, `op` one of words; RS and KS are the distances of rows
 * and of k in a, FETCHES whether it fetches what is multiplied next.
 */
#define TILE(name, target, vec, op, LANES, MR, NV, RS, KS, FETCHES)                                \
    target static void name(const struct sl_cpu_tile *t)                                           \
    {                                                                                              \
        const float *a = t->a, *b = t->b, *const next = t->next;                                   \
        const uint64_t lda = t->lda, ldb = t->ldb, ld_next = t->ld_next, shift = t->next_shift;    \
        (void)lda, (void)next, (void)ld_next, (void)shift;                                         \
        vec sum[MR][NV] = {0};                                                                     \
        for (uint64_t k = 0; k < t->k; k++, a += KS, b += ldb) {                                   \
            if (FETCHES)                                                                           \
                __builtin_prefetch(next + (k >> shift) * ld_next, 0, 2);                           \
            op row[NV];                                                                            \
            UNROLL for (int j = 0; j < NV; j++) row[j] =                                           \
                *(const op##_at *)(const void *)(b + j * LANES);                                   \
            UNROLL for (int i = 0; i < MR; i++)                                                    \
            {                                                                                      \
                op x = spread_##op(a + i * RS);                                                    \
                UNROLL for (int j = 0; j < NV; j++) sum[i][j] = add_##op(sum[i][j], x, row[j]);    \
            }                                                                                      \
        }                                                                                          \
        const uint64_t last = t->columns - (NV - 1) * LANES;                                       \
        UNROLL for (int i = 0; i < MR; i++)                                                        \
        {                                                                                          \
            if ((uint64_t)i >= t->rows)                                                            \
                return;                                                                            \
            float *c = t->c + (uint64_t)i * t->ldc;                                                \
            WRITE_ROW(vec, LANES, NV, sum[i], t, last, c)                                          \
        }                                                                                          \
    }

INLINE void fetch(struct sl_cpu_lines next[2], uint64_t n)
{
    for (; n > 0; n--) {
        struct sl_cpu_lines *of = &next[next->rows == 0];
        if (of->rows == 0)
            return;
        __builtin_prefetch(of->row + of->column, 0, 2);
        of->column += SL_TILE_LINE;
        if (of->column >= of->width) {
            of->column = 0;
            of->row += of->ld;
            of->rows--;
        }
    }
}

// Rows of c from lists: each entry is one word of a and names the row of b.
#define LISTED(name, target, vec, op, LANES, NV)                                                   \
    target static void name##_listed_##NV(const struct sl_cpu_listed *t)                           \
    {                                                                                              \
        const uint64_t last = t->columns - (NV - 1) * LANES, slices = t->list->slices;             \
        const uint32_t *begin = t->list->begin + t->slice, *at = t->list->at;                      \
        const float *word = t->list->word;                                                         \
        float *sums = t->sums;                                                                     \
        for (uint64_t i = 0; i < t->rows; i++, begin += slices, sums += NV * LANES) {              \
            vec sum[NV] = {0};                                                                     \
            if (t->slice > 0) {                                                                    \
                UNROLL for (int j = 0; j < NV; j++) sum[j] =                                       \
                    *(const vec##_at *)(sums + j * LANES);                                         \
            }                                                                                      \
            for (uint64_t e = begin[0]; e < begin[1]; e += SL_LIST_STEP)                           \
                UNROLL for (int u = 0; u < SL_LIST_STEP; u++)                                      \
                {                                                                                  \
                    const float *b = t->b + at[e + u];                                             \
                    op x = spread_##op(word + e + u);                                              \
                    UNROLL for (int j = 0; j < NV; j++) sum[j] =                                   \
                        add_##op(sum[j], x, *(const op##_at *)(const void *)(b + j * LANES));      \
                }                                                                                  \
            fetch(t->next, t->fetches);                                                            \
            if (t->slice + 1 < slices) {                                                           \
                UNROLL for (int j = 0; j < NV; j++) * (vec##_at *)(sums + j * LANES) = sum[j];     \
                continue;                                                                          \
            }                                                                                      \
            float *c = t->c + i * t->ldc;                                                          \
            WRITE_ROW(vec, LANES, NV, sum, t, last, c)                                             \
        }                                                                                          \
    }

// Both layouts of a with NV vectors of columns.
#define TILES(name, target, vec, op, LANES, MR, NV)                                                \
    TILE(name##_rows_##NV, target, vec, op, LANES, MR, NV, lda, 1, 0)                              \
    TILE(name##_trans_##NV, target, vec, op, LANES, MR, NV, 1, MR, 1)

#define ALL_LISTED(name, target, vec, op, LANES)                                                   \
    LISTED(name, target, vec, op, LANES, 1)                                                        \
    LISTED(name, target, vec, op, LANES, 2)                                                        \
    LISTED(name, target, vec, op, LANES, 3)                                                        \
    LISTED(name, target, vec, op, LANES, 4)

TILES(plain, , v4, v4, 4, 6, 1)
TILES(plain, , v4, v4, 4, 6, 2)
ALL_LISTED(plain, , v4, v4, 4)
static const struct sl_cpu_tiles plain = {
    .mr = 6,
    .lanes = 4,
    .nr = 8,
    .multiply = {{plain_rows_1, plain_rows_2}, {plain_trans_1, plain_trans_2}},
    .listed_nr = 16,
    .listed = {plain_listed_1, plain_listed_2, plain_listed_3, plain_listed_4}};

#if defined(__x86_64__)
#define AVX2   __attribute__((target("arch=x86-64-v3")))
#define AVX512 __attribute__((target("arch=x86-64-v4")))

typedef float v8 __attribute__((vector_size(32)));
typedef float v8_at __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v16 __attribute__((vector_size(64)));
typedef float v16_at __attribute__((vector_size(64), aligned(4), may_alias));

F32_WORDS(AVX2, v8)
F32_WORDS(AVX512, v16)

// Pairs of bf16.
#define AVX512_BF16 __attribute__((target("arch=x86-64-v4,avx512bf16")))

typedef int32_t pairs __attribute__((vector_size(64)));
typedef int32_t pairs_at __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t pair_at __attribute__((may_alias));

AVX512_BF16 INLINE pairs spread_pairs(const float *word)
{
    return *(const pair_at *)(const void *)word - (pairs){0};
}

AVX512_BF16 INLINE v16 add_pairs(v16 sum, pairs x, pairs row)
{
    return (v16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)row);
}

AVX2 INLINE __m256i first_v8(uint64_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

AVX2 INLINE v8 read_v8(const float *from, uint64_t count)
{
    return (v8)_mm256_maskload_ps(from, first_v8(count));
}

AVX2 INLINE void write_v8(float *to, v8 v, uint64_t count)
{
    _mm256_maskstore_ps(to, first_v8(count), (__m256)v);
}

AVX512 INLINE v16 read_v16(const float *from, uint64_t count)
{
    return (v16)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}

AVX512 INLINE void write_v16(float *to, v16 v, uint64_t count)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)v);
}

TILES(avx2, AVX2, v8, v8, 8, 6, 1)
TILES(avx2, AVX2, v8, v8, 8, 6, 2)
ALL_LISTED(avx2, AVX2, v8, v8, 8)
static const struct sl_cpu_tiles avx2 = {
    .mr = 6,
    .lanes = 8,
    .nr = 16,
    .multiply = {{avx2_rows_1, avx2_rows_2}, {avx2_trans_1, avx2_trans_2}},
    .listed_nr = 32,
    .listed = {avx2_listed_1, avx2_listed_2, avx2_listed_3, avx2_listed_4}};

TILES(avx512, AVX512, v16, v16, 16, 8, 1)
TILES(avx512, AVX512, v16, v16, 16, 8, 2)
TILES(avx512, AVX512, v16, v16, 16, 8, 3)
ALL_LISTED(avx512, AVX512, v16, v16, 16)
static const struct sl_cpu_tiles avx512 = {
    .mr = 8,
    .lanes = 16,
    .nr = 48,
    .multiply = {{avx512_rows_1, avx512_rows_2, avx512_rows_3},
                 {avx512_trans_1, avx512_trans_2, avx512_trans_3}},
    .listed_nr = 64,
    .listed = {avx512_listed_1, avx512_listed_2, avx512_listed_3, avx512_listed_4}};

TILES(pairs, AVX512_BF16, v16, pairs, 16, 8, 1)
TILES(pairs, AVX512_BF16, v16, pairs, 16, 8, 2)
TILES(pairs, AVX512_BF16, v16, pairs, 16, 8, 3)
ALL_LISTED(pairs, AVX512_BF16, v16, pairs, 16)
static const struct sl_cpu_tiles avx512_pairs = {
    .mr = 8,
    .lanes = 16,
    .nr = 48,
    .multiply = {{pairs_rows_1, pairs_rows_2, pairs_rows_3},
                 {pairs_trans_1, pairs_trans_2, pairs_trans_3}},
    .listed_nr = 64,
    .listed = {pairs_listed_1, pairs_listed_2, pairs_listed_3, pairs_listed_4}};
#endif

const struct sl_cpu_tiles *sl_cpu_gemm_tiles(enum sl_cpu_words words, int amx)
{
#if defined(__x86_64__)
    if (words == SL_CPU_WORDS_PAIRS)
        return amx ? &sl_cpu_gemm_amx : &avx512_pairs;
    if (sl_isa() >= SL_ISA_AVX512)
        return &avx512;
    if (sl_isa() >= SL_ISA_AVX2)
        return &avx2;
#else
    (void)words, (void)amx;
#endif
    return &plain;
}
