/*
 * drive.c - what a drive serves of random blocks of a file, each way that rows can be read.
 *
 *   drive FILE [--way uring|pread|faults] [--depth 64] [--seconds 3] [--seed 7]
 *
 * Blocks of 4 KiB at random. uring: past the page cache, `depth` under way at all times, nothing
 * done with them: the ceiling of whatever reads rows. pread: one after the other, past the page
 * cache. faults: a byte of each is read through a mapping, as who maps the file does.
 *
 * Prints one JSON object.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/arguments.h"

enum { BLOCK = 4096, DEPTH_MAX = 1024 };

struct drive {
    const char *path;
    int way; // enum way
    uint64_t n_blocks, seed;
    uint32_t depth;
    double seconds;
    int fd;
    char *buffers; // (DEPTH_MAX, BLOCK)
};

_Noreturn static void die(const char *what, int error)
{
    fprintf(stderr, "drive: %s: %s\n", what, strerror(error));
    exit(1);
}

static uint64_t next_block(struct drive *d)
{
    d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
    return (d->seed >> 20) % d->n_blocks;
}

static bool goes_on(const struct drive *d, uint64_t start)
{
    return (double)(sl_now_ns() - start) < d->seconds * 1e9;
}

static void ask(struct drive *d, struct io_uring *ring, uint32_t slot)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    io_uring_prep_read_fixed(sqe, 0, d->buffers + (size_t)slot * BLOCK, BLOCK,
                             next_block(d) * BLOCK, 0);
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, slot);
}

static uint64_t by_uring(struct drive *d, uint64_t start)
{
    struct io_uring ring;
    struct io_uring_cqe *cqe;
    const struct iovec all = {d->buffers, (size_t)DEPTH_MAX * BLOCK};
    uint64_t n = 0;
    int rc = io_uring_queue_init(DEPTH_MAX, &ring, 0);
    if (rc == 0)
        rc = io_uring_register_buffers(&ring, &all, 1);
    if (rc == 0)
        rc = io_uring_register_files(&ring, &d->fd, 1);
    if (rc < 0)
        die("io_uring", -rc);
    for (uint32_t i = 0; i < d->depth; i++)
        ask(d, &ring, i);
    while (goes_on(d, start)) {
        unsigned head, taken = 0;
        rc = io_uring_submit_and_wait(&ring, 1);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN)
            die("io_uring", -rc);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            if (cqe->res != BLOCK)
                die("read", cqe->res < 0 ? -cqe->res : EIO);
            ask(d, &ring, (uint32_t)io_uring_cqe_get_data64(cqe));
            taken++;
        }
        io_uring_cq_advance(&ring, taken);
        n += taken;
    }
    io_uring_queue_exit(&ring);
    return n;
}

static uint64_t by_pread(struct drive *d, uint64_t start)
{
    uint64_t n = 0;
    for (; goes_on(d, start); n++)
        if (pread(d->fd, d->buffers, BLOCK, (off_t)(next_block(d) * BLOCK)) != BLOCK)
            die("pread", errno);
    return n;
}

static uint64_t by_faults(struct drive *d, uint64_t start)
{
    uint64_t n = 0, sum = 0;
    const char *p = mmap(NULL, d->n_blocks * BLOCK, PROT_READ, MAP_SHARED, d->fd, 0);
    if (p == MAP_FAILED)
        die("mmap", errno);
    madvise((void *)(uintptr_t)p, d->n_blocks * BLOCK, MADV_RANDOM);
    for (; goes_on(d, start); n++)
        sum += (unsigned char)((const volatile char *)p)[next_block(d) * BLOCK];
    munmap((void *)(uintptr_t)p, d->n_blocks * BLOCK);
    return sum == UINT64_MAX ? 0 : n;
}

enum way { URING, PREAD, FAULTS };

static const char *const ways[] = {"uring", "pread", "faults", NULL};

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_CHOICE("way", drive, way, ways),
    ARGUMENT_NUMBER("depth", drive, depth, 1, DEPTH_MAX),
    {.name = "seconds", SL_OPTION_AT(REAL, drive, seconds), .placeholder = "S", .max = 3600,
     .help = ""},
    ARGUMENT_NUMBER("seed", drive, seed, 0, 9e15),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "drive",
    .is_program = true,
    .about = "Blocks a second that a drive serves in random order.",
    .operands = {{"FILE", offsetof(struct drive, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct drive d = {.depth = 64, .seconds = 3, .seed = 7};
    struct stat st;
    arguments_parse(&command, &d, argc, argv);
    const bool faults = d.way == FAULTS, reads = d.way == PREAD;
    d.fd = open(d.path, O_RDONLY | (faults ? 0 : O_DIRECT));
    if (d.fd < 0 || fstat(d.fd, &st) < 0)
        die(d.path, errno);
    d.n_blocks = (uint64_t)st.st_size / BLOCK;
    d.buffers = aligned_alloc(BLOCK, (size_t)DEPTH_MAX * BLOCK);
    if (!d.buffers || d.n_blocks == 0)
        die(d.path, ENOMEM);
    uint64_t start = sl_now_ns();
    uint64_t n = faults ? by_faults(&d, start) : reads ? by_pread(&d, start) : by_uring(&d, start);
    double seconds = (double)(sl_now_ns() - start) * 1e-9;
    printf("{\"way\": \"%s\", \"depth\": %u, \"reads_per_second\": %.1f}\n", ways[d.way],
           faults || reads ? 1 : d.depth, (double)n / seconds);
    return 0;
}
