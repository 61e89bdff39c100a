/*
 * proximity.h - the proximity-aware order of an epoch (BGL 3.2.2).
 *
 * A breadth-first walk over in-edges from random training vertices meets all training vertices
 * once. It is cut into pieces of equal length, each piece is turned by a random amount in each
 * epoch, and the pieces take turns: seeds that follow each other in a batch come from all of them,
 * and the seeds that a batch has of one piece are neighbours of those of the batch before. More
 * pieces make a batch more like one of a uniform shuffle, fewer make it share more of its samples.
 */
#ifndef SL_DATA_PROXIMITY_H
#define SL_DATA_PROXIMITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

/*
 * walk (train->n): the training vertices as a walk from random ones of them meets them. A function
 * of topology, list and seed. One thread, O(V + E), 4 bytes and 2 bits a vertex while it runs.
 * SL_ENOMEM, SL_EABORTED once *cancel (may be NULL) is set.
 */
int sl_proximity_walk(const struct sl_dataset *ds, const struct sl_vertex_list *train,
                      uint64_t seed, const atomic_bool *cancel, uint32_t *walk);

// out (n) becomes the order of an epoch: n_pieces (1 .. n) of the walk in turns.
void sl_proximity_order(const uint32_t *walk, uint64_t n, uint32_t n_pieces, uint64_t seed,
                        uint32_t epoch, uint32_t *out);

#endif
