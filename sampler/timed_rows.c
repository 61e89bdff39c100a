#include "sampler/timed_rows.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// A range is two offsets, as those of a row are.
_Static_assert(sizeof(struct sl_time_range) == 2 * sizeof(uint64_t), "offsets of rows");
enum { ROWS_MOST = INT32_MAX };

void sl_timed_rows_begin(struct sl_timed_rows *t, const struct sl_topology *topology,
                         const struct sl_draw_plan *plan, uint32_t seed)
{
    t->bound = sl_time_bound(topology->dataset.node_time[seed], plan->time_strict);
    t->n = 0;
}

static int reserve(struct sl_timed_rows *t, const struct sl_draw_plan *plan, uint32_t n)
{
    if (n > ROWS_MOST)
        return sl_fail(SL_EUNSUPPORTED,
                       "sampling: the tree of a seed with a time has %u vertices, wanted at most "
                       "%d: set sampler.fanout lower",
                       n, ROWS_MOST);
    SL_TRY(sl_scratch_reserve(&t->range, n, t->n, ROWS_MOST, sizeof(struct sl_time_range)));
    if (plan->time == SL_TIME_LATEST)
        SL_TRY(sl_scratch_reserve(&t->latest, n, 0, ROWS_MOST, sizeof(struct sl_time_range)));
    SL_TRY(sl_scratch_reserve(&t->row, n, t->n_rows, ROWS_MOST, sizeof(uint32_t)));
    for (uint32_t *row = t->row.p; t->n_rows < n; t->n_rows++)
        row[t->n_rows] = 2 * t->n_rows;
    return SL_OK;
}

int sl_timed_rows_find(struct sl_timed_rows *t, const struct sl_topology *topology,
                       const struct sl_draw_plan *plan, uint32_t h, uint32_t first, uint32_t n,
                       const uint32_t *nodes, const uint32_t **rows, uint64_t *edges)
{
    const struct sl_dataset *ds = &topology->dataset;
    const int64_t fanout = plan->fanout[h];
    SL_TRY(reserve(t, plan, n));
    struct sl_time_range *range = t->range.p, *latest = t->latest.p;
    if (t->n < n)
        sl_time_ranges(ds->indptr, ds->edge_time, t->bound, nodes + t->n, n - t->n, range + t->n);
    t->n = SL_MAX(t->n, n);
    *edges = fanout < 0 ? 0 : (uint64_t)fanout * (n - first);
    for (uint32_t i = first; i < n && fanout < 0; i++)
        *edges += range[i].end - range[i].begin;
    for (uint32_t i = first; i < n && plan->time == SL_TIME_LATEST; i++)
        latest[i] = sl_time_latest(range[i], fanout);
    t->view = topology->view;
    t->view.indptr =
        (const uint64_t *)(const void *)(plan->time == SL_TIME_LATEST ? latest : range);
    *rows = t->row.p;
    return SL_OK;
}

uint64_t sl_timed_rows_bytes(const struct sl_timed_rows *t)
{
    return t->range.bytes + t->latest.bytes + t->row.bytes;
}

void sl_timed_rows_fini(struct sl_timed_rows *t)
{
    sl_scratch_free(&t->range);
    sl_scratch_free(&t->latest);
    sl_scratch_free(&t->row);
    memset(t, 0, sizeof *t);
}
