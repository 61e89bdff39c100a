/*
 * peer_import.h - the memory of other workers (peer_memory.h), of one kind, that a worker has open.
 *
 * A reader does four things with it, all in one thread:
 *
 *      drop       between batches: what was withdrawn is closed, so that its lender can go on
 *      open       before it reads: what the plan says it reads of others, and is lent by now
 *      is_good    after it has read: whether all that it had open was there until then. What was
 *                 not is closed by the next drop or open, when nothing reads it any more, and what
 *                 was read is to be read again without it
 *      close      before it sleeps or ends: lenders wait for nobody who does not look
 *
 * A device may put off closing what is detached, while a sum is under way (device.h). The lender is
 * told when it is closed, and not before: whatever is called next looks whether it is. Until then
 * nothing else of that lender is opened.
 *
 * Nothing here knows what elements are. Memory that cannot be attached is not tried again before
 * its lender offers something else.
 */
#ifndef SL_ARENA_PEER_IMPORT_H
#define SL_ARENA_PEER_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"
#include "common/arena/peer_memory.h"

struct sl_peer_import {
    struct sl_arena *arena;
    enum sl_peer_memory_kind kind;
    uint32_t reader; // the worker's device
    const struct sl_device *device;
    uint64_t opened;  // bit l: of the lender on device l
    uint64_t lost;    // ... that was found dead, and is still open
    uint64_t closing; // ... whose memory was detached, and is not closed yet
    struct {
        uint64_t version; // of the offer that is open
        uint64_t refused; // ... that could not be attached
        uint64_t plan, order, room, elements;
        void *p;
    } of[SL_PEER_MEMORY_DEVICES_MAX];
};

// A part that may be read.
struct sl_peer_import_part {
    uint32_t lender, n_held; // how many parts that one holds
    const char *memory;      // of all of them, in the reader's addresses
    uint32_t number;         // of the part in it
    uint64_t room;           // elements from one part to the next
    uint64_t elements;       // of the part that are there
};

// Everything is borrowed for as long as it lives. Nothing is open yet.
void sl_peer_import_init(struct sl_peer_import *b, struct sl_arena *arena,
                         enum sl_peer_memory_kind kind, uint32_t reader,
                         const struct sl_device *device);

// Whether everything that is open still stands. Costs two loads a lender.
bool sl_peer_import_stands(const struct sl_peer_import *b);
void sl_peer_import_drop(struct sl_peer_import *b);
// Opens what is not open, and looks how much of the rest is loaded by now; closes nothing, since it
// may be in use.
void sl_peer_import_add(struct sl_peer_import *b, const struct sl_peer_memory_plan *plan,
                        uint64_t order);
// drop() and add(); what was laid out by another plan or order is closed first.
void sl_peer_import_open(struct sl_peer_import *b, const struct sl_peer_memory_plan *plan,
                         uint64_t order);
// For a kind without a plan: the memory of this offer, opened if need be. NULL: the offer no longer
// exists, or cannot be attached. The lender may be on the reader's device, in its other role.
const char *sl_peer_import_take(struct sl_peer_import *b, uint32_t lender, uint64_t version);
bool sl_peer_import_is_good(struct sl_peer_import *b);
// Closes everything; safe on a zeroed struct. False: some is closed later, by another call.
bool sl_peer_import_close(struct sl_peer_import *b);

// Where part p of the plan is open to this worker. False: nowhere.
bool sl_peer_import_part(const struct sl_peer_import *b, const struct sl_peer_memory_plan *plan,
                         uint32_t p, struct sl_peer_import_part *out);

#endif
