#include "sampler/block_layout.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"

void *sl_block_place(struct sl_block_cursor *c, uint64_t bytes, uint64_t *offset)
{
    uint64_t at = sl_align_up(c->at, SL_BLOCK_ALIGN);
    if (at > c->capacity || c->capacity - at < bytes)
        return NULL;
    memset(c->base + c->at, 0, at - c->at);
    *offset = at;
    c->at = at + bytes;
    return c->base + at;
}

// Edges that fit `bytes`, with `beside` bytes each in a second array, which is aligned. Whole lines
// of that one are as many as there can be, since the vertex list comes behind them.
static uint64_t edges_in(uint64_t bytes, uint64_t beside)
{
    if (beside == 0)
        return bytes / sizeof(uint32_t);
    return bytes / SL_BLOCK_ALIGN * beside / (beside + sizeof(uint32_t)) *
           (SL_BLOCK_ALIGN / beside);
}

bool sl_block_begin_hop(struct sl_block_cursor *c, struct sl_block_hop *hop, uint32_t n_dst,
                        uint64_t most, uint32_t beside, struct sl_hop_room *out)
{
    hop->n_dst = n_dst;
    out->indptr =
        sl_block_place(c, ((uint64_t)n_dst + 1) * sizeof *out->indptr, &hop->indptr_offset);
    out->indices = out->indptr ? sl_block_place(c, 0, &hop->indices_offset) : NULL;
    if (!out->indices)
        return false;
    out->edges = SL_MIN(most, edges_in(c->capacity - c->at, beside));
    out->second = (char *)out->indices +
                  sl_align_up(out->edges * sizeof *out->indices, (uint64_t)SL_BLOCK_ALIGN);
    return true;
}

void sl_block_end_hop(struct sl_block_cursor *c, struct sl_block_hop *hop, uint32_t n_edges,
                      uint32_t beside, const struct sl_hop_room *room)
{
    const uint64_t bytes = (uint64_t)n_edges * beside;
    hop->n_edges = n_edges;
    c->at += (uint64_t)n_edges * sizeof *room->indices;
    if (beside) // fits: it has been there, or further back
        memmove(sl_block_place(c, bytes, &hop->beside_offset), room->second, bytes);
}

void sl_block_share_hops(struct sl_block *block, uint32_t n_hops, const struct sl_block_hop *last)
{
    for (uint32_t h = 0; h < n_hops; h++) {
        block->hop[h].indptr_offset = last->indptr_offset;
        block->hop[h].indices_offset = last->indices_offset;
        block->hop[h].beside_offset = last->beside_offset;
    }
}

static bool put_classes(const struct sl_dataset *ds, const uint32_t *seeds, struct sl_block *block,
                        struct sl_block_cursor *c)
{
    int32_t *labels =
        sl_block_place(c, (uint64_t)block->n_seeds * sizeof *labels, &block->label_offset);
    for (uint32_t i = 0; labels && i < block->n_seeds; i++)
        labels[i] = ds->label && seeds[i] < sl_dataset_labelled(ds) ? ds->label[seeds[i]] : -1;
    return labels != NULL;
}

static bool put_targets(const struct sl_dataset *ds, const uint32_t *seeds, struct sl_block *block,
                        struct sl_block_cursor *c)
{
    uint64_t width = ds->n_classes;
    float *targets =
        sl_block_place(c, block->n_seeds * width * sizeof *targets, &block->label_offset);
    for (uint32_t i = 0; targets && i < block->n_seeds; i++)
        if (seeds[i] < sl_dataset_labelled(ds))
            sl_dataset_targets(ds, seeds[i], targets + i * width);
        else // of another type than those with labels
            for (uint64_t k = 0; k < width; k++)
                targets[i * width + k] = NAN;
    block->n_targets = (uint32_t)width;
    return targets != NULL;
}

bool sl_block_put_labels(const struct sl_topology *topology, const uint32_t *seeds,
                         struct sl_block *block, struct sl_block_cursor *c)
{
    const struct sl_dataset *ds = &topology->dataset;
    return (ds->target ? put_targets : put_classes)(ds, seeds, block, c);
}

bool sl_block_put_pairs(const struct sl_pairs *pairs, struct sl_block *block,
                        struct sl_block_cursor *c)
{
    const size_t n = pairs->n;
    uint32_t *at = sl_block_place(c, n * SL_PAIR_BYTES, &block->label_offset);
    block->flags |= SL_BLOCK_HAS_PAIRS;
    block->n_targets = pairs->per_positive;
    block->n_pairs = pairs->n;
    if (!at)
        return false;
    memcpy(at, pairs->ids, 2 * n * sizeof *at);
    memcpy(at + 2 * n, pairs->weight, n * sizeof *at);
    memcpy(at + 3 * n, pairs->shift, n * sizeof *at);
    return true;
}
