#include "sampler/forest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"

enum { FIRST_BYTES = 1 << 20 };

int sl_forest_reset(struct sl_forest *f, uint32_t n, uint32_t n_types)
{
    f->used = 0;
    f->n_trees = 0;
    f->n_types = n_types;
    if (n <= f->trees_capacity)
        return SL_OK;
    free(f->tree);
    free(f->shift);
    f->trees_capacity = n;
    f->tree = malloc(n * sizeof *f->tree);
    f->shift = malloc((size_t)n * n_types * (SL_MAX_HOPS + 1) * sizeof *f->shift);
    if (f->tree && f->shift)
        return SL_OK;
    f->trees_capacity = 0;
    return sl_fail(SL_ENOMEM, "sampling: no memory for the trees of %u seeds", n);
}

void sl_forest_fini(struct sl_forest *f)
{
    sl_pages_free(f->memory, f->bytes);
    free(f->tree);
    free(f->shift);
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
    f->tree[f->n_trees++] = (struct sl_tree){.offset = f->used};
    f->used = SL_MIN(sl_align_up(f->used + c->at, (uint64_t)SL_BLOCK_ALIGN), f->bytes);
}

static const struct sl_block *block_of(const struct sl_forest *f, uint32_t t)
{
    return (const struct sl_block *)(const void *)(f->memory + f->tree[t].offset);
}

static uint32_t *shift_of(const struct sl_forest *f, uint32_t t, uint32_t type)
{
    return f->shift + ((size_t)t * f->n_types + type) * (SL_MAX_HOPS + 1);
}

// A type's vertices in a tree, and how many of them there are after so many hops.
struct part {
    const uint32_t *nodes, *after; // after (n_hops + 1)
};

static struct part part_of(const struct sl_block *tree, uint32_t type)
{
    if (!(tree->flags & SL_BLOCK_TYPED))
        return (struct part){sl_block_nodes(tree), tree->n_nodes};
    const struct sl_block_type *t = &sl_block_types(tree)[type];
    return (struct part){sl_block_nodes(tree) + t->first, t->n};
}

// Of them those that the hops before `level` have found.
static uint32_t before(const struct part *p, uint32_t level)
{
    return level > 0 ? p->after[level - 1] : 0;
}

static int refuse(const struct sl_block *block, const char *what)
{
    return sl_fail(SL_EUNSUPPORTED,
                   "sampling: the trees of batch %" PRIu64
                   " have more than %u %s: choose a smaller sampler.batch_size or sampler.fanout",
                   block->batch, UINT32_MAX, what);
}

int sl_forest_number(struct sl_forest *f, uint32_t type, struct sl_block *block, uint32_t *after)
{
    uint64_t n = 0;
    for (uint32_t level = 0; level <= block->n_hops; level++) {
        for (uint32_t t = 0; t < f->n_trees; t++) {
            const struct part p = part_of(block_of(f, t), type);
            shift_of(f, t, type)[level] = (uint32_t)n - before(&p, level);
            n += p.after[level] - before(&p, level);
        }
        if (block->n_nodes[level] + n > UINT32_MAX)
            return refuse(block, "vertices");
        after[level] = (uint32_t)n;
        block->n_nodes[level] += (uint32_t)n;
    }
    return SL_OK;
}

// ---- edges --------------------------------------------------------------------------------------

// A tree's run.
struct rows {
    const uint32_t *indptr, *indices;
    const char *beside;
    uint32_t n_edges; // 0: there is no such run
};

static struct rows rows_of(const struct sl_forest *f, uint32_t t, const struct sl_forest_run *run)
{
    const struct sl_block *tree = block_of(f, t);
    const struct sl_block_view view = sl_block_here(tree);
    if (!(tree->flags & SL_BLOCK_TYPED))
        return (struct rows){sl_view_indptr(view, run->hop), sl_view_indices(view, run->hop),
                             (const char *)tree + tree->hop[run->hop].beside_offset,
                             tree->hop[run->hop].n_edges};
    const struct sl_block_run *r = &sl_block_runs(tree)[f->tree[t].run];
    if (f->tree[t].run == sl_block_typed(tree)->n_runs || r->hop != run->hop ||
        r->relation != run->relation)
        return (struct rows){0};
    return (struct rows){sl_run_indptr(view, r), sl_run_indices(view, r),
                         (const char *)tree + r->beside_offset, r->n_edges};
}

// Goes on to the trees' runs of that hop and relation. Returns their edges.
static uint64_t find_runs(struct sl_forest *f, const struct sl_forest_run *run)
{
    uint64_t n_edges = 0;
    for (uint32_t t = 0; t < f->n_trees; t++) {
        const struct sl_block *tree = block_of(f, t);
        uint32_t *i = &f->tree[t].run;
        const uint32_t n = tree->flags & SL_BLOCK_TYPED ? sl_block_typed(tree)->n_runs : 0;
        for (; *i < n; (*i)++) {
            const struct sl_block_run *r = &sl_block_runs(tree)[*i];
            if (r->hop > run->hop || (r->hop == run->hop && r->relation >= run->relation))
                break;
        }
        n_edges += rows_of(f, t, run).n_edges;
    }
    return n_edges;
}

// How far a run has been written.
struct hop {
    struct sl_hop_room room;
    const struct sl_forest_run *run;
    uint32_t beside, row, edge;
};

// Rows of tree t that `level` has found.
static void join_rows(struct hop *hop, const struct sl_forest *f, uint32_t t, uint32_t level)
{
    const struct sl_block *tree = block_of(f, t);
    const struct part target = part_of(tree, hop->run->target),
                      source = part_of(tree, hop->run->source);
    const uint32_t *shift = shift_of(f, t, hop->run->source);
    const struct rows rows = rows_of(f, t, hop->run);
    const uint32_t first_row = before(&target, level), end_row = target.after[level];
    if (rows.n_edges == 0) {
        for (uint32_t row = first_row; row < end_row; row++)
            hop->room.indptr[++hop->row] = hop->edge;
        return;
    }
    const uint32_t first = rows.indptr[first_row], end = rows.indptr[end_row];
    const uint32_t begin = hop->edge - first; // of what it is there, modulo 2^32
    for (uint32_t row = first_row; row < end_row; row++)
        hop->room.indptr[++hop->row] = begin + rows.indptr[row + 1];
    for (uint32_t e = first; e < end; e++) {
        uint32_t found = 0;
        while (rows.indices[e] >= source.after[found])
            found++;
        hop->room.indices[hop->edge++] = rows.indices[e] + shift[found];
    }
    if (hop->beside)
        memcpy((char *)hop->room.second + (uint64_t)(begin + first) * hop->beside,
               rows.beside + (uint64_t)first * hop->beside, (uint64_t)(end - first) * hop->beside);
}

int sl_forest_join_run(struct sl_forest *f, const struct sl_forest_run *run, uint32_t beside,
                       const struct sl_block *block, struct sl_block_hop *out,
                       struct sl_block_cursor *c)
{
    struct hop hop = {.run = run, .beside = beside};
    const uint64_t n_edges = find_runs(f, run);
    uint64_t n_rows = 0;
    if (n_edges > UINT32_MAX)
        return refuse(block, "edges");
    out->n_edges = 0;
    if (n_edges == 0 && block->flags & SL_BLOCK_TYPED)
        return SL_OK;
    for (uint32_t t = 0; t < f->n_trees; t++)
        n_rows += part_of(block_of(f, t), run->target).after[run->hop];
    if (!sl_block_begin_hop(c, out, (uint32_t)n_rows, n_edges, beside, &hop.room) ||
        hop.room.edges < n_edges)
        return SL_EAGAIN;
    hop.room.indptr[0] = 0;
    for (uint32_t level = 0; level <= run->hop; level++)
        for (uint32_t t = 0; t < f->n_trees; t++)
            join_rows(&hop, f, t, level);
    sl_block_end_hop(c, out, hop.edge, beside, &hop.room);
    return SL_OK;
}

// -------------------------------------------------------------------------------------------------

uint32_t *sl_forest_copy_nodes(const struct sl_forest *f, uint32_t type, uint32_t n_hops,
                               uint32_t *to)
{
    for (uint32_t level = 0; level <= n_hops; level++)
        for (uint32_t t = 0; t < f->n_trees; t++) {
            const struct part p = part_of(block_of(f, t), type);
            const uint32_t n = p.after[level] - before(&p, level);
            memcpy(to, p.nodes + before(&p, level), n * sizeof *to);
            to += n;
        }
    return to;
}

int sl_forest_join(struct sl_forest *f, uint32_t beside, struct sl_block *block,
                   struct sl_block_cursor *c)
{
    uint32_t after[SL_MAX_HOPS + 1];
    memset(block->n_nodes, 0, sizeof block->n_nodes);
    SL_TRY(sl_forest_number(f, 0, block, after));
    block->n_input = block->n_nodes[block->n_hops];
    for (uint32_t h = 0; h < block->n_hops; h++) {
        const struct sl_forest_run run = {.hop = h};
        SL_TRY(sl_forest_join_run(f, &run, beside, block, &block->hop[h], c));
        block->n_edges += block->hop[h].n_edges;
    }
    uint32_t *nodes =
        sl_block_place(c, (uint64_t)block->n_input * sizeof *nodes, &block->nodes_offset);
    if (!nodes)
        return SL_EAGAIN;
    sl_forest_copy_nodes(f, 0, block->n_hops, nodes);
    return SL_OK;
}
