#include "broker/workers/crash_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/joblog.h"
#include "broker/epochs/phases.h"
#include "broker/log/timeline.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/text/units.h"

int sl_crash_log_init(struct sl_crash_log *d)
{
    d->of = calloc(d->workers->n, sizeof *d->of);
    return d->of ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %u workers", d->workers->n);
}

void sl_crash_log_fini(struct sl_crash_log *d)
{
    free(d->of);
    d->of = NULL;
}

void sl_crash_log_explain(struct sl_crash_log *d, const struct sl_pool_worker *w,
                          const struct sl_exit_status *death, const char *stalled)
{
    struct sl_worker_death *of = &d->of[w->slot];
    if (of->failed != w->worker && stalled && !d->workers->stopping)
        snprintf(of->cause, sizeof of->cause, "%s", stalled);
    else if (w->external) // whose parent alone knows more
        snprintf(of->cause, sizeof of->cause, "is gone");
    else if (of->failed != w->worker)
        sl_exit_status_describe(death, of->cause, sizeof of->cause);
    if (d->workers->stopping)
        return;
    sl_stream_last(&w->log, of->last_lines, sizeof of->last_lines);
    of->held[0] = '\0';
    if (d->arena->base)
        sl_phases_held_by(d->arena, w->worker, of->held, sizeof of->held);
}

// For the log, the events and the report.
static void tell(struct sl_crash_log *d, const struct sl_pool_worker *w,
                 const struct sl_reclaimed *back)
{
    struct sl_worker_death *of = &d->of[w->slot];
    char rest[192] = "";
    uint32_t n = back->resample + back->refetch + back->retrain;
    const char *again = back->resample  ? "drawn"
                        : w->external   ? "lent"
                        : back->retrain ? "trained"
                                        : "fetched"; // a trainer does both of these
    if (d->workers->stopping)
        snprintf(rest, sizeof rest, " while the job ended");
    // Of what is finished nothing is lost, so it is not worth a word.
    else if (n > 0 && back->finished > 0)
        snprintf(rest, sizeof rest, " with %u in hand, which will be %s again", n, again);
    else if (of->held[0] && n > 1)
        snprintf(rest, sizeof rest, " with %u in hand, %s first: they will be %s again", n,
                 of->held, again);
    else if (of->held[0] && n > 0)
        snprintf(rest, sizeof rest, " with %s in hand, which will be %s again", of->held, again);
    sl_joblog_write(d->log, SL_LOG_WARN, "%s (process %d) %s%s", w->name, (int)w->pid, of->cause,
                    rest);
    sl_timeline_emit(d->timeline, "death", false, "%s (process %d) %s%s", w->name, (int)w->pid,
                     of->cause, rest);
    of->n++;
    of->missed = d->workers->stopping || !w->wanted ? 0 : w->pid;
    of->missed_ns = sl_now_ns();
    const struct sl_report_restart restart = {
        .worker = w->name,
        .pid = w->pid,
        .seconds = (double)(sl_now_ns() - d->start_ns) * 1e-9,
        .cause = of->cause,
        .held = of->held[0] ? of->held : NULL,
        .resampled = back->resample,
        .retrained = back->retrain,
    };
    d->on_restart(d->ctx, &restart);
}

// All have been told to leave. It may be that one was dead before, and only heard of now: a job
// can end within the time that a process takes to die.
static void emit_at_the_end(struct sl_crash_log *d, const struct sl_pool_worker *w,
                            const struct sl_exit_status *death)
{
    const struct sl_reclaimed nothing = {0};
    struct sl_worker_death *of = &d->of[w->slot];
    of->held[0] = '\0';
    if (w->dismissed)
        sl_joblog_write(d->log, SL_LOG_INFO, "%s (process %d) had %u ms to leave and was killed",
                        w->name, (int)w->pid, w->patience_ms);
    else if (death->signal)
        tell(d, w, &nothing);
    else if (death->exit_status != 0)
        sl_joblog_write(d->log, SL_LOG_WARN, "%s %s while it was leaving", w->name, of->cause);
}

void sl_crash_log_emit(struct sl_crash_log *d, const struct sl_pool_worker *w,
                       const struct sl_exit_status *death, const struct sl_reclaimed *back)
{
    // One that was asked to leave is no restart.
    if (d->workers->stopping)
        emit_at_the_end(d, w, death);
    else if (w->leaving && (w->dismissed || (!death->signal && death->exit_status == 0)))
        sl_joblog_write(d->log, SL_LOG_INFO, "%s (process %d) %s", w->name, (int)w->pid,
                        w->dismissed ? "was not needed any more" : "has left");
    else
        tell(d, w, back);
}

void sl_crash_log_on_ready(struct sl_crash_log *d, const struct sl_pool_worker *w)
{
    struct sl_worker_death *of = &d->of[w->slot];
    char took[SL_UNITS_BYTES];
    if (of->missed && !w->leaving)
        sl_joblog_announce(
            d->log, "%s (process %d) works now in place of process %d, %s after that one's death",
            w->name, (int)w->pid, (int)of->missed,
            sl_units_seconds(took, (double)(sl_now_ns() - of->missed_ns) * 1e-9));
    of->missed = 0;
}

void sl_crash_log_on_failure(struct sl_crash_log *d, const struct sl_pool_worker *w,
                             const char *message)
{
    if (w) {
        struct sl_worker_death *of = &d->of[w->slot];
        of->failed = w->worker;
        snprintf(of->cause, sizeof of->cause, "could not start: %s", message);
    }
    if (!w || !w->alive) // else its death says so
        sl_joblog_write(d->log, SL_LOG_WARN, "%s could not start: %s", w ? w->name : "a worker",
                        message);
}

void sl_crash_log_sum_up(const struct sl_crash_log *d, const struct sl_pool_worker *w,
                         const char *why, const char *log, char *out, size_t bytes)
{
    const struct sl_worker_death *of = &d->of[w->slot];
    char hands[160] = "", file[4200] = "";
    const char *said = of->last_lines[0]         ? "; its last lines: "
                       : of->failed == w->worker ? ""
                                                 : "; it said nothing";
    if (of->held[0])
        snprintf(hands, sizeof hands, " with %s in hand", of->held);
    if (log)
        snprintf(file, sizeof file, "; its log is %s/%s.log", log, w->log.name);
    int n;
    if (w->starts == 0 || !of->cause[0]) // it never was
        n = snprintf(out, bytes, "%s", why);
    else
        n = snprintf(out, bytes, "%s; the last time it %s%s%s%s%s", why, of->cause, hands, said,
                     of->last_lines, file);
    if (n >= (int)bytes)
        memcpy(out + bytes - sizeof "...", "...", sizeof "...");
}
