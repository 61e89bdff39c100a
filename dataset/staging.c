#include "dataset/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

#define STAGING_MARK ".partial-"

enum { ATTEMPTS = 16 }; // at a directory of one's own

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2
#endif

static void remove_files(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

// Directories "0", "1", ...: shards of a data set.
static void remove_shards(const char *path)
{
    char shard[SL_STAGING_PATH_BYTES + 300];
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (e->d_name[strspn(e->d_name, "0123456789")])
            continue;
        snprintf(shard, sizeof shard, "%s/%s", path, e->d_name);
        remove_files(shard);
        rmdir(shard);
    }
    if (d)
        closedir(d);
}

// Removes a directory of files and of shards; what is not there is not an error.
static void remove_directory(const char *path)
{
    remove_shards(path);
    remove_files(path);
    rmdir(path);
}

static bool contains(const char *dir, const char *name)
{
    char path[SL_STAGING_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static bool is_empty(const char *dir)
{
    bool empty = true;
    DIR *d = opendir(dir);
    if (!d)
        return false;
    struct dirent *e;
    while (empty && (e = readdir(d)))
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(d);
    return empty;
}

// A directory in it that is no shard is somebody's, and would lose its place: SL_EEXIST.
static int check_folders(const char *final)
{
    DIR *d = opendir(final);
    struct dirent *e;
    struct stat st;
    int rc = SL_OK;
    while (d && rc == SL_OK && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            e->d_name[strspn(e->d_name, "0123456789")] &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            rc = sl_fail(SL_EEXIST,
                         "write %s: found directory '%s' in it, wanted a data set's files alone, "
                         "which --force replaces: move it away first",
                         final, e->d_name);
    if (d)
        closedir(d);
    return rc;
}

static int check_final(const char *final, bool force)
{
    struct stat st;
    if (lstat(final, &st) != 0) {
        if (errno == ENOENT)
            return SL_OK;
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_EINVAL, errno, "write %s", final);
    }
    if (!force)
        return sl_fail(SL_EEXIST,
                       "write %s: it exists: choose another --out, or give --force to "
                       "replace it",
                       final);
    // --force is for data sets: a mistyped path must not cost somebody's files.
    if (!S_ISDIR(st.st_mode) || (!contains(final, "metadata.json") && !is_empty(final)))
        return sl_fail(SL_EEXIST,
                       "write %s: it exists and is not a data set (no metadata.json in "
                       "it): --force replaces only data sets: remove it yourself",
                       final);
    return check_folders(final);
}

// Directories that a killed process left: their lock is free.
static void remove_stale(const char *parent, const char *prefix)
{
    DIR *d = opendir(parent);
    if (!d)
        return;
    struct dirent *e;
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        char path[2 * SL_STAGING_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", parent, e->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_directory(path);
        close(fd);
    }
    closedir(d);
}

// Cuts `final` into its parent and its last name; drops slashes at the end.
static int split_path(struct sl_staging *st, char *parent)
{
    size_t length = strlen(st->final);
    while (length > 1 && st->final[length - 1] == '/')
        st->final[--length] = '\0';
    char *slash = strrchr(st->final, '/');
    const char *name = slash ? slash + 1 : st->final;
    if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strlen(name) >= sizeof st->name)
        return sl_fail(SL_EINVAL, "write '%s': wanted a directory's name of 1 to %zu characters",
                       st->final, sizeof st->name - 1);
    memcpy(st->name, name, strlen(name) + 1);
    if (!slash)
        snprintf(parent, SL_STAGING_PATH_BYTES, ".");
    else
        snprintf(parent, SL_STAGING_PATH_BYTES, "%.*s",
                 (int)SL_MAX(slash - st->final, (ptrdiff_t)1), st->final);
    return SL_OK;
}

// Whether the directory of that name is the one that is open.
static bool is_there(const char *dir, int fd)
{
    struct stat named, opened;
    return stat(dir, &named) == 0 && fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino &&
           named.st_dev == opened.st_dev;
}

// A new directory, locked; else false, and errno. Until it is locked another process may take it
// for one that was left, and remove it: EAGAIN.
static bool make_locked(struct sl_staging *st)
{
    if (!mkdtemp(st->dir)) {
        st->dir[0] = '\0';
        return false;
    }
    st->lock_fd = open(st->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (st->lock_fd >= 0 && flock(st->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return false;
    if (st->lock_fd >= 0 && is_there(st->dir, st->lock_fd))
        return true;
    if (st->lock_fd >= 0 || errno == ENOENT)
        errno = EAGAIN;
    return false;
}

int sl_staging_open(const char *final, bool force, struct sl_staging *st)
{
    char parent[SL_STAGING_PATH_BYTES], prefix[256];
    memset(st, 0, sizeof *st);
    st->lock_fd = -1;
    st->force = force;
    SL_TRY(sl_failpoint_init());
    // Room for the hidden name.
    if (strlen(final) + sizeof st->name >= sizeof st->final)
        return sl_fail(SL_EINVAL, "write %.60s...: the path is too long", final);
    snprintf(st->final, sizeof st->final, "%s", final);
    SL_TRY(split_path(st, parent));
    SL_TRY(check_final(st->final, force));
    snprintf(prefix, sizeof prefix, ".%s" STAGING_MARK, st->name);
    remove_stale(parent, prefix);

    int err = EAGAIN;
    for (int i = 0; i < ATTEMPTS && err == EAGAIN; i++) {
        int n = snprintf(st->dir, sizeof st->dir, "%s/%sXXXXXX", parent, prefix);
        if (n < 0 || (size_t)n >= sizeof st->dir)
            return sl_fail(SL_EINVAL, "write %.60s...: the path is too long", final);
        err = make_locked(st) ? 0 : errno;
        if (err)
            sl_staging_abort(st);
    }
    if (err == ENOENT)
        return sl_fail(SL_ENOENT, "write %s: there is no directory %s: make it first", final,
                       parent);
    if (err)
        return sl_fail_errno(err == EACCES || err == EROFS || err == EPERM ? SL_EACCESS : SL_EIO,
                             err, "write %s: make a directory in %s, and lock it", final, parent);
    // mkdtemp gives 0700: a data set is as readable as the user's other directories.
    mode_t mask = umask(0);
    umask(mask);
    fchmod(st->lock_fd, 0777 & ~mask);
    return SL_OK;
}

char *sl_staging_file(const struct sl_staging *st, const char *name, char *buf)
{
    snprintf(buf, SL_STAGING_PATH_BYTES, "%.3900s/%.128s", st->dir, name);
    return buf;
}

static int rename_to(const char *from, const char *to, unsigned flags)
{
    int rc = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
    // Some file systems know no flags: a plain rename refuses a non-empty directory too.
    if (rc != 0 && (errno == EINVAL || errno == ENOSYS) && flags == RENAME_NOREPLACE)
        rc = rename(from, to);
    return rc;
}

// The old data set goes out of the way and is removed once the new one stands in its place.
static int replace_final(struct sl_staging *st)
{
    if (rename_to(st->dir, st->final, RENAME_EXCHANGE) == 0) {
        remove_directory(st->dir); // now the old one
        return 0;
    }
    char old[SL_STAGING_PATH_BYTES + 8];
    snprintf(old, sizeof old, "%s-old", st->dir);
    if (rename(st->final, old) != 0)
        return -1;
    if (rename(st->dir, st->final) != 0) {
        int err = errno;
        rename(old, st->final);
        errno = err;
        return -1;
    }
    remove_directory(old);
    return 0;
}

int sl_staging_commit(struct sl_staging *st)
{
    fsync(st->lock_fd);
    int rc = rename_to(st->dir, st->final, RENAME_NOREPLACE);
    if (rc != 0 && st->force && (errno == EEXIST || errno == ENOTEMPTY))
        rc = replace_final(st);
    if (rc != 0) {
        int err = errno;
        sl_staging_abort(st);
        return sl_fail_errno(err == EEXIST || err == ENOTEMPTY ? SL_EEXIST : SL_EIO, err,
                             "write %s: give the finished data set its name", st->final);
    }
    close(st->lock_fd);
    st->lock_fd = -1;
    st->dir[0] = '\0';
    return SL_OK;
}

void sl_staging_abort(struct sl_staging *st)
{
    if (!st->dir[0])
        return;
    remove_directory(st->dir);
    if (st->lock_fd >= 0)
        close(st->lock_fd);
    st->lock_fd = -1;
    st->dir[0] = '\0';
}

unsigned long long sl_staging_bytes(const struct sl_staging *st)
{
    unsigned long long sum = 0;
    DIR *d = opendir(st->dir);
    if (!d)
        return 0;
    struct dirent *e;
    struct stat s;
    while ((e = readdir(d)))
        if (fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode))
            sum += (unsigned long long)s.st_size;
    closedir(d);
    return sum;
}
