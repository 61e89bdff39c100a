#include "common/data/expected_visits.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/data/hotness.h"

/*
 * Visits are whole numbers of a unit that each hop has for itself, a power of two: so their sums do
 * not depend on the order of the additions, and any number of threads gives the same bits. The unit
 * is as small as what a hop brings in all allows, without a sum that overflows.
 */
enum {
    BLOCK_LISTS = 4096, // a thread takes at a time
    SUM_BITS = 62,      // what all vertices come to
    AHEAD = 16,         // edges whose targets are on their way to the cache
};

// One hop, for all threads.
struct hop {
    const struct sl_dataset *ds;
    const struct sl_visits_sampling *sampling;
    int64_t fanout;
    const double *visits;   // that it draws for
    _Atomic uint64_t *next; // relaxed: the pass's end orders it
    double units;           // of one visit
    bool alone;             // there is no other thread
    double *passed;         // (blocks) visits that a block's lists pass on
    const struct sl_visits_watch *watch;
    pthread_mutex_t lock; // of what is below, and of the watch
    int rc;
    char message[512];
};

// What each in-neighbour in a list of v gets.
static double share_of(const struct hop *h, uint64_t list, uint64_t v)
{
    const uint64_t degree = sl_dataset_degree(h->ds, list);
    if (h->fanout < 0 || degree == 0)
        return h->visits[v];
    if (h->sampling->replaces)
        return h->visits[v] * (1 - pow(1 - 1 / (double)degree, (double)h->fanout));
    const bool all = (uint64_t)h->fanout >= degree;
    return all ? h->visits[v] : h->visits[v] * (double)h->fanout / (double)degree;
}

// How often the next hop draws for v again.
static double kept_of(const struct hop *h, uint64_t v)
{
    return h->sampling->expands_new ? 0 : h->visits[v];
}

// The same, where a vertex has one list. Others' are there before their lists (keep_visits).
static double kept_with_list(const struct hop *h, uint64_t v)
{
    return h->ds->typed.n_types ? 0 : kept_of(h, v);
}

static bool sum_block(void *ctx, uint64_t block)
{
    const struct hop *h = ctx;
    const uint64_t first = block * BLOCK_LISTS;
    const uint64_t end = SL_MIN(first + BLOCK_LISTS, sl_dataset_lists(h->ds));
    double sum = 0;
    for (uint64_t list = first; list < end; list++) {
        const uint64_t v = sl_dataset_list_vertex(h->ds, list);
        sum += kept_with_list(h, v) + share_of(h, list, v) * (double)sl_dataset_degree(h->ds, list);
    }
    h->passed[block] = sum;
    return false;
}

static void add(const struct hop *h, uint64_t u, uint64_t units)
{
    if (h->alone)
        atomic_store_explicit(&h->next[u],
                              atomic_load_explicit(&h->next[u], memory_order_relaxed) + units,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&h->next[u], units, memory_order_relaxed);
}

// The watch is asked by one thread at a time; what it says first counts.
static bool goes_on(struct hop *h, uint64_t n)
{
    pthread_mutex_lock(&h->lock);
    if (h->rc == SL_OK) {
        h->rc = h->watch->on_vertices(h->watch->ctx, n);
        if (h->rc != SL_OK) // errors are each thread's own
            snprintf(h->message, sizeof h->message, "%s", sl_error_message());
    }
    const bool on = h->rc == SL_OK;
    pthread_mutex_unlock(&h->lock);
    return on;
}

// next[u] += what the vertices of the block's lists keep, and pass on to their in-neighbours.
static bool pass_block(void *ctx, uint64_t block)
{
    struct hop *h = ctx;
    const struct sl_dataset *ds = h->ds;
    const uint64_t first = block * BLOCK_LISTS,
                   end = SL_MIN(first + BLOCK_LISTS, sl_dataset_lists(ds));
    if (!goes_on(h, end - first))
        return true;
    for (uint64_t list = first; list < end; list++) {
        const uint64_t v = sl_dataset_list_vertex(ds, list);
        if (h->visits[v] == 0)
            continue;
        add(h, v, (uint64_t)(kept_with_list(h, v) * h->units));
        const uint64_t units = (uint64_t)(share_of(h, list, v) * h->units);
        for (uint64_t e = ds->indptr[list]; e < ds->indptr[list + 1]; e++) {
            if (e + AHEAD < ds->n_edges)
                __builtin_prefetch(&h->next[sl_dataset_source(ds, e + AHEAD)], 1);
            add(h, sl_dataset_source(ds, e), units);
        }
    }
    return false;
}

// Of a graph of several types: next[v] = what v keeps, whatever lists it has.
static void keep_visits(struct hop *h)
{
    for (uint64_t v = 0; h->ds->typed.n_types && v < h->ds->n_nodes; v++)
        add(h, v, (uint64_t)(kept_of(h, v) * h->units));
}

// visits[v] becomes how often the next hop draws for v.
static int pass_on(struct hop *h, double *visits)
{
    const uint64_t n = h->ds->n_nodes, n_blocks = sl_div_up(sl_dataset_lists(h->ds), BLOCK_LISTS);
    double sum = 0;
    int bits;
    for (uint64_t v = 0; h->ds->typed.n_types && v < n; v++)
        sum += kept_of(h, v);
    sl_threads_first(n_blocks, 0, sum_block, h);
    for (uint64_t b = 0; b < n_blocks; b++)
        sum += h->passed[b];
    frexp(sum, &bits); // sum < 2^bits
    h->units = ldexp(1, SUM_BITS - bits);
    memset((void *)h->next, 0, n * sizeof *h->next);
    keep_visits(h);
    if (sl_threads_first(n_blocks, 0, pass_block, h) != SL_THREADS_NONE)
        return sl_fail(h->rc, "%s", h->message);
    for (uint64_t v = 0; v < n; v++)
        visits[v] = (double)atomic_load_explicit(&h->next[v], memory_order_relaxed) / h->units;
    return SL_OK;
}

// hotness (n_nodes): in all, which hops that draw for all carry with them.
static void note_visits(const struct hop *h, uint32_t *hotness)
{
    for (uint64_t v = 0; v < h->ds->n_nodes; v++) {
        float before;
        memcpy(&before, &hotness[v], sizeof before);
        const float sum = (float)h->visits[v] + (h->sampling->expands_new ? before : 0);
        memcpy(&hotness[v], &sum, sizeof sum);
    }
}

// Of training pairs: how often each vertex is a target, of negatives as well.
static void visit_targets(const struct hop *h, double *visits)
{
    const struct sl_dataset *ds = h->ds;
    const struct sl_pair_list *edges = &ds->edges[SL_SPLIT_TRAIN];
    const bool by_degree = h->sampling->negatives_by_degree;
    const double drawn = h->sampling->negatives * (double)ds->split[SL_SPLIT_TRAIN].n;
    double all = 0;
    for (uint64_t i = 0; edges->ids && i < edges->n; i++)
        visits[edges->ids[2 * i + 1]]++;
    for (uint64_t v = 0; !edges->ids && v < ds->n_nodes; v++)
        visits[v] = (double)sl_dataset_degree(ds, v);
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        all += by_degree ? pow(visits[v], 0.75) : 1;
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        visits[v] += drawn / all * (by_degree ? pow(visits[v], 0.75) : 1);
}

// Ends of training pairs, which are in any batch, become batches that have them.
static void merge_ends(const struct hop *h, double *visits)
{
    const struct sl_dataset *ds = h->ds;
    const double batches = (double)ds->split[SL_SPLIT_TRAIN].n / h->sampling->batch_size;
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        visits[v] = -expm1(-visits[v] / batches) * batches;
}

// How often each vertex is a seed. hotness (n_nodes) is scratch.
static int visit_seeds(const struct hop *h, double *visits, uint32_t *hotness)
{
    const struct sl_dataset *ds = h->ds;
    const struct sl_vertex_list *train = &ds->split[SL_SPLIT_TRAIN];
    const struct sl_pair_list *edges = &ds->edges[SL_SPLIT_TRAIN];
    if (ds->task != SL_TASK_LINK) {
        for (uint64_t i = 0; i < train->n; i++)
            visits[sl_vertex_at(train, i)] = 1;
        return SL_OK;
    }
    visit_targets(h, visits);
    for (uint64_t i = 0; edges->ids && i < edges->n; i++)
        visits[edges->ids[2 * i]]++;
    if (!edges->ids) {
        SL_TRY(sl_hotness_degree(ds->indices, ds->indices_dtype, ds->n_edges, ds->n_nodes, NULL,
                                 hotness));
        for (uint64_t v = 0; v < ds->n_nodes; v++)
            visits[v] += hotness[v];
    }
    merge_ends(h, visits);
    return SL_OK;
}

// visits (n_nodes) is scratch, zeroed.
static int follow_hops(struct hop *h, double *visits, uint32_t *hotness)
{
    const struct sl_visits_sampling *s = h->sampling;
    SL_TRY(visit_seeds(h, visits, hotness));
    memset(hotness, 0, h->ds->n_nodes * sizeof *hotness);
    note_visits(h, hotness);
    for (uint32_t hop = 0; hop < s->n_hops; hop++) {
        h->fanout = s->fanout[hop];
        if (h->watch->on_hop)
            h->watch->on_hop(h->watch->ctx, h->fanout, visits);
        SL_TRY(pass_on(h, visits));
        note_visits(h, hotness);
    }
    return SL_OK;
}

int sl_visits_expect(const struct sl_dataset *ds, const struct sl_visits_sampling *sampling,
                     const struct sl_visits_watch *watch, uint32_t *hotness)
{
    double *visits = calloc(ds->n_nodes + 1, sizeof *visits);
    struct hop h = {
        .ds = ds,
        .sampling = sampling,
        .visits = visits,
        .next = malloc((ds->n_nodes + 1) * sizeof *h.next),
        .alone = sl_threads_default() == 1,
        .passed = malloc((sl_div_up(sl_dataset_lists(ds), BLOCK_LISTS) + 1) * sizeof *h.passed),
        .watch = watch,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    int rc = SL_OK;
    if (!visits || !h.next || !h.passed)
        rc = sl_fail(SL_ENOMEM, "expected visits: no memory for %" PRIu64 " vertices", ds->n_nodes);
    if (rc == SL_OK)
        rc = follow_hops(&h, visits, hotness);
    free(visits);
    free((void *)h.next);
    free(h.passed);
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
