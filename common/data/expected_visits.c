#include "common/data/expected_visits.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/hotness.h"

enum { VERTICES_PER_LOOK = 65536 };

// next[u] = visits[u] and what the vertices pass on to their in-neighbours in one hop.
static int pass_on(const struct sl_dataset *ds, int64_t fanout, const double *visits, double *next,
                   const struct sl_visits_watch *watch)
{
    memcpy(next, visits, ds->n_nodes * sizeof *next);
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        if (v % VERTICES_PER_LOOK == 0)
            SL_TRY(watch->on_vertices(watch->ctx,
                                      SL_MIN((uint64_t)VERTICES_PER_LOOK, ds->n_nodes - v)));
        uint64_t degree = sl_dataset_degree(ds, v);
        if (visits[v] == 0 || degree == 0)
            continue;
        double share =
            fanout < 0 || (uint64_t)fanout >= degree ? 1 : (double)fanout / (double)degree;
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
            next[sl_dataset_source(ds, e)] += visits[v] * share;
    }
    return SL_OK;
}

// visits and next (n_nodes) are scratch, zeroed.
static int follow_hops(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                       const struct sl_visits_watch *watch, double *visits, double *next,
                       uint32_t *hotness)
{
    const struct sl_vertex_list *train = &ds->split[SL_SPLIT_TRAIN];
    for (uint64_t i = 0; i < train->n; i++)
        visits[train->ids[i]] = 1;
    for (uint32_t hop = 0; hop < n_hops; hop++) {
        SL_TRY(pass_on(ds, fanout[hop], visits, next, watch));
        double *swap = visits;
        visits = next;
        next = swap;
    }
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        memcpy(&hotness[v], &(float){(float)visits[v]}, sizeof *hotness);
    return SL_OK;
}

int sl_visits_expect(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                     const struct sl_visits_watch *watch, uint32_t *hotness)
{
    double *visits = calloc(ds->n_nodes + 1, sizeof *visits);
    double *next = calloc(ds->n_nodes + 1, sizeof *next);
    int rc = SL_OK;
    if (!visits || !next)
        rc = sl_fail(SL_ENOMEM, "expected visits: no memory for %" PRIu64 " vertices", ds->n_nodes);
    if (rc == SL_OK)
        rc = follow_hops(ds, fanout, n_hops, watch, visits, next, hotness);
    free(visits);
    free(next);
    return rc;
}

int sl_visits_forecast(const uint32_t *hotness, uint64_t n_nodes, uint64_t n_batches,
                       uint64_t capacity, double *inputs, double *hit_rate)
{
    uint32_t *order = malloc(SL_MAX(n_nodes, (uint64_t)1) * sizeof *order);
    if (!order)
        return sl_fail(SL_ENOMEM, "expected visits: no memory for an order of %" PRIu64 " vertices",
                       n_nodes);
    int rc = sl_hotness_order(hotness, n_nodes, NULL, order, NULL);
    double hits = 0;
    *inputs = 0;
    for (uint64_t i = 0; rc == SL_OK && i < n_nodes; i++) {
        float visits;
        memcpy(&visits, &hotness[order[i]], sizeof visits);
        *inputs -= expm1(-(double)visits / (double)SL_MAX(n_batches, (uint64_t)1));
        if (i + 1 == SL_MIN(capacity, n_nodes))
            hits = *inputs;
    }
    *hit_rate = *inputs > 0 ? hits / *inputs : 0;
    free(order);
    return rc;
}
