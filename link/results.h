/*
 * results.h - the part of a link that carries what evaluations find: common/arena/nodes.h says why,
 * and what is over when.
 *
 * Of each own cell that is done, in order, one message goes to all other nodes: struct
 * sl_nodes_result and predictions. One cell is on its way to them at a time, and one is awaited of
 * each; messages of a node that is ahead wait with MPI.
 */
#ifndef SL_LINK_RESULTS_H
#define SL_LINK_RESULTS_H

#include "link/node_link.h"

int sl_link_results_init(struct sl_node_link *link);
int sl_link_results_poll(struct sl_node_link *link, bool *moved);
int sl_link_results_quiet(struct sl_node_link *link, bool *quiet);
void sl_link_results_fini(struct sl_node_link *link);

#endif
