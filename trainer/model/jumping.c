#include "trainer/model/jumping.h"

#include <math.h>
#include <stdio.h>

#include "common/base/error.h"

enum { WEIGHT, BIAS };

_Static_assert((int)SL_CONFIG_MAX_LAYERS <= (int)SL_MAXIMUM_LAYERS, "the maximum takes all layers");

static const struct sl_dropout NO_DROPOUT;

// Columns of lin.weight.
static uint32_t width(const struct sl_jumping *j)
{
    return j->kind == SL_JUMPING_CAT ? j->n_layers * j->hidden : j->hidden;
}

uint32_t sl_jumping_describe(const struct sl_jumping *j,
                             struct sl_tensor tensors[SL_JUMPING_TENSORS])
{
    if (j->kind == SL_JUMPING_NONE)
        return 0;
    // The default of a linear layer, weight and bias: U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
    const float bound = 1.0f / sqrtf((float)width(j));
    tensors[WEIGHT] =
        (struct sl_tensor){.rank = 2, .shape = {j->n_outputs, width(j)}, .init_bound = bound};
    snprintf(tensors[WEIGHT].name, sizeof tensors[WEIGHT].name, "lin.weight");
    tensors[BIAS] = (struct sl_tensor){.rank = 1, .shape = {j->n_outputs}, .init_bound = bound};
    snprintf(tensors[BIAS].name, sizeof tensors[BIAS].name, "lin.bias");
    return SL_JUMPING_TENSORS;
}

// What one layer's product adds to, and what follows it.
struct product {
    uint32_t layer;
    float beta;
    const float *bias; // NULL for none
    float *outputs;    // (rows, n_outputs, every `stride` floats)
    uint32_t stride;
};

// Rows (hidden) as products read them.
static struct sl_rounded_operand rows_of_f32(const struct sl_jumping *j, const float *h)
{
    return (struct sl_rounded_operand){h, j->hidden, false};
}

// The output of a layer likewise.
static struct sl_rounded_operand output_of(const struct sl_jumping *j,
                                           const struct sl_jumping_tape *tape, uint32_t layer)
{
    const uint16_t *rounded = tape->rounded[layer];
    return rounded ? (struct sl_rounded_operand){rounded, sl_layer_pitch(j->hidden), true}
                   : rows_of_f32(j, tape->h[layer]);
}

// outputs = h (rows, hidden) W_l' + beta * outputs + bias.
static int product(const struct sl_layer_env *env, const struct sl_jumping *j, const float *params,
                   const struct product *p, struct sl_rounded_operand h, uint64_t rows)
{
    const float *weight = params + j->offset[WEIGHT];
    if (j->kind == SL_JUMPING_CAT)
        weight += (uint64_t)p->layer * j->hidden;
    const struct sl_rounded_operand w = sl_rounded_weights_find(env->rounded, weight, width(j));
    const struct sl_gemm_bias_act_args args = {
        .precision = env->precision | (h.bf16 ? SL_PRECISION_A : 0) | (w.bf16 ? SL_PRECISION_B : 0),
        .m = rows,
        .n = j->n_outputs,
        .k = j->hidden,
        .a = h.p,
        .b = w.p,
        .lda = h.ld,
        .ldb = w.ld,
        .beta = p->beta,
        .c = p->outputs,
        .ldc = p->stride,
        .bias = p->bias,
    };
    return env->kernels->gemm_bias_act(&args, env->pool);
}

static int forward_max(const struct sl_layer_env *env, const struct sl_jumping *j,
                       const float *params, struct sl_jumping_tape *tape, float *outputs)
{
    uint64_t n = tape->rows * j->hidden;
    tape->max = sl_layer_floats(env, n);
    if (!tape->max)
        return SL_ENOMEM;
    SL_TRY(env->device->copy(tape->max, tape->h[0], n * sizeof *tape->max));
    for (uint32_t l = 1; l < j->n_layers; l++)
        SL_TRY(env->kernels->maximum(n, tape->h[l], tape->max));
    const struct product all = {
        .bias = params + j->offset[BIAS], .outputs = outputs, .stride = j->n_outputs};
    return product(env, j, params, &all, rows_of_f32(j, tape->max), tape->rows);
}

int sl_jumping_forward(const struct sl_layer_env *env, const struct sl_jumping *j,
                       const float *params, struct sl_jumping_tape *tape, float **outputs)
{
    float *out = *outputs = tape->outputs = sl_layer_floats(env, tape->rows * j->n_outputs);
    if (!out)
        return SL_ENOMEM;
    if (j->kind == SL_JUMPING_MAX)
        return forward_max(env, j, params, tape, out);
    const uint32_t last = j->n_layers - 1, first = j->kind == SL_JUMPING_CAT ? 0 : last;
    for (uint32_t l = first; l <= last; l++) {
        const struct product one = {.layer = l,
                                    .beta = l > first,
                                    .bias = l == last ? params + j->offset[BIAS] : NULL,
                                    .outputs = out,
                                    .stride = j->n_outputs};
        SL_TRY(product(env, j, params, &one, output_of(j, tape, l), tape->rows));
    }
    return SL_OK;
}

// dh (rows, hidden) = doutputs W_l + beta * dh.
static int product_backward(const struct sl_layer_env *env, const struct sl_jumping *j,
                            const float *params, uint32_t layer, const float *doutputs,
                            uint64_t rows, float beta, float *dh)
{
    const float *weight = params + j->offset[WEIGHT];
    if (j->kind == SL_JUMPING_CAT)
        weight += (uint64_t)layer * j->hidden;
    const struct sl_rounded_operand w = sl_rounded_weights_find(env->rounded, weight, width(j));
    return env->kernels->gemm(env->precision | (w.bf16 ? SL_PRECISION_B : 0), SL_NO_TRANS,
                              SL_NO_TRANS, rows, j->hidden, j->n_outputs, 1, doutputs, j->n_outputs,
                              w.p, w.ld, beta, dh, j->hidden, env->pool);
}

int sl_jumping_backward(const struct sl_layer_env *env, const struct sl_jumping *j,
                        const float *params, const struct sl_jumping_tape *tape, uint32_t layer,
                        const float *doutputs, float *dy)
{
    bool last = layer + 1 == j->n_layers;
    if (j->kind == SL_JUMPING_LAST)
        return last ? product_backward(env, j, params, 0, doutputs, tape->rows, 0, dy) : SL_OK;
    if (j->kind == SL_JUMPING_CAT)
        return product_backward(env, j, params, layer, doutputs, tape->rows, !last, dy);
    float *dmax = sl_layer_floats(env, tape->rows * j->hidden);
    if (!dmax)
        return SL_ENOMEM;
    SL_TRY(product_backward(env, j, params, 0, doutputs, tape->rows, 0, dmax));
    const uint64_t n = tape->rows * j->hidden;
    if (last)
        SL_TRY(env->device->fill(dy, 0, n * sizeof *dy));
    return env->kernels->maximum_backward(n, tape->h, layer, tape->max, dmax, dy);
}

// dW_l (n_outputs, hidden) += doutputs' h.
static int weight_gradient(const struct sl_layer_env *env, const struct sl_jumping *j,
                           uint32_t layer, const float *doutputs, struct sl_rounded_operand h,
                           uint64_t rows, float *gradient)
{
    float *dweight = gradient + j->offset[WEIGHT];
    if (j->kind == SL_JUMPING_CAT)
        dweight += (uint64_t)layer * j->hidden;
    return env->kernels->gemm(env->precision | (h.bf16 ? SL_PRECISION_B : 0), SL_TRANS, SL_NO_TRANS,
                              j->n_outputs, j->hidden, rows, 1, doutputs, j->n_outputs, h.p, h.ld,
                              1, dweight, width(j), env->pool);
}

int sl_jumping_gradient(const struct sl_layer_env *env, const struct sl_jumping *j,
                        const struct sl_jumping_tape *tape, float *doutputs, float *gradient)
{
    // The column sums, which are the bias's gradient; doutputs stays as it is.
    SL_TRY(env->kernels->bias_act_backward(doutputs, tape->outputs, 0, tape->rows, j->n_outputs,
                                           SL_ACT_NONE, &NO_DROPOUT, gradient + j->offset[BIAS]));
    if (j->kind == SL_JUMPING_MAX)
        return weight_gradient(env, j, 0, doutputs, rows_of_f32(j, tape->max), tape->rows,
                               gradient);
    uint32_t first = j->kind == SL_JUMPING_LAST ? j->n_layers - 1 : 0;
    for (uint32_t l = first; l < j->n_layers; l++)
        SL_TRY(weight_gradient(env, j, l, doutputs, output_of(j, tape, l), tape->rows, gradient));
    return SL_OK;
}

// Sums of the layers so far, for cat: how many of them a vertex has.
static uint32_t halves(const struct sl_jumping *j)
{
    return j->n_layers > 2 ? 2 : 1;
}

uint32_t sl_jumping_width(const struct sl_jumping *j)
{
    if (j->n_layers < 2)
        return 0;
    return j->kind == SL_JUMPING_CAT   ? halves(j) * j->n_outputs
           : j->kind == SL_JUMPING_MAX ? j->hidden
                                       : 0;
}

// to (rows, n_outputs, every `to_stride` floats) = the sums that `layer` left.
static int copy_sums(const struct sl_layer_env *env, const struct sl_jumping *j, const float *bank,
                     uint32_t layer, uint64_t rows, float *to, uint32_t to_stride)
{
    const float *from = bank + (layer & 1) * j->n_outputs;
    return env->device->copy_2d(to, to_stride * sizeof *to, from,
                                sl_jumping_width(j) * sizeof *from, j->n_outputs * sizeof *to,
                                rows);
}

int sl_jumping_gather(const struct sl_layer_env *env, const struct sl_jumping *j,
                      const float *params, uint32_t layer, const float *h, uint64_t rows,
                      float *bank)
{
    if (j->kind == SL_JUMPING_CAT) {
        const uint32_t stride = sl_jumping_width(j);
        float *to = bank + (layer & 1) * j->n_outputs;
        if (layer > 0)
            SL_TRY(copy_sums(env, j, bank, layer - 1, rows, to, stride));
        const struct product one = {
            .layer = layer, .beta = layer > 0, .outputs = to, .stride = stride};
        return product(env, j, params, &one, rows_of_f32(j, h), rows);
    }
    if (layer == 0)
        return env->device->copy(bank, h, rows * j->hidden * sizeof *bank);
    return env->kernels->maximum(rows * j->hidden, h, bank);
}

int sl_jumping_finish(const struct sl_layer_env *env, const struct sl_jumping *j,
                      const float *params, float *h, uint64_t rows, const float *bank,
                      float *outputs)
{
    const uint32_t last = j->n_layers - 1;
    const bool gathered = sl_jumping_width(j) > 0;
    const bool sums = gathered && j->kind == SL_JUMPING_CAT;
    if (sums)
        SL_TRY(copy_sums(env, j, bank, last - 1, rows, outputs, j->n_outputs));
    else if (gathered)
        SL_TRY(env->kernels->maximum(rows * j->hidden, bank, h));
    const struct product all = {.layer = last,
                                .beta = sums,
                                .bias = params + j->offset[BIAS],
                                .outputs = outputs,
                                .stride = j->n_outputs};
    return product(env, j, params, &all, rows_of_f32(j, h), rows);
}
