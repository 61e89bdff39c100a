// Jobs on graphs of several types: fanouts by relation, and what such a job may ask for.
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset.h"
#include "tests/unit/suite.h"

static struct sl_vertex_type types[] = {
    {.name = "paper", .n = 4},
    {.name = "author", .first = 4, .n = 3},
    {.name = "venue", .first = 7, .n = 2},
};
static struct sl_relation relations[] = {
    {.name = "writes", .source = 1, .target = 0},
    {.name = "rev_writes", .source = 0, .target = 1},
    {.name = "cites", .source = 0, .target = 0},
    {.name = "cites", .source = 0, .target = 1},
};
enum { N = SL_COUNT_OF(relations) };
static struct sl_dataset typed = {.path = "t",
                                  .n_nodes = 9,
                                  .typed = {.n_types = 3,
                                            .n_relations = N,
                                            .type = types,
                                            .relation = relations}},
                         plain = {.path = "p", .n_nodes = 9};
static struct sl_config config;

// A job of two layers with this fanout and these keys behind.
static int parse(const char *fanout, const char *keys)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"}, \"sampler\": {\"fanout\": "
             "%s%s}",
             fanout, keys);
    return sl_config_parse(text, strlen(text), "job", &config);
}

static void must_parse(const char *fanout, const char *keys)
{
    if (parse(fanout, keys) < 0)
        ck_abort_msg("%s", sl_error_message());
}

static void message_has(const char *part)
{
    ck_assert_msg(!part || strstr(sl_error_message(), part), "wanted \"%s\" in: %s", part,
                  sl_error_message());
}

TEST(names_become_fanouts_of_relations)
{
    static const int64_t wanted[2][N] = {{15, -1, 3, 2}, {0, 7, 4, 2}};
    must_parse("{\"writes\": [15, 0], \"*\": [2, 2], \"paper -cites-> paper\": [3, 4],"
               " \"paper -rev_writes-> author\": [-1, 7]}",
               "}");
    ck_assert_int_eq(sl_config_find_relations(&config, &typed.typed), SL_OK);
    ck_assert_mem_eq(config.sampler.fanout_names.by_relation, wanted, sizeof wanted);
    ck_assert_ptr_null(config.evaluate.fanout_names.by_relation); // external
    sl_config_forget_relations(&config);
    ck_assert_ptr_null(config.sampler.fanout_names.by_relation);
}

TEST(a_list_is_for_every_relation)
{
    must_parse("[3, 2]", "}");
    ck_assert_int_eq(sl_config_find_relations(&config, &typed.typed), SL_OK);
    ck_assert_ptr_null(config.sampler.fanout_names.by_relation);
    ck_assert_int_eq(sl_config_check_types(&config, &plain), SL_OK);
}

TEST(a_star_alone_is_for_every_relation)
{
    static const int64_t wanted[2][N] = {{3, 3, 3, 3}, {0, 0, 0, 0}};
    must_parse("{\"*\": [3, 0]}", "}");
    ck_assert_int_eq(sl_config_find_relations(&config, &typed.typed), SL_OK);
    ck_assert_mem_eq(config.sampler.fanout_names.by_relation, wanted, sizeof wanted);
    sl_config_forget_relations(&config);
    ck_assert_int_eq(sl_config_check_types(&config, &plain), SL_EINVAL);
}

static const struct {
    const char *fanout, *says, *also;
} unknown[] = {
    {"{\"wrote\": [1, 1], \"*\": [1, 1]}", "sampler.fanout: found \"wrote\", which is no relation",
     "wanted one of \"author -writes-> paper\", \"paper -rev_writes-> author\""},
    {"{\"cites\": [1, 1], \"*\": [1, 1]}", "found \"cites\", which is the name of several",
     "\"paper -cites-> paper\", \"paper -cites-> author\""},
    {"{\"writes\": [1, 1], \"author -writes-> paper\": [1, 1], \"*\": [1, 1]}",
     "found \"writes\" and \"author -writes-> paper\"", "the same relation"},
    {"{\"writes\": [1, 1]}", "found no list for \"paper -rev_writes-> author\"",
     "or \"*\" for all"},
    {"{\"a\\u0007b\": [1, 1], \"*\": [1, 1]}", "found \"a", "no relation"},
};

TEST(names_that_are_no_relation_are_told)
{
    for (size_t i = 0; i < SL_COUNT_OF(unknown); i++) {
        must_parse(unknown[i].fanout, "}");
        ck_assert_int_eq(sl_config_find_relations(&config, &typed.typed), SL_EINVAL);
        message_has(unknown[i].says);
        message_has(unknown[i].also);
        ck_assert_ptr_null(strchr(sl_error_message(), '\a'));
        sl_config_forget_relations(&config);
    }
}

TEST(as_many_names_as_there_is_room_for)
{
    char fanout[4096] = "{", *at = fanout + 1;
    for (int i = 0; i < SL_FANOUT_MAX_NAMES; i++)
        at += sprintf(at, "\"r%d\": [1, 2], ", i);
    char text[5120];
    for (int extra = 0; extra < 2; extra++) {
        sprintf(at, "%s\"*\": [3, 4]}", extra ? "\"one more\": [1, 2], " : "");
        snprintf(text, sizeof text,
                 "{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"}, \"sampler\": "
                 "{\"fanout\": %s}}",
                 fanout);
        int rc = sl_config_parse(text, strlen(text), "job", &config);
        ck_assert_int_eq(rc, extra ? SL_EINVAL : SL_OK);
        if (!extra)
            ck_assert_uint_eq(config.sampler.fanout_names.n, SL_FANOUT_MAX_NAMES);
    }
    message_has("found \"one more\" behind 64 others");
}

// Keys behind sampler.fanout, and what the refusal says.
static const struct {
    const char *keys, *says, *also;
} refused[] = {
    {", \"subgraph\": \"induced\", \"expand\": \"new\"}", "sampler.subgraph: found", "directional"},
    {"}, \"order\": {\"kind\": \"proximity\"}", "order.kind: found \"proximity\"", "shuffled"},
};

TEST(what_typed_graphs_lack_is_refused_with_its_key)
{
    for (size_t i = 0; i < SL_COUNT_OF(refused); i++) {
        must_parse("[3, 2]", refused[i].keys);
        ck_assert_msg(sl_config_check_types(&config, &plain) == SL_OK, "%s: %s", refused[i].keys,
                      sl_error_message());
        ck_assert_msg(sl_config_check_types(&config, &typed) == SL_EUNSUPPORTED, "%s",
                      refused[i].keys);
        message_has(refused[i].says);
        message_has(refused[i].also);
        message_has("whose graph has several types");
    }
    must_parse("[3, 2]", "}");
    ck_assert_int_eq(sl_config_check_types(&config, &typed), SL_OK);
    // Following the advice.
    must_parse("[3, 2]", "}, \"cache\": {\"policy\": \"degree\"}, "
                         "\"store\": {\"features\": \"storage\"}");
    ck_assert_int_eq(sl_config_check_types(&config, &typed), SL_OK);
}

static void with_a_gpu(const char *keys)
{
    must_parse("[3, 2]", keys);
    config.devices[config.n_devices++] = (struct sl_device_config){.kind = SL_DEVICE_CUDA};
}

TEST(gpus_take_seeds_of_the_first_type)
{
    const struct sl_dataset of_others = {
        .path = "d", .typed = {.n_types = 2, .n_relations = 2, .type = types, .listed = 1}};
    with_a_gpu("}");
    ck_assert_int_eq(sl_config_check_types(&config, &typed), SL_OK);
    ck_assert_int_eq(sl_config_check_types(&config, &of_others), SL_EUNSUPPORTED);
    message_has("whose lists are not of the first of them, wanted \"cpu\"");
}

TEST(lists_by_relation_are_of_typed_graphs_alone)
{
    must_parse("{\"writes\": [1, 1], \"*\": [1, 1]}", "}");
    ck_assert_int_eq(sl_config_check_types(&config, &typed), SL_OK);
    ck_assert_int_eq(sl_config_check_types(&config, &plain), SL_EINVAL);
    message_has("sampler.fanout: found lists by relation");
}

TEST(a_list_may_take_all_neighbours)
{
    must_parse("[3, 2]", "}");
    ck_assert(!sl_config_evaluates_all(&config)); // external
    config.model.kind = SL_MODEL_RSAGE;
    config.evaluate.full = true;
    ck_assert(!sl_config_evaluates_all(&config));
    config.evaluate.full = false;
    config.evaluate.fanout[0] = config.evaluate.fanout[1] = -1;
    ck_assert(sl_config_evaluates_all(&config));
    config.evaluate.fanout[1] = 5;
    ck_assert(!sl_config_evaluates_all(&config));
}

// ---- walks along metapaths ----------------------------------------------------------------------

#define ALONG(paths) ", \"kind\": \"walk\", \"metapaths\": {" paths "}}"

// A data set whose relations may be taken away.
static struct sl_dataset own_dataset(void)
{
    struct sl_dataset ds = typed;
    ds.typed.relation = memcpy(malloc(sizeof relations), relations, sizeof relations);
    ds.typed.linked = SL_NO_RELATION;
    return ds;
}

TEST(metapaths_become_the_relations)
{
    static const int64_t wanted[2][2] = {{3, 1}, {2, 0}};
    struct sl_dataset ds = own_dataset();
    must_parse("{\"near\": [1, 0], \"*\": [3, 2]}",
               ALONG("\"near\": [\"author -writes-> paper\", \"rev_writes\"], "
                     "\"far\": [\"paper -cites-> paper\", \"writes\"]"));
    ck_assert_int_eq(sl_config_check_types(&config, &ds), SL_OK);
    ck_assert_int_eq(sl_config_choose_paths(&config, &ds), SL_OK);
    ck_assert_uint_eq(ds.typed.n_relations, 2);
    ck_assert_uint_eq(ds.typed.n_walked, N);
    ck_assert_str_eq(sl_relation_text(&ds.typed, 0).text, "author -far-> paper");
    ck_assert_str_eq(sl_relation_text(&ds.typed, 1).text, "paper -near-> paper");
    const struct sl_relation *near = &ds.typed.relation[1];
    ck_assert_uint_eq(near->n_steps, 2);
    ck_assert_str_eq(sl_relation_text(&ds.typed, near->step[1]).text, "paper -rev_writes-> author");
    ck_assert(sl_relation_is_round(near) && !sl_relation_is_round(&ds.typed.relation[0]));
    // Once is enough.
    ck_assert_int_eq(sl_config_choose_paths(&config, &ds), SL_OK);
    ck_assert_uint_eq(ds.typed.n_relations, 2);
    ck_assert_int_eq(sl_config_find_relations(&config, &ds.typed), SL_OK);
    ck_assert_mem_eq(config.sampler.fanout_names.by_relation, wanted, sizeof wanted);
    sl_config_forget_relations(&config);
    free(ds.typed.relation);
}

static const struct {
    const char *keys, *says, *also;
} no_paths[] = {
    {ALONG("\"a\": [\"wrote\"]"), "sampler.metapaths: \"a\": found \"wrote\", which is no relation",
     "\"author -writes-> paper\""},
    {ALONG("\"a\": [\"writes\", \"cites\"]"),
     "\"a\": found \"cites\", which is the name of several", "\"paper -cites-> author\""},
    {ALONG("\"a\": [\"writes\", \"rev_writes\"], \"b\": [\"writes\", \"writes\"]"),
     "\"b\": found \"author -writes-> paper\" behind \"author -writes-> paper\"",
     "wanted a relation that leads to author"},
    {ALONG("\"a\": [\"rev_writes\", \"writes\"]"), "found none that begins at type paper",
     "whose first relation leads there"},
    {", \"kind\": \"walk\"}", "sampler.metapaths: found none with sampler.kind \"walk\"",
     "take another sampler.kind"},
    {ALONG("\"a\": [\"writes\"]") ", \"task\": {\"kind\": \"link\"}",
     "task.relation: found nothing", "author -writes-> paper"},
    {ALONG("\"a\": [\"writes\"]") ", \"task\": {\"kind\": \"link\", \"relation\": \"a\"}",
     "task.relation: found \"a\", which is no relation", "author -writes-> paper"},
};

// The relation that is learned is the graph's, beside what walks go along.
TEST(links_are_of_a_relation_that_stands_behind_metapaths)
{
    struct sl_dataset ds = own_dataset();
    must_parse("[3, 2]",
               ALONG("\"near\": [\"writes\", \"rev_writes\"]") ", \"task\": {\"kind\": \"link\", "
                                                               "\"relation\": \"rev_writes\"}");
    ck_assert_int_eq(sl_config_check_types(&config, &ds), SL_OK);
    ck_assert_int_eq(sl_config_choose_paths(&config, &ds), SL_OK);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(sl_config_choose_relation(&config, &ds), SL_OK);
        ck_assert_str_eq(sl_relation_text(&ds.typed, ds.typed.linked).text,
                         "paper -rev_writes-> author");
        ck_assert_str_eq(
            sl_relation_text(&ds.typed, sl_typed_reverse(&ds.typed, ds.typed.linked)).text,
            "author -writes-> paper");
    }
    free(ds.typed.relation);
}

TEST(metapaths_that_are_none_are_told)
{
    for (size_t i = 0; i < SL_COUNT_OF(no_paths); i++) {
        struct sl_dataset ds = own_dataset();
        must_parse("[3, 2]", no_paths[i].keys);
        ck_assert_msg(sl_config_choose_items(&config, &ds) < 0, "%s", no_paths[i].keys);
        message_has(no_paths[i].says);
        message_has(no_paths[i].also);
        free(ds.typed.relation);
    }
    must_parse("[3, 2]", ALONG("\"a\": [\"writes\"]"));
    ck_assert_int_eq(sl_config_check_types(&config, &plain), SL_EINVAL);
    message_has("sampler.metapaths: found \"a\" with data set 'p', whose graph has one type");
}

TEST(as_many_metapaths_as_there_is_room_for)
{
    char paths[1024] = "", *at = paths;
    for (int i = 0; i <= SL_METAPATHS_MAX; i++) {
        at += sprintf(at, "%s\"p%d\": [\"writes\"]", i ? ", " : "", i);
        char keys[1200];
        snprintf(keys, sizeof keys, ", \"kind\": \"walk\", \"metapaths\": {%s}}", paths);
        ck_assert_int_eq(parse("[3, 2]", keys), i < SL_METAPATHS_MAX ? SL_OK : SL_EINVAL);
    }
    message_has("found \"p16\" behind 16 others");
    must_parse("[3, 2]", ALONG("\"b\": [\"writes\"], \"a\": [\"cites\"]"));
    ck_assert_str_eq(config.sampler.metapaths.path[0].name, "a"); // whatever the order
}

RUN_TESTS(.timeout_s = 20)
