/*
 * Packing the operands of a product: the words of gemm_tile.h, in the order tiles read them.
 *
 * Pairs of bf16 are made here, once for each time an operand is packed: a vector instruction rounds
 * two rows of k at once and a permutation makes pairs of them; where k runs along the row, pairs
 * are there as they lie. It takes numbers below 2^-126 as 0, as the products of pairs do. Operands
 * that are bf16 in memory are only moved, or widened.
 */
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/gemm_tile.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/isa.h"
#include "common/base/simd.h"
#include "kernels/cpu/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE = SL_TILE_LINE, QUAD = 4 };

// Rounds to bf16 in place.
SL_SIMD_VOID(round_floats, (float *x, uint64_t n), (x, n))
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)sl_float_to_bf16(x[i]) << 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

SL_SIMD_VOID(widen_row, (const uint16_t *restrict x, uint64_t n, float *restrict to), (x, n, to))
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = sl_bf16_to_float(x[i]);
}

void sl_cpu_widen(const uint16_t *x, uint64_t n, float *to)
{
    widen_row(x, n, to);
}

SL_INLINE float element(const void *x, const int bf16, uint64_t i)
{
    return bf16 ? sl_bf16_to_float(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

// x (rows, columns) row by row into panels of `width` columns, zeros behind the last.
SL_INLINE void pack_columns(const void *x, const int bf16, uint64_t ld, uint64_t rows,
                            uint64_t columns, const uint64_t width, float *panels)
{
    for (uint64_t i = 0; i < rows; i++) {
        float *to = panels + i * width;
        uint64_t j = 0;
        for (; j + width <= columns; j += width, to += sl_cpu_panel_words(width)) {
            if (!bf16)
                memcpy(to, (const float *)x + i * ld + j, width * sizeof *to);
            for (uint64_t l = 0; bf16 && l < width; l++)
                to[l] = element(x, bf16, i * ld + j + l);
        }
        if (j < columns) {
            uint64_t left = columns - j;
            for (uint64_t l = 0; l < width; l++)
                to[l] = l < left ? element(x, bf16, i * ld + j + l) : 0.0f;
        }
    }
}

// The widths of all instruction sets, so that each copy is a few vectors.
SL_INLINE void pack_widths(const void *x, const int bf16, uint64_t ld, uint64_t rows,
                           uint64_t columns, uint64_t width, float *panels)
{
    switch (width) {
    case 6: pack_columns(x, bf16, ld, rows, columns, 6, panels); break;
    case 8: pack_columns(x, bf16, ld, rows, columns, 8, panels); break;
    case 16: pack_columns(x, bf16, ld, rows, columns, 16, panels); break;
    case 32: pack_columns(x, bf16, ld, rows, columns, 32, panels); break;
    case 48: pack_columns(x, bf16, ld, rows, columns, 48, panels); break;
    case 64: pack_columns(x, bf16, ld, rows, columns, 64, panels); break;
    default: pack_columns(x, bf16, ld, rows, columns, width, panels);
    }
}

SL_SIMD_VOID(pack_rows_of_k,
             (const struct sl_cpu_rows *x, uint64_t rows, uint64_t columns, uint64_t width,
              float *panels),
             (x, rows, columns, width, panels))
{
    if (x->bf16)
        pack_widths(x->p, 1, x->ld, rows, columns, width, panels);
    else
        pack_widths(x->p, 0, x->ld, rows, columns, width, panels);
}

// ---- pairs --------------------------------------------------------------------------------------

#if defined(__x86_64__)
#define PAIRS __attribute__((target("arch=x86-64-v4,avx512bf16")))

PAIRS static inline __m512i round_two(__m512 first, __m512 second)
{
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

PAIRS static inline __mmask16 first_lanes(uint64_t n)
{
    return (__mmask16)((1u << SL_MIN(n, 16u)) - 1);
}

// n values, then zeros up to `padded`.
PAIRS static void round_row(const float *x, uint64_t n, uint64_t padded, uint16_t *to)
{
    uint64_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(to + i, round_two(_mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + 16)));
    for (; i < padded; i += 32) {
        const __mmask16 first = n > i ? first_lanes(n - i) : 0;
        const __mmask16 second = n > i + 16 ? first_lanes(n - i - 16) : 0;
        const __m512i values = round_two(_mm512_maskz_loadu_ps(first, x + i),
                                         _mm512_maskz_loadu_ps(second, x + i + 16));
        const uint64_t left = SL_MIN(padded - i, 32u);
        _mm512_mask_storeu_epi16(to + i, (__mmask32)((1ull << left) - 1), values);
    }
}

static void pair_row(const float *x, uint64_t k, float *to)
{
    round_row(x, k, sl_align_up(k, 2), (uint16_t *)(void *)to);
}

// Rows of k two by two; a panel is as wide as a vector, several, or half of one.
PAIRS static void pair_rows_of_k(const float *x, uint64_t ld, uint64_t k, uint64_t columns,
                                 uint64_t width, float *panels)
{
    // A value of the first row, then one of the second.
    const __m512i order =
        _mm512_add_epi32(_mm512_set1_epi32(16 << 16),
                         _mm512_mullo_epi32(_mm512_set1_epi32(1 << 16 | 1),
                                            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                                              12, 13, 14, 15)));
    const uint64_t step = sl_cpu_panel_words(width);
    for (uint64_t i = 0; i < k; i += 2, x += 2 * ld, panels += width) {
        const float *below = i + 1 < k ? x + ld : x;
        const __mmask16 has_below = i + 1 < k ? 0xffff : 0;
        float *to = panels;
        for (uint64_t j = 0, at = 0; j < columns; j += LINE) {
            const __mmask16 lanes = first_lanes(columns - j);
            const __m512i words = _mm512_permutexvar_epi16(
                order, round_two(_mm512_maskz_loadu_ps(lanes, x + j),
                                 _mm512_maskz_loadu_ps(lanes & has_below, below + j)));
            if (width < LINE) {
                _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(words));
                if (j + width < columns)
                    _mm256_storeu_si256((void *)(to + step), _mm512_extracti64x4_epi64(words, 1));
                to += 2 * step;
                continue;
            }
            _mm512_storeu_si512(to + at, words);
            at += LINE;
            if (at == width)
                to += step, at = 0;
        }
    }
}
#else
static void round_row(const float *x, uint64_t n, uint64_t padded, uint16_t *to)
{
    (void)x, (void)n, (void)padded, (void)to;
}

static void pair_row(const float *x, uint64_t k, float *to)
{
    (void)x, (void)k, (void)to;
}

static void pair_rows_of_k(const float *x, uint64_t ld, uint64_t k, uint64_t columns,
                           uint64_t width, float *panels)
{
    (void)x, (void)ld, (void)k, (void)columns, (void)width, (void)panels;
}
#endif

// The same of bf16, which lie as they are wanted.
SL_SIMD_VOID(join_rows_of_k,
             (const uint16_t *x, uint64_t ld, uint64_t k, uint64_t columns, uint64_t width,
              float *panels),
             (x, ld, k, columns, width, panels))
{
    for (uint64_t i = 0; i < k; i += 2, x += 2 * ld, panels += width) {
        const uint16_t *below = i + 1 < k ? x + ld : x;
        const uint32_t has_below = i + 1 < k ? 0xffff0000u : 0;
        float *to = panels;
        for (uint64_t j0 = 0; j0 < columns; j0 += width, to += sl_cpu_panel_words(width)) {
            const uint64_t n = SL_MIN(width, columns - j0);
            for (uint64_t l = 0; l < n; l++) {
                const uint32_t pair = (((uint32_t)below[j0 + l] << 16) & has_below) | x[j0 + l];
                memcpy(&to[l], &pair, sizeof pair);
            }
            for (uint64_t l = n; l < width; l++)
                to[l] = 0.0f;
        }
    }
}

// ---- both ---------------------------------------------------------------------------------------

void sl_cpu_gemm_pack_row(enum sl_cpu_words words, struct sl_cpu_rows x, uint64_t k, float *to)
{
    if (words == SL_CPU_WORDS_PAIRS && !x.bf16) {
        pair_row(x.p, k, to);
    } else if (words == SL_CPU_WORDS_PAIRS) {
        uint16_t *pairs = (uint16_t *)(void *)to;
        memcpy(pairs, x.p, k * sizeof *pairs);
        memset(pairs + k, 0, k % 2 * sizeof *pairs);
    } else if (x.bf16) {
        widen_row(x.p, k, to);
    } else {
        memcpy(to, x.p, k * sizeof *to);
        if (words == SL_CPU_WORDS_ROUNDED)
            round_floats(to, k);
    }
}

typedef float quad __attribute__((vector_size(QUAD * sizeof(float))));
typedef int32_t quad_order __attribute__((vector_size(QUAD * sizeof(int32_t))));

// Four words of each of four rows become four rows of four columns: written one word at a time,
// this took a tenth of an evaluation, whose products have a thousand rows.
SL_INLINE void turn_quad(const float *const rows[QUAD], uint64_t at, uint64_t width, float *to)
{
    quad row[QUAD];
    for (int r = 0; r < QUAD; r++)
        memcpy(&row[r], rows[r] + at, sizeof row[r]);
    const quad_order low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5},
                     second = {2, 3, 6, 7};
    const quad even[] = {__builtin_shuffle(row[0], row[1], low),
                         __builtin_shuffle(row[0], row[1], high)};
    const quad odd[] = {__builtin_shuffle(row[2], row[3], low),
                        __builtin_shuffle(row[2], row[3], high)};
    for (int c = 0; c < QUAD; c++, to += width) {
        const quad column = __builtin_shuffle(even[c / 2], odd[c / 2], c % 2 ? second : first);
        memcpy(to, &column, sizeof column);
    }
}

// The next columns of a panel, at most QUAD, which stand in rows of x: a line's width of words.
static void pack_quad(enum sl_cpu_words words, struct sl_cpu_rows x, uint64_t values,
                      uint64_t columns, uint64_t width, float *to)
{
    const uint64_t n = sl_div_up(values, sl_cpu_per_word(words));
    float made[QUAD][LINE];
    const float *rows[QUAD];
    for (uint64_t r = 0; r < columns; r++) {
        const struct sl_cpu_rows row = sl_cpu_rows_from(x, r * x.ld);
        rows[r] = row.p;
        if (words != SL_CPU_WORDS_PAIRS && !x.bf16)
            continue;
        sl_cpu_gemm_pack_row(words, row, values, made[r]);
        rows[r] = made[r];
    }
    uint64_t i = 0;
    for (; columns == QUAD && i + QUAD <= n; i += QUAD)
        turn_quad(rows, i, width, to + i * width);
    for (; i < n; i++)
        for (uint64_t r = 0; r < columns; r++)
            to[i * width + r] = rows[r][i];
}

static void pack_columns_of_k(enum sl_cpu_words words, struct sl_cpu_rows x, uint64_t k,
                              uint64_t columns, uint64_t width, float *panels)
{
    const uint64_t per_word = sl_cpu_per_word(words), step = LINE * per_word;
    for (uint64_t j0 = 0; j0 < columns; j0 += width, panels += sl_cpu_panel_words(width)) {
        const uint64_t w = SL_MIN(width, columns - j0);
        if (w < width)
            memset(panels, 0, sl_div_up(k, per_word) * width * sizeof *panels);
        for (uint64_t k0 = 0; k0 < k; k0 += step)
            for (uint64_t j = 0; j < w; j += QUAD)
                pack_quad(words, sl_cpu_rows_from(x, (j0 + j) * x.ld + k0), SL_MIN(step, k - k0),
                          SL_MIN(w - j, QUAD), width, panels + k0 / per_word * width + j);
    }
}

void sl_cpu_gemm_pack(enum sl_cpu_words words, int trans, struct sl_cpu_rows x, uint64_t k,
                      uint64_t columns, uint64_t width, float *panels)
{
    if (trans)
        pack_columns_of_k(words, x, k, columns, width, panels);
    else if (words == SL_CPU_WORDS_PAIRS && x.bf16)
        join_rows_of_k(x.p, x.ld, k, columns, width, panels);
    else if (words == SL_CPU_WORDS_PAIRS)
        pair_rows_of_k(x.p, x.ld, k, columns, width, panels);
    else
        pack_rows_of_k(&x, k, columns, width, panels);
    for (uint64_t j = 0; words == SL_CPU_WORDS_ROUNDED && !x.bf16 && j < columns; j += width)
        round_floats(panels + j / width * sl_cpu_panel_words(width), k * width);
}
