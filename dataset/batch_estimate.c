#include "dataset/batch_estimate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/random.h"
#include "dataset/permutation.h"

enum { MAX_BATCHES = 16, SEED = 1 };

// The vertices of one batch, each once, destinations first.
struct frontier {
    const struct sl_dataset *ds;
    uint8_t *seen;   // a bit for each vertex
    uint32_t *nodes; // (capacity)
    size_t n, capacity;
    uint64_t *picks; // (largest fanout) positions within a row
    uint64_t drawn;  // random words used
};

int sl_batch_estimate_parse(const char *command, const char *text, struct sl_batch_estimate *e)
{
    const char *p = text;
    e->n_hops = 0;
    for (;;) {
        char *end;
        errno = 0;
        long long x = strtoll(p, &end, 10);
        if (end == p || errno || isspace((unsigned char)*p) || (*end && *end != ',') ||
            !(x == -1 || (x >= 1 && x <= 100000)) || e->n_hops == SL_ESTIMATE_MAX_HOPS)
            return sl_fail(SL_EINVAL,
                           "%s: --fanout '%s': wanted 1 to %d numbers as in 15,10,5, each -1 "
                           "(all neighbours) or 1 to 100000",
                           command, text, SL_ESTIMATE_MAX_HOPS);
        e->fanout[e->n_hops++] = x;
        if (*end == '\0')
            return SL_OK;
        p = end + 1;
    }
}

static uint64_t neighbour(const struct sl_dataset *ds, uint64_t at)
{
    switch (ds->indices_dtype) {
    case SL_DTYPE_I64:
    case SL_DTYPE_U64: return ((const uint64_t *)ds->indices)[at];
    default: return ((const uint32_t *)ds->indices)[at];
    }
}

static int visit(struct frontier *f, uint64_t v)
{
    uint8_t bit = (uint8_t)(1u << (v % 8));
    if (f->seen[v / 8] & bit)
        return SL_OK;
    f->seen[v / 8] |= bit;
    if (f->n == f->capacity) {
        size_t capacity = SL_MAX(f->capacity * 2, (size_t)4096);
        uint32_t *nodes = realloc(f->nodes, capacity * sizeof *nodes);
        if (!nodes)
            return sl_fail(SL_ENOMEM, "estimate a batch: no memory for %zu vertices", capacity);
        f->nodes = nodes;
        f->capacity = capacity;
    }
    f->nodes[f->n++] = (uint32_t)v;
    return SL_OK;
}

static uint64_t below(struct frontier *f, uint64_t n)
{
    struct sl_rng_block b = sl_draw(SEED, SL_DRAW_ESTIMATE, f->drawn++, 0);
    return (uint64_t)(((unsigned __int128)((uint64_t)b.w[0] << 32 | b.w[1]) * n) >> 64);
}

// `k` different positions out of `degree` (Floyd), each visited.
static int visit_some(struct frontier *f, uint64_t begin, uint64_t degree, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++) {
        uint64_t last = degree - k + i;
        uint64_t pick = below(f, last + 1);
        for (uint64_t j = 0; j < i; j++) {
            if (f->picks[j] == pick) {
                pick = last;
                break;
            }
        }
        f->picks[i] = pick;
        SL_TRY(visit(f, neighbour(f->ds, begin + pick)));
    }
    return SL_OK;
}

static int visit_neighbours(struct frontier *f, uint64_t v, int64_t fanout, uint64_t *edges)
{
    uint64_t begin = f->ds->indptr[v], degree = sl_dataset_degree(f->ds, v);
    if (fanout >= 0 && (uint64_t)fanout < degree) {
        *edges += (uint64_t)fanout;
        return visit_some(f, begin, degree, (uint64_t)fanout);
    }
    *edges += degree;
    for (uint64_t i = 0; i < degree; i++)
        SL_TRY(visit(f, neighbour(f->ds, begin + i)));
    return SL_OK;
}

static int draw_batch(struct frontier *f, const struct sl_permutation *order, uint32_t number,
                      struct sl_batch_estimate *e, uint64_t *edges, uint64_t *destinations)
{
    const struct sl_vertex_list *train = &f->ds->split[SL_SPLIT_TRAIN];
    uint64_t n_seeds = order->n;
    f->n = 0;
    for (uint64_t i = 0; i < SL_MIN(e->batch_size, n_seeds); i++) {
        uint64_t place = sl_permutation_apply(order, (number * e->batch_size + i) % n_seeds);
        SL_TRY(visit(f, train->n ? train->ids[place] : place));
    }
    for (uint32_t hop = 0; hop < e->n_hops; hop++) {
        size_t n = f->n; // those found on this hop are destinations of the next
        *destinations += n;
        for (size_t i = 0; i < n; i++)
            SL_TRY(visit_neighbours(f, f->nodes[i], e->fanout[hop], edges));
    }
    return SL_OK;
}

static int run(struct frontier *f, uint64_t budget_edges, struct sl_batch_estimate *e)
{
    const struct sl_dataset *ds = f->ds;
    uint64_t n_seeds = ds->split[SL_SPLIT_TRAIN].n ? ds->split[SL_SPLIT_TRAIN].n : ds->n_nodes;
    uint64_t edges = 0, destinations = 0, inputs = 0;
    struct sl_permutation order;
    if (n_seeds == 0)
        return SL_OK;
    sl_permutation_init(&order, n_seeds, SEED, 2);
    for (e->n_batches = 0; e->n_batches < MAX_BATCHES && (!e->n_batches || edges < budget_edges);
         e->n_batches++) {
        SL_TRY(draw_batch(f, &order, e->n_batches, e, &edges, &destinations));
        inputs += f->n;
        for (size_t i = 0; i < f->n; i++)
            f->seen[f->nodes[i] / 8] = 0;
    }
    double n = e->n_batches;
    e->edges = (double)edges / n;
    e->input_nodes = (double)inputs / n;
    e->feature_bytes = e->input_nodes * ds->feat_dim * (double)sl_dtype_bytes(ds->feat_dtype);
    // Global id and hotness rank of each input, an offset for each destination, an index an edge.
    e->block_bytes = 4 * (2 * e->input_nodes + (double)destinations / n + e->edges);
    return SL_OK;
}

int sl_batch_estimate_run(const struct sl_dataset *ds, uint64_t budget_edges,
                          struct sl_batch_estimate *e)
{
    struct frontier f = {.ds = ds};
    int64_t largest = 1;
    for (uint32_t i = 0; i < e->n_hops; i++)
        largest = SL_MAX(largest, e->fanout[i]);
    f.seen = calloc(ds->n_nodes / 8 + 1, 1);
    f.picks = malloc((size_t)largest * sizeof *f.picks);
    int rc = f.seen && f.picks ? run(&f, budget_edges, e)
                               : sl_fail(SL_ENOMEM, "estimate a batch: no memory");
    free(f.seen);
    free(f.picks);
    free(f.nodes);
    return rc;
}
