#include "broker/rundir/saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/rundir/history.h"
#include "broker/log/joblog.h"
#include "broker/rundir/rundir.h"
#include "broker/scheduler/role_split.h"
#include "broker/log/timeline.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/order_kind.h"
#include "common/arena/nodes.h"
#include "common/arena/param_store.h"

enum { LOOK_MS = 10 };

static void on_timer(uv_timer_t *timer)
{
    struct sl_saving *s = timer->data;
    sl_saving_poll(s);
}

bool sl_saving_is_wanted(const struct sl_config *config)
{
    return config->checkpoint.every_updates > 0 || config->checkpoint.every_seconds > 0;
}

// Learned rows are copied to where they lie: memory, or the drive.
static int copy_rows(struct sl_saving *s)
{
    const struct sl_row_table *rows = s->phases->setup.rows;
    int fd = -1;
    if (!rows)
        return SL_OK;
    if (s->config->features.place == SL_ROWS_IN_FILE)
        SL_TRY(fd = sl_rundir_nameless(s->config->output));
    int rc = sl_row_copy_init(&s->snapshot.copy, rows, fd);
    if (fd >= 0)
        close(fd);
    return rc;
}

int sl_saving_init(struct sl_saving *s)
{
    if (!sl_saving_is_wanted(s->config) || s->arena->h->spec.nodes.rank > 0)
        return SL_OK;
    SL_TRY(sl_snapshot_init(&s->snapshot, s->phases));
    SL_TRY(copy_rows(s));
    s->enabled = true;
    s->last_version = sl_param_store_version(s->arena);
    s->last_told = s->phases->told;
    s->last_ns = sl_now_ns();
    if (s->config->checkpoint.every_updates) {
        s->has_timer = true;
        s->timer.data = s;
        uv_timer_init(s->loop, &s->timer);
        uv_timer_start(&s->timer, on_timer, LOOK_MS, LOOK_MS);
    }
    return SL_OK;
}

void sl_saving_close(struct sl_saving *s)
{
    if (s->has_timer)
        uv_close((uv_handle_t *)&s->timer, NULL);
    s->has_timer = false;
}

void sl_saving_fini(struct sl_saving *s)
{
    sl_snapshot_fini(&s->snapshot);
    free(s->history);
    s->history = NULL;
}

// --- writing -------------------------------------------------------------------------------------

static int describe(struct sl_saving *s, const char *status)
{
    uint64_t digest;
    SL_TRY(sl_epoch_order_identity(s->config->order.kind, s->dataset, &digest));
    free(s->history);
    s->history = sl_history_write(s->report);
    if (!s->history)
        return sl_fail(SL_ENOMEM, "no memory for a checkpoint");
    s->content = (struct sl_checkpoint_content){
        .snapshot = &s->snapshot,
        .params = s->params,
        .job = s->config->name,
        .status = status,
        .config_json = *s->config_json,
        .epochs = s->config->epochs,
        .dataset_digest = digest,
        .history_json = s->history,
        .samplers = s->split->pinned ? s->split->roles.samplers : 0,
        .trainers = s->split->pinned ? s->split->roles.trainers : 0,
        .seconds = s->resumed->seconds + (double)(sl_now_ns() - s->start_ns) * 1e-9,
    };
    return SL_OK;
}

// model.best.safetensors beside the checkpoints is of use to people while the job runs.
static int write_best(const struct sl_saving *s)
{
    const struct sl_snapshot *snap = &s->snapshot;
    char path[4200], note[96];
    if (!snap->best.has || (s->has_best && s->best_epoch == snap->best.epoch))
        return SL_OK;
    snprintf(note, sizeof note, "epoch %u, the best validation so far", snap->best.epoch + 1);
    return sl_params_save(s->params, snap->best_params,
                          (uint64_t)(snap->best.epoch + 1) * snap->n_batches,
                          sl_rundir_file(s->rundir, "model.best.safetensors", path, sizeof path),
                          s->config->name, note);
}

static void write_all(struct sl_saving *s)
{
    s->rc = sl_checkpoint_write(s->rundir->path, &s->content, s->config->checkpoint.keep);
    if (s->rc == SL_OK)
        s->rc = write_best(s);
    if (s->rc < 0)
        snprintf(s->message, sizeof s->message, "%s", sl_error_message());
}

static void note_result(struct sl_saving *s)
{
    char where[96], held[64] = "";
    if (s->rc < 0) {
        if (!s->warned)
            sl_joblog_write(
                s->log, SL_LOG_WARN,
                "no checkpoint of update %llu: %s: the job goes on and tries again when "
                "the next one is due",
                (unsigned long long)s->snapshot.version, s->message);
        sl_timeline_emit(s->timeline, "checkpoint", false, "no checkpoint of update %llu: %s",
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
    if (s->held_ns)
        snprintf(held, sizeof held, ": updates waited %.3f s for learned rows",
                 (double)s->held_ns * 1e-9);
    s->held_ns = 0;
    sl_joblog_write(s->log, SL_LOG_INFO, "checkpoint of %s%s", where, held);
    sl_timeline_emit(s->timeline, "checkpoint", true, "checkpoint of %s", where);
}

static void work(uv_work_t *request)
{
    write_all(request->data);
}

static void done(uv_work_t *request, int status)
{
    struct sl_saving *s = request->data;
    (void)status;
    s->busy = false;
    note_result(s);
    if (s->awaited)
        s->on_idle(s->ctx);
}

// On the pool; at once where that cannot be.
static void start(struct sl_saving *s, uv_work_cb body, uv_after_work_cb after)
{
    s->work.data = s;
    s->busy = true;
    if (uv_queue_work(s->loop, &s->work, body, after) == 0)
        return;
    body(&s->work);
    after(&s->work, 0);
}

static void copy_work(uv_work_t *request)
{
    struct sl_saving *s = request->data;
    sl_snapshot_copy_rows(&s->snapshot, s->phases);
}

static void let_go(struct sl_saving *s)
{
    sl_snapshot_thaw(&s->snapshot, s->phases);
    sl_phases_release_best(s->phases);
}

static void copied(uv_work_t *request, int status)
{
    struct sl_saving *s = request->data;
    (void)status;
    s->held_ns = sl_now_ns() - s->last_ns;
    let_go(s);
    start(s, work, done);
}

// --- when ----------------------------------------------------------------------------------------

static bool is_due(const struct sl_saving *s)
{
    const struct sl_config *config = s->config;
    uint64_t version = sl_param_store_version(s->arena);
    if (version == s->last_version)
        return s->phases->told > s->last_told;
    if (config->checkpoint.every_updates &&
        version - s->last_version >= config->checkpoint.every_updates)
        return true;
    double passed = (double)(sl_now_ns() - s->last_ns) * 1e-9;
    return config->checkpoint.every_seconds > 0 && passed >= config->checkpoint.every_seconds;
}

void sl_saving_poll(struct sl_saving *s)
{
    if (!s->enabled || s->stopped || s->busy || !is_due(s))
        return;
    if (sl_snapshot_take(&s->snapshot, s->phases, false) < 0)
        return; // an update is being applied: at the next look
    s->last_version = s->snapshot.version;
    s->last_told = s->snapshot.epoch;
    s->last_ns = sl_now_ns();
    const bool rows = s->snapshot.frozen;
    if (rows)
        sl_phases_hold_best(s->phases);
    // The job is about to end where the data set was changed, and no checkpoint knows of it.
    if (sl_dataset_check_held(s->dataset) < 0 || describe(s, "running") < 0) {
        s->snapshot.best.has = false; // of which rows were not copied
        if (rows)
            let_go(s);
        return;
    }
    start(s, rows ? copy_work : work, rows ? copied : done);
}

void sl_saving_stop(struct sl_saving *s)
{
    s->stopped = true;
}

bool sl_saving_is_idle(struct sl_saving *s)
{
    s->awaited = s->busy;
    return !s->busy;
}

bool sl_saving_has_state(struct sl_saving *s)
{
    struct sl_arena *a = s->phases->arena;
    if (!s->enabled || sl_nodes_state_is_whole(a))
        return true;
    sl_nodes_ask_state(a);
    return sl_nodes_hold_is_over(a);
}

void sl_saving_finish(struct sl_saving *s, const char *status)
{
    if (!s->enabled)
        return;
    sl_phases_read_rest(s->phases);
    if (sl_dataset_check_held(s->dataset) < 0) {
        sl_joblog_write(s->log, SL_LOG_WARN, "no checkpoint at the end: %s", sl_error_message());
        return;
    }
    if (sl_snapshot_take(&s->snapshot, s->phases, true) < 0 || describe(s, status) < 0) {
        sl_joblog_write(s->log, SL_LOG_WARN, "no checkpoint at the end: %s",
                        sl_nodes_state_is_whole(s->arena)
                            ? "where the job is cannot be told"
                            : "the optimizer's state of the other nodes did not come");
        return;
    }
    if (s->phases->setup.rows) {
        start(s, work, done);
        return;
    }
    write_all(s);
    note_result(s);
}
