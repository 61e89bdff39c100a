#include "cli/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/open_file.h"
#include "common/base/utf8.h"

int sl_json_file_read(const char *path, size_t bytes_max, cJSON **out)
{
    char *text;
    size_t n;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sl_fail_errno(errno == ENOENT || errno == ENOTDIR ? SL_ENOENT : SL_EACCESS, errno,
                             "'%s'", path);
    int rc = sl_read_whole_file(fd, path, bytes_max, &text, &n);
    close(fd);
    char why[SL_UTF8_WHY_BYTES];
    if (rc == SL_OK && sl_utf8_is_other(text, n, why))
        rc = sl_fail(SL_EFORMAT, "'%s': %s", path, why);
    if (rc == SL_OK && !(*out = cJSON_ParseWithLength(text, n)))
        rc = sl_fail(SL_EFORMAT, "'%s' is not JSON", path);
    free(text);
    return rc;
}
