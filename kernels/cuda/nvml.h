/*
 * nvml.h - what the plug-in asks of the driver's management library, as its documentation has it:
 * its header does not come with the toolkit.
 */
#ifndef SL_KERNELS_CUDA_NVML_H
#define SL_KERNELS_CUDA_NVML_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvmlDevice_st *nvmlDevice_t;

enum { NVML_SUCCESS = 0, NVML_MIG_ENABLED = 1 };
enum { NVML_LINKS_MAX = 18 };
enum { NVML_REMOTE_GPU = 0, NVML_REMOTE_SWITCH = 2 };        // what is at the other end of a link
enum { NVML_COMMON_LINK_SPEED = 90, NVML_LINK_SPEED = 164 }; // fields, MB/s; of all links, of one

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory; // percent of the last sample period, 1/6 to 1 second
};
// nvmlPciInfo_t, its third version
struct nvml_pci {
    char old_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
// nvmlFieldValue_t
struct nvml_field {
    unsigned field, scope; // scope: the link
    long long timestamp, latency_us;
    int type, error;
    union {
        double real;
        unsigned u32;
        unsigned long long u64;
    } value;
};

#ifdef __cplusplus
}
#endif

#ifdef SL_SIMT
// The emulation's own (tests/simt/links.cc), by the name that it has in the library; NULL.
void *simt_nvml(const char *name);
#endif

#endif
