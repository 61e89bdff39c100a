// What the first node finds out about all, over a fake world.
#include "nodes/survey.h"

#include <stdio.h>
#include <time.h>

#include "tests/unit/nodes_fake_world.h"
#include "tests/unit/suite.h"

static struct fake_node nodes[FAKE_NODES_MAX];
static const char *data[FAKE_NODES_MAX];
static uint64_t ahead_ns[FAKE_NODES_MAX];
static char notes[4096];
static uint32_t n_links, shown;

static int look(void *ctx, struct sl_facts *facts)
{
    const struct fake_node *node = ctx;
    SL_TRY(sl_facts_add(facts, SL_FACT_SLUICE, "", "version 1"));
    return sl_facts_add(facts, SL_FACT_DATA, "indices.npy", "%s",
                        data[node->rank] ? data[node->rank] : "8 bytes");
}

static uint64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * SL_WORLD_SECOND + (uint64_t)t.tv_nsec + ahead_ns[fake_rank];
}

static void show(void *ctx, const struct sl_world *w, const struct sl_survey *s)
{
    shown++;
    n_links = s->n_links;
    for (size_t i = 0; i < s->notes.n; i++) {
        strcat(notes, s->notes.note[i].text);
        strcat(notes, "\n");
    }
    for (uint32_t i = 0; i < s->n_links; i++) {
        ck_assert_uint_lt(s->link[i].a, s->link[i].b);
        for (int k = 0; k <= SL_LINK_RATE_1M; k++)
            ck_assert_double_gt(s->link[i].figure[k], 0);
        for (uint32_t j = 0; j < i; j++)
            ck_assert(s->link[i].a != s->link[j].a || s->link[i].b != s->link[j].b);
    }
}

static int survey(struct sl_world *w, struct fake_node *node)
{
    const struct sl_survey_spec spec = {
        .look = look, .ctx = node, .wall_ns = wall_ns, .show = show};
    return sl_survey_run(w, &spec, &node->problems);
}

static void run(uint32_t n, uint32_t problems)
{
    fake_nodes_start(nodes, n, survey);
    fake_nodes_join(nodes, n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_msg(nodes[i].rc == SL_OK, "%s", nodes[i].message);
        ck_assert_uint_eq(nodes[i].problems, problems);
    }
    ck_assert_uint_eq(shown, 1);
}

LOOP_TEST(each_pair_of_nodes_that_are_alike_is_measured_once, 1, FAKE_NODES_MAX + 1)
{
    run((uint32_t)_i, 0);
    ck_assert_uint_eq(n_links, (uint32_t)_i * (uint32_t)(_i - 1) / 2);
    ck_assert_str_eq(notes, "");
}

TEST(all_hear_of_a_problem_and_nothing_is_measured)
{
    data[0] = "9 bytes";
    run(3, 1);
    ck_assert_uint_eq(n_links, 0);
    assert_part(notes, "a: data set indices.npy: found 9 bytes, wanted 8 bytes, as on b: ");
}

TEST(a_clock_that_is_off_is_a_warning)
{
    ahead_ns[1] = 3600 * SL_WORLD_SECOND;
    ahead_ns[2] = -(uint64_t)2 * SL_WORLD_SECOND;
    run(3, 0);
    ck_assert_uint_eq(n_links, 3);
    assert_part(notes, "b: its clock is 3600.0 s ahead of that of a");
    assert_part(notes, "c: its clock is 2.0 s behind that of a");
}

TEST(two_processes_on_a_host_are_a_warning)
{
    nodes[2].host = "a";
    run(3, 0);
    assert_part(notes, "ranks 0 and 2 are both on host a");
}

TEST(the_slowest_of_links_is_known_by_what_was_measured)
{
    const struct sl_link links[] = {
        {.figure = {[SL_LINK_TRIP_8] = 1e-5, [SL_LINK_RATE_1M] = 1e9}},
        {.figure = {[SL_LINK_TRIP_8] = 3e-5, [SL_LINK_RATE_1M] = 5e8}},
        {.figure = {[SL_LINK_TRIP_8] = 2e-5, [SL_LINK_TRIP_32K] = 0.5}},
        {.figure = {0}},
    };
    ck_assert_double_eq(sl_link_slowest(links, 2).trip_s, 3e-5);
    ck_assert_double_eq(sl_link_slowest(links, 2).bytes_per_s, 5e8);
    ck_assert_double_eq(sl_link_slowest(links, 4).bytes_per_s, 2 * 32768 / 0.5);
    ck_assert_double_eq(sl_link_slowest(links + 3, 1).bytes_per_s, 0);
    ck_assert_double_eq(sl_link_slowest(NULL, 0).bytes_per_s, 0);
}

RUN_TESTS(.timeout_s = AWAIT_CASE_S)
