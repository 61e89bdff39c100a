#include "trainer/model/layer_tail.h"

#include "common/base/error.h"

static const struct sl_dropout NO_DROPOUT;

static struct sl_norm norm_of(const struct sl_layer_tail *around, const struct sl_layer *layer)
{
    return (struct sl_norm){
        .kind = around->norm, .dim = layer->d_out, .offset = around->norm_offset};
}

static bool normalises(const struct sl_layer_tail *around)
{
    return around->hidden && around->norm != SL_NORM_NONE;
}

// The layer's bias within `values` (flat), or NULL where it has none.
static const float *bias_of(const struct sl_layer *layer, const float *values)
{
    return layer->kind->bias == SL_LAYER_NO_BIAS ? NULL : values + layer->offset[layer->kind->bias];
}

static enum sl_activation activation_of(const struct sl_layer_tail *around)
{
    return around->hidden ? around->activation : SL_ACT_NONE;
}

static int add_bias(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, float *x, uint64_t rows)
{
    const float *bias = bias_of(layer, params);
    return bias ? env->kernels->bias_act(x, rows, layer->d_out, bias, SL_ACT_NONE, &NO_DROPOUT)
                : SL_OK;
}

struct sl_layer_epilogue sl_layer_tail_offer(const struct sl_layer_tail *around,
                                             const struct sl_layer *layer, const float *params,
                                             bool training, const struct sl_dropout *dropout)
{
    return (struct sl_layer_epilogue){.offered = !normalises(around) && !around->rounds,
                                      .bias = bias_of(layer, params),
                                      .act = activation_of(around),
                                      .dropout =
                                          training && around->hidden ? *dropout : NO_DROPOUT};
}

// The last pass: bias, activation and dropout of x in place, to bf16, or both.
static int last_pass(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                     uint32_t dim, const float *bias, float *x, struct sl_layer_tail_tape *tape)
{
    const enum sl_activation act = activation_of(around);
    tape->y = x;
    if (!around->rounds)
        return env->kernels->bias_act(x, tape->rows, dim, bias, act, &tape->dropout);
    tape->rounded = sl_layer_bf16(env, tape->rows, dim);
    if (!tape->rounded)
        return SL_ENOMEM;
    if (!around->keeps)
        tape->y = NULL;
    return env->kernels->bias_act_bf16(x, tape->rows, dim, bias, act, &tape->dropout, tape->y,
                                       tape->rounded, sl_layer_pitch(dim));
}

int sl_layer_tail_forward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                          const struct sl_layer *layer, const float *params, float *x,
                          uint64_t rows, bool applied, bool training,
                          const struct sl_dropout *dropout, struct sl_layer_tail_tape *tape)
{
    *tape = (struct sl_layer_tail_tape){
        .rows = rows, .dropout = training && around->hidden ? *dropout : NO_DROPOUT, .y = x};
    if (applied)
        return SL_OK;
    if (!normalises(around))
        return last_pass(env, around, layer->d_out, bias_of(layer, params), x, tape);
    float *normal = sl_layer_floats(env, rows * layer->d_out);
    if (!normal)
        return SL_ENOMEM;
    const struct sl_norm norm = norm_of(around, layer);
    SL_TRY(add_bias(env, layer, params, x, rows));
    SL_TRY(sl_norm_forward(env, &norm, params, x, rows, training, normal, &tape->norm));
    return last_pass(env, around, layer->d_out, NULL, normal, tape);
}

int sl_layer_tail_backward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                           const struct sl_layer *layer, const float *params,
                           const struct sl_layer_tail_tape *tape, float *dy, float *gradient,
                           struct sl_bias_act_gradient *before)
{
    const struct sl_kernels *k = env->kernels;
    float *dbias =
        layer->kind->bias == SL_LAYER_NO_BIAS ? NULL : gradient + layer->offset[layer->kind->bias];
    *before = (struct sl_bias_act_gradient){.dbias = dbias};
    const void *output = tape->rounded ? (const void *)tape->rounded : tape->y;
    const uint64_t ld = tape->rounded ? sl_layer_pitch(layer->d_out) : 0;
    if (!normalises(around)) {
        before->y = output;
        before->y_bf16_ld = ld;
        before->act = activation_of(around);
        before->dropout = tape->dropout;
        return SL_OK;
    }
    const struct sl_norm norm = norm_of(around, layer);
    SL_TRY(k->bias_act_backward(dy, output, ld, tape->rows, layer->d_out, around->activation,
                                &tape->dropout, NULL));
    return sl_norm_backward(env, &norm, params, &tape->norm, dy, gradient, dy);
}

int sl_layer_tail_infer(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                        const struct sl_layer *layer, const float *params, float *x, uint64_t rows,
                        bool applied)
{
    if (applied)
        return SL_OK;
    const float *bias = bias_of(layer, params);
    if (normalises(around)) {
        const struct sl_norm norm = norm_of(around, layer);
        SL_TRY(add_bias(env, layer, params, x, rows));
        SL_TRY(sl_norm_infer(env, &norm, params, x, rows));
        bias = NULL;
    }
    return env->kernels->bias_act(x, rows, layer->d_out, bias, activation_of(around), &NO_DROPOUT);
}
