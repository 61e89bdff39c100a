#include "trainer/model.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

// Adding a kind of model is a file that fills a struct sl_layer_kind, and a line here.
static const struct sl_layer_kind *const KINDS[] = {
    [SL_MODEL_GRAPHSAGE] = &sl_layer_graphsage,
    [SL_MODEL_GCN] = &sl_layer_gcn,
};

static void add_layer(struct sl_model *model, const struct sl_layer_kind *kind, uint32_t d_in,
                      uint32_t d_out, bool hidden)
{
    struct sl_layer *layer = &model->layer[model->n_layers];
    *layer = (struct sl_layer){
        .kind = kind, .index = model->n_layers, .d_in = d_in, .d_out = d_out, .relu = hidden};
    struct sl_tensor *tensors = &model->tensor[model->n_tensors];
    uint32_t n = kind->describe(layer->index, d_in, d_out, tensors);
    for (uint32_t t = 0; t < n; t++) {
        tensors[t].offset = layer->offset[t] = model->n_params;
        model->n_params += sl_tensor_count(&tensors[t]);
    }
    model->n_tensors += n;
    model->n_layers++;
}

int sl_model_init(struct sl_model *model, const struct sl_config *config, uint32_t feat_dim,
                  uint32_t n_classes, const struct sl_kernels *kernels)
{
    memset(model, 0, sizeof *model);
    if ((size_t)config->model.kind >= SL_COUNT_OF(KINDS) || !KINDS[config->model.kind])
        return sl_fail(SL_EUNSUPPORTED, "model.kind number %d: this build knows no such model",
                       (int)config->model.kind);
    uint32_t layers = config->model.layers;
    if (layers == 0 || layers > SL_CONFIG_MAX_LAYERS)
        return sl_fail(SL_EINVAL, "model.layers: found %u, wanted 1 to %d", layers,
                       SL_CONFIG_MAX_LAYERS);
    if (feat_dim == 0 || n_classes == 0)
        return sl_fail(SL_EINVAL,
                       "a model over %u features and %u classes: the data set must have both",
                       feat_dim, n_classes);
    model->dropout = (float)config->model.dropout;
    model->input_dropout = (float)config->model.input_dropout;
    model->seed = config->seed;
    sl_mempool_init(&model->pool);
    model->env = (struct sl_layer_env){
        .kernels = kernels,
        .precision = config->precision == SL_CONFIG_BF16 ? SL_PRECISION_BF16 : SL_PRECISION_F32,
        .pool = &model->pool,
    };
    for (uint32_t l = 0; l < layers; l++)
        add_layer(model, KINDS[config->model.kind], l == 0 ? feat_dim : config->model.hidden,
                  l + 1 == layers ? n_classes : config->model.hidden, l + 1 < layers);
    return SL_OK;
}

void sl_model_fini(struct sl_model *model)
{
    sl_mempool_fini(&model->pool);
}

uint32_t sl_model_infer_width(const struct sl_model *model)
{
    uint32_t width = 0;
    for (uint32_t l = 0; l + 1 < model->n_layers; l++)
        width = SL_MAX(width, model->layer[l].d_out);
    return width;
}

int sl_model_check_block(const struct sl_model *model, const struct sl_block *block,
                         uint64_t payload_bytes)
{
    if (payload_bytes < sizeof *block || block->magic != SL_BLOCK_MAGIC ||
        block->bytes > payload_bytes)
        return sl_fail(SL_EPROTO,
                       "a batch of %llu bytes does not begin with a block's header: sampler and "
                       "trainer are not of the same build",
                       (unsigned long long)payload_bytes);
    if (block->n_hops != model->n_layers || block->n_nodes[block->n_hops] != block->n_input ||
        block->n_nodes[0] != block->n_seeds)
        return sl_fail(SL_EPROTO,
                       "block of batch %llu has %u hops, %u seeds and %u input nodes: wanted %u "
                       "hops that begin and end with these",
                       (unsigned long long)block->batch, block->n_hops, block->n_seeds,
                       block->n_input, model->n_layers);
    for (uint32_t h = 0; h < block->n_hops; h++)
        if (block->hop[h].n_dst != block->n_nodes[h] || block->n_nodes[h] > block->n_nodes[h + 1])
            return sl_fail(SL_EPROTO, "block of batch %llu: hop %u has %u rows, wanted %u",
                           (unsigned long long)block->batch, h, block->hop[h].n_dst,
                           block->n_nodes[h]);
    return SL_OK;
}

static int check_abort(const struct sl_model *model)
{
    if (model->arena && sl_arena_aborted(model->arena))
        return sl_fail(SL_EABORTED, "the job stops");
    return SL_OK;
}

static struct sl_hop hop_of(const struct sl_block *block, uint32_t h)
{
    return (struct sl_hop){
        .csr = {.n_dst = block->n_nodes[h],
                .n_src = block->n_nodes[h + 1],
                .indptr = sl_block_indptr(block, h),
                .indices = sl_block_indices(block, h)},
        .degrees = sl_block_degrees(block),
        .weights = sl_block_weights(block, h),
    };
}

int sl_model_forward(struct sl_model *model, const float *params, const struct sl_block *block,
                     float *x, bool training, float **logits)
{
    sl_mempool_reset(&model->pool);
    struct sl_dropout dropout = {
        .seed = model->seed,
        .epoch = block->epoch,
        .batch = (uint32_t)block->batch,
    };
    if (training && model->input_dropout > 0) {
        struct sl_dropout input = dropout;
        input.rate = model->input_dropout;
        SL_TRY(model->env.kernels->dropout(x, block->n_input, model->layer[0].d_in, &input));
    }
    const float *source = x;
    for (uint32_t l = 0; l < model->n_layers; l++) {
        SL_TRY(check_abort(model));
        const struct sl_layer *layer = &model->layer[l];
        struct sl_layer_tape *tape = &model->tape[l];
        *tape = (struct sl_layer_tape){
            .hop = hop_of(block, model->n_layers - 1 - l), .x = source, .dropout = dropout};
        tape->dropout.layer = l + 1;
        tape->dropout.rate = training && l + 1 < model->n_layers ? model->dropout : 0;
        SL_TRY(layer->kind->forward(&model->env, layer, params, training && l > 0, tape));
        source = tape->y;
    }
    *logits = model->tape[model->n_layers - 1].y;
    return SL_OK;
}

int sl_model_backward(struct sl_model *model, const float *params, float *dlogits, float *gradient)
{
    memset(gradient, 0, model->n_params * sizeof *gradient);
    float *dy = dlogits;
    for (uint32_t l = model->n_layers; l-- > 0;) {
        SL_TRY(check_abort(model));
        const struct sl_layer *layer = &model->layer[l];
        const struct sl_layer_tape *tape = &model->tape[l];
        float *dx = NULL;
        if (l > 0) {
            dx = sl_layer_floats(&model->env, (uint64_t)tape->hop.csr.n_src * layer->d_in);
            if (!dx)
                return SL_ENOMEM;
        }
        SL_TRY(layer->kind->backward(&model->env, layer, params, tape, dy, gradient, dx));
        if (l + 1 == model->n_layers)
            SL_FAILPOINT(TRAINER_GRADIENT);
        dy = dx;
    }
    return SL_OK;
}

static int loss_of(struct sl_model *model, const struct sl_block *block, const float *logits,
                   float *dlogits, struct sl_model_result *result)
{
    const struct sl_layer *last = &model->layer[model->n_layers - 1];
    return model->env.kernels->softmax_xent(logits, sl_block_labels(block), block->n_seeds,
                                            last->d_out, dlogits, &result->loss, &result->correct,
                                            &result->counted);
}

int sl_model_train(struct sl_model *model, const float *params, const struct sl_block *block,
                   float *x, float *gradient, struct sl_model_result *result)
{
    float *logits;
    SL_TRY(sl_model_forward(model, params, block, x, true, &logits));
    const struct sl_layer *last = &model->layer[model->n_layers - 1];
    float *dlogits = sl_layer_floats(&model->env, (uint64_t)block->n_seeds * last->d_out);
    if (!dlogits)
        return SL_ENOMEM;
    SL_TRY(loss_of(model, block, logits, dlogits, result));
    return sl_model_backward(model, params, dlogits, gradient);
}

int sl_model_evaluate(struct sl_model *model, const float *params, const struct sl_block *block,
                      float *x, struct sl_model_result *result)
{
    float *logits;
    SL_TRY(sl_model_forward(model, params, block, x, false, &logits));
    return loss_of(model, block, logits, NULL, result);
}
