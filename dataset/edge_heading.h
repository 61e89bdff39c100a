/*
 * edge_heading.h - what the comments at the beginning of an edge list say about it.
 *
 *   % sym unweighted                KONECT: sym (undirected, each edge once), asym (directed) or
 *   % 13 6 5                        bip (undirected, each side numbered from 1), and what weights
 *                                   there are; edges, vertices of the first and the second side
 *   # Undirected graph: ...         SNAP: each edge once; "# Directed graph": as it is written,
 *   # Nodes: 317080 Edges: 1049866  which some undirected graphs are, with both directions
 *   %%MatrixMarket matrix ...       no edge list
 */
#ifndef SL_DATASET_EDGE_HEADING_H
#define SL_DATASET_EDGE_HEADING_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_HEADING_TEXT_BYTES = 48 };

enum sl_heading_direction { SL_HEADING_SILENT, SL_HEADING_DIRECTED, SL_HEADING_UNDIRECTED };

struct sl_edge_heading {
    enum sl_heading_direction direction;
    char text[SL_HEADING_TEXT_BYTES]; // the comment that says so, or its beginning
    uint64_t line;                    // where it stands
    bool matrix;                      // Matrix Market's
    // KONECT's.
    bool konect, bipartite;
    bool unweighted;     // edges have no weights
    bool dynamic;        // the third column adds and removes edges
    uint64_t first_side; // vertices; 0: not said
    // Either's.
    uint64_t n_edges; // lines; 0: not said
};

// Learns from a comment, which begins with # or % and ends in '\n'.
void sl_edge_heading_read(struct sl_edge_heading *h, const char *comment, uint64_t line);

#endif
