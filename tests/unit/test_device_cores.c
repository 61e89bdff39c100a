// Core lists, the machine's cores, and pinning.
#include "common/device/cores.h"

#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/fake_root.h"
#include "tests/unit/suite.h"

// text, its shortest form, number of cores
static const struct {
    const char *text, *shortest;
    uint32_t n;
} lists[] = {
    {"0", "0", 1},
    {"0-3", "0-3", 4},
    {"0,2", "0,2", 2},
    {"0, 2", "0,2", 2},
    {"3,1,2,0", "0-3", 4},
    {"5-5", "5", 1},
    {"0-1,6", "0-1,6", 3},
    {"1023", "1023", 1},
    {"0-1023", "0-1023", 1024},
    {"62-65,127-128", "62-65,127-128", 6},
};

CASE(.name = "cores", .timeout_s = 20)

LOOP_TEST(a_list_is_read_and_written_back, 0, sizeof lists / sizeof lists[0])
{
    struct sl_cores set;
    char text[SL_CORES_TEXT_BYTES];
    ck_assert_msg(sl_cores_parse(lists[_i].text, &set) == SL_OK, "%s", sl_error_message());
    ck_assert_uint_eq(sl_cores_count(&set), lists[_i].n);
    sl_cores_format(&set, text, sizeof text);
    ck_assert_str_eq(text, lists[_i].shortest);
}

static const struct {
    const char *text, *why;
} malformed[] = {
    {"", "missing at its end"},
    {"0,", "missing at its end"},
    {"0-", "missing at its end"},
    {"-1", "character 1 is not a core number"},
    {"a", "character 1 is not a core number"},
    {"0-x", "character 3 is not a core number"},
    {" 0", "character 1 is not a core number"},
    {"0,,1", "character 3 is not a core number"},
    {"0 1", "character 2 is neither"},
    {"0-1-2", "character 4 is neither"},
    {"0.5", "character 2 is neither"},
    {"3-1", "3-1 runs backwards"},
    {"0,0", "core 0 is listed twice"},
    {"0-3,2", "core 2 is listed twice"},
    {"1024", "end at 1023"},
    {"99999999999999999999999", "end at 1023"},
    {"0-99999", "end at 1023"},
};

LOOP_TEST(a_malformed_list_is_explained, 0, sizeof malformed / sizeof malformed[0])
{
    struct sl_cores set;
    ck_assert_int_eq(sl_cores_parse(malformed[_i].text, &set), SL_EINVAL);
    ck_assert_msg(strstr(sl_error_message(), malformed[_i].why) != NULL, "\"%s\": %s",
                  malformed[_i].text, sl_error_message());
}

TEST(members_come_in_order_up_to_the_capacity)
{
    struct sl_cores set;
    uint16_t list[3] = {0};
    ck_assert_int_eq(sl_cores_parse("9,2,700,4", &set), SL_OK);
    ck_assert_uint_eq(sl_cores_list(&set, list, 3), 3);
    ck_assert_uint_eq(list[0], 2);
    ck_assert_uint_eq(list[1], 4);
    ck_assert_uint_eq(list[2], 9);
    ck_assert(!sl_cores_has(&set, 3));
    ck_assert(!sl_cores_has(&set, 100000));
}

TEST(a_text_is_cut_at_the_buffer)
{
    struct sl_cores set;
    char text[8];
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(sl_cores_parse("100,200,300,400", &set), SL_OK);
    sl_cores_format(&set, text, 6);
    ck_assert_str_eq(text, "100,2");
    ck_assert_int_eq(text[7], 'x');
}

TEST(allowed_cores_are_the_kernels)
{
    struct sl_cores set;
    cpu_set_t mask;
    ck_assert_int_eq(sl_cores_allowed(&set), SL_OK);
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    for (uint32_t core = 0; core < SL_CORES_MAX; core++)
        ck_assert_msg(sl_cores_has(&set, core) == !!CPU_ISSET(core, &mask), "core %u", core);
    ck_assert_uint_ge(sl_cores_configured(), sl_cores_count(&set));
}

TEST(physical_cores_are_some_of_the_allowed)
{
    struct sl_cores allowed, physical;
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    ck_assert_uint_ge(sl_cores_count(&physical), 1);
    for (uint32_t core = 0; core < SL_CORES_MAX; core++)
        ck_assert(!sl_cores_has(&physical, core) || sl_cores_has(&allowed, core));
}

// The kernel's own list of hardware threads is the referee.
TEST(one_hardware_thread_counts_for_each_core)
{
    struct sl_cores allowed, physical, rest;
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    uint32_t n = 0;
    rest = allowed;
    for (uint32_t core = 0; core < SL_CORES_MAX; core++) {
        char path[128], text[512] = "";
        if (!sl_cores_has(&rest, core))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
                 core);
        FILE *file = fopen(path, "r");
        if (!file || !fgets(text, sizeof text, file)) {
            if (file)
                fclose(file);
            printf("SKIP: no %s\n", path);
            return;
        }
        fclose(file);
        text[strcspn(text, "\n")] = '\0';
        struct sl_cores siblings;
        ck_assert_int_eq(sl_cores_parse(text, &siblings), SL_OK);
        ck_assert_msg(sl_cores_has(&physical, core), "core %u is the first of %s", core, text);
        for (uint32_t i = 0; i < SL_CORES_MAX / 64; i++)
            rest.bits[i] &= ~siblings.bits[i];
        n++;
    }
    ck_assert_uint_eq(sl_cores_count(&physical), n);
}

// hwloc can be told of another machine: two hardware threads in each core.
TEST(hardware_threads_of_one_core_count_once)
{
    struct sl_cores allowed, physical;
    char machine[64];
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    uint32_t n = sl_cores_count(&allowed);
    if (n % 2 || !sl_cores_has(&allowed, n - 1)) {
        printf("SKIP: the cores of this machine are not 0 to an odd number\n");
        return;
    }
    snprintf(machine, sizeof machine, "core:%u pu:2", n / 2);
    ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", machine, 1), 0);
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    ck_assert_uint_eq(sl_cores_count(&physical), n / 2);
    for (uint32_t core = 0; core < n; core++)
        ck_assert(sl_cores_has(&physical, core) == (core % 2 == 0));
}

TEST(a_topology_that_misses_cores_is_not_believed)
{
    struct sl_cores allowed, physical;
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    if (sl_cores_count(&allowed) == 1 && sl_cores_has(&allowed, 0)) {
        printf("SKIP: there is one core only\n");
        return;
    }
    // Two threads of one core where there are more: the two must not make one of them.
    const char *machine = sl_cores_count(&allowed) > 2 ? "core:1 pu:2" : "core:1 pu:1";
    ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", machine, 1), 0);
    ck_assert_int_eq(sl_cores_physical(&physical), SL_OK);
    ck_assert_mem_eq(&physical, &allowed, sizeof allowed);
}

static void *where_a_new_thread_may_run(void *out)
{
    ck_assert_int_eq(sl_cores_allowed(out), SL_OK);
    return NULL;
}

// Two packages whose cores are numbered in turn, as many machines' are.
TEST(neighbours_are_cores_of_one_package)
{
    struct sl_cores set = {0};
    uint16_t list[8];
    setenv("HWLOC_SYNTHETIC", "pack:2 core:4 pu:1(indexes=0,2,4,6,1,3,5,7)", 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    for (uint32_t core = 0; core < 8; core++)
        sl_cores_add(&set, core);
    ck_assert_uint_eq(sl_cores_neighbours(&set, list, 8), 8);
    static const uint16_t wanted[] = {0, 2, 4, 6, 1, 3, 5, 7};
    ck_assert_mem_eq(list, wanted, sizeof wanted);
    ck_assert_uint_eq(sl_cores_neighbours(&set, list, 3), 3);
    ck_assert_mem_eq(list, wanted, 3 * sizeof wanted[0]);
    // A machine that does not have them all is no base for an order.
    sl_cores_add(&set, 9);
    ck_assert_uint_eq(sl_cores_neighbours(&set, list, 8), 8);
    ck_assert_uint_eq(list[1], 1);
}

TEST(pinning_holds_for_this_thread_and_new_ones)
{
    struct sl_cores set;
    uint16_t cores[SL_CORES_MAX];
    pthread_t thread;
    ck_assert_int_eq(sl_cores_allowed(&set), SL_OK);
    uint16_t last = cores[sl_cores_list(&set, cores, SL_CORES_MAX) - 1];
    ck_assert_int_eq(sl_device_pin(&last, 1), SL_OK);
    ck_assert_int_eq(sched_getcpu(), last);
    ck_assert_int_eq(pthread_create(&thread, NULL, where_a_new_thread_may_run, &set), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(sl_cores_count(&set), 1);
    ck_assert(sl_cores_has(&set, last));
}

TEST(pinning_to_all_allowed_cores_changes_nothing)
{
    struct sl_cores before, after;
    uint16_t cores[SL_CORES_MAX];
    ck_assert_int_eq(sl_cores_allowed(&before), SL_OK);
    uint32_t n = sl_cores_list(&before, cores, SL_CORES_MAX);
    ck_assert_int_eq(sl_device_pin(cores, n), SL_OK);
    ck_assert_int_eq(sl_cores_allowed(&after), SL_OK);
    ck_assert_mem_eq(&before, &after, sizeof before);
}

TEST(a_core_that_is_not_there_can_not_be_had)
{
    uint32_t n = sl_cores_configured();
    if (n >= SL_CORES_MAX) {
        printf("SKIP: this machine has every core number\n");
        return;
    }
    uint16_t missing[2] = {(uint16_t)n, 0};
    ck_assert_int_eq(sl_device_pin(missing, 1), SL_EINVAL);
    // Together with one that is there, the kernel would take that one and say nothing.
    ck_assert_int_eq(sl_device_pin(missing, 2), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "got only 0"));
    missing[0] = SL_CORES_MAX;
    ck_assert_int_eq(sl_device_pin(missing, 1), SL_EINVAL);
    ck_assert_int_eq(sl_device_pin(missing, 0), SL_EINVAL);
}

// --- the quota, of made-up machines --------------------------------------------------------------

#define CGROUP_V2(path)                                                                            \
    {"/proc/self/cgroup", "0::" path "\n"},                                                        \
    {                                                                                              \
        "/proc/self/mountinfo", "40 30 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"     \
    }
#define CGROUP_V1                                                                                  \
    {"/proc/self/cgroup", "4:memory:/\n3:cpuset:/docker\n2:cpu,cpuacct:/docker/abc\n0::/\n"},      \
    {                                                                                              \
        "/proc/self/mountinfo",                                                                    \
            "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"          \
            "32 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                    \
    }
#define CPU_V1 "/sys/fs/cgroup/cpu,cpuacct"

CASE(.name = "quota", .setup = make_root, .teardown = remove_root, .timeout_s = 20)

static const struct {
    const char *what;
    double quota;
    struct {
        const char *path, *text;
    } file[7];
} machines[] = {
    {"without a control group there is none", INFINITY, {{NULL, NULL}}},
    {"a quota is cores' worth of time",
     1.5,
     {CGROUP_V2("/job"), {"/sys/fs/cgroup/job/cpu.max", "150000 100000\n"}}},
    {"max is none", INFINITY, {CGROUP_V2("/job"), {"/sys/fs/cgroup/job/cpu.max", "max 100000\n"}}},
    {"the tightest one above counts",
     2,
     {CGROUP_V2("/a/b/c"),
      {"/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n"},
      {"/sys/fs/cgroup/a/cpu.max", "100000 50000\n"}}},
    {"also between two others",
     0.5,
     {CGROUP_V2("/a/b/c"),
      {"/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n"},
      {"/sys/fs/cgroup/a/cpu.max", "100000 50000\n"},
      {"/sys/fs/cgroup/a/b/cpu.max", "25000 50000\n"}}},
    {"version one has it, too",
     3,
     {CGROUP_V1,
      {CPU_V1 "/docker/abc/cpu.cfs_quota_us", "300000\n"},
      {CPU_V1 "/docker/abc/cpu.cfs_period_us", "100000\n"},
      {CPU_V1 "/docker/cpu.cfs_quota_us", "-1\n"},
      {CPU_V1 "/docker/cpu.cfs_period_us", "100000\n"}}},
    {"a nested group of version one can not have more than its parent",
     2.5,
     {CGROUP_V1,
      {CPU_V1 "/docker/abc/cpu.cfs_quota_us", "-1\n"},
      {CPU_V1 "/docker/abc/cpu.cfs_period_us", "100000\n"},
      {CPU_V1 "/docker/cpu.cfs_quota_us", "250000\n"},
      {CPU_V1 "/docker/cpu.cfs_period_us", "100000\n"}}},
    {"a file that says nothing is none",
     INFINITY,
     {CGROUP_V2("/job"), {"/sys/fs/cgroup/job/cpu.max", "soon\n"}}},
    {"nor one of no period",
     INFINITY,
     {CGROUP_V2("/job"), {"/sys/fs/cgroup/job/cpu.max", "100000 0\n"}}},
};

LOOP_TEST(a_quota_is_what_the_files_say, 0, SL_COUNT_OF(machines))
{
    for (size_t i = 0; machines[_i].file[i].path; i++)
        put(machines[_i].file[i].path, machines[_i].file[i].text);
    const double found = sl_cores_quota_below(root);
    ck_assert_msg(found == machines[_i].quota, "%s: found %g", machines[_i].what, found);
}

static const struct {
    const char *cores;
    double quota;
    const char *kept;
} kept[] = {
    {"0-7", INFINITY, "0-7"}, {"0-7", 8, "0-7"},     {"0-7", 3, "0-2"},
    {"0-7", 2.5, "0-2"},      {"0-7", 2.005, "0-1"}, {"2,5,9", 1.5, "2,5"},
    {"4-5", 0.2, "4"},        {"0-1", 64, "0-1"},    {"70-80", 2, "70-71"},
};

LOOP_TEST(a_quota_keeps_the_lowest_cores, 0, sizeof kept / sizeof kept[0])
{
    struct sl_cores set;
    char text[64];
    ck_assert_int_eq(sl_cores_parse(kept[_i].cores, &set), SL_OK);
    bool some = sl_cores_keep_quota(&set, kept[_i].quota);
    sl_cores_format(&set, text, sizeof text);
    ck_assert_str_eq(text, kept[_i].kept);
    ck_assert_int_eq(some, strcmp(kept[_i].cores, kept[_i].kept) != 0);
}

// ---- slices -------------------------------------------------------------------------------------

// A struct sched_attr of Linux: size, policy, flags, nice, priority, runtime, deadline, period.
static void *read_attributes(void *out)
{
    ck_assert_int_eq(syscall(SYS_sched_getattr, 0, out, 48, 0), 0);
    return NULL;
}

TEST(long_slices_are_asked_for_and_handed_on)
{
    struct utsname kernel;
    int major, minor;
    uint32_t attributes[12] = {0};
    uint64_t runtime;
    pthread_t thread;
    ck_assert_int_eq(uname(&kernel), 0);
    ck_assert_int_eq(sscanf(kernel.release, "%d.%d", &major, &minor), 2);
    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, 7), 0);
    sl_cores_long_slices();
    ck_assert_int_eq(pthread_create(&thread, NULL, read_attributes, attributes), 0);
    pthread_join(thread, NULL);
    memcpy(&runtime, &attributes[6], sizeof runtime);
    ck_assert_uint_eq(attributes[1], SCHED_OTHER);
    ck_assert_uint_eq(attributes[4], 7);
    if (major > 6 || (major == 6 && minor >= 12))
        ck_assert_uint_eq(runtime, SL_CORES_SLICE_NS);
}

RUN_TESTS()
