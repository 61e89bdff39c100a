#include "sampler/topology.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"

static void advise_neighbours(const struct sl_dataset *ds, int advice)
{
    sl_advise(ds->indices, ds->n_edges * sl_dtype_bytes(ds->indices_dtype), advice);
}

static uint64_t prefix_bytes(const struct sl_topology *t)
{
    return SL_MAX(t->dataset.n_edges, (uint64_t)1) * sizeof *t->weight_prefix;
}

static int sum_weights(struct sl_topology *t, const struct sl_kernels *kernels)
{
    const struct sl_dataset *ds = &t->dataset;
    t->weight_prefix = sl_pages_alloc(prefix_bytes(t));
    if (!t->weight_prefix)
        return sl_fail(SL_ENOMEM,
                       "sampling by weight: no memory for the %" PRIu64
                       " bytes of running sums of %s/edge_weight.npy",
                       prefix_bytes(t), ds->path);
    sl_advise(ds->edge_weight, ds->n_edges * sizeof *ds->edge_weight, MADV_SEQUENTIAL);
    int rc = kernels->weight_prefix(&t->view, ds->edge_weight, t->weight_prefix);
    if (rc < 0)
        return sl_fail_prefix(rc, "%s/edge_weight.npy", ds->path);
    t->view.weight_prefix = t->weight_prefix;
    return SL_OK;
}

int sl_topology_open(struct sl_topology *t, const char *path, bool weighted,
                     const struct sl_kernels *kernels, int threads)
{
    memset(t, 0, sizeof *t);
    unsigned need = SL_NEED_TOPOLOGY | SL_NEED_LABELS | SL_NEED_TRAIN;
    if (weighted)
        need |= SL_NEED_WEIGHTS;
    SL_TRY(sl_dataset_open(path, need, SL_CHECK_TRUST, threads, &t->dataset));
    const struct sl_dataset *ds = &t->dataset;
    t->view = (struct sl_topology_view){
        .n_nodes = ds->n_nodes,
        .indptr = ds->indptr,
        .indices = ds->indices,
        .indices_dtype = ds->indices_dtype,
    };
    int rc = weighted ? sum_weights(t, kernels) : SL_OK;
    if (rc < 0)
        sl_topology_close(t);
    return rc;
}

int sl_topology_find_self_loops(struct sl_topology *t, int threads)
{
    sl_self_loops_free(&t->self_loops);
    advise_neighbours(&t->dataset, MADV_SEQUENTIAL);
    int rc = sl_self_loops_find(&t->dataset, threads, &t->self_loops);
    advise_neighbours(&t->dataset, MADV_NORMAL);
    return rc;
}

void sl_topology_expect_draws(const struct sl_topology *t)
{
    advise_neighbours(&t->dataset, MADV_RANDOM);
}

void sl_topology_close(struct sl_topology *t)
{
    sl_self_loops_free(&t->self_loops);
    if (t->weight_prefix)
        sl_pages_free(t->weight_prefix, prefix_bytes(t));
    sl_dataset_close(&t->dataset);
    memset(t, 0, sizeof *t);
}

uint64_t sl_topology_resident_bytes(const struct sl_topology *t)
{
    const struct sl_dataset *ds = &t->dataset;
    uint64_t bytes =
        (ds->n_nodes + 1) * sizeof *ds->indptr + ds->n_edges * sl_dtype_bytes(ds->indices_dtype) +
        ds->n_nodes *
            (ds->target ? ds->n_classes * sl_dtype_bytes(ds->target_dtype) : sizeof *ds->label);
    if (t->view.weight_prefix)
        bytes += ds->n_edges * sizeof *t->view.weight_prefix;
    if (t->self_loops.has)
        bytes += ds->n_nodes / 8;
    return bytes;
}
