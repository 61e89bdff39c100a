/*
 * libraries.h - what the plug-in takes from libraries that it looks for at run time.
 *
 * None of them is needed to open a GPU. The emulation (tests/simt) has an NCCL of its own, of
 * NVML what is about links, and no cuBLAS but where a test names what stands in for it: the files
 * behind these functions then say so.
 */
#ifndef SL_KERNELS_CUDA_LIBRARIES_H
#define SL_KERNELS_CUDA_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/device/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

// cuBLAS (gemm_lt.cc), NCCL (nccl.cc): file and version, or why there is none.
void sl_cuda_cublas_describe(char *out, size_t bytes);
void sl_cuda_nccl_describe(char *out, size_t bytes);

// nccl.cc: the plug-in's `collective`.
extern const struct sl_collective sl_cuda_collective;

// Of the GPU at `bus_id` ("0000:3b:00.0"), without a context on it, from the driver's management
// library (nvml.cc): free memory, and load. False, without words, where that knows nothing: it is
// not there, or the GPU is in slices (MIG).
bool sl_cuda_nvml_free(const char *bus_id, uint64_t *free_bytes);
bool sl_cuda_nvml_load(const char *bus_id, struct sl_device_load *out);
// Fills `link` for those GPUs that are `peers`, whose bus_id is there; 0 where it is not known.
void sl_cuda_nvml_links(struct sl_gpu_report *report);

/*
 * The calling thread's queue, for files that do not see CUDA's types (runtime.cu): *stream is a
 * cudaStream_t, made at the thread's first call. SL_EDEVICE: no GPU is open, or it has faulted.
 */
int sl_cuda_queue(void **stream);
// Around a sum that waits for other processes (release.cu): meanwhile nothing is given back to the
// driver, which would wait for the sum. The same thread calls both.
void sl_cuda_sum_begins(void);
void sl_cuda_sum_ends(void);
// Loads every kernel of the plug-in: to load one later may wait for a sum, too. SL_EDEVICE.
int sl_cuda_load_kernels(void);
// SL_OK: all that was asked of the queue is done. SL_EAGAIN, without words: not yet. SL_EDEVICE.
int sl_cuda_queue_poll(void);
// Waits for that. SL_EDEVICE: a GPU that is busy after `seconds` counts as faulted, by `what`.
int sl_cuda_queue_drain(uint32_t seconds, const char *what);
// The GPU has faulted: nothing of CUDA may be called any more.
bool sl_cuda_queue_is_lost(void);

#ifdef __cplusplus
}
#endif

#endif
