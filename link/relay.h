/*
 * relay.h - the part of a link that carries questions of the first node's broker to the brokers of
 * all nodes, and their answers.
 *
 * To its broker a link is a client like any other: it hands on what the first node's broker asks
 * (`sluice scale`, `sluice trace`), and the broker answers it, with the number of the question
 * (common/bus/bus.h). On the first node a message goes to the node that it names, elsewhere to the
 * first one. The first node's broker asks itself the same way, and so has one kind of answer.
 *
 * Messages go as they are on the control bus, in order. Times in them are moved to the clock of who
 * hears them. What comes is received one message at a time, of at most SL_BUS_REQUEST_MAX bytes.
 * How many are under way is bounded by who asks: one change of the split, one trace (trace.h).
 */
#ifndef SL_LINK_RELAY_H
#define SL_LINK_RELAY_H

#include <stdbool.h>

#include "common/bus/control.pb-c.h"

struct sl_node_link;

// As a part of the loop (loop.h). Errors of world.h; SL_ENOMEM, SL_EPROTO.
int sl_link_relay_init(struct sl_node_link *link);
int sl_link_relay_poll(struct sl_node_link *link, bool *moved);
int sl_link_relay_quiet(struct sl_node_link *link, bool *quiet);
void sl_link_relay_fini(struct sl_node_link *link);

// The halves of a poll. Sends what this node's broker says; to itself: comes next.
int sl_link_relay_send(struct sl_node_link *link, const Sl__Control__Envelope *message);
// What has come for this node's broker, owned by the caller (sl_bus_message_free), with whose it is
// in its `node`. SL_EAGAIN: nothing.
int sl_link_relay_next(struct sl_node_link *link, Sl__Control__Envelope **out);

#endif
