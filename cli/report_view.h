/*
 * report_view.h - a run's account for people: the summary, epochs, what limited them, decisions on
 * the split, deaths, events.
 */
#ifndef SL_CLI_REPORT_VIEW_H
#define SL_CLI_REPORT_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "common/schema/report.h"

enum { SL_REPORT_VIEW_NEWEST = 20 }; // rows of a table, unless all are wanted

// run: sluice.describe/1 (run_reader.h), and its report; all: every epoch and event.
void sl_report_view_print(FILE *out, const cJSON *run, const struct sl_read_report *r, bool all);

#endif
