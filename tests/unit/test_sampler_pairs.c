// Pairs of batches of links: against the definition done plainly, on graphs of all kinds; how often
// targets come; blocks that carry them.
#include <math.h>
#include <xxhash.h>

#include "common/data/expected_visits.h"
#include "sampler/pairs.h"
#include "sampler/plan.h"
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

enum {
    NODES_MAX = 300,
    EDGES_MAX = 45000,
    ITEMS_MAX = 200,
    PAIRS_MAX = 2000,
    LISTED_MAX = 400,
    TARGETS = 5, // given for each pair
    POOL = 70,   // given pairs
};

static uint64_t indptr[NODES_MAX + 1];
static int32_t indices[EDGES_MAX];
static uint32_t target_of[EDGES_MAX];
static uint32_t listed[SL_SPLIT_COUNT][2 * LISTED_MAX];
static float edge_weight[LISTED_MAX];
static uint32_t given[TARGETS * LISTED_MAX];
static uint32_t times[NODES_MAX][NODES_MAX]; // an edge from .. to .. is in the graph
static bool lists_rise;                      // of the graphs that are built
static struct sl_dataset ds;
static struct sl_config config;

static void add_edge(uint32_t source, uint32_t target)
{
    times[source][target]++;
}

// The graph of `times`; of its edges a list for training where `list`, and others for evaluation.
static void build(uint32_t n, bool list)
{
    ds = (struct sl_dataset){.n_nodes = n,
                             .indptr = indptr,
                             .indices = indices,
                             .indices_dtype = SL_DTYPE_I32,
                             .lists_rise = lists_rise};
    for (uint32_t v = 0; v < n; v++) {
        indptr[v] = ds.n_edges;
        for (uint32_t k = 0; k < n; k++) {
            // In no order: 7 divides no n here.
            const uint32_t u = lists_rise ? k : (k * 7 + v) % n;
            for (uint32_t t = 0; t < times[u][v]; t++) {
                ck_assert_uint_lt(ds.n_edges, EDGES_MAX);
                target_of[ds.n_edges] = v;
                indices[ds.n_edges++] = (int32_t)u;
            }
        }
    }
    indptr[n] = ds.n_edges;
    if (list)
        ds.edges[SL_SPLIT_TRAIN].weight = edge_weight;
    for (uint32_t i = 0; i < LISTED_MAX; i++)
        edge_weight[i] = (float)(i % 5) / 2;
    for (int s = 0; list && s < SL_SPLIT_COUNT; s++) {
        ds.edges[s].ids = listed[s];
        const uint64_t most = s == SL_SPLIT_TRAIN ? SL_MIN(ds.n_edges, (uint64_t)LISTED_MAX) : 40;
        for (uint64_t i = 0; i < most; i++) {
            const struct sl_rng_block r =
                sl_philox(1, sl_rng_word0(SL_RNG_GENERATE, 9, 0), (uint32_t)i, (uint32_t)s, n);
            // Most of training's are edges of the graph, others' are any pairs.
            const bool any = s != SL_SPLIT_TRAIN || r.w[0] % 4 == 0 || ds.n_edges == 0;
            const uint64_t e = any ? 0 : r.w[1] % ds.n_edges;
            uint32_t *pair = &listed[s][2 * ds.edges[s].n++];
            pair[0] = any ? r.w[2] % n : (uint32_t)indices[e];
            pair[1] = any ? r.w[3] % n : target_of[e];
        }
    }
    config.task.kind = SL_JOB_LINKS;
    ck_assert_int_eq(sl_config_choose_items(&config, &ds), SL_OK);
}

// Hubs of either direction, edges that are there several times, self-loops, vertices alone.
static void random_edges(uint32_t n, uint32_t edges)
{
    for (uint32_t i = 0; i < edges; i++) {
        const struct sl_rng_block r =
            sl_philox(2, sl_rng_word0(SL_RNG_GENERATE, 8, 0), i, n, edges);
        const uint32_t u = r.w[2] % 4 == 0 ? 0 : r.w[0] % n, v = r.w[3] % 4 == 0 ? 1 : r.w[1] % n;
        if (u % 5 == 4 || v % 5 == 4)
            continue;
        add_edge(u, v);
        if (i % 11 == 0)
            add_edge(u, v);
        if (i % 13 == 0)
            add_edge(v, v);
    }
}

static void complete_edges(uint32_t n, uint32_t missing)
{
    for (uint32_t u = 0; u < n; u++)
        for (uint32_t v = 0; v < n; v++)
            if (u != v && !(missing && (u * n + v) % missing == 0))
                add_edge(u, v);
}

// Vertices below `first` and the others: edges join one and one, in both directions.
static void sided_edges(uint32_t n, uint32_t first, uint32_t edges)
{
    for (uint32_t i = 0; i < edges; i++) {
        const struct sl_rng_block r = sl_philox(2, sl_rng_word0(SL_RNG_GENERATE, 9, 0), i, n, 0);
        const uint32_t u = r.w[0] % first, v = first + r.w[1] % (n - first);
        add_edge(u, v);
        add_edge(v, u);
    }
}

static void make_graph(int kind, bool list)
{
    memset(times, 0, sizeof times);
    switch (kind) {
    case 0: random_edges(61, 400); return build(61, list);
    case 1: random_edges(299, 3000); return build(299, list);
    case 2: complete_edges(17, 0); return build(17, list);
    case 3: complete_edges(200, 211); return build(200, list); // sources with one or none left
    case 4: add_edge(0, 0); return build(1, list);
    case 5: // a star, in both directions
        for (uint32_t v = 1; v < 40; v++) {
            add_edge(0, v);
            add_edge(v, 0);
        }
        return build(40, list);
    case 6: add_edge(1, 0); return build(2, list);
    default:
        sided_edges(90, 12, 500);
        build(90, list);
        ds.first_side = 12;
    }
}
enum { GRAPHS = 8 };

// --- the definition, plainly ---------------------------------------------------------------------

struct plain {
    uint32_t n, n_seeds, ends[2 * PAIRS_MAX], ids[2 * PAIRS_MAX], seeds[2 * PAIRS_MAX];
    float weight[PAIRS_MAX], shift[PAIRS_MAX];
    uint32_t n_none, n_walked, n_hard, n_missing;
};

static bool is_listed(uint32_t u, uint32_t v)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        for (uint64_t i = 0; i < ds.edges[s].n; i++)
            if (ds.edges[s].ids[2 * i] == u && ds.edges[s].ids[2 * i + 1] == v)
                return true;
    return false;
}

static bool is_negative(uint32_t u, uint32_t v)
{
    const enum sl_strict_kind strict = config.task.strict;
    if (ds.first_side && (u < ds.first_side) == (v < ds.first_side))
        return false;
    return u != v && !(strict != SL_STRICT_NONE && times[u][v]) &&
           !(strict == SL_STRICT_ALL && is_listed(u, v));
}

static void training_pair(uint64_t i, uint32_t pair[2])
{
    const uint32_t *edges = ds.edges[SL_SPLIT_TRAIN].ids;
    pair[0] = edges ? edges[2 * i] : (uint32_t)indices[i];
    pair[1] = edges ? edges[2 * i + 1] : target_of[i];
}

static uint32_t counted; // vertices of the graph whose counts these are
static uint64_t counts[NODES_MAX];

static uint64_t pairs_to(uint32_t v)
{
    uint32_t pair[2];
    if (!counted)
        for (uint64_t i = 0; i < ds.split[SL_SPLIT_TRAIN].n; i++) {
            training_pair(i, pair);
            counts[pair[1]]++;
        }
    counted = 1;
    return counts[v];
}

// The candidate of a try; false: it is not kept.
static bool candidate_of(const struct plain *p, uint32_t i, uint32_t n_positive,
                         struct sl_rng_block r, uint32_t *candidate, uint32_t *target)
{
    uint32_t pair[2], n_sides;
    bool kept;
    switch (config.task.negatives) {
    case SL_NEGATIVES_BATCH:
        kept = sl_rng_below(r.w[0], n_positive - 1, candidate);
        *candidate += *candidate >= i;
        *target = p->ends[2 * *candidate + 1];
        return kept;
    case SL_NEGATIVES_DEGREE:
        kept = sl_rng_below(r.w[0], (uint32_t)ds.split[SL_SPLIT_TRAIN].n, candidate);
        training_pair(*candidate, pair);
        *candidate = *target = pair[1];
        return kept && r.w[1] / 4294967296.0 * sqrt(sqrt((double)pairs_to(pair[1]))) < 1;
    default:
        n_sides = (uint32_t)(p->ends[2 * i] < ds.first_side ? ds.n_nodes - ds.first_side
                             : ds.first_side                ? ds.first_side
                                                            : ds.n_nodes);
        kept = sl_rng_below(r.w[0], n_sides, candidate);
        *candidate += p->ends[2 * i] < ds.first_side ? (uint32_t)ds.first_side : 0;
        *target = *candidate;
        return kept;
    }
}

// The number that the data set's negative q has.
static uint32_t plain_number(uint32_t q, uint32_t batch, uint32_t epoch, uint32_t n)
{
    uint32_t x;
    for (uint32_t t = 0;; t++)
        if (sl_rng_below(
                sl_philox(config.seed, sl_rng_word0(SL_RNG_NEGATIVE, 0, t), q, batch, epoch).w[0],
                n, &x))
            return x;
}

// Steps of the walks from row r of a group: how often each vertex is met, and after how many steps
// (from 1) for the first time.
static void plain_walks(uint32_t source, uint32_t group, uint32_t r, uint32_t epoch, uint32_t batch,
                        uint32_t *visits, uint32_t *first)
{
    const uint32_t length = config.task.hard.length, groups = (length + 3) / 4;
    const uint64_t seed = config.seed + group;
    uint32_t step = 0;
    memset(visits, 0, NODES_MAX * sizeof *visits);
    for (uint32_t p = 0; p < config.task.hard.paths; p++) {
        uint32_t at = source, x = 0;
        for (uint32_t s = 0; s < length; s++) {
            const uint32_t block = p * groups + s / 4;
            const struct sl_rng_block back =
                sl_philox(seed, sl_rng_word0(SL_RNG_HARD_WALK, 128, block), r, batch, epoch);
            step++;
            if (s > 0 && sl_rng_unit(back.w[s % 4]) < (float)config.task.hard.restart)
                at = source;
            const uint32_t degree = (uint32_t)(indptr[at + 1] - indptr[at]);
            if (degree == 0)
                break;
            for (uint32_t a = 0; a < 16; a++)
                if (sl_rng_below(sl_philox(seed, sl_rng_word0(SL_RNG_HARD_WALK, a << 3, block), r,
                                           batch, epoch)
                                     .w[s % 4],
                                 degree, &x))
                    break;
            at = (uint32_t)indices[indptr[at] + x];
            if (at != source && visits[at]++ == 0)
                first[at] = step;
        }
    }
}

// Whether negative q is a hard one, and its target.
static bool plain_hard(const struct plain *p, uint32_t q, uint32_t epoch, uint32_t batch,
                       uint32_t *target)
{
    uint32_t visits[NODES_MAX], first[NODES_MAX], met[NODES_MAX], candidates[NODES_MAX];
    uint32_t n, n_met = 0, row = 0, x;
    const uint32_t i = q / config.task.per_positive, source = p->ends[2 * i];
    bool seen[NODES_MAX] = {0};
    for (uint32_t k = 0; p->ends[2 * k] != source; k++) { // different sources before it
        row += !seen[p->ends[2 * k]];
        seen[p->ends[2 * k]] = true;
    }
    plain_walks(source, row / SL_HARD_ROWS, row % SL_HARD_ROWS, epoch, batch, visits, first);
    for (uint32_t v = 0; v < ds.n_nodes; v++)
        if (visits[v] && is_negative(source, v))
            met[n_met++] = v;
    for (uint32_t k = 0; k < n_met; k++) {
        const uint32_t v = met[k];
        uint32_t rank = 1;
        for (uint32_t j = 0; j < n_met; j++)
            rank += visits[met[j]] > visits[v] ||
                    (visits[met[j]] == visits[v] && first[met[j]] < first[v]);
        candidates[rank - 1] = v;
    }
    n = SL_MIN(n_met, config.task.hard.last_rank);
    if (n < config.task.hard.first_rank)
        return false;
    n -= config.task.hard.first_rank - 1;
    for (uint32_t t = 0; t < SL_HARD_TRIES; t++)
        if (sl_rng_below(
                sl_philox(config.seed, sl_rng_word0(SL_RNG_NEGATIVE, 1, t), q, batch, epoch).w[0],
                n, &x)) {
            *target = candidates[config.task.hard.first_rank - 1 + x];
            if (*target != p->ends[2 * i + 1])
                return true;
        }
    return false;
}

// How many of a positive's negatives are hard.
static uint32_t plain_each(uint32_t epoch)
{
    if (config.task.hard.kind == SL_HARD_NONE || epoch + 1 < config.task.hard.from_epoch)
        return 0;
    return SL_MIN(epoch + 2 - config.task.hard.from_epoch, config.task.hard.per_positive);
}

// Of a data set's negatives number q.
static void plain_given(uint32_t q, uint32_t item, uint32_t epoch, uint32_t batch, uint32_t *ends)
{
    const uint32_t j = q % config.task.per_positive;
    if (ds.negatives[SL_SPLIT_TRAIN].per_positive) {
        ends[1] =
            given[item * TARGETS + (plain_number(q - j, batch, epoch, TARGETS) + j) % TARGETS];
        return;
    }
    const uint32_t pair = plain_number(q, batch, epoch, POOL);
    ends[0] = given[2 * pair];
    ends[1] = given[2 * pair + 1];
}

// The target of negative q, or its source: there is none.
static uint32_t plain_target(struct plain *p, uint32_t q, uint32_t n_positive, uint32_t epoch,
                             uint32_t batch)
{
    const uint32_t i = q / config.task.per_positive, source = p->ends[2 * i];
    const bool places = config.task.negatives == SL_NEGATIVES_BATCH;
    uint32_t candidate = 0, target = 0;
    if (places && n_positive == 1)
        return source;
    for (uint32_t t = 0; t < SL_PAIR_TRIES; t++) {
        const struct sl_rng_block r =
            sl_philox(config.seed, sl_rng_word0(SL_RNG_NEGATIVE, 0, t), q, batch, epoch);
        if (candidate_of(p, i, n_positive, r, &candidate, &target) && is_negative(source, target))
            return target;
    }
    p->n_walked++;
    const uint32_t n = places ? n_positive : (uint32_t)ds.n_nodes;
    for (uint32_t k = 1; k <= n; k++) {
        const uint32_t next = (candidate + k) % n;
        if (places && next == i)
            continue;
        target = places ? p->ends[2 * next + 1] : next;
        if (config.task.negatives == SL_NEGATIVES_DEGREE && pairs_to(target) == 0)
            continue;
        if (is_negative(source, target))
            return target;
    }
    return source;
}

static void make_plain(struct plain *p, uint32_t epoch, uint32_t batch, const uint32_t *items,
                       uint32_t n_items)
{
    const uint32_t per_positive = config.task.per_positive;
    const double all = (double)ds.split[SL_SPLIT_TRAIN].n;
    *p = (struct plain){.n = n_items * (1 + per_positive)};
    ck_assert_uint_le(p->n, PAIRS_MAX);
    for (uint32_t i = 0; i < n_items; i++)
        training_pair(items[i], &p->ends[2 * i]);
    for (uint32_t q = 0; q < n_items * per_positive; q++) {
        uint32_t *ends = &p->ends[2 * (n_items + q)];
        const bool hard = q % per_positive >= per_positive - plain_each(epoch);
        ends[0] = p->ends[2 * (q / per_positive)];
        if (hard && plain_hard(p, q, epoch, batch, &ends[1])) {
            p->n_hard++;
            continue;
        }
        p->n_missing += hard;
        if (config.task.negatives == SL_NEGATIVES_GIVEN)
            plain_given(q, items[q / per_positive], epoch, batch, ends);
        else
            ends[1] = plain_target(p, q, n_items, epoch, batch);
    }
    for (uint32_t k = 0; k < p->n; k++) {
        const bool none = k >= n_items && config.task.negatives != SL_NEGATIVES_GIVEN &&
                          p->ends[2 * k] == p->ends[2 * k + 1];
        p->weight[k] = none ? 0 : 1;
        if (k < n_items && ds.edges[SL_SPLIT_TRAIN].ids)
            p->weight[k] = edge_weight[items[k]];
        p->n_none += none;
        if (config.task.negatives == SL_NEGATIVES_BATCH && !none)
            p->shift[k] = (float)log((double)pairs_to(p->ends[2 * k + 1]) / all);
    }
    for (uint32_t k = 0; k < 2 * p->n; k++) {
        uint32_t id = 0;
        while (id < p->n_seeds && p->seeds[id] != p->ends[k])
            id++;
        p->seeds[id] = p->ends[k];
        p->n_seeds = SL_MAX(p->n_seeds, id + 1);
        p->ids[k] = id;
    }
}

static void expect_plain(const struct sl_pair_maker *m, const struct plain *p)
{
    ck_assert_uint_eq(m->pairs.n, p->n);
    ck_assert_uint_eq(m->pairs.n, m->pairs.n_positive * (1 + config.task.per_positive));
    ck_assert_uint_eq(m->n_seeds, p->n_seeds);
    ck_assert_uint_eq(m->hard.n_missing, p->n_missing);
    ck_assert_uint_eq(sl_pair_maker_hard(m), p->n_hard);
    ck_assert_int_eq(memcmp(m->seeds, p->seeds, p->n_seeds * sizeof *p->seeds), 0);
    for (uint32_t k = 0; k < p->n; k++)
        EXPECT(m->pairs.ids[2 * k] == p->ids[2 * k] && m->pairs.ids[2 * k + 1] == p->ids[2 * k + 1],
               "pair %u: vertices %u and %u, wanted %u and %u", k, m->seeds[m->pairs.ids[2 * k]],
               m->seeds[m->pairs.ids[2 * k + 1]], p->ends[2 * k], p->ends[2 * k + 1]);
    ck_assert_int_eq(memcmp(m->pairs.weight, p->weight, p->n * sizeof *p->weight), 0);
    ck_assert_int_eq(memcmp(m->pairs.shift, p->shift, p->n * sizeof *p->shift), 0);
}

static void items_of(uint32_t epoch, uint32_t batch, uint32_t n, uint32_t *items)
{
    for (uint32_t i = 0; i < n; i++)
        items[i] = sl_philox(3, sl_rng_word0(SL_RNG_GENERATE, 7, 0), i, batch, epoch).w[0] %
                   (uint32_t)ds.split[SL_SPLIT_TRAIN].n;
}

static void choose(int negatives, int strict, uint32_t per_positive)
{
    config = (struct sl_config){.seed = 0x123456789abcdefull,
                                .task = {.kind = SL_JOB_LINKS,
                                         .negatives = (enum sl_negatives_kind)negatives,
                                         .strict = (enum sl_strict_kind)strict,
                                         .per_positive = per_positive}};
}

// Of every graph and kind: batches one after the other in the same memory, around the number of
// negatives that are drawn side by side.
LOOP_TEST(pairs_are_those_of_the_definition, 0, GRAPHS * 3)
{
    static const uint32_t sizes[] = {1, 2, 31, 200, 33, 1, 64};
    static struct plain want;
    uint32_t items[ITEMS_MAX], n_none = 0, n_walked = 0;
    const int graph = _i / 3, negatives = _i % 3;
    sl_log_set_level(SL_LOG_ERROR); // sources without a negative are told of
    for (int kind = 0; kind < 6; kind++) {
        struct sl_pair_maker m;
        choose(negatives, kind / 2, kind == 3 ? 7 : 1 + (uint32_t)kind % 3);
        lists_rise = (kind + graph) % 2;
        make_graph(graph, kind % 2);
        counted = 0;
        memset(counts, 0, sizeof counts);
        ck_assert_int_eq(sl_pair_maker_init(&m, &config, &ds), SL_OK);
        for (uint32_t b = 0; b < SL_COUNT_OF(sizes); b++) {
            items_of(5, b, sizes[b], items);
            make_plain(&want, 5, b, items, sizes[b]);
            ck_assert_int_eq(sl_pair_maker_make(&m, 5, b, items, sizes[b]), SL_OK);
            expect_plain(&m, &want);
            n_none += want.n_none;
            n_walked += want.n_walked;
        }
        sl_pair_maker_fini(&m);
    }
    // The graphs are what they are for.
    if (graph >= 2 && graph < 7)
        ck_assert_uint_gt(n_none, 0);
    if (graph == 3)
        ck_assert_uint_gt(n_walked, n_none);
}

static void give(uint32_t per_positive)
{
    for (uint32_t k = 0; k < SL_COUNT_OF(given); k++)
        given[k] = fixture_word(k, 5) % (uint32_t)ds.n_nodes;
    const uint64_t n = per_positive ? ds.edges[SL_SPLIT_TRAIN].n * per_positive : POOL;
    ds.negatives[SL_SPLIT_TRAIN] = (struct sl_negatives){n, per_positive, given};
}

// As many as pleased of the negatives hard, in the epoch that has the first ones and in others.
LOOP_TEST(hard_pairs_are_those_of_the_definition, 0, GRAPHS * 2)
{
    static const uint32_t sizes[] = {1, 150, 33}, epochs[] = {1, 2, 3, 4, UINT32_MAX - 1};
    static struct plain want;
    uint32_t items[ITEMS_MAX], n_hard = 0, n_missing = 0;
    const int graph = _i / 2;
    sl_log_set_level(SL_LOG_ERROR);
    for (uint32_t kind = 0; kind < SL_COUNT_OF(epochs); kind++) {
        struct sl_pair_maker m;
        choose((int)kind % 2, (int)kind % 3, 3 + kind % 2);
        config.task.hard.kind = SL_HARD_WALKS;
        config.task.hard.per_positive = 3;
        config.task.hard.from_epoch = 3;
        config.task.hard.first_rank = 1 + 2 * (kind % 3);
        config.task.hard.last_rank = config.task.hard.first_rank + (kind % 2 ? 9 : 0);
        config.task.hard.paths = 4 + 9 * (kind % 3);
        config.task.hard.length = 3 + kind % 4;
        config.task.hard.restart = kind % 2 ? 0.25 : 0;
        make_graph(graph, _i % 2);
        counted = 0;
        memset(counts, 0, sizeof counts);
        ck_assert_int_eq(sl_pair_maker_init(&m, &config, &ds), SL_OK);
        for (uint32_t b = 0; b < SL_COUNT_OF(sizes); b++) {
            items_of(5, b, sizes[b], items);
            make_plain(&want, epochs[kind], b, items, sizes[b]);
            ck_assert_int_eq(sl_pair_maker_make(&m, epochs[kind], b, items, sizes[b]), SL_OK);
            expect_plain(&m, &want);
            ck_assert(kind > 0 || want.n_hard + want.n_missing == 0);
            n_hard += want.n_hard;
            n_missing += want.n_missing;
        }
        sl_pair_maker_fini(&m);
    }
    if (graph == 0 || graph == 1 || graph == 7)
        ck_assert_uint_gt(n_hard, 0);
    ck_assert_uint_gt(n_missing, 0);
}

// Of a pool and for each pair, as many as there are and fewer, with hard ones among them.
LOOP_TEST(given_pairs_are_those_of_the_definition, 0, 4)
{
    static struct plain want;
    uint32_t items[ITEMS_MAX];
    sl_log_set_level(SL_LOG_ERROR);
    for (uint32_t per_positive = 1; per_positive <= TARGETS; per_positive += 2) {
        struct sl_pair_maker m;
        choose(SL_NEGATIVES_UNIFORM, SL_STRICT_GRAPH, per_positive);
        make_graph(_i < 2 ? 1 : 7, true);
        give(_i % 2 ? TARGETS : 0);
        config.task.negatives = SL_NEGATIVES_GIVEN;
        ck_assert_int_eq(sl_config_choose_items(&config, &ds), SL_OK);
        if (per_positive == 3) {
            config.task.hard.kind = SL_HARD_WALKS;
            config.task.hard.per_positive = config.task.hard.from_epoch = 1;
            config.task.hard.first_rank = 2;
            config.task.hard.length = 3;
            config.task.hard.last_rank = config.task.hard.paths = 30;
        }
        ck_assert_int_eq(sl_pair_maker_init(&m, &config, &ds), SL_OK);
        for (uint32_t b = 0; b < 4; b++) {
            items_of(5, b, 40 * b + 1, items);
            make_plain(&want, 5, b, items, 40 * b + 1);
            ck_assert_int_eq(sl_pair_maker_make(&m, 5, b, items, 40 * b + 1), SL_OK);
            expect_plain(&m, &want);
        }
        ck_assert(per_positive != 3 || want.n_hard > 0);
        sl_pair_maker_fini(&m);
    }
}

// --- how often targets come ----------------------------------------------------------------------

// Chi-square of counts against shares that add up to 1; n - 1 degrees of freedom.
static double chi_square(const uint32_t *count, const double *share, uint32_t n)
{
    double all = 0, sum = 0;
    for (uint32_t v = 0; v < n; v++)
        all += count[v];
    for (uint32_t v = 0; v < n; v++) {
        const double want = all * share[v];
        if (share[v] > 0)
            sum += (count[v] - want) * (count[v] - want) / want;
        else
            ck_assert_uint_eq(count[v], 0);
    }
    return sum;
}

// Targets of the negatives of many batches of one item, whose source is u.
static void count_targets(uint32_t item, uint32_t *count)
{
    struct sl_pair_maker m;
    ck_assert_int_eq(sl_pair_maker_init(&m, &config, &ds), SL_OK);
    for (uint32_t batch = 0; batch < 400; batch++) {
        ck_assert_int_eq(sl_pair_maker_make(&m, 0, batch, &item, 1), SL_OK);
        for (uint32_t k = 1; k < m.pairs.n; k++)
            count[m.seeds[m.pairs.ids[2 * k + 1]]]++;
    }
    sl_pair_maker_fini(&m);
}

static double share[NODES_MAX];

// Shares of the vertices that may be drawn for u are as their weights, which are in share.
static uint32_t scale_shares(uint32_t u)
{
    uint32_t n = 0;
    double all = 0;
    for (uint32_t v = 0; v < ds.n_nodes; v++) {
        if (!is_negative(u, v))
            share[v] = 0;
        n += share[v] > 0;
        all += share[v];
    }
    for (uint32_t v = 0; v < ds.n_nodes; v++)
        share[v] /= all;
    return n;
}

// Far out of the distribution by chance in one of 10^9; the numbers are the same in each run.
static void expect_shares(const uint32_t *count, uint32_t n)
{
    const double spread = sqrt(2.0 * (n - 1)), chi = chi_square(count, share, (uint32_t)ds.n_nodes);
    EXPECT(chi < n - 1 + 6 * spread && chi > n - 1 - 5 * spread, "chi-square %g of %u", chi, n - 1);
}

LOOP_TEST(uniform_targets_are_equally_likely, 0, 3)
{
    static uint32_t count[NODES_MAX], pair[2];
    choose(SL_NEGATIVES_UNIFORM, _i, 100);
    make_graph(0, true);
    training_pair(1, pair);
    count_targets(1, count);
    for (uint32_t v = 0; v < ds.n_nodes; v++)
        share[v] = 1;
    expect_shares(count, scale_shares(pair[0]));
}

LOOP_TEST(targets_by_degree_are_as_its_three_quarters_power, 0, 6)
{
    static uint32_t count[NODES_MAX], pair[2];
    choose(SL_NEGATIVES_DEGREE, _i / 2, 100);
    make_graph(0, _i % 2);
    training_pair(1, pair);
    count_targets(1, count);
    for (uint32_t v = 0; v < ds.n_nodes; v++)
        share[v] = pow((double)pairs_to(v), 0.75);
    expect_shares(count, scale_shares(pair[0]));
}

// --- how many seeds there are -------------------------------------------------------------------

// What caches and forecasts go by is what batches have: an epoch of different seeds, in all. (That
// each pair may be in any batch of few is not quite so.)
LOOP_TEST(seeds_are_as_many_as_expected_visits, 0, 6)
{
    enum { ITEMS = 100 };
    static uint32_t hotness[NODES_MAX], items[EDGES_MAX];
    const struct sl_visits_watch watch = {0};
    struct sl_pair_maker m;
    double wanted = 0, seeds = 0;
    choose(_i / 2, SL_STRICT_NONE, 3);
    make_graph(1, _i % 2);
    config.sampler.batch_size = ITEMS;
    const struct sl_visits_sampling sampling = sl_config_sampling(&config);
    ck_assert_int_eq(sl_visits_expect(&ds, &sampling, &watch, hotness), SL_OK);
    for (uint32_t v = 0; v < ds.n_nodes; v++) {
        float visits;
        memcpy(&visits, &hotness[v], sizeof visits);
        wanted += (double)visits;
    }
    const uint32_t n = (uint32_t)ds.split[SL_SPLIT_TRAIN].n;
    for (uint32_t i = 0; i < n; i++) { // shuffled
        const uint32_t k = fixture_word(i, 1) % (i + 1);
        items[i] = items[k];
        items[k] = i;
    }
    ck_assert_int_eq(sl_pair_maker_init(&m, &config, &ds), SL_OK);
    for (uint32_t i = 0; i < n; i += ITEMS) {
        const uint32_t some = SL_MIN(n - i, (uint32_t)ITEMS);
        ck_assert_int_eq(sl_pair_maker_make(&m, 0, i / ITEMS, items + i, some), SL_OK);
        seeds += m.n_seeds;
    }
    sl_pair_maker_fini(&m);
    EXPECT(fabs(seeds / wanted - 1) < 0.06, "%g seeds, expected %g", seeds, wanted);
}

// --- the same for everybody ----------------------------------------------------------------------

// Whatever was made before, and the numbers that jobs have been given so far.
TEST(a_batch_depends_on_its_key_alone)
{
    static const uint64_t wanted[] = {0x8c0786f64ec78736, 0x288b41783a37852d, 0xde7863b7d5ee7b04};
    for (int negatives = 0; negatives < 3; negatives++) {
        struct sl_pair_maker one, other;
        uint32_t items[ITEMS_MAX];
        choose(negatives, SL_STRICT_GRAPH, 2);
        make_graph(1, false);
        ck_assert_int_eq(sl_pair_maker_init(&one, &config, &ds), SL_OK);
        ck_assert_int_eq(sl_pair_maker_init(&other, &config, &ds), SL_OK);
        XXH64_hash_t digest = 0;
        for (uint32_t b = 0; b < 5; b++) {
            items_of(2, b, 100, items);
            ck_assert_int_eq(sl_pair_maker_make(&one, 2, b, items, 100), SL_OK);
            digest = XXH3_64bits_withSeed(one.pairs.ids, one.pairs.n * SL_PAIR_BYTES / 2, digest);
            digest = XXH3_64bits_withSeed(one.seeds, one.n_seeds * sizeof *one.seeds, digest);
        }
        ck_assert_int_eq(sl_pair_maker_make(&other, 2, 4, items, 100), SL_OK);
        ck_assert_int_eq(memcmp(one.pairs.ids, other.pairs.ids, one.pairs.n * SL_PAIR_BYTES / 2),
                         0);
        ck_assert_int_eq(memcmp(one.pairs.shift, other.pairs.shift, one.pairs.n * 4), 0);
        EXPECT(digest == wanted[negatives], "negatives %d: digest %#llx", negatives,
               (unsigned long long)digest);
        sl_pair_maker_fini(&one);
        sl_pair_maker_fini(&other);
    }
}

// --- blocks --------------------------------------------------------------------------------------

static struct fixture fx;
static struct sl_drawer drawer;
static struct sl_pair_maker maker;

static void setup(void)
{
    fx = fixture_graph(NODES_MAX);
    choose(SL_NEGATIVES_BATCH, SL_STRICT_GRAPH, 2);
    config.sampler.n_fanout = 2;
    config.sampler.fanout[0] = 15;
    config.sampler.fanout[1] = 10;
    config.sampler.batch_size = 50;
    config.evaluate.full = true;
    ck_assert_int_eq(sl_config_choose_items(&config, &fx.topology.dataset), SL_OK);
    ck_assert_int_eq(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
    ck_assert_int_eq(sl_pair_maker_init(&maker, &config, &fx.topology.dataset), SL_OK);
}

static void teardown(void)
{
    sl_pair_maker_fini(&maker);
    sl_drawer_fini(&drawer);
    fixture_free(&fx);
}

CASE(.name = "blocks", .setup = setup, .teardown = teardown)

TEST(blocks_carry_the_pairs_of_their_seeds)
{
    const struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    uint32_t items[50], negatives = config.task.per_positive;
    for (uint32_t i = 0; i < SL_COUNT_OF(items); i++)
        items[i] = 17 * i;
    ck_assert(sl_draw_plan_on_cores(&plan));
    ck_assert_int_eq(sl_pair_maker_make(&maker, 1, 2, items, SL_COUNT_OF(items)), SL_OK);
    fixture_pairs = &maker.pairs;
    fixture_expect_exact_size(&drawer, &plan, 1, 2, maker.seeds, maker.n_seeds);
    struct sl_block *b = fixture_draw(&drawer, &plan, 1, 2, maker.seeds, maker.n_seeds);
    const struct sl_block_shape shape = {.n_hops = 2, .n_targets = negatives, .has_pairs = true};
    ck_assert_int_eq(sl_block_check_shape(b, b->bytes, shape), SL_OK);
    const struct sl_pairs got = sl_view_pairs(sl_block_here(b)), want = maker.pairs;
    ck_assert_uint_eq(got.n, 150);
    ck_assert_uint_eq(got.n_positive, 50);
    ck_assert_uint_eq(got.per_positive, negatives);
    ck_assert_int_eq(memcmp(got.ids, want.ids, 2 * got.n * sizeof *got.ids), 0);
    ck_assert_int_eq(memcmp(got.weight, want.weight, got.n * sizeof *got.weight), 0);
    ck_assert_int_eq(memcmp(got.shift, want.shift, got.n * sizeof *got.shift), 0);
    ck_assert_uint_eq(b->n_seeds, maker.n_seeds);
    for (uint32_t k = 0; k < 50; k++) {
        uint32_t pair[2];
        sl_link_items_pair(&maker.items, items[k], pair);
        ck_assert_uint_eq(sl_block_nodes(b)[got.ids[2 * k]], pair[0]);
        ck_assert_uint_eq(sl_block_nodes(b)[got.ids[2 * k + 1]], pair[1]);
    }
    free(b);
    // Its pairs are part of a block: without them it is another job's.
    fixture_pairs = NULL;
    b = fixture_draw(&drawer, &plan, 1, 2, maker.seeds, maker.n_seeds);
    ck_assert_int_eq(sl_block_check_shape(b, b->bytes, shape), SL_EPROTO);
    free(b);
}

// A graph of two sides whose edges lead from the first to the second is a relation between two
// types: the same pairs in another numbering, whose seeds stand type after type.
LOOP_TEST(pairs_of_a_relation_are_those_of_two_sides, 0, 3 * 2 * 2)
{
    enum { FIRST = 12, ALL = 90, OTHERS = 7, BATCH = 30 };
    static const enum sl_negatives_kind kinds[] = {SL_NEGATIVES_UNIFORM, SL_NEGATIVES_DEGREE,
                                                   SL_NEGATIVES_BATCH};
    const bool list = _i / 3 % 2, reversed = _i / 6; // the targets' type is before the sources'
    const uint32_t n_second = ALL - FIRST;
    config.task.negatives = kinds[_i % 3];
    config.task.strict = SL_STRICT_ALL;
    config.task.exclude = SL_EXCLUDE_SELF;
    config.task.per_positive = 3;
    memset(times, 0, sizeof times);
    for (uint32_t i = 0; i < 500; i++)
        add_edge(i * 7 % FIRST, FIRST + i * i % n_second);
    for (uint32_t v = FIRST; v < ALL - 1; v++) // a source whose negatives are one
        times[0][v] = 1;
    build(ALL, false);
    ds.first_side = FIRST;
    uint32_t pairs_listed[2 * 60];
    for (uint32_t i = 0; i < 60; i++) {
        pairs_listed[2 * i] = (uint32_t)indices[i * 3];
        pairs_listed[2 * i + 1] = target_of[i * 3];
    }
    if (list)
        ds.edges[SL_SPLIT_TRAIN] = (struct sl_pair_list){.n = 60, .ids = pairs_listed};
    // Behind a type and a relation that nobody asks for.
    const uint32_t sources = OTHERS + (reversed ? n_second : 0),
                   targets = OTHERS + (reversed ? 0 : FIRST);
    struct sl_vertex_type types[3] = {{.n = OTHERS}, {.first = OTHERS}};
    types[1].n = reversed ? n_second : FIRST;
    types[2] = (struct sl_vertex_type){.first = OTHERS + types[1].n, .n = ALL - types[1].n};
    struct sl_relation relation[] = {{.reverse_of = SL_NO_RELATION},
                                     {.source = reversed ? 2 : 1,
                                      .target = reversed ? 1 : 2,
                                      .first_row = OTHERS,
                                      .reverse_of = SL_NO_RELATION,
                                      .n_edges = ds.n_edges}};
    uint64_t *rows = fixture_alloc((OTHERS + n_second + 1) * sizeof *rows);
    int32_t *ids = fixture_alloc(ds.n_edges * sizeof *ids);
    uint32_t own_listed[2 * 60];
    memset(rows, 0, OTHERS * sizeof *rows);
    for (uint32_t v = FIRST; v <= ALL; v++)
        rows[OTHERS + v - FIRST] = indptr[v];
    for (uint64_t e = 0; e < ds.n_edges; e++)
        ids[e] = indices[e] + (int32_t)sources;
    for (uint32_t i = 0; i < 120; i++)
        own_listed[i] = pairs_listed[i] + (i % 2 ? targets - FIRST : sources);
    struct sl_dataset typed = ds;
    typed.n_nodes = OTHERS + ALL;
    typed.indptr = rows;
    typed.indices = ids;
    typed.first_side = 0;
    typed.typed = (struct sl_typed){.n_types = 3,
                                    .n_relations = 2,
                                    .n_rows = OTHERS + n_second,
                                    .type = types,
                                    .relation = relation,
                                    .linked = 1};
    if (list)
        typed.edges[SL_SPLIT_TRAIN].ids = own_listed;
    struct sl_pair_maker plain_maker, own;
    ck_assert_int_eq(sl_pair_maker_init(&plain_maker, &config, &ds), SL_OK);
    ck_assert_int_eq(sl_pair_maker_init(&own, &config, &typed), SL_OK);
    uint32_t items[BATCH];
    for (uint32_t i = 0; i < BATCH; i++)
        items[i] = i * 5 % (list ? 60 : (uint32_t)ds.n_edges);
    for (uint32_t batch = 0; batch < 4; batch++) {
        ck_assert_int_eq(sl_pair_maker_make(&plain_maker, 1, batch, items, BATCH), SL_OK);
        ck_assert_int_eq(sl_pair_maker_make(&own, 1, batch, items, BATCH), SL_OK);
        const struct sl_pairs a = plain_maker.pairs, b = own.pairs;
        ck_assert_uint_eq(a.n, b.n);
        ck_assert_uint_eq(plain_maker.n_seeds, own.n_seeds);
        for (uint32_t i = 0; i < a.n; i++) {
            const uint32_t u = plain_maker.seeds[a.ids[2 * i]];
            const uint32_t v = plain_maker.seeds[a.ids[2 * i + 1]];
            ck_assert_uint_eq(own.seeds[b.ids[2 * i]], u + sources);
            ck_assert(a.weight[i] == b.weight[i] && a.shift[i] == b.shift[i]);
            if (a.weight[i] > 0) // else there is no target
                ck_assert_uint_eq(own.seeds[b.ids[2 * i + 1]], v + targets - FIRST);
        }
        for (uint32_t s = 1; s < own.n_seeds; s++)
            ck_assert_uint_le(sl_typed_type_of(&typed.typed, own.seeds[s - 1]),
                              sl_typed_type_of(&typed.typed, own.seeds[s]));
    }
    struct sl_link_items drawn = sl_link_items_of(&typed, SL_SPLIT_TRAIN, 0);
    drawn.n_positive = 0;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t pair[2];
        sl_link_items_pair(&drawn, i, pair);
        ck_assert_uint_eq(sl_typed_type_of(&typed.typed, pair[0]), relation[1].source);
        ck_assert_uint_eq(sl_typed_type_of(&typed.typed, pair[1]), relation[1].target);
    }
    sl_pair_maker_fini(&plain_maker);
    sl_pair_maker_fini(&own);
    free(rows);
    free(ids);
}

TEST(probe_batches_are_of_pairs)
{
    struct sl_block_estimate e;
    const struct sl_block_shape shape = {.n_hops = 2, .n_targets = 2, .has_pairs = true};
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &maker, &e), SL_OK);
    ck_assert_int_eq(sl_block_check_shape(e.probe, e.probe->bytes, shape), SL_OK);
    const struct sl_pairs pairs = sl_view_pairs(sl_block_here(e.probe));
    ck_assert_uint_eq(pairs.n_positive, config.sampler.batch_size);
    ck_assert_uint_eq(e.probe->epoch, UINT32_MAX);
    ck_assert_uint_gt(e.t_sample_ns, 0);
    sl_block_estimate_fini(&e);
}

RUN_TESTS(.timeout_s = 60)
