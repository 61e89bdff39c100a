/*
 * plan.h - which phases a job is made of, in which order: a function of the job alone.
 *
 *     train 0 | evaluate 0 | train 1 | ... | train E-1 | evaluate E-1 | test
 *
 * where an evaluation is one phase (sampled) or one a layer (all neighbours); of links there is one
 * more, of pairs. With early stopping the test may follow an earlier evaluation.
 *
 * With evaluate.test "each" an evaluation is of the test set and then of the validation set, so
 * that the validation, which decides about the epochs behind it, remains its end. Both have the
 * same parameters, and layer by layer they share the hidden activations: the validation is only the
 * last layer then, but where the test's graph has edges that its own lacks
 * (evaluate.val_edges_as_input). With "never" there is no test set (sl_plan_make).
 *
 * Where trainers are free while others train (sl_plan_overlaps), the evaluation of an epoch is done
 * beside the training of the next, in the side lane (ledger.h), with parameters that are pinned.
 *
 * A cache needs the hotness order (ranking.h), and blocks carry ranks of it from the first *ranked*
 * epoch on:
 *
 *     random, degree   rank | train 0 | ...
 *     presc, K         train 0 | ... | train K-1 | rank | train K | ...
 *     optimal          presample 0 | ... | presample E-1 | rank | train 0 | ...
 *
 * Pre-sampling draws the very batches of training once more: same epoch, same shuffled order.
 * Shuffled orders are numbered in the order of their phases, those of pre-sampling first.
 *
 * An epoch is one walk through the training vertices, or with order.epochs_per_pass a share of it:
 * phases, versions and reports know epochs alone, all of the same size, and the orders are filled
 * accordingly (order_kind.h). So are evaluations several times a pass nothing of their own.
 *
 * The epochs of a job for external trainers are lent to them (ledger.h): nothing is evaluated, and
 * where nobody says how many there are they end with the job.
 *
 * A job that goes on from a checkpoint has the same plan from its epoch on; a cache begins anew:
 * presc counts its K epochs from the first one that is drawn as a whole, optimal pre-samples what
 * is left.
 */
#ifndef SL_BROKER_EPOCHS_PLAN_H
#define SL_BROKER_EPOCHS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/epochs/early_stopping.h"
#include "common/data/dataset.h"
#include "common/arena/ledger.h"
#include "config/config.h"

enum sl_purpose {
    SL_PURPOSE_PRESAMPLE,
    SL_PURPOSE_TRAIN,
    SL_PURPOSE_TEST_EPOCH, // with the parameters that the validation behind it has
    SL_PURPOSE_VALIDATE,
    SL_PURPOSE_TEST,
    SL_PURPOSE_END,
};

enum { SL_PLAN_RANK_GENERATION = 1 }; // of the one hotness order that a job makes

// A place in the plan.
struct sl_plan_step {
    enum sl_purpose purpose;
    uint32_t epoch;
    uint32_t layer; // of a layer-wise evaluation
};

enum { SL_PHASES_DIGEST_BYTES = 16 };

// Where a job goes on from, as its checkpoint says; all zero for a job that begins.
struct sl_resume_point {
    uint32_t epoch; // those before it are complete, evaluations and all
    // Batches of it whose gradients are applied. Where it is being evaluated beside the next one,
    // all of its batches and then those of the next; its parameters are in the parameter store,
    // pinned.
    uint32_t n_records;
    const struct sl_cell_record *records;
    struct sl_early_stopping best;
    uint8_t digest[SL_PHASES_DIGEST_BYTES]; // of the epochs before
};

// What the plan of a job is a function of. Pointers are borrowed.
struct sl_plan {
    const struct sl_config *config;
    uint64_t n_nodes;
    struct sl_vertex_list split[SL_SPLIT_COUNT];
    struct sl_resume_point resume;
};

// Of a job that begins. A test set that is never to be evaluated is none.
struct sl_plan sl_plan_make(const struct sl_config *config, const struct sl_dataset *dataset);

// Cells of the largest phase that this job will open.
uint64_t sl_phases_cells_max(const struct sl_plan *plan);
// Mini-batches and updates of a training epoch, of n_train vertices that a pass has; and, of all of
// them, mini-batches alone.
uint64_t sl_phases_pass_batches(const struct sl_config *config, uint64_t n_train);
uint64_t sl_phases_batches(const struct sl_config *config, uint64_t n_train);
uint64_t sl_phases_updates(const struct sl_config *config, uint64_t n_train);
// Mini-batches whose gradients are in the parameters of a version.
uint64_t sl_phases_batches_of(const struct sl_config *config, uint64_t n_train, uint64_t version);

// What follows the last epoch that is trained.
struct sl_plan_step sl_plan_after_training(const struct sl_plan *plan, uint32_t epoch);
struct sl_plan_step sl_plan_first(const struct sl_plan *plan);
// The step after `step`.
struct sl_plan_step sl_plan_after(const struct sl_plan *plan, struct sl_plan_step step);
// The ledger's record of a step (not SL_PURPOSE_END); gated is left 0.
struct sl_phase_spec sl_plan_spec(const struct sl_plan *plan, struct sl_plan_step step);

// The first phase of the evaluation that follows training epoch `epoch`; what follows the epoch
// where there is none.
struct sl_plan_step sl_plan_after_epoch(const struct sl_plan *plan, uint32_t epoch);
// Whether a step is a part of the evaluation that follows its epoch.
bool sl_plan_evaluates(struct sl_plan_step step);
/*
 * Whether the evaluation that follows the epoch is done beside the training of the next one. Not
 * where that depends on the evaluation (early stopping), nor where nobody is free for it: a pool of
 * cores gives each of them to somebody, trainers that sum gradients among themselves wait for one
 * another, and a GPU would have to bring features and activations anew after each batch. What is
 * sampled needs samplers and memory that batches need. A job that goes on while this epoch was
 * evaluated and some of the next one trained goes on so, whatever it is by now.
 */
bool sl_plan_overlaps(const struct sl_plan *plan, uint32_t epoch);
// Whether the job goes on from such a moment: its records are of all batches of an epoch, and then
// of some of the next.
bool sl_plan_resumes_beside(const struct sl_plan *plan);

// Whether a step walks through a shuffled order, and the number of that order.
bool sl_plan_has_order(struct sl_plan_step step);
uint32_t sl_plan_order(const struct sl_plan *plan, struct sl_plan_step step);
uint32_t sl_plan_orders(const struct sl_plan *plan); // in all
// The epoch whose order it is, and how many phases of pre-sampling there are.
uint32_t sl_plan_order_epoch(const struct sl_plan *plan, uint32_t order);
uint32_t sl_plan_presample_phases(const struct sl_plan *plan);
// The first training epoch whose blocks carry ranks; `epochs` when none does.
uint32_t sl_plan_first_ranked(const struct sl_plan *plan);
// The first so many orders are those whose batches' visits make the hotness order.
uint32_t sl_plan_counted_orders(const struct sl_plan *plan);
// Whether a step's blocks carry ranks. Evaluations read features through the caches too.
bool sl_plan_is_ranked(const struct sl_plan *plan, struct sl_plan_step step);

#endif
