#include "trainer/infer/whole_graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/infer/activation_file.h"
#include "trainer/infer/evaluate.h"
#include "trainer/model/needed_rows.h"

enum { PAGE = 4096, FRONTIER_DIVISOR = 10 };

// What one layer computes besides the rows that are asked for: all vertices where ids is NULL.
struct rows {
    uint32_t *ids; // ascending
    uint64_t n;
};

struct walk {
    struct sl_whole_graph *g;
    struct sl_activation_file bank[2], jumping;
    struct rows rows[SL_CONFIG_MAX_LAYERS]; // of the layers below g->layer
    uint64_t resident; // bytes that may have been touched since all was given back
    // What is under way.
    uint32_t layer;
    uint64_t done, total;
};

uint32_t sl_whole_graph_width(const struct sl_whole_graph *g)
{
    const struct sl_model *m = g->model;
    bool outputs = g->layer + 1 == m->n_layers && !g->hidden;
    return outputs ? m->n_outputs : m->typed ? m->typed->hidden : m->layer[g->layer].d_out;
}

// ---- memory -------------------------------------------------------------------------------------

// Takes pages out of this process. What is dirty stays in the kernel's cache until it is written.
static void give_back(const void *data, uint64_t bytes)
{
    if (!data || bytes == 0)
        return;
    uintptr_t from = (uintptr_t)data & ~(uintptr_t)(PAGE - 1);
    madvise((void *)from, (uintptr_t)data + bytes - from, MADV_DONTNEED);
}

// Before a chunk that may touch so many bytes.
static void bound_memory(struct walk *w, uint64_t touched)
{
    const struct sl_whole_graph *g = w->g;
    const struct sl_dataset *ds = g->dataset;
    if (g->memory_bytes == 0)
        return;
    w->resident += touched;
    if (w->resident <= g->memory_bytes)
        return;
    w->resident = touched;
    // All of them are mapped files: nothing is lost.
    for (int b = 0; b < 2; b++)
        give_back(w->bank[b].data, w->bank[b].bytes);
    give_back(w->jumping.data, w->jumping.bytes);
    give_back(g->model->learned.rows,
              g->model->learned.n_rows * g->model->learned.dim * sizeof(float));
    give_back(ds->feat, ds->n_nodes * ds->feat_dim * sl_dtype_bytes(ds->feat_dtype));
    give_back(ds->indices, ds->n_edges * sl_dtype_bytes(ds->indices_dtype));
    give_back(ds->present, ds->n_edges * sizeof *ds->present);
    give_back(ds->typed.plain.feat, sl_relation_feature_bytes(&ds->typed.plain));
}

static int tell(struct walk *w, uint32_t layer, uint64_t done, uint64_t total)
{
    w->layer = layer;
    w->done = done;
    w->total = total;
    return w->g->on_progress(w->g->ctx, layer, done, total);
}

// Before a part of a matrix goes to the device. Features of many gigabytes take their time.
static int before_copy(void *ctx, uint64_t bytes)
{
    struct walk *w = ctx;
    bound_memory(w, bytes);
    return tell(w, w->layer, w->done, w->total);
}

// Bytes that a range of a layer touches at most: each edge another row.
static uint64_t touched_by(const struct walk *w, uint32_t l, const struct sl_infer_range *range,
                           const struct sl_infer_io *io)
{
    const struct sl_whole_graph *g = w->g;
    const struct sl_dataset *ds = g->dataset;
    const struct sl_layer_input input = sl_layer_input(&g->model->layer[l]);
    uint64_t edges = range->n;
    for (uint32_t i = 0; i < range->n; i++)
        edges += sl_dataset_degree(ds, sl_infer_vertex(range, i));
    uint64_t element = l || g->model->learned.dim ? sizeof(float) : sl_dtype_bytes(ds->feat_dtype);
    uint64_t row = SL_MAX((uint64_t)input.width * element, (uint64_t)PAGE);
    uint64_t all = ds->n_nodes * input.n * input.width * element;
    uint64_t written = (uint64_t)range->n * sizeof(float) *
                       (sl_model_kept_width(g->model, l) + sl_jumping_width(&g->model->jumping));
    uint64_t read = sl_resident_has(&g->model->resident, io->x, io->x_tag) ? 0 : edges * row;
    const uint64_t an_edge =
        sl_dtype_bytes(ds->indices_dtype) + (ds->present ? sizeof *ds->present : 0) +
        sl_relation_feature_bytes(&ds->typed.plain) / SL_MAX(ds->n_edges, (uint64_t)1);
    const uint64_t own = (input.n - 1) * range->n * row;
    return SL_MIN(read + own, all) + edges * an_edge + written;
}

// ---- which rows ---------------------------------------------------------------------------------

static int list_marked(const struct sl_marks *m, struct rows *out)
{
    out->ids = malloc(SL_MAX(m->n, (uint64_t)1) * sizeof *out->ids);
    if (!out->ids)
        return sl_fail(SL_ENOMEM, "no memory for a list of %llu vertices",
                       (unsigned long long)m->n);
    out->n = sl_marks_list(m, 0, m->n_nodes, out->ids);
    return SL_OK;
}

// From the rows that are asked for down to the features, while they are few.
static int find_needed_rows(struct walk *w)
{
    const struct sl_whole_graph *g = w->g;
    const uint64_t limit = g->dataset->n_nodes / FRONTIER_DIVISOR;
    struct sl_marks m;
    // Random walks go further than a vertex's neighbours.
    if (!g->ids || g->n > limit || g->model->neighbours)
        return SL_OK;
    SL_TRY(sl_marks_init(&m, g->dataset->n_nodes));
    int rc = SL_OK;
    const uint32_t *ids = g->ids;
    uint64_t n = g->n;
    for (uint32_t l = g->layer; l-- > 0;) {
        sl_marks_add(&m, g->dataset, ids, n, limit);
        if (m.n > limit)
            break;
        rc = list_marked(&m, &w->rows[l]);
        if (rc < 0)
            break;
        ids = w->rows[l].ids;
        n = w->rows[l].n;
    }
    sl_marks_free(&m);
    return rc;
}

// ---- layers -------------------------------------------------------------------------------------

/*
 * Whole pieces, so that these are the same however large a chunk is: products of a few rows may
 * round in another way than those of many.
 */
static struct sl_infer_range next_chunk(const struct sl_whole_graph *g, uint32_t l,
                                        const uint32_t *ids, uint64_t at, uint64_t n)
{
    const struct sl_layer *layer = &g->model->layer[l];
    const struct sl_layer_input input = sl_layer_input(layer);
    const uint64_t most = (uint64_t)g->chunk_rows + SL_INFER_PIECE_ROWS;
    struct sl_infer_range range = {
        .ids = ids ? ids + at : NULL, .first = ids ? 0 : at, .n = (uint32_t)SL_MIN(n - at, most)};
    const struct sl_cutter cutter = {
        .env = &g->model->env,
        .dataset = g->dataset,
        .neighbours = g->model->neighbours,
        .range = &range,
        .layer = l,
        .d_in = input.width,
        .gathers = l == 0 && (g->model->features || sl_model_joins(g->model)),
        .self_edge = layer->kind->self_edge && layer->kind->self_edge(layer),
        .edge_floats = sl_model_edge_floats(g->model, l)};
    // A single piece where memory is short.
    const uint32_t wanted = g->memory_bytes ? 1 : g->chunk_rows;
    uint32_t rows = 0;
    uint64_t edges;
    while (rows < wanted && rows < range.n)
        rows += sl_cutter_rows(&cutter, rows, &edges);
    range.n = rows;
    return range;
}

static int run_layer(struct walk *w, uint32_t l, const uint32_t *ids, uint64_t n, float *out)
{
    struct sl_whole_graph *g = w->g;
    const bool wanted = l == g->layer;
    const struct sl_activation_file *to = &w->bank[l & 1];
    enum sl_dtype dtype = SL_DTYPE_F32;
    struct sl_infer_io io = {
        .x = l ? w->bank[(l - 1) & 1].data : sl_evaluate_input(g->model, g->dataset, &dtype),
        .x_tag = l,
        .x_partial = l && w->rows[l - 1].ids,
        .jumping = w->jumping.data,
        .y = wanted ? NULL : to->data,
        .rows = out,
        .hidden = wanted && g->hidden,
    };
    io.x_dtype = dtype;
    SL_TRY(tell(w, l, 0, n));
    for (uint64_t at = 0; at < n;) {
        const struct sl_infer_range range = next_chunk(g, l, ids, at, n);
        if (!wanted) {
            const struct sl_layer_input left = sl_layer_input(&g->model->layer[l + 1]);
            for (uint32_t k = 0; k < left.n; k++)
                SL_TRY(sl_activation_file_reserve(to, left.width, k * g->dataset->n_nodes, &range));
            SL_TRY(sl_activation_file_reserve(&w->jumping, sl_jumping_width(&g->model->jumping), 0,
                                              &range));
        }
        bound_memory(w, touched_by(w, l, &range, &io));
        SL_TRY(sl_evaluate_layer(g->model, g->dataset, g->params, l, &range, &io));
        if (wanted)
            SL_TRY(g->on_rows(g->ctx, at, range.n, out));
        at += range.n;
        g->computed += range.n;
        SL_TRY(tell(w, l, at, n));
    }
    return SL_OK;
}

static int open_banks(struct walk *w)
{
    struct sl_whole_graph *g = w->g;
    const bool bounded = g->memory_bytes > 0;
    const uint64_t n = g->dataset->n_nodes;
    uint32_t width[2] = {0, 0}, jumping = sl_jumping_width(&g->model->jumping);
    for (uint32_t l = 0; l < g->layer; l++)
        width[l & 1] = SL_MAX(width[l & 1], sl_model_kept_width(g->model, l));
    for (int b = 0; b < 2; b++)
        if (width[b])
            SL_TRY(sl_activation_file_open(&w->bank[b], g->scratch, bounded, n, width[b]));
    return jumping ? sl_activation_file_open(&w->jumping, g->scratch, bounded, n, jumping) : SL_OK;
}

static int run_layers(struct walk *w)
{
    struct sl_whole_graph *g = w->g;
    SL_TRY(find_needed_rows(w));
    SL_TRY(open_banks(w));
    for (uint32_t l = 0; l < g->layer; l++) {
        const struct rows *rows = &w->rows[l];
        SL_TRY(run_layer(w, l, rows->ids, rows->ids ? rows->n : g->dataset->n_nodes, NULL));
    }
    uint64_t rows = SL_MIN(g->n, (uint64_t)g->chunk_rows + SL_INFER_PIECE_ROWS);
    float *out = malloc(SL_MAX(rows, (uint64_t)1) * sl_whole_graph_width(g) * sizeof *out);
    if (!out)
        return sl_fail(SL_ENOMEM, "no memory for a chunk of %llu rows", (unsigned long long)rows);
    int rc = run_layer(w, g->layer, g->ids, g->n, out);
    free(out);
    return rc;
}

int sl_whole_graph_run(struct sl_whole_graph *g)
{
    struct walk w = {.g = g, .bank = {{.fd = -1}, {.fd = -1}}, .jumping = {.fd = -1}};
    struct sl_resident *resident = &g->model->resident;
    g->computed = 0;
    resident->watch = (struct sl_resident_watch){
        .before = before_copy, .ctx = &w, .bounded = g->memory_bytes > 0};
    int rc = run_layers(&w);
    sl_resident_release(resident); // it may be of a bank
    resident->watch = (struct sl_resident_watch){0};
    for (uint32_t l = 0; l < SL_CONFIG_MAX_LAYERS; l++)
        free(w.rows[l].ids);
    sl_activation_file_close(&w.bank[0]);
    sl_activation_file_close(&w.bank[1]);
    sl_activation_file_close(&w.jumping);
    return rc;
}
