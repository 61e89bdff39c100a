/*
 * asserts.h - Check's assertions, of which each tells once that it held.
 *
 * Check writes a message for every assertion that holds, and reads all of them when the test is
 * over, to say of a test that died after which line it did: under a sanitizer that is half of the
 * time of a test that compares arrays. Here a line tells so when it is first reached.
 */
#ifndef SL_TESTS_UNIT_ASSERTS_H
#define SL_TESTS_UNIT_ASSERTS_H

#include <check.h>

static inline void unit_held(const char *file, int line)
{
    static unsigned char told[1024]; // by line; a source file is shorter
    if (!__atomic_exchange_n(&told[line % 1024], 1, __ATOMIC_RELAXED))
        _mark_point(file, line);
}
#define _mark_point unit_held

#endif
