/*
 * khop_lanes.c - see khop_lanes.h.
 *
 * Three bodies: intrinsics for AVX-512 and AVX2 (eight lanes at a time, as many as its sixteen
 * registers hold), and plain C for everything else. The intrinsics are here because GCC 12 has no
 * way to say "32 x 32 -> 64 bits" for whole vectors: it takes three multiplications where the
 * machine has one, and a draw is little but multiplications (1059 against 380 cycles for 16 rows of
 * fanout 5 on a Cascade Lake).
 *
 * A word may be rejected only when the product's low half is below n (sl_rng_below); a lane in
 * which that happens in any slot, which is rare, is drawn again by the definition.
 */
#include "kernels/cpu/khop_lanes.h"

#include "common/base/isa.h"
#include "common/base/simd.h"
#include "kernels/khop_internal.h"

enum { LANES = SL_KHOP_LANES };

// One lane once more, word by word.
static void draw_exact(const struct sl_khop_args *args, uint32_t k, struct sl_khop_lanes *lanes,
                       uint32_t lane)
{
    for (uint32_t slot = 0; slot < k; slot++) {
        uint32_t n = sl_khop_range(lanes->degree[lane], k, slot, args->replace);
        uint32_t x = sl_khop_draw(args->seed, args->stream, args->epoch, args->batch, args->hop,
                                  lanes->row[lane], slot, 0, n);
        for (uint32_t earlier = 0; earlier < slot && !args->replace; earlier++)
            if (lanes->x[earlier][lane] == x) {
                x = n - 1;
                break;
            }
        lanes->x[slot][lane] = x;
    }
}

// Earlier slots whose positions a slot may not have.
static inline uint32_t before(const struct sl_khop_args *args, uint32_t slot)
{
    return args->replace ? 0 : slot;
}

// Four words for each lane.
static inline void philox_plain(uint64_t seed, uint32_t word0, const uint32_t *row, uint32_t batch,
                                uint32_t epoch, uint32_t w[4][LANES])
{
    for (int l = 0; l < LANES; l++) {
        struct sl_rng_block block = sl_philox(seed, word0, row[l], batch, epoch);
        w[0][l] = block.w[0];
        w[1][l] = block.w[1];
        w[2][l] = block.w[2];
        w[3][l] = block.w[3];
    }
}

SL_SIMD_VOID(draw_plain, (const struct sl_khop_args *args, uint32_t k, struct sl_khop_lanes *lanes),
             (args, k, lanes))
{
    uint32_t w[4][LANES];
    uint32_t doubt[LANES] = {0};
    for (uint32_t slot = 0; slot < k; slot++) {
        if ((slot & 3) == 0)
            philox_plain(args->seed, sl_khop_word0(args->stream, args->hop, slot, 0), lanes->row,
                         args->batch, args->epoch, w);
        const uint32_t *word = w[slot & 3];
        uint32_t *x = lanes->x[slot];
        uint32_t taken[LANES] = {0};
        for (int l = 0; l < LANES; l++) {
            uint32_t n = sl_khop_range(lanes->degree[l], k, slot, args->replace);
            uint64_t product = (uint64_t)word[l] * n;
            x[l] = (uint32_t)(product >> 32);
            doubt[l] |= (uint32_t)product < n;
        }
        for (uint32_t earlier = 0; earlier < before(args, slot); earlier++)
            for (int l = 0; l < LANES; l++)
                taken[l] |= lanes->x[earlier][l] == x[l];
        for (int l = 0; l < LANES; l++)
            x[l] = taken[l] ? lanes->degree[l] - k + slot : x[l];
    }
    for (uint32_t l = 0; l < LANES; l++)
        if (doubt[l])
            draw_exact(args, k, lanes, l);
}

#if defined(__x86_64__) && !defined(SL_SANITIZED)

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

// Sixteen 64-bit elements of which the low halves count.
struct wide {
    __m512i a, b;
};

AVX512 INLINE __m512i round_half(__m512i high, __m512i low, uint32_t key)
{
    // 0x96: exclusive or of three
    return _mm512_ternarylogic_epi64(_mm512_srli_epi64(high, 32), low,
                                     _mm512_set1_epi64((long long)key), 0x96);
}

/*
 * Four words for each lane. In 64-bit elements a product is one instruction, which looks at the low
 * halves alone, and its upper half one shift; the upper halves are never cleaned.
 */
AVX512 INLINE void philox_avx512(uint64_t seed, uint32_t word0, struct wide row, uint32_t batch,
                                 uint32_t epoch, __m512i w[4])
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53u), m1 = _mm512_set1_epi64(0xCD9E8D57u);
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    struct wide c[4] = {
        {_mm512_set1_epi64(word0), _mm512_set1_epi64(word0)},
        row,
        {_mm512_set1_epi64(batch), _mm512_set1_epi64(batch)},
        {_mm512_set1_epi64(epoch), _mm512_set1_epi64(epoch)},
    };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        struct wide p = {_mm512_mul_epu32(c[0].a, m0), _mm512_mul_epu32(c[0].b, m0)};
        struct wide q = {_mm512_mul_epu32(c[2].a, m1), _mm512_mul_epu32(c[2].b, m1)};
        c[0] = (struct wide){round_half(q.a, c[1].a, k0), round_half(q.b, c[1].b, k0)};
        c[2] = (struct wide){round_half(p.a, c[3].a, k1), round_half(p.b, c[3].b, k1)};
        c[1] = q;
        c[3] = p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        w[i] = _mm512_permutex2var_epi32(c[i].a, even, c[i].b);
}

// The halves of the sixteen products of a and b.
AVX512 INLINE void product(__m512i a, __m512i b, __m512i *high, __m512i *low)
{
    const __mmask16 odd_elements = 0xAAAA;
    __m512i even = _mm512_mul_epu32(a, b);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *high = _mm512_mask_blend_epi32(odd_elements, _mm512_srli_epi64(even, 32), odd);
    *low = _mm512_mask_blend_epi32(odd_elements, even, _mm512_slli_epi64(odd, 32));
}

AVX512 static void draw_avx512(const struct sl_khop_args *args, uint32_t k,
                               struct sl_khop_lanes *lanes)
{
    const struct wide row = {
        _mm512_cvtepu32_epi64(_mm256_load_si256((const __m256i *)lanes->row)),
        _mm512_cvtepu32_epi64(_mm256_load_si256((const __m256i *)(lanes->row + 8))),
    };
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i step = _mm512_set1_epi32(args->replace ? 0 : 1);
    // last = n - 1: what a slot takes when its draw is there already.
    __m512i last = _mm512_sub_epi32(_mm512_load_si512(lanes->degree),
                                    _mm512_set1_epi32(args->replace ? 1 : (int)k));
    __m512i w[4];
    __mmask16 doubt = 0;
    for (uint32_t slot = 0; slot < k; slot++) {
        if ((slot & 3) == 0) {
            uint32_t word0 = sl_khop_word0(args->stream, args->hop, slot, 0);
            philox_avx512(args->seed, word0, row, args->batch, args->epoch, w);
        }
        __m512i n = _mm512_add_epi32(last, one), x, low;
        product(w[slot & 3], n, &x, &low);
        doubt |= _mm512_cmplt_epu32_mask(low, n);
        __mmask16 taken = 0;
        for (uint32_t earlier = 0; earlier < before(args, slot); earlier++)
            taken |= _mm512_cmpeq_epi32_mask(x, _mm512_load_si512(lanes->x[earlier]));
        _mm512_store_si512(lanes->x[slot], _mm512_mask_blend_epi32(taken, x, last));
        last = _mm512_add_epi32(last, step);
    }
    for (uint32_t l = 0; doubt; l++, doubt >>= 1)
        if (doubt & 1)
            draw_exact(args, k, lanes, l);
}

#define AVX2 __attribute__((target("avx2")))

// Eight 64-bit elements of which the low halves count.
struct wide8 {
    __m256i a, b;
};

AVX2 INLINE __m256i round_half8(__m256i high, __m256i low, uint32_t key)
{
    __m256i sum = _mm256_xor_si256(_mm256_srli_epi64(high, 32), low);
    return _mm256_xor_si256(sum, _mm256_set1_epi64x(key));
}

// As philox_avx512().
AVX2 INLINE void philox_avx2(uint64_t seed, uint32_t word0, struct wide8 row, uint32_t batch,
                             uint32_t epoch, __m256i w[4])
{
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53u), m1 = _mm256_set1_epi64x(0xCD9E8D57u);
    struct wide8 c[4] = {
        {_mm256_set1_epi64x(word0), _mm256_set1_epi64x(word0)},
        row,
        {_mm256_set1_epi64x(batch), _mm256_set1_epi64x(batch)},
        {_mm256_set1_epi64x(epoch), _mm256_set1_epi64x(epoch)},
    };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        struct wide8 p = {_mm256_mul_epu32(c[0].a, m0), _mm256_mul_epu32(c[0].b, m0)};
        struct wide8 q = {_mm256_mul_epu32(c[2].a, m1), _mm256_mul_epu32(c[2].b, m1)};
        c[0] = (struct wide8){round_half8(q.a, c[1].a, k0), round_half8(q.b, c[1].b, k0)};
        c[2] = (struct wide8){round_half8(p.a, c[3].a, k1), round_half8(p.b, c[3].b, k1)};
        c[1] = q;
        c[3] = p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) { // the even words of a and then of b
        __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(c[i].a), _mm256_castsi256_ps(c[i].b),
                                        _MM_SHUFFLE(2, 0, 2, 0));
        w[i] = _mm256_permute4x64_epi64(_mm256_castps_si256(even), _MM_SHUFFLE(3, 1, 2, 0));
    }
}

// The halves of the eight products of a and b.
AVX2 INLINE void product8(__m256i a, __m256i b, __m256i *high, __m256i *low)
{
    __m256i even = _mm256_mul_epu32(a, b);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

// Lanes first .. first + 7; returns those that are in doubt as bits.
AVX2 static uint32_t draw_eight(const struct sl_khop_args *args, uint32_t k,
                                struct sl_khop_lanes *lanes, uint32_t first)
{
    const struct wide8 row = {
        _mm256_cvtepu32_epi64(_mm_load_si128((const __m128i *)(lanes->row + first))),
        _mm256_cvtepu32_epi64(_mm_load_si128((const __m128i *)(lanes->row + first + 4))),
    };
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i step = _mm256_set1_epi32(args->replace ? 0 : 1);
    __m256i last = _mm256_sub_epi32(_mm256_load_si256((const __m256i *)(lanes->degree + first)),
                                    _mm256_set1_epi32(args->replace ? 1 : (int)k));
    __m256i w[4], sure = _mm256_set1_epi32(-1);
    for (uint32_t slot = 0; slot < k; slot++) {
        if ((slot & 3) == 0) {
            uint32_t word0 = sl_khop_word0(args->stream, args->hop, slot, 0);
            philox_avx2(args->seed, word0, row, args->batch, args->epoch, w);
        }
        __m256i n = _mm256_add_epi32(last, one), x, low, taken = _mm256_setzero_si256();
        product8(w[slot & 3], n, &x, &low);
        // low >= n, of numbers without a sign
        sure = _mm256_and_si256(sure, _mm256_cmpeq_epi32(_mm256_max_epu32(low, n), low));
        for (uint32_t earlier = 0; earlier < before(args, slot); earlier++) {
            __m256i there = _mm256_load_si256((const __m256i *)(lanes->x[earlier] + first));
            taken = _mm256_or_si256(taken, _mm256_cmpeq_epi32(x, there));
        }
        _mm256_store_si256((__m256i *)(lanes->x[slot] + first), _mm256_blendv_epi8(x, last, taken));
        last = _mm256_add_epi32(last, step);
    }
    return ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(sure)) & 0xFFu;
}

AVX2 static void draw_avx2(const struct sl_khop_args *args, uint32_t k, struct sl_khop_lanes *lanes)
{
    uint32_t doubt = draw_eight(args, k, lanes, 0);
    doubt |= draw_eight(args, k, lanes, 8) << 8;
    for (uint32_t l = 0; doubt; l++, doubt >>= 1)
        if (doubt & 1)
            draw_exact(args, k, lanes, l);
}

void sl_khop_lanes_draw(const struct sl_khop_args *args, uint32_t k, struct sl_khop_lanes *lanes)
{
    const enum sl_isa isa = sl_isa();
    if (isa >= SL_ISA_AVX512)
        draw_avx512(args, k, lanes);
    else if (isa >= SL_ISA_AVX2)
        draw_avx2(args, k, lanes);
    else
        draw_plain(args, k, lanes);
}

#else

void sl_khop_lanes_draw(const struct sl_khop_args *args, uint32_t k, struct sl_khop_lanes *lanes)
{
    draw_plain(args, k, lanes);
}

#endif
