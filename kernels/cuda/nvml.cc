/*
 * nvml.cc - what the driver's management library says of a GPU without a context on it: its free
 * memory, its load, and what connects it with others.
 *
 * libnvidia-ml.so.1 comes with the driver. SLUICE_NVML names another file, and then
 * nothing else is tried. It is loaded at the first question and stays: a worker asks once a second,
 * and to initialise it takes some ten milliseconds.
 *
 * It knows GPUs by their place on the bus. A slice of a GPU (MIG) has that of the whole one, whose
 * free memory is no help to the slice and which tells no load: nothing is known then, as where
 * there is no library or an older one. Callers go on without, and the log says so once at most.
 *
 * LINKS. A GPU reads another one's memory over the NVLinks between them, else over those that both
 * have to a switch, else over PCIe, at the rate of the slower of the two. NVML says how fast a link
 * is, with older drivers as one number for all. Rates are those of the wires: headers and requests
 * take a tenth or more of them, which is about the same for all.
 *
 * The emulation (tests/simt) has no driver: it says of its links alone, unless SLUICE_NVML names a
 * file.
 */
#include "kernels/cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/log.h"
#include "kernels/cuda/nvml.h"

// The functions that are asked for: all but the first two may be missing.
static struct {
    bool is_there;
    int (*init)(void);
    int (*handle)(const char *bus_id, nvmlDevice_t *device);
    int (*memory)(nvmlDevice_t device, struct nvml_memory *memory);
    int (*utilization)(nvmlDevice_t device, struct nvml_utilization *utilization);
    int (*mig_mode)(nvmlDevice_t device, unsigned *now, unsigned *pending);
    int (*link_state)(nvmlDevice_t device, unsigned link, int *is_active);
    int (*link_remote)(nvmlDevice_t device, unsigned link, struct nvml_pci *pci);
    int (*link_remote_type)(nvmlDevice_t device, unsigned link, int *type);
    int (*fields)(nvmlDevice_t device, int n, struct nvml_field *fields);
    int (*pcie_generation)(nvmlDevice_t device, unsigned *generation);
    int (*pcie_width)(nvmlDevice_t device, unsigned *lanes);
} nvml;

static pthread_once_t looked = PTHREAD_ONCE_INIT;

// No library: the emulation's own.
template <typename function> static bool take(void *library, const char *name, function *out)
{
#ifdef SL_SIMT
    *out = reinterpret_cast<function>(library ? dlsym(library, name) : simt_nvml(name));
#else
    *out = reinterpret_cast<function>(dlsym(library, name));
#endif
    return *out != NULL;
}

static const char *file_name(void)
{
    const char *named = getenv("SLUICE_NVML");
    if (named && *named)
        return named;
#ifdef SL_SIMT
    return NULL;
#else
    return "libnvidia-ml.so.1";
#endif
}

static void look(void)
{
    const char *file = file_name();
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (file && !library) {
        sl_log_debug("GPUs: there is no NVML to say how busy they are: %s", dlerror());
        return;
    }
    bool has = take(library, "nvmlInit_v2", &nvml.init) &&
               take(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.handle);
    take(library, "nvmlDeviceGetMemoryInfo", &nvml.memory);
    take(library, "nvmlDeviceGetUtilizationRates", &nvml.utilization);
    take(library, "nvmlDeviceGetMigMode", &nvml.mig_mode);
    take(library, "nvmlDeviceGetNvLinkState", &nvml.link_state);
    take(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml.link_remote);
    take(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &nvml.link_remote_type);
    take(library, "nvmlDeviceGetFieldValues", &nvml.fields);
    take(library, "nvmlDeviceGetMaxPcieLinkGeneration", &nvml.pcie_generation);
    take(library, "nvmlDeviceGetMaxPcieLinkWidth", &nvml.pcie_width);
    int error = has ? nvml.init() : NVML_SUCCESS;
    nvml.is_there = has && error == NVML_SUCCESS;
    if (nvml.is_there)
        return;
    sl_log_debug("GPUs: NVML (%s) cannot be used: %s (%d)", file,
                 has ? "nvmlInit_v2() failed" : "a function is missing", error);
    if (library)
        dlclose(library);
}

// The whole GPU at `bus_id`; false where NVML knows it not, or it is in slices.
static bool find(const char *bus_id, nvmlDevice_t *device)
{
    unsigned mig = 0, pending;
    pthread_once(&looked, look);
    if (!nvml.is_there || nvml.handle(bus_id, device) != NVML_SUCCESS)
        return false;
    bool told = nvml.mig_mode && nvml.mig_mode(*device, &mig, &pending) == NVML_SUCCESS;
    return !told || mig != NVML_MIG_ENABLED;
}

bool sl_cuda_nvml_free(const char *bus_id, uint64_t *free_bytes)
{
    nvmlDevice_t device;
    struct nvml_memory found;
    if (!find(bus_id, &device) || !nvml.memory || nvml.memory(device, &found) != NVML_SUCCESS)
        return false;
    *free_bytes = found.free;
    return true;
}

bool sl_cuda_nvml_load(const char *bus_id, struct sl_device_load *out)
{
    nvmlDevice_t device;
    struct nvml_utilization found;
    if (!find(bus_id, &device) || !nvml.utilization ||
        nvml.utilization(device, &found) != NVML_SUCCESS || found.gpu > 100 || found.memory > 100)
        return false;
    out->busy = (float)found.gpu / 100;
    out->memory_busy = (float)found.memory / 100;
    return true;
}

// --- links ---------------------------------------------------------------------------------------

// What goes out of a GPU, in GB/s.
struct ends {
    float to[SL_PLUGIN_DEVICES_MAX]; // NVLinks, by GPU
    float to_switch;
    float pcie;
};

// Of one NVLink; 0 where it is not told.
static float link_rate(nvmlDevice_t device, unsigned link)
{
    static const unsigned known[] = {NVML_LINK_SPEED, NVML_COMMON_LINK_SPEED};
    for (unsigned field : known) {
        struct nvml_field asked = {};
        asked.field = field;
        asked.scope = link;
        if (nvml.fields && nvml.fields(device, 1, &asked) == NVML_SUCCESS &&
            asked.error == NVML_SUCCESS && asked.value.u32 > 0)
            return (float)asked.value.u32 / 1000;
    }
    return 0;
}

static bool is_at(const struct sl_gpu *gpu, const struct nvml_pci *pci)
{
    unsigned domain, bus, device;
    return sscanf(gpu->bus_id, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == pci->domain &&
           bus == pci->bus && device == pci->device;
}

static void add_link(const struct sl_gpu_report *report, nvmlDevice_t device, unsigned link,
                     struct ends *out)
{
    int is_active = 0, type = NVML_REMOTE_GPU;
    struct nvml_pci pci = {};
    if (nvml.link_state(device, link, &is_active) != NVML_SUCCESS || !is_active)
        return;
    if (nvml.link_remote_type && nvml.link_remote_type(device, link, &type) == NVML_SUCCESS &&
        type == NVML_REMOTE_SWITCH)
        out->to_switch += link_rate(device, link);
    else if (nvml.link_remote && nvml.link_remote(device, link, &pci) == NVML_SUCCESS)
        for (uint32_t i = 0; i < report->n; i++)
            if (is_at(&report->gpu[i], &pci))
                out->to[i] += link_rate(device, link);
}

// One direction, less what its encoding takes.
static float pcie_rate(nvmlDevice_t device)
{
    static const float lane[] = {0, 0.25f, 0.5f, 0.985f, 1.969f, 3.938f, 7.563f}; // by generation
    unsigned generation, lanes;
    if (!nvml.pcie_generation || nvml.pcie_generation(device, &generation) != NVML_SUCCESS ||
        !nvml.pcie_width || nvml.pcie_width(device, &lanes) != NVML_SUCCESS || generation == 0)
        return 0;
    return lane[SL_MIN(generation, (unsigned)SL_COUNT_OF(lane) - 1)] * (float)lanes;
}

static void find_ends(const struct sl_gpu_report *report, uint32_t i, struct ends *out)
{
    nvmlDevice_t device;
    if (!find(report->gpu[i].bus_id, &device))
        return;
    for (unsigned link = 0; nvml.link_state && link < NVML_LINKS_MAX; link++)
        add_link(report, device, link, out);
    out->pcie = pcie_rate(device);
}

void sl_cuda_nvml_links(struct sl_gpu_report *report)
{
    struct ends *ends = (struct ends *)calloc(SL_MAX(report->n, 1u), sizeof *ends);
    for (uint32_t i = 0; ends && i < report->n; i++)
        find_ends(report, i, &ends[i]);
    for (uint32_t i = 0; ends && i < report->n; i++)
        for (uint32_t j = 0; j < report->n; j++) {
            if (!(report->gpu[i].peers >> j & 1))
                continue;
            float rate = ends[i].to[j];
            if (rate == 0)
                rate = SL_MIN(ends[i].to_switch, ends[j].to_switch);
            report->gpu[i].link[j] = rate > 0 ? rate : SL_MIN(ends[i].pcie, ends[j].pcie);
        }
    free(ends);
}
