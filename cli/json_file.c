#include "cli/json_file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/error.h"

static int read_all(FILE *f, const char *path, size_t bytes_max, char **text, size_t *n)
{
    struct stat st;
    if (fstat(fileno(f), &st) != 0)
        return sl_fail_errno(SL_EIO, errno, "reading '%s'", path);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > bytes_max)
        return sl_fail(SL_EFORMAT, "'%s': found %lld bytes, wanted a file of at most %zu", path,
                       (long long)st.st_size, bytes_max);
    *text = malloc((size_t)st.st_size + 1);
    if (!*text)
        return sl_fail(SL_ENOMEM, "no memory for '%s'", path);
    *n = fread(*text, 1, (size_t)st.st_size, f);
    return ferror(f) ? sl_fail_errno(SL_EIO, errno, "reading '%s'", path) : SL_OK;
}

int sl_json_file_read(const char *path, size_t bytes_max, cJSON **out)
{
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    FILE *f = fopen(path, "re");
    if (!f)
        return sl_fail_errno(errno == ENOENT || errno == ENOTDIR ? SL_ENOENT : SL_EACCESS, errno,
                             "'%s'", path);
    int rc = read_all(f, path, bytes_max, &text, &n);
    fclose(f);
    if (rc == SL_OK && !(*out = cJSON_ParseWithLength(text, n)))
        rc = sl_fail(SL_EFORMAT, "'%s' is not JSON", path);
    free(text);
    return rc;
}
