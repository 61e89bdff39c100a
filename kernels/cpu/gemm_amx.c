/*
 * Tiles of gemm_tile.h for AMX: 32 by 32 sums in four of the processor's eight tile registers, two
 * each for rows of a and columns of b. One instruction multiplies 16 rows of 16 pairs with 16
 * columns, at 16 times the speed of vectors; so operands have to come from the caches as they lie,
 * and zeros are not worth a list.
 *
 * A tile of a has its rows one below the other (what is transposed was turned when it was packed),
 * one of b has pairs of k side by side, as the panels for vectors have. k is in whole tiles, with
 * zeros behind. An element of c is one chain of sums in ascending k, as in all tiles.
 */
#include "kernels/cpu/gemm_tile.h"

#include "common/base/bits.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AMX __attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16")))

enum { SIDE = SL_TILE_LINE, MR = 2 * SIDE, NR = 2 * SIDE, WORD = sizeof(float) };

// All eight registers are 16 rows of 64 bytes.
AMX static void begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } whole = {.palette = 1,
               .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
               .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};
    _Static_assert(sizeof whole == 64, "what ldtilecfg reads");
    _tile_loadconfig(&whole);
}

// Without it each switch of the thread would save the registers.
AMX static void end(void)
{
    _tile_release();
}

static __mmask16 lanes_of(const struct sl_cpu_tile *t, uint64_t j)
{
    return (__mmask16)((1u << SL_MIN(t->columns - j, SIDE)) - 1);
}

// What of c is at an edge to memory that tiles can be read from.
AMX static void take_edge(const struct sl_cpu_tile *t, float *sums)
{
    for (uint64_t i = 0; i < MR; i++, sums += NR)
        for (uint64_t j = 0; j < t->columns; j += SIDE) {
            const __mmask16 lanes = i < t->rows ? lanes_of(t, j) : 0;
            _mm512_store_ps(sums + j, _mm512_maskz_loadu_ps(lanes, t->c + i * t->ldc + j));
        }
    // GCC's tile loads do not say that they read memory.
    __asm__ volatile("" ::: "memory");
}

// From there to c; `added`: c is yet to be added.
AMX static void put_edge(const struct sl_cpu_tile *t, const float *sums, int added)
{
    const __m512 alpha = _mm512_set1_ps(t->alpha);
    for (uint64_t i = 0; i < t->rows; i++, sums += NR)
        for (uint64_t j = 0; j < t->columns; j += SIDE) {
            float *c = t->c + i * t->ldc + j;
            __m512 v = _mm512_mul_ps(alpha, _mm512_load_ps(sums + j));
            if (added)
                v = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes_of(t, j), c), v);
            _mm512_mask_storeu_ps(c, lanes_of(t, j), v);
        }
}

// Sums go on from c where that is all there is to it, so that parts of k make one chain.
#define MULTIPLY(name, TWO)                                                                        \
    AMX static void name(const struct sl_cpu_tile *t)                                              \
    {                                                                                              \
        _Alignas(SL_CACHE_LINE) float edge[MR * NR];                                               \
        const int goes_on = t->accumulate && t->alpha == 1.0f;                                     \
        const int whole = t->rows == MR && t->columns == NR && t->alpha == 1.0f;                   \
        float *c = whole ? t->c : edge;                                                            \
        const uint64_t c_row = whole ? t->ldc : NR, ldc = c_row * WORD;                            \
        const float *a = t->a, *b = t->b;                                                          \
        const uint64_t lda = t->lda * WORD, ldb = t->ldb * WORD;                                   \
        const int low = t->rows > SIDE;                                                            \
        if (goes_on && !whole)                                                                     \
            take_edge(t, edge);                                                                    \
        if (goes_on) {                                                                             \
            _tile_loadd(0, c, ldc);                                                                \
            _tile_loadd(1, c + SIDE, ldc);                                                         \
            _tile_loadd(2, c + SIDE * c_row, ldc);                                                 \
            _tile_loadd(3, c + SIDE * c_row + SIDE, ldc);                                          \
        } else {                                                                                   \
            _tile_zero(0);                                                                         \
            _tile_zero(1);                                                                         \
            _tile_zero(2);                                                                         \
            _tile_zero(3);                                                                         \
        }                                                                                          \
        for (uint64_t k = 0; k < t->k; k += SIDE, a += SIDE, b += SIDE * t->ldb) {                 \
            _tile_loadd(4, a, lda);                                                                \
            _tile_loadd(6, b, ldb);                                                                \
            _tile_dpbf16ps(0, 4, 6);                                                               \
            if (TWO) {                                                                             \
                _tile_loadd(7, b + SIDE, ldb);                                                     \
                _tile_dpbf16ps(1, 4, 7);                                                           \
            }                                                                                      \
            if (low) {                                                                             \
                _tile_loadd(5, a + SIDE * t->lda, lda);                                            \
                _tile_dpbf16ps(2, 5, 6);                                                           \
                if (TWO)                                                                           \
                    _tile_dpbf16ps(3, 5, 7);                                                       \
            }                                                                                      \
        }                                                                                          \
        _tile_stored(0, c, ldc);                                                                   \
        _tile_stored(1, c + SIDE, ldc);                                                            \
        _tile_stored(2, c + SIDE * c_row, ldc);                                                    \
        _tile_stored(3, c + SIDE * c_row + SIDE, ldc);                                             \
        if (!whole)                                                                                \
            put_edge(t, edge, t->accumulate && !goes_on);                                          \
    }

MULTIPLY(multiply_one, 0)
MULTIPLY(multiply_two, 1)

const struct sl_cpu_tiles sl_cpu_gemm_amx = {
    .mr = MR,
    .lanes = SIDE,
    .nr = NR,
    .multiply = {{multiply_one, multiply_two}, {multiply_one, multiply_two}},
    .begin = begin,
    .end = end,
};
#endif
