/*
 * gpu_fixture.h - a GPU for tests: the emulated one (tests/simt), or the one that
 * SLUICE_CUDA_PLUGIN brings.
 *
 * Each test is a process of its own, so each opens its own, and may say before how it behaves
 * (SLUICE_SIMT_MEMORY, SLUICE_SIMT_FAIL).
 */
#ifndef SL_TESTS_UNIT_GPU_FIXTURE_H
#define SL_TESTS_UNIT_GPU_FIXTURE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/device/plugin.h"
#include "kernels/kernels.h"
#include "tests/simt/counts.h"
#include "tests/unit/asserts.h"

// BIN/tests/this program -> BIN/../lib.
static inline bool gpu_find(char *out, size_t bytes)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(self, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    snprintf(out, bytes, "%s/lib/libsluice_cuda_simt.so", self);
    return access(out, R_OK) == 0;
}

static inline bool gpu_exists(void)
{
#ifdef __SANITIZE_THREAD__
    return false; // it cannot follow the threads of an emulated GPU
#else
    char path[4200];
    return getenv("SLUICE_CUDA_PLUGIN") || gpu_find(path, sizeof path);
#endif
}

static inline bool emulated_gpu_exists(void)
{
    return gpu_exists() && !getenv("SLUICE_CUDA_PLUGIN");
}

#define ON_A_GPU                                                                                   \
    .needs = gpu_exists, .skipped = "tests on a GPU: there is no lib/libsluice_cuda_simt.so here"
#define ON_EMULATED_GPUS                                                                           \
    .needs = emulated_gpu_exists, .skipped = "GPUs of several processes: emulated ones are not "   \
                                             "here"

// This GPU of the plug-in, which must exist.
static inline const struct sl_plugin *gpu_open_one(uint32_t gpu, uint64_t budget_bytes)
{
    char path[4200];
    const struct sl_plugin *plugin;
    if (!getenv("SLUICE_CUDA_PLUGIN") && gpu_find(path, sizeof path))
        setenv("SLUICE_CUDA_PLUGIN", path, 1);
    ck_assert_msg(sl_plugin_open(&plugin) == SL_OK, "%s", sl_error_message());
    ck_assert_msg(plugin->open(gpu, budget_bytes) == SL_OK, "%s", sl_error_message());
    return plugin;
}

static inline const struct sl_plugin *gpu_open(uint64_t budget_bytes)
{
    return gpu_open_one(0, budget_bytes);
}

// A copy in the device's memory of what the processor has; to be given to gpu_free().
static inline void *gpu_put(const struct sl_device *device, const void *from, size_t bytes)
{
    void *p = device->memory.alloc(bytes);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(device->copy(p, from, bytes), SL_OK);
    ck_assert_int_eq(device->sync(), SL_OK);
    return p;
}

// ... and back: to be freed with free().
static inline void *gpu_get(const struct sl_device *device, const void *from, size_t bytes)
{
    void *p = malloc(bytes + 1);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(device->copy(p, from, bytes), SL_OK);
    ck_assert_msg(device->sync() == SL_OK, "%s", sl_error_message());
    return p;
}

// What the emulated GPU has counted so far. False with a real one, which counts nothing.
static inline bool gpu_counts(struct simt_counts *out)
{
    void *library = dlopen(sl_plugin_path(), RTLD_NOW | RTLD_NOLOAD);
    simt_counts_entry entry = NULL;
    if (library)
        *(void **)&entry = dlsym(library, SIMT_COUNTS_SYMBOL);
    if (entry)
        entry(out);
    return entry != NULL;
}

static inline void gpu_free(const struct sl_device *device, void *p, size_t bytes)
{
    device->memory.free(p, bytes);
}

#endif
