/*
 * release.cu - what waits for the whole GPU, and sums that wait for other processes.
 *
 * PROBLEM. cudaFree(), cudaFreeHost(), cudaHostUnregister() and cudaIpcCloseMemHandle() wait for
 * all that the GPU does, in whatever stream; loading a kernel at its first launch may do so too.
 * While a sum of NCCL's is under way that is a wait for other processes, and where one of them has
 * died for ever: the thread that calls stands still, in CUDA, and with it whoever needs its lock.
 * If that is the thread that was to notice the death, nobody does.
 *
 * DESIGN. A gate. While a sum is under way what is given back is kept by its owner (memory.cu,
 * mapping.cu), to be used again or to be released when the sum is over or given up; and a sum does
 * not begin before releases that are under way have ended, which they do by themselves, since
 * nothing on the GPU waits for others then. Kernels are loaded, all of them, before the first sum.
 *
 *      release:  may_release() .. cudaFree() .. released()     false: keep it
 *      sum:      sum_begins() .. sum is over or aborted .. sum_ends(), which releases what was kept
 *
 * What is kept is bounded: device memory counts against the budget as before, and a request that
 * finds no room takes what is kept, or waits for the end of the sum unless its own thread is the
 * one that has to see to that. Host memory is what buffers have outgrown during one sum.
 *
 * LOADING. CUDA_MODULE_LOADING=EAGER would do it without a list of kernels, but for all libraries
 * of the process: cuBLASLt would load kernels by the hundred MiB that no budget knows of, in jobs
 * without NCCL too. So each place that launches a kernel notes it (cuda.cuh), and
 * cudaFuncGetAttributes() loads it. NCCL loads its own when a group is formed; cuBLASLt is called
 * by the thread that sums alone, which asks nothing of the GPU meanwhile.
 */
#include "kernels/cuda/runtime.cuh"

#include <pthread.h>

#include "kernels/cuda/libraries.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static uint32_t n_releasing; // guarded by lock
static bool is_summing;      // guarded by lock
static thread_local bool sums_here;

bool sl_cuda_may_release(void)
{
    pthread_mutex_lock(&lock);
    const bool may = !is_summing;
    n_releasing += may;
    pthread_mutex_unlock(&lock);
    return may;
}

void sl_cuda_released(void)
{
    pthread_mutex_lock(&lock);
    if (--n_releasing == 0)
        pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

bool sl_cuda_is_summing(void)
{
    pthread_mutex_lock(&lock);
    const bool is = is_summing;
    pthread_mutex_unlock(&lock);
    return is;
}

bool sl_cuda_sums_here(void)
{
    return sums_here;
}

void sl_cuda_sum_begins(void)
{
    pthread_mutex_lock(&lock);
    while (n_releasing > 0)
        pthread_cond_wait(&released, &lock);
    is_summing = sums_here = true;
    pthread_mutex_unlock(&lock);
}

void sl_cuda_sum_ends(void)
{
    pthread_mutex_lock(&lock);
    is_summing = sums_here = false;
    pthread_mutex_unlock(&lock);
    sl_cuda_settle_memory();
    sl_cuda_settle_mappings();
}

// --- kernels -------------------------------------------------------------------------------------

// Written when the plug-in is loaded, before any thread may ask.
static struct sl_cuda_kernel *kernels;

sl_cuda_kernel::sl_cuda_kernel(const void *f) : function(f), next(kernels)
{
    kernels = this;
}

int sl_cuda_load_kernels(void)
{
    cudaFuncAttributes ignored;
    for (const struct sl_cuda_kernel *k = kernels; k; k = k->next)
        SL_CUDA_TRY(cudaFuncGetAttributes(&ignored, k->function));
    return SL_OK;
}
