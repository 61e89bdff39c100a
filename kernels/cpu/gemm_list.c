/*
 * Lists of an operand's words that are not zero: what relu and dropout leave of gradients and
 * activations is a quarter, and what is multiplied by zero changes no sum.
 *
 * A tile of c then takes its rows one at a time: an entry of the row's list is broadcast and
 * multiplied by the row of b that it names, for all columns of the panel. Each multiply-add reads b
 * from the first-level cache where a dense tile has it in a register, and so runs at two thirds of
 * the speed or less: lists are for operands with many zeros alone.
 *
 * k has slices, so that the rows of a panel stay in that cache while all rows of a pass by; the
 * sums wait in memory from slice to slice.
 *
 * An element's chain of multiply-adds is the dense tile's without those that add nothing, in the
 * same order: the bits are the same, but where b is infinite or NaN beside a zero of a, which the
 * dense tile turns into NaN. Whoever has such a number in x meets it in y too.
 */
#include "kernels/cpu/gemm_tile.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/isa.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    GROUP = SL_TILE_LINE,   // rows of a that are made at once
    PRODUCTS_MIN = 1 << 20, // fewer are not worth a look
    SAMPLE_ROWS = 16,
    SAMPLE_COLUMNS = 256,
    // Elements in a thousand that may be other than zero.
    MOST = 600,
    MOST_OF_PAIRS = 370, // of which both must be zero: 600 of the words
};

static _Atomic int forced = SL_CPU_LISTS_AUTO;

void sl_cpu_gemm_set_lists(enum sl_cpu_lists lists)
{
    atomic_store_explicit(&forced, (int)lists, memory_order_relaxed);
}

static uint64_t count_others(struct sl_cpu_rows x, uint64_t first, uint64_t n)
{
    const uint16_t *bf16 = x.p;
    const float *f32 = x.p;
    uint64_t others = 0;
    for (uint64_t i = first; i < first + n; i++)
        others += x.bf16 ? (bf16[i] & 0x7fff) != 0 : f32[i] != 0.0f;
    return others;
}

int sl_cpu_gemm_lists_pay(enum sl_cpu_words words, struct sl_cpu_rows x, uint64_t rows,
                          uint64_t columns, uint64_t used)
{
    const int lists = atomic_load_explicit(&forced, memory_order_relaxed);
    if (lists != SL_CPU_LISTS_AUTO)
        return lists == SL_CPU_LISTS_ALWAYS;
    if (rows * columns * used < PRODUCTS_MIN)
        return 0;
    const uint64_t step = sl_div_up(rows, SAMPLE_ROWS), width = SL_MIN(columns, SAMPLE_COLUMNS);
    uint64_t seen = 0, others = 0;
    for (uint64_t i = 0; i < rows; i += step, seen += width)
        others += count_others(x, i * x.ld, width);
    return others * 1000 < seen * (words == SL_CPU_WORDS_PAIRS ? MOST_OF_PAIRS : MOST);
}

// Bits of a word that are not signs.
static uint32_t magnitude_of(enum sl_cpu_words words)
{
    return words == SL_CPU_WORDS_PAIRS ? 0x7fff7fffu : 0x7fffffffu;
}

// A list's end: how many entries it has, in whole steps of the tiles.
static uint64_t pad(uint64_t n, uint32_t *at, float *word)
{
    for (; n % SL_LIST_STEP != 0; n++) {
        at[n] = 0;
        word[n] = 0.0f;
    }
    return n;
}

// Each word is written, and counted if it is not zero.
static uint64_t append_words(const float *row, uint64_t k, uint32_t first, uint32_t step,
                             uint32_t magnitude, uint32_t *at, float *word)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < k; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        word[n] = row[i];
        at[n] = first + (uint32_t)i * step;
        n += (bits & magnitude) != 0;
    }
    return n;
}

static uint64_t append_plain(const float *row, uint64_t k, uint32_t first, uint32_t step,
                             uint32_t magnitude, uint32_t *at, float *word)
{
    return pad(append_words(row, k, first, step, magnitude, at, word), at, word);
}

#if defined(__x86_64__)
#define AVX512 __attribute__((target("arch=x86-64-v4")))

AVX512 static uint64_t append_avx512(const float *row, uint64_t k, uint32_t first, uint32_t step,
                                     uint32_t magnitude, uint32_t *at, float *word)
{
    const __m512i not_sign = _mm512_set1_epi32((int)magnitude);
    const __m512i next = _mm512_set1_epi32((int)(step * SL_TILE_LINE));
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i place = _mm512_add_epi32(_mm512_set1_epi32((int)first),
                                     _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)step)));
    uint64_t n = 0;
    for (uint64_t i = 0; i < k; i += SL_TILE_LINE) {
        const __mmask16 lanes = (__mmask16)((1u << SL_MIN(k - i, SL_TILE_LINE)) - 1);
        const __m512i x = _mm512_maskz_loadu_epi32(lanes, row + i);
        const __mmask16 some = _mm512_test_epi32_mask(x, not_sign);
        // Stored whole: what is behind is overwritten by the next ones, or not counted.
        _mm512_storeu_si512(word + n, _mm512_maskz_compress_epi32(some, x));
        _mm512_storeu_si512(at + n, _mm512_maskz_compress_epi32(some, place));
        n += (uint64_t)__builtin_popcount(some);
        place = _mm512_add_epi32(place, next);
    }
    return pad(n, at, word);
}

#define AVX2 __attribute__((target("arch=x86-64-v3")))

// For each set of 8 lanes the numbers of its lanes, a byte each: what compresses a vector where no
// instruction does. Four lanes' sets and the number of lanes before them make those of eight.
static const uint32_t lanes_of[16] = {
    0x0, 0x0,   0x1,   0x100,   0x2,   0x200,   0x201,   0x20100,
    0x3, 0x300, 0x301, 0x30100, 0x302, 0x30200, 0x30201, 0x3020100,
};

AVX2 static inline __m256i lanes_in(uint32_t set)
{
    const uint64_t low = lanes_of[set & 15], high = lanes_of[set >> 4] + 0x04040404u;
    const uint64_t lanes = low | high << 8 * __builtin_popcount(set & 15);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)lanes));
}

AVX2 static uint64_t append_avx2(const float *row, uint64_t k, uint32_t first, uint32_t step,
                                 uint32_t magnitude, uint32_t *at, float *word)
{
    const __m256i not_sign = _mm256_set1_epi32((int)magnitude), zero = _mm256_setzero_si256();
    const __m256i next = _mm256_set1_epi32((int)(step * 8));
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i place = _mm256_add_epi32(_mm256_set1_epi32((int)first),
                                     _mm256_mullo_epi32(lane, _mm256_set1_epi32((int)step)));
    uint64_t n = 0, i = 0;
    for (; i + 8 <= k; i += 8) {
        const __m256i x = _mm256_loadu_si256((const void *)(row + i));
        const __m256i none = _mm256_cmpeq_epi32(_mm256_and_si256(x, not_sign), zero);
        const uint32_t some = 0xff & ~(uint32_t)_mm256_movemask_ps((__m256)none);
        const __m256i lanes = lanes_in(some);
        _mm256_storeu_si256((void *)(word + n), _mm256_permutevar8x32_epi32(x, lanes));
        _mm256_storeu_si256((void *)(at + n), _mm256_permutevar8x32_epi32(place, lanes));
        n += (uint64_t)__builtin_popcount(some);
        place = _mm256_add_epi32(place, next);
    }
    n +=
        append_words(row + i, k - i, first + (uint32_t)i * step, step, magnitude, at + n, word + n);
    return pad(n, at, word);
}

static uint64_t append(const float *row, uint64_t k, uint32_t first, uint32_t step,
                       uint32_t magnitude, uint32_t *at, float *word)
{
    const enum sl_isa isa = sl_isa();
    return isa >= SL_ISA_AVX512 ? append_avx512(row, k, first, step, magnitude, at, word)
           : isa >= SL_ISA_AVX2 ? append_avx2(row, k, first, step, magnitude, at, word)
                                : append_plain(row, k, first, step, magnitude, at, word);
}
#else
#define append append_plain
#endif

void sl_cpu_gemm_list(enum sl_cpu_words words, int trans, struct sl_cpu_rows x, uint64_t k,
                      uint64_t rows, uint64_t step, struct sl_cpu_list *list)
{
    const uint64_t n_words = sl_div_up(k, sl_cpu_per_word(words));
    const uint32_t magnitude = magnitude_of(words);
    uint32_t *begin = list->begin;
    uint64_t n = 0;
    list->slices = sl_div_up(n_words, SL_LIST_SLICE);
    if (trans) // all at once, along the rows as they lie
        sl_cpu_gemm_pack(words, 0, x, k, rows, GROUP, list->panels);
    for (uint64_t i = 0; i < rows; i++) {
        const float *row = list->turned;
        if (trans && i % GROUP == 0)
            sl_cpu_gemm_turn(list->panels + i / GROUP * sl_cpu_panel_words(GROUP), n_words,
                             list->turned, SL_TILE_A_STRIDE);
        if (trans)
            row += i % GROUP * SL_TILE_A_STRIDE;
        else if (words == SL_CPU_WORDS_F32)
            row = sl_cpu_rows_from(x, i * x.ld).p;
        else
            sl_cpu_gemm_pack_row(words, sl_cpu_rows_from(x, i * x.ld), k, list->turned);
        for (uint64_t from = 0; from < n_words; from += SL_LIST_SLICE) {
            *begin++ = (uint32_t)n;
            n += append(row + from, SL_MIN(n_words - from, SL_LIST_SLICE), (uint32_t)(from * step),
                        (uint32_t)step, magnitude, list->at + n, list->word + n);
        }
    }
    *begin = (uint32_t)n;
}

static uint64_t panels_floats(int trans, uint64_t rows)
{
    return trans ? sl_div_up(rows, GROUP) * sl_cpu_panel_words(GROUP) : 0;
}

uint64_t sl_cpu_gemm_list_floats(int trans, uint64_t rows)
{
    const uint64_t entries = rows * SL_TILE_K + SL_TILE_LINE;
    return panels_floats(trans, rows) + GROUP * SL_TILE_A_STRIDE + 2 * entries +
           rows * (SL_TILE_K / SL_LIST_SLICE) + 1;
}

float *sl_cpu_gemm_list_place(float *memory, int trans, uint64_t rows, struct sl_cpu_list *list)
{
    const uint64_t entries = rows * SL_TILE_K + SL_TILE_LINE;
    list->panels = memory;
    list->turned = list->panels + panels_floats(trans, rows);
    list->word = list->turned + GROUP * SL_TILE_A_STRIDE;
    list->at = (uint32_t *)(void *)(list->word + entries);
    list->begin = list->at + entries;
    return memory + sl_cpu_gemm_list_floats(trans, rows);
}
