// Memory that is left to the process, against made-up machines: a tree of files that looks like
// /proc and /sys/fs/cgroup.
#include "common/base/memory.h"
#include "tests/unit/fake_root.h"
#include "tests/unit/suite.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static void put_meminfo(void)
{
    put("/proc/meminfo", "MemTotal:       16384000 kB\nMemFree:         1024000 kB\n"
                         "MemAvailable:    8192000 kB\n"); // 8000 MiB
}

#define MOUNT_V2 "40 30 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V1                                                                                   \
    "30 20 0:27 / / rw shared:1 - ext4 /dev/vda1 rw\n"                                             \
    "31 30 0:28 / /sys/fs/cgroup/cpu rw shared:2 - cgroup cgroup rw,cpu\n"                         \
    "32 30 0:29 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n"

TEST(without_cgroups_the_kernels_figure_counts)
{
    put_meminfo();
    ck_assert_uint_eq(sl_memory_available_below(root), 8000 * MIB);
}

TEST(a_cgroup_leaves_its_limit_less_its_use)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/memory.max", "1048576000\n");    // 1000 MiB
    put("/sys/fs/cgroup/job/memory.current", "314572800\n"); // 300 MiB
    ck_assert_uint_eq(sl_memory_available_below(root), 700 * MIB);
}

TEST(page_cache_is_not_use)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/memory.max", "1048576000\n");
    put("/sys/fs/cgroup/job/memory.current", "838860800\n"); // 800 MiB, of which
    put("/sys/fs/cgroup/job/memory.stat", "anon 104857600\nfile 734003200\n"
                                          "inactive_anon 1\nactive_anon 2\n"
                                          "inactive_file 524288000\n" // 500 MiB
                                          "active_file 209715200\n"); // 200 MiB
    ck_assert_uint_eq(sl_memory_available_below(root), 800 * MIB);
}

TEST(a_cgroup_without_a_limit_does_not_count)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/memory.max", "max\n");
    put("/sys/fs/cgroup/job/memory.current", "314572800\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 8000 * MIB);
}

TEST(the_high_mark_is_a_limit)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/memory.max", "max\n");
    put("/sys/fs/cgroup/job/memory.high", "419430400\n"); // 400 MiB
    put("/sys/fs/cgroup/job/memory.current", "104857600\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 300 * MIB);
}

TEST(the_tightest_ancestor_counts)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/a/memory.max", "524288000\n"); // 500 MiB
    put("/sys/fs/cgroup/a/memory.current", "419430400\n");
    put("/sys/fs/cgroup/a/b/c/memory.max", "1048576000\n");
    put("/sys/fs/cgroup/a/b/c/memory.current", "0\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 100 * MIB);
}

TEST(use_beyond_the_limit_leaves_nothing)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/job/memory.max", "1048576\n");
    put("/sys/fs/cgroup/job/memory.current", "2097152\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 0);
}

TEST(version_one_is_read_too)
{
    put_meminfo();
    put("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n");
    put("/proc/self/mountinfo", MOUNT_V1);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); // none
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "99999999\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1048576000\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "314572800\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 104857600\ntotal_active_file 0\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 800 * MIB);
}

TEST(a_container_that_sees_only_its_own_part_is_found)
{
    put_meminfo();
    // The path is the host's, the mount's root is the container's own group.
    put("/proc/self/cgroup", "4:memory:/docker/abc/job\n");
    put("/proc/self/mountinfo",
        "32 30 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "524288000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "209715200\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "0\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 200 * MIB);
}

TEST(a_path_that_is_not_visible_falls_back_to_the_mount)
{
    put_meminfo();
    put("/proc/self/cgroup", "4:memory:/docker/abc\n");
    put("/proc/self/mountinfo", MOUNT_V1);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "524288000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 400 * MIB);
}

TEST(a_mount_with_a_blank_in_its_path_is_found)
{
    put_meminfo();
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", "40 30 0:28 / /my\\040cgroups rw - cgroup2 cgroup2 rw\n");
    put("/my cgroups/memory.max", "104857600\n");
    put("/my cgroups/memory.current", "0\n");
    ck_assert_uint_eq(sl_memory_available_below(root), 100 * MIB);
}

TEST(without_any_file_there_is_still_an_answer)
{
    ck_assert_uint_gt(sl_memory_available_below(root), 0);
    ck_assert_uint_lt(sl_memory_available_below(root), UINT64_MAX);
}

TEST(this_machine_has_some_memory)
{
    uint64_t have = sl_device_memory_available();
    ck_assert_uint_gt(have, 0);
    ck_assert_uint_le(have, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

TEST(a_limit_on_the_address_space_counts)
{
#ifdef SL_SANITIZED
    printf("SKIP: a sanitizer takes terabytes of address space\n");
#else
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = 600 * MIB;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    uint64_t have = sl_device_memory_available();
    ck_assert_uint_gt(have, 0);
    ck_assert_uint_lt(have, 600 * MIB);
#endif
}

RUN_TESTS(.setup = make_root, .teardown = remove_root, .timeout_s = 20)
