#include "trainer/feed/near_block.h"

void sl_near_blocks_init(struct sl_near_blocks *n, struct sl_arena *arena, uint32_t reader,
                         const struct sl_device *device, uint64_t on_gpu)
{
    n->on_gpu = on_gpu;
    sl_peer_import_init(&n->borrowed, arena, SL_PEER_MEMORY_BLOCKS, reader, device);
}

struct sl_near_block sl_near_block_find(struct sl_near_blocks *n,
                                        const struct sl_batch_entry *entry)
{
    const struct sl_arena *a = n->borrowed.arena;
    const uint32_t lender = entry->mirror_device;
    struct sl_near_block near = {.borrowed = &n->borrowed};
    if (entry->mirror_version == 0 || lender >= a->h->spec.n_devices || !(n->on_gpu >> lender & 1))
        return near;
    const uint64_t at = entry->payload_offset - a->h->region[SL_REGION_PAYLOAD].offset;
    const char *mirror = sl_peer_import_take(&n->borrowed, lender, entry->mirror_version);
    if (mirror && at + entry->payload_bytes <= n->borrowed.of[lender].room)
        near.base = mirror + at;
    return near;
}
