/*
 * arena.h - the one shared-memory segment of a job and what stands where in it.
 *
 * A memfd without a name, created by the broker and inherited by every worker as a descriptor:
 * nothing appears in /dev/shm and nothing outlives the last process. The broker sizes it once the
 * workers have said what they need, writes the directory below, and seals it; workers then map it.
 * It holds offsets and fixed-width fields only: no pointers and no process-shared mutexes.
 *
 *   header     directory, abort word, events, fail-point counters
 *   phases     ring of open phases of work            ledger.h
 *   cells      one 64-bit word for each batch         ledger.h
 *   entries    what is known of each batch            ledger.h
 *   updates    what is known of each update           ledger.h
 *   order      shuffled training vertices, two banks
 *   chunks     who owns each chunk of the payload     extent.h
 *   workers    what the worker of each seat says      stats.h
 *   seats      who is to do what on which device      seat.h
 *   board      parameter versions                     board.h
 *   group      trainers that sum gradients among themselves   group.h
 *   params     two banks of parameters and optimizer state, the best and the pinned parameters,
 *              gradient slots
 *   acts       one or two activations of all vertices for layer-wise inference, and with jumping
 *              knowledge a third one; a file may lie here instead (sl_arena_map_acts)
 *   predict    what an evaluation predicted for its vertices
 *   visits     how often each vertex was sampled      hot.h
 *   hot        the hotness order                      hot.h
 *   probe      one mini-batch to measure a training step with
 *   payload    the blocks
 */
#ifndef SL_COMMON_IPC_ARENA_H
#define SL_COMMON_IPC_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/failpoint.h"
#include "common/ipc/event.h"

#define SL_ARENA_MAGIC 0x31414e4552414c53ull // "SLARENA1"

enum {
    SL_ARENA_VERSION = 13,
    SL_ARENA_PHASES = 8,            // phases open at once
    SL_ARENA_CHUNK_BYTES = 1 << 16, // unit of payload memory
    SL_ARENA_WAIT_MS = 100,         // no wait is longer before it looks around again
    SL_HOT_TIERS_MAX = 8,           // hot.h
};

// What the abort word says; not 0 means: stop what you are doing and leave.
enum sl_abort { SL_ABORT_NONE, SL_ABORT_STOP };

enum sl_region_id {
    SL_REGION_HEADER,
    SL_REGION_PHASES,
    SL_REGION_CELLS,
    SL_REGION_ENTRIES,
    SL_REGION_UPDATES,
    SL_REGION_ORDER,
    SL_REGION_CHUNKS,
    SL_REGION_WORKERS,
    SL_REGION_SEATS,
    SL_REGION_BOARD,
    SL_REGION_GROUP,
    SL_REGION_PARAMS,
    SL_REGION_ACTS,
    SL_REGION_PREDICT,
    SL_REGION_VISITS,
    SL_REGION_HOT,
    SL_REGION_PROBE,
    SL_REGION_PAYLOAD,
    SL_REGION_COUNT,
};

struct sl_region {
    uint64_t offset, bytes;
};

// What the broker decides before it creates the arena.
struct sl_arena_spec {
    uint32_t n_devices;          // two seats and two statistics slots each
    uint32_t n_cells;            // cells a phase may have
    uint64_t n_train;            // training vertices
    uint64_t n_params;           // f32 parameters
    uint32_t n_state;            // optimizer arrays of n_params (adam 2, sgd 1)
    uint32_t async;              // 1: gradients are applied as they come, within `staleness`
    uint32_t staleness;          // async: updates that a gradient's parameters may be old
    uint32_t exchange;           // 1: trainers sum an update's gradients first (group.h)
    uint32_t batches_per_update; // ordered: gradient slots; async: 1, and a slot for each device
    uint32_t act_banks;          // activations of so many layers are kept: 0, 1 or 2
    uint64_t act_rows;           // vertices, 0 without layer-wise inference
    uint32_t act_width;          // floats a row
    uint32_t jumping_width;      // floats a row of the third bank (jumping knowledge), 0 without
    uint64_t predict_rows;       // vertices of the larger one of validation and test set
    uint32_t predict_words;      // 4-byte words that an evaluation leaves for each of them
    uint64_t visit_rows;         // vertices, 0 when nobody counts visits
    uint64_t hot_rows;           // vertices, 0 without a cache
    uint64_t probe_bytes;        // of the probe block
    uint64_t payload_bytes;      // rounded up to chunks
};

// Sizes that a cache may have: tier t of the hotness order is [end[t - 1], end[t]) (hot.h).
struct sl_hot_tiers {
    uint32_t n;
    uint64_t end[SL_HOT_TIERS_MAX]; // rising
};

struct sl_arena_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    struct sl_arena_spec spec;
    uint64_t param_stride; // floats between two arrays of n_params, 64-byte multiples
    uint64_t act_stride;   // floats between two banks of activations, whole pages
    uint64_t n_chunks;
    struct sl_region region[SL_REGION_COUNT];

    struct sl_hot_tiers hot_tiers;       // by the broker before hot_generation
    _Atomic uint32_t hot_generation;     // hot.h
    _Alignas(64) _Atomic uint32_t abort; // enum sl_abort, written by the broker
    _Atomic uint32_t paused;             // 1: nobody claims anything; written by the broker
    _Atomic uint64_t paused_at_ns;       // the last pause began
    _Atomic uint64_t paused_ns;          // all pauses that are over took
    struct sl_event work;                // a batch became pending, a phase opened
    struct sl_event
        ready; // a batch became ready, a gate opened, a phase ended, or an update's last
               // batch was claimed
    struct sl_event space;   // payload memory was freed, or who starves may evict
    struct sl_event update;  // the parameters' version advanced, or an update needs a hand
    struct sl_event standby; // a standby trainer may have a reason to wake (seat.h)
    _Alignas(64) _Atomic uint64_t probe;    // hot.h: 0 none, worker << 8 | 1 being written, 2 there
    _Alignas(64) _Atomic uint64_t starving; // tag of the oldest batch that waits for payload memory
    _Alignas(64) _Atomic uint64_t current;  // main lane: lowest phase not complete (ledger.h)
    _Alignas(64) _Atomic uint64_t side;     // the side lane's
    _Alignas(64) _Atomic uint64_t opened;   // highest phase that is open
    _Alignas(64) _Atomic uint64_t evicted;  // ready batches given up for an older one's memory
    _Alignas(64) _Atomic uint32_t failpoint[SL_FAILPOINT_COUNT];
};

// One process's view of the arena.
struct sl_arena {
    int fd;       // borrowed
    int doorbell; // eventfd that the broker's loop watches; -1 for none. Borrowed.
    uint64_t bytes;
    char *base; // NULL when not mapped
    struct sl_arena_header *h;
};

// Bytes that an arena of this spec takes (sparse until touched); fills *out when not NULL.
uint64_t sl_arena_layout(const struct sl_arena_spec *spec, struct sl_arena_header *out);

// Broker: a new memfd without size. Returns the descriptor (close-on-exec) or SL_ESYS.
int sl_arena_memfd(void);

// Broker: sizes fd, seals its size, maps it and writes the header; everything else is zero.
// SL_EINVAL for a spec without devices, in async mode with more than one batch an update, or with
// counts that nothing comes near.
int sl_arena_create(int fd, const struct sl_arena_spec *spec, struct sl_arena *out);

// Worker: maps an arena that the broker has created. SL_EFORMAT when it is none of this version or
// its header contradicts itself: after SL_OK every region lies in the segment. SL_EINVAL as above.
int sl_arena_attach(int fd, struct sl_arena *out);

/*
 * Worker: where `fd` has bytes it is a file as large as the region of activations, and is mapped in
 * its place: what of it has been touched may be on the disk, where the arena's own is memory. An
 * empty one is none. SL_EFORMAT for another size; SL_ENOMEM.
 */
int sl_arena_map_acts(struct sl_arena *a, int fd);

void sl_arena_detach(struct sl_arena *a); // safe on a zeroed struct; does not close fd

static inline void *sl_arena_region(const struct sl_arena *a, enum sl_region_id id)
{
    return a->base + a->h->region[id].offset;
}

static inline bool sl_arena_aborted(const struct sl_arena *a)
{
    return atomic_load_explicit(&a->h->abort, memory_order_relaxed) != SL_ABORT_NONE;
}

// Broker: sets the abort word and wakes everybody.
void sl_arena_abort(struct sl_arena *a, enum sl_abort why);

static inline bool sl_arena_paused(const struct sl_arena *a)
{
    return atomic_load_explicit(&a->h->paused, memory_order_acquire) != 0;
}

// Broker: from now on nobody claims anything (what is in hand is finished), or again.
void sl_arena_pause(struct sl_arena *a, bool paused);

// Tells the broker's loop that something happened that it should look at (phase over).
void sl_arena_ring(const struct sl_arena *a);

// Shuffled training vertices of the phases whose order_bank is `bank`, 0 or 1. (n_train)
uint32_t *sl_arena_order(const struct sl_arena *a, uint32_t bank);

// Activations for layer-wise inference, of layer `layer`: layers take turns in the banks, of which
// there is one at least. (act_rows, act_width)
float *sl_arena_acts(const struct sl_arena *a, uint32_t layer);

// What jumping knowledge has gathered of all layers so far. (act_rows, jumping_width)
float *sl_arena_jumping(const struct sl_arena *a);

/*
 * Predictions of the evaluation under way, in the order of the validation or test list.
 * (predict_rows, predict_words) For a multi-class task the class (uint32_t), of two classes the
 * difference of the logits (float); otherwise the outputs (float), one for each label or number.
 */
void *sl_arena_predictions(const struct sl_arena *a);

#endif
