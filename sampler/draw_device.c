#include "sampler/draw_device.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

_Static_assert((int)SL_DRAW_HOPS_MAX == (int)SL_MAX_HOPS, "a block's hops can be drawn");
_Static_assert((int)SL_DRAW_ALIGN == (int)SL_BLOCK_ALIGN,
               "what is delivered is laid out as blocks");

static uint64_t label_bytes(const struct sl_dataset *ds, uint32_t n_seeds)
{
    return (uint64_t)n_seeds * (ds->target ? ds->n_classes * sizeof(float) : sizeof *ds->label);
}

static void free_staged(const struct sl_device_drawer *d, struct sl_device_slot *slot)
{
    if (slot->staged)
        d->residence->device->memory.free(slot->staged, slot->staged_bytes);
    slot->staged = NULL;
    slot->staged_bytes = 0;
}

// Device memory as large as the block's.
static int stage(const struct sl_device_drawer *d, struct sl_device_slot *slot, uint64_t bytes)
{
    if (bytes <= slot->staged_bytes)
        return SL_OK;
    free_staged(d, slot);
    slot->staged = d->residence->device->memory.alloc(bytes);
    if (!slot->staged)
        return sl_fail_prefix(SL_ENOMEM, "sampling: memory of a block on the device");
    slot->staged_bytes = bytes;
    return SL_OK;
}

// Where the device writes the job's block, behind the labels.
static int find_place(struct sl_device_drawer *d, struct sl_draw_job *job,
                      struct sl_draw_delivery *out)
{
    const uint64_t labels = sl_align_up(sizeof *job->block, SL_BLOCK_ALIGN);
    job->first = sl_align_up(labels + label_bytes(&d->topology->dataset, job->n_seeds),
                             (uint64_t)SL_BLOCK_ALIGN);
    *out = (struct sl_draw_delivery){.to = d->residence->device->pinned(job->block),
                                     .at = job->first,
                                     .capacity = job->capacity,
                                     .ranks = d->residence->types.n_types ? NULL : job->ranks,
                                     .also = job->also,
                                     .also_capacity = job->also_bytes};
    job->is_staged = out->to == NULL;
    if (!job->is_staged)
        return SL_OK;
    SL_TRY(stage(d, &d->slot[job->slot], job->capacity));
    out->to = d->slot[job->slot].staged;
    return SL_OK;
}

static int take_slot(struct sl_device_drawer *d, struct sl_draw_job *job)
{
    for (uint32_t i = 0; i < SL_DEVICE_QUEUES; i++) {
        job->slot = (d->next + i) % SL_DEVICE_QUEUES;
        if (!d->slot[job->slot].is_busy)
            return SL_OK;
    }
    return sl_fail(SL_EINVAL,
                   "sampling: batch %u of epoch %u cannot begin while %d others are being drawn",
                   job->batch, job->epoch + 1, (int)SL_DEVICE_QUEUES);
}

// Asks for the job's batch, of edges where this view says they are.
static int ask(struct sl_device_drawer *d, const struct sl_draw_job *job,
               const struct sl_topology_view *view)
{
    const struct sl_graph_placement *r = d->residence;
    const struct sl_draw_plan *plan = job->plan;
    struct sl_draw_args args = {
        .kind = plan->kind,
        .topology = view,
        .types = r->types.n_types ? &r->types : NULL,
        .by_relation = plan->by_relation,
        .n_hops = plan->n_hops,
        .expand_new = plan->expand_new,
        .replace = plan->replace,
        .edge_ids = plan->edge_ids,
        .paths = plan->paths,
        .length = plan->length,
        .restart = plan->restart,
        .seed = plan->seed,
        .stream = plan->stream,
        .epoch = job->epoch,
        .batch = job->batch,
        .seeds = job->seeds,
        .n_seeds = job->n_seeds,
        .degree_of = plan->degrees ? r->degree_of : NULL,
        .count_reads = d->share != NULL,
        .deliver = job->delivery,
    };
    memcpy(args.fanout, plan->fanout, plan->n_hops * sizeof *args.fanout);
    return r->kernels->draw(&d->slot[job->slot].state, &args);
}

int sl_device_drawer_begin(struct sl_device_drawer *d, struct sl_draw_job *job)
{
    const struct sl_graph_placement *r = d->residence;
    SL_TRY(take_slot(d, job));
    r->device->use_queue(job->slot);
    SL_TRY(find_place(d, job, &job->delivery));
    SL_TRY(ask(d, job, &r->view));
    d->slot[job->slot].is_busy = true;
    d->next = (job->slot + 1) % SL_DEVICE_QUEUES;
    sl_block_put_labels(d->topology, job->seeds, job->block, &job->cursor);
    return SL_OK;
}

// What was drawn, and was there until it was.
static int wait_for(struct sl_device_drawer *d, const struct sl_draw_job *job,
                    struct sl_drawn *drawn)
{
    struct sl_share *share = d->share;
    if (share && share->others.opened)
        SL_FAILPOINT(LENT_DRAWING);
    SL_TRY(d->residence->kernels->draw_wait(d->slot[job->slot].state, drawn));
    if (!share)
        return SL_OK;
    if (!sl_share_is_good(share)) {
        SL_TRY(ask(d, job, &share->alone));
        SL_TRY(d->residence->kernels->draw_wait(d->slot[job->slot].state, drawn));
    }
    sl_share_count(share, drawn->read);
    return SL_OK;
}

// What was written to the device's memory goes to its place.
static int fetch(const struct sl_device_drawer *d, const struct sl_draw_job *job, uint64_t end)
{
    const struct sl_device *device = d->residence->device;
    SL_TRY(device->copy((char *)job->block + job->first, d->slot[job->slot].staged + job->first,
                        end - job->first));
    return device->sync();
}

// The header's part of it, and the zeros between: all of it has been seen to fit.
static void describe(const struct sl_drawn *drawn, bool shared, struct sl_block *block,
                     struct sl_block_cursor *c)
{
    for (uint32_t h = 0; h < block->n_hops; h++) {
        struct sl_block_hop *hop = &block->hop[h];
        uint64_t edges = (uint64_t)drawn->n_edges[h] * sizeof(uint32_t);
        hop->n_dst = drawn->n_nodes[h];
        hop->n_edges = drawn->n_edges[h];
        block->n_nodes[h + 1] = drawn->n_nodes[h + 1];
        block->n_edges += drawn->n_edges[h];
        if (shared && h + 1 < block->n_hops)
            continue;
        sl_block_place(c, ((uint64_t)hop->n_dst + 1) * sizeof(uint32_t), &hop->indptr_offset);
        sl_block_place(c, edges, &hop->indices_offset);
        if (drawn->visits[h])
            sl_block_place(c, edges, &hop->weights_offset);
        if (drawn->edge_ids[h])
            sl_block_place(c, 2 * edges, &hop->edge_ids_offset);
    }
    if (shared)
        sl_block_share_hops(block, block->n_hops, &block->hop[block->n_hops - 1]);
    block->n_input = drawn->n_nodes[block->n_hops];
    uint64_t nodes = (uint64_t)block->n_input * sizeof(uint32_t);
    sl_block_place(c, nodes, &block->nodes_offset);
    if (drawn->degrees) {
        block->flags |= SL_BLOCK_HAS_DEGREES;
        sl_block_place(c, nodes, &block->degree_offset);
    }
}

int sl_device_drawer_finish(struct sl_device_drawer *d, struct sl_draw_job *job,
                            uint64_t *wanted_bytes)
{
    struct sl_drawn drawn;
    d->slot[job->slot].is_busy = false;
    d->residence->device->use_queue(job->slot);
    SL_TRY(wait_for(d, job, &drawn));
    const bool typed = drawn.type_nodes != NULL;
    const uint64_t end = typed ? sl_typed_drawn_end(&d->typed, job->plan, &drawn) : drawn.end;
    if (end > job->capacity) {
        *wanted_bytes = SL_MAX(*wanted_bytes, end);
        return SL_EAGAIN;
    }
    uint64_t t0 = sl_now_ns();
    if (job->is_staged)
        SL_TRY(fetch(d, job, drawn.end));
    if (typed)
        SL_TRY(sl_typed_describe(&d->typed, job->plan, &drawn, job->block, &job->cursor));
    else
        describe(&drawn, job->plan->expand_new, job->block, &job->cursor);
    job->is_mirrored = job->also && drawn.end <= job->also_bytes;
    job->copy_ns = sl_now_ns() - t0;
    return SL_OK;
}

void sl_device_drawer_drop(struct sl_device_drawer *d, const struct sl_draw_job *job)
{
    struct sl_drawn drawn;
    d->slot[job->slot].is_busy = false;
    d->residence->device->use_queue(job->slot);
    d->residence->kernels->draw_wait(d->slot[job->slot].state, &drawn);
}

void sl_device_drawer_fini(struct sl_device_drawer *d)
{
    for (uint32_t i = 0; d->residence && i < SL_DEVICE_QUEUES; i++) {
        d->residence->device->use_queue(i);
        d->residence->kernels->draw_end(d->slot[i].state);
        free_staged(d, &d->slot[i]);
    }
    sl_typed_drawer_fini(&d->typed);
}

uint64_t sl_device_drawer_bytes(const struct sl_device_drawer *d)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < SL_DEVICE_QUEUES; i++)
        bytes += d->residence->kernels->draw_bytes(d->slot[i].state) + d->slot[i].staged_bytes;
    return bytes;
}
