/*
 * gpus.c - a job and the GPUs of a machine.
 *
 * PROBLEM. What GPUs there are is known to a process that has opened CUDA's driver; reading a job
 * must not start one, since jobs are read by every worker, by the daemon and by tests. So a job is
 * read first, with "auto" as the CPU cores, and whoever is about to run it brings it together with
 * what `sluice-trainer --devices` found. The result, and the config.json of a run, names every
 * device: workers see no "auto".
 *
 * MEMORY. A device's budget is what its sampler and its trainer may take together. One that names
 * no memory gets an equal part of what its GPU has free beside the budgets that are named. Each
 * process on a GPU also takes memory that no budget counts: the CUDA context, its kernels and the
 * libraries' work space. So that this fits, CONTEXT_BYTES are left for each process that a device
 * may have at the same time, its sampler and its trainer, and as much for NCCL's buffers on each
 * GPU of a job whose trainers sum by it; but never more than a quarter of what is free.
 *
 * CORES. A GPU's device that names none gets those near its GPU, which the driver knows by bus and
 * node; without any of them in this process's affinity it gets all that the process may use.
 */
#include "config/parse_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/device/cores.h"
#include "common/device/plugin.h"
#include "common/text/units.h"

enum { PROCESSES_OF_DEVICE = 2, CONTEXT_SHARE = 4 };

#define CONTEXT_BYTES (UINT64_C(512) << 20)

uint32_t sl_config_gpus(const struct sl_config *c)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < c->n_devices; d++)
        n += c->devices[d].kind == SL_DEVICE_CUDA;
    return n;
}

bool sl_config_asks_for_gpus(const struct sl_config *config)
{
    if (config->devices_auto)
        return !config->devices_cpu;
    return sl_config_gpus(config) > 0;
}

char *sl_config_gpus_text(const struct sl_gpu_report *report, char out[SL_CONFIG_GPUS_TEXT])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < report->n && n < SL_CONFIG_GPUS_TEXT; i++)
        n += (size_t)snprintf(out + n, SL_CONFIG_GPUS_TEXT - n, "%sGPU %u (%s, %.1f GiB)",
                              i ? ", " : "", i, report->gpu[i].name,
                              (double)report->gpu[i].total_bytes / (double)(1u << 30));
    if (report->n == 0)
        snprintf(out, SL_CONFIG_GPUS_TEXT, "none: %s",
                 report->problem[0] ? report->problem : "CUDA reports no GPU");
    return out;
}

uint64_t sl_config_gpu_room(const struct sl_gpu *gpu, uint32_t processes)
{
    uint64_t free_bytes = gpu->free_bytes ? gpu->free_bytes : gpu->total_bytes;
    return free_bytes - SL_MIN(processes * CONTEXT_BYTES, free_bytes / CONTEXT_SHARE);
}

static void take_auto(const struct sl_gpu_report *report, struct sl_config *c)
{
    memset(c->devices, 0, sizeof c->devices);
    c->allocation.cores = SL_CORES_FIXED;
    c->allocation.samplers_auto |= c->allocation.by_cores;
    c->n_devices = SL_MIN(report->n, (uint32_t)SL_CONFIG_MAX_DEVICES);
    for (uint32_t i = 0; i < c->n_devices; i++)
        c->devices[i] = (struct sl_device_config){.kind = SL_DEVICE_CUDA, .index = i};
}

static int check_indices(const struct sl_parse *p, const struct sl_gpu_report *report)
{
    const struct sl_config *c = p->out;
    for (uint32_t d = 0; d < c->n_devices; d++) {
        char path[SL_KEY_PATH_BYTES], list[SL_CONFIG_GPUS_TEXT];
        if (c->devices[d].kind != SL_DEVICE_CUDA || c->devices[d].index < report->n)
            continue;
        snprintf(path, sizeof path, "devices[%u].index", d);
        return sl_parse_fail(p, path,
                             "found GPU %u, wanted one of those that this machine offers: %s. "
                             "'sluice doctor' tells more; --set devices=cpu trains without GPUs",
                             c->devices[d].index, sl_config_gpus_text(report, list));
    }
    return SL_OK;
}

// "auto" without GPUs is the cores, which is no answer to a job that wants its GPUs to sum.
static int check_exchange_without(const struct sl_parse *p, const struct sl_gpu_report *report)
{
    char list[SL_CONFIG_GPUS_TEXT];
    if (p->out->updates.exchange != SL_EXCHANGE_NCCL)
        return SL_OK;
    return sl_parse_fail(p, "updates.exchange",
                         "found \"nccl\", wanted GPUs for the trainers; this machine offers %s: "
                         "'sluice doctor' tells more; take \"board\" to train without GPUs",
                         sl_config_gpus_text(report, list));
}

static int compare_cores(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

static bool wants_cores(const struct sl_device_config *device)
{
    return device->kind == SL_DEVICE_CUDA && device->n_cores == 0;
}

// The cores near the device's GPU that this process may use; where that is none, or not known, all.
static struct sl_cores near_cores(const struct sl_gpu_report *report,
                                  const struct sl_device_config *device,
                                  const struct sl_cores *allowed)
{
    struct sl_cores near = {0};
    const char *text = report->gpu[device->index].cores;
    if (!*text || sl_cores_parse(text, &near) < 0)
        near = *allowed;
    for (size_t i = 0; i < SL_COUNT_OF(near.bits); i++)
        near.bits[i] &= allowed->bits[i];
    return sl_cores_count(&near) ? near : *allowed;
}

/*
 * Devices that are near the same cores get equal parts of them, one after the other: each worker
 * has as many threads as its device has cores, and eight GPUs with all cores each would have them
 * wait for one another. None gets fewer than two, where there are two.
 */
static int give_cores(const struct sl_gpu_report *report, struct sl_config *c)
{
    struct sl_cores allowed, near[SL_CONFIG_MAX_DEVICES];
    bool wants[SL_CONFIG_MAX_DEVICES];
    SL_TRY(sl_cores_allowed(&allowed));
    for (uint32_t d = 0; d < c->n_devices; d++) {
        wants[d] = wants_cores(&c->devices[d]);
        if (wants[d])
            near[d] = near_cores(report, &c->devices[d], &allowed);
    }
    for (uint32_t d = 0; d < c->n_devices; d++) {
        struct sl_device_config *device = &c->devices[d];
        uint32_t sharers = 0, before = 0;
        uint16_t list[SL_CORES_MAX];
        if (!wants[d])
            continue;
        for (uint32_t other = 0; other < c->n_devices; other++) {
            bool shares = wants[other] && memcmp(&near[other], &near[d], sizeof near[d]) == 0;
            sharers += shares;
            before += shares && other < d;
        }
        uint32_t n = sl_cores_list(&near[d], list, SL_CORES_MAX);
        uint32_t part = SL_MAX(n / sharers, SL_MIN(n, 2u));
        device->n_cores = SL_MIN(part, (uint32_t)SL_CONFIG_MAX_CORES);
        for (uint32_t i = 0; i < device->n_cores; i++)
            device->cores[i] = list[(before * part + i) % n];
        qsort(device->cores, device->n_cores, sizeof *device->cores, compare_cores);
    }
    return SL_OK;
}

// What is spent on one GPU by the devices that name it.
struct spending {
    uint32_t devices, open; // how many, and how many of them name no memory
    uint64_t named;
};

static struct spending spending_on(const struct sl_config *c, uint32_t index)
{
    struct spending s = {0};
    for (uint32_t d = 0; d < c->n_devices; d++) {
        if (c->devices[d].kind != SL_DEVICE_CUDA || c->devices[d].index != index)
            continue;
        s.devices++;
        s.open += c->devices[d].memory_bytes == 0;
        s.named += c->devices[d].memory_bytes;
    }
    return s;
}

static int fail_memory(const struct sl_parse *p, uint32_t device, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_memory(const struct sl_parse *p, uint32_t device, const char *fmt, ...)
{
    char path[SL_KEY_PATH_BYTES], why[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    snprintf(path, sizeof path, "devices[%u].memory", device);
    return sl_parse_fail(p, path, "%s", why);
}

// Budgets that no GPU has. What is free may change; what there is in all does not.
static int check_budgets(const struct sl_parse *p, const struct sl_gpu_report *report)
{
    const struct sl_config *c = p->out;
    for (uint32_t d = 0; d < c->n_devices; d++) {
        if (c->devices[d].kind != SL_DEVICE_CUDA || c->devices[d].memory_bytes == 0)
            continue;
        uint32_t index = c->devices[d].index;
        const struct sl_gpu *gpu = &report->gpu[index];
        struct spending s = spending_on(c, index);
        char found[SL_UNITS_BYTES], total[SL_UNITS_BYTES], all[SL_UNITS_BYTES];
        sl_units_size(found, c->devices[d].memory_bytes);
        sl_units_size(total, gpu->total_bytes);
        sl_units_size(all, s.named);
        if (gpu->total_bytes && s.devices == 1 && s.named > gpu->total_bytes)
            return fail_memory(p, d,
                               "found %s, wanted at most %s, which is what GPU %u (%s) has: lower "
                               "it, or leave it out for what is free",
                               found, total, index, gpu->name);
        if (gpu->total_bytes && s.named > gpu->total_bytes)
            return fail_memory(p, d,
                               "found %s, and with it %s on the %u devices of GPU %u (%s), wanted "
                               "at most %s together: lower them, or leave them out for equal parts "
                               "of what is free",
                               found, all, s.devices, index, gpu->name, total);
    }
    return SL_OK;
}

static int give_budgets(const struct sl_parse *p, const struct sl_gpu_report *report)
{
    struct sl_config *c = p->out;
    uint64_t part[SL_PLUGIN_DEVICES_MAX] = {0};
    for (uint32_t d = 0; d < c->n_devices; d++) {
        struct sl_device_config *device = &c->devices[d];
        if (device->kind != SL_DEVICE_CUDA || device->memory_bytes != 0)
            continue;
        const struct sl_gpu *gpu = &report->gpu[device->index];
        if (part[device->index] == 0) { // before the first of them has its part
            struct spending s = spending_on(c, device->index);
            uint64_t free_bytes = gpu->free_bytes ? gpu->free_bytes : gpu->total_bytes;
            uint32_t nccl = c->updates.exchange == SL_EXCHANGE_NCCL; // for one trainer a GPU
            uint64_t usable = sl_config_gpu_room(gpu, s.devices * PROCESSES_OF_DEVICE + nccl);
            uint64_t left = usable - SL_MIN(s.named, usable);
            part[device->index] = left / s.open >> 20 << 20; // in whole MiB
            if (part[device->index] == 0) {
                char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
                sl_units_size(a, free_bytes);
                sl_units_size(b, s.named);
                return fail_memory(p, d,
                                   "not given, and nothing is left for it: GPU %u (%s) has %s free "
                                   "and %s of it are named by other devices: lower those, or end "
                                   "what uses the GPU ('nvidia-smi' lists it)",
                                   device->index, gpu->name, a, s.named ? b : "none");
            }
        }
        device->memory_bytes = part[device->index];
    }
    return SL_OK;
}

int sl_config_use_gpus(struct sl_config *config, const struct sl_gpu_report *report, bool budgets,
                       const char *origin)
{
    const struct sl_parse p = {.origin = origin, .out = config};
    if (!sl_config_asks_for_gpus(config))
        return SL_OK;
    if (config->devices_auto) {
        if (report->n == 0) {
            // What is of GPUs alone; the resolved text, which lists cores, would be refused for it.
            config->store.placement = SL_STORE_AUTO;
            config->store.prefer = SL_PREFER_AUTO;
            config->store.feature_ratio_auto = true;
            config->store.feature_ratio = 0;
            config->store.graph_ratio_auto = true;
            config->store.graph_ratio = 0;
            return check_exchange_without(&p, report);
        }
        take_auto(report, config);
        SL_TRY(sl_parse_resolve_roles(&p));
    }
    SL_TRY(sl_parse_check_learned(&p));
    SL_TRY(check_indices(&p, report));
    SL_TRY(sl_parse_check_exchange(&p));
    SL_TRY(check_budgets(&p, report));
    SL_TRY(give_cores(report, config));
    return budgets ? give_budgets(&p, report) : SL_OK;
}
