#include "broker/placement.h"

#include <stdio.h>

uint32_t sl_placement_sampler(const struct sl_config *config, uint32_t sampler)
{
    return sampler % config->n_devices;
}

uint32_t sl_placement_trainer(const struct sl_config *config, uint32_t trainer)
{
    return (config->allocation.samplers + trainer) % config->n_devices;
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
    uint32_t s = config->allocation.samplers, t = config->allocation.trainers;
    bool sa = config->allocation.samplers_auto, ta = config->allocation.trainers_auto;
    const char *shared = s + t > config->n_devices ? ", some devices are shared" : "";
    if (!sa && !ta)
        snprintf(buf, bytes, "fixed by the job file%s", shared);
    else if (sa && ta)
        snprintf(buf, bytes,
                 "auto: a quarter of the %u device%s sample%s, at least one; the others train%s",
                 config->n_devices, config->n_devices == 1 ? "" : "s",
                 config->n_devices == 1 ? "s" : "", shared);
    else
        snprintf(buf, bytes, "%s fixed by the job file, %s auto: what the %u device%s leave%s",
                 sa ? "trainers" : "samplers", sa ? "samplers" : "trainers", config->n_devices,
                 config->n_devices == 1 ? "" : "s", shared);
    return buf;
}
