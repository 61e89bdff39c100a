#include "common/storage/reads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

bool sl_row_set_direct(struct sl_row_reader *r, bool direct)
{
    bool all = true;
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const int fd = r->part[i].fd, flags = fcntl(fd, F_GETFL);
        const int wanted = (flags & ~(O_NONBLOCK | O_DIRECT)) | (direct ? O_DIRECT : 0);
        all &= flags >= 0 && fcntl(fd, F_SETFL, wanted) == 0;
    }
    return all;
}

// File systems refuse direct reads as such (tmpfs), or only when one is tried. Whoever sees that a
// reader is not direct reads files that are not.
static bool falls_back_to_cache(struct sl_row_reader *r, const struct sl_row_progress *p,
                                int64_t result)
{
    if (!p->direct || (result != -EINVAL && result != -EOPNOTSUPP))
        return false;
    sl_row_set_direct(r, false);
    if (atomic_exchange(&r->direct, false))
        sl_log_info("features: %s: the file system does not support direct reads (%s): rows are "
                    "read through the page cache",
                    r->path[0], strerror((int)-result));
    return true;
}

void sl_row_deliver(struct sl_row_reader *r, struct sl_row_run *run, const char *bytes)
{
    const struct sl_row_file *file = &r->now->file;
    const uint64_t row_bytes = file->row_bytes;
    run->done = true;
    for (uint32_t i = run->first; r->out && i < run->first + run->n; i++) {
        const uint64_t place = r->sorted[i] & UINT32_MAX;
        uint32_t part;
        const uint64_t at = sl_row_place(file, r->sorted[i] >> 32, &part);
        memcpy(r->out + place * row_bytes, bytes + (at - run->at), row_bytes);
    }
}

// Nothing more came than was there. The file ends; else its file system may yet give the rest.
static enum sl_row_step take_nothing(const struct sl_row_reader *r, const struct sl_row_run *run,
                                     struct sl_row_progress *p, uint64_t at, int *rc)
{
    const struct sl_row_part *part = &r->part[run->part];
    struct stat st;
    const bool known = fstat(part->fd, &st) == 0;
    if (known && (uint64_t)st.st_size >= run->at + run->need) {
        if (++p->attempts < SL_ROW_ATTEMPTS)
            return SL_ROW_AGAIN;
        *rc = sl_fail(SL_EIO,
                      "%s: byte %" PRIu64
                      " of %lld could not be read in %d attempts: check the file system (dmesg)",
                      r->path[run->part], at, (long long)st.st_size, SL_ROW_ATTEMPTS);
        return SL_ROW_FAILED;
    }
    *rc = sl_fail(SL_EFORMAT,
                  "%s: ends at byte %" PRIu64 ", wanted %" PRIu64
                  ": the file was cut while it was in use: put it back and start again",
                  r->path[run->part], known ? SL_MIN(at, (uint64_t)st.st_size) : at, part->bytes);
    return SL_ROW_FAILED;
}

enum sl_row_step sl_row_take(struct sl_row_reader *r, const struct sl_row_run *run,
                             struct sl_row_progress *p, int64_t result, int *rc)
{
    const uint64_t at = run->at + p->got;
    if (result == -EINTR || result == -EAGAIN || falls_back_to_cache(r, p, result))
        return SL_ROW_AGAIN;
    if (result < 0 && ++p->attempts < SL_ROW_ATTEMPTS) {
        sl_log_warn("%s: %" PRIu32 " bytes at %" PRIu64 " cannot be read: %s; trying again",
                    r->path[run->part], run->bytes - p->got, at, strerror((int)-result));
        return SL_ROW_AGAIN;
    }
    if (result < 0) {
        *rc = sl_fail_errno(SL_EIO, (int)-result,
                            "%s: %" PRIu32 " bytes at %" PRIu64
                            " could not be read in %d attempts: check the drive (dmesg)",
                            r->path[run->part], run->bytes - p->got, at, SL_ROW_ATTEMPTS);
        return SL_ROW_FAILED;
    }
    const uint32_t got = p->got + (uint32_t)result;
    if (got >= run->need)
        return SL_ROW_DONE;
    // A direct read begins with a block. What ends within one ends with the file, mostly.
    const uint32_t kept = p->direct ? got / SL_ROW_BLOCK_BYTES * SL_ROW_BLOCK_BYTES : got;
    if (kept == p->got)
        return take_nothing(r, run, p, run->at + got, rc);
    p->got = kept;
    return SL_ROW_AGAIN;
}

int sl_row_check_patience(struct sl_row_reader *r, uint64_t last_ns)
{
    if (sl_now_ns() < last_ns + SL_ROW_PATIENCE_S * 1000000000ull)
        return SL_OK;
    r->broken = true;
    return sl_fail(SL_ETIMEDOUT,
                   "%s: the drive has not answered for %d s: check it, or the network to it",
                   r->path[0], SL_ROW_PATIENCE_S);
}
