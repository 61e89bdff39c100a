// Placement of partitions: known machines, and every kind of random one against exhaustive search.
#include "common/store/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { MOST = SL_PLACEMENT_DEVICES };

static const double SINGLE = 25, DOUBLE = 50, OWN = 900;

static struct sl_links apart(uint32_t n)
{
    struct sl_links l = {.n = n};
    for (uint32_t g = 0; g < n; g++)
        l.rate[g][g] = OWN;
    return l;
}

static void join(struct sl_links *l, uint32_t a, uint32_t b, double rate)
{
    l->rate[a][b] = l->rate[b][a] = rate;
}

static struct sl_links linked(uint32_t n)
{
    struct sl_links l = apart(n);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++)
            join(&l, a, b, DOUBLE);
    return l;
}

static struct sl_links ring(uint32_t n)
{
    struct sl_links l = apart(n);
    for (uint32_t a = 0; a < n; a++)
        join(&l, a, (a + 1) % n, SINGLE);
    return l;
}

// Eight V100 (XGNN figure 7): two quads, and a link from each GPU to one of the other quad.
static struct sl_links cube_mesh(void)
{
    struct sl_links l = apart(8);
    for (uint32_t q = 0; q < 8; q += 4) {
        join(&l, q, q + 1, SINGLE);
        join(&l, q, q + 2, SINGLE);
        join(&l, q, q + 3, DOUBLE);
        join(&l, q + 1, q + 2, DOUBLE);
        join(&l, q + 1, q + 3, SINGLE);
        join(&l, q + 2, q + 3, SINGLE);
    }
    for (uint32_t g = 0; g < 4; g++)
        join(&l, g, 4 + (g + 2) % 4, DOUBLE);
    return l;
}

static struct sl_placement solved(const struct sl_links *l)
{
    struct sl_placement p;
    ck_assert_msg(sl_placement_solve(l, &p) == SL_OK, "%s", sl_error_message());
    return p;
}

// Everybody reads every partition where it lies and where they reach; counts and rates are so.
static void expect_plan(const struct sl_links *l, const struct sl_placement *p)
{
    uint32_t most = 0, total = 0;
    double slowest = INFINITY;
    ck_assert_uint_eq(p->n, l->n);
    for (uint32_t g = 0; g < l->n; g++) {
        uint32_t over[MOST] = {0}, held = (uint32_t)__builtin_popcount(p->held[g]);
        for (uint32_t q = 0; q < l->n; q++) {
            uint32_t from = p->from[g][q];
            ck_assert_uint_lt(from, l->n);
            ck_assert(p->held[from] >> q & 1);
            ck_assert(l->rate[g][from] > 0);
            if (p->held[g] >> q & 1)
                ck_assert_uint_eq(from, g);
            else
                over[from]++;
        }
        for (uint32_t from = 0; from < l->n; from++)
            if (over[from])
                slowest = fmin(slowest, l->rate[g][from] / over[from]);
        most = SL_MAX(most, held);
        total += held;
    }
    ck_assert_uint_eq(p->most, most);
    ck_assert_uint_eq(p->total, total);
    ck_assert(p->bandwidth == slowest || fabs(p->bandwidth / slowest - 1) < 1e-9);
}

// ---- known machines -----------------------------------------------------------------------------

TEST(a_cube_mesh_of_eight_holds_sixteen)
{
    const struct sl_links l = cube_mesh();
    const struct sl_placement p = solved(&l);
    expect_plan(&l, &p);
    ck_assert_uint_eq(p.total, 16);
    ck_assert_uint_eq(p.most, 2);
    for (uint32_t g = 0; g < 8; g++)
        ck_assert_int_eq(__builtin_popcount(p.held[g]), 2);
    // Six partitions over six lanes: every lane has one.
    ck_assert(p.bandwidth == SINGLE);
    ck_assert(p.proved);
    ck_assert_uint_lt(p.steps, 20000); // some milliseconds
}

TEST(gpus_that_all_reach_one_another_hold_one_each)
{
    for (uint32_t n = 1; n <= MOST; n++) {
        const struct sl_links l = linked(n);
        const struct sl_placement p = solved(&l);
        expect_plan(&l, &p);
        ck_assert_uint_eq(p.most, 1);
        ck_assert_uint_eq(p.total, n);
        ck_assert(p.proved);
        ck_assert(n == 1 ? p.bandwidth == INFINITY : p.bandwidth == DOUBLE);
    }
}

TEST(gpus_that_reach_nobody_hold_all)
{
    for (uint32_t n = 1; n <= MOST; n++) {
        const struct sl_links l = apart(n);
        const struct sl_placement p = solved(&l);
        expect_plan(&l, &p);
        ck_assert_uint_eq(p.most, n);
        ck_assert(p.bandwidth == INFINITY && p.proved);
        ck_assert(sl_placement_capacity(&p) == 1.0);
    }
}

TEST(a_ring_of_four_holds_two_each)
{
    const struct sl_links l = ring(4);
    const struct sl_placement p = solved(&l);
    expect_plan(&l, &p);
    ck_assert_uint_eq(p.most, 2);
    ck_assert_uint_eq(p.total, 8);
    ck_assert(p.bandwidth == SINGLE); // one partition over each of two links
}

TEST(equal_machines_have_equal_plans)
{
    const struct sl_links l = cube_mesh();
    const struct sl_placement a = solved(&l), b = solved(&l);
    ck_assert_int_eq(memcmp(a.held, b.held, sizeof a.held), 0);
    ck_assert_int_eq(memcmp(a.from, b.from, sizeof a.from), 0);
}

TEST(what_is_no_machine_is_refused)
{
    struct sl_placement p;
    struct sl_links l = linked(2);
    l.rate[0][1] = -1;
    ck_assert_int_eq(sl_placement_solve(&l, &p), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "GPU 0 reads GPU 1 at -1 GB/s"));
    l.rate[0][1] = NAN;
    ck_assert_int_eq(sl_placement_solve(&l, &p), SL_EINVAL);
    l = linked(2);
    l.rate[1][1] = 0;
    ck_assert_int_eq(sl_placement_cliques(&l, &p), SL_EINVAL);
    l.n = 0;
    ck_assert_int_eq(sl_placement_solve(&l, &p), SL_EINVAL);
    l.n = MOST + 1;
    ck_assert_int_eq(sl_placement_solve(&l, &p), SL_EINVAL);
}

TEST(cliques_are_the_largest_of_one_size)
{
    const struct sl_links machines[] = {cube_mesh(), ring(4),  ring(6),
                                        linked(4),   apart(3), ring(5)};
    const uint32_t size[] = {4, 2, 2, 4, 1, 1};
    for (size_t i = 0; i < SL_COUNT_OF(machines); i++) {
        struct sl_placement p;
        ck_assert_int_eq(sl_placement_cliques(&machines[i], &p), SL_OK);
        expect_plan(&machines[i], &p);
        ck_assert_uint_eq(p.most, p.n / size[i]);
        const struct sl_placement best = solved(&machines[i]);
        ck_assert(sl_placement_capacity(&best) >= sl_placement_capacity(&p));
    }
}

// ---- against exhaustive search ------------------------------------------------------------------

static uint32_t word(uint32_t a, uint32_t b, uint32_t c)
{
    return sl_philox(77, sl_rng_word0(SL_RNG_GENERATE, 0, 0), a, b, c).w[0];
}

static struct sl_links random_machine(uint32_t n, uint32_t which)
{
    struct sl_links l = apart(n);
    const uint32_t dense = 20 + word(which, n, 999) % 80; // of 100
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++)
            if (word(which, n, a * MOST + b) % 100 < dense)
                join(&l, a, b, word(which, n, 500 + a * MOST + b) % 2 ? SINGLE : DOUBLE);
    return l;
}

static bool serves(const struct sl_links *l, uint32_t set)
{
    for (uint32_t i = 0; i < l->n; i++) {
        bool reached = false;
        for (uint32_t g = 0; g < l->n; g++)
            reached = reached || (set >> g & 1 && l->rate[i][g] > 0);
        if (!reached)
            return false;
    }
    return true;
}

static uint32_t power(uint32_t base, uint32_t n)
{
    uint64_t x = 1;
    while (n-- > 0 && x <= UINT32_MAX)
        x *= base;
    return (uint32_t)SL_MIN(x, (uint64_t)UINT32_MAX);
}

// The fewest copies in all of plans with at most `most` partitions a GPU, by going through all
// vectors of how many each has; 0: there is no plan.
static uint32_t fewest_copies(const struct sl_links *l, uint32_t most)
{
    const uint32_t n = l->n, base = most + 1, n_vectors = power(base, n);
    char *now = calloc(n_vectors, 1), *next = calloc(n_vectors, 1);
    uint32_t fewest = 0, *full = calloc(n_vectors, sizeof *full); // bit g: GPU g has `most`
    uint32_t *reached = calloc(n_vectors, sizeof *reached);
    for (uint32_t v = 0; v < n_vectors; v++)
        for (uint32_t g = 0, digits = v; g < n; g++, digits /= base)
            full[v] |= (uint32_t)(digits % base == most) << g;
    now[0] = 1;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t n_reached = 0;
        for (uint32_t v = 0; v < n_vectors; v++)
            if (now[v])
                reached[n_reached++] = v;
        memset(next, 0, n_vectors);
        for (uint32_t set = 0; set < 1u << n; set++) {
            if (!(set >> p & 1) || !serves(l, set))
                continue;
            uint32_t more = 0; // what a copy on each of them adds to a vector's number
            for (uint32_t g = 0, unit = 1; g < n; g++, unit *= base)
                more += set >> g & 1 ? unit : 0;
            for (uint32_t r = 0; r < n_reached; r++)
                if (!(full[reached[r]] & set))
                    next[reached[r] + more] = 1;
        }
        char *t = now;
        now = next;
        next = t;
    }
    for (uint32_t v = 0; v < n_vectors; v++) {
        uint32_t sum = 0;
        for (uint32_t digits = v; digits > 0; digits /= base)
            sum += digits % base;
        if (now[v] && (fewest == 0 || sum < fewest))
            fewest = sum;
    }
    free(now);
    free(next);
    free(full);
    free(reached);
    return fewest;
}

LOOP_TEST(plans_are_balanced_and_as_small_as_any, 2, 11)
{
    enum { MACHINES = 12, VECTORS = 60000 };
    const uint32_t n = (uint32_t)_i;
    uint32_t compared = 0;
    for (uint32_t which = 0; which < MACHINES; which++) {
        const struct sl_links l = random_machine(n, which);
        const struct sl_placement p = solved(&l);
        expect_plan(&l, &p);
        if (power(p.most + 1, n) > VECTORS)
            continue;
        compared++;
        ck_assert_uint_eq(p.total, fewest_copies(&l, p.most));
        if (p.most > 1)
            ck_assert_uint_eq(fewest_copies(&l, p.most - 1), 0);
    }
    ck_assert_uint_ge(compared, MACHINES / 4);
}

// The best bandwidth of one reader, by all ways of dealing out what it has not.
static double best_deal(const struct sl_links *l, const uint32_t *set, uint32_t i, uint32_t p,
                        uint32_t *over)
{
    double best = 0;
    if (p == l->n) {
        best = INFINITY;
        for (uint32_t g = 0; g < l->n; g++)
            if (over[g])
                best = fmin(best, l->rate[i][g] / over[g]);
        return best;
    }
    if (set[p] >> i & 1)
        return best_deal(l, set, i, p + 1, over);
    for (uint32_t g = 0; g < l->n; g++) {
        if (!(set[p] >> g & 1) || l->rate[i][g] == 0)
            continue;
        over[g]++;
        best = fmax(best, best_deal(l, set, i, p + 1, over));
        over[g]--;
    }
    return best;
}

static double best_bandwidth(const struct sl_links *l, const struct sl_placement *like,
                             uint32_t *set, uint32_t p)
{
    const uint32_t n = l->n;
    double best = 0;
    if (p == n) {
        uint32_t total = 0;
        double least = INFINITY;
        for (uint32_t g = 0; g < n; g++) {
            uint32_t held = 0;
            for (uint32_t q = 0; q < n; q++)
                held += set[q] >> g & 1;
            if (held > like->most)
                return 0;
            total += held;
        }
        if (total != like->total)
            return 0;
        for (uint32_t i = 0; i < n; i++)
            least = fmin(least, best_deal(l, set, i, 0, (uint32_t[MOST]){0}));
        return least;
    }
    for (set[p] = 0; set[p] < 1u << n; set[p]++)
        if (set[p] >> p & 1 && serves(l, set[p]))
            best = fmax(best, best_bandwidth(l, like, set, p + 1));
    return best;
}

LOOP_TEST(no_plan_is_faster, 2, 6)
{
    const uint32_t n = (uint32_t)_i;
    for (uint32_t which = 0; which < (n < 5 ? 30 : 8); which++) {
        const struct sl_links l = random_machine(n, which);
        const struct sl_placement p = solved(&l);
        ck_assert(p.proved);
        double best = best_bandwidth(&l, &p, (uint32_t[MOST]){0}, 0);
        ck_assert_msg(p.bandwidth == best || fabs(p.bandwidth / best - 1) < 1e-6,
                      "%u GPUs, machine %u: %g GB/s, but there is a plan of %g", n, which,
                      p.bandwidth, best);
    }
}

// Any part of a machine is one; the search ends within its steps.
TEST(any_gpus_of_the_cube_mesh_have_a_plan)
{
    const struct sl_links whole = cube_mesh();
    for (uint32_t set = 1; set < 1u << 8; set++) {
        struct sl_links l = {.n = 0};
        uint32_t gpu[8];
        for (uint32_t g = 0; g < 8; g++)
            if (set >> g & 1)
                gpu[l.n++] = g;
        for (uint32_t a = 0; a < l.n; a++)
            for (uint32_t b = 0; b < l.n; b++)
                l.rate[a][b] = whole.rate[gpu[a]][gpu[b]];
        const struct sl_placement p = solved(&l);
        expect_plan(&l, &p);
        ck_assert(p.proved);
    }
}

RUN_TESTS(.timeout_s = 120)
