/*
 * vector.h - what the hot loops of this folder share: 16-lane vectors, 16-bit formats, streaming.
 *
 * The vectors are the compiler's own (GCC and clang), not intrinsics: in a function of SL_SIMD
 * one sl_v16 is one register with AVX-512, two with AVX2 and four with the baseline, from the same
 * source. Below AVX-512 GCC 12 keeps no array of sl_v16 in registers: sums that live through a loop
 * are sl_v8, which costs nothing where memory is what an operation waits for. Vectors are passed by
 * pointer only, because the calling convention of a by-value vector depends on the instruction set.
 */
#ifndef SL_KERNELS_CPU_VECTOR_H
#define SL_KERNELS_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/base/bits.h"
#include "common/base/isa.h"

#define SL_INLINE static inline __attribute__((always_inline))

enum {
    SL_LANES = 16,
    SL_LANES_8 = 8,
};

typedef float sl_v16 __attribute__((vector_size(64)));
typedef int32_t sl_v16_i32 __attribute__((vector_size(64)));
typedef uint32_t sl_v16_u32 __attribute__((vector_size(64)));
typedef float sl_v8 __attribute__((vector_size(32)));
typedef uint32_t sl_v8_u32 __attribute__((vector_size(32)));

// The same in memory, at any element's address.
typedef float sl_v16_at __attribute__((vector_size(64), aligned(4), may_alias));
typedef float sl_v8_at __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint16_t sl_v8_u16 __attribute__((vector_size(16)));
typedef uint16_t sl_v8_u16_at __attribute__((vector_size(16), aligned(2), may_alias));

/*
 * binary16 to f32, exact; a NaN keeps its sign and its bits and becomes a quiet one, as it does in
 * the processor's own conversion (F16C, which AVX2 and above have here: isa.h). That is written
 * down as an instruction because the vectorisers of the compilers that we support do not reach it,
 * and the compiler's function for it cannot be called from a body that is compiled for all levels.
 *
 * The baseline has integer steps. Exponent and mantissa move to their f32 places and the bias is
 * corrected; infinities and NaN get the rest of the exponent; subnormals are normalised by one
 * subtraction, so that no f32 subnormal ever enters the arithmetic unit (it would trap into
 * microcode).
 */
#define SL_HALF_EXPONENT  0x0f800000u // of a half, moved to its place in an f32
#define SL_HALF_REBIAS    ((uint32_t)(127 - 15) << 23)
#define SL_HALF_SUBNORMAL 6.103515625e-05f // 2^-14
#define SL_HALF_QUIET     0x00400000u      // of an f32 that is NaN

SL_INLINE void sl_v8_from_half_steps(const uint16_t *from, sl_v8 *to)
{
    sl_v8_u32 h = __builtin_convertvector(*(const sl_v8_u16_at *)from, sl_v8_u32);
    sl_v8_u32 magnitude = (h & 0x7fffu) << 13;
    sl_v8_u32 exponent = magnitude & SL_HALF_EXPONENT;
    sl_v8_u32 is_special = (sl_v8_u32)(exponent == SL_HALF_EXPONENT);
    sl_v8_u32 is_small = (sl_v8_u32)(exponent == 0u);
    sl_v8_u32 is_nan = is_special & (sl_v8_u32)(magnitude != SL_HALF_EXPONENT);
    sl_v8_u32 normal = magnitude + SL_HALF_REBIAS + (is_special & SL_HALF_REBIAS);
    sl_v8 small = (sl_v8)(magnitude + SL_HALF_REBIAS + (1u << 23)) - SL_HALF_SUBNORMAL;
    sl_v8_u32 bits = (is_small & (sl_v8_u32)small) | (~is_small & normal);
    *to = (sl_v8)(bits | (is_nan & SL_HALF_QUIET) | (h & 0x8000u) << 16);
}

// `simd` is that of the function that this is inlined in.
SL_INLINE void sl_v8_from_half(enum sl_isa simd, const uint16_t *from, sl_v8 *to)
{
#if defined(__x86_64__) && !defined(SL_SANITIZED)
    if (simd >= SL_ISA_AVX2) {
        __asm__("vcvtph2ps %1, %0" : "=x"(*to) : "m"(*(const sl_v8_u16_at *)from));
        return;
    }
#endif
    sl_v8_from_half_steps(from, to);
}

// The same for one element.
SL_INLINE float sl_half_to_float(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, exponent = magnitude & SL_HALF_EXPONENT;
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, bits = magnitude + SL_HALF_REBIAS;
    float value;
    if (exponent == SL_HALF_EXPONENT)
        bits = (bits + SL_HALF_REBIAS) | (magnitude > exponent ? SL_HALF_QUIET : 0);
    else if (exponent == 0)
        bits += 1u << 23;
    memcpy(&value, &bits, sizeof value);
    if (exponent == 0)
        value -= SL_HALF_SUBNORMAL;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// bfloat16 is the upper half of the same number.
SL_INLINE float sl_bf16_to_float(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

SL_INLINE void sl_v8_from_bf16(const uint16_t *from, sl_v8 *to)
{
    *to = (sl_v8)(__builtin_convertvector(*(const sl_v8_u16_at *)from, sl_v8_u32) << 16);
}

// The upper half of the nearest bfloat16, ties to even; NaN stays NaN.
SL_INLINE uint16_t sl_float_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

SL_INLINE void sl_v8_to_bf16(const sl_v8 *from, uint16_t *to)
{
    const sl_v8_u32 bits = (sl_v8_u32)*from;
    const sl_v8_u32 is_nan = (sl_v8_u32)((bits & 0x7fffffffu) > 0x7f800000u);
    const sl_v8_u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    const sl_v8_u32 chosen = (is_nan & (bits >> 16 | 0x40u)) | (~is_nan & rounded);
    *(sl_v8_u16_at *)to = __builtin_convertvector(chosen, sl_v8_u16);
}

/*
 * Stores that go around the caches, for output that is larger than they are and whose lines would
 * otherwise be read only to be overwritten. 16 bytes at a time is what every x86-64 has; a whole
 * line at a time takes less of the write-combining buffers (README.md has the figures). `to` is a
 * multiple of the stored bytes. `simd` is that of the function that this is inlined in.
 */
#if defined(__SSE2__)
#define SL_STREAM_BYTES 16
SL_INLINE void sl_stream_v4(float *to, const float *from)
{
    _mm_stream_ps(to, _mm_loadu_ps(from));
}
// Streaming stores are weakly ordered: fence before another thread may read them.
SL_INLINE void sl_stream_fence(void)
{
    _mm_sfence();
}
#else
#define SL_STREAM_BYTES 0 // no streaming: callers take the ordinary path
SL_INLINE void sl_stream_v4(float *to, const float *from)
{
    memcpy(to, from, 4 * sizeof *to);
}
SL_INLINE void sl_stream_fence(void) {}
#endif

SL_INLINE void sl_stream_v8(enum sl_isa simd, float *to, const sl_v8 *from)
{
#if defined(__x86_64__) && !defined(SL_SANITIZED)
    if (simd >= SL_ISA_AVX2) {
        __asm__("vmovntps %1, %0" : "=m"(*(sl_v8 *)to) : "x"(*from));
        return;
    }
#endif
    sl_stream_v4(to, (const float *)from);
    sl_stream_v4(to + 4, (const float *)from + 4);
}

SL_INLINE void sl_stream_v16(enum sl_isa simd, float *to, const sl_v16 *from)
{
#if defined(__x86_64__) && !defined(SL_SANITIZED)
    if (simd >= SL_ISA_AVX512) {
        __asm__("vmovntps %1, %0" : "=m"(*(sl_v16 *)to) : "v"(*from));
        return;
    }
#endif
    sl_stream_v8(simd, to, (const sl_v8 *)from);
    sl_stream_v8(simd, to + SL_LANES_8, (const sl_v8 *)from + 1);
}

// x as bf16, of a row.
SL_INLINE void sl_round_span(const float *x, uint64_t n, uint16_t *to)
{
    uint64_t i = 0;
    for (; i + SL_LANES_8 <= n; i += SL_LANES_8) {
        const sl_v8 v = *(const sl_v8_at *)(x + i);
        sl_v8_to_bf16(&v, to + i);
    }
    for (; i < n; i++)
        to[i] = sl_float_to_bf16(x[i]);
}

// Asks for n elements of a row from element `at` of x on; all but `at` are constants.
SL_INLINE void sl_prefetch_row(const void *x, int half, uint64_t at, uint32_t n)
{
    const char *p = (const char *)x + at * (half ? 2 : 4);
    uint32_t n_bytes = n * (half ? 2 : 4);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n_bytes; i += SL_CACHE_LINE)
        __builtin_prefetch(p + i, 0, 3);
}

// Columns first .. end of a row.
struct sl_stretch {
    uint32_t first, end;
};

/*
 * Where columns before `done` of a row of at least 16 are made, the next ones to make: a chunk, or
 * the vectors that end at the last column and overlap what is made; where a row is too narrow for
 * that, its whole vectors first. The first call is for 0, or a multiple of `chunk`.
 */
SL_INLINE struct sl_stretch sl_next_stretch(uint32_t done, uint32_t columns, uint32_t chunk)
{
    uint32_t n = (columns - done + SL_LANES - 1) / SL_LANES * SL_LANES;
    n = n < chunk ? n : chunk;
    n = n < columns ? n : columns / SL_LANES * SL_LANES;
    const uint32_t first = done < columns - n ? done : columns - n;
    return (struct sl_stretch){first, first + n};
}

#endif
