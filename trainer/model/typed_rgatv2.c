/*
 * typed_rgatv2.c - attention that looks at both vertices at once, by relation, as
 * torch_geometric.nn.HeteroConv of GATv2Conv((-1, -1), d / H, heads=H, add_self_loops=False); the
 * sums are typed_attention.h's, z_r(x) = lin_l_r(x), with its bias.
 *
 *   of each relation att (1, H, C), bias (d_out), lin_l.weight (H*C, d_in of the source type),
 *   lin_l.bias, lin_r.weight (H*C, d_in of the target type), lin_r.bias, lin_edge.weight (H*C,
 *   width of the relation's features) where model.edge_features reads some, res.weight; with
 *   model.share_weights lin_r's are lin_l's, as of GATv2Conv(..., share_weights=True), which names
 *   both, and the two types are of one width
 *
 * alpha is as in layer_gatv2.c, of scores <att_h, leaky_relu(lin_l_r(x_j)_h + lin_r_r(x_i)_h +
 * lin_edge_r(e_ij)_h)>.
 */
#include "trainer/model/pair_attention.h"
#include "trainer/model/typed_attention.h"

#include "common/base/error.h"

enum { ATT, BIAS, L_WEIGHT, L_BIAS, R_WEIGHT, R_BIAS, LIN_EDGE, RES, N_TENSORS };

static bool has(const struct sl_typed_layer *layer, uint32_t relation, uint32_t k)
{
    if (k == LIN_EDGE)
        return sl_typed_attention_has_term(layer, relation);
    return k != RES || layer->options->residual;
}

// A relation's lin_r has the values of its lin_l.
static void share(const struct sl_typed_layer *layer, uint32_t relation, struct sl_tensor *tensors)
{
    for (uint32_t k = R_WEIGHT; k <= R_BIAS; k++) {
        struct sl_tensor *t = &tensors[sl_relation_place(layer, relation, k)];
        t->role = SL_TENSOR_TWIN;
        t->twin = R_WEIGHT - L_WEIGHT;
    }
}

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    const struct sl_attention a = sl_typed_attention_of(layer);
    const uint64_t rows = layer->d_out;
    for (uint32_t r = 0; r < layer->typed->n_relations; r++) {
        const struct sl_relation *relation = &layer->typed->relation[r];
        const uint64_t src = layer->d_in[relation->source], dst = layer->d_in[relation->target];
        const struct {
            const char *name;
            uint32_t rank;
            uint64_t shape[3];
            float bound;
        } own[N_TENSORS] = {
            [ATT] = {"att", 3, {1, a.heads, a.width}, sl_layer_glorot_bound(a.heads, a.width)},
            [BIAS] = {"bias", 1, {rows}, 0},
            [L_WEIGHT] = {"lin_l.weight", 2, {rows, src}, sl_layer_glorot_bound(rows, src)},
            [L_BIAS] = {"lin_l.bias", 1, {rows}, sl_layer_linear_bound(src)},
            [R_WEIGHT] = {"lin_r.weight", 2, {rows, dst}, sl_layer_glorot_bound(rows, dst)},
            [R_BIAS] = {"lin_r.bias", 1, {rows}, sl_layer_linear_bound(dst)},
            [LIN_EDGE] = {"lin_edge.weight",
                          2,
                          {rows, relation->feat_dim},
                          sl_layer_glorot_bound(rows, relation->feat_dim)},
            [RES] = {"res.weight", 2, {rows, dst}, sl_layer_glorot_bound(rows, dst)},
        };
        for (uint32_t k = 0; k < N_TENSORS; k++)
            if (has(layer, r, k))
                tensors[sl_relation_place(layer, r, k)] = sl_relation_tensor(
                    layer, r, own[k].name, own[k].rank, own[k].shape, own[k].bound);
        if (layer->options->share_weights)
            share(layer, r, tensors);
    }
}

// A relation's tensor k in a flat vector.
static const float *tensor_of(const struct sl_typed_layer *layer, const float *params,
                              const struct sl_typed_run *run, uint32_t k)
{
    return params + sl_relation_offset(layer, run->relation, k);
}

static uint32_t target_of(const struct sl_typed_layer *layer, const struct sl_typed_run *run)
{
    return layer->typed->relation[run->relation].target;
}

// d_in 0 of a run without it.
static struct sl_attention_side term_of(const struct sl_typed_layer *layer, const float *params,
                                        const struct sl_typed_run *run,
                                        const struct sl_attention_run *own)
{
    if (!own->has_term)
        return (struct sl_attention_side){0};
    return (struct sl_attention_side){.x = run->edges,
                                      .rows = run->csr.n_edges,
                                      .d_in = layer->typed->relation[run->relation].feat_dim,
                                      .lin = tensor_of(layer, params, run, LIN_EDGE)};
}

// Rows of destinations, and those that edges with features make.
static uint64_t more_floats(const struct sl_typed_layer *layer, const struct sl_typed_run *run,
                            const struct sl_attention_run *own)
{
    return ((uint64_t)run->csr.n_dst + (own->has_term ? run->csr.n_edges : 0)) * layer->d_out;
}

static int make(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                const float *params, const struct sl_typed_tape *tape, uint32_t i,
                struct sl_attention_run *own)
{
    const struct sl_typed_run *run = &tape->run[i];
    const uint32_t target = target_of(layer, run), all = layer->d_out;
    const struct sl_layer lin = {.d_in = layer->d_in[target], .d_out = all};
    const struct sl_attention_side term = term_of(layer, params, run, own);
    struct sl_layer_epilogue add = {
        .offered = true, .bias = tensor_of(layer, params, run, R_BIAS), .act = SL_ACT_NONE};
    float *r = sl_layer_floats(env, (uint64_t)run->csr.n_dst * all);
    float *room = own->has_term ? sl_layer_floats(env, (uint64_t)run->csr.n_edges * all) : r;
    if (!r || !room)
        return SL_ENOMEM;
    SL_TRY(sl_typed_attention_sources(env, layer, tape, i, tensor_of(layer, params, run, L_WEIGHT),
                                      tensor_of(layer, params, run, L_BIAS), own));
    SL_TRY(sl_layer_last_product(env, &lin, tape->x[target], run->csr.n_dst,
                                 tensor_of(layer, params, run, R_WEIGHT), 0, r, &add));
    own->edges.own = r;
    return sl_pairs_rows(env, &term, &own->edges.csr, own->edges.z, all, room, &own->edges.rows);
}

static int attend(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                  const float *params, const struct sl_typed_tape *tape, uint32_t i,
                  struct sl_attention_run *own, float *alpha)
{
    const struct sl_attention a = sl_typed_attention_of(layer);
    return sl_pairs_shares(env, &a, &own->edges.scored, own->edges.rows, own->edges.own,
                           tensor_of(layer, params, &tape->run[i], ATT), alpha);
}

// What dz (rows, H*C) of one side gives its weight, its bias and its rows x (rows, d_in): dx,
// unless NULL, is assigned or +=.
static int side_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                         const float *params, const struct sl_typed_run *run, bool source,
                         const float *x, uint32_t d_in, float *dz, uint64_t rows, float *gradient,
                         bool assign, float *dx)
{
    const uint32_t weight = source ? L_WEIGHT : R_WEIGHT, bias = source ? L_BIAS : R_BIAS;
    const struct sl_layer lin = {.d_in = d_in, .d_out = layer->d_out};
    const struct sl_bias_act_gradient before = {
        .dbias = gradient + sl_relation_offset(layer, run->relation, bias)};
    const struct sl_layer_gradient of[2] = {
        {x, gradient + sl_relation_offset(layer, run->relation, weight), d_in, false}};
    SL_TRY(sl_layer_product_gradients(env, &lin, &before, dz, of, rows));
    return dx ? sl_layer_product_backward(env, &lin, dz, rows,
                                          tensor_of(layer, params, run, weight), !assign, dx)
              : SL_OK;
}

static int run_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, uint32_t i,
                        const struct sl_attention_run *own, const float *dheads, float *gradient,
                        const struct sl_attention_rows_gradient *dx)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_attention a = sl_typed_attention_of(layer);
    const struct sl_attention_side term = term_of(layer, params, run, own);
    const struct sl_attention_gradient to = {
        .lin = own->has_term ? gradient + sl_relation_offset(layer, run->relation, LIN_EDGE) : NULL,
        .att = gradient + sl_relation_offset(layer, run->relation, ATT),
    };
    const uint32_t source = layer->typed->relation[run->relation].source;
    const uint32_t target = target_of(layer, run);
    const uint64_t n_src = own->edges.csr.n_src, n_dst = run->csr.n_dst;
    float *dz = sl_layer_floats(env, n_src * layer->d_out);
    float *down = sl_layer_floats(env, n_dst * layer->d_out);
    if (!dz || !down)
        return SL_ENOMEM;
    SL_TRY(sl_pairs_backward(env, &a, &own->edges, tensor_of(layer, params, run, ATT), &term,
                             dheads, &to, dz, down));
    SL_TRY(side_backward(env, layer, params, run, true,
                         sl_typed_attention_rows(layer, tape, i, own), layer->d_in[source], dz,
                         n_src, gradient, dx->assign, dx->src));
    return side_backward(env, layer, params, run, false, tape->x[target], layer->d_in[target], down,
                         n_dst, gradient, false, dx->dst);
}

static const struct sl_typed_attention attention = {
    .residual = RES,
    .more_floats = more_floats,
    .make = make,
    .attend = attend,
    .backward = run_backward,
};

const struct sl_typed_kind sl_typed_rgatv2 = {
    .name = "rgatv2",
    .per_relation = N_TENSORS,
    .has = has,
    .bias = BIAS,
    .check = sl_typed_attention_check,
    .describe = describe,
    .attention = &attention,
    .forward = sl_typed_attention_forward,
    .backward = sl_typed_attention_backward,
};
