/*
 * plugin.h - the back end of GPUs: a shared object that is opened when a device needs it.
 *
 * libsluice_cuda.so lies beside the programs (../lib from their folder, or the folder itself, or
 * where SLUICE_CUDA_PLUGIN says, and then nowhere else). No sluice program needs a CUDA library to
 * start: the plug-in has the CUDA runtime in it, and looks for cuBLAS and NCCL itself. It is opened
 * once in a process, by sl_plugin_open(), and stays.
 *
 * Plug-in and program are of one build: abi, the sizes of what they share and the version must
 * agree, or opening says which file is of which version.
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_DEVICE_PLUGIN_H
#define SL_DEVICE_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_PLUGIN_ABI = 9, SL_PLUGIN_TEXT_BYTES = 512, SL_PLUGIN_DEVICES_MAX = 64 };

// One GPU.
struct sl_gpu {
    char name[SL_DEVICE_NAME_BYTES];
    uint32_t major, minor; // compute capability
    uint32_t processors;   // SMs
    uint64_t total_bytes, free_bytes;
    char bus_id[32];
    char cores[256]; // host cores near it, as config's "cores"; "" = not known
    uint64_t peers;  // bit i: may read the memory of GPU i
    // GB/s at which it reads the memory of GPU i, of itself its own; 0: not known, or not at all
    float link[SL_PLUGIN_DEVICES_MAX];
    bool unified_host; // registered host memory has the same address on the device
    bool maps_files;   // memory that is only read, as of files, can be used in place
};

// The GPUs of this machine, or why there are none; that is no error.
struct sl_gpu_report {
    uint32_t n;
    struct sl_gpu gpu[SL_PLUGIN_DEVICES_MAX];
    uint32_t driver_version, runtime_version; // 13000 = 13.0; driver 0 = there is none
    char cublas[SL_PLUGIN_TEXT_BYTES];        // file and version, or why there is none
    char nccl[SL_PLUGIN_TEXT_BYTES];
    char problem[SL_PLUGIN_TEXT_BYTES]; // why n is 0, and what to do; "" otherwise
};

struct sl_kernels; // kernels/kernels.h

enum { SL_COLLECTIVE_ID_BYTES = 128 };

/*
 * Sums over the GPUs of several processes: NCCL, found at run time (SLUICE_NCCL names the file,
 * else where the loader looks). A process is in one group at a time, with the GPU that it has
 * opened; all calls come from one thread, and none of them waits for another process.
 *
 * Members die and others come at any time: begin() and all_reduce() only start something, poll()
 * says how it is, and abort() gives the group up whatever it is doing.
 */
struct sl_collective {
    uint32_t bytes; // sizeof *this
    // A name for a new group, which its members are to be told. SL_ENOENT: there is no NCCL, with
    // where it was looked for and what to do; SL_EUNSUPPORTED: NCCL's own settings are such that
    // no group can work; SL_EDEVICE.
    int (*unique_id)(uint8_t id[SL_COLLECTIVE_ID_BYTES]);
    // Starts to meet the others as `rank` of n. The last group must have been given up. SL_ENOENT;
    // SL_EUNSUPPORTED; SL_EDEVICE.
    int (*begin)(const uint8_t id[SL_COLLECTIVE_ID_BYTES], uint32_t rank, uint32_t n);
    // Starts out[i] = sum over the members of their in[i], behind what this thread has asked of the
    // device before. Both (n), device memory; every member gets the same bits. SL_EDEVICE.
    int (*all_reduce)(const float *in, float *out, uint64_t n);
    // SL_OK: what was started is over (all have met; `out` is there). SL_EAGAIN: not yet, and
    // nothing may be asked of this thread's queue meanwhile. SL_EDEVICE: it has failed, with NCCL's
    // or the device's message: a peer is gone, or this GPU is lost.
    int (*poll)(void);
    // Gives the group up and what it was doing; nothing when there is none. `in` and `out` are no
    // longer used when it returns.
    void (*abort)(void);
};

// What the program gives to the plug-in: its own error and log, so that messages end up there.
struct sl_plugin_host {
    uint32_t abi;
    uint32_t bytes; // sizeof *this
    int (*fail)(int code, const char *message);
    void (*log)(int level, const char *message); // enum sl_log_level
};

struct sl_plugin {
    uint32_t abi;
    uint32_t bytes;         // sizeof *this
    uint32_t kernels_bytes; // sizeof(struct sl_kernels)
    uint32_t device_bytes;  // sizeof(struct sl_device)
    const char *version;    // SL_VERSION of its build
    void (*report)(struct sl_gpu_report *out);
    /*
     * Makes GPU `index` the device of this process. At most `budget_bytes` of its memory are taken
     * (0: as much as there is). SL_ENOENT with what GPUs there are; SL_EDEVICE.
     */
    int (*open)(uint32_t index, uint64_t budget_bytes);
    const struct sl_device *device;         // of the open GPU; NULL before open()
    const struct sl_kernels *kernels;       // its operations; NULL before open()
    const struct sl_collective *collective; // never NULL; what it can do depends on NCCL
};

// The one symbol that the plug-in exports: sluice_plugin(). NULL when the host is of another build.
#define SL_PLUGIN_SYMBOL "sluice_plugin"
typedef const struct sl_plugin *(*sl_plugin_entry)(const struct sl_plugin_host *host);

/*
 * Finds and opens the plug-in, once; later calls return the same. SL_ENOENT: there is none (this
 * build has none, or the file is missing), with where it was looked for; SL_EPROTO: it is of
 * another build; SL_EDEVICE: it cannot be loaded, with the loader's words. A failure is not kept.
 */
int sl_plugin_open(const struct sl_plugin **out);
// Whether this program would find one: opens nothing. SL_ENOENT as above; SL_ESYS.
int sl_plugin_look(const char *program);
// The report when the plug-in cannot be opened: its problem is the recorded error.
void sl_plugin_report_none(struct sl_gpu_report *out);
// The path of the plug-in; "" before it was opened.
const char *sl_plugin_path(void);
// The plug-in when sl_plugin_open() has opened it, else NULL: looks for nothing.
const struct sl_plugin *sl_plugin_opened(void);

#ifdef __cplusplus
}
#endif

#endif
