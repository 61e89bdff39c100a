/*
 * run_summary.h - a run in twenty lines, from its report: what `sluice run` ends with.
 */
#ifndef SL_BROKER_CLI_RUN_SUMMARY_H
#define SL_BROKER_CLI_RUN_SUMMARY_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "common/schema/stats.h"

// run_directory may be "". What the report does not have is left out.
void sl_run_summary_print(FILE *out, const cJSON *report, const char *run_directory);

// Of a report's epochs: a stage's sums, with the percentiles of the last epoch that has any; the
// sum of a number, which counts as 0 where it is not known.
struct sl_stats_stage sl_run_summary_stage(const cJSON *epochs, const char *name);
double sl_run_summary_sum(const cJSON *epochs, const char *path);

#endif
