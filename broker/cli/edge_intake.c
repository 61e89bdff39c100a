#include "broker/cli/edge_intake.h"

int sl_edge_intake_flush(struct sl_edge_intake *in)
{
    size_t n = in->n;
    in->n = 0;
    return sl_edge_sort_add(in->sort, 0, in->keys, in->weighted ? in->weights : NULL, n);
}
