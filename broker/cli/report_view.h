/*
 * report_view.h - a run's account for people: the summary, epochs, what limited them, decisions on
 * the split, deaths, events.
 */
#ifndef SL_BROKER_CLI_REPORT_VIEW_H
#define SL_BROKER_CLI_REPORT_VIEW_H

#include <stdbool.h>

#include <cjson/cJSON.h>

enum { SL_REPORT_VIEW_NEWEST = 20 }; // rows of a table, unless all are wanted

// On standard output. run: sluice.describe/1 (account.h); all: every epoch and event.
void sl_report_view_print(const cJSON *run, bool all);

#endif
