/*
 * group.c - which trainers sum an update's gradients among themselves (common/ipc/group.h).
 *
 * A trainer is taken off the list when its death is proved and never before: one that was told to
 * leave may be in the middle of a sum that the others need, or write a part of it. It is put on the
 * list when it is ready. Each change costs the members a meeting, so those who come at the same
 * time come together: as long as a trainer that is wanted is still on its way, the ready ones wait
 * for it, and the members work on. Nobody waits for long, nor where there is no member to work on:
 * a trainer that dies again and again is the crew's business (supervise.h), one that loads for
 * minutes joins later.
 *
 * While the job starts nothing is to be trained, so then all wait for the last one.
 */
#include "broker/job.h"

#include <inttypes.h>

#include "common/base/clock.h"
#include "common/ipc/group.h"

enum { TOGETHER_SECONDS = 10 }; // the most that who is ready waits for others

static bool is_member(const struct sl_job *job, const struct sl_member *m)
{
    return m->alive && job->group.worker[m->device] == m->worker;
}

// Whether who is ready need not wait for those on their way. `working`: there are members.
static bool is_time(struct sl_job *job, bool ready, bool missing, bool working)
{
    struct sl_job_group *g = &job->group;
    if (!ready || !missing) {
        g->waiting_ns = 0;
        return ready;
    }
    if (job->state == SL_JOB_STARTING)
        return false;
    uint64_t now = sl_now_ns();
    g->waiting_ns = g->waiting_ns ? g->waiting_ns : now;
    bool over = !working || now - g->waiting_ns > TOGETHER_SECONDS * 1000000000ull;
    g->waiting_ns = over ? 0 : g->waiting_ns;
    return over;
}

static void tell(struct sl_job *job)
{
    struct sl_job_group *g = &job->group;
    char text[96];
    g->told = g->generation;
    if (g->n == 0)
        snprintf(text, sizeof text, "no trainer is left to sum gradients");
    else if (g->n == 1)
        snprintf(text, sizeof text, "1 trainer sums gradients by itself");
    else
        snprintf(text, sizeof text, "%u trainers sum gradients by NCCL", g->n);
    sl_joblog_write(&job->log, SL_LOG_INFO, "exchange: %s (generation %" PRIu64 ")", text,
                    g->generation);
    sl_timeline_tell(&job->timeline, "exchange", g->n > 0, "%s (generation %" PRIu64 ")", text,
                     g->generation);
}

// The list as it is to be, in the order of their devices. Returns how many.
static uint32_t list_members(struct sl_job *job, struct sl_group_member members[SL_GROUP_MAX])
{
    bool working = false, ready = false, missing = false;
    uint32_t n = 0;
    for (uint32_t d = 0; d < job->config.n_devices; d++) {
        const struct sl_member *m = sl_job_member(job, SL_ROLE_TRAINER, d);
        bool here = is_member(job, m);
        working |= here;
        ready |= !here && sl_member_is_there(m);
        missing |=
            !here && !sl_member_is_there(m) && sl_job_duty(job, SL_ROLE_TRAINER, d) != SL_DUTY_NONE;
    }
    bool join = is_time(job, ready, missing, working);
    for (uint32_t d = 0; d < job->config.n_devices && n < SL_GROUP_MAX; d++) {
        const struct sl_member *m = sl_job_member(job, SL_ROLE_TRAINER, d);
        bool here = is_member(job, m) || (join && sl_member_is_there(m));
        job->group.worker[d] = here ? m->worker : 0;
        if (here)
            members[n++] = (struct sl_group_member){.worker = m->worker, .device = d};
    }
    return n;
}

void sl_job_form_group(struct sl_job *job)
{
    struct sl_group_member members[SL_GROUP_MAX];
    struct sl_group_view view;
    if (!job->arena.base || !sl_group_exists(&job->arena) || job->scouting)
        return;
    uint32_t n = list_members(job, members);
    if (sl_group_form(&job->arena, members, n)) {
        sl_group_look(&job->arena, 0, &view); // nobody's id
        job->group.n = n;
        job->group.generation = view.generation;
    }
    if (job->state == SL_JOB_RUNNING && job->group.told != job->group.generation)
        tell(job);
}
