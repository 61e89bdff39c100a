#include "broker/sharding/link_bytes.h"

#include <stdio.h>

static const char *const kinds[SL_PEER_MEMORY_KINDS] = {[SL_PEER_MEMORY_FEATURES] = "features",
                                                        [SL_PEER_MEMORY_GRAPH] = "graph",
                                                        [SL_PEER_MEMORY_BLOCKS] = "blocks"};

// A device's number as text that stays; the broker has one thread.
static const char *name_of(uint32_t device)
{
    static char names[SL_PEER_MEMORY_DEVICES_MAX][4];
    snprintf(names[device], sizeof names[device], "%u", device % 100);
    return names[device];
}

bool sl_link_bytes_next(const struct sl_arena *a, uint32_t *at, struct sl_stats_link *out)
{
    const uint32_t n = a->base ? a->h->spec.n_devices : 0;
    if (n > SL_PEER_MEMORY_DEVICES_MAX)
        return false;
    while (*at < SL_PEER_MEMORY_KINDS * n * (n + 1)) {
        const uint32_t kind = *at / (n * (n + 1)), reader = *at / (n + 1) % n, from = *at % (n + 1);
        const uint64_t bytes =
            sl_peer_memory_counted(a, (enum sl_peer_memory_kind)kind, reader, from);
        ++*at;
        if (bytes == 0)
            continue;
        *out = (struct sl_stats_link){.kind = kinds[kind],
                                      .reader = reader,
                                      .from = from == n ? "memory" : name_of(from),
                                      .bytes = (double)bytes};
        return true;
    }
    return false;
}
