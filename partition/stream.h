/*
 * stream.h - a partition made in passes over the file, with memory for its vertices alone.
 *
 * Fennel (Tsourakakis et al., WSDM 2014) with a cost that grows with the square of a part's size:
 * vertices in the file's order, each to the part that has most of its neighbours, less a price for
 * what the part holds already. Later passes place all of them again, now knowing where everybody is
 * (Nishimura and Ugander, KDD 2013).
 *
 * Training vertices and the others are counted apart, each with room of their own: so both are
 * even whatever comes, and there is always a part with room.
 */
#ifndef SL_PARTITION_STREAM_H
#define SL_PARTITION_STREAM_H

#include "partition/parts.h"

// The same for the same data set. 60 bytes a part; O(V log n_parts + E) a pass. Neighbours are
// those of in-edges, which sampling follows. SL_ENOMEM, SL_EABORTED.
int sl_stream_partition(const struct sl_parts_task *t, uint16_t *part);

#endif
