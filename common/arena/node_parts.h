// node_parts.h - of a job on several nodes (nodes.h): which node has what.
#ifndef SL_ARENA_NODE_PARTS_H
#define SL_ARENA_NODE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/phase.h"

enum {
    SL_NODES_MAX = 128,
    SL_NODES_FLOATS = 16, // a slice begins at a multiple of these: a cache line
};

static inline bool sl_nodes_any(const struct sl_arena *a)
{
    return a->h->spec.nodes.n > 1;
}

// SL_EINVAL for a rank that is not one of theirs, more nodes than SL_NODES_MAX or than an update
// has batches, and for async updates or an exchange.
int sl_nodes_check(const struct sl_arena_spec *spec);

// The node that does a cell of a phase of this kind, or lends it. TRAIN, EVAL and LEND are dealt
// among nodes; of all other phases it is this one.
uint32_t sl_nodes_owner(const struct sl_arena *a, uint32_t kind, uint32_t cell);
bool sl_nodes_is_own(const struct sl_arena *a, uint32_t kind, uint32_t cell);
// Own cells of [0, end).
uint32_t sl_nodes_own_before(const struct sl_arena *a, uint32_t kind, uint32_t end);
// Batches of an update that trainers of this node train, at most.
uint32_t sl_nodes_batches_per_update(const struct sl_arena *a);

struct sl_nodes_part {
    uint64_t first, n; // floats
};
// The node's slice of the n_params: slices cover all, in the order of the ranks, and may be empty.
struct sl_nodes_part sl_nodes_slice(const struct sl_arena *a, uint32_t node);
// What the node needs of each gradient: its slice, or all.
struct sl_nodes_part sl_nodes_gradient_part(const struct sl_arena *a, uint32_t node);

// What entries call a worker: its id here; of another node also that node's number.
uint32_t sl_nodes_worker(const struct sl_arena *a, uint32_t node, uint32_t id);
uint32_t sl_nodes_worker_node(const struct sl_arena *a, uint32_t worker);

#endif
