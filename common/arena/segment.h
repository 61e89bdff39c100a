/*
 * segment.h - the one shared-memory segment of a job, as every part of it sees it.
 *
 * A memfd without a name, created by the broker and inherited by every worker as a descriptor:
 * nothing appears in /dev/shm and nothing outlives the last process. It holds offsets and
 * fixed-width fields only: no pointers and no process-shared mutexes. Which part has how many bytes
 * where is the arena's business (arena.h); a part knows its own regions, by their numbers.
 *
 * TWO EVENTS. Whoever waits for something in the segment waits for one of them:
 *
 *   work      who may work has changed: a batch became pending, a phase opened or ended, a gate
 *             opened, a duty changed, a device became free. Samplers with nothing to draw and
 *             standby trainers sleep on it: it is signalled a few times a phase.
 *   progress  a batch has moved on its way: it became ready or done, memory was freed, the
 *             parameters' version advanced. Trainers, and samplers that wait for memory, sleep on
 *             it: it is signalled a few times a batch.
 *
 * Whoever changes what somebody may wait for signals one of them, or both (sl_arena_wake_all).
 */
#ifndef SL_ARENA_SEGMENT_H
#define SL_ARENA_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/failpoint.h"
#include "common/arena/ask_shape.h"
#include "common/arena/event.h"
#include "common/arena/row_cache.h"

enum {
    SL_ARENA_PHASES = 8,            // phases open at once
    SL_ARENA_CHUNK_BYTES = 1 << 16, // unit of payload memory
    SL_ARENA_WAIT_MS = 100,         // longest wait before the abort word is looked at
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
    SL_REGION_LENT,
    SL_REGION_PARAMS,
    SL_REGION_ACTS,
    SL_REGION_PREDICT,
    SL_REGION_VISITS,
    SL_REGION_HOT,
    SL_REGION_PROBE,
    SL_REGION_ROWS,
    SL_REGION_ASKS,
    SL_REGION_NODES,
    SL_REGION_TYPES,
    SL_REGION_PAYLOAD,
    SL_REGION_COUNT,
};

struct sl_region {
    uint64_t offset, bytes;
};

// A job on several nodes, of each of which this is one's arena (nodes.h).
struct sl_nodes_spec {
    uint32_t n;               // nodes of the job; 0 or 1: it has this one alone
    uint32_t rank;            // this one
    uint32_t whole_gradients; // 1: each needs all of every gradient, since their norm is clipped
};

// What the broker decides before it creates the arena.
struct sl_arena_spec {
    uint32_t n_devices; // two seats and two statistics slots each
    uint32_t n_cells;   // cells a phase may have
    uint64_t n_train;   // training vertices
    uint32_t world;     // LEND: cell k is rank k mod world's; 0: whoever's comes first
    struct sl_nodes_spec nodes;
    uint64_t n_params;              // f32 parameters
    uint32_t n_state;               // optimizer arrays of n_params (adam 2, sgd 1)
    uint32_t async;                 // 1: gradients are applied as they come, within `staleness`
    uint32_t staleness;             // async: updates that a gradient's parameters may be old
    uint32_t exchange;              // 1: trainers sum an update's gradients first (group.h)
    uint32_t batches_per_update;    // ordered: gradient slots; async: 1, and a slot for each device
    uint32_t act_banks;             // activations of so many layers are kept: 0, 1 or 2
    uint64_t act_rows;              // vertices, 0 without layer-wise inference
    uint32_t act_width;             // floats a row
    uint32_t jumping_width;         // floats a row of the third bank (jumping knowledge), 0 without
    uint64_t predict_rows;          // vertices of the larger one of validation and test set
    uint32_t predict_words;         // 4-byte words that an evaluation leaves for each of them
    uint64_t visit_rows;            // vertices, 0 when nobody counts visits
    uint64_t hot_rows;              // vertices, 0 without a cache
    uint64_t probe_bytes;           // of the probe block
    struct sl_row_cache_shape rows; // no slots: batches are trained as they are drawn
    struct sl_asks_shape asks;      // no slots: no row is on another node
    uint32_t fetch_ahead;           // batches that may be fetched before trainers claim them
    uint32_t store_way;             // enum sl_store_way: how misses may get to GPUs
    uint32_t n_types, n_relations;  // of a graph of several types; 0: a plain one
    uint64_t payload_bytes;         // rounded up to chunks
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

    _Alignas(64) _Atomic uint32_t abort; // enum sl_abort, written by the broker
    _Atomic uint32_t paused;             // 1: nobody claims anything; written by the broker
    _Atomic uint64_t paused_at_ns;       // the last pause began
    _Atomic uint64_t paused_ns;          // all pauses that are over took
    _Atomic uint64_t memory_left;        // under the job's bound, by the broker; UINT64_MAX: none
    struct sl_event work, progress;
    _Alignas(64) _Atomic uint32_t failpoint[SL_FAILPOINT_COUNT];
};

// One process's view of the arena.
struct sl_arena {
    int fd;       // borrowed
    int doorbell; // eventfd that the broker's loop watches; -1 for none. Borrowed.
    uint64_t bytes;
    char *base;      // NULL when not mapped
    bool acts_filed; // activations lie in a file instead (sl_arena_map_acts)
    struct sl_arena_header *h;
};

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

// Broker: sets or ends the pause. While it is set nobody claims anything; what is in hand is
// finished.
void sl_arena_pause(struct sl_arena *a, bool paused);

// Tells the broker's loop that something happened that it should look at (phase over).
void sl_arena_ring(const struct sl_arena *a);

// Wakes everybody who sleeps in the segment.
void sl_arena_wake_all(struct sl_arena *a);

/*
 * Tries until timeout_ms have passed, and again whenever `event` was signalled. An attempt says
 * SL_EAGAIN to go on waiting, or what the wait returns. SL_ETIMEDOUT; SL_EABORTED.
 */
int sl_arena_try(struct sl_arena *a, struct sl_event *event, uint32_t timeout_ms,
                 int (*attempt)(struct sl_arena *a, void *what), void *what);

#endif
