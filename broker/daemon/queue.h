/*
 * queue.h - who may start next: first come, first served, for each core by itself.
 *
 * A job that waits may start when every core that it names is free and no job that waits longer
 * wants one of them. So jobs on disjoint cores run side by side, a job that wants many cores is
 * never overtaken on one of them by smaller ones, and no job waits for a core that it does not
 * name. GPUs are given out in the same way, each as a whole.
 *
 * Pure functions over a list: the caller asks again after each change of the list.
 */
#ifndef SL_BROKER_DAEMON_QUEUE_H
#define SL_BROKER_DAEMON_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/cores.h"

enum sl_queue_part {
    SL_QUEUE_NO_PART, // it is over
    SL_QUEUE_WAITS,
    SL_QUEUE_HOLDS, // it has its cores
};

struct sl_queue_item {
    const struct sl_cores *cores; // borrowed
    const struct sl_cores *gpus;  // borrowed: their numbers, a set as one of cores; NULL: none
    enum sl_queue_part part;
    int64_t order; // of those that wait: the smallest one was there first
};

// What item i, which waits, waits for.
struct sl_queue_view {
    bool may_start;
    uint32_t position; // among those that wait, from 1
    bool gpu;          // what it cannot have (unless may_start) is a GPU, else a core: ...
    uint32_t core;     // ... the number of that ...
    uint32_t by;       // ... and the item that has it, or waits for it longer
};

void sl_queue_look(const struct sl_queue_item *items, uint32_t n, uint32_t i,
                   struct sl_queue_view *out);

// The item to start now: of those that may start the one that waits longest. False when none may.
bool sl_queue_next(const struct sl_queue_item *items, uint32_t n, uint32_t *out);

// The cores that nobody has.
void sl_queue_free(const struct sl_queue_item *items, uint32_t n, const struct sl_cores *all,
                   struct sl_cores *out);

#endif
