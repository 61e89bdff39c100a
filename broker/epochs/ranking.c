#include "broker/epochs/ranking.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/features_kind.h"
#include "common/data/hotness.h"
#include "common/arena/visit_counts.h"

enum {
    INLINE_MAX = 1 << 16, // vertices and edges below which it takes no millisecond
    READ_BYTES = 256,     // that a row from elsewhere costs beside its own, see ranking.h
};

// --- what a policy asks for ----------------------------------------------------------------------

static const struct sl_cache_kind *kind_of(const struct sl_config *config)
{
    return &sl_cache_kinds[config->cache.policy];
}

uint32_t sl_ranking_counted_epochs(const struct sl_config *config)
{
    switch (kind_of(config)->counts) {
    case SL_VISITS_NONE: break;
    case SL_VISITS_FIRST: return config->cache.presample_epochs;
    case SL_VISITS_ALL: return config->epochs;
    }
    return 0;
}

uint32_t sl_ranking_presample_phases(const struct sl_config *config)
{
    return kind_of(config)->counts == SL_VISITS_ALL ? config->epochs : 0;
}

uint32_t sl_ranking_first_epoch(const struct sl_config *config)
{
    if (!sl_cache_keeps(config->cache.policy))
        return config->epochs;
    uint32_t trained = sl_ranking_counted_epochs(config) - sl_ranking_presample_phases(config);
    return SL_MIN(trained, config->epochs);
}

bool sl_ranking_is_needed(const struct sl_config *config)
{
    return sl_ranking_first_epoch(config) < config->epochs;
}

bool sl_ranking_reports_optimal(const struct sl_config *config)
{
    return config->cache.report_optimal && sl_ranking_is_needed(config);
}

bool sl_ranking_needs_visits(const struct sl_config *config)
{
    return sl_ranking_is_needed(config) &&
           (sl_ranking_counted_epochs(config) > 0 || config->cache.report_optimal);
}

// --- rows of several widths ----------------------------------------------------------------------

// The order of floats' bits is that of the numbers.
void sl_ranking_weigh(const struct sl_typed *typed, bool is_visits, uint32_t *hotness)
{
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct sl_vertex_type *type = &typed->type[t];
        const double bytes = (double)sl_type_row_bytes(type);
        const float worth = bytes > 0 ? (float)((bytes + READ_BYTES) / bytes) : 0;
        for (uint64_t v = type->first; v < type->first + type->n; v++) {
            float x = (float)hotness[v];
            if (is_visits)
                memcpy(&x, &hotness[v], sizeof x);
            x *= worth;
            memcpy(&hotness[v], &x, sizeof x);
        }
    }
}

// The rows of the order from the i-th on that still fit `bytes`, of which *taken are taken. Returns
// where they end.
static uint64_t fill(const struct sl_typed *typed, const uint32_t *order, uint64_t n, uint64_t i,
                     uint64_t bytes, uint64_t *taken)
{
    for (; i < n; i++) {
        const uint32_t t = sl_typed_type_of(typed, order[i]);
        const uint64_t more = sl_type_row_bytes(&typed->type[t]);
        if (more > bytes - *taken)
            break;
        *taken += more;
    }
    return i;
}

// --- the order -----------------------------------------------------------------------------------

// A metric that no sampler counts, into memory of its own (n_nodes).
static int compute_hotness(struct sl_ranking *r, uint32_t *hotness)
{
    const struct sl_config *config = r->setup.config;
    const struct sl_cache_inputs facts = {
        .dataset = r->setup.dataset,
        .seed = config->seed,
        .sampling = sl_config_sampling(config),
        .cancel = &r->cancel,
    };
    return r->kind->hotness(&facts, hotness);
}

// Whether caches are of so many bytes of rows; else, of a plain graph, they are of so many rows.
static bool is_by_bytes(const struct sl_ranking *r)
{
    return r->setup.dataset->typed.n_types > 0;
}

// Where the rows end that caches of each tier's size hold; of the machine's cache those it keeps.
static void find_ends(const struct sl_ranking *r, const uint32_t *order,
                      uint64_t end[SL_VISIT_COUNTS_TIERS_MAX])
{
    const struct sl_dataset *ds = r->setup.dataset;
    const struct sl_row_cache_shape *rows = &r->setup.arena->h->spec.rows;
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(r->setup.arena);
    const uint64_t row_bytes = sl_features_row_bytes(ds);
    const uint64_t kept = sl_row_cache_hot_size(rows, row_bytes);
    uint64_t i = 0, taken = 0;
    for (uint32_t t = 0; t < tiers->n; t++) {
        const uint64_t size = tiers->end[t], n = size == kept ? rows->n_hot : r->setup.n_nodes;
        end[t] = i =
            is_by_bytes(r) ? fill(&ds->typed, order, n, i, size * row_bytes, &taken) : size;
    }
}

// Of sorted tiers, in which a type's vertices stand side by side.
static void note_types(struct sl_ranking *r, const uint32_t *order, const uint64_t *end)
{
    const struct sl_typed *typed = &r->setup.dataset->typed;
    const uint32_t n_tiers = sl_visit_counts_tiers(r->setup.arena)->n;
    for (uint64_t i = 0, tier = 0; typed->n_types > 0 && tier < n_tiers; tier++) {
        uint64_t *held = sl_visit_counts_held(r->setup.arena, (uint32_t)tier);
        for (uint32_t t = 0; t < typed->n_types; t++) {
            const uint64_t behind = typed->type[t].first + typed->type[t].n;
            held[t] = tier ? held[(int64_t)t - typed->n_types] : 0;
            for (; i < end[tier] && order[i] < behind; i++)
                held[t]++;
        }
    }
}

// Puts the vertices of each tier in the order of their ids: through a set of all vertices, whose
// members come out sorted.
static int sort_tiers(struct sl_ranking *r, const uint64_t *end, uint32_t *order)
{
    const struct sl_ranking_setup *s = &r->setup;
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(s->arena);
    uint64_t n_words = sl_div_up(s->n_nodes, 64), i = 0;
    uint64_t *set = calloc(n_words, sizeof *set);
    if (!set)
        return sl_fail(SL_ENOMEM, "no memory for a set of %llu vertices",
                       (unsigned long long)s->n_nodes);
    for (uint32_t t = 0; t < tiers->n && !atomic_load(&r->cancel); t++) {
        for (uint64_t at = i; at < end[t]; at++)
            set[order[at] / 64] |= 1ull << order[at] % 64;
        for (uint64_t w = 0; w < n_words; w++) {
            for (; set[w]; set[w] &= set[w] - 1)
                order[i++] = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(set[w]);
        }
    }
    free(set);
    return atomic_load(&r->cancel) ? SL_EABORTED : SL_OK;
}

// Which width of the cache of rows each type's are of; n_widths: of none.
static void find_widths(const struct sl_typed *typed, const struct sl_row_cache_shape *rows,
                        uint32_t *width)
{
    for (uint32_t t = 0; t < typed->n_types; t++) {
        width[t] = 0;
        while (width[t] < rows->n_widths &&
               rows->width[width[t]].row_bytes != sl_type_row_bytes(&typed->type[t]))
            width[t]++;
    }
}

/*
 * A cache of rows has slots of each width, and keeps the n_hot first of the order: of each width as
 * many of its hottest as it has of the slots. They come first, the others behind them.
 */
static int lead_with_widths(struct sl_ranking *r, uint32_t *order)
{
    const struct sl_row_cache_shape *rows = &r->setup.arena->h->spec.rows;
    const struct sl_typed *typed = &r->setup.dataset->typed;
    uint64_t left[SL_ROW_WIDTHS_MAX + 1] = {0}, n_first = 0, n_rest = 0;
    uint32_t width[SL_TYPES_MAX];
    if (rows->n_hot == 0 || typed->n_types == 0)
        return SL_OK;
    uint32_t *rest = malloc(r->setup.n_nodes * sizeof *rest);
    if (!rest)
        return sl_fail(SL_ENOMEM, "no memory for an order of %llu vertices",
                       (unsigned long long)r->setup.n_nodes);
    find_widths(typed, rows, width);
    for (uint32_t w = 0; w < rows->n_widths; w++)
        left[w] = sl_row_cache_hot_slots(rows, w);
    for (uint64_t i = 0; i < r->setup.n_nodes; i++) {
        uint64_t *of_width = &left[width[sl_typed_type_of(typed, order[i])]];
        if (*of_width > 0) {
            --*of_width;
            order[n_first++] = order[i];
        } else {
            rest[n_rest++] = order[i];
        }
    }
    memcpy(order + n_first, rest, n_rest * sizeof *rest);
    free(rest);
    return SL_OK;
}

// Of hotness nothing is left.
static int order_vertices(struct sl_ranking *r, uint32_t *hotness)
{
    uint32_t *order = sl_visit_counts_order(r->setup.arena);
    uint64_t end[SL_VISIT_COUNTS_TIERS_MAX];
    if (is_by_bytes(r))
        sl_ranking_weigh(&r->setup.dataset->typed, r->kind->is_visits, hotness);
    SL_TRY(sl_hotness_order(hotness, r->setup.n_nodes, &r->cancel, order, NULL));
    SL_TRY(lead_with_widths(r, order));
    find_ends(r, order, end);
    SL_TRY(sort_tiers(r, end, order));
    note_types(r, order, end);
    return SL_OK;
}

static int rank_vertices(struct sl_ranking *r)
{
    const struct sl_ranking_setup *s = &r->setup;
    if (r->kind->counts != SL_VISITS_NONE) {
        // Every block whose visits count has been drawn, so nobody writes any more.
        SL_TRY(order_vertices(r, (uint32_t *)sl_visit_counts_visits(s->arena)));
        sl_visit_counts_forget_visits(s->arena);
        return SL_OK;
    }
    uint32_t *hotness = malloc(s->n_nodes * sizeof *hotness);
    if (!hotness)
        return sl_fail(SL_ENOMEM, "no memory for the hotness of %llu vertices",
                       (unsigned long long)s->n_nodes);
    int rc = compute_hotness(r, hotness);
    if (rc == SL_OK)
        rc = order_vertices(r, hotness);
    free(hotness);
    return rc;
}

// On a thread of libuv's pool: errors are recorded for each thread, so the message is taken along.
static void ranking_work(uv_work_t *work)
{
    struct sl_ranking *r = work->data;
    uint64_t began = sl_now_ns();
    r->rc = rank_vertices(r);
    if (r->rc < 0)
        snprintf(r->message, sizeof r->message, "%s", sl_error_message());
    r->seconds = (double)(sl_now_ns() - began) * 1e-9;
}

static void ranking_done(uv_work_t *work, int status)
{
    struct sl_ranking *r = work->data;
    r->state = SL_RANKING_DONE;
    r->setup.on_done(r->setup.ctx);
}

void sl_ranking_start(struct sl_ranking *r, const struct sl_ranking_setup *setup)
{
    r->setup = *setup;
    r->kind = kind_of(setup->config);
    r->state = SL_RANKING_BUSY;
    r->work.data = r;
    uint64_t size = setup->n_nodes + (r->kind->hotness ? setup->dataset->n_edges : 0);
    if (size > INLINE_MAX && uv_queue_work(setup->loop, &r->work, ranking_work, ranking_done) == 0)
        return;
    ranking_work(&r->work);
    ranking_done(&r->work, 0);
}

void sl_ranking_cancel(struct sl_ranking *r)
{
    atomic_store(&r->cancel, true);
}

// --- the best there could have been --------------------------------------------------------------

// Of rows of several widths: that of the order by these visits, of vertices that have features.
static int best_by_bytes(const struct sl_optimum *o, uint32_t *visits, double *rate)
{
    const struct sl_dataset *ds = o->dataset;
    const uint64_t n = ds->n_nodes;
    for (uint32_t t = 0; t < ds->typed.n_types; t++)
        if (sl_type_row_bytes(&ds->typed.type[t]) == 0)
            memset(visits + ds->typed.type[t].first, 0, ds->typed.type[t].n * sizeof *visits);
    uint32_t *worth = malloc(2 * n * sizeof *worth);
    uint64_t taken = 0;
    if (!worth)
        return SL_ENOMEM;
    uint32_t *order = worth + n;
    memcpy(worth, visits, n * sizeof *worth);
    sl_ranking_weigh(&ds->typed, false, worth);
    int rc = sl_hotness_order(worth, n, NULL, order, NULL);
    if (rc == SL_OK) {
        const uint64_t bytes = o->capacity * sl_features_row_bytes(ds);
        *rate = sl_hotness_hit_rate(visits, order, n, fill(&ds->typed, order, n, 0, bytes, &taken));
    }
    free(worth);
    return rc;
}

// From a copy: the search passes over the visits more than once and relies on their not changing.
static double best_hit_rate(const struct sl_optimum *o)
{
    const _Atomic uint32_t *visits = sl_visit_counts_visits(o->arena);
    const uint64_t n = o->dataset->n_nodes;
    uint32_t *copy = malloc(n * sizeof *copy);
    double rate;
    if (!copy)
        return NAN;
    for (uint64_t v = 0; v < n; v++)
        copy[v] = atomic_load_explicit(&visits[v], memory_order_relaxed);
    if ((o->dataset->typed.n_types ? best_by_bytes(o, copy, &rate)
                                   : sl_hotness_optimal_hit_rate(copy, n, o->capacity, &rate)) < 0)
        rate = NAN;
    free(copy);
    return rate;
}

static void optimum_work(uv_work_t *work)
{
    struct sl_optimum *o = work->data;
    o->hit_rate = best_hit_rate(o);
}

static void optimum_done(uv_work_t *work, int status)
{
    struct sl_optimum *o = work->data;
    o->busy = false;
    o->on_done(o->ctx);
}

bool sl_optimum_start(struct sl_optimum *o, uv_loop_t *loop, struct sl_arena *arena,
                      const struct sl_dataset *dataset, uint64_t capacity, void (*on_done)(void *),
                      void *ctx)
{
    *o = (struct sl_optimum){
        .arena = arena,
        .dataset = dataset,
        .capacity = capacity,
        .hit_rate = NAN,
        .busy = true,
        .on_done = on_done,
        .ctx = ctx,
    };
    o->work.data = o;
    if (dataset->n_nodes > INLINE_MAX &&
        uv_queue_work(loop, &o->work, optimum_work, optimum_done) == 0)
        return false;
    optimum_work(&o->work);
    o->busy = false;
    return true;
}
