/*
 * payload_alloc.h - payload memory: contiguous runs of chunks, owned by batches.
 *
 * Each chunk has one 64-bit word: 0 when free, else the tag of the batch that it belongs to. Tags
 * are never reused, so freeing is a compare-and-swap from the tag to 0: a late free by anybody
 * cannot hit the next owner, and the broker can tell from the ledger alone which chunks of a dead
 * worker's batches are garbage. First fit from the lowest address keeps reused memory warm
 * (touching fresh pages costs 0.3 to 0.9 GB/s).
 *
 * When no run fits, the batch announces itself as starving: younger batches then wait, until it has
 * its memory or its lease ends (sl_ledger_return, or a sweep after its sampler's death). A starving
 * batch that is next in line evicts the newest ready batches (ledger.h), so that a fragmented or
 * full arena cannot lock a job up.
 */
#ifndef SL_ARENA_PAYLOAD_ALLOC_H
#define SL_ARENA_PAYLOAD_ALLOC_H

#include <stdint.h>

#include "common/arena/phase.h"

struct sl_extent {
    uint64_t offset; // from the arena's start
    uint64_t bytes;  // a multiple of SL_ARENA_CHUNK_BYTES
};

// Takes at least `bytes` for the lease's batch. Waits up to timeout_ms. After SL_ETIMEDOUT the
// batch keeps its place before younger ones, until it asks with success or its lease goes back.
// SL_OK, SL_ETIMEDOUT, SL_EABORTED, SL_ENOMEM when it can never fit (message with the numbers).
int sl_payload_alloc(struct sl_arena *a, const struct sl_lease *lease, uint64_t bytes,
                     uint32_t timeout_ms, struct sl_extent *out);

// Gives the end of an extent back: keeps the first `bytes`.
void sl_payload_trim(struct sl_arena *a, uint64_t tag, struct sl_extent *extent, uint64_t bytes);

// Whether an extent that an entry names lies within the payload memory. SL_EPROTO.
int sl_payload_check(const struct sl_arena *a, uint64_t offset, uint64_t bytes);

// True when any of it was the tag's still: then whoever waits for memory has been told.
bool sl_payload_free(struct sl_arena *a, uint64_t tag, uint64_t offset, uint64_t bytes);

// A batch whose lease ends does not wait for memory any more.
void sl_payload_end_wait(struct sl_arena *a, uint64_t tag);

// After a death: frees the chunks of dead batches; forgets a starving announcement.
void sl_payload_sweep(struct sl_arena *a);
uint64_t sl_payload_used_bytes(const struct sl_arena *a);

#endif
