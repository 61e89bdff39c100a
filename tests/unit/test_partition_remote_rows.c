// Remote rows of drawn batches, beside those of a plain walk over all neighbours.
#include "partition/remote_rows.h"
#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

static uint16_t part[GRAPH_NODES_MAX];
static struct sl_dataset opened;

static void open_graph(uint32_t n_nodes, uint32_t n_parts, unsigned seed)
{
    write_graph(n_nodes, n_parts, seed);
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY | SL_NEED_TRAIN, SL_CHECK_CACHED, 1, &opened));
    task.ds = &opened;
    for (uint32_t v = 0; v < n_nodes; v++)
        part[v] = (uint16_t)((uint32_t)rand() % n_parts);
}

static void drop_graph(void)
{
    sl_dataset_close(&opened);
    free_graph();
}

// Adds the rows of a batch of all training vertices of part p with all neighbours, hop by hop.
static void count_naively(uint32_t p, uint32_t n_hops, struct sl_remote_rows *out)
{
    bool is_in[GRAPH_NODES_MAX] = {0};
    uint64_t n_seeds = 0;
    for (uint64_t i = 0; i < graph.split[SL_SPLIT_TRAIN].n; i++) {
        if (part[training[i]] == p) {
            is_in[training[i]] = true;
            n_seeds++;
        }
    }
    for (uint32_t hop = 0; hop < n_hops; hop++) {
        bool was_in[GRAPH_NODES_MAX];
        memcpy(was_in, is_in, sizeof was_in);
        for (uint32_t v = 0; v < graph.n_nodes; v++)
            for (uint64_t e = indptr[v]; was_in[v] && e < indptr[v + 1]; e++)
                is_in[sl_dataset_source(&graph, e)] = true;
    }
    out->n_batches += n_seeds > 0;
    out->seeds += n_seeds;
    for (uint32_t v = 0; v < graph.n_nodes; v++) {
        out->rows += is_in[v];
        out->remote += is_in[v] && part[v] != p;
    }
}

CASE(.begin = scratch_begin, .end = scratch_end)

LOOP_TEST(rows_of_all_neighbours_are_those_of_a_walk, 0, 12)
{
    const uint32_t n_parts = 2 + (uint32_t)_i, n_hops = 1 + (uint32_t)_i % 3;
    const struct sl_batch_estimate hops = {
        .n_hops = n_hops, .fanout = {-1, -1, -1}, .batch_size = GRAPH_NODES_MAX};
    struct sl_remote_rows found, wanted = {0};
    open_graph(60 + (uint32_t)_i * 25, n_parts, (unsigned)_i);
    must(sl_remote_rows_count(&task, part, &hops, 1, &found));
    for (uint32_t p = 0; p < n_parts; p++)
        count_naively(p, n_hops, &wanted);
    ck_assert_uint_eq(found.n_batches, wanted.n_batches);
    ck_assert_uint_eq(found.seeds, wanted.seeds);
    ck_assert_uint_eq(found.rows, wanted.rows);
    ck_assert_uint_eq(found.remote, wanted.remote);
    drop_graph();
}

TEST(batches_are_as_many_and_as_large_as_said_and_the_same_each_time)
{
    const struct sl_batch_estimate hops = {.n_hops = 2, .fanout = {3, 2}, .batch_size = 2};
    struct sl_remote_rows found, again, other;
    uint64_t batches = 0, seeds = 0;
    open_graph(400, 5, 3);
    must(sl_remote_rows_count(&task, part, &hops, 1, &found));
    must(sl_remote_rows_count(&task, part, &hops, 1, &again));
    must(sl_remote_rows_count(&task, part, &hops, 2, &other));
    for (uint32_t p = 0; p < 5; p++) {
        uint64_t n = 0;
        for (uint64_t i = 0; i < graph.split[SL_SPLIT_TRAIN].n; i++)
            n += part[training[i]] == p;
        batches += SL_MIN((n + 1) / 2, 12);
        seeds += SL_MIN(n, 12 * 2);
    }
    ck_assert_uint_eq(found.n_batches, batches);
    ck_assert_uint_eq(found.seeds, seeds);
    ck_assert_mem_eq(&found, &again, sizeof found);
    ck_assert_uint_ne(found.rows, other.rows);
    drop_graph();
}

TEST(parts_without_training_vertices_draw_nothing)
{
    const struct sl_batch_estimate hops = {.n_hops = 1, .fanout = {2}, .batch_size = 10};
    struct sl_remote_rows found;
    open_graph(100, 200, 1); // of 200 parts 64 are looked at
    for (uint32_t v = 0; v < 100; v++)
        part[v] = 199;
    must(sl_remote_rows_count(&task, part, &hops, 1, &found));
    ck_assert_uint_eq(found.n_batches, 0);
    ck_assert_double_eq(sl_remote_rows_at_random(&found, 200, 100), 0);
    drop_graph();
}

TEST(random_parts_leave_a_share_of_all_but_the_seeds)
{
    const struct sl_remote_rows found = {.n_batches = 2, .rows = 200, .seeds = 20, .remote = 1};
    ck_assert_double_eq_tol(sl_remote_rows_at_random(&found, 4, 1010), 0.75 * 1.01 * 0.9, 1e-12);
}

RUN_TESTS()
