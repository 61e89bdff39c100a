/*
 * runtime.cuh - what runtime.cu, memory.cu, mapping.cu and plugin.cu share and no kernel sees.
 */
#ifndef SL_KERNELS_CUDA_RUNTIME_CUH
#define SL_KERNELS_CUDA_RUNTIME_CUH

#include "common/base/log.h"
#include "common/device/device.h"
#include "kernels/cuda/cuda.cuh"

// The GPU that is this process's device: written by open() before any other thread may ask.
struct sl_cuda_gpu {
    bool is_open;
    int index;
    char name[SL_DEVICE_NAME_BYTES], bus_id[32];
    uint32_t processors;
    uint64_t total_bytes, budget_bytes; // budget 0: none
    bool unified_host;                  // registered host memory has the same address on the GPU
    bool maps_read_only;                // read-only host memory can be registered
};
extern struct sl_cuda_gpu sl_cuda_gpu;

/*
 * What every call of the device begins with: SL_EDEVICE when the GPU has faulted before or none is
 * open, without asking CUDA; otherwise this thread has its stream.
 */
int sl_cuda_enter(void);
// The GPU has faulted: nothing of CUDA may be called any more.
bool sl_cuda_faulted(void);

// runtime.cu
void sl_cuda_use_queue(uint32_t i);
// The number of the queue that the calling thread uses.
uint32_t sl_cuda_queue_in_use(void);
int sl_cuda_copy(void *to, const void *from, size_t n);
int sl_cuda_copy_2d(void *to, size_t to_stride, const void *from, size_t from_stride,
                    size_t columns, size_t rows);
int sl_cuda_fill(void *p, int byte, size_t n);
bool sl_cuda_load(struct sl_device_load *out);

// release.cu. Around a call that waits for the whole GPU; false: a sum of this process is under
// way, and what was to be given back is kept until the settle functions are called.
bool sl_cuda_may_release(void);
void sl_cuda_released(void);
bool sl_cuda_is_summing(void);
// Whether the calling thread is the one that has begun that sum.
bool sl_cuda_sums_here(void);

// memory.cu
void *sl_cuda_alloc(size_t bytes);
void sl_cuda_free(void *p, size_t bytes);
int sl_cuda_space(uint64_t *free_bytes, uint64_t *total_bytes);
int sl_cuda_usage(uint64_t *used_bytes, uint64_t *total_bytes);
uint64_t sl_cuda_held(void);
void sl_cuda_trim(void);
void sl_cuda_settle_memory(void);
// The allocation that p lies in; false when it is none of ours.
bool sl_cuda_block_of(const void *p, void **base, size_t *bytes);

// mapping.cu
void *sl_cuda_host_alloc(size_t n);
void sl_cuda_host_free(void *p, size_t n);
void sl_cuda_pinned_free(void *p); // of cudaHostAlloc(), of which no copy is under way
int sl_cuda_map(void *p, size_t n, bool read_only, void **out);
void sl_cuda_unmap(void *p);
void *sl_cuda_pinned(const void *p);
int sl_cuda_share(const void *p, struct sl_device_share *out);
int sl_cuda_attach(const struct sl_device_share *share, void **out);
void sl_cuda_detach(void *p);
bool sl_cuda_is_open(const void *p);
void sl_cuda_settle_mappings(void);

#endif
