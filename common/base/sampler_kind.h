/*
 * sampler_kind.h - the table of all ways to sample neighbours.
 *
 * A kind is one line of the list: its constant, its word in a job file, the name of its kernels,
 * and what it needs. All else follows: the job file's words, the slots of the kernel tables
 * (kernels/kernels.h), what a data set must have, which arrays a block has. No code asks for one
 * kind by name, only for its properties.
 *
 * Used by C and by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_BASE_SAMPLER_KIND_H
#define SL_BASE_SAMPLER_KIND_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_SAMPLER_BY_WEIGHT = 1, // needs the data set's edge weights
    SL_SAMPLER_VISITS = 2,    // a row has at most paths * length edges, which carry visits
    SL_SAMPLER_UNIFORM = 4,   // each of a row's edges is as likely to be taken
    SL_SAMPLER_REPLACES = 8,  // can draw with replacement (sampler.replace)
};

/*
 * X(extra, constant, word, kernel, flags). Kernel K is sl_ref_K, sl_cpu_K, what sl_check_K wants of
 * a hop's arguments, and on a GPU sl_draw_K. Exactly which integers it draws is a definition:
 *
 *   khop_uniform    kernels/khop_internal.h       uniformly
 *   khop_weighted   kernels/weighted_internal.h   by weight
 *   random_walk     kernels/walk_internal.h       PinSAGE's short random walks
 *   labor           kernels/labor_internal.h      uniformly; rows that share neighbours agree
 */
#define SL_SAMPLER_LIST(X, extra)                                                                  \
    X(extra, KHOP, "khop", khop_uniform, SL_SAMPLER_UNIFORM | SL_SAMPLER_REPLACES)                 \
    X(extra, WEIGHTED, "weighted", khop_weighted, SL_SAMPLER_BY_WEIGHT | SL_SAMPLER_REPLACES)      \
    X(extra, WALK, "walk", random_walk, SL_SAMPLER_VISITS)                                         \
    X(extra, LABOR, "labor", labor, SL_SAMPLER_UNIFORM)

// Which edges between a batch's vertices it has (sampler.subgraph): those that were drawn; all
// there are in the graph; those that were drawn, and back.
enum sl_subgraph { SL_SUBGRAPH_DIRECTIONAL, SL_SUBGRAPH_INDUCED, SL_SUBGRAPH_BIDIRECTIONAL };

// Whether edges later than the seed count (sampler.time): all do; only those that are not later do,
// of which a kind draws; likewise, and the latest of them are taken.
enum sl_time_rule { SL_TIME_NONE, SL_TIME_UNIFORM, SL_TIME_LATEST };

#define SL_SAMPLER_CONSTANT(extra, constant, word, kernel, flags) SL_SAMPLER_##constant,
enum sl_sampler_kind { SL_SAMPLER_LIST(SL_SAMPLER_CONSTANT, ) SL_SAMPLER_KINDS };
#undef SL_SAMPLER_CONSTANT

// By kind; the words end with NULL.
extern const char *const sl_sampler_words[SL_SAMPLER_KINDS + 1];
extern const unsigned sl_sampler_flags[SL_SAMPLER_KINDS];

#ifdef __cplusplus
}
#endif

#endif
