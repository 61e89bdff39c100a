// job_wiring.c - wires the components of a job and their callbacks.
#include "broker/job/job.h"

#include <math.h>

#include "common/device/cores.h"

uint32_t sl_job_epoch(const struct sl_job *job)
{
    uint32_t epoch = 0;
    uint64_t batches;
    if (job->phases.arena)
        sl_phases_trains(&job->phases, &epoch, &batches);
    return epoch;
}

// --- what they tell ------------------------------------------------------------------------------

static struct sl_timeline_place where(void *ctx)
{
    const struct sl_job *job = ctx;
    return (struct sl_timeline_place){sl_job_epoch(job), job->split.roles.samplers,
                                      job->split.roles.trainers};
}

static void on_event(void *ctx, const char *kind, const char *text)
{
    struct sl_job *job = ctx;
    sl_trace_on_event(&job->trace, kind, text);
}

static void on_restart(void *ctx, const struct sl_report_restart *restart)
{
    struct sl_job *job = ctx;
    sl_report_add_restart(&job->report, restart);
}

static void on_holds(void *ctx)
{
    struct sl_job *job = ctx;
    sl_phases_open_gates(&job->phases);
}

static void on_assigned(void *ctx)
{
    struct sl_job *job = ctx;
    sl_trainer_group_form(&job->group);
    sl_trace_on_seats(&job->trace);
}

static void on_cores(void *ctx, uint32_t device, const struct sl_cores *cores)
{
    struct sl_job *job = ctx;
    struct sl_device_config *d = &job->config.devices[device];
    d->n_cores = sl_cores_list(cores, d->cores, SL_CONFIG_MAX_CORES);
}

static void on_decision(void *ctx, const struct sl_report_allocation *decision)
{
    struct sl_job *job = ctx;
    sl_report_add_allocation(&job->report, decision);
}

static void on_change(void *ctx, const struct sl_report_scale *change)
{
    struct sl_job *job = ctx;
    sl_report_add_scale(&job->report, change);
}

static void on_saved(void *ctx)
{
    sl_job_conclude(ctx);
}

// --- what they are given -------------------------------------------------------------------------

static void wire_workers(struct sl_job *job)
{
    job->stalls = (struct sl_stalls){
        .config = &job->config,
        .arena = &job->arena,
        .workers = &job->workers,
        .log = &job->log,
        .timeline = &job->timeline,
    };
    job->deaths = (struct sl_crash_log){
        .start_ns = job->start_ns,
        .workers = &job->workers,
        .arena = &job->arena,
        .log = &job->log,
        .timeline = &job->timeline,
        .on_restart = on_restart,
        .ctx = job,
    };
}

static void wire_split(struct sl_job *job)
{
    job->split = (struct sl_role_split){
        .start_ns = job->start_ns,
        .config = &job->config,
        .dataset = &job->dataset,
        .phases = &job->phases,
        .meter = &job->meter,
        .arena = &job->arena,
        .workers = &job->workers,
        .clients = &job->clients,
        .log = &job->log,
        .timeline = &job->timeline,
        .events = {.on_holds = on_holds,
                   .on_assigned = on_assigned,
                   .on_cores = on_cores,
                   .on_decision = on_decision,
                   .on_change = on_change},
        .ctx = job,
    };
    job->group = (struct sl_trainer_group){
        .split = &job->split,
        .arena = &job->arena,
        .log = &job->log,
        .timeline = &job->timeline,
    };
}

static void wire_run(struct sl_job *job)
{
    job->files = (struct sl_run_files){.directory = job->rundir.path, .log = &job->log};
    job->saving = (struct sl_saving){
        .start_ns = job->start_ns,
        .loop = &job->loop.uv,
        .config = &job->config,
        .config_json = &job->config_json,
        .dataset = &job->dataset,
        .arena = &job->arena,
        .phases = &job->phases,
        .params = &job->params,
        .split = &job->split,
        .report = &job->report,
        .rundir = &job->rundir,
        .resumed = &job->resumed,
        .log = &job->log,
        .timeline = &job->timeline,
        .on_idle = on_saved,
        .ctx = job,
    };
}

static void wire_telling(struct sl_job *job)
{
    job->timeline.setup = (struct sl_timeline_setup){
        .job = job->config.name,
        .id = job->options.id,
        .start_ns = job->start_ns,
        .clients = &job->clients,
        .files = &job->files,
        .where = where,
        .on_event = on_event,
        .ctx = job,
    };
    job->switches = (struct sl_switches){.arena = &job->arena, .timeline = &job->timeline};
    job->meter = (struct sl_meter){
        .arena = &job->arena,
        .workers = &job->workers,
        .phases = &job->phases,
        .pauses = &job->pauses,
        .loss = NAN,
        .last_epoch_seconds = NAN,
    };
    job->live = (struct sl_live){
        .job = &job->view,
        .meter = &job->meter,
        .clients = &job->clients,
        .log = &job->log,
        .tell_at_ns = job->start_ns + 1000000000,
    };
    job->trace = (struct sl_trace){.job = &job->view, .clients = &job->clients, .log = &job->log};
}

static void show(struct sl_job *job)
{
    job->view = (struct sl_job_view){
        .id = job->options.id,
        .start_ns = job->start_ns,
        .state = &job->state,
        .config_json = &job->config_json,
        .arena = &job->arena,
        .config = &job->config,
        .workers = &job->workers,
        .deaths = &job->deaths,
        .split = &job->split,
        .memory = &job->memory,
        .pauses = &job->pauses,
        .phases = &job->phases,
        .report = &job->report,
        .saving = &job->saving,
        .timeline = &job->timeline,
        .group = &job->group,
    };
}

void sl_job_wire(struct sl_job *job)
{
    show(job);
    wire_workers(job);
    wire_split(job);
    wire_run(job);
    wire_telling(job);
}
