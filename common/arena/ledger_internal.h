// ledger_internal.h - how cells move (batch_state.c), for the ledger, the payload memory and the
// parameter store.
#ifndef SL_ARENA_LEDGER_INTERNAL_H
#define SL_ARENA_LEDGER_INTERNAL_H

#include "common/arena/phase.h"

struct sl_update;

bool sl_cell_is_pending(uint32_t state);
bool sl_cell_is_unclaimed(uint32_t state); // by trainers

// What a leased cell becomes when the lease goes back unused.
enum sl_cell_state sl_cell_before(const struct sl_arena *a, uint64_t seq, uint64_t word);

// After a cell was reset: nobody may believe any more that it has been passed.
void sl_cursor_rewind(_Atomic uint64_t *cursor, uint32_t cell);
// For another phase of the slot.
void sl_cursor_set(_Atomic uint64_t *cursor, uint32_t cell);

/*
 * Finds the lowest cell whose state is wanted, moving the cursor past the others. SL_SCAN_LOST: the
 * slot has been reused, or somebody else moved the cursor: look again from the start.
 */
enum sl_scan { SL_SCAN_FOUND, SL_SCAN_END, SL_SCAN_LOST };
enum sl_scan sl_cells_scan(const struct sl_arena *a, uint64_t seq, uint32_t n,
                           _Atomic uint64_t *cursor, bool (*wanted)(uint32_t state), uint32_t *cell,
                           uint64_t *word);

// Moves a cell to a state without an owner, and everybody's attention back to it. False when it is
// not `from` any more.
bool sl_cell_reset(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t from,
                   enum sl_cell_state to);

// True when every older cell of the batch's phase and all older phases are claimed or done: nothing
// can be trained before this batch exists.
bool sl_ledger_is_next(struct sl_arena *a, uint64_t tag);

// Takes the newest ready batch that is younger than `tag` back to pending. SL_OK fills *evicted
// (its tag and payload, still tagged); SL_EAGAIN when there is none.
struct sl_evicted {
    uint64_t tag;
    uint64_t payload_offset, payload_bytes;
};
int sl_ledger_evict(struct sl_arena *a, uint64_t tag, struct sl_evicted *evicted);

// Whether the trainer of a cell of a LEND phase has left it.
bool sl_ledger_is_left(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell);
// Completes the lease if it is left. True when it was, whoever has completed it.
bool sl_ledger_pass_left(struct sl_arena *a, const struct sl_lease *lease);
// pending cells are sampled, others trained: *out is the lease. False when it is not `word` by now.
bool sl_ledger_take(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word, uint32_t worker,
                    enum sl_cell_state to, struct sl_lease *out);
// A trainer has this lease: tells who may wait for that.
void sl_ledger_tell_claimed(struct sl_arena *a, const struct sl_lease *lease);

// Moves both lanes past phases that are complete, and tells everybody who may wait for that.
void sl_ledger_advance(struct sl_arena *a);

// The update that the current version waits for, whatever its cells are. SL_EAGAIN: there is none.
int sl_param_store_next(const struct sl_arena *a, struct sl_update *out);
// Makes version + 1 the current one, in the name of a worker (nodes.h). SL_EAGAIN while the apply
// lock is taken.
int sl_param_store_flip(struct sl_arena *a, uint64_t version, uint32_t worker);
// Of several nodes: whether this one's slice of an update whose cells are all done may be made.
bool sl_nodes_may_make(const struct sl_arena *a, const struct sl_update *u);
// Whether the link has this node's results of that EVAL phase; of one node always.
bool sl_nodes_results_are_given(const struct sl_arena *a, uint64_t seq);

// True while the chunks of this tag belong to a batch that is being drawn, queued or trained.
bool sl_ledger_tag_is_live(const struct sl_arena *a, uint64_t tag);

#endif
