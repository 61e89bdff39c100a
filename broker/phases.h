/*
 * phases.h - the job as a sequence of phases, opened ahead and read when they are complete.
 *
 * PROBLEM. Samplers must never run out of work because the broker is slow to say what comes next,
 * while some steps need the broker in between: an evaluation's result decides whether the
 * parameters it was made with are the best so far, and the next update would overwrite them.
 *
 * DESIGN. The plan is a fixed sequence
 *
 *     train 0 | evaluate 0 | train 1 | ... | train E-1 | evaluate E-1 | test
 *
 * where an evaluation is one phase (sampled) or one a layer (all neighbours). Phases are opened in
 * this order as long as the ledger's ring and the two banks of the epoch order have room. What
 * follows an evaluation is opened with its gate closed: samplers draw its batches already, trainers
 * wait until the evaluation has been read and, if it was the best, its parameters copied.
 *
 * Phases complete strictly in order. A complete phase is read at once, since the ledger reuses its
 * entries once the phase eight numbers later is opened, and only this file opens phases.
 *
 * The order of epoch e goes to bank e & 1, so it is prepared once epoch e - 2 is complete: on
 * libuv's thread pool, because a large training set takes seconds.
 */
#ifndef SL_BROKER_PHASES_H
#define SL_BROKER_PHASES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <xxhash.h>

#include "broker/figures.h"
#include "common/data/dataset.h"
#include "common/ipc/ledger.h"
#include "config/config.h"

enum sl_purpose { SL_PURPOSE_TRAIN, SL_PURPOSE_VALIDATE, SL_PURPOSE_TEST, SL_PURPOSE_END };

// A place in the plan.
struct sl_plan_step {
    enum sl_purpose purpose;
    uint32_t epoch;
    uint32_t layer; // of a layer-wise evaluation
};

struct sl_phases_events {
    // An epoch, with its evaluation if it has one, is complete.
    void (*on_epoch)(void *ctx, const struct sl_epoch_figures *figures);
    // The last phase is complete.
    void (*on_complete)(void *ctx);
    // The recorded error ends the job.
    void (*on_error)(void *ctx);
};

// What the job is about; outlives the phases.
struct sl_phases_setup {
    uv_loop_t *loop;
    const struct sl_config *config;
    uint64_t n_nodes;
    struct sl_vertex_list split[SL_SPLIT_COUNT];
    struct sl_phases_events events;
    void *ctx;
};

struct sl_open_phase {
    uint64_t seq;
    struct sl_phase_spec spec;
    struct sl_plan_step step;
    bool ends_evaluation;
    bool gated;
};

struct sl_order_bank {
    uint32_t epoch;
    enum { SL_ORDER_NONE, SL_ORDER_BUSY, SL_ORDER_READY } state;
};

struct sl_phases {
    struct sl_phases_setup setup;
    struct sl_arena *arena;
    struct sl_figures_scratch scratch;

    struct sl_plan_step next;                   // not opened yet
    struct sl_open_phase open[SL_ARENA_PHASES]; // ring, oldest first
    uint32_t first_open, n_open;
    uint64_t began_ns; // when the oldest open phase could begin
    bool stopped;

    struct sl_order_bank bank[2];
    uint32_t next_order; // epoch
    uint32_t trained;    // epochs whose TRAIN phase has been read
    uv_work_t shuffle;
    atomic_bool cancel;

    struct sl_epoch_figures epoch; // being filled
    uint64_t correct, counted;     // of the evaluation being read
    uint64_t evicted_before, resampled, retrained;
    XXH3_state_t *digest; // over all training blocks; NULL unless asked for

    // results
    uint64_t scheduled, done; // training batches
    bool has_best;
    double best_accuracy;
    uint32_t best_epoch;
    bool has_test;
    double test_accuracy;
    double test_seconds;

    // live view
    uint64_t first_ns;             // the first phase began
    uint64_t seen_seq, seen_cells; // up to where loss has been summed
    double seen_loss;
    uint64_t seen_counted;
    double train_share; // of an epoch's time, from the last complete one
};

struct sl_phases_view {
    const char *phase; // "train", "evaluate", "test"
    uint32_t epoch;
    uint64_t done, total; // cells
    double loss;          // mean of this epoch so far
    double seconds_left;  // negative: not known yet
};

// Cells of the largest phase that this job will open.
uint64_t sl_phases_cells_max(const struct sl_phases_setup *setup);
// Mini-batches and updates of a training epoch.
uint64_t sl_phases_batches(const struct sl_config *config, uint64_t n_train);
uint64_t sl_phases_updates(const struct sl_config *config, uint64_t n_train);

// Whether an evaluation follows training epoch `epoch`.
bool sl_plan_validates(const struct sl_phases_setup *setup, uint32_t epoch);
// The step after `step`.
struct sl_plan_step sl_plan_after(const struct sl_phases_setup *setup, struct sl_plan_step step);
// What the ledger is told of a step (not SL_PURPOSE_END); gated is left 0.
struct sl_phase_spec sl_plan_spec(const struct sl_phases_setup *setup, struct sl_plan_step step);

int sl_phases_init(struct sl_phases *p, const struct sl_phases_setup *setup,
                   struct sl_arena *arena);

// Prepares the first orders and opens what can be opened.
void sl_phases_start(struct sl_phases *p);

// Reads what is complete and opens what comes next: after a ring of the doorbell, on a timer (a
// worker may die between its last batch and the ring) and after a reclaim.
void sl_phases_poll(struct sl_phases *p);

// Opens nothing more; a shuffle under way ends soon, before the loop does.
void sl_phases_stop(struct sl_phases *p);
void sl_phases_fini(struct sl_phases *p); // after the loop has ended; safe on a zeroed struct

void sl_phases_view(struct sl_phases *p, struct sl_phases_view *out);

// Digest of all training blocks of complete epochs in batch order, 32 hexadecimal digits; false
// when the job did not ask for it or no epoch is complete.
bool sl_phases_digest(const struct sl_phases *p, char hex[33]);

#endif
