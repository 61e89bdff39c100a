/*
 * job_lookup.h - the jobs that a word on the command line may mean: the daemon's (sluice.jobs/1)
 * and those of `sluice run`.
 *
 * A job is named by id, name or run directory, in this order. A daemon keeps jobs that are over, so
 * several may have one name: the one that is not over is meant, else the newest.
 */
#ifndef SL_CLI_JOB_LOOKUP_H
#define SL_CLI_JOB_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "broker/workers/run_jobs.h"

// One of both kinds. Strings are borrowed from what the list was made of.
struct sl_listed_job {
    const char *id; // "" for `sluice run`
    const char *name, *output, *state;
    bool over;                      // done, failed or stopped; interrupted ones are not working
    bool working;                   // starting, running, paused, finishing
    const cJSON *entry;             // of the daemon's list; NULL for `sluice run`
    const struct sl_run_job *found; // NULL for the daemon's
    bool marked;                    // what a look-up is about; private
};

struct sl_job_lookup {
    struct sl_listed_job *jobs; // owned; the daemon's first
    size_t n;
};

// Both sources may be NULL; they must outlive the list. SL_ENOMEM.
int sl_job_lookup_init(struct sl_job_lookup *list, const cJSON *daemon_list,
                       const struct sl_run_job *found, size_t n_found);
void sl_job_lookup_fini(struct sl_job_lookup *list); // safe on a zeroed struct

/*
 * The job that `word` means. SL_ENOENT with the nearest name, or with what there is; SL_EINVAL when
 * several are meant, with what tells them apart. `hint` ("" for none) ends the first message: what
 * to do when there is no daemon.
 */
int sl_job_lookup_find(struct sl_job_lookup *list, const char *word, const char *hint,
                       const struct sl_listed_job **out);

// The one that is meant when none is named: the only one that works, else the only one that waits.
// SL_ENOENT; SL_EINVAL with their names.
int sl_job_lookup_only(struct sl_job_lookup *list, const char *hint,
                       const struct sl_listed_job **out);

#endif
