/*
 * sampler_fixture.h - what the tests of the sampler share: graphs as data sets in memory, and a
 * block looked at from all sides.
 */
#ifndef SL_TESTS_UNIT_SAMPLER_FIXTURE_H
#define SL_TESTS_UNIT_SAMPLER_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/dataset_files.h"
#include "common/data/weightless.h"
#include "sampler/draw.h"
#include "tests/unit/asserts.h"
#include "tests/unit/sampler_rows.h"

static inline uint32_t fixture_word(uint32_t a, uint32_t b)
{
    return sl_philox(4711, sl_rng_word0(SL_RNG_GENERATE, 3, 0), a, b, 0).w[0];
}

static inline void *fixture_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, sl_align_up(SL_MAX(bytes, (size_t)1), 64));
    if (!p)
        abort();
    return p;
}

struct fixture {
    struct sl_topology topology;
    uint64_t *indptr;
    int32_t *indices;
    float *edge_weight;
    double *weight_prefix;
    int32_t *label;
    uint32_t *split[SL_SPLIT_COUNT];
};

// A hub with an edge from everybody, empty rows, rows of 1 to 30 edges; two thirds of the vertices
// train, the others are for validation and test. One label in eight is missing. One weight in four
// is zero, and so are all of a row in seven.
static inline struct fixture fixture_graph(uint32_t n)
{
    struct fixture f = {0};
    f.indptr = fixture_alloc((n + 1) * sizeof *f.indptr);
    f.indices = fixture_alloc((uint64_t)n * 32 * sizeof *f.indices);
    f.label = fixture_alloc(n * sizeof *f.label);
    uint64_t e = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t r = fixture_word(v, 0);
        uint32_t degree = v == 0 ? n - 1 : v % 6 == 5 ? 0 : 1 + r % 30;
        f.indptr[v] = e;
        f.label[v] = v % 8 == 3 ? -1 : (int32_t)(r >> 8) % 40;
        for (uint32_t j = 0; j < degree; j++)
            f.indices[e++] = (int32_t)(v == 0 ? j + 1 : fixture_word(v, j + 1) % n);
    }
    f.indptr[n] = e;
    struct sl_dataset *ds = &f.topology.dataset;
    *ds = (struct sl_dataset){.n_nodes = n,
                              .n_edges = e,
                              .indptr = f.indptr,
                              .indices = f.indices,
                              .indices_dtype = SL_DTYPE_I32,
                              .n_classes = 40,
                              .label = f.label};
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        f.split[s] = fixture_alloc(n * sizeof(uint32_t));
    for (uint32_t v = 0; v < n; v++) {
        int s = v % 3 ? SL_SPLIT_TRAIN : v % 2 ? SL_SPLIT_VAL : SL_SPLIT_TEST;
        f.split[s][ds->split[s].n++] = v;
    }
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        ds->split[s].ids = f.split[s];
    f.topology.view = (struct sl_topology_view){
        .n_nodes = n, .indptr = f.indptr, .indices = f.indices, .indices_dtype = SL_DTYPE_I32};
    f.edge_weight = fixture_alloc(e * sizeof *f.edge_weight);
    f.weight_prefix = fixture_alloc(e * sizeof *f.weight_prefix);
    for (uint32_t v = 0; v < n; v++)
        for (uint64_t j = f.indptr[v]; j < f.indptr[v + 1]; j++) {
            uint32_t w = fixture_word((uint32_t)j, ~v);
            f.edge_weight[j] = v % 7 == 4 || w % 4 == 0 ? 0.0f : (float)(w >> 20) + 0.5f;
        }
    ds->edge_weight = f.edge_weight;
    if (sl_kernels_ref()->weight_prefix(&f.topology.view, f.edge_weight, f.weight_prefix) != SL_OK)
        abort();
    f.topology.view.weight_prefix = f.weight_prefix;
    return f;
}

// Some rows get self-loops and edges that are there twice, next to each other.
static inline void fixture_tangle(struct fixture *f)
{
    for (uint32_t v = 1; v < f->topology.view.n_nodes; v += 4)
        for (uint64_t e = f->indptr[v] + 1; e < f->indptr[v + 1]; e++)
            if (e % 5 < 2)
                f->indices[e] = e % 5 ? (int32_t)v : f->indices[e - 1];
}

static inline void fixture_free(struct fixture *f)
{
    if (f->topology.dataset.files)
        free(f->topology.dataset.files->owned[SL_FILE_EDGE_WEIGHT]);
    free(f->indptr);
    free(f->indices);
    free(f->edge_weight);
    free(f->weight_prefix);
    free(f->label);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        free(f->split[s]);
}

// For who samples by weight: edges of weight 0 are none.
static inline void fixture_drop_weightless(struct fixture *f)
{
    static struct sl_dataset_files files; // that the degrees are freed with, at the end of the test
    f->topology.dataset.files = &files;
    sl_weightless_count(&f->topology.dataset, 2);
    if (sl_topology_drop_weightless(&f->topology, 2) != SL_OK)
        abort();
}

// All kinds of batches.
static const struct sl_draw_plan fixture_plans[] = {
    {.n_hops = 3, .fanout = {15, 10, 5}, .stream = SL_RNG_SAMPLE, .seed = 7},
    {.n_hops = 3, .fanout = {15, 10, 5}, .stream = SL_RNG_SAMPLE, .seed = 7, .degrees = true},
    {.n_hops = 1, .fanout = {3}, .stream = SL_RNG_EVAL_SAMPLE, .seed = UINT64_C(1) << 40},
    {.n_hops = 2, .fanout = {-1, -1}, .stream = SL_RNG_SAMPLE, .seed = 1, .degrees = true},
    {.n_hops = 2, .fanout = {100, 70}, .stream = SL_RNG_SAMPLE, .seed = 1},
    {.n_hops = 4, .fanout = {-1, 1, 2, 1000}, .stream = SL_RNG_SAMPLE, .seed = 3},
    {.n_hops = 8, .fanout = {2, 2, 2, 2, 2, 2, 2, 2}, .stream = SL_RNG_SAMPLE, .seed = 5},
    {.kind = SL_SAMPLER_WEIGHTED,
     .n_hops = 3,
     .fanout = {15, 10, 5},
     .stream = SL_RNG_SAMPLE,
     .seed = 7,
     .degrees = true},
    {.kind = SL_SAMPLER_WEIGHTED,
     .n_hops = 2,
     .fanout = {-1, 100},
     .stream = SL_RNG_EVAL_SAMPLE,
     .seed = 2},
    {.kind = SL_SAMPLER_WALK,
     .n_hops = 3,
     .fanout = {5, 4, 3},
     .stream = SL_RNG_SAMPLE,
     .seed = 7,
     .paths = 8,
     .length = 3,
     .restart = 0.3f},
    {.kind = SL_SAMPLER_WALK, // all that were met; fewer steps than were asked for neighbours
     .n_hops = 2,
     .fanout = {-1, 1000},
     .stream = SL_RNG_SAMPLE,
     .seed = 9,
     .degrees = true,
     .paths = 5,
     .length = 2},
    {.kind = SL_SAMPLER_WALK, // one edge a row, at most
     .n_hops = 1,
     .fanout = {1},
     .stream = SL_RNG_SAMPLE,
     .paths = 1,
     .length = 1,
     .restart = 1},
    {.kind = SL_SAMPLER_LABOR,
     .n_hops = 3,
     .fanout = {15, -1, 5},
     .stream = SL_RNG_SAMPLE,
     .seed = 7},
    // Drawn once, of each kind; later hops have longer rows than their own fanout.
    {.n_hops = 3, .expand_new = true, .fanout = {15, 10, 5}, .stream = SL_RNG_SAMPLE, .seed = 7},
    {.n_hops = 4,
     .expand_new = true,
     .fanout = {2, -1, 100, 1},
     .stream = SL_RNG_EVAL_SAMPLE,
     .seed = 3,
     .degrees = true},
    {.kind = SL_SAMPLER_WEIGHTED,
     .n_hops = 3,
     .expand_new = true,
     .fanout = {5, -1, 10},
     .stream = SL_RNG_SAMPLE,
     .seed = 7},
    {.kind = SL_SAMPLER_WALK,
     .n_hops = 3,
     .expand_new = true,
     .fanout = {5, 2, -1},
     .stream = SL_RNG_SAMPLE,
     .seed = 7,
     .paths = 8,
     .length = 3,
     .restart = 0.3f},
    {.kind = SL_SAMPLER_LABOR,
     .n_hops = 3,
     .expand_new = true,
     .fanout = {10, 10, 10},
     .stream = SL_RNG_SAMPLE,
     .seed = 7},
    // With the edges' numbers.
    {.n_hops = 3, .edge_ids = true, .fanout = {15, 70, 1}, .stream = SL_RNG_SAMPLE, .seed = 7},
    {.n_hops = 3,
     .edge_ids = true,
     .expand_new = true,
     .fanout = {1, -1, 2},
     .stream = SL_RNG_SAMPLE,
     .seed = 7,
     .degrees = true},
    {.kind = SL_SAMPLER_WEIGHTED,
     .n_hops = 3,
     .edge_ids = true,
     .fanout = {15, -1, 5},
     .stream = SL_RNG_SAMPLE,
     .seed = 7},
    {.kind = SL_SAMPLER_LABOR,
     .n_hops = 3,
     .edge_ids = true,
     .expand_new = true,
     .fanout = {5, 10, 15},
     .stream = SL_RNG_SAMPLE,
     .seed = 7},
    // With replacement.
    {.n_hops = 3, .replace = true, .fanout = {15, 70, 1}, .stream = SL_RNG_SAMPLE, .seed = 7},
    {.n_hops = 3,
     .replace = true,
     .expand_new = true,
     .edge_ids = true,
     .fanout = {5, -1, 10},
     .stream = SL_RNG_SAMPLE,
     .seed = 7,
     .degrees = true},
    {.kind = SL_SAMPLER_WEIGHTED,
     .n_hops = 3,
     .replace = true,
     .edge_ids = true,
     .fanout = {15, -1, 70},
     .stream = SL_RNG_SAMPLE,
     .seed = 7},
};

// What the next batches have in the place of labels, where it is not NULL.
static const struct sl_pairs *fixture_pairs;

static inline int fixture_draw_into(struct sl_drawer *d, const struct sl_draw_plan *plan,
                                    uint32_t epoch, uint32_t batch, const uint32_t *seeds,
                                    uint32_t n_seeds, struct sl_block *block, uint64_t capacity,
                                    uint64_t *wanted)
{
    struct sl_draw_job job = {.plan = plan,
                              .epoch = epoch,
                              .batch = batch,
                              .seeds = seeds,
                              .n_seeds = n_seeds,
                              .pairs = fixture_pairs,
                              .first_seed = batch * n_seeds,
                              .block = block,
                              .capacity = capacity};
    return sl_drawer_draw(d, &job, wanted);
}

// Every third of n vertices is hot, in one tier: the words (n / 32 + 1) that say so.
static inline struct sl_rank_index fixture_hot_thirds(uint64_t *words, uint32_t n)
{
    memset(words, 0, (n / 32 + 1) * sizeof *words);
    for (uint32_t v = 0; v < n; v += 3) {
        if (words[v / 32] == 0)
            words[v / 32] = (uint64_t)(v / 3) << 32;
        words[v / 32] |= UINT64_C(1) << v % 32;
    }
    return (struct sl_rank_index){.n_nodes = n, .n_tiers = 1, .words = words};
}

// Marks what a drawer of the processor has drawn, or a copy of it.
static inline int fixture_mark(struct sl_drawer *d, const struct sl_rank_index *index,
                               uint32_t generation, struct sl_block *block, uint64_t capacity)
{
    const struct sl_draw_job job = {
        .block = block, .capacity = capacity, .ranks = index, .generation = generation};
    return sl_drawer_mark(d, &job);
}

// A block in memory of its own, as large as it needs to be (free()).
static inline struct sl_block *fixture_draw(struct sl_drawer *d, const struct sl_draw_plan *plan,
                                            uint32_t epoch, uint32_t batch, const uint32_t *seeds,
                                            uint32_t n_seeds)
{
    static uint64_t capacity = 4096; // what was enough for those before
    for (;;) {
        struct sl_block *b = fixture_alloc(capacity);
        uint64_t wanted;
        memset(b, (int)batch, capacity);
        int rc = fixture_draw_into(d, plan, epoch, batch, seeds, n_seeds, b, capacity, &wanted);
        if (rc == SL_OK)
            return b;
        EXPECT(rc == SL_ERANGE, "drawing failed: %d: %s", rc, sl_error_message());
        free(b);
        capacity = SL_MAX(2 * capacity, wanted);
    }
}

// A block of the exact size is enough, and any smaller one is refused.
static inline void fixture_expect_exact_size(struct sl_drawer *d, const struct sl_draw_plan *plan,
                                             uint32_t epoch, uint32_t batch, const uint32_t *seeds,
                                             uint32_t n_seeds)
{
    struct sl_block *b = fixture_draw(d, plan, epoch, batch, seeds, n_seeds);
    struct sl_block *again = fixture_alloc(b->bytes);
    for (uint64_t less = 0; less < b->bytes; less += 1 + less * 2) {
        uint64_t wanted = 0;
        const int rc = fixture_draw_into(d, plan, epoch, batch, seeds, n_seeds, again,
                                         b->bytes - less, &wanted);
        ck_assert_int_eq(rc, less ? SL_ERANGE : SL_OK);
        if (!less)
            ck_assert_int_eq(memcmp(again, b, b->bytes), 0);
    }
    free(again);
    free(b);
}

#endif
