#include "common/base/open_file.h"

#include <errno.h>
#include <fcntl.h>

#include "common/base/error.h"

int sl_open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
    int code = errno == ENOENT || errno == ENOTDIR ? SL_ENOENT
               : errno == EACCES || errno == EPERM ? SL_EACCESS
                                                   : SL_EIO;
    return sl_fail_errno(code, errno, "%s: can not be opened", path);
}
