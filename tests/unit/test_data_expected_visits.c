// Expected visits: by hand on a small graph, and against a plain sum over walks on others.
#include "common/data/expected_visits.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { NODES_MAX = 70000, EDGES_MAX = 4 * NODES_MAX };

static uint64_t indptr[NODES_MAX + 1], wide[EDGES_MAX];
static uint32_t narrow[EDGES_MAX], train[NODES_MAX], hotness[NODES_MAX + 1];
static struct sl_dataset dataset;
static uint64_t seen; // by the watch
static int verdict;   // of the watch
static bool expands_new, replaces;

static int on_vertices(void *ctx, uint64_t n)
{
    ck_assert_ptr_eq(ctx, &dataset);
    seen += n;
    return verdict;
}

static const struct sl_visits_watch watch = {.on_vertices = on_vertices, .ctx = &dataset};

static void must(int rc)
{
    if (rc < 0)
        ck_abort_msg("%s", sl_error_message());
}

static float visits_of(uint32_t v)
{
    float visits;
    memcpy(&visits, &hotness[v], sizeof visits);
    return visits;
}

static int find(const int64_t *fanout, uint32_t n_hops, const struct sl_visits_watch *w)
{
    const struct sl_visits_sampling sampling = {
        .fanout = fanout, .n_hops = n_hops, .expands_new = expands_new, .replaces = replaces};
    return sl_visits_expect(&dataset, &sampling, w, hotness);
}

static void expect(const int64_t *fanout, uint32_t n_hops, const float *want)
{
    must(find(fanout, n_hops, &watch));
    for (uint32_t v = 0; v < dataset.n_nodes; v++)
        ck_assert_float_eq_tol(visits_of(v), want[v], 1e-6f);
}

// Vertex 0 has the in-neighbours 1, 2, 3, 3; 3 has 0; 4 has itself.
TEST(visits_by_hand)
{
    static const uint64_t offsets[] = {0, 4, 4, 4, 5, 6};
    static const int32_t sources[] = {1, 2, 3, 3, 0, 4};
    static const uint32_t trained[] = {0, 4};
    dataset = (struct sl_dataset){
        .n_nodes = 5,
        .n_edges = 6,
        .indptr = offsets,
        .indices = sources,
        .indices_dtype = SL_DTYPE_I32,
        .split = {{2, trained}},
    };
    expect(NULL, 0, (float[]){1, 0, 0, 0, 1});
    expect((int64_t[]){-1}, 1, (float[]){1, 1, 1, 2, 2});
    expect((int64_t[]){4}, 1, (float[]){1, 1, 1, 2, 2});
    expect((int64_t[]){1}, 1, (float[]){1, .25f, .25f, .5f, 2});
    // The second hop draws for 0 and 4 again, and for what the first drew: 3, 1.5 times.
    expect((int64_t[]){3, 1}, 2, (float[]){2.5f, 1, 1, 2, 4});
    // Or for what the first drew alone: 0 is drawn for once, and found again from 3, 1.5 times.
    expands_new = true;
    expect((int64_t[]){3, 1}, 2, (float[]){2.5f, .75f, .75f, 1.5f, 3});
    // With replacement each of four edges is missed with a chance of (3/4)^3.
    expands_new = false;
    replaces = true;
    const float chance = 1 - 27.0f / 64;
    expect((int64_t[]){3}, 1, (float[]){1, chance, chance, 2 * chance, 2});
    expect((int64_t[]){-1}, 1, (float[]){1, 1, 1, 2, 2});
    expect((int64_t[]){0}, 1, (float[]){1, 0, 0, 0, 1});
    replaces = false;
    dataset.split[SL_SPLIT_TRAIN].n = 0;
    expect((int64_t[]){3, 1}, 2, (float[]){0, 0, 0, 0, 0});
}

// Papers 0 and 1, authors 2 and 3, field 4. Authors 2, 3, 3 write paper 0, each paper cites the
// other; back from papers author 2 has 0, author 3 has 0 and 1; and author 2 has the field.
TEST(visits_of_several_types_by_hand)
{
    static const uint64_t offsets[] = {0, 3, 3, 4, 5, 6, 8, 9, 9};
    static const int32_t sources[] = {2, 3, 3, 1, 0, 0, 0, 1, 4};
    static const uint32_t trained[] = {0};
    static struct sl_vertex_type types[] = {{.n = 2}, {.first = 2, .n = 2}, {.first = 4, .n = 1}};
    static struct sl_relation relations[] = {
        {.source = 1},
        {.first_row = 2, .first_edge = 3},
        {.target = 1, .first_row = 4, .first_edge = 5},
        {.source = 2, .target = 1, .first_row = 6, .first_edge = 8},
    };
    dataset = (struct sl_dataset){
        .n_nodes = 5,
        .n_edges = 9,
        .typed =
            {.n_types = 3, .n_relations = 4, .n_rows = 8, .type = types, .relation = relations},
        .indptr = offsets,
        .indices = sources,
        .indices_dtype = SL_DTYPE_I32,
        .split = {{1, trained}},
    };
    const float third = 1 / 3.0f;
    expect((int64_t[]){2}, 1, (float[]){1, 1, 2 * third, 4 * third, 0});
    expect((int64_t[]){2, 1}, 2, (float[]){10 * third, 8 * third, 1, 2, 2 * third});
    // What has no list, or is not drawn for, is kept.
    expect((int64_t[]){2, 1, 0}, 3, (float[]){10 * third, 8 * third, 1, 2, 2 * third});
    expands_new = true;
    expect((int64_t[]){2, 1}, 2, (float[]){10 * third, 5 * third, 2 * third, 4 * third, 2 * third});
    expands_new = false;
}

static float merged(float ends)
{
    return 2 * (1 - expf(-ends / 2)); // 2 batches
}

// Pairs 1 > 0, 2 > 0, 3 > 0, 3 > 0, 0 > 3, 4 > 4 of the graph, three a batch; or those of a list.
LOOP_TEST(visits_of_pairs_by_hand, 0, 2)
{
    static const uint64_t offsets[] = {0, 4, 4, 4, 5, 6};
    static const int32_t sources[] = {1, 2, 3, 3, 0, 4};
    static const uint32_t listed[] = {1, 0, 2, 0, 3, 0, 3, 0, 0, 3, 4, 4};
    const double by_degree = pow(4, 0.75);
    dataset = (struct sl_dataset){
        .n_nodes = 5,
        .n_edges = 6,
        .indptr = offsets,
        .indices = sources,
        .indices_dtype = SL_DTYPE_I32,
        .task = SL_TASK_LINK,
        .split = {{.n = 6}},
        .edges = {{.n = 6, .ids = _i ? listed : NULL}},
    };
    struct sl_visits_sampling sampling = {.batch_size = 3};
    static const float ends[] = {5, 1, 1, 3, 2};
    must(sl_visits_expect(&dataset, &sampling, &watch, hotness));
    for (uint32_t v = 0; v < 5; v++)
        ck_assert_float_eq_tol(visits_of(v), merged(ends[v]), 1e-6f);
    sampling.negatives = 10; // of each pair: 12 of each vertex
    must(sl_visits_expect(&dataset, &sampling, &watch, hotness));
    for (uint32_t v = 0; v < 5; v++)
        ck_assert_float_eq_tol(visits_of(v), merged(ends[v] + 12), 1e-6f);
    sampling.negatives = 1; // 6 of the targets 0, 3 and 4
    sampling.negatives_by_degree = true;
    must(sl_visits_expect(&dataset, &sampling, &watch, hotness));
    const double shares[] = {by_degree, 0, 0, 1, 1};
    for (uint32_t v = 0; v < 5; v++)
        ck_assert_float_eq_tol(visits_of(v),
                               merged(ends[v] + (float)(6 * shares[v] / (by_degree + 2))), 1e-5f);
    // And on from the seeds as ever.
    const int64_t all = -1;
    sampling = (struct sl_visits_sampling){.batch_size = 3, .fanout = &all, .n_hops = 1};
    must(sl_visits_expect(&dataset, &sampling, &watch, hotness));
    ck_assert_float_eq_tol(visits_of(3), merged(3) + 2 * merged(5), 1e-5f);
}

static void expect_ends(const struct sl_visits_sampling *sampling, const double ends[8])
{
    const double batches = 3 / sampling->batch_size;
    must(sl_visits_expect(&dataset, sampling, &watch, hotness));
    for (uint32_t v = 0; v < 8; v++)
        ck_assert_double_eq_tol((double)visits_of(v), batches * -expm1(-ends[v] / batches), 1e-5);
}

// Pairs 3 > 0, 4 > 0, 3 > 2 of users 3 to 5 and items 0 to 2: of the second relation, whose lists
// are behind those of another, or of a list. The graph has fewer lists than vertices.
LOOP_TEST(visits_of_pairs_of_a_relation_by_hand, 0, 2)
{
    static const uint64_t offsets[] = {0, 1, 2, 4, 4, 5};
    static const int32_t sources[] = {4, 5, 3, 4, 3};
    static const uint32_t listed[] = {3, 0, 4, 0, 3, 2};
    static struct sl_vertex_type types[] = {{.n = 3}, {.first = 3, .n = 3}, {.first = 6, .n = 2}};
    static struct sl_relation relations[] = {
        {.source = 1, .target = 2}, {.source = 1, .target = 0, .first_row = 2, .first_edge = 2}};
    dataset = (struct sl_dataset){
        .n_nodes = 8,
        .n_edges = 5,
        .typed = {.n_types = 3,
                  .n_relations = 2,
                  .n_rows = 5,
                  .linked = 1,
                  .type = types,
                  .relation = relations},
        .indptr = offsets,
        .indices = sources,
        .indices_dtype = SL_DTYPE_I32,
        .task = SL_TASK_LINK,
        .split = {{.n = 3}},
        .edges = {{.n = 3, .ids = _i ? listed : NULL}},
    };
    const double two = pow(2, 0.75), each = 3 / (two + 1);
    struct sl_visits_sampling sampling = {.batch_size = 2};
    expect_ends(&sampling, (double[]){2, 0, 1, 2, 1, 0, 0, 0});
    sampling.negatives = 10; // of each pair, of items alone
    expect_ends(&sampling, (double[]){12, 10, 11, 2, 1, 0, 0, 0});
    sampling.negatives = 1;
    sampling.negatives_by_degree = true;
    expect_ends(&sampling, (double[]){2 + two * each, 0, 1 + each, 2, 1, 0, 0, 0});
}

static void make_graph(uint32_t n_nodes, enum sl_dtype dtype)
{
    uint32_t n_edges = 0;
    for (uint32_t v = 0; v < n_nodes; v++) {
        struct sl_rng_block noise =
            sl_philox(5, sl_rng_word0(SL_RNG_GENERATE, 202, 0), v, n_nodes, 0);
        indptr[v] = n_edges;
        for (uint32_t k = 0; k < noise.w[0] % 5; k++, n_edges++)
            wide[n_edges] = narrow[n_edges] = noise.w[k % 3 + 1] / (k + 1) % n_nodes;
        train[v] = v;
    }
    indptr[n_nodes] = n_edges;
    dataset = (struct sl_dataset){
        .n_nodes = n_nodes,
        .n_edges = n_edges,
        .indptr = indptr,
        .indices = sl_dtype_bytes(dtype) == 8 ? (void *)wide : (void *)narrow,
        .indices_dtype = dtype,
        .split = {{n_nodes / 2, train}},
    };
}

// How often what v leads to in `left` hops meets each vertex: of each hop, v and what it draws; or
// of the first hop that, and of each other one what the hop before has drawn.
static void walk(uint32_t v, double weight, const int64_t *fanout, uint32_t left, double *sum)
{
    if (!left || expands_new)
        sum[v] += weight;
    if (!left)
        return;
    uint64_t degree = indptr[v + 1] - indptr[v];
    double share =
        *fanout >= 0 && (uint64_t)*fanout < degree ? (double)*fanout / (double)degree : 1;
    if (!expands_new)
        walk(v, weight, fanout + 1, left - 1, sum);
    for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++)
        walk(narrow[e], weight * share, fanout + 1, left - 1, sum);
}

// The sizes are around that of a thread's blocks, 4096.
LOOP_TEST(visits_are_those_of_all_walks, 0, 14)
{
    static const uint32_t sizes[] = {1, 2, 100, 4095, 4096, 4097, NODES_MAX};
    static const enum sl_dtype types[] = {SL_DTYPE_I32, SL_DTYPE_U32, SL_DTYPE_I64, SL_DTYPE_U64};
    static const int64_t fanout[] = {2, -1, 1};
    static double want[NODES_MAX];
    make_graph(sizes[_i % SL_COUNT_OF(sizes)], types[_i % SL_COUNT_OF(types)]);
    expands_new = _i >= (int)SL_COUNT_OF(sizes);
    hotness[dataset.n_nodes] = 0xfeedface;
    must(find(fanout, SL_COUNT_OF(fanout), &watch));
    ck_assert_uint_eq(hotness[dataset.n_nodes], 0xfeedface);
    ck_assert_uint_eq(seen, SL_COUNT_OF(fanout) * dataset.n_nodes);
    for (uint32_t i = 0; i < dataset.split[SL_SPLIT_TRAIN].n; i++)
        walk(train[i], 1, fanout, SL_COUNT_OF(fanout), want);
    for (uint32_t v = 0; v < dataset.n_nodes; v++)
        ck_assert_float_eq_tol(visits_of(v), (float)want[v], 1e-5f * (1 + (float)want[v]));
}

// --- graphs with types ---------------------------------------------------------------------------

// In-degree, and sources, of vertex v in a relation: by its row.
static void walk_types(uint32_t v, double weight, const int64_t *by_relation, uint32_t left,
                       double *sum)
{
    const struct sl_typed *t = &dataset.typed;
    if (!left || expands_new)
        sum[v] += weight;
    if (!left)
        return;
    if (!expands_new)
        walk_types(v, weight, by_relation + t->n_relations, left - 1, sum);
    for (uint32_t r = 0; r < t->n_relations; r++) {
        const struct sl_vertex_type *target = &t->type[t->relation[r].target];
        if (v < target->first || v >= target->first + target->n)
            continue;
        const uint64_t row = t->relation[r].first_row + v - target->first;
        const double degree = (double)(indptr[row + 1] - indptr[row]);
        const int64_t fanout = by_relation[r];
        const double share = fanout >= 0 && (double)fanout < degree ? (double)fanout / degree : 1;
        for (uint64_t e = indptr[row]; e < indptr[row + 1]; e++)
            walk_types(narrow[e], weight * share, by_relation + t->n_relations, left - 1, sum);
    }
}

// Of 3 types, of which the last is no relation's target, and relations whose rows end in the middle
// of a thread's block.
LOOP_TEST(visits_by_relation_are_those_of_all_walks, 0, 2)
{
    enum { SIZE = 3000, N = 3 * SIZE };
    static struct sl_vertex_type type[] = {
        {.first = 0, .n = SIZE}, {.first = SIZE, .n = SIZE}, {.first = 2 * SIZE, .n = SIZE}};
    static struct sl_relation relation[] = {
        {.source = 1, .target = 0}, {.source = 0, .target = 1}, {.source = 2, .target = 0}};
    static const int64_t fanout[] = {2, -1, 1}, by_relation[] = {2, 1, -1, 1, 3, 0, 1, -1, 2};
    static double want[N];
    make_graph(N, SL_DTYPE_U32); // rows are as many as vertices, by chance
    for (uint32_t r = 0; r < 3; r++) {
        relation[r].first_row = (uint64_t)r * SIZE;
        for (uint64_t e = indptr[r * SIZE]; e < indptr[(r + 1) * SIZE]; e++)
            narrow[e] = (uint32_t)type[relation[r].source].first + narrow[e] % SIZE;
    }
    dataset.typed = (struct sl_typed){
        .n_types = 3, .n_relations = 3, .n_rows = N, .type = type, .relation = relation};
    dataset.split[SL_SPLIT_TRAIN].n = SIZE / 2;
    expands_new = _i;
    const struct sl_visits_sampling sampling = {.fanout = fanout,
                                                .by_relation = by_relation,
                                                .n_hops = SL_COUNT_OF(fanout),
                                                .expands_new = expands_new};
    must(sl_visits_expect(&dataset, &sampling, &watch, hotness));
    for (uint32_t i = 0; i < dataset.split[SL_SPLIT_TRAIN].n; i++)
        walk_types(train[i], 1, by_relation, SL_COUNT_OF(fanout), want);
    for (uint32_t v = 0; v < N; v++)
        ck_assert_float_eq_tol(visits_of(v), (float)want[v], 1e-5f * (1 + (float)want[v]));
}

TEST(visits_are_the_same_on_one_core)
{
    static const int64_t fanout[] = {2, -1, 1};
    static uint32_t on_all[NODES_MAX];
    cpu_set_t one;
    make_graph(NODES_MAX, SL_DTYPE_U32);
    must(find(fanout, SL_COUNT_OF(fanout), &watch));
    memcpy(on_all, hotness, sizeof on_all);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    must(find(fanout, SL_COUNT_OF(fanout), &watch));
    ck_assert(memcmp(on_all, hotness, sizeof on_all) == 0);
}

static int64_t fanouts[2];
static double drawn_for[2]; // before each hop, of all vertices
static uint32_t hops;

static void on_hop(void *ctx, int64_t fanout, const double *draws)
{
    ck_assert_ptr_eq(ctx, &dataset);
    fanouts[hops] = fanout;
    for (uint32_t v = 0; v < dataset.n_nodes; v++)
        drawn_for[hops] += draws[v];
    hops++;
}

TEST(the_watch_sees_what_each_hop_draws_for)
{
    static const uint64_t offsets[] = {0, 4, 4, 4, 5};
    static const int32_t sources[] = {1, 2, 3, 3, 0};
    static const uint32_t trained[] = {0};
    const struct sl_visits_watch sees = {
        .on_vertices = on_vertices, .ctx = &dataset, .on_hop = on_hop};
    dataset = (struct sl_dataset){.n_nodes = 4,
                                  .n_edges = 5,
                                  .indptr = offsets,
                                  .indices = sources,
                                  .indices_dtype = SL_DTYPE_I32,
                                  .split[SL_SPLIT_TRAIN] = {.ids = trained, .n = 1}};
    must(find((int64_t[]){2, -1}, 2, &sees));
    ck_assert_uint_eq(hops, 2);
    ck_assert_int_eq(fanouts[0], 2);
    ck_assert_int_eq(fanouts[1], -1);
    ck_assert_double_eq_tol(drawn_for[0], 1, 1e-9); // the seed
    ck_assert_double_eq_tol(drawn_for[1], 3, 1e-9); // and two neighbours
    expands_new = true;
    hops = 0;
    drawn_for[1] = 0;
    must(find((int64_t[]){2, -1}, 2, &sees));
    ck_assert_double_eq_tol(drawn_for[1], 2, 1e-9); // alone
}

TEST(the_watch_ends_it)
{
    make_graph(100, SL_DTYPE_U32);
    verdict = SL_EABORTED;
    ck_assert_int_eq(find((int64_t[]){1}, 1, &watch), SL_EABORTED);
    ck_assert_uint_eq(seen, 100);
    make_graph(NODES_MAX, SL_DTYPE_U32); // several threads
    seen = 0;
    ck_assert_int_eq(find((int64_t[]){1}, 1, &watch), SL_EABORTED);
    ck_assert_uint_eq(seen, 4096);
}

// Against what a batch of each row by chance has: hits by the definition, in the order of visits.
TEST(a_forecast_is_what_batches_have_on_average)
{
    enum { N = 50, BATCHES = 4 };
    double inputs, hit_rate, all = 0, hits = 0;
    float visits[N];
    for (uint32_t v = 0; v < N; v++) { // falling, none of the last
        visits[v] = v + 1 < N ? 20.0f / (float)(v + 1) : 0;
        memcpy(&hotness[v], &visits[v], sizeof visits[v]);
        all += 1 - exp(-(double)visits[v] / BATCHES);
        hits += v < 7 ? 1 - exp(-(double)visits[v] / BATCHES) : 0;
    }
    must(sl_visits_forecast(hotness, N, BATCHES, 7, &inputs, &hit_rate));
    ck_assert_double_eq_tol(inputs, all, 1e-6);
    ck_assert_double_eq_tol(hit_rate, hits / all, 1e-6);
    must(sl_visits_forecast(hotness, N, BATCHES, 2 * N, &inputs, &hit_rate));
    ck_assert_double_eq_tol(hit_rate, 1, 1e-9);
    must(sl_visits_forecast(hotness, N, BATCHES, 0, &inputs, &hit_rate));
    ck_assert_double_eq(hit_rate, 0);
    must(sl_visits_forecast(hotness, 0, 0, 5, &inputs, &hit_rate));
    ck_assert_double_eq(inputs + hit_rate, 0);
}

RUN_TESTS(.timeout_s = 60)
