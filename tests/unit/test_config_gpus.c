// A job and the GPUs of a machine: what "auto" becomes, the split, cores and budgets, refusals.
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/device/cores.h"
#include "common/device/plugin.h"
#include "tests/unit/suite.h"

#define GIB        (UINT64_C(1) << 30)
#define JOB(rest)  "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}" rest "}"
#define CPU0       "{\"kind\": \"cpu\", \"cores\": 0}"
#define GPU(i)     "{\"kind\": \"cuda\", \"index\": " i "}"
#define NCCL(rest) JOB(", \"updates\": {\"exchange\": \"nccl\"}" rest)

static struct sl_config config;
static struct sl_gpu_report report;

static void gpus(uint32_t n, uint64_t total, uint64_t free_bytes)
{
    memset(&report, 0, sizeof report);
    report.n = n;
    report.driver_version = report.runtime_version = 13000;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(report.gpu[i].name, sizeof report.gpu[i].name, "Pretend %u", i);
        report.gpu[i].total_bytes = total;
        report.gpu[i].free_bytes = free_bytes;
    }
}

static void parse(const char *text)
{
    int rc = sl_config_parse(text, strlen(text), "t.json", &config);
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static void use(const char *text, bool budgets)
{
    parse(text);
    int rc = sl_config_use_gpus(&config, &report, budgets, "t.json");
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static void refuse(const char *text, const char *const *parts)
{
    parse(text);
    ck_assert_int_eq(sl_config_use_gpus(&config, &report, true, "t.json"), SL_EINVAL);
    for (; *parts; parts++)
        ck_assert_msg(strstr(sl_error_message(), *parts) != NULL, "\"%s\" is not in: %s", *parts,
                      sl_error_message());
}

TEST(a_job_says_whether_it_asks_for_gpus)
{
    parse(JOB(""));
    ck_assert(sl_config_asks_for_gpus(&config));
    parse(JOB(", \"devices\": \"cpu\""));
    ck_assert(config.devices_auto && config.devices_cpu);
    ck_assert(!sl_config_asks_for_gpus(&config));
    parse(JOB(", \"devices\": [" CPU0 "]"));
    ck_assert(!config.devices_auto && !config.devices_cpu);
    ck_assert(!sl_config_asks_for_gpus(&config));
    parse(JOB(", \"devices\": [" CPU0 ", " GPU("5") "]"));
    ck_assert(sl_config_asks_for_gpus(&config));
}

TEST(without_gpus_auto_stays_what_it_was)
{
    static struct sl_config before;
    gpus(0, 0, 0);
    parse(JOB(""));
    before = config;
    ck_assert_int_eq(sl_config_use_gpus(&config, &report, true, "t.json"), SL_OK);
    ck_assert_mem_eq(&before, &config, sizeof config);
}

TEST(the_word_cpu_leaves_gpus_alone)
{
    gpus(4, 8 * GIB, 8 * GIB);
    use(JOB(", \"devices\": \"cpu\""), true);
    for (uint32_t d = 0; d < config.n_devices; d++)
        ck_assert_int_eq(config.devices[d].kind, SL_DEVICE_CPU);
}

// What an "auto" job on so many GPUs asks for, and the devices and the split that it gets.
static const struct {
    uint32_t gpus;
    const char *rest;
    uint32_t devices, samplers, trainers;
} autos[] = {
    {1, "", 1, 1, 0},
    {2, "", 2, 1, 1},
    {8, "", 8, 2, 6},
    {8, ", \"allocation\": {\"samplers\": 3}", 8, 3, 5},
    {1, ", \"allocation\": {\"switching\": false}", 2, 1, 1},
    {1, ", \"allocation\": {\"samplers\": 1, \"trainers\": 2}", 3, 1, 2},
    {2, ", \"schedule\": [{\"epoch\": 1, \"samplers\": 2, \"trainers\": 3}]", 5, 1, 4},
};

LOOP_TEST(auto_is_every_gpu, 0, sizeof autos / sizeof autos[0])
{
    char text[256];
    gpus(autos[_i].gpus, 8 * GIB, 8 * GIB);
    snprintf(text, sizeof text, "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}%s}",
             autos[_i].rest);
    use(text, true);
    ck_assert(config.devices_auto);
    ck_assert_uint_eq(config.n_devices, autos[_i].devices);
    ck_assert_uint_eq(config.allocation.samplers, autos[_i].samplers);
    ck_assert_uint_eq(config.allocation.trainers, autos[_i].trainers);
    for (uint32_t d = 0; d < config.n_devices; d++) {
        ck_assert_int_eq(config.devices[d].kind, SL_DEVICE_CUDA);
        ck_assert_uint_eq(config.devices[d].index, d % autos[_i].gpus);
        ck_assert_uint_ge(config.devices[d].n_cores, 1);
        ck_assert_uint_gt(config.devices[d].memory_bytes, 0);
    }
}

// The text that workers read says the same.
// Samplers of external trainers' jobs go by the GPUs, where there are any, and not by the cores.
TEST(external_trainers_have_their_seats_beside_the_gpus)
{
    gpus(3, 80 * GIB, 70 * GIB);
    use("{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"},"
        " \"allocation\": {\"trainers\": 2}}",
        false);
    ck_assert_uint_eq(config.n_devices, 5);
    ck_assert_uint_eq(config.allocation.samplers, 3);
    ck_assert_int_eq(config.devices[4].kind, SL_DEVICE_CUDA);
    ck_assert_uint_eq(config.devices[4].index, 1);
}

TEST(what_is_resolved_parses_back_to_the_same)
{
    static struct sl_config again;
    gpus(3, 8 * GIB, 6 * GIB);
    use(JOB(""), true);
    char *text = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(sl_config_parse(text, strlen(text), "t.json", &again), SL_OK);
    again.devices_auto = true;
    ck_assert_mem_eq(&config, &again, sizeof config);
    free(text);
}

TEST(cpu_devices_sample_and_gpus_train)
{
    gpus(2, 8 * GIB, 8 * GIB);
    use(JOB(", \"devices\": [" CPU0 ", " CPU0 ", " CPU0 ", " GPU("1") "]"), true);
    ck_assert_uint_eq(config.allocation.samplers, 3);
    ck_assert_uint_eq(config.allocation.trainers, 1);
    ck_assert(!config.allocation.samplers_auto && !config.allocation.trainers_auto);
    use(JOB(", \"devices\": [" GPU("0") ", " CPU0 "], \"allocation\": {\"samplers\": 1,"
                                        " \"trainers\": 1}"),
        true);
    ck_assert_uint_eq(config.allocation.trainers, 1);
    use(JOB(", \"devices\": [" CPU0 ", " CPU0 ", " GPU("0") "], \"allocation\":"
                                                            " {\"samplers\": 1}"),
        true);
    ck_assert_uint_eq(config.allocation.trainers, 2);
}

TEST(cores_are_those_near_the_gpu)
{
    struct sl_cores allowed;
    uint16_t list[SL_CORES_MAX];
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    uint32_t n = sl_cores_list(&allowed, list, SL_CORES_MAX);
    gpus(3, 8 * GIB, 8 * GIB);
    snprintf(report.gpu[1].cores, sizeof report.gpu[1].cores, "%u,1023", list[n - 1]);
    snprintf(report.gpu[2].cores, sizeof report.gpu[2].cores, "1023"); // none that may be used
    use(JOB(", \"devices\": [" GPU("0") ", " GPU("1") ", " GPU(
            "2") ", {\"kind\": \"cuda\", \"index\": 1, \"cores\": 0}]"),
        true);
    // The first and the third are near the same cores, and share them.
    uint32_t part = n / 2 > 2 ? n / 2 : n < 2 ? n : 2;
    part = part < 64 ? part : 64;
    ck_assert_uint_eq(config.devices[0].n_cores, part);
    for (uint32_t i = 0; n >= 4 && i < part; i++)
        for (uint32_t j = 0; j < part; j++)
            ck_assert_uint_ne(config.devices[0].cores[i], config.devices[2].cores[j]);
    for (uint32_t i = 1; i < part; i++)
        ck_assert_uint_lt(config.devices[2].cores[i - 1], config.devices[2].cores[i]);
    ck_assert_uint_eq(config.devices[1].n_cores, 1);
    ck_assert_uint_eq(config.devices[1].cores[0], list[n - 1]);
    ck_assert_uint_eq(config.devices[2].n_cores, part);
    ck_assert_uint_eq(config.devices[3].n_cores, 1);
    ck_assert_uint_eq(config.devices[3].cores[0], 0);
}

TEST(a_worker_without_cores_takes_those_there_are)
{
    struct sl_cores allowed;
    const char *text = JOB(", \"devices\": [" GPU("0") "]");
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    uint32_t n = sl_cores_count(&allowed);
    ck_assert_int_eq(sl_config_take_device(text, strlen(text), 0, "trainer 0", &config), SL_OK);
    ck_assert_uint_eq(config.devices[0].n_cores, n < 64 ? n : 64);
}

TEST(budgets_are_equal_parts_of_what_is_free)
{
    // 16 GiB free, less 2 processes of 512 MiB on each device
    gpus(2, 20 * GIB, 16 * GIB);
    use(JOB(", \"devices\": [" GPU("0") "]"), true);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 15 * GIB);
    use(JOB(", \"devices\": [" GPU("0") ", " GPU("1") ", " GPU("0") "]"), true);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 7 * GIB);
    ck_assert_uint_eq(config.devices[1].memory_bytes, 15 * GIB);
    ck_assert_uint_eq(config.devices[2].memory_bytes, 7 * GIB);
    // 14 GiB of which 6 are another device's
    use(JOB(", \"devices\": [" GPU("0") ", {\"kind\": \"cuda\", \"index\": 0, \"memory\":"
                                        " \"6GiB\"}]"),
        true);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 8 * GIB);
    ck_assert_uint_eq(config.devices[1].memory_bytes, 6 * GIB);
    // NCCL has buffers of its own, of the one trainer that a GPU may have
    use(NCCL(", \"devices\": [" GPU("0") ", " GPU("0") ", " GPU("1") "], \"allocation\": "
                                                                     "{\"samplers\": 1}"),
        true);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 13 * GIB / 2 + GIB / 4);
    ck_assert_uint_eq(config.devices[2].memory_bytes, 14 * GIB + GIB / 2);
    // of a small GPU the processes' own share is a quarter
    gpus(1, GIB, GIB);
    use(JOB(""), true);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 3 * GIB / 4);
    use(JOB(""), false);
    ck_assert_uint_eq(config.devices[0].memory_bytes, 0);
}

TEST(what_a_machine_does_not_have_is_refused)
{
    gpus(2, 8 * GIB, 8 * GIB);
    refuse(JOB(", \"devices\": [" CPU0 ", " GPU("2") "]"),
           (const char *[]){"t.json: devices[1].index: found GPU 2", "GPU 0 (Pretend 0, 8.0 GiB)",
                            "GPU 1 (Pretend 1", "sluice doctor", "devices=cpu", NULL});
    refuse(JOB(", \"devices\": [{\"kind\": \"cuda\", \"index\": 1, \"memory\": \"9GiB\"}]"),
           (const char *[]){"devices[0].memory: found 9GiB, wanted at most 8GiB",
                            "GPU 1 (Pretend 1)", NULL});
    refuse(JOB(", \"devices\": [{\"kind\": \"cuda\", \"index\": 1, \"memory\": \"4GiB\"},"
               " {\"kind\": \"cuda\", \"index\": 1, \"memory\": \"5GiB\"}]"),
           (const char *[]){"devices[0].memory: found 4GiB, and with it 9GiB on the 2 devices",
                            "at most 8GiB together", NULL});
    refuse(JOB(", \"devices\": [{\"kind\": \"cuda\", \"index\": 1, \"memory\": \"7GiB\"}, " GPU(
               "1") "]"),
           (const char *[]){"devices[1].memory: not given, and nothing is left",
                            "8GiB free and 7GiB of it", NULL});
    gpus(0, 0, 0);
    snprintf(report.problem, sizeof report.problem, "no driver was found");
    refuse(JOB(", \"devices\": [" GPU("0") "]"),
           (const char *[]){"devices[0].index: found GPU 0", "none: no driver was found", NULL});
}

// Trainers that sum among themselves: what becomes of "auto", and lists that can do it. No standby
// trainers without a word of it.
static const struct {
    uint32_t gpus;
    const char *text;
    uint32_t devices, samplers, trainers;
} summing[] = {
    {1, NCCL(""), 2, 1, 1}, // beside its sampler
    {2, NCCL(""), 2, 1, 1},
    {8, NCCL(""), 8, 2, 6},
    {4, NCCL(", \"allocation\": {\"samplers\": 4, \"trainers\": 4}"), 8, 4, 4},
    {4, NCCL(", \"allocation\": {\"switching\": false}"), 4, 1, 3},
    {2, NCCL(", \"devices\": [" GPU("0") ", " GPU("1") ", " GPU("0") "]"), 3, 1, 2},
    {2, NCCL(", \"devices\": [" CPU0 ", " CPU0 ", " GPU("1") ", " GPU("0") "]"), 4, 2, 2},
    {2,
     NCCL(", \"devices\": [" GPU("0") ", " GPU("0") ", " GPU("1") ", " GPU(
         "0") "], "
              "\"allocation\": {\"samplers\": 2}"),
     4, 2, 2},
};

LOOP_TEST(trainers_that_sum_have_a_gpu_each, 0, sizeof summing / sizeof summing[0])
{
    gpus(summing[_i].gpus, 8 * GIB, 8 * GIB);
    use(summing[_i].text, true);
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_NCCL);
    ck_assert(!config.allocation.switching);
    ck_assert_uint_eq(config.n_devices, summing[_i].devices);
    ck_assert_uint_eq(config.allocation.samplers, summing[_i].samplers);
    ck_assert_uint_eq(config.allocation.trainers, summing[_i].trainers);
    char *text = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(strstr(text, "\"exchange\": \"nccl\""));
    ck_assert_ptr_nonnull(strstr(text, "\"switching\": false"));
    parse(text); // as workers do
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_NCCL);
    free(text);
}

TEST(the_board_is_what_is_not_named)
{
    gpus(2, 8 * GIB, 8 * GIB);
    use(JOB(", \"updates\": {\"exchange\": \"board\"}"), true);
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_BOARD);
    ck_assert(config.allocation.switching);
    ck_assert_int_eq(sl_config_check_trainers(&config, 64), SL_OK);
    use(JOB(""), true);
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_BOARD);
}

TEST(devices_that_can_not_sum_are_refused)
{
    gpus(2, 8 * GIB, 8 * GIB);
    refuse(NCCL(", \"allocation\": {\"samplers\": 1, \"trainers\": 3}"),
           (const char *[]){"t.json: updates.exchange: found \"nccl\" with as many as 3 trainers",
                            "device 1 and device 3 are both on GPU 1",
                            "allocation.trainers to at most 2", NULL});
    refuse(NCCL(", \"schedule\": [{\"epoch\": 1, \"samplers\": 2, \"trainers\": 2}]"),
           (const char *[]){"as many as 3 trainers", "are both on GPU", NULL});
    gpus(0, 0, 0);
    snprintf(report.problem, sizeof report.problem, "no driver was found");
    refuse(NCCL(""),
           (const char *[]){"t.json: updates.exchange: found \"nccl\", wanted GPUs",
                            "none: no driver was found", "sluice doctor", "\"board\"", NULL});
}

// What somebody asks for while the job runs.
TEST(more_trainers_than_gpus_can_not_be_asked_for)
{
    gpus(2, 8 * GIB, 8 * GIB);
    use(NCCL(", \"devices\": [" CPU0
             ", " GPU("0") ", " GPU("0") ", " GPU("1") "], "
                                                       "\"allocation\": {\"samplers\": 2}"),
        true);
    ck_assert_int_eq(sl_config_check_trainers(&config, 1), SL_OK);
    ck_assert_int_eq(sl_config_check_trainers(&config, 2), SL_OK);
    ck_assert_int_eq(sl_config_check_trainers(&config, 3), SL_EINVAL);
    ck_assert_str_eq(sl_error_message(),
                     "found trainers=3 with updates.exchange \"nccl\", wanted at most 2: each "
                     "trainer needs a GPU of its own, but device 1 and device 2 are both on GPU 0: "
                     "ask for fewer");
    use(NCCL(", \"devices\": [" CPU0 ", " CPU0 ", " GPU("0") "]"), true);
    ck_assert_int_eq(sl_config_check_trainers(&config, 2), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "device 1 is a CPU device"));
}

RUN_TESTS(.timeout_s = 20)
