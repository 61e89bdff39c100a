/*
 * run_view.h - what `sluice run` shows: progress and one line an epoch on standard error, the
 * summary on standard output.
 */
#ifndef SL_BROKER_CLI_RUN_VIEW_H
#define SL_BROKER_CLI_RUN_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/text/progress.h"
#include "broker/metrics.h"
#include "common/ipc/control.pb-c.h"

struct sl_run_view {
    struct sl_progress progress;
    char stage[48];
    uint64_t total; // of the stage
    uint32_t epochs;
    enum sl_measure measure;
};

// measure: what the job's evaluations are judged by.
void sl_run_view_init(struct sl_run_view *view, bool quiet, uint32_t epochs,
                      enum sl_measure measure);

void sl_run_view_progress(struct sl_run_view *view, const Sl__Control__Progress *progress);
void sl_run_view_epoch(struct sl_run_view *view, const char *json);
void sl_run_view_log(struct sl_run_view *view, const Sl__Control__LogLine *line);
// An event of the job (sluice.event/1): of those only pauses, which nothing else tells.
void sl_run_view_event(struct sl_run_view *view, const char *json);

// No bar is left on the screen.
void sl_run_view_end(struct sl_run_view *view);

// The table at the end, from the report; run_directory may be "".
void sl_run_view_summary(const char *report_json, const char *run_directory);

#endif
