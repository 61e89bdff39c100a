#include "common/storage/reads.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

void sl_row_deliver(struct sl_row_reader *r, const struct sl_row_run *run, const char *bytes)
{
    const uint64_t row_bytes = r->file.row_bytes;
    for (uint32_t i = run->first; r->out && i < run->first + run->n; i++) {
        const uint64_t place = r->sorted[i] & UINT32_MAX;
        uint32_t part;
        const uint64_t at = sl_row_place(&r->file, r->sorted[i] >> 32, &part);
        memcpy(r->out + place * row_bytes, bytes + (at - run->at), row_bytes);
    }
}

// Nothing was read at this byte.
static int fail_cut(const struct sl_row_reader *r, uint32_t part, uint64_t at)
{
    struct stat st;
    if (fstat(r->file.part[part].fd, &st) == 0)
        at = SL_MIN(at, (uint64_t)st.st_size);
    return sl_fail(SL_EFORMAT,
                   "%s: ends at byte %" PRIu64 ", wanted %" PRIu64
                   ": the file was cut while it was in use: put it back and start again",
                   r->path[part], at, r->file.part[part].bytes);
}

enum sl_row_step sl_row_take(const struct sl_row_reader *r, const struct sl_row_run *run,
                             struct sl_row_progress *p, int64_t result, int *rc)
{
    const uint64_t at = run->at + p->got;
    if (result == -EINTR || result == -EAGAIN)
        return SL_ROW_AGAIN;
    if (result < 0 && ++p->attempts < SL_ROW_ATTEMPTS) {
        sl_log_warn("%s: %" PRIu32 " bytes at %" PRIu64 " cannot be read: %s; trying again",
                    r->path[run->part], run->bytes - p->got, at, strerror((int)-result));
        return SL_ROW_AGAIN;
    }
    if (result < 0) {
        *rc = sl_fail_errno(SL_EIO, (int)-result,
                            "%s: %" PRIu32 " bytes at %" PRIu64
                            " cannot be read, in %d attempts: look at the drive (dmesg)",
                            r->path[run->part], run->bytes - p->got, at, SL_ROW_ATTEMPTS);
        return SL_ROW_FAILED;
    }
    const uint32_t got = p->got + (uint32_t)result;
    if (got >= run->need)
        return SL_ROW_DONE;
    // A direct read begins with a block. What ends within one ends with the file.
    if (got / SL_ROW_BLOCK_BYTES * SL_ROW_BLOCK_BYTES == p->got) {
        *rc = fail_cut(r, run->part, run->at + got);
        return SL_ROW_FAILED;
    }
    p->got = got / SL_ROW_BLOCK_BYTES * SL_ROW_BLOCK_BYTES;
    return SL_ROW_AGAIN;
}

int sl_row_check_patience(struct sl_row_reader *r, uint64_t last_ns)
{
    if (sl_now_ns() < last_ns + SL_ROW_PATIENCE_S * 1000000000ull)
        return SL_OK;
    r->broken = true;
    return sl_fail(SL_ETIMEDOUT,
                   "%s: the drive has not answered for %d s: look at it, or at the network that it "
                   "is behind",
                   r->path[0], SL_ROW_PATIENCE_S);
}
