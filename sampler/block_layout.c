#include "sampler/block_layout.h"

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

static bool put_classes(const struct sl_dataset *ds, const uint32_t *seeds, struct sl_block *block,
                        struct sl_block_cursor *c)
{
    int32_t *labels =
        sl_block_place(c, (uint64_t)block->n_seeds * sizeof *labels, &block->label_offset);
    for (uint32_t i = 0; labels && i < block->n_seeds; i++)
        labels[i] = ds->label ? ds->label[seeds[i]] : -1;
    return labels != NULL;
}

static bool put_targets(const struct sl_dataset *ds, const uint32_t *seeds, struct sl_block *block,
                        struct sl_block_cursor *c)
{
    uint64_t width = ds->n_classes;
    float *targets =
        sl_block_place(c, block->n_seeds * width * sizeof *targets, &block->label_offset);
    for (uint32_t i = 0; targets && i < block->n_seeds; i++)
        sl_dataset_targets(ds, seeds[i], targets + i * width);
    block->n_targets = (uint32_t)width;
    return targets != NULL;
}

bool sl_block_put_labels(const struct sl_topology *topology, const uint32_t *seeds,
                         struct sl_block *block, struct sl_block_cursor *c)
{
    const struct sl_dataset *ds = &topology->dataset;
    return (ds->target ? put_targets : put_classes)(ds, seeds, block, c);
}
