// bench.h - what the programs of this folder have in common: errors that end them, and medians.
#ifndef SL_TESTS_BENCH_BENCH_H
#define SL_TESTS_BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/arguments.h"

static inline void must_ok(int code)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, sl_error_message());
    exit(1);
}

static inline void *must(void *p)
{
    if (p)
        return p;
    fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
    exit(1);
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Orders the values.
static inline double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n ? values[n / 2] : 0;
}

#endif
