#include "sampler/timed_rows.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// A range is two offsets, as those of a row are.
_Static_assert(sizeof(struct sl_time_range) == 2 * sizeof(uint64_t), "offsets of rows");
enum { ROWS_MOST = INT32_MAX };

void sl_timed_rows_begin(struct sl_timed_rows *t, struct sl_time_bound bound)
{
    t->bound = bound;
    t->n = 0;
}

static int reserve(struct sl_timed_rows *t, enum sl_time_rule rule, uint32_t n)
{
    if (n > ROWS_MOST)
        return sl_fail(SL_EUNSUPPORTED,
                       "sampling: the tree of a seed with a time has %u vertices, wanted at most "
                       "%d: set sampler.fanout lower",
                       n, ROWS_MOST);
    SL_TRY(sl_scratch_reserve(&t->range, n, t->n, ROWS_MOST, sizeof(struct sl_time_range)));
    if (rule == SL_TIME_LATEST)
        SL_TRY(sl_scratch_reserve(&t->latest, n, 0, ROWS_MOST, sizeof(struct sl_time_range)));
    SL_TRY(sl_scratch_reserve(&t->row, n, t->n_rows, ROWS_MOST, sizeof(uint32_t)));
    for (uint32_t *row = t->row.p; t->n_rows < n; t->n_rows++)
        row[t->n_rows] = 2 * t->n_rows;
    return SL_OK;
}

int sl_timed_rows_find(struct sl_timed_rows *t, const struct sl_timed_hop *hop,
                       const uint32_t **rows, uint64_t *edges)
{
    const bool latest_first = hop->rule == SL_TIME_LATEST;
    const int64_t fanout = hop->fanout;
    const uint32_t first = hop->first, n = hop->n;
    SL_TRY(reserve(t, hop->rule, n));
    struct sl_time_range *range = t->range.p, *latest = t->latest.p;
    if (t->n < n)
        sl_time_ranges(hop->view->indptr, hop->time, t->bound, hop->nodes + t->n, n - t->n,
                       range + t->n);
    t->n = SL_MAX(t->n, n);
    *edges = fanout < 0 ? 0 : (uint64_t)fanout * (n - first);
    for (uint32_t i = first; i < n && fanout < 0; i++)
        *edges += range[i].end - range[i].begin;
    for (uint32_t i = first; i < n && latest_first; i++)
        latest[i] = sl_time_latest(range[i], fanout);
    t->view = *hop->view;
    t->view.indptr = (const uint64_t *)(const void *)(latest_first ? latest : range);
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
