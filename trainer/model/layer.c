#include "trainer/model/layer.h"

#include <math.h>
#include <stdio.h>

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

struct sl_tensor sl_layer_matrix(const struct sl_layer *layer, const char *name, uint64_t rows,
                                 uint64_t columns, float init_bound)
{
    struct sl_tensor t = {
        .role = SL_TENSOR_LEARNED, .rank = 2, .shape = {rows, columns}, .init_bound = init_bound};
    snprintf(t.name, sizeof t.name, "convs.%u.%s", layer->index, name);
    return t;
}

struct sl_tensor sl_layer_vector(const struct sl_layer *layer, const char *name, uint64_t n,
                                 float init_bound)
{
    struct sl_tensor t = sl_layer_matrix(layer, name, n, 0, init_bound);
    t.rank = 1;
    return t;
}

// kaiming_uniform(a = sqrt(5)) over the inputs is U(-1/sqrt(inputs), 1/sqrt(inputs)).
float sl_layer_linear_bound(uint64_t inputs)
{
    return 1.0f / sqrtf((float)inputs);
}

float sl_layer_glorot_bound(uint64_t rows, uint64_t columns)
{
    return sqrtf(6.0f / (float)(rows + columns));
}

struct sl_layer sl_layer_square(const struct sl_layer *layer)
{
    struct sl_layer square = *layer;
    square.d_in = layer->d_out;
    return square;
}

float *sl_layer_floats(const struct sl_layer_env *env, uint64_t n)
{
    float *p = sl_mempool_alloc(env->pool, n * sizeof *p);
    if (p)
        return p;
    if (env->device && !env->device->is_host) // it has said what there is and what to do
        sl_fail_prefix(SL_ENOMEM, "activations of a mini-batch");
    else
        sl_fail(SL_ENOMEM,
                "no memory for %llu KiB of activations: make sampler.batch_size or the fanout "
                "smaller",
                (unsigned long long)(n * sizeof *p >> 10));
    return NULL;
}

uint32_t *sl_layer_words(const struct sl_layer_env *env, uint64_t n)
{
    return (uint32_t *)(void *)sl_layer_floats(env, n);
}

bool sl_layer_rounds(const struct sl_layer_env *env)
{
    return env->precision == SL_PRECISION_BF16 && env->device;
}

uint64_t sl_layer_pitch(uint64_t columns)
{
    return (columns + 7) / 8 * 8;
}

uint16_t *sl_layer_bf16(const struct sl_layer_env *env, uint64_t rows, uint64_t columns)
{
    return (uint16_t *)(void *)sl_layer_floats(env, rows * sl_layer_pitch(columns) / 2);
}

void *sl_layer_note(const struct sl_layer_env *env, size_t bytes)
{
    void *p = sl_mempool_alloc(env->notes, bytes);
    if (!p)
        sl_fail(SL_ENOMEM, "no memory for %zu bytes of a layer's notes", bytes);
    return p;
}

int sl_layer_upload_words(const struct sl_layer_env *env, const uint32_t *host, uint64_t n,
                          const uint32_t **out)
{
    *out = host;
    if (env->device->is_host || !host)
        return SL_OK;
    uint32_t *copy = sl_layer_words(env, n);
    if (!copy)
        return SL_ENOMEM;
    *out = copy;
    return env->device->copy(copy, host, n * sizeof *copy);
}

int sl_layer_upload_floats(const struct sl_layer_env *env, const float *host, uint64_t n,
                           const float **out)
{
    const uint32_t *words;
    SL_TRY(sl_layer_upload_words(env, (const uint32_t *)(const void *)host, n, &words));
    *out = (const float *)(const void *)words;
    return SL_OK;
}

bool sl_layer_may_transform_first(const struct sl_layer *layer)
{
    return layer->order == SL_LAYER_AUTO ? layer->d_out < layer->d_in
                                         : layer->order == SL_LAYER_TRANSFORM_FIRST;
}

bool sl_layer_transform_first(const struct sl_layer *layer, const struct sl_csr_view *csr,
                              bool input_gradient)
{
    if (layer->order != SL_LAYER_AUTO || !sl_layer_may_transform_first(layer))
        return sl_layer_may_transform_first(layer);
    // Products: forward and weight gradient, and the input gradient where it is wanted.
    double products = input_gradient ? 3 : 2;
    double flop = 2.0 * layer->d_in * layer->d_out * products;
    double edges = csr->n_edges;
    // Aggregated last, the gradient must come back through the edges for the weights' sake; first,
    // only for the input's.
    double first = flop * csr->n_dst / FLOP_PER_NS +
                   (input_gradient ? 2 : 1) * edges * layer->d_in * sizeof(float) / BYTE_PER_NS;
    double last =
        flop * csr->n_src / FLOP_PER_NS + 2 * edges * layer->d_out * sizeof(float) / BYTE_PER_NS;
    return last < first;
}

struct sl_layer_input sl_layer_input(const struct sl_layer *layer)
{
    const struct sl_layer_input rows = {.n = 1, .width = layer->d_in};
    struct sl_layer_input products = {.multiplied = true, .width = layer->d_out};
    if (layer->index > 0 && layer->kind->linear && sl_layer_may_transform_first(layer))
        products.n = layer->kind->linear(layer, products.weight);
    const bool narrower = (uint64_t)products.n * products.width <= rows.width;
    return products.n > 0 && narrower ? products : rows;
}

int sl_layer_add_own(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const struct sl_infer_piece *piece, const float *sums)
{
    const float *const terms[] = {sums, piece->own};
    const uint64_t n = (uint64_t)piece->csr.n_dst * layer->d_out;
    return env->kernels->reduce(terms, piece->own ? 2 : 1, n, 1, piece->y);
}

int sl_layer_product(const struct sl_layer_env *env, const struct sl_layer *layer, const float *x,
                     uint64_t rows, const float *weight, float beta, float *y)
{
    const struct sl_rounded_operand w = sl_rounded_weights_find(env->rounded, weight, layer->d_in);
    return env->kernels->gemm(env->precision | (w.bf16 ? SL_PRECISION_B : 0), SL_NO_TRANS, SL_TRANS,
                              rows, layer->d_out, layer->d_in, 1, x, layer->d_in, w.p, w.ld, beta,
                              y, layer->d_out, env->pool);
}

int sl_layer_last_product(const struct sl_layer_env *env, const struct sl_layer *layer,
                          const float *x, uint64_t rows, const float *weight, float beta, float *y,
                          struct sl_layer_epilogue *after)
{
    if (!after || !after->offered)
        return sl_layer_product(env, layer, x, rows, weight, beta, y);
    const struct sl_rounded_operand w = sl_rounded_weights_find(env->rounded, weight, layer->d_in);
    const struct sl_gemm_bias_act_args args = {
        .precision = env->precision | (w.bf16 ? SL_PRECISION_B : 0),
        .m = rows,
        .n = layer->d_out,
        .k = layer->d_in,
        .a = x,
        .b = w.p,
        .lda = layer->d_in,
        .ldb = w.ld,
        .beta = beta,
        .c = y,
        .ldc = layer->d_out,
        .bias = after->bias,
        .act = after->act,
        .dropout = after->dropout,
        .c_bf16 = after->rounded,
        .ldc_bf16 = sl_layer_pitch(layer->d_out),
    };
    after->applied = true;
    return env->kernels->gemm_bias_act(&args, env->pool);
}

int sl_layer_last_products(const struct sl_layer_env *env, const struct sl_layer *layer,
                           const struct sl_layer_term terms[2], uint64_t rows, float beta, float *y,
                           struct sl_layer_epilogue *after)
{
    struct sl_rounded_operand w[2];
    for (int i = 0; i < 2; i++)
        w[i] = sl_rounded_weights_find(env->rounded, terms[i].weight, terms[i].d_in);
    struct sl_gemm_bias_act_args args = {
        .precision = env->precision | (terms[0].bf16 ? SL_PRECISION_A : 0) |
                     (terms[1].bf16 ? SL_PRECISION_A2 : 0) | (w[0].bf16 ? SL_PRECISION_B : 0) |
                     (w[1].bf16 ? SL_PRECISION_B2 : 0),
        .m = rows,
        .n = layer->d_out,
        .k = terms[0].d_in,
        .a = terms[0].x,
        .b = w[0].p,
        .lda = terms[0].bf16 ? sl_layer_pitch(terms[0].d_in) : terms[0].d_in,
        .ldb = w[0].ld,
        .k2 = terms[1].d_in,
        .a2 = terms[1].x,
        .b2 = w[1].p,
        .lda2 = terms[1].bf16 ? sl_layer_pitch(terms[1].d_in) : terms[1].d_in,
        .ldb2 = w[1].ld,
        .beta = beta,
        .c = y,
        .ldc = layer->d_out,
    };
    if (after && after->offered) {
        args.bias = after->bias;
        args.act = after->act;
        args.dropout = after->dropout;
        args.c_bf16 = after->rounded;
        args.ldc_bf16 = sl_layer_pitch(layer->d_out);
        after->applied = true;
    }
    return env->kernels->gemm_bias_act(&args, env->pool);
}

int sl_layer_product_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, uint64_t rows, const float *weight, float beta,
                              float *dx)
{
    const struct sl_rounded_operand w = sl_rounded_weights_find(env->rounded, weight, layer->d_in);
    return env->kernels->gemm(env->precision | (w.bf16 ? SL_PRECISION_B : 0), SL_NO_TRANS,
                              SL_NO_TRANS, rows, layer->d_in, layer->d_out, 1, dy, layer->d_out,
                              w.p, w.ld, beta, dx, layer->d_in, env->pool);
}

int sl_layer_product_gradient(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *dy, const struct sl_layer_gradient *of, uint64_t rows)
{
    const uint64_t ld = of->bf16 ? sl_layer_pitch(of->d_in) : of->d_in;
    return env->kernels->gemm(env->precision | (of->bf16 ? SL_PRECISION_B : 0), SL_TRANS,
                              SL_NO_TRANS, layer->d_out, of->d_in, rows, 1, dy, layer->d_out, of->x,
                              ld, 1, of->dweight, of->d_in, env->pool);
}

int sl_layer_product_gradients(const struct sl_layer_env *env, const struct sl_layer *layer,
                               const struct sl_bias_act_gradient *before, float *dy,
                               const struct sl_layer_gradient of[2], uint64_t rows)
{
    struct sl_weight_gradients_args args = {.precision = env->precision |
                                                         (of[0].bf16 ? SL_PRECISION_B : 0) |
                                                         (of[1].bf16 ? SL_PRECISION_B2 : 0),
                                            .m = layer->d_out,
                                            .k = rows,
                                            .a = dy,
                                            .lda = layer->d_out,
                                            .before = *before};
    for (int i = 0; i < 2; i++)
        args.of[i] = (struct sl_weight_gradient){
            of[i].d_in, of[i].x, of[i].bf16 ? sl_layer_pitch(of[i].d_in) : of[i].d_in,
            of[i].dweight, of[i].d_in};
    return env->kernels->weight_gradients(&args, env->pool);
}

int sl_layer_apply_before(const struct sl_layer_env *env, const struct sl_layer *layer,
                          const struct sl_bias_act_gradient *before, float *dy, uint64_t rows)
{
    return env->kernels->bias_act_backward(dy, before->y, before->y_bf16_ld, rows, layer->d_out,
                                           before->act, &before->dropout, before->dbias);
}

int sl_layer_own_rows(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const struct sl_infer_piece *piece, const float **rows)
{
    const uint32_t n = piece->csr.n_dst, dim = layer->d_in;
    // A GPU may have to fetch x over the bus, which it does once for a copy.
    if (piece->is_run && !piece->x_ids && env->device->is_host && piece->x_dtype == SL_DTYPE_F32) {
        *rows = (const float *)piece->x + (uint64_t)piece->ids[0] * dim;
        return SL_OK;
    }
    float *copy = sl_layer_floats(env, (uint64_t)n * dim);
    if (!copy)
        return SL_ENOMEM;
    *rows = copy;
    return env->kernels->gather_rows(piece->x, piece->x_dtype, piece->csr.n_src, dim, piece->self,
                                     n, copy);
}

int sl_layer_row_sums(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                      const float *weights, const uint32_t *degrees, enum sl_row_sum what,
                      float **out)
{
    *out = sl_layer_floats(env, csr->n_dst);
    return *out ? env->kernels->row_sums(csr, weights, degrees, what, *out) : SL_ENOMEM;
}

int sl_layer_fix_loops(const struct sl_layer_env *env, struct sl_hop *hop, bool append_self)
{
    const struct sl_csr_view *csr = &hop->csr;
    const bool counted = hop->n_loops || !append_self;
    uint32_t loops = hop->n_loops ? *hop->n_loops : 0;
    if (!hop->n_loops && !append_self)
        SL_TRY(env->kernels->count_loops(csr, &loops));
    if (loops == 0 && !append_self)
        return SL_OK;
    uint64_t room = (uint64_t)csr->n_edges + (append_self ? csr->n_dst : 0);
    if (room > UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "a hop of %llu edges with the vertices themselves: wanted less than 2^32; "
                       "make sampler.batch_size or the fanout smaller",
                       (unsigned long long)room);
    uint32_t n_edges = (uint32_t)room - loops;
    const struct sl_fix_loops_args args = {
        .csr = *csr,
        .weight = hop->weights,
        .append_self = append_self,
        .indptr = sl_layer_words(env, (uint64_t)csr->n_dst + 1),
        .indices = sl_layer_words(env, room),
        .out_weight = hop->weights ? sl_layer_floats(env, room) : NULL,
        .n_edges = counted ? NULL : &n_edges,
    };
    if (!args.indptr || !args.indices || (hop->weights && !args.out_weight))
        return SL_ENOMEM;
    SL_TRY(env->kernels->fix_loops(&args, env->pool));
    hop->csr.n_edges = n_edges;
    hop->csr.indptr = args.indptr;
    hop->csr.indices = args.indices;
    hop->weights = args.out_weight;
    hop->n_loops = NULL;
    return SL_OK;
}

int sl_layer_transpose(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                       struct sl_csr_view *transposed, uint32_t **edge)
{
    uint32_t n_edges = csr->n_edges;
    uint32_t *indptr = sl_layer_words(env, (uint64_t)csr->n_src + 1);
    uint32_t *indices = sl_layer_words(env, n_edges);
    uint32_t *from = edge ? sl_layer_words(env, n_edges) : NULL;
    if (!indptr || !indices || (edge && !from))
        return SL_ENOMEM;
    *transposed = (struct sl_csr_view){.n_dst = csr->n_src,
                                       .n_src = csr->n_dst,
                                       .n_edges = n_edges,
                                       .indptr = indptr,
                                       .indices = indices};
    if (edge)
        *edge = from;
    return env->kernels->transpose(csr, indptr, indices, from, env->pool);
}

int sl_layer_piece_sums(const struct sl_layer_env *env, const struct sl_layer *layer,
                        const struct sl_infer_piece *piece, const float *row_scale,
                        const float *edge_weight, float *sums)
{
    const struct sl_aggregate_args args = {
        .csr = piece->csr,
        .dim = layer->d_in,
        .x_dtype = piece->x_dtype,
        .x = piece->x,
        .row_scale = row_scale,
        .edge_weight = edge_weight,
        .y = sums,
    };
    return env->kernels->aggregate(&args);
}

int sl_layer_widen(const struct sl_layer_env *env, const struct sl_layer *layer, uint32_t rows,
                   struct sl_layer_tape *tape)
{
    if (!tape->half || tape->half_dtype == SL_DTYPE_BF16)
        return SL_OK;
    float *x = sl_layer_floats(env, (uint64_t)rows * layer->d_in);
    if (!x)
        return SL_ENOMEM;
    tape->x = x;
    return env->kernels->gather_rows(tape->half, SL_DTYPE_F16, tape->hop.csr.n_src, layer->d_in,
                                     NULL, rows, x);
}

struct sl_layer_term sl_layer_source(const struct sl_layer *layer, const struct sl_layer_tape *tape,
                                     const float *weight)
{
    const bool bf16 = tape->half && tape->half_dtype == SL_DTYPE_BF16;
    return (struct sl_layer_term){bf16 ? tape->half : tape->x, weight, weight ? layer->d_in : 0,
                                  bf16};
}

// All but where the sums go.
static struct sl_aggregate_args sums_of(const struct sl_layer_tape *tape, const void *x,
                                        enum sl_dtype x_dtype, uint32_t dim)
{
    return (struct sl_aggregate_args){
        .csr = tape->hop.csr,
        .dim = dim,
        .x_dtype = x_dtype,
        .x = x,
        .x_ld = sl_layer_pitch(dim),
        .row_scale = tape->row_scale,
        .col_scale = tape->col_scale,
        .edge_weight = tape->hop.weights,
        .self_scale = tape->self_scale,
        .n_self = tape->self_scale ? tape->hop.csr.n_dst : 0,
    };
}

int sl_layer_table_hop(const struct sl_layer_env *env, const struct sl_layer_table *table,
                       const struct sl_csr_view *csr, struct sl_csr_view *out)
{
    uint32_t *indices = sl_layer_words(env, csr->n_edges);
    if (!indices)
        return SL_ENOMEM;
    uint32_t last = 0;
    for (uint32_t e = 0; e < csr->n_edges; e++) { // of a vertex before it is a very large number
        indices[e] = table->nodes[csr->indices[e]] - table->first;
        last = SL_MAX(last, indices[e]);
    }
    if (last >= table->n_rows)
        return sl_fail(SL_ERANGE,
                       "a mini-batch names vertex %u: wanted %u or one of the %u behind it",
                       last + table->first, table->first, table->n_rows - 1);
    *out = *csr;
    out->n_src = table->n_rows;
    out->indices = indices;
    return SL_OK;
}

int sl_layer_far_hop(const struct sl_layer_env *env, const struct sl_layer_tape *tape,
                     struct sl_csr_view *csr)
{
    *csr = tape->hop.csr;
    return tape->table.rows ? sl_layer_table_hop(env, &tape->table, &tape->hop.csr, csr) : SL_OK;
}

struct sl_layer_rows sl_layer_far_rows(const struct sl_layer_tape *tape)
{
    if (tape->table.rows)
        return (struct sl_layer_rows){tape->table.rows, tape->table.dtype};
    if (tape->half)
        return (struct sl_layer_rows){tape->half, tape->half_dtype};
    return (struct sl_layer_rows){tape->x, SL_DTYPE_F32};
}

int sl_layer_aggregate_for_products(const struct sl_layer_env *env,
                                    const struct sl_layer_tape *tape, const void *x,
                                    enum sl_dtype x_dtype, uint32_t dim, void **out)
{
    struct sl_aggregate_args args = sums_of(tape, x, x_dtype, dim);
    const uint64_t n_dst = tape->hop.csr.n_dst;
    if (sl_layer_rounds(env)) {
        args.y_ld = sl_layer_pitch(dim);
        *out = args.y_bf16 = sl_layer_bf16(env, n_dst, dim);
    } else {
        *out = args.y = sl_layer_floats(env, n_dst * dim);
    }
    return *out ? env->kernels->aggregate(&args) : SL_ENOMEM;
}

// The same sum over the transposed hop, rows and columns exchanged.
int sl_layer_aggregate_backward(const struct sl_layer_env *env, const struct sl_layer_tape *tape,
                                const float *dy, uint32_t dim, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    struct sl_csr_view transposed;
    uint32_t *edge = NULL;
    float *weights = NULL;
    SL_TRY(sl_layer_transpose(env, csr, &transposed, tape->hop.weights ? &edge : NULL));
    if (edge) {
        uint32_t n_edges = csr->n_edges;
        weights = sl_layer_floats(env, n_edges);
        if (!weights)
            return SL_ENOMEM;
        // Rows of one float.
        SL_TRY(env->kernels->gather_rows(tape->hop.weights, SL_DTYPE_F32, n_edges, 1, edge, n_edges,
                                         weights));
    }
    struct sl_aggregate_args args = {
        .csr = transposed,
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

int sl_layer_output(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const struct sl_layer_epilogue *after, struct sl_layer_tape *tape)
{
    tape->y = NULL;
    if (after->offered && after->rounded)
        return SL_OK;
    tape->y = sl_layer_floats(env, (uint64_t)tape->hop.csr.n_dst * layer->d_out);
    return tape->y ? SL_OK : SL_ENOMEM;
}

int sl_layer_propagate(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *weight, const float *own, bool input_gradient,
                       struct sl_layer_epilogue *after, struct sl_layer_tape *tape)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    if (sl_layer_transform_first(layer, csr, input_gradient)) {
        tape->aggregated = NULL;
        tape->y = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_out);
        float *z = sl_layer_floats(env, (uint64_t)csr->n_src * layer->d_out);
        if (!z || !tape->y)
            return SL_ENOMEM;
        SL_TRY(sl_layer_widen(env, layer, csr->n_src, tape));
        const struct sl_layer_term first[2] = {sl_layer_source(layer, tape, weight)};
        SL_TRY(sl_layer_last_products(env, layer, first, csr->n_src, 0, z, NULL));
        struct sl_aggregate_args args = sums_of(tape, z, SL_DTYPE_F32, layer->d_out);
        args.y = tape->y;
        SL_TRY(env->kernels->aggregate(&args));
        const struct sl_layer_term last[2] = {sl_layer_source(layer, tape, own)};
        return own ? sl_layer_last_products(env, layer, last, csr->n_dst, 1, tape->y, after)
                   : SL_OK;
    }
    SL_TRY(sl_layer_output(env, layer, after, tape));
    if (own)
        SL_TRY(sl_layer_widen(env, layer, csr->n_dst, tape));
    struct sl_layer_tape far = *tape; // for the sums alone
    const struct sl_layer_rows rows = sl_layer_far_rows(tape);
    SL_TRY(sl_layer_far_hop(env, tape, &far.hop.csr));
    SL_TRY(sl_layer_aggregate_for_products(env, &far, rows.p, rows.dtype, layer->d_in,
                                           &tape->aggregated));
    const struct sl_layer_term terms[] = {
        {tape->aggregated, weight, layer->d_in, sl_layer_rounds(env)},
        sl_layer_source(layer, tape, own)};
    return sl_layer_last_products(env, layer, terms, csr->n_dst, 0, tape->y, after);
}

struct sl_layer_gradient sl_layer_source_gradient(const struct sl_layer *layer,
                                                  const struct sl_layer_tape *tape, float *dweight)
{
    const struct sl_layer_term x = sl_layer_source(layer, tape, NULL);
    return (struct sl_layer_gradient){x.x, dweight, dweight ? layer->d_in : 0, x.bf16};
}

// dx = A' dy W, and the gradients; of an aggregation that came first.
static int backward_aggregated(const struct sl_layer_env *env, const struct sl_layer *layer,
                               const float *weight, const struct sl_layer_tape *tape,
                               const struct sl_bias_act_gradient *before, float *dy, float *dweight,
                               float *down, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_layer_gradient both[] = {
        {tape->aggregated, dweight, layer->d_in, sl_layer_rounds(env)},
        sl_layer_source_gradient(layer, tape, down)};
    SL_TRY(sl_layer_product_gradients(env, layer, before, dy, both, csr->n_dst));
    if (!dx)
        return SL_OK;
    float *d_aggregated = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_in);
    if (!d_aggregated)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, layer, dy, csr->n_dst, weight, 0, d_aggregated));
    return sl_layer_aggregate_backward(env, tape, d_aggregated, layer->d_in, dx);
}

static int backward_transformed(const struct sl_layer_env *env, const struct sl_layer *layer,
                                const float *weight, const struct sl_layer_tape *tape,
                                const struct sl_bias_act_gradient *before, float *dy,
                                float *dweight, float *down, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    SL_TRY(sl_layer_apply_before(env, layer, before, dy, csr->n_dst));
    float *dz = sl_layer_floats(env, (uint64_t)csr->n_src * layer->d_out);
    if (!dz)
        return SL_ENOMEM;
    SL_TRY(sl_layer_aggregate_backward(env, tape, dy, layer->d_out, dz));
    const struct sl_bias_act_gradient none = {0};
    const struct sl_layer_gradient of[2] = {sl_layer_source_gradient(layer, tape, dweight)};
    const struct sl_layer_gradient of_own[2] = {sl_layer_source_gradient(layer, tape, down)};
    SL_TRY(sl_layer_product_gradients(env, layer, &none, dz, of, csr->n_src));
    if (down)
        SL_TRY(sl_layer_product_gradients(env, layer, &none, dy, of_own, csr->n_dst));
    return dx ? sl_layer_product_backward(env, layer, dz, csr->n_src, weight, 0, dx) : SL_OK;
}

int sl_layer_propagate_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                                const float *weight, const float *own,
                                const struct sl_layer_tape *tape,
                                const struct sl_bias_act_gradient *before, float *dy,
                                float *dweight, float *down, float *dx)
{
    SL_TRY(tape->aggregated
               ? backward_aggregated(env, layer, weight, tape, before, dy, dweight, down, dx)
               : backward_transformed(env, layer, weight, tape, before, dy, dweight, down, dx));
    return own && dx ? sl_layer_product_backward(env, layer, dy, tape->hop.csr.n_dst, own, 1, dx)
                     : SL_OK;
}
