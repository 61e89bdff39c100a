/*
 * trainer_fixture.h - what the tests of the trainer share: small graphs as data sets in memory and
 * blocks made by hand.
 */
#ifndef SL_TESTS_UNIT_TRAINER_FIXTURE_H
#define SL_TESTS_UNIT_TRAINER_FIXTURE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/dataset.h"
#include "common/arena/block.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "tests/unit/asserts.h"
#include "trainer/feed/edge_rows.h"
#include "trainer/model/model.h"

static inline void *fixture_alloc_aligned(size_t bytes, size_t alignment)
{
    size_t whole = sl_align_up(SL_MAX(bytes, (size_t)1), alignment);
    void *p = aligned_alloc(alignment, whole);
    if (!p)
        abort();
    memset(p, 0, whole);
    return p;
}

static inline void *fixture_alloc(size_t bytes)
{
    return fixture_alloc_aligned(bytes, 64);
}

// What a device may read in place: nothing else is in its pages.
static inline void *fixture_alloc_pages(size_t bytes)
{
    return fixture_alloc_aligned(bytes, (size_t)sysconf(_SC_PAGESIZE));
}

// --- random numbers: a stream of its own for each caller ---

struct fixture_rng {
    uint64_t seed;
    uint32_t n;
};

static inline uint32_t fixture_word(struct fixture_rng *r)
{
    return sl_philox(r->seed, 0, r->n++, 99, 0).w[0];
}

static inline float fixture_float(struct fixture_rng *r, float bound)
{
    return (2 * sl_rng_unit(fixture_word(r)) - 1) * bound;
}

// --- a graph with features and labels ---

struct fixture_graph {
    struct sl_dataset ds;
    uint64_t *indptr;
    uint32_t *indices;
    float *feat, *edge_feat;
    int32_t *label;
    uint32_t *split[SL_SPLIT_COUNT];
};

// Vertex 0 is a hub with an edge from everybody; every fifth vertex has no in-edges; the others
// have 1 to 6 of them, from vertices that need not differ. Labels are random, one in eight -1.
static inline struct fixture_graph fixture_graph(uint32_t n, uint32_t feat_dim, uint32_t classes,
                                                 uint64_t seed)
{
    struct fixture_rng r = {.seed = seed};
    struct fixture_graph g = {0};
    g.indptr = fixture_alloc((n + 1) * sizeof *g.indptr);
    g.indices = fixture_alloc((uint64_t)n * 8 * sizeof *g.indices);
    g.feat = fixture_alloc_pages((uint64_t)n * feat_dim * sizeof *g.feat);
    g.label = fixture_alloc(n * sizeof *g.label);
    uint64_t e = 0;
    for (uint32_t v = 0; v < n; v++) {
        g.indptr[v] = e;
        uint32_t degree = v == 0 ? n - 1 : v % 5 == 4 ? 0 : 1 + fixture_word(&r) % 6;
        for (uint32_t i = 0; i < degree; i++) {
            uint32_t u = v == 0 ? i + 1 : fixture_word(&r) % n;
            g.indices[e++] = u == v ? (u + 1) % n : u;
        }
    }
    g.indptr[n] = e;
    for (uint64_t i = 0; i < (uint64_t)n * feat_dim; i++)
        g.feat[i] = fixture_float(&r, 1);
    for (uint32_t v = 0; v < n; v++)
        g.label[v] = v % 8 == 5 ? -1 : (int32_t)(fixture_word(&r) % classes);
    g.ds = (struct sl_dataset){
        .task = SL_TASK_MULTICLASS,
        .n_nodes = n,
        .n_edges = e,
        .indptr = g.indptr,
        .indices = g.indices,
        .indices_dtype = SL_DTYPE_U32,
        .feat_dim = feat_dim,
        .feat_dtype = SL_DTYPE_F32,
        .feat = g.feat,
        .n_classes = classes,
        .label = g.label,
    };
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        g.split[s] = fixture_alloc(n * sizeof(uint32_t));
        uint64_t k = 0;
        // Backwards, so that no list is a run of ids.
        for (uint32_t v = n; v-- > 0;)
            if ((int)(v % 3) == s)
                g.split[s][k++] = v;
        g.ds.split[s] = (struct sl_vertex_list){.n = k, .ids = g.split[s]};
    }
    return g;
}

// Adds self-loops: one at every third vertex, three at every seventh; vertices that had no in-edges
// keep none, but those that are a multiple of four get one as their only one.
static inline void fixture_add_loops(struct fixture_graph *g)
{
    uint32_t n = (uint32_t)g->ds.n_nodes, *indices = fixture_alloc((uint64_t)n * 12 * 4);
    uint64_t e = 0, first = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint64_t end = g->indptr[v + 1];
        uint32_t loops = first == end ? v % 4 == 0 : v % 7 == 0 ? 3 : v % 3 == 0;
        g->indptr[v] = e;
        for (uint64_t k = first; k < end; k++) {
            indices[e++] = g->indices[k];
            if (k == first) // not all at the end
                while (loops > 1 && loops--)
                    indices[e++] = v;
        }
        if (loops)
            indices[e++] = v;
        first = end;
    }
    g->indptr[n] = e;
    free(g->indices);
    g->ds.indices = g->indices = indices;
    g->ds.n_edges = e;
}

// Gives its edges features; once all of them are there.
static inline void fixture_add_edge_features(struct fixture_graph *g, uint32_t dim, uint64_t seed)
{
    struct fixture_rng r = {.seed = seed};
    g->edge_feat = fixture_alloc(g->ds.n_edges * dim * sizeof *g->edge_feat);
    for (uint64_t i = 0; i < g->ds.n_edges * dim; i++)
        g->edge_feat[i] = fixture_float(&r, 1);
    g->ds.typed.plain = (struct sl_relation){.n_edges = g->ds.n_edges,
                                             .feat_dim = dim,
                                             .feat_dtype = SL_DTYPE_F32,
                                             .feat = g->edge_feat};
}

static inline uint32_t fixture_own_loops(const struct sl_dataset *ds, uint32_t v)
{
    uint32_t loops = 0;
    for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
        loops += ((const uint32_t *)ds->indices)[e] == v;
    return loops;
}

static inline void fixture_graph_free(struct fixture_graph *g)
{
    free(g->indptr);
    free(g->indices);
    free(g->feat);
    free(g->edge_feat);
    free(g->label);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        free(g->split[s]);
}

// --- a block ---

// Neighbours of v that a hop takes: a run of its list that starts somewhere and wraps around.
static inline uint32_t fixture_pick(const struct sl_dataset *ds, uint32_t v, int64_t fanout,
                                    uint32_t hop, uint32_t *out, uint64_t *ids)
{
    uint64_t degree = sl_dataset_degree(ds, v);
    uint64_t n = fanout < 0 ? degree : SL_MIN(degree, (uint64_t)fanout);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (i + (n < degree ? v * 7u + hop : 0)) % degree;
        ids[i] = ds->indptr[v] + at;
        out[i] = ((const uint32_t *)ds->indices)[ids[i]];
    }
    return (uint32_t)n;
}

struct fixture_arrays {
    uint32_t *nodes, n_nodes;
    uint32_t *local; // (graph) local id + 1
    uint32_t *indptr[SL_MAX_HOPS], *indices[SL_MAX_HOPS];
    uint64_t *ids[SL_MAX_HOPS];
};

static inline uint32_t fixture_local(struct fixture_arrays *t, uint32_t v)
{
    if (!t->local[v]) {
        t->nodes[t->n_nodes] = v;
        t->local[v] = ++t->n_nodes;
    }
    return t->local[v] - 1;
}

static inline uint64_t fixture_put(char *base, uint64_t *at, const void *from, uint64_t bytes)
{
    uint64_t offset = *at;
    if (base && bytes)
        memcpy(base + offset, from, bytes);
    *at = sl_align_up(offset + bytes, 64);
    return offset;
}

// Lays the block out at `base`, or only measures it when base is NULL; returns its bytes.
static inline uint64_t fixture_write(char *base, struct sl_block *b, const struct fixture_arrays *t,
                                     const struct sl_dataset *ds)
{
    uint64_t at = sl_align_up(sizeof *b, 64);
    int32_t *labels = fixture_alloc(b->n_seeds * sizeof *labels);
    b->n_targets = ds->target ? ds->n_classes : 0;
    float *targets = fixture_alloc((uint64_t)b->n_seeds * b->n_targets * sizeof *targets);
    uint32_t *degrees = fixture_alloc(t->n_nodes * sizeof *degrees);
    for (uint32_t i = 0; i < b->n_seeds; i++)
        if (ds->target)
            sl_dataset_targets(ds, t->nodes[i], targets + (uint64_t)i * ds->n_classes);
        else
            labels[i] = ds->label[t->nodes[i]];
    for (uint32_t i = 0; i < t->n_nodes; i++)
        degrees[i] =
            (uint32_t)sl_dataset_degree(ds, t->nodes[i]) - fixture_own_loops(ds, t->nodes[i]);
    b->nodes_offset = fixture_put(base, &at, t->nodes, t->n_nodes * 4ull);
    b->label_offset = ds->target ? fixture_put(base, &at, targets, b->n_seeds * b->n_targets * 4ull)
                                 : fixture_put(base, &at, labels, b->n_seeds * 4ull);
    b->degree_offset = fixture_put(base, &at, degrees, t->n_nodes * 4ull);
    for (uint32_t h = 0; h < b->n_hops; h++) {
        struct sl_block_hop *hop = &b->hop[h];
        hop->indptr_offset = fixture_put(base, &at, t->indptr[h], (hop->n_dst + 1) * 4ull);
        hop->indices_offset = fixture_put(base, &at, t->indices[h], hop->n_edges * 4ull);
        if (b->flags & SL_BLOCK_HAS_EDGE_IDS)
            hop->edge_ids_offset = fixture_put(base, &at, t->ids[h], hop->n_edges * 8ull);
    }
    b->bytes = at;
    if (base)
        memcpy(base, b, sizeof *b);
    free(labels);
    free(targets);
    free(degrees);
    return at;
}

// The block of `seeds`, with numbers of edges that have features; to be freed with free().
static inline struct sl_block *fixture_block(const struct sl_dataset *ds, const uint32_t *seeds,
                                             uint32_t n_seeds, uint32_t n_hops,
                                             const int64_t *fanout, uint32_t epoch, uint64_t batch)
{
    struct fixture_arrays t = {
        .nodes = fixture_alloc(ds->n_nodes * 4),
        .local = fixture_alloc(ds->n_nodes * 4),
    };
    struct sl_block b = {.magic = SL_BLOCK_MAGIC,
                         .flags = SL_BLOCK_HAS_DEGREES,
                         .batch = batch,
                         .epoch = epoch,
                         .n_hops = n_hops,
                         .n_seeds = n_seeds};
    if (ds->typed.plain.feat_dim > 0)
        b.flags |= SL_BLOCK_HAS_EDGE_IDS;
    for (uint32_t i = 0; i < n_seeds; i++)
        fixture_local(&t, seeds[i]);
    b.n_nodes[0] = n_seeds;
    uint32_t *pick = fixture_alloc((ds->n_edges + 1) * 4);
    for (uint32_t h = 0; h < n_hops; h++) {
        uint32_t n_dst = b.n_nodes[h], e = 0;
        t.indptr[h] = fixture_alloc((n_dst + 1) * 4ull);
        t.indices[h] = fixture_alloc((ds->n_edges + 1) * 4);
        t.ids[h] = fixture_alloc((ds->n_edges + 1) * 8);
        for (uint32_t i = 0; i < n_dst; i++) {
            uint32_t n = fixture_pick(ds, t.nodes[i], fanout[h], h, pick, t.ids[h] + e);
            for (uint32_t k = 0; k < n; k++)
                t.indices[h][e++] = fixture_local(&t, pick[k]);
            t.indptr[h][i + 1] = e;
        }
        b.hop[h].n_dst = n_dst;
        b.hop[h].n_edges = e;
        b.n_edges += e;
        b.n_nodes[h + 1] = t.n_nodes;
    }
    b.n_input = t.n_nodes;
    char *out = fixture_alloc(fixture_write(NULL, &b, &t, ds));
    fixture_write(out, &b, &t, ds);
    for (uint32_t h = 0; h < n_hops; h++) {
        free(t.indptr[h]);
        free(t.indices[h]);
        free(t.ids[h]);
    }
    free(pick);
    free(t.nodes);
    free(t.local);
    return (struct sl_block *)(void *)out;
}

// The block with an array more at its end; takes the old one. *offset is set in the copy's header.
static inline struct sl_block *fixture_append(struct sl_block *b, const void *array, uint64_t bytes,
                                              uint64_t *offset)
{
    uint64_t at = b->bytes;
    char *out = fixture_alloc(sl_align_up(at + bytes, 64));
    memcpy(out, b, b->bytes);
    free(b);
    *offset = fixture_put(out, &at, array, bytes);
    b = (struct sl_block *)(void *)out;
    b->bytes = at;
    return b;
}

// The block with the ranks of its input nodes; takes the old one.
static inline struct sl_block *fixture_rank(struct sl_block *b, const uint32_t *rank_of,
                                            uint32_t generation)
{
    uint32_t *ranks = fixture_alloc(b->n_input * sizeof *ranks);
    for (uint32_t i = 0; i < b->n_input; i++)
        ranks[i] = rank_of[sl_block_nodes(b)[i]];
    uint64_t offset;
    b = fixture_append(b, ranks, b->n_input * sizeof *ranks, &offset);
    b->rank_offset = offset;
    b->rank_generation = generation;
    b->flags |= SL_BLOCK_HAS_RANKS;
    free(ranks);
    return b;
}

// The block with weights for its edges, whole numbers from 1 to `most`; takes the old one.
static inline struct sl_block *fixture_weigh(struct sl_block *b, uint32_t most, uint64_t seed)
{
    struct fixture_rng r = {.seed = seed};
    for (uint32_t h = 0; h < b->n_hops; h++) {
        uint32_t n = b->hop[h].n_edges;
        float *weights = fixture_alloc(n * sizeof *weights);
        for (uint32_t e = 0; e < n; e++)
            weights[e] = (float)(1 + fixture_word(&r) % most);
        uint64_t offset;
        b = fixture_append(b, weights, n * sizeof *weights, &offset);
        b->hop[h].weights_offset = offset;
        free(weights);
    }
    b->flags |= SL_BLOCK_HAS_WEIGHTS;
    return b;
}

/*
 * The block with that many positives and negatives of each, of seeds that need not differ, in the
 * place of its labels; takes the old one. The first seed is in a pair with itself, and the source
 * of every third positive; one positive and some negatives are not there.
 */
static inline struct sl_block *fixture_pair(struct sl_block *b, uint32_t n_positive,
                                            uint32_t per_positive, uint64_t seed)
{
    struct fixture_rng r = {.seed = seed};
    const uint32_t n = n_positive * (1 + per_positive);
    uint32_t *ids = fixture_alloc((uint64_t)n * SL_PAIR_BYTES);
    float *weight = (float *)(void *)(ids + 2ull * n), *shift = weight + n;
    for (uint32_t p = 0; p < n; p++) {
        const bool positive = p < n_positive;
        const uint32_t of = positive ? p : (p - n_positive) / per_positive;
        ids[2 * p] = positive ? (p % 3 ? fixture_word(&r) % b->n_seeds : 0) : ids[2 * of];
        ids[2 * p + 1] = p == 0 ? 0 : fixture_word(&r) % b->n_seeds;
        weight[p] = positive ? (p == 4 ? 0 : 0.5f + (float)(p % 3)) : (float)(p % 5 != 2);
        shift[p] = fixture_float(&r, 1);
    }
    uint64_t offset;
    b = fixture_append(b, ids, (uint64_t)n * SL_PAIR_BYTES, &offset);
    b->label_offset = offset;
    b->n_targets = per_positive;
    b->n_pairs = n;
    b->flags |= SL_BLOCK_HAS_PAIRS;
    free(ids);
    return b;
}

// Makes the job one of links.
static inline void fixture_link(struct sl_config *c, uint32_t dim, enum sl_decoder_kind decoder,
                                enum sl_combine_kind combine, enum sl_pair_loss_kind loss)
{
    c->task.kind = SL_JOB_LINKS;
    c->task.dim = dim;
    c->task.decoder = decoder;
    c->task.combine = combine;
    c->task.hidden = 5;
    c->task.loss = loss;
    c->task.margin = 0.8;
    c->task.per_positive = 2;
}

// Features of f16 in place of the graph's, each a number of its own; to be freed.
static inline void *fixture_halve(struct fixture_graph *g, uint32_t dim)
{
    uint16_t *p = fixture_alloc_pages(g->ds.n_nodes * dim * sizeof *p);
    for (uint64_t i = 0; i < g->ds.n_nodes * dim; i++)
        p[i] = (uint16_t)(i * 40503u & 0x7bff); // finite
    g->ds.feat = p;
    g->ds.feat_dim = dim;
    g->ds.feat_dtype = SL_DTYPE_F16;
    return p;
}

// Features of the block's input nodes, f32 (n_input, feat_dim), and behind them those of its edges.
static inline float *fixture_input(const struct sl_dataset *ds, const struct sl_block *b)
{
    const uint64_t vertices = (uint64_t)b->n_input * ds->feat_dim * sizeof(float);
    struct sl_row_source source = {.dataset = ds};
    float *x = fixture_alloc(sl_edge_rows_end(b, ds->typed.plain.feat_dim, vertices, NULL));
    ck_assert_int_eq(
        sl_edge_rows_copy_block(&source, sl_kernels_ref(), b, vertices, (char *)x + vertices),
        SL_OK);
    sl_row_source_fini(&source);
    for (uint32_t i = 0; i < b->n_input; i++)
        memcpy(x + (uint64_t)i * ds->feat_dim,
               (const float *)ds->feat + (uint64_t)sl_block_nodes(b)[i] * ds->feat_dim,
               ds->feat_dim * sizeof *x);
    return x;
}

// --- the model ---

static inline struct sl_config fixture_config(enum sl_model_kind kind, uint32_t layers,
                                              uint32_t hidden)
{
    struct sl_config c = {0};
    c.model.kind = kind;
    c.model.layers = layers;
    c.model.hidden = hidden;
    c.model.self_loops = true;
    c.model.heads = 2;
    c.seed = 42;
    c.sampler.n_fanout = layers;
    c.sampler.batch_size = 8;
    c.optimizer.kind = SL_OPTIMIZER_ADAM;
    c.optimizer.lr = 0.01;
    c.optimizer.beta1 = 0.9;
    c.optimizer.beta2 = 0.999;
    c.optimizer.eps = 1e-8;
    c.updates.batches_per_update = 1;
    c.allocation.samplers = c.allocation.trainers = 1;
    return c;
}

// An objective over that many classes, without class weights; lives as long as the program.
static inline const struct sl_objective *fixture_objective(uint32_t n_outputs)
{
    static struct sl_objective objective[1024];
    ck_assert_uint_lt(n_outputs, SL_COUNT_OF(objective));
    objective[n_outputs] =
        (struct sl_objective){.task = SL_TASK_MULTICLASS, .n_outputs = n_outputs};
    return &objective[n_outputs];
}

static inline int fixture_model(struct sl_model *m, const struct sl_config *c, uint32_t feat_dim,
                                uint32_t n_classes, const struct sl_kernels *kernels)
{
    return sl_model_init(m, c, feat_dim, NULL, fixture_objective(n_classes), sl_device_host(),
                         kernels);
}

// Of a data set, whose edges may have features.
static inline int fixture_model_of(struct sl_model *m, const struct sl_config *c,
                                   const struct sl_dataset *ds, const struct sl_kernels *kernels)
{
    return sl_model_init(m, c, ds->feat_dim, &ds->typed, fixture_objective(ds->n_classes),
                         sl_device_host(), kernels);
}

static inline float *fixture_params(const struct sl_model *m, uint64_t seed)
{
    struct fixture_rng r = {.seed = seed};
    float *p = fixture_alloc(m->n_params * sizeof *p);
    for (uint64_t i = 0; i < m->n_params; i++)
        p[i] = fixture_float(&r, 0.7f);
    // Running statistics: a variance is positive.
    for (uint32_t t = 0; t < m->n_tensors; t++)
        for (uint64_t i = 0; m->tensor[t].role == SL_TENSOR_RUNNING && i < m->tensor[t].shape[0];
             i++)
            p[m->tensor[t].offset + i] = 1.0f + p[m->tensor[t].offset + i];
    return p;
}

#endif
