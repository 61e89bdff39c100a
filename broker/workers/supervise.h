/*
 * supervise.h - the workers of a job: started, watched, replaced.
 *
 * PROBLEM. A worker may die at any instruction, by any signal. The job must learn of it at once,
 * must know that the worker is dead and not merely slow before it gives its batches to another one,
 * and must say afterwards who died, how, and over what. A worker that cannot live must not be
 * started for ever.
 *
 * DESIGN. A *member* is a place in the crew ("sampler 0 on device 0"), one for each seat of the
 * arena (common/arena/seat.h), whether it is wanted or not; the *process* that fills it comes and
 * goes, each with a fresh worker id. A process is watched through its pidfd; libuv's own SIGCHLD
 * handling, which reaps it, is a second witness, and whichever comes first counts. Its standard
 * error is a pipe that is read until the end before the death is told.
 *
 * A dead member is filled again after a back-off of 50 ms that doubles to 5 s. A member that
 * completed work starts the count anew; after SL_CREW_DEATHS_MAX deaths without any work in between
 * it is given up. The verdict falls when the back-off ends, not at the death: a message in which
 * the worker says why it failed may still be under way, and it explains more than an exit status
 * does.
 *
 * Members that are no longer wanted, one or, when the job ends, all, are asked to leave (by the
 * caller, who knows the messages). A process that has not come out of its work within
 * SL_CREW_LEAVE_MS (SL_CREW_STOP_MS where the job ends) is killed. One that has gets
 * SL_CREW_EXIT_MS more for its exit, where a sanitizer looks for leaks and a profiler writes.
 *
 * Workers get a session of their own, so the terminal's Ctrl-C is the broker's business alone.
 */
#ifndef SL_BROKER_WORKERS_SUPERVISE_H
#define SL_BROKER_WORKERS_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "broker/workers/exit_status.h"
#include "broker/log/stream.h"
#include "broker/placement/placement.h"
#include "common/bus/bus.h"
#include "common/bus/worker.h"

enum {
    SL_CREW_BACKOFF_MS = 50,
    SL_CREW_BACKOFF_MAX_MS = 5000,
    SL_CREW_DEATHS_MAX = 5,
    SL_CREW_LEAVE_MS = 10000, // for a worker to finish or return the batch in hand
    SL_CREW_STOP_MS = 5000,   // to come out of its work when the job ends, whatever it has in hand
    SL_CREW_EXIT_MS = 60000,
};

struct sl_crew_process; // private

struct sl_member {
    enum sl_role role;
    uint32_t role_index; // "sampler 0"
    uint32_t device;     // index into the configuration's devices
    uint32_t slot;       // seat, and slot of the arena's statistics
    char name[32];       // "sampler 0"
    bool wanted;         // it is kept filled
    bool leaving;        // it is not: its process has been told to go, ...
    uint64_t leaving_ns; // ... then
    bool dismissed;      // killed by us, since it had not begun, did not leave or the crew stops

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
    uint32_t patience_ms;   // it was given to leave when the crew was stopped
    uint64_t lived_ns;      // processes before the one that is alive
    uint64_t peak_rss_bytes;
    struct sl_stream log;

    struct sl_crew *crew;
    struct sl_crew_process *process; // NULL when none runs
    uv_timer_t respawn; // the replacement, the end of the time to leave, or the word that it left
};

// Its process has said that it is ready, and is to stay.
static inline bool sl_member_is_there(const struct sl_member *m)
{
    return m->wanted && m->alive && m->ready && !m->leaving;
}

struct sl_crew_events {
    // A process is dead and its last words are read. True when it had completed work.
    bool (*on_death)(void *ctx, struct sl_member *m, const struct sl_exit_status *death);
    // The process of a member that is not wanted any more has ended.
    void (*on_left)(void *ctx, struct sl_member *m);
    // The member died too often, or cannot even be started; `why` says how it went.
    void (*on_hopeless)(void *ctx, struct sl_member *m, const char *why);
    void (*on_line)(void *ctx, struct sl_member *m, int level, const char *text);
    // Whether the process has come out of its work and is about to exit.
    bool (*has_left)(void *ctx, const struct sl_member *m);
    // After sl_crew_stop(): no process is left.
    void (*on_gone)(void *ctx);
};

struct sl_crew_setup {
    uv_loop_t *loop;
    char directory[4096];                                  // of the worker programs
    const char *endpoint;                                  // borrowed
    int arena_fd, config_fd, doorbell_fd, acts_fd, key_fd; // borrowed
    int shared_fd[SL_SHARED_COUNT];                        // borrowed
    struct sl_crew_events events;
    void *ctx;
};

struct sl_crew {
    struct sl_crew_setup setup;
    uint32_t n;
    struct sl_member *members;
    uint32_t next_worker;
    uint64_t oom_kills; // seen so far
    bool stopping;
    uint64_t stopping_ns; // since then
    uint32_t patience_ms; // with those who work
    uv_timer_t patience;  // looks for workers that do not leave
};

// Directory of this program, where the workers' programs stand too. SL_ESYS.
int sl_crew_own_directory(char *out, size_t bytes);

int sl_crew_init(struct sl_crew *crew, const struct sl_crew_setup *setup, uint32_t n_members);

// Describes member `slot`; before sl_crew_start().
void sl_crew_place(struct sl_crew *crew, uint32_t slot, enum sl_role role, uint32_t role_index,
                   uint32_t device);

// Fills the member from now on; starts its process unless one runs. One that is leaving is followed
// by another. An error is that of the start; the member is then not wanted.
int sl_crew_want(struct sl_member *m);

// After an error of sl_crew_want(): the member is wanted all the same, and the start that could not
// be counts as a death.
void sl_crew_want_later(struct sl_member *m);

// Does not fill the member any more. Its process, if it has one, is given time to leave; one that
// is not attached yet is killed at once. on_left comes from the loop.
void sl_crew_release(struct sl_member *m);

// Kills the member's process, which is then a death like any other.
void sl_crew_kill(struct sl_member *m);

// No replacements from now on. Workers not attached are killed at once, all others when they have
// not come out of their work after patience_ms (0: at once, wherever they are). on_gone comes from
// the loop, also when nobody was there.
void sl_crew_stop(struct sl_crew *crew, uint32_t patience_ms);

// The member that a process with this id fills or filled last; NULL for an unknown one.
struct sl_member *sl_crew_by_worker(struct sl_crew *crew, uint32_t worker);
struct sl_member *sl_crew_by_peer(struct sl_crew *crew, const struct sl_bus_peer *peer);

// For how long processes of a role have lived by now, all together.
double sl_crew_lived_seconds(const struct sl_crew *crew, enum sl_role role);

// Closes the timers; the loop must run once more before sl_crew_fini().
void sl_crew_close(struct sl_crew *crew);
void sl_crew_fini(struct sl_crew *crew); // safe on a zeroed struct

#endif
