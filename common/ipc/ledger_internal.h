// ledger_internal.h - what ledger.c, extent.c and board.c share.
#ifndef SL_COMMON_IPC_LEDGER_INTERNAL_H
#define SL_COMMON_IPC_LEDGER_INTERNAL_H

#include "common/ipc/ledger.h"

enum {
    SL_SEQ_BITS = 24,
    SL_CELL_BITS = 24, // cells in a phase
    SL_ATTEMPT_BITS = 16,
};

#define SL_SEQ_MASK     (((uint64_t)1 << SL_SEQ_BITS) - 1)
#define SL_CELL_MASK    (((uint64_t)1 << SL_CELL_BITS) - 1)
#define SL_ATTEMPT_MASK (((uint64_t)1 << SL_ATTEMPT_BITS) - 1)

// extent.c: a batch whose lease ends does not wait for memory any more.
void sl_extent_end_wait(struct sl_arena *a, uint64_t tag);

// seq | attempt | owner | state
static inline uint64_t sl_cell_word(uint64_t seq, uint64_t attempt, uint32_t owner, uint32_t state)
{
    return (seq & SL_SEQ_MASK) << 40 | (attempt & SL_ATTEMPT_MASK) << 24 | (uint64_t)owner << 8 |
           state;
}

static inline uint64_t sl_cell_seq(uint64_t word)
{
    return word >> 40;
}

static inline uint64_t sl_cell_attempt(uint64_t word)
{
    return word >> 24 & SL_ATTEMPT_MASK;
}

// What a lease's word becomes when it is completed: this very lease's, and no other's.
static inline uint64_t sl_cell_done(uint64_t word)
{
    return (word & ~(uint64_t)0xff) | SL_CELL_DONE;
}

// seq | cell | attempt: tags order batches as trainers take them.
static inline uint64_t sl_tag_make(uint64_t seq, uint32_t cell, uint64_t attempt)
{
    return (seq & SL_SEQ_MASK) << 40 | (uint64_t)cell << 16 | (attempt & SL_ATTEMPT_MASK);
}

static inline uint64_t sl_tag_seq(uint64_t tag)
{
    return tag >> 40;
}

static inline uint32_t sl_tag_cell(uint64_t tag)
{
    return (uint32_t)(tag >> 16 & SL_CELL_MASK);
}

static inline uint64_t sl_tag_attempt(uint64_t tag)
{
    return tag & SL_ATTEMPT_MASK;
}

bool sl_cell_is_pending(uint32_t state);
bool sl_cell_is_unclaimed(uint32_t state); // by trainers

// The highest phase that is open, and the lane's lowest one that may not be complete: for a moment
// also one of the other lane.
uint64_t sl_ledger_opened(const struct sl_arena *a);
uint64_t sl_ledger_current(const struct sl_arena *a, enum sl_lane lane);
// The phase of this number, or NULL when its slot holds another one by now.
struct sl_phase *sl_ledger_find(const struct sl_arena *a, uint64_t seq);

_Atomic uint64_t *sl_ledger_cell(const struct sl_arena *a, uint64_t seq, uint32_t cell);

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

// Moves both lanes past phases that are complete, and tells everybody who may wait for that.
void sl_ledger_advance(struct sl_arena *a);

// True while the chunks of this tag belong to a batch that is being drawn, queued or trained.
bool sl_ledger_tag_is_live(const struct sl_arena *a, uint64_t tag);

// extent.c: frees the chunks of dead batches; forgets a starving announcement.
void sl_extent_sweep(struct sl_arena *a);
uint64_t sl_extent_used_bytes(const struct sl_arena *a);

#endif
