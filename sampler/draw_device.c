#include "sampler/draw_device.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

_Static_assert((int)SL_DRAW_HOPS_MAX == (int)SL_MAX_HOPS, "a block's hops can be drawn");

static int check_seeds(const struct sl_device_drawer *d, const uint32_t *seeds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (seeds[i] >= d->topology->view.n_nodes)
            return sl_fail(SL_EPROTO, "sampling: seed %u of a graph with %" PRIu64 " vertices",
                           seeds[i], d->topology->view.n_nodes);
    return SL_OK;
}

static uint64_t padded(uint64_t at, uint64_t bytes)
{
    return sl_align_up(at, SL_BLOCK_ALIGN) + bytes;
}

static uint64_t label_bytes(const struct sl_dataset *ds, uint32_t n_seeds)
{
    return (uint64_t)n_seeds * (ds->target ? ds->n_classes * sizeof(float) : sizeof *ds->label);
}

// Bytes of the whole block.
static uint64_t end_of(const struct sl_device_drawer *d, const struct sl_block *block, bool weights)
{
    const struct sl_drawn *drawn = &d->drawn;
    uint64_t at = padded(sizeof *block, label_bytes(&d->topology->dataset, block->n_seeds));
    for (uint32_t h = 0; h < block->n_hops; h++) {
        uint64_t edges = (uint64_t)drawn->n_edges[h] * sizeof(uint32_t);
        at = padded(at, ((uint64_t)drawn->n_nodes[h] + 1) * sizeof(uint32_t));
        at = padded(at, edges);
        if (weights)
            at = padded(at, edges);
    }
    uint64_t nodes = (uint64_t)drawn->n_nodes[block->n_hops] * sizeof(uint32_t);
    at = padded(at, nodes);
    return drawn->degrees ? padded(at, nodes) : at;
}

// Room was made sure of.
static int put(const struct sl_device_drawer *d, struct sl_block_cursor *c, const void *from,
               uint64_t bytes, uint64_t *offset)
{
    void *to = sl_block_place(c, bytes, offset);
    return bytes ? d->residence->device->copy(to, from, bytes) : SL_OK;
}

static int put_hop(const struct sl_device_drawer *d, uint32_t h, struct sl_block *block,
                   struct sl_block_cursor *c)
{
    const struct sl_drawn *drawn = &d->drawn;
    struct sl_block_hop *hop = &block->hop[h];
    uint64_t edges = (uint64_t)drawn->n_edges[h] * sizeof(uint32_t);
    hop->n_dst = drawn->n_nodes[h];
    hop->n_edges = drawn->n_edges[h];
    block->n_nodes[h + 1] = drawn->n_nodes[h + 1];
    block->n_edges += drawn->n_edges[h];
    SL_TRY(put(d, c, drawn->indptr[h], ((uint64_t)hop->n_dst + 1) * sizeof(uint32_t),
               &hop->indptr_offset));
    SL_TRY(put(d, c, drawn->indices[h], edges, &hop->indices_offset));
    if (block->flags & SL_BLOCK_HAS_WEIGHTS)
        SL_TRY(put(d, c, drawn->visits[h], edges, &hop->weights_offset));
    return SL_OK;
}

static int put_nodes(const struct sl_device_drawer *d, struct sl_block *block,
                     struct sl_block_cursor *c)
{
    const struct sl_drawn *drawn = &d->drawn;
    block->n_input = drawn->n_nodes[block->n_hops];
    uint64_t bytes = (uint64_t)block->n_input * sizeof(uint32_t);
    SL_TRY(put(d, c, drawn->nodes, bytes, &block->nodes_offset));
    if (!drawn->degrees)
        return SL_OK;
    block->flags |= SL_BLOCK_HAS_DEGREES;
    return put(d, c, drawn->degrees, bytes, &block->degree_offset);
}

int sl_device_drawer_draw(struct sl_device_drawer *d, const struct sl_draw_plan *plan,
                          const uint32_t *seeds, struct sl_block *block, struct sl_block_cursor *c,
                          uint64_t *wanted_bytes)
{
    const struct sl_residence *r = d->residence;
    struct sl_draw_args args = {
        .kind = plan->kind,
        .topology = &r->view,
        .n_hops = plan->n_hops,
        .paths = plan->paths,
        .length = plan->length,
        .restart = plan->restart,
        .seed = plan->seed,
        .stream = plan->stream,
        .epoch = block->epoch,
        .batch = (uint32_t)block->batch,
        .seeds = seeds,
        .n_seeds = block->n_seeds,
        .degree_of = plan->degrees ? r->degree_of : NULL,
    };
    memcpy(args.fanout, plan->fanout, plan->n_hops * sizeof *args.fanout);
    d->copy_ns = 0;
    d->drawn_block = NULL;
    SL_TRY(check_seeds(d, seeds, block->n_seeds));
    SL_TRY(d->residence->kernels->draw(&d->state, &args, &d->drawn));
    if (sl_draw_plan_has_visits(plan))
        block->flags |= SL_BLOCK_HAS_WEIGHTS;
    uint64_t end = end_of(d, block, sl_draw_plan_has_visits(plan));
    if (end > c->capacity) {
        *wanted_bytes = SL_MAX(*wanted_bytes, end);
        return SL_EAGAIN;
    }
    sl_block_put_labels(d->topology, seeds, block, c);
    for (uint32_t h = 0; h < block->n_hops; h++)
        SL_TRY(put_hop(d, h, block, c));
    SL_TRY(put_nodes(d, block, c));
    uint64_t t0 = sl_now_ns();
    SL_TRY(r->device->sync());
    d->copy_ns = sl_now_ns() - t0;
    block->bytes = c->at;
    d->drawn_block = block;
    return SL_OK;
}

// Device memory for `n` words; what was there is lost.
static uint32_t *grow_words(const struct sl_device *device, struct sl_device_words *w, uint64_t n)
{
    uint64_t bytes = n * sizeof *w->p;
    if (bytes <= w->bytes)
        return w->p;
    if (w->p)
        device->memory.free(w->p, w->bytes);
    *w = (struct sl_device_words){0};
    bytes += bytes / 8;
    w->p = device->memory.alloc(bytes);
    w->bytes = w->p ? bytes : 0;
    return w->p;
}

int sl_device_drawer_mark(struct sl_device_drawer *d, const struct sl_rank_index *index,
                          const struct sl_block *block, uint32_t *to)
{
    const struct sl_device *device = d->residence->device;
    const uint32_t *nodes = d->drawn.nodes;
    uint64_t bytes = (uint64_t)block->n_input * sizeof *to;
    uint32_t *ranks = grow_words(device, &d->ranks, SL_MAX(block->n_input, 1u));
    if (!ranks)
        return SL_ENOMEM;
    if (d->drawn_block != block) { // another one has been drawn since
        uint32_t *copy = grow_words(device, &d->marked_nodes, SL_MAX(block->n_input, 1u));
        if (!copy)
            return SL_ENOMEM;
        SL_TRY(device->copy(copy, sl_block_nodes(block), bytes));
        nodes = copy;
    }
    SL_TRY(d->residence->kernels->mark_ranks(index, nodes, block->n_input, ranks));
    SL_TRY(device->copy(to, ranks, bytes));
    return device->sync();
}

void sl_device_drawer_fini(struct sl_device_drawer *d)
{
    if (!d->residence)
        return;
    const struct sl_device *device = d->residence->device;
    d->residence->kernels->draw_end(d->state);
    if (d->ranks.p)
        device->memory.free(d->ranks.p, d->ranks.bytes);
    if (d->marked_nodes.p)
        device->memory.free(d->marked_nodes.p, d->marked_nodes.bytes);
}

uint64_t sl_device_drawer_bytes(const struct sl_device_drawer *d)
{
    return d->residence->kernels->draw_bytes(d->state) + d->ranks.bytes + d->marked_nodes.bytes;
}
