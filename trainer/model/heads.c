#include "trainer/model/heads.h"

#include "common/base/error.h"

uint32_t sl_heads_count(const struct sl_layer *layer)
{
    return layer->options->heads;
}

uint32_t sl_heads_width(const struct sl_layer *layer)
{
    return layer->last ? layer->d_out : layer->d_out / sl_heads_count(layer);
}

uint32_t sl_heads_columns(const struct sl_layer *layer)
{
    return sl_heads_count(layer) * sl_heads_width(layer);
}

struct sl_layer sl_heads_widened(const struct sl_layer *layer)
{
    struct sl_layer wide = *layer;
    wide.d_out = sl_heads_columns(layer);
    return wide;
}

int sl_heads_check(const struct sl_layer *layer)
{
    uint32_t heads = sl_heads_count(layer);
    if (heads == 0)
        return sl_fail(SL_EINVAL, "model.heads: found 0, wanted at least 1");
    if (!layer->last && layer->d_out % heads != 0)
        return sl_fail(SL_EINVAL,
                       "model.hidden: found %u, wanted a multiple of model.heads, which is %u, "
                       "since hidden layers put the heads side by side",
                       layer->d_out, heads);
    return SL_OK;
}

bool sl_heads_self_edge(const struct sl_layer *layer)
{
    (void)layer;
    return true;
}

struct sl_tensor sl_heads_vectors(const struct sl_layer *layer, const char *name)
{
    uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    struct sl_tensor t =
        sl_layer_matrix(layer, name, heads, width, sl_layer_glorot_bound(heads, width));
    t.rank = 3;
    t.shape[0] = 1;
    t.shape[1] = heads;
    t.shape[2] = width;
    return t;
}

struct sl_tensor sl_heads_of_edges(const struct sl_layer *layer)
{
    const uint32_t all = sl_heads_columns(layer), dim = layer->options->edge_dim;
    return sl_layer_matrix(layer, "lin_edge.weight", all, dim, sl_layer_glorot_bound(all, dim));
}

struct sl_tensor sl_heads_residual(const struct sl_layer *layer)
{
    return sl_layer_matrix(layer, "res.weight", layer->d_out, layer->d_in,
                           sl_layer_glorot_bound(layer->d_out, layer->d_in));
}

int sl_heads_drop(const struct sl_layer_env *env, const struct sl_layer *layer,
                  const struct sl_layer_tape *tape, float *alpha, float **kept)
{
    uint32_t heads = sl_heads_count(layer), n_edges = tape->hop.csr.n_edges;
    uint64_t n = (uint64_t)n_edges * heads;
    *kept = alpha;
    if (!tape->training || tape->dropout.rate <= 0)
        return SL_OK;
    *kept = sl_layer_floats(env, n);
    if (!*kept)
        return SL_ENOMEM;
    SL_TRY(env->device->copy(*kept, alpha, n * sizeof *alpha));
    return env->kernels->dropout(*kept, n_edges, heads, &tape->dropout);
}

int sl_heads_sum(const struct sl_layer_env *env, const struct sl_layer *layer, const float *z,
                 const float *kept, const float *residual, struct sl_layer_tape *tape)
{
    const uint32_t n_dst = tape->hop.csr.n_dst, n_heads = sl_heads_count(layer);
    tape->y = sl_layer_floats(env, (uint64_t)n_dst * layer->d_out);
    float *all =
        layer->last ? sl_layer_floats(env, (uint64_t)n_dst * sl_heads_columns(layer)) : tape->y;
    if (!tape->y || !all)
        return SL_ENOMEM;
    const struct sl_aggregate_heads_args args = {
        .csr = tape->hop.csr,
        .heads = n_heads,
        .dim = sl_heads_width(layer),
        .x = z,
        .weight = kept,
        .y = all,
    };
    SL_TRY(env->kernels->aggregate_heads(&args));
    if (layer->last)
        SL_TRY(env->kernels->sum_heads(all, n_dst, n_heads, layer->d_out, 1.0f / (float)n_heads, 0,
                                       tape->y));
    if (!layer->options->residual)
        return SL_OK;
    const struct sl_layer_term own[2] = {sl_layer_source(layer, tape, residual)};
    return sl_layer_last_products(env, layer, own, n_dst, 1, tape->y, &tape->after);
}

int sl_heads_spread(const struct sl_layer_env *env, const struct sl_layer *layer, float *dy,
                    uint32_t n_dst, float **all)
{
    uint32_t heads = sl_heads_count(layer);
    *all = dy;
    if (!layer->last)
        return SL_OK;
    *all = sl_layer_floats(env, (uint64_t)n_dst * sl_heads_columns(layer));
    if (!*all)
        return SL_ENOMEM;
    return env->kernels->spread_heads(dy, n_dst, heads, layer->d_out, 1.0f / (float)heads, *all);
}

int sl_heads_residual_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                               const float *dy, const struct sl_layer_tape *tape,
                               const float *weight, float *dweight, float *dx)
{
    const uint32_t n_dst = tape->hop.csr.n_dst;
    if (!layer->options->residual)
        return SL_OK;
    const struct sl_layer_gradient own = sl_layer_source_gradient(layer, tape, dweight);
    SL_TRY(sl_layer_product_gradient(env, layer, dy, &own, n_dst));
    return dx ? sl_layer_product_backward(env, layer, dy, n_dst, weight, 1, dx) : SL_OK;
}

int sl_heads_put(const struct sl_layer_env *env, const struct sl_layer *layer,
                 const struct sl_infer_piece *piece, const float *z, uint32_t first, uint32_t heads)
{
    const uint32_t n_dst = piece->csr.n_dst, width = sl_heads_width(layer);
    if (layer->last)
        return env->kernels->sum_heads(z, n_dst, heads, width, 1.0f / (float)sl_heads_count(layer),
                                       first > 0, piece->y);
    if (z == piece->y)
        return SL_OK;
    size_t columns = (size_t)heads * width * sizeof *z;
    return env->device->copy_2d(piece->y + (uint64_t)first * width, layer->d_out * sizeof *z, z,
                                columns, columns, n_dst);
}

int sl_heads_infer_residual(const struct sl_layer_env *env, const struct sl_layer *layer,
                            const struct sl_infer_piece *piece, const float *weight)
{
    const float *own;
    if (!layer->options->residual)
        return SL_OK;
    SL_TRY(sl_layer_own_rows(env, layer, piece, &own));
    return sl_layer_last_product(env, layer, own, piece->csr.n_dst, weight, 1, piece->y,
                                 piece->after);
}
