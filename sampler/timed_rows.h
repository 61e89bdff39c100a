/*
 * timed_rows.h - the rows of a tree whose seed has a time, without the edges that are later.
 *
 * A tree has one seed, so one bound holds for all its rows: which of their edges count is found
 * once for each vertex, in the hop that first reads its row (kernels/time_ranges.h). Those ranges
 * are then what the sampling kernel gets for the graph's rows. Of a typed graph each relation that
 * has times has rows of its own.
 */
#ifndef SL_SAMPLER_TIMED_ROWS_H
#define SL_SAMPLER_TIMED_ROWS_H

#include "kernels/kernels.h"
#include "kernels/time_ranges.h"
#include "sampler/draw_plan.h"
#include "sampler/scratch.h"
#include "sampler/topology.h"

struct sl_timed_rows {
    struct sl_time_bound bound;
    uint32_t n;                     // vertices of the tree whose ranges are found
    struct sl_scratch_array range;  // (n) struct sl_time_range
    struct sl_scratch_array latest; // (n) the same, where the latest edges are taken
    struct sl_scratch_array row;    // 0, 2, 4, ..: ranges as rows
    uint32_t n_rows;                // that are filled
    struct sl_topology_view view;   // of the hop in hand
};

// What a hop reads: rows first .. n - 1 of the vertices `nodes`.
struct sl_timed_hop {
    const struct sl_topology_view *view;
    const int64_t *time; // of the view's edges
    enum sl_time_rule rule;
    int64_t fanout;
    uint32_t first, n;
    const uint32_t *nodes;
};

// The tree of one more seed, before its first hop.
void sl_timed_rows_begin(struct sl_timed_rows *t, struct sl_time_bound bound);

// Fills t->view, and rows of it, for the kernel. *edges: how many it can take at most. SL_ENOMEM,
// SL_EUNSUPPORTED.
int sl_timed_rows_find(struct sl_timed_rows *t, const struct sl_timed_hop *hop,
                       const uint32_t **rows, uint64_t *edges);

uint64_t sl_timed_rows_bytes(const struct sl_timed_rows *t);
void sl_timed_rows_fini(struct sl_timed_rows *t); // safe on a zeroed struct

#endif
