// job_view.h - const pointers to the parts of a job, for code that only reports on it.
#ifndef SL_BROKER_TELEMETRY_JOB_VIEW_H
#define SL_BROKER_TELEMETRY_JOB_VIEW_H

#include <stdint.h>

enum sl_job_state { SL_JOB_STARTING, SL_JOB_RUNNING, SL_JOB_FINISHING, SL_JOB_ENDED };

struct sl_job_view {
    const char *id; // the daemon's number of the job; NULL: it is `sluice run`'s
    uint64_t start_ns;
    const enum sl_job_state *state;
    char *const *config_json; // resolved; NULL before it is read
    struct sl_arena *arena;   // shared with the workers anyway; base is NULL before it is there
    const struct sl_config *config;
    const struct sl_worker_pool *workers;
    const struct sl_crash_log *deaths;
    const struct sl_role_split *split;
    const struct sl_memory_use *memory;
    const struct sl_pauses *pauses;
    const struct sl_phases *phases;
    const struct sl_report *report;
    const struct sl_saving *saving;
    const struct sl_timeline *timeline;
    const struct sl_trainer_group *group;
};

// "starting", "running", "paused", "finishing"
const char *sl_job_state_name(const struct sl_job_view *job);

#endif
