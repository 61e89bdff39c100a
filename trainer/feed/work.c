#include "trainer/feed/work.h"

#include "common/base/error.h"
#include "common/arena/payload_alloc.h"
#include "trainer/feed/typed_block.h"

int sl_work_block(const struct sl_arena *arena, const struct sl_lease *lease,
                  struct sl_block_shape shape, const struct sl_typed *typed,
                  const struct sl_block **out)
{
    const struct sl_batch_entry *entry = lease->entry;
    SL_TRY(sl_payload_check(arena, entry->payload_offset, entry->payload_bytes));
    *out = (const struct sl_block *)(const void *)(arena->base + entry->payload_offset);
    SL_TRY(sl_block_check_shape(*out, entry->payload_bytes, shape));
    return sl_typed_block_check(*out, typed);
}

void sl_work_record(const struct sl_work *work, uint32_t worker, const struct sl_work_times *when)
{
    struct sl_batch_entry *entry = work->lease.entry;
    const struct sl_gathered *g = &work->gathered;
    entry->claimed_at_ns = work->claimed_at_ns;
    entry->train_wait_ns = when->wait_ns;
    entry->extract_from_ns = g->from_ns;
    entry->extract_ns = g->ns;
    entry->taken_at_ns = when->taken_ns;
    entry->train_from_ns = when->from_ns;
    entry->done_at_ns = when->to_ns;
    entry->hits = g->hits;
    entry->n_bare = g->bare;
    entry->matched = g->matched;
    entry->remote_beside = g->remote.rows;
    entry->remote_beside_bytes = g->remote.bytes;
    entry->hit_bytes = g->hit_bytes;
    entry->matched_bytes = g->matched_bytes;
    entry->near_bytes = g->near_bytes;
    entry->miss_bytes = g->miss_bytes;
    entry->standby = work->standby;
    entry->train_ns = when->to_ns - when->from_ns;
    entry->trainer = worker;
}
