/*
 * fake_nvml.c - an NVML that knows GPU 0 of the emulation (tests/simt), with links also GPU 1, and
 * says of them what the environment has; built as a shared object of its own, which SLUICE_NVML
 * names.
 *
 *   FAKE_NVML=GPU,MEMORY,FREE   percent of the last sample period, percent, bytes (50,25,1000000)
 *   FAKE_NVML=refuses           nvmlInit_v2() fails
 *   FAKE_NVML=silent            this GPU has no load to tell
 *   FAKE_NVML=slices            it is in slices (MIG): what is said is of the whole
 *   FAKE_NVML=nonsense          a load above 100 %
 *
 *   FAKE_NVML_LINKS=direct      three NVLinks of 26.5 GB/s between them, one of which is down
 *   FAKE_NVML_LINKS=old         the same, by a driver that knows one speed for all links, 25 GB/s
 *   FAKE_NVML_LINKS=switch      GPU 0 has four to a switch, GPU 1 three
 *   FAKE_NVML_LINKS=pcie        none; PCIe 4 with 16 lanes at GPU 0, 8 at GPU 1
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/nvml.h"

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, UNKNOWN = 999 };

extern int fake_nvml_inits;
int fake_nvml_inits; // how often it was initialised

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *out);
int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *out);
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct nvml_pci *out);
int nvmlDeviceGetFieldValues(void *device, int n, struct nvml_field *fields);
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *out);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *out);

static int the_gpu, the_other;

static bool has(const char *name, const char *word)
{
    const char *text = getenv(name);
    return text && strcmp(text, word) == 0;
}

static bool is_told(const char *word)
{
    return has("FAKE_NVML", word);
}

static bool is_linked(const char *word)
{
    return has("FAKE_NVML_LINKS", word);
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
    bool is_other = getenv("FAKE_NVML_LINKS") && strcmp(bus_id, "0000:02:00.0") == 0;
    *device = is_other ? &the_other : &the_gpu;
    return is_other || strcmp(bus_id, "0000:01:00.0") == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *out)
{
    unsigned gpu, memory;
    if (device != &the_gpu)
        return UNKNOWN;
    numbers(&gpu, &memory, &out->free);
    out->total = 2 * out->free;
    out->used = out->free;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *out)
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
    return device ? SUCCESS : UNKNOWN;
}

// Link 1 of a GPU is down.
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active)
{
    unsigned n = is_linked("switch")                       ? (device == &the_gpu ? 5 : 4)
                 : is_linked("direct") || is_linked("old") ? 3
                                                           : 0;
    *is_active = link < n && link != 1;
    return link < n ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type)
{
    (void)device;
    (void)link;
    *type = is_linked("switch") ? NVML_REMOTE_SWITCH : NVML_REMOTE_GPU;
    return is_linked("old") ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct nvml_pci *out)
{
    (void)link;
    memset(out, 0, sizeof *out);
    out->bus = is_linked("switch") ? 0x77 : device == &the_gpu ? 2 : 1;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(void *device, int n, struct nvml_field *fields)
{
    unsigned wanted = is_linked("old") ? NVML_COMMON_LINK_SPEED : NVML_LINK_SPEED;
    (void)device;
    for (int i = 0; i < n; i++) {
        fields[i].error = fields[i].field == wanted ? SUCCESS : NOT_SUPPORTED;
        fields[i].value.u32 = is_linked("old") ? 25000 : 26500;
    }
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *out)
{
    (void)device;
    *out = 4;
    return is_linked("pcie") ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *out)
{
    *out = device == &the_gpu ? 16 : 8;
    return SUCCESS;
}
