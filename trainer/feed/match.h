/*
 * match.h - finds rows of a batch that the device still has from the batch before (FastGL 4.1).
 *
 * PROBLEM. Batches that follow one another have vertices in common: half of them or more where a
 * batch touches much of the graph. Their features lie on the GPU, and would cross the bus again.
 *
 * DESIGN. Two tables that check one another: `place` says of each vertex where in a batch's list it
 * was last put, and a batch keeps a list of the vertices that it had to bring, and of their rows. A
 * vertex v is there iff
 *
 *      vertices[place[v]] == v
 *
 * so `place` is never cleared, whatever it holds: what it says of a batch that is gone, or of one
 * whose gathering failed, is found wrong or is right by chance. A batch costs what it has of
 * misses, neither what the graph has nor what the cache had: the cache will have it again.
 */
#ifndef SL_TRAINER_FEED_MATCH_H
#define SL_TRAINER_FEED_MATCH_H

#include <stdint.h>

#include "kernels/kernels.h"
#include "trainer/feed/compute.h"

struct sl_match {
    uint32_t *place; // (n_nodes) NULL before the first batch
    uint64_t n_nodes;
};

// Whose rows a batch has.
struct sl_matchable {
    struct sl_buffer room;
    uint32_t *vertices, *rows; // (n) rows[i] of the batch is that of vertices[i]
    uint32_t n;                // 0: none that could be used
    uint32_t n_rows;           // of the batch
    struct sl_buffer types;    // of a graph with types, whose rows count within them: struct
                               // sl_matchable_type (n_types)
};

struct sl_matchable_type {
    uint64_t at;     // byte of the batch's features where they begin
    uint32_t n_rows; // of the batch
};

/*
 * Takes from the misses of *split those that `before` has, and puts them behind its hits, which are
 * left as they are: hit_row[n_hits + i] is the row of `before`, hit_to[n_hits + i] where it goes.
 * Each list has room for hits and misses together. Returns how many.
 */
uint32_t sl_match_find(const struct sl_match *m, const struct sl_matchable *before,
                       struct sl_row_split *split);

// A batch's vertices, and two lists of its rows: those that were missed and those that matched.
struct sl_match_batch {
    const uint32_t *vertices; // (n)
    uint32_t n;
    const uint32_t *rows[2]; // (n_rows[i])
    uint32_t n_rows[2];
};

// Notes that *out has these rows, of a store of n_nodes. SL_ENOMEM. In two steps: nothing yet, with
// room for `most` rows; and these of a type as well.
int sl_match_begin(struct sl_match *m, uint64_t n_nodes, const struct sl_device *device,
                   uint32_t most, struct sl_matchable *out);
void sl_match_add(struct sl_match *m, const struct sl_match_batch *batch, struct sl_matchable *out);
int sl_match_note(struct sl_match *m, uint64_t n_nodes, const struct sl_device *device,
                  const struct sl_match_batch *batch, struct sl_matchable *out);

void sl_matchable_fini(struct sl_matchable *m); // safe on a zeroed struct
void sl_match_fini(struct sl_match *m);         // safe on a zeroed struct

#endif
