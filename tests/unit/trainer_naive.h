/*
 * trainer_naive.h - the models a second time, naively and in double precision: written from their
 * formulas, edge by edge, without code of trainer/ or kernels/, norms and jumping knowledge.
 */
#ifndef SL_TESTS_UNIT_TRAINER_NAIVE_H
#define SL_TESTS_UNIT_TRAINER_NAIVE_H

#include "tests/unit/trainer_fixture.h"

struct naive {
    struct sl_config config;
    uint32_t layers, dims[SL_CONFIG_MAX_LAYERS + 1]; // features, hidden ..., classes
    const struct sl_block *block;
    const float *x;                  // features before dropout
    const struct sl_relation *edges; // NULL: the model does not read their features
    // Dropout masks, 0 or 1 / (1 - rate): of the input and of each hidden layer's output; or NULL.
    float *mask[SL_CONFIG_MAX_LAYERS];
    float *attention_mask[SL_CONFIG_MAX_LAYERS]; // (edges with the vertices themselves, heads)
};

// The edges of a hop as a layer sees them: lists of (source, weight).
struct naive_edges {
    uint32_t n_dst, n_src, *indptr, *from;
    double *weight; // all 1 where the block has none
};

static inline struct naive_edges naive_edges(const struct sl_block *b, uint32_t h, bool own_loops,
                                             bool append_self)
{
    const uint32_t *indptr = sl_view_indptr(sl_block_here(b), h),
                   *indices = sl_view_indices(sl_block_here(b), h);
    const float *weights = sl_view_weights(sl_block_here(b), h);
    struct naive_edges e = {.n_dst = b->n_nodes[h], .n_src = b->n_nodes[h + 1]};
    uint64_t most = (uint64_t)b->hop[h].n_edges + e.n_dst;
    e.indptr = fixture_alloc((e.n_dst + 1ull) * sizeof *e.indptr);
    e.from = fixture_alloc(most * sizeof *e.from);
    e.weight = fixture_alloc(most * sizeof *e.weight);
    uint32_t n = 0;
    for (uint32_t i = 0; i < e.n_dst; i++) {
        double sum = 0;
        for (uint32_t k = indptr[i]; k < indptr[i + 1]; k++) {
            if (!own_loops && indices[k] == i)
                continue;
            e.from[n] = indices[k];
            sum += e.weight[n++] = weights ? weights[k] : 1;
        }
        uint32_t others = n - e.indptr[i];
        if (append_self) {
            e.from[n] = i;
            e.weight[n++] = others ? sum / others : 1;
        }
        e.indptr[i + 1] = n;
    }
    return e;
}

static inline void naive_edges_free(struct naive_edges *e)
{
    free(e->indptr);
    free(e->from);
    free(e->weight);
}

// The factors that dropout multiplies (rows, dim) with.
static inline float *naive_mask(uint64_t rows, uint32_t dim, double rate, uint64_t seed,
                                const struct sl_block *b, uint32_t layer)
{
    float *mask = fixture_alloc(rows * dim * sizeof *mask), r = (float)rate;
    for (uint64_t e = 0; e < rows * dim; e++) {
        struct sl_rng_block w = sl_philox(seed, sl_rng_word0(SL_RNG_DROPOUT, layer, 0),
                                          (uint32_t)(e / 4), (uint32_t)b->batch, b->epoch);
        mask[e] = sl_rng_unit(w.w[e % 4]) >= r ? 1 / (1 - r) : 0;
    }
    return mask;
}

static inline struct naive naive_make(const struct sl_config *c, const struct sl_dataset *ds,
                                      const struct sl_block *b, const float *x, bool training)
{
    struct naive n = {.config = *c, .layers = c->model.layers, .block = b, .x = x};
    n.edges = c->model.edge_features ? &ds->typed.plain : NULL;
    n.dims[0] = ds->feat_dim;
    for (uint32_t l = 1; l < n.layers; l++)
        n.dims[l] = c->model.hidden;
    n.dims[n.layers] = ds->n_classes;
    for (uint32_t l = 0; training && l < n.layers; l++) {
        uint32_t h = n.layers - 1 - l;
        double rate = l == 0 ? c->model.input_dropout : c->model.dropout;
        if (rate > 0)
            n.mask[l] = naive_mask(b->n_nodes[h + 1], n.dims[l], rate, c->seed, b, l);
        bool attends = c->model.kind == SL_MODEL_GAT || c->model.kind == SL_MODEL_GATV2;
        if (!attends || c->model.attention_dropout <= 0)
            continue;
        struct naive_edges e = naive_edges(b, h, false, true);
        n.attention_mask[l] = naive_mask(e.indptr[e.n_dst], c->model.heads,
                                         c->model.attention_dropout, c->seed, b, 128 + l);
        naive_edges_free(&e);
    }
    return n;
}

static inline void naive_free(struct naive *n)
{
    for (uint32_t l = 0; l < n->layers; l++) {
        free(n->mask[l]);
        free(n->attention_mask[l]);
    }
}

static inline double naive_activation(enum sl_activation_kind kind, double v)
{
    switch (kind) {
    case SL_CONFIG_RELU: return v > 0 ? v : 0;
    case SL_CONFIG_ELU: return v > 0 ? v : exp(v) - 1;
    case SL_CONFIG_LEAKY_RELU: return v > 0 ? v : 0.01 * v;
    }
    return NAN;
}

// The next tensor of the file.
static inline const double *naive_take(const double **params, uint64_t n)
{
    const double *at = *params;
    *params += n;
    return at;
}

static inline double naive_dot(const double *a, const double *b, uint64_t n)
{
    double sum = 0;
    for (uint64_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

// y (d_out) += W x, W (d_out, d_in)
static inline void naive_product(const double *w, uint32_t d_out, uint32_t d_in, const double *x,
                                 double *y)
{
    for (uint32_t o = 0; o < d_out; o++)
        y[o] += naive_dot(w + (uint64_t)o * d_in, x, d_in);
}

static inline void naive_add(double *to, const double *from, uint64_t n, double times)
{
    for (uint64_t k = 0; k < n; k++)
        to[k] += times * from[k];
}

// One layer on one hop: x (n_src, d_in), y (n_dst, d_out) zeroed.
struct naive_step {
    const struct naive *n;
    uint32_t l, d_in, d_out;
    bool last;
    const double *x;
    double *y;
};

static inline const double *naive_row(const struct naive_step *s, uint32_t j)
{
    return s->x + (uint64_t)j * s->d_in;
}

static inline void naive_sage(const struct naive_step *s, const double **p)
{
    enum sl_aggregator how = s->n->config.model.aggregator;
    bool gcn = how == SL_AGGREGATOR_GCN;
    uint64_t matrix = (uint64_t)s->d_in * s->d_out;
    const double *lin_l = naive_take(p, matrix), *bias = naive_take(p, s->d_out);
    const double *lin_r = gcn ? NULL : naive_take(p, matrix);
    struct naive_edges e = naive_edges(s->n->block, s->n->layers - 1 - s->l, !gcn, gcn);
    double *from = fixture_alloc(s->d_in * sizeof *from);
    for (uint32_t i = 0; i < e.n_dst; i++) {
        double *y = s->y + (uint64_t)i * s->d_out, sum = 0;
        memset(from, 0, s->d_in * sizeof *from);
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++) {
            const double *x = naive_row(s, e.from[k]);
            sum += e.weight[k];
            for (uint32_t c = 0; how == SL_AGGREGATOR_MAX && c < s->d_in; c++)
                from[c] = k == e.indptr[i] ? x[c] : fmax(from[c], x[c]);
            if (how != SL_AGGREGATOR_MAX)
                naive_add(from, x, s->d_in, e.weight[k]);
        }
        for (uint32_t c = 0; how != SL_AGGREGATOR_MAX && sum > 0 && c < s->d_in; c++)
            from[c] /= sum;
        naive_add(y, bias, s->d_out, 1);
        naive_product(lin_l, s->d_out, s->d_in, from, y);
        if (lin_r)
            naive_product(lin_r, s->d_out, s->d_in, naive_row(s, i), y);
    }
    free(from);
    naive_edges_free(&e);
}

static inline double naive_root(double degree)
{
    return degree > 0 ? 1 / sqrt(degree) : 0;
}

static inline void naive_gcn(const struct naive_step *s, const double **p)
{
    const double *bias = naive_take(p, s->d_out);
    const double *lin = naive_take(p, (uint64_t)s->d_in * s->d_out);
    bool own = s->n->config.model.self_loops;
    bool graph = s->n->config.model.degrees == SL_DEGREES_GRAPH;
    const uint32_t *degrees = sl_view_degrees(sl_block_here(s->n->block));
    struct naive_edges e = naive_edges(s->n->block, s->n->layers - 1 - s->l, !own, false);
    double *from = fixture_alloc(s->d_in * sizeof *from);
    double *out = fixture_alloc(e.n_src * sizeof *out);
    for (uint32_t k = 0; k < e.indptr[e.n_dst]; k++)
        out[e.from[k]]++;
    for (uint32_t i = 0; i < e.n_dst; i++) {
        double in = e.indptr[i + 1] - e.indptr[i], sum = 0, full = graph ? degrees[i] : in;
        double r = naive_root(full + own);
        memset(from, 0, s->d_in * sizeof *from);
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++)
            sum += e.weight[k];
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++) {
            uint32_t j = e.from[k];
            double c = naive_root(graph ? degrees[j] + (double)own : out[j] + (own && j < e.n_dst));
            naive_add(from, naive_row(s, j), s->d_in, e.weight[k] / sum * full * r * c);
        }
        double c = naive_root((graph ? degrees[i] : out[i]) + (double)own);
        if (own)
            naive_add(from, naive_row(s, i), s->d_in, r * c);
        double *y = s->y + (uint64_t)i * s->d_out;
        naive_add(y, bias, s->d_out, 1);
        naive_product(lin, s->d_out, s->d_in, from, y);
    }
    free(out);
    free(from);
    naive_edges_free(&e);
}

// What a matrix (all, width of the edges' features) makes of each edge's, an edge's row beside that
// of naive_edges() with the vertices themselves, whose features are the mean of their edges';
// zeros where they have none. To be freed.
static inline double *naive_edge_rows(const struct naive *n, uint32_t h, const double *w,
                                      uint32_t all)
{
    const struct sl_block_view b = sl_block_here(n->block);
    const uint32_t *indptr = sl_view_indptr(b, h), *indices = sl_view_indices(b, h);
    const uint64_t *ids = sl_view_edge_ids(b, h), dim = n->edges ? n->edges->feat_dim : 0;
    const uint32_t n_dst = n->block->n_nodes[h];
    double *out = fixture_alloc(((uint64_t)n->block->hop[h].n_edges + n_dst) * all * sizeof *out);
    double *row = fixture_alloc((dim + 1) * sizeof *row), *mean = fixture_alloc(dim * sizeof *mean);
    uint64_t at = 0;
    for (uint32_t i = 0; dim > 0 && i < n_dst; i++) {
        double others = 0;
        memset(mean, 0, dim * sizeof *mean);
        for (uint32_t k = indptr[i]; k < indptr[i + 1]; k++) {
            if (indices[k] == i)
                continue;
            for (uint64_t c = 0; c < dim; c++)
                row[c] = ((const float *)n->edges->feat)[ids[k] * dim + c];
            naive_product(w, all, (uint32_t)dim, row, out + all * at++);
            naive_add(mean, row, dim, 1);
            others++;
        }
        for (uint64_t c = 0; c < dim && others > 0; c++)
            mean[c] /= others;
        naive_product(w, all, (uint32_t)dim, mean, out + all * at++);
    }
    free(row);
    free(mean);
    return out;
}

// What attention adds to y: bias, and the rows z (n_src, heads * C) by their shares of what `score`
// has (edges with the vertices themselves, heads), the exponents of scores.
static inline void naive_attend(const struct naive_step *s, const struct naive_edges *e,
                                const double *bias, const double *res, const double *z,
                                const double *score)
{
    const uint32_t heads = s->n->config.model.heads, width = s->last ? s->d_out : s->d_out / heads;
    const float *mask = s->n->attention_mask[s->l];
    for (uint32_t i = 0; i < e->n_dst; i++) {
        double *y = s->y + (uint64_t)i * s->d_out;
        naive_add(y, bias, s->d_out, 1);
        if (res)
            naive_product(res, s->d_out, s->d_in, naive_row(s, i), y);
        for (uint64_t h = 0; h < heads; h++) {
            double sum = 0;
            for (uint32_t k = e->indptr[i]; k < e->indptr[i + 1]; k++)
                sum += score[k * heads + h];
            for (uint32_t k = e->indptr[i]; k < e->indptr[i + 1]; k++)
                naive_add(y + (s->last ? 0 : h * width), z + (e->from[k] * heads + h) * width,
                          width,
                          score[k * heads + h] / sum * (mask ? mask[k * heads + h] : 1) /
                              (s->last ? heads : 1));
        }
    }
}

static inline void naive_gat(const struct naive_step *s, const double **p)
{
    uint32_t heads = s->n->config.model.heads, width = s->last ? s->d_out : s->d_out / heads;
    uint32_t all = heads * width;
    const uint64_t dim = s->n->edges ? s->n->edges->feat_dim : 0;
    const double *att_src = naive_take(p, all), *att_dst = naive_take(p, all);
    const double *att_edge = naive_take(p, dim ? all : 0);
    const double *bias = naive_take(p, s->d_out), *lin = naive_take(p, (uint64_t)all * s->d_in);
    const double *lin_edge = naive_take(p, all * dim);
    double *of_edges = naive_edge_rows(s->n, s->n->layers - 1 - s->l, lin_edge, all);
    const double *res =
        s->n->config.model.residual ? naive_take(p, (uint64_t)s->d_out * s->d_in) : NULL;
    struct naive_edges e = naive_edges(s->n->block, s->n->layers - 1 - s->l, false, true);
    double *z = fixture_alloc((uint64_t)e.n_src * all * sizeof *z);
    double *score = fixture_alloc((uint64_t)e.indptr[e.n_dst] * heads * sizeof *score);
    for (uint32_t j = 0; j < e.n_src; j++)
        naive_product(lin, all, s->d_in, naive_row(s, j), z + (uint64_t)j * all);
    for (uint32_t i = 0; i < e.n_dst; i++)
        for (uint64_t h = 0; h < heads; h++) {
            double at = naive_dot(att_dst + h * width, z + (i * heads + h) * width, width);
            for (uint64_t k = e.indptr[i]; k < e.indptr[i + 1]; k++) {
                double v =
                    at + naive_dot(att_src + h * width, z + (e.from[k] * heads + h) * width, width);
                if (dim > 0)
                    v += naive_dot(att_edge + h * width, of_edges + (k * heads + h) * width, width);
                score[k * heads + h] = exp(v > 0 ? v : 0.2 * v);
            }
        }
    naive_attend(s, &e, bias, res, z, score);
    free(of_edges);
    free(score);
    free(z);
    naive_edges_free(&e);
}

// <att, leaky(l + r + e)>
static inline double naive_pair(const double *att, const double *l, const double *r,
                                const double *e, uint32_t n)
{
    double sum = 0;
    for (uint32_t c = 0; c < n; c++)
        sum += att[c] * (l[c] + r[c] + e[c]) * (l[c] + r[c] + e[c] > 0 ? 1 : 0.2);
    return sum;
}

static inline void naive_gatv2(const struct naive_step *s, const double **p)
{
    uint32_t heads = s->n->config.model.heads, width = s->last ? s->d_out : s->d_out / heads;
    uint32_t all = heads * width;
    uint64_t matrix = (uint64_t)all * s->d_in;
    const double *att = naive_take(p, all), *bias = naive_take(p, s->d_out);
    const double *lin_l = naive_take(p, matrix), *bias_l = naive_take(p, all);
    const double *lin_r = naive_take(p, matrix), *bias_r = naive_take(p, all);
    const double *lin_edge = naive_take(p, s->n->edges ? (uint64_t)all * s->n->edges->feat_dim : 0);
    double *of_edges = naive_edge_rows(s->n, s->n->layers - 1 - s->l, lin_edge, all);
    const double *res =
        s->n->config.model.residual ? naive_take(p, (uint64_t)s->d_out * s->d_in) : NULL;
    struct naive_edges e = naive_edges(s->n->block, s->n->layers - 1 - s->l, false, true);
    double *l = fixture_alloc((uint64_t)e.n_src * all * sizeof *l);
    double *r = fixture_alloc(all * sizeof *r);
    double *score = fixture_alloc((uint64_t)e.indptr[e.n_dst] * heads * sizeof *score);
    for (uint32_t j = 0; j < e.n_src; j++) {
        memcpy(l + (uint64_t)j * all, bias_l, all * sizeof *l);
        naive_product(lin_l, all, s->d_in, naive_row(s, j), l + (uint64_t)j * all);
    }
    for (uint32_t i = 0; i < e.n_dst; i++) {
        memcpy(r, bias_r, all * sizeof *r);
        naive_product(lin_r, all, s->d_in, naive_row(s, i), r);
        for (uint64_t k = e.indptr[i]; k < e.indptr[i + 1]; k++)
            for (uint64_t h = 0; h < heads; h++)
                score[k * heads + h] =
                    exp(naive_pair(att + h * width, l + (e.from[k] * heads + h) * width,
                                   r + h * width, of_edges + (k * heads + h) * width, width));
    }
    naive_attend(s, &e, bias, res, l, score);
    free(of_edges);
    free(score);
    free(r);
    free(l);
    naive_edges_free(&e);
}

static inline void naive_gin(const struct naive_step *s, const double **p)
{
    const double eps = *naive_take(p, 1);
    const double *w0 = naive_take(p, (uint64_t)s->d_out * s->d_in), *b0 = naive_take(p, s->d_out);
    const double *w1 = naive_take(p, (uint64_t)s->d_out * s->d_out), *b1 = naive_take(p, s->d_out);
    bool graph = s->n->config.model.degrees == SL_DEGREES_GRAPH;
    const uint32_t *degrees = sl_view_degrees(sl_block_here(s->n->block));
    struct naive_edges e = naive_edges(s->n->block, s->n->layers - 1 - s->l, true, false);
    double *from = fixture_alloc(s->d_in * sizeof *from);
    double *inner = fixture_alloc(s->d_out * sizeof *inner);
    for (uint32_t i = 0; i < e.n_dst; i++) {
        double *y = s->y + (uint64_t)i * s->d_out, sum = 0;
        memset(from, 0, s->d_in * sizeof *from);
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++)
            sum += e.weight[k];
        double full = graph ? degrees[i] : e.indptr[i + 1] - e.indptr[i];
        naive_add(from, naive_row(s, i), s->d_in, 1 + eps);
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++)
            naive_add(from, naive_row(s, e.from[k]), s->d_in, e.weight[k] / sum * full);
        memcpy(inner, b0, s->d_out * sizeof *inner);
        naive_product(w0, s->d_out, s->d_in, from, inner);
        for (uint32_t c = 0; c < s->d_out; c++)
            inner[c] = naive_activation(s->n->config.model.activation, inner[c]);
        naive_add(y, b1, s->d_out, 1);
        naive_product(w1, s->d_out, s->d_out, inner, y);
    }
    free(inner);
    free(from);
    naive_edges_free(&e);
}

static inline void naive_pinsage(const struct naive_step *s, const double **p)
{
    uint64_t matrix = (uint64_t)s->d_out * s->d_in;
    const double *wq = naive_take(p, matrix), *bq = naive_take(p, s->d_out);
    const double *self = naive_take(p, matrix);
    const double *nbr = naive_take(p, (uint64_t)s->d_out * s->d_out), *b = naive_take(p, s->d_out);
    struct naive_edges e = naive_edges(s->n->block, s->n->layers - 1 - s->l, true, false);
    double *q = fixture_alloc(s->d_out * sizeof *q), *mean = fixture_alloc(s->d_out * sizeof *mean);
    for (uint32_t i = 0; i < e.n_dst; i++) {
        double *y = s->y + (uint64_t)i * s->d_out, sum = 0, squares = 0;
        memset(mean, 0, s->d_out * sizeof *mean);
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++)
            sum += e.weight[k];
        for (uint32_t k = e.indptr[i]; k < e.indptr[i + 1]; k++) {
            memcpy(q, bq, s->d_out * sizeof *q);
            naive_product(wq, s->d_out, s->d_in, naive_row(s, e.from[k]), q);
            for (uint32_t c = 0; c < s->d_out; c++)
                mean[c] += fmax(q[c], 0) * e.weight[k] / sum;
        }
        naive_add(y, b, s->d_out, 1);
        naive_product(self, s->d_out, s->d_in, naive_row(s, i), y);
        naive_product(nbr, s->d_out, s->d_out, mean, y);
        for (uint32_t c = 0; !s->last && c < s->d_out; c++) {
            y[c] = fmax(y[c], 0);
            squares += y[c] * y[c];
        }
        for (uint32_t c = 0; squares > 0 && c < s->d_out; c++)
            y[c] /= sqrt(squares);
    }
    free(mean);
    free(q);
    naive_edges_free(&e);
}

// Outputs (n_seeds, classes); to be freed. params in the order of the file.
static inline double *naive_forward(const struct naive *n, const double *params)
{
    const struct sl_block *b = n->block;
    double *x = fixture_alloc((uint64_t)b->n_input * n->dims[0] * sizeof *x);
    for (uint64_t e = 0; e < (uint64_t)b->n_input * n->dims[0]; e++)
        x[e] = (double)n->x[e] * (n->mask[0] ? n->mask[0][e] : 1);
    for (uint32_t l = 0; l < n->layers; l++) {
        struct naive_step s = {.n = n,
                               .l = l,
                               .d_in = n->dims[l],
                               .d_out = n->dims[l + 1],
                               .last = l + 1 == n->layers,
                               .x = x};
        uint64_t size = (uint64_t)b->n_nodes[n->layers - 1 - l] * s.d_out;
        s.y = fixture_alloc(size * sizeof *s.y);
        static void (*const layer[])(const struct naive_step *, const double **) = {
            [SL_MODEL_GRAPHSAGE] = naive_sage, [SL_MODEL_GCN] = naive_gcn,
            [SL_MODEL_GAT] = naive_gat,        [SL_MODEL_GATV2] = naive_gatv2,
            [SL_MODEL_GIN] = naive_gin,        [SL_MODEL_PINSAGE] = naive_pinsage};
        layer[n->config.model.kind](&s, &params);
        for (uint64_t e = 0; !s.last && e < size; e++)
            s.y[e] = naive_activation(n->config.model.activation, s.y[e]) *
                     (n->mask[l + 1] ? n->mask[l + 1][e] : 1);
        free(x);
        x = s.y;
    }
    return x;
}

// Summed cross-entropy of the labelled seeds.
static inline double naive_loss(const struct naive *n, const double *params)
{
    double *logits = naive_forward(n, params), loss = 0;
    uint32_t classes = n->dims[n->layers];
    for (uint32_t i = 0; i < n->block->n_seeds; i++) {
        int32_t label = ((const int32_t *)sl_view_targets(sl_block_here(n->block)))[i];
        const double *row = logits + (uint64_t)i * classes;
        double max = row[0], sum = 0;
        for (uint32_t c = 1; c < classes; c++)
            max = fmax(max, row[c]);
        for (uint32_t c = 0; c < classes; c++)
            sum += exp(row[c] - max);
        if (label >= 0)
            loss += log(sum) + max - row[label];
    }
    free(logits);
    return loss;
}

// Central differences of the loss for every parameter; to be freed.
static inline double *naive_gradient(const struct naive *n, const float *params, uint64_t n_params)
{
    const double step = 1e-5;
    double *p = fixture_alloc(n_params * sizeof *p), *g = fixture_alloc(n_params * sizeof *g);
    for (uint64_t i = 0; i < n_params; i++)
        p[i] = params[i];
    for (uint64_t i = 0; i < n_params; i++) {
        p[i] = params[i] + step;
        double up = naive_loss(n, p);
        p[i] = params[i] - step;
        g[i] = (up - naive_loss(n, p)) / (2 * step);
        p[i] = params[i];
    }
    free(p);
    return g;
}

#endif
