/*
 * history.h - the report so far, as a checkpoint keeps it.
 *
 * A job that goes on from a checkpoint ends with one report of all of it: entries of epochs that
 * are complete, decisions, deaths and sums are taken over; figures of single batches of the
 * unfinished epoch are in the checkpoint's records.
 */
#ifndef SL_BROKER_RUNDIR_HISTORY_H
#define SL_BROKER_RUNDIR_HISTORY_H

#include <cjson/cJSON.h>

#include "broker/rundir/report.h"

// As JSON text (owned: free()); NULL without memory.
char *sl_history_write(const struct sl_report *r);

// Takes back what sl_history_write() wrote into an empty report. SL_EFORMAT for anything else.
int sl_history_read(struct sl_report *r, const cJSON *history);

// The entries of the complete epochs as lines of JSON (owned: free()), for metrics.jsonl.
char *sl_history_metrics(const cJSON *history);

#endif
