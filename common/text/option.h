/*
 * option.h - one option of a command line: its name, type, bounds and help, and where its value
 * lies in a struct that holds the default before parsing. Who offers an option describes it, in a
 * constant table that ends with an entry without a name; cli/options.h parses, checks and
 * explains all of them.
 */
#ifndef SL_TEXT_OPTION_H
#define SL_TEXT_OPTION_H

#include <stdbool.h>
#include <stddef.h>

enum sl_option_type {
    SL_OPTION_FLAG,   // bool: --name sets it, --no-name clears it
    SL_OPTION_TEXT,   // const char *: any text but the empty one
    SL_OPTION_LIST,   // struct sl_text_list (cli/command.h): may be given many times
    SL_OPTION_UINT,   // uint64_t: whole number in [min, max]; 2e6 and 1_000_000 are fine
    SL_OPTION_REAL,   // double: in [min, max]
    SL_OPTION_SIZE,   // uint64_t: bytes: 4GiB, 512MiB, 2e6
    SL_OPTION_CHOICE, // int: index into `choices`
};

struct sl_option {
    const char *name;  // long name without dashes
    char letter;       // short name, 0 for none
    const char *alias; // a long name it had before: accepted, not shown; NULL for none
    enum sl_option_type type;
    size_t offset;           // of the value in the struct
    const char *placeholder; // what the value is called in --help: "DIR", "N"
    const char *help;
    // UINT, REAL and SIZE: both 0 means no bounds. A default beyond them stands for one that is
    // computed; --help does not show it.
    double min, max;
    const char *const *choices; // CHOICE: NULL-terminated
    size_t given; // of a bool that is set when the user gave the option, not the struct's first; 0:
                  // there is none
    bool required;
    bool no_default; // --help does not show the default (it is computed or means nothing)
};

// The type of a value, without SL_OPTION_, and the field that it is.
#define SL_OPTION_AT(kind, struct_, field)                                                         \
    .type = SL_OPTION_##kind, .offset = offsetof(struct struct_, field)
#define SL_OPTION_GIVEN(struct_, field) .given = offsetof(struct struct_, field)

#endif
