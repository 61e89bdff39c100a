// dry_run.h - `sluice run --dry-run`: what a job that was checked would do, and take.
#ifndef SL_CLI_DRY_RUN_H
#define SL_CLI_DRY_RUN_H

#include "cli/job_check.h"
#include "cli/output.h"

// A command's result (command.h).
int sl_dry_run(const struct sl_job_check *check, enum sl_output output);

#endif
