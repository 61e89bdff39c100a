/*
 * asking.h - rows of features that are on other nodes, of one thread of a worker.
 *
 * Rows are asked for by the slot full (common/arena/asks.h), SL_ASKS_EACH slots at a time, each
 * with vertices of all nodes that have some of them, so that all of these work at once. While they
 * do, this thread reads the rows that are its own node's.
 */
#ifndef SL_TRAINER_FEED_ASKING_H
#define SL_TRAINER_FEED_ASKING_H

#include <stdint.h>

#include "common/arena/asks.h"
#include "common/arena/heartbeat.h"
#include "common/data/dataset.h"

// Rows that have come from other nodes.
struct sl_asking_count {
    uint64_t rows, bytes;
};

struct sl_asking {
    const struct sl_dataset *dataset; // a shard; NULL: all rows are here
    struct sl_arena *arena;
    struct sl_asks asks;
    uint32_t worker;
    struct sl_asking_count come;   // so far
    struct sl_feature_table table; // of the reading under way
    uint32_t *own[2]; // (own_room) of a reading's own rows: where they are, and where they go
    uint32_t own_room;
    uint32_t *elsewhere[2];     // the same of others: vertices, and where they go
    uint32_t *to[SL_ASKS_EACH]; // (max_rows) where an ask's rows go
    uint32_t *next;             // (n_nodes) while an ask is written
};

// Own rows (n) to their places: row rows[i] of this node's, those of a type behind those of the
// types before it, to place to[i] of out.
typedef int (*sl_read_own)(void *ctx, const uint32_t *rows, const uint32_t *to, uint32_t n,
                           void *out);

// SL_EINVAL where the job has no link to ask; SL_ENOMEM.
int sl_asking_init(struct sl_asking *k, const struct sl_dataset *shard, struct sl_arena *arena,
                   uint32_t worker);
void sl_asking_fini(struct sl_asking *k); // safe on a zeroed struct

// As sl_row_reader_read(), of vertices, which are of one type. SL_EABORTED once the pulse's job or
// worker stops.
int sl_asking_read(struct sl_asking *k, const struct sl_heartbeat *pulse, sl_read_own own,
                   void *ctx, const uint32_t *vertices, const uint32_t *to, uint32_t n, void *out);

#endif
