/*
 * peer_export.h - the parts of one kind (peer_memory.h) that a worker's GPU holds, for itself and
 * for others: laid out as the plan deals them out, filled, lent, and withdrawn before they are laid
 * out anew.
 *
 * What elements are is its owner's: one size for all, and a function that brings some of them. All
 * of it happens in the owner's thread, between its batches.
 *
 *      layout       what the plan gives this device, of the elements that it may have
 *      may_change   what is there stays where it is laid out alike, whatever the plan's number is;
 *                   else it is withdrawn, and once nobody has it open the parts that this device
 *                   keeps move within their memory to where they lie from now on, as far as there
 *                   is room for them. Where none is kept, or the memory is of another size, all of
 *                   it goes. Until then the owner goes on with what it has
 *      allocate     memory for as much of each part as there is memory for
 *      fill         piece by piece, all parts alike, but for what has been kept; what is there is
 *                   lent as it comes
 *
 * An element is of one or two planes, as an edge is of its neighbour and of a running sum of
 * weights: the first plane of all parts, then the second.
 *
 * FAILURE. Memory that is not to be had makes smaller parts; parts that cannot be lent are for this
 * worker alone. Either with a line in the log.
 */
#ifndef SL_ARENA_PEER_EXPORT_H
#define SL_ARENA_PEER_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena/peer_import.h"

enum { SL_PEER_EXPORT_PLANES = 2 };

struct sl_peer_export_layout {
    uint32_t held;    // bit i: part i
    uint32_t n_held;  // parts
    uint64_t first;   // the first element of part 0
    uint32_t n_parts; // elements are dealt out to, in runs of
    uint32_t shift;   // ... 1 << shift
    uint64_t wanted;  // elements of each part
};

struct sl_peer_export {
    struct sl_arena *arena;
    enum sl_peer_memory_kind kind;
    uint32_t owner; // the worker's device, of the job
    const struct sl_device *device;
    uint64_t
        plane_bytes[SL_PEER_EXPORT_PLANES]; // of an element; of the second plane 0: there is none
    const char *what;                       // "feature cache", for the log
    bool is_mixed; // what an element holds depends on how large parts are: none of them stay

    struct sl_peer_export_layout at;
    // Its parts behind one another, lowest number first, each of `room` elements. NULL: none.
    char *p;
    size_t bytes;
    uint64_t room;
    uint64_t elements;                       // of each part that are there
    uint64_t kept[SL_PEER_MEMORY_PARTS_MAX]; // of part p, of an earlier layout
    uint64_t loaded;                         // elements that have been brought, in all
    uint64_t plan;                           // by which they were lent last; 0: never
    bool is_lent, withdrawn;
};

// Everything is borrowed for as long as it lives. Nothing is held yet.
void sl_peer_export_init(struct sl_peer_export *l, struct sl_arena *arena,
                         enum sl_peer_memory_kind kind, uint32_t owner,
                         const struct sl_device *device,
                         const uint64_t plane_bytes[SL_PEER_EXPORT_PLANES], const char *what);
// Withdraws first, and waits a moment for readers. Safe on a zeroed struct.
void sl_peer_export_fini(struct sl_peer_export *l);

// What this device holds by the plan, with room for `elements` in all. False: nothing.
bool sl_peer_export_layout(const struct sl_peer_export *l, const struct sl_peer_memory_plan *plan,
                           uint64_t elements, struct sl_peer_export_layout *out);

bool sl_peer_export_may_change(struct sl_peer_export *l, const struct sl_peer_export_layout *to);
// Allocates where nothing is held yet; returns whether anything could be.
bool sl_peer_export_allocate(struct sl_peer_export *l, const struct sl_peer_export_layout *layout);

/*
 * Fills what is empty until goes_on() says no, `piece` elements of each part at a time, and lends
 * by this plan and order what is there. load() brings elements [from, from + n) of a part, of which
 * some may not exist, to device memory that begins at element `to` of all that the parts have room
 * for. Its error ends the filling; what is there stays.
 */
struct sl_peer_export_source {
    int (*load)(void *ctx, uint32_t part, uint64_t from, uint64_t n, uint64_t to);
    bool (*goes_on)(void *ctx);
    void *ctx;
    uint64_t piece;
};
int sl_peer_export_fill(struct sl_peer_export *l, uint64_t plan, uint64_t order,
                        const struct sl_peer_export_source *source);

// Where the second plane begins in memory that has `n_held` parts of `room` elements, this worker's
// or another's.
uint64_t sl_peer_export_second(const struct sl_peer_export *l, uint32_t n_held, uint64_t room);

// Elements that are loaded, over all parts.
uint64_t sl_peer_export_elements(const struct sl_peer_export *l);

// Where this worker reads part p of the plan: its own memory, or another's that is open. False:
// nowhere.
bool sl_peer_export_part(const struct sl_peer_export *l, const struct sl_peer_import *others,
                         const struct sl_peer_memory_plan *plan, uint32_t p,
                         struct sl_peer_import_part *out);

#endif
