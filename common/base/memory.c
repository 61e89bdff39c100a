/*
 * memory.c - the honest minimum of several accounts.
 *
 * MemAvailable knows nothing of containers: inside one, the kernel kills at the cgroup's limit
 * while gigabytes of the machine are free. So each memory cgroup from this process's own up to the
 * top of what is mounted is asked for limit - usage, and the least counts. Usage includes the page
 * cache, which the kernel gives back: inactive file pages count as free, of the active ones half
 * (the kernel's own estimate for the machine, MemAvailable, discounts them in the same way).
 *
 * Where a cgroup lives is found from /proc/self/cgroup (its path) and /proc/self/mountinfo (which
 * part of that hierarchy is mounted where). In a container without a cgroup namespace the path is
 * the host's and need not exist below the mount: levels that can not be read are passed over.
 */
#include "common/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Version 1 writes "no limit" as the largest multiple of a page; nothing real comes near.
#define UNLIMITED ((uint64_t)1 << 62)

enum { SMALL_FILE_BYTES = 16384 };

enum cgroup_version { CGROUP_V1, CGROUP_V2 };

// What differs between the versions; NULL where there is no such file.
static const struct {
    const char *limit, *high, *usage, *inactive, *active;
} files_of[] = {
    [CGROUP_V1] = {"memory.limit_in_bytes", NULL, "memory.usage_in_bytes", "total_inactive_file",
                   "total_active_file"},
    [CGROUP_V2] = {"memory.max", "memory.high", "memory.current", "inactive_file", "active_file"},
};

// A small file as text; false when it can not be read.
static bool read_text(const char *dir, const char *name, char text[SMALL_FILE_BYTES])
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t have = 0;
    while (have < SMALL_FILE_BYTES - 1) {
        ssize_t n = read(fd, text + have, SMALL_FILE_BYTES - 1 - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    close(fd);
    text[have] = '\0';
    return have > 0;
}

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
    char text[SMALL_FILE_BYTES];
    if (!name || !read_text(dir, name, text) || strncmp(text, "max", 3) == 0)
        return UINT64_MAX;
    return strtoull(text, NULL, 10);
}

// What one cgroup leaves; UINT64_MAX when it sets no limit or is not there.
static uint64_t left_in_cgroup(const char *dir, enum cgroup_version version)
{
    uint64_t limit = limit_in(dir, files_of[version].limit);
    uint64_t high = limit_in(dir, files_of[version].high);
    if (high < limit) // beyond it the kernel does not kill but stalls: no better
        limit = high;
    if (limit >= UNLIMITED)
        return UINT64_MAX;

    char text[SMALL_FILE_BYTES];
    if (!read_text(dir, files_of[version].usage, text))
        return limit;
    uint64_t usage = strtoull(text, NULL, 10);
    if (read_text(dir, "memory.stat", text)) {
        uint64_t cached = field_of(text, files_of[version].inactive) +
                          field_of(text, files_of[version].active) / 2;
        usage -= cached < usage ? cached : usage;
    }
    return usage < limit ? limit - usage : 0;
}

// The least that the cgroups from mount/path up to mount leave.
static uint64_t left_in_hierarchy(const char *mount, const char *path, enum cgroup_version version)
{
    char dir[PATH_MAX];
    if ((size_t)snprintf(dir, sizeof dir, "%s%s", mount, path) >= sizeof dir)
        return UINT64_MAX;
    size_t top = strlen(mount);
    uint64_t least = UINT64_MAX;
    for (;;) {
        uint64_t left = left_in_cgroup(dir, version);
        least = left < least ? left : least;
        char *slash = strrchr(dir + top, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        if (*at == ',')
            at++;
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

// This process's path in the memory hierarchy of a version; false when it is in none.
static bool cgroup_path(const char *root, enum cgroup_version version, char path[PATH_MAX])
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    while (!found && getline(&line, &capacity, file) > 0) {
        // "4:memory:/user/job" in version 1, "0::/user/job" in version 2
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *where = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = '\0';
        controllers++;
        if (version == CGROUP_V2 ? *controllers == '\0' : has_word(controllers, "memory"))
            found = (size_t)snprintf(path, PATH_MAX, "%s", where) < PATH_MAX;
    }
    free(line);
    fclose(file);
    return found;
}

// mountinfo writes blanks and backslashes in paths as \ooo.
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] && from[3]) {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static uint64_t left_in_cgroups(const char *root, enum cgroup_version version)
{
    char path[PATH_MAX], name[PATH_MAX];
    if (!cgroup_path(root, version, path))
        return UINT64_MAX;
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return UINT64_MAX;

    uint64_t least = UINT64_MAX;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        // id parent major:minor ROOT MOUNT options [tags] - TYPE source SUPER-OPTIONS
        line[strcspn(line, "\n")] = '\0';
        char *rest = strstr(line, " - ");
        if (!rest)
            continue;
        *rest = '\0';
        char *save, *from = NULL, *mount = NULL;
        char *word = strtok_r(line, " ", &save);
        for (int i = 0; word; i++, word = strtok_r(NULL, " ", &save)) {
            from = i == 3 ? word : from;
            mount = i == 4 ? word : mount;
        }
        char *type = strtok_r(rest + 3, " ", &save);
        (void)strtok_r(NULL, " ", &save);
        char *options = strtok_r(NULL, " ", &save);
        bool wanted = type && (version == CGROUP_V2 ? strcmp(type, "cgroup2") == 0
                                                    : strcmp(type, "cgroup") == 0 && options &&
                                                          has_word(options, "memory"));
        if (!mount || !wanted)
            continue;
        unescape(from);
        unescape(mount);

        // Only what stands below ROOT is visible here; a path elsewhere is seen from the top.
        size_t length = strcmp(from, "/") == 0 ? 0 : strlen(from);
        const char *below = "";
        if (strncmp(path, from, length) == 0 && (path[length] == '/' || path[length] == '\0'))
            below = strcmp(path + length, "/") == 0 ? "" : path + length;
        char full[PATH_MAX];
        if ((size_t)snprintf(full, sizeof full, "%s%s", root, mount) >= sizeof full)
            continue;
        uint64_t left = left_in_hierarchy(full, below, version);
        least = left < least ? left : least;
    }
    free(line);
    fclose(file);
    return least;
}

uint64_t sl_memory_available_below(const char *root)
{
    char text[SMALL_FILE_BYTES], proc[PATH_MAX];
    snprintf(proc, sizeof proc, "%s/proc", root);
    uint64_t least = UINT64_MAX;
    if (read_text(proc, "meminfo", text))
        least = field_of(text, "MemAvailable") * 1024;
    if (least == 0 || least == UINT64_MAX) // no /proc, or a kernel before 3.14
        least = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (enum cgroup_version version = CGROUP_V1; version <= CGROUP_V2; version++) {
        uint64_t left = left_in_cgroups(root, version);
        least = left < least ? left : least;
    }
    return least;
}

uint64_t sl_device_memory_available(void)
{
    uint64_t least = sl_memory_available_below("");
    struct rlimit space;
    char text[SMALL_FILE_BYTES];
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        read_text("/proc/self", "statm", text)) {
        uint64_t used = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t left = space.rlim_cur > used ? space.rlim_cur - used : 0;
        least = left < least ? left : least;
    }
    return least;
}
