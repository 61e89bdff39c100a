// Records: written as JSON, read back, and how Prometheus sees their fields.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/json_writer.h"
#include "common/base/bits.h"
#include "common/schema/report.h"
#include "common/schema/stats.h"
#include "tests/unit/suite.h"

static struct sl_json_writer writer;

static void add_part(void *arg, const char *key, struct sl_json_writer *w)
{
    sl_json_add_string(w, key, arg);
}

static const char *write(const struct sl_fields *r, const void *record)
{
    sl_json_reset(&writer);
    sl_json_open_object(&writer, NULL);
    sl_json_add_fields(&writer, r, record, add_part, "by hand");
    sl_json_close_object(&writer);
    return sl_json_text(&writer);
}

struct example {
    double time, whole, real, inner, deep, last;
    const char *text;
    bool flag;
};

static const struct sl_field fields[] = {
    {.path = "time", .type = SL_FIELD_TIME, .at = offsetof(struct example, time)},
    {.path = "whole", .type = SL_FIELD_WHOLE, .at = offsetof(struct example, whole)},
    {.path = "part", .type = SL_FIELD_PART},
    {.path = "a.real", .type = SL_FIELD_REAL, .at = offsetof(struct example, real)},
    {.path = "a.part", .type = SL_FIELD_PART},
    {.path = "a.b", .type = SL_FIELD_OBJECT},
    {.path = "a.b.inner", .type = SL_FIELD_WHOLE, .at = offsetof(struct example, inner)},
    {.path = "ab.c.deep", .type = SL_FIELD_WHOLE, .at = offsetof(struct example, deep)},
    {.path = "ab.text", .type = SL_FIELD_TEXT, .at = offsetof(struct example, text)},
    {.path = "flag", .type = SL_FIELD_FLAG, .at = offsetof(struct example, flag)},
    {.path = "z.last", .type = SL_FIELD_REAL, .at = offsetof(struct example, last)},
};
static const struct sl_fields record = SL_FIELDS(fields);

static const struct example example = {1.25, 12345678901, 0.1, 3, 4, 5, "\"", true};

TEST(objects_are_opened_and_closed_as_paths_say)
{
    ck_assert_str_eq(write(&record, &example),
                     "{\"time\":1.250,\"whole\":12345678901,\"part\":\"by hand\","
                     "\"a\":{\"real\":0.1,\"part\":\"by hand\",\"b\":{\"inner\":3}},"
                     "\"ab\":{\"c\":{\"deep\":4},\"text\":\"\\\"\"},\"flag\":true,"
                     "\"z\":{\"last\":5}}");
}

TEST(what_is_not_known_is_null)
{
    struct example e;
    sl_fields_clear(&record, &e);
    ck_assert_str_eq(write(&record, &e),
                     "{\"time\":null,\"whole\":null,\"part\":\"by hand\","
                     "\"a\":{\"real\":null,\"part\":\"by hand\",\"b\":null},"
                     "\"ab\":{\"c\":{\"deep\":null},\"text\":null},\"flag\":false,"
                     "\"z\":{\"last\":null}}");
}

TEST(a_record_is_read_as_it_was_written)
{
    struct example e;
    cJSON *tree = cJSON_Parse(write(&record, &example));
    sl_fields_read(&record, tree, &e);
    ck_assert_double_eq(e.time, example.time);
    ck_assert_double_eq(e.whole, example.whole);
    ck_assert_double_eq(e.real, example.real);
    ck_assert_double_eq(e.inner, example.inner);
    ck_assert_double_eq(e.deep, example.deep);
    ck_assert_double_eq(e.last, example.last);
    ck_assert_str_eq(e.text, example.text);
    ck_assert(e.flag);
    cJSON_Delete(tree);
}

TEST(what_is_missing_or_of_another_type_is_not_known)
{
    struct example e = example;
    cJSON *tree = cJSON_Parse("{\"whole\":\"1\",\"a\":3,\"ab\":{\"text\":7},\"flag\":1}");
    sl_fields_read(&record, tree, &e);
    ck_assert_double_nan(e.time);
    ck_assert_double_nan(e.whole);
    ck_assert_double_nan(e.real);
    ck_assert_str_eq(e.text, "");
    ck_assert(!e.flag);
    cJSON_Delete(tree);
}

// --- trees of JSON -------------------------------------------------------------------------------

static const struct sl_report_epoch epoch = {
    .epoch = 3,
    .loss = NAN,
    .stages.mark = {.seconds = 0.5, .count = 2},
    .profile = {.t_sample = 0.25, .t_train = 0},
    .cache = {.ranked = true, .optimal_hit_rate = NAN},
    .bottleneck = "trainers",
    .has_optimal = true,
};

static const char *tree_of(const struct sl_fields *r, const void *from)
{
    static char text[4096];
    cJSON *tree = cJSON_CreateObject();
    sl_fields_write(r, from, tree);
    ck_assert(cJSON_PrintPreallocated(tree, text, sizeof text, false));
    cJSON_Delete(tree);
    return text;
}

TEST(a_tree_has_what_the_table_says)
{
    const char *text = tree_of(&sl_report_epoch_fields, &epoch);
    static const char *const parts[] = {
        "{\"epoch\":3,",
        "\"loss\":null,",
        "\"val\":null,\"test\":null,",                                // a tree that is none
        "\"mark\":{\"seconds\":0.5,\"count\":2,\"p50\":0,\"p99\":0}", // a record in it
        "\"profile\":{\"t_sample\":0.25,\"t_train\":null,",           // 0 is not known
        "\"optimal_hit_rate\":null,",                                 // given, and not known
        "\"bottleneck\":\"trainers\""};
    for (size_t i = 0; i < SL_COUNT_OF(parts); i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no %s in %s", parts[i], text);
    ck_assert_msg(!strstr(text, "updates"), "not given: %s", text);
    const struct sl_report_totals totals = {.stopped_early = {NAN, NULL}, .best_metric.value = NAN};
    text = tree_of(&sl_report_fields, &totals);
    ck_assert_msg(!strstr(text, "message") && !strstr(text, "cache\":{\"trainers"), "%s", text);
    ck_assert_msg(strstr(text, "\"stopped_early\":null,") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\"best_metric\":{\"name\":null,\"value\":null,\"epoch\":0}"), "%s",
                  text);
}

// What caches hold of each type stands in reports of typed graphs alone.
TEST(what_caches_hold_is_of_several_types)
{
    const struct sl_stats_held held = {
        .worker = "trainer 1", .device = 2, .type = "paper", .rows = 3, .bytes = 384};
    struct sl_report_totals totals = {.cache.held = cJSON_CreateArray(), .holds = true};
    cJSON *entry = cJSON_CreateObject();
    sl_fields_write(&sl_stats_held_fields, &held, entry);
    cJSON_AddItemToArray(totals.cache.held, entry);
    const char *text = tree_of(&sl_report_fields, &totals);
    ck_assert_msg(strstr(text, "\"held\":[{\"worker\":\"trainer 1\",\"device\":2,\"type\":"
                               "\"paper\",\"rows\":3,\"bytes\":384}]"),
                  "%s", text);
    totals.holds = false;
    ck_assert_ptr_null(strstr(tree_of(&sl_report_fields, &totals), "\"held\""));
    cJSON_Delete(totals.cache.held);
}

// All numbers of a table: what was written is read.
static void expect_kept(const struct sl_fields *r, const void *from, const void *read)
{
    for (const struct sl_field *f = r->fields; f < r->fields + r->n; f++) {
        const char *a = (const char *)from + f->at, *b = (const char *)read + f->at;
        if (f->type == SL_FIELD_REAL || f->type == SL_FIELD_WHOLE || f->type == SL_FIELD_POSITIVE)
            ck_assert_msg(sl_field_number(f, from) == sl_field_number(f, read), "%s", f->path);
        if (f->type == SL_FIELD_RECORD)
            expect_kept(f->record, a, b);
    }
}

static void number(const struct sl_fields *r, void *into, double *next)
{
    for (const struct sl_field *f = r->fields; f < r->fields + r->n; f++) {
        void *at = (char *)into + f->at;
        if (f->type == SL_FIELD_REAL || f->type == SL_FIELD_WHOLE || f->type == SL_FIELD_POSITIVE)
            *(double *)at = ++*next;
        if (f->type == SL_FIELD_RECORD)
            number(f->record, at, next);
    }
}

TEST(an_epoch_is_read_as_it_was_written)
{
    struct sl_report_epoch written = {.has_optimal = true,
                                      .several_nodes = true,
                                      .async = true,
                                      .lent = true,
                                      .links = true,
                                      .shares = true,
                                      .bottleneck = "x"},
                           read;
    double next = 0;
    number(&sl_report_epoch_fields, &written, &next);
    ck_assert_double_gt(next, 40);
    written.val = cJSON_Parse("{\"accuracy\":0.5}");
    cJSON *tree = cJSON_Parse(tree_of(&sl_report_epoch_fields, &written));
    sl_fields_read(&sl_report_epoch_fields, tree, &read);
    expect_kept(&sl_report_epoch_fields, &written, &read);
    ck_assert_str_eq(read.bottleneck, "x");
    ck_assert(cJSON_Compare(read.val, written.val, true) && !read.test);
    cJSON_Delete(tree);
    cJSON_Delete(written.val);
}

// A number that is there twice, or left out, hides all families behind it.
TEST(families_are_numbered_without_gaps)
{
    const struct sl_fields *const all[] = {&sl_stats_fields,        &sl_stats_device_fields,
                                           &sl_stats_worker_fields, &sl_stats_stage_fields,
                                           &sl_stats_type_fields,   &sl_stats_relation_fields,
                                           &sl_stats_held_fields};
    for (size_t i = 0; i < SL_COUNT_OF(all); i++) {
        unsigned n = 0, found = 0;
        for (size_t k = 0; k < all[i]->n; k++)
            n += all[i]->fields[k].family.number > 0;
        while (sl_fields_family(all[i], found + 1))
            found++;
        ck_assert_uint_gt(n, 0);
        ck_assert_uint_eq(found, n);
    }
}

RUN_TESTS(.timeout_s = 20)
