#include "trainer/model/norm.h"

#include <stdio.h>

#include "common/base/error.h"

static const float EPS = 1e-5f; // torch's default for both

enum { WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR, BATCHES };

static void name_tensor(struct sl_tensor *t, const char *prefix, const char *module,
                        const char *name)
{
    snprintf(t->name, sizeof t->name, "%s%s.%s", prefix, module, name);
}

uint32_t sl_norm_describe(enum sl_norm_kind kind, uint32_t dim, const char *prefix,
                          struct sl_tensor tensors[SL_NORM_TENSORS])
{
    if (kind == SL_NORM_NONE)
        return 0;
    const char *module = kind == SL_NORM_BATCH ? ".module" : "";
    const struct sl_tensor vector = {.role = SL_TENSOR_LEARNED, .rank = 1, .shape = {dim}};
    tensors[WEIGHT] = vector;
    tensors[WEIGHT].init_constant = 1;
    name_tensor(&tensors[WEIGHT], prefix, module, "weight");
    tensors[BIAS] = vector;
    name_tensor(&tensors[BIAS], prefix, module, "bias");
    if (kind == SL_NORM_LAYER)
        return BIAS + 1;
    tensors[RUNNING_MEAN] = vector;
    tensors[RUNNING_MEAN].role = SL_TENSOR_RUNNING;
    name_tensor(&tensors[RUNNING_MEAN], prefix, module, "running_mean");
    tensors[RUNNING_VAR] = tensors[RUNNING_MEAN];
    tensors[RUNNING_VAR].init_constant = 1;
    name_tensor(&tensors[RUNNING_VAR], prefix, module, "running_var");
    tensors[BATCHES] = (struct sl_tensor){.role = SL_TENSOR_COUNTER};
    name_tensor(&tensors[BATCHES], prefix, module, "num_batches_tracked");
    return SL_NORM_TENSORS;
}

static struct sl_norm_args arguments(const struct sl_norm *norm, const float *params,
                                     const float *x, uint64_t rows, float *y)
{
    return (struct sl_norm_args){
        .rows = rows,
        .dim = norm->dim,
        .eps = EPS,
        .x = x,
        .gamma = params + norm->offset[WEIGHT],
        .beta = params + norm->offset[BIAS],
        .y = y,
    };
}

// The running statistics as one multiplication and one addition a column.
static int normalise_running(const struct sl_layer_env *env, const struct sl_norm *norm,
                             const float *params, float *x, uint64_t rows)
{
    const float *gamma = params + norm->offset[WEIGHT], *beta = params + norm->offset[BIAS];
    const float *mean = params + norm->offset[RUNNING_MEAN];
    const float *variance = params + norm->offset[RUNNING_VAR];
    float *scale = sl_layer_floats(env, norm->dim), *shift = sl_layer_floats(env, norm->dim);
    if (!scale || !shift)
        return SL_ENOMEM;
    SL_TRY(env->kernels->running_scale(norm->dim, EPS, gamma, beta, mean, variance, scale, shift));
    return env->kernels->scale_columns(x, rows, norm->dim, scale, shift);
}

int sl_norm_forward(const struct sl_layer_env *env, const struct sl_norm *norm, const float *params,
                    const float *x, uint64_t rows, bool training, float *y,
                    struct sl_norm_tape *tape)
{
    bool batch = norm->kind == SL_NORM_BATCH;
    *tape = (struct sl_norm_tape){.rows = rows, .x = x, .batch = batch && training && rows > 1};
    if (!training || (batch && !tape->batch)) {
        SL_TRY(env->device->copy(y, x, rows * norm->dim * sizeof *y));
        return sl_norm_infer(env, norm, params, y, rows);
    }
    uint64_t n = batch ? norm->dim : rows;
    tape->mean = sl_layer_floats(env, n);
    tape->inverse = sl_layer_floats(env, n);
    tape->variance = batch ? sl_layer_floats(env, n) : NULL;
    if (!tape->mean || !tape->inverse || (batch && !tape->variance))
        return SL_ENOMEM;
    struct sl_norm_args args = arguments(norm, params, x, rows, y);
    args.mean = tape->mean;
    args.inverse = tape->inverse;
    args.variance = tape->variance;
    return batch ? env->kernels->batch_norm(&args, env->pool) : env->kernels->layer_norm(&args);
}

// That of the running statistics, where at most one row left none of its own.
static int running_backward(const struct sl_layer_env *env, const struct sl_norm_grad_args *args,
                            const float *variance)
{
    return env->kernels->running_backward(args->rows, args->dim, EPS, args->x, args->gamma,
                                          args->mean, variance, args->dy, args->dgamma, args->dbeta,
                                          args->dx);
}

int sl_norm_backward(const struct sl_layer_env *env, const struct sl_norm *norm,
                     const float *params, const struct sl_norm_tape *tape, const float *dy,
                     float *gradient, float *dx)
{
    struct sl_norm_grad_args args = {
        .rows = tape->rows,
        .dim = norm->dim,
        .x = tape->x,
        .gamma = params + norm->offset[WEIGHT],
        .mean = tape->mean,
        .inverse = tape->inverse,
        .dy = dy,
        .dx = dx,
        .dgamma = gradient + norm->offset[WEIGHT],
        .dbeta = gradient + norm->offset[BIAS],
    };
    if (norm->kind == SL_NORM_LAYER)
        return env->kernels->layer_norm_backward(&args, env->pool);
    if (!tape->batch)
        args.mean = params + norm->offset[RUNNING_MEAN];
    const float *variance = tape->batch ? tape->variance : params + norm->offset[RUNNING_VAR];
    size_t bytes = norm->dim * sizeof *variance;
    SL_TRY(env->device->copy(gradient + norm->offset[RUNNING_MEAN], args.mean, bytes));
    SL_TRY(env->device->copy(gradient + norm->offset[RUNNING_VAR], variance, bytes));
    return tape->batch ? env->kernels->batch_norm_backward(&args, env->pool)
                       : running_backward(env, &args, variance);
}

int sl_norm_keep(const struct sl_layer_env *env, const struct sl_norm *norm, const float *params,
                 float *gradient)
{
    for (int i = RUNNING_MEAN; i <= RUNNING_VAR && norm->kind == SL_NORM_BATCH; i++)
        SL_TRY(env->device->copy(gradient + norm->offset[i], params + norm->offset[i],
                                 norm->dim * sizeof *gradient));
    return SL_OK;
}

int sl_norm_infer(const struct sl_layer_env *env, const struct sl_norm *norm, const float *params,
                  float *x, uint64_t rows)
{
    const struct sl_norm_args args = arguments(norm, params, x, rows, x);
    return norm->kind == SL_NORM_LAYER ? env->kernels->layer_norm(&args)
                                       : normalise_running(env, norm, params, x, rows);
}
