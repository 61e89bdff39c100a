#include "trainer/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/data/self_loops.h"
#include "common/data/weightless.h"
#include "trainer/feed/edge_rows.h"
#include "trainer/model/heads.h"

// Adding a kind of model: config/model_kinds.h.
#define KIND(upper, lower) [SL_MODEL_##upper] = &sl_layer_##lower,
static const struct sl_layer_kind *const KINDS[] = {SL_MODEL_KINDS(KIND)};

// Gives the next `n` tensors, which have been described, their place in the vector; those without
// a name are left out.
static void place_tensors(struct sl_model *model, uint32_t n, uint32_t layer, uint64_t *offset)
{
    const struct sl_tensor *described = &model->tensor[model->n_tensors];
    for (uint32_t t = 0; t < n; t++) {
        if (!described[t].name[0])
            continue;
        struct sl_tensor *tensor = &model->tensor[model->n_tensors++];
        *tensor = described[t];
        tensor->layer = layer;
        tensor->offset = offset[t] = model->n_params;
        model->n_params += sl_tensor_count(tensor);
    }
}

static int add_layer(struct sl_model *model, const struct sl_layer_kind *kind, uint32_t d_in,
                     uint32_t d_out, bool last)
{
    uint32_t l = model->n_layers++;
    struct sl_layer *layer = &model->layer[l];
    *layer = (struct sl_layer){.kind = kind,
                               .index = l,
                               .d_in = d_in,
                               .d_out = d_out,
                               .last = last,
                               .options = &model->options};
    if (kind->check)
        SL_TRY(kind->check(layer));
    place_tensors(model, kind->describe(layer, &model->tensor[model->n_tensors]), l, layer->offset);
    return SL_OK;
}

// Whether hidden outputs that are bf16 are read as f32, too.
static bool reads_f32(const struct sl_model *model)
{
    const struct sl_layer *layer = &model->layer[0];
    return model->jumping.kind == SL_JUMPING_MAX ||
           (layer->kind->reads_f32 && layer->kind->reads_f32(layer));
}

static void add_surround(struct sl_model *model, uint32_t l)
{
    const struct sl_layer *layer = &model->layer[l];
    struct sl_layer_tail *around = &model->around[l];
    const bool keeps = reads_f32(model), on_cores = model->env.device->is_host;
    // Where f32 stays, for others or for the norm's backward, cores gain nothing from both.
    const bool both = on_cores && (keeps || model->options.norm != SL_NORM_NONE);
    *around =
        (struct sl_layer_tail){.dim = layer->d_out,
                               .hidden = !layer->last,
                               .activation = model->options.activation,
                               .norm = model->options.norm,
                               .rounds = sl_layer_rounds(&model->env) && !layer->last && !both,
                               .keeps = keeps,
                               .fuses = on_cores};
    if (layer->last)
        return;
    char prefix[24];
    snprintf(prefix, sizeof prefix, "norms.%u", l);
    uint32_t n =
        sl_norm_describe(around->norm, layer->d_out, prefix, &model->tensor[model->n_tensors]);
    place_tensors(model, n, l, around->norm_offset);
}

static const enum sl_activation ACTIVATIONS[] = {[SL_CONFIG_RELU] = SL_ACT_RELU,
                                                 [SL_CONFIG_ELU] = SL_ACT_ELU,
                                                 [SL_CONFIG_LEAKY_RELU] = SL_ACT_LEAKY_RELU};

static const enum sl_precision PRECISIONS[] = {[SL_CONFIG_FP32] = SL_PRECISION_F32,
                                               [SL_CONFIG_BF16] = SL_PRECISION_BF16,
                                               [SL_CONFIG_TF32] = SL_PRECISION_TF32};

// More than a mini-batch of a few hundred megabytes takes, which so computes nothing twice.
static const uint64_t KEPT_BYTES = (uint64_t)1 << 30;

static struct sl_layer_options options_of(const struct sl_config *config)
{
    return (struct sl_layer_options){
        .aggregator = config->model.aggregator,
        .heads = config->model.heads,
        .attention_dropout = (float)config->model.attention_dropout,
        .residual = config->model.residual,
        .eps = (float)config->model.eps,
        .train_eps = config->model.train_eps,
        .self_loops = config->model.self_loops,
        .degrees = config->model.degrees,
        .activation = ACTIVATIONS[config->model.activation],
        .norm = config->model.norm,
        .relations = config->model.relations,
        .share_weights = config->model.share_weights,
        .edge_features = config->model.edge_features,
        .bases = config->model.bases,
        .blocks = config->model.blocks,
        .kept_bytes = KEPT_BYTES,
    };
}

// Whether the kind is one of such graphs.
static int check_kind(enum sl_model_kind kind, bool typed)
{
    const bool of_types = sl_typed_model_is(kind);
    if (!of_types && ((size_t)kind >= SL_COUNT_OF(KINDS) || !KINDS[kind]))
        return sl_fail(SL_EUNSUPPORTED, "model.kind number %d: this build knows no such model",
                       (int)kind);
    if (of_types == typed)
        return SL_OK;
    return sl_fail(SL_EINVAL, "model.kind: found \"%s\" of graphs of %s, and this one has %s: %s",
                   sl_model_kind_name(kind), typed ? "one type" : "several types",
                   typed ? "several" : "one",
                   typed ? "take " SL_MODEL_OF_TYPES : "take one of those, such as \"graphsage\"");
}

static int check_config(const struct sl_config *config, uint32_t feat_dim,
                        const struct sl_typed *typed, uint32_t n_outputs)
{
    SL_TRY(check_kind(config->model.kind, typed != NULL));
    if (config->model.layers == 0 || config->model.layers > SL_CONFIG_MAX_LAYERS)
        return sl_fail(SL_EINVAL, "model.layers: found %u, wanted 1 to %d", config->model.layers,
                       SL_CONFIG_MAX_LAYERS);
    if (typed && n_outputs > 0)
        return SL_OK; // each type has its own features
    if (feat_dim + sl_config_learned_dim(config) == 0 || n_outputs == 0)
        return sl_fail(SL_EINVAL,
                       "a model over %u features and %u classes: the data set must have both",
                       feat_dim, n_outputs);
    return SL_OK;
}

static bool is_links(const struct sl_model *model)
{
    return model->objective->task == SL_TASK_LINK;
}

static int room_for_tensors(struct sl_model *model, uint32_t n)
{
    model->tensor = calloc(n, sizeof *model->tensor);
    return model->tensor ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %u tensors", n);
}

// Layers of a plain graph.
static int add_layers(struct sl_model *model, const struct sl_config *config, uint32_t d_in)
{
    const uint32_t layers = config->model.layers, hidden = config->model.hidden;
    SL_TRY(room_for_tensors(model, layers * (SL_LAYER_TENSORS + SL_NORM_TENSORS) +
                                       SL_JUMPING_TENSORS + SL_DECODER_TENSORS));
    for (uint32_t l = 0; l < layers; l++) {
        bool last = l + 1 == layers && model->jumping.kind == SL_JUMPING_NONE;
        SL_TRY(add_layer(model, KINDS[config->model.kind], l == 0 ? d_in : hidden,
                         last ? model->n_outputs : hidden, last));
    }
    for (uint32_t l = 0; l < layers; l++)
        add_surround(model, l);
    return SL_OK;
}

static int add_typed_layers(struct sl_model *model, const struct sl_config *config,
                            const struct sl_typed *typed)
{
    SL_TRY(sl_typed_model_create(config, typed, &model->options, &model->env, &model->learned,
                                 &model->typed));
    const uint32_t n = sl_typed_model_count(model->typed);
    SL_TRY(room_for_tensors(model, n + SL_JUMPING_TENSORS + SL_DECODER_TENSORS));
    sl_typed_model_describe(model->typed, model->tensor, &model->n_params);
    model->n_tensors = n;
    model->n_layers = config->model.layers;
    model->jumping.kind = SL_JUMPING_LAST;
    return SL_OK;
}

// The linear layer behind the layers, and the decoder.
static void add_ends(struct sl_model *model, const struct sl_config *config)
{
    uint32_t n = sl_jumping_describe(&model->jumping, &model->tensor[model->n_tensors]);
    place_tensors(model, n, SL_TENSOR_NO_LAYER, model->jumping.offset);
    if (!is_links(model))
        return;
    model->decoder = sl_decoder_of(config);
    n = sl_decoder_describe(&model->decoder, &model->tensor[model->n_tensors]);
    place_tensors(model, n, SL_TENSOR_NO_LAYER, model->decoder.offset);
}

int sl_model_init(struct sl_model *model, const struct sl_config *config, uint32_t feat_dim,
                  const struct sl_typed *typed, const struct sl_objective *objective,
                  const struct sl_device *device, const struct sl_kernels *kernels)
{
    memset(model, 0, sizeof *model);
    const uint32_t edge_dim = typed && config->model.edge_features ? typed->plain.feat_dim : 0;
    if (typed && typed->n_types == 0)
        typed = NULL;
    SL_TRY(check_config(config, feat_dim, typed, objective->n_outputs));
    model->dropout = (float)config->model.dropout;
    model->input_dropout = (float)config->model.input_dropout;
    model->seed = config->seed;
    model->options = options_of(config);
    model->options.edge_dim = edge_dim;
    model->env.device = device;
    SL_TRY(sl_objective_place(objective, device, &model->placed));
    model->objective = &model->placed;
    model->n_outputs = objective->n_outputs;
    sl_mempool_init_on(&model->pool, &device->memory);
    sl_mempool_init(&model->notes);
    sl_mempool_init_on(&model->scoring, &device->memory);
    sl_mempool_init_on(&model->scratch, &device->memory);
    model->env = (struct sl_layer_env){
        .kernels = kernels,
        .device = device,
        .precision = PRECISIONS[sl_config_precision(config)],
        .pool = &model->pool,
        .notes = &model->notes,
        .scratch = &model->scratch,
    };
    model->learned = (struct sl_learned_rows){
        .from = typed || config->features.kind == SL_INPUT_LEARNED ? 0 : feat_dim,
        .dim = sl_config_learned_dim(config),
    };
    model->jumping = (struct sl_jumping){.kind = config->model.jumping,
                                         .n_layers = config->model.layers,
                                         .hidden = config->model.hidden,
                                         .n_outputs = model->n_outputs};
    SL_TRY(typed ? add_typed_layers(model, config, typed)
                 : add_layers(model, config, model->learned.from + model->learned.dim));
    add_ends(model, config);
    sl_rounded_weights_init(&model->rounded, device, kernels, model->env.precision, model->tensor,
                            model->n_tensors);
    model->env.rounded = &model->rounded;
    return SL_OK;
}

void sl_model_fini(struct sl_model *model)
{
    sl_rounded_weights_fini(&model->rounded);
    sl_resident_fini(&model->resident);
    for (size_t i = 0; i < SL_COUNT_OF(model->needed); i++)
        sl_needed_rows_free(&model->needed[i]);
    sl_source_row_cache_free(&model->kept);
    sl_source_row_cache_free(&model->kept_sums);
    free(model->cell_ids);
    free(model->tensor);
    sl_typed_model_destroy(model->typed);
    sl_row_source_fini(&model->edges);
    sl_objective_unplace(&model->placed, model->env.device);
    sl_mempool_fini(&model->pool);
    sl_mempool_fini(&model->notes);
    sl_mempool_fini(&model->scoring);
    sl_mempool_fini(&model->scratch);
}

uint64_t sl_model_peak_bytes(const struct sl_model *model)
{
    return model->pool.peak_bytes + model->scratch.peak_bytes;
}

uint32_t sl_model_kept_width(const struct sl_model *model, uint32_t layer)
{
    if (layer + 1 == model->n_layers)
        return model->n_outputs;
    if (model->typed)
        return model->typed->hidden;
    const struct sl_layer_input next = sl_layer_input(&model->layer[layer + 1]);
    return next.n * next.width;
}

uint32_t sl_model_infer_width(const struct sl_model *model)
{
    uint32_t width = 0;
    for (uint32_t l = 0; l + !is_links(model) < model->n_layers; l++)
        width = SL_MAX(width, sl_model_kept_width(model, l));
    return width;
}

uint32_t sl_model_edge_floats(const struct sl_model *model, uint32_t layer)
{
    const uint32_t dim = model->options.edge_dim;
    return dim ? SL_MAX(dim, sl_heads_columns(&model->layer[layer])) : 0;
}

bool sl_model_needs_self_loops(const struct sl_model *model)
{
    return !model->typed && model->layer[0].kind->needs_degrees;
}

bool sl_model_needs_out_degrees(const struct sl_model *model)
{
    return sl_model_needs_self_loops(model) && model->options.degrees == SL_DEGREES_BLOCK;
}

int sl_model_prepare_graph(const struct sl_model *model, const struct sl_config *config,
                           const struct sl_dataset *ds, int threads, struct sl_self_loops *loops,
                           struct sl_neighbours *neighbours, struct sl_infer_graph *out)
{
    *out = (struct sl_infer_graph){.dataset = ds};
    if (sl_model_needs_self_loops(model)) {
        SL_TRY(sl_self_loops_find(ds, threads, loops));
        if (sl_model_needs_out_degrees(model))
            SL_TRY(sl_self_loops_count_out(loops, threads));
        out->self_loops = loops;
    }
    if (sl_neighbours_walks(config)) {
        const struct sl_layer_env *env = &model->env;
        // Lists are the processor's work on every device.
        SL_TRY(sl_neighbours_init(neighbours, config, ds,
                                  env->device->is_host ? env->kernels : sl_kernels_cpu()));
        out->neighbours = neighbours;
    }
    return SL_OK;
}

int sl_model_prepare_inference(struct sl_model *model, const struct sl_config *config,
                               struct sl_dataset *ds, int threads, struct sl_self_loops *loops,
                               struct sl_neighbours *neighbours)
{
    struct sl_infer_graph own;
    if (sl_sampler_flags[config->sampler.kind] & SL_SAMPLER_BY_WEIGHT)
        SL_TRY(sl_weightless_drop(ds, sl_model_needs_self_loops(model), threads));
    SL_TRY(sl_model_prepare_graph(model, config, ds, threads, loops, neighbours, &own));
    model->self_loops = own.self_loops;
    model->neighbours = own.neighbours;
    return SL_OK;
}

struct sl_block_shape sl_model_block_shape(const struct sl_model *model)
{
    const struct sl_objective *o = model->objective;
    return (struct sl_block_shape){.n_hops = model->n_layers,
                                   .n_targets = is_links(model)                 ? o->per_positive
                                                : o->task == SL_TASK_MULTICLASS ? 0
                                                                                : o->n_outputs,
                                   .has_pairs = is_links(model),
                                   .n_types = model->typed ? model->typed->typed->n_types : 0};
}

static int check_abort(const struct sl_model *model)
{
    if (model->pulse && sl_heartbeat_stopping(model->pulse))
        return sl_fail(SL_EABORTED, "the job stops");
    return SL_OK;
}

static struct sl_hop hop_of(struct sl_block_view block, uint32_t h)
{
    return (struct sl_hop){
        .csr = sl_hop_csr(block, h),
        .degrees = sl_view_degrees(block),
        .weights = sl_view_weights(block, h),
        .n_loops = block.n_loops ? &block.n_loops[h] : NULL,
    };
}

// The source rows of a layer: features x, or the output of the layer before.
static void take_source(const struct sl_model *model, struct sl_block_view block, uint32_t l,
                        const void *x, struct sl_layer_tape *tape)
{
    const struct sl_layer_tail_tape *before = l > 0 ? &model->around_tape[l - 1] : NULL;
    tape->half_dtype = before || model->table.rows ? SL_DTYPE_BF16 : SL_DTYPE_F16;
    if (before) {
        tape->x = before->y;
        tape->half = before->rounded;
        return;
    }
    if (model->half)
        tape->half = x;
    else
        tape->x = x;
    tape->table = model->table;
    tape->table.nodes = sl_view_nodes(block);
}

// One layer and what surrounds it; the output is in model->around_tape[l]. x: features.
static int forward_layer(struct sl_model *model, const float *params, struct sl_block_view block,
                         uint32_t l, const void *x, bool training)
{
    const struct sl_layer *layer = &model->layer[l];
    const struct sl_layer_tail *around = &model->around[l];
    struct sl_layer_tape *tape = &model->tape[l];
    struct sl_dropout dropout = {
        .rate = training ? model->options.attention_dropout : 0,
        .seed = model->seed,
        .epoch = block.header->epoch,
        .batch = (uint32_t)block.header->batch,
        .layer = SL_LAYER_OWN_DROPOUT + l,
    };
    *tape = (struct sl_layer_tape){
        .hop = hop_of(block, model->n_layers - 1 - l), .training = training, .dropout = dropout};
    if (model->options.edge_dim > 0)
        tape->hop.edges = model->edge_rows[model->n_layers - 1 - l];
    take_source(model, block, l, x, tape);
    dropout.rate = model->dropout;
    dropout.layer = l + 1;
    tape->after = sl_layer_tail_offer(around, sl_layer_bias(layer, params), training, &dropout);
    if (around->rounds && tape->after.offered) {
        tape->after.rounded = sl_layer_bf16(&model->env, tape->hop.csr.n_dst, layer->d_out);
        if (!tape->after.rounded)
            return SL_ENOMEM;
    }
    SL_TRY(layer->kind->forward(&model->env, layer, params,
                                training && (l > 0 || model->learned.dim > 0), tape));
    return sl_layer_tail_forward(&model->env, around, params, &tape->after, tape->y,
                                 tape->hop.csr.n_dst, training, &dropout, &model->around_tape[l]);
}

bool sl_model_drops_loops(const struct sl_model *model)
{
    const struct sl_layer *layer = &model->layer[0];
    return !model->typed && layer->kind->self_edge && layer->kind->self_edge(layer);
}

bool sl_model_keeps_features(const struct sl_model *model)
{
    return model->input_dropout == 0;
}

bool sl_model_take_half(struct sl_model *model, const struct sl_dataset *ds)
{
    model->half = !model->typed && ds->feat_dtype == SL_DTYPE_F16 && ds->feat_dim % 2 == 0 &&
                  !model->env.device->is_host && sl_model_keeps_features(model) &&
                  model->layer[0].kind->reads_half;
    return model->half;
}

bool sl_model_take_table(struct sl_model *model, const struct sl_dataset *ds)
{
    const struct sl_layer *first = &model->layer[0];
    if (model->typed)
        return !ds->shard.count && sl_typed_model_take_table(model->typed);
    // A product that comes first reads all rows.
    if (!model->env.device->is_host || !ds->feat || ds->shard.count || model->learned.dim > 0 ||
        !sl_model_keeps_features(model) || !first->kind->reads_table ||
        model->options.edge_dim > 0 || // find_edges() counts all rows before those of edges
        sl_layer_may_transform_first(first))
        return false;
    model->table = (struct sl_layer_table){
        .rows = ds->feat, .dtype = ds->feat_dtype, .n_rows = (uint32_t)ds->n_nodes};
    model->half = sl_layer_rounds(&model->env); // products alone read the rows that are copied
    return true;
}

static struct sl_dropout input_dropout(const struct sl_model *model, struct sl_block_view block)
{
    return (struct sl_dropout){.rate = model->input_dropout,
                               .seed = model->seed,
                               .epoch = block.header->epoch,
                               .batch = (uint32_t)block.header->batch};
}

// Where the features of the edges of each hop are, behind those of the vertices at x.
static void find_edges(struct sl_model *model, struct sl_block_view block, const void *x)
{
    const uint64_t row =
        model->learned.from * sl_dtype_bytes(model->half ? SL_DTYPE_F16 : SL_DTYPE_F32);
    uint64_t at[SL_MAX_HOPS];
    if (model->options.edge_dim == 0)
        return;
    sl_edge_rows_end(block.header, model->options.edge_dim, block.header->n_input * row, at);
    for (uint32_t h = 0; h < block.header->n_hops; h++)
        model->edge_rows[h] = (const float *)(const void *)((const char *)x + at[h]);
}

// The last layer's rows, and those before it in model->jumping_tape.
static int forward_layers(struct sl_model *model, const float *params, struct sl_block_view block,
                          void *x, bool training, float **outputs)
{
    find_edges(model, block, x);
    if (model->learned.dim > 0)
        SL_TRY(sl_learned_input(&model->env, &model->learned, block, x, &x));
    model->input_mask = input_dropout(model, block);
    if (training && model->input_dropout > 0)
        SL_TRY(model->env.kernels->dropout(x, block.header->n_input, model->layer[0].d_in,
                                           &model->input_mask));
    for (uint32_t l = 0; l < model->n_layers; l++) {
        SL_TRY(check_abort(model));
        SL_TRY(forward_layer(model, params, block, l, x, training));
        model->jumping_tape.h[l] = model->around_tape[l].y;
        model->jumping_tape.rounded[l] = model->around_tape[l].rounded;
    }
    *outputs = model->around_tape[model->n_layers - 1].y;
    return SL_OK;
}

// `batch`: x is as batches come, else of types as sl_model_forward() has it.
static int forward(struct sl_model *model, const float *params, struct sl_block_view block, void *x,
                   bool batch, bool training, float **outputs)
{
    sl_mempool_reset(&model->pool);
    sl_mempool_reset(&model->notes);
    if (training) { // the device's memory is for batches now
        sl_resident_release(&model->resident);
        sl_mempool_fini(&model->scoring);
    }
    const struct sl_typed_input in = {x, batch && model->typed && model->typed->table};
    SL_TRY(model->typed ? sl_typed_model_forward(model->typed, params, block, in, training,
                                                 model->pulse, outputs)
                        : forward_layers(model, params, block, x, training, outputs));
    if (model->typed)
        model->jumping_tape.h[model->n_layers - 1] = *outputs;
    if (model->jumping.kind == SL_JUMPING_NONE)
        return SL_OK;
    model->jumping_tape.rows = block.header->n_seeds;
    return sl_jumping_forward(&model->env, &model->jumping, params, &model->jumping_tape, outputs);
}

int sl_model_forward(struct sl_model *model, const float *params, struct sl_block_view block,
                     void *x, bool training, float **outputs)
{
    return forward(model, params, block, x, false, training, outputs);
}

int sl_model_hidden(struct sl_model *model, const float *params, struct sl_block_view block,
                    void *x, uint32_t type, const float **rows)
{
    float *of_seeds;
    sl_mempool_reset(&model->pool);
    sl_mempool_reset(&model->notes);
    SL_TRY(sl_typed_model_forward(model->typed, params, block, (struct sl_typed_input){.x = x},
                                  false, model->pulse, &of_seeds));
    *rows = model->typed->last[type];
    return SL_OK;
}

int sl_model_layer(struct sl_model *model, const float *params, struct sl_block_view block,
                   uint32_t layer, float *x, uint32_t type, bool outputs, const float **rows)
{
    struct sl_jumping_tape *tape = &model->jumping_tape;
    float *out;
    sl_mempool_reset(&model->pool);
    sl_mempool_reset(&model->notes);
    SL_TRY(sl_typed_model_layer(model->typed, params, block, layer, x));
    *rows = model->typed->last[type];
    if (!outputs)
        return SL_OK;
    tape->h[model->n_layers - 1] = *rows;
    tape->rows = block.header->n_seeds;
    SL_TRY(sl_jumping_forward(&model->env, &model->jumping, params, tape, &out));
    *rows = out;
    return SL_OK;
}

// Where the output is bf16 alone, what it was made of in f32 is of no use any more.
static float *gradient_of_output(const struct sl_model *model, uint32_t l)
{
    const struct sl_layer_tail_tape *around = &model->around_tape[l];
    if (around->rounded && !around->y && model->options.norm == SL_NORM_NONE && model->tape[l].y)
        return model->tape[l].y;
    return sl_layer_floats(&model->env, model->around_tape[l].rows * model->layer[l].d_out);
}

// gradient += that of the layers.
static int backward_layers(struct sl_model *model, const float *params, float *doutputs,
                           float *gradient)
{
    bool jumps = model->jumping.kind != SL_JUMPING_NONE;
    float *dy = jumps ? gradient_of_output(model, model->n_layers - 1) : doutputs;
    if (!dy)
        return SL_ENOMEM;
    if (jumps)
        SL_TRY(sl_jumping_gradient(&model->env, &model->jumping, &model->jumping_tape, doutputs,
                                   gradient));
    for (uint32_t l = model->n_layers; l-- > 0;) {
        SL_TRY(check_abort(model));
        const struct sl_layer *layer = &model->layer[l];
        if (jumps)
            SL_TRY(sl_jumping_backward(&model->env, &model->jumping, params, &model->jumping_tape,
                                       l, doutputs, dy));
        const float *bias = sl_layer_bias(layer, params);
        SL_TRY(sl_layer_tail_backward(
            &model->env, &model->around[l], params, &model->around_tape[l], dy, gradient,
            bias ? gradient + (bias - params) : NULL, &model->tape[l].before));
        float *dx = NULL;
        if (l > 0)
            dx = gradient_of_output(model, l - 1);
        else if (model->learned.dim > 0)
            dx = sl_learned_gradient(&model->env, &model->learned, model->tape[0].hop.csr.n_src);
        if ((l > 0 || model->learned.dim > 0) && !dx)
            return SL_ENOMEM;
        SL_TRY(
            layer->kind->backward(&model->env, layer, params, &model->tape[l], dy, gradient, dx));
        if (l + 1 == model->n_layers)
            SL_FAILPOINT(TRAINER_GRADIENT);
        dy = dx;
    }
    if (model->learned.dim == 0)
        return SL_OK;
    return sl_learned_leave(&model->env, &model->learned,
                            model->input_dropout > 0 ? &model->input_mask : NULL,
                            model->tape[0].hop.csr.n_src, dy);
}

static int backward_typed(struct sl_model *model, const float *params, float *doutputs,
                          float *gradient)
{
    const struct sl_layer_env *env = &model->env;
    const uint64_t rows = model->jumping_tape.rows;
    float *dh = sl_layer_floats(env, rows * model->typed->hidden);
    if (!dh)
        return SL_ENOMEM;
    SL_TRY(sl_jumping_gradient(env, &model->jumping, &model->jumping_tape, doutputs, gradient));
    SL_TRY(sl_jumping_backward(env, &model->jumping, params, &model->jumping_tape,
                               model->n_layers - 1, doutputs, dh));
    return sl_typed_model_backward(model->typed, params, dh, model->pulse, gradient);
}

static int clear_gradient(const struct sl_model *model, float *gradient)
{
    return model->env.device->fill(gradient, 0, model->n_params * sizeof *gradient);
}

// The scores (n, in the pool) of a block's pairs.
static int decode(struct sl_model *model, const float *params, struct sl_block_view block,
                  const float *outputs, struct sl_decoder_tape *tape, float **scores)
{
    const struct sl_pairs pairs = sl_view_pairs(block);
    const struct sl_decoder_pairs of = {
        .x = outputs, .rows = block.header->n_seeds, .ids = pairs.ids, .n = pairs.n};
    *scores = sl_layer_floats(&model->env, pairs.n);
    return *scores ? sl_decoder_forward(&model->env, &model->decoder, params, &of, *scores, tape)
                   : SL_ENOMEM;
}

// Scores of the outputs and their loss; doutputs is assigned, the decoder's gradient added.
static int train_pairs(struct sl_model *model, const float *params, struct sl_block_view block,
                       const float *outputs, float *doutputs, float *gradient,
                       struct sl_loss_result *result)
{
    const struct sl_pairs pairs = sl_view_pairs(block);
    struct sl_decoder_tape tape;
    float *scores, *dscores = sl_layer_floats(&model->env, pairs.n);
    if (!dscores)
        return SL_ENOMEM;
    SL_TRY(decode(model, params, block, outputs, &tape, &scores));
    SL_TRY(sl_objective_pair_loss(model->objective, model->env.kernels, &pairs, scores, dscores,
                                  result));
    return sl_decoder_backward(&model->env, &model->decoder, params, &tape, dscores, gradient,
                               doutputs);
}

static int loss_of(struct sl_model *model, struct sl_block_view block, const float *outputs,
                   float *doutputs, struct sl_loss_result *result)
{
    return sl_objective_loss(model->objective, model->env.kernels, sl_view_targets(block),
                             block.header->n_seeds, outputs, doutputs, result);
}

uint32_t sl_model_learned_ids(const struct sl_model *model, struct sl_block_view block,
                              uint32_t *ids)
{
    if (model->typed)
        return sl_typed_model_learned_ids(model->typed, block, ids);
    const uint32_t n = block.header->n_input;
    memcpy(ids, sl_view_nodes(block), n * sizeof *ids);
    return n;
}

int sl_model_train(struct sl_model *model, const float *params, struct sl_block_view block, void *x,
                   float *gradient, struct sl_loss_result *result)
{
    float *outputs;
    SL_TRY(forward(model, params, block, x, true, true, &outputs));
    float *doutputs =
        sl_layer_floats(&model->env, (uint64_t)block.header->n_seeds * model->n_outputs);
    if (!doutputs)
        return SL_ENOMEM;
    SL_TRY(clear_gradient(model, gradient));
    SL_TRY(is_links(model) ? train_pairs(model, params, block, outputs, doutputs, gradient, result)
                           : loss_of(model, block, outputs, doutputs, result));
    return model->typed ? backward_typed(model, params, doutputs, gradient)
                        : backward_layers(model, params, doutputs, gradient);
}

int sl_model_evaluate(struct sl_model *model, const float *params, struct sl_block_view block,
                      void *x, struct sl_loss_result *result, const float **outputs)
{
    float *y;
    SL_TRY(forward(model, params, block, x, true, false, &y));
    if (is_links(model)) {
        const struct sl_pairs pairs = sl_view_pairs(block);
        struct sl_decoder_tape tape;
        float *scores;
        SL_TRY(decode(model, params, block, y, &tape, &scores));
        if (outputs)
            *outputs = scores;
        return sl_objective_pair_loss(model->objective, model->env.kernels, &pairs, scores, NULL,
                                      result);
    }
    if (outputs)
        *outputs = y;
    return loss_of(model, block, y, NULL, result);
}

int sl_model_score(struct sl_model *model, const float *params, const float *embeddings,
                   uint64_t rows, const uint32_t *pairs, uint64_t n, float *scores,
                   struct sl_loss_result *result, uint64_t n_positive)
{
    struct sl_layer_env env = model->env;
    env.pool = &model->scoring;
    const struct sl_decoder_pairs of = {.x = embeddings, .rows = rows, .ids = pairs, .n = n};
    SL_TRY(sl_decoder_score(&env, &model->decoder, params, &of, scores));
    const struct sl_pair_loss_args args = {
        .loss = SL_LOSS_PAIR_BCE, .n = n, .n_positive = n_positive, .score = scores};
    return result ? env.kernels->pair_loss(&args, result) : SL_OK;
}
