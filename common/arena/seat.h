/*
 * seat.h - what each worker is to do on its device: shared words by which broker, samplers and
 * trainers steer one another, in place of messages.
 *
 * PROBLEM. A device samples or trains. FGNN (5.3) gives each sampler's device a *standby trainer*,
 * ready but asleep, that takes the device over when there is nothing left to sample and training
 * would profit, and gives it back at the epoch's end. Who sleeps, who works and who is asked to
 * leave changes while the job runs, many times an epoch; the broker must not be in that path.
 *
 * DESIGN. Every device has two seats, one for a sampler and one for a trainer, whether a process
 * sits there or not. A seat is two kinds of words:
 *
 *   the broker writes   duty (WORK, STANDBY, or NONE: nobody is wanted), how many rows the
 *                       trainer's cache may hold, and of a pool of cores those to run on
 *   the worker writes   activity: what it does right now; how often it was switched on
 *
 * The job's *schedule* (one for all) has what a standby trainer needs to judge for itself before
 * each fetch: the number of normal trainers that can take a batch now (a dead one cannot, nor one
 * that loads) and the measured times of a batch.
 *
 * SWITCHING. A standby trainer may work while its device is free of sampling: nothing of the
 * current phase is left to sample, or the sampler beside it is BLOCKED for want of payload memory.
 * While it works (activity BUSY) the sampler beside it draws nothing beyond the current phase, so
 * the device has one master at a time. Both look at each other's word with no lock: a moment's
 * overlap costs a moment's contention and nothing else, since batches are claimed in the ledger.
 *
 * A standby trainer with nothing to do sleeps on the event `work` (segment.h), which is
 * signalled when a phase begins or ends, when its last cell has been claimed for sampling, when a
 * sampler becomes BLOCKED, when another standby trainer falls asleep (which frees its place in the
 * update), when a duty changes or a worker is gone, when a batch goes back, on a Stop message, and
 * on abort; its own time-out is SL_STANDBY_WAIT_MS.
 *
 * FAILURE. Words of a dead worker are reset by the broker (sl_seat_vacate) once its death is
 * proved. The counters (load time, switches) are the seat's: whoever sits down next goes on with
 * them, so that a death takes nothing from the report.
 */
#ifndef SL_ARENA_SEAT_H
#define SL_ARENA_SEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/device/cores.h"
#include "common/arena/segment.h"

enum { SL_STANDBY_WAIT_MS = 10000 };

enum sl_duty {
    SL_DUTY_NONE, // nobody is wanted here
    SL_DUTY_WORK,
    SL_DUTY_STANDBY, // trainers: sleep until there is a profit
};

enum sl_activity {
    SL_ACTIVITY_NONE,    // vacant, or starting
    SL_ACTIVITY_BUSY,    // sampler: draws or looks for work. Trainer: works
    SL_ACTIVITY_BLOCKED, // sampler: waits for payload memory
    SL_ACTIVITY_ASLEEP,  // standby trainer: its device is the sampler's
};

struct sl_seat {
    // written by the broker
    _Alignas(64) _Atomic uint32_t duty;
    _Atomic uint64_t cache_rows; // trainers: capacity; 0 = no cache. Of a plan, see peer_memory.h
    // of a pool (allocation.cores): changed between two odd and even numbers; 0: never given
    _Atomic uint32_t cores_version;
    _Atomic uint64_t cores[SL_CORES_MAX / 64];
    // written by the worker
    _Alignas(64) _Atomic uint32_t activity;
    _Atomic uint32_t cache_generation; // hotness order that is loaded (visit_counts.h), 0 = none
    _Atomic uint64_t cache_loaded;     // rows that are loaded
    _Atomic uint64_t cache_load_ns;    // it took, in all
    _Atomic uint64_t switches;         // times a standby trainer was switched on
    _Atomic uint64_t step_bytes;       // trainers of a pool: the largest step so far; 0: not known
    _Atomic uint32_t store_way;        // on GPUs: enum sl_store_way, of features or of the graph
};

// One for the job, in front of the seats; written by the broker.
struct sl_schedule {
    _Alignas(64) _Atomic uint32_t trainers; // N_t: normal trainers that can take a batch now
    _Atomic uint64_t t_train_ns;            // T_t: a batch on a normal trainer
    _Atomic uint64_t t_standby_ns;          // T_t': ... on a standby trainer
};

struct sl_schedule *sl_schedule_of(const struct sl_arena *a);

// Seat numbers, which are statistics slots too: samplers 0 .. n_devices - 1, then trainers.
static inline uint32_t sl_seat_sampler(const struct sl_arena *a, uint32_t device)
{
    (void)a;
    return device;
}

static inline uint32_t sl_seat_trainer(const struct sl_arena *a, uint32_t device)
{
    return a->h->spec.n_devices + device;
}

struct sl_seat *sl_seat(const struct sl_arena *a, uint32_t seat);

// Standby trainers that are switched on right now.
uint32_t sl_seat_awake(const struct sl_arena *a);

// Broker: changes a duty and wakes all who may wait for that.
void sl_seat_set_duty(struct sl_arena *a, uint32_t seat, enum sl_duty duty);
// Broker: gives the seat these cores, unless it has them already.
void sl_seat_set_cores(struct sl_arena *a, uint32_t seat, const struct sl_cores *cores);
// Worker: true, with the cores in *out, when it was given others since version *seen (0 at first),
// which is updated. False also while they are being changed: ask again later.
bool sl_seat_take_cores(const struct sl_arena *a, uint32_t seat, uint32_t *seen,
                        struct sl_cores *out);
// Broker: the seat's worker is dead or gone.
void sl_seat_vacate(struct sl_arena *a, uint32_t seat);
// Worker: changes its activity; signals `work` when a sampler becomes BLOCKED or a standby trainer
// falls asleep.
void sl_seat_set_activity(struct sl_arena *a, uint32_t seat, enum sl_activity activity);

#endif
