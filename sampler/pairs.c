#include "sampler/pairs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/philox.h"

enum { LANES = 32 }; // negatives that are drawn side by side, so that their loads overlap

// A negative that has no target yet.
struct lane {
    uint32_t q; // its number
    uint32_t tries;
    uint32_t candidate; // of the last try: a vertex, or a place in the batch
    uint32_t target;    // the vertex that this is
    bool is_kept;       // the try has not failed
};

// --- what is known of the job --------------------------------------------------------------------

static int count_targets(struct sl_pair_maker *m)
{
    const struct sl_pair_list *edges = &m->items.edges;
    m->n_pairs_to = calloc(m->items.ds->n_nodes, sizeof *m->n_pairs_to);
    if (!m->n_pairs_to)
        return sl_fail(SL_ENOMEM, "no memory for the number of training pairs to each vertex");
    for (uint64_t i = 0; i < edges->n; i++)
        m->n_pairs_to[edges->ids[2 * i + 1]]++;
    return SL_OK;
}

int sl_pair_maker_init(struct sl_pair_maker *m, const struct sl_config *config,
                       const struct sl_dataset *ds)
{
    *m = (struct sl_pair_maker){.seed = config->seed,
                                .negatives = config->task.negatives,
                                .per_positive = config->task.per_positive,
                                .strict = config->task.strict != SL_STRICT_NONE,
                                .exclude = config->task.exclude,
                                .targets.reverse = config->task.exclude == SL_EXCLUDE_REVERSE,
                                .items = sl_link_items_of(ds, SL_SPLIT_TRAIN, 0)};
    int rc = sl_idmap_create(1, &m->map);
    if (rc == SL_OK)
        rc = sl_hard_init(&m->hard, config, ds);
    if (rc == SL_OK && m->strict)
        rc = sl_edge_lookup_init(&m->edges, ds, config->task.strict == SL_STRICT_ALL);
    const bool by_count = m->negatives == SL_NEGATIVES_DEGREE || m->negatives == SL_NEGATIVES_BATCH;
    if (rc == SL_OK && m->items.edges.ids && by_count)
        rc = count_targets(m);
    if (rc < 0)
        sl_pair_maker_fini(m);
    return rc;
}

void sl_pair_maker_fini(struct sl_pair_maker *m)
{
    sl_edge_lookup_fini(&m->edges);
    sl_hard_fini(&m->hard);
    sl_idmap_destroy(m->map);
    free(m->n_pairs_to);
    free(m->ids);
    free(m->weight);
    free(m->seeds);
    free(m->renumbered);
    free(m->source_of);
    *m = (struct sl_pair_maker){0};
}

uint64_t sl_pair_maker_bytes(const struct sl_pair_maker *m)
{
    return m->edges.n_listed * sizeof *m->edges.listed +
           (m->n_pairs_to ? m->items.ds->n_nodes * sizeof *m->n_pairs_to : 0) +
           m->capacity * (SL_PAIR_BYTES + 2 * sizeof *m->seeds) +
           (m->renumbered ? 2 * m->capacity * sizeof *m->renumbered : 0) + sl_hard_bytes(&m->hard) +
           (m->map ? sl_idmap_bytes(m->map) : 0);
}

static uint64_t pairs_to(const struct sl_pair_maker *m, uint32_t v)
{
    const struct sl_dataset *ds = m->items.ds;
    return m->n_pairs_to ? m->n_pairs_to[v] : sl_dataset_degree(ds, sl_dataset_linked_row(ds, v));
}

// Whether sources and targets are of two types.
static bool joins_types(const struct sl_pair_maker *m)
{
    const struct sl_relation *r = sl_dataset_linked(m->items.ds);
    return r && r->source != r->target;
}

// --- one negative --------------------------------------------------------------------------------

static uint32_t source_of(const struct sl_pair_maker *m, uint32_t q)
{
    return m->ids[2 * (uint64_t)(q / m->per_positive)];
}

// Which of n <= LANES pairs, (n, 2), may be negatives.
static void judge(const struct sl_pair_maker *m, uint32_t n, const uint32_t *pairs, bool *may_be)
{
    bool is_edge[LANES] = {false};
    if (m->strict)
        sl_edge_lookup_each(&m->edges, n, pairs, is_edge);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t source = pairs[2 * i], target = pairs[2 * i + 1];
        const struct sl_targets range = sl_link_targets(m->items.ds, source);
        may_be[i] = target - range.first < range.n && source != target && !is_edge[i];
    }
}

static bool may_be_pair(const void *maker, uint32_t source, uint32_t target)
{
    const uint32_t pair[] = {source, target};
    bool may_be;
    judge(maker, 1, pair, &may_be);
    return may_be;
}

static void put_negative(struct sl_pair_maker *m, uint32_t q, uint32_t target, float weight)
{
    const uint64_t pair = (uint64_t)m->pairs.n_positive + q;
    m->ids[2 * pair + 1] = target;
    m->weight[pair] = weight;
}

// The target of the positive in this place, whose shift is known.
static void put_place(struct sl_pair_maker *m, uint32_t q, uint32_t place)
{
    put_negative(m, q, m->ids[2 * (uint64_t)place + 1], 1);
    m->shift[m->pairs.n_positive + (uint64_t)q] = m->shift[place];
}

static void put_none(struct sl_pair_maker *m, uint32_t q)
{
    const uint32_t source = source_of(m, q);
    const uint32_t target = m->ids[2 * (uint64_t)(q / m->per_positive) + 1];
    put_negative(m, q, joins_types(m) ? target : source, 0);
    if (m->has_warned)
        return;
    m->has_warned = true;
    sl_log_warn("sampling: vertex %" PRIu32 " has no negative pair, as %s would be itself%s, and "
                "there may be more like it: their negatives do not count in the loss%s",
                source,
                m->negatives == SL_NEGATIVES_BATCH ? "each other target in its mini-batch"
                                                   : "each target",
                m->strict ? " or an edge" : "",
                m->strict ? ": set task.strict to \"none\" to let edges be negatives" : "");
}

static struct sl_futile_walk *futile_of(struct sl_pair_maker *m, uint32_t source)
{
    return &m->futile[source * 2654435761u >> 24];
}

// The first vertex behind x that may be the target; the source where there is none.
static uint32_t walk_vertices(struct sl_pair_maker *m, uint32_t source, uint32_t x)
{
    struct sl_futile_walk *known = futile_of(m, source);
    const struct sl_targets all = sl_link_all_targets(m->items.ds);
    const uint64_t n = all.n, behind = x - all.first + (uint64_t)1; // counted from the first one
    uint64_t k = 0, end = n; // vertices that were gone through, and those that are none
    while (k < end) {
        uint64_t at[LANES] = {0};
        uint32_t pairs[2 * LANES], some = 0;
        bool may_be[LANES];
        for (; k < n && some < LANES; k++) {
            const uint64_t at_v = (behind + k) % n, v = all.first + at_v;
            const uint64_t into = (at_v + n - known->first) % n; // as far into those that are known
            if (known->source == source && into < known->n) {
                k += known->n - into - 1;
            } else if (m->negatives != SL_NEGATIVES_DEGREE || pairs_to(m, (uint32_t)v) > 0) {
                at[some] = k;
                pairs[2 * some] = source;
                pairs[2 * some++ + 1] = (uint32_t)v;
            }
        }
        judge(m, some, pairs, may_be);
        for (uint32_t i = some; i-- > 0;)
            end = may_be[i] ? at[i] : end;
    }
    if (known->source != source || end > known->n)
        *known = (struct sl_futile_walk){source, (uint32_t)(behind % n), (uint32_t)end};
    return end < n ? (uint32_t)(all.first + (behind + end) % n) : source;
}

// The place of the same among the batch's targets, behind place p and without positive i; i where
// there is none.
static uint32_t walk_places(const struct sl_pair_maker *m, uint32_t i, uint32_t p)
{
    const uint32_t n = m->pairs.n_positive;
    for (uint32_t k = 0, some; k < n; k += some) {
        uint32_t places[LANES] = {0}, pairs[2 * LANES];
        bool may_be[LANES];
        some = SL_MIN(n - k, (uint32_t)LANES);
        for (uint32_t l = 0; l < some; l++) {
            places[l] = (uint32_t)((p + 1ull + k + l) % n);
            pairs[2 * l] = m->ids[2 * (uint64_t)i];
            pairs[2 * l + 1] = m->ids[2 * (uint64_t)places[l] + 1];
        }
        judge(m, some, pairs, may_be);
        for (uint32_t l = 0; l < some; l++)
            if (may_be[l] && places[l] != i)
                return places[l];
    }
    return i;
}

// Before any try: nothing to choose from.
static bool has_none(struct sl_pair_maker *m, uint32_t q)
{
    if (m->negatives == SL_NEGATIVES_BATCH)
        return m->pairs.n_positive == 1;
    const uint32_t source = source_of(m, q);
    const struct sl_futile_walk *known = futile_of(m, source);
    return known->source == source && known->n == sl_link_all_targets(m->items.ds).n;
}

// --- given ones ----------------------------------------------------------------------------------

// The number that the words of negative q say, below n.
static uint32_t given_number(const struct sl_pair_maker *m, uint32_t epoch, uint32_t batch,
                             uint32_t q, uint32_t n)
{
    uint32_t x = 0;
    for (uint32_t t = 0; t < SL_PAIR_TRIES; t++) {
        const struct sl_rng_block r =
            sl_philox(m->seed, sl_rng_word0(SL_RNG_NEGATIVE, 0, t), q, batch, epoch);
        if (sl_rng_below(r.w[0], n, &x))
            break;
    }
    return x;
}

static void put_given(struct sl_pair_maker *m, uint32_t epoch, uint32_t batch,
                      const uint32_t *items, uint32_t q)
{
    const struct sl_negatives *given = &m->items.given;
    const uint32_t i = q / m->per_positive, j = q % m->per_positive, k = given->per_positive;
    if (k == 0) {
        const uint64_t x = given_number(m, epoch, batch, q, (uint32_t)given->n);
        m->ids[2 * ((uint64_t)m->pairs.n_positive + q)] = given->ids[2 * x];
        put_negative(m, q, given->ids[2 * x + 1], 1);
    } else {
        const uint64_t x = given_number(m, epoch, batch, q - j, k) + (uint64_t)j;
        put_negative(m, q, given->ids[(uint64_t)items[i] * k + x % k], 1);
    }
}

// --- hard ones -----------------------------------------------------------------------------------

static int find_hard(struct sl_pair_maker *m, uint32_t epoch, uint32_t batch)
{
    sl_hard_begin(&m->hard, epoch);
    if (!m->hard.each)
        return SL_OK;
    const uint32_t n = m->pairs.n_positive;
    m->n_seeds = 0;
    SL_TRY(sl_idmap_reset(m->map, n));
    for (uint32_t i = 0; i < n; i++)
        SL_TRY(sl_idmap_insert(m->map, m->ids[2 * (uint64_t)i], m->seeds, &m->n_seeds, n,
                               &m->source_of[i]));
    return sl_hard_find(&m->hard, epoch, batch, m->seeds, m->n_seeds, may_be_pair, m);
}

static void warn_of_hard(struct sl_pair_maker *m, uint32_t source, uint32_t n)
{
    if (m->has_warned_of_hard)
        return;
    m->has_warned_of_hard = true;
    sl_log_warn("sampling: walks from vertex %" PRIu32 " meet too few vertices for a hard negative "
                "(%" PRIu32 " of the wanted ranks), and there may be more like it: its negatives "
                "are drawn as others, and the report counts them (hard_missing): raise "
                "task.hard.paths or task.hard.length, or lower task.hard.first_rank",
                source, n);
}

// Whether negative q is a hard one, which it is then.
static bool put_hard(struct sl_pair_maker *m, uint32_t epoch, uint32_t batch, uint32_t q)
{
    if (!m->hard.each || q % m->per_positive + m->hard.each < m->per_positive)
        return false;
    const uint32_t i = q / m->per_positive;
    const uint32_t source = m->source_of[i];
    uint32_t target;
    if (!sl_hard_draw(&m->hard, epoch, batch, q, source, m->ids[2 * (uint64_t)i + 1], &target)) {
        m->hard.n_missing++;
        warn_of_hard(m, m->ids[2 * (uint64_t)i], m->hard.n_candidates[source]);
        return false;
    }
    m->ids[2 * ((uint64_t)m->pairs.n_positive + q)] = m->ids[2 * (uint64_t)i];
    put_negative(m, q, target, 1);
    return true;
}

// --- all of a batch ------------------------------------------------------------------------------

// The next try of each lane.
static void draw_candidates(const struct sl_pair_maker *m, uint32_t epoch, uint32_t batch,
                            struct lane *lanes, uint32_t n)
{
    const struct sl_dataset *ds = m->items.ds;
    const uint32_t most = m->negatives == SL_NEGATIVES_DEGREE ? (uint32_t)m->items.n_positive
                                                              : m->pairs.n_positive - 1;
    uint32_t numbers[LANES], targets[LANES], kept[LANES];
    for (uint32_t k = 0; k < n; k++) {
        struct lane *lane = &lanes[k];
        const struct sl_rng_block r = sl_philox(
            m->seed, sl_rng_word0(SL_RNG_NEGATIVE, 0, lane->tries), lane->q, batch, epoch);
        if (m->negatives == SL_NEGATIVES_UNIFORM) {
            const struct sl_targets range = sl_link_targets(ds, source_of(m, lane->q));
            lane->is_kept = sl_rng_below(r.w[0], range.n, &numbers[k]);
            numbers[k] += range.first;
        } else {
            lane->is_kept = sl_rng_below(r.w[0], most, &numbers[k]);
        }
        kept[k] = r.w[1];
    }
    if (m->negatives == SL_NEGATIVES_DEGREE)
        sl_link_items_targets(&m->items, numbers, n, targets);
    for (uint32_t k = 0; k < n; k++) {
        struct lane *lane = &lanes[k];
        if (m->negatives == SL_NEGATIVES_BATCH) {
            lane->candidate = numbers[k] + (numbers[k] >= lane->q / m->per_positive);
            lane->target = m->ids[2 * (uint64_t)lane->candidate + 1];
        } else {
            lane->target = m->negatives == SL_NEGATIVES_DEGREE ? targets[k] : numbers[k];
            lane->candidate = lane->target;
        }
        if (m->strict || m->negatives == SL_NEGATIVES_DEGREE)
            __builtin_prefetch(&ds->indptr[sl_dataset_linked_row(ds, lane->target)]);
    }
    uint32_t pairs[2 * LANES], asked[LANES], n_asked = 0; // lanes
    bool may_be[LANES];
    for (uint32_t k = 0; k < n; k++) {
        struct lane *lane = &lanes[k];
        // Square roots are the same bits everywhere; a power need not be.
        if (m->negatives == SL_NEGATIVES_DEGREE)
            lane->is_kept &= kept[k] * sqrt(sqrt((double)pairs_to(m, lane->target))) < 0x1p32;
        asked[n_asked] = k;
        pairs[2 * n_asked] = source_of(m, lane->q);
        pairs[2 * n_asked + 1] = lane->target;
        n_asked += lane->is_kept;
    }
    judge(m, n_asked, pairs, may_be);
    for (uint32_t i = 0; i < n_asked; i++)
        lanes[asked[i]].is_kept = may_be[i];
}

// Whether the lane's negative is settled.
static bool settle(struct sl_pair_maker *m, struct lane *lane)
{
    const uint32_t source = source_of(m, lane->q), i = lane->q / m->per_positive;
    if (!lane->is_kept && ++lane->tries < SL_PAIR_TRIES)
        return false;
    if (m->negatives == SL_NEGATIVES_BATCH) {
        const uint32_t place = lane->is_kept ? lane->candidate : walk_places(m, i, lane->candidate);
        if (place != i)
            put_place(m, lane->q, place);
        else
            put_none(m, lane->q);
        return true;
    }
    const uint32_t target =
        lane->is_kept ? lane->target : walk_vertices(m, source, lane->candidate);
    if (target != source)
        put_negative(m, lane->q, target, 1);
    else
        put_none(m, lane->q);
    return true;
}

static void draw_negatives(struct sl_pair_maker *m, uint32_t epoch, uint32_t batch,
                           const uint32_t *items)
{
    struct lane lanes[LANES];
    uint32_t n = 0, next = 0;
    const uint32_t end = m->pairs.n - m->pairs.n_positive;
    while (n > 0 || next < end) {
        for (; n < LANES && next < end; next++) {
            if (put_hard(m, epoch, batch, next))
                continue;
            if (m->negatives == SL_NEGATIVES_GIVEN)
                put_given(m, epoch, batch, items, next);
            else if (has_none(m, next))
                put_none(m, next);
            else
                lanes[n++] = (struct lane){.q = next};
        }
        draw_candidates(m, epoch, batch, lanes, n);
        for (uint32_t k = 0; k < n;) {
            if (settle(m, &lanes[k]))
                lanes[k] = lanes[--n];
            else
                k++;
        }
    }
}

// Those of positives.
static void put_shifts(struct sl_pair_maker *m)
{
    memset(m->shift, 0, m->pairs.n * sizeof *m->shift);
    if (m->negatives != SL_NEGATIVES_BATCH)
        return;
    const double all = (double)m->items.n_positive;
    for (uint32_t k = 0; k < m->pairs.n_positive; k++)
        m->shift[k] = (float)log((double)pairs_to(m, m->ids[2 * (uint64_t)k + 1]) / all);
}

// The ends become local ids.
static int number_ends(struct sl_pair_maker *m)
{
    const bool any_source = m->negatives == SL_NEGATIVES_GIVEN && !m->items.given.per_positive;
    const uint32_t n = 2 * m->pairs.n, of_own = any_source ? n : 2 * m->pairs.n_positive;
    SL_TRY(sl_idmap_reset(m->map, SL_MAX(m->n_seeds, m->pairs.n)));
    m->n_seeds = 0;
    for (uint32_t k = 0; k < of_own; k++)
        SL_TRY(sl_idmap_insert(m->map, m->ids[k], m->seeds, &m->n_seeds, n, &m->ids[k]));
    for (uint32_t k = of_own; k < n; k += 2) { // from the same sources
        m->ids[k] = source_of(m, (k - of_own) / 2);
        SL_TRY(sl_idmap_insert(m->map, m->ids[k + 1], m->seeds, &m->n_seeds, n, &m->ids[k + 1]));
    }
    return SL_OK;
}

// Seeds stand type after type; those of a type stay in their order.
static void sort_seeds(struct sl_pair_maker *m)
{
    const struct sl_relation *r = sl_dataset_linked(m->items.ds);
    const struct sl_vertex_type *type = m->items.ds->typed.type;
    const uint64_t second = type[SL_MAX(r->source, r->target)].first;
    uint32_t at[2] = {0, 0}; // where the next seed of each of the two types goes
    for (uint32_t i = 0; i < m->n_seeds; i++)
        at[1] += m->seeds[i] < second;
    memcpy(m->renumbered, m->seeds, m->n_seeds * sizeof *m->seeds);
    for (uint32_t i = 0; i < m->n_seeds; i++) {
        const uint32_t v = m->renumbered[i], place = at[v >= second]++;
        m->seeds[place] = v;
        m->renumbered[i] = place;
    }
    for (uint64_t k = 0; k < 2 * (uint64_t)m->pairs.n; k++)
        m->ids[k] = m->renumbered[m->ids[k]];
}

static int reserve(struct sl_pair_maker *m, uint64_t n)
{
    if (n <= m->capacity)
        return SL_OK;
    free(m->ids);
    free(m->weight);
    free(m->seeds);
    m->ids = malloc(2 * n * sizeof *m->ids);
    m->weight = malloc(2 * n * sizeof *m->weight);
    m->seeds = malloc(2 * n * sizeof *m->seeds);
    free(m->source_of);
    free(m->renumbered);
    m->source_of = m->hard.most ? malloc(n * sizeof *m->source_of) : NULL;
    m->renumbered = joins_types(m) ? malloc(2 * n * sizeof *m->renumbered) : NULL;
    m->capacity = m->ids && m->weight && m->seeds && (m->source_of || !m->hard.most) &&
                          (m->renumbered || !joins_types(m))
                      ? n
                      : 0;
    if (!m->capacity)
        return sl_fail(SL_ENOMEM,
                       "sampling: no memory for a mini-batch of %" PRIu64
                       " pairs: set sampler.batch_size or task.per_positive lower",
                       n);
    m->shift = m->weight + n;
    return SL_OK;
}

int sl_pair_maker_make(struct sl_pair_maker *m, uint32_t epoch, uint32_t batch,
                       const uint32_t *items, uint32_t n_items)
{
    const uint64_t n = (uint64_t)n_items * (1 + m->per_positive);
    SL_TRY(reserve(m, n));
    m->pairs = (struct sl_pairs){.n = (uint32_t)n,
                                 .n_positive = n_items,
                                 .per_positive = m->per_positive,
                                 .ids = m->ids,
                                 .weight = m->weight,
                                 .shift = m->shift};
    sl_link_items_pairs(&m->items, items, n_items, m->ids);
    const float *weight = m->items.edges.weight;
    for (uint32_t i = 0; i < n_items; i++)
        m->weight[i] = weight ? weight[items[i]] : 1;
    put_shifts(m);
    SL_TRY(find_hard(m, epoch, batch));
    draw_negatives(m, epoch, batch, items);
    SL_TRY(number_ends(m));
    if (joins_types(m))
        sort_seeds(m);
    return SL_OK;
}

int sl_pair_maker_find_seeds(struct sl_pair_maker *m, struct sl_draw_job *job)
{
    SL_TRY(sl_pair_maker_make(m, job->epoch, job->batch, job->seeds, job->n_seeds));
    job->seeds = m->seeds;
    job->n_seeds = m->n_seeds;
    job->pairs = &m->pairs;
    m->targets.pairs = m->pairs.ids;
    m->targets.n = m->pairs.n_positive;
    job->targets = m->exclude == SL_EXCLUDE_NONE ? NULL : &m->targets;
    return SL_OK;
}
