#include "trainer/jumping.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"

enum { WEIGHT, BIAS };

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

// outputs (rows, n_outputs, every `stride` floats) = h (rows, hidden) W_l' + beta * outputs.
static int product(const struct sl_layer_env *env, const struct sl_jumping *j, const float *params,
                   uint32_t layer, const float *h, uint64_t rows, float beta, float *outputs,
                   uint32_t stride)
{
    const float *weight = params + j->offset[WEIGHT];
    if (j->kind == SL_JUMPING_CAT)
        weight += (uint64_t)layer * j->hidden;
    return env->kernels->gemm(env->precision, SL_NO_TRANS, SL_TRANS, rows, j->n_outputs, j->hidden,
                              1, h, j->hidden, weight, width(j), beta, outputs, stride, env->pool);
}

static int add_bias(const struct sl_layer_env *env, const struct sl_jumping *j, const float *params,
                    float *outputs, uint64_t rows)
{
    return env->kernels->bias_act(outputs, rows, j->n_outputs, params + j->offset[BIAS],
                                  SL_ACT_NONE, &NO_DROPOUT);
}

SL_SIMD static void make_larger(float *max, const float *h, uint64_t n)
{
    for (uint64_t e = 0; e < n; e++)
        max[e] = max[e] >= h[e] ? max[e] : h[e];
}

static int forward_max(const struct sl_layer_env *env, const struct sl_jumping *j,
                       const float *params, struct sl_jumping_tape *tape, float *outputs)
{
    uint64_t n = tape->rows * j->hidden;
    tape->max = sl_layer_floats(env, n);
    if (!tape->max)
        return SL_ENOMEM;
    memcpy(tape->max, tape->h[0], n * sizeof *tape->max);
    for (uint32_t l = 1; l < j->n_layers; l++)
        make_larger(tape->max, tape->h[l], n);
    return product(env, j, params, 0, tape->max, tape->rows, 0, outputs, j->n_outputs);
}

int sl_jumping_forward(const struct sl_layer_env *env, const struct sl_jumping *j,
                       const float *params, struct sl_jumping_tape *tape, float **outputs)
{
    float *out = *outputs = tape->outputs = sl_layer_floats(env, tape->rows * j->n_outputs);
    if (!out)
        return SL_ENOMEM;
    if (j->kind == SL_JUMPING_MAX)
        SL_TRY(forward_max(env, j, params, tape, out));
    else if (j->kind == SL_JUMPING_LAST)
        SL_TRY(
            product(env, j, params, 0, tape->h[j->n_layers - 1], tape->rows, 0, out, j->n_outputs));
    for (uint32_t l = 0; j->kind == SL_JUMPING_CAT && l < j->n_layers; l++)
        SL_TRY(product(env, j, params, l, tape->h[l], tape->rows, l > 0, out, j->n_outputs));
    return add_bias(env, j, params, out, tape->rows);
}

// dh (rows, hidden) = doutputs W_l + beta * dh.
static int product_backward(const struct sl_layer_env *env, const struct sl_jumping *j,
                            const float *params, uint32_t layer, const float *doutputs,
                            uint64_t rows, float beta, float *dh)
{
    const float *weight = params + j->offset[WEIGHT];
    if (j->kind == SL_JUMPING_CAT)
        weight += (uint64_t)layer * j->hidden;
    return env->kernels->gemm(env->precision, SL_NO_TRANS, SL_NO_TRANS, rows, j->hidden,
                              j->n_outputs, 1, doutputs, j->n_outputs, weight, width(j), beta, dh,
                              j->hidden, env->pool);
}

// Of dmax what belongs to `layer`: it has the maximum, and no layer before has it too.
static void backward_max(const struct sl_jumping *j, const struct sl_jumping_tape *tape,
                         uint32_t layer, const float *dmax, float *dy)
{
    for (uint64_t e = 0; e < tape->rows * j->hidden; e++) {
        bool first = tape->h[layer][e] == tape->max[e];
        for (uint32_t l = 0; first && l < layer; l++)
            first = tape->h[l][e] != tape->max[e];
        dy[e] += first ? dmax[e] : 0;
    }
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
    if (last)
        memset(dy, 0, tape->rows * j->hidden * sizeof *dy);
    backward_max(j, tape, layer, dmax, dy);
    return SL_OK;
}

// dW_l (n_outputs, hidden) += doutputs' h.
static int weight_gradient(const struct sl_layer_env *env, const struct sl_jumping *j,
                           uint32_t layer, const float *doutputs, const float *h, uint64_t rows,
                           float *gradient)
{
    float *dweight = gradient + j->offset[WEIGHT];
    if (j->kind == SL_JUMPING_CAT)
        dweight += (uint64_t)layer * j->hidden;
    return env->kernels->gemm(env->precision, SL_TRANS, SL_NO_TRANS, j->n_outputs, j->hidden, rows,
                              1, doutputs, j->n_outputs, h, j->hidden, 1, dweight, width(j),
                              env->pool);
}

int sl_jumping_gradient(const struct sl_layer_env *env, const struct sl_jumping *j,
                        const struct sl_jumping_tape *tape, float *doutputs, float *gradient)
{
    // The column sums, which are the bias's gradient; doutputs stays as it is.
    SL_TRY(env->kernels->bias_act_backward(doutputs, tape->outputs, tape->rows, j->n_outputs,
                                           SL_ACT_NONE, &NO_DROPOUT, gradient + j->offset[BIAS]));
    if (j->kind == SL_JUMPING_MAX)
        return weight_gradient(env, j, 0, doutputs, tape->max, tape->rows, gradient);
    uint32_t first = j->kind == SL_JUMPING_LAST ? j->n_layers - 1 : 0;
    for (uint32_t l = first; l < j->n_layers; l++)
        SL_TRY(weight_gradient(env, j, l, doutputs, tape->h[l], tape->rows, gradient));
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
static void copy_sums(const struct sl_jumping *j, const float *bank, uint32_t layer, uint64_t rows,
                      float *to, uint32_t to_stride)
{
    const uint32_t stride = sl_jumping_width(j);
    const float *from = bank + (layer & 1) * j->n_outputs;
    for (uint64_t i = 0; i < rows; i++)
        memcpy(to + i * to_stride, from + i * stride, j->n_outputs * sizeof *to);
}

int sl_jumping_gather(const struct sl_layer_env *env, const struct sl_jumping *j,
                      const float *params, uint32_t layer, const float *h, uint64_t rows,
                      float *bank)
{
    if (j->kind == SL_JUMPING_CAT) {
        const uint32_t stride = sl_jumping_width(j);
        float *to = bank + (layer & 1) * j->n_outputs;
        if (layer > 0)
            copy_sums(j, bank, layer - 1, rows, to, stride);
        return product(env, j, params, layer, h, rows, layer > 0, to, stride);
    }
    if (layer == 0)
        memcpy(bank, h, rows * j->hidden * sizeof *bank);
    else
        make_larger(bank, h, rows * j->hidden);
    return SL_OK;
}

int sl_jumping_finish(const struct sl_layer_env *env, const struct sl_jumping *j,
                      const float *params, float *h, uint64_t rows, const float *bank,
                      float *outputs)
{
    const uint32_t last = j->n_layers - 1;
    const bool gathered = sl_jumping_width(j) > 0;
    const bool sums = gathered && j->kind == SL_JUMPING_CAT;
    if (sums)
        copy_sums(j, bank, last - 1, rows, outputs, j->n_outputs);
    else if (gathered)
        make_larger(h, bank, rows * j->hidden);
    SL_TRY(product(env, j, params, last, h, rows, sums, outputs, j->n_outputs));
    return add_bias(env, j, params, outputs, rows);
}
