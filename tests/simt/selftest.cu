/*
 * selftest.cu - the kernels of selftest.h. They are part of the emulated plug-in alone.
 */
#include "tests/simt/selftest.h"

#include <stdlib.h>

#include "tests/simt/simt.h"

namespace {

enum { THREADS = 256 };

// out[0] += 1 + 2 + ... + n, by one block.
__global__ void sum_kernel(uint32_t n, uint32_t *out)
{
    __shared__ uint32_t parts[THREADS / 32];
    uint32_t sum = 0;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS)
        sum += i + 1;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, (unsigned)step);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t all = 0;
        for (int i = 0; i < THREADS / 32; i++)
            all += parts[i];
        atomicAdd(out, all);
    }
}

// The last thread to come wins: right in one order only.
__global__ void last_wins(uint32_t *out)
{
    *(volatile uint32_t *)out = threadIdx.x;
}

__global__ void divergent_barrier(uint32_t *out)
{
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void ended_barrier(uint32_t *out)
{
    if (threadIdx.x >= THREADS / 2)
        return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void wrong_mask(uint32_t *out)
{
    if (threadIdx.x % 32 < 16)
        out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}

__global__ void not_in_mask(uint32_t *out)
{
    out[threadIdx.x] = __ballot_sync(0x0000ffffu, 1);
}

__global__ void behind_dynamic(uint32_t *out)
{
    SL_DYNAMIC_SHARED(uint32_t, words);
    words[threadIdx.x + 1] = threadIdx.x; // the last one is behind
    out[threadIdx.x] = 1;
}

__global__ void store_at(uint32_t *out, uint64_t at)
{
    if (threadIdx.x == 0)
        out[at] = 1;
}

__global__ void load_from(const uint32_t *from, uint32_t *out)
{
    if (threadIdx.x == 0)
        out[0] = from[0] + 1;
}

__global__ void missing_barrier(uint32_t *out)
{
    __shared__ uint32_t words[THREADS];
    words[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = words[(threadIdx.x + 32) % THREADS];
}

__global__ void missing_warp_sync(uint32_t *out)
{
    __shared__ uint32_t words[THREADS];
    words[threadIdx.x] = threadIdx.x;
    uint32_t any = __shfl_sync(0xffffffffu, threadIdx.x, 0);
    out[threadIdx.x] = words[threadIdx.x ^ 1] + any;
}

__global__ void block_race(uint32_t *out)
{
    if (threadIdx.x == 0)
        out[0] = 7;
}

__global__ void read_twice(const uint32_t *from, uint32_t *out, volatile uint32_t *stage)
{
    out[blockIdx.x] = from[0];
    if (blockIdx.x == 0)
        for (*stage = 1; *stage != 2;)
            __nanosleep(1000);
}

int launch(enum simt_defect defect, uint32_t *out, const uint32_t *host)
{
    static const size_t shared = THREADS * sizeof(uint32_t);
#define RUN(kernel, grid, dynamic, ...)                                                            \
    simt::launch(#kernel, kernel, (grid), THREADS, (dynamic), 0)(__VA_ARGS__);                     \
    break
    switch (defect) {
    case SIMT_NONE: RUN(sum_kernel, 3, 0, 1000, out);
    case SIMT_SHUFFLED_RACE: RUN(last_wins, 1, 0, out);
    case SIMT_DIVERGENT_BARRIER: RUN(divergent_barrier, 1, 0, out);
    case SIMT_ENDED_BARRIER: RUN(ended_barrier, 1, 0, out);
    case SIMT_WRONG_MASK: RUN(wrong_mask, 1, 0, out);
    case SIMT_NOT_IN_MASK: RUN(not_in_mask, 1, 0, out);
    case SIMT_BEHIND_DYNAMIC: RUN(behind_dynamic, 1, shared, out);
    case SIMT_BEHIND_DEVICE: RUN(store_at, 1, 0, out, THREADS);
    case SIMT_NULL: RUN(load_from, 1, 0, NULL, out);
    case SIMT_MISSING_BARRIER: RUN(missing_barrier, 1, 0, out);
    case SIMT_MISSING_WARP_SYNC: RUN(missing_warp_sync, 1, 0, out);
    case SIMT_BLOCK_RACE: RUN(block_race, 2, 0, out);
    case SIMT_READ_BEHIND: RUN(load_from, 1, 0, out + THREADS, out);
    case SIMT_HOST_MEMORY: RUN(load_from, 1, 0, host, out);
    default: return -1;
    }
#undef RUN
    return 0;
}

} // namespace

/*
 * Runs one of the kernels. 0 when its result is right, 1 when it is wrong, -1 when the runtime
 * failed; does not return when the emulation finds something.
 */
static int run_on(enum simt_defect defect, const uint32_t *host)
{
    uint32_t *out = NULL, got[2] = {0, 0};
    if (cudaMalloc(&out, THREADS * sizeof *out) != cudaSuccess ||
        cudaMemset(out, 0, THREADS * sizeof *out) != cudaSuccess)
        return -1;
    if (defect == SIMT_HOST_TOUCH)
        return (int)*(volatile uint32_t *)out;
    if (launch(defect, out, host) != 0 || cudaGetLastError() != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess ||
        cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess ||
        cudaFree(out) != cudaSuccess)
        return -1;
    if (defect == SIMT_NONE)
        return got[0] != 3 * 500500;
    if (defect == SIMT_SHUFFLED_RACE)
        return got[0] != THREADS - 1;
    return 0;
}

extern "C" __attribute__((visibility("default"))) int sluice_simt_selftest_run(
    enum simt_defect defect)
{
    // Memory of the process that the device has not been told of.
    uint32_t *host = static_cast<uint32_t *>(calloc(4, sizeof *host));
    int rc = host ? run_on(defect, host) : -1;
    free(host);
    return rc;
}

extern "C" __attribute__((visibility("default"))) int sluice_simt_read_twice(
    const uint32_t *from, uint32_t *out, volatile uint32_t *stage)
{
    simt::launch("read_twice", read_twice, 2, 1, 0, 0)(from, out, stage);
    return cudaDeviceSynchronize();
}
