/*
 * nvml.cc - what the driver's management library says of a GPU without a context on it: its free
 * memory, and its load.
 *
 * libnvidia-ml.so.1 comes with the driver; its header does not come with the toolkit, so what is
 * called is declared here as its documentation has it. SLUICE_NVML names another file, and then
 * nothing else is tried. It is loaded at the first question and stays: a worker asks once a second,
 * and to initialise it takes some ten milliseconds.
 *
 * It knows GPUs by their place on the bus. A slice of a GPU (MIG) has that of the whole one, whose
 * free memory is no help to the slice and which tells no load: nothing is known then, as where
 * there is no library or an older one. Callers go on without, and the log says so once at most.
 *
 * The emulation (tests/simt) has no driver: there only SLUICE_NVML counts.
 */
#include "kernels/cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/base/log.h"

typedef struct nvmlDevice_st *nvmlDevice_t;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory; // percent of the last sample period, 1/6 to 1 second
};
enum { NVML_SUCCESS = 0, NVML_MIG_ENABLED = 1 };

// The functions that are asked for, but for the last two in every driver there is code for.
static struct {
    bool is_there;
    int (*init)(void);
    int (*handle)(const char *bus_id, nvmlDevice_t *device);
    int (*memory)(nvmlDevice_t device, struct nvml_memory *memory);
    int (*utilization)(nvmlDevice_t device, struct nvml_utilization *utilization);
    int (*mig_mode)(nvmlDevice_t device, unsigned *now, unsigned *pending);
} nvml;

static pthread_once_t looked = PTHREAD_ONCE_INIT;

template <typename function> static bool take(void *library, const char *name, function *out)
{
    *out = reinterpret_cast<function>(dlsym(library, name));
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
    if (!library) {
        sl_log_debug("GPUs: there is no NVML to say how busy they are: %s",
                     file ? dlerror() : "an emulated GPU has none");
        return;
    }
    bool has = take(library, "nvmlInit_v2", &nvml.init) &&
               take(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.handle) &&
               take(library, "nvmlDeviceGetMemoryInfo", &nvml.memory);
    take(library, "nvmlDeviceGetUtilizationRates", &nvml.utilization);
    take(library, "nvmlDeviceGetMigMode", &nvml.mig_mode);
    int error = has ? nvml.init() : NVML_SUCCESS;
    nvml.is_there = has && error == NVML_SUCCESS;
    if (nvml.is_there)
        return;
    sl_log_debug("GPUs: NVML (%s) cannot be used: %s (%d)", file,
                 has ? "nvmlInit_v2() failed" : "it has not all that is wanted", error);
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
    if (!find(bus_id, &device) || nvml.memory(device, &found) != NVML_SUCCESS)
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
