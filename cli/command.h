/*
 * command.h - the commands of `sluice`: how each describes itself, and how they end.
 *
 * A command is a constant: its texts, its operands and options (in tables, with offsets into a
 * struct of its own that dispatch.h makes for it), and what it does with them. It returns an exit
 * status (0, or a positive one whose reason it has shown itself), or a negative SL_E* code: main()
 * then prints "sluice: " and the recorded message, and sl_exit_status() says how the process ends.
 */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text/option.h"

enum sl_exit {
    SL_EXIT_OK = 0,
    SL_EXIT_FAILED = 1,        // it began and did not succeed
    SL_EXIT_USAGE = 2,         // usage, configuration or a data set that cannot be used
    SL_EXIT_INTERRUPTED = 130, // Ctrl-C
};

struct sl_text_list {
    const char **items; // borrowed from argv
    size_t n;
};

struct sl_operand {
    const char *name; // "JOB.json"
    size_t offset;    // of a const char *, which NULL or another default stays in
    bool optional;
};

// A table of options, and where the struct that its offsets are of lies in the command's.
struct sl_option_group {
    const struct sl_option *options;
    size_t offset;
    bool elsewhere; // a pointer to that struct lies there
};

enum { SL_COMMAND_OPERANDS_MAX = 3, SL_COMMAND_GROUPS_MAX = 10 };

struct sl_command {
    const char *name;    // "generate planted": what is typed after `sluice`
    const char *help;    // a line in the list of commands; NULL: not in it
    const char *about;   // what it does, in a few lines
    const char *example; // complete command lines, one a line
    // Both end with an entry without a name or a table; options also where they are full.
    struct sl_operand operands[SL_COMMAND_OPERANDS_MAX + 1];
    struct sl_option_group options[SL_COMMAND_GROUPS_MAX];
    struct sl_operand rest; // all words after the operands: a struct sl_text_list

    // Its struct, which begins as `defaults`, or zeroed; init, where it is not NULL, sets more.
    // fini, NULL where there is nothing to release, is called whatever came before.
    size_t bytes;
    const void *defaults;
    int (*init)(const struct sl_command *c, void *state);
    int (*run)(void *state);
    void (*fini)(void *state);

    // A group of commands instead: what is chosen ("format"), and from which.
    const char *kind;
    const struct sl_command *(*kinds)(void); // ends with an entry without a name
    const void *of;                          // what a command of a group is of; its own business
};

// All of them, X(name), in the order in which they are listed.
// clang-format off
#define SL_COMMANDS(X) \
    X(run) X(submit) X(ps) X(logs) X(stats) X(stop) X(pause) X(resume) X(wait) X(top) X(scale) \
    X(trace) X(report) X(predict) X(embed) X(generate) X(import) X(reorder) X(stripe) \
    X(import_weights) X(inspect) X(schema) X(keygen) X(doctor) X(completion) X(complete)
// clang-format on

#define SL_COMMAND_EXTERN(name) extern const struct sl_command sl_command_##name;
SL_COMMANDS(SL_COMMAND_EXTERN)
#undef SL_COMMAND_EXTERN

#endif
