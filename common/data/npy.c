#include "common/data/npy.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/open_file.h"

static int map_fd(int fd, const struct stat *st, const char *path, struct sl_npy *out)
{
    out->file_bytes = (uint64_t)st->st_size;
    out->id = sl_file_id_of(st);
    if (st->st_size == 0) // which cannot be mapped
        return sl_npy_parse_header("", 0, 0, path, &out->head);

    void *map = mmap(NULL, out->file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return sl_fail_errno(errno == ENOMEM ? SL_ENOMEM : SL_EIO, errno, "%s: cannot be mapped",
                             path);
    out->map = map;
    SL_TRY(sl_npy_parse_header(map, out->file_bytes, out->file_bytes, path, &out->head));
    out->data = (const char *)map + out->head.data_offset;
    out->n_elems = out->head.data_bytes / sl_dtype_bytes(out->head.dtype);
    return SL_OK;
}

int sl_npy_open(const char *path, struct sl_npy *out)
{
    return sl_npy_open_same(path, NULL, out);
}

int sl_npy_open_same(const char *path, const struct sl_file_id *was, struct sl_npy *out)
{
    *out = (struct sl_npy){0};
    struct stat st;
    int fd = sl_open_regular_file(path, &st);
    if (fd < 0)
        return fd;
    int rc = sl_file_id_check(path, was, &st);
    if (rc == SL_OK)
        rc = map_fd(fd, &st, path, out);
    close(fd);
    if (rc < 0)
        sl_npy_close(out);
    return rc;
}

void sl_npy_close(struct sl_npy *npy)
{
    if (npy->map)
        munmap(npy->map, npy->file_bytes);
    *npy = (struct sl_npy){0};
}
