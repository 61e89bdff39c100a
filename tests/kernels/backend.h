// backend.h - a back end by its name, for the kernels' tests and for their measurements.
#ifndef SL_TESTS_KERNELS_BACKEND_H
#define SL_TESTS_KERNELS_BACKEND_H

#include <stddef.h>

#include "common/device/device.h"
#include "kernels/kernels.h"

struct backend {
    const struct sl_kernels *kernels;
    const struct sl_device *device;
    // Of the emulation: what kernels must not touch, and whether it sees every access.
    int is_emulated, is_checked;
    void (*forbid)(const void *p, size_t n), (*allow)(const void *p, size_t n);
};

// "cuda" is GPU 0, or an emulated one where SLUICE_CUDA_PLUGIN names the emulation. SL_EINVAL: no
// back end has this name; else as sl_kernels_open_gpu().
int backend_open(const char *name, struct backend *out);

#endif
