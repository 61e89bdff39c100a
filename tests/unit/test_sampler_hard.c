// Hard negatives of a relation: beside those of a plain graph of two sides, whose definition
// test_sampler_pairs.c has.
#include <string.h>

#include "common/base/error.h"
#include "common/base/philox.h"
#include "sampler/pairs.h"
#include "tests/unit/suite.h"

enum { FIRST = 12, ALL = 90, SECOND = ALL - FIRST, BATCH = 150, LISTED = 160, ROOM = 2 * 500 };

static uint64_t indptr[ALL + 1], rows[ALL + 1];
static int32_t indices[ROOM], ids[ROOM];
static uint32_t target_of[ROOM], some[2 * LISTED];
static struct sl_config config;
static struct sl_vertex_type types[] = {{.n = FIRST}, {.first = FIRST, .n = SECOND}};
static struct sl_relation relation[] = {
    {.source = 0, .target = 1, .reverse_of = 1},
    {.source = 1, .target = 0, .first_row = SECOND, .reverse_of = SL_NO_RELATION}};

static bool has_edge(uint32_t u, uint32_t v)
{
    const uint32_t one = u < v ? u : v, other = u < v ? v : u;
    return one < FIRST && other >= FIRST &&
           sl_philox(5, sl_rng_word0(SL_RNG_GENERATE, 9, 0), one, other, 0).w[0] % 5 == 0;
}

// Vertices below FIRST and the others: edges join one and one, in both directions.
static struct sl_dataset two_sides(void)
{
    uint64_t n = 0;
    for (uint32_t v = 0; v < ALL; v++) {
        indptr[v] = n;
        for (uint32_t u = 0; u < ALL; u++)
            if (has_edge(u, v)) {
                ck_assert_uint_lt(n, ROOM);
                target_of[n] = v;
                indices[n++] = (int32_t)u;
            }
    }
    indptr[ALL] = n;
    return (struct sl_dataset){.n_nodes = ALL,
                               .n_edges = n,
                               .first_side = FIRST,
                               .task = SL_TASK_LINK,
                               .indptr = indptr,
                               .indices = indices,
                               .indices_dtype = SL_DTYPE_I32};
}

// The same as a relation from the first type to the second, and one back.
static struct sl_dataset two_types(const struct sl_dataset *plain, uint32_t linked)
{
    const uint64_t n_back = indptr[FIRST], n_there = plain->n_edges - n_back;
    for (uint32_t r = 0; r < SECOND; r++)
        rows[r] = indptr[FIRST + r] - n_back;
    for (uint32_t r = 0; r <= FIRST; r++)
        rows[SECOND + r] = n_there + indptr[r];
    memcpy(ids, indices + n_back, n_there * sizeof *ids);
    memcpy(ids + n_there, indices, n_back * sizeof *ids);
    relation[0].n_edges = relation[1].first_edge = n_there;
    relation[1].n_edges = n_back;
    struct sl_dataset ds = *plain;
    ds.first_side = 0;
    ds.indptr = rows;
    ds.indices = ids;
    ds.typed = (struct sl_typed){.n_types = 2,
                                 .n_relations = 2,
                                 .n_rows = ALL,
                                 .type = types,
                                 .relation = relation,
                                 .linked = linked};
    return ds;
}

static void ask_for_hard_ones(uint32_t i)
{
    config = (struct sl_config){
        .seed = 77, .task = {.kind = SL_JOB_LINKS, .strict = SL_STRICT_GRAPH, .per_positive = 3}};
    config.task.hard.kind = SL_HARD_WALKS;
    config.task.hard.per_positive = 2;
    config.task.hard.from_epoch = 1;
    config.task.hard.first_rank = 1 + i / 2;
    config.task.hard.last_rank = 12;
    config.task.hard.paths = 20;
    config.task.hard.length = 3 + i; // of one Philox block, and of several
    config.task.hard.restart = i % 3 ? 0.25 : 0;
}

// Of every third edge to that side.
static struct sl_pair_list list_pairs(const struct sl_dataset *ds, bool to_first)
{
    struct sl_pair_list list = {.ids = some};
    for (uint64_t e = 0; e < ds->n_edges && list.n < LISTED; e += 3) {
        if (to_first != (target_of[e] < FIRST))
            continue;
        some[2 * list.n] = (uint32_t)indices[e];
        some[2 * list.n++ + 1] = target_of[e];
    }
    return list;
}

// Walks by turns along a relation and its reverse are those of the graph that has both their edges.
LOOP_TEST(of_a_relation_they_are_those_of_two_sides, 0, 6)
{
    const bool back = _i % 2;
    struct sl_dataset plain = two_sides();
    plain.edges[SL_SPLIT_TRAIN] = list_pairs(&plain, back);
    const struct sl_dataset typed = two_types(&plain, back);
    const uint32_t n = (uint32_t)plain.edges[SL_SPLIT_TRAIN].n;
    struct sl_pair_maker maker, own;
    uint32_t items[BATCH], n_hard = 0;
    ask_for_hard_ones((uint32_t)_i);
    ck_assert_int_eq(sl_pair_maker_init(&maker, &config, &plain), SL_OK);
    ck_assert_int_eq(sl_pair_maker_init(&own, &config, &typed), SL_OK);
    for (uint32_t batch = 0; batch < 3; batch++) {
        for (uint32_t i = 0; i < BATCH; i++)
            items[i] = (i * 7 + batch) % n;
        ck_assert_int_eq(sl_pair_maker_make(&maker, 1, batch, items, BATCH), SL_OK);
        ck_assert_int_eq(sl_pair_maker_make(&own, 1, batch, items, BATCH), SL_OK);
        for (uint32_t i = 0; i < 2 * own.pairs.n; i++)
            ck_assert_uint_eq(maker.seeds[maker.pairs.ids[i]], own.seeds[own.pairs.ids[i]]);
        ck_assert_uint_eq(maker.hard.n_missing, own.hard.n_missing);
        n_hard += sl_pair_maker_hard(&own);
    }
    ck_assert_uint_gt(n_hard, BATCH);
    sl_pair_maker_fini(&maker);
    sl_pair_maker_fini(&own);
}

RUN_TESTS(.timeout_s = 20)
