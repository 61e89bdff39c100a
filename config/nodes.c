// nodes.c - which jobs can run on several nodes.
#include "config/config.h"

#include "common/base/error.h"
#include "common/data/dataset.h"

// A node's batches are its own, and so are the seats on it.
static int check_lent(const struct sl_config *c, uint32_t n)
{
    if (c->allocation.balance != SL_BALANCE_FIXED)
        return sl_fail(SL_EINVAL,
                       "allocation.balance: found \"dynamic\" with %u nodes, wanted \"fixed\": no "
                       "node knows what trainers on the others have had",
                       n);
    return SL_OK;
}

int sl_config_check_nodes(const struct sl_config *c, uint32_t n)
{
    if (!c->nodes_auto && c->nodes != n)
        return sl_fail(SL_EINVAL,
                       "nodes: found %u, and %u are started: start as many with mpirun -n or srun "
                       "-N, or set nodes to \"auto\"",
                       c->nodes, n);
    if (n <= 1)
        return SL_OK;
    if (sl_config_is_external(c))
        return check_lent(c, n);
    if (sl_config_learned_dim(c) > 0)
        return sl_fail(SL_EINVAL,
                       "features.kind: found learned rows with %u nodes, wanted one node, whose "
                       "memory they are in: set nodes to 1",
                       n);
    if (c->updates.mode != SL_UPDATE_ORDERED)
        return sl_fail(SL_EINVAL,
                       "updates.mode: found \"async\" with %u nodes, wanted \"ordered\": only its "
                       "result does not depend on their number",
                       n);
    if (c->updates.exchange != SL_EXCHANGE_BOARD)
        return sl_fail(SL_EINVAL,
                       "updates.exchange: found \"%s\" with %u nodes, wanted \"board\": gradients "
                       "go from node to node in the order of the batches",
                       sl_exchange_kind_name(c->updates.exchange), n);
    if (c->updates.batches_per_update < n)
        return sl_fail(SL_EINVAL,
                       "updates.batches_per_update: found %u, wanted at least %u, a mini-batch for "
                       "each node: raise it, or take fewer nodes",
                       c->updates.batches_per_update, n);
    return SL_OK;
}

void sl_config_take_nodes(struct sl_config *c, uint32_t n)
{
    c->nodes = n;
    if (sl_config_is_external(c))
        c->updates.batches_per_update = n;
}

int sl_config_check_shard(const struct sl_config *c, const struct sl_dataset *ds)
{
    if (ds->shard.count == 0 || !c->evaluate.full)
        return SL_OK;
    if (sl_config_is_links(c))
        return sl_fail(SL_EINVAL,
                       "task.kind: found \"link\" with data set %s, which is shard %u of %u, "
                       "wanted one that is not in shards: each node embeds all vertices, of all "
                       "features, to score pairs: start with the data set that was partitioned",
                       ds->path, ds->shard.index, ds->shard.count);
    return sl_fail(
        SL_EINVAL,
        "evaluate.fanout: found \"full\" with data set %s, wanted a list, as [10, 10]: a "
        "full evaluation reads the features of all vertices on each node, and this is "
        "shard %u of %u",
        ds->path, ds->shard.index, ds->shard.count);
}
