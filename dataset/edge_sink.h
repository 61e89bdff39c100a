/*
 * edge_sink.h - edges as an importer reads them, on their way to the sort.
 *
 * Adds reverse edges and drops self-loops, as every importer offers; counts what was read and
 * dropped. One thread.
 */
#ifndef SL_DATASET_EDGE_SINK_H
#define SL_DATASET_EDGE_SINK_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset/edge_sort.h"

enum { SL_SINK_BATCH = 8192 };

struct sl_edge_sink {
    // Set before the first edge.
    struct sl_edge_sort *sort;
    int n_lanes; // of the sort; batches go to each in turn, so that several threads sort at the end
    bool weighted;
    bool both_ways;  // also the reverse of each edge; a self-loop has none,
    bool twin_loops; // unless this is set: then it is there twice
    bool drop_self_loops;

    // Counted.
    uint64_t n_read;       // edges of the source
    uint64_t n_self_loops; // of them, kept or not
    uint64_t n_reversed;   // reverse edges added
    uint64_t n_underflows; // edges of the source whose positive weight is 0 as float32
    uint32_t max_id;

    int lane; // the next
    size_t n;
    uint64_t keys[SL_SINK_BATCH];
    float weights[SL_SINK_BATCH];
};

int sl_edge_sink_flush(struct sl_edge_sink *in);

static inline int sl_edge_sink_put(struct sl_edge_sink *in, uint32_t source, uint32_t destination,
                                   double weight)
{
    const float stored = fabsf((float)weight); // -0 is none of the marks below
    uint32_t larger = source > destination ? source : destination;
    bool loop = source == destination;
    in->n_read++;
    in->n_self_loops += loop;
    in->n_underflows += weight > 0 && stored == 0;
    in->max_id = larger > in->max_id ? larger : in->max_id;
    if (loop && in->drop_self_loops)
        return 0;
    in->keys[in->n] = sl_edge_key(source, destination);
    in->weights[in->n++] = stored;
    if (in->both_ways && (!loop || in->twin_loops)) {
        in->keys[in->n] = sl_edge_key(destination, source);
        in->weights[in->n++] = SL_EDGE_REVERSE(stored);
        in->n_reversed++;
    }
    return in->n > SL_SINK_BATCH - 2 ? sl_edge_sink_flush(in) : 0;
}

#endif
