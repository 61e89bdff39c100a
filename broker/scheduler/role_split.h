/*
 * role_split.h - how many devices sample and how many train: what is wanted, and how a change is
 * carried out.
 *
 * The first split, those that the profile chooses, that the schedule has and that the user asks
 * for. One change at a time. It is refused with the reason when it cannot be (more roles than
 * devices, nobody left to train, a device without the memory, another change under way); otherwise
 * the new split becomes the wanted one, seats are brought there while the job goes on
 * (worker_assign.c), and the client that asked is answered once it holds. Nothing is lost: a worker
 * that has to leave finishes or returns what it has in hand, and one that is killed instead has its
 * batches taken back.
 *
 * A split that the user or the schedule asked for stays: the profile does not move it any more.
 *
 * Decisions go upwards as events; phases and measurements are only read.
 */
#ifndef SL_BROKER_SCHEDULER_ROLE_SPLIT_H
#define SL_BROKER_SCHEDULER_ROLE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/scheduler/allocate.h"
#include "broker/placement/budget.h"
#include "broker/log/client.h"
#include "broker/meter/meter.h"
#include "broker/epochs/phases.h"
#include "broker/placement/placement.h"
#include "common/schema/report.h"
#include "broker/sharding/shard_inputs.h"
#include "broker/workers/worker_pool.h"
#include "common/data/dataset.h"
#include "common/device/cores.h"
#include "config/config.h"

struct sl_joblog;
struct sl_timeline;

// Who asked for a change of the split.
enum sl_split_by { SL_BY_PROFILE, SL_BY_SCHEDULE, SL_BY_USER };

// A change of the split under way.
struct sl_split_change {
    bool active;
    enum sl_split_by by;
    struct sl_roles from, to;
    struct sl_roles undo; // the job's before it, and ...
    bool pinned;          // ... whether the split was pinned
    uint32_t epoch;
    bool holds_epoch; // which waits until the new split does
    uint64_t began_ns;
    struct sl_bus_peer peer; // the client to answer; n = 0: none
    char told[256];          // what it was told last
};

// The cores that workers share where they are a pool (allocation.cores).
struct sl_core_pool {
    uint16_t core[SL_CONFIG_MAX_CORES];  // in the order of the machine
    uint32_t n;                          // 0: each device has its own
    struct sl_stage_times sample, train; // from the last batches; 0: not measured yet
    struct sl_core_layout shape;         // that holds; of the split {0, 0}: none yet
    bool guessed;                        // ... until the first batches have been measured
};

// Which GPUs hold which features together, and which edges of the graph.
struct sl_split_store {
    struct sl_store_rates rates;
    const struct sl_store_curve *curve[SL_PEER_MEMORY_PLANNED]; // borrowed; NULL: not known
    enum sl_duty duty[SL_CONFIG_MAX_DEVICES]; // of the trainers that the plan is of
    // Edges that the samplers which have said Hello have room for, 0 of one that has to leave;
    // and bit d: the plan has parts of that one's.
    uint64_t graph_room[SL_CONFIG_MAX_DEVICES];
    uint64_t graph_of;
    bool graph_planned; // since caches are given out, when links are known
    struct sl_shard_plan plan[SL_PEER_MEMORY_PLANNED];
};

// What epochs took, for forecasts of other splits.
struct sl_pace {
    struct sl_roles split; // of the last epoch that had one split all the time; 0, 0: none
    double seconds, evaluate_seconds; // of that epoch
    double factor;                    // measured / forecast, of that epoch; 0: none
    uint64_t holds_since_ns;          // since when the present split holds
    uint32_t first_whole;             // epoch since which nobody has changed it
};

struct sl_split_events {
    // The split that the schedule gives an epoch may hold now: trainers may begin (may_begin).
    void (*on_holds)(void *ctx);
    // Seats may have other duties or other workers.
    void (*on_assigned)(void *ctx);
    // Workers of that device have these cores of the pool.
    void (*on_cores)(void *ctx, uint32_t device, const struct sl_cores *cores);
    // For the report: what was decided, and how a change went.
    void (*on_decision)(void *ctx, const struct sl_report_allocation *decision);
    void (*on_change)(void *ctx, const struct sl_report_scale *change);
};

enum sl_split_stage { SL_SPLIT_STARTS, SL_SPLIT_RUNS, SL_SPLIT_ENDS };

struct sl_role_split {
    uint64_t start_ns; // of the job
    // borrowed
    const struct sl_config *config;
    const struct sl_dataset *dataset;
    const struct sl_phases *phases;
    const struct sl_meter *meter;
    struct sl_arena *arena; // base is NULL until every worker has said Hello
    struct sl_worker_pool *workers;
    struct sl_clients *clients;
    struct sl_joblog *log;
    struct sl_timeline *timeline;
    struct sl_split_events events;
    void *ctx;

    enum sl_split_stage stage;
    struct sl_roles roles; // that are wanted
    bool chosen;           // while it starts: the first ones are
    bool scouting;         // one of each is measured before the first split is chosen
    bool pinned;           // the job file or a user fixed the split: it is not moved any more
    bool no_standby[SL_CONFIG_MAX_DEVICES]; // a standby trainer cannot live there
    struct sl_split_change change;
    struct sl_roles undo; // the split before the last change that was asked for; 0, 0: none
    uint32_t next_schedule;
    struct sl_profile profile; // from the probe batches, or the first ones; then from each epoch
    bool profiled;             // from an epoch
    struct sl_core_pool pool;
    struct sl_pace pace;
    struct sl_split_store store;
    struct sl_budget_need need;
    uint64_t available_bytes; // of the machine's memory when the job began, within its own bound
    struct sl_budget_memory memory;
    double sampler_load_seconds, trainer_load_seconds; // the longest so far
};

// --- the start ---

// The split that the job begins with, at batch `batch` of epoch `epoch`, or the scouts'. asked:
// what the user asked for before the job was interrupted; 0, 0: nothing.
void sl_split_begin_with(struct sl_role_split *s, uint32_t epoch, uint32_t batch,
                         struct sl_roles asked);
// The largest of the splits that it begins with and that the schedule names, and the mini-batches
// in hand under the largest that the job may come to without anybody's asking: for the arena.
struct sl_roles sl_split_largest_named(const struct sl_role_split *s);
uint64_t sl_split_batches_most(const struct sl_role_split *s);
void sl_split_open_pool(
    struct sl_role_split *s); // nothing in a job whose devices have their own cores
// What a worker has measured.
void sl_split_on_hello(struct sl_role_split *s, const struct sl_pool_worker *w,
                       const Sl__Control__Hello *hello);
void sl_split_on_ready(struct sl_role_split *s, const struct sl_pool_worker *w,
                       const Sl__Control__Ready *ready);
// From the probe batches; of a pool a guess, until sl_split_choose_by_first_batches(). SL_ENOMEM.
int sl_split_choose_first(struct sl_role_split *s);
void sl_split_run(struct sl_role_split *s); // the job runs: the split may be changed

// --- seats ---

struct sl_pool_worker *sl_split_worker(const struct sl_role_split *s, enum sl_role role,
                                       uint32_t device);
enum sl_duty sl_split_duty(const struct sl_role_split *s, enum sl_role role, uint32_t device);
// Starts, releases and re-assigns what can be now. An error is that of a start, while the job
// starts.
int sl_split_assign(struct sl_role_split *s);
bool sl_split_is_assigned(const struct sl_role_split *s);
// Tells standby trainers what they judge by: how many trainers there are, and the profile. There is
// an arena. sl_split_assign does so too.
void sl_split_publish(struct sl_role_split *s);
// Tells every trainer how many rows its cache may hold.
void sl_split_assign_caches(struct sl_role_split *s);
// SL_OK when the devices' memory allows these roles. SL_ENOMEM. Turns standby trainers off that
// have no room.
int sl_split_check_budgets(struct sl_role_split *s, struct sl_roles roles);

// --- while it runs ---

void sl_split_on_request(struct sl_role_split *s, const struct sl_bus_peer *peer,
                         const Sl__Control__Scale *scale);
void sl_split_choose_by_first_batches(struct sl_role_split *s); // on each tick
void sl_split_on_epoch(struct sl_role_split *s, const struct sl_epoch *figures);
// What is known for forecasts of other splits than `now`; epochs_left and move_seconds for `pays`.
struct sl_allocation_question sl_split_question(const struct sl_role_split *s, struct sl_roles now,
                                                uint32_t epochs_left);
// Whether trainers may begin with an epoch: not before the split that the schedule gives it holds.
bool sl_split_may_begin(const struct sl_role_split *s, uint32_t epoch);
// From time to time while the job runs: the schedule, and whether a change is done.
void sl_split_poll(struct sl_role_split *s);
// The worker cannot be started. True when that is because of the change of the split under way:
// then the split before is the wanted one again, and the client has been told why.
bool sl_split_roll_back(struct sl_role_split *s, struct sl_pool_worker *w, const char *why);
// The job ends: a client that waits for a change is told that it will not happen.
void sl_split_end(struct sl_role_split *s);

#endif
