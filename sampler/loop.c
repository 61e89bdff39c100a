#include "sampler/loop.h"

#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/extent.h"

static bool stopping(const struct sl_sampler *s)
{
    return sl_arena_aborted(s->arena) ||
           (s->stop && atomic_load_explicit(s->stop, memory_order_relaxed));
}

static void publish_figures(struct sl_sampler *s, uint64_t current_tag)
{
    s->figures.current_tag = current_tag;
    if (s->stats)
        sl_stats_publish(s->stats, &s->figures);
}

// The vertices of the lease's cell.
static int seeds_of(const struct sl_sampler *s, const struct sl_lease *lease,
                    const uint32_t **seeds, uint32_t *n)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    const struct sl_dataset *ds = &s->drawer->topology->dataset;
    uint64_t first = sl_phase_range(lease->phase, lease->cell, n), size = 0;
    *seeds = NULL;
    switch (spec->set) {
    case SL_SET_TRAIN:
        *seeds = sl_arena_order(s->arena, spec->epoch);
        size = s->arena->h->spec.n_train;
        break;
    case SL_SET_VAL:
    case SL_SET_TEST: {
        const struct sl_vertex_list *list =
            &ds->split[spec->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST];
        *seeds = list->ids;
        size = list->n;
        break;
    }
    default: break;
    }
    if (first + *n > size)
        return sl_fail(SL_EPROTO,
                       "sampling: vertices %llu to %llu of set %u, which has %llu: broker and "
                       "sampler are not of the same build",
                       (unsigned long long)first, (unsigned long long)(first + *n), spec->set,
                       (unsigned long long)size);
    *seeds += first;
    return SL_OK;
}

// Payload memory for the lease. SL_EABORTED when the job stops first.
static int take_memory(struct sl_sampler *s, const struct sl_lease *lease, uint64_t bytes,
                       struct sl_extent *out)
{
    for (;;) {
        int rc = sl_extent_alloc(s->arena, lease, bytes, SL_ARENA_WAIT_MS, out);
        if (rc != SL_ETIMEDOUT)
            return rc;
        if (stopping(s))
            return SL_EABORTED;
    }
}

// Draws the lease's batch into payload memory of the right size; the entry says what it is.
static int draw(struct sl_sampler *s, const struct sl_lease *lease, struct sl_extent *extent)
{
    struct sl_batch_entry *e = lease->entry;
    const struct sl_phase_spec *spec = &lease->phase->spec;
    const struct sl_draw_plan plan = sl_plan_of(s->config, (enum sl_phase_kind)spec->kind);
    const uint32_t *seeds;
    uint32_t n_seeds;
    SL_TRY(seeds_of(s, lease, &seeds, &n_seeds));
    uint64_t bytes = SL_MIN(s->guess_bytes, s->arena->h->spec.payload_bytes);
    uint64_t wait_ns = 0, sample_ns = 0, capacity = 0;
    struct sl_block *block = NULL;
    for (;;) {
        uint64_t t0 = sl_now_ns();
        SL_TRY(take_memory(s, lease, bytes, extent));
        SL_FAILPOINT(SAMPLER_ALLOCATED);
        uint64_t t1 = sl_now_ns(), wanted;
        wait_ns += t1 - t0;
        capacity = extent->bytes;
        block = (struct sl_block *)(s->arena->base + extent->offset);
        int rc = sl_drawer_draw(s->drawer, &plan, spec->epoch, lease->cell, seeds, n_seeds, block,
                                capacity, &wanted);
        sample_ns += sl_now_ns() - t1;
        if (rc == SL_OK)
            break;
        sl_extent_free(s->arena, lease->tag, extent->offset, extent->bytes);
        if (rc != SL_ERANGE)
            return rc;
        // More than the whole payload memory is refused there, with the numbers.
        uint64_t all = s->arena->h->spec.payload_bytes;
        bytes = capacity < all ? SL_MIN(wanted, all) : all + 1;
    }
    SL_FAILPOINT(SAMPLER_DRAWN);
    s->guess_bytes = SL_MAX(s->guess_bytes, block->bytes + block->bytes / 8);
    sl_extent_trim(s->arena, lease->tag, extent, block->bytes);
    e->payload_offset = extent->offset;
    e->payload_bytes = extent->bytes;
    e->digest = s->config->digest ? XXH3_64bits(block, block->bytes) : 0;
    e->n_seeds = n_seeds;
    e->n_input = block->n_input;
    e->n_edges = block->n_edges;
    e->sample_ns = sample_ns;
    e->sample_wait_ns = wait_ns;
    e->sampler = s->worker;
    return SL_OK;
}

static int step(struct sl_sampler *s)
{
    struct sl_lease lease;
    struct sl_extent extent;
    uint64_t t0 = sl_now_ns();
    int rc = sl_ledger_claim_sample(s->arena, s->worker, SL_ARENA_WAIT_MS, &lease);
    s->figures.stage_ns[SL_STAGE_WAIT] += sl_now_ns() - t0;
    if (rc == SL_ETIMEDOUT) {
        publish_figures(s, 0);
        return SL_OK;
    }
    SL_TRY(rc);
    publish_figures(s, lease.tag);
    SL_FAILPOINT(SAMPLER_CLAIMED);
    rc = draw(s, &lease, &extent);
    if (rc == SL_EABORTED) // stopped while it waited for memory: somebody else may go on
        sl_ledger_return(s->arena, &lease);
    SL_TRY(rc);
    // After publishing the entry belongs to whoever claims the batch: read it before.
    struct sl_batch_entry *e = lease.entry;
    s->figures.batches++;
    s->figures.edges += e->n_edges;
    s->figures.bytes += e->payload_bytes;
    s->figures.stage_ns[SL_STAGE_SAMPLE] += e->sample_ns;
    s->figures.stage_ns[SL_STAGE_WAIT] += e->sample_wait_ns;
    e->ready_at_ns = sl_now_ns();
    if (sl_ledger_publish(s->arena, &lease) == SL_ESTALE)
        sl_extent_free(s->arena, lease.tag, extent.offset, extent.bytes);
    publish_figures(s, 0);
    return SL_OK;
}

int sl_sampler_run(struct sl_sampler *s)
{
    int rc = SL_OK;
    while (rc == SL_OK && !stopping(s))
        rc = step(s);
    return rc == SL_EABORTED ? SL_OK : rc;
}
