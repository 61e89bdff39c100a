#include "trainer/evaluate.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/board.h"

static uint64_t vertex(const struct sl_infer_range *range, uint32_t i)
{
    return range->ids ? range->ids[i] : range->first + i;
}

// Rows from `at` on that make up one piece: at least one.
static uint32_t piece_rows(const struct sl_dataset *ds, const struct sl_infer_range *range,
                           uint32_t at, uint64_t *n_edges, uint32_t extra)
{
    uint64_t edges = 0;
    uint32_t rows = 0;
    while (at + rows < range->n && rows < SL_INFER_PIECE_ROWS) {
        uint64_t more = sl_dataset_degree(ds, vertex(range, at + rows)) + extra;
        if (rows > 0 && edges + more > SL_INFER_PIECE_EDGES)
            break;
        edges += more;
        rows++;
    }
    *n_edges = edges;
    return rows;
}

static void copy_neighbours(const struct sl_dataset *ds, uint64_t first, uint64_t n, uint32_t *out)
{
    if (sl_dtype_bytes(ds->indices_dtype) == sizeof *out) {
        memcpy(out, (const uint32_t *)ds->indices + first, n * sizeof *out);
        return;
    }
    const uint64_t *wide = (const uint64_t *)ds->indices + first;
    for (uint64_t e = 0; e < n; e++)
        out[e] = (uint32_t)wide[e]; // checked to be below n_nodes when the data set was opened
}

// Rows [at, at + rows) of the range as a CSR in pool memory.
static int build_piece(struct sl_model *model, const struct sl_dataset *ds,
                       const struct sl_infer_range *range, uint32_t at, uint32_t rows,
                       uint32_t n_edges, bool self_edge, struct sl_infer_piece *out)
{
    uint32_t *ids = sl_layer_words(&model->env, rows);
    uint32_t *indptr = sl_layer_words(&model->env, (uint64_t)rows + 1);
    uint32_t *indices = sl_layer_words(&model->env, n_edges);
    if (!ids || !indptr || !indices)
        return SL_ENOMEM;
    uint32_t e = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t v = vertex(range, at + i);
        uint64_t degree = sl_dataset_degree(ds, v);
        ids[i] = (uint32_t)v;
        indptr[i] = e;
        copy_neighbours(ds, ds->indptr[v], degree, indices + e);
        e += (uint32_t)degree;
        if (self_edge)
            indices[e++] = (uint32_t)v;
    }
    indptr[rows] = e;
    out->csr = (struct sl_csr_view){
        .n_dst = rows, .n_src = (uint32_t)ds->n_nodes, .indptr = indptr, .indices = indices};
    out->ids = ids;
    out->indptr = ds->indptr;
    return SL_OK;
}

static int count(struct sl_model *model, const struct sl_dataset *ds,
                 const struct sl_infer_piece *piece, uint32_t classes,
                 struct sl_model_result *result)
{
    uint32_t rows = piece->csr.n_dst;
    int32_t *labels = (int32_t *)(void *)sl_layer_words(&model->env, rows);
    if (!labels)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < rows; i++)
        labels[i] = ds->label[piece->ids[i]];
    struct sl_model_result part;
    SL_TRY(model->env.kernels->softmax_xent(piece->y, labels, rows, classes, NULL, &part.loss,
                                            &part.correct, &part.counted));
    result->loss += part.loss;
    result->correct += part.correct;
    result->counted += part.counted;
    return SL_OK;
}

static int one_piece(struct sl_model *model, const struct sl_dataset *ds, const float *params,
                     const struct sl_layer *layer, const struct sl_infer_range *range, uint32_t at,
                     uint32_t rows, uint32_t n_edges, const struct sl_infer_io *io)
{
    sl_mempool_reset(&model->pool);
    struct sl_infer_piece piece = {.x_dtype = io->x_dtype, .x = io->x};
    SL_TRY(build_piece(model, ds, range, at, rows, n_edges, layer->kind->self_edge, &piece));
    // A run of vertices is computed where it belongs, a list first in pool memory.
    bool in_place = io->y && !range->ids;
    piece.y = in_place ? io->y + (range->first + at) * layer->d_out
                       : sl_layer_floats(&model->env, (uint64_t)rows * layer->d_out);
    if (!piece.y)
        return SL_ENOMEM;
    SL_TRY(layer->kind->infer(&model->env, layer, params, &piece));
    if (io->y && !in_place)
        for (uint32_t i = 0; i < rows; i++)
            memcpy(io->y + (uint64_t)piece.ids[i] * layer->d_out,
                   piece.y + (uint64_t)i * layer->d_out, layer->d_out * sizeof *piece.y);
    if (io->result)
        SL_TRY(count(model, ds, &piece, layer->d_out, io->result));
    return SL_OK;
}

int sl_evaluate_layer(struct sl_model *model, const struct sl_dataset *ds, const float *params,
                      uint32_t layer, const struct sl_infer_range *range,
                      const struct sl_infer_io *io)
{
    const struct sl_layer *which = &model->layer[layer];
    for (uint32_t at = 0; at < range->n;) {
        if (model->arena && sl_arena_aborted(model->arena))
            return sl_fail(SL_EABORTED, "the job stops");
        uint64_t n_edges;
        uint32_t rows = piece_rows(ds, range, at, &n_edges, which->kind->self_edge);
        if (n_edges > UINT32_MAX)
            return sl_fail(SL_EUNSUPPORTED,
                           "inference: vertex %llu has %llu in-edges, wanted less than 2^32",
                           (unsigned long long)vertex(range, at), (unsigned long long)n_edges);
        SL_TRY(one_piece(model, ds, params, which, range, at, rows, (uint32_t)n_edges, io));
        if (at == 0)
            SL_FAILPOINT(TRAINER_INFER);
        at += rows;
    }
    return SL_OK;
}

const float *sl_evaluate_params(const struct sl_arena *a, const struct sl_phase_spec *spec)
{
    return spec->params == SL_PARAMS_BEST ? sl_board_best(a)
                                          : sl_board_params(a, sl_board_version(a));
}

// The vertices that a cell stands for.
static int range_of(const struct sl_dataset *ds, const struct sl_lease *lease,
                    struct sl_infer_range *out)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    *out = (struct sl_infer_range){0};
    out->first = sl_phase_range(lease->phase, lease->cell, &out->n);
    uint64_t limit = ds->n_nodes;
    if (spec->set == SL_SET_VAL || spec->set == SL_SET_TEST) {
        const struct sl_vertex_list *list =
            &ds->split[spec->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST];
        out->ids = list->ids + out->first;
        limit = list->n;
    } else if (spec->set != SL_SET_ALL) {
        return sl_fail(SL_EPROTO,
                       "a phase of inference over vertex set %u: wanted all vertices, "
                       "or the validation or test list",
                       spec->set);
    }
    if (out->first + out->n > limit)
        return sl_fail(SL_EPROTO,
                       "a phase of inference over vertices up to %llu: the data set has %llu",
                       (unsigned long long)(out->first + out->n), (unsigned long long)limit);
    return SL_OK;
}

// Refuses a phase that does not fit the model or the arena before anything is written.
static int check_phase(const struct sl_model *model, const struct sl_arena *a,
                       const struct sl_dataset *ds, const struct sl_phase_spec *spec)
{
    if (spec->layer >= model->n_layers)
        return sl_fail(SL_EPROTO, "a phase of inference over layer %u of a model with %u",
                       spec->layer, model->n_layers);
    uint32_t width = SL_MAX(spec->layer > 0 ? model->layer[spec->layer].d_in : 0,
                            spec->last_layer ? 0 : model->layer[spec->layer].d_out);
    if (width && (a->h->spec.act_width < width || a->h->spec.act_rows < ds->n_nodes))
        return sl_fail(SL_EPROTO,
                       "the arena has room for %llu activations of width %u, wanted %llu of %u",
                       (unsigned long long)a->h->spec.act_rows, a->h->spec.act_width,
                       (unsigned long long)ds->n_nodes, width);
    return SL_OK;
}

int sl_evaluate_infer(struct sl_model *model, const struct sl_dataset *ds, struct sl_arena *a,
                      const struct sl_lease *lease, struct sl_model_result *result, uint64_t *edges)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    struct sl_infer_range range;
    memset(result, 0, sizeof *result);
    SL_TRY(check_phase(model, a, ds, spec));
    SL_TRY(range_of(ds, lease, &range));
    *edges = 0;
    for (uint32_t i = 0; i < range.n; i++)
        *edges += sl_dataset_degree(ds, vertex(&range, i));
    struct sl_infer_io io = {
        .x_dtype = spec->layer ? SL_DTYPE_F32 : ds->feat_dtype,
        .x = spec->layer ? (const void *)sl_arena_acts(a, spec->layer - 1) : ds->feat,
        .y = spec->last_layer ? NULL : sl_arena_acts(a, spec->layer),
        .result = spec->last_layer ? result : NULL,
    };
    return sl_evaluate_layer(model, ds, sl_evaluate_params(a, spec), spec->layer, &range, &io);
}
