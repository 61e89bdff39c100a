/*
 * typed_hgt.c - heterogeneous graph transformer (Hu et al., 2020), as torch_geometric.nn.HGTConv.
 * With k, q, v the three parts of kqv_lin of a vertex's type, H heads of D = d_out / H columns:
 *
 *   score_ij = <q_i, k_j k_rel_r> p_rel_r / sqrt(D), of each head and edge j -> i of a relation r
 *   a_i      = out_lin(gelu(sum over all edges of i of softmax(score_i)_j v_j v_rel_r))
 *   y_i      = s a_i + (1 - s) x_i, s = sigmoid(skip)
 *
 *   kqv_lin.lins.TYPE.weight (3 d_out, d_in), .bias; out_lin.lins.TYPE.weight (d_out, d_out), .bias
 *   k_rel.weight, v_rel.weight (H * n_relations, D, D): the matrix of head h and relation r is
 *   number h n_relations + r; skip.TYPE (1); p_rel.SOURCE__NAME__TARGET (1, H)
 *
 * One softmax is over the edges of all relations that lead to a vertex. Features of any width
 * become rows of the hidden width first, by a linear layer for each type.
 *
 * WHERE MATRICES OF RELATIONS ARE USED. Of a batch's hop the destinations are few and the sources
 * many, so a relation's matrices multiply rows of destinations: <q, k k_rel> = <q k_rel', k>, and
 * v_rel multiplies the sum over neighbours. Then keys and values are a row for each source,
 * whatever the relations that read it. A destination has a row for each run of edges to its type:
 * the edges of all runs become one list of these rows (join_rows), and what is done for edges is
 * done once for the whole layer.
 *
 *   "wide" (n_dst, n_runs of the type, d_out) rows of runs, "narrow" (n_dst, d_out) of vertices
 *
 * k_rel is multiplied by p_rel first, as these are small.
 */
#include "trainer/model/typed_layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"

enum part { KEY, QUERY, VALUE, N_PARTS }; // of kqv_lin
enum { WEIGHT, BIAS, LIN_TENSORS };       // of a linear layer
enum product { WIDEN, NARROW, GRADIENT }; // of a relation's matrices
enum { REL_KEY, REL_VALUE, N_REL };       // the matrices

// What forward leaves of a type for backward.
struct target {
    uint32_t n_runs, first_run;             // in struct own
    uint64_t first_row;                     // of its wide rows
    float *query, *sum, *gelu, *difference; // (n_dst, d_out); sum: what gelu takes; a_i - x_i
};

struct own {
    struct target *target;         // (n_types)
    uint32_t *run;                 // (n_runs of the hop) relations, by type of target
    uint32_t *first_source;        // (n_types) in key and value; UINT32_MAX: a source of nothing
    uint32_t n_sources, n_rows;    // rows of these; wide rows
    struct sl_csr_view wide, rows; // all edges of the hop, by wide row and by vertex
    float *key, *value;            // (n_sources, d_out)
    float *query, *sum;            // wide: q k_rel' p_rel / sqrt(D), sums of values
    float *alpha;                  // (n_edges, heads) the shares
    float *key_matrix;             // as k_rel.weight, times p_rel
    float *gate;                   // (n_types) s
    float *zero;                   // one, the device's
};

static uint32_t n_types(const struct sl_typed_layer *layer)
{
    return layer->typed->n_types;
}

static uint32_t head_width(const struct sl_typed_layer *layer)
{
    return layer->d_out / layer->options->heads;
}

// Floats of a head's matrix.
static uint64_t matrix(const struct sl_typed_layer *layer)
{
    return (uint64_t)head_width(layer) * head_width(layer);
}

// ---- tensors ------------------------------------------------------------------------------------

// Numbers of tensors: kqv_lin, out_lin, k_rel and v_rel, skip, p_rel.
static uint32_t kqv_lin(const struct sl_typed_layer *layer, uint32_t t)
{
    (void)layer;
    return t * LIN_TENSORS;
}

static uint32_t out_lin(const struct sl_typed_layer *layer, uint32_t t)
{
    return (n_types(layer) + t) * LIN_TENSORS;
}

static uint32_t rel(const struct sl_typed_layer *layer, uint32_t which)
{
    return 2 * n_types(layer) * LIN_TENSORS + which;
}

static uint32_t skip(const struct sl_typed_layer *layer, uint32_t t)
{
    return rel(layer, N_REL) + t;
}

static uint32_t p_rel(const struct sl_typed_layer *layer, uint32_t r)
{
    return skip(layer, n_types(layer)) + r;
}

static uint32_t count(const struct sl_typed_layer *layer)
{
    return p_rel(layer, layer->typed->n_relations);
}

static uint64_t place(const struct sl_typed_layer *layer, uint32_t tensor)
{
    return layer->tensor[tensor].offset;
}

static void name_p_rel(const struct sl_typed_layer *layer, uint32_t r, char *out, size_t bytes)
{
    const struct sl_relation *of = &layer->typed->relation[r];
    snprintf(out, bytes, "p_rel.%s__%s__%s", layer->typed->type[of->source].name, of->name,
             layer->typed->type[of->target].name);
}

// Whether two relations have one name in p_rel: of "a__b", "c" and "a", "b__c".
static int check_names(const struct sl_typed_layer *layer)
{
    char a[SL_TENSOR_NAME_BYTES], b[SL_TENSOR_NAME_BYTES];
    for (uint32_t r = 0; r < layer->typed->n_relations; r++) {
        name_p_rel(layer, r, a, sizeof a);
        for (uint32_t other = 0; other < r; other++) {
            name_p_rel(layer, other, b, sizeof b);
            if (strcmp(a, b) == 0)
                return sl_fail(SL_EUNSUPPORTED,
                               "model.kind \"hgt\": relations %u and %u of the graph are both "
                               "'%s' in its state_dict: name types and relations without \"__\", "
                               "or use \"rgat\"",
                               other, r, a);
        }
    }
    return SL_OK;
}

static int check(const struct sl_typed_layer *layer)
{
    SL_TRY(sl_typed_check_heads(layer));
    return layer->index == 0 ? check_names(layer) : SL_OK;
}

static struct sl_tensor *describe_lin(const struct sl_typed_layer *layer, const char *of,
                                      uint32_t t, uint64_t d_in, uint64_t d_out,
                                      struct sl_tensor *tensors)
{
    char name[SL_TENSOR_NAME_BYTES];
    const uint64_t shape[] = {d_out, d_in};
    const float bound = sl_layer_linear_bound(d_in);
    snprintf(name, sizeof name, "%s.lins.%s.weight", of, layer->typed->type[t].name);
    *tensors++ = sl_typed_tensor(layer, name, 2, shape, bound);
    snprintf(name, sizeof name, "%s.lins.%s.bias", of, layer->typed->type[t].name);
    *tensors++ = sl_typed_tensor(layer, name, 1, shape, bound);
    return tensors;
}

static struct sl_tensor ones(const struct sl_typed_layer *layer, const char *name, uint32_t rank,
                             const uint64_t *shape)
{
    struct sl_tensor tensor = sl_typed_tensor(layer, name, rank, shape, 0);
    tensor.init_constant = 1;
    return tensor;
}

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    const uint64_t heads = layer->options->heads, d = head_width(layer);
    const uint64_t relations[] = {heads * layer->typed->n_relations, d, d}, of_heads[] = {1, heads};
    char name[SL_TENSOR_NAME_BYTES];
    for (uint32_t t = 0; t < n_types(layer); t++)
        tensors =
            describe_lin(layer, "kqv_lin", t, layer->d_in[t], N_PARTS * layer->d_out, tensors);
    for (uint32_t t = 0; t < n_types(layer); t++)
        tensors = describe_lin(layer, "out_lin", t, layer->d_out, layer->d_out, tensors);
    *tensors++ = sl_typed_tensor(layer, "k_rel.weight", 3, relations, sl_layer_linear_bound(d));
    *tensors++ = sl_typed_tensor(layer, "v_rel.weight", 3, relations, sl_layer_linear_bound(d));
    for (uint32_t t = 0; t < n_types(layer); t++) {
        snprintf(name, sizeof name, "skip.%s", layer->typed->type[t].name);
        *tensors++ = ones(layer, name, 1, of_heads);
    }
    for (uint32_t r = 0; r < layer->typed->n_relations; r++) {
        name_p_rel(layer, r, name, sizeof name);
        *tensors++ = ones(layer, name, 2, of_heads);
    }
}

// ---- products -----------------------------------------------------------------------------------

static struct sl_layer square(const struct sl_typed_layer *layer)
{
    return (struct sl_layer){.d_in = layer->d_out, .d_out = layer->d_out};
}

// out (rows, d_out): that part of kqv_lin of a type's first rows.
static int project(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const float *params, const struct sl_typed_tape *tape, uint32_t t,
                   enum part part, uint32_t rows, float *out)
{
    const uint64_t d = layer->d_out;
    const struct sl_layer as = square(layer);
    struct sl_layer_epilogue after = {
        .offered = true, .bias = params + place(layer, kqv_lin(layer, t) + BIAS) + part * d};
    return sl_layer_last_product(env, &as, tape->x[t], rows,
                                 params + place(layer, kqv_lin(layer, t) + WEIGHT) + part * d * d,
                                 0, out, &after);
}

static int project_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                            const float *params, const struct sl_typed_tape *tape, uint32_t t,
                            enum part part, uint32_t rows, float *dout, float *gradient, float **dx)
{
    const uint64_t d = layer->d_out,
                   weight = place(layer, kqv_lin(layer, t) + WEIGHT) + part * d * d;
    const struct sl_layer as = square(layer);
    const struct sl_bias_act_gradient before = {
        .dbias = gradient + place(layer, kqv_lin(layer, t) + BIAS) + part * d};
    const struct sl_layer_gradient of[2] = {{tape->x[t], gradient + weight, layer->d_out, false}};
    SL_TRY(sl_layer_product_gradients(env, &as, &before, dout, of, rows));
    return dx ? sl_layer_product_backward(env, &as, dout, rows, params + weight, 1, dx[t]) : SL_OK;
}

// Of the runs to a type and the matrices at `m`, laid out as k_rel.weight: wide = scale narrow m',
// narrow = scale wide m summed over runs, m += scale wide' narrow.
static int by_head(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const struct own *own, const struct target *to, uint32_t n_dst,
                   enum product which, float scale, float *narrow, float *wide, float *m)
{
    const uint64_t d = layer->d_out, side = head_width(layer), ld = to->n_runs * d;
    for (uint32_t p = 0; p < to->n_runs; p++)
        for (uint32_t h = 0; h < layer->options->heads; h++) {
            const uint64_t number =
                (uint64_t)h * layer->typed->n_relations + own->run[to->first_run + p];
            float *one = m + number * matrix(layer), *few = narrow + h * side;
            float *many = wide + p * d + h * side;
            const int rc =
                which == WIDEN
                    ? env->kernels->gemm(env->precision, SL_NO_TRANS, SL_TRANS, n_dst, side, side,
                                         scale, few, d, one, side, 0, many, ld, env->pool)
                : which == NARROW
                    ? env->kernels->gemm(env->precision, SL_NO_TRANS, SL_NO_TRANS, n_dst, side,
                                         side, scale, many, ld, one, side, p > 0, few, d, env->pool)
                    : env->kernels->gemm(env->precision, SL_TRANS, SL_NO_TRANS, side, side, n_dst,
                                         scale, many, ld, few, d, 1, one, side, env->pool);
            SL_TRY(rc);
        }
    return SL_OK;
}

static float score_scale(const struct sl_typed_layer *layer)
{
    return 1.0f / sqrtf((float)head_width(layer));
}

// For each relation (by its run i) and head h that the hop uses.
#define EACH_MATRIX(layer, tape, i, h)                                                             \
    for (uint32_t i = 0; i < (tape)->n_runs; i++)                                                  \
        for (uint32_t h = 0; h < (layer)->options->heads; h++)

static uint64_t matrix_at(const struct sl_typed_layer *layer, uint32_t r, uint32_t h)
{
    return ((uint64_t)h * layer->typed->n_relations + r) * matrix(layer);
}

static int scale_keys(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                      const float *params, const struct sl_typed_tape *tape, struct own *own)
{
    const uint64_t n = layer->options->heads * layer->typed->n_relations * matrix(layer);
    own->key_matrix = sl_layer_floats(env, n);
    if (!own->key_matrix)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(own->key_matrix, 0, n * sizeof *own->key_matrix));
    EACH_MATRIX(layer, tape, i, h)
    {
        const uint32_t r = tape->run[i].relation;
        SL_TRY(env->kernels->add_scaled(
            matrix(layer), 0, params + place(layer, p_rel(layer, r)) + h,
            params + place(layer, rel(layer, REL_KEY)) + matrix_at(layer, r, h),
            own->key_matrix + matrix_at(layer, r, h)));
    }
    return SL_OK;
}

// Gradients of k_rel and p_rel for that of their product.
static int scale_keys_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                               const float *params, const struct sl_typed_tape *tape,
                               const float *dmatrix, float *gradient)
{
    const uint64_t key = place(layer, rel(layer, REL_KEY));
    EACH_MATRIX(layer, tape, i, h)
    {
        const uint32_t r = tape->run[i].relation;
        const uint64_t m = matrix_at(layer, r, h), p = place(layer, p_rel(layer, r)) + h;
        SL_TRY(env->kernels->add_scaled(matrix(layer), 0, params + p, dmatrix + m,
                                        gradient + key + m));
        SL_TRY(env->kernels->add_dot(matrix(layer), dmatrix + m, params + key + m, gradient + p,
                                     env->pool));
    }
    return SL_OK;
}

// ---- the edges of the hop -----------------------------------------------------------------------

// Which runs lead to which type, and which types they come from.
static int list_runs(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                     const struct sl_typed_tape *tape, struct own *own)
{
    const uint32_t types = n_types(layer);
    uint64_t sources = 0, rows = 0, edges = 0;
    uint32_t n = 0;
    own->target = sl_layer_note(env, types * sizeof *own->target);
    own->first_source = sl_layer_note(env, types * sizeof *own->first_source);
    own->run = sl_layer_note(env, (tape->n_runs + 1) * sizeof *own->run);
    if (!own->target || !own->first_source || !own->run)
        return SL_ENOMEM;
    memset(own->first_source, 0xff, types * sizeof *own->first_source);
    for (uint32_t t = 0; t < types; t++) {
        own->target[t] = (struct target){.first_run = n, .first_row = rows};
        for (uint32_t i = 0; i < tape->n_runs; i++) {
            const struct sl_relation *r = &layer->typed->relation[tape->run[i].relation];
            if (r->target != t)
                continue;
            own->run[n++] = tape->run[i].relation;
            own->target[t].n_runs++;
            edges += tape->run[i].csr.n_edges;
            if (own->first_source[r->source] != UINT32_MAX)
                continue;
            own->first_source[r->source] = (uint32_t)sources;
            sources += tape->n_src[r->source];
        }
        rows += (uint64_t)own->target[t].n_runs * tape->n_dst[t];
    }
    if (sources >= UINT32_MAX || rows >= UINT32_MAX || edges >= UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "model.kind \"hgt\": a mini-batch with %llu rows of sources, %llu of "
                       "destinations and relations and %llu edges, wanted less than 2^32 of each: "
                       "take a smaller sampler.batch_size or evaluate.batch_size",
                       (unsigned long long)sources, (unsigned long long)rows,
                       (unsigned long long)edges);
    own->n_sources = (uint32_t)sources;
    own->n_rows = (uint32_t)rows;
    own->wide.n_edges = (uint32_t)edges;
    return SL_OK;
}

// The edges of the runs to a type, behind those of the types before: args moves on.
static int join_type(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                     const struct sl_typed_tape *tape, const struct own *own, uint32_t t,
                     struct sl_join_rows_args *args)
{
    const struct target *to = &own->target[t];
    struct sl_csr_view *part = sl_layer_note(env, to->n_runs * sizeof *part);
    uint32_t *first = sl_layer_note(env, to->n_runs * sizeof *first), n = 0;
    if (!part || !first)
        return SL_ENOMEM;
    args->n_dst = tape->n_dst[t];
    args->n_parts = to->n_runs;
    args->part = part;
    args->first_source = first;
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const struct sl_relation *r = &layer->typed->relation[tape->run[i].relation];
        if (r->target != t)
            continue;
        part[n] = tape->run[i].csr;
        first[n++] = own->first_source[r->source];
    }
    SL_TRY(env->kernels->join_rows(args));
    for (uint32_t p = 0; p < n; p++)
        args->first_edge += part[p].n_edges;
    args->indptr += (uint64_t)args->n_dst * n;
    args->rows += args->n_dst;
    return SL_OK;
}

static int join(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                const struct sl_typed_tape *tape, struct own *own)
{
    uint64_t vertices = 0;
    for (uint32_t t = 0; t < n_types(layer); t++)
        vertices += own->target[t].n_runs ? tape->n_dst[t] : 0;
    struct sl_join_rows_args args = {.indptr = sl_layer_words(env, own->n_rows + 1ull),
                                     .rows = sl_layer_words(env, vertices + 1),
                                     .indices = sl_layer_words(env, own->wide.n_edges)};
    if (!args.indptr || !args.rows || !args.indices)
        return SL_ENOMEM;
    own->wide = (struct sl_csr_view){.n_dst = own->n_rows,
                                     .n_src = own->n_sources,
                                     .n_edges = own->wide.n_edges,
                                     .indptr = args.indptr,
                                     .indices = args.indices};
    own->rows = own->wide;
    own->rows.n_dst = (uint32_t)vertices;
    own->rows.indptr = args.rows;
    for (uint32_t t = 0; t < n_types(layer); t++)
        if (own->target[t].n_runs > 0)
            SL_TRY(join_type(env, layer, tape, own, t, &args));
    return SL_OK;
}

// ---- forward ------------------------------------------------------------------------------------

static int take_sources(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, struct own *own)
{
    const uint64_t d = layer->d_out;
    own->key = sl_layer_floats(env, own->n_sources * d);
    own->value = sl_layer_floats(env, own->n_sources * d);
    if (!own->key || !own->value)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < n_types(layer); t++) {
        const uint64_t first = own->first_source[t] * d;
        if (own->first_source[t] == UINT32_MAX)
            continue;
        SL_TRY(project(env, layer, params, tape, t, KEY, tape->n_src[t], own->key + first));
        SL_TRY(project(env, layer, params, tape, t, VALUE, tape->n_src[t], own->value + first));
    }
    return SL_OK;
}

static int take_queries(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, struct own *own)
{
    const uint64_t d = layer->d_out;
    own->query = sl_layer_floats(env, own->n_rows * d);
    if (!own->query)
        return SL_ENOMEM;
    for (uint32_t t = 0; t < n_types(layer); t++) {
        struct target *to = &own->target[t];
        const uint32_t n = tape->n_dst[t];
        if (to->n_runs == 0)
            continue;
        to->query = sl_layer_floats(env, n * d);
        if (!to->query)
            return SL_ENOMEM;
        SL_TRY(project(env, layer, params, tape, t, QUERY, n, to->query));
        SL_TRY(by_head(env, layer, own, to, n, WIDEN, score_scale(layer), to->query,
                       own->query + to->first_row * d, own->key_matrix));
    }
    return SL_OK;
}

// The shares of all edges, and the sums of values under them.
static int attend(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                  struct own *own)
{
    const uint32_t heads = layer->options->heads, width = head_width(layer);
    own->alpha = sl_layer_floats(env, (uint64_t)own->wide.n_edges * heads);
    own->sum = sl_layer_floats(env, (uint64_t)own->n_rows * layer->d_out);
    if (!own->alpha || !own->sum)
        return SL_ENOMEM;
    SL_TRY(env->kernels->edge_dot(&own->wide, heads, width, own->query, own->key, own->alpha));
    const struct sl_edge_softmax_args softmax = {
        .csr = own->rows, .heads = heads, .alpha = own->alpha};
    SL_TRY(env->kernels->edge_softmax(&softmax));
    const struct sl_aggregate_heads_args args = {.csr = own->wide,
                                                 .heads = heads,
                                                 .dim = width,
                                                 .x = own->value,
                                                 .weight = own->alpha,
                                                 .y = own->sum};
    return env->kernels->aggregate_heads(&args);
}

// y of a type from the sums of its runs.
static int close_type(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                      const float *params, struct sl_typed_tape *tape, const struct own *own,
                      uint32_t t)
{
    const uint32_t rows = tape->n_dst[t];
    const uint64_t d = layer->d_out, n = rows * d;
    struct target *to = &own->target[t];
    const struct sl_layer as = square(layer);
    struct sl_layer_epilogue after = {.offered = true,
                                      .bias = params + place(layer, out_lin(layer, t) + BIAS)};
    const float *slots[] = {tape->x[t]};
    to->sum = sl_layer_floats(env, n);
    to->gelu = sl_layer_floats(env, n);
    to->difference = sl_layer_floats(env, n);
    tape->y[t] = sl_layer_floats(env, n);
    if (!to->sum || !to->gelu || !to->difference || !tape->y[t])
        return SL_ENOMEM;
    if (to->n_runs == 0)
        SL_TRY(env->device->fill(to->sum, 0, n * sizeof *to->sum));
    SL_TRY(by_head(env, layer, own, to, rows, NARROW, 1, to->sum, own->sum + to->first_row * d,
                   (float *)params + place(layer, rel(layer, REL_VALUE))));
    SL_TRY(env->kernels->curve(SL_CURVE_GELU, n, to->sum, to->gelu));
    SL_TRY(sl_layer_last_product(env, &as, to->gelu, rows,
                                 params + place(layer, out_lin(layer, t) + WEIGHT), 0,
                                 to->difference, &after));
    SL_TRY(env->kernels->add_scaled(n, -1, own->zero, tape->x[t], to->difference));
    SL_TRY(env->kernels->reduce(slots, 1, n, 1, tape->y[t]));
    return env->kernels->add_scaled(n, 0, own->gate + t, to->difference, tape->y[t]);
}

static int forward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const float *params, struct sl_typed_tape *tape)
{
    struct own *own = tape->own = sl_layer_note(env, sizeof *own);
    if (!own)
        return SL_ENOMEM;
    *own =
        (struct own){.gate = sl_layer_floats(env, n_types(layer)), .zero = sl_layer_floats(env, 1)};
    if (!own->gate || !own->zero)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(own->zero, 0, sizeof *own->zero));
    SL_TRY(env->kernels->curve(SL_CURVE_SIGMOID, n_types(layer),
                               params + place(layer, skip(layer, 0)), own->gate));
    SL_TRY(list_runs(env, layer, tape, own));
    if (own->wide.n_edges > 0) {
        SL_TRY(join(env, layer, tape, own));
        SL_TRY(scale_keys(env, layer, params, tape, own));
        SL_TRY(take_sources(env, layer, params, tape, own));
        SL_TRY(take_queries(env, layer, params, tape, own));
        SL_TRY(attend(env, layer, own));
    }
    for (uint32_t t = 0; t < n_types(layer); t++)
        if (tape->n_dst[t] > 0)
            SL_TRY(close_type(env, layer, params, tape, own, t));
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

// Gradients by way of the gate and out_lin; *dsum, that of to->sum. dgate (1) +=.
static int open_type(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                     const float *params, const struct sl_typed_tape *tape, uint32_t t,
                     const float *dy, float *gradient, float *dgate, float **dx, float **dsum)
{
    const struct own *own = tape->own;
    const struct target *to = &own->target[t];
    const uint32_t rows = tape->n_dst[t];
    const uint64_t n = (uint64_t)rows * layer->d_out,
                   weight = place(layer, out_lin(layer, t) + WEIGHT);
    const struct sl_layer as = square(layer);
    const struct sl_bias_act_gradient before = {.dbias = gradient +
                                                         place(layer, out_lin(layer, t) + BIAS)};
    const struct sl_layer_gradient of[2] = {{to->gelu, gradient + weight, layer->d_out, false}};
    float *da = sl_layer_floats(env, n);
    *dsum = sl_layer_floats(env, n);
    if (!da || !*dsum)
        return SL_ENOMEM;
    SL_TRY(env->kernels->add_dot(n, dy, to->difference, dgate, env->pool));
    SL_TRY(env->device->fill(da, 0, n * sizeof *da));
    SL_TRY(env->kernels->add_scaled(n, 0, own->gate + t, dy, da));
    if (dx) {
        SL_TRY(env->kernels->add_scaled(n, 1, own->zero, dy, dx[t]));
        SL_TRY(env->kernels->add_scaled(n, -1, own->zero, da, dx[t]));
    }
    SL_TRY(sl_layer_product_gradients(env, &as, &before, da, of, rows));
    SL_TRY(sl_layer_product_backward(env, &as, da, rows, params + weight, 0, *dsum));
    return env->kernels->curve_backward(SL_CURVE_GELU, n, to->sum, *dsum);
}

// What the edges make of dsum, wide: dquery, wide, and dkey and dvalue (n_sources, d_out).
static int edges_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                          const struct own *own, const float *dsum, float *dquery, float *dkey,
                          float *dvalue)
{
    const uint32_t heads = layer->options->heads, width = head_width(layer);
    float *dscore = sl_layer_floats(env, (uint64_t)own->wide.n_edges * heads);
    struct sl_csr_view transposed;
    uint32_t *edge;
    if (!dscore)
        return SL_ENOMEM;
    SL_TRY(sl_layer_transpose(env, &own->wide, &transposed, &edge));
    SL_TRY(env->kernels->edge_dot(&own->wide, heads, width, dsum, own->value, dscore));
    const struct sl_edge_softmax_grad_args softmax = {
        .csr = own->rows, .heads = heads, .alpha = own->alpha, .dalpha = dscore};
    SL_TRY(env->kernels->edge_softmax_backward(&softmax));
    struct sl_aggregate_heads_args args = {.csr = own->wide,
                                           .heads = heads,
                                           .dim = width,
                                           .x = own->key,
                                           .weight = dscore,
                                           .y = dquery};
    SL_TRY(env->kernels->aggregate_heads(&args));
    args.csr = transposed;
    args.edge = edge;
    args.x = own->query;
    args.y = dkey;
    SL_TRY(env->kernels->aggregate_heads(&args));
    args.x = dsum;
    args.weight = own->alpha;
    args.y = dvalue;
    return env->kernels->aggregate_heads(&args);
}

// Gradients of what queries, keys and values are made of.
static int projections_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                                const float *params, const struct sl_typed_tape *tape,
                                float *dquery, float *dkey, float *dvalue, float *dmatrix,
                                float *gradient, float **dx)
{
    const struct own *own = tape->own;
    const uint64_t d = layer->d_out;
    for (uint32_t t = 0; t < n_types(layer); t++) {
        const struct target *to = &own->target[t];
        const uint32_t n = tape->n_dst[t];
        if (to->n_runs > 0) {
            float *wide = dquery + to->first_row * d, *narrow = sl_layer_floats(env, n * d);
            if (!narrow)
                return SL_ENOMEM;
            SL_TRY(by_head(env, layer, own, to, n, GRADIENT, score_scale(layer), to->query, wide,
                           dmatrix));
            SL_TRY(by_head(env, layer, own, to, n, NARROW, score_scale(layer), narrow, wide,
                           own->key_matrix));
            SL_TRY(project_backward(env, layer, params, tape, t, QUERY, n, narrow, gradient, dx));
        }
        if (own->first_source[t] == UINT32_MAX)
            continue;
        const uint64_t first = own->first_source[t] * d;
        SL_TRY(project_backward(env, layer, params, tape, t, KEY, tape->n_src[t], dkey + first,
                                gradient, dx));
        SL_TRY(project_backward(env, layer, params, tape, t, VALUE, tape->n_src[t], dvalue + first,
                                gradient, dx));
    }
    return scale_keys_backward(env, layer, params, tape, dmatrix, gradient);
}

// Of a hop that has edges; dsum is wide.
static int hop_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, const float *dsum,
                        float *gradient, float **dx)
{
    const struct own *own = tape->own;
    const uint64_t d = layer->d_out;
    const uint64_t matrices = layer->options->heads * layer->typed->n_relations * matrix(layer);
    float *dquery = sl_layer_floats(env, own->n_rows * d);
    float *dkey = sl_layer_floats(env, own->n_sources * d);
    float *dvalue = sl_layer_floats(env, own->n_sources * d);
    float *dmatrix = sl_layer_floats(env, matrices);
    if (!dquery || !dkey || !dvalue || !dmatrix)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(dmatrix, 0, matrices * sizeof *dmatrix));
    SL_TRY(edges_backward(env, layer, own, dsum, dquery, dkey, dvalue));
    return projections_backward(env, layer, params, tape, dquery, dkey, dvalue, dmatrix, gradient,
                                dx);
}

static int backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *params, const struct sl_typed_tape *tape, float **dy,
                    float *gradient, float **dx)
{
    const struct own *own = tape->own;
    const struct sl_layer as = square(layer);
    const uint64_t d = layer->d_out, skips = place(layer, skip(layer, 0));
    float *wide = sl_layer_floats(env, own->n_rows * d);
    float *dgate = sl_layer_floats(env, n_types(layer));
    if (!wide || !dgate)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(dgate, 0, n_types(layer) * sizeof *dgate));
    for (uint32_t t = 0; t < n_types(layer); t++) {
        const struct target *to = &own->target[t];
        float *dsum;
        if (dx && tape->n_src[t] > 0)
            SL_TRY(env->device->fill(dx[t], 0, tape->n_src[t] * d * sizeof *dx[t]));
        if (tape->n_dst[t] == 0)
            continue;
        SL_TRY(sl_layer_apply_before(env, &as, &tape->before[t], dy[t], tape->n_dst[t]));
        SL_TRY(open_type(env, layer, params, tape, t, dy[t], gradient, dgate + t, dx, &dsum));
        SL_TRY(by_head(env, layer, own, to, tape->n_dst[t], GRADIENT, 1, dsum,
                       own->sum + to->first_row * d,
                       gradient + place(layer, rel(layer, REL_VALUE))));
        SL_TRY(by_head(env, layer, own, to, tape->n_dst[t], WIDEN, 1, dsum,
                       wide + to->first_row * d,
                       (float *)params + place(layer, rel(layer, REL_VALUE))));
    }
    SL_TRY(env->kernels->curve_backward(SL_CURVE_SIGMOID, n_types(layer), params + skips, dgate));
    SL_TRY(env->kernels->add_scaled(n_types(layer), 1, own->zero, dgate, gradient + skips));
    return own->wide.n_edges > 0 ? hop_backward(env, layer, params, tape, wide, gradient, dx)
                                 : SL_OK;
}

const struct sl_typed_kind sl_typed_hgt = {
    .name = "hgt",
    .bias = SL_LAYER_NO_BIAS,
    .one_width = true,
    .own_activation = true,
    .check = check,
    .count = count,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
