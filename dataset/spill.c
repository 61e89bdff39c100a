#include "dataset/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/data/atomic_file.h"
#include "common/text/units.h"

int sl_spill_init(struct sl_spill *s, const char *dir, const char *doing)
{
    *s = (struct sl_spill){.dir = strdup(dir), .doing = doing, .fd = -1};
    return s->dir ? SL_OK : sl_fail(SL_ENOMEM, "%s: no memory", doing);
}

void sl_spill_fini(struct sl_spill *s)
{
    if (s->dir && s->fd >= 0)
        close(s->fd);
    free(s->dir);
    memset(s, 0, sizeof *s);
}

int sl_spill_reserve(struct sl_spill *s, uint64_t n_bytes, uint64_t *offset)
{
    if (s->fd < 0)
        s->fd = sl_anon_file_open(s->dir);
    if (s->fd < 0)
        return sl_fail_errno(SL_EIO, errno, "%s: make a temporary file in %s", s->doing, s->dir);
    *offset = s->bytes;
    s->bytes += n_bytes;
    return SL_OK;
}

int sl_spill_write(const struct sl_spill *s, const void *data, size_t n_bytes, uint64_t offset)
{
    const char *p = data;
    while (n_bytes > 0) {
        ssize_t w = pwrite(s->fd, p, n_bytes, (off_t)offset);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            char text[SL_UNITS_BYTES];
            return sl_fail_errno(SL_EIO, w < 0 ? errno : ENOSPC,
                                 "%s: write %s to a temporary file in %s: free some space, or give "
                                 "more --memory so that less is spilled",
                                 s->doing, sl_units_bytes(text, s->bytes), s->dir);
        }
        p += w;
        offset += (uint64_t)w;
        n_bytes -= (size_t)w;
    }
    return SL_OK;
}

int sl_spill_read(const struct sl_spill *s, void *data, size_t n_bytes, uint64_t offset)
{
    char *p = data;
    while (n_bytes > 0) {
        ssize_t r = pread(s->fd, p, n_bytes, (off_t)offset);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return sl_fail_errno(SL_EIO, r < 0 ? errno : EIO,
                                 "%s: read the temporary file in %s at %" PRIu64, s->doing, s->dir,
                                 offset);
        p += r;
        offset += (uint64_t)r;
        n_bytes -= (size_t)r;
    }
    return SL_OK;
}

void sl_spill_release(const struct sl_spill *s, uint64_t offset, uint64_t n_bytes)
{
    fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n_bytes);
}
