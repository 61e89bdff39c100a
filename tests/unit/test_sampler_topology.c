// The data set as a sampler opens it: with running sums of weights where it samples by weight.
#include <math.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/memory.h"
#include "common/data/features_kind.h"
#include "sampler/topology.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static int open_tiny(struct sl_topology *t, bool weighted)
{
    return sl_topology_open(t, dir, NULL, weighted ? SL_NEED_WEIGHTS : 0, -1, sl_kernels_cpu(), 1);
}

TEST(uniform_sampling_asks_for_no_weights)
{
    ck_assert_int_eq(remove(in_dir("edge_weight.npy")), 0);
    struct sl_topology t;
    must(open_tiny(&t, false));
    ck_assert_uint_eq(t.view.n_nodes, 5);
    ck_assert_ptr_null(t.view.weight_prefix);
    ck_assert_ptr_eq(t.view.indices, t.dataset.indices);
    // 6 offsets, 7 neighbours of 4 bytes, 5 labels.
    ck_assert_uint_eq(sl_topology_resident_bytes(&t), 6 * 8 + 7 * 4 + 5 * 4);
    sl_topology_close(&t);
    sl_topology_close(&t);
}

TEST(running_sums_are_made_for_weighted_sampling)
{
    struct sl_topology t;
    must(open_tiny(&t, true));
    // Rows of 0, 3, 2, 1 and 1 edges; weights 1 2 0 | -0 1e-30 | 5 | 6.
    static const double wanted[] = {1, 3, 3, 0, 1e-30, 5, 6};
    for (int e = 0; e < 7; e++)
        ck_assert_double_le(fabs(t.view.weight_prefix[e] - wanted[e]), 1e-7 * wanted[e]);
    ck_assert_uint_eq(sl_topology_resident_bytes(&t), 6 * 8 + 7 * 4 + 5 * 4 + 7 * 8);
    sl_topology_close(&t);
    ck_assert_ptr_null(t.view.weight_prefix);
}

TEST(a_data_set_without_weights_can_not_be_sampled_by_weight)
{
    ck_assert_int_eq(remove(in_dir("edge_weight.npy")), 0);
    struct sl_topology t;
    ck_assert_int_eq(open_tiny(&t, true), SL_ENOENT);
    assert_message_has("edge_weight.npy");
    sl_topology_close(&t);
}

TEST(self_loops_are_found_when_asked_for)
{
    WRITE_I32("indices.npy", 1, 2, 1, 1, 3, 0, 0); // vertex 1 twice
    struct sl_topology t;
    must(open_tiny(&t, false));
    ck_assert_uint_eq(t.self_loops.n_vertices, 0);
    must(sl_topology_find_self_loops(&t, 1));
    ck_assert_uint_eq(t.self_loops.n_vertices, 1);
    ck_assert_uint_eq(sl_self_loops_degree(&t.self_loops, 1), 1);
    ck_assert_uint_eq(sl_self_loops_degree(&t.self_loops, 2), 2);
    sl_topology_close(&t);
    ck_assert_ptr_null(t.self_loops.has);
}

// Whether the mapping that p is in has one of smaps' two-letter flags.
static bool has_flag(const void *p, const char *flag)
{
    unsigned long from, to;
    char line[4200], found[1024] = "";
    bool here = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (unsigned long)p && (unsigned long)p < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            snprintf(found, sizeof found, "%.1000s", line + 8);
    fclose(maps);
    ck_assert_msg(strstr(found, " rd ") || strstr(found, "rd "), "no flags: '%s'", found);
    return strstr(found, flag) != NULL;
}

// Whether this kernel can be asked for them.
static bool huge_pages_exist(void)
{
    return access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0;
}

// A device's copy of a cold file is made a hundred times faster where the system reads ahead.
TEST(files_are_read_ahead_unless_the_processor_draws)
{
    struct sl_topology t;
    must(open_tiny(&t, false));
    ck_assert(!has_flag(t.view.indices, " rr"));
    must(sl_topology_find_self_loops(&t, 1));
    ck_assert(!has_flag(t.view.indices, " rr"));
    ck_assert(!has_flag(t.view.indices, " sr"));
    sl_topology_expect_draws(&t);
    ck_assert(has_flag(t.view.indices, " rr"));
    ck_assert(!has_flag(t.view.indptr, " rr"));
    ck_assert(has_flag(t.view.indptr, " hg") == huge_pages_exist());
    ck_assert(has_flag(t.view.indices, " hg") == huge_pages_exist());
    sl_topology_close(&t);
}

static uint64_t left_bytes;

static uint64_t left(void *ctx)
{
    (void)ctx;
    return left_bytes;
}

// 76 bytes of graph, without its weights.
TEST(a_graph_beside_features_that_do_not_fit_is_locked)
{
    struct sl_topology t;
    must(open_tiny(&t, false));
    const uint64_t graph = 6 * 8 + 7 * 4;
    const uint64_t all = sl_topology_bytes(&t.dataset) + sl_features_bytes(&t.dataset);
    ck_assert_uint_gt(sl_features_bytes(&t.dataset), graph / 2);
    sl_memory_set_bound(left, NULL);
    left_bytes = 4 * sl_div_up(all, 3); // three quarters of it hold all
    sl_topology_expect_draws(&t);
    ck_assert(!t.locked && !t.ahead);
    ck_assert(!has_flag(t.view.indices, " lo"));
    left_bytes = 2 * graph;
    sl_topology_expect_draws(&t);
    sl_memory_set_bound(NULL, NULL);
    ck_assert(t.locked && !t.ahead);
    ck_assert(has_flag(t.view.indices, " lo"));
    ck_assert(has_flag(t.view.indptr, " lo"));
    sl_topology_close(&t);
}

TEST(a_graph_that_does_not_fit_is_read_a_hop_at_a_time)
{
    struct sl_topology t;
    must(open_tiny(&t, false));
    sl_memory_set_bound(left, NULL);
    left_bytes = 6 * 8 + 7 * 4;
    sl_topology_expect_draws(&t);
    ck_assert(!t.ahead && !t.locked);
    left_bytes--;
    sl_topology_expect_draws(&t);
    sl_memory_set_bound(NULL, NULL);
    ck_assert(t.ahead && !t.locked);
    const uint32_t nodes[] = {4, 0, 1};
    sl_topology_read_ahead(&t, &t.view, NULL, nodes, 3); // the system takes it
    sl_topology_close(&t);
}

static const void *asked[8];
static uint64_t asked_bytes[8];
static uint32_t n_asked;

static void note(const void *p, uint64_t bytes, int advice)
{
    (void)advice;
    ck_assert_uint_lt(n_asked, 8);
    asked[n_asked] = p;
    asked_bytes[n_asked++] = bytes;
}

// Times are a part of the graph, and of each list that a hop reads.
TEST(times_are_read_ahead_with_their_lists)
{
    struct sl_topology t;
    WRITE_I64("edge_time.npy", 1, 2, 3, 1, 2, 1, 1);
    WRITE_I64("node_time.npy", 1, 2, 3, 4, 5);
    must(sl_topology_open(&t, dir, NULL, SL_NEED_TIMES, -1, sl_kernels_cpu(), 1));
    sl_memory_set_bound(left, NULL);
    left_bytes = 6 * 8 + 7 * 4 + 7 * 8 - 1;
    sl_topology_expect_draws(&t);
    sl_memory_set_bound(NULL, NULL);
    ck_assert_ptr_nonnull(t.ahead);
    ck_assert(has_flag(t.dataset.edge_time, " rr"));
    t.ahead = note;
    const uint32_t node = 2; // edges 3 and 4
    sl_topology_read_ahead(&t, &t.view, t.dataset.edge_time, &node, 1);
    ck_assert_uint_eq(n_asked, 3);
    ck_assert_ptr_eq(asked[1], (const int32_t *)t.view.indices + 3);
    ck_assert_uint_eq(asked_bytes[1], 2 * 4);
    ck_assert_ptr_eq(asked[2], t.dataset.edge_time + 3);
    ck_assert_uint_eq(asked_bytes[2], 2 * 8);
    sl_topology_close(&t);
}

// A file that took the place of the one that the broker has looked at is no way to wrong batches.
TEST(weights_that_were_exchanged_are_refused_with_their_file)
{
    struct sl_topology t;
    must(open_tiny(&t, true));
    char *record = sl_dataset_record(&t.dataset);
    sl_topology_close(&t);
    must(sl_topology_open(&t, dir, record, SL_NEED_WEIGHTS, -1, sl_kernels_cpu(), 1));
    sl_topology_close(&t);
    WRITE_F32("edge_weight.npy", 1, 2, 3, 4, -1, 5, 6);
    ck_assert_int_eq(sl_topology_open(&t, dir, record, SL_NEED_WEIGHTS, -1, sl_kernels_cpu(), 1),
                     SL_ECHANGED);
    assert_message_has("edge_weight.npy");
    ck_assert_ptr_null(t.dataset.files);
    sl_topology_close(&t);
    free(record);
}

RUN_TESTS(.setup = tiny_begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
