/*
 * cache_kind.h - the cache policies: what a job calls them, and what each goes by.
 *
 * A policy is a metric: it gives every vertex a hotness, and a cache holds the hottest (hotness.h).
 * One policy is one row of SL_CACHE_KINDS, and its metric a function of cache_kind.c. From the row
 * follow the word in the job file, its description and which keys go with it (config/keys.c), when
 * and from what vertices are ranked (broker/epochs/ranking.h), what the arena keeps, and what
 * reports say. No other file names a policy, tests apart (scripts/lint tables).
 *
 * A metric is either known of the data set, and then the first epoch is cached already; or it is
 * the visits of epochs that have been sampled, which samplers count.
 */
#ifndef SL_DATA_CACHE_KIND_H
#define SL_DATA_CACHE_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/expected_visits.h"

// Which epochs' visits are a policy's metric.
enum sl_visit_count {
    SL_VISITS_NONE,
    SL_VISITS_FIRST, // those of the first cache.presample_epochs, which train without a cache
    SL_VISITS_ALL,   // of the whole job, which is sampled ahead of training
};

// What a metric can be computed from before the first batch.
struct sl_cache_inputs {
    const struct sl_dataset *dataset;   // topology and training vertices
    uint64_t seed;                      // the job's
    struct sl_visits_sampling sampling; // of training
    const atomic_bool *cancel;          // SL_EABORTED once it is set; may be NULL
    // May be NULL: what metrics that are visits find on the way (sl_visits_watch).
    void (*on_hop)(void *ctx, int64_t fanout, const double *drawn_for);
    void *ctx;
};

struct sl_cache_kind {
    const char *word; // in the job file, reports and metrics
    enum sl_visit_count counts;
    // Fills hotness (n_nodes), on any thread; NULL where visits are counted, and without a cache.
    int (*hotness)(const struct sl_cache_inputs *facts, uint32_t *hotness);
    bool is_visits;    // hotness: the bits of a float, how often an epoch is expected to read it
    bool uniform_only; // foresees neighbours that are sampled uniformly (SL_SAMPLER_UNIFORM)
};

// X(name, word, which vertices are kept, further fields of the row)
// clang-format off
#define SL_CACHE_KINDS(X)                                                                          \
    X(NONE,    "none",    "no cache", .hotness = NULL)                                             \
    X(RANDOM,  "random",  "random ones", .hotness = by_chance)                                     \
    X(DEGREE,  "degree",  "the highest out-degrees", .hotness = by_degree)                         \
    X(EXPECTED, "expected", "the most expected visits of uniform sampling (khop or labor)",        \
      .hotness = by_expected_visits, .is_visits = true, .uniform_only = true)                    \
    X(PRESC,   "presc",   "the most visits in the first epochs",                                   \
      .counts = SL_VISITS_FIRST)                                                                   \
    X(OPTIMAL, "optimal", "the most visits of the job, which is drawn twice, for comparison",      \
      .counts = SL_VISITS_ALL)                                                                     \
    X(AUTO,    "auto",    "where GPUs train or features are on the drive, expected (presc where " \
      "the job samples few of very many edges, degree where sampling is not uniform); else none", \
      .hotness = NULL)
// clang-format on

#define SL_CACHE_NAME(name, ...) SL_CACHE_##name,
enum sl_cache_policy { SL_CACHE_KINDS(SL_CACHE_NAME) SL_CACHE_COUNT };
#undef SL_CACHE_NAME

extern const struct sl_cache_kind sl_cache_kinds[SL_CACHE_COUNT]; // by enum sl_cache_policy
extern const char *const sl_cache_words[SL_CACHE_COUNT + 1];      // the same, then NULL
extern const char sl_cache_doc[];                                 // what each keeps

// What AUTO goes by.
struct sl_cache_site {
    bool gpus;      // train
    bool reads;     // features are read from the drive (features_kind.h)
    bool uniform;   // is how neighbours are sampled
    bool once;      // there is a single epoch
    double passed;  // edges that expected visits are computed from: all of the graph, in each hop
    double sampled; // edges, by all epochs
};

/*
 * What AUTO becomes, and every other policy stays. *why is a text that stays, NULL for the others.
 *
 * An order by expected visits is there before the first batch, which waits for it: 11 ns an edge
 * and hop on two cores, 80 s of a graph of 2.3 G edges. Visits that are counted cost nothing, but
 * the first epochs have no ranked rows, and later ones of a short count take longer, by up to a
 * sixth where features are read from the drive. So they are counted where the pass goes over more
 * than 8 times as many edges as the whole job samples by its fanouts: it takes as long as 8 epochs
 * of GraphSAGE of 3 x 256 there (15 M edges in 10 s), in a job of 50 at most. In the first epoch of
 * a cold cache before the drive an order saved no read at all. A single such epoch has no cache.
 * Not of small graphs, whose pass takes a second or two.
 */
enum sl_cache_policy sl_cache_choose(enum sl_cache_policy asked, const struct sl_cache_site *site,
                                     const char **why);

// The kind whose hotness, known before the first batch, is nearest to how often a vertex is read.
const struct sl_cache_kind *sl_cache_foresees(bool uniform);

// Whether there is a cache at all; of AUTO it is not known yet.
static inline bool sl_cache_keeps(enum sl_cache_policy policy)
{
    return sl_cache_kinds[policy].hotness || sl_cache_kinds[policy].counts != SL_VISITS_NONE;
}

#endif
