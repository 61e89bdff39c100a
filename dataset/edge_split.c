/*
 *   graph -> pairs -> which are held out -> the graph without them, two lists of pairs
 *
 * A pair is a source and a target that differ, however many edges join them; in an undirected graph
 * also an edge and its reverse. Edges of a pair stay or go together, so none that is left tells
 * that it was held out. Self-loops stay.
 *
 * Each pair has a number, a one-to-one function of it and the seed (mix): the smallest ones are the
 * test, the next ones the validation. So exactly as many as asked for are held out, whatever the
 * order of the file and the number of threads, and a larger test has all of a smaller one. The
 * limits are found by counting places in buckets, and sorting those of the buckets that the limits
 * fall into. By time a pair's place is how long before the latest one its latest edge is, and then
 * its number; times are looked up in the two lists, which an import has sorted.
 *
 * With keep_one the largest number of a vertex's pairs is its own: that pair stays.
 *
 * Of a graph of several types the pairs are those of one relation. What goes through vertices below
 * goes through the rows of all relations then: those of that one have the pairs, those of the
 * relation with its reverses lose the same ones, and all others keep their edges.
 *
 * Memory: two words a vertex, one more with keep_one, and for each thread a list of neighbours. An
 * edge is read six times. By time 16 bytes for each pair of the busiest two moments come to it.
 */
#include "dataset/edge_split.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/dataset_files.h"
#include "common/data/npy.h"
#include "common/data/wider_graph.h"
#include "common/text/units.h"
#include "dataset/edge_relation.h"
#include "dataset/metadata.h"
#include "dataset/pair_file.h"
#include "dataset/vertex_blocks.h"

enum { BUCKETS = 1 << 16 };

const char *const sl_edge_split_pairs[] = {"auto", "undirected", "directed", NULL};

// Where a pair stands among all: those at the front are held out.
struct place {
    uint32_t late; // how long before the latest one; 0 where edges have no times
    uint64_t number;
};

// Pairs up to `at` are of this split or the ones before it; none where `any` is false.
struct limit {
    bool any;
    struct place at;
};

struct pass {
    struct sl_edge_split *run;
    const struct sl_staging *st; // that is written
    bool in_place;               // it is what is read
    char who[512];               // for messages
    struct sl_dataset ds;
    struct sl_vertex_blocks blocks;
    uint64_t key;                           // of the seed
    uint32_t *lists[SL_VERTEX_THREADS_MAX]; // (max_degree) of each thread

    _Atomic uint64_t forward, backward; // sums over edges, and over their reverses
    _Atomic uint64_t *own;              // (n_nodes) largest number of a vertex's pairs, or NULL
    const uint32_t *times;              // (n_edges) or NULL
    // Of a graph of several types; NULL: a plain graph, or no relation has the reverses.
    const struct sl_relation *linked, *back;
    _Atomic uint64_t earliest, latest;
    _Atomic uint64_t n_pairs;
    _Atomic uint64_t *bucket;    // (BUCKETS) pairs that may go, by their places
    uint64_t n_gone[2];          // test, validation: wanted, and held out
    uint64_t borders[2];         // buckets of the two limits
    struct place *places;        // (n_places) of the pairs of these buckets
    uint64_t n_places;           //
    _Atomic uint64_t next_place; //
    struct limit limits[2];      // test, validation
    int64_t *offsets;            // (n_nodes + 1) of the new graph
    uint64_t n_left;             // edges of it
    uint64_t *first[2];          // (blocks + 1) pairs of the lists before each block's
    uint32_t *out[2];            // (n_gone, 2)
    _Atomic uint64_t n_bare;     // vertices whose in-edges are all gone
    void *sources;               // of the new graph
    bool wide;                   // sources are int64
    const char *rows; // of a file with a row an edge of these lists, `begin` to `end` - 1
    uint64_t begin, end;
    char *to;
    size_t row_bytes;
};

// ---- pairs --------------------------------------------------------------------------------------

// What an edge u -> (the vertex of a row) is of.
struct pair {
    uint64_t u, v;
    bool may_go; // else it stays whatever it is
    bool here;   // the row is where the pair is counted and listed
};

static bool has_row(const struct pass *p, const struct sl_relation *r, uint64_t row)
{
    return r && row - r->first_row < p->ds.typed.type[r->target].n;
}

// A pair is an edge and its reverse, which stand in the same relation.
static bool is_symmetric(const struct pass *p)
{
    return p->run->undirected && p->linked == p->back;
}

static struct pair pair_of(const struct pass *p, uint64_t u, uint64_t row)
{
    const bool forward = !p->linked || has_row(p, p->linked, row), back = has_row(p, p->back, row);
    const struct sl_relation *r = forward ? p->linked : p->back;
    if (!forward && !back)
        return (struct pair){0};
    const uint64_t v = r ? row - r->first_row + p->ds.typed.type[r->target].first : row;
    if (!forward)
        return (struct pair){v, u, u != v, false};
    return (struct pair){u, v, u != v, is_symmetric(p) ? u < v : u != v};
}

// One-to-one: the finaliser of splitmix64.
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t number_of(const struct pass *p, struct pair pair)
{
    if (is_symmetric(p) && pair.u > pair.v)
        return mix((pair.v << 32 | pair.u) ^ p->key);
    return mix((pair.u << 32 | pair.v) ^ p->key);
}

// The latest of the edges u -> v; 0: there is none. Lists are sorted.
static uint32_t latest_of(const struct pass *p, uint64_t u, uint64_t v)
{
    uint64_t begin = p->ds.indptr[v], end = p->ds.indptr[v + 1];
    uint32_t latest = 0;
    while (begin < end) {
        const uint64_t mid = begin + (end - begin) / 2;
        if (sl_dataset_source(&p->ds, mid) < u)
            begin = mid + 1;
        else
            end = mid;
    }
    for (; begin < p->ds.indptr[v + 1] && sl_dataset_source(&p->ds, begin) == u; begin++)
        latest = SL_MAX(latest, p->times[begin]);
    return latest;
}

static struct place place_of(const struct pass *p, struct pair pair)
{
    struct place out = {.number = number_of(p, pair)};
    if (!p->times)
        return out;
    uint32_t time = latest_of(p, pair.u, pair.v);
    if (p->run->undirected)
        time = SL_MAX(time, latest_of(p, pair.v, pair.u));
    out.late = (uint32_t)p->latest - time;
    return out;
}

static bool is_up_to(const struct place *a, const struct place *b)
{
    return a->late != b->late ? a->late < b->late : a->number <= b->number;
}

// Rises with the place. Without times it is the number's highest bits.
static uint64_t bucket_of(const struct pass *p, const struct place *at)
{
    const uint64_t range = p->times ? p->latest - p->earliest + 1 : 1;
    const unsigned __int128 x = (uint64_t)at->late << 32 | at->number >> 32;
    return (uint64_t)(x * BUCKETS / ((unsigned __int128)range << 32));
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// v's in-neighbours, each once: how many.
static uint64_t neighbours(const struct pass *p, uint64_t v, uint32_t *list)
{
    const uint64_t first = p->ds.indptr[v], n = sl_dataset_degree(&p->ds, v);
    bool sorted = true;
    uint64_t k = 0;
    for (uint64_t e = 0; e < n; e++) {
        list[e] = sl_dataset_source(&p->ds, first + e);
        sorted &= e == 0 || list[e - 1] <= list[e];
    }
    if (!sorted)
        qsort(list, n, sizeof *list, ascending);
    for (uint64_t e = 0; e < n; e++)
        if (e == 0 || list[e] != list[e - 1])
            list[k++] = list[e];
    return k;
}

static bool may_go(const struct pass *p, struct pair pair, uint64_t number)
{
    return !p->own || (p->own[pair.u] != number && p->own[pair.v] != number);
}

static enum sl_split split_of(const struct pass *p, uint64_t u, uint64_t row)
{
    const struct pair pair = pair_of(p, u, row);
    if (!pair.may_go)
        return SL_SPLIT_TRAIN;
    const struct place at = place_of(p, pair);
    const bool test = p->limits[0].any && is_up_to(&at, &p->limits[0].at);
    const bool val = p->limits[1].any && is_up_to(&at, &p->limits[1].at);
    if (!(test || val) || !may_go(p, pair, at.number))
        return SL_SPLIT_TRAIN;
    return test ? SL_SPLIT_TEST : SL_SPLIT_VAL;
}

// ---- passes -------------------------------------------------------------------------------------

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static int compare_directions(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, sum[2] = {0};
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        sl_graph_add_directions(&p->ds, begin, end, p->lists[thread], sum);
    add(&p->forward, sum[0]);
    add(&p->backward, sum[1]);
    return SL_OK;
}

static void raise(_Atomic uint64_t *to, uint64_t number)
{
    uint64_t was = atomic_load_explicit(to, memory_order_relaxed);
    while (was < number && !atomic_compare_exchange_weak_explicit(
                               to, &was, number, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void lower(_Atomic uint64_t *to, uint64_t number)
{
    uint64_t was = atomic_load_explicit(to, memory_order_relaxed);
    while (was > number && !atomic_compare_exchange_weak_explicit(
                               to, &was, number, memory_order_relaxed, memory_order_relaxed))
        ;
}

// The times of all edges but self-loops, which an import may have added.
static int find_span(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, least = UINT64_MAX, most = 0;
    (void)thread;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t e = p->ds.indptr[v]; e < p->ds.indptr[v + 1]; e++)
                if (sl_dataset_source(&p->ds, e) != v) {
                    least = SL_MIN(least, (uint64_t)p->times[e]);
                    most = SL_MAX(most, (uint64_t)p->times[e]);
                }
    raise(&p->latest, most);
    lower(&p->earliest, least);
    return SL_OK;
}

static int find_own(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const struct pair pair = pair_of(p, p->lists[thread][i], v);
                if (!pair.here)
                    continue;
                raise(&p->own[pair.u], number_of(p, pair));
                raise(&p->own[pair.v], number_of(p, pair));
            }
    return SL_OK;
}

static int count_pairs(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, n_pairs = 0;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const struct pair pair = pair_of(p, p->lists[thread][i], v);
                if (!pair.here)
                    continue;
                const struct place at = place_of(p, pair);
                n_pairs++;
                if (may_go(p, pair, at.number))
                    add(&p->bucket[bucket_of(p, &at)], 1);
            }
    add(&p->n_pairs, n_pairs);
    return SL_OK;
}

static int gather_places(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const struct pair pair = pair_of(p, p->lists[thread][i], v);
                if (!pair.here)
                    continue;
                const struct place at = place_of(p, pair);
                const uint64_t b = bucket_of(p, &at);
                if ((b == p->borders[0] || b == p->borders[1]) && may_go(p, pair, at.number))
                    p->places[atomic_fetch_add_explicit(&p->next_place, 1, memory_order_relaxed)] =
                        at;
            }
    return SL_OK;
}

// Edges that stay, by vertex, and pairs that do not, by block.
static int count_left(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, n_bare = 0;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++) {
            const uint64_t block = v / SL_VERTEX_BLOCK;
            int64_t left = 0;
            for (uint64_t e = p->ds.indptr[v]; e < p->ds.indptr[v + 1]; e++)
                left += split_of(p, sl_dataset_source(&p->ds, e), v) == SL_SPLIT_TRAIN;
            p->offsets[v + 1] = left;
            n_bare += left == 0 && sl_dataset_degree(&p->ds, v) > 0;
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const uint64_t u = p->lists[thread][i];
                const enum sl_split s = split_of(p, u, v);
                if (s != SL_SPLIT_TRAIN && pair_of(p, u, v).here)
                    p->first[s == SL_SPLIT_VAL][block + 1]++;
            }
        }
    add(&p->n_bare, n_bare);
    return SL_OK;
}

static int move_edges(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    (void)thread;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++) {
            uint64_t at = (uint64_t)p->offsets[v];
            for (uint64_t e = p->ds.indptr[v]; e < p->ds.indptr[v + 1]; e++) {
                const uint32_t u = sl_dataset_source(&p->ds, e);
                if (split_of(p, u, v) != SL_SPLIT_TRAIN)
                    continue;
                if (p->wide)
                    ((int64_t *)p->sources)[at++] = u;
                else
                    ((int32_t *)p->sources)[at++] = (int32_t)u;
            }
        }
    return SL_OK;
}

static int move_rows(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    const size_t bytes = p->row_bytes;
    const uint64_t before = p->ds.indptr[p->begin], left_before = (uint64_t)p->offsets[p->begin];
    (void)thread;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = SL_MAX(begin, p->begin); v < SL_MIN(end, p->end); v++) {
            char *to = p->to + ((uint64_t)p->offsets[v] - left_before) * bytes;
            for (uint64_t e = p->ds.indptr[v]; e < p->ds.indptr[v + 1]; e++)
                if (split_of(p, sl_dataset_source(&p->ds, e), v) == SL_SPLIT_TRAIN) {
                    memcpy(to, p->rows + (e - before) * bytes, bytes);
                    to += bytes;
                }
        }
    return SL_OK;
}

// In files a vertex has its number in its type.
static uint64_t first_of(const struct pass *p, uint32_t type)
{
    return p->linked ? p->ds.typed.type[type].first : 0;
}

static int list_pairs(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end)) {
        uint64_t at[2] = {p->first[0][begin / SL_VERTEX_BLOCK],
                          p->first[1][begin / SL_VERTEX_BLOCK]};
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const uint32_t u = p->lists[thread][i];
                const enum sl_split s = split_of(p, u, v);
                const struct pair of = pair_of(p, u, v);
                if (s == SL_SPLIT_TRAIN || !of.here)
                    continue;
                uint32_t *pair = p->out[s == SL_SPLIT_VAL] + 2 * at[s == SL_SPLIT_VAL]++;
                pair[0] = (uint32_t)(of.u - first_of(p, p->linked ? p->linked->source : 0));
                pair[1] = (uint32_t)(of.v - first_of(p, p->linked ? p->linked->target : 0));
            }
    }
    return SL_OK;
}

// ---- which pairs --------------------------------------------------------------------------------

enum { SHARES_BYTES = 64 };

// The shares as the options that they came by.
static const char *shares_text(const struct pass *p, char text[SHARES_BYTES])
{
    snprintf(text, SHARES_BYTES, p->in_place ? "--holdout %g,%g" : "--val %g and --test %g",
             p->run->val, p->run->test);
    return text;
}

static int find_directions(struct pass *p)
{
    struct sl_edge_split *run = p->run;
    if (run->pairs == SL_EDGE_SPLIT_DIRECTED)
        return SL_OK;
    if (p->linked) {
        const bool asked = run->pairs == SL_EDGE_SPLIT_UNDIRECTED;
        SL_TRY(sl_edge_relation_reverse(&p->ds.typed, p->linked, asked, p->who, &p->back));
        run->undirected = p->back != NULL;
        return SL_OK;
    }
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "directions", compare_directions, p));
    run->undirected = p->forward == p->backward;
    if (run->pairs == SL_EDGE_SPLIT_AUTO || run->undirected)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: found edges without their reverse, wanted both of each with --pairs "
                   "undirected: take --pairs directed, or import the graph with --symmetrise",
                   p->who);
}

static int count(struct pass *p)
{
    const double n = (double)p->n_pairs, wanted[2] = {p->run->test, p->run->val};
    char shares[SHARES_BYTES];
    uint64_t may = 0;
    for (int b = 0; b < BUCKETS; b++)
        may += p->bucket[b];
    for (int i = 0; i < 2; i++)
        p->n_gone[i] = (uint64_t)llround(wanted[i] * n);
    const uint64_t sum = p->n_gone[0] + p->n_gone[1];
    if (sum == 0)
        return sl_fail(SL_EINVAL, "%s: %s of %s of vertices are none, wanted one at least", p->who,
                       shares_text(p, shares), SL_PLURAL(n, "pair"));
    if (sum > may)
        return sl_fail(SL_EINVAL,
                       "%s: %s are %" PRIu64 " pairs, and with --keep-one %" PRIu64 " of %" PRIu64
                       " may go: take smaller shares, or leave --keep-one out",
                       p->who, shares_text(p, shares), sum, may, (uint64_t)p->n_pairs);
    return SL_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->late != y->late)
        return x->late < y->late ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

// The bucket that the n-th place is in; before: places in the buckets before it.
static uint64_t find_bucket(const struct pass *p, uint64_t n, uint64_t *before)
{
    uint64_t b = 0;
    *before = 0;
    while (*before + p->bucket[b] < n)
        *before += p->bucket[b++];
    return b;
}

static int find_limits(struct pass *p)
{
    const uint64_t rank[2] = {p->n_gone[0], p->n_gone[0] + p->n_gone[1]};
    uint64_t before[2], at = 0;
    for (int i = 0; i < 2; i++)
        p->borders[i] = find_bucket(p, SL_MAX(rank[i], (uint64_t)1), &before[i]);
    p->n_places = p->bucket[p->borders[0]];
    if (p->borders[1] != p->borders[0])
        p->n_places += p->bucket[p->borders[1]];
    p->places = malloc(p->n_places * sizeof *p->places);
    if (!p->places)
        return sl_fail(SL_ENOMEM, "%s: no memory for %" PRIu64 " pairs", p->who, p->n_places);
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "limits", gather_places, p));
    qsort(p->places, p->n_places, sizeof *p->places, by_place);
    for (int i = 0; i < 2; i++) {
        // Behind the first bucket's places stand those of the second.
        at = p->borders[i] == p->borders[0] ? 0 : p->bucket[p->borders[0]];
        if (rank[i] > 0)
            p->limits[i] = (struct limit){true, p->places[at + rank[i] - before[i] - 1]};
    }
    p->limits[1].any &= p->n_gone[1] > 0;
    return SL_OK;
}

static int choose(struct pass *p)
{
    SL_TRY(find_directions(p));
    if (p->run->by_time) {
        p->times = (const uint32_t *)(const void *)p->ds.edge_weight;
        p->earliest = UINT64_MAX;
        SL_TRY(sl_vertex_blocks_run(&p->blocks, "times", find_span, p));
        p->earliest = SL_MIN(p->earliest, p->latest); // of a graph of self-loops
    }
    if (p->run->keep_one) {
        p->own = calloc(p->ds.n_nodes + 1, sizeof *p->own);
        if (!p->own)
            return sl_fail(SL_ENOMEM, "%s: no memory for a word a vertex", p->who);
        SL_TRY(sl_vertex_blocks_run(&p->blocks, "pairs to keep", find_own, p));
    }
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "pairs", count_pairs, p));
    SL_TRY(count(p));
    return find_limits(p);
}

// ---- files --------------------------------------------------------------------------------------

static int create(struct pass *p, const char *name, enum sl_dtype dtype, int ndim,
                  const uint64_t *shape, struct sl_npy_writer **w, void *data)
{
    char path[SL_STAGING_PATH_BYTES];
    return sl_npy_create_mapped(sl_staging_file(p->st, name, path), dtype, ndim, shape, w, data);
}

static int count_offsets(struct pass *p)
{
    const uint64_t n_lists = sl_dataset_lists(&p->ds);
    const uint64_t n_blocks = sl_div_up(n_lists, SL_VERTEX_BLOCK);
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "edges left", count_left, p));
    for (uint64_t v = 0; v < n_lists; v++)
        p->offsets[v + 1] += p->offsets[v];
    p->n_left = (uint64_t)p->offsets[n_lists];
    for (int i = 0; i < 2; i++)
        for (uint64_t b = 0; b < n_blocks; b++)
            p->first[i][b + 1] += p->first[i][b];
    return SL_OK;
}

static int write_topology(struct pass *p)
{
    struct sl_npy_writer *w;
    p->wide = p->ds.n_nodes > INT32_MAX;
    SL_TRY(create(p, "indices.npy", p->wide ? SL_DTYPE_I64 : SL_DTYPE_I32, 1, &p->n_left, &w,
                  &p->sources));
    return sl_npy_writer_close(&w, sl_vertex_blocks_run(&p->blocks, "edges", move_edges, p));
}

static int write_pairs(struct pass *p)
{
    static const enum sl_split splits[2] = {SL_SPLIT_TEST, SL_SPLIT_VAL};
    struct sl_npy_writer *w[2] = {NULL};
    int rc = SL_OK;
    for (int i = 0; i < 2 && rc == SL_OK; i++)
        rc = sl_pair_file_create(p->st, splits[i], p->ds.n_nodes, p->n_gone[i], &w[i], &p->out[i]);
    if (rc == SL_OK)
        rc = sl_vertex_blocks_run(&p->blocks, "pairs held out", list_pairs, p);
    for (int i = 0; i < 2; i++)
        rc = sl_npy_writer_close(&w[i], rc);
    return rc;
}

// A file with a row for each of n edges, those of the lists p->begin to p->end - 1.
static int write_rows(struct pass *p, const char *name, const struct sl_npy *from, uint64_t n)
{
    struct sl_npy_writer *w;
    uint64_t shape[SL_NPY_MAX_DIMS];
    memcpy(shape, from->head.shape, sizeof shape);
    shape[0] = (uint64_t)(p->offsets[p->end] - p->offsets[p->begin]);
    SL_TRY(create(p, name, from->head.dtype, from->head.ndim, shape, &w, &p->to));
    p->rows = from->data;
    p->row_bytes = from->head.data_bytes / SL_MAX(n, (uint64_t)1);
    return sl_npy_writer_close(&w, sl_vertex_blocks_run(&p->blocks, name, move_rows, p));
}

// The relation whose edges a file is of, edge_*.SOURCE.NAME.TARGET.npy; NULL: none.
static const struct sl_relation *relation_of(const struct sl_typed *t, const char *name)
{
    char pattern[3 * SL_TYPE_NAME_BYTES + 16];
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        snprintf(pattern, sizeof pattern, "edge_*.%s.%s.%s.npy", t->type[r->source].name, r->name,
                 t->type[r->target].name);
        if (fnmatch(pattern, name, 0) == 0)
            return r;
    }
    return NULL;
}

static int write_edge_file(struct pass *p, const char *name, const char *path)
{
    struct sl_npy npy;
    const struct sl_typed *t = &p->ds.typed;
    const struct sl_relation *r = relation_of(t, name);
    const uint64_t n = r ? r->n_edges : p->ds.n_edges;
    p->begin = r ? r->first_row : 0;
    p->end = r ? p->begin + t->type[r->target].n : sl_dataset_lists(&p->ds);
    SL_TRY(sl_npy_open(path, &npy));
    int rc = SL_OK;
    if (npy.head.ndim >= 1 && npy.head.shape[0] == n)
        rc = write_rows(p, name, &npy, n);
    else if (p->linked)
        rc = sl_fail(SL_EUNSUPPORTED,
                     "%s: %s: found %" PRIu64 " rows, wanted %" PRIu64 ", one for each edge of %s: "
                     "correct it, or move it away",
                     p->who, name, npy.head.ndim ? npy.head.shape[0] : 0, n,
                     r ? "its relation" : "the graph, for it is of none of its relations");
    sl_npy_close(&npy);
    return rc;
}

// What this command writes anew, or what a user keeps beside the arrays.
static int is_shared(const struct dirent *e)
{
    static const char *const own[] = {"indptr.npy",      "indices.npy",
                                      "train_edges.npy", "train_edge_weight.npy",
                                      "train_neg.npy",   "train_neg_target.npy"};
    const char *dot = strrchr(e->d_name, '.');
    for (size_t i = 0; i < SL_COUNT_OF(own); i++)
        if (strcmp(e->d_name, own[i]) == 0)
            return 0;
    return e->d_name[0] != '.' && dot && strcmp(dot, ".npy") == 0;
}

static int write_other(struct pass *p, const char *name)
{
    char from[SL_STAGING_PATH_BYTES + 300], to[SL_STAGING_PATH_BYTES];
    snprintf(from, sizeof from, "%s/%s", p->ds.path, name);
    if (p->times && strcmp(name, "edge_weight.npy") == 0)
        return unlink(from) == 0 ? SL_OK : sl_fail_errno(SL_EIO, errno, "remove %s", from);
    if (fnmatch("edge_*.npy", name, 0) == 0)
        return write_edge_file(p, name, from);
    if (p->in_place)
        return SL_OK;
    return sl_file_share(&p->run->shared, from, sl_staging_file(p->st, name, to));
}

static int write_others(struct pass *p)
{
    struct dirent **entries;
    int n = scandir(p->ds.path, &entries, is_shared, alphasort), rc = SL_OK;
    if (n < 0)
        return sl_fail(SL_EIO, "%s: cannot be listed", p->ds.path);
    for (int i = 0; i < n; i++) {
        if (rc == SL_OK)
            rc = write_other(p, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int write_metadata(struct pass *p)
{
    const struct sl_edge_split *run = p->run;
    cJSON *root = sl_metadata_read(p->ds.path);
    if (!root)
        return SL_EIO;
    sl_metadata_keep_stripes(root, &p->ds);
    if (!p->in_place)
        sl_metadata_rename(root, sl_dataset_builder_name(&run->making));
    cJSON_DeleteItemFromObjectCaseSensitive(root, "temporary");
    cJSON_DeleteItemFromObjectCaseSensitive(root, "num_edges");
    cJSON_AddNumberToObject(root, "num_edges", (double)p->n_left);
    const int rc = p->linked ? sl_edge_relation_write(&p->ds.typed, p->linked, p->back, p->offsets,
                                                      p->who, root)
                             : SL_OK;
    if (rc < 0) {
        cJSON_Delete(root);
        return rc;
    }
    cJSON *split = cJSON_AddObjectToObject(root, "edge_split");
    if (!p->in_place)
        cJSON_AddStringToObject(split, "of", p->ds.name);
    cJSON_AddStringToObject(split, "pairs", run->undirected ? "undirected" : "directed");
    cJSON_AddNumberToObject(split, "val", run->val);
    cJSON_AddNumberToObject(split, "test", run->test);
    cJSON_AddNumberToObject(split, "seed", (double)run->seed);
    cJSON_AddBoolToObject(split, "keep_one", run->keep_one);
    if (run->by_time)
        cJSON_AddTrueToObject(split, "by_time");
    return sl_metadata_write(p->st, root);
}

static int write_graph(struct pass *p)
{
    SL_TRY(count_offsets(p));
    SL_TRY(write_topology(p));
    SL_TRY(write_pairs(p));
    SL_TRY(write_others(p));
    return write_metadata(p);
}

static int write_all(void *context)
{
    struct pass *p = context;
    struct sl_npy_writer *w = NULL;
    const uint64_t n = sl_dataset_lists(&p->ds) + 1;
    SL_TRY(sl_metadata_check_stripes(&p->ds, p->st));
    SL_TRY(choose(p));
    SL_TRY(create(p, "indptr.npy", SL_DTYPE_I64, 1, &n, &w, &p->offsets));
    return sl_npy_writer_close(&w, write_graph(p));
}

// What was found, for the summary: the pass is gone by then.
static void report(const struct pass *p)
{
    struct sl_edge_split *run = p->run;
    run->n_pairs = p->n_pairs;
    memcpy(run->n_held, p->n_gone, sizeof run->n_held);
    run->n_edges = p->ds.n_edges;
    run->n_left = p->n_left;
    run->n_bare = p->n_bare;
}

void sl_edge_split_summarise(const struct sl_edge_split *run, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const double n = (double)SL_MAX(run->n_pairs, (uint64_t)1);
    sl_table_row(t, "pairs|%s of vertices that %s", sl_units_grouped(a, run->n_pairs),
                 run->undirected ? "edges join in both directions" : "an edge joins");
    sl_table_row(t, "validation|%s, %.2f %%%s", sl_units_grouped(a, run->n_held[1]),
                 100 * (double)run->n_held[1] / n, run->by_time ? ", the latest but the test" : "");
    sl_table_row(t, "test|%s, %.2f %%%s", sl_units_grouped(a, run->n_held[0]),
                 100 * (double)run->n_held[0] / n, run->by_time ? ", the latest" : "");
    sl_table_row(t, "edges|%s of %s are left", sl_units_grouped(a, run->n_left),
                 sl_units_grouped(b, run->n_edges));
    if (run->n_bare)
        sl_table_row(t, "|%s vertices lost all in-edges (--keep-one keeps one of each)",
                     sl_units_grouped(a, run->n_bare));
    if (run->shared.n_copied)
        sl_table_row(t, "files|%" PRIu64 " copied, as a link cannot be made: %s",
                     run->shared.n_copied, run->shared.why);
}

static void summarise(void *context, struct sl_table *t)
{
    const struct pass *p = context;
    report(p);
    sl_edge_split_summarise(p->run, t);
}

// ---- the command --------------------------------------------------------------------------------

static int check(const struct pass *p)
{
    const struct sl_edge_split *run = p->run;
    char shares[SHARES_BYTES];
    if (!(run->val >= 0 && run->test >= 0 && run->val + run->test < 1))
        return sl_fail(SL_EINVAL, "%s: %s: wanted shares from 0, below 1 together", p->who,
                       shares_text(p, shares));
    if (p->ds.edges[SL_SPLIT_VAL].ids || p->ds.edges[SL_SPLIT_TEST].ids)
        return sl_fail(SL_EINVAL, "%s: has %s: its edges are held out already: %s", p->who,
                       p->ds.edges[SL_SPLIT_VAL].ids ? "val_edges.npy" : "test_edges.npy",
                       p->in_place ? "leave --holdout out"
                                   : "split the data set that it was made of");
    return SL_OK;
}

static int allocate(struct pass *p)
{
    const uint64_t n_blocks = sl_div_up(sl_dataset_lists(&p->ds), SL_VERTEX_BLOCK);
    bool ok = true;
    ok &= (p->bucket = calloc(BUCKETS, sizeof *p->bucket)) != NULL;
    for (int i = 0; i < p->blocks.n_threads; i++)
        ok &= (p->lists[i] = malloc((p->ds.max_degree + 1) * sizeof *p->lists[i])) != NULL;
    for (int i = 0; i < 2; i++)
        ok &= (p->first[i] = calloc(n_blocks + 1, sizeof *p->first[i])) != NULL;
    return ok ? SL_OK : sl_fail(SL_ENOMEM, "%s: no memory for lists of neighbours", p->who);
}

static void release(struct pass *p)
{
    if (!p)
        return;
    for (int i = 0; i < SL_VERTEX_THREADS_MAX; i++)
        free(p->lists[i]);
    for (int i = 0; i < 2; i++)
        free(p->first[i]);
    free((void *)p->own);
    free((void *)p->bucket);
    free(p->places);
    sl_file_share_fini(&p->run->shared);
    sl_dataset_close(&p->ds);
    free(p);
}

// Opens the data set that is read.
static int open_pass(struct sl_edge_split *run, const char *source, struct sl_progress *progress,
                     const char *who, struct pass **out)
{
    struct pass *p = *out = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "%s: no memory", who);
    p->run = run;
    p->key = mix(run->seed + UINT64_C(0x9e3779b97f4a7c15));
    snprintf(p->who, sizeof p->who, "%s", who);
    SL_TRY(sl_dataset_open(source, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 0, &p->ds));
    sl_vertex_blocks_init(&p->blocks, sl_dataset_lists(&p->ds), run->n_threads, progress);
    return sl_edge_relation_find(&p->ds.typed, run->relation, who, &p->linked);
}

int sl_edge_split_run(struct sl_edge_split *run)
{
    struct pass *p;
    char who[512];
    int rc;
    snprintf(who, sizeof who, "split-edges %s", run->source);
    SL_TRY_OUT(open_pass(run, run->source, &run->making.progress, who, &p));
    p->st = &run->making.st;
    SL_TRY_OUT(check(p));
    SL_TRY_OUT(allocate(p));
    rc = sl_dataset_builder_run(&run->making, p, write_all, summarise);
out:
    release(p);
    return rc;
}

int sl_edge_split_in_place(struct sl_edge_split *run, const struct sl_staging *st,
                           struct sl_progress *progress, const char *who)
{
    struct pass *p;
    int rc;
    SL_TRY_OUT(open_pass(run, st->dir, progress, who, &p));
    p->st = st;
    p->in_place = true;
    SL_TRY_OUT(check(p));
    SL_TRY_OUT(allocate(p));
    SL_TRY_OUT(write_all(p));
    report(p);
out:
    release(p);
    return rc;
}
