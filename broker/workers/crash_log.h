/*
 * crash_log.h - how workers died last: written to the log and the events, counted, and quoted in
 * the message when a worker is given up.
 */
#ifndef SL_BROKER_WORKERS_CRASH_LOG_H
#define SL_BROKER_WORKERS_CRASH_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "common/schema/report.h"
#include "broker/workers/worker_pool.h"
#include "common/arena/ledger.h"

struct sl_joblog;
struct sl_timeline;

struct sl_worker_death {
    char cause[512];
    uint32_t failed; // the last worker that said why it could not start: the cause is what it said
    char held[96];
    char last_lines[1024];
    uint32_t n; // times that it died and was not told to leave
    // Its last process, while nobody works in its place.
    pid_t missed; // 0: none
    uint64_t missed_ns;
};

struct sl_crash_log {
    uint64_t start_ns; // of the job
    // borrowed
    const struct sl_worker_pool *workers;
    const struct sl_arena *arena; // base is NULL until there is one
    struct sl_joblog *log;
    struct sl_timeline *timeline;
    void (*on_restart)(void *ctx, const struct sl_report_restart *restart); // for the report
    void *ctx;

    struct sl_worker_death *of; // (workers) owned
};

int sl_crash_log_init(struct sl_crash_log *d);  // the worker pool is there. SL_ENOMEM
void sl_crash_log_fini(struct sl_crash_log *d); // safe on a zeroed struct

// How the worker's process died, as far as anybody knows, and what it held: before that is taken
// back. stalled: why it was killed for standing still; NULL: it was not.
void sl_crash_log_explain(struct sl_crash_log *d, const struct sl_pool_worker *w,
                          const struct sl_exit_status *death, const char *stalled);
// Tells of it; `back` is what it held.
void sl_crash_log_emit(struct sl_crash_log *d, const struct sl_pool_worker *w,
                       const struct sl_exit_status *death, const struct sl_reclaimed *back);

// The worker's process is ready: logs which dead process it replaces, if any.
void sl_crash_log_on_ready(struct sl_crash_log *d, const struct sl_pool_worker *w);

// A worker that could not start while the job runs on: it is about to die, or has died just now,
// and that death counts as any other. m: NULL where another one has its place by now.
void sl_crash_log_on_failure(struct sl_crash_log *d, const struct sl_pool_worker *w,
                             const char *message);

// Why a worker is given up: `why`, and how it died. log: its directory; NULL: there is none.
void sl_crash_log_sum_up(const struct sl_crash_log *d, const struct sl_pool_worker *w,
                         const char *why, const char *log, char *out, size_t bytes);

#endif
