/*
 * Orders of vertices by how often they are read, and what a cache of the first of them is worth.
 *
 * ORDER. A stable counting sort by falling hotness: vertices are placed in rising order of their
 * ids, so equal ones keep it. One pass serves hotness below 2^16, which visit counts and degrees
 * of most graphs are: two sequential reads and one scattered write a vertex. Larger hotness takes
 * a second pass over the upper 16 bits, whatever the values are; sorting the few large values by
 * comparison would save memory traffic on degrees, but a random order is nothing but large values.
 *
 * CUT. Hit rates and similarities need only know which vertices are among the k hottest, not their
 * order: the hotness of the k-th one and how many of that hotness belong to it (those with the
 * smallest ids, as in the order). Two histograms find it in two sequential reads and 512 KiB,
 * instead of an order of 4 bytes a vertex.
 *
 * *cancel is looked at every 64 Ki elements: the flag says only "stop", nothing is published with
 * it, so relaxed loads do.
 */
#include "common/data/hotness.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { DIGIT_BITS = 16, N_DIGITS = 1 << DIGIT_BITS, CANCEL_EVERY = 1 << 16, AHEAD_EDGES = 24 };

static bool cancelled(const atomic_bool *cancel)
{
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

static int give_up(const char *doing)
{
    return sl_fail(SL_EABORTED, "%s: stopped on request", doing);
}

static inline uint32_t digit_of(uint32_t hotness, unsigned shift)
{
    return hotness >> shift & (N_DIGITS - 1);
}

// ---- order --------------------------------------------------------------------------------------

struct order_pass {
    const uint32_t *hotness;
    const uint32_t *from; // (n) the order so far; NULL = by id
    uint64_t n;
    unsigned shift;
    const atomic_bool *cancel;
    uint32_t *order, *rank; // out (n), either may be NULL
    uint32_t *next;         // (N_DIGITS) where the next vertex of a digit goes
};

// One stable pass of the sort, by falling digit. False when it was cancelled.
static bool order_by_digit(const struct order_pass *p)
{
    memset(p->next, 0, N_DIGITS * sizeof *p->next);
    for (uint64_t begin = 0; begin < p->n; begin += CANCEL_EVERY) {
        uint64_t end = SL_MIN(p->n, begin + CANCEL_EVERY);
        if (cancelled(p->cancel))
            return false;
        for (uint64_t v = begin; v < end; v++) // in any order: it only counts
            p->next[digit_of(p->hotness[v], p->shift)]++;
    }
    uint32_t sum = 0;
    for (uint32_t d = N_DIGITS; d-- > 0;) {
        uint32_t count = p->next[d];
        p->next[d] = sum;
        sum += count;
    }
    for (uint64_t begin = 0; begin < p->n; begin += CANCEL_EVERY) {
        uint64_t end = SL_MIN(p->n, begin + CANCEL_EVERY);
        if (cancelled(p->cancel))
            return false;
        for (uint64_t i = begin; i < end; i++) {
            uint32_t v = p->from ? p->from[i] : (uint32_t)i;
            uint32_t at = p->next[digit_of(p->hotness[v], p->shift)]++;
            if (p->order)
                p->order[at] = v;
            if (p->rank)
                p->rank[v] = at;
        }
    }
    return true;
}

static uint32_t highest(const uint32_t *hotness, uint64_t n)
{
    uint32_t most = 0;
    for (uint64_t v = 0; v < n; v++)
        most = SL_MAX(most, hotness[v]);
    return most;
}

int sl_hotness_order(const uint32_t *hotness, uint64_t n, const atomic_bool *cancel,
                     uint32_t *order, uint32_t *rank)
{
    bool two_passes = highest(hotness, n) >= N_DIGITS;
    uint32_t *next = malloc(N_DIGITS * sizeof *next);
    uint32_t *half = two_passes ? malloc(n * sizeof *half) : NULL;
    int rc = SL_OK;
    if (!next || (two_passes && !half)) {
        rc = sl_fail(SL_ENOMEM, "order vertices by hotness: no memory for %" PRIu64 " vertices", n);
    } else {
        struct order_pass p = {.hotness = hotness, .n = n, .cancel = cancel, .next = next};
        bool done = true;
        if (two_passes) {
            p.order = half;
            done = order_by_digit(&p);
            p.from = half;
            p.shift = DIGIT_BITS;
        }
        p.order = order;
        p.rank = rank;
        if (!done || !order_by_digit(&p))
            rc = give_up("order vertices by hotness");
    }
    free(half);
    free(next);
    return rc;
}

// ---- metrics ------------------------------------------------------------------------------------

// One more than at *h, and no more than a uint32_t holds.
static inline void count_one(uint32_t *h)
{
    *h += *h != UINT32_MAX;
}

// `type` is the width of an id; signed ids are not negative in a valid data set.
#define COUNT_SOURCES(name, type)                                                                  \
    static void name(const void *indices, uint64_t begin, uint64_t end, uint64_t n_edges,          \
                     uint32_t *hotness)                                                            \
    {                                                                                              \
        const type *source = indices;                                                              \
        for (uint64_t e = begin; e < end; e++) {                                                   \
            if (e + AHEAD_EDGES < n_edges)                                                         \
                __builtin_prefetch(&hotness[source[e + AHEAD_EDGES]], 1);                          \
            count_one(&hotness[source[e]]);                                                        \
        }                                                                                          \
    }

COUNT_SOURCES(count_sources_32, uint32_t)
COUNT_SOURCES(count_sources_64, uint64_t)

int sl_hotness_degree(const void *indices, enum sl_dtype dtype, uint64_t n_edges, uint64_t n_nodes,
                      const atomic_bool *cancel, uint32_t *hotness)
{
    bool wide = dtype == SL_DTYPE_I64 || dtype == SL_DTYPE_U64;
    if (!wide && dtype != SL_DTYPE_I32 && dtype != SL_DTYPE_U32)
        return sl_fail(SL_EINVAL, "count out-degrees: ids of type %d, wanted 32-bit or 64-bit ones",
                       (int)dtype);
    memset(hotness, 0, n_nodes * sizeof *hotness);
    for (uint64_t begin = 0; begin < n_edges; begin += CANCEL_EVERY) {
        uint64_t end = SL_MIN(n_edges, begin + CANCEL_EVERY);
        if (cancelled(cancel))
            return give_up("count out-degrees");
        if (wide)
            count_sources_64(indices, begin, end, n_edges, hotness);
        else
            count_sources_32(indices, begin, end, n_edges, hotness);
    }
    return SL_OK;
}

int sl_hotness_random(uint64_t seed, uint64_t n_nodes, const atomic_bool *cancel, uint32_t *hotness)
{
    for (uint64_t v = 0; v < n_nodes; v += 4) {
        if (v % CANCEL_EVERY == 0 && cancelled(cancel))
            return give_up("draw a random order");
        uint64_t group = v / 4;
        struct sl_rng_block b = sl_philox(seed, sl_rng_word0(SL_RNG_HOTNESS, 0, 0), (uint32_t)group,
                                          (uint32_t)(group >> 32), 0);
        for (uint64_t k = 0; k < 4 && v + k < n_nodes; k++)
            hotness[v + k] = b.w[k];
    }
    return SL_OK;
}

// ---- what an order is worth ---------------------------------------------------------------------

double sl_hotness_hit_rate(const uint32_t *visits, const uint32_t *order, uint64_t n,
                           uint64_t capacity)
{
    uint64_t all = 0, hits = 0;
    for (uint64_t v = 0; v < n; v++)
        all += visits[v];
    for (uint64_t i = 0; i < SL_MIN(capacity, n); i++)
        hits += visits[order[i]];
    return all ? (double)hits / (double)all : 0;
}

/*
 * Which vertices are the k hottest: those above `hotness`, and of those that have just that the
 * first n_equal by id.
 */
struct cut {
    uint32_t hotness;
    uint64_t n_equal;
};

// The digit that holds the k-th vertex from above, k at least 1 and at most the sum of the counts;
// *k becomes its place within that digit.
static uint32_t digit_of_kth(const uint64_t *counts, uint64_t *k)
{
    uint32_t d = N_DIGITS - 1;
    while (*k > counts[d])
        *k -= counts[d--];
    return d;
}

// k at most n.
static int find_cut(const uint32_t *hotness, uint64_t n, uint64_t k, struct cut *out)
{
    *out = (struct cut){.hotness = UINT32_MAX};
    if (k == 0)
        return SL_OK;
    uint64_t *counts = calloc(N_DIGITS, sizeof *counts);
    if (!counts)
        return sl_fail(SL_ENOMEM, "find the hottest vertices: no memory for a histogram");
    for (uint64_t v = 0; v < n; v++)
        counts[digit_of(hotness[v], DIGIT_BITS)]++;
    uint32_t high = digit_of_kth(counts, &k);
    memset(counts, 0, N_DIGITS * sizeof *counts);
    for (uint64_t v = 0; v < n; v++)
        if (digit_of(hotness[v], DIGIT_BITS) == high)
            counts[digit_of(hotness[v], 0)]++;
    out->hotness = high << DIGIT_BITS | digit_of_kth(counts, &k);
    out->n_equal = k;
    free(counts);
    return SL_OK;
}

// Whether the next vertex in order of ids, of this hotness, is within the cut.
static inline bool is_within(struct cut *rest, uint32_t hotness)
{
    if (hotness != rest->hotness)
        return hotness > rest->hotness;
    if (rest->n_equal == 0)
        return false;
    rest->n_equal--;
    return true;
}

int sl_hotness_optimal_hit_rate(const uint32_t *visits, uint64_t n, uint64_t capacity, double *out)
{
    struct cut cut;
    uint64_t all = 0, above = 0;
    *out = 0;
    SL_TRY(find_cut(visits, n, SL_MIN(capacity, n), &cut));
    for (uint64_t v = 0; v < n; v++) {
        all += visits[v];
        above += visits[v] > cut.hotness ? visits[v] : 0;
    }
    if (all > 0)
        *out = (double)(above + cut.n_equal * cut.hotness) / (double)all;
    return SL_OK;
}

int sl_hotness_similarity(const uint32_t *visits_i, const uint32_t *visits_j, uint64_t n,
                          double top, double *out)
{
    struct cut cut_i, cut_j;
    uint64_t both = 0, all = 0;
    *out = 0;
    if (!(top >= 0 && top <= 1))
        return sl_fail(SL_EINVAL, "compare footprints: the top %g of the vertices: wanted 0 to 1",
                       top);
    uint64_t k = SL_MIN(n, (uint64_t)llround(top * (double)n));
    SL_TRY(find_cut(visits_i, n, k, &cut_i));
    SL_TRY(find_cut(visits_j, n, k, &cut_j));
    for (uint64_t v = 0; v < n; v++) {
        bool in_i = is_within(&cut_i, visits_i[v]), in_j = is_within(&cut_j, visits_j[v]);
        if (!in_j)
            continue;
        all += visits_j[v];
        both += in_i ? SL_MIN(visits_i[v], visits_j[v]) : 0;
    }
    *out = all ? (double)both / (double)all : 0;
    return SL_OK;
}
