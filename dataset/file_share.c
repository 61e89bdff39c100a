#include "dataset/file_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/open_file.h"
#include "common/data/atomic_file.h"

enum { PIECE_BYTES = 1 << 20 }; // of a copy, so that Ctrl-C is heard

static int copy_bytes(struct sl_file_share *s, int from, const char *path, uint64_t n,
                      struct sl_atomic_file *to)
{
    int err = n ? posix_fallocate(to->fd, 0, (off_t)n) : 0;
    if (err)
        return sl_fail_errno(SL_EIO, err, "write %s: reserve %" PRIu64 " bytes", to->path, n);
    ssize_t got;
    while ((got = read(from, s->piece, PIECE_BYTES)) > 0) {
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_atomic_file_append(to, s->piece, (size_t)got));
        s->bytes += (uint64_t)got;
    }
    return got < 0 ? sl_fail_errno(SL_EIO, errno, "%s: cannot be read", path) : SL_OK;
}

static int copy(struct sl_file_share *s, const char *from, const char *to)
{
    struct sl_atomic_file file = {0};
    struct stat st;
    if (!s->piece && !(s->piece = malloc(PIECE_BYTES)))
        return sl_fail(SL_ENOMEM, "%s: no memory to copy it", from);
    const int fd = sl_open_regular_file(from, &st);
    SL_TRY(fd);
    int rc = sl_atomic_file_open(to, &file);
    if (rc == SL_OK)
        rc = copy_bytes(s, fd, from, (uint64_t)st.st_size, &file);
    if (rc == SL_OK)
        rc = sl_atomic_file_commit(&file);
    sl_atomic_file_abort(&file);
    close(fd);
    s->n_copied++;
    return rc;
}

// Another file system, somebody else's file, or one with as many names as it may have.
static bool wants_copy(int err)
{
    return err == EXDEV || err == EPERM || err == EACCES || err == EMLINK || err == EOPNOTSUPP ||
           err == ENOSYS;
}

int sl_file_share(struct sl_file_share *s, const char *from, const char *to)
{
    s->n_files++;
    if (s->copies)
        return copy(s, from, to);
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        return SL_OK;
    if (!wants_copy(errno))
        return sl_fail_errno(SL_EIO, errno, "write %s: link it to %s", to, from);
    snprintf(s->why, sizeof s->why, "%s", strerror(errno));
    return copy(s, from, to);
}

bool sl_file_share_can_link(const char *from, const char *to)
{
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        return unlink(to) == 0;
    return !wants_copy(errno);
}

void sl_file_share_fini(struct sl_file_share *s)
{
    free(s->piece);
    s->piece = NULL;
}
