#include "broker/placement/placement.h"

#include <stdio.h>

#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/device/cores.h"

const char *sl_role_name(enum sl_role role)
{
    static const char *const names[] = {
        [SL_ROLE_SAMPLER] = "sampler", [SL_ROLE_TRAINER] = "trainer", [SL_ROLE_LINK] = "link"};
    return names[role];
}

uint64_t sl_placement_batches(struct sl_roles split)
{
    return 2 * (uint64_t)SL_MAX(split.trainers, 1u) + split.samplers + 1;
}

enum sl_duty sl_placement_duty(struct sl_roles split, uint32_t n_devices, bool switching,
                               enum sl_role role, uint32_t device)
{
    bool samples = device < split.samplers;
    if (role == SL_ROLE_SAMPLER)
        return samples ? SL_DUTY_WORK : SL_DUTY_NONE;
    if (device >= n_devices - split.trainers)
        return SL_DUTY_WORK;
    return samples && switching ? SL_DUTY_STANDBY : SL_DUTY_NONE;
}

uint32_t sl_placement_role_index(uint32_t n_devices, enum sl_role role, uint32_t device)
{
    return role == SL_ROLE_SAMPLER ? device : n_devices - 1 - device;
}

bool sl_placement_switches(const struct sl_config *config, uint32_t device)
{
    const struct sl_device_config *last = &config->devices[SL_MAX(config->n_devices, 1u) - 1];
    return config->allocation.switching && !sl_config_is_pool(config) &&
           config->devices[device].kind == last->kind;
}

char *sl_placement_device_name(const struct sl_config *config, uint32_t shown, char *buf,
                               size_t bytes)
{
    if (sl_config_is_pool(config))
        snprintf(buf, bytes, "pool");
    else
        snprintf(buf, bytes, "%s %u", sl_device_kind_name(config->devices[shown].kind), shown);
    return buf;
}

void sl_placement_device_cores(const struct sl_config *config, uint32_t shown, struct sl_cores *out)
{
    const struct sl_device_config *d = &config->devices[shown];
    *out = (struct sl_cores){0};
    for (uint32_t i = 0; i < d->n_cores; i++)
        sl_cores_add(out, d->cores[i]);
    if (sl_config_is_pool(config))
        sl_config_cores(config, out);
}

char *sl_placement_device_text(const struct sl_config *config, uint32_t shown, char *buf,
                               size_t bytes)
{
    const struct sl_device_config *d = &config->devices[shown];
    struct sl_cores set;
    char cores[8 * SL_CONFIG_MAX_CORES], name[64], gpu[96] = "";
    sl_placement_device_cores(config, shown, &set);
    sl_cores_format(&set, cores, sizeof cores);
    if (d->kind == SL_DEVICE_CUDA) {
        size_t n = (size_t)snprintf(gpu, sizeof gpu, "GPU %u, ", d->index);
        if (d->memory_bytes)
            snprintf(gpu + n, sizeof gpu - n, "at most %.4g GiB, ",
                     (double)d->memory_bytes / (double)(1u << 30));
    }
    snprintf(buf, bytes, "%s: %s%s%s %s",
             sl_placement_device_name(config, shown, name, sizeof name), gpu, *gpu ? "host " : "",
             sl_cores_count(&set) == 1 ? "core" : "cores", cores);
    return buf;
}

// Whether the samplers are all the CPU devices, which come first, and the trainers all the GPUs.
static bool splits_by_kind(const struct sl_config *config)
{
    uint32_t samplers = config->allocation.samplers, n = config->n_devices;
    for (uint32_t d = 0; d < n; d++)
        if (config->devices[d].kind != (d < samplers ? SL_DEVICE_CPU : SL_DEVICE_CUDA))
            return false;
    return samplers > 0 && samplers < n && samplers + config->allocation.trainers == n;
}

char *sl_placement_reason(const struct sl_config *config, char *buf, size_t bytes)
{
    bool sa = config->allocation.samplers_auto, ta = config->allocation.trainers_auto;
    struct sl_cores cores;
    sl_config_cores(config, &cores);
    if (sl_config_is_external(config))
        snprintf(buf, bytes, "%s: trainers are programs that attach",
                 config->allocation.by_cores ? "a sampler for four cores" : "as the job file says");
    else if ((sa || ta) && sl_config_is_pool(config))
        snprintf(buf, bytes, "auto: decided by what the first batches take on %s",
                 SL_PLURAL(sl_cores_count(&cores), "core"));
    else if (!sa && !ta && splits_by_kind(config))
        snprintf(buf, bytes, "the CPU devices sample and the GPUs train");
    else if (!sa && !ta)
        snprintf(buf, bytes, "fixed by the job file");
    else if (config->n_devices == 1)
        snprintf(buf, bytes, "one device: it samples an epoch, then its standby trainer trains it");
    else if (sa && ta)
        snprintf(buf, bytes, "auto: a first guess, decided by what the first batches take");
    else
        snprintf(buf, bytes, "%s fixed by the job file, the others of the %u devices %s",
                 sa ? "trainers" : "samplers", config->n_devices, sa ? "sample" : "train");
    return buf;
}
