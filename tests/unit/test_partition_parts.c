// Parts: how even they are, what they cut, none left empty, their file.
#include "partition/parts.h"
#include "partition/stream.h"
#include "partition/symmetric.h"
#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

static uint16_t part[GRAPH_NODES_MAX];

// ---- the graph in both directions ---------------------------------------------------------------

static bool is_beside[GRAPH_NODES_MAX][GRAPH_NODES_MAX];

static void expect_symmetric(const struct sl_symmetric_graph *g)
{
    uint32_t n_pairs = 0;
    memset(is_beside, 0, sizeof is_beside);
    for (uint32_t v = 0; v < graph.n_nodes; v++) {
        for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++) {
            const uint32_t u = sl_dataset_source(&graph, e);
            if (u != v)
                is_beside[u][v] = is_beside[v][u] = true;
        }
    }
    ck_assert_int_eq(g->offsets[0], 0);
    for (uint32_t v = 0; v < graph.n_nodes; v++) {
        for (int32_t e = g->offsets[v]; e < g->offsets[v + 1]; e++) {
            // Each once: what was found is no longer wanted.
            ck_assert_msg(is_beside[v][g->neighbours[e]], "%u beside %u", g->neighbours[e], v);
            is_beside[v][g->neighbours[e]] = false;
        }
        for (uint32_t u = 0; u < graph.n_nodes; u++)
            n_pairs += is_beside[v][u];
    }
    ck_assert_uint_eq(n_pairs, 0);
    ck_assert_uint_eq(g->n_entries, g->offsets[graph.n_nodes]);
}

LOOP_TEST(each_pair_stands_in_both_rows_once, 0, 20)
{
    struct sl_symmetric_graph g;
    make_graph(_i < 2 ? 1 : 2 + (uint32_t)_i * 19, 2, (unsigned)_i);
    must(sl_symmetric_graph_make(&task, &g));
    expect_symmetric(&g);
    sl_symmetric_graph_free(&g);
    free_graph();
}

TEST(a_graph_without_edges_is_symmetric)
{
    struct sl_symmetric_graph g;
    make_graph(6, 2, 1);
    graph.n_edges = 0;
    memset(indptr, 0, sizeof indptr);
    must(sl_symmetric_graph_make(&task, &g));
    expect_symmetric(&g);
    sl_symmetric_graph_free(&g);
    free_graph();
}

TEST(more_than_32_bits_are_refused)
{
    struct sl_symmetric_graph g;
    make_graph(6, 2, 1);
    graph.n_edges = (uint64_t)INT32_MAX + 1;
    ck_assert_int_eq(sl_symmetric_graph_make(&task, &g), SL_ERANGE);
    assert_message_has("2147483648 entries");
    graph.n_edges = 6;
    graph.n_nodes = INT32_MAX;
    ck_assert_int_eq(sl_symmetric_graph_make(&task, &g), SL_ERANGE);
    assert_message_has("2147483647 vertices");
    free_graph();
}

// ---- counts -------------------------------------------------------------------------------------

static void random_parts(uint32_t n_parts)
{
    for (uint32_t v = 0; v < graph.n_nodes; v++)
        part[v] = (uint16_t)((uint32_t)rand() % n_parts);
}

LOOP_TEST(cut_and_evenness_are_those_of_a_plain_count, 0, 10)
{
    const uint32_t n_parts = 2 + (uint32_t)_i * 3;
    struct sl_parts_spread all, train;
    uint64_t found, cut = 0;
    make_graph(50 + (uint32_t)_i * 30, n_parts, (unsigned)_i);
    random_parts(n_parts);
    must(sl_parts_cut(&task, part, &found));
    for (uint32_t v = 0; v < graph.n_nodes; v++)
        for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++)
            cut += part[sl_dataset_source(&graph, e)] != part[v];
    ck_assert_uint_eq(found, cut);
    must(sl_parts_count(&task, part, &all, &train));
    uint64_t most = 0, least = UINT64_MAX, empty = 0, of_training = 0;
    for (uint32_t p = 0; p < n_parts; p++) {
        uint64_t n = 0, n_training = 0;
        for (uint32_t v = 0; v < graph.n_nodes; v++)
            n += part[v] == p;
        for (uint64_t i = 0; i < graph.split[SL_SPLIT_TRAIN].n; i++)
            n_training += part[training[i]] == p;
        most = SL_MAX(most, n);
        least = SL_MIN(least, n);
        empty += n_training == 0;
        of_training = SL_MAX(of_training, n_training);
    }
    ck_assert_uint_eq(all.n, graph.n_nodes);
    ck_assert_uint_eq(all.fullest, most);
    ck_assert_uint_eq(all.least, least);
    ck_assert_uint_eq(train.n, graph.split[SL_SPLIT_TRAIN].n);
    ck_assert_uint_eq(train.fullest, of_training);
    ck_assert_uint_eq(train.n_empty, empty);
    free_graph();
}

TEST(parts_are_even_up_to_the_slack)
{
    struct sl_parts_spread all, train;
    ck_assert_uint_eq(sl_parts_limit(400, 4, 0.03), 103);
    ck_assert_uint_eq(sl_parts_limit(10, 4, 0.03), 3); // three are in some part, however even
    ck_assert_uint_eq(sl_parts_limit(0, 4, 0.03), 0);
    make_graph(400, 4, 3);
    for (uint32_t v = 0; v < 400; v++)
        part[v] = v < 103 ? 0 : (uint16_t)(1 + v % 3);
    must(sl_parts_count(&task, part, &all, &train));
    ck_assert(all.is_even);
    part[103] = 0;
    must(sl_parts_count(&task, part, &all, &train));
    ck_assert(!all.is_even);
    free_graph();
}

LOOP_TEST(empty_parts_get_a_vertex_of_those_that_have_many, 0, 6)
{
    const uint32_t n_nodes = 20, n_parts = (const uint32_t[]){2, 3, 7, 13, 19, 20}[_i];
    uint32_t n[20] = {0}, n_moved;
    for (uint32_t v = 0; v < n_nodes; v++)
        part[v] = v < 15 ? 0 : 1;
    must(sl_parts_fill_empty(n_parts, n_nodes, part, &n_moved));
    ck_assert_uint_eq(n_moved, n_parts - 2);
    for (uint32_t v = 0; v < n_nodes; v++)
        n[part[v]]++;
    for (uint32_t p = 0; p < n_parts; p++)
        ck_assert_uint_ge(n[p], 1);
    uint16_t before[20];
    memcpy(before, part, sizeof before);
    must(sl_parts_fill_empty(n_parts, n_nodes, part, &n_moved));
    ck_assert_uint_eq(n_moved, 0);
    ck_assert_mem_eq(before, part, sizeof before);
}

// ---- the stream ---------------------------------------------------------------------------------

// The same by looking at every part for every vertex.
static void stream_naively(uint16_t *out)
{
    uint64_t n[2][64] = {{0}}, n_training = graph.split[SL_SPLIT_TRAIN].n;
    memset(out, 0xff, graph.n_nodes * sizeof *out);
    for (int pass = 0; pass < 5; pass++) {
        for (uint32_t v = 0; v < graph.n_nodes; v++) {
            const int kind = sl_parts_is_training(bits, v);
            const uint64_t of = kind ? n_training : graph.n_nodes - n_training;
            const int64_t room = (int64_t)sl_parts_limit(of, task.n_parts, task.slack);
            int64_t best_score = INT64_MIN;
            uint16_t best = 0;
            if (pass > 0)
                n[kind][out[v]]--;
            for (uint16_t p = 0; p < task.n_parts; p++) {
                int64_t votes = 0;
                for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++) {
                    const uint32_t u = sl_dataset_source(&graph, e);
                    votes += u != v && out[u] == p;
                }
                const int64_t held = (int64_t)n[kind][p];
                const int64_t score =
                    votes * (int64_t)graph.n_nodes * room - 16 * (int64_t)graph.n_edges * held;
                if (held < room &&
                    (score > best_score || (score == best_score && n[kind][p] < n[kind][best]))) {
                    best_score = score;
                    best = p;
                }
            }
            out[v] = best;
            n[kind][best]++;
        }
    }
}

LOOP_TEST(the_stream_is_a_plain_loop_over_parts, 0, 30)
{
    static uint16_t wanted[GRAPH_NODES_MAX];
    const uint32_t n_nodes = _i < 2 ? 1 + (uint32_t)_i : 5 + (uint32_t)_i * 13;
    make_graph(n_nodes, SL_MIN(2 + (uint32_t)_i * 2, n_nodes), (unsigned)_i);
    must(sl_stream_partition(&task, part));
    stream_naively(wanted);
    ck_assert_mem_eq(part, wanted, n_nodes * sizeof *part);
    free_graph();
}

LOOP_TEST(the_stream_keeps_both_kinds_even, 2, 40)
{
    struct sl_parts_spread all, train;
    make_graph(400, (uint32_t)_i, (unsigned)_i);
    must(sl_stream_partition(&task, part));
    must(sl_parts_count(&task, part, &all, &train));
    ck_assert(train.is_even);
    // Each kind may round up to a whole vertex.
    ck_assert_uint_le(all.fullest, sl_parts_limit(400, (uint32_t)_i, 0.03) + 1);
    free_graph();
}

TEST(the_stream_finds_two_cliques)
{
    uint64_t cut;
    make_cliques(60);
    must(sl_stream_partition(&task, part));
    must(sl_parts_cut(&task, part, &cut));
    ck_assert_uint_eq(cut, 2);
    free_graph();
}

// Of trees, which have few edges a vertex, the price is low: it is room that keeps parts even.
LOOP_TEST(the_stream_keeps_trees_even, 0, 5)
{
    struct sl_parts_spread all, train;
    srand((unsigned)_i);
    begin_graph(false);
    graph.n_nodes = 400;
    for (uint32_t v = 0; v < 400; v++) {
        if (v > 0)
            append((uint32_t)rand() % v);
        indptr[v + 1] = graph.n_edges;
    }
    end_graph(0, 2);
    task.slack = 0;
    must(sl_stream_partition(&task, part));
    must(sl_parts_count(&task, part, &all, &train));
    ck_assert_uint_eq(all.fullest, 200);
    free_graph();
}

// ---- the file -----------------------------------------------------------------------------------

CASE(IN_A_DIRECTORY)

static void expect_file(uint32_t n_parts, enum sl_dtype dtype)
{
    enum { N = 9001 };
    uint16_t *of = malloc(N * sizeof *of);
    struct sl_npy npy;
    for (uint32_t v = 0; v < N; v++)
        of[v] = (uint16_t)((n_parts - 1 - v) % n_parts);
    must(sl_parts_write(in_dir("part.npy"), n_parts, N, of));
    must(sl_npy_open(in_dir("part.npy"), &npy));
    ck_assert_int_eq(npy.head.dtype, dtype);
    ck_assert_int_eq(npy.head.ndim, 1);
    ck_assert_uint_eq(npy.head.shape[0], N);
    for (uint32_t v = 0; v < N; v++)
        ck_assert_uint_eq(dtype == SL_DTYPE_U8 ? ((const uint8_t *)npy.data)[v]
                                               : ((const uint16_t *)npy.data)[v],
                          of[v]);
    sl_npy_close(&npy);
    free(of);
}

TEST(the_file_is_as_narrow_as_the_parts)
{
    expect_file(2, SL_DTYPE_U8);
    expect_file(256, SL_DTYPE_U8);
    expect_file(257, SL_DTYPE_U16);
    expect_file(SL_PARTITION_PARTS_MAX, SL_DTYPE_U16);
}

TEST(a_file_that_cannot_be_made_is_told)
{
    ck_assert_int_eq(sl_parts_write(in_dir("none/part.npy"), 2, 1, part), SL_ENOENT);
    assert_message_has("none/part.npy");
    ck_assert_int_eq(count_entries(), 0);
}

RUN_TESTS()
