/*
 * job_end.h - how a job ended.
 *
 * The last message of a job is Finished, which does not always arrive: a broker may be killed, and
 * a run directory may be of a job that has long been over. Then the directory's report tells.
 */
#ifndef SL_CLI_JOB_END_H
#define SL_CLI_JOB_END_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/bus/control.pb-c.h"

struct sl_job_end {
    int exit_status; // of the job: 0, 1, 2, 130
    char status[24]; // "done", "failed", "refused", "stopped"
    char message[1024];
    char directory[4096]; // the run's; "" when nothing was left
};

// "failed: why", "stopped by the user": what there is to say of it in one line. Returns buf.
char *sl_job_end_text(const struct sl_job_end *end, char *buf, size_t bytes);

// The end that a job's broker tells of.
void sl_job_end_on_finished(const Sl__Control__Finished *finished, struct sl_job_end *out);

// The end of a run from its directory. SL_ENOENT when it has no report; SL_EFORMAT.
int sl_job_end_read(const char *directory, struct sl_job_end *out);

// The report that this broker wrote there: owned, free(). NULL: there is none of its.
char *sl_job_end_report(const char *directory, pid_t broker, struct sl_job_end *out);

#endif
