/*
 * phases.h - the job as a sequence of phases, opened ahead and read when they are complete.
 *
 * PROBLEM. Samplers must never run out of work because the broker is slow to say what comes next,
 * while some steps need the broker in between: an evaluation's result decides whether the
 * parameters it was made with are the best so far, and the next update would overwrite them.
 *
 * DESIGN. Phases of the plan (plan.h) are opened in its order as long as the ledger's ring and the
 * two banks of the epoch order have room. What follows an evaluation is opened with its gate
 * closed: samplers draw its batches already, trainers wait until the evaluation has been judged
 * (metrics.h, on libuv's thread pool; the phase counts as open until then) and, if it was the best,
 * its parameters copied. With early stopping no epoch is opened behind an evaluation that may be
 * the one at which patience runs out: so nothing is ever begun that would have to be taken back.
 *
 * Phases are read strictly in order, each at once when it is complete and those before it are read,
 * since the ledger reuses its entries once the phase eight numbers later is opened, and only this
 * file opens phases.
 *
 * Where an evaluation is done beside the next epoch (sl_plan_overlaps), both wait for the reading
 * of the epoch itself, with which its parameters are pinned: the gate of the evaluation and that of
 * the epoch behind it open together. As that one is read after the evaluation, the epoch after
 * next waits for both. The evaluation's time beside training is counted apart, so that the times of
 * epochs still add up to that of the job.
 *
 * The first ranked epoch is opened when the hotness order has been published. The vertices are
 * ranked as soon as the epochs before it are *sampled*, not when they are trained: trainers go on
 * meanwhile. Nothing rings then, so the next tick sees it. The visits are forgotten with the
 * ranking and counted again in ranked epochs where the job asks for the optimal hit rate. That is
 * computed when a ranked epoch ends, from all visits so far; as samplers are ahead by then, batches
 * of the next epochs may be among them. The last one's value covers exactly all ranked epochs.
 *
 * An order goes to the bank of its number's lowest bit, so it is prepared once the phase of the
 * order two before is complete: on libuv's thread pool, because a large training set takes seconds.
 */
#ifndef SL_BROKER_EPOCHS_PHASES_H
#define SL_BROKER_EPOCHS_PHASES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <xxhash.h>

#include "broker/epochs/epoch.h"
#include "broker/epochs/metrics.h"
#include "broker/epochs/pauses.h"
#include "broker/epochs/plan.h"
#include "broker/epochs/ranking.h"
#include "common/data/dataset.h"
#include "common/data/order_kind.h"
#include "common/arena/ledger.h"
#include "common/arena/row_table.h"
#include "config/config.h"

struct sl_open_phase;

struct sl_phases_events {
    // Whether trainers may begin with an epoch; call sl_phases_open_gates() when the answer has
    // changed. May be NULL: always.
    bool (*may_begin)(void *ctx, uint32_t epoch);
    // An epoch, with its evaluation if it has one, is complete; where its optimal hit rate is asked
    // for, once that is known. In the order of epochs.
    void (*on_epoch)(void *ctx, const struct sl_epoch *figures);
    // The last phase is complete.
    void (*on_complete)(void *ctx);
    // The recorded error ends the job. SL_ENOTFINITE: an evaluation's loss is no finite number.
    void (*on_error)(void *ctx, int rc);
    // Every cell of the phase is done; its entries are valid until this returns. May be NULL.
    void (*on_phase)(void *ctx, const struct sl_open_phase *phase);
    // Stopped while learned rows became the best ones: they are. May be NULL.
    void (*on_kept)(void *ctx);
    // The hotness order has been published; it took so many seconds to make. May be NULL.
    void (*on_ranked)(void *ctx, double seconds);
};

struct sl_phases_setup {
    uv_loop_t *loop;
    // For the labels of the evaluated vertices, and for what a cache policy reads.
    const struct sl_dataset *dataset;
    struct sl_plan plan;
    struct sl_measure_choice judged; // what evaluations are judged by
    const struct sl_pauses *pauses;  // of the job; NULL: none
    const struct sl_row_table *rows; // learned ones; NULL: there are none
    bool keeps_records;              // of the last training epoch, for checkpoints
    struct sl_phases_events events;
    void *ctx;
};

struct sl_open_phase {
    uint64_t seq;
    struct sl_phase_spec spec;
    struct sl_plan_step step;
    bool ends_evaluation;
    bool pins; // an epoch that is evaluated beside the next
    bool gated;
    uint64_t began_ns; // when it could begin; 0: not yet
    uint32_t sampled;  // leading cells that are known to have been drawn, once or more
};

struct sl_order_bank {
    uint32_t order;
    enum { SL_BANK_EMPTY, SL_BANK_BUSY, SL_BANK_READY } state;
};

struct sl_phases {
    struct sl_phases_setup setup;
    struct sl_arena *arena;
    struct sl_epoch_scratch scratch;

    struct sl_plan_step next;                   // not opened yet
    struct sl_open_phase open[SL_ARENA_PHASES]; // ring, oldest first
    uint32_t first_open, n_open;
    uint64_t ended_ns; // when the one before was seen to have ended
    uint64_t done_ns;  // when the last batch was done of the one before on the main lane
    bool started, stopped;

    struct sl_order_bank bank[2];
    uint32_t next_order;            // to be prepared
    uint32_t orders_open;           // whose phases have been opened
    uint32_t orders_read;           // whose phases have been read
    uint32_t trained;               // epochs whose TRAIN phase has been read
    uint32_t told;                  // epochs that on_epoch has been called for
    struct sl_cell_record *records; // keeps_records: of the TRAIN phase that was read last
    struct sl_epoch_order order;    // the thread's that fills a bank: sl_phases_order()
    uv_work_t order_work;
    int order_rc; // of the last bank that was filled, with its message
    char order_message[256];
    atomic_bool cancel;

    struct sl_ranking ranking; // seconds: what making the order took
    bool ranked;               // it has been published
    struct sl_optimum optimum;
    bool epoch_waits; // the epoch is complete but for its optimal hit rate
    uint64_t
        seen_switches[SL_CONFIG_MAX_DEVICES]; // of each device's trainer seat, at the last look
    uint64_t switches;                        // since the last epoch ended

    struct sl_epoch epoch;           // being filled
    enum sl_measure measure;         // what evaluations are judged by
    struct sl_measure_choice judged; // why, where that is the data set's doing
    struct sl_metrics metrics;       // of the evaluation being judged
    struct {
        uv_work_t work;
        bool busy; // learned rows are to become the best ones: the phase that ends it stays open
        bool held; // nobody may write those now
    } keeping;
    uint64_t evicted_before, resampled, retrained;
    // Digest of all training blocks of the epochs that were read, each with the one before it, and
    // of those before the last of these. The state is NULL unless the job asks for digests.
    XXH3_state_t *digest_state;
    uint8_t digest[SL_PHASES_DIGEST_BYTES], digest_before[SL_PHASES_DIGEST_BYTES];

    // results
    uint64_t scheduled, done; // training batches
    double presample_seconds; // in PRESAMPLE phases
    uint64_t first_update_ns; // when it had been applied; 0: in no epoch that was read
    struct sl_early_stopping best;
    bool stopped_early; // before the last epoch, because no evaluation was better any more
    bool has_test;
    struct sl_evaluation test;
    double test_seconds;

    // live view
    uint64_t first_ns;       // the first epoch began
    double train_share;      // of an epoch's time, from the last complete one
    double evaluate_seconds; // of the last epoch that was evaluated; 0: none yet
};

// Open phase i, the oldest is 0.
static inline const struct sl_open_phase *sl_phases_at(const struct sl_phases *p, uint32_t i)
{
    return &p->open[(p->first_open + i) % SL_ARENA_PHASES];
}

/*
 * The oldest open phase of the main lane: the oldest of all, but for an epoch that is trained
 * beside the evaluation of the one before. NULL: none is open.
 */
const struct sl_open_phase *sl_phases_front(const struct sl_phases *p);

// The loss of the leading cells of a phase, as far as the caller has summed it up.
struct sl_loss_sum {
    uint64_t seq, cells;
    double loss, weight;
};

struct sl_phases_view {
    const char *phase; // "presample", "rank", "train", "evaluate", "test"
    uint32_t epoch;
    uint64_t done, total; // cells
    double loss;          // mean of this epoch so far
    double seconds_left;  // of the whole job, the test included; negative: not known yet
};

int sl_phases_init(struct sl_phases *p, const struct sl_phases_setup *setup,
                   struct sl_arena *arena);

// Begins the first orders of vertices, so that they are there when the workers are.
void sl_phases_prepare(struct sl_phases *p);

// Prepares what is not yet, and opens what can be opened.
void sl_phases_start(struct sl_phases *p);

// Reads what is complete and opens what comes next: after a ring of the doorbell, on a timer (a
// worker may die between its last batch and the ring) and after a reclaim.
void sl_phases_poll(struct sl_phases *p);

/*
 * Where training is: true while an epoch is being trained, with *epoch and the number of its
 * leading batches that are done (all of them, while the evaluation beside it goes on). False in
 * between (evaluation, pre-sampling, test): *epoch is then
 * the next one to be trained, config->epochs after the last one, and *batches_done 0. So what is to
 * happen at (e, b) is due as soon as (*epoch, *batches_done) is not below it.
 */
bool sl_phases_trains(const struct sl_phases *p, uint32_t *epoch, uint64_t *batches_done);

// Lets trainers begin with what they may begin with.
void sl_phases_open_gates(struct sl_phases *p);

// While they are copied elsewhere the best learned rows stay as they are.
void sl_phases_hold_best(struct sl_phases *p);
void sl_phases_release_best(struct sl_phases *p);

// After a stop, once no worker is left: reads training phases that have been completed meanwhile.
void sl_phases_read_rest(struct sl_phases *p);

// Opens nothing more. What is under way on the thread pool ends soon, before the loop does; an
// epoch that waits for its optimal hit rate is told without it.
void sl_phases_stop(struct sl_phases *p);
void sl_phases_fini(struct sl_phases *p); // after the loop has ended; safe on a zeroed struct

// phases_view.c. `sum` is the caller's, of all its looks.
void sl_phases_view(const struct sl_phases *p, struct sl_loss_sum *sum, struct sl_phases_view *out);

// "batch 17 of epoch 3": what a worker has in hand, in words; false when it has nothing.
bool sl_phases_held_by(const struct sl_arena *a, uint32_t worker, char *out, size_t bytes);

// What the epochs' orders follow from; all zero before the first one has been prepared.
struct sl_epoch_order sl_phases_order(const struct sl_phases *p);

// Why training has stopped early, in words. Returns buf.
char *sl_phases_stop_reason(const struct sl_phases *p, char *buf, size_t bytes);

// Digest of all training blocks of complete epochs in batch order, 32 hexadecimal digits; false
// when the job did not ask for it or no epoch is complete. It is a chain, an epoch's being made of
// the one before and of its blocks', so that these 16 bytes are enough to go on with.
bool sl_phases_digest(const struct sl_phases *p, char hex[33]);

#endif
