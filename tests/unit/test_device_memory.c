// Memory that is left to the process, against made-up machines: a tree of files that looks like
// /proc and /sys/fs/cgroup.
#include "common/base/bits.h"
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

// Files that a made-up machine has, and what is available on it. All have put_meminfo()'s 8000 MiB.
#define CGROUP_V2(path)                                                                            \
    {"/proc/self/cgroup", "0::" path "\n"},                                                        \
    {                                                                                              \
        "/proc/self/mountinfo", MOUNT_V2                                                           \
    }
#define V1 "/sys/fs/cgroup/memory/"

static const struct {
    const char *what;
    uint64_t mib;
    struct {
        const char *path, *text;
    } file[8];
} machines[] = {
    {"without cgroups the kernel's figure counts", 8000, {{NULL, NULL}}},
    {"a cgroup leaves its limit of 1000 MiB less its use",
     700,
     {CGROUP_V2("/job"),
      {"/sys/fs/cgroup/job/memory.max", "1048576000\n"},
      {"/sys/fs/cgroup/job/memory.current", "314572800\n"}}},
    {"page cache, here 500 and 200 MiB, is not use",
     800,
     {CGROUP_V2("/job"),
      {"/sys/fs/cgroup/job/memory.max", "1048576000\n"},
      {"/sys/fs/cgroup/job/memory.current", "838860800\n"},
      {"/sys/fs/cgroup/job/memory.stat",
       "anon 104857600\nfile 734003200\ninactive_anon 1\nactive_anon 2\n"
       "inactive_file 524288000\nactive_file 209715200\n"}}},
    {"a cgroup without a limit does not count",
     8000,
     {CGROUP_V2("/job"),
      {"/sys/fs/cgroup/job/memory.max", "max\n"},
      {"/sys/fs/cgroup/job/memory.current", "314572800\n"}}},
    {"the high mark is a limit",
     300,
     {CGROUP_V2("/job"),
      {"/sys/fs/cgroup/job/memory.max", "max\n"},
      {"/sys/fs/cgroup/job/memory.high", "419430400\n"},
      {"/sys/fs/cgroup/job/memory.current", "104857600\n"}}},
    {"the tightest ancestor counts",
     100,
     {CGROUP_V2("/a/b/c"),
      {"/sys/fs/cgroup/a/memory.max", "524288000\n"},
      {"/sys/fs/cgroup/a/memory.current", "419430400\n"},
      {"/sys/fs/cgroup/a/b/c/memory.max", "1048576000\n"},
      {"/sys/fs/cgroup/a/b/c/memory.current", "0\n"}}},
    {"use beyond the limit leaves nothing",
     0,
     {CGROUP_V2("/job"),
      {"/sys/fs/cgroup/job/memory.max", "1048576\n"},
      {"/sys/fs/cgroup/job/memory.current", "2097152\n"}}},
    {"version one is read, too, whose root has no limit",
     800,
     {{"/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n"},
      {"/proc/self/mountinfo", MOUNT_V1},
      {V1 "memory.limit_in_bytes", "9223372036854771712\n"},
      {V1 "memory.usage_in_bytes", "99999999\n"},
      {V1 "docker/abc/memory.limit_in_bytes", "1048576000\n"},
      {V1 "docker/abc/memory.usage_in_bytes", "314572800\n"},
      {V1 "docker/abc/memory.stat", "inactive_file 1\nactive_file 1\n"
                                    "total_inactive_file 104857600\ntotal_active_file 0\n"}}},
    // The path is the host's, the mount's root is the container's own group.
    {"a container that sees only its own part is found",
     200,
     {{"/proc/self/cgroup", "4:memory:/docker/abc/job\n"},
      {"/proc/self/mountinfo",
       "32 30 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"},
      {V1 "memory.limit_in_bytes", "524288000\n"},
      {V1 "memory.usage_in_bytes", "0\n"},
      {V1 "job/memory.limit_in_bytes", "209715200\n"},
      {V1 "job/memory.usage_in_bytes", "0\n"}}},
    {"a path that is not visible falls back to the mount",
     400,
     {{"/proc/self/cgroup", "4:memory:/docker/abc\n"},
      {"/proc/self/mountinfo", MOUNT_V1},
      {V1 "memory.limit_in_bytes", "524288000\n"},
      {V1 "memory.usage_in_bytes", "104857600\n"}}},
    {"a mount with a blank in its path is found",
     100,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", "40 30 0:28 / /my\\040cgroups rw - cgroup2 cgroup2 rw\n"},
      {"/my cgroups/memory.max", "104857600\n"},
      {"/my cgroups/memory.current", "0\n"}}},
};

LOOP_TEST(what_is_available_is_what_the_files_say, 0, SL_COUNT_OF(machines))
{
    put_meminfo();
    for (size_t i = 0; machines[_i].file[i].path; i++)
        put(machines[_i].file[i].path, machines[_i].file[i].text);
    const uint64_t found = sl_memory_available_below(root);
    ck_assert_msg(found == machines[_i].mib * MIB, "%s: found %llu bytes", machines[_i].what,
                  (unsigned long long)found);
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
