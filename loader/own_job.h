/*
 * own_job.h - the job that a loader has started for itself: its broker, from the start to the end.
 *
 * The broker is this process's child. It ends when this process does (sl_launch_job.owner), and
 * when it is told to. What it writes on its standard error goes to a file without a name, whose
 * last lines say why it has gone where it could not say so itself.
 */
#ifndef SL_LOADER_OWN_JOB_H
#define SL_LOADER_OWN_JOB_H

#include <limits.h>

#include "broker/workers/launch.h"
#include "common/bus/bus.h"
#include "config/config.h"

struct sl_own_job {
    struct sl_launch launch;           // pid 0: there is none
    struct sl_bus *bus;                // of a client that hears of the end
    int log_fd;                        // -1: none
    char output[SL_CONFIG_PATH_BYTES]; // its run directory; "": it leaves no files
    int code;                          // of what is known of the end; 0: nothing is
    char why[2048];
};

struct sl_own_job_spec {
    const char *text, *origin; // the job as JSON; what messages call it
    const char *programs;      // folder, or NULL (programs.h)
};

// Reads a job's text, which `origin` is what messages call. Errors as the command line has them.
int sl_own_job_read(const char *given, const char *origin, struct sl_config *config,
                    bool *has_output);

// Reads the job and starts its broker, which checks the rest. Errors of the job file as the command
// line has them; SL_ENOENT, SL_ESYS. sl_own_job_stop() afterwards, whatever comes of it.
int sl_own_job_start(struct sl_own_job *j, const struct sl_own_job_spec *spec);

// SL_OK while it is there, else why it is not. Does not wait.
int sl_own_job_check(struct sl_own_job *j);

// Tells it to stop, and kills it if it does not within some seconds. Safe on a zeroed struct.
void sl_own_job_stop(struct sl_own_job *j);

#endif
