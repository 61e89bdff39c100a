#include "kernels/khop_internal.h"

#include <inttypes.h>

#include "common/base/error.h"
#include "kernels/exclusion.h"

int sl_check_khop_uniform(const struct sl_khop_args *args)
{
    if (args->fanout != -1 && (args->fanout < 1 || args->fanout > SL_KHOP_FANOUT_MAX))
        return sl_fail(SL_EINVAL,
                       "sampling hop %u: fanout %" PRId64 ", wanted 1 .. %d, or -1 for all "
                       "neighbours",
                       args->hop, args->fanout, SL_KHOP_FANOUT_MAX);
    if (args->hop >= SL_KHOP_HOPS)
        return sl_fail(SL_EINVAL, "sampling hop %u: at most %d hops are supported", args->hop,
                       SL_KHOP_HOPS);
    switch (args->topology->indices_dtype) {
    case SL_DTYPE_I32:
    case SL_DTYPE_U32:
    case SL_DTYPE_I64:
    case SL_DTYPE_U64: break;
    default:
        return sl_fail(
            SL_EINVAL,
            "sampling hop %u: neighbour ids are of type %d, wanted 32 or 64-bit integers",
            args->hop, (int)args->topology->indices_dtype);
    }
    if (args->first_row > args->n_dst)
        return sl_fail(SL_EINVAL, "sampling hop %u: %u of %u rows are there", args->hop,
                       args->first_row, args->n_dst);
    const uint32_t known = args->rows ? args->n_dst : *args->n_nodes;
    if (args->excluded && args->excluded->n_rows > known)
        return sl_fail(
            SL_EINVAL,
            "sampling hop %u: edges of %u rows are excluded, wanted at most those of the "
            "%u known vertices",
            args->hop, args->excluded->n_rows, known);
    if ((!args->rows && args->n_dst > *args->n_nodes) || *args->n_nodes > args->nodes_capacity)
        return sl_fail(SL_EINVAL, "sampling hop %u: %u rows, %u known vertices, room for %u",
                       args->hop, args->n_dst, *args->n_nodes, args->nodes_capacity);
    return SL_OK;
}

int sl_khop_check_keeps(const struct sl_khop_args *args)
{
    if (args->replace)
        return sl_fail(SL_EINVAL,
                       "sampling hop %u: with replacement, which this kind does not draw: wanted "
                       "khop or weighted, or replace false",
                       args->hop);
    return SL_OK;
}

int sl_khop_fail_degree(const struct sl_khop_args *args, uint32_t row, uint64_t degree)
{
    return sl_fail(SL_EUNSUPPORTED,
                   "sampling hop %u: vertex %u has %" PRIu64 " neighbours, at most %" PRIu32
                   " are supported",
                   args->hop, args->rows[row], degree, UINT32_MAX - 1);
}

int sl_khop_fail_indices(const struct sl_khop_args *args, uint64_t needed)
{
    return sl_fail(SL_ERANGE,
                   "sampling hop %u: at least %" PRIu64 " edges do not fit the room for %" PRIu64,
                   args->hop, needed, args->indices_capacity);
}

int sl_khop_fail_nodes(const struct sl_khop_args *args)
{
    return sl_fail(SL_ERANGE, "sampling hop %u: more than %u vertices do not fit the room for them",
                   args->hop, args->nodes_capacity);
}
