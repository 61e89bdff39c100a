/*
 * simt.h - CUDA C++ for a compiler that knows nothing of GPUs: kernels run on the processor.
 *
 * PROBLEM. Most machines that sluice is developed and tested on have no GPU. The kernels are to be
 * tested there all the same, and not a copy of them.
 *
 * DESIGN. Sources of kernels/cuda are compiled by g++ with SL_SIMT defined; this file stands in for
 * cuda_runtime.h. A kernel is a plain function. A launch runs its blocks one after the other, and a
 * block's threads as fibres that one thread of the operating system switches between where a thread
 * waits for others: at __syncthreads() and at the *_sync() functions of a warp (engine.cc). Memory
 * of the device is a region of its own that the host may not touch (memory.cc); the runtime's calls
 * are in runtime.h. README.md says what this can show and what it cannot.
 *
 * Shared memory is static memory, since one block runs at a time: `__shared__` variables are
 * collected in one section (shared.ld), which is filled with rubbish before a block starts.
 */
#ifndef SL_TESTS_SIMT_SIMT_H
#define SL_TESTS_SIMT_SIMT_H

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tuple>
#include <type_traits>

#include "tests/simt/functions.h"
#include "tests/simt/runtime.h"
#include "tests/simt/types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   static __attribute__((section("simt_shared")))

namespace simt {

// ---- the engine, as kernels see it --------------------------------------------------------------

// Where in the source something was called: compared, and named in reports.
struct place {
    const char *file;
    int line;
    static constexpr place here(const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return {file, line};
    }
};

// What the running thread is. Changed by every switch between fibres.
extern uint3 thread_idx, block_idx;
extern dim3 block_dim, grid_dim;
uint3 get_thread_idx();
uint3 get_block_idx();
dim3 get_block_dim();
dim3 get_grid_dim();

void barrier(place at);

enum warp_kind {
    WARP_SYNC,
    WARP_SHFL,
    WARP_SHFL_UP,
    WARP_SHFL_DOWN,
    WARP_SHFL_XOR,
    WARP_BALLOT,
    WARP_ANY,
    WARP_MATCH_ANY,
    WARP_ADD,
    WARP_OR,
};
uint64_t warp(warp_kind kind, unsigned mask, uint64_t value, unsigned argument, int width,
              place at);

enum atomic_kind {
    ATOMIC_ADD,
    ATOMIC_ADD_FLOAT,
    ATOMIC_ADD_DOUBLE,
    ATOMIC_EXCHANGE,
    ATOMIC_CAS,
    ATOMIC_MIN,
    ATOMIC_MIN_SIGNED,
    ATOMIC_OR,
    ATOMIC_XOR,
};
uint32_t atomic32(atomic_kind kind, void *p, uint32_t value, uint32_t compare);
uint64_t atomic64(atomic_kind kind, void *p, uint64_t value, uint64_t compare);
uint16_t atomic16(atomic_kind kind, void *p, uint16_t value, uint16_t compare);

void fence();
void pause(); // lets others run: __nanosleep
[[noreturn]] void trap(place at);
void *dynamic_shared();
long long clock();

// ---- launches -----------------------------------------------------------------------------------

// A kernel with its arguments; kept until it has run.
struct call {
    const char *name;
    dim3 grid, block;
    size_t shared;
    const void *function;
    const void *arguments;
    size_t argument_bytes;
    virtual void run() = 0; // one thread of it
    virtual ~call() {}
};

void submit(call *kernel, cudaStream_t stream); // which is its own from here on

template <class... P> struct call_of final : call {
    void (*kernel)(P...);
    std::tuple<P...> values;
    explicit call_of(void (*k)(P...), P... p) : kernel(k), values(p...) {}
    void run() override
    {
        std::apply(kernel, values);
    }
};

// Takes the arguments as the kernel declares them, so that they are converted as in a plain call.
template <class... P> struct launcher {
    const char *name;
    void (*kernel)(P...);
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    void operator()(P... p) const
    {
        auto *made = new call_of<P...>(kernel, p...);
        made->name = name;
        made->grid = grid;
        made->block = block;
        made->shared = shared;
        made->function = reinterpret_cast<const void *>(kernel);
        made->arguments = made;
        made->argument_bytes = sizeof *made;
        submit(made, stream);
    }
};

template <class... P>
launcher<P...> launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                      cudaStream_t stream)
{
    return {name, kernel, grid, block, shared, stream};
}

} // namespace simt

#define SL_ENQUEUE(kernel, grid, block, shared, ...)                                               \
    SL_NOTE_KERNEL(kernel),                                                                        \
        simt::launch(#kernel, (kernel), (grid), (block), (shared), sl_cuda_stream())(__VA_ARGS__)
#define SL_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(simt::dynamic_shared())

#ifdef SIMT_CHECKED // these are no accesses of the kernel's
#define threadIdx (simt::get_thread_idx())
#define blockIdx  (simt::get_block_idx())
#define blockDim  (simt::get_block_dim())
#define gridDim   (simt::get_grid_dim())
#else
#define threadIdx (static_cast<const uint3 &>(simt::thread_idx))
#define blockIdx  (static_cast<const uint3 &>(simt::block_idx))
#define blockDim  (static_cast<const dim3 &>(simt::block_dim))
#define gridDim   (static_cast<const dim3 &>(simt::grid_dim))
#endif
static constexpr int warpSize = 32;

// ---- barriers, fences ---------------------------------------------------------------------------

#define SIMT_AT simt::place at = simt::place::here()

static inline void __syncthreads(SIMT_AT)
{
    simt::barrier(at);
}
static inline void __threadfence()
{
    simt::fence();
}
static inline void __nanosleep(unsigned)
{
    simt::pause();
}
static inline void __trap(SIMT_AT)
{
    simt::trap(at);
}
// ---- warps --------------------------------------------------------------------------------------

static inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_AT)
{
    simt::warp(simt::WARP_SYNC, mask, 0, 0, 32, at);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_AT)
{
    return (unsigned)simt::warp(simt::WARP_BALLOT, mask, predicate != 0, 0, 32, at);
}
static inline int __any_sync(unsigned mask, int predicate, SIMT_AT)
{
    return (int)simt::warp(simt::WARP_ANY, mask, predicate != 0, 0, 32, at);
}

namespace simt {
template <class T> inline uint64_t to_word(T v)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "up to 64 bits");
    uint64_t word = 0;
    memcpy(&word, &v, sizeof v);
    return word;
}
template <class T> inline T from_word(uint64_t word)
{
    T v;
    memcpy(&v, &word, sizeof v);
    return v;
}
} // namespace simt

#define SIMT_SHFL(name, kind, type)                                                                \
    template <class T>                                                                             \
    static inline T name(unsigned mask, T v, type which, int width = 32, SIMT_AT)                  \
    {                                                                                              \
        return simt::from_word<T>(                                                                 \
            simt::warp(kind, mask, simt::to_word(v), (unsigned)which, width, at));                 \
    }
SIMT_SHFL(__shfl_sync, simt::WARP_SHFL, int)
SIMT_SHFL(__shfl_up_sync, simt::WARP_SHFL_UP, unsigned)
SIMT_SHFL(__shfl_down_sync, simt::WARP_SHFL_DOWN, unsigned)
SIMT_SHFL(__shfl_xor_sync, simt::WARP_SHFL_XOR, int)
#undef SIMT_SHFL

template <class T> static inline unsigned __match_any_sync(unsigned mask, T v, SIMT_AT)
{
    return (unsigned)simt::warp(simt::WARP_MATCH_ANY, mask, simt::to_word(v), 0, 32, at);
}
#define SIMT_REDUCE(name, type, kind)                                                              \
    static inline type name(unsigned mask, type v, SIMT_AT)                                        \
    {                                                                                              \
        return (type)simt::warp(kind, mask, (uint64_t)(int64_t)v, 0, 32, at);                      \
    }
SIMT_REDUCE(__reduce_add_sync, unsigned, simt::WARP_ADD)
SIMT_REDUCE(__reduce_or_sync, unsigned, simt::WARP_OR)
#undef SIMT_REDUCE

// ---- atomics ------------------------------------------------------------------------------------

#define SIMT_ATOMIC(name, type, word, function, kind)                                              \
    static inline type name(type *p, type v)                                                       \
    {                                                                                              \
        return simt_bits<type>(function(simt::kind, p, simt_bits<word>(v), 0));                    \
    }
#define SIMT_ATOMIC_INTS(name, kind, kind_signed)                                                  \
    SIMT_ATOMIC(name, int, uint32_t, simt::atomic32, kind_signed)                                  \
    SIMT_ATOMIC(name, unsigned, uint32_t, simt::atomic32, kind)                                    \
    SIMT_ATOMIC(name, long long, uint64_t, simt::atomic64, kind_signed)                            \
    SIMT_ATOMIC(name, unsigned long long, uint64_t, simt::atomic64, kind)
SIMT_ATOMIC_INTS(atomicMin, ATOMIC_MIN, ATOMIC_MIN_SIGNED)
SIMT_ATOMIC_INTS(atomicOr, ATOMIC_OR, ATOMIC_OR)
SIMT_ATOMIC_INTS(atomicXor, ATOMIC_XOR, ATOMIC_XOR)
SIMT_ATOMIC(atomicAdd, int, uint32_t, simt::atomic32, ATOMIC_ADD)
SIMT_ATOMIC(atomicAdd, unsigned, uint32_t, simt::atomic32, ATOMIC_ADD)
SIMT_ATOMIC(atomicAdd, unsigned long long, uint64_t, simt::atomic64, ATOMIC_ADD)
SIMT_ATOMIC(atomicAdd, float, uint32_t, simt::atomic32, ATOMIC_ADD_FLOAT)
SIMT_ATOMIC(atomicAdd, double, uint64_t, simt::atomic64, ATOMIC_ADD_DOUBLE)
SIMT_ATOMIC(atomicExch, int, uint32_t, simt::atomic32, ATOMIC_EXCHANGE)
SIMT_ATOMIC(atomicExch, unsigned, uint32_t, simt::atomic32, ATOMIC_EXCHANGE)
SIMT_ATOMIC(atomicExch, float, uint32_t, simt::atomic32, ATOMIC_EXCHANGE)
SIMT_ATOMIC(atomicExch, unsigned long long, uint64_t, simt::atomic64, ATOMIC_EXCHANGE)
#undef SIMT_ATOMIC_INTS
#undef SIMT_ATOMIC

static inline int atomicCAS(int *p, int compare, int v)
{
    return (int)simt::atomic32(simt::ATOMIC_CAS, p, (uint32_t)v, (uint32_t)compare);
}
static inline unsigned atomicCAS(unsigned *p, unsigned compare, unsigned v)
{
    return simt::atomic32(simt::ATOMIC_CAS, p, v, compare);
}
static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long compare,
                                           unsigned long long v)
{
    return simt::atomic64(simt::ATOMIC_CAS, p, v, compare);
}
static inline unsigned short atomicCAS(unsigned short *p, unsigned short compare, unsigned short v)
{
    return simt::atomic16(simt::ATOMIC_CAS, p, v, compare);
}

#endif
