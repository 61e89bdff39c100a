/*
 * run_summary.h - a run in twenty lines, from its report: what `sluice run` ends with.
 */
#ifndef SL_CLI_RUN_SUMMARY_H
#define SL_CLI_RUN_SUMMARY_H

#include <stdio.h>

#include "common/schema/report.h"

// run_directory may be "". What the report does not have is left out.
void sl_run_summary_print(FILE *out, const struct sl_read_report *r, const char *run_directory);

// What a run that was ended before its end had reached: the last loss, the best validation.
void sl_run_summary_so_far(FILE *out, const struct sl_read_report *r);

// How GPUs get features or the graph, in a line; way and why are a report's words (common/arena/
// store_way.h), NULL or "": nothing. page_bytes 0: not known.
void sl_run_summary_way(FILE *out, const char *what, const char *way, const char *why,
                        double copy_bytes, double page_bytes);

#endif
