#include "common/ipc/shared_array.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // Linux 6.1; others refuse it
#endif

// What stands behind the array, in a page of its own.
struct mark {
    uint64_t whole, note;
};
#define WHOLE      UINT64_C(0x656c6f6877206c73)
#define HUGE_BYTES ((uint64_t)2 << 20)

static int lock(int fd, short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    int rc;
    do
        rc = fcntl(fd, F_SETLKW, &whole); // whoever has it ends or dies
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? sl_fail_errno(SL_ESYS, errno, "an array for all samplers: its lock") : SL_OK;
}

// On a boundary of huge pages; NULL where there is no room.
static void *map(int fd, uint64_t bytes)
{
    char *room = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    char *at = (char *)sl_align_up((uintptr_t)room, HUGE_BYTES);
    uint64_t before = (uint64_t)(at - room);
    if (before > 0)
        munmap(room, before);
    munmap(at + bytes, HUGE_BYTES - before);
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (p != MAP_FAILED)
        return p;
    munmap(at, bytes);
    return NULL;
}

static int fill(struct sl_shared_array *a, struct mark *mark, sl_shared_array_make make, void *ctx)
{
    if (mark->whole == WHOLE) { // the lock orders it
        a->note = mark->note;
        return SL_OK;
    }
    // Where huge pages are granted as they are touched, that is better than moving what is there.
    uint64_t bytes = a->map_bytes & ~(HUGE_BYTES - 1);
    madvise(a->data, a->map_bytes, MADV_HUGEPAGE);
    SL_TRY(make(ctx, a->data, &a->note));
    a->huge = bytes > 0 && madvise(a->data, bytes, MADV_COLLAPSE) == 0;
    a->made_here = true;
    mark->note = a->note;
    __atomic_store_n(&mark->whole, WHOLE, __ATOMIC_RELEASE); // nothing before it is later
    return SL_OK;
}

// The lock is held.
static int open_locked(int fd, uint64_t bytes, sl_shared_array_make make, void *ctx,
                       struct sl_shared_array *out)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), body = sl_align_up(bytes, page);
    struct stat st;
    out->map_bytes = body + page;
    if (fstat(fd, &st) < 0 || (st.st_size == 0 && ftruncate(fd, (off_t)out->map_bytes) < 0))
        return sl_fail_errno(SL_ENOMEM, errno, "an array for all samplers: making its file");
    if (st.st_size != 0 && (uint64_t)st.st_size != out->map_bytes)
        return sl_fail(
            SL_EPROTO,
            "an array for all samplers: %lld bytes, wanted %llu: the samplers are not of "
            "the same build, or the data set was changed",
            (long long)st.st_size, (unsigned long long)out->map_bytes);
    out->data = map(fd, out->map_bytes);
    if (!out->data)
        return sl_fail(SL_ENOMEM, "no memory for %llu bytes", (unsigned long long)bytes);
    SL_TRY(fill(out, (void *)((char *)out->data + body), make, ctx));
    mprotect(out->data, out->map_bytes, PROT_READ);
    return SL_OK;
}

int sl_shared_array_open(int fd, uint64_t bytes, sl_shared_array_make make, void *ctx,
                         struct sl_shared_array *out)
{
    *out = (struct sl_shared_array){0};
    int own = fd < 0 ? memfd_create("sluice-array", MFD_CLOEXEC) : -1;
    int file = fd < 0 ? own : fd;
    if (file < 0)
        return sl_fail_errno(SL_ESYS, errno, "an array for all samplers: memfd_create");
    int rc;
    SL_TRY_OUT(lock(file, F_WRLCK));
    rc = open_locked(file, bytes, make, ctx, out);
    if (rc < 0)
        sl_shared_array_close(out);
    lock(file, F_UNLCK);
out:
    if (own >= 0)
        close(own);
    return rc;
}

void sl_shared_array_close(struct sl_shared_array *a)
{
    if (a->data)
        munmap(a->data, a->map_bytes);
    *a = (struct sl_shared_array){0};
}
