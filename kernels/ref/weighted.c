/*
 * weighted.c - one hop of k-hop weighted sampling as kernels/weighted_internal.h defines it.
 *
 * The oracle: a draw walks along the edges that are left until it has come as far as its point. On
 * SL_ERANGE nothing beyond the capacities has been written, but nodes, map and outputs hold a part
 * of the hop: the caller starts the batch again with more room.
 */
#include <stdbool.h>

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/khop_internal.h"
#include "kernels/weighted_internal.h"
#include "kernels/ref/edge.h"

struct row {
    const double *prefix; // (degree)
    uint32_t degree;
    uint32_t n_drawn, n_gone;
    uint32_t *drawn;  // (k) positions in the order of the slots
    uint32_t *sorted; // (k + excluded) those that were taken away, in the order of the file
};

static double weight_of(const struct row *row, uint32_t edge)
{
    return row->prefix[edge] - (edge > 0 ? row->prefix[edge - 1] : 0.0);
}

// The edge over which x lies; x is below the length that is left.
static uint32_t edge_at(const struct row *row, double x)
{
    double end = 0;
    uint32_t next = 0;
    for (uint32_t edge = 0; edge < row->degree; edge++) {
        if (next < row->n_gone && row->sorted[next] == edge) {
            next++;
            continue;
        }
        end += weight_of(row, edge);
        if (x < end)
            return edge;
    }
    return row->degree - 1; // not reached: x is below the length
}

static void take_away(struct row *row, uint32_t edge)
{
    uint32_t at = row->n_gone++;
    for (; at > 0 && row->sorted[at - 1] > edge; at--)
        row->sorted[at] = row->sorted[at - 1];
    row->sorted[at] = edge;
}

// All edges that have a weight.
static int add_all(const struct sl_khop_args *args, const struct row *row,
                   struct sl_excluded_row out, uint64_t first, uint64_t *n_edges)
{
    for (uint32_t j = 0; j < row->degree - out.n; j++) {
        const uint32_t edge = sl_ref_place(out, j);
        if (weight_of(row, edge) > 0)
            SL_TRY(sl_ref_add_edge(args, first + edge, n_edges));
    }
    return SL_OK;
}

static int sample_row(const struct sl_khop_args *args, uint32_t i, struct row *row,
                      uint64_t *n_edges)
{
    uint64_t first = args->topology->indptr[args->rows[i]];
    uint64_t degree = args->topology->indptr[args->rows[i] + 1] - first;
    if (degree >= UINT32_MAX)
        return sl_khop_fail_degree(args, i, degree);
    row->prefix = args->topology->weight_prefix + first;
    row->degree = (uint32_t)degree;
    row->n_drawn = row->n_gone = 0;
    const struct sl_excluded_row out = sl_excluded_row(args->excluded, i);
    if (args->fanout == -1)
        return add_all(args, row, out, first, n_edges);
    double left = degree > 0 ? row->prefix[degree - 1] : 0.0;
    for (uint32_t e = 0; e < out.n; e++) {
        take_away(row, out.at[e]);
        left -= weight_of(row, out.at[e]);
    }
    for (uint32_t slot = 0; slot < (uint32_t)args->fanout && left > 0; slot++) {
        double x = sl_weighted_draw(args->seed, args->stream, args->epoch, args->batch, args->hop,
                                    i, slot, left);
        uint32_t edge = edge_at(row, x);
        row->drawn[row->n_drawn++] = edge;
        if (args->replace)
            continue;
        take_away(row, edge);
        left -= weight_of(row, edge);
    }
    if (!(left > 0))
        return add_all(args, row, out, first, n_edges);
    for (uint32_t slot = 0; slot < row->n_drawn; slot++)
        SL_TRY(sl_ref_add_edge(args, first + row->drawn[slot], n_edges));
    return SL_OK;
}

int sl_ref_khop_weighted(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_khop_weighted(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    args = &own;
    struct row row = {0};
    if (args->fanout > 0) {
        void *scratch;
        size_t words = (size_t)args->fanout * 2;
        if (args->excluded)
            words += args->excluded->offsets[args->excluded->n_rows];
        SL_TRY(sl_idmap_scratch(args->map, words * sizeof(uint32_t), &scratch));
        row.drawn = scratch;
        row.sorted = row.drawn + args->fanout;
    }
    uint64_t n_edges = sl_khop_first_edge(args);
    for (uint32_t i = args->first_row; i < args->n_dst; i++) {
        SL_TRY(sample_row(args, i, &row, &n_edges));
        args->indptr[i + 1] = (uint32_t)n_edges;
    }
    *args->n_edges = (uint32_t)n_edges;
    return SL_OK;
}

int sl_ref_weight_prefix(const struct sl_topology_view *topology, const float *weight,
                         double *prefix)
{
    SL_TRY(sl_check_weight_prefix(topology, weight, prefix));
    for (uint64_t v = 0; v < topology->n_nodes; v++) {
        uint64_t first = topology->indptr[v], n = topology->indptr[v + 1] - first;
        uint64_t good = sl_weighted_prefix_row(weight + first, n, prefix + first);
        if (good < n)
            return sl_check_fail_weight(topology, weight, first + good);
    }
    return SL_OK;
}
