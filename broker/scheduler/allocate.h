/*
 * allocate.h - how many devices sample and how many train (FGNN 5.3), and whether to move.
 *
 *      K = T_t / T_s          N_s = ceil(N_g / (K + 1))          N_t = N_g - N_s
 *
 * T_s and T_t are the medians of what a batch took on a sampler and on a normal trainer, T_t' on a
 * standby trainer. The ceiling prefers samplers, since a sampler's device can help to train at once
 * and not the other way round. At least one device samples, and with two devices or more at least
 * one trains; a single device samples and its standby trainer trains.
 *
 * WHEN TO MOVE. The first split is the formula's, from the probe batches. Later ones cost: a
 * sampler loads the topology, a trainer its cache. After each epoch the formula is evaluated again
 * with what was measured in it, and the split moves only when the epoch's expected time falls by
 * more than SL_ALLOCATE_GAIN_MIN of it (hysteresis: two splits that are as good never alternate)
 * and what is gained over the epochs that are left is more than the move costs.
 *
 * EXPECTED TIME of an epoch of M batches under a split, for comparing splits:
 *
 *      sampling   S = M T_s / N_s
 *      without switching      max(S, M T_t / N_t)
 *      with switching         trainers work from the start, and when all is sampled the samplers'
 *                             devices too:  S + (M - S N_t / T_t) / (N_t / T_t + N_s / T_t')
 *                             when that is more than S, else S
 *
 * where N_t counts only as many trainers as an update lets work at once. Everything here is a
 * function of its arguments.
 *
 * A FORECAST is for people (scale, a dry run, live advice). It must not promise too much, so it
 * differs from the comparison above in three ways:
 *
 *      T_t' is at least T_t    where there are normal trainers. A standby trainer is the same work
 *                              with a smaller cache, and every update waits for the batches that
 *                              normal trainers have in hand; a smaller T_t' is a probe's or a
 *                              throttle's.
 *      updates are whole       with ordered updates of B batches N trainers need ceil(B / N)
 *                              rounds, so a trainer too many gives nothing.
 *      it is scaled            by what an epoch takes now over what the model says of it, so `now`
 *                              is what was measured. An evaluation costs the same under any split.
 */
#ifndef SL_BROKER_SCHEDULER_ALLOCATE_H
#define SL_BROKER_SCHEDULER_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/placement/placement.h"
#include "broker/scheduler/core_layout.h"

#define SL_ALLOCATE_GAIN_MIN 0.05

struct sl_profile {
    double t_sample, t_train, t_standby; // seconds a batch; t_standby 0 = not measured
};

struct sl_allocation_question {
    struct sl_profile profile;
    uint32_t n_devices;
    bool switching;
    uint64_t batches;      // of an epoch, this node's
    uint32_t epochs_left;  // after this one
    uint32_t at_once;      // trainers that can work at the same time
    uint64_t batch_size;   // seeds of a batch
    uint64_t batches_held; // that there is memory for; 0: not known
    struct sl_roles now;
    double move_seconds;                  // what a change of the split costs
    struct sl_core_layout_question shape; // of a pool of cores, of which all of this is then asked
    bool quiet;                           // the profile knows nothing of other work on the cores
    // for forecasts alone
    bool ordered;            // an update waits for all of its `at_once` batches
    double measured_seconds; // an epoch's training under `now`; 0 = not measured
    double evaluate_seconds; // an epoch's evaluation
};

enum { SL_ALLOCATION_REASON_BYTES = 768 };

struct sl_allocation {
    struct sl_roles split; // what to do
    bool moves;            // differs from `now`
    double k;
    struct sl_roles formula;
    double seconds_now, seconds_formula; // expected, an epoch
    double gain_seconds;                 // of the move over the epochs that are left
    char reason[SL_ALLOCATION_REASON_BYTES];
};

// The formula's split: no more trainers than can work at once, and then no more samplers than feed
// those; and no more workers than there is memory for mini-batches in their hands. Devices that
// nobody could use have no role.
struct sl_roles sl_allocate_formula(const struct sl_allocation_question *q);
double sl_allocate_epoch_seconds(const struct sl_allocation_question *q, struct sl_roles split);
// The model of forecasts, before it is scaled: an epoch's training.
double sl_allocate_forecast_seconds(const struct sl_allocation_question *q, struct sl_roles split);

// What a split that somebody asks for is expected to bring: a forecast. Not a number: not measured
// yet.
struct sl_expectation {
    double seconds_now, seconds_then; // an epoch with its evaluation
    double gain_seconds;              // an epoch
    bool pays;                        // the move, over the epochs that are left
    bool quiet;                       // of cores without other work
};
void sl_allocate_expect(const struct sl_allocation_question *q, struct sl_roles to,
                        struct sl_expectation *out);

// What was measured and what the formula makes of it; the split stays what it is.
void sl_allocate_explain(const struct sl_allocation_question *q, struct sl_allocation *out);
// The first split, from probe batches: the formula's, whatever `now` is.
void sl_allocate_first(const struct sl_allocation_question *q, struct sl_allocation *out);
// The split and what is expected of it, in a few words: "2 samplers + 1 trainer: about 0.40 s an
// epoch (was 0.44)". Returns buf.
enum { SL_ALLOCATION_BRIEF_BYTES = 128 };
char *sl_allocate_brief_text(const struct sl_allocation_question *q, const struct sl_allocation *a,
                             char buf[SL_ALLOCATION_BRIEF_BYTES]);
// Devices that have nothing to do because of the width of an update, and the line of the job file
// that would use them, as a sentence; "" where there are none. Returns buf.
char *sl_allocate_idle_text(const struct sl_allocation_question *q, struct sl_roles split,
                            char *buf, size_t bytes);
// After an epoch.
void sl_allocate_again(const struct sl_allocation_question *q, struct sl_allocation *out);

#endif
