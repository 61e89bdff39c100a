#include "trainer/model/layer_tail.h"

#include "common/base/error.h"

static const struct sl_dropout NO_DROPOUT;

static struct sl_norm norm_of(const struct sl_layer_tail *around)
{
    return (struct sl_norm){
        .kind = around->norm, .dim = around->dim, .offset = around->norm_offset};
}

static bool normalises(const struct sl_layer_tail *around)
{
    return around->hidden && around->norm != SL_NORM_NONE;
}

static enum sl_activation activation_of(const struct sl_layer_tail *around)
{
    return around->hidden ? around->activation : SL_ACT_NONE;
}

static int add_bias(const struct sl_layer_env *env, uint32_t dim, const float *bias, float *x,
                    uint64_t rows)
{
    return bias ? env->kernels->bias_act(x, rows, dim, bias, SL_ACT_NONE, &NO_DROPOUT) : SL_OK;
}

struct sl_layer_epilogue sl_layer_tail_offer(const struct sl_layer_tail *around, const float *bias,
                                             bool training, const struct sl_dropout *dropout)
{
    return (struct sl_layer_epilogue){
        .offered = !normalises(around) && (!around->rounds || around->fuses),
        .bias = bias,
        .act = activation_of(around),
        .dropout = training && around->hidden ? *dropout : NO_DROPOUT};
}

// The last pass: bias, activation and dropout of x in place, to bf16, or both.
static int last_pass(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                     const float *bias, float *x, struct sl_layer_tail_tape *tape)
{
    const enum sl_activation act = activation_of(around);
    const uint32_t dim = around->dim;
    tape->y = x;
    if (!around->rounds)
        return env->kernels->bias_act(x, tape->rows, dim, bias, act, &tape->dropout);
    if (!tape->rounded)
        tape->rounded = sl_layer_bf16(env, tape->rows, dim);
    if (!tape->rounded)
        return SL_ENOMEM;
    if (!around->keeps)
        tape->y = NULL;
    return env->kernels->bias_act_bf16(x, tape->rows, dim, bias, act, &tape->dropout, tape->y,
                                       tape->rounded, sl_layer_pitch(dim));
}

int sl_layer_tail_forward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                          const float *params, const struct sl_layer_epilogue *after, float *x,
                          uint64_t rows, bool training, const struct sl_dropout *dropout,
                          struct sl_layer_tail_tape *tape)
{
    *tape = (struct sl_layer_tail_tape){
        .rows = rows, .dropout = training && around->hidden ? *dropout : NO_DROPOUT, .y = x};
    tape->rounded = after->rounded;
    if (after->applied) {
        tape->y = after->rounded ? NULL : x;
        return SL_OK;
    }
    if (!normalises(around))
        return last_pass(env, around, after->bias, x, tape);
    float *normal = sl_layer_floats(env, rows * around->dim);
    if (!normal)
        return SL_ENOMEM;
    const struct sl_norm norm = norm_of(around);
    SL_TRY(add_bias(env, around->dim, after->bias, x, rows));
    SL_TRY(sl_norm_forward(env, &norm, params, x, rows, training, normal, &tape->norm));
    return last_pass(env, around, NULL, normal, tape);
}

int sl_layer_tail_backward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                           const float *params, const struct sl_layer_tail_tape *tape, float *dy,
                           float *gradient, float *dbias, struct sl_bias_act_gradient *before)
{
    const struct sl_kernels *k = env->kernels;
    *before = (struct sl_bias_act_gradient){.dbias = dbias};
    const void *output = tape->rounded ? (const void *)tape->rounded : tape->y;
    const uint64_t ld = tape->rounded ? sl_layer_pitch(around->dim) : 0;
    if (!normalises(around)) {
        before->y = output;
        before->y_bf16_ld = ld;
        before->act = activation_of(around);
        before->dropout = tape->dropout;
        return SL_OK;
    }
    const struct sl_norm norm = norm_of(around);
    SL_TRY(k->bias_act_backward(dy, output, ld, tape->rows, around->dim, around->activation,
                                &tape->dropout, NULL));
    return sl_norm_backward(env, &norm, params, &tape->norm, dy, gradient, dy);
}

int sl_layer_tail_infer(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                        const float *params, const struct sl_layer_epilogue *after, float *x,
                        uint64_t rows)
{
    if (after->applied)
        return SL_OK;
    const float *bias = after->bias;
    if (normalises(around)) {
        const struct sl_norm norm = norm_of(around);
        SL_TRY(add_bias(env, around->dim, bias, x, rows));
        SL_TRY(sl_norm_infer(env, &norm, params, x, rows));
        bias = NULL;
    }
    return env->kernels->bias_act(x, rows, around->dim, bias, activation_of(around), &NO_DROPOUT);
}
