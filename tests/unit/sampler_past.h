// sampler_past.h - trees by time (sampler.time) beside those of the graph as it was: what the tests
// of plain and of typed graphs share. Both have fx and drawer, and a drawer of the reference.
#ifndef SL_TESTS_UNIT_SAMPLER_PAST_H
#define SL_TESTS_UNIT_SAMPLER_PAST_H

#include "tests/unit/sampler_fixture.h"

static int64_t *edge_time, node_time[500]; // of every edge; in each list they rise

static inline int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The graph as it was: of each list the edges that are not too late, or the last k of those; of
// lists without times all.
struct past {
    struct sl_topology topology;
    uint64_t *indptr, *edge_of;
    int32_t *indices;
    double *prefix;
};

static inline bool counts(const struct sl_draw_plan *plan, uint32_t seed, uint64_t e)
{
    return edge_time[e] < node_time[seed] ||
           (!plan->time_strict && edge_time[e] == node_time[seed]);
}

static inline void past_make(struct past *p, const struct sl_topology *now,
                             const struct sl_draw_plan *plan, uint32_t seed,
                             bool (*has_times)(uint64_t list))
{
    const struct sl_dataset *ds = &now->dataset;
    const uint64_t n_lists = sl_dataset_lists(ds);
    const uint64_t *indptr = ds->indptr;
    const int32_t *indices = ds->indices;
    const double *prefix = now->view.weight_prefix;
    uint64_t n = 0;
    p->indptr = fixture_alloc((n_lists + 1) * sizeof *p->indptr);
    p->edge_of = fixture_alloc(ds->n_edges * sizeof *p->edge_of);
    p->indices = fixture_alloc(ds->n_edges * sizeof *p->indices);
    p->prefix = fixture_alloc(ds->n_edges * sizeof *p->prefix);
    for (uint64_t list = 0; list < n_lists; list++) {
        const bool timed = has_times(list);
        int64_t left = 0;
        p->indptr[list] = n;
        for (uint64_t e = indptr[list]; e < indptr[list + 1]; e++)
            left += counts(plan, seed, e);
        for (uint64_t e = indptr[list]; e < indptr[list + 1]; e++) {
            if (timed && !counts(plan, seed, e))
                continue;
            if (timed && plan->time == SL_TIME_LATEST && left-- > plan->fanout[0] &&
                plan->fanout[0] >= 0)
                continue;
            p->edge_of[n] = e;
            p->indices[n] = indices[e];
            p->prefix[n++] = prefix[e];
        }
    }
    p->indptr[n_lists] = n;
    p->topology = *now;
    p->topology.dataset.indptr = p->topology.view.indptr = p->indptr;
    p->topology.dataset.indices = p->topology.view.indices = p->indices;
    p->topology.dataset.n_edges = n;
    p->topology.view.weight_prefix = p->prefix;
}

static inline void past_free(struct past *p)
{
    free(p->indptr);
    free(p->edge_of);
    free(p->indices);
    free(p->prefix);
}

// A seed's tree by `timed`, and what a disjoint batch of the graph as it was has, whose edges
// rename() gives the numbers of now.
static inline void past_compare(const struct past *p, const struct sl_draw_plan *timed,
                                struct sl_drawer *from, uint32_t epoch, uint32_t seed,
                                void (*rename)(struct sl_block *b, const struct sl_draw_plan *plan,
                                               const uint64_t *edge_of))
{
    struct sl_drawer of_past;
    struct sl_draw_plan plan = *timed;
    plan.time = SL_TIME_NONE;
    ck_assert_int_eq(sl_drawer_init(&of_past, &p->topology, sl_kernels_ref()), SL_OK);
    struct sl_block *got = fixture_draw(from, timed, epoch, seed, &seed, 1);
    struct sl_block *want = fixture_draw(&of_past, &plan, epoch, seed, &seed, 1);
    if (plan.edge_ids)
        rename(want, &plan, p->edge_of);
    EXPECT(got->bytes == want->bytes && memcmp(got, want, got->bytes) == 0,
           "seed %u of time %lld: another tree", seed, (long long)node_time[seed]);
    free(got);
    free(want);
    sl_drawer_fini(&of_past);
}

// Calls compare(plan, back end, i) for plans of the latest edges: few, exactly as many as some
// lists have, all; drawn anew in each hop, or once.
static inline void compare_latest(int variant, uint32_t n,
                                  void (*compare)(const struct sl_draw_plan *plan, int back_end,
                                                  uint32_t i))
{
    static const int64_t fanouts[] = {1, 5, 20, -1};
    struct sl_draw_plan plan = {.n_hops = 3,
                                .disjoint = true,
                                .time = SL_TIME_LATEST,
                                .edge_ids = true,
                                .expand_new = variant % 2,
                                .stream = SL_RNG_SAMPLE};
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t h = 0; h < 3; h++)
            plan.fanout[h] = fanouts[i % 4];
        plan.time_strict = i % 3 == 0;
        compare(&plan, variant / 2, i);
    }
}

#endif
