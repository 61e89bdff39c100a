/*
 * ledger.h - the state of every mini-batch and who works on it: each is done exactly once, whatever
 * dies.
 *
 * PROBLEM. Samplers and trainers in separate processes share the mini-batches of an epoch. Any of
 * them may be killed at any instruction; no batch may be lost or counted twice, and nobody may
 * wait for a central process once a batch.
 *
 * DESIGN. Work comes in *phases*: one epoch of training, one layer of inference over all vertices,
 * one pass of sampled evaluation. Phases are numbered from 1 and run strictly one after the other
 * for trainers, but for those of the side lane; samplers may run ahead in phases that are already
 * open. A phase has cells, one for each batch (or chunk of vertices), each a 64-bit word
 *
 *      phase (24 bits) | attempt (16 bits) | owner (16 bits) | state (8 bits)
 *
 * moved by compare-and-swap:
 *
 *      pending -> sampling -> ready -> training -> done         (train, sampled evaluation)
 *                             ready -> fetching -> staged -> training -> done   (the same where
 *                                                                features are on the drive)
 *                             ready -> training -> held -> done (train, where trainers sum
 *                                                                gradients themselves: group.h)
 *                             ready -> training -> done         (inference: nothing to sample)
 *                 sampling or ready or staged -> done         (lent, and left by its trainer)
 *      pending -> sampling -------------------------> done         (pre-sampling: drawn to be
 *                                                                   counted, nothing is kept)
 *
 * A worker's claim is its lease. It ends by completion, or by the broker's reclaim, which happens
 * only after the kernel has proved the owner's death: sampling -> pending, fetching -> ready and
 * training -> ready (or staged: what the cache does not have any more is read again, so fetching
 * twice changes nothing), with the attempt advanced, so that a completion by a worker that had been
 * given up fails (SL_ESTALE). A held batch has given its payload back, and its gradient is in its
 * trainer's memory alone: held -> pending, unless the update's sum is safe already, then held ->
 * done.
 *
 * Phase and attempt together are the cell's turn: no value of a cell ever comes back, so a process
 * that was stopped for a while cannot claim a cell of a phase that has since reused the slot. One
 * more edge exists: a sampler whose batch is next in line and finds no payload memory evicts the
 * newest ready batch (ready -> pending); it is drawn again later, bit for bit the same.
 *
 * Facts are in the cells alone. Cursors and "how many are done" are hints that anybody can compute
 * again, so a process killed between a cell and a hint harms nothing: the broker rewinds the
 * cursors when it reclaims. A cursor carries a generation: a reset of a cell bumps it, which makes
 * a concurrent advance past that cell fail.
 *
 * LANES. An ordered update of one batch lets one trainer work and the others wait, who could as
 * well evaluate the epoch before. So a phase belongs to a lane, and each lane runs strictly in
 * order by itself: `current` of a lane is its lowest phase that is not complete. The side lane has
 * inference alone: nothing of it is sampled and nothing lies in payload memory, so what is said of
 * samplers, eviction and updates is said of the main lane. Nothing orders one lane against the
 * other but gates. Evaluation beside updates is of one version all the same, since the broker pins
 * its parameters before it opens them (SL_PARAMS_PINNED). A trainer takes a batch that it can train
 * at once, else a cell of the side lane, else a batch that has to wait (enum sl_occupation). A slot
 * is used again once both lanes are past it.
 *
 * LENDING. The batches of a LEND phase are for external trainers, processes of the user's. They are
 * drawn, claimed and reclaimed as any others; no parameters, updates or versions belong to them.
 * Such a trainer has a rank, and where the arena has a *world*, cell k is rank k mod world's for
 * good: what a dead one had waits for whoever takes its rank next, so that each rank sees the same
 * batches whatever dies. A user may leave an epoch in the middle, or begin in one. So each rank has
 * a position that only rises, and what of its cells stands before it is *left*: whoever comes upon
 * such a cell, a sampler or any trainer, completes it as it is. Of several nodes each lends the
 * cells that it would train (nodes.h), to ranks of its own that take turns in them; the others are
 * done from the start, and nodes do not wait for one another.
 *
 * WHAT IS KNOWN OF THE WORK stands apart from the cells, in structures of one owner each:
 *
 *   structure         written by                      final once
 *   sl_batch_entry    the holder of the cell's lease  the cell is done
 *   sl_update_entry   the holder of the apply lock    the update is applied:
 *   sl_param_store_is_applied()
 *
 * Nobody else writes them, and nobody at all once they are final, until the slot's next phase is
 * opened. Whoever dies before leaves what its successor writes over as a whole: it adds nothing to
 * what it finds. (Live figures of workers: stats.h.)
 *
 * MEMORY ORDER. claim (acquire) pairs with publish (release): the entry and the block are visible.
 * complete (release) pairs with the completion scan (acquire): gradient and entry are visible.
 */
#ifndef SL_ARENA_LEDGER_H
#define SL_ARENA_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/phase.h"

// --- broker ---

// Opens the next phase; *seq is its number. It takes the slot of phase *seq - SL_ARENA_PHASES,
// whose entries the caller must have read by then. SL_EAGAIN while that one is not complete.
// SL_EINVAL for a phase of the side lane that is no inference.
int sl_ledger_open_phase(struct sl_arena *a, const struct sl_phase_spec *spec, uint64_t *seq);
// The same for a TRAIN phase of which these cells (n, rising) were trained before the job was
// resumed: they are done from the start, their entries `restored`. The parameter store's version
// must be the one that their gradients made. SL_EINVAL for cells that the phase does not have.
int sl_ledger_open_restored(struct sl_arena *a, const struct sl_phase_spec *spec,
                            const struct sl_cell_record *records, uint32_t n, uint64_t *seq);
void sl_ledger_open_gate(struct sl_arena *a, uint64_t seq);
// Every cell done, and for TRAIN every update applied. Moves both lanes past complete phases.
bool sl_ledger_phase_complete(struct sl_arena *a, uint64_t seq);

struct sl_reclaimed {
    uint32_t resample;  // leases of the dead worker that go back to pending
    uint32_t refetch;   // ... whose rows it was fetching
    uint32_t finished;  // held ones that are done, since their update's sum is safe
    uint32_t retrain;   // ... to ready, or held ones to pending
    uint64_t first_tag; // batch of the first of them, 0 = none
};

// Takes back everything a dead worker held: leases, payload memory, the apply lock, an async
// gradient that it had not finished, the probe that it was writing. Only after the kernel has
// proved its death, and before another worker takes its seat. A group that it was in is dissolved:
// form it anew afterwards.
void sl_ledger_reclaim(struct sl_arena *a, uint32_t worker, struct sl_reclaimed *out);

// Live counts over the sampled phases that are not complete: what is queued, and where.
struct sl_ledger_depth {
    uint64_t batches[SL_CELL_STATES]; // by enum sl_cell_state, over open phases
    uint64_t queued;                  // drawn, and no trainer has it: ready, fetching, staged
    uint64_t queued_bytes;
    uint64_t payload_bytes; // chunks in use
};
void sl_ledger_depth(struct sl_arena *a, struct sl_ledger_depth *out);
// Whether a worker still has a batch to finish during a pause, also one that its figures do not
// show yet.
bool sl_ledger_works(const struct sl_arena *a, uint32_t worker);

// --- workers ---

// How far ahead of the trainers a sampler may draw.
enum sl_ahead { SL_AHEAD_ALL, SL_AHEAD_CURRENT_ONLY };

// Claims the lowest pending cell of the open phases, or of the current one only. Waits up to
// timeout_ms. SL_OK, SL_ETIMEDOUT, SL_EABORTED.
int sl_ledger_claim_sample(struct sl_arena *a, uint32_t worker, enum sl_ahead ahead,
                           uint32_t timeout_ms, struct sl_lease *out);
// sampling -> ready. SL_ESTALE when the lease was taken away; SL_EINVAL in a PRESAMPLE phase.
int sl_ledger_publish(struct sl_arena *a, const struct sl_lease *lease);

// Claims the lowest ready batch whose rows are to be brought from the drive, of those that trainers
// will claim next (spec.fetch_ahead). Waits as above.
int sl_ledger_claim_fetch(struct sl_arena *a, uint32_t worker, uint32_t timeout_ms,
                          struct sl_lease *out);
// fetching -> staged. SL_ESTALE when the lease was taken away.
int sl_ledger_stage(struct sl_arena *a, const struct sl_lease *lease);
// The number (sl_phase_batch) of the oldest batch that may not be done.
uint64_t sl_ledger_oldest_batch(const struct sl_arena *a);

// Claims the lowest unclaimed cell of the current phase once it is ready, or staged where its rows
// come from the drive: strictly in batch order.
// Where trainers form a group, of a TRAIN phase: the lowest of those that are this worker's turn,
// and none while the lowest of all finds no payload memory.
int sl_ledger_claim_train(struct sl_arena *a, uint32_t worker, uint32_t timeout_ms,
                          struct sl_lease *out);

// What a trainer is doing when it claims: decides what it claims where both lanes have a cell.
enum sl_occupation {
    SL_OCCUPATION_NONE,   // nothing: a batch of the current version, else a cell of the side lane
    SL_OCCUPATION_TRAINS, // trains: likewise, but a batch of the next version will do
    SL_OCCUPATION_ASIDE,  // evaluates, or may not train: only cells of the side lane
};
// The same, by what the trainer is doing; a batch that has to wait for a later version is claimed
// where the side lane has nothing. sl_ledger_claim_train() claims as SL_OCCUPATION_NONE.
int sl_ledger_claim_beside(struct sl_arena *a, uint32_t worker, enum sl_occupation does,
                           uint32_t timeout_ms, struct sl_lease *out);

// What is lent right now.
struct sl_ledger_lent {
    uint64_t seq;
    uint32_t epoch, n_cells;
};
// False while no phase of that kind is the current one.
bool sl_ledger_look_lent(const struct sl_arena *a, struct sl_ledger_lent *out);
/*
 * Claims the lowest batch of this rank's in that epoch (with world 0: of anybody's) once it is
 * ready, or staged where its rows come from the drive. What is left is completed on the way. Waits
 * as above, also for the epoch before to be over for the others.
 * SL_ERANGE: nothing of it is to be had any more. With a world: each batch of the rank's is
 * claimed, done or left; with world 0: of everybody, and nobody else has one that might come back.
 */
int sl_ledger_claim_lent(struct sl_arena *a, uint32_t worker, uint32_t rank, uint32_t epoch,
                         uint32_t timeout_ms, struct sl_lease *out);
// Whether nothing of that epoch is lent any more, to anybody.
bool sl_ledger_epoch_is_over(const struct sl_arena *a, uint32_t epoch);
// The rank (with world 0: all, whatever the rank) leaves what stands before that cell of that
// epoch, batches in hand excepted. Nothing happens where it is further on already.
void sl_ledger_leave(struct sl_arena *a, uint32_t rank, uint32_t epoch, uint32_t cell);
// The worker has that rank from now on, and until it says otherwise or is reclaimed.
void sl_ledger_sit(struct sl_arena *a, uint32_t rank, uint32_t worker);
void sl_ledger_stand_up(struct sl_arena *a, uint32_t worker);
// Whether the epoch that is lent waits for a batch that nobody has the rank of; *rank: the lowest
// such one. Where no rank has batches of its own: false. O(batches).
bool sl_ledger_rank_is_absent(const struct sl_arena *a, uint32_t *rank);
// Whether this worker may claim a cell of the phase right now (its turn, in a group).
bool sl_ledger_is_turn(const struct sl_arena *a, uint32_t worker, const struct sl_phase *phase,
                       uint32_t cell);
/*
 * Whether payload memory is full of batches in trainers' hands, this lease's among them, that wait
 * for one before them which therefore cannot be drawn: it has to go back, where it can be evicted.
 * Only members of a group have such batches, since they pass over the batches of others.
 */
bool sl_ledger_is_in_the_way(struct sl_arena *a, const struct sl_lease *lease);
// training -> held, then frees the payload; *lease is the held one from then on. SL_ESTALE.
int sl_ledger_hold(struct sl_arena *a, struct sl_lease *lease);
// training -> done, then frees the payload; held -> done; sampling -> done in a PRESAMPLE phase, or
// where it is left. SL_ESTALE when the lease was taken away; SL_EINVAL for another sampler's lease.
int sl_ledger_complete(struct sl_arena *a, const struct sl_lease *lease);
// Gives a lease back unused: sampling and held -> pending, fetching -> ready, training -> ready or
// staged (payload kept).
void sl_ledger_return(struct sl_arena *a, const struct sl_lease *lease);

// --- both ---

// What lies ahead in the current phase. From hints: exact while nobody dies.
struct sl_ledger_ahead {
    uint64_t seq;  // 0: no phase is open
    uint32_t kind; // enum sl_phase_kind
    bool gated;
    uint32_t unsampled; // cells that nobody has claimed for sampling
    uint32_t unclaimed; // cells that no trainer has claimed: M_r of FGNN 5.3
};
void sl_ledger_look_ahead(const struct sl_arena *a, struct sl_ledger_ahead *out);
// The same of the side lane.
void sl_ledger_look_aside(const struct sl_arena *a, struct sl_ledger_ahead *out);

// Whether trainers wait for a batch that nobody samples, older than the lease's: a sampler that
// waits for memory returns its lease then, since memory may be full of batches trained after it.
bool sl_ledger_older_is_pending(const struct sl_arena *a, const struct sl_lease *lease);

// What a checkpoint keeps of a cell that is done.
void sl_ledger_record(const struct sl_arena *a, uint64_t seq, uint32_t cell,
                      struct sl_cell_record *out);

#endif
