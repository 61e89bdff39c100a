#include "trainer/infer/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/failpoint.h"
#include "common/arena/arena.h"
#include "common/arena/param_store.h"
#include "common/arena/seat.h"
#include "trainer/feed/edge_rows.h"
#include "trainer/infer/score.h"
#include "trainer/infer/typed_pieces.h"

// Of all rows: where fewer are needed a GPU gathers what it reads before it copies everything.
enum { FEW_DIVISOR = 8 };

// One layer over one range.
struct run {
    struct sl_model *model;
    const struct sl_dataset *ds;
    const float *params;
    const struct sl_layer *layer;
    const struct sl_infer_range *range;
    const struct sl_infer_io *io;
    struct sl_layer_input input; // how x has its rows, and
    const struct sl_layer *next; // the layer that reads y, or NULL; what it reads:
    struct sl_layer_input left;
    struct sl_cutter cutter;
    bool last;
};

// ---- rows of the machine's memory ---------------------------------------------------------------

// A matrix of all vertices, of which a piece reads or writes its own rows.
struct bank {
    float *data; // (n_nodes, width)
    uint32_t width;
};

// One of the matrices of what a layer reads.
static struct bank bank_of(const struct run *r, const struct sl_layer_input *input, uint32_t which,
                           float *data)
{
    return (struct bank){data + which * r->ds->n_nodes * input->width, input->width};
}

static const struct sl_device *device_of(const struct run *r)
{
    return r->model->env.device;
}

// The piece's rows where they lie: only of a range, which is a run of them. NULL: not in one run.
static float *run_of(const struct run *r, uint32_t at, const struct bank *bank)
{
    return r->range->ids ? NULL : bank->data + (r->range->first + at) * bank->width;
}

// *rows: memory of the device for the piece's rows of the bank, or these themselves; with `read` it
// has what they hold.
static int take_rows(const struct run *r, uint32_t at, const struct sl_infer_piece *piece,
                     const struct bank *bank, bool read, float **rows)
{
    const struct sl_layer_env *env = &r->model->env;
    const uint32_t n = piece->lists.n_dst;
    const size_t row = bank->width * sizeof(float);
    const float *from = run_of(r, at, bank);
    *rows = run_of(r, at, bank);
    if (*rows && device_of(r)->is_host)
        return SL_OK;
    *rows = sl_layer_floats(env, (uint64_t)n * bank->width);
    if (!*rows)
        return SL_ENOMEM;
    if (!read)
        return SL_OK;
    if (!from) {
        float *list = device_of(r)->is_host ? *rows : sl_layer_note(env, n * row);
        if (!list)
            return SL_ENOMEM;
        SL_TRY(sl_kernels_cpu()->gather_rows(bank->data, SL_DTYPE_F32, r->ds->n_nodes, bank->width,
                                             piece->ids, n, list));
        from = list;
    }
    return from == *rows ? SL_OK : device_of(r)->copy(*rows, from, n * row);
}

// *host: rows (n, width) of the device where the processor may read them; once they are there.
static int download(const struct run *r, const float *rows, uint64_t n, uint32_t width,
                    const float **host)
{
    *host = rows;
    if (device_of(r)->is_host)
        return SL_OK;
    float *copy = sl_layer_note(&r->model->env, n * width * sizeof *copy);
    if (!copy)
        return SL_ENOMEM;
    *host = copy;
    SL_TRY(device_of(r)->copy(copy, rows, n * width * sizeof *copy));
    return device_of(r)->sync();
}

// The piece's rows of the bank become `rows`, which take_rows() gave.
static int leave_rows(const struct run *r, uint32_t at, const struct sl_infer_piece *piece,
                      const struct bank *bank, const float *rows)
{
    const uint32_t n = piece->lists.n_dst;
    const size_t row = bank->width * sizeof(float);
    float *to = run_of(r, at, bank);
    if (to)
        return to == rows ? SL_OK : device_of(r)->copy(to, rows, n * row);
    SL_TRY(download(r, rows, n, bank->width, &rows));
    return sl_kernels_cpu()->scatter_rows(rows, bank->width, piece->ids, n, r->ds->n_nodes,
                                          bank->data);
}

// ---- a piece ------------------------------------------------------------------------------------

static struct bank jumping_bank(const struct run *r)
{
    return (struct bank){.data = r->io->jumping, .width = sl_jumping_width(&r->model->jumping)};
}

// What jumping knowledge takes of a layer that is not the last.
static int gather_jumping(const struct run *r, uint32_t at, const struct sl_infer_piece *piece)
{
    const struct bank bank = jumping_bank(r);
    const uint32_t layer = r->layer->index;
    if (bank.width == 0 || r->last || r->io->hidden)
        return SL_OK;
    float *rows;
    // Also of layer 0, which finds anything there: sums of one half keep those of the other.
    SL_TRY(take_rows(r, at, piece, &bank, true, &rows));
    SL_TRY(sl_jumping_gather(&r->model->env, &r->model->jumping, r->params, layer, piece->y,
                             piece->lists.n_dst, rows));
    return leave_rows(r, at, piece, &bank, rows);
}

// lin(J(...)) of the last layer of a model with jumping knowledge. (rows, n_outputs)
static int finish_jumping(const struct run *r, uint32_t at, const struct sl_infer_piece *piece,
                          float **outputs)
{
    const struct sl_layer_env *env = &r->model->env;
    const struct bank bank = jumping_bank(r);
    const uint32_t rows = piece->lists.n_dst;
    float *gathered = NULL;
    *outputs = sl_layer_floats(env, (uint64_t)rows * r->model->n_outputs);
    if (!*outputs)
        return SL_ENOMEM;
    if (bank.width > 0)
        SL_TRY(take_rows(r, at, piece, &bank, true, &gathered));
    return sl_jumping_finish(env, &r->model->jumping, r->params, piece->y, rows, gathered,
                             *outputs);
}

// Loss and predictions of the last layer's outputs; `host` is the processor's copy of them.
static int judge(const struct run *r, uint32_t at, const struct sl_infer_piece *piece,
                 const float *outputs, const float *host)
{
    struct sl_model *model = r->model;
    const uint32_t rows = piece->lists.n_dst;
    if (r->io->predictions)
        sl_objective_predict(model->objective, host, rows,
                             r->io->predictions + (uint64_t)at * sl_dataset_predict_words(r->ds));
    if (!r->io->result)
        return SL_OK;
    struct sl_loss_result part;
    SL_TRY(sl_objective_loss_of(model->objective, &model->env, r->ds, piece->ids, rows, outputs,
                                &part));
    sl_loss_add(r->io->result, &part);
    return SL_OK;
}

// What is kept on CPU cores: other devices' products round with the number of rows beside a row.
static void offer_kept(const struct run *r, struct sl_infer_piece *piece)
{
    struct sl_model *model = r->model;
    if (!r->io->keep_tag || !model->kept.sharers || !device_of(r)->is_host)
        return;
    sl_source_row_cache_begin(&model->kept, r->io->keep_tag);
    piece->kept = piece->x_ids ? NULL : &model->kept; // they are made of rows of all vertices
    model->kept_sums.sharers = model->kept.sharers;
    // Those of another graph would be other sums, and take the place of these.
    if (r->layer->index == 0 && r->io->x == r->ds->feat && !model->learned.dim && !r->io->graph)
        piece->kept_sums = &model->kept_sums;
}

// The features of the piece's edges, where the device reads them.
static int place_edges(const struct run *r, struct sl_infer_piece *piece)
{
    struct sl_model *model = r->model;
    const struct sl_layer_env *env = &model->env;
    const struct sl_csr_view *l = &piece->lists;
    const struct sl_edge_lists lists = {l->n_dst, l->n_edges, l->indptr, piece->list_ids};
    const uint64_t n = (uint64_t)l->n_edges * model->options.edge_dim;
    if (!piece->list_ids)
        return SL_OK;
    float *rows =
        device_of(r)->is_host ? sl_layer_floats(env, n) : sl_layer_note(env, n * sizeof *rows);
    if (!rows)
        return SL_ENOMEM;
    model->edges.dataset = r->ds;
    SL_TRY(sl_edge_rows_copy(&model->edges, sl_kernels_cpu(), &lists, rows));
    return sl_layer_upload_floats(env, rows, n, &piece->edges);
}

// Of a layer whose products come first, those of the piece's own rows.
static int place_own(const struct run *r, uint32_t at, struct sl_infer_piece *piece)
{
    const struct bank bank = bank_of(r, &r->input, r->input.n - 1, (float *)r->io->x);
    float *rows;
    piece->multiplied = r->input.multiplied;
    if (r->input.n < 2)
        return SL_OK;
    SL_TRY(take_rows(r, at, piece, &bank, true, &rows));
    piece->own = rows;
    return SL_OK;
}

// The layer's output, with what surrounds it, at piece->y.
static int compute(const struct run *r, uint32_t at, struct sl_infer_piece *piece)
{
    struct sl_model *model = r->model;
    const struct sl_layer *layer = r->layer;
    const struct sl_layer_tail *around = &model->around[layer->index];
    const struct sl_dropout none = {0};
    const struct sl_resident_matrix x = {
        .dtype = r->io->x_dtype,
        .p = r->io->x,
        .n_rows = r->ds->n_nodes,
        .dim = r->input.width,
        .tag = r->io->x_tag,
        .partial = r->io->x_partial,
        .lasting = r->io->x == r->ds->feat,
        .source = layer->index ? NULL : model->features,
        .learned = layer->index == 0 && sl_model_joins(model) ? &model->learned : NULL};
    struct sl_layer_epilogue after =
        sl_layer_tail_offer(around, sl_layer_bias(layer, r->params), false, &none);
    SL_TRY(sl_resident_place(&model->resident, &model->env, &x, !r->range->ids || r->io->x_most,
                             piece));
    SL_TRY(place_edges(r, piece));
    SL_TRY(place_own(r, at, piece));
    struct sl_infer_piece offered = *piece;
    offered.after = &after;
    offered.is_run = !r->range->ids;
    offer_kept(r, &offered);
    SL_TRY(layer->kind->infer(&model->env, layer, r->params, &offered));
    return sl_layer_tail_infer(&model->env, around, r->params, &after, piece->y,
                               piece->lists.n_dst);
}

// The rows' products, where the next layer reads these.
static int leave_products(const struct run *r, uint32_t at, const struct sl_infer_piece *piece)
{
    const struct sl_layer *next = r->next;
    for (uint32_t k = 0; k < r->left.n; k++) {
        const struct bank bank = bank_of(r, &r->left, k, r->io->y);
        float *rows;
        SL_TRY(take_rows(r, at, piece, &bank, false, &rows));
        SL_TRY(sl_layer_product(&r->model->env, next, piece->y, piece->lists.n_dst,
                                r->params + next->offset[r->left.weight[k]], 0, rows));
        SL_TRY(leave_rows(r, at, piece, &bank, rows));
    }
    return SL_OK;
}

// Hands out the rows of the result, which are the device's.
static int deliver(const struct run *r, uint32_t at, const struct sl_infer_piece *piece,
                   const struct bank *to, const float *result)
{
    const struct sl_infer_io *io = r->io;
    const uint64_t rows = piece->lists.n_dst;
    const bool judged = r->last && !io->hidden;
    const float *host = NULL;
    if (r->left.multiplied)
        SL_TRY(leave_products(r, at, piece));
    else if (to->data)
        SL_TRY(leave_rows(r, at, piece, to, result));
    if (io->rows || (judged && io->predictions))
        SL_TRY(download(r, result, rows, to->width, &host));
    if (io->rows)
        memcpy(io->rows + (uint64_t)at * to->width, host, rows * to->width * sizeof *host);
    if (judged)
        SL_TRY(judge(r, at, piece, result, host));
    return device_of(r)->sync(); // lists and banks are the processor's again
}

// All rows that a piece reads are asked of the system at once: the drive serves hundreds at a time,
// page faults are one after the other.
static void ask_for_rows(const struct run *r, const struct sl_infer_piece *piece)
{
    const uint64_t row = r->input.width * sl_dtype_bytes(r->io->x_dtype);
    const struct sl_csr_view *lists = &piece->lists;
    const char *x = r->io->x;
    for (uint32_t i = 0; i < lists->n_dst; i++)
        sl_advise(x + piece->ids[i] * row, row, MADV_WILLNEED);
    for (uint32_t e = 0; e < lists->n_edges; e++)
        sl_advise(x + lists->indices[e] * row, row, MADV_WILLNEED);
}

static int one_piece(const struct run *r, uint32_t at, uint32_t rows, uint32_t n_edges)
{
    struct sl_model *model = r->model;
    sl_mempool_reset(&model->pool);
    sl_mempool_reset(&model->notes);
    struct sl_infer_piece piece = {0};
    SL_TRY(sl_cutter_piece(&r->cutter, at, rows, n_edges, &piece));
    if (r->cutter.cold)
        ask_for_rows(r, &piece);
    const bool jumps = r->last && !r->io->hidden && model->jumping.kind != SL_JUMPING_NONE;
    const struct bank to = {.data = r->io->y, .width = jumps ? model->n_outputs : r->layer->d_out};
    // A run of vertices is computed where it belongs, if that is the device's memory.
    if (to.data && !jumps && !r->left.multiplied)
        SL_TRY(take_rows(r, at, &piece, &to, false, &piece.y));
    else if (!(piece.y = sl_layer_floats(&model->env, (uint64_t)rows * r->layer->d_out)))
        return SL_ENOMEM;
    float *result = piece.y;
    SL_TRY(compute(r, at, &piece));
    SL_TRY(gather_jumping(r, at, &piece));
    if (jumps)
        SL_TRY(finish_jumping(r, at, &piece, &result));
    return deliver(r, at, &piece, &to, result);
}

// The device's copy of x may leave too little for a large piece: then it is better without.
static int fit_piece(const struct run *r, uint32_t at, uint32_t rows, uint32_t n_edges)
{
    int rc = one_piece(r, at, rows, n_edges);
    if (rc != SL_ENOMEM || !sl_resident_shrink(&r->model->resident))
        return rc;
    return one_piece(r, at, rows, n_edges);
}

int sl_evaluate_layer(struct sl_model *model, const struct sl_dataset *ds, const float *params,
                      uint32_t layer, const struct sl_infer_range *range,
                      const struct sl_infer_io *io)
{
    if (model->typed)
        return sl_typed_pieces_layer(model->pieces, params, layer, range, io);
    const struct sl_layer *which = &model->layer[layer];
    const struct sl_infer_graph own = {ds, model->self_loops, model->neighbours};
    const struct sl_infer_graph *graph = io->graph ? io->graph : &own;
    const bool followed = io->y && layer + 1 < model->n_layers;
    const struct sl_layer *next = followed ? which + 1 : NULL;
    const struct sl_layer_input input = sl_layer_input(which);
    const struct run run = {
        .model = model,
        .ds = ds,
        .params = params,
        .layer = which,
        .range = range,
        .io = io,
        .input = input,
        .next = next,
        .left = next ? sl_layer_input(next) : (struct sl_layer_input){0},
        .last = layer + 1 == model->n_layers,
        .cutter = {.env = &model->env,
                   .dataset = graph->dataset,
                   .self_loops = graph->self_loops,
                   .neighbours = graph->neighbours,
                   .range = range,
                   .layer = layer,
                   .d_in = input.width,
                   .gathers = layer == 0 && (model->features || sl_model_joins(model)),
                   .cold = io->x_cold && model->env.device->is_host,
                   .self_edge = which->kind->self_edge && which->kind->self_edge(which),
                   .edge_floats = sl_model_edge_floats(model, layer)},
    };
    for (uint32_t at = 0; at < range->n;) {
        if (model->pulse && sl_heartbeat_stopping(model->pulse))
            return sl_fail(SL_EABORTED, "the job stops");
        uint64_t n_edges;
        uint32_t rows = sl_cutter_rows(&run.cutter, at, &n_edges);
        if (n_edges > UINT32_MAX)
            return sl_fail(
                SL_EUNSUPPORTED, "inference: vertex %llu has %llu in-edges, wanted less than 2^32",
                (unsigned long long)sl_infer_vertex(range, at), (unsigned long long)n_edges);
        SL_TRY(fit_piece(&run, at, rows, (uint32_t)n_edges));
        if (at == 0)
            SL_FAILPOINT(TRAINER_INFER);
        at += rows;
    }
    return SL_OK;
}

const float *sl_evaluate_params(const struct sl_arena *a, const struct sl_phase_spec *spec)
{
    switch (spec->params) {
    case SL_PARAMS_BEST: return sl_param_store_best(a);
    case SL_PARAMS_PINNED: return sl_param_store_pinned(a);
    default: return sl_param_store_params(a, sl_param_store_version(a));
    }
}

const void *sl_evaluate_input(const struct sl_model *model, const struct sl_dataset *ds,
                              enum sl_dtype *dtype)
{
    const bool learned = model->learned.dim > 0 && !sl_model_joins(model);
    *dtype = learned ? SL_DTYPE_F32 : ds->feat_dtype;
    return learned ? model->learned.rows : ds->feat;
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

// *out: the rows of each layer that the phase's splits need. Found once for each of the few kinds
// of evaluation that a job has.
static int needed_by(struct sl_model *model, const struct sl_dataset *ds, uint32_t splits,
                     const struct sl_needed_rows **out)
{
    struct sl_needed_rows *needed = &model->needed[0];
    if (needed->sets != 0 && needed->sets != splits)
        needed = &model->needed[1];
    *out = needed;
    if (needed->sets == splits)
        return SL_OK;
    sl_needed_rows_free(needed);
    return sl_needed_rows_find(needed, ds, splits, model->n_layers);
}

// Takes the rows that nobody needs out of a range of all vertices. Where all of it is needed it
// stays a run. *most: the layer needs most of its input.
static int leave_needed(struct sl_model *model, const struct sl_dataset *ds,
                        const struct sl_phase_spec *spec, struct sl_infer_range *range, bool *most)
{
    const struct sl_needed_rows *needed;
    *most = true;
    // Random walks go further than a vertex's neighbours.
    if (spec->set != SL_SET_ALL || !spec->wanted_splits || model->neighbours)
        return SL_OK;
    SL_TRY(needed_by(model, ds, spec->wanted_splits, &needed));
    const struct sl_marks *marks = &needed->layer[spec->layer];
    if (!marks->bits)
        return SL_OK;
    *most = marks->n > ds->n_nodes / FEW_DIVISOR;
    if (model->cell_rows < range->n) {
        free(model->cell_ids);
        model->cell_ids = malloc(range->n * sizeof *model->cell_ids);
        model->cell_rows = model->cell_ids ? range->n : 0;
        if (!model->cell_ids)
            return sl_fail(SL_ENOMEM, "no memory for a list of %u vertices", range->n);
    }
    uint32_t n = sl_marks_list(marks, range->first, range->n, model->cell_ids);
    if (n < range->n)
        *range = (struct sl_infer_range){.ids = model->cell_ids, .n = n};
    return SL_OK;
}

// What a vertex's row of a layer reads.
static uint64_t edges_of(const struct sl_model *model, const struct sl_dataset *ds, uint32_t layer,
                         uint64_t v)
{
    return model->typed ? sl_typed_pieces_edges(model->pieces, layer, v) : sl_dataset_degree(ds, v);
}

// Refuses a phase that does not fit the model or the arena before anything is written.
static int check_phase(const struct sl_model *model, const struct sl_arena *a,
                       const struct sl_dataset *ds, const struct sl_phase_spec *spec)
{
    const bool links = model->links != NULL;
    const uint32_t steps = model->n_layers + links;
    if (spec->layer >= steps || !spec->last_layer != (spec->layer + 1 < steps))
        return sl_fail(SL_EPROTO, "a phase of inference over layer %u%s of a model with %u",
                       spec->layer, spec->last_layer ? ", the last," : "", model->n_layers);
    const struct sl_arena_spec *room = &a->h->spec;
    uint32_t width = SL_MAX(spec->layer > 0 ? sl_model_kept_width(model, spec->layer - 1) : 0,
                            spec->last_layer ? 0 : sl_model_kept_width(model, spec->layer));
    uint32_t banks = SL_MIN(steps - 1, 2u);
    if (width &&
        (room->act_width < width || room->act_rows < ds->n_nodes || room->act_banks < banks))
        return sl_fail(SL_EPROTO,
                       "the arena has room for %u x %llu activations of width %u, wanted %u x %llu "
                       "of %u",
                       room->act_banks, (unsigned long long)room->act_rows, room->act_width, banks,
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

// ---- pairs --------------------------------------------------------------------------------------

static int score_pairs(struct sl_model *model, const float *params, const struct sl_dataset *ds,
                       struct sl_arena *a, const struct sl_lease *lease,
                       struct sl_loss_result *result)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    const enum sl_split split = spec->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST;
    struct sl_infer_range range = {0};
    uint32_t *scores;
    range.first = sl_phase_range(lease->phase, lease->cell, &range.n);
    if (range.first + range.n > ds->split[split].n)
        return sl_fail(SL_EPROTO, "a phase of pairs up to %llu: the data set has %llu",
                       (unsigned long long)(range.first + range.n),
                       (unsigned long long)ds->split[split].n);
    SL_TRY(predictions_of(a, ds, spec, &range, &scores));
    const struct sl_link_items *items = &model->links->split[split];
    uint32_t pairs[2 * SL_SCORE_PAIRS];
    float values[SL_SCORE_PAIRS];
    for (uint32_t at = 0; at < range.n; at += SL_SCORE_PAIRS) {
        if (model->pulse && sl_heartbeat_stopping(model->pulse))
            return sl_fail(SL_EABORTED, "the job stops");
        const uint64_t first = range.first + at;
        const uint64_t positives = items->n_positive - SL_MIN(first, items->n_positive);
        const uint32_t n = SL_MIN(range.n - at, (uint32_t)SL_SCORE_PAIRS);
        for (uint32_t i = 0; i < n; i++)
            sl_link_items_pair(items, first + i, pairs + 2 * (size_t)i);
        const struct sl_score_args args = {
            .params = params,
            .embeddings = sl_arena_acts(a, spec->layer - 1),
            .n_rows = ds->n_nodes,
            .pairs = pairs,
            .n = n,
            .n_positive = (uint32_t)SL_MIN(positives, (uint64_t)n),
            .scores = values,
            .result = result,
        };
        SL_TRY(sl_score_pairs(model, &args));
        memcpy(scores + at, values, n * sizeof *values);
    }
    return SL_OK;
}

int sl_evaluate_infer(struct sl_model *model, const float *params, const struct sl_dataset *ds,
                      struct sl_arena *a, const struct sl_lease *lease,
                      struct sl_loss_result *result, uint64_t *edges)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    struct sl_infer_range range;
    memset(result, 0, sizeof *result);
    *edges = 0;
    SL_TRY(check_phase(model, a, ds, spec));
    if (spec->layer == model->n_layers)
        return score_pairs(model, params, ds, a, lease, result);
    SL_TRY(range_of(ds, lease, &range));
    bool most;
    SL_TRY(leave_needed(model, ds, spec, &range, &most));
    const struct sl_infer_graph *graph = spec->val_edges ? model->wider : NULL;
    if (spec->val_edges && !graph)
        return sl_fail(SL_EPROTO, "a phase of inference over a graph that this trainer lacks");
    if (model->typed)
        sl_typed_pieces_walk(model->pieces, graph ? graph->dataset : ds);
    for (uint32_t i = 0; i < range.n; i++)
        *edges +=
            edges_of(model, graph ? graph->dataset : ds, spec->layer, sl_infer_vertex(&range, i));
    enum sl_dtype dtype = SL_DTYPE_F32;
    struct sl_infer_io io = {
        .graph = graph,
        .x = spec->layer ? sl_arena_acts(a, spec->layer - 1) : sl_evaluate_input(model, ds, &dtype),
        // A phase reads what the one before it has written; features are always the same.
        .x_tag = spec->layer ? atomic_load_explicit(&lease->phase->seq, memory_order_relaxed) : 0,
        .keep_tag = atomic_load_explicit(&lease->phase->seq, memory_order_relaxed),
        .y = spec->last_layer ? NULL : sl_arena_acts(a, spec->layer),
        .x_cold = spec->layer && a->acts_filed &&
                  a->h->region[SL_REGION_ACTS].bytes > sl_memory_available_below(""),
        .x_most = most && spec->set == SL_SET_ALL,
        .jumping = sl_jumping_width(&model->jumping) ? sl_arena_jumping(a) : NULL,
        .result = spec->last_layer ? result : NULL,
    };
    io.x_dtype = dtype;
    SL_TRY(predictions_of(a, ds, spec, &range, &io.predictions));
    model->kept.sharers = SL_MAX(sl_seat_awake(a), 1u);
    return sl_evaluate_layer(model, ds, params, spec->layer, &range, &io);
}
