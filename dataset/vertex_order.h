/*
 * vertex_order.h - orders in which the vertices of a graph may be numbered.
 *
 * Each function fills order (n_nodes) with all vertices; order[new id] = present id. An order is a
 * function of the data set alone: ties go to the lower id. One thread.
 */
#ifndef SL_DATASET_VERTEX_ORDER_H
#define SL_DATASET_VERTEX_ORDER_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/text/progress.h"

/*
 * By falling out-degree: how often a vertex is the source of an edge, which is how often it is
 * drawn when every vertex is expanded. O(E), 4 bytes a vertex. SL_ENOMEM.
 */
int sl_vertex_order_degree(const struct sl_dataset *ds, uint32_t *order);

/*
 * By falling number of visits that an epoch of uniform sampling is expected to make
 * (common/data/expected_visits.h). fanout (n_hops) from the seeds outwards, -1 = all. O(n_hops E),
 * 20 bytes a vertex. A data set without training vertices is SL_EINVAL; SL_ENOMEM, SL_EABORTED.
 */
int sl_vertex_order_hotness(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                            struct sl_progress *progress, uint32_t *order);

/*
 * By falling number of reads of each entry of a vertex's list that the last hop, which does nearly
 * all reads, is expected to make: visits before that hop, times min(1, fanout / in-degree). A GPU
 * that holds the first rows then serves as many reads as possible; by hotness these rows are hubs,
 * of whose long lists few entries are read. Otherwise as hotness.
 */
int sl_vertex_order_reads(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                          struct sl_progress *progress, uint32_t *order);

/*
 * Breadth first against the edges, as sampling goes: from the vertex of the largest in-degree to
 * its in-neighbours in their order, and so on; then from the largest that is left. O(E), 8 bytes a
 * vertex. SL_ENOMEM, SL_EABORTED.
 */
int sl_vertex_order_bfs(const struct sl_dataset *ds, struct sl_progress *progress, uint32_t *order);

#endif
