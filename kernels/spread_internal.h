/*
 * spread_internal.h - where an element of a spread (kernels.h) lies, for every back end.
 *
 * Runs are dealt out in turn, so a run's number by the parts gives the part and the place in it.
 * The division is of 32 bits wherever the number has no more, which ranks never have: one of 64
 * bits takes a GPU several times as long.
 */
#ifndef SL_KERNELS_SPREAD_INTERNAL_H
#define SL_KERNELS_SPREAD_INTERNAL_H

#include "common/base/philox.h"
#include "kernels/kernels.h"

enum { SL_SPREAD_NEAR = SL_PARTS_MAX, SL_SPREAD_NOWHERE };

// The part that has element i, SL_SPREAD_NEAR or SL_SPREAD_NOWHERE; *at: its place there.
static inline SL_HOST_DEVICE uint32_t sl_spread_find(const struct sl_spread *s, uint64_t i,
                                                     uint64_t *at)
{
    *at = i;
    if (i < s->n_near)
        return SL_SPREAD_NEAR;
    if (s->n_parts == 0 || i < s->first || i >= s->end)
        return SL_SPREAD_NOWHERE;
    const uint64_t run = (i - s->first) >> s->shift;
    const uint64_t turn = run <= UINT32_MAX ? (uint32_t)run / s->n_parts : run / s->n_parts;
    const uint32_t part = (uint32_t)(run - turn * s->n_parts);
    const uint64_t within = (i - s->first) & (((uint64_t)1 << s->shift) - 1);
    *at = (turn << s->shift) + within;
    return *at < s->part[part].n ? part : (uint32_t)SL_SPREAD_NOWHERE;
}

static inline SL_HOST_DEVICE const void *sl_spread_memory(const struct sl_spread *s, uint32_t where)
{
    return where == SL_SPREAD_NEAR ? s->near : s->part[where].p;
}

#endif
