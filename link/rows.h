/*
 * rows.h - the part of a link that brings feature rows of other nodes, and gives them its own.
 *
 * ASKING. A worker's ask (common/arena/asks.h) goes to each node that has rows of it in one message
 * of vertices; before it is sent, receives are posted for what it asks: the rows of each node come
 * straight into the ask's memory. A node answers in the order in which it is asked, so rows need no
 * name. Once all are there the ask is answered.
 *
 * ANSWERING. One ask at a time is taken off the wire and its rows copied together, a piece a poll,
 * so that a drive that is slow does not silence this node. At most SL_LINK_ANSWERS are on their way
 * back, of SL_ASKS_ROWS_BYTES each; who asks more often waits, in memory that is his own. No two
 * nodes can wait for one another: what is sent is always received.
 *
 * FAILURE. What is asked is checked against the shard: SL_EPROTO names the vertex and whose it is.
 * An ask that a node who lives does not answer fails after SL_WORLD_ANSWER_S. What a dead worker
 * has asked for is received all the same, and then nobody's.
 */
#ifndef SL_LINK_ROWS_H
#define SL_LINK_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_LINK_ANSWERS = 16, SL_LINK_PIECE_BYTES = 1 << 20 };

#define SL_LINK_ASK_MAGIC 0x31304b5341524c53ull // "SLRASK01"

// What goes before the vertices (n) of an ask. Written as it lies: all nodes are of one build.
struct sl_link_ask {
    uint64_t magic;
    uint64_t shards; // their digest (common/data/shard.h)
    uint32_t n, row_bytes;
};

struct sl_node_link;
int sl_link_rows_init(struct sl_node_link *link);
int sl_link_rows_poll(struct sl_node_link *link, bool *moved);
int sl_link_rows_quiet(struct sl_node_link *link, bool *quiet);
void sl_link_rows_fini(struct sl_node_link *link);

#endif
