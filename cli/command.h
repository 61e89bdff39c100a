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

#include "common/text/options.h"

enum sl_exit {
    SL_EXIT_OK = 0,
    SL_EXIT_FAILED = 1,        // it began and did not succeed
    SL_EXIT_USAGE = 2,         // usage, configuration or a data set that cannot be used
    SL_EXIT_INTERRUPTED = 130, // Ctrl-C
};

// All of them, X(name), in the order in which they are listed.
// clang-format off
#define SL_COMMANDS(X) \
    X(run) X(submit) X(ps) X(logs) X(stats) X(stop) X(pause) X(resume) X(wait) X(top) X(scale) \
    X(trace) X(report) X(predict) X(embed) X(retrieve) X(generate) X(import) X(reorder) \
    X(split_edges) X(featurize) X(partition) X(stripe) X(import_weights) X(inspect) X(schema) \
    X(keygen) X(doctor) X(completion) X(complete)
// clang-format on

#define SL_COMMAND_EXTERN(name) extern const struct sl_command sl_command_##name;
SL_COMMANDS(SL_COMMAND_EXTERN)
#undef SL_COMMAND_EXTERN

#endif
