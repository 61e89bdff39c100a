/*
 * An external merge sort.
 *
 * Each lane has a buffer for as many edges as its share of the memory allows, and a scratch buffer
 * as large. A full lane sorts itself (radix sort, in the thread that fills it) and appends the
 * result to the spill file as a run. At the end the runs, or the lanes themselves when nothing was
 * ever spilled, are merged by a tournament tree.
 *
 *   add -> lane buffer -> radix sort -> run in the file  \
 *                              \                          >  tournament tree -> next
 *                               `-> lane (all fitted)    /
 *
 * Why not buckets of destinations: the vertices of an import are not known before its end, and a
 * hub can have more in-edges than the memory holds. Sorted runs need neither to be known, and
 * nothing here is proportional to the number of vertices.
 *
 * Invariants: runs are listed in the order in which they were added to the file, and the tree
 * prefers the earlier source among equal keys, so the sort is stable for one lane. When there are
 * more runs than can be merged at once, groups of neighbours are merged into longer runs first,
 * which keeps that order. UINT64_MAX is never a key (vertex ids are below 2^32 - 1): it marks an
 * exhausted source.
 */
#include "dataset/edge_sort.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/mempool.h"
#include "common/base/threads.h"
#include "dataset/spill.h"
#include "common/text/units.h"

enum {
    OUT_EDGES = 16384,        // edges handed out at a time
    MIN_SOURCE_EDGES = 1024,  // of one run in memory while merging
    MAX_SOURCE_EDGES = 65536, // more does not make reading quicker
    MAX_FAN_IN = 4096,
};

struct lane {
    struct sl_radix_array data, scratch; // (capacity)
    size_t n;
};

// A sorted run in the file: n keys, and behind them n weights.
struct run {
    uint64_t offset;
    uint64_t n;
};

// What a merge reads from: a run through a buffer, or a lane in memory.
struct source {
    struct sl_radix_array buffer;
    size_t n, at;    // in the buffer
    struct run run;  // what the file still holds after the buffer
    uint64_t left;   // of the run, after the buffer
    size_t capacity; // of the buffer; 0 for a lane
};

struct merge {
    struct source *sources; // (n_sources)
    uint32_t n_sources;
    uint32_t n_leaves; // n_sources rounded up to a power of two
    uint64_t *heads;   // (n_leaves) smallest key of each source
    uint32_t *losers;  // (n_leaves) losers[0] is the winner
    void *memory;      // all buffers of the sources
    size_t memory_bytes;
};

struct sl_edge_sort {
    uint64_t memory_bytes;
    bool weighted;
    int n_lanes;
    size_t lane_capacity;
    struct lane *lanes;
    void *lane_memory;
    size_t lane_memory_bytes;

    pthread_mutex_t lock; // guards reservations in the file, and runs
    struct sl_spill spill;
    struct run *runs;
    size_t n_runs, runs_capacity;

    bool spilling; // while finishing: some run is in the file, so all go there
    bool finished;
    struct merge merge;
    struct sl_radix_array out; // (OUT_EDGES)
    struct sl_edge_sort_stats stats;
    _Atomic uint64_t n_added;
};

static size_t edge_bytes(bool weighted)
{
    return sizeof(uint64_t) + (weighted ? sizeof(float) : 0);
}

// Cuts an array for n edges out of *memory.
static struct sl_radix_array carve(char **memory, size_t n, bool weighted)
{
    struct sl_radix_array a = {.keys = (uint64_t *)(void *)*memory};
    *memory += n * sizeof(uint64_t);
    if (weighted) {
        a.values = (float *)(void *)*memory;
        *memory += n * sizeof(float);
    }
    return a;
}

// ---- life ---------------------------------------------------------------------------------------

int sl_edge_sort_create(const char *dir, uint64_t memory_bytes, int n_lanes, bool weighted,
                        struct sl_edge_sort **out)
{
    *out = NULL;
    struct sl_edge_sort *s = calloc(1, sizeof *s);
    if (!s)
        return sl_fail(SL_ENOMEM, "sort edges: no memory");
    pthread_mutex_init(&s->lock, NULL);
    // A bound that the machine (or a container) cannot hold would end in the OOM killer; sorting
    // with less gives the same result.
    uint64_t most = sl_device_memory_available() / 4 * 3;
    s->memory_bytes = SL_MAX(SL_MIN(memory_bytes, most), (uint64_t)SL_EDGE_SORT_MIN_BYTES);
    s->weighted = weighted;
    s->n_lanes = n_lanes;
    int rc = sl_spill_init(&s->spill, dir, "sort edges");
    s->lanes = calloc((size_t)n_lanes, sizeof *s->lanes);

    // Multiples of 16 edges keep every array aligned to a cache line.
    size_t per_lane = (size_t)(s->memory_bytes / 16 * 15 / (uint64_t)n_lanes);
    s->lane_capacity = SL_MAX(per_lane / (2 * edge_bytes(weighted)), (size_t)256) / 16 * 16;
    s->lane_memory_bytes = s->lane_capacity * 2 * edge_bytes(weighted) * (size_t)n_lanes;
    s->lane_memory = sl_pages_alloc(s->lane_memory_bytes);
    if (rc < 0 || !s->lanes || !s->lane_memory) {
        char text[SL_UNITS_BYTES];
        sl_edge_sort_destroy(s);
        return sl_fail(SL_ENOMEM, "sort edges: no %s of memory: give a smaller --memory",
                       sl_units_bytes(text, memory_bytes));
    }
    char *p = s->lane_memory;
    for (int i = 0; i < n_lanes; i++) {
        s->lanes[i].data = carve(&p, s->lane_capacity, weighted);
        s->lanes[i].scratch = carve(&p, s->lane_capacity, weighted);
    }
    *out = s;
    return SL_OK;
}

static void merge_fini(struct merge *m)
{
    free(m->sources);
    free(m->heads);
    free(m->losers);
    sl_pages_free(m->memory, m->memory_bytes);
    memset(m, 0, sizeof *m);
}

void sl_edge_sort_destroy(struct sl_edge_sort *s)
{
    if (!s)
        return;
    merge_fini(&s->merge);
    sl_pages_free(s->lane_memory, s->lane_memory_bytes);
    sl_spill_fini(&s->spill);
    free(s->out.keys);
    free(s->out.values);
    free(s->runs);
    free(s->lanes);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

// ---- runs ---------------------------------------------------------------------------------------

// Room for a run of n edges at the end of the file.
static int reserve_run(struct sl_edge_sort *s, uint64_t n, struct run *out)
{
    out->n = n;
    return sl_spill_reserve(&s->spill, n * edge_bytes(s->weighted), &out->offset);
}

static int write_edges(struct sl_edge_sort *s, const struct run *run, uint64_t first,
                       const uint64_t *keys, const float *weights, size_t n)
{
    SL_TRY(sl_spill_write(&s->spill, keys, n * sizeof *keys, run->offset + first * sizeof *keys));
    if (s->weighted)
        SL_TRY(sl_spill_write(&s->spill, weights, n * sizeof *weights,
                              run->offset + run->n * sizeof *keys + first * sizeof *weights));
    return SL_OK;
}

// Adds a complete run to the list.
static int list_run(struct sl_edge_sort *s, struct run run)
{
    if (s->n_runs == s->runs_capacity) {
        size_t capacity = SL_MAX(s->runs_capacity * 2, (size_t)64);
        struct run *runs = realloc(s->runs, capacity * sizeof *runs);
        if (!runs)
            return sl_fail(SL_ENOMEM, "sort edges: no memory for %zu runs", capacity);
        s->runs = runs;
        s->runs_capacity = capacity;
    }
    s->runs[s->n_runs++] = run;
    return SL_OK;
}

// ---- lanes --------------------------------------------------------------------------------------

static int spill_lane(struct sl_edge_sort *s, struct lane *lane)
{
    struct run run;
    sl_radix_sort(&lane->data, &lane->scratch, lane->n);
    pthread_mutex_lock(&s->lock);
    int rc = reserve_run(s, lane->n, &run);
    pthread_mutex_unlock(&s->lock);
    SL_TRY(rc);
    SL_TRY(write_edges(s, &run, 0, lane->data.keys, lane->data.values, lane->n));
    pthread_mutex_lock(&s->lock);
    rc = list_run(s, run);
    pthread_mutex_unlock(&s->lock);
    SL_TRY(rc);
    lane->n = 0;
    return SL_OK;
}

int sl_edge_sort_add(struct sl_edge_sort *s, int number, const uint64_t *keys, const float *weights,
                     size_t n)
{
    struct lane *lane = &s->lanes[number];
    atomic_fetch_add_explicit(&s->n_added, n, memory_order_relaxed);
    while (n > 0) {
        if (lane->n == s->lane_capacity)
            SL_TRY(spill_lane(s, lane));
        size_t take = SL_MIN(n, s->lane_capacity - lane->n);
        memcpy(lane->data.keys + lane->n, keys, take * sizeof *keys);
        if (s->weighted) {
            memcpy(lane->data.values + lane->n, weights, take * sizeof *weights);
            weights += take;
        }
        keys += take;
        lane->n += take;
        n -= take;
    }
    return SL_OK;
}

static int finish_lane(void *context, int number)
{
    struct sl_edge_sort *s = context;
    struct lane *lane = &s->lanes[number];
    if (lane->n == 0)
        return SL_OK;
    if (s->spilling)
        return spill_lane(s, lane);
    sl_radix_sort(&lane->data, &lane->scratch, lane->n);
    return SL_OK;
}

// ---- merging ------------------------------------------------------------------------------------

// The next part of a source into its buffer; leaves n == 0 at its end.
static int refill(struct sl_edge_sort *s, struct source *src)
{
    src->at = 0;
    src->n = (size_t)SL_MIN(src->left, (uint64_t)src->capacity);
    if (src->n == 0)
        return SL_OK;
    uint64_t first = src->run.n - src->left;
    SL_TRY(sl_spill_read(&s->spill, src->buffer.keys, src->n * sizeof(uint64_t),
                         src->run.offset + first * sizeof(uint64_t)));
    if (s->weighted)
        SL_TRY(
            sl_spill_read(&s->spill, src->buffer.values, src->n * sizeof(float),
                          src->run.offset + src->run.n * sizeof(uint64_t) + first * sizeof(float)));
    src->left -= src->n;
    return SL_OK;
}

static int load_head(struct sl_edge_sort *s, struct merge *m, uint32_t i)
{
    struct source *src = &m->sources[i];
    if (src->at == src->n)
        SL_TRY(refill(s, src));
    m->heads[i] = src->n ? src->buffer.keys[src->at] : UINT64_MAX;
    return SL_OK;
}

static bool before(const struct merge *m, uint32_t a, uint32_t b)
{
    return m->heads[a] < m->heads[b] || (m->heads[a] == m->heads[b] && a < b);
}

// Plays the whole tournament below `node`; returns its winner and leaves the losers in the tree.
static uint32_t play(struct merge *m, uint32_t node)
{
    if (node >= m->n_leaves)
        return node - m->n_leaves;
    uint32_t a = play(m, 2 * node), b = play(m, 2 * node + 1);
    uint32_t winner = before(m, a, b) ? a : b;
    m->losers[node] = winner == a ? b : a;
    return winner;
}

static int merge_alloc(struct merge *m, uint32_t n_sources)
{
    memset(m, 0, sizeof *m);
    m->n_sources = n_sources;
    m->n_leaves = (uint32_t)sl_pow2_at_least(n_sources);
    m->sources = calloc(m->n_leaves, sizeof *m->sources);
    m->heads = calloc(m->n_leaves, sizeof *m->heads);
    m->losers = calloc(m->n_leaves, sizeof *m->losers);
    if (!m->sources || !m->heads || !m->losers)
        return sl_fail(SL_ENOMEM, "sort edges: no memory to merge %u runs", n_sources);
    return SL_OK;
}

static int merge_start(struct sl_edge_sort *s, struct merge *m)
{
    for (uint32_t i = 0; i < m->n_leaves; i++) {
        m->heads[i] = UINT64_MAX;
        if (i < m->n_sources)
            SL_TRY(load_head(s, m, i));
    }
    m->losers[0] = play(m, 1);
    return SL_OK;
}

// Lanes that were never spilled, merged where they lie.
static int merge_open_lanes(struct sl_edge_sort *s, struct merge *m)
{
    SL_TRY(merge_alloc(m, (uint32_t)s->n_lanes));
    for (int i = 0; i < s->n_lanes; i++) {
        m->sources[i].buffer = s->lanes[i].data;
        m->sources[i].n = s->lanes[i].n;
    }
    return merge_start(s, m);
}

static int merge_open_runs(struct sl_edge_sort *s, struct merge *m, const struct run *runs,
                           size_t n_runs)
{
    SL_TRY(merge_alloc(m, (uint32_t)n_runs));
    uint64_t share = s->memory_bytes / 2 / n_runs / edge_bytes(s->weighted);
    size_t capacity =
        (size_t)SL_MAX(SL_MIN(share, (uint64_t)MAX_SOURCE_EDGES), (uint64_t)MIN_SOURCE_EDGES);
    capacity = capacity / 16 * 16;
    m->memory_bytes = n_runs * capacity * edge_bytes(s->weighted);
    m->memory = sl_pages_alloc(m->memory_bytes);
    if (!m->memory)
        return sl_fail(SL_ENOMEM, "sort edges: no memory to merge %zu runs", n_runs);
    char *p = m->memory;
    for (size_t i = 0; i < n_runs; i++) {
        struct source *src = &m->sources[i];
        src->buffer = carve(&p, capacity, s->weighted);
        src->capacity = capacity;
        src->run = runs[i];
        src->left = runs[i].n;
    }
    return merge_start(s, m);
}

// Up to OUT_EDGES edges into s->out.
static int merge_next(struct sl_edge_sort *s, struct merge *m, size_t *n)
{
    *n = 0;
    while (*n < OUT_EDGES) {
        uint32_t winner = m->losers[0];
        uint64_t key = m->heads[winner];
        if (key == UINT64_MAX)
            break;
        struct source *src = &m->sources[winner];
        s->out.keys[*n] = key;
        if (s->weighted)
            s->out.values[*n] = src->buffer.values[src->at];
        ++*n;
        src->at++;
        if (src->at < src->n)
            m->heads[winner] = src->buffer.keys[src->at];
        else
            SL_TRY(load_head(s, m, winner));
        for (uint32_t node = (winner + m->n_leaves) / 2; node >= 1; node /= 2) {
            uint32_t other = m->losers[node];
            if (before(m, other, winner)) {
                m->losers[node] = winner;
                winner = other;
            }
        }
        m->losers[0] = winner;
    }
    return SL_OK;
}

// Merges runs[0..n) into one new run.
static int combine_runs(struct sl_edge_sort *s, const struct run *runs, size_t n, struct run *out)
{
    struct merge m;
    uint64_t total = 0, at = 0;
    size_t got;
    for (size_t i = 0; i < n; i++)
        total += runs[i].n;
    int rc;
    SL_TRY_OUT(merge_open_runs(s, &m, runs, n));
    SL_TRY_OUT(reserve_run(s, total, out));
    for (;;) {
        SL_TRY_OUT(merge_next(s, &m, &got));
        if (got == 0)
            break;
        SL_TRY_OUT(write_edges(s, out, at, s->out.keys, s->out.values, got));
        at += got;
    }
    for (size_t i = 0; i < n; i++)
        sl_spill_release(&s->spill, runs[i].offset, runs[i].n * edge_bytes(s->weighted));
out:
    merge_fini(&m);
    return rc;
}

static int reduce_runs(struct sl_edge_sort *s)
{
    uint64_t n_buffers = s->memory_bytes / 2 / (MIN_SOURCE_EDGES * edge_bytes(s->weighted));
    size_t fan_in = (size_t)SL_MAX(SL_MIN(n_buffers, (uint64_t)MAX_FAN_IN), (uint64_t)2);
    while (s->n_runs > fan_in) {
        size_t kept = 0;
        for (size_t i = 0; i < s->n_runs; i += fan_in) {
            struct run run;
            size_t n = SL_MIN(fan_in, s->n_runs - i);
            if (n == 1)
                run = s->runs[i];
            else
                SL_TRY(combine_runs(s, s->runs + i, n, &run));
            s->runs[kept++] = run;
        }
        s->n_runs = kept;
    }
    return SL_OK;
}

int sl_edge_sort_finish(struct sl_edge_sort *s)
{
    s->spilling = s->n_runs > 0;
    SL_TRY(sl_threads_run(s->n_lanes, finish_lane, s));
    s->stats.n_edges = s->n_added;
    s->stats.n_runs = s->n_runs;
    s->out.keys = malloc(OUT_EDGES * sizeof *s->out.keys);
    s->out.values = s->weighted ? malloc(OUT_EDGES * sizeof *s->out.values) : NULL;
    if (!s->out.keys || (s->weighted && !s->out.values))
        return sl_fail(SL_ENOMEM, "sort edges: no memory");
    if (s->n_runs == 0) {
        SL_TRY(merge_open_lanes(s, &s->merge));
    } else {
        sl_pages_free(s->lane_memory, s->lane_memory_bytes);
        s->lane_memory = NULL;
        SL_TRY(reduce_runs(s));
        SL_TRY(merge_open_runs(s, &s->merge, s->runs, s->n_runs));
    }
    s->stats.spill_bytes = s->spill.bytes;
    s->finished = true;
    return SL_OK;
}

int sl_edge_sort_next(struct sl_edge_sort *s, const uint64_t **keys, const float **weights,
                      size_t *n)
{
    *n = 0;
    if (!s->finished)
        return sl_fail(SL_EINVAL, "sort edges: edges taken before the sort was finished");
    SL_TRY(merge_next(s, &s->merge, n));
    *keys = s->out.keys;
    if (weights)
        *weights = s->out.values;
    return SL_OK;
}

void sl_edge_sort_get_stats(const struct sl_edge_sort *s, struct sl_edge_sort_stats *out)
{
    *out = s->stats;
}

// --- radix sort ----------------------------------------------------------------------------------

enum { DIGITS = 8, BINS = 256 };

static void scatter(const struct sl_radix_array *from, struct sl_radix_array *to, size_t n,
                    unsigned shift, size_t *at)
{
    if (from->values) {
        for (size_t i = 0; i < n; i++) {
            size_t to_index = at[from->keys[i] >> shift & 0xff]++;
            to->keys[to_index] = from->keys[i];
            to->values[to_index] = from->values[i];
        }
        return;
    }
    for (size_t i = 0; i < n; i++)
        to->keys[at[from->keys[i] >> shift & 0xff]++] = from->keys[i];
}

void sl_radix_sort(struct sl_radix_array *data, struct sl_radix_array *scratch, size_t n)
{
    size_t counts[DIGITS][BINS];
    memset(counts, 0, sizeof counts);
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = data->keys[i];
        sorted = sorted && (i == 0 || data->keys[i - 1] <= key);
        for (unsigned d = 0; d < DIGITS; d++)
            counts[d][key >> (8 * d) & 0xff]++;
    }
    if (sorted)
        return;
    for (unsigned d = 0; d < DIGITS; d++) {
        size_t *at = counts[d];
        if (at[data->keys[0] >> (8 * d) & 0xff] == n)
            continue; // one bin holds everything
        size_t sum = 0;
        for (size_t b = 0; b < BINS; b++) {
            size_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        scatter(data, scratch, n, 8 * d, at);
        struct sl_radix_array swap = *data;
        *data = *scratch;
        *scratch = swap;
    }
}

// --- edge sink -----------------------------------------------------------------------------------

int sl_edge_sink_flush(struct sl_edge_sink *in)
{
    size_t n = in->n;
    int lane = in->lane;
    in->n = 0;
    in->lane = (lane + 1) % in->n_lanes;
    return sl_edge_sort_add(in->sort, lane, in->keys, in->weighted ? in->weights : NULL, n);
}
