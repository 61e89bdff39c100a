/*
 * job_end.h - waiting for a job's end, and what it was.
 *
 * The last word of a job is a Finished message. It is not always heard: a broker may be killed, and
 * a run directory may be of a job that has long been over. Then the run directory's report tells.
 */
#ifndef SL_BROKER_CLI_JOB_END_H
#define SL_BROKER_CLI_JOB_END_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/cli/session.h"

struct sl_job_end {
    int exit_status; // of the job: 0, 1, 2, 130
    char status[24]; // "done", "failed", "refused", "stopped"
    char message[1024];
    char directory[4096]; // the run's; "" when nothing was left
};

// "failed: why", "stopped by the user": what there is to say of it in one line. Returns buf.
char *sl_job_end_text(const struct sl_job_end *end, char *buf, size_t bytes);

// What is told between now and the end. An error ends the waiting.
typedef int sl_job_end_look(void *ctx, const Sl__Control__Envelope *m);

/*
 * Waits for the end of a session's job, which must be subscribed to. until_ns 0: without end. look
 * may be NULL. SL_OK, SL_ETIMEDOUT (no message), SL_EABORTED, look's error, SL_EFAILED when the
 * other side has gone and nothing tells how the job ended. *last, when not NULL, gets the Finished
 * message if there was one (sl_bus_message_free), else NULL.
 */
int sl_job_end_await(struct sl_session *s, uint64_t until_ns, sl_job_end_look *look, void *ctx,
                     struct sl_job_end *out, Sl__Control__Envelope **last);

// The end of a run from its directory. SL_ENOENT when it has no report; SL_EFORMAT.
int sl_job_end_read(const char *directory, struct sl_job_end *out);

#endif
