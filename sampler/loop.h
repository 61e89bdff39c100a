/*
 * loop.h - the sampler's work: claim a batch, draw it into the arena, mark it, publish it. On a GPU
 * one batch is begun before the one before it is finished; they leave in the order of their claims.
 *
 * The lease, the payload memory and the block belong to this process until it publishes; killed
 * anywhere before, the broker takes all three back and somebody draws the same block again.
 *
 * COUNTING. Where the phase asks for it the batch's input nodes are counted
 * (common/arena/visit_counts.h), and its ledger entry remembers that they were: drawn again, it is
 * not counted again. A batch of a PRESAMPLE phase is drawn into private memory, counted, and done.
 *
 * SHARING THE DEVICE with its standby trainer (common/arena/seat.h): while that one is switched on
 * nothing beyond the current phase is drawn; while this one waits for payload memory its seat says
 * BLOCKED, so that the trainer may use the device and free some.
 *
 * Counting and marking together are mark_ns, which is thus what caching costs a sampler: what it
 * takes beyond looking ranks up shows in the epochs that are counted. The index that ranks are
 * looked up in (sampler/mark.h) is made before the first batch that is marked, in no stage of it.
 */
#ifndef SL_SAMPLER_LOOP_H
#define SL_SAMPLER_LOOP_H

#include "common/arena/heartbeat.h"
#include "sampler/mark.h"
#include "sampler/mirror.h"
#include "sampler/plan.h"

struct sl_sampler {
    struct sl_arena *arena;
    uint32_t worker; // id
    uint32_t device;
    const struct sl_config *config;
    struct sl_drawer *drawer;
    struct sl_pair_maker *pairs;  // of a job of links, else NULL
    struct sl_worker_slot *stats; // or NULL
    const _Atomic bool *stop;     // or NULL
    uint64_t guess_bytes;         // payload memory to ask for first
    uint32_t cores_seen;          // version of the cores that it has (seat.h)
    struct sl_worker_totals figures;
    uint64_t looked_at_ns; // when the device was last asked for its memory
    struct sl_marker marker;
    const struct sl_mirror *mirror; // or NULL
    struct sl_inflight *inflight;   // the batches in hand, while it runs
};

// Works until the job stops: SL_OK. Any other error ends the job.
int sl_sampler_run(struct sl_sampler *s);

#endif
