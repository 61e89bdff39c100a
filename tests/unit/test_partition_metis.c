// METIS, found or not, right or wrong, in a process of its own.
#include <sys/wait.h>

#include "partition/metis.h"
#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

static uint16_t part[GRAPH_NODES_MAX];
static uint64_t peak;

static int ask(bool kway)
{
    struct sl_metis metis;
    struct sl_symmetric_graph g;
    SL_TRY(sl_metis_open(&metis));
    SL_TRY(sl_symmetric_graph_make(&task, &g));
    const int rc = sl_metis_partition(&metis, &task, &g, kway, part, &peak);
    sl_symmetric_graph_free(&g);
    // No process is left.
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    return rc;
}

// ---- a METIS that a test decides about ----------------------------------------------------------

TEST(what_it_answers_is_taken)
{
    make_graph(100, 7, 1);
    for (int kway = 0; kway < 2; kway++) {
        use_fake_metis("");
        must(ask(kway));
        for (uint32_t v = 0; v < 100; v++)
            ck_assert_uint_eq(part[v], v % 7);
        ck_assert_uint_gt(peak, 0);
    }
    free_graph();
}

static const struct {
    const char *does, *message;
} faults[] = {
    {"abort", "METIS was ended by signal 6"},
    {"refuse", "METIS refuses the graph"},
    {"lack memory", "METIS has no memory"},
    {"fail", "METIS failed"},
    {"go outside", "METIS put vertex 0 into part 7 of 7"},
};

LOOP_TEST(each_way_to_fail_is_told, 0, (int)SL_COUNT_OF(faults))
{
    make_graph(100, 7, 1);
    use_fake_metis(faults[_i].does);
    ck_assert_int_eq(ask(false), SL_EFAILED);
    assert_message_has(faults[_i].message);
    assert_message_has("--method stream");
    free_graph();
}

TEST(a_library_of_other_numbers_is_told)
{
    struct sl_metis metis;
    use_fake_metis("be wide");
    ck_assert_int_eq(sl_metis_open(&metis), SL_EUNSUPPORTED);
    assert_message_has("32-bit");
    setenv("SLUICE_METIS", "libc.so.6", 1);
    ck_assert_int_eq(sl_metis_open(&metis), SL_EUNSUPPORTED);
}

TEST(a_library_that_is_not_there_is_told_with_its_package)
{
    struct sl_metis metis;
    setenv("SLUICE_METIS", "/none/libmetis.so", 1);
    ck_assert_int_eq(sl_metis_open(&metis), SL_ENOENT);
    assert_message_has("libmetis5");
    assert_message_has("/none/libmetis.so");
}

// ---- Debian's -----------------------------------------------------------------------------------

static bool has_metis(void)
{
    struct sl_metis metis;
    unsetenv("SLUICE_METIS");
    return sl_metis_open(&metis) == SL_OK;
}

CASE(.needs = has_metis, .skipped = "METIS itself: libmetis.so.5 is not installed (libmetis5)")

LOOP_TEST(two_cliques_are_found, 0, 2)
{
    uint64_t cut;
    make_cliques(60);
    must(ask(_i));
    must(sl_parts_cut(&task, part, &cut));
    ck_assert_uint_eq(cut, 2);
    free_graph();
}

TEST(training_vertices_of_one_clique_are_divided)
{
    struct sl_parts_spread all, train;
    make_cliques(60);
    for (uint32_t i = 0; i < 30; i++)
        training[i] = 2 * i;
    free_graph();
    end_graph(30, 2);
    task.slack = 0.1;
    must(ask(false));
    must(sl_parts_count(&task, part, &all, &train));
    ck_assert(all.is_even && train.is_even);
    free_graph();
}

LOOP_TEST(parts_are_even_and_the_same_each_time, 0, 2)
{
    struct sl_parts_spread all, train;
    uint16_t before[GRAPH_NODES_MAX];
    make_graph(400, 4, 7);
    task.slack = 0.1;
    must(ask(_i));
    must(sl_parts_count(&task, part, &all, &train));
    ck_assert(all.is_even);
    ck_assert(_i || train.is_even);
    memcpy(before, part, sizeof before);
    srand(99); // METIS draws from these numbers: not from this process's
    must(ask(_i));
    ck_assert_mem_eq(part, before, sizeof before);
    free_graph();
}

LOOP_TEST(graphs_with_next_to_nothing_have_parts, 0, 8)
{
    const uint32_t n_parts = _i < 4 ? 2 : 5;
    make_graph(5, n_parts, 3);
    if (_i % 2) {
        graph.n_edges = 0;
        memset(indptr, 0, sizeof indptr);
    }
    must(ask(_i / 2 % 2));
    for (uint32_t v = 0; v < 5; v++)
        ck_assert_uint_lt(part[v], n_parts);
    free_graph();
}

RUN_TESTS()
