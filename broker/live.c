#include "broker/live.h"

#include <math.h>
#include <stdlib.h>

#include "broker/job.h"
#include "broker/live_internal.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/board.h"

enum { FRESH_MS = 100, PACE_BATCHES = 5, PACE_LOOKS = 10, SECOND_NS = 1000000000 };

static int make_living(struct sl_live *live)
{
    if (live->living)
        return SL_OK;
    live->living = calloc(1, sizeof *live->living);
    if (!live->living)
        return sl_fail(SL_ENOMEM, "no memory for the job's statistics");
    live->living->loss = live->living->last_epoch_seconds = NAN;
    live->tell_at_ns = sl_now_ns() + SECOND_NS;
    return SL_OK;
}

int sl_live_init(struct sl_job *job)
{
    SL_TRY(make_living(&job->live));
    job->live.living->there = true;
    job->live.living->first_version = sl_board_version(&job->arena);
    return SL_OK;
}

void sl_live_fini(struct sl_live *live)
{
    free(live->living);
    sl_json_fini(&live->line);
    live->living = NULL;
}

static void make_line(struct sl_job *job)
{
    job->live.lines++;
    job->live.line_at_ns = sl_now_ns();
    job->live.line_state = sl_job_state_name(job);
    sl_json_reset(&job->live.line);
    sl_live_write(job, &job->live.line);
}

double sl_job_live_rate(const struct sl_job *job, bool trains)
{
    const struct sl_live_look *from, *to;
    const struct sl_living *l = job->live.living;
    if (!l || !sl_live_window(l, &from, &to))
        return 0;
    double seconds = (double)(to->ns - from->ns) * 1e-9;
    uint64_t n = trains ? to->sums.batches - from->sums.batches : to->sums.cells - from->sums.cells;
    return (double)n / seconds;
}

double sl_job_live_pace(const struct sl_job *job, uint64_t since_ns)
{
    const struct sl_living *l = job->live.living;
    uint64_t looks = l ? SL_MIN(l->n_looks, (uint64_t)SL_LIVE_LOOKS) : 0;
    if (looks <= PACE_LOOKS || sl_pauses_is_open(&job->pauses))
        return 0;
    const struct sl_live_look *to = &l->looks[(l->n_looks - 1) % SL_LIVE_LOOKS];
    const struct sl_live_look *from = &l->looks[(l->n_looks - looks) % SL_LIVE_LOOKS];
    uint64_t batches = to->sums.batches - from->sums.batches;
    uint64_t others = to->sums.cells - from->sums.cells - batches;
    double seconds = sl_pauses_seconds_without(&job->pauses, (struct sl_span){from->ns, to->ns});
    bool steady = from->ns >= since_ns && batches >= PACE_BATCHES && others == 0 && seconds > 0;
    return steady ? (double)batches / seconds : 0;
}

uint64_t sl_job_live_standby_batches(const struct sl_job *job)
{
    return job->live.living ? job->live.living->sums.standby_batches : 0;
}

bool sl_job_live_metric(const struct sl_job *job, double *value)
{
    const struct sl_living *l = job->live.living;
    *value = l ? l->metric : 0;
    return l && l->has_metric;
}

const char *sl_job_live_json(struct sl_job *job)
{
    struct sl_live *live = &job->live;
    live->questions++;
    if (make_living(live) < 0)
        return NULL;
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
    if (make_living(live) < 0)
        return;
    if (live->living->there && job->state == SL_JOB_RUNNING)
        sl_live_look(job);
    if (second_is_over(live, began)) {
        sl_live_look_at_processes(job);
        if (sl_clients_want(&job->clients, SL_WANTS_STATS))
            tell(job);
    }
    live->cpu_ns += sl_thread_cpu_ns() - cpu;
    uint64_t took = sl_now_ns() - began;
    live->tick_ns += took;
    live->longest_tick_ns = SL_MAX(live->longest_tick_ns, took);
    live->ticks++;
}

void sl_job_live_phase(struct sl_job *job, const struct sl_open_phase *phase)
{
    if (job->live.living)
        sl_live_take_phase(job, phase);
}

void sl_job_live_epoch(struct sl_job *job, const struct sl_epoch_figures *figures)
{
    struct sl_living *l = job->live.living;
    if (!l)
        return;
    l->loss = figures->loss;
    l->last_epoch_seconds = figures->seconds + figures->evaluate_seconds;
    if (!figures->evaluated)
        return;
    l->has_metric = true;
    l->metric_epoch = figures->epoch;
    l->metric = figures->val.value[job->phases.measure];
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
            (unsigned long long)live->ticks, (unsigned long long)live->entries,
            (unsigned long long)live->told, (unsigned long long)(live->lines - live->told),
            (unsigned long long)live->questions, (double)live->tick_ns * 1e-3 / (double)live->ticks,
            (double)live->cpu_ns * 1e-3 / (double)live->ticks,
            (double)live->longest_tick_ns * 1e-3);
}
