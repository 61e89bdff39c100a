/*
 * type_counts.h - of a graph of several types (common/data/typed.h): the edges that samplers have
 * drawn of each relation, and the rows of each type that trainers have gathered, and hold.
 *
 * Each seat has counters of its own, added to once a batch; who reads takes the sum over seats.
 * They are the seat's: whoever sits down next goes on with them. What is drawn or gathered again,
 * after a death or an eviction, counts again. What a trainer's cache holds is told anew by whoever
 * fills it, and stays when its worker leaves. An arena whose spec has no types counts nothing.
 */
#ifndef SL_ARENA_TYPE_COUNTS_H
#define SL_ARENA_TYPE_COUNTS_H

#include <stdint.h>

#include "common/arena/block.h"
#include "common/arena/segment.h"

// Rows of a type.
struct sl_type_count {
    uint64_t rows; // input nodes
    uint64_t hits; // of these, in a cache
    uint64_t hit_bytes, miss_bytes;
};

// Of the region; 0 for a plain graph.
uint64_t sl_type_counts_bytes(const struct sl_arena_spec *spec);

// Sampler: a typed block that it has drawn.
void sl_type_counts_add_edges(const struct sl_arena *a, uint32_t seat,
                              const struct sl_block *block);
// Trainer: rows of a batch.
void sl_type_counts_add_rows(const struct sl_arena *a, uint32_t seat, uint32_t type,
                             const struct sl_type_count *rows);
// Trainer: rows of a type that the seat's cache holds now.
void sl_type_counts_hold(const struct sl_arena *a, uint32_t seat, uint32_t type, uint64_t rows);
uint64_t sl_type_counts_held(const struct sl_arena *a, uint32_t seat, uint32_t type);

// Sums over all seats. `relation` and `type` are the graph's.
uint64_t sl_type_counts_edges(const struct sl_arena *a, uint32_t relation);
struct sl_type_count sl_type_counts_rows(const struct sl_arena *a, uint32_t type);

#endif
