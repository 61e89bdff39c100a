// What a change of the split is said to do and to bring.
#include "broker/scheduler/scale_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

static struct sl_config config;
static bool no_standby[SL_CONFIG_MAX_DEVICES];
static struct sl_scale_plan plan;
static const struct sl_budget_need need = {
    .resident_bytes = 1000000,
    .block_bytes = 100000,
    .step_bytes = 400000,
    .row_bytes = 100,
    .n_nodes = 10000,
};

static void setup(void)
{
    memset(&config, 0, sizeof config);
    memset(no_standby, 0, sizeof no_standby);
    config.n_devices = 4;
    for (uint32_t d = 0; d < 4; d++)
        config.devices[d].memory_bytes = 2000000;
}

static void make(struct sl_roles from, struct sl_roles to)
{
    const struct sl_scale_question q = {
        .config = &config,
        .need = &need,
        .available_bytes = 1 << 30,
        .no_standby = no_standby,
        .expect = {.profile = {0.010, 0.030, 0.040},
                   .n_devices = 4,
                   .switching = config.allocation.switching,
                   .batches = 1000,
                   .epochs_left = 10,
                   .at_once = 1024,
                   .now = from,
                   .move_seconds = 0.5},
        .to = to,
    };
    sl_scale_plan_make(&q, &plan);
}

static void expect_steps(const char *const *steps, uint32_t n)
{
    for (uint32_t i = 0; i < SL_MIN(n, plan.n_steps); i++)
        ck_assert_str_eq(plan.step[i], steps[i]);
    ck_assert_uint_eq(plan.n_steps, n);
}

#define EXPECT_STEPS(...)                                                                          \
    expect_steps((const char *const[]){__VA_ARGS__},                                               \
                 (uint32_t)SL_COUNT_OF(((const char *const[]){__VA_ARGS__})))

TEST(a_device_changes_hands)
{
    make((struct sl_roles){1, 3}, (struct sl_roles){2, 2});
    EXPECT_STEPS("device 1: trainer 2 leaves, then sampler 1 starts");
    make((struct sl_roles){2, 2}, (struct sl_roles){1, 3});
    EXPECT_STEPS("device 1: sampler 1 leaves, then trainer 2 starts");
}

TEST(an_idle_device_is_used)
{
    make((struct sl_roles){1, 1}, (struct sl_roles){2, 2});
    EXPECT_STEPS("device 1: sampler 1 starts", "device 2: trainer 1 starts");
    make((struct sl_roles){2, 2}, (struct sl_roles){1, 1});
    EXPECT_STEPS("device 1: sampler 1 leaves", "device 2: trainer 1 leaves");
}

TEST(standby_trainers)
{
    config.allocation.switching = true;
    make((struct sl_roles){1, 3}, (struct sl_roles){2, 2});
    EXPECT_STEPS("device 1: trainer 2 becomes a standby trainer, then sampler 1 starts");
    make((struct sl_roles){2, 2}, (struct sl_roles){1, 3});
    EXPECT_STEPS("device 1: sampler 1 leaves, then trainer 2 trains all the time");
    make((struct sl_roles){1, 1}, (struct sl_roles){2, 1});
    EXPECT_STEPS("device 1: trainer 2 starts and stands by, then sampler 1 starts");
}

TEST(a_device_without_room_for_a_standby_trainer)
{
    config.allocation.switching = true;
    no_standby[1] = true;
    make((struct sl_roles){1, 3}, (struct sl_roles){2, 2});
    EXPECT_STEPS("device 1: trainer 2 leaves, then sampler 1 starts");
}

TEST(caches)
{
    // 2,000,000 - 500,000 for a step = 15,000 rows, of which there are 10,000; a standby trainer
    // has 1,100,000 less.
    config.cache.policy = SL_CACHE_PRESC;
    config.cache.ratio_auto = true;
    make((struct sl_roles){1, 1}, (struct sl_roles){1, 2});
    EXPECT_STEPS("device 2: trainer 1 starts, whose cache is loaded with 10000 rows");
    config.allocation.switching = true;
    make((struct sl_roles){1, 3}, (struct sl_roles){2, 2});
    EXPECT_STEPS("device 1: trainer 2 becomes a standby trainer, whose cache shrinks to 4000 rows, "
                 "then sampler 1 starts");
    make((struct sl_roles){2, 2}, (struct sl_roles){1, 3});
    EXPECT_STEPS("device 1: sampler 1 leaves, then trainer 2 trains all the time, whose cache "
                 "grows to 10000 rows");
}

// In a pool nobody has a device: only who comes and who goes is told.
TEST(a_pool_has_no_devices)
{
    config.allocation.cores = SL_CORES_POOL;
    make((struct sl_roles){2, 1}, (struct sl_roles){2, 2});
    EXPECT_STEPS("trainer 1 starts");
    make((struct sl_roles){1, 3}, (struct sl_roles){2, 2});
    EXPECT_STEPS("trainer 2 leaves, sampler 1 starts");
}

TEST(a_forecast_of_quiet_cores_says_so)
{
    char text[SL_SCALE_TEXT_BYTES];
    make((struct sl_roles){1, 1}, (struct sl_roles){1, 3});
    ck_assert_ptr_null(strstr(sl_scale_plan_text(&plan, text), "quiet"));
    plan.expectation.quiet = true;
    ck_assert_ptr_nonnull(
        strstr(sl_scale_plan_text(&plan, text), "10 s instead of 30 s on quiet cores, the change"));
}

TEST(no_change)
{
    make((struct sl_roles){1, 3}, (struct sl_roles){1, 3});
    ck_assert_uint_eq(plan.n_steps, 0);
    ck_assert_double_eq(plan.expectation.gain_seconds, 0);
}

TEST(the_text)
{
    char text[SL_SCALE_TEXT_BYTES];
    make((struct sl_roles){1, 1}, (struct sl_roles){1, 3});
    ck_assert_str_eq(
        sl_scale_plan_text(&plan, text),
        "from 1 sampler and 1 trainer to 1 sampler and 3 trainers; device 1: trainer 2 "
        "starts; device 2: trainer 1 starts; an epoch is expected to take 10 s "
        "instead of 30 s, the change costs about 0.5 s once");
    plan.expectation.pays = false;
    plan.epochs_left = 1;
    ck_assert_ptr_nonnull(
        strstr(sl_scale_plan_text(&plan, text), "it does not pay in the 1 epoch that is left"));
    plan.epochs_left = 0;
    ck_assert_ptr_nonnull(strstr(sl_scale_plan_text(&plan, text), "no epoch is left after this"));
    make((struct sl_roles){1, 3}, (struct sl_roles){3, 1});
    ck_assert_ptr_nonnull(strstr(sl_scale_plan_text(&plan, text), "nothing is gained"));
    plan.expectation = (struct sl_expectation){NAN, NAN, NAN, false, false};
    ck_assert_ptr_nonnull(strstr(sl_scale_plan_text(&plan, text), "not known before"));
}

TEST(many_steps_are_cut_in_the_text_alone)
{
    char text[SL_SCALE_TEXT_BYTES];
    config.n_devices = 40;
    make((struct sl_roles){1, 1}, (struct sl_roles){20, 20});
    ck_assert_uint_eq(plan.n_steps, 38);
    ck_assert_ptr_nonnull(strstr(sl_scale_plan_text(&plan, text), "; and 35 more; "));
    ck_assert_uint_lt(strlen(text), sizeof text - 1);
}

TEST(the_json)
{
    make((struct sl_roles){1, 1}, (struct sl_roles){1, 3});
    const struct sl_scale_result result = {
        .job = "a \"b\"", .ok = true, .took_seconds = -1, .message = "m"};
    char *text = sl_scale_plan_json(&plan, &result);
    cJSON *json = cJSON_Parse(text);
    ck_assert_ptr_nonnull(json);
    ck_assert_str_eq(cJSON_GetObjectItem(json, "schema")->valuestring, "sluice.scale/1");
    ck_assert_str_eq(cJSON_GetObjectItem(json, "job")->valuestring, "a \"b\"");
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(json, "ok")));
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(json, "pays")));
    ck_assert(cJSON_IsNull(cJSON_GetObjectItem(json, "took_seconds")));
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "steps")), 2);
    ck_assert_double_eq_tol(cJSON_GetObjectItem(json, "gain_seconds_an_epoch")->valuedouble, 20,
                            1e-6);
    const cJSON *to = cJSON_GetObjectItem(json, "to");
    ck_assert_int_eq(cJSON_GetObjectItem(to, "trainers")->valueint, 3);
    cJSON_Delete(json);
    free(text);
}

RUN_TESTS(.setup = setup)
