// What processes hold together, asked of the kernel about processes that hold what they are told.
#include "broker/meter/usage.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

#define MIB ((uint64_t)1 << 20)

// Where shared memory has huge pages by itself, what is held ends at one of them.
static const uint64_t huge = 2 * MIB;
// What a process takes beside what it is told to, such as page tables of libraries.
static const uint64_t varies = MIB;

static int memory_file(uint64_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

// A mapping as a process is told to make: `fd` -1 is a shared one of nobody else.
struct touch {
    int fd;
    uint64_t mapped, from, to; // bytes; those from `from` to `to` are touched
};

// A child that has mapped and touched all of it, and waits to be killed.
static pid_t hold(const struct touch *touches, size_t n)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < n; i++) {
            const struct touch *t = &touches[i];
            const int flags = MAP_SHARED | (t->fd < 0 ? MAP_ANONYMOUS : 0);
            char *p = mmap(NULL, t->mapped, PROT_READ | PROT_WRITE, flags, t->fd, 0);
            if (p == MAP_FAILED)
                _exit(1);
            memset(p + t->from, 1, t->to - t->from);
        }
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static uint64_t private_of(pid_t pid, const struct sl_usage_shared *shared)
{
    struct sl_usage usage;
    ck_assert(sl_usage_read(pid, shared, &usage));
    return usage.private_bytes;
}

static uint64_t shared_bytes(const int *fds, size_t n)
{
    struct sl_usage_shared shared = {0};
    for (size_t i = 0; i < n; i++)
        sl_usage_share(&shared, fds[i]);
    return shared.bytes;
}

static void assert_near(uint64_t found, uint64_t wanted, uint64_t more)
{
    ck_assert_msg(found + varies >= wanted && found <= wanted + more + varies,
                  "found %llu, wanted %llu to %llu more", (unsigned long long)found,
                  (unsigned long long)wanted, (unsigned long long)more);
}

TEST(each_shared_file_counts_once_by_what_it_holds)
{
    const int fds[] = {memory_file(64 * MIB), memory_file(64 * MIB), -1};
    const struct touch a[] = {{fds[0], 64 * MIB, 0, 8 * MIB}};
    const struct touch b[] = {{fds[0], 64 * MIB, 4 * MIB, 12 * MIB}, {fds[1], 64 * MIB, 0, MIB}};
    const struct touch c[] = {{fds[1], 64 * MIB, 0, 20 * MIB}};
    const pid_t child[] = {hold(a, 1), hold(b, 2), hold(c, 1)};
    struct sl_usage_shared shared = {0};
    struct sl_usage_total total = {0};
    struct sl_usage usage;
    const pid_t empty = hold(NULL, 0);
    const uint64_t least = private_of(empty, &shared);
    uint64_t alone = 0;
    end(empty);
    for (size_t i = 0; i < SL_COUNT_OF(fds); i++)
        sl_usage_share(&shared, fds[i]);
    ck_assert_uint_eq(shared.n, 2);
    for (size_t i = 0; i < SL_COUNT_OF(child); i++) {
        ck_assert(sl_usage_read(child[i], &shared, &usage));
        assert_near(usage.private_bytes, least, 0); // nothing of what is shared
        sl_usage_add(&total, i < 2 ? SL_USAGE_TRAINERS : SL_USAGE_SAMPLERS, &usage);
        alone += usage.private_bytes;
    }
    // 12 and 20; the largest of one process is 20, and the sum 37.
    assert_near(shared.bytes, 32 * MIB, 2 * huge);
    ck_assert_uint_eq(sl_usage_held(&total, &shared), alone + shared.bytes);
    for (size_t i = 0; i < SL_COUNT_OF(child); i++)
        end(child[i]);
    // It is there as long as the file is, whoever touched it.
    ck_assert_uint_eq(shared_bytes(fds, SL_COUNT_OF(fds)), shared.bytes);
    ck_assert_int_eq(fallocate(fds[1], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 64 * MIB), 0);
    assert_near(shared_bytes(fds, SL_COUNT_OF(fds)), 12 * MIB, huge);
    ck_assert(!sl_usage_read(child[0], &shared, &usage));
}

// As memory is that a GPU's driver pins, and a file that a process shares with nobody.
TEST(what_is_shared_in_name_only_is_private)
{
    const struct sl_usage_shared none = {0};
    const int own = memory_file(32 * MIB);
    const struct touch file = {own, 32 * MIB, 0, 32 * MIB};
    const struct touch pinned = {-1, 16 * MIB, 0, 16 * MIB};
    // Of what is only mapped it is no more than what the process has of all such memory.
    const struct touch untouched = {-1, 512 * MIB, 0, 4 * MIB};
    const pid_t empty = hold(NULL, 0);
    const uint64_t least = private_of(empty, &none);
    const struct {
        const struct touch *touch;
        uint64_t bytes;
    } cases[] = {{&pinned, 16 * MIB}, {&file, 32 * MIB}, {&untouched, 4 * MIB}};
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        const pid_t pid = hold(cases[i].touch, 1);
        assert_near(private_of(pid, &none), least + cases[i].bytes, huge);
        end(pid);
    }
    struct sl_usage_shared shared = {0};
    const pid_t pid = hold((const struct touch[]){file, pinned}, 2);
    sl_usage_share(&shared, own);
    assert_near(private_of(pid, &shared), least + 16 * MIB, huge);
    end(pid);
    end(empty);
}

TEST(a_file_on_a_disk_is_not_held)
{
    struct sl_usage_shared shared = {0};
    struct statfs fs;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(fstatfs(fd, &fs), 0);
    sl_usage_share(&shared, fd);
    ck_assert_uint_eq(shared.bytes > 0, fs.f_type == TMPFS_MAGIC);
    close(fd);
}

// Samplers map the graph, trainers the features; both the programs' files, which are small.
TEST(pages_of_files_are_those_of_both_roles)
{
    const struct sl_usage_shared shared = {.bytes = 7};
    struct sl_usage_total total = {0};
    sl_usage_add(&total, SL_USAGE_BROKER, &(struct sl_usage){1, 10, 50});
    ck_assert_uint_eq(sl_usage_used(&total, &shared), 7 + 10 + 50);
    sl_usage_add(&total, SL_USAGE_SAMPLERS, &(struct sl_usage){1, 10, 400});
    sl_usage_add(&total, SL_USAGE_SAMPLERS, &(struct sl_usage){1, 10, 300});
    sl_usage_add(&total, SL_USAGE_TRAINERS, &(struct sl_usage){1, 10, 1000});
    sl_usage_add(&total, SL_USAGE_TRAINERS, &(struct sl_usage){1, 10, 2000});
    ck_assert_uint_eq(sl_usage_held(&total, &shared), 7 + 50);
    ck_assert_uint_eq(sl_usage_used(&total, &shared), 7 + 50 + 2400);
}

RUN_TESTS()
