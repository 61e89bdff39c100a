/*
 * mapping.cu - host memory that the GPU uses in place, and its memory in other processes.
 *
 * MAPPED memory is registered with the driver, which pins its pages; kernels then read and write it
 * over the bus. The unit is the page: a range is rounded out to pages, and a range inside one that
 * is registered already shares its registration (arrays of one file, one arena). Ranges that
 * overlap otherwise are refused.
 *
 * What a system may refuse, and what callers then do without: pages beyond RLIMIT_MEMLOCK, mappings
 * of files (whether a driver pins those depends on the file system and the kernel), and read-only
 * memory on GPUs or drivers that know no read-only registration.
 *
 * GIVING BACK waits for the whole GPU, so while a sum of this process waits for other processes
 * (release.cu) it is put off until that is over: pinned memory is put on a list that lies in that
 * memory itself, a range without users stays registered, where map() may find it again.
 *
 * SHARED memory: cudaIpcGetMemHandle speaks of whole allocations, so a share carries where in its
 * block the pointer was, whose it is, and the GPU's number for messages. A process that is given a
 * share of its own gets its own pointer: CUDA cannot open those. On another GPU of the same
 * machine the handle opens peer access by itself; peers are not opened beforehand, because that
 * makes a context of some hundred MiB on each of them. Memory that is shared must not be freed
 * before all others have closed it, which a sum puts off as well: is_open() says when they have.
 */
#include "kernels/cuda/runtime.cuh"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Registered pages [host, host + bytes).
struct range {
    char *host, *device;
    size_t bytes;
    uint32_t users;
};

// What attach() gave out.
struct attached {
    void *p;    // as it was given
    void *base; // what CUDA opened; NULL: memory of this process
    bool owed;  // detached
};

// In a struct sl_device_share.
struct share {
    cudaIpcMemHandle_t handle;
    uint64_t offset, bytes, address;
    int32_t process, gpu;
    uint32_t magic;
};

// Lies at the beginning of it.
struct owed {
    struct owed *next;
};

enum { RANGES_MAX = 256, ATTACHED_MAX = 256, PAGEABLE_MAX = 256, SHARE_MAGIC = 0x534c5348 };

static_assert(sizeof(struct share) <= sizeof(struct sl_device_share), "a share has room");

// All guarded by `lock`.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[RANGES_MAX];
static uint32_t n_ranges;
static struct attached attached[ATTACHED_MAX];
static uint32_t n_attached;
static void *pageable[PAGEABLE_MAX]; // of host_alloc, where pinned memory was refused
static uint32_t n_pageable;
static bool has_warned;
static struct owed *owed; // pinned memory that goes back when the sum is over

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void limit_text(char *out, size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        snprintf(out, bytes, "there is no limit on locked memory (ulimit -l)");
    else
        snprintf(out, bytes,
                 "at most %.1f MiB may be locked (ulimit -l; LimitMEMLOCK=infinity in a systemd "
                 "unit, --ulimit memlock=-1 for a container)",
                 mib(limit.rlim_cur));
}

// --- pinned memory -------------------------------------------------------------------------------

static void *alloc_pageable(size_t n, cudaError_t error)
{
    void *p = NULL;
    char limit[192];
    bool warn = false;
    pthread_mutex_lock(&lock);
    if (n_pageable < PAGEABLE_MAX)
        p = sl_pages_alloc(n);
    if (p)
        pageable[n_pageable++] = p;
    if (p && !has_warned)
        warn = has_warned = true;
    pthread_mutex_unlock(&lock);
    limit_text(limit, sizeof limit);
    if (!p)
        sl_fail(SL_ENOMEM, "no host memory for %.1f MiB beside GPU %d: %s; %s", mib(n),
                sl_cuda_gpu.index, cudaGetErrorString(error), limit);
    if (warn)
        sl_log_warn("GPU %d: %.1f MiB of host memory could not be pinned (%s): copies go through "
                    "ordinary memory, slower; %s",
                    sl_cuda_gpu.index, mib(n), cudaGetErrorString(error), limit);
    return p;
}

void *sl_cuda_host_alloc(size_t n)
{
    if (sl_cuda_enter() < 0)
        return NULL;
    void *p = NULL;
    cudaError_t error =
        cudaHostAlloc(&p, SL_MAX(n, sizeof *owed), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaSuccess)
        return p;
    sl_cuda_fail(error, "cudaHostAlloc", __FILE__, __LINE__);
    return sl_cuda_faulted() ? NULL : alloc_pageable(SL_MAX(n, (size_t)1), error);
}

static bool forget_pageable(void *p)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_pageable && !found; i++) {
        if (pageable[i] != p)
            continue;
        pageable[i] = pageable[--n_pageable];
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

// Gives back what is owed. Nobody who frees holds the lock.
static void settle_pinned(void)
{
    if (!sl_cuda_may_release())
        return;
    pthread_mutex_lock(&lock);
    struct owed *list = owed;
    owed = NULL;
    pthread_mutex_unlock(&lock);
    while (list && !sl_cuda_faulted()) {
        struct owed *next = list->next;
        cudaError_t error = cudaFreeHost(list);
        if (error != cudaSuccess)
            sl_cuda_fail(error, "cudaFreeHost", __FILE__, __LINE__);
        list = next;
    }
    sl_cuda_released();
}

void sl_cuda_pinned_free(void *p)
{
    pthread_mutex_lock(&lock);
    static_cast<struct owed *>(p)->next = owed;
    owed = static_cast<struct owed *>(p);
    pthread_mutex_unlock(&lock);
    settle_pinned();
}

void sl_cuda_host_free(void *p, size_t n)
{
    if (!p)
        return;
    if (forget_pageable(p)) {
        if (!sl_cuda_faulted())
            cudaStreamSynchronize(sl_cuda_stream());
        sl_pages_free(p, SL_MAX(n, (size_t)1));
        return;
    }
    if (sl_cuda_enter() < 0)
        return;
    cudaError_t error = cudaStreamSynchronize(sl_cuda_stream()); // of copies that are under way
    if (error != cudaSuccess) {
        sl_cuda_fail(error, "cudaStreamSynchronize", __FILE__, __LINE__);
        return;
    }
    sl_cuda_pinned_free(p);
}

// --- registered memory ---------------------------------------------------------------------------

static int fail_registering(cudaError_t error, const void *p, size_t n, bool read_only)
{
    char limit[192];
    limit_text(limit, sizeof limit);
    sl_cuda_fail(error, "cudaHostRegister", __FILE__, __LINE__);
    if (sl_cuda_faulted())
        return SL_EDEVICE;
    if (error == cudaErrorMemoryAllocation)
        return sl_fail(SL_ENOMEM,
                       "%.1f MiB of host memory at %p could not be pinned for GPU %d: %s; %s",
                       mib(n), p, sl_cuda_gpu.index, cudaGetErrorString(error), limit);
    return sl_fail(SL_EUNSUPPORTED,
                   "%.1f MiB of %s host memory at %p cannot be used by GPU %d in place: %s (%s): "
                   "mappings of files and read-only memory need support of file system, kernel and "
                   "driver; %s",
                   mib(n), read_only ? "read-only" : "writable", p, sl_cuda_gpu.index,
                   cudaGetErrorName(error), cudaGetErrorString(error), limit);
}

// Gives back ranges that nobody uses. Under the lock: a registration of the same pages must come
// behind it.
static void settle_ranges(void)
{
    if (!sl_cuda_may_release())
        return;
    for (uint32_t i = 0; i < n_ranges && !sl_cuda_faulted();) {
        if (ranges[i].users > 0) {
            i++;
            continue;
        }
        cudaError_t error = cudaHostUnregister(ranges[i].host);
        ranges[i] = ranges[--n_ranges];
        if (error != cudaSuccess)
            sl_cuda_fail(error, "cudaHostUnregister", __FILE__, __LINE__);
    }
    sl_cuda_released();
}

static int add_range(char *first, size_t n, bool read_only)
{
    if (n_ranges == RANGES_MAX)
        return sl_fail(SL_EUNSUPPORTED, "more than %d ranges of host memory for GPU %d", RANGES_MAX,
                       sl_cuda_gpu.index);
    for (uint32_t i = 0; i < n_ranges; i++)
        if (first < ranges[i].host + ranges[i].bytes && ranges[i].host < first + n)
            return sl_fail(SL_EUNSUPPORTED,
                           "host memory at %p, %zu bytes, overlaps %p, %zu bytes, which GPU %d "
                           "uses already: wanted all of it inside, or none",
                           (void *)first, n, (void *)ranges[i].host, ranges[i].bytes,
                           sl_cuda_gpu.index);
    unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
    if (read_only && sl_cuda_gpu.maps_read_only)
        flags |= cudaHostRegisterReadOnly;
    cudaError_t error = cudaHostRegister(first, n, flags);
    if (error != cudaSuccess)
        return fail_registering(error, first, n, read_only);
    struct range *range = &ranges[n_ranges++];
    *range = {first, NULL, n, 0};
    error = cudaHostGetDevicePointer((void **)&range->device, first, 0);
    if (error == cudaSuccess)
        return SL_OK;
    int rc = fail_registering(error, first, n, read_only);
    settle_ranges();
    return rc;
}

// The range that holds all of [first, first + n), or NULL.
static struct range *range_around(const char *first, size_t n)
{
    for (uint32_t i = 0; i < n_ranges; i++)
        if (first >= ranges[i].host && first + n <= ranges[i].host + ranges[i].bytes)
            return &ranges[i];
    return NULL;
}

static int map_locked(char *p, size_t n, bool read_only, void **out)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *first = (char *)((uintptr_t)p & ~(page - 1));
    size_t bytes = sl_align_up((uintptr_t)p + SL_MAX(n, (size_t)1), page) - (uintptr_t)first;
    struct range *range = range_around(first, bytes);
    if (!range) {
        SL_TRY(add_range(first, bytes, read_only));
        range = &ranges[n_ranges - 1];
    }
    range->users++;
    *out = range->device + (p - range->host);
    return SL_OK;
}

int sl_cuda_map(void *p, size_t n, bool read_only, void **out)
{
    SL_TRY(sl_cuda_enter());
    pthread_mutex_lock(&lock);
    int rc = map_locked((char *)p, n, read_only, out);
    pthread_mutex_unlock(&lock);
    return rc;
}

// Takes the host's or the device's address.
void sl_cuda_unmap(void *p)
{
    if (!p || sl_cuda_enter() < 0)
        return;
    cudaError_t error = cudaStreamSynchronize(sl_cuda_stream());
    pthread_mutex_lock(&lock);
    struct range *range = range_around((const char *)p, 1);
    for (uint32_t i = 0; i < n_ranges && !range; i++)
        if ((char *)p >= ranges[i].device && (char *)p < ranges[i].device + ranges[i].bytes)
            range = &ranges[i];
    if (error != cudaSuccess)
        sl_cuda_fail(error, "cudaStreamSynchronize", __FILE__, __LINE__);
    if (range && range->users > 0 && --range->users == 0)
        settle_ranges();
    pthread_mutex_unlock(&lock);
}

void *sl_cuda_pinned(const void *p)
{
    struct cudaPointerAttributes found;
    if (sl_cuda_enter() < 0)
        return NULL;
    if (cudaPointerGetAttributes(&found, p) != cudaSuccess) {
        cudaGetLastError(); // the next call is judged alone
        return NULL;
    }
    return found.type == cudaMemoryTypeHost ? found.devicePointer : NULL;
}

// --- memory across processes ---------------------------------------------------------------------

int sl_cuda_share(const void *p, struct sl_device_share *out)
{
    void *base;
    size_t bytes;
    struct share share;
    SL_TRY(sl_cuda_enter());
    if (!sl_cuda_block_of(p, &base, &bytes))
        return sl_fail(SL_EINVAL, "%p is no memory of GPU %d that this process allocated", p,
                       sl_cuda_gpu.index);
    memset(&share, 0, sizeof share);
    cudaError_t error = cudaIpcGetMemHandle(&share.handle, base);
    if (error != cudaSuccess) {
        sl_cuda_fail(error, "cudaIpcGetMemHandle", __FILE__, __LINE__);
        if (sl_cuda_faulted())
            return SL_EDEVICE;
        return sl_fail(SL_EUNSUPPORTED, "GPU %d: its memory cannot be shared here: %s",
                       sl_cuda_gpu.index, cudaGetErrorString(error));
    }
    share.offset = (uint64_t)((const char *)p - (const char *)base);
    share.bytes = bytes;
    share.address = (uint64_t)(uintptr_t)p;
    share.process = (int32_t)getpid();
    share.gpu = sl_cuda_gpu.index;
    share.magic = SHARE_MAGIC;
    memset(out, 0, sizeof *out);
    memcpy(out, &share, sizeof share);
    return SL_OK;
}

static int attach_locked(const struct share *share, void **out)
{
    void *base = NULL, *p = (void *)(uintptr_t)share->address;
    if (n_attached == ATTACHED_MAX)
        return sl_fail(SL_EUNSUPPORTED, "more than %d pieces of other processes' GPU memory",
                       ATTACHED_MAX);
    if (share->process != (int32_t)getpid()) {
        cudaError_t error =
            cudaIpcOpenMemHandle(&base, share->handle, cudaIpcMemLazyEnablePeerAccess);
        if (error != cudaSuccess) {
            sl_cuda_fail(error, "cudaIpcOpenMemHandle", __FILE__, __LINE__);
            if (sl_cuda_faulted())
                return SL_EDEVICE;
            return sl_fail(SL_EUNSUPPORTED, "GPU %d cannot use memory of process %d on GPU %d: %s",
                           sl_cuda_gpu.index, (int)share->process, (int)share->gpu,
                           cudaGetErrorString(error));
        }
        p = (char *)base + share->offset;
    }
    attached[n_attached++] = {p, base, false};
    *out = p;
    return SL_OK;
}

int sl_cuda_attach(const struct sl_device_share *from, void **out)
{
    struct share share;
    SL_TRY(sl_cuda_enter());
    memcpy(&share, from, sizeof share);
    if (share.magic != SHARE_MAGIC || share.offset >= share.bytes)
        return sl_fail(SL_EPROTO, "these bytes do not describe shared GPU memory");
    pthread_mutex_lock(&lock);
    int rc = attach_locked(&share, out);
    pthread_mutex_unlock(&lock);
    return rc;
}

// Closes what has been detached. Under the lock.
static void settle_attached(void)
{
    if (!sl_cuda_may_release())
        return;
    for (uint32_t i = 0; i < n_attached && !sl_cuda_faulted();) {
        if (!attached[i].owed) {
            i++;
            continue;
        }
        cudaError_t error =
            attached[i].base ? cudaIpcCloseMemHandle(attached[i].base) : cudaSuccess;
        attached[i] = attached[--n_attached];
        if (error != cudaSuccess)
            sl_cuda_fail(error, "cudaIpcCloseMemHandle", __FILE__, __LINE__);
    }
    sl_cuda_released();
}

void sl_cuda_detach(void *p)
{
    if (!p || sl_cuda_enter() < 0)
        return;
    cudaError_t error = cudaStreamSynchronize(sl_cuda_stream());
    if (error != cudaSuccess)
        sl_cuda_fail(error, "cudaStreamSynchronize", __FILE__, __LINE__);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_attached; i++)
        if (attached[i].p == p && !attached[i].owed) {
            attached[i].owed = true;
            break;
        }
    settle_attached();
    pthread_mutex_unlock(&lock);
}

// With a GPU that has faulted it stays so until the process ends.
bool sl_cuda_is_open(const void *p)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_attached; i++)
        found |= attached[i].p == p;
    pthread_mutex_unlock(&lock);
    return found;
}

// A sum is over: what it kept from going back goes.
void sl_cuda_settle_mappings(void)
{
    settle_pinned();
    pthread_mutex_lock(&lock);
    settle_ranges();
    settle_attached();
    pthread_mutex_unlock(&lock);
}
