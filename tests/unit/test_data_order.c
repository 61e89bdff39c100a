// The orders of a job's epochs: walks in breadth, sequences in turns, shuffling errors, the fewest
// sequences that are good enough.
#include "common/data/order_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/proximity.h"
#include "common/data/shuffling_error.h"
#include "tests/unit/suite.h"

enum { NODES_MAX = 5000, DEGREE_MAX = 8 };

static uint64_t indptr[NODES_MAX + 1];
static uint32_t indices[NODES_MAX * DEGREE_MAX], train[NODES_MAX];
static int32_t label[NODES_MAX];
static struct sl_dataset dataset;

static void must(int rc)
{
    if (rc < 0)
        ck_abort_msg("%s", sl_error_message());
}

static uint32_t random_below(uint32_t i, uint32_t bound)
{
    return sl_philox(11, i, 0, 0, 0).w[0] % bound;
}

static void add_pair(uint32_t *degree, uint32_t u, uint32_t v)
{
    if (u == v || degree[u] == DEGREE_MAX || degree[v] == DEGREE_MAX)
        return;
    indices[u * DEGREE_MAX + degree[u]++] = v;
    indices[v * DEGREE_MAX + degree[v]++] = u;
}

// A graph of n vertices with every edge in both directions: communities of 50 that are rings, a few
// pairs anywhere, and the last tenth without any. Two of three vertices are trained on; a community
// is a class.
static void make_graph(uint32_t n)
{
    static uint32_t degree[NODES_MAX];
    memset(degree, 0, sizeof degree);
    const uint32_t linked = n - n / 10;
    uint64_t n_edges = 0, n_train = 0;
    for (uint32_t v = 0; v + 1 < linked; v++)
        if (v / 50 == (v + 1) / 50)
            add_pair(degree, v, v + 1);
    for (uint32_t i = 0; i < n / 20; i++)
        add_pair(degree, random_below(2 * i, linked), random_below(2 * i + 1, linked));
    for (uint32_t v = 0; v < n; v++) {
        indptr[v] = n_edges;
        for (uint32_t e = 0; e < degree[v]; e++)
            indices[n_edges++] = indices[v * DEGREE_MAX + e];
        label[v] = (int32_t)(v / 50);
        if (v % 3)
            train[n_train++] = v;
    }
    indptr[n] = n_edges;
    dataset = (struct sl_dataset){
        .task = SL_TASK_MULTICLASS,
        .n_nodes = n,
        .n_edges = n_edges,
        .indptr = indptr,
        .indices = indices,
        .indices_dtype = SL_DTYPE_U32,
        .n_classes = (n + 49) / 50,
        .label = label,
        .split[SL_SPLIT_TRAIN] = {.n = n_train, .ids = train},
    };
}

static void assert_all_of_train(const uint32_t *order)
{
    static uint8_t seen[NODES_MAX];
    const struct sl_vertex_list *list = &dataset.split[SL_SPLIT_TRAIN];
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < list->n; i++) {
        ck_assert_uint_lt(order[i], dataset.n_nodes);
        seen[order[i]]++;
    }
    for (uint64_t i = 0; i < list->n; i++)
        ck_assert_msg(seen[list->ids[i]] == 1, "%u stands there %u times", list->ids[i],
                      seen[list->ids[i]]);
}

// Edges from root to every vertex that can be reached, by relaxing until nothing changes.
static void find_distances(uint32_t root, uint32_t *distance)
{
    bool changed = true;
    for (uint32_t v = 0; v < dataset.n_nodes; v++)
        distance[v] = UINT32_MAX;
    distance[root] = 0;
    while (changed) {
        changed = false;
        for (uint32_t v = 0; v < dataset.n_nodes; v++)
            for (uint64_t e = indptr[v]; distance[v] != UINT32_MAX && e < indptr[v + 1]; e++)
                if (distance[indices[e]] > distance[v] + 1) {
                    distance[indices[e]] = distance[v] + 1;
                    changed = true;
                }
    }
}

// The epochs of a pass walk through its order, and the last one goes on with its beginning.
TEST(epochs_of_a_pass_share_its_order)
{
    enum { N = 500, EPOCHS = 7, ITEMS = 72 }; // 4 are there twice
    static uint32_t out[ITEMS + 1], pass[2][N];
    struct sl_epoch_order order;
    make_graph(N);
    struct sl_order_inputs facts = {.dataset = &dataset, .train = {.n = N}, .seed = 3};
    must(sl_epoch_order_open(&order, SL_ORDER_SHUFFLED, &facts));
    for (uint32_t p = 0; p < 2; p++)
        ck_assert(sl_epoch_order_fill(&order, p, pass[p]));
    facts.epochs_per_pass = EPOCHS;
    ck_assert_uint_eq(sl_order_items(N, EPOCHS), ITEMS);
    must(sl_epoch_order_open(&order, SL_ORDER_SHUFFLED, &facts));
    out[ITEMS] = 77;
    for (uint32_t epoch = 0; epoch < 2 * EPOCHS; epoch++) {
        ck_assert(sl_epoch_order_fill(&order, epoch, out));
        for (uint32_t i = 0; i < ITEMS; i++)
            ck_assert_uint_eq(out[i], pass[epoch / EPOCHS][(epoch % EPOCHS * ITEMS + i) % N]);
    }
    ck_assert_uint_eq(out[ITEMS], 77);
    ck_assert_uint_eq(sl_order_items(1, 20), 1);
    ck_assert_uint_eq(sl_order_items(0, 20), 0);
    ck_assert_uint_eq(sl_order_items(N, 0), N);
}

// A list without ids is that of all vertices.
TEST(a_listed_order_is_the_list_and_one_without_ids_is_all_vertices)
{
    enum { N = 500 };
    static uint32_t all[N], one[N], other[N];
    struct sl_epoch_order listed, shuffled, of_ids;
    make_graph(N);
    for (uint32_t v = 0; v < N; v++)
        all[v] = v;
    struct sl_order_inputs facts = {
        .dataset = &dataset, .train = dataset.split[SL_SPLIT_TRAIN], .seed = 3, .batch_size = 32};
    must(sl_epoch_order_open(&listed, SL_ORDER_LISTED, &facts));
    ck_assert(sl_epoch_order_fill(&listed, 7, one));
    ck_assert_mem_eq(one, train, facts.train.n * sizeof *one);
    facts.train = (struct sl_vertex_list){.n = N};
    must(sl_epoch_order_open(&listed, SL_ORDER_LISTED, &facts));
    ck_assert(sl_epoch_order_fill(&listed, 7, one));
    ck_assert_mem_eq(one, all, sizeof all);
    must(sl_epoch_order_open(&shuffled, SL_ORDER_SHUFFLED, &facts));
    facts.train.ids = all;
    must(sl_epoch_order_open(&of_ids, SL_ORDER_SHUFFLED, &facts));
    ck_assert(sl_epoch_order_fill(&shuffled, 7, one) && sl_epoch_order_fill(&of_ids, 7, other));
    ck_assert_mem_eq(one, other, sizeof one);
    ck_assert(memcmp(one, all, sizeof all) != 0);
}

// --- parts ---

enum { BATCH = 32, PER_UPDATE = 4 };

// Part p has the vertices that are p modulo n_parts, but for `moved` of the first part, which are
// of the second.
static uint8_t *make_parts(uint32_t n_parts, uint32_t moved)
{
    static uint8_t part[NODES_MAX];
    for (uint32_t v = 0; v < dataset.n_nodes; v++) {
        part[v] = (uint8_t)(v / 3 % n_parts);
        if (part[v] == 0 && moved > 0) {
            part[v] = 1;
            moved--;
        }
    }
    dataset.shard =
        (struct sl_shard){.count = n_parts, .part = part, .part_dtype = SL_DTYPE_U8, .whole = 5};
    return part;
}

static void open_parts(struct sl_epoch_order *order)
{
    const struct sl_order_inputs facts = {.dataset = &dataset,
                                          .train = dataset.split[SL_SPLIT_TRAIN],
                                          .seed = 3,
                                          .batch_size = BATCH,
                                          .batches_per_update = PER_UPDATE};
    must(sl_epoch_order_open(order, SL_ORDER_PARTS, &facts));
}

LOOP_TEST(batches_are_of_parts_in_turn, 1, 5)
{
    static uint32_t order[NODES_MAX], again[NODES_MAX], next[NODES_MAX];
    struct sl_epoch_order o;
    const uint32_t n_parts = (uint32_t)_i;
    uint64_t left[5] = {0};
    make_graph(3000);
    const uint8_t *part = make_parts(n_parts, n_parts > 1 ? 20 : 0);
    const uint64_t n = dataset.split[SL_SPLIT_TRAIN].n;
    open_parts(&o);
    ck_assert(sl_epoch_order_fill(&o, 2, order));
    assert_all_of_train(order);
    for (uint64_t i = 0; i < n; i++)
        left[part[order[i]]]++;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t wanted = (uint32_t)(i / BATCH % PER_UPDATE % n_parts);
        ck_assert_msg(part[order[i]] == wanted || left[wanted] == 0,
                      "place %llu has a vertex of part %u, wanted %u", (unsigned long long)i,
                      part[order[i]], wanted);
        left[part[order[i]]]--;
    }
    ck_assert(sl_epoch_order_fill(&o, 2, again) && sl_epoch_order_fill(&o, 3, next));
    ck_assert_mem_eq(order, again, n * sizeof *order);
    ck_assert(memcmp(order, next, n * sizeof *order) != 0);
    sl_epoch_order_close(&o);
}

// Each vertex of a part stands at each of its places about as often.
TEST(parts_are_shuffled_evenly)
{
    enum { EPOCHS = 2000, FEW = 12 };
    static uint32_t count[NODES_MAX][FEW];
    uint32_t order[FEW];
    struct sl_epoch_order o;
    make_graph(3000);
    dataset.split[SL_SPLIT_TRAIN].n = FEW; // of two parts, six each
    make_parts(2, 0);
    open_parts(&o);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        ck_assert(sl_epoch_order_fill(&o, epoch, order));
        for (uint32_t i = 0; i < FEW; i++)
            count[order[i]][i]++;
    }
    for (uint32_t i = 0; i < FEW; i++)
        for (uint32_t at = 0; at < FEW; at++) {
            const uint32_t n = count[train[i]][at];
            ck_assert_msg(n == 0 || (n > EPOCHS / 6 - 100 && n < EPOCHS / 6 + 100), "%u times", n);
        }
    sl_epoch_order_close(&o);
}

TEST(an_order_of_parts_is_of_its_partition)
{
    uint64_t one, same, other, none;
    make_graph(600);
    must(sl_epoch_order_identity(SL_ORDER_SHUFFLED, &dataset, &none));
    make_parts(2, 0);
    must(sl_epoch_order_identity(SL_ORDER_PARTS, &dataset, &one));
    dataset.shard.index = 1; // which node asks is nothing to it
    must(sl_epoch_order_identity(SL_ORDER_PARTS, &dataset, &same));
    make_parts(2, 1);
    must(sl_epoch_order_identity(SL_ORDER_PARTS, &dataset, &other));
    ck_assert_uint_eq(one, same);
    ck_assert_uint_ne(one, other);
    must(sl_epoch_order_identity(SL_ORDER_SHUFFLED, &dataset, &other));
    ck_assert_uint_eq(other, 5);
    ck_assert_uint_eq(none, 0);
}

TEST(parts_want_a_partition)
{
    struct sl_epoch_order o;
    make_graph(600);
    snprintf(dataset.path, sizeof dataset.path, "/nowhere");
    const struct sl_order_inputs facts = {.dataset = &dataset,
                                          .train = dataset.split[SL_SPLIT_TRAIN],
                                          .batch_size = BATCH,
                                          .batches_per_update = PER_UPDATE};
    ck_assert_int_eq(sl_epoch_order_open(&o, SL_ORDER_PARTS, &facts), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "run 'sluice partition /nowhere --parts N'"));
}

TEST(a_walk_goes_in_breadth)
{
    static const uint32_t sizes[] = {2, 3, 64, 65, 700};
    static uint32_t walk[NODES_MAX], distance[NODES_MAX];
    for (size_t s = 0; s < SL_COUNT_OF(sizes); s++) {
        make_graph(sizes[s]);
        must(sl_proximity_walk(&dataset, &dataset.split[SL_SPLIT_TRAIN], 5, NULL, walk));
        assert_all_of_train(walk);
        const uint64_t n = dataset.split[SL_SPLIT_TRAIN].n;
        for (uint64_t i = 0; i < n;) {
            uint32_t last = 0;
            uint64_t there = 0, met = 0;
            find_distances(walk[i], distance); // a root
            for (uint64_t t = 0; t < n; t++)
                there += distance[dataset.split[SL_SPLIT_TRAIN].ids[t]] != UINT32_MAX;
            for (; met < there; met++, i++) {
                ck_assert_uint_ge(distance[walk[i]], last);
                ck_assert_uint_ne(distance[walk[i]], UINT32_MAX);
                last = distance[walk[i]];
            }
        }
    }
}

TEST(a_walk_depends_on_the_seed_alone)
{
    static uint32_t a[NODES_MAX], b[NODES_MAX];
    make_graph(700);
    const size_t bytes = dataset.split[SL_SPLIT_TRAIN].n * sizeof *a;
    must(sl_proximity_walk(&dataset, &dataset.split[SL_SPLIT_TRAIN], 5, NULL, a));
    must(sl_proximity_walk(&dataset, &dataset.split[SL_SPLIT_TRAIN], 6, NULL, b));
    ck_assert_int_ne(memcmp(a, b, bytes), 0);
    must(sl_proximity_walk(&dataset, &dataset.split[SL_SPLIT_TRAIN], 5, NULL, b));
    ck_assert_int_eq(memcmp(a, b, bytes), 0);
}

// With vertices named by where they stand in the walk: each sequence is turned, and all take turns.
TEST(sequences_take_turns)
{
    enum { N_MAX = 70 };
    uint32_t walk[N_MAX], out[N_MAX], before[N_MAX];
    unsigned turned = 0;
    for (uint32_t i = 0; i < N_MAX; i++)
        walk[i] = i;
    for (uint32_t n = 1; n <= N_MAX; n++)
        for (uint32_t pieces = 1; pieces <= n; pieces++) {
            uint32_t begin = 0;
            sl_proximity_order(walk, n, pieces, 3, 0, before);
            sl_proximity_order(walk, n, pieces, 3, 1, out);
            turned += memcmp(out, before, n * sizeof *out) != 0;
            for (uint32_t piece = 0; piece < pieces; piece++) {
                const uint32_t length = n / pieces + (piece < n % pieces);
                for (uint32_t row = 0; row < length; row++) {
                    const uint32_t here = out[row * pieces + piece];
                    ck_assert_uint_ge(here, begin);
                    ck_assert_uint_lt(here, begin + length);
                    if (row > 0)
                        ck_assert_uint_eq(here - begin,
                                          (out[(row - 1) * pieces + piece] - begin + 1) % length);
                }
                begin += length;
            }
        }
    ck_assert_uint_gt(turned, N_MAX * (N_MAX - 1) / 2 * 9 / 10);
}

static double error_of(const uint32_t *order, uint64_t n, uint32_t batch_size)
{
    struct sl_label_shares shares;
    must(sl_label_shares_open(&shares, &dataset, &dataset.split[SL_SPLIT_TRAIN]));
    const double error = sl_shuffling_error(&shares, order, n, batch_size);
    sl_label_shares_close(&shares);
    return error;
}

TEST(errors_by_hand)
{
    static const int32_t classes[] = {0, 0, 1, 1, -1, 0};
    static const uint32_t apart[] = {0, 1, 2, 3}, mixed[] = {0, 2, 1, 3}, rest[] = {0, 4, 2, 3, 1};
    dataset = (struct sl_dataset){
        .task = SL_TASK_MULTICLASS,
        .n_nodes = 6,
        .n_classes = 2,
        .label = classes,
        .split[SL_SPLIT_TRAIN] = {.n = 4, .ids = apart},
    };
    ck_assert_double_eq_tol(error_of(apart, 4, 2), 0.5, 1e-12);
    ck_assert_double_eq_tol(error_of(mixed, 4, 2), 0, 1e-12);
    ck_assert_double_eq_tol(error_of(apart, 4, 4), 0, 1e-12);
    ck_assert_double_eq_tol(error_of(apart, 4, 5), 0, 1e-12);  // no full batch
    ck_assert_double_eq_tol(error_of(rest, 5, 2), 0.5, 1e-12); // 4 has no label, 1 no full batch

    static const int8_t several[] = {1, 1, 1, 0, 0, 1, -1, -1};
    dataset.task = SL_TASK_MULTILABEL;
    dataset.target = several;
    dataset.target_dtype = SL_DTYPE_I8;
    dataset.n_nodes = 4;
    // Labels in all: 2 and 2. Of {0, 1}: 2 and 1; of {2, 3}: 0 and 1.
    ck_assert_double_eq_tol(error_of(apart, 4, 2), (1. / 6 + 1. / 2) / 2, 1e-12);

    static float numbers[64];
    static uint32_t ids[64];
    for (uint32_t i = 0; i < 64; i++) {
        numbers[i] = (float)i;
        ids[i] = i;
    }
    dataset.task = SL_TASK_REGRESSION;
    dataset.n_nodes = 64;
    dataset.n_classes = 1;
    dataset.target = numbers;
    dataset.target_dtype = SL_DTYPE_F32;
    dataset.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){.n = 64, .ids = ids};
    ck_assert_double_eq_tol(error_of(ids, 64, 4), 15. / 16, 1e-6);
    ck_assert_double_eq_tol(error_of(ids, 64, 32), 1. / 2, 1e-6);
}

static void open_order(struct sl_epoch_order *order, uint32_t sequences, double excess,
                       uint32_t batch_size)
{
    const struct sl_order_inputs facts = {
        .dataset = &dataset,
        .train = dataset.split[SL_SPLIT_TRAIN],
        .seed = 9,
        .batch_size = batch_size,
        .sequences = sequences,
        .excess = excess,
    };
    must(sl_epoch_order_open(order, SL_ORDER_PROXIMITY, &facts));
}

TEST(as_few_sequences_as_the_bound_allows)
{
    struct sl_epoch_order order;
    static uint32_t out[NODES_MAX];
    make_graph(3000);

    open_order(&order, 0, 1, 100);
    ck_assert_uint_eq(order.n_sequences, 1);
    ck_assert_double_gt(order.error, order.uniform_error + 0.1);
    sl_epoch_order_close(&order);

    open_order(&order, 0, 0.05, 100);
    const uint32_t n = order.n_sequences;
    ck_assert_uint_gt(n, 1);
    ck_assert_uint_lt(n, 100);
    ck_assert_double_le(order.error, order.uniform_error + 0.05);
    ck_assert(sl_epoch_order_fill(&order, 3, out));
    assert_all_of_train(out);
    sl_epoch_order_close(&order);

    open_order(&order, n - 1, 0.05, 100); // one less is not enough
    ck_assert_uint_eq(order.n_sequences, n - 1);
    ck_assert_double_gt(order.error, order.uniform_error + 0.05);
    sl_epoch_order_close(&order);

    // Where no number is enough, a sequence for each seed of a batch; never more than vertices.
    open_order(&order, 0, 0, 7);
    ck_assert_uint_le(order.n_sequences, 7);
    sl_epoch_order_close(&order);
    open_order(&order, 1000000, 0.05, 100);
    ck_assert_uint_eq(order.n_sequences, dataset.split[SL_SPLIT_TRAIN].n);
    ck_assert(sl_epoch_order_fill(&order, 0, out));
    assert_all_of_train(out);
    sl_epoch_order_close(&order);
}

TEST(one_batch_takes_one_sequence)
{
    struct sl_epoch_order order;
    make_graph(64);
    open_order(&order, 0, 0, 1024);
    ck_assert_uint_eq(order.n_sequences, 1);
    ck_assert_double_eq(order.error, 0);
    sl_epoch_order_close(&order);
    sl_epoch_order_close(&order); // safe
}

TEST(it_stops_on_request)
{
    const atomic_bool cancel = true;
    struct sl_epoch_order order;
    make_graph(700);
    const struct sl_order_inputs facts = {.dataset = &dataset,
                                          .train = dataset.split[SL_SPLIT_TRAIN],
                                          .batch_size = 8,
                                          .cancel = &cancel};
    ck_assert_int_eq(sl_epoch_order_open(&order, SL_ORDER_PROXIMITY, &facts), SL_EABORTED);
    ck_assert_ptr_null(order.walk);
}

RUN_TESTS()
