/*
 * cuda.cuh - what all kernels of the plug-in share: launches, errors, the thread's queue, warps.
 *
 * Sources of this folder are compiled twice: by nvcc for GPUs, and by g++ against tests/simt, which
 * runs blocks and threads on the processor. So a launch is written SL_LAUNCH, dynamic shared memory
 * SL_DYNAMIC_SHARED, and nothing of CUB, Thrust, textures or inline PTX stands outside of an
 * #ifdef __CUDACC__ that has a plain way beside it. Everything else is CUDA C++ as nvcc takes it:
 * __global__, __shared__, __syncthreads, *_sync intrinsics, atomics.
 */
#ifndef SL_KERNELS_CUDA_CUDA_CUH
#define SL_KERNELS_CUDA_CUDA_CUH

#include <stdint.h>

/*
 * A kernel that some place launches, in the list of all of them that release.cu loads. The place
 * names it as a constant, so the note exists before anything is launched.
 */
struct sl_cuda_kernel {
    const void *function;
    struct sl_cuda_kernel *next;
    explicit sl_cuda_kernel(const void *f);
};
template <auto *kernel> struct sl_cuda_note {
    static struct sl_cuda_kernel of;
};
template <auto *kernel>
struct sl_cuda_kernel sl_cuda_note<kernel>::of(reinterpret_cast<const void *>(kernel));
#define SL_NOTE_KERNEL(kernel) (void)&sl_cuda_note<(kernel)>::of

#ifdef SL_SIMT
#include "tests/simt/simt.h"
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define SL_ENQUEUE(kernel, grid, block, shared, ...)                                               \
    SL_NOTE_KERNEL(kernel), (kernel)<<<(grid), (block), (shared), sl_cuda_stream()>>>(__VA_ARGS__)
// The block's dynamic shared memory as an array of `type`.
#define SL_DYNAMIC_SHARED(type, name)                                                              \
    extern __shared__ __align__(16) unsigned char sl_dynamic_shared_[];                            \
    type *name = reinterpret_cast<type *>(sl_dynamic_shared_)
#endif

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "common/base/philox.h"
#include "kernels/kernels.h"

enum { SL_WARP = 32 };
#define SL_FULL_MASK 0xffffffffu

// --- runtime.cu ----------------------------------------------------------------------------------

// The calling thread's stream, made at its first call.
cudaStream_t sl_cuda_stream(void);
// Records what went wrong: statement, place, device, CUDA's name and meaning. SL_EDEVICE, or
// SL_ENOMEM where memory ran out.
int sl_cuda_fail(cudaError_t error, const char *statement, const char *file, int line);
// After a launch: refused launches are found here, faults at the next sync.
int sl_cuda_launched(const char *kernel, const char *file, int line);
// Multiprocessors of the device: what grids of persistent blocks are sized by.
uint32_t sl_cuda_processors(void);

#define SL_CUDA_TRY(expr)                                                                          \
    do {                                                                                           \
        cudaError_t sl_error_ = (expr);                                                            \
        if (__builtin_expect(sl_error_ != cudaSuccess, 0))                                         \
            return sl_cuda_fail(sl_error_, #expr, __FILE__, __LINE__);                             \
    } while (0)

// kernel<<<grid, block, shared bytes>>>(arguments...) on this thread's queue, in a function that
// returns a code. The kernel's name stands in parentheses where it has a comma:
// SL_LAUNCH((fill<float, 4>), ...).
#define SL_LAUNCH(kernel, ...)                                                                     \
    do {                                                                                           \
        SL_ENQUEUE(kernel, __VA_ARGS__);                                                           \
        SL_TRY(sl_cuda_launched(#kernel, __FILE__, __LINE__));                                     \
    } while (0)

/*
 * What kernels say of bad values that only they see: the first one of this thread's queue wins and
 * is turned into an error by the next sync(), in the words of `what`. The element is left out.
 */
enum sl_cuda_complaint {
    SL_COMPLAINT_NONE,
    SL_COMPLAINT_ROW,       // gather: row `value` at `index`, of `limit` rows
    SL_COMPLAINT_TO,        // gather_rows_to, scatter_rows: destination likewise
    SL_COMPLAINT_LABEL,     // softmax_xent
    SL_COMPLAINT_TARGET,    // sigmoid_bce
    SL_COMPLAINT_NODE,      // mark_ranks, draw
    SL_COMPLAINT_WEIGHT,    // weight_prefix: edge `index`
    SL_COMPLAINT_DEGREE,    // draw: 2^32 neighbours or more
    SL_COMPLAINT_DUPLICATE, // draw: a seed twice
};

struct sl_cuda_complaints {
    uint32_t taken; // 0 or 1
    uint32_t what;  // enum sl_cuda_complaint
    uint64_t index, value, limit;
};

// Device address of the calling thread's record, to pass to kernels that check.
struct sl_cuda_complaints *sl_cuda_complaints(void);
// SL_OK, or the complaint as an error (SL_ERANGE, SL_EINVAL); empties the record. Synchronises.
int sl_cuda_heard(void);

static __device__ inline void sl_complain(struct sl_cuda_complaints *to, uint32_t what,
                                          uint64_t index, uint64_t value, uint64_t limit)
{
    if (atomicCAS(&to->taken, 0u, 1u) == 0u) {
        to->what = what;
        to->index = index;
        to->value = value;
        to->limit = limit;
    }
}

// The sum over LANES neighbouring lanes, for all of them, in a fixed tree. Whole warps call it.
template <int LANES, typename T> static __device__ __forceinline__ T sl_lanes_sum(T sum)
{
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(SL_FULL_MASK, sum, step);
    return sum;
}

// --- scan.cu -------------------------------------------------------------------------------------

/*
 * out[0 .. n] = exclusive running sums of in[0 .. n), out[n] their total; in 64 bits inside, so
 * that a total above 2^32 - 1 is seen: *total (device memory, or NULL) gets it. `n` is the
 * processor's; where n_device is not NULL the number is *n_device, at most n. `in` may be `out`.
 * Deterministic. Scratch comes from ws.
 */
int sl_cuda_scan(const uint32_t *in, uint32_t n, const uint32_t *n_device, uint32_t *out,
                 uint64_t *total, struct sl_mempool *ws);

// --- the slots of the table ----------------------------------------------------------------------

SL_KERNELS_SLOTS(SL_KERNELS_DECLARE, cuda)
SL_KERNELS_DRAW_SLOTS(SL_KERNELS_DECLARE, cuda)

#endif
