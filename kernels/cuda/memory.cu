/*
 * memory.cu - the GPU's memory: allocations that are kept, and a budget.
 *
 * PROBLEM. cudaMalloc and cudaFree take tens to hundreds of microseconds and stop the whole GPU, so
 * that what a mini-batch needs must not come from them; and several processes share a GPU, each
 * with a part of it that was promised to it.
 *
 * DESIGN. A block is one cudaMalloc. What is freed is kept and given to the next request that it
 * fits: one of at least seven eighths of it, more or less. Sizes are rounded so that requests which
 * differ a little from batch to batch ask for the same:
 *
 *      up to 64 MiB    to one of eight sizes between two powers of two, at least 256 bytes
 *      above           to a multiple of 2 MiB, the GPU's page
 *
 * Used and kept blocks count against the budget. A request that does not fit takes back kept
 * blocks, the largest first, and only then fails. Not more than KEEP_BYTES are kept: what is larger
 * (a copy of features for an evaluation, the old half of a pool that grew) is wanted once an epoch
 * at most, and meanwhile by whoever else is on the GPU. Callers hold memory for long (pools grow to
 * the largest batch and stay, mempool.h), so there are some hundred blocks at most and a list is
 * searched.
 *
 * cudaFree waits for all that the GPU does. So nobody who calls it holds the lock; whoever needs
 * the very memory that is on its way back waits for that, and everybody else goes on. While a sum
 * of this process waits for other processes nothing goes back (release.cu): a request that does not
 * fit takes any kept block that is large enough then, or waits for the end of the sum.
 *
 * free() waits for what the calling thread has queued, so that the next owner of the block, in
 * whatever thread, meets no kernel that still writes into it. Blocks that several threads use are
 * freed by one of them after the others have called sync(), as for all that they share.
 *
 * The budget is of what is allocated here. The driver's own share of a process (its context and the
 * kernels' code, some hundred MiB) and what cuBLAS and NCCL allocate stand beside it.
 */
#include "kernels/cuda/runtime.cuh"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct block {
    char *base;
    size_t bytes;
    bool used;
};

// All guarded by `lock`.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;
static struct block *blocks;
static size_t n_blocks, capacity;
static uint64_t used_bytes, kept_bytes;
static uint64_t leaving_bytes; // off the list, but not the device's yet
static bool trim_is_owed;      // trim() was asked for while nothing could go back

#define FINE_BYTES ((size_t)64 << 20)
#define PAGE_BYTES ((size_t)2 << 20)
#define KEEP_BYTES ((uint64_t)64 << 20)

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static size_t round_size(size_t bytes)
{
    if (bytes > FINE_BYTES)
        return sl_align_up(bytes, PAGE_BYTES);
    size_t step = sl_pow2_at_least(SL_MAX(bytes, (size_t)2048)) / 16; // 8 steps above the half
    return sl_align_up(SL_MAX(bytes, (size_t)1), SL_MAX(step, (size_t)256));
}

// The kept block that wastes least, and not more than `waste`, or n_blocks.
static size_t find_kept(size_t want, size_t waste)
{
    size_t best = n_blocks;
    for (size_t i = 0; i < n_blocks; i++)
        if (!blocks[i].used && blocks[i].bytes >= want && blocks[i].bytes - want <= waste)
            if (best == n_blocks || blocks[i].bytes < blocks[best].bytes)
                best = i;
    return best;
}

static size_t find_largest_kept(void)
{
    size_t best = n_blocks;
    for (size_t i = 0; i < n_blocks; i++)
        if (!blocks[i].used && (best == n_blocks || blocks[i].bytes > blocks[best].bytes))
            best = i;
    return best;
}

// Gives one kept block back to the device. The lock is let go of meanwhile: the list may be another
// one afterwards. False, and nothing is done, while a sum is under way.
static bool release(size_t i)
{
    if (!sl_cuda_may_release())
        return false;
    const struct block gone = blocks[i];
    blocks[i] = blocks[--n_blocks];
    kept_bytes -= gone.bytes;
    leaving_bytes += gone.bytes;
    pthread_mutex_unlock(&lock);
    cudaError_t error = cudaFree(gone.base);
    if (error != cudaSuccess)
        sl_cuda_fail(error, "cudaFree", __FILE__, __LINE__); // a fault is noted, the rest is lost
    sl_cuda_released();
    pthread_mutex_lock(&lock);
    leaving_bytes -= gone.bytes;
    pthread_cond_broadcast(&given_back);
    return true;
}

// Gives the largest kept block back, or waits for one that another thread gives back; while that
// has to wait for a sum, for the end of it, which is another thread's to see to. False when there
// is none.
static bool make_room(void)
{
    size_t kept = find_largest_kept();
    if (kept < n_blocks && release(kept))
        return true;
    if (leaving_bytes == 0 && (kept >= n_blocks || sl_cuda_sums_here()))
        return false;
    pthread_cond_wait(&given_back, &lock);
    return true;
}

// Gives back what is above `keep`, as far as that is possible now.
static void shrink(uint64_t keep)
{
    size_t i;
    while (kept_bytes > keep && (i = find_largest_kept()) < n_blocks && !sl_cuda_faulted())
        if (!release(i))
            return;
}

static bool fits_budget(size_t want)
{
    uint64_t budget = sl_cuda_gpu.budget_bytes;
    uint64_t held = used_bytes + kept_bytes + leaving_bytes;
    return budget == 0 || (held <= budget && want <= budget - held);
}

static int grow_list(void)
{
    if (n_blocks < capacity)
        return SL_OK;
    size_t more = capacity ? 2 * capacity : 64;
    struct block *grown = (struct block *)realloc(blocks, more * sizeof *grown);
    if (!grown)
        return sl_fail(SL_ENOMEM, "no memory for the list of the GPU's blocks");
    blocks = grown;
    capacity = more;
    return SL_OK;
}

// What cudaMemGetInfo says, or 0 where it says nothing.
static void ask_device(uint64_t *free_bytes, uint64_t *total_bytes)
{
    size_t left = 0, all = 0;
    if (sl_cuda_faulted() || cudaMemGetInfo(&left, &all) != cudaSuccess)
        left = 0, all = (size_t)sl_cuda_gpu.total_bytes;
    *free_bytes = left;
    *total_bytes = all;
}

static int fail_no_room(size_t want)
{
    uint64_t free_bytes, total_bytes, budget = sl_cuda_gpu.budget_bytes;
    char of_budget[96] = "";
    ask_device(&free_bytes, &total_bytes);
    cudaGetLastError();
    if (budget)
        snprintf(of_budget, sizeof of_budget, ", its budget (devices[].memory) is %.1f MiB",
                 mib(budget));
    return sl_fail(SL_ENOMEM,
                   "GPU %d (%s): no room for %.1f MiB more: this process has %.1f MiB of it in "
                   "use%s; %.1f of the GPU's %.1f MiB are free. Lower sampler.batch_size, "
                   "sampler.fanout, evaluate.fanout or cache.ratio%s",
                   sl_cuda_gpu.index, sl_cuda_gpu.name, mib(want), mib(used_bytes), of_budget,
                   mib(free_bytes), mib(total_bytes),
                   budget ? ", or raise devices[].memory" : ", or end what else uses the GPU");
}

// A new block; SL_EAGAIN when there was no room and may be some by now.
static int add_block(size_t want, size_t *out)
{
    SL_TRY(grow_list());
    void *p = NULL;
    bool room = fits_budget(want);
    cudaError_t error = room ? cudaMalloc(&p, want) : cudaErrorMemoryAllocation;
    if (error == cudaSuccess) {
        blocks[n_blocks].base = (char *)p;
        blocks[n_blocks].bytes = want;
        blocks[n_blocks].used = false;
        kept_bytes += want;
        *out = n_blocks++;
        return SL_OK;
    }
    if (error != cudaErrorMemoryAllocation)
        return sl_cuda_fail(error, "cudaMalloc", __FILE__, __LINE__);
    cudaGetLastError();
    // While nothing can be given back any block is good enough.
    if (sl_cuda_is_summing() && (*out = find_kept(want, SIZE_MAX)) < n_blocks)
        return SL_OK;
    return make_room() ? SL_EAGAIN : fail_no_room(want);
}

static void *take(size_t want)
{
    size_t i;
    while ((i = find_kept(want, want / 7)) == n_blocks) {
        int rc = add_block(want, &i);
        if (rc == SL_OK)
            break;
        if (rc != SL_EAGAIN || sl_cuda_enter() < 0)
            return NULL;
    }
    blocks[i].used = true;
    used_bytes += blocks[i].bytes;
    kept_bytes -= blocks[i].bytes;
    return blocks[i].base;
}

void *sl_cuda_alloc(size_t bytes)
{
    if (sl_cuda_enter() < 0)
        return NULL;
    if (bytes > SIZE_MAX / 2) {
        sl_fail(SL_ENOMEM, "GPU %d: a size of %zu bytes overflowed on its way here",
                sl_cuda_gpu.index, bytes);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    void *p = take(round_size(bytes));
    pthread_mutex_unlock(&lock);
    return p;
}

void sl_cuda_free(void *p, size_t bytes)
{
    (void)bytes;
    if (!p)
        return;
    // What is freed after a fault is kept: nobody can be given it.
    if (sl_cuda_enter() == SL_OK) {
        cudaError_t error = cudaStreamSynchronize(sl_cuda_stream());
        if (error != cudaSuccess)
            sl_cuda_fail(error, "cudaStreamSynchronize", __FILE__, __LINE__);
    }
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_blocks; i++) {
        if (blocks[i].base != p || !blocks[i].used)
            continue;
        blocks[i].used = false;
        used_bytes -= blocks[i].bytes;
        kept_bytes += blocks[i].bytes;
        break;
    }
    shrink(KEEP_BYTES);
    pthread_mutex_unlock(&lock);
}

int sl_cuda_space(uint64_t *free_bytes, uint64_t *total_bytes)
{
    SL_TRY(sl_cuda_enter());
    size_t left, all;
    SL_CUDA_TRY(cudaMemGetInfo(&left, &all));
    uint64_t budget = sl_cuda_gpu.budget_bytes;
    pthread_mutex_lock(&lock);
    uint64_t used = used_bytes, kept = kept_bytes;
    pthread_mutex_unlock(&lock);
    *free_bytes = left + kept;
    *total_bytes = all;
    if (budget) {
        *free_bytes = SL_MIN(*free_bytes, budget > used ? budget - used : 0);
        *total_bytes = SL_MIN(*total_bytes, budget);
    }
    return SL_OK;
}

int sl_cuda_usage(uint64_t *used_bytes, uint64_t *total_bytes)
{
    SL_TRY(sl_cuda_enter());
    size_t left, all;
    SL_CUDA_TRY(cudaMemGetInfo(&left, &all));
    *used_bytes = all - left;
    *total_bytes = all;
    return SL_OK;
}

uint64_t sl_cuda_held(void)
{
    pthread_mutex_lock(&lock);
    uint64_t held = used_bytes + kept_bytes + leaving_bytes;
    pthread_mutex_unlock(&lock);
    return held;
}

void sl_cuda_trim(void)
{
    if (sl_cuda_enter() < 0)
        return;
    pthread_mutex_lock(&lock);
    shrink(0);
    trim_is_owed = kept_bytes > 0;
    pthread_mutex_unlock(&lock);
}

// A sum is over: what it kept from going back goes, and whoever waits for room looks again.
void sl_cuda_settle_memory(void)
{
    pthread_mutex_lock(&lock);
    shrink(trim_is_owed ? 0 : KEEP_BYTES);
    trim_is_owed = false;
    pthread_cond_broadcast(&given_back);
    pthread_mutex_unlock(&lock);
}

bool sl_cuda_block_of(const void *p, void **base, size_t *bytes)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_blocks && !found; i++) {
        const char *first = blocks[i].base;
        if ((const char *)p < first || (const char *)p >= first + blocks[i].bytes)
            continue;
        *base = blocks[i].base;
        *bytes = blocks[i].bytes;
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
