#include "common/bus/assignment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/open_file.h"

enum { BYTES_MAX = 16 << 20 };

int sl_assignment_make(const char *job, const char *record)
{
    const struct iovec texts[] = {
        {.iov_base = (void *)job, .iov_len = strlen(job) + 1},
        {.iov_base = (void *)record, .iov_len = record ? strlen(record) : 0},
    };
    const size_t bytes = texts[0].iov_len + texts[1].iov_len;
    int fd = memfd_create("sluice-job", MFD_CLOEXEC);
    if (fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "handing over the job: memfd_create");
    const ssize_t written = pwritev(fd, texts, 2, 0);
    if (written == (ssize_t)bytes)
        return fd;
    int err = written < 0 ? errno : ENOSPC;
    close(fd);
    return sl_fail_errno(SL_ESYS, err, "handing over the job: writing %zu bytes", bytes);
}

int sl_assignment_read(int fd, struct sl_assignment *out)
{
    size_t bytes;
    *out = (struct sl_assignment){0};
    SL_TRY(sl_read_whole_file(fd, "the job", BYTES_MAX, &out->job, &bytes));
    out->job_bytes = strlen(out->job);
    out->record = out->job + out->job_bytes + (out->job_bytes < bytes);
    if (out->job_bytes > 0)
        return SL_OK;
    sl_assignment_fini(out);
    return sl_fail(SL_EFORMAT, "reading the job from descriptor %d: found 0 bytes", fd);
}

void sl_assignment_fini(struct sl_assignment *a)
{
    free(a->job);
    *a = (struct sl_assignment){0};
}
