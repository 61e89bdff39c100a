/*
 * Added edges are put into bins by their targets' rows, in the order of the list; then threads take
 * blocks of rows, first to sort a row's bin and to drop what is there already, which gives the
 * offsets, and then to write the rows. No two write the same row. Sums are added to shared counters
 * with relaxed atomics: only they matter, and the end of a pass orders them before reads.
 *
 * The file: offsets (sl_dataset_lists() + 1), 64 bits each, and behind them the sources in the data
 * set's type. The last offset says how many these are.
 */
#include "common/data/wider_graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/data/weightless.h"

enum { BLOCK_ROWS = 4096 };

static uint64_t n_blocks(const struct sl_dataset *ds)
{
    return sl_div_up(sl_dataset_lists(ds), BLOCK_ROWS);
}

static uint64_t block_end(const struct sl_dataset *ds, uint64_t block)
{
    return SL_MIN((block + 1) * BLOCK_ROWS, sl_dataset_lists(ds));
}

static int ascending(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

// Sorts a list and keeps each of it once; returns how many are left.
static uint64_t distinct(uint32_t *list, uint64_t n)
{
    uint64_t kept = 0, rises = 1;
    for (uint64_t i = 1; i < n; i++)
        rises &= list[i - 1] <= list[i];
    if (!rises)
        qsort(list, n, sizeof *list, ascending);
    for (uint64_t i = 0; i < n; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[kept++] = list[i];
    return kept;
}

static bool is_present(const struct sl_dataset *ds, uint64_t e)
{
    return !ds->present || ds->present[e] > 0.0f;
}

// ---- directions ---------------------------------------------------------------------------------

struct directions {
    const struct sl_dataset *ds;
    uint64_t end;     // of its rows
    uint64_t longest; // of them
    _Atomic uint64_t next, forward, backward;
};

// One-to-one: the finaliser of splitmix64.
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t number_of(uint64_t source, uint64_t target)
{
    return mix(mix(source << 32 | target) + UINT64_C(0x9e3779b97f4a7c15));
}

void sl_graph_add_directions(const struct sl_dataset *ds, uint64_t begin, uint64_t end,
                             uint32_t *list, uint64_t sums[2])
{
    for (uint64_t row = begin; row < end; row++) {
        const uint64_t v = sl_dataset_list_vertex(ds, row);
        uint64_t n = 0;
        for (uint64_t e = ds->indptr[row]; e < ds->indptr[row + 1]; e++)
            if (is_present(ds, e))
                list[n++] = sl_dataset_source(ds, e);
        n = distinct(list, n);
        for (uint64_t i = 0; i < n; i++) {
            sums[0] += number_of(list[i], v);
            sums[1] += number_of(v, list[i]);
        }
    }
}

static int compare_directions(void *ctx, int thread)
{
    struct directions *d = ctx;
    const struct sl_dataset *ds = d->ds;
    uint64_t sums[2] = {0}, row;
    uint32_t *list = malloc(SL_MAX(d->longest, (uint64_t)1) * sizeof *list);
    (void)thread;
    if (!list)
        return sl_fail(SL_ENOMEM, "data set %s: no memory for a list of %llu neighbours", ds->path,
                       (unsigned long long)d->longest);
    while ((row = atomic_fetch_add_explicit(&d->next, BLOCK_ROWS, memory_order_relaxed)) < d->end)
        sl_graph_add_directions(ds, row, SL_MIN(row + BLOCK_ROWS, d->end), list, sums);
    free(list);
    atomic_fetch_add_explicit(&d->forward, sums[0], memory_order_relaxed);
    atomic_fetch_add_explicit(&d->backward, sums[1], memory_order_relaxed);
    return SL_OK;
}

int sl_graph_is_both_ways(const struct sl_dataset *ds, int threads, bool *both_ways)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    uint64_t first = 0, n = ds->n_nodes;
    if (r) {
        const uint32_t reverse = sl_typed_reverse(&ds->typed, ds->typed.linked);
        *both_ways = reverse != SL_NO_RELATION;
        // Of one within a type of which nothing says so: as of a plain graph.
        if (reverse != ds->typed.linked || r->reverse_of != SL_NO_RELATION)
            return SL_OK;
        first = r->first_row;
        n = ds->typed.type[r->target].n;
    }
    struct directions d = {.ds = ds, .end = first + n, .next = first};
    for (uint64_t row = first; row < d.end; row++)
        d.longest = SL_MAX(d.longest, sl_dataset_degree(ds, row));
    SL_TRY(sl_threads_run(threads > 0 ? threads : sl_threads_default(), compare_directions, &d));
    *both_ways = atomic_load(&d.forward) == atomic_load(&d.backward);
    return SL_OK;
}

// ---- what is added ------------------------------------------------------------------------------

struct making {
    const struct sl_dataset *ds;
    uint64_t *bin;     // (rows + 1) where each row's added sources begin
    uint32_t *sources; // in bins; once a block is counted, those to be added stand first in each
    uint8_t *met;      // a byte for each of them
    uint64_t *indptr;  // (rows + 1) of the wider graph
    void *indices;
    uint64_t width; // bytes of a source there
    _Atomic uint64_t n_added;
};

// The ways in which an edge is added: to row v + shift of its target v; its reverse likewise.
struct ways {
    uint64_t n, shift[2];
};

static struct ways ways_of(const struct sl_dataset *ds, bool both_ways)
{
    const struct sl_typed *t = &ds->typed;
    struct ways w = {.n = both_ways ? 2 : 1};
    for (uint64_t i = 0; t->n_types && i < w.n; i++) {
        const uint32_t relation = i ? sl_typed_reverse(t, t->linked) : t->linked;
        w.shift[i] = sl_relation_row(t, &t->relation[relation], 0);
    }
    return w;
}

// Offsets of bins that are being filled: each rises to where the next one begins.
static void fill_bins(struct making *m, const struct sl_pair_list *edges, const struct ways *ways)
{
    const uint64_t n = edges->ids ? edges->n : 0;
    uint64_t *at = m->bin + 1; // bins move one row up as they are filled
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t way = 0; way < ways->n; way++)
            at[edges->ids[2 * i + 1 - way] + ways->shift[way]]++;
    uint64_t sum = 0;
    for (uint64_t row = 0; row < sl_dataset_lists(m->ds); row++) {
        const uint64_t here = at[row];
        at[row] = sum;
        sum += here;
    }
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t way = 0; way < ways->n; way++) {
            const uint64_t row = edges->ids[2 * i + 1 - way] + ways->shift[way];
            m->sources[at[row]++] = edges->ids[2 * i + way];
        }
}

// Takes out of a sorted list what the vertex has; met (n), all 0, is room for what is found.
// Returns how many are left.
static uint64_t drop_known(const struct sl_dataset *ds, uint64_t v, uint32_t *list, uint8_t *met,
                           uint64_t n)
{
    uint64_t left = 0;
    for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++) {
        const uint32_t u = sl_dataset_source(ds, e);
        const uint32_t *at = bsearch(&u, list, n, sizeof *list, ascending);
        if (at && is_present(ds, e))
            met[at - list] = 1;
    }
    for (uint64_t i = 0; i < n; i++)
        if (!met[i])
            list[left++] = list[i];
    return left;
}

static bool count_block(void *ctx, uint64_t block)
{
    struct making *m = ctx;
    uint64_t added = 0;
    for (uint64_t v = block * BLOCK_ROWS; v < block_end(m->ds, block); v++) {
        uint32_t *list = m->sources + m->bin[v];
        uint64_t n = m->bin[v + 1] - m->bin[v];
        if (n > 0)
            n = drop_known(m->ds, v, list, m->met + m->bin[v], distinct(list, n));
        m->indptr[v + 1] = sl_weightless_degree(m->ds, v) + n;
        added += n;
    }
    atomic_fetch_add_explicit(&m->n_added, added, memory_order_relaxed);
    return false;
}

// ---- what is written ----------------------------------------------------------------------------

static void put(const struct making *m, uint64_t at, uint32_t source)
{
    if (m->width == sizeof source)
        ((uint32_t *)m->indices)[at] = source;
    else
        ((uint64_t *)m->indices)[at] = source;
}

static void write_list(const struct making *m, uint64_t v)
{
    const struct sl_dataset *ds = m->ds;
    const uint64_t n = m->indptr[v + 1] - m->indptr[v] - sl_weightless_degree(ds, v);
    const uint32_t *more = m->sources + m->bin[v];
    uint64_t at = m->indptr[v], i = 0;
    if (n == 0 && !ds->present) {
        memcpy((char *)m->indices + at * m->width,
               (const char *)ds->indices + ds->indptr[v] * m->width,
               sl_dataset_degree(ds, v) * m->width);
        return;
    }
    for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++) {
        const uint32_t u = sl_dataset_source(ds, e);
        if (!is_present(ds, e))
            continue;
        for (; i < n && more[i] < u; i++)
            put(m, at++, more[i]);
        put(m, at++, u);
    }
    for (; i < n; i++)
        put(m, at++, more[i]);
}

static bool write_block(void *ctx, uint64_t block)
{
    const struct making *m = ctx;
    for (uint64_t v = block * BLOCK_ROWS; v < block_end(m->ds, block); v++)
        write_list(m, v);
    return false;
}

static uint64_t offsets_bytes(const struct sl_dataset *ds)
{
    return (sl_dataset_lists(ds) + 1) * sizeof *ds->indptr;
}

static int map_file(int fd, uint64_t bytes, int access, void **out)
{
    void *p = mmap(NULL, bytes, access, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "the graph with more edges: mapping %llu bytes",
                             (unsigned long long)bytes);
    *out = p;
    return SL_OK;
}

static int reserve(int fd, uint64_t from, uint64_t bytes, const char *advice)
{
    const int err = bytes ? posix_fallocate(fd, (off_t)from, (off_t)bytes) : 0;
    if (err == 0)
        return SL_OK;
    return sl_fail_errno(SL_EIO, err, "the graph with more edges: a file of %llu bytes: %s",
                         (unsigned long long)(from + bytes), advice);
}

// Offsets go where they are to lie at once, sources once their number is known.
static int write_file(struct making *m, int fd, int threads, const char *advice, uint64_t *bytes)
{
    const struct sl_dataset *ds = m->ds;
    const uint64_t head = offsets_bytes(ds), rows = sl_dataset_lists(ds);
    void *map = NULL;
    SL_TRY(reserve(fd, 0, head, advice));
    SL_TRY(map_file(fd, head, PROT_READ | PROT_WRITE, &map));
    m->indptr = map;
    sl_threads_first(n_blocks(ds), threads, count_block, m);
    for (uint64_t v = 0; v < rows; v++)
        m->indptr[v + 1] += m->indptr[v];
    *bytes = head + m->indptr[rows] * m->width;
    munmap(map, head);
    SL_TRY(reserve(fd, head, *bytes - head, advice));
    SL_TRY(map_file(fd, *bytes, PROT_READ | PROT_WRITE, &map));
    m->indptr = map;
    m->indices = (char *)map + head;
    sl_threads_first(n_blocks(ds), threads, write_block, m);
    munmap(map, *bytes);
    return SL_OK;
}

int sl_wider_graph_make(int fd, const struct sl_dataset *ds, const struct sl_pair_list *edges,
                        int threads, const char *advice, struct sl_wider_found *found)
{
    struct making m = {.ds = ds, .width = sl_dtype_bytes(ds->indices_dtype)};
    int rc = SL_OK;
    *found = (struct sl_wider_found){0};
    SL_TRY(sl_graph_is_both_ways(ds, threads, &found->both_ways));
    const struct ways ways = ways_of(ds, found->both_ways);
    const uint64_t most = (edges->ids ? edges->n : 0) * ways.n, rows = sl_dataset_lists(ds);
    m.bin = calloc(rows + 1, sizeof *m.bin);
    m.sources = malloc(SL_MAX(most, (uint64_t)1) * sizeof *m.sources);
    m.met = calloc(SL_MAX(most, (uint64_t)1), sizeof *m.met);
    if (!m.bin || !m.sources || !m.met)
        SL_TRY_OUT(sl_fail(SL_ENOMEM,
                           "the graph with more edges: no memory for %llu lists and %llu edges",
                           (unsigned long long)rows, (unsigned long long)most));
    fill_bins(&m, edges, &ways);
    SL_TRY_OUT(write_file(&m, fd, threads, advice, &found->bytes));
    found->n_added = atomic_load(&m.n_added);
out:
    free(m.bin);
    free(m.sources);
    free(m.met);
    return rc;
}

uint64_t sl_wider_graph_bytes(const struct sl_dataset *ds, const struct sl_pair_list *edges)
{
    return offsets_bytes(ds) + (ds->n_edges + 2 * edges->n) * sl_dtype_bytes(ds->indices_dtype);
}

// ---- what is read -------------------------------------------------------------------------------

static bool has_loop(const struct sl_pair_list *edges)
{
    uint64_t loops = 0;
    for (uint64_t i = 0; edges->ids && i < edges->n; i++)
        loops += edges->ids[2 * i] == edges->ids[2 * i + 1];
    return loops > 0;
}

// Where the edges of each relation are.
static int find_relations(struct sl_wider_graph *g)
{
    struct sl_typed *t = &g->dataset.typed;
    if (t->n_types == 0)
        return SL_OK;
    g->relation = malloc(t->n_relations * sizeof *g->relation);
    if (!g->relation)
        return sl_fail(SL_ENOMEM, "no memory for %u relations", t->n_relations);
    for (uint32_t r = 0; r < t->n_relations; r++) {
        struct sl_relation *of = &g->relation[r];
        *of = t->relation[r];
        of->first_edge = g->dataset.indptr[of->first_row];
        of->n_edges = g->dataset.indptr[of->first_row + t->type[of->target].n] - of->first_edge;
        of->time = NULL; // nobody knows those of added edges
    }
    t->relation = g->relation;
    return SL_OK;
}

int sl_wider_graph_open(int fd, const struct sl_dataset *ds, const struct sl_pair_list *edges,
                        struct sl_wider_graph *out)
{
    const uint64_t head = offsets_bytes(ds), width = sl_dtype_bytes(ds->indices_dtype);
    struct stat st;
    *out = (struct sl_wider_graph){0};
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < head)
        return sl_fail(SL_EPROTO, "the graph with more edges: no offsets of %llu lists",
                       (unsigned long long)sl_dataset_lists(ds));
    SL_TRY(map_file(fd, (uint64_t)st.st_size, PROT_READ, &out->map));
    out->bytes = (uint64_t)st.st_size;
    struct sl_dataset *g = &out->dataset;
    *g = *ds;
    g->indptr = out->map;
    g->indices = (const char *)out->map + head;
    g->n_edges = g->indptr[sl_dataset_lists(ds)];
    g->max_degree = UINT64_MAX; // nobody has looked
    g->loop_free = ds->loop_free && !has_loop(edges);
    // Edges of weight 0 that were to be left out are.
    g->edge_weight = g->present = NULL;
    g->present_degree = NULL;
    g->weightless_edges = g->weightless_vertices = 0;
    const uint64_t bytes = out->bytes;
    const int rc =
        bytes == head + g->n_edges * width
            ? find_relations(out)
            : sl_fail(SL_EPROTO, "the graph with more edges: found %llu bytes of another graph",
                      (unsigned long long)bytes);
    if (rc < 0)
        sl_wider_graph_close(out);
    return rc;
}

void sl_wider_graph_close(struct sl_wider_graph *g)
{
    if (g->map)
        munmap(g->map, g->bytes);
    free(g->relation);
    *g = (struct sl_wider_graph){0};
}
