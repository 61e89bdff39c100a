/*
 * job.h - one job from its configuration to its report: the state machine.
 *
 *                 every worker has said Hello: arena made, parameters set, Attach
 *                 every worker is Ready: run directory made, phases opened
 *      STARTING ------------------------------------------------------------> RUNNING
 *          |                                                                     |
 *          |  a worker failed or keeps dying, it does not fit, Ctrl-C            | last phase read,
 *          |                                                                     | or the same
 *          +-------------------------> FINISHING <-------------------------------+
 *                                          |  abort word set, Stop sent; whoever does not leave in
 *                                          |  time is killed; the last one is gone
 *                                          v
 *                                        ENDED    results written, clients told, loop closed
 *
 * The seats of the arena (common/ipc/seat.h) are the members of the crew; `split` says how many
 * devices sample and train, and settle.c brings the seats there, at the start as at any change
 * while the job runs.
 *
 * The reason to finish is kept from its first occurrence: what goes wrong while workers are being
 * stopped is a consequence. Nothing is written before RUNNING, so a job that can not run leaves
 * nothing behind; from RUNNING on there is always a report, however it ends.
 */
#ifndef SL_BROKER_JOB_H
#define SL_BROKER_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/allocate.h"
#include "broker/budget.h"
#include "broker/client.h"
#include "broker/joblog.h"
#include "broker/loop.h"
#include "broker/params.h"
#include "broker/phases.h"
#include "broker/report.h"
#include "broker/rundir.h"
#include "broker/saving.h"
#include "broker/supervise.h"
#include "common/data/dataset.h"
#include "common/ipc/arena.h"
#include "config/config.h"

enum sl_job_state { SL_JOB_STARTING, SL_JOB_RUNNING, SL_JOB_FINISHING, SL_JOB_ENDED };

// The values are exit statuses.
enum sl_outcome {
    SL_OUTCOME_DONE = 0,
    SL_OUTCOME_FAILED = 1,
    SL_OUTCOME_REFUSED = 2, // it can not run as it is
    SL_OUTCOME_STOPPED = 130,
};

enum { SL_JOB_MESSAGE_BYTES = 2048 };

struct sl_job_options {
    const char *endpoint;
    uint64_t token;
    const char *config_text; // resolved job file
    size_t config_bytes;
    const char *report_path; // NULL for none but the run directory's
    const char *resume;      // the checkpoint to go on from, NULL to begin anew
    const char *worker_directory;
};

// How a member died last, to explain why it is given up.
struct sl_job_death {
    char cause[160];
    char held[96];
    char last_lines[1024];
};

// Who asked for a change of the split.
enum sl_rebalance_by { SL_BY_PROFILE, SL_BY_SCHEDULE, SL_BY_USER };

// A change of the split under way.
struct sl_rebalance {
    bool active;
    enum sl_rebalance_by by;
    struct sl_roles from;
    uint32_t epoch;
    bool holds_epoch; // which waits until the new split does
    uint64_t began_ns;
    struct sl_bus_peer peer; // whom to answer; n = 0: nobody
};

struct sl_job {
    struct sl_job_options options;
    enum sl_job_state state;
    enum sl_outcome outcome;
    char message[SL_JOB_MESSAGE_BYTES]; // why, when the outcome is not DONE
    uint64_t start_ns, running_ns;

    struct sl_config config;
    char *config_json; // resolved (owned)
    struct sl_dataset dataset;
    int config_fd, arena_fd, doorbell_fd; // -1 when closed

    struct sl_loop loop;
    struct sl_bus *bus;
    struct sl_clients clients;
    struct sl_joblog log;
    struct sl_crew crew;
    struct sl_job_death *deaths; // (members)
    bool crew_placed;

    struct sl_roles split; // that is wanted
    bool split_chosen;     // STARTING: the first one is
    bool scouting;         // STARTING: one of each is measured before the first split is chosen
    bool pinned;           // somebody has said what the split is: it is not moved any more
    bool no_standby[SL_CONFIG_MAX_DEVICES]; // a standby trainer can not live there
    struct sl_rebalance rebalance;
    uint32_t next_schedule;
    struct sl_profile profile; // from the probe batches, then from each epoch
    bool profiled;             // from an epoch
    struct sl_budget_need need;
    uint64_t available_bytes;                      // of the machine's memory when the job began
    uint64_t cache_load_ns[SL_CONFIG_MAX_DEVICES]; // last known: a seat's words die with its worker
    double sampler_load_seconds, trainer_load_seconds; // the longest so far

    uint64_t block_bytes_max, block_bytes_mean, probe_bytes;
    uint32_t infer_width, jumping_width;
    struct sl_params params;
    struct sl_arena arena; // base is NULL until every worker has said Hello
    struct sl_phases phases;
    struct sl_report report;
    struct sl_rundir rundir;
    struct sl_checkpoint resumed; // path is "" for a job that begins
    struct sl_saving saving;

    uint64_t ticks;
    uint64_t peak_memory, broker_peak_bytes;
    bool loss_warned, metrics_warned;
    char *report_text; // owned
    bool told;         // a client has been sent Finished
    uint64_t ended_ns;
};

/*
 * Runs one job to its end and returns an exit status (enum sl_outcome). The reason for anything but
 * success goes to the clients; when no client was there it goes to standard error.
 */
int sl_job_run(const struct sl_job_options *options);

// --- between job.c, startup.c and conclude.c ---

// Begins to finish, for this reason. Only the first call counts.
void sl_job_end(struct sl_job *job, enum sl_outcome outcome, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// startup.c
int sl_job_prepare(struct sl_job *job); // configuration, data set, workers
void sl_job_on_hello(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Hello *hello);
void sl_job_on_ready(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Ready *ready);
void sl_job_check_start(struct sl_job *job);               // from time to time while STARTING
extern const struct sl_crew_events sl_job_crew_events;     // job.c
extern const struct sl_phases_events sl_job_phases_events; // job.c

// settle.c: brings the seats to the duties that the split asks for
struct sl_member *sl_job_member(struct sl_job *job, enum sl_role role, uint32_t device);
enum sl_duty sl_job_duty(const struct sl_job *job, enum sl_role role, uint32_t device);
// Starts, releases and re-assigns what can be now. An error is that of a start.
int sl_job_settle(struct sl_job *job);
bool sl_job_is_settled(struct sl_job *job);
// Tells every trainer how many rows its cache may hold.
void sl_job_assign_caches(struct sl_job *job);
// SL_OK when the devices' memory allows the split. SL_ENOMEM. Turns standby trainers off that have
// no room.
int sl_job_check_budgets(struct sl_job *job, struct sl_roles split);

// scale.c: changes of the split
void sl_job_on_scale(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Scale *scale);
int sl_job_choose_first_split(struct sl_job *job); // from the probe batches; SL_ENOMEM
void sl_job_profile(struct sl_job *job, const struct sl_epoch_figures *figures);
// Whether trainers may begin with an epoch: not before the split that the schedule gives it holds.
bool sl_job_may_begin(struct sl_job *job, uint32_t epoch);
// From time to time while RUNNING: the schedule, and whether a change is done.
void sl_job_poll_split(struct sl_job *job);
// The job ends: whoever waits for a change learns that it will not be.
void sl_job_cancel_rebalance(struct sl_job *job);

// conclude.c
void sl_job_sample_memory(struct sl_job *job);
void sl_job_conclude(struct sl_job *job);      // no worker is left: results, report, Finished
void sl_job_tell_finished(struct sl_job *job); // to the clients there are

#endif
