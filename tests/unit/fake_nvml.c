/*
 * fake_nvml.c - an NVML that knows GPU 0 of the emulation (tests/simt) and says of it what
 * FAKE_NVML in the environment has; built as a shared object of its own, which SLUICE_NVML names.
 *
 *   FAKE_NVML=GPU,MEMORY,FREE   percent of the last sample period, percent, bytes (50,25,1000000)
 *   FAKE_NVML=refuses           nvmlInit_v2() fails
 *   FAKE_NVML=silent            this GPU has no load to tell
 *   FAKE_NVML=slices            it is in slices (MIG): what is said is of the whole
 *   FAKE_NVML=nonsense          a load above 100 %
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, UNKNOWN = 999 };

struct memory {
    unsigned long long total, free, used;
};
struct utilization {
    unsigned gpu, memory;
};

extern int fake_nvml_inits;
int fake_nvml_inits; // how often it was initialised

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *out);
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *out);
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);

static int the_gpu;

static bool is_told(const char *word)
{
    const char *text = getenv("FAKE_NVML");
    return text && strcmp(text, word) == 0;
}

static void numbers(unsigned *gpu, unsigned *memory, unsigned long long *free_bytes)
{
    const char *text = getenv("FAKE_NVML");
    *gpu = 50, *memory = 25, *free_bytes = 512ull << 20;
    if (text)
        sscanf(text, "%u,%u,%llu", gpu, memory, free_bytes);
}

int nvmlInit_v2(void)
{
    fake_nvml_inits++;
    return is_told("refuses") ? UNKNOWN : SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    *device = &the_gpu;
    return strcmp(bus_id, "0000:01:00.0") == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *out)
{
    unsigned gpu, memory;
    if (device != &the_gpu)
        return UNKNOWN;
    numbers(&gpu, &memory, &out->free);
    out->total = 2 * out->free;
    out->used = out->free;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *out)
{
    unsigned long long free_bytes;
    if (device != &the_gpu || is_told("silent"))
        return NOT_SUPPORTED;
    numbers(&out->gpu, &out->memory, &free_bytes);
    if (is_told("nonsense"))
        out->gpu = 4294967295u;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending)
{
    *now = *pending = is_told("slices");
    return device == &the_gpu ? SUCCESS : UNKNOWN;
}
