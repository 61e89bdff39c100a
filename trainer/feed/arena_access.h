/*
 * arena_access.h - pins the parts of the arena that are copied to and from a GPU, where that works.
 *
 * Blocks leave the arena for the device, and parameters and gradients go both ways, many times a
 * second. Copies of pinned memory go over the bus at its full speed and without the processor;
 * others work too, and are slower. What is pinned is what is copied: the parameter store's arrays,
 * the probe block and the payload, and not the activations of all vertices.
 */
#ifndef SL_TRAINER_FEED_ARENA_ACCESS_H
#define SL_TRAINER_FEED_ARENA_ACCESS_H

#include "common/device/device.h"
#include "common/arena/arena.h"

enum { SL_ARENA_ACCESS_PARTS = 2 };

struct sl_arena_access {
    const struct sl_device *device;
    void *part[SL_ARENA_ACCESS_PARTS]; // what is pinned; NULL: is not
};

// Never an error: what cannot be pinned is copied more slowly, and the log says so once.
void sl_arena_access_open(struct sl_arena_access *access, const struct sl_device *device,
                          const struct sl_arena *arena);
// Before the arena is detached. Safe on a zeroed struct.
void sl_arena_access_close(struct sl_arena_access *access);

#endif
