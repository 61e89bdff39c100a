/*
 * group.h - the trainers that sum an update's gradients among themselves (updates.exchange "nccl").
 *
 * PROBLEM. With the parameter store alone every batch's gradient crosses the bus to the machine's
 * memory and the processor adds them up. GPUs that can reach one another add faster than that. But
 * a collective operation wants all of its members, and any of them may be killed at any
 * instruction, leave, or come; no batch may be lost or counted twice, and nobody may wait for the
 * dead.
 *
 * DESIGN. A job with a group keeps the ledger and the parameter store (their contracts do not
 * change for anybody who reads them) and puts one step between a batch's gradient and its
 * completion:
 *
 *   hold      a trainer adds the gradient of its batch to a sum in its device's memory and moves
 *             the cell training -> held. The batch's payload is freed then.
 *   reduce    once every cell of the next update is held, all members sum their sums: each has the
 *             gradient of the whole update on its device, and keeps its own part, too.
 *   write     member r of n writes the r-th part of it into gradient slot 0 of the parameter store,
 *             and then counts itself in the group's word. The last one makes the update *reduced*.
 *   complete  only now are the cells done, each by who holds it; then the update is applied from
 *             the one slot, by anybody, as ever.
 *
 * A gradient that lives in one process's memory is lost with it, so a cell is done only when the
 * sum lies in the arena: until then the death of its holder sends it back to be drawn and trained
 * again, from then on it is done whoever dies.
 *
 * MEMBERS. The broker says who they are: a list of workers with a *generation* that grows with
 * every change. It adds trainers that are ready, and takes one off only when its death is proved:
 * so nobody who was a member once writes into the slot behind the others' backs. A death dissolves
 * the group first; then what the dead one held is taken back; then the next generation is formed.
 * In the other order its members could find an update held whose gradients are gone.
 *
 * All that members do together is of one generation. When it is over they give up the communicator
 * they have, whatever it is doing, meet anew under the next one, and sum again: their own sums are
 * untouched, and the dead one's cells come back as pending. What was reduced in an earlier
 * generation is not summed again: those who hold its cells complete them.
 *
 * Member r of n trains the cells of an update whose place in it is r modulo n, so that a sum's
 * order, and with it every bit of the result, depends on the number of trainers alone while nobody
 * dies. Somebody who is no member trains nothing (evaluation is anybody's).
 *
 * THE WORD. Generation, update and how many have written are one word moved by compare-and-swap:
 *
 *      generation (24 bits) | version that the update starts from (24 bits) | written (16 bits)
 *
 * so a member of an older generation cannot count itself, and the broker's step to the next one
 * either finds the update reduced, which stays, or forgets who has written.
 *
 * Members meet by a name of 128 bytes that the first of them makes. It stands in that device's own
 * place, tagged with the generation, so no two write the same bytes.
 *
 * Memory orders: `formed` is released by the broker after the list, acquired by members, who read
 * the generation again behind it; `named` likewise for the name; the word is sequentially
 * consistent, and its last step by a member releases what all of them have written to the slot.
 */
#ifndef SL_ARENA_GROUP_H
#define SL_ARENA_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/segment.h"

enum { SL_GROUP_MAX = 64, SL_GROUP_NAME_BYTES = 128 };

// One member.
struct sl_group_member {
    uint32_t worker, device;
};

// What a worker sees of the group.
struct sl_group_view {
    uint64_t generation; // 0 = there never was a group
    uint32_t n;          // members
    uint32_t rank;       // its own; n when it is none of them
    uint32_t first;      // device of rank 0
};

// Bytes of its region for this job: 0 without an exchange.
uint64_t sl_group_bytes(const struct sl_arena_spec *spec);

// False where the job has no group: each batch's gradient goes to the parameter store.
static inline bool sl_group_exists(const struct sl_arena *a)
{
    return a->h->spec.exchange != 0;
}

// --- broker ---

/*
 * A worker is dead: if it is a member, its generation is over and no other one begins until
 * sl_group_form(), whose list must be without it. Between the two its held cells are taken back:
 * sl_ledger_reclaim() calls this first, so the list is formed after it. Were the cells still held
 * while a new generation is there, its members would sum without what only the dead one had.
 */
void sl_group_dissolve(struct sl_arena *a, uint32_t worker);

// Sets the members, in the order of their ranks; n may be 0. Returns false, and changes nothing,
// when they are the members already.
bool sl_group_form(struct sl_arena *a, const struct sl_group_member *members, uint32_t n);

// --- members ---

// What the group is right now. False while it is being changed, or dissolved: look again.
bool sl_group_read(const struct sl_arena *a, uint32_t worker, struct sl_group_view *out);
// Whether this is still the generation.
bool sl_group_is_current(const struct sl_arena *a, uint64_t generation);
// Whose turn a cell of a TRAIN phase is, by its place in its update.
bool sl_group_is_turn(const struct sl_arena *a, const struct sl_group_view *view, uint32_t cell);

// Rank 0: the name that the others meet it by, once in a generation. Wakes them.
void sl_group_name(struct sl_arena *a, const struct sl_group_view *view,
                   const uint8_t name[SL_GROUP_NAME_BYTES]);
// SL_OK; SL_EAGAIN while rank 0 of this generation has not made it.
int sl_group_read_name(const struct sl_arena *a, const struct sl_group_view *view,
                       uint8_t name[SL_GROUP_NAME_BYTES]);

/*
 * This member's part of the sum of the update from `version` lies in gradient slot 0: once in a
 * generation. SL_OK; SL_ESTALE when the generation has passed: what was written counts for nothing.
 * Wakes everybody when it was the last part.
 */
int sl_group_count_written(struct sl_arena *a, const struct sl_group_view *view, uint64_t version);

// --- anybody ---

// Whether gradient slot 0 holds the whole sum of the update from `version`, for good.
bool sl_group_is_reduced(const struct sl_arena *a, uint64_t version);

#endif
