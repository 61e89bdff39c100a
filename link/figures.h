/*
 * figures.h - the part of a link that tells the first node what this one does.
 *
 * Once a second it writes down what the other parts have counted, in this node's row of the arena
 * (common/arena/node_figures.h), and sends the row, with what the broker has written there, to the
 * first node, whose link puts it into the table of its own arena. A row that is late is left out
 * for the next one: at most one is under way. The last row goes once the node's broker has ended
 * the job. When links leave, the first node waits for last rows SL_LINK_LAST_S at most, since a
 * node whose job never began has none.
 */
#ifndef SL_LINK_FIGURES_H
#define SL_LINK_FIGURES_H

#include <stdbool.h>

enum { SL_LINK_LAST_S = 2 };

struct sl_node_link;

// As a part of the loop (loop.h). Errors of world.h; SL_ENOMEM.
int sl_link_figures_init(struct sl_node_link *link);
int sl_link_figures_poll(struct sl_node_link *link, bool *moved);
int sl_link_figures_quiet(struct sl_node_link *link, bool *over);
void sl_link_figures_fini(struct sl_node_link *link);

#endif
