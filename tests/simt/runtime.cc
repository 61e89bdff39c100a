/*
 * runtime.cc - streams, copies, launches and errors of the emulated runtime.
 *
 * A stream is a list of what it has been given. A stream of an eager run does it at once; a lazy one
 * (SLUICE_SIMT_SEED odd) when something waits for it, which is as late as a GPU may be: a host that
 * reads a result before it has waited reads rubbish. Copies to and from host memory that is not
 * pinned are done in the call, after what the stream has before them, as CUDA does.
 *
 * Nothing of a stream takes time but what waits for other processes (nccl.cc): such an operation is
 * tried, and stays at the head of its stream until it is over. A call that has to wait for it lets go
 * of the lock in between, and gives up loudly in the end (SLUICE_SIMT_NCCL=wait:SECONDS). A query
 * looks, and then lets a lazy stream go on: its answer is as late as a GPU's may be.
 */
#include "tests/simt/internal.h"

#include <unistd.h>

#include <deque>
#include <functional>
#include <memory>
#include <set>

using namespace simt;

// Returns whether it is over; asked again when not.
typedef std::function<bool()> work;

struct simt_stream {
    bool waits_for_default; // a blocking stream
    std::deque<work> queue;
    uint64_t given, done;
};

namespace {

simt_stream default_stream = {true, {}, 0, 0};
std::set<simt_stream *> streams;
thread_local cudaError_t last_error;
long launch_calls, sync_calls;

simt_stream *stream_of(cudaStream_t s)
{
    return s ? s : &default_stream;
}

// Does what the stream has been given up to `until`, as far as it goes. Returns whether all is done.
bool run_stream(simt_stream *s, uint64_t until)
{
    while (s->done < until && !s->queue.empty()) {
        work next = std::move(s->queue.front());
        s->queue.pop_front();
        s->done++;
        if (device_is_lost() || next())
            continue;
        s->queue.push_front(std::move(next));
        s->done--;
        return false;
    }
    return true;
}

bool run_all()
{
    bool done = run_stream(&default_stream, UINT64_MAX);
    for (simt_stream *s : streams)
        done &= run_stream(s, UINT64_MAX);
    return done;
}

// The default stream and the blocking ones wait for each other.
bool run_blocking()
{
    bool done = run_stream(&default_stream, UINT64_MAX);
    for (simt_stream *s : streams)
        if (s->waits_for_default)
            done &= run_stream(s, UINT64_MAX);
    return done;
}

// Waits until `run` says that all is done, for other threads and processes to go on in between.
template <class F> void wait_for(F run)
{
    enum { PAUSE_US = 500 };
    long long began = simt::clock();
    while (!run()) {
        if (simt::clock() - began > settings().patience_s * 1000000000ll)
            report("HANG", "a call has waited %ld s for an all-reduce that others do not join",
                   settings().patience_s);
        int times = lock().let_go();
        usleep(PAUSE_US);
        lock().take(times);
    }
}

void wait_for_stream(simt_stream *s, uint64_t until)
{
    wait_for([=] { return run_stream(s, until); });
}

void give(simt_stream *s, work w)
{
    s->queue.push_back(std::move(w));
    s->given++;
    if (!settings().lazy)
        run_stream(s, UINT64_MAX);
}

template <class F> void give_quick(simt_stream *s, F f)
{
    give(s, [f] {
        f();
        return true;
    });
}

cudaError_t after_sync()
{
    counts().waits++;
    if (++sync_calls == settings().fail_sync)
        lose_device(cudaErrorIllegalAddress);
    return device_is_lost() ? failed(device_error()) : cudaSuccess;
}

bool is_pageable(const void *p)
{
    return !in_region(p) && !find_range(p);
}

bool is_device_only(const void *p)
{
    const range *r = find_range(p);
    return in_region(p) || (r && r->kind == RANGE_PEER);
}

// A copy's ends must lie in one allocation each, or be registered as one or not at all, and be what
// the kind says.
cudaError_t check_span(const void *p, size_t n, bool must_be_device, bool must_be_host)
{
    const range *r = find_range(p);
    if (in_region(p) && !r)
        return cudaErrorInvalidValue;
    if (r ? (uintptr_t)p + n > r->end : touches_range(p, n))
        return cudaErrorInvalidValue;
    if (must_be_device && !r)
        return cudaErrorInvalidValue;
    if (must_be_host && is_device_only(p))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t check_copy(const void *to, const void *from, size_t n_to, size_t n_from,
                       cudaMemcpyKind kind)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool any = kind == cudaMemcpyDefault;
    cudaError_t rc = check_span(to, n_to, to_device, !any && !to_device);
    const range *r = find_range(to);
    if (r && r->read_only)
        return cudaErrorInvalidValue;
    return rc ? rc : check_span(from, n_from, from_device, !any && !from_device);
}

void count_copy(const void *to, const void *from, uint64_t bytes)
{
    simt_counts &c = counts();
    const bool to_device = is_device_only(to), from_device = is_device_only(from);
    const bool pageable = is_pageable(to) || is_pageable(from);
    const range *r = find_range(from);
    if (r && r->kind == RANGE_PEER)
        c.peer_bytes[r->device] += bytes;
    if (to_device && from_device)
        c.within++, c.within_bytes += bytes;
    else if (from_device && pageable)
        c.pageable_from++, c.pageable_from_bytes += bytes;
    else if (from_device)
        c.pinned_from++, c.pinned_from_bytes += bytes;
    else if (to_device && pageable)
        c.pageable_to++, c.pageable_to_bytes += bytes;
    else if (to_device)
        c.pinned_to++, c.pinned_to_bytes += bytes;
}

void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
               size_t height)
{
    window open;
    if (is_lost_memory(to) || is_lost_memory(from)) {
        lose_device(cudaErrorIllegalAddress);
        return;
    }
    for (size_t i = 0; i < height; i++)
        memmove(static_cast<char *>(to) + i * to_pitch,
                static_cast<const char *>(from) + i * from_pitch, width);
}

} // namespace

// ---- errors -------------------------------------------------------------------------------------

cudaError_t simt::failed(cudaError_t error)
{
    return last_error = error;
}

cudaError_t cudaGetLastError()
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return device_is_lost() ? device_error() : error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define SIMT_NAME(name, value, text)                                                               \
    case name: return #name;
        SIMT_ERRORS(SIMT_NAME)
#undef SIMT_NAME
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define SIMT_TEXT(name, value, text)                                                               \
    case name: return text;
        SIMT_ERRORS(SIMT_TEXT)
#undef SIMT_TEXT
    }
    return "unrecognized error code";
}

// ---- devices ------------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = settings().no_device ? 0 : settings().old_driver ? 11040 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    SIMT_ENTRY();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    SIMT_ENTRY();
    if (device < 0 || device >= settings().devices)
        return failed(cudaErrorInvalidDevice);
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "Emulated GPU");
    out->totalGlobalMem = settings().memory_bytes;
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = SHARED_MAX;
    out->sharedMemPerMultiprocessor = 228 << 10;
    out->major = 9;
    out->multiProcessorCount = 4; // few, so that persistent blocks go around more than once
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsPerMultiProcessor = 2048;
    out->warpSize = 32;
    out->regsPerBlock = 65536;
    out->l2CacheSize = 32 << 20;
    out->memoryBusWidth = 4096;
    out->pciBusID = 1 + device;
    out->unifiedAddressing = out->canMapHostMemory = 1;
    out->canUseHostPointerForRegisteredMem = 1;
    out->asyncEngineCount = 2;
    out->concurrentKernels = 1;
    out->hostRegisterReadOnlySupported = settings().maps_read_only;
    out->hostRegisterSupported = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, cudaDeviceAttr attribute, int device)
{
    cudaDeviceProp p;
    cudaError_t rc = cudaGetDeviceProperties(&p, device);
    if (rc != cudaSuccess)
        return rc;
    switch (attribute) {
    case cudaDevAttrGlobalMemoryBusWidth: *out = p.memoryBusWidth; break;
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterReadOnlySupported: *out = p.hostRegisterReadOnlySupported; break;
    case cudaDevAttrMemoryClockRate: *out = 1000000; break;
    default: *out = 0;
    }
    return cudaSuccess;
}

cudaError_t simt::wait_for_device()
{
    wait_for(run_all);
    check_all_guards();
    return after_sync();
}

cudaError_t cudaDeviceSynchronize()
{
    SIMT_ENTRY();
    return wait_for_device();
}

// ---- streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    *out = NULL;
    SIMT_ENTRY();
    *out = new simt_stream{flags != cudaStreamNonBlocking, {}, 0, 0};
    streams.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    std::lock_guard<big_lock> hold(lock());
    if (!s || !streams.count(s))
        return failed(cudaErrorInvalidResourceHandle);
    wait_for_stream(s, UINT64_MAX);
    streams.erase(s);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    SIMT_ENTRY();
    if (!s)
        wait_for(run_blocking);
    wait_for_stream(stream_of(s), UINT64_MAX);
    return after_sync();
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    SIMT_ENTRY();
    simt_stream *stream = stream_of(s);
    bool idle = stream->queue.empty();
    run_stream(stream, UINT64_MAX);
    if (!settings().lazy)
        idle = stream->queue.empty();
    if (cudaError_t error = device_error()) // found on the way
        return failed(error);
    return idle ? cudaSuccess : failed(cudaErrorNotReady);
}

// ---- copies -------------------------------------------------------------------------------------

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t s)
{
    SIMT_ENTRY();
    if (width == 0 || height == 0)
        return cudaSuccess;
    if (height > 1 && (width > to_pitch || width > from_pitch))
        return failed(cudaErrorInvalidValue);
    size_t n_to = (height - 1) * to_pitch + width, n_from = (height - 1) * from_pitch + width;
    if (cudaError_t bad = check_copy(to, from, n_to, n_from, kind))
        return failed(bad);
    simt_stream *stream = stream_of(s);
    bool now = is_pageable(to) || is_pageable(from);
    count_copy(to, from, (uint64_t)width * height);
    give_quick(stream, [=] { copy_rows(to, to_pitch, from, from_pitch, width, height); });
    if (now)
        wait_for_stream(stream, UINT64_MAX);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s)
{
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, s);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    SIMT_ENTRY();
    wait_for(run_blocking);
    cudaError_t rc = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    wait_for(run_blocking);
    return rc ? rc : after_sync();
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t s)
{
    SIMT_ENTRY();
    if (bytes == 0)
        return cudaSuccess;
    if (cudaError_t bad = check_span(p, bytes, true, false))
        return failed(bad);
    counts().fills++;
    give_quick(stream_of(s), [=] {
        window open;
        if (is_lost_memory(p))
            lose_device(cudaErrorIllegalAddress);
        else
            memset(p, byte, bytes);
    });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int byte, size_t bytes)
{
    SIMT_ENTRY();
    wait_for(run_blocking);
    counts().waits++;
    return cudaMemsetAsync(p, byte, bytes, NULL);
}

// ---- launches -----------------------------------------------------------------------------------

void simt::submit(call *launched, cudaStream_t s)
{
    const std::shared_ptr<call> kernel(launched);
    std::lock_guard<big_lock> hold(lock());
    cudaError_t bad = device_error();
    if (!bad)
        bad = validate(*kernel);
    if (bad) {
        failed(bad);
        return;
    }
    if (running.kernel)
        report("LAUNCH", "a kernel launches %s", kernel->name);
    counts().launches++;
    note_loaded(kernel->function, kernel->name);
    if (++launch_calls ==
        settings().fail_launch) { // a fault of the kernel, seen by what comes next
        give_quick(stream_of(s), [] { lose_device(cudaErrorLaunchFailure); });
        return;
    }
    give_quick(stream_of(s), [kernel] { execute(*kernel); });
}

void simt::give_waiting(cudaStream_t s, std::function<bool()> step)
{
    std::lock_guard<big_lock> hold(lock());
    give(stream_of(s), std::move(step));
}
