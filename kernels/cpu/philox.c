/*
 * Philox4x32-10 for many positions at once.
 *
 * A round is two 32 x 32 -> 64 bit products. Kept in 64-bit lanes whose upper halves are never
 * cleaned, a product is one vpmuludq (it looks at the lower halves alone) and its upper half one
 * shift. GCC makes vpmullq or permutes of the same thing in plain C, at a quarter of the speed, so
 * this file has the instructions in its own words, chosen by cpuid, beside the plain C that runs
 * everywhere else and that the tests compare them with.
 */
#include "kernels/cpu/cpu_internal.h"

#include <string.h>

#include "common/base/isa.h"
#include "common/base/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_X86 1
#endif

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

enum { LANES = SL_CPU_PHILOX_LANES };

// A block of LANES positions.
struct block {
    uint64_t seed;
    uint32_t word0, batch, epoch;
    uint32_t position[LANES];
};

SL_SIMD_VOID(block_plain, (const struct block *b, uint32_t *words), (b, words))
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)b->seed, k1 = (uint32_t)(b->seed >> 32);
    for (uint32_t i = 0; i < LANES; i++) {
        c0[i] = b->word0;
        c1[i] = b->position[i];
        c2[i] = b->batch;
        c3[i] = b->epoch;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t p = (uint64_t)PHILOX_M0 * c0[i], q = (uint64_t)PHILOX_M1 * c2[i];
            uint32_t n0 = (uint32_t)(q >> 32) ^ c1[i] ^ k0;
            uint32_t n2 = (uint32_t)(p >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)q;
            c3[i] = (uint32_t)p;
            c0[i] = n0;
            c2[i] = n2;
        }
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    for (int i = 0; i < LANES; i++) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

#ifdef HAVE_X86

// Eight positions a vector, four vectors in flight to hide the multiplier's latency.
__attribute__((target("avx512f"))) static void block_avx512(const struct block *b, uint32_t *words)
{
    enum { VECTORS = LANES / 8 };
    const __m512i m0 = _mm512_set1_epi64(PHILOX_M0), m1 = _mm512_set1_epi64(PHILOX_M1);
    __m512i c0[VECTORS], c1[VECTORS], c2[VECTORS], c3[VECTORS];
    uint32_t k0 = (uint32_t)b->seed, k1 = (uint32_t)(b->seed >> 32);
    for (int v = 0; v < VECTORS; v++) {
        c0[v] = _mm512_set1_epi64(b->word0);
        c1[v] = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)b->position + v));
        c2[v] = _mm512_set1_epi64(b->batch);
        c3[v] = _mm512_set1_epi64(b->epoch);
    }
    for (int round = 0; round < 10; round++) {
        __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
        for (int v = 0; v < VECTORS; v++) {
            __m512i p = _mm512_mul_epu32(c0[v], m0), q = _mm512_mul_epu32(c2[v], m1);
            c0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), c1[v], key0, 0x96);
            c2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), c3[v], key1, 0x96);
            c1[v] = q;
            c3[v] = p;
        }
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    const __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    for (int v = 0; v < VECTORS; v++) {
        // Words 0 and 1, and 2 and 3, of a position side by side, then all four.
        __m512i w01 = _mm512_mask_blend_epi32(0xaaaa, c0[v], _mm512_slli_epi64(c1[v], 32));
        __m512i w23 = _mm512_mask_blend_epi32(0xaaaa, c2[v], _mm512_slli_epi64(c3[v], 32));
        _mm512_storeu_si512(words + 32 * v, _mm512_permutex2var_epi64(w01, low, w23));
        _mm512_storeu_si512(words + 32 * v + 16, _mm512_permutex2var_epi64(w01, high, w23));
    }
}

// The same with four positions a vector, half the block at a time: sixteen registers.
__attribute__((target("avx2"))) static void block_avx2(const struct block *b, uint32_t *words)
{
    enum { VECTORS = 2 };
    const __m256i m0 = _mm256_set1_epi64x(PHILOX_M0), m1 = _mm256_set1_epi64x(PHILOX_M1);
    for (int part = 0; part < LANES; part += 4 * VECTORS) {
        __m256i c0[VECTORS], c1[VECTORS], c2[VECTORS], c3[VECTORS];
        uint32_t k0 = (uint32_t)b->seed, k1 = (uint32_t)(b->seed >> 32);
        for (int v = 0; v < VECTORS; v++) {
            c0[v] = _mm256_set1_epi64x(b->word0);
            const uint32_t *four = b->position + part + 4 * v;
            c1[v] = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)four));
            c2[v] = _mm256_set1_epi64x(b->batch);
            c3[v] = _mm256_set1_epi64x(b->epoch);
        }
        for (int round = 0; round < 10; round++) {
            __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
            for (int v = 0; v < VECTORS; v++) {
                __m256i p = _mm256_mul_epu32(c0[v], m0), q = _mm256_mul_epu32(c2[v], m1);
                c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), c1[v]), key0);
                c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), c3[v]), key1);
                c1[v] = q;
                c3[v] = p;
            }
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        for (int v = 0; v < VECTORS; v++) {
            __m256i w01 = _mm256_blend_epi32(c0[v], _mm256_slli_epi64(c1[v], 32), 0xaa);
            __m256i w23 = _mm256_blend_epi32(c2[v], _mm256_slli_epi64(c3[v], 32), 0xaa);
            __m256i even = _mm256_unpacklo_epi64(w01, w23); // positions 0 and 2
            __m256i odd = _mm256_unpackhi_epi64(w01, w23);  // positions 1 and 3
            uint32_t *to = words + 4 * (part + 4 * v);
            _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(even, odd, 0x20));
            _mm256_storeu_si256((__m256i *)(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
        }
    }
}

#endif

typedef void block_function(const struct block *b, uint32_t *words);

static block_function *choose(void)
{
#ifdef HAVE_X86
    if (sl_isa() >= SL_ISA_AVX512)
        return block_avx512;
    if (sl_isa() >= SL_ISA_AVX2)
        return block_avx2;
#endif
    return block_plain;
}

void sl_cpu_philox_words(uint64_t seed, uint32_t stream, uint32_t tag, uint32_t batch,
                         uint32_t epoch, uint64_t first, uint32_t n, uint32_t *words)
{
    block_function *draw = choose();
    for (uint32_t i = 0; i < n; i += LANES) {
        uint64_t position = first + i;
        struct block b = {
            .seed = seed,
            .word0 = sl_rng_word0(stream, tag, (uint32_t)(position >> 32)),
            .batch = batch,
            .epoch = epoch,
        };
        if (__builtin_expect((uint32_t)position <= UINT32_MAX - (LANES - 1), 1)) {
            for (uint32_t l = 0; l < LANES; l++)
                b.position[l] = (uint32_t)position + l;
            draw(&b, words + (uint64_t)4 * i);
            continue;
        }
        // The low word wraps inside this block: one position at a time.
        for (uint32_t j = 0; j < LANES; j++, position++) {
            uint32_t word0 = sl_rng_word0(stream, tag, (uint32_t)(position >> 32));
            struct sl_rng_block r = sl_philox(seed, word0, (uint32_t)position, batch, epoch);
            for (int w = 0; w < 4; w++)
                words[(uint64_t)4 * (i + j) + (uint32_t)w] = r.w[w];
        }
    }
}

void sl_cpu_philox_numbers(uint64_t seed, uint32_t word0, const uint32_t *position, uint32_t batch,
                           uint32_t epoch, uint32_t *number)
{
    struct block b = {.seed = seed, .word0 = word0, .batch = batch, .epoch = epoch};
    uint32_t words[4 * LANES];
    memcpy(b.position, position, sizeof b.position);
    choose()(&b, words);
    for (uint32_t l = 0; l < LANES; l++)
        number[l] = words[4 * l];
}
