/*
 * cache.h - the feature cache of a trainer: the hottest rows of the store, on its device.
 *
 * PROBLEM. A batch's features lie all over a table that is larger than the device. A few vertices
 * are met in most batches; their rows should be near (FGNN 6).
 *
 * DESIGN. What GPUs hold of the hottest rows is a spread (struct sl_spread in kernels/kernels.h) of
 * the hotness order (common/arena/visit_counts.h), in the store's own type. So it needs no table of
 * its own: the rank of a vertex says where its row is. The broker says in the trainer's seat how
 * many rows it may have in all, and by a plan (common/arena/peer_memory.h) whether they are
 *
 *      near      the first rows, for itself: all of them where there is no plan, one GPU, or cores
 *      parts     of the rows behind them, those that the plan deals out to it; other trainers read
 *                them in its memory, as it reads theirs (common/arena/peer_import.h)
 *
 * and may change its mind at any time; the extracting thread, which alone reads and fills the
 * cache, looks between batches:
 *
 *      near grows      new memory, filled from order[0] on
 *      near shrinks    the end of the memory goes back to the system before anything else happens
 *      parts change    they are withdrawn. Until nobody has them open the whole cache stays as it
 *                      is, and is reported so; then their memory goes back and is laid out anew.
 *                      Parts that are the same by a new plan stay, and are lent by its number
 *      generation      a new order makes the old rows worthless: filled again
 *
 * Parts are lent as soon as their first rows are there, and more and more of them while they are
 * filled, all parts alike: where memory or time is short there is less of each.
 *
 * Of a graph with types the rows that are near are a piece of memory of their own for each type:
 * the rank is one within the type, and how many rows of which type the broker's number comes to, in
 * rows of the mean width, stands beside the order. A plain graph is one type. A part has room for
 * so many rows of the mean width, too: it is dealt rows of each type in turn, and those of one type
 * lie behind those of another. Lenders and readers find the same places, from the plan and the room
 * of a part; what is filled of a part is a number of its bytes, and a row is there once all of it
 * is.
 *
 * On a GPU the rows are in the device's memory. The processor gathers them into pinned memory a
 * piece at a time, and each is copied; memory is given back as a whole, so shrinking moves what
 * stays, or starts anew where there is no room for both.
 *
 * INVARIANT. What is there is of `generation` and `plan`, whatever happens: filling can stop after
 * any piece (the job stops, the broker wants fewer rows) and what is there is a cache.
 *
 * FAILURE. Memory that is not to be had makes a smaller cache and a line in the log, never an
 * error: the store has every row. A lender that dies takes its parts with it: what was read of it
 * meanwhile is read again (sl_cache_is_good()), without them.
 */
#ifndef SL_TRAINER_FEED_CACHE_H
#define SL_TRAINER_FEED_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/arena/arena.h"
#include "common/arena/block.h"
#include "common/arena/peer_export.h"
#include "common/arena/heartbeat.h"
#include "common/arena/seat.h"
#include "trainer/feed/compute.h"
#include "trainer/feed/rows.h"

// The hottest rows of a type.
struct sl_cache_near {
    char *rows; // (n_rows, feat_dim) of the store's type, device memory
    size_t bytes;
    uint32_t n_rows;
};

struct sl_cache {
    struct sl_arena *arena;
    uint32_t device;      // of the job
    struct sl_seat *seat; // where the broker says how many rows; where we say how many there are
    struct sl_row_source source; // of what it is filled with
    struct sl_compute compute;
    const struct sl_heartbeat *pulse;

    uint32_t n_ranges;                       // types; 1 of a plain graph
    struct sl_cache_near near[SL_TYPES_MAX]; // (n_ranges)
    uint64_t unit;                           // bytes of a row of the mean width
    struct sl_peer_export parts;             // those of the rows behind them that it holds for all
    struct sl_peer_import borrowed;          // of other trainers' parts
    // What it is laid out by.
    struct sl_peer_memory_plan plan;
    uint32_t generation;         // of the hotness order, 0 = none
    uint64_t asked;              // seat->cache_rows that was last acted on
    uint64_t load_ns;            // spent on filling, in all
    struct sl_buffer piece, ids; // on their way to a GPU, while filling; of which vertices
};

// Everything is borrowed for as long as the cache lives. Nothing is loaded yet; c->source may be
// filled in later.
void sl_cache_init(struct sl_cache *c, struct sl_arena *arena, uint32_t seat,
                   const struct sl_dataset *dataset, const struct sl_compute *compute,
                   const struct sl_heartbeat *pulse);
// Closes others' memory and withdraws its own; safe on a zeroed struct.
void sl_cache_fini(struct sl_cache *c);

// Brings the cache to what the broker asks for. Costs four loads when it is there already, and two
// for each lender whose memory is open.
void sl_cache_refresh(struct sl_cache *c);

// Closes others' memory, since nothing is read for some time. False: call again, some is still to
// be closed.
bool sl_cache_rest(struct sl_cache *c);

// Opens what others lend: before each batch, and again where that was not good.
void sl_cache_open(struct sl_cache *c);

// Where this device reads rows of this block's ranks, of vertices of a type (0 of a plain graph);
// nowhere if they are of another order than the cache's. Valid until the next open, refresh or
// rest.
void sl_cache_spread(struct sl_cache *c, const struct sl_block *block, uint32_t type,
                     struct sl_spread *out);

// After sync(): whether everybody whose memory the last spread named was alive. If not, ask for the
// spread and read again.
bool sl_cache_is_good(struct sl_cache *c);

// Counts rows of a type in a batch by where they were read (peer_memory.h): those of `hits`, and
// `misses`.
void sl_cache_count(struct sl_cache *c, uint32_t type, const struct sl_hits *hits, uint64_t misses);

#endif
