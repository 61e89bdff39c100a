#include "trainer/infer/predict_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

// The GPU, whose allocations are looked at on their way.
static struct {
    const struct sl_device *real;
    struct sl_device watched; // *real but for memory.alloc
    uint32_t index;
    uint64_t budget_bytes;
    size_t wanted; // by the last allocation, where it failed; else 0
} gpu;

static void *alloc_watched(size_t bytes)
{
    void *p = gpu.real->memory.alloc(bytes);
    gpu.wanted = p ? 0 : bytes;
    return p;
}

int sl_predict_device_open(const char *name, uint64_t budget_bytes, struct sl_compute *out)
{
    struct sl_device_config config = {.kind = SL_DEVICE_CPU, .memory_bytes = budget_bytes};
    const char *colon = strchr(name, ':');
    char *end = NULL;
    if (strcmp(name, "cpu") == 0)
        return sl_compute_open(&config, out);
    unsigned long index = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (strncmp(name, "cuda:", 5) != 0 || !end || end == colon + 1 || *end || index > UINT16_MAX)
        return sl_fail(SL_EINVAL, "--device '%s': wanted cpu or cuda:N", name);
    SL_TRY(sl_kernels_open_gpu((uint32_t)index, budget_bytes, &gpu.real, &out->kernels));
    gpu.index = (uint32_t)index;
    gpu.budget_bytes = budget_bytes;
    gpu.watched = *gpu.real;
    gpu.watched.memory.alloc = alloc_watched;
    out->device = &gpu.watched;
    return SL_OK;
}

int sl_predict_device_params(const struct sl_compute *c, const float *host, uint64_t n,
                             const float **out)
{
    *out = host;
    if (c->device->is_host)
        return SL_OK;
    float *copy = c->device->memory.alloc(n * sizeof *copy);
    if (!copy)
        return SL_ENOMEM;
    *out = copy;
    SL_TRY(c->device->copy(copy, host, n * sizeof *copy));
    return c->device->sync();
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

int sl_predict_device_explain(int rc)
{
    uint64_t free_bytes, total_bytes, used_bytes, all_bytes;
    char budget[64] = "";
    if (rc != SL_ENOMEM || !gpu.wanted || gpu.real->space(&free_bytes, &total_bytes) < 0 ||
        gpu.real->usage(&used_bytes, &all_bytes) < 0)
        return rc;
    if (gpu.budget_bytes)
        snprintf(budget, sizeof budget, " of the %.1f MiB of --gpu-memory", mib(gpu.budget_bytes));
    return sl_fail(SL_ENOMEM,
                   "GPU %" PRIu32 " has no room for this model's work: %.2f MiB more were wanted, "
                   "%.1f are left%s, and %.1f of the GPU's %.1f MiB are free: give more with "
                   "--gpu-memory, end what else uses the GPU ('nvidia-smi' lists it), or take "
                   "--device cpu",
                   gpu.index, mib(gpu.wanted), mib(free_bytes), budget, mib(all_bytes - used_bytes),
                   mib(all_bytes));
}
