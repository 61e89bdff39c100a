#include <errno.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/storage/reads.h"
#include "common/storage/row_reader.h"

struct slot {
    uint32_t run;
    uint32_t asked; // number of the read that is not answered; 0: none
    struct sl_row_progress progress;
};

struct state {
    struct io_uring ring;
    bool buffers, file; // are registered
    bool failed;        // takes nothing any more
    bool has_warned;
    uint32_t n_asked; // the last number that was given
    uint32_t n_free;
    uint32_t free[SL_ROW_DEPTH_MAX]; // slots, the last one first
    struct slot slot[SL_ROW_DEPTH_MAX];
};

// The kernel takes no buffer above 1 GiB: each slot is one, as long as a run. (A single row that is
// longer than that is read without.)
_Static_assert(SL_ROW_RUN_BYTES <= 1 << 30, "a slot can be registered");

// Registering is for speed alone: what the kernel refuses of it (a limit on locked memory) is left.
static void register_all(struct sl_row_reader *r, struct state *s)
{
    struct iovec all[SL_ROW_DEPTH_MAX];
    for (uint32_t i = 0; i < SL_ROW_DEPTH_MAX; i++)
        all[i] = (struct iovec){.iov_base = sl_row_slot(r, i), .iov_len = r->slot_bytes};
    s->buffers = io_uring_register_buffers(&s->ring, all, SL_ROW_DEPTH_MAX) == 0;
    int *fds = calloc(r->n_parts, sizeof *fds);
    for (uint32_t i = 0; fds && i < r->n_parts; i++)
        fds[i] = r->part[i].fd;
    s->file = fds && io_uring_register_files(&s->ring, fds, r->n_parts) == 0;
    free(fds);
    if (!s->buffers || !s->file)
        sl_log_debug("%s: io_uring: of buffers and file, %s could be registered", r->path[0],
                     s->buffers || s->file ? "one" : "none");
}

/*
 * Before Linux 5.11 a wait has no bound of its own: liburing asks for a time-out as it asks for a
 * read, which takes a place in the queue and comes back among the reads. Threads do without.
 */
static int init_ring(struct io_uring *ring, uint32_t entries)
{
    const int rc = io_uring_queue_init(entries, ring, 0);
    if (rc < 0)
        return sl_fail_errno(SL_EUNSUPPORTED, -rc, "io_uring is not available");
    io_uring_ring_dontfork(ring); // a child that asked through it would take the parent's answers
    if (ring->features & IORING_FEAT_EXT_ARG)
        return SL_OK;
    io_uring_queue_exit(ring);
    return sl_fail(SL_EUNSUPPORTED, "this kernel's io_uring cannot wait with a time limit "
                                    "(IORING_FEAT_EXT_ARG): wanted Linux 5.11 or newer");
}

int sl_row_reader_try_uring(void)
{
    struct io_uring ring;
    SL_TRY(init_ring(&ring, 1));
    io_uring_queue_exit(&ring);
    return SL_OK;
}

static int open_ring(struct sl_row_reader *r)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return sl_fail(SL_ENOMEM, "%s: no memory to read it", r->path[0]);
    const int rc = init_ring(&s->ring, SL_ROW_DEPTH_MAX);
    if (rc < 0) {
        free(s);
        return rc;
    }
    register_all(r, s);
    r->state = s;
    return SL_OK;
}

static void close_ring(struct sl_row_reader *r)
{
    struct state *s = r->state;
    if (r->broken)
        return; // it would wait
    io_uring_queue_exit(&s->ring);
    free(s);
}

// Asks for what the slot's run lacks. There is a place for it: there are no more slots.
static void ask(struct sl_row_reader *r, struct state *s, uint32_t slot)
{
    struct slot *mine = &s->slot[slot];
    const struct sl_row_run *run = &r->runs[mine->run];
    const uint32_t got = mine->progress.got;
    char *to = sl_row_slot(r, slot) + got;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
    const int fd = s->file ? (int)run->part : r->part[run->part].fd;
    if (++s->n_asked == 0)
        s->n_asked = 1;
    mine->asked = s->n_asked;
    mine->progress.direct = atomic_load(&r->direct);
    if (s->buffers)
        io_uring_prep_read_fixed(sqe, fd, to, run->bytes - got, run->at + got, (int)slot);
    else
        io_uring_prep_read(sqe, fd, to, run->bytes - got, run->at + got);
    if (s->file)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, (uint64_t)mine->asked << 32 | slot);
}

// What says something of io_uring, not of the drive: threads may read it nevertheless.
static bool is_refusal(const struct sl_row_progress *p, int result)
{
    switch (-result) {
    case EINVAL:
    case EOPNOTSUPP: return !p->direct; // else of reads past the page cache, perhaps
    case ENOSYS:
    case EPERM:
    case EACCES:
    case ENOMEM:
    case ECANCELED: return true;
    default: return false;
    }
}

// The slot's read has ended so. Its run is done, or asked for again; else the error. *done: the
// slot is free.
static int take(struct sl_row_reader *r, struct state *s, uint32_t slot, int result, bool *done)
{
    struct slot *mine = &s->slot[slot];
    struct sl_row_run *run = &r->runs[mine->run];
    int rc = SL_OK;
    *done = true;
    mine->asked = 0;
    if (is_refusal(&mine->progress, result))
        return sl_fail_errno(SL_EUNSUPPORTED, -result, "%s: io_uring cannot read it",
                             r->path[run->part]);
    const enum sl_row_step step = sl_row_take(r, run, &mine->progress, result, &rc);
    if (result > 0)
        atomic_fetch_add_explicit(&r->bytes, (uint64_t)result, memory_order_relaxed);
    if (step == SL_ROW_AGAIN && !s->failed)
        ask(r, s, slot);
    else if (step == SL_ROW_DONE)
        sl_row_deliver(r, run, sl_row_slot(r, slot));
    *done = mine->asked == 0;
    return rc;
}

// Whose read an entry tells of; false where it is nobody's.
static bool find_slot(const struct sl_row_reader *r, struct state *s, const struct io_uring_cqe *e,
                      uint32_t *slot)
{
    const uint64_t data = io_uring_cqe_get_data64(e), number = data >> 32;
    *slot = (uint32_t)data;
    if (*slot < SL_ROW_DEPTH_MAX && number != 0 && s->slot[*slot].asked == number)
        return true;
    if (!s->has_warned)
        sl_log_warn("%s: io_uring completed a read that was not requested (%#" PRIx64
                    ", result %d): ignored",
                    r->path[0], data, e->res);
    s->has_warned = true;
    return false;
}

// Takes what has come; returns how many runs ended, *rc is the first error.
static uint32_t take_all(struct sl_row_reader *r, struct state *s, int *rc)
{
    uint32_t ended = 0, taken = 0, slot;
    unsigned head;
    struct io_uring_cqe *cqe;
    io_uring_for_each_cqe(&s->ring, head, cqe)
    {
        bool done;
        taken++;
        if (!find_slot(r, s, cqe, &slot))
            continue;
        const int one = take(r, s, slot, cqe->res, &done);
        if (done) {
            s->free[s->n_free++] = slot;
            ended++;
        }
        if (*rc == SL_OK)
            *rc = one;
    }
    io_uring_cq_advance(&s->ring, taken);
    return ended;
}

/*
 * Submits what was asked for and waits until something has come, for a while. A ring that fails
 * takes nothing any more: what the kernel has not taken is no longer under way, and what it has
 * comes without being asked for.
 */
static int wait_for_some(const struct sl_row_reader *r, struct state *s, uint32_t *left)
{
    struct io_uring_cqe *cqe;
    struct __kernel_timespec most = {.tv_nsec = SL_ROW_LOOK_MS * 1000000ll};
    if (s->failed) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        return SL_OK;
    }
    const int n = io_uring_submit_and_wait_timeout(&s->ring, &cqe, 1, &most, NULL);
    if (n >= 0 || n == -ETIME || n == -EINTR || n == -EAGAIN || n == -EBUSY)
        return SL_OK;
    s->failed = true;
    *left -= io_uring_sq_ready(&s->ring);
    return sl_fail_errno(SL_EUNSUPPORTED, -n, "%s: io_uring accepts no reads", r->path[0]);
}

static int read_runs(struct sl_row_reader *r)
{
    struct state *s = r->state;
    uint32_t next = 0, left = 0; // left: under way
    int rc = s->failed ? sl_fail(SL_EUNSUPPORTED, "io_uring has failed before") : SL_OK;
    uint64_t last_ns = sl_now_ns();
    s->n_free = r->facts.depth;
    for (uint32_t i = 0; i < s->n_free; i++)
        s->free[i] = s->n_free - 1 - i;
    while (left > 0 || (rc == SL_OK && next < r->n_runs)) {
        while (rc == SL_OK && s->n_free > 0 && next < r->n_runs) {
            uint32_t slot = s->free[--s->n_free];
            s->slot[slot] = (struct slot){.run = next++};
            ask(r, s, slot);
            left++;
        }
        const int waited = wait_for_some(r, s, &left);
        if (rc == SL_OK)
            rc = waited;
        uint32_t ended = take_all(r, s, &rc);
        left -= ended;
        if (ended)
            last_ns = sl_now_ns();
        else if (left > 0)
            SL_TRY(sl_row_check_patience(r, last_ns));
        if (sl_row_stopping(r)) { // whatever is under way has its buffers until the end
            r->broken = left > 0;
            return sl_fail(SL_EABORTED, "reading features: stopped on request");
        }
    }
    return rc;
}

const struct sl_row_reads sl_row_reads_uring = {"io_uring", open_ring, read_runs, close_ring};
