#include "broker/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/data/atomic_file.h"

// The directory that holds `path`; "." for a bare name.
static void parent_of(const char *path, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", path);
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        out[--n] = '\0';
    char *slash = strrchr(out, '/');
    if (!slash)
        snprintf(out, bytes, ".");
    else
        *(slash == out ? slash + 1 : slash) = '\0';
}

static int check_empty(const char *path)
{
    static const char *const ours[] = {"config.json", "report.json", "model.safetensors"};
    char file[4200];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        snprintf(file, sizeof file, "%s/%s", path, ours[i]);
        if (access(file, F_OK) == 0)
            return sl_fail(SL_EEXIST,
                           "output: '%s' holds an earlier run (found %s): choose another directory "
                           "with --set output=DIR, or remove this one",
                           path, ours[i]);
    }
    DIR *dir = opendir(path);
    if (!dir)
        return sl_fail_errno(SL_EACCESS, errno, "output: reading directory '%s'", path);
    const struct dirent *entry;
    char found[256] = "";
    while (!found[0] && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            snprintf(found, sizeof found, "%s", entry->d_name);
    closedir(dir);
    if (found[0])
        return sl_fail(SL_EEXIST,
                       "output: directory '%s' is not empty (found '%s'), wanted a new or empty "
                       "one: choose another with --set output=DIR",
                       path, found);
    return SL_OK;
}

static int check_writable_directory(const char *path, const char *what)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return sl_fail_errno(errno == ENOENT ? SL_ENOENT : SL_EACCESS, errno, "%s: directory '%s'",
                             what, path);
    if (!S_ISDIR(st.st_mode))
        return sl_fail(SL_EINVAL, "%s: '%s' is not a directory", what, path);
    if (access(path, W_OK | X_OK) != 0)
        return sl_fail_errno(SL_EACCESS, errno,
                             "%s: directory '%s' can not be written: choose another place, or "
                             "change its permissions",
                             what, path);
    return SL_OK;
}

int sl_rundir_check(const char *path)
{
    char above[4096];
    struct stat st;
    if (!*path)
        return sl_fail(SL_EINVAL, "output: the directory's name is empty");
    if (strlen(path) >= sizeof above - 64)
        return sl_fail(SL_EINVAL, "output: a name of %zu characters is too long", strlen(path));
    if (lstat(path, &st) == 0) {
        if (stat(path, &st) != 0)
            return sl_fail_errno(SL_EACCESS, errno, "output: '%s'", path);
        SL_TRY(check_writable_directory(path, "output"));
        return check_empty(path);
    }
    if (errno != ENOENT)
        return sl_fail_errno(errno == ENOTDIR ? SL_EINVAL : SL_EACCESS, errno, "output: '%s'",
                             path);
    // The nearest directory above that exists must take the new ones.
    parent_of(path, above, sizeof above);
    while (stat(above, &st) != 0) {
        char next[4096];
        if (errno != ENOENT)
            return sl_fail_errno(errno == ENOTDIR ? SL_EINVAL : SL_EACCESS, errno,
                                 "output: '%s' for '%s'", above, path);
        parent_of(above, next, sizeof next);
        if (strcmp(next, above) == 0)
            break;
        memcpy(above, next, sizeof above);
    }
    return check_writable_directory(above, "output");
}

int sl_rundir_check_file(const char *path, const char *what)
{
    char above[4096];
    struct stat st;
    if (!*path || path[strlen(path) - 1] == '/')
        return sl_fail(SL_EINVAL, "%s: '%s' names no file", what, path);
    if (strlen(path) >= sizeof above - 64)
        return sl_fail(SL_EINVAL, "%s: a name of %zu characters is too long", what, strlen(path));
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return sl_fail(SL_EINVAL, "%s: '%s' is a directory, wanted a file", what, path);
        if (access(path, W_OK) != 0)
            return sl_fail_errno(SL_EACCESS, errno, "%s: '%s' can not be written", what, path);
        if (!S_ISREG(st.st_mode))
            return SL_OK; // a device or a pipe is not replaced
    }
    // It is replaced as a whole, through a temporary file beside it.
    parent_of(path, above, sizeof above);
    return check_writable_directory(above, what);
}

// --- creation ------------------------------------------------------------------------------------

// Makes every missing directory on the way to `path`; *first is the length of the topmost one that
// was made, 0 when all were there.
static int make_directories(const char *path, size_t *first)
{
    char part[4096];
    size_t n = strlen(path);
    *first = 0;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0777) == 0) {
            if (!*first)
                *first = i;
        } else if (errno != EEXIST) {
            return sl_fail_errno(errno == EACCES || errno == EROFS ? SL_EACCESS : SL_EIO, errno,
                                 "output: creating directory '%s'", part);
        }
    }
    return SL_OK;
}

// Undoes make_directories(), as far as they are empty.
static void remove_directories(const char *path, size_t first)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (size_t n = strlen(part); first && n >= first; n--) {
        if (part[n] != '\0' && part[n] != '/')
            continue;
        part[n] = '\0';
        if (rmdir(part) != 0 && errno != ENOENT)
            return;
    }
}

static int fill(struct sl_rundir *dir, const char *config_json)
{
    char file[4200];
    sl_rundir_file(dir, "metrics.jsonl", file, sizeof file);
    dir->metrics = fopen(file, "wxe");
    if (!dir->metrics)
        return sl_fail_errno(SL_EIO, errno, "output: creating '%s'", file);
    sl_rundir_file(dir, "config.json", file, sizeof file);
    return sl_atomic_file_write(file, config_json, strlen(config_json));
}

int sl_rundir_create(struct sl_rundir *dir, const char *path, const char *config_json)
{
    size_t first = 0;
    memset(dir, 0, sizeof *dir);
    SL_TRY(sl_rundir_check(path));
    snprintf(dir->path, sizeof dir->path, "%s", path);
    snprintf(dir->log, sizeof dir->log, "%s/log", path);
    int rc = make_directories(path, &first);
    // Making log/ is the claim: of two jobs that chose the same directory one fails here, and
    // removes nothing of the other's.
    bool claimed = rc == SL_OK && mkdir(dir->log, 0777) == 0;
    if (rc == SL_OK && !claimed)
        rc = sl_fail_errno(errno == EEXIST ? SL_EEXIST : SL_EIO, errno,
                           "output: creating directory '%s'", dir->log);
    if (rc == SL_OK)
        rc = fill(dir, config_json);
    if (rc == SL_OK)
        return SL_OK;
    char file[4200];
    sl_rundir_close(dir);
    if (claimed) {
        unlink(sl_rundir_file(dir, "metrics.jsonl", file, sizeof file));
        unlink(sl_rundir_file(dir, "config.json", file, sizeof file));
        rmdir(dir->log);
    }
    remove_directories(path, first);
    memset(dir, 0, sizeof *dir);
    return rc;
}

int sl_rundir_add_metrics(struct sl_rundir *dir, const char *json)
{
    if (fprintf(dir->metrics, "%s\n", json) < 0 || fflush(dir->metrics) != 0)
        return sl_fail_errno(SL_EIO, errno, "writing '%s/metrics.jsonl'", dir->path);
    return SL_OK;
}

char *sl_rundir_file(const struct sl_rundir *dir, const char *name, char *buf, size_t bytes)
{
    snprintf(buf, bytes, "%s/%s", dir->path, name);
    return buf;
}

void sl_rundir_close(struct sl_rundir *dir)
{
    if (dir->metrics)
        fclose(dir->metrics);
    dir->metrics = NULL;
}
