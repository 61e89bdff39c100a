/*
 * stalls.h - workers that live but hang.
 *
 * A worker's threads come round in a second or so, whatever they wait for
 * (common/arena/heartbeat.h). One that has not for the job's stall_seconds hangs: its GPU never
 * answers, the file server that has its data is gone, somebody has stopped it. Others may wait for
 * its batch for ever. It is killed, and then it is a death like any other: other workers get its
 * batches and it is replaced.
 *
 * A worker that is not ready yet loads, which takes what it takes and has no pulse; but it has
 * SL_WORKER_START_SECONDS for all of it, whatever stall_seconds says. (While the job starts, the
 * same bound is the job's: startup.c.)
 *
 * Time counts in looks: of what lies between two of them at most a second. A machine that slept, or
 * a job that was stopped as a whole, has not hung.
 */
#ifndef SL_BROKER_WORKERS_STALLS_H
#define SL_BROKER_WORKERS_STALLS_H

#include <stdint.h>

struct sl_arena;
struct sl_config;
struct sl_worker_pool;
struct sl_joblog;
struct sl_pool_worker;
struct sl_timeline;

struct sl_stalls {
    // borrowed
    const struct sl_config *config;
    const struct sl_arena *arena;
    struct sl_worker_pool *workers;
    struct sl_joblog *log;
    struct sl_timeline *timeline;

    struct sl_stall *of;    // (workers) owned
    uint32_t least_seconds; // less does not count
    uint64_t looked_ns;
};

int sl_stalls_init(struct sl_stalls *s);  // the worker pool is there. SL_ENOMEM
void sl_stalls_fini(struct sl_stalls *s); // safe on a zeroed struct

// Kills workers that have not moved for the job's stall_seconds, or do not get ready: about once a
// second while the job runs.
void sl_stalls_poll(struct sl_stalls *s);

// Why the process that the worker has, or had last, was killed for it, as a cause of death; NULL:
// it was not.
const char *sl_stalls_verdict(const struct sl_stalls *s, const struct sl_pool_worker *w);

#endif
