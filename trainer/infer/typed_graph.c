#include "trainer/infer/typed_graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "trainer/infer/activation_file.h"
#include "trainer/infer/typed_pieces.h"

struct walk {
    struct sl_whole_graph *g;
    struct sl_typed_pieces pieces;
    uint32_t *hops; // (n_types) relations between a type and what is asked for, at least
    uint64_t at;    // rows that have been handed over
    struct sl_activation_file bank[2]; // of odd and even layers
};

static const struct sl_typed *types_of(const struct walk *w)
{
    return &w->g->dataset->typed;
}

// Whether layer l has to give rows to vertices of the type.
static bool is_needed(const struct walk *w, uint32_t l, uint32_t t)
{
    return w->hops[t] <= w->g->layer - l;
}

static int find_hops(struct walk *w)
{
    const struct sl_typed *t = types_of(w);
    w->hops = malloc(t->n_types * sizeof *w->hops);
    if (!w->hops)
        return sl_fail(SL_ENOMEM, "no memory for %u types", t->n_types);
    for (uint32_t i = 0; i < t->n_types; i++)
        w->hops[i] = i == w->g->type ? 0 : UINT32_MAX;
    for (uint32_t h = 0; h <= w->g->layer; h++)
        for (uint32_t r = 0; r < t->n_relations; r++)
            if (w->hops[t->relation[r].target] == h)
                w->hops[t->relation[r].source] = SL_MIN(w->hops[t->relation[r].source], h + 1);
    return SL_OK;
}

static int deliver(struct walk *w, const float *rows, uint32_t n)
{
    struct sl_whole_graph *g = w->g;
    SL_TRY(g->on_rows(g->ctx, w->at, n, rows));
    w->at += n;
    return SL_OK;
}

// Those from `at` on.
static struct sl_infer_range asked(const struct walk *w, uint64_t most)
{
    const struct sl_whole_graph *g = w->g;
    return (struct sl_infer_range){.ids = g->ids ? g->ids + w->at : NULL,
                                   .first = g->ids ? 0 : types_of(w)->type[g->type].first + w->at,
                                   .n = (uint32_t)SL_MIN(g->n - w->at, most)};
}

// ---- mini-batches with all hops -----------------------------------------------------------------

// Its share of the edges that all layers go through, or what a piece may have.
static uint64_t most_edges(const struct walk *w)
{
    const struct sl_whole_graph *g = w->g;
    const uint64_t n_batches = sl_div_up(SL_MAX(g->n, (uint64_t)1), g->chunk_rows);
    uint64_t edges = 0;
    for (uint32_t l = 0; l <= g->layer; l++)
        for (uint32_t r = 0; r < types_of(w)->n_relations; r++)
            if (is_needed(w, l, types_of(w)->relation[r].target))
                edges += types_of(w)->relation[r].n_edges;
    return SL_MIN(edges / n_batches, sl_typed_pieces_most(&w->pieces, 0));
}

static int one_batch(struct walk *w, uint32_t n)
{
    struct sl_whole_graph *g = w->g;
    const uint32_t width = sl_whole_graph_width(g);
    struct sl_block_view block;
    float *x, *outputs;
    const float *rows;
    SL_TRY(sl_typed_pieces_features(&w->pieces));
    SL_TRY(sl_typed_pieces_bring(&w->pieces, 0, &block, &x));
    if (g->hidden) {
        SL_TRY(sl_model_hidden(g->model, g->params, block, x, g->type, &rows));
    } else {
        SL_TRY(sl_model_forward(g->model, g->params, block, x, false, &outputs));
        rows = outputs;
    }
    for (uint32_t h = 0; h < block.header->n_hops; h++)
        g->computed += block.header->n_nodes[h];
    SL_TRY(sl_typed_pieces_take_back(&w->pieces, width, &rows));
    SL_TRY(sl_typed_pieces_order(&w->pieces, rows, n, width, &rows));
    SL_FAILPOINT(TRAINER_INFER);
    return deliver(w, rows, n);
}

// As many as are small enough.
static int run_batches(struct walk *w)
{
    struct sl_whole_graph *g = w->g;
    const uint64_t most = most_edges(w);
    while (w->at < g->n) {
        const struct sl_infer_range range = asked(w, g->chunk_rows);
        const int rc = sl_vicinity_find(&w->pieces.vicinity, g->type, &range, g->layer + 1, most);
        if (rc == SL_ERANGE)
            return SL_OK;
        SL_TRY(rc);
        SL_TRY(one_batch(w, range.n));
        SL_TRY(g->on_progress(g->ctx, g->layer, w->at, g->n));
    }
    return SL_OK;
}

// ---- layer by layer -----------------------------------------------------------------------------

// The layer of a piece of the range, which is cut to it.
static int one_piece(struct walk *w, uint32_t l, uint32_t type, bool outputs,
                     struct sl_infer_range *range, const float **rows)
{
    struct sl_whole_graph *g = w->g;
    const float *below = l ? w->bank[(l - 1) & 1].data : NULL;
    SL_TRY(sl_typed_pieces_next(&w->pieces, g->params, l, type, outputs, below, range, rows));
    SL_FAILPOINT(TRAINER_INFER);
    g->computed += range->n;
    return SL_OK;
}

// All rows of a type in a layer that is not the last.
static int fill_bank(struct walk *w, uint32_t l, uint32_t type, uint64_t *done, uint64_t total)
{
    struct sl_whole_graph *g = w->g;
    const struct sl_vertex_type *of = &types_of(w)->type[type];
    const struct sl_activation_file *bank = &w->bank[l & 1];
    const uint32_t width = g->model->typed->hidden;
    for (uint64_t at = 0; at < of->n;) {
        struct sl_infer_range range = {.first = of->first + at,
                                       .n = (uint32_t)SL_MIN(of->n - at, (uint64_t)UINT32_MAX)};
        const float *rows;
        SL_TRY(one_piece(w, l, type, false, &range, &rows));
        SL_TRY(sl_activation_file_reserve(bank, width, 0, &range));
        memcpy(bank->data + range.first * width, rows, (size_t)range.n * width * sizeof *rows);
        at += range.n;
        *done += range.n;
        SL_TRY(g->on_progress(g->ctx, l, *done, total));
    }
    return SL_OK;
}

static int run_layers(struct walk *w)
{
    struct sl_whole_graph *g = w->g;
    for (uint32_t l = 0; l < g->layer; l++) {
        uint64_t done = 0, total = 0;
        if (!w->bank[l & 1].data)
            SL_TRY(sl_activation_file_open(&w->bank[l & 1], g->scratch, g->memory_bytes > 0,
                                           g->dataset->n_nodes, g->model->typed->hidden));
        for (uint32_t t = 0; t < types_of(w)->n_types; t++)
            total += is_needed(w, l, t) ? types_of(w)->type[t].n : 0;
        SL_TRY(g->on_progress(g->ctx, l, 0, total));
        for (uint32_t t = 0; t < types_of(w)->n_types; t++)
            if (is_needed(w, l, t))
                SL_TRY(fill_bank(w, l, t, &done, total));
    }
    while (w->at < g->n) {
        struct sl_infer_range range = asked(w, UINT32_MAX);
        const float *rows;
        SL_TRY(one_piece(w, g->layer, g->type, !g->hidden, &range, &rows));
        SL_TRY(deliver(w, rows, range.n));
        SL_TRY(g->on_progress(g->ctx, g->layer, w->at, g->n));
    }
    return SL_OK;
}

static int run(struct walk *w)
{
    struct sl_whole_graph *g = w->g;
    SL_TRY(find_hops(w));
    SL_TRY(sl_typed_pieces_init(&w->pieces, g->model, g->dataset));
    // What walks meet is another thing in each layer, and no row of one for all hops.
    if (!g->model->neighbours)
        SL_TRY(run_batches(w));
    return w->at < g->n ? run_layers(w) : SL_OK;
}

int sl_typed_graph_run(struct sl_whole_graph *g)
{
    struct walk w = {.g = g, .bank = {{.fd = -1}, {.fd = -1}}};
    g->computed = 0;
    const int rc = run(&w);
    sl_typed_pieces_fini(&w.pieces);
    sl_activation_file_close(&w.bank[0]);
    sl_activation_file_close(&w.bank[1]);
    free(w.hops);
    return rc;
}
