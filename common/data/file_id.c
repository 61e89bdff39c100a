#include "common/data/file_id.h"

#include <inttypes.h>

#include "common/base/error.h"

static uint64_t ns_of(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct sl_file_id sl_file_id_of(const struct stat *st)
{
    return (struct sl_file_id){(uint64_t)st->st_size, (uint64_t)st->st_ino, ns_of(st->st_mtim),
                               ns_of(st->st_ctim)};
}

int sl_file_id_check(const char *path, const struct sl_file_id *was, const struct stat *st)
{
    const struct sl_file_id is = sl_file_id_of(st);
    if (!was)
        return SL_OK;
    if (is.inode != was->inode)
        return sl_fail(SL_ECHANGED,
                       "%s: was replaced since it was checked (found inode %" PRIu64
                       ", wanted %" PRIu64 "): " SL_FILE_ID_ADVICE,
                       path, is.inode, was->inode);
    if (is.bytes != was->bytes)
        return sl_fail(SL_ECHANGED,
                       "%s: was changed since it was checked (found %" PRIu64
                       " bytes, wanted %" PRIu64 "): " SL_FILE_ID_ADVICE,
                       path, is.bytes, was->bytes);
    if (is.mtime_ns != was->mtime_ns)
        return sl_fail(SL_ECHANGED,
                       "%s: was written to since it was checked (found a modification time of "
                       "%" PRIu64 ".%09" PRIu64 " s, wanted %" PRIu64 ".%09" PRIu64
                       " s): " SL_FILE_ID_ADVICE,
                       path, is.mtime_ns / 1000000000u, is.mtime_ns % 1000000000u,
                       was->mtime_ns / 1000000000u, was->mtime_ns % 1000000000u);
    return SL_OK;
}
