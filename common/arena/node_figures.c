#include "common/arena/node_figures.h"

#include "common/arena/seqlock.h"

struct row {
    _Alignas(64) _Atomic uint32_t work_seq;
    struct sl_node_work work;
    _Alignas(64) _Atomic uint32_t wire_seq;
    struct sl_node_wire wire;
};
_Static_assert(sizeof(struct sl_node_work) % sizeof(uint64_t) == 0 &&
                   sizeof(struct sl_node_wire) % sizeof(uint64_t) == 0,
               "figures are whole words");

static struct row *row_of(const struct sl_arena *a, uint32_t node)
{
    return (struct row *)sl_arena_region(a, SL_REGION_NODES) + node;
}

uint64_t sl_node_figures_bytes(const struct sl_arena_spec *spec)
{
    return spec->nodes.n > 1 ? spec->nodes.n * sizeof(struct row) : 0;
}

void sl_node_figures_put_work(const struct sl_arena *a, uint32_t node,
                              const struct sl_node_work *work)
{
    struct row *r = row_of(a, node);
    sl_seqlock_store(&r->work_seq, &r->work, work, sizeof *work);
}

void sl_node_figures_put_wire(const struct sl_arena *a, uint32_t node,
                              const struct sl_node_wire *wire)
{
    struct row *r = row_of(a, node);
    sl_seqlock_store(&r->wire_seq, &r->wire, wire, sizeof *wire);
}

bool sl_node_figures_work(const struct sl_arena *a, uint32_t node, struct sl_node_work *out)
{
    const struct row *r = row_of(a, node);
    struct sl_node_work copy;
    if (!sl_seqlock_load(&r->work_seq, &r->work, &copy, sizeof copy) || copy.at_ns == 0)
        return false;
    *out = copy;
    return true;
}

bool sl_node_figures_wire(const struct sl_arena *a, uint32_t node, struct sl_node_wire *out)
{
    const struct row *r = row_of(a, node);
    struct sl_node_wire copy;
    if (!sl_seqlock_load(&r->wire_seq, &r->wire, &copy, sizeof copy) || copy.at_ns == 0)
        return false;
    *out = copy;
    return true;
}
