// A data set that is described alone: its sizes, who may read them, and what it must say.
#include "common/data/dataset.h"
#include "common/data/features_kind.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#define SIZES                                                                                      \
    "\"num_nodes\": 9, \"num_edges\": 12, \"num_classes\": 2, \"types\": [{\"name\": \"paper\", "  \
    "\"count\": 4, \"feat_dim\": 3}, {\"name\": \"author\", \"count\": 5}], \"relations\": "       \
    "[{\"source\": \"author\", \"name\": \"writes\", \"target\": \"paper\", \"edges\": 12}]"
#define SAYS(what) SIZES ", \"described\": " what
#define WHOLE      SAYS("{\"features\": \"float16\", \"train\": 3, \"val\": 1}")
#define PLAIN(sizes, what)                                                                         \
    "\"num_nodes\": " sizes ", \"num_edges\": 5000000000, \"described\": " what

enum { NEED = SL_NEED_TRAINING | SL_TAKES_DESCRIBED };

static void write_metadata(const char *keys)
{
    char text[2048];
    snprintf(text, sizeof text, "{%s}", keys);
    write_text("metadata.json", text);
}

CASE(.setup = dir_begin, .begin = scratch_begin, .end = scratch_end)

TEST(sizes_are_those_of_the_files_that_would_be_there)
{
    struct sl_dataset ds;
    write_metadata(WHOLE);
    must(sl_dataset_open(dir, NEED, SL_CHECK_CACHED, 1, &ds));
    ck_assert(ds.described);
    ck_assert_int_eq(ds.task, SL_TASK_MULTICLASS);
    ck_assert_uint_eq(sl_features_bytes(&ds), 4 * 3 * 2);
    ck_assert_uint_eq(sl_topology_bytes(&ds), (4 + 1) * 8 + 12 * 4);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 3);
    ck_assert_uint_eq(ds.split[SL_SPLIT_VAL].n, 1);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TEST].n, 0);
    ck_assert(!ds.indptr && !ds.indices && !ds.label && !ds.typed.type[0].feat);
    sl_dataset_close(&ds);
}

TEST(of_one_type)
{
    struct sl_dataset ds;
    write_metadata(PLAIN(
        "4294967294", "{\"features\": \"float32\", \"train\": 4294967294}") ", \"feat_dim\": 7, "
                                                                            "\"num_classes\": 3");
    must(sl_dataset_open(dir, NEED, SL_CHECK_CACHED, 1, &ds));
    ck_assert_uint_eq(sl_features_bytes(&ds), 4294967294 * 7 * 4);
    ck_assert_uint_eq(sl_topology_bytes(&ds), 4294967295 * 8 + 5000000000 * 4);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 4294967294);
    sl_dataset_close(&ds);
}

#define OF_EDGES(what)                                                                             \
    SAYS("{\"features\": \"float16\", \"train\": 3, \"edge_features\": " what "}")

// Where the job reads them.
TEST(features_of_edges_count)
{
    struct sl_dataset ds;
    for (int i = 0; i < 4; i++) {
        const unsigned need = NEED | (i % 2 ? SL_NEED_EDGE_FEATURES : 0);
        write_metadata(i < 2 ? OF_EDGES("{\"author -writes-> paper\": 5}")
                             : PLAIN("9", "{\"features\": \"float16\", \"train\": 1, "
                                          "\"edge_features\": 5}") ", \"feat_dim\": 3, "
                                                                   "\"num_classes\": 3");
        must(sl_dataset_open(dir, need, SL_CHECK_CACHED, 1, &ds));
        const uint64_t wanted = ds.n_edges * (i % 2 ? 5 * 2 : 0);
        ck_assert_uint_eq(sl_relation_feature_bytes(sl_typed_edge_set(&ds.typed, 0)), wanted);
        sl_dataset_close(&ds);
    }
}

TEST(another_process_opens_the_same_one)
{
    struct sl_dataset ds, again;
    write_metadata(WHOLE);
    must(sl_dataset_open(dir, NEED, SL_CHECK_CACHED, 1, &ds));
    char *record = sl_dataset_record(&ds);
    must(sl_dataset_open_recorded(dir, NEED, record, 1, &again));
    must(sl_dataset_hold(&again));
    ck_assert_uint_eq(again.digest, ds.digest);
    sl_dataset_close(&again);
    write_metadata(SAYS("{\"features\": \"float16\", \"train\": 4}"));
    ck_assert_int_eq(sl_dataset_open_recorded(dir, NEED, record, 1, &again), SL_ECHANGED);
    assert_message_has("metadata.json");
    free(record);
    sl_dataset_close(&ds);
}

static const struct {
    const char *keys;
    unsigned need;
    int code;
    const char *a, *b;
} refused[] = {
    {WHOLE, NEED & ~SL_TAKES_DESCRIBED, SL_EUNSUPPORTED, "is described alone",
     "`sluice run --dry-run`"},
    {WHOLE, NEED | SL_NEED_WEIGHTS, SL_EUNSUPPORTED, "weights and times", "khop"},
    {WHOLE, NEED | SL_NEED_TIMES, SL_EUNSUPPORTED, "weights and times", "sampler.time"},
    {SAYS("true"), NEED, SL_EFORMAT, "\"described\" is no object", "\"float16\""},
    {SAYS("{\"train\": 3}"), NEED, SL_EFORMAT, "\"described.features\" is missing", "float32"},
    {SAYS("{\"features\": \"int8\", \"train\": 3}"), NEED, SL_EFORMAT,
     "\"described.features\" is \"int8\"", "\"float32\" or \"float16\""},
    {SAYS("{\"features\": \"float16\", \"train\": -1}"), NEED, SL_EFORMAT,
     "\"described.train\" is -1", "whole number"},
    {SAYS("{\"features\": \"float16\", \"train\": 5}"), NEED, SL_EFORMAT,
     "\"described.train\" is 5, wanted at most 4", "vertices that lists"},
    {SAYS("{\"features\": \"float16\", \"train\": 3, \"val\": 2}"), NEED, SL_EFORMAT,
     "\"described.val\" and those before it are 5, wanted at most 4", ""},
    {SAYS("{\"features\": \"float16\"}"), NEED, SL_EFORMAT, "no training vertices", "\"train\""},
    {PLAIN("9", "{\"features\": \"float16\", \"train\": 1}") ", \"num_classes\": 3", NEED,
     SL_EFORMAT, "no features", "\"feat_dim\""},
    {PLAIN("9", "{\"features\": \"float16\", \"train\": 1}") ", \"feat_dim\": 3", NEED, SL_EFORMAT,
     "no labels", "\"num_classes\""},
    {WHOLE, NEED | SL_NEED_EDGE_FEATURES, SL_EFORMAT, "no features of edges", "\"edge_features\""},
    {OF_EDGES("{\"wrote\": 5}"), NEED, SL_EFORMAT, "names 'wrote', which is no relation",
     "'author -writes-> paper'"},
    {OF_EDGES("5"), NEED, SL_EFORMAT, "\"described.edge_features\" is no object", "\"writes\": 8"},
    {OF_EDGES("{\"writes\": 0.5}"), NEED, SL_EFORMAT, "\"described.edge_features\" of writes",
     "a whole number from 1"},
    {PLAIN("9", "{\"features\": \"float16\", \"train\": 1, \"edge_features\": {\"writes\": 5}}"),
     NEED, SL_EFORMAT, "\"described.edge_features\": wanted a whole number", "has one type"},
    // More vertices than ids of 32 bits tell apart: of one type, and of several together.
    {PLAIN("4294967295", "{\"features\": \"float16\", \"train\": 1}"), NEED, SL_EUNSUPPORTED,
     "\"num_nodes\" is 4294967295", "at most 4294967294 vertices"},
    {"\"num_nodes\": 5000000000, \"num_edges\": 12, \"types\": [{\"name\": \"paper\", \"count\": "
     "4000000000}, {\"name\": \"author\", \"count\": 1000000000}], \"relations\": [{\"source\": "
     "\"author\", \"name\": \"writes\", \"target\": \"paper\", \"edges\": 12}]",
     NEED, SL_EUNSUPPORTED, "\"num_nodes\" is 5000000000", "vertex ids are 32-bit"},
    {"\"num_nodes\": 5000000000, \"num_edges\": 12, \"types\": [{\"name\": \"paper\", \"count\": "
     "5000000000}], \"relations\": [{\"source\": \"paper\", \"name\": \"cites\", \"target\": "
     "\"paper\", \"edges\": 12}]",
     NEED, SL_EUNSUPPORTED, "\"types[0].count\" is 5000000000", "more than the"},
};

LOOP_TEST(what_is_refused, 0, SL_COUNT_OF(refused))
{
    struct sl_dataset ds;
    write_metadata(refused[_i].keys);
    ck_assert_int_eq(sl_dataset_open(dir, refused[_i].need, SL_CHECK_CACHED, 1, &ds),
                     refused[_i].code);
    assert_message_has(refused[_i].a);
    assert_message_has(refused[_i].b);
    ck_assert_ptr_null(ds.files);
}

RUN_TESTS(.setup = dir_begin, .begin = scratch_begin, .end = scratch_end)
