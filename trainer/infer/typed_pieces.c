#include "trainer/infer/typed_pieces.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "trainer/feed/typed_block.h"

enum { COPY_ALIGN = 256 }; // of rows behind a block

static const struct sl_dataset *dataset_of(const struct sl_typed_pieces *p)
{
    return p->vicinity.dataset;
}

static const struct sl_typed *types_of(const struct sl_typed_pieces *p)
{
    return &dataset_of(p)->typed;
}

int sl_typed_pieces_init(struct sl_typed_pieces *p, struct sl_model *model,
                         const struct sl_dataset *ds)
{
    *p = (struct sl_typed_pieces){
        .model = model, .features = {.dataset = ds}, .most_floats = SL_INFER_PIECE_FLOATS};
    return sl_vicinity_init(&p->vicinity, ds);
}

void sl_typed_pieces_fini(struct sl_typed_pieces *p)
{
    sl_vicinity_fini(&p->vicinity);
    sl_row_source_fini(&p->features);
    sl_buffer_fini(&p->x);
    sl_buffer_fini(&p->order);
    sl_buffer_fini(&p->block);
    sl_buffer_fini(&p->there);
    sl_buffer_fini(&p->result);
}

void sl_typed_pieces_walk(struct sl_typed_pieces *p, const struct sl_dataset *graph)
{
    p->vicinity.dataset = graph;
}

// ---- edges --------------------------------------------------------------------------------------

// With rows of what layer l reads for each of them.
uint64_t sl_typed_pieces_most(const struct sl_typed_pieces *p, uint32_t l)
{
    uint32_t width = p->model->typed->hidden;
    for (uint32_t t = 0; l == 0 && t < types_of(p)->n_types; t++)
        width = SL_MAX(width, p->model->typed->d_feat[t]); // learned ones, too
    uint32_t of_edges = 0;                                 // beside it
    for (uint32_t r = 0; r < types_of(p)->n_relations; r++)
        of_edges = SL_MAX(of_edges, types_of(p)->relation[r].feat_dim);
    return SL_MIN((uint64_t)SL_INFER_PIECE_EDGES, p->most_floats / ((uint64_t)width + of_edges));
}

// Edges of its row in layer l, at most.
static uint64_t degree_of(const struct sl_typed_pieces *p, uint32_t l, uint32_t type, uint64_t v)
{
    const struct sl_incoming *in = &p->model->typed->incoming;
    uint64_t edges = 0;
    for (uint32_t i = in->first[type]; i < in->first[type + 1]; i++) {
        const struct sl_relation *r = &types_of(p)->relation[in->relation[i]];
        edges += p->model->neighbours
                     ? sl_neighbours_bound(p->model->neighbours, l, in->relation[i])
                     : sl_dataset_degree(dataset_of(p), sl_relation_row(types_of(p), r, v));
    }
    return edges;
}

// Whether layer l has to give rows to vertices of the type.
static bool is_needed(const struct sl_typed_pieces *p, uint32_t l, uint32_t type)
{
    return p->model->typed->hops[type] < p->model->n_layers - l;
}

uint64_t sl_typed_pieces_edges(const struct sl_typed_pieces *p, uint32_t l, uint64_t v)
{
    const uint32_t type = sl_typed_type_of(types_of(p), v);
    return is_needed(p, l, type) ? degree_of(p, l, type, v) : 0;
}

static void cut(const struct sl_typed_pieces *p, uint32_t l, uint32_t type,
                struct sl_infer_range *range)
{
    const uint64_t most = sl_typed_pieces_most(p, l);
    const uint32_t limit = SL_MIN(range->n, (uint32_t)SL_INFER_PIECE_ROWS);
    uint64_t edges = 0;
    uint32_t n = 0;
    while (n < limit) {
        edges += 1 + degree_of(p, l, type, sl_infer_vertex(range, n));
        if (n > 0 && edges > most)
            break;
        n++;
    }
    range->n = n;
}

// ---- rows ---------------------------------------------------------------------------------------

// Where the rows of vertices end that layer l reads for the block in hand.
static uint64_t vertices_end(const struct sl_typed_pieces *p, uint32_t l)
{
    const struct sl_block *block = p->vicinity.block;
    return l == 0 ? sl_typed_rows_at(block, types_of(p), types_of(p)->n_types, SL_TYPED_F32)
                  : sl_typed_activations_end(block, p->model->typed->hidden);
}

// With the features of edges, which are behind them.
static uint64_t input_bytes(const struct sl_typed_pieces *p, uint32_t l)
{
    return sl_typed_edge_rows(p->vicinity.block, types_of(p), vertices_end(p, l), NULL);
}

// Room for them, and the features of edges.
static int take_edges(struct sl_typed_pieces *p, uint32_t l, const char *what)
{
    SL_TRY(sl_buffer_grow(&p->x, p->model->env.device, SL_BUFFER_HOST, input_bytes(p, l), what));
    return sl_rows_copy_edges(&p->features, sl_kernels_cpu(), p->vicinity.block, vertices_end(p, l),
                              p->x.p);
}

int sl_typed_pieces_features(struct sl_typed_pieces *p)
{
    SL_TRY(take_edges(p, 0, "features"));
    return sl_rows_copy_typed(&p->features, sl_kernels_cpu(), p->vicinity.block, false, p->x.p);
}

static int take_activations(struct sl_typed_pieces *p, const float *below)
{
    const struct sl_block *block = p->vicinity.block;
    const uint32_t n = block->n_input, width = p->model->typed->hidden;
    SL_TRY(take_edges(p, 1, "activations"));
    return sl_kernels_cpu()->gather_rows(below, SL_DTYPE_F32, dataset_of(p)->n_nodes, width,
                                         sl_block_nodes(block), n, p->x.p);
}

int sl_typed_pieces_bring(struct sl_typed_pieces *p, uint32_t l, struct sl_block_view *block,
                          float **x)
{
    const struct sl_device *device = p->model->env.device;
    const struct sl_block *header = p->vicinity.block;
    const uint64_t bytes = input_bytes(p, l);
    const uint64_t behind = sl_align_up(header->bytes, COPY_ALIGN);
    *block = sl_block_here(header);
    *x = p->x.p;
    if (device->is_host)
        return SL_OK;
    SL_TRY(sl_buffer_grow(&p->block, device, SL_BUFFER_HOST, header->bytes, "a piece's edges"));
    SL_TRY(sl_buffer_grow(&p->there, device, SL_BUFFER_DEVICE, behind + bytes, "a piece"));
    memcpy(p->block.p, header, header->bytes);
    *block = (struct sl_block_view){.header = header, .base = p->there.p};
    *x = (float *)(void *)((char *)p->there.p + behind);
    SL_TRY(device->copy(p->there.p, p->block.p, header->bytes));
    return device->copy(*x, p->x.p, bytes);
}

int sl_typed_pieces_take_back(struct sl_typed_pieces *p, uint32_t width, const float **rows)
{
    const struct sl_device *device = p->model->env.device;
    const uint64_t bytes = (uint64_t)p->vicinity.block->n_seeds * width * sizeof **rows;
    if (device->is_host)
        return SL_OK;
    SL_TRY(sl_buffer_grow(&p->result, device, SL_BUFFER_HOST, bytes, "a piece's result"));
    SL_TRY(device->copy(p->result.p, *rows, bytes));
    *rows = p->result.p;
    return device->sync(); // what was brought is free again, too
}

int sl_typed_pieces_order(struct sl_typed_pieces *p, const float *rows, uint32_t n, uint32_t width,
                          const float **ordered)
{
    const size_t row = width * sizeof *rows;
    *ordered = rows;
    if (p->vicinity.block->n_seeds == n) // none twice: they are in this order
        return SL_OK;
    SL_TRY(sl_buffer_grow(&p->order, p->model->env.device, SL_BUFFER_HOST, n * row, "a piece"));
    for (uint32_t i = 0; i < n; i++)
        memcpy((char *)p->order.p + i * row, rows + (uint64_t)p->vicinity.place[i] * width, row);
    *ordered = p->order.p;
    return SL_OK;
}

int sl_typed_pieces_next(struct sl_typed_pieces *p, const float *params, uint32_t l, uint32_t type,
                         bool outputs, const float *below, struct sl_infer_range *range,
                         const float **rows)
{
    struct sl_model *model = p->model;
    const float *found;
    if (model->pulse && sl_heartbeat_stopping(model->pulse))
        return sl_fail(SL_EABORTED, "the job stops");
    cut(p, l, type, range);
    p->vicinity.neighbours = model->neighbours;
    p->vicinity.layer = l;
    const int rc = sl_vicinity_find(&p->vicinity, type, range, 1, UINT32_MAX);
    if (rc == SL_ERANGE)
        return sl_fail(
            SL_EUNSUPPORTED,
            "inference: vertex %llu of type '%s' has 2^32 in-edges or more, wanted less",
            (unsigned long long)(sl_infer_vertex(range, 0) - types_of(p)->type[type].first),
            types_of(p)->type[type].name);
    SL_TRY(rc);
    SL_TRY(l == 0 ? sl_typed_pieces_features(p) : take_activations(p, below));
    const uint32_t width = outputs ? model->n_outputs : model->typed->hidden;
    struct sl_block_view block;
    float *x;
    SL_TRY(sl_typed_pieces_bring(p, l, &block, &x));
    SL_TRY(sl_model_layer(model, params, block, l, x, type, outputs, &found));
    SL_TRY(sl_typed_pieces_take_back(p, width, &found));
    return sl_typed_pieces_order(p, found, range->n, width, rows);
}

// ---- a cell of a job ----------------------------------------------------------------------------

// Entries `at` to at + n - 1 of the range.
static struct sl_infer_range part_of(const struct sl_infer_range *range, uint32_t at, uint32_t n)
{
    return (struct sl_infer_range){.ids = range->ids ? range->ids + at : NULL,
                                   .first = range->ids ? 0 : range->first + at,
                                   .n = n};
}

// From entry `at` on as long as vertices are of the type.
static struct sl_infer_range of_type(const struct sl_typed_pieces *p,
                                     const struct sl_infer_range *range, uint32_t at, uint32_t type)
{
    const struct sl_vertex_type *t = &types_of(p)->type[type];
    uint32_t n = 1;
    while (at + n < range->n && sl_infer_vertex(range, at + n) - t->first < t->n)
        n++;
    return part_of(range, at, n);
}

// Loss and predictions of outputs (piece->n), which begin at entry `at` of the cell.
static int judge(const struct sl_typed_pieces *p, const struct sl_infer_range *piece, uint32_t at,
                 const float *outputs, const struct sl_infer_io *io)
{
    const struct sl_model *model = p->model;
    const uint64_t n = (uint64_t)piece->n * model->n_outputs;
    const float *there = outputs;
    struct sl_loss_result part;
    if (io->predictions)
        sl_objective_predict(model->objective, outputs, piece->n,
                             io->predictions +
                                 (uint64_t)at * sl_dataset_predict_words(dataset_of(p)));
    if (!io->result)
        return SL_OK;
    if (!model->env.device->is_host) {
        float *copy = sl_layer_floats(&model->env, n);
        if (!copy)
            return SL_ENOMEM;
        SL_TRY(model->env.device->copy(copy, outputs, n * sizeof *copy));
        there = copy;
    }
    SL_TRY(sl_objective_loss_of(model->objective, &model->env, dataset_of(p), piece->ids, piece->n,
                                there, &part));
    sl_loss_add(io->result, &part);
    return SL_OK;
}

static int put_rows(const struct sl_typed_pieces *p, const struct sl_infer_range *piece,
                    const float *rows, uint32_t width, float *bank)
{
    if (piece->ids)
        return sl_kernels_cpu()->scatter_rows(rows, width, piece->ids, piece->n,
                                              dataset_of(p)->n_nodes, bank);
    memcpy(bank + piece->first * width, rows, (size_t)piece->n * width * sizeof *rows);
    return SL_OK;
}

int sl_typed_pieces_layer(struct sl_typed_pieces *p, const float *params, uint32_t layer,
                          const struct sl_infer_range *range, const struct sl_infer_io *io)
{
    const bool last = layer + 1 == p->model->n_layers;
    const uint32_t width = last ? p->model->n_outputs : p->model->typed->hidden;
    for (uint32_t at = 0, n; at < range->n; at += n) {
        const uint32_t type = sl_typed_type_of(types_of(p), sl_infer_vertex(range, at));
        struct sl_infer_range piece = of_type(p, range, at, type);
        const float *rows;
        n = piece.n;
        if (!is_needed(p, layer, type))
            continue;
        SL_TRY(sl_typed_pieces_next(p, params, layer, type, last, io->x, &piece, &rows));
        n = piece.n;
        if (io->y)
            SL_TRY(put_rows(p, &piece, rows, width, io->y));
        if (io->rows)
            memcpy(io->rows + (uint64_t)at * width, rows, (size_t)piece.n * width * sizeof *rows);
        if (last)
            SL_TRY(judge(p, &piece, at, rows, io));
        if (at == 0)
            SL_FAILPOINT(TRAINER_INFER);
    }
    sl_buffer_fini(&p->there); // a GPU's memory is for batches again
    return SL_OK;
}
