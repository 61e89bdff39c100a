/*
 * loop.h - the sampler's work: claim a batch, draw it into the arena, publish it.
 *
 * The lease, the payload memory and the block belong to this process until it publishes; killed
 * anywhere before, the broker takes all three back and somebody draws the same block again.
 */
#ifndef SL_SAMPLER_LOOP_H
#define SL_SAMPLER_LOOP_H

#include "common/ipc/stats.h"
#include "sampler/plan.h"

struct sl_sampler {
    struct sl_arena *arena;
    uint32_t worker; // id
    const struct sl_config *config;
    struct sl_drawer *drawer;
    struct sl_worker_slot *stats; // or NULL
    const _Atomic bool *stop;     // or NULL
    uint64_t guess_bytes;         // payload memory to ask for first
    struct sl_worker_figures figures;
};

// Works until the job stops: SL_OK. Any other error ends the job.
int sl_sampler_run(struct sl_sampler *s);

#endif
