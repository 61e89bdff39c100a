// job_rows.c - learned rows of a job: made before its workers start, kept when it ends.
#include "broker/job/job.h"

#include <unistd.h>

#include "common/arena/param_store.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/threads.h"
#include "common/text/units.h"

// Learned rows, as training begins with them: workers map them.
int sl_job_make_rows(struct sl_job *job)
{
    const struct sl_config *c = &job->config;
    const struct sl_row_table_shape shape = {.n_rows = job->dataset.n_nodes,
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
    SL_TRY(job->resumed.path[0] ? sl_checkpoint_load_rows(&job->resumed, &job->rows)
                                : sl_row_table_fill(&job->rows, c->seed, sl_threads_default()));
    sl_joblog_write(&job->log, SL_LOG_INFO, "learned rows: %u numbers of each vertex, %s in %s",
                    shape.dim, wanted, file ? "a file" : "memory");
    return SL_OK;
}

// Learned rows beside them. Those of an update that was broken off are of nothing.
int sl_job_save_rows(struct sl_job *job, bool last)
{
    const struct sl_row_table *t = &job->rows;
    const uint64_t version = sl_param_store_version(&job->arena);
    char path[4200];
    if (!t->head)
        return SL_OK;
    if (last && !sl_row_table_is_at(t, version))
        return sl_fail(SL_EABORTED,
                       "learned rows: update %llu was broken off in the middle of them: go on from "
                       "the last checkpoint",
                       (unsigned long long)version + 1);
    if (last)
        SL_TRY(
            sl_row_file_save(&t->shape, t->values,
                             sl_rundir_file(&job->rundir, SL_ROW_FILE_VALUES, path, sizeof path)));
    if (!job->phases.best.has)
        return SL_OK;
    return sl_row_file_save(&t->shape, t->best,
                            sl_rundir_file(&job->rundir, SL_ROW_FILE_BEST, path, sizeof path));
}
