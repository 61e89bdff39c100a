/*
 * worker_pool.h - the workers of a job: started, watched, replaced.
 *
 * PROBLEM. A worker may die at any instruction, by any signal. The job must learn of it at once,
 * must know that the worker is dead and not merely slow before it gives its batches to another one,
 * and must say afterwards who died, how, and over what. A worker that cannot live must not be
 * started for ever.
 *
 * DESIGN. A *worker* is a place in the pool ("sampler 0 on device 0"), one for each seat of the
 * arena (common/arena/seat.h), whether it is wanted or not; the *process* that fills it comes and
 * goes, each with a fresh worker id. A process is watched through its pidfd; libuv's own
 * SIGCHLD handling, which reaps it, is a second witness, and whichever comes first counts. Its
 * standard error is a pipe that is read until the end before the death is told.
 *
 * A dead worker is started again after a back-off of 50 ms that doubles to 5 s. Whoever completed
 * work starts the count anew; SL_WORKER_DEATHS_MAX deaths without any work in between are hopeless.
 * The verdict falls when the back-off ends, not at the death: a message in which the worker says
 * why it failed may still be under way, and it explains more than an exit status does.
 *
 * A seat of an external trainer is filled by nobody here: a process of the user's comes and goes
 * (common/bus/attach_protocol.h). It is watched by its pidfd like the others and its leases go back
 * like theirs, but it is neither started, nor replaced, nor killed.
 *
 * Who is no longer wanted is asked to leave (by the caller, who knows the messages), be it one
 * worker or, when the job ends, all of them. A process that has not come out of its work within
 * SL_WORKER_LEAVE_MS (SL_WORKER_STOP_MS where the job ends) is killed. One that has gets
 * SL_WORKER_EXIT_MS more for its exit, where a sanitizer looks for leaks and a profiler writes.
 *
 * Workers get a session of their own, so the terminal's Ctrl-C is the broker's business alone.
 */
#ifndef SL_BROKER_WORKERS_WORKER_POOL_H
#define SL_BROKER_WORKERS_WORKER_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "broker/workers/exit_status.h"
#include "broker/log/stream.h"
#include "broker/placement/placement.h"
#include "common/bus/attach_protocol.h"
#include "common/bus/bus.h"
#include "common/bus/worker.h"

enum {
    SL_WORKER_BACKOFF_MS = 50,
    SL_WORKER_BACKOFF_MAX_MS = 5000,
    SL_WORKER_DEATHS_MAX = 5,
    SL_WORKER_LEAVE_MS = 10000, // for a worker to finish or return the batch in hand
    SL_WORKER_STOP_MS = 5000, // to come out of its work when the job ends, whatever it has in hand
    SL_WORKER_EXIT_MS = 60000,
};

struct sl_pool_process; // private

struct sl_pool_worker {
    enum sl_role role;
    uint32_t role_index; // "sampler 0"
    uint32_t device;     // index into the configuration's devices
    uint32_t slot;       // seat, and slot of the arena's statistics
    char name[32];       // "sampler 0"
    bool external; // never started: an external trainer sits down (external_desk.h), or nobody
    bool wanted;   // it is kept filled
    bool leaving;  // it is not: its process has been told to go, ...
    uint64_t leaving_ns; // ... then
    bool dismissed;      // killed by us, since it had not begun, did not leave or all stop

    // the process that fills it, or filled it last
    uint32_t worker; // id
    pid_t pid;
    bool alive;
    bool greeted;      // said Hello, `peer` is its address
    bool attached;     // has been told of the arena
    bool ready;        // said so
    uint64_t since_ns; // it was started
    struct sl_bus_peer peer;

    uint32_t starts;
    uint32_t deaths_in_row; // without any work in between
    uint32_t backoff_ms;    // before the replacement that is due
    uint32_t patience_ms;   // it was given to leave when all were stopped
    uint64_t lived_ns;      // processes before the one that is alive
    uint64_t peak_rss_bytes;
    struct sl_stream log;

    struct sl_worker_pool *workers;
    struct sl_pool_process *process; // NULL when none runs
    uv_timer_t respawn; // the replacement, the end of the time to leave, or the word that it left
};

// Its process has said that it is ready, and is to stay.
static inline bool sl_pool_worker_is_ready(const struct sl_pool_worker *w)
{
    return (w->wanted || w->external) && w->alive && w->ready && !w->leaving;
}

struct sl_worker_pool_events {
    // A process is dead and its last words are read. True when it had completed work.
    bool (*on_death)(void *ctx, struct sl_pool_worker *w, const struct sl_exit_status *death);
    // The process of a worker that is not wanted any more has ended.
    void (*on_left)(void *ctx, struct sl_pool_worker *w);
    // The worker died too often, or cannot even be started; `why` says how it went.
    void (*on_give_up)(void *ctx, struct sl_pool_worker *w, const char *why);
    void (*on_line)(void *ctx, struct sl_pool_worker *w, int level, const char *text);
    // Whether the process has come out of its work and is about to exit.
    bool (*has_left)(void *ctx, const struct sl_pool_worker *w);
    // After sl_worker_pool_stop(): no process is left.
    void (*on_gone)(void *ctx);
};

struct sl_worker_pool_setup {
    uv_loop_t *loop;
    char directory[4096];                                  // of the worker programs
    const char *endpoint;                                  // borrowed
    int arena_fd, config_fd, doorbell_fd, acts_fd, key_fd; // borrowed
    int shared_fd[SL_SHARED_COUNT];                        // borrowed
    int keep_fd; // inherited under its number, and by these workers alone; 0: none. Borrowed
    struct sl_worker_pool_events events;
    void *ctx;
};

struct sl_worker_pool {
    struct sl_worker_pool_setup setup;
    uint32_t n;
    struct sl_pool_worker *list; // (n) owned
    uint32_t next_worker;
    uint64_t oom_kills; // seen so far
    bool stopping;
    uint64_t stopping_ns; // since then
    uint32_t patience_ms; // with those who work
    uv_timer_t patience;  // looks for workers that do not leave
};

// Directory of this program, where the workers' programs stand too. SL_ESYS.
int sl_worker_pool_own_directory(char *out, size_t bytes);

int sl_worker_pool_init(struct sl_worker_pool *workers, const struct sl_worker_pool_setup *setup,
                        uint32_t n_workers);

// Describes worker `slot`; before sl_worker_pool_start().
void sl_worker_pool_place(struct sl_worker_pool *workers, uint32_t slot, enum sl_role role,
                          uint32_t role_index, uint32_t device);

// Describes the only worker of a pool: the link of a job over several nodes. It is started once,
// with the last of the ids, which no other worker of the job gets.
void sl_worker_pool_place_link(struct sl_worker_pool *workers);

// Makes it a seat for external trainers; likewise before.
void sl_worker_pool_lend(struct sl_worker_pool *workers, uint32_t slot);
/*
 * An external trainer takes the seat, which is free: it gets its numbers and descriptors, and is
 * watched from here on. It leaves by saying so or by dying, which is a death like any other, and is
 * never killed. On success the peer's descriptors are the pool's.
 */
int sl_pool_worker_seat(struct sl_pool_worker *w, struct sl_attach_peer *peer);
// The job ends: tells those who have attached why, and lets go of them.
void sl_worker_pool_dismiss_external(struct sl_worker_pool *workers, const char *why);

// Wants the worker from now on; starts its process unless one runs. One that is leaving is followed
// by another. An error is that of the start; the worker is then not wanted.
int sl_pool_worker_want(struct sl_pool_worker *w);

// After an error of sl_pool_worker_want(): the worker is wanted all the same, and the start that
// failed counts as a death.
void sl_pool_worker_want_later(struct sl_pool_worker *w);

// Does not want the worker any more. Its process, if it has one, is given time to leave; one that
// is not attached yet is killed at once. on_left comes from the loop.
void sl_pool_worker_release(struct sl_pool_worker *w);

// Kills the worker's process, which is then a death like any other.
void sl_pool_worker_kill(struct sl_pool_worker *w);

// No replacements from now on. Whoever is not attached is killed at once, all others when they have
// not come out of their work after patience_ms (0: at once, wherever they are). on_gone comes from
// the loop, also when nobody was there.
void sl_worker_pool_stop(struct sl_worker_pool *workers, uint32_t patience_ms);

// The worker that a process with this id fills or filled last; NULL for an unknown one.
struct sl_pool_worker *sl_worker_pool_by_id(struct sl_worker_pool *workers, uint32_t worker);
struct sl_pool_worker *sl_worker_pool_by_peer(struct sl_worker_pool *workers,
                                              const struct sl_bus_peer *peer);

// For how long processes of a role have lived by now, all together.
double sl_worker_pool_lived_seconds(const struct sl_worker_pool *workers, enum sl_role role);

// Closes the timers; the loop must run once more before sl_worker_pool_fini().
void sl_worker_pool_close(struct sl_worker_pool *workers);
void sl_worker_pool_fini(struct sl_worker_pool *workers); // safe on a zeroed struct

#endif
