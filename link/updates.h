/*
 * updates.h - the part of the link that carries updates between nodes: common/arena/nodes.h says
 * what goes when, and why nothing is torn. Here bytes are moved.
 *
 * For the step from version v the same messages go from each node to each other one, with one tag
 * and so in order (a part of no floats is left out; a long one goes in pieces):
 *
 *      for each of its cells, in order:   struct sl_nodes_batch, the other's part of the gradient
 *      in the end                         struct sl_nodes_made, its slice of the parameters
 *
 * All receives of a step are posted when it begins, straight to where the bytes belong. A node that
 * is a step ahead finds none posted yet: its messages wait with MPI.
 *
 * State for a checkpoint goes with a tag of its own: the first node names a version, each other one
 * sends its slice of each of the optimizer's arrays. The first node does not flip meanwhile.
 */
#ifndef SL_LINK_UPDATES_H
#define SL_LINK_UPDATES_H

#include "link/node_link.h"

int sl_link_updates_init(struct sl_node_link *link);
int sl_link_updates_poll(struct sl_node_link *link, bool *moved);
int sl_link_updates_quiet(struct sl_node_link *link, bool *quiet);
void sl_link_updates_fini(struct sl_node_link *link);

#endif
