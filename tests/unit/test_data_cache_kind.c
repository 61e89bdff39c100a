// What holds of every row of the table of cache policies.
#include "common/data/cache_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { NODES = 1000, DEGREE = 7, EDGES = NODES * DEGREE, TRAINED = 100 };

static uint32_t indices[EDGES], train[TRAINED], hotness[NODES + 1], again[NODES + 1];
static uint64_t indptr[NODES + 1];
static const int64_t fanout[] = {5, -1};
static const struct sl_dataset dataset = {
    .n_nodes = NODES,
    .n_edges = EDGES,
    .indptr = indptr,
    .indices = indices,
    .indices_dtype = SL_DTYPE_U32,
    .split = {{TRAINED, train}},
};
static struct sl_cache_inputs facts = {
    .dataset = &dataset, .seed = 3, .sampling = {.n_hops = SL_COUNT_OF(fanout), .fanout = fanout}};

static void setup(void)
{
    for (uint32_t v = 0; v <= NODES; v++)
        indptr[v] = (uint64_t)v * DEGREE;
    for (uint32_t e = 0; e < EDGES; e++)
        indices[e] = sl_philox(5, sl_rng_word0(SL_RNG_GENERATE, 201, 0), e, 0, 0).w[0] % NODES;
    for (uint32_t i = 0; i < TRAINED; i++)
        train[i] = 3 * i;
}

LOOP_TEST(each_goes_by_one_thing, 0, SL_CACHE_COUNT)
{
    const struct sl_cache_kind *kind = &sl_cache_kinds[_i];
    bool counts = kind->counts != SL_VISITS_NONE, computes = kind->hotness != NULL;
    bool none = _i == SL_CACHE_NONE || _i == SL_CACHE_AUTO;
    ck_assert_int_eq(counts + computes, none ? 0 : 1);
    ck_assert_int_eq(sl_cache_keeps(_i), !none);
}

LOOP_TEST(auto_keeps_rows_on_gpus_and_where_they_are_read_from_the_drive, 0, SL_CACHE_COUNT)
{
    for (int set = 0; set < 8; set++) {
        const struct sl_cache_site site = {
            .gpus = set & 1, .reads = set >> 1 & 1, .uniform = set >> 2};
        const char *why = "";
        enum sl_cache_policy found = sl_cache_choose(_i, &site, &why);
        enum sl_cache_policy kept = site.uniform ? SL_CACHE_EXPECTED : SL_CACHE_DEGREE;
        enum sl_cache_policy automatic = site.gpus || site.reads ? kept : SL_CACHE_NONE;
        ck_assert_int_eq(found, _i == SL_CACHE_AUTO ? automatic : (enum sl_cache_policy)_i);
        ck_assert_int_eq(why != NULL, _i == SL_CACHE_AUTO);
        if (!why)
            continue;
        ck_assert_int_eq(strstr(why, "GPU") != NULL, site.gpus);
        ck_assert_int_eq(strstr(why, "drive") != NULL, site.reads && !site.gpus);
        ck_assert_int_eq(strstr(why, "foreseen") != NULL, found == SL_CACHE_DEGREE);
    }
}

// Only where both hold: a small graph is passed over at once, and a long epoch hides it.
TEST(auto_counts_visits_where_foreseeing_them_takes_longer_than_it_saves)
{
    static const struct {
        double passed, sampled;
        bool slow;
    } jobs[] = {
        {6.9e9, 1.5e7, true},  // 16 mini-batches of a graph of 2.3 G edges
        {4.8e9, 1.1e9, false}, // all the papers of papers100M that have labels
        {7e6, 100, false},     // few seeds of a small graph
        {7e6, 8e7, false},     // ogbn_arxiv
    };
    for (size_t i = 0; i < SL_COUNT_OF(jobs); i++) {
        for (int set = 0; set < 16; set++) {
            const struct sl_cache_site site = {.gpus = set & 1,
                                               .reads = set >> 1 & 1,
                                               .uniform = set >> 2 & 1,
                                               .once = set >> 3,
                                               .passed = jobs[i].passed,
                                               .sampled = jobs[i].sampled};
            struct sl_cache_site fast = site;
            fast.passed = 0;
            const char *why, *usual;
            const enum sl_cache_policy found = sl_cache_choose(SL_CACHE_AUTO, &site, &why);
            const enum sl_cache_policy before = sl_cache_choose(SL_CACHE_AUTO, &fast, &usual);
            const bool other = before == SL_CACHE_EXPECTED && jobs[i].slow;
            ck_assert_int_eq(found, !other ? before : site.once ? SL_CACHE_NONE : SL_CACHE_PRESC);
            ck_assert_int_eq(strcmp(why, usual) != 0, other);
        }
    }
}

LOOP_TEST(each_has_a_word_of_its_own_and_says_what_it_keeps, 0, SL_CACHE_COUNT)
{
    char said[64];
    ck_assert_str_eq(sl_cache_kinds[_i].word, sl_cache_words[_i]);
    for (int other = 0; other < _i; other++)
        ck_assert_str_ne(sl_cache_words[other], sl_cache_words[_i]);
    ck_assert_ptr_null(sl_cache_words[SL_CACHE_COUNT]);
    snprintf(said, sizeof said, ". %s: ", sl_cache_words[_i]);
    ck_assert_ptr_nonnull(strstr(sl_cache_doc, said));
}

LOOP_TEST(a_metric_fills_every_vertex_and_nothing_else, 0, SL_CACHE_COUNT)
{
    if (!sl_cache_kinds[_i].hotness)
        return;
    memset(hotness, 0xee, sizeof hotness);
    memset(again, 0x11, sizeof again);
    ck_assert_int_eq(sl_cache_kinds[_i].hotness(&facts, hotness), SL_OK);
    ck_assert_int_eq(sl_cache_kinds[_i].hotness(&facts, again), SL_OK);
    ck_assert_mem_eq(hotness, again, NODES * sizeof *hotness);
    ck_assert_uint_eq(hotness[NODES], 0xeeeeeeee);
}

LOOP_TEST(a_metric_stops_on_request, 0, SL_CACHE_COUNT)
{
    atomic_bool cancel = true;
    facts.cancel = &cancel;
    if (sl_cache_kinds[_i].hotness)
        ck_assert_int_eq(sl_cache_kinds[_i].hotness(&facts, hotness), SL_EABORTED);
}

RUN_TESTS(.setup = setup)
