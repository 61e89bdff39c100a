/*
 * Rows by way of rings and file systems that this machine does not have: io_uring of old kernels,
 * one that fails in the middle of a read, completions of reads that nobody has asked for; files
 * that refuse direct reads once one is tried, and that give less than was asked for.
 *
 * The ring is the functions of liburing that stand below, in place of the library's: its queues are
 * arrays, and its kernel is pread().
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/storage/row_reader.h"
#include "tests/unit/suite.h"

enum { N_ROWS = 300, ROW_BYTES = 4096, FILE_BYTES = N_ROWS * ROW_BYTES, DEPTH = 8 };
enum { ENTRIES = 256, ANSWERS = 1024, NONE = 1 }; // NONE: no answer of a kernel's

// What a ring or a file does wrong.
struct fault {
    bool old;        // it does not wait with a bound
    int refuses;     // to be made, with this error
    bool strays;     // answers of nobody's come between those of reads
    int first;       // of each read the first answer, where it is not NONE
    int always;      // of all reads from the fourth on
    int stops_with;  // the second submission fails so; 0: none does
    unsigned takes;  // ... having taken so many reads
    bool not_direct; // direct reads are invalid
    int most;        // bytes that a read gives; 0: all
    bool cached;
    // What is expected.
    enum sl_row_way way;
    int rc;
};

static struct {
    struct fault fault;
    struct io_uring_sqe asked[ENTRIES];
    struct io_uring_cqe answer[ANSWERS];
    struct io_uring_sqe held[ENTRIES]; // taken by a ring that failed
    unsigned asked_head, asked_tail, answer_head, answer_tail, flags, order[ENTRIES];
    unsigned n_held, submissions, reads;
    int files[SL_ROW_PARTS_MAX];
    char *buffers[SL_ROW_DEPTH_MAX];
    bool again[N_ROWS + 1]; // by block: it was asked for before
    atomic_uint refused;    // direct reads
} ring;

static char path[64];
static char bytes[FILE_BYTES];

// --- the file system -----------------------------------------------------------------------------

static int gate[2];               // a read waits until this pipe is closed, where there is one
static atomic_uint waited, ended; // threads that did, and of them those that have ended
static pthread_key_t end;

static void count_end(void *one)
{
    (void)one;
    atomic_fetch_add(&ended, 1);
}

static void wait_at_gate(void)
{
    char byte;
    pthread_setspecific(end, gate);
    atomic_fetch_add(&waited, 1);
    ck_assert_int_eq(read(gate[0], &byte, 1), 0);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    if (gate[0])
        wait_at_gate();
    if (ring.fault.not_direct && (fcntl(fd, F_GETFL) & O_DIRECT)) {
        atomic_fetch_add(&ring.refused, 1);
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, n, at);
}

// --- the ring ------------------------------------------------------------------------------------

int io_uring_queue_init(unsigned entries, struct io_uring *out, unsigned flags)
{
    ck_assert_uint_le(entries, ENTRIES);
    ck_assert_uint_eq(flags, 0);
    if (ring.fault.refuses)
        return -ring.fault.refuses;
    for (unsigned i = 0; i < ENTRIES; i++)
        ring.order[i] = i;
    *out = (struct io_uring){
        .sq = {.khead = &ring.asked_head,
               .ktail = &ring.asked_tail,
               .kflags = &ring.flags,
               .array = ring.order,
               .sqes = ring.asked,
               .ring_mask = ENTRIES - 1,
               .ring_entries = ENTRIES},
        .cq = {.khead = &ring.answer_head,
               .ktail = &ring.answer_tail,
               .kflags = &ring.flags,
               .cqes = ring.answer,
               .ring_mask = ANSWERS - 1,
               .ring_entries = ANSWERS},
        .ring_fd = -1,
        .features = ring.fault.old ? 0 : IORING_FEAT_EXT_ARG,
    };
    return 0;
}

void io_uring_queue_exit(struct io_uring *r)
{
    (void)r;
}

int io_uring_ring_dontfork(struct io_uring *r)
{
    (void)r;
    return 0;
}

int io_uring_register_buffers(struct io_uring *r, const struct iovec *all, unsigned n)
{
    (void)r;
    ck_assert_uint_eq(n, SL_ROW_DEPTH_MAX);
    for (unsigned i = 0; i < n; i++) // what the kernel takes of one
        ck_assert_uint_le(all[i].iov_len, (size_t)1 << 30);
    return -ENOMEM;
}

int io_uring_register_files(struct io_uring *r, const int *files, unsigned n)
{
    (void)r;
    memcpy(ring.files, files, n * sizeof *files);
    return 0;
}

static void answer(uint64_t of, int result)
{
    ring.answer[ring.answer_tail++ % ANSWERS] =
        (struct io_uring_cqe){.user_data = of, .res = result};
}

static int read_as_asked(const struct io_uring_sqe *e)
{
    const size_t most = ring.fault.most ? (size_t)ring.fault.most : e->len;
    ck_assert(e->flags & IOSQE_FIXED_FILE);
    const ssize_t n = pread(ring.files[e->fd], (void *)(uintptr_t)e->addr,
                            SL_MIN(most, (size_t)e->len), (off_t)e->off);
    return n < 0 ? -errno : (int)n;
}

static void take(const struct io_uring_sqe *e)
{
    bool *again = &ring.again[e->off / ROW_BYTES];
    if (ring.fault.strays) {
        answer(LIBURING_UDATA_TIMEOUT, -ETIME);
        answer(ENTRIES, ROW_BYTES);
        answer(e->user_data ^ UINT64_C(1) << 40, ROW_BYTES); // of another read of the slot
        answer(0, ROW_BYTES);
    }
    if (ring.fault.first != NONE && !*again)
        answer(e->user_data, ring.fault.first);
    else if (ring.fault.always != NONE && ++ring.reads > 3)
        answer(e->user_data, ring.fault.always);
    else
        answer(e->user_data, read_as_asked(e));
    if (ring.fault.strays)
        answer(e->user_data, ROW_BYTES); // once more
    *again = true;
}

int io_uring_submit_and_wait_timeout(struct io_uring *r, struct io_uring_cqe **out, unsigned n,
                                     struct __kernel_timespec *most, sigset_t *mask)
{
    (void)out, (void)mask;
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_nonnull(most);
    const bool stops = ring.fault.stops_with && ++ring.submissions >= 2;
    ck_assert_uint_le(ring.submissions, 2);
    for (; ring.asked_head != r->sq.sqe_tail; ring.asked_head++) {
        const struct io_uring_sqe *e = &ring.asked[ring.asked_head % ENTRIES];
        if (stops && ring.n_held == ring.fault.takes)
            break;
        if (stops)
            ring.held[ring.n_held++] = *e;
        else
            take(e);
    }
    return stops ? -ring.fault.stops_with : ring.answer_head == ring.answer_tail ? -ETIME : 1;
}

// A ring that has failed answers what it took when the reader looks whether it is to stop: one read
// a look.
static bool (*stops)(void *ctx);

static bool stopping(void *ctx)
{
    if (stops)
        return stops(ctx);
    if (ring.n_held > 0)
        take(&ring.held[--ring.n_held]);
    return false;
}

// --- rows ----------------------------------------------------------------------------------------

static struct sl_row_reader *open_reader(const struct fault *fault, enum sl_row_way way)
{
    struct sl_row_file file = {
        .n = 1, .part[0] = {path, -1, FILE_BYTES}, .n_rows = N_ROWS, .row_bytes = ROW_BYTES};
    const struct sl_row_options options = {
        .way = way, .depth = DEPTH, .cached = fault->cached, .stopping = stopping};
    struct sl_row_reader *r;
    memset(&ring, 0, sizeof ring);
    ring.fault = *fault;
    snprintf(path, sizeof path, "/tmp/sluice-uring-XXXXXX");
    file.part[0].fd = mkstemp(path);
    ck_assert_int_ge(file.part[0].fd, 0);
    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = (char)(i * 2654435761u >> 24);
    ck_assert_int_eq(write(file.part[0].fd, bytes, FILE_BYTES), FILE_BYTES);
    ck_assert_int_eq(fsync(file.part[0].fd), 0);
    unlink(path);
    ck_assert_msg(sl_row_reader_open_file(&file, &options, &r) == SL_OK, "%s", sl_error_message());
    return r;
}

// Every second row, so that each is a read of its own; all come, and each is read once.
static void expect_rows(struct sl_row_reader *r, bool whole)
{
    enum { N = N_ROWS / 2 };
    static char out[N * ROW_BYTES];
    uint32_t rows[N];
    const uint64_t before = sl_row_reader_bytes(r);
    for (uint32_t i = 0; i < N; i++)
        rows[i] = 2 * i;
    memset(out, 0, sizeof out);
    memset(ring.again, 0, sizeof ring.again);
    ck_assert_msg(sl_row_reader_read(r, rows, NULL, N, out) == SL_OK, "%s", sl_error_message());
    for (uint32_t i = 0; i < N; i++)
        ck_assert_msg(memcmp(out + i * ROW_BYTES, bytes + rows[i] * ROW_BYTES, ROW_BYTES) == 0,
                      "row %u is another one", rows[i]);
    if (whole)
        ck_assert_uint_eq(sl_row_reader_bytes(r) - before, N * ROW_BYTES);
}

#define URING   .way = SL_ROWS_BY_URING
#define THREADS .way = SL_ROWS_BY_THREADS
#define GOOD    .first = NONE, .always = NONE

static const struct fault faults[] = {
    {GOOD, URING},
    {GOOD, .old = true, THREADS},
    {GOOD, .old = true, .strays = true, THREADS},
    {GOOD, .refuses = ENOSYS, THREADS},
    {GOOD, .refuses = EPERM, THREADS},
    {GOOD, .refuses = ENOMEM, THREADS},
    {GOOD, .strays = true, URING},
    {.first = -EINTR, .always = NONE, URING},
    {.first = -EAGAIN, .always = NONE, URING, .strays = true},
    {.first = -EIO, .always = NONE, URING},
    {.first = 0, .always = NONE, URING},
    {GOOD, .cached = true, .most = 4095, URING},
    {GOOD, .cached = true, .most = 1500, URING},
    {GOOD, .not_direct = true, URING},
    {GOOD, .not_direct = true, .refuses = EPERM, THREADS},
    {.first = NONE, .always = -EINVAL, THREADS},
    {.first = NONE, .always = -EINVAL, .cached = true, THREADS},
    {.first = NONE, .always = -EOPNOTSUPP, .cached = true, THREADS},
    {.first = NONE, .always = -ENOSYS, THREADS},
    {.first = NONE, .always = -EPERM, .not_direct = true, THREADS},
    {GOOD, .stops_with = ENOSYS, THREADS},
    {GOOD, .stops_with = EPERM, .takes = 3, THREADS},
    {GOOD, .stops_with = ENOMEM, .takes = DEPTH, THREADS},
    {GOOD, .stops_with = EINVAL, .takes = 5, .not_direct = true, THREADS},
    {.first = NONE, .always = -EIO, URING, .rc = SL_EIO},
    {.first = NONE, .always = 0, URING, .rc = SL_EIO},
};

LOOP_TEST(all_rows_come_whatever_the_ring_does, 0, SL_COUNT_OF(faults))
{
    const struct fault *fault = &faults[_i];
    struct sl_row_reader *r = open_reader(fault, SL_ROWS_BY_URING);
    const bool direct = sl_row_reader_profile(r).direct; // as the file system has it
    if (fault->rc) {
        static char out[N_ROWS * ROW_BYTES];
        uint32_t rows[N_ROWS];
        for (uint32_t i = 0; i < N_ROWS; i++)
            rows[i] = i * 7 % N_ROWS;
        ck_assert_int_eq(sl_row_reader_read(r, rows, NULL, N_ROWS, out), fault->rc);
    }
    for (int round = 0; !fault->rc && round < 3; round++)
        expect_rows(r, fault->most == 0);
    const struct sl_row_profile found = sl_row_reader_profile(r);
    ck_assert_int_eq(found.way, fault->way);
    if (fault->not_direct)
        ck_assert(!found.direct && direct == (ring.refused > 0));
    else if (fault->always != -EINVAL) // which may be said of direct reads
        ck_assert(found.direct == direct);
    if (fault->old)
        ck_assert_uint_eq(ring.answer_tail, 0);
    sl_row_reader_close(r);
}

// The answer to the first read of all tells of the file system, and no more of the ring.
TEST(threads_fall_back_to_the_page_cache)
{
    const struct fault fault = {GOOD, .not_direct = true};
    struct sl_row_reader *r = open_reader(&fault, SL_ROWS_BY_THREADS);
    const bool direct = sl_row_reader_profile(r).direct;
    expect_rows(r, true);
    ck_assert(!sl_row_reader_profile(r).direct && direct == (ring.refused > 0));
    const unsigned refused = ring.refused;
    expect_rows(r, true);
    ck_assert_uint_eq(ring.refused, refused);
    sl_row_reader_close(r);
}

static bool time_passes(void *ctx)
{
    (void)ctx;
    if (atomic_load(&waited) > 0)
        sl_clock_advance(SL_ROW_PATIENCE_S * UINT64_C(1000000000));
    return false;
}

// Whoever asked has its memory back, and may have given it to others.
TEST(what_a_silent_drive_gives_later_goes_nowhere)
{
    const struct fault fault = {GOOD, .cached = true};
    const uint32_t rows[] = {0, 2, 4, 6};
    static char out[4 * ROW_BYTES], nothing[4 * ROW_BYTES];
    static struct sl_row_reader *r; // nothing of it is freed
    r = open_reader(&fault, SL_ROWS_BY_THREADS);
    ck_assert_int_eq(pthread_key_create(&end, count_end), 0);
    ck_assert_int_eq(pipe(gate), 0);
    stops = time_passes;
    ck_assert_int_eq(sl_row_reader_read(r, rows, NULL, 4, out), SL_ETIMEDOUT);
    sl_row_reader_close(r);
    close(gate[1]);
    while (atomic_load(&ended) < atomic_load(&waited))
        sched_yield();
    ck_assert_mem_eq(out, nothing, sizeof out);
}

// What `sluice doctor` says of it.
TEST(whether_there_is_a_ring_is_known_beforehand)
{
    memset(&ring, 0, sizeof ring);
    ck_assert_int_eq(sl_row_reader_try_uring(), SL_OK);
    ring.fault.old = true;
    ck_assert_int_eq(sl_row_reader_try_uring(), SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "Linux 5.11"));
    ring.fault.refuses = EPERM;
    ck_assert_int_eq(sl_row_reader_try_uring(), SL_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "not permitted"));
}

RUN_TESTS(.quiet = true, .timeout_s = 60)
