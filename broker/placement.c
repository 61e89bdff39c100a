#include "broker/placement.h"

#include <stdio.h>

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

char *sl_placement_device_text(const struct sl_config *config, uint32_t device, char *buf,
                               size_t bytes)
{
    const struct sl_device_config *d = &config->devices[device];
    int at = snprintf(buf, bytes, "%s %u: core%s ", sl_device_kind_name(d->kind), device,
                      d->n_cores == 1 ? "" : "s");
    for (uint32_t i = 0; i < d->n_cores && at > 0 && (size_t)at < bytes; i++) {
        // A run of neighbours is written as its ends.
        uint32_t last = i;
        while (last + 1 < d->n_cores && d->cores[last + 1] == d->cores[last] + 1)
            last++;
        const char *comma = i ? "," : "";
        if (last > i)
            at += snprintf(buf + at, bytes - (size_t)at, "%s%u-%u", comma, d->cores[i],
                           d->cores[last]);
        else
            at += snprintf(buf + at, bytes - (size_t)at, "%s%u", comma, d->cores[i]);
        i = last;
    }
    return buf;
}

char *sl_placement_reason(const struct sl_config *config, char *buf, size_t bytes)
{
    bool sa = config->allocation.samplers_auto, ta = config->allocation.trainers_auto;
    if (!sa && !ta)
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
