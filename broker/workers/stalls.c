#include "broker/workers/stalls.h"

#include <inttypes.h>
#include <stdlib.h>

#include "broker/log/joblog.h"
#include "broker/epochs/phases.h"
#include "broker/workers/worker_pool.h"
#include "broker/log/timeline.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/seat.h"
#include "common/arena/stats.h"
#include "common/bus/worker.h"

#define SECOND_NS 1000000000ull

// A standby trainer, and in a pause any trainer, sleeps for SL_STANDBY_WAIT_MS.
enum { LEAST_SECONDS = SL_STANDBY_WAIT_MS / 1000 + 2 };

// What is known of one worker's process.
struct sl_stall {
    uint32_t worker;                    // whose it is
    const char *verdict;                // as a cause of death; NULL: nothing is wrong with it
    uint64_t start_ns;                  // looked at while it was not ready
    uint64_t beats[SL_THREAD_COUNT];    // of its threads, as last seen
    uint64_t still_ns[SL_THREAD_COUNT]; // looked at since they were
};

int sl_stalls_init(struct sl_stalls *s)
{
    const char *least = getenv("SLUICE_STALL_LEAST"); // tests have no standby trainers, nor time
    s->least_seconds = least ? (uint32_t)strtoul(least, NULL, 10) : LEAST_SECONDS;
    s->of = calloc(s->workers->n, sizeof *s->of);
    return s->of ? SL_OK : sl_fail(SL_ENOMEM, "broker: no memory to watch workers");
}

void sl_stalls_fini(struct sl_stalls *s)
{
    free(s->of);
    s->of = NULL;
}

// The longest that a thread of it has not moved. One that has not begun does not count, but for the
// one that works: the worker has said that it is ready.
static uint64_t poll_slot(struct sl_stall *stall, const struct sl_worker_slot *slot,
                          uint64_t passed)
{
    uint64_t longest = 0;
    for (int t = 0; t < SL_THREAD_COUNT; t++) {
        uint64_t beats = atomic_load_explicit(&slot->words.beats[t], memory_order_relaxed);
        bool moved = beats != stall->beats[t] || (beats == 0 && t != SL_THREAD_WORK);
        stall->still_ns[t] = moved ? 0 : stall->still_ns[t] + passed;
        stall->beats[t] = beats;
        longest = SL_MAX(longest, stall->still_ns[t]);
    }
    return longest;
}

// what: how it is wrong with it. verdict: the same as a cause of death; a literal.
static void kill_stalled(struct sl_stalls *s, struct sl_pool_worker *w, const char *what,
                         uint64_t seconds, const char *verdict)
{
    char held[96];
    bool has = sl_phases_held_by(s->arena, w->worker, held, sizeof held);
    sl_joblog_announce(s->log,
                       "%s (process %d) %s for %" PRIu64 " s%s%s: it is killed and replaced",
                       w->name, (int)w->pid, what, seconds, has ? ", with " : "", has ? held : "");
    sl_timeline_emit(s->timeline, "stall", false, "%s %s for %" PRIu64 " s and is killed", w->name,
                     what, seconds);
    s->of[w->slot].verdict = verdict;
    sl_pool_worker_kill(w);
}

const char *sl_stalls_verdict(const struct sl_stalls *s, const struct sl_pool_worker *w)
{
    const struct sl_stall *stall = &s->of[w->slot];
    return stall->worker == w->worker ? stall->verdict : NULL;
}

static void poll_worker(struct sl_stalls *s, struct sl_pool_worker *w, uint64_t passed)
{
    const uint32_t limit = SL_MAX(s->config->stall_seconds, s->least_seconds);
    struct sl_stall *stall = &s->of[w->slot];
    if (stall->worker != w->worker)
        *stall = (struct sl_stall){.worker = w->worker};
    if (stall->verdict)
        return;
    if (!w->ready) {
        stall->start_ns += passed;
        if (stall->start_ns > SL_WORKER_START_SECONDS * SECOND_NS)
            kill_stalled(s, w, "has not been ready", stall->start_ns / SECOND_NS,
                         "was not ready in time and was killed");
        return;
    }
    uint64_t still_ns = poll_slot(stall, sl_stats_slot(s->arena, w->slot), passed);
    if (s->config->stall_seconds > 0 && still_ns > limit * SECOND_NS)
        kill_stalled(s, w, "has not moved", still_ns / SECOND_NS, "hung and was killed");
}

void sl_stalls_poll(struct sl_stalls *s)
{
    const uint64_t now = sl_now_ns();
    const uint64_t passed = SL_MIN(now - s->looked_ns, SECOND_NS);
    s->looked_ns = now;
    for (uint32_t i = 0; i < s->workers->n; i++)
        if (s->workers->list[i].alive && !s->workers->list[i].external)
            poll_worker(s, &s->workers->list[i], passed);
}
