#include "dataset/edge_sink.h"

int sl_edge_sink_flush(struct sl_edge_sink *in)
{
    size_t n = in->n;
    int lane = in->lane;
    in->n = 0;
    in->lane = (lane + 1) % in->n_lanes;
    return sl_edge_sort_add(in->sort, lane, in->keys, in->weighted ? in->weights : NULL, n);
}
