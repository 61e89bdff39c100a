/*
 * peer_memory.h - memory of a worker's GPU that other workers of the job read: what XGNN's data
 * access manager (4.1) exchanges, and the plan by which it is laid out (common/store/placement.h).
 *
 * PROBLEM. Several GPUs hold more together than each by itself: trainers the hottest features,
 * samplers the graph. Each holds some parts, and reads those of the others in place, over the links
 * between them. Memory of a GPU belongs to a process: when that one dies the memory goes with it,
 * in the middle of somebody's read, and what is there afterwards is anything.
 *
 * DESIGN. No process does nothing but hold memory: it would cost a context of some hundred MiB on
 * each GPU and could die as well. Whoever works on a GPU lends what it holds there, and every
 * reader can do without: all elements lie in the machine's memory too.
 *
 *      the broker writes   the plan of each role: who holds which parts, whose copy each device
 *                          reads; and the rows of each trainer's cache, which stand in its seat. A
                          version is odd while they are being written, so that nobody has the new
                          rows with the old plan
 *      the lender writes   in its seat's place: its memory's share, the plan that it is laid out
 *                          by, how much of it is there (more and more while it is filled)
 *      the reader writes   bit d (its device) of the lender's `readers` for as long as it has that
 *                          memory open; the bytes that it has read of whom
 *
 *   lend        fill in, version even.
 *   open        set the bit, look at the version once more (else clear the bit), attach.
 *   read        a batch at a time. What was read counts only if every lender that it was read of is
 *               alive afterwards, and the bit still set (whoever sits there may be a replacement);
 *               else the batch is gathered again without that one's parts.
 *   withdraw    version odd. Readers see it at their next batch, detach, and clear the bit once the
 *               memory is closed, which a driver may put off; it is freed or written to again once
 *               there are no bits. The lender never waits for
 *               that: it looks between its batches, and goes on with what it has until then.
 *   leave       a worker that ends withdraws, and gives its life up before its memory: readers then
 *               find it as they find a dead one. Memory that somebody has open is not freed: it
 *               goes with the process.
 *   death       the broker clears the dead worker's bits and withdraws what it lent, once its death
 *               is proved. Before anybody can know of it, see ALIVE.
 *
 * ALIVE. A process's files are closed, and its GPU's memory is gone, before its death is seen by
 * wait() or a pidfd. So the lender has a word that the kernel changes earlier: a robust futex
 * (set_robust_list(2)), held by a thread that does nothing else. It is marked when that thread
 * leaves its memory, which on the way out comes before any thread's files are closed. A reader that
 * finds the mark missing after its read knows that the memory was still there.
 *
 * FAILURE. What cannot be shared or attached is read in the machine's memory, with a line in the
 * log. Parameters and samples are the same bit for bit, wherever what was read lay.
 */
#ifndef SL_ARENA_PEER_MEMORY_H
#define SL_ARENA_PEER_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"
#include "common/arena/segment.h"

// GPUs that hold parts together; devices of a job; and nobody.
enum {
    SL_PEER_MEMORY_PARTS_MAX = 16,
    SL_PEER_MEMORY_DEVICES_MAX = 64,
    SL_PEER_MEMORY_NOBODY = 0xff
};

// Edges are dealt out in runs of 4 KiB of neighbours: what one vertex reads lies together, and the
// edges of a vertex that has very many lie on all GPUs.
enum { SL_PEER_MEMORY_EDGE_SHIFT = 10 };

// Kinds of shared memory: trainers lend rows of features by their rank, samplers edges of the graph
// to one another, and blocks, of which there is no plan, to the trainers on their GPU (mirror.h).
enum sl_peer_memory_kind {
    SL_PEER_MEMORY_FEATURES,
    SL_PEER_MEMORY_GRAPH,
    SL_PEER_MEMORY_PLANNED, // kinds of which there are plans
    SL_PEER_MEMORY_BLOCKS = SL_PEER_MEMORY_PLANNED,
    SL_PEER_MEMORY_KINDS
};

enum sl_peer_memory_role { SL_PEER_MEMORY_SAMPLER, SL_PEER_MEMORY_TRAINER, SL_PEER_MEMORY_ROLES };

/*
 * How a kind lies on the devices: elements [first, first + n_parts * part_elements) in parts
 * (struct sl_spread in kernels/kernels.h), element j of them of part j mod n_parts; edges in runs.
 * A holder lends its parts behind one another, lowest number first; the first `first` elements,
 * which it has for itself, lie elsewhere.
 */
struct sl_peer_memory_plan {
    uint64_t generation;    // 0: there is none, everybody has what it has for itself
    uint32_t n_parts;       // and holders
    uint32_t shift;         // runs of 1 << shift elements
    uint64_t first;         // elements that every holder has for itself
    uint64_t part_elements; // of the holder that has the most of each of its parts
    // bit p: device d holds part p
    uint32_t held[SL_PEER_MEMORY_DEVICES_MAX];
    // [d][p]: the device whose copy of part p device d reads; itself, or SL_PEER_MEMORY_NOBODY
    uint8_t from[SL_PEER_MEMORY_DEVICES_MAX][SL_PEER_MEMORY_PARTS_MAX];
};

// What a lender says of its memory.
struct sl_peer_memory_offer {
    uint64_t version; // even: of this offer
    uint64_t plan;    // its generation
    uint64_t order;   // features: of the hotness order (visit_counts.h)
    // Elements from one part to the next: part_elements, or less for want of memory, or of a holder
    // of more parts than others.
    uint64_t room;
    uint64_t elements; // of each part that are there
    struct sl_device_share share;
};

// Bytes of its region for this job: 0 with more devices than readers have bits.
uint64_t sl_peer_memory_bytes(const struct sl_arena_spec *spec);

// --- the plan ---

// Broker: makes this the plan, whose generation must be new, and wakes everybody. rows (n_devices):
// what the caches of trainers may hold under it (seat.h); NULL: as before.
void sl_peer_memory_publish(struct sl_arena *a, enum sl_peer_memory_kind kind,
                            const struct sl_peer_memory_plan *plan, const uint64_t *rows);
// Broker: changes these rows under the current plan. Wakes nobody.
void sl_peer_memory_give_rows(struct sl_arena *a, const uint64_t *rows);
// Generation of the current plan: costs one load.
uint64_t sl_peer_memory_generation(const struct sl_arena *a, enum sl_peer_memory_kind kind);
// False while it is being changed: look again.
bool sl_peer_memory_read_plan(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                              struct sl_peer_memory_plan *out);
// The same for features, with the rows that this device's trainer may cache.
bool sl_peer_memory_read_rows(const struct sl_arena *a, uint32_t device,
                              struct sl_peer_memory_plan *out, uint64_t *rows);

// --- lenders: by their device, in the role that lends the kind ---

// Marks this process as alive until it ends or leaves, and starts the thread that holds the mark. A
// process has one mark for all that it lends; SL_ESYS also for a second one.
int sl_peer_memory_live(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device);
// Returns the offer's version; offer->version is ignored.
uint64_t sl_peer_memory_offer(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device,
                              const struct sl_peer_memory_offer *offer);
// More elements of the same offer are there.
void sl_peer_memory_grow(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device,
                         uint64_t elements);
// Nobody may open it any more.
void sl_peer_memory_withdraw(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device);
// Whether somebody has it open.
bool sl_peer_memory_is_read(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                            uint32_t device);
// Withdraws, and ends the mark, so that nothing read from this process counts any more. Waits for
// readers, a second at most. False: some still have it open, so the memory must not be freed: it
// goes with the process.
bool sl_peer_memory_leave(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device);

// --- readers ---

// False: nothing is lent, or it is being changed.
bool sl_peer_memory_read(const struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                         struct sl_peer_memory_offer *out);
// The worker on device `reader` opens this offer. False: it no longer exists.
bool sl_peer_memory_open(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                         uint32_t reader, uint64_t version);
// Costs two loads. False: this offer no longer exists; else *elements of each part are loaded.
bool sl_peer_memory_stands(const struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                           uint64_t version, uint64_t *elements);
// The reader has closed it.
void sl_peer_memory_close(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                          uint32_t reader);
// Whether the lender lives.
bool sl_peer_memory_is_alive(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                             uint32_t lender);
// Whether what this reader has read of an open offer so far counts, also if it was withdrawn since:
// the lender is alive, and its memory does not change while somebody has it open.
bool sl_peer_memory_is_good(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                            uint32_t lender, uint32_t reader);

// --- all of them ---

// Rows of the hotness order `order` (visit_counts.h) that every trainer at work finds on GPUs or in
// a cache of its own: those of a lower rank. For whom time is at stake: the next moment it may be
// fewer.
uint64_t sl_peer_memory_rows_held(const struct sl_arena *a, uint32_t order);

// --- what was read ---

// A reader counts bytes that it read from the memory of device `from`; n_devices: the machine's.
void sl_peer_memory_count(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t reader,
                          uint32_t from, uint64_t bytes);
// The sum over all workers that this device has had.
uint64_t sl_peer_memory_counted(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                                uint32_t reader, uint32_t from);

// --- broker ---

// The worker of the role on this device is dead: its bits go, and what it lent.
void sl_peer_memory_vacate(struct sl_arena *a, enum sl_peer_memory_role role, uint32_t device);

#endif
