#include "trainer/infer/typed_graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/feed/rows.h"
#include "trainer/feed/typed_block.h"
#include "trainer/infer/vicinity.h"

struct walk {
    struct sl_whole_graph *g;
    struct sl_vicinity vicinity;
    struct sl_row_source features;
    struct sl_buffer x; // rows of features of the block
    float *out;         // (chunk_rows, width)
};

// Rows of the layer, or outputs, of the block's first vertices of the type.
static int compute(struct walk *w, const float **rows)
{
    const struct sl_whole_graph *g = w->g;
    struct sl_model *model = g->model;
    const struct sl_typed *typed = &g->dataset->typed;
    const struct sl_block *block = w->vicinity.block;
    const uint64_t bytes = sl_typed_rows_at(block, typed, typed->n_types, false);
    float *outputs;
    SL_TRY(sl_buffer_grow(&w->x, model->env.device, SL_BUFFER_HOST, bytes, "features"));
    SL_TRY(sl_rows_copy_typed(&w->features, model->env.kernels, block, false, w->x.p));
    if (g->hidden)
        return sl_model_hidden(model, g->params, sl_block_here(block), w->x.p, g->type, rows);
    SL_TRY(sl_model_forward(model, g->params, sl_block_here(block), w->x.p, false, &outputs));
    *rows = outputs;
    return SL_OK;
}

static int run_batches(struct walk *w)
{
    struct sl_whole_graph *g = w->g;
    const uint32_t width = sl_whole_graph_width(g), n_hops = g->layer + 1;
    const uint64_t first = g->dataset->typed.type[g->type].first;
    w->out =
        malloc(SL_MIN(SL_MAX(g->n, (uint64_t)1), (uint64_t)g->chunk_rows) * width * sizeof *w->out);
    if (!w->out)
        return sl_fail(SL_ENOMEM, "no memory for a chunk of %u rows", g->chunk_rows);
    SL_TRY(sl_vicinity_init(&w->vicinity, g->dataset));
    SL_TRY(g->on_progress(g->ctx, g->layer, 0, g->n));
    for (uint64_t at = 0; at < g->n;) {
        const struct sl_infer_range range = {
            .ids = g->ids ? g->ids + at : NULL,
            .first = g->ids ? 0 : first + at,
            .n = (uint32_t)SL_MIN(g->n - at, (uint64_t)g->chunk_rows)};
        const float *rows;
        SL_TRY(sl_vicinity_find(&w->vicinity, g->type, &range, n_hops));
        SL_TRY(compute(w, &rows));
        for (uint32_t i = 0; i < range.n; i++)
            memcpy(w->out + (uint64_t)i * width, rows + (uint64_t)w->vicinity.place[i] * width,
                   width * sizeof *rows);
        for (uint32_t h = 0; h < n_hops; h++)
            g->computed += w->vicinity.block->n_nodes[h];
        SL_TRY(g->on_rows(g->ctx, at, range.n, w->out));
        at += range.n;
        SL_TRY(g->on_progress(g->ctx, g->layer, at, g->n));
    }
    return SL_OK;
}

int sl_typed_graph_run(struct sl_whole_graph *g)
{
    struct walk w = {.g = g, .features = {.dataset = g->dataset}};
    g->computed = 0;
    const int rc = run_batches(&w);
    sl_vicinity_fini(&w.vicinity);
    sl_row_source_fini(&w.features);
    sl_buffer_fini(&w.x);
    free(w.out);
    return rc;
}
