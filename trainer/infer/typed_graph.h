/*
 * typed_graph.h - a model of a graph of several types over the graph, outside of any job.
 *
 * Both ways are exact. Mini-batches of the vertices that are asked for, with all their neighbours
 * in all hops (vicinity.h), compute what these need, each anew; as a job's evaluations are. Layers
 * one after the other compute each row of the types that the next one reads once, and keep them in
 * files (activation_file.h), as whole_graph.h does; pieces are mini-batches of one hop.
 *
 * It begins with mini-batches, and goes over to layers for all that is left with the first one that
 * has more edges than a piece may, or more than its share of those that all layers go through. So
 * memory is bounded by a piece, and the time by twice that of the better way. Which way it is
 * depends on what is asked for alone. On a GPU, too, the processor finds vertices and gathers rows.
 */
#ifndef SL_TRAINER_INFER_TYPED_GRAPH_H
#define SL_TRAINER_INFER_TYPED_GRAPH_H

#include "trainer/infer/whole_graph.h"

// The rows that g asks for, as sl_whole_graph_run() hands them over; chunk_rows vertices are a
// mini-batch. memory_bytes is not used.
int sl_typed_graph_run(struct sl_whole_graph *g);

#endif
