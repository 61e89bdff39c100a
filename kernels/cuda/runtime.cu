/*
 * runtime.cu - the GPU as a device: queues, copies, and what becomes of errors.
 *
 * QUEUES. Each thread that asks for something has a stream of its own, made at its first call, and
 * a second one where it asks for that. When the thread ends its queues are left to the next ones:
 * to free its pinned memory would wait for all that the GPU does, which may be a sum that waits for
 * other processes (nccl.cc). The stream is non-blocking: it does not wait for the default stream,
 * which nothing here uses. Work of one queue runs in the order in which it was asked for; two
 * threads order their work by sync().
 *
 * COPIES are queued. Between pinned or mapped host memory and the device they are one DMA and the
 * call returns at once: the host memory must stay as it is until sync(). Pageable host memory is
 * staged by CUDA through pinned buffers of its own, at about half the speed: towards the device the
 * call returns when the last piece is staged, from the device when all has arrived.
 *
 * ERRORS. A refused call (a bad argument, no memory) is an error of that call alone. A fault (an
 * illegal address, an ECC error, a GPU that fell off the bus) destroys the context: CUDA answers
 * every later call with it, from whatever thread, and no memory can be read back. It is noted once
 * with its words, and from then on every function fails with SL_EDEVICE and these words without
 * calling CUDA, so that the process can end in order: what it releases on its way out is the
 * driver's to free. Kernels run later than the call that launched them, so a fault is found at the
 * next call that looks, most often sync(); CUDA_LAUNCH_BLOCKING=1 in the environment finds the
 * launch.
 *
 * COMPLAINTS of kernels (cuda.cuh) are in a record a thread, in pinned memory that the GPU writes
 * in place: asking for it at sync() costs a read and no copy.
 *
 * Of the runtime API runtime.cu, memory.cu, mapping.cu and plugin.cu call, and the emulation
 * (tests/simt) has to have:
 *
 *   cudaSetDevice cudaGetDeviceCount cudaDriverGetVersion cudaRuntimeGetVersion
 *   cudaGetDeviceProperties (name, major, minor, multiProcessorCount, totalGlobalMem, pciBusID,
 *   pciDeviceID, pciDomainID) cudaDeviceGetAttribute (cudaDevAttrHostRegisterReadOnlySupported,
 *   cudaDevAttrCanUseHostPointerForRegisteredMem) cudaDeviceCanAccessPeer cudaSetDeviceFlags
 *   cudaStreamCreateWithFlags cudaStreamDestroy cudaStreamSynchronize cudaStreamQuery
 *   cudaMemcpyAsync cudaMemcpy2DAsync cudaMemsetAsync
 *   cudaMalloc cudaFree cudaMemGetInfo
 *   cudaHostAlloc cudaFreeHost cudaHostRegister cudaHostUnregister cudaHostGetDevicePointer
 *   cudaPointerGetAttributes (type, devicePointer)
 *   cudaIpcGetMemHandle cudaIpcOpenMemHandle cudaIpcCloseMemHandle (may be cudaErrorNotSupported)
 *   cudaGetLastError cudaGetErrorName cudaGetErrorString
 */
#include "kernels/cuda/runtime.cuh"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "kernels/cuda/libraries.h"

// What a thread has of the GPU.
struct queue {
    cudaStream_t stream;
    struct sl_cuda_complaints *heard; // the record, as the processor reads it
    struct sl_cuda_complaints *said;  // and as kernels write it
    struct queue *next;               // of those that are left, or of the same thread
};

struct sl_cuda_gpu sl_cuda_gpu;

static thread_local struct queue *mine; // the one in use; NULL: it has not been made
static thread_local struct queue *all_mine[SL_DEVICE_QUEUES];
static thread_local uint32_t in_use;
static pthread_key_t at_thread_end;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;

// What threads that have ended have left.
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue *left; // guarded by left_lock

// The fault: `words` is written once under the lock, before `faulted` is set (release) and read
// after it was seen (acquire).
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static bool faulted;
static char words[512];

// --- errors --------------------------------------------------------------------------------------

// Errors after which the context is lost.
static bool is_fault(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown: return true;
    default: return false;
    }
}

bool sl_cuda_faulted(void)
{
    return __atomic_load_n(&faulted, __ATOMIC_ACQUIRE);
}

static void note_fault(const char *text)
{
    pthread_mutex_lock(&fault_lock);
    if (!sl_cuda_faulted()) {
        snprintf(words, sizeof words, "%s", text);
        __atomic_store_n(&faulted, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&fault_lock);
}

static int fail_again(void)
{
    return sl_fail(SL_EDEVICE, "the GPU has faulted before: %s", words);
}

/*
 * cudaErrorUnknown is also what some drivers say of a single call that the system refused, such as
 * pinning a file's mapping. The queue tells: a lost context answers with the error again.
 */
static bool is_lost(cudaError_t error)
{
    if (error == cudaErrorUnknown && mine && cudaStreamSynchronize(mine->stream) == cudaSuccess)
        return false;
    return is_fault(error);
}

int sl_cuda_fail(cudaError_t error, const char *statement, const char *file, int line)
{
    if (sl_cuda_faulted())
        return fail_again();
    char text[sizeof words];
    cudaGetLastError(); // forgets a refused call's error: the next call is judged alone
    snprintf(text, sizeof text, "GPU %d (%s): %s: %s (%s), at %s:%d", sl_cuda_gpu.index,
             sl_cuda_gpu.name, statement, cudaGetErrorName(error), cudaGetErrorString(error), file,
             line);
    if (error == cudaErrorMemoryAllocation)
        return sl_fail(SL_ENOMEM, "%s", text);
    if (!is_lost(error))
        return sl_fail(SL_EDEVICE, "%s", text);
    note_fault(text);
    return sl_fail(SL_EDEVICE, "%s; CUDA_LAUNCH_BLOCKING=1 in the environment shows the kernel",
                   text);
}

int sl_cuda_launched(const char *kernel, const char *file, int line)
{
    if (sl_cuda_faulted())
        return fail_again();
    cudaError_t error = cudaGetLastError();
    if (__builtin_expect(error == cudaSuccess, 1))
        return SL_OK;
    char statement[160];
    snprintf(statement, sizeof statement, "launching %s", kernel);
    return sl_cuda_fail(error, statement, file, line);
}

// --- a thread's queue ----------------------------------------------------------------------------

static void leave_queue(struct queue *q)
{
    // CUDA's own state of this thread may be gone by now, and with it which GPU is the thread's.
    if (!sl_cuda_faulted() && cudaSetDevice(sl_cuda_gpu.index) == cudaSuccess)
        cudaStreamSynchronize(q->stream); // its next owner's work is not behind anybody else's
    pthread_mutex_lock(&left_lock);
    q->next = left;
    left = q;
    pthread_mutex_unlock(&left_lock);
}

static void end_queues(void *p)
{
    struct queue *q = (struct queue *)p;
    mine = NULL;
    memset(all_mine, 0, sizeof all_mine);
    while (q) {
        struct queue *next = q->next;
        leave_queue(q);
        q = next;
    }
}

// NULL when there is none.
static struct queue *take_left(void)
{
    pthread_mutex_lock(&left_lock);
    struct queue *q = left;
    if (q)
        left = q->next;
    pthread_mutex_unlock(&left_lock);
    return q;
}

static void make_key(void)
{
    pthread_key_create(&at_thread_end, end_queues);
}

static int fill_queue(struct queue *q)
{
    SL_CUDA_TRY(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking));
    SL_CUDA_TRY(cudaHostAlloc((void **)&q->heard, sizeof *q->heard,
                              cudaHostAllocMapped | cudaHostAllocPortable));
    SL_CUDA_TRY(cudaHostGetDevicePointer((void **)&q->said, q->heard, 0));
    return SL_OK;
}

static int new_queue(struct queue **out)
{
    struct queue *q = (struct queue *)calloc(1, sizeof *q);
    if (!q)
        return sl_fail(SL_ENOMEM, "no memory for a queue of GPU %d", sl_cuda_gpu.index);
    int rc = fill_queue(q);
    if (rc < 0) {
        if (q->stream && !sl_cuda_faulted())
            cudaStreamDestroy(q->stream);
        if (q->heard)
            sl_cuda_pinned_free(q->heard);
        free(q);
        return rc;
    }
    *out = q;
    return SL_OK;
}

static int make_queue(void)
{
    pthread_once(&key_made, make_key);
    SL_CUDA_TRY(cudaSetDevice(sl_cuda_gpu.index));
    struct queue *q = take_left();
    if (!q)
        SL_TRY(new_queue(&q));
    memset(q->heard, 0, sizeof *q->heard);
    q->next = (struct queue *)pthread_getspecific(at_thread_end);
    pthread_setspecific(at_thread_end, q);
    mine = all_mine[in_use] = q;
    return SL_OK;
}

int sl_cuda_enter(void)
{
    if (__builtin_expect(sl_cuda_faulted(), 0))
        return fail_again();
    if (__builtin_expect(mine != NULL, 1))
        return SL_OK;
    if (!sl_cuda_gpu.is_open)
        return sl_fail(SL_EDEVICE, "no GPU is open in this process");
    return make_queue();
}

void sl_cuda_use_queue(uint32_t i)
{
    in_use = SL_MIN(i, (uint32_t)SL_DEVICE_QUEUES - 1);
    mine = all_mine[in_use];
}

uint32_t sl_cuda_queue_in_use(void)
{
    return in_use;
}

/*
 * Kernels ask for these two in the middle of a launch, where nothing can fail. A thread whose queue
 * cannot be made has faulted: the launch is refused or harmless, and SL_LAUNCHED says why.
 */
static struct queue *queue_or_fault(void)
{
    static struct queue none;
    if (__builtin_expect(mine != NULL, 1))
        return mine;
    if (sl_cuda_enter() < 0 && !sl_cuda_faulted())
        note_fault(sl_error_message());
    return mine ? mine : &none;
}

cudaStream_t sl_cuda_stream(void)
{
    return queue_or_fault()->stream;
}

struct sl_cuda_complaints *sl_cuda_complaints(void)
{
    return queue_or_fault()->said;
}

uint32_t sl_cuda_processors(void)
{
    return sl_cuda_gpu.processors;
}

// --- the queue, for files that do not see CUDA's types -------------------------------------------

int sl_cuda_queue(void **stream)
{
    SL_TRY(sl_cuda_enter());
    *stream = mine->stream;
    return SL_OK;
}

int sl_cuda_queue_poll(void)
{
    SL_TRY(sl_cuda_enter());
    cudaError_t error = cudaStreamQuery(mine->stream);
    if (error == cudaSuccess)
        return SL_OK;
    if (error != cudaErrorNotReady)
        return sl_cuda_fail(error, "cudaStreamQuery(mine->stream)", __FILE__, __LINE__);
    cudaGetLastError(); // the next launch is judged alone
    return SL_EAGAIN;
}

int sl_cuda_queue_drain(uint32_t seconds, const char *what)
{
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = 100 * 1000};
    const uint64_t until = sl_now_ns() + seconds * 1000000000ull;
    int rc;
    while ((rc = sl_cuda_queue_poll()) == SL_EAGAIN) {
        if (sl_now_ns() >= until)
            return sl_cuda_fail(cudaErrorLaunchTimeout, what, __FILE__, __LINE__);
        nanosleep(&pause, NULL);
    }
    return rc;
}

bool sl_cuda_queue_is_lost(void)
{
    return sl_cuda_faulted();
}

// --- complaints ----------------------------------------------------------------------------------

static int fail_complaint(const struct sl_cuda_complaints *c)
{
    unsigned long long index = c->index, value = c->value, limit = c->limit;
    uint32_t bits;
    float target;
    switch (c->what) {
    case SL_COMPLAINT_ROW:
        return sl_fail(SL_ERANGE, "gather: row id %llu at position %llu: the table has %llu rows",
                       value, index, limit);
    case SL_COMPLAINT_TO:
        return sl_fail(SL_ERANGE,
                       "gather, scatter: destination %llu at position %llu: the output has %llu "
                       "rows",
                       value, index, limit);
    case SL_COMPLAINT_LABEL:
        return sl_fail(SL_ERANGE,
                       "softmax_xent: label %d of row %llu: wanted 0 to %lld, or -1 for none",
                       (int)(int32_t)value, index, (long long)limit - 1);
    case SL_COMPLAINT_TARGET:
        bits = (uint32_t)value;
        memcpy(&target, &bits, sizeof target);
        return sl_fail(SL_ERANGE,
                       "sigmoid_bce: target %g of row %llu, column %llu: wanted 0 to 1, or NaN for "
                       "none",
                       (double)target, index / limit, index % limit);
    case SL_COMPLAINT_NODE:
        return sl_fail(SL_ERANGE, "vertex %llu at position %llu: there are %llu vertices", value,
                       index, limit);
    case SL_COMPLAINT_WEIGHT:
        return sl_fail(SL_EINVAL,
                       "weight_prefix: edge %llu has a weight that is negative or no finite number",
                       index);
    case SL_COMPLAINT_DEGREE:
        return sl_fail(SL_EUNSUPPORTED,
                       "sampling: vertex %llu has %llu neighbours: fewer than 2^32 are supported",
                       index, value);
    case SL_COMPLAINT_DUPLICATE:
        return sl_fail(SL_EINVAL, "sampling: seed %llu is at position %llu and before", value,
                       index);
    default: return sl_fail(SL_EDEVICE, "a kernel reported an unknown problem %u", c->what);
    }
}

int sl_cuda_heard(void)
{
    SL_TRY(sl_cuda_enter());
    SL_CUDA_TRY(cudaStreamSynchronize(mine->stream));
    if (__builtin_expect(!__atomic_load_n(&mine->heard->taken, __ATOMIC_ACQUIRE), 1))
        return SL_OK;
    struct sl_cuda_complaints first = *mine->heard;
    memset(mine->heard, 0, sizeof *mine->heard);
    return fail_complaint(&first);
}

// --- copies --------------------------------------------------------------------------------------

int sl_cuda_copy(void *to, const void *from, size_t n)
{
    SL_TRY(sl_cuda_enter());
    if (n)
        SL_CUDA_TRY(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, mine->stream));
    return SL_OK;
}

int sl_cuda_copy_2d(void *to, size_t to_stride, const void *from, size_t from_stride,
                    size_t columns, size_t rows)
{
    SL_TRY(sl_cuda_enter());
    if (columns && rows)
        SL_CUDA_TRY(cudaMemcpy2DAsync(to, to_stride, from, from_stride, columns, rows,
                                      cudaMemcpyDefault, mine->stream));
    return SL_OK;
}

int sl_cuda_fill(void *p, int byte, size_t n)
{
    SL_TRY(sl_cuda_enter());
    if (n)
        SL_CUDA_TRY(cudaMemsetAsync(p, byte, n, mine->stream));
    return SL_OK;
}

// --- load ----------------------------------------------------------------------------------------

bool sl_cuda_load(struct sl_device_load *out)
{
    return sl_cuda_gpu.is_open && !sl_cuda_faulted() && sl_cuda_nvml_load(sl_cuda_gpu.bus_id, out);
}
