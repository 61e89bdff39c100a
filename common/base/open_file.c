#include "common/base/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>

#include "common/base/error.h"
#include "common/base/bits.h"

int sl_open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
    int code = errno == ENOENT || errno == ENOTDIR ? SL_ENOENT
               : errno == EACCES || errno == EPERM ? SL_EACCESS
                                                   : SL_EIO;
    return sl_fail_errno(code, errno, "%s: cannot be opened", path);
}

int sl_open_regular_file(const char *path, struct stat *st)
{
    int rc = SL_OK, fd = sl_open_file(path);
    if (fd < 0)
        return fd;
    if (fstat(fd, st) < 0)
        rc = sl_fail_errno(SL_EIO, errno, "%s", path);
    else if (!S_ISREG(st->st_mode))
        rc = sl_fail(SL_EFORMAT, "%s: is not a regular file", path);
    if (rc == SL_OK)
        return fd;
    close(fd);
    return rc;
}

static int read_all(int fd, const char *path, char *to, size_t bytes, size_t *n)
{
    for (*n = 0; *n < bytes;) {
        ssize_t got = pread(fd, to + *n, bytes - *n, (off_t)*n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_fail_errno(SL_EIO, errno, "reading '%s'", path);
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return SL_OK;
}

int sl_read_whole_file(int fd, const char *path, size_t bytes_max, char **text, size_t *n)
{
    struct stat st;
    size_t have;
    *text = NULL;
    if (fstat(fd, &st) != 0)
        return sl_fail_errno(SL_EIO, errno, "reading '%s'", path);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > bytes_max)
        return sl_fail(SL_EFORMAT, "'%s': found %lld bytes, wanted a file of at most %zu", path,
                       (long long)st.st_size, bytes_max);
    char *buf = malloc((size_t)st.st_size + 1);
    if (!buf)
        return sl_fail(SL_ENOMEM, "reading '%s': no memory", path);
    int rc = read_all(fd, path, buf, (size_t)st.st_size, &have);
    if (rc < 0) {
        free(buf);
        return rc;
    }
    buf[have] = '\0';
    *text = buf;
    if (n)
        *n = have;
    return SL_OK;
}

// --- descriptors left ----------------------------------------------------------------------------

bool sl_descriptors_left(unsigned n)
{
    int taken[SL_DESCRIPTORS_MAX];
    unsigned have = 0;
    n = SL_MIN(n, (unsigned)SL_DESCRIPTORS_MAX);
    if (n > 0 && (taken[0] = open("/", O_PATH | O_CLOEXEC)) >= 0)
        have = 1;
    while (have > 0 && have < n && (taken[have] = fcntl(taken[0], F_DUPFD_CLOEXEC, 0)) >= 0)
        have++;
    bool enough = have == n;
    while (have > 0)
        close(taken[--have]);
    return enough;
}

int sl_descriptors_check(unsigned n, const char *what)
{
    struct rlimit limit = {0};
    if (sl_descriptors_left(n))
        return SL_OK;
    getrlimit(RLIMIT_NOFILE, &limit);
    return sl_fail(SL_EAGAIN,
                   "%s: too many open files: wanted %u more, and the limit is %llu: raise it with "
                   "'ulimit -n' (LimitNOFILE= of a service)",
                   what, n, (unsigned long long)limit.rlim_cur);
}
