/*
 * run_view.h - what `sluice run` and `submit` show: progress (on a terminal) and one line an epoch
 * on standard error, how it ended on standard output.
 */
#ifndef SL_CLI_RUN_VIEW_H
#define SL_CLI_RUN_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/text/progress.h"
#include "broker/epochs/metrics.h"
#include "common/bus/control.pb-c.h"
#include "config/config.h"

struct sl_run_view {
    struct sl_progress progress;
    char stage[48];
    uint64_t total; // of the stage
    uint32_t epochs;
    enum sl_measure measure;
    char metric[SL_MEASURE_TITLE]; // its name
    bool links;
};

// measure: what the job's evaluations are judged by.
void sl_run_view_init(struct sl_run_view *view, bool quiet, const struct sl_config *config,
                      enum sl_measure measure);

// What the job's broker tells: progress, the end of an epoch, a line of the log, and of events
// (sluice.event/1) pauses, which nothing else tells. Other messages show nothing.
void sl_run_view_message(struct sl_run_view *view, const Sl__Control__Envelope *m);

// No bar is left on the screen.
void sl_run_view_end(struct sl_run_view *view);

enum sl_run_view_result {
    SL_RUN_VIEW_SUMMARY, // the tables at the end
    SL_RUN_VIEW_JSON,    // the report as it is
    SL_RUN_VIEW_NOTHING, // the exit status alone, and an error's line
};

// How the job ended. nothing: what a job that was stopped without a run directory has left. Prints
// to standard output; returns as a command does.
int sl_run_view_result(const Sl__Control__Finished *finished, const char *job,
                       enum sl_run_view_result what, const char *nothing);

#endif
