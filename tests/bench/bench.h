// bench.h - what the programs of this folder have in common: errors that end them, numbers on the
// command line, and medians.
#ifndef SL_TESTS_BENCH_BENCH_H
#define SL_TESTS_BENCH_BENCH_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

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

// A number of the command line; what is none ends the program.
static inline double number(const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);
    if (!*end && end != text && value >= low && value <= high)
        return value;
    fprintf(stderr, "%s: '%s': wanted a number from %g to %g\n", program_invocation_short_name,
            text, low, high);
    exit(2);
}

// Numbers with commas between them, at least one and at most `most`: how many.
static inline uint32_t numbers(char *text, double low, double high, uint32_t most, double *out)
{
    uint32_t n = 0;
    for (char *part = strtok(text, ","); part && n < most; part = strtok(NULL, ","))
        out[n++] = number(part, low, high);
    return n ? n : (uint32_t)number("", low, high);
}

// --fanout: vertices drawn in each hop, -1: all. How many hops.
static inline uint32_t fanout_of(char *text, uint32_t most, int64_t *out)
{
    double fanout[64];
    uint32_t n = numbers(text, -1, 1e6, most < 64 ? most : 64, fanout);
    for (uint32_t h = 0; h < n; h++)
        out[h] = (int64_t)fanout[h];
    return n;
}

// Which of these words it is; one that is none ends the program.
static inline unsigned word_of(const char *text, const char *const *words, unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        if (strcmp(text, words[k]) == 0)
            return k;
    fprintf(stderr, "%s: '%s': wanted one of", program_invocation_short_name, text);
    for (unsigned k = 0; k < n; k++)
        fprintf(stderr, " %s", words[k]);
    fputc('\n', stderr);
    exit(2);
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
