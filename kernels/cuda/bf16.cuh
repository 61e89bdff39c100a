// bf16.cuh - rounding to formats with fewer bits of significand, and bf16 as it is stored.
#ifndef SL_KERNELS_CUDA_BF16_CUH
#define SL_KERNELS_CUDA_BF16_CUH

#include "kernels/cuda/cuda.cuh"

struct sl_bf16 {
    uint16_t bits;
};

// To `drop` bits less of the significand: the nearest, ties to the even one; NaN stays.
static __device__ __forceinline__ uint32_t sl_round_bits(float x, uint32_t drop)
{
    uint32_t bits = __float_as_uint(x), low = (1u << drop) - 1;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits | 0x00400000u;
    bits += (low >> 1) + (bits >> drop & 1);
    return bits & ~low;
}

static __device__ __forceinline__ uint16_t sl_bf16_bits(float x)
{
    return (uint16_t)(sl_round_bits(x, 16) >> 16);
}

static __device__ __forceinline__ float sl_widen(float x)
{
    return x;
}

static __device__ __forceinline__ float sl_widen(sl_bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

// Four neighbours; `to` is aligned to 8 bytes.
static __device__ __forceinline__ void sl_store_bf16(uint16_t *to, const float (&v)[4])
{
    *reinterpret_cast<ushort4 *>(to) = make_ushort4(sl_bf16_bits(v[0]), sl_bf16_bits(v[1]),
                                                    sl_bf16_bits(v[2]), sl_bf16_bits(v[3]));
}

static __device__ __forceinline__ void sl_load_bf16(const uint16_t *from, float (&v)[4])
{
    const ushort4 q = *reinterpret_cast<const ushort4 *>(from);
    v[0] = sl_widen(sl_bf16{q.x});
    v[1] = sl_widen(sl_bf16{q.y});
    v[2] = sl_widen(sl_bf16{q.z});
    v[3] = sl_widen(sl_bf16{q.w});
}

#endif
