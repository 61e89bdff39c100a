#include "common/arena/shared_array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/event.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // Linux 6.1; others refuse it
#endif

// What stands behind the array, in a page of its own.
struct mark {
    uint64_t whole, huge;
    struct sl_event done; // somebody's making of it is over, however it went
};
#define WHOLE      UINT64_C(0x656c6f6877206c73)
#define HUGE_BYTES ((uint64_t)SL_HUGE_PAGE_BYTES)

enum { LOOK_MS = 100 }; // at whether the maker has died

// The file, opened once more: to be locked, and for nothing else.
static int open_lock(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_RDWR | O_CLOEXEC);
    return own >= 0 ? own
                    : sl_fail_errno(SL_ESYS, errno,
                                    "an array for all workers: opening %s for its lock (wanted "
                                    "/proc of this process)",
                                    path);
}

// SL_EAGAIN where another one has it.
static int lock(int fd, short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
        return SL_OK;
    if (errno == EAGAIN || errno == EACCES)
        return SL_EAGAIN;
    return sl_fail_errno(SL_ESYS, errno, "an array for all workers: its lock");
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

void sl_shared_array_ask_huge(void *p, uint64_t bytes)
{
    char *at = (char *)sl_align_up((uintptr_t)p, HUGE_BYTES);
    const uint64_t before = (uint64_t)(at - (char *)p);
    const uint64_t whole = bytes > before ? (bytes - before) & ~(HUGE_BYTES - 1) : 0;
    if (whole == 0)
        return;
    // Granted as they are touched; else a huge page takes the place of the small one that was.
    madvise(at, whole, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < whole; i += HUGE_BYTES)
        ((volatile char *)at)[i] = 0;
    madvise(at, whole, MADV_COLLAPSE);
}

// The lock is held, which orders what was written before by another process.
static int fill(const struct sl_shared_array_spec *spec, struct sl_shared_array *a,
                struct mark *mark)
{
    if (mark->whole == WHOLE)
        return SL_OK;
    const uint64_t whole = a->map_bytes & ~(HUGE_BYTES - 1);
    SL_TRY(spec->make(spec->ctx, a->data));
    // Makes what is not huge yet so, and says whether all is.
    mark->huge = whole > 0 && madvise(a->data, whole, MADV_COLLAPSE) == 0;
    a->made_here = true;
    __atomic_store_n(&mark->whole, WHOLE, __ATOMIC_RELEASE); // nothing before it is later
    return SL_OK;
}

static int await_turn(const struct sl_shared_array_spec *spec, int fd, struct mark *mark)
{
    const uint64_t seconds = spec->wait_seconds ? spec->wait_seconds : SL_SHARED_ARRAY_SECONDS;
    const uint64_t until = sl_now_ns() + seconds * 1000000000u;
    int rc;
    for (;;) {
        const uint32_t seen = sl_event_read(&mark->done);
        rc = lock(fd, F_WRLCK);
        if (rc != SL_EAGAIN)
            return rc;
        if (spec->stops && atomic_load_explicit(spec->stops, memory_order_relaxed))
            return sl_fail(SL_EABORTED, "an array for all workers: stopped while waiting for it");
        if (sl_now_ns() >= until)
            return sl_fail(SL_ETIMEDOUT,
                           "an array for all workers: another process has been making it for more "
                           "than %llu s",
                           (unsigned long long)seconds);
        sl_event_wait(&mark->done, seen, LOOK_MS);
    }
}

static int open_file(const struct sl_shared_array_spec *spec, int fd, struct sl_shared_array *out)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), body = sl_align_up(spec->bytes, page);
    struct stat st;
    out->map_bytes = body + page;
    // All make it as large as the others do, whoever is first.
    if (fstat(fd, &st) < 0 || (st.st_size == 0 && ftruncate(fd, (off_t)out->map_bytes) < 0))
        return sl_fail_errno(SL_ENOMEM, errno, "an array for all workers: making its file");
    if (st.st_size != 0 && (uint64_t)st.st_size != out->map_bytes)
        return sl_fail(SL_EPROTO,
                       "an array for all workers: %lld bytes, wanted %llu: the workers are not of "
                       "the same build, or the data set was changed",
                       (long long)st.st_size, (unsigned long long)out->map_bytes);
    out->data = map(fd, out->map_bytes);
    if (!out->data)
        return sl_fail(SL_ENOMEM, "no memory for %llu bytes", (unsigned long long)spec->bytes);
    struct mark *mark = (void *)((char *)out->data + body);
    const int own = open_lock(fd);
    SL_TRY(own);
    int rc = await_turn(spec, own, mark);
    if (rc == SL_OK) {
        rc = fill(spec, out, mark);
        out->huge = mark->huge != 0;
        lock(own, F_UNLCK);
        sl_event_signal(&mark->done);
    }
    close(own);
    if (rc == SL_OK)
        mprotect(out->data, out->map_bytes, PROT_READ);
    return rc;
}

int sl_shared_array_file(void)
{
    int fd = memfd_create("sluice-shared", MFD_CLOEXEC);
    return fd < 0 ? sl_fail_errno(SL_ESYS, errno, "an array for all workers: memfd_create") : fd;
}

int sl_shared_array_open(const struct sl_shared_array_spec *spec, struct sl_shared_array *out)
{
    *out = (struct sl_shared_array){0};
    int own = spec->fd < 0 ? sl_shared_array_file() : -1;
    int file = spec->fd < 0 ? own : spec->fd;
    SL_TRY(file);
    int rc = open_file(spec, file, out);
    if (rc < 0)
        sl_shared_array_close(out);
    if (own >= 0)
        close(own);
    return rc;
}

int sl_shared_array_let_pin(struct sl_shared_array *a)
{
    if (a->data && mprotect(a->data, a->map_bytes, PROT_READ | PROT_WRITE) < 0)
        return sl_fail_errno(SL_ENOMEM, errno, "an array for all workers: making it writable");
    return SL_OK;
}

void sl_shared_array_close(struct sl_shared_array *a)
{
    if (a->data)
        munmap(a->data, a->map_bytes);
    *a = (struct sl_shared_array){0};
}
