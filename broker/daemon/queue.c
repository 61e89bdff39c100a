#include "broker/daemon/queue.h"

#include "common/base/bits.h"

// The lowest number in both sets; SL_CORES_MAX when they are disjoint.
static uint32_t common_number(const struct sl_cores *a, const struct sl_cores *b)
{
    for (uint32_t w = 0; a && b && w < SL_COUNT_OF(a->bits); w++) {
        uint64_t both = a->bits[w] & b->bits[w];
        if (both)
            return w * 64 + (uint32_t)__builtin_ctzll(both);
    }
    return SL_CORES_MAX;
}

void sl_queue_look(const struct sl_queue_item *items, uint32_t n, uint32_t i,
                   struct sl_queue_view *out)
{
    const struct sl_queue_item *mine = &items[i];
    bool by_holder = false;
    *out = (struct sl_queue_view){.may_start = true, .position = 1};
    for (uint32_t k = 0; k < n; k++) {
        const struct sl_queue_item *other = &items[k];
        bool before = other->part == SL_QUEUE_WAITS && other->order < mine->order;
        out->position += before;
        if (k == i || !(before || other->part == SL_QUEUE_HOLDS))
            continue;
        // A GPU is rarer than a core, and says more.
        uint32_t core = common_number(mine->gpus, other->gpus);
        bool gpu = core != SL_CORES_MAX;
        if (!gpu)
            core = common_number(mine->cores, other->cores);
        // Who has a core explains more than who waits for it, too.
        if (core == SL_CORES_MAX || by_holder || (before && !out->may_start))
            continue;
        by_holder = other->part == SL_QUEUE_HOLDS;
        out->may_start = false;
        out->gpu = gpu;
        out->core = core;
        out->by = k;
    }
}

bool sl_queue_next(const struct sl_queue_item *items, uint32_t n, uint32_t *out)
{
    bool found = false;
    for (uint32_t i = 0; i < n; i++) {
        struct sl_queue_view view;
        if (items[i].part != SL_QUEUE_WAITS || (found && items[i].order > items[*out].order))
            continue;
        sl_queue_look(items, n, i, &view);
        if (!view.may_start)
            continue;
        *out = i;
        found = true;
    }
    return found;
}

void sl_queue_free(const struct sl_queue_item *items, uint32_t n, const struct sl_cores *all,
                   struct sl_cores *out)
{
    *out = *all;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t w = 0; items[i].part == SL_QUEUE_HOLDS && w < SL_COUNT_OF(out->bits); w++)
            out->bits[w] &= ~items[i].cores->bits[w];
}
