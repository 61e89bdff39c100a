#include "trainer/feed/arena_access.h"

#include <inttypes.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"

void sl_arena_access_open(struct sl_arena_access *access, const struct sl_device *device,
                          const struct sl_arena *arena)
{
    // Each from the first to the last of these regions, which stand side by side.
    static const enum sl_region_id regions[SL_ARENA_ACCESS_PARTS][2] = {
        {SL_REGION_PARAMS, SL_REGION_PARAMS},
        {SL_REGION_PROBE, SL_REGION_PAYLOAD},
    };
    *access = (struct sl_arena_access){.device = device};
    if (device->is_host)
        return;
    for (size_t i = 0; i < SL_COUNT_OF(regions); i++) {
        const struct sl_region *first = &arena->h->region[regions[i][0]];
        const struct sl_region *last = &arena->h->region[regions[i][1]];
        const uint64_t bytes = last->offset + last->bytes - first->offset;
        if (bytes == 0)
            continue;
        void *start = arena->base + first->offset, *at;
        if (device->map(start, bytes, false, &at) < 0) {
            sl_log_warn("the arena cannot be pinned, so mini-batches go to the device more slowly: "
                        "%" PRIu64 " MiB of it: %s",
                        bytes >> 20, sl_error_message());
            return;
        }
        access->part[i] = start;
    }
}

void sl_arena_access_close(struct sl_arena_access *access)
{
    for (int i = 0; i < SL_ARENA_ACCESS_PARTS; i++)
        if (access->part[i])
            access->device->unmap(access->part[i]);
    *access = (struct sl_arena_access){0};
}
