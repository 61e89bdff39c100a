#include "trainer/model/typed_layer.h"

#include <stdio.h>
#include <string.h>

#include "common/base/error.h"

// "convs.7.convs.<author___writes___paper>.lin_l.weight"
_Static_assert((int)SL_TENSOR_NAME_BYTES >= 3 * (int)SL_TYPE_NAME_BYTES + 48,
               "names of relations must fit");

static struct sl_tensor tensor_of(uint32_t rank, const uint64_t *shape, float init_bound)
{
    struct sl_tensor t = {.role = SL_TENSOR_LEARNED, .rank = rank, .init_bound = init_bound};
    memcpy(t.shape, shape, rank * sizeof *shape);
    return t;
}

struct sl_tensor sl_typed_tensor(const struct sl_typed_layer *layer, const char *name,
                                 uint32_t rank, const uint64_t *shape, float init_bound)
{
    struct sl_tensor t = tensor_of(rank, shape, init_bound);
    snprintf(t.name, sizeof t.name, "convs.%u.%s", layer->index, name);
    return t;
}

// torch_geometric.nn.module_dict.ModuleDict writes a relation as <source___name___target>.
struct sl_tensor sl_relation_tensor(const struct sl_typed_layer *layer, uint32_t relation,
                                    const char *name, uint32_t rank, const uint64_t *shape,
                                    float init_bound)
{
    const struct sl_relation *r = &layer->typed->relation[relation];
    struct sl_tensor t = tensor_of(rank, shape, init_bound);
    snprintf(t.name, sizeof t.name, "convs.%u.convs.<%s___%s___%s>.%s", layer->index,
             layer->typed->type[r->source].name, r->name, layer->typed->type[r->target].name, name);
    return t;
}

int sl_typed_check_heads(const struct sl_typed_layer *layer)
{
    const uint32_t heads = layer->options->heads;
    if (heads > 0 && layer->d_out % heads == 0)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "model.hidden: found %u with %u heads, wanted a multiple of model.heads, since "
                   "layers put the heads side by side",
                   layer->d_out, heads);
}

static uint32_t n_incoming(const struct sl_typed_layer *layer, uint32_t t)
{
    return layer->incoming->first[t + 1] - layer->incoming->first[t];
}

static uint32_t incoming(const struct sl_typed_layer *layer, uint32_t t, uint32_t i)
{
    return layer->incoming->relation[layer->incoming->first[t] + i];
}

float sl_typed_scale(const struct sl_typed_layer *layer, uint32_t t)
{
    const uint32_t n = n_incoming(layer, t);
    return layer->options->relations == SL_RELATIONS_MEAN && n > 1 ? 1.0f / (float)n : 1.0f;
}

// Whether the sum is the tensor itself: a scale is not 1 for several only.
static bool is_alone(const struct sl_typed_layer *layer, uint32_t t)
{
    return layer->kind->per_relation == 0 || n_incoming(layer, t) == 1;
}

static const struct sl_tensor *tensor_for(const struct sl_typed_layer *layer, uint32_t t,
                                          uint32_t i, uint32_t k)
{
    const bool each = layer->kind->per_relation > 0;
    return &layer->tensor[each ? sl_relation_place(layer, incoming(layer, t, i), k) : k];
}

int sl_typed_combine(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                     const float *params, uint32_t t, uint32_t k, const float **out)
{
    const uint32_t n = n_incoming(layer, t);
    *out = NULL;
    if (k == SL_LAYER_NO_BIAS)
        return SL_OK;
    if (is_alone(layer, t)) {
        *out = params + tensor_for(layer, t, 0, k)->offset;
        return SL_OK;
    }
    if (n == 0)
        return SL_OK;
    const uint64_t floats = sl_tensor_count(tensor_for(layer, t, 0, k));
    const float **slots = sl_layer_note(env, n * sizeof *slots);
    float *sum = sl_layer_floats(env, floats);
    if (!slots || !sum)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        slots[i] = params + tensor_for(layer, t, i, k)->offset;
    *out = sum;
    return env->kernels->reduce(slots, n, floats, sl_typed_scale(layer, t), sum);
}

int sl_typed_gradient_room(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                           float *gradient, uint32_t t, uint32_t k, float **out)
{
    *out = NULL;
    if (k == SL_LAYER_NO_BIAS)
        return SL_OK;
    if (is_alone(layer, t)) {
        *out = gradient + tensor_for(layer, t, 0, k)->offset;
        return SL_OK;
    }
    if (n_incoming(layer, t) == 0)
        return SL_OK;
    const uint64_t floats = sl_tensor_count(tensor_for(layer, t, 0, k));
    *out = sl_layer_floats(env, floats);
    return *out ? env->device->fill(*out, 0, floats * sizeof **out) : SL_ENOMEM;
}

int sl_typed_spread(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *room, uint32_t t, uint32_t k, float *gradient)
{
    if (is_alone(layer, t))
        return SL_OK;
    for (uint32_t i = 0; i < n_incoming(layer, t); i++) {
        const struct sl_tensor *to = tensor_for(layer, t, i, k);
        SL_TRY(env->kernels->reduce(&room, 1, sl_tensor_count(to), sl_typed_scale(layer, t),
                                    gradient + to->offset));
    }
    return SL_OK;
}

int sl_typed_means(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const struct sl_typed_tape *tape, float scale, struct sl_typed_run *run)
{
    const struct sl_csr_view *csr = &run->csr;
    const uint32_t source = layer->typed->relation[run->relation].source;
    const uint32_t dim = layer->d_in[source];
    float *inverse;
    SL_TRY(sl_layer_row_sums(env, csr, run->weights, NULL, SL_ROW_INVERSE, &inverse));
    run->row_scale = inverse;
    if (scale != 1) {
        const float *slots[] = {inverse};
        run->row_scale = sl_layer_floats(env, csr->n_dst);
        if (!run->row_scale)
            return SL_ENOMEM;
        SL_TRY(env->kernels->reduce(slots, 1, csr->n_dst, scale, run->row_scale));
    }
    run->aggregated = sl_layer_floats(env, (uint64_t)csr->n_dst * dim);
    if (!run->aggregated)
        return SL_ENOMEM;
    struct sl_aggregate_args args = {.csr = *csr,
                                     .dim = dim,
                                     .x_dtype = SL_DTYPE_F32,
                                     .x = tape->x[source],
                                     .edge_weight = run->weights,
                                     .row_scale = run->row_scale,
                                     .y = run->aggregated};
    const struct sl_layer_table *table = tape->table ? &tape->table[source] : NULL;
    if (table && table->rows) {
        args.x = table->rows;
        args.x_dtype = table->dtype;
        SL_TRY(sl_layer_table_hop(env, table, csr, &args.csr));
    }
    return env->kernels->aggregate(&args);
}

int sl_typed_sum_begin(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                       float **dx, struct sl_typed_sum *sum)
{
    const uint32_t n = layer->typed->n_types;
    *sum = (struct sl_typed_sum){.dx = dx,
                                 .there = sl_layer_note(env, n * sizeof *sum->there),
                                 .zero = sl_layer_floats(env, 1)};
    if (!sum->there || !sum->zero)
        return SL_ENOMEM;
    memset(sum->there, 0, n * sizeof *sum->there);
    return env->device->fill(sum->zero, 0, sizeof *sum->zero);
}

int sl_typed_means_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                            const struct sl_typed_run *run, const float *dmeans,
                            struct sl_typed_sum *sum)
{
    const uint32_t source = layer->typed->relation[run->relation].source;
    const uint32_t dim = layer->d_in[source];
    const uint64_t n = (uint64_t)run->csr.n_src * dim;
    const struct sl_layer_tape tape = {.hop = {.csr = run->csr, .weights = run->weights},
                                       .row_scale = run->row_scale};
    const bool add = sum->there[source];
    if (add && n > sum->n_room) {
        sum->room = sl_layer_floats(env, n);
        sum->n_room = n;
    }
    float *to = add ? sum->room : sum->dx[source];
    if (!to)
        return SL_ENOMEM;
    sum->there[source] = true;
    SL_TRY(sl_layer_aggregate_backward(env, &tape, dmeans, dim, to));
    return add ? env->kernels->add_scaled(n, 1, sum->zero, to, sum->dx[source]) : SL_OK;
}

int sl_typed_fill_rest(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                       const struct sl_typed_tape *tape, struct sl_typed_sum *sum)
{
    for (uint32_t t = 0; t < layer->typed->n_types; t++)
        if (tape->n_src[t] > 0 && sum->dx[t] && !sum->there[t])
            SL_TRY(env->device->fill(
                sum->dx[t], 0, (uint64_t)tape->n_src[t] * layer->d_in[t] * sizeof *sum->dx[t]));
    return SL_OK;
}
