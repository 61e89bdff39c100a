/*
 * compute.h - opens the device of a trainer, with the operations on its memory.
 *
 * A CPU device is this process's own memory and the cpu back end. A GPU comes with the plug-in
 * (common/device/plugin.h), which is opened here and nowhere else in a trainer.
 */
#ifndef SL_TRAINER_FEED_COMPUTE_H
#define SL_TRAINER_FEED_COMPUTE_H

#include "common/device/device.h"
#include "common/arena/arena.h"
#include "config/config.h"
#include "kernels/kernels.h"

struct sl_compute {
    const struct sl_device *device;
    const struct sl_kernels *kernels; // on the device's memory
};

// Opens the device of a trainer. A GPU gives at most the budget of the configuration. SL_ENOENT,
// SL_EPROTO or SL_EDEVICE with what is missing and what there is (plugin.h); closed by the
// process's end.
int sl_compute_open(const struct sl_device_config *config, struct sl_compute *out);

// Takes the cores that the seat of a trainer on that device was given since *seen (seat.h), for the
// calling thread and those that its operations run on.
int sl_compute_follow_cores(const struct sl_arena *arena, uint32_t device, uint32_t *seen);

// The operations on this process's own memory, for what a trainer does there whatever its device
// is: those of the device where that is the same.
static inline const struct sl_kernels *sl_compute_on_host(const struct sl_compute *c)
{
    return c->device->is_host ? c->kernels : sl_kernels_cpu();
}

#endif
