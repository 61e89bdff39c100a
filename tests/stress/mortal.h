/*
 * mortal.h - workers of a stress program that die at a random instruction, a given number of
 * batches apart.
 *
 * Whoever kills by the clock kills nobody where the work is over sooner than it thinks. Here a life
 * is as many claims as its worker's number says, one to twice the mean; with the last of them the
 * worker has the kernel send it SIGKILL in at most DELAY_NS, wherever it is then. So the number of
 * deaths follows from the number of batches, whatever the machine does.
 */
#ifndef SL_TESTS_STRESS_MORTAL_H
#define SL_TESTS_STRESS_MORTAL_H

#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "common/base/bits.h"

enum {
    MORTAL_DELAY_NS = 500 * 1000,
    MORTAL_LATE_CLAIMS = 200, // more than can be made until then
    MORTAL_IDS = 60000,       // worker ids have 16 bits: who comes last lives
};

struct mortal {
    uint64_t random;
    uint32_t left; // claims; 0 = it lives until the end
};

// mean: claims of a life, 0 = nobody dies. random: of this worker.
static inline struct mortal mortal_born(uint32_t id, uint32_t mean, uint64_t random)
{
    const uint32_t left = mean && id < MORTAL_IDS ? 1 + (uint32_t)(random >> 33) % (2 * mean) : 0;
    return (struct mortal){.random = random, .left = left};
}

// The worker has claimed a batch.
static inline void mortal_claims(struct mortal *m)
{
    struct sigevent death = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    const struct itimerspec when = {.it_value.tv_nsec = 1 + (long)(m->random % MORTAL_DELAY_NS)};
    timer_t timer;
    if (m->left == 0 || --m->left > 0)
        return;
    if (timer_create(CLOCK_MONOTONIC, &death, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0)
        raise(SIGKILL);
}

// Deaths that a run has at least in which n_workers draw and train all batches: all lives but the
// last ones have ended.
static inline uint64_t mortal_least(uint64_t batches, uint32_t n_workers, uint32_t mean)
{
    if (mean == 0)
        return 0;
    uint64_t lives = 2 * (batches / (2 * mean + MORTAL_LATE_CLAIMS)); // drawn, and trained
    lives = SL_MIN(lives, (uint64_t)MORTAL_IDS);
    return lives > n_workers ? lives - n_workers : 1;
}

#endif
