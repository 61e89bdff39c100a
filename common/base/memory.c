/*
 * memory.c - the honest minimum of several accounts.
 *
 * MemAvailable knows nothing of containers: inside one, the kernel kills at the cgroup's limit
 * while gigabytes of the machine are free. So each memory cgroup from this process's own up to the
 * top of what is mounted is asked for limit - usage, and the least counts. Usage includes the page
 * cache, which the kernel gives back: inactive file pages count as free, of the active ones half
 * (the kernel's own estimate for the machine, MemAvailable, discounts them in the same way).
 */
#include "common/base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/cgroup.h"

// Version 1 writes "no limit" as the largest multiple of a page; nothing real comes near.
#define UNLIMITED ((uint64_t)1 << 62)

// What differs between the versions; NULL where there is no such file.
static const struct {
    const char *limit, *high, *usage, *inactive, *active;
} files_of[] = {
    [SL_CGROUP_V1] = {"memory.limit_in_bytes", NULL, "memory.usage_in_bytes", "total_inactive_file",
                      "total_active_file"},
    [SL_CGROUP_V2] = {"memory.max", "memory.high", "memory.current", "inactive_file",
                      "active_file"},
};

// The number after `name` at the start of a line of "name value" text; 0 when it is not there.
static uint64_t field_of(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, name, length) == 0 && strchr(" :\t", line[length]) && line[length])
            return strtoull(line + length + 1, NULL, 10);
    }
    return 0;
}

static uint64_t limit_in(const char *dir, const char *name)
{
    char text[SL_CGROUP_TEXT_BYTES];
    if (!name || !sl_cgroup_read(dir, name, text) || strncmp(text, "max", 3) == 0)
        return UINT64_MAX;
    return strtoull(text, NULL, 10);
}

// What one cgroup leaves; UINT64_MAX when it sets no limit or is not there.
static uint64_t left_in_cgroup(const char *dir, enum sl_cgroup_version version)
{
    uint64_t limit = limit_in(dir, files_of[version].limit);
    uint64_t high = limit_in(dir, files_of[version].high);
    if (high < limit) // beyond it the kernel does not kill but stalls: no better
        limit = high;
    if (limit >= UNLIMITED)
        return UINT64_MAX;

    char text[SL_CGROUP_TEXT_BYTES];
    if (!sl_cgroup_read(dir, files_of[version].usage, text))
        return limit;
    uint64_t usage = strtoull(text, NULL, 10);
    if (sl_cgroup_read(dir, "memory.stat", text)) {
        uint64_t cached = field_of(text, files_of[version].inactive) +
                          field_of(text, files_of[version].active) / 2;
        usage -= cached < usage ? cached : usage;
    }
    return usage < limit ? limit - usage : 0;
}

static void take_least(void *ctx, const char *dir, enum sl_cgroup_version version)
{
    uint64_t *least = ctx, left = left_in_cgroup(dir, version);
    *least = left < *least ? left : *least;
}

uint64_t sl_memory_available_below(const char *root)
{
    char text[SL_CGROUP_TEXT_BYTES], proc[PATH_MAX];
    snprintf(proc, sizeof proc, "%s/proc", root);
    uint64_t least = UINT64_MAX;
    if (sl_cgroup_read(proc, "meminfo", text))
        least = field_of(text, "MemAvailable") * 1024;
    if (least == 0 || least == UINT64_MAX) // no /proc, or a kernel before 3.14
        least = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    sl_cgroup_each(root, "memory", take_least, &least);
    return least;
}

static struct {
    uint64_t (*left)(void *ctx);
    void *ctx;
} bound;

void sl_memory_set_bound(uint64_t (*left)(void *ctx), void *ctx)
{
    bound.left = left;
    bound.ctx = ctx;
}

uint64_t sl_device_memory_available(void)
{
    uint64_t least = sl_memory_available_below("");
    const uint64_t own = bound.left ? bound.left(bound.ctx) : UINT64_MAX;
    least = own < least ? own : least;
    struct rlimit space;
    char text[SL_CGROUP_TEXT_BYTES];
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        sl_cgroup_read("/proc/self", "statm", text)) {
        uint64_t used = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t left = space.rlim_cur > used ? space.rlim_cur - used : 0;
        least = left < least ? left : least;
    }
    return least;
}
