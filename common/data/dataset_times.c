// Times of a data set's edges and seeds. Who needs none may have files of these names with anything
// in them.
#include <inttypes.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/data/dataset_internal.h"

enum { BLOCK_EDGES = 1 << 18 };

static bool are_times(const struct sl_npy *npy, uint64_t n)
{
    return npy->map && npy->head.dtype == SL_DTYPE_I64 && npy->head.ndim == 1 && npy->n_elems == n;
}

int sl_dataset_refuse_times(const struct sl_dataset *ds, unsigned need)
{
    if (!(need & SL_NEED_TIMES) || ds->typed.n_types == 0)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "data set %s: has several types, and times are read of graphs of one type "
                   "alone: set sampler.time to \"none\", or import one relation of its source "
                   "(`sluice import edgelist --times`)",
                   ds->path);
}

int sl_dataset_check_times(const struct sl_dataset *ds, unsigned need)
{
    const struct sl_npy *npy = ds->files->npy;
    if (!(need & SL_NEED_TIMES))
        return SL_OK;
    if (!are_times(&npy[SL_FILE_EDGE_TIME], ds->n_edges))
        return sl_fail(SL_EFORMAT,
                       "%s, wanted one dimension of int64, a time for each edge: num_edges = "
                       "%" PRIu64 ": save t.astype(numpy.int64)",
                       sl_dataset_describe(ds, SL_FILE_EDGE_TIME).text, ds->n_edges);
    if (!are_times(&npy[SL_FILE_NODE_TIME], ds->n_nodes))
        return sl_fail(SL_EFORMAT,
                       "%s, wanted one dimension of int64, a time for each vertex: num_nodes = "
                       "%" PRIu64 ": save t.astype(numpy.int64)",
                       sl_dataset_describe(ds, SL_FILE_NODE_TIME).text, ds->n_nodes);
    return SL_OK;
}

// ---- whether they rise --------------------------------------------------------------------------

struct pass {
    const struct sl_dataset *ds;
    const int64_t *time;
};

// The first edge of a block that is earlier than the one before it in its list; n_edges: none is.
static uint64_t first_fall(const struct pass *p, uint64_t block)
{
    const struct sl_dataset *ds = p->ds;
    const uint64_t begin = block * BLOCK_EDGES;
    const uint64_t end = SL_MIN(begin + BLOCK_EDGES, ds->n_edges);
    uint64_t row = sl_row_of_edge(ds, 0, sl_dataset_lists(ds), begin);
    for (uint64_t e = begin; e < end; row++) {
        const uint64_t last = SL_MIN(ds->indptr[row + 1], end);
        for (e = SL_MAX(e, ds->indptr[row] + 1); e < last; e++)
            if (p->time[e] < p->time[e - 1])
                return e;
        e = last;
    }
    return ds->n_edges;
}

static bool falls(void *ctx, uint64_t block)
{
    const struct pass *p = ctx;
    return first_fall(p, block) < p->ds->n_edges;
}

static uint64_t find_fall(const struct sl_dataset *ds, int threads)
{
    struct pass p = {ds, ds->files->npy[SL_FILE_EDGE_TIME].data};
    const uint64_t block =
        sl_threads_first(sl_div_up(ds->n_edges, (uint64_t)BLOCK_EDGES), threads, falls, &p);
    return block == SL_THREADS_NONE ? ds->n_edges : first_fall(&p, block);
}

void sl_dataset_validate_times(struct sl_dataset *ds, int threads)
{
    ds->times_rise = !ds->typed.n_types &&
                     are_times(&ds->files->npy[SL_FILE_EDGE_TIME], ds->n_edges) &&
                     find_fall(ds, threads) == ds->n_edges;
}

int sl_dataset_take_times(struct sl_dataset *ds, unsigned need, int threads)
{
    if (!(need & SL_NEED_TIMES))
        return SL_OK;
    const int64_t *time = ds->files->npy[SL_FILE_EDGE_TIME].data;
    if (!ds->times_rise) {
        const uint64_t e = find_fall(ds, threads),
                       v = sl_row_of_edge(ds, 0, sl_dataset_lists(ds), e);
        return sl_fail(SL_EFORMAT,
                       "%s/edge_time.npy: element %" PRIu64 " (edge %" PRIu64 " of vertex %" PRIu64
                       ") is %" PRId64 ", earlier than the one before it, %" PRId64
                       ", wanted times that rise in each vertex's list: sort each list by time, "
                       "in indices.npy and all edge_*.npy alike, as `sluice import edgelist "
                       "--times` does",
                       ds->path, e, e - ds->indptr[v], v, time[e], time[e - 1]);
    }
    ds->edge_time = time;
    ds->node_time = ds->files->npy[SL_FILE_NODE_TIME].data;
    return SL_OK;
}
