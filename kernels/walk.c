#include "kernels/walk_internal.h"

#include <inttypes.h>

#include "common/base/error.h"

int sl_check_random_walk(const struct sl_khop_args *args)
{
    SL_TRY(sl_khop_check_keeps(args));
    SL_TRY(sl_check_khop_uniform(args));
    uint32_t hop = args->hop;
    if (args->edge_ids)
        return sl_fail(SL_EINVAL,
                       "sampling hop %u by random walks: what they meet has no edge, and no number "
                       "of one (edge_ids)",
                       hop);
    if (args->paths < 1 || args->length < 1)
        return sl_fail(SL_EINVAL,
                       "sampling hop %u by random walks: %u paths of %u steps, wanted at least 1 "
                       "of each",
                       hop, args->paths, args->length);
    if (args->along.more >= SL_PATH_STEPS_MAX || args->along.shift[0] != 0)
        return sl_fail(
            SL_EINVAL,
            "sampling hop %u by random walks: a metapath of 1 + %u steps, wanted at most "
            "%d, of which the first is by the rows' own lists",
            hop, args->along.more, SL_PATH_STEPS_MAX);
    if (args->along.more > 0 && args->excluded)
        return sl_fail(SL_EINVAL,
                       "sampling hop %u by random walks: edges to leave out of a metapath of %u "
                       "steps, wanted those of each step",
                       hop, 1 + args->along.more);
    const uint64_t steps = (uint64_t)args->length * (1 + args->along.more);
    if (steps > SL_WALK_GROUPS_MAX * 4 ||
        args->paths * (uint64_t)sl_walk_path_groups((uint32_t)steps) > SL_WALK_GROUPS_MAX)
        return sl_fail(SL_EINVAL,
                       "sampling hop %u by random walks: %u paths of %" PRIu64
                       " steps, wanted at most %d "
                       "steps in all, a path's steps counted up to a multiple of 4",
                       hop, args->paths, steps, SL_WALK_GROUPS_MAX * 4);
    if (!(args->restart >= 0.0f && args->restart <= 1.0f))
        return sl_fail(SL_EINVAL,
                       "sampling hop %u by random walks: restart probability %g, wanted 0 to 1",
                       hop, (double)args->restart);
    if (!args->visits && args->indices_capacity > 0)
        return sl_fail(SL_EINVAL, "sampling hop %u by random walks: visits is NULL", hop);
    return SL_OK;
}

int sl_walk_fail_degree(const struct sl_khop_args *args, uint32_t vertex, uint64_t degree)
{
    return sl_fail(SL_EUNSUPPORTED,
                   "sampling hop %u by random walks: vertex %u has %" PRIu64
                   " neighbours, at most %" PRIu32 " are supported",
                   args->hop, vertex, degree, UINT32_MAX - 1);
}
