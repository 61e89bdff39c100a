/*
 * share.h - the edges that the samplers' GPUs hold together (XGNN 4.1, 5).
 *
 * PROBLEM. A graph that no sampler's GPU has room for is read in the machine's memory, over the
 * bus, by each of them, while together they could hold more of it.
 *
 * DESIGN. A sampler starts with the first edges of the file, as many as it has room for
 * (graph_placement.h), and tells the broker how many these are. The broker's plan
 * (common/arena/peer_memory.h) says which of them each keeps for itself, and deals out those behind
 * in runs; in the room that it then has left a sampler holds its parts, lends them
 * (common/arena/peer_export.h), and reads the others' in place (common/arena/peer_import.h). A part
 * is its neighbours, and behind those of all parts their running sums. Where an edge lies follows
 * from its number (struct sl_spread), rows begin and end in any part, and whatever nobody holds is
 * where all of them are, mapped. So what is drawn is the same, integer for integer, wherever edges
 * lie. A neighbour is read once a row that draws it, and each vertex is a row once a hop: requests
 * are without duplicates before they leave the GPU.
 *
 * WHEN. The sampler's thread does all of it between batches. More of a part, and parts newly lent,
 * are taken up with the next batch. Anything that closes memory or lays it out anew waits until no
 * batch is being drawn (sl_share_is_current()). While parts are filled nothing is drawn here.
 *
 * FAILURE. A lender that dies while a batch is drawn makes it worth nothing: it is drawn again with
 * what this GPU has by itself (sl_share_is_good(), view `alone`). Want of memory makes smaller
 * parts, and where all edges can lie nowhere but on this GPU they stay there, and none are lent.
 */
#ifndef SL_SAMPLER_SHARE_H
#define SL_SAMPLER_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/peer_export.h"
#include "common/arena/heartbeat.h"
#include "sampler/graph_placement.h"

struct sl_share {
    struct sl_graph_placement *residence; // whose view says where edges lie
    struct sl_arena *arena;
    uint32_t device; // of the job
    const struct sl_heartbeat *pulse;
    struct sl_peer_memory_plan plan; // that it is laid out by
    struct sl_peer_export parts;     // that it holds
    struct sl_peer_import others;    // that it reads
    struct sl_topology_view alone;   // without parts
    void *piece;                     // on its way to the device, while filling
    uint64_t piece_bytes;
};

// Everything is borrowed for as long as it lives; the residence is one that shares.
void sl_share_init(struct sl_share *s, struct sl_graph_placement *residence, struct sl_arena *arena,
                   uint32_t device, const struct sl_heartbeat *pulse);
// Closes others' memory and withdraws its own. Only while nothing is drawn. Safe on a zeroed
// struct.
void sl_share_fini(struct sl_share *s);

// Whether all that is open, and the layout, are up to date. Costs one load, and two a lender.
bool sl_share_is_current(const struct sl_share *s);
// Brings both up to date. Only while nothing is drawn. Errors of the device.
int sl_share_refresh(struct sl_share *s);
// Opens what others lend by now, for the next batch.
void sl_share_open(struct sl_share *s);

// After a batch: whether everybody whose memory it was drawn from was alive.
bool sl_share_is_good(struct sl_share *s);
// Counts what a batch has read (struct sl_drawn), by place.
void sl_share_count(const struct sl_share *s, const uint64_t read[SL_DRAW_PLACES]);

// Device memory of the parts that it holds.
uint64_t sl_share_bytes(const struct sl_share *s);

#endif
