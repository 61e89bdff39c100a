/*
 * lending.h - batches on their way from the ledger into the hands of a training loop, and back.
 *
 * PROBLEM. The trainer of the job is somebody's program. It asks for a batch when it likes, may
 * keep several, forget one, leave an epoch in the middle, or die; and the ledger must know of every
 * batch whether it was used, or who has it.
 *
 * DESIGN. A batch that is lent is a lease on its cell, as any trainer's. It is claimed either by
 * the caller (sl_ledger_claim_lent), and then its features are gathered when they are asked for,
 * into memory of the caller's; or a batch ahead, by the thread that does so for trainers
 * (prefetch.h), into one of its two buffers.
 *
 *      claim -> lent -> done (the cell is complete) or returned (somebody else gets it)
 *
 * Its arrays (arrays.h) may be taken meanwhile. The rows in a buffer become part of them by an
 * exchange of memory, and the buffer is free again.
 *
 * EPOCHS are phases, and begin and end by what the ledger says of this loader's rank. Where a
 * loader is, is a position that only rises: the next batch that was never lent to it. What stands
 * before it may come again (given back), but for what was left: the ledger completes that unseen.
 *
 * FAILURE. All waits are bounded and look at the abort word. A caller who keeps so much that no
 * batch can come is told so after SL_LENDING_STUCK_NS without one, and not before: samplers may
 * just be slow.
 */
#ifndef SL_LOADER_LENDING_H
#define SL_LOADER_LENDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena/heartbeat.h"
#include "loader/arrays.h"
#include "trainer/feed/fetch.h"
#include "trainer/feed/prefetch.h"
#include "trainer/feed/work.h"

enum { SL_LENDING_END = 1 }; // of the epoch
#define SL_LENDING_STUCK_NS UINT64_C(5000000000)

// Everything is borrowed for as long as the lending lives.
struct sl_lending_spec {
    struct sl_arena *arena;
    uint32_t worker, device;
    uint32_t rank;
    const struct sl_dataset *dataset;
    struct sl_compute compute;  // where features are gathered ahead
    struct sl_gather *gather;   // with the reader of whoever extracts, where rows are read
    struct sl_reading *fetches; // of the thread that fetches; NULL: there is none
    struct sl_block_shape shape;
    uint64_t on_gpu; // as in struct sl_prefetch_spec
    bool ahead;      // features of the next batch are gathered while the caller works
    bool arrays;     // ... and what sl_lending_take() gives is made then
    bool early;      // ... and a batch is lent before its features are there: sl_lending_wait()
    const _Atomic bool *stop;
    struct sl_worker_slot *stats;
};

struct sl_lent {
    struct sl_work work;
    uint64_t given_ns, wait_ns;
    bool taken;               // its arrays are the caller's
    bool comes;               // its features are on their way
    int lost;                 // code of why they never come; 0: nothing of the kind
    struct sl_arrays *filled; // ... to these, which the caller has
};

struct sl_lending {
    struct sl_lending_spec spec;
    struct sl_heartbeat pulse;
    struct sl_prefetch prefetch; // where spec.ahead
    struct sl_fetch fetch;       // where not
    struct sl_arrays_pool *pool;
    struct sl_arrays *made[SL_PREFETCH_BUFFERS]; // of what each buffer has; NULL: nothing yet
    struct sl_lent *held;                        // (n_held) of (room)
    uint32_t n_held, room;

    _Atomic uint64_t from; // epoch << 32 | number: of the next one that was never lent
    uint64_t left;         // likewise: what stands before it is not lent any more
    bool begun;            // an epoch is under way
    uint32_t epoch;        // of the last one that was lent
    // Of the thread that claims.
    bool found;
    uint32_t claims; // the epoch

    uint64_t waited_ns; // for the batch to come
    uint64_t stuck_ns;  // since when nothing came; 0: something did
    uint64_t busy_ns;   // until then the caller's time is accounted for
    struct sl_worker_totals figures;
    uint64_t returned;
};

int sl_lending_init(struct sl_lending *l, const struct sl_lending_spec *spec);
// Gives back what is held. Safe on a zeroed struct.
void sl_lending_fini(struct sl_lending *l);

// SL_OK with the batch, borrowed until it is done or returned, or another is lent; SL_ETIMEDOUT;
// SL_LENDING_END; SL_ENOMEM when the caller keeps what the next batch needs; SL_EABORTED.
int sl_lending_next(struct sl_lending *l, uint32_t timeout_ms, const struct sl_lent **out);

// Waits for the batch's features, where it was lent before they were there. SL_OK; SL_ETIMEDOUT;
// SL_ESTALE; why there are none. The other calls on the batch wait themselves.
int sl_lending_wait(struct sl_lending *l, uint64_t tag, uint32_t timeout_ms);
// The same for as long as it takes: the thread that gathers looks at the abort word itself.
int sl_lending_settle(struct sl_lending *l, struct sl_lent *lent);

// By the lease's tag; NULL, with a message, where it is not held. The others then say SL_ESTALE.
struct sl_lent *sl_lending_find(struct sl_lending *l, uint64_t tag);
int sl_lending_done(struct sl_lending *l, uint64_t tag);
int sl_lending_return(struct sl_lending *l, uint64_t tag);

// The next batch is this one of that epoch, or the rank's first from there. What stands before is
// left. SL_EINVAL: that was lent, or left, or is of an epoch that is over.
int sl_lending_start(struct sl_lending *l, uint32_t epoch, uint32_t number);

// Rows of the batch's nodes in the store's type, in their order. SL_ERANGE: they are more than
// `bytes`.
int sl_lending_features(struct sl_lending *l, uint64_t tag, void *to, size_t bytes);

// The batch's arrays, the caller's from now on: once for each batch. *rows: (n_input, feat_dim) in
// them, perhaps still on their way (sl_lending_wait()); NULL where there are none, or where they
// were gathered into a GPU's memory. SL_EINVAL, SL_ENOMEM.
int sl_lending_take(struct sl_lending *l, uint64_t tag, struct sl_arrays **out, void **rows);

#endif
