#include "trainer/evaluate.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/board.h"

// One layer over one range.
struct run {
    struct sl_model *model;
    const struct sl_dataset *ds;
    const float *params;
    const struct sl_layer *layer;
    const struct sl_infer_range *range;
    const struct sl_infer_io *io;
    struct sl_cutter cutter;
    bool last;
};

static void copy_rows_from(const float *bank, uint32_t width, const struct sl_infer_piece *piece,
                           float *rows)
{
    for (uint64_t i = 0; i < piece->csr.n_dst; i++)
        memcpy(rows + i * width, bank + (uint64_t)piece->ids[i] * width, width * sizeof *rows);
}

static void copy_rows_to(float *bank, uint32_t width, const struct sl_infer_piece *piece,
                         const float *rows)
{
    for (uint64_t i = 0; i < piece->csr.n_dst; i++)
        memcpy(bank + (uint64_t)piece->ids[i] * width, rows + i * width, width * sizeof *rows);
}

// What jumping knowledge takes of a layer that is not the last.
static int gather_jumping(const struct run *r, uint32_t at, const struct sl_infer_piece *piece)
{
    const struct sl_jumping *jumping = &r->model->jumping;
    const uint32_t width = sl_jumping_width(jumping), rows = piece->csr.n_dst;
    if (width == 0 || r->last || r->io->hidden)
        return SL_OK;
    const bool in_place = !r->range->ids;
    float *bank = in_place ? r->io->jumping + (r->range->first + at) * width
                           : sl_layer_floats(&r->model->env, (uint64_t)rows * width);
    if (!bank)
        return SL_ENOMEM;
    if (!in_place)
        copy_rows_from(r->io->jumping, width, piece, bank);
    SL_TRY(sl_jumping_gather(&r->model->env, jumping, r->params, r->layer->index, piece->y, rows,
                             bank));
    if (!in_place)
        copy_rows_to(r->io->jumping, width, piece, bank);
    return SL_OK;
}

// lin(J(...)) of the last layer of a model with jumping knowledge. (rows, n_outputs)
static int finish_jumping(const struct run *r, const struct sl_infer_piece *piece, float **outputs)
{
    const struct sl_layer_env *env = &r->model->env;
    const uint32_t width = sl_jumping_width(&r->model->jumping), rows = piece->csr.n_dst;
    float *bank = sl_layer_floats(env, (uint64_t)rows * width);
    *outputs = sl_layer_floats(env, (uint64_t)rows * r->model->n_outputs);
    if (!bank || !*outputs)
        return SL_ENOMEM;
    if (width > 0)
        copy_rows_from(r->io->jumping, width, piece, bank);
    return sl_jumping_finish(env, &r->model->jumping, r->params, piece->y, rows, bank, *outputs);
}

// Loss and predictions of the last layer's outputs.
static int judge(const struct run *r, uint32_t at, const struct sl_infer_piece *piece,
                 const float *outputs)
{
    struct sl_model *model = r->model;
    const uint32_t rows = piece->csr.n_dst;
    if (r->io->predictions)
        sl_objective_predict(model->objective, outputs, rows,
                             r->io->predictions + (uint64_t)at * sl_dataset_predict_words(r->ds));
    if (!r->io->result)
        return SL_OK;
    struct sl_loss_result part;
    SL_TRY(sl_objective_loss_of(model->objective, model->env.kernels, r->ds, piece->ids, rows,
                                outputs, &model->pool, &part));
    r->io->result->loss += part.loss;
    r->io->result->weight += part.weight;
    r->io->result->correct += part.correct;
    r->io->result->counted += part.counted;
    return SL_OK;
}

static int one_piece(const struct run *r, uint32_t at, uint32_t rows, uint32_t n_edges)
{
    struct sl_model *model = r->model;
    const struct sl_layer *layer = r->layer;
    const struct sl_infer_io *io = r->io;
    sl_mempool_reset(&model->pool);
    struct sl_infer_piece piece = {.x_dtype = io->x_dtype, .x = io->x};
    SL_TRY(sl_cutter_piece(&r->cutter, at, rows, n_edges, &piece));
    const bool jumps = r->last && !io->hidden && model->jumping.kind != SL_JUMPING_NONE;
    const uint32_t width = jumps ? model->n_outputs : layer->d_out;
    // A run of vertices is computed where it belongs, a list first in pool memory.
    const bool in_place = io->y && !r->range->ids && !jumps;
    float *result = piece.y = in_place
                                  ? io->y + (r->range->first + at) * width
                                  : sl_layer_floats(&model->env, (uint64_t)rows * layer->d_out);
    if (!piece.y)
        return SL_ENOMEM;
    SL_TRY(layer->kind->infer(&model->env, layer, r->params, &piece));
    SL_TRY(sl_surround_infer(&model->env, &model->around[layer->index], layer, r->params, piece.y,
                             rows));
    SL_TRY(gather_jumping(r, at, &piece));
    if (jumps)
        SL_TRY(finish_jumping(r, &piece, &result));
    if (io->y && !in_place)
        copy_rows_to(io->y, width, &piece, result);
    if (io->rows)
        memcpy(io->rows + (uint64_t)at * width, result, (uint64_t)rows * width * sizeof *result);
    return r->last && !io->hidden ? judge(r, at, &piece, result) : SL_OK;
}

int sl_evaluate_layer(struct sl_model *model, const struct sl_dataset *ds, const float *params,
                      uint32_t layer, const struct sl_infer_range *range,
                      const struct sl_infer_io *io)
{
    const struct sl_layer *which = &model->layer[layer];
    const struct run run = {
        .model = model,
        .ds = ds,
        .params = params,
        .layer = which,
        .range = range,
        .io = io,
        .last = layer + 1 == model->n_layers,
        .cutter = {.env = &model->env,
                   .dataset = ds,
                   .self_loops = model->self_loops,
                   .neighbours = model->neighbours,
                   .range = range,
                   .layer = layer,
                   .self_edge = which->kind->self_edge && which->kind->self_edge(which)},
    };
    for (uint32_t at = 0; at < range->n;) {
        if (model->arena && sl_arena_aborted(model->arena))
            return sl_fail(SL_EABORTED, "the job stops");
        uint64_t n_edges;
        uint32_t rows = sl_cutter_rows(&run.cutter, at, &n_edges);
        if (n_edges > UINT32_MAX)
            return sl_fail(
                SL_EUNSUPPORTED, "inference: vertex %llu has %llu in-edges, wanted less than 2^32",
                (unsigned long long)sl_infer_vertex(range, at), (unsigned long long)n_edges);
        SL_TRY(one_piece(&run, at, rows, (uint32_t)n_edges));
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
    if (spec->layer >= model->n_layers || !spec->last_layer != (spec->layer + 1 < model->n_layers))
        return sl_fail(SL_EPROTO, "a phase of inference over layer %u%s of a model with %u",
                       spec->layer, spec->last_layer ? ", the last," : "", model->n_layers);
    const struct sl_arena_spec *room = &a->h->spec;
    uint32_t width = SL_MAX(spec->layer > 0 ? model->layer[spec->layer].d_in : 0,
                            spec->last_layer ? 0 : model->layer[spec->layer].d_out);
    if (width && (room->act_width < width || room->act_rows < ds->n_nodes))
        return sl_fail(SL_EPROTO,
                       "the arena has room for %llu activations of width %u, wanted %llu of %u",
                       (unsigned long long)room->act_rows, room->act_width,
                       (unsigned long long)ds->n_nodes, width);
    uint32_t jumping = sl_jumping_width(&model->jumping);
    if (jumping && (room->jumping_width != jumping || room->act_rows < ds->n_nodes))
        return sl_fail(SL_EPROTO,
                       "the arena has room for %llu vertices' %u floats of jumping knowledge, "
                       "wanted %llu of %u",
                       (unsigned long long)room->act_rows, room->jumping_width,
                       (unsigned long long)ds->n_nodes, jumping);
    return SL_OK;
}

// Where the predictions of a cell of the last layer go; NULL in *out where nobody reads them.
static int predictions_of(const struct sl_arena *a, const struct sl_dataset *ds,
                          const struct sl_phase_spec *spec, const struct sl_infer_range *range,
                          uint32_t **out)
{
    *out = NULL;
    if (!spec->last_layer || spec->set == SL_SET_ALL)
        return SL_OK;
    const struct sl_arena_spec *room = &a->h->spec;
    uint32_t words = sl_dataset_predict_words(ds);
    if (room->predict_words != words || range->first + range->n > room->predict_rows)
        return sl_fail(SL_EPROTO,
                       "the arena has room for %llu predictions of %u words, wanted %llu of %u",
                       (unsigned long long)room->predict_rows, room->predict_words,
                       (unsigned long long)(range->first + range->n), words);
    *out = (uint32_t *)sl_arena_predictions(a) + range->first * words;
    return SL_OK;
}

int sl_evaluate_infer(struct sl_model *model, const struct sl_dataset *ds, struct sl_arena *a,
                      const struct sl_lease *lease, struct sl_loss_result *result, uint64_t *edges)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    struct sl_infer_range range;
    memset(result, 0, sizeof *result);
    SL_TRY(check_phase(model, a, ds, spec));
    SL_TRY(range_of(ds, lease, &range));
    *edges = 0;
    for (uint32_t i = 0; i < range.n; i++)
        *edges += sl_dataset_degree(ds, sl_infer_vertex(&range, i));
    struct sl_infer_io io = {
        .x_dtype = spec->layer ? SL_DTYPE_F32 : ds->feat_dtype,
        .x = spec->layer ? (const void *)sl_arena_acts(a, spec->layer - 1) : ds->feat,
        .y = spec->last_layer ? NULL : sl_arena_acts(a, spec->layer),
        .jumping = sl_jumping_width(&model->jumping) ? sl_arena_jumping(a) : NULL,
        .result = spec->last_layer ? result : NULL,
    };
    SL_TRY(predictions_of(a, ds, spec, &range, &io.predictions));
    return sl_evaluate_layer(model, ds, sl_evaluate_params(a, spec), spec->layer, &range, &io);
}
