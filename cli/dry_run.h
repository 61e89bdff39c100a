/*
 * dry_run.h - `sluice run --dry-run`: what a job that was checked would do, and take.
 *
 * Of a job on several nodes that a launcher has started, each looks at its own memory; they are
 * compared and the network between them is measured, as `sluice doctor --nodes` does, and the first
 * one prints.
 */
#ifndef SL_CLI_DRY_RUN_H
#define SL_CLI_DRY_RUN_H

#include "cli/job_check.h"
#include "cli/output.h"

// links: a file of `sluice doctor --nodes -o json`; NULL: none. A command's result (command.h).
int sl_dry_run(const struct sl_job_check *check, enum sl_output output, const char *links);

#endif
