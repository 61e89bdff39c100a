/*
 * draw_steps.cuh - the steps that a batch is drawn in: a relation in a hop, and of a plain graph a
 * hop; what room each has, and where it finds what others have counted.
 */
#ifndef SL_KERNELS_CUDA_DRAW_STEPS_CUH
#define SL_KERNELS_CUDA_DRAW_STEPS_CUH

#include "kernels/cuda/draw.cuh"

#define SL_DRAW_NO_STEP UINT32_MAX

struct sl_draw_step {
    uint32_t hop, relation;
    int64_t fanout;   // 0: its rows are empty
    uint32_t take;    // places a row; 0 where rows are counted first
    uint64_t edges;   // room, with those kept
    uint32_t earlier; // the step whose rows are kept, or SL_DRAW_NO_STEP
    uint32_t before;  // the count of the vertices of its source type
};

// Counts of vertices: the seeds, none, and those of its source type after each step.
enum { SL_DRAW_SEEDS, SL_DRAW_NOBODY, SL_DRAW_FOUND };

// The room of one attempt.
struct sl_draw_steps {
    const struct sl_draw_types *types;
    uint32_t n_hops, n_steps;
    struct sl_draw_step *step; // (n_hops, n_relations at most)
    uint32_t *last;            // (n_relations) each one's last step, or SL_DRAW_NO_STEP
    // (n_hops + 1, n_types) before each hop, and at the end: room, and which count has them
    uint64_t *rows;
    uint32_t *at;
    uint64_t values; // of the table: a multiple of 32
    uint64_t slots;  // of the table, a power of two
};

// What batches wanted where the first room was too small.
struct sl_draw_wanted {
    uint64_t *rows;   // (n_hops + 1, n_types)
    uint64_t *edges;  // (n_hops, n_relations)
    uint64_t largest; // vertices of a batch
    uint64_t slots;   // of the table, where it was full
};

static inline uint32_t *sl_draw_at(const struct sl_draw_steps *p, uint32_t h, uint32_t type)
{
    return &p->at[(uint64_t)h * p->types->n_types + type];
}

static inline uint64_t *sl_draw_rows(const struct sl_draw_steps *p, uint32_t h, uint32_t type)
{
    return &p->rows[(uint64_t)h * p->types->n_types + type];
}

// The last step of a relation, or NULL.
static inline const struct sl_draw_step *sl_draw_last(const struct sl_draw_steps *p,
                                                      uint32_t relation)
{
    return p->last[relation] == SL_DRAW_NO_STEP ? NULL : &p->step[p->last[relation]];
}

// Whether the steps share one row of values, each a longer part of it.
static inline bool sl_draw_shares_values(const struct sl_draw_args *args,
                                         const struct sl_draw_steps *p)
{
    return args->expand_new && p->types->n_relations == 1;
}

const struct sl_draw_sampler *sl_draw_sampler_of(enum sl_sampler_kind kind);
bool sl_draw_counts_visits(const struct sl_draw_args *args);

// Whatever can be wrong with a batch, hops in the words of the processor's samplers.
int sl_draw_check(const struct sl_draw_args *args);
// The steps of a batch that can be drawn, in lists that have room for them.
int sl_draw_make_steps(const struct sl_draw_wanted *w, const struct sl_draw_args *args,
                       struct sl_draw_steps *p);

#endif
