/*
 * numbering.h - turns edges between names into edges between numbers, in bounded memory.
 *
 *   edges, names --> name_table --> pairs of the table's numbers, in a file     \
 *                        |                                                       > edges
 *                        `--> record_sort --> names in order --> record_sort    /
 *                             (a full table)        |            (table's number, number)
 *                                                   `--> the caller, who keeps them
 *
 * A table's edges and its names are a chunk. When a table is full its names go to a sort and a new
 * one begins; the order of all names gives the numbers, and a second sort leads them back to their
 * chunks, so that then a chunk's numbers are in memory while its edges are read again. The
 * numbers depend on the names alone (name_key.h), and edges keep the order in which they were put.
 */
#ifndef SL_DATASET_NUMBERING_H
#define SL_DATASET_NUMBERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_numbering;

// Three quarters of memory_bytes while names are put, half of it while edges are taken. SL_ENOMEM.
int sl_numbering_create(const char *dir, uint64_t memory_bytes, struct sl_numbering **out);
void sl_numbering_destroy(struct sl_numbering *nb); // NULL is fine

// Names of 1 to SL_NAME_MAX_BYTES bytes. SL_EIO, SL_ENOMEM.
int sl_numbering_put_edge(struct sl_numbering *nb, const char *source, size_t n_source,
                          const char *destination, size_t n_destination, double weight);
// A vertex, with edges or without.
int sl_numbering_put_vertex(struct sl_numbering *nb, const char *name, size_t n);

// Every name in the order of the numbers. `in_edges`: an edge has it.
typedef int sl_numbering_name_fn(void *context, uint64_t number, const char *name, size_t n,
                                 bool in_edges);
int sl_numbering_finish(struct sl_numbering *nb, uint64_t max_names, sl_numbering_name_fn *take,
                        void *context); // SL_EFORMAT beyond max_names

// Every edge in the order in which they were put, once, after finish.
typedef int sl_numbering_edge_fn(void *context, uint32_t source, uint32_t destination,
                                 double weight);
int sl_numbering_edges(struct sl_numbering *nb, sl_numbering_edge_fn *take, void *context);

uint64_t sl_numbering_chunks(const struct sl_numbering *nb);

#endif
