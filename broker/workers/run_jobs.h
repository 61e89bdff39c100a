/*
 * run_jobs.h - which jobs of `sluice run` this user has, so that another terminal can talk to them.
 *
 * The process table is the register: `sluice run` starts its broker with --job, --output and
 * --endpoint, and with the bus's key in a descriptor, which the kernel shows only to the same user.
 * So there is no file that a killed job could leave behind, and nothing that could be out of date.
 *
 * Of a job on several nodes the broker of the first one answers for all; the others' are left out.
 * Who attaches finds that of his machine, by the job's name or run directory; where there are
 * several of one job, one that is not the first by its folder there (node-1).
 *
 * With SLUICE_SCOPE=NAME in its environment a command knows jobs that were started with the same
 * one, and no others.
 *
 * The brokers that a daemon starts are found in the same way. For commands they are left out: they
 * are the daemon's (an --id tells), and it answers for them. Who attaches to a job, which no daemon
 * can do for him, finds them too.
 */
#ifndef SL_BROKER_WORKERS_RUN_JOBS_H
#define SL_BROKER_WORKERS_RUN_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bus/bus_key.h"

// Where another node than the first has its logs: this, and its number.
#define SL_RUNDIR_OF_NODE "node-"

struct sl_run_job {
    char name[128];
    char output[4096]; // run directory; "": it has none
    char endpoint[128];
    char key[SL_BUS_KEY_TEXT];
    pid_t pid;      // of the broker
    uint32_t node;  // of several, from 0
    double started; // Unix seconds; 0 = not known
    bool of_daemon;
};

// All of them in this scope, by age; *jobs is owned: free(). SL_ESYS when /proc cannot be read,
// SL_ENOMEM.
int sl_run_jobs_find(struct sl_run_job **jobs, size_t *n);

// The one with this name or run directory, a daemon's too. SL_ENOENT with the names that there are;
// SL_EINVAL: several are called so.
int sl_run_jobs_find_one(const char *word, struct sl_run_job *out);

#endif
