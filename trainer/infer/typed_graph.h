// typed_graph.h - a model of a graph of several types over the graph, outside of any job.
#ifndef SL_TRAINER_INFER_TYPED_GRAPH_H
#define SL_TRAINER_INFER_TYPED_GRAPH_H

#include "trainer/infer/whole_graph.h"

/*
 * The rows that g asks for, as sl_whole_graph_run() hands them over: exact, in mini-batches of
 * chunk_rows vertices with all their neighbours (vicinity.h), as the evaluations of a job are.
 * Memory is bounded by a mini-batch, scratch and memory_bytes are not used. On CPU devices.
 */
int sl_typed_graph_run(struct sl_whole_graph *g);

#endif
