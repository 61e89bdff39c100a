/*
 * saving.h - when a job makes checkpoints; it never waits for them.
 *
 * A snapshot is taken on the loop as soon as one is due (checkpoint.every_updates have been applied
 * since the last one, or checkpoint.every_seconds have passed and anything has, or the last one
 * holds all updates and was made before the evaluation behind them ended) and the apply lock is
 * free; a thread of libuv's pool writes it, and before that copies learned rows, while no update is
 * made. One is under way at a time; what becomes due
 * meanwhile is made afterwards. One more is written at the end, however the job ends, when no
 * worker is left. Of several nodes the first one alone makes them. What cannot be written (a full
 * disk) is a warning, once, and the job goes on.
 */
#ifndef SL_BROKER_RUNDIR_SAVING_H
#define SL_BROKER_RUNDIR_SAVING_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "broker/rundir/checkpoint.h"
#include "broker/rundir/snapshot.h"

struct sl_role_split;
struct sl_joblog;
struct sl_report;
struct sl_rundir;
struct sl_timeline;

struct sl_saving {
    uint64_t start_ns; // of the job
    // borrowed
    uv_loop_t *loop;
    const struct sl_config *config;
    char *const *config_json;
    const struct sl_dataset *dataset;
    const struct sl_arena *arena;
    struct sl_phases *phases;
    const struct sl_params *params;
    const struct sl_role_split *split;
    const struct sl_report *report;
    const struct sl_rundir *rundir;
    const struct sl_checkpoint *resumed; // that the job goes on from; path is "" for none
    struct sl_joblog *log;
    struct sl_timeline *timeline;
    void (*on_idle)(void *ctx); // what sl_saving_is_idle() said to wait for is written
    void *ctx;

    bool enabled;
    bool stopped;                // the job ends: nothing is begun any more but the last one
    struct sl_snapshot snapshot; // being written while busy
    struct sl_checkpoint_content content;
    char *history;                  // owned, of content
    uint64_t last_version, last_ns; // of the last one, written or not
    uint32_t last_told;             // epochs that were complete then
    uint64_t n_written, written_version;
    bool has_best; // RUN/model.best.safetensors is of best_epoch
    uint32_t best_epoch;
    uv_timer_t timer; // with every_updates: looks more often than the loop's tick
    bool has_timer;
    uv_work_t work;
    uint64_t held_ns; // updates were, for learned rows
    bool busy, warned;
    bool awaited; // the job waits for it with its end
    int rc;
    char message[512]; // when rc < 0
};

// After the phases have been set up.
int sl_saving_init(struct sl_saving *s);
void sl_saving_close(struct sl_saving *s); // what it has on the loop, at the job's end
void sl_saving_fini(struct sl_saving *s);  // safe on a zeroed struct

// Whether a job makes checkpoints.
bool sl_saving_is_wanted(const struct sl_config *config);

// From time to time while the job runs: takes and writes what is due.
void sl_saving_poll(struct sl_saving *s);

void sl_saving_stop(struct sl_saving *s);
// At the end. False while an earlier one is being written: on_idle is called then.
bool sl_saving_is_idle(struct sl_saving *s);
// Samplers and trainers have left: whether the last one may be made. On several nodes false while
// the others' part of the state is on its way, which the link brings (it rings the doorbell); for
// SL_NODES_HOLD_MS at most. Where the link has died, it is not to be waited for.
bool sl_saving_has_state(struct sl_saving *s);
// Where there are learned rows a thread of the pool writes it: sl_saving_is_idle() then.
void sl_saving_finish(struct sl_saving *s, const char *status);

#endif
