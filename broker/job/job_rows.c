/*
 * job_rows.c - learned rows of a job: made while its workers start, kept when it ends.
 *
 * There may be 100 GB of them, so a thread of libuv's pool fills, loads and writes them, and the
 * loop goes on answering. Until they are made no worker is told of the arena; until they are
 * written the job has not ended.
 */
#include "broker/job/job.h"

#include <stdio.h>
#include <unistd.h>

#include "common/arena/param_store.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/memory.h"
#include "common/base/threads.h"
#include "common/data/safetensors.h"
#include "common/text/units.h"

// ---- the thread ---------------------------------------------------------------------------------

static void work(uv_work_t *request)
{
    struct sl_job *job = request->data;
    struct sl_job_row_work *w = &job->row_work;
    w->rc = w->body(job);
    if (w->rc < 0)
        snprintf(w->message, sizeof w->message, "%s", sl_error_message());
}

static void done(uv_work_t *request, int status)
{
    struct sl_job *job = request->data;
    (void)status;
    job->row_work.busy = false;
    job->row_work.done_ns = sl_now_ns();
    if (job->state == SL_JOB_STARTING && sl_job_check_rows(job) < 0)
        sl_job_end(job, SL_OUTCOME_REFUSED, "%s", sl_error_message());
    else if (job->state == SL_JOB_STARTING)
        sl_job_go_on(job);
    else if (job->ending == SL_ENDING_ROWS)
        sl_job_conclude(job);
}

static void start(struct sl_job *job, int (*body)(struct sl_job *job))
{
    struct sl_job_row_work *w = &job->row_work;
    w->work.data = job;
    w->body = body;
    w->busy = uv_queue_work(&job->loop.uv, &w->work, work, done) == 0;
    if (!w->busy)
        work(&w->work);
}

int sl_job_check_rows(const struct sl_job *job)
{
    const struct sl_job_row_work *w = &job->row_work;
    return w->rc < 0 ? sl_fail(w->rc, "%s", w->message) : SL_OK;
}

// ---- before the first update --------------------------------------------------------------------

static int make(struct sl_job *job)
{
    const atomic_bool *cancel = &job->row_work.cancel;
    return job->resumed.path[0]
               ? sl_checkpoint_load_rows(&job->resumed, &job->rows, cancel)
               : sl_row_table_fill(&job->rows, job->config.seed, sl_threads_default(), cancel);
}

uint64_t sl_job_rows_to_come(const struct sl_job *job)
{
    const struct sl_row_table_shape *s = &job->rows.shape;
    const uint64_t all = job->row_work.busy ? sl_row_table_bytes(s) : 0;
    if (job->config.features.place == SL_ROWS_IN_FILE)
        return 0;
    return job->resumed.path[0] ? all : all / (2 + s->n_state); // of new ones the values
}

// Learned rows, as training begins with them: workers map them.
int sl_job_make_rows(struct sl_job *job)
{
    const struct sl_config *c = &job->config;
    const struct sl_row_table_shape shape = {.n_rows = sl_dataset_learned_rows(&job->dataset),
                                             .dim = sl_config_learned_dim(c),
                                             .n_state =
                                                 c->optimizer.kind == SL_OPTIMIZER_SGD ? 1 : 2,
                                             .n_slots = c->updates.batches_per_update};
    const bool file = c->features.place == SL_ROWS_IN_FILE;
    const uint64_t available = sl_device_memory_available();
    char wanted[SL_UNITS_BYTES], found[SL_UNITS_BYTES];
    if (shape.dim == 0)
        return SL_OK;
    const uint64_t bytes = sl_row_table_bytes(&shape);
    sl_units_exact_bytes(wanted, bytes);
    sl_units_exact_bytes(found, available);
    if (!file && bytes > available)
        return sl_fail(SL_ENOMEM,
                       "features.dim: found %u, which is %s for %llu vertices, wanted at most the "
                       "%s of memory that are available: lower it, or set features.place to "
                       "\"file\"",
                       shape.dim, wanted, (unsigned long long)shape.n_rows, found);
    if (file) {
        close(job->shared_fd[SL_SHARED_ROWS]);
        SL_TRY(job->shared_fd[SL_SHARED_ROWS] = sl_rundir_nameless(c->output));
    }
    SL_TRY(sl_row_table_create(job->shared_fd[SL_SHARED_ROWS], job->shared_fd[SL_SHARED_ROWS_WORK],
                               &shape, file, &job->rows));
    sl_joblog_write(&job->log, SL_LOG_INFO, "learned rows: %u numbers of each vertex, %s in %s",
                    shape.dim, wanted, file ? "a file" : "memory");
    start(job, make);
    return sl_job_check_rows(job);
}

// ---- behind the last one ------------------------------------------------------------------------

// Those of an update that was broken off are of nothing.
static int save(struct sl_job *job)
{
    const struct sl_row_table *t = &job->rows;
    const uint64_t version = sl_param_store_version(&job->arena);
    char path[4200];
    SL_FAILPOINT(BROKER_ROWS_SAVE);
    if (job->useful && !sl_row_table_is_at(t, version))
        return sl_fail(SL_EABORTED,
                       "learned rows: update %llu was broken off in the middle of them: go on from "
                       "the last checkpoint",
                       (unsigned long long)version + 1);
    if (job->useful) {
        const struct sl_safetensor values = {
            .ndim = 2, .shape = {t->shape.n_rows, t->shape.dim}, .data = t->values};
        SL_TRY(
            sl_row_file_save(&t->shape, t->values,
                             sl_rundir_file(&job->rundir, SL_ROW_FILE_VALUES, path, sizeof path)));
        SL_TRY(sl_safetensors_sha256(&values, 1, job->rows_sha256));
    }
    if (!job->phases.best.has)
        return SL_OK;
    return sl_row_file_save(&t->shape, t->best,
                            sl_rundir_file(&job->rundir, SL_ROW_FILE_BEST, path, sizeof path));
}

void sl_job_save_rows(struct sl_job *job)
{
    if (job->rows.head)
        start(job, save);
}
