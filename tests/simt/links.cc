/*
 * links.cc - which emulated GPU reaches the memory of which, and how fast (SLUICE_SIMT_LINKS); and the
 * part of NVML that says so, for the plug-in to find out as it does on a real machine.
 *
 * Each pair that is connected has one NVLink of the wanted rate: link j of GPU i goes to GPU j. The
 * emulation moves no byte slower for it.
 */
#include "kernels/cuda/nvml.h"
#include "tests/simt/internal.h"

#include <ctype.h>
#include <stdlib.h>

namespace simt {

namespace {

enum { SINGLE = 25, DOUBLE = 50 }; // GB/s, of one and of two links of a V100

struct links {
    float rate[DEVICES_MAX][DEVICES_MAX]; // [reader][owner]

    void join(int a, int b, float gb)
    {
        rate[a][b] = rate[b][a] = gb;
    }
};

void join_all(links &l, int n)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            l.join(a, b, DOUBLE);
}

void join_ring(links &l, int n)
{
    for (int a = 0; a < n && n > 1; a++)
        l.join(a, (a + 1) % n, SINGLE);
}

// Eight V100: two quads, and a link from each GPU to one of the other quad. A smaller machine has
// the first of them.
void join_cube(links &l, int n)
{
    if (n > 8)
        report("SETTINGS", "SLUICE_SIMT_LINKS is cube, which has 8 devices and not %d", n);
    for (int q = 0; q < 8; q += 4) {
        for (int g = 0; g < 4; g++)
            for (int other = 0; other < g; other++)
                l.join(q + g, q + other, SINGLE);
        l.join(q, q + 3, DOUBLE);
        l.join(q + 1, q + 2, DOUBLE);
    }
    for (int g = 0; g < 4; g++)
        l.join(g, 4 + (g + 2) % 4, DOUBLE);
}

// Numbers, a row for each reader; what stands between them does not matter.
void parse(links &l, int n, const char *text)
{
    int found = 0;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            continue;
        char *end;
        float rate = strtof(text, &end);
        if (found < n * n)
            l.rate[found / n][found % n] = rate;
        found++;
        text = end - 1;
    }
    if (found != n * n)
        report("SETTINGS", "SLUICE_SIMT_LINKS has %d rates, wanted %d for each of %d devices",
               found, n, n);
}

void read_file(links &l, int n, const char *path)
{
    char text[4096];
    FILE *file = fopen(path, "re");
    if (!file)
        report(
            "SETTINGS",
            "SLUICE_SIMT_LINKS is \"%s\", wanted full, ring, cube, none, rates or a file of them",
            path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    parse(l, n, text);
}

const links &the_links()
{
    static const links all = [] {
        links l = {};
        const char *words = settings().links ? settings().links : "full";
        int n = settings().devices;
        if (strcmp(words, "full") == 0)
            join_all(l, n);
        else if (strcmp(words, "ring") == 0)
            join_ring(l, n);
        else if (strcmp(words, "cube") == 0)
            join_cube(l, n);
        else if (isdigit((unsigned char)*words))
            parse(l, n, words);
        else if (strcmp(words, "none") != 0)
            read_file(l, n, words);
        return l;
    }();
    return all;
}

// ---- NVML ---------------------------------------------------------------------------------------

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

const char handles[DEVICES_MAX] = {}; // one for each device

int init()
{
    return SUCCESS;
}

int find_handle(const char *bus_id, nvmlDevice_t *out)
{
    unsigned domain, bus, device;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3 || domain || device || bus < 1 ||
        bus > (unsigned)settings().devices)
        return NOT_FOUND;
    *out = (nvmlDevice_t)(handles + bus - 1);
    return SUCCESS;
}

int reader_of(nvmlDevice_t device)
{
    return (int)((const char *)device - handles);
}

int link_state(nvmlDevice_t device, unsigned link, int *is_active)
{
    if (link >= DEVICES_MAX)
        return INVALID_ARGUMENT;
    *is_active = reaches(reader_of(device), (int)link);
    return SUCCESS;
}

int link_remote(nvmlDevice_t device, unsigned link, struct nvml_pci *out)
{
    if (link >= DEVICES_MAX || !reaches(reader_of(device), (int)link))
        return INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->bus = 1 + link;
    return SUCCESS;
}

int fields(nvmlDevice_t device, int n, struct nvml_field *values)
{
    for (int i = 0; i < n; i++) {
        bool known = values[i].field == NVML_LINK_SPEED && values[i].scope < DEVICES_MAX;
        values[i].error = known ? SUCCESS : NOT_SUPPORTED;
        if (known)
            values[i].value.u32 =
                (unsigned)(the_links().rate[reader_of(device)][values[i].scope] * 1000);
    }
    return SUCCESS;
}

} // namespace

bool reaches(int reader, int owner)
{
    return reader != owner && the_links().rate[reader][owner] > 0;
}

} // namespace simt

void *simt_nvml(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } all[] = {
        {"nvmlInit_v2", (void *)simt::init},
        {"nvmlDeviceGetHandleByPciBusId_v2", (void *)simt::find_handle},
        {"nvmlDeviceGetNvLinkState", (void *)simt::link_state},
        {"nvmlDeviceGetNvLinkRemotePciInfo_v2", (void *)simt::link_remote},
        {"nvmlDeviceGetFieldValues", (void *)simt::fields},
    };
    for (const auto &f : all)
        if (strcmp(f.name, name) == 0)
            return f.function;
    return NULL;
}

using namespace simt;

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = 0;
    SIMT_ENTRY();
    int n = settings().devices;
    if (device < 0 || device >= n || peer < 0 || peer >= n)
        return failed(cudaErrorInvalidDevice);
    *can = reaches(device, peer);
    return cudaSuccess;
}
