/*
 * summary.h - a run in twenty lines, from its report: what `sluice run` ends with.
 */
#ifndef SL_BROKER_CLI_RUN_SUMMARY_H
#define SL_BROKER_CLI_RUN_SUMMARY_H

#include <cjson/cJSON.h>

// On standard output. run_directory may be "". What the report does not have is left out.
void sl_run_summary_print(const cJSON *report, const char *run_directory);

#endif
