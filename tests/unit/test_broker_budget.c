// What is left of a device's memory for the cache, and which duty a device has.
#include "broker/placement/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/placement/placement.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

static struct sl_config config;
static const struct sl_budget_need need = {
    .resident_bytes = 1000000,
    .block_bytes = 100000,
    .step_bytes = 400000, // 500000 with its margin
    .row_bytes = 100,
    .n_nodes = 10000,
};

static void setup(void)
{
    memset(&config, 0, sizeof config);
    config.n_devices = 2;
    config.cache.policy = SL_CACHE_PRESC;
    config.cache.ratio_auto = true;
    config.devices[0].memory_bytes = config.devices[1].memory_bytes = 2000000;
}

static uint64_t rows_of(enum sl_duty duty)
{
    uint64_t rows = 7777777;
    ck_assert_int_eq(sl_budget_cache_rows(&config, 0, duty, &need, 1 << 30, &rows), SL_OK);
    return rows;
}

static const char *error_of(enum sl_duty duty)
{
    uint64_t rows;
    ck_assert_int_eq(sl_budget_cache_rows(&config, 0, duty, &need, 1 << 30, &rows), SL_ENOMEM);
    ck_assert_uint_eq(rows, config.cache.ratio_auto ? 0 : rows);
    return sl_error_message();
}

CASE(.name = "budget", .setup = setup)

TEST(auto_takes_what_is_left)
{
    config.devices[0].memory_bytes = 1000000;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 5000);
    config.devices[0].memory_bytes = 500000;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 0);
    config.devices[0].memory_bytes = 500099;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 0);
    config.devices[0].memory_bytes = 500100;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 1);
    config.devices[0].memory_bytes = 1u << 30;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 10000);
}

TEST(a_standby_trainer_leaves_room_for_the_topology)
{
    // 2000000 - 1000000 - 100000 - 500000
    ck_assert_uint_eq(rows_of(SL_DUTY_STANDBY), 4000);
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 10000);
}

TEST(a_ratio_that_fits_is_taken)
{
    config.cache.ratio_auto = false;
    config.cache.ratio = 0.25;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 2500);
    ck_assert_uint_eq(rows_of(SL_DUTY_STANDBY), 2500);
}

TEST(a_ratio_that_does_not_fit_names_the_one_that_would)
{
    config.cache.ratio_auto = false;
    config.cache.ratio = 0.8;
    config.devices[0].memory_bytes = 1000000;
    const char *why = error_of(SL_DUTY_WORK);
    ck_assert_msg(strstr(why, "cache.ratio: found 0.8, wanted at most 0.5000"), "%s", why);
    ck_assert_msg(strstr(why, "8000 of 10000 vertices take"), "%s", why);
    struct sl_budget_need typed = need;
    uint64_t rows;
    typed.typed = true;
    ck_assert_int_eq(sl_budget_cache_rows(&config, 0, SL_DUTY_WORK, &typed, 1 << 30, &rows),
                     SL_ENOMEM);
    why = sl_error_message();
    ck_assert_msg(strstr(why, "8000 of 10000 rows of the types' mean width take"), "%s", why);
    // A standby trainer takes what there is.
    config.devices[0].memory_bytes = 2000000;
    ck_assert_uint_eq(rows_of(SL_DUTY_STANDBY), 4000);
}

TEST(a_step_that_does_not_fit)
{
    config.devices[0].memory_bytes = 499999;
    const char *why = error_of(SL_DUTY_WORK);
    ck_assert_msg(strstr(why, "devices[0].memory: found 499999 bytes") &&
                      strstr(why, "wanted at least 500000 bytes"),
                  "%s", why);
    config.devices[0].memory_bytes = 1599999;
    why = error_of(SL_DUTY_STANDBY);
    ck_assert_msg(strstr(why, "wanted at least 1600000 bytes") && strstr(why, "standby"), "%s",
                  why);
}

TEST(a_sampler_needs_the_topology_and_a_block)
{
    config.devices[0].memory_bytes = 1100000;
    ck_assert_int_eq(sl_budget_check_sampler(&config, 0, &need), SL_OK);
    config.devices[0].memory_bytes = 1099999;
    ck_assert_int_eq(sl_budget_check_sampler(&config, 0, &need), SL_ENOMEM);
    ck_assert_msg(strstr(sl_error_message(), "wanted at least 1100000 bytes"), "%s",
                  sl_error_message());
    config.devices[0].memory_bytes = 0;
    ck_assert_int_eq(sl_budget_check_sampler(&config, 0, &need), SL_OK);
}

TEST(without_a_policy_there_is_no_cache)
{
    config.cache.policy = SL_CACHE_NONE;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 0);
}

// What "auto" keeps is for GPUs: their rows are in the memory of CPU devices already.
TEST(by_itself_a_gpu_alone_has_a_cache)
{
    config.cache.policy = SL_CACHE_EXPECTED;
    config.cache.why = "auto";
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 0);
    config.devices[0].kind = SL_DEVICE_CUDA;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 10000);
    // A quarter of the 5000 rows that have place is for full evaluations.
    config.devices[0].memory_bytes = 1000000;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 5000);
    config.evaluate.full = true;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 3750);
    config.devices[0].memory_bytes = 2000000;
    config.devices[0].kind = SL_DEVICE_CPU;
    config.cache.why = NULL;
    ck_assert_uint_eq(rows_of(SL_DUTY_WORK), 10000);
}

TEST(without_a_budget_a_share_of_the_machine)
{
    uint64_t rows;
    config.devices[0].memory_bytes = 0;
    // A quarter of 1600000 for two devices.
    ck_assert_int_eq(sl_budget_cache_rows(&config, 0, SL_DUTY_WORK, &need, 1600000, &rows), SL_OK);
    ck_assert_uint_eq(rows, 2000);
}

// --- placement -----------------------------------------------------------------------------------

CASE(.name = "placement")

TEST(duties_of_every_split)
{
    for (uint32_t n = 1; n < 6; n++) {
        for (uint32_t s = 1; s <= n; s++) {
            for (uint32_t t = 0; s + t <= n; t++) {
                const struct sl_roles split = {s, t};
                uint32_t work[2] = {0}, standby = 0;
                for (uint32_t d = 0; d < n; d++) {
                    enum sl_duty a = sl_placement_duty(split, n, true, SL_ROLE_SAMPLER, d);
                    enum sl_duty b = sl_placement_duty(split, n, true, SL_ROLE_TRAINER, d);
                    work[0] += a == SL_DUTY_WORK;
                    work[1] += b == SL_DUTY_WORK;
                    standby += b == SL_DUTY_STANDBY;
                    ck_assert(!(a == SL_DUTY_WORK && b == SL_DUTY_WORK));
                    ck_assert(b != SL_DUTY_STANDBY || a == SL_DUTY_WORK);
                    ck_assert(sl_placement_duty(split, n, false, SL_ROLE_TRAINER, d) !=
                              SL_DUTY_STANDBY);
                }
                ck_assert_uint_eq(work[0], s);
                ck_assert_uint_eq(work[1], t);
                ck_assert_uint_eq(standby, s);
            }
        }
    }
}

TEST(names_count_from_both_ends)
{
    ck_assert_uint_eq(sl_placement_role_index(4, SL_ROLE_SAMPLER, 0), 0);
    ck_assert_uint_eq(sl_placement_role_index(4, SL_ROLE_TRAINER, 3), 0);
    ck_assert_uint_eq(sl_placement_role_index(4, SL_ROLE_TRAINER, 0), 3);
}

static void lists(uint32_t n, const enum sl_device_kind *kinds, uint32_t samplers,
                  uint32_t trainers)
{
    memset(&config, 0, sizeof config);
    config.n_devices = n;
    config.allocation.switching = true;
    config.allocation.samplers = samplers;
    config.allocation.trainers = trainers;
    for (uint32_t d = 0; d < n; d++)
        config.devices[d] = (struct sl_device_config){.kind = kinds[d], .n_cores = 1};
}

TEST(standby_trainers_are_of_the_kind_that_trains)
{
    lists(3, (enum sl_device_kind[]){SL_DEVICE_CPU, SL_DEVICE_CUDA, SL_DEVICE_CUDA}, 2, 1);
    ck_assert(!sl_placement_switches(&config, 0));
    ck_assert(sl_placement_switches(&config, 1));
    config.allocation.switching = false;
    ck_assert(!sl_placement_switches(&config, 1));
    lists(1, (enum sl_device_kind[]){SL_DEVICE_CUDA}, 1, 0);
    ck_assert(sl_placement_switches(&config, 0));
}

TEST(devices_and_reasons_in_words)
{
    char text[512];
    lists(3, (enum sl_device_kind[]){SL_DEVICE_CPU, SL_DEVICE_CUDA, SL_DEVICE_CUDA}, 1, 2);
    config.devices[0].n_cores = 3;
    memcpy(config.devices[0].cores, (uint16_t[]){0, 1, 4}, 3 * sizeof(uint16_t));
    config.devices[2].index = 5;
    config.devices[2].memory_bytes = UINT64_C(3) << 29;
    ck_assert_str_eq(sl_placement_device_text(&config, 0, text, sizeof text), "cpu 0: cores 0-1,4");
    ck_assert_str_eq(sl_placement_device_text(&config, 1, text, sizeof text),
                     "cuda 1: GPU 0, host core 0");
    ck_assert_str_eq(sl_placement_device_text(&config, 2, text, sizeof text),
                     "cuda 2: GPU 5, at most 1.5 GiB, host core 0");
    ck_assert_str_eq(sl_placement_reason(&config, text, sizeof text),
                     "the CPU devices sample and the GPUs train");
    config.allocation.samplers = 2;
    config.allocation.trainers = 1;
    ck_assert_str_eq(sl_placement_reason(&config, text, sizeof text), "fixed by the job file");
}

// ---- the job's own bound ------------------------------------------------------------------------

// An arena of a quarter of what the bound leaves beside 1 MB, 64 KiB at the least and 4 MB at most.
static uint64_t shared_of(void *ctx, uint64_t bound)
{
    const uint64_t left = bound > 1000000 ? bound - 1000000 : 0;
    (void)ctx;
    return left / 4 < 65536 ? UINT64_MAX : left / 4 < 4000000 ? left / 4 : 4000000;
}

static struct sl_budget_memory memory = {
    .broker = 1000000, .sampler = 300000, .trainer = 700000, .shared_of = shared_of};

static int check_bound(uint64_t bound, uint32_t samplers, uint32_t trainers, uint64_t n_rows)
{
    const struct sl_budget_workers workers = {
        .samplers = samplers, .trainers = trainers, .n_rows = n_rows};
    config.memory_bytes = bound;
    memory.shared = shared_of(NULL, bound);
    return sl_budget_check_memory(&config, &need, &memory, &workers);
}

static uint64_t least_bound(uint32_t samplers, uint32_t trainers, uint64_t n_rows)
{
    const struct sl_budget_workers workers = {
        .samplers = samplers, .trainers = trainers, .n_rows = n_rows};
    return sl_budget_least_memory(&config, &need, &memory, &workers);
}

CASE(.name = "bound", .setup = setup)

TEST(the_least_bound_is_the_least)
{
    for (uint32_t trainers = 1; trainers < 40; trainers += 3)
        for (uint64_t n_rows = 0; n_rows < 100000; n_rows += 33333) {
            const uint64_t least = least_bound(2, trainers, n_rows);
            ck_assert_int_eq(check_bound(least, 2, trainers, n_rows), SL_OK);
            const uint64_t less = least - ((uint64_t)(4 + trainers) << 20); // 1 for each process
            ck_assert_int_eq(check_bound(less, 2, trainers, n_rows), SL_ENOMEM);
            char number[32];
            snprintf(number, sizeof number, "memory to %llu or", (unsigned long long)least);
            ck_assert_ptr_nonnull(strstr(sl_error_message(), number));
        }
    config.memory_bytes = 0;
    ck_assert_int_eq(check_bound(0, 1000, 1000, 1), SL_OK); // no bound
    memory.shared = 0;                                      // the arena is not known yet
    config.memory_bytes = 1;
    const struct sl_budget_workers workers = {.samplers = 1, .trainers = 1};
    ck_assert_int_eq(sl_budget_check_memory(&config, &need, &memory, &workers), SL_OK);
}

TEST(steps_of_gpus_are_not_the_machines_memory)
{
    struct sl_budget_workers workers = {.samplers = 1, .trainers = 20};
    const struct sl_budget_need large = {.step_bytes = 1 << 30, .n_nodes = 1000000};
    const uint64_t cores = sl_budget_least_memory(&config, &large, &memory, &workers);
    workers.on_gpus = 20;
    const uint64_t gpus = sl_budget_least_memory(&config, &large, &memory, &workers);
    ck_assert_uint_gt(cores, gpus + 20 * ((uint64_t)1 << 30));
    ck_assert_uint_gt(gpus, 20 * (memory.trainer + 4 * large.n_nodes)); // places of the vertices
}

TEST(as_many_trainers_as_the_bound_has_room_for)
{
    for (uint64_t bound = 2000000; bound < 200000000; bound += 777777) {
        config.memory_bytes = bound;
        memory.shared = shared_of(NULL, bound);
        const uint32_t n = sl_budget_trainers(&config, &need, &memory, 1);
        if (n > 0)
            ck_assert_int_eq(check_bound(bound, 1, n, 0), SL_OK);
        ck_assert_int_eq(check_bound(bound, 1, n + 1, 0), SL_ENOMEM);
    }
    config.memory_bytes = 0;
    ck_assert_uint_eq(sl_budget_trainers(&config, &need, &memory, 1), UINT32_MAX);
}

// As much more may be shared, and not a byte beyond.
TEST(what_the_bound_spares_is_what_may_be_shared)
{
    const uint64_t bound = 300000000;
    struct sl_budget_workers workers = {.samplers = 2, .trainers = 3, .on_gpus = 3};
    config.memory_bytes = bound;
    memory.shared = shared_of(NULL, bound);
    const uint64_t spare = sl_budget_spare(&config, &need, &memory, &workers);
    ck_assert_uint_gt(spare, 0);
    memory.shared += spare;
    ck_assert_int_eq(sl_budget_check_memory(&config, &need, &memory, &workers), SL_OK);
    ck_assert_uint_eq(sl_budget_spare(&config, &need, &memory, &workers), 0);
    memory.shared++;
    ck_assert_int_eq(sl_budget_check_memory(&config, &need, &memory, &workers), SL_ENOMEM);
    ck_assert_uint_eq(sl_budget_spare(&config, &need, &memory, &workers), 0);
    config.memory_bytes = 0;
    ck_assert_uint_eq(sl_budget_spare(&config, &need, &memory, &workers), UINT64_MAX);
}

RUN_TESTS()
