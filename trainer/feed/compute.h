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

#include <stddef.h>

struct sl_compute {
    const struct sl_device *device;
    const struct sl_kernels *kernels; // on the device's memory
    // On this process's own memory: those of the device where that is the same. Whoever opens the
    // device names them, so that a program which only moves rows is not linked with what computes.
    const struct sl_kernels *host;
};

// Opens the device of a trainer. A GPU gives at most the budget of the configuration. SL_ENOENT,
// SL_EPROTO or SL_EDEVICE with what is missing and what there is (plugin.h); closed by the
// process's end.
int sl_compute_open(const struct sl_device_config *config, struct sl_compute *out);

// Takes the cores that the seat of a trainer on that device was given since *seen (seat.h), for the
// calling thread and those that its operations run on.
int sl_compute_follow_cores(const struct sl_arena *arena, uint32_t device, uint32_t *seen);

// --- buffer --------------------------------------------------------------------------------------

/*
 * A piece of memory that grows to the largest batch met and then stays.
 *
 * On the device, or on the host for copies to it (pinned). What was there is lost when it grows.
 */
enum sl_buffer_place { SL_BUFFER_DEVICE, SL_BUFFER_HOST };

struct sl_buffer {
    void *p; // NULL before the first batch
    size_t bytes;
    const struct sl_device *device;
    enum sl_buffer_place place;
};

// At least `bytes` there, and an eighth more where it has to grow: batches of one job differ by a
// few per cent. No copy or operation may be using it. SL_ENOMEM; `what` it is for stands in the
// message.
int sl_buffer_grow(struct sl_buffer *room, const struct sl_device *device,
                   enum sl_buffer_place place, size_t bytes, const char *what);
void sl_buffer_fini(struct sl_buffer *room); // safe on a zeroed struct

#endif
