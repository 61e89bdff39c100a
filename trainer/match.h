/*
 * match.h - which rows of a batch the device has already, of the batch before (FastGL 4.1).
 *
 * PROBLEM. Batches that follow one another have vertices in common: half of them or more where a
 * batch touches much of the graph. Their features lie on the GPU, and would cross the bus again.
 *
 * DESIGN. Two tables that check one another: `place` says of each vertex at which row of a batch it
 * was last put, and a batch keeps the vertices of its rows. A vertex v is there iff
 *
 *      vertices[place[v]] == v
 *
 * so `place` is never cleared, whatever it holds: what it says of a batch that is gone, or of one
 * whose gathering failed, is found wrong or is right by chance. A batch costs what it has of
 * vertices, not what the graph has. What the cache had is not noted: it will have it again.
 */
#ifndef SL_TRAINER_MATCH_H
#define SL_TRAINER_MATCH_H

#include <stdint.h>

#include "kernels/kernels.h"
#include "trainer/room.h"

struct sl_match {
    uint32_t *place; // (n_rows) NULL before the first batch
    uint64_t n_rows;
};

// Whose rows a batch has.
struct sl_matchable {
    struct sl_room room;
    uint32_t *vertices; // (n)
    uint32_t n;         // 0: none that could be used
};

/*
 * Takes from the misses of *split those that `before` has, and puts them behind its hits, which are
 * left as they are: hit_row[n_hits + i] is the row of `before`, hit_to[n_hits + i] where it goes.
 * Each list has room for hits and misses together. Returns how many.
 */
uint32_t sl_match_find(const struct sl_match *m, const struct sl_matchable *before,
                       struct sl_row_split *split);

// The vertices of a batch, in the order of its rows: known ones, but for those that the cache had.
struct sl_match_batch {
    const uint32_t *vertices, *ranks; // (n)
    uint32_t n, capacity;             // of the cache: what is of a rank below it is there; 0: none
};

// Those are the vertices of *out now; of a store of n_rows. SL_ENOMEM.
int sl_match_note(struct sl_match *m, uint64_t n_rows, const struct sl_device *device,
                  const struct sl_match_batch *batch, struct sl_matchable *out);

void sl_matchable_fini(struct sl_matchable *m); // safe on a zeroed struct
void sl_match_fini(struct sl_match *m);         // safe on a zeroed struct

#endif
