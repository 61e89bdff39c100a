#include "common/data/cache_kind.h"

#include "common/base/error.h"
#include "common/data/hotness.h"

static int by_chance(const struct sl_cache_inputs *f, uint32_t *hotness)
{
    return sl_hotness_random(f->seed, f->dataset->n_nodes, f->cancel, hotness);
}

static int by_degree(const struct sl_cache_inputs *f, uint32_t *hotness)
{
    const struct sl_dataset *ds = f->dataset;
    return sl_hotness_degree(ds->indices, ds->indices_dtype, ds->n_edges, ds->n_nodes, f->cancel,
                             hotness);
}

static int stop_on_request(void *facts, uint64_t n)
{
    const struct sl_cache_inputs *f = facts;
    if (f->cancel && atomic_load(f->cancel))
        return sl_fail(SL_EABORTED, "expected visits: stopped on request");
    return SL_OK;
}

static void tell_hop(void *facts, int64_t fanout, const double *drawn_for)
{
    const struct sl_cache_inputs *f = facts;
    f->on_hop(f->ctx, fanout, drawn_for);
}

static int by_expected_visits(const struct sl_cache_inputs *facts, uint32_t *hotness)
{
    struct sl_cache_inputs f = *facts;
    const struct sl_visits_watch watch = {
        .on_vertices = stop_on_request, .ctx = &f, .on_hop = f.on_hop ? tell_hop : NULL};
    return sl_visits_expect(f.dataset, &f.sampling, &watch, hotness);
}

#define ROW(name, word_, kept, ...)      [SL_CACHE_##name] = {.word = word_, __VA_ARGS__},
#define WORD(name, word_, kept, ...)     [SL_CACHE_##name] = word_,
#define SENTENCE(name, word_, kept, ...) " " word_ ": " kept "."

const struct sl_cache_kind sl_cache_kinds[] = {SL_CACHE_KINDS(ROW)};
const char *const sl_cache_words[] = {SL_CACHE_KINDS(WORD) NULL};
const char sl_cache_doc[] =
    "Which vertices' features a trainer keeps in its device's memory." SL_CACHE_KINDS(SENTENCE);

#define NEAR         "a GPU's own memory is nearer to it than the store"
#define FASTER       "memory is faster than the drive that features are read from"
#define NOT_FORESEEN ", and what this sampler meets cannot be foreseen"
#define COUNTED      ", and the first epochs count visits sooner than all edges tell them"
#define NOT_WORTH    ", but one epoch of so few edges is over before all of them tell visits"

enum { PASSED_LEAST = 1 << 27, PASSED_SHARE = 8 };

// Whether a job gains more by a start without expected visits than it loses in its epochs.
static bool starts_sooner(const struct sl_cache_site *site)
{
    return site->passed > PASSED_LEAST && site->passed > PASSED_SHARE * site->sampled;
}

enum sl_cache_policy sl_cache_choose(enum sl_cache_policy asked, const struct sl_cache_site *site,
                                     const char **why)
{
    *why = NULL;
    if (asked != SL_CACHE_AUTO)
        return asked;
    *why = "features are in the memory of the cores that train";
    if (!site->gpus && !site->reads)
        return SL_CACHE_NONE;
    if (site->uniform && starts_sooner(site)) {
        if (site->once)
            *why = site->gpus ? NEAR NOT_WORTH : FASTER NOT_WORTH;
        else
            *why = site->gpus ? NEAR COUNTED : FASTER COUNTED;
        return site->once ? SL_CACHE_NONE : SL_CACHE_PRESC;
    }
    if (site->uniform) {
        *why = site->gpus ? NEAR : FASTER;
        return SL_CACHE_EXPECTED;
    }
    *why = site->gpus ? NEAR NOT_FORESEEN : FASTER NOT_FORESEEN;
    return SL_CACHE_DEGREE;
}

const struct sl_cache_kind *sl_cache_foresees(bool uniform)
{
    return &sl_cache_kinds[uniform ? SL_CACHE_EXPECTED : SL_CACHE_DEGREE];
}
