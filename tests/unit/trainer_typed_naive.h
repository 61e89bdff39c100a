/*
 * trainer_typed_naive.h - small graphs of several types with blocks of them, and the models of such
 * graphs a second time, naively and in double precision: written from torch_geometric's formulas.
 */
#ifndef SL_TESTS_UNIT_TRAINER_TYPED_NAIVE_H
#define SL_TESTS_UNIT_TRAINER_TYPED_NAIVE_H

#include <math.h>
#include <stdarg.h>

#include "common/base/error.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/feed/typed_block.h"

enum { TYPED_TYPES = 5, TYPED_RELATIONS = 7, TYPED_MOST = 512 };

struct typed_graph {
    struct sl_typed typed;
    struct sl_vertex_type type[TYPED_TYPES];
    struct sl_relation relation[TYPED_RELATIONS];
    uint32_t *indptr[TYPED_RELATIONS], *indices[TYPED_RELATIONS]; // numbers within the types
    float *edge_feat[TYPED_RELATIONS]; // of typed_edge_features(), else NULL
    bool visits;                       // edges of blocks carry weights
};

/*
 * Papers cite papers and themselves, some twice; authors write; all papers are in the one venue,
 * which is the target of all of them and has no features; no edge is of the relation "likes", and
 * the type "tag" has no relation. Every fourth row is empty.
 */
static inline void typed_graph_init(struct typed_graph *g, uint64_t seed)
{
    static const struct {
        const char *name;
        uint32_t n, dim;
    } types[TYPED_TYPES] = {
        {"paper", 23, 5}, {"author", 17, 3}, {"venue", 1, 0}, {"topic", 9, 6}, {"tag", 3, 0}};
    static const struct {
        const char *name;
        uint32_t source, target, degree;
    } relations[TYPED_RELATIONS] = {{"writes", 1, 0, 4}, {"cites", 0, 0, 5}, {"by", 0, 1, 3},
                                    {"shows", 2, 0, 1},  {"in", 0, 2, 40},   {"on", 1, 3, 2},
                                    {"likes", 3, 1, 0}};
    struct fixture_rng r = {.seed = seed};
    uint64_t first = 0, rows = 0, edges = 0;
    *g = (struct typed_graph){0};
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        g->type[t] = (struct sl_vertex_type){
            .first = first, .n = types[t].n, .feat_dim = types[t].dim, .feat_dtype = SL_DTYPE_F32};
        snprintf(g->type[t].name, sizeof g->type[t].name, "%s", types[t].name);
        first += types[t].n;
    }
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        const uint32_t n = types[relations[k].target].n, sources = types[relations[k].source].n;
        g->relation[k] = (struct sl_relation){.source = relations[k].source,
                                              .target = relations[k].target,
                                              .first_row = rows,
                                              .reverse_of = SL_NO_RELATION};
        snprintf(g->relation[k].name, sizeof g->relation[k].name, "%s", relations[k].name);
        g->indptr[k] = fixture_alloc((n + 1) * sizeof(uint32_t));
        g->indices[k] = fixture_alloc(((uint64_t)n * relations[k].degree + 1) * sizeof(uint32_t));
        uint32_t e = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t most = relations[k].degree;
            const uint32_t degree = n > 1 && i % 4 == 3 ? 0 : most > 1 ? 1 + i % most : most;
            for (uint32_t j = 0; j < degree; j++) {
                const bool again = k == 1 && j % 3 == 2; // itself, or the one before
                g->indices[k][e] =
                    again ? (j % 2 ? i : g->indices[k][e - 1]) : fixture_word(&r) % sources;
                e++;
            }
            g->indptr[k][i + 1] = e;
        }
        g->relation[k].n_edges = e;
        g->relation[k].first_edge = edges;
        edges += e;
        rows += n;
    }
    g->typed = (struct sl_typed){.n_types = TYPED_TYPES,
                                 .n_relations = TYPED_RELATIONS,
                                 .n_rows = rows,
                                 .type = g->type,
                                 .relation = g->relation};
}

static inline void typed_graph_fini(struct typed_graph *g)
{
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        free(g->indptr[k]);
        free(g->indices[k]);
        free(g->edge_feat[k]);
    }
}

// Gives the edges of some relations features: of several widths, one as halves.
static inline void typed_edge_features(struct typed_graph *g, uint64_t seed)
{
    static const uint32_t dims[TYPED_RELATIONS] = {[0] = 4, [1] = 2, [4] = 1, [5] = 3};
    struct fixture_rng r = {.seed = seed};
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        struct sl_relation *relation = &g->relation[k];
        const uint64_t n = relation->n_edges * dims[k];
        if (n == 0)
            continue;
        g->edge_feat[k] = fixture_alloc(n * sizeof(float));
        for (uint64_t i = 0; i < n; i++)
            g->edge_feat[k][i] = fixture_float(&r, 1);
        relation->feat_dim = dims[k];
        relation->feat_dtype = SL_DTYPE_F32;
        relation->feat = g->edge_feat[k];
    }
}

// ---- a block of it ------------------------------------------------------------------------------

struct typed_nodes {
    uint32_t n, id[TYPED_MOST], local[TYPED_MOST]; // local id + 1
};

static inline uint32_t typed_local(struct typed_nodes *t, uint32_t v)
{
    if (!t->local[v]) {
        t->id[t->n] = v;
        t->local[v] = ++t->n;
    }
    return t->local[v] - 1;
}

static inline uint64_t typed_put(char *base, uint64_t *at, const void *from, uint64_t bytes)
{
    const uint64_t offset = *at;
    memcpy(base + offset, from, bytes);
    *at = sl_align_up(offset + bytes, 64);
    return offset;
}

// All that hop h draws: up to `fanout` of the neighbours of all vertices so far.
static inline void typed_hop(const struct typed_graph *g, struct typed_nodes *nodes, uint32_t h,
                             uint32_t fanout, char *base, uint64_t *at, struct sl_block_typed *head,
                             struct sl_block_run *runs)
{
    uint32_t before[TYPED_TYPES];
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        before[t] = nodes[t].n;
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++) {
        uint32_t indptr[TYPED_MOST] = {0}, indices[TYPED_MOST * 8], e = 0;
        uint64_t ids[TYPED_MOST * 8];
        float visits[TYPED_MOST * 8];
        const uint32_t target = g->relation[k].target, source = g->relation[k].source;
        for (uint32_t i = 0; i < before[target]; i++) {
            const uint32_t v = nodes[target].id[i];
            const uint32_t degree = g->indptr[k][v + 1] - g->indptr[k][v];
            for (uint32_t j = 0; j < SL_MIN(degree, fanout); j++) {
                ids[e] = g->relation[k].first_edge + g->indptr[k][v] + j;
                indices[e++] = typed_local(&nodes[source], g->indices[k][g->indptr[k][v] + j]);
            }
            indptr[i + 1] = e;
        }
        if (e == 0)
            continue;
        struct sl_block_run *run = &runs[head->n_runs++];
        *run =
            (struct sl_block_run){.hop = h, .relation = k, .n_dst = before[target], .n_edges = e};
        run->indptr_offset = typed_put(base, at, indptr, (run->n_dst + 1ull) * 4);
        run->indices_offset = typed_put(base, at, indices, e * 4ull);
        for (uint32_t i = 0; i < e; i++)
            visits[i] = (float)(1 + (i * 7 + k) % 5);
        run->beside_offset =
            g->visits ? typed_put(base, at, visits, e * 4ull) : typed_put(base, at, ids, e * 8ull);
    }
}

// To be freed with free(). Seeds are papers, and every third one has no label; behind them so many
// authors, from the first one on.
static inline struct sl_block *typed_block_with(const struct typed_graph *g, const uint32_t *seeds,
                                                uint32_t n_seeds, uint32_t n_authors,
                                                uint32_t n_hops, uint32_t fanout, uint32_t classes,
                                                uint64_t batch)
{
    char *base = fixture_alloc(1 << 20);
    struct sl_block *b = (struct sl_block *)(void *)base;
    struct typed_nodes nodes[TYPED_TYPES] = {{0}};
    struct sl_block_run runs[TYPED_RELATIONS * SL_MAX_HOPS];
    struct sl_block_type types[TYPED_TYPES] = {{0}};
    struct sl_block_typed head = {.n_types = TYPED_TYPES};
    int32_t labels[TYPED_MOST];
    uint64_t at = sl_align_up(sizeof *b, 64);
    *b = (struct sl_block){.magic = SL_BLOCK_MAGIC,
                           .flags = SL_BLOCK_TYPED |
                                    (g->visits ? SL_BLOCK_HAS_WEIGHTS : SL_BLOCK_HAS_EDGE_IDS),
                           .batch = batch,
                           .epoch = 3,
                           .n_hops = n_hops,
                           .n_seeds = n_seeds + n_authors};
    for (uint32_t i = 0; i < n_authors; i++) {
        typed_local(&nodes[1], i);
        labels[n_seeds + i] = -1;
    }
    for (uint32_t i = 0; i < n_seeds; i++) {
        typed_local(&nodes[0], seeds[i]);
        labels[i] = i % 3 == 2 ? -1 : (int32_t)((seeds[i] * 7u) % classes);
    }
    for (uint32_t h = 0; h <= n_hops; h++) {
        for (uint32_t t = 0; t < TYPED_TYPES; t++) {
            types[t].n[h] = nodes[t].n;
            b->n_nodes[h] += nodes[t].n;
        }
        if (h < n_hops)
            typed_hop(g, nodes, h, fanout, base, &at, &head, runs);
    }
    for (uint32_t t = 1; t < TYPED_TYPES; t++)
        types[t].first = types[t - 1].first + nodes[t - 1].n;
    b->n_input = b->n_nodes[n_hops];
    for (uint32_t h = 0; h < n_hops; h++)
        b->hop[h].n_dst = b->n_nodes[h];
    for (uint32_t i = 0; i < head.n_runs; i++) {
        b->hop[runs[i].hop].n_edges += runs[i].n_edges;
        b->n_edges += runs[i].n_edges;
    }
    b->nodes_offset = at;
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        for (uint32_t i = 0; i < nodes[t].n; i++, at += 4) {
            const uint32_t id = (uint32_t)g->type[t].first + nodes[t].id[i];
            memcpy(base + at, &id, sizeof id);
        }
    at = sl_align_up(at, 64);
    b->label_offset = typed_put(base, &at, labels, b->n_seeds * 4ull);
    head.runs_offset = typed_put(base, &at, runs, head.n_runs * sizeof *runs);
    b->typed_offset = at;
    memcpy(base + at, &head, sizeof head);
    memcpy(base + at + sizeof head, types, sizeof types);
    b->bytes = sl_align_up(at + sizeof head + sizeof types, 64);
    return b;
}

static inline struct sl_block *typed_block(const struct typed_graph *g, const uint32_t *seeds,
                                           uint32_t n_seeds, uint32_t n_hops, uint32_t fanout,
                                           uint32_t classes, uint64_t batch)
{
    return typed_block_with(g, seeds, n_seeds, 0, n_hops, fanout, classes, batch);
}

// The row of features of an edge of a run, in the graph.
static inline const float *typed_edge_row(const struct typed_graph *g, const struct sl_block *b,
                                          const struct sl_block_run *run, uint32_t e)
{
    const struct sl_relation *r = &g->relation[run->relation];
    const uint64_t id = sl_run_edge_ids(sl_block_here(b), run)[e];
    return (const float *)r->feat + (id - r->first_edge) * r->feat_dim;
}

// Features of the block's vertices, as trainer/feed/typed_block.h wants them, and behind them those
// of its edges.
static inline float *typed_input(const struct typed_graph *g, const struct sl_block *b,
                                 uint64_t seed)
{
    struct fixture_rng r = {.seed = seed};
    const uint64_t bytes = sl_typed_rows_at(b, &g->typed, TYPED_TYPES, SL_TYPED_F32);
    const struct sl_block_run *runs = sl_block_runs(b);
    uint64_t at[TYPED_RELATIONS * SL_MAX_HOPS];
    float *x = fixture_alloc(sl_typed_edge_rows(b, &g->typed, bytes, at) + 64);
    for (uint64_t i = 0; i < bytes / sizeof *x; i++)
        x[i] = fixture_float(&r, 1);
    for (uint32_t i = 0; i < sl_block_typed(b)->n_runs; i++) {
        const uint32_t dim = g->relation[runs[i].relation].feat_dim;
        for (uint32_t e = 0; dim > 0 && e < runs[i].n_edges; e++)
            memcpy(x + at[i] / sizeof *x + (uint64_t)e * dim, typed_edge_row(g, b, &runs[i], e),
                   dim * sizeof *x);
    }
    return x;
}

// ---- the models ---------------------------------------------------------------------------------

// Where a tensor is whose name is of this format and these words and numbers, by their addresses.
struct typed_place {
    const char *format;
    uintptr_t part[5];
    uint64_t offset;
};

struct typed_naive {
    const struct typed_graph *g;
    const struct sl_config *config;
    const struct sl_model *model; // for the names and places of its tensors alone
    const struct sl_block *block;
    const float *x;     // features before dropout
    const double *rows; // learned, of the types without features
    const double *params;
    uint32_t classes;
    bool training;
    // Of a batch norm in training: its mean and unbiased variance go there, (n_params), or NULL.
    double *running;
    struct typed_place place[509];
};

struct typed_rows {
    double *of[TYPED_TYPES];
    uint32_t dim[TYPED_TYPES], n[TYPED_TYPES];
};

// The tensor of that name. What is asked for again is known by its parts: a model has the same few
// hundred for each number that is moved a little.
__attribute__((format(printf, 2, 3))) static inline const double *typed_find(struct typed_naive *m,
                                                                             const char *format,
                                                                             ...)
{
    struct typed_place asked = {.format = format};
    uintptr_t sum = (uintptr_t)format;
    char name[400];
    va_list args;
    va_start(args, format);
    uint32_t n = 0;
    for (const char *c = strchr(format, '%'); c; c = strchr(c + 1, '%'), n++) {
        asked.part[n] = c[1] == 's' ? (uintptr_t)va_arg(args, char *) : va_arg(args, unsigned);
        sum = sum * 31 + asked.part[n];
    }
    va_end(args);
    struct typed_place *known = &m->place[(sum ^ sum >> 10) % SL_COUNT_OF(m->place)];
    asked.offset = known->offset;
    if (memcmp(known, &asked, sizeof asked) == 0)
        return m->params + known->offset;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (uint32_t t = 0; t < m->model->n_tensors; t++)
        if (strcmp(m->model->tensor[t].name, name) == 0) {
            *known = asked;
            known->offset = m->model->tensor[t].offset;
            return m->params + known->offset;
        }
    ck_abort_msg("no tensor %s", name);
}

// Tensor `name` of a relation of layer l.
static inline const double *typed_of_relation(struct typed_naive *m, uint32_t l, uint32_t k,
                                              const char *name)
{
    const struct sl_relation *r = &m->g->relation[k];
    return typed_find(m, "convs.%u.convs.<%s___%s___%s>.%s", l, m->g->type[r->source].name, r->name,
                      m->g->type[r->target].name, name);
}

// y[o] += scale * sum of w[o, c] x[c]; transposed: w[c, o].
static inline void typed_product(const double *w, bool transposed, const double *x, uint32_t d_in,
                                 uint32_t d_out, double scale, double *y)
{
    for (uint32_t o = 0; o < d_out; o++)
        for (uint32_t c = 0; c < d_in; c++)
            y[o] += scale * (transposed ? w[c * d_out + o] : w[o * d_in + c]) * x[c];
}

static inline struct typed_rows typed_rows(struct typed_naive *m, uint32_t h, uint32_t dim)
{
    struct typed_rows rows = {0};
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        rows.n[t] = sl_block_types(m->block)[t].n[h];
        const uint32_t own = m->g->type[t].feat_dim;
        rows.dim[t] = dim ? dim : SL_MAX(own ? own : sl_config_learned_dim(m->config), 1u);
        rows.of[t] = fixture_alloc((rows.n[t] * (uint64_t)rows.dim[t] + 1) * sizeof(double));
    }
    return rows;
}

static inline void typed_rows_free(struct typed_rows *rows)
{
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        free(rows->of[t]);
}

// Masks of the dropout of these keys, (rows, dim); the seed's of `number`, 0: the job's own.
static inline float *typed_mask(struct typed_naive *m, double rate, uint32_t layer, uint32_t number,
                                uint64_t rows, uint32_t dim)
{
    float *mask = fixture_alloc((rows * dim + 1) * sizeof *mask);
    for (uint64_t i = 0; i < rows * dim; i++)
        mask[i] = 1;
    const struct sl_dropout d = {.rate = m->training ? (float)rate : 0,
                                 .seed = sl_rng_relation_seed(m->config->seed, number),
                                 .epoch = m->block->epoch,
                                 .batch = (uint32_t)m->block->batch,
                                 .layer = layer};
    if (rows)
        ck_assert_int_eq(sl_kernels_ref()->dropout(mask, rows, dim, &d), SL_OK);
    return mask;
}

static inline double typed_activate(struct typed_naive *m, double v)
{
    switch (m->config->model.activation) {
    case SL_CONFIG_RELU: return v > 0 ? v : 0;
    case SL_CONFIG_ELU: return v > 0 ? v : expm1(v);
    default: return v > 0 ? v : 0.01 * v;
    }
}

static inline uint32_t typed_incoming(struct typed_naive *m, uint32_t t)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
        n += m->g->relation[k].target == t;
    return n;
}

// What edge e of a row's n counts in their mean.
static inline double typed_share(const float *weights, uint32_t n, uint32_t e)
{
    double sum = 0;
    for (uint32_t i = 0; i < n && weights; i++)
        sum += (double)weights[i];
    return weights ? (double)weights[e] / sum : 1.0 / n;
}

// SAGEConv of the row i of a relation's target.
static inline void typed_sage(struct typed_naive *m, uint32_t l, uint32_t k,
                              const struct typed_rows *x, uint32_t i, const uint32_t *from,
                              const float *weights, uint32_t n, double scale, double *y)
{
    const uint32_t s = m->g->relation[k].source, t = m->g->relation[k].target;
    const uint32_t d = m->config->model.hidden;
    const double *w = typed_of_relation(m, l, k, "lin_l.weight");
    for (uint32_t e = 0; e < n; e++)
        typed_product(w, false, x->of[s] + (uint64_t)from[e] * x->dim[s], x->dim[s], d,
                      scale * typed_share(weights, n, e), y);
    typed_product(typed_of_relation(m, l, k, "lin_r.weight"), false,
                  x->of[t] + (uint64_t)i * x->dim[t], x->dim[t], d, scale, y);
    const double *bias = typed_of_relation(m, l, k, "lin_l.bias");
    for (uint32_t o = 0; o < d; o++)
        y[o] += scale * bias[o];
}

// What features of an edge add to its score in a head.
static inline double typed_edge_term(struct typed_naive *m, uint32_t l, uint32_t k, uint32_t h,
                                     uint64_t id)
{
    const struct sl_relation *r = &m->g->relation[k];
    const uint32_t d = m->config->model.hidden, c = d / m->config->model.heads;
    double *z = fixture_alloc(d * sizeof *z), sum = 0;
    const double *lin = typed_of_relation(m, l, k, "lin_edge.weight");
    const double *att = typed_of_relation(m, l, k, "att_edge");
    for (uint32_t o = h * c; o < (h + 1) * c; o++) {
        for (uint32_t i = 0; i < r->feat_dim; i++)
            z[o] += lin[o * r->feat_dim + i] *
                    (double)((const float *)r->feat)[(id - r->first_edge) * r->feat_dim + i];
        sum += att[o] * z[o];
    }
    free(z);
    return sum;
}

// GATConv likewise; mask (n, heads) and numbers are of the row's edges.
static inline void typed_gat(struct typed_naive *m, uint32_t l, uint32_t k,
                             const struct typed_rows *x, uint32_t i, const uint32_t *from,
                             const uint64_t *ids, uint32_t n, const float *mask, double scale,
                             double *y)
{
    const bool has_term = m->config->model.edge_features && m->g->relation[k].feat_dim > 0;
    const uint32_t s = m->g->relation[k].source, t = m->g->relation[k].target;
    const uint32_t d = m->config->model.hidden, heads = m->config->model.heads, c = d / heads;
    double *own = fixture_alloc(d * sizeof *own), *z = fixture_alloc((n + 1ull) * d * sizeof *z);
    double *score = fixture_alloc((n + 1ull) * sizeof *score);
    const bool shared = m->config->model.share_weights;
    const double *lin = typed_of_relation(m, l, k, shared ? "lin.weight" : "lin_src.weight");
    const double *src = typed_of_relation(m, l, k, "att_src");
    const double *dst = typed_of_relation(m, l, k, "att_dst");
    typed_product(shared ? lin : typed_of_relation(m, l, k, "lin_dst.weight"), false,
                  x->of[t] + (uint64_t)i * x->dim[t], x->dim[t], d, 1, own);
    for (uint32_t e = 0; e < n; e++)
        typed_product(lin, false, x->of[s] + (uint64_t)from[e] * x->dim[s], x->dim[s], d, 1,
                      z + e * d);
    for (uint32_t h = 0; h < heads; h++) {
        double sum = 0;
        for (uint32_t e = 0; e < n; e++) {
            double v = has_term ? typed_edge_term(m, l, k, h, ids[e]) : 0;
            for (uint32_t o = h * c; o < (h + 1) * c; o++)
                v += src[o] * z[e * d + o] + dst[o] * own[o];
            sum += score[e] = exp(v > 0 ? v : 0.2 * v);
        }
        for (uint32_t e = 0; e < n; e++)
            for (uint32_t o = h * c; o < (h + 1) * c; o++)
                y[o] += scale * score[e] / sum * (double)mask[e * heads + h] * z[e * d + o];
    }
    const double *bias = typed_of_relation(m, l, k, "bias");
    for (uint32_t o = 0; o < d; o++)
        y[o] += scale * bias[o];
    if (m->config->model.residual)
        typed_product(typed_of_relation(m, l, k, "res.weight"), false,
                      x->of[t] + (uint64_t)i * x->dim[t], x->dim[t], d, scale, y);
    free(own);
    free(z);
    free(score);
}

// *z (hidden) += W x + b, of row i of type t.
static inline void typed_affine(struct typed_naive *m, const double *weight, const double *bias,
                                const struct typed_rows *x, uint32_t t, uint32_t i, double *z)
{
    for (uint32_t o = 0; o < m->config->model.hidden; o++)
        z[o] += bias[o];
    typed_product(weight, false, x->of[t] + (uint64_t)i * x->dim[t], x->dim[t],
                  m->config->model.hidden, 1, z);
}

// GATv2Conv likewise.
static inline void typed_gatv2(struct typed_naive *m, uint32_t l, uint32_t k,
                               const struct typed_rows *x, uint32_t i, const uint32_t *from,
                               const uint64_t *ids, uint32_t n, const float *mask, double scale,
                               double *y)
{
    const struct sl_relation *r = &m->g->relation[k];
    const bool has_term = m->config->model.edge_features && r->feat_dim > 0;
    const uint32_t d = m->config->model.hidden, heads = m->config->model.heads, c = d / heads;
    double *own = fixture_alloc(d * sizeof *own), *z = fixture_alloc((n + 1ull) * d * sizeof *z);
    double *both = fixture_alloc(d * sizeof *both);
    double *score = fixture_alloc((n + 1ull) * heads * sizeof *score);
    double *sum = fixture_alloc(heads * sizeof *sum);
    const double *att = typed_of_relation(m, l, k, "att");
    typed_affine(m, typed_of_relation(m, l, k, "lin_r.weight"),
                 typed_of_relation(m, l, k, "lin_r.bias"), x, r->target, i, own);
    for (uint32_t e = 0; e < n; e++) {
        typed_affine(m, typed_of_relation(m, l, k, "lin_l.weight"),
                     typed_of_relation(m, l, k, "lin_l.bias"), x, r->source, from[e], z + e * d);
        for (uint32_t o = 0; o < d; o++) {
            both[o] = z[e * d + o] + own[o];
            for (uint32_t f = 0; has_term && f < r->feat_dim; f++)
                both[o] +=
                    typed_of_relation(m, l, k, "lin_edge.weight")[o * r->feat_dim + f] *
                    (double)((const float *)r->feat)[(ids[e] - r->first_edge) * r->feat_dim + f];
            score[e * heads + o / c] += att[o] * (both[o] > 0 ? both[o] : 0.2 * both[o]);
        }
        for (uint32_t h = 0; h < heads; h++)
            sum[h] += score[e * heads + h] = exp(score[e * heads + h]);
    }
    for (uint32_t e = 0; e < n; e++)
        for (uint32_t o = 0; o < d; o++)
            y[o] += scale * score[e * heads + o / c] / sum[o / c] *
                    (double)mask[e * heads + o / c] * z[e * d + o];
    const double *bias = typed_of_relation(m, l, k, "bias");
    for (uint32_t o = 0; o < d; o++)
        y[o] += scale * bias[o];
    if (m->config->model.residual)
        typed_product(typed_of_relation(m, l, k, "res.weight"), false,
                      x->of[r->target] + (uint64_t)i * x->dim[r->target], x->dim[r->target], d,
                      scale, y);
    free(own);
    free(z);
    free(both);
    free(score);
    free(sum);
}

// A relation's part of RGCNConv.
static inline void typed_gcn(struct typed_naive *m, uint32_t l, uint32_t k,
                             const struct typed_rows *x, const uint32_t *from, const float *weights,
                             uint32_t n, double *y)
{
    const uint32_t s = m->g->relation[k].source, d = m->config->model.hidden;
    const uint32_t bases = m->config->model.bases, blocks = m->config->model.blocks;
    const double *weight = typed_find(m, "convs.%u.weight", l);
    const double *comp = bases ? typed_find(m, "convs.%u.comp", l) + k * bases : NULL;
    double *w = fixture_alloc((uint64_t)d * d * sizeof *w);
    const uint32_t side = blocks ? d / blocks : d;
    for (uint32_t a = 0; a < d; a++)
        for (uint32_t o = 0; o < d; o++)
            if (bases)
                for (uint32_t b = 0; b < bases; b++)
                    w[a * d + o] += comp[b] * weight[(b * d + a) * d + o];
            else if (a / side == o / side)
                w[a * d + o] = weight[(uint64_t)k * d * side + a * side + o % side];
    for (uint32_t e = 0; e < n; e++)
        typed_product(w, true, x->of[s] + (uint64_t)from[e] * d, d, d, typed_share(weights, n, e),
                      y);
    free(w);
}

// The part of kqv_lin (0: keys, 1: queries, 2: values) of row i of type t.
static inline double *typed_kqv(struct typed_naive *m, uint32_t l, uint32_t t, uint32_t part,
                                const struct typed_rows *x, uint32_t i)
{
    const uint32_t d = m->config->model.hidden;
    const char *type = m->g->type[t].name;
    double *y = fixture_alloc(d * sizeof *y);
    const double *bias = typed_find(m, "convs.%u.kqv_lin.lins.%s.bias", l, type) + part * d;
    for (uint32_t o = 0; o < d; o++)
        y[o] = bias[o];
    typed_product(typed_find(m, "convs.%u.kqv_lin.lins.%s.weight", l, type) + part * d * d, false,
                  x->of[t] + (uint64_t)i * d, d, d, 1, y);
    return y;
}

// Head h of such rows times a relation's matrix, as HGTConv has it: a row for each edge.
static inline void typed_hgt_edge(struct typed_naive *m, uint32_t l, uint32_t k, uint32_t h,
                                  const char *matrix, const double *row, double *y)
{
    const uint32_t c = m->config->model.hidden / m->config->model.heads;
    memset(y, 0, c * sizeof *y);
    typed_product(typed_find(m, "convs.%u.%s.weight", l, matrix) +
                      (uint64_t)(h * TYPED_RELATIONS + k) * c * c,
                  true, row + h * c, c, c, 1, y);
}

// Adds to out (width of a head) and *sum what the edges of a relation to row i have in head h.
static inline void typed_hgt_run(struct typed_naive *m, uint32_t l, uint32_t k, uint32_t h,
                                 const struct typed_rows *x, uint32_t i, const double *query,
                                 double *out, double *sum)
{
    const struct sl_relation *r = &m->g->relation[k];
    const uint32_t c = m->config->model.hidden / m->config->model.heads;
    const struct sl_block_run *run =
        sl_block_find_run(m->block, m->config->model.layers - 1 - l, k);
    const struct sl_block_view view = sl_block_here(m->block);
    const double p = typed_find(m, "convs.%u.p_rel.%s__%s__%s", l, m->g->type[r->source].name,
                                r->name, m->g->type[r->target].name)[h];
    double *row = fixture_alloc(c * sizeof *row);
    for (uint32_t e = run ? sl_run_indptr(view, run)[i] : 0;
         run && e < sl_run_indptr(view, run)[i + 1]; e++) {
        const uint32_t from = sl_run_indices(view, run)[e];
        double *key = typed_kqv(m, l, r->source, 0, x, from), score = 0;
        double *value = typed_kqv(m, l, r->source, 2, x, from);
        typed_hgt_edge(m, l, k, h, "k_rel", key, row);
        for (uint32_t o = 0; o < c; o++)
            score += query[h * c + o] * row[o] * p / sqrt(c);
        typed_hgt_edge(m, l, k, h, "v_rel", value, row);
        for (uint32_t o = 0; o < c; o++)
            out[h * c + o] += exp(score) * row[o];
        *sum += exp(score);
        free(key);
        free(value);
    }
    free(row);
}

// HGTConv of row i of type t: one softmax over all relations, then the gate.
static inline void typed_hgt(struct typed_naive *m, uint32_t l, uint32_t t,
                             const struct typed_rows *x, uint32_t i, double *y)
{
    const uint32_t d = m->config->model.hidden, heads = m->config->model.heads, c = d / heads;
    const char *type = m->g->type[t].name;
    const double s = 1 / (1 + exp(-*typed_find(m, "convs.%u.skip.%s", l, type)));
    double *query = typed_kqv(m, l, t, 1, x, i), *out = fixture_alloc(d * sizeof *out);
    for (uint32_t h = 0; h < heads; h++) {
        double sum = 0;
        for (uint32_t k = 0; k < TYPED_RELATIONS; k++)
            if (m->g->relation[k].target == t)
                typed_hgt_run(m, l, k, h, x, i, query, out, &sum);
        for (uint32_t o = h * c; o < (h + 1) * c; o++) {
            out[o] = sum > 0 ? out[o] / sum : 0;
            out[o] *= 0.5 * (1 + erf(out[o] / sqrt(2)));
        }
    }
    const double *bias = typed_find(m, "convs.%u.out_lin.lins.%s.bias", l, type);
    for (uint32_t o = 0; o < d; o++)
        y[o] = s * bias[o] + (1 - s) * x->of[t][(uint64_t)i * d + o];
    typed_product(typed_find(m, "convs.%u.out_lin.lins.%s.weight", l, type), false, out, d, d, s,
                  y);
    free(query);
    free(out);
}

// Whether features become rows of the hidden width first.
static inline bool typed_enters(struct typed_naive *m)
{
    return m->config->model.kind == SL_MODEL_RGCN || m->config->model.kind == SL_MODEL_HGT;
}

// Adds what a relation gives to the rows of its target.
static inline void typed_convolve(struct typed_naive *m, uint32_t l, uint32_t k,
                                  const struct typed_rows *x, struct typed_rows *y)
{
    const uint32_t t = m->g->relation[k].target, d = m->config->model.hidden;
    const uint32_t h = m->config->model.layers - 1 - l, heads = m->config->model.heads;
    const struct sl_block_run *run = sl_block_find_run(m->block, h, k);
    const struct sl_block_view view = sl_block_here(m->block);
    const double scale =
        m->config->model.relations == SL_RELATIONS_MEAN ? 1.0 / typed_incoming(m, t) : 1;
    float *mask = typed_mask(m, m->config->model.attention_dropout, SL_LAYER_OWN_DROPOUT + l, k,
                             run ? run->n_edges : 0, heads);
    for (uint32_t i = 0; i < y->n[t]; i++) {
        const uint32_t first = run ? sl_run_indptr(view, run)[i] : 0;
        const uint32_t n = run ? sl_run_indptr(view, run)[i + 1] - first : 0;
        const uint32_t *from = run ? sl_run_indices(view, run) + first : NULL;
        const float *weights = run ? sl_run_weights(view, run) : NULL;
        double *to = y->of[t] + (uint64_t)i * d;
        const uint64_t *ids = run ? sl_run_edge_ids(view, run) + first : NULL;
        weights = weights ? weights + first : NULL;
        switch (m->config->model.kind) {
        case SL_MODEL_RSAGE: typed_sage(m, l, k, x, i, from, weights, n, scale, to); break;
        case SL_MODEL_RGAT:
            typed_gat(m, l, k, x, i, from, ids, n, mask + first * heads, scale, to);
            break;
        case SL_MODEL_RGATV2:
            typed_gatv2(m, l, k, x, i, from, ids, n, mask + first * heads, scale, to);
            break;
        default: typed_gcn(m, l, k, x, from, weights, n, to);
        }
    }
    free(mask);
}

static inline void typed_batch_norm(struct typed_naive *m, uint32_t l, const char *type, uint32_t n,
                                    uint32_t d, double *y)
{
    const double *gamma = typed_find(m, "norms.%u.%s.module.weight", l, type);
    const double *beta = typed_find(m, "norms.%u.%s.module.bias", l, type);
    const double *mean = typed_find(m, "norms.%u.%s.module.running_mean", l, type);
    const double *variance = typed_find(m, "norms.%u.%s.module.running_var", l, type);
    for (uint32_t c = 0; c < d; c++) {
        double mu = mean[c], var = variance[c];
        if (m->training && n > 1) {
            mu = var = 0;
            for (uint32_t i = 0; i < n; i++)
                mu += y[i * d + c] / n;
            for (uint32_t i = 0; i < n; i++)
                var += (y[i * d + c] - mu) * (y[i * d + c] - mu) / n;
        }
        if (m->running) {
            m->running[mean - m->params + c] = mu;
            m->running[variance - m->params + c] = m->training && n > 1 ? var * n / (n - 1) : var;
        }
        for (uint32_t i = 0; i < n; i++)
            y[i * d + c] = (y[i * d + c] - mu) / sqrt(var + 1e-5) * gamma[c] + beta[c];
    }
}

static inline void typed_layer_norm(struct typed_naive *m, uint32_t l, const char *type, uint32_t d,
                                    double *y)
{
    const double *gamma = typed_find(m, "norms.%u.%s.weight", l, type);
    const double *beta = typed_find(m, "norms.%u.%s.bias", l, type);
    double mu = 0, var = 0;
    for (uint32_t c = 0; c < d; c++)
        mu += y[c] / d;
    for (uint32_t c = 0; c < d; c++)
        var += (y[c] - mu) * (y[c] - mu) / d;
    for (uint32_t c = 0; c < d; c++)
        y[c] = (y[c] - mu) / sqrt(var + 1e-5) * gamma[c] + beta[c];
}

// Norm, activation and dropout of a hidden layer's rows of type t.
static inline void typed_tail(struct typed_naive *m, uint32_t l, uint32_t t, struct typed_rows *y)
{
    const uint32_t d = m->config->model.hidden, n = y->n[t];
    const char *type = m->g->type[t].name;
    const bool gets_rows = m->config->model.kind == SL_MODEL_RGCN || typed_incoming(m, t) > 0;
    if (m->config->model.norm == SL_NORM_BATCH && gets_rows)
        typed_batch_norm(m, l, type, n, d, y->of[t]);
    for (uint32_t i = 0; i < n && m->config->model.norm == SL_NORM_LAYER; i++)
        typed_layer_norm(m, l, type, d, y->of[t] + (uint64_t)i * d);
    float *mask = typed_mask(m, m->config->model.dropout, l + 1, t, n, d);
    for (uint32_t i = 0; i < n * d; i++) {
        if (m->config->model.kind != SL_MODEL_HGT)
            y->of[t][i] = typed_activate(m, y->of[t][i]);
        y->of[t][i] *= (double)mask[i];
    }
    free(mask);
}

static inline struct typed_rows typed_naive_layer(struct typed_naive *m, uint32_t l,
                                                  const struct typed_rows *x)
{
    const uint32_t d = m->config->model.hidden, layers = m->config->model.layers;
    struct typed_rows y = typed_rows(m, layers - 1 - l, d);
    for (uint32_t k = 0; k < TYPED_RELATIONS && m->config->model.kind != SL_MODEL_HGT; k++)
        typed_convolve(m, l, k, x, &y);
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        for (uint32_t i = 0; i < y.n[t] && m->config->model.kind == SL_MODEL_HGT; i++)
            typed_hgt(m, l, t, x, i, y.of[t] + (uint64_t)i * d);
        for (uint32_t i = 0; i < y.n[t] && m->config->model.kind == SL_MODEL_RGCN; i++) {
            double *row = y.of[t] + (uint64_t)i * d;
            typed_product(typed_find(m, "convs.%u.root", l), true, x->of[t] + (uint64_t)i * d, d, d,
                          1, row);
            const double *bias = typed_find(m, "convs.%u.bias", l);
            for (uint32_t o = 0; o < d; o++)
                row[o] += bias[o];
        }
        if (l + 1 < layers)
            typed_tail(m, l, t, &y);
    }
    return y;
}

// Number i of a type's rows before dropout.
static inline double typed_input_of(struct typed_naive *m, uint32_t t, uint32_t i)
{
    const uint32_t dim = sl_config_learned_dim(m->config);
    const float *x = m->x + sl_typed_rows_at(m->block, &m->g->typed, t, SL_TYPED_F32) / sizeof *x;
    if (m->g->type[t].feat_dim > 0)
        return (double)x[i];
    if (dim == 0)
        return 1;
    const uint64_t v = sl_block_nodes(m->block)[sl_block_types(m->block)[t].first + i / dim];
    const uint64_t row = sl_typed_bare_before(&m->g->typed, t) + v - m->g->type[t].first;
    return m->rows[row * dim + i % dim];
}

// Features after dropout and, where the model has it, the linear layer of each type.
static inline struct typed_rows typed_naive_input(struct typed_naive *m)
{
    const uint32_t d = m->config->model.hidden;
    struct typed_rows x = typed_rows(m, m->block->n_hops, 0);
    for (uint32_t t = 0; t < TYPED_TYPES; t++) {
        const bool masked = m->g->type[t].feat_dim > 0 || sl_config_learned_dim(m->config) > 0;
        float *mask = typed_mask(m, m->config->model.input_dropout, 0, t, x.n[t], x.dim[t]);
        for (uint32_t i = 0; i < x.n[t] * x.dim[t]; i++)
            x.of[t][i] = typed_input_of(m, t, i) * (masked ? (double)mask[i] : 1);
        free(mask);
    }
    if (!typed_enters(m))
        return x;
    struct typed_rows h = typed_rows(m, m->block->n_hops, d);
    for (uint32_t t = 0; t < TYPED_TYPES; t++)
        for (uint32_t i = 0; i < h.n[t]; i++) {
            double *row = h.of[t] + (uint64_t)i * d;
            const char *type = m->g->type[t].name;
            typed_product(typed_find(m, "lin_dict.%s.weight", type), false,
                          x.of[t] + (uint64_t)i * x.dim[t], x.dim[t], d, 1, row);
            for (uint32_t o = 0; o < d; o++)
                row[o] = typed_activate(m, row[o] + typed_find(m, "lin_dict.%s.bias", type)[o]);
        }
    typed_rows_free(&x);
    return h;
}

// Logits (n_seeds, classes).
static inline void typed_naive_forward(struct typed_naive *m, double *logits)
{
    const uint32_t d = m->config->model.hidden;
    struct typed_rows x = typed_naive_input(m);
    for (uint32_t l = 0; l < m->config->model.layers; l++) {
        struct typed_rows y = typed_naive_layer(m, l, &x);
        typed_rows_free(&x);
        x = y;
    }
    for (uint32_t i = 0; i < m->block->n_seeds; i++) {
        double *row = logits + (uint64_t)i * m->classes;
        for (uint32_t c = 0; c < m->classes; c++)
            row[c] = typed_find(m, "lin.bias")[c];
        typed_product(typed_find(m, "lin.weight"), false, x.of[0] + (uint64_t)i * d, d, m->classes,
                      1, row);
    }
    typed_rows_free(&x);
}

static inline double typed_naive_loss(struct typed_naive *m)
{
    double loss = 0, *logits = fixture_alloc(m->block->n_seeds * m->classes * sizeof *logits);
    const int32_t *labels = sl_view_targets(sl_block_here(m->block));
    typed_naive_forward(m, logits);
    for (uint32_t i = 0; i < m->block->n_seeds; i++) {
        double sum = 0;
        for (uint32_t c = 0; c < m->classes; c++)
            sum += exp(logits[i * m->classes + c]);
        if (labels[i] >= 0)
            loss += log(sum) - logits[i * m->classes + (uint32_t)labels[i]];
    }
    free(logits);
    return loss;
}

#endif
