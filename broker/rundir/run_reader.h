/*
 * run_reader.h - reads a run directory: its report, or what is known so far of a run without one.
 *
 * A run that ended has a report. One that is under way, or that was killed, has its configuration,
 * a line of metrics.jsonl for each epoch, events.jsonl, and what its newest checkpoint knows of
 * decisions and deaths: of these a report "so far" is made, with status "running" (a process holds
 * the directory's lock) or "interrupted" and null for what is known only at the end.
 */
#ifndef SL_BROKER_RUNDIR_RUN_READER_H
#define SL_BROKER_RUNDIR_RUN_READER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

// Whether `path` is a directory that a run has begun in.
bool sl_run_reader_is_run(const char *path);

/*
 * The run as sluice.describe/1 with its report (sluice.report/1) in "report"; *out is owned. Half a
 * line at the end of a file is passed over. SL_ENOENT: no run directory; SL_EACCESS; SL_EFORMAT
 * with what is damaged; SL_ENOMEM.
 */
int sl_run_reader_describe(const char *run, cJSON **out);

// The text of RUN/report.json as it is (owned: free()). SL_ENOENT where there is none yet.
int sl_run_reader_report_text(const char *run, char **out);

#endif
