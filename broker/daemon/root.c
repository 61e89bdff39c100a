#include "broker/daemon/root.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/error.h"

int sl_root_find(const char *given, char *out, size_t bytes)
{
    char whole[PATH_MAX];
    struct stat st;
    const char *path = given ? given : ".";
    if (!realpath(path, whole) || stat(whole, &st) != 0)
        return sl_fail_errno(SL_EACCESS, errno, "--output-root '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return sl_fail(SL_EINVAL, "--output-root '%s': wanted a directory", path);
    if (!given && strcmp(whole, "/") == 0)
        return sl_fail(SL_EINVAL,
                       "--listen: this daemon was started in '/', so jobs of clients over TCP "
                       "could write wherever its user can: say --output-root DIR, or start it in "
                       "the directory that they may write to");
    if (strlen(whole) >= bytes)
        return sl_fail(SL_ERANGE, "--output-root: a name of %zu bytes is too long", strlen(whole));
    memcpy(out, whole, strlen(whole) + 1);
    return SL_OK;
}

static bool is_below(const char *root, const char *path)
{
    size_t n = strlen(root);
    if (strcmp(root, "/") == 0)
        return true;
    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

int sl_root_check(const char *root, const char *what, const char *path)
{
    char at[PATH_MAX], found[PATH_MAX];
    struct stat st;
    bool strays = false; // links nowhere, or climbs
    if (path[0] != '/' || strlen(path) >= sizeof at)
        return sl_fail(SL_EINVAL, "%s: '%.200s': wanted an absolute path of less than %zu bytes",
                       what, path, sizeof at);
    memcpy(at, path, strlen(path) + 1);
    // Up to the nearest that is there. A link that leads nowhere is there: what is written through
    // it would be made where it points.
    while (!realpath(at, found)) {
        if (errno != ENOENT)
            return sl_fail_errno(SL_EACCESS, errno, "%s: '%s', at '%s'", what, path, at);
        char *slash = strrchr(at, '/');
        strays = strays || lstat(at, &st) == 0 || strcmp(slash, "/..") == 0;
        slash[slash == at] = '\0';
    }
    if (!strays && is_below(root, found))
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: found '%s', wanted a place below '%s': jobs of clients over TCP write "
                   "nowhere else (the daemon's --output-root)",
                   what, path, root);
}
