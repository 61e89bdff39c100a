// Words of a packed operand turned: what stands in columns of a panel becomes rows.
#include "kernels/cpu/gemm_tile.h"

#include "common/base/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GROUP = SL_TILE_LINE };

static void turn_plain(const float *panel, uint64_t k, float *rows, uint64_t ld)
{
    for (uint64_t i = 0; i < k; i++)
        for (uint64_t j = 0; j < GROUP; j++)
            rows[j * ld + i] = panel[i * GROUP + j];
}

#if defined(__x86_64__)
#define AVX2   __attribute__((target("arch=x86-64-v3")))
#define AVX512 __attribute__((target("arch=x86-64-v4")))

// 8 words of 8 rows.
AVX2 static void turn_eight(const float *panel, float *rows, uint64_t ld)
{
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(panel + i * GROUP);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        float *to = rows + (uint64_t)j * ld;
        _mm256_storeu_ps(to, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
        _mm256_storeu_ps(to + 4 * ld, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
    }
}

// 16 words of 16 rows: pairs of words, quadruples, then quarters of registers change places.
AVX512 static void turn_square(const float *panel, float *rows, uint64_t ld)
{
    __m512i r[GROUP], s[GROUP];
#pragma GCC unroll 16
    for (int i = 0; i < GROUP; i++)
        r[i] = _mm512_loadu_si512(panel + i * GROUP);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i += 2) {
        s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i += 4) {
        r[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    // r[4 q + j]: of rows 4 q .. 4 q + 3 the columns j, j + 4, j + 8, j + 12.
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512i low01 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
        const __m512i high01 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
        const __m512i low23 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        const __m512i high23 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
        float *to = rows + (uint64_t)j * ld;
        _mm512_storeu_si512(to, _mm512_shuffle_i32x4(low01, low23, 0x88));
        _mm512_storeu_si512(to + 4 * ld, _mm512_shuffle_i32x4(high01, high23, 0x88));
        _mm512_storeu_si512(to + 8 * ld, _mm512_shuffle_i32x4(low01, low23, 0xdd));
        _mm512_storeu_si512(to + 12 * ld, _mm512_shuffle_i32x4(high01, high23, 0xdd));
    }
}
#endif

void sl_cpu_gemm_turn(const float *panel, uint64_t words, float *rows, uint64_t ld)
{
    uint64_t i = 0;
#if defined(__x86_64__)
    for (; sl_isa() >= SL_ISA_AVX512 && i + GROUP <= words; i += GROUP)
        turn_square(panel + i * GROUP, rows + i, ld);
    for (; sl_isa() >= SL_ISA_AVX2 && i + 8 <= words; i += 8) {
        turn_eight(panel + i * GROUP, rows + i, ld);
        turn_eight(panel + i * GROUP + 8, rows + i + 8 * ld, ld);
    }
#endif
    turn_plain(panel + i * GROUP, words - i, rows + i, ld);
}
