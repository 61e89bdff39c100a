// typed_blocks.h - a random graph with types, and random typed blocks of it that no sampler drew,
// with what they say as plain lists.
#ifndef SL_TESTS_UNIT_TYPED_BLOCKS_H
#define SL_TESTS_UNIT_TYPED_BLOCKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena/block.h"
#include "common/base/bits.h"
#include "common/data/dataset.h"
#include "tests/unit/asserts.h"

enum {
    TB_TYPES = 5,
    TB_RELATIONS = 7,
    TB_HOPS = 3,
    TB_WIDTH = 40,
    TB_VERTICES = 40, // of a type, at most
    TB_ROOM = 1 << 20,
    TB_EDGES = 1 << 15,
};

struct tb_edge {
    uint32_t source, row;
    uint64_t id; // in the relation
};

// Edges of a relation in a batch, and how many of them each hop has.
struct tb_edges {
    uint32_t n, n_after[TB_HOPS];
    struct tb_edge edge[TB_EDGES / 8];
};

struct tb_graph {
    struct sl_dataset ds;
    struct sl_vertex_type type[TB_TYPES];
    struct sl_relation relation[TB_RELATIONS];
    union { // in pages of its own: a device may pin those of one type and then of another
        _Alignas(4096) float f32[TB_VERTICES * TB_WIDTH];
        uint16_t f16[TB_VERTICES * TB_WIDTH];
    } rows[TB_TYPES];
};

struct tb_block {
    uint64_t memory[TB_ROOM / 8];
    uint32_t ids[TB_TYPES][TB_VERTICES]; // in their types
    struct tb_edges of[TB_RELATIONS];
    size_t used;
};

static inline uint32_t tb_below(uint32_t n)
{
    return (uint32_t)lrand48() % n;
}

static inline struct sl_block *tb_header(struct tb_block *b)
{
    return (struct sl_block *)(void *)b->memory;
}

// Type 1 has no features, type 2 odd rows of f16, type 3 no vertices, type 4 f16 of whole words.
static inline void tb_graph_make(struct tb_graph *g)
{
    static const uint32_t width[TB_TYPES] = {4, 0, 3, 5, 6};
    *g = (struct tb_graph){0};
    g->ds.typed = (struct sl_typed){
        .n_types = TB_TYPES, .n_relations = TB_RELATIONS, .type = g->type, .relation = g->relation};
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        struct sl_vertex_type *type = &g->type[t];
        snprintf(type->name, sizeof type->name, "t%u", t);
        type->first = g->ds.n_nodes;
        type->n = t == 3 ? 0 : 1 + tb_below(TB_VERTICES);
        type->feat_dim = width[t];
        type->feat_dtype = t % 2 == 0 && t > 0 ? SL_DTYPE_F16 : SL_DTYPE_F32;
        type->feat = width[t] ? &g->rows[t] : NULL;
        for (uint32_t i = 0; i < TB_VERTICES * TB_WIDTH; i++)
            if (type->feat_dtype == SL_DTYPE_F16)
                g->rows[t].f16[i] = (uint16_t)(0x3c00 + tb_below(1024)); // from 1 to 2
            else
                g->rows[t].f32[i] = (float)tb_below(1000);
        g->ds.n_nodes += type->n;
    }
    for (uint32_t r = 0; r < TB_RELATIONS; r++) {
        struct sl_relation *relation = &g->relation[r];
        snprintf(relation->name, sizeof relation->name, "r%u", r);
        relation->source = r == 0 ? 0 : tb_below(TB_TYPES);
        relation->target = r < 2 ? 0 : tb_below(TB_TYPES);
        relation->first_edge = g->ds.n_edges;
        relation->n_edges = 1 + tb_below(1000);
        g->ds.n_edges += relation->n_edges;
    }
}

static inline void *tb_array(struct tb_block *b, uint64_t *offset, size_t bytes)
{
    *offset = b->used;
    b->used = sl_align_up(b->used + bytes, 64);
    ck_assert_uint_le(b->used, TB_ROOM);
    return (char *)b->memory + *offset;
}

// Vertices of each type by hop, in an order of their own.
static inline void tb_draw_nodes(struct tb_block *b, const struct tb_graph *g, uint32_t hops)
{
    struct sl_block *h = tb_header(b);
    struct sl_block_typed *table =
        tb_array(b, &h->typed_offset, sizeof *table + sizeof(struct sl_block_type) * TB_TYPES);
    struct sl_block_type *type = (struct sl_block_type *)(void *)(table + 1);
    *table = (struct sl_block_typed){.n_types = TB_TYPES};
    for (uint32_t t = 0; t < TB_TYPES; t++) {
        const uint32_t n = (uint32_t)g->type[t].n;
        type[t] = (struct sl_block_type){.first = h->n_input};
        for (uint32_t i = 0; i < n; i++)
            b->ids[t][i] = i;
        for (uint32_t i = n; i-- > 1;) {
            const uint32_t j = tb_below(i + 1), kept = b->ids[t][i];
            b->ids[t][i] = b->ids[t][j];
            b->ids[t][j] = kept;
        }
        for (uint32_t hop = 0; hop <= hops; hop++) {
            const uint32_t before = hop ? type[t].n[hop - 1] : 0;
            const bool seeds = hop == 0 && t == 0, more = hop > 0 && tb_below(3) > 0;
            type[t].n[hop] = before + (seeds  ? 1 + tb_below(SL_MIN(n, 6u))
                                       : more ? tb_below(n - before + 1)
                                              : 0);
            h->n_nodes[hop] += type[t].n[hop];
        }
        h->n_input += type[t].n[hops];
    }
    h->n_seeds = h->n_nodes[0];
    uint32_t *nodes = tb_array(b, &h->nodes_offset, sizeof *nodes * h->n_input);
    for (uint32_t t = 0; t < TB_TYPES; t++)
        for (uint32_t i = 0; i < type[t].n[hops]; i++)
            nodes[type[t].first + i] = (uint32_t)g->type[t].first + b->ids[t][i];
    int32_t *label = tb_array(b, &h->label_offset, sizeof *label * h->n_seeds);
    for (uint32_t i = 0; i < h->n_seeds; i++)
        label[i] = (int32_t)tb_below(5) - 1;
}

// A relation's edges in all hops: a row, once it has some, keeps them.
static inline void tb_draw_edges(struct tb_block *b, const struct tb_graph *g, uint32_t r,
                                 uint32_t degree)
{
    const struct sl_block *h = tb_header(b);
    const struct sl_relation *relation = &g->relation[r];
    const struct sl_block_type *source = &sl_block_types(h)[relation->source];
    const struct sl_block_type *target = &sl_block_types(h)[relation->target];
    struct tb_edges *to = &b->of[r];
    uint32_t row = 0;
    const bool none = tb_below(5) == 0;
    to->n = 0;
    for (uint32_t hop = 0; hop < h->n_hops; hop++) {
        for (; row < target->n[hop]; row++)
            for (uint32_t k = tb_below(2) ? tb_below(degree) : 0; k; k--)
                if (source->n[hop + 1] && !none && to->n < SL_COUNT_OF(to->edge))
                    to->edge[to->n++] = (struct tb_edge){tb_below(source->n[hop + 1]), row,
                                                         tb_below((uint32_t)relation->n_edges)};
        to->n_after[hop] = to->n;
    }
}

static inline float tb_weight(const struct tb_edge *edge)
{
    return 1 + (float)(edge->id % 13);
}

static inline void tb_write_runs(struct tb_block *b, const struct tb_graph *g)
{
    struct sl_block *h = tb_header(b);
    struct sl_block_typed *table = (void *)((char *)h + h->typed_offset);
    uint64_t indices_offset[TB_RELATIONS], ids_offset[TB_RELATIONS];
    for (uint32_t r = 0; r < TB_RELATIONS; r++) {
        const struct tb_edges *from = &b->of[r];
        uint32_t *indices = tb_array(b, &indices_offset[r], sizeof *indices * from->n);
        void *beside = tb_array(b, &ids_offset[r], sizeof(uint64_t) * from->n);
        for (uint32_t e = 0; e < from->n; e++) {
            indices[e] = from->edge[e].source;
            if (h->flags & SL_BLOCK_HAS_WEIGHTS)
                ((float *)beside)[e] = tb_weight(&from->edge[e]);
            else
                ((uint64_t *)beside)[e] = g->relation[r].first_edge + from->edge[e].id;
        }
    }
    struct sl_block_run *run =
        tb_array(b, &table->runs_offset, sizeof *run * TB_RELATIONS * h->n_hops);
    for (uint32_t hop = 0; hop < h->n_hops; hop++) {
        h->hop[hop].n_dst = h->n_nodes[hop];
        for (uint32_t r = 0; r < TB_RELATIONS; r++) {
            const struct tb_edges *from = &b->of[r];
            const uint32_t n_dst = sl_block_types(h)[g->relation[r].target].n[hop];
            struct sl_block_run one = {
                .hop = hop, .relation = r, .n_dst = n_dst, .n_edges = from->n_after[hop]};
            one.indices_offset = indices_offset[r];
            one.beside_offset = ids_offset[r];
            if (one.n_edges == 0)
                continue;
            uint32_t *indptr = tb_array(b, &one.indptr_offset, sizeof *indptr * (n_dst + 1));
            memset(indptr, 0, sizeof *indptr * (n_dst + 1));
            for (uint32_t e = 0; e < one.n_edges; e++)
                indptr[from->edge[e].row + 1]++;
            for (uint32_t i = 0; i < n_dst; i++)
                indptr[i + 1] += indptr[i];
            run[table->n_runs++] = one;
            h->hop[hop].n_edges += one.n_edges;
        }
        h->n_edges += h->hop[hop].n_edges;
    }
}

// beside: SL_BLOCK_HAS_EDGE_IDS, SL_BLOCK_HAS_WEIGHTS or 0; degree: edges of a row in a relation,
// at most. The block is as "sampler.expand" "new" has it.
static inline void tb_block_make(struct tb_block *b, const struct tb_graph *g, uint32_t beside,
                                 uint32_t degree)
{
    struct sl_block *h = tb_header(b);
    const uint32_t hops = 1 + tb_below(TB_HOPS);
    memset(b->memory, 0x5a, sizeof b->memory);
    *h = (struct sl_block){.magic = SL_BLOCK_MAGIC,
                           .flags = SL_BLOCK_TYPED | beside,
                           .bytes = TB_ROOM,
                           .n_hops = hops};
    b->used = sl_align_up(sizeof *h, 64);
    tb_draw_nodes(b, g, hops);
    for (uint32_t r = 0; r < TB_RELATIONS; r++)
        tb_draw_edges(b, g, r, degree);
    tb_write_runs(b, g);
}

// Of the features of a block's vertices, without what lies between types.
static inline uint64_t tb_feature_bytes(const struct sl_typed *typed, const struct sl_block *block)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < typed->n_types; t++)
        bytes += sl_block_types(block)[t].n[block->n_hops] * sl_type_row_bytes(&typed->type[t]);
    return bytes;
}

#endif
