/*
 * clocks.h - how far the clocks by which nodes measure are apart.
 *
 * Times in the arena are sl_now_ns(), which counts from each machine's own start. What another node
 * measured is moved by the difference before it stands beside own times.
 */
#ifndef SL_LINK_CLOCKS_H
#define SL_LINK_CLOCKS_H

#include <stdint.h>

#include "nodes/world.h"

// Everybody calls it. ahead_ns (size): of this node's clock. Errors of world.h.
int sl_link_clocks(struct sl_world *w, int64_t *ahead_ns);

#endif
