/*
 * cache.h - the feature cache of a trainer: the hottest rows of the store, on its device.
 *
 * PROBLEM. A batch's features lie all over a table that is larger than the device. A few vertices
 * are met in most batches; their rows should be near (FGNN 6).
 *
 * DESIGN. A cache is a prefix of the hotness order (common/ipc/hot.h): row r holds the features of
 * order[r], in the store's own type. So it needs no table of its own: a vertex of rank r in the
 * order is a hit at row r iff r < n_rows. The broker says in the trainer's seat how many rows it
 * may have, and may change its mind at any time; the extracting thread, which alone reads and
 * fills the cache, looks between batches:
 *
 *      grows      new memory, filled from order[0] on        (seldom: a scale event)
 *      shrinks    the end of the memory goes back to the system before anything else happens
 *      generation a new order makes the old rows worthless: filled again
 *
 * On a GPU the rows are in the device's memory. The processor gathers them into pinned memory a
 * piece at a time, and each is copied; memory is given back as a whole, so shrinking moves what
 * stays, or starts anew where there is no room for both.
 *
 * INVARIANT. Rows [0, n_rows) are those of `generation`, whatever happens: filling can stop after
 * any piece (the job stops, the broker wants fewer rows) and what is there is a cache.
 *
 * FAILURE. Memory that is not to be had makes a smaller cache and a line in the log, never an
 * error: the store has every row.
 */
#ifndef SL_TRAINER_CACHE_H
#define SL_TRAINER_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/ipc/arena.h"
#include "common/ipc/block.h"
#include "common/ipc/pulse.h"
#include "common/ipc/seat.h"
#include "trainer/compute.h"
#include "trainer/buffer.h"
#include "trainer/rows.h"

struct sl_cache {
    struct sl_arena *arena;
    struct sl_seat *seat; // where the broker says how many rows; where we say how many there are
    struct sl_row_source source; // of what it is filled with
    struct sl_compute compute;
    const struct sl_pulse *pulse;

    char *rows; // (n_rows, feat_dim) of the store's type, device memory
    size_t bytes;
    uint32_t n_rows;
    uint32_t generation;    // of the hotness order, 0 = none
    uint64_t asked;         // seat->cache_rows that was last acted on
    uint64_t load_ns;       // spent on filling, in all
    struct sl_buffer piece; // on its way to a GPU, while filling
};

// Everything is borrowed for as long as the cache lives. Nothing is loaded yet; c->source may be
// completed after it.
void sl_cache_init(struct sl_cache *c, struct sl_arena *arena, uint32_t seat,
                   const struct sl_dataset *dataset, const struct sl_compute *compute,
                   const struct sl_pulse *pulse);
void sl_cache_fini(struct sl_cache *c); // safe on a zeroed struct

// Brings the cache to what the broker asks for. Costs three loads when it is there already.
void sl_cache_refresh(struct sl_cache *c);

// Rows of this block that may be hits: those of rank below this. 0 where the block's ranks are of
// another order than the cache, or it has none.
static inline uint32_t sl_cache_capacity(const struct sl_cache *c, const struct sl_block *block)
{
    bool same = block->flags & SL_BLOCK_HAS_RANKS && block->rank_generation == c->generation;
    return same ? c->n_rows : 0;
}

#endif
