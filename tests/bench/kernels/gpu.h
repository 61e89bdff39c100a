/*
 * gpu.h - measurements on a device whose memory the processor cannot read.
 *
 * The cases are made on the host and uploaded before anything is timed. A run has its wait for the
 * device (perf_measure), so what stands beside a ceiling is the time that a caller sees.
 *
 *      copy             device memory to device memory, bytes read plus bytes written
 *      host to device   pinned memory, as DMA does it; and device to host
 *      rows in order    of mapped host memory, read by a kernel: the bus without DMA
 *      random words     4 bytes each, anywhere in device memory
 */
#ifndef SL_TESTS_BENCH_KERNELS_GPU_H
#define SL_TESTS_BENCH_KERNELS_GPU_H

#include "tests/bench/kernels/perf.h"

void perf_gpu_ceilings(struct perf *p);
void perf_gpu_gather(struct perf *p);
void perf_gpu_ranked(struct perf *p); // and scatter_rows, gather_rows_to: the staged way
void perf_gpu_aggregate(struct perf *p);
void perf_gpu_transpose(struct perf *p);
void perf_gpu_gemm(struct perf *p);
void perf_gpu_draw(struct perf *p); // and weight_prefix, mark_ranks, split_rows

// Of the two, what --small asks for. The small size is of an emulated device.
uint64_t perf_size(const struct perf *p, uint64_t full, uint64_t small);

// ---- memory, until perf_release(); the process's where the device is its cores ------------------

void *perf_gpu_alloc(struct perf *p, size_t bytes);  // the device's, zeros
void *perf_gpu_pinned(struct perf *p, size_t bytes); // the process's, for copies
// As jobs have what GPUs read in place: shared memory, in huge pages where the kernel grants them,
// pinned. In *seen at which address the device has it.
void *perf_gpu_mapped(struct perf *p, size_t bytes, void **seen);
void *perf_upload(struct perf *p, const void *from, size_t bytes);
float *perf_gpu_floats(struct perf *p, size_t n);
uint32_t *perf_gpu_ids(struct perf *p, size_t n, uint32_t below);
// Uploaded arrays of an adjacency of the host's.
struct sl_csr_view perf_upload_csr(struct perf *p, const struct sl_csr_view *csr);
// The transpose of one of the device's.
struct sl_csr_view perf_gpu_transposed(struct perf *p, const struct sl_csr_view *csr,
                                       uint32_t **t_edge);

// ---- ceilings -----------------------------------------------------------------------------------

// "copy" of a quarter GiB of device memory.
struct perf_run perf_gpu_copy(struct perf *p);

struct perf_transfer {
    struct perf *p;
    void *to;
    const void *from;
    size_t bytes;
};

// "host to device" of these bytes, once.
struct perf_run perf_gpu_transfer(struct perf_transfer *transfer, const char *name);

#endif
