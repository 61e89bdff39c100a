/*
 * timeline.h - what happened to a job and when: splits, switches, deaths, pauses, checkpoints.
 *
 * Each event is one line of JSON, schema sluice.event/1:
 *
 *   {"schema", "time" (Unix seconds), "seconds" (since the job began), "job", "id" (or null),
 *    "kind", "epoch", "samplers", "trainers", "text" (a sentence for people), "ok"}
 *
 *   kind: start, epoch, split (the broker's or the schedule's), scale (the user's), switch (how
 *   often standby trainers were switched on and how many batches they trained; with the end of an
 *   epoch or after ten seconds, and never within ten seconds of the one before, but for the job's
 *   end), death, pause, resume, checkpoint, early_stop, exchange (who sums gradients with whom:
 *   group.c), stall (a worker that hung is killed: stall.c), end
 *
 * Each goes to all clients and, from the moment there is a run directory, to its events.jsonl,
 * where a job that goes on from a checkpoint appends. The newest SL_TIMELINE_MAX are kept for who
 * comes later (describe.c); of a long job switches are forgotten first, since they are what there
 * is most of and what says least.
 */
#ifndef SL_BROKER_TIMELINE_H
#define SL_BROKER_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

enum { SL_TIMELINE_MAX = 2048 };

struct sl_job;
struct sl_json_writer;

struct sl_timeline {
    struct {
        char *line; // owned
        bool minor; // is forgotten first
    } * events;     // (SL_TIMELINE_MAX) oldest first
    uint32_t n;
    uint64_t left_out; // events that are not kept any more

    // of standby trainers
    uint64_t switches_seen[SL_CONFIG_MAX_DEVICES]; // as last seen of each seat
    uint64_t batches_told;                         // that they had trained when it was last told
    uint64_t switches;                             // that have not been told, ...
    uint64_t since_ns;                             // ... the first of them then, ...
    uint32_t since_epoch;                          // ... in this epoch
    uint64_t told_at_ns;
};

int sl_timeline_init(struct sl_timeline *t);
void sl_timeline_fini(struct sl_timeline *t); // safe on a zeroed struct

// Keeps a line, a copy of it. SL_ENOMEM: it is left out.
int sl_timeline_add(struct sl_timeline *t, const char *line, bool minor);

// Of the epoch that is being trained, or comes next.
void sl_job_event(struct sl_job *job, const char *kind, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Of that epoch.
void sl_job_event_of(struct sl_job *job, uint32_t epoch, const char *kind, bool ok, const char *fmt,
                     ...) __attribute__((format(printf, 5, 6)));

// On each tick: counts switches; tells of them when the last time was long ago.
void sl_job_watch_switches(struct sl_job *job);
// An epoch is complete: tells of those in it, if the last time was long ago.
void sl_job_end_switches(struct sl_job *job, uint32_t epoch);
// Tells of what has not been told: the job ends.
void sl_job_tell_switches(struct sl_job *job);

// All that are kept, as a JSON array; at most so many bytes of the newest ones.
void sl_timeline_write(const struct sl_timeline *t, struct sl_json_writer *w, const char *key,
                       size_t bytes_max);

#endif
