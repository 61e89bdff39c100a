#include "common/arena/node_parts.h"

#include "common/base/bits.h"
#include "common/base/error.h"

enum { NODE_SHIFT = 24 }; // of the number of a worker's node

int sl_nodes_check(const struct sl_arena_spec *spec)
{
    const struct sl_nodes_spec *nodes = &spec->nodes;
    if (nodes->n <= 1 && nodes->rank == 0)
        return SL_OK;
    if (nodes->n > SL_NODES_MAX || nodes->rank >= nodes->n)
        return sl_fail(SL_EINVAL, "arena: of node %u of %u, wanted at most %d, counted from 0",
                       nodes->rank, nodes->n, SL_NODES_MAX);
    if (spec->async || spec->exchange)
        return sl_fail(SL_EINVAL,
                       "arena: of %u nodes with %s, wanted ordered updates over the "
                       "parameter store",
                       nodes->n, spec->async ? "async updates" : "an exchange among trainers");
    if (spec->batches_per_update < nodes->n)
        return sl_fail(SL_EINVAL,
                       "arena: of %u nodes with %u batches an update, wanted at least "
                       "one for each node",
                       nodes->n, spec->batches_per_update);
    return SL_OK;
}

// Whether nodes share a phase of this kind. Each does all others by itself.
static bool is_dealt(const struct sl_arena *a, uint32_t kind)
{
    return sl_nodes_any(a) &&
           (kind == SL_PHASE_TRAIN || kind == SL_PHASE_EVAL || kind == SL_PHASE_LEND);
}

// Cells that are dealt anew: those of an update, or all of a phase.
static uint32_t deal_of(const struct sl_arena *a, uint32_t kind)
{
    return kind == SL_PHASE_TRAIN ? a->h->spec.batches_per_update : UINT32_MAX;
}

uint32_t sl_nodes_owner(const struct sl_arena *a, uint32_t kind, uint32_t cell)
{
    const struct sl_nodes_spec *nodes = &a->h->spec.nodes;
    return is_dealt(a, kind) ? cell % deal_of(a, kind) % nodes->n : nodes->rank;
}

bool sl_nodes_is_own(const struct sl_arena *a, uint32_t kind, uint32_t cell)
{
    return sl_nodes_owner(a, kind, cell) == a->h->spec.nodes.rank;
}

// Of n places from the first of a deal on.
static uint32_t own_places(const struct sl_nodes_spec *nodes, uint32_t n)
{
    return (uint32_t)((n + UINT64_C(1) * nodes->n - 1 - nodes->rank) / nodes->n);
}

uint32_t sl_nodes_own_before(const struct sl_arena *a, uint32_t kind, uint32_t end)
{
    const struct sl_arena_spec *spec = &a->h->spec;
    const uint32_t deal = deal_of(a, kind);
    if (!is_dealt(a, kind))
        return end;
    return end / deal * own_places(&spec->nodes, deal) + own_places(&spec->nodes, end % deal);
}

uint32_t sl_nodes_batches_per_update(const struct sl_arena *a)
{
    return sl_nodes_own_before(a, SL_PHASE_TRAIN, a->h->spec.batches_per_update);
}

struct sl_nodes_part sl_nodes_slice(const struct sl_arena *a, uint32_t node)
{
    const uint64_t n_params = a->h->spec.n_params, n = SL_MAX(a->h->spec.nodes.n, 1u);
    const uint64_t lines = sl_div_up(n_params, SL_NODES_FLOATS);
    const uint64_t first = node * lines / n * SL_NODES_FLOATS;
    const uint64_t end = SL_MIN((node + 1) * lines / n * SL_NODES_FLOATS, n_params);
    return (struct sl_nodes_part){first, end - SL_MIN(first, end)};
}

struct sl_nodes_part sl_nodes_gradient_part(const struct sl_arena *a, uint32_t node)
{
    return a->h->spec.nodes.whole_gradients ? (struct sl_nodes_part){0, a->h->spec.n_params}
                                            : sl_nodes_slice(a, node);
}

uint32_t sl_nodes_worker(const struct sl_arena *a, uint32_t node, uint32_t id)
{
    return id | (node == a->h->spec.nodes.rank ? 0 : (node + 1) << NODE_SHIFT);
}

uint32_t sl_nodes_worker_node(const struct sl_arena *a, uint32_t worker)
{
    const uint32_t other = worker >> NODE_SHIFT;
    return other ? other - 1 : a->h->spec.nodes.rank;
}
