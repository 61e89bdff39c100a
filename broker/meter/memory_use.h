// memory_use.h - the memory of a job's processes, as last looked at, and the most there was.
#ifndef SL_BROKER_METER_MEMORY_USE_H
#define SL_BROKER_METER_MEMORY_USE_H

#include <stdint.h>

#include "config/config.h"

struct sl_worker_pool;
struct sl_usage_shared;

struct sl_memory_use {
    uint64_t bytes, peak_bytes; // of all processes together
    uint64_t held_bytes;        // of them what is no page of a file (usage.h)
    uint64_t held_peak_bytes;
    uint64_t private_bytes; // of them what is not shared either
    uint64_t shared_bytes;  // shared memory that there is, touched or not
    uint64_t broker_peak_bytes;
    uint64_t worker_bytes[2 * SL_CONFIG_MAX_DEVICES]; // private memory of each; 0: not there
};

// What is held, with the shared memory that nobody has touched yet.
static inline uint64_t sl_memory_use_promised(const struct sl_memory_use *m)
{
    const uint64_t whole = m->private_bytes + m->shared_bytes;
    return m->held_bytes > whole ? m->held_bytes : whole;
}

// Notes the peak of each worker, too. `shared`: what they share, as it is now.
void sl_memory_use_poll(struct sl_memory_use *m, struct sl_worker_pool *workers,
                        const struct sl_usage_shared *shared);

#endif
