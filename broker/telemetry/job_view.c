#include "broker/telemetry/job_view.h"

#include "broker/epochs/pauses.h"

const char *sl_job_state_name(const struct sl_job_view *job)
{
    switch (*job->state) {
    case SL_JOB_STARTING: return "starting";
    case SL_JOB_RUNNING: return sl_pauses_is_open(job->pauses) ? "paused" : "running";
    default: return "finishing";
    }
}
