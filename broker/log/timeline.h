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
 *   trainer_group.h), stall (a worker that hung is killed: stalls.h), warning (what a job that is
 *   done has to say against itself: learned.h), end
 *
 * Each goes to all clients and, from the moment there is a run directory, to its events.jsonl,
 * where a job that goes on from a checkpoint appends. The newest SL_TIMELINE_MAX are kept for
 * clients that subscribe later (description.c); of a long job switches are forgotten first, since
 * there are most of them and they say least.
 */
#ifndef SL_BROKER_LOG_TIMELINE_H
#define SL_BROKER_LOG_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SL_TIMELINE_MAX = 2048 };

struct sl_clients;
struct sl_json_writer;
struct sl_run_files;

// Where a job is: what each event says beside its text.
struct sl_timeline_place {
    uint32_t epoch; // that is being trained, or comes next
    uint32_t samplers, trainers;
};

// Pointers are borrowed.
struct sl_timeline_setup {
    const char *job, *id; // id: NULL for none
    uint64_t start_ns;
    struct sl_clients *clients;
    const struct sl_run_files *files;
    struct sl_timeline_place (*where)(void *ctx);
    // Each event, before anybody else is told.
    void (*on_event)(void *ctx, const char *kind, const char *text);
    void *ctx;
};

struct sl_timeline {
    struct sl_timeline_setup setup; // set before sl_timeline_init
    struct {
        char *line; // owned
        bool minor; // is forgotten first
    } * events;     // (SL_TIMELINE_MAX) oldest first
    uint32_t n;
    uint64_t left_out; // events that are not kept any more
};

int sl_timeline_init(struct sl_timeline *t);
void sl_timeline_fini(struct sl_timeline *t); // safe on a zeroed struct

// Keeps a line, a copy of it. SL_ENOMEM: it is left out.
int sl_timeline_add(struct sl_timeline *t, const char *line, bool minor);

// Of the epoch that is being trained, or comes next.
void sl_timeline_emit(struct sl_timeline *t, const char *kind, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Of that epoch.
void sl_timeline_emit_of(struct sl_timeline *t, uint32_t epoch, const char *kind, bool ok,
                         const char *fmt, ...) __attribute__((format(printf, 5, 6)));

// All that are kept, as a JSON array; at most so many bytes of the newest ones.
void sl_timeline_write(const struct sl_timeline *t, struct sl_json_writer *w, const char *key,
                       size_t bytes_max);

#endif
