#include "broker/saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/history.h"
#include "broker/job.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/board.h"

enum { LOOK_MS = 10 };

static void on_timer(uv_timer_t *timer)
{
    struct sl_job *job = timer->data;
    if (job->state == SL_JOB_RUNNING)
        sl_saving_poll(job);
}

bool sl_saving_is_wanted(const struct sl_config *config)
{
    return config->checkpoint.every_updates > 0 || config->checkpoint.every_seconds > 0;
}

int sl_saving_init(struct sl_job *job)
{
    struct sl_saving *s = &job->saving;
    if (!sl_saving_is_wanted(&job->config))
        return SL_OK;
    SL_TRY(sl_snapshot_init(&s->snapshot, &job->phases));
    s->enabled = true;
    s->last_version = sl_board_version(&job->arena);
    s->last_ns = sl_now_ns();
    if (job->config.checkpoint.every_updates) {
        s->has_timer = true;
        s->timer.data = job;
        uv_timer_init(&job->loop.uv, &s->timer);
        uv_timer_start(&s->timer, on_timer, LOOK_MS, LOOK_MS);
    }
    return SL_OK;
}

void sl_saving_close(struct sl_job *job)
{
    if (job->saving.has_timer)
        uv_close((uv_handle_t *)&job->saving.timer, NULL);
    job->saving.has_timer = false;
}

void sl_saving_fini(struct sl_job *job)
{
    sl_snapshot_fini(&job->saving.snapshot);
    free(job->saving.history);
    job->saving.history = NULL;
}

// --- writing -------------------------------------------------------------------------------------

static int describe(struct sl_job *job, const char *status)
{
    struct sl_saving *s = &job->saving;
    free(s->history);
    s->history = sl_history_write(&job->report);
    if (!s->history)
        return sl_fail(SL_ENOMEM, "no memory for a checkpoint");
    s->content = (struct sl_checkpoint_content){
        .snapshot = &s->snapshot,
        .params = &job->params,
        .job = job->config.name,
        .status = status,
        .config_json = job->config_json,
        .epochs = job->config.epochs,
        .dataset_digest = job->dataset.digest,
        .history_json = s->history,
        .samplers = job->split.pinned ? job->split.roles.samplers : 0,
        .trainers = job->split.pinned ? job->split.roles.trainers : 0,
        .seconds = job->resumed.seconds + (double)(sl_now_ns() - job->start_ns) * 1e-9,
    };
    return SL_OK;
}

// model.best.safetensors beside the checkpoints is of use to people while the job runs.
static int write_best(const struct sl_job *job)
{
    const struct sl_saving *s = &job->saving;
    const struct sl_snapshot *snap = &s->snapshot;
    char path[4200], note[96];
    if (!snap->best.has || (s->has_best && s->best_epoch == snap->best.epoch))
        return SL_OK;
    snprintf(note, sizeof note, "epoch %u, the best validation so far", snap->best.epoch + 1);
    return sl_params_save(&job->params, snap->best_params,
                          (uint64_t)(snap->best.epoch + 1) * snap->n_batches,
                          sl_rundir_file(&job->rundir, "model.best.safetensors", path, sizeof path),
                          job->config.name, note);
}

static void write_all(struct sl_job *job)
{
    struct sl_saving *s = &job->saving;
    s->rc = sl_checkpoint_write(job->rundir.path, &s->content, job->config.checkpoint.keep);
    if (s->rc == SL_OK)
        s->rc = write_best(job);
    if (s->rc < 0)
        snprintf(s->message, sizeof s->message, "%s", sl_error_message());
}

static void note_result(struct sl_job *job)
{
    struct sl_saving *s = &job->saving;
    char where[96];
    if (s->rc < 0) {
        if (!s->warned)
            sl_joblog_write(
                &job->log, SL_LOG_WARN,
                "no checkpoint of update %llu: %s: the job goes on and tries again when "
                "the next one is due",
                (unsigned long long)s->snapshot.version, s->message);
        sl_timeline_tell(&job->timeline, "checkpoint", false, "no checkpoint of update %llu: %s",
                         (unsigned long long)s->snapshot.version, s->message);
        s->warned = true;
        return;
    }
    s->warned = false;
    s->n_written++;
    s->written_version = s->snapshot.version;
    s->has_best = s->snapshot.best.has;
    s->best_epoch = s->snapshot.best.epoch;
    sl_position_text(s->snapshot.version, s->snapshot.epoch, s->snapshot.n_records,
                     s->snapshot.n_batches, where, sizeof where);
    sl_joblog_write(&job->log, SL_LOG_INFO, "checkpoint of %s", where);
    sl_timeline_tell(&job->timeline, "checkpoint", true, "checkpoint of %s", where);
}

static void work(uv_work_t *request)
{
    write_all(request->data);
}

static void done(uv_work_t *request, int status)
{
    struct sl_job *job = request->data;
    job->saving.busy = false;
    note_result(job);
    if (job->saving.conclude)
        sl_job_conclude(job);
}

// --- when ----------------------------------------------------------------------------------------

static bool is_due(const struct sl_job *job)
{
    const struct sl_saving *s = &job->saving;
    const struct sl_config *config = &job->config;
    uint64_t version = sl_board_version(&job->arena);
    if (version == s->last_version)
        return false;
    if (config->checkpoint.every_updates &&
        version - s->last_version >= config->checkpoint.every_updates)
        return true;
    double passed = (double)(sl_now_ns() - s->last_ns) * 1e-9;
    return config->checkpoint.every_seconds > 0 && passed >= config->checkpoint.every_seconds;
}

void sl_saving_poll(struct sl_job *job)
{
    struct sl_saving *s = &job->saving;
    if (!s->enabled || s->busy || !is_due(job))
        return;
    if (sl_snapshot_take(&s->snapshot, &job->phases, false) < 0)
        return; // an update is being applied: at the next look
    s->last_version = s->snapshot.version;
    s->last_ns = sl_now_ns();
    if (describe(job, "running") < 0)
        return;
    s->work.data = job;
    s->busy = uv_queue_work(&job->loop.uv, &s->work, work, done) == 0;
}

bool sl_saving_is_idle(struct sl_job *job)
{
    job->saving.conclude = job->saving.busy;
    return !job->saving.busy;
}

void sl_saving_finish(struct sl_job *job, const char *status)
{
    struct sl_saving *s = &job->saving;
    if (!s->enabled)
        return;
    sl_phases_read_rest(&job->phases);
    if (sl_snapshot_take(&s->snapshot, &job->phases, true) < 0 || describe(job, status) < 0) {
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "no checkpoint at the end: where the job is can not be told");
        return;
    }
    write_all(job);
    note_result(job);
}
