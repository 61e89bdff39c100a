/*
 * pause.c - a job that is paused: workers finish what they have in hand, then claim nothing.
 *
 * The word is in the arena (sl_arena_pause): whoever looks for work sees it, samplers at their next
 * claim, trainers before they fetch, where they go to sleep as a standby trainer does. Nothing is
 * taken from anybody and nothing is done in another order, so a paused job ends with the same
 * parameters as one that was not.
 *
 * Everything else goes on: phases that are completed by what was in hand are read, a change of the
 * split is carried out, a worker that dies is replaced, a checkpoint that is due is written. Stop
 * works as ever. Times of batches, epochs and the report leave pauses out (pauses.h).
 */
#include <inttypes.h>

#include "broker/job.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/board.h"

enum { TEXT_BYTES = 160 };

static double paused_seconds(const struct sl_job *job)
{
    return (double)(sl_now_ns() - job->paused_at_ns) * 1e-9;
}

static void set_paused(struct sl_job *job, bool paused)
{
    uint64_t now = sl_now_ns();
    if (paused) {
        job->paused_at_ns = now;
        sl_pauses_begin(&job->phases.pauses, now);
    } else {
        sl_pauses_end(&job->phases.pauses, now);
        job->paused_ns = job->phases.pauses.total_ns;
    }
    job->paused = paused;
    sl_arena_pause(&job->arena, paused);
}

void sl_job_on_pause(struct sl_job *job, const struct sl_bus_peer *peer)
{
    char text[TEXT_BYTES];
    if (job->state != SL_JOB_RUNNING) {
        snprintf(text, sizeof text, "the job is %s: %s", sl_job_state_name(job),
                 job->state == SL_JOB_STARTING ? "pause it once it trains" : "nothing to pause");
        sl_job_answer(job, peer, SL_EINVAL, text, NULL);
        return;
    }
    if (job->paused) {
        snprintf(text, sizeof text, "paused already, for %.1f s, after update %" PRIu64,
                 paused_seconds(job), sl_board_version(&job->arena));
        sl_job_answer(job, peer, SL_OK, text, NULL);
        return;
    }
    set_paused(job, true);
    snprintf(text, sizeof text, "paused after update %" PRIu64, sl_board_version(&job->arena));
    sl_joblog_write(&job->log, SL_LOG_INFO, "%s", text);
    sl_job_event(job, "pause", true, "%s", text);
    sl_job_answer(job, peer, SL_OK, text, NULL);
}

void sl_job_on_resume(struct sl_job *job, const struct sl_bus_peer *peer)
{
    char text[TEXT_BYTES];
    if (job->state != SL_JOB_RUNNING) {
        snprintf(text, sizeof text, "the job is %s: only a paused job can go on",
                 sl_job_state_name(job));
        sl_job_answer(job, peer, SL_EINVAL, text, NULL);
        return;
    }
    if (!job->paused) {
        sl_job_answer(job, peer, SL_OK, "it is not paused", NULL);
        return;
    }
    double seconds = paused_seconds(job);
    set_paused(job, false);
    snprintf(text, sizeof text, "going on after update %" PRIu64 ", after %.1f s",
             sl_board_version(&job->arena), seconds);
    sl_joblog_write(&job->log, SL_LOG_INFO, "%s", text);
    sl_job_event(job, "resume", true, "%s", text);
    sl_job_answer(job, peer, SL_OK, text, NULL);
}

double sl_job_paused_seconds(const struct sl_job *job)
{
    uint64_t now = job->paused ? sl_now_ns() - job->paused_at_ns : 0;
    return (double)(job->paused_ns + now) * 1e-9;
}

void sl_job_end_pause(struct sl_job *job)
{
    if (job->paused)
        set_paused(job, false);
}
