// Waiting on a core that is somebody else's, too.
#include "common/base/spin.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

TEST(a_spin_ends)
{
    struct sl_spin spin = {.left = 100};
    int n = 0;
    while (sl_spin(&spin))
        n++;
    ck_assert_int_lt(n, 100);
    ck_assert(!sl_spin(&spin));
}

struct neighbour {
    _Atomic bool runs, stop;
};

static void *compute(void *context)
{
    struct neighbour *n = context;
    while (!atomic_load(&n->stop))
        atomic_store(&n->runs, true);
    return NULL;
}

// Both on one core: one that never gave it up would spin for days.
TEST(a_core_that_another_thread_wants_is_left_to_it)
{
    struct neighbour n = {false};
    struct sl_spin spin = {.left = UINT32_MAX};
    pthread_t thread;
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, compute, &n), 0);
    while (!atomic_load(&n.runs))
        sched_yield();
    while (sl_spin(&spin)) {
    }
    atomic_store(&n.stop, true);
    pthread_join(thread, NULL);
}

RUN_TESTS(.timeout_s = 60)
