// device.c - a worker's first step: the job that the broker gave it, and the cores of its device.
#include "config/config.h"

#include "common/base/error.h"
#include "common/device/cores.h"

// A GPU's device whose cores nobody has named: those that there are, as many as a device can have.
static int take_any_cores(struct sl_device_config *device)
{
    struct sl_cores allowed;
    SL_TRY(sl_cores_allowed(&allowed));
    device->n_cores = sl_cores_list(&allowed, device->cores, SL_CONFIG_MAX_CORES);
    return SL_OK;
}

int sl_config_take_device(const char *text, size_t length, uint32_t device, const char *who,
                          struct sl_config *out)
{
    SL_TRY(sl_config_parse(text, length, "job from the broker", out));
    if (device >= out->n_devices)
        return sl_fail(SL_EINVAL, "%s: device %u of a job with %u", who, device, out->n_devices);
    if (out->devices[device].n_cores == 0)
        SL_TRY(take_any_cores(&out->devices[device]));
    return sl_device_pin(out->devices[device].cores, out->devices[device].n_cores);
}
