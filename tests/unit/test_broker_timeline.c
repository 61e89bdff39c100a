// The list of a job's events: what is kept of a long one.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <cjson/cJSON.h>

#include "broker/log/json_writer.h"
#include "broker/log/timeline.h"

static struct sl_timeline timeline;
static struct sl_json_writer writer;

static void setup(void)
{
    must(sl_timeline_init(&timeline));
}

static void teardown(void)
{
    sl_timeline_fini(&timeline);
    sl_json_fini(&writer);
}

static void add(int number, bool minor)
{
    char line[32];
    snprintf(line, sizeof line, "%d", number);
    must(sl_timeline_add(&timeline, line, minor));
}

static cJSON *written(size_t bytes_max)
{
    sl_json_reset(&writer);
    sl_timeline_write(&timeline, &writer, NULL, bytes_max);
    cJSON *list = cJSON_Parse(sl_json_text(&writer));
    ck_assert(cJSON_IsArray(list));
    return list;
}

static int number_at(const cJSON *list, int i)
{
    return cJSON_GetArrayItem(list, i)->valueint;
}

TEST(events_stay_in_order)
{
    cJSON *list = written(SIZE_MAX);
    ck_assert_int_eq(cJSON_GetArraySize(list), 0);
    cJSON_Delete(list);
    for (int i = 0; i < 5; i++)
        add(i, i % 2);
    list = written(SIZE_MAX);
    ck_assert_int_eq(cJSON_GetArraySize(list), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(number_at(list, i), i);
    cJSON_Delete(list);
}

TEST(switches_are_forgotten_before_anything_else)
{
    add(-1, false);
    add(-2, true);
    add(-3, false);
    for (int i = 0; i < SL_TIMELINE_MAX - 3; i++)
        add(i, true);
    add(9999, false); // the first one too many
    ck_assert_uint_eq(timeline.n, SL_TIMELINE_MAX);
    ck_assert_uint_eq(timeline.left_out, 1);
    cJSON *list = written(SIZE_MAX);
    ck_assert_int_eq(number_at(list, 0), -1);
    ck_assert_int_eq(number_at(list, 1), -3);
    ck_assert_int_eq(number_at(list, 2), 0);
    ck_assert_int_eq(number_at(list, SL_TIMELINE_MAX - 1), 9999);
    cJSON_Delete(list);
}

TEST(without_switches_the_oldest_goes)
{
    for (int i = 0; i < SL_TIMELINE_MAX + 7; i++)
        add(i, false);
    cJSON *list = written(SIZE_MAX);
    ck_assert_int_eq(cJSON_GetArraySize(list), SL_TIMELINE_MAX);
    ck_assert_int_eq(number_at(list, 0), 7);
    ck_assert_int_eq(number_at(list, SL_TIMELINE_MAX - 1), SL_TIMELINE_MAX + 6);
    cJSON_Delete(list);
}

TEST(what_is_written_is_bounded)
{
    for (int i = 0; i < 100; i++)
        add(1000 + i, false); // five bytes each, with the comma
    cJSON *list = written(51);
    ck_assert_int_eq(cJSON_GetArraySize(list), 10);
    ck_assert_int_eq(number_at(list, 0), 1090);
    ck_assert_int_eq(number_at(list, 9), 1099);
    cJSON_Delete(list);
    list = written(4);
    ck_assert_int_eq(cJSON_GetArraySize(list), 0);
    cJSON_Delete(list);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
