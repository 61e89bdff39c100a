/*
 * plugin.cu - the plug-in's one symbol: what GPUs there are, and opening one.
 *
 * The plug-in has its own copies of error.c and log.c, which hand all that they are told to the
 * program (struct sl_plugin_host): a message that a slot leaves is what the program's
 * sl_error_message() says.
 *
 * A report makes no context where it can be avoided: a context takes some hundred MiB of each GPU
 * and a part of a second, and a GPU that is reserved for somebody else refuses it. Only the free
 * memory needs one, where the driver's management library is not there to ask.
 */
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/runtime.cuh"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/version.h"
#include "common/device/plugin.h"

// The oldest GPUs that there is code for: sm_80.
enum { OLDEST_MAJOR = 8, OLDEST_MINOR = 0 };

static struct sl_kernels table;
static int open_gpu(uint32_t index, uint64_t budget_bytes);
static void report(struct sl_gpu_report *out);

static const struct sl_device DEVICE = {
    .kind = "cuda",
    .is_host = false,
    .memory = {.alloc = sl_cuda_alloc, .free = sl_cuda_free},
    .copy = sl_cuda_copy,
    .copy_2d = sl_cuda_copy_2d,
    .fill = sl_cuda_fill,
    .sync = sl_cuda_heard,
    .use_queue = sl_cuda_use_queue,
    .host_alloc = sl_cuda_host_alloc,
    .host_free = sl_cuda_host_free,
    .map = sl_cuda_map,
    .unmap = sl_cuda_unmap,
    .pinned = sl_cuda_pinned,
    .space = sl_cuda_space,
    .usage = sl_cuda_usage,
    .load = sl_cuda_load,
    .held = sl_cuda_held,
    .trim = sl_cuda_trim,
    .share = sl_cuda_share,
    .attach = sl_cuda_attach,
    .detach = sl_cuda_detach,
    .is_open = sl_cuda_is_open,
};

// device and kernels are there once a GPU is open.
static struct sl_plugin plugin = {
    .abi = SL_PLUGIN_ABI,
    .bytes = sizeof(struct sl_plugin),
    .kernels_bytes = sizeof(struct sl_kernels),
    .device_bytes = sizeof(struct sl_device),
    .version = SL_VERSION,
    .report = report,
    .open = open_gpu,
    .device = NULL,
    .kernels = NULL,
    .collective = &sl_cuda_collective,
};

// --- report --------------------------------------------------------------------------------------

// Driver versions as CUDA writes them: 13000 is 13.0.
static void version_text(int version, char *out, size_t bytes)
{
    snprintf(out, bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

// Why there is no GPU, and what to do.
static void explain_none(cudaError_t error, int driver, int runtime, char *out, size_t bytes)
{
    char has[16], needs[16];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    version_text(driver, has, sizeof has);
    version_text(runtime, needs, sizeof needs);
    if (driver == 0)
        snprintf(out, bytes,
                 "there is no NVIDIA driver (libcuda.so.1): install one for CUDA %s or newer, or "
                 "start the container with its GPUs (docker run --gpus all)",
                 needs);
    else if (error == cudaErrorInsufficientDriver)
        snprintf(
            out, bytes,
            "the NVIDIA driver is too old: it supports CUDA %s, this build needs %s: install a "
            "newer driver",
            has, needs);
    else if (error == cudaErrorNoDevice || error == cudaSuccess)
        snprintf(out, bytes, "the NVIDIA driver finds no GPU%s%s%s", // a valid answer without any
                 visible ? ": CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "",
                 visible ? "'" : "");
    else
        snprintf(out, bytes, "the NVIDIA driver does not answer: %s (%s); nvidia-smi says more",
                 cudaGetErrorName(error), cudaGetErrorString(error));
}

// How many GPUs there are; 0 with why.
static int count_gpus(int *driver, int *runtime, char *problem, size_t bytes)
{
    int n = 0;
    *driver = *runtime = 0;
    problem[0] = '\0';
    if (cudaDriverGetVersion(driver) != cudaSuccess)
        *driver = 0;
    cudaRuntimeGetVersion(runtime);
    cudaError_t error = *driver ? cudaGetDeviceCount(&n) : cudaErrorInsufficientDriver;
    cudaGetLastError();
    if (error != cudaSuccess || n <= 0) {
        explain_none(error, *driver, *runtime, problem, bytes);
        return 0;
    }
    return SL_MIN(n, (int)SL_PLUGIN_DEVICES_MAX);
}

// Host cores near a PCI device, as the kernel lists them ("0-15,32-47").
static void read_cores(const char *bus_id, char *out, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", bus_id);
    out[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (!fgets(out, (int)bytes, file))
        out[0] = '\0';
    // A list that does not fit is no list.
    char *end = strchr(out, '\n');
    if (end)
        *end = '\0';
    else
        out[0] = '\0';
    fclose(file);
}

static uint64_t find_peers(int index, int n)
{
    uint64_t peers = 0;
    for (int other = 0; other < n; other++) {
        int can = 0;
        if (other != index && cudaDeviceCanAccessPeer(&can, index, other) == cudaSuccess && can)
            peers |= (uint64_t)1 << other;
    }
    return peers;
}

static void write_bus_id(const cudaDeviceProp *p, char *out, size_t bytes)
{
    snprintf(out, bytes, "%04x:%02x:%02x.0", (unsigned)p->pciDomainID, (unsigned)p->pciBusID,
             (unsigned)p->pciDeviceID);
}

static uint64_t find_free(int index, const char *bus_id)
{
    uint64_t known;
    size_t left = 0, all = 0;
    if (sl_cuda_nvml_free(bus_id, &known))
        return known;
    if (sl_cuda_gpu.is_open && sl_cuda_gpu.index != index)
        return 0; // a worker makes no context on other GPUs
    if (cudaSetDevice(index) != cudaSuccess || cudaMemGetInfo(&left, &all) != cudaSuccess)
        left = 0;
    return left;
}

// GB/s at which it reads its own memory: its clock ticks twice a cycle. 0: not known.
static float own_rate(int index)
{
    int bits = 0, khz = 0;
    cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, index);
    cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, index);
    return 2 * (float)khz * 1e3f * (float)bits / 8 / 1e9f;
}

static void describe(int index, int n, struct sl_gpu *out)
{
    cudaDeviceProp p;
    int unified = 0, read_only = 0;
    memset(out, 0, sizeof *out);
    if (cudaGetDeviceProperties(&p, index) != cudaSuccess)
        return;
    snprintf(out->name, sizeof out->name, "%.63s", p.name);
    out->major = (uint32_t)p.major;
    out->minor = (uint32_t)p.minor;
    out->processors = (uint32_t)p.multiProcessorCount;
    out->total_bytes = p.totalGlobalMem;
    write_bus_id(&p, out->bus_id, sizeof out->bus_id);
    read_cores(out->bus_id, out->cores, sizeof out->cores);
    out->peers = find_peers(index, n);
    out->link[index] = own_rate(index);
    cudaDeviceGetAttribute(&unified, cudaDevAttrCanUseHostPointerForRegisteredMem, index);
    cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, index);
    out->unified_host = unified != 0;
    out->maps_files = read_only != 0;
    out->free_bytes = find_free(index, out->bus_id);
    cudaGetLastError();
}

static void report(struct sl_gpu_report *out)
{
    int driver, runtime;
    memset(out, 0, sizeof *out);
    int n = count_gpus(&driver, &runtime, out->problem, sizeof out->problem);
    out->driver_version = (uint32_t)driver;
    out->runtime_version = (uint32_t)runtime;
    out->n = (uint32_t)n;
    for (int i = 0; i < n; i++)
        describe(i, n, &out->gpu[i]);
    sl_cuda_nvml_links(out);
    sl_cuda_cublas_describe(out->cublas, sizeof out->cublas);
    sl_cuda_nccl_describe(out->nccl, sizeof out->nccl);
}

// --- opening -------------------------------------------------------------------------------------

static int fail_index(uint32_t index, int n)
{
    char list[512] = "";
    for (int i = 0; i < n; i++) {
        cudaDeviceProp p;
        size_t used = strlen(list);
        if (cudaGetDeviceProperties(&p, i) == cudaSuccess && used < sizeof list)
            snprintf(list + used, sizeof list - used, "%s%d (%.63s)", i ? ", " : "", i, p.name);
    }
    return sl_fail(SL_ENOENT, "there is no GPU %u: this process sees %d: %s", index, n, list);
}

static int fail_context(cudaError_t error, int index, const char *name)
{
    cudaGetLastError();
    if (error == cudaErrorDevicesUnavailable || error == cudaErrorDeviceAlreadyInUse)
        return sl_fail(
            SL_EDEVICE,
            "GPU %d (%s) is taken: another process has it in exclusive mode, or it is "
            "prohibited (nvidia-smi -q -d COMPUTE): end that process, or set the mode to "
            "default",
            index, name);
    if (error == cudaErrorMemoryAllocation)
        return sl_fail(SL_ENOMEM,
                       "GPU %d (%s) has no memory left for another process: end what else uses it",
                       index, name);
    return sl_fail(SL_EDEVICE, "GPU %d (%s) cannot be opened: %s (%s)", index, name,
                   cudaGetErrorName(error), cudaGetErrorString(error));
}

// Threads that wait for the GPU spin, which is quickest, where they have cores to spare: a sampler
// and a trainer of two threads may share the device's, beside the threads that copy rows.
static unsigned waiting(void)
{
    enum { TO_SPARE = 8 };
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < TO_SPARE)
        return cudaDeviceScheduleBlockingSync;
    return cudaDeviceScheduleSpin;
}

static int make_context(int index, const char *name)
{
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaSetDeviceFlags(waiting() | cudaDeviceMapHost);
    if (error == cudaSuccess)
        error = cudaFree(NULL); // the first call that needs a context makes it
    return error == cudaSuccess ? SL_OK : fail_context(error, index, name);
}

static int fill_gpu(int index, uint64_t budget_bytes)
{
    struct sl_cuda_gpu *gpu = &sl_cuda_gpu;
    cudaDeviceProp p;
    int unified = 0, read_only = 0;
    SL_CUDA_TRY(cudaGetDeviceProperties(&p, index));
    gpu->index = index;
    snprintf(gpu->name, sizeof gpu->name, "%.63s", p.name);
    write_bus_id(&p, gpu->bus_id, sizeof gpu->bus_id);
    if (p.major < OLDEST_MAJOR || (p.major == OLDEST_MAJOR && p.minor < OLDEST_MINOR))
        return sl_fail(SL_EDEVICE,
                       "GPU %d (%s) has compute capability %d.%d: this build has code for %d.%d "
                       "and newer",
                       index, p.name, p.major, p.minor, OLDEST_MAJOR, OLDEST_MINOR);
    SL_TRY(make_context(index, p.name));
    cudaDeviceGetAttribute(&unified, cudaDevAttrCanUseHostPointerForRegisteredMem, index);
    cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, index);
    cudaGetLastError();
    gpu->processors = (uint32_t)p.multiProcessorCount;
    gpu->total_bytes = p.totalGlobalMem;
    gpu->budget_bytes = budget_bytes;
    gpu->unified_host = unified != 0;
    gpu->maps_read_only = read_only != 0;
    return SL_OK;
}

static int open_gpu(uint32_t index, uint64_t budget_bytes)
{
    char problem[SL_PLUGIN_TEXT_BYTES];
    int driver, runtime;
    if (sl_cuda_gpu.is_open && (uint32_t)sl_cuda_gpu.index == index) {
        sl_cuda_gpu.budget_bytes = budget_bytes;
        return SL_OK;
    }
    if (sl_cuda_gpu.is_open)
        return sl_fail(SL_EINVAL, "GPU %u: this process computes on GPU %d already", index,
                       sl_cuda_gpu.index);
    int n = count_gpus(&driver, &runtime, problem, sizeof problem);
    if (n == 0)
        return sl_fail(SL_EDEVICE, "GPU %u: %s", index, problem);
    if (index >= (uint32_t)n)
        return fail_index(index, n);
    SL_TRY(fill_gpu((int)index, budget_bytes));
    sl_cuda_gpu.is_open = true;
    int rc = sl_cuda_enter();
    sl_cuda_gpu.is_open = rc == SL_OK;
    if (rc == SL_OK) {
        plugin.device = &DEVICE;
        plugin.kernels = &table;
    }
    return rc;
}

// --- the entry ---------------------------------------------------------------------

extern "C" __attribute__((visibility("default"))) const struct sl_plugin *sluice_plugin(
    const struct sl_plugin_host *host)
{
    if (!host || host->abi != SL_PLUGIN_ABI || host->bytes != sizeof *host)
        return NULL;
    sl_error_set_sink(host->fail);
    sl_log_set_sink(host->log);
    table.name = "cuda";
#define FILL(extra, slot) table.slot = sl_cuda_##slot;
    SL_KERNELS_SLOTS(FILL, )
    SL_KERNELS_DRAW_SLOTS(FILL, )
#undef FILL
    return &plugin;
}
