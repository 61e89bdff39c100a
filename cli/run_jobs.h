/*
 * run_jobs.h - which jobs of `sluice run` this user has, so that another terminal can talk to them.
 *
 * The process table is the register: `sluice run` starts its broker with --job, --output and
 * --endpoint, and with the bus's key in a descriptor, which the kernel shows only to the same user.
 * So there is no file that a killed job could leave behind, and nothing that could be out of date.
 *
 * With SLUICE_SCOPE=NAME in its environment a command knows jobs that were started with the same
 * one, and no others.
 *
 * The brokers that a daemon starts are found in the same way and left out: they are the daemon's
 * (an --id tells), and it answers for them.
 */
#ifndef SL_CLI_RUN_JOBS_H
#define SL_CLI_RUN_JOBS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bus/bus_key.h"

struct sl_run_job {
    char name[128];
    char output[4096]; // run directory
    char endpoint[128];
    char key[SL_BUS_KEY_TEXT];
    pid_t pid;      // of the broker
    double started; // Unix seconds; 0 = not known
};

// All of them in this scope, by age; *jobs is owned: free(). SL_ESYS when /proc cannot be read,
// SL_ENOMEM.
int sl_run_jobs_find(struct sl_run_job **jobs, size_t *n);

#endif
