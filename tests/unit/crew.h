/*
 * crew.h - processes that do as a test says: each is a worker with a GPU of its own, gets orders
 * and answers each of them. A test kills them, and stops them where they are.
 */
#ifndef SL_TESTS_UNIT_CREW_H
#define SL_TESTS_UNIT_CREW_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "tests/unit/asserts.h"

struct crew_answer {
    uint64_t a, b;
};

struct crew {
    pid_t pid;
    int orders, answers;
};

// What a process has of it.
struct crew_post {
    int orders, answers;
};

// False: there are no more orders.
static inline bool crew_take(const struct crew_post *post, int *order)
{
    return read(post->orders, order, sizeof *order) == sizeof *order;
}

static inline void crew_answer(const struct crew_post *post, struct crew_answer a)
{
    ck_assert_int_eq(write(post->answers, &a, sizeof a), sizeof a);
}

// A process with emulated GPUs and this fail-point, which works until it has no orders.
static inline struct crew crew_start(void (*work)(void *ctx, const struct crew_post *post),
                                     void *ctx, const char *failpoint)
{
    int orders[2], answers[2];
    ck_assert(pipe(orders) == 0 && pipe(answers) == 0);
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(orders[1]);
        setenv("SLUICE_SIMT_DEVICES", "8", 1);
        setenv("SLUICE_FAILPOINT", failpoint, 1);
        ck_assert_int_eq(sl_failpoint_init(), SL_OK);
        work(ctx, &(struct crew_post){orders[0], answers[1]});
        _exit(0);
    }
    close(orders[0]);
    close(answers[1]);
    return (struct crew){pid, orders[1], answers[0]};
}

static inline void crew_tell(const struct crew *c, int order)
{
    ck_assert_int_eq(write(c->orders, &order, sizeof order), sizeof order);
}

static inline struct crew_answer crew_hear(const struct crew *c)
{
    struct crew_answer a = {0};
    ck_assert_msg(read(c->answers, &a, sizeof a) == sizeof a, "a worker has failed");
    return a;
}

static inline struct crew_answer crew_ask(const struct crew *c, int order)
{
    crew_tell(c, order);
    return crew_hear(c);
}

static inline void crew_ask_all(const struct crew *c, uint32_t n, int order)
{
    for (uint32_t i = 0; i < n; i++)
        crew_ask(&c[i], order);
}

static inline void crew_forget(const struct crew *c)
{
    close(c->orders);
    close(c->answers);
}

// By whatever it dies.
static inline void crew_await_death(const struct crew *c)
{
    int status;
    ck_assert_int_eq(waitpid(c->pid, &status, 0), c->pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    crew_forget(c);
}

static inline void crew_kill(const struct crew *c)
{
    ck_assert_int_eq(kill(c->pid, SIGKILL), 0);
    crew_await_death(c);
}

static inline void crew_await_stop(const struct crew *c)
{
    int status;
    ck_assert_int_eq(waitpid(c->pid, &status, WUNTRACED), c->pid);
    ck_assert(WIFSTOPPED(status));
}

// All at once, with their last order.
static inline void crew_leave_all(const struct crew *c, uint32_t n, int order)
{
    int status;
    for (uint32_t i = 0; i < n; i++)
        crew_tell(&c[i], order);
    for (uint32_t i = 0; i < n; i++) {
        crew_hear(&c[i]);
        ck_assert_int_eq(waitpid(c[i].pid, &status, 0), c[i].pid);
        ck_assert_int_eq(status, 0);
        crew_forget(&c[i]);
    }
}

#endif
