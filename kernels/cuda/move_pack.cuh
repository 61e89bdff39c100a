/*
 * move_pack.cuh - packs: as many neighbouring elements of a row as one load or store moves.
 *
 * A row of `dim` elements is read in packs of four, two or one elements: the largest that divides
 * the row and to which every array of the call is aligned (sl_cuda_pack). So a width that is no
 * multiple of 16 bytes needs no head and no tail: neighbouring lanes read neighbouring packs, and a
 * warp asks for whole sectors of 32 bytes whatever the pack is; a small one costs instructions, not
 * bytes. Four elements are the most for f16 too: the loads are then 8 bytes a lane and the stores
 * of f32 16, without a gap between lanes on either side.
 */
#ifndef SL_KERNELS_CUDA_MOVE_PACK_CUH
#define SL_KERNELS_CUDA_MOVE_PACK_CUH

#include <type_traits>

#include "common/base/half.h"
#include "kernels/cuda/bf16.cuh"

enum { SL_PACK_MAX = 4 };

// f16 as it is stored.
struct sl_half {
    uint16_t bits;
};

template <typename E, int N> struct alignas(sizeof(E) * N) sl_pack {
    E at[N];
};

// Exact; a NaN stays one.
static __device__ inline float sl_widen(sl_half x)
{
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(x.bits));
#else
    return sl_half_to_float(x.bits);
#endif
}

template <typename E, int N>
static __device__ inline sl_pack<E, N> sl_load(const E *row, uint64_t column)
{
    return *reinterpret_cast<const sl_pack<E, N> *>(row + column);
}

template <typename E, int N>
static __device__ inline void sl_store(E *row, uint64_t column, const sl_pack<E, N> &pack)
{
    *reinterpret_cast<sl_pack<E, N> *>(row + column) = pack;
}

// The same of packs that the array may not be aligned to: element by element then.
template <typename E, int N>
static __device__ __forceinline__ sl_pack<E, N> sl_load_any(const E *row, uint64_t column,
                                                            bool aligned)
{
    if (aligned)
        return sl_load<E, N>(row, column);
    sl_pack<E, N> pack;
#pragma unroll
    for (int k = 0; k < N; k++)
        pack.at[k] = row[column + k];
    return pack;
}

template <typename E, int N>
static __device__ __forceinline__ void sl_store_any(E *row, uint64_t column, bool aligned,
                                                    const sl_pack<E, N> &pack)
{
    if (aligned) {
        sl_store<E, N>(row, column, pack);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        row[column + k] = pack.at[k];
}

// Rounded to bf16.
template <int N>
static __device__ inline void sl_store_rounded(uint16_t *row, uint64_t column,
                                               const sl_pack<float, N> &pack)
{
    sl_pack<uint16_t, N> rounded;
#pragma unroll
    for (int k = 0; k < N; k++)
        rounded.at[k] = sl_bf16_bits(pack.at[k]);
    sl_store<uint16_t, N>(row, column, rounded);
}

// The widest pack for rows of `dim` elements of `element` bytes in arrays that begin at `begin`,
// from a pack that was wide enough for others so far: 4, 2 or 1 elements. NULL is aligned.
static inline int sl_cuda_pack(int so_far, uint64_t dim, const void *begin, size_t element)
{
    int n = so_far;
    while (n > 1 && (dim % (unsigned)n != 0 || (uintptr_t)begin % (element * (unsigned)n) != 0))
        n /= 2;
    return n;
}

// The widest pack for rows of `dim` elements in all of these arrays.
template <typename... E> static inline int sl_cuda_packs(uint64_t dim, const E *...begin)
{
    int n = SL_PACK_MAX;
    ((n = sl_cuda_pack(n, dim, begin, sizeof(E))), ...);
    return n;
}

// run(std::integral_constant<int, pack>()): what has the pack as a template's argument.
template <class Run> static inline int sl_cuda_by_pack(int pack, const Run &run)
{
    switch (pack) {
    case 4: return run(std::integral_constant<int, 4>());
    case 2: return run(std::integral_constant<int, 2>());
    default: return run(std::integral_constant<int, 1>());
    }
}

#endif
