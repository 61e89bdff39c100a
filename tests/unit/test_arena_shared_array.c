// An array that one process makes and others map.
#include "common/arena/shared_array.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

enum { N = 3000000 / 8 };

static int fd;
static int made;     // times, by this process
static int lives[2]; // a pipe: who reads it lives until this process ends

static void setup(void)
{
    fd = memfd_create("array", 0);
    ck_assert_int_ge(fd, 0);
    made = 0;
}

static void teardown(void)
{
    close(fd);
}

static int count_up(void *ctx, void *data)
{
    uint64_t *at = data;
    for (uint64_t i = 0; i < N; i++)
        at[i] = i + *(const uint64_t *)ctx;
    made++;
    return SL_OK;
}

static int die_half_way(void *ctx, void *data)
{
    (void)ctx;
    memset(data, 0xff, N * 4);
    kill(getpid(), SIGKILL);
    return SL_OK;
}

static int refuse(void *ctx, void *data)
{
    (void)ctx, (void)data;
    return sl_fail(SL_EINVAL, "edge 3 has weight -1");
}

static void assert_counts_from(const struct sl_shared_array *a, uint64_t first)
{
    const uint64_t *at = a->data;
    for (uint64_t i = 0; i < N; i++)
        if (at[i] != i + first)
            ck_abort_msg("element %zu is %zu, wanted %zu", (size_t)i, (size_t)at[i],
                         (size_t)(i + first));
    ck_assert_uint_eq((uintptr_t)at % (2 << 20), 0);
}

static int open_with(int file, sl_shared_array_make make, void *ctx, struct sl_shared_array *a)
{
    const struct sl_shared_array_spec spec = {
        .fd = file, .bytes = N * sizeof(uint64_t), .make = make, .ctx = ctx};
    return sl_shared_array_open(&spec, a);
}

static int open_from(uint64_t first, struct sl_shared_array *a)
{
    return open_with(fd, count_up, &first, a);
}

TEST(the_first_makes_it_for_all)
{
    struct sl_shared_array a, b;
    ck_assert_int_eq(open_from(5, &a), SL_OK);
    ck_assert_int_eq(open_from(6, &b), SL_OK); // another array, if it were made
    ck_assert_int_eq(made, 1);
    ck_assert(a.made_here && !b.made_here);
    assert_counts_from(&a, 5);
    assert_counts_from(&b, 5);
    sl_shared_array_close(&a);
    assert_counts_from(&b, 5);
    sl_shared_array_close(&b);
    sl_shared_array_close(&b);
}

TEST(one_that_died_half_way_is_followed_by_the_next)
{
    pid_t child = fork();
    if (child == 0) {
        struct sl_shared_array a;
        open_with(fd, die_half_way, NULL, &a);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    struct sl_shared_array a;
    ck_assert_int_eq(open_from(9, &a), SL_OK);
    ck_assert(a.made_here);
    assert_counts_from(&a, 9);
    sl_shared_array_close(&a);
}

// All begin at once; each writes its own number, and all must read the same.
TEST(many_at_once_make_one)
{
    enum { CHILDREN = 6 };
    int go[2], result[2];
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(result), 0);
    for (uint64_t c = 0; c < CHILDREN; c++)
        if (fork() == 0) {
            struct sl_shared_array a;
            uint64_t answer[2] = {0, 0};
            char word;
            close(go[1]);
            if (read(go[0], &word, 1) == 0 && open_from(100 * (c + 1), &a) == SL_OK) {
                answer[0] = *(const uint64_t *)a.data;
                answer[1] = a.made_here;
                assert_counts_from(&a, answer[0]);
            }
            ssize_t written = write(result[1], answer, sizeof answer);
            _exit(written != sizeof answer);
        }
    close(go[1]);
    uint64_t first = 0, makers = 0;
    for (int c = 0; c < CHILDREN; c++) {
        uint64_t answer[2];
        ck_assert_int_eq(read(result[0], answer, sizeof answer), sizeof answer);
        ck_assert_uint_ne(answer[0], 0);
        ck_assert(first == 0 || answer[0] == first);
        first = answer[0];
        makers += answer[1];
    }
    ck_assert_uint_eq(makers, 1);
    while (wait(NULL) > 0) {
    }
}

// A child that stands still while it makes the array. The array is its alone, whatever it does with
// another descriptor of the file, and once it is dead the next one's, whomever it has started.
static int stand_half_way(void *ctx, void *data)
{
    (void)ctx;
    memset(data, 0xff, N * 4);
    close(dup(fd));
    if (fork() == 0) {
        dup2(lives[0], STDIN_FILENO);
        execlp("cat", "cat", NULL);
        _exit(127);
    }
    kill(getpid(), SIGSTOP);
    return SL_OK;
}

static pid_t start_standing_maker(void)
{
    struct sl_shared_array a;
    int status;
    ck_assert_int_eq(pipe2(lives, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        open_with(fd, stand_half_way, NULL, &a);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    return child;
}

struct waiter {
    pthread_t thread;
    _Atomic bool stops, over;
    struct sl_shared_array a;
    int rc;
};

static void *wait_for_maker(void *arg)
{
    struct waiter *w = arg;
    uint64_t first = 40;
    const struct sl_shared_array_spec spec = {.fd = fd,
                                              .bytes = N * sizeof(uint64_t),
                                              .make = count_up,
                                              .ctx = &first,
                                              .stops = &w->stops};
    w->rc = sl_shared_array_open(&spec, &w->a);
    atomic_store(&w->over, true);
    return NULL;
}

// Who waits gives up, when it is stopped or at the bound; or goes on itself when the maker is dead.
LOOP_TEST(waiting_for_a_maker_that_stands_still_is_bounded, 0, 3)
{
    enum { STOPPED, TOO_LONG, DEAD };
    static const int wanted[] = {SL_EABORTED, SL_ETIMEDOUT, SL_OK};
    const pid_t maker = start_standing_maker();
    struct waiter w = {0};
    ck_assert_int_eq(pthread_create(&w.thread, NULL, wait_for_maker, &w), 0);
    if (_i == STOPPED)
        atomic_store(&w.stops, true);
    if (_i == DEAD)
        kill(maker, SIGKILL);
    while (_i == TOO_LONG && !atomic_load(&w.over)) {
        sl_clock_advance((uint64_t)SL_SHARED_ARRAY_SECONDS * 1000000000u);
        sched_yield();
    }
    pthread_join(w.thread, NULL);
    ck_assert_int_eq(w.rc, wanted[_i]);
    ck_assert(!w.a.data == (_i != DEAD));
    if (_i == DEAD) {
        ck_assert(w.a.made_here);
        assert_counts_from(&w.a, 40);
    }
    sl_shared_array_close(&w.a);
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
}

// Whether the process may write where `p` points.
static bool may_write(const void *p)
{
    unsigned long from, to;
    char line[512], may[8];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (!found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%lx-%lx %7s", &from, &to, may) == 3 && from <= (uintptr_t)p &&
                (uintptr_t)p < to;
    fclose(maps);
    ck_assert(found);
    return may[1] == 'w';
}

TEST(only_what_is_to_be_pinned_may_be_written)
{
    uint64_t first = 3;
    struct sl_shared_array a;
    ck_assert_int_eq(open_with(fd, count_up, &first, &a), SL_OK);
    ck_assert(!may_write(a.data));
    ck_assert_int_eq(sl_shared_array_let_pin(&a), SL_OK);
    ck_assert(may_write(a.data));
    sl_shared_array_close(&a);
}

TEST(all_know_of_the_huge_pages)
{
    struct sl_shared_array a, b;
    ck_assert_int_eq(open_from(5, &a), SL_OK);
    ck_assert_int_eq(open_from(5, &b), SL_OK);
    ck_assert_int_eq(a.huge, b.huge);
    sl_shared_array_close(&a);
    sl_shared_array_close(&b);
}

TEST(what_can_not_be_made_is_an_error_and_left_to_the_next)
{
    struct sl_shared_array a;
    ck_assert_int_eq(open_with(fd, refuse, NULL, &a), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "edge 3"));
    ck_assert_ptr_null(a.data);
    ck_assert_int_eq(open_from(1, &a), SL_OK);
    assert_counts_from(&a, 1);
    sl_shared_array_close(&a);
    const struct sl_shared_array_spec other = {
        .fd = fd, .bytes = 2 * N * sizeof(uint64_t), .make = count_up, .ctx = &a};
    ck_assert_int_eq(sl_shared_array_open(&other, &a), SL_EPROTO);
}

TEST(without_a_file_it_is_ones_own)
{
    uint64_t first = 2;
    struct sl_shared_array a;
    ck_assert_int_eq(open_with(-1, count_up, &first, &a), SL_OK);
    assert_counts_from(&a, 2);
    sl_shared_array_close(&a);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
