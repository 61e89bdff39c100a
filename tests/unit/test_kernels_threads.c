// The threads that operations share: every part once, numbers within a call, callers side by side.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/device/cores.h"
#include "kernels/cpu/cpu_internal.h"
#include "tests/unit/suite.h"

enum { PARTS_MAX = 4096, THREADS = 5 };

struct work {
    _Atomic uint32_t done[PARTS_MAX];
    _Atomic uint32_t in[THREADS]; // calls of the body under way with that thread number
    _Atomic uint32_t wrong;
    uint32_t threads; // numbers below it may be met
};

static void body(void *context, uint32_t part)
{
    struct work *w = context;
    uint32_t number = sl_cpu_thread_number();
    atomic_fetch_add(&w->done[part], 1);
    if (number >= w->threads || atomic_fetch_add(&w->in[number], 1) != 0) {
        atomic_fetch_add(&w->wrong, 1);
        return;
    }
    for (volatile int i = 0; i < 200; i++) {
    }
    atomic_fetch_sub(&w->in[number], 1);
}

static void run(struct work *w, uint32_t parts)
{
    memset(w, 0, sizeof *w);
    w->threads = SL_MIN((uint32_t)sl_cpu_threads(), parts);
    sl_cpu_parallel_parts(parts, body, w);
    ck_assert_uint_eq(w->wrong, 0);
    uint32_t others = 0; // a ck_assert that holds costs a system call
    for (uint32_t i = 0; i < PARTS_MAX; i++)
        others += w->done[i] != (i < parts);
    ck_assert_uint_eq(others, 0);
}

TEST(every_part_is_done_once)
{
    static const uint32_t parts[] = {1, 2, 3, 7, 64, 1000, PARTS_MAX};
    static struct work w;
    for (int round = 0; round < 50; round++)
        for (int threads = 1; threads <= THREADS; threads++) {
            sl_kernels_set_threads(threads); // also fewer than before
            for (size_t i = 0; i < SL_COUNT_OF(parts); i++)
                run(&w, parts[i]);
        }
}

static void *call_often(void *unused)
{
    struct work *w = malloc(sizeof *w);
    (void)unused;
    for (int i = 0; i < 300; i++)
        run(w, 1 + (uint32_t)i % 40);
    free(w);
    return NULL;
}

// More callers than there are slots.
TEST(callers_share_the_helpers)
{
    pthread_t thread[8];
    sl_kernels_set_threads(3);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
}

// Both threads of a call of two parts are inside at once, so somebody has joined the caller.
static void meet(void *context, uint32_t part)
{
    _Atomic uint32_t *there = context;
    (void)part;
    atomic_fetch_add(there, 1);
    while (atomic_load(there) < 2)
        usleep(100);
}

TEST(somebody_helps)
{
    for (int round = 0; round < 20; round++) {
        _Atomic uint32_t there = 0;
        sl_kernels_set_threads(2);
        if (round % 2)
            usleep(2000); // the helper sleeps
        sl_cpu_parallel_parts(2, meet, &there);
    }
}

static void call_within(void *context, uint32_t part)
{
    (void)part;
    struct work *w = malloc(sizeof *w);
    memset(w, 0, sizeof *w);
    w->threads = THREADS;
    sl_cpu_parallel_parts(10, body, w);
    for (int i = 0; i < 10; i++)
        atomic_fetch_add((_Atomic uint32_t *)context, w->done[i]);
    free(w);
}

TEST(a_call_within_a_call_is_the_threads_own)
{
    _Atomic uint32_t done = 0;
    sl_kernels_set_threads(3);
    sl_cpu_parallel_parts(30, call_within, &done);
    ck_assert_uint_eq(done, 300);
}

TEST(a_child_of_fork_works_on)
{
#ifdef __SANITIZE_THREAD__
    printf("SKIP: ThreadSanitizer starts no threads behind a fork\n");
    return;
#endif
    static struct work w;
    sl_kernels_set_threads(3);
    run(&w, 100);
    pid_t child = fork();
    if (child == 0) {
        run(&w, 100);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct sl_cores wanted;
static _Atomic uint32_t elsewhere;

static void where(void *context, uint32_t part)
{
    struct sl_cores have;
    meet(context, part);
    if (sl_cores_allowed(&have) < 0 || memcmp(&have, &wanted, sizeof have) != 0)
        atomic_fetch_add(&elsewhere, 1);
}

static void *others_count(void *out)
{
    *(int *)out = sl_cpu_threads();
    return NULL;
}

TEST(cores_are_the_callers_and_the_helpers)
{
    struct sl_cores all;
    uint16_t list[SL_CORES_MAX];
    pthread_t thread;
    int others = 0;
    ck_assert_int_eq(sl_cores_allowed(&all), SL_OK);
    if (sl_cores_list(&all, list, SL_CORES_MAX) < 2) {
        printf("SKIP: wanted two cores\n");
        return;
    }
    sl_kernels_set_threads(1);
    for (int i = 0; i < 2; i++)
        sl_cores_add(&wanted, list[i]);
    ck_assert_int_eq(sl_kernels_take_cores(&wanted), SL_OK);
    ck_assert_int_eq(sl_cpu_threads(), 2);
    _Atomic uint32_t there = 0;
    sl_cpu_parallel_parts(2, where, &there);
    ck_assert_uint_eq(elsewhere, 0);
    // How many threads another caller's operations have is not changed in the middle of one.
    pthread_create(&thread, NULL, others_count, &others);
    pthread_join(thread, NULL);
    ck_assert_int_eq(others, 1);
    wanted = (struct sl_cores){0};
    sl_cores_add(&wanted, list[1]);
    ck_assert_int_eq(sl_kernels_take_cores(&wanted), SL_OK);
    ck_assert_int_eq(sl_cpu_threads(), 1);
}

RUN_TESTS(.timeout_s = 0)
