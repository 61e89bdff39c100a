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
#include "common/base/mempool.h"
#include "common/base/threads.h"
#include "common/data/hotness.h"

/*
 * Visits are whole numbers of a unit that each hop has for itself, a power of two: so their sums do
 * not depend on the order of the additions, and any number of threads gives the same bits. The unit
 * is as small as what a hop brings in all allows, without a sum that overflows.
 */
enum {
    BLOCK_VERTICES = 4096, // a thread takes at a time
    SUM_BITS = 62,         // what all vertices come to
    AHEAD = 16,            // edges whose targets are on their way to the cache
};

// One hop, for all threads.
struct hop {
    const struct sl_dataset *ds;
    const struct sl_visits_sampling *sampling;
    int64_t fanout;
    const int64_t *by_relation; // (relations) in place of fanout; NULL: none
    const double *visits;       // that it draws for
    _Atomic uint64_t *next;     // relaxed: the pass's end orders it
    double units;               // of one visit
    bool alone;                 // there is no other thread
    double *passed;             // (blocks) visits that a block's vertices pass on
    const struct sl_visits_watch *watch;
    pthread_mutex_t lock; // of what is below, and of the watch
    int rc;
    char message[512];
};

// Rows of one relation, which are those of consecutive vertices: of a plain graph all.
struct stretch {
    uint64_t row, vertex; // of the first
    uint64_t end;         // row behind the last
    int64_t fanout;
};

// Rows [row, end) as far as they are of one relation.
static struct stretch stretch_at(const struct hop *h, uint64_t row, uint64_t end)
{
    const struct sl_typed *typed = &h->ds->typed;
    if (typed->n_types == 0)
        return (struct stretch){row, row, end, h->fanout};
    const uint32_t r = sl_typed_relation_of(typed, row);
    const struct sl_relation *relation = &typed->relation[r];
    const struct sl_vertex_type *target = &typed->type[relation->target];
    return (struct stretch){row, target->first + (row - relation->first_row),
                            SL_MIN(end, relation->first_row + target->n),
                            h->by_relation ? h->by_relation[r] : h->fanout};
}

// What each in-neighbour in a row gets, if the hop draws `visits` times for its vertex.
static double share_of(const struct hop *h, const struct stretch *s, uint64_t row, double visits)
{
    const uint64_t degree = sl_dataset_degree(h->ds, row);
    if (s->fanout < 0 || degree == 0)
        return visits;
    if (h->sampling->replaces)
        return visits * (1 - pow(1 - 1 / (double)degree, (double)s->fanout));
    const bool all = (uint64_t)s->fanout >= degree;
    return all ? visits : visits * (double)s->fanout / (double)degree;
}

// How often the next hop draws for v again.
static double kept_of(const struct hop *h, uint64_t v)
{
    return h->sampling->expands_new ? 0 : h->visits[v];
}

// The same beside a row; of a graph with types a vertex has any number of rows (keep_typed()).
static double kept_beside(const struct hop *h, uint64_t row)
{
    return h->ds->typed.n_types ? 0 : kept_of(h, row);
}

static bool sum_block(void *ctx, uint64_t block)
{
    const struct hop *h = ctx;
    const uint64_t first = block * BLOCK_VERTICES;
    const uint64_t end = SL_MIN(first + BLOCK_VERTICES, sl_dataset_lists(h->ds));
    double sum = 0;
    for (uint64_t row = first; row < end;) {
        const struct stretch s = stretch_at(h, row, end);
        for (; row < s.end; row++)
            sum += kept_beside(h, row) + share_of(h, &s, row, h->visits[s.vertex + (row - s.row)]) *
                                             (double)sl_dataset_degree(h->ds, row);
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

static void pass_stretch(const struct hop *h, const struct stretch *s)
{
    const struct sl_dataset *ds = h->ds;
    for (uint64_t row = s->row; row < s->end; row++) {
        const double visits = h->visits[s->vertex + (row - s->row)];
        if (visits == 0)
            continue;
        if (ds->typed.n_types == 0)
            add(h, row, (uint64_t)(kept_beside(h, row) * h->units));
        const uint64_t units = (uint64_t)(share_of(h, s, row, visits) * h->units);
        for (uint64_t e = ds->indptr[row]; e < ds->indptr[row + 1]; e++) {
            if (e + AHEAD < ds->n_edges)
                __builtin_prefetch(&h->next[sl_dataset_source(ds, e + AHEAD)], 1);
            add(h, sl_dataset_source(ds, e), units);
        }
    }
}

// next[u] += what the block's vertices keep, and pass on to their in-neighbours.
static bool pass_block(void *ctx, uint64_t block)
{
    struct hop *h = ctx;
    const uint64_t first = block * BLOCK_VERTICES,
                   end = SL_MIN(first + BLOCK_VERTICES, sl_dataset_lists(h->ds));
    if (!goes_on(h, end - first))
        return true;
    for (uint64_t row = first; row < end;) {
        const struct stretch s = stretch_at(h, row, end);
        pass_stretch(h, &s);
        row = s.end;
    }
    return false;
}

// Of a graph with types: next[v] = what v keeps.
static void keep_typed(struct hop *h)
{
    for (uint64_t v = 0; h->ds->typed.n_types && v < h->ds->n_nodes; v++)
        atomic_store_explicit(&h->next[v], (uint64_t)(kept_of(h, v) * h->units),
                              memory_order_relaxed);
}

// visits[v] becomes how often the next hop draws for v.
static int pass_on(struct hop *h, double *visits)
{
    const uint64_t n = h->ds->n_nodes;
    const uint64_t n_blocks = sl_div_up(sl_dataset_lists(h->ds), BLOCK_VERTICES);
    double sum = 0;
    int bits;
    sl_threads_first(n_blocks, 0, sum_block, h);
    for (uint64_t b = 0; b < n_blocks; b++)
        sum += h->passed[b];
    for (uint64_t v = 0; h->ds->typed.n_types && v < n; v++)
        sum += kept_of(h, v);
    frexp(sum, &bits); // sum < 2^bits
    h->units = ldexp(1, SUM_BITS - bits);
    memset((void *)h->next, 0, n * sizeof *h->next);
    keep_typed(h);
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

// Rows of training pairs, and the vertices that they are of: of a graph with types the linked
// relation's.
struct targets {
    uint64_t row, first, n;
};

static struct targets targets_of(const struct sl_dataset *ds)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    if (!r)
        return (struct targets){.n = ds->n_nodes};
    const struct sl_vertex_type *of = &ds->typed.type[r->target];
    return (struct targets){r->first_row, of->first, of->n};
}

// Of training pairs: how often each vertex is a target, of negatives as well.
static void visit_targets(const struct hop *h, const struct targets *t, double *visits)
{
    const struct sl_dataset *ds = h->ds;
    const uint64_t end = t->first + t->n;
    const struct sl_pair_list *edges = &ds->edges[SL_SPLIT_TRAIN];
    const bool by_degree = h->sampling->negatives_by_degree;
    const double drawn = h->sampling->negatives * (double)ds->split[SL_SPLIT_TRAIN].n;
    double all = 0;
    for (uint64_t i = 0; edges->ids && i < edges->n; i++)
        visits[edges->ids[2 * i + 1]]++;
    for (uint64_t i = 0; !edges->ids && i < t->n; i++)
        visits[t->first + i] = (double)sl_dataset_degree(ds, t->row + i);
    for (uint64_t v = t->first; v < end; v++)
        all += by_degree ? pow(visits[v], 0.75) : 1;
    for (uint64_t v = t->first; v < end; v++)
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
    const struct targets targets = targets_of(ds);
    visit_targets(h, &targets, visits);
    for (uint64_t i = 0; edges->ids && i < edges->n; i++)
        visits[edges->ids[2 * i]]++;
    if (!edges->ids) {
        const uint64_t begin = ds->indptr[targets.row];
        SL_TRY(
            sl_hotness_degree((const char *)ds->indices + begin * sl_dtype_bytes(ds->indices_dtype),
                              ds->indices_dtype, ds->indptr[targets.row + targets.n] - begin,
                              ds->n_nodes, NULL, hotness));
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
    const uint32_t n_relations = h->ds->typed.n_relations;
    SL_TRY(visit_seeds(h, visits, hotness));
    memset(hotness, 0, h->ds->n_nodes * sizeof *hotness);
    note_visits(h, hotness);
    for (uint32_t hop = 0; hop < s->n_hops; hop++) {
        h->fanout = s->fanout[hop];
        h->by_relation = s->by_relation ? s->by_relation + (uint64_t)hop * n_relations : NULL;
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
    // Edges lead anywhere in `next`: in small pages each misses the TLB.
    const uint64_t bytes = (ds->n_nodes + 1) * sizeof(uint64_t);
    double *visits = sl_pages_alloc(bytes);
    struct hop h = {
        .ds = ds,
        .sampling = sampling,
        .visits = visits,
        .next = sl_pages_alloc(bytes),
        .alone = sl_threads_default() == 1,
        .passed = malloc((sl_div_up(sl_dataset_lists(ds), BLOCK_VERTICES) + 1) * sizeof *h.passed),
        .watch = watch,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    int rc = SL_OK;
    if (!visits || !h.next || !h.passed)
        rc = sl_fail(SL_ENOMEM, "expected visits: no memory for %" PRIu64 " vertices", ds->n_nodes);
    if (rc == SL_OK)
        rc = follow_hops(&h, visits, hotness);
    sl_pages_free(visits, bytes);
    sl_pages_free((void *)h.next, bytes);
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
