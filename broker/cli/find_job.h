/*
 * find_job.h - which jobs of this user run, so that another terminal can talk to them.
 *
 * The process table is the register: `sluice run` starts its broker with --job, --output,
 * --endpoint and --token, and whoever may read that of a process is its user, as is everybody whom
 * the broker's socket lets in. So there is no file that a killed job could leave behind, and
 * nothing that could be out of date.
 */
#ifndef SL_BROKER_CLI_FIND_JOB_H
#define SL_BROKER_CLI_FIND_JOB_H

#include <stdint.h>
#include <sys/types.h>

struct sl_found_job {
    char name[128];
    char output[4096]; // run directory
    char endpoint[128];
    uint64_t token;
    pid_t pid; // of the broker
};

/*
 * The running job of that name or run directory. SL_ENOENT with the names there are; SL_EINVAL when
 * several are meant (the run directory tells them apart).
 */
int sl_find_job(const char *job, struct sl_found_job *out);

#endif
