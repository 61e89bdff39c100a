#include "trainer/infer/piece.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/weightless.h"
#include "trainer/feed/edge_rows.h"

static uint64_t most_neighbours(const struct sl_cutter *c, uint64_t v)
{
    uint64_t degree = sl_dataset_degree(c->dataset, v);
    // A walk from a vertex without in-edges goes nowhere; from others it may meet more vertices
    // than these have neighbours.
    if (c->neighbours && degree > 0)
        degree = sl_neighbours_bound(c->neighbours, c->layer, 0);
    return degree + c->self_edge;
}

static uint64_t most_edges(const struct sl_cutter *c)
{
    uint64_t most = c->cold ? SL_INFER_COLD_EDGES : SL_INFER_PIECE_EDGES;
    if (c->edge_floats > 0)
        most = SL_MIN(most, (uint64_t)SL_INFER_PIECE_FLOATS / c->edge_floats);
    if (c->cold || (c->env->device->is_host && !c->gathers))
        return most;
    return SL_MIN(most, (uint64_t)SL_INFER_PIECE_FLOATS / c->d_in);
}

uint32_t sl_cutter_rows(const struct sl_cutter *c, uint32_t at, uint64_t *n_edges)
{
    const uint64_t most = most_edges(c);
    uint64_t edges = 0;
    uint32_t rows = 0;
    while (at + rows < c->range->n && rows < SL_INFER_PIECE_ROWS) {
        uint64_t more = most_neighbours(c, sl_infer_vertex(c->range, at + rows));
        if (rows > 0 && edges + more > most)
            break;
        edges += more;
        rows++;
    }
    *n_edges = edges;
    return rows;
}

uint32_t sl_infer_neighbours(const struct sl_dataset *ds, uint64_t row, uint32_t *out)
{
    const uint64_t first = ds->indptr[row], n = sl_dataset_degree(ds, row);
    if (n == 0) // there may be no list
        return 0;
    if (sl_dtype_bytes(ds->indices_dtype) == sizeof *out) {
        memcpy(out, (const uint32_t *)ds->indices + first, n * sizeof *out);
    } else {
        const uint64_t *wide = (const uint64_t *)ds->indices + first;
        for (uint64_t e = 0; e < n; e++)
            out[e] = (uint32_t)wide[e]; // checked to be below n_nodes when the data set was opened
    }
    return sl_weightless_strip(ds, row, out);
}

// Takes v out of its own list, in place; returns how many are left.
static uint32_t drop_self_loops(uint32_t *list, uint32_t n, uint32_t v)
{
    uint32_t kept = 0;
    for (uint32_t e = 0; e < n; e++)
        if (list[e] != v)
            list[kept++] = list[e];
    return kept;
}

// The numbers of v's edges, as list_neighbours() has them, and behind them that of the vertex.
static void number_edges(const struct sl_dataset *ds, uint32_t v, uint64_t *ids)
{
    for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
        if ((!ds->present || ds->present[e] > 0) && sl_dataset_source(ds, e) != v)
            *ids++ = e;
    *ids = SL_EDGE_OF_ITSELF;
}

// The neighbours of v at `ids`, and where these are counted their weights; *count of them.
static int list_neighbours(const struct sl_cutter *c, uint32_t v, uint32_t *ids, float *weights,
                           uint32_t *count)
{
    const uint64_t degree = sl_dataset_degree(c->dataset, v);
    *count = 0;
    if (degree == 0)
        return SL_OK;
    if (c->neighbours) // the vertex itself is never among them
        return sl_neighbours_draw(c->neighbours, c->layer, 0, v, ids, weights, count);
    *count = sl_infer_neighbours(c->dataset, v, ids);
    if (c->self_edge)
        *count = drop_self_loops(ids, *count, v);
    return SL_OK;
}

int sl_cutter_piece(const struct sl_cutter *c, uint32_t at, uint32_t rows, uint32_t n_edges,
                    struct sl_infer_piece *piece)
{
    uint32_t *ids = sl_layer_note(c->env, rows * sizeof *ids);
    uint32_t *indptr = sl_layer_note(c->env, ((size_t)rows + 1) * sizeof *indptr);
    uint32_t *indices = sl_layer_note(c->env, n_edges * sizeof *indices);
    float *weights = c->neighbours ? sl_layer_note(c->env, n_edges * sizeof *weights) : NULL;
    uint64_t *numbers = c->edge_floats ? sl_layer_note(c->env, n_edges * sizeof *numbers) : NULL;
    if (!ids || !indptr || !indices || (c->neighbours && !weights) || (c->edge_floats && !numbers))
        return SL_ENOMEM;
    uint32_t e = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t v = (uint32_t)sl_infer_vertex(c->range, at + i);
        uint32_t count;
        ids[i] = v;
        indptr[i] = e;
        SL_TRY(list_neighbours(c, v, indices + e, weights ? weights + e : NULL, &count));
        if (numbers)
            number_edges(c->dataset, v, numbers + e);
        e += count;
        if (!c->self_edge)
            continue;
        if (weights)
            weights[e] = 1; // the kinds give it their own
        indices[e++] = v;
    }
    indptr[rows] = e;
    piece->lists = (struct sl_csr_view){.n_dst = rows,
                                        .n_src = (uint32_t)c->dataset->n_nodes,
                                        .n_edges = e,
                                        .indptr = indptr,
                                        .indices = indices};
    piece->ids = ids;
    piece->graph = c->dataset;
    piece->self_loops = c->self_loops;
    piece->list_weights = weights;
    piece->list_ids = numbers;
    return SL_OK;
}
