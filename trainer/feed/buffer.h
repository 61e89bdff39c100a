/*
 * buffer.h - a piece of memory that grows to the largest batch met and then stays.
 *
 * On the device, or on the host for copies to it (pinned). What was there is lost when it grows.
 */
#ifndef SL_TRAINER_FEED_BUFFER_H
#define SL_TRAINER_FEED_BUFFER_H

#include <stddef.h>

#include "common/device/device.h"

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
