/*
 * arguments.h - what stresses, benches and drivers are told on the command line: tables, as every
 * program of ours has them (common/text/options.h).
 */
#ifndef SL_TESTS_ARGUMENTS_H
#define SL_TESTS_ARGUMENTS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "common/text/options.h"

// A whole number from least to most of a struct's uint64_t or uint32_t.
#define ARGUMENT_NUMBER(name_, struct_, field, least, most)                                        \
    {                                                                                              \
        .name = name_, SL_OPTION_AT(UINT, struct_, field), .placeholder = "N", .min = least,       \
        .max = most, .help = ""                                                                    \
    }
#define ARGUMENT_FLAG(name_, struct_, field)                                                       \
    {                                                                                              \
        .name = name_, SL_OPTION_AT(FLAG, struct_, field), .help = ""                              \
    }
#define ARGUMENT_TEXT(name_, struct_, field)                                                       \
    {                                                                                              \
        .name = name_, SL_OPTION_AT(TEXT, struct_, field), .placeholder = "TEXT", .help = ""       \
    }
#define ARGUMENT_CHOICE(name_, struct_, field, words)                                              \
    {                                                                                              \
        .name = name_, SL_OPTION_AT(CHOICE, struct_, field), .choices = words, .help = ""          \
    }

// Ends the program with the recorded message.
__attribute__((noreturn)) static inline void arguments_refuse(void)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, sl_error_message());
    exit(2);
}

// Help that is asked for, and an error, end the program.
static inline void arguments_parse(const struct sl_command *c, void *state, int argc, char **argv)
{
    int rc = sl_options_parse(c, state, argc, argv);
    if (rc < 0)
        arguments_refuse();
    if (rc == SL_OPTIONS_HELP)
        exit(0);
}

// The numbers of a list such as 15,10,5, each from low to high; how many they are, 1 to most.
static inline uint32_t arguments_numbers(const char *option, const char *text, double low,
                                         double high, uint32_t most, double *out)
{
    uint32_t n = 0;
    for (const char *p = text;; p++) {
        char *end;
        double value = strtod(p, &end);
        if (end == p || (*end && *end != ',') || !(value >= low && value <= high) || n == most) {
            sl_fail(SL_EINVAL,
                    "--%s '%s': wanted at most %u numbers from %g to %g with commas between "
                    "them",
                    option, text, most, low, high);
            arguments_refuse();
        }
        out[n++] = value;
        if (!*end)
            return n;
        p = end;
    }
}

#endif
