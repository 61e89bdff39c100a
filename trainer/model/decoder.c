#include "trainer/model/decoder.h"

#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { WEIGHT };                                         // of distmult and bilinear
enum { LIN1_WEIGHT, LIN1_BIAS, LIN2_WEIGHT, LIN2_BIAS }; // of mlp
enum { CHUNK_PAIRS = 16384 };                            // of mlp without a way back

struct kind {
    uint32_t (*describe)(const struct sl_decoder *d, struct sl_tensor *tensors); // NULL: none
    int (*forward)(const struct sl_layer_env *env, const struct sl_decoder *d, const float *params,
                   float *scores, struct sl_decoder_tape *tape);
    int (*backward)(const struct sl_layer_env *env, const struct sl_decoder *d, const float *params,
                    const struct sl_decoder_tape *tape, float *dscores, float *gradient, float *dx);
};

struct sl_decoder sl_decoder_of(const struct sl_config *config)
{
    return (struct sl_decoder){.kind = config->task.decoder,
                               .combine = config->task.combine,
                               .dim = config->task.dim,
                               .hidden = config->task.hidden};
}

// ---- the ends of each row -----------------------------------------------------------------------

struct ends {
    const uint32_t *indptr; // (rows + 1)
    uint32_t *list;         // (2n)
};

// In the pool. The pairs are an adjacency with two edges a row; its transpose has the ends.
static int find_ends(const struct sl_layer_env *env, const struct sl_decoder_pairs *pairs,
                     struct ends *out)
{
    const uint32_t n = (uint32_t)pairs->n;
    uint32_t *begins = sl_layer_note(env, (n + 1ull) * sizeof *begins);
    if (!begins)
        return SL_ENOMEM;
    for (uint32_t p = 0; p <= n; p++)
        begins[p] = 2 * p;
    struct sl_csr_view csr = {
        .n_dst = n, .n_src = (uint32_t)pairs->rows, .n_edges = 2 * n, .indices = pairs->ids};
    struct sl_csr_view transposed;
    SL_TRY(sl_layer_upload_words(env, begins, n + 1ull, &csr.indptr));
    SL_TRY(sl_layer_transpose(env, &csr, &transposed, &out->list));
    out->indptr = transposed.indptr;
    return SL_OK;
}

static struct sl_pair_gradient_args gradient_of(const struct sl_decoder *d,
                                                const struct sl_decoder_pairs *pairs,
                                                const struct ends *ends)
{
    return (struct sl_pair_gradient_args){.n_rows = (uint32_t)pairs->rows,
                                          .n = (uint32_t)pairs->n,
                                          .ids = pairs->ids,
                                          .indptr = ends->indptr,
                                          .ends = ends->list,
                                          .dim = d->dim};
}

// ---- products -----------------------------------------------------------------------------------

static struct sl_tensor tensor_of(const char *name, uint32_t rank, uint64_t rows, uint64_t columns,
                                  float init_bound)
{
    struct sl_tensor t = {.rank = rank, .shape = {rows, columns}, .init_bound = init_bound};
    snprintf(t.name, sizeof t.name, "decoder.%s", name);
    return t;
}

static int dot_rows(const struct sl_layer_env *env, const struct sl_decoder *d, const float *scale,
                    const struct sl_decoder_tape *tape, float *scores)
{
    const struct sl_pair_dot_args args = {.n = tape->pairs.n,
                                          .ids = tape->pairs.ids,
                                          .dim = d->dim,
                                          .a = tape->a,
                                          .b = tape->b,
                                          .scale = scale,
                                          .score = scores};
    return env->kernels->pair_dot(&args);
}

static int forward_dot(const struct sl_layer_env *env, const struct sl_decoder *d,
                       const float *params, float *scores, struct sl_decoder_tape *tape)
{
    (void)params;
    tape->a = tape->b = tape->pairs.x;
    return dot_rows(env, d, NULL, tape, scores);
}

static int backward_dot(const struct sl_layer_env *env, const struct sl_decoder *d,
                        const float *params, const struct sl_decoder_tape *tape, float *dscores,
                        float *gradient, float *dx)
{
    (void)params;
    (void)gradient;
    struct ends ends;
    SL_TRY(find_ends(env, &tape->pairs, &ends));
    struct sl_pair_gradient_args args = gradient_of(d, &tape->pairs, &ends);
    args.other = tape->a;
    args.dscore = dscores;
    args.dx = dx;
    return env->kernels->pair_gradient(&args);
}

static int forward_cosine(const struct sl_layer_env *env, const struct sl_decoder *d,
                          const float *params, float *scores, struct sl_decoder_tape *tape)
{
    (void)params;
    const uint64_t rows = tape->pairs.rows;
    float *unit = sl_layer_floats(env, rows * d->dim);
    tape->inverse = sl_layer_floats(env, rows);
    if (!unit || !tape->inverse)
        return SL_ENOMEM;
    SL_TRY(env->kernels->normalize_rows(tape->pairs.x, rows, d->dim, unit, tape->inverse));
    tape->a = tape->b = unit;
    return dot_rows(env, d, NULL, tape, scores);
}

static int backward_cosine(const struct sl_layer_env *env, const struct sl_decoder *d,
                           const float *params, const struct sl_decoder_tape *tape, float *dscores,
                           float *gradient, float *dx)
{
    SL_TRY(backward_dot(env, d, params, tape, dscores, gradient, dx));
    return env->kernels->normalize_rows_backward(dx, tape->a, tape->inverse, tape->pairs.rows,
                                                 d->dim, dx);
}

static uint32_t describe_distmult(const struct sl_decoder *d, struct sl_tensor *tensors)
{
    tensors[WEIGHT] = tensor_of("weight", 1, d->dim, 0, 0);
    tensors[WEIGHT].init_constant = 1;
    return 1;
}

static int forward_distmult(const struct sl_layer_env *env, const struct sl_decoder *d,
                            const float *params, float *scores, struct sl_decoder_tape *tape)
{
    tape->a = tape->b = tape->pairs.x;
    return dot_rows(env, d, params + d->offset[WEIGHT], tape, scores);
}

static int backward_distmult(const struct sl_layer_env *env, const struct sl_decoder *d,
                             const float *params, const struct sl_decoder_tape *tape,
                             float *dscores, float *gradient, float *dx)
{
    const struct sl_decoder_pairs *pairs = &tape->pairs;
    float *products = sl_layer_floats(env, pairs->n * d->dim);
    if (!products)
        return SL_ENOMEM;
    SL_TRY(
        env->kernels->pair_rows(pairs->n, pairs->ids, d->dim, SL_PAIR_PRODUCT, pairs->x, products));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, 1, d->dim, pairs->n, 1,
                              dscores, 1, products, d->dim, 1, gradient + d->offset[WEIGHT], d->dim,
                              env->pool));
    struct ends ends;
    SL_TRY(find_ends(env, pairs, &ends));
    struct sl_pair_gradient_args args = gradient_of(d, pairs, &ends);
    args.other = pairs->x;
    args.scale = params + d->offset[WEIGHT];
    args.dscore = dscores;
    args.dx = dx;
    return env->kernels->pair_gradient(&args);
}

static uint32_t describe_bilinear(const struct sl_decoder *d, struct sl_tensor *tensors)
{
    tensors[WEIGHT] = tensor_of("weight", 2, d->dim, d->dim, sl_layer_glorot_bound(d->dim, d->dim));
    return 1;
}

// Products of layers, with a matrix that is (d_out, d_in).
static struct sl_layer widths(uint32_t d_in, uint32_t d_out)
{
    return (struct sl_layer){.d_in = d_in, .d_out = d_out};
}

// u' W v is a product of rows of x W with rows of x: the matrix meets each vertex once, however
// many pairs it is in.
static int forward_bilinear(const struct sl_layer_env *env, const struct sl_decoder *d,
                            const float *params, float *scores, struct sl_decoder_tape *tape)
{
    const struct sl_layer square = widths(d->dim, d->dim);
    const struct sl_decoder_pairs *pairs = &tape->pairs;
    float *a = sl_layer_floats(env, pairs->rows * d->dim);
    if (!a)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, &square, pairs->x, pairs->rows,
                                     params + d->offset[WEIGHT], 0, a));
    tape->a = a;
    tape->b = pairs->x;
    return dot_rows(env, d, NULL, tape, scores);
}

// With a = x W: da of the sources' ends, db of the targets'; dx = db + da W', dW = x' da.
static int backward_bilinear(const struct sl_layer_env *env, const struct sl_decoder *d,
                             const float *params, const struct sl_decoder_tape *tape,
                             float *dscores, float *gradient, float *dx)
{
    const struct sl_layer square = widths(d->dim, d->dim);
    const struct sl_decoder_pairs *pairs = &tape->pairs;
    struct ends ends;
    float *da = sl_layer_floats(env, pairs->rows * d->dim);
    if (!da)
        return SL_ENOMEM;
    SL_TRY(find_ends(env, pairs, &ends));
    struct sl_pair_gradient_args args = gradient_of(d, pairs, &ends);
    args.dscore = dscores;
    args.side = SL_PAIR_SOURCE;
    args.other = tape->b;
    args.dx = da;
    SL_TRY(env->kernels->pair_gradient(&args));
    args.side = SL_PAIR_TARGET;
    args.other = tape->a;
    args.dx = dx;
    SL_TRY(env->kernels->pair_gradient(&args));
    SL_TRY(sl_layer_product(env, &square, da, pairs->rows, params + d->offset[WEIGHT], 1, dx));
    const struct sl_layer_gradient of = {
        .x = da, .dweight = gradient + d->offset[WEIGHT], .d_in = d->dim};
    return sl_layer_product_gradient(env, &square, pairs->x, &of, pairs->rows);
}

// ---- two layers ---------------------------------------------------------------------------------

static uint32_t in_width(const struct sl_decoder *d)
{
    return d->combine == SL_COMBINE_CONCAT ? 2 * d->dim : d->dim;
}

static enum sl_pair_combine combine_of(const struct sl_decoder *d)
{
    return d->combine == SL_COMBINE_PRODUCT ? SL_PAIR_PRODUCT : SL_PAIR_DIFFERENCE;
}

static uint32_t describe_mlp(const struct sl_decoder *d, struct sl_tensor *tensors)
{
    const uint32_t in = in_width(d);
    const float first = sl_layer_linear_bound(in), second = sl_layer_linear_bound(d->hidden);
    tensors[LIN1_WEIGHT] = tensor_of("lin1.weight", 2, d->hidden, in, first);
    tensors[LIN1_BIAS] = tensor_of("lin1.bias", 1, d->hidden, 0, first);
    tensors[LIN2_WEIGHT] = tensor_of("lin2.weight", 2, 1, d->hidden, second);
    tensors[LIN2_BIAS] = tensor_of("lin2.bias", 1, 1, 0, second);
    return LIN2_BIAS + 1;
}

// Of pairs first .. first + n, with tape->in and hidden to be filled from their beginnings.
static int run_mlp(const struct sl_layer_env *env, const struct sl_decoder *d, const float *params,
                   uint64_t first, uint64_t n, float *scores, const struct sl_decoder_tape *tape)
{
    const struct sl_decoder_pairs *pairs = &tape->pairs;
    const struct sl_layer lin1 = widths(in_width(d), d->hidden), lin2 = widths(d->hidden, 1);
    const uint32_t *ids = pairs->ids + 2 * first;
    struct sl_layer_epilogue relu = {
        .offered = true, .bias = params + d->offset[LIN1_BIAS], .act = SL_ACT_RELU};
    struct sl_layer_epilogue bias = {.offered = true, .bias = params + d->offset[LIN2_BIAS]};
    if (d->combine == SL_COMBINE_CONCAT) // both rows side by side are the rows of all ends
        SL_TRY(env->kernels->gather_rows(pairs->x, SL_DTYPE_F32, pairs->rows, d->dim, ids, 2 * n,
                                         tape->in));
    else
        SL_TRY(env->kernels->pair_rows(n, ids, d->dim, combine_of(d), pairs->x, tape->in));
    SL_TRY(sl_layer_last_product(env, &lin1, tape->in, n, params + d->offset[LIN1_WEIGHT], 0,
                                 tape->hidden, &relu));
    return sl_layer_last_product(env, &lin2, tape->hidden, n, params + d->offset[LIN2_WEIGHT], 0,
                                 scores + first, &bias);
}

static int room_for_mlp(const struct sl_layer_env *env, const struct sl_decoder *d, uint64_t n,
                        struct sl_decoder_tape *tape)
{
    tape->in = sl_layer_floats(env, n * in_width(d));
    tape->hidden = sl_layer_floats(env, n * d->hidden);
    return tape->in && tape->hidden ? SL_OK : SL_ENOMEM;
}

static int forward_mlp(const struct sl_layer_env *env, const struct sl_decoder *d,
                       const float *params, float *scores, struct sl_decoder_tape *tape)
{
    SL_TRY(room_for_mlp(env, d, tape->pairs.n, tape));
    return run_mlp(env, d, params, 0, tape->pairs.n, scores, tape);
}

// din (n, in) of dscores, and the gradients of the weights.
static int backward_layers(const struct sl_layer_env *env, const struct sl_decoder *d,
                           const float *params, const struct sl_decoder_tape *tape, float *dscores,
                           float *gradient, float *din)
{
    const uint64_t n = tape->pairs.n;
    const struct sl_layer lin1 = widths(in_width(d), d->hidden), lin2 = widths(d->hidden, 1);
    const struct sl_bias_act_gradient bias = {.y = tape->scores,
                                              .dbias = gradient + d->offset[LIN2_BIAS]};
    const struct sl_bias_act_gradient relu = {
        .y = tape->hidden, .act = SL_ACT_RELU, .dbias = gradient + d->offset[LIN1_BIAS]};
    const struct sl_layer_gradient of2[2] = {
        {.x = tape->hidden, .dweight = gradient + d->offset[LIN2_WEIGHT], .d_in = d->hidden}};
    const struct sl_layer_gradient of1[2] = {
        {.x = tape->in, .dweight = gradient + d->offset[LIN1_WEIGHT], .d_in = in_width(d)}};
    float *dhidden = sl_layer_floats(env, n * d->hidden);
    if (!dhidden)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_gradients(env, &lin2, &bias, dscores, of2, n));
    SL_TRY(sl_layer_product_backward(env, &lin2, dscores, n, params + d->offset[LIN2_WEIGHT], 0,
                                     dhidden));
    SL_TRY(sl_layer_product_gradients(env, &lin1, &relu, dhidden, of1, n));
    return sl_layer_product_backward(env, &lin1, dhidden, n, params + d->offset[LIN1_WEIGHT], 0,
                                     din);
}

static int backward_mlp(const struct sl_layer_env *env, const struct sl_decoder *d,
                        const float *params, const struct sl_decoder_tape *tape, float *dscores,
                        float *gradient, float *dx)
{
    const struct sl_decoder_pairs *pairs = &tape->pairs;
    struct ends ends;
    float *din = sl_layer_floats(env, pairs->n * in_width(d));
    if (!din)
        return SL_ENOMEM;
    SL_TRY(backward_layers(env, d, params, tape, dscores, gradient, din));
    SL_TRY(find_ends(env, pairs, &ends));
    if (d->combine == SL_COMBINE_CONCAT) {
        const uint32_t n_ends = 2 * (uint32_t)pairs->n;
        const struct sl_aggregate_args sums = {.csr = {.n_dst = (uint32_t)pairs->rows,
                                                       .n_src = n_ends,
                                                       .n_edges = n_ends,
                                                       .indptr = ends.indptr,
                                                       .indices = ends.list},
                                               .dim = d->dim,
                                               .x_dtype = SL_DTYPE_F32,
                                               .x = din, // (ends, dim)
                                               .y = dx};
        return env->kernels->aggregate(&sums);
    }
    struct sl_pair_gradient_args args = gradient_of(d, pairs, &ends);
    args.combine = combine_of(d);
    args.own = args.other = pairs->x;
    args.drows = din;
    args.dx = dx;
    return env->kernels->pair_gradient(&args);
}

// ---- all kinds ----------------------------------------------------------------------------------

static const struct kind KINDS[] = {
    [SL_DECODER_DOT] = {NULL, forward_dot, backward_dot},
    [SL_DECODER_COSINE] = {NULL, forward_cosine, backward_cosine},
    [SL_DECODER_DISTMULT] = {describe_distmult, forward_distmult, backward_distmult},
    [SL_DECODER_BILINEAR] = {describe_bilinear, forward_bilinear, backward_bilinear},
    [SL_DECODER_MLP] = {describe_mlp, forward_mlp, backward_mlp},
};

uint32_t sl_decoder_describe(const struct sl_decoder *d,
                             struct sl_tensor tensors[SL_DECODER_TENSORS])
{
    return KINDS[d->kind].describe ? KINDS[d->kind].describe(d, tensors) : 0;
}

int sl_decoder_forward(const struct sl_layer_env *env, const struct sl_decoder *d,
                       const float *params, const struct sl_decoder_pairs *pairs, float *scores,
                       struct sl_decoder_tape *tape)
{
    *tape = (struct sl_decoder_tape){.pairs = *pairs, .scores = scores};
    return KINDS[d->kind].forward(env, d, params, scores, tape);
}

int sl_decoder_backward(const struct sl_layer_env *env, const struct sl_decoder *d,
                        const float *params, const struct sl_decoder_tape *tape, float *dscores,
                        float *gradient, float *dx)
{
    if (tape->pairs.n > INT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "a mini-batch of %llu pairs: wanted less than 2^31; make "
                       "sampler.batch_size or task.per_positive smaller",
                       (unsigned long long)tape->pairs.n);
    return KINDS[d->kind].backward(env, d, params, tape, dscores, gradient, dx);
}

int sl_decoder_score(const struct sl_layer_env *env, const struct sl_decoder *d,
                     const float *params, const struct sl_decoder_pairs *pairs, float *scores)
{
    struct sl_decoder_tape tape = {.pairs = *pairs, .scores = scores};
    sl_mempool_reset(env->pool);
    if (d->kind != SL_DECODER_MLP)
        return sl_decoder_forward(env, d, params, pairs, scores, &tape);
    for (uint64_t first = 0; first < pairs->n; first += CHUNK_PAIRS) {
        const uint64_t n = SL_MIN(pairs->n - first, (uint64_t)CHUNK_PAIRS);
        if (first > 0) { // products take memory of the pool each time
            SL_TRY(env->device->sync());
            sl_mempool_reset(env->pool);
        }
        SL_TRY(room_for_mlp(env, d, n, &tape));
        SL_TRY(run_mlp(env, d, params, first, n, scores, &tape));
    }
    return SL_OK;
}
