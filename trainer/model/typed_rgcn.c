/*
 * typed_rgcn.c - relational graph convolutions (Schlichtkrull et al., 2018), as
 * torch_geometric.nn.RGCNConv on all types in one matrix:
 *
 *   y_i = sum over the relations r that lead to i's type of (mean of x_j over i's drawn neighbours
 *         in r) W_r, and x_i root and bias
 *
 *   weight   (n_relations, d_in, d_out), the W_r; with model.bases B (B, d_in, d_out), of which
 *            comp (n_relations, B) makes them; with model.blocks K (n_relations, K, d_in / K,
 *            d_out / K), the blocks of their diagonals
 *   root (d_in, d_out), bias (d_out)
 *
 * Features of any width become rows of the hidden width first, by a linear layer for each type.
 */
#include "trainer/model/typed_layer.h"

#include "common/base/error.h"

enum { WEIGHT, COMP, N_TENSORS = 4 }; // COMP where there are bases; then root and bias

static uint32_t width(const struct sl_typed_layer *layer)
{
    return layer->d_out; // d_in, too
}

static uint32_t n_blocks(const struct sl_typed_layer *layer)
{
    return layer->options->blocks ? layer->options->blocks : 1;
}

// Floats of a relation's W.
static uint64_t each(const struct sl_typed_layer *layer)
{
    return (uint64_t)width(layer) * width(layer) / n_blocks(layer);
}

static int check(const struct sl_typed_layer *layer)
{
    if (width(layer) % n_blocks(layer) == 0)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "model.hidden: found %u with %u blocks, wanted a multiple of model.blocks",
                   width(layer), n_blocks(layer));
}

static uint32_t count(const struct sl_typed_layer *layer)
{
    return layer->options->bases ? N_TENSORS : N_TENSORS - 1;
}

static uint32_t root(const struct sl_typed_layer *layer)
{
    return count(layer) - 2;
}

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    const uint64_t n = layer->typed->n_relations, d = width(layer), bases = layer->options->bases;
    const uint64_t block = d / n_blocks(layer);
    const uint64_t full[] = {bases ? bases : n, d, d};
    const uint64_t blocks[] = {n, n_blocks(layer), block, block};
    const uint64_t comp[] = {n, bases};
    const float bound = sl_layer_glorot_bound(block, block);
    tensors[WEIGHT] = layer->options->blocks ? sl_typed_tensor(layer, "weight", 4, blocks, bound)
                                             : sl_typed_tensor(layer, "weight", 3, full, bound);
    tensors[root(layer)] = sl_typed_tensor(layer, "root", 2, full + 1, sl_layer_glorot_bound(d, d));
    tensors[root(layer) + 1] = sl_typed_tensor(layer, "bias", 1, full + 1, 0);
    if (bases)
        tensors[COMP] = sl_typed_tensor(layer, "comp", 2, comp, sl_layer_glorot_bound(n, bases));
}

static const float *at(const struct sl_typed_layer *layer, const float *params, uint32_t k)
{
    return params + layer->tensor[k].offset;
}

// *out (n_relations, each): the W of all relations.
static int weights_of(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                      const float *params, const float **out)
{
    const uint64_t n = layer->typed->n_relations, bases = layer->options->bases;
    *out = at(layer, params, WEIGHT);
    if (!bases)
        return SL_OK;
    float *made = sl_layer_floats(env, n * each(layer));
    if (!made)
        return SL_ENOMEM;
    *out = made;
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, n, each(layer), bases, 1,
                              at(layer, params, COMP), bases, at(layer, params, WEIGHT),
                              each(layer), 0, made, each(layer), env->pool);
}

// One of the three products of a diagonal of blocks: y += x W, dx = dy W' (assigned), dW += x' dy.
enum product { FORWARD, BACKWARD, GRADIENT };

static int product(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   enum product which, uint32_t blocks, uint64_t rows, const float *a,
                   const float *b, float *c)
{
    const uint64_t d = width(layer), side = d / blocks;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t column = i * side, block = column * side;
        int rc =
            which == FORWARD
                ? env->kernels->gemm(env->precision, SL_NO_TRANS, SL_NO_TRANS, rows, side, side, 1,
                                     a + column, d, b + block, side, 1, c + column, d, env->pool)
            : which == BACKWARD
                ? env->kernels->gemm(env->precision, SL_NO_TRANS, SL_TRANS, rows, side, side, 1,
                                     a + column, d, b + block, side, 0, c + column, d, env->pool)
                : env->kernels->gemm(env->precision, SL_TRANS, SL_NO_TRANS, side, side, rows, 1,
                                     a + column, d, b + column, d, 1, c + block, side, env->pool);
        SL_TRY(rc);
    }
    return SL_OK;
}

static uint32_t target_of(const struct sl_typed_layer *layer, const struct sl_typed_run *run)
{
    return layer->typed->relation[run->relation].target;
}

static int forward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const float *params, struct sl_typed_tape *tape)
{
    const uint64_t d = width(layer);
    const float *weights;
    SL_TRY(weights_of(env, layer, params, &weights));
    tape->own = (void *)(uintptr_t)weights;
    for (uint32_t t = 0; t < layer->typed->n_types; t++) {
        if (tape->n_dst[t] == 0)
            continue;
        tape->y[t] = sl_layer_floats(env, tape->n_dst[t] * d);
        if (!tape->y[t])
            return SL_ENOMEM;
        SL_TRY(env->kernels->gemm(env->precision, SL_NO_TRANS, SL_NO_TRANS, tape->n_dst[t], d, d, 1,
                                  tape->x[t], d, at(layer, params, root(layer)), d, 0, tape->y[t],
                                  d, env->pool));
    }
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        struct sl_typed_run *run = &tape->run[i];
        SL_TRY(sl_typed_means(env, layer, tape, 1, run));
        SL_TRY(product(env, layer, FORWARD, n_blocks(layer), run->csr.n_dst, run->aggregated,
                       weights + run->relation * each(layer), tape->y[target_of(layer, run)]));
    }
    return SL_OK;
}

// Gradients of comp and of the bases, for that of the W that they make.
static int bases_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                          const float *params, const float *dweights, float *gradient)
{
    const uint64_t n = layer->typed->n_relations, bases = layer->options->bases;
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, n, bases, each(layer), 1,
                              dweights, each(layer), at(layer, params, WEIGHT), each(layer), 1,
                              gradient + layer->tensor[COMP].offset, bases, env->pool));
    return env->kernels->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, bases, each(layer), n, 1,
                              at(layer, params, COMP), bases, dweights, each(layer), 1,
                              gradient + layer->tensor[WEIGHT].offset, each(layer), env->pool);
}

static int weights_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                            const float *params, const struct sl_typed_tape *tape, float **dy,
                            float *gradient)
{
    const uint64_t floats = layer->typed->n_relations * each(layer);
    float *dweights = gradient + layer->tensor[WEIGHT].offset;
    if (layer->options->bases) {
        dweights = sl_layer_floats(env, floats);
        if (!dweights)
            return SL_ENOMEM;
        SL_TRY(env->device->fill(dweights, 0, floats * sizeof *dweights));
    }
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const struct sl_typed_run *run = &tape->run[i];
        SL_TRY(product(env, layer, GRADIENT, n_blocks(layer), run->csr.n_dst, run->aggregated,
                       dy[target_of(layer, run)], dweights + run->relation * each(layer)));
    }
    return layer->options->bases ? bases_backward(env, layer, params, dweights, gradient) : SL_OK;
}

static int rows_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                         const float *params, const struct sl_typed_tape *tape, float **dy,
                         float **dx)
{
    const uint64_t d = width(layer);
    const float *weights = tape->own;
    struct sl_typed_sum sum;
    SL_TRY(sl_typed_sum_begin(env, layer, dx, &sum));
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const struct sl_typed_run *run = &tape->run[i];
        float *dmeans = sl_layer_floats(env, run->csr.n_dst * d);
        if (!dmeans)
            return SL_ENOMEM;
        SL_TRY(product(env, layer, BACKWARD, n_blocks(layer), run->csr.n_dst,
                       dy[target_of(layer, run)], weights + run->relation * each(layer), dmeans));
        SL_TRY(sl_typed_means_backward(env, layer, run, dmeans, &sum));
    }
    SL_TRY(sl_typed_fill_rest(env, layer, tape, &sum));
    for (uint32_t t = 0; t < layer->typed->n_types; t++)
        if (tape->n_dst[t] > 0)
            SL_TRY(env->kernels->gemm(env->precision, SL_NO_TRANS, SL_TRANS, tape->n_dst[t], d, d,
                                      1, dy[t], d, at(layer, params, root(layer)), d, 1, dx[t], d,
                                      env->pool));
    return SL_OK;
}

static int backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *params, const struct sl_typed_tape *tape, float **dy,
                    float *gradient, float **dx)
{
    const struct sl_layer as = {.d_out = layer->d_out};
    for (uint32_t t = 0; t < layer->typed->n_types; t++) {
        if (tape->n_dst[t] == 0)
            continue;
        SL_TRY(sl_layer_apply_before(env, &as, &tape->before[t], dy[t], tape->n_dst[t]));
        SL_TRY(product(env, layer, GRADIENT, 1, tape->n_dst[t], tape->x[t], dy[t],
                       gradient + layer->tensor[root(layer)].offset));
    }
    SL_TRY(weights_backward(env, layer, params, tape, dy, gradient));
    return dx ? rows_backward(env, layer, params, tape, dy, dx) : SL_OK;
}

const struct sl_typed_kind sl_typed_rgcn = {
    .name = "rgcn",
    .one_width = true,
    .updates_all = true,
    .check = check,
    .count = count,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
