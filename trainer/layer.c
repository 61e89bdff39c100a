#include "trainer/layer.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

/*
 * What a core does in a nanosecond, for sl_layer_transform_first(): constants on purpose, since a
 * measured value would let equal blocks take different ways on different days. Products reach
 * about 100 GFLOP/s on one core of the machines this was written on, gathered rows about 8 GB/s;
 * only the ratio matters, and only near the break-even point.
 */
static const double FLOP_PER_NS = 100.0;
static const double BYTE_PER_NS = 8.0;

float *sl_layer_floats(const struct sl_layer_env *env, uint64_t n)
{
    float *p = sl_mempool_alloc(env->pool, n * sizeof *p);
    if (!p)
        sl_fail(SL_ENOMEM,
                "no memory for %llu MiB of activations: make sampler.batch_size or the fanout "
                "smaller",
                (unsigned long long)(n * sizeof *p >> 20));
    return p;
}

uint32_t *sl_layer_words(const struct sl_layer_env *env, uint64_t n)
{
    return (uint32_t *)(void *)sl_layer_floats(env, n);
}

bool sl_layer_transform_first(const struct sl_layer *layer, const struct sl_csr_view *csr,
                              bool input_gradient)
{
    if (layer->order != SL_LAYER_AUTO)
        return layer->order == SL_LAYER_TRANSFORM_FIRST;
    if (layer->d_out >= layer->d_in)
        return false;
    // Products: forward and weight gradient, and the input gradient where it is wanted.
    double products = input_gradient ? 3 : 2;
    double flop = 2.0 * layer->d_in * layer->d_out * products;
    double edges = csr->indptr[csr->n_dst];
    // Aggregated last, the gradient must come back through the edges for the weights' sake; first,
    // only for the input's.
    double first = flop * csr->n_dst / FLOP_PER_NS +
                   (input_gradient ? 2 : 1) * edges * layer->d_in * sizeof(float) / BYTE_PER_NS;
    double last =
        flop * csr->n_src / FLOP_PER_NS + 2 * edges * layer->d_out * sizeof(float) / BYTE_PER_NS;
    return last < first;
}

int sl_layer_product(const struct sl_layer_env *env, const struct sl_layer *layer, const float *x,
                     uint64_t rows, const float *weight, float beta, float *y)
{
    return env->kernels->gemm(env->precision, SL_NO_TRANS, SL_TRANS, rows, layer->d_out,
                              layer->d_in, 1, x, layer->d_in, weight, layer->d_in, beta, y,
                              layer->d_out, env->pool);
}

int sl_layer_product_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, uint64_t rows, const float *weight, float beta,
                              float *dx)
{
    return env->kernels->gemm(env->precision, SL_NO_TRANS, SL_NO_TRANS, rows, layer->d_in,
                              layer->d_out, 1, dy, layer->d_out, weight, layer->d_in, beta, dx,
                              layer->d_in, env->pool);
}

int sl_layer_product_gradient(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, const float *x, uint64_t rows, float *dweight)
{
    return env->kernels->gemm(env->precision, SL_TRANS, SL_NO_TRANS, layer->d_out, layer->d_in,
                              rows, 1, dy, layer->d_out, x, layer->d_in, 1, dweight, layer->d_in,
                              env->pool);
}

float *sl_layer_edge_sums(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                          const float *weights)
{
    float *sums = sl_layer_floats(env, csr->n_dst);
    if (!sums)
        return NULL;
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        float sum = weights ? 0 : (float)(csr->indptr[i + 1] - csr->indptr[i]);
        for (uint32_t e = csr->indptr[i]; weights && e < csr->indptr[i + 1]; e++)
            sum += weights[e];
        sums[i] = sum;
    }
    return sums;
}

// y (n_dst, dim) = A x.
static int aggregate(const struct sl_layer_env *env, const struct sl_layer_tape *tape,
                     const float *x, uint32_t dim, float *y)
{
    struct sl_aggregate_args args = {
        .csr = tape->hop.csr,
        .dim = dim,
        .x_dtype = SL_DTYPE_F32,
        .x = x,
        .row_scale = tape->row_scale,
        .col_scale = tape->col_scale,
        .edge_weight = tape->hop.weights,
        .self_scale = tape->self_scale,
        .n_self = tape->self_scale ? tape->hop.csr.n_dst : 0,
        .y = y,
    };
    return env->kernels->aggregate(&args);
}

// dx (n_src, dim) = A' dy: the same sum over the transposed hop, rows and columns exchanged.
static int aggregate_backward(const struct sl_layer_env *env, const struct sl_layer_tape *tape,
                              const float *dy, uint32_t dim, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    uint32_t *indptr = sl_layer_words(env, (uint64_t)csr->n_src + 1);
    uint32_t n_edges = csr->indptr[csr->n_dst];
    uint32_t *indices = sl_layer_words(env, n_edges);
    uint32_t *edge = NULL;
    float *weights = NULL;
    if (!indptr || !indices)
        return SL_ENOMEM;
    if (tape->hop.weights) {
        edge = sl_layer_words(env, n_edges);
        weights = sl_layer_floats(env, n_edges);
        if (!edge || !weights)
            return SL_ENOMEM;
    }
    SL_TRY(env->kernels->transpose(csr, indptr, indices, edge, env->pool));
    if (weights)
        for (uint32_t e = 0; e < n_edges; e++)
            weights[e] = tape->hop.weights[edge[e]];
    struct sl_aggregate_args args = {
        .csr = {.n_dst = csr->n_src, .n_src = csr->n_dst, .indptr = indptr, .indices = indices},
        .dim = dim,
        .x_dtype = SL_DTYPE_F32,
        .x = dy,
        .row_scale = tape->col_scale,
        .col_scale = tape->row_scale,
        .edge_weight = weights,
        .self_scale = tape->self_scale,
        .n_self = tape->self_scale ? csr->n_dst : 0,
        .y = dx,
    };
    return env->kernels->aggregate(&args);
}

int sl_layer_propagate(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *weight, bool input_gradient, struct sl_layer_tape *tape)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    tape->y = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_out);
    if (!tape->y)
        return SL_ENOMEM;
    if (sl_layer_transform_first(layer, csr, input_gradient)) {
        tape->aggregated = NULL;
        float *z = sl_layer_floats(env, (uint64_t)csr->n_src * layer->d_out);
        if (!z)
            return SL_ENOMEM;
        SL_TRY(sl_layer_product(env, layer, tape->x, csr->n_src, weight, 0, z));
        return aggregate(env, tape, z, layer->d_out, tape->y);
    }
    tape->aggregated = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_in);
    if (!tape->aggregated)
        return SL_ENOMEM;
    SL_TRY(aggregate(env, tape, tape->x, layer->d_in, tape->aggregated));
    return sl_layer_product(env, layer, tape->aggregated, csr->n_dst, weight, 0, tape->y);
}

int sl_layer_propagate_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                                const float *weight, const struct sl_layer_tape *tape,
                                const float *dy, float *dweight, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    if (!tape->aggregated) {
        float *dz = sl_layer_floats(env, (uint64_t)csr->n_src * layer->d_out);
        if (!dz)
            return SL_ENOMEM;
        SL_TRY(aggregate_backward(env, tape, dy, layer->d_out, dz));
        SL_TRY(sl_layer_product_gradient(env, layer, dz, tape->x, csr->n_src, dweight));
        return dx ? sl_layer_product_backward(env, layer, dz, csr->n_src, weight, 0, dx) : SL_OK;
    }
    SL_TRY(sl_layer_product_gradient(env, layer, dy, tape->aggregated, csr->n_dst, dweight));
    if (!dx)
        return SL_OK;
    float *d_aggregated = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_in);
    if (!d_aggregated)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, layer, dy, csr->n_dst, weight, 0, d_aggregated));
    return aggregate_backward(env, tape, d_aggregated, layer->d_in, dx);
}
