// await.h - waiting for an event in a test; the only time is the bound after which it gives up.
#ifndef SL_TESTS_UNIT_AWAIT_H
#define SL_TESTS_UNIT_AWAIT_H

#include <unistd.h>

#include "tests/unit/asserts.h"

enum {
    AWAIT_MS = 60000,
    AWAIT_CASE_S = 180, // for the time-out of a case that waits: more than one bound
};

// Looks every millisecond until it is so. Counts its own sleeps, so a clock that the test moves
// does not shorten the bound.
#define AWAIT(condition_)                                                                          \
    do {                                                                                           \
        for (int left_ms_ = AWAIT_MS; !(condition_); left_ms_--) {                                 \
            ck_assert_msg(left_ms_ > 0, "after %d s still not: %s", AWAIT_MS / 1000, #condition_); \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)

#endif
