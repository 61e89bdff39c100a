// job_list.h - the daemon's jobs and those of `sluice run` in one list, which `sluice ps` shows.
#ifndef SL_CLI_JOB_LIST_H
#define SL_CLI_JOB_LIST_H

#include "cli/session.h"

// The daemon's list (sluice.jobs/1, owned: cJSON_Delete), with jobs of `sluice run` added to it;
// these say themselves how far they are.
int sl_job_list(const struct sl_session_where *where, cJSON **list);

#endif
