#include "common/store/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { DEVICES = SL_PLACEMENT_DEVICES };

#define STEPS_MOST UINT64_C(1000000)

// The sets of GPUs that a partition may lie on.
struct choice {
    uint32_t partition, n;
    uint32_t *set; // (n) ascending in size; bit g: on GPU g
};

struct search {
    const struct sl_links *links;
    uint32_t n, all;              // GPUs; the mask of them
    uint32_t readers[DEVICES];    // of GPU g's memory, itself included
    struct choice order[DEVICES]; // partitions, those with the fewest choices first
    uint32_t fewest[DEVICES + 1]; // copies of the partitions from order[i] on

    uint32_t most, total; // that a plan may have
    double enough;        // bandwidth that no plan exceeds
    uint32_t set[DEVICES], load[DEVICES];
    uint64_t steps;
    bool found, weighs; // a plan; whether bandwidths are compared
    struct sl_placement *best;
};

static bool spent(const struct search *s)
{
    return s->steps >= STEPS_MOST;
}

// ---- reading ------------------------------------------------------------------------------------

// Partitions of one reader dealt out to the links over which it can have them.
struct dealing {
    uint32_t n;
    uint32_t at[DEVICES];    // [p] holders that the reader reaches
    uint32_t room[DEVICES];  // [g] partitions that the link to g has time for
    uint32_t taken[DEVICES]; // [g] bit p: p is read over it
};

// Finds a link for partition p, moving others where that helps.
static bool find_link(struct dealing *d, uint32_t p, uint32_t *seen)
{
    for (uint32_t left = d->at[p] & ~*seen; left; left &= ~*seen & (left - 1)) {
        uint32_t g = (uint32_t)__builtin_ctz(left);
        *seen |= 1u << g;
        if ((uint32_t)__builtin_popcount(d->taken[g]) < d->room[g]) {
            d->taken[g] |= 1u << p;
            return true;
        }
        for (uint32_t others = d->taken[g]; others; others &= others - 1) {
            uint32_t q = (uint32_t)__builtin_ctz(others);
            if (!find_link(d, q, seen))
                continue;
            d->taken[g] = (d->taken[g] & ~(1u << q)) | 1u << p;
            return true;
        }
    }
    return false;
}

// Whether reader i has all partitions with `bandwidth` GB/s for each at the least; over which
// links, in d->taken.
static bool deals(const struct search *s, uint32_t i, const uint32_t *set, double bandwidth,
                  struct dealing *d)
{
    memset(d, 0, sizeof *d);
    for (uint32_t g = 0; g < s->n; g++) {
        double room = floor(s->links->rate[i][g] / bandwidth + 1e-9);
        d->room[g] = g == i ? 0 : room >= s->n ? s->n : (uint32_t)room;
    }
    for (uint32_t p = 0; p < s->n; p++) {
        if (set[p] >> i & 1)
            continue;
        for (uint32_t g = 0; g < s->n; g++)
            d->at[p] |= (uint32_t)(set[p] >> g & 1 && s->readers[g] >> i & 1) << g;
        uint32_t seen = 0;
        if (!find_link(d, p, &seen))
            return false;
    }
    return true;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The bandwidths that a link can have: its rate over 1, 2, ... n partitions. Returns how many.
static uint32_t bandwidths(const struct search *s, uint32_t i, double *out)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < s->n; g++)
        for (uint32_t k = 1; g != i && s->links->rate[i][g] > 0 && k <= s->n; k++)
            out[n++] = s->links->rate[i][g] / k;
    qsort(out, n, sizeof *out, descending);
    return n;
}

// The best bandwidth of reader i, and how it gets there.
static double deal(const struct search *s, uint32_t i, const uint32_t *set, struct dealing *d)
{
    double each[DEVICES * DEVICES] = {0};
    uint32_t lo = 0, hi = bandwidths(s, i, each); // the first that will do
    if (deals(s, i, set, INFINITY, d))
        return INFINITY;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (deals(s, i, set, each[middle], d))
            hi = middle;
        else
            lo = middle + 1;
    }
    deals(s, i, set, each[lo], d);
    return each[lo];
}

// ---- plans --------------------------------------------------------------------------------------

static void note_plan(struct search *s, const uint32_t *set)
{
    struct sl_placement *b = s->best;
    memset(b->held, 0, sizeof b->held);
    b->n = s->n;
    b->most = b->total = 0;
    b->bandwidth = INFINITY;
    for (uint32_t g = 0; g < s->n; g++) {
        struct dealing d;
        b->bandwidth = fmin(b->bandwidth, deal(s, g, set, &d));
        for (uint32_t p = 0; p < s->n; p++) {
            b->held[g] |= (set[p] >> g & 1) << p;
            b->from[g][p] = (uint8_t)g;
            for (uint32_t from = 0; from < s->n; from++)
                if (d.taken[from] >> p & 1)
                    b->from[g][p] = (uint8_t)from;
        }
        uint32_t held = (uint32_t)__builtin_popcount(b->held[g]);
        b->most = SL_MAX(b->most, held);
        b->total += held;
    }
    s->found = true;
}

// Whether every reader has more than the best plan's bandwidth.
static bool is_faster(const struct search *s)
{
    struct dealing d;
    const double more = s->best->bandwidth * (1 + 1e-6);
    if (!(more < INFINITY))
        return false;
    for (uint32_t i = 0; i < s->n; i++)
        if (!deals(s, i, s->set, more, &d))
            return false;
    return true;
}

static bool is_done(const struct search *s)
{
    return s->found && (!s->weighs || s->best->bandwidth >= s->enough * (1 - 1e-6));
}

// All plans of partitions order[at ...] with at most s->most a GPU and s->total in all.
static void walk(struct search *s, uint32_t at, uint32_t total)
{
    if (at == s->n) {
        if (!s->found || is_faster(s))
            note_plan(s, s->set);
        return;
    }
    const struct choice *c = &s->order[at];
    for (uint32_t k = 0; k < c->n && !is_done(s) && !spent(s); k++) {
        uint32_t set = c->set[k], copies = (uint32_t)__builtin_popcount(set);
        if (total + copies + s->fewest[at + 1] > s->total)
            return; // those that follow are no smaller
        s->steps++;
        bool fits = true;
        for (uint32_t left = set; left; left &= left - 1)
            fits = ++s->load[__builtin_ctz(left)] <= s->most && fits;
        s->set[c->partition] = set;
        if (fits)
            walk(s, at + 1, total + copies);
        for (uint32_t left = set; left; left &= left - 1)
            s->load[__builtin_ctz(left)]--;
    }
}

// ---- what there is to choose from ---------------------------------------------------------------

static bool serves(const struct search *s, uint32_t set)
{
    uint32_t served = 0;
    for (; set; set &= set - 1)
        served |= s->readers[__builtin_ctz(set)];
    return served == s->all;
}

// All sets with GPU p that serve everybody and can lose none of the others.
static int find_choices(const struct search *s, uint32_t p, struct choice *c)
{
    c->partition = p;
    c->set = malloc(((size_t)1 << (s->n - 1)) * sizeof *c->set);
    if (!c->set)
        return sl_fail(SL_ENOMEM, "placement: no memory for %u GPUs", s->n);
    for (uint32_t size = 1; size <= s->n; size++)
        for (uint32_t set = 1; set <= s->all; set++) {
            if ((uint32_t)__builtin_popcount(set) != size || !(set >> p & 1) || !serves(s, set))
                continue;
            bool least = true;
            for (uint32_t left = set & ~(1u << p); left && least; left &= left - 1)
                least = !serves(s, set & ~(left & -left));
            if (least)
                c->set[c->n++] = set;
        }
    return SL_OK;
}

static int by_number(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    return x->n != y->n ? (x->n > y->n) - (x->n < y->n)
                        : (x->partition > y->partition) - (x->partition < y->partition);
}

static int begin(struct search *s, const struct sl_links *links, struct sl_placement *out)
{
    memset(out, 0, sizeof *out);
    *s = (struct search){.links = links, .n = links->n, .best = out};
    if (links->n < 1 || links->n > DEVICES)
        return sl_fail(SL_EINVAL, "placement: found %u GPUs: wanted 1 to %d", links->n, DEVICES);
    s->all = (1u << s->n) - 1;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t g = 0; g < s->n; g++) {
            double rate = links->rate[i][g];
            if (!(rate >= 0 && rate < INFINITY) || (i == g && rate == 0))
                return sl_fail(SL_EINVAL,
                               "placement: GPU %u reads GPU %u at %g GB/s: wanted a "
                               "number from 0, and more for its own memory",
                               i, g, rate);
            s->readers[g] |= (uint32_t)(rate > 0) << i;
        }
    return SL_OK;
}

// No reader can have more: it holds `most` partitions and reads the others over all its links.
static double most_bandwidth(const struct search *s)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < s->n && s->most < s->n; i++) {
        double each[DEVICES * DEVICES] = {0};
        uint32_t n = bandwidths(s, i, each);
        uint32_t wanted = s->n - s->most;
        if (n >= wanted)
            least = fmin(least, each[wanted - 1]); // k partitions fit where the k-th begins
    }
    return least;
}

// The first two rules: the smallest bounds under which there is a plan, which is noted.
static bool find_bounds(struct search *s)
{
    const uint32_t least = s->fewest[0]; // copies in all
    bool proved = true;
    for (s->most = (least + s->n - 1) / s->n;; s->most++)
        for (s->total = least; s->total <= s->most * s->n; s->total++) {
            s->steps = 0;
            walk(s, 0, 0);
            s->best->steps += s->steps;
            if (s->found)
                return proved;
            proved = proved && !spent(s);
        }
}

int sl_placement_solve(const struct sl_links *links, struct sl_placement *out)
{
    struct search s;
    SL_TRY(begin(&s, links, out));
    int rc = SL_OK;
    for (uint32_t p = 0; p < s.n && rc == SL_OK; p++)
        rc = find_choices(&s, p, &s.order[p]);
    if (rc == SL_OK) {
        qsort(s.order, s.n, sizeof *s.order, by_number);
        for (uint32_t i = s.n; i-- > 0;)
            s.fewest[i] = s.fewest[i + 1] + (uint32_t)__builtin_popcount(s.order[i].set[0]);
        out->proved = find_bounds(&s);
        s.enough = most_bandwidth(&s);
        s.weighs = true;
        s.steps = 0;
        walk(&s, 0, 0);
        out->steps += s.steps;
        out->proved = out->proved && !spent(&s);
    }
    for (uint32_t p = 0; p < DEVICES; p++)
        free(s.order[p].set);
    return rc;
}

// ---- cliques ------------------------------------------------------------------------------------

static bool is_clique(const struct search *s, uint32_t set)
{
    for (uint32_t left = set; left; left &= left - 1)
        if (set & ~s->readers[__builtin_ctz(left)])
            return false;
    return true;
}

// Cuts the GPUs in `left` into cliques of k; clique[g]: whose members are g's.
static bool cut(const struct search *s, uint32_t left, uint32_t k, uint32_t *clique)
{
    const uint32_t first = left & -left;
    if (!left)
        return true;
    for (uint32_t set = left; set; set = (set - 1) & left) {
        if ((uint32_t)__builtin_popcount(set) != k || !(set & first) || !is_clique(s, set))
            continue;
        for (uint32_t members = set; members; members &= members - 1)
            clique[__builtin_ctz(members)] = set;
        if (cut(s, left & ~set, k, clique))
            return true;
    }
    return false;
}

int sl_placement_cliques(const struct sl_links *links, struct sl_placement *out)
{
    struct search s;
    uint32_t clique[DEVICES], k = links->n;
    SL_TRY(begin(&s, links, out));
    while (s.n % k != 0 || !cut(&s, s.all, k, clique)) // cliques of one GPU always are
        k--;
    // Nobody reads what lies outside of its clique.
    struct sl_links inside = *links;
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t g = 0; g < s.n; g++)
            inside.rate[i][g] = clique[i] >> g & 1 ? links->rate[i][g] : 0;
    SL_TRY(begin(&s, &inside, out));
    for (uint32_t g = 0; g < s.n; g++) {
        uint32_t place = (uint32_t)__builtin_popcount(clique[g] & ((1u << g) - 1));
        for (uint32_t p = place; p < s.n; p += k)
            s.set[p] |= 1u << g;
    }
    note_plan(&s, s.set);
    return SL_OK;
}
