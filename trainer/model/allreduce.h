/*
 * allreduce.h - a trainer's part in the sum of an update's gradients over the GPUs of all trainers.
 *
 * What is done together, and why it survives a death at any instruction, stands in
 * common/arena/group.h. This is one member's side: it keeps the sum of its own batches' gradients
 * on the device, holds their leases, follows the group from generation to generation, and takes
 * part in the sum once every batch of the next update is held.
 *
 *      OUTSIDE   no member right now: nothing to do but to keep what is held
 *      APART     a member of a new generation: waits for the name to meet by, or makes it
 *      MEETING   the communicator is being made, in the background
 *      TOGETHER  the next update is summed as soon as all of its batches are held
 *      BROKEN    the communicator failed. Most likely a peer has died and the broker will say so
 *                by a new generation in a moment; where it does not, this trainer gives up, and
 *                where it has no peers it does at once
 *
 * Meeting has a bound, since all of a group are ready: then the communicator counts as broken. A
 * sum that takes long is a warning alone; whose member stands still is the broker's to find out.
 *
 * Nothing here waits for another member but the sum itself, between the moment when all batches
 * are held and its end; that wait looks at the generation, the job's abort and this process's stop
 * all the time, so the death of a peer ends it.
 *
 * Running statistics (batch norm) are chained batch by batch and not summed: they go to the batch's
 * own slot in the parameter store, as without a group, before its cell is held. The sum leaves
 * those places of slot 0 alone.
 */
#ifndef SL_TRAINER_MODEL_ALLREDUCE_H
#define SL_TRAINER_MODEL_ALLREDUCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/device/plugin.h"
#include "common/arena/group.h"
#include "common/arena/ledger.h"
#include "common/arena/heartbeat.h"
#include "trainer/feed/compute.h"
#include "trainer/model/update_runs.h"

// Borrowed for as long as the exchange lives.
struct sl_exchange_spec {
    struct sl_arena *arena;
    uint32_t worker; // id
    struct sl_compute compute;
    const struct sl_collective *collective;
    const struct sl_update_runs *runs; // which parameters are summed
    const struct sl_heartbeat *pulse;
};

enum sl_exchange_state {
    SL_EXCHANGE_OUTSIDE,
    SL_EXCHANGE_APART,
    SL_EXCHANGE_MEETING,
    SL_EXCHANGE_TOGETHER,
    SL_EXCHANGE_BROKEN,
};

struct sl_exchange {
    struct sl_exchange_spec spec;
    float *sum;            // (n_params) device memory: of the held batches' gradients
    float *total;          // (n_params) device memory: of all members' sums
    struct sl_lease *held; // (batches_per_update)
    uint32_t n_held;
    uint64_t version; // that the held batches were computed on
    enum sl_exchange_state state;
    struct sl_group_view group; // the view that the state belongs to
    bool counted;               // in this generation, for the update from ...
    uint64_t counted_version;
    uint64_t waited_ns; // in this state, or for this sum, as far as this process ran
    uint64_t looked_ns; // when waited_ns was last updated
    bool told;          // the long wait has been logged
    char why[512];
    uint64_t completed; // batches
    uint64_t rounds;    // sums that this trainer took part in
    uint64_t ns;        // time they took
};

// Device memory that one takes.
uint64_t sl_exchange_bytes(uint64_t n_params);

// SL_ENOMEM; SL_EPROTO where the arena has no group.
int sl_exchange_init(struct sl_exchange *x, const struct sl_exchange_spec *spec);
/*
 * Gives the communicator up, so that a sum which waits for others ends: before anything that waits
 * for the device, such as the release of its memory. Safe on a zeroed struct.
 */
void sl_exchange_leave(struct sl_exchange *x);
// Leaves, and gives held batches back: somebody else must train them. Safe on a zeroed struct.
void sl_exchange_fini(struct sl_exchange *x);

/*
 * A batch, in two steps. add() queues that its gradient, in device memory as what this thread has
 * called last leaves it, goes into the sum; once the caller has waited for the device (sync()) and
 * filled in the lease's entry, keep() holds the batch. The gradient may be written over after
 * add().
 */
int sl_exchange_add(struct sl_exchange *x, const struct sl_lease *lease, const float *gradient);
int sl_exchange_keep(struct sl_exchange *x, const struct sl_lease *lease);

// How long its trainer may wait for a batch or a version before it looks at the group again though
// `progress` was not signalled: a moment while it meets the others, which no event tells of.
uint32_t sl_exchange_poll_ms(const struct sl_exchange *x);

// Does what can be done now; waits for nobody but in the sum itself. SL_OK also when there was
// nothing to do. SL_EDEVICE when the group cannot be made, or this GPU is lost.
int sl_exchange_help(struct sl_exchange *x);

#endif
