/*
 * exclusion.c - finds a batch's target edges in its vertices' lists (struct sl_excluded).
 *
 * PROBLEM. A batch has some thousand pairs, and the lists that their edges stand in are those of
 * hubs more often than of others: a hub has many edges, any of which may be a target.
 *
 * DESIGN. Sources are gathered by row with a counting sort, each row's are sorted and looked for:
 *
 *     lists rise       binary searches of many sources side by side (rising.h), whatever their
 *                      rows; all copies of an edge stand in one place
 *     lists do not     one pass over the list: in blocks, a vector comparison for each of a few
 *                      sources, or a bit map of hashes for many. The rare hits are looked up
 *
 * Offsets, and the middle of a list, are asked for some rows ahead.
 */
#include "kernels/exclusion.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "common/base/rising.h"
#include "common/base/simd.h"
#include "kernels/idmap_internal.h"
#include "kernels/khop_internal.h"

enum {
    ROWS_AHEAD = 32,  // offsets that are asked for; lists half as far
    BLOCK = 128,      // neighbours that are compared at once
    PLACES = 1024,    // room at first
    FEW = 16,         // sources that are compared one by one
    FILTER_BITS = 16, // of a source's hash
};

// What is looked for in one list.
struct search {
    const struct sl_topology_view *topology;
    uint32_t row;
    uint64_t first;   // edge of the list
    uint32_t degree;  // neighbours there
    uint32_t *source; // (n) rising
    uint32_t n;
};

// Searches that wait for one another, of different rows.
struct wave {
    uint32_t n;
    uint32_t row[SL_RISING_LANES];
    uint64_t first[SL_RISING_LANES], end[SL_RISING_LANES]; // of the list
    struct sl_rising rising;
};

void sl_exclusion_fini(struct sl_exclusion *x)
{
    sl_pages_free(x->scratch, x->scratch_bytes);
    sl_pages_free(x->place, x->capacity * sizeof *x->place);
    *x = (struct sl_exclusion){0};
}

// One more of the row, which is the last one that has any.
static int add_place(struct sl_exclusion *x, uint32_t row, uint32_t place)
{
    if (x->n == x->capacity) {
        const uint64_t capacity = SL_MAX(2 * x->capacity, (uint64_t)PLACES);
        uint32_t *fresh = x->n < UINT32_MAX - SL_KHOP_FANOUT_MAX
                              ? sl_pages_alloc(capacity * sizeof *fresh)
                              : NULL;
        if (!fresh)
            return sl_fail(SL_ENOMEM, "sampling: no memory for %" PRIu64 " excluded edges",
                           capacity);
        if (x->n > 0)
            memcpy(fresh, x->place, x->n * sizeof *fresh);
        sl_pages_free(x->place, x->capacity * sizeof *x->place);
        x->place = fresh;
        x->capacity = capacity;
    }
    x->place[x->n++] = place;
    ((uint32_t *)x->scratch)[row + 1]++; // of rows.offsets
    return SL_OK;
}

// ---- sources by row -----------------------------------------------------------------------------

struct rows {
    uint32_t *offsets; // (n_rows + 1) of struct sl_excluded
    uint32_t *start;   // (n_rows + 2) of each row's sources
    uint32_t *source;
};

static int take_scratch(struct sl_exclusion *x, uint64_t n_rows, uint64_t n_sources,
                        struct rows *out)
{
    const uint64_t bytes = (2 * n_rows + 3 + n_sources) * sizeof(uint32_t);
    if (x->scratch_bytes < bytes) {
        void *fresh = sl_pages_alloc(bytes + bytes / 4);
        if (!fresh)
            return sl_fail(SL_ENOMEM, "sampling: no memory for %" PRIu64 " edges to exclude",
                           n_sources);
        sl_pages_free(x->scratch, x->scratch_bytes);
        x->scratch = fresh;
        x->scratch_bytes = bytes + bytes / 4;
    }
    out->offsets = x->scratch;
    out->start = out->offsets + n_rows + 1;
    out->source = out->start + n_rows + 2;
    memset(x->scratch, 0, (2 * n_rows + 3) * sizeof(uint32_t));
    return SL_OK;
}

static int check_pairs(const struct sl_target_edges *targets, uint32_t n_rows)
{
    if (targets->n > UINT32_MAX / 2)
        return sl_fail(SL_EINVAL, "excluding edges: %" PRIu64 " pairs, wanted at most %u",
                       targets->n, UINT32_MAX / 2);
    for (uint64_t i = 0; i < 2 * targets->n; i++)
        if (targets->pairs[i] >= n_rows)
            return sl_fail(SL_EINVAL,
                           "excluding edges: an end of pair %" PRIu64
                           " has the local id %u, wanted one of the %u seeds'",
                           i / 2, targets->pairs[i], n_rows);
    return SL_OK;
}

// An edge's source stands in the row of its destination.
static void gather_sources(const struct sl_target_edges *targets, const uint32_t *nodes,
                           uint32_t n_rows, struct rows *rows)
{
    const uint32_t *pairs = targets->pairs;
    for (uint64_t i = 0; i < targets->n; i++) {
        rows->start[pairs[2 * i + !targets->swapped] + 2]++;
        rows->start[pairs[2 * i + targets->swapped] + 2] += targets->reverse;
    }
    for (uint32_t row = 0; row < n_rows; row++)
        rows->start[row + 2] += rows->start[row + 1];
    // start[row + 1] is where the row's next one goes, and so in the end where they end.
    for (uint64_t i = 0; i < targets->n; i++) {
        const uint32_t u = pairs[2 * i + targets->swapped], v = pairs[2 * i + !targets->swapped];
        rows->source[rows->start[v + 1]++] = nodes[u];
        if (targets->reverse)
            rows->source[rows->start[u + 1]++] = nodes[v];
    }
}

// By shrinking steps (Shell's): in most rows there are one or two.
static void sort(uint32_t *v, uint32_t n)
{
    uint32_t gap = 1;
    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            const uint32_t x = v[i];
            uint32_t j = i;
            for (; j >= gap && v[j - gap] > x; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
}

// ---- search -------------------------------------------------------------------------------------

static bool is_wide(const struct sl_topology_view *t)
{
    return sl_dtype_bytes(t->indices_dtype) == sizeof(uint64_t);
}

static uint32_t neighbour(const struct search *s, uint32_t place)
{
    const uint64_t e = s->first + place;
    return is_wide(s->topology) ? (uint32_t)((const uint64_t *)s->topology->indices)[e]
                                : ((const uint32_t *)s->topology->indices)[e];
}

static int find_wave(struct sl_exclusion *x, struct wave *w)
{
    sl_rising_find(&w->rising, w->n);
    for (uint32_t i = 0; i < w->n; i++)
        for (uint64_t e = w->rising.at[i];
             e < w->end[i] && sl_rising_id(&w->rising, e) == w->rising.key[i]; e++)
            SL_TRY(add_place(x, w->row[i], (uint32_t)(e - w->first[i])));
    w->n = 0;
    return SL_OK;
}

static int search_rising(struct sl_exclusion *x, const struct search *s, struct wave *w)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (i > 0 && s->source[i] == s->source[i - 1])
            continue;
        const uint32_t lane = w->n++;
        w->row[lane] = s->row;
        w->rising.at[lane] = w->first[lane] = s->first;
        w->rising.n[lane] = s->degree;
        w->end[lane] = s->first + s->degree;
        w->rising.key[lane] = s->source[i];
        if (w->n == SL_RISING_LANES)
            SL_TRY(find_wave(x, w));
    }
    return SL_OK;
}

SL_SIMD(bool, any_of32, (const uint32_t *v, uint32_t n, const uint32_t *wanted, uint32_t n_wanted),
        (v, n, wanted, n_wanted))
{
    uint32_t found = 0;
    for (uint32_t w = 0; w < n_wanted; w++)
        for (uint32_t i = 0; i < n; i++)
            found |= v[i] == wanted[w];
    return found != 0;
}

SL_SIMD(bool, any_of64, (const uint64_t *v, uint32_t n, const uint32_t *wanted, uint32_t n_wanted),
        (v, n, wanted, n_wanted))
{
    uint64_t found = 0;
    for (uint32_t w = 0; w < n_wanted; w++)
        for (uint32_t i = 0; i < n; i++)
            found |= v[i] == wanted[w];
    return found != 0;
}

static bool any_of_few(const struct search *s, uint32_t place, uint32_t n)
{
    const uint64_t e = s->first + place;
    return is_wide(s->topology)
               ? any_of64((const uint64_t *)s->topology->indices + e, n, s->source, s->n)
               : any_of32((const uint32_t *)s->topology->indices + e, n, s->source, s->n);
}

static bool is_wanted(const struct search *s, uint32_t vertex)
{
    uint32_t low = 0, n = s->n;
    while (n > 0) {
        const uint32_t half = n / 2;
        const bool below = s->source[low + half] < vertex;
        low = below ? low + half + 1 : low;
        n = below ? n - half - 1 : half;
    }
    return low < s->n && s->source[low] == vertex;
}

static int search_any(struct sl_exclusion *x, const struct search *s)
{
    const uint32_t shift = 32 - FILTER_BITS;
    const bool few = s->n <= FEW;
    uint64_t filter[(1 << FILTER_BITS) / 64];
    if (!few)
        memset(filter, 0, sizeof filter);
    for (uint32_t i = 0; !few && i < s->n; i++) {
        const uint32_t bit = sl_idmap_hash(s->source[i], shift);
        filter[bit / 64] |= (uint64_t)1 << (bit % 64);
    }
    for (uint64_t block = 0; block < s->degree; block += BLOCK) {
        const uint32_t begin = (uint32_t)block;
        const uint32_t n = SL_MIN(s->degree - begin, (uint32_t)BLOCK);
        if (few && !any_of_few(s, begin, n))
            continue;
        for (uint32_t place = begin; place < begin + n; place++) {
            const uint32_t vertex = neighbour(s, place), bit = sl_idmap_hash(vertex, shift);
            if ((few || (filter[bit / 64] >> (bit % 64) & 1)) && is_wanted(s, vertex))
                SL_TRY(add_place(x, s->row, place));
        }
    }
    return SL_OK;
}

// Asks for what a later row needs.
static void fetch_ahead(const struct sl_topology_view *t, const uint32_t *nodes, uint32_t n_rows,
                        const struct rows *rows, uint32_t row)
{
    const uint32_t far = row + ROWS_AHEAD, near = row + ROWS_AHEAD / 2;
    if (far < n_rows && rows->start[far + 1] > rows->start[far])
        __builtin_prefetch(&t->indptr[nodes[far]]);
    if (near < n_rows && rows->start[near + 1] > rows->start[near]) {
        const uint64_t *indptr = &t->indptr[nodes[near]];
        const uint64_t middle = indptr[0] + (indptr[1] - indptr[0]) / 2;
        __builtin_prefetch((const char *)t->indices + (middle << (is_wide(t) ? 3 : 2)));
    }
}

int sl_exclusion_find(struct sl_exclusion *x, const struct sl_topology_view *topology,
                      const uint32_t *nodes, uint32_t n_rows, const struct sl_target_edges *targets)
{
    struct rows rows = {0};
    struct wave wave;
    SL_TRY(check_pairs(targets, n_rows));
    SL_TRY(take_scratch(x, n_rows, targets->n << targets->reverse, &rows));
    gather_sources(targets, nodes, n_rows, &rows);
    x->n = 0;
    wave.n = 0;
    wave.rising.ids = topology->indices;
    wave.rising.words = is_wide(topology) ? 2 : 1;
    for (uint32_t row = 0; row < n_rows; row++) {
        fetch_ahead(topology, nodes, n_rows, &rows, row);
        struct search s = {.topology = topology,
                           .row = row,
                           .source = rows.source + rows.start[row],
                           .n = rows.start[row + 1] - rows.start[row]};
        if (s.n == 0)
            continue;
        s.first = topology->indptr[nodes[row]];
        const uint64_t degree = topology->indptr[nodes[row] + 1] - s.first;
        if (degree == 0 || degree >= UINT32_MAX) // of which no kernel draws
            continue;
        s.degree = (uint32_t)degree;
        sort(s.source, s.n);
        SL_TRY(topology->lists_rise ? search_rising(x, &s, &wave) : search_any(x, &s));
    }
    SL_TRY(find_wave(x, &wave));
    for (uint32_t row = 0; row < n_rows; row++)
        rows.offsets[row + 1] += rows.offsets[row];
    x->found = (struct sl_excluded){n_rows, rows.offsets, x->place};
    return SL_OK;
}
