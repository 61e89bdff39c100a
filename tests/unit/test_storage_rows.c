// Rows read from a file are those that lie in it, whatever their size and place, both ways; and
// what a drive or a file does wrong is told with file and offset.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/dataset_files.h"
#include "common/storage/row_reader.h"
#include "tests/unit/suite.h"

enum { N_ROWS = 200, DEPTH = 16 };

static char path[64];
static char *bytes; // of the file

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static int make_file(size_t n)
{
    snprintf(path, sizeof path, "/tmp/sluice-rows-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)random_below(256);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    ck_assert_int_eq(fsync(fd), 0);
    return fd;
}

static void remove_file(void)
{
    unlink(path);
    free(bytes);
}

static void expect_rows(struct sl_row_reader *r, const struct sl_row_file *file,
                        const uint32_t *rows, uint32_t n)
{
    char *out = malloc(n * file->row_bytes + 1);
    ck_assert_msg(sl_row_reader_read(r, rows, NULL, n, out) == SL_OK, "%s", sl_error_message());
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(memcmp(out + i * file->row_bytes,
                             bytes + file->offset + rows[i] * file->row_bytes,
                             file->row_bytes) == 0,
                      "row %u of %llu bytes, at %u of %u, is another one", rows[i],
                      (unsigned long long)file->row_bytes, i, n);
    // The same to other places: backwards, behind a gap of one row.
    char *places = calloc(n + 1, file->row_bytes), *gap = calloc(1, file->row_bytes);
    uint32_t *to = malloc((n + 1) * sizeof *to);
    for (uint32_t i = 0; i < n; i++)
        to[i] = n - i;
    ck_assert_msg(sl_row_reader_read(r, rows, to, n, places) == SL_OK, "%s", sl_error_message());
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(
            memcmp(places + (n - i) * file->row_bytes, out + i * file->row_bytes, file->row_bytes),
            0);
    ck_assert_int_eq(memcmp(places, gap, file->row_bytes), 0);
    free(to);
    free(gap);
    free(places);
    free(out);
}

static const struct {
    uint64_t row_bytes, offset;
} shapes[] = {{1, 64},    {4, 128},  {100, 80},   {512, 128},   {1000, 64},  {4095, 128},
              {4096, 64}, {4096, 0}, {4097, 128}, {12000, 192}, {65536, 64}, {70000, 128}};

static const struct sl_row_options ways[] = {
    {.way = SL_ROWS_BY_URING, .depth = DEPTH},
    {.way = SL_ROWS_BY_URING, .depth = 1, .cached = true},
    {.way = SL_ROWS_BY_THREADS, .depth = DEPTH},
    {.way = SL_ROWS_BY_THREADS, .depth = 1, .cached = true},
};

CASE(.name = "rows", .timeout_s = 120)

LOOP_TEST(rows_are_those_of_the_file, 0, SL_COUNT_OF(ways) * (int)SL_COUNT_OF(shapes))
{
    const struct sl_row_options *options = &ways[(size_t)_i % SL_COUNT_OF(ways)];
    struct sl_row_file file = {.n = 1,
                               .part[0].path = path,
                               .n_rows = N_ROWS,
                               .row_bytes = shapes[(size_t)_i / SL_COUNT_OF(ways)].row_bytes,
                               .offset = shapes[(size_t)_i / SL_COUNT_OF(ways)].offset};
    file.part[0].bytes = file.offset + N_ROWS * file.row_bytes;
    file.part[0].fd = make_file(file.part[0].bytes);
    struct sl_row_reader *r;
    ck_assert_msg(sl_row_reader_open_file(&file, options, &r) == SL_OK, "%s", sl_error_message());
    uint32_t rows[2 * N_ROWS];
    expect_rows(r, &file, rows, 0);
    for (uint32_t i = 0; i < N_ROWS; i++)
        rows[i] = i;
    expect_rows(r, &file, rows, N_ROWS);
    expect_rows(r, &file, rows + N_ROWS - 1, 1); // to the file's end
    for (uint32_t i = 0; i < N_ROWS; i++)
        rows[i] = N_ROWS - 1 - i;
    expect_rows(r, &file, rows, N_ROWS);
    for (int k = 0; k < 5; k++) { // some of them more than once
        uint32_t n = 1 + random_below(2 * N_ROWS);
        for (uint32_t i = 0; i < n; i++)
            rows[i] = random_below(N_ROWS);
        expect_rows(r, &file, rows, n);
    }
    // Blocks are read whole, and rows of the same block once.
    uint64_t before = sl_row_reader_bytes(r);
    for (uint32_t i = 0; i < N_ROWS; i++)
        rows[i] = i / 2;
    char *twice = malloc(N_ROWS * file.row_bytes);
    ck_assert_int_eq(sl_row_reader_read(r, rows, NULL, N_ROWS, twice), SL_OK);
    free(twice);
    uint64_t most = sl_align_up(N_ROWS / 2 * file.row_bytes, 4096) + 4096;
    most += most / 32768 * 4096 + (file.row_bytes > 4096 ? N_ROWS / 2 * 4096 : 0);
    ck_assert_uint_le(sl_row_reader_bytes(r) - before, most);
    sl_row_reader_close(r);
    remove_file();
}

LOOP_TEST(the_depth_is_measured, 0, 2)
{
    struct sl_row_file file = {.n = 1,
                               .part[0].path = path,
                               .n_rows = 20000,
                               .row_bytes = 1024,
                               .offset = 64,
                               .part[0].bytes = 20480064};
    file.part[0].fd = make_file(file.part[0].bytes);
    const struct sl_row_options options = {.way = (enum sl_row_way)_i};
    struct sl_row_reader *r;
    ck_assert_int_eq(sl_row_reader_open_file(&file, &options, &r), SL_OK);
    const struct sl_row_profile f = sl_row_reader_profile(r);
    ck_assert(f.latency_s > 0 && f.reads_per_s > 0);
    ck_assert(f.depth >= 8 && f.depth <= 256);
    ck_assert(f.depth >= SL_MIN(f.latency_s * f.reads_per_s, 256.0) - 1);
    uint32_t rows[N_ROWS];
    for (uint32_t i = 0; i < N_ROWS; i++)
        rows[i] = random_below(20000);
    expect_rows(r, &file, rows, N_ROWS);
    sl_row_reader_close(r);
    remove_file();
}

// In a child: its parent's ring, buffers and threads are none of its own, and it leaves them alone.
static void expect_refused_in_a_child(struct sl_row_reader *r)
{
    static char row[4096];
    const uint32_t which = 1;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const int rc = sl_row_reader_read(r, &which, NULL, 1, row);
        const bool told = rc == SL_EINVAL && strstr(sl_error_message(), "another process");
        sl_row_reader_close(r);
        _exit(told ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(status == 0, "the child ended with %#x", (unsigned)status);
}

LOOP_TEST(a_reader_is_of_the_process_that_opened_it, 0, SL_COUNT_OF(ways))
{
    struct sl_row_file file = {
        .n = 1, .part[0].path = path, .n_rows = N_ROWS, .row_bytes = 4096, .offset = 128};
    file.part[0].bytes = file.offset + N_ROWS * file.row_bytes;
    file.part[0].fd = make_file(file.part[0].bytes);
    struct sl_row_reader *r;
    ck_assert_msg(sl_row_reader_open_file(&file, &ways[_i], &r) == SL_OK, "%s", sl_error_message());
    uint32_t rows[N_ROWS];
    for (uint32_t i = 0; i < N_ROWS; i++)
        rows[i] = random_below(N_ROWS);
    expect_rows(r, &file, rows, N_ROWS);
    expect_refused_in_a_child(r);
    expect_rows(r, &file, rows, N_ROWS);
    sl_row_reader_close(r);
    remove_file();
}

static void expect_error(int rc, int wanted, const char *a, const char *b)
{
    ck_assert_int_eq(rc, wanted);
    ck_assert_msg(strstr(sl_error_message(), a) && strstr(sl_error_message(), b),
                  "no '%s' and '%s' in: %s", a, b, sl_error_message());
}

LOOP_TEST(what_is_no_row_is_refused, 0, SL_COUNT_OF(ways))
{
    struct sl_row_file file = {
        .n = 1, .part[0].path = path, .n_rows = 10, .row_bytes = 8, .part[0].bytes = 80};
    const uint32_t rows[] = {3, 10};
    char out[16];
    struct sl_row_reader *r;
    file.part[0].fd = make_file(80);
    ck_assert_int_eq(sl_row_reader_open_file(&file, &ways[_i], &r), SL_OK);
    expect_error(sl_row_reader_read(r, rows, NULL, 2, out), SL_ERANGE, "row 10 at 1", path);
    expect_rows(r, &file, rows, 1);
    sl_row_reader_close(r);
    remove_file();
}

// Within a block, and at a block's end.
LOOP_TEST(a_file_that_is_cut_is_told, 0, 3 * SL_COUNT_OF(ways))
{
    static const int lengths[] = {9000, 8192, 0};
    struct sl_row_file file = {.n = 1,
                               .part[0].path = path,
                               .n_rows = 100,
                               .row_bytes = 1000,
                               .offset = 64,
                               .part[0].bytes = 100064};
    uint32_t rows[100];
    char *out = malloc(100000), end[64];
    const int length = lengths[(size_t)_i / SL_COUNT_OF(ways)];
    struct sl_row_reader *r;
    file.part[0].fd = make_file(100064);
    ck_assert_int_eq(sl_row_reader_open_file(&file, &ways[(size_t)_i % SL_COUNT_OF(ways)], &r),
                     SL_OK);
    for (uint32_t i = 0; i < 100; i++)
        rows[i] = i;
    ck_assert_int_eq(truncate(path, length), 0);
    snprintf(end, sizeof end, "ends at byte %d, wanted 100064", length);
    expect_error(sl_row_reader_read(r, rows, NULL, 100, out), SL_EFORMAT, path, end);
    if (length > 0)
        expect_rows(r, &file, rows, 4); // what is there can be read
    sl_row_reader_close(r);
    free(out);
    remove_file();
}

// The memory of this process is a file. Pages of a mapping beyond its file's end cannot be read.
TEST(what_the_drive_cannot_read_is_told)
{
    int fd = make_file(4096);
    char *pages = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert(pages != MAP_FAILED);
    close(fd);
    struct sl_row_file file = {.n = 1,
                               .part[0].path = "/proc/self/mem",
                               .part[0].fd = open("/proc/self/mem", O_RDONLY),
                               .offset = (uint64_t)(uintptr_t)pages,
                               .n_rows = 2,
                               .row_bytes = 4096,
                               .part[0].bytes = UINT64_MAX};
    const uint32_t rows[] = {1, 0};
    char out[8192], at[64];
    const struct sl_row_options options = {
        .way = SL_ROWS_BY_THREADS, .depth = DEPTH, .cached = true};
    struct sl_row_reader *r;
    ck_assert_int_eq(sl_row_reader_open_file(&file, &options, &r), SL_OK);
    snprintf(at, sizeof at, "4096 bytes at %llu", (unsigned long long)(file.offset + 4096));
    expect_error(sl_row_reader_read(r, rows, NULL, 1, out), SL_EIO, at, "/proc/self/mem");
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "in 3 attempts"));
    ck_assert_int_eq(sl_row_reader_read(r, rows + 1, NULL, 1, out), SL_OK);
    ck_assert_int_eq(memcmp(out, bytes, 4096), 0);
    sl_row_reader_close(r);
    munmap(pages, 8192);
    remove_file();
}

// An empty pipe is a drive that never answers. Nothing is freed then: it may answer yet.
static struct sl_row_reader *silent;
static atomic_int asked;

static bool time_passes(void *ctx)
{
    (void)ctx;
    sl_clock_advance(11 * 1000000000ull);
    return atomic_fetch_add(&asked, 1) > 100;
}

static bool stops(void *ctx)
{
    (void)ctx;
    return true;
}

LOOP_TEST(a_drive_that_is_silent_is_given_up, 0, 2)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const struct sl_row_file file = {.n = 1,
                                     .part[0].path = "a pipe",
                                     .part[0].fd = ends[0],
                                     .n_rows = 4,
                                     .row_bytes = 4096,
                                     .part[0].bytes = 16384};
    const struct sl_row_options options = {
        .depth = DEPTH, .cached = true, .stopping = _i ? stops : time_passes};
    const uint32_t row = 1;
    char out[4096];
    ck_assert_int_eq(sl_row_reader_open_file(&file, &options, &silent), SL_OK);
    if (sl_row_reader_profile(silent).way == SL_ROWS_BY_URING) {
        int rc = sl_row_reader_read(silent, &row, NULL, 1, out);
        if (_i)
            expect_error(rc, SL_EABORTED, "features", "stopped");
        else
            expect_error(rc, SL_ETIMEDOUT, "a pipe", "not answered for 30 s");
        expect_error(sl_row_reader_read(silent, &row, NULL, 1, out), SL_ETIMEDOUT, "a pipe",
                     "answering");
    }
    sl_row_reader_close(silent);
    close(ends[1]);
}

// Of several files, whose rows differ in size and are numbered through; one is in no file, one
// empty.
LOOP_TEST(rows_of_several_files_are_numbered_through, 0, SL_COUNT_OF(ways))
{
    enum { FILES = 6, ROWS_MAX = 130 };
    static const uint64_t n_rows[FILES] = {100, 50, 0, 130, 1, 60};
    static const uint64_t row_bytes[FILES] = {4, 0, 8, 300, 70000, 4096};
    struct sl_row_file file[FILES] = {0};
    struct sl_row_reader *r;
    uint64_t at = 128, first = 0;
    for (uint32_t f = 0; f < FILES; f++) {
        file[f] = (struct sl_row_file){.n = row_bytes[f] > 0,
                                       .part[0].path = path,
                                       .n_rows = n_rows[f],
                                       .row_bytes = row_bytes[f],
                                       .offset = at};
        at += n_rows[f] * row_bytes[f] + 12;
    }
    const int fd = make_file(at);
    for (uint32_t f = 0; f < FILES; f++)
        if (file[f].n > 0)
            file[f].part[0] = (struct sl_row_part){path, dup(fd), at};
    ck_assert_msg(sl_row_reader_open_files(file, FILES, &ways[_i], &r) == SL_OK, "%s",
                  sl_error_message());
    for (uint32_t f = 0; f < FILES; first += n_rows[f++]) {
        uint32_t rows[ROWS_MAX], to[ROWS_MAX];
        char *out = calloc(ROWS_MAX, SL_MAX(row_bytes[f], (uint64_t)1));
        const uint32_t n = (uint32_t)n_rows[f];
        for (uint32_t i = 0; i < n; i++) {
            rows[i] = (uint32_t)first + (i ? random_below(n) : n - 1);
            to[i] = n - 1 - i;
        }
        const int rc = sl_row_reader_read(r, rows, to, n, out);
        if (file[f].n == 0)
            expect_error(rc, SL_ERANGE, "row 149", "in no file");
        else
            ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
        for (uint32_t i = 0; file[f].n > 0 && i < n; i++)
            ck_assert_int_eq(memcmp(out + to[i] * row_bytes[f],
                                    bytes + file[f].offset + (rows[i] - first) * row_bytes[f],
                                    row_bytes[f]),
                             0);
        free(out);
    }
    char out[8192];
    uint32_t rows[] = {99, 100}; // of two files
    expect_error(sl_row_reader_read(r, rows, NULL, 2, out), SL_ERANGE, "row 100 at 1", path);
    rows[0] = (uint32_t)first; // of none
    expect_error(sl_row_reader_read(r, rows, NULL, 1, out), SL_ERANGE, "below 341", path);
    sl_row_reader_close(r);
    close(fd);
    remove_file();
}

TEST(a_file_that_was_replaced_is_refused)
{
    char dir[] = "/tmp/sluice-rows-XXXXXX", file[128], other[128], command[128];
    const uint64_t shape[] = {10, 3};
    const float x[30] = {[29] = 4};
    struct sl_npy_writer *w;
    static struct sl_dataset ds;
    static struct sl_dataset_files files;
    struct sl_row_reader *r;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/node_feat.npy", dir);
    snprintf(other, sizeof other, "%s/other.npy", dir);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sl_npy_writer_open(i ? other : file, SL_DTYPE_F32, 2, shape, &w), SL_OK);
        ck_assert_int_eq(sl_npy_writer_append(w, x, sizeof x), SL_OK);
        ck_assert_int_eq(sl_npy_writer_commit(w), SL_OK);
    }
    ds = (struct sl_dataset){
        .n_nodes = 10, .feat_dim = 3, .feat_dtype = SL_DTYPE_F32, .files = &files};
    snprintf(ds.path, sizeof ds.path, "%s", dir);
    ck_assert_int_eq(sl_npy_open(file, &files.npy[SL_FILE_FEAT]), SL_OK);
    const uint32_t row = 9;
    float out[3];
    const struct sl_row_options options = {.way = SL_ROWS_BY_URING};
    ck_assert_int_eq(sl_row_reader_open(&ds, &options, &r), SL_OK);
    ck_assert_int_eq(sl_row_reader_read(r, &row, NULL, 1, out), SL_OK);
    ck_assert_float_eq(out[2], 4);
    sl_row_reader_close(r);
    ck_assert_int_eq(rename(other, file), 0);
    expect_error(sl_row_reader_open(&ds, &options, &r), SL_ECHANGED, file, "replaced");
    sl_npy_close(&files.npy[SL_FILE_FEAT]);
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

// A container's filter: this process may not have io_uring from here on.
static void refuse_uring(void)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = SL_COUNT_OF(lines), .filter = lines};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

CASE(.name = "forbidden")

TEST(where_io_uring_is_forbidden_threads_read)
{
    struct sl_row_file file = {
        .n = 1, .part[0].path = path, .n_rows = 50, .row_bytes = 300, .part[0].bytes = 15000};
    const uint32_t rows[] = {49, 3, 20, 21};
    struct sl_row_reader *r;
    refuse_uring();
    file.part[0].fd = make_file(15000);
    ck_assert_int_eq(sl_row_reader_open_file(&file, &ways[0], &r), SL_OK);
    ck_assert_str_eq(sl_row_way_name(sl_row_reader_profile(r).way), "threads");
    expect_rows(r, &file, rows, 4);
    sl_row_reader_close(r);
    remove_file();
}

RUN_TESTS()
