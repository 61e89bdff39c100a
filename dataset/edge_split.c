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
 * limits are found by counting numbers by their high bits, and sorting those of the buckets that
 * the limits fall into.
 *
 * With keep_one the largest number of a vertex's pairs is its own: that pair stays.
 *
 * Memory: two words a vertex, one more with keep_one, and for each thread a list of neighbours. An
 * edge is read six times.
 */
#include "dataset/edge_split.h"

#include <dirent.h>
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
#include "common/text/units.h"
#include "dataset/metadata.h"
#include "dataset/pair_file.h"
#include "dataset/vertex_blocks.h"

enum { HIGH_BITS = 16, BUCKETS = 1 << HIGH_BITS };

const char *const sl_edge_split_pairs[] = {"auto", "undirected", "directed", NULL};

// Numbers of pairs up to `at` are of this split or the ones before it; none where `any` is false.
struct limit {
    bool any;
    uint64_t at;
};

struct pass {
    struct sl_edge_split *run;
    struct sl_dataset ds;
    struct sl_vertex_blocks blocks;
    uint64_t key;                           // of the seed
    uint32_t *lists[SL_VERTEX_THREADS_MAX]; // (max_degree) of each thread

    _Atomic uint64_t forward, backward; // sums over edges, and over their reverses
    _Atomic uint64_t *own;              // (n_nodes) largest number of a vertex's pairs, or NULL
    _Atomic uint64_t n_pairs;
    _Atomic uint64_t *bucket;     // (BUCKETS) pairs that may go, by the high bits of their number
    uint64_t n_gone[2];           // test, validation: wanted, and held out
    uint64_t borders[2];          // buckets of the two limits
    uint64_t *numbers, n_numbers; // pairs of these buckets
    _Atomic uint64_t next_number; //
    struct limit limits[2];       // test, validation
    int64_t *offsets;             // (n_nodes + 1) of the new graph
    uint64_t n_left;              // edges of it
    uint64_t *first[2];           // (blocks + 1) pairs of the lists before each block's
    uint32_t *out[2];             // (n_gone, 2)
    _Atomic uint64_t n_bare;      // vertices whose in-edges are all gone
    void *sources;                // of the new graph
    bool wide;                    // sources are int64
    const char *rows;             // of a file with a row an edge
    char *to;
    size_t row_bytes;
};

// ---- pairs --------------------------------------------------------------------------------------

// One-to-one: the finaliser of splitmix64.
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t number_of(const struct pass *p, uint64_t u, uint64_t v)
{
    if (p->run->undirected && u > v)
        return mix((v << 32 | u) ^ p->key);
    return mix((u << 32 | v) ^ p->key);
}

// Whether the pair of an edge u -> v stands in v's list, and not in u's.
static bool is_counted_here(const struct pass *p, uint64_t u, uint64_t v)
{
    return p->run->undirected ? u < v : u != v;
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

static bool may_go(const struct pass *p, uint64_t u, uint64_t v, uint64_t number)
{
    return !p->own || (p->own[u] != number && p->own[v] != number);
}

static enum sl_split split_of(const struct pass *p, uint64_t u, uint64_t v)
{
    if (u == v)
        return SL_SPLIT_TRAIN;
    const uint64_t number = number_of(p, u, v);
    const bool test = p->limits[0].any && number <= p->limits[0].at;
    const bool val = p->limits[1].any && number <= p->limits[1].at;
    if (!(test || val) || !may_go(p, u, v, number))
        return SL_SPLIT_TRAIN;
    return test ? SL_SPLIT_TEST : SL_SPLIT_VAL;
}

// ---- passes -------------------------------------------------------------------------------------

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

// Whether each edge has its reverse: sums of a number of each are equal then, and else by a chance
// of 2^-64.
static int compare_directions(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, sum[2] = {0};
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const uint64_t u = p->lists[thread][i];
                sum[0] += mix(mix(u << 32 | v) + p->key);
                sum[1] += mix(mix(v << 32 | u) + p->key);
            }
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

static int find_own(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const uint64_t u = p->lists[thread][i];
                if (!is_counted_here(p, u, v))
                    continue;
                raise(&p->own[u], number_of(p, u, v));
                raise(&p->own[v], number_of(p, u, v));
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
                const uint64_t u = p->lists[thread][i], number = number_of(p, u, v);
                if (!is_counted_here(p, u, v))
                    continue;
                n_pairs++;
                if (may_go(p, u, v, number))
                    add(&p->bucket[number >> (64 - HIGH_BITS)], 1);
            }
    add(&p->n_pairs, n_pairs);
    return SL_OK;
}

static int gather_numbers(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++)
            for (uint64_t i = 0, n = neighbours(p, v, p->lists[thread]); i < n; i++) {
                const uint64_t u = p->lists[thread][i], number = number_of(p, u, v);
                const uint64_t b = number >> (64 - HIGH_BITS);
                if ((b == p->borders[0] || b == p->borders[1]) && is_counted_here(p, u, v) &&
                    may_go(p, u, v, number))
                    p->numbers[atomic_fetch_add_explicit(&p->next_number, 1,
                                                         memory_order_relaxed)] = number;
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
                if (s != SL_SPLIT_TRAIN && is_counted_here(p, u, v))
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
    (void)thread;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t v = begin; v < end; v++) {
            char *to = p->to + (uint64_t)p->offsets[v] * bytes;
            for (uint64_t e = p->ds.indptr[v]; e < p->ds.indptr[v + 1]; e++)
                if (split_of(p, sl_dataset_source(&p->ds, e), v) == SL_SPLIT_TRAIN) {
                    memcpy(to, p->rows + e * bytes, bytes);
                    to += bytes;
                }
        }
    return SL_OK;
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
                if (s == SL_SPLIT_TRAIN || !is_counted_here(p, u, v))
                    continue;
                uint32_t *pair = p->out[s == SL_SPLIT_VAL] + 2 * at[s == SL_SPLIT_VAL]++;
                pair[0] = u;
                pair[1] = (uint32_t)v;
            }
    }
    return SL_OK;
}

// ---- which pairs --------------------------------------------------------------------------------

static int find_directions(struct pass *p)
{
    struct sl_edge_split *run = p->run;
    if (run->pairs == SL_EDGE_SPLIT_DIRECTED)
        return SL_OK;
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "directions", compare_directions, p));
    run->undirected = p->forward == p->backward;
    if (run->pairs == SL_EDGE_SPLIT_AUTO || run->undirected)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "split-edges %s: found edges without their reverse, wanted both of each with "
                   "--pairs undirected: take --pairs directed, or import the graph with "
                   "--symmetrise",
                   p->ds.path);
}

static int count(struct pass *p)
{
    const double n = (double)p->n_pairs, wanted[2] = {p->run->test, p->run->val};
    uint64_t may = 0;
    for (int b = 0; b < BUCKETS; b++)
        may += p->bucket[b];
    for (int i = 0; i < 2; i++)
        p->n_gone[i] = (uint64_t)llround(wanted[i] * n);
    const uint64_t sum = p->n_gone[0] + p->n_gone[1];
    if (sum == 0)
        return sl_fail(SL_EINVAL,
                       "split-edges %s: --val %g and --test %g of %s of vertices are none, wanted "
                       "one at least",
                       p->ds.path, p->run->val, p->run->test, SL_PLURAL(n, "pair"));
    if (sum > may)
        return sl_fail(SL_EINVAL,
                       "split-edges %s: --val %g and --test %g are %" PRIu64
                       " pairs, and with --keep-one %" PRIu64 " of %" PRIu64
                       " may go: take smaller shares, or leave --keep-one out",
                       p->ds.path, p->run->val, p->run->test, sum, may, (uint64_t)p->n_pairs);
    return SL_OK;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The bucket that the n-th smallest number is in; before: numbers in the buckets before it.
static uint64_t bucket_of(const struct pass *p, uint64_t n, uint64_t *before)
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
        p->borders[i] = bucket_of(p, SL_MAX(rank[i], (uint64_t)1), &before[i]);
    p->n_numbers = p->bucket[p->borders[0]];
    if (p->borders[1] != p->borders[0])
        p->n_numbers += p->bucket[p->borders[1]];
    p->numbers = malloc(p->n_numbers * sizeof *p->numbers);
    if (!p->numbers)
        return sl_fail(SL_ENOMEM, "split-edges %s: no memory for %" PRIu64 " pairs", p->ds.path,
                       p->n_numbers);
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "limits", gather_numbers, p));
    qsort(p->numbers, p->n_numbers, sizeof *p->numbers, by_number);
    for (int i = 0; i < 2; i++) {
        // Behind the first bucket's numbers, which are smaller, stand those of the second.
        at = p->borders[i] == p->borders[0] ? 0 : p->bucket[p->borders[0]];
        if (rank[i] > 0)
            p->limits[i] = (struct limit){true, p->numbers[at + rank[i] - before[i] - 1]};
    }
    p->limits[1].any &= p->n_gone[1] > 0;
    return SL_OK;
}

static int choose(struct pass *p)
{
    SL_TRY(find_directions(p));
    if (p->run->keep_one) {
        p->own = calloc(p->ds.n_nodes + 1, sizeof *p->own);
        if (!p->own)
            return sl_fail(SL_ENOMEM, "split-edges %s: no memory for a word a vertex", p->ds.path);
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
    return sl_npy_create_mapped(sl_staging_file(&p->run->making.st, name, path), dtype, ndim, shape,
                                w, data);
}

static int count_offsets(struct pass *p)
{
    const uint64_t n_blocks = sl_div_up(p->ds.n_nodes, SL_VERTEX_BLOCK);
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "edges left", count_left, p));
    for (uint64_t v = 0; v < p->ds.n_nodes; v++)
        p->offsets[v + 1] += p->offsets[v];
    p->n_left = (uint64_t)p->offsets[p->ds.n_nodes];
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
        rc = sl_pair_file_create(&p->run->making.st, splits[i], p->ds.n_nodes, p->n_gone[i], &w[i],
                                 &p->out[i]);
    if (rc == SL_OK)
        rc = sl_vertex_blocks_run(&p->blocks, "pairs held out", list_pairs, p);
    for (int i = 0; i < 2; i++)
        rc = sl_npy_writer_close(&w[i], rc);
    return rc;
}

// A file with a row for each edge of the graph.
static int write_rows(struct pass *p, const char *name, const struct sl_npy *from)
{
    struct sl_npy_writer *w;
    uint64_t shape[SL_NPY_MAX_DIMS];
    memcpy(shape, from->head.shape, sizeof shape);
    shape[0] = p->n_left;
    SL_TRY(create(p, name, from->head.dtype, from->head.ndim, shape, &w, &p->to));
    p->rows = from->data;
    p->row_bytes = from->head.data_bytes / SL_MAX(p->ds.n_edges, (uint64_t)1);
    return sl_npy_writer_close(&w, sl_vertex_blocks_run(&p->blocks, name, move_rows, p));
}

static int write_edge_file(struct pass *p, const char *name, const char *path)
{
    struct sl_npy npy;
    SL_TRY(sl_npy_open(path, &npy));
    int rc = SL_OK;
    if (npy.head.ndim >= 1 && npy.head.shape[0] == p->ds.n_edges)
        rc = write_rows(p, name, &npy);
    sl_npy_close(&npy);
    return rc;
}

// What this command writes anew, or what a user keeps beside the arrays.
static int is_shared(const struct dirent *e)
{
    static const char *const own[] = {"indptr.npy", "indices.npy", "train_edges.npy"};
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
    if (fnmatch("edge_*.npy", name, 0) == 0)
        return write_edge_file(p, name, from);
    return sl_file_share(&p->run->shared, from, sl_staging_file(&p->run->making.st, name, to));
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

// Files of stripes stay where they are: their paths become whole.
static void keep_stripes(const struct pass *p, cJSON *root)
{
    cJSON *list = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "feat_stripes"), "files");
    for (uint32_t i = 0; list && i < p->ds.files->stripes.n; i++)
        cJSON_ReplaceItemInArray(list, (int)i,
                                 cJSON_CreateString(p->ds.files->stripes.file[i].path));
}

static int write_metadata(struct pass *p)
{
    const struct sl_edge_split *run = p->run;
    cJSON *root = sl_metadata_read(p->ds.path);
    if (!root)
        return SL_EIO;
    keep_stripes(p, root);
    cJSON_DeleteItemFromObjectCaseSensitive(root, "name");
    cJSON_AddStringToObject(root, "name",
                            run->making.name ? run->making.name : run->making.st.name);
    cJSON_DeleteItemFromObjectCaseSensitive(root, "num_edges");
    cJSON_AddNumberToObject(root, "num_edges", (double)p->n_left);
    cJSON *split = cJSON_AddObjectToObject(root, "edge_split");
    cJSON_AddStringToObject(split, "of", p->ds.name);
    cJSON_AddStringToObject(split, "pairs", run->undirected ? "undirected" : "directed");
    cJSON_AddNumberToObject(split, "val", run->val);
    cJSON_AddNumberToObject(split, "test", run->test);
    cJSON_AddNumberToObject(split, "seed", (double)run->seed);
    cJSON_AddBoolToObject(split, "keep_one", run->keep_one);
    return sl_metadata_write(&run->making.st, root);
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
    const uint64_t n = p->ds.n_nodes + 1;
    SL_TRY(choose(p));
    SL_TRY(create(p, "indptr.npy", SL_DTYPE_I64, 1, &n, &w, &p->offsets));
    return sl_npy_writer_close(&w, write_graph(p));
}

static void summarise(void *context, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct pass *p = context;
    const double n = (double)SL_MAX((uint64_t)p->n_pairs, (uint64_t)1);
    sl_table_row(t, "pairs|%s of vertices that %s", sl_units_grouped(a, p->n_pairs),
                 p->run->undirected ? "edges join in both directions" : "an edge joins");
    sl_table_row(t, "validation|%s, %.2f %%", sl_units_grouped(a, p->n_gone[1]),
                 100 * (double)p->n_gone[1] / n);
    sl_table_row(t, "test|%s, %.2f %%", sl_units_grouped(a, p->n_gone[0]),
                 100 * (double)p->n_gone[0] / n);
    sl_table_row(t, "edges|%s of %s are left", sl_units_grouped(a, p->n_left),
                 sl_units_grouped(b, p->ds.n_edges));
    if (p->n_bare)
        sl_table_row(t, "|%s vertices lost all in-edges (--keep-one keeps one of each)",
                     sl_units_grouped(a, p->n_bare));
    if (p->run->shared.n_copied)
        sl_table_row(t, "files|%" PRIu64 " copied, as a link cannot be made: %s",
                     p->run->shared.n_copied, p->run->shared.why);
}

// ---- the command --------------------------------------------------------------------------------

static int check(const struct pass *p)
{
    const struct sl_edge_split *run = p->run;
    if (!(run->val >= 0 && run->test >= 0 && run->val + run->test < 1))
        return sl_fail(
            SL_EINVAL,
            "split-edges: --val %g and --test %g: wanted shares from 0, below 1 together", run->val,
            run->test);
    if (p->ds.edges[SL_SPLIT_VAL].ids || p->ds.edges[SL_SPLIT_TEST].ids)
        return sl_fail(SL_EINVAL,
                       "split-edges %s: has %s: its edges are held out already: split the data set "
                       "that it was made of",
                       p->ds.path,
                       p->ds.edges[SL_SPLIT_VAL].ids ? "val_edges.npy" : "test_edges.npy");
    return SL_OK;
}

static int allocate(struct pass *p)
{
    const uint64_t n_blocks = sl_div_up(p->ds.n_nodes, SL_VERTEX_BLOCK);
    bool ok = true;
    ok &= (p->bucket = calloc(BUCKETS, sizeof *p->bucket)) != NULL;
    for (int i = 0; i < p->blocks.n_threads; i++)
        ok &= (p->lists[i] = malloc((p->ds.max_degree + 1) * sizeof *p->lists[i])) != NULL;
    for (int i = 0; i < 2; i++)
        ok &= (p->first[i] = calloc(n_blocks + 1, sizeof *p->first[i])) != NULL;
    return ok ? SL_OK
              : sl_fail(SL_ENOMEM, "split-edges %s: no memory for lists of neighbours", p->ds.path);
}

static void release(struct pass *p)
{
    for (int i = 0; i < SL_VERTEX_THREADS_MAX; i++)
        free(p->lists[i]);
    for (int i = 0; i < 2; i++)
        free(p->first[i]);
    free((void *)p->own);
    free((void *)p->bucket);
    free(p->numbers);
    sl_file_share_fini(&p->run->shared);
    sl_dataset_close(&p->ds);
    free(p);
}

int sl_edge_split_run(struct sl_edge_split *run)
{
    struct pass *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "split-edges: no memory");
    p->run = run;
    p->key = mix(run->seed + UINT64_C(0x9e3779b97f4a7c15));
    int rc = sl_dataset_open(run->source, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 0, &p->ds);
    sl_vertex_blocks_init(&p->blocks, p->ds.n_nodes, run->n_threads, &run->making.progress);
    if (rc == SL_OK)
        rc = check(p);
    if (rc == SL_OK)
        rc = allocate(p);
    if (rc == SL_OK)
        rc = sl_dataset_builder_run(&run->making, p, write_all, summarise);
    release(p);
    return rc;
}
