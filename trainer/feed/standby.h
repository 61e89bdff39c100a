/*
 * standby.h - when a trainer may fetch: always on duty WORK, and on duty STANDBY while its device
 * is free and it pays.
 *
 * PROBLEM. A sampler's device idles once the epoch's batches are all sampled, while the trainers
 * are still at work (FGNN 5.3). A standby trainer beside it should then help, but not so late that
 * everybody waits for its one slow batch at the end.
 *
 * DESIGN. A trainer of duty STANDBY asks before each fetch, from the words of the arena alone
 * (common/arena/seat.h):
 *
 *   - is the device free? Nothing of the current phase is left to sample, or its sampler is blocked
 *     for want of payload memory, or nobody samples there;
 *   - could its batch be worked on? In ordered mode batches_per_update of them can be at once, in
 *     async mode staleness + 1: more trainers would only wait for one another. Where two woke for
 *     one place, the one on the later device goes back to sleep;
 *   - is there a profit? P = M_r T_t / N_t - T_t' > 0: one batch is done here before the normal
 *     trainers are done with what is left. With N_t = 0 it is +infinity. For a batch that is
 *     claimed while another one is computed, two must be done by then: 2 T_t'.
 *
 * Evaluation goes by the same rule with T_t = T_t': help while more is left than there are
 * trainers. That of the side lane (ledger.h) is taken to its last cell, which the normal trainers
 * would leave until they have nothing to train, and before samples that nobody may train yet.
 *
 * With N_t = 0 it is awake from the last sample on until the phase is complete, also when nothing
 * is left to claim: nobody else would apply an update whose trainer died.
 */
#ifndef SL_TRAINER_FEED_STANDBY_H
#define SL_TRAINER_FEED_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/ledger.h"
#include "common/arena/seat.h"

struct sl_standby {
    struct sl_arena *arena;
    uint32_t device;
    uint32_t number; // of the seat
    struct sl_seat *seat;
};

/*
 * FGNN's profit metric, in the unit of the times: `left` batches are unclaimed (M_r), a normal
 * trainer takes t_train for one and there are n_trainers of them, the standby trainer takes
 * t_standby for what it would have to do.
 */
double sl_standby_profit(uint64_t left, double t_train, uint32_t n_trainers, double t_standby);

void sl_standby_init(struct sl_standby *s, struct sl_arena *arena, uint32_t device);

static inline enum sl_duty sl_standby_duty(const struct sl_standby *s)
{
    return (enum sl_duty)atomic_load_explicit(&s->seat->duty, memory_order_acquire);
}

static inline bool sl_standby_is_awake(const struct sl_standby *s)
{
    return atomic_load_explicit(&s->seat->activity, memory_order_relaxed) == SL_ACTIVITY_BUSY;
}

// Whether this trainer may fetch a batch now; `ahead` when it computes one meanwhile. Never while
// the job is paused: then normal trainers sleep too, which costs nothing and counts as no waiting.
bool sl_standby_may_fetch(const struct sl_standby *s, bool ahead);

// The same of a cell of the side lane, for a standby trainer that may fetch nothing else.
bool sl_standby_may_evaluate(const struct sl_standby *s);

// How many trainers work on the current phase: those on duty and those switched on. At least 1.
uint32_t sl_standby_trainers(const struct sl_arena *a);

// Sets the seat's activity to BUSY; counts a switch if it was asleep on duty STANDBY.
void sl_standby_wake(struct sl_standby *s);
// Sets it to ASLEEP.
void sl_standby_sleep(struct sl_standby *s);

#endif
