/*
 * run_summary.h - a run in twenty lines, from its report: what `sluice run` ends with.
 */
#ifndef SL_CLI_RUN_SUMMARY_H
#define SL_CLI_RUN_SUMMARY_H

#include <stdio.h>

#include "cli/stats_text.h"
#include "common/schema/report.h"

// run_directory may be "". What the report does not have is left out.
void sl_run_summary_print(FILE *out, const struct sl_read_report *r, const char *run_directory);

// What a run that was ended before its end had reached: the last loss, the best validation.
void sl_run_summary_so_far(FILE *out, const struct sl_read_report *r);

// How GPUs get features or the graph, in a line; way and why are a report's words (common/ipc/
// store_way.h), NULL or "": nothing. page_bytes 0: not known.
void sl_run_summary_way(FILE *out, const char *what, const char *way, const char *why,
                        double copy_bytes, double page_bytes);

// Of a report's epochs: a stage's sums, with the percentiles of the last epoch that has any; the
// sum of a number (its place in struct sl_report_epoch), 0 where it is not known.
struct sl_report_stage sl_run_summary_stage(const struct sl_read_report *r, const char *name);
// What a stage took of the time of the workers that go through it, each counted by itself: 0 to 1.
// Not a number: a report of an older sluice does not say how long workers lived.
double sl_run_summary_share(const struct sl_read_report *r, const struct sl_stage_text *stage,
                            double seconds);
double sl_run_summary_sum(const struct sl_read_report *r, size_t at);
#define SL_SUM_OF_EPOCHS(r, member) sl_run_summary_sum(r, offsetof(struct sl_report_epoch, member))

#endif
