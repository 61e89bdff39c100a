#include "common/base/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sl_cgroup_read(const char *dir, const char *name, char text[SL_CGROUP_TEXT_BYTES])
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t have = 0;
    while (have < SL_CGROUP_TEXT_BYTES - 1) {
        ssize_t n = read(fd, text + have, SL_CGROUP_TEXT_BYTES - 1 - have);
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

// What is looked for, and whom to tell.
struct search {
    const char *root, *controller;
    enum sl_cgroup_version version;
    void (*visit)(void *ctx, const char *dir, enum sl_cgroup_version version);
    void *ctx;
};

// This process's path in the hierarchy; false when it is in none.
static bool own_path(const struct search *s, char path[PATH_MAX])
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/proc/self/cgroup", s->root);
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
        if (s->version == SL_CGROUP_V2 ? *controllers == '\0'
                                       : has_word(controllers, s->controller))
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

// A line of mountinfo:
//     id parent major:minor ROOT MOUNT options [tags] - TYPE source SUPER-OPTIONS
// False when it is not a mount of what is looked for. Cuts the line to pieces.
static bool is_mount(const struct search *s, char *line, char **from, char **mount)
{
    char *rest = strstr(line, " - "), *save;
    *from = *mount = NULL;
    if (!rest)
        return false;
    *rest = '\0';
    char *word = strtok_r(line, " ", &save);
    for (int i = 0; word; i++, word = strtok_r(NULL, " ", &save)) {
        *from = i == 3 ? word : *from;
        *mount = i == 4 ? word : *mount;
    }
    char *type = strtok_r(rest + 3, " ", &save);
    (void)strtok_r(NULL, " ", &save);
    char *options = strtok_r(NULL, " ", &save);
    if (!*mount || !type)
        return false;
    unescape(*from);
    unescape(*mount);
    return s->version == SL_CGROUP_V2
               ? strcmp(type, "cgroup2") == 0
               : strcmp(type, "cgroup") == 0 && options && has_word(options, s->controller);
}

// The groups from mount/path up to mount.
static void visit_upwards(const struct search *s, const char *mount, const char *path)
{
    char dir[PATH_MAX];
    size_t top = strlen(s->root) + strlen(mount);
    if ((size_t)snprintf(dir, sizeof dir, "%s%s%s", s->root, mount, path) >= sizeof dir)
        return;
    for (;;) {
        s->visit(s->ctx, dir, s->version);
        char *slash = strrchr(dir + top, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static void visit_hierarchy(const struct search *s)
{
    char path[PATH_MAX], name[PATH_MAX], *from, *mount, *line = NULL;
    size_t capacity = 0;
    if (!own_path(s, path))
        return;
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", s->root);
    FILE *file = fopen(name, "re");
    if (!file)
        return;
    while (getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (!is_mount(s, line, &from, &mount))
            continue;
        // Only what stands below ROOT is visible here; a path elsewhere is seen from the top.
        size_t length = strcmp(from, "/") == 0 ? 0 : strlen(from);
        const char *below = "";
        if (strncmp(path, from, length) == 0 && (path[length] == '/' || path[length] == '\0'))
            below = strcmp(path + length, "/") == 0 ? "" : path + length;
        visit_upwards(s, mount, below);
    }
    free(line);
    fclose(file);
}

void sl_cgroup_each(const char *root, const char *controller,
                    void (*visit)(void *ctx, const char *dir, enum sl_cgroup_version version),
                    void *ctx)
{
    for (enum sl_cgroup_version v = SL_CGROUP_V1; v <= SL_CGROUP_V2; v++)
        visit_hierarchy(&(const struct search){root, controller, v, visit, ctx});
}
