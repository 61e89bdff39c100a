#include "common/data/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

// Tells apart the temporary files of one process; the process id tells apart processes.
static atomic_uint n_opened;

static int code_of(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR: return SL_ENOENT;
    case EACCES:
    case EPERM:
    case EROFS: return SL_EACCESS;
    case ENOMEM: return SL_ENOMEM;
    default: return SL_EIO;
    }
}

static void forget(struct sl_atomic_file *f)
{
    if (f->fd >= 0 && f->path)
        close(f->fd);
    free(f->path);
    free(f->temp_path);
    *f = (struct sl_atomic_file){.fd = -1};
}

static int directory_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

// What /proc calls a file that is open.
static const char *name_of(int fd, char out[32])
{
    snprintf(out, 32, "/proc/self/fd/%d", fd);
    return out;
}

// A file that has no name before it is whole, so that a killed writer leaves nothing; -1 where
// there is none, or where it could not be given one.
static int open_unnamed(const char *path)
{
    const int n_dir = directory_bytes(path);
    char *dir = n_dir ? strndup(path, (size_t)n_dir) : strdup(".");
    char name[32];
    int fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(dir);
    if (fd >= 0 && access(name_of(fd, name), F_OK) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// A hidden name beside the final one for a new file, whose descriptor it gives, or for this one,
// which has none. Steps over names that a dead process of the same id left behind. The loop is
// bounded: a directory that answers EEXIST a thousand times is not a directory to write to.
static int give_name(struct sl_atomic_file *f)
{
    const int n_dir = directory_bytes(f->path);
    char open_name[32];
    for (int tries = 0; tries < 1000; tries++) {
        unsigned serial = atomic_fetch_add_explicit(&n_opened, 1, memory_order_relaxed);
        char *temp = NULL;
        if (asprintf(&temp, "%.*s.%s.%ld-%u.tmp", n_dir, f->path, f->path + n_dir, (long)getpid(),
                     serial) < 0)
            return sl_fail(SL_ENOMEM, "write %s: out of memory", f->path);
        // Not mkstemp: its files are 0600, and the umask cannot be asked for without a race.
        const int rc = f->fd < 0 ? open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                                 : linkat(AT_FDCWD, name_of(f->fd, open_name), AT_FDCWD, temp,
                                          AT_SYMLINK_FOLLOW);
        const int err = errno;
        if (rc >= 0) {
            f->temp_path = temp;
            f->fd = f->fd < 0 ? rc : f->fd;
            return SL_OK;
        }
        free(temp);
        if (err != EINTR && err != EEXIST)
            return sl_fail_errno(code_of(err), err,
                                 "write %s: cannot create a file in its directory", f->path);
    }
    return sl_fail(SL_EEXIST, "write %s: its directory is full of stale temporary files (.*.tmp)",
                   f->path);
}

int sl_atomic_file_open(const char *path, struct sl_atomic_file *out)
{
    *out = (struct sl_atomic_file){.fd = -1};
    if (path[directory_bytes(path)] == '\0')
        return sl_fail(SL_EINVAL, "write %s: this names a directory: give a file name",
                       path[0] ? path : "\"\"");
    out->path = strdup(path);
    if (!out->path)
        return sl_fail(SL_ENOMEM, "write %s: out of memory", path);
    out->fd = open_unnamed(path);
    const int rc = out->fd < 0 ? give_name(out) : SL_OK;
    if (rc < 0)
        forget(out);
    return rc;
}

int sl_atomic_file_append(struct sl_atomic_file *f, const void *data, size_t n_bytes)
{
    const char *p = data;
    while (n_bytes > 0) {
        ssize_t n = write(f->fd, p, n_bytes);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return sl_fail_errno(SL_EIO, errno, "write %s", f->path);
        }
        p += n;
        n_bytes -= (size_t)n;
    }
    return SL_OK;
}

// Makes the new name itself durable. File systems that cannot sync a directory answer EINVAL.
static int sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!dir)
        return sl_fail(SL_ENOMEM, "write %s: out of memory", path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    // A directory may be writable and not readable; the file is there, only less surely durable.
    if (fd < 0)
        return SL_OK;
    int rc = SL_OK;
    if (fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP)
        rc = sl_fail_errno(SL_EIO, errno, "write %s: fsync of its directory", path);
    close(fd);
    return rc;
}

int sl_atomic_file_commit(struct sl_atomic_file *f)
{
    int rc = SL_OK;
    if (fsync(f->fd) < 0)
        rc = sl_fail_errno(SL_EIO, errno, "write %s: fsync", f->path);
    else if (!f->temp_path)
        rc = give_name(f);
    if (rc == SL_OK && rename(f->temp_path, f->path) < 0)
        rc = sl_fail_errno(errno == EISDIR ? SL_EEXIST : code_of(errno), errno,
                           "write %s: rename of the finished file", f->path);
    if (rc < 0) {
        sl_atomic_file_abort(f);
        return rc;
    }
    rc = sync_directory(f->path);
    forget(f);
    return rc;
}

void sl_atomic_file_abort(struct sl_atomic_file *f)
{
    if (!f->path)
        return;
    if (f->temp_path)
        unlink(f->temp_path);
    forget(f);
}

int sl_atomic_file_write(const char *path, const void *data, size_t n_bytes)
{
    struct sl_atomic_file f;
    SL_TRY(sl_atomic_file_open(path, &f));
    int rc = sl_atomic_file_append(&f, data, n_bytes);
    if (rc < 0) {
        sl_atomic_file_abort(&f);
        return rc;
    }
    return sl_atomic_file_commit(&f);
}

// --- files without a name ------------------------------------------------------------------------

int sl_anon_file_open(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    char path[4200]; // a file system that has no such files
    snprintf(path, sizeof path, "%s/.sluice-XXXXXX", directory);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}
