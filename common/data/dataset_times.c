// Times of a data set's edges and seeds: of a typed graph by relation, some of which may have none.
// Who needs none may have files of these names with anything in them.
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

// The edges that a file has times of: all, or those of a relation.
struct part {
    const char *file;
    const struct sl_npy *npy; // .map is NULL: they have none
    uint64_t first_row, n_rows, first_edge, n_edges;
};

static uint32_t parts_of(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? ds->typed.n_relations : 1;
}

static struct part part_of(const struct sl_dataset *ds, uint32_t i)
{
    if (ds->typed.n_types == 0)
        return (struct part){.file = sl_dataset_file_name(SL_FILE_EDGE_TIME),
                             .npy = &ds->files->npy[SL_FILE_EDGE_TIME],
                             .n_rows = ds->n_nodes,
                             .n_edges = ds->n_edges};
    const struct sl_relation *r = &ds->typed.relation[i];
    const struct sl_typed_file *file = sl_dataset_time_file(ds, i);
    return (struct part){.file = file->name,
                         .npy = &file->npy,
                         .first_row = r->first_row,
                         .n_rows = ds->typed.type[r->target].n,
                         .first_edge = r->first_edge,
                         .n_edges = r->n_edges};
}

bool sl_dataset_has_times(const struct sl_dataset *ds)
{
    bool has = false;
    for (uint32_t i = 0; i < parts_of(ds); i++)
        has |= part_of(ds, i).npy->map != NULL;
    return has;
}

int sl_dataset_check_times(const struct sl_dataset *ds, unsigned need)
{
    const struct sl_npy *seeds = &ds->files->npy[SL_FILE_NODE_TIME];
    const bool typed = ds->typed.n_types > 0;
    if (!(need & SL_NEED_TIMES))
        return SL_OK;
    for (uint32_t i = 0; i < parts_of(ds); i++) {
        const struct part p = part_of(ds, i);
        if ((!p.npy->map && typed) || are_times(p.npy, p.n_edges))
            continue;
        return sl_fail(SL_EFORMAT,
                       "%s, wanted one dimension of int64, a time for each edge: %s = %" PRIu64
                       ": save t.astype(numpy.int64)",
                       sl_dataset_describe_npy(ds, p.file, p.npy).text,
                       typed ? "edges of the relation" : "num_edges", p.n_edges);
    }
    if (!are_times(seeds, sl_dataset_labelled(ds)))
        return sl_fail(SL_EFORMAT,
                       "%s, wanted one dimension of int64, a time for each vertex: %s%s = %" PRIu64
                       ": save t.astype(numpy.int64)",
                       sl_dataset_describe(ds, SL_FILE_NODE_TIME).text,
                       typed ? "count of type " : "num_nodes", typed ? ds->typed.type[0].name : "",
                       sl_dataset_labelled(ds));
    return SL_OK;
}

// ---- whether they rise --------------------------------------------------------------------------

struct pass {
    const struct sl_dataset *ds;
    struct part part;
};

// The first edge of a block that is earlier than the one before it in its list, of those of the
// part; n_edges: none is.
static uint64_t first_fall(const struct pass *p, uint64_t block)
{
    const struct sl_dataset *ds = p->ds;
    const int64_t *time = p->part.npy->data;
    const uint64_t first = p->part.first_edge, begin = first + block * BLOCK_EDGES;
    const uint64_t end = SL_MIN(begin + BLOCK_EDGES, first + p->part.n_edges);
    uint64_t row = sl_row_of_edge(ds, p->part.first_row, p->part.n_rows, begin);
    for (uint64_t e = begin; e < end; row++) {
        const uint64_t last = SL_MIN(ds->indptr[row + 1], end);
        for (e = SL_MAX(e, ds->indptr[row] + 1); e < last; e++)
            if (time[e - first] < time[e - first - 1])
                return e - first;
        e = last;
    }
    return p->part.n_edges;
}

static bool falls(void *ctx, uint64_t block)
{
    const struct pass *p = ctx;
    return first_fall(p, block) < p->part.n_edges;
}

static uint64_t find_fall(const struct sl_dataset *ds, const struct part *part, int threads)
{
    struct pass p = {ds, *part};
    const uint64_t block =
        sl_threads_first(sl_div_up(part->n_edges, (uint64_t)BLOCK_EDGES), threads, falls, &p);
    return block == SL_THREADS_NONE ? part->n_edges : first_fall(&p, block);
}

void sl_dataset_validate_times(struct sl_dataset *ds, int threads)
{
    ds->times_rise = sl_dataset_has_times(ds);
    for (uint32_t i = 0; i < parts_of(ds) && ds->times_rise; i++) {
        const struct part p = part_of(ds, i);
        if (p.npy->map)
            ds->times_rise = are_times(p.npy, p.n_edges) && find_fall(ds, &p, threads) == p.n_edges;
    }
}

static int refuse_fall(const struct sl_dataset *ds, const struct part *p, uint64_t edge)
{
    const int64_t *time = p->npy->data;
    const uint64_t e = p->first_edge + edge;
    const uint64_t row = sl_row_of_edge(ds, p->first_row, p->n_rows, e);
    return sl_fail(SL_EFORMAT,
                   "%s/%s: element %" PRIu64 " (edge %" PRIu64 " of %s %" PRIu64 "%s) is %" PRId64
                   ", earlier than the one before it, %" PRId64
                   ", wanted times that rise in each vertex's list: sort each list by time, in "
                   "indices.npy and all edge_*.npy alike, as `sluice import %s` does",
                   ds->path, p->file, edge, e - ds->indptr[row],
                   ds->typed.n_types ? "row" : "vertex", row, sl_dataset_row_text(ds, row).text,
                   time[edge], time[edge - 1], ds->typed.n_types ? "typed" : "edgelist --times");
}

int sl_dataset_take_times(struct sl_dataset *ds, unsigned need, int threads)
{
    if (!(need & SL_NEED_TIMES))
        return SL_OK;
    for (uint32_t i = 0; i < parts_of(ds); i++) {
        const struct part p = part_of(ds, i);
        if (!p.npy->map)
            continue;
        const uint64_t edge = ds->times_rise ? p.n_edges : find_fall(ds, &p, threads);
        if (edge < p.n_edges)
            return refuse_fall(ds, &p, edge);
        if (ds->typed.n_types)
            ds->typed.relation[i].time = p.npy->data;
        else
            ds->edge_time = p.npy->data;
    }
    ds->node_time = ds->files->npy[SL_FILE_NODE_TIME].data;
    return SL_OK;
}
