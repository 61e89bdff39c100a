/*
 * loop.h - the link of a node: the process that talks to the other nodes of a job.
 *
 * PROBLEM. A job over several nodes exchanges batches, gradients, parameters and rows between
 * machines. MPI, which moves them, polls, takes signals, and never says that a peer is gone; broker
 * and workers shall have none of that.
 *
 * DESIGN. One process a node, `sluice-link`, is in the world (nodes/world.h) and has the node's
 * arena mapped. It has one thread, which goes round its parts and never waits in one of them:
 *
 *      notes      what brokers say to one another, and how the job ends       notes.h
 *      updates    gradients and parameters                                    updates.h
 *      results    what evaluations find                                       results.h
 *      rows       feature rows of other nodes                                 rows.h
 *      figures    statistics                                                  figures.h
 *      relay      what brokers ask one another, and the answers               relay.h
 *
 * A part says whether it has moved anything. When none has, the thread sleeps on the arena's event
 * `progress`, for 20 us and growing to a millisecond: what comes from other nodes wakes nobody.
 *
 * BEGINNING. The nodes meet and compare what they have (nodes/survey.h); the first one's link says
 * what differs. Then clocks are compared, and the link says Hello with how many nodes there are.
 * Workers are started after that. Until Attach only notes go.
 *
 * END. A broker's last note is END: how its job ended. Until all nodes have said it, and each
 * broker has written what it writes (READY), the parts go on: another node may want rows, or state
 * for its last checkpoint. Then what is under way is taken and thrown away until each says that it
 * has nothing under way (QUIET), and all leave the world together. Where that cannot be, because a
 * node is silent or the wire is broken, the link tells its broker (Failed), tries to tell the other
 * nodes, and leaves once it is told to. A broker that was stopped (SIGSTOP) tells nobody anything:
 * its link speaks in its place, waits until the others are ready, and kills it. How long a broker
 * works has no bound here: it may write to a slow file system, or evaluate.
 *
 * DEATH. Nothing of a link is needed by a next one: it is never replaced, its death ends the job,
 * which goes on from its last checkpoint.
 */
#ifndef SL_LINK_LOOP_H
#define SL_LINK_LOOP_H

#include "link/node_link.h"

// Of a link whose world is open, and whose nodes are alike: until all nodes have ended the job, or
// an error. Errors of world.h and of the parts.
int sl_link_run(struct sl_node_link *link);
// For as long as a node may be silent.
bool sl_link_broker_is_stopped(struct sl_node_link *link);
void sl_link_fini(struct sl_node_link *link); // safe on a zeroed struct, but for the worker's

#endif
