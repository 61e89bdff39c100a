#include "broker/log/run_files.h"

#include <stdio.h>
#include <string.h>

#include "broker/log/joblog.h"
#include "broker/log/writer.h"
#include "common/text/units.h"
#include "common/base/error.h"

// For what was said to reach the files when the job is over. A command waits for as long, and
// longer, before it kills the broker (cli/run.c).
enum { FLUSH_MS = 5000, CLOSE_MS = 1000 };

static int open_file(struct sl_run_files *f, const char *name, struct sl_writer_file **out)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    return sl_writer_open(f->writer, path, 0, SL_WRITER_RECORDS, name, out);
}

int sl_run_files_open(struct sl_run_files *f)
{
    SL_TRY(sl_writer_start(&f->writer));
    SL_TRY(open_file(f, "metrics.jsonl", &f->metrics));
    return open_file(f, "events.jsonl", &f->events);
}

static const char *reason(const struct sl_writer_loss *loss)
{
    return loss->err ? strerror(loss->err) : "the file system does not accept it in time";
}

void sl_run_files_watch(struct sl_run_files *f)
{
    struct sl_writer_loss loss;
    while (f->writer && sl_writer_poll(f->writer, &loss)) {
        char text[sizeof f->lost];
        snprintf(text, sizeof text,
                 "writing '%.300s/%s': %s: the job goes on, and what cannot be written is missing "
                 "there",
                 f->directory, loss.name, reason(&loss));
        sl_joblog_write(f->log, SL_LOG_WARN, "%s", text);
        if (!f->lost[0])
            memcpy(f->lost, text, sizeof text);
    }
}

void sl_run_files_flush(struct sl_run_files *f)
{
    struct sl_writer_loss loss;
    struct sl_writer *w = f->writer;
    if (!w)
        return;
    uint64_t left = sl_writer_flush(w, FLUSH_MS);
    for (uint32_t i = 0; sl_writer_lost(w, i, &loss); i++)
        sl_joblog_write(f->log, SL_LOG_WARN, "%s of '%s/%s' could not be written (%s)",
                        SL_PLURAL(loss.n, "line"), f->directory, loss.name, reason(&loss));
    if (left > 0)
        sl_joblog_write(f->log, SL_LOG_WARN,
                        "the last %s of the files in '%s' could not be written "
                        "within %d s: the file system does not answer",
                        SL_PLURAL(left, "line"), f->directory, FLUSH_MS / 1000);
}

void sl_run_files_close(struct sl_run_files *f)
{
    sl_writer_close(f->writer, CLOSE_MS);
    f->writer = NULL;
    f->metrics = f->events = NULL;
}
