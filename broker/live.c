#include "broker/live.h"

#include <math.h>
#include <stdlib.h>

#include "broker/job.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/board.h"

enum { FRESH_MS = 100, SECOND_NS = 1000000000 };

void sl_live_fini(struct sl_live *live)
{
    sl_json_fini(&live->line);
}

static void make_line(struct sl_job *job)
{
    job->live.lines++;
    job->live.line_at_ns = sl_now_ns();
    job->live.line_state = sl_job_state_name(job);
    sl_json_reset(&job->live.line);
    sl_live_write(job, &job->live.line);
}

const char *sl_job_live_json(struct sl_job *job)
{
    struct sl_live *live = &job->live;
    live->questions++;
    // Who asks after a pause wants to see it; many who ask at once get the same line.
    bool old = sl_now_ns() - live->line_at_ns > FRESH_MS * 1000000ull;
    if (live->line_at_ns == 0 || old || live->line_state != sl_job_state_name(job))
        make_line(job);
    return sl_json_text(&live->line);
}

static void tell(struct sl_job *job)
{
    Sl__Control__Stats stats = SL__CONTROL__STATS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    make_line(job);
    job->live.told++;
    const char *text = sl_json_text(&job->live.line);
    if (!text)
        return;
    stats.json = (char *)text; // only read
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STATS;
    e.stats = &stats;
    sl_clients_send(&job->clients, SL_WANTS_STATS, &e);
}

// By the clock: ticks come late on a loaded machine, and ten of them are more than a second then.
static bool second_is_over(struct sl_live *live, uint64_t now)
{
    if (now < live->tell_at_ns)
        return false;
    live->tell_at_ns += ((now - live->tell_at_ns) / SECOND_NS + 1) * SECOND_NS;
    return true;
}

void sl_job_poll_live(struct sl_job *job)
{
    struct sl_live *live = &job->live;
    uint64_t began = sl_now_ns(), cpu = sl_thread_cpu_ns();
    if (job->meter.there && job->state == SL_JOB_RUNNING)
        sl_meter_look(&job->meter);
    if (second_is_over(live, began)) {
        sl_meter_look_at_processes(&job->meter);
        if (sl_clients_want(&job->clients, SL_WANTS_STATS))
            tell(job);
    }
    live->cpu_ns += sl_thread_cpu_ns() - cpu;
    uint64_t took = sl_now_ns() - began;
    live->tick_ns += took;
    live->longest_tick_ns = SL_MAX(live->longest_tick_ns, took);
    live->ticks++;
}

void sl_job_log_live(struct sl_job *job)
{
    const struct sl_live *live = &job->live;
    if (live->ticks > 0)
        sl_joblog_write(
            &job->log, SL_LOG_INFO,
            "statistics: %llu looks at %llu batches; %llu lines told, %llu made for "
            "%llu questions; a look took %.0f us on average, %.0f us of a core, the "
            "longest %.0f us",
            (unsigned long long)live->ticks, (unsigned long long)job->meter.entries,
            (unsigned long long)live->told, (unsigned long long)(live->lines - live->told),
            (unsigned long long)live->questions, (double)live->tick_ns * 1e-3 / (double)live->ticks,
            (double)live->cpu_ns * 1e-3 / (double)live->ticks,
            (double)live->longest_tick_ns * 1e-3);
}
