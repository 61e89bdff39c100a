/*
 * stall.c - workers that live and do not move.
 *
 * A worker's threads come round in a second or so, whatever they wait for (common/ipc/pulse.h). One
 * that has not for the job's stall_seconds hangs: its GPU never answers, the file server that has
 * its data is gone, somebody has stopped it. Others may wait for its batch for ever. It is killed,
 * and then it is a death like any other: its batches go to others and it is replaced.
 *
 * Time counts in looks: of what lies between two of them at most a second. A machine that slept, or
 * a job that was stopped as a whole, has not hung.
 */
#include "broker/job.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/seat.h"
#include "common/ipc/stats.h"

// A standby trainer, and in a pause any trainer, sleeps for SL_STANDBY_WAIT_MS.
#define LEAST_SECONDS (SL_STANDBY_WAIT_MS / 1000 + 2u)

// What is known of one member's threads.
struct sl_stall {
    uint32_t worker;                    // whose it is
    bool killed;                        // for it
    uint64_t beats[SL_THREAD_COUNT];    // as last seen
    uint64_t still_ns[SL_THREAD_COUNT]; // looked at since they were
};

int sl_job_watch_stalls(struct sl_job *job)
{
    job->stalls.of = calloc(job->crew.n, sizeof *job->stalls.of);
    return job->stalls.of ? SL_OK : sl_fail(SL_ENOMEM, "broker: no memory to watch workers");
}

// The longest that a thread of it has not moved. One that has not begun does not count, but for the
// one that works: the worker has said that it is ready.
static uint64_t look_at(struct sl_stall *stall, const struct sl_worker_slot *slot, uint64_t passed)
{
    uint64_t longest = 0;
    for (int t = 0; t < SL_THREAD_COUNT; t++) {
        uint64_t beats = atomic_load_explicit(&slot->beats[t], memory_order_relaxed);
        bool moved = beats != stall->beats[t] || (beats == 0 && t != SL_THREAD_WORK);
        stall->still_ns[t] = moved ? 0 : stall->still_ns[t] + passed;
        stall->beats[t] = beats;
        longest = SL_MAX(longest, stall->still_ns[t]);
    }
    return longest;
}

static void kill_stalled(struct sl_job *job, struct sl_member *m, uint64_t still_ns)
{
    char held[96];
    bool has = sl_job_held_by(job, m->worker, held, sizeof held);
    sl_joblog_announce(&job->log,
                       "%s (process %d) has not moved for %" PRIu64 " s%s%s: it is killed and "
                       "replaced (stall_seconds)",
                       m->name, (int)m->pid, still_ns / 1000000000, has ? ", with " : "",
                       has ? held : "");
    sl_job_event(job, "stall", false, "%s has not moved for %" PRIu64 " s and is killed", m->name,
                 still_ns / 1000000000);
    sl_crew_kill(m);
}

bool sl_job_was_stalled(const struct sl_job *job, const struct sl_member *m)
{
    const struct sl_stall *stall = &job->stalls.of[m->slot];
    return stall->worker == m->worker && stall->killed;
}

void sl_job_look_for_stalls(struct sl_job *job)
{
    const uint64_t limit_ns = SL_MAX(job->config.stall_seconds, LEAST_SECONDS) * 1000000000ull;
    const uint64_t now = sl_now_ns();
    const uint64_t passed = SL_MIN(now - job->stalls.looked_ns, 1000000000ull);
    job->stalls.looked_ns = now;
    if (job->config.stall_seconds == 0 || !job->arena.base)
        return;
    for (uint32_t i = 0; i < job->crew.n; i++) {
        struct sl_member *m = &job->crew.members[i];
        struct sl_stall *stall = &job->stalls.of[i];
        if (!m->alive || !m->ready)
            continue;
        if (stall->worker != m->worker)
            *stall = (struct sl_stall){.worker = m->worker};
        const struct sl_worker_slot *slot = sl_stats_slot(&job->arena, m->slot);
        uint64_t still_ns = look_at(stall, slot, passed);
        if (!stall->killed && still_ns > limit_ns) {
            kill_stalled(job, m, still_ns);
            stall->killed = true;
        }
    }
}
