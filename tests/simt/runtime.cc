/*
 * runtime.cc - streams, events, copies, launches and errors of the emulated runtime.
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
#include <set>
#include <vector>

using namespace simt;

// Returns whether it is over; asked again when not.
typedef std::function<bool()> work;

struct simt_graph {
    std::vector<work> list;
};
struct simt_graph_exec {
    std::vector<work> list;
};

struct simt_stream {
    bool waits_for_default; // a blocking stream
    std::deque<work> queue;
    uint64_t given, done;
    simt_graph *capture;
};

struct simt_event {
    simt_stream *stream; // NULL: never recorded
    uint64_t at;         // what the stream had been given by then
    bool happened;
    double ms;
};

namespace {

simt_stream default_stream = {true, {}, 0, 0, NULL};
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
    if (s->capture) {
        s->capture->list.push_back(std::move(w));
        return;
    }
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

cudaError_t cudaPeekAtLastError()
{
    return device_is_lost() ? device_error() : last_error;
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

cudaError_t cudaInitDevice(int device, unsigned, unsigned)
{
    return cudaSetDevice(device);
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
    snprintf(out->name, sizeof out->name, "Emulated GPU %d", device);
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
    case cudaDevAttrMaxThreadsPerBlock: *out = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *out = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrMultiProcessorCount: *out = p.multiProcessorCount; break;
    case cudaDevAttrGlobalMemoryBusWidth: *out = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *out = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *out = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *out = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *out = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *out = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *out = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported: *out = 1; break;
    case cudaDevAttrHostRegisterReadOnlySupported: *out = p.hostRegisterReadOnlySupported; break;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate: *out = 1000000; break;
    default: *out = 0;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int device)
{
    SIMT_ENTRY();
    if (device < 0 || device >= settings().devices || bytes < 13)
        return failed(cudaErrorInvalidValue);
    snprintf(out, (size_t)bytes, "0000:%02X:00.0", 1 + device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit, size_t)
{
    SIMT_ENTRY();
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

cudaError_t cudaDeviceReset()
{
    return cudaDeviceSynchronize();
}

// ---- streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    *out = NULL;
    SIMT_ENTRY();
    *out = new simt_stream{flags != cudaStreamNonBlocking, {}, 0, 0, NULL};
    streams.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(out, flags);
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
    if (stream_of(s)->capture)
        return failed(cudaErrorStreamCaptureUnsupported);
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

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned)
{
    SIMT_ENTRY();
    if (!event->stream)
        return cudaSuccess;
    simt_stream *other = event->stream;
    uint64_t at = event->at;
    if (other != stream_of(s))
        give(stream_of(s), [other, at] {
            if (other == &default_stream || streams.count(other))
                return run_stream(other, at);
            return true;
        });
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function, void *data)
{
    SIMT_ENTRY();
    give_quick(stream_of(s), [function, data] { function(data); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = NULL;
    SIMT_ENTRY();
    *out = new simt_event{NULL, 0, true, 0};
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    std::lock_guard<big_lock> hold(lock());
    if (event->stream && (event->stream == &default_stream || streams.count(event->stream)))
        wait_for_stream(event->stream, event->at); // what is queued names the event
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s)
{
    SIMT_ENTRY();
    simt_stream *stream = stream_of(s);
    event->happened = false;
    event->stream = stream;
    event->at = stream->given + 1;
    give_quick(stream, [event] {
        event->happened = true;
        event->ms = (double)simt::clock() * 1e-6;
    });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    SIMT_ENTRY();
    if (event->stream)
        wait_for_stream(event->stream, event->at);
    return after_sync();
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    SIMT_ENTRY();
    bool happened = event->happened;
    if (!happened && (event->stream == &default_stream || streams.count(event->stream)))
        run_stream(event->stream, event->at);
    return happened ? cudaSuccess : failed(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    SIMT_ENTRY();
    if (!from->happened || !to->happened)
        return failed(cudaErrorNotReady);
    *ms = (float)(to->ms - from->ms);
    return cudaSuccess;
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
    bool now = (is_pageable(to) || is_pageable(from)) && !stream->capture;
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

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t s)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind)
{
    SIMT_ENTRY();
    wait_for(run_blocking);
    cudaError_t rc = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
    wait_for(run_blocking);
    return rc ? rc : after_sync();
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    return cudaMemcpy2D(to, bytes, from, bytes, bytes, 1, kind);
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

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t)
{
    return cudaMalloc(out, bytes);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t)
{
    return cudaFree(p);
}

// ---- launches -----------------------------------------------------------------------------------

void simt::submit(std::shared_ptr<call> kernel, cudaStream_t s)
{
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

bool simt::give_waiting(cudaStream_t s, std::function<bool()> step)
{
    std::lock_guard<big_lock> hold(lock());
    if (stream_of(s)->capture)
        return false;
    give(stream_of(s), std::move(step));
    return true;
}

// ---- graphs -------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    SIMT_ENTRY();
    if (!s || s->capture)
        return failed(cudaErrorStreamCaptureUnsupported);
    s->capture = new simt_graph;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    *out = NULL;
    SIMT_ENTRY();
    if (!s || !s->capture)
        return failed(cudaErrorInvalidValue);
    *out = s->capture;
    s->capture = NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *out)
{
    SIMT_ENTRY();
    *out = stream_of(s)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = NULL;
    SIMT_ENTRY();
    *out = new simt_graph_exec{graph->list};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    SIMT_ENTRY();
    for (const work &w : exec->list)
        give(stream_of(s), w);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}
