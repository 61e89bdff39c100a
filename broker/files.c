/*
 * files.c - the files of the run directory that a job adds to while it runs: logs, metrics.jsonl,
 * events.jsonl, TensorBoard's. One writer (writer.h) writes all of them, so nothing on the loop
 * waits for a file while batches are in flight. (A checkpoint has the thread pool: saving.h; the
 * parameters and the report are written when no worker is left.)
 */
#include <inttypes.h>
#include <string.h>

#include "broker/job.h"
#include "common/base/error.h"

// For what was said to reach the files when the job is over. A command waits for as long, and
// longer, before it kills the broker (cli/run.c).
enum { FLUSH_MS = 5000, CLOSE_MS = 1000 };

static int open_file(struct sl_job *job, const char *name, struct sl_writer_file **out)
{
    char path[4200];
    return sl_writer_open(job->files.writer, sl_rundir_file(&job->rundir, name, path, sizeof path),
                          0, SL_WRITER_RECORDS, name, out);
}

int sl_job_open_files(struct sl_job *job)
{
    struct sl_job_files *f = &job->files;
    SL_TRY(sl_writer_start(&f->writer));
    SL_TRY(open_file(job, "metrics.jsonl", &f->metrics));
    SL_TRY(open_file(job, "events.jsonl", &f->events));
    SL_TRY(sl_tensorboard_open(&job->tensorboard, f->writer, job->rundir.path));
    SL_TRY(sl_stream_open(&job->log.stream, f->writer, job->rundir.log));
    for (uint32_t i = 0; i < job->crew.n; i++)
        SL_TRY(sl_stream_open(&job->crew.members[i].log, f->writer, job->rundir.log));
    return SL_OK;
}

static const char *reason(const struct sl_writer_loss *loss)
{
    return loss->err ? strerror(loss->err) : "the file system does not take it in time";
}

void sl_job_watch_files(struct sl_job *job)
{
    struct sl_writer_loss loss;
    while (job->files.writer && sl_writer_look(job->files.writer, &loss))
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "writing '%s/%s': %s: the job goes on, and what can not be written is "
                        "missing there",
                        job->rundir.path, loss.name, reason(&loss));
}

void sl_job_flush_files(struct sl_job *job)
{
    struct sl_writer_loss loss;
    struct sl_writer *w = job->files.writer;
    if (!w)
        return;
    uint64_t left = sl_writer_flush(w, FLUSH_MS);
    for (uint32_t i = 0; sl_writer_lost(w, i, &loss); i++)
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "%" PRIu64 " line%s of '%s/%s' could not be written (%s)", loss.n,
                        loss.n == 1 ? "" : "s", job->rundir.path, loss.name, reason(&loss));
    if (left > 0)
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "the last %" PRIu64 " line%s of the files in '%s' could not be written "
                        "within %d s: the file system does not answer",
                        left, left == 1 ? "" : "s", job->rundir.path, FLUSH_MS / 1000);
}

void sl_job_close_files(struct sl_job *job)
{
    sl_writer_close(job->files.writer, CLOSE_MS);
    job->files = (struct sl_job_files){0};
}
