#include "sampler/mirror.h"

#include <inttypes.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/arena/peer_memory.h"

enum {
    BLOCKS = 16,     // more than the batches that are drawn, ready and trained at a time
    ROOM_DIVISOR = 8 // of the device's free memory that it may take
};

static void free_memory(struct sl_mirror *m)
{
    if (m->p)
        m->device->memory.free(m->p, m->bytes);
    *m = (struct sl_mirror){0};
}

void sl_mirror_open(struct sl_mirror *m, const struct sl_device *device, uint64_t block_bytes)
{
    uint64_t free_bytes, total_bytes;
    *m = (struct sl_mirror){.device = device};
    if (device->is_host || device->space(&free_bytes, &total_bytes) < 0)
        return;
    m->bytes = SL_MIN(BLOCKS * block_bytes, free_bytes / ROOM_DIVISOR);
    m->bytes = m->bytes / SL_ARENA_CHUNK_BYTES * SL_ARENA_CHUNK_BYTES; // as extents are
    if (m->bytes >= block_bytes && block_bytes > 0)
        m->p = device->memory.alloc(m->bytes);
    if (!m->p)
        free_memory(m);
}

void sl_mirror_lend(struct sl_mirror *m, struct sl_arena *arena, uint32_t lender)
{
    struct sl_peer_memory_offer offer = {.room = m->bytes, .elements = m->bytes};
    if (!m->p)
        return;
    if (m->device->share(m->p, &offer.share) < 0 ||
        sl_peer_memory_live(arena, SL_PEER_MEMORY_BLOCKS, lender) < 0) {
        sl_log_warn("sampling: blocks go to trainers through the machine's memory, also on this "
                    "GPU: %s",
                    sl_error_message());
        free_memory(m);
        return;
    }
    m->arena = arena;
    m->lender = lender;
    m->version = sl_peer_memory_offer(arena, SL_PEER_MEMORY_BLOCKS, lender, &offer);
    sl_log_info("sampling: blocks stay on the GPU for the trainers that share it: %" PRIu64 " MiB",
                m->bytes >> 20);
}

void *sl_mirror_at(const struct sl_mirror *m, uint64_t offset, uint64_t *room)
{
    *room = 0;
    if (!m->arena)
        return NULL;
    const uint64_t at = offset - m->arena->h->region[SL_REGION_PAYLOAD].offset;
    if (at >= m->bytes)
        return NULL;
    *room = m->bytes - at;
    return m->p + at;
}

void sl_mirror_close(struct sl_mirror *m)
{
    if (m->arena && !sl_peer_memory_leave(m->arena, SL_PEER_MEMORY_BLOCKS, m->lender))
        m->p = NULL; // it goes with the process
    free_memory(m);
}
