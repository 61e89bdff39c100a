// The neighbourhoods that inference finds by random walks.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/model/neighbours.h"

enum { NODES = 60, PATHS = 8, LENGTH = 3, STEPS = PATHS * LENGTH, LAYERS = 3 };

struct drawn {
    uint32_t n, ids[STEPS];
    float visits[STEPS];
};

static struct fixture_graph g;
static struct sl_config config;

static void setup(void)
{
    g = fixture_graph(NODES, 2, 2, 4);
    fixture_add_loops(&g);
    config = fixture_config(SL_MODEL_PINSAGE, LAYERS, 4);
    config.sampler.kind = SL_SAMPLER_WALK;
    config.sampler.paths = PATHS;
    config.sampler.length = LENGTH;
    config.sampler.restart = 0.2;
    config.sampler.fanout[0] = 3;
    config.sampler.fanout[1] = 100; // more than can be met
    config.sampler.fanout[2] = -1;
}

static void teardown(void)
{
    fixture_graph_free(&g);
}

static struct sl_neighbours open_with(const struct sl_kernels *kernels)
{
    struct sl_neighbours n;
    ck_assert_int_eq(sl_neighbours_init(&n, &config, &g.ds, kernels), SL_OK);
    return n;
}

static struct drawn draw(struct sl_neighbours *n, uint32_t layer, uint32_t v)
{
    struct drawn d = {0};
    ck_assert_int_eq(sl_neighbours_draw(n, layer, 0, v, d.ids, d.visits, &d.n), SL_OK);
    return d;
}

static bool equal(const struct drawn *a, const struct drawn *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

TEST(only_jobs_of_walks_walk)
{
    ck_assert(sl_neighbours_walks(&config));
    config.sampler.kind = SL_SAMPLER_KHOP;
    ck_assert(!sl_neighbours_walks(&config));
}

TEST(they_are_who_walks_met_most_often)
{
    struct sl_neighbours n = open_with(sl_kernels_cpu());
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t v = 0; v < NODES; v++) {
            struct drawn d = draw(&n, layer, v);
            ck_assert_uint_le(d.n, sl_neighbours_bound(&n, layer, 0));
            double visits = 0;
            for (uint32_t k = 0; k < d.n; k++) {
                ck_assert(d.ids[k] < NODES && d.ids[k] != v);
                ck_assert(d.visits[k] >= 1 && (k == 0 || d.visits[k] <= d.visits[k - 1]));
                visits += d.visits[k];
            }
            ck_assert(visits <= STEPS);
            uint32_t others = (uint32_t)sl_dataset_degree(&g.ds, v) - fixture_own_loops(&g.ds, v);
            ck_assert_msg((d.n > 0) == (others > 0), "vertex %u: %u of %u", v, d.n, others);
        }
    sl_neighbours_fini(&n);
}

TEST(the_fanout_is_the_hops)
{
    struct sl_neighbours n = open_with(sl_kernels_cpu());
    ck_assert_uint_eq(sl_neighbours_bound(&n, 2, 0), 3); // next to the seeds is the last layer
    ck_assert_uint_eq(sl_neighbours_bound(&n, 1, 0), STEPS);
    ck_assert_uint_eq(sl_neighbours_bound(&n, 0, 0), STEPS);
    ck_assert_uint_eq(draw(&n, 2, 0).n, 3);
    ck_assert_uint_gt(draw(&n, 1, 0).n, 3);
    sl_neighbours_fini(&n);
}

TEST(a_vertex_is_drawn_by_itself)
{
    struct sl_neighbours a = open_with(sl_kernels_cpu()), b = open_with(sl_kernels_ref());
    struct drawn there[LAYERS][NODES];
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t v = 0; v < NODES; v++)
            there[layer][v] = draw(&a, layer, v);
    // Backwards, layer by layer mixed, by the other back end.
    for (uint32_t v = NODES; v-- > 0;)
        for (uint32_t layer = LAYERS; layer-- > 0;) {
            struct drawn d = draw(&b, layer, v);
            ck_assert_msg(equal(&d, &there[layer][v]), "vertex %u, layer %u", v, layer);
        }
    // Layers and vertices have walks of their own, and so has another job.
    ck_assert(!equal(&there[0][0], &there[1][0]));
    sl_neighbours_fini(&b);
    config.seed++;
    b = open_with(sl_kernels_cpu());
    struct drawn d = draw(&b, 0, 0);
    ck_assert(!equal(&d, &there[0][0]));
    sl_neighbours_fini(&a);
    sl_neighbours_fini(&b);
}

// Two vertices with the same neighbours do not meet the same ones.
TEST(vertices_have_walks_of_their_own)
{
    for (uint32_t v = 0; v <= NODES; v++)
        g.indptr[v] = SL_MIN(v, 2u) * 30;
    for (uint32_t e = 0; e < 60; e++)
        g.indices[e] = 2 + e % 30;
    struct sl_neighbours n = open_with(sl_kernels_cpu());
    struct drawn a = draw(&n, 0, 0), b = draw(&n, 0, 1);
    ck_assert_uint_gt(a.n, 3);
    ck_assert(!equal(&a, &b));
    sl_neighbours_fini(&n);
}

TEST(a_graph_of_one_vertex)
{
    g.ds.n_nodes = 1;
    g.ds.n_edges = g.indptr[1] = 1;
    g.indices[0] = 0;
    struct sl_neighbours n = open_with(sl_kernels_cpu());
    ck_assert_uint_eq(sl_neighbours_bound(&n, 0, 0), 0);
    ck_assert_uint_eq(draw(&n, 0, 0).n, 0);
    sl_neighbours_fini(&n);
    sl_neighbours_fini(&n);
}

TEST(layers_that_are_not_there)
{
    struct sl_neighbours n = open_with(sl_kernels_cpu());
    uint32_t ids[STEPS], count;
    float visits[STEPS];
    ck_assert_int_eq(sl_neighbours_draw(&n, LAYERS, 0, 0, ids, visits, &count), SL_EINVAL);
    sl_neighbours_fini(&n);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 30)
