// A whole partition: what memory rules out, and what is said of it.
#include "common/base/memory.h"
#include "partition/partition.h"
#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

static struct sl_partition p;

static int make(int method)
{
    free_graph();
    p = (struct sl_partition){.dataset = dir,
                              .n_parts = 3,
                              .method = method,
                              .slack = 0.03,
                              .hops = {.n_hops = 1, .fanout = {3}, .batch_size = 10},
                              .seed = 1,
                              .quiet = true};
    return sl_partition_make(&p);
}

static uint64_t left(void *bytes)
{
    return *(uint64_t *)bytes;
}

CASE(.begin = scratch_begin, .end = scratch_end)

TEST(a_graph_that_metis_has_no_memory_for_is_streamed)
{
    uint64_t bytes = 1 << 10;
    write_graph(300, 3, 1);
    use_fake_metis("");
    const int entries = count_entries();
    sl_memory_set_bound(left, &bytes);
    ck_assert_int_eq(make(SL_PARTITION_METIS), SL_ENOMEM);
    assert_message_has("found 1.00 KiB of memory available");
    assert_message_has("--method stream");
    ck_assert_int_eq(count_entries(), entries);
    must(make(SL_PARTITION_AUTO));
    ck_assert_int_eq(p.used, SL_PARTITION_STREAM);
    ck_assert_ptr_nonnull(strstr(p.why, "of memory available"));
    ck_assert_int_eq(count_entries(), entries + 1);
}

TEST(memory_is_looked_at_again_once_the_graph_is_made)
{
    write_graph(300, 3, 1);
    use_fake_metis("");
    // Enough for as many entries as edges; both directions have nearly twice as many.
    uint64_t bytes = 64 * graph.n_edges + 100 * 300;
    sl_memory_set_bound(left, &bytes);
    ck_assert_int_eq(make(SL_PARTITION_METIS), SL_ENOMEM);
    assert_message_has("METIS itself: found");
    sl_memory_set_bound(NULL, NULL);
    must(make(SL_PARTITION_AUTO));
    ck_assert_int_eq(p.used, SL_PARTITION_METIS);
    ck_assert_str_eq(p.why, "");
}

TEST(a_metis_that_fails_is_no_reason_for_another_method)
{
    write_graph(300, 3, 1);
    use_fake_metis("fail");
    const int entries = count_entries();
    ck_assert_int_eq(make(SL_PARTITION_AUTO), SL_EFAILED);
    ck_assert_int_eq(count_entries(), entries);
}

TEST(a_file_that_is_there_stays)
{
    write_graph(30, 3, 1);
    must(make(SL_PARTITION_STREAM));
    ck_assert_int_eq(make(SL_PARTITION_STREAM), SL_EEXIST);
    assert_message_has("node_part.npy' exists");
}

RUN_TESTS()
