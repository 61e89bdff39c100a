// job_table.h - a list of jobs (sluice.jobs/1) as a table.
#ifndef SL_CLI_JOB_TABLE_H
#define SL_CLI_JOB_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

enum { SL_JOB_TABLE_RECENT_SECONDS = 300 };

// Whether an entry is shown without --all: what is not over, and what ended a short while ago.
bool sl_job_table_is_recent(const cJSON *entry, double now);

/*
 * A line about the daemon, where there is one, and a table of the jobs; n_left_out jobs that were
 * not asked for are counted below. `now` in Unix seconds. columns: a job's note that does not fit
 * stands below its line, 0 = never.
 */
void sl_job_table_print(const cJSON *list, double now, unsigned columns, size_t n_left_out,
                        FILE *out);

// What is worth knowing of an entry besides numbers: "1st: waits for core 0, ...". Returns buf.
char *sl_job_table_note(const cJSON *entry, char *buf, size_t bytes);

#endif
