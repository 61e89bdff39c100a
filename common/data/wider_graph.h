/*
 * wider_graph.h - the graph of a data set with a list of edges in it that it lacks: where a model
 * of links is tested, its validation edges may be known (evaluate.val_edges_as_input).
 *
 * It is made once, in a file without a name that processes inherit, and mapped by each like the
 * data set's own arrays: pages of a file, of which the kernel keeps in memory what there is room
 * for. While it is made 8 bytes a vertex and 5 an added edge are needed beside it.
 *
 * A vertex's list is its own, and each added source stands before the first one that is larger: so
 * lists that rise still do, and are those of a data set that was imported with these edges. An edge
 * that is there already, or twice in the list, is not added again. The reverses are added too where
 * each edge of the graph has its own. Edges of weight 0 that are hidden (weightless.h) are left out
 * for good.
 *
 * Of a graph of several types "list" above is a row of a relation: edges are added to the linked
 * relation (sl_dataset_linked()), and reverses to the one that has the reverses of it.
 */
#ifndef SL_DATA_WIDER_GRAPH_H
#define SL_DATA_WIDER_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_wider_graph {
    struct sl_dataset dataset; // what it was made of but for its edges; not to be closed
    void *map;                 // NULL: none
    uint64_t bytes;
    struct sl_relation *relation; // of the dataset, where there are several; owned
};

// What was made.
struct sl_wider_found {
    bool both_ways;   // with the reverses of the edges
    uint64_t n_added; // edges, with these
    uint64_t bytes;
};

/*
 * Whether each edge of the graph has its reverse, found by sums over all edges: a graph for which
 * that is not so passes by a chance of 2^-64. Of a graph of several types it is asked of the linked
 * relation, where the data set may say so ("reverse_of"). SL_ENOMEM.
 */
int sl_graph_is_both_ways(const struct sl_dataset *ds, int threads, bool *both_ways);
// The part of lists begin to end - 1: adds up numbers of their edges, each pair of vertices
// once, and of the reverses of these. Each edge has one where both sums are equal over all
// lists. list: room for the longest one.
void sl_graph_add_directions(const struct sl_dataset *ds, uint64_t begin, uint64_t end,
                             uint32_t *list, uint64_t sums[2]);

/*
 * Makes it in the empty file, which becomes as large as it is; threads = 0: all cores. SL_ENOMEM;
 * SL_EIO: no room, the message ends with `advice`.
 */
int sl_wider_graph_make(int fd, const struct sl_dataset *ds, const struct sl_pair_list *edges,
                        int threads, const char *advice, struct sl_wider_found *found);

// The most that the file takes.
uint64_t sl_wider_graph_bytes(const struct sl_dataset *ds, const struct sl_pair_list *edges);

// Maps what was made of these edges; both must outlive it. SL_EPROTO: it was of other ones.
int sl_wider_graph_open(int fd, const struct sl_dataset *ds, const struct sl_pair_list *edges,
                        struct sl_wider_graph *out);
void sl_wider_graph_close(struct sl_wider_graph *g); // safe on a zeroed struct

#endif
