/*
 * switches.h - how often standby trainers were switched on, reported as one event.
 *
 * That may be many times a second, which is nothing to read line by line: switches are counted,
 * with what was trained meanwhile, and told as one event of the timeline.
 */
#ifndef SL_BROKER_EPOCHS_SWITCHES_H
#define SL_BROKER_EPOCHS_SWITCHES_H

#include <stdint.h>

#include "common/arena/arena.h"
#include "config/config.h"

struct sl_timeline;

struct sl_switches {
    const struct sl_arena *arena;         // borrowed; nothing is counted before its base is there
    struct sl_timeline *timeline;         // borrowed
    uint64_t seen[SL_CONFIG_MAX_DEVICES]; // as last seen of each seat
    uint64_t batches_told;                // that they had trained when it was last told
    uint64_t n;                           // that have not been told, ...
    uint64_t since_ns;                    // ... the first of them then, ...
    uint32_t since_epoch;                 // ... in this epoch
    uint64_t told_at_ns;
};

// `epoch` is where training is, `batches` what standby trainers have trained in all.

// On each tick: counts; tells when the last time was long ago.
void sl_switches_watch(struct sl_switches *s, uint32_t epoch, uint64_t batches);
// The epoch is complete: tells of those in it, if the last time was long ago.
void sl_switches_end_epoch(struct sl_switches *s, uint32_t epoch, uint64_t batches);
// Tells of what has not been told: the job ends.
void sl_switches_end(struct sl_switches *s, uint32_t epoch, uint64_t batches);

#endif
