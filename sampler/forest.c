#include "sampler/forest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"

enum { FIRST_BYTES = 1 << 20 };

int sl_forest_reset(struct sl_forest *f, uint32_t n)
{
    f->used = 0;
    f->n_trees = 0;
    if (n <= f->trees_capacity)
        return SL_OK;
    struct sl_tree *tree = malloc(n * sizeof *tree);
    if (!tree)
        return sl_fail(SL_ENOMEM, "sampling: no memory for the trees of %u seeds", n);
    free(f->tree);
    f->tree = tree;
    f->trees_capacity = n;
    return SL_OK;
}

void sl_forest_fini(struct sl_forest *f)
{
    sl_pages_free(f->memory, f->bytes);
    free(f->tree);
    memset(f, 0, sizeof *f);
}

struct sl_block *sl_forest_next(const struct sl_forest *f, struct sl_block_cursor *c)
{
    struct sl_block *block = (struct sl_block *)(void *)(f->memory + f->used);
    if (f->bytes - f->used < sizeof *block)
        return NULL;
    *c = (struct sl_block_cursor){
        .base = (char *)block, .at = sizeof *block, .capacity = f->bytes - f->used};
    return block;
}

int sl_forest_grow(struct sl_forest *f)
{
    const uint64_t bytes = SL_MAX(f->bytes + f->bytes / 2, (uint64_t)FIRST_BYTES);
    char *memory = sl_pages_alloc(bytes);
    if (!memory)
        return sl_fail(SL_ENOMEM,
                       "sampling: no memory for the %" PRIu64
                       " bytes of the trees of a disjoint batch: set sampler.batch_size or "
                       "sampler.fanout lower",
                       bytes);
    if (f->used)
        memcpy(memory, f->memory, f->used);
    sl_pages_free(f->memory, f->bytes);
    f->memory = memory;
    f->bytes = bytes;
    return SL_OK;
}

void sl_forest_keep(struct sl_forest *f, const struct sl_block_cursor *c)
{
    f->tree[f->n_trees++].offset = f->used;
    f->used = SL_MIN(sl_align_up(f->used + c->at, (uint64_t)SL_BLOCK_ALIGN), f->bytes);
}

static const struct sl_block *block_of(const struct sl_forest *f, uint32_t t)
{
    return (const struct sl_block *)(const void *)(f->memory + f->tree[t].offset);
}

// Vertices of a tree that the hops before `level` have found.
static uint32_t before(const struct sl_block *tree, uint32_t level)
{
    return level > 0 ? tree->n_nodes[level - 1] : 0;
}

static int refuse(const struct sl_block *block, const char *what)
{
    return sl_fail(SL_EUNSUPPORTED,
                   "sampling: the trees of batch %" PRIu64
                   " have more than %u %s: choose a smaller sampler.batch_size or sampler.fanout",
                   block->batch, UINT32_MAX, what);
}

// Gives the trees' vertices their numbers in the batch.
static int number(struct sl_forest *f, struct sl_block *block)
{
    uint64_t n = 0;
    for (uint32_t level = 0; level <= block->n_hops; level++) {
        for (uint32_t t = 0; t < f->n_trees; t++) {
            const struct sl_block *tree = block_of(f, t);
            f->tree[t].shift[level] = (uint32_t)n - before(tree, level);
            n += tree->n_nodes[level] - before(tree, level);
        }
        if (n > UINT32_MAX)
            return refuse(block, "vertices");
        block->n_nodes[level] = (uint32_t)n;
    }
    block->n_input = (uint32_t)n;
    return SL_OK;
}

// How far a hop has been written.
struct hop {
    struct sl_hop_room room;
    uint32_t h, beside, row, edge;
};

// Rows of tree t that `level` has found.
static void join_rows(struct hop *hop, const struct sl_forest *f, uint32_t t, uint32_t level)
{
    const struct sl_block *tree = block_of(f, t);
    const uint32_t *shift = f->tree[t].shift;
    const struct sl_block_view view = sl_block_here(tree);
    const uint32_t *indptr = sl_view_indptr(view, hop->h), *indices = sl_view_indices(view, hop->h);
    const uint32_t first = indptr[before(tree, level)], end = indptr[tree->n_nodes[level]];
    const uint32_t begin = hop->edge - first; // of what it is there, modulo 2^32
    for (uint32_t row = before(tree, level); row < tree->n_nodes[level]; row++)
        hop->room.indptr[++hop->row] = begin + indptr[row + 1];
    for (uint32_t e = first; e < end; e++) {
        uint32_t found = 0;
        while (indices[e] >= tree->n_nodes[found])
            found++;
        hop->room.indices[hop->edge++] = indices[e] + shift[found];
    }
    if (hop->beside)
        memcpy((char *)hop->room.second + (uint64_t)(begin + first) * hop->beside,
               (const char *)tree + tree->hop[hop->h].beside_offset + (uint64_t)first * hop->beside,
               (uint64_t)(end - first) * hop->beside);
}

static int join_hop(const struct sl_forest *f, uint32_t h, uint32_t beside, struct sl_block *block,
                    struct sl_block_cursor *c)
{
    struct hop hop = {.h = h, .beside = beside};
    uint64_t n_edges = 0;
    for (uint32_t t = 0; t < f->n_trees; t++)
        n_edges += block_of(f, t)->hop[h].n_edges;
    if (n_edges > UINT32_MAX)
        return refuse(block, "edges");
    if (!sl_block_begin_hop(c, &block->hop[h], block->n_nodes[h], n_edges, beside, &hop.room) ||
        hop.room.edges < n_edges)
        return SL_EAGAIN;
    hop.room.indptr[0] = 0;
    for (uint32_t level = 0; level <= h; level++)
        for (uint32_t t = 0; t < f->n_trees; t++)
            join_rows(&hop, f, t, level);
    sl_block_end_hop(c, &block->hop[h], hop.edge, beside, &hop.room);
    block->n_edges += n_edges;
    return SL_OK;
}

static int join_nodes(const struct sl_forest *f, struct sl_block *block, struct sl_block_cursor *c)
{
    const uint64_t bytes = (uint64_t)block->n_input * sizeof(uint32_t);
    uint32_t *nodes = sl_block_place(c, bytes, &block->nodes_offset);
    if (!nodes)
        return SL_EAGAIN;
    for (uint32_t level = 0; level <= block->n_hops; level++)
        for (uint32_t t = 0; t < f->n_trees; t++) {
            const struct sl_block *tree = block_of(f, t);
            const uint32_t n = tree->n_nodes[level] - before(tree, level);
            memcpy(nodes, sl_block_nodes(tree) + before(tree, level), n * sizeof *nodes);
            nodes += n;
        }
    return SL_OK;
}

int sl_forest_join(struct sl_forest *f, uint32_t beside, struct sl_block *block,
                   struct sl_block_cursor *c)
{
    SL_TRY(number(f, block));
    for (uint32_t h = 0; h < block->n_hops; h++)
        SL_TRY(join_hop(f, h, beside, block, c));
    return join_nodes(f, block, c);
}
