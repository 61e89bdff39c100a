/*
 * job.h - one job from its configuration to its report: the state machine.
 *
 *                 every worker has said Hello: arena made, parameters set, Attach
 *                 every worker is Ready: phases opened, run directory made
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
#include "broker/deaths.h"
#include "broker/joblog.h"
#include "broker/live.h"
#include "broker/loop.h"
#include "broker/memory_use.h"
#include "broker/meter.h"
#include "broker/params.h"
#include "broker/pauses.h"
#include "broker/phases.h"
#include "broker/report.h"
#include "broker/run_files.h"
#include "broker/rundir.h"
#include "broker/saving.h"
#include "broker/stalls.h"
#include "broker/supervise.h"
#include "broker/switches.h"
#include "broker/tensorboard.h"
#include "broker/timeline.h"
#include "broker/trace.h"
#include "broker/writer.h"
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
    const char *id;   // the daemon's number of the job; NULL: it is `sluice run`'s
    bool checks;      // launch.h
    const char *page; // its address, NULL for none
};

// Who asked for a change of the split.
enum sl_rebalance_by { SL_BY_PROFILE, SL_BY_SCHEDULE, SL_BY_USER };

// A change of the split under way.
struct sl_rebalance {
    bool active;
    enum sl_rebalance_by by;
    struct sl_roles from, to;
    struct sl_roles undo; // the job's before it, and ...
    bool pinned;          // ... whether the split was somebody's
    uint32_t epoch;
    bool holds_epoch; // which waits until the new split does
    uint64_t began_ns;
    struct sl_bus_peer peer; // whom to answer; n = 0: nobody
    char told[256];          // what it was told last
};

// The cores that workers share where they are a pool (allocation.cores).
struct sl_job_pool {
    uint16_t core[SL_CONFIG_MAX_CORES];  // in the order of the machine
    uint32_t n;                          // 0: each device has its own
    struct sl_stage_times sample, train; // from the last batches; 0: not measured yet
    struct sl_shape shape;               // that holds; of the split {0, 0}: none yet
    bool guessed;                        // ... until the first batches have been measured
};

// What epochs took, for forecasts of other splits.
struct sl_pace {
    struct sl_roles split; // of the last epoch that had one split all the time; 0, 0: none
    double seconds, evaluate_seconds; // of that epoch
    double factor;                    // measured / forecast, of that epoch; 0: none
    uint64_t settled_ns;              // since when the present split holds
    uint32_t first_whole;             // epoch since which nobody has changed it
};

// The group of trainers that the arena has (updates.exchange "nccl"), by device.
struct sl_job_group {
    uint32_t worker[SL_CONFIG_MAX_DEVICES]; // 0: none of that device
    uint32_t n;
    uint64_t generation; // 0: there never was one
    uint64_t told;       // the generation that was told of
    uint64_t waiting_ns; // since when somebody who is ready waits for others; 0: nobody does
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
    int acts_fd;                          // of activations (startup.c); -1 when closed
    int sums_fd;                          // of running sums of weights; -1 when closed
    uint64_t acts_bytes;                  // that it holds, 0: none

    struct sl_loop loop;
    struct sl_bus *bus;
    struct sl_clients clients;
    struct sl_joblog log;
    struct sl_crew crew;
    struct sl_deaths deaths;
    bool crew_placed;

    struct sl_roles split; // that is wanted
    bool split_chosen;     // STARTING: the first one is
    bool scouting;         // STARTING: one of each is measured before the first split is chosen
    bool pinned;           // somebody has said what the split is: it is not moved any more
    bool no_standby[SL_CONFIG_MAX_DEVICES]; // a standby trainer can not live there
    struct sl_rebalance rebalance;
    struct sl_job_group group;
    struct sl_stalls stalls;
    struct sl_roles undo; // the split before the last change that somebody asked for; 0, 0: none
    uint32_t next_schedule;
    struct sl_profile profile; // from the probe batches, or the first ones; then from each epoch
    struct sl_job_pool pool;
    bool profiled; // from an epoch
    struct sl_pace pace;
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
    struct sl_run_files files;
    struct sl_checkpoint resumed; // path is "" for a job that begins
    struct sl_saving saving;

    // what is told of it while it runs
    struct sl_meter meter;
    struct sl_live live;
    struct sl_timeline timeline;
    struct sl_trace trace;
    struct sl_tensorboard tensorboard;
    struct sl_switches switches;
    struct sl_loss_sum loss; // of the progress that is told
    struct sl_pauses pauses;

    uint64_t ticks;
    struct sl_memory_use memory;
    bool loss_warned;
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

// Makes the parts of a job known to one another: its configuration is empty as yet.
void sl_job_wire(struct sl_job *job);

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
// Starts, releases and re-assigns what can be now. An error is that of a start, while STARTING.
int sl_job_settle(struct sl_job *job);
bool sl_job_is_settled(struct sl_job *job);
// Tells standby trainers what they judge by: how many trainers there are, and the profile. There is
// an arena. sl_job_settle does so too.
void sl_job_publish_schedule(struct sl_job *job);
// Tells every trainer how many rows its cache may hold.
void sl_job_assign_caches(struct sl_job *job);
// SL_OK when the devices' memory allows the split. SL_ENOMEM. Turns standby trainers off that have
// no room.
int sl_job_check_budgets(struct sl_job *job, struct sl_roles split);
// The same without any effect: which devices would have no standby trainer.
int sl_job_try_budgets(struct sl_job *job, struct sl_roles split,
                       bool no_standby[SL_CONFIG_MAX_DEVICES]);
// What the split is waited for, in words; false and "" when nothing is.
bool sl_job_settling_text(struct sl_job *job, char *out, size_t bytes);

// pool.c: cores that workers share; nothing in a job whose devices have cores of their own
void sl_job_open_pool(struct sl_job *job);
struct sl_shape_question sl_job_shape_question(const struct sl_job *job);
// Takes what the last batches took; false when fewer than that have been measured.
bool sl_job_learn_pool(struct sl_job *job, uint64_t batches);
// Whenever the wanted split may have changed, or what is known of the stages.
void sl_job_divide_pool(struct sl_job *job);

// group.c: who sums gradients with whom. After whatever may change it: a death (once its leases
// are taken back), a Ready, a tick. Nothing in a job whose gradients go through the board.
void sl_job_form_group(struct sl_job *job);

// scale.c: changes of the split
void sl_job_on_scale(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Scale *scale);
// From the probe batches; of a pool a guess, until sl_job_choose_by_first_batches(). SL_ENOMEM.
int sl_job_choose_first_split(struct sl_job *job);
void sl_job_choose_by_first_batches(struct sl_job *job); // on each tick
void sl_job_profile(struct sl_job *job, const struct sl_epoch_figures *figures);
// What is known for forecasts of other splits than `now`; epochs_left and move_seconds for `pays`.
struct sl_allocation_question sl_job_allocation_question(struct sl_job *job, struct sl_roles now,
                                                         uint32_t epochs_left);
// Whether trainers may begin with an epoch: not before the split that the schedule gives it holds.
bool sl_job_may_begin(struct sl_job *job, uint32_t epoch);
// From time to time while RUNNING: the schedule, and whether a change is done.
void sl_job_poll_split(struct sl_job *job);
// The member can not be filled. True when that is because of the change of the split under way:
// then the split before is the wanted one again, and whoever asked has been told why.
bool sl_job_roll_back(struct sl_job *job, struct sl_member *m, const char *why);
// The job ends: whoever waits for a change learns that it will not be.
void sl_job_cancel_rebalance(struct sl_job *job);

// requests.c
const char *sl_job_state_name(const struct sl_job *job); // "starting", "running", "paused", ...
void sl_job_on_pause(struct sl_job *job, const struct sl_bus_peer *peer);
void sl_job_on_resume(struct sl_job *job, const struct sl_bus_peer *peer);
void sl_job_end_pause(struct sl_job *job); // the job ends
void sl_job_on_describe(struct sl_job *job, const struct sl_bus_peer *peer);
void sl_job_on_subscribe(struct sl_job *job, const struct sl_bus_peer *peer,
                         const Sl__Control__Subscribe *subscribe);

// describe.c: what clients are told
void sl_job_describe(struct sl_job *job, struct sl_json_writer *w); // sluice.describe/1

// conclude.c
void sl_job_sample_memory(struct sl_job *job);
void sl_job_conclude(struct sl_job *job);      // no worker is left: results, report, Finished
void sl_job_tell_finished(struct sl_job *job); // to the clients there are

#endif
