/*
 * phase.h - phases, cells and the entries of batches, as they lie in the segment.
 *
 * ledger.h says what they mean and who may change them.
 */
#ifndef SL_ARENA_PHASE_H
#define SL_ARENA_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/segment.h"
#include "common/base/bits.h"

enum {
    SL_SEQ_BITS = 24,
    SL_CELL_BITS = 24, // cells in a phase
    SL_ATTEMPT_BITS = 16,
};

#define SL_SEQ_MASK     (((uint64_t)1 << SL_SEQ_BITS) - 1)
#define SL_CELL_MASK    (((uint64_t)1 << SL_CELL_BITS) - 1)
#define SL_ATTEMPT_MASK (((uint64_t)1 << SL_ATTEMPT_BITS) - 1)

enum sl_cell_state {
    SL_CELL_PENDING,
    SL_CELL_SAMPLING,
    SL_CELL_READY,
    SL_CELL_FETCHING, // where features are read from the drive: its rows are brought to the cache
    SL_CELL_STAGED,
    SL_CELL_TRAINING,
    SL_CELL_HELD,      // trained; its gradient is in its trainer's sum
    SL_CELL_ELSEWHERE, // another node trains it (nodes.h)
    SL_CELL_DONE,
    SL_CELL_STATES,
};

enum sl_phase_kind {
    SL_PHASE_TRAIN,     // sample, forward, backward, update
    SL_PHASE_EVAL,      // sample with evaluate.fanout, forward, count correct ones
    SL_PHASE_INFER,     // one model layer over a range of vertices, all neighbours
    SL_PHASE_PRESAMPLE, // sample as TRAIN of the same epoch does, count visits, keep nothing
    SL_PHASE_LEND,      // sample as TRAIN does; external trainers do what they like with it
};

// Whose vertices a phase walks through, batch_size at a time.
enum sl_vertex_set {
    SL_SET_TRAIN, // the shuffled order of its epoch (sl_arena_order)
    SL_SET_VAL,   // the data set's list
    SL_SET_TEST,
    SL_SET_ALL, // 0 .. n_nodes - 1
};

// Which parameters an evaluation uses.
enum sl_param_set {
    SL_PARAMS_CURRENT,
    SL_PARAMS_BEST,
    SL_PARAMS_PINNED, // of the version that the broker has pinned (param_store.h)
};

enum { SL_RANKS_MAX = 64 }; // of external trainers

enum sl_lane { SL_LANE_MAIN, SL_LANE_SIDE, SL_LANES };

// Where the phases are. The slots of the phases stand behind it.
struct sl_ledger {
    _Alignas(
        64) _Atomic uint64_t current[SL_LANES]; // lowest phase of each lane that is not complete
    _Alignas(64) _Atomic uint64_t opened;       // highest phase that is open
    _Alignas(64) _Atomic uint64_t starving; // tag of the oldest batch that waits for payload memory
    _Alignas(64) _Atomic uint64_t evicted;  // ready batches given up for an older one's memory
    _Atomic uint64_t drawn; // batches of the phases opened so far that are drawn to be trained
    _Atomic uint64_t given; // the newest EVAL phase whose own results the link has (nodes.h)
    // Of each external trainer: epoch << 32 | cell. What of its stands before is left (ledger.h).
    _Alignas(64) _Atomic uint64_t left[SL_RANKS_MAX];
    _Atomic uint32_t seated[SL_RANKS_MAX]; // the worker that has that rank; 0: nobody
};

struct sl_phase_spec {
    uint32_t kind;   // enum sl_phase_kind
    uint32_t set;    // enum sl_vertex_set
    uint32_t params; // enum sl_param_set
    uint32_t lane;   // enum sl_lane; the side lane has INFER alone
    uint32_t epoch;
    uint32_t layer;           // INFER: model layer; behind the last one, the scores of pairs
    uint32_t last_layer;      // INFER: 1 when its output is compared with the labels
    uint32_t wanted_splits;   // INFER of all: bit s where split s is to be evaluated; 0: all rows
    uint32_t val_edges;       // INFER: 1 where these are in the graph (wider_graph.h)
    uint32_t gated;           // trainers wait until the broker opens the gate
    uint32_t order_bank;      // TRAIN, PRESAMPLE: which bank of the order its vertices are in
    uint32_t count_visits;    // 1: samplers count the input nodes of its batches (visit_counts.h)
    uint32_t rank_generation; // blocks carry ranks of this hotness order; 0 = none
    uint32_t batch_size;      // vertices a cell
    uint64_t n_items;         // vertices in all
    uint64_t first_version;   // TRAIN: the parameters' version before the first update
};

struct sl_phase {
    _Alignas(64) _Atomic uint64_t seq; // 0 = slot never used; written last
    struct sl_phase_spec spec;         // stable while a lease on one of its cells is held
    _Atomic uint32_t n_cells;
    _Atomic uint32_t kind, lane, epoch;          // of spec, for readers without a lease
    _Atomic uint64_t first_version;              // likewise
    _Atomic uint64_t end_version;                // TRAIN: after its last update; else 0
    _Atomic uint64_t first_batch;                // number of its first batch in the whole job
    _Alignas(64) _Atomic uint32_t gate;          // 1 = closed
    _Alignas(64) _Atomic uint64_t sample_cursor; // generation << 32 | cells below it: not pending
    _Alignas(64) _Atomic uint64_t train_cursor;  // generation << 32 | cells below it: claimed
    _Alignas(64) _Atomic uint64_t done_cursor;   // phase << 32 | cells below it: done
};

// What is known of one cell. Written by the lease's holder before it hands the cell on.
struct sl_batch_entry {
    _Alignas(64) uint64_t payload_offset; // from the arena's start
    uint64_t payload_bytes;               // 0 = no payload
    uint64_t payload_tag;                 // owner of its chunks; set by sl_ledger_publish
    uint64_t digest;                      // XXH3 of the block, when the job asks for it
    // Its arrays also lie in GPU memory, at the same distance from the payload's beginning, that
    // this device's sampler lends by this version (mirror.h); 0: in the arena alone.
    uint64_t mirror_version;
    uint32_t mirror_device;
    uint32_t n_seeds, n_input;
    uint64_t n_edges;
    uint32_t visits_counted;         // 1: this cell's input nodes have been counted
    uint32_t n_hard, n_hard_missing; // of links: hard negatives, and those drawn in their place
    // Times of day are of the monotonic clock (clock.h), so that a trace can be drawn of them.
    // sampler
    uint64_t sampling_at_ns; // it was claimed; until ready_at_ns it is in the sampler's hands
    uint64_t sample_ns;      // drawing and renumbering
    uint64_t mark_ns;        // looking ranks up (M of FGNN's table 5)
    uint64_t copy_ns;        // copying the vertex list behind the hops (C)
    uint64_t sample_wait_ns; // waiting for payload memory
    uint64_t ready_at_ns;
    // whoever brought its rows from the drive to the cache
    uint64_t fetch_from_ns, fetch_ns;
    uint64_t rows_found;  // input nodes whose rows were in the cache
    uint64_t rows_read;   // ... that were read, and the bytes that took
    uint64_t rows_beside; // ... that found no slot, and are read when the batch is extracted
    uint64_t drive_bytes;
    uint64_t remote_rows, remote_bytes; // of those that were read, on other nodes
    // trainer
    uint64_t claimed_at_ns;
    uint64_t train_wait_ns; // waiting for a ready batch and for the parameters' version
    uint64_t extract_from_ns;
    uint64_t extract_ns;
    uint64_t taken_at_ns; // by the computing thread, which may have to wait for a version then
    uint64_t train_from_ns;
    uint64_t done_at_ns;
    uint64_t hits;                   // input nodes that the trainer's cache had
    uint64_t n_bare;                 // ... of types without features, which no cache could have
    uint64_t hit_bytes, miss_bytes;  // feature bytes read from the cache and from the store
    uint64_t near_bytes;             // of the block, copied within the trainer's GPU
    uint64_t matched, matched_bytes; // input nodes that its batch before had on the GPU
    // Rows that found no slot and came from other nodes.
    uint64_t remote_beside, remote_beside_bytes;
    uint32_t standby; // 1: trained by a standby trainer
    // The sum with other trainers that a held batch waited for; stands with the last one that its
    // trainer holds of an update.
    uint64_t sum_from_ns;
    uint64_t sum_ns;           // part of train_ns
    uint64_t train_ns;         // forward, backward, and that sum
    double loss;               // summed, not averaged
    double weight;             // what the summed loss and its gradient are divided by (kernels.h)
    uint64_t correct, counted; // predictions
    uint32_t restored;         // 1: trained before the job was resumed; times are not known
    uint32_t left; // 1: LEND: done unseen: its trainer had left it, or another node lends it
    // What some of the batches took of a pool's cores (allocation.cores), by the clocks of the
    // threads; 0: not measured.
    uint64_t draw_cpu_ns;                  // the sampler's
    uint64_t train_cpu_ns, helpers_cpu_ns; // the trainer's own, and those that helped it
    uint32_t train_threads;                // of both
    uint32_t sampler, trainer;             // worker ids
};

// What is known of one update. It stands at the last of the update's cells.
struct sl_update_entry {
    uint64_t from_ns, took_ns; // when it was applied; 0 where that is not known (restored)
    uint64_t base_version;     // async: of the parameters the gradient was computed on
    uint64_t applied_version;  // async: of those it was applied to
    uint64_t applier;          // worker id
};

// What a checkpoint keeps of a cell that was trained. Written to files: fixed-width, no padding.
struct sl_cell_record {
    uint32_t cell;
    uint32_t n_seeds, n_input;
    uint32_t standby;
    uint64_t digest, n_edges, payload_bytes;
    uint64_t hits, hit_bytes, miss_bytes;
    uint64_t base_version, applied_version;
    double loss, weight;
    uint64_t correct, counted;
};
_Static_assert(sizeof(struct sl_cell_record) == 112, "checkpoints hold it as it lies");

// Whether its times are known.
static inline bool sl_batch_is_timed(const struct sl_batch_entry *e)
{
    return !e->restored && !e->left;
}

// Input nodes that have features and were in no cache of a trainer.
static inline uint64_t sl_batch_misses(const struct sl_batch_entry *e)
{
    return e->n_input - SL_MIN(e->hits + e->n_bare, (uint64_t)e->n_input);
}

struct sl_lease {
    uint64_t seq; // phase
    uint32_t cell;
    uint64_t word; // the cell's value while the lease holds
    uint64_t tag;  // phase | cell | attempt: grows, never reused; owns payload (payload_alloc.h)
    struct sl_phase *phase;
    struct sl_batch_entry *entry;
};

static inline uint32_t sl_cell_state(uint64_t word)
{
    return (uint32_t)(word & 0xff);
}

static inline uint32_t sl_cell_owner(uint64_t word)
{
    return (uint32_t)(word >> 8 & 0xffff);
}

// Somebody has it in hand.
static inline bool sl_cell_is_leased(uint64_t word)
{
    uint32_t state = sl_cell_state(word);
    return state == SL_CELL_SAMPLING || state == SL_CELL_FETCHING || state == SL_CELL_TRAINING ||
           state == SL_CELL_HELD;
}

// Phase and attempt: while they are the same, nobody has drawn the batch anew.
static inline uint64_t sl_cell_turn(uint64_t word)
{
    return word >> 24;
}

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

static inline struct sl_ledger *sl_ledger_of(const struct sl_arena *a)
{
    return (struct sl_ledger *)sl_arena_region(a, SL_REGION_PHASES);
}

// The highest phase that is open, and the lane's lowest one that may not be complete: for a moment
// also one of the other lane.
static inline uint64_t sl_ledger_opened(const struct sl_arena *a)
{
    return atomic_load_explicit(&sl_ledger_of(a)->opened, memory_order_acquire);
}

static inline uint64_t sl_ledger_current(const struct sl_arena *a, enum sl_lane lane)
{
    return atomic_load_explicit(&sl_ledger_of(a)->current[lane], memory_order_acquire);
}

// The lowest phase that may not be complete, of both lanes.
uint64_t sl_ledger_oldest(const struct sl_arena *a);
// The slot of a phase, whatever it holds by now.
struct sl_phase *sl_ledger_phase(const struct sl_arena *a, uint64_t seq);
// The phase of this number, or NULL when its slot holds another one by now.
struct sl_phase *sl_ledger_find(const struct sl_arena *a, uint64_t seq);
_Atomic uint64_t *sl_ledger_cell(const struct sl_arena *a, uint64_t seq, uint32_t cell);
uint64_t sl_ledger_word(const struct sl_arena *a, uint64_t seq, uint32_t cell);
struct sl_batch_entry *sl_ledger_entry(const struct sl_arena *a, uint64_t seq, uint32_t cell);
struct sl_update_entry *sl_ledger_update(const struct sl_arena *a, uint64_t seq, uint32_t last);
// Which batch a tag names (sl_lease, sl_worker_totals.current_tag).
void sl_ledger_locate(uint64_t tag, uint64_t *seq, uint32_t *cell);
// The number of a phase's batch in the whole job, in the order of training (row_cache.h).
// On several nodes each counts its own.
uint64_t sl_phase_batch(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell);
// What a trainer may claim: batches whose rows are on the drive are to be staged first.
enum sl_cell_state sl_phase_trainable(const struct sl_arena *a, const struct sl_phase *phase);
// Vertices of a cell: [first, first + *n).
uint64_t sl_phase_range(const struct sl_phase *phase, uint32_t cell, uint32_t *n);

#endif
